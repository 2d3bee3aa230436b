/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The search for the longest packet alone: a network is a number. */
#include "flow/path/pmtu.h"

#include "../../tests.h"

#include "base/units.h"
#include "flow/wire/wire.h"

#define MS UCCL_NS_PER_MS
#define SECOND UCCL_NS_PER_S
#define MOST 8972

static struct uccl_pmtu p;
static uint64_t now;
static int trials;

/* Three round trips whose long packets are lost. */
static bool three_rounds(uint32_t bytes)
{
	bool cut = false;

	for (int i = 0; i < 3; i++) {
		uint64_t sent = now;

		now += MS;
		cut = uccl_pmtu_lost(&p, bytes, sent, now);
	}
	return cut;
}

/* Try until nothing is left to be tried; the network carries so much. */
static void search(uint32_t network)
{
	uint32_t bytes;

	trials = 0;
	while ((bytes = uccl_pmtu_next(&p, now))) {
		assert_in_range(bytes, p.bytes + 1, p.most);
		assert_true(++trials < 100);
		uccl_pmtu_try(&p, 77, bytes);
		assert_int_equal(uccl_pmtu_next(&p, now), 0); /* one at a time */
		assert_int_equal(uccl_pmtu_tried(&p, bytes <= network, now), bytes <= network);
		now += MS;
	}
}

TEST(lost__black_hole)
{
	uccl_pmtu_init(&p, MOST);
	assert_int_equal(uccl_pmtu_next(&p, now), 0);
	assert_true(three_rounds(MOST));
	assert_int_equal(p.bytes, UCCL_PMTU_BASE);
	/* Where that is too long, too. */
	assert_true(three_rounds(UCCL_PMTU_BASE));
	assert_int_equal(p.bytes, UCCL_PMTU_LEAST);
	assert_false(three_rounds(UCCL_PMTU_LEAST));
	assert_int_equal(p.bytes, UCCL_PMTU_LEAST);
}

/* However short packets get, the longest chunk fits as many sub-segments as there may be. */
TEST(lost__subsegments_have_numbers)
{
	for (uint32_t most = UCCL_HDR_LEN + 1; most <= UINT16_MAX; most++) {
		uccl_pmtu_init(&p, most);
		while (three_rounds(p.bytes))
			;
		assert_true(p.bytes <= most);
		assert_true(uccl_words(p.bytes - UCCL_HDR_LEN) * UCCL_SEGMENT_COUNT >= most - UCCL_HDR_LEN ||
			    p.bytes == most);
	}
	assert_in_range(p.bytes, UCCL_PMTU_LEAST, UCCL_PMTU_BASE - 1);
}

/* Many losses of one round trip are one, short packets say nothing, and one long one that arrives says all. */
TEST(lost__by_chance)
{
	uccl_pmtu_init(&p, MOST);
	now = SECOND;
	for (int i = 0; i < 1000; i++)
		assert_false(uccl_pmtu_lost(&p, MOST, SECOND - 1, SECOND + (uint64_t)i));
	for (int i = 0; i < 1000; i++) {
		now += MS;
		assert_false(uccl_pmtu_lost(&p, UCCL_PMTU_BASE, now - MS / 2, now));
	}
	for (int i = 0; i < 1000; i++) {
		now += MS;
		uccl_pmtu_arrived(&p, UCCL_PMTU_BASE + 1);
		assert_false(uccl_pmtu_lost(&p, MOST, now - MS / 2, now));
		now += MS;
		assert_false(uccl_pmtu_lost(&p, MOST, now - MS / 2, now));
	}
	uccl_pmtu_arrived(&p, UCCL_PMTU_BASE);
	now += MS;
	assert_true(uccl_pmtu_lost(&p, MOST, now - MS / 2, now));
	/* What was longer than now allowed had left before. */
	assert_false(three_rounds(MOST));
}

/* Every network: what it carries is found, but for UCCL_PMTU_STEP bytes, and never exceeded. */
TEST(tried__finds_it)
{
	int most = 0;

	for (uint32_t network = UCCL_PMTU_BASE; network <= MOST; network += 7) {
		uccl_pmtu_init(&p, MOST);
		assert_true(three_rounds(MOST));
		search(network);
		assert_in_range(p.bytes, network - uccl_min(network - UCCL_PMTU_BASE, UCCL_PMTU_STEP), network);
		most = trials > most ? trials : most;
	}
	assert_in_range(most, 20, 40);
	/* It was no narrow network after all. */
	uccl_pmtu_init(&p, MOST);
	assert_true(three_rounds(MOST));
	search(MOST);
	assert_int_equal(trials, 1);
	assert_int_equal(p.bytes, MOST);
}

