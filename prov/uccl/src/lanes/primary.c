/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "lanes/primary.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "base/units.h"
#include "msg/recv/msg_rx.h"
#include "msg/recv/unexpected.h"

/* A peer that does not want payload by lanes now may want it again: for that one message waits for CTS. */
#define REFUSED_MOST UCCL_NS_PER_S

void primary_init(struct uccl_msg_ep *m, const struct uccl_lanes_ops *ops, struct uccl_lanes *l,
		  struct uccl_lane_channel *const *channel, uint8_t n)
{
	*l = (struct uccl_lanes){ .n = n };
	/* Half of what may be held: the rest is for what has an envelope. */
	m->unplaced.max = msg_unexpected_limit(m) / 2;
	for (uint8_t k = 0; k < n; k++) {
		l->channel[k] = channel[k];
		channel[k]->unplaced = &m->unplaced;
	}
	TAILQ_INIT(&l->striped);
	m->lanes = l;
	m->lanes_ops = ops;
}

int primary_peer_add(struct uccl_peer *p, uint8_t k, const struct uccl_addr *addr, bool connect)
{
	struct uccl_lanes *l = p->msg_ep->lanes;
	struct uccl_lane_peer *w;

	if (k >= l->n || p->dead || (p->lanes.peers && p->lanes.peers[k]))
		return -FI_EINVAL;
	if (!p->lanes.peers && !(p->lanes.peers = calloc(l->n, sizeof(struct uccl_lane_peer *))))
		return -FI_ENOMEM;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -FI_ENOMEM;
	w->lane = k;
	w->addr = *addr;
	w->connect = connect;
	w->peer = p;
	if (!lane_channel_try(l->channel[k], &(struct uccl_lane_cmd){.kind = UCCL_LANE_PEER_ADD, .who = w}, true)) {
		free(w);
		return -FI_EAGAIN;
	}
	p->lanes.peers[k] = w;
	return 0;
}

void primary_peer_del(struct uccl_peer *p)
{
	struct uccl_lanes *l = p->msg_ep->lanes;

	for (uint8_t k = 0; p->lanes.peers && k < l->n; k++) {
		struct uccl_lane_peer *w = p->lanes.peers[k];

		if (!w)
			continue;
		w->peer = NULL;
		w->cmd.cmd = (struct uccl_lane_cmd){.kind = UCCL_LANE_PEER_DEL, .who = w};
		lane_channel_send(l->channel[k], &w->cmd);
	}
	free(p->lanes.peers);
	p->lanes.peers = NULL;
}

/* There is payload for lanes. False: they are left now. */
static bool lanes_wanted(struct uccl_lanes *l)
{
	if (lateness_uses(&l->lateness))
		return true;
	lateness_want(&l->lateness);
	return false;
}

/* A write that goes to one lane whole, as many others are under way. PROTOCOL R407 */
static bool rx_short_write(const struct uccl_msg_rx *rx)
{
	return rx->serve && rx->env.len <= UCCL_ORDER_MAX;
}

/* Of what behind its envelope lanes may bring a message. */
static uint64_t lanes_least(const struct uccl_msg_rx *rx)
{
	const struct uccl_peer *p = rx->peer;

	if (rx_short_write(rx))
		return 1;
	if (p->short_stripes)
		return UCCL_LANES_MIN;
	return p->msg_ep->predict.stream && p->msg_ep->predict.stream != rx ? UCCL_LANES_BESIDE : UCCL_LANES_LONG;
}

uint64_t primary_rx_post(struct uccl_msg_rx *rx, uint8_t *to, uint64_t from, uint64_t limit)
{
	struct uccl_peer *p = rx->peer;
	struct uccl_lanes *l = p->msg_ep->lanes;
	struct uccl_reassembly *b;
	uint32_t nposted = 0, most;

	if (limit <= from || limit - from < lanes_least(rx))
		return 0;
	if (!lanes_wanted(l))
		return UCCL_CTS_LANES;
	b = reassembly_new(to, from, limit, lanes_stripe_bytes(limit - from, p->short_stripes), rx->id,
			   (uint32_t)rx->mseq, l->n);
	if (!b)
		return 0;
	most = rx_short_write(rx) ? 1 : b->nstripes;
	b->sole = most == 1;
	/* No more of them than can bring something, each in its turn. */
	for (uint8_t i = 0; i < l->n && nposted < most; i++) {
		uint8_t k = (uint8_t)((p->lanes.next + i) % l->n);
		struct uccl_lane_peer *w = p->lanes.peers[k];
		struct uccl_lane_cmd cmd = {.kind = UCCL_LANE_RX_POST};

		if (!w || !w->worker_peer)
			continue;
		cmd.what = reassembly_lane(b, k, w->worker_peer);
		if (lane_channel_try(l->channel[k], &cmd, false)) {
			b->known_by |= (uint16_t)(1u << k);
			nposted++;
		}
	}
	p->lanes.next = (uint8_t)((p->lanes.next + nposted) % l->n);
	if (!b->known_by) {
		free(b);
		return 0;
	}
	b->rx = rx;
	rx->lanes.rest = b;
	return UCCL_CTS_LANES | b->known_by;
}

