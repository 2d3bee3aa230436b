/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "lanes/worker.h"

#include <rdma/fi_errno.h>

#include "msg/abort.h"

void worker_init(struct uccl_msg_ep *m, const struct uccl_lanes_ops *ops, struct uccl_lane *l,
		 struct uccl_lane_channel *channel, uint8_t number)
{
	*l = (struct uccl_lane){.channel = channel, .number = number};
	for (int i = 0; i < UCCL_LANE_TABLE; i++)
		LIST_INIT(&l->reassemblies[i]);
	TAILQ_INIT(&l->whole);
	TAILQ_INIT(&l->changed);
	m->lane = l;
	m->lanes_ops = ops;
}

static bool lane_put(struct uccl_lane *l, const struct uccl_lane_cmd *cmd)
{
	bool done = uccl_mailbox_put(&l->channel->up, cmd);

	if (done && l->channel->wake)
		l->channel->wake(l->channel->arg, true);
	return done;
}

/* Of a peer that the primary has made known. NULL: it has not. */
static struct uccl_lane_peer *lane_peer_of(const struct uccl_peer *p)
{
	return p->user == UINT64_MAX ? NULL : (struct uccl_lane_peer *)(uintptr_t)p->user;
}

static void lane_peer_changed(struct uccl_lane *l, struct uccl_lane_peer *w)
{
	if (!w->in_changed)
		TAILQ_INSERT_TAIL(&l->changed, w, changed_link);
	w->in_changed = true;
}

void worker_peer_opened(struct uccl_peer *p)
{
	struct uccl_lane_peer *w = lane_peer_of(p);

	if (!w)
		return;
	w->opened = true;
	lane_peer_changed(p->msg_ep->lane, w);
}

void worker_peer_ended(struct uccl_peer *p, int err)
{
	struct uccl_lane_peer *w = lane_peer_of(p);

	unplaced_data_drop(p->msg_ep->lane->channel, p);
	if (!w)
		return;
	w->ended = true;
	w->err = err;
	lane_peer_changed(p->msg_ep->lane, w);
}

static void lane_peer_add(struct uccl_msg_ep *m, struct uccl_lane_peer *w, uint64_t now)
{
	struct uccl_lane_cmd l = {.kind = UCCL_LANE_PEER_ADDED, .who = w};
	struct uccl_peer *p = m->lanes_ops->lane_peer_add(m, w, now);

	w->here = p;
	l.what = p;
	lane_put(m->lane, &l);
	if (!p)
		return;
	p->user = (uintptr_t)w;
	/* It may have connected to us before the primary made it known, or ended. */
	if (p->dead)
		worker_peer_ended(p, p->dead);
	else if (p->open)
		worker_peer_opened(p);
}

static void lane_peer_del(struct uccl_msg_ep *m, struct uccl_lane_peer *w, uint64_t now)
{
	struct uccl_lane *l = m->lane;
	struct uccl_peer *p = w->here;

	if (p) {
		m->lanes_ops->lane_peer_del(p, now);
		p->user = UINT64_MAX;
	}
	if (w->in_changed)
		TAILQ_REMOVE(&l->changed, w, changed_link);
	lane_put(l, &(struct uccl_lane_cmd){.kind = UCCL_LANE_PEER_DELETED, .who = w});
}

static uint32_t lane_slot(uint64_t key)
{
	return (uint32_t)((key >> 32 ^ key) % UCCL_LANE_TABLE);
}

static enum uccl_drop lane_put_in(struct uccl_msg_ep *m, struct uccl_reassembly_lane *bl, uint64_t off,
				  const struct uccl_chunk_in *in)
{
	struct uccl_lane *l = m->lane;
	enum uccl_drop reason;
	bool whole;

	reason = reassembly_put(bl->reassembly, l->number, off, in, m->range_key, &whole);
	if (whole && !bl->whole++)
		TAILQ_INSERT_TAIL(&l->whole, bl, whole_link);
	return reason;
}

/*
 * What was kept of it goes to its place. It was acknowledged, so if it cannot there is a message that will never be
 * whole: its peer ends.
 */
