/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "lan.h"

#include <stdlib.h>
#include <string.h>

#define MS UCCL_NS_PER_MS
#define SECOND UCCL_NS_PER_S

static uint8_t src[1 << 18], dst[1 << 18];

static uint64_t dropped(const struct lan *l, int i, enum uccl_drop reason)
{
	return lan_stats(l, i)->dropped[reason];
}

/* One message each way between 0 and 1. */
static void talk(struct lan *l)
{
	lan_recv(l, 1, dst, 100, LAN_CTX(101));
	assert_int_equal(lan_send(l, 0, 1, src, 100, LAN_CTX(100)), 0);
	lan_run(l, 100 * MS);
	lan_expect(l, 0, LAN_CTX(100), 0);
	lan_expect(l, 1, LAN_CTX(101), 0);
}

static void new__found_by_place_and_incarnation(void **state)
{
	struct lan *l = lan_new_open(2);
	struct uccl_addr addr = *uccl_engine_addr(l->node[1].e), other;
	struct uccl_engine *e = l->node[0].e;
	struct conn *c;

	(void)state;
	assert_null(conn_find(e, &addr.nic, addr.incarnation));
	c = conn_new(e, &addr);
	assert_non_null(c);
	assert_ptr_equal(conn_find(e, &addr.nic, addr.incarnation), c);
	assert_null(conn_find(e, &addr.nic, addr.incarnation + 1));
	other = addr;
	other.nic.port++;
	assert_null(conn_find(e, &other.nic, addr.incarnation));
	other = addr;
	other.nic.ip[15] ^= 1;
	assert_null(conn_find(e, &other.nic, addr.incarnation));
	assert_ptr_equal(conn_by_token(e, c->hs.token_local), c);
	assert_null(conn_by_token(e, c->hs.token_local + 1));
	assert_false(c->peer.self);
	conn_free(c, &e->conns);
	assert_null(conn_find(e, &addr.nic, addr.incarnation));
	assert_int_equal(e->nconns, 0);
	/* Ourselves, by full address and by place. */
	addr = *uccl_engine_addr(e);
	assert_true(conn_new(e, &addr)->peer.self);
	addr.incarnation = 0;
	assert_true(conn_new(e, &addr)->peer.self);
	addr.incarnation = 5;
	assert_false(conn_new(e, &addr)->peer.self);
	lan_free(l);
}

static void connect__on_first_send(void **state)
{
	struct lan *l = lan_new_open(2);

	(void)state;
	lan_peer(l, 0, 1);
	lan_run(l, SECOND);
	assert_int_equal(l->packets, 0);
	talk(l);
	assert_int_equal(lan_stats(l, 0)->connects, 1);
	assert_int_equal(lan_stats(l, 1)->connects, 1);
	/* The other side knows who it was, so it need not connect. */
	lan_recv(l, 0, dst, 100, LAN_CTX(2));
	assert_int_equal(lan_send(l, 1, 0, src, 100, LAN_CTX(3)), 0);
	lan_run(l, SECOND);
	lan_expect(l, 0, LAN_CTX(2), 0);
	assert_int_equal(lan_stats(l, 1)->connects, 1);
	assert_int_equal(l->node[1].e->nconns, 1);
	lan_free(l);
}

/* PROTOCOL R8 */
static void connect__both_at_once(void **state)
{
	(void)state;
	for (int keyless = 0; keyless < 2; keyless++) {
		struct lan *l = lan_new();

		for (int i = 0; i < 2; i++) {
			l->node[i].cfg.keyless = keyless;
			lan_open(l, i);
		}
		for (int i = 0; i < 2; i++) {
			struct uccl_peer *p = keyless ? lan_peer_keyless(l, i, !i) : lan_peer(l, i, !i);

			lan_recv(l, i, dst + i * 100, 100, LAN_CTX(1));
			assert_int_equal(lan_send_to(l, i, p, src, 100, LAN_CTX(2)), 0);
		}
		lan_run(l, SECOND);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(lan_waiting(l, i), 2);
			assert_int_equal(lan_next(l, i)->err, 0);
			assert_int_equal(lan_next(l, i)->err, 0);
			assert_int_equal(lan_stats(l, i)->connects, 1);
			assert_int_equal(l->node[i].e->nconns, 1);
			assert_int_equal(l->node[i].e->nopen, 1);
		}
		lan_free(l);
	}
}

static enum lan_verdict lose_by_mask(struct lan *l, const struct lan_event *ev)
{
	if (ev->type < UCCL_PKT_HELLO || ev->type > UCCL_PKT_INIT_ACK)
		return LAN_PASS;
	return l->n < 8 && (l->mask >> l->n++ & 1) ? LAN_DROP : LAN_PASS;
}

/* Every subset of the first eight handshake packets is lost, both sides starting at once. PROTOCOL R8 R9 */
static void connect__any_loss(void **state)
{
	(void)state;
	for (unsigned int mask = 0; mask < 256; mask++) {
		struct lan *l = lan_new_open(2);

		for (int i = 0; i < 2; i++) {
			lan_recv(l, i, dst, 100, LAN_CTX(1));
			lan_peer(l, i, !i);
		}
		l->mask = mask;
		l->filter = lose_by_mask;
		for (int i = 0; i < 2; i++)
			assert_int_equal(lan_send(l, i, !i, src, 10, LAN_CTX(2)), 0);
		lan_run(l, 3 * SECOND);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(lan_waiting(l, i), 2);
			assert_int_equal(l->node[i].e->nconns, 1);
		}
		lan_free(l);
	}
}

static enum lan_verdict double_all(struct lan *l, const struct lan_event *ev)
{
	(void)l;
	(void)ev;
	return LAN_DOUBLE;
}

/* Everything comes twice: nothing happens twice. PROTOCOL R9 */
static void connect__doubled(void **state)
{
	struct lan *l = lan_new_open(2);

	(void)state;
	l->filter = double_all;
	talk(l);
	lan_run(l, SECOND);
	assert_int_equal(lan_stats(l, 0)->connects, 1);
	assert_int_equal(lan_stats(l, 1)->connects, 1);
	assert_int_equal(lan_waiting(l, 0) + lan_waiting(l, 1), 0);
	lan_free(l);
}

