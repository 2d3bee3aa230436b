/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/wire/conn.h"

#include <string.h>

#include "base/le.h"
#include "base/units.h"
#include "base/slot_unit.h"

/* With security a COOKIE of another incarnation counts when none of the right one came for so long. */
#define IN_DOUBT_NS (2 * UCCL_NS_PER_S)
#define RETRY_MIN_NS (5 * UCCL_NS_PER_MS)
#define RETRY_MAX_NS (500 * UCCL_NS_PER_MS)
/*
 * The longest wait between two HELLOs to a place, in the first seconds: a server that starts meanwhile is found within
 * 0.2 s. If its host reports closed ports, an attempt lasts no longer than these seconds.
 */
#define RETRY_PLACE_NS (150 * UCCL_NS_PER_MS)
#define PLACE_SOON_NS (4 * UCCL_NS_PER_S)
/* INIT is repeated this often before a new cookie is asked for. */
#define INIT_TRIES 6
/*
 * After more repetitions than this the peer was not there, or packets were lost: the time says nothing of how long
 * answers take (Karn and Partridge, 1987).
 */
#define TOOK_TRIES 6
/* Of HELLOs one in so many is of the former version. */
#define FORMER_TRIES 4
/* One HELLO or INIT of this many leaves from our port, and so does the first. */
#define OWN_TRIES 4
/* Bounds of what a peer may claim of itself. PROTOCOL R11 */
#define MTU_MIN 256
#define MTU_MAX 65535
#define WINDOW_MIN 64
#define WINDOW_MAX 16384
/* Byte 32 of parameters. PROTOCOL R180 */
#define GRANT_WAITS 1
#define GRANT_NONE 2

/* PROTOCOL R114 */
void uccl_key_mix(uint8_t key[UCCL_KEY_LEN], const uint8_t group[UCCL_KEY_LEN])
{
	for (int i = 0; i < UCCL_KEY_LEN; i++)
		key[i] ^= group[i];
}

void uccl_conn_init(struct uccl_conn *c, const struct uccl_addr *remote, const struct uccl_conn_params *mine,
		    uint64_t token, uint64_t nonce)
{
	memset(c, 0, sizeof(*c));
	c->state = UCCL_CONN_IDLE;
	c->remote = *remote;
	c->by_place = !remote->incarnation;
	c->mine = *mine;
	c->token_local = token;
	c->nonce = nonce;
	c->at = UCCL_NEVER;
}

static uint64_t retry_min(const struct uccl_conn *c)
{
	return uccl_max(RETRY_MIN_NS, c->pace_ns);
}

static void conn_step(struct uccl_conn *c, enum uccl_conn_state state, uint64_t now)
{
	c->state = state;
	c->tries = 0;
	c->tx_due = state == UCCL_CONN_HELLO || state == UCCL_CONN_INIT;
	c->sent_ns = now;
	c->at = c->tx_due ? now + retry_min(c) : UCCL_NEVER;
}

void uccl_conn_start(struct uccl_conn *c, uint64_t now)
{
	if (c->state != UCCL_CONN_IDLE)
		return;
	c->started_ns = now;
	conn_step(c, UCCL_CONN_HELLO, now);
}

void uccl_conn_delay(struct uccl_conn *c, uint64_t at)
{
	c->tx_due = false;
	c->sent_ns = 0;
	c->at = at;
}

uint64_t uccl_conn_expiry(const struct uccl_conn *c)
{
	return c->at;
}

/*
 * HELLO is one of many under a flood, and only some are answered: the wait for its answer grows slowly, so that there
 * are some twenty tries in the first second, where R416 does not slow them.
 */
static uint64_t retry_after(const struct uccl_conn *c, uint64_t now)
{
	uint64_t ns = retry_min(c), most = RETRY_MAX_NS;

	if (c->by_place && now - c->started_ns < PLACE_SOON_NS)
		most = RETRY_PLACE_NS;
	if (c->state == UCCL_CONN_INIT)
		return uccl_min(ns << uccl_min(c->tries, 16), most);
	for (uint32_t i = 0; i < c->tries && ns < most; i++)
		ns += ns / 4;
	return uccl_min(ns, most);
}

