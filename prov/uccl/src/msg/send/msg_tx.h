/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An operation of any kind on its way to a peer: its turn among what was posted to this peer, what the peer asks for,
 * and what it waits for before it is complete. send.c and initiator.c create them, and are called back through
 * msg_tx_ops.
 *
 *	msg_tx_load			before it, if its payload is on its way from a device; ops->loaded
 *	msg_tx_post			its place in the order
 *	ops->submit			its turn has come: sets op->wait
 *	msg_tx_arrived			something that it waited for came, by:
 *	  msg_tx_acked, msg_tx_cts	  the peer has it, or wants the rest
 *	  msg_tx_fin, ops->answered	  the peer says what became of it
 *	msg_tx_finish, ops->ended	nothing is missing any more, or the peer is dead
 */
#ifndef UCCL_MSG_SEND_MSG_TX_H
#define UCCL_MSG_SEND_MSG_TX_H

#include <rdma/fi_errno.h>

#include "msg/msg_ep.h"

/* What an operation that goes to a peer is: a send, or a request for its memory. */
struct msg_tx_ops {
	/* Its turn has come: hand it to the flow. */
	void (*submit)(struct uccl_op *op);
	/* Its payload came from a device; its turn is still to come. NULL: nothing is to be done. */
	void (*loaded)(struct uccl_op *op);
	/* The peer's answer, FIN or RESP, which it waits for. */
	enum uccl_drop (*answered)(struct uccl_op *op, const struct uccl_resp *resp);
	/* It ends: what was to come back is not expected any more. NULL: nothing was. */
	void (*ended)(struct uccl_op *op);
};

/* What becomes of an operation that is being taken back: abort.c, and lanes/worker.c. */
struct uccl_abort {
	/* Something that it waited for came, and it waits for MSG_WAIT_ABORT. */
	void (*step)(struct uccl_op *op);
	/* It ends, with this error otherwise. Returns its error: 0, or a positive FI_Exxx. */
	int (*end)(struct uccl_op *op, int err);
};

/* What an operation is waiting for. */
enum {
	MSG_WAIT_ENV = 1, MSG_WAIT_BULK = 2, MSG_WAIT_CTS = 4, MSG_WAIT_FIN = 8, MSG_WAIT_LEAD = 16, MSG_WAIT_ABORT = 32
};

/* `op` becomes an operation of the kind `ops`. */
static inline void msg_tx_make(struct uccl_op *op, const struct msg_tx_ops *ops)
{
	op->tx.ops = ops;
}
/* A handle for it, which the peer names when it asks for more or answers; false: there is none. */
bool msg_tx_id(struct uccl_msg_ep *m, struct uccl_op *op);
/* The operation gives its number back. */
void msg_tx_id_put(struct uccl_msg_ep *m, struct uccl_op *op);
/* Memory for a copy of `len` bytes of payload; NULL: none now, as copies that are not acknowledged yet hold it. */
void *msg_tx_room_own(struct uccl_msg_ep *m, struct uccl_op *op, uint64_t len);
/* The same, in the operation itself if it is short. */
static inline void *msg_tx_room(struct uccl_msg_ep *m, struct uccl_op *op, uint64_t len)
{
	return len <= sizeof(op->tx.small) ? op->tx.small : msg_tx_room_own(m, op, len);
}
/* The same without that limit, and never in the operation itself. NULL: no memory. */
void *msg_tx_room_get(struct uccl_msg_ep *m, struct uccl_op *op, uint64_t len);
/*
 * The same instead of the room that it has: that is *old, and msg_tx_room_end() gives it back when nothing refers to
 * it. NULL: no memory, and nothing has changed.
 */
