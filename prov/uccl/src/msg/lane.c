/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "msg/lane.h"

#include <rdma/fi_errno.h>

#include "msg/tx.h"

void uccl_lane_init(struct uccl_mep *m, struct uccl_lane *l, const struct uccl_lane_ops *ops, struct uccl_line *line,
		    uint8_t number)
{
	*l = (struct uccl_lane){ .ops = ops, .line = line, .number = number };
	for (int i = 0; i < UCCL_LANE_TABLE; i++)
		LIST_INIT(&l->berths[i]);
	TAILQ_INIT(&l->whole);
	TAILQ_INIT(&l->news);
	m->lane = l;
}

static bool lane_put(struct uccl_lane *l, const struct uccl_letter *letter)
{
	bool done = uccl_mailbox_put(&l->line->up, letter);

	if (done && l->line->wake)
		l->line->wake(l->line->arg, true);
	return done;
}

/* Of a peer that home has made known: its way. */
static struct uccl_way *peer_way(const struct uccl_peer *p)
{
	return p->user == UINT64_MAX ? NULL : (struct uccl_way *)(uintptr_t)p->user;
}

static void way_news(struct uccl_lane *l, struct uccl_way *w)
{
	if (!w->in_news)
		TAILQ_INSERT_TAIL(&l->news, w, news);
	w->in_news = true;
}

void msg_lane_opened(struct uccl_peer *p)
{
	struct uccl_way *w = peer_way(p);

	if (!w)
		return;
	w->opened = true;
	way_news(p->mep->lane, w);
}

void msg_lane_ended(struct uccl_peer *p, int err)
{
	struct uccl_way *w = peer_way(p);

	msg_park_end(p->mep->lane->line, p);
	if (!w)
		return;
	w->ended = true;
	w->err = err;
	way_news(p->mep->lane, w);
}

static void lane_meet(struct uccl_mep *m, struct uccl_way *w, uint64_t now)
{
	struct uccl_letter l = { .kind = UCCL_LETTER_MET, .who = w };
	struct uccl_peer *p = m->lane->ops->meet(m, w, now);

	w->here = p;
	l.what = p;
	lane_put(m->lane, &l);
	if (!p)
		return;
	p->user = (uintptr_t)w;
	/* It may have connected to us before we were told of it, or ended. */
	if (p->dead)
		msg_lane_ended(p, p->dead);
	else if (p->open)
		msg_lane_opened(p);
}

static void lane_part(struct uccl_mep *m, struct uccl_way *w, uint64_t now)
{
	struct uccl_lane *l = m->lane;
	struct uccl_peer *p = w->here;

	if (p) {
		l->ops->part(p, now);
		p->user = UINT64_MAX;
	}
	if (w->in_news)
		TAILQ_REMOVE(&l->news, w, news);
	lane_put(l, &(struct uccl_letter){ .kind = UCCL_LETTER_PARTED, .who = w });
}

static uint32_t lane_slot(uint64_t key)
{
	return (uint32_t)((key >> 32 ^ key) % UCCL_LANE_TABLE);
}

static enum uccl_drop lane_put_in(struct uccl_mep *m, struct uccl_berth_lane *bl, uint64_t off,
				  const struct uccl_chunk_in *in)
{
	struct uccl_lane *l = m->lane;
	enum uccl_drop reason;
	bool whole;

	reason = msg_berth_put(bl->berth, l->number, off, in, m->cover_key, &whole);
	if (whole && !bl->whole++)
		TAILQ_INSERT_TAIL(&l->whole, bl, news);
	return reason;
}

/*
 * What was kept of it goes to its place. It was acknowledged, so if it cannot there is a message that will never be
 * whole: its peer ends.
 */
static void lane_unpark(struct uccl_mep *m, struct uccl_berth_lane *bl)
{
	struct uccl_parked *d;

	while ((d = msg_park_take(m->lane->line, bl->from, bl->berth->gen))) {
		struct uccl_chunk_in in = { .data = d->data, .len = d->len };
		enum uccl_drop reason = d->total != bl->berth->limit ? UCCL_DROP_RANGE :
									lane_put_in(m, bl, d->off, &in);

		free(d);
		/* Home has shut it: it knows what ended. */
		if (reason == UCCL_DROP_COUNT || reason == UCCL_DROP_UNWANTED)
			continue;
		m->stats->dropped[reason]++;
		m->ops->broken(bl->from, FI_EIO);
	}
}

