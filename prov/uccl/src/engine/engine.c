/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "engine/engine.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "engine/impl.h"
#include "msg/mep.h"

/* Rounds of receiving in one poll at most, so that sending is never far. */
#define RX_ROUNDS 8
/* With more than that left in the queue, timers wait; but no longer than this, whoever floods us. */
#define TIMERS_WAIT_NS (5 * UCCL_NS_PER_MS)
/* Packets of one flow in one turn at most. */
#define TX_TURN 64
/* Operations that an endpoint may have open. */
#define OPS_MAX 65536
#define SHARERS_NS UCCL_NS_PER_MS /* between two looks at who shares the line rate */
/* Data that was accepted and not acknowledged keeps a closing endpoint this long at most. */
#define DRAIN_DATA_NS (5 * UCCL_NS_PER_S)
/* A poll that comes so much later than a timer wanted it: the program made no call, or its thread had no processor. */
#define AWAY_NS UCCL_NS_PER_MS

static bool power_of_two(uint32_t v)
{
	return v && !(v & (v - 1));
}

/*
 * All tokens of this endpoint begin alike, so that the NIC can tell without a list of them what is for nobody here. The
 * rest of a token is as good a secret. PROTOCOL R158
 */
static void token_top(struct uccl_engine *e)
{
	uint8_t mac[UCCL_MAC_LEN];

	uccl_mac(mac, "token", 5, e->listener.secret);
	e->token_top = uccl_get16(mac);
}

static void nic_guard(struct uccl_engine *e)
{
	struct uccl_nic_guard g = { .magic = UCCL_MAGIC, .version = UCCL_VERSION, .hello = UCCL_PKT_HELLO,
				    .init = UCCL_PKT_INIT, .token_top = e->token_top,
				    .incarnation = e->listener.local.incarnation };

	/* The filter has a bit for each type. */
	for (uint8_t type = 0; type < 32; type++)
		if (uccl_type_known(type) && type != g.hello && type != g.init)
			g.types |= 1u << type;
	if (e->nic->ops->guard)
		e->nic->ops->guard(e->nic, &g);
}

int uccl_engine_open(const struct uccl_engine_attr *attr, uint64_t now, struct uccl_engine **out)
{
	struct uccl_engine *e = calloc(1, sizeof(*e));
	const struct uccl_config *cfg = attr->config;
	int rc = -FI_ENOMEM;

	if (!e)
		goto fail;
	rc = -FI_EINVAL;
	e->nic = attr->nic;
	e->cfg = *cfg;
	e->cc = uccl_cc_find(cfg->cc);
	e->pathsel = uccl_path_find(cfg->path);
	e->credit = uccl_credit_find(cfg->credit);
	if (uccl_policies_values((const char *const[]){cfg->cc, cfg->path, cfg->credit}, e->k) || !cfg->paths ||
	    cfg->paths > UCCL_PATHS_MAX ||
	    !power_of_two(cfg->window_chunks) || cfg->window_chunks < 64 || cfg->window_chunks > 16384 ||
	    cfg->security >= UCCL_SECURITY_COUNT)
		goto fail;
	e->cfg.paths = (uint16_t)uccl_min(cfg->paths, attr->nic->caps.labels);
	e->random = attr->random;
	e->random_arg = attr->random_arg;
	e->trace = attr->trace;
	e->interface = attr->interface;
	/* What is scattered cannot be proven before it is placed. */
	if (attr->nic->caps.hints && !cfg->security) {
		rc = -FI_ENOMEM;
		e->bounce = malloc((size_t)RX_BATCH * attr->nic->caps.mtu);
		if (!e->bounce)
			goto fail;
	}
	attr->nic->ops->addr(attr->nic, &e->listener.local.nic);
	if (attr->identity) {
		e->listener.local.incarnation = attr->identity->incarnation;
		memcpy(e->listener.local.key, attr->identity->key, UCCL_KEY_LEN);
	}
	while (!e->listener.local.incarnation) {
		e->random(e->random_arg, &e->listener.local.incarnation, sizeof(e->listener.local.incarnation));
		e->random(e->random_arg, e->listener.local.key, UCCL_KEY_LEN);
	}
	e->addr = e->listener.local;
	if (attr->group)
		memcpy(e->listener.group, attr->group, UCCL_KEY_LEN);
	uccl_key_mix(e->listener.local.key, e->listener.group);
	e->random(e->random_arg, e->listener.secret, UCCL_KEY_LEN);
	token_top(e);
	nic_guard(e);
	e->listener.keyless = cfg->keyless;
	e->listener.security = cfg->security;
	uccl_mep_init(&e->mep, &engine_mep_ops, &e->stats, cfg->eager_bytes, cfg->unexpected_bytes, OPS_MAX);
	uccl_mac(e->mep.cover_key, "cover", 5, e->listener.secret);
	e->mep.target = attr->target;
	e->mep.target_arg = attr->target_arg;
	e->mep.room = attr->room;
	e->mep.room_arg = attr->room_arg;
	e->mep.data_takes = attr->data_takes;
	e->mep.device = attr->device;
	e->mep.device_arg = attr->device_arg;
	e->mep.cm = attr->connected;
	e->mep.dereg_fences = attr->nic->caps.dereg_fences;
	uccl_heap_init(&e->heap);
	uccl_slots_init(&e->slots);
	uccl_pacer_init(&e->pacer, attr->nic->caps.link_bps);
	e->sharers = attr->sharers;
	e->sharers_arg = attr->sharers_arg;
	e->pacer_timer.at = UCCL_NEVER;
	e->pacer_timer.kind = TIMER_PACER;
	TAILQ_INIT(&e->conns);
	TAILQ_INIT(&e->half);
	TAILQ_INIT(&e->dead);
	TAILQ_INIT(&e->kept);
	TAILQ_INIT(&e->hsq);
	TAILQ_INIT(&e->ready);
	e->now = e->polled_ns = now;
	uccl_held_init(&e->nic_held, 0, now);
	e->scan_at = UCCL_NEVER;
	*out = e;
	return 0;
fail:
	if (e)
		free(e->bounce);
	free(e);
	attr->nic->ops->close(attr->nic);
	return rc;
}

