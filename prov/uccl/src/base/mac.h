/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Cryptography, all of it from libsodium: a keyed hash of short inputs, codes of packets, keys under keys. */
#ifndef UCCL_BASE_MAC_H
#define UCCL_BASE_MAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UCCL_MAC_LEN 16
#define UCCL_KEY_LEN 16

#define UCCL_LONG_KEY 32
#define UCCL_WRAP_LEN 48

/* SipHash-2-4 with 128 bits. */
void uccl_mac(uint8_t out[UCCL_MAC_LEN], const void *data, size_t len, const uint8_t key[UCCL_KEY_LEN]);
/* Constant-time comparison. */
bool uccl_mac_equal(const uint8_t a[UCCL_MAC_LEN], const uint8_t b[UCCL_MAC_LEN]);

/* Choose the code that is fastest on this processor; without it all works, but slower. May be called again. */
void uccl_mac_begin(void);

struct uccl_part {
	const void *data;
	size_t len;
};

/*
 * Code of n parts in a row: Poly1305 with a key that ChaCha20 (RFC 8439) makes of `key` and `number`. A number must not
 * be used for two texts with one key.
 */
void uccl_mac_parts(uint8_t out[UCCL_MAC_LEN], const struct uccl_part *v, int n, uint64_t number,
		    const uint8_t key[UCCL_LONG_KEY]);

/*
 * A key under another one (XSalsa20 and Poly1305), which are for this context only: it must not be used for two keys.
 * uccl_key_unwrap(): false if it was not wrapped so.
 */
void uccl_key_wrap(uint8_t out[UCCL_WRAP_LEN], const uint8_t key[UCCL_LONG_KEY], const void *context, size_t len,
		   const uint8_t with[UCCL_KEY_LEN]);
bool uccl_key_unwrap(uint8_t key[UCCL_LONG_KEY], const uint8_t in[UCCL_WRAP_LEN], const void *context, size_t len,
		     const uint8_t with[UCCL_KEY_LEN]);

#endif
