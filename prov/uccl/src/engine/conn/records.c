/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What back ends tell each other, in records of the flow. On NICs that have to agree before they write, these records
 * are ours and everything else is msg's.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "engine/impl.h"

void conn_record_submit(struct conn *c, struct conn_record *r, uint8_t rtype, uint32_t len)
{
	r->iov = (struct iovec){.iov_base = r->data, .iov_len = len};
	r->item.rtype = rtype;
	r->item.iov = &r->iov;
	r->item.iov_count = 1;
	r->item.len = len;
	LIST_INSERT_HEAD(&c->records.list, r, link);
	uccl_flow_submit(&c->peer.flow, &r->item);
	engine_ready(c);
}

/* The peer's back end knows such records: both write, or both have rails. PROTOCOL R384 */
static bool speaks(const struct conn *c)
{
	return c->peer.flow.cfg.write.bytes || c->opened.places;
}

void conn_say(struct conn *c)
{
	const struct uccl_nic *nic = c->e->nic;
	struct conn_record *r;
	uint32_t len;

	if (!nic->ops->offer || !c->peer.open || !speaks(c))
		return;
	/* Without memory it is said later: there will be more events. */
	while ((r = calloc(1, sizeof(*r)))) {
		len = nic->ops->offer(c->e->nic, c->opened.nic_peer, r->data,
				      (uint32_t)uccl_min(sizeof(r->data), c->peer.flow.cfg.packet.chunk_bytes));
		if (!len)
			break;
		conn_record_submit(c, r, UCCL_REC_NIC, len);
	}
	free(r);
}

/* PROTOCOL R80 */
static enum uccl_drop conn_hear(struct conn *c, const struct uccl_chunk_in *in)
{
	const struct uccl_nic *nic = c->e->nic;

	if (!nic->ops->accept || !speaks(c))
		return UCCL_DROP_STATE;
	if (in->placed || nic->ops->accept(c->e->nic, c->opened.nic_peer, in->data, in->len))
		return UCCL_DROP_RECORD;
	conn_say(c);
	return UCCL_DROP_COUNT;
}

static enum uccl_drop flow_deliver(struct uccl_flow *f, const struct uccl_chunk_in *in, uint64_t now)
{
	struct conn *c = f->user;
	struct uccl_engine *e = c->e;
	enum uccl_drop reason;

	if (in->rtype == UCCL_REC_LANE)
		return e->msg_ep.lanes ? e->msg_ep.lanes_ops->hear(&c->peer, in) : UCCL_DROP_STATE;
	if (in->rtype == UCCL_REC_NIC)
		return conn_hear(c, in);
	reason = uccl_msg_flow_ops.deliver(f, in, now);
	if (c->lanes_due && reason == UCCL_DROP_COUNT)
		e->msg_ep.lanes_ops->tell_due(&c->peer, in);
	return reason;
}

static void flow_settled(struct uccl_flow *f, uint32_t id, uint32_t gen, uint64_t now)
{
	uccl_msg_flow_ops.settled(f, id, gen, now);
}

static void flow_fence(struct uccl_flow *f, uint16_t path, uint64_t now)
{
	uccl_msg_flow_ops.fence(f, path, now);
}

static void flow_renew(struct uccl_flow *f, uint16_t path, bool stays, uint64_t now)
{
	struct conn *c = f->user;

	(void)now;
	c->e->nic->ops->renew(c->e->nic, c->opened.nic_peer, path, stays);
	conn_say(c);
}

static void flow_item_acked(struct uccl_flow *f, struct uccl_item *item, uint64_t now)
{
	struct conn_record *r;

	if (item->rtype != UCCL_REC_NIC && item->rtype != UCCL_REC_LANE) {
		uccl_msg_flow_ops.acked(f, item, now);
		return;
	}
	r = uccl_container_of(item, struct conn_record, item);
	LIST_REMOVE(r, link);
	free(r);
}

const struct uccl_flow_ops conn_flow_ops = {
	.deliver = flow_deliver,
	.settled = flow_settled,
	.fence = flow_fence,
	.renew = flow_renew,
	.acked = flow_item_acked,
};

void conn_records_free(struct conn *c)
{
	struct conn_record *r;

	while ((r = LIST_FIRST(&c->records.list))) {
		LIST_REMOVE(r, link);
		free(r);
	}
}
