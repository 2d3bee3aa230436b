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

/* Perhaps a second time: see berth_find(). */
static void lane_land(struct uccl_lane *l, struct uccl_berth_lane *bl)
{
	if (!bl->known)
		LIST_INSERT_HEAD(&l->berths[(bl->key >> 32) % UCCL_LANE_TABLE], bl, same);
	bl->known = true;
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
	op->bulk.rtype = UCCL_REC_DATA;
	op->bulk.bulk = true;
	op->bulk.want_ack = true;
	op->bulk.iov = op->iov;
	op->bulk.iov_count = 1;
	op->bulk.len = l->len;
	op->bulk.more = l->more;
	uccl_rec_set_bulk(op->bulk.rec, l->id, l->gen, l->off);
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
			lane_land(lane, l.what);
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
static struct uccl_berth_lane *berth_find(struct uccl_lane *l, uint64_t key)
{
	const struct uccl_letter *letter;
	struct uccl_berth_lane *bl;

	LIST_FOREACH(bl, &l->berths[(key >> 32) % UCCL_LANE_TABLE], same)
		if (bl->key == key)
			return bl;
	for (uint32_t i = 0; (letter = uccl_mailbox_look(&l->line->down, i)); i++) {
		bl = letter->kind == UCCL_LETTER_LAND ? letter->what : NULL;
		if (bl && bl->key == key) {
			lane_land(l, bl);
			return bl;
		}
	}
	return NULL;
}

enum uccl_drop msg_lane_data(struct uccl_peer *p, const struct uccl_chunk_in *in)
{
	uint64_t key = (uint64_t)uccl_get32(in->rec) << 32 | uccl_get32(in->rec + 4);
	struct uccl_lane *l = p->mep->lane;
	struct uccl_berth_lane *bl = berth_find(l, key);
	enum uccl_drop reason;
	bool whole;

	if (!bl || bl->from != p)
		return UCCL_DROP_HANDLE;
	reason = msg_berth_put(bl->berth, l->number, uccl_get64(in->rec + 8), in, p->mep->cover_key, &whole);
	if (whole && !bl->whole++)
		TAILQ_INSERT_TAIL(&l->whole, bl, news);
	return reason;
}

static enum uccl_drop lane_deliver(struct uccl_flow *f, const struct uccl_chunk_in *in, uint64_t now)
{
	(void)now;
	return in->rtype == UCCL_REC_DATA && !in->placed ? msg_lane_data(f->user, in) : UCCL_DROP_STATE;
}

static void lane_acked(struct uccl_flow *f, struct uccl_item *item, uint64_t now)
{
	(void)f;
	(void)now;
	msg_tx_acked(item);
}

/* Lanes write nothing directly, so there are no doubts and no fences. */
const struct uccl_flow_ops uccl_lane_flow_ops = { .deliver = lane_deliver, .acked = lane_acked };
