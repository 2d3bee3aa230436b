/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/mac.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

static const uint8_t key[UCCL_KEY_LEN] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* The vectors that the authors of SipHash publish for 128-bit output: inputs 00 01 02 ... of length 0, 1, 2. */
static void mac__vectors(void **state)
{
	static const uint8_t want[][UCCL_MAC_LEN] = {
		{0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93},
		{0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45},
		{0x81, 0x77, 0x22, 0x8d, 0xa4, 0xa4, 0x5d, 0xc7, 0xfc, 0xa3, 0x8b, 0xde, 0xf6, 0x0a, 0xff, 0xe4},
	};
	uint8_t out[UCCL_MAC_LEN];

	(void)state;
	for (size_t len = 0; len < sizeof(want) / sizeof(want[0]); len++) {
		uccl_mac(out, key, len, key);
		assert_memory_equal(out, want[len], UCCL_MAC_LEN);
	}
	uccl_mac(out, NULL, 0, key);
	assert_memory_equal(out, want[0], UCCL_MAC_LEN);
}

static void mac__every_bit_counts(void **state)
{
	uint8_t data[24] = {0}, other[UCCL_KEY_LEN], plain[UCCL_MAC_LEN], out[UCCL_MAC_LEN];

	(void)state;
	uccl_mac(plain, data, sizeof(data), key);
	for (size_t bit = 0; bit < sizeof(data) * 8; bit++) {
		data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		uccl_mac(out, data, sizeof(data), key);
		assert_memory_not_equal(out, plain, UCCL_MAC_LEN);
		data[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (size_t bit = 0; bit < sizeof(other) * 8; bit++) {
		memcpy(other, key, sizeof(other));
		other[bit / 8] ^= (uint8_t)(1 << bit % 8);
		uccl_mac(out, data, sizeof(data), other);
		assert_memory_not_equal(out, plain, UCCL_MAC_LEN);
	}
}

static void mac_equal__every_bit_counts(void **state)
{
	uint8_t a[UCCL_MAC_LEN], b[UCCL_MAC_LEN];

	(void)state;
	uccl_mac(a, "x", 1, key);
	memcpy(b, a, sizeof(b));
	assert_true(uccl_mac_equal(a, b));
	for (size_t bit = 0; bit < sizeof(b) * 8; bit++) {
		b[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_false(uccl_mac_equal(a, b));
		b[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mac__vectors),
		cmocka_unit_test(mac__every_bit_counts),
		cmocka_unit_test(mac_equal__every_bit_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
