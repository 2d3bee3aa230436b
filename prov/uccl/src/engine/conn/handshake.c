/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Handshakes, from the first HELLO: who asks, who is at a place and under which names, and what is refused.
 */
#include <assert.h>
#include <rdma/fi_errno.h>
#include <stddef.h>
#include <string.h>

#include "base/units.h"
#include "engine/impl.h"

/* One that is half-open gives way to others no earlier: whoever connects has said something by then. */
#define HALF_KEEP_NS (2 * UCCL_NS_PER_S)

/*
 * May one more become half-open? If there are too many, the oldest gives way, and its peer gets CLOSE.
 * As long as that one is young the new one has to ask again. PROTOCOL R135
 */
static bool half_room(struct uccl_engine *e, const struct uccl_nic_addr *at, uint64_t now)
{
	struct conn *c;

	if (!conns_half_room(e, at->ip, &c))
		return false;
	if (!c)
		return true;
	if (now - c->hs.opened_ns < HALF_KEEP_NS)
		return false;
	engine_tell(c, UCCL_PKT_CLOSE, UCCL_CLOSE_ENDPOINT);
	engine_tx_forget(c);
	conns_half_leave(c);
	conn_free(c, &e->conns.live);
	return true;
}

/* Is `c` a connection to a place, which takes whichever incarnation answers there? */
static bool conn_by_place(const struct conn *c)
{
	return c->hs.by_place && !c->peer.self && c->hs.state != UCCL_CONN_OPEN;
}

/* `c` takes the key of its incarnation, unless another connection that lives has it. */
static void conn_claim(struct conn *c)
{
	struct conn *known = conn_find(c->e, &c->peer.addr.nic, c->hs.remote.incarnation);

	c->peer.addr.incarnation = c->hs.remote.incarnation;
	if (known && known != c && !known->peer.dead)
		return;
	if (known && known != c)
		conns_key_clear(known);
	conns_key_set(c, c->hs.remote.incarnation);
}

/* The incarnation of `c` is at its place: connections to that place alone become names of `c`. */
static void conn_meet(struct conn *c, uint64_t now)
{
	struct conn *other, *next;

	conn_claim(c);
	for (other = conns_at(c->e, &c->peer.addr.nic); other; other = next) {
		next = TAILQ_NEXT(other, entry.place_link);
		if (other != c && conn_by_place(other))
			conn_join(other, c, now);
	}
}

/* A COOKIE named the incarnation. If a connection to it lives, `c` becomes a name of that one. */
static void conn_named(struct conn *c, uint64_t now)
{
	struct conn *known = conn_find(c->e, &c->peer.addr.nic, c->hs.remote.incarnation);

	conn_cookie_came(c);
	/* Reports of the time before are of nobody there, and one with a name is given up sooner. */
	conn_reached(c);
	if (known && known != c && !known->peer.dead) {
		conn_join(c, known, now);
		return;
	}
	conn_meet(c, now);
	conn_due(c);
}

/* Does `c` have another incarnation, or another token of the peer, than these? False: it knows neither yet. */
static bool conn_rival(const struct conn *c, uint64_t incarnation, uint64_t token)
{
	if (c->hs.remote.indirect || !c->hs.remote.incarnation)
		return false;
	return c->hs.remote.incarnation != incarnation || (c->hs.token_remote && c->hs.token_remote != token);
}

/*
 * Does an open connection to the same place prove that this INIT is late? Whoever was heard at a second rail only has
 * not shown that the first place is its own: it ends no connection there that nothing speaks against. PROTOCOL R379
 */
static bool conn_outdated(struct uccl_engine *e, const struct uccl_init *init)
{
	const struct conn *c;

	for (c = conns_at(e, &init->at); c; c = TAILQ_NEXT(c, entry.place_link))
		if (conn_rival(c, init->from.incarnation, init->token) && c->hs.state == UCCL_CONN_OPEN &&
		    (init->second ? !c->liveness.suspect_at : !uccl_conn_superseded(&c->hs, init->asked_ns)))
			return true;
	return false;
}

/*
 * An INIT proves that its sender was at that place a short time ago, or at the second rail that it told, and somebody
 * may have recorded it. Only a packet with our token proves that the sender is there now. PROTOCOL R10
 */
