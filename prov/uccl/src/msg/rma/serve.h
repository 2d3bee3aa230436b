/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The target of RMA and atomics: requests of peers for our memory, in their order. */
#ifndef UCCL_MSG_RMA_SERVE_H
#define UCCL_MSG_RMA_SERVE_H

#include "msg/rma/region.h"

/* A request for our memory that could not be executed when it came: its turn, its payload or a reply is missing. */
struct uccl_serve {
	struct uccl_req req;
	struct uccl_env env;
	bool queued;		/* its turn has come, or all of it but room: in the peer's list of requests */
	bool placed;		/* a write that waited for CTS is in place, and waits for room */
	uint16_t short_write;	/* a short one that was granted is still to come: see rma/short_writes.h; 0: not */
	uint8_t refusal;	/* its memory was revoked while the payload came */
	bool stored;		/* an atomic on a device was done, and is on its way there */
	struct uccl_msg_rx *rx;	/* which it is of */
	struct msg_uses uses;
	TAILQ_ENTRY(uccl_serve) refused_link; /* in uccl_msg_ep.refused, */
	bool refused;		/* if this */
	uint8_t *found;		/* what it works on, and behind it what was there before; NULL: not begun, or none */
	uint8_t nregions;
	uint8_t niov;
	void *regions[UCCL_SEG_MAX];
	struct iovec iov[UCCL_PLACE_IOV_MAX];
};

enum uccl_drop msg_req(struct uccl_peer *p, const struct uccl_chunk_in *in, uint64_t now);
/* RESP, or a buffer of data that the peer reads, is acknowledged. */
void msg_serve_acked(struct uccl_item *item, uint64_t now);
/* Go on with the requests that wait for room, as far as there is any, one peer after the other. */
void msg_serve_retry(struct uccl_msg_ep *m, uint64_t now);
/*
 * Go on with requests that wait for a reply, of some peers in turn: a reply was freed, or there may be memory for one.
 * A peer that must wait for its own replies does not delay the peers behind it. A peer without replies waits only for
 * memory. PROTOCOL R121
 */
void msg_serve_blocked(struct uccl_msg_ep *m, uint64_t now);
/* The initiator takes the request back, in its turn. False: the request is executed, or being executed. */
bool msg_serve_abort(struct uccl_msg_rx *rx, uint64_t now);
/* The peer is gone, the flow has forgotten its items. */
void msg_serve_ended(struct uccl_peer *p, uint64_t now);

#endif
