/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory that the program gave us as dmabufs of its own, by its address. For NICs such a dmabuf comes before one that
 * we would have to ask the driver for: some memory has no other. Any thread may call.
 */
#ifndef UCCL_HMEM_DMABUFS_H
#define UCCL_HMEM_DMABUFS_H

#include <pthread.h>
#include <stdint.h>
#include <sys/queue.h>

struct uccl_dmabuf; /* one of them */

struct uccl_dmabufs {
	pthread_mutex_t lock;
	LIST_HEAD(, uccl_dmabuf) list;
};

void uccl_dmabufs_init(struct uccl_dmabufs *b);
/* All must have been taken back. */
void uccl_dmabufs_fini(struct uccl_dmabufs *b);

/*
 * p[0..len) lies at `off` in the dmabuf `fd`, which stays the caller's: it may be closed at once. -FI_EBADF: that is
 * no descriptor; -FI_EMFILE, -FI_ENOMEM; -FI_EINVAL: it ends beyond the last address or offset.
 */
int uccl_dmabufs_give(struct uccl_dmabufs *b, const void *p, uint64_t len, int fd, uint64_t off,
		      struct uccl_dmabuf **out);
void uccl_dmabufs_take(struct uccl_dmabufs *b, struct uccl_dmabuf *d);

/* One that has all of p[0..len), from *off on: a descriptor, which is the caller's to close. -FI_ENOENT: none has. */
int uccl_dmabufs_find(struct uccl_dmabufs *b, const void *p, uint64_t len, uint64_t *off);

#endif
