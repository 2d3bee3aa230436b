/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The message endpoint: sends and receives of one libfabric endpoint over its flows. This is what the engine sees of
 * msg; all calls by the engine's owner. Who calls what, in this order:
 *
 *	uccl_msg_ep_init
 *	  uccl_peer_init			a peer is known
 *	    uccl_peer_opened			its flow was made, which tells of itself by uccl_msg_flow_ops
 *	      uccl_msg_kick, uccl_msg_hold	the peer's limit rose, it ran short of memory
 *	    uccl_peer_fail			the end of its flow, and of everything to and from it
 *	  uccl_msg_ep_op_get, uccl_msg_send	what programs post; it is done when op->done() is called
 *	  uccl_msg_predict, uccl_msg_place	before payload is received
 *	  uccl_msg_retry, uccl_msg_copies	in each turn, if uccl_msg_waits() or uccl_msg_copying() says so
 *	uccl_msg_ep_fini			after all peers have failed
 *
 * Inside, files call only those below them; what comes up comes through msg_rx_ops and msg_tx_ops.
 *
 *	abort.c						operations that are taken back, at both ends
 *	deliver.c					what flows tell: each record goes to its reader
 *	ep_state.c					life and failure of endpoint and peers
 *	send/send.c, recv/recv.c, rma/			what messages and requests are
 *	recv/placement.c				where payload will belong
 *	send/msg_tx.c, recv/msg_rx.c, rma/reply.c	what all that leaves has in common, or comes; what goes back
 *	lanes/lanes.h					what lanes are told: peers, places, payload
 *	device/pump.c, recv/posted.c, recv/unexpected.c	payload from devices, receives, memory for unexpected payload
 *	rma/region.c					our memory, as requests name it
 *	recv/match.c, device/copy.c, iov.c		queues and copies
 */
#ifndef UCCL_MSG_MSG_EP_H
#define UCCL_MSG_MSG_EP_H

#include <stdatomic.h>

#include "base/ids.h"
#include "base/pause.h"
#include "base/pool.h"
#include "base/buf_cache.h"
#include "msg/recv/match.h"
#include "msg/record.h"
#include "msg/sole_peer.h"

TAILQ_HEAD(uccl_reply_list, uccl_reply);
TAILQ_HEAD(uccl_unplaced_list, uccl_unplaced_chunk);
TAILQ_HEAD(uccl_serve_list, uccl_serve);

/* What the first request of a peer waits for: a reply or staging memory, or room for the completion of its data. */
enum uccl_block {
	UCCL_BLOCK_NOT, UCCL_BLOCK_REPLY, UCCL_BLOCK_ROOM, UCCL_BLOCK_COPY, UCCL_BLOCK_CLAIM, UCCL_BLOCK_SHORT,
	UCCL_BLOCK_COUNT
};

/*
 * Parts of a peer, and below of the endpoint. Each names the file that alone writes it; others call that file's
 * functions.
 */

/* A peer's sends and requests, in order: send/msg_tx.c. */
struct uccl_peer_tx {
	struct uccl_op_list pending;	/* not begun: no connection yet, or at the peer's message limit */
	struct uccl_op_list sends;	/* begun and not complete */
	uint64_t mseq;			/* next message sequence number */
	uint32_t unsolicited_bytes;	/* unsolicited bytes of messages of which CTS has not come */
	int8_t met_streak;	/* messages in a row that met a receive; below 0: to come after one that met none */
};

/* How messages to it go: send/send.c. */
struct uccl_peer_send {
	uint64_t hold_mseq;		/* tx.mseq when uccl_msg_hold() was called last */
	uint64_t unsolicited;		/* bytes that lanes could carry and the primary does */
};

/* A peer's messages on their way in: recv/msg_rx.c. */
struct uccl_peer_rx {
	uint64_t mseq;			/* next message in order */
	struct uccl_msg_rx *by_mseq;	/* table of messages that came too early, or of which chunks are missing */
	struct uccl_msg_rx *lone;	/* one such message, which is not in the table: mostly there is no other */
	struct uccl_msg_rx_list all;	/* every message on its way in, */
	struct uccl_msg_rx_list streams; /* and those whose payload may be predicted, as it was asked for */
	struct uccl_multimap *numbered;	/* what there is of its messages and reads, since its first ABORT; else NULL */
};

