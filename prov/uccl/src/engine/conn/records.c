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

/* It leaves in its turn, and is freed when the peer has it. */
static void record_submit(struct conn *c, struct conn_record *r, uint8_t rtype, uint32_t len)
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

void conn_say(struct conn *c)
{
	const struct uccl_nic *nic = c->e->nic;
	struct conn_record *r;
	uint32_t len;

	if (!nic->ops->offer || !c->peer.open || !c->peer.flow.cfg.write_bytes)
		return;
	/* Without memory it is said later: there will be more events. */
	while ((r = calloc(1, sizeof(*r)))) {
		len = nic->ops->offer(c->e->nic, c->opened.nic_peer, r->data,
				      (uint32_t)uccl_min(sizeof(r->data), c->peer.flow.cfg.chunk_bytes));
		if (!len)
			break;
		record_submit(c, r, UCCL_REC_NIC, len);
	}
	free(r);
}

/* PROTOCOL R187: number, how many, zero (6), address */
#define LANE_BYTES (8 + UCCL_ADDR_LEN)

static void lanes_tell(struct conn *c)
{
	struct uccl_engine *e = c->e;
	uint8_t n = (uint8_t)uccl_min(e->lanes.all.n, c->hs.theirs.lanes);

	c->records.lanes_due = false;
	for (uint8_t k = 0; k < n; k++) {
		struct conn_record *r = calloc(1, sizeof(*r));
		struct uccl_addr addr = e->lanes.addr[k];

		/* Without memory there are fewer. */
		if (!r)
			return;
		memset(addr.key, 0, sizeof(addr.key));
		r->data[0] = k;
		r->data[1] = n;
		uccl_addr_encode(r->data + 8, &addr);
		record_submit(c, r, UCCL_REC_LANE, LANE_BYTES);
	}
}

/* A stranger who did not show our key would have our lanes keep payload for nothing. PROTOCOL R314 */
void conn_lanes_say(struct conn *c)
{
	if (c->hs.keyless && !c->state.requested)
		c->records.lanes_due = true;
	else
		lanes_tell(c);
}

/* Is this about a message or request, of either side, that lanes could carry? */
static bool lanes_serve(const struct uccl_chunk_in *in)
{
	struct uccl_env env;

	if (in->rtype != UCCL_REC_MSG && in->rtype != UCCL_REC_REQ)
		return in->rtype == UCCL_REC_CTS;
	uccl_env_decode(&env, in->rec);
	return !(env.flags & UCCL_ENV_EAGER);
}

/* The peer says where a lane of its is. It has the key of its primary. PROTOCOL R187 */
static enum uccl_drop lane_hear(struct conn *c, const struct uccl_chunk_in *in)
{
	static const uint8_t none[UCCL_KEY_LEN];
	struct uccl_engine *e = c->e;
	struct uccl_addr addr;
	int rc;

	if (!e->lanes.all.n)
		return UCCL_DROP_STATE;
	if (in->placed || in->len != LANE_BYTES || in->data[0] >= in->data[1] ||
	    in->data[1] > c->hs.theirs.lanes || uccl_addr_decode(&addr, in->data + 8) || uccl_addr_keyless(&addr))
		return UCCL_DROP_RECORD;
	memcpy(addr.key, c->hs.remote.key, UCCL_KEY_LEN);
	uccl_key_mix(addr.key, e->identity.listener.group);
	rc = uccl_lanes_peer_add(&c->peer, in->data[0], &addr, memcmp(addr.key, none, sizeof(none)));
	return rc == -FI_EINVAL ? UCCL_DROP_RECORD : UCCL_DROP_COUNT;
}

/* PROTOCOL R80 */
static enum uccl_drop conn_hear(struct conn *c, const struct uccl_chunk_in *in)
{
	const struct uccl_nic *nic = c->e->nic;

	if (!nic->ops->accept || !c->peer.flow.cfg.write_bytes)
		return UCCL_DROP_STATE;
	if (in->placed || nic->ops->accept(c->e->nic, c->opened.nic_peer, in->data, in->len))
		return UCCL_DROP_RECORD;
	conn_say(c);
	return UCCL_DROP_COUNT;
}

static enum uccl_drop flow_deliver(struct uccl_flow *f, const struct uccl_chunk_in *in, uint64_t now)
{
	struct conn *c = f->user;
	enum uccl_drop reason;

	if (in->rtype == UCCL_REC_LANE)
		return lane_hear(c, in);
	if (in->rtype == UCCL_REC_NIC)
		return conn_hear(c, in);
	reason = uccl_msg_flow_ops.deliver(f, in, now);
	if (c->records.lanes_due && reason == UCCL_DROP_COUNT && lanes_serve(in))
		lanes_tell(c);
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