/* Perhaps a second time: see berth_find(). */
static void lane_land(struct uccl_mep *m, struct uccl_berth_lane *bl)
{
	struct uccl_lane *l = m->lane;

	if (bl->known)
		return;
	LIST_INSERT_HEAD(&l->berths[lane_slot(bl->key)], bl, same);
	bl->known = true;
	if (!bl->berth->id)
		lane_unpark(m, bl);
	else if ((int32_t)(bl->berth->gen - bl->from->granted) > 0)
		bl->from->granted = bl->berth->gen;
}

static void lane_forget(struct uccl_lane *l, struct uccl_berth_lane *bl)
{
	LIST_REMOVE(bl, same);
	if (bl->whole)
		TAILQ_REMOVE(&l->whole, bl, news);
	lane_put(l, &(struct uccl_letter){ .kind = UCCL_LETTER_FORGOT, .what = bl });
}

static void slice_answer(struct uccl_lane *l, void *what, uint64_t len, int err)
{
	lane_put(l, &(struct uccl_letter){ .kind = UCCL_LETTER_SENT, .what = what, .len = len, .err = err });
}

static void slice_done(struct uccl_op *op)
{
	struct uccl_mep *m = op->peer->mep;

	slice_answer(m->lane, op->context, op->len, op->err);
	uccl_pool_put(&m->op_pool, op);
}

static const struct msg_tx_ops slice_tx_ops = { .submit = NULL };

static void lane_send(struct uccl_mep *m, const struct uccl_letter *l)
{
	struct uccl_peer *p = l->who;
	struct uccl_op *op = p->open ? uccl_pool_get(&m->op_pool) : NULL;

	if (!op) {
		slice_answer(m->lane, l->what, l->len, p->dead ? p->dead : FI_ENOMEM);
		return;
	}
	op->type = UCCL_OP_SEND;
	op->tx = &slice_tx_ops;
	op->peer = p;
	op->context = l->what;
	op->done = slice_done;
	op->iov[0] = (struct iovec){ .iov_base = l->at, .iov_len = l->len };
	op->iov_count = 1;
	op->len = l->len;
	op->wait = MSG_WAIT_BULK;
	op->bulk.rtype = l->id ? UCCL_REC_DATA : UCCL_REC_EAGER;
	op->bulk.bulk = true;
	op->bulk.want_ack = true;
	op->bulk.iov = op->iov;
	op->bulk.iov_count = 1;
	op->bulk.len = l->len;
	op->bulk.more = l->more;
	if (l->id) {
		uccl_rec_set_bulk(op->bulk.rec, l->id, l->gen, l->off);
	} else {
		uccl_rec_set_bulk(op->bulk.rec, l->gen, 0, l->off);
		uccl_put64(op->bulk.rec + 16, l->off + l->len + l->more);
	}
	TAILQ_INSERT_TAIL(&p->sends, op, link);
	uccl_flow_submit(&p->flow, &op->bulk);
	m->ops->ready(p);
}

int uccl_lane_poll(struct uccl_mep *m, uint64_t now)
{
	struct uccl_lane *lane = m->lane;
	struct uccl_letter l;
	int n = 0;

	for (; uccl_mailbox_take(&lane->line->down, &l); n++)
		switch (l.kind) {
		case UCCL_LETTER_MEET:
			lane_meet(m, l.who, now);
			break;
		case UCCL_LETTER_PART:
			lane_part(m, l.who, now);
			break;
		case UCCL_LETTER_LAND:
			lane_land(m, l.what);
			break;
		case UCCL_LETTER_FORGET:
			lane_forget(lane, l.what);
			break;
		default:
			lane_send(m, &l);
			break;
		}
	return n;
}

/* Answers have the other half. */
static bool news_room(struct uccl_lane *l)
{
	return uccl_mailbox_room(&l->line->up) > UCCL_LINE_LETTERS / 2;
}

