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
#include "msg/atomic.h"

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
	struct uccl_cntr *target;	/* counters */
	uint64_t value;
};

/* NULL: out of memory. */
struct uccl_deferred *uccl_deferred_new(struct fid_cntr *cntr, uint64_t threshold);
/* It is for this endpoint, and goes with it. */
void uccl_deferred_on(struct uccl_deferred *t, struct uccl_ep_fid *f);
/* Keep the arguments; false: too many. */
bool uccl_deferred_xfer(struct uccl_deferred *t, const struct uccl_xfer *x,
			ssize_t (*post)(struct uccl_ep_fid *f, const struct uccl_xfer *x));
bool uccl_deferred_rma(struct uccl_deferred *t, const struct uccl_rma *x,
		       ssize_t (*post)(struct uccl_ep_fid *f, const struct uccl_rma *x));

/* A call with FI_TRIGGER: kept, or posted at once if the threshold is reached. Its context names the counter. */
ssize_t uccl_trigger_xfer(struct uccl_ep_fid *f, const struct uccl_xfer *x,
			  ssize_t (*post)(struct uccl_ep_fid *f, const struct uccl_xfer *x));
ssize_t uccl_trigger_rma(struct uccl_ep_fid *f, const struct uccl_rma *x,
			 ssize_t (*post)(struct uccl_ep_fid *f, const struct uccl_rma *x));

#endif