/* A network that loses a third of everything: three trials in a row are seldom lost by chance. */
TEST(tried__thrice)
{
	uccl_pmtu_init(&p, MOST);
	assert_true(three_rounds(MOST));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(uccl_pmtu_next(&p, now), MOST);
		uccl_pmtu_try(&p, 1, MOST);
		assert_false(uccl_pmtu_tried(&p, false, now));
	}
	assert_int_equal(uccl_pmtu_next(&p, now), MOST);
	uccl_pmtu_try(&p, 1, MOST);
	assert_true(uccl_pmtu_tried(&p, true, now));
}

/* It is tried again, more and more seldom. */
TEST(next__again)
{
	static const int after_s[] = {60, 120, 240, 480, 600, 600};

	uccl_pmtu_init(&p, MOST);
	assert_true(three_rounds(MOST));
	for (int i = 0; i < 6; i++) {
		search(1472);
		assert_in_range(p.bytes, 1472 - UCCL_PMTU_STEP, 1472);
		now += (uint64_t)after_s[i] * SECOND - SECOND;
		assert_int_equal(uccl_pmtu_next(&p, now), 0);
		now += SECOND;
		assert_int_equal(uccl_pmtu_next(&p, now), MOST);
	}
	/* The route is as it was. */
	search(MOST);
	assert_int_equal(p.bytes, MOST);
	assert_int_equal(uccl_pmtu_next(&p, now + 10000 * SECOND), 0);
	assert_int_equal(p.strikes, 0);
}

/* A record of any length may be the trial; the longest of three that were lost is what does not pass. */
TEST(may__any_length)
{
	static const uint32_t lens[] = {4000, 7000, 2000};

	uccl_pmtu_init(&p, MOST);
	assert_true(three_rounds(MOST));
	for (int i = 0; i < 3; i++) {
		assert_true(uccl_pmtu_may(&p, lens[i], now));
		uccl_pmtu_try(&p, 1, lens[i]);
		assert_false(uccl_pmtu_may(&p, lens[i], now));
		uccl_pmtu_tried(&p, false, now);
	}
	assert_int_equal(p.bad, 7000);
	assert_false(uccl_pmtu_may(&p, 7000, now));
	assert_true(uccl_pmtu_may(&p, 6999, now));
}

/* The network's word is taken within bounds, and tested later. PROTOCOL R152 */
TEST(told__within_bounds)
{
	uccl_pmtu_init(&p, MOST);
	assert_false(uccl_pmtu_reported(&p, MOST, now));
	assert_false(uccl_pmtu_reported(&p, 65535, now));
	assert_true(uccl_pmtu_reported(&p, 4000, now));
	assert_int_equal(p.bytes, 4000);
	assert_true(uccl_pmtu_reported(&p, 0, now));
	assert_int_equal(p.bytes, UCCL_PMTU_BASE);
	assert_false(uccl_pmtu_reported(&p, 68, now));
	/* Nothing longer is tried for a while. */
	assert_int_equal(uccl_pmtu_next(&p, now + UCCL_PMTU_RAISE_NS - 1), 0);
	assert_int_equal(uccl_pmtu_next(&p, now + UCCL_PMTU_RAISE_NS), MOST);
	uccl_pmtu_init(&p, 800);
	assert_false(uccl_pmtu_reported(&p, 600, now));
	assert_int_equal(p.bytes, 800);
}

/* Whoever said so was wrong, and is not listened to for a time. PROTOCOL R152 */
TEST(told__a_lie)
{
	uccl_pmtu_init(&p, MOST);
	assert_true(uccl_pmtu_reported(&p, 1200, now));
	now += UCCL_PMTU_RAISE_NS;
	search(MOST);
	assert_int_equal(p.bytes, MOST);
	now += UCCL_PMTU_RAISE_MAX_NS - SECOND;
	assert_false(uccl_pmtu_reported(&p, 1200, now));
	now += SECOND;
	assert_true(uccl_pmtu_reported(&p, 1200, now));
	/* But what is lost counts always. */
	now += UCCL_PMTU_RAISE_NS;
	search(MOST);
	assert_true(three_rounds(MOST));
	/* And what was found so, and raised, makes nobody a liar. */
	uccl_pmtu_init(&p, MOST);
	assert_true(three_rounds(MOST));
	search(2000);
	assert_true(uccl_pmtu_reported(&p, 1500, now));
}

TESTS_MAIN
