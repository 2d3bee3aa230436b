/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "lanes/lane_replies.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "base/units.h"
#include "msg/recv/msg_rx.h"
#include "msg/send/msg_tx.h"

/* A peer ends with the first of its lanes that ends: what this lane carried may have come or not. PROTOCOL R186 */
static void lane_peer_ended(struct uccl_lane_peer *w, int err)
{
	bool was = w->open;

	w->open = false;
	if (w->peer && was)
		w->peer->msg_ep->ops->broken(w->peer, err == FI_ENOMEM ? err : FI_ECONNABORTED);
}

static void stripes_whole(const struct uccl_lane_cmd *l, uint64_t now)
{
	struct uccl_reassembly_lane *bl = l->what;
	struct uccl_reassembly *b = bl->reassembly;
	struct uccl_msg_rx *rx = b->rx;

	b->whole += (uint32_t)l->len;
	if (!rx || b->whole < b->nstripes)
		return;
	/* The lane that had it knows it no more: it is freed with its end. */
	if (l->id)
		b->known_by = 0;
	/* Unsolicited data may still be missing; the last of both completes the message. */
	if (!msg_rx_range_new(rx, b->from, b->limit - b->from, msg_rx_need(rx)))
		return;
	rx->peer->msg_ep->stats->rx_lane_bytes += b->limit - b->from;
	lateness_carried(&rx->peer->msg_ep->lanes->lateness, b->limit - b->from);
	msg_rx_striped(rx, b->from, b->limit, b != rx->lanes.unsolicited);
	if (b == rx->lanes.unsolicited) {
		primary_rx_close(rx, &rx->lanes.unsolicited);
		msg_rx_kept(rx);
	} else {
		primary_rx_close(rx, &rx->lanes.rest);
	}
	msg_rx_check(rx, now);
}

static void reassembly_cancelled(struct uccl_reassembly_lane *bl)
{
	struct uccl_reassembly *b = bl->reassembly;

	b->known_by &= (uint16_t) ~(1u << (bl - b->lane));
	if (!b->known_by)
		free(b);
}

static void stripe_sent(struct uccl_lane_channel *channel, const struct uccl_lane_cmd *l)
{
	struct uccl_striped *s = l->what;
	struct uccl_op *op = s->op;
	struct uccl_peer *p = op->peer;
	uint8_t wait = s->wait;

	channel->stripes--;
	channel->bytes -= l->len;
	s->out--;
	if (!l->err) {
		p->msg_ep->stats->tx_lane_bytes += l->len;
		lateness_carried(&p->msg_ep->lanes->lateness, l->len);
	} else if (!op->tx.fail) {
		msg_op_fail(op, l->err);
	}
	/* The peer waits for bytes that will not come, unless it has ended. PROTOCOL R312 */
	if (l->err && !p->dead)
		p->msg_ep->ops->broken(p, l->err);
	if ((s->at == s->limit || op->tx.fail) && primary_end(s))
		msg_tx_arrived(op, wait);
}

static void stripes_aborted(const struct uccl_lane_cmd *l)
{
	struct uccl_striped *s = l->what;
	struct uccl_op *op = s->op;
	uint8_t wait = s->wait;

	s->asked &= (uint16_t) ~(1u << l->id);
	s->readers &= (uint16_t) ~(1u << l->id);
	if (primary_end(s))
		msg_tx_arrived(op, wait);
}

static void cmd_read(struct uccl_lane_channel *channel, const struct uccl_lane_cmd *l, uint64_t now)
{
	struct uccl_lane_peer *w = l->who;

	switch (l->kind) {
	case UCCL_LANE_PEER_ADDED:
		channel->unanswered--;
		w->worker_peer = l->what;
		break;
	case UCCL_LANE_PEER_OPENED:
		w->open = w->peer;
		break;
	case UCCL_LANE_PEER_ENDED:
		lane_peer_ended(w, l->err);
		break;
	case UCCL_LANE_PEER_DELETED:
		channel->unanswered--;
		free(w);
		break;
	case UCCL_LANE_RX_STRIPES:
		stripes_whole(l, now);
		break;
	case UCCL_LANE_RX_CANCELLED:
		channel->unanswered--;
		reassembly_cancelled(l->what);
		break;
	case UCCL_LANE_TX_ABORTED:
		channel->unanswered--;
		stripes_aborted(l);
		break;
	default:
		channel->unanswered--;
		stripe_sent(channel, l);
		break;
	}
}

int primary_poll(struct uccl_msg_ep *m, uint64_t now)
{
	struct uccl_lanes *lanes = m->lanes;
	struct uccl_lane_cmd l;
	int n = 0;

	primary_lateness(m, now);
	for (uint8_t k = 0; k < lanes->n; k++) {
		struct uccl_lane_channel *channel = lanes->channel[k];

		while (uccl_mailbox_take(&channel->up, &l)) {
			cmd_read(channel, &l, now);
			n++;
		}
		lane_channel_flush(channel);
	}
	if (n || !TAILQ_EMPTY(&lanes->striped))
		primary_more(m);
	return n;
}

bool primary_waits(const struct uccl_msg_ep *m)
{
	bool idle = true;

	for (uint8_t k = 0; k < m->lanes->n; k++) {
		if (!TAILQ_EMPTY(&m->lanes->channel[k]->later))
			return true;
		idle = idle && !m->lanes->channel[k]->stripes;
	}
	/* Nothing is at lanes whose end would tell that there is room. */
	return idle && !TAILQ_EMPTY(&m->lanes->striped);
}

/* As the lane would have answered: it is not there any more. */
static void cmd_unread(struct uccl_lane_channel *channel, const struct uccl_lane_cmd *l, uint64_t now)
{
	struct uccl_lane_cmd answer = *l;

	if (l->kind == UCCL_LANE_RX_POST)
		return;
	if (l->kind == UCCL_LANE_PEER_ADD) {
		channel->unanswered--;
		return;
	}
	answer.kind = l->kind == UCCL_LANE_PEER_DEL    ? UCCL_LANE_PEER_DELETED
		      : l->kind == UCCL_LANE_RX_CANCEL ? UCCL_LANE_RX_CANCELLED
		      : l->kind == UCCL_LANE_TX_ABORT  ? UCCL_LANE_TX_ABORTED
						       : UCCL_LANE_TX_DONE;
	answer.err = FI_ECANCELED;
	cmd_read(channel, &answer, now);
}

void primary_fini(struct uccl_msg_ep *m, uint64_t now)
{
	struct uccl_lanes *lanes = m->lanes;
	struct uccl_lane_cmd l;

	for (uint8_t k = 0; k < lanes->n; k++) {
		struct uccl_lane_channel *channel = lanes->channel[k];

		do {
			while (uccl_mailbox_take(&channel->up, &l))
				cmd_read(channel, &l, now);
			while (uccl_mailbox_take(&channel->down, &l))
				cmd_unread(channel, &l, now);
			lane_channel_flush(channel);
		} while (uccl_mailbox_peek(&channel->down, 0));
	}
}
