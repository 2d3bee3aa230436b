/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* An engine that has lanes, or is one: what lanes/ needs of engines, and the table of all of it. */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/load_table.h"
#include "base/units.h"
#include "engine/impl.h"
#include "lanes/lane_replies.h"
#include "lanes/worker.h"

/* PROTOCOL R187: number, how many, zero (6), address */
#define LANE_BYTES (8 + UCCL_ADDR_LEN)

/* Of an engine that has lanes. */
struct engine_lanes {
	struct uccl_lanes all;		/* msg_ep.lanes */
	struct uccl_load_table load;	/* of it and its lanes */
	struct uccl_addr addr[];	/* where they are */
};

static struct uccl_engine *msg_engine(struct uccl_msg_ep *m)
{
	return uccl_container_of(m, struct uccl_engine, msg_ep);
}

static struct uccl_lane_channel *channel_new(void (*wake)(void *arg, bool primary), void (*rest)(uint32_t times),
					     void *arg)
{
	struct uccl_lane_channel *l = aligned_alloc(_Alignof(struct uccl_lane_channel), sizeof(*l));

	if (!l || !uccl_lane_channel_init(l)) {
		free(l);
		return NULL;
	}
	l->wake = wake;
	l->rest = rest;
	l->arg = arg;
	return l;
}

static void channel_free(struct uccl_lane_channel *l)
{
	uccl_lane_channel_fini(l);
	free(l);
}

static int lanes_open(struct uccl_engine *e, struct uccl_engine *const *lane,
		      struct uccl_lane_channel *const *channel, uint8_t n)
{
	struct engine_lanes *l = calloc(1, sizeof(*l) + n * sizeof(l->addr[0]));

	if (!l)
		return -FI_ENOMEM;
	engine_share_lanes(&e->share, lane, n, &l->load);
	for (uint8_t k = 0; k < n; k++)
		l->addr[k] = lane[k]->identity.addr;
	primary_init(&e->msg_ep, &uccl_lanes_ops, &l->all, channel, n);
	return 0;
}

static int lane_attach(struct uccl_msg_ep *m, struct uccl_lane_channel *channel, uint8_t number)
{
	struct uccl_lane *l = malloc(sizeof(*l));

	/* All stripes of a lane may be taken back. */
	if (!l || uccl_heap_reserve(&m->tx.timers, UCCL_LANE_CHANNEL_STRIPES)) {
		free(l);
		return -FI_ENOMEM;
	}
	worker_init(m, &uccl_lanes_ops, l, channel, number);
	return 0;
}

static void lanes_detach(struct uccl_msg_ep *m, uint64_t now)
{
	if (m->lanes)
		primary_fini(m, now);
}

static void lanes_free(struct uccl_msg_ep *m)
{
	if (m->lanes)
		free(uccl_container_of(m->lanes, struct engine_lanes, all));
	free(m->lane);
}

static uint8_t lanes_count(const struct uccl_msg_ep *m)
{
	return m->lanes ? m->lanes->n : 0;
}

static int lanes_poll(struct uccl_msg_ep *m, uint64_t now)
{
	return m->lanes ? primary_poll(m, now) : worker_poll(m, now);
}

static void lanes_report(struct uccl_msg_ep *m)
{
	if (m->lane)
		worker_report(m);
}

static bool lanes_wait(const struct uccl_msg_ep *m)
{
	return m->lanes ? primary_waits(m) : worker_waits(m);
}

static void lanes_tell(struct conn *c)
{
	struct uccl_lanes *all = c->e->msg_ep.lanes;
	const struct engine_lanes *l = uccl_container_of(all, struct engine_lanes, all);
	uint8_t n = (uint8_t)uccl_min(all->n, c->hs.theirs.lanes);

	c->lanes_due = false;
	for (uint8_t k = 0; k < n; k++) {
		struct conn_record *r = calloc(1, sizeof(*r));
		struct uccl_addr addr = l->addr[k];

		/* Without memory there are fewer. */
		if (!r)
			return;
		memset(addr.key, 0, sizeof(addr.key));
		r->data[0] = k;
		r->data[1] = n;
		uccl_addr_encode(r->data + 8, &addr);
		conn_record_submit(c, r, UCCL_REC_LANE, LANE_BYTES);
	}
}

