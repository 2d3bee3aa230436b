/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* When a silent peer is asked, alone: no packet, no path. What is asked is in test_paths and test_flow. */
#include "flow/ack/pto.h"

#include "../../tests.h"

#include "flow/wire/wire.h"

#define US UCCL_NS_PER_US
#define MS UCCL_NS_PER_MS
#define PATHS 4
#define NOW (640 * MS)
#define TICK (1u << UCCL_TS_SHIFT)

static struct uccl_pto s;
static struct uccl_times t;

static void begin(uint16_t npaths)
{
	uccl_pto_init(&s, npaths);
	uccl_times_init(&t, MS, 0);
	uccl_times_rtt(&t, 400 * US);
	t.rttvar_ns = 50 * US;
	uccl_times_host(&t, 20 * US, 1);
	assert_true(uccl_times_pto_prompt(&t) < uccl_times_pto(&t) && uccl_times_pto(&t) < uccl_times_rto(&t));
}

static int setup(void **state)
{
	begin(PATHS);
	return 0;
}

/* So often in a row it was not answered. */
static void ask(uint32_t n, uint32_t chunks, uint64_t now)
{
	while (n--)
		uccl_pto_expire(&s, &t, chunks, now);
}

TEST_IN(init__nothing_to_ask, setup, NULL)
{
	assert_int_equal(s.at, UCCL_NEVER);
	assert_false(uccl_pto_repeated(&s));
	assert_false(uccl_pto_reported(&s, UCCL_NEVER));
	assert_false(uccl_pto_survived(&s, 0, UCCL_NEVER));
	assert_false(uccl_pto_proven(&s, 0));
}

/* The tail probe first; a time-out after twice as long; the next after the RTO; and no timer at all for nothing. */
TEST_IN(arm__probe_then_time_out, setup, NULL)
{
	uccl_pto_arm(&s, &t, true, NOW);
	assert_int_equal(s.at, NOW + uccl_times_pto(&t));
	assert_int_equal(s.armed_ns, NOW);
	uccl_pto_arm(&s, &t, false, NOW + 1);
	assert_int_equal(s.at, UCCL_NEVER);
	t.rto_min_ns = 4 * MS;
	ask(1, 1, NOW);
	assert_int_equal(s.at, NOW + 2 * uccl_times_pto_prompt(&t));
	ask(1, 1, NOW);
	assert_int_equal(s.at, NOW + 4 * MS);
	/* Never later than that. */
	begin(PATHS);
	ask(1, 1, NOW);
	assert_true(2 * uccl_times_pto_prompt(&t) > uccl_times_rto(&t));
	assert_int_equal(s.at, NOW + uccl_times_rto(&t));
	uccl_pto_arm(&s, &t, false, NOW);
	assert_int_equal(s.at, UCCL_NEVER);
}

/* As many time-outs as there are paths, or sixteen, are not repetition. PROTOCOL R55 */
TEST_IN(arm__backs_off, setup, NULL)
{
	static const uint16_t paths[] = {1, PATHS, 16, 17, 256};

	for (unsigned int i = 0; i < uccl_array_len(paths); i++) {
		uint32_t eager = paths[i] < 16 ? paths[i] : 16;

		begin(paths[i]);
		for (uint32_t n = 1; n <= eager + 1; n++) {
			ask(1, 1, NOW);
			assert_int_equal(s.at, NOW + uccl_times_rto(&t));
		}
		for (uint32_t n = 1; n <= 40; n++) {
			ask(1, 1, NOW);
			assert_int_equal(s.at, NOW + (n < 20 ? uccl_min(uccl_times_rto(&t) << n, UCCL_RTO_MAX_NS) :
							       UCCL_RTO_MAX_NS));
		}
	}
}

/* However long it lasts: the count ends somewhere, the time at its bound. */
TEST_IN(arm__for_ever, setup, NULL)
{
	ask(1000010, 1, NOW);
	assert_int_equal(s.backoff, 1000000);
	assert_int_equal(s.at, NOW + UCCL_RTO_MAX_NS);
}

TEST_IN(over__begins_anew, setup, NULL)
{
	ask(5, 1, NOW);
	assert_true(uccl_pto_repeated(&s));
	uccl_pto_answered(&s, &t, true, NOW, NOW + MS);
	assert_false(uccl_pto_repeated(&s));
	assert_int_equal(s.backoff, 0);
	assert_int_equal(s.at, NOW + MS + uccl_times_pto_next(&t, 0, false));
	ask(5, 1, NOW);
	uccl_pto_answered(&s, &t, false, 0, NOW);
	assert_int_equal(s.at, UCCL_NEVER);
	assert_int_equal(s.backoff, 0);
}

