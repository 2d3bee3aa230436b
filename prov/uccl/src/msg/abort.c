/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "msg/abort.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/seq.h"
#include "base/units.h"
#include "lanes/lanes.h"
#include "msg/device/pump.h"
#include "msg/recv/msg_rx.h"
#include "msg/recv/posted.h"
#include "msg/rma/reply.h"
#include "msg/rma/serve.h"
#include "msg/send/msg_tx.h"
#include "msg/send/send.h"

/* Between two tries to end what is due. */
#define AGAIN_NS (10 * UCCL_NS_PER_MS)

#define WAIT_ITEMS (MSG_WAIT_ENV | MSG_WAIT_BULK | MSG_WAIT_LEAD)

/* The initiator. */

/* A message to ourselves that no receive has taken. */
static int abort_self(struct uccl_msg_ep *m, struct uccl_op *op)
{
	struct uccl_msg_rx *rx = op->send.self;

	if (!rx || !rx->match.listed)
		return -FI_ENOENT;
	uccl_match_unlist(&m->match, rx);
	msg_self_drop(rx, FI_ECANCELED);
	return 0;
}

/* It has not begun: nobody but us knows of it. */
static void abort_pending(struct uccl_op *op, uint64_t now)
{
	struct uccl_peer *p = op->peer;

	TAILQ_REMOVE(&p->tx.pending, op, link);
	msg_tx_begun(op);
	msg_tx_finish(op, FI_ECANCELED);
	uccl_msg_kick(p, now);
}

/* Does its envelope say that lanes bring some of it? */
static bool names_lanes(const struct uccl_op *op)
{
	struct uccl_env env;

	uccl_env_decode(&env, op->tx.env.rec);
	return op->type == UCCL_OP_SEND && env.flags & UCCL_ENV_LANES;
}

/* Nothing more of it leaves. Returns what it waits for no more. */
static uint8_t abort_cut(struct uccl_op *op, uint64_t due)
{
	struct uccl_flow *f = &op->peer->flow;
	bool rest = op->tx.striped.rest, ahead = op->tx.striped.unsolicited;
	uint8_t gone = MSG_WAIT_CTS;

	lanes_stop(op, due);
	if (op->tx.pumped.by || op->tx.pumped.waits ? msg_pump_cut(op)
	    : rest ? !op->tx.striped.rest
		   : op->tx.wait & MSG_WAIT_BULK && uccl_flow_cut(f, &op->tx.bulk))
		gone |= MSG_WAIT_BULK;
	if (ahead ? !op->tx.striped.unsolicited
		  : op->tx.wait & MSG_WAIT_LEAD && uccl_flow_cut(f, &op->send.lead))
		gone |= MSG_WAIT_LEAD;
	/* The target must know of what lanes bring, or brought. */
	if (op->tx.wait & MSG_WAIT_ENV && !names_lanes(op) && uccl_flow_cut(f, &op->tx.env))
		gone |= MSG_WAIT_ENV;
	return gone;
}

static void abort_step(struct uccl_op *op)
{
	struct uccl_item *item = &op->tx.env;
	struct uccl_peer *p = op->peer;

	if (op->tx.wait & WAIT_ITEMS || op->tx.told)
		return;
	op->tx.told = true;
	memset(item, 0, sizeof(*item));
	item->rtype = UCCL_REC_ABORT;
	item->want_ack = true;
	uccl_abort_encode(item->rec, op->tx.id, op->tx.mseq);
	op->tx.wait |= MSG_WAIT_ENV;
	uccl_flow_submit(&p->flow, item);
	p->msg_ep->ops->ready(p);
}

static int abort_end(struct uccl_op *op, int err)
{
	struct uccl_peer *p = op->peer;

	/* The peer ended before it said what became of it. */
	if (op->tx.wait & MSG_WAIT_ABORT || p->dead) {
		op->refusal = UCCL_UNPROVEN;
		err = FI_ECANCELED;
	}
	if (p->open)
		uccl_flow_hurry(&p->flow, false, 0);
	return err;
}

static const struct uccl_abort abort_begun_ops = {.step = abort_step, .end = abort_end};

