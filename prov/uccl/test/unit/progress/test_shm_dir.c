/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../tests.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "progress/shm_dir.h"

static char scratch[] = "uccl-test-folder-XXXXXX";

static int setup(void **state)
{
	return mkdtemp(scratch) ? 0 : -1;
}

static int teardown(void **state)
{
	return rmdir(scratch);
}

TEST(folder_path__room)
{
	char path[64], little[8];

	assert_int_equal(uccl_shm_dir_path(path, sizeof(path)), 0);
	assert_true(uccl_shm_dir_path(little, sizeof(little)) < 0);
}

TEST(folder_open__made_private)
{
	char path[64];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/a", scratch);
	fd = uccl_shm_dir_open(path);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	fd = uccl_shm_dir_open(path);
	assert_true(fd >= 0);
	close(fd);
	/* Others may look in: not any more. */
	assert_int_equal(chmod(path, 0710), 0);
	assert_int_equal(uccl_shm_dir_open(path), -1);
	assert_int_equal(errno, EPERM);
	rmdir(path);
}

/* A link that somebody laid there leads nowhere. */
TEST(folder_open__link)
{
	char path[64], link[64];

	snprintf(path, sizeof(path), "%s/a", scratch);
	snprintf(link, sizeof(link), "%s/b", scratch);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(symlink(path, link), 0);
	assert_int_equal(uccl_shm_dir_open(link), -1);
	unlink(link);
	rmdir(path);
}

TESTS_MAIN_IN(setup, teardown)