/* PROTOCOL R7 */
static void connect__keyless(void **state)
{
	(void)state;
	for (int allowed = 0; allowed < 2; allowed++) {
		struct lan *l = lan_new();

		l->node[1].cfg.keyless = allowed;
		lan_open(l, 0);
		lan_open(l, 1);
		lan_recv(l, 1, dst, 10, LAN_CTX(1));
		assert_int_equal(lan_send_to(l, 0, lan_peer_keyless(l, 0, 1), src, 10, LAN_CTX(2)), 0);
		lan_run(l, SECOND);
		assert_int_equal(lan_waiting(l, 0), allowed);
		assert_int_equal(lan_waiting(l, 1), allowed);
		assert_int_equal(dropped(l, 1, UCCL_DROP_KEYLESS) > 0, !allowed);
		if (allowed) {
			/* Its incarnation is known now: the full address finds the same peer. */
			assert_ptr_equal(lan_peer(l, 0, 1), lan_peer_keyless(l, 0, 1));
			assert_int_equal(uccl_peer_addr(lan_peer(l, 0, 1))->incarnation,
					 uccl_engine_addr(l->node[1].e)->incarnation);
		}
		lan_free(l);
	}
}

/* PROTOCOL R6 */
static void connect__wrong_key(void **state)
{
	struct lan *l = lan_new_open(2);
	struct uccl_addr addr = *uccl_engine_addr(l->node[1].e);

	(void)state;
	addr.key[3] ^= 0x10;
	assert_int_equal(lan_send_to(l, 0, uccl_engine_peer(l->node[0].e, &addr, true), src, 10, LAN_CTX(1)), 0);
	lan_run(l, SECOND);
	assert_int_equal(lan_waiting(l, 0), 0);
	assert_true(dropped(l, 1, UCCL_DROP_MAC) > 0);
	assert_int_equal(l->node[1].e->nconns, 0);
	lan_free(l);
}

/* The address was wrong, then the right one is given: the same peer gets its key. */
static void connect__key_learnt_later(void **state)
{
	struct lan *l = lan_new_open(2);
	struct uccl_addr addr = *uccl_engine_addr(l->node[1].e);

	(void)state;
	lan_recv(l, 1, dst, 10, LAN_CTX(2));
	addr.key[0] ^= 1;
	assert_int_equal(lan_send_to(l, 0, uccl_engine_peer(l->node[0].e, &addr, true), src, 10, LAN_CTX(1)), 0);
	lan_run(l, 100 * MS);
	assert_int_equal(lan_waiting(l, 1), 0);
	lan_peer(l, 0, 1);
	lan_run(l, 3 * SECOND);
	lan_expect(l, 0, LAN_CTX(1), 0);
	lan_expect(l, 1, LAN_CTX(2), 0);
	lan_free(l);
}

/* The place answers, but somebody else lives there now. PROTOCOL R10 */
static void connect__to_an_earlier_incarnation(void **state)
{
	struct lan *l = lan_new_open(2);
	struct uccl_addr old = *uccl_engine_addr(l->node[1].e);

	(void)state;
	lan_kill(l, 1);
	lan_open(l, 1);
	assert_int_equal(lan_send_to(l, 0, uccl_engine_peer(l->node[0].e, &old, true), src, 10, LAN_CTX(1)), 0);
	assert_int_equal(lan_send_to(l, 0, uccl_engine_peer(l->node[0].e, &old, true), src, 50000, LAN_CTX(2)), 0);
	lan_run(l, SECOND);
	lan_expect(l, 0, LAN_CTX(1), FI_ECONNRESET);
	lan_expect(l, 0, LAN_CTX(2), FI_ECONNRESET);
	assert_int_equal(dropped(l, 0, UCCL_DROP_STALE), 1);
	assert_int_equal(lan_stats(l, 0)->peers_dead, 1);
	/* From now on at once. */
	assert_int_equal(lan_send_to(l, 0, uccl_engine_peer(l->node[0].e, &old, true), src, 10, NULL), -FI_ECONNRESET);
	/* The new one is another peer. */
	talk(l);
	lan_free(l);
}

/* An open peer restarts at its address and connects: the old one is dead, the new one lives. PROTOCOL R10 */
static void connect__restart(void **state)
{
	struct lan *l = lan_new_open(2);
	struct uccl_peer *old;

	(void)state;
	talk(l);
	old = lan_peer(l, 0, 1);
	lan_recv_from(l, 0, old, dst, 10, LAN_CTX(1));
	lan_recv(l, 0, dst + 100, 10, LAN_CTX(2));
	lan_kill(l, 1);
	lan_open(l, 1);
	assert_int_equal(lan_send_to(l, 0, old, src, 100, LAN_CTX(3)), 0);
	lan_run(l, 100 * MS);
	/* Nothing proves anything yet. */
	assert_int_equal(lan_waiting(l, 0), 0);
	assert_true(dropped(l, 1, UCCL_DROP_TOKEN) > 0);
	assert_int_equal(lan_send(l, 1, 0, src, 10, LAN_CTX(4)), 0);
	lan_run(l, SECOND);
	lan_expect(l, 0, LAN_CTX(3), FI_ECONNRESET);
	lan_expect(l, 0, LAN_CTX(1), FI_ECONNRESET);
	lan_expect(l, 0, LAN_CTX(2), 0);
	lan_expect(l, 1, LAN_CTX(4), 0);
	assert_ptr_not_equal(lan_peer(l, 0, 1), old);
	assert_int_equal(old->dead, FI_ECONNRESET);
	talk(l);
	lan_free(l);
}

static enum lan_verdict hold_init(struct lan *l, const struct lan_event *ev)
{
	(void)l;
	return ev->type == UCCL_PKT_INIT || ev->type == UCCL_PKT_INIT_ACK ? LAN_HOLD : LAN_PASS;
}

/* A late INIT of an incarnation that is dead by now wakes nobody. PROTOCOL R10 */
static void connect__late_init(void **state)
{
	struct lan *l = lan_new_open(2);

	(void)state;
	assert_int_equal(lan_send(l, 1, 0, src, 10, LAN_CTX(1)), 0);
	l->filter = hold_init;
	lan_run(l, 3 * MS);
	l->filter = NULL;
	assert_false(TAILQ_EMPTY(&l->held));
	lan_run(l, SECOND);
	lan_expect(l, 1, LAN_CTX(1), 0);
	conn_fail(lan_conn(l, 0, 1), FI_ECONNABORTED, l->now);
	lan_release(l, false);
	lan_run(l, 10 * MS);
	assert_int_equal(l->node[0].e->nopen, 0);
	assert_true(dropped(l, 0, UCCL_DROP_STALE) + dropped(l, 0, UCCL_DROP_STATE) > 0);
	lan_free(l);
}

/* The NIC refuses the peer: its operations end, once. */
static void connect__nic_refuses(void **state)
{
	struct lan *l = lan_new_open(2);

	(void)state;
	l->node[0].nic->connect_error = -FI_ENOMEM;
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	lan_run(l, SECOND);
	lan_expect(l, 0, LAN_CTX(1), FI_ENOMEM);
	assert_int_equal(lan_stats(l, 0)->connect_fails, 1);
	assert_int_equal(dropped(l, 0, UCCL_DROP_MEMORY), 1);
	assert_int_equal(l->node[0].e->nopen, 0);
	lan_free(l);
}

