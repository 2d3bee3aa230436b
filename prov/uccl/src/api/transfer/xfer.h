/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Posting by a handle: what all forms of send and receive come down to. They go to the endpoint (request.h), wait for a
 * counter first (trigger.h), or are kept for several endpoints (srx.h).
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