void msg_abort_at(struct uccl_op *op, const struct uccl_abort *how, uint64_t due)
{
	msg_tx_unlist(op);
	op->tx.abort = how;
	uccl_heap_set(&op->peer->msg_ep->tx.timers, &op->tx.timer, due);
}

static int abort_begun(struct uccl_op *op, uint64_t now)
{
	struct uccl_peer *p = op->peer;
	struct uccl_msg_ep *m = p->msg_ep;
	if (!p->aborts)
		return -FI_ENOENT;
	if (!op->tx.id && !msg_tx_id(m, op))
		return -FI_EAGAIN;
	if (uccl_heap_reserve(&m->tx.timers, m->tx.timers.n + 1))
		return -FI_EAGAIN;
	msg_abort_at(op, &abort_begun_ops, now + UCCL_ABORT_NS);
	op->tx.wait = (uint8_t)((op->tx.wait & ~abort_cut(op, now + UCCL_ABORT_NS)) | MSG_WAIT_ABORT);
	m->stats->aborts++;
	uccl_flow_hurry(&p->flow, true, now);
	p->msg_ep->ops->ready(p);
	abort_step(op);
	return 0;
}

static int op_abort(struct uccl_op *op, uint64_t now)
{
	if (op->peer->self)
		return abort_self(op->peer->msg_ep, op);
	/* What has begun waits for something. */
	if (op->tx.wait)
		return abort_begun(op, now);
	abort_pending(op, now);
	return 0;
}

int uccl_msg_abort(struct uccl_msg_ep *m, const void *context, uint64_t now)
{
	struct uccl_multinode *n = uccl_multimap_find(&m->tx.by_context, (uintptr_t)context, 0);

	if (!n)
		return -FI_ENOENT;
	uccl_match_step(&m->match);
	return op_abort(uccl_container_of(n, struct uccl_op, tx.context_node), now);
}

/* Its time is over. */
static void op_late(struct uccl_op *op, uint64_t now)
{
	struct uccl_msg_ep *m = op->peer->msg_ep;
	int rc;

	msg_tx_unlimit(op);
	op->tx.late = true;
	rc = op_abort(op, now);
	if (!rc)
		return;
	op->tx.late = false;
	/* Else a receive has taken it, or the peer does not know how. */
	if (rc == -FI_EAGAIN)
		uccl_heap_set(&m->tx.timers, &op->tx.timer, now + AGAIN_NS);
}

enum uccl_drop msg_abort_answered(struct uccl_peer *p, const uint8_t *rec)
{
	struct uccl_resp resp;
	struct uccl_op *op;
	uint8_t over = MSG_WAIT_ABORT;

	uccl_resp_decode(&resp, rec);
	op = uccl_ids_find(&p->msg_ep->tx.ids, resp.id);
	if (!op || op->peer != p || !(op->tx.wait & MSG_WAIT_ABORT) || !op->tx.told || resp.err > 1)
		return UCCL_DROP_HANDLE;
	/* What was executed says so itself, unless nobody waits for that any more. A read that is not here ends now. */
	if (resp.err || op->type == UCCL_OP_READ || op->busy)
		over |= MSG_WAIT_FIN;
	if (resp.err || op->tx.wait & over & MSG_WAIT_FIN)
		msg_op_fail(op, FI_ECANCELED);
	msg_tx_arrived(op, over);
	return UCCL_DROP_COUNT;
}

static void payload_copy(const struct uccl_item *item, uint8_t *to, const uint8_t *from, uint64_t len)
{
	struct iovec at = {.iov_base = (void *)(uintptr_t)from, .iov_len = len};
	struct uccl_op *op;

	if (!item->mr) {
		memcpy(to, from, len);
		return;
	}
	op = uccl_container_of(item, struct uccl_op, tx.bulk);
	msg_get(op->peer->msg_ep, &op->tx.copy, &at, 1, 1, 0, to, len);
}

/* Is all that it sends in memory of ours? Of a write, only the beginning may be. */
static bool abort_is_copy(const struct uccl_op *op)
{
	return op->tx.bounce && (op->type == UCCL_OP_SEND || op->rma.body.iov_len);
}