void uccl_engine_close(struct uccl_engine *e)
{
	struct conn *c;

	while ((c = TAILQ_FIRST(&e->half)))
		conns_half_leave(c);
	while ((c = TAILQ_FIRST(&e->conns))) {
		c->closed = true;
		conn_fail(c, FI_ECANCELED, e->now);
	}
	uccl_mep_fini(&e->mep, e->now);
	TAILQ_CONCAT(&e->dead, &e->kept, all);
	while ((c = TAILQ_FIRST(&e->dead)))
		conn_free(c, &e->dead);
	e->nic->ops->close(e->nic);
	uccl_heap_fini(&e->heap);
	free(e->bounce);
	free(e);
}

const struct uccl_addr *uccl_engine_addr(const struct uccl_engine *e)
{
	return &e->addr;
}

void uccl_engine_row(struct uccl_engine *e, uint64_t first, const struct uccl_nic_addr *at, uint32_t n)
{
	e->listener.row = (struct uccl_row){ .first = first, .n = n, .at = at };
}

int uccl_engine_wait_fd(const struct uccl_engine *e)
{
	return e->nic->ops->wait_fd ? e->nic->ops->wait_fd(e->nic) : -FI_ENOSYS;
}

/* Callers that took the time and then waited for their turn are late; in here it never goes back. */
static uint64_t engine_time(struct uccl_engine *e, uint64_t now)
{
	return e->now = uccl_max(e->now, now);
}

/* sending */

/* Handshake packets. */
static bool tx_handshakes(struct uccl_engine *e, uint64_t now)
{
	struct conn *c;

	while ((c = TAILQ_FIRST(&e->hsq))) {
		struct uccl_tx *tx = engine_tx_slot(e);

		if (!tx)
			return false;
		if (!uccl_conn_tx(&c->hs, &e->listener, tx, c->init_buf, now)) {
			TAILQ_REMOVE(&e->hsq, c, hsq);
			c->in_hsq = false;
			uccl_heap_set(&e->heap, &c->hs_timer, uccl_conn_expiry(&c->hs));
			continue;
		}
		tx->label = (uint16_t)(tx->label % e->nic->caps.labels);
		tx->peer = c->nic_peer;
		tx->to = &c->peer.addr.nic;
		e->tx_n++;
		/* init_buf is one: it must leave before the next step writes it. */
		if (!engine_tx_flush(e))
			return false;
	}
	return true;
}

