/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A cache of registrations that a NIC sends from or writes to. Only the owner of the NIC calls. Least recently used
 * entries are evicted first. A cache is for one of two kinds of memory:
 *
 * Host memory. A registration costs as much as sending some hundred KiB, and MPI libraries do not register their
 * buffers with us. It is kept as long as the kernel reports when that memory goes away (memwatch.h).
 *
 * Device memory. A registration costs a call of the device's driver and one of the kernel. Nobody reports when the
 * program frees such memory, but each allocation has a unique number: an entry is used again only if the memory still
 * has the same number.
 */
#ifndef UCCL_NIC_VERBS_MRCACHE_H
#define UCCL_NIC_VERBS_MRCACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "nic/nic.h"

struct uccl_mrcache;

struct uccl_mrcache_ops {
	/* Register whole pages of the host (`device` NULL), or a part of one allocation of a device. 0, or -FI_Exxx. */
	int (*reg)(void *arg, uintptr_t start, uint64_t len, const struct uccl_nic_device *device, void **mr);
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

/*
 * `devices`: for device memory. max_entries, max_bytes: limits on the entries that nobody uses. 0 or -FI_ENOMEM.
 */
int uccl_mrcache_open(const struct uccl_mrcache_ops *ops, void *arg, bool devices, uint32_t max_entries,
		      uint64_t max_bytes, struct uccl_mrcache **c);
/* No entry may be in use. NULL is allowed. */
void uccl_mrcache_close(struct uccl_mrcache *c);

/*
 * Get a registration of buf[0..len), len > 0. `device`: whose memory it is; NULL: the host's. The entry stays valid
 * until uccl_mrcache_put() was called once for each get and hold. 0, or an error of reg or device->range. -FI_ENOSYS:
 * it could not be kept, so nothing was registered. -FI_EFAULT: the buffer is not inside one allocation of the device.
 */
int uccl_mrcache_get(struct uccl_mrcache *c, const void *buf, uint64_t len, const struct uccl_nic_device *device,
		     const struct uccl_mrcache_entry **e);
void uccl_mrcache_hold(const struct uccl_mrcache_entry *e);
void uccl_mrcache_put(const struct uccl_mrcache_entry *e);
/* Remove an entry from the cache: no later get returns it, and it ends with its last user. */
void uccl_mrcache_spoil(const struct uccl_mrcache_entry *e);

/* True if the cache keeps registrations. */
bool uccl_mrcache_keeps(const struct uccl_mrcache *c);
struct uccl_mrcache_stats uccl_mrcache_stats(struct uccl_mrcache *c);

#endif
