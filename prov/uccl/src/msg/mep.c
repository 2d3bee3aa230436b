/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Life of the message endpoint and its peers, and what happens to operations when a peer dies. */
#include "msg/mep.h"

#include <rdma/fi_errno.h>
#include <string.h>

#include "base/units.h"
#include "msg/rma.h"

#define RX_MAX (1u << 22)

void uccl_mep_init(struct uccl_mep *m, const struct uccl_mep_ops *ops, struct uccl_stats *stats, uint64_t eager_max,
		   uint64_t unexpected_max, uint32_t ops_max)
{
	memset(m, 0, sizeof(*m));
	m->ops = ops;
	m->stats = stats;
	m->eager_max = uccl_min(eager_max, UCCL_EAGER_MAX);
	m->unexpected_max = unexpected_max;
	uccl_pool_init(&m->op_pool, sizeof(struct uccl_op), ops_max);
	uccl_pool_init(&m->rx_pool, sizeof(struct uccl_msg_rx), RX_MAX);
	uccl_pool_init(&m->serve_pool, sizeof(struct uccl_serve), RX_MAX);
	uccl_pool_init(&m->reply_pool, sizeof(struct uccl_reply), UCCL_REPLIES_MAX);
	for (int i = 0; i < UCCL_BLOCK_COUNT; i++)
		TAILQ_INIT(&m->blocked[i]);
	TAILQ_INIT(&m->copies);
	TAILQ_INIT(&m->pumps);
	uccl_ids_init(&m->send_ids);
	uccl_ids_init(&m->rx_ids);
	uccl_match_init(&m->match);
}

static void posted_fail(struct uccl_mep *m, int err)
{
	struct uccl_op *op;

	for (int t = 0; t < UCCL_KINDS; t++)
		while ((op = TAILQ_FIRST(&m->match.posted[t]))) {
			uccl_match_unpost(&m->match, op);
			if (op->children) {
				/* The last of its messages gives it back. */
				op->multi_closed = true;
				continue;
			}
			op->err = err;
			op->done_len = 0;
			op->from = NULL;
			op->done(op);
		}
}

void uccl_mep_gone(struct uccl_mep *m, int err)
{
	m->gone = err;
	posted_fail(m, err);
}

void uccl_mep_fini(struct uccl_mep *m, uint64_t now)
{
	struct uccl_msg_rx *rx;

	/* Messages to ourselves may be on their way between buffers. */
	msg_copies_settle(m);
	uccl_msg_copies(m, now);
	for (int t = 0; t < UCCL_KINDS; t++) {
		while ((rx = TAILQ_FIRST(&m->match.unexpected[t]))) {
			struct uccl_op *self = rx->self;

			uccl_match_unlist(&m->match, rx);
			msg_rx_free(rx);
			if (self)
				msg_self_done(self, FI_ECANCELED);
		}
	}
	posted_fail(m, FI_ECANCELED);
	while ((rx = TAILQ_FIRST(&m->match.claimed))) {
		struct uccl_op *self = rx->self;

		TAILQ_REMOVE(&m->match.claimed, rx, link);
		msg_rx_free(rx);
		if (self)
			msg_self_done(self, FI_ECANCELED);
	}
	uccl_ids_fini(&m->send_ids);
	uccl_ids_fini(&m->rx_ids);
	uccl_pool_fini(&m->op_pool);
	uccl_pool_fini(&m->rx_pool);
	uccl_pool_fini(&m->serve_pool);
	uccl_pool_fini(&m->reply_pool);
}

struct uccl_op *uccl_mep_op_get(struct uccl_mep *m)
{
	return uccl_pool_get(&m->op_pool);
}

void uccl_mep_op_put(struct uccl_mep *m, struct uccl_op *op)
{
	if (op->busy)
		op->orphan = true;
	else
		uccl_pool_put(&m->op_pool, op);
}

void uccl_peer_init(struct uccl_peer *p, struct uccl_mep *m, const struct uccl_addr *addr)
{
	memset(p, 0, sizeof(*p));
	p->mep = m;
	p->addr = *addr;
	p->user = UINT64_MAX;
	TAILQ_INIT(&p->pending);
	TAILQ_INIT(&p->sends);
	TAILQ_INIT(&p->rxs);
	TAILQ_INIT(&p->requests);
	TAILQ_INIT(&p->replies);
}

void uccl_peer_opened(struct uccl_peer *p, uint64_t now)
{
	p->open = true;
	p->flow.rcv_msg_limit = UCCL_MSG_LIMIT;
	p->flow.write_rtype = UCCL_REC_DATA;
	uccl_msg_kick(p, now);
}

void uccl_peer_fail(struct uccl_peer *p, int err, uint64_t now)
{
	struct uccl_mep *m = p->mep;
	struct uccl_msg_rx *rx, *next;
	struct uccl_op *op, *nop;

	if (p->dead)
		return;
	p->dead = err;
	/* Messages to ourselves are unexpected messages too, and end as such. */
	if (p->self)
		return;
	if (p->open)
		uccl_flow_fini(&p->flow);
	p->open = false;
	msg_replies_free(p, now);
	TAILQ_CONCAT(&p->sends, &p->pending, link);
	/* The flow forgot its items: nothing of ours is queued there any more. */
	for (rx = TAILQ_FIRST(&p->rxs); rx; rx = next) {
		next = TAILQ_NEXT(rx, plink);
		rx->cts.queued = rx->fin.queued = false;
		rx->cts.pending = rx->fin.pending = 0;
	}
	while ((op = TAILQ_FIRST(&p->sends)))
		msg_send_failed(op, err);
	/* Those whose turn came first are the first to end. */
	while ((rx = TAILQ_FIRST(&p->requests)))
		msg_rx_failed(rx, err, now);
	for (rx = TAILQ_FIRST(&p->rxs); rx; rx = next) {
		next = TAILQ_NEXT(rx, plink);
		if (!rx->self)
			msg_rx_failed(rx, err, now);
	}
	msg_peer_left(p);
	for (int t = 0; t < UCCL_KINDS; t++)
		for (op = TAILQ_FIRST(&m->match.posted[t]); op; op = nop) {
			nop = TAILQ_NEXT(op, link);
			if (!(op->flags & UCCL_OPF_DIRECTED) || op->peer != p)
				continue;
			uccl_match_unpost(&m->match, op);
			if (op->children) {
				op->multi_closed = true;
				continue;
			}
			op->done_len = 0;
			op->from = p;
			op->err = err;
			op->done(op);
		}
}
