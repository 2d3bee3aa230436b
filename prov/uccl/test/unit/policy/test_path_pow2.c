/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "policy/policies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/rng.h"

#define PATHS 8

static uint64_t ps[UCCL_PATHSEL_STATE / 8];
static struct uccl_path paths[PATHS];
static struct uccl_rng rng;

static int setup(void **state)
{
	(void)state;
	memset(ps, 0, sizeof(ps));
	memset(paths, 0, sizeof(paths));
	for (int i = 0; i < PATHS; i++)
		paths[i].srtt_ns = 10000;
	uccl_rng_seed(&rng, 41);
	return 0;
}

static uint16_t pick(const uint16_t *usable, uint16_t n)
{
	return uccl_path_pow2.select(ps, paths, usable, n, &(struct uccl_chunk_info){.bytes = 32768}, &rng, 1);
}

static void select__only_one(void **state)
{
	const uint16_t usable[] = {5};

	(void)state;
	for (int i = 0; i < 100; i++)
		assert_int_equal(pick(usable, 1), 5);
}

/* Of two paths both are drawn always: the better one wins every time. */
static void select__lower_rtt(void **state)
{
	const uint16_t usable[] = {3, 6};

	(void)state;
	paths[3].srtt_ns = 20000;
	paths[3].inflight = 0;
	paths[6].srtt_ns = 19999;
	paths[6].inflight = 1 << 20;
	for (int i = 0; i < 100; i++)
		assert_int_equal(pick(usable, 2), 6);
	paths[3].srtt_ns = 19998;
	for (int i = 0; i < 100; i++)
		assert_int_equal(pick(usable, 2), 3);
}

static void select__inflight_breaks_ties(void **state)
{
	const uint16_t usable[] = {3, 6};

	(void)state;
	paths[3].inflight = 2;
	paths[6].inflight = 1;
	for (int i = 0; i < 100; i++)
		assert_int_equal(pick(usable, 2), 6);
}

static void select__equal_at_random(void **state)
{
	const uint16_t usable[] = {0, 1, 2, 3, 4, 5, 6, 7};
	unsigned int seen[PATHS] = {0};

	(void)state;
	for (int i = 0; i < 8000; i++)
		seen[pick(usable, PATHS)]++;
	/* Standard deviation: 30. */
	for (int i = 0; i < PATHS; i++)
		assert_in_range(seen[i], 850, 1150);
}

static void select__two_distinct(void **state)
{
	const uint16_t usable[] = {0, 1, 2, 3, 4, 5, 6, 7};
	unsigned int seen[PATHS] = {0};

	(void)state;
	for (int i = 0; i < PATHS; i++)
		paths[i].srtt_ns = 1000 + (uint64_t)i;
	for (int i = 0; i < 28000; i++)
		seen[pick(usable, PATHS)]++;
	/* The slowest wins over none, rank r over the 7 - r slower ones: of 28 pairs, 7 - r. */
	for (int i = 0; i < PATHS; i++)
		assert_in_range(seen[i], 1000 * (7 - i) - (i < 7 ? 200 : 0), 1000 * (7 - i) + (i < 7 ? 400 : 0));
}

static void select__explores(void **state)
{
	const uint16_t usable[] = {2, 4};

	(void)state;
	paths[2].srtt_ns = 1;
	paths[4].srtt_ns = 0;
	for (int i = 0; i < 100; i++)
		assert_int_equal(pick(usable, 2), 4);
}

/* Before its first answer a path gets no more than others have under way. */
static void select__explores_with_measure(void **state)
{
	const uint16_t usable[] = {2, 4};

	(void)state;
	paths[4].srtt_ns = 0;
	for (int i = 0; i < 100; i++)
		paths[pick(usable, 2)].inflight += 1000;
	assert_int_equal(paths[2].inflight, 50000);
	assert_int_equal(paths[4].inflight, 50000);
}

/* No path has a sample yet: the first window spreads over all of them. */
static void select__spreads_at_start(void **state)
{
	const uint16_t usable[] = {0, 1, 2, 3, 4, 5, 6, 7};

	(void)state;
	for (int i = 0; i < PATHS; i++)
		paths[i].srtt_ns = 0;
	for (int i = 0; i < 800; i++)
		paths[pick(usable, PATHS)].inflight++;
	for (int i = 0; i < PATHS; i++)
		assert_in_range(paths[i].inflight, 95, 105);
}

/* Paths whose RTT grows with what they carry: a slow path gets less, none starves, and RTTs even out. */
static void select__balances(void **state)
{
	const uint16_t usable[] = {0, 1, 2, 3};
	uint64_t sent[4] = {0};

	(void)state;
	for (int step = 0; step < 40000; step++) {
		uint16_t p = pick(usable, 4);

		paths[p].inflight += 1;
		sent[p]++;
		for (int i = 0; i < 4; i++) {
			/* Path 3 drains at a third of the others' rate. */
			if (step % (i == 3 ? 12 : 4) == i && paths[i].inflight)
				paths[i].inflight--;
			paths[i].srtt_ns = 100 + 10 * paths[i].inflight * (i == 3 ? 3 : 1);
		}
	}
	for (int i = 0; i < 3; i++)
		assert_true(sent[i] > 2 * sent[3]);
	assert_true(sent[3] > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(select__only_one, setup),
		cmocka_unit_test_setup(select__lower_rtt, setup),
		cmocka_unit_test_setup(select__inflight_breaks_ties, setup),
		cmocka_unit_test_setup(select__equal_at_random, setup),
		cmocka_unit_test_setup(select__two_distinct, setup),
		cmocka_unit_test_setup(select__explores, setup),
		cmocka_unit_test_setup(select__explores_with_measure, setup),
		cmocka_unit_test_setup(select__spreads_at_start, setup),
		cmocka_unit_test_setup(select__balances, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
