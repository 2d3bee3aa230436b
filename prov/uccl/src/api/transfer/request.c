/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See request.h. Nothing here allocates, reads the environment or makes texts, except for failures. */
#include "api/transfer/request.h"

#include "api/event/cq.h"
#include "api/lib/lib.h"
#include "api/memory/device.h"
#include "api/offer/address.h"
#include "api/offer/attr.h"
#include "api/peers/av.h"
#include "api/peers/lookup.h"
#include "api/transfer/report.h"

_Static_assert(UCCL_IOV_LIMIT == UCCL_IOV_MAX, "what fi_info promises is what an operation holds");

/* Copy the buffers into the request; false: too many, or too long in all. */
static inline bool op_buffers(const struct uccl_ep *ep, struct uccl_op *op, const struct uccl_xfer *x)
{
	uint64_t len = 0;

	if (x->count == 1) {
		op->iov[0] = x->iov[0];
		len = x->iov[0].iov_len;
	} else if (x->count > UCCL_IOV_MAX) {
		return false;
	} else {
		for (size_t i = 0; i < x->count; i++) {
			op->iov[i] = x->iov[i];
			if (x->iov[i].iov_len > UCCL_MSG_MAX)
				return false;
			len += x->iov[i].iov_len;
		}
	}
	op->iov_count = (uint8_t)x->count;
	op->len = len;
	op->device = ep->attr.hmem ? uccl_device_mask(ep, x->iov, x->count, x->desc) : 0;
	return len <= UCCL_MSG_MAX;
}

/* The peer of an operation, which may be to `send`; an error as uccl_ep_peer_lookup() says. */
static inline int find_peer(struct uccl_ep *ep, fi_addr_t addr, bool send, struct uccl_peer **out)
{
	*out = ep->sole;
	if (!ep->bound.av)
		return *out ? 0 : -FI_ENOTCONN;
	if (ep->cache.av_generation != atomic_load_explicit(ep->bound.av->generation, memory_order_relaxed))
		uccl_ep_forget(ep);
	*out = uccl_ep_slot(ep, addr) < ep->cache.npeers ? ep->cache.peers[uccl_ep_slot(ep, addr)] : NULL;
	return *out && !uccl_peer_ended(*out) ? 0 : uccl_ep_peer_lookup(ep, addr, send, out);
}

/* A round of the engine in a call that does not read a queue. */
static void poll_now(struct uccl_ep *ep, uint64_t now)
{
	uccl_engine_poll(ep->driver.engine, now);
	uccl_ep_srx_poll(ep, true);
}

/* True if only callers drive the engine, and what arrives goes straight to queues and counters, which wake sleepers. */
static bool may_poll(const struct uccl_ep *ep)
{
	return !ep->driver.automatic && !ep->colls && !ep->cm && !ep->bound.srx;
}

/* Too much is open or unread. A caller that only tries again must make progress, so this runs a round. */
static ssize_t try_again(struct uccl_ep *ep, uint64_t now)
{
	poll_now(ep, now);
	uccl_driver_kick(&ep->driver);
	return -FI_EAGAIN;
}

/* Of two levels of completion the stronger one counts; without any the buffer may be reused, no more (fi_cq(3)). */
static inline uint32_t send_opf(uint64_t flags)
{
	uint32_t opf = (flags & FI_TAGGED ? UCCL_OPF_TAGGED : 0) | (flags & FI_INJECT ? UCCL_OPF_INJECT : 0);

	if (!(flags & (FI_REMOTE_CQ_DATA | FI_FENCE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE | FI_TRANSMIT_COMPLETE)))
		return opf | UCCL_OPF_EARLY;
	opf |= (flags & FI_REMOTE_CQ_DATA ? UCCL_OPF_DATA : 0) | (flags & FI_FENCE ? UCCL_OPF_FENCE : 0);
	/* The receiver's FIN proves that the message was matched, too. PROTOCOL R300 */
	if (flags & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE))
		return opf | UCCL_OPF_DELIVERY;
	return opf | (flags & FI_TRANSMIT_COMPLETE ? UCCL_OPF_ACKED : UCCL_OPF_EARLY);
}

