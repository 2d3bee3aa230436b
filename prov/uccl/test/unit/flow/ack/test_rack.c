/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* How late a chunk may be, alone: no flow, no log. */
#include "flow/ack/rack.h"

#include "../../tests.h"

#define US UCCL_NS_PER_US
#define SRTT (40 * US)
#define SENT 1000000
#define WAIT 100

static struct uccl_rack r;

static int setup(void **state)
{
	uccl_rack_init(&r);
	return 0;
}

TEST_IN(init__nothing_is_tolerated, setup, NULL)
{
	assert_int_equal(r.at, UCCL_NEVER);
	assert_int_equal(r.reported_ns, 0);
	assert_int_equal(r.reorder_packets, 0);
	assert_int_equal(r.reorder_ns, 0);
	assert_int_equal(r.dups, 0);
}

TEST_IN(dups__only_news_counts, setup, NULL)
{
	assert_int_equal(uccl_rack_dups(&r, 0, SRTT, 0, 1), 0);
	assert_int_equal(r.reorder_packets, 0);
	assert_int_equal(uccl_rack_dups(&r, 3, SRTT, 0, 2), 3);
	assert_int_equal(r.reorder_packets, 2);
	assert_int_equal(r.reorder_ns, SRTT / 4);
	/* An older block, which was overtaken, and the same number again. */
	assert_int_equal(uccl_rack_dups(&r, 2, SRTT, 0, 3), 0);
	assert_int_equal(uccl_rack_dups(&r, 3, SRTT, 0, 4), 0);
	assert_int_equal(r.dups, 3);
	assert_int_equal(r.reorder_packets, 2);
	/* However many they are, it is one lesson. */
	assert_int_equal(uccl_rack_dups(&r, 1003, SRTT, 0, 5), 1000);
	assert_int_equal(r.reorder_packets, 4);
	assert_int_equal(r.reorder_ns, SRTT / 2);
}

TEST_IN(dups__number_wraps, setup, NULL)
{
	r.dups = UINT32_MAX - 1;
	assert_int_equal(uccl_rack_dups(&r, 1, SRTT, 0, 0), 3);
	assert_int_equal(r.dups, 1);
	assert_int_equal(uccl_rack_dups(&r, UINT32_MAX, SRTT, 0, 0), 0);
	assert_int_equal(r.dups, 1);
}

TEST_IN(dups__bounded, setup, NULL)
{
	for (uint32_t i = 1; i <= 40; i++)
		assert_int_equal(uccl_rack_dups(&r, i, SRTT, 0, i), 1);
	assert_int_equal(r.reorder_packets, UCCL_RACK_PKTS_MAX);
	assert_int_equal(r.reorder_ns, 2 * SRTT);
	/* The time is bounded by the RTT as it is now. */
	uccl_rack_dups(&r, 41, SRTT / 4, 0, 41);
	assert_int_equal(r.reorder_ns, SRTT / 2);
}

/* 64 RTTs after the last lesson half of it is forgotten, then half of that, until nothing is left. */
TEST_IN(dups__forgotten, setup, NULL)
{
	uint64_t now = 7;

	uccl_rack_dups(&r, 1, SRTT, 0, 1);
	uccl_rack_dups(&r, 2, SRTT, 0, now);
	assert_int_equal(r.reorder_packets, 4);
	assert_int_equal(uccl_rack_dups(&r, 2, SRTT, 0, now + 64 * SRTT - 1), 0);
	assert_int_equal(r.reorder_packets, 4);
	now += 64 * SRTT;
	assert_int_equal(uccl_rack_dups(&r, 2, SRTT, 0, now), 0);
	assert_int_equal(r.reorder_packets, 2);
	assert_int_equal(r.reorder_ns, SRTT / 4);
	uccl_rack_dups(&r, 2, SRTT, 0, now + 64 * SRTT - 1);
	assert_int_equal(r.reorder_packets, 2);
	for (int i = 0; i < 20; i++)
		uccl_rack_dups(&r, 2, SRTT, 0, now += 64 * SRTT);
	assert_int_equal(r.reorder_packets, 0);
	assert_int_equal(r.reorder_ns, 0);
}

