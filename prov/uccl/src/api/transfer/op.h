/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The arguments of what is posted. */
#ifndef UCCL_API_TRANSFER_OP_H
#define UCCL_API_TRANSFER_OP_H

#include <rdma/fi_endpoint.h>
#include <sys/uio.h>

#include "api/object/ep_object.h"

/* The arguments of every form together. `flags` are libfabric's; FI_TAGGED or FI_MSG says which kind. */
struct uccl_xfer {
	const struct iovec *iov;
	void *const *desc;	/* of regions; NULL, or an entry NULL: none */
	size_t count;
	fi_addr_t addr;
	uint64_t tag, ignore, data;
	void *context;
	uint64_t flags;
	struct fid_cntr *done_cntr; /* of deferred work: counts this one operation; NULL: none */
	bool quiet;	/* fi_inject: no completion unless it fails */
};

/* The arguments of every form of RMA and atomics together. `flags` are libfabric's. */
struct uccl_rma {
	enum uccl_op_type type;
	uint8_t nseg, datatype, atomic;
	const struct iovec *iov;	/* what is written, or where goes what comes back */
	void *const *desc;		/* as above */
	size_t count;
	fi_addr_t addr;
	struct uccl_seg seg[UCCL_SEG_MAX];
	uint64_t data;
	void *context;
	uint64_t flags;
	const struct uccl_atomic_args *args;
	struct fid_cntr *done_cntr;
	bool quiet;	/* fi_inject_write: no completion unless it fails */
};

#endif
