/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Dmabufs that the program registered for its memory (FI_MR_DMABUF), found by address. When a NIC needs a dmabuf, one
 * of these is preferred to a new one from the device's driver, since for some memory the driver makes none. Any thread
 * may call.
 */
#ifndef UCCL_HMEM_DMABUFS_H
#define UCCL_HMEM_DMABUFS_H

#include <pthread.h>
#include <stdint.h>
#include <sys/queue.h>

struct uccl_dmabuf; /* one dmabuf of the program */

struct uccl_dmabufs {
	pthread_mutex_t lock;
	LIST_HEAD(, uccl_dmabuf) list;
};

void uccl_dmabufs_init(struct uccl_dmabufs *b);
/* uccl_dmabufs_take() must have been called for each one that was given. */
void uccl_dmabufs_fini(struct uccl_dmabufs *b);

/*
 * Add one: p[0..len) is at offset `off` of the dmabuf `fd`. The list keeps a copy of the descriptor, so the caller may
 * close `fd` at once. *out is the handle for uccl_dmabufs_take(). -FI_EBADF: `fd` is no descriptor. -FI_EINVAL: an
 * address or offset overflows. -FI_EMFILE, -FI_ENOMEM.
 */
int uccl_dmabufs_give(struct uccl_dmabufs *b, const void *p, uint64_t len, int fd, uint64_t off,
		      struct uccl_dmabuf **out);
/* Remove and free one. */
void uccl_dmabufs_take(struct uccl_dmabufs *b, struct uccl_dmabuf *d);

/*
 * Find a dmabuf that holds all of p[0..len); *off becomes the offset of p in it. Returns a descriptor, which the caller
 * closes. -FI_ENOENT: there is none. -FI_EMFILE and the like: no descriptors left.
 */
int uccl_dmabufs_find(struct uccl_dmabufs *b, const void *p, uint64_t len, uint64_t *off);

#endif