/* How well the place of its payload is predicted: recv/placement.c, uccl_msg_run(). */
struct uccl_peer_predict {
	uint32_t run_each;	/* bytes of payload of each segment of the last GRO batch that was put into place */
	uint8_t miss_rate;	/* share of its latest predictions that were misses, in 256ths */
	uint16_t miss_pause;	/* chances to predict that are still to be skipped */
};

/* What is held of it without a receive, its share of msg_ep's: recv/unexpected.c. */
struct uccl_peer_unexpected {
	uint64_t bytes;
	uint32_t n;
	bool left;		/* it ended: what is held of it counts in msg_ep's left_*, too */
};

/* A peer's requests for our memory: rma/serve.c. */
struct uccl_peer_serve {
	struct uccl_msg_rx_list requests; /* their turn has come, and they wait */
	uint32_t n;
	uint8_t blocked;		/* what the first of them waits for: enum uccl_block */
	TAILQ_ENTRY(uccl_peer) blocked_link;
	struct uccl_short_write *short_writes; /* that were granted: rma/short_writes.c writes both. NULL: none */
	uint16_t nshort_writes;
};

/* What goes back to it: rma/reply.c. */
struct uccl_peer_reply {
	struct uccl_reply_list list;
	uint32_t n;			/* how many, */
	uint64_t staged_bytes;		/* and its share of msg_ep's */
	uint32_t in_place;		/* of them, those that leave from our memory itself */
};

/* The primary's lanes to it: lanes/primary.c. */
struct uccl_peer_lanes {
	struct uccl_lane_peer **peers;	/* by lane; NULL: no lane reaches it */
	uint32_t nstriped;		/* sends whose payload is at lanes */
	uint8_t next;			/* the lane that hears of the next message first */
	struct uccl_pause refused;	/* it wants no payload from lanes, as its CTS has said */
};

/* At a lane: lanes/worker.c, lanes/unplaced_data.c. */
struct uccl_peer_lane {
	struct uccl_unplaced_list unplaced; /* payload that waits for RX_POST, */
	uint32_t unplaced_bytes;	    /* and its bytes, with what each counts beside */
	uint32_t cts_mseq;		    /* the latest message that the primary has granted behind CTS, by mseq */
};

/* A remote endpoint as messages see it. Its flow exists while `open`. */
struct uccl_peer {
	struct uccl_msg_ep *msg_ep;
	struct uccl_peer *first;	/* this is a second name of that one, and no peer any more; NULL: it is none */
	struct uccl_addr addr;
	uint64_t user;			/* api's word */
	bool self;			/* it is ourselves */
	bool open;
	bool error_reported;		/* it is dead, and an operation ended with that: see msg_op_done() */
	/* What its endpoint can do. The engine sets them. */
	bool short_stripes;		/* it knows short ones, see lanes_stripe_bytes() */
	bool takes_unsolicited;		/* it takes unsolicited data, and its CTS tell whether receives waited; */
	bool lanes_unsolicited;		/* its lanes take them, too */
	bool aborts;			/* it takes back what we take back */
	bool orders_short;		/* it keeps the order of short writes that wait for CTS: PROTOCOL R407 */
	bool reads_in_place;		/* the NIC copies what leaves to it at once: PROTOCOL R393 */
	int dead;			/* 0, or the positive FI_Exxx that ends every operation to it */
	struct uccl_flow flow;
	struct uccl_peer_tx tx;
	struct uccl_peer_send send;
	struct uccl_peer_rx rx;
	struct uccl_op_list directed[UCCL_KINDS]; /* posted receives that name it, see uccl_match_post() */
	struct uccl_peer_unexpected unexpected;
	struct uccl_peer_predict predict;
	struct uccl_peer_lanes lanes;
	struct uccl_peer_serve serve;
	struct uccl_peer_reply reply;
	struct uccl_peer_lane lane;
};

TAILQ_HEAD(uccl_peer_list, uccl_peer);

/*
 * Payload that all lanes of an endpoint keep until the primary knows its place, in bytes with what each counts beside
 * it. Lanes change it in their threads. What would make it more than max, which the primary sets before it has peers,
 * is taken back.
 * lanes/unplaced_data.c writes it.
 */