void uccl_conn_expire(struct uccl_conn *c, uint64_t now)
{
	if (now < c->at)
		return;
	/* Answers turned out to take longer since the last one left. PROTOCOL R416 */
	if (c->sent_ns && now - c->sent_ns < c->pace_ns) {
		c->at = c->sent_ns + c->pace_ns;
		return;
	}
	if (!c->sent_ns)
		c->started_ns = now;
	c->sent_ns = now;
	if (c->tries < 1000000)
		c->tries++;
	if (c->state == UCCL_CONN_INIT && c->tries % INIT_TRIES == 0) {
		uint32_t tries = c->tries;

		/* The cookie may be too old by now, or the responder new. */
		conn_step(c, UCCL_CONN_HELLO, now);
		c->tries = tries;
	}
	c->tx_due = true;
	c->at = now + retry_after(c, now);
}

static void params_encode(uint8_t *p, const struct uccl_conn_params *v)
{
	memset(p, 0, UCCL_PARAMS_LEN);
	uccl_put32(p, v->mtu);
	uccl_put32(p + 4, v->write_bytes);
	uccl_put32(p + 8, v->window);
	uccl_put32(p + 12, v->msg_limit);
	uccl_put16(p + 16, v->paths);
	/* For those who know of no grant of 0. */
	uccl_put16(p + 18, (uint16_t)uccl_max(v->slots, 1));
	uccl_put64(p + 20, v->csn);
	p[28] = v->epoch;
	p[29] = v->security;
	p[30] = v->segments;
	p[31] = v->lanes;
	p[32] = (uint8_t)(v->waits ? GRANT_WAITS | (v->slots ? 0 : GRANT_NONE) : 0);
	p[33] = v->marks;
	p[34] = v->lane.short_stripes;
	p[35] = v->pads;
	p[36] = v->brittle;
	p[37] = v->unsolicited;
	p[38] = (uint8_t)(v->lane.lanes_unsolicited | v->aborts << 1 | v->lane.orders_short << 2);
	p[39] = (uint8_t)(v->delays | v->renews << 1 | v->units << 2 | v->rails << 7);
	if (v->slot_unit)
		p[39] |= (uint8_t)((v->slot_unit - UCCL_SLOT_UNIT_BASE) << 3);
}

static enum uccl_drop params_decode(struct uccl_conn_params *v, const uint8_t *p)
{
	v->mtu = uccl_get32(p);
	v->write_bytes = uccl_get32(p + 4);
	v->window = uccl_get32(p + 8);
	v->msg_limit = uccl_get32(p + 12);
	v->paths = uccl_get16(p + 16);
	v->slots = uccl_get16(p + 18);
	v->csn = uccl_get64(p + 20);
	v->epoch = p[28];
	v->security = p[29];
	v->segments = p[30];
	v->lanes = p[31];
	v->waits = p[32] & GRANT_WAITS;
	v->marks = p[33] & 1;
	v->lane.short_stripes = p[34] & 1;
	v->pads = p[35] & 1;
	v->brittle = p[36] & 1;
	v->unsolicited = p[37] & 1;
	v->lane.lanes_unsolicited = p[38] & 1;
	v->aborts = p[38] >> 1 & 1;
	v->lane.orders_short = p[38] >> 2 & 1;
	v->delays = p[39] & 1;
	v->renews = p[39] >> 1 & 1;
	v->units = p[39] >> 2 & 1;
	v->slot_unit = p[39] >> 3 & 15 ? (uint8_t)(UCCL_SLOT_UNIT_BASE + (p[39] >> 3 & 15)) : 0;
	v->rails = p[39] >> 7;
	memset(v->key, 0, sizeof(v->key));
	if (v->mtu < MTU_MIN || v->mtu > MTU_MAX || v->window < WINDOW_MIN || v->window > WINDOW_MAX ||
	    v->window & (v->window - 1) || !v->paths || v->paths > UCCL_PATHS_MAX || !v->slots ||
	    v->write_bytes > 1u << 30 || v->csn >> 48 || v->epoch > 15 || v->security >= UCCL_SECURITY_COUNT ||
	    v->segments > UCCL_SEGMENT_COUNT || v->lanes > UCCL_LANES_MAX)
		return UCCL_DROP_RANGE;
	if (v->waits && p[32] & GRANT_NONE)
		v->slots = 0;
	return UCCL_DROP_COUNT;
}

