/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "lanes/reassembly.h"

#include "../tests.h"

#include <stdlib.h>
#include <string.h>

#define UNIT UCCL_STRIPE_BYTES
#define FROM 100u
#define LIMIT (FROM + 2 * UNIT + 1000)

static const uint8_t key[UCCL_KEY_LEN] = {4, 2};
static uint8_t src[LIMIT], dst[LIMIT + 8];

static struct uccl_reassembly *reassembly(void)
{
	struct uccl_reassembly *b = reassembly_new(dst + FROM, FROM, LIMIT, UNIT, 1, 2, UCCL_LANES_MAX);

	assert_non_null(b);
	for (size_t i = 0; i < sizeof(src); i++)
		src[i] = (uint8_t)(i * 7 + i / 251 + 1);
	memset(dst, 0, sizeof(dst));
	return b;
}

static enum uccl_drop put(struct uccl_reassembly *b, uint8_t k, uint64_t off, uint32_t len, bool *whole)
{
	struct uccl_chunk_in in = {.data = src + off, .len = len};

	return reassembly_put(b, k, off, &in, key, whole);
}

/* PROTOCOL R224 */
TEST(stripe__by_length)
{
	static const struct {
		uint64_t bytes;
		bool units;
		uint32_t unit;
	} v[] = {
		{1, true, 1024},	  {61439, true, 61440},	   {61440, true, 30720},      {92160, true, 30720},
		{98304, true, 32768},	  {122879, true, 40960},   {122880, true, 30720},     {229376, true, 57344},
		{245759, true, 61440},	  {245760, true, 61440},   {491519, true, 61440},     {491520, true, 122880},
		{983039, true, 122880},	  {983040, true, 245760},  {1ull << 40, true, 245760}, {1, false, 262144},
		{2097151, false, 262144},
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		assert_int_equal(lanes_stripe_bytes(v[i].bytes, v[i].units), v[i].unit);
}

/* Each of another lane. */
TEST(put__short_units)
{
	const uint32_t unit = UCCL_STRIPE_LEAST;
	struct uccl_reassembly *b = reassembly_new(dst + FROM, FROM, FROM + 3 * unit + 1, unit, 1, 2, UCCL_LANES_MAX);
	uint64_t end;
	bool whole;

	assert_non_null(b);
	memset(dst, 0, sizeof(dst));
	assert_int_equal(b->nstripes, 4);
	for (uint8_t k = 0; k < 4; k++) {
		assert_int_equal(reassembly_stripe(b, k, &end), k < 3 ? unit : 1);
		assert_int_equal(put(b, k, FROM + (uint64_t)k * unit, k < 3 ? unit + 1 : 2, &whole), UCCL_DROP_RANGE);
		assert_int_equal(put(b, k, FROM + (uint64_t)k * unit, k < 3 ? unit : 1, &whole), UCCL_DROP_COUNT);
		assert_true(whole);
	}
	assert_memory_equal(dst + FROM, src + FROM, 3 * unit + 1);
	assert_int_equal(dst[FROM + 3 * unit + 1], 0);
	free(b);
}

TEST(put__whole_units)
{
	struct uccl_reassembly *b = reassembly();
	uint64_t end;
	bool whole;

	assert_int_equal(b->nstripes, 3);
	assert_int_equal(reassembly_stripe(b, 2, &end), 1000);
	assert_int_equal(end, LIMIT);
	assert_int_equal(put(b, 1, FROM + UNIT + 10, UNIT - 10, &whole), UCCL_DROP_COUNT);
	assert_false(whole);
	assert_int_equal(put(b, 1, FROM + UNIT, 10, &whole), UCCL_DROP_COUNT);
	assert_true(whole);
	assert_int_equal(put(b, 0, FROM, UNIT, &whole), UCCL_DROP_COUNT);
	assert_true(whole);
	assert_int_equal(put(b, 0, FROM + 2 * UNIT, 1000, &whole), UCCL_DROP_COUNT);
	assert_true(whole);
	assert_memory_equal(dst + FROM, src + FROM, LIMIT - FROM);
	for (int i = 0; i < 8; i++)
		assert_int_equal(dst[LIMIT + i], 0);
	free(b);
}

/* What the kernel merged comes as it is: a header before each part but the first. PROTOCOL R173 */
TEST(put__parts_in_a_row)
{
	uint8_t row[3 * (1000 + UCCL_HDR_LEN)];
	struct uccl_chunk_in in = {.data = row, .len = 2500, .segments = 3, .each = 1000};
	struct uccl_reassembly *b = reassembly();
	bool whole;

	memset(row, 0xaa, sizeof(row));
	for (uint32_t i = 0; i < 3; i++)
		memcpy(row + i * (1000 + UCCL_HDR_LEN), src + FROM + i * 1000, i < 2 ? 1000 : 500);
	assert_int_equal(reassembly_put(b, 0, FROM, &in, key, &whole), UCCL_DROP_COUNT);
	assert_memory_equal(dst + FROM, src + FROM, 2500);
	assert_int_equal(dst[FROM + 2500], 0);
	free(b);
}

/* PROTOCOL R181 */
TEST(put__outside)
{
	static const struct {
		uint64_t off;
		uint32_t len;
	} bad[] = {
		{0, 10}, {FROM - 1, 1}, {FROM - 1, 2}, {LIMIT, 1}, {LIMIT - 1, 2}, {LIMIT + 1, 1}, {UINT64_MAX, 1},
		{FROM, 0}, {FROM, UNIT + 1}, {FROM + UNIT - 1, 2}, {FROM + 2 * UNIT, 1001}, {FROM + 1, UINT32_MAX},
	};
	struct uccl_reassembly *b = reassembly();
	bool whole;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct uccl_chunk_in in = {.data = src, .len = bad[i].len};

		assert_int_equal(reassembly_put(b, 0, bad[i].off, &in, key, &whole), UCCL_DROP_RANGE);
		assert_false(whole);
	}
	for (size_t i = 0; i < sizeof(dst); i++)
		assert_int_equal(dst[i], 0);
	/* Nobody has taken a stripe by that. */
	assert_true(reassembly_claim(b));
	free(b);
}

