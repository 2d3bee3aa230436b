/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The map of a chunk in segments, against sums made one by one, for every cut and every map of few segments. */
#include "../tests.h"

#include "base/rng.h"
#include "flow/segment_map.h"

/* Every chunk of up to 900 bytes in up to 64 segments, none of them empty. */
TEST(init__every_cut)
{
	for (uint32_t total = 1; total <= 900; total++)
		for (uint32_t count = 1; count <= uccl_min(total, UCCL_SEGMENT_COUNT); count++) {
			struct uccl_segment_map p;
			uint32_t at = 0;

			if (uccl_segment_each(total, (uint8_t)count) * (count - 1) >= total)
				continue;
			uccl_segment_map_init(&p, total, (uint8_t)count);
			for (uint8_t i = 0; i < count; i++) {
				assert_int_equal(uccl_segment_map_at(&p, i), at);
				assert_int_equal(uccl_segment_map_bytes(&p, 1ull << i), uccl_segment_map_len(&p, i));
				assert_in_range(uccl_segment_map_len(&p, i), 1, p.each);
				assert_false(uccl_segment_map_has(&p, i));
				for (uint32_t len = 0; len <= p.each + 1u; len++)
					assert_int_equal(uccl_segment_map_fits(&p, i, len),
							 len == uccl_segment_map_len(&p, i));
				at += uccl_segment_map_len(&p, i);
			}
			assert_int_equal(at, total);
			assert_false(uccl_segment_map_fits(&p, (uint8_t)count, p.each));
			assert_false(uccl_segment_map_fits(&p, UINT8_MAX, 0));
			assert_int_equal(__builtin_popcountll(uccl_segment_map_all(&p)), count);
			assert_true(uccl_segment_map_missing(&p) == uccl_segment_map_all(&p));
			assert_int_equal(uccl_segment_map_bytes(&p, uccl_segment_map_all(&p)), total);
		}
}

/* Every map, taken one by one and at once. */
TEST(took__every_map)
{
	for (uint8_t count = 2; count <= 10; count++)
		for (uint64_t map = 0; map < 1ull << count; map++) {
			struct uccl_segment_map one, all;
			uint32_t sum = 0;

			uccl_segment_map_init(&one, count * 104u - 37, count);
			all = one;
			for (uint8_t i = 0; i < count; i++) {
				if (!(map >> i & 1))
					continue;
				sum += uccl_segment_map_took(&one, 1ull << i);
			}
			assert_int_equal(!uccl_segment_map_missing(&one), map == uccl_segment_map_all(&one));
			assert_int_equal(uccl_segment_map_bytes(&one, map), sum);
			assert_int_equal(uccl_segment_map_took(&all, map), sum);
			assert_int_equal(uccl_segment_map_took(&all, map), 0);
			assert_true(all.have == one.have && one.have == map);
			assert_true(uccl_segment_map_missing(&one) == (uccl_segment_map_all(&one) & ~map));
			assert_int_equal(uccl_segment_map_took(&all, uccl_segment_map_all(&all)), one.total - sum);
		}
}

TEST(row__every_one)
{
	for (uint8_t first = 0; first < UCCL_SEGMENT_COUNT; first++) {
		uint64_t map = 0;

		for (uint8_t last = first; last < UCCL_SEGMENT_COUNT; last++) {
			map |= 1ull << last;
			assert_true(uccl_segment_map_run(first, last) == map);
		}
	}
}

/* In order or not, in two halves that overlap. */
TEST(took__counts_once)
{
	struct uccl_rng rng;

	uccl_rng_seed(&rng, 5);
	for (int i = 0; i < 2000; i++) {
		uint8_t count = (uint8_t)(2 + uccl_rng_below(&rng, UCCL_SEGMENT_COUNT - 1));
		uint64_t a, b;
		struct uccl_segment_map p;

		uccl_segment_map_init(&p, count * 1432u, count);
		a = uccl_rng_next(&rng) & uccl_segment_map_all(&p);
		b = uccl_rng_next(&rng) & uccl_segment_map_all(&p);
		assert_int_equal(uccl_segment_map_took(&p, a) + uccl_segment_map_took(&p, b),
				 uccl_segment_map_bytes(&p, a | b));
	}
}

TEST(behind__every_map)
{
	for (uint64_t map = 0; map < 256; map++)
		for (uint64_t other = 1; other < 256; other++) {
			uint32_t last = 0, n = 0;

			for (uint32_t i = 0; i < 8; i++)
				last = other >> i & 1 ? i : last;
			for (uint32_t i = last + 1; i < 8; i++)
				n += map >> i & 1;
			assert_int_equal(uccl_segment_map_behind(map, other), n);
			assert_int_equal(uccl_segment_map_behind(map << 56, other << 56), n);
		}
}

/* Together with the gaps each byte is there once. */
TEST(gap__every_map)
{
	for (uint8_t count = 1; count <= 10; count++)
		for (uint64_t map = 0; map < 1ull << count; map++) {
			uint32_t from, to, end = 0, bytes;
			struct uccl_segment_map p;
			uint8_t i = 0;

			uccl_segment_map_init(&p, count * 104u - 37, count);
			bytes = uccl_segment_map_took(&p, map);
			while (uccl_segment_map_gap(&p, &i, &from, &to)) {
				/* Two that meet are one. */
				assert_true(to > from && to <= p.total && (!end || from > end));
				for (uint8_t k = 0; k < count; k++)
					if (uccl_segment_map_at(&p, k) >= from && uccl_segment_map_at(&p, k) < to)
						assert_false(uccl_segment_map_has(&p, k));
				end = to;
				bytes += to - from;
			}
			assert_int_equal(bytes, p.total);
		}
}

TESTS_MAIN
