/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the primary says to an engine that is its lane: whom to meet, and of whom to part. */
#include <rdma/fi_errno.h>

#include "engine/impl.h"

/* Another peer has it already, or it is ourselves: whoever said that it is his is wrong, or lies. PROTOCOL R187 */
static bool lane_taken(struct uccl_engine *e, const struct uccl_addr *addr)
{
	const struct conn *c = conn_find(e, &addr->nic, addr->incarnation);

	return uccl_nic_addr_equal(&addr->nic, &e->identity.addr.nic) || (c && c->peer.user != UINT64_MAX);
}

static struct uccl_peer *lane_peer_add(struct uccl_msg_ep *m, const struct uccl_lane_peer *w, uint64_t now)
{
	struct uccl_engine *e = uccl_container_of(m, struct uccl_engine, msg_ep);
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

const struct uccl_lane_ops engine_lane_ops = {.peer_add = lane_peer_add, .peer_del = lane_peer_del};