/* PROTOCOL R182 */
TEST(put__once)
{
	struct uccl_reassembly *b = reassembly();
	bool whole;

	assert_int_equal(put(b, 0, FROM, 100, &whole), UCCL_DROP_COUNT);
	/* Another lane, or the primary, brings none of this stripe, */
	assert_int_equal(put(b, 1, FROM + 100, 100, &whole), UCCL_DROP_OVERLAP);
	assert_false(reassembly_claim(b));
	/* and the same one no byte twice. */
	assert_int_equal(put(b, 0, FROM, 100, &whole), UCCL_DROP_OVERLAP);
	assert_int_equal(put(b, 0, FROM + 99, 100, &whole), UCCL_DROP_OVERLAP);
	assert_int_equal(put(b, 0, FROM + 100, UNIT - 100, &whole), UCCL_DROP_COUNT);
	assert_true(whole);
	/* What is whole takes nothing more. */
	memset(dst, 0, sizeof(dst));
	assert_int_equal(put(b, 0, FROM, 1, &whole), UCCL_DROP_OVERLAP);
	assert_false(whole);
	assert_int_equal(dst[FROM], 0);
	free(b);
}

/* As many bytes as there must be are not enough. PROTOCOL R182 */
TEST(put__not_by_number)
{
	struct uccl_reassembly *b = reassembly();
	uint32_t left = UNIT;
	bool whole;

	/* Every second of the first ten is a gap; then more than the runs that are kept. */
	for (uint64_t at = FROM; at < FROM + 20; at += 2, left--)
		assert_int_equal(put(b, 0, at, 1, &whole), UCCL_DROP_COUNT);
	assert_int_equal(put(b, 0, FROM + 20, UNIT - 20, &whole), UCCL_DROP_COUNT);
	left -= UNIT - 20;
	assert_int_equal(left, 10);
	for (uint64_t at = FROM; left > 1; at += 2, left--) {
		assert_int_equal(put(b, 0, at + (at > FROM + 8), 1, &whole), UCCL_DROP_COUNT);
		assert_false(whole);
	}
	assert_int_equal(put(b, 0, FROM + 19, 1, &whole), UCCL_DROP_OVERLAP);
	assert_false(whole);
	free(b);
}