void *msg_tx_room_swap(struct uccl_msg_ep *m, struct uccl_op *op, uint64_t len, struct iovec *old);
void msg_tx_room_end(struct uccl_msg_ep *m, const struct iovec *room);
/* The copy ends, and its room is given back. */
void msg_tx_room_put(struct uccl_msg_ep *m, struct uccl_op *op);
/* Copies from a device to there are under way: it waits for them, or else they end now. */
void msg_tx_loads(struct uccl_msg_ep *m, struct uccl_op *op, bool waits);
/* A program may take it back, by its context; and it may not any more. Only while there was one that did. */
static inline void msg_tx_list(struct uccl_op *op)
{
	struct uccl_ep_tx *tx = &op->peer->msg_ep->tx;

	if (tx->listing && !op->busy && !(op->flags & (UCCL_OPF_CM | UCCL_OPF_COLL)))
		uccl_multimap_add(&tx->by_context, &op->tx.context_node, (uintptr_t)op->context, 0);
}
static inline void msg_tx_unlist(struct uccl_op *op)
{
	if (op->tx.context_node.prev)
		uccl_multimap_remove(&op->peer->msg_ep->tx.by_context, &op->tx.context_node);
	op->tx.context_node.prev = NULL;
}
/* Its time begins: there is room for its timer (msg_tx_may_limit). What is complete for the program has none. */
static inline void msg_tx_limit(struct uccl_op *op, uint64_t now)
{
	if (op->limit_ns && !op->busy && !(op->flags & (UCCL_OPF_CM | UCCL_OPF_COLL)))
		uccl_heap_set(&op->peer->msg_ep->tx.timers, &op->tx.timer, now + op->limit_ns);
}
static inline void msg_tx_unlimit(struct uccl_op *op)
{
	if (op->tx.timer.index)
		uccl_heap_set(&op->peer->msg_ep->tx.timers, &op->tx.timer, UCCL_NEVER);
}
static inline bool msg_tx_may_limit(struct uccl_msg_ep *m, const struct uccl_op *op)
{
	return !op->limit_ns || !uccl_heap_reserve(&m->tx.timers, m->tx.timers.n + 1);
}
/* From now on they are listed, also those of this peer that are not complete. */
void msg_tx_listing(struct uccl_peer *p);
/* msg needs it still when done() was called; or needs it no more. */
static inline void msg_tx_keep(struct uccl_op *op, bool keep)
{
	op->busy = keep;
	if (!keep)
		return;
	msg_tx_unlist(op);
	msg_tx_unlimit(op);
}
/* The operation is complete when all that `wait` names has come. */
static inline void msg_tx_expect(struct uccl_op *op, uint8_t wait)
{
	op->tx.wait = wait;
}
/* The send of this call that is copied behind it; NULL: none. */
static inline void msg_tx_defer(struct uccl_msg_ep *m, struct uccl_op *op)
{
	m->tx.deferred = op;
}
/* Append the operation to those that have begun; and take it out again. */
static inline void msg_tx_begun(struct uccl_op *op)
{
	TAILQ_INSERT_TAIL(&op->peer->tx.sends, op, link);
}
static inline void msg_tx_unbegun(struct uccl_op *op)
{
	TAILQ_REMOVE(&op->peer->tx.sends, op, link);
}

/* Operations to this peer from the oldest that is not complete on. */
static inline uint32_t msg_tx_under_way(const struct uccl_peer *p)
{
	const struct uccl_op *first = TAILQ_FIRST(&p->tx.sends);

	return first ? (uint32_t)p->tx.mseq - first->tx.mseq : 0;
}

/* Could it begin at once, were nothing queued before it? */
static inline bool msg_tx_may_begin(const struct uccl_peer *p, const struct uccl_op *op)
{
	if (op->tx.loading || (op->flags & UCCL_OPF_FENCE && !TAILQ_EMPTY(&p->tx.sends)))
		return false;
	return p->open && (int32_t)((uint32_t)p->tx.mseq - p->flow.limits.msg_limit) < 0;
}
/* The payload is on its way from a device (op->copy): the operation begins when it is there. Before msg_tx_post. */
void msg_tx_load(struct uccl_msg_ep *m, struct uccl_op *op);
/* It may begin, and nothing is queued before it: it does. */
void msg_tx_begin(struct uccl_msg_ep *m, struct uccl_op *op, uint64_t now);
/* Straight to its place in the order: queue what must wait for it. */
void msg_tx_post(struct uccl_msg_ep *m, struct uccl_op *op, uint64_t now);
/* Something that op waited for came. */
void msg_tx_arrived(struct uccl_op *op, uint8_t what);
/* The error of one that was taken back. */
static inline int msg_tx_taken(const struct uccl_op *op)
{
	return op->tx.late ? FI_ETIMEDOUT : FI_ECANCELED;
}
/* The NIC needs its memory of a device no more (uccl_item.mr), but for what was handed to it. */
void msg_tx_source_put(struct uccl_op *op);
/* Everything did, or nothing will: 0 or a positive FI_Exxx. */
void msg_tx_finish(struct uccl_op *op, int err);
/* Operations that wait for `p` now wait for `first`, in the order in which all of them were posted. */
void msg_tx_join(struct uccl_peer *p, struct uccl_peer *first);
/* The peer is gone. All operations end with this FI_Exxx, except those that lanes still read. */
void msg_tx_stop(struct uccl_peer *p, int err);

/* So many bytes of it go ahead of CTS; 0: that has come, or will not. */
static inline void msg_tx_unsolicited(struct uccl_op *op, uint32_t bytes)
{
	op->peer->tx.unsolicited_bytes += bytes - op->tx.unsolicited_bytes;
	op->tx.unsolicited_bytes = bytes;
}

/* The peer has what this item carried; it asks for more; it answers. */
void msg_tx_acked(struct uccl_item *item);
enum uccl_drop msg_tx_cts(struct uccl_peer *p, const uint8_t *rec);
enum uccl_drop msg_tx_fin(struct uccl_peer *p, const uint8_t *rec);

#endif
