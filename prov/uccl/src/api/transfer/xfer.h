/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Posting: what all forms of send and receive come down to, and what happens when they complete. */
#ifndef UCCL_API_XFER_H
#define UCCL_API_XFER_H

#include "api/transfer/op.h"

/* 0, -FI_EAGAIN: read completions and try again, or another error; then nothing was posted. */
ssize_t uccl_xfer_send(struct uccl_ep_fid *f, const struct uccl_xfer *x);
ssize_t uccl_xfer_recv(struct uccl_ep_fid *f, const struct uccl_xfer *x);
ssize_t uccl_xfer_rma(struct uccl_ep_fid *f, const struct uccl_rma *x);
/* FI_PEEK, FI_CLAIM and FI_DISCARD of fi_trecvmsg and fi_recvmsg. */
ssize_t uccl_xfer_peek(struct uccl_ep_fid *f, const struct uccl_xfer *x);

/*
 * The completion of something that came from a peer. If the address vector does not have it, and the program asked for
 * FI_SOURCE_ERR, it fails with FI_EADDRNOTAVAIL and the address, which the program may insert.
 */
void uccl_xfer_report_recv(struct uccl_ep *ep, const struct fi_cq_tagged_entry *e, struct uccl_peer *from);

/* For shared receive contexts: fill a receive, 0 or an error. The lock is held. */
int uccl_xfer_recv_fill(struct uccl_ep *ep, struct uccl_op *op, const struct uccl_xfer *x);
/* uccl_op.done of a receive that was filled so. */
void uccl_xfer_recv_done(struct uccl_op *op);
/* This receive was taken by remote CQ data of an operation that the completion's `flags` tell of. */
void uccl_xfer_recv_data(struct uccl_op *op, uint64_t flags);
/* Look at one endpoint; `silent`: -FI_ENOMSG instead of a completion that says so. */
ssize_t uccl_xfer_peek_one(struct uccl_ep *ep, const struct uccl_xfer *x, bool silent);

#endif