/* This peer has sent all that it may. */
static void tx_held(struct conn *c, uint64_t now)
{
	enum uccl_held why = uccl_flow_held(&c->peer.flow, now);

	if (why == UCCL_HELD_NOT && !c->peer.flow.inflight_chunks) {
		if (!TAILQ_EMPTY(&c->peer.sends))
			why = UCCL_HELD_ANSWER;
		else if (!TAILQ_EMPTY(&c->peer.pending) && !TAILQ_FIRST(&c->peer.pending)->loading)
			why = UCCL_HELD_LIMIT;
	}
	/* Questions that could not leave are no silence of the peer. */
	if (why == UCCL_HELD_SILENT && c->e->nic_held.why == UCCL_HELD_NIC)
		why = UCCL_HELD_NOT;
	conn_held(c, why, now);
}

/* The NIC takes no more, or does again. */
static void tx_full(struct uccl_engine *e, bool full, uint64_t now)
{
	uccl_held_set(&e->nic_held, full ? UCCL_HELD_NIC : UCCL_HELD_NOT, e->away_ns, now);
}

static void engine_tx(struct uccl_engine *e, uint64_t now)
{
	struct uccl_flow *f;

	if ((e->tx_head && !engine_tx_flush(e)) || !tx_handshakes(e, now)) {
		tx_full(e, true, now);
		return;
	}
	while ((f = TAILQ_FIRST(&e->ready))) {
		struct conn *c = peer_conn(f->user);
		int sent = 0;

		while (sent < TX_TURN) {
			struct uccl_tx *tx = engine_tx_slot(e);

			if (!tx)
				goto out;
			if (!uccl_flow_tx(f, tx, now))
				break;
			tx->peer = c->nic_peer;
			tx->to = &c->peer.addr.nic;
			if (c->seal && tx->kind == UCCL_TX_PACKET)
				uccl_seal_put(c->seal, tx);
			sent++;
			if (!engine_tx_add(e))
				goto out;
		}
		if (f->train.news)
			conn_trains(c);
		if (f->pmtu_news)
			conn_pmtu(c);
		TAILQ_REMOVE(&e->ready, f, ready);
		if (sent == TX_TURN) {
			/* Others have their turn, then this one goes on. */
			TAILQ_INSERT_TAIL(&e->ready, f, ready);
			continue;
		}
		f->is_ready = false;
		uccl_heap_set(&e->heap, &f->timer, uccl_flow_expiry(f));
		tx_held(c, now);
		if (f->close_seen && !f->close_ack_due) {
			/* Its answer is in the batch: let it leave, then this peer is history. */
			engine_tx_flush(e);
			conn_close_seen(c, now);
		}
	}
out:
	tx_full(e, !engine_tx_flush(e), now);
}

/* receiving */

static void drop(struct uccl_engine *e, enum uccl_drop reason)
{
	if (reason == UCCL_DROP_COUNT)
		return;
	e->stats.dropped[reason]++;
	engine_trace(e, UCCL_TRACE_DROP, (uint8_t)reason, NULL, 0);
}

/* A packet for an open flow, and what its acknowledgement means for messages that wait. */
static void rx_flow(struct conn *c, const struct uccl_hdr *h, const uint8_t *payload, const uint8_t *tail,
		    uint64_t age_ns, uint64_t now)
{
	struct uccl_flow *f = &c->peer.flow;
	bool was_short = f->peer_short;

	uccl_flow_rx(f, h, payload, tail, age_ns, now);
	if (f->peer_short && !was_short)
		uccl_msg_hold(&c->peer);
	uccl_msg_kick(&c->peer, now);
	engine_ready(c);
}

/* PROTOCOL R90: both sides seal, or none. */
static enum uccl_drop seal_check(struct conn *c, const struct uccl_rx *rx, const struct uccl_hdr *h)
{
	if (c->seal)
		return uccl_seal_check(c->seal, rx->data, rx->len);
	return h->flags & UCCL_FLAG_SEALED ? UCCL_DROP_SEAL : UCCL_DROP_COUNT;
}

