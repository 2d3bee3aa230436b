/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Connections of an engine come, end, and are forgotten. One that ended is remembered for a while, so that what is late
 * is known for what it is.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "engine/impl.h"

/* So many ended peers that nobody holds are remembered, each so long: a little more than any cookie is good. */
#define DEAD_MAX 256
#define FORGET_NS (UCCL_COOKIE_LIFE_NS + 10 * UCCL_NS_PER_S)
/* To answer one HELLO takes a peer about so long: so long is the answer under way for each peer that is asked. */
#define ASKED_NS (50 * UCCL_NS_PER_US)
/* A COOKIE moves the mean by this part of the difference: one eighth. */
#define COOKIE_GAIN 8
/* A peer that goes on after our CLOSE is sent it again, no more often than this. */
#define CLOSE_AGAIN_NS (5 * UCCL_NS_PER_MS)

void engine_conns_init(struct engine_conns *s)
{
	TAILQ_INIT(&s->live);
	TAILQ_INIT(&s->hsq);
	TAILQ_INIT(&s->dead);
	TAILQ_INIT(&s->kept);
	TAILQ_INIT(&s->unreferenced);
}

void conn_params(struct uccl_engine *e, struct uccl_conn_params *p)
{
	*p = (struct uccl_conn_params){
		.mtu = e->nic->caps.mtu,
		/* PROTOCOL R93 */
		.write_bytes = e->cfg.security == UCCL_SECURITY_PACKETS ? 0 : e->nic->caps.write_max,
		.window = e->cfg.window_chunks,
		.msg_limit = UCCL_MSG_LIMIT,
		.paths = e->cfg.paths,
		.slots = 1,
		.waits = true,
		.csn = engine_random64(&e->identity) & 0xffffffff,
		.epoch = (uint8_t)(engine_random64(&e->identity) & 15),
		.security = e->cfg.security,
		.segments = UCCL_SEGMENT_COUNT,
		.lanes = e->msg_ep.lanes_ops ? e->msg_ep.lanes_ops->count(&e->msg_ep) : 0,
		.marks = e->nic->caps.marks,
		.pads = true,
		.brittle = e->nic->caps.write_brittle,
		.unsolicited = true,
		.lane = {.short_stripes = true, .lanes_unsolicited = true, .orders_short = true},
		.delays = true,
		.renews = true,
		.units = true,
		.slot_unit = e->nic->caps.queue.unit,
		.aborts = true,
		.rails = e->nic->caps.rails && !e->nic->caps.write_max,
	};
	if (p->security)
		engine_random(&e->identity, p->key, sizeof(p->key));
}

/*
 * Ended peers nobody needs any more. Until then late packets of theirs are known for what they are: no INIT that they
 * have sent is good for longer than its cookie. Who is held, or has messages that the application has not taken, stays.
 * An attempt that failed after INIT is one of them, so that INIT_ACK is answered (R311). Unauthenticated peers who come
 * and go by thousands are remembered for less long: what they could bring back is themselves. PROTOCOL R133
 */
uint64_t conns_forget(struct uccl_engine *e, uint64_t now)
{
	struct conn *c;

	/* Once over the list: who stays in it goes to its end. */
	for (uint32_t n = e->conns.ndead; n; n--) {
		c = TAILQ_FIRST(&e->conns.dead);
		if (now - c->state.forget_ns < FORGET_NS && e->conns.ndead <= DEAD_MAX)
			break;
		if (!c->state.refs && TAILQ_EMPTY(&c->peer.rx.all) && TAILQ_EMPTY(&c->peer.reply.list) &&
		    !c->peer.lanes.nstriped && !uccl_msg_copying(&e->msg_ep)) {
			conn_free(c, &e->conns.dead);
			e->conns.ndead--;
			continue;
		}
		c->state.kept = c->state.refs;
		conn_list_move(c, &e->conns.dead, c->state.kept ? &e->conns.kept : &e->conns.dead);
		e->conns.ndead -= c->state.kept;
		if (!c->state.kept)
			c->state.forget_ns = now;
	}
	c = TAILQ_FIRST(&e->conns.dead);
	return c ? c->state.forget_ns + FORGET_NS : UCCL_NEVER;
}

/* Can nothing come late? It never sent INIT, nor took one, and is no other name of a peer. PROTOCOL R133 */
static bool conn_never_asked(const struct conn *c)
{
	return !c->peer.open && !c->opened.number && !c->hs.asked_ns && !c->entry.half && !c->state.final &&
	       !c->peer.first;
}

