/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A place that one thread goes into for a moment, again and again, and that another one shuts for good: when that
 * returns, nobody is inside, and nobody comes in any more. Going in and out costs who does it no lock.
 */
#ifndef UCCL_BASE_RUNDOWN_H
#define UCCL_BASE_RUNDOWN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* So often it is looked at whether somebody is inside, before who shuts it rests: what is done there is short. */
#define UCCL_RUNDOWN_POLLS 1000

/* All zero: open, nobody inside. */
struct uccl_rundown {
	_Atomic bool inside, closed;
};

/* False: it is shut. Else leave soon: somebody may be waiting. */
static inline bool uccl_rundown_enter(struct uccl_rundown *g)
{
	/* In this order for all: either we see that it is shut, or who shuts it sees us. */
	atomic_store(&g->inside, true);
	if (!atomic_load(&g->closed))
		return true;
	atomic_store_explicit(&g->inside, false, memory_order_release);
	return false;
}

static inline void uccl_rundown_leave(struct uccl_rundown *g)
{
	atomic_store_explicit(&g->inside, false, memory_order_release);
}

/*
 * Who is inside for longer has perhaps no processor, or waits for a page: `rest` lets others run. It is told how often
 * it was called before. NULL: there is no other thread.
 */
static inline void uccl_rundown_close(struct uccl_rundown *g, void (*rest)(uint32_t times))
{
	atomic_store(&g->closed, true);
	for (uint32_t n = 0; atomic_load(&g->inside); n++)
		if (n >= UCCL_RUNDOWN_POLLS && rest)
			rest(n - UCCL_RUNDOWN_POLLS);
}

#endif
