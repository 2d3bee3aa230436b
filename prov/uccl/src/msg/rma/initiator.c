/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The initiator of RMA and atomics. A request is one record: segments, and behind them as much of the payload as was
 * copied. The rest follows as the rest of a message does: at once, or after CTS if it is a write that is longer than
 * UCCL_ORDER_MAX or goes by a lane. Every operation completes with the target's answer, so what the target refuses is
 * never taken for done.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "base/units.h"
#include "lanes/lanes.h"
#include "msg/iov.h"
#include "msg/recv/posted.h"
#include "msg/rma/region.h"
#include "msg/send/msg_tx.h"

/* Writes up to this size are copied behind their segments: one packet instead of two. */
#define PACK_MAX 4096
/* Operations to a peer under way, beyond which a short write waits for CTS if lanes can carry it. */
#define GRANT_OPS 16

static bool comes_back(const struct uccl_op *op)
{
	return op->type != UCCL_OP_WRITE && op->type != UCCL_OP_ATOMIC && op->len;
}

static uint64_t iov_bytes(const struct iovec *iov, int n)
{
	uint64_t len = 0;

	for (int i = 0; i < n; i++)
		len += iov[i].iov_len;
	return len;
}

static uint64_t payload_len(const struct uccl_op *op)
{
	if (op->type == UCCL_OP_WRITE)
		return op->len;
	if (op->type == UCCL_OP_READ)
		return 0;
	return iov_bytes(op->rma.args->operand, op->rma.args->noperand) +
	       iov_bytes(op->rma.args->compare, op->rma.args->ncompare);
}

/*
 * A write that the program does not wait for alone may wait for CTS, so that a lane carries it: the kernels' calls for
 * its payload are then made by other cores. Not one with remote CQ data: it would wait for all before it. `under_way`:
 * operations to the peer, with this one. PROTOCOL R407
 */
static bool rma_by_lane(const struct uccl_op *op, uint32_t under_way)
{
	return op->type == UCCL_OP_WRITE && op->len <= UCCL_ORDER_MAX && op->peer->orders_short &&
	       op->rma.nseg == 1 && !(op->flags & UCCL_OPF_DATA) && under_way > GRANT_OPS && lanes_may(op);
}

/*
 * Bytes of a write that are copied behind its segments, so that the rest fills packets: where a packet is as long as
 * the longest train, what fills none would leave alone.
 */
static uint32_t write_odd(const struct uccl_op *op, uint64_t payload)
{
	const struct uccl_flow *f = &op->peer->flow;
	uint64_t odd;

	if (op->type != UCCL_OP_WRITE || op->device || !op->peer->open || op->peer->self)
		return 0;
	if (payload > UCCL_ORDER_MAX || payload <= f->chunk_bytes || f->chunk_bytes < UCCL_PLACEMENT_MIN ||
	    f->train_bytes > f->chunk_bytes)
		return 0;
	odd = payload % f->chunk_bytes;
	if (odd > PACK_MAX || rma_by_lane(op, msg_tx_under_way(op->peer) + 1))
		return 0;
	/* PROTOCOL R216 */
	return uccl_words((uint32_t)odd + UCCL_WORD - 1);
}