/* Nobody is made to wait for ever. PROTOCOL R47 */
static void connect__timeout(void **state)
{
	struct lan *l = lan_new();
	struct uccl_addr nobody;

	(void)state;
	l->node[0].cfg.connect_timeout_ns = 2 * SECOND;
	lan_open(l, 0);
	nobody = *uccl_engine_addr(l->node[0].e);
	nobody.nic.port = 9;
	nobody.incarnation = 5;
	assert_int_equal(lan_send_to(l, 0, uccl_engine_peer(l->node[0].e, &nobody, true), src, 10, LAN_CTX(1)), 0);
	lan_pass(l, SECOND + 900 * MS);
	assert_int_equal(lan_waiting(l, 0), 0);
	lan_pass(l, SECOND);
	lan_expect(l, 0, LAN_CTX(1), FI_EHOSTUNREACH);
	assert_int_equal(lan_stats(l, 0)->connect_fails, 1);
	lan_free(l);
}

/* Retries grow rarer, and never stop. PROTOCOL R9 */
static void connect__retries(void **state)
{
	struct lan *l = lan_new_open(1);
	struct uccl_addr nobody = *uccl_engine_addr(l->node[0].e);
	uint64_t txs;

	(void)state;
	nobody.nic.port = 9;
	nobody.incarnation = 5;
	assert_int_equal(lan_send_to(l, 0, uccl_engine_peer(l->node[0].e, &nobody, true), src, 10, LAN_CTX(1)), 0);
	lan_pass(l, SECOND);
	assert_in_range(l->node[0].nic->txs, 14, 20);
	lan_pass(l, 10 * SECOND);
	txs = l->node[0].nic->txs;
	assert_in_range(txs, 20, 40);
	lan_pass(l, 10 * SECOND);
	assert_in_range(l->node[0].nic->txs - txs, 15, 25);
	assert_int_equal(lan_waiting(l, 0), 0);
	lan_free(l);
}

static void rx__draining_takes_nobody(void **state)
{
	struct lan *l = lan_new_open(2);

	(void)state;
	uccl_engine_drain(l->node[1].e, l->now);
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	lan_run(l, 100 * MS);
	assert_true(dropped(l, 1, UCCL_DROP_STATE) > 0);
	assert_int_equal(l->node[1].e->nconns, 0);
	lan_free(l);
}

static void packet(uint8_t *out, uint8_t type, uint64_t token, const uint8_t *rec)
{
	struct uccl_hdr h = {.type = type, .token = token, .rec = rec};

	uccl_hdr_encode(out, &h);
}

/* A label may cost a socket: who asks must not choose that of the answer. PROTOCOL R5 */
static void rx__hello_keeps_no_label(void **state)
{
	struct lan *l = lan_new_open(2);
	uint8_t p[UCCL_HDR_LEN], rec[UCCL_REC_LEN] = {0};
	struct uccl_hdr h = {.type = UCCL_PKT_HELLO, .token = 1, .rec = rec};
	uint16_t labels = l->node[0].nic->nic.caps.labels;

	(void)state;
	assert_true(labels > 1);
	uccl_put64(rec + 8, uccl_engine_addr(l->node[1].e)->incarnation);
	uccl_hello_place(rec, &uccl_engine_addr(l->node[1].e)->nic);
	for (h.pseq = 0; h.pseq < labels; h.pseq++) {
		uccl_put64(rec, h.pseq + 1);
		uccl_hdr_encode(p, &h);
		lan_inject(l, 0, 1, p, sizeof(p));
		lan_round(l);
	}
	assert_int_equal(l->node[0].nic->txs, labels);
	assert_int_equal(l->node[0].nic->labels, 1);
	lan_free(l);
}

/* Handshake packets out of the blue: each refused by its reason. PROTOCOL R3 R5 R6 */
static void rx__handshake_checks(void **state)
{
	struct lan *l = lan_new_open(3);
	uint8_t p[UCCL_HDR_LEN + UCCL_INIT_PAYLOAD] = {0}, rec[UCCL_REC_LEN] = {0};
	struct uccl_hdr h = {.rec = rec};
	struct conn *c = lan_conn(l, 0, 1);

	(void)state;
	/* HELLO with nothing in it; with payload. */
	packet(p, UCCL_PKT_HELLO, 1, rec);
	lan_inject(l, 0, 1, p, UCCL_HDR_LEN);
	lan_round(l);
	assert_int_equal(dropped(l, 0, UCCL_DROP_RECORD), 1);
	h.type = UCCL_PKT_HELLO;
	h.payload_len = 4;
	uccl_hdr_encode(p, &h);
	lan_inject(l, 0, 1, p, UCCL_HDR_LEN + 4);
	/* INIT too short; with a payload of nothing. */
	h.type = UCCL_PKT_INIT;
	uccl_hdr_encode(p, &h);
	lan_inject(l, 0, 1, p, UCCL_HDR_LEN + 4);
	h.payload_len = UCCL_INIT_PAYLOAD;
	uccl_hdr_encode(p, &h);
	lan_inject(l, 0, 1, p, sizeof(p));
	lan_round(l);
	assert_int_equal(dropped(l, 0, UCCL_DROP_LENGTH), 2);
	assert_int_equal(dropped(l, 0, UCCL_DROP_RECORD), 2);
	/* INIT with an address of its own and a cookie that nobody made. */
	uccl_addr_encode(p + UCCL_HDR_LEN, uccl_engine_addr(l->node[1].e));
	uccl_put64(rec, 77);
	uccl_put64(rec + 8, uccl_engine_addr(l->node[0].e)->incarnation);
	uccl_hdr_encode(p, &h);
	uccl_put32(p + UCCL_HDR_LEN + UCCL_ADDR_LEN, 1500);
	uccl_put32(p + UCCL_HDR_LEN + UCCL_ADDR_LEN + 8, 64);
	uccl_put16(p + UCCL_HDR_LEN + UCCL_ADDR_LEN + 16, 1);
	uccl_put16(p + UCCL_HDR_LEN + UCCL_ADDR_LEN + 18, 1);
	lan_inject(l, 0, 1, p, sizeof(p));
	lan_round(l);
	assert_int_equal(dropped(l, 0, UCCL_DROP_COOKIE), 1);
	/* The same from another machine. */
	lan_inject(l, 0, 2, p, sizeof(p));
	lan_round(l);
	assert_int_equal(dropped(l, 0, UCCL_DROP_SOURCE), 1);
	/* COOKIE and INIT_ACK: no such token; another source; not expected now; dead. */
	for (uint8_t t = UCCL_PKT_COOKIE; t <= UCCL_PKT_INIT_ACK; t += 2) {
		uint64_t tokens = dropped(l, 0, UCCL_DROP_TOKEN), sources = dropped(l, 0, UCCL_DROP_SOURCE);
		uint64_t states = dropped(l, 0, UCCL_DROP_STATE) + dropped(l, 0, UCCL_DROP_LENGTH);

		packet(p, t, c->hs.token_local + 1, rec);
		lan_inject(l, 0, 1, p, UCCL_HDR_LEN);
		packet(p, t, c->hs.token_local, rec);
		lan_inject(l, 0, 2, p, UCCL_HDR_LEN);
		lan_inject(l, 0, 1, p, UCCL_HDR_LEN);
		lan_round(l);
		assert_int_equal(dropped(l, 0, UCCL_DROP_TOKEN), tokens + 1);
		assert_int_equal(dropped(l, 0, UCCL_DROP_SOURCE), sources + 1);
		assert_int_equal(dropped(l, 0, UCCL_DROP_STATE) + dropped(l, 0, UCCL_DROP_LENGTH), states + 1);
	}
	conn_fail(c, FI_ECONNABORTED, l->now);
	packet(p, UCCL_PKT_COOKIE, c->hs.token_local, rec);
	lan_inject(l, 0, 1, p, UCCL_HDR_LEN);
	lan_round(l);
	assert_int_equal(l->node[0].e->nconns, 1);
	assert_int_equal(c->hs.state, UCCL_CONN_DEAD);
	lan_free(l);
}

