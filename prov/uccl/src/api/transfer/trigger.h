/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Operations that wait until a counter reaches a threshold (object/trigger.h): those that are posted with FI_TRIGGER,
 * and the deferred work of work.h. How they are posted in the end says the caller, who is above this.
 */
#ifndef UCCL_API_TRIGGER_H
#define UCCL_API_TRIGGER_H

#include <rdma/fi_trigger.h>

#include "api/object/trigger.h"
#include "api/transfer/op.h"
#include "msg/rma/atomic.h"

struct uccl_cntr;

struct uccl_deferred {
	struct uccl_trigger trigger;	/* first: it is freed with it */
	struct uccl_ep_fid *f;		/* not for counters */
	ssize_t (*post_xfer)(struct uccl_ep_fid *f, const struct uccl_xfer *x);
	ssize_t (*post_rma)(struct uccl_ep_fid *f, const struct uccl_rma *x);
	struct uccl_xfer x;
	struct uccl_rma rma;
	struct uccl_atomic_args args;
	struct iovec iov[UCCL_IOV_MAX], operand[UCCL_IOV_MAX], compare[UCCL_IOV_MAX];
	struct uccl_cntr *target;	/* stays open: what it moves, or what counts it when done */
	uint64_t value;
	struct fi_cq_tagged_entry end;	/* its completion, if it fails before it is posted */
};

/* NULL: out of memory. The counter stays open until this is freed. */
struct uccl_deferred *uccl_deferred_new(struct fid_cntr *cntr, uint64_t threshold);
/*
 * It is for this handle of an endpoint, or of a shared receive context, in this domain, and goes with it. -FI_EINVAL:
 * it is of another domain, or no such handle.
 */
int uccl_deferred_on(struct uccl_deferred *t, const struct uccl_domain *d, struct fid_ep *ep);
/* The counter that it moves when it is posted or done, which stays open until then. -FI_EINVAL: of another domain. */
int uccl_deferred_target(struct uccl_deferred *t, const struct uccl_domain *d, struct fid_cntr *cntr);
/* Keep the arguments; false: too many. way: FI_SEND or FI_RECV. */
bool uccl_deferred_xfer(struct uccl_deferred *t, const struct uccl_xfer *x, uint64_t way,
			ssize_t (*post)(struct uccl_ep_fid *f, const struct uccl_xfer *x));
bool uccl_deferred_rma(struct uccl_deferred *t, const struct uccl_rma *x,
		       ssize_t (*post)(struct uccl_ep_fid *f, const struct uccl_rma *x));

/* A call with FI_TRIGGER: kept, or posted at once if the threshold is reached. Its context names the counter. */
ssize_t uccl_trigger_xfer(struct uccl_ep_fid *f, const struct uccl_xfer *x, uint64_t way,
			  ssize_t (*post)(struct uccl_ep_fid *f, const struct uccl_xfer *x));
ssize_t uccl_trigger_rma(struct uccl_ep_fid *f, const struct uccl_rma *x,
			 ssize_t (*post)(struct uccl_ep_fid *f, const struct uccl_rma *x));

#endif
