/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "sim/fabric_queue.h"

#include <assert.h>
#include <rdma/fi_errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

/* 512 ps: six packets of 4 KiB at 400 Gb/s on a thousand links fall into one slot. */
#define SLOT_SHIFT 9
/* 67 us in all: beyond every link and switch, short of most timers. */
#define SLOTS (1u << 17)
#define WORDS (SLOTS / 64)

int uccl_fab_queue_init(struct uccl_fab_queue *q)
{
	memset(q, 0, sizeof(*q));
	q->cur_cap = q->far_cap = 1024;
	q->slots = calloc(SLOTS, sizeof(*q->slots));
	q->used = calloc(WORDS, sizeof(*q->used));
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
	uint64_t tick = e->at >> SLOT_SHIFT;
	uint32_t i = (uint32_t)(tick & (SLOTS - 1));

	if (tick <= q->tick) {
		cur_put(q, e);
	} else if (tick - q->tick < SLOTS) {
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
	uint32_t from = (uint32_t)((q->tick + 1) & (SLOTS - 1)), w = from / 64;
	uint64_t bits = q->used[w] & ~0ull << (from % 64);

	for (uint32_t k = 0; k <= WORDS; k++) {
		if (bits) {
			uint32_t i = w * 64 + (uint32_t)__builtin_ctzll(bits);

			return 1 + ((i - from) & (SLOTS - 1));
		}
		w = (w + 1) % WORDS;
		bits = q->used[w];
	}
	return 0;
}

/* Go to the next slot that holds something. */
static void advance(struct uccl_fab_queue *q)
{
	uint32_t step = next_used(q), i;
	struct uccl_fab_event *e, *next;

	q->tick = step ? q->tick + step : q->far[0]->at >> SLOT_SHIFT;
	i = (uint32_t)(q->tick & (SLOTS - 1));
	e = q->slots[i];
	q->slots[i] = NULL;
	q->used[i / 64] &= ~(1ull << (i % 64));
	for (; e; e = next) {
		next = e->next;
		cur_put(q, e);
	}
	/* Everything in reach leaves the heap here, so nothing in it can be earlier than what is in the slots. */
	while (q->nfar && (q->far[0]->at >> SLOT_SHIFT) - q->tick < SLOTS)
		put(q, far_get(q));
}

struct uccl_fab_event *uccl_fab_queue_get(struct uccl_fab_queue *q)
{
	struct uccl_fab_event *e;

	if (!q->count)
		return NULL;
	while (!q->ncur)
		advance(q);
	e = q->cur[--q->ncur];
	q->count--;
	q->now = e->at;
	return e;
}
