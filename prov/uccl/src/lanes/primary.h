/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An endpoint that has lanes, as the primary sees them: which of them reach a peer, where their payload may land,
 * and how a large message is shared among them. What they answer is in lane_replies.c.
 */
#ifndef UCCL_LANES_PRIMARY_H
#define UCCL_LANES_PRIMARY_H

#include "lanes/lane_channel.h"
#include "msg/msg_ep.h"

/*
 * Bytes behind the envelope from which on lanes carry them. Of a peer that knows long stripes only: at least two, or
 * less while the primary has another payload to take.
 */
#define UCCL_LANES_MIN UCCL_STRIPE_LEAST
#define UCCL_LANES_LONG (2 * UCCL_STRIPE_BYTES)
#define UCCL_LANES_BESIDE (UCCL_STRIPE_BYTES / 4)
/*
 * What the primary carries in the envelope of a message that is alone, while lanes wait for CTS. Shorter ones are the
 * primary's.
 */
#define UCCL_LANES_FIRST 32768u
/* With so many bytes under way the primary has enough to do: what else would go without an answer goes over lanes. */
#define UCCL_LANES_UNSOLICITED (4 * UCCL_LANES_FIRST)
/* In CTS, where the place for direct writes would be: that lanes may carry it, and which, by bits. */
#define UCCL_CTS_LANES (1ull << 16)

/* A message whose payload goes over lanes. */
struct uccl_striped {
	TAILQ_ENTRY(uccl_striped) link;
	struct uccl_op *op;
	struct uccl_striped **self;	/* where the operation has it */
	uint64_t at, limit;		/* what is still to be handed out */
	uint32_t rx;			/* the receiver's handle; 0: ahead of CTS */
	uint16_t lanes;			/* that the receiver takes it from, by bits */
	uint32_t stripe;		/* bytes of a stripe */
	uint32_t out;			/* stripes that are not answered, */
	uint8_t wait;			/* and what the operation waits for so long */
};

struct uccl_lanes {
	uint8_t n;
	struct uccl_lane_channel *channel[UCCL_LANES_MAX];
	TAILQ_HEAD(, uccl_striped) striped; /* of which there is something to hand out */
};

/* The endpoint has these lanes from now on; `l` is made by the caller, and stays. */
void uccl_lanes_init(struct uccl_msg_ep *m, struct uccl_lanes *l, struct uccl_lane_channel *const *channel, uint8_t n);

/*
 * The peer's lane k is at addr, whose key we know if `connect`. Once for each; -FI_EINVAL: we know of it already, or
 * have no such lane; -FI_ENOMEM, -FI_EAGAIN: it is not used.
 */
int uccl_lanes_peer_add(struct uccl_peer *p, uint8_t k, const struct uccl_addr *addr, bool connect);
/* The peer ended. Lanes stop sending to it and receiving from it; what they have of its operations comes back. */
void lanes_peer_del(struct uccl_peer *p);

/*
 * Bytes [from, limit) of this message, which belong to `to`, may come over lanes: what CTS says of it; 0: they may
 * not.
 */
uint64_t lanes_rx_post(struct uccl_msg_rx *rx, uint8_t *to, uint64_t from, uint64_t limit);
/* Its head comes over these lanes, by bits. */
static inline void lanes_rx_senders(struct uccl_msg_rx *rx, uint16_t lanes)
{
	rx->lanes.senders = lanes;
}
/*
 * The head of this message, which is matched or discarded, has its place now: with the receive, or in what is kept of
 * the message until it is whole. False: no memory.
 */
bool lanes_rx_post_unsolicited(struct uccl_msg_rx *rx);
/* Lanes may no longer write to one of these two buffers. When this returns, none does. */
void lanes_rx_close(struct uccl_msg_rx *rx, struct uccl_reassembly **at);
/* Lanes of this peer that payload may come from, by bits. */
uint16_t lanes_of_peer(const struct uccl_peer *p);

/* Can lanes carry the payload of this message, or most of it? */
bool lanes_may(const struct uccl_op *op);
/* A CTS named these. */
void lanes_named(struct uccl_peer *p, uint64_t lanes);
/* The least loaded lanes that may send before CTS, by bits: at most one for each stripe of `bytes`. */
uint16_t lanes_for_unsolicited(struct uccl_peer *p, uint64_t bytes);
/*
 * Bytes [at, limit) of this message go over lanes, of those that CTS named, or ahead of it: rx is 0. The operation
 * waits for them by this bit. False: over none of them.
 */
bool lanes_send(struct uccl_op *op, uint64_t at, uint64_t limit, uint32_t rx, uint64_t lanes, uint8_t wait);
/* Hand out what lanes have room for. */
void lanes_more(struct uccl_msg_ep *m);
/* Nothing more of it is handed out. True: nothing of it is at a lane either, and it is shared no more. */
bool lanes_end(struct uccl_striped *s);
/* The same of all of an operation: what it still waits for. */
uint8_t lanes_stop(struct uccl_op *op);

#endif