/* Room for the segments, and for the payload if it is copied. */
static int head_make(struct uccl_msg_ep *m, struct uccl_op *op, uint64_t payload)
{
	uint32_t head = uccl_req_head_len(op->rma.nseg, comes_back(op));
	bool must = op->type != UCCL_OP_WRITE || op->flags & UCCL_OPF_INJECT;
	/* What goes without CTS must be where the processor can read it, unless it stays here. */
	bool load = op->device && op->type == UCCL_OP_WRITE && (must || (payload <= UCCL_ORDER_MAX && !op->peer->self));
	bool copy = must || load || (payload <= PACK_MAX && !op->device);
	uint32_t odd = copy ? 0 : write_odd(op, payload);
	uint64_t len = head + (copy ? payload : odd), at;
	uint8_t *to = msg_tx_room(m, op, len);

	/* That copy saves a packet, no more. */
	if (!to && odd) {
		odd = 0;
		len = head;
		to = msg_tx_room(m, op, len);
	}
	if (!to)
		return -FI_EAGAIN;
	if (odd)
		msg_copy_out(op->iov, op->iov_count, 0, to + head, odd);
	op->rma.head = (struct iovec){ .iov_base = to, .iov_len = len };
	op->rma.head_len = head;
	op->rma.body = (struct iovec){ .iov_base = to + head, .iov_len = copy ? payload : 0 };
	if (op->type == UCCL_OP_WRITE) {
		if (!copy)
			return 0;
		msg_get(m, &op->tx.copy, op->iov, op->iov_count, op->device, 0, op->rma.body.iov_base, payload);
		op->device = 0;
		msg_tx_loads(m, op, load && !(op->flags & UCCL_OPF_INJECT));
		op->iov[0] = op->rma.body;
		op->iov_count = 1;
	} else if (op->type != UCCL_OP_READ) {
		at = iov_bytes(op->rma.args->operand, op->rma.args->noperand);
		msg_get(m, &op->tx.copy, op->rma.args->operand, op->rma.args->noperand, op->rma.args->operand_device, 0,
			op->rma.body.iov_base, at);
		msg_get(m, &op->tx.copy, op->rma.args->compare, op->rma.args->ncompare, op->rma.args->compare_device, 0,
			(uint8_t *)op->rma.body.iov_base + at, payload - at);
		if (op->tx.copy.ticket)
			msg_tx_loads(m, op, !(op->flags & UCCL_OPF_INJECT) && !op->peer->self);
	}
	return -op->tx.copy.err;
}

static struct uccl_req req_of(const struct uccl_op *op)
{
	static const uint8_t kinds[] = {
		[UCCL_OP_WRITE] = UCCL_RMA_WRITE,
		[UCCL_OP_READ] = UCCL_RMA_READ,
		[UCCL_OP_ATOMIC] = UCCL_RMA_ATOMIC,
		[UCCL_OP_FETCH] = UCCL_RMA_FETCH,
		[UCCL_OP_COMPARE] = UCCL_RMA_COMPARE,
	};
	struct uccl_req req = {
		.kind = kinds[op->type],
		.nseg = op->rma.nseg,
		.datatype = op->rma.datatype,
		.atomic = op->rma.atomic,
	};

	for (uint8_t i = 0; i < op->rma.nseg; i++) {
		req.seg[i] = op->rma.seg[i];
		req.len += op->rma.seg[i].len;
	}
	return req;
}

/* libfabric's error for a refusal. */
static int refusal_err(uint32_t refusal)
{
	switch (refusal) {
	case UCCL_REFUSED_KEY:
	case UCCL_REFUSED_REVOKED:
		return FI_EKEYREJECTED;
	case UCCL_REFUSED_ACCESS:
	case UCCL_REFUSED_RANGE:
		return FI_EACCES;
	case UCCL_REFUSED_MEMORY:
		return FI_ENOMEM;
	default:
		return FI_EOPNOTSUPP;
	}
}

/*
 * Payload of each packet of a write but the last, if it is in a stream that may share trains; 0: all that it holds. The
 * first packet has the segments, if the payload is copied behind them. PROTOCOL R260
 */
static uint32_t write_each(const struct uccl_op *op)
{
	uint64_t len = op->rma.body.iov_len ? op->rma.head.iov_len : op->len;
	uint32_t each = op->type == UCCL_OP_WRITE && len <= UCCL_ORDER_MAX ? uccl_flow_even(&op->peer->flow, len) : 0;

	return each > op->rma.head_len ? each : 0;
}

/* Where what comes back will be put. */
static uint32_t read_begin(struct uccl_op *op, struct uccl_req *req)
{
	struct uccl_msg_rx *rx = op->rma.rx;

	msg_rx_back(rx, op->tx.mseq, op->len);
	msg_rx_to(rx, op->iov, op->iov_count, op->device, op->len);
	msg_rx_expect(rx, &req->rkey, &req->raddr);
	return rx->id;
}

