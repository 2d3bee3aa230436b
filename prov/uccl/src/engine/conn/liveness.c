/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Is a peer there? From the first doubt to the proof of death.
 *
 * Silence is not death: a peer under manual progress may compute for minutes, or be stopped. A peer is failed when the
 * host proves that its process is gone (nothing listens at its port any more; the liveness connection broke) and
 * nothing was heard from it since, when another incarnation answers at its address, or, at last, when it left our
 * questions unanswered for peer_timeout.
 */
#include <rdma/fi_errno.h>
#include <stddef.h>
#include <string.h>

#include "base/units.h"
#include "engine/impl.h"

/* A suspect is probed this often, and dead after so many reports, the first and last at least so far apart. */
#define SUSPECT_PROBE_NS (20 * UCCL_NS_PER_MS)
#define UNREACH_REPORTS 3
#define UNREACH_SPAN_NS (30 * UCCL_NS_PER_MS)
/* A peer that never answered may not have started yet: wait longer. */
#define UNREACH_START_NS (3 * UCCL_NS_PER_S)
/* The liveness connection broke and the peer stays silent, although no host says so. */
#define GONE_SILENCE_NS (2 * UCCL_NS_PER_S)
/* The time-out of a silent peer is made of at least so many scans, each of which found no answer. */
#define PATIENCE_LOOKS 4

/*
 * Firewalls, NAT and clouds forget a 5-tuple of UDP after 30 s without a packet. The scan that finds it due comes a
 * second late at most.
 */
#define REFRESH_NS (20 * UCCL_NS_PER_S)
#define REFRESH_BYTE 0xff /* as in RFC 3948, section 4 */

/* So many labels ask who is at the place of a silent peer. Each is a 5-tuple. */
#define ASK_LABELS 4

/* INIT_ACK is repeated so often to a peer that has not answered our packets since it connected. */
#define INIT_ACK_AGAIN_NS UCCL_NS_PER_S

/* Between two scans of all peers. */
static uint64_t scan_every(const struct uccl_engine *e)
{
	uint64_t every = e->cfg.keepalive_ns ? e->cfg.keepalive_ns / 2 : UCCL_NS_PER_S;

	if (e->cfg.peer_timeout_ns)
		every = uccl_min(every, e->cfg.peer_timeout_ns / PATIENCE_LOOKS);
	return uccl_max(every, UCCL_NS_PER_MS);
}

void conn_watch(struct conn *c, uint64_t now)
{
	engine_scan_at(c->e, now + scan_every(c->e));
}

static uint64_t conn_heard(const struct conn *c)
{
	return c->peer.open ? c->peer.flow.rx.heard_ns : 0;
}

/*
 * Does a quoted packet belong to this connection? Only who was on its way, or where it went, can know the token.
 * PROTOCOL R150
 */
static bool conn_quoted(const struct conn *c, const struct uccl_hdr *h)
{
	switch (h->type) {
	case UCCL_PKT_HELLO:
		return h->token == c->hs.token_local;
	case UCCL_PKT_INIT:
		return h->rec && uccl_get64(h->rec) == c->hs.token_local;
	default:
		return c->peer.open && h->token == c->hs.token_remote &&
		       uccl_flow_recent(&c->peer.flow, h->path, h->pseq);
	}
}

/* Anybody on the way can say that a port is closed: no word against keys, or against the peer's own kernel. */
static bool conn_unreach_counts(const struct conn *c)
{
	const struct uccl_nic_ops *ops = c->e->nic->ops;

	/* PROTOCOL R151 */
	if (c->e->cfg.security)
		return false;
	return !(c->opened.nic_peer && ops->alive && ops->alive(c->e->nic, c->opened.nic_peer));
}

/* Enough proof? */
static bool conn_proven_dead(const struct conn *c, uint64_t now)
{
	const struct conn_liveness *l = &c->liveness;
	uint64_t span = UNREACH_SPAN_NS;

	if (!c->peer.open && !l->gone_ns && uccl_addr_keyless(&c->peer.addr))
		span = UNREACH_START_NS;
	if (l->unreach >= UNREACH_REPORTS && l->unreach_last - l->unreach_ns >= span)
		return true;
	/* Its host refuses connections and packets. It sends few reports: the first one is enough. PROTOCOL R386 */
	if (l->gone_ns && l->unreach)
		return true;
	return l->gone_ns && now - l->gone_ns >= GONE_SILENCE_NS;
}