/* Without any sample of the RTT, too. */
TEST_IN(dups__rtt_unknown, setup, NULL)
{
	uccl_rack_dups(&r, 1, 0, 0, 5);
	assert_int_equal(r.reorder_ns, 250);
	assert_int_equal(r.keep_until_ns, 5 + 64 * 1000);
}

TEST_IN(ask__one_for_all_that_are_late, setup, NULL)
{
	assert_true(uccl_rack_ask(&r, 500, 600));
	/* Late before that question: it speaks for them. */
	assert_false(uccl_rack_ask(&r, 599, 700));
	assert_false(uccl_rack_ask(&r, 600, 700));
	assert_int_equal(r.asked_ns, 600);
	assert_true(uccl_rack_ask(&r, 601, 700));
	assert_int_equal(r.asked_ns, 700);
}

TEST_IN(reported__latest, setup, NULL)
{
	uccl_rack_reported(&r, 0);
	assert_int_equal(r.reported_ns, 0);
	uccl_rack_reported(&r, 70);
	uccl_rack_reported(&r, 60);
	assert_int_equal(r.reported_ns, 70);
}

/* What left once and comes behind a later one was late, by what that left later; by its place alone if by nothing. */
TEST_IN(came__how_late, setup, NULL)
{
	uccl_rack_block(&r, 10);
	uccl_rack_came(&r, 10, 100);
	uccl_rack_came(&r, 12, 200);
	assert_int_equal(r.newest_ns, 200);
	/* In one block nothing is late. */
	uccl_rack_came(&r, 11, 150);
	assert_int_equal(r.late_ns[0], 0);
	uccl_rack_block(&r, 13);
	uccl_rack_came(&r, 9, 200);
	assert_int_equal(r.late_ns[0], 1);
	uccl_rack_came(&r, 8, 130);
	uccl_rack_came(&r, 7, 170);
	assert_int_equal(r.late_ns[0], 70);
	assert_int_equal(r.newest_ns, 200);
	/* A path's line may tell of a part of a chunk. */
	uccl_rack_reported(&r, 300);
	assert_int_equal(r.newest_ns, 200);
}

/* After a change of rails a whole period says what is usual. PROTOCOL R378 */
TEST_IN(forget__learns_anew, setup, NULL)
{
	struct uccl_times t = {.min_rtt_ns = SRTT};
	uint64_t now = SENT;

	uccl_rack_learn(&r, 1000, SRTT, now);
	uccl_rack_learn(&r, 1064, SRTT, now += 32 * SRTT);
	assert_true(uccl_rack_ordered(&r));
	assert_int_equal(uccl_rack_soon(&r, &t), SRTT / 4);
	uccl_rack_forget(&r);
	assert_false(uccl_rack_ordered(&r));
	assert_int_equal(uccl_rack_soon(&r, &t), UCCL_NEVER);
	uccl_rack_learn(&r, 1128, SRTT, now += 32 * SRTT);
	assert_false(r.learnt);
	r.late_ns[0] = 3 * US;
	uccl_rack_learn(&r, 1192, SRTT, now += 32 * SRTT - 1);
	assert_false(r.learnt);
	uccl_rack_learn(&r, 1192, SRTT, now + 1);
	assert_int_equal(uccl_rack_soon(&r, &t), 6 * US + SRTT / 4);
}

