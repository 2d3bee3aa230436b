/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/range_set.h"

#include "../tests.h"

#include <string.h>

#include "base/rng.h"

#define PIECES 200

static const uint8_t key[UCCL_KEY_LEN] = {1, 2, 3};

struct piece {
	uint64_t from, to;
};

TEST(whole__nothing)
{
	struct uccl_range_set c = {0};

	assert_true(uccl_range_set_whole(&c, 0, key));
	assert_false(uccl_range_set_whole(&c, 1, key));
	assert_true(uccl_range_set_add(&c, 5, 5, key));
	assert_true(uccl_range_set_whole(&c, 0, key));
}

TEST(add__in_order)
{
	struct uccl_range_set c = {0};

	for (uint64_t at = 0; at < 1000; at += 10) {
		assert_false(uccl_range_set_whole(&c, 1000, key));
		assert_true(uccl_range_set_add(&c, at, at + 10, key));
		assert_true(uccl_range_set_whole(&c, at + 10, key));
	}
	assert_false(c.summed);
	assert_false(uccl_range_set_whole(&c, 999, key));
	assert_false(uccl_range_set_whole(&c, 1001, key));
}

TEST(add__backwards_and_between)
{
	struct uccl_range_set c = {0};

	assert_true(uccl_range_set_add(&c, 20, 30, key));
	assert_true(uccl_range_set_add(&c, 10, 20, key));
	assert_true(uccl_range_set_add(&c, 40, 50, key));
	assert_true(uccl_range_set_add(&c, 30, 40, key));
	assert_false(uccl_range_set_whole(&c, 50, key));
	assert_true(uccl_range_set_add(&c, 0, 10, key));
	assert_false(c.summed);
	assert_true(uccl_range_set_whole(&c, 50, key));
}

/* What is seen at once: any byte twice, in one of the runs. */
TEST(add__twice)
{
	static const struct piece again[] = {{10, 20}, {10, 11}, {19, 20}, {5, 11}, {19, 25}, {0, 30}, {12, 15}};

	for (size_t i = 0; i < sizeof(again) / sizeof(again[0]); i++) {
		struct uccl_range_set c = {0};

		assert_true(uccl_range_set_add(&c, 10, 20, key));
		assert_false(uccl_range_set_add(&c, again[i].from, again[i].to, key));
		assert_true(uccl_range_set_add(&c, 0, 10, key));
		assert_true(uccl_range_set_whole(&c, 20, key));
	}
}

/* Cut [0, len) into n pieces, in any order. */
static int cut(struct uccl_rng *r, struct piece *v, uint64_t len)
{
	uint64_t at = 0;
	int n = 0;

	while (at < len) {
		uint64_t step = n == PIECES - 1 ? len - at : 1 + uccl_rng_below(r, 40);

		step = step > len - at ? len - at : step;
		v[n++] = (struct piece){at, at + step};
		at += step;
	}
	for (int i = n - 1; i > 0; i--) {
		int k = (int)uccl_rng_below(r, (uint64_t)i + 1);
		struct piece p = v[i];

		v[i] = v[k];
		v[k] = p;
	}
	return n;
}

/* Pieces in any order are the whole; with one of them moved, doubled, longer or shorter they are not. */
TEST(whole__any_order)
{
	struct uccl_rng r;
	int lies = 0;

	uccl_rng_seed(&r, 7);
	for (int round = 0; round < 2000; round++) {
		struct uccl_range_set c = {0}, bad = {0};
		uint64_t len = 1 + uccl_rng_below(&r, 1500);
		struct piece v[PIECES];
		int n = cut(&r, v, len), lie = (int)uccl_rng_below(&r, (uint64_t)n);
		bool seen = false;

		for (int i = 0; i < n; i++) {
			assert_false(uccl_range_set_whole(&c, len, key));
			assert_true(uccl_range_set_add(&c, v[i].from, v[i].to, key));
		}
		assert_true(uccl_range_set_whole(&c, len, key));
		assert_false(uccl_range_set_whole(&c, len + 1, key));
		for (int i = 0; i < n; i++) {
			struct piece p = v[i];

			if (i == lie) {
				uint64_t by = 1 + uccl_rng_below(&r, 5);

				/* As many bytes as there were, but elsewhere. */
				p.from += by;
				p.to += by;
			}
			seen |= !uccl_range_set_add(&bad, p.from, p.to, key);
		}
		lies += !seen;
		assert_true(seen || !uccl_range_set_whole(&bad, len, key));
	}
	/* Most are seen by the sum alone, not by the few runs that are kept. */
	assert_true(lies > 100);
}

/* Another key, other sums: one that was guessed helps nobody. */
TEST(whole__depends_on_the_key)
{
	static const uint8_t other[UCCL_KEY_LEN] = {9};
	struct uccl_range_set c = {0};

	for (uint64_t i = 0; i < 10; i++)
		assert_true(uccl_range_set_add(&c, 18 - 2 * i, 19 - 2 * i, key));
	for (uint64_t i = 0; i < 10; i++)
		assert_true(uccl_range_set_add(&c, 19 - 2 * i, 20 - 2 * i, key));
	assert_true(c.summed);
	assert_true(uccl_range_set_whole(&c, 20, key));
	assert_false(uccl_range_set_whole(&c, 20, other));
}

TESTS_MAIN