/* It may go if nothing holds it: conns_reap looks. */
static void unref_add(struct conn *c, uint64_t now)
{
	struct uccl_engine *e = c->e;

	if (c->state.unreferenced || c->state.refs)
		return;
	TAILQ_INSERT_TAIL(&e->conns.unreferenced, c, state.unref_link);
	c->state.unreferenced = true;
	engine_scan_at(e, now);
}

/*
 * Nobody holds it any more. The caller may be inside of a poll that goes through lists of connections, so nothing is
 * freed here. A second name of another peer counts as one that ended.
 */
static void conn_released(struct conn *c, uint64_t now)
{
	struct uccl_engine *e = c->e;

	if (c->state.kept) {
		conn_list_move(c, &e->conns.kept, &e->conns.dead);
		e->conns.ndead++;
		c->state.kept = false;
		c->state.forget_ns = now;
		engine_scan_at(e, now + FORGET_NS);
	}
	if (c->peer.dead ? conn_never_asked(c) : !c->peer.open && !c->entry.half && !c->peer.first)
		unref_add(c, now);
}

void conn_release(struct conn *c, uint64_t now)
{
	if (!--c->state.refs)
		conn_released(c, now);
}

static void unref_remove(struct conn *c)
{
	if (c->state.unreferenced)
		TAILQ_REMOVE(&c->e->conns.unreferenced, c, state.unref_link);
	c->state.unreferenced = false;
}

/* Does an operation wait for it, or a receive name it? */
static bool conn_needed(const struct conn *c)
{
	const struct uccl_peer *p = &c->peer;

	for (int t = 0; t < UCCL_KINDS; t++)
		if (!TAILQ_EMPTY(&p->directed[t]))
			return true;
	return !TAILQ_EMPTY(&p->tx.pending) || !TAILQ_EMPTY(&p->tx.sends) || !TAILQ_EMPTY(&p->rx.all) || p->self;
}

/* PROTOCOL R133 */
void conns_reap(struct uccl_engine *e)
{
	struct conn *c;

	while ((c = TAILQ_FIRST(&e->conns.unreferenced))) {
		unref_remove(c);
		if (c->state.refs || c->peer.open || c->entry.half || conn_needed(c))
			continue;
		engine_tx_forget(c);
		e->conns.ndead -= c->peer.dead != 0;
		conn_free(c, c->peer.dead ? &e->conns.dead : &e->conns.live);
	}
}

static uint64_t token_new(struct uccl_engine *e)
{
	uint64_t v;

	do
		v = (uint64_t)e->identity.token_top << 48 | engine_random64(&e->identity) >> 16;
	while (!v);
	return v;
}

struct conn *conn_new(struct uccl_engine *e, const struct uccl_addr *addr, bool keyed)
{
	struct conn *c = calloc(1, sizeof(*c));
	struct uccl_addr remote = *addr;
	struct uccl_conn_params mine;

	conns_forget(e, e->now);
	if (!c || e->conns.n >= CONNS_MAX || uccl_heap_reserve(&e->heap, 2 * (e->conns.n + 1) + 1))
		goto nomem;
	c->e = e;
	uccl_peer_init(&c->peer, &e->msg_ep, addr);
	c->peer.self = uccl_nic_addr_equal(&addr->nic, &e->identity.listener.local.nic) &&
		       (!addr->incarnation || addr->incarnation == e->identity.listener.local.incarnation);
	conn_params(e, &mine);
	uccl_key_mix(remote.key, e->identity.listener.group);
	uccl_conn_init(&c->hs, &remote, &mine, token_new(e), engine_random64(&e->identity));
	uccl_stall_init(&c->stall, e->poll.away_ns, e->now);
	c->state.hs_timer.at = UCCL_NEVER;
	c->state.hs_timer.kind = TIMER_HANDSHAKE;
	if (conns_add(c, keyed))
		goto nomem;
	TAILQ_INSERT_TAIL(&e->conns.live, c, state.all);
	e->conns.n++;
	if (e->conns.link == UCCL_LINK_GONE)
		conn_fail(c, FI_ENODEV, e->now);
	else if (e->cfg.security && uccl_addr_keyless(addr) && !c->peer.self)
		conn_fail(c, FI_EACCES, e->now);
	return c;
nomem:
	free(c);
	return NULL;
}

void conn_asks(struct conn *c, bool asks)
{
	c->e->conns.nasking += asks - c->state.asks;
	c->state.asks = asks;
}

void conn_cookie_came(struct conn *c)
{
	uint64_t *mean = &c->e->conns.cookie_ns;

	/* It begins at 0: one late answer slows nobody. */
	if (c->hs.took_ns < UCCL_CONN_PACE_MAX_NS)
		*mean += c->hs.took_ns / COOKIE_GAIN - *mean / COOKIE_GAIN;
}