/* A COOKIE nobody asked for. PROTOCOL R5 */
static void rx__forged_cookie(void **state)
{
	struct lan *l = lan_new_open(2);
	uint8_t p[UCCL_HDR_LEN], rec[UCCL_REC_LEN] = {0};
	struct conn *c = lan_conn(l, 0, 1);

	(void)state;
	l->node[1].asleep = true;
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	uccl_put64(rec, c->hs.nonce + 1);
	uccl_put64(rec + 8, 12345);
	packet(p, UCCL_PKT_COOKIE, c->hs.token_local, rec);
	lan_inject(l, 0, 1, p, sizeof(p));
	lan_round(l);
	assert_int_equal(dropped(l, 0, UCCL_DROP_COOKIE), 1);
	assert_int_equal(lan_waiting(l, 0), 0);
	l->node[1].asleep = false;
	lan_run(l, SECOND);
	lan_expect(l, 0, LAN_CTX(1), 0);
	lan_free(l);
}

/* PROTOCOL R48 */
static void report__unreachable(void **state)
{
	struct lan *l = lan_new_open(2);
	struct uccl_addr gone;

	(void)state;
	talk(l);
	gone = *uccl_engine_addr(l->node[1].e);
	l->icmp = true;
	lan_recv_from(l, 0, lan_peer(l, 0, 1), dst, 10, LAN_CTX(3));
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	lan_kill(l, 1);
	lan_pass(l, 300 * MS);
	lan_expect(l, 0, LAN_CTX(1), FI_ECONNABORTED);
	lan_expect(l, 0, LAN_CTX(3), FI_ECONNABORTED);
	assert_int_equal(lan_stats(l, 0)->peers_dead, 1);
	assert_int_equal(lan_send_to(l, 0, uccl_engine_peer(l->node[0].e, &gone, false), src, 10, NULL),
			 -FI_ECONNABORTED);
	lan_free(l);
}

/* Reports of one moment, and fewer than three, prove nothing. PROTOCOL R48 */
static void report__not_enough(void **state)
{
	struct lan *l = lan_new_open(2);

	(void)state;
	talk(l);
	l->node[1].asleep = true;
	for (int i = 0; i < 20; i++)
		lan_icmp_last(l, 0, 1, UCCL_RX_UNREACH);
	lan_round(l);
	lan_pass(l, 40 * MS);
	lan_icmp_last(l, 0, 1, UCCL_RX_UNREACH);
	lan_pass(l, 5 * SECOND);
	assert_int_equal(lan_conn(l, 0, 1)->unreach, 2);
	assert_true(lan_conn(l, 0, 1)->peer.open);
	/* The third. */
	lan_icmp_last(l, 0, 1, UCCL_RX_UNREACH);
	lan_pass(l, 100 * MS);
	assert_false(lan_conn(l, 0, 1)->peer.open);
	lan_free(l);
}

/* It was heard after the report: it lives, whatever was reported. PROTOCOL R48 */
static void report__heard_since(void **state)
{
	struct lan *l = lan_new_open(2);
	const struct uccl_nic_addr *at = &uccl_engine_addr(l->node[1].e)->nic;

	(void)state;
	talk(l);
	for (int i = 0; i < 50; i++) {
		if (i % 10 == 9)
			lan_event(l, 0, UCCL_RX_GONE, at);
		else
			lan_icmp_last(l, 0, 1, UCCL_RX_UNREACH);
		lan_pass(l, 60 * MS);
	}
	assert_true(lan_conn(l, 0, 1)->peer.open);
	assert_int_equal(lan_conn(l, 0, 1)->suspect_at, 0);
	talk(l);
	lan_free(l);
}

/* About somebody else, or nobody. PROTOCOL R48 */
static void report__of_others(void **state)
{
	struct lan *l = lan_new_open(3);
	struct uccl_nic_addr at = uccl_engine_addr(l->node[1].e)->nic;
	uint8_t hdr[UCCL_HDR_LEN];

	(void)state;
	talk(l);
	lan_header_last(l, 0, 1, hdr);
	lan_peer(l, 0, 2);
	at.port++;
	for (int i = 0; i < 10; i++) {
		lan_icmp(l, 0, UCCL_RX_UNREACH, &at, hdr, sizeof(hdr));
		/* A peer that nothing was said to is not judged. */
		lan_icmp(l, 0, UCCL_RX_UNREACH, &uccl_engine_addr(l->node[2].e)->nic, hdr, sizeof(hdr));
		lan_pass(l, 20 * MS);
	}
	assert_int_equal(lan_conn(l, 0, 1)->unreach, 0);
	assert_int_equal(lan_conn(l, 0, 2)->unreach, 0);
	talk(l);
	lan_free(l);
}

