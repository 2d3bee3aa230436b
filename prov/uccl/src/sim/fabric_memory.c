/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "sim/fabric_memory.h"

#include <assert.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

/* Of messages under way at once. */
#define MSGS_MAX (1u << 20)
/* Whoever was asked to stop is asked to go on when so much less waits, or its link would stand still in between. */
#define XON_SHARE 0.875

int uccl_fab_memory_init(struct uccl_fab *n)
{
	struct uccl_fab_memory *m;

	if (!n->topo.shared_bytes && !n->topo.pfc)
		return 0;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -FI_ENOMEM;
	n->mem = m;
	uccl_pool_init(&m->msgs, sizeof(struct uccl_fab_xoff), MSGS_MAX);
	m->holds = calloc(n->nports, sizeof(*m->holds));
	m->used = calloc(n->nnodes, sizeof(*m->used));
	return m->holds && m->used ? 0 : -FI_ENOMEM;
}

void uccl_fab_memory_fini(struct uccl_fab *n)
{
	if (!n->mem)
		return;
	uccl_pool_fini(&n->mem->msgs);
	free(n->mem->holds);
	free(n->mem->used);
	free(n->mem);
	n->mem = NULL;
}

/* What is left of a switch's memory, times alpha: what one queue, or with pauses one link, may have of it. */
static uint64_t threshold(const struct uccl_fab *n, uint32_t node)
{
	const struct uccl_fab_topo *t = &n->topo;
	uint64_t used = n->mem->used[node];

	if (!t->shared_bytes)
		return t->xoff_bytes;
	return used < t->shared_bytes ? (uint64_t)(t->alpha * (double)(t->shared_bytes - used)) : 0;
}

/* Is there room for it beside `queued` bytes of its queue, or link? */
static bool fits(const struct uccl_fab *n, uint32_t node, uint64_t queued, uint32_t bytes)
{
	if (n->topo.shared_bytes && n->mem->used[node] + bytes > n->topo.shared_bytes)
		return false;
	return queued + bytes <= threshold(n, node);
}

bool uccl_fab_memory_admits(const struct uccl_fab *n, const struct uccl_fab_port *o, const struct uccl_fab_pkt *p)
{
	const struct uccl_fab_hold *h = &n->mem->holds[p->port];
	uint32_t node = n->ports[p->port].to;

	if (!n->topo.pfc)
		return fits(n, node, o->bytes[UCCL_FAB_DATA], p->bytes);
	return fits(n, node, h->bytes - h->over, p->bytes) || h->over + p->bytes <= n->topo.headroom_bytes;
}

static void tell(struct uccl_fab *n, uint32_t port, bool stop)
{
	struct uccl_fab_xoff *m = uccl_fab_need(uccl_pool_get(&n->mem->msgs));

	m->ev.kind = UCCL_FAB_PAUSE;
	m->port = port;
	m->stop = stop;
	n->mem->holds[port].asked = stop;
	n->mem->pauses += stop;
	uccl_fab_queue_put(&n->q, &m->ev, n->q.now + n->topo.delay_ps);
}

void uccl_fab_memory_take(struct uccl_fab *n, const struct uccl_fab_pkt *p)
{
	struct uccl_fab_memory *m = n->mem;
	struct uccl_fab_hold *h = &m->holds[p->port];
	uint32_t node = n->ports[p->port].to;
	bool over = n->topo.pfc && !fits(n, node, h->bytes - h->over, p->bytes);

	h->bytes += p->bytes;
	if (over)
		h->over += p->bytes;
	else
		m->used[node] += p->bytes;
	m->most_over = uccl_max(m->most_over, h->over);
	m->most_used = uccl_max(m->most_used, m->used[node]);
	if (over && !h->asked)
		tell(n, p->port, true);
}

void uccl_fab_memory_give(struct uccl_fab *n, const struct uccl_fab_pkt *p)
{
	struct uccl_fab_memory *m = n->mem;
	struct uccl_fab_hold *h = &m->holds[p->port];
	uint32_t node = n->ports[p->port].to, own = (uint32_t)uccl_min(p->bytes, h->over);

	assert(h->bytes >= p->bytes && m->used[node] >= p->bytes - own);
	h->bytes -= p->bytes;
	h->over -= own;
	m->used[node] -= p->bytes - own;
	/*
	 * Its headroom is to be whole when it is needed next. However little others leave: when nothing waits, nothing
	 * would come later to say that it may go on.
	 */
	if (h->asked && !h->over && (!h->bytes || (double)h->bytes <= XON_SHARE * (double)threshold(n, node)))
		tell(n, p->port, false);
}

struct uccl_fab_port *uccl_fab_memory_heard(struct uccl_fab *n, struct uccl_fab_event *e)
{
	struct uccl_fab_xoff *msg = uccl_container_of(e, struct uccl_fab_xoff, ev);
	struct uccl_fab_memory *m = n->mem;
	struct uccl_fab_hold *h = &m->holds[msg->port];
	struct uccl_fab_port *o = &n->ports[msg->port];

	assert(o->stopped != msg->stop);
	o->stopped = msg->stop;
	if (msg->stop)
		h->since = n->q.now;
	else
		m->stopped += n->q.now - h->since;
	if (!msg->stop && msg->port < n->topo.hosts)
		m->nics += n->q.now - h->since;
	uccl_pool_put(&m->msgs, msg);
	return o;
}

enum { UNSEEN, OPEN, CLEAR };

/* From a port that has stopped to those where what it sent waits. Depth: no longer than a way through the network. */
static bool circle_from(const struct uccl_fab *n, uint32_t port, uint8_t *seen)
{
	const struct uccl_fab_node *v = &n->nodes[n->ports[port].to];

	seen[port] = OPEN;
	for (uint32_t i = v->down; i < v->up + v->nup; i++) {
		const struct uccl_fab_pkt *p = n->ports[i].head[UCCL_FAB_DATA];

		if (!n->ports[i].stopped || seen[i] == CLEAR)
			continue;
		while (p && p->port != port)
			p = p->next;
		if (p && (seen[i] == OPEN || circle_from(n, i, seen)))
			return true;
	}
	seen[port] = CLEAR;
	return false;
}

bool uccl_fab_memory_circle(const struct uccl_fab *n)
{
	uint8_t *seen = uccl_fab_need(calloc(n->nports, 1));
	bool found = false;

	for (uint32_t i = 0; i < n->nports && !found; i++)
		if (n->ports[i].stopped && seen[i] == UNSEEN)
			found = circle_from(n, i, seen);
	free(seen);
	return found;
}
