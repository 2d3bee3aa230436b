/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* handshake.c: unknown senders, and the names of a peer. */
#ifndef UCCL_ENGINE_CONN_HANDSHAKE_IMPL_H
#define UCCL_ENGINE_CONN_HANDSHAKE_IMPL_H

#include <stdbool.h>

#include "flow/wire/io.h"
#include "flow/wire/wire.h"

struct conn;
struct uccl_engine;

/* A part of struct conn. */
struct conn_handshake {
	bool unvalidated;		/* open, and no packet with our token has come */
	uint8_t peer_version;		/* FI_ENOPROTOOPT: version of the wire protocol that the peer speaks */
	uint64_t peer_lived_ns;		/* uccl_init.asked_ns of the handshake */
};

/*
 * The first packet with our token came, so the peer has received our INIT_ACK. Older connections to the same place end.
 */
void conn_validated(struct conn *c, uint64_t now);
/* Did it come from the place of `c`, by the first rail or by the second one? */
bool conn_from(const struct conn *c, const struct uccl_nic_addr *src);
enum uccl_drop conn_rx(struct uccl_engine *e, const struct uccl_hdr *h, const uint8_t *payload,
		       const struct uccl_rx *rx, uint64_t now);

#endif
