/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The message endpoint: sends and receives of one libfabric endpoint over its flows. send.c is the sending side,
 * recv.c the receiving side, match.c the queues, mep.c life and failure. All calls by the engine's owner.
 */
#ifndef UCCL_MSG_MEP_H
#define UCCL_MSG_MEP_H

#include "base/hash.h"
#include "base/ids.h"
#include "base/pool.h"
#include "msg/match.h"
#include "msg/record.h"

TAILQ_HEAD(uccl_reply_list, uccl_reply);

/* What the first request of a peer waits for: a reply or staging memory, or room for the completion of its data. */
enum uccl_block { UCCL_BLOCK_NOT, UCCL_BLOCK_REPLY, UCCL_BLOCK_ROOM, UCCL_BLOCK_COPY, UCCL_BLOCK_COUNT };

/* A remote endpoint as messages see it. Its flow exists while `open`. */
struct uccl_peer {
	struct uccl_mep *mep;
	struct uccl_addr addr;
	uint64_t user;			/* api's word */
	bool self;			/* it is ourselves */
	bool open;
	int dead;			/* 0, or the positive FI_Exxx that ends every operation to it */
	struct uccl_flow flow;

	struct uccl_op_list pending;	/* sends not begun: no connection yet, or at the peer's message limit */
	struct uccl_op_list sends;	/* begun and not complete */
	uint64_t tx_mseq;		/* next message sequence number */

	uint64_t rx_mseq;		/* next message in order */
	struct uccl_msg_rx *by_mseq;	/* messages of which chunks are missing, or that came too early */
	struct uccl_msg_rx_list rxs;	/* every message on its way in */
	uint64_t unexpected_bytes;	/* its share of mep's, */
	uint32_t held;			/* likewise */
	bool left;			/* it ended: what is held of it counts in mep's left_*, too */

	struct uccl_msg_rx_list requests; /* for our memory: their turn has come, and they wait */
	uint32_t nrequests;
	uint8_t blocked;		/* what the first of them waits for: enum uccl_block */
	TAILQ_ENTRY(uccl_peer) blocked_link;
	struct uccl_reply_list replies;	/* what goes back to it, */
	uint32_t nreplies;		/* how many, */
	uint64_t staged_bytes;		/* and its share of mep's */
};

TAILQ_HEAD(uccl_peer_list, uccl_peer);

/* What msg needs of the engine. */
struct uccl_mep_ops {
	/* The peer's flow has something to send. */
	void (*ready)(struct uccl_peer *p);
	/* Begin to connect to this peer. */
	void (*connect)(struct uccl_peer *p, uint64_t now);
	/* Direct writes: register a receive buffer, undo it (which is also a fence), fence a path. */
	int (*reg)(struct uccl_peer *p, void *buf, uint64_t len, void **mr, uint64_t *rkey, uint64_t *raddr);
	void (*dereg)(struct uccl_peer *p, void *mr);
	void (*fence)(struct uccl_peer *p, uint16_t path, uint64_t now);
	/* The rest of a message cannot be had from its buffer: end this peer, but not before this returns. */
	void (*broken)(struct uccl_peer *p);
};

struct uccl_mep {
	const struct uccl_mep_ops *ops;
	struct uccl_stats *stats;
	uint64_t eager_max;		/* messages up to this go without CTS */
	uint64_t unexpected_max;	/* bytes of unexpected payload to buffer; beyond it peers must hold back */
	uint64_t unexpected_bytes;
	uint32_t held;			/* messages and requests that came and have no receive, or are not answered */
	uint64_t left_bytes;		/* of both those of peers that ended */
	uint32_t left_held;
	uint64_t copied_bytes;		/* copies of payloads that are not acknowledged yet */
	const struct uccl_target_ops *target; /* our registered memory; NULL: there is none */
	void *target_arg;
	/*
	 * Is there room for a completion of what nobody posted: a message that comes into a multi-receive buffer, or
	 * the remote data of a request? NULL: always.
	 */
	bool (*room)(void *arg);
	void *room_arg;
	bool data_takes;		/* remote data of a request takes a posted receive: FI_RX_CQ_DATA */
	uint64_t staged_bytes;		/* copies of what goes back for reads */
	struct uccl_peer_list blocked[UCCL_BLOCK_COUNT]; /* by what they wait for; none at UCCL_BLOCK_NOT */
	/* Copies from and to devices: up to this number queued and done, and who waits for which. */
	const struct uccl_device_ops *device; /* NULL: there are none */
	void *device_arg;
	uint64_t copies_queued, copies_done;
	uint64_t pumped_bytes;		/* memory of pumps */
	struct uccl_copy_list copies;
	struct uccl_op_list pumps;	/* sends that wait for memory to bring their payload from a device */
	struct uccl_pool op_pool, rx_pool, serve_pool, reply_pool;
	/* Nobody else's, so that nobody finds pieces that seem to be a whole message. The engine sets it. */
	uint8_t cover_key[UCCL_KEY_LEN];
	struct uccl_ids send_ids, rx_ids;
	struct uccl_match match;
	/* The end of a registration is all that it takes to keep writes out: no fences of paths. The engine sets it. */
	bool dereg_fences;
	/* Connected, or listening: takes messages of connection management, and others from `sole` only. */
	bool cm;
	struct uccl_peer *sole;		/* NULL: not connected */
	int gone;			/* uccl_mep_gone() was called with this, else 0 */
	bool starved;			/* a listed message waits for an op, or room: uccl_msg_retry */
	bool retrying;			/* requests that wait for room have their turn */
	bool messages_next;		/* who has the first turn: messages, or requests */
	struct uccl_msg_rx *stream;	/* the message whose payload came last: where the next belongs, probably */
};

