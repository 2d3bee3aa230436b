/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rundown protection between two threads. The user enters and leaves a section again and again, for short moments and
 * without a lock. The other thread closes it for good: when uccl_rundown_close() returns, the user is outside and can
 * no longer enter.
 */
#ifndef UCCL_BASE_RUNDOWN_H
#define UCCL_BASE_RUNDOWN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The closing thread polls this often before it calls `rest`: a stay inside is short. */
#define UCCL_RUNDOWN_POLLS 1000

/* All zero: open, and nobody inside. */
struct uccl_rundown {
	_Atomic bool inside, closed;
};

/* User only. False: it is closed. True: leave soon, since the closing thread may wait. */
static inline bool uccl_rundown_enter(struct uccl_rundown *g)
{
	/* Both are seq_cst: either we see `closed`, or the closing thread sees `inside`. */
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
 * Close for good, and wait until the user is outside. If the user is inside for long (it was preempted, or waits for a
 * page), `rest` is called between polls to let other threads run; `times` counts its earlier calls. NULL: only poll.
 */
static inline void uccl_rundown_close(struct uccl_rundown *g, void (*rest)(uint32_t times))
{
	atomic_store(&g->closed, true);
	for (uint32_t n = 0; atomic_load(&g->inside); n++)
		if (n >= UCCL_RUNDOWN_POLLS && rest)
			rest(n - UCCL_RUNDOWN_POLLS);
}

#endif