/* What comes before the code in a payload: address, parameters, with security a key. */
static uint32_t init_text_len(uint8_t security)
{
	return UCCL_ADDR_LEN + UCCL_PARAMS_LEN + (security ? UCCL_WRAP_LEN : 0);
}

/* MAC over header record and payload: proves knowledge of the responder's connect key. */
static void init_mac(uint8_t out[UCCL_MAC_LEN], uint8_t type, const uint8_t *rec, const uint8_t *payload, uint32_t len,
		     const uint8_t key[UCCL_KEY_LEN])
{
	uint8_t text[1 + UCCL_REC_LEN + UCCL_INIT_MAX];

	text[0] = type;
	memcpy(text + 1, rec, UCCL_REC_LEN);
	memcpy(text + 1 + UCCL_REC_LEN, payload, len);
	uccl_mac(out, text, 1 + UCCL_REC_LEN + len, key);
}

/* What a key for seals is wrapped for: this packet, of which the token makes that there is no other. */
struct wrap_context {
	uint8_t text[1 + UCCL_REC_LEN];
};

static struct wrap_context wrap_context(uint8_t type, const uint8_t *rec)
{
	struct wrap_context w;

	w.text[0] = type;
	memcpy(w.text + 1, rec, UCCL_REC_LEN);
	return w;
}

static void cookie_make(const struct uccl_listener *l, const struct uccl_nic_addr *from, uint64_t incarnation,
			uint64_t made_ns, uint8_t out[UCCL_MAC_LEN])
{
	uint8_t text[16 + 2 + 8 + 8 + 6] = {0}, mac[UCCL_MAC_LEN];

	memcpy(text, from->ip, 16);
	uccl_put16(text + 16, from->port);
	uccl_put64(text + 18, incarnation);
	uccl_put64(text + 26, made_ns);
	if (from->pad) {
		uccl_put16(text + 34, from->pad);
		uccl_put32(text + 36, from->scope);
	}
	uccl_mac(mac, text, sizeof(text), l->secret);
	uccl_put64(out, made_ns);
	memcpy(out + 8, mac, UCCL_MAC_LEN - 8);
}

