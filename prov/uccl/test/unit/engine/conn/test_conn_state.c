/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../lan.h"
#include "../../tests.h"

#define MS UCCL_NS_PER_MS
#define SECOND UCCL_NS_PER_S

static uint8_t src[1 << 18], dst[1 << 18];

LAN_TEST(new__found_by_place_and_incarnation, lan_new_open(2))
{
	struct uccl_addr addr = *uccl_engine_addr(l->node[1].e), other;
	struct uccl_engine *e = l->node[0].e;
	struct conn *c;

	assert_null(conn_find(e, &addr.nic, addr.incarnation));
	c = conn_new(e, &addr, true);
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
	conn_free(c, &e->conns.live);
	assert_null(conn_find(e, &addr.nic, addr.incarnation));
	assert_int_equal(e->conns.n, 0);
	/* Ourselves, by full address and by place. */
	addr = *uccl_engine_addr(e);
	assert_true(conn_new(e, &addr, true)->peer.self);
	addr.incarnation = 0;
	assert_true(conn_new(e, &addr, true)->peer.self);
	addr.incarnation = 5;
	assert_false(conn_new(e, &addr, true)->peer.self);
}

/*
 * Peers that restart again and again. Who nobody knows is forgotten some time after its end; who is held stays, and so
 * does one whose message was not taken yet. PROTOCOL R133
 */
LAN_TEST(forget__restarts, lan_new_open(2))
{
	struct uccl_engine *e = l->node[1].e;
	struct uccl_peer *held = NULL;

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
	assert_int_equal(e->conns.n, 61);
	lan_pass(l, 100 * SECOND);
	assert_int_equal(e->conns.n, 3);
	assert_ptr_equal(conn_find(e, &held->addr.nic, held->addr.incarnation), peer_conn(held));
	assert_int_not_equal(held->dead, 0);
	/* The message is there, and then its sender may go. */
	for (int i = 0; i < 2; i++) {
		lan_recv(l, 1, dst, 100, LAN_CTX(3));
		lan_expect(l, 1, LAN_CTX(3), 0);
	}
	lan_pass(l, 100 * SECOND);
	assert_int_equal(e->conns.n, 2);
}

/* Strangers by thousands, none of which anybody knows: what is remembered of them is bounded. PROTOCOL R133 */
LAN_TEST(forget__many, lan_new_open(2))
{
	struct uccl_engine *e = l->node[1].e;
	struct uccl_addr addr = *uccl_engine_addr(l->node[0].e);

	lan_talk(l);
	for (int k = 0; k < 5000; k++) {
		addr.incarnation = 1000 + (uint64_t)k;
		conn_fail(conn_new(e, &addr, true), FI_ECONNRESET, l->now);
		assert_true(e->conns.n <= 1 + 257);
	}
	/* The latest are known, and the living are not touched. */
	assert_non_null(conn_find(e, &addr.nic, addr.incarnation));
	assert_true(lan_conn(l, 1, 0)->peer.open);
	lan_talk(l);
}

/* The only peer, which nobody holds, ends because it was silent: it is forgotten, too. PROTOCOL R133 */
LAN_TEST(forget__the_last, lan_new_open(2))
{
	struct uccl_nic_addr at = uccl_engine_addr(l->node[0].e)->nic;
	struct uccl_engine *e = l->node[1].e;

	lan_talk(l);
	lan_kill(l, 0);
	lan_event(l, 1, UCCL_RX_GONE, &at);
	lan_pass(l, 5 * SECOND);
	assert_int_equal(e->conns.ndead, 1);
	lan_pass(l, 200 * SECOND);
	assert_int_equal(e->conns.n, 0);
	assert_true(uccl_engine_expiry(e) == UCCL_NEVER);
}

static enum lan_verdict no_answers(struct lan *l, const struct lan_event *ev)
{
	return ev->to == 0 && (ev->type != UCCL_PKT_COOKIE || l->n) ? LAN_DROP : LAN_PASS;
}

/*
 * An attempt that failed. If only HELLO left, no answer can be late: nothing of it stays. After INIT it is remembered
 * as long as a late INIT_ACK may come, which is answered by CLOSE, and refuses nothing. PROTOCOL R133 R311
 */
TEST(forget__attempt)
{
	for (int asked = 0; asked < 2; asked++)
		for (int held = 0; held < 2; held++) {
			struct lan *l = lan_new_open(2);
			struct uccl_engine *e = l->node[0].e;
			struct uccl_peer *p = lan_peer(l, 0, 1);

			l->filter = no_answers;
			l->n = !asked;
			assert_int_equal(lan_send_to(l, 0, p, src, 10, LAN_CTX(1)), 0);
			lan_pass(l, 100 * MS);
			if (!held)
				uccl_peer_release(p);
			conn_fail(peer_conn(p), FI_EHOSTUNREACH, l->now);
			lan_expect(l, 0, LAN_CTX(1), FI_EHOSTUNREACH);
			lan_pass(l, 10 * MS);
			assert_int_equal(e->conns.n, asked || held);
			if (held)
				uccl_peer_release(p);
			lan_pass(l, SECOND);
			assert_int_equal(e->conns.n, asked);
			/* What is remembered does not refuse. */
			l->filter = NULL;
			lan_talk(l);
			lan_pass(l, 40 * SECOND);
			assert_int_equal(e->conns.n, 1);
			assert_int_equal(e->conns.ndead, 0);
			lan_free(l);
		}
}

static enum lan_verdict lose_close(struct lan *l, const struct lan_event *ev)
{
	return ev->type == UCCL_PKT_CLOSE && l->n-- > 0 ? LAN_DROP : LAN_PASS;
}

