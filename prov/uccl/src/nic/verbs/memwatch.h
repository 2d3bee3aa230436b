/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Reports when pages of this process go away: munmap, mremap, madvise(MADV_DONTNEED) and the like. A registration of
 * these pages must not be used again, since the NIC would use the old pages. The kernel reports it by userfaultfd(2)
 * (UFFD_EVENT_UNMAP, _REMAP, _REMOVE) before the program's call returns, so no hook in the C library is needed. The
 * process has one thread and one descriptor for this, from the first watcher to the last.
 *
 * Why it is sound: the thread holds the lock from reading an event until all watchers know it. munmap() does not return
 * before its event is read. So a thread that takes the lock after munmap() finds all watchers informed.
 */
#ifndef UCCL_NIC_VERBS_MEMWATCH_H
#define UCCL_NIC_VERBS_MEMWATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct uccl_memwatcher {
	/* The pages of [start, end) are gone. With the lock held, in the watching thread. */
	void (*gone)(struct uccl_memwatcher *w, uintptr_t start, uintptr_t end);
	/* True if it keeps a registration of any page of [start, end). With the lock held. */
	bool (*keeps)(struct uccl_memwatcher *w, uintptr_t start, uintptr_t end);
	LIST_ENTRY(uccl_memwatcher) link;
};

/* 0: `w` gets reports from now on. -FI_ENOSYS, -FI_EPERM, ...: the kernel gives none, so nothing may be kept. */
int uccl_memwatch_join(struct uccl_memwatcher *w);
/* The last one to leave ends the thread. Not with the lock held. */
void uccl_memwatch_leave(struct uccl_memwatcher *w);

/*
 * A thread with the lock must not allocate or free memory: the allocator may return pages to the kernel, and would wait
 * for the watching thread, which waits for the lock.
 */
void uccl_memwatch_lock(void);
void uccl_memwatch_unlock(void);

/*
 * Watch the pages [start, end), which must be mapped; they may be watched already. With the lock held. False: memory of
 * this kind (files, devices) cannot be watched, so do not keep its registration.
 */
bool uccl_memwatch_add(uintptr_t start, uintptr_t end);
/* Stop watching the pages [start, end), unless a watcher still keeps any of them. With the lock held. */
void uccl_memwatch_del(uintptr_t start, uintptr_t end);

#endif
