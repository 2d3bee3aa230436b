/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/load_table.h"

#include "../tests.h"

#include <pthread.h>

#include "base/units.h"

#define MS UCCL_NS_PER_MS
#define LANES 4

static struct uccl_load_table b;
static uint64_t now;

/* As how many engines all send, after this one has sent so much. */
static uint32_t out(uint8_t entry, uint64_t bytes)
{
	const uint64_t moved[UCCL_LOAD_DIRS] = {[UCCL_LOAD_OUT] = bytes};
	uint32_t busy[UCCL_LOAD_DIRS];

	uccl_load_table_update(&b, entry, moved, busy, now);
	return busy[UCCL_LOAD_OUT];
}

static int setup(void **state)
{
	now = 5 * MS;
	uccl_load_table_init(&b, LANES);
	return 0;
}

TEST_IN(init__nobody_was_busy, setup, NULL)
{
	assert_int_equal(out(0, 0), 1);
	for (uint8_t k = 1; k <= LANES; k++)
		assert_int_equal(out(k, 0), LANES);
	/* Who is alone, be it home, has all. */
	assert_int_equal(out(0, 1000), 1);
	assert_int_equal(out(2, 0), 1);
}

TEST_IN(busy__counts, setup, NULL)
{
	for (int round = 0; round < 20; round++) {
		for (uint8_t k = 1; k <= LANES; k++)
			out(k, 1000000);
		/* The envelopes. */
		out(0, 60000);
		now += MS;
	}
	for (uint8_t k = 0; k <= LANES; k++)
		assert_int_equal(out(k, 0), LANES);
	/* Home has a long message, too. */
	for (int round = 0; round < 20; round++) {
		for (uint8_t k = 0; k <= LANES; k++)
			out(k, 1000000);
		now += MS;
	}
	for (uint8_t k = 0; k <= LANES; k++)
		assert_int_equal(out(k, 0), LANES + 1);
	/* The last bytes of something. */
	uccl_load_table_init(&b, LANES);
	out(1, 1000000);
	assert_int_equal(out(2, 400000), 1);
	assert_int_equal(out(3, 300000), 2);
}

/* Each way is counted by itself. */
TEST_IN(busy__both_ways, setup, NULL)
{
	static const uint64_t sends[] = {1000, 0}, receives[] = {0, 1000}, none[UCCL_LOAD_DIRS];
	uint32_t busy[UCCL_LOAD_DIRS];

	uccl_load_table_update(&b, 1, sends, busy, now);
	uccl_load_table_update(&b, 2, receives, busy, now);
	uccl_load_table_update(&b, 3, receives, busy, now);
	uccl_load_table_update(&b, 1, none, busy, now);
	assert_int_equal(busy[UCCL_LOAD_OUT], 1);
	assert_int_equal(busy[UCCL_LOAD_IN], 2);
}

/* Some milliseconds after one begins or ends all know. */
TEST_IN(busy__begins_and_ends, setup, NULL)
{
	int ms = 0;

	for (int round = 0; round < 20; round++, now += MS)
		assert_int_equal(out(1, 1000000), 1);
	for (; out(1, 1000000) == 1; now += MS, ms++)
		out(2, 1000000);
	assert_in_range(ms, 1, 4);
	for (int round = 0; round < 20; round++, now += MS) {
		out(1, 1000000);
		assert_int_equal(out(2, 1000000), 2);
	}
	for (ms = 0; out(1, 1000000) == 2; now += MS)
		ms++;
	assert_in_range(ms, 1, 4);
}

/* After a pause all begin with what they had. */
TEST_IN(busy__after_a_pause, setup, NULL)
{
	out(1, 1000000);
	assert_int_equal(out(2, 1000000), 2);
	assert_int_equal(out(1, 0), 2);
	now += 1000 * MS;
	assert_int_equal(out(1, 0), 2);
	assert_int_equal(out(2, 0), 2);
	now += MS;
	assert_int_equal(out(1, 1000000), 1);
}

/* Clocks of threads differ; numbers may be of any size. */
TEST_IN(busy__any_numbers, setup, NULL)
{
	assert_int_equal(out(1, UINT64_MAX), 1);
	assert_int_equal(out(1, UINT64_MAX), 1);
	now -= MS;
	assert_int_equal(out(2, UINT64_MAX), 2);
	now = 0;
	assert_int_equal(out(2, 0), 2);
	now = UINT64_MAX;
	assert_int_equal(out(3, 1), 1);
}

static void *sits(void *arg)
{
	uint8_t entry = (uint8_t)(uintptr_t)arg;
	const uint64_t moved[UCCL_LOAD_DIRS] = {1000, 1000};
	uint32_t busy[UCCL_LOAD_DIRS];

	for (uint64_t t = 0; t < 20000; t++) {
		uccl_load_table_update(&b, entry, moved, busy, t * 1000);
		if (!busy[0] || busy[0] > LANES + 1 || !busy[1] || busy[1] > LANES + 1)
			return arg;
	}
	return NULL;
}

TEST_IN(busy__threads, setup, NULL)
{
	pthread_t t[LANES];
	void *bad;

	for (uintptr_t k = 0; k < LANES; k++)
		assert_int_equal(pthread_create(&t[k], NULL, sits, (void *)(k + 1)), 0);
	for (int k = 0; k < LANES; k++) {
		assert_int_equal(pthread_join(t[k], &bad), 0);
		assert_null(bad);
	}
}

TESTS_MAIN
