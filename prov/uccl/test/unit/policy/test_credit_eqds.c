/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "policy/policies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

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

/* 400 Gb/s and 12 us are 600,000 bytes; a sixteenth is less than two chunks. */
static void init__sizes(void **state)
{
	(void)state;
	start(32 * KIB, 400000000000ull, 12000);
	assert_int_equal(uccl_credit_eqds.limit(cs), 64 * KIB);
	assert_int_equal(pull.idle, 64 * KIB);
	assert_int_equal(pull.quantum, 64 * KIB);
	assert_int_equal(pull.window, 64 * KIB + 1200000 + 256 * KIB);
	/* 40 Gb/s and 100 us: 500,000 bytes. */
	start(4 * KIB, 40000000000ull, 100000);
	assert_int_equal(uccl_credit_eqds.limit(cs), 31250);
	assert_int_equal(pull.quantum, 16 * KIB);
	assert_int_equal(pull.window, 31250 + 1000000 + 32 * KIB);
	/* What hosts are late by is no room in a queue: ten times as much, and a sixteenth of it would be 312,500. */
	start(4 * KIB, 400000000000ull, 100000);
	assert_int_equal(uccl_credit_eqds.limit(cs), 64 * KIB);
	assert_int_equal(pull.window, 64 * KIB + 10000000 + 32 * KIB);
	/* Nothing is known: 10 Gb/s and 25 us are 31,250 bytes. */
	start(4 * KIB, 0, 0);
	assert_int_equal(uccl_credit_eqds.limit(cs), 8 * KIB);
	assert_int_equal(pull.window, 8 * KIB + 62500 + 32 * KIB);
	/* Small chunks and a short link: grants of 16 KiB, of which four fit. */
	start(512, 1000000000ull, 10000);
	assert_int_equal(pull.window, 1024 + 4 * 16 * KIB);
	/* A sender alone is never held up by the size of a grant. */
	assert_true(pull.window >= pull.idle + 2 * pull.quantum);
}

static void on_credit__cumulative(void **state)
{
	(void)state;
	start(32 * KIB, 400000000000ull, 12000);
	uccl_credit_eqds.on_credit(cs, 32 * KIB, 0, 1);
	assert_int_equal(uccl_credit_eqds.limit(cs), 64 * KIB);
	uccl_credit_eqds.on_credit(cs, 320 * KIB, 0, 2);
	uccl_credit_eqds.on_credit(cs, 96 * KIB, 0, 3);
	assert_int_equal(uccl_credit_eqds.limit(cs), 320 * KIB);
	uccl_credit_eqds.on_credit(cs, UINT64_MAX, 0, 4);
	assert_int_equal(uccl_credit_eqds.limit(cs), UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(init__sizes),
		cmocka_unit_test(on_credit__cumulative),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
