/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A message of any kind on its way in: its place in the order of its peer's messages, the bytes of it that came and
 * where they go, and what its sender is told. The first packet of a message creates it, whichever packet that is. The
 * file that knows the kind of the message gives it its envelope, and is called back through msg_rx_ops.
 *
 *	msg_rx_new			it is there, and can be found by its sequence number (msg_rx_find)
 *	msg_rx_range_new, msg_rx_place	for each payload
 *	msg_rx_set_env			its envelope came
 *	ops->turn			by msg_rx_drain, or at once
 *	ops->matched, ops->unwanted	of what is listed: msg_rx_match, or a receive that comes later
 *	msg_rx_cts			the rest of it is asked for; comes with its handle (msg_rx_data)
 *	ops->whole			the rest of it came unsolicited (msg_rx_eager)
 *	msg_rx_check, ops->placed	when everything is where it belongs
 *	msg_rx_release			what is said to its sender may still be under way
 *	ops->freed
 */
#ifndef UCCL_MSG_RECV_MSG_RX_H
#define UCCL_MSG_RECV_MSG_RX_H

#include "base/range_set.h"
#include "base/hash.h"
#include "base/multimap.h"
#include "msg/op.h"
#include "msg/record.h"

struct uccl_msg_ep;
struct uccl_msg_rx;
struct uccl_match_entry;

/*
 * Whose a message on its way in is, and so what becomes of it: a receive's, a request's for our memory, an operation's
 * that waits for what comes back, or our own. Known with its envelope, NULL before. What is not set is never asked for
 * that kind, or nothing is to be done.
 */
struct msg_rx_ops {
	/* Its turn in the order of its peer's messages has come; what is here of it is in memory of ours. */
	void (*turn)(struct uccl_msg_rx *rx, uint64_t now);
	/* Its turn had come, and now all of it is here that comes without CTS. */
	void (*whole)(struct uccl_msg_rx *rx, uint64_t now);
	/* The message waited for a receive, and `recv`, which has left its queue, takes it. */
	void (*matched)(struct uccl_msg_rx *rx, struct uccl_op *recv, uint64_t now);
	/* Listed before: nobody wants it. */
	void (*unwanted)(struct uccl_msg_rx *rx, uint64_t now);
	/* Everything that has a place is there, and nothing can be written there any more. */
	void (*placed)(struct uccl_msg_rx *rx, uint64_t now);
	/* Its sender has ended: positive FI_Exxx. Not set: it is freed. */
	void (*failed)(struct uccl_msg_rx *rx, int err);
	/* It is freed. */
	void (*freed)(struct uccl_msg_rx *rx);
};

/* What it consists of; each struct names the file that alone writes it. */

/* What its envelope says of it: recv/msg_rx.c. */
struct uccl_rx_env {
	uint64_t tag, data;
	uint64_t len;		/* of the message */
	uint32_t send_id;	/* sender's handle */
	uint8_t flags;		/* UCCL_ENV_* */
	bool have;
};

/* Which bytes of it came: recv/msg_rx.c. */
struct uccl_rx_arrived {
	uint64_t eager;		/* bytes that come without CTS */
	uint64_t got;		/* bytes of the message that arrived, */
	uint64_t asked;		/* how many of them after CTS, */
	uint64_t hi;		/* the end of the furthest byte, */
	struct uccl_range_set ranges; /* and which */
};

/* Where they belong, since it is matched: recv/msg_rx.c. */
struct uccl_rx_place {
	const struct iovec *iov; /* NULL: it is not matched */
	uint64_t limit;		/* bytes that have a place in the buffer */
	uint8_t niov;
	bool fencing;
	bool unseen;		/* direct writes landed on a device, which may not see them yet */
	bool gathers;		/* its payload may come to memory of the device that the NIC was lent */
	uint16_t device;	/* which of iov are memory of a device */
	uint32_t in_doubt;	/* direct writes that may still land */
	void *mr;		/* direct: registration of the receive buffer */
	struct uccl_copy copy;	/* of payload on its way to a device */
};

/* In the list of those whose payload may be predicted: recv/msg_rx.c. */
struct uccl_rx_stream {
	TAILQ_ENTRY(uccl_msg_rx) link; /* in uccl_peer.rx.streams, */
	bool listed;		       /* if this */
};

/* In the tables that receives search: recv/match.c. */
struct uccl_rx_match {
	struct uccl_match_entry *entries; /* where receives find it */
	void *claim;			  /* context that claimed it */
	bool listed;			  /* in the unexpected list */
};

/* What is held of it before it is matched: recv/unexpected.c. */
struct uccl_rx_hold {
	uint8_t *buf;		/* its payload */
	uint64_t buf_len;
	uint64_t unplaced_bytes; /* bytes without a buffer: lanes hold them, at most, or they have not come */
	uint8_t *first;		/* the first bytes of it, if there is no `buf`, */
	uint32_t first_len;	/* so many */
	bool counted;		/* it counts as unexpected */
};

