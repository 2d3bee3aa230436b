/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "msg/send/msg_tx.h"

#include <stdlib.h>

#include "base/units.h"
#include "lanes/lanes.h"
#include "msg/device/pump.h"

bool msg_tx_id(struct uccl_msg_ep *m, struct uccl_op *op)
{
	op->tx.id = uccl_ids_get(&m->tx.ids, op);
	return op->tx.id;
}

void msg_tx_id_put(struct uccl_msg_ep *m, struct uccl_op *op)
{
	if (op->tx.id)
		uccl_ids_put(&m->tx.ids, op->tx.id);
	op->tx.id = 0;
}

void *msg_tx_room_own(struct uccl_msg_ep *m, struct uccl_op *op, uint64_t len)
{
	/* One message at least always may. */
	if (m->tx.copied_bytes && m->tx.copied_bytes + len > UCCL_COPIED_MAX)
		return NULL;
	return msg_tx_room_get(m, op, len);
}

void *msg_tx_room_get(struct uccl_msg_ep *m, struct uccl_op *op, uint64_t len)
{
	op->tx.bounce = len > UINT32_MAX ? NULL : uccl_buf_cache_get(&m->tx.cache, len, len);
	if (!op->tx.bounce)
		return NULL;
	op->tx.bounce_len = (uint32_t)len;
	m->tx.copied_bytes += len;
	return op->tx.bounce;
}

void *msg_tx_room_swap(struct uccl_msg_ep *m, struct uccl_op *op, uint64_t len, struct iovec *old)
{
	*old = (struct iovec){.iov_base = op->tx.bounce, .iov_len = op->tx.bounce_len};
	if (msg_tx_room_get(m, op, len))
		return op->tx.bounce;
	op->tx.bounce = old->iov_base;
	return NULL;
}

void msg_tx_room_end(struct uccl_msg_ep *m, const struct iovec *room)
{
	if (!room->iov_base)
		return;
	uccl_buf_cache_put(&m->tx.cache, room->iov_base, room->iov_len);
	m->tx.copied_bytes -= room->iov_len;
}

void msg_tx_room_put(struct uccl_msg_ep *m, struct uccl_op *op)
{
	if (op->tx.copy.ticket)
		msg_copy_end(m, &op->tx.copy);
	op->tx.loading = false;
	msg_tx_room_end(m, &(struct iovec){.iov_base = op->tx.bounce, .iov_len = op->tx.bounce_len});
	op->tx.bounce = NULL;
}

void msg_tx_loads(struct uccl_msg_ep *m, struct uccl_op *op, bool waits)
{
	op->tx.loading = waits;
	if (!waits)
		msg_copy_end(m, &op->tx.copy);
}

static void tx_submit(struct uccl_op *op)
{
	op->tx.mseq = (uint32_t)op->peer->tx.mseq++;
	op->tx.ops->submit(op);
}

void uccl_msg_kick(struct uccl_peer *p, uint64_t now)
{
	struct uccl_op *op;

	op = TAILQ_FIRST(&p->tx.pending);
	if (!op || !msg_tx_may_begin(p, op))
		return;
	for (; op && msg_tx_may_begin(p, op); op = TAILQ_FIRST(&p->tx.pending)) {
		TAILQ_REMOVE(&p->tx.pending, op, link);
		TAILQ_INSERT_TAIL(&p->tx.sends, op, link);
		tx_submit(op);
	}
	/* Does a fence wait for what leaves now? */
	uccl_flow_hurry(&p->flow, op && op->flags & UCCL_OPF_FENCE, now);
	p->msg_ep->ops->ready(p);
}

void msg_tx_source_put(struct uccl_op *op)
{
	if (op->tx.source)
		op->peer->msg_ep->ops->source_put(op->peer, op->tx.source);
	op->tx.source = NULL;
}

void msg_tx_finish(struct uccl_op *op, int err)
{
	struct uccl_peer *p = op->peer;
	struct uccl_msg_ep *m = p->msg_ep;

	TAILQ_REMOVE(&p->tx.sends, op, link);
	msg_tx_unlist(op);
	msg_tx_unlimit(op);
	if (op->tx.abort)
		err = op->tx.abort->end(op, err);
	if (err == FI_ECANCELED)
		err = msg_tx_taken(op);
	/* It ended before it was copied, and nobody was told that it is complete. */
	if (m->tx.deferred == op) {
		msg_tx_defer(m, NULL);
		msg_tx_keep(op, false);
	}
	if (op->tx.pumped.by || op->tx.pumped.waits)
		msg_pump_end(m, op);
	msg_tx_source_put(op);
	msg_tx_id_put(m, op);
	msg_tx_room_put(m, op);
	if (op->tx.ops->ended)
		op->tx.ops->ended(op);
	if (op->busy) {
		/* done() was called when the copy was made. */
		msg_tx_keep(op, false);
		if (op->orphan)
			uccl_pool_put(&m->op_pool, op);
	} else {
		msg_op_done(op, p, err);
	}
	/* What was fenced off may be next. */
	op = TAILQ_FIRST(&p->tx.pending);
	if (op && op->flags & UCCL_OPF_FENCE && TAILQ_EMPTY(&p->tx.sends))
		uccl_msg_kick(p, 0);
}

