/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "msg/park.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

static uint8_t src[4000];
static uint8_t rec[UCCL_REC_LEN];
static _Atomic uint32_t count;
static struct uccl_peer a, b;

static struct uccl_park *park(void)
{
	static struct uccl_park k;

	count = 0;
	a.parked = b.parked = 0;
	msg_park_init(&k, &count);
	for (size_t i = 0; i < sizeof(src); i++)
		src[i] = (uint8_t)(i * 7 + i / 251);
	return &k;
}

static enum uccl_drop put(struct uccl_park *k, struct uccl_peer *from, uint32_t mseq, uint64_t off, uint32_t len)
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
	struct uccl_park *k = park();
	struct uccl_parked *d;

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		assert_int_equal(put(k, v[i].from, v[i].mseq, v[i].off, v[i].len), UCCL_DROP_COUNT);
	assert_int_equal(count, 4);
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
	assert_int_equal(count, 1);
	msg_park_end(k, &b);
	assert_int_equal(count, 0);
}

/* What the kernel merged: a header before each part but the first. PROTOCOL R173 */
static void park__parts_in_a_row(void **state)
{
	uint8_t row[3 * (1000 + UCCL_HDR_LEN)];
	struct uccl_chunk_in in = {.rec = rec, .data = row, .len = 2500, .parts = 3, .each = 1000};
	struct uccl_park *k = park();
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
		struct uccl_park *k = park();
		uint32_t most = UCCL_PARK_MAX / (len[i] + UCCL_PARK_COST);

		for (uint32_t n = 0; n < most; n++)
			assert_int_equal(put(k, &a, n, 0, len[i]), UCCL_DROP_COUNT);
		assert_int_equal(put(k, &a, 0, 0, len[i]), UCCL_DROP_MEMORY);
		assert_int_equal(count, most);
		assert_int_equal(put(k, &b, 0, 0, len[i]), UCCL_DROP_COUNT);
		free(msg_park_take(k, &a, 0));
		assert_int_equal(put(k, &a, 0, 0, len[i]), UCCL_DROP_COUNT);
		msg_park_end(k, &a);
		msg_park_end(k, &b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(park__by_message),
		cmocka_unit_test(park__parts_in_a_row),
		cmocka_unit_test(park__bounded),
	};

	return cmocka_run_group_tests_name("park", tests, NULL, NULL);
}
