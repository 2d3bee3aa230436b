/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/mac.h"

#include "../tests.h"

#include <sodium.h>
#include <string.h>

static const uint8_t key[UCCL_KEY_LEN] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* The vectors that the authors of SipHash publish for 128-bit output: inputs 00 01 02 ... of length 0, 1, 2. */
TEST(mac__vectors)
{
	static const uint8_t want[][UCCL_MAC_LEN] = {
		{0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93},
		{0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45},
		{0x81, 0x77, 0x22, 0x8d, 0xa4, 0xa4, 0x5d, 0xc7, 0xfc, 0xa3, 0x8b, 0xde, 0xf6, 0x0a, 0xff, 0xe4},
	};
	uint8_t out[UCCL_MAC_LEN];

	for (size_t len = 0; len < sizeof(want) / sizeof(want[0]); len++) {
		uccl_mac(out, key, len, key);
		assert_memory_equal(out, want[len], UCCL_MAC_LEN);
	}
	uccl_mac(out, NULL, 0, key);
	assert_memory_equal(out, want[0], UCCL_MAC_LEN);
}

/* As libsodium's, whatever the length. */
TEST(mac__as_libsodium)
{
	uint8_t data[300], out[UCCL_MAC_LEN], want[crypto_shorthash_siphashx24_BYTES], other[UCCL_KEY_LEN];

	for (size_t len = 0; len < sizeof(data); len++) {
		for (size_t i = 0; i < len; i++)
			data[i] = (uint8_t)(i * 7 + len);
		for (size_t i = 0; i < sizeof(other); i++)
			other[i] = (uint8_t)(len * 31 + i * 11);
		uccl_mac(out, data, len, other);
		crypto_shorthash_siphashx24(want, data, len, other);
		assert_memory_equal(out, want, sizeof(out));
	}
}

TEST(mac__every_bit_counts)
{
	uint8_t data[24] = {0}, other[UCCL_KEY_LEN], plain[UCCL_MAC_LEN], out[UCCL_MAC_LEN];

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

TEST(mac_equal__every_bit_counts)
{
	uint8_t a[UCCL_MAC_LEN], b[UCCL_MAC_LEN];

	uccl_mac(a, "x", 1, key);
	memcpy(b, a, sizeof(b));
	assert_true(uccl_mac_equal(a, b));
	for (size_t bit = 0; bit < sizeof(b) * 8; bit++) {
		b[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_false(uccl_mac_equal(a, b));
		b[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

/* The key and number of RFC 8439's 2.6.2 over the text of its 2.5.2. */
TEST(mac_parts__vector)
{
	static const uint8_t want[UCCL_MAC_LEN] = {0x92, 0x65, 0xcf, 0x2a, 0xa8, 0xf4, 0x4c, 0xe9,
						   0xbd, 0xdb, 0x92, 0x2b, 0x3d, 0x65, 0x0e, 0x7c};
	const char *text = "Cryptographic Forum Research Group";
	uint8_t out[UCCL_MAC_LEN], long_key[UCCL_LONG_KEY];

	for (int i = 0; i < UCCL_LONG_KEY; i++)
		long_key[i] = (uint8_t)(0x80 + i);
	/* However it is cut. */
	for (size_t i = 0; i <= strlen(text); i++) {
		for (size_t k = i; k <= strlen(text); k++) {
			struct uccl_part v[3] = {{text, i}, {text + i, k - i}, {text + k, strlen(text) - k}};

			uccl_mac_parts(out, v, 3, 0x0706050403020100, long_key);
			assert_memory_equal(out, want, sizeof(out));
		}
	}
}

TEST(mac_parts__number_counts)
{
	struct uccl_part v = {"x", 1};
	uint8_t a[UCCL_MAC_LEN], b[UCCL_MAC_LEN], long_key[UCCL_LONG_KEY] = {0};

	uccl_mac_parts(a, &v, 1, 1, long_key);
	for (int bit = 1; bit < 64; bit++) {
		uccl_mac_parts(b, &v, 1, 1 ^ 1ull << bit, long_key);
		assert_memory_not_equal(a, b, sizeof(a));
	}
}

TEST(key_wrap__every_bit_counts)
{
	uint8_t in[UCCL_LONG_KEY], out[UCCL_LONG_KEY], wrapped[UCCL_WRAP_LEN], with[UCCL_KEY_LEN];
	char context[] = "context";

	memset(in, 0x27, sizeof(in));
	memcpy(with, key, sizeof(with));
	uccl_key_wrap(wrapped, in, context, sizeof(context), with);
	for (size_t i = 0; i + 8 <= sizeof(wrapped); i++)
		assert_memory_not_equal(wrapped + i, in, 8);
	assert_true(uccl_key_unwrap(out, wrapped, context, sizeof(context), with));
	assert_memory_equal(out, in, sizeof(in));
	for (size_t bit = 0; bit < sizeof(wrapped) * 8; bit++) {
		wrapped[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_false(uccl_key_unwrap(out, wrapped, context, sizeof(context), with));
		wrapped[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (size_t bit = 0; bit < sizeof(with) * 8; bit++) {
		with[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_false(uccl_key_unwrap(out, wrapped, context, sizeof(context), with));
		with[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	context[0]++;
	assert_false(uccl_key_unwrap(out, wrapped, context, sizeof(context), with));
}

TESTS_MAIN