static void rma_submit(struct uccl_op *op)
{
	struct uccl_peer *p = op->peer;
	uint64_t payload = op->type == UCCL_OP_WRITE ? op->len : op->rma.body.iov_len;
	struct uccl_req req = req_of(op);
	struct uccl_env env = { .data = op->data, .len = payload, .mseq = op->tx.mseq, .id = op->tx.id };
	uint8_t wait = MSG_WAIT_ENV | MSG_WAIT_FIN;
	bool lane = !op->rma.body.iov_len && rma_by_lane(op, msg_tx_under_way(p));
	bool cts = payload > UCCL_ORDER_MAX || lane;
	uint32_t each = cts ? 0 : write_each(op), most = p->flow.cfg.packet.chunk_bytes;
	uint64_t first;
	/* A reply in one packet brings the acknowledgement, if it has room for the block. PROTOCOL R340 */
	bool ask = op->rma.rx && op->len + UCCL_ACK_FIXED > most;

	if (op->rma.rx)
		req.rx = read_begin(op, &req);
	uccl_req_encode(op->rma.head.iov_base, &req);
	first = lane ? 0 : uccl_min(op->rma.head.iov_len, each ? each : most) - op->rma.head_len;
	env.tag = uccl_req_tag(&req);
	env.flags = op->flags & UCCL_OPF_DATA ? UCCL_ENV_DATA : 0;
	op->tx.bulk.iov = op->type == UCCL_OP_WRITE ? op->iov : &op->rma.body;
	op->tx.bulk.iov_count = op->type == UCCL_OP_WRITE ? op->iov_count : 1;
	op->tx.bulk.skip = first;
	if (cts) {
		wait |= MSG_WAIT_CTS;
		env.flags |= UCCL_ENV_DELIVERY;
	} else {
		env.flags |= UCCL_ENV_EAGER;
		wait |= payload > first ? MSG_WAIT_BULK : 0;
	}
	msg_tx_expect(op, wait);
	op->tx.env.rtype = UCCL_REC_REQ;
	op->tx.env.iov = &op->rma.head;
	op->tx.env.iov_count = 1;
	op->tx.env.len = op->rma.head_len + first;
	op->tx.env.more = wait & MSG_WAIT_BULK ? payload - first : 0;
	op->tx.env.each = first ? each : 0;
	op->tx.env.want_ack = ask && !op->tx.env.more;
	uccl_env_encode(op->tx.env.rec, &env);
	uccl_flow_submit(&p->flow, &op->tx.env);
	if (wait & MSG_WAIT_BULK) {
		msg_item_bulk(&op->tx.bulk, UCCL_REC_EAGER, op->tx.bulk.iov, op->tx.bulk.iov_count, payload - first);
		op->tx.bulk.each = each;
		op->tx.bulk.want_ack = ask;
		uccl_rec_set_bulk(op->tx.bulk.rec, op->tx.mseq, 0, first);
		uccl_put64(op->tx.bulk.rec + 16, payload);
		uccl_flow_submit(&p->flow, &op->tx.bulk);
	}
}

static void rma_count(struct uccl_msg_ep *m, const struct uccl_op *op)
{
	if (op->type == UCCL_OP_WRITE || op->type == UCCL_OP_READ)
		m->stats->rma_ops++;
	else
		m->stats->atomic_ops++;
}

static void self_finish(struct uccl_msg_ep *m, struct uccl_op *op)
{
	int err = op->refusal ? refusal_err(op->refusal) : op->tx.copy.err;

	msg_tx_room_put(m, op);
	if (!err)
		op->done_len = op->len;
	msg_op_done(op, op->peer, err);
}

static void self_copied(struct uccl_copy *c, uint64_t now)
{
	struct uccl_op *op = uccl_container_of(c, struct uccl_op, tx.copy);
	struct uccl_req req = req_of(op);
	struct uccl_msg_ep *m = op->peer->msg_ep;

	(void)now;
	if (!c->err)
		msg_target_self_tell(m, op, &req);
	self_finish(m, op);
}