/* More bytes than there are, of which nobody can see any more that they came. PROTOCOL R182 */
TEST(put__not_too_many)
{
	const uint64_t at = FROM + 2 * UNIT;
	struct uccl_reassembly *b = reassembly();
	bool whole;

	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(put(b, 0, at + 20 * i, 10, &whole), UCCL_DROP_COUNT);
	assert_int_equal(put(b, 0, at + 50, 10, &whole), UCCL_DROP_COUNT);
	assert_int_equal(put(b, 0, at + 90, 910, &whole), UCCL_DROP_COUNT);
	assert_int_equal(put(b, 0, at + 10, 40, &whole), UCCL_DROP_OVERLAP);
	assert_false(whole);
	assert_int_equal(put(b, 0, at + 10, 10, &whole), UCCL_DROP_COUNT);
	assert_int_equal(put(b, 0, at + 30, 10, &whole), UCCL_DROP_COUNT);
	assert_int_equal(put(b, 0, at + 70, 10, &whole), UCCL_DROP_COUNT);
	assert_true(whole);
	free(b);
}

/* PROTOCOL R182 */
TEST(claim__primary_alone)
{
	struct uccl_reassembly *b = reassembly();
	bool whole;

	assert_true(reassembly_claim(b));
	assert_true(reassembly_claim(b));
	for (uint64_t at = FROM; at < LIMIT; at += UNIT)
		assert_int_equal(put(b, 0, at, 10, &whole), UCCL_DROP_OVERLAP);
	free(b);
}

/* PROTOCOL R183 */
TEST(shut__no_write)
{
	struct uccl_reassembly *b = reassembly();
	bool whole;

	assert_int_equal(put(b, 0, FROM, 100, &whole), UCCL_DROP_COUNT);
	reassembly_close(b, NULL);
	for (uint8_t k = 0; k < UCCL_LANES_MAX; k++)
		assert_int_not_equal(put(b, k, FROM + (k ? UNIT : 100), 100, &whole), UCCL_DROP_COUNT);
	assert_int_equal(dst[FROM + 100], 0);
	assert_int_equal(dst[FROM + UNIT], 0);
	free(b);
}

static struct uccl_rundown *resting;
static uint32_t rests;

static void rest(uint32_t times)
{
	assert_int_equal(times, rests);
	if (++rests == 3)
		uccl_rundown_leave(resting);
}

/* It waits for each lane that is inside, and lets it run. PROTOCOL R183 */
TEST(shut__waits)
{
	for (uint8_t k = 0; k < UCCL_LANES_MAX; k++) {
		struct uccl_reassembly *b = reassembly();

		resting = &b->lane[k].rundown;
		rests = 0;
		assert_true(uccl_rundown_enter(resting));
		reassembly_close(b, rest);
		assert_int_equal(rests, 3);
		free(b);
	}
}

/*
 * Bytes behind the end of a receive that is too short go nowhere, nor do those of a message that nobody wants; a
 * receive may have several pieces. PROTOCOL R266
 */
TEST(put__where_there_is_room)
{
	const uint64_t limit = FROM + 1000;

	for (uint64_t room = 0; room <= limit; room += FROM / 4) {
		for (int pieces = 0; pieces < 2; pieces++) {
			struct uccl_reassembly *b = reassembly();
			struct iovec iov[] = {
				{.iov_base = dst, .iov_len = 300},
				{.iov_base = dst + 300, .iov_len = room > 300 ? room - 300 : 0},
			};
			bool whole;

			b->limit = limit;
			b->room = room;
			b->nstripes = 1;
			if (pieces) {
				b->to = NULL;
				b->iov = iov;
				b->niov = 2;
			}
			assert_int_equal(put(b, 0, FROM, 150, &whole), UCCL_DROP_COUNT);
			assert_int_equal(put(b, 0, FROM + 150, 850, &whole), UCCL_DROP_COUNT);
			assert_true(whole);
			for (uint64_t i = 0; i < limit + 8; i++)
				assert_int_equal(dst[i], i >= FROM && i < room ? src[i] : 0);
			free(b);
		}
	}
}

TESTS_MAIN