int uccl_conn_tx(struct uccl_conn *c, const struct uccl_listener *l, struct uccl_tx *tx, uint8_t *buf, uint64_t now)
{
	uint8_t rec[UCCL_REC_LEN] = { 0 };
	struct uccl_hdr h = { .rec = rec };
	struct uccl_addr self = l->local;
	uint32_t len = init_text_len(c->mine.security);
	const uint8_t *key;

	(void)now;
	tx->kind = UCCL_TX_PACKET;
	tx->control = UCCL_TX_CONTROL;
	tx->row = 0;
	tx->burst = UCCL_BURST_NONE;
	tx->single = false;
	tx->ect = false;
	tx->path = 0;
	/*
	 * Three of four retries rotate over other labels: one dead route does not keep us apart, and only there the
	 * kernel tells of a closed port, which hosts report once a second. The fourth opens the way for what the peer
	 * sends to our port. PROTOCOL R370
	 */
	tx->label = (uint16_t)(c->tries % OWN_TRIES ? (c->tries - 1 - c->tries / OWN_TRIES) % 16 + 1 : 0);
	tx->hdr_len = UCCL_HDR_LEN;
	tx->tail_len = 0;
	tx->payload = NULL;
	tx->mr = NULL;
	tx->queue = 0;
	tx->ours = false;
	tx->payload_len = 0;
	tx->cookie = UCCL_NEVER;
	if (c->tx_due && c->state == UCCL_CONN_HELLO) {
		c->tx_due = false;
		tx->control = UCCL_TX_HELLO;
		h.type = UCCL_PKT_HELLO;
		h.flags = l->two_way && !tx->label ? UCCL_FLAG_OWN_PORT : 0;
		uccl_put64(rec, c->nonce);
		uccl_put64(rec + 8, l->local.incarnation);
		uccl_put64(rec + 16, c->remote.incarnation);
		uccl_hello_place(rec, &l->local.nic);
		/* For the answer's way back: it is a packet to this token. */
		h.token = c->token_local;
		/* Now and then one that the former version understands, and that tells ours the truth. PROTOCOL R334 */
		if (c->tries % FORMER_TRIES == FORMER_TRIES - 1)
			h.rtype = UCCL_VERSION;
		uccl_hdr_encode(tx->hdr, &h);
		if (h.rtype)
			uccl_hdr_former(tx->hdr);
		return 1;
	}
	if (c->tx_due && c->state == UCCL_CONN_INIT) {
		c->tx_due = false;
		h.type = UCCL_PKT_INIT;
		memcpy(rec + 16, c->cookie, UCCL_MAC_LEN);
	} else if (c->ack_due) {
		c->ack_due = false;
		h.type = UCCL_PKT_INIT_ACK;
		h.token = c->token_remote;
	} else {
		c->tx_due = false;
		return 0;
	}
	/* PROTOCOL R390 */
	if (l->rails)
		tx->label = (uint16_t)(tx->label - tx->label % l->rails + c->rail % l->rails);
	if (h.type == UCCL_PKT_INIT && l->two_way && !tx->label)
		h.flags = UCCL_FLAG_OWN_PORT;
	uccl_put64(rec, c->token_local);
	uccl_put64(rec + 8, c->remote.incarnation);
	memset(self.key, 0, sizeof(self.key));
	uccl_addr_encode(buf, &self);
	params_encode(buf + UCCL_ADDR_LEN, &c->mine);
	/* Initiator: the responder's key, as its address gave it. Responder: its own, or none for a keyless initiator.
	 */
	key = h.type == UCCL_PKT_INIT ? c->remote.key : l->local.key;
	if (c->mine.security) {
		struct wrap_context w = wrap_context(h.type, rec);

		uccl_key_wrap(buf + UCCL_ADDR_LEN + UCCL_PARAMS_LEN, c->mine.key, &w, sizeof(w), key);
	}
	init_mac(buf + len, h.type, rec, buf, len, key);
	tx->payload = buf;
	tx->payload_len = len + UCCL_MAC_LEN;
	h.payload_len = (uint16_t)tx->payload_len;
	uccl_hdr_encode(tx->hdr, &h);
	return 1;
}

/*
 * Without security who knows the nonce is believed. With it, who merely reads what we send must not end a peer: the
 * right answer comes as well, if the peer is there. PROTOCOL R94
 */
static bool conn_replaced(struct uccl_conn *c, uint64_t now)
{
	if (!c->mine.security)
		return true;
	if (!c->in_doubt_ns)
		c->in_doubt_ns = uccl_max(now, 1);
	return now - c->in_doubt_ns >= IN_DOUBT_NS && now > c->in_doubt_ns;
}

enum uccl_drop uccl_conn_cookie(struct uccl_conn *c, const struct uccl_hdr *h, uint64_t now)
{
	uint64_t incarnation = uccl_get64(h->rec + 8);

	if (c->state != UCCL_CONN_HELLO)
		return UCCL_DROP_STATE;
	if (uccl_get64(h->rec) != c->nonce || !incarnation)
		return UCCL_DROP_COOKIE;
	if (c->remote.incarnation && c->remote.incarnation != incarnation && !c->by_place) {
		if (!conn_replaced(c, now))
			return UCCL_DROP_COOKIE;
		conn_step(c, UCCL_CONN_DEAD, now);
		return UCCL_DROP_STALE;
	}
	c->in_doubt_ns = 0;
	c->remote.incarnation = incarnation;
	memcpy(c->cookie, h->rec + 16, UCCL_MAC_LEN);
	c->asked_ns = now;
	c->took_ns = c->tries <= TOOK_TRIES ? now - c->started_ns : UINT64_MAX;
	conn_step(c, UCCL_CONN_INIT, now);
	return UCCL_DROP_COUNT;
}

