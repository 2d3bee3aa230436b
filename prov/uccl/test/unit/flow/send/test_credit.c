/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The books of credit alone: what leaves and what comes are numbers. */
#include "flow/send/credit.h"

#include "../../tests.h"

#include <string.h>

#define KIB 1024u
#define MIB (1024u * KIB)

static struct uccl_credit c;
static struct uccl_times t;

static int setup(void **state)
{
	memset(&c, 0, sizeof(c));
	uccl_times_init(&t, UCCL_NS_PER_MS, 0);
	uccl_times_rtt(&t, 10 * UCCL_NS_PER_US);
	uccl_times_host(&t, 1, 1);
	t.rttvar_ns = t.promptvar_ns = 0;
	return 0;
}

TEST_IN(spend__counted_once, setup, NULL)
{
	uccl_credit_spend(&c, 1000);
	uccl_credit_spend_free(&c, 8);
	assert_int_equal(c.used, 1008);
	assert_int_equal(c.free, 8);
}

/* The speculative window begins behind what has come, until more is asked for. PROTOCOL R375 */
TEST_IN(renew__behind_what_came, setup, NULL)
{
	uccl_credit_spend(&c, 100 * KIB);
	uccl_credit_renew(&c, 40 * KIB, 64 * KIB);
	assert_int_equal(c.renewed, 124 * KIB);
	/* Not so much if the peer does not know that some is lost, and never less than before. */
	uccl_credit_lost(&c, 10 * KIB);
	uccl_credit_renew(&c, 20 * KIB, 64 * KIB);
	assert_int_equal(c.renewed, 134 * KIB);
	uccl_credit_renew(&c, 90 * KIB, 64 * KIB);
	assert_int_equal(c.renewed, 134 * KIB);
	uccl_credit_tell(&c, 200 * KIB, 0, 1);
	uccl_credit_renew(&c, 0, 64 * KIB);
	assert_int_equal(c.renewed, 134 * KIB);
	/* All that was asked for has left: as at first. */
	uccl_credit_spend(&c, 200 * KIB);
	uccl_credit_renew(&c, 0, 64 * KIB);
	assert_int_equal(c.renewed, 364 * KIB);
}

/* More in flight than was counted, as what is short costs no credit, is no window. */
TEST_IN(renew__no_underflow, setup, NULL)
{
	uccl_credit_renew(&c, 65 * KIB, 64 * KIB);
	assert_int_equal(c.renewed, 0);
}

/* PROTOCOL R65 */
TEST_IN(turn__never_back, setup, NULL)
{
	assert_true(uccl_credit_turn(&c, 0));
	assert_true(uccl_credit_turn(&c, 2));
	assert_true(uccl_credit_turn(&c, 2));
	assert_false(uccl_credit_turn(&c, 1));
	assert_int_equal(c.turn, 2);
}

/* Asked before it runs out, but not again while much of what was asked for is still to go. PROTOCOL R60 */
TEST_IN(wants__before_it_runs_out, setup, NULL)
{
	assert_false(uccl_credit_wants(&c, 0, 0));
	assert_false(uccl_credit_wants(&c, 4 * MIB, 4 * MIB));
	assert_true(uccl_credit_wants(&c, 4 * MIB, 4 * MIB - 1));
	assert_int_equal(uccl_credit_tell(&c, 4 * MIB, MIB, 60), 4 * MIB);
	assert_false(uccl_credit_wants(&c, 4 * MIB, 0));
	/* Three of four have left, and more came. */
	uccl_credit_spend(&c, 3 * MIB);
	assert_false(uccl_credit_wants(&c, 2 * MIB, 0));
	uccl_credit_spend(&c, 1);
	assert_true(uccl_credit_wants(&c, 2 * MIB, 0));
	assert_int_equal(uccl_credit_tell(&c, 2 * MIB, 0, 70), 5 * MIB + 1);
}

static void tell_unanswered(uint64_t bytes)
{
	uint64_t pto = uccl_times_pto_prompt(&t);

	for (unsigned int i = 0; i < 60; i++) {
		uint64_t ns = i > 16 ? UCCL_NS_PER_MS << (i - 16) : uccl_min(pto << i, UCCL_NS_PER_MS);

		uccl_credit_tell(&c, bytes, 0, 1000);
		assert_int_equal(uccl_credit_tell_at(&c, &t), 1000 + uccl_min(ns, 200 * UCCL_NS_PER_MS));
	}
}

/*
 * The same demand is told as a probe is first, and ever more seldom if nothing answers; another one, or one after an
 * answer, is not.
 */
TEST_IN(tell__again, setup, NULL)
{
	assert_int_equal(uccl_credit_tell_at(&c, &t), 0);
	tell_unanswered(MIB);
	tell_unanswered(MIB + 1);
	uccl_credit_lost(&c, 1);
	tell_unanswered(MIB + 1);
	uccl_credit_answered(&c, true, 3000);
	assert_int_equal(uccl_credit_tell_at(&c, &t), 3000 + uccl_times_pto(&t));
	tell_unanswered(MIB + 1);
}

