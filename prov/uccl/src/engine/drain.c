/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* An endpoint closes: what was accepted is sent, then each peer is told. */
#include "base/units.h"
#include "engine/impl.h"

/* Data that was accepted and not acknowledged keeps a closing endpoint this long at most. */
#define DRAIN_DATA_NS (5 * UCCL_NS_PER_S)

void engine_drain_step(struct uccl_engine *e, uint64_t now)
{
	struct conn *c;

	TAILQ_FOREACH(c, &e->conns, all) {
		if (!c->peer.open || c->peer.flow.close.state != UCCL_FLOW_OPEN)
			continue;
		if (uccl_flow_idle(&c->peer.flow) || now - e->drain_ns >= DRAIN_DATA_NS) {
			uccl_flow_close(&c->peer.flow, now);
			engine_ready(c);
		}
	}
}

void uccl_engine_drain(struct uccl_engine *e, uint64_t now)
{
	if (e->drain_ns)
		return;
	/* Lingering is measured from here, whenever the last poll was. */
	now = engine_time(e, now);
	e->drain_ns = now ? now : 1;
	conns_half_end(e, now);
	engine_drain_step(e, now);
	engine_tx(e, now);
}

bool uccl_engine_drained(const struct uccl_engine *e)
{
	const struct conn *c;

	TAILQ_FOREACH(c, &e->conns, all) {
		const struct uccl_flow *f = &c->peer.flow;

		/* What waits for a connection was accepted, too. */
		if (!c->peer.open && !TAILQ_EMPTY(&c->peer.pending) &&
		    e->now - e->drain_ns < DRAIN_DATA_NS)
			return false;
		if (!c->peer.open || f->close.state == UCCL_FLOW_CLOSED)
			continue;
		/* Told, and not answered for the linger time: the peer will find it in its socket. */
		if (f->close.state == UCCL_FLOW_CLOSING && e->now - f->close.began_ns >= e->cfg.linger_ns)
			continue;
		return false;
	}
	return true;
}
