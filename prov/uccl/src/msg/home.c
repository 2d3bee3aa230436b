/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "msg/home.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "base/units.h"
#include "msg/rx.h"
#include "msg/unexpected.h"

void uccl_lanes_init(struct uccl_mep *m, struct uccl_lanes *l, struct uccl_line *const *line, uint8_t n)
{
	*l = (struct uccl_lanes){ .n = n };
	/* Half of what may be held: the rest is for what has an envelope. */
	m->unplaced.max = msg_held_max(m) / 2;
	for (uint8_t k = 0; k < n; k++) {
		l->line[k] = line[k];
		line[k]->unplaced = &m->unplaced;
	}
	TAILQ_INIT(&l->sliced);
	m->lanes = l;
}

int uccl_lanes_meet(struct uccl_peer *p, uint8_t k, const struct uccl_addr *addr, bool connect)
{
	struct uccl_lanes *l = p->mep->lanes;
	struct uccl_way *w;

	if (k >= l->n || p->dead || (p->ways && p->ways[k]))
		return -FI_EINVAL;
	if (!p->ways && !(p->ways = calloc(l->n, sizeof(struct uccl_way *))))
		return -FI_ENOMEM;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -FI_ENOMEM;
	w->lane = k;
	w->addr = *addr;
	w->connect = connect;
	w->peer = p;
	if (!msg_line_try(l->line[k], &(struct uccl_letter){ .kind = UCCL_LETTER_MEET, .who = w }, true)) {
		free(w);
		return -FI_EAGAIN;
	}
	p->ways[k] = w;
	return 0;
}

void msg_lanes_part(struct uccl_peer *p)
{
	struct uccl_lanes *l = p->mep->lanes;

	for (uint8_t k = 0; p->ways && k < l->n; k++) {
		struct uccl_way *w = p->ways[k];

		if (!w)
			continue;
		w->peer = NULL;
		w->note.letter = (struct uccl_letter){ .kind = UCCL_LETTER_PART, .who = w };
		msg_line_say(l->line[k], &w->note);
	}
	free(p->ways);
	p->ways = NULL;
}

/* Of what behind its envelope lanes may bring a message. */
static uint64_t lanes_least(const struct uccl_msg_rx *rx)
{
	const struct uccl_peer *p = rx->peer;

	if (p->units)
		return UCCL_LANES_MIN;
	return p->mep->stream && p->mep->stream != rx ? UCCL_LANES_BESIDE : UCCL_LANES_LONG;
}

uint64_t msg_lanes_land(struct uccl_msg_rx *rx, uint8_t *to, uint64_t from, uint64_t limit)
{
	struct uccl_peer *p = rx->peer;
	struct uccl_lanes *l = p->mep->lanes;
	struct uccl_berth *b;
	uint32_t told = 0;

	if (!p->ways || limit <= from || limit - from < lanes_least(rx))
		return 0;
	b = msg_berth_new(to, from, limit, msg_unit_bytes(limit - from, p->units), rx->id, (uint32_t)rx->mseq);
	if (!b)
		return 0;
	/* No more of them than can bring something, each in its turn. */
	for (uint8_t i = 0; i < l->n && told < b->units; i++) {
		uint8_t k = (uint8_t)((p->way_next + i) % l->n);
		struct uccl_way *w = p->ways[k];
		struct uccl_letter letter = { .kind = UCCL_LETTER_LAND };

		if (!w || !w->there)
			continue;
		letter.what = msg_berth_lane(b, k, w->there);
		if (msg_line_try(l->line[k], &letter, false)) {
			b->told |= (uint16_t)(1u << k);
			told++;
		}
	}
	p->way_next = (uint8_t)((p->way_next + told) % l->n);
	if (!b->told) {
		free(b);
		return 0;
	}
	b->rx = rx;
	rx->berth = b;
	return UCCL_CTS_LANES | b->told;
}