static void rx_packet(struct uccl_engine *e, const struct uccl_rx *rx, const struct uccl_hdr *h,
		      const uint8_t *payload, uint64_t now)
{
	enum uccl_drop reason;
	struct conn *c;

	if (h->type < UCCL_PKT_ACK) {
		drop(e, conn_rx(e, h, payload, &rx->src, now));
		return;
	}
	c = conn_by_token(e, h->token);
	if (!c) {
		drop(e, UCCL_DROP_TOKEN);
		return;
	}
	if (memcmp(rx->src.ip, c->peer.addr.nic.ip, sizeof(rx->src.ip))) {
		drop(e, UCCL_DROP_SOURCE);
		return;
	}
	reason = seal_check(c, rx, h);
	if (reason != UCCL_DROP_COUNT) {
		drop(e, reason);
		return;
	}
	if (c->half && h->type == UCCL_PKT_CLOSE)
		conn_close_seen(c, now);
	else if (c->half)
		conn_wake(c, now);
	if (!c->peer.open) {
		/* Also the closer that did not hear our answer. */
		if (c->closed && h->type == UCCL_PKT_CLOSE)
			engine_tell(c, UCCL_PKT_CLOSE_ACK);
		drop(e, UCCL_DROP_STATE);
		return;
	}
	rx_flow(c, h, payload, payload + h->payload_len, rx->age_ns, now);
}

/* A packet as one piece of memory; NULL: it was dropped. `spare` holds mtu bytes. */
static const uint8_t *rx_whole(struct uccl_engine *e, struct uccl_rx *rx, uint8_t *spare)
{
	uint32_t n = rx->len;

	if (n < UCCL_HDR_LEN || n > e->nic->caps.mtu || rx->body_len + rx->rest_len + UCCL_HDR_LEN != n)
		return NULL;
	memcpy(spare, rx->data, UCCL_HDR_LEN);
	memcpy(spare + UCCL_HDR_LEN, rx->body, rx->body_len);
	if (rx->rest_len)
		memcpy(spare + UCCL_HDR_LEN + rx->body_len, rx->rest, rx->rest_len);
	return spare;
}

/*
 * Payloads that the NIC scattered by prediction. A wrong guess put a payload where another one belongs, perhaps one of
 * this same batch; so first every wrong one is moved out of the way, then the batch is processed as usual.
 */
static void rx_settle(struct uccl_engine *e, struct uccl_rx *v, int n)
{
	for (int i = 0; i < n; i++) {
		struct uccl_rx *rx = &v[i];
		const uint8_t *whole;
		struct uccl_hdr h;
		struct conn *c;

		if (rx->kind != UCCL_RX_PACKET || !rx->split)
			continue;
		e->stats.hints++;
		/* A tail behind a short payload lies where another payload of this batch may be copied: not in place.
		 */
		if (uccl_hdr_decode(&h, rx->data, rx->len) == UCCL_DROP_COUNT && h.payload_len == rx->body_len) {
			c = conn_by_token(e, h.token);
			if (c && c->peer.open && uccl_msg_place(&c->peer, &h) == rx->body) {
				e->stats.hint_hits++;
				continue;
			}
		}
		whole = rx_whole(e, rx, e->bounce + (size_t)i * e->nic->caps.mtu);
		rx->split = false;
		rx->data = whole ? whole : rx->data;
		rx->len = whole ? rx->len : 0;
	}
}

