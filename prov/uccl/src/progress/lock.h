/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A lock for what each call of the program takes, mostly in vain: nobody else wants it. It is one word, and both ends
 * are inline: two atomic operations, no call. A thread that has to wait sleeps in the kernel (Drepper, "Futexes Are
 * Tricky", 2011). As a pthread_mutex_t of the default kind it is not recursive, not fair, and useless in a forked child
 * if another thread held it.
 *
 * All zero: free. There is nothing to destroy.
 */
#ifndef UCCL_PROGRESS_LOCK_H
#define UCCL_PROGRESS_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum uccl_lock_state { UCCL_LOCK_FREE, UCCL_LOCK_HELD, UCCL_LOCK_WANTED };

struct uccl_lock {
	_Atomic uint32_t state; /* WANTED: it is held, and somebody may sleep */
};

/* It was not free: sleep until it is taken. */
void uccl_lock_wait(struct uccl_lock *l);
/* It is free again: wake one who sleeps. */
void uccl_lock_wake(struct uccl_lock *l);

/* False: somebody holds it. */
static inline bool uccl_lock_try(struct uccl_lock *l)
{
	uint32_t was = UCCL_LOCK_FREE;

	return atomic_compare_exchange_strong_explicit(&l->state, &was, UCCL_LOCK_HELD, memory_order_acquire,
						       memory_order_relaxed);
}

static inline void uccl_lock_take(struct uccl_lock *l)
{
	if (!uccl_lock_try(l))
		uccl_lock_wait(l);
}

static inline void uccl_lock_give(struct uccl_lock *l)
{
	if (atomic_exchange_explicit(&l->state, UCCL_LOCK_FREE, memory_order_release) == UCCL_LOCK_WANTED)
		uccl_lock_wake(l);
}

#endif