/*
 * Ask who is at the place of a silent peer. A new process there drops our probes, as it does not know their token; but
 * HELLO is answered by whoever has the port, with its incarnation.
 */
static void conn_ask(struct conn *c, uint64_t now)
{
	struct uccl_engine *e = c->e;
	uint8_t rec[UCCL_REC_LEN] = {0};
	struct uccl_hdr h = {.type = UCCL_PKT_HELLO, .token = c->hs.token_local, .rec = rec};
	struct uccl_tx tx;

	uccl_put64(rec, c->hs.nonce);
	uccl_put64(rec + 8, e->identity.listener.local.incarnation);
	uccl_put64(rec + 16, c->hs.remote.incarnation);
	uccl_hello_place(rec, &e->identity.listener.local.nic);
	memset(&tx, 0, offsetof(struct uccl_tx, hdr));
	tx.kind = UCCL_TX_PACKET;
	tx.control = UCCL_TX_CONTROL;
	tx.hdr_len = UCCL_HDR_LEN;
	tx.cookie = UCCL_NEVER;
	tx.label = (uint16_t)(now / UCCL_NS_PER_MS % ASK_LABELS % e->nic->caps.labels);
	h.flags = e->nic->caps.two_way && !tx.label ? UCCL_FLAG_OWN_PORT : 0;
	tx.to = &c->peer.addr.nic;
	uccl_hdr_encode(tx.hdr, &h);
	engine_tx_raw(e, &tx);
}

/*
 * A new nonce for the questions of one doubt. A late answer to the handshake, perhaps of an earlier incarnation, does
 * not have it. It stays for all questions of the doubt, as an answer may take longer than the time between two of them.
 */
static void conn_in_doubt(struct conn *c)
{
	c->hs.nonce = engine_random64(&c->e->identity);
}

static void conn_probe(struct conn *c, uint64_t now)
{
	c->liveness.suspect_at = now + SUSPECT_PROBE_NS;
	if (c->peer.open) {
		uccl_flow_keepalive(&c->peer.flow, now);
		engine_ready(c);
		/* Another process at that port drops the probe, but answers HELLO with its incarnation. */
		conn_ask(c, now);
	}
}

static void conn_suspect(struct conn *c, uint64_t now)
{
	if (!c->liveness.suspect_at) {
		conn_in_doubt(c);
		conn_probe(c, now);
	}
	engine_scan_at(c->e, conn_proven_dead(c, now) ? now : c->liveness.suspect_at);
}

void conn_gone(struct uccl_engine *e, const struct uccl_nic_addr *at, uint64_t now)
{
	struct conn *c;

	/* What broke was none of a peer that is not connected yet: a later life, perhaps. */
	for (c = conns_at(e, at); c; c = TAILQ_NEXT(c, entry.place_link))
		if (c->peer.open) {
			if (!c->liveness.gone_ns)
				c->liveness.gone_ns = now;
			conn_suspect(c, now);
		}
}

static void conn_unreach(struct conn *c, uint64_t now)
{
	struct conn_liveness *l = &c->liveness;

	if (!l->unreach)
		l->unreach_ns = now;
	/* Several reports of one moment are one. */
	if (!l->unreach || now - l->unreach_last >= SUSPECT_PROBE_NS / 4) {
		l->unreach++;
		l->unreach_last = now;
	}
	conn_suspect(c, now);
}

void conn_reached(struct conn *c)
{
	struct conn_liveness *l = &c->liveness;

	l->unreach = 0;
	l->unreach_ns = l->gone_ns = l->suspect_at = 0;
}

enum uccl_drop conn_icmp(struct uccl_engine *e, const struct uccl_rx *rx, uint64_t now)
{
	struct uccl_hdr h;
	struct conn *c;
	uint32_t seal;