static void rx_one(struct uccl_engine *e, struct uccl_rx *rx, uint64_t now)
{
	struct uccl_hdr h;
	struct conn *c;
	enum uccl_drop reason;

	switch (rx->kind) {
	case UCCL_RX_PACKET:
		reason = uccl_hdr_decode(&h, rx->data, rx->len);
		if (reason != UCCL_DROP_COUNT) {
			drop(e, reason);
			return;
		}
		if (!rx->split) {
			rx_packet(e, rx, &h, rx->data + UCCL_HDR_LEN, now);
			return;
		}
		/* In place; its tail was left in the rest. */
		c = conn_by_token(e, h.token);
		if (!c || !c->peer.open || memcmp(rx->src.ip, c->peer.addr.nic.ip, sizeof(rx->src.ip))) {
			drop(e, UCCL_DROP_SOURCE);
			return;
		}
		rx_flow(c, &h, rx->body, rx->rest, rx->age_ns, now);
		return;
	case UCCL_RX_UNREACH:
	case UCCL_RX_TOO_LONG:
		drop(e, conn_icmp(e, rx, now));
		return;
	case UCCL_RX_GONE:
		conn_gone(e, &rx->src, now);
		return;
	case UCCL_RX_LINK:
		conn_link(e, (enum uccl_link)rx->imm, now);
		return;
	default:
		break;
	}
	/* Events of a connected peer: the id given to connect() is its token. */
	c = conn_by_token(e, rx->peer_id);
	if (!c || !c->peer.open)
		return;
	if (rx->kind == UCCL_RX_WRITE)
		uccl_flow_rx_write(&c->peer.flow, rx->imm, rx->len, rx->path, now);
	else if (rx->kind == UCCL_RX_SENT)
		uccl_flow_sent(&c->peer.flow, rx->cookie, now);
	else if (rx->kind == UCCL_RX_FENCED)
		uccl_flow_fenced(&c->peer.flow, rx->path, now);
	else if (rx->kind == UCCL_RX_WRITE_ON || rx->kind == UCCL_RX_WRITE_OFF)
		uccl_flow_writes(&c->peer.flow, rx->path, rx->kind == UCCL_RX_WRITE_ON, now);
	if (rx->kind != UCCL_RX_WRITE && rx->kind != UCCL_RX_SENT)
		conn_say(c);
	engine_ready(c);
}

static int engine_rx(struct uccl_engine *e, uint64_t now)
{
	struct uccl_rx_hint hints[RX_BATCH];
	struct uccl_rx v[RX_BATCH];
	int total = 0;

	e->rx_more = false;
	for (int round = 0; round < RX_ROUNDS; round++) {
		int nhints = e->bounce ? uccl_msg_hints(&e->mep, hints, RX_BATCH) : 0;
		int n = e->nic->ops->rx(e->nic, v, RX_BATCH, hints, nhints);

		if (n <= 0)
			return total;
		if (nhints)
			rx_settle(e, v, n);
		for (int i = 0; i < n; i++)
			rx_one(e, &v[i], now);
		total += n;
		if (n < RX_BATCH)
			return total;
	}
	e->rx_more = true;
	return total;
}

/* timers */

/*
 * What a timer asks about may be in the queue already, behind packets of others: after an absence of ours it always is.
 * PROTOCOL R131
 */
static bool timers_may(struct uccl_engine *e, uint64_t now)
{
	if (!e->rx_more) {
		e->behind_ns = 0;
		return true;
	}
	if (!e->behind_ns)
		e->behind_ns = uccl_max(now, 1);
	return now - e->behind_ns >= TIMERS_WAIT_NS;
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
			c = uccl_container_of(t, struct conn, hs_timer);
			uccl_conn_expire(&c->hs, now);
			conn_due(c);
		} else {
			c = uccl_container_of(t, struct conn, peer.flow.timer);
			uccl_flow_expire(&c->peer.flow, now);
			engine_ready(c);
		}
	}
	if (now >= e->scan_at)
		conn_scan(e, now);
}

/* Others hand out credit for the same link: each its part. */
static void link_share(struct uccl_engine *e, uint64_t now)
{
	if (!e->sharers || now < e->sharers_at)
		return;
	e->sharers_at = now + SHARERS_NS;
	uccl_pacer_link(&e->pacer, e->nic->caps.link_bps / uccl_max(1, e->sharers(e->sharers_arg, now)));
}

/* Credits whose time has come, and when the next one's does. */
static void engine_credits(struct uccl_engine *e, uint64_t now)
{
	struct uccl_pull *pull;
	uint64_t at;

	while ((pull = uccl_pacer_next(&e->pacer, now))) {
		struct uccl_flow *f = uccl_container_of(pull, struct uccl_flow, pull);

		link_share(e, now);
		f->credit_due = true;
		engine_ready(peer_conn(f->user));
	}
	at = uccl_pacer_expiry(&e->pacer, now);
	if (at != e->pacer_timer.at)
		uccl_heap_set(&e->heap, &e->pacer_timer, at);
}