void msg_tx_join(struct uccl_peer *p, struct uccl_peer *first)
{
	struct uccl_op *op, *after = TAILQ_FIRST(&first->tx.pending);

	while ((op = TAILQ_FIRST(&p->tx.pending))) {
		TAILQ_REMOVE(&p->tx.pending, op, link);
		op->peer = first;
		while (after && (int32_t)(after->tx.mseq - op->tx.mseq) < 0)
			after = TAILQ_NEXT(after, link);
		if (after)
			TAILQ_INSERT_BEFORE(after, op, link);
		else
			TAILQ_INSERT_TAIL(&first->tx.pending, op, link);
	}
}

void msg_tx_stop(struct uccl_peer *p, int err)
{
	struct uccl_op *op, *after;

	for (op = TAILQ_FIRST(&p->tx.sends); op; op = after) {
		after = TAILQ_NEXT(op, link);
		/* What lanes still read ends with their last answer. PROTOCOL R186 */
		op->tx.wait = lanes_stop(op, UCCL_NEVER);
		if (!op->tx.wait) {
			msg_tx_finish(op, err);
			continue;
		}
		msg_tx_unlist(op);
		msg_op_fail(op, err);
	}
}

void msg_tx_listing(struct uccl_peer *p)
{
	struct uccl_op_list *lists[] = {&p->tx.sends, &p->tx.pending};
	struct uccl_op *op;

	p->msg_ep->tx.listing = true;
	for (size_t i = 0; i < uccl_array_len(lists) && !p->dead; i++)
		TAILQ_FOREACH(op, lists[i], link)
			msg_tx_list(op);
}

void msg_tx_arrived(struct uccl_op *op, uint8_t what)
{
	op->tx.wait &= (uint8_t)~what;
	if (!op->tx.wait)
		msg_tx_finish(op, op->tx.fail);
	else if (op->tx.wait & MSG_WAIT_ABORT)
		op->tx.abort->step(op);
}

/* It came from a device. */
static void tx_loaded(struct uccl_copy *c, uint64_t now)
{
	struct uccl_op *op = uccl_container_of(c, struct uccl_op, tx.copy);
	struct uccl_peer *p = op->peer;

	op->tx.loading = false;
	if (c->err) {
		TAILQ_REMOVE(&p->tx.pending, op, link);
		TAILQ_INSERT_TAIL(&p->tx.sends, op, link);
		msg_tx_finish(op, c->err);
	} else if (op->tx.ops->loaded) {
		op->tx.ops->loaded(op);
	}
	uccl_msg_kick(p, now);
}

void msg_tx_load(struct uccl_msg_ep *m, struct uccl_op *op)
{
	op->tx.loading = true;
	msg_copy_wait(m, &op->tx.copy, tx_loaded);
}

void msg_tx_begin(struct uccl_msg_ep *m, struct uccl_op *op, uint64_t now)
{
	struct uccl_peer *p = op->peer;
	bool held = !TAILQ_EMPTY(&p->flow.sendq.bulk);

	msg_tx_list(op);
	msg_tx_limit(op, now);
	TAILQ_INSERT_TAIL(&p->tx.sends, op, link);
	tx_submit(op);
	/* Its rest waits behind others: for the beginning alone no call is made. PROTOCOL R169 */
	if (!held || !(op->tx.wait & (MSG_WAIT_BULK | MSG_WAIT_CTS)))
		m->ops->ready(p);
}

void msg_tx_post(struct uccl_msg_ep *m, struct uccl_op *op, uint64_t now)
{
	struct uccl_peer *p = op->peer;

	if (TAILQ_EMPTY(&p->tx.pending) && msg_tx_may_begin(p, op)) {
		msg_tx_begin(m, op, now);
		return;
	}
	msg_tx_list(op);
	msg_tx_limit(op, now);
	op->tx.mseq = m->tx.posts++;
	TAILQ_INSERT_TAIL(&p->tx.pending, op, link);
	if (!p->open) {
		m->ops->connect(p, now);
	} else if (op->flags & UCCL_OPF_FENCE) {
		uccl_flow_hurry(&p->flow, true, now);
		m->ops->ready(p);
	}
}