uint16_t primary_of_peer(const struct uccl_peer *p)
{
	uint16_t there = 0;

	for (uint8_t k = 0; k < p->msg_ep->lanes->n; k++)
		if (p->lanes.peers[k] && p->lanes.peers[k]->worker_peer)
			there |= (uint16_t)(1u << k);
	return there;
}

uint64_t primary_offer(const struct uccl_peer *p)
{
	return UCCL_CTS_LANES | (lanes_wanted(p->msg_ep->lanes) ? primary_of_peer(p) : 0);
}

bool primary_rx_post_unsolicited(struct uccl_msg_rx *rx)
{
	struct uccl_peer *p = rx->peer;
	struct uccl_lanes *l = p->msg_ep->lanes;
	/* What of it is here came in its envelope. */
	uint64_t from = rx->arrived.got;
	struct uccl_reassembly *b =
		reassembly_new(NULL, from, rx->arrived.eager, lanes_stripe_bytes(rx->arrived.eager - from, true), 0,
			       (uint32_t)rx->mseq, l->n);

	if (!b)
		return false;
	b->room = 0;
	if (rx->hold.buf) {
		b->to = rx->hold.buf + from;
		b->room = rx->hold.buf_len;
	} else if (rx->place.iov) {
		b->iov = rx->place.iov;
		b->niov = rx->place.niov;
		b->room = rx->place.limit;
	}
	b->known_by = rx->lanes.senders;
	b->rx = rx;
	rx->lanes.unsolicited = b;
	for (uint8_t k = 0; k < l->n; k++) {
		struct uccl_reassembly_lane *bl;

		if (!(b->known_by & 1u << k))
			continue;
		bl = reassembly_lane(b, k, p->lanes.peers[k]->worker_peer);
		bl->post_cmd.cmd = (struct uccl_lane_cmd){.kind = UCCL_LANE_RX_POST, .what = bl};
		lane_channel_send(l->channel[k], &bl->post_cmd);
	}
	return true;
}

void primary_rx_close(struct uccl_msg_rx *rx, struct uccl_reassembly **at)
{
	struct uccl_lanes *l = rx->peer->msg_ep->lanes;
	struct uccl_reassembly *b = *at;

	reassembly_close(b, l->channel[0]->rest);
	*at = NULL;
	b->rx = NULL;
	for (uint8_t k = 0; k < l->n; k++) {
		if (!(b->known_by & 1u << k))
			continue;
		b->lane[k].cancel_cmd.cmd = (struct uccl_lane_cmd){.kind = UCCL_LANE_RX_CANCEL, .what = &b->lane[k]};
		lane_channel_send(l->channel[k], &b->lane[k].cancel_cmd);
	}
	if (!b->known_by)
		free(b);
}

/* The lane with the least to send, of those that reach the peer and are in `room`, by bits; NULL: none is. */
static struct uccl_lane_peer *lane_least_loaded(const struct uccl_striped *s, uint16_t room)
{
	const struct uccl_peer *p = s->op->peer;
	const struct uccl_lanes *l = p->msg_ep->lanes;
	struct uccl_lane_peer *best = NULL;

	for (uint8_t k = 0; k < l->n; k++) {
		struct uccl_lane_peer *w = p->lanes.peers[k];

		if (w && w->open && s->lanes & room & 1u << k &&
		    (!best || l->channel[k]->bytes < l->channel[best->lane]->bytes))
			best = w;
	}
	return best;
}

/* Does any of them reach the peer? */
static bool lane_peers_any(const struct uccl_peer *p, uint64_t lanes)
{
	for (uint8_t k = 0; k < p->msg_ep->lanes->n; k++)
		if (p->lanes.peers[k] && p->lanes.peers[k]->open && lanes & 1u << k)
			return true;
	return false;
}

