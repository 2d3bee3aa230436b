/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the peer grants, alone: its blocks are made up. */
#include "flow/send/peer_limits.h"

#include "../../tests.h"

#include "base/units.h"

#define FIRST 1000

static struct uccl_peer_limits g;

static int setup(void **state)
{
	uccl_peer_limits_init(&g, 256, 100, FIRST);
	return 0;
}

static bool heard(uint64_t cum, uint32_t ts, uint16_t slots, uint64_t now)
{
	const struct uccl_ack a = {.slots = slots, .msg_limit = g.msg_limit};

	return uccl_peer_limits_heard(&g, &a, cum, ts, now);
}

TEST_IN(init__of_the_handshake, setup, NULL)
{
	assert_int_equal(g.slots, 256);
	assert_int_equal(g.msg_limit, 100);
	assert_false(g.envelopes_only);
	assert_false(uccl_peer_limits_meet(&g, 0));
}

/* Any time is news at first, and the clock of the other host may wrap. */
TEST_IN(heard__the_later_one, setup, NULL)
{
	assert_true(heard(FIRST, UINT32_MAX - 5, 50, 1));
	assert_int_equal(g.slots, 50);
	assert_false(heard(FIRST, UINT32_MAX - 6, 60, 2));
	assert_int_equal(g.slots, 50);
	/* The same packet once more. */
	assert_true(heard(FIRST, UINT32_MAX - 5, 50, 3));
	assert_true(heard(FIRST, 3, 70, 4));
	assert_int_equal(g.slots, 70);
	assert_false(heard(FIRST, UINT32_MAX, 60, 5));
}

/* Who acknowledges more is later, whatever the clock shows, and who acknowledges less never is. PROTOCOL R19 */
TEST_IN(heard__further_on, setup, NULL)
{
	assert_false(heard(FIRST - 1, 9, 60, 1));
	assert_true(heard(FIRST + 3, 9, 60, 1));
	assert_true(heard(FIRST + 4, 1, 40, 2));
	assert_int_equal(g.slots, 40);
	assert_false(heard(FIRST + 3, 100, 70, 3));
	assert_false(heard(FIRST + 3, 100, 70, UCCL_NEVER));
	assert_int_equal(g.slots, 40);
	/* And it is its clock that counts from then on. */
	assert_true(heard(FIRST + 4, 2, 30, 4));
}

/* A clock that jumped back convinces us after a while. */
TEST_IN(heard__no_clock_for_ever, setup, NULL)
{
	uint64_t now = 7;

	assert_true(heard(FIRST, 1u << 30, 60, now));
	assert_false(heard(FIRST, 5, 40, now + 10 * UCCL_NS_PER_S - 1));
	/* What was not believed does not put that off. */
	assert_true(heard(FIRST, 5, 40, now + 10 * UCCL_NS_PER_S));
	assert_int_equal(g.slots, 40);
}

/* Message numbers never go back, and they wrap; places and memory come and go. */
TEST_IN(heard__message_numbers, setup, NULL)
{
	struct uccl_ack a = {.slots = 7, .turn = 3, .msg_limit = 200, .rcv_short = true};

	assert_true(uccl_peer_limits_heard(&g, &a, FIRST, 1, 1));
	assert_int_equal(g.slots, 7);
	assert_int_equal(g.turn, 3);
	assert_int_equal(g.msg_limit, 200);
	assert_true(g.envelopes_only);
	a = (struct uccl_ack){.slots = 0, .turn = 4, .msg_limit = 150};
	assert_true(uccl_peer_limits_heard(&g, &a, FIRST, 2, 2));
	assert_int_equal(g.slots, 0);
	assert_int_equal(g.turn, 4);
	assert_int_equal(g.msg_limit, 200);
	assert_false(g.envelopes_only);
	g.msg_limit = UINT32_MAX - 1;
	a.msg_limit = 5;
	assert_true(uccl_peer_limits_heard(&g, &a, FIRST, 3, 3));
	assert_int_equal(g.msg_limit, 5);
	/* Nothing at all of one that was overtaken. */
	a = (struct uccl_ack){.slots = 9, .turn = 9, .msg_limit = 9, .rcv_short = true};
	assert_false(uccl_peer_limits_heard(&g, &a, FIRST, 2, 4));
	assert_int_equal(g.slots, 0);
	assert_int_equal(g.turn, 4);
	assert_int_equal(g.msg_limit, 5);
	assert_false(g.envelopes_only);
}

/* Said once for each turn, when no more is in flight than it allows. PROTOCOL R142 */
TEST_IN(meet__once_for_a_turn, setup, NULL)
{
	heard(FIRST, 1, 4, 1);
	g.turn = 1;
	assert_false(uccl_peer_limits_meet(&g, 5));
	assert_int_equal(g.met, 0);
	assert_true(uccl_peer_limits_meet(&g, 4));
	assert_int_equal(g.met, 1);
	assert_false(uccl_peer_limits_meet(&g, 3));
	/* Another turn, and another after it before the first was met: only the latest counts. */
	g.turn = 2;
	g.slots = 2;
	assert_false(uccl_peer_limits_meet(&g, 3));
	g.turn = 3;
	g.slots = 1;
	assert_false(uccl_peer_limits_meet(&g, 2));
	assert_true(uccl_peer_limits_meet(&g, 1));
	assert_int_equal(g.met, 3);
	/* The number of turns wraps. */
	g.turn = 0;
	assert_true(uccl_peer_limits_meet(&g, 0));
	assert_int_equal(g.met, 0);
}