extern const struct uccl_flow_ops uccl_msg_flow_ops;

/* Most messages of one peer that may be under way before the first of them came in order. */
#define UCCL_MSG_LIMIT 32768
/* UCCL_OPF_EARLY: up to this size a copy costs less than waiting for the acknowledgement. */
#define UCCL_COPY_MAX 16384
/* Most bytes of such copies, and of injected messages, of one endpoint. */
#define UCCL_COPIED_MAX (16u << 20)
/* Largest message that may be called eager by a peer: what one chunk of its window can make us buffer. */
#define UCCL_EAGER_MAX 65536
/* What each message that is held counts beside its payload: our notes of it. */
#define UCCL_HELD_COST 1024
/* Beyond twice uccl_mep.unexpected_max, and this, nothing is held. */
#define UCCL_HELD_MORE (4u << 20)
/* What a peer may always hold, or have staged, however little is left: a message, an atomic operation. */
#define UCCL_HELD_LEAST (2u * UCCL_EAGER_MAX)
/*
 * Most bytes of copies of what goes back for reads, of one endpoint. Of that and of replies each peer has as much as it
 * leaves to others; beyond it its requests wait. One that has none may always have one, of UCCL_EAGER_MAX at least.
 */
#define UCCL_STAGED_MAX (64u << 20)
/* Most replies of one endpoint under way. */
#define UCCL_REPLIES_MAX 65536

void uccl_mep_init(struct uccl_mep *m, const struct uccl_mep_ops *ops, struct uccl_stats *stats, uint64_t eager_max,
		   uint64_t unexpected_max, uint32_t ops_max);
/*
 * Nothing more will be taken: receives end with `err` (positive FI_Exxx), those posted later too if no message is there
 * for them. A message that has met its receive goes on, unless its peer was failed before.
 */
void uccl_mep_gone(struct uccl_mep *m, int err);
/* Completes what is still posted with FI_ECANCELED. Peers must have been failed before. */
void uccl_mep_fini(struct uccl_mep *m, uint64_t now);

void uccl_peer_init(struct uccl_peer *p, struct uccl_mep *m, const struct uccl_addr *addr);
/* The flow was made (p->flow is initialised): begin pending sends. */
void uccl_peer_opened(struct uccl_peer *p, uint64_t now);
/*
 * The peer is gone: every operation to it and from it ends with `err` (positive FI_Exxx). The engine has made the NIC
 * forget the peer before, so that nothing reads or writes memory any more. The flow is ended here.
 */
void uccl_peer_fail(struct uccl_peer *p, int err, uint64_t now);

int uccl_msg_send(struct uccl_mep *m, struct uccl_op *op, uint64_t now);
int uccl_msg_recv(struct uccl_mep *m, struct uccl_op *op, uint64_t now);
int uccl_msg_cancel(struct uccl_mep *m, const void *context);
int uccl_msg_peek(struct uccl_mep *m, struct uccl_op *op, bool claim, bool discard, uint64_t now);
int uccl_msg_recv_claimed(struct uccl_mep *m, struct uccl_op *op, bool discard, uint64_t now);
/*
 * A multi-receive buffer needs an op for every message in it, and room for its completion. Without, messages wait in
 * the unexpected list although a receive for them is posted (uccl_mep.starved); this matches them, in order, as far as
 * both go.
 * Receives for single messages go on meanwhile: they need no op, and free theirs. Requests with remote data wait for
 * room, too, as what waits for a reply does; they and messages have the first of it in turns.
 */
void uccl_msg_retry(struct uccl_mep *m, uint64_t now);

static inline bool uccl_msg_waits(const struct uccl_mep *m)
{
	return m->starved || !TAILQ_EMPTY(&m->blocked[UCCL_BLOCK_ROOM]);
}

