/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* SipHash as libsodium has it; the only file of this layer that knows the library. */
#include "base/mac.h"

#include <sodium.h>

_Static_assert(UCCL_MAC_LEN == crypto_shorthash_siphashx24_BYTES, "length of the hash");
_Static_assert(UCCL_KEY_LEN == crypto_shorthash_siphashx24_KEYBYTES, "length of the key");

void uccl_mac(uint8_t out[UCCL_MAC_LEN], const void *data, size_t len, const uint8_t key[UCCL_KEY_LEN])
{
	/* Cannot fail, and needs no sodium_init(): plain arithmetic. */
	crypto_shorthash_siphashx24(out, data, len, key);
}

bool uccl_mac_equal(const uint8_t a[UCCL_MAC_LEN], const uint8_t b[UCCL_MAC_LEN])
{
	return sodium_memcmp(a, b, UCCL_MAC_LEN) == 0;
}
