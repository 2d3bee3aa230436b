/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * From the arguments of a call to a request of an endpoint's engine. What becomes of it is told by report.h. The
 * endpoint is enabled, and the lock of its driver held.
 */
#ifndef UCCL_API_REQUEST_H
#define UCCL_API_REQUEST_H

#include "api/transfer/op.h"

/* 0, -FI_EAGAIN: read completions and try again, or another error; then nothing was posted. */
ssize_t uccl_request_send(struct uccl_ep *ep, const struct uccl_xfer *x);
ssize_t uccl_request_recv(struct uccl_ep *ep, const struct uccl_xfer *x);
ssize_t uccl_request_rma(struct uccl_ep *ep, const struct uccl_rma *x);
/* FI_PEEK, FI_CLAIM and FI_DISCARD. `silent`: -FI_ENOMSG instead of a completion that says so. */
ssize_t uccl_request_peek(struct uccl_ep *ep, const struct uccl_xfer *x, bool silent);

/*
 * Cancel an operation with this context: a receive that is posted, or an operation of any kind whose error lies unread
 * in a completion queue of the endpoint. 0: its error is FI_ECANCELED; -FI_ENOENT: there is no such operation.
 */
ssize_t uccl_request_cancel(struct uccl_ep *ep, const void *context);

/* Only fill a receive, for whoever posts it by himself; 0 or an error. */
int uccl_request_recv_fill(struct uccl_ep *ep, struct uccl_op *op, const struct uccl_xfer *x);

#endif
