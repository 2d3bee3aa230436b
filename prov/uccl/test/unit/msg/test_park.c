/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "msg/park.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/units.h"

static uint8_t src[4000];
static uint8_t rec[UCCL_REC_LEN];
static struct uccl_unplaced all;
static struct uccl_line line;
static struct uccl_peer a, b;

static void peer_begin(struct uccl_peer *p)
{
	p->parked = 0;
	TAILQ_INIT(&p->unplaced);
}

static struct uccl_line *park(uint64_t max)
{
	all = (struct uccl_unplaced){ .max = max };
	line = (struct uccl_line){ .unplaced = &all };
	peer_begin(&a);
	peer_begin(&b);
	for (size_t i = 0; i < sizeof(src); i++)
		src[i] = (uint8_t)(i * 7 + i / 251);
	return &line;
}

static enum uccl_drop put(struct uccl_line *k, struct uccl_peer *from, uint32_t mseq, uint64_t off, uint32_t len)
{
	struct uccl_chunk_in in = {.rec = rec, .data = src + off, .len = len};

	uccl_rec_set_bulk(rec, mseq, 0, off);
	uccl_put64(rec + 16, sizeof(src));
	return msg_park(k, from, &in);
}

/* Each message of each peer apart, in the order in which its payload came. PROTOCOL R267 */
static void park__by_message(void **state)
{
	static const struct {
		struct uccl_peer *from;
		uint32_t mseq, off, len;
	} v[] = {{&a, 1, 0, 100}, {&b, 1, 100, 1}, {&a, 2, 200, 300}, {&a, 1, 3000, 1000}};
	struct uccl_line *k = park(UINT32_MAX);
	struct uccl_parked *d;

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		assert_int_equal(put(k, v[i].from, v[i].mseq, v[i].off, v[i].len), UCCL_DROP_COUNT);
	assert_int_equal(line.parked, 4);
	assert_int_equal(a.parked, 1400 + 3 * UCCL_PARK_COST);
	assert_null(msg_park_take(k, &b, 2));
	for (int i = 0; i < 4; i += 3) {
		d = msg_park_take(k, &a, 1);
		assert_non_null(d);
		assert_int_equal(d->off, v[i].off);
		assert_int_equal(d->total, sizeof(src));
		assert_int_equal(d->len, v[i].len);
		assert_memory_equal(d->data, src + v[i].off, v[i].len);
		free(d);
	}
	assert_null(msg_park_take(k, &a, 1));
	assert_int_equal(a.parked, 300 + UCCL_PARK_COST);
	/* Of a peer that ends all goes, and nothing of others. */
	msg_park_end(k, &a);
	assert_int_equal(a.parked, 0);
	assert_int_equal(b.parked, 1 + UCCL_PARK_COST);
	assert_int_equal(line.parked, 1);
	msg_park_end(k, &b);
	assert_int_equal(line.parked, 0);
	assert_int_equal(all.bytes, 0);
}

/* What the kernel merged: a header before each part but the first. PROTOCOL R173 */
static void park__parts_in_a_row(void **state)
{
	uint8_t row[3 * (1000 + UCCL_HDR_LEN)];
	struct uccl_chunk_in in = {.rec = rec, .data = row, .len = 2500, .parts = 3, .each = 1000};
	struct uccl_line *k = park(UINT32_MAX);
	struct uccl_parked *d;

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		memcpy(row + i * (1000 + UCCL_HDR_LEN), src + i * 1000, i < 2 ? 1000 : 500);
	uccl_rec_set_bulk(rec, 9, 0, 0);
	assert_int_equal(msg_park(k, &a, &in), UCCL_DROP_COUNT);
	d = msg_park_take(k, &a, 9);
	assert_non_null(d);
	assert_int_equal(d->len, 2500);
	assert_memory_equal(d->data, src, 2500);
	free(d);
}

/* Of each peer so much, small ones count more than their bytes; more comes again. PROTOCOL R268 */
static void park__bounded(void **state)
{
	static const uint32_t len[] = {1, 4000};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct uccl_line *k = park(UINT32_MAX);
		uint32_t most = UCCL_PARK_MAX / (len[i] + UCCL_PARK_COST);

		for (uint32_t n = 0; n < most; n++)
			assert_int_equal(put(k, &a, n, 0, len[i]), UCCL_DROP_COUNT);
		assert_int_equal(put(k, &a, 0, 0, len[i]), UCCL_DROP_MEMORY);
		assert_int_equal(line.parked, most);
		assert_int_equal(put(k, &b, 0, 0, len[i]), UCCL_DROP_COUNT);
		free(msg_park_take(k, &a, 0));
		assert_int_equal(put(k, &a, 0, 0, len[i]), UCCL_DROP_COUNT);
		msg_park_end(k, &a);
		msg_park_end(k, &b);
	}
}

/*
 * All lanes have one account: whoever floods, with however many names, it is not exceeded, each flood leaves room for
 * those that come later, and all of it comes back. PROTOCOL R313
 */
static void park__bounded_in_all(void **state)
{
	enum { MOST = 4 << 20, FLOODS = 40 };
	static struct uccl_peer flood[FLOODS];
	struct uccl_line *k = park(MOST), other;
	uint64_t left = MOST;

	(void)state;
	other = (struct uccl_line){ .unplaced = &all };
	for (int i = 0; i < FLOODS; i++) {
		uint64_t before = all.bytes;

		peer_begin(&flood[i]);
		while (put(i % 2 ? k : &other, &flood[i], 1, 0, 1000) == UCCL_DROP_COUNT)
			assert_true(all.bytes <= MOST);
		/* Half of what was left, if that is not too much for one, but for less than a payload. */
		assert_true(flood[i].parked >= uccl_min(left / 2, UCCL_PARK_MAX) - 1000 - UCCL_PARK_COST);
		assert_int_equal(all.bytes, before + flood[i].parked);
		left = MOST - all.bytes;
		if (left < 4 * (1000 + UCCL_PARK_COST))
			break;
	}
	/* A message of one who comes after ten of them. */
	for (int i = 0; i < FLOODS; i++)
		if (i >= 10 && flood[i].parked)
			msg_park_end(i % 2 ? k : &other, &flood[i]);
	assert_int_equal(put(k, &a, 1, 0, 1000), UCCL_DROP_COUNT);
	msg_park_end(k, &a);
	for (int i = 0; i < 10; i++)
		msg_park_end(i % 2 ? k : &other, &flood[i]);
	assert_int_equal(all.bytes, 0);
	assert_int_equal(line.parked + other.parked, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(park__by_message),
		cmocka_unit_test(park__parts_in_a_row),
		cmocka_unit_test(park__bounded),
		cmocka_unit_test(park__bounded_in_all),
	};

	return cmocka_run_group_tests_name("park", tests, NULL, NULL);
}
