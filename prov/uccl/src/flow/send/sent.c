/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/send/sent.h"

#include <stdlib.h>

#define CAP_MIN 64

/* Memory for so many entries, the queues empty. False: there is none, and nothing is held. */
static bool sent_alloc(struct uccl_sent_log *l, uint32_t cap)
{
	bool ok;

	l->cap = cap;
	l->log = calloc(cap, sizeof(*l->log));
	l->acked = calloc(cap / 32, sizeof(*l->acked));
	l->flies = l->acked ? l->acked + cap / 64 : NULL;
	ok = l->log && l->acked;
	for (int i = 0; i < UCCL_RTX_KINDS; i++) {
		l->rtxq[i] = (struct uccl_rtxq){ .csns = calloc(cap, sizeof(*l->rtxq[i].csns)) };
		ok = ok && l->rtxq[i].csns;
	}
	if (!ok)
		uccl_sent_fini(l);
	return ok;
}

bool uccl_sent_init(struct uccl_sent_log *l, uint32_t window, uint64_t first)
{
	*l = (struct uccl_sent_log){ .window = window, .una = first, .nxt = first, .high_acked = first,
				     .numbers = first };
	return sent_alloc(l, CAP_MIN);
}

void uccl_sent_fini(struct uccl_sent_log *l)
{
	free(l->log);
	free(l->acked);
	l->log = NULL;
	l->acked = l->flies = NULL;
	for (int i = 0; i < UCCL_RTX_KINDS; i++) {
		free(l->rtxq[i].csns);
		l->rtxq[i].csns = NULL;
	}
}

bool uccl_sent_grow(struct uccl_sent_log *l)
{
	struct uccl_sent_log was = *l;

	if (was.cap == was.window)
		return false;
	if (!sent_alloc(l, was.cap * 2)) {
		*l = was;
		return false;
	}
	for (uint64_t c = l->una; c != l->nxt; c++) {
		struct uccl_sent *e = uccl_sent_at(l, c);

		*e = *uccl_sent_at(&was, c);
		if (e->state == UCCL_SENT_ACKED)
			uccl_sent_mark(l, l->acked, c);
		else if (e->state == UCCL_SENT_INFLIGHT)
			uccl_sent_mark(l, l->flies, c);
	}
	for (int i = 0; i < UCCL_RTX_KINDS; i++) {
		struct uccl_rtxq *from = &was.rtxq[i], *to = &l->rtxq[i];

		while (!uccl_rtxq_empty(from))
			to->csns[to->tail++] = from->csns[from->head++ & (was.cap - 1)];
	}
	uccl_sent_fini(&was);
	return true;
}

/*
 * There is always room: what holds up one of these queues holds up new chunks of its kind too, so that all that is in
 * it was in the log together when it was last empty, and each is in it once.
 */
static void wait_again(struct uccl_sent_log *l, struct uccl_sent *e, uint64_t csn)
{
	struct uccl_rtxq *q = uccl_sent_queue(l, e);

	assert(e->state == UCCL_SENT_INFLIGHT && q->tail - q->head < l->cap);
	uccl_sent_land(l, e);
	e->state = UCCL_SENT_LOST;
	q->csns[q->tail++ & (l->cap - 1)] = csn;
}

void uccl_sent_lost(struct uccl_sent_log *l, uint64_t csn, bool timed_out)
{
	struct uccl_sent *e = uccl_sent_at(l, csn);

	wait_again(l, e, csn);
	l->repairs += !e->repair;
	e->repair = true;
	e->timed_out = timed_out;
}

void uccl_sent_wait(struct uccl_sent_log *l, uint64_t csn)
{
	struct uccl_sent *e = uccl_sent_at(l, csn);

	e->unsent = true;
	/* In place of a write, the first transmission that counts is over. */
	if (!e->write) {
		e->ntx = 0;
		e->single = true;
	}
	wait_again(l, e, csn);
}

/* The packets of it that are in flight. */
static void row_count(struct uccl_sent_log *l, struct uccl_sent *e)
{
	uccl_sent_slots_set(l, e, (uint32_t)__builtin_popcountll(e->cut.fly), uccl_sent_cut_map(&e->cut)->each);
}

/* They are in flight, though the first of them leaves only next. */
static void row_begin(struct uccl_sent_log *l, uint64_t csn, uint64_t map, const struct uccl_run_cfg *cfg)
{
	struct uccl_sent *e = uccl_sent_at(l, csn);

	assert(map && !l->out.left);
	l->out = (struct uccl_sent_run){.csn = csn, .left = map, .flags = cfg->flags, .last = cfg->last};
	uccl_sent_cut_left(&e->cut, map);
	uccl_sent_packet_left(&e->packet, cfg->pseq + (uint32_t)__builtin_popcountll(map) - 1);
	row_count(l, e);
}

void uccl_sent_train(struct uccl_sent_log *l, uint8_t count, const struct uccl_run_cfg *cfg)
{
	struct uccl_sent *e = uccl_sent_at(l, l->nxt - 1);

	uccl_sent_cut_segments(&e->cut, e->len, count);
	l->numbers += count - 1u;
	row_begin(l, l->nxt - 1, uccl_segment_map_all(&e->cut.segments), cfg);
}

void uccl_sent_run(struct uccl_sent_log *l, uint64_t csn, uint64_t map, const struct uccl_run_cfg *cfg, uint64_t now)
{
	struct uccl_sent *e = uccl_sent_at(l, csn);
	uint32_t others;

	uccl_sent_again(l, e, now);
	others = e->flying - uccl_segment_map_bytes(uccl_sent_cut_map(&e->cut), map);
	e->flying -= others;
	l->inflight_bytes -= others;
	row_begin(l, csn, map, cfg);
}