	if (uccl_quote_decode(&h, rx->data, rx->len) != UCCL_DROP_COUNT)
		return UCCL_DROP_REPORT;
	for (c = conns_at(e, &rx->src); c && !conn_quoted(c, &h); c = TAILQ_NEXT(c, entry.place_link))
		;
	if (!c || c->hs.state == UCCL_CONN_IDLE)
		return UCCL_DROP_REPORT;
	seal = c->opened.seal ? UCCL_SEAL_LEN : 0;
	if (rx->kind == UCCL_RX_TOO_LONG) {
		/* PROTOCOL R152 */
		if (c->peer.open)
			uccl_flow_mtu_reported(&c->peer.flow, rx->imm > seal ? rx->imm - seal : 0, now);
	} else if (conn_unreach_counts(c)) {
		conn_unreach(c, now);
	}
	return UCCL_DROP_COUNT;
}

/* An answer to that. The nonce went nowhere but to the peer's place: who has it is there. */
enum uccl_drop conn_answer(struct conn *c, const struct uccl_hdr *h, uint64_t now)
{
	uint64_t incarnation = uccl_get64(h->rec + 8);

	if (uccl_get64(h->rec) != c->hs.nonce || !incarnation)
		return UCCL_DROP_COOKIE;
	if (incarnation == c->hs.remote.incarnation)
		return UCCL_DROP_STATE;
	/* PROTOCOL R94: nothing proves it but the nonce, which others may have read. */
	if (c->opened.seal)
		conn_gone(c->e, &c->peer.addr.nic, now);
	else
		conn_fail(c, FI_ECONNRESET, now);
	return UCCL_DROP_STALE;
}

/* Peers seem silent as well when it is we who cannot hear. */
static int silence_error(const struct uccl_engine *e, int err)
{
	return e->conns.link == UCCL_LINK_UP ? err : FI_ENETDOWN;
}

/* Of all that connection management waits for, only what this peer is to say. */
static bool conn_managed(const struct conn *c)
{
	return !TAILQ_EMPTY(&c->peer.directed[UCCL_KIND_CM]);
}

static bool conn_interested(const struct uccl_engine *e, const struct conn *c)
{
	return !uccl_flow_idle(&c->peer.flow) || !TAILQ_EMPTY(&c->peer.rx.all) || !TAILQ_EMPTY(&c->peer.tx.sends) ||
	       !TAILQ_EMPTY(&c->peer.tx.pending) || !TAILQ_EMPTY(&e->msg_ep.match.posted[UCCL_KIND_UNTAGGED]) ||
	       !TAILQ_EMPTY(&e->msg_ep.match.posted[UCCL_KIND_TAGGED]) ||
	       !TAILQ_EMPTY(&e->msg_ep.match.posted[UCCL_KIND_COLL]) || conn_managed(c);
}

/* Operations cannot end before this peer says something. */
static bool conn_awaited(const struct conn *c)
{
	return !uccl_flow_idle(&c->peer.flow) || !TAILQ_EMPTY(&c->peer.tx.sends) || !TAILQ_EMPTY(&c->peer.rx.all);
}

/* Is it silent, although asked, for longer than a person has allowed? PROTOCOL R47 */
static bool conn_overdue(struct conn *c, uint64_t now)
{
	struct conn_liveness *l = &c->liveness;
	uint64_t timeout = c->e->cfg.peer_timeout_ns;

	if (!conn_awaited(c)) {
		l->checked_ns = 0;
		return false;
	}
	/* The time begins with the first scan that expects something of the peer: before that, nobody asked. */
	if (!l->checked_ns || c->peer.flow.rx.heard_ns > l->checked_ns)
		l->unanswered_ns = 0;
	else
		/* Who is away does not ask, nor hear answers: one long absence of ours is not enough. */
		l->unanswered_ns += uccl_min(now - l->checked_ns, timeout / PATIENCE_LOOKS);
	l->checked_ns = now;
	return timeout && l->unanswered_ns >= timeout;
}

/* How often a peer is asked whether it is there: a time-out that a person has set is not reached unsolicited. */
static uint64_t keepalive_every(const struct conn *c)
{
	const struct uccl_config *cfg = &c->e->cfg;
	uint64_t every = cfg->keepalive_ns ? cfg->keepalive_ns : UCCL_NEVER;

	return cfg->peer_timeout_ns && conn_awaited(c) ? uccl_min(every, cfg->peer_timeout_ns / PATIENCE_LOOKS) : every;
}