/* Copy what of its payload may still be read. False: that cannot be now. */
static bool abort_detach(struct uccl_msg_ep *m, struct uccl_op *op, uint64_t now)
{
	struct uccl_item *items[] = {&op->tx.env, &op->tx.bulk, op->type == UCCL_OP_SEND ? &op->send.lead : NULL};
	uint64_t bytes[] = {0, 0, 0}, sum = 0;
	struct uccl_flow *f = &op->peer->flow;
	struct iovec old;
	uint8_t *to;

	/* A lane that was not told had no room for the command. */
	lanes_stop(op, now);
	if (!op->tx.wait || op->peer->dead || lanes_read(op))
		return false;
	/* Where there is a copy of it already, nothing is the program's. */
	for (size_t i = 0; i < uccl_array_len(items) && !abort_is_copy(op); i++) {
		if (!items[i] || !(items[i]->pending || items[i]->queued) || items[i]->rtype == UCCL_REC_ABORT)
			continue;
		bytes[i] = uccl_flow_unread(f, items[i]);
		if (bytes[i] == UINT64_MAX) {
			m->ops->stop_writes(op->peer);
			return false;
		}
		sum += bytes[i];
	}
	if (!sum)
		return true;
	to = msg_tx_room_swap(m, op, sum, &old);
	if (!to)
		return false;
	for (size_t i = 0; i < uccl_array_len(items); i++)
		if (bytes[i]) {
			/* The program hears of its end: nobody else needs its buffers. */
			uccl_flow_detach(f, items[i], op->iov, to, payload_copy);
			to += bytes[i];
		}
	msg_tx_room_end(m, &old);
	/* The program has its memory next. */
	if (op->tx.source)
		m->ops->source_stop(op->peer, op->tx.source);
	msg_copy_end(m, &op->tx.copy);
	if (op->tx.copy.err)
		m->ops->broken(op->peer, FI_EFAULT);
	return true;
}

void uccl_msg_aborts_expire(struct uccl_msg_ep *m, bool handed, uint64_t now)
{
	struct uccl_timer *t;

	while ((t = uccl_heap_min(&m->tx.timers)) && t->at <= now) {
		struct uccl_op *op = uccl_container_of(t, struct uccl_op, tx.timer);
		struct uccl_peer *p = op->peer;

		if (!op->tx.abort) {
			op_late(op, now);
			continue;
		}
		/* What keeps the NIC's queues full may be writes that wait for this peer. PROTOCOL R389 */
		if (!handed)
			m->ops->stop_writes(p);
		/* Lanes, or a NIC, still read it. */
		if (!handed || !abort_detach(m, op, now)) {
			uccl_heap_set(&m->tx.timers, t, now + AGAIN_NS);
			continue;
		}
		uccl_heap_set(&m->tx.timers, t, UCCL_NEVER);
		msg_tx_source_put(op);
		if (op->tx.ops->ended)
			op->tx.ops->ended(op);
		op->refusal = UCCL_UNPROVEN;
		/* ABORTED has come: nothing waits for the operation's own answer any more. */
		if (!(op->tx.wait & MSG_WAIT_ABORT))
			op->tx.wait &= (uint8_t)~MSG_WAIT_FIN;
		if (!op->tx.wait) {
			msg_tx_finish(op, FI_ECANCELED);
			continue;
		}
		/* The target is still to be told. */
		msg_tx_keep(op, true);
		msg_op_done(op, p, msg_tx_taken(op));
	}
}

/* The target. */

static void gone_turn(struct uccl_msg_rx *rx, uint64_t now)
{
	(void)now;
	msg_rx_free(rx);
}

/* Taken back before its turn. */
static const struct msg_rx_ops gone_rx_ops = {.turn = gone_turn};

/* What there is of this message or request of the peer. */
static struct uccl_msg_rx *abort_find(struct uccl_peer *p, uint64_t mseq)
{
	struct uccl_multinode *n = uccl_multimap_find(p->rx.numbered, mseq, false);

