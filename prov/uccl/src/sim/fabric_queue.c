/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "sim/fabric_queue.h"

#include <assert.h>
#include <rdma/fi_errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

/* Of the longest slots, 512 ps, 2^17 are 67 us: beyond every link and switch, short of most timers. */
#define SHIFT_MAX 9
#define SLOTS_MIN (1u << 17)
/* Of shorter ones as many as make 8 us: what is under way on a link. */
#define REACH_SHIFT 23

int uccl_fab_queue_init(struct uccl_fab_queue *q, uint64_t slot_ps)
{
	memset(q, 0, sizeof(*q));
	while (q->shift < SHIFT_MAX && 2ull << q->shift <= slot_ps)
		q->shift++;
	q->nslots = (uint32_t)uccl_max(SLOTS_MIN, 1u << (REACH_SHIFT - q->shift));
	q->cur_cap = q->far_cap = 1024;
	q->slots = calloc(q->nslots, sizeof(*q->slots));
	q->used = calloc(q->nslots / 64, sizeof(*q->used));
	q->cur = calloc(q->cur_cap, sizeof(*q->cur));
	q->far = calloc(q->far_cap, sizeof(*q->far));
	if (q->slots && q->used && q->cur && q->far)
		return 0;
	uccl_fab_queue_fini(q);
	return -FI_ENOMEM;
}

void uccl_fab_queue_fini(struct uccl_fab_queue *q)
{
	free(q->slots);
	free(q->used);
	free(q->cur);
	free(q->far);
	memset(q, 0, sizeof(*q));
}

static bool before(const struct uccl_fab_event *a, const struct uccl_fab_event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

/* Events are larger than this, and what is behind it is needed, too. */
#define LINE 64

static void fetch(const struct uccl_fab_event *e)
{
	__builtin_prefetch(e);
	__builtin_prefetch((const char *)e + LINE);
}

static struct uccl_fab_event **grow(struct uccl_fab_event **v, uint32_t *cap)
{
	*cap *= 2;
	return uccl_fab_need(realloc(v, *cap * sizeof(*v)));
}

static void far_put(struct uccl_fab_queue *q, struct uccl_fab_event *e)
{
	uint32_t i;

	if (q->nfar == q->far_cap)
		q->far = grow(q->far, &q->far_cap);
	for (i = q->nfar++; i && before(e, q->far[(i - 1) / 2]); i = (i - 1) / 2)
		q->far[i] = q->far[(i - 1) / 2];
	q->far[i] = e;
}

static struct uccl_fab_event *far_get(struct uccl_fab_queue *q)
{
	struct uccl_fab_event *top = q->far[0], *last = q->far[--q->nfar];
	uint32_t i = 0, c;

	while ((c = 2 * i + 1) < q->nfar) {
		if (c + 1 < q->nfar && before(q->far[c + 1], q->far[c]))
			c++;
		if (!before(q->far[c], last))
			break;
		q->far[i] = q->far[c];
		i = c;
	}
	q->far[i] = last;
	return top;
}

/* Into the slot that is emptied now. */
static void cur_put(struct uccl_fab_queue *q, struct uccl_fab_event *e)
{
	uint32_t i;

	if (q->ncur == q->cur_cap)
		q->cur = grow(q->cur, &q->cur_cap);
	for (i = q->ncur++; i && before(q->cur[i - 1], e); i--)
		q->cur[i] = q->cur[i - 1];
	q->cur[i] = e;
}

static void put(struct uccl_fab_queue *q, struct uccl_fab_event *e)
{
	uint64_t tick = e->at >> q->shift;
	uint32_t i = (uint32_t)(tick & (q->nslots - 1));

	if (tick <= q->tick) {
		cur_put(q, e);
	} else if (tick - q->tick < q->nslots) {
		e->next = q->slots[i];
		q->slots[i] = e;
		q->used[i / 64] |= 1ull << (i % 64);
	} else {
		far_put(q, e);
	}
}

void uccl_fab_queue_put(struct uccl_fab_queue *q, struct uccl_fab_event *e, uint64_t at)
{
	assert(at >= q->now);
	e->at = at;
	e->order = q->order++;
	q->count++;
	put(q, e);
}

/* Distance from the present slot to the next one that is not empty; 0: all are. */
static uint32_t next_used(const struct uccl_fab_queue *q)
{
	uint32_t from = (uint32_t)((q->tick + 1) & (q->nslots - 1)), w = from / 64;
	uint64_t bits = q->used[w] & ~0ull << (from % 64);

	for (uint32_t k = 0; k <= q->nslots / 64; k++) {
		if (bits) {
			uint32_t i = w * 64 + (uint32_t)__builtin_ctzll(bits);

			return 1 + ((i - from) & (q->nslots - 1));
		}
		w = (w + 1) & (q->nslots / 64 - 1);
		bits = q->used[w];
	}
	return 0;
}

/* Go to the next slot that holds something. */
static void advance(struct uccl_fab_queue *q)
{
	uint32_t step = next_used(q), i;
	struct uccl_fab_event *e, *next;

	q->tick = step ? q->tick + step : q->far[0]->at >> q->shift;
	i = (uint32_t)(q->tick & (q->nslots - 1));
	e = q->slots[i];
	q->slots[i] = NULL;
	q->used[i / 64] &= ~(1ull << (i % 64));
	for (; e; e = next) {
		next = e->next;
		cur_put(q, e);
	}
	/* Nobody has touched what is in lists for long: with each event that comes out, one step in the next list. */
	step = next_used(q);
	q->ahead = step ? q->slots[(q->tick + step) & (q->nslots - 1)] : NULL;
	if (q->ahead)
		fetch(q->ahead);
	/* Everything in reach leaves the heap here, so nothing in it can be earlier than what is in the slots. */
	while (q->nfar && (q->far[0]->at >> q->shift) - q->tick < q->nslots)
		put(q, far_get(q));
}

struct uccl_fab_event *uccl_fab_queue_get(struct uccl_fab_queue *q)
{
	struct uccl_fab_event *e;

	if (!q->count)
		return NULL;
	while (!q->ncur)
		advance(q);
	if (q->ahead) {
		q->ahead = q->ahead->next;
		if (q->ahead)
			fetch(q->ahead);
	}
	e = q->cur[--q->ncur];
	q->count--;
	q->now = e->at;
	return e;
}
