/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Registrations of memory of devices that a NIC reads, kept for the next operation on the same memory: to register
 * costs a call of the driver and one of the kernel. Nobody tells when such memory goes away, but each allocation has a
 * number that no other one gets: what is found under another number is not used again. Least recently used ones go
 * first. Calls are made by the owner of the NIC only.
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
	uint64_t hits, misses, gone, evicted;
	uint64_t bytes;		/* registered now */
	uint32_t entries;
};

/* max_entries, max_bytes: of what nobody uses at the moment. 0 or -FI_ENOMEM. */
int uccl_devcache_open(const struct uccl_devcache_ops *ops, void *arg, uint32_t max_entries, uint64_t max_bytes,
		       struct uccl_devcache **c);
/* Everything must have been put back. */
void uccl_devcache_close(struct uccl_devcache *c);

/*
 * A registration of all of buf[0..len), len > 0; it stays until it is put back as often as it was got and held. 0;
 * -FI_EFAULT: this is not in one allocation of a device; or what device->range or reg said.
 */
int uccl_devcache_get(struct uccl_devcache *c, const void *buf, uint64_t len, const struct uccl_nic_device *device,
		      struct uccl_devcache_entry **e);
void uccl_devcache_hold(struct uccl_devcache_entry *e);
void uccl_devcache_put(struct uccl_devcache *c, struct uccl_devcache_entry *e);

struct uccl_devcache_stats uccl_devcache_stats(const struct uccl_devcache *c);

#endif