struct uccl_unplaced_data {
	_Atomic uint64_t bytes;
	uint64_t max;
};

/* What msg needs of the engine. */
struct uccl_engine_ops {
	/* The peer's flow has something to send. */
	void (*ready)(struct uccl_peer *p);
	/* Begin to connect to this peer. */
	void (*connect)(struct uccl_peer *p, uint64_t now);
	/* Direct writes: register a receive buffer, undo it (which is also a fence), fence a path. */
	int (*reg)(struct uccl_peer *p, void *buf, uint64_t len, bool device, void **mr, uint64_t *rkey,
		   uint64_t *raddr);
	void (*dereg)(struct uccl_peer *p, void *mr, bool settled);
	/*
	 * The queue of the NIC whose payload comes to the memory of the device that this address is of, to be moved
	 * from there (uccl_chunk_in.lent); 0: there is none now. NULL: there never is.
	 */
	uint32_t (*queue)(struct uccl_peer *p, const void *buf);
	void (*fence)(struct uccl_peer *p, uint16_t path, uint64_t now);
	/* Let NICs read nothing for direct writes to this peer any more. */
	void (*stop_writes)(struct uccl_peer *p);
	/*
	 * Let the NIC read payload from memory of a device, for direct writes and for packets. *source is for
	 * uccl_item.mr, until it is put back. -FI_Exxx: the NIC cannot. After source_stop() the NIC reads it no more
	 * for packets that have left.
	 */
	int (*source)(struct uccl_peer *p, const void *buf, uint64_t len, void **source);
	void (*source_put)(struct uccl_peer *p, void *source);
	void (*source_stop)(struct uccl_peer *p, void *source);
	/* No packet to this peer waits for the NIC any more: what that does not take now is lost. */
	void (*settle)(struct uccl_peer *p);
	/*
	 * The messages to or from this peer cannot go on, for this reason (positive FI_Exxx): end the peer, but not
	 * before this returns. The first reason counts.
	 */
	void (*broken)(struct uccl_peer *p, int err);
};

/* Payload that is held without a receive: recv/unexpected.c. */
struct uccl_ep_unexpected {
	uint64_t max;			/* bytes to buffer; beyond it peers must hold back */
	uint64_t bytes;
	struct uccl_buf_cache cache;	/* the memory of it that is kept for the next time */
	uint32_t n;			/* messages and requests that came and have no receive, or are not answered */
	uint32_t left_n;		/* of them, those of peers that ended, */
	uint64_t left_bytes;		/* and their bytes */
};

/* What goes to peers: send/msg_tx.c. */
struct uccl_ep_tx {
	struct uccl_ids ids;		/* handles of operations */
	uint64_t copied_bytes;		/* copies of payloads that are not acknowledged yet */
	struct uccl_buf_cache cache;	/* the memory of those that is kept for the next time */
	uint32_t posts;			/* that had to wait: their order, the same for all names of a peer */
	bool may_defer;			/* engine/loop/calls.c: in this call what is sent leaves before it returns, */
	struct uccl_op *deferred;	/* and this send of it is copied behind that: uccl_msg_copy_deferred */
	struct uccl_heap timers;	/* of operations that are taken back: abort.c */
	bool listing;			/* one was to be taken back: those that could be are in this: */
	struct uccl_multimap by_context; /* operations that are not complete */
};

/* Posted receives and what they need: recv/posted.c. */
struct uccl_ep_posted {
	/*
	 * Is there room for a completion without an operation of its own: of a message in a multi-receive buffer, or of
	 * the remote data of a request? NULL: always.
	 */
	bool (*room)(void *arg);
	void *room_arg;
	bool data_takes;		/* remote data of a request takes a posted receive: FI_RX_CQ_DATA */
	bool starved;			/* a listed message waits for an op, or room: uccl_msg_retry */
};

/* Our registered memory: rma/region.c. */
struct uccl_ep_target {
	const struct uccl_target_ops *ops; /* NULL: there is none */
	void *arg;
	const void *claimer;		/* whose atomic on a device is under way; NULL: nobody's */
	struct uccl_multimap uses;	/* users of our regions, by region: region.h */
};