/*
 * Hand out a stripe to a lane that is in `room`, or take that lane out if it takes no command now; also if it is full
 * then. False: no such lane reaches the peer.
 */
static bool stripe_out(struct uccl_striped *s, uint16_t *room)
{
	struct uccl_op *op = s->op;
	uint64_t n = uccl_min(s->limit - s->at, s->stripe);
	struct uccl_lane_peer *w = lane_least_loaded(s, *room);
	struct uccl_lane_channel *channel;
	struct uccl_lane_cmd cmd;

	if (!w)
		return false;
	channel = op->peer->msg_ep->lanes->channel[w->lane];
	cmd = (struct uccl_lane_cmd){
		.kind = UCCL_LANE_TX_POST,
		.who = w->worker_peer,
		.what = s,
		.at = (uint8_t *)op->iov[0].iov_base + s->at,
		.off = s->at,
		.len = n,
		.more = s->limit - s->at - n,
		.id = s->rx,
		.gen = op->tx.mseq,
	};
	if (!lane_channel_try(channel, &cmd, true)) {
		*room &= (uint16_t)~(1u << w->lane);
		return true;
	}
	if (++channel->stripes == UCCL_LANE_CHANNEL_STRIPES)
		*room &= (uint16_t)~(1u << w->lane);
	channel->bytes += n;
	s->out++;
	s->readers |= (uint16_t)(1u << w->lane);
	s->at += n;
	return true;
}

/* Lanes that have room for another stripe, by bits. */
static uint16_t lanes_with_room(const struct uccl_lanes *l)
{
	uint16_t room = 0;

	for (uint8_t k = 0; k < l->n; k++)
		if (l->channel[k]->stripes < UCCL_LANE_CHANNEL_STRIPES)
			room |= (uint16_t)(1u << k);
	return room;
}

void primary_lateness(struct uccl_msg_ep *m, uint64_t now)
{
	struct uccl_lanes *l = m->lanes;
	bool tried = true;
	uint64_t late = 0;

	l->now = now;
	for (uint8_t k = 0; k < l->n; k++) {
		/* A lane says how late it is before it says that it is up. */
		tried = lane_channel_tried(l->channel[k]) && tried;
		late = uccl_max(late, lane_channel_lateness(l->channel[k]));
	}
	if (late)
		m->stats->lanes_left += lateness_late(&l->lateness, late, now);
	else if (tried)
		lateness_tried(&l->lateness, now);
	if (!lateness_try(&l->lateness, now))
		return;
	for (uint8_t k = 0; k < l->n; k++)
		lane_channel_try_wake(l->channel[k]);
}

void primary_more(struct uccl_msg_ep *m)
{
	uint16_t room = lanes_with_room(m->lanes);
	struct uccl_striped *s, *next;

	/* Many may wait: those of lanes that are full are not looked at twice. */
	for (s = TAILQ_FIRST(&m->lanes->striped); s && room; s = next) {
		next = TAILQ_NEXT(s, link);
		if (!(s->lanes & room))
			continue;
		while (s->at < s->limit && stripe_out(s, &room))
			;
		if (s->at == s->limit)
			TAILQ_REMOVE(&m->lanes->striped, s, link);
	}
}

bool primary_may(const struct uccl_op *op)
{
	const struct uccl_peer *p = op->peer;

	/* Direct writes cost less than packets, and the primary makes them. */
	return p->short_stripes && op->tx.id && op->iov_count == 1 &&
	       op->len >= (op->type == UCCL_OP_WRITE ? UCCL_LANES_WRITE : UCCL_LANES_FIRST) &&
	       !op->device && !op->busy && !p->flow.cfg.write.bytes && lane_peers_any(p, UINT16_MAX) &&
	       uccl_pause_over(&p->lanes.refused, p->msg_ep->lanes->now) && lanes_wanted(p->msg_ep->lanes);
}

void primary_named(struct uccl_peer *p, uint64_t lanes)
{
	bool refused = !(uint16_t)lanes;

	if (!(lanes & UCCL_CTS_LANES))
		return;
	/* What was under way when the pause began is refused, too, and says nothing new. */
	if (refused && uccl_pause_over(&p->lanes.refused, p->msg_ep->lanes->now))
		uccl_pause_begin(&p->lanes.refused, UCCL_LATENESS_PAUSE, REFUSED_MOST, p->msg_ep->lanes->now);
	else if (!refused)
		uccl_pause_forget(&p->lanes.refused);
	for (uint8_t k = 0; k < p->msg_ep->lanes->n; k++)
		if (p->lanes.peers[k])
			p->lanes.peers[k]->named = (p->lanes.peers[k]->named && !refused) || lanes & 1u << k;
}