uint16_t msg_lanes_there(const struct uccl_peer *p)
{
	uint16_t there = 0;

	for (uint8_t k = 0; p->ways && k < p->mep->lanes->n; k++)
		if (p->ways[k] && p->ways[k]->there)
			there |= (uint16_t)(1u << k);
	return there;
}

bool msg_lanes_ahead(struct uccl_msg_rx *rx)
{
	struct uccl_peer *p = rx->peer;
	struct uccl_lanes *l = p->mep->lanes;
	/* What of it is here came in its envelope. */
	uint64_t from = rx->got;
	struct uccl_berth *b = msg_berth_new(NULL, from, rx->eager, msg_unit_bytes(rx->eager - from, true), 0,
					     (uint32_t)rx->mseq);

	if (!b)
		return false;
	b->room = 0;
	if (rx->buf) {
		b->to = rx->buf + from;
		b->room = rx->buf_len;
	} else if (rx->iov) {
		b->iov = rx->iov;
		b->niov = rx->niov;
		b->room = rx->limit;
	}
	b->told = rx->lanes;
	b->rx = rx;
	rx->ahead = b;
	for (uint8_t k = 0; k < l->n; k++) {
		struct uccl_berth_lane *bl;

		if (!(b->told & 1u << k))
			continue;
		bl = msg_berth_lane(b, k, p->ways[k]->there);
		bl->land.letter = (struct uccl_letter){ .kind = UCCL_LETTER_LAND, .what = bl };
		msg_line_say(l->line[k], &bl->land);
	}
	return true;
}

void msg_lanes_shut(struct uccl_msg_rx *rx, struct uccl_berth **at)
{
	struct uccl_lanes *l = rx->peer->mep->lanes;
	struct uccl_berth *b = *at;

	if (!b)
		return;
	msg_berth_shut(b, l->line[0]->rest);
	*at = NULL;
	b->rx = NULL;
	for (uint8_t k = 0; k < l->n; k++) {
		if (!(b->told & 1u << k))
			continue;
		b->lane[k].note.letter = (struct uccl_letter){ .kind = UCCL_LETTER_FORGET, .what = &b->lane[k] };
		msg_line_say(l->line[k], &b->lane[k].note);
	}
}

/* The lane with the least to send, of those that reach the peer and have room; NULL: none has. */
static struct uccl_way *way_best(const struct uccl_sliced *s)
{
	const struct uccl_peer *p = s->op->peer;
	const struct uccl_lanes *l = p->mep->lanes;
	struct uccl_way *best = NULL;

	for (uint8_t k = 0; k < l->n; k++) {
		struct uccl_way *w = p->ways[k];

		if (w && w->open && s->lanes & 1u << k && l->line[k]->slices < UCCL_LINE_SLICES &&
		    (!best || l->line[k]->bytes < l->line[best->lane]->bytes))
			best = w;
	}
	return best;
}

/* Does any of them reach the peer? */
static bool ways_any(const struct uccl_peer *p, uint64_t lanes)
{
	for (uint8_t k = 0; k < p->mep->lanes->n; k++)
		if (p->ways[k] && p->ways[k]->open && lanes & 1u << k)
			return true;
	return false;
}

/* Hand out one slice. False: no lane takes it now. */
static bool slice_out(struct uccl_sliced *s)
{
	struct uccl_op *op = s->op;
	uint64_t n = uccl_min(s->limit - s->at, s->unit);
	struct uccl_way *w = way_best(s);
	struct uccl_line *line;
	struct uccl_letter letter;

	if (!w)
		return false;
	line = op->peer->mep->lanes->line[w->lane];
	letter = (struct uccl_letter){
		.kind = UCCL_LETTER_SEND,
		.who = w->there,
		.what = s,
		.at = (uint8_t *)op->iov[0].iov_base + s->at,
		.off = s->at,
		.len = n,
		.more = s->limit - s->at - n,
		.id = s->rx,
		.gen = op->mseq,
	};
	if (!msg_line_try(line, &letter, true))
		return false;
	line->slices++;
	line->bytes += n;
	s->out++;
	s->at += n;
	return true;
}