/* Is something to be done by uccl_msg_copies()? */
static inline bool uccl_msg_copying(const struct uccl_mep *m)
{
	return m->copies_queued != m->copies_done || !TAILQ_EMPTY(&m->copies);
}

static inline bool uccl_mep_room(const struct uccl_mep *m)
{
	return !m->room || m->room(m->room_arg);
}
/* The peer ran short of memory for unexpected messages (uccl_flow.peer_short): send it envelopes only. */
void uccl_msg_hold(struct uccl_peer *p);
/* The peer's message limit rose: begin what waits. */
void uccl_msg_kick(struct uccl_peer *p, uint64_t now);

/* Where the next payloads probably belong, in order. Returns how many hints were filled. */
int uccl_msg_hints(struct uccl_mep *m, struct uccl_rx_hint *hints, int n);
/* Where the payload of this chunk belongs, if it is the rest of a matched message; else NULL. */
uint8_t *uccl_msg_place(struct uccl_peer *p, const struct uccl_hdr *h);

struct uccl_op *uccl_mep_op_get(struct uccl_mep *m);
void uccl_mep_op_put(struct uccl_mep *m, struct uccl_op *op);

/* between the files of msg */
void msg_send_acked(struct uccl_peer *p, struct uccl_item *item);
void msg_send_failed(struct uccl_op *op, int err);
/* Its payload is on its way from a device (op->copy): it begins when that is there. Before msg_post. */
void msg_send_load(struct uccl_mep *m, struct uccl_op *op);
enum uccl_drop msg_cts(struct uccl_peer *p, const uint8_t *rec, uint64_t now);
enum uccl_drop msg_fin(struct uccl_peer *p, const uint8_t *rec);
void msg_recv_done(struct uccl_op *op, struct uccl_peer *from, int err);
void msg_rx_free(struct uccl_msg_rx *rx);
void msg_rx_failed(struct uccl_msg_rx *rx, int err, uint64_t now);
/* A listed message meets the receive that takes it. */
void msg_rx_match(struct uccl_mep *m, struct uccl_msg_rx *rx, struct uccl_op *recv, uint64_t now);
void msg_self_done(struct uccl_op *op, int err);
/* Straight to its place in the order: queue what must wait for it. */
void msg_post(struct uccl_mep *m, struct uccl_op *op, uint64_t now);
/* Something that op waited for came. */
void msg_send_arrived(struct uccl_op *op, uint8_t what);
/* What the sender of op is waiting for. */
enum { MSG_WAIT_ENV = 1, MSG_WAIT_BULK = 2, MSG_WAIT_CTS = 4, MSG_WAIT_FIN = 8 };
void msg_rx_release(struct uccl_msg_rx *rx);
void msg_rx_fin(struct uccl_msg_rx *rx, uint32_t refusal);
void msg_rx_cts(struct uccl_msg_rx *rx);
void msg_rx_place(struct uccl_msg_rx *rx, uint64_t off, const uint8_t *data, uint64_t len);
/*
 * May these bytes of a message, which is there when `need` bytes came, be taken? Not if some of them came before. To be
 * asked once, before they are placed. PROTOCOL R119
 */
bool msg_rx_covers(struct uccl_msg_rx *rx, uint64_t off, uint64_t len, uint64_t need);
/* The same for what was kept of it. */
void msg_rx_move(struct uccl_msg_rx *rx, uint64_t len);
/* The message, of so many bytes, has to be kept. -1: it must come again; it was this peer's turn to hold back. */
int msg_rx_hold(struct uccl_msg_rx *rx, uint64_t len);
int msg_rx_buffer(struct uccl_msg_rx *rx, uint64_t len, uint64_t now);
struct uccl_msg_rx *msg_rx_find(struct uccl_peer *p, uint64_t mseq);
struct uccl_msg_rx *msg_rx_new(struct uccl_peer *p, uint64_t mseq);
bool msg_rx_hash(struct uccl_msg_rx *rx);
void msg_rx_set_env(struct uccl_msg_rx *rx, const struct uccl_env *env, uint64_t eager);
/* Envelopes that came early and whose turn it now is; and what the peer may send. */
void msg_rx_drain(struct uccl_peer *p, uint64_t now);
void msg_peer_limits(struct uccl_peer *p);
/* The peer has ended: what is held of it stays while there is room. */
void msg_peer_left(struct uccl_peer *p);
/* Copy between scattered and plain memory; both return nothing: lengths were checked. */
void msg_copy_in(const struct iovec *iov, int n, uint64_t off, const uint8_t *data, uint64_t len);
void msg_copy_out(const struct iovec *iov, int n, uint64_t off, uint8_t *data, uint64_t len);

#endif