/* Whoever has not seen our packets cannot quote them, nor can who has only old ones. PROTOCOL R150 */
static void report__quotes_nothing_of_ours(void **state)
{
	struct lan *l = lan_new_open(2);
	const struct uccl_nic_addr *at = &uccl_engine_addr(l->node[1].e)->nic;
	uint8_t good[UCCL_HDR_LEN], hdr[UCCL_HDR_LEN];

	(void)state;
	talk(l);
	l->node[1].asleep = true;
	for (int i = 0; i < 100; i++) {
		uint32_t len = sizeof(hdr);

		lan_header_last(l, 0, 1, good);
		memcpy(hdr, good, sizeof(hdr));
		switch (i % 10) {
		case 0:
			len = 0;
			break;
		case 1:
			len = UCCL_QUOTE_MIN - 1;
			break;
		case 2:
			hdr[0] ^= 1; /* not ours */
			break;
		case 3:
			hdr[8] ^= 1; /* the token */
			break;
		case 4:
			uccl_put32(hdr + 20, uccl_get32(hdr + 20) + 1); /* not sent yet */
			break;
		case 5:
			uccl_put32(hdr + 20, uccl_get32(hdr + 20) - (1u << 22)); /* long ago */
			break;
		case 6:
			uccl_put16(hdr + 6, 4); /* the path */
			break;
		case 7:
			hdr[3] = UCCL_PKT_HELLO; /* that has another token */
			break;
		case 8:
			hdr[3] = UCCL_PKT_INIT; /* and that has it elsewhere */
			break;
		default:
			hdr[3] = UCCL_PKT_INIT;
			len = UCCL_HDR_LEN - 1;
			break;
		}
		lan_icmp(l, 0, UCCL_RX_UNREACH, at, hdr, len);
		lan_pass(l, 20 * MS);
	}
	assert_int_equal(lan_conn(l, 0, 1)->unreach, 0);
	assert_int_equal(lan_conn(l, 0, 1)->suspect_at, 0);
	assert_int_equal(dropped(l, 0, UCCL_DROP_REPORT), 100);
	/* The least that is quoted by anybody. */
	lan_icmp(l, 0, UCCL_RX_UNREACH, at, good, UCCL_QUOTE_MIN);
	lan_pass(l, MS);
	assert_int_equal(lan_conn(l, 0, 1)->unreach, 1);
	lan_free(l);
}

/* The peer's kernel knows better who lives. PROTOCOL R151 */
static void report__while_its_kernel_holds_it(void **state)
{
	struct lan *l = lan_new_open(2);

	(void)state;
	talk(l);
	lan_recv_from(l, 0, lan_peer(l, 0, 1), dst, 10, LAN_CTX(1));
	l->node[1].asleep = true;
	/* Two came before that connection stood. */
	for (int i = 0; i < 50; i++) {
		lan_hold(l, 0, 1, i > 1);
		lan_icmp_last(l, 0, 1, UCCL_RX_UNREACH);
		lan_pass(l, 20 * MS);
	}
	assert_int_equal(lan_waiting(l, 0), 0);
	assert_int_equal(lan_conn(l, 0, 1)->unreach, 2);
	lan_hold(l, 0, 1, false);
	lan_icmp_last(l, 0, 1, UCCL_RX_UNREACH);
	lan_pass(l, 100 * MS);
	lan_expect(l, 0, LAN_CTX(1), FI_ECONNABORTED);
	lan_free(l);
}

/* A peer that was never there: a while is given to one known by place alone, it may be about to start. PROTOCOL R48 */
static void report__never_there(void **state)
{
	(void)state;
	for (int keyless = 0; keyless < 2; keyless++) {
		struct lan *l = lan_new_open(1);
		struct uccl_addr nobody = *uccl_engine_addr(l->node[0].e);

		l->icmp = true;
		nobody.nic.port = 9;
		nobody.incarnation = keyless ? 0 : 5;
		assert_int_equal(lan_send_to(l, 0, uccl_engine_peer(l->node[0].e, &nobody, true), src, 10, LAN_CTX(1)),
				 0);
		lan_pass(l, SECOND);
		assert_int_equal(lan_waiting(l, 0), !keyless);
		lan_pass(l, 4 * SECOND);
		lan_expect(l, 0, LAN_CTX(1), FI_EHOSTUNREACH);
		lan_free(l);
	}
}

/* PROTOCOL R48 */
static void report__gone(void **state)
{
	struct lan *l = lan_new_open(2);
	const struct uccl_nic_addr *at = &uccl_engine_addr(l->node[1].e)->nic;

	(void)state;
	talk(l);
	l->node[1].asleep = true;
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	lan_event(l, 0, UCCL_RX_GONE, at);
	lan_pass(l, SECOND);
	lan_event(l, 0, UCCL_RX_GONE, at);
	assert_int_equal(lan_waiting(l, 0), 0);
	lan_pass(l, SECOND + 200 * MS);
	lan_expect(l, 0, LAN_CTX(1), FI_ECONNABORTED);
	lan_free(l);
}

/* PROTOCOL R47 */
static void scan__silence_is_not_death(void **state)
{
	struct lan *l = lan_new_open(2);

	(void)state;
	talk(l);
	lan_recv(l, 1, dst, 300000, LAN_CTX(2));
	l->node[1].asleep = true;
	assert_int_equal(lan_send(l, 0, 1, src, 200000, LAN_CTX(1)), 0);
	lan_pass(l, 590 * SECOND);
	assert_int_equal(lan_waiting(l, 0), 0);
	l->node[1].asleep = false;
	lan_run(l, 5 * SECOND);
	lan_expect(l, 0, LAN_CTX(1), 0);
	lan_expect(l, 1, LAN_CTX(2), 0);
	lan_free(l);
}

/* PROTOCOL R47 */
static void scan__peer_timeout(void **state)
{
	struct lan *l = lan_new();

	(void)state;
	for (int i = 0; i < 2; i++) {
		l->node[i].cfg.peer_timeout_ns = 3 * SECOND;
		lan_open(l, i);
	}
	talk(l);
	/* Nothing to do with it: it may be silent as long as it likes. */
	l->node[1].asleep = true;
	lan_pass(l, 20 * SECOND);
	assert_true(lan_conn(l, 0, 1)->peer.open);
	l->node[1].asleep = false;
	talk(l);
	l->node[1].asleep = true;
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	lan_pass(l, 2 * SECOND);
	assert_int_equal(lan_waiting(l, 0), 0);
	lan_pass(l, 2 * SECOND);
	lan_expect(l, 0, LAN_CTX(1), FI_ETIMEDOUT);
	assert_false(lan_conn(l, 0, 1)->peer.open);
	lan_free(l);
}

/*
 * The time-out begins with a question, not with the last packet: idle hours do not count. In one case nobody even
 * polled during them. The peer is back `busy` after the send. PROTOCOL R47
 */
