/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/log.h"

#include "../tests.h"

#include <string.h>

static struct {
	int calls, level, line;
	char func[64], text[1024];
} seen;

static void sink(int level, const char *func, int line, const char *text)
{
	seen.calls++;
	seen.level = level;
	seen.line = line;
	strncpy(seen.func, func, sizeof(seen.func) - 1);
	strncpy(seen.text, text, sizeof(seen.text) - 1);
}

static int setup(void **state)
{
	memset(&seen, 0, sizeof(seen));
	uccl_log_set(NULL, 0);
	return 0;
}

TEST_IN(set__levels, setup, NULL)
{
	assert_true(uccl_log_max < UCCL_LOG_WARN);
	uccl_log_set(sink, UCCL_LOG_INFO);
	assert_int_equal(uccl_log_max, UCCL_LOG_INFO);
	/* No sink, no level, whatever is asked for. */
	uccl_log_set(NULL, UCCL_LOG_DEBUG);
	assert_true(uccl_log_max < UCCL_LOG_WARN);
}

TEST_IN(print__silent, setup, NULL)
{
	uccl_log_print(UCCL_LOG_WARN, "f", 1, "nobody listens");
	uccl_log_set(sink, UCCL_LOG_TRACE);
	uccl_log_print(UCCL_LOG_INFO, "f", 1, "above the level");
	assert_int_equal(seen.calls, 0);
	uccl_log_print(UCCL_LOG_TRACE, "f", 1, "at the level");
	assert_int_equal(seen.calls, 1);
}

TEST_IN(print__passes_on, setup, NULL)
{
	uccl_log_set(sink, UCCL_LOG_DEBUG);
	uccl_log_print(UCCL_LOG_INFO, "some_func", 42, "%s: %d of %u", "path", -3, 7u);
	assert_int_equal(seen.calls, 1);
	assert_int_equal(seen.level, UCCL_LOG_INFO);
	assert_int_equal(seen.line, 42);
	assert_string_equal(seen.func, "some_func");
	assert_string_equal(seen.text, "path: -3 of 7");
}

TEST_IN(print__cuts_long_lines, setup, NULL)
{
	char text[900];

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = 0;
	uccl_log_set(sink, UCCL_LOG_DEBUG);
	uccl_log_print(UCCL_LOG_WARN, "f", 1, "%s", text);
	assert_int_equal(strlen(seen.text), 511);
	assert_memory_equal(seen.text, text, 511);
}

TEST_IN(macro__evaluates_only_when_heard, setup, NULL)
{
	int n = 0;

	UCCL_LOG(UCCL_LOG_WARN, "%d", ++n);
	assert_int_equal(n, 0);
	uccl_log_set(sink, UCCL_LOG_WARN);
	UCCL_LOG(UCCL_LOG_INFO, "%d", ++n);
	assert_int_equal(n, 0);
	UCCL_LOG(UCCL_LOG_WARN, "%d", ++n);
	assert_int_equal(n, 1);
	assert_string_equal(seen.text, "1");
	assert_string_equal(seen.func, __func__);
	assert_true(seen.line > 0);
}

TESTS_MAIN
