/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Keyed hash of short inputs: SipHash-2-4 with 128-bit output, from libsodium. */
#ifndef UCCL_BASE_MAC_H
#define UCCL_BASE_MAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UCCL_MAC_LEN 16
#define UCCL_KEY_LEN 16

void uccl_mac(uint8_t out[UCCL_MAC_LEN], const void *data, size_t len, const uint8_t key[UCCL_KEY_LEN]);
/* Constant-time comparison. */
bool uccl_mac_equal(const uint8_t a[UCCL_MAC_LEN], const uint8_t b[UCCL_MAC_LEN]);

#endif