static void idle_then_send(bool polled, uint64_t busy)
{
	struct lan *l = lan_new_open(2);

	talk(l);
	l->node[0].asleep = l->node[1].asleep = !polled;
	lan_pass(l, 2 * l->node[0].cfg.peer_timeout_ns);
	l->node[0].asleep = false;
	l->node[1].asleep = busy > 0;
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	lan_pass(l, busy);
	assert_int_equal(lan_waiting(l, 0), 0);
	l->node[1].asleep = false;
	lan_pass(l, 5 * SECOND);
	lan_expect(l, 0, LAN_CTX(1), 0);
	lan_free(l);
}

static void scan__idle_hours_do_not_count(void **state)
{
	(void)state;
	idle_then_send(true, 700 * MS);
	idle_then_send(true, 400 * SECOND);
	idle_then_send(false, 0);
	idle_then_send(false, 400 * SECOND);
}

/* Both were stopped with something under way, and this side is back first: its absence is no silence of the peer. */
static void scan__own_absence_does_not_count(void **state)
{
	struct lan *l = lan_new_open(2);

	(void)state;
	talk(l);
	l->node[1].asleep = true;
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	lan_pass(l, SECOND);
	l->node[0].asleep = true;
	lan_pass(l, 2 * l->node[0].cfg.peer_timeout_ns);
	l->node[0].asleep = false;
	lan_pass(l, 10 * SECOND);
	assert_int_equal(lan_waiting(l, 0), 0);
	l->node[1].asleep = false;
	lan_pass(l, 5 * SECOND);
	lan_expect(l, 0, LAN_CTX(1), 0);
	lan_free(l);
}

/* Without keepalives, too, a peer is asked before it fails: here its window is shut and nothing is in flight. */
static void scan__asked_before_it_fails(void **state)
{
	struct lan *l = lan_new();
	uint64_t before;

	(void)state;
	for (int i = 0; i < 2; i++) {
		l->node[i].cfg.keepalive_ns = 0;
		l->node[i].cfg.peer_timeout_ns = 8 * SECOND;
		lan_open(l, i);
	}
	talk(l);
	/* Large: it waits for a receive that is never posted. */
	assert_int_equal(lan_send(l, 0, 1, src, sizeof(src), LAN_CTX(1)), 0);
	lan_pass(l, SECOND);
	before = l->packets;
	lan_pass(l, 100 * SECOND);
	assert_in_range(l->packets - before, 20, 300);
	assert_int_equal(lan_waiting(l, 0), 0);
	l->node[1].asleep = true;
	lan_pass(l, 20 * SECOND);
	lan_expect(l, 0, LAN_CTX(1), FI_ETIMEDOUT);
	lan_free(l);
}

/* A peer that somebody waits for is asked whether it lives; one that nobody waits for is left alone. PROTOCOL R49 */
static void scan__keepalive(void **state)
{
	struct lan *l = lan_new_open(2);
	uint64_t before;

	(void)state;
	talk(l);
	lan_pass(l, SECOND);
	before = l->packets;
	lan_pass(l, 10 * SECOND);
	assert_int_equal(l->packets, before);
	lan_recv(l, 0, dst, 10, LAN_CTX(1));
	lan_pass(l, 10 * SECOND);
	assert_in_range(l->packets - before, 12, 30);
	lan_free(l);
}

/* Of what connection management waits for, only what one peer is to say is a reason to look after that peer. */
static void scan__managed(void **state)
{
	struct lan *l = lan_new_open(2);
	struct uccl_peer *peer;
	struct uccl_op *op;
	uint64_t before;

	(void)state;
	talk(l);
	peer = lan_peer(l, 0, 1);
	lan_pass(l, SECOND);
	for (int directed = 0; directed < 2; directed++) {
		op = lan_op(l, 0, UCCL_OP_RECV, UCCL_OPF_CM | (directed ? UCCL_OPF_DIRECTED : 0), dst, 10);
		op->peer = directed ? peer : NULL;
		op->context = LAN_CTX(1 + directed);
		assert_int_equal(uccl_engine_recv(l->node[0].e, op, l->now), 0);
		before = l->packets;
		lan_pass(l, 10 * SECOND);
		if (directed)
			assert_in_range(l->packets - before, 12, 30);
		else
			assert_int_equal(l->packets, before);
	}
	lan_kill(l, 1);
	lan_event(l, 0, UCCL_RX_GONE, &peer->addr.nic);
	lan_pass(l, 5 * SECOND);
	lan_expect(l, 0, LAN_CTX(2), FI_ECONNABORTED);
	assert_int_equal(lan_waiting(l, 0), 0);
	assert_false(uccl_peer_closed(peer));
	lan_free(l);
}

/*
 * A new process at the place of a silent peer proves the end of the old one, though it has no business with us.
 * PROTOCOL R49
 */
static void scan__another_answers(void **state)
{
	struct lan *l = lan_new_open(2);
	struct uccl_peer *old;

	(void)state;
	talk(l);
	old = lan_peer(l, 0, 1);
	lan_kill(l, 1);
	lan_open(l, 1);
	lan_recv_from(l, 0, old, dst, 10, LAN_CTX(1));
	assert_int_equal(lan_send_to(l, 0, old, src, 100, LAN_CTX(2)), 0);
	lan_pass(l, 5 * SECOND);
	lan_expect(l, 0, LAN_CTX(2), FI_ECONNRESET);
	lan_expect(l, 0, LAN_CTX(1), FI_ECONNRESET);
	assert_int_equal(lan_waiting(l, 1), 0);
	talk(l);
	lan_free(l);
}

static void scan__no_keepalive(void **state)
{
	struct lan *l = lan_new();
	uint64_t before;

	(void)state;
	for (int i = 0; i < 2; i++) {
		l->node[i].cfg.keepalive_ns = 0;
		lan_open(l, i);
	}
	talk(l);
	lan_recv(l, 0, dst, 10, LAN_CTX(1));
	lan_pass(l, SECOND);
	before = l->packets;
	lan_pass(l, 100 * SECOND);
	assert_int_equal(l->packets, before);
	lan_free(l);
}

/*
 * Peers that restart again and again. Who nobody knows is forgotten some time after its end; who is held stays, and so
 * does one whose message was not taken yet. PROTOCOL R133
 */
