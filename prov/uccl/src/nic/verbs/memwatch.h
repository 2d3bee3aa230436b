/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Tells when memory of this process goes away under its address: munmap, mremap, madvise(MADV_DONTNEED) and the like.
 * A registration of such memory must not be used again: the NIC would go on with the old pages. The kernel tells it
 * (userfaultfd(2): UFFD_EVENT_UNMAP, _REMAP, _REMOVE) before the call of the program returns, without any hook in the
 * C library. One thread and one descriptor for the process, from the first user to the last.
 *
 * The rule that makes it sound: the descriptor is read with the lock held, and the lock is let go when the watchers
 * know. munmap() does not return before its event was read, so whoever takes the lock after that finds it known.
 */
#ifndef UCCL_NIC_VERBS_MEMWATCH_H
#define UCCL_NIC_VERBS_MEMWATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct uccl_memwatcher {
	/* The pages of [start, end) are gone. With the lock held, in the watching thread. */
	void (*gone)(struct uccl_memwatcher *w, uintptr_t start, uintptr_t end);
	/* Does it keep anything of [start, end)? With the lock held. */
	bool (*keeps)(struct uccl_memwatcher *w, uintptr_t start, uintptr_t end);
	LIST_ENTRY(uccl_memwatcher) link;
};

/* 0: `w` is told from now on. -FI_ENOSYS, -FI_EPERM, ...: the kernel does not tell here; nothing may be kept. */
int uccl_memwatch_join(struct uccl_memwatcher *w);
/* The last one to leave ends the thread. Not with the lock held. */
void uccl_memwatch_leave(struct uccl_memwatcher *w);

/*
 * With the lock held nothing may be allocated or freed: the allocator may give pages back, and wait until that is read.
 */
void uccl_memwatch_lock(void);
void uccl_memwatch_unlock(void);

/*
 * Watch [start, end), whole pages, which must be mapped; again is well. With the lock held. False: memory of this kind
 * cannot be watched (files, devices): do not keep its registration.
 */
bool uccl_memwatch_add(uintptr_t start, uintptr_t end);
/* A watcher keeps nothing of it any more: unless another one does, it is not watched. With the lock held. */
void uccl_memwatch_del(uintptr_t start, uintptr_t end);

#endif
