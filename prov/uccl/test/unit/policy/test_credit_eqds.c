/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "policy/policies.h"

#include "../tests.h"

#define KIB 1024ull

static uint64_t cs[UCCL_CREDIT_STATE / 8];
static struct uccl_pull_cfg pull;

static void start(uint32_t chunk, uint64_t link, uint64_t delay)
{
	const struct uccl_policy_cfg cfg = {.chunk_bytes = chunk,
					    .window_max = 8192 * KIB,
					    .link_bps = link,
					    .delay_ns = delay};

	uccl_credit_eqds.init(cs, &cfg, 0);
	uccl_credit_eqds.pull(&cfg, &pull);
}

/* The speculative window: what of something longer leaves unsolicited, and so many more where that is all. */
static void expect_window(uint64_t longer, uint64_t window)
{
	assert_int_equal(uccl_credit_eqds.limit(cs), longer);
	assert_int_equal(uccl_credit_eqds.limit(cs) + uccl_credit_eqds.whole(cs), window);
	assert_int_equal(pull.idle, longer);
}

/* 400 Gb/s and 12 us are 600,000 bytes; a sixteenth is less than two chunks. */
TEST(init__sizes)
{
	start(32 * KIB, 400000000000ull, 12000);
	expect_window(32 * KIB, 64 * KIB);
	assert_int_equal(pull.quantum, 32 * KIB);
	assert_int_equal(pull.window, 32 * KIB + 1200000 + 256 * KIB);
	/* 40 Gb/s and 100 us: 500,000 bytes. */
	start(4 * KIB, 40000000000ull, 100000);
	expect_window(15625, 31250);
	assert_int_equal(pull.quantum, 16 * KIB);
	assert_int_equal(pull.window, 15625 + 1000000 + 32 * KIB);
	/* What hosts are late by is no room in a queue: ten times as much, and a sixteenth of it would be 312,500. */
	start(4 * KIB, 400000000000ull, 100000);
	expect_window(32 * KIB, 64 * KIB);
	assert_int_equal(pull.window, 32 * KIB + 10000000 + 32 * KIB);
	/* Nothing is known: 10 Gb/s and 25 us are 31,250 bytes. */
	start(4 * KIB, 0, 0);
	expect_window(4 * KIB, 8 * KIB);
	assert_int_equal(pull.window, 4 * KIB + 62500 + 32 * KIB);
	/* Small chunks and a short link: grants of 16 KiB, of which four fit. */
	start(512, 1000000000ull, 10000);
	assert_int_equal(pull.window, 512 + 4 * 16 * KIB);
	/* A sender alone is never held up by the size of a grant. */
	assert_true(pull.window >= pull.idle + 2 * pull.quantum);
}

/* A part of the speculative window is a chunk at least; 1: no difference is made. */
TEST(init__long_share)
{
	struct uccl_policy_cfg cfg = {.chunk_bytes = 32 * KIB, .link_bps = 400000000000ull, .delay_ns = 12000};
	static const char *const text[] = {"eqds:long_share=1", "eqds:long_share=4"};
	double k[UCCL_CONSTANTS_MAX];

	cfg.params = k;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(uccl_policy_values(UCCL_POLICY_CREDIT, text[i], k, NULL, 0), 0);
		uccl_credit_eqds.init(cs, &cfg, 0);
		uccl_credit_eqds.pull(&cfg, &pull);
		expect_window(i ? 32 * KIB : 64 * KIB, 64 * KIB);
	}
}

TEST(on_credit__cumulative)
{
	start(32 * KIB, 400000000000ull, 12000);
	uccl_credit_eqds.on_credit(cs, 16 * KIB, 0, 1);
	assert_int_equal(uccl_credit_eqds.limit(cs), 32 * KIB);
	uccl_credit_eqds.on_credit(cs, 320 * KIB, 0, 2);
	uccl_credit_eqds.on_credit(cs, 96 * KIB, 0, 3);
	assert_int_equal(uccl_credit_eqds.limit(cs), 320 * KIB);
	uccl_credit_eqds.on_credit(cs, UINT64_MAX, 0, 4);
	assert_int_equal(uccl_credit_eqds.limit(cs), UINT64_MAX);
}

TESTS_MAIN