void conn_asks_again(struct conn *c, uint64_t now)
{
	const struct engine_conns *s = &c->e->conns;

	uccl_conn_pace(&c->hs, uccl_max(2 * s->cookie_ns, s->nasking * ASKED_NS));
	uccl_conn_expire(&c->hs, now);
	conn_due(c);
}

/* It has no part in handshakes any more. */
static void conn_rest(struct conn *c)
{
	struct uccl_engine *e = c->e;

	conn_asks(c, false);

	if (c->state.in_hsq)
		TAILQ_REMOVE(&e->conns.hsq, c, state.hsq);
	c->state.in_hsq = false;
	conn_drain_set(c, NULL);
	conn_silence_end(c);
	uccl_heap_set(&e->heap, &c->state.hs_timer, UCCL_NEVER);
	uccl_slots_close(&c->slots.grant);
	unref_remove(c);
}

void conn_free(struct conn *c, struct conn_list *list)
{
	struct uccl_engine *e = c->e;

	conn_rest(c);
	conns_remove(c);
	TAILQ_REMOVE(list, c, state.all);
	e->conns.n--;
	/* It was a name of that one, and held it. */
	if (c->peer.first)
		conn_release(peer_conn(c->peer.first), e->now);
	free(c->state.last_paths);
	free(c->opened.seal);
	free(c);
}

void conn_join(struct conn *c, struct conn *first, uint64_t now)
{
	struct uccl_engine *e = c->e;

	conn_rest(c);
	engine_tx_forget(c);
	conns_remove(c);
	conn_list_move(c, &e->conns.live, &e->conns.kept);
	c->state.kept = true;
	c->hs.state = UCCL_CONN_DEAD;
	/* As long as somebody holds the name, it holds the peer. */
	conn_request(&first->state);
	conn_hold(&first->state);
	conn_hold(&c->state);
	uccl_peer_join(&c->peer, &first->peer, now);
	conn_release(c, now);
}

void conn_due(struct conn *c)
{
	struct uccl_engine *e = c->e;

	if (!c->state.in_hsq) {
		c->state.in_hsq = true;
		TAILQ_INSERT_TAIL(&e->conns.hsq, c, state.hsq);
	}
	uccl_heap_set(&e->heap, &c->state.hs_timer, uccl_conn_expiry(&c->hs));
}

void conn_handshake_sent(struct conn *c)
{
	struct uccl_engine *e = c->e;

	TAILQ_REMOVE(&e->conns.hsq, c, state.hsq);
	c->state.in_hsq = false;
	uccl_heap_set(&e->heap, &c->state.hs_timer, uccl_conn_expiry(&c->hs));
}

static void conn_close_tell(struct conn *c, uint64_t now)
{
	engine_tell(c, UCCL_PKT_CLOSE, c->state.close_why);
	c->state.close_sent_ns = now;
}

/*
 * The peer that we end may be alive, and wait for us for ever. Not if it said so itself, if another process has its
 * place, or if our NIC is gone. PROTOCOL R311
 */
static bool conn_end_unknown(const struct conn *c, int err)
{
	return c->hs.state == UCCL_CONN_OPEN && !c->state.closed && err != FI_ECONNRESET && err != FI_ENODEV;
}

/*
 * A peer may lack the memory for a connection when it has seen our INIT. Nothing seals what it says then; and a CLOSE
 * for another reason, like that of a half-open connection that gave way, means that INIT is to be repeated.
 */
static bool conn_refused(const struct conn *c, const struct uccl_hdr *h)
{
	return h->type == UCCL_PKT_CLOSE && c->hs.state == UCCL_CONN_INIT && !c->e->cfg.security &&
	       uccl_close_reason_read(h->rec) == UCCL_CLOSE_MEMORY;
}

void conn_late_rx(struct conn *c, const struct uccl_hdr *h, uint64_t now)
{
	if (conn_refused(c, h))
		conn_close_seen(c, UCCL_CLOSE_MEMORY, now);
	if (h->type == UCCL_PKT_CLOSE) {
		/* Also the closer that did not hear our answer. */
		if (c->state.closed || c->state.close_why)
			engine_tell(c, UCCL_PKT_CLOSE_ACK, 0);
		c->state.close_why = UCCL_CLOSE_ENDPOINT;
	} else if (h->type == UCCL_PKT_CLOSE_ACK) {
		c->state.close_why = UCCL_CLOSE_ENDPOINT;
	} else if (c->state.close_why && now - c->state.close_sent_ns >= CLOSE_AGAIN_NS) {
		conn_close_tell(c, now);
	}
}