void conn_validated(struct conn *c, uint64_t now)
{
	struct conn *other, *next;

	c->handshake.unvalidated = false;
	if (c->entry.half)
		conn_wake(c, now);
	if (c->peer.dead)
		return;
	for (other = conns_at(c->e, &c->peer.addr.nic); other; other = next) {
		next = TAILQ_NEXT(other, entry.place_link);
		if (other != c && !conn_by_place(other) &&
		    conn_rival(other, c->hs.remote.incarnation, c->hs.token_remote) &&
		    uccl_conn_superseded(&other->hs, c->handshake.peer_lived_ns))
			conn_fail(other, FI_ECONNRESET, now);
	}
	conn_meet(c, now);
}

/* Both sides know each other. */
static enum uccl_drop conn_opens(struct conn *c, const struct uccl_init *init, uint64_t now)
{
	conn_asks(c, false);
	c->handshake.peer_lived_ns = init->asked_ns;
	conn_init_acked(&c->liveness, now);
	c->handshake.unvalidated = true;
	conn_claim(c);
	if (conn_seal(c) || (!c->state.requested && conns_half_enter(c, init->heard.ip))) {
		conn_fail(c, FI_ENOMEM, now);
		return UCCL_DROP_MEMORY;
	}
	if (!c->entry.half)
		conn_begin(c, now);
	return c->peer.dead ? UCCL_DROP_MEMORY : UCCL_DROP_COUNT;
}

static enum uccl_drop conn_establish(struct conn *c, const struct uccl_init *init, bool is_ack, uint64_t now)
{
	bool was_open = c->hs.state == UCCL_CONN_OPEN;
	enum uccl_drop reason = uccl_conn_open(&c->hs, init, is_ack, now);

	if (reason != UCCL_DROP_COUNT)
		return reason;
	conn_grant(c);
	conn_slots_known(c);
	conn_due(c);
	if (!was_open)
		reason = conn_opens(c, init, now);
	if (is_ack && c->handshake.unvalidated && !c->peer.dead)
		conn_validated(c, now);
	return reason;
}

/*
 * Send a packet, whose header is in `tx`, to a place without connection. It leaves by the rail by which the question
 * came. PROTOCOL R390
 */
static void answer_unconnected(struct uccl_engine *e, struct uccl_tx *tx, const struct uccl_nic_addr *to,
			       uint8_t rail)
{
	tx->kind = UCCL_TX_PACKET;
	tx->control = UCCL_TX_CONTROL;
	tx->hdr_len = UCCL_HDR_LEN;
	tx->cookie = UCCL_NEVER;
	/* A label may cost a socket, and whoever asks has proved nothing: a rail has its first one. PROTOCOL R5 */
	tx->label = rail;
	tx->answer = true;
	tx->to = to;
	engine_tx_raw(e, tx);
}

/* An INIT from a second rail comes by one, too: by the first anybody else could send it. PROTOCOL R379 */
static enum uccl_drop init_take(struct uccl_engine *e, const struct uccl_hdr *h, const uint8_t *payload,
				const struct uccl_rx *rx, struct uccl_init *init, uint64_t now)
{
	enum uccl_drop reason = uccl_listener_init(&e->identity.listener, h, payload, &rx->src, init, now);

	if (reason != UCCL_DROP_COUNT && reason != UCCL_DROP_SECURITY)
		return reason;
	return init->second && !rx->rail ? UCCL_DROP_SOURCE : reason;
}

static enum uccl_drop rx_hello(struct uccl_engine *e, const struct uccl_hdr *h, const struct uccl_rx *rx,
			       uint64_t now)
{
	struct uccl_tx tx;
	struct uccl_nic_addr to;
	enum uccl_drop reason;

	memset(&tx, 0, offsetof(struct uccl_tx, hdr));
	reason = uccl_listener_hello(&e->identity.listener, h, &rx->src, tx.hdr, &to, now);
	if (reason == UCCL_DROP_COUNT || reason == UCCL_DROP_VERSION)
		answer_unconnected(e, &tx, &to, rx->rail);
	if (reason == UCCL_DROP_VERSION)
		engine_version_reported(e, &to, uccl_hello_version(h), now);
	return reason;
}

/*
 * Who speaks the former version only can be no peer. Of all that could be said it understands one thing: that we have
 * no memory for its connection. PROTOCOL R333
 */
