/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Binary min-heap in an array. Every move of an entry writes its new place into the timer itself, so that a timer is
 * found again without a search.
 */
#include "base/heap.h"

#include <assert.h>
#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "base/units.h"

void uccl_heap_init(struct uccl_heap *h)
{
	h->v = NULL;
	h->n = 0;
	h->cap = 0;
}

void uccl_heap_fini(struct uccl_heap *h)
{
	free(h->v);
	uccl_heap_init(h);
}

int uccl_heap_reserve(struct uccl_heap *h, uint32_t n)
{
	struct uccl_timer **v;

	if (n <= h->cap)
		return 0;
	/* Doubled: whoever comes as one of thousands must not move all. */
	n = n > 2 * h->cap ? n : 2 * h->cap;
	v = realloc(h->v, n * sizeof(*v));
	if (!v)
		return -FI_ENOMEM;
	h->v = v;
	h->cap = n;
	return 0;
}

static void heap_place(struct uccl_heap *h, uint32_t i, struct uccl_timer *t)
{
	h->v[i] = t;
	t->index = i + 1;
}

/* Move t, whose place i is free to overwrite, towards the root as far as it goes. Returns its place. */
static uint32_t heap_rise(struct uccl_heap *h, uint32_t i, struct uccl_timer *t)
{
	while (i > 0) {
		uint32_t parent = (i - 1) / 2;

		if (h->v[parent]->at <= t->at)
			break;
		heap_place(h, i, h->v[parent]);
		i = parent;
	}
	heap_place(h, i, t);
	return i;
}

/* The child of place i that is due first; 0: there is none. */
static inline uint32_t heap_child(const struct uccl_heap *h, uint32_t i)
{
	uint32_t child = 2 * i + 1;

	if (child >= h->n)
		return 0;
	return child + 1 < h->n && h->v[child + 1]->at < h->v[child]->at ? child + 1 : child;
}

/* The same, away from the root. */
static void heap_sink(struct uccl_heap *h, uint32_t i, struct uccl_timer *t)
{
	for (uint32_t child; (child = heap_child(h, i)) && t->at > h->v[child]->at; i = child)
		heap_place(h, i, h->v[child]);
	heap_place(h, i, t);
}

static void heap_fix(struct uccl_heap *h, uint32_t i, struct uccl_timer *t)
{
	if (heap_rise(h, i, t) == i)
		heap_sink(h, i, t);
}

static void heap_remove(struct uccl_heap *h, struct uccl_timer *t)
{
	uint32_t i = t->index - 1;
	struct uccl_timer *last = h->v[--h->n];

	t->index = 0;
	if (last != t)
		heap_fix(h, i, last);
}

/* A timer that is armed gets another deadline: mostly it stays where it is. */
static void heap_change(struct uccl_heap *h, struct uccl_timer *t, uint64_t at)
{
	uint32_t i = t->index - 1, child = heap_child(h, i);

	t->at = at;
	if (i && h->v[(i - 1) / 2]->at > at)
		heap_rise(h, i, t);
	else if (child && at > h->v[child]->at)
		heap_sink(h, i, t);
}

void uccl_heap_set(struct uccl_heap *h, struct uccl_timer *t, uint64_t at)
{
	assert(!t->index || (t->index <= h->n && h->v[t->index - 1] == t));
	if (t->index && at != UCCL_NEVER) {
		heap_change(h, t, at);
		return;
	}
	t->at = at;
	if (at == UCCL_NEVER) {
		if (t->index)
			heap_remove(h, t);
		return;
	}
	assert(h->n < h->cap);
	heap_rise(h, h->n++, t);
}
