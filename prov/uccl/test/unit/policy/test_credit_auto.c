/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "policy/policies.h"

#include "../tests.h"

#define KIB 1024ull

static const struct uccl_policy_cfg cfg = {.chunk_bytes = 32 * KIB,
					   .window_max = 8192 * KIB,
					   .link_bps = 400000000000ull,
					   .delay_ns = 12000};

static uint64_t cs[UCCL_CREDIT_STATE / 8];

static void credit(uint64_t granted, uint64_t turn)
{
	uccl_credit_auto.on_credit(cs, granted, turn, 1);
}

static uint64_t limit(void)
{
	return uccl_credit_auto.limit(cs);
}

/* It begins and is paced as with EQDS; 50 us are more than four round trips of 12. */
TEST(pull__sizes)
{
	struct uccl_policy_cfg slow = cfg;
	struct uccl_pull_cfg pull, eqds;

	uccl_credit_auto.init(cs, &cfg, 0);
	assert_int_equal(limit(), 32 * KIB);
	assert_int_equal(uccl_credit_auto.whole(cs), 32 * KIB);
	uccl_credit_eqds.pull(&cfg, &eqds);
	uccl_credit_auto.pull(&cfg, &pull);
	assert_int_equal(eqds.senders, 0);
	assert_int_equal(pull.idle, eqds.idle);
	assert_int_equal(pull.window, eqds.window);
	assert_int_equal(pull.quantum, eqds.quantum);
	assert_int_equal(pull.senders, 4);
	assert_int_equal(pull.quiet_ns, 50000);
	slow.delay_ns = 100000;
	uccl_credit_auto.pull(&slow, &pull);
	assert_int_equal(pull.quiet_ns, 400000);
}

/* PROTOCOL R65 */
TEST(on_credit__turns)
{
	uccl_credit_auto.init(cs, &cfg, 0);
	credit(128 * KIB, 0);
	assert_int_equal(limit(), 128 * KIB);
	credit(UINT64_MAX, 1);
	assert_true(limit() == UINT64_MAX);
	credit(1000 * KIB, 2);
	assert_int_equal(limit(), 1000 * KIB);
	/* Within a turn grants overtake each other. */
	credit(1100 * KIB, 2);
	credit(1050 * KIB, 2);
	assert_int_equal(limit(), 1100 * KIB);
	/* One turn was lost. */
	credit(4000 * KIB, 4);
	assert_int_equal(limit(), 4000 * KIB);
	credit(UINT64_MAX, 5);
	assert_true(limit() == UINT64_MAX);
}

/* A receiver that knows of no turns grants as it likes. PROTOCOL R64 */
TEST(on_credit__no_turns)
{
	uccl_credit_auto.init(cs, &cfg, 0);
	credit(UINT64_MAX, 0);
	assert_true(limit() == UINT64_MAX);
	credit(1000 * KIB, 0);
	assert_true(limit() == UINT64_MAX);
}

TESTS_MAIN
