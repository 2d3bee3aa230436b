/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory regions. The packet back ends need no registration, so a region is a descriptor for programs that insist on
 * one, and, if peers may reach it, what requests are looked up in by key.
 */
#ifndef UCCL_API_MR_H
#define UCCL_API_MR_H

#include <rdma/fi_domain.h>

#include "api/offer/attr.h"
#include "base/hash.h"
#include "base/units.h"
#include "msg/op.h"

struct uccl_cntr;
struct uccl_dmabuf;
struct uccl_domain;

struct uccl_mr {
	struct fid_mr fid;
	struct uccl_domain *domain;
	UT_hash_handle hh;	/* in the domain's table, by key, if peers may reach it */
	bool entered;
	bool device;		/* memory that the processor must not touch */
	struct uccl_dmabuf *given; /* as which the program passed it; NULL: it did not */
	uint64_t access, offset;
	uint64_t base, len;	/* what peers call its first byte; bytes of all pieces */
	struct uccl_cntr *cntr[2]; /* of what peers do to it: reads, writes */
	size_t iov_count;
	struct iovec iov[UCCL_IOV_LIMIT];
};

static inline struct uccl_mr *uccl_mr_of(struct fid *fid)
{
	return uccl_container_of(fid, struct uccl_mr, fid.fid);
}

extern struct fi_ops_mr uccl_mr_ops;
/*
 * Where is the memory that a peer names? As uccl_target_ops.resolve; `devices`: what the processor must not touch can
 * be reached.
 */
int uccl_mr_resolve(struct uccl_domain *d, const struct uccl_seg *seg, uint32_t access, bool devices, struct iovec *iov,
		    void **region);

#endif
