/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The two estimators alone, and the time-outs that follow from them. */
#include "flow/ack/times.h"

#include "../../tests.h"

#define US UCCL_NS_PER_US
#define MS UCCL_NS_PER_MS
#define RTO_MIN MS

static struct uccl_times t;

static int setup(void **state)
{
	uccl_times_init(&t, RTO_MIN, 0);
	return 0;
}

TEST_IN(rtt__smoothed, setup, NULL)
{
	uccl_times_rtt(&t, 80 * US);
	assert_int_equal(t.srtt_ns, 80 * US);
	assert_int_equal(t.rttvar_ns, 40 * US);
	uccl_times_rtt(&t, 160 * US);
	assert_int_equal(t.srtt_ns, 90 * US);
	assert_int_equal(t.rttvar_ns, 50 * US);
	assert_int_equal(t.last_rtt_ns, 160 * US);
	assert_int_equal(t.min_rtt_ns, 80 * US);
	uccl_times_rtt(&t, 60 * US);
	assert_int_equal(t.min_rtt_ns, 60 * US);
}

/* One never moves the other. */
TEST_IN(rtt__apart_from_host, setup, NULL)
{
	struct uccl_times was;

	uccl_times_rtt(&t, 80 * US);
	was = t;
	uccl_times_host(&t, 5 * MS, 7);
	assert_int_equal(t.srtt_ns, was.srtt_ns);
	assert_int_equal(t.rttvar_ns, was.rttvar_ns);
	assert_int_equal(t.host_heard_ns, 7);
	was = t;
	uccl_times_rtt(&t, 90 * US);
	assert_int_equal(t.host_ns, was.host_ns);
	assert_int_equal(t.hostvar_ns, was.hostvar_ns);
	assert_int_equal(t.host_heard_ns, 7);
}

/* What an acknowledgement may be delayed is no time of the host. PROTOCOL R99 */
TEST_IN(host__beyond_what_it_may, setup, NULL)
{
	uccl_times_host(&t, UCCL_ACK_DELAY_NS, 1);
	assert_int_equal(uccl_times_host_wait(&t), 0);
	uccl_times_host(&t, UCCL_ACK_DELAY_NS + 800 * US, 2);
	assert_int_equal(t.host_ns, 100 * US);
	assert_int_equal(t.hostvar_ns, 200 * US);
	assert_int_equal(uccl_times_host_wait(&t), 900 * US);
}

/* One long pause counts for twice of what is waited for; several are believed, and forgotten again. PROTOCOL R99 */
TEST_IN(host__one_pause, setup, NULL)
{
	uccl_times_host(&t, 10 * UCCL_NS_PER_S, 1);
	assert_int_equal(t.host_ns, 2 * RTO_MIN / 8);
	for (uint64_t i = 0; i < 60; i++)
		uccl_times_host(&t, 20 * MS + UCCL_ACK_DELAY_NS, 2 + i);
	assert_in_range(t.host_ns, 19 * MS, 20 * MS);
	for (uint64_t i = 0; i < 100; i++)
		uccl_times_host(&t, 0, 100 + i);
	assert_in_range(uccl_times_host_wait(&t), 0, US);
}

TEST_IN(rto__bounds, setup, NULL)
{
	assert_int_equal(uccl_times_rto(&t), 4 * RTO_MIN);
	uccl_times_rtt(&t, US);
	assert_int_equal(uccl_times_rto(&t), RTO_MIN);
	t.srtt_ns = 2 * MS;
	t.rttvar_ns = MS;
	assert_int_equal(uccl_times_rto(&t), 6 * MS + UCCL_ACK_DELAY_NS);
	t.host_ns = 8 * MS;
	t.hostvar_ns = 3 * MS;
	assert_int_equal(uccl_times_rto(&t), 26 * MS + UCCL_ACK_DELAY_NS);
	t.srtt_ns = UCCL_NS_PER_S;
	assert_int_equal(uccl_times_rto(&t), UCCL_RTO_MAX_NS);
}

