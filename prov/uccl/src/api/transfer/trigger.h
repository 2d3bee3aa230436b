/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Operations that wait until a counter reaches a threshold (object/trigger.h): calls with FI_TRIGGER, and the deferred
 * work of work.h. The caller is in a higher layer and passes the function that posts the operation.
 */
#ifndef UCCL_API_TRIGGER_H
#define UCCL_API_TRIGGER_H

#include <rdma/fi_trigger.h>

#include "api/object/trigger.h"
#include "api/transfer/op.h"
#include "msg/rma/atomic_math.h"

struct uccl_cntr;

struct uccl_deferred {
	struct uccl_trigger trigger;	/* must be the first field (object/trigger.h) */
	struct uccl_ep_fid *f;		/* handle to post by; unused for changes of counters */
	ssize_t (*post_xfer)(struct uccl_ep_fid *f, const struct uccl_xfer *x);
	ssize_t (*post_rma)(struct uccl_ep_fid *f, const struct uccl_rma *x);
	struct uccl_xfer x;
	struct uccl_rma rma;
	struct uccl_atomic_args args;
	struct iovec iov[UCCL_IOV_MAX], operand[UCCL_IOV_MAX], compare[UCCL_IOV_MAX];
	struct uccl_cntr *target;	/* counter that it changes, or that counts its end; it cannot close before */
	uint64_t value;			/* by which, or to which, it changes `target` */
	struct fi_cq_tagged_entry end;	/* its completion, if posting it fails */
};

/* Waits until `cntr` reaches `threshold`; the counter cannot close before this is freed. NULL: out of memory. */
struct uccl_deferred *uccl_deferred_new(struct fid_cntr *cntr, uint64_t threshold);
/*
 * Set the handle to post by: an endpoint, or a shared receive context, of the domain `d`. When that closes, the
 * operation is cancelled. -FI_EINVAL: a handle of another domain, or of another kind.
 */
int uccl_deferred_on(struct uccl_deferred *t, const struct uccl_domain *d, struct fid_ep *ep);
/* Set `target`, a counter of the domain `d`. -FI_EINVAL: the counter is of another domain. */
int uccl_deferred_target(struct uccl_deferred *t, const struct uccl_domain *d, struct fid_cntr *cntr);
/* Copy the arguments of an operation, to be posted by `post`. way: FI_SEND or FI_RECV. False: too many iov. */
bool uccl_deferred_xfer(struct uccl_deferred *t, const struct uccl_xfer *x, uint64_t way,
			ssize_t (*post)(struct uccl_ep_fid *f, const struct uccl_xfer *x));
bool uccl_deferred_rma(struct uccl_deferred *t, const struct uccl_rma *x,
		       ssize_t (*post)(struct uccl_ep_fid *f, const struct uccl_rma *x));

/*
 * A call with FI_TRIGGER, whose context names counter and threshold. The operation is kept, or posted at once if the
 * counter has reached the threshold. 0 or a negative error.
 */
ssize_t uccl_trigger_xfer(struct uccl_ep_fid *f, const struct uccl_xfer *x, uint64_t way,
			  ssize_t (*post)(struct uccl_ep_fid *f, const struct uccl_xfer *x));
ssize_t uccl_trigger_rma(struct uccl_ep_fid *f, const struct uccl_rma *x,
			 ssize_t (*post)(struct uccl_ep_fid *f, const struct uccl_rma *x));

#endif
