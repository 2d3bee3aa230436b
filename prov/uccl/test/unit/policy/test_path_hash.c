/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "policy/policies.h"

#include "../tests.h"

#include "base/rng.h"

static const struct uccl_policy_cfg cfg = {.chunk_bytes = 4096, .window_max = 1 << 20};
static uint64_t ps[UCCL_PATHSEL_STATE / 8];
static struct uccl_path paths[8];
static struct uccl_rng rng;

static int setup(void **state)
{
	uccl_rng_seed(&rng, 61);
	uccl_path_hash.init(ps, &cfg, 8);
	return 0;
}

static uint16_t pick(const uint16_t *usable, uint16_t n)
{
	return uccl_path_hash.select(ps, paths, usable, n, &(struct uccl_chunk_info){.bytes = 4096}, &rng, 1);
}

TEST_IN(select__stays, setup, NULL)
{
	const uint16_t usable[] = {0, 1, 2, 3, 4, 5, 6, 7};
	uint16_t first;

	first = pick(usable, 8);
	for (int i = 0; i < 100; i++)
		assert_int_equal(pick(usable, 8), first);
}

/* Flows spread: each path is some flow's. */
TEST_IN(select__drawn_at_random, setup, NULL)
{
	const uint16_t usable[] = {0, 1, 2, 3, 4, 5, 6, 7};
	unsigned int seen[8] = {0};

	for (int i = 0; i < 8000; i++) {
		uccl_path_hash.init(ps, &cfg, 8);
		seen[pick(usable, 8)]++;
	}
	for (int i = 0; i < 8; i++)
		assert_in_range(seen[i], 850, 1150);
}

/* Others come and go around it, before and behind it in the list. */
TEST_IN(select__stays_when_the_list_changes, setup, NULL)
{
	const uint16_t one[] = {4}, many[] = {1, 2, 4, 6}, last[] = {0, 1, 2, 3, 4};

	assert_int_equal(pick(one, 1), 4);
	assert_int_equal(pick(many, 4), 4);
	assert_int_equal(pick(last, 5), 4);
	assert_int_equal(pick(one, 1), 4);
}

TEST_IN(select__moves_when_it_must, setup, NULL)
{
	const uint16_t one[] = {4}, others[] = {1, 2}, all[] = {1, 2, 4};
	uint16_t second;

	assert_int_equal(pick(one, 1), 4);
	second = pick(others, 2);
	assert_true(second == 1 || second == 2);
	/* And does not go back. */
	for (int i = 0; i < 100; i++)
		assert_int_equal(pick(all, 3), second);
}

TESTS_MAIN