static void post_refused(const struct uccl_peer *peer, int rc)
{
	char who[UCCL_ADDRESS_TEXT];

	uccl_address_text(uccl_peer_addr(peer), who, sizeof(who));
	uccl_info(FI_LOG_EP_DATA, "an operation to %s cannot be posted: %s\n", who, uccl_lib.strerror(-rc));
}

/* A request to `addr`, with room for its completion if it is to be `reported`; NULL: *rc is the error. */
static uccl_inline struct uccl_op *tx_begin(struct uccl_ep *ep, fi_addr_t addr, bool reported,
					    struct uccl_op *(*get)(struct uccl_engine *e), uint64_t now, ssize_t *rc)
{
	struct uccl_peer *peer;
	struct uccl_op *op;

	if (reported && uccl_cq_full(ep->bound.tx_cq)) {
		*rc = try_again(ep, now);
		return NULL;
	}
	*rc = find_peer(ep, addr, true, &peer);
	if (*rc)
		return NULL;
	op = get(ep->driver.engine);
	if (!op) {
		*rc = try_again(ep, now);
		return NULL;
	}
	op->peer = peer;
	return op;
}

/* Post what was filled with `rc`; after an error the request is freed. */
static uccl_inline ssize_t tx_post(struct uccl_ep *ep, struct uccl_op *op, int rc, uint64_t now)
{
	const struct uccl_peer *peer = op->peer;

	if (rc) {
		uccl_op_put(ep->driver.engine, op);
		return rc;
	}
	op->limit_ns = ep->attr.op_timeout_ns;
	uccl_report_tx_opened(ep);
	rc = op->type == UCCL_OP_SEND ? uccl_engine_send(ep->driver.engine, op, now)
				      : uccl_engine_rma(ep->driver.engine, op, now);
	if (rc) {
		uccl_report_tx_closed(ep);
		uccl_op_put(ep->driver.engine, op);
		if (rc == -FI_EAGAIN)
			return try_again(ep, now);
		post_refused(peer, rc);
		return rc;
	}
	/* A program that posts for a long time would not learn of losses meanwhile. PROTOCOL R245 */
	if (uccl_engine_unread(ep->driver.engine) && may_poll(ep))
		poll_now(ep, now);
	uccl_driver_posted(&ep->driver, now);
	return 0;
}

/* Fill a send; 0 or an error. */
static int send_fill(struct uccl_ep *ep, struct uccl_op *op, const struct uccl_xfer *x, bool want)
{
	op->type = UCCL_OP_SEND;
	op->flags = send_opf(x->flags);
	op->tag = x->tag;
	op->data = x->data;
	op->context = x->context;
	op->api_flags = FI_SEND | (x->flags & (FI_TAGGED | FI_MSG)) | (want ? UCCL_WANT_COMPLETION : 0);
	op->api = ep;
	op->api_more = x->done_cntr;
	op->done = uccl_report_send;
	if (!op_buffers(ep, op, x))
		return x->count > UCCL_IOV_MAX ? -FI_EINVAL : -FI_EMSGSIZE;
	return op->len > (x->flags & FI_INJECT ? ep->attr.inject_max : ep->attr.msg_max) ? -FI_EMSGSIZE : 0;
}

ssize_t uccl_request_send(struct uccl_ep *ep, const struct uccl_xfer *x)
{
	bool want = ep->bound.tx_cq && !x->quiet && (!ep->bound.tx_selective || x->flags & FI_COMPLETION);
	uint64_t now = uccl_clock();
	ssize_t rc;
	struct uccl_op *op = tx_begin(ep, x->addr, want, uccl_op_get_send, now, &rc);

	return op ? tx_post(ep, op, send_fill(ep, op, x, want), now) : rc;
}

