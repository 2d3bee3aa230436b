/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Life of the message endpoint and its peers, and what happens to operations when a peer dies. */
#include "msg/msg_ep.h"

#include <rdma/fi_errno.h>
#include <string.h>

#include "base/units.h"
#include "lanes/lanes.h"
#include "msg/recv/posted.h"
#include "msg/device/pump.h"
#include "msg/recv/recv.h"
#include "msg/rma/reply.h"
#include "msg/send/send.h"
#include "msg/rma/serve.h"
#include "msg/send/msg_tx.h"
#include "msg/recv/unexpected.h"

#define RX_MAX (1u << 22)

void uccl_msg_ep_init(struct uccl_msg_ep *m, const struct uccl_engine_ops *ops, struct uccl_stats *stats,
		      uint64_t eager_max, uint64_t unexpected_max, uint32_t ops_max)
{
	memset(m, 0, sizeof(*m));
	m->ops = ops;
	m->stats = stats;
	m->eager_max = uccl_min(eager_max, UCCL_EAGER_MAX);
	m->unexpected.max = unexpected_max;
	uccl_buf_cache_init(&m->unexpected.cache, UCCL_UNEXPECTED_CACHED);
	uccl_buf_cache_init(&m->tx.cache, UCCL_COPIED_CACHED);
	uccl_buf_cache_init(&m->reply.cache, UCCL_STAGED_CACHED);
	uccl_pool_init(&m->op_pool, sizeof(struct uccl_op), ops_max);
	uccl_pool_init(&m->rx_pool, sizeof(struct uccl_msg_rx), RX_MAX);
	uccl_pool_init(&m->serve.pool, sizeof(struct uccl_serve), RX_MAX);
	uccl_pool_init(&m->reply.pool, sizeof(struct uccl_reply), UCCL_REPLIES_MAX);
	for (int i = 0; i < UCCL_BLOCK_COUNT; i++)
		TAILQ_INIT(&m->serve.blocked[i]);
	TAILQ_INIT(&m->device.copies);
	TAILQ_INIT(&m->serve.refused);
	TAILQ_INIT(&m->pumps.waiting);
	uccl_heap_init(&m->tx.timers);
	uccl_multimap_init(&m->tx.by_context, (uint64_t[2]){0});
	uccl_ids_init(&m->tx.ids);
	uccl_ids_init(&m->rx_ids);
	uccl_match_init(&m->match);
	m->match.key = m->range_key;
}

void uccl_msg_ep_gone(struct uccl_msg_ep *m, int err)
{
	m->gone = err;
	msg_posted_end(m, err);
}

/* Nobody will take it any more. */
static void rx_drop(struct uccl_msg_rx *rx)
{
	if (rx->self.send)
		msg_self_drop(rx, FI_ECANCELED);
	else
		msg_rx_free(rx);
}

void uccl_msg_ep_fini(struct uccl_msg_ep *m, uint64_t now)
{
	struct uccl_msg_rx *rx;

	/* Messages to ourselves may be on their way between buffers. */
	msg_copies_settle(m);
	uccl_msg_copies(m, now);
	for (int t = 0; t < UCCL_KINDS; t++) {
		while ((rx = TAILQ_FIRST(&m->match.unexpected[t]))) {
			uccl_match_unlist(&m->match, rx);
			rx_drop(rx);
		}
	}
	msg_posted_end(m, FI_ECANCELED);
	while ((rx = TAILQ_FIRST(&m->match.claimed))) {
		uccl_match_unclaim(&m->match, rx);
		rx_drop(rx);
	}
	uccl_match_fini(&m->match);
	uccl_multimap_fini(&m->target.uses);
	uccl_heap_fini(&m->tx.timers);
	uccl_multimap_fini(&m->tx.by_context);
	uccl_ids_fini(&m->tx.ids);
	uccl_ids_fini(&m->rx_ids);
	uccl_buf_cache_fini(&m->unexpected.cache);
	uccl_buf_cache_fini(&m->tx.cache);
	uccl_buf_cache_fini(&m->reply.cache);
	uccl_pool_fini(&m->op_pool);
	uccl_pool_fini(&m->rx_pool);
	uccl_pool_fini(&m->serve.pool);
	uccl_pool_fini(&m->reply.pool);
}

void uccl_msg_retry(struct uccl_msg_ep *m, uint64_t now)
{
	m->messages_next = !m->messages_next;
	if (uccl_msg_short(m)) {
		msg_pumps_run(m);
		msg_serve_blocked(m, now);
	}
	if (m->messages_next)
		msg_serve_retry(m, now);
	if (m->posted.starved)
		msg_recv_retry(m, now);
	if (!m->messages_next)
		msg_serve_retry(m, now);
}

int uccl_msg_recv(struct uccl_msg_ep *m, struct uccl_op *op, uint64_t now)
{
	/* Nothing overtakes what waits. */
	if (m->posted.starved)
		uccl_msg_retry(m, now);
	return msg_recv(m, op, now);
}

