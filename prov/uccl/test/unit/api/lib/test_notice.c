/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../world.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "api/lib/notice.h"
#include "../../tests.h"

static int saved, ends[2];
static char text[65536];

/* From here on stderr is a pipe, and FI_UCCL_LOG has this value; NULL: it is not set. */
static void begin(const char *value)
{
	assert_int_equal(pipe(ends), 0);
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	saved = dup(STDERR_FILENO);
	dup2(ends[1], STDERR_FILENO);
	unsetenv("FI_LOG_LEVEL");
	if (value)
		setenv("FI_UCCL_LOG", value, 1);
	uccl_notice_begin();
	unsetenv("FI_UCCL_LOG");
}

/* What came to it since. */
static const char *end(void)
{
	ssize_t n = read(ends[0], text, sizeof(text) - 1);

	dup2(saved, STDERR_FILENO);
	close(saved);
	close(ends[0]);
	close(ends[1]);
	text[n > 0 ? n : 0] = '\0';
	return text;
}

static int lines(const char *s)
{
	int n = 0;

	for (; *s; s++)
		n += *s == '\n';
	return n;
}

TEST(notice__once)
{
	char begins[64];

	begin(NULL);
	snprintf(begins, sizeof(begins), " pid %d: ", (int)getpid());
	for (int i = 0; i < 3; i++) {
		errno = ENOENT;
		uccl_warn(FI_LOG_CORE, "the cause is %s\n", "one");
		assert_int_equal(errno, ENOENT);
	}
	end();
	assert_int_equal(lines(text), 1);
	assert_int_equal(strncmp(text, "uccl: ", 6), 0);
	assert_non_null(strstr(text, begins));
	assert_non_null(strstr(text, ": the cause is one\n"));
}

TEST(notice__few_of_a_kind)
{
	begin("warn");
	for (int i = 0; i < 100; i++)
		uccl_warn(FI_LOG_CORE, "cause %d\n", i);
	uccl_warn(FI_LOG_CORE, "another kind\n");
	end();
	assert_int_equal(lines(text), 5);
	assert_non_null(strstr(text, "cause 3 (no more lines of this kind follow"));
	assert_non_null(strstr(text, "another kind\n"));
}

TEST(notice__levels)
{
	begin("off");
	assert_false(uccl_notice_heard(FI_LOG_WARN, FI_LOG_CORE));
	uccl_warn(FI_LOG_CORE, "levels, off\n");
	assert_string_equal(end(), "");
	begin("warn");
	uccl_info(FI_LOG_CORE, "levels, warn\n");
	assert_string_equal(end(), "");
	begin("info");
	uccl_info(FI_LOG_CORE, "levels, info\n");
	uccl_info(FI_LOG_CORE, "levels, info\n");
	assert_int_equal(lines(end()), 2);
	begin("loud");
	assert_true(uccl_notice_heard(FI_LOG_WARN, FI_LOG_CORE));
	assert_false(uccl_notice_heard(FI_LOG_INFO, FI_LOG_CORE));
	end();
}

/* What libfabric's log shows does not come a second time; what it does not show comes. */
TEST(notice__libfabric_first)
{
	begin("info");
	world_listen(FI_LOG_WARN);
	uccl_warn(FI_LOG_CORE, "for the log\n");
	uccl_info(FI_LOG_CORE, "for stderr\n");
	assert_string_equal(world_heard(), "for the log\n");
	end();
	assert_null(strstr(text, "for the log"));
	assert_non_null(strstr(text, "for stderr"));
}

/* Nobody reads stderr any more: the process goes on. */
TEST(notice__closed_pipe)
{
	begin(NULL);
	close(ends[0]);
	uccl_warn(FI_LOG_CORE, "to a closed pipe\n");
	end();
}

TEST(notice__long)
{
	char many[4000];

	memset(many, 'x', sizeof(many) - 1);
	many[sizeof(many) - 1] = '\0';
	begin(NULL);
	uccl_warn(FI_LOG_CORE, "%s\n", many);
	end();
	assert_int_equal(lines(text), 1);
	assert_in_range(strlen(text), 1000, 1300);
}

/* A value with a line break hides no remedy, and changes no colours. */
TEST(notice__one_line)
{
	begin(NULL);
	uccl_warn(FI_LOG_CORE, "%s is wrong: remedy\n", "a\nb\033[31m\x7f");
	end();
	assert_int_equal(lines(text), 1);
	assert_non_null(strstr(text, "a?b?[31m? is wrong: remedy\n"));
}

static void *say(void *arg)
{
	for (int i = 0; i < 1000; i++)
		uccl_warn(FI_LOG_CORE, "of several threads\n");
	return arg;
}

TEST(notice__threads)
{
	pthread_t t[4];

	begin(NULL);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&t[i], NULL, say, NULL), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(lines(end()), 1);
}

/* However many causes there are, the table is bounded. Last: it is full then. */
TEST(notice__table_full)
{
	begin(NULL);
	for (int i = 0; i < 5000; i++)
		uccl_notice(FI_LOG_WARN, FI_LOG_CORE, "f", i, "number %d", i);
	assert_in_range(lines(end()), 30, 128);
}

TESTS_MAIN