void uccl_lane_tell(struct uccl_mep *m)
{
	struct uccl_lane *l = m->lane;
	struct uccl_berth_lane *bl;
	struct uccl_way *w;

	while ((w = TAILQ_FIRST(&l->news)) && news_room(l)) {
		struct uccl_letter letter = { .kind = UCCL_LETTER_ENDED, .who = w, .err = w->err };

		if (w->opened)
			letter.kind = UCCL_LETTER_OPENED;
		lane_put(l, &letter);
		if (w->opened && w->ended) {
			w->opened = false;
			continue;
		}
		w->opened = w->ended = w->in_news = false;
		TAILQ_REMOVE(&l->news, w, news);
	}
	while ((bl = TAILQ_FIRST(&l->whole)) && news_room(l)) {
		lane_put(l, &(struct uccl_letter){ .kind = UCCL_LETTER_UNITS, .what = bl, .len = bl->whole });
		bl->whole = 0;
		TAILQ_REMOVE(&l->whole, bl, news);
	}
}

/*
 * Home lets us before it tells the peer, so what is not in the table is in the mailbox, if it is anywhere. Other
 * letters there must wait: one of them may end the flow that this payload came by. PROTOCOL R184
 */
static struct uccl_berth_lane *berth_find(struct uccl_peer *p, uint64_t key)
{
	struct uccl_lane *l = p->mep->lane;
	const struct uccl_letter *letter;
	struct uccl_berth_lane *bl;

	LIST_FOREACH(bl, &l->berths[lane_slot(key)], same)
		if (bl->key == key && bl->from == p)
			return bl;
	for (uint32_t i = 0; (letter = uccl_mailbox_look(&l->line->down, i)); i++) {
		bl = letter->kind == UCCL_LETTER_LAND ? letter->what : NULL;
		if (bl && bl->key == key && bl->from == p) {
			lane_land(p->mep, bl);
			return bl;
		}
	}
	return NULL;
}

enum uccl_drop msg_lane_data(struct uccl_peer *p, const struct uccl_chunk_in *in)
{
	uint32_t id = uccl_get32(in->rec), gen = uccl_get32(in->rec + 4);
	/* Without a handle it comes ahead of CTS, and in another record. */
	struct uccl_berth_lane *bl = id ? berth_find(p, msg_berth_key(id, gen)) : NULL;

	if (bl)
		return lane_put_in(p->mep, bl, uccl_get64(in->rec + 8), in);
	/* Home has taken back what it had granted: messages are granted in their order, nearly. PROTOCOL R315 */
	return id && (int32_t)(p->granted - gen) >= 0 ? UCCL_DROP_UNWANTED : UCCL_DROP_HANDLE;
}

enum uccl_drop msg_lane_ahead(struct uccl_peer *p, const struct uccl_chunk_in *in)
{
	uint64_t off = uccl_get64(in->rec + 8), total = uccl_get64(in->rec + 16);
	uint64_t key = msg_berth_key(0, uccl_get32(in->rec));
	struct uccl_berth_lane *bl;
	enum uccl_drop reason;

	/* Of whom home does not know nothing may come. */
	if (!peer_way(p))
		return UCCL_DROP_HANDLE;
	if (!in->len || total > UCCL_HEAD_MAX || off >= total || in->len > total - off)
		return UCCL_DROP_RANGE;
	bl = berth_find(p, key);
	if (bl)
		return total == bl->berth->limit ? lane_put_in(p->mep, bl, off, in) : UCCL_DROP_RANGE;
	reason = msg_park(p->mep->lane->line, p, in);
	/* Home wakes a lane that has something there: it may have looked just before. See may_lie(). PROTOCOL R267 */
	if (reason == UCCL_DROP_COUNT)
		berth_find(p, key);
	return reason;
}

static enum uccl_drop lane_deliver(struct uccl_flow *f, const struct uccl_chunk_in *in, uint64_t now)
{
	(void)now;
	if (in->placed || (in->rtype != UCCL_REC_DATA && in->rtype != UCCL_REC_EAGER))
		return UCCL_DROP_STATE;
	return in->rtype == UCCL_REC_DATA ? msg_lane_data(f->user, in) : msg_lane_ahead(f->user, in);
}

static void lane_acked(struct uccl_flow *f, struct uccl_item *item, uint64_t now)
{
	(void)f;
	(void)now;
	msg_tx_acked(item);
}

/* Lanes write nothing directly, so there are no doubts and no fences. */
const struct uccl_flow_ops uccl_lane_flow_ops = { .deliver = lane_deliver, .acked = lane_acked };
