/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Lanes: one endpoint on several cores. This header is what the rest of the provider knows of them, and one table of
 * functions is all that it calls, as with a NIC. An endpoint without lanes has no table, nor has a build without lanes
 * (configure --disable-lanes): that leaves out lanes/, engine/engine_lanes.c and progress/lane_set.c.
 */
#ifndef UCCL_LANES_LANES_H
#define UCCL_LANES_LANES_H

#include "msg/msg_ep.h"
#include "msg/recv/msg_rx.h"

/*
 * What one lane carries of a message at a time, from a multiple of it behind the first byte on: less of a short one, so
 * that several lanes have something to do. UCCL_STRIPE_FULL fills one packet of the loopback, or one train of shorter
 * packets; a few bytes more would cost another one. On the wire. PROTOCOL R224
 */
#define UCCL_STRIPE_LEAST 30720u
#define UCCL_STRIPE_FULL 61440u
#define UCCL_STRIPE_MOST (4 * UCCL_STRIPE_FULL)
/* Stripes that there are to be at least, of messages of some length. */
#define UCCL_STRIPE_SHARES 4u
/* Length of a stripe for a peer that knows no other length. */
#define UCCL_STRIPE_BYTES 262144u
/*
 * What the primary carries in the envelope of a message that is alone, while lanes wait for CTS. Shorter ones are the
 * primary's.
 */
#define UCCL_LANES_FIRST 32768u
/* Lanes carry short writes from this length on, while many are under way: each of them wholly by one lane. */
#define UCCL_LANES_WRITE 8192u
/* With this many bytes under way the primary has enough to do: further unsolicited data goes over lanes. */
#define UCCL_LANES_UNSOLICITED (4 * UCCL_LANES_FIRST)
/* In CTS, where the place for direct writes would be: that lanes may carry it, and which, by bits. */
#define UCCL_CTS_LANES (1ull << 16)

struct uccl_engine;
struct uccl_lane_channel;
struct uccl_lane_peer;

struct uccl_lanes_ops {
	/* Called by the owner of the engines. */
	/*
	 * What the primary and a lane say to each other goes by this channel; `wake` and `rest` are lane_channel.h's.
	 * NULL: no memory. It is freed when both engines are closed.
	 */
	struct uccl_lane_channel *(*channel_new)(void (*wake)(void *arg, bool primary), void (*rest)(uint32_t times),
						 void *arg);
	void (*channel_free)(struct uccl_lane_channel *l);
	/* By the lane's thread, before it polls: it came so late after it had been woken, or after a packet had. */
	void (*channel_late)(struct uccl_lane_channel *l, uint64_t late_ns);
	/*
	 * The endpoint of `primary` has these engines as lanes, each with its channel; before it has peers. They are
	 * opened before with its key and incarnations of their own, may be polled by other threads once this has
	 * returned, and are closed before it, with nobody polling it then. The link is one: those that are busy share
	 * it. -FI_ENOMEM.
	 */
	int (*open)(struct uccl_engine *primary, struct uccl_engine *const *lane,
		    struct uccl_lane_channel *const *channel, uint8_t n);

	/* Called by engine, of an endpoint that has lanes and of one that is a lane. */
	/* It is lane `number` from now on. -FI_ENOMEM. */
	int (*attach)(struct uccl_msg_ep *m, struct uccl_lane_channel *channel, uint8_t number);
	/* All its peers have failed, and its lanes are closed: what they did not answer ends. */
	void (*detach)(struct uccl_msg_ep *m, uint64_t now);
	/* The last: nothing refers to lanes any more. */
	void (*free)(struct uccl_msg_ep *m);
	/* How many lanes it has. */
	uint8_t (*count)(const struct uccl_msg_ep *m);
	/* At the beginning of each turn: reads the commands of the other side. How many there were. */
	int (*poll)(struct uccl_msg_ep *m, uint64_t now);
	/* At the end of each turn: says what the other side does not know yet. */
	void (*report)(struct uccl_msg_ep *m);
	/* Does a command wait for room in a mailbox? */
	bool (*waits)(const struct uccl_msg_ep *m);
	/* A connection of the primary opened: tells a peer that has lanes, too, where ours are, now or in tell_due. */
	void (*tell)(struct uccl_peer *p);
	/* This came of such a peer, and was taken: tells it if lanes could carry what this is about. PROTOCOL R314 */
	void (*tell_due)(struct uccl_peer *p, const struct uccl_chunk_in *in);
	/* The peer tells where one of its lanes is. */
	enum uccl_drop (*hear)(struct uccl_peer *p, const struct uccl_chunk_in *in);
	/* Of a lane's flows, instead of uccl_msg_flow_ops. */
	const struct uccl_flow_ops *flow_ops;

	/* Called by lanes, of an engine that is one. */
	/* The peer at this lane peer's address; begins to connect if it says so. NULL: no memory, or another has it. */
	struct uccl_peer *(*lane_peer_add)(struct uccl_msg_ep *m, const struct uccl_lane_peer *w, uint64_t now);
	/* Ends it, if it lives, and forgets it. */
	void (*lane_peer_del)(struct uccl_peer *p, uint64_t now);

