/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "policy/policies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "base/units.h"

#define N 32
#define US UCCL_NS_PER_US
#define MS UCCL_NS_PER_MS

static uint64_t ps[UCCL_PATHSEL_STATE / 8];
static struct uccl_path paths[N];
static uint16_t usable[N];
static uint16_t nusable;
static struct uccl_rng rng;
static uint64_t now;

static uint16_t pick(void)
{
	return uccl_path_reps.select(ps, paths, usable, nusable, 4096, &rng, now);
}

static void answer(uint16_t path, uint64_t rtt_ns)
{
	uccl_path_reps.on_ack(ps, path, rtt_ns, false, now);
}

/* Past the paths that are drawn first. */
static int setup(void **state)
{
	const struct uccl_policy_cfg cfg = {.chunk_bytes = 4096, .window_max = 1 << 20};

	(void)state;
	now = 1000 * US;
	nusable = N;
	for (uint16_t i = 0; i < N; i++) {
		uccl_path_init(&paths[i], i);
		usable[i] = i;
	}
	uccl_rng_seed(&rng, 7);
	uccl_path_reps.init(ps, &cfg, N);
	return 0;
}

static void explored(void)
{
	for (int i = 0; i < 16; i++)
		pick();
}

static void select__explores_first(void **state)
{
	uint32_t seen = 0;

	(void)state;
	answer(3, 10 * US);
	for (int i = 0; i < 16; i++)
		seen |= 1u << pick();
	/* Sixteen draws of 32: fewer than eight different ones come once in a million. */
	assert_true(__builtin_popcount(seen) >= 8);
	assert_int_equal(pick(), 3);
}

static void select__recycles_in_order(void **state)
{
	(void)state;
	explored();
	answer(5, 10 * US);
	answer(9, 12 * US);
	answer(5, 11 * US);
	assert_int_equal(pick(), 5);
	assert_int_equal(pick(), 9);
	assert_int_equal(pick(), 5);
}

/* Below twice the smallest RTT, and no mark. */
static void on_ack__good_or_not(void **state)
{
	(void)state;
	explored();
	answer(1, 10 * US);
	answer(2, 20 * US);
	answer(3, 20 * US - 1);
	uccl_path_reps.on_ack(ps, 4, 10 * US, true, now);
	answer(5, 5 * US);
	answer(6, 10 * US);
	assert_int_equal(pick(), 1);
	assert_int_equal(pick(), 3);
	assert_int_equal(pick(), 5);
	/* Nothing left: drawn, so that in the long run all come. */
	for (uint32_t seen = 0, i = 0; seen != UINT32_MAX; i++) {
		seen |= 1u << pick();
		assert_true(i < 1000);
	}
}

static void on_ack__ring_keeps_the_latest(void **state)
{
	(void)state;
	explored();
	for (uint16_t i = 0; i < 11; i++)
		answer(i, 10 * US);
	for (uint16_t i = 3; i < 11; i++)
		assert_int_equal(pick(), i);
}

static void select__not_what_left_service(void **state)
{
	(void)state;
	explored();
	answer(1, 10 * US);
	answer(2, 10 * US);
	paths[1].state = UCCL_PATH_QUARANTINE;
	assert_int_equal(pick(), 2);
	for (nusable = 0; nusable < 3; nusable++)
		usable[nusable] = (uint16_t)(20 + nusable);
	for (int i = 0; i < 50; i++)
		assert_in_range(pick(), 20, 22);
}

/* After a time-out those that worked go round, also those that had been used up, but not the silent one. */
static void on_loss__freezes(void **state)
{
	static const uint16_t want[] = {1, 2, 4};
	uint32_t count[N] = {0};

	(void)state;
	explored();
	for (uint16_t i = 1; i <= 4; i++)
		answer(i, 10 * US);
	pick();
	pick();
	uccl_path_reps.on_loss(ps, 3, UCCL_LOSS_RACK, now);
	assert_int_equal(pick(), 3);
	uccl_path_reps.on_loss(ps, 3, UCCL_LOSS_RTO, now);
	for (int i = 0; i < 30; i++)
		count[pick()]++;
	for (int i = 0; i < 3; i++)
		assert_int_equal(count[want[i]], 10);
	/* 10 ms later it begins anew. */
	now += 10 * MS;
	for (uint32_t seen = 0, i = 0; __builtin_popcount(seen) < 8; i++) {
		seen |= 1u << pick();
		assert_true(i < 16);
	}
}

static void on_loss__nothing_known(void **state)
{
	(void)state;
	explored();
	uccl_path_reps.on_loss(ps, 3, UCCL_LOSS_RTO, now);
	for (int i = 0; i < 100; i++)
		assert_true(pick() < N);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(select__explores_first, setup),
		cmocka_unit_test_setup(select__recycles_in_order, setup),
		cmocka_unit_test_setup(select__not_what_left_service, setup),
		cmocka_unit_test_setup(on_ack__good_or_not, setup),
		cmocka_unit_test_setup(on_ack__ring_keeps_the_latest, setup),
		cmocka_unit_test_setup(on_loss__freezes, setup),
		cmocka_unit_test_setup(on_loss__nothing_known, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