static void lane_place_unplaced(struct uccl_msg_ep *m, struct uccl_reassembly_lane *bl)
{
	struct uccl_unplaced_chunk *d;

	while ((d = unplaced_data_take(m->lane->channel, bl->from, bl->reassembly->gen))) {
		struct uccl_chunk_in in = { .data = d->data, .len = d->len };
		enum uccl_drop reason =
			d->total != bl->reassembly->limit ? UCCL_DROP_RANGE : lane_put_in(m, bl, d->off, &in);

		free(d);
		/* The primary has shut it: it knows what ended. */
		if (reason == UCCL_DROP_COUNT || reason == UCCL_DROP_UNWANTED)
			continue;
		m->stats->dropped[reason]++;
		m->ops->broken(bl->from, FI_EIO);
	}
}

/* Perhaps a second time: see reassembly_find(). */
static void lane_rx_post(struct uccl_msg_ep *m, struct uccl_reassembly_lane *bl)
{
	struct uccl_lane *l = m->lane;

	if (bl->known)
		return;
	LIST_INSERT_HEAD(&l->reassemblies[lane_slot(bl->key)], bl, same);
	bl->known = true;
	if (!bl->reassembly->id)
		lane_place_unplaced(m, bl);
	else if ((int32_t)(bl->reassembly->gen - bl->from->lane.cts_mseq) > 0)
		bl->from->lane.cts_mseq = bl->reassembly->gen;
}

static void lane_rx_forget(struct uccl_reassembly_lane *bl)
{
	if (bl->known)
		LIST_REMOVE(bl, same);
	bl->known = false;
}

static void lane_rx_cancel(struct uccl_lane *l, struct uccl_reassembly_lane *bl)
{
	lane_rx_forget(bl);
	if (bl->whole)
		TAILQ_REMOVE(&l->whole, bl, whole_link);
	lane_put(l, &(struct uccl_lane_cmd){.kind = UCCL_LANE_RX_CANCELLED, .what = bl});
}

static void stripe_answer(struct uccl_lane *l, void *what, uint64_t len, int err)
{
	lane_put(l, &(struct uccl_lane_cmd){.kind = UCCL_LANE_TX_DONE, .what = what, .len = len, .err = err});
}

/* The primary took this message back: is its payload read any more? */
static void stripes_unread(struct uccl_peer *p, void *what)
{
	struct uccl_lane *l = p->msg_ep->lane;
	const struct uccl_op *op;

	/* No more than UCCL_LANE_CHANNEL_STRIPES. */
	TAILQ_FOREACH(op, &p->tx.sends, link)
		if (op->context == what && op->tx.abort && !op->busy)
			return;
	if (p->open)
		uccl_flow_hurry(&p->flow, false, 0);
	lane_put(l, &(struct uccl_lane_cmd){.kind = UCCL_LANE_TX_ABORTED, .what = what, .id = l->number});
}

static void stripe_done(struct uccl_op *op)
{
	struct uccl_msg_ep *m = op->peer->msg_ep;

	if (op->busy) {
		/* What is left of it was copied. */
		op->orphan = true;
		stripes_unread(op->peer, op->context);
		return;
	}
	stripe_answer(m->lane, op->context, op->len, op->err);
	uccl_pool_put(&m->op_pool, op);
}

static int stripe_abort_end(struct uccl_op *op, int err)
{
	if (op->busy)
		stripe_answer(op->peer->msg_ep->lane, op->context, op->len, err);
	else
		stripes_unread(op->peer, op->context);
	return err;
}

static const struct uccl_abort stripe_abort = {.end = stripe_abort_end};

static const struct msg_tx_ops stripe_tx_ops = {.submit = NULL};