static int rma_self(struct uccl_msg_ep *m, struct uccl_op *op)
{
	struct uccl_req req = req_of(op);
	int refusal;

	if (op->flags & UCCL_OPF_DATA && !msg_data_room(m, op->peer)) {
		msg_tx_room_put(m, op);
		return -FI_EAGAIN;
	}
	refusal = msg_target_self(m, op, &req);
	if (refusal < 0) {
		msg_tx_room_put(m, op);
		return refusal;
	}
	rma_count(m, op);
	op->refusal = (uint8_t)refusal;
	if (op->refusal || msg_copied(m, &op->tx.copy))
		self_finish(m, op);
	else
		msg_copy_wait(m, &op->tx.copy, self_copied);
	return 0;
}

/* The payload of a read is there. */
static void read_placed(struct uccl_msg_rx *rx, uint64_t now)
{
	struct uccl_op *op = rx->read;

	(void)now;
	msg_op_fail(op, rx->place.copy.err);
	op->rma.rx = NULL;
	rx->read = NULL;
	msg_rx_free(rx);
	op->done_len = op->len;
	msg_tx_arrived(op, MSG_WAIT_FIN);
}

static const struct msg_rx_ops read_rx_ops = {
	.placed = read_placed,
};

/* The operation ends: what was to come back is not expected any more. */
static void rma_ended(struct uccl_op *op)
{
	struct uccl_msg_rx *rx = op->rma.rx;

	if (!rx)
		return;
	op->rma.rx = NULL;
	msg_rx_free(rx);
}

/* RESP, or FIN of a write. */
static enum uccl_drop rma_answered(struct uccl_op *op, const struct uccl_resp *resp)
{
	/* A read succeeds by what comes back, a large write not before it was asked for. */
	if (!resp->err && (op->rma.rx || op->tx.wait & MSG_WAIT_CTS))
		return UCCL_DROP_RECORD;
	if (resp->err) {
		op->refusal = resp->err < UCCL_REFUSED_COUNT ? (uint8_t)resp->err : UCCL_REFUSED_ATOMIC;
		msg_op_fail(op, refusal_err(op->refusal));
		rma_ended(op);
	}
	msg_tx_arrived(op, MSG_WAIT_FIN | MSG_WAIT_CTS);
	return UCCL_DROP_COUNT;
}

static const struct msg_tx_ops rma_tx_ops = {
	.submit = rma_submit,
	.answered = rma_answered,
	.ended = rma_ended,
};

/* Something will come back; false: no memory or handle for it. */
static bool read_expect(struct uccl_op *op)
{
	struct uccl_msg_rx *rx = msg_rx_own(op->peer, &read_rx_ops);

	op->rma.rx = rx;
	if (!rx)
		return false;
	rx->read = op;
	return msg_rx_id(rx);
}

int uccl_msg_rma(struct uccl_msg_ep *m, struct uccl_op *op, uint64_t now)
{
	struct uccl_peer *p = op->peer;
	uint64_t payload = payload_len(op);
	int rc;

	if (p->dead)
		return -p->dead;
	if (op->type != UCCL_OP_WRITE && payload > UCCL_ORDER_MAX)
		return -FI_EMSGSIZE;
	if (!msg_tx_may_limit(m, op))
		return -FI_EAGAIN;
	rc = p->self || msg_tx_id(m, op) ? head_make(m, op, payload) : -FI_EAGAIN;
	if (rc) {
		msg_tx_id_put(m, op);
		msg_tx_room_put(m, op);
		return rc;
	}
	if (p->self)
		return rma_self(m, op);
	msg_tx_make(op, &rma_tx_ops);
	if (comes_back(op) && !read_expect(op)) {
		rma_ended(op);
		msg_tx_id_put(m, op);
		msg_tx_room_put(m, op);
		return -FI_EAGAIN;
	}
	op->rma.args = NULL;
	rma_count(m, op);
	if (op->tx.loading)
		msg_tx_load(m, op);
	msg_tx_post(m, op, now);
	return 0;
}
