/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Posting by a handle of the program; all forms of send, receive, RMA and atomics end here. The operation goes to the
 * endpoint (request.h), waits for a counter (trigger.h), or goes to a shared receive context (srx.h).
 */
#ifndef UCCL_API_XFER_H
#define UCCL_API_XFER_H

#include "api/transfer/op.h"

/* 0, -FI_EAGAIN: read completions and try again, or another error; then nothing was posted. */
ssize_t uccl_xfer_send(struct uccl_ep_fid *f, const struct uccl_xfer *x);
ssize_t uccl_xfer_recv(struct uccl_ep_fid *f, const struct uccl_xfer *x);
ssize_t uccl_xfer_rma(struct uccl_ep_fid *f, const struct uccl_rma *x);
/* The same of one buffer; *x has the other arguments. */
static inline ssize_t uccl_xfer_send_one(struct uccl_ep_fid *f, const void *buf, size_t len, void *desc,
					 struct uccl_xfer *x)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)buf, .iov_len = len };

	x->iov = &iov;
	x->desc = &desc;
	x->count = 1;
	return uccl_xfer_send(f, x);
}

static inline ssize_t uccl_xfer_recv_one(struct uccl_ep_fid *f, void *buf, size_t len, void *desc, struct uccl_xfer *x)
{
	struct iovec iov = { .iov_base = buf, .iov_len = len };

	x->iov = &iov;
	x->desc = &desc;
	x->count = 1;
	return uccl_xfer_recv(f, x);
}

/* FI_PEEK, FI_CLAIM and FI_DISCARD of fi_trecvmsg and fi_recvmsg. */
ssize_t uccl_xfer_peek(struct uccl_ep_fid *f, const struct uccl_xfer *x);

#endif