/* Requests for it: rma/serve.c. */
struct uccl_ep_serve {
	struct uccl_pool pool;
	struct uccl_peer_list blocked[UCCL_BLOCK_COUNT]; /* by what they wait for; none at UCCL_BLOCK_NOT */
	struct uccl_serve_list refused;	/* requests whose region went away */
	bool retrying;			/* requests that wait for room have their turn */
};

/* What goes back for them: rma/reply.c. */
struct uccl_ep_reply {
	struct uccl_pool pool;
	uint64_t staged_bytes;		/* copies of what goes back for reads */
	struct uccl_buf_cache cache;	/* the memory of those that is kept for the next time */
};

/* Copies from and to devices: device/copy.c. */
struct uccl_ep_device {
	const struct uccl_device_ops *ops; /* NULL: there are none */
	void *arg;
	uint64_t queued, done;		/* up to these numbers, */
	struct uccl_copy_list copies;	/* those that wait for copies */
};

/* Sends whose payload comes from a device in several buffers: device/pump.c. */
struct uccl_ep_pumps {
	uint64_t bytes;			/* memory of pumps */
	struct uccl_op_list waiting;	/* for more of it */
};

/* Where payload will belong: recv/msg_rx.c the stream, the functions below the rest. */
struct uccl_ep_predict {
	struct uccl_msg_rx *stream;	/* the message whose payload came last: where the next belongs, probably */
	uint8_t unsolicited_soon;	/* above 0: a message with unsolicited data came lately. Others take 1 */
	uint8_t runs_soon;		/* above 0: a GRO batch was put into place lately. Others take 1 */
};

struct uccl_msg_ep {
	const struct uccl_engine_ops *ops;
	struct uccl_stats *stats;
	uint64_t eager_max;		/* messages up to this go without CTS */
	struct uccl_pool op_pool, rx_pool;
	struct uccl_ids rx_ids;
	struct uccl_match match;
	struct uccl_ep_tx tx;
	struct uccl_ep_posted posted;
	struct uccl_ep_unexpected unexpected;
	struct uccl_ep_predict predict;
	struct uccl_ep_target target;
	struct uccl_ep_serve serve;
	struct uccl_ep_reply reply;
	struct uccl_ep_device device;
	struct uccl_ep_pumps pumps;
	/* A secret. With it an attacker could find ranges that seem to be a whole message. The engine sets it. */
	uint8_t range_key[UCCL_KEY_LEN];
	/* The end of a registration is all that it takes to keep writes out: no fences of paths. The engine sets it. */
	bool dereg_fences;
	bool messages_next;		/* messages have the next turn; else requests */
	int gone;			/* uccl_msg_ep_gone() was called with this, else 0 */
	struct uccl_sole_peer sole;	/* of one that is connected, or listens */
	const struct uccl_lanes_ops *lanes_ops; /* of one that has lanes, or is one (lanes/lanes.h); else NULL */
	struct uccl_lanes *lanes;	/* of an endpoint that has some (primary.h); else NULL */
	struct uccl_unplaced_data unplaced; /* at these lanes */
	struct uccl_lane *lane;		/* it is one itself (worker.h); else NULL */
};

extern const struct uccl_flow_ops uccl_msg_flow_ops;

/* Most messages of one peer that may be under way before the first of them came in order. */
#define UCCL_MSG_LIMIT 32768
/* UCCL_OPF_EARLY: up to this size a copy costs less than waiting for the acknowledgement, */
#define UCCL_COPY_MAX 65536
/* while no more than this is in flight with it: two of them, as NCCL has two channels to a peer. */
#define UCCL_COPY_IN_FLIGHT (2u * UCCL_COPY_MAX)
/* Most bytes of such copies, and of injected messages, of one endpoint. */
#define UCCL_COPIED_MAX (16u << 20)
/* A send that need not be copied is, while there are no more than these. */
#define UCCL_COPIED_OPTIONAL (UCCL_COPIED_MAX / 2)
/* Memory of them that is kept for the next time. */
#define UCCL_COPIED_CACHED (12u << 20)
/* Largest message that may be called eager by a peer: what one chunk of its window can make us buffer. */
#define UCCL_EAGER_MAX 65536
/*
 * Most unsolicited bytes of a message that is not eager. Half of this gained nothing for messages of 256 KiB: a
 * receiver that copies one train after the other is late with CTS.
 */
