/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory of devices that an RDMA NIC reads or writes: registered as a dmabuf, or by its address where the kernel knows
 * it. Which of the two it is is found out by the first registrations.
 */
#ifndef UCCL_NIC_VERBS_VERBS_GPU_H
#define UCCL_NIC_VERBS_VERBS_GPU_H

#ifdef HAVE_VERBS

#include <stdatomic.h>

#include "nic/verbs/devcache.h"
#include "nic/verbs/verbs_lib.h"

#define UCCL_VERBS_GPUS 64	/* that are told apart; what is beyond is never registered */
#define UCCL_VERBS_GPU_TRIES 4	/* one that fails may be of memory that is not like the other */

/* What is known of a NIC; zero at first. Any thread may use it. */
struct uccl_verbs_gpus {
	/* By device: how it is registered, and how often neither way worked. */
	_Atomic uint8_t method[UCCL_VERBS_GPUS], failed[UCCL_VERBS_GPUS];
};

/*
 * Register memory of a device that the NIC then calls `iova`, with these IBV_ACCESS_ rights. `name` is of the NIC, for
 * the log. -FI_EOPNOTSUPP: not on this NIC, and that device is not tried again; or another error, of this memory.
 */
int uccl_verbs_gpu_reg(struct uccl_verbs_gpus *g, const struct uccl_verbs *lib, struct ibv_pd *pd, const char *name,
		       void *buf, uint64_t len, uint64_t iova, int access, const struct uccl_nic_device *device,
		       struct ibv_mr **mr);

/* What one protection domain keeps of them for reading. */
struct uccl_verbs_gpu_keep {
	struct uccl_verbs_gpus *gpus;
	const struct uccl_verbs *lib;
	struct ibv_pd *pd;
	const char *name;
	struct uccl_devcache *cache;
};

/* The fields before `cache` are set. 0 or -FI_ENOMEM. */
int uccl_verbs_gpu_keep_open(struct uccl_verbs_gpu_keep *k);
/* Also of one that could not be opened. */
void uccl_verbs_gpu_keep_close(struct uccl_verbs_gpu_keep *k);

/* What uccl_nic_ops.source gives: registrations for packets, and for direct writes if there are any. */
struct uccl_verbs_source {
	struct uccl_devcache_entry *packets, *writes;
};

static inline uint32_t uccl_verbs_source_key(const struct uccl_devcache_entry *e)
{
	return ((const struct ibv_mr *)e->mr)->lkey;
}

#endif

#endif
