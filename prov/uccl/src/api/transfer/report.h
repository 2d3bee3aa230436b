/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Reporting of ended operations: by a completion, by a counter, or both. An operation that the endpoint posted has
 * uccl_report_send(), _recv() or _rma() as its uccl_op.done; they also free the operation. The caller holds the lock of
 * the endpoint's driver.
 */
#ifndef UCCL_API_REPORT_H
#define UCCL_API_REPORT_H

#include "api/object/ep_object.h"

/* In uccl_op.api_flags, beside the completion's own flags: write a completion on success. */
#define UCCL_WANT_COMPLETION FI_COMPLETION

/* Count an operation as open, before it is posted; undo that if the posting fails. uccl_report_*() count its end. */
static inline void uccl_report_tx_opened(struct uccl_ep *ep)
{
	ep->tx_open++;
}

static inline void uccl_report_tx_closed(struct uccl_ep *ep)
{
	ep->tx_open--;
}

static inline void uccl_report_rx_opened(struct uccl_ep *ep)
{
	ep->rx_open++;
}

static inline void uccl_report_rx_closed(struct uccl_ep *ep)
{
	ep->rx_open--;
}

void uccl_report_send(struct uccl_op *op);
void uccl_report_recv(struct uccl_op *op);
void uccl_report_rma(struct uccl_op *op);

/*
 * Write the completion of something that arrived from a peer. If the peer is not in the address vector and the program
 * asked for FI_SOURCE_ERR, it is an error FI_EADDRNOTAVAIL with the address, which the program may insert.
 */
void uccl_report_arrived(struct uccl_ep *ep, const struct fi_cq_tagged_entry *e, struct uccl_peer *from);
/* Remote CQ data of an RMA operation consumed this receive. `flags`: the completion's flags. */
void uccl_report_recv_data(struct uccl_op *op, uint64_t flags);

#endif
