/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An endpoint that has lanes, as the primary sees them: which of them reach a peer, where their payload may land,
 * and how a large message is shared among them. What they answer is in lane_replies.c.
 */
#ifndef UCCL_LANES_PRIMARY_H
#define UCCL_LANES_PRIMARY_H

#include "lanes/lane_channel.h"
#include "lanes/lateness.h"
#include "lanes/lanes.h"

/*
 * Bytes behind the envelope from which on lanes carry them. Of a peer that knows long stripes only: at least two, or
 * less while the primary has another payload to take.
 */
#define UCCL_LANES_MIN UCCL_STRIPE_LEAST
#define UCCL_LANES_LONG (2 * UCCL_STRIPE_BYTES)
#define UCCL_LANES_BESIDE (UCCL_STRIPE_BYTES / 4)

/* A message whose payload goes over lanes. */
struct uccl_striped {
	TAILQ_ENTRY(uccl_striped) link;
	struct uccl_op *op;
	struct uccl_striped **self;	/* where the operation has it */
	uint64_t at, limit;		/* what is still to be handed out */
	uint32_t rx;			/* the receiver's handle; 0: ahead of CTS */
	uint16_t lanes;			/* that the receiver takes it from, by bits */
	uint16_t readers;		/* lanes that may read its payload: they were handed some, */
	uint16_t asked;			/* and those of them that are asked to read it no more, and have not answered */
	uint32_t stripe;		/* bytes of a stripe */
	uint32_t out;			/* stripes that are not answered, */
	uint8_t wait;			/* and what the operation waits for so long */
};

struct uccl_lanes {
	uint8_t n;
	struct uccl_lane_channel *channel[UCCL_LANES_MAX];
	TAILQ_HEAD(, uccl_striped) striped; /* of which there is something to hand out */
	struct uccl_lateness lateness;
	uint64_t now;			/* of the latest turn */
};

/* The endpoint has these lanes from now on, by this table; `l` is made by the caller, and stays. */
void primary_init(struct uccl_msg_ep *m, const struct uccl_lanes_ops *ops, struct uccl_lanes *l,
		  struct uccl_lane_channel *const *channel, uint8_t n);

/*
 * The peer's lane k is at addr, whose key we know if `connect`. Once for each; -FI_EINVAL: we know of it already, or
 * have no such lane; -FI_ENOMEM, -FI_EAGAIN: it is not used.
 */
int primary_peer_add(struct uccl_peer *p, uint8_t k, const struct uccl_addr *addr, bool connect);
/* The peer ended. Lanes stop sending to it and receiving from it; what they have of its operations comes back. */
void primary_peer_del(struct uccl_peer *p);

/* What msg calls through the table; see lanes.h. Of peers that lanes reach. */
uint16_t primary_of_peer(const struct uccl_peer *p);
uint64_t primary_offer(const struct uccl_peer *p);
uint64_t primary_rx_post(struct uccl_msg_rx *rx, uint8_t *to, uint64_t from, uint64_t limit);
bool primary_rx_post_unsolicited(struct uccl_msg_rx *rx);
/* Lanes may no longer write to one of these two buffers, which is not NULL. When this returns, none does. */
void primary_rx_close(struct uccl_msg_rx *rx, struct uccl_reassembly **at);
bool primary_may(const struct uccl_op *op);
void primary_named(struct uccl_peer *p, uint64_t lanes);
uint16_t primary_for_unsolicited(struct uccl_peer *p, uint64_t bytes);
bool primary_send(struct uccl_op *op, uint64_t at, uint64_t limit, uint32_t rx, uint64_t lanes, uint8_t wait);
uint8_t primary_stop(struct uccl_op *op, uint64_t due);
bool primary_reads(const struct uccl_op *op);

/* How late lanes were: in each turn. */
void primary_lateness(struct uccl_msg_ep *m, uint64_t now);
/* Hand out what lanes have room for. */
void primary_more(struct uccl_msg_ep *m);
/* Nothing more of it is handed out. True: nothing of it is at a lane either, and it is shared no more. */
bool primary_end(struct uccl_striped *s);

#endif