/* Fill a request for remote memory; 0 or an error. */
static int rma_fill(struct uccl_ep *ep, struct uccl_op *op, const struct uccl_rma *x)
{
	bool want = ep->bound.tx_cq && !x->quiet && (!ep->bound.tx_selective || x->flags & FI_COMPLETION);
	bool atomic = x->type != UCCL_OP_WRITE && x->type != UCCL_OP_READ;
	struct uccl_xfer buffers = { .iov = x->iov, .desc = x->desc, .count = x->count };
	uint64_t len = 0;

	op->type = (uint8_t)x->type;
	op->flags = (x->flags & FI_REMOTE_CQ_DATA ? UCCL_OPF_DATA : 0) | (x->flags & FI_INJECT ? UCCL_OPF_INJECT : 0) |
		    (x->flags & FI_FENCE ? UCCL_OPF_FENCE : 0);
	op->rma.datatype = x->datatype;
	op->rma.atomic = x->atomic;
	op->rma.args = x->args;
	op->rma.nseg = x->nseg;
	for (uint8_t i = 0; i < x->nseg; i++) {
		op->rma.seg[i] = x->seg[i];
		if (x->seg[i].len > UCCL_MSG_MAX)
			return -FI_EMSGSIZE;
		len += x->seg[i].len;
	}
	op->data = x->data;
	op->context = x->context;
	op->api_flags = (atomic ? FI_ATOMIC : FI_RMA) |
			(x->type == UCCL_OP_WRITE || x->type == UCCL_OP_ATOMIC ? FI_WRITE : FI_READ) |
			(want ? UCCL_WANT_COMPLETION : 0);
	op->api = ep;
	op->api_more = x->done_cntr;
	op->done = uccl_report_rma;
	if (!op_buffers(ep, op, &buffers))
		return x->count > UCCL_IOV_MAX ? -FI_EINVAL : -FI_EMSGSIZE;
	if (x->type != UCCL_OP_ATOMIC && op->len != len)
		return -FI_EINVAL;
	return x->type == UCCL_OP_WRITE && x->flags & FI_INJECT && len > ep->attr.inject_max ? -FI_EMSGSIZE : 0;
}

ssize_t uccl_request_rma(struct uccl_ep *ep, const struct uccl_rma *x)
{
	uint64_t now = uccl_clock();
	ssize_t rc;
	struct uccl_op *op = tx_begin(ep, x->addr, ep->bound.tx_cq, uccl_op_get, now, &rc);

	return op ? tx_post(ep, op, rma_fill(ep, op, x), now) : rc;
}

static uccl_inline int recv_fill(struct uccl_ep *ep, struct uccl_op *op, const struct uccl_xfer *x)
{
	bool want = ep->bound.rx_cq && (!ep->bound.rx_selective || x->flags & FI_COMPLETION);

	op->type = UCCL_OP_RECV;
	op->flags = x->flags & FI_TAGGED ? UCCL_OPF_TAGGED : 0;
	op->peer = NULL;
	op->tag = x->tag;
	op->data = 0;
	op->limit_ns = 0;
	op->recv.ignore = x->ignore;
	op->context = x->context;
	op->api_flags = FI_RECV | (x->flags & (FI_TAGGED | FI_MSG)) | (want ? UCCL_WANT_COMPLETION : 0);
	op->api = ep;
	op->api_more = x->done_cntr;
	op->done = uccl_report_recv;
	if (!op_buffers(ep, op, x))
		return x->count > UCCL_IOV_MAX ? -FI_EINVAL : -FI_EMSGSIZE;
	if (x->flags & FI_MULTI_RECV) {
		if (x->flags & FI_TAGGED || x->count != 1)
			return -FI_EINVAL;
		op->flags |= UCCL_OPF_MULTI;
		op->recv.min_multi = ep->attr.min_multi;
	}
	/* Without FI_DIRECTED_RECV the source is ignored, as the interface says. */
	if (ep->attr.directed && x->addr != FI_ADDR_UNSPEC) {
		op->flags |= UCCL_OPF_DIRECTED;
		return find_peer(ep, x->addr, false, &op->peer);
	}
	return 0;
}

