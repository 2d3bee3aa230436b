/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/seq.h"

#include "../tests.h"

#include <stdbool.h>

#include "base/rng.h"

/* The number with the right low bits in [ref - 2^(bits-1), ref + 2^(bits-1)), by trying all; below 0: up by 2^bits. */
static uint64_t brute_force(uint64_t ref, uint64_t wire, unsigned int bits)
{
	int64_t span = (int64_t)1 << bits;

	for (int64_t v = (int64_t)ref - span / 2; v < (int64_t)ref + span / 2; v++)
		if (((v % span) + span) % span == (int64_t)wire)
			return (uint64_t)(v < 0 ? v + span : v);
	fail_msg("no number with these bits");
	return 0;
}

/* Where two numbers are equally near, the range is half open: the lower one. Otherwise the nearest of all. */
static void expect_nearest(uint64_t ref, uint64_t got, unsigned int bits)
{
	uint64_t span = 1ull << bits, distance = got > ref ? got - ref : ref - got;

	if (got >= span && got - span <= ref)
		assert_true(distance <= ref - (got - span));
	if (got < ref)
		assert_true(distance <= got + span - ref);
}

TEST(expand__all_of_8_bits)
{
	for (uint64_t ref = 0; ref < 1024; ref++) {
		for (uint64_t wire = 0; wire < 256; wire++) {
			uint64_t got = uccl_seq_expand(ref, wire, 8);

			assert_int_equal(got, brute_force(ref, wire, 8));
			if (ref >= 128)
				expect_nearest(ref, got, 8);
		}
	}
}

TEST(expand__all_of_1_bit)
{
	for (uint64_t ref = 0; ref < 16; ref++)
		for (uint64_t wire = 0; wire < 2; wire++)
			assert_int_equal(uccl_seq_expand(ref, wire, 1), brute_force(ref, wire, 1));
}

/* RFC 9000 appendix A.3: 0xa82f30ea was the highest, 0x9b32 arrives in 16 bits. */
TEST(expand__rfc_9000)
{
	assert_int_equal(uccl_seq_expand(0xa82f30ebull, 0x9b32, 16), 0xa82f9b32ull);
}

TEST(expand__ignores_higher_bits)
{
	assert_int_equal(uccl_seq_expand(1000, 0xabcdef00 + 0xe9, 8), uccl_seq_expand(1000, 0xe9, 8));
}

/* What was at most half the range away comes back, at every width and near both ends of 64 bits. */
TEST(expand__round_trip)
{
	struct uccl_rng r;

	uccl_rng_seed(&r, 21);
	for (unsigned int bits = 1; bits <= 63; bits++) {
		uint64_t half = 1ull << (bits - 1);

		for (int i = 0; i < 1000; i++) {
			uint64_t ref = half + uccl_rng_below(&r, UINT64_MAX - 2 * half);
			uint64_t seq = ref - half + uccl_rng_below(&r, 2 * half);

			assert_int_equal(uccl_seq_expand(ref, seq & (2 * half - 1), bits), seq);
		}
	}
}

/* A number "from before 0" is far above any window instead, never wrapped to the top of 64 bits. */
TEST(expand__below_zero)
{
	assert_int_equal(uccl_seq_expand(0, 255, 8), 255);
	assert_int_equal(uccl_seq_expand(0, 0xffffffff, 32), 0xffffffff);
	assert_int_equal(uccl_seq_expand(5, 0xfffffff0, 32), 0xfffffff0);
	assert_int_equal(uccl_seq_expand(5, 4, 32), 4);
}

TESTS_MAIN