/* PROTOCOL R334 R335 */
enum uccl_drop uccl_conn_other_version(struct uccl_conn *c, const struct uccl_hdr *h, uint64_t now)
{
	if (c->state != UCCL_CONN_HELLO)
		return UCCL_DROP_STATE;
	if (uccl_get64(h->rec) != c->nonce || !conn_replaced(c, now))
		return UCCL_DROP_COOKIE;
	conn_step(c, UCCL_CONN_DEAD, now);
	return UCCL_DROP_VERSION;
}

/* PROTOCOL R118 */
enum uccl_drop uccl_conn_elsewhere(struct uccl_conn *c, const struct uccl_hdr *h, uint64_t now)
{
	uint16_t port = uccl_get16(h->rec + 16), pad = uccl_get16(h->rec + 18);

	if (c->state != UCCL_CONN_HELLO || !c->remote.indirect)
		return UCCL_DROP_STATE;
	if (uccl_get64(h->rec) != c->nonce || uccl_get64(h->rec + 8) != c->remote.incarnation)
		return UCCL_DROP_COOKIE;
	if (h->payload_len || h->tail_len || !port || !pad != !c->remote.nic.pad)
		return UCCL_DROP_RECORD;
	c->remote.nic.port = port;
	c->remote.nic.pad = pad;
	c->remote.nic.scope = uccl_get32(h->rec + 20);
	c->remote.indirect = false;
	conn_step(c, UCCL_CONN_HELLO, now);
	return UCCL_DROP_COUNT;
}

enum uccl_drop uccl_conn_open(struct uccl_conn *c, const struct uccl_init *init, bool is_ack, uint64_t now)
{
	if (c->state == UCCL_CONN_DEAD || (c->token_remote && c->token_remote != init->token) ||
	    (c->remote.incarnation && c->remote.incarnation != init->from.incarnation))
		return UCCL_DROP_STATE;
	c->remote.incarnation = init->from.incarnation;
	c->token_remote = init->token;
	if (!is_ack)
		c->ack_due = true;
	if (c->state == UCCL_CONN_OPEN)
		return UCCL_DROP_COUNT;
	c->theirs = init->params;
	c->keyless = init->keyless;
	c->opened_ns = now;
	/* Of what took longer a repetition may have been answered (RFC 6298 section 3). PROTOCOL R231 */
	if (now - init->asked_ns < RETRY_MIN_NS)
		c->rtt_ns = uccl_max(now - init->asked_ns, 1);
	conn_step(c, UCCL_CONN_OPEN, now);
	return UCCL_DROP_COUNT;
}

/*
 * Incarnations have no order, but time has: the peer of `c` lived before it opened, or before we were told of it and
 * started; whoever asks for the other connection lived after it asked.
 */
bool uccl_conn_superseded(const struct uccl_conn *c, uint64_t asked_ns)
{
	switch (c->state) {
	case UCCL_CONN_HELLO:
	case UCCL_CONN_INIT:
		return asked_ns > c->started_ns;
	case UCCL_CONN_OPEN:
		return asked_ns > c->opened_ns;
	default:
		return false;
	}
}

void uccl_hello_place(uint8_t rec[UCCL_REC_LEN], const struct uccl_nic_addr *own)
{
	uccl_put16(rec + 24, own->port);
	uccl_put16(rec + 26, own->pad);
	uccl_put32(rec + 28, own->pad ? own->scope : 0);
}