static void engine_drain_step(struct uccl_engine *e, uint64_t now)
{
	struct conn *c;

	TAILQ_FOREACH(c, &e->conns, all) {
		if (!c->peer.open || c->peer.flow.closing != UCCL_FLOW_OPEN)
			continue;
		if (uccl_flow_idle(&c->peer.flow) || now - e->drain_ns >= DRAIN_DATA_NS) {
			uccl_flow_close(&c->peer.flow, now);
			engine_ready(c);
		}
	}
}

/* Were we late? Who waits for the clock is on time, whoever else sleeps. */
static void engine_absence(struct uccl_engine *e, uint64_t now)
{
	const struct uccl_timer *t = uccl_heap_min(&e->heap);
	uint64_t due = uccl_max(e->polled_ns, t ? t->at : UCCL_NEVER);

	if (now > due && now - due > AWAY_NS)
		e->away_ns += now - due;
	e->polled_ns = now;
}

int uccl_engine_poll(struct uccl_engine *e, uint64_t now)
{
	int n;

	now = engine_time(e, now);
	engine_absence(e, now);
	e->polling = true;
	n = engine_rx(e, now);
	if (uccl_msg_waits(&e->mep))
		uccl_msg_retry(&e->mep, now);
	if (uccl_msg_copying(&e->mep))
		n += uccl_msg_copies(&e->mep, now);
	if (timers_may(e, now))
		engine_timers(e, now);
	engine_credits(e, now);
	if (now >= e->slots.ask_at)
		conn_slots_ask(e, now);
	if (e->drain_ns)
		engine_drain_step(e, now);
	e->polling = false;
	engine_tx_settle(e);
	engine_tx(e, now);
	return n;
}

uint64_t uccl_engine_expiry(const struct uccl_engine *e)
{
	struct uccl_timer *t = uccl_heap_min(&e->heap);
	uint64_t at = uccl_min(t ? t->at : UCCL_NEVER, uccl_min(e->scan_at, e->slots.ask_at));

	/* Something waits for the NIC to take it, or for a copy of which nothing else tells. */
	return e->tx_n || !TAILQ_EMPTY(&e->ready) || uccl_msg_copying(&e->mep) ? e->now : at;
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
		if (!c->peer.open || f->closing == UCCL_FLOW_CLOSED)
			continue;
		/* Told, and not answered for the linger time: the peer will find it in its socket. */
		if (f->closing == UCCL_FLOW_CLOSING && e->now - f->close_began_ns >= e->cfg.linger_ns)
			continue;
		return false;
	}
	return true;
}

/* peers and operations */

/* Who is asked for by its place: the one that we are connected to, if there is one. */
static struct conn *peer_there(struct uccl_engine *e, const struct uccl_nic_addr *at)
{
	struct conn *c, *found = NULL;

	for (c = conns_at(e, at); c; c = TAILQ_NEXT(c, there))
		if (!c->hs.remote.indirect && (!found || c->peer.open))
			found = c;
	return found;
}

struct uccl_peer *uccl_engine_peer(struct uccl_engine *e, const struct uccl_addr *addr, bool create)
{
	struct conn *c;

	/* Who is at our own place is known. */
	if (uccl_addr_keyless(addr) && uccl_nic_addr_equal(&addr->nic, &e->addr.nic))
		addr = &e->addr;
	c = conn_find(e, &addr->nic, addr->incarnation);
	if (!c && uccl_addr_keyless(addr))
		c = peer_there(e, &addr->nic);
	if (!c && create)
		c = conn_new(e, addr);
	/* It connected to us first, without showing its key: now we know it. */
	if (c && c->hs.state != UCCL_CONN_OPEN && !uccl_addr_keyless(addr)) {
		memcpy(c->hs.remote.key, addr->key, UCCL_KEY_LEN);
		uccl_key_mix(c->hs.remote.key, e->listener.group);
	}
	if (!c)
		return NULL;
	if (c->half)
		conn_wake(c, e->now);
	uccl_peer_hold(&c->peer);
	return &c->peer;
}

void uccl_peer_hold(struct uccl_peer *p)
{
	peer_conn(p)->known = true;
}

const struct uccl_addr *uccl_peer_addr(const struct uccl_peer *p)
{
	return &uccl_peer_first(p)->addr;
}

