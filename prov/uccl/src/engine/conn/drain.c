/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* An endpoint closes: what was accepted is sent, then each peer gets CLOSE. */
#include "base/units.h"
#include "engine/impl.h"

/* Data that was accepted and not acknowledged keeps a closing endpoint this long at most. */
#define DRAIN_DATA_NS (5 * UCCL_NS_PER_S)

/* Told, and it has answered; or not, for the linger time: the peer will find it in its socket. */
static bool drain_answered(const struct uccl_engine *e, const struct conn *c)
{
	const struct uccl_flow *f = &c->peer.flow;

	return f->close.state == UCCL_FLOW_CLOSED ||
	       (f->close.state == UCCL_FLOW_CLOSING && e->now - f->close.began_ns >= e->cfg.linger_ns);
}

/*
 * Only those to which something is still to be said, and the longest told, are looked at: so a poll costs nothing for
 * all the others, which are told at once and answer in any order.
 */
void engine_drain_step(struct uccl_engine *e, uint64_t now)
{
	bool late = now - e->drain.began_ns >= DRAIN_DATA_NS;
	struct conn *c, *next;

	for (c = TAILQ_FIRST(&e->drain.close_unsent); c; c = next) {
		struct uccl_flow *f = &c->peer.flow;

		next = TAILQ_NEXT(c, drain.link);
		if (c->peer.open && f->loss.pto.delayed) {
			uccl_flow_hurry(f, true, now);
			engine_ready(c);
		}
		if (!c->peer.open ||
		    (f->close.state == UCCL_FLOW_OPEN && (!uccl_flow_idle(f) || c->peer.lanes.nstriped) && !late))
			continue;
		if (f->close.state == UCCL_FLOW_OPEN) {
			uccl_flow_close(f, now);
			engine_ready(c);
		}
		conn_drain_set(c, &e->drain.close_sent);
	}
	while ((c = TAILQ_FIRST(&e->drain.close_sent)) && drain_answered(e, c))
		conn_drain_set(c, NULL);
}

void uccl_engine_drain(struct uccl_engine *e, uint64_t now)
{
	struct conn *c;

	if (e->drain.began_ns)
		return;
	/* Lingering is measured from here, whenever the last poll was. */
	now = engine_time(e, now);
	e->drain.began_ns = now ? now : 1;
	conns_half_end(e, now);
	TAILQ_FOREACH(c, &e->conns.live, state.all)
		if (c->hs.state != UCCL_CONN_IDLE)
			conn_drain_set(c, &e->drain.close_unsent);
	engine_drain_step(e, now);
	engine_tx(e, now);
}

bool uccl_engine_drained(const struct uccl_engine *e)
{
	const struct conn *c;

	/* What waits for a connection was accepted, too. */
	TAILQ_FOREACH(c, &e->drain.close_unsent, drain.link)
		if (c->peer.open || (!TAILQ_EMPTY(&c->peer.tx.pending) && e->now - e->drain.began_ns < DRAIN_DATA_NS))
			return false;
	TAILQ_FOREACH(c, &e->drain.close_sent, drain.link)
		if (!drain_answered(e, c))
			return false;
	return true;
}