/* PROTOCOL R117: the place of another that was asked for. False: we know none. */
static bool row_answer(const struct uccl_listener *l, uint64_t expected, uint8_t rec[UCCL_REC_LEN])
{
	const struct uccl_nic_addr *at;

	if (!expected || expected == l->local.incarnation || expected - l->port_range.first >= l->port_range.n)
		return false;
	at = &l->port_range.at[expected - l->port_range.first];
	uccl_put64(rec + 8, expected);
	uccl_put16(rec + 16, at->port);
	uccl_put16(rec + 18, at->pad);
	uccl_put32(rec + 20, at->scope);
	return true;
}

enum uccl_drop uccl_listener_hello(const struct uccl_listener *l, const struct uccl_hdr *h,
				   const struct uccl_nic_addr *src, uint8_t reply[UCCL_HDR_LEN],
				   struct uccl_nic_addr *to, uint64_t now)
{
	uint64_t incarnation = uccl_get64(h->rec + 8);
	uint8_t rec[UCCL_REC_LEN] = { 0 }, version = uccl_hello_version(h);
	struct uccl_hdr out = { .type = UCCL_PKT_COOKIE, .token = h->token, .rec = rec };

	if (h->payload_len || h->tail_len)
		return UCCL_DROP_LENGTH;
	*to = *src;
	/* Something on the way may have translated the port. PROTOCOL R373 */
	if (src->pad || !(h->flags & UCCL_FLAG_OWN_PORT))
		to->port = uccl_get16(h->rec + 24);
	if (!incarnation || !to->port || !uccl_get16(h->rec + 24) || !h->token || !src->pad != !uccl_get16(h->rec + 26))
		return UCCL_DROP_RECORD;
	/* A packet of an RDMA NIC comes from a queue pair that sends; the one that receives is told. */
	if (src->pad) {
		to->pad = uccl_get16(h->rec + 26);
		to->scope = uccl_get32(h->rec + 28);
	}
	memcpy(rec, h->rec, 8);
	if (version != UCCL_VERSION && version != UCCL_VERSION_FORMER) {
		/* The sender learns our version, and nothing that makes a connection. PROTOCOL R335 */
		uccl_hdr_encode(reply, &out);
		return UCCL_DROP_VERSION;
	}
	if (row_answer(l, uccl_get64(h->rec + 16), rec)) {
		out.type = UCCL_PKT_ELSEWHERE;
	} else {
		uccl_put64(rec + 8, l->local.incarnation);
		cookie_make(l, to, incarnation, now, rec + 16);
	}
	uccl_hdr_encode(reply, &out);
	/* PROTOCOL R333 */
	if (version == UCCL_VERSION_FORMER)
		uccl_hdr_former(reply);
	return UCCL_DROP_COUNT;
}

/* What INIT and INIT_ACK have in common. */
static enum uccl_drop init_decode(const struct uccl_listener *l, const struct uccl_hdr *h, const uint8_t *payload,
				  const struct uccl_nic_addr *src, struct uccl_init *out)
{
	struct uccl_nic_addr second;
	enum uccl_drop reason;

	if ((h->payload_len != UCCL_INIT_PAYLOAD && h->payload_len != UCCL_INIT_MAX) || h->tail_len)
		return UCCL_DROP_LENGTH;
	if (uccl_addr_decode(&out->from, payload) || !out->from.incarnation)
		return UCCL_DROP_RECORD;
	out->at = out->from.nic;
	/* PROTOCOL R379 */
	out->second = l->rails && uccl_nic_addr_second(&out->from.nic, &second) &&
		      !memcmp(second.ip, src->ip, sizeof(src->ip));
	out->translated = !out->second && memcmp(out->from.nic.ip, src->ip, sizeof(src->ip));
	/* PROTOCOL R373 */
	if (h->type == UCCL_PKT_INIT && h->flags & UCCL_FLAG_OWN_PORT && !out->second && !src->pad &&
	    !out->from.nic.pad) {
		out->translated |= out->from.nic.port != src->port;
		if (out->translated)
			out->at = *src;
	} else if (out->translated) {
		return UCCL_DROP_SOURCE;
	}
	out->heard = out->second ? second : out->at;
	if (uccl_get64(h->rec + 8) != l->local.incarnation)
		return UCCL_DROP_STALE;
	out->keyless = false;
	out->token = uccl_get64(h->rec);
	if (!out->token)
		return UCCL_DROP_RECORD;
	reason = params_decode(&out->params, payload + UCCL_ADDR_LEN);
	if (reason == UCCL_DROP_COUNT && h->payload_len != init_text_len(out->params.security) + UCCL_MAC_LEN)
		reason = UCCL_DROP_LENGTH;
	return reason;
}