bool uccl_peer_same(const struct uccl_peer *p, const struct uccl_peer *q)
{
	return uccl_peer_first(p) == uccl_peer_first(q);
}

bool uccl_peer_closed(const struct uccl_peer *p)
{
	return peer_conn(uccl_peer_first(p))->closed;
}

uint64_t uccl_peer_user(const struct uccl_peer *p)
{
	return uccl_peer_first(p)->user;
}

void uccl_peer_set_user(struct uccl_peer *p, uint64_t user)
{
	uccl_peer_first(p)->user = user;
	uccl_peer_hold(p);
}

struct uccl_op *uccl_op_get(struct uccl_engine *e)
{
	return uccl_mep_op_get(&e->mep);
}

void uccl_op_put(struct uccl_engine *e, struct uccl_op *op)
{
	uccl_mep_op_put(&e->mep, op);
}

/* What a call queued leaves at once, unless a poll further up will do it. */
static void engine_push(struct uccl_engine *e, uint64_t now)
{
	if (!e->polling && (!TAILQ_EMPTY(&e->ready) || !TAILQ_EMPTY(&e->hsq)))
		engine_tx(e, now);
}

int uccl_engine_send(struct uccl_engine *e, struct uccl_op *op, uint64_t now)
{
	int rc;

	now = engine_time(e, now);
	op->peer = uccl_peer_first(op->peer);
	rc = uccl_msg_send(&e->mep, op, now);
	engine_push(e, now);
	return rc;
}

int uccl_engine_recv(struct uccl_engine *e, struct uccl_op *op, uint64_t now)
{
	int rc;

	now = engine_time(e, now);
	op->peer = uccl_peer_first(op->peer);
	rc = uccl_msg_recv(&e->mep, op, now);
	engine_push(e, now);
	return rc;
}

void uccl_engine_pair(struct uccl_engine *e, struct uccl_peer *p)
{
	e->mep.sole = uccl_peer_first(p);
}

void uccl_engine_shut(struct uccl_engine *e, int err)
{
	uccl_mep_gone(&e->mep, err);
}

void uccl_engine_refuse(struct uccl_engine *e, enum uccl_drop reason, uint64_t n)
{
	e->stats.dropped[reason] += n;
}

bool uccl_engine_unexpected(const struct uccl_engine *e, bool tagged)
{
	return !TAILQ_EMPTY(&e->mep.match.unexpected[tagged]);
}

int uccl_engine_rma(struct uccl_engine *e, struct uccl_op *op, uint64_t now)
{
	int rc;

	now = engine_time(e, now);
	op->peer = uccl_peer_first(op->peer);
	rc = uccl_msg_rma(&e->mep, op, now);
	engine_push(e, now);
	return rc;
}

void uccl_engine_revoke(struct uccl_engine *e, const void *region, uint64_t now)
{
	struct conn *c;

	now = engine_time(e, now);
	TAILQ_FOREACH(c, &e->conns, all)
		uccl_msg_revoke(&c->peer, region, now);
	engine_push(e, now);
}

int uccl_engine_cancel(struct uccl_engine *e, const void *context, uint64_t now)
{
	(void)now;
	return uccl_msg_cancel(&e->mep, context);
}

int uccl_engine_peek(struct uccl_engine *e, struct uccl_op *op, bool claim, bool discard, uint64_t now)
{
	int rc;

	now = engine_time(e, now);
	op->peer = uccl_peer_first(op->peer);
	rc = uccl_msg_peek(&e->mep, op, claim, discard, now);
	engine_push(e, now);
	return rc;
}

int uccl_engine_recv_claimed(struct uccl_engine *e, struct uccl_op *op, bool discard, uint64_t now)
{
	int rc;

	now = engine_time(e, now);
	rc = uccl_msg_recv_claimed(&e->mep, op, discard, now);
	engine_push(e, now);
	return rc;
}

const struct uccl_stats *uccl_engine_stats(struct uccl_engine *e)
{
	if (e->nic->ops->count)
		e->nic->ops->count(e->nic, &e->stats);
	e->stats.slots_asked = e->slots.asked;
	e->stats.slots_returned = e->slots.returned;
	return &e->stats;
}