/* 32 RTTs, as they are at the end, and 64 chunks; what was seen counts for another such time. */
TEST_IN(learn__turns, setup, NULL)
{
	uint64_t now = 5;

	uccl_rack_learn(&r, 1000, 100 * SRTT, now);
	assert_false(r.learnt);
	r.late_ns[0] = 7;
	uccl_rack_learn(&r, 1064, SRTT, now + 32 * SRTT - 1);
	assert_false(r.learnt);
	uccl_rack_learn(&r, 1063, SRTT, now + 32 * SRTT);
	assert_false(r.learnt);
	uccl_rack_learn(&r, 1064, SRTT, now += 32 * SRTT);
	assert_true(r.learnt);
	assert_int_equal(r.late_ns[0], 0);
	assert_int_equal(r.late_ns[1], 7);
	r.late_ns[0] = 3;
	uccl_rack_learn(&r, 1128, SRTT, now += 32 * SRTT);
	assert_int_equal(r.late_ns[0], 0);
	assert_int_equal(r.late_ns[1], 3);
	assert_true(r.learnt);
}

/* Also at the begin of time, and without any sample of the RTT. */
TEST_IN(learn__at_nought, setup, NULL)
{
	uccl_rack_learn(&r, 0, 0, 0);
	uccl_rack_learn(&r, 64, 0, 32000);
	assert_false(r.learnt);
	uccl_rack_learn(&r, 64, 0, 32001);
	assert_true(r.learnt);
}

TEST_IN(soon__twice_what_is_usual, setup, NULL)
{
	struct uccl_times t;

	uccl_times_init(&t, UCCL_NS_PER_MS, 0);
	t.min_rtt_ns = 400;
	assert_int_equal(uccl_rack_soon(&r, &t), UCCL_NEVER);
	assert_false(uccl_rack_ordered(&r));
	r.learnt = true;
	assert_int_equal(uccl_rack_soon(&r, &t), UCCL_RACK_LEAST_NS);
	assert_true(uccl_rack_ordered(&r));
	t.min_rtt_ns = 40 * US;
	assert_int_equal(uccl_rack_soon(&r, &t), 10 * US);
	r.late_ns[0] = 3 * US;
	assert_int_equal(uccl_rack_soon(&r, &t), 16 * US);
	assert_false(uccl_rack_ordered(&r));
	r.late_ns[1] = 5 * US;
	assert_int_equal(uccl_rack_soon(&r, &t), 20 * US);
	r.late_ns[0] = 0;
	assert_int_equal(uccl_rack_soon(&r, &t), 20 * US);
	assert_false(uccl_rack_ordered(&r));
	r.late_ns[1] = 0;
	r.reorder_ns = 11 * US;
	assert_int_equal(uccl_rack_soon(&r, &t), 11 * US);
	assert_false(uccl_rack_ordered(&r));
	t.min_rtt_ns = UCCL_NEVER;
	assert_int_equal(uccl_rack_soon(&r, &t), UCCL_NEVER);
}

TEST_IN(overdue__by_time, setup, NULL)
{
	assert_false(uccl_rack_overdue(&r, SENT, 0, true, 1));
	r.newest_ns = SENT + WAIT - 1;
	assert_false(uccl_rack_overdue(&r, SENT, WAIT, true, 100));
	r.newest_ns = SENT + WAIT;
	assert_true(uccl_rack_overdue(&r, SENT, WAIT, false, 0));
	assert_false(uccl_rack_overdue(&r, SENT, UCCL_NEVER, false, 0));
	/* Not what left later. */
	assert_false(uccl_rack_overdue(&r, SENT + WAIT, 0, false, 0));
}

/* Three that left after it, in the same instant or later, but only where everything comes in order. */
TEST_IN(overdue__by_order, setup, NULL)
{
	r.learnt = true;
	r.newest_ns = SENT;
	assert_false(uccl_rack_overdue(&r, SENT, WAIT, true, UCCL_RACK_BEHIND));
	assert_true(uccl_rack_overdue(&r, SENT, WAIT, true, UCCL_RACK_BEHIND + 1));
	/* Left again, or in part after them. */
	assert_false(uccl_rack_overdue(&r, SENT, WAIT, false, UCCL_RACK_BEHIND + 1));
	assert_false(uccl_rack_overdue(&r, SENT + 1, WAIT, true, UCCL_RACK_BEHIND + 1));
	r.late_ns[1] = 1;
	assert_false(uccl_rack_overdue(&r, SENT, WAIT, true, UCCL_RACK_BEHIND + 1));
}