static enum uccl_drop rx_former_init(struct uccl_engine *e, const struct uccl_hdr *h, const uint8_t *payload,
				     const struct uccl_rx *rx, uint64_t now)
{
	uint8_t rec[UCCL_REC_LEN] = { UCCL_CLOSE_MEMORY };
	struct uccl_hdr out = { .type = UCCL_PKT_CLOSE, .rec = rec };
	struct uccl_init init;
	enum uccl_drop reason = init_take(e, h, payload, rx, &init, now);
	struct uccl_tx tx;

	if (reason != UCCL_DROP_COUNT && reason != UCCL_DROP_SECURITY)
		return reason;
	memset(&tx, 0, offsetof(struct uccl_tx, hdr));
	out.token = init.token;
	uccl_hdr_encode(tx.hdr, &out);
	uccl_hdr_former(tx.hdr);
	answer_unconnected(e, &tx, &init.at, rx->rail);
	engine_version_reported(e, &init.at, h->version, now);
	return UCCL_DROP_VERSION;
}

/* It asks for another security than ours: say so, with our parameters, and never connect. PROTOCOL R92 */
static void conn_refuse(struct uccl_engine *e, const struct uccl_init *init, uint8_t rail, uint64_t now)
{
	struct conn *c = conn_find(e, &init->from.nic, init->from.incarnation);
	uint8_t buf[UCCL_INIT_MAX];
	struct uccl_conn_params mine;
	struct uccl_conn hs;
	struct uccl_tx tx;

	if (c && c->hs.state == UCCL_CONN_OPEN)
		return;
	if (c)
		conn_fail(c, FI_EACCES, now);
	conn_params(e, &mine);
	uccl_conn_init(&hs, &init->from, &mine, engine_random64(&e->identity), engine_random64(&e->identity));
	uccl_conn_token(&hs, init->token);
	uccl_conn_rail(&hs, rail);
	uccl_conn_ack(&hs);
	memset(&tx, 0, offsetof(struct uccl_tx, hdr));
	if (!uccl_conn_tx(&hs, &e->identity.listener, &tx, buf, now))
		return;
	tx.to = &init->at;
	engine_tx_raw(e, &tx);
}

/*
 * A living peer begins a second connection: its first one, *c, has ended at the peer, or at both sides. *c becomes the
 * second connection, or NULL: it is to be made, and found by its key if `keyed`. PROTOCOL R296
 */
static enum uccl_drop conn_second(struct conn **c, const struct uccl_init *init, bool *keyed)
{
	struct conn *first = *c, *other;

	*c = NULL;
	if (first->peer.dead && init->asked_ns <= first->state.ended_ns)
		return UCCL_DROP_STALE;
	if (first->peer.dead)
		return UCCL_DROP_COUNT;
	*keyed = false;
	for (other = conns_at(first->e, &init->at); other; other = TAILQ_NEXT(other, entry.place_link))
		if (other->hs.token_remote == init->token && other->hs.remote.incarnation == init->from.incarnation)
			*c = other;
	return UCCL_DROP_COUNT;
}

/*
 * Packets to the peer go where its INIT came from. We keep finding it by what it says of itself, as others know it by
 * that; but whoever cannot prove our key is nobody but the one at that place. PROTOCOL R373
 */
static struct conn *conn_translate(struct conn *c, const struct uccl_init *init, uint64_t now)
{
	if (!c || !init->translated || c->hs.state == UCCL_CONN_OPEN)
		return c;
	c->peer.addr.nic = c->hs.remote.nic = init->at;
	if (!conns_move(c))
		return c;
	conn_fail(c, FI_ENOMEM, now);
	return NULL;
}

static enum uccl_drop rx_init(struct uccl_engine *e, const struct uccl_hdr *h, const uint8_t *payload,
			      const struct uccl_rx *rx, uint64_t now)
{
	struct uccl_init init;
	enum uccl_drop reason = init_take(e, h, payload, rx, &init, now);
	bool keyed = true;
	struct conn *c;

	if (reason == UCCL_DROP_SECURITY)
		conn_refuse(e, &init, rx->rail, now);
	if (reason != UCCL_DROP_COUNT)
		return reason;
	if (init.keyless)
		init.from.nic = init.at;
	c = conn_find(e, &init.from.nic, init.from.incarnation);
	if (c && (c->peer.dead || (c->hs.token_remote && c->hs.token_remote != init.token))) {
		reason = conn_second(&c, &init, &keyed);
		if (reason != UCCL_DROP_COUNT)
			return reason;
	}
	if (conn_outdated(e, &init))
		return UCCL_DROP_STALE;
	/* Of a place alone nothing is known but that packets to it arrive. */
	if (!c)
		c = conn_find(e, &init.at, 0);
	if (!c && half_room(e, &init.heard, now))
		c = conn_new(e, &init.from, keyed);
	c = conn_translate(c, &init, now);
	if (!c)
		return UCCL_DROP_MEMORY;
	uccl_conn_rail(&c->hs, rx->rail);
	return conn_establish(c, &init, false, now);
}