TEST_IN(pto__without_floor, setup, NULL)
{
	assert_int_equal(uccl_times_pto(&t), uccl_times_rto(&t));
	t.srtt_ns = 10 * US;
	assert_int_equal(uccl_times_pto(&t), 20 * US + UCCL_ACK_DELAY_NS);
	t.rttvar_ns = 5 * US;
	assert_int_equal(uccl_times_pto(&t), 30 * US + UCCL_ACK_DELAY_NS);
	t.host_ns = 300 * US;
	assert_int_equal(uccl_times_pto(&t), 330 * US + UCCL_ACK_DELAY_NS);
	/* Never later than the time-out. */
	t.srtt_ns = 250 * MS;
	assert_int_equal(uccl_times_pto(&t), UCCL_RTO_MAX_NS);
}

/*
 * What is answered at once waits for what the host took lately, 20 to 100 us on many, and no longer than for what may
 * be delayed; as long if no sample tells. PROTOCOL R346
 */
TEST_IN(pto_prompt__by_the_host, setup, NULL)
{
	assert_int_equal(uccl_times_pto_prompt(&t), uccl_times_rto(&t));
	uccl_times_rtt(&t, 10 * US);
	t.rttvar_ns = 0;
	assert_int_equal(uccl_times_pto_prompt(&t), uccl_times_pto(&t));
	uccl_times_host(&t, 0, 1);
	assert_in_range(uccl_times_pto_prompt(&t), 20 * US, 20 * US + 3);
	for (uint64_t i = 0; i < 100; i++)
		uccl_times_host(&t, i % 2 ? 20 * US : 40 * US, i);
	assert_in_range(uccl_times_pto_prompt(&t), 60 * US, 100 * US);
	for (uint64_t i = 0; i < 100; i++)
		uccl_times_host(&t, i % 2 ? 20 * US : 100 * US, 100 + i);
	assert_int_equal(uccl_times_pto_prompt(&t), uccl_times_pto(&t));
	for (uint64_t i = 0; i < 100; i++)
		uccl_times_host(&t, 5 * MS, 200 + i);
	assert_int_equal(uccl_times_pto_prompt(&t), uccl_times_pto(&t));
}

/* Who has just answered needs no time to begin: what left later comes as much later. PROTOCOL R243 */
TEST_IN(pto_next__as_much_later, setup, NULL)
{
	/* Nothing is known. */
	assert_int_equal(uccl_times_pto_next(&t, 0, true), uccl_times_pto(&t));
	t.srtt_ns = 400 * US;
	t.rttvar_ns = 50 * US;
	t.host_ns = 2 * MS;
	assert_int_equal(uccl_times_pto_next(&t, 0, true), 400 * US);
	assert_int_equal(uccl_times_pto_next(&t, 30 * US, true), 430 * US);
	assert_int_equal(uccl_times_pto_next(&t, 30 * US, false), 430 * US + UCCL_ACK_DELAY_NS);
	t.rttvar_ns = 300 * US;
	assert_int_equal(uccl_times_pto_next(&t, 0, true), 600 * US);
	/* Never later than if it had not answered. */
	assert_int_equal(uccl_times_pto_next(&t, 90 * MS, false), uccl_times_pto(&t));
}

/* Before the first sample the handshake tells, as if it were one; then it is forgotten. PROTOCOL R231 */
TEST_IN(first__until_a_sample, setup, NULL)
{
	uccl_times_init(&t, RTO_MIN, 20 * US);
	assert_int_equal(t.srtt_ns, 0);
	assert_int_equal(uccl_times_rto(&t), RTO_MIN);
	assert_int_equal(uccl_times_pto(&t), 60 * US + UCCL_ACK_DELAY_NS);
	assert_int_equal(uccl_times_pto_prompt(&t), 60 * US);
	t.host_ns = 300 * US;
	assert_int_equal(uccl_times_pto(&t), 360 * US + UCCL_ACK_DELAY_NS);
	t.host_ns = 0;
	uccl_times_rtt(&t, 100 * US);
	assert_int_equal(t.srtt_ns, 100 * US);
	assert_int_equal(uccl_times_pto(&t), 300 * US + UCCL_ACK_DELAY_NS);
	/* Far away: later than what there is without it. */
	uccl_times_init(&t, RTO_MIN, 3 * MS);
	assert_int_equal(uccl_times_rto(&t), 9 * MS + UCCL_ACK_DELAY_NS);
	assert_int_equal(uccl_times_pto(&t), uccl_times_rto(&t));
}

TESTS_MAIN