/* No slots: asked again after the time-out, more and more seldom, up to a second, spread by chance. PROTOCOL R179 */
TEST_IN(wanted__more_and_more_seldom, setup, NULL)
{
	uint64_t ms = UCCL_NS_PER_MS, spread = 0, now = 5;
	struct uccl_rng rng;

	uccl_rng_seed(&rng, 7);
	assert_true(heard(FIRST, 1, 0, 1));
	assert_int_equal(g.want_at, 0);
	for (uint64_t i = 0; i < 100; i++, now = g.want_at) {
		uint64_t least = uccl_min(10 * ms << uccl_min(i, 20), 1000 * ms);

		uccl_peer_limits_wanted(&g, 10 * ms, &rng, now);
		assert_in_range(g.want_at - now, least, least + least / 4);
		spread |= i ? (g.want_at - now) - least : 0;
	}
	assert_true(spread > 0);
	/* One is one, and later none is asked for at once. */
	assert_true(heard(FIRST, 3, 1, now));
	assert_true(!g.want_at && !g.wants);
}

/* Who was told that there is none waits for its turn, and asks again in case that this was lost. PROTOCOL R179 */
TEST_IN(wanted__answered, setup, NULL)
{
	uint64_t ms = UCCL_NS_PER_MS, at;
	struct uccl_rng rng;

	uccl_rng_seed(&rng, 7);
	assert_true(heard(FIRST, 1, 0, 1));
	uccl_peer_limits_wanted(&g, 2 * ms, &rng, 5 * ms);
	assert_true(heard(FIRST, 2, 0, 6 * ms));
	assert_true(g.want_at == 106 * ms && g.wants == 1);
	/* Blocks that come meanwhile do not put it off. */
	assert_true(heard(FIRST, 3, 0, 90 * ms));
	assert_true(g.want_at == 106 * ms);
	/* The next question may be lost, too. */
	uccl_peer_limits_wanted(&g, 2 * ms, &rng, 106 * ms);
	assert_in_range(g.want_at, 110 * ms, 111 * ms);
	assert_true(heard(FIRST, 4, 0, 107 * ms));
	assert_true(g.want_at == 207 * ms);
	/* Not sooner than without an answer. */
	uccl_peer_limits_wanted(&g, 300 * ms, &rng, 207 * ms);
	at = g.want_at;
	assert_true(heard(FIRST, 5, 0, 208 * ms));
	assert_true(g.want_at == at);
	/* One that comes ends it. */
	assert_true(heard(FIRST, 6, 1, 209 * ms));
	assert_true(!g.want_at && !g.wants);
}

/* More came soon, twice in a row: so it will again, until it does not. PROTOCOL R246 */
TEST_IN(more__soon, setup, NULL)
{
	uint64_t ms = UCCL_NS_PER_MS, now = 0;

	assert_false(uccl_peer_limits_expects(&g));
	for (int i = 0; i < 4; i++) {
		uccl_peer_limits_last(&g, now);
		assert_true(g.last_ns != 0);
		now += 10 * ms - 1;
		uccl_peer_limits_more(&g, now);
		assert_int_equal(g.last_ns, 0);
		assert_int_equal(uccl_peer_limits_expects(&g), i > 0);
	}
	uccl_peer_limits_last(&g, now);
	now += 10 * ms;
	uccl_peer_limits_more(&g, now);
	assert_false(uccl_peer_limits_expects(&g));
}

/* What a long way holds takes no slots; without any slot nothing leaves. PROTOCOL R391 */
TEST_IN(way__holds_more, setup, NULL)
{
	assert_true(heard(FIRST, 1, 50, 1));
	uccl_peer_limits_way(&g, 400);
	assert_int_equal(uccl_peer_limits_most(&g), 450);
	/* A smaller grant is met when no more is in flight than both hold. */
	g.turn++;
	assert_true(heard(FIRST, 2, 20, 2));
	assert_int_equal(uccl_peer_limits_most(&g), 420);
	g.turn = 1;
	assert_false(uccl_peer_limits_meet(&g, 421));
	assert_true(uccl_peer_limits_meet(&g, 420));
	assert_true(heard(FIRST, 3, 0, 3));
	assert_int_equal(uccl_peer_limits_most(&g), 0);
	uccl_peer_limits_way(&g, 400);
	assert_int_equal(uccl_peer_limits_most(&g), 0);
	assert_true(heard(FIRST, 4, 1, 4));
	uccl_peer_limits_way(&g, UINT64_MAX);
	assert_int_equal(uccl_peer_limits_most(&g), 1 + UCCL_SLOTS_WAY_MAX);
	uccl_peer_limits_way(&g, 0);
	assert_int_equal(uccl_peer_limits_most(&g), 1);
}

TESTS_MAIN
