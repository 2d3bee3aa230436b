/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/slot_unit.h"

#include "../tests.h"

/* Where a queue is of packets, each takes one slot. */
TEST(slot_count__packets)
{
	assert_int_equal(uccl_slot_count(0, 64), 1);
	assert_int_equal(uccl_slot_count(0, 65507), 1);
}

/* A packet takes as many slots as hold its bytes, at least one, and a longer packet no fewer. PROTOCOL R376 */
TEST(slot_count__bytes)
{
	for (uint8_t unit = UCCL_SLOT_UNIT_BASE + 1; unit <= UCCL_SLOT_UNIT_MAX; unit++)
		for (uint32_t len = 64, last = 1; len < 65536; len++) {
			uint32_t n = uccl_slot_count(unit, len);

			assert_true(n >= last);
			assert_in_range((uint64_t)n << unit, uccl_slot_bytes(len),
					uccl_slot_bytes(len) + ((uint64_t)1 << unit) - 1);
			last = n;
		}
	assert_int_equal(uccl_slot_count(10, 64), 5);
	assert_int_equal(uccl_slot_count(10, 1472), 5);
	assert_int_equal(uccl_slot_count(10, 65507), 73);
}

/* What Linux 6.18 counted for the shortest packets of each size of block, and for a page of a NIC. */
TEST(slot_bytes__truesize)
{
	static const struct { uint32_t len, truesize; } seen[] = {
		{1, 832}, {204, 1280}, {652, 2304}, {1674, 4352}, {3718, 8448}, {7820, 16640}, {64, 4096 + 768},
	};

	for (size_t i = 0; i < uccl_array_len(seen); i++)
		assert_in_range(seen[i].truesize, 1, uccl_slot_bytes(seen[i].len));
}

TESTS_MAIN
