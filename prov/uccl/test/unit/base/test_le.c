/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/le.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* At every offset from an aligned address, and not a byte beyond the value. */
static void put16__bytes(void **state)
{
	(void)state;
	for (int at = 1; at < 9; at++) {
		uint8_t b[16] = {0}, want[16] = {0};

		uccl_put16(b + at, 0x1234);
		want[at] = 0x34;
		want[at + 1] = 0x12;
		assert_memory_equal(b, want, sizeof(b));
		assert_int_equal(uccl_get16(b + at), 0x1234);
	}
}

static void put32__bytes(void **state)
{
	(void)state;
	for (int at = 1; at < 9; at++) {
		uint8_t b[16] = {0}, want[16] = {0};

		uccl_put32(b + at, 0x12345678);
		for (int i = 0; i < 4; i++)
			want[at + i] = (uint8_t)(0x12345678u >> 8 * i);
		assert_memory_equal(b, want, sizeof(b));
		assert_int_equal(uccl_get32(b + at), 0x12345678);
	}
}

static void put64__bytes(void **state)
{
	(void)state;
	for (int at = 1; at < 8; at++) {
		uint8_t b[16] = {0}, want[16] = {0};

		uccl_put64(b + at, 0x123456789abcdef0ull);
		for (int i = 0; i < 8; i++)
			want[at + i] = (uint8_t)(0x123456789abcdef0ull >> 8 * i);
		assert_memory_equal(b, want, sizeof(b));
		assert_int_equal(uccl_get64(b + at), 0x123456789abcdef0ull);
	}
}

static void get__extremes(void **state)
{
	uint8_t b[8];

	(void)state;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(put16__bytes),
		cmocka_unit_test(put32__bytes),
		cmocka_unit_test(put64__bytes),
		cmocka_unit_test(get__extremes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