/*
 * Keep the 5-tuple of label 0 in the tables on the way. This side asked for the connection, so its firewall may admit
 * answers only. The peer's kernel drops the packet, so it takes no room at a peer that makes no calls. PROTOCOL R371
 */
static void conn_refresh(struct conn *c, uint64_t now)
{
	struct uccl_engine *e = c->e;
	struct uccl_tx tx;

	if (!e->nic->caps.two_way || !e->cfg.keepalive_ns || !c->hs.started_ns ||
	    now - uccl_max(c->liveness.refreshed_ns, c->hs.opened_ns) < REFRESH_NS)
		return;
	c->liveness.refreshed_ns = now;
	memset(&tx, 0, sizeof(tx));
	tx.kind = UCCL_TX_PACKET;
	tx.control = UCCL_TX_CONTROL;
	tx.hdr_len = 1;
	tx.hdr[0] = REFRESH_BYTE;
	tx.cookie = UCCL_NEVER;
	tx.peer = c->opened.nic_peer;
	tx.to = &c->peer.addr.nic;
	engine_tx_raw(e, &tx);
}

static void conn_scan_one(struct uccl_engine *e, struct conn *c, uint64_t now)
{
	struct conn_liveness *l = &c->liveness;
	uint64_t heard = conn_heard(c), every;

	if (l->broken) {
		/* The stream to this peer has a hole that nothing can fill. */
		conn_fail(c, l->broken, now);
		return;
	}
	if (l->suspect_at) {
		if (heard > uccl_max(l->unreach_ns, l->gone_ns)) {
			/* It lives: the report was old, or forged. */
			conn_reached(c);
		} else if (conn_proven_dead(c, now)) {
			conn_fail(c, c->peer.open ? FI_ECONNABORTED : FI_EHOSTUNREACH, now);
			return;
		} else if (now >= l->suspect_at) {
			conn_probe(c, now);
		}
	}
	conn_silence_look(c, !c->peer.open || conn_awaited(c), now);
	if (c->peer.open) {
		/* The peer may have given up its attempt before INIT_ACK came: then it answers CLOSE. R311 */
		if (c->handshake.unvalidated && c->peer.flow.loss.pto.backoff > 1 &&
		    now - l->init_ack_ns >= INIT_ACK_AGAIN_NS) {
			l->init_ack_ns = now;
			uccl_conn_ack(&c->hs);
			conn_due(c);
		}
		if (conn_overdue(c, now)) {
			conn_fail(c, silence_error(e, FI_ETIMEDOUT), now);
			return;
		}
		conn_refresh(c, now);
		uccl_flow_scan(&c->peer.flow, now);
		every = keepalive_every(c);
		if (every != UCCL_NEVER && now - uccl_max(heard, l->kept_ns) >= every && conn_interested(e, c)) {
			l->kept_ns = now;
			uccl_flow_keepalive(&c->peer.flow, now);
			engine_ready(c);
			if (now - heard >= 2 * every) {
				conn_in_doubt(c);
				conn_ask(c, now);
			}
		}
	} else if (c->hs.state != UCCL_CONN_IDLE && e->cfg.connect_timeout_ns &&
		   now - c->hs.started_ns >= e->cfg.connect_timeout_ns) {
		e->stats.connect_fails++;
		conn_fail(c, silence_error(e, FI_EHOSTUNREACH), now);
	}
}

void conn_scan(struct uccl_engine *e, uint64_t now)
{
	struct conn *c, *after;

	conns_reap(e);
	/* A connection that fails here asks for a scan, too. */
	engine_scan_first(e, conns_forget(e, now));
	for (c = TAILQ_FIRST(&e->conns.live); c; c = after) {
		after = TAILQ_NEXT(c, state.all);
		if (c->hs.state == UCCL_CONN_IDLE)
			continue;
		conn_scan_one(e, c, now);
		if (!c->peer.dead)
			engine_scan_at(e, c->liveness.suspect_at ? c->liveness.suspect_at : now + scan_every(e));
	}
}
