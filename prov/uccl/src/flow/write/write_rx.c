/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/write/write_rx.h"

#include <stdlib.h>

#include "flow/path/path.h"

/*
 * The immediate has the low bits of a write's CSN, so one that comes a whole wrap late would be taken for another. What
 * may still come is cut off when so many later ones have come. PROTOCOL R146
 */
#define IN_DOUBT_AGE ((uint64_t)1 << (UCCL_IMM_CSN_BITS - 2))

bool uccl_write_rx_init(struct uccl_write_rx *l, const struct uccl_write_rx_cfg *cfg)
{
	*l = (struct uccl_write_rx){
		.window = cfg->window,
		.write_bytes = cfg->write_bytes,
		.npaths = cfg->paths,
		.fifo = cfg->fifo,
		.stats = cfg->stats,
		.ops = cfg->ops,
	};
	if (!cfg->write_bytes)
		return true;
	l->early = calloc(cfg->window, sizeof(*l->early));
	l->descs = calloc(cfg->window, sizeof(*l->descs));
	l->in_doubt = calloc(cfg->window, sizeof(*l->in_doubt));
	return l->early && l->descs && l->in_doubt;
}

void uccl_write_rx_fini(struct uccl_write_rx *l)
{
	free(l->early);
	free(l->descs);
	free(l->in_doubt);
	l->early = NULL;
	l->descs = NULL;
	l->in_doubt = NULL;
}

static struct uccl_in_doubt *in_doubt_find(struct uccl_write_rx *l, uint64_t csn)
{
	for (uint32_t i = 0; i < l->ndoubts; i++)
		if (l->in_doubt[i].csn == csn)
			return &l->in_doubt[i];
	return NULL;
}

static void in_doubt_settle(struct uccl_write_rx *l, struct uccl_in_doubt *d, uint64_t now)
{
	uint32_t id = d->id, gen = d->gen;

	*d = l->in_doubt[--l->ndoubts];
	l->ops->settled(l, id, gen, now);
}

/* Was this one expected to come late, after its place was closed? It is, once. */
static bool closed_take(struct uccl_write_rx *l, uint64_t csn)
{
	for (int i = 0; i < UCCL_CLOSED_DOUBTS; i++)
		if (l->closed[i] == csn + 1) {
			l->closed[i] = 0;
			return true;
		}
	return false;
}

static void write_doubled(struct uccl_write_rx *l)
{
	l->off = true;
	l->stats->dup_writes++;
}

/*
 * Ranges that are disjoint and inside the window bound the table: each descriptor waits for a chunk of its own. A range
 * begins right behind its descriptor, so of two that meet one holds the other's descriptor: it was received, or is
 * refused (flow_rx.c).
 */
enum uccl_drop uccl_write_rx_check(const struct uccl_write_rx *l, const struct uccl_arrived *rcv, uint64_t csn,
				   const struct uccl_desc *d)
{
	uint64_t first = csn + 1;

	if (!l->write_bytes)
		return UCCL_DROP_STATE;
	if (d->chunk > l->write_bytes || d->count >= l->window - (csn - rcv->nxt))
		return UCCL_DROP_RECORD;
	for (uint64_t c = first; c < first + d->count; c++)
		if (uccl_arrived_has(rcv, c))
			return UCCL_DROP_RECORD;
	return UCCL_DROP_COUNT;
}

void uccl_write_rx_announce(struct uccl_write_rx *l, uint64_t csn, const struct uccl_desc *d)
{
	l->descs[l->ndescs++] = (struct uccl_rx_desc){ .first = csn + 1, .d = *d, .left = d->count };
}

bool uccl_write_rx_release(struct uccl_write_rx *l, uint64_t csn, struct uccl_early_write *held)
{
	struct uccl_early_write *s = uccl_write_rx_early(l, csn);

	if (!s->held)
		return false;
	*held = *s;
	s->held = false;
	s->came_ns = 0;
	return true;
}

bool uccl_write_rx_settle(struct uccl_write_rx *l, uint64_t csn, uint16_t path, bool overtaken, uint64_t now)
{
	bool had_doubt = in_doubt_find(l, csn);

	if (overtaken && l->fifo) {
		l->fifo = false;
		l->stats->fifo_broken++;
	}
	/* It settles the doubt about the same chunk, and with FIFO paths about every earlier one of its path. */
	for (uint32_t i = l->ndoubts; i-- > 0;) {
		struct uccl_in_doubt *d = &l->in_doubt[i];

		if (d->csn == csn || (l->fifo && d->path == path && d->csn < csn))
			in_doubt_settle(l, d, now);
	}
	return had_doubt;
}

bool uccl_write_rx_again(struct uccl_write_rx *l, uint64_t csn, bool had_doubt)
{
	if (had_doubt || closed_take(l, csn))
		return true;
	write_doubled(l);
	return false;
}

bool uccl_write_rx_hold(struct uccl_write_rx *l, uint64_t csn, uint32_t len, uint16_t path, uint64_t now)
{
	struct uccl_early_write *s = uccl_write_rx_early(l, csn);

	if (s->held) {
		write_doubled(l);
		return false;
	}
	*s = (struct uccl_early_write){ .came_ns = now, .held = true, .len = len, .path = path };
	return true;
}