TEST_IN(proof__beyond_what_was_learnt, setup, NULL)
{
	assert_false(uccl_rack_proof(&r, INT32_MIN));
	assert_false(uccl_rack_proof(&r, -1));
	assert_false(uccl_rack_proof(&r, 0));
	assert_true(uccl_rack_proof(&r, 1));
	r.reorder_packets = UCCL_RACK_PKTS_MAX;
	assert_false(uccl_rack_proof(&r, INT64_MIN));
	assert_false(uccl_rack_proof(&r, UCCL_RACK_PKTS_MAX));
	assert_true(uccl_rack_proof(&r, UCCL_RACK_PKTS_MAX + 1));
	assert_true(uccl_rack_proof(&r, INT64_MAX));
}

/* The slower of path and flow, and the longer of what any network reorders and what this one was seen to. */
TEST_IN(wait__slower_and_longer, setup, NULL)
{
	struct uccl_path p;
	struct uccl_times t;

	uccl_path_init(&p, 0);
	uccl_times_init(&t, UCCL_NS_PER_MS, 0);
	assert_int_equal(uccl_rack_wait(&r, &p, &t), 0);
	r.reorder_ns = 3;
	assert_int_equal(uccl_rack_wait(&r, &p, &t), 3);
	p.srtt_ns = 1000;
	p.rttvar_ns = 100;
	/* Without a sample of the flow there is no variation. */
	assert_int_equal(uccl_rack_wait(&r, &p, &t), 1003);
	t.srtt_ns = 700;
	t.rttvar_ns = 99;
	assert_int_equal(uccl_rack_wait(&r, &p, &t), 1201);
	t.srtt_ns = 1000;
	assert_int_equal(uccl_rack_wait(&r, &p, &t), 1399);
	t.rttvar_ns = 101;
	assert_int_equal(uccl_rack_wait(&r, &p, &t), 1407);
	t.min_rtt_ns = 80;
	assert_int_equal(uccl_rack_wait(&r, &p, &t), 1424);
	r.reorder_ns = 21;
	assert_int_equal(uccl_rack_wait(&r, &p, &t), 1425);
}

/* One sample is a guess of the variation: it counts as much as that of the flow. PROTOCOL R402 */
TEST_IN(wait__one_sample, setup, NULL)
{
	struct uccl_path p;
	struct uccl_times t;

	uccl_path_init(&p, 0);
	uccl_times_init(&t, UCCL_NS_PER_MS, 0);
	uccl_path_rtt(&p, 20 * US, 1);
	t.srtt_ns = t.min_rtt_ns = 8 * US;
	t.rttvar_ns = US;
	assert_int_equal(p.rttvar_ns, 10 * US);
	assert_int_equal(uccl_rack_wait(&r, &p, &t), 24 * US);
	p.rttvar_ns = 500;
	assert_int_equal(uccl_rack_wait(&r, &p, &t), 23 * US);
}

/* What arrived took the least RTT itself, and variations count half while queues are short. PROTOCOL R53 */
TEST_IN(end_wait__less_the_least, setup, NULL)
{
	struct uccl_path p;
	struct uccl_times t;

	uccl_path_init(&p, 0);
	uccl_times_init(&t, UCCL_NS_PER_MS, 0);
	/* Less than a microsecond is no order. */
	assert_int_equal(uccl_rack_end_wait(&r, &p, &t), US);
	p.srtt_ns = 12000;
	p.rttvar_ns = 1000;
	t.srtt_ns = 10000;
	t.rttvar_ns = 990;
	/* If the least is not known, nor are the queues. */
	assert_int_equal(uccl_rack_end_wait(&r, &p, &t), 13980);
	/* Nor are they short where one of the two RTTs is twice the least one. */
	t.min_rtt_ns = 5100;
	assert_int_equal(uccl_rack_end_wait(&r, &p, &t), 13980 + 1275 - 5100);
	t.min_rtt_ns = 6000;
	assert_int_equal(uccl_rack_end_wait(&r, &p, &t), 13980 + 1500 - 6000);
	t.min_rtt_ns = 6004;
	assert_int_equal(uccl_rack_end_wait(&r, &p, &t), 12990 + 1501 - 6004);
	t.rttvar_ns = 1010;
	p.srtt_ns = 10010;
	assert_int_equal(uccl_rack_end_wait(&r, &p, &t), 12020 + 1501 - 6004);
	r.reorder_ns = 1502;
	assert_int_equal(uccl_rack_end_wait(&r, &p, &t), 12020 + 1502 - 6004);
	t.srtt_ns = 12008;
	assert_int_equal(uccl_rack_end_wait(&r, &p, &t), 12008 + 4040 + 1502 - 6004);
	r.reorder_ns = 0;
	t.min_rtt_ns = 40000;
	assert_int_equal(uccl_rack_end_wait(&r, &p, &t), US);
}

