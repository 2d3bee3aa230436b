/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See report.h. Nothing here allocates or makes texts, except for failures. */
#include "api/transfer/report.h"

#include <stdio.h>

#include "api/event/cntr.h"
#include "api/event/cq.h"
#include "api/lib/lib.h"
#include "api/offer/address.h"
#include "api/offer/attr.h"
#include "api/peers/lookup.h"
#include "api/watch/tracefile.h"

static void failure_text(const struct uccl_op *op, char *buf, size_t size)
{
	static const char *const whats[] = {
		[UCCL_OP_SEND] = "send to", [UCCL_OP_RECV] = "receive from",
		[UCCL_OP_WRITE] = "write to", [UCCL_OP_READ] = "read from",
		[UCCL_OP_ATOMIC] = "atomic at", [UCCL_OP_FETCH] = "fetching atomic at",
		[UCCL_OP_COMPARE] = "comparing atomic at",
	};
	static const char *const refusals[UCCL_REFUSED_COUNT] = {
		[UCCL_REFUSED_KEY] = "it has no region with this key",
		[UCCL_REFUSED_ACCESS] = "the region does not permit this kind of access",
		[UCCL_REFUSED_RANGE] = "the place is outside of the region",
		[UCCL_REFUSED_REVOKED] = "the region was closed meanwhile",
		[UCCL_REFUSED_ATOMIC] = "it does not support this atomic operation",
		[UCCL_REFUSED_MEMORY] = "it has no memory for the operation",
	};
	const char *what = whats[op->type];
	char who[UCCL_ADDRESS_TEXT] = "any peer";

	if (op->from || op->peer)
		uccl_address_text(uccl_peer_addr(op->from ? op->from : op->peer), who, sizeof(who));
	if (op->type == UCCL_OP_RECV && op->err == FI_ETRUNC)
		snprintf(buf, size, "%s %s: the message has %llu bytes, the buffer %llu", what, who,
			 (unsigned long long)(op->done_len + op->recv.olen), (unsigned long long)op->done_len);
	else if (op->refusal == UCCL_TAKEN_BACK)
		snprintf(buf, size, "%s %s: the sender took it back, %llu bytes had come", what, who,
			 (unsigned long long)op->done_len);
	else if (op->type != UCCL_OP_RECV && op->tx.late)
		snprintf(buf, size, "%s %s: its time limit is over; %s", what, who,
			 op->refusal == UCCL_UNPROVEN ? "the target is not proven: it may have been executed"
						      : "it was taken back");
	else if (op->refusal == UCCL_UNPROVEN)
		snprintf(buf, size, "%s %s: taken back here; the target is not proven: it may have been executed", what,
			 who);
	else if (op->refusal)
		snprintf(buf, size, "%s %s refused: %s (key 0x%llx, 0x%llx + %llu)", what, who, refusals[op->refusal],
			 (unsigned long long)op->rma.seg[0].key, (unsigned long long)op->rma.seg[0].addr,
			 (unsigned long long)op->rma.seg[0].len);
	else
		snprintf(buf, size, "%s %s: %s", what, who, uccl_lib.strerror(op->err));
}

/* A failure is reported even if the program asked for no completion. */
static void report_failure(struct uccl_cq *cq, struct uccl_cntr *cntr, const struct uccl_op *op,
			   const struct fi_cq_tagged_entry *e)
{
	char text[UCCL_ERR_DATA_MAX];

	failure_text(op, text, sizeof(text));
	if (op->err != FI_ECANCELED && op->err != FI_ENOMSG) {
		uccl_info(FI_LOG_EP_DATA, "%s\n", text);
		uccl_tracefile_error(((struct uccl_ep *)op->api)->run.trace, op->err, uccl_clock());
	}
	if (cq)
		uccl_cq_push_error(cq, op->api, e, op->err, op->type == UCCL_OP_RECV ? op->recv.olen : 0, text);
	if (cntr)
		uccl_cntr_count(cntr, false);
}

/* The counter of deferred work counts, too, beside those of the endpoint. */
static void deferred_done(const struct uccl_op *op)
{
	if (op->api_more)
		uccl_cntr_count(uccl_cntr_of(&((struct fid_cntr *)op->api_more)->fid), !op->err);
}

static struct fi_cq_tagged_entry tx_entry(const struct uccl_op *op)
{
	return (struct fi_cq_tagged_entry){.op_context = op->context, .flags = op->api_flags & ~UCCL_WANT_COMPLETION};
}

