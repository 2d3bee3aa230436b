/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a flow tells: every record goes to who it is for. */
#include "msg/abort.h"
#include "msg/recv/recv.h"
#include "msg/rma/serve.h"
#include "msg/send/msg_tx.h"

static enum uccl_drop msg_deliver(struct uccl_flow *f, const struct uccl_chunk_in *in, uint64_t now)
{
	struct uccl_peer *p = f->user;

	/* Only what says where its payload belongs; one by one where copies may not keep up. PROTOCOL R173 */
	if (in->segments) {
		if (in->rtype != UCCL_REC_EAGER && in->rtype != UCCL_REC_DATA && in->rtype != UCCL_REC_REPLY)
			return UCCL_DROP_RECORD;
		if (in->segments > 1 && p->msg_ep->device.ops)
			return UCCL_DROP_MEMORY;
	}
	/* Where copies to devices do not keep up, payload comes again. */
	if (p->msg_ep->device.ops && in->len && !in->placed && !in->on_device &&
	    !p->msg_ep->device.ops->room(p->msg_ep->device.arg))
		return UCCL_DROP_MEMORY;
	if (in->rtype == UCCL_REC_MSG) {
		if (p->msg_ep->posted.starved)
			uccl_msg_retry(p->msg_ep, now);
		return msg_recv_env(p, in, now);
	}
	switch (in->rtype) {
	case UCCL_REC_EAGER:
		return msg_rx_eager(p, in, now);
	case UCCL_REC_DATA:
	case UCCL_REC_REPLY:
		return msg_rx_data(p, in, now);
	case UCCL_REC_CTS:
		return in->len ? UCCL_DROP_RECORD : msg_tx_cts(p, in->rec);
	case UCCL_REC_REQ:
		return msg_rx_unrelated(p) ? UCCL_DROP_UNWANTED : msg_req(p, in, now);
	case UCCL_REC_ABORT:
		return msg_abort_rx(p, in, now);
	case UCCL_REC_ABORTED:
		return in->len ? UCCL_DROP_RECORD : msg_abort_answered(p, in->rec);
	case UCCL_REC_FIN:
	case UCCL_REC_RESP:
		return in->len ? UCCL_DROP_RECORD : msg_tx_fin(p, in->rec);
	default:
		return UCCL_DROP_RECORD;
	}
}

static void msg_settled(struct uccl_flow *f, uint32_t id, uint32_t gen, uint64_t now)
{
	msg_rx_settled(f->user, id, gen, now);
}

static void msg_fence(struct uccl_flow *f, uint16_t path, uint64_t now)
{
	struct uccl_peer *p = f->user;

	p->msg_ep->ops->fence(p, path, now);
}

static void msg_acked(struct uccl_flow *f, struct uccl_item *item, uint64_t now)
{
	(void)f;
	switch (item->rtype) {
	case UCCL_REC_RESP:
	case UCCL_REC_REPLY:
	case UCCL_REC_ABORTED:
		msg_serve_acked(item, now);
		return;
	case UCCL_REC_CTS:
	case UCCL_REC_FIN:
		msg_rx_acked(item);
		return;
	default:
		msg_tx_acked(item);
		return;
	}
}

const struct uccl_flow_ops uccl_msg_flow_ops = {
	.deliver = msg_deliver,
	.settled = msg_settled,
	.fence = msg_fence,
	.acked = msg_acked,
};
