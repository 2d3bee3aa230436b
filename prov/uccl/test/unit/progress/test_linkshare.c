/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "progress/linkshare.h"

#include "../tests.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "progress/shm_segment.h"

#define MS 1000000ull
#define BEGIN (1000 * MS)

static char dir[] = "uccl-linkshare-XXXXXX";
static char file[64];

static int begin(void **state)
{
	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/.link-mlx5_0:1", dir);
	return 0;
}

static int end(void **state)
{
	unlink(file);
	return rmdir(dir);
}

static struct uccl_linkshare *open_one(void)
{
	struct uccl_linkshare *s = uccl_linkshare_open(dir, "mlx5_0:1");

	assert_non_null(s);
	return s;
}

/* A file that somebody cuts off ends nobody who has it open; who comes later shares with those who come after that. */
TEST_IN(open__cut_off, begin, end)
{
	struct uccl_linkshare *s = open_one(), *late, *later;

	assert_int_equal(truncate(file, 0), 0);
	assert_int_equal(uccl_linkshare_busy(s, BEGIN), 1);
	late = open_one();
	later = open_one();
	assert_int_equal(uccl_linkshare_busy(late, BEGIN), 1);
	assert_int_equal(uccl_linkshare_busy(later, BEGIN), 2);
	uccl_linkshare_close(s);
	uccl_linkshare_close(later);
	uccl_linkshare_close(late);
}

/* Those count that handed something out lately. */
TEST_IN(busy__counts, begin, end)
{
	struct uccl_linkshare *s[5];

	for (int i = 0; i < 5; i++)
		s[i] = open_one();
	for (int i = 0; i < 5; i++)
		assert_int_equal(uccl_linkshare_busy(s[i], BEGIN), i + 1);
	assert_int_equal(uccl_linkshare_busy(s[0], BEGIN + 19 * MS), 5);
	assert_int_equal(uccl_linkshare_busy(s[1], BEGIN + 20 * MS), 2);
	uccl_linkshare_close(s[0]);
	assert_int_equal(uccl_linkshare_busy(s[1], BEGIN + 20 * MS), 1);
	for (int i = 1; i < 5; i++)
		uccl_linkshare_close(s[i]);
	assert_int_equal(access(file, F_OK), -1);
}

TEST_IN(open__another_nic, begin, end)
{
	struct uccl_linkshare *a = open_one(), *b = uccl_linkshare_open(dir, "../etc/x");

	assert_non_null(b);
	assert_int_equal(uccl_linkshare_busy(a, BEGIN), 1);
	assert_int_equal(uccl_linkshare_busy(b, BEGIN), 1);
	uccl_linkshare_close(a);
	uccl_linkshare_close(b);
}

/* Another process counts; one that was killed does not for long, and its seat is taken by others. */
TEST_IN(busy__processes, begin, end)
{
	struct uccl_linkshare *s;
	int up[2], status;
	pid_t child;
	char c;

	assert_int_equal(pipe(up), 0);
	child = fork();
	if (!child) {
		s = uccl_linkshare_open(dir, "mlx5_0:1");
		c = s && uccl_linkshare_busy(s, BEGIN) == 1;
		_exit(write(up[1], &c, 1) != 1);
	}
	assert_int_equal(read(up[0], &c, 1), 1);
	assert_int_equal(c, 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	s = open_one();
	/* It took the seat, which was not freed. */
	assert_int_equal(uccl_linkshare_busy(s, BEGIN + MS), 1);
	uccl_linkshare_close(s);
	assert_int_equal(access(file, F_OK), -1);
	close(up[0]);
	close(up[1]);
}

/* Nonsense in the file, and more endpoints than it has room for. */
/* A child that does nothing has all that was open, and must keep nobody out. */
TEST_IN(close__while_a_child_lives, begin, end)
{
	struct uccl_linkshare *s[2] = {open_one(), open_one()};
	pid_t child, closer;
	int status;

	child = fork();
	if (!child) {
		pause();
		_exit(0);
	}
	/* In a process of its own, with a limit: it would wait for ever. */
	closer = fork();
	if (!closer) {
		alarm(10);
		uccl_linkshare_close(s[0]);
		uccl_linkshare_close(s[1]);
		uccl_linkshare_close(open_one());
		_exit(0);
	}
	assert_int_equal(waitpid(closer, &status, 0), closer);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	uccl_linkshare_close(s[0]);
	uccl_linkshare_close(s[1]);
}

TEST_IN(busy__nonsense, begin, end)
{
	struct uccl_linkshare *s = open_one(), *more;
	int fd = open(file, O_RDWR);
	uint64_t *word;
	size_t bytes;
	uint32_t n;

	assert_true(fd >= 0 && !uccl_shm_segment_find(fd, false, (void **)&word, &bytes));
	memset(word, 0xff, bytes);
	n = uccl_linkshare_busy(s, BEGIN);
	assert_int_equal(n, 1);
	/* All seats are taken by somebody who lives. */
	for (size_t i = 0; i < bytes / 16; i++) {
		word[2 * i] = (uint64_t)getpid();
		word[2 * i + 1] = BEGIN;
	}
	more = open_one();
	n = uccl_linkshare_busy(more, BEGIN);
	assert_int_equal(n, bytes / 16 + 1);
	uccl_linkshare_close(more);
	assert_int_equal(access(file, F_OK), 0);
	uccl_linkshare_close(s);
	uccl_shm_segment_drop(word);
	close(fd);
}

/* Neither a folder that others may write to, nor a link that somebody laid. */
TEST_IN(open__not_ours, begin, end)
{
	assert_int_equal(chmod(dir, 0777), 0);
	assert_null(uccl_linkshare_open(dir, "mlx5_0:1"));
	assert_int_equal(errno, EPERM);
	assert_int_equal(chmod(dir, 0700), 0);
	assert_int_equal(symlink("/etc/hostname", file), 0);
	assert_null(uccl_linkshare_open(dir, "mlx5_0:1"));
	assert_int_equal(errno, ELOOP);
}

/* Only who hands out credit by a rate that is known has something to share. */
TEST_IN(join__decides, begin, end)
{
	struct uccl_nic nic = { .caps.link_bps = 1000000000 };
	struct uccl_config config;
	struct uccl_engine_attr attr = { .nic = &nic, .config = &config, .interface = "mlx5_0:1" };
	struct uccl_linkshare *s, *other;

	uccl_config_default(&config);
	config.credit = "none";
	assert_null(uccl_linkshare_join(dir, &attr));
	config.credit = "eqds";
	nic.caps.link_bps = 0;
	assert_null(uccl_linkshare_join(dir, &attr));
	assert_null(attr.sharers);
	assert_int_equal(access(file, F_OK), -1);
	nic.caps.link_bps = 1000000000;
	s = uccl_linkshare_join(dir, &attr);
	assert_non_null(s);
	other = open_one();
	uccl_linkshare_busy(other, BEGIN);
	assert_int_equal(attr.sharers(attr.sharers_arg, BEGIN), 2);
	uccl_linkshare_close(other);
	uccl_linkshare_close(s);
	attr.sharers = NULL;
	assert_int_equal(chmod(dir, 0777), 0);
	assert_null(uccl_linkshare_join(dir, &attr));
	assert_null(attr.sharers);
	assert_int_equal(chmod(dir, 0700), 0);
}

TESTS_MAIN
