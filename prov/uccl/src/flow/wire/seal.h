/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What proves the packets of an open connection (docs/protocol/security.md): each carries a number that no other one
 * has, and a code over all of it, under a key that its receiver has chosen and told in the handshake.
 */
#ifndef UCCL_FLOW_WIRE_SEAL_H
#define UCCL_FLOW_WIRE_SEAL_H

#include "base/mac.h"
#include "flow/wire/io.h"
#include "flow/observe/stats.h"

/* What two endpoints promise each other; both say the same, or do not connect. */
enum uccl_security {
	UCCL_SECURITY_TRUSTED, /* tokens only */
	UCCL_SECURITY_CONTROL, /* packets are sealed; direct writes, which nothing can seal, are made */
	UCCL_SECURITY_PACKETS, /* packets are sealed, and there is nothing else */
	UCCL_SECURITY_COUNT
};

/* A packet may be late by this many numbers and is still told from a repeated one. */
#define UCCL_SEAL_WINDOW 16384

struct uccl_seal {
	uint8_t tx_key[UCCL_LONG_KEY], rx_key[UCCL_LONG_KEY];
	uint64_t tx_number; /* of the last one */
	uint64_t rx_top;    /* highest that was taken */
	uint64_t seen[UCCL_SEAL_WINDOW / 64];
};

void uccl_seal_init(struct uccl_seal *s, const uint8_t tx_key[UCCL_LONG_KEY], const uint8_t rx_key[UCCL_LONG_KEY]);
/* Seal a packet that is complete: UCCL_SEAL_LEN bytes more, in tx->tail. */
void uccl_seal_put(struct uccl_seal *s, struct uccl_tx *tx);
/* Check one whose header was decoded. UCCL_DROP_COUNT: it is genuine and new; SEAL: not genuine; REPLAY: not new. */
enum uccl_drop uccl_seal_check(struct uccl_seal *s, const uint8_t *packet, uint32_t len);

#endif
