/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The event queue of the fabric: a calendar for what happens soon, a heap for the rest. Events come out by time and, at
 * the same time, in the order in which they were put in, so a run is a function of its seed. They are embedded in what
 * they are about and cannot be taken back: an owner that changed its mind ignores the event when it comes.
 */
#ifndef UCCL_SIM_FABRIC_QUEUE_H
#define UCCL_SIM_FABRIC_QUEUE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* A simulation without memory is over: there is nobody to tell. */
static inline void *uccl_fab_need(void *p)
{
	assert(p);
	return p;
}

/* Time in the fabric: picoseconds, because a byte at 400 Gb/s takes 20 of them. */
#define UCCL_PS_PER_NS 1000ull

struct uccl_fab_event {
	uint64_t at;	/* ps */
	uint64_t order; /* written by the queue */
	struct uccl_fab_event *next;
	uint32_t kind; /* the owner's */
};

struct uccl_fab_queue {
	uint64_t now; /* time of the latest event that came out */
	uint64_t order;
	uint64_t tick;		       /* slot number of `cur` since time 0 */
	uint64_t count;		       /* events in it */
	uint32_t nslots;	       /* a power of two */
	uint8_t shift;		       /* a slot is 2^shift ps */
	struct uccl_fab_event *ahead;  /* in the next slot: to be in the cache when its turn comes; NULL: none */
	struct uccl_fab_event **slots; /* lists, not sorted */
	uint64_t *used;		       /* a bit per slot that is not empty */
	struct uccl_fab_event **cur;   /* the slot that is emptied now, latest first */
	uint32_t ncur, cur_cap;
	struct uccl_fab_event **far; /* heap of what lies beyond the slots */
	uint32_t nfar, far_cap;
};

/* Slots of slot_ps or less, best so long that some ten events fall into each. 0 or -FI_ENOMEM, then nothing is held. */
int uccl_fab_queue_init(struct uccl_fab_queue *q, uint64_t slot_ps);
void uccl_fab_queue_fini(struct uccl_fab_queue *q);
/* e->kind is set, e is in no queue, at >= now. The program ends when memory does. */
void uccl_fab_queue_put(struct uccl_fab_queue *q, struct uccl_fab_event *e, uint64_t at);
/* The next event, which is in the queue no more; NULL: there is none. Sets now. */
struct uccl_fab_event *uccl_fab_queue_get(struct uccl_fab_queue *q);
/* The event that is to come out after `after` others, if that is known without effort; else NULL. */
static inline struct uccl_fab_event *uccl_fab_queue_peek(const struct uccl_fab_queue *q, uint32_t after)
{
	return q->ncur > after ? q->cur[q->ncur - 1 - after] : NULL;
}

#endif
