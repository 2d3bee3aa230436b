/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See idle.h. */
#include "progress/idle.h"

#include <sched.h>
#include <sys/resource.h>

#include "progress/wait.h"

/* With a core of its own: after so many rounds, a yield in every so manyth. It costs next to nothing there. */
#define SPIN_ROUNDS 512
#define YIELD_EVERY 16
/* A yield that lasts longer was somebody's turn: by itself it takes about one microsecond. */
#define CROWDED_NS (20 * UCCL_NS_PER_US)
/* On a shared core: a nap in every so manyth round; after so many a yield, to see whether others are still there. */
#define NAP_EVERY 16
#define NAPS 64
/* Longer than the gaps in one operation of many messages, which are 10 to 100 us. */
#define STAY_NS (200 * UCCL_NS_PER_US)

void uccl_idle_reset(struct uccl_idle *i)
{
	atomic_store_explicit(&i->rounds, 0, memory_order_relaxed);
}

enum uccl_idle_do uccl_idle_next(struct uccl_idle *i)
{
	uint32_t n = atomic_load_explicit(&i->rounds, memory_order_relaxed) + 1, naps;

	atomic_store_explicit(&i->rounds, n, memory_order_relaxed);
	if (!atomic_load_explicit(&i->crowded, memory_order_relaxed))
		return n >= SPIN_ROUNDS && n % YIELD_EVERY == 0 ? UCCL_IDLE_YIELD : UCCL_IDLE_SPIN;
	if (n % NAP_EVERY)
		return UCCL_IDLE_SPIN;
	naps = atomic_load_explicit(&i->naps, memory_order_relaxed) + 1;
	atomic_store_explicit(&i->naps, naps, memory_order_relaxed);
	return naps > NAPS ? UCCL_IDLE_YIELD : UCCL_IDLE_NAP;
}

void uccl_idle_yielded(struct uccl_idle *i, uint64_t took_ns, bool others)
{
	atomic_store_explicit(&i->crowded, took_ns >= CROWDED_NS && others, memory_order_relaxed);
	atomic_store_explicit(&i->naps, 0, memory_order_relaxed);
}

/* Has this thread lost its core since it was asked last, without going to sleep? */
static bool lost_core(void)
{
	static _Thread_local long seen;
	struct rusage usage;
	bool lost;

	if (getrusage(RUSAGE_THREAD, &usage))
		return true;
	lost = usage.ru_nivcsw != seen;
	seen = usage.ru_nivcsw;
	return lost;
}

void uccl_idle_yield(struct uccl_idle *i)
{
	uint64_t before = uccl_clock(), took;

	sched_yield();
	took = uccl_clock() - before;
	uccl_idle_yielded(i, took, took >= CROWDED_NS && lost_core());
}

bool uccl_idle_stay(struct uccl_idle *i, uint64_t idle_ns)
{
	uint32_t naps;

	if (idle_ns >= STAY_NS)
		return false;
	if (!atomic_load_explicit(&i->crowded, memory_order_relaxed))
		return true;
	naps = atomic_load_explicit(&i->naps, memory_order_relaxed) + 1;
	atomic_store_explicit(&i->naps, naps, memory_order_relaxed);
	return naps > NAPS;
}