static inline void send_report(struct uccl_ep *ep, const struct uccl_op *op)
{
	struct uccl_cntr *cntr = ep->bound.cntr[UCCL_CNTR_SEND];
	struct fi_cq_tagged_entry e;

	if (op->err) {
		e = tx_entry(op);
		e.tag = op->tag;
		report_failure(ep->bound.tx_cq, cntr, op, &e);
		return;
	}
	if (op->api_flags & UCCL_WANT_COMPLETION) {
		e = tx_entry(op);
		uccl_cq_push(ep->bound.tx_cq, &e, FI_ADDR_NOTAVAIL);
	}
	if (cntr)
		uccl_cntr_count(cntr, true);
}

void uccl_report_send(struct uccl_op *op)
{
	struct uccl_ep *ep = op->api;

	uccl_report_tx_closed(ep);
	deferred_done(op);
	if (!ep->closing)
		send_report(ep, op);
	uccl_op_put(ep->driver.engine, op);
}

void uccl_report_rma(struct uccl_op *op)
{
	bool read = op->type != UCCL_OP_WRITE && op->type != UCCL_OP_ATOMIC;
	struct uccl_ep *ep = op->api;
	struct uccl_cntr *cntr = ep->bound.cntr[read ? UCCL_CNTR_READ : UCCL_CNTR_WRITE];
	struct fi_cq_tagged_entry e = tx_entry(op);

	uccl_report_tx_closed(ep);
	deferred_done(op);
	if (ep->closing) {
		/* the endpoint closes: no reports */
	} else if (op->err) {
		report_failure(ep->bound.tx_cq, cntr, op, &e);
	} else {
		if (op->api_flags & UCCL_WANT_COMPLETION)
			uccl_cq_push(ep->bound.tx_cq, &e, FI_ADDR_NOTAVAIL);
		if (cntr)
			uccl_cntr_count(cntr, true);
	}
	uccl_op_put(ep->driver.engine, op);
}

void uccl_report_arrived(struct uccl_ep *ep, const struct fi_cq_tagged_entry *e, struct uccl_peer *from)
{
	fi_addr_t src = ep->attr.source ? uccl_ep_source(ep, from) : FI_ADDR_NOTAVAIL;
	uint8_t raw[UCCL_ERR_DATA_MAX];
	size_t len = sizeof(raw);

	if (!ep->attr.source_err || !from || src != FI_ADDR_NOTAVAIL ||
	    uccl_address_pack(ep->attr.addr_format, uccl_peer_addr(from), raw, &len))
		uccl_cq_push(ep->bound.rx_cq, e, src);
	else
		uccl_cq_push_unknown_source(ep->bound.rx_cq, e, raw, len);
}

static void recv_report(struct uccl_ep *ep, struct uccl_op *op)
{
	struct fi_cq_tagged_entry e = {
		.op_context = op->context,
		.flags = op->api_flags & ~UCCL_WANT_COMPLETION,
		.len = op->done_len,
		.buf = op->recv.done_buf,
		.tag = op->api_flags & FI_TAGGED ? op->tag : 0,
	};
	struct uccl_cntr *cntr = ep->bound.cntr[UCCL_CNTR_RECV];

	if (op->flags & UCCL_OPF_DATA) {
		e.flags |= FI_REMOTE_CQ_DATA;
		e.data = op->data;
	}
	if (op->flags & UCCL_OPF_MULTI)
		e.flags |= FI_MULTI_RECV;
	if (op->err) {
		report_failure(ep->bound.rx_cq, cntr, op, &e);
		return;
	}
	/* The program must learn that a multi-receive buffer is its own again. */
	if (op->api_flags & UCCL_WANT_COMPLETION || (op->flags & UCCL_OPF_MULTI && ep->bound.rx_cq))
		uccl_report_arrived(ep, &e, op->from);
	if (cntr)
		uccl_cntr_count(cntr, true);
}

void uccl_report_recv_data(struct uccl_op *op, uint64_t flags)
{
	op->api_flags = flags | UCCL_WANT_COMPLETION;
}

void uccl_report_recv(struct uccl_op *op)
{
	struct uccl_ep *ep = op->api;

	/* A child is one of many messages in a buffer that was posted once. */
	if (!(op->flags & UCCL_OPF_CHILD) || op->flags & UCCL_OPF_MULTI)
		uccl_report_rx_closed(ep);
	deferred_done(op);
	if (!ep->closing)
		recv_report(ep, op);
	uccl_op_put(ep->driver.engine, op);
}
