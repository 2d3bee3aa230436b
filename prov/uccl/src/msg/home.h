/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An endpoint that has lanes, as its home sees them: which of them reach a peer, where their payload may land, and how
 * a large message is shared among them. What they answer is in lanes.c.
 */
#ifndef UCCL_MSG_HOME_H
#define UCCL_MSG_HOME_H

#include "msg/line.h"
#include "msg/mep.h"

/*
 * Bytes behind the envelope from which on lanes carry them. Of a peer that knows long units only: at least two, or less
 * while home has another payload to take.
 */
#define UCCL_LANES_MIN UCCL_UNIT_LEAST
#define UCCL_LANES_LONG (2 * UCCL_UNIT_BYTES)
#define UCCL_LANES_BESIDE (UCCL_UNIT_BYTES / 4)
/* What home carries in the envelope of a message that is alone, while lanes wait for CTS. Shorter ones are home's. */
#define UCCL_LANES_FIRST 32768u
/* With so many bytes under way home has enough to do: what else would go without an answer goes over lanes. */
#define UCCL_LANES_UNASKED (4 * UCCL_LANES_FIRST)
/* In CTS, where the place for direct writes would be: that lanes may carry it, and which, by bits. */
#define UCCL_CTS_LANES (1ull << 16)

/* A message whose payload goes over lanes. */
struct uccl_sliced {
	TAILQ_ENTRY(uccl_sliced) link;
	struct uccl_op *op;
	struct uccl_sliced **self;	/* where the operation has it */
	uint64_t at, limit;		/* what is still to be handed out */
	uint32_t rx;			/* the receiver's handle; 0: ahead of CTS */
	uint16_t lanes;			/* that the receiver takes it from, by bits */
	uint32_t unit;			/* bytes of a slice */
	uint32_t out;			/* slices that are not answered, */
	uint8_t wait;			/* and what the operation waits for so long */
};

struct uccl_lanes {
	uint8_t n;
	struct uccl_line *line[UCCL_LANES_MAX];
	TAILQ_HEAD(, uccl_sliced) sliced; /* of which there is something to hand out */
};

/* The endpoint has these lanes from now on; `l` is made by the caller, and stays. */
void uccl_lanes_init(struct uccl_mep *m, struct uccl_lanes *l, struct uccl_line *const *line, uint8_t n);

/*
 * The peer's lane k is at addr, whose key we know if `connect`. Once for each; -FI_EINVAL: we know of it already, or
 * have no such lane; -FI_ENOMEM, -FI_EAGAIN: it is not used.
 */
int uccl_lanes_meet(struct uccl_peer *p, uint8_t k, const struct uccl_addr *addr, bool connect);
/* The peer ended. Lanes stop sending to it and receiving from it; what they have of its operations comes back. */
void msg_lanes_part(struct uccl_peer *p);

/*
 * Bytes [from, limit) of this message, which belong to `to`, may come over lanes: what CTS says of it; 0: they may
 * not.
 */
uint64_t msg_lanes_land(struct uccl_msg_rx *rx, uint8_t *to, uint64_t from, uint64_t limit);
/*
 * The head of this message, which is matched or discarded, has its place now: with the receive, or in what is kept of
 * the message until it is whole. False: no memory.
 */
bool msg_lanes_ahead(struct uccl_msg_rx *rx);
/* It may not any more, one of the two; nothing is written there when this returns. */
void msg_lanes_shut(struct uccl_msg_rx *rx, struct uccl_berth **at);
/* Lanes of this peer that payload may come from, by bits. */
uint16_t msg_lanes_there(const struct uccl_peer *p);

/* Can lanes carry the payload of this message, or most of it? */
bool msg_lanes_may(const struct uccl_op *op);
/* A CTS named these. */
void msg_lanes_named(struct uccl_peer *p, uint64_t lanes);
/* Those with the least to do, of these that may send payload ahead of CTS: as many as so many bytes have units. */
uint16_t msg_lanes_pick(struct uccl_peer *p, uint64_t bytes);
/*
 * Bytes [at, limit) of this message go over lanes, of those that CTS named, or ahead of it: rx is 0. The operation
 * waits for them by this bit. False: over none of them.
 */
bool msg_lanes_send(struct uccl_op *op, uint64_t at, uint64_t limit, uint32_t rx, uint64_t lanes, uint8_t wait);
/* Hand out what lanes have room for. */
void msg_lanes_more(struct uccl_mep *m);
/* Nothing more of it is handed out. True: nothing of it is at a lane either, and it is shared no more. */
bool msg_lanes_end(struct uccl_sliced *s);
/* The same of all of an operation: what it still waits for. */
uint8_t msg_lanes_stop(struct uccl_op *op);

#endif
