/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Registrations that are kept for the next operation on the same memory, since to register costs as much as to move
 * some hundred KiB, and MPI libraries do not register for us. Kept only while the kernel tells when the memory goes
 * away (memwatch.h); otherwise each is made for one operation. Least recently used ones go first when there are too
 * many bytes or entries. Calls are made by the owner of the NIC only.
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
	uint64_t hits, misses, gone, evicted;
	uint64_t bytes;		/* registered now */
	uint32_t entries;
};

/* max_entries, max_bytes: of what nobody uses at the moment. 0 or -FI_ENOMEM. */
int uccl_mrcache_open(const struct uccl_mrcache_ops *ops, void *arg, uint32_t max_entries, uint64_t max_bytes,
		      struct uccl_mrcache **c);
/* Everything must have been put back. */
void uccl_mrcache_close(struct uccl_mrcache *c);

/* A registration of all of [buf, buf + len), len > 0; it stays until it is put back. 0, or what reg said. */
int uccl_mrcache_get(struct uccl_mrcache *c, const void *buf, uint64_t len, const struct uccl_mrcache_entry **e);
/* The same for one who comes again for each piece of it: -FI_ENOSYS if the registration could not be kept. */
int uccl_mrcache_get_kept(struct uccl_mrcache *c, const void *buf, uint64_t len, const struct uccl_mrcache_entry **e);
void uccl_mrcache_put(struct uccl_mrcache *c, const struct uccl_mrcache_entry *e);

/* Nobody gets this one any more; it ends with its last user. */
void uccl_mrcache_spoil(struct uccl_mrcache *c, const struct uccl_mrcache_entry *e);

/* Are registrations kept? */
bool uccl_mrcache_keeps(const struct uccl_mrcache *c);
struct uccl_mrcache_stats uccl_mrcache_stats(struct uccl_mrcache *c);

#endif
