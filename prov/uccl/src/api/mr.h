/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory regions of host memory. The udp back end needs none, so a region is a name: it gives a program that insists on
 * descriptors one, and holds the place of regions that RMA will look up by key.
 */
#ifndef UCCL_API_MR_H
#define UCCL_API_MR_H

#include <rdma/fi_domain.h>

#include "api/attr.h"

struct uccl_domain;

struct uccl_mr {
	struct fid_mr fid;
	struct uccl_domain *domain;
	struct uccl_mr *next;	/* in the domain's list */
	uint64_t access, offset;
	size_t iov_count;
	struct iovec iov[UCCL_IOV_LIMIT];
};

extern struct fi_ops_mr uccl_mr_ops;

#endif
