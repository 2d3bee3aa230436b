/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* How fast bursts are let through, alone: acknowledgements are made up. */
#include "flow/ack/spread.h"

#include <string.h>

#include "../../tests.h"

#define MS UCCL_NS_PER_MS
#define RTT (50 * MS)

static struct uccl_spread s;

static int setup(void **state)
{
	memset(&s, 0, sizeof(s));
	return 0;
}

static struct uccl_spread_sample acked(uint64_t sent_ns, uint64_t waited, uint64_t bytes)
{
	uccl_spread_reported(&s, sent_ns, RTT + waited);
	return uccl_spread_take(&s, bytes);
}

/* 125 KB that leave in 0.1 ms and come in 1 ms: 1 Gb/s. PROTOCOL R394 */
TEST_IN(take__a_burst, setup, NULL)
{
	struct uccl_spread_sample a;

	assert_int_equal(acked(MS, 0, 1400).ns, 0);
	a = acked(MS + MS / 10, MS - MS / 10, 125000);
	assert_int_equal(a.bytes, 125000);
	assert_int_equal(a.ns, MS);
}

/* What comes little by little is one sample; what is too little waits for more. */
TEST_IN(take__adds_up, setup, NULL)
{
	struct uccl_spread_sample a = {0};

	acked(MS, 0, 1400);
	for (uint64_t i = 1; i <= 4; i++) {
		a = acked(MS + i, i * MS / 10, 10000);
		assert_true(i == 4 ? a.ns > 0 : a.ns == 0);
	}
	assert_int_equal(a.bytes, 40000);
}

/* A sender that paces does not know whether the link could do more. */
TEST_IN(take__paced, setup, NULL)
{
	acked(MS, 0, 1400);
	assert_int_equal(acked(2 * MS, 0, 125000).ns, 0);
	assert_int_equal(acked(3 * MS, MS / 10, 125000).ns, 0);
}

/* Blocks overtake each other, and some have no round trip. */
TEST_IN(take__out_of_order, setup, NULL)
{
	acked(2 * MS, 0, 1400);
	assert_int_equal(uccl_spread_take(&s, 125000).ns, 0);
	assert_int_equal(acked(MS, 0, 1400).ns, 0);
	uccl_spread_reported(&s, 5 * MS, RTT);
	uccl_spread_reported(&s, 4 * MS, RTT + 10 * MS);
	assert_int_equal(s.sent_ns, 5 * MS);
}

TESTS_MAIN
