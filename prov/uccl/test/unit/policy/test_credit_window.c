/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "policy/policies.h"

#include "../tests.h"

#include "base/rng.h"
#include "base/units.h"

#define KIB 1024ull
#define MIB (1024 * KIB)

static uint64_t cs[UCCL_CREDIT_STATE / 8];

static void start(uint32_t chunk, uint64_t window)
{
	const struct uccl_policy_cfg cfg = {.chunk_bytes = chunk, .window_max = window};

	uccl_credit_window.init(cs, &cfg, 0);
}

TEST(limit__speculative)
{
	start(32 * KIB, 8 * MIB);
	assert_int_equal(uccl_credit_window.limit(cs), 2 * MIB);
	start(32 * KIB, 64 * KIB);
	assert_int_equal(uccl_credit_window.limit(cs), 128 * KIB);
}

TEST(on_credit__cumulative)
{
	start(4 * KIB, MIB);
	/* Below the speculative window a grant changes nothing. */
	uccl_credit_window.on_credit(cs, 100 * KIB, 0, 1);
	assert_int_equal(uccl_credit_window.limit(cs), 256 * KIB);
	uccl_credit_window.on_credit(cs, 3 * MIB, 0, 2);
	assert_int_equal(uccl_credit_window.limit(cs), 3 * MIB);
	/* An older one that comes late, and the same again. */
	uccl_credit_window.on_credit(cs, 2 * MIB, 0, 3);
	assert_int_equal(uccl_credit_window.limit(cs), 3 * MIB);
	uccl_credit_window.on_credit(cs, 3 * MIB, 0, 4);
	assert_int_equal(uccl_credit_window.limit(cs), 3 * MIB);
}

TEST(grant__cap)
{
	start(32 * KIB, MIB);
	assert_int_equal(uccl_credit_window.grant(cs, 0, 0, 1), MIB);
	assert_int_equal(uccl_credit_window.grant(cs, 10 * MIB, 100 * MIB, 2), 11 * MIB);
	start(32 * KIB, 64 * MIB);
	assert_int_equal(uccl_credit_window.grant(cs, 5 * MIB, 0, 1), 7 * MIB);
	/* Never less than a chunk. */
	start(8 * KIB, 4 * KIB);
	assert_int_equal(uccl_credit_window.grant(cs, 0, 0, 1), 8 * KIB);
}

TEST(grant__monotonic)
{
	start(32 * KIB, MIB);
	assert_int_equal(uccl_credit_window.grant(cs, 10 * MIB, 0, 1), 11 * MIB);
	assert_int_equal(uccl_credit_window.grant(cs, 9 * MIB, 0, 2), 11 * MIB);
}

/* The two directions of a flow share the block and nothing in it. */
TEST(grant__not_the_senders)
{
	uint64_t limit;

	start(32 * KIB, MIB);
	limit = uccl_credit_window.limit(cs);
	uccl_credit_window.grant(cs, 100 * MIB, 0, 1);
	assert_int_equal(uccl_credit_window.limit(cs), limit);
	start(32 * KIB, MIB);
	uccl_credit_window.on_credit(cs, 100 * MIB, 0, 1);
	assert_int_equal(uccl_credit_window.grant(cs, 0, 0, 2), MIB);
}

/* A sender and a receiver, half of all credits lost: everything gets across, never more than the cap under way. */
TEST(grant__closed_loop)
{
	const uint64_t total = 100 * MIB, chunk = 32 * KIB;
	uint64_t sent = 0, received = 0, rounds = 0;
	struct uccl_rng rng;

	uccl_rng_seed(&rng, 31);
	start((uint32_t)chunk, 4 * MIB);
	while (received < total) {
		uint64_t granted;

		assert_true(++rounds < 100000);
		while (sent < total && sent + chunk <= uccl_credit_window.limit(cs))
			sent += chunk;
		assert_true(sent - received <= 2 * MIB);
		if (received < sent)
			received += chunk;
		granted = uccl_credit_window.grant(cs, received, total, rounds);
		if (uccl_rng_chance(&rng, 0.5))
			uccl_credit_window.on_credit(cs, granted, 0, rounds);
	}
	assert_int_equal(sent, total);
}

TESTS_MAIN
