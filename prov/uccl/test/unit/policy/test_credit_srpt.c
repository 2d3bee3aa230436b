/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "policy/policies.h"

#include "../tests.h"

#define KIB 1024ull

static const struct uccl_policy_cfg cfg = {.chunk_bytes = 32 * KIB,
					   .window_max = 8192 * KIB,
					   .link_bps = 400000000000ull,
					   .delay_ns = 12000};

static uint64_t cs[UCCL_CREDIT_STATE / 8];

/* It begins and is paced as with EQDS; the numbers of its own are Homa's. */
TEST(pull__sizes)
{
	double k[UCCL_CONSTANTS_MAX];
	struct uccl_policy_cfg other = cfg;
	struct uccl_pull_cfg pull, eqds;

	uccl_credit_eqds.pull(&cfg, &eqds);
	uccl_credit_srpt.pull(&cfg, &pull);
	assert_int_equal(pull.idle, eqds.idle);
	assert_int_equal(pull.window, eqds.window);
	assert_int_equal(pull.quantum, eqds.quantum);
	assert_int_equal(pull.at_once, 8);
	assert_int_equal(pull.fair, 20);
	assert_int_equal(eqds.at_once + eqds.fair, 0);
	assert_int_equal(uccl_policy_values(UCCL_POLICY_CREDIT, "srpt:at_once=3,fair=0", k, NULL, 0), 0);
	other.params = k;
	uccl_credit_srpt.pull(&other, &pull);
	assert_int_equal(pull.at_once, 3);
	assert_int_equal(pull.fair, 0);
}

TEST(on_credit__limit)
{
	uccl_credit_srpt.init(cs, &cfg, 0);
	assert_int_equal(uccl_credit_srpt.limit(cs), 32 * KIB);
	assert_int_equal(uccl_credit_srpt.whole(cs), 32 * KIB);
	uccl_credit_srpt.on_credit(cs, 128 * KIB, 0, 1);
	uccl_credit_srpt.on_credit(cs, 96 * KIB, 0, 1);
	assert_int_equal(uccl_credit_srpt.limit(cs), 128 * KIB);
	/* A receiver that grants nothing holds nobody back. PROTOCOL R64 */
	uccl_credit_srpt.on_credit(cs, UINT64_MAX, 0, 1);
	assert_true(uccl_credit_srpt.limit(cs) == UINT64_MAX);
}

TEST(rank__what_is_left)
{
	const struct uccl_sender lacks = {.left = 10, .demand = 1000, .ahead = 500, .turn = 9, .lost = true};
	const struct uccl_sender more = {.left = 11, .demand = 11};

	assert_true(uccl_credit_srpt.rank(&lacks) < uccl_credit_srpt.rank(&more));
}

TESTS_MAIN