uint16_t primary_for_unsolicited(struct uccl_peer *p, uint64_t bytes)
{
	const struct uccl_lanes *l = p->msg_ep->lanes;
	uint32_t stripe = lanes_stripe_bytes(bytes, true);
	uint16_t picked = 0;

	for (uint64_t n = (bytes + stripe - 1) / stripe; n; n--) {
		struct uccl_lane_peer *best = NULL;

		for (uint8_t i = 0; i < l->n; i++) {
			struct uccl_lane_peer *w = p->lanes.peers[(p->lanes.next + i) % l->n];

			if (w && w->open && w->named && !(picked & 1u << w->lane) &&
			    (!best || l->channel[w->lane]->bytes < l->channel[best->lane]->bytes))
				best = w;
		}
		if (!best)
			break;
		picked |= (uint16_t)(1u << best->lane);
		p->lanes.next = (uint8_t)((best->lane + 1u) % l->n);
	}
	return picked;
}

bool primary_send(struct uccl_op *op, uint64_t at, uint64_t limit, uint32_t rx, uint64_t lanes, uint8_t wait)
{
	struct uccl_peer *p = op->peer;
	struct uccl_msg_ep *m = p->msg_ep;
	struct uccl_striped *s;

	if (!(lanes & UCCL_CTS_LANES) || op->iov_count != 1 ||
	    !lane_peers_any(p, lanes) || !lanes_wanted(m->lanes))
		return false;
	s = calloc(1, sizeof(*s));
	if (!s)
		return false;
	s->op = op;
	s->self = rx ? &op->tx.striped.rest : &op->tx.striped.unsolicited;
	s->wait = wait;
	s->at = at;
	s->limit = limit;
	s->rx = rx;
	s->stripe = lanes_stripe_bytes(limit - at, p->short_stripes);
	s->lanes = (uint16_t)lanes;
	*s->self = s;
	p->lanes.nstriped++;
	/* What lanes have no room for waits for them: the primary has enough to do. */
	TAILQ_INSERT_TAIL(&m->lanes->striped, s, link);
	primary_more(m);
	return true;
}

bool primary_end(struct uccl_striped *s)
{
	struct uccl_peer *p = s->op->peer;

	if (s->at < s->limit)
		TAILQ_REMOVE(&p->msg_ep->lanes->striped, s, link);
	s->at = s->limit;
	if (s->out || s->asked)
		return false;
	*s->self = NULL;
	p->lanes.nstriped--;
	free(s);
	return true;
}

/* The lanes that have stripes of it send no more of them, and from `due` on read nothing of them. */
static void stripes_abort(struct uccl_striped *s, uint64_t due)
{
	const struct uccl_peer *p = s->op->peer;
	struct uccl_lanes *l = p->msg_ep->lanes;
	struct uccl_lane_cmd cmd = {.kind = UCCL_LANE_TX_ABORT, .what = s, .off = due};

	for (uint8_t k = 0; p->lanes.peers && k < l->n; k++) {
		if (!(s->readers & ~s->asked & 1u << k))
			continue;
		cmd.who = p->lanes.peers[k]->worker_peer;
		cmd.id = k;
		if (lane_channel_try(l->channel[k], &cmd, true))
			s->asked |= (uint16_t)(1u << k);
	}
}

bool primary_reads(const struct uccl_op *op)
{
	const struct uccl_striped *rest = op->tx.striped.rest, *unsolicited = op->tx.striped.unsolicited;

	return (rest && rest->readers) || (unsolicited && unsolicited->readers);
}

uint8_t primary_stop(struct uccl_op *op, uint64_t due)
{
	struct uccl_striped *of[] = {op->tx.striped.rest, op->tx.striped.unsolicited};
	uint8_t left = 0;

	for (size_t i = 0; i < uccl_array_len(of); i++) {
		uint8_t wait = of[i] ? of[i]->wait : 0;

		if (!of[i] || primary_end(of[i]))
			continue;
		left |= wait;
		if (due != UCCL_NEVER)
			stripes_abort(of[i], due);
	}
	return left;
}
