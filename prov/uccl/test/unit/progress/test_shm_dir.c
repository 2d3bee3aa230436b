/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "progress/shm_dir.h"

static char scratch[] = "uccl-test-folder-XXXXXX";

static int setup(void **state)
{
	(void)state;
	return mkdtemp(scratch) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	return rmdir(scratch);
}

static void folder_path__room(void **state)
{
	char path[64], little[8];

	(void)state;
	assert_int_equal(uccl_shm_dir_path(path, sizeof(path)), 0);
	assert_true(uccl_shm_dir_path(little, sizeof(little)) < 0);
}

static void folder_open__made_private(void **state)
{
	char path[64];
	struct stat st;
	int fd;

	(void)state;
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
static void folder_open__link(void **state)
{
	char path[64], link[64];

	(void)state;
	snprintf(path, sizeof(path), "%s/a", scratch);
	snprintf(link, sizeof(link), "%s/b", scratch);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(symlink(path, link), 0);
	assert_int_equal(uccl_shm_dir_open(link), -1);
	unlink(link);
	rmdir(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(folder_path__room),
		cmocka_unit_test(folder_open__made_private),
		cmocka_unit_test(folder_open__link),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
