/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "lanes/unplaced_data.h"

#include "../tests.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"

static uint8_t src[4000];
static uint8_t rec[UCCL_REC_LEN];
static struct uccl_unplaced_data all;
static struct uccl_lane_channel channel;
static struct uccl_peer a, b;

static void peer_begin(struct uccl_peer *p)
{
	p->lane.unplaced_bytes = 0;
	TAILQ_INIT(&p->lane.unplaced);
}

static struct uccl_lane_channel *park(uint64_t max)
{
	all = (struct uccl_unplaced_data){.max = max};
	channel = (struct uccl_lane_channel){.unplaced = &all};
	peer_begin(&a);
	peer_begin(&b);
	for (size_t i = 0; i < sizeof(src); i++)
		src[i] = (uint8_t)(i * 7 + i / 251);
	return &channel;
}

static enum uccl_drop put(struct uccl_lane_channel *k, struct uccl_peer *from, uint32_t mseq, uint64_t off,
			  uint32_t len)
{
	struct uccl_chunk_in in = {.rec = rec, .data = src + off, .len = len};

	uccl_rec_set_bulk(rec, mseq, 0, off);
	uccl_put64(rec + 16, sizeof(src));
	return unplaced_data_keep(k, from, &in);
}

/* Each message of each peer apart, in the order in which its payload came. PROTOCOL R267 */
TEST(unplaced__by_message)
{
	static const struct {
		struct uccl_peer *from;
		uint32_t mseq, off, len;
	} v[] = {{&a, 1, 0, 100}, {&b, 1, 100, 1}, {&a, 2, 200, 300}, {&a, 1, 3000, 1000}};
	struct uccl_lane_channel *k = park(UINT32_MAX);
	struct uccl_unplaced_chunk *d;

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		assert_int_equal(put(k, v[i].from, v[i].mseq, v[i].off, v[i].len), UCCL_DROP_COUNT);
	assert_int_equal(channel.nunplaced, 4);
	assert_int_equal(a.lane.unplaced_bytes, 1400 + 3 * UCCL_UNPLACED_COST);
	assert_null(unplaced_data_take(k, &b, 2));
	for (int i = 0; i < 4; i += 3) {
		d = unplaced_data_take(k, &a, 1);
		assert_non_null(d);
		assert_int_equal(d->off, v[i].off);
		assert_int_equal(d->total, sizeof(src));
		assert_int_equal(d->len, v[i].len);
		assert_memory_equal(d->data, src + v[i].off, v[i].len);
		free(d);
	}
	assert_null(unplaced_data_take(k, &a, 1));
	assert_int_equal(a.lane.unplaced_bytes, 300 + UCCL_UNPLACED_COST);
	/* Of a peer that ends all goes, and nothing of others. */
	unplaced_data_drop(k, &a);
	assert_int_equal(a.lane.unplaced_bytes, 0);
	assert_int_equal(b.lane.unplaced_bytes, 1 + UCCL_UNPLACED_COST);
	assert_int_equal(channel.nunplaced, 1);
	unplaced_data_drop(k, &b);
	assert_int_equal(channel.nunplaced, 0);
	assert_int_equal(all.bytes, 0);
}

/* What the kernel merged: a header before each part but the first. PROTOCOL R173 */
TEST(unplaced__parts_in_a_row)
{
	uint8_t row[3 * (1000 + UCCL_HDR_LEN)];
	struct uccl_chunk_in in = {.rec = rec, .data = row, .len = 2500, .segments = 3, .each = 1000};
	struct uccl_lane_channel *k = park(UINT32_MAX);
	struct uccl_unplaced_chunk *d;

	for (uint32_t i = 0; i < 3; i++)
		memcpy(row + i * (1000 + UCCL_HDR_LEN), src + i * 1000, i < 2 ? 1000 : 500);
	uccl_rec_set_bulk(rec, 9, 0, 0);
	assert_int_equal(unplaced_data_keep(k, &a, &in), UCCL_DROP_COUNT);
	d = unplaced_data_take(k, &a, 9);
	assert_non_null(d);
	assert_int_equal(d->len, 2500);
	assert_memory_equal(d->data, src, 2500);
	free(d);
}

/* Of each peer so much, small ones count more than their bytes; more comes again. PROTOCOL R268 */
TEST(unplaced__bounded)
{
	static const uint32_t len[] = {1, 4000};

	for (int i = 0; i < 2; i++) {
		struct uccl_lane_channel *k = park(UINT32_MAX);
		uint32_t most = UCCL_UNPLACED_MAX / (len[i] + UCCL_UNPLACED_COST);

		for (uint32_t n = 0; n < most; n++)
			assert_int_equal(put(k, &a, n, 0, len[i]), UCCL_DROP_COUNT);
		assert_int_equal(put(k, &a, 0, 0, len[i]), UCCL_DROP_MEMORY);
		assert_int_equal(channel.nunplaced, most);
		assert_int_equal(put(k, &b, 0, 0, len[i]), UCCL_DROP_COUNT);
		free(unplaced_data_take(k, &a, 0));
		assert_int_equal(put(k, &a, 0, 0, len[i]), UCCL_DROP_COUNT);
		unplaced_data_drop(k, &a);
		unplaced_data_drop(k, &b);
	}
}

/*
 * All lanes have one account: whoever floods, with however many names, it is not exceeded, each flood leaves room for
 * those that come later, and all of it comes back. PROTOCOL R313
 */
TEST(unplaced__bounded_in_all)
{
	enum { MOST = 4 << 20, FLOODS = 40 };
	static struct uccl_peer flood[FLOODS];
	struct uccl_lane_channel *k = park(MOST), other;
	uint64_t left = MOST;

	other = (struct uccl_lane_channel){.unplaced = &all};
	for (int i = 0; i < FLOODS; i++) {
		uint64_t before = all.bytes;

		peer_begin(&flood[i]);
		while (put(i % 2 ? k : &other, &flood[i], 1, 0, 1000) == UCCL_DROP_COUNT)
			assert_true(all.bytes <= MOST);
		/* Half of what was left, if that is not too much for one, but for less than a payload. */
		assert_true(flood[i].lane.unplaced_bytes >=
			    uccl_min(left / 2, UCCL_UNPLACED_MAX) - 1000 - UCCL_UNPLACED_COST);
		assert_int_equal(all.bytes, before + flood[i].lane.unplaced_bytes);
		left = MOST - all.bytes;
		if (left < 4 * (1000 + UCCL_UNPLACED_COST))
			break;
	}
	/* A message of one who comes after ten of them. */
	for (int i = 0; i < FLOODS; i++)
		if (i >= 10 && flood[i].lane.unplaced_bytes)
			unplaced_data_drop(i % 2 ? k : &other, &flood[i]);
	assert_int_equal(put(k, &a, 1, 0, 1000), UCCL_DROP_COUNT);
	unplaced_data_drop(k, &a);
	for (int i = 0; i < 10; i++)
		unplaced_data_drop(i % 2 ? k : &other, &flood[i]);
	assert_int_equal(all.bytes, 0);
	assert_int_equal(channel.nunplaced + other.nunplaced, 0);
}

TESTS_MAIN
