/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * From what has happened to a completion, a count, or both. Requests that the endpoint posted hand themselves to
 * uccl_report_send, _recv or _rma, as their uccl_op.done, and are given back there. The lock of the endpoint's driver
 * is held.
 */
#ifndef UCCL_API_REPORT_H
#define UCCL_API_REPORT_H

#include "api/object/ep_object.h"

/* uccl_op.api_flags: the flags of the completion, and this one if there is to be one. */
#define UCCL_WANT_COMPLETION FI_COMPLETION

void uccl_report_send(struct uccl_op *op);
void uccl_report_recv(struct uccl_op *op);
void uccl_report_rma(struct uccl_op *op);

/*
 * The completion of something that came from a peer. If the address vector does not have it, and the program asked for
 * FI_SOURCE_ERR, it fails with FI_EADDRNOTAVAIL and the address, which the program may insert.
 */
void uccl_report_arrived(struct uccl_ep *ep, const struct fi_cq_tagged_entry *e, struct uccl_peer *from);
/* This receive was taken by remote CQ data of an operation that the completion's `flags` tell of. */
void uccl_report_recv_data(struct uccl_op *op, uint64_t flags);

#endif
