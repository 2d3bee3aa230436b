/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The arguments of posting calls. */
#ifndef UCCL_API_TRANSFER_OP_H
#define UCCL_API_TRANSFER_OP_H

#include <rdma/fi_endpoint.h>
#include <sys/uio.h>

#include "api/object/ep_object.h"

/* The arguments of all forms of send and receive. `flags` are libfabric's, with FI_TAGGED or FI_MSG for the kind. */
struct uccl_xfer {
	const struct iovec *iov;
	void *const *desc;	/* descriptors of regions, by iov; NULL, or an entry NULL: none */
	size_t count;
	fi_addr_t addr;
	uint64_t tag, ignore, data;
	void *context;
	uint64_t flags;
	struct fid_cntr *done_cntr; /* deferred work: this counter counts the operation's end; NULL: none */
	bool quiet;	/* fi_inject: no completion unless it fails */
};

/* The arguments of all forms of RMA and atomics. `flags` are libfabric's. */
struct uccl_rma {
	enum uccl_op_type type;
	uint8_t nseg, datatype, atomic;
	const struct iovec *iov;	/* local memory: source of a write, target of a read or fetch */
	void *const *desc;		/* as in struct uccl_xfer */
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
