/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/le.h"

#include "../tests.h"

/* At every offset from an aligned address, and not a byte beyond the value. */
TEST(put16__bytes)
{
	for (int at = 1; at < 9; at++) {
		uint8_t b[16] = {0}, want[16] = {0};

		uccl_put16(b + at, 0x1234);
		want[at] = 0x34;
		want[at + 1] = 0x12;
		assert_memory_equal(b, want, sizeof(b));
		assert_int_equal(uccl_get16(b + at), 0x1234);
	}
}

TEST(put32__bytes)
{
	for (int at = 1; at < 9; at++) {
		uint8_t b[16] = {0}, want[16] = {0};

		uccl_put32(b + at, 0x12345678);
		for (int i = 0; i < 4; i++)
			want[at + i] = (uint8_t)(0x12345678u >> 8 * i);
		assert_memory_equal(b, want, sizeof(b));
		assert_int_equal(uccl_get32(b + at), 0x12345678);
	}
}

TEST(put64__bytes)
{
	for (int at = 1; at < 8; at++) {
		uint8_t b[16] = {0}, want[16] = {0};

		uccl_put64(b + at, 0x123456789abcdef0ull);
		for (int i = 0; i < 8; i++)
			want[at + i] = (uint8_t)(0x123456789abcdef0ull >> 8 * i);
		assert_memory_equal(b, want, sizeof(b));
		assert_int_equal(uccl_get64(b + at), 0x123456789abcdef0ull);
	}
}

TEST(get__extremes)
{
	uint8_t b[8];

	memset(b, 0xff, sizeof(b));
	assert_int_equal(uccl_get16(b), UINT16_MAX);
	assert_int_equal(uccl_get32(b), UINT32_MAX);
	assert_int_equal(uccl_get64(b), UINT64_MAX);
	memset(b, 0, sizeof(b));
	b[0] = 1;
	assert_int_equal(uccl_get16(b), 1);
	assert_int_equal(uccl_get32(b), 1);
	assert_int_equal(uccl_get64(b), 1);
}

TESTS_MAIN