int uccl_request_recv_fill(struct uccl_ep *ep, struct uccl_op *op, const struct uccl_xfer *x)
{
	return recv_fill(ep, op, x);
}

ssize_t uccl_request_recv(struct uccl_ep *ep, const struct uccl_xfer *x)
{
	struct uccl_op *op;
	int rc;

	if (ep->bound.rx_cq && uccl_cq_full(ep->bound.rx_cq))
		return try_again(ep, uccl_clock());
	op = uccl_op_get_recv(ep->driver.engine);
	if (!op)
		return try_again(ep, uccl_clock());
	rc = recv_fill(ep, op, x);
	if (!rc) {
		uccl_report_rx_opened(ep);
		if (uccl_engine_recv_waits(ep->driver.engine, op))
			return 0;
		rc = uccl_engine_recv(ep->driver.engine, op, uccl_clock());
		if (!rc) {
			uccl_driver_kick(&ep->driver);
			return 0;
		}
		uccl_report_rx_closed(ep);
	}
	uccl_op_put(ep->driver.engine, op);
	return rc == -FI_EAGAIN ? try_again(ep, uccl_clock()) : rc;
}

/* The result of a peek is a completion; without a message it is an error. */
ssize_t uccl_request_peek(struct uccl_ep *ep, const struct uccl_xfer *x, bool silent)
{
	bool claim = x->flags & FI_CLAIM, discard = x->flags & FI_DISCARD, peek = x->flags & FI_PEEK;
	uint64_t now = uccl_clock();
	struct uccl_op *op;
	int rc;

	if ((ep->bound.rx_cq && uccl_cq_full(ep->bound.rx_cq)) || !(op = uccl_op_get(ep->driver.engine)))
		return try_again(ep, now);
	rc = uccl_request_recv_fill(ep, op, x);
	if (rc) {
		uccl_op_put(ep->driver.engine, op);
		return rc;
	}
	uccl_report_rx_opened(ep);
	if (!peek) {
		rc = uccl_engine_recv_claimed(ep->driver.engine, op, discard, now);
		if (!rc)
			return 0;
	} else {
		/* Messages that have arrived and were not handled yet count, too. */
		poll_now(ep, now);
		rc = uccl_engine_peek(ep->driver.engine, op, claim, discard, now);
		op->api_flags |= UCCL_WANT_COMPLETION & (ep->bound.rx_cq ? ~0ull : 0);
	}
	if (rc == -FI_ENOMSG && silent) {
		uccl_report_rx_closed(ep);
		uccl_op_put(ep->driver.engine, op);
		return rc;
	}
	op->err = -rc;
	uccl_report_recv(op);
	uccl_driver_kick(&ep->driver);
	return 0;
}

ssize_t uccl_request_cancel(struct uccl_ep *ep, const void *context)
{
	int rc = uccl_engine_cancel(ep->driver.engine, context, uccl_clock());

	if (rc == -FI_ENOENT) {
		rc = uccl_engine_abort(ep->driver.engine, context, uccl_clock());
		if (!rc)
			uccl_driver_kick(&ep->driver);
	}
	if (rc == -FI_ENOENT && ep->bound.rx_cq)
		rc = uccl_cq_cancel(ep->bound.rx_cq, ep, context);
	if (rc == -FI_ENOENT && ep->bound.tx_cq && ep->bound.tx_cq != ep->bound.rx_cq)
		rc = uccl_cq_cancel(ep->bound.tx_cq, ep, context);
	return rc;
}
