/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A cache of registrations of host memory. A registration costs as much as sending some hundred KiB, and MPI libraries
 * do not register their buffers with us. So it is kept for the next operation on the same memory, if the kernel reports
 * when that memory goes away (memwatch.h); otherwise it is made for one operation. Least recently used entries are
 * evicted first. Only the owner of the NIC calls.
 */
#ifndef UCCL_NIC_VERBS_MRCACHE_H
#define UCCL_NIC_VERBS_MRCACHE_H

#include <stdbool.h>
#include <stdint.h>

struct uccl_mrcache;

struct uccl_mrcache_ops {
	/* Register whole pages. 0, or -FI_Exxx. */
	int (*reg)(void *arg, uintptr_t start, uint64_t len, void **mr);
	void (*dereg)(void *arg, void *mr);
};

struct uccl_mrcache_entry {
	void *mr;		/* what reg gave */
	uintptr_t start, end;	/* what it covers */
};

struct uccl_mrcache_stats {
	uint64_t hits, misses, gone, evicted; /* gone: entries dropped because their memory went away */
	uint64_t bytes;		/* registered now */
	uint32_t entries;
};

/* max_entries, max_bytes: limits on the entries that nobody uses. 0 or -FI_ENOMEM. */
int uccl_mrcache_open(const struct uccl_mrcache_ops *ops, void *arg, uint32_t max_entries, uint64_t max_bytes,
		      struct uccl_mrcache **c);
/* No entry may be in use. */
void uccl_mrcache_close(struct uccl_mrcache *c);

/* Get a registration of buf[0..len), len > 0, until uccl_mrcache_put(). 0, or an error of reg. */
int uccl_mrcache_get(struct uccl_mrcache *c, const void *buf, uint64_t len, const struct uccl_mrcache_entry **e);
/* As uccl_mrcache_get(), for a caller that gets it again for each stripe. -FI_ENOSYS: it could not be kept. */
int uccl_mrcache_get_kept(struct uccl_mrcache *c, const void *buf, uint64_t len, const struct uccl_mrcache_entry **e);
void uccl_mrcache_put(struct uccl_mrcache *c, const struct uccl_mrcache_entry *e);

/* Remove an entry from the cache: no later get returns it, and it ends with its last user. */
void uccl_mrcache_spoil(struct uccl_mrcache *c, const struct uccl_mrcache_entry *e);

/* True if the cache keeps registrations. */
bool uccl_mrcache_keeps(const struct uccl_mrcache *c);
struct uccl_mrcache_stats uccl_mrcache_stats(struct uccl_mrcache *c);

#endif
