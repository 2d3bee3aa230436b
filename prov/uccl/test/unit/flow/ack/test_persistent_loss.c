/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* When payload rests, alone: no packet. What a flow does then is in test_tx_again. */
#include "flow/ack/persistent_loss.h"

#include "../../tests.h"

#define US UCCL_NS_PER_US
#define MS UCCL_NS_PER_MS
#define NOW (640 * MS)
#define RTT (400 * US)

static struct uccl_persistent_loss b;
static struct uccl_times t;

static int setup(void **state)
{
	b = (struct uccl_persistent_loss){0};
	uccl_times_init(&t, MS, 0);
	uccl_times_rtt(&t, RTT);
	return 0;
}

/* So many rounds end in which all is lost. Returns when the latest did. */
static uint64_t rounds(unsigned int n, uint64_t now)
{
	for (unsigned int i = 0; i < n; i++) {
		uint64_t left = uccl_max(now, b.at);

		now = left + RTT;
		uccl_persistent_loss_lost(&b, &t, left, now);
	}
	return now;
}

/* Some rounds are free, then each rest is twice as long, up to the longest time-out. */
TEST_IN(lost__ever_longer, setup, NULL)
{
	uint64_t now = rounds(UCCL_PERSISTENT_LOSS_ROUNDS, NOW), rest = 2 * uccl_times_pto(&t);

	assert_false(uccl_persistent_loss_rests(&b, now));
	for (int i = 0; i < 100; i++) {
		now = rounds(1, now);
		assert_int_equal(b.at - now, uccl_min(rest, UCCL_RTO_MAX_NS));
		assert_true(uccl_persistent_loss_rests(&b, now));
		assert_true(uccl_persistent_loss_rests(&b, b.at - 1));
		assert_false(uccl_persistent_loss_rests(&b, b.at));
		rest = uccl_min(2 * rest, UCCL_RTO_MAX_NS);
	}
}

/* A window that is lost is one round. */
TEST_IN(lost__of_one_round, setup, NULL)
{
	uint64_t now = rounds(UCCL_PERSISTENT_LOSS_ROUNDS, NOW);

	for (int i = 0; i < 100; i++)
		uccl_persistent_loss_lost(&b, &t, now - 1, now + (uint64_t)i);
	assert_false(uccl_persistent_loss_rests(&b, now));
	/* Nor do those of the same instant begin another one. */
	uccl_persistent_loss_lost(&b, &t, now, now);
	assert_int_equal(b.rounds, UCCL_PERSISTENT_LOSS_ROUNDS + 1);
	uccl_persistent_loss_lost(&b, &t, now, now);
	assert_int_equal(b.rounds, UCCL_PERSISTENT_LOSS_ROUNDS + 1);
}

TEST_IN(came__ends_it, setup, NULL)
{
	uint64_t now = rounds(2 * UCCL_PERSISTENT_LOSS_ROUNDS, NOW);

	assert_true(uccl_persistent_loss_rests(&b, now));
	uccl_persistent_loss_came(&b);
	assert_false(uccl_persistent_loss_rests(&b, now));
	now = rounds(UCCL_PERSISTENT_LOSS_ROUNDS, now);
	assert_false(uccl_persistent_loss_rests(&b, now));
	now = rounds(1, now);
	assert_true(uccl_persistent_loss_rests(&b, now));
}

TEST_IN(ask__once, setup, NULL)
{
	uint64_t now = rounds(UCCL_PERSISTENT_LOSS_ROUNDS + 1, NOW);

	assert_true(uccl_persistent_loss_ask(&b));
	assert_false(uccl_persistent_loss_ask(&b));
	now = rounds(1, now);
	assert_true(uccl_persistent_loss_ask(&b));
	assert_false(uccl_persistent_loss_ask(&b));
	uccl_persistent_loss_came(&b);
	rounds(UCCL_PERSISTENT_LOSS_ROUNDS + 2, now);
	assert_true(uccl_persistent_loss_ask(&b));
}

/* The end of a rest is none of the row. */
TEST_IN(over__goes_on, setup, NULL)
{
	uint64_t now = rounds(UCCL_PERSISTENT_LOSS_ROUNDS + 3, NOW), rest = b.at - now;

	now = b.at;
	uccl_persistent_loss_over(&b);
	assert_false(uccl_persistent_loss_rests(&b, now));
	now = rounds(1, now);
	assert_int_equal(b.at - now, uccl_min(2 * rest, UCCL_RTO_MAX_NS));
}

TESTS_MAIN