#define UCCL_UNSOLICITED_MAX (4u * UCCL_EAGER_MAX)
/* Most unsolicited bytes to one peer whose CTS has not come: while they travel, CTS comes. */
#define UCCL_UNSOLICITED_PEER_MAX (2u * UCCL_UNSOLICITED_MAX)
/* Once this many messages in a row met a receive, the next one probably does, too. One that meets none ends that. */
#define UCCL_UNSOLICITED_MET 2
#define UCCL_UNSOLICITED_PAUSE 16
/* Predicting the place of a payload pays from this chunk size on. */
#define UCCL_PLACEMENT_MIN 16384
/* Unsolicited data came: they may come with this many of the next messages. */
#define UCCL_UNSOLICITED_SOON 8
/* If more than this many other receptions are between two GRO batches, none is predicted. */
#define UCCL_RUNS_SOON 16
/* What each message that is held counts beside its payload: our records of it. */
#define UCCL_UNEXPECTED_COST 1024
/* Beyond twice uccl_msg_ep.unexpected.max, and this, nothing is held. */
#define UCCL_UNEXPECTED_MORE (4u << 20)
/* Memory of unexpected payload that is kept for the next time: a window of messages behind a lost one. */
#define UCCL_UNEXPECTED_CACHED (4u << 20)
/* What a peer may always hold, or have staged, however little is left: a message, an atomic operation. */
#define UCCL_UNEXPECTED_LEAST (UCCL_UNSOLICITED_MAX + UCCL_EAGER_MAX)
/*
 * Most bytes of copies of what goes back for reads, of one endpoint. Of that and of replies each peer has as much as it
 * leaves to others; beyond it its requests wait. One that has none may always have one, of UCCL_EAGER_MAX at least.
 */
#define UCCL_STAGED_MAX (64u << 20)
/* And of one peer's: more only costs memory that no cache of the processor has. */
#define UCCL_STAGED_PEER_MAX (8u << 20)
/* Memory of them that is kept for the next time: what is on its way to some readers. */
#define UCCL_STAGED_CACHED (12u << 20)
/* Most replies of one endpoint under way. */
#define UCCL_REPLIES_MAX 65536

void uccl_msg_ep_init(struct uccl_msg_ep *m, const struct uccl_engine_ops *ops, struct uccl_stats *stats,
		      uint64_t eager_max, uint64_t unexpected_max, uint32_t ops_max);
/*
 * Nothing more will be taken: receives end with `err` (positive FI_Exxx), those posted later too if no message is there
 * for them. A message that has met its receive goes on, unless its peer was failed before.
 */
void uccl_msg_ep_gone(struct uccl_msg_ep *m, int err);
/* Completes what is still posted with FI_ECANCELED. Peers must have been failed before. */
void uccl_msg_ep_fini(struct uccl_msg_ep *m, uint64_t now);

void uccl_peer_init(struct uccl_peer *p, struct uccl_msg_ep *m, const struct uccl_addr *addr);
/*
 * `p`, which never was open, turned out to be another name of `first`. Operations that wait for `p` now wait for
 * `first`, in the order in which all of them were posted. Receives from `p` become receives from `first`.
 */
void uccl_peer_join(struct uccl_peer *p, struct uccl_peer *first, uint64_t now);
/* The peer that this is a name of. */
static inline struct uccl_peer *uccl_peer_first(const struct uccl_peer *p)
{
	return p && p->first ? p->first : (struct uccl_peer *)(uintptr_t)p;
}
/* Are there messages of it that msg_rx_find could find? */
static inline bool msg_rx_any(const struct uccl_peer *p)
{
	return p->rx.lone || p->rx.by_mseq;
}
/* Payload that follows an envelope or request, or that was asked for. */
static inline void msg_item_bulk(struct uccl_item *item, uint8_t rtype, const struct iovec *iov, uint8_t iov_count,
				 uint64_t len)
{
	item->rtype = rtype;
	item->bulk = true;
	item->iov = iov;
	item->iov_count = iov_count;
	item->len = len;
}
/* Address an item to the place that the peer has named: key and address, or its queue for devices (R291). */
static inline void uccl_peer_place(const struct uccl_peer *p, struct uccl_item *item, uint64_t rkey, uint64_t raddr)
{
	item->direct = rkey && p->flow.cfg.write.bytes;
	item->rkey = rkey;
	item->raddr = raddr;
	item->queue = uccl_queue_of_place(rkey, raddr);
}
/* The flow was made (p->flow is initialised): begin pending sends. */
void uccl_peer_opened(struct uccl_peer *p, uint64_t now);
/*
 * The peer is gone: every operation to it and from it ends with `err` (positive FI_Exxx). The engine has made the NIC
 * forget the peer before, so that nothing reads or writes memory any more. The flow is ended here.
 */