void msg_tx_acked(struct uccl_item *item)
{
	struct uccl_op *op;

	if (item->part) {
		op = msg_pump_acked(item);
		if (op)
			msg_tx_arrived(op, MSG_WAIT_BULK);
	} else if (item->lead) {
		op = uccl_container_of(item, struct uccl_op, send.lead);
		msg_tx_arrived(op, MSG_WAIT_LEAD);
	} else if (item->bulk) {
		op = uccl_container_of(item, struct uccl_op, tx.bulk);
		msg_tx_arrived(op, MSG_WAIT_BULK);
	} else {
		op = uccl_container_of(item, struct uccl_op, tx.env);
		msg_tx_arrived(op, MSG_WAIT_ENV);
	}
}

/* Can the NIC read it where it lies, on a device? PROTOCOL R221 */
static bool tx_reads(struct uccl_op *op)
{
	const struct uccl_peer *p = op->peer;

	return op->iov_count == 1 &&
	       !p->msg_ep->ops->source(op->peer, op->iov[0].iov_base, op->iov[0].iov_len, &op->tx.source);
}

/* Did a receive wait for it? What probably meets none shall not go ahead of CTS. PROTOCOL R264 */
static void tx_met(struct uccl_peer *p, bool met)
{
	if (!met)
		p->tx.met_streak = -UCCL_UNSOLICITED_PAUSE;
	else if (p->tx.met_streak < UCCL_UNSOLICITED_MET)
		p->tx.met_streak++;
}

/* An answer to an operation that is not there: late if a target has refused that, and so ended it. PROTOCOL R315 */
static enum uccl_drop tx_gone(const struct uccl_peer *p, const struct uccl_op *op, uint32_t id)
{
	/* What is taken back asks for nothing any more. */
	if (op && op->peer == p && op->tx.abort)
		return UCCL_DROP_UNWANTED;
	return uccl_ids_was(&p->msg_ep->tx.ids, id) ? UCCL_DROP_UNWANTED : UCCL_DROP_HANDLE;
}

enum uccl_drop msg_tx_cts(struct uccl_peer *p, const uint8_t *rec)
{
	struct uccl_cts cts;
	struct uccl_op *op;
	uint64_t sent;

	uccl_cts_decode(&cts, rec);
	op = uccl_ids_find(&p->msg_ep->tx.ids, cts.id);
	if (!op || op->peer != p || !(op->tx.wait & MSG_WAIT_CTS))
		return tx_gone(p, op, cts.id);
	sent = op->tx.bulk.skip;
	if (cts.limit > op->len)
		return UCCL_DROP_RANGE;
	if (op->type == UCCL_OP_SEND)
		tx_met(p, cts.flags & UCCL_CTS_MET);
	msg_tx_unsolicited(op, 0);
	if (!cts.rkey)
		lanes_named(p, cts.raddr);
	if (cts.limit > sent && op->device && !tx_reads(op)) {
		op->tx.wait |= MSG_WAIT_BULK;
		msg_pump_begin(op, &cts);
	} else if (cts.limit > sent && !cts.rkey && !op->device &&
		   lanes_send(op, sent, cts.limit, cts.rx, cts.raddr, MSG_WAIT_BULK)) {
		op->tx.wait |= MSG_WAIT_BULK;
	} else if (cts.limit > sent) {
		msg_item_bulk(&op->tx.bulk, UCCL_REC_DATA, op->iov, op->iov_count, cts.limit - sent);
		op->tx.bulk.want_ack = true;
		op->tx.bulk.mr = op->tx.source;
		uccl_peer_place(p, &op->tx.bulk, cts.rkey, cts.raddr);
		uccl_rec_set_bulk(op->tx.bulk.rec, cts.rx, op->tx.mseq, sent);
		op->tx.wait |= MSG_WAIT_BULK;
		uccl_flow_submit(&p->flow, &op->tx.bulk);
		p->msg_ep->ops->ready(p);
	}
	msg_tx_arrived(op, MSG_WAIT_CTS);
	return UCCL_DROP_COUNT;
}

enum uccl_drop msg_tx_fin(struct uccl_peer *p, const uint8_t *rec)
{
	struct uccl_resp resp;
	struct uccl_op *op;

	uccl_resp_decode(&resp, rec);
	op = uccl_ids_find(&p->msg_ep->tx.ids, resp.id);
	if (!op || op->peer != p || !(op->tx.wait & MSG_WAIT_FIN))
		return tx_gone(p, op, resp.id);
	return op->tx.ops->answered(op, &resp);
}
