/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Registration of device memory for an RDMA NIC: by a dmabuf, or by address if the kernel knows the memory. The first
 * registrations find out which of the two works for a device.
 */
#ifndef UCCL_NIC_VERBS_VERBS_GPU_H
#define UCCL_NIC_VERBS_VERBS_GPU_H

#ifdef HAVE_VERBS

#include <stdatomic.h>

#include "nic/verbs/mrcache.h"
#include "nic/verbs/verbs_lib.h"

#define UCCL_VERBS_GPUS 64	/* devices; memory of devices with higher numbers is never registered */
#define UCCL_VERBS_GPU_TRIES 4	/* failures before a device is given up; a single one may be due to special memory */

/* How a NIC registers memory of each device. All zero at first. Any thread may use it. */
struct uccl_verbs_gpus {
	/* By number of the device: the method that worked, and how often both methods failed. */
	_Atomic uint8_t method[UCCL_VERBS_GPUS], failed[UCCL_VERBS_GPUS];
};

/*
 * Register buf[0..len) of a device at the NIC's address `iova`, with the IBV_ACCESS_ rights `access`. `name`: the NIC,
 * for the log. -FI_EOPNOTSUPP: this NIC cannot, and the device is not tried again. Another error: not this memory.
 */
int uccl_verbs_gpu_reg(struct uccl_verbs_gpus *g, const struct uccl_verbs *lib, struct ibv_pd *pd, const char *name,
		       void *buf, uint64_t len, uint64_t iova, int access, const struct uccl_nic_device *device,
		       struct ibv_mr **mr);

/* A protection domain's cache of registrations of device memory that the NIC may read. */
struct uccl_verbs_gpu_keep {
	struct uccl_verbs_gpus *gpus;
	const struct uccl_verbs *lib;
	struct ibv_pd *pd;
	const char *name;
	struct uccl_mrcache *cache;
};

/* 0 or -FI_ENOMEM. */
int uccl_verbs_gpu_keep_open(struct uccl_verbs_gpu_keep *k, struct uccl_verbs_gpus *gpus, const struct uccl_verbs *lib,
			     struct ibv_pd *pd, const char *name);
/* Allowed also if the open failed. */
void uccl_verbs_gpu_keep_close(struct uccl_verbs_gpu_keep *k);

/* The *source of uccl_nic_ops.source(): registrations for packets, and for direct writes (NULL: none). */
struct uccl_verbs_source {
	const struct uccl_mrcache_entry *packets, *writes;
};

static inline uint32_t uccl_verbs_source_key(const struct uccl_mrcache_entry *e)
{
	return ((const struct ibv_mr *)e->mr)->lkey;
}

#endif

#endif