/* These of its cut are in flight no more. */
static uint32_t row_land(struct uccl_sent_log *l, uint64_t csn, uint64_t map)
{
	struct uccl_sent *e = uccl_sent_at(l, csn);
	uint32_t bytes;

	map &= e->cut.fly;
	if (!map)
		return 0;
	bytes = uccl_segment_map_bytes(uccl_sent_cut_map(&e->cut), map);
	if (map == e->cut.fly) {
		/* The others wait for this, or did not leave. */
		wait_again(l, e, csn);
		return bytes;
	}
	uccl_sent_cut_landed(&e->cut, map);
	e->flying -= bytes;
	l->inflight_bytes -= bytes;
	row_count(l, e);
	if (l->out.left && l->out.csn == csn)
		l->out.left &= ~map;
	return bytes;
}

uint32_t uccl_sent_run_end(struct uccl_sent_log *l, uint16_t *path)
{
	uint64_t left = l->out.left;

	l->out.left = 0;
	if (!left)
		return 0;
	*path = uccl_sent_at(l, l->out.csn)->path;
	return row_land(l, l->out.csn, left);
}

uint32_t uccl_sent_named(struct uccl_sent_log *l, uint64_t csn, uint64_t have, uint32_t *fresh)
{
	struct uccl_sent *e = uccl_sent_at(l, csn);
	uint32_t missed = uccl_sent_missing(e), flew = 0;

	if (csn >= l->high_acked)
		l->high_acked = csn + 1;
	if (!e->cut.subs.count)
		flew = row_land(l, csn, have);
	else if (have >> e->cut.subs.of & 1)
		flew = row_land(l, csn, e->cut.fly);
	/* All of it came in one after all. */
	if (e->cut.subs.count && have >> e->cut.subs.of & 1)
		uccl_sent_unkept(l, e);
	uccl_segment_map_took(&e->cut.segments, have);
	*fresh = missed - uccl_sent_missing(e);
	return flew;
}

uint32_t uccl_sent_sub_named(struct uccl_sent_log *l, uint64_t csn, uint64_t have, uint32_t *fresh)
{
	struct uccl_sent *e = uccl_sent_at(l, csn);

	if (!(uccl_segment_map_missing(&e->cut.subs) & ~have))
		return uccl_sent_named(l, csn, 1ull << e->cut.subs.of, fresh);
	if (csn >= l->high_acked)
		l->high_acked = csn + 1;
	*fresh = uccl_segment_map_took(&e->cut.subs, have);
	return row_land(l, csn, have);
}

uint64_t uccl_sent_backlog(const struct uccl_sent_log *l)
{
	const struct uccl_rtxq *q = &l->rtxq[UCCL_RTX_LONG];
	uint64_t sum = 0;

	for (uint32_t i = q->head; i != q->tail; i++) {
		uint64_t csn = q->csns[i & (l->cap - 1)];

		/* Behind what waits there may be some whose place another has. */
		sum += uccl_sent_is_lost(l, csn) ? uccl_sent_missing(uccl_sent_at(l, csn)) : 0;
	}
	return sum;
}

uint32_t uccl_sent_unacked(const struct uccl_sent_log *l)
{
	uint32_t n = 0;

	for (uint64_t c = l->una; c != l->nxt; c++)
		n += uccl_sent_at(l, c)->state != UCCL_SENT_ACKED;
	return n;
}

const char *uccl_sent_check(const struct uccl_sent_log *l)
{
	const struct uccl_sent *first = uccl_sent_at(l, l->una);
	uint64_t bytes = 0;
	uint32_t chunks = 0, repairs = 0, kept = 0, slots = 0;

	if (l->una > l->nxt || l->nxt - l->una > l->cap || l->cap > l->window || l->high_acked > l->nxt)
		return "send window bounds";
	for (uint64_t c = l->una; c != l->nxt; c++) {
		struct uccl_sent *e = uccl_sent_at(l, c);
		const struct uccl_segment_map *cut = uccl_sent_cut_map(&e->cut);

		if (e->state == UCCL_SENT_FREE)
			return "free entry inside the window";
		if ((uccl_sent_bits(l, l->acked, c) & 1) != (e->state == UCCL_SENT_ACKED) ||
		    (uccl_sent_bits(l, l->flies, c) & 1) != (e->state == UCCL_SENT_INFLIGHT))
			return "the maps are not what the entries say";
		if (e->state == UCCL_SENT_INFLIGHT) {
			bytes += e->flying;
			chunks++;
			if (cut->count
				    ? e->flying != uccl_segment_map_bytes(cut, e->cut.fly) || !e->cut.fly ||
					      e->cut.fly & cut->have
				    : e->flying != e->len)
				return "bytes of a chunk in flight";
		} else if (e->flying || e->cut.fly || e->slots) {
			return "a chunk that is not in flight has something in flight";
		}
		repairs += e->repair;
		kept += e->kept;
		slots += e->slots;
	}
	if (bytes != l->inflight_bytes || chunks != l->inflight_chunks)
		return "bytes in flight are not the sum of the chunks";
	if (l->una != l->nxt && first->state == UCCL_SENT_ACKED && !first->nic_reads)
		return "first chunk of the window is acknowledged";
	if (repairs != l->repairs)
		return "count of lost chunks";
	if (kept != l->kept || slots != l->slots)
		return "count of slots, or of segments that the peer puts together";
	if (l->out.left && (l->out.csn < l->una || l->out.csn >= l->nxt ||
			    l->out.left & ~uccl_sent_at(l, l->out.csn)->cut.fly))
		return "segments that are to leave";
	return NULL;
}
