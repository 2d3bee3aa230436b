/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../lan.h"

#include <rdma/fi_errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "../../tests.h"

#define MS UCCL_NS_PER_MS
#define SECOND UCCL_NS_PER_S

static uint8_t src[1 << 18], dst[1 << 18];

LAN_TEST(connect__on_first_send, lan_new_open(2))
{
	lan_peer(l, 0, 1);
	lan_run(l, SECOND);
	assert_int_equal(l->packets, 0);
	lan_talk(l);
	assert_int_equal(lan_stats(l, 0)->connects, 1);
	assert_int_equal(lan_stats(l, 1)->connects, 1);
	/* The other side knows who it was, so it need not connect. */
	lan_recv(l, 0, dst, 100, LAN_CTX(2));
	assert_int_equal(lan_send(l, 1, 0, src, 100, LAN_CTX(3)), 0);
	lan_run(l, SECOND);
	lan_expect(l, 0, LAN_CTX(2), 0);
	assert_int_equal(lan_stats(l, 1)->connects, 1);
	assert_int_equal(l->node[1].e->conns.n, 1);
}

/* What ends a connection leaves by the rail that it began over. PROTOCOL R390 */
LAN_TEST(close__rail_that_works, lan_new_open(2))
{
	struct conn *c;

	lan_talk(l);
	c = TAILQ_FIRST(&l->node[0].e->conns.live);
	c->hs.rail = 1;
	l->node[0].nic->labels = 0;
	engine_tell(c, UCCL_PKT_CLOSE, UCCL_CLOSE_ENDPOINT);
	assert_int_equal(l->node[0].nic->labels, 1u << 1);
}

static enum lan_verdict second_rail_of_2(struct lan *l, const struct lan_event *ev)
{
	(void)l;
	((struct lan_event *)ev)->rx.rail = ev->from == 2;
	return LAN_PASS;
}

/*
 * Node 2 knows the key of node 1, says that it is at the place of node 0, and that its second rail is where it is. The
 * connection of node 0 stays; when that has ended, the place is free. PROTOCOL R379
 */
LAN_TEST(connect__second_rail_ends_nobody, lan_new_open(3))
{
	struct uccl_listener *made_up = &l->node[2].e->identity.listener;
	struct conn *c;

	lan_talk(l);
	c = TAILQ_FIRST(&l->node[1].e->conns.live);
	made_up->local.nic.port = l->node[2].nic->addr.port = l->node[0].nic->addr.port;
	uccl_nic_addr_tell(&l->node[0].nic->addr, &l->node[2].nic->addr);
	made_up->local.nic = l->node[0].nic->addr;
	l->node[1].e->identity.listener.rails = 2;
	l->filter = second_rail_of_2;
	assert_int_equal(lan_send(l, 2, 1, src, 100, LAN_CTX(1)), 0);
	lan_run(l, SECOND);
	assert_int_equal(l->node[1].e->table.nhalf, 0);
	assert_int_equal(c->hs.state, UCCL_CONN_OPEN);
	assert_false(c->peer.dead);
	conn_fail(c, FI_ECONNRESET, l->now);
	lan_run(l, SECOND);
	assert_int_equal(l->node[1].e->table.nhalf, 1);
	/* It counts for the address that it was heard at. */
	assert_memory_equal(TAILQ_FIRST(&l->node[1].e->table.half)->entry.source->ip, l->node[2].nic->addr.ip, 16);
}

/*
 * Behind a NAT node 0 is seen, and reached, at another address than it says. Node 1 knows it by what it says, and wants
 * to send before it has come; whoever asks for it by where it is finds the same. PROTOCOL R373
 */
TEST(connect__translated)
{
	for (int keyless = 0; keyless < 2; keyless++) {
		struct lan *l = lan_new();
		struct uccl_peer *p, *q;
		struct uccl_addr seen;

		l->nat = l->two_way = true;
		for (int i = 0; i < 2; i++) {
			l->node[i].cfg.keyless = keyless;
			lan_open(l, i);
		}
		lan_recv(l, 0, dst, 100, LAN_CTX(1));
		lan_recv(l, 1, dst + 100, 100, LAN_CTX(2));
		if (!keyless)
			assert_int_equal(lan_send(l, 1, 0, src, 100, LAN_CTX(3)), 0);
		lan_run(l, SECOND);
		assert_int_equal(lan_waiting(l, 1), 0);
		p = keyless ? lan_peer_keyless(l, 0, 1) : lan_peer(l, 0, 1);
		assert_int_equal(lan_send_to(l, 0, p, src, 100, LAN_CTX(4)), 0);
		lan_run(l, SECOND);
		q = lan_peer(l, 1, 0);
		assert_int_equal(uccl_peer_addr(q)->nic.port, keyless ? 4000 : 20000);
		seen = *uccl_peer_addr(q);
		if (keyless) {
			/* It cannot prove that it is who it says: it is who is there, and no more. */
			seen.nic = *(&l->node[1].e->conns.live.tqh_first->peer.addr.nic);
			assert_int_equal(seen.nic.port, 20000);
			memset(seen.key, 0, sizeof(seen.key));
			seen.incarnation = 0;
			assert_int_equal(lan_send_to(l, 1, uccl_engine_peer(l->node[1].e, &seen, true), src, 100,
						     LAN_CTX(3)), 0);
			lan_run(l, SECOND);
		} else {
			assert_ptr_equal(uccl_engine_peer(l->node[1].e, &seen, true), q);
			assert_int_equal(l->node[1].e->conns.n, 1);
		}
		for (int i = 0; i < 2; i++) {
			assert_int_equal(lan_waiting(l, i), 2);
			assert_int_equal(lan_next(l, i)->err, 0);
			assert_int_equal(lan_next(l, i)->err, 0);
		}
		lan_free(l);
	}
}