/* The host is at work: only what left later than what it reported takes longer. PROTOCOL R243 */
TEST_IN(over__soon, setup, NULL)
{
	uint64_t soon = uccl_times_pto_next(&t, 0, true);

	t.host_ns = 300 * US;
	uccl_pto_sent(&s, &t, true, NOW);
	uccl_pto_answered(&s, &t, true, NOW, NOW + US);
	assert_int_equal(s.at, NOW + US + soon + UCCL_ACK_DELAY_NS);
	/* It asked to be acknowledged at once. */
	uccl_pto_ack_requested(&s, &t, NOW);
	uccl_pto_answered(&s, &t, true, NOW, NOW + US);
	assert_int_equal(s.at, NOW + US + soon);
	uccl_pto_answered(&s, &t, true, NOW - 7 * US, NOW + US);
	assert_int_equal(s.at, NOW + 8 * US + soon);
	uccl_pto_answered(&s, &t, true, NOW + US, NOW + 2 * US);
	assert_int_equal(s.at, NOW + 2 * US + soon);
	/* What leaves upon that, in the same instant, is not answered yet; and does not ask, unless it says so. */
	for (int i = 0; i < 2; i++) {
		uccl_pto_sent(&s, &t, false, NOW + 2 * US);
		assert_int_equal(s.at, NOW + 2 * US + uccl_times_pto(&t));
		uccl_pto_answered(&s, &t, true, NOW, NOW + 2 * US);
	}
	uccl_pto_sent(&s, &t, false, NOW + 2 * US);
	uccl_pto_answered(&s, &t, true, NOW + 2 * US, NOW + 3 * US);
	assert_int_equal(s.at, NOW + 3 * US + soon + UCCL_ACK_DELAY_NS);
}

/* An answer without news shows that the host is at work, too: it brings the question nearer. PROTOCOL R272 */
TEST_IN(sooner__never_later, setup, NULL)
{
	uint64_t soon = uccl_times_pto_next(&t, 0, true);

	uccl_pto_resent(&s, &t, NOW);
	assert_int_equal(s.at, NOW + uccl_times_pto_prompt(&t));
	uccl_pto_advance(&s, &t, NOW - 5 * US, NOW + US);
	assert_int_equal(s.at, NOW + 6 * US + soon);
	uccl_pto_advance(&s, &t, NOW, NOW + US);
	assert_int_equal(s.at, NOW + US + soon);
	uccl_pto_advance(&s, &t, NOW + US, NOW + 100 * US);
	assert_int_equal(s.at, NOW + US + soon);
	/* There is nothing to ask for. */
	uccl_pto_answered(&s, &t, false, NOW, NOW);
	uccl_pto_advance(&s, &t, NOW, NOW);
	assert_int_equal(s.at, UCCL_NEVER);
}

/* What left last is asked for once when it is late, whatever news comes; then news puts that off. PROTOCOL R405 */
TEST_IN(last__asked_once, setup, NULL)
{
	uint64_t due = NOW + 500 * US + uccl_times_prompt_wait(&t);

	uccl_pto_sent(&s, &t, true, NOW);
	uccl_pto_answered(&s, &t, true, NOW, NOW + 300 * US);
	uccl_pto_last(&s, &t, NOW + 300 * US);
	assert_int_equal(s.at, NOW + 300 * US + uccl_times_pto_next(&t, 0, false));
	/* It has to ask. */
	uccl_pto_ack_requested(&s, &t, NOW);
	uccl_pto_answered(&s, &t, true, NOW, NOW + 400 * US);
	uccl_pto_last(&s, &t, NOW + 400 * US);
	assert_int_equal(s.at, due);
	uccl_pto_answered(&s, &t, true, NOW, due + US);
	uccl_pto_last(&s, &t, due + US);
	assert_int_equal(s.at, due + US);
	ask(1, 1, due + US);
	uccl_pto_answered(&s, &t, true, NOW, due + MS);
	uccl_pto_last(&s, &t, due + MS);
	assert_int_equal(s.at, due + MS + uccl_times_pto_next(&t, 0, true));
	/* There is nothing to ask for. */
	uccl_pto_answered(&s, &t, false, NOW, due + MS);
	uccl_pto_resent(&s, &t, due + MS);
	uccl_pto_answered(&s, &t, false, NOW, due + MS);
	uccl_pto_last(&s, &t, due + MS);
	assert_int_equal(s.at, UCCL_NEVER);
}

/* What asks for an acknowledgement at once is not waited for as if it might be delayed. PROTOCOL R346 */
TEST_IN(ack_requested__no_delay, setup, NULL)
{
	uint64_t at;

	uccl_pto_sent(&s, &t, true, NOW);
	uccl_pto_ack_requested(&s, &t, NOW);
	assert_int_equal(s.at, NOW + uccl_times_pto_prompt(&t));
	/* What does not ask, later, begins anew; the question to a silent peer stays. */
	uccl_pto_sent(&s, &t, false, NOW + 1);
	assert_int_equal(s.at, NOW + 1 + uccl_times_pto(&t));
	ask(1, 1, NOW);
	at = s.at;
	uccl_pto_sent(&s, &t, false, NOW + 2);
	uccl_pto_ack_requested(&s, &t, NOW + 2);
	assert_int_equal(s.at, at);
}

/* What leaves again asks, and does not put off the next question. PROTOCOL R54 R243 */
TEST_IN(again__asks, setup, NULL)
{
	uint64_t at;

	uccl_pto_resent(&s, &t, NOW);
	assert_int_equal(s.at, NOW + uccl_times_pto_prompt(&t));
	uccl_pto_answered(&s, &t, true, NOW - US, NOW);
	assert_int_equal(s.at, NOW + uccl_times_pto_next(&t, US, true));
	ask(1, 1, NOW);
	at = s.at;
	uccl_pto_resent(&s, &t, NOW + MS);
	assert_int_equal(s.at, at);
}