static void lane_send(struct uccl_msg_ep *m, const struct uccl_lane_cmd *l)
{
	struct uccl_peer *p = l->who;
	struct uccl_op *op = p->open ? uccl_pool_get(&m->op_pool) : NULL;

	if (!op) {
		stripe_answer(m->lane, l->what, l->len, p->dead ? p->dead : FI_ENOMEM);
		return;
	}
	op->type = UCCL_OP_SEND;
	msg_tx_make(op, &stripe_tx_ops);
	op->peer = p;
	op->context = l->what;
	op->done = stripe_done;
	op->iov[0] = (struct iovec){ .iov_base = l->at, .iov_len = l->len };
	op->iov_count = 1;
	op->len = l->len;
	msg_tx_expect(op, MSG_WAIT_BULK);
	op->tx.bulk.rtype = l->id ? UCCL_REC_DATA : UCCL_REC_EAGER;
	op->tx.bulk.bulk = true;
	op->tx.bulk.want_ack = true;
	op->tx.bulk.iov = op->iov;
	op->tx.bulk.iov_count = 1;
	op->tx.bulk.len = l->len;
	op->tx.bulk.more = l->more;
	if (l->id) {
		uccl_rec_set_bulk(op->tx.bulk.rec, l->id, l->gen, l->off);
	} else {
		uccl_rec_set_bulk(op->tx.bulk.rec, l->gen, 0, l->off);
		uccl_put64(op->tx.bulk.rec + 16, l->off + l->len + l->more);
	}
	msg_tx_begun(op);
	uccl_flow_submit(&p->flow, &op->tx.bulk);
	m->ops->ready(p);
}

static void lane_abort(const struct uccl_lane_cmd *l, uint64_t now)
{
	struct uccl_peer *p = l->who;
	struct uccl_op *op, *next;

	for (op = TAILQ_FIRST(&p->tx.sends); op; op = next) {
		next = TAILQ_NEXT(op, link);
		if (op->context != l->what)
			continue;
		if (uccl_flow_cut(&p->flow, &op->tx.bulk))
			msg_tx_arrived(op, MSG_WAIT_BULK);
		else
			msg_abort_at(op, &stripe_abort, l->off);
	}
	if (p->open)
		uccl_flow_hurry(&p->flow, true, now);
	stripes_unread(p, l->what);
}

int worker_poll(struct uccl_msg_ep *m, uint64_t now)
{
	struct uccl_lane *lane = m->lane;
	struct uccl_lane_cmd l;
	int n = 0;

	lane_channel_up(lane->channel);
	for (; uccl_mailbox_take(&lane->channel->down, &l); n++)
		switch (l.kind) {
		case UCCL_LANE_PEER_ADD:
			lane_peer_add(m, l.who, now);
			break;
		case UCCL_LANE_PEER_DEL:
			lane_peer_del(m, l.who, now);
			break;
		case UCCL_LANE_RX_POST:
			((struct uccl_reassembly_lane *)l.what)->taken = true;
			lane_rx_post(m, l.what);
			break;
		case UCCL_LANE_RX_CANCEL:
			lane_rx_cancel(lane, l.what);
			break;
		case UCCL_LANE_TX_ABORT:
			lane_abort(&l, now);
			break;
		default:
			lane_send(m, &l);
			break;
		}
	return n;
}

/* Answers have the other half. */
static bool report_has_room(struct uccl_lane *l)
{
	return uccl_mailbox_room(&l->channel->up) > UCCL_LANE_CHANNEL_CMDS / 2;
}

/* If nothing more can come of it, and nobody else knows it, the primary frees the buffer with this report. */
static void stripes_report(struct uccl_lane *l, struct uccl_reassembly_lane *bl)
{
	struct uccl_lane_cmd cmd = {.kind = UCCL_LANE_RX_STRIPES, .what = bl, .len = bl->whole};

	TAILQ_REMOVE(&l->whole, bl, whole_link);
	bl->told += bl->whole;
	bl->whole = 0;
	if (bl->reassembly->sole && bl->taken && bl->told == bl->reassembly->nstripes) {
		lane_rx_forget(bl);
		cmd.id = 1;
	}
	lane_put(l, &cmd);
}

void worker_report(struct uccl_msg_ep *m)
{
	struct uccl_lane *l = m->lane;
	struct uccl_reassembly_lane *bl;
	struct uccl_lane_peer *w;

	while ((w = TAILQ_FIRST(&l->changed)) && report_has_room(l)) {
		struct uccl_lane_cmd cmd = {.kind = UCCL_LANE_PEER_ENDED, .who = w, .err = w->err};

		if (w->opened)
			cmd.kind = UCCL_LANE_PEER_OPENED;
		lane_put(l, &cmd);
		if (w->opened && w->ended) {
			w->opened = false;
			continue;
		}
		w->opened = w->ended = w->in_changed = false;
		TAILQ_REMOVE(&l->changed, w, changed_link);
	}
	while ((bl = TAILQ_FIRST(&l->whole)) && report_has_room(l)) {
		stripes_report(l, bl);
	}
}

