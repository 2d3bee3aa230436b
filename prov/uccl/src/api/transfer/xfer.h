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
/* FI_PEEK, FI_CLAIM and FI_DISCARD of fi_trecvmsg and fi_recvmsg. */
ssize_t uccl_xfer_peek(struct uccl_ep_fid *f, const struct uccl_xfer *x);

#endif
