/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests enter themselves in the list of their program, which runs them in the order of the source:
 *
 * TEST(function__case) { ... }				a test; `state` is cmocka's
 * TEST_IN(function__case, setup, teardown) { ... }	likewise, between setup() and teardown(); NULL: none
 * TEST_WITH(function__case, struct thing *t, made, teardown) { ... }	likewise, with `t`, the value of `made`
 * TESTS_MAIN						the program
 * TESTS_MAIN_IN(setup, teardown)			likewise, with a set-up and tear-down of the whole program
 * TESTS_MAIN_SKIPPED					the program where this build lacks what is tested
 *
 * A test, and a function of a table, need not use all its arguments.
 */
#ifndef UCCL_TEST_UNIT_TESTS_H
#define UCCL_TEST_UNIT_TESTS_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "api/lib/sodium.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define TESTS_MOST 256

/* How many entries a folder of this process has: its descriptors (the one that looks is among them), its threads. */
static inline int tests_entries(const char *folder)
{
	DIR *d = opendir(folder);
	int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static struct {
	struct CMUnitTest test[TESTS_MOST];
	int line[TESTS_MOST];
	size_t n;
} tests;

/* Compilers may call constructors in any order, so the line decides. */
static inline void tests_add(const struct CMUnitTest *test, int line)
{
	size_t i = tests.n++;

	if (i == TESTS_MOST)
		abort();
	for (; i && tests.line[i - 1] > line; i--) {
		tests.test[i] = tests.test[i - 1];
		tests.line[i] = tests.line[i - 1];
	}
	tests.test[i] = *test;
	tests.line[i] = line;
}

/* Tests may use keys, too. */
static inline int tests_run(CMFixtureFunction setup, CMFixtureFunction teardown)
{
	if (uccl_sodium_load())
		abort();
	return _cmocka_run_group_tests("tests", tests.test, tests.n, setup, teardown);
}

#define TESTS_ADD(name, run, setup, teardown)                                                                          \
	__attribute__((constructor)) static void name##__add(void)                                                     \
	{                                                                                                              \
		tests_add(&(struct CMUnitTest){#name, run, setup, teardown, NULL}, __LINE__);                          \
	}

#define TEST_IN(name, setup, teardown)                                                                                 \
	static void name(void **state);                                                                                \
	TESTS_ADD(name, name, setup, teardown)                                                                         \
	static void name(void **state)

#define TEST_WITH(name, parameter, made, teardown)                                                                     \
	static void name(parameter);                                                                                   \
	static int name##__setup(void **state)                                                                         \
	{                                                                                                              \
		return (*state = (made)) ? 0 : -1;                                                                     \
	}                                                                                                              \
	static void name##__run(void **state)                                                                          \
	{                                                                                                              \
		name(*state);                                                                                          \
	}                                                                                                              \
	TESTS_ADD(name, name##__run, name##__setup, teardown)                                                          \
	static void name(parameter)

#define TEST(name) TEST_IN(name, NULL, NULL)

#define TESTS_MAIN_IN(setup, teardown)                                                                                 \
	int main(void)                                                                                                 \
	{                                                                                                              \
		return tests_run(setup, teardown);                                                                     \
	}

#define TESTS_MAIN TESTS_MAIN_IN(NULL, NULL)

/* 77: skipped, to automake */
#define TESTS_MAIN_SKIPPED                                                                                             \
	int main(void)                                                                                                 \
	{                                                                                                              \
		return 77;                                                                                             \
	}

#endif