/*
 * The peer is one of a row, at another place than we were told; we keep finding it by what we were told. It does not
 * begin a connection of its own meanwhile: who is asked for so only receives.
 */
static enum uccl_drop rx_elsewhere(struct conn *c, const struct uccl_hdr *h, uint64_t now)
{
	enum uccl_drop reason = uccl_conn_elsewhere(&c->hs, h, now);

	if (reason != UCCL_DROP_COUNT)
		return reason;
	c->peer.addr.nic = c->hs.remote.nic;
	c->peer.addr.indirect = false;
	if (conns_move(c))
		conn_fail(c, FI_ENOMEM, now);
	else
		conn_due(c);
	return reason;
}

/* INIT_ACK for an attempt that was given up: without CLOSE its sender would wait for us. PROTOCOL R311 */
static enum uccl_drop rx_late_ack(struct conn *c, const struct uccl_hdr *h, const uint8_t *payload,
				  const struct uccl_nic_addr *src, uint64_t now)
{
	struct uccl_init init;

	if (!c->state.final && !c->hs.mine.security && !c->hs.token_remote &&
	    uccl_conn_check_ack(&c->hs, &c->e->identity.listener, h, payload, src, &init) == UCCL_DROP_COUNT) {
		uccl_conn_token(&c->hs, init.token);
		conn_late_ack(c, h, now);
	}
	return UCCL_DROP_STATE;
}

bool conn_from(const struct conn *c, const struct uccl_nic_addr *src)
{
	struct uccl_nic_addr second;

	return !memcmp(src->ip, c->peer.addr.nic.ip, sizeof(src->ip)) ||
	       (uccl_nic_addr_second(&c->peer.addr.nic, &second) && !memcmp(src->ip, second.ip, sizeof(src->ip)));
}

enum uccl_drop conn_rx(struct uccl_engine *e, const struct uccl_hdr *h, const uint8_t *payload,
		       const struct uccl_rx *rx, uint64_t now)
{
	enum uccl_drop reason;
	struct uccl_init init;
	struct conn *c;

	if (h->type == UCCL_PKT_HELLO)
		return e->drain.began_ns ? UCCL_DROP_STATE : rx_hello(e, h, rx, now);
	if (h->type == UCCL_PKT_INIT && e->drain.began_ns)
		return UCCL_DROP_STATE;
	if (h->type == UCCL_PKT_INIT)
		return h->version == UCCL_VERSION ? rx_init(e, h, payload, rx, now)
						  : rx_former_init(e, h, payload, rx, now);
	c = conn_by_token(e, h->token);
	if (!c)
		return UCCL_DROP_TOKEN;
	if (!conn_from(c, &rx->src))
		return UCCL_DROP_SOURCE;
	if (c->peer.dead)
		return h->type == UCCL_PKT_INIT_ACK ? rx_late_ack(c, h, payload, &rx->src, now) : UCCL_DROP_STATE;
	if (h->version != UCCL_VERSION) {
		reason = uccl_conn_other_version(&c->hs, h, now);
		c->handshake.peer_version = h->version;
		if (reason == UCCL_DROP_VERSION)
			conn_fail(c, FI_ENOPROTOOPT, now);
		return reason;
	}
	if (h->type == UCCL_PKT_ELSEWHERE)
		return rx_elsewhere(c, h, now);
	if (h->type == UCCL_PKT_COOKIE && c->peer.open)
		return conn_answer(c, h, now);
	if (h->type == UCCL_PKT_COOKIE) {
		reason = uccl_conn_cookie(&c->hs, h, now);
		if (reason == UCCL_DROP_STALE)
			conn_fail(c, FI_ECONNRESET, now);
		if (reason != UCCL_DROP_COUNT)
			return reason;
		uccl_conn_rail(&c->hs, rx->rail);
		conn_named(c, now);
		return reason;
	}
	reason = uccl_conn_check_ack(&c->hs, &e->identity.listener, h, payload, &rx->src, &init);
	if (reason == UCCL_DROP_SECURITY && c->hs.state == UCCL_CONN_INIT)
		conn_fail(c, FI_EACCES, now);
	if (reason != UCCL_DROP_COUNT)
		return reason;
	if (c->hs.state == UCCL_CONN_IDLE || c->hs.state == UCCL_CONN_HELLO)
		return UCCL_DROP_STATE;
	if (conn_outdated(e, &init))
		return UCCL_DROP_STALE;
	return conn_establish(c, &init, true, now);
}
