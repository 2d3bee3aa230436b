/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Announced writes alone: an item is an address, its bytes are numbers. */
#include "flow/write/write_tx.h"

#include "../../tests.h"

#include <string.h>

#define KIB 1024u
#define CSN ((1ull << 32) - 2)

static struct uccl_write_tx a;
static char place;
static struct uccl_item *const item = (struct uccl_item *)(void *)&place;

static int setup(void **state)
{
	memset(&a, 0, sizeof(a));
	return 0;
}

TEST_IN(cut__edges, setup, NULL)
{
	static const struct {
		uint64_t run;
		uint32_t chunk;
		uint64_t most;
		uint32_t count;
		uint64_t len;
	} t[] = {
		{1, 4 * KIB, 32, 1, 1},
		{4 * KIB, 4 * KIB, 32, 1, 4 * KIB},
		{4 * KIB + 1, 4 * KIB, 32, 2, 4 * KIB + 1},
		{4 * KIB + 1, 4 * KIB, 1, 1, 4 * KIB},
		{128 * KIB, 4 * KIB, 32, 32, 128 * KIB},
		{128 * KIB + 1, 4 * KIB, 32, 32, 128 * KIB},
		{3, 1, 2, 2, 2},
		{1ull << 50, UINT32_MAX, 32, 32, 32ull * UINT32_MAX},
	};

	for (unsigned int i = 0; i < uccl_array_len(t); i++) {
		struct uccl_desc d = {0}, back;
		uint8_t rec[UCCL_REC_LEN] = {0};

		uccl_write_tx_cut(&d, t[i].run, t[i].chunk, t[i].most);
		assert_int_equal(d.count, t[i].count);
		assert_int_equal(d.chunk, t[i].chunk);
		assert_true(d.len == t[i].len);
		/* The peer finds it well-formed. */
		uccl_desc_encode(rec, &d);
		assert_int_equal(uccl_desc_decode(&back, rec), UCCL_DROP_COUNT);
	}
}

/* Every byte of a run once, from anywhere in the item; the last write ends it. */
TEST_IN(left__until_the_last, setup, NULL)
{
	static const uint64_t from[] = {0, 1, 4 * KIB, (1ull << 40) + 5};

	for (unsigned int i = 0; i < uccl_array_len(from); i++)
		for (uint64_t run = 1; run < 40 * KIB; run += 1777) {
			uint64_t off = from[i];
			struct uccl_desc d = {0};
			uint32_t n = 0;

			uccl_write_tx_cut(&d, run, 4 * KIB, 8);
			uccl_write_tx_begin(&a, item, CSN, off, &d);
			assert_int_equal(a.csn, CSN);
			do {
				uint32_t len = uccl_write_tx_next(&a, off);

				assert_ptr_equal(a.item, item);
				assert_true(len == 4 * KIB || (n + 1 == d.count && len > 0 && len < 4 * KIB));
				off += len;
				uccl_write_tx_left(&a);
				n++;
			} while (a.item);
			assert_int_equal(n, d.count);
			assert_true(off == from[i] + d.len);
		}
}

TESTS_MAIN
