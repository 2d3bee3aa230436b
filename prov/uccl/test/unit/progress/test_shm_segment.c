/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "progress/shm_segment.h"

#include <stdint.h>
#include "../tests.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 100000

static int file;

static int begin(void **state)
{
	char name[] = "uccl-segment-XXXXXX";

	file = mkstemp(name);
	assert_true(file >= 0);
	unlink(name);
	return 0;
}

static int end(void **state)
{
	close(file);
	return 0;
}

TEST_IN(find__the_same, begin, end)
{
	uint8_t *a = NULL, *b = NULL, *c = NULL;
	size_t bytes = 0;

	assert_int_equal(uccl_shm_segment_find(file, false, (void **)&b, &bytes), -EINVAL);
	assert_int_equal(uccl_shm_segment_make(file, BYTES, (void **)&a), 0);
	assert_int_equal((uintptr_t)a % 64, 0);
	for (int i = 0; i < BYTES; i++)
		assert_int_equal(a[i], 0);
	assert_int_equal(uccl_shm_segment_find(file, false, (void **)&b, &bytes), 0);
	assert_int_equal(bytes, BYTES);
	assert_int_equal(uccl_shm_segment_find(file, true, (void **)&c, &bytes), 0);
	memset(a, 1, BYTES);
	b[BYTES - 1] = 2;
	assert_true(b[0] == 1 && c[0] == 1 && a[BYTES - 1] == 2 && c[BYTES - 1] == 2);
	uccl_shm_segment_drop(a);
	assert_int_equal(b[5], 1);
	uccl_shm_segment_drop(b);
	uccl_shm_segment_drop(c);
	uccl_shm_segment_drop(NULL);
	/* The last one that had it let go. */
	assert_int_equal(uccl_shm_segment_find(file, false, (void **)&a, &bytes), -ENOENT);
}

/* Whoever cuts the file off keeps others out; who has the segment reads and writes on. */
TEST_IN(find__cut_off, begin, end)
{
	uint8_t *a = NULL, *b = NULL;
	size_t bytes = 0;

	assert_int_equal(uccl_shm_segment_make(file, BYTES, (void **)&a), 0);
	for (int len = 31; len >= 0; len--) {
		assert_int_equal(ftruncate(file, len), 0);
		assert_int_equal(uccl_shm_segment_find(file, false, (void **)&b, &bytes), -EINVAL);
		memset(a, len, BYTES);
	}
	assert_int_equal(a[BYTES - 1], 0);
	uccl_shm_segment_drop(a);
}

/* Any nonsense in the file leads to nothing that is not the right segment. */
TEST_IN(find__nonsense, begin, end)
{
	uint64_t words[4], bad[4];
	uint8_t *a = NULL, *b = NULL;
	size_t bytes = 0;

	assert_int_equal(uccl_shm_segment_make(file, BYTES, (void **)&a), 0);
	assert_int_equal(pread(file, words, sizeof(words), 0), sizeof(words));
	for (int bit = 0; bit < 256; bit++) {
		memcpy(bad, words, sizeof(bad));
		bad[bit / 64] ^= 1ull << bit % 64;
		assert_int_equal(pwrite(file, bad, sizeof(bad), 0), sizeof(bad));
		assert_true(uccl_shm_segment_find(file, false, (void **)&b, &bytes) < 0);
	}
	assert_int_equal(pwrite(file, words, sizeof(words), 0), sizeof(words));
	assert_int_equal(uccl_shm_segment_find(file, false, (void **)&b, &bytes), 0);
	uccl_shm_segment_drop(a);
	uccl_shm_segment_drop(b);
}

/* A process that is killed leaves nothing behind. */
TEST_IN(make__killed, begin, end)
{
	uint8_t *a = NULL;
	size_t bytes = 0;
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (!uccl_shm_segment_make(file, BYTES, (void **)&a))
			kill(getpid(), SIGKILL);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(uccl_shm_segment_find(file, false, (void **)&a, &bytes), -ENOENT);
	assert_int_equal(uccl_shm_segment_make(file, BYTES, (void **)&a), 0);
	uccl_shm_segment_drop(a);
}

TESTS_MAIN
