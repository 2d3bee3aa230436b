/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The only file of this layer that knows libsodium. Nothing of it fails, or needs sodium_init(): plain arithmetic. */
#include "base/mac.h"

#include <sodium.h>

#include "base/le.h"

_Static_assert(UCCL_MAC_LEN == crypto_shorthash_siphashx24_BYTES, "length of the hash");
_Static_assert(UCCL_KEY_LEN == crypto_shorthash_siphashx24_KEYBYTES, "length of the key");

void uccl_mac(uint8_t out[UCCL_MAC_LEN], const void *data, size_t len, const uint8_t key[UCCL_KEY_LEN])
{
	crypto_shorthash_siphashx24(out, data, len, key);
}

bool uccl_mac_equal(const uint8_t a[UCCL_MAC_LEN], const uint8_t b[UCCL_MAC_LEN])
{
	return sodium_memcmp(a, b, UCCL_MAC_LEN) == 0;
}

void uccl_mac_begin(void)
{
	/* An error means that there are no random numbers, which nobody here asks for. */
	(void)!sodium_init();
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
	crypto_stream_chacha20_ietf(once, sizeof(once), nonce, key);
	crypto_onetimeauth_init(&s, once);
	for (i = 0; i < n; i++)
		crypto_onetimeauth_update(&s, v[i].data, v[i].len);
	crypto_onetimeauth_final(&s, out);
}

/* Key and nonce of a box. */
struct box {
	uint8_t key[crypto_secretbox_KEYBYTES], nonce[crypto_secretbox_NONCEBYTES];
};

_Static_assert(UCCL_WRAP_LEN == UCCL_LONG_KEY + crypto_secretbox_MACBYTES, "length of a key under a key");
_Static_assert(UCCL_KEY_LEN >= crypto_generichash_KEYBYTES_MIN, "length of the key");

static void box_make(struct box *b, const void *context, size_t len, const uint8_t with[UCCL_KEY_LEN])
{
	crypto_generichash((uint8_t *)b, sizeof(*b), context, len, with, UCCL_KEY_LEN);
}

void uccl_key_wrap(uint8_t out[UCCL_WRAP_LEN], const uint8_t key[UCCL_LONG_KEY], const void *context, size_t len,
		   const uint8_t with[UCCL_KEY_LEN])
{
	struct box b;

	box_make(&b, context, len, with);
	crypto_secretbox_easy(out, key, UCCL_LONG_KEY, b.nonce, b.key);
}

bool uccl_key_unwrap(uint8_t key[UCCL_LONG_KEY], const uint8_t in[UCCL_WRAP_LEN], const void *context, size_t len,
		     const uint8_t with[UCCL_KEY_LEN])
{
	struct box b;

	box_make(&b, context, len, with);
	return !crypto_secretbox_open_easy(key, in, UCCL_WRAP_LEN, b.nonce, b.key);
}