/*
 * The primary lets us before it tells the peer, so what is not in the table is in the mailbox, if it is anywhere. Other
 * commands there must wait: one of them may end the flow that this payload came by. PROTOCOL R184
 */
static struct uccl_reassembly_lane *reassembly_find(struct uccl_peer *p, uint64_t key)
{
	struct uccl_lane *l = p->msg_ep->lane;
	const struct uccl_lane_cmd *cmd;
	struct uccl_reassembly_lane *bl;

	LIST_FOREACH(bl, &l->reassemblies[lane_slot(key)], same)
		if (bl->key == key && bl->from == p)
			return bl;
	for (uint32_t i = 0; (cmd = uccl_mailbox_peek(&l->channel->down, i)); i++) {
		bl = cmd->kind == UCCL_LANE_RX_POST ? cmd->what : NULL;
		if (bl && bl->key == key && bl->from == p) {
			lane_rx_post(p->msg_ep, bl);
			return bl;
		}
	}
	return NULL;
}

/* Payload of a message of the primary's. PROTOCOL R181 */
static enum uccl_drop lane_rx_data(struct uccl_peer *p, const struct uccl_chunk_in *in)
{
	uint32_t id = uccl_get32(in->rec), gen = uccl_get32(in->rec + 4);
	/* Without a handle it comes ahead of CTS, and in another record. */
	struct uccl_reassembly_lane *bl = id ? reassembly_find(p, reassembly_key(id, gen)) : NULL;

	if (bl)
		return lane_put_in(p->msg_ep, bl, uccl_get64(in->rec + 8), in);
	/* The primary has taken back what it had granted: messages are granted in their order, nearly. PROTOCOL R315 */
	return id && (int32_t)(p->lane.cts_mseq - gen) >= 0 ? UCCL_DROP_UNWANTED : UCCL_DROP_HANDLE;
}

/* The same ahead of CTS; the primary may not have said where it belongs. PROTOCOL R267 */
static enum uccl_drop lane_rx_unsolicited(struct uccl_peer *p, const struct uccl_chunk_in *in)
{
	uint64_t off = uccl_get64(in->rec + 8), total = uccl_get64(in->rec + 16);
	uint64_t key = reassembly_key(0, uccl_get32(in->rec));
	struct uccl_reassembly_lane *bl;
	enum uccl_drop reason;

	/* Of whom the primary does not know nothing may come. */
	if (!lane_peer_of(p))
		return UCCL_DROP_HANDLE;
	if (!in->len || total > UCCL_UNSOLICITED_MAX || off >= total || in->len > total - off)
		return UCCL_DROP_RANGE;
	bl = reassembly_find(p, key);
	if (bl)
		return total == bl->reassembly->limit ? lane_put_in(p->msg_ep, bl, off, in) : UCCL_DROP_RANGE;
	reason = unplaced_data_keep(p->msg_ep->lane->channel, p, in);
	/*
	 * The primary wakes a lane that has something there: it may have looked just before. See may_stay_unread().
	 * PROTOCOL R267
	 */
	if (reason == UCCL_DROP_COUNT)
		reassembly_find(p, key);
	return reason;
}

static enum uccl_drop lane_deliver(struct uccl_flow *f, const struct uccl_chunk_in *in, uint64_t now)
{
	(void)now;
	if (in->placed || (in->rtype != UCCL_REC_DATA && in->rtype != UCCL_REC_EAGER))
		return UCCL_DROP_STATE;
	return in->rtype == UCCL_REC_DATA ? lane_rx_data(f->user, in) : lane_rx_unsolicited(f->user, in);
}

static void lane_acked(struct uccl_flow *f, struct uccl_item *item, uint64_t now)
{
	(void)f;
	(void)now;
	msg_tx_acked(item);
}

/* Lanes write nothing directly, so there are no doubts and no fences. */
const struct uccl_flow_ops worker_flow_ops = { .deliver = lane_deliver, .acked = lane_acked };
