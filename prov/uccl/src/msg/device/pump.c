/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See pump.h. What CTS said is kept in op->bulk, which is not sent itself. */
#include "msg/device/pump.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

static uint64_t buf_bytes(const struct uccl_pump *u)
{
	return uccl_min(u->bytes, UCCL_PUMP_BUF_BYTES);
}

/* It is where it can be sent from. */
static void buf_loaded(struct uccl_copy *c, uint64_t now)
{
	struct uccl_pump_buf *buf = uccl_container_of(c, struct uccl_pump_buf, copy);
	struct uccl_op *op = buf->pump->op;
	struct uccl_peer *p = op->peer;
	struct uccl_item *item = &buf->item;

	(void)now;
	if (c->err) {
		/* The peer waits for bytes that nobody has. */
		msg_op_fail(op, c->err);
		p->msg_ep->ops->broken(p, FI_EFAULT);
		return;
	}
	memset(item, 0, sizeof(*item));
	msg_item_bulk(item, UCCL_REC_DATA, &buf->iov, 1, buf->iov.iov_len);
	item->part = true;
	item->want_ack = true;
	item->more = op->tx.bulk.len - buf->off - item->len;
	uccl_peer_place(p, item, op->tx.bulk.rkey, op->tx.bulk.raddr);
	uccl_rec_set_bulk(item->rec, uccl_get32(op->tx.bulk.rec), op->tx.mseq, buf->off);
	uccl_flow_submit(&p->flow, item);
	p->msg_ep->ops->ready(p);
}

/* The next one, if there is more. */
static void buf_begin(struct uccl_pump *u, uint8_t i)
{
	struct uccl_pump_buf *buf = &u->bufs[i];
	struct uccl_op *op = u->op;
	struct uccl_msg_ep *m = op->peer->msg_ep;
	uint64_t n = uccl_min(buf_bytes(u), op->tx.bulk.len - u->off);

	if (!n)
		return;
	buf->pump = u;
	buf->off = u->off;
	buf->iov = (struct iovec){ .iov_base = u->buf + i * buf_bytes(u), .iov_len = n };
	u->off += n;
	u->busy |= (uint8_t)(1u << i);
	msg_get(m, &buf->copy, op->iov, op->iov_count, op->device, buf->off, buf->iov.iov_base, n);
	msg_copy_wait(m, &buf->copy, buf_loaded);
}

/* False: there is no memory now. */
static bool pump_start(struct uccl_msg_ep *m, struct uccl_op *op)
{
	uint64_t bytes = uccl_min(op->tx.bulk.len, UCCL_PUMP_BUFS * UCCL_PUMP_BUF_BYTES);
	struct uccl_pump *u;
	uint8_t *lent;

	if (m->pumps.bytes + bytes > UCCL_PUMPED_MAX)
		return false;
	lent = m->device.ops->alloc(m->device.arg, bytes);
	u = malloc(sizeof(*u) + (lent ? 0 : bytes));
	if (!u) {
		if (lent)
			m->device.ops->free(m->device.arg, lent);
		return false;
	}
	memset(u, 0, sizeof(*u));
	u->buf = lent ? lent : u->own;
	u->lent = lent;
	u->op = op;
	u->bytes = bytes;
	m->pumps.bytes += bytes;
	op->tx.pumped.by = u;
	for (uint8_t i = 0; i < UCCL_PUMP_BUFS; i++)
		buf_begin(u, i);
	return true;
}

void msg_pump_begin(struct uccl_op *op, const struct uccl_cts *cts)
{
	struct uccl_msg_ep *m = op->peer->msg_ep;

	op->tx.bulk.len = cts->limit;
	op->tx.bulk.rkey = cts->rkey;
	op->tx.bulk.raddr = cts->raddr;
	uccl_rec_set_bulk(op->tx.bulk.rec, cts->rx, op->tx.mseq, 0);
	if (TAILQ_EMPTY(&m->pumps.waiting) && pump_start(m, op))
		return;
	TAILQ_INSERT_TAIL(&m->pumps.waiting, op, tx.pumped.link);
	op->tx.pumped.waits = true;
}

static void pump_free(struct uccl_msg_ep *m, struct uccl_op *op)
{
	m->pumps.bytes -= op->tx.pumped.by->bytes;
	if (op->tx.pumped.by->lent)
		m->device.ops->free(m->device.arg, op->tx.pumped.by->buf);
	free(op->tx.pumped.by);
	op->tx.pumped.by = NULL;
	msg_pumps_run(m);
}

struct uccl_op *msg_pump_acked(struct uccl_item *item)
{
	struct uccl_pump_buf *buf = uccl_container_of(item, struct uccl_pump_buf, item);
	struct uccl_pump *u = buf->pump;
	uint8_t i = (uint8_t)(buf - u->bufs);
	struct uccl_op *op = u->op;

	u->busy &= (uint8_t)~(1u << i);
	buf_begin(u, i);
	if (u->busy)
		return NULL;
	pump_free(op->peer->msg_ep, op);
	return op;
}

static void pump_unwait(struct uccl_msg_ep *m, struct uccl_op *op)
{
	if (op->tx.pumped.waits)
		TAILQ_REMOVE(&m->pumps.waiting, op, tx.pumped.link);
	op->tx.pumped.waits = false;
}

bool msg_pump_cut(struct uccl_op *op)
{
	struct uccl_msg_ep *m = op->peer->msg_ep;
	struct uccl_pump *u = op->tx.pumped.by;

	pump_unwait(m, op);
	if (!u)
		return true;
	u->off = op->tx.bulk.len;
	for (uint8_t i = 0; i < UCCL_PUMP_BUFS; i++) {
		struct uccl_pump_buf *buf = &u->bufs[i];

		if (!(u->busy & 1u << i))
			continue;
		/* What is still being loaded has not been handed to the flow. */
		if ((buf->item.queued || buf->item.pending) && !uccl_flow_cut(&op->peer->flow, &buf->item))
			continue;
		msg_copy_end(m, &buf->copy);
		u->busy &= (uint8_t)~(1u << i);
	}
	if (u->busy)
		return false;
	pump_free(m, op);
	return true;
}

void msg_pump_end(struct uccl_msg_ep *m, struct uccl_op *op)
{
	pump_unwait(m, op);
	if (!op->tx.pumped.by)
		return;
	for (uint8_t i = 0; i < UCCL_PUMP_BUFS; i++)
		msg_copy_end(m, &op->tx.pumped.by->bufs[i].copy);
	pump_free(m, op);
}

void msg_pumps_run(struct uccl_msg_ep *m)
{
	struct uccl_op *op;

	while ((op = TAILQ_FIRST(&m->pumps.waiting)) && pump_start(m, op)) {
		TAILQ_REMOVE(&m->pumps.waiting, op, tx.pumped.link);
		op->tx.pumped.waits = false;
	}
}
