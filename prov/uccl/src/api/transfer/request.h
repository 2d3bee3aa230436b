/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Posting of a call's operation to the endpoint's engine. report.h reports its end. The endpoint is enabled, and the
 * caller holds the lock of its driver.
 */
#ifndef UCCL_API_REQUEST_H
#define UCCL_API_REQUEST_H

#include "api/transfer/op.h"

/* 0, -FI_EAGAIN: read completions and try again, or another error; then nothing was posted. */
ssize_t uccl_request_send(struct uccl_ep *ep, const struct uccl_xfer *x);
ssize_t uccl_request_recv(struct uccl_ep *ep, const struct uccl_xfer *x);
ssize_t uccl_request_rma(struct uccl_ep *ep, const struct uccl_rma *x);
/* FI_PEEK, FI_CLAIM and FI_DISCARD. `silent`: if there is no message, return -FI_ENOMSG and write no completion. */
ssize_t uccl_request_peek(struct uccl_ep *ep, const struct uccl_xfer *x, bool silent);

/*
 * Cancel an operation with this context: a posted receive, or an operation of any kind whose error is unread in a
 * completion queue of the endpoint. 0: the operation ends with the error FI_ECANCELED. -FI_ENOENT: no such operation.
 */
ssize_t uccl_request_cancel(struct uccl_ep *ep, const void *context);

/* Fill *op from the arguments of a receive, without posting it. 0 or a negative error. */
int uccl_request_recv_fill(struct uccl_ep *ep, struct uccl_op *op, const struct uccl_xfer *x);

#endif