struct uccl_op *uccl_msg_ep_op_get(struct uccl_msg_ep *m)
{
	return uccl_pool_get(&m->op_pool);
}

void uccl_msg_ep_op_put(struct uccl_msg_ep *m, struct uccl_op *op)
{
	if (op->busy)
		op->orphan = true;
	else
		uccl_pool_put(&m->op_pool, op);
}

void uccl_peer_init(struct uccl_peer *p, struct uccl_msg_ep *m, const struct uccl_addr *addr)
{
	memset(p, 0, sizeof(*p));
	p->msg_ep = m;
	p->addr = *addr;
	p->user = UINT64_MAX;
	TAILQ_INIT(&p->tx.pending);
	TAILQ_INIT(&p->tx.sends);
	for (int t = 0; t < UCCL_KINDS; t++)
		TAILQ_INIT(&p->directed[t]);
	TAILQ_INIT(&p->rx.all);
	TAILQ_INIT(&p->rx.streams);
	TAILQ_INIT(&p->serve.requests);
	TAILQ_INIT(&p->reply.list);
	TAILQ_INIT(&p->lane.unplaced);
}

void uccl_peer_join(struct uccl_peer *p, struct uccl_peer *first, uint64_t now)
{
	struct uccl_msg_ep *m = p->msg_ep;
	struct uccl_msg_rx *rx;

	p->first = first;
	msg_tx_join(p, first);
	/* What comes back for reads. */
	TAILQ_FOREACH(rx, &p->rx.all, plink)
		rx->peer = first;
	TAILQ_CONCAT(&first->rx.all, &p->rx.all, plink);
	uccl_match_rename(&m->match, p, first);
	uccl_sole_peer_join(&m->sole, p, first);
	if (first->user == UINT64_MAX)
		first->user = p->user;
	if (!TAILQ_EMPTY(&first->tx.pending))
		m->ops->connect(first, now);
}

void uccl_peer_opened(struct uccl_peer *p, uint64_t now)
{
	p->open = true;
	if (p->msg_ep->lanes_ops)
		p->msg_ep->lanes_ops->peer_opened(p);
	uccl_ack_tracker_grant(&p->flow.rx.ack_tracker, UCCL_MSG_LIMIT);
	uccl_write_rx_rtype(&p->flow.rx.write, UCCL_REC_DATA);
	uccl_msg_kick(p, now);
}

/*
 * Messages of peers that have ended can still be received, and nobody knows whether somebody will. Together they have a
 * quarter of the room; beyond that the oldest go, until half of that is free. PROTOCOL R46
 */
static void peer_left(struct uccl_peer *p)
{
	struct uccl_msg_ep *m = p->msg_ep;
	uint64_t most = msg_unexpected_limit(m) / 4;
	struct uccl_msg_rx *rx, *next;

	msg_unexpected_left(p);
	if (m->unexpected.left_bytes + (uint64_t)m->unexpected.left_n * UCCL_UNEXPECTED_COST <= most)
		return;
	for (int t = 0; t < UCCL_KINDS; t++)
		for (rx = TAILQ_FIRST(&m->match.unexpected[t]); rx; rx = next) {
			if (m->unexpected.left_bytes + (uint64_t)m->unexpected.left_n * UCCL_UNEXPECTED_COST <=
			    most / 2)
				return;
			next = TAILQ_NEXT(rx, link);
			if (!rx->peer->unexpected.left)
				continue;
			m->stats->dropped[UCCL_DROP_MEMORY]++;
			uccl_match_unlist(&m->match, rx);
			msg_rx_free(rx);
		}
}

void uccl_peer_fail(struct uccl_peer *p, int err, uint64_t now)
{
	struct uccl_msg_rx *rx, *next;

	if (p->dead)
		return;
	p->dead = err;
	/* Messages to ourselves are unexpected messages too, and end as such. */
	if (p->self)
		return;
	if (p->open)
		uccl_flow_fini(&p->flow);
	p->open = false;
	if (p->msg_ep->lanes_ops)
		p->msg_ep->lanes_ops->peer_ended(p, err);
	msg_serve_ended(p, now);
	TAILQ_CONCAT(&p->tx.sends, &p->tx.pending, link);
	/* The flow forgot its items: nothing of ours is queued there any more. */
	for (rx = TAILQ_FIRST(&p->rx.all); rx; rx = next) {
		next = TAILQ_NEXT(rx, plink);
		rx->cts.queued = rx->fin.queued = false;
		rx->cts.pending = rx->fin.pending = 0;
	}
	msg_tx_stop(p, err);
	/* Those whose turn came first are the first to end. */
	while ((rx = TAILQ_FIRST(&p->serve.requests)))
		msg_rx_failed(rx, err);
	for (rx = TAILQ_FIRST(&p->rx.all); rx; rx = next) {
		next = TAILQ_NEXT(rx, plink);
		msg_rx_failed(rx, err);
	}
	msg_rx_numbers_end(p);
	peer_left(p);
	msg_posted_fail(p, err);
}
