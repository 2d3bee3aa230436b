/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/rng.h"

#include "../tests.h"

#include <math.h>
#include <string.h>

TEST(seed__vectors)
{
	struct uccl_rng r;

	/* The first outputs of the published splitmix64 for the seeds 0 and 1234567. */
	uccl_rng_seed(&r, 0);
	assert_int_equal(r.s[0], 0xe220a8397b1dcdafull);
	assert_int_equal(r.s[1], 0x6e789e6aa1b965f4ull);
	assert_int_equal(r.s[2], 0x06c45d188009454full);
	uccl_rng_seed(&r, 1234567);
	assert_int_equal(r.s[0], 6457827717110365317ull);
	assert_int_equal(r.s[1], 3203168211198807973ull);
	assert_int_equal(r.s[2], 9817491932198370423ull);
	assert_int_equal(r.s[3], 4593380528125082431ull);
}

TEST(next__vectors)
{
	/* The first outputs of the published xoshiro256** from the state 1, 2, 3, 4. */
	static const uint64_t want[] = {
		11520, 0, 1509978240, 1215971899390074240ull, 1216172134540287360ull, 607988272756665600ull};
	struct uccl_rng r = {{1, 2, 3, 4}};

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		assert_int_equal(uccl_rng_next(&r), want[i]);
}

TEST(next__same_seed_same_numbers)
{
	struct uccl_rng a, b, c;
	int differ = 0;

	uccl_rng_seed(&a, 42);
	uccl_rng_seed(&b, 42);
	uccl_rng_seed(&c, 43);
	for (int i = 0; i < 1000; i++) {
		uint64_t x = uccl_rng_next(&a);

		assert_int_equal(x, uccl_rng_next(&b));
		differ += x != uccl_rng_next(&c);
	}
	assert_int_equal(differ, 1000);
}

TEST(below__one_is_zero)
{
	struct uccl_rng r;

	uccl_rng_seed(&r, 1);
	for (int i = 0; i < 100; i++)
		assert_int_equal(uccl_rng_below(&r, 1), 0);
}

TEST(below__uniform)
{
	enum { N = 7, DRAWS = 70000 };
	unsigned int seen[N] = {0};
	struct uccl_rng r;

	uccl_rng_seed(&r, 2);
	for (int i = 0; i < DRAWS; i++) {
		uint64_t v = uccl_rng_below(&r, N);

		assert_true(v < N);
		seen[v]++;
	}
	/* Standard deviation of each count: 93. */
	for (int i = 0; i < N; i++)
		assert_in_range(seen[i], DRAWS / N - 500, DRAWS / N + 500);
}

/* Multiplication alone would send two of four numbers to every third result. */
TEST(below__unbiased_for_large_n)
{
	const uint64_t n = 3ull << 62;
	unsigned int low = 0;
	struct uccl_rng r;

	uccl_rng_seed(&r, 3);
	for (int i = 0; i < 30000; i++) {
		uint64_t v = uccl_rng_below(&r, n);

		assert_true(v < n);
		low += v % 3 == 0;
	}
	assert_in_range(low, 9500, 10500);
}

TEST(chance__certain)
{
	struct uccl_rng r;

	uccl_rng_seed(&r, 4);
	for (int i = 0; i < 100; i++) {
		assert_false(uccl_rng_chance(&r, 0));
		assert_false(uccl_rng_chance(&r, -1));
		assert_false(uccl_rng_chance(&r, NAN));
		assert_true(uccl_rng_chance(&r, 1));
		assert_true(uccl_rng_chance(&r, 2));
	}
}

TEST(chance__frequency)
{
	struct uccl_rng r;
	int hits = 0;

	uccl_rng_seed(&r, 5);
	for (int i = 0; i < 256000; i++)
		hits += uccl_rng_chance(&r, 1.0 / 256);
	/* Standard deviation: 31.6. */
	assert_in_range(hits, 800, 1200);
}

TESTS_MAIN
