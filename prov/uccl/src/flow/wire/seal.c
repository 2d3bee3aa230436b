/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/wire/seal.h"

#include <string.h>

#include "flow/wire/wire.h"

#define FLAGS_AT 4 /* in the header */

void uccl_seal_init(struct uccl_seal *s, const uint8_t tx_key[UCCL_LONG_KEY], const uint8_t rx_key[UCCL_LONG_KEY])
{
	memset(s, 0, sizeof(*s));
	memcpy(s->tx_key, tx_key, UCCL_LONG_KEY);
	memcpy(s->rx_key, rx_key, UCCL_LONG_KEY);
}

/* PROTOCOL R90 */
void uccl_seal_put(struct uccl_seal *s, struct uccl_tx *tx)
{
	uint8_t *at = tx->tail + tx->tail_len;
	struct uccl_part v[3] = {{tx->hdr, tx->hdr_len}, {tx->payload, tx->payload_len}, {tx->tail, tx->tail_len}};

	tx->hdr[FLAGS_AT] |= UCCL_FLAG_SEALED;
	uccl_put64(at, ++s->tx_number);
	uccl_mac_parts(at + 8, v, 3, s->tx_number, s->tx_key);
	tx->tail_len = (uint16_t)(tx->tail_len + UCCL_SEAL_LEN);
}

static uint64_t *seen_word(struct uccl_seal *s, uint64_t number)
{
	return &s->seen[number / 64 % (UCCL_SEAL_WINDOW / 64)];
}

/* PROTOCOL R91. The window moves by whole words, so its last word is not used but for what comes. */
static bool number_take(struct uccl_seal *s, uint64_t number)
{
	uint64_t bit = 1ull << number % 64, word;

	if (!number || (s->rx_top > number && s->rx_top - number >= UCCL_SEAL_WINDOW - 64))
		return false;
	if (number > s->rx_top) {
		/* Words that are entered now belonged to numbers long ago. */
		for (word = s->rx_top / 64 + 1; word <= number / 64; word++) {
			if (word - (s->rx_top / 64 + 1) == UCCL_SEAL_WINDOW / 64)
				break;
			*seen_word(s, word * 64) = 0;
		}
		s->rx_top = number;
	}
	if (*seen_word(s, number) & bit)
		return false;
	*seen_word(s, number) |= bit;
	return true;
}

enum uccl_drop uccl_seal_check(struct uccl_seal *s, const uint8_t *packet, uint32_t len)
{
	const uint8_t *at;
	uint8_t code[UCCL_MAC_LEN];
	struct uccl_part v;
	uint64_t number;

	if (len < UCCL_HDR_LEN + UCCL_SEAL_LEN || !(packet[FLAGS_AT] & UCCL_FLAG_SEALED))
		return UCCL_DROP_SEAL;
	at = packet + len - UCCL_SEAL_LEN;
	number = uccl_get64(at);
	v = (struct uccl_part){packet, len - UCCL_SEAL_LEN};
	uccl_mac_parts(code, &v, 1, number, s->rx_key);
	if (!uccl_mac_equal(code, at + 8))
		return UCCL_DROP_SEAL;
	return number_take(s, number) ? UCCL_DROP_COUNT : UCCL_DROP_REPLAY;
}
