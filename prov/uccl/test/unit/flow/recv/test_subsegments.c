/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Segments that come in sub-segments, alone. What a flow makes of them is in test_subsegment. */
#include "flow/recv/subsegments.h"

#include "../../tests.h"

#include <string.h>

#include "base/rng.h"
#include "base/units.h"

#define MOST 8192
#define CSN ((1ull << 32) - 3)
#define RTYPE 5

static struct uccl_subsegments p;
static uint8_t chunk[MOST + 1], rec[UCCL_REC_LEN];

static int setup(void **state)
{
	uccl_subsegments_init(&p, MOST);
	for (unsigned int i = 0; i < sizeof(chunk); i++)
		chunk[i] = (uint8_t)(i * 7 + i / 256);
	for (unsigned int i = 0; i < sizeof(rec); i++)
		rec[i] = (uint8_t)(200 + i);
	return 0;
}

static int teardown(void **state)
{
	uccl_subsegments_fini(&p);
	assert_int_equal(p.n, 0);
	return 0;
}

/* Sub-segment `sub` of `subs` of segment `index` of a chunk comes, that has segments of `total` bytes, or is one. */
static enum uccl_drop feed_of(uint64_t csn, uint8_t index, uint8_t sub, uint8_t subs, uint32_t total, uint8_t rtype,
			      const struct uccl_partial_segment **whole)
{
	uint32_t size = uccl_segment_each(total, subs), off = sub * size;
	const struct uccl_segment s = {.index = index ? (uint8_t)(index - 1) : 0,
				       .count = index ? 4 : 1,
				       .sub = sub,
				       .subs = subs,
				       .total = index ? 4 * total : total};
	uint8_t bytes[UCCL_REC_LEN];
	struct uccl_hdr h = {.type = UCCL_PKT_SEGMENT, .rtype = rtype, .csn = (uint32_t)csn, .rec = bytes};

	h.payload_len = (uint16_t)uccl_min(size, total - off);
	uccl_segment_encode(bytes, rec, &s);
	return uccl_subsegments_take(&p, &s, &h, csn, chunk + off, whole);
}

static enum uccl_drop feed_as(uint64_t csn, uint8_t sub, uint8_t subs, uint32_t total, uint8_t rtype,
			      const struct uccl_partial_segment **whole)
{
	return feed_of(csn, 0, sub, subs, total, rtype, whole);
}

static const struct uccl_partial_segment *feed(uint64_t csn, uint8_t index, uint8_t count, uint32_t total)
{
	const struct uccl_partial_segment *whole;

	assert_int_equal(feed_as(csn, index, count, total, RTYPE, &whole), UCCL_DROP_COUNT);
	return whole;
}

/* In any order, some of them twice: whole with the last that was missing, and the same bytes. */
TEST_IN(take__whole, setup, teardown)
{
	struct uccl_rng rng;

	uccl_rng_seed(&rng, 11);
	for (uint8_t count = 2; count <= 64; count++) {
		uint32_t total = MOST - (uint32_t)uccl_rng_below(&rng, 60);
		const struct uccl_partial_segment *whole = NULL;
		uint64_t have = 0, all = ~0ull >> (64 - count);

		/* So many of one length each may be too many. */
		if ((count - 1u) * uccl_segment_each(total, count) >= total)
			continue;
		while (have != all) {
			uint8_t i = (uint8_t)uccl_rng_below(&rng, count);

			assert_null(whole);
			assert_int_equal(feed_as(CSN, i, count, total, RTYPE, &whole),
					 have >> i & 1 ? UCCL_DROP_DUPLICATE : UCCL_DROP_COUNT);
			have |= 1ull << i;
		}
		assert_non_null(whole);
		assert_int_equal(whole->segments.total, total);
		assert_int_equal(whole->rtype, RTYPE);
		assert_memory_equal(whole->data, chunk, total);
		assert_memory_equal(whole->rec, rec, sizeof(rec));
		uccl_subsegments_end(&p, CSN);
		assert_int_equal(p.n, 0);
	}
}

/* What is no part of the segment that is kept spoils it not: a longer one, of another chunk or kind. */
TEST_IN(take__another, setup, teardown)
{
	const struct uccl_partial_segment *whole;

	assert_int_equal(feed_as(CSN, 0, 2, MOST + 8, RTYPE, &whole), UCCL_DROP_RECORD);
	assert_null(whole);
	assert_int_equal(p.n, 0);
	assert_null(feed(CSN, 0, 2, MOST));
	assert_int_equal(feed_as(CSN, 1, 2, MOST - 8, RTYPE, &whole), UCCL_DROP_RECORD);
	assert_int_equal(feed_as(CSN, 1, 2, MOST, RTYPE + 1, &whole), UCCL_DROP_RECORD);
	assert_int_equal(feed_of(CSN, 1, 1, 2, MOST, RTYPE, &whole), UCCL_DROP_RECORD);
	assert_non_null(feed(CSN, 1, 2, MOST));
}