void uccl_peer_fail(struct uccl_peer *p, int err, uint64_t now);

int uccl_msg_send(struct uccl_msg_ep *m, struct uccl_op *op, uint64_t now);
/* What this call has sent may be in use no more: it is copied now, and complete. */
void uccl_msg_copy_deferred(struct uccl_msg_ep *m);
/* Where it is, and where it will be. */
struct iovec uccl_msg_deferred_from(const struct uccl_msg_ep *m, const uint8_t **to);
/* RMA and atomics. As uccl_msg_send. -FI_EMSGSIZE: more operands than UCCL_ORDER_MAX bytes. */
int uccl_msg_rma(struct uccl_msg_ep *m, struct uccl_op *op, uint64_t now);
int uccl_msg_recv(struct uccl_msg_ep *m, struct uccl_op *op, uint64_t now);
/* The same, if no message is here for it, nor anything else to do. False: nothing was done. */
static inline bool uccl_msg_recv_waits(struct uccl_msg_ep *m, struct uccl_op *op)
{
	if (m->posted.starved || m->gone || !TAILQ_EMPTY(&m->match.unexpected[uccl_op_kind(op)]) ||
	    (op->flags & UCCL_OPF_DIRECTED && op->peer->dead))
		return false;
	uccl_match_post(&m->match, op);
	return true;
}
int uccl_msg_cancel(struct uccl_msg_ep *m, const void *context);
int uccl_msg_peek(struct uccl_msg_ep *m, struct uccl_op *op, bool claim, bool discard, uint64_t now);
int uccl_msg_recv_claimed(struct uccl_msg_ep *m, struct uccl_op *op, bool discard, uint64_t now);
/*
 * A multi-receive buffer needs an op for every message in it, and room for its completion. Without, messages wait in
 * the unexpected list although a receive for them is posted (uccl_msg_ep.posted.starved); this matches them, in order,
 * as far as both go. Receives for single messages go on meanwhile: they need no op, and free theirs. Requests with
 * remote data wait for room, too, as what waits for a reply does; they and messages have the first of it in turns.
 */
void uccl_msg_retry(struct uccl_msg_ep *m, uint64_t now);

/* A request waits for a reply, or a send for memory to load from a device, and none is in use that will be freed. */
static inline bool uccl_msg_short(const struct uccl_msg_ep *m)
{
	return (!TAILQ_EMPTY(&m->serve.blocked[UCCL_BLOCK_REPLY]) && !m->reply.pool.used) ||
	       (!TAILQ_EMPTY(&m->pumps.waiting) && !m->pumps.bytes);
}

static inline bool uccl_msg_waits(const struct uccl_msg_ep *m)
{
	return m->posted.starved || !TAILQ_EMPTY(&m->serve.blocked[UCCL_BLOCK_ROOM]) ||
	       !TAILQ_EMPTY(&m->serve.blocked[UCCL_BLOCK_CLAIM]) ||
	       !TAILQ_EMPTY(&m->serve.blocked[UCCL_BLOCK_SHORT]) || uccl_msg_short(m);
}

/* Is something to be done by uccl_msg_copies(), or does somebody wait for what another endpoint has claimed? */
static inline bool uccl_msg_copying(const struct uccl_msg_ep *m)
{
	return m->device.queued != m->device.done || !TAILQ_EMPTY(&m->device.copies) ||
	       !TAILQ_EMPTY(&m->serve.blocked[UCCL_BLOCK_CLAIM]);
}

static inline bool uccl_msg_ep_room(const struct uccl_msg_ep *m)
{
	return !m->posted.room || m->posted.room(m->posted.room_arg);
}
/* The peer ran short of memory for unexpected messages (uccl_flow.granted.envelopes_only): send it envelopes only. */
void uccl_msg_hold(struct uccl_peer *p);
/* The peer's message limit rose: begin what waits. */
void uccl_msg_kick(struct uccl_peer *p, uint64_t now);