/* As coarse as the echo of its answer, and never later than the question. */
TEST_IN(expire__when_it_left, setup, NULL)
{
	ask(1, 1, NOW + TICK - 1);
	assert_int_equal(s.asked_ns, NOW);
	ask(1, 1, NOW + TICK);
	assert_int_equal(s.asked_ns, NOW + TICK);
}

/* A row begins with the first time-out, not with the tail probe, and once. */
TEST_IN(expire__a_row, setup, NULL)
{
	ask(1, 8, NOW);
	assert_int_equal(s.first_timeout_ns, 0);
	assert_false(uccl_pto_repeated(&s));
	ask(1, 9, NOW + MS);
	assert_int_equal(s.first_timeout_ns, NOW + MS);
	assert_int_equal(s.timeout_chunks, 9);
	assert_true(uccl_pto_repeated(&s));
	ask(3, 10, NOW + 2 * MS);
	assert_int_equal(s.first_timeout_ns, NOW + MS);
	assert_int_equal(s.timeout_chunks, 9);
}

/* Told with the half, once, and only for what was in flight then. PROTOCOL R132 */
TEST_IN(proven__half_once, setup, NULL)
{
	for (int row = 1; row <= 2; row++) {
		uint64_t now = NOW * (uint64_t)row;

		ask(2, 5, now);
		assert_false(uccl_pto_proven(&s, now - 1));
		assert_false(uccl_pto_proven(&s, now));
		assert_false(uccl_pto_proven(&s, now - 1));
		assert_true(uccl_pto_proven(&s, now - 1));
		for (int i = 0; i < 9; i++)
			assert_false(uccl_pto_proven(&s, now - 1));
		uccl_pto_answered(&s, &t, true, 0, now);
	}
	/* One of one is all, one of two is half. */
	for (uint32_t chunks = 1; chunks <= 2; chunks++) {
		ask(2, chunks, 3 * NOW);
		assert_true(uccl_pto_proven(&s, NOW));
		uccl_pto_answered(&s, &t, true, 0, 3 * NOW);
	}
	/* What was lost in the row before does not count in this one. */
	ask(2, 100, 4 * NOW);
	for (int i = 0; i < 49; i++)
		assert_false(uccl_pto_proven(&s, NOW));
	uccl_pto_answered(&s, &t, true, 0, 4 * NOW);
	ask(2, 100, 5 * NOW);
	assert_false(uccl_pto_proven(&s, NOW));
}

/* All packets of one instant are one reason to set the timer. */
TEST_IN(sent__once_in_an_instant, setup, NULL)
{
	uccl_pto_sent(&s, &t, true, NOW);
	assert_int_equal(s.at, NOW + uccl_times_pto(&t));
	s.at = 7;
	uccl_pto_sent(&s, &t, false, NOW);
	assert_int_equal(s.at, 7);
	uccl_pto_sent(&s, &t, false, NOW + 1);
	assert_int_equal(s.at, NOW + 1 + uccl_times_pto(&t));
	s.at = UCCL_NEVER;
	/* Nothing was in flight: all was answered in this same instant. */
	uccl_pto_sent(&s, &t, true, NOW + 1);
	assert_int_equal(s.at, NOW + 1 + uccl_times_pto(&t));
}

/* What is sent into the silence does not put off the next question; what begins anew does not wait longer for it. */
TEST_IN(sent__into_the_silence, setup, NULL)
{
	uint64_t at;

	ask(1, 1, NOW);
	at = s.at;
	uccl_pto_sent(&s, &t, false, NOW + 5);
	assert_int_equal(s.at, at);
	assert_int_equal(s.backoff, 1);
	uccl_pto_sent(&s, &t, true, NOW + 6);
	assert_int_equal(s.at, NOW + 6 + uccl_times_pto(&t));
	assert_int_equal(s.backoff, 0);
}

TEST_IN(answered__by_what_left_with_it, setup, NULL)
{
	ask(1, 1, NOW);
	assert_false(uccl_pto_reported(&s, NOW - 1));
	assert_true(uccl_pto_reported(&s, NOW));
	ask(1, 1, NOW + TICK);
	assert_false(uccl_pto_reported(&s, NOW));
}

/* It was in flight before the row, and what was reported left in it. */
TEST_IN(survived__edges, setup, NULL)
{
	ask(2, 1, NOW);
	assert_true(uccl_pto_survived(&s, NOW - 1, NOW));
	assert_false(uccl_pto_survived(&s, NOW - 1, NOW - 1));
	assert_false(uccl_pto_survived(&s, NOW, NOW));
	/* Later questions of the row change nothing. */
	ask(1, 1, NOW + MS);
	assert_true(uccl_pto_survived(&s, NOW - 1, NOW));
	assert_false(uccl_pto_survived(&s, NOW, NOW + MS));
}

TESTS_MAIN
