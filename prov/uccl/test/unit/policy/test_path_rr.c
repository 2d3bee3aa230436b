/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "policy/policies.h"

#include "../tests.h"

#include "base/rng.h"

static uint64_t ps[UCCL_PATHSEL_STATE / 8];
static struct uccl_path paths[8];
static struct uccl_rng rng;

static int setup(void **state)
{
	const struct uccl_policy_cfg cfg = {.chunk_bytes = 4096, .window_max = 1 << 20};

	uccl_rng_seed(&rng, 51);
	uccl_path_rr.init(ps, &cfg, 8);
	return 0;
}

static uint16_t pick(const uint16_t *usable, uint16_t n)
{
	return uccl_path_rr.select(ps, paths, usable, n, &(struct uccl_chunk_info){.bytes = 4096}, &rng, 1);
}

TEST_IN(select__in_turn, setup, NULL)
{
	const uint16_t usable[] = {1, 3, 7};

	for (int i = 0; i < 30; i++)
		assert_int_equal(pick(usable, 3), usable[i % 3]);
}

TEST_IN(select__list_shrinks, setup, NULL)
{
	const uint16_t usable[] = {0, 1, 2, 3};

	for (int i = 0; i < 3; i++)
		pick(usable, 4);
	assert_int_equal(pick(usable, 2), 0);
	assert_int_equal(pick(usable, 2), 1);
	assert_int_equal(pick(usable, 1), 0);
	assert_int_equal(pick(usable, 1), 0);
	assert_int_equal(pick(usable, 4), 1);
}

TESTS_MAIN