/* What lanes bring of it: lanes/primary.c. */
struct uccl_rx_lanes {
	struct uccl_reassembly *rest;	     /* they may put there what comes after CTS; NULL: they may not */
	struct uccl_reassembly *unsolicited; /* likewise, its unsolicited data */
	uint16_t senders;		     /* lanes that bring the unsolicited data, by bits; 0: none does */
};

/* A message for a receive: recv/recv.c. */
struct uccl_rx_recv {
	struct uccl_op *op;	/* the receive it matched */
	bool unexpected;	/* no receive waited for it */
	int failed;		/* FI_Exxx: why not all of it will come; 0: it may */
	bool discarded;		/* nobody wants it: bytes are dropped as they come */
};

/* A message to ourselves: send/send.c. */
struct uccl_rx_self {
	struct uccl_op *send, *recv;
};

/* A message on its way in; from its envelope until it is in the application's buffer. */
struct uccl_msg_rx {
	struct uccl_peer *peer;
	const struct msg_rx_ops *ops;
	uint64_t mseq;
	uint32_t id;			/* our handle, 0: none */
	bool in_order;			/* passed the message order: unexpected or matched */
	bool hashed;
	bool finished;			/* the receive is complete; waits for records to be acknowledged */
	TAILQ_ENTRY(uccl_msg_rx) link;	/* unexpected, claimed, or among the requests that wait */
	TAILQ_ENTRY(uccl_msg_rx) plink;	/* all of its peer */
	struct uccl_rx_env env;
	struct uccl_rx_arrived arrived;
	struct uccl_rx_place place;
	struct uccl_rx_stream stream;
	struct uccl_rx_match match;
	struct uccl_rx_hold hold;
	struct uccl_rx_lanes lanes;
	/* Whose it is */
	struct uccl_rx_recv recv;	/* a receive's; */
	struct uccl_rx_self self;	/* our own; */
	struct uccl_serve *serve;	/* it is a request for our memory; */
	struct uccl_op *read;		/* it is what comes back for this operation */
	struct uccl_item cts, fin;
	UT_hash_handle hh;		/* in its peer's table, by message sequence */
	struct uccl_multinode number_node; /* in its peer's rx.numbered; prev NULL: it is not */
};

TAILQ_HEAD(uccl_msg_rx_list, uccl_msg_rx);

/* Direct writes are worth a registration from this size on. */
#define MSG_DIRECT_MIN 16384

/*
 * A new message. `eager` bytes come without CTS, as far as is known. `hashed`: it is found by its sequence number.
 * NULL: no memory.
 */
struct uccl_msg_rx *msg_rx_new(struct uccl_peer *p, uint64_t mseq, uint64_t eager, bool hashed);
/* A message that has no place in the peer's order: one to ourselves, or what comes back. */
struct uccl_msg_rx *msg_rx_own(struct uccl_peer *p, const struct msg_rx_ops *ops);
/* A handle, by which the peer can name it; false: there is none. */
bool msg_rx_id(struct uccl_msg_rx *rx);
/* The message need not be found any more. */
void msg_rx_unhash(struct uccl_msg_rx *rx);
struct uccl_msg_rx *msg_rx_find(struct uccl_peer *p, uint64_t mseq);
/*
 * From now on messages of this peer can be found by their numbers, also before their envelopes came, and so can replies
 * to its reads (`reply`) that are added. So a peer that takes many messages back costs no search. False: no memory.
 */
bool msg_rx_numbers(struct uccl_peer *p);
void msg_rx_numbers_end(struct uccl_peer *p);
static inline void msg_rx_number(struct uccl_multimap *numbered, struct uccl_multinode *n, uint64_t mseq, bool reply)
{
	if (numbered)
		uccl_multimap_add(numbered, n, mseq, reply);
}
static inline void msg_rx_unnumber(struct uccl_multimap *numbered, struct uccl_multinode *n)
{
	if (numbered && n->prev)
		uccl_multimap_remove(numbered, n);
	n->prev = NULL;
}
/* By our handle, and its sequence number. NULL: nothing more of it is expected. */
struct uccl_msg_rx *msg_rx_by_id(struct uccl_peer *p, uint32_t id, uint32_t gen);
void msg_rx_set_env(struct uccl_msg_rx *rx, const struct msg_rx_ops *ops, const struct uccl_env *env, uint64_t eager);
/* The peer's next message has its turn. The caller then says what has become of it, and calls msg_rx_drain. */
void msg_rx_next(struct uccl_peer *p);
static inline void msg_rx_turn(struct uccl_msg_rx *rx)
{
	msg_rx_next(rx->peer);
	rx->in_order = true;
}
/* What comes back, as message `mseq`, has `len` bytes. */
static inline void msg_rx_back(struct uccl_msg_rx *rx, uint32_t mseq, uint64_t len)
{
	rx->mseq = mseq;
	rx->env.len = len;
}
/* The first `limit` bytes of it belong here; some of iov are memory of a device. */
static inline void msg_rx_to(struct uccl_msg_rx *rx, const struct iovec *iov, uint8_t niov, uint16_t device,
			     uint64_t limit)
{
	rx->place.iov = iov;
	rx->place.niov = niov;
	rx->place.device = device;
	rx->place.limit = limit;
}
/* The bytes go nowhere, but `limit` of them count as if they had a place. */
static inline void msg_rx_nowhere(struct uccl_msg_rx *rx, uint64_t limit)
{
	rx->place.iov = NULL;
	rx->place.limit = limit;
}
/* Lanes brought these bytes: bytes that CTS asked for, or unsolicited data. */
static inline void msg_rx_striped(struct uccl_msg_rx *rx, uint64_t from, uint64_t to, bool asked)
{
	rx->arrived.got += to - from;
	rx->arrived.hi = rx->arrived.hi > to ? rx->arrived.hi : to;
	rx->arrived.asked += asked ? to - from : 0;
}
/* When this returns nothing is written any more to where it was to be placed. */
void msg_rx_close(struct uccl_msg_rx *rx);
void msg_rx_free(struct uccl_msg_rx *rx);
/* Its sender took it back before its turn: it is of the kind `ops` now, and its payload is freed. */
void msg_rx_void(struct uccl_msg_rx *rx, const struct msg_rx_ops *ops);
/* Likewise after it was matched: nothing is written to its place any more, and it is done with. */
void msg_rx_stop(struct uccl_msg_rx *rx);
/* The message is done with: freed now, or when the last of its records is acknowledged. */
void msg_rx_release(struct uccl_msg_rx *rx);
/* The sender is dead, or the endpoint closes. */
void msg_rx_failed(struct uccl_msg_rx *rx, int err);

