/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "policy/policies.h"

#include "../tests.h"

#include <string.h>

#include "base/rng.h"

#define PATHS 8

static uint64_t ps[UCCL_PATHSEL_STATE / 8];
static struct uccl_path paths[PATHS];
static struct uccl_rng rng;

static int setup(void **state)
{
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

TEST_IN(select__only_one, setup, NULL)
{
	const uint16_t usable[] = {5};

	for (int i = 0; i < 100; i++)
		assert_int_equal(pick(usable, 1), 5);
}

/* Of two paths both are drawn always: the better one wins every time. */
TEST_IN(select__lower_rtt, setup, NULL)
{
	const uint16_t usable[] = {3, 6};

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

TEST_IN(select__inflight_breaks_ties, setup, NULL)
{
	const uint16_t usable[] = {3, 6};

	paths[3].inflight = 2;
	paths[6].inflight = 1;
	for (int i = 0; i < 100; i++)
		assert_int_equal(pick(usable, 2), 6);
}

TEST_IN(select__equal_at_random, setup, NULL)
{
	const uint16_t usable[] = {0, 1, 2, 3, 4, 5, 6, 7};
	unsigned int seen[PATHS] = {0};

	for (int i = 0; i < 8000; i++)
		seen[pick(usable, PATHS)]++;
	/* Standard deviation: 30. */
	for (int i = 0; i < PATHS; i++)
		assert_in_range(seen[i], 850, 1150);
}

TEST_IN(select__two_distinct, setup, NULL)
{
	const uint16_t usable[] = {0, 1, 2, 3, 4, 5, 6, 7};
	unsigned int seen[PATHS] = {0};

	for (int i = 0; i < PATHS; i++)
		paths[i].srtt_ns = 1000 + (uint64_t)i;
	for (int i = 0; i < 28000; i++)
		seen[pick(usable, PATHS)]++;
	/* The slowest wins over none, rank r over the 7 - r slower ones: of 28 pairs, 7 - r. */
	for (int i = 0; i < PATHS; i++)
		assert_in_range(seen[i], 1000 * (7 - i) - (i < 7 ? 200 : 0), 1000 * (7 - i) + (i < 7 ? 400 : 0));
}

TEST_IN(select__explores, setup, NULL)
{
	const uint16_t usable[] = {2, 4};

	paths[2].srtt_ns = 1;
	paths[4].srtt_ns = 0;
	for (int i = 0; i < 100; i++)
		assert_int_equal(pick(usable, 2), 4);
}

/* Before its first answer a path gets no more than others have under way. */
TEST_IN(select__explores_with_measure, setup, NULL)
{
	const uint16_t usable[] = {2, 4};

	paths[4].srtt_ns = 0;
	for (int i = 0; i < 100; i++)
		paths[pick(usable, 2)].inflight += 1000;
	assert_int_equal(paths[2].inflight, 50000);
	assert_int_equal(paths[4].inflight, 50000);
}

/* No path has a sample yet: the first window spreads over all of them. */
TEST_IN(select__spreads_at_start, setup, NULL)
{
	const uint16_t usable[] = {0, 1, 2, 3, 4, 5, 6, 7};

	for (int i = 0; i < PATHS; i++)
		paths[i].srtt_ns = 0;
	for (int i = 0; i < 800; i++)
		paths[pick(usable, PATHS)].inflight++;
	for (int i = 0; i < PATHS; i++)
		assert_in_range(paths[i].inflight, 95, 105);
}

/* Paths whose RTT grows with what they carry: a slow path gets less, none starves, and RTTs even out. */
TEST_IN(select__balances, setup, NULL)
{
	const uint16_t usable[] = {0, 1, 2, 3};
	uint64_t sent[4] = {0};

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

TESTS_MAIN
