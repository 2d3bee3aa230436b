/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "msg/lanes.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "base/units.h"
#include "msg/rx.h"
#include "msg/tx.h"

/* The end of one way is the end of the peer: what was on it may have come or not. PROTOCOL R186 */
static void way_ended(struct uccl_way *w, int err)
{
	bool was = w->open;

	w->open = false;
	if (w->peer && was)
		w->peer->mep->ops->broken(w->peer, err == FI_ENOMEM ? err : FI_ECONNABORTED);
}

static void units_whole(struct uccl_berth *b, uint64_t n, uint64_t now)
{
	struct uccl_msg_rx *rx = b->rx;

	b->whole += (uint32_t)n;
	if (!rx || b->whole < b->units)
		return;
	/* Its head may still be on its way; the last of it looks whether all is there. */
	if (!msg_rx_covers(rx, b->from, b->limit - b->from, msg_rx_need(rx)))
		return;
	rx->got += b->limit - b->from;
	rx->peer->mep->stats->rx_lane_bytes += b->limit - b->from;
	rx->hi = uccl_max(rx->hi, b->limit);
	if (b == rx->ahead) {
		msg_lanes_shut(rx, &rx->ahead);
		msg_rx_kept(rx);
	} else {
		rx->asked += b->limit - b->from;
		msg_lanes_shut(rx, &rx->berth);
	}
	msg_rx_check(rx, now);
}

static void berth_forgot(struct uccl_berth_lane *bl)
{
	struct uccl_berth *b = bl->berth;

	b->told &= (uint16_t)~(1u << (bl - b->lane));
	if (!b->told)
		free(b);
}

static void slice_sent(struct uccl_line *line, const struct uccl_letter *l)
{
	struct uccl_sliced *s = l->what;
	struct uccl_op *op = s->op;
	struct uccl_peer *p = op->peer;
	uint8_t wait = s->wait;

	line->slices--;
	line->bytes -= l->len;
	s->out--;
	if (!l->err)
		p->mep->stats->tx_lane_bytes += l->len;
	else if (!op->fail)
		op->fail = l->err;
	/* The peer waits for bytes that will not come, unless it has ended. PROTOCOL R312 */
	if (l->err && !p->dead)
		p->mep->ops->broken(p, l->err);
	if ((s->at == s->limit || op->fail) && msg_lanes_end(s))
		msg_tx_arrived(op, wait);
}

static void letter_read(struct uccl_line *line, const struct uccl_letter *l, uint64_t now)
{
	struct uccl_way *w = l->who;

	switch (l->kind) {
	case UCCL_LETTER_MET:
		line->unanswered--;
		w->there = l->what;
		break;
	case UCCL_LETTER_OPENED:
		w->open = w->peer;
		break;
	case UCCL_LETTER_ENDED:
		way_ended(w, l->err);
		break;
	case UCCL_LETTER_PARTED:
		line->unanswered--;
		free(w);
		break;
	case UCCL_LETTER_UNITS:
		units_whole(((struct uccl_berth_lane *)l->what)->berth, l->len, now);
		break;
	case UCCL_LETTER_FORGOT:
		line->unanswered--;
		berth_forgot(l->what);
		break;
	default:
		line->unanswered--;
		slice_sent(line, l);
		break;
	}
}

int uccl_lanes_poll(struct uccl_mep *m, uint64_t now)
{
	struct uccl_lanes *lanes = m->lanes;
	struct uccl_letter l;
	int n = 0;

	for (uint8_t k = 0; k < lanes->n; k++) {
		struct uccl_line *line = lanes->line[k];

		while (uccl_mailbox_take(&line->up, &l)) {
			letter_read(line, &l, now);
			n++;
		}
		msg_line_go(line);
	}
	if (n || !TAILQ_EMPTY(&lanes->sliced))
		msg_lanes_more(m);
	return n;
}

bool uccl_lanes_waits(const struct uccl_mep *m)
{
	bool idle = true;

	for (uint8_t k = 0; k < m->lanes->n; k++) {
		if (!TAILQ_EMPTY(&m->lanes->line[k]->later))
			return true;
		idle = idle && !m->lanes->line[k]->slices;
	}
	/* Nothing is at lanes whose end would tell that there is room. */
	return idle && !TAILQ_EMPTY(&m->lanes->sliced);
}

/* As the lane would have answered: it is not there any more. */
static void letter_unread(struct uccl_line *line, const struct uccl_letter *l, uint64_t now)
{
	struct uccl_letter answer = *l;

	if (l->kind == UCCL_LETTER_LAND)
		return;
	if (l->kind == UCCL_LETTER_MEET) {
		line->unanswered--;
		return;
	}
	answer.kind = l->kind == UCCL_LETTER_PART ? UCCL_LETTER_PARTED :
		      l->kind == UCCL_LETTER_FORGET ? UCCL_LETTER_FORGOT : UCCL_LETTER_SENT;
	answer.err = FI_ECANCELED;
	letter_read(line, &answer, now);
}

void uccl_lanes_fini(struct uccl_mep *m, uint64_t now)
{
	struct uccl_lanes *lanes = m->lanes;
	struct uccl_letter l;

	for (uint8_t k = 0; k < lanes->n; k++) {
		struct uccl_line *line = lanes->line[k];

		do {
			while (uccl_mailbox_take(&line->up, &l))
				letter_read(line, &l, now);
			while (uccl_mailbox_take(&line->down, &l))
				letter_unread(line, &l, now);
			msg_line_go(line);
		} while (uccl_mailbox_look(&line->down, 0));
	}
}
