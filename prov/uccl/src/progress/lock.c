/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See lock.h. */
#include "progress/lock.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

void uccl_lock_wait(struct uccl_lock *l)
{
	/* Whoever comes from here cannot know whether others sleep, so it leaves the lock as WANTED. */
	while (atomic_exchange_explicit(&l->state, UCCL_LOCK_WANTED, memory_order_acquire) != UCCL_LOCK_FREE)
		syscall(SYS_futex, &l->state, FUTEX_WAIT_PRIVATE, UCCL_LOCK_WANTED, NULL);
}

void uccl_lock_wake(struct uccl_lock *l)
{
	syscall(SYS_futex, &l->state, FUTEX_WAKE_PRIVATE, 1);
}
