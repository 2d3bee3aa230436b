/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a poll does: receive, timers, credit, send. */
#include "base/units.h"
#include "engine/impl.h"
#include "msg/abort.h"

/* With more left in the queue than a poll reads, timers wait; but no longer than this, whoever floods us. */
#define TIMERS_WAIT_NS (5 * UCCL_NS_PER_MS)
/* A poll that comes so much later than a timer wanted it: the program made no call, or its thread had no processor. */
#define AWAY_NS UCCL_NS_PER_MS
/* Between two tries of what has no memory. */
#define SHORT_NS (10 * UCCL_NS_PER_MS)

/*
 * What a timer asks about may be in the queue already, behind packets of others: after an absence of ours it always is.
 * PROTOCOL R131
 */
static bool timers_may(struct uccl_engine *e, uint64_t now)
{
	if (!e->rx.more) {
		e->poll.behind_ns = 0;
		return true;
	}
	if (!e->poll.behind_ns)
		e->poll.behind_ns = uccl_max(now, 1);
	return now - e->poll.behind_ns >= TIMERS_WAIT_NS;
}

static void engine_timers(struct uccl_engine *e, uint64_t now)
{
	struct uccl_timer *t;
	struct conn *c;

	while ((t = uccl_heap_min(&e->heap)) && t->at <= now) {
		uccl_heap_set(&e->heap, t, UCCL_NEVER);
		if (t->kind == TIMER_PACER)
			continue; /* engine_credits comes next */
		if (t->kind == TIMER_HANDSHAKE) {
			c = uccl_container_of(t, struct conn, state.hs_timer);
			conn_asks_again(c, now);
		} else {
			c = uccl_container_of(t, struct conn, peer.flow.timer);
			uccl_flow_expire(&c->peer.flow, now);
			engine_ready(c);
		}
	}
	if (now >= e->scan_at)
		conn_scan(e, now);
}

/* Credits whose time has come, and when the next one's does. */
static void engine_credits(struct uccl_engine *e, uint64_t now)
{
	struct uccl_pull *pull;
	uint64_t at;

	if (uccl_pacer_rests(&e->share.pacer) && e->share.pacer_timer.at == UCCL_NEVER)
		return;
	while ((pull = uccl_pacer_next(&e->share.pacer, now))) {
		struct uccl_flow *f = uccl_container_of(pull, struct uccl_flow, credit.pull);

		engine_link_share(e, now);
		uccl_credit_due(&f->credit);
		engine_ready(peer_conn(f->user));
	}
	at = uccl_pacer_expiry(&e->share.pacer, now);
	if (at != e->share.pacer_timer.at)
		uccl_heap_set(&e->heap, &e->share.pacer_timer, at);
}

/* Were we late? Who waits for the clock is on time, whoever else sleeps. */
static void engine_absence(struct uccl_engine *e, uint64_t now)
{
	const struct uccl_timer *t = uccl_heap_min(&e->heap);
	uint64_t due = uccl_max(e->poll.polled_ns, t ? t->at : UCCL_NEVER);

	if (now > due && now - due > AWAY_NS)
		e->poll.away_ns += now - due;
	e->poll.polled_ns = now;
}

int uccl_engine_poll(struct uccl_engine *e, uint64_t now)
{
	const struct uccl_lanes_ops *lanes = e->msg_ep.lanes_ops;
	int n = 0;

	now = engine_time(e, now);
	engine_absence(e, now);
	e->poll.polling = true;
	e->poll.posted = 0;
	if (lanes)
		n = lanes->poll(&e->msg_ep, now);
	n += engine_rx(e, now);
	now = engine_time(e, now);
	if (uccl_msg_waits(&e->msg_ep))
		uccl_msg_retry(&e->msg_ep, now);
	if (uccl_msg_copying(&e->msg_ep))
		n += uccl_msg_copies(&e->msg_ep, now);
	if (e->device_rx.n)
		engine_device_rx_settle(e);
	if (uccl_msg_aborts_due(&e->msg_ep) <= now) {
		engine_tx_settle(e);
		uccl_msg_aborts_expire(&e->msg_ep, engine_tx_flush(e), now);
	}
	if (timers_may(e, now))
		engine_timers(e, now);
	if (now >= e->share.load_at)
		engine_load_update(e, now);
	engine_credits(e, now);
	if (now >= e->slots.queue.ask_at)
		conn_slots_ask(e, now);
	if (e->drain.began_ns)
		engine_drain_step(e, now);
	e->poll.polling = false;
	if (e->out.head < e->out.n)
		engine_tx_settle(e);
	if (engine_out_due(&e->out) || !TAILQ_EMPTY(&e->conns.hsq))
		engine_tx(e, now);
	if (lanes)
		lanes->report(&e->msg_ep);
	return n;
}

uint64_t uccl_engine_expiry(const struct uccl_engine *e)
{
	struct uccl_timer *t = uccl_heap_min(&e->heap);
	uint64_t at = uccl_min(t ? t->at : UCCL_NEVER, uccl_min(e->scan_at, e->slots.queue.ask_at));

	at = uccl_min(at, uccl_msg_aborts_due(&e->msg_ep));
	/* Nothing tells when there is memory again. */
	if (uccl_msg_short(&e->msg_ep))
		at = uccl_min(at, e->now + SHORT_NS);
	if (e->nic->ops->expiry)
		at = uccl_min(at, uccl_max(e->nic->ops->expiry(e->nic), e->now));
	/* Something waits for the NIC to take it, or for a copy of which nothing else tells. */
	if (e->out.n || !TAILQ_EMPTY(&e->out.ready) || uccl_msg_copying(&e->msg_ep))
		return e->now;
	/* A command waits for room in a mailbox. */
	return e->msg_ep.lanes_ops && e->msg_ep.lanes_ops->waits(&e->msg_ep) ? e->now : at;
}