/* PROTOCOL R8 */
TEST(connect__both_at_once)
{
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
			assert_int_equal(l->node[i].e->conns.n, 1);
			assert_int_equal(l->node[i].e->conns.nopen, 1);
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
TEST(connect__any_loss)
{
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
			assert_int_equal(l->node[i].e->conns.n, 1);
		}
		lan_free(l);
	}
}

static enum lan_verdict double_all(struct lan *l, const struct lan_event *ev)
{
	return LAN_DOUBLE;
}

/* Everything comes twice: nothing happens twice. PROTOCOL R9 */
LAN_TEST(connect__doubled, lan_new_open(2))
{
	l->filter = double_all;
	lan_talk(l);
	lan_run(l, SECOND);
	assert_int_equal(lan_stats(l, 0)->connects, 1);
	assert_int_equal(lan_stats(l, 1)->connects, 1);
	assert_int_equal(lan_waiting(l, 0) + lan_waiting(l, 1), 0);
}

/* PROTOCOL R7 */
TEST(connect__keyless)
{
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
		assert_int_equal(lan_dropped(l, 1, UCCL_DROP_KEYLESS) > 0, !allowed);
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
LAN_TEST(connect__wrong_key, lan_new_open(2))
{
	struct uccl_addr addr = *uccl_engine_addr(l->node[1].e);

	addr.key[3] ^= 0x10;
	assert_int_equal(lan_send_to(l, 0, uccl_engine_peer(l->node[0].e, &addr, true), src, 10, LAN_CTX(1)), 0);
	lan_run(l, SECOND);
	assert_int_equal(lan_waiting(l, 0), 0);
	assert_true(lan_dropped(l, 1, UCCL_DROP_MAC) > 0);
	assert_int_equal(l->node[1].e->conns.n, 0);
}

/* The address was wrong, then the right one is given: the same peer gets its key. */
LAN_TEST(connect__key_learnt_later, lan_new_open(2))
{
	struct uccl_addr addr = *uccl_engine_addr(l->node[1].e);

	lan_recv(l, 1, dst, 10, LAN_CTX(2));
	addr.key[0] ^= 1;
	assert_int_equal(lan_send_to(l, 0, uccl_engine_peer(l->node[0].e, &addr, true), src, 10, LAN_CTX(1)), 0);
	lan_run(l, 100 * MS);
	assert_int_equal(lan_waiting(l, 1), 0);
	lan_peer(l, 0, 1);
	lan_run(l, 3 * SECOND);
	lan_expect(l, 0, LAN_CTX(1), 0);
	lan_expect(l, 1, LAN_CTX(2), 0);
}

/* The place answers, but somebody else lives there now. PROTOCOL R10 */
LAN_TEST(connect__to_an_earlier_incarnation, lan_new_open(2))
{
	struct uccl_addr old = *uccl_engine_addr(l->node[1].e);

	lan_kill(l, 1);
	lan_open(l, 1);
	assert_int_equal(lan_send_to(l, 0, uccl_engine_peer(l->node[0].e, &old, true), src, 10, LAN_CTX(1)), 0);
	assert_int_equal(lan_send_to(l, 0, uccl_engine_peer(l->node[0].e, &old, true), src, 50000, LAN_CTX(2)), 0);
	lan_run(l, SECOND);
	lan_expect(l, 0, LAN_CTX(1), FI_ECONNRESET);
	lan_expect(l, 0, LAN_CTX(2), FI_ECONNRESET);
	assert_int_equal(lan_dropped(l, 0, UCCL_DROP_STALE), 1);
	assert_int_equal(lan_stats(l, 0)->peers_dead, 1);
	/* From now on at once. */
	assert_int_equal(lan_send_to(l, 0, uccl_engine_peer(l->node[0].e, &old, true), src, 10, NULL), -FI_ECONNRESET);
	/* The new one is another peer. */
	lan_talk(l);
}

/* An open peer restarts at its address and connects: the old one is dead, the new one lives. PROTOCOL R10 */
LAN_TEST(connect__restart, lan_new_open(2))
{
	struct uccl_peer *old;

	lan_talk(l);
	old = lan_peer(l, 0, 1);
	lan_recv_from(l, 0, old, dst, 10, LAN_CTX(1));
	lan_recv(l, 0, dst + 100, 10, LAN_CTX(2));
	lan_kill(l, 1);
	lan_open(l, 1);
	assert_int_equal(lan_send_to(l, 0, old, src, 100, LAN_CTX(3)), 0);
	lan_run(l, 100 * MS);
	/* Nothing proves anything yet. */
	assert_int_equal(lan_waiting(l, 0), 0);
	assert_true(lan_dropped(l, 1, UCCL_DROP_TOKEN) > 0);
	assert_int_equal(lan_send(l, 1, 0, src, 10, LAN_CTX(4)), 0);
	lan_run(l, SECOND);
	lan_expect(l, 0, LAN_CTX(3), FI_ECONNRESET);
	lan_expect(l, 0, LAN_CTX(1), FI_ECONNRESET);
	lan_expect(l, 0, LAN_CTX(2), 0);
	lan_expect(l, 1, LAN_CTX(4), 0);
	assert_ptr_not_equal(lan_peer(l, 0, 1), old);
	assert_int_equal(old->dead, FI_ECONNRESET);
	lan_talk(l);
}

static enum lan_verdict hold_init(struct lan *l, const struct lan_event *ev)
{
	return ev->type == UCCL_PKT_INIT || ev->type == UCCL_PKT_INIT_ACK ? LAN_HOLD : LAN_PASS;
}

/* A late INIT of an incarnation that is dead by now wakes nobody. PROTOCOL R10 */
LAN_TEST(connect__late_init, lan_new_open(2))
{
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
	assert_int_equal(l->node[0].e->conns.nopen, 0);
	assert_true(lan_dropped(l, 0, UCCL_DROP_STALE) + lan_dropped(l, 0, UCCL_DROP_STATE) > 0);
}

static enum lan_verdict no_answers(struct lan *l, const struct lan_event *ev)
{
	return ev->to == 0 && ev->type != UCCL_PKT_COOKIE ? LAN_DROP : LAN_PASS;
}

/* Its attempt to reach us ended, and left something here or not: when it asks anew it is answered. PROTOCOL R296 */
TEST(connect__gave_up_and_comes_again)
{
	for (int named = 0; named < 2; named++)
		for (int asked = 0; asked < 2; asked++) {
			struct lan *l = lan_new_keyless(2);
			struct uccl_addr to = *uccl_engine_addr(l->node[1].e);
			struct uccl_peer *p;

			if (!named)
				to = (struct uccl_addr){.nic = to.nic};
			p = uccl_engine_peer(l->node[0].e, &to, true);
			lan_recv(l, 1, dst, 10, LAN_CTX(1));
			/* Node 1 knows it, and wants something of it, too. */
			l->filter = no_answers;
			if (asked)
				assert_int_equal(lan_send(l, 1, 0, src, 10, LAN_CTX(2)), 0);
			assert_int_equal(lan_send_to(l, 0, p, src, 10, LAN_CTX(3)), 0);
			lan_pass(l, 100 * MS);
			assert_int_equal(l->node[1].e->conns.n, 1);
			conn_fail(peer_conn(p), FI_EHOSTUNREACH, l->now);
			lan_expect(l, 0, LAN_CTX(3), FI_EHOSTUNREACH);
			l->filter = NULL;
			p = uccl_peer_reconnect(p, &to);
			lan_recv(l, 0, dst + 20, 10, LAN_CTX(4));
			assert_int_equal(lan_send_to(l, 0, p, src, 10, LAN_CTX(5)), 0);
			lan_pass(l, SECOND);
			/* What node 1 had sent was for the connection that ended there. */
			if (asked)
				assert_int_not_equal(lan_next(l, 1)->err, 0);
			lan_expect(l, 1, LAN_CTX(1), 0);
			lan_expect(l, 0, LAN_CTX(5), 0);
			assert_int_equal(l->node[1].e->conns.nopen, 1);
			assert_int_equal(lan_send(l, 1, 0, src, 10, LAN_CTX(6)), 0);
			lan_pass(l, SECOND);
			lan_expect(l, 0, LAN_CTX(4), 0);
			lan_expect(l, 1, LAN_CTX(6), 0);
			lan_free(l);
		}
}

/* Our answer comes when it has given up: it says so, and nobody waits. PROTOCOL R311 */
LAN_TEST(connect__answer_came_too_late, lan_new_open(2))
{
	struct uccl_peer *p = lan_peer(l, 0, 1);

	l->filter = no_answers;
	assert_int_equal(lan_send(l, 1, 0, src, 10, LAN_CTX(2)), 0);
	assert_int_equal(lan_send_to(l, 0, p, src, 10, LAN_CTX(1)), 0);
	lan_pass(l, 100 * MS);
	assert_int_equal(l->node[1].e->conns.nopen, 1);
	conn_fail(peer_conn(p), FI_EHOSTUNREACH, l->now);
	lan_expect(l, 0, LAN_CTX(1), FI_EHOSTUNREACH);
	l->filter = NULL;
	lan_pass(l, 2 * SECOND);
	lan_expect(l, 1, LAN_CTX(2), FI_ECONNABORTED);
	/* It never was proven to be there, so that is no end for good. */
	assert_ptr_not_equal(lan_peer(l, 1, 0), NULL);
	assert_int_equal(uccl_peer_ended(lan_peer(l, 1, 0)), 0);
}

/* A recorded or forged handshake ends nobody: only who has our answer does. PROTOCOL R10 */
LAN_TEST(connect__forged, lan_new_open(2))
{
	struct uccl_addr other;
	struct conn *forged;

	for (int same = 0; same < 2; same++) {
		struct uccl_peer *p;

		lan_talk(l);
		p = lan_peer(l, 1, 0);
		l->now += SECOND;
		other = *uccl_engine_addr(l->node[0].e);
		if (!same)
			other.incarnation ^= 0x10;
		forged = lan_attacker(l, 1, &other, false);
		assert_non_null(forged);
		assert_int_equal(peer_conn(p)->handshake.unvalidated, 0);
		assert_int_equal(l->node[1].e->conns.n, 2 + same);
		lan_talk(l);
		assert_int_equal(uccl_peer_ended(p), 0);
		assert_ptr_equal(lan_peer(l, 1, 0), p);
		lan_pass(l, SECOND);
		assert_int_equal(uccl_peer_ended(p), 0);
	}
}

/* By its place alone it is reached whoever is there when it opens: not who was there at the first question. */
TEST(connect__restart_between_steps)
{
	struct lan *l = lan_new_keyless(2);
	struct uccl_peer *p = lan_peer_keyless(l, 0, 1);

	assert_int_equal(lan_send_to(l, 0, p, src, 10, LAN_CTX(1)), 0);
	l->filter = hold_init;
	lan_pass(l, 3 * MS);
	assert_int_equal(peer_conn(p)->hs.state, UCCL_CONN_INIT);
	lan_kill(l, 1);
	l->filter = NULL;
	lan_open(l, 1);
	lan_recv(l, 1, dst, 10, LAN_CTX(2));
	lan_pass(l, 2 * SECOND);
	lan_expect(l, 0, LAN_CTX(1), 0);
	lan_expect(l, 1, LAN_CTX(2), 0);
	assert_int_equal(l->node[0].e->conns.n, 1);
	lan_free(l);
}

/* The NIC refuses the peer: its operations end, once. */
LAN_TEST(connect__nic_refuses, lan_new_open(2))
{
	l->node[0].nic->connect_error = -FI_ENOMEM;
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	lan_run(l, SECOND);
	lan_expect(l, 0, LAN_CTX(1), FI_ENOMEM);
	assert_int_equal(lan_stats(l, 0)->connect_fails, 1);
	assert_int_equal(lan_dropped(l, 0, UCCL_DROP_MEMORY), 1);
	assert_int_equal(l->node[0].e->conns.nopen, 0);
}

/* Nobody is made to wait for ever. PROTOCOL R47 */
LAN_TEST(connect__timeout, lan_new())
{
	struct uccl_addr nobody;

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
}

/* Retries grow rarer, and never stop. PROTOCOL R9 */
LAN_TEST(connect__retries, lan_new_open(1))
{
	struct uccl_addr nobody = *uccl_engine_addr(l->node[0].e);
	uint64_t txs;

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
}

/* Who asks a thousand peers at once repeats less often. When they are given up, a later one is asked as ever. R416 */
static enum lan_verdict drop_cookies(struct lan *l, const struct lan_event *ev)
{
	return ev->type == UCCL_PKT_COOKIE && l->n-- > 0 ? LAN_DROP : LAN_PASS;
}

/* How long answers took on the average; one that came late, as its peer was not there, says nothing of that. */
LAN_TEST(connect__mean_of_answers, lan_new_open(4))
{
	const uint64_t *mean = &l->node[0].e->conns.cookie_ns;
	uint64_t before;

	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	lan_pass(l, 100 * MS);
	before = *mean;
	assert_in_range(before, 2 * LAN_DELAY_NS / 8, LAN_DELAY_NS);
	l->filter = drop_cookies;
	l->n = 8;
	assert_int_equal(lan_send(l, 0, 2, src, 10, LAN_CTX(1)), 0);
	lan_pass(l, SECOND);
	assert_int_equal(*mean, before);
	l->n = 3;
	assert_int_equal(lan_send(l, 0, 3, src, 10, LAN_CTX(1)), 0);
	lan_pass(l, SECOND);
	assert_in_range(*mean, before + 2 * MS, before + 5 * MS);
}

LAN_TEST(connect__paced_by_number, lan_new_open(1))
{
	struct uccl_addr nobody = *uccl_engine_addr(l->node[0].e);
	uint64_t txs;

	for (int i = 0; i < 1000; i++) {
		nobody.nic.port = (uint16_t)(1000 + i);
		nobody.incarnation = 5;
		assert_int_equal(lan_send_to(l, 0, uccl_engine_peer(l->node[0].e, &nobody, true), src, 10, LAN_CTX(1)),
				 0);
	}
	assert_int_equal(l->node[0].e->conns.nasking, 1000);
	lan_pass(l, SECOND);
	assert_in_range(l->node[0].nic->txs, 7000, 10000);
	while (!TAILQ_EMPTY(&l->node[0].e->conns.live))
		conn_fail(TAILQ_FIRST(&l->node[0].e->conns.live), FI_EHOSTUNREACH, l->now);
	assert_int_equal(l->node[0].e->conns.nasking, 0);
	while (lan_next(l, 0))
		;
	txs = l->node[0].nic->txs;
	nobody.nic.port = 9;
	assert_int_equal(lan_send_to(l, 0, uccl_engine_peer(l->node[0].e, &nobody, true), src, 10, LAN_CTX(1)), 0);
	lan_pass(l, SECOND);
	assert_in_range(l->node[0].nic->txs - txs, 14, 20);
}

LAN_TEST(rx__draining_takes_nobody, lan_new_open(2))
{
	uccl_engine_drain(l->node[1].e, l->now);
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	lan_run(l, 100 * MS);
	assert_true(lan_dropped(l, 1, UCCL_DROP_STATE) > 0);
	assert_int_equal(l->node[1].e->conns.n, 0);
}

static void packet(uint8_t *out, uint8_t type, uint64_t token, const uint8_t *rec)
{
	struct uccl_hdr h = {.type = type, .token = token, .rec = rec};

	uccl_hdr_encode(out, &h);
}

/* A label may cost a socket: who asks must not choose that of the answer. PROTOCOL R5 */
LAN_TEST(rx__hello_keeps_no_label, lan_new_open(2))
{
	uint8_t p[UCCL_HDR_LEN], rec[UCCL_REC_LEN] = {0};
	struct uccl_hdr h = {.type = UCCL_PKT_HELLO, .token = 1, .rec = rec};
	uint16_t labels = l->node[0].nic->nic.caps.labels;

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
}

/* Handshake packets out of the blue: each refused by its reason. PROTOCOL R3 R5 R6 */
TEST(rx__handshake_checks)
{
	struct lan *l = lan_new_open(3);
	uint8_t p[UCCL_HDR_LEN + UCCL_INIT_PAYLOAD] = {0}, rec[UCCL_REC_LEN] = {0};
	struct uccl_hdr h = {.rec = rec};
	struct conn *c = lan_conn(l, 0, 1);

	/* HELLO with nothing in it; with payload. */
	packet(p, UCCL_PKT_HELLO, 1, rec);
	lan_inject(l, 0, 1, p, UCCL_HDR_LEN);
	lan_round(l);
	assert_int_equal(lan_dropped(l, 0, UCCL_DROP_RECORD), 1);
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
	assert_int_equal(lan_dropped(l, 0, UCCL_DROP_LENGTH), 2);
	assert_int_equal(lan_dropped(l, 0, UCCL_DROP_RECORD), 2);
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
	assert_int_equal(lan_dropped(l, 0, UCCL_DROP_COOKIE), 1);
	/* The same from another machine. */
	lan_inject(l, 0, 2, p, sizeof(p));
	lan_round(l);
	assert_int_equal(lan_dropped(l, 0, UCCL_DROP_SOURCE), 1);
	/* COOKIE and INIT_ACK: no such token; another source; not expected now; dead. */
	for (uint8_t t = UCCL_PKT_COOKIE; t <= UCCL_PKT_INIT_ACK; t += 2) {
		uint64_t tokens = lan_dropped(l, 0, UCCL_DROP_TOKEN), sources = lan_dropped(l, 0, UCCL_DROP_SOURCE);
		uint64_t states = lan_dropped(l, 0, UCCL_DROP_STATE) + lan_dropped(l, 0, UCCL_DROP_LENGTH);

		packet(p, t, c->hs.token_local + 1, rec);
		lan_inject(l, 0, 1, p, UCCL_HDR_LEN);
		packet(p, t, c->hs.token_local, rec);
		lan_inject(l, 0, 2, p, UCCL_HDR_LEN);
		lan_inject(l, 0, 1, p, UCCL_HDR_LEN);
		lan_round(l);
		assert_int_equal(lan_dropped(l, 0, UCCL_DROP_TOKEN), tokens + 1);
		assert_int_equal(lan_dropped(l, 0, UCCL_DROP_SOURCE), sources + 1);
		assert_int_equal(lan_dropped(l, 0, UCCL_DROP_STATE) + lan_dropped(l, 0, UCCL_DROP_LENGTH), states + 1);
	}
	conn_fail(c, FI_ECONNABORTED, l->now);
	packet(p, UCCL_PKT_COOKIE, c->hs.token_local, rec);
	lan_inject(l, 0, 1, p, UCCL_HDR_LEN);
	lan_round(l);
	assert_int_equal(l->node[0].e->conns.n, 1);
	assert_int_equal(c->hs.state, UCCL_CONN_DEAD);
	lan_free(l);
}

/* A COOKIE nobody asked for. PROTOCOL R5 */
LAN_TEST(rx__forged_cookie, lan_new_open(2))
{
	uint8_t p[UCCL_HDR_LEN], rec[UCCL_REC_LEN] = {0};
	struct conn *c = lan_conn(l, 0, 1);

	l->node[1].asleep = true;
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	uccl_put64(rec, c->hs.nonce + 1);
	uccl_put64(rec + 8, 12345);
	packet(p, UCCL_PKT_COOKIE, c->hs.token_local, rec);
	lan_inject(l, 0, 1, p, sizeof(p));
	lan_round(l);
	assert_int_equal(lan_dropped(l, 0, UCCL_DROP_COOKIE), 1);
	assert_int_equal(lan_waiting(l, 0), 0);
	l->node[1].asleep = false;
	lan_run(l, SECOND);
	lan_expect(l, 0, LAN_CTX(1), 0);
}

/* Node 1 as one of the former version: it understands only that, and says nothing else. Handshakes have one format. */
static enum lan_verdict former_at_1(struct lan *l, const struct lan_event *ev)
{
	uint8_t *p = (uint8_t *)(uintptr_t)ev->rx.data;

	if (ev->rx.kind != UCCL_RX_PACKET)
		return LAN_PASS;
	l->n += ev->from == 1;
	if (ev->to != 1) {
		p[2] = UCCL_VERSION_FORMER;
		p[5] = 0;
		return LAN_PASS;
	}
	if (p[2] != UCCL_VERSION_FORMER)
		return LAN_DROP;
	p[2] = UCCL_VERSION;
	return LAN_PASS;
}

/* Whichever side connects: both ends hear of it soon, and ours says why. PROTOCOL R333 R334 */
TEST(former__is_told)
{
	for (int from = 0; from < 2; from++) {
		struct lan *l = lan_new_open(2);

		l->filter = former_at_1;
		assert_int_equal(lan_send(l, from, !from, src, 10, LAN_CTX(1)), 0);
		lan_run(l, SECOND);
		lan_expect(l, from, LAN_CTX(1), from ? FI_ENOMEM : FI_ENOPROTOOPT);
		assert_true(lan_dropped(l, 0, UCCL_DROP_VERSION) >= 1);
		/* Nothing is kept of who asked. */
		assert_int_equal(l->node[0].e->conns.nopen, 0);
		if (from)
			assert_int_equal(l->node[0].e->conns.n, 0);
		assert_true(l->n > 0);
		lan_free(l);
	}
}

/* Node 1 speaks version 9: it takes our packets for those of version 7, and we take its packets for what they are. */
static enum lan_verdict newer_at_1(struct lan *l, const struct lan_event *ev)
{
	uint8_t *p = (uint8_t *)(uintptr_t)ev->rx.data, is = ev->from == 1 ? 9 : 7;

	if (ev->rx.kind != UCCL_RX_PACKET)
		return LAN_PASS;
	if (p[2] == UCCL_VERSION)
		p[2] = is;
	else if (p[2] == UCCL_VERSION_FORMER && p[5] == UCCL_VERSION)
		p[5] = is;
	/* l->n: the first so many packets are lost. */
	return l->n-- > 0 ? LAN_DROP : LAN_PASS;
}

static char versions[4][400];
static int nversions;

static void note_version(int level, const char *func, int line, const char *text)
{
	if (strstr(text, "speaks version") && nversions < 4)
		snprintf(versions[nversions++], sizeof(versions[0]), "%d %s", level, text);
}

/* Whichever side connects, and whichever HELLO comes first: both sides name the other's version. PROTOCOL R335 */
TEST(other_version__is_named)
{
	for (int from = 0; from < 2; from++)
		for (int lost = 0; lost < 5; lost++) {
			struct lan *l = lan_new_open(2);

			nversions = 0;
			uccl_log_set(note_version, UCCL_LOG_WARN);
			l->filter = newer_at_1;
			l->n = lost;
			assert_int_equal(lan_send(l, from, !from, src, 10, LAN_CTX(1)), 0);
			lan_pass(l, 5 * SECOND);
			uccl_log_set(NULL, 0);
			lan_expect(l, from, LAN_CTX(1), FI_ENOPROTOOPT);
			assert_int_equal(nversions, 2);
			assert_non_null(strstr(versions[!from], "speaks version 9 "));
			assert_non_null(strstr(versions[from], "speaks version 7 "));
			assert_int_equal(versions[0][0], '0' + UCCL_LOG_WARN);
			assert_int_equal(l->node[0].e->conns.nopen + l->node[1].e->conns.nopen, 0);
			assert_int_equal(l->node[!from].e->conns.n, 0);
			lan_free(l);
		}
}

static enum lan_verdict ours_lost(struct lan *l, const struct lan_event *ev)
{
	return ev->type == UCCL_PKT_HELLO && ev->rx.data[2] == UCCL_VERSION ? LAN_DROP : LAN_PASS;
}

/* What asks for the former version never makes two of ours believe that they are. PROTOCOL R334 */
LAN_TEST(former__not_among_ours, lan_new_open(2))
{
	l->filter = ours_lost;
	lan_talk(l);
	lan_run(l, SECOND);
	assert_int_equal(lan_stats(l, 0)->connects, 1);
	assert_int_equal(lan_waiting(l, 0) + lan_waiting(l, 1), 0);
}

static enum lan_verdict count_segments(struct lan *l, const struct lan_event *ev)
{
	if (ev->rx.kind == UCCL_RX_PACKET && ev->type == UCCL_PKT_SEGMENT)
		l->mask |= 1u << ev->to;
	return LAN_PASS;
}

/* The first message, from 1 to 0, makes the connection: posted, and there. */
static void first_begin(struct lan *l)
{
	lan_recv(l, 0, dst, 100, LAN_CTX(1));
	assert_int_equal(lan_send(l, 1, 0, src, 100, LAN_CTX(2)), 0);
}

static void first_end(struct lan *l)
{
	lan_run(l, SECOND);
	lan_expect(l, 0, LAN_CTX(1), 0);
	lan_expect(l, 1, LAN_CTX(2), 0);
}

/* Who says that it takes no segments, as those do that say nothing, gets none. PROTOCOL R170 */
TEST(segments__an_older_peer)
{
	for (unsigned int older = 0; older < 2; older++) {
		struct lan *l = lan_new();

		for (int i = 0; i < 2; i++) {
			l->node[i].cfg.chunk_bytes = 1024;
			l->node[i].train_bytes = 32 * LAN_MTU;
			lan_open(l, i);
		}
		lan_recv(l, 0, dst, sizeof(dst), LAN_CTX(1));
		assert_int_equal(lan_send(l, 1, 0, src, sizeof(src), LAN_CTX(2)), 0);
		if (older)
			lan_conn(l, 1, 0)->hs.mine.segments = 0;
		l->mask = 0;
		l->filter = count_segments;
		first_end(l);
		lan_recv(l, 1, dst, sizeof(dst), LAN_CTX(3));
		assert_int_equal(lan_send(l, 0, 1, src, sizeof(src), LAN_CTX(4)), 0);
		lan_run(l, SECOND);
		lan_expect(l, 0, LAN_CTX(4), 0);
		lan_expect(l, 1, LAN_CTX(3), 0);
		assert_int_equal(l->mask, older ? 1 : 3);
		lan_free(l);
	}
}

/* Who does not say that it takes padded packets gets none, and nobody without trains has any. PROTOCOL R259 */
TEST(pads__an_older_peer)
{
	for (unsigned int n = 0; n < 4; n++) {
		bool older = n & 1, trains = n & 2;
		struct lan *l = lan_new();

		for (int i = 0; i < 2; i++) {
			l->node[i].cfg.chunk_bytes = 1024;
			l->node[i].train_bytes = trains ? 32 * LAN_MTU : 0;
			lan_open(l, i);
		}
		first_begin(l);
		if (older)
			lan_conn(l, 1, 0)->hs.mine.pads = false;
		first_end(l);
		assert_int_equal(lan_conn(l, 0, 1)->peer.flow.cfg.train.pads_tx, trains && !older);
		assert_int_equal(lan_conn(l, 1, 0)->peer.flow.cfg.train.pads_tx, trains);
		lan_free(l);
	}
}

/* It is the receiver of writes whose paths end. PROTOCOL R255 */
TEST(brittle__who_says_so)
{
	for (int mine = 0; mine < 2; mine++) {
		struct lan *l = lan_new();

		l->writes = true;
		l->brittle = mine;
		lan_open(l, 0);
		l->brittle = !mine;
		lan_open(l, 1);
		first_begin(l);
		first_end(l);
		assert_int_equal(lan_conn(l, 1, 0)->peer.flow.cfg.write.brittle, mine);
		assert_int_equal(lan_conn(l, 0, 1)->peer.flow.cfg.write.brittle, !mine);
		lan_free(l);
	}
}

/* Who does not say that it takes heads of messages gets none, and is told nothing of them. PROTOCOL R263 R264 R265 */
TEST(unsolicited_peer__an_older_peer)
{
	for (int older = 0; older < 4; older++) {
		struct lan *l = lan_new();

		for (int i = 0; i < 2; i++)
			lan_open(l, i);
		first_begin(l);
		lan_conn(l, 1, 0)->hs.mine.unsolicited = !(older & 1);
		lan_conn(l, 1, 0)->hs.mine.lane.lanes_unsolicited = !(older & 2);
		first_end(l);
		assert_int_equal(lan_conn(l, 0, 1)->peer.takes_unsolicited, !(older & 1));
		assert_int_equal(lan_conn(l, 0, 1)->peer.lanes_unsolicited, !older);
		assert_true(lan_conn(l, 1, 0)->peer.takes_unsolicited && lan_conn(l, 1, 0)->peer.lanes_unsolicited);
		lan_free(l);
	}
}

/* Who does not say that it knows ABORT is not asked. PROTOCOL R360 */
TEST(abort__an_older_peer)
{
	for (int older = 0; older < 2; older++) {
		struct lan *l = lan_new();

		for (int i = 0; i < 2; i++)
			lan_open(l, i);
		first_begin(l);
		lan_conn(l, 1, 0)->hs.mine.aborts = !older;
		first_end(l);
		assert_int_equal(lan_conn(l, 0, 1)->peer.aborts, !older);
		assert_true(lan_conn(l, 1, 0)->peer.aborts);
		lan_free(l);
	}
}

/* Who does not say that it keeps the order of short writes that wait is not asked to. PROTOCOL R407 */
TEST(orders_short__an_older_peer)
{
	for (int older = 0; older < 2; older++) {
		struct lan *l = lan_new();

		for (int i = 0; i < 2; i++)
			lan_open(l, i);
		first_begin(l);
		lan_conn(l, 1, 0)->hs.mine.lane.orders_short = !older;
		first_end(l);
		assert_int_equal(lan_conn(l, 0, 1)->peer.orders_short, !older);
		assert_true(lan_conn(l, 1, 0)->peer.orders_short);
		lan_free(l);
	}
}

/* What a seal is of may not change, and NICs that write read late. PROTOCOL R393 */
TEST(reads_in_place__not_with_seals)
{
	for (int i = 0; i < 3; i++) {
		struct lan *l = lan_new();

		l->writes = i == 1;
		for (int k = 0; k < 2; k++) {
			l->node[k].cfg.security = i == 2 ? UCCL_SECURITY_PACKETS : UCCL_SECURITY_TRUSTED;
			lan_open(l, k);
		}
		lan_talk(l);
		assert_int_equal(lan_conn(l, 0, 1)->peer.reads_in_place, !i);
		assert_int_equal(lan_conn(l, 1, 0)->peer.reads_in_place, !i);
		lan_free(l);
	}
}

/* Packets may be marked if we slow down for that and the peer tells of it; no handshake may. PROTOCOL R188 */
TEST(marks__who_may_be_marked)
{
	static const char *const cc[] = {"swift", "nscc", "cubic", "none", "timely"};

	for (unsigned int n = 0; n < 5 * 4; n++) {
		struct lan *l = lan_new();
		bool reacts = n % 5 < 3, mine = n / 5 & 1, theirs = n / 5 & 2;
		const struct uccl_stats *s;

		for (int i = 0; i < 2; i++) {
			l->node[i].cfg.cc = cc[n % 5];
			l->marks = i ? theirs : mine;
			lan_open(l, i);
		}
		lan_recv(l, 1, dst, sizeof(dst), LAN_CTX(1));
		assert_int_equal(lan_send(l, 0, 1, src, sizeof(src), LAN_CTX(2)), 0);
		lan_run(l, SECOND);
		lan_expect(l, 1, LAN_CTX(1), 0);
		lan_expect(l, 0, LAN_CTX(2), 0);
		s = &l->node[1].e->stats;
		assert_int_equal(lan_conn(l, 0, 1)->opened.ect, reacts && mine && theirs);
		assert_true(s->marked_rx == (reacts && mine && theirs ? s->rx_bytes : 0));
		if (reacts && mine && theirs)
			assert_in_range(l->node[0].e->stats.marked_tx, s->marked_rx,
					s->marked_rx + 4 * UCCL_MARK_BYTES);
		else
			assert_true(!l->node[0].e->stats.marked_tx);
		lan_free(l);
	}
}

TESTS_MAIN
