/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A made-up folder like sysfs, in the folder where the test runs; names are below it. */
#ifndef UCCL_TEST_API_TREE_H
#define UCCL_TEST_API_TREE_H

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../tests.h"

static char tree[32];

static inline int tree_make(void **state)
{
	strcpy(tree, "tree-XXXXXX");
	return mkdtemp(tree) ? 0 : -1;
}

static inline int tree_unlink(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

static inline int tree_remove(void **state)
{
	return nftw(tree, tree_unlink, 16, FTW_DEPTH | FTW_PHYS);
}

/* The path, and all folders above it are there. */
static inline const char *tree_path(const char *name)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", tree, name);
	for (char *s = strchr(path, '/'); s; s = strchr(s + 1, '/')) {
		*s = '\0';
		assert_true(!mkdir(path, 0700) || errno == EEXIST);
		*s = '/';
	}
	return path;
}

static inline void tree_folder(const char *name)
{
	assert_true(!mkdir(tree_path(name), 0700) || errno == EEXIST);
}

static inline void tree_file(const char *name, const char *text)
{
	FILE *f = fopen(tree_path(name), "we");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* `target` as the link says it, or with a leading slash a name in the tree. */
static inline void tree_link(const char *name, const char *target)
{
	char full[PATH_MAX], here[PATH_MAX];

	assert_non_null(getcwd(here, sizeof(here)));
	assert_true(snprintf(full, sizeof(full), "%s/%s%s", here, tree, target) < (int)sizeof(full));
	assert_int_equal(symlink(*target == '/' ? full : target, tree_path(name)), 0);
}

#endif