/* Cut into more: what came before is nothing, and what comes of it later is old. PROTOCOL R331 */
TEST_IN(take__cut_anew, setup, teardown)
{
	const struct uccl_partial_segment *whole;

	assert_null(feed(CSN, 0, 2, 900));
	assert_null(feed(CSN, 1, 3, 900));
	assert_int_equal(p.n, 1);
	assert_int_equal(feed_as(CSN, 0, 2, 900, RTYPE, &whole), UCCL_DROP_DUPLICATE);
	assert_null(whole);
	assert_null(feed(CSN, 2, 3, 900));
	assert_non_null(feed(CSN, 0, 3, 900));
}

/* It is whole once more with the same one. */
TEST_IN(untake__comes_again, setup, teardown)
{
	const struct uccl_segment s = {.count = 1, .sub = 1, .subs = 2, .total = 900};

	uccl_subsegments_untake(&p, CSN, &s);
	assert_null(feed(CSN, 0, 2, 900));
	assert_non_null(feed(CSN, 1, 2, 900));
	uccl_subsegments_untake(&p, CSN, &s);
	assert_non_null(feed(CSN, 1, 2, 900));
}

/* Few are kept, and none has the place of another: a sender knows how many. PROTOCOL R154 */
TEST_IN(take__few_are_kept, setup, teardown)
{
	const struct uccl_partial_segment *whole;

	for (uint64_t i = 1; i <= UCCL_KEPT_MAX; i++)
		assert_null(feed(CSN + i, 0, 2, 900));
	assert_int_equal(p.n, UCCL_KEPT_MAX);
	for (uint64_t i = 0; i < 200; i += 100) {
		assert_int_equal(feed_as(CSN + i, 0, 2, 900, RTYPE, &whole), UCCL_DROP_MEMORY);
		assert_null(whole);
	}
	for (uint64_t i = 1; i <= UCCL_KEPT_MAX; i++)
		assert_non_null(feed(CSN + i, 1, 2, 900));
}

/* A line for each segment of a chunk of which some came, as far as there is room. PROTOCOL R330 */
TEST_IN(tell__each_segment, setup, teardown)
{
	struct uccl_ack_segments a[4];
	const struct uccl_partial_segment *whole;
	uint32_t seen = 0;

	assert_int_equal(uccl_subsegments_tell(&p, CSN, a, 4, &seen), 0);
	assert_null(feed(CSN + 1, 0, 2, 900));
	for (uint8_t k = 0; k < 3; k++)
		assert_int_equal(feed_of(CSN, (uint8_t)(k + 2), k, 3, 960, RTYPE, &whole), UCCL_DROP_COUNT);
	for (uint8_t most = 0; most <= 4; most++) {
		seen = 0;
		assert_int_equal(uccl_subsegments_tell(&p, CSN, a, most, &seen), uccl_min(most, 3));
		assert_int_equal(seen, 3);
		for (uint8_t k = 0; k < uccl_min(most, 3); k++) {
			assert_int_equal(a[k].of, k + 1);
			assert_int_equal(a[k].subs, 3);
			assert_true(a[k].have == 1ull << k);
		}
	}
	/* None of it is here any more. */
	assert_non_null(feed(CSN + 1, 1, 2, 900));
	assert_int_equal(uccl_subsegments_tell(&p, CSN + 1, a, 4, &seen), 1);
	uccl_subsegments_segment_end(&p, CSN + 1, 0);
	assert_int_equal(uccl_subsegments_tell(&p, CSN + 1, a, 4, &seen), 0);
	uccl_subsegments_end(&p, CSN);
	assert_int_equal(p.n, 0);
}

TEST_IN(end__others_stay, setup, teardown)
{
	uccl_subsegments_end(&p, CSN);
	assert_null(feed(CSN, 0, 2, 900));
	assert_null(feed(CSN + 1, 0, 2, 900));
	uccl_subsegments_end(&p, CSN + 2);
	assert_int_equal(p.n, 2);
	uccl_subsegments_end(&p, CSN);
	uccl_subsegments_end(&p, CSN);
	assert_int_equal(p.n, 1);
	assert_non_null(feed(CSN + 1, 1, 2, 900));
	assert_null(feed(CSN, 1, 2, 900));
}

TESTS_MAIN
