/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "sim/fabric_limit.h"

#include <stdint.h>
#include <string.h>
#include "../tests.h"

#include "base/units.h"
#include "net.h"

#define PKT 1000
#define COUNT 200
/* A packet takes 1 us at 8 Gb/s. */
#define SLOW_PS 1000000ull

/* COUNT packets at once from host 0 to a host of another tor, on each of these ports. Time of the last, ps. */
static uint64_t flood(uint16_t ports)
{
	open_tree(1);
	for (uint32_t i = 0; i < COUNT; i++)
		for (uint16_t port = 0; port < ports; port++)
			send(0, 31, PKT, port, UCCL_FAB_DATA, i);
	run();
	assert_int_equal(got.delivered + got.lost, COUNT * ports);
	assert_int_equal(n.dropped, got.lost);
	return got.at[31];
}

static void limited(uint64_t burst, uint64_t queue)
{
	t.queue_bytes = 1u << 30;
	t.limit = (struct uccl_fab_limit){.bps = 8000000000ull, .burst_bytes = burst, .queue_bytes = queue};
}

/* What exceeds the burst leaves at the rate of the limit, in order; each 5-tuple has its own. */
TEST_IN(limits_pass__shaped, two_tiers, close_tree)
{
	uint64_t one, many;

	limited(50 * PKT, COUNT * PKT);
	one = flood(1);
	assert_int_equal(got.lost, 0);
	for (uint32_t i = 0; i < 64; i++)
		assert_int_equal(got.order[i], i);
	assert_in_range(one, (COUNT - 50) * SLOW_PS, (COUNT - 48) * SLOW_PS + 10 * t.delay_ps);
	many = flood(8);
	assert_int_equal(got.lost, 0);
	assert_in_range(many, one, one + 10 * SLOW_PS);
}

TEST_IN(limits_pass__queue_overflows, two_tiers, close_tree)
{
	limited(50 * PKT, 20 * PKT);
	flood(1);
	/* The packets come in no time, nearly: 4 us at 400 Gb/s. */
	assert_in_range(got.delivered, 70, 76);
}

TEST_IN(limits_pass__policed, two_tiers, close_tree)
{
	uint64_t last;

	limited(50 * PKT, 0);
	last = flood(1);
	assert_in_range(got.delivered, 50, 56);
	assert_true(last < 10 * SLOW_PS);
	assert_true(flood(4) < 30 * SLOW_PS);
	assert_in_range(got.delivered, 4 * 50, 4 * 70);
}

/* After a pause as long as the burst takes at the rate, the bucket is full again, and never fuller than that. */
TEST(limits_pass__refills)
{
	const struct uccl_fab_limit cfg = {.bps = 8000000000ull, .burst_bytes = 2 * PKT};
	struct uccl_fab_limits l;
	uint64_t at, now = 1;

	uccl_fab_limits_init(&l, &cfg);
	for (int i = 0; i < 2; i++, now += 100 * SLOW_PS) {
		assert_true(uccl_fab_limits_pass(&l, 7, PKT, now, &at));
		assert_int_equal(at, now);
		assert_true(uccl_fab_limits_pass(&l, 7, PKT, now, &at));
		assert_false(uccl_fab_limits_pass(&l, 7, PKT, now, &at));
		assert_true(uccl_fab_limits_pass(&l, 8, PKT, now, &at));
		assert_true(uccl_fab_limits_pass(&l, 7, PKT, now + SLOW_PS, &at));
		assert_false(uccl_fab_limits_pass(&l, 7, PKT, now + SLOW_PS, &at));
	}
	/* As many tuples as there may be. */
	for (uint64_t i = 100; i < 10000; i++)
		assert_true(uccl_fab_limits_pass(&l, i, 2 * PKT, now, &at));
	for (uint64_t i = 100; i < 10000; i++)
		assert_false(uccl_fab_limits_pass(&l, i, PKT, now, &at));
	uccl_fab_limits_fini(&l);
}

TESTS_MAIN_IN(NULL, close_tree)