/* The path of a chunk is asked after so long, if not after WAIT. */
static enum uccl_rack_verdict judge_soon(uint64_t soon, uint8_t asked, uint64_t now)
{
	struct uccl_rack_waits w = {.way_ns = 2 * WAIT, .proof_ns = WAIT, .ask_ns = soon};

	uccl_rack_look(&r);
	return uccl_rack_judge(&r, SENT, &w, asked, false, now);
}

static enum uccl_rack_verdict judge(uint8_t asked, bool answered, uint64_t now)
{
	struct uccl_rack_waits w = {.way_ns = answered ? WAIT : UCCL_NEVER, .proof_ns = WAIT, .ask_ns = WAIT};

	uccl_rack_look(&r);
	return uccl_rack_judge(&r, SENT, &w, asked, answered, now);
}

TEST_IN(look__until_something_is_late, setup, NULL)
{
	r.at = 5;
	uccl_rack_look(&r);
	assert_int_equal(r.at, UCCL_NEVER);
}

/* Only what arrived convicts; the clock merely asks: after the wait, after two of them, and then never again. */
TEST_IN(judge__the_clock_asks, setup, NULL)
{
	r.reported_ns = SENT + WAIT - 1;
	assert_int_equal(judge(0, false, SENT + 1), UCCL_RACK_KEEP);
	assert_int_equal(r.at, SENT + WAIT);
	assert_int_equal(judge(0, false, SENT + WAIT - 1), UCCL_RACK_KEEP);
	assert_int_equal(judge(0, false, SENT + WAIT), UCCL_RACK_ASK);
	assert_int_equal(r.at, SENT + 2 * WAIT);
	assert_int_equal(judge(1, false, SENT + WAIT), UCCL_RACK_KEEP);
	assert_int_equal(r.at, SENT + 2 * WAIT);
	assert_int_equal(judge(1, false, SENT + 2 * WAIT), UCCL_RACK_ASK);
	assert_int_equal(r.at, UCCL_NEVER);
	assert_int_equal(judge(UCCL_RACK_ASKS, false, SENT + 1000 * WAIT), UCCL_RACK_KEEP);
	assert_int_equal(r.at, UCCL_NEVER);
}

/* The first question may leave sooner. It changes neither the second one nor what convicts. PROTOCOL R399 */
TEST_IN(judge__asks_sooner, setup, NULL)
{
	uint64_t soon = WAIT / 4;

	r.reported_ns = SENT + WAIT - 1;
	assert_int_equal(judge_soon(soon, 0, SENT + soon - 1), UCCL_RACK_KEEP);
	assert_int_equal(r.at, SENT + soon);
	assert_int_equal(judge_soon(soon, 0, SENT + soon), UCCL_RACK_ASK);
	assert_int_equal(r.at, SENT + 2 * WAIT);
	assert_int_equal(judge_soon(soon, 1, SENT + 2 * WAIT - 1), UCCL_RACK_KEEP);
	assert_int_equal(judge_soon(soon, 1, SENT + 2 * WAIT), UCCL_RACK_ASK);
	assert_int_equal(judge_soon(soon, UCCL_RACK_ASKS, SENT + 9 * WAIT), UCCL_RACK_KEEP);
}

