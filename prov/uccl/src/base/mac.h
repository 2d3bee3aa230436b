/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Cryptography: a keyed hash for short inputs, authentication codes of packets, encrypted keys. */
#ifndef UCCL_BASE_MAC_H
#define UCCL_BASE_MAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UCCL_MAC_LEN 16
#define UCCL_KEY_LEN 16

#define UCCL_LONG_KEY 32
#define UCCL_WRAP_LEN 48

/* Keyed hash: SipHash-2-4 with 128 bits of output (Aumasson and Bernstein, 2012). */
void uccl_mac(uint8_t out[UCCL_MAC_LEN], const void *data, size_t len, const uint8_t key[UCCL_KEY_LEN]);
/* Constant-time comparison. */
bool uccl_mac_equal(const uint8_t a[UCCL_MAC_LEN], const uint8_t b[UCCL_MAC_LEN]);

/* True if the functions below may be called: uccl_crypto_use() gave what they need. */
bool uccl_mac_has_keys(void);

/* One piece of the text that uccl_mac_parts() reads. */
struct uccl_part {
	const void *data;
	size_t len;
};

/*
 * Authentication code of the concatenation of v[0..n): Poly1305 with a one-time key that ChaCha20 derives from `key`
 * and `number` (RFC 8439 2.6). Never use a number for two texts under the same key.
 */
void uccl_mac_parts(uint8_t out[UCCL_MAC_LEN], const struct uccl_part *v, int n, uint64_t number,
		    const uint8_t key[UCCL_LONG_KEY]);

/*
 * Encrypt `key` under the key `with` and a context of `len` bytes (XSalsa20-Poly1305). Never use a context for two
 * keys. uccl_key_unwrap() returns false if `in` was not made with this context and key.
 */
void uccl_key_wrap(uint8_t out[UCCL_WRAP_LEN], const uint8_t key[UCCL_LONG_KEY], const void *context, size_t len,
		   const uint8_t with[UCCL_KEY_LEN]);
bool uccl_key_unwrap(uint8_t key[UCCL_LONG_KEY], const uint8_t in[UCCL_WRAP_LEN], const void *context, size_t len,
		     const uint8_t with[UCCL_KEY_LEN]);

#endif