	uccl_match_step(&p->msg_ep->match);
	return n ? uccl_container_of(n, struct uccl_msg_rx, number_node) : NULL;
}

/* Its first ABORT: from now on that costs no search. False: no memory. */
static bool abort_numbers(struct uccl_peer *p)
{
	if (p->rx.numbered)
		return true;
	if (!msg_rx_numbers(p))
		return false;
	msg_reply_numbers(p);
	return true;
}

/* Lanes keep nothing of it. False: no memory. */
static bool abort_unplaced(struct uccl_msg_rx *rx)
{
	return !rx->lanes.senders || rx->lanes.unsolicited || rx->arrived.got >= rx->arrived.eager ||
	       lanes_rx_post_unsolicited(rx);
}

static void abort_recv(struct uccl_msg_rx *rx)
{
	struct uccl_op *op = rx->recv.op;
	struct uccl_peer *p = rx->peer;

	rx->recv.op = NULL;
	if (op) {
		msg_posted_result(op, rx->env.flags, rx->env.tag, rx->env.data, rx->env.len,
				  uccl_min(rx->arrived.got, rx->place.limit));
		op->recv.olen = 0;
		op->refusal = UCCL_TAKEN_BACK;
	}
	msg_rx_stop(rx);
	if (op)
		msg_posted_done(op, p, FI_ECANCELED);
}

enum abort_result { COMPLETE, TAKEN, NO_MEMORY };

/* It is in order, and no request. */
static enum abort_result abort_message(struct uccl_msg_rx *rx)
{
	struct uccl_msg_ep *m = rx->peer->msg_ep;

	if (rx->match.claim) {
		/* The program knows of it. */
		if (rx->arrived.got < rx->env.len)
			rx->recv.failed = FI_ECANCELED;
		return rx->recv.failed ? TAKEN : COMPLETE;
	}
	if (rx->match.listed) {
		if (!abort_unplaced(rx))
			return NO_MEMORY;
		uccl_match_unlist(&m->match, rx);
		msg_rx_free(rx);
		return TAKEN;
	}
	if (rx->arrived.got >= msg_rx_need(rx))
		return COMPLETE;
	abort_recv(rx);
	return TAKEN;
}

static enum abort_result abort_do(struct uccl_peer *p, uint32_t id, uint64_t mseq, uint64_t now)
{
	struct uccl_msg_rx *rx = abort_find(p, mseq);

	if (!rx && mseq < p->rx.mseq)
		return msg_reply_stop(p, id, (uint32_t)mseq) ? TAKEN : COMPLETE;
	if (!rx)
		rx = msg_rx_new(p, mseq, 0, true);
	if (!rx)
		return NO_MEMORY;
	if (rx->finished)
		return COMPLETE;
	if (rx->in_order)
		return !rx->serve ? abort_message(rx) : msg_serve_abort(rx, now) ? TAKEN : COMPLETE;
	if (!abort_unplaced(rx))
		return NO_MEMORY;
	msg_rx_void(rx, &gone_rx_ops);
	msg_rx_drain(p, now);
	return TAKEN;
}

enum uccl_drop msg_abort_rx(struct uccl_peer *p, const struct uccl_chunk_in *in, uint64_t now)
{
	uint32_t id = uccl_get32(in->rec);
	uint64_t mseq = uccl_seq_expand(p->rx.mseq, uccl_get32(in->rec + 4), 32);
	enum abort_result result;
	struct uccl_reply *r;

	if (!id || in->len || (mseq >= p->rx.mseq && mseq - p->rx.mseq >= UCCL_MSG_LIMIT))
		return UCCL_DROP_RECORD;
	r = abort_numbers(p) ? msg_reply_get(p, id, NULL, 0) : NULL;
	if (!r)
		return UCCL_DROP_MEMORY;
	result = abort_do(p, id, mseq, now);
	if (result == NO_MEMORY) {
		msg_reply_free(r);
		return UCCL_DROP_MEMORY;
	}
	p->msg_ep->stats->aborted += result == TAKEN;
	msg_reply_aborted(r, result == TAKEN);
	return UCCL_DROP_COUNT;
}