/* A peer that did not show our key would have our lanes keep payload for nothing. PROTOCOL R314 */
static void peer_tell(struct uccl_peer *p)
{
	struct conn *c = peer_conn(p);

	if (!p->msg_ep->lanes)
		return;
	if (c->hs.keyless && !c->state.requested)
		c->lanes_due = true;
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

static void peer_tell_due(struct uccl_peer *p, const struct uccl_chunk_in *in)
{
	if (lanes_serve(in))
		lanes_tell(peer_conn(p));
}

/* The peer's lanes have the key of its primary. PROTOCOL R187 */
static enum uccl_drop peer_hear(struct uccl_peer *p, const struct uccl_chunk_in *in)
{
	static const uint8_t none[UCCL_KEY_LEN];
	const struct conn *c = peer_conn(p);
	struct uccl_addr addr;
	int rc;

	if (in->placed || in->len != LANE_BYTES || in->data[0] >= in->data[1] || in->data[1] > c->hs.theirs.lanes ||
	    uccl_addr_decode(&addr, in->data + 8) || uccl_addr_keyless(&addr))
		return UCCL_DROP_RECORD;
	memcpy(addr.key, c->hs.remote.key, UCCL_KEY_LEN);
	uccl_key_mix(addr.key, c->e->identity.listener.group);
	rc = primary_peer_add(p, in->data[0], &addr, memcmp(addr.key, none, sizeof(none)));
	return rc == -FI_EINVAL ? UCCL_DROP_RECORD : UCCL_DROP_COUNT;
}

/* Another peer has it already, or it is ourselves: whoever said that it is his is wrong, or lies. PROTOCOL R187 */
static bool lane_taken(struct uccl_engine *e, const struct uccl_addr *addr)
{
	const struct conn *c = conn_find(e, &addr->nic, addr->incarnation);

	return uccl_nic_addr_equal(&addr->nic, &e->identity.addr.nic) || (c && c->peer.user != UINT64_MAX);
}

static struct uccl_peer *lane_peer_add(struct uccl_msg_ep *m, const struct uccl_lane_peer *w, uint64_t now)
{
	struct uccl_engine *e = msg_engine(m);
	struct uccl_peer *p = lane_taken(e, &w->addr) ? NULL : uccl_engine_peer(e, &w->addr, true);

	if (p && w->connect && !p->dead)
		m->ops->connect(p, now);
	return p;
}

/*
 * The primary has ended it, and said why; nobody refers to it any more. The primary may connect to the same peer anew.
 */
static void lane_peer_del(struct uccl_peer *p, uint64_t now)
{
	struct conn *c = peer_conn(p);

	conn_release(c, now);
	conn_fail_silently(c, FI_ECONNABORTED, now);
	conns_key_clear(c);
}

static void peer_opened(struct uccl_peer *p)
{
	if (p->msg_ep->lane)
		worker_peer_opened(p);
}

static void peer_ended(struct uccl_peer *p, int err)
{
	if (p->msg_ep->lane)
		worker_peer_ended(p, err);
	else if (p->lanes.peers)
		primary_peer_del(p);
}

const struct uccl_lanes_ops uccl_lanes_ops = {
	.channel_new = channel_new,
	.channel_free = channel_free,
	.channel_late = lane_channel_late,
	.open = lanes_open,
	.attach = lane_attach,
	.detach = lanes_detach,
	.free = lanes_free,
	.count = lanes_count,
	.poll = lanes_poll,
	.report = lanes_report,
	.waits = lanes_wait,
	.tell = peer_tell,
	.tell_due = peer_tell_due,
	.hear = peer_hear,
	.flow_ops = &worker_flow_ops,
	.lane_peer_add = lane_peer_add,
	.lane_peer_del = lane_peer_del,
	.peer_opened = peer_opened,
	.peer_ended = peer_ended,
	.of_peer = primary_of_peer,
	.offer = primary_offer,
	.rx_post = primary_rx_post,
	.rx_post_unsolicited = primary_rx_post_unsolicited,
	.rx_claim = reassembly_claim,
	.rx_close = primary_rx_close,
	.may = primary_may,
	.named = primary_named,
	.for_unsolicited = primary_for_unsolicited,
	.send = primary_send,
	.stop = primary_stop,
	.reads = primary_reads,
};