void conn_late_ack(struct conn *c, const struct uccl_hdr *h, uint64_t now)
{
	c->state.close_why = UCCL_CLOSE_OTHER;
	conn_late_rx(c, h, now);
}

void conn_fail(struct conn *c, int err, uint64_t now)
{
	struct uccl_engine *e = c->e;
	bool tell = conn_end_unknown(c, err);

	if (c->peer.dead)
		return;
	if (c->entry.half)
		conns_half_leave(c);
	conns_leave(c);
	conn_drain_set(c, NULL);
	conn_list_move(c, &e->conns.live, &e->conns.dead);
	e->conns.ndead++;
	c->state.ended_ns = c->state.forget_ns = now;
	engine_scan_at(e, now + FORGET_NS);
	/* A later attempt to reach a peer that never was connected begins as if there had been none. */
	c->state.final = (c->opened.number && !c->handshake.unvalidated) || (err == FI_ECONNRESET && !c->hs.by_place);
	if (!c->state.final)
		conns_key_clear(c);
	unref_remove(c);
	conn_end_reported(c, err, now);
	conn_silence_end(c);
	engine_trace(e, UCCL_TRACE_PEER_END, 0, c, (uint32_t)(c->state.closed ? 0 : err));
	if (c->peer.open) {
		if (c->peer.flow.is_ready)
			engine_unready(&e->out, &c->peer.flow);
		uccl_heap_set(&e->heap, &c->peer.flow.timer, UCCL_NEVER);
		c->state.last_paths = uccl_paths_take_list(&c->peer.flow.paths, &c->state.nlast_paths);
		e->conns.nopen--;
	}
	conn_stalled(c, UCCL_STALL_NOT, now);
	engine_tx_forget(c);
	if (tell) {
		c->state.close_why = (uint8_t)uccl_close_reason_of(err);
		conn_close_tell(c, now);
	}
	conn_disconnect(&c->opened, e->nic);
	uccl_conn_end(&c->hs);
	conn_asks(c, false);
	uccl_heap_set(&e->heap, &c->state.hs_timer, UCCL_NEVER);
	if ((c->state.closed && !c->state.reason) || e->drain.began_ns)
		e->stats.peers_closed++;
	else
		e->stats.peers_dead++;
	uccl_peer_fail(&c->peer, err, now);
	conn_records_free(c);
	uccl_slots_close(&c->slots.grant);
	slots_refit(e);
	if (conn_never_asked(c))
		unref_add(c, now);
}

void conn_fail_silently(struct conn *c, int err, uint64_t now)
{
	c->state.closed = true;
	conn_fail(c, err, now);
}

void conn_close_seen(struct conn *c, enum uccl_close_reason reason, uint64_t now)
{
	c->state.reason = (uint8_t)reason;
	conn_fail_silently(c, uccl_close_error(reason), now);
}

void conns_half_end(struct uccl_engine *e, uint64_t now)
{
	struct conn *c;

	while ((c = TAILQ_FIRST(&e->table.half))) {
		engine_tell(c, UCCL_PKT_CLOSE, UCCL_CLOSE_ENDPOINT);
		conn_close_seen(c, UCCL_CLOSE_ENDPOINT, now);
	}
}

/* PROTOCOL R86 */
void conn_link(struct uccl_engine *e, enum uccl_link link, uint64_t now)
{
	struct conn *c;

	e->conns.link = link;
	/* When it is back, retransmissions go on: no time-out is long. */
	e->stats.link_downs += link != UCCL_LINK_UP;
	if (link != UCCL_LINK_GONE)
		return;
	conns_half_end(e, now);
	while ((c = TAILQ_FIRST(&e->conns.live)))
		conn_fail(c, FI_ENODEV, now);
	uccl_msg_ep_gone(&e->msg_ep, FI_ENODEV);
}

void conns_end(struct uccl_engine *e)
{
	struct conn *c;

	while ((c = TAILQ_FIRST(&e->table.half)))
		conns_half_leave(c);
	while ((c = TAILQ_FIRST(&e->conns.live)))
		conn_fail_silently(c, FI_ECANCELED, e->now);
}

void conns_free(struct uccl_engine *e)
{
	struct conn *c;

	TAILQ_CONCAT(&e->conns.dead, &e->conns.kept, state.all);
	TAILQ_FOREACH(c, &e->conns.dead, state.all)
		c->peer.first = NULL;
	while ((c = TAILQ_FIRST(&e->conns.dead)))
		conn_free(c, &e->conns.dead);
}