/* By the round trips of the flow, and by the shortest one where nothing else will leave. PROTOCOL R399 */
TEST_IN(ask_wait__by_the_flow, setup, NULL)
{
	struct uccl_times t;

	uccl_times_init(&t, UCCL_NS_PER_MS, 50);
	assert_int_equal(uccl_rack_ask_wait(&r, &t, false), UCCL_NEVER);
	assert_int_equal(uccl_rack_ask_wait(&r, &t, true), UCCL_NEVER);
	t.srtt_ns = 1000;
	t.rttvar_ns = 201;
	t.min_rtt_ns = 80;
	assert_int_equal(uccl_rack_ask_wait(&r, &t, false), 1422);
	assert_int_equal(uccl_rack_ask_wait(&r, &t, true), 100);
	r.reorder_ns = 21;
	assert_int_equal(uccl_rack_ask_wait(&r, &t, false), 1423);
	assert_int_equal(uccl_rack_ask_wait(&r, &t, true), 101);
	/* Packets of a path overtake each other: the answer proves nothing by its order. */
	r.reorder_packets = 2;
	assert_int_equal(uccl_rack_ask_wait(&r, &t, false), UCCL_NEVER);
	assert_int_equal(uccl_rack_ask_wait(&r, &t, true), UCCL_NEVER);
}

TEST_IN(judge__later_ones_convict, setup, NULL)
{
	r.reported_ns = SENT + WAIT;
	for (uint8_t asked = 0; asked <= UCCL_RACK_ASKS; asked++)
		assert_int_equal(judge(asked, false, SENT + 1), UCCL_RACK_LOST);
	assert_int_equal(r.at, UCCL_NEVER);
}

/* After a time-out that the peer has answered time is enough, but it must have been there. PROTOCOL R53 */
TEST_IN(judge__after_a_time_out, setup, NULL)
{
	r.reported_ns = SENT + 10 * WAIT;
	assert_int_equal(judge(0, true, SENT + WAIT - 1), UCCL_RACK_KEEP);
	assert_int_equal(r.at, SENT + WAIT);
	assert_int_equal(judge(UCCL_RACK_ASKS, true, SENT + WAIT), UCCL_RACK_LOST);
	assert_int_equal(r.at, UCCL_NEVER);
}

/* The earliest of all that a look sees. */
TEST_IN(judge__earliest, setup, NULL)
{
	const struct uccl_rack_waits w = {.way_ns = WAIT, .proof_ns = WAIT, .ask_ns = WAIT};

	r.reported_ns = SENT + 2;
	uccl_rack_look(&r);
	uccl_rack_judge(&r, SENT, &w, 0, false, SENT + 2);
	uccl_rack_judge(&r, SENT + 1, &w, 0, false, SENT + 2);
	assert_int_equal(r.at, SENT + WAIT);
	uccl_rack_judge(&r, SENT - 50, &w, 0, false, SENT + 2);
	assert_int_equal(r.at, SENT - 50 + WAIT);
	uccl_rack_judge(&r, SENT - 60, &w, 0, true, SENT + 2);
	assert_int_equal(r.at, SENT - 60 + WAIT);
}

/* Of a long way many blocks tell of what was sent again for one reason. PROTOCOL R396 */
TEST_IN(dups__once_in_a_round_trip, setup, NULL)
{
	assert_int_equal(uccl_rack_dups(&r, 1, SRTT, SRTT, SENT), 1);
	assert_int_equal(r.reorder_packets, 2);
	assert_int_equal(uccl_rack_dups(&r, 5, SRTT, SRTT, SENT + SRTT - 1), 4);
	assert_int_equal(r.reorder_packets, 2);
	assert_int_equal(uccl_rack_dups(&r, 6, SRTT, SRTT, SENT + SRTT), 1);
	assert_int_equal(r.reorder_packets, 4);
}

TESTS_MAIN