	/* Called by msg; see primary.h and worker.h. */
	void (*peer_opened)(struct uccl_peer *p);
	void (*peer_ended)(struct uccl_peer *p, int err);
	uint16_t (*of_peer)(const struct uccl_peer *p);
	uint64_t (*offer)(const struct uccl_peer *p);
	uint64_t (*rx_post)(struct uccl_msg_rx *rx, uint8_t *to, uint64_t from, uint64_t limit);
	bool (*rx_post_unsolicited)(struct uccl_msg_rx *rx);
	bool (*rx_claim)(struct uccl_reassembly *b);
	void (*rx_close)(struct uccl_msg_rx *rx, struct uccl_reassembly **at);
	bool (*may)(const struct uccl_op *op);
	void (*named)(struct uccl_peer *p, uint64_t lanes);
	uint16_t (*for_unsolicited)(struct uccl_peer *p, uint64_t bytes);
	bool (*send)(struct uccl_op *op, uint64_t at, uint64_t limit, uint32_t rx, uint64_t lanes, uint8_t wait);
	uint8_t (*stop)(struct uccl_op *op, uint64_t due);
	bool (*reads)(const struct uccl_op *op);
};

#ifdef HAVE_LANES
extern const struct uccl_lanes_ops uccl_lanes_ops;
#endif

/* The table, for code that opens engines. NULL: this build has no lanes. */
static inline const struct uccl_lanes_ops *uccl_lanes_built(void)
{
#ifdef HAVE_LANES
	return &uccl_lanes_ops;
#else
	return NULL;
#endif
}

/* What msg calls. Nothing of it costs more than one comparison where no lane reaches the peer. */

/* Lanes of this peer that payload may come from, by bits. */
static inline uint16_t lanes_of_peer(const struct uccl_peer *p)
{
	return p->lanes.peers ? p->msg_ep->lanes_ops->of_peer(p) : 0;
}

/*
 * What CTS says of the lanes by which the peer may send unsolicited data from now on. Without any it sends none there.
 * PROTOCOL R418
 */
static inline uint64_t lanes_offer(const struct uccl_peer *p)
{
	return p->msg_ep->lanes_ops->offer(p);
}

/*
 * Bytes [from, limit) of this message, which belong to `to`, may come over lanes: what CTS says of it; 0: they may
 * not.
 */
static inline uint64_t lanes_rx_post(struct uccl_msg_rx *rx, uint8_t *to, uint64_t from, uint64_t limit)
{
	return rx->peer->lanes.peers ? rx->peer->msg_ep->lanes_ops->rx_post(rx, to, from, limit) : 0;
}

/* The unsolicited data of the message comes over these lanes, by bits. */
static inline void lanes_rx_senders(struct uccl_msg_rx *rx, uint16_t lanes)
{
	rx->lanes.senders = lanes;
}

/*
 * The head of this message, which comes over lanes and is matched or discarded, has its place now: with the receive, or
 * in what is kept of the message until it is whole. False: no memory.
 */
static inline bool lanes_rx_post_unsolicited(struct uccl_msg_rx *rx)
{
	return rx->peer->msg_ep->lanes_ops->rx_post_unsolicited(rx);
}

/* The primary brings the rest of this message itself. False: lanes have begun. */
static inline bool lanes_rx_claim(struct uccl_msg_rx *rx)
{
	return !rx->lanes.rest || rx->peer->msg_ep->lanes_ops->rx_claim(rx->lanes.rest);
}

/* Lanes may no longer write anything of this message. When this returns, none does. */
static inline void lanes_rx_close(struct uccl_msg_rx *rx)
{
	if (rx->lanes.rest)
		rx->peer->msg_ep->lanes_ops->rx_close(rx, &rx->lanes.rest);
	if (rx->lanes.unsolicited)
		rx->peer->msg_ep->lanes_ops->rx_close(rx, &rx->lanes.unsolicited);
}

/* Can lanes carry the payload of this message, or most of it? */
static inline bool lanes_may(const struct uccl_op *op)
{
	return op->peer->lanes.peers && op->peer->msg_ep->lanes_ops->may(op);
}

/* A CTS named these, or none if lanes could have brought the payload and the peer does not want that now. */
static inline void lanes_named(struct uccl_peer *p, uint64_t lanes)
{
	if (p->lanes.peers)
		p->msg_ep->lanes_ops->named(p, lanes);
}

/*
 * The least loaded lanes that may send before CTS, by bits: at most one for each stripe of `bytes`. Only if lanes_may()
 * has said so.
 */
static inline uint16_t lanes_for_unsolicited(struct uccl_peer *p, uint64_t bytes)
{
	return p->msg_ep->lanes_ops->for_unsolicited(p, bytes);
}

/*
 * Send bytes [at, limit) of this message over lanes: bytes that CTS named, or unsolicited ones (rx is 0). The operation
 * waits for them by this bit. False: no lane takes them.
 */
static inline bool lanes_send(struct uccl_op *op, uint64_t at, uint64_t limit, uint32_t rx, uint64_t lanes,
			      uint8_t wait)
{
	return op->peer->lanes.peers && op->peer->msg_ep->lanes_ops->send(op, at, limit, rx, lanes, wait);
}

/*
 * Nothing more of this operation is handed out: what it still waits for. Unless `due` is UCCL_NEVER, lanes send no more
 * of it either, and do not read it where it lies from then on (lanes_read); else this may be called again with another
 * time, for lanes that were not told.
 */
static inline uint8_t lanes_stop(struct uccl_op *op, uint64_t due)
{
	return op->tx.striped.rest || op->tx.striped.unsolicited ? op->peer->msg_ep->lanes_ops->stop(op, due) : 0;
}

/* May a lane read its payload? */
static inline bool lanes_read(const struct uccl_op *op)
{
	return (op->tx.striped.rest || op->tx.striped.unsolicited) && op->peer->msg_ep->lanes_ops->reads(op);
}

#endif
