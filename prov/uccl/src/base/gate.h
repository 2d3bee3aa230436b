/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A place that one thread goes into for a moment, again and again, and that another one shuts for good: when that
 * returns, nobody is inside, and nobody comes in any more. Going in and out costs who does it no lock.
 */
#ifndef UCCL_BASE_GATE_H
#define UCCL_BASE_GATE_H

#include <stdatomic.h>
#include <stdbool.h>

/* All zero: open, nobody inside. */
struct uccl_gate {
	_Atomic bool inside, closed;
};

/* False: it is shut. Else leave soon: somebody may be waiting. */
static inline bool uccl_gate_enter(struct uccl_gate *g)
{
	/* In this order for all: either we see that it is shut, or who shuts it sees us. */
	atomic_store(&g->inside, true);
	if (!atomic_load(&g->closed))
		return true;
	atomic_store_explicit(&g->inside, false, memory_order_release);
	return false;
}

static inline void uccl_gate_leave(struct uccl_gate *g)
{
	atomic_store_explicit(&g->inside, false, memory_order_release);
}

static inline void uccl_gate_shut(struct uccl_gate *g)
{
	atomic_store(&g->closed, true);
	/* Inside something is copied, no more. */
	while (atomic_load(&g->inside))
		;
}

#endif