/* Each side hears of the end that the other one decided, and why; with and without security. PROTOCOL R310 R311 */
TEST(fail__tells_the_peer)
{
	static const struct {
		int here, there;
		uint8_t security;
	} end[] = {
		{ FI_ENOMEM, FI_ENOMEM, UCCL_SECURITY_TRUSTED },
		{ FI_EFAULT, FI_EREMOTEIO, UCCL_SECURITY_TRUSTED },
		{ FI_ETIMEDOUT, FI_ECONNABORTED, UCCL_SECURITY_TRUSTED },
		{ FI_ENOMEM, FI_ENOMEM, UCCL_SECURITY_PACKETS },
	};

	for (size_t i = 0; i < uccl_array_len(end); i++) {
		struct lan *l = lan_new();

		l->node[0].cfg.security = l->node[1].cfg.security = end[i].security;
		lan_open(l, 0);
		lan_open(l, 1);
		lan_talk(l);
		lan_recv_from(l, 1, lan_peer(l, 1, 0), dst, 10, LAN_CTX(1));
		conn_fail(lan_conn(l, 0, 1), end[i].here, l->now);
		lan_run(l, 10 * MS);
		lan_expect(l, 1, LAN_CTX(1), end[i].there);
		/* That was no endpoint that closed. */
		assert_false(uccl_peer_closed(lan_peer(l, 1, 0)));
		assert_int_equal(lan_stats(l, 1)->peers_closed, 0);
		assert_int_equal(lan_stats(l, 1)->peers_dead, 1);
		/* It has answered: nothing is left to say. */
		assert_int_equal(lan_conn(l, 0, 1)->state.close_why, 0);
		lan_free(l);
	}
}

/* A CLOSE is lost: what the peer sends next brings another one, but not many. PROTOCOL R311 */
LAN_TEST(fail__told_again, lan_new_open(2))
{
	lan_talk(l);
	l->filter = lose_close;
	l->n = 3;
	conn_fail(lan_conn(l, 0, 1), FI_ENOMEM, l->now);
	lan_run(l, 10 * MS);
	assert_int_equal(lan_conn(l, 1, 0)->peer.dead, 0);
	assert_int_equal(lan_send(l, 1, 0, src, sizeof(src), LAN_CTX(1)), 0);
	lan_pass(l, SECOND);
	lan_expect(l, 1, LAN_CTX(1), FI_ENOMEM);
	assert_true(l->n < 0);
	/* One for each 5 ms. */
	assert_in_range(-l->n, 1, 2);
}

/* Who is known to be gone is told nothing, nor who said CLOSE itself. PROTOCOL R311 */
TEST(fail__tells_not)
{
	static const int err[] = { FI_ECONNRESET, FI_ENODEV };

	for (size_t i = 0; i < uccl_array_len(err); i++) {
		struct lan *l = lan_new_open(2);
		uint64_t packets;

		lan_talk(l);
		lan_run(l, 10 * MS);
		packets = l->packets;
		conn_fail(lan_conn(l, 0, 1), err[i], l->now);
		assert_int_equal(l->packets, packets);
		lan_free(l);
	}
}

/* Who was looked up and let go of, and never was connected, leaves nothing, however many. PROTOCOL R133 */
LAN_TEST(reap__never_connected, lan_new_open(2))
{
	struct uccl_engine *e = l->node[0].e;
	struct uccl_addr a = {.nic = uccl_engine_addr(e)->nic};
	struct uccl_peer *p[3];

	for (int i = 0; i < 3; i++) {
		a.nic.port = (uint16_t)(9 + i);
		p[i] = uccl_engine_peer(e, &a, true);
	}
	/* Something was begun with the second, and something is expected of the third. */
	assert_int_equal(lan_send_to(l, 0, p[1], src, 10, LAN_CTX(1)), 0);
	lan_recv_from(l, 0, p[2], dst, 10, LAN_CTX(2));
	for (int i = 0; i < 3; i++)
		uccl_peer_release(p[i]);
	lan_pass(l, 10 * MS);
	assert_int_equal(e->conns.n, 2);
	for (int i = 0; i < 1000; i++) {
		a.nic.port = (uint16_t)(100 + i);
		uccl_peer_release(uccl_engine_peer(e, &a, true));
		lan_pass(l, MS);
		assert_true(e->conns.n <= 3);
	}
	/* One that is held again, and one that is connected, stay. */
	a.nic.port = 5;
	p[0] = uccl_engine_peer(e, &a, true);
	uccl_peer_release(p[0]);
	assert_ptr_equal(uccl_engine_peer(e, &a, true), p[0]);
	lan_talk(l);
	uccl_peer_release(lan_peer(l, 0, 1));
	lan_pass(l, MS);
	assert_int_equal(e->conns.n, 4);
}

/* PROTOCOL R50 */
LAN_TEST(close_seen__ends_the_peer, lan_new_open(2))
{
	lan_talk(l);
	lan_recv_from(l, 0, lan_peer(l, 0, 1), dst, 10, LAN_CTX(1));
	uccl_engine_drain(l->node[1].e, l->now);
	lan_run(l, 50 * MS);
	assert_true(uccl_engine_drained(l->node[1].e));
	lan_expect(l, 0, LAN_CTX(1), FI_ECONNABORTED);
	assert_int_equal(lan_stats(l, 0)->peers_closed, 1);
	assert_int_equal(lan_stats(l, 0)->peers_dead, 0);
	assert_true(uccl_peer_closed(lan_peer(l, 0, 1)));
	assert_int_equal(lan_send(l, 0, 1, src, 10, NULL), -FI_ECONNABORTED);
}

TESTS_MAIN
