/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "sim/check.h"

#include "../tests.h"

#include <string.h>

TEST(fill__depends_on_seed_and_place)
{
	uint8_t a[100], b[100];

	uccl_check_fill(1, 0, a, sizeof(a));
	uccl_check_fill(2, 0, b, sizeof(b));
	assert_memory_not_equal(a, b, sizeof(a));
	assert_memory_not_equal(a, a + 8, 8);
	assert_memory_not_equal(a + 40, a + 48, 8);
}

/* Any part of the pattern can be made and checked on its own. */
TEST(fill__parts_agree)
{
	uint8_t all[64], part[64];
	uint64_t off, len;

	uccl_check_fill(7, 0, all, sizeof(all));
	for (off = 0; off < sizeof(all); off++) {
		for (len = 0; off + len <= sizeof(all); len++) {
			uccl_check_fill(7, off, part, len);
			assert_memory_equal(part, all + off, len);
			assert_int_equal(uccl_check_match(7, off, all + off, len), len);
		}
	}
}

TEST(match__finds_the_first_wrong_byte)
{
	uint8_t buf[40];
	uint64_t i;

	for (i = 0; i < sizeof(buf) - 3; i++) {
		uccl_check_fill(9, 3, buf, sizeof(buf));
		buf[i] ^= 1;
		buf[i + 2] ^= 1;
		assert_int_equal(uccl_check_match(9, 3, buf, sizeof(buf)), i);
	}
}

TEST(whole__sees_both_canaries)
{
	uint8_t *buf = uccl_check_alloc(33);
	int i;

	assert_non_null(buf);
	memset(buf, 0, 33);
	assert_true(uccl_check_whole(buf, 33));
	for (i = 1; i <= UCCL_CHECK_CANARY; i++) {
		buf[-i] ^= 4;
		assert_false(uccl_check_whole(buf, 33));
		buf[-i] ^= 4;
		buf[32 + i] ^= 4;
		assert_false(uccl_check_whole(buf, 33));
		buf[32 + i] ^= 4;
	}
	assert_true(uccl_check_whole(buf, 33));
	uccl_check_free(buf);
	uccl_check_free(NULL);
}

TEST(order__finds_a_swap_in_one_stream)
{
	struct uccl_check_pair good[] = {{2, 5, 50}, {1, 3, 40}, {1, 1, 10}, {2, 4, 20}, {1, 2, 40}};
	struct uccl_check_pair bad[] = {{1, 3, 20}, {2, 1, 90}, {1, 2, 30}, {1, 1, 10}};
	uint32_t i;

	assert_int_equal(uccl_check_order(good, 5), 5);
	assert_int_equal(uccl_check_order(good, 0), 0);
	i = uccl_check_order(bad, 4);
	assert_int_equal(i, 2);
	assert_int_equal(bad[i].sent, 3);
}

TESTS_MAIN
