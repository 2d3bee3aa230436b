/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Chunks that come in pieces, alone. What a flow makes of them is in test_piece. */
#include "flow/recv/pieces.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "base/units.h"

#define MOST 8192
#define CSN ((1ull << 32) - 3)
#define RTYPE 5

static struct uccl_pieces p;
static uint8_t chunk[MOST + 1], rec[UCCL_REC_LEN];

static int setup(void **state)
{
	(void)state;
	uccl_pieces_init(&p, MOST);
	for (unsigned int i = 0; i < sizeof(chunk); i++)
		chunk[i] = (uint8_t)(i * 7 + i / 256);
	for (unsigned int i = 0; i < sizeof(rec); i++)
		rec[i] = (uint8_t)(200 + i);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	uccl_pieces_fini(&p);
	assert_int_equal(p.n, 0);
	return 0;
}

/* Piece `index` of `count` of a chunk of `total` bytes comes. */
static enum uccl_drop feed_as(uint64_t csn, uint8_t index, uint8_t count, uint32_t total, uint8_t rtype,
			      const struct uccl_pieced **whole)
{
	uint32_t size = uccl_piece_len(total, count), off = index * size;
	const struct uccl_piece piece = {
		.index = index, .count = count, .total = total, .half = rec + index % 2 * UCCL_PIECE_REC};
	uint8_t bytes[UCCL_REC_LEN];
	struct uccl_hdr h = {.type = UCCL_PKT_PIECE, .rtype = rtype, .csn = (uint32_t)csn, .rec = bytes};

	h.payload_len = (uint16_t)uccl_min(size, total - off);
	uccl_piece_encode(bytes, &piece);
	return uccl_pieces_take(&p, &h, csn, chunk + off, whole);
}

static const struct uccl_pieced *feed(uint64_t csn, uint8_t index, uint8_t count, uint32_t total)
{
	const struct uccl_pieced *whole;

	assert_int_equal(feed_as(csn, index, count, total, RTYPE, &whole), UCCL_DROP_COUNT);
	return whole;
}

/* In any order, some of them twice: whole with the last that was missing, and the same bytes. */
static void take__whole(void **state)
{
	struct uccl_rng rng;

	(void)state;
	uccl_rng_seed(&rng, 11);
	for (uint8_t count = 2; count <= 64; count++) {
		uint32_t total = MOST - (uint32_t)uccl_rng_below(&rng, 60);
		const struct uccl_pieced *whole = NULL;
		uint64_t have = 0, all = ~0ull >> (64 - count);

		/* So many pieces of one length each may be too many. */
		if ((count - 1u) * uccl_piece_len(total, count) >= total)
			continue;
		while (have != all) {
			uint8_t i = (uint8_t)uccl_rng_below(&rng, count);

			assert_null(whole);
			whole = feed(CSN, i, count, total);
			have |= 1ull << i;
		}
		assert_non_null(whole);
		assert_int_equal(whole->total, total);
		assert_int_equal(whole->rtype, RTYPE);
		assert_memory_equal(whole->data, chunk, total);
		assert_memory_equal(whole->rec, rec, sizeof(rec));
		uccl_pieces_end(&p, CSN);
		assert_int_equal(p.n, 0);
	}
}

static void take__malformed(void **state)
{
	const struct uccl_pieced *whole;

	(void)state;
	assert_int_equal(feed_as(CSN, 0, 1, 100, RTYPE, &whole), UCCL_DROP_RECORD);
	assert_int_equal(feed_as(CSN, 0, 2, MOST + 1, RTYPE, &whole), UCCL_DROP_RECORD);
	assert_null(whole);
	assert_int_equal(p.n, 0);
	assert_null(feed(CSN, 0, 2, MOST));
	/* What is no piece spoils none. */
	assert_int_equal(feed_as(CSN, 0, 1, 100, RTYPE, &whole), UCCL_DROP_RECORD);
	assert_non_null(feed(CSN, 1, 2, MOST));
}

/* Of another number, length or kind: what came before is nothing. */
static void take__cut_anew(void **state)
{
	const struct uccl_pieced *whole;

	(void)state;
	assert_null(feed(CSN, 0, 2, 900));
	assert_null(feed(CSN, 1, 3, 900));
	assert_null(feed(CSN, 2, 3, 900));
	assert_null(feed(CSN, 0, 3, 903));
	assert_null(feed(CSN, 1, 3, 903));
	assert_int_equal(feed_as(CSN, 2, 3, 903, RTYPE + 1, &whole), UCCL_DROP_COUNT);
	assert_null(whole);
	assert_int_equal(p.n, 1);
	assert_null(feed(CSN, 1, 2, 900));
	assert_non_null(feed(CSN, 0, 2, 900));
}

/* Few are kept; the earliest has the place of the latest, which begins anew. */
static void take__few_are_kept(void **state)
{
	const struct uccl_pieced *whole;

	(void)state;
	for (uint64_t i = 1; i <= UCCL_PIECED_MAX; i++)
		assert_null(feed(CSN + i, 0, 2, 900));
	assert_int_equal(p.n, UCCL_PIECED_MAX);
	assert_int_equal(feed_as(CSN + 100, 0, 2, 900, RTYPE, &whole), UCCL_DROP_MEMORY);
	assert_null(whole);
	assert_null(feed(CSN, 0, 2, 900));
	assert_int_equal(p.n, UCCL_PIECED_MAX);
	assert_int_equal(feed_as(CSN + UCCL_PIECED_MAX, 1, 2, 900, RTYPE, &whole), UCCL_DROP_MEMORY);
	for (uint64_t i = 0; i < UCCL_PIECED_MAX; i++)
		assert_non_null(feed(CSN + i, 1, 2, 900));
}

static void end__others_stay(void **state)
{
	(void)state;
	uccl_pieces_end(&p, CSN);
	assert_null(feed(CSN, 0, 2, 900));
	assert_null(feed(CSN + 1, 0, 2, 900));
	uccl_pieces_end(&p, CSN + 2);
	assert_int_equal(p.n, 2);
	uccl_pieces_end(&p, CSN);
	uccl_pieces_end(&p, CSN);
	assert_int_equal(p.n, 1);
	assert_non_null(feed(CSN + 1, 1, 2, 900));
	assert_null(feed(CSN, 1, 2, 900));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(take__whole, setup, teardown),
		cmocka_unit_test_setup_teardown(take__malformed, setup, teardown),
		cmocka_unit_test_setup_teardown(take__cut_anew, setup, teardown),
		cmocka_unit_test_setup_teardown(take__few_are_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(end__others_stay, setup, teardown),
	};

	return cmocka_run_group_tests_name("pieces", tests, NULL, NULL);
}