static void path_fence(struct uccl_write_rx *l, uint16_t path, uint64_t now)
{
	l->stats->fences++;
	l->ops->fence(l, path, now);
}

/*
 * No room for another doubt: a message may have any number of them, and cannot end before they are settled. One path's
 * are, by a fence; what came now comes again. PROTOCOL R101
 */
static void in_doubt_make_room(struct uccl_write_rx *l, uint64_t now)
{
	uint16_t path = l->in_doubt[0].path;

	if (l->fencing == path + 1)
		return;
	l->fencing = (uint16_t)(path + 1);
	path_fence(l, path, now);
}

enum uccl_drop uccl_write_rx_rewrite(struct uccl_write_rx *l, const struct uccl_rewrite *w, bool whole, uint64_t now)
{
	const struct uccl_rx_desc *d;
	uint64_t off;

	if (!l->write_bytes)
		return UCCL_DROP_STATE;
	if (w->path >= l->npaths)
		return UCCL_DROP_RECORD;
	d = uccl_write_rx_desc(l, w->csn);
	/* Without its descriptor it cannot be taken now: it will come again. */
	if (!d)
		return UCCL_DROP_MEMORY;
	if (l->ndoubts == l->window)
		in_doubt_make_room(l, now);
	if (l->ndoubts == l->window)
		return UCCL_DROP_MEMORY;
	/* It must be the chunk that the descriptor announced. PROTOCOL R23 */
	if (uccl_write_rx_chunk(d, w->csn, &off) != w->len || w->at != d->d.offset + off || w->id != d->d.id ||
	    w->gen != d->d.gen)
		return UCCL_DROP_RANGE;
	if (whole)
		l->in_doubt[l->ndoubts++] =
			(struct uccl_in_doubt){.csn = w->csn, .id = w->id, .gen = w->gen, .path = w->path};
	return UCCL_DROP_COUNT;
}

void uccl_write_rx_rewrite_end(struct uccl_write_rx *l, const struct uccl_rewrite *w, enum uccl_drop reason,
			       bool passed, uint64_t now)
{
	struct uccl_in_doubt *doubt;

	if (reason != UCCL_DROP_COUNT)
		l->ndoubts--;
	if (reason != UCCL_DROP_COUNT && reason != UCCL_DROP_UNWANTED)
		return;
	uccl_write_rx_take(l, uccl_write_rx_desc(l, w->csn));
	if (reason != UCCL_DROP_COUNT)
		return;
	l->stats->doubtful++;
	/* Delivery may have fenced the path; and a later write may have been seen on it already. */
	doubt = in_doubt_find(l, w->csn);
	if (doubt && l->fifo && passed)
		in_doubt_settle(l, doubt, now);
}

void uccl_write_rx_fenced(struct uccl_write_rx *l, uint16_t path, uint64_t now)
{
	if (l->fencing == path + 1)
		l->fencing = 0;
	for (uint32_t i = l->ndoubts; i-- > 0;)
		if (l->in_doubt[i].path == path)
			in_doubt_settle(l, &l->in_doubt[i], now);
}

void uccl_write_rx_forgive(struct uccl_write_rx *l, uint32_t id, uint32_t gen)
{
	for (uint32_t i = l->ndoubts; i-- > 0;) {
		struct uccl_in_doubt *d = &l->in_doubt[i];

		if (d->id != id || d->gen != gen)
			continue;
		l->closed[l->nclosed++ % UCCL_CLOSED_DOUBTS] = d->csn + 1;
		*d = l->in_doubt[--l->ndoubts];
	}
}

struct path_set {
	uint64_t bits[UCCL_PATHS_MAX / 64];
};

static void paths_add(struct path_set *s, uint16_t path)
{
	s->bits[path / 64] |= 1ull << (path % 64);
}

/* A fence that is done at once takes doubts out of the list, so the list is not walked here. */
static void paths_fence(struct uccl_write_rx *l, const struct path_set *s, uint64_t now)
{
	for (uint16_t path = 0; path < l->npaths; path++)
		if (s->bits[path / 64] >> (path % 64) & 1)
			path_fence(l, path, now);
}

void uccl_write_rx_fence(struct uccl_write_rx *l, uint32_t id, uint32_t gen, uint64_t now)
{
	struct path_set s = { 0 };

	for (uint32_t i = 0; i < l->ndoubts; i++)
		if (l->in_doubt[i].id == id && l->in_doubt[i].gen == gen)
			paths_add(&s, l->in_doubt[i].path);
	paths_fence(l, &s, now);
}

void uccl_write_rx_fence_old(struct uccl_write_rx *l, uint64_t csn, uint64_t now)
{
	struct path_set s = { 0 };

	for (uint32_t i = 0; i < l->ndoubts; i++)
		if (csn > l->in_doubt[i].csn + IN_DOUBT_AGE)
			paths_add(&s, l->in_doubt[i].path);
	paths_fence(l, &s, now);
}