static void forget__restarts(void **state)
{
	struct lan *l = lan_new_open(2);
	struct uccl_engine *e = l->node[1].e;
	struct uccl_peer *held = NULL;

	(void)state;
	for (int k = 0; k < 60; k++) {
		if (k == 7)
			held = lan_peer(l, 1, 0);
		assert_int_equal(lan_send(l, 0, 1, src, 100, LAN_CTX(1)), 0);
		/* One of them is not received, and so the last one stays. */
		if (k != 50)
			lan_recv(l, 1, dst, 100, LAN_CTX(2));
		lan_pass(l, 10 * MS);
		lan_kill(l, 0);
		lan_open(l, 0);
		l->node[1].ncomp = l->node[1].seen = 0;
	}
	/* The end of the last is proven by another one in its place. */
	assert_int_equal(lan_send(l, 0, 1, src, 100, LAN_CTX(1)), 0);
	lan_pass(l, 20 * SECOND);
	assert_int_equal(e->nconns, 61);
	lan_pass(l, 100 * SECOND);
	assert_int_equal(e->nconns, 3);
	assert_ptr_equal(conn_find(e, &held->addr.nic, held->addr.incarnation), peer_conn(held));
	assert_int_not_equal(held->dead, 0);
	/* The message is there, and then its sender may go. */
	for (int i = 0; i < 2; i++) {
		lan_recv(l, 1, dst, 100, LAN_CTX(3));
		lan_expect(l, 1, LAN_CTX(3), 0);
	}
	lan_pass(l, 100 * SECOND);
	assert_int_equal(e->nconns, 2);
	lan_free(l);
}

/* Strangers by thousands, none of which anybody knows: what is remembered of them is bounded. PROTOCOL R133 */
static void forget__many(void **state)
{
	struct lan *l = lan_new_open(2);
	struct uccl_engine *e = l->node[1].e;
	struct uccl_addr addr = *uccl_engine_addr(l->node[0].e);

	(void)state;
	talk(l);
	for (int k = 0; k < 5000; k++) {
		addr.incarnation = 1000 + (uint64_t)k;
		conn_fail(conn_new(e, &addr), FI_ECONNABORTED, l->now);
		assert_true(e->nconns <= 1 + 1025);
	}
	/* The latest are known, and the living are not touched. */
	assert_non_null(conn_find(e, &addr.nic, addr.incarnation));
	assert_true(lan_conn(l, 1, 0)->peer.open);
	talk(l);
	lan_free(l);
}

static struct uccl_grant *grant_of(struct lan *l, int i)
{
	return &lan_conn(l, 1, i)->grant;
}

/* Node 1 never promises more than its queue holds, and no peer uses more than node 1 counts. PROTOCOL R20 R142 */
static void slots_check(struct lan *l)
{
	uint32_t sum = 0;

	for (int i = 0; i < LAN_NODES; i++)
		if (i != 1 && l->node[i].e && lan_conn(l, 1, i) && lan_conn(l, 1, i)->peer.open) {
			sum += grant_of(l, i)->told;
			if (lan_conn(l, i, 1)->peer.open)
				assert_true(lan_conn(l, i, 1)->peer.flow.slots <= grant_of(l, i)->told);
		}
	assert_true(sum <= uccl_max(l->node[1].e->nic->caps.rx_slots, 3));
}

/* `n` long messages from each of these nodes to node 1. */
static void slots_stream(struct lan *l, uint32_t nodes, int n)
{
	static uint8_t from[1 << 20], to[1 << 20];
	int left = 0;

	for (int k = 0; k < n; k++)
		for (int i = 0; i < LAN_NODES; i++)
			if (nodes & 1u << i) {
				lan_recv_from(l, 1, lan_peer(l, 1, i), to, sizeof(to), LAN_CTX(200 + i));
				assert_int_equal(lan_send(l, i, 1, from, sizeof(from), LAN_CTX(100 + i)), 0);
				left++;
			}
	for (uint64_t end = l->now + SECOND; left && l->now < end;) {
		if (!lan_round(l))
			l->now += 1000;
		slots_check(l);
		while (lan_next(l, 1))
			left--;
	}
	assert_int_equal(left, 0);
	for (int i = 0; i < LAN_NODES; i++)
		while (i != 1 && l->node[i].e && lan_next(l, i))
			;
}

/* Who sends has nearly all of the receive queue, who is connected and silent a token. PROTOCOL R140 */
static void slots__by_need(void **state)
{
	struct lan *l = lan_new_open(4);
	uint32_t alone;

	(void)state;
	talk(l);
	slots_stream(l, 1, 20);
	alone = grant_of(l, 0)->slots;
	assert_in_range(alone, 600, 750);
	lan_free(l);
	l = lan_new_open(4);
	for (int i = 0; i < 4; i++)
		if (i != 1)
			assert_int_equal(lan_send(l, i, 1, src, 10, LAN_CTX(1)), 0);
	lan_run(l, SECOND);
	slots_stream(l, 1, 20);
	assert_in_range(grant_of(l, 0)->slots, alone * 3 / 5, alone);
	assert_int_equal(lan_conn(l, 0, 1)->peer.flow.slots, grant_of(l, 0)->slots);
	assert_in_range(grant_of(l, 2)->told, 2, 62);
	/* All of them: alike, and without an end in between. */
	slots_stream(l, 1 | 4 | 8, 20);
	for (int i = 0; i < 4; i++)
		if (i != 1)
			assert_in_range(grant_of(l, i)->slots, 200, 250);
	/* The end of the others leaves the queue to the last one. */
	conn_fail(lan_conn(l, 1, 2), FI_ECONNABORTED, l->now);
	conn_fail(lan_conn(l, 1, 3), FI_ECONNABORTED, l->now);
	slots_stream(l, 1, 20);
	assert_in_range(grant_of(l, 0)->slots, 600, 750);
	lan_free(l);
}

/* A silent peer is asked to give back what another one needs, and until it has answered it keeps that. PROTOCOL R141 */
static void slots__given_back(void **state)
{
	struct lan *l = lan_new_open(4);
	uint32_t kept;

	(void)state;
	for (int i = 0; i < 4; i++)
		if (i != 1)
			assert_int_equal(lan_send(l, i, 1, src, 10, LAN_CTX(1)), 0);
	lan_run(l, SECOND);
	slots_stream(l, 1, 20);
	kept = grant_of(l, 0)->told;
	assert_true(kept > 400);
	lan_pass(l, SECOND);
	assert_int_equal(grant_of(l, 0)->told, kept);
	/* It computes: nothing can be taken from it. */
	l->node[0].asleep = true;
	slots_stream(l, 4, 40);
	assert_int_equal(grant_of(l, 0)->told, kept);
	assert_true(l->node[1].e->slots.asked > 0);
	assert_true(grant_of(l, 2)->told < 300);
	l->node[0].asleep = false;
	slots_stream(l, 4, 40);
	assert_true(grant_of(l, 0)->told < 100);
	assert_true(grant_of(l, 2)->told > 400);
	lan_free(l);
}

