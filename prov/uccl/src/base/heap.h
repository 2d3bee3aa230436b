/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A binary min-heap of timers. Each timer is embedded in its owner and knows its index, so moving it is O(log n).
 * Not thread safe.
 */
#ifndef UCCL_BASE_HEAP_H
#define UCCL_BASE_HEAP_H

#include <stddef.h>
#include <stdint.h>

struct uccl_timer {
	uint64_t at;	/* deadline, ns; UCCL_NEVER when not armed */
	uint8_t kind;	/* set by the owner: which of its structs embeds this timer */
	uint32_t index; /* index in the heap + 1; 0: not armed. Written by the heap only. */
};

struct uccl_heap {
	struct uccl_timer **v;
	uint32_t n, cap;
};

void uccl_heap_init(struct uccl_heap *h);
void uccl_heap_fini(struct uccl_heap *h);
/* Make room for n timers in total. After that uccl_heap_set cannot fail for these. 0 or -FI_ENOMEM. */
int uccl_heap_reserve(struct uccl_heap *h, uint32_t n);
/* Arm, move or (at == UCCL_NEVER) disarm a timer. Room for every timer must have been reserved. */
void uccl_heap_set(struct uccl_heap *h, struct uccl_timer *t, uint64_t at);
/* The earliest timer, NULL if none is armed. */
static inline struct uccl_timer *uccl_heap_min(const struct uccl_heap *h)
{
	return h->n ? h->v[0] : NULL;
}

#endif
