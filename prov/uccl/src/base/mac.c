/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The keyed hash is needed by each connection (cookies, tokens), and no library that is always there has one, so it is
 * here. What only keys need comes from libsodium, by a table that api fills. Nothing of it fails: plain arithmetic.
 */
#include "base/mac.h"

#include <string.h>

#include "base/crypto.h"
#include "base/le.h"

static const struct uccl_crypto *crypto;

void uccl_crypto_use(const struct uccl_crypto *functions)
{
	crypto = functions;
}

bool uccl_mac_has_keys(void)
{
	return crypto;
}

static inline uint64_t rotate(uint64_t v, int bits)
{
	return v << bits | v >> (64 - bits);
}

static inline void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] = rotate(v[0], 32) + v[3];
	v[2] += v[1];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[2] = rotate(v[2], 32);
}

static inline void sip_word(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	sip_round(v);
	sip_round(v);
	v[0] ^= word;
}

static inline uint64_t sip_end(uint64_t v[4])
{
	for (int i = 0; i < 4; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void uccl_mac(uint8_t out[UCCL_MAC_LEN], const void *data, size_t len, const uint8_t key[UCCL_KEY_LEN])
{
	uint64_t k0 = uccl_get64(key), k1 = uccl_get64(key + 8);
	uint64_t v[4] = { k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d ^ 0xee, k0 ^ 0x6c7967656e657261,
			  k1 ^ 0x7465646279746573 };
	const uint8_t *p = data;
	uint8_t last[8] = { 0 };

	for (size_t left = len; left >= 8; left -= 8, p += 8)
		sip_word(v, uccl_get64(p));
	if (len % 8)
		memcpy(last, p, len % 8);
	last[7] = (uint8_t)len;
	sip_word(v, uccl_get64(last));
	v[2] ^= 0xee;
	uccl_put64(out, sip_end(v));
	v[1] ^= 0xdd;
	uccl_put64(out + 8, sip_end(v));
}

bool uccl_mac_equal(const uint8_t a[UCCL_MAC_LEN], const uint8_t b[UCCL_MAC_LEN])
{
	/* The compiler must not end the loop at the first difference. */
	const volatile uint8_t *p = a, *q = b;
	uint8_t differs = 0;

	for (int i = 0; i < UCCL_MAC_LEN; i++)
		differs |= p[i] ^ q[i];
	return !differs;
}

_Static_assert(UCCL_MAC_LEN == crypto_onetimeauth_BYTES, "length of the code");
_Static_assert(UCCL_LONG_KEY == crypto_stream_chacha20_ietf_KEYBYTES, "length of the key");

void uccl_mac_parts(uint8_t out[UCCL_MAC_LEN], const struct uccl_part *v, int n, uint64_t number,
		    const uint8_t key[UCCL_LONG_KEY])
{
	uint8_t nonce[crypto_stream_chacha20_ietf_NONCEBYTES] = {0}, once[crypto_onetimeauth_KEYBYTES];
	crypto_onetimeauth_state s;
	int i;

	uccl_put64(nonce + sizeof(nonce) - 8, number);
	crypto->stream_chacha20_ietf(once, sizeof(once), nonce, key);
	crypto->onetimeauth_init(&s, once);
	for (i = 0; i < n; i++)
		crypto->onetimeauth_update(&s, v[i].data, v[i].len);
	crypto->onetimeauth_final(&s, out);
}

/* Key and nonce of a box. */
struct box {
	uint8_t key[crypto_secretbox_KEYBYTES], nonce[crypto_secretbox_NONCEBYTES];
};

_Static_assert(UCCL_WRAP_LEN == UCCL_LONG_KEY + crypto_secretbox_MACBYTES, "length of a key under a key");
_Static_assert(UCCL_KEY_LEN >= crypto_generichash_KEYBYTES_MIN, "length of the key");

static void box_make(struct box *b, const void *context, size_t len, const uint8_t with[UCCL_KEY_LEN])
{
	crypto->generichash((uint8_t *)b, sizeof(*b), context, len, with, UCCL_KEY_LEN);
}

void uccl_key_wrap(uint8_t out[UCCL_WRAP_LEN], const uint8_t key[UCCL_LONG_KEY], const void *context, size_t len,
		   const uint8_t with[UCCL_KEY_LEN])
{
	struct box b;

	box_make(&b, context, len, with);
	crypto->secretbox_easy(out, key, UCCL_LONG_KEY, b.nonce, b.key);
}

bool uccl_key_unwrap(uint8_t key[UCCL_LONG_KEY], const uint8_t in[UCCL_WRAP_LEN], const void *context, size_t len,
		     const uint8_t with[UCCL_KEY_LEN])
{
	struct box b;

	box_make(&b, context, len, with);
	return !crypto->secretbox_open_easy(key, in, UCCL_WRAP_LEN, b.nonce, b.key);
}