void msg_lanes_more(struct uccl_mep *m)
{
	struct uccl_sliced *s, *next;

	for (s = TAILQ_FIRST(&m->lanes->sliced); s; s = next) {
		next = TAILQ_NEXT(s, link);
		while (s->at < s->limit && slice_out(s))
			;
		if (s->at == s->limit)
			TAILQ_REMOVE(&m->lanes->sliced, s, link);
	}
}

bool msg_lanes_may(const struct uccl_op *op)
{
	const struct uccl_peer *p = op->peer;

	/* Direct writes cost less than packets, and home makes them. */
	return p->ways && p->units && op->id && op->iov_count == 1 && op->len >= UCCL_LANES_FIRST && !op->device &&
	       !op->busy && !p->flow.cfg.write_bytes && ways_any(p, UINT16_MAX);
}

void msg_lanes_named(struct uccl_peer *p, uint64_t lanes)
{
	for (uint8_t k = 0; p->ways && lanes & UCCL_CTS_LANES && k < p->mep->lanes->n; k++)
		if (p->ways[k] && lanes & 1u << k)
			p->ways[k]->named = true;
}

uint16_t msg_lanes_pick(struct uccl_peer *p, uint64_t bytes)
{
	const struct uccl_lanes *l = p->mep->lanes;
	uint32_t unit = msg_unit_bytes(bytes, true);
	uint16_t picked = 0;

	for (uint64_t n = (bytes + unit - 1) / unit; n; n--) {
		struct uccl_way *best = NULL;

		for (uint8_t i = 0; i < l->n; i++) {
			struct uccl_way *w = p->ways[(p->way_next + i) % l->n];

			if (w && w->open && w->named && !(picked & 1u << w->lane) &&
			    (!best || l->line[w->lane]->bytes < l->line[best->lane]->bytes))
				best = w;
		}
		if (!best)
			break;
		picked |= (uint16_t)(1u << best->lane);
		p->way_next = (uint8_t)((best->lane + 1u) % l->n);
	}
	return picked;
}

bool msg_lanes_send(struct uccl_op *op, uint64_t at, uint64_t limit, uint32_t rx, uint64_t lanes, uint8_t wait)
{
	struct uccl_peer *p = op->peer;
	struct uccl_mep *m = p->mep;
	struct uccl_sliced *s;

	if (!m->lanes || !p->ways || !(lanes & UCCL_CTS_LANES) || op->iov_count != 1 ||
	    !ways_any(p, lanes))
		return false;
	s = calloc(1, sizeof(*s));
	if (!s)
		return false;
	s->op = op;
	s->self = rx ? &op->sliced : &op->sliced_head;
	s->wait = wait;
	s->at = at;
	s->limit = limit;
	s->rx = rx;
	s->unit = msg_unit_bytes(limit - at, p->units);
	s->lanes = (uint16_t)lanes;
	*s->self = s;
	p->nsliced++;
	/* What lanes have no room for waits for them: home has enough to do. */
	TAILQ_INSERT_TAIL(&m->lanes->sliced, s, link);
	msg_lanes_more(m);
	return true;
}

bool msg_lanes_end(struct uccl_sliced *s)
{
	struct uccl_peer *p = s->op->peer;

	if (s->at < s->limit)
		TAILQ_REMOVE(&p->mep->lanes->sliced, s, link);
	s->at = s->limit;
	if (s->out)
		return false;
	*s->self = NULL;
	p->nsliced--;
	free(s);
	return true;
}

uint8_t msg_lanes_stop(struct uccl_op *op)
{
	struct uccl_sliced *of[] = { op->sliced, op->sliced_head };
	uint8_t left = 0;

	for (size_t i = 0; i < uccl_array_len(of); i++) {
		uint8_t wait = of[i] ? of[i]->wait : 0;

		if (of[i] && !msg_lanes_end(of[i]))
			left |= wait;
	}
	return left;
}