/* Has the endpoint nothing to do with this peer? A connected one has to do with one. PROTOCOL R111 */
bool msg_rx_unrelated(const struct uccl_peer *p);
/*
 * A message of connection management meets its receive when all of it is here. A listener has one receive for all
 * peers, and a peer that sends half a message must not occupy it. PROTOCOL R110
 */
static inline bool msg_rx_meets(uint8_t flags, uint64_t here, uint64_t eager)
{
	return !(flags & UCCL_ENV_CM) || here >= eager;
}

/* Match envelopes that came early and whose turn has come. Then tell the peer how much more it may send. */
void msg_rx_drain(struct uccl_peer *p, uint64_t now);
/* A listed message meets the receive that takes it; it stays listed if no op can be had. */
void msg_rx_match(struct uccl_msg_ep *m, struct uccl_msg_rx *rx, struct uccl_op *recv, uint64_t now);

/*
 * May these bytes of a message, which is there when `need` bytes came, be taken? Not if some of them came before. To be
 * asked once, before they are placed. PROTOCOL R119
 */
bool msg_rx_range_new(struct uccl_msg_rx *rx, uint64_t off, uint64_t len, uint64_t need);
/* Bytes that make it whole. */
static inline uint64_t msg_rx_need(const struct uccl_msg_rx *rx)
{
	return rx->env.flags & UCCL_ENV_EAGER || rx->place.limit < rx->arrived.eager ? rx->arrived.eager
										     : rx->place.limit;
}

/* Payload, at its offset: to where it was matched to, or to what is kept of it. */
void msg_rx_place(struct uccl_msg_rx *rx, uint64_t off, const uint8_t *data, uint64_t len);
/* What was kept of it, to where it was matched to. */
void msg_rx_move(struct uccl_msg_rx *rx, uint64_t len);
/* Its first bytes (hold.first), to where it belongs. */
void msg_rx_move_first(struct uccl_msg_rx *rx);
/* The same as soon as all of it is there that comes before CTS: nothing is kept any more. */
void msg_rx_kept(struct uccl_msg_rx *rx);
/* Is all of it there? Then it is placed, as soon as nothing is on its way to its memory. */
void msg_rx_check(struct uccl_msg_rx *rx, uint64_t now);

/* The payload is expected. Peers may write it directly if *rkey is not 0; else *raddr may name a queue pair for it. */
void msg_rx_expect(struct uccl_msg_rx *rx, uint64_t *rkey, uint64_t *raddr);
/* Ask for the rest of a message. 0; -FI_ENOMEM: there is no handle for it, nothing was asked for. */
int msg_rx_cts(struct uccl_msg_rx *rx, uint64_t now);
/* The message is delivered (0) or refused: its sender hears of it if it wants to. */
void msg_rx_fin(struct uccl_msg_rx *rx, uint32_t refusal);

/* Payload that came unsolicited; and payload that we asked for. */
enum uccl_drop msg_rx_eager(struct uccl_peer *p, const struct uccl_chunk_in *in, uint64_t now);
enum uccl_drop msg_rx_data(struct uccl_peer *p, const struct uccl_chunk_in *in, uint64_t now);
/* A path that a write of this message may have been on is fenced. */
void msg_rx_settled(struct uccl_peer *p, uint32_t id, uint32_t gen, uint64_t now);
/* CTS or FIN is acknowledged. */
void msg_rx_acked(struct uccl_item *item);

#endif