/* It is answered at once, so no delayed acknowledgement is waited for; a sample counts as it comes. PROTOCOL R346 */
TEST_IN(tell__as_known_now, setup, NULL)
{
	uint64_t far = 3 * UCCL_NS_PER_MS;

	uccl_times_init(&t, UCCL_NS_PER_MS, UCCL_NS_PER_MS);
	uccl_credit_tell(&c, MIB, 0, 1000);
	assert_int_equal(uccl_credit_tell_at(&c, &t), 1000 + far);
	uccl_times_rtt(&t, 10 * UCCL_NS_PER_US);
	uccl_times_host(&t, 2 * UCCL_NS_PER_US, 1);
	assert_int_equal(uccl_credit_tell_at(&c, &t), 1000 + 36 * UCCL_NS_PER_US);
}

/* A receiver that answers and grants nothing is asked ever more seldom; soon, when it grants. PROTOCOL R21 */
TEST_IN(tell__answered_in_vain, setup, NULL)
{
	static const uint64_t times[] = { 1, 2, 4, 8 };

	for (int round = 0; round < 2; round++) {
		uccl_credit_tell(&c, MIB, 0, 1000);
		uccl_credit_answered(&c, true, 2000);
		assert_int_equal(uccl_credit_tell_at(&c, &t), 2000 + uccl_times_pto(&t));
		for (unsigned int i = 0; i < uccl_array_len(times); i++) {
			uccl_credit_tell(&c, MIB, 0, 3000);
			uccl_credit_answered(&c, false, 4000);
			assert_int_equal(uccl_credit_tell_at(&c, &t), 4000 + times[i] * uccl_times_pto(&t));
		}
		for (int i = 0; i < 100; i++)
			uccl_credit_answered(&c, false, 4000);
		assert_int_equal(uccl_credit_tell_at(&c, &t), 4000 + uccl_times_rto(&t));
	}
}

/* Until it is told, the receiver takes what was lost for under way. */
TEST_IN(wants__lost_enough, setup, NULL)
{
	uccl_credit_lost(&c, 16 * KIB - 1);
	assert_false(uccl_credit_wants(&c, 0, UINT64_MAX));
	uccl_credit_lost(&c, 1);
	assert_true(uccl_credit_wants(&c, 0, UINT64_MAX));
	uccl_credit_tell(&c, 0, 0, 0);
	assert_false(uccl_credit_wants(&c, 0, UINT64_MAX));
}

/* What the receiver takes the next message for may be wrong by half. PROTOCOL R198 */
TEST_IN(misjudged__by_half, setup, NULL)
{
	assert_false(uccl_credit_misjudged(&c, 1));
	assert_true(uccl_credit_misjudged(&c, 2));
	uccl_credit_tell(&c, 4 * MIB, MIB, 60);
	assert_false(uccl_credit_misjudged(&c, MIB));
	assert_false(uccl_credit_misjudged(&c, 2 * MIB + 1));
	assert_true(uccl_credit_misjudged(&c, 2 * MIB + 2));
	assert_false(uccl_credit_misjudged(&c, MIB / 2));
	assert_true(uccl_credit_misjudged(&c, MIB / 2 - 1));
	/* It shrinks as it leaves. */
	uccl_credit_spend(&c, MIB - 1000);
	assert_false(uccl_credit_misjudged(&c, 1000));
	assert_true(uccl_credit_misjudged(&c, MIB));
	uccl_credit_spend(&c, 2000);
	assert_true(uccl_credit_misjudged(&c, MIB));
}

TEST_IN(sane__no_count_leaps, setup, NULL)
{
	assert_true(uccl_credit_sane(&c, 0, 0));
	assert_true(uccl_credit_sane(&c, 1ull << 48, 1ull << 48));
	assert_false(uccl_credit_sane(&c, (1ull << 48) + 1, 0));
	assert_false(uccl_credit_sane(&c, 0, (1ull << 48) + 1));
	/* Less than what came is no lie. */
	uccl_credit_received(&c, 100);
	assert_true(uccl_credit_sane(&c, 50, 0));
	c.received = c.peer_lost = (1ull << 62) - 10;
	assert_true(uccl_credit_sane(&c, (1ull << 62) - 1, 0));
	assert_false(uccl_credit_sane(&c, 1ull << 62, 0));
	assert_false(uccl_credit_sane(&c, 0, 1ull << 62));
}

TEST_IN(heard__never_less, setup, NULL)
{
	assert_false(uccl_credit_heard(&c, 500, 0));
	assert_true(uccl_credit_heard(&c, 400, 20));
	assert_false(uccl_credit_heard(&c, 600, 10));
	assert_int_equal(c.demand, 600);
	assert_int_equal(c.peer_lost, 20);
	uccl_credit_received(&c, 30);
	assert_int_equal(uccl_credit_settled(&c), 50);
}

/* A demand is answered even if it says nothing new: the grant may have been lost. PROTOCOL R21 */
TEST_IN(take_due__once, setup, NULL)
{
	assert_false(uccl_credit_take_due(&c));
	uccl_credit_heard(&c, 0, 0);
	assert_true(uccl_credit_take_due(&c));
	assert_false(uccl_credit_take_due(&c));
	uccl_credit_due(&c);
	assert_true(uccl_credit_take_due(&c));
}

TESTS_MAIN
