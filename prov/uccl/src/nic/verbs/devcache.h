/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A cache of registrations of device memory that a NIC reads. A registration costs a call of the device's driver and
 * one of the kernel, so it is kept for the next operation on the same memory. The cache is not told when the program
 * frees such memory. But each allocation has a unique number, so an entry is used again only if the memory still has
 * the same number. Least recently used entries are evicted first. Only the owner of the NIC calls.
 */
#ifndef UCCL_NIC_VERBS_DEVCACHE_H
#define UCCL_NIC_VERBS_DEVCACHE_H

#include "nic/nic.h"

struct uccl_devcache;

struct uccl_devcache_ops {
	/* Register memory of a device for reading, within one allocation. 0, or -FI_Exxx. */
	int (*reg)(void *arg, void *start, uint64_t len, const struct uccl_nic_device *device, void **mr);
	void (*dereg)(void *arg, void *mr);
};

struct uccl_devcache_entry {
	void *mr;		/* what reg gave */
	uintptr_t start;	/* what it covers */
	uint64_t len;
};

struct uccl_devcache_stats {
	uint64_t hits, misses, gone, evicted; /* gone: entries dropped because their memory was freed */
	uint64_t bytes;		/* registered now */
	uint32_t entries;
};

/* max_entries, max_bytes: limits on the entries that nobody uses. 0 or -FI_ENOMEM. */
int uccl_devcache_open(const struct uccl_devcache_ops *ops, void *arg, uint32_t max_entries, uint64_t max_bytes,
		       struct uccl_devcache **c);
/* No entry may be in use. */
void uccl_devcache_close(struct uccl_devcache *c);

/*
 * Get a registration of buf[0..len), len > 0. It stays valid until uccl_devcache_put() was called once for each get and
 * hold. 0; -FI_EFAULT: the buffer is not inside one allocation of a device; or an error of device->range or reg.
 */
int uccl_devcache_get(struct uccl_devcache *c, const void *buf, uint64_t len, const struct uccl_nic_device *device,
		      struct uccl_devcache_entry **e);
void uccl_devcache_hold(struct uccl_devcache_entry *e);
void uccl_devcache_put(struct uccl_devcache *c, struct uccl_devcache_entry *e);

struct uccl_devcache_stats uccl_devcache_stats(const struct uccl_devcache *c);

#endif