/* Other endpoints of the process take a part of the queue. PROTOCOL R20 */
static void slots__smaller_queue(void **state)
{
	struct lan *l = lan_new_open(3);

	(void)state;
	talk(l);
	slots_stream(l, 1, 20);
	assert_true(grant_of(l, 0)->told > 600);
	l->node[1].e->nic->caps.rx_slots = 250;
	assert_int_equal(lan_send(l, 2, 1, src, 10, LAN_CTX(1)), 0);
	lan_run(l, 100 * MS);
	for (int k = 0; k < 3; k++) {
		lan_recv_from(l, 1, lan_peer(l, 1, 0), dst, 100, LAN_CTX(1));
		assert_int_equal(lan_send(l, 0, 1, src, 100, LAN_CTX(2)), 0);
		lan_run(l, 100 * MS);
	}
	assert_true(grant_of(l, 0)->told + grant_of(l, 2)->told <= 250);
	/* One of its packets takes as much of the queue as one of who came later. */
	assert_int_equal(grant_of(l, 0)->cost, grant_of(l, 2)->cost);
	lan_free(l);
}

/* One for each, whatever there is: everything arrives. PROTOCOL R20 */
static void slots__more_peers_than_slots(void **state)
{
	static const uint32_t holds[] = {4, 2, 1};

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct lan *l = lan_new_open(3);

		l->node[1].e->nic->caps.rx_slots = holds[i];
		talk(l);
		slots_stream(l, 1 | 4, 2);
		assert_in_range(grant_of(l, 0)->told, 1, 2);
		assert_in_range(grant_of(l, 2)->told, 1, 2);
		lan_free(l);
	}
}

/* PROTOCOL R50 */
static void close_seen__ends_the_peer(void **state)
{
	struct lan *l = lan_new_open(2);

	(void)state;
	talk(l);
	lan_recv_from(l, 0, lan_peer(l, 0, 1), dst, 10, LAN_CTX(1));
	uccl_engine_drain(l->node[1].e, l->now);
	lan_run(l, 50 * MS);
	assert_true(uccl_engine_drained(l->node[1].e));
	lan_expect(l, 0, LAN_CTX(1), FI_ECONNABORTED);
	assert_int_equal(lan_stats(l, 0)->peers_closed, 1);
	assert_int_equal(lan_stats(l, 0)->peers_dead, 0);
	assert_true(uccl_peer_closed(lan_peer(l, 0, 1)));
	assert_int_equal(lan_send(l, 0, 1, src, 10, NULL), -FI_ECONNABORTED);
	lan_free(l);
}

static enum lan_verdict lose_write(struct lan *l, const struct lan_event *ev)
{
	return ev->rx.kind == UCCL_RX_WRITE && l->n++ == 3 ? LAN_DROP : LAN_PASS;
}

/* The NIC that writes: registration, fence, their end. PROTOCOL R24 R26 */
static void writes__through_the_engine(void **state)
{
	struct lan *l = lan_new();

	(void)state;
	l->writes = true;
	lan_open(l, 0);
	lan_open(l, 1);
	lan_fill(src, 200000, 1);
	lan_recv(l, 1, dst, 200000, LAN_CTX(1));
	assert_int_equal(lan_send(l, 0, 1, src, 200000, LAN_CTX(2)), 0);
	lan_run(l, SECOND);
	lan_expect(l, 0, LAN_CTX(2), 0);
	lan_expect(l, 1, LAN_CTX(1), 0);
	lan_check(dst, 200000, 1);
	assert_true(lan_stats(l, 0)->writes_tx > 10);
	assert_int_equal(lan_stats(l, 1)->writes_rx, lan_stats(l, 0)->writes_tx);
	l->filter = lose_write;
	lan_fill(src, 100000, 2);
	lan_recv(l, 1, dst, 100000, LAN_CTX(3));
	assert_int_equal(lan_send(l, 0, 1, src, 100000, LAN_CTX(4)), 0);
	lan_run(l, SECOND);
	lan_expect(l, 0, LAN_CTX(4), 0);
	lan_expect(l, 1, LAN_CTX(3), 0);
	lan_check(dst, 100000, 2);
	assert_int_equal(l->node[1].nic->nfences, 1);
	lan_free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(new__found_by_place_and_incarnation),
		cmocka_unit_test(connect__on_first_send),
		cmocka_unit_test(connect__both_at_once),
		cmocka_unit_test(connect__any_loss),
		cmocka_unit_test(connect__doubled),
		cmocka_unit_test(connect__keyless),
		cmocka_unit_test(connect__wrong_key),
		cmocka_unit_test(connect__key_learnt_later),
		cmocka_unit_test(connect__to_an_earlier_incarnation),
		cmocka_unit_test(connect__restart),
		cmocka_unit_test(connect__late_init),
		cmocka_unit_test(connect__nic_refuses),
		cmocka_unit_test(connect__timeout),
		cmocka_unit_test(connect__retries),
		cmocka_unit_test(rx__draining_takes_nobody),
		cmocka_unit_test(rx__hello_keeps_no_label),
		cmocka_unit_test(rx__handshake_checks),
		cmocka_unit_test(rx__forged_cookie),
		cmocka_unit_test(report__unreachable),
		cmocka_unit_test(report__not_enough),
		cmocka_unit_test(report__heard_since),
		cmocka_unit_test(report__of_others),
		cmocka_unit_test(report__quotes_nothing_of_ours),
		cmocka_unit_test(report__while_its_kernel_holds_it),
		cmocka_unit_test(report__never_there),
		cmocka_unit_test(report__gone),
		cmocka_unit_test(scan__silence_is_not_death),
		cmocka_unit_test(scan__peer_timeout),
		cmocka_unit_test(scan__idle_hours_do_not_count),
		cmocka_unit_test(scan__own_absence_does_not_count),
		cmocka_unit_test(scan__asked_before_it_fails),
		cmocka_unit_test(scan__keepalive),
		cmocka_unit_test(scan__managed),
		cmocka_unit_test(scan__another_answers),
		cmocka_unit_test(scan__no_keepalive),
		cmocka_unit_test(forget__restarts),
		cmocka_unit_test(forget__many),
		cmocka_unit_test(slots__by_need),
		cmocka_unit_test(slots__given_back),
		cmocka_unit_test(slots__smaller_queue),
		cmocka_unit_test(slots__more_peers_than_slots),
		cmocka_unit_test(close_seen__ends_the_peer),
		cmocka_unit_test(writes__through_the_engine),
	};

	return cmocka_run_group_tests_name("engine conn", tests, NULL, NULL);
}
