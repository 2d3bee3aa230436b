/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory regions. The packet back ends need no registration. So a region is only a descriptor for programs that require
 * one; and if peers may access it, an entry of the domain's table, in which requests look it up by key.
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

struct uccl_mr_revoked;

struct uccl_mr {
	struct fid_mr fid;
	struct uccl_domain *domain;
	UT_hash_handle hh;	/* in uccl_domain.mrs, by key, if peers may access it */
	bool entered;		/* it is in that table */
	bool device;		/* it is device memory, which the processor must not touch */
	struct uccl_dmabuf *given; /* the dmabuf that the program passed (FI_MR_DMABUF); NULL: none */
	uint64_t access, offset;
	uint64_t base, len;	/* address of its first byte in peers' requests; bytes of all iov */
	struct uccl_cntr *cntr[2]; /* bound counters: of peers' reads, of peers' writes */
	size_t iov_count;
	struct iovec iov[UCCL_IOV_LIMIT];
	struct uccl_mr_revoked *revoked; /* rights that peers have no more (revoke.c); NULL: they have all */
};

static inline struct uccl_mr *uccl_mr_of(struct fid *fid)
{
	return uccl_container_of(fid, struct uccl_mr, fid.fid);
}

extern struct fi_ops_mr uccl_mr_ops;
/* So large that its owner may map and unmap parts of it at any time. */
bool uccl_mr_sparse(const struct uccl_mr *mr);
/*
 * Find the memory that a peer's request names, as uccl_target_ops.resolve() does. `devices`: regions of device memory
 * are allowed.
 */
int uccl_mr_resolve(struct uccl_domain *d, const struct uccl_nic_addr *from, const struct uccl_seg *seg,
		    uint32_t access, bool devices, struct iovec *iov, void **region);

#endif