static bool mac_right(const struct uccl_hdr *h, const uint8_t *payload, const uint8_t key[UCCL_KEY_LEN])
{
	uint32_t len = h->payload_len - (uint32_t)UCCL_MAC_LEN;
	uint8_t mac[UCCL_MAC_LEN];

	init_mac(mac, h->type, h->rec, payload, len, key);
	return uccl_mac_equal(mac, payload + len);
}

/* It is proven by this key: is it what we want? PROTOCOL R92 */
static enum uccl_drop security_agree(const struct uccl_listener *l, const struct uccl_hdr *h, const uint8_t *payload,
				     const uint8_t key[UCCL_KEY_LEN], struct uccl_init *out)
{
	struct wrap_context w = wrap_context(h->type, h->rec);

	if (out->params.security != l->security)
		return UCCL_DROP_SECURITY;
	if (l->security && !uccl_key_unwrap(out->params.key, payload + UCCL_ADDR_LEN + UCCL_PARAMS_LEN, &w, sizeof(w),
					    key))
		return UCCL_DROP_MAC;
	return UCCL_DROP_COUNT;
}

enum uccl_drop uccl_listener_init(const struct uccl_listener *l, const struct uccl_hdr *h, const uint8_t *payload,
				  const struct uccl_nic_addr *src, struct uccl_init *out, uint64_t now)
{
	uint8_t cookie[UCCL_MAC_LEN];
	enum uccl_drop reason = init_decode(l, h, payload, src, out);

	if (reason != UCCL_DROP_COUNT)
		return reason;
	out->asked_ns = uccl_get64(h->rec + 16);
	/* One from the future is older than any: the difference wraps. Most that are made up end here, cheaply. */
	if (now - out->asked_ns > UCCL_COOKIE_LIFE_NS)
		return UCCL_DROP_COOKIE;
	cookie_make(l, &out->heard, out->from.incarnation, out->asked_ns, cookie);
	if (!uccl_mac_equal(cookie, h->rec + 16))
		return UCCL_DROP_COOKIE;
	if (mac_right(h, payload, l->local.key))
		return security_agree(l, h, payload, l->local.key, out);
	if (!mac_right(h, payload, l->group))
		return UCCL_DROP_MAC;
	/* What anybody of the group can make proves no more: that its first place is its own, for example. */
	out->keyless = true;
	if (out->second)
		return UCCL_DROP_KEYLESS;
	return l->keyless && !l->security && !out->params.security ? UCCL_DROP_COUNT : UCCL_DROP_KEYLESS;
}

enum uccl_drop uccl_conn_check_ack(const struct uccl_conn *c, const struct uccl_listener *l, const struct uccl_hdr *h,
				   const uint8_t *payload, const struct uccl_nic_addr *src, struct uccl_init *out)
{
	enum uccl_drop reason = init_decode(l, h, payload, src, out);

	if (reason != UCCL_DROP_COUNT)
		return reason;
	out->asked_ns = c->asked_ns;
	if (!uccl_nic_addr_equal(&out->from.nic, &c->remote.nic))
		return UCCL_DROP_SOURCE;
	/* Without a key in the address there is nothing to prove the peer by but that it hears us. */
	if (!memcmp(c->remote.key, l->group, sizeof(l->group)))
		return l->security || out->params.security ? UCCL_DROP_KEYLESS : UCCL_DROP_COUNT;
	if (!mac_right(h, payload, c->remote.key))
		return UCCL_DROP_MAC;
	return security_agree(l, h, payload, c->remote.key, out);
}