/* Is anything known of what comes next? If not, uccl_msg_predict, uccl_msg_alone and uccl_msg_runs say no. */
static inline bool uccl_msg_foresees(const struct uccl_msg_ep *m)
{
	return m->predict.stream || m->predict.unsolicited_soon || m->predict.runs_soon;
}
/*
 * Where the next payloads probably belong, in order; or the next GRO batch, which is one place. Returns how many
 * places were filled: none for a while where they would be from a peer whose payloads are seldom what was predicted.
 */
int uccl_msg_predict(struct uccl_msg_ep *m, struct uccl_rx_placement *places, int n);
/*
 * Do unsolicited data follow an envelope, probably? Where it belongs is known when that is taken in, so it pays to do
 * so before what follows is received.
 */
static inline bool uccl_msg_alone(const struct uccl_msg_ep *m)
{
	return m->predict.unsolicited_soon;
}
/*
 * A message came without unsolicited data: they are less probable now. A message came with them: they may come with the
 * next UCCL_UNSOLICITED_SOON messages, too.
 */
static inline void uccl_msg_lone(struct uccl_msg_ep *m)
{
	m->predict.unsolicited_soon -= m->predict.unsolicited_soon > 0;
}
static inline void uccl_msg_followed(struct uccl_msg_ep *m)
{
	m->predict.unsolicited_soon = UCCL_UNSOLICITED_SOON;
}
/*
 * Does a peer send GRO batches? Then packets that come between two batches are handled before the next batch is
 * received.
 */
static inline bool uccl_msg_runs(const struct uccl_msg_ep *m)
{
	return m->predict.runs_soon;
}
/* Something else came. */
static inline void uccl_msg_no_run(struct uccl_msg_ep *m)
{
	m->predict.runs_soon -= m->predict.runs_soon > 0;
}
/* The peer's segments come in GRO batches, with `each` bytes of payload in a packet. */
static inline void uccl_msg_run(struct uccl_peer *p, uint32_t each)
{
	p->predict.run_each = each;
	p->msg_ep->predict.runs_soon = UCCL_RUNS_SOON;
}
/* Of the packets at predicted places `right` belong there and `wrong` do not. Call before they are processed. */
void uccl_msg_predicted(struct uccl_msg_ep *m, int right, int wrong);
/*
 * Where the payload of this chunk belongs, or that of a GRO batch of its segments from this one on, `len` bytes, if it
 * is the rest of a matched message; else NULL.
 */
uint8_t *uccl_msg_place(struct uccl_peer *p, const struct uccl_hdr *h, uint64_t len);

/*
 * A region goes away, or (part) some of it, for all peers or for one. Operations of peers that still use it are
 * refused. When this returns, none uses it.
 */
void uccl_msg_revoke(struct uccl_msg_ep *m, const void *region, const struct uccl_revoke *part, uint64_t now);

struct uccl_op *uccl_msg_ep_op_get(struct uccl_msg_ep *m);
/* A receive, or a send, of which api fills the first part, all of it. */
static inline struct uccl_op *uccl_msg_ep_op_recv(struct uccl_msg_ep *m)
{
	struct uccl_op *op = uccl_pool_take(&m->op_pool);

	if (op)
		uccl_op_begin_recv(op);
	return op;
}
static inline struct uccl_op *uccl_msg_ep_op_send(struct uccl_msg_ep *m)
{
	struct uccl_op *op = uccl_pool_take(&m->op_pool);

	if (op)
		uccl_op_begin_send(op);
	return op;
}

/* What is under way of it comes back; then it ends with this FI_Exxx. */
static inline void msg_op_fail(struct uccl_op *op, int err)
{
	op->tx.fail = err;
}

/*
 * The operation is complete: 0 or a positive FI_Exxx, with this peer or NULL. An error of an operation whose peer has
 * ended reports that end to the program.
 */
static inline void msg_op_done(struct uccl_op *op, struct uccl_peer *from, int err)
{
	op->from = from;
	op->err = err;
	if (err && from && from->dead)
		from->error_reported = true;
	op->done(op);
}

void uccl_msg_ep_op_put(struct uccl_msg_ep *m, struct uccl_op *op);

#endif
