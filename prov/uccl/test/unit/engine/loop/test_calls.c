/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../lan.h"
#include "../../tests.h"

#include <stdlib.h>

#define MS UCCL_NS_PER_MS
#define SECOND UCCL_NS_PER_S

static uint8_t src[1 << 19], dst[1 << 19];

LAN_TEST(peer__by_address, lan_new_open(2))
{
	struct uccl_addr addr = *uccl_engine_addr(l->node[1].e), keyless = {.nic = addr.nic};
	struct uccl_engine *e = l->node[0].e;
	struct uccl_peer *p;

	assert_null(uccl_engine_peer(e, &addr, false));
	p = uccl_engine_peer(e, &addr, true);
	assert_non_null(p);
	assert_ptr_equal(uccl_engine_peer(e, &addr, false), p);
	/* By place alone it is the same. */
	assert_ptr_equal(uccl_engine_peer(e, &keyless, false), p);
	assert_true(uccl_peer_user(p) == UINT64_MAX);
	uccl_peer_set_user(p, 17);
	assert_true(uccl_peer_user(p) == 17);
	assert_int_equal(uccl_peer_addr(p)->incarnation, addr.incarnation);
	/* A dead one is not meant. */
	conn_fail(peer_conn(p), FI_ECONNABORTED, l->now);
	assert_null(uccl_engine_peer(e, &keyless, false));
	assert_ptr_not_equal(uccl_engine_peer(e, &keyless, true), p);
}

/*
 * A place where incarnations follow one another: what was posted ends with the one that it was for, and the next post
 * goes to the next one. PROTOCOL R295
 */
LAN_TEST(reconnect__another_life, lan_new_keyless(2))
{
	struct uccl_addr place = {.nic = uccl_engine_addr(l->node[1].e)->nic};
	struct uccl_peer *p = uccl_engine_peer(l->node[0].e, &place, true);

	for (int life = 0; life < 5; life++) {
		lan_recv(l, 1, dst, 10, LAN_CTX(1));
		assert_int_equal(lan_send_to(l, 0, p, src, 10, LAN_CTX(2)), 0);
		lan_run(l, 100 * UCCL_NS_PER_MS);
		lan_expect(l, 0, LAN_CTX(2), 0);
		lan_expect(l, 1, LAN_CTX(1), 0);
		assert_int_equal(uccl_peer_ended(p), 0);
		lan_kill(l, 1);
		if (life & 1)
			assert_int_equal(lan_send_to(l, 0, p, src, 10, LAN_CTX(3)), 0);
		lan_event(l, 0, UCCL_RX_GONE, &place.nic);
		lan_pass(l, 3 * UCCL_NS_PER_S);
		if (life & 1)
			lan_expect(l, 0, LAN_CTX(3), FI_ECONNABORTED);
		assert_int_equal(uccl_peer_ended(p), FI_ECONNABORTED);
		/* An operation that ended has told of it. */
		assert_int_equal(uccl_peer_error_reported(p), life & 1);
		uccl_peer_mark_reported(p);
		assert_true(uccl_peer_error_reported(p));
		lan_open(l, 1);
		p = uccl_peer_reconnect(p, &place);
		assert_non_null(p);
		assert_int_equal(uccl_peer_ended(p), 0);
	}
	assert_int_equal(lan_waiting(l, 0) + lan_waiting(l, 1), 0);
}

/* Who is asked again and again at a place where nobody is costs little, and leaves nothing. PROTOCOL R295 R133 */
LAN_TEST(reconnect__backs_off, lan_new_open(1))
{
	struct uccl_engine *e = l->node[0].e;
	struct uccl_addr place = {.nic = uccl_engine_addr(e)->nic};
	uint64_t began = l->now, packets = 0, tries = 0;
	struct uccl_peer *p;

	place.nic.port = 9;
	p = uccl_engine_peer(e, &place, true);
	while (l->now - began < UCCL_NS_PER_S) {
		assert_int_equal(lan_send_to(l, 0, p, src, 10, LAN_CTX(1)), 0);
		/* It is refused as soon as it asks. */
		while (l->node[0].nic->txs == packets)
			lan_pass(l, UCCL_NS_PER_MS / 4);
		packets = l->node[0].nic->txs;
		conn_fail(peer_conn(p), FI_EHOSTUNREACH, l->now);
		lan_expect(l, 0, LAN_CTX(1), FI_EHOSTUNREACH);
		assert_true(uccl_peer_error_reported(p));
		p = uccl_peer_reconnect(p, &place);
		tries++;
	}
	/* 1, 2, 4, ... 64, and then 100 ms between two of them. */
	assert_in_range(tries, 14, 18);
	/* One that is connected meanwhile counts as new. */
	assert_int_equal(lan_send_to(l, 0, p, src, 10, LAN_CTX(1)), 0);
	uccl_peer_release(p);
	lan_pass(l, 200 * UCCL_NS_PER_S);
	assert_int_equal(e->conns.n, 1);
	assert_int_equal(e->conns.ndead, 0);
}

/* A name of a peer holds it, and goes with the last who holds the name. PROTOCOL R133 R134 */
LAN_TEST(release__a_name, lan_new_keyless(2))
{
	struct uccl_engine *e = l->node[0].e;
	struct uccl_peer *by_place = lan_peer_keyless(l, 0, 1), *by_name = lan_peer(l, 0, 1);

	lan_recv(l, 1, dst, 10, LAN_CTX(1));
	assert_int_equal(lan_send_to(l, 0, by_place, src, 10, LAN_CTX(2)), 0);
	lan_run(l, UCCL_NS_PER_S);
	lan_expect(l, 0, LAN_CTX(2), 0);
	assert_true(uccl_peer_same(by_place, by_name));
	uccl_peer_release(by_name);
	conn_fail(peer_conn(by_name), FI_ECONNABORTED, l->now);
	lan_pass(l, 100 * UCCL_NS_PER_S);
	assert_int_equal(uccl_peer_ended(by_place), FI_ECONNABORTED);
	assert_int_equal(e->conns.n, 2);
	uccl_peer_release(by_place);
	lan_pass(l, 100 * UCCL_NS_PER_S);
	assert_int_equal(e->conns.n, 0);
}

LAN_TEST(op__calls_go_through, lan_new_open(2))
{
	struct uccl_engine *e = l->node[1].e;
	struct uccl_op *op;

	lan_recv(l, 1, dst, 10, LAN_CTX(1));
	assert_int_equal(uccl_engine_cancel(e, LAN_CTX(2), l->now), -FI_ENOENT);
	assert_int_equal(uccl_engine_cancel(e, LAN_CTX(1), l->now), 0);
	lan_expect(l, 1, LAN_CTX(1), FI_ECANCELED);
	lan_fill(src, 100000, 1);
	assert_int_equal(lan_send(l, 0, 1, src, 100000, LAN_CTX(3)), 0);
	assert_int_equal(lan_send(l, 0, 1, src, 100000, LAN_CTX(4)), 0);
	lan_run(l, SECOND);
	op = lan_op(l, 1, UCCL_OP_RECV, 0, dst, 100000);
	op->context = LAN_CTX(5);
	assert_int_equal(uccl_engine_recv_claimed(e, op, false, l->now), -FI_ENOMSG);
	assert_int_equal(uccl_engine_peek(e, op, true, false, l->now), 0);
	assert_int_equal(op->done_len, 100000);
	assert_int_equal(uccl_engine_recv_claimed(e, op, false, l->now), 0);
	op = lan_op(l, 1, UCCL_OP_RECV, 0, NULL, 0);
	assert_int_equal(uccl_engine_peek(e, op, false, true, l->now), 0);
	assert_int_equal(uccl_engine_peek(e, op, false, true, l->now), -FI_ENOMSG);
	uccl_op_put(e, op);
	lan_run(l, SECOND);
	lan_expect(l, 1, LAN_CTX(5), 0);
	lan_check(dst, 100000, 1);
	assert_int_equal(lan_waiting(l, 0), 2);
}

/* A receive is queued at once only if nothing is there for it, and nothing else is to be done. */
LAN_TEST(recv_waits__nothing_is_here, lan_new_open(2))
{
	struct uccl_engine *e = l->node[1].e;
	struct uccl_op *op = lan_op(l, 1, UCCL_OP_RECV, 0, dst, 1000);

	op->context = LAN_CTX(1);
	assert_true(uccl_engine_recv_waits(e, op));
	lan_fill(src, 1000, 1);
	assert_int_equal(lan_send(l, 0, 1, src, 1000, LAN_CTX(2)), 0);
	assert_int_equal(lan_send(l, 0, 1, src, 1000, LAN_CTX(3)), 0);
	lan_run(l, SECOND);
	lan_expect(l, 1, LAN_CTX(1), 0);
	lan_check(dst, 1000, 1);
	op = lan_op(l, 1, UCCL_OP_RECV, 0, dst, 1000);
	op->context = LAN_CTX(4);
	assert_false(uccl_engine_recv_waits(e, op));
	assert_int_equal(uccl_engine_recv(e, op, l->now), 0);
	lan_expect(l, 1, LAN_CTX(4), 0);
	uccl_engine_shut(e, FI_ESHUTDOWN);
	op = lan_op(l, 1, UCCL_OP_RECV, 0, dst, 1000);
	assert_false(uccl_engine_recv_waits(e, op));
	uccl_op_put(e, op);
	assert_int_equal(lan_waiting(l, 0), 2);
}

/* Every call that brings a time brings the endpoint's forward, and none brings it back. */
LAN_TEST(op__late_callers, lan_new_open(2))
{
	struct uccl_engine *e = l->node[0].e;
	uint64_t start = l->now, now = start;
	struct uccl_op *op;

	for (int back = 0; back < 2; back++) {
#define LATER() (back ? start : ++now)
		op = lan_op(l, 0, UCCL_OP_SEND, 0, src, 10);
		op->peer = lan_peer(l, 0, 1);
		assert_int_equal(uccl_engine_send(e, op, LATER()), 0);
		assert_int_equal(e->now, now);
		op = lan_op(l, 0, UCCL_OP_READ, 0, dst, 10);
		op->peer = lan_peer(l, 0, 1);
		op->rma.nseg = 1;
		op->rma.seg[0].len = 10;
		assert_int_equal(uccl_engine_rma(e, op, LATER()), 0);
		assert_int_equal(e->now, now);
		op = lan_op(l, 0, UCCL_OP_RECV, 0, dst, 10);
		assert_int_equal(uccl_engine_peek(e, op, true, false, LATER()), -FI_ENOMSG);
		assert_int_equal(e->now, now);
		assert_int_equal(uccl_engine_recv_claimed(e, op, false, LATER()), -FI_ENOMSG);
		assert_int_equal(e->now, now);
		assert_int_equal(uccl_engine_recv(e, op, LATER()), 0);
		assert_int_equal(e->now, now);
		uccl_engine_revoke(e, dst, NULL, LATER());
		assert_int_equal(e->now, now);
		uccl_engine_poll(e, LATER());
		assert_int_equal(e->now, now);
#undef LATER
	}
	uccl_engine_drain(e, start);
	assert_int_equal(e->now, now);
}

/* All ops out: EAGAIN, and a multi-receive buffer goes on by itself when some come back. PROTOCOL R40 */
LAN_TEST(op__exhausted, lan_new_open(2))
{
	struct uccl_op **held = calloc(70000, sizeof(*held)), *multi;
	int n = 0;

	assert_non_null(held);
	multi = lan_op(l, 1, UCCL_OP_RECV, UCCL_OPF_MULTI, dst, 1000);
	multi->recv.min_multi = 1;
	assert_int_equal(uccl_engine_recv(l->node[1].e, multi, l->now), 0);
	while ((held[n] = lan_op(l, 1, UCCL_OP_RECV, 0, NULL, 0)))
		n++;
	assert_int_equal(n, 65535);
	for (int i = 0; i < 5; i++)
		assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(i)), 0);
	lan_pass(l, 100 * MS);
	assert_int_equal(lan_waiting(l, 1), 0);
	uccl_op_put(l->node[1].e, held[--n]);
	lan_pass(l, SECOND);
	assert_int_equal(lan_waiting(l, 1), 5);
	assert_int_equal(lan_waiting(l, 0), 5);
	while (n)
		uccl_op_put(l->node[1].e, held[--n]);
	free(held);
}

static enum lan_verdict drop_some(struct lan *l, const struct lan_event *ev)
{
	return ev->from == 0 && ev->type >= UCCL_PKT_CHUNK && l->n-- > 0 ? LAN_DROP : LAN_PASS;
}

/*
 * A send that is complete when the call returns has left from its buffer and is copied behind that: what is lost, or
 * what the NIC has not taken, comes from the copy. PROTOCOL R240
 */
TEST(send__copied_when_it_has_left)
{
	for (int n = 0; n < 3 * 8; n++) {
		struct lan *l = lan_new();
		struct uccl_op *op;
		uint64_t txs;

		for (int i = 0; i < 2; i++) {
			l->node[i].cfg.chunk_bytes = 1024;
			l->node[i].train_bytes = n & 1 ? 32 * LAN_MTU : 0;
			lan_open(l, i);
		}
		lan_talk(l);
		lan_fill(src, 9000, 5);
		lan_recv(l, 1, dst, 9000, LAN_CTX(1));
		op = lan_op(l, 0, UCCL_OP_SEND, n < 16 ? UCCL_OPF_EARLY : UCCL_OPF_INJECT, src, 9000);
		op->peer = lan_peer(l, 0, 1);
		op->context = LAN_CTX(2);
		l->n = n & 2 ? n % 8 : 0;
		l->node[0].nic->room = n & 4 ? n % 8 : -1;
		l->filter = drop_some;
		txs = l->node[0].nic->txs;
		assert_int_equal(uccl_engine_send(l->node[0].e, op, l->now), 0);
		assert_true(l->node[0].nic->txs > txs);
		assert_int_equal(lan_waiting(l, 0), 1);
		lan_fill(src, 9000, 6);
		l->node[0].nic->room = -1;
		lan_run(l, SECOND);
		lan_expect(l, 0, LAN_CTX(2), 0);
		lan_expect(l, 1, LAN_CTX(1), 0);
		lan_check(dst, 9000, 5);
		assert_int_equal(l->node[0].e->msg_ep.tx.copied_bytes, 0);
		lan_free(l);
	}
}

/*
 * In a stream messages of several packets wait until one more would not fit their train, or for the next look, or for
 * whatever else leaves. PROTOCOL R262
 */
LAN_TEST(send__gathers, lan_new())
{
	struct uccl_engine *e;
	uint64_t txs;

	for (int i = 0; i < 2; i++) {
		l->node[i].cfg.chunk_bytes = 4096;
		l->node[i].train_bytes = 32 * LAN_MTU;
		lan_open(l, i);
	}
	lan_talk(l);
	e = l->node[0].e;
	lan_fill(src, 40000, 7);
	for (int i = 0; i < 13; i++)
		lan_recv(l, 1, dst, 40000, LAN_CTX(100 + i));
#define POST(len) assert_int_equal(lan_send(l, 0, 1, src, len, LAN_CTX(1)), 0)
	/* Until an acknowledgement is on its way each leaves at once. */
	for (int i = 0; i < 4; i++) {
		txs = l->node[0].nic->txs;
		POST(40000);
		assert_true(l->node[0].nic->txs > txs);
	}
	txs = l->node[0].nic->txs;
	/* A train is 32 packets of 4096. */
	l->node[0].nic->labels = 0;
	POST(40000);
	POST(40000);
	assert_int_equal(l->node[0].nic->txs, txs);
	assert_int_equal(uccl_engine_expiry(e), e->now);
	POST(40000);
	assert_int_equal(l->node[0].nic->txs, txs + 1);
	assert_int_equal(__builtin_popcount(l->node[0].nic->labels), 1);
	POST(40000);
	assert_int_equal(l->node[0].nic->txs, txs + 1);
	POST(100);
	assert_int_equal(l->node[0].nic->txs, txs + 2);
	POST(40000);
	assert_int_equal(l->node[0].nic->txs, txs + 2);
	uccl_engine_poll(e, l->now);
	assert_int_equal(l->node[0].nic->txs, txs + 3);
	/* What begins anew has room for three again. */
	POST(40000);
	POST(40000);
	assert_int_equal(l->node[0].nic->txs, txs + 3);
	POST(40000);
	assert_int_equal(l->node[0].nic->txs, txs + 4);
#undef POST
	lan_run(l, SECOND);
	assert_int_equal(lan_waiting(l, 0), 13);
	assert_int_equal(lan_waiting(l, 1), 13);
	lan_check(dst, 40000, 7);
}

/*
 * Node 0 posts so many messages of 100 bytes to node 1, each `gap_ns` after the one before. Returns calls of its NIC.
 */
static uint64_t stream(struct lan *l, int n, uint64_t gap_ns)
{
	uint64_t txs = l->node[0].nic->txs;

	for (int i = 0; i < n; i++) {
		l->now += gap_ns;
		assert_int_equal(lan_send(l, 0, 1, src, 100, LAN_CTX(1)), 0);
	}
	return l->node[0].nic->txs - txs;
}

static struct lan *stream_new(bool may_gather)
{
	struct lan *l = lan_new();

	for (int i = 0; i < 2; i++) {
		l->node[i].train_bytes = 8 * LAN_MTU;
		l->node[i].may_gather = may_gather;
		lan_open(l, i);
	}
	lan_talk(l);
	lan_fill(src, 100, 3);
	return l;
}

LAN_TEST(send__streams, stream_new(true))
{
	struct uccl_engine *e = l->node[0].e;
	uint64_t txs;

	for (int i = 0; i < 16 + 43; i++)
		lan_recv(l, 1, dst, 100, LAN_CTX(100 + i));
	/* The first ones leave at once each. */
	assert_int_equal(stream(l, 16, 50000), 16);
	assert_false(uccl_engine_waits(e));
	/* Then as many leave together. */
	assert_int_equal(stream(l, 15, 1400), 0);
	assert_true(uccl_engine_waits(e));
	assert_int_equal(uccl_engine_expiry(e), e->now);
	assert_int_equal(stream(l, 1, 0), 1);
	assert_false(uccl_engine_waits(e));
	/* None waits for long while others come. */
	assert_int_equal(stream(l, 2, 20000), 0);
	assert_int_equal(stream(l, 1, 1), 1);
	/* A poll sends what waits. */
	assert_int_equal(stream(l, 3, 1000), 0);
	txs = l->node[0].nic->txs;
	uccl_engine_poll(e, l->now);
	assert_int_equal(l->node[0].nic->txs, txs + 1);
	/* Longer ones fill a train sooner; what no packet holds goes as ever, and takes along what waits. */
	assert_int_equal(stream(l, 1, 0), 0);
	txs = l->node[0].nic->txs;
	for (int i = 0; i < 3; i++)
		assert_int_equal(lan_send(l, 0, 1, src, 12000, LAN_CTX(1)), 0);
	assert_int_equal(l->node[0].nic->txs, txs + 1);
	assert_int_equal(stream(l, 1, 0), 0);
	txs = l->node[0].nic->txs;
	assert_int_equal(lan_send(l, 0, 1, src, 60000, LAN_CTX(1)), 0);
	assert_true(l->node[0].nic->txs > txs);
	assert_false(uccl_engine_waits(e));
	lan_run(l, SECOND);
	assert_int_equal(lan_waiting(l, 0), 16 + 16 + 3 + 3 + 1 + 3 + 1 + 1);
}

/* What follows later, or may be an answer, or must come first, waits for nothing. */
LAN_TEST(send__streams_not, stream_new(true))
{
	struct uccl_op *op;
	uint64_t txs;

	assert_int_equal(stream(l, 100, 50001), 100);
	assert_int_equal(stream(l, 17, 0), 15);
	/* Something came from the peer. */
	assert_int_equal(lan_send(l, 1, 0, src, 100, LAN_CTX(2)), 0);
	lan_run(l, UCCL_NS_PER_MS);
	assert_int_equal(stream(l, 16, 0), 16);
	/* A fence lets leave what waits before it. */
	assert_int_equal(stream(l, 1, 0), 0);
	txs = l->node[0].nic->txs;
	op = lan_op(l, 0, UCCL_OP_SEND, UCCL_OPF_FENCE, src, 100);
	op->peer = lan_peer(l, 0, 1);
	assert_int_equal(uccl_engine_send(l->node[0].e, op, l->now), 0);
	assert_true(l->node[0].nic->txs > txs);
	assert_false(uccl_engine_waits(l->node[0].e));
}

LAN_TEST(send__streams_if_somebody_polls, stream_new(false))
{
	assert_int_equal(stream(l, 100, 0), 100);
}

static void rma_post(struct lan *l, uint8_t type, uint32_t flags, uint64_t len)
{
	struct uccl_op *op = lan_op(l, 0, type, flags, type == UCCL_OP_READ ? dst : src, len);

	op->peer = lan_peer(l, 0, 1);
	op->rma.nseg = 1;
	op->rma.seg[0].len = len;
	assert_int_equal(uccl_engine_rma(l->node[0].e, op, l->now), 0);
}

/*
 * Requests of a program that waits for many to this peer wait until one more would not fit their train, or for the next
 * look, or for whatever else leaves. PROTOCOL R392
 */
TEST(rma__gathers)
{
	for (int trains = 0; trains < 2; trains++) {
		struct lan *l = lan_new();
		struct uccl_engine *e;
		uint64_t txs, each = trains ? 0 : 1;

		for (int i = 0; i < 2; i++) {
			l->node[i].cfg.chunk_bytes = 4096;
			l->node[i].train_bytes = trains ? 8 * LAN_MTU : 0;
			lan_open(l, i);
		}
		lan_talk(l);
		e = l->node[0].e;
		/* The first ones leave at once each. */
		txs = l->node[0].nic->txs;
		for (int i = 1; i < 32; i++) {
			rma_post(l, i & 1 ? UCCL_OP_READ : UCCL_OP_WRITE, 0, 100);
			assert_int_equal(l->node[0].nic->txs, txs += 1);
		}
		/* A train is 8 packets of 4096. */
		l->node[0].nic->labels = 0;
		for (int i = 0; i < 31; i++)
			rma_post(l, UCCL_OP_READ, 0, 10000);
		assert_int_equal(l->node[0].nic->txs, txs += 31 * each);
		assert_true(!trains || uccl_engine_expiry(e) == e->now);
		rma_post(l, UCCL_OP_READ, 0, 10000);
		assert_int_equal(l->node[0].nic->txs, txs += 1);
		if (trains)
			assert_int_equal(__builtin_popcount(l->node[0].nic->labels), 1);
		for (int i = 0; i < 5; i++)
			rma_post(l, UCCL_OP_WRITE, 0, 4000);
		assert_int_equal(l->node[0].nic->txs, txs += 5 * each);
		rma_post(l, UCCL_OP_WRITE, 0, 4000);
		assert_int_equal(l->node[0].nic->txs, txs += 1);
		lan_run(l, SECOND);
		assert_int_equal(lan_waiting(l, 0), 31 + 32 + 6);
		/* What leaves no room waits for nothing; nor does what waits for all before it. */
		for (int i = 0; i < 32; i++)
			rma_post(l, UCCL_OP_READ, 0, 1);
		txs = l->node[0].nic->txs;
		rma_post(l, UCCL_OP_WRITE, 0, 20000);
		assert_true(l->node[0].nic->txs > txs);
		txs = l->node[0].nic->txs;
		rma_post(l, UCCL_OP_READ, 0, 1);
		assert_int_equal(l->node[0].nic->txs, txs += each);
		rma_post(l, UCCL_OP_READ, UCCL_OPF_FENCE, 1);
		assert_int_equal(l->node[0].nic->txs > txs, trains);
		lan_run(l, SECOND);
		assert_int_equal(lan_waiting(l, 0), 31 + 32 + 6 + 35);
		/* Others leave with whatever else leaves, and in a look. */
		for (int i = 0; i < 32; i++)
			rma_post(l, UCCL_OP_READ, 0, 1);
		txs = l->node[0].nic->txs;
		rma_post(l, UCCL_OP_READ, 0, 1);
		assert_int_equal(l->node[0].nic->txs, txs += each);
		assert_int_equal(lan_send(l, 0, 1, src, 100, LAN_CTX(1)), 0);
		assert_int_equal(l->node[0].nic->txs, txs += 1);
		rma_post(l, UCCL_OP_READ, 0, 1);
		assert_int_equal(l->node[0].nic->txs, txs += each);
		uccl_engine_poll(e, l->now);
		assert_int_equal(l->node[0].nic->txs, txs += !each);
		lan_run(l, SECOND);
		assert_true(!trains || l->node[0].nic->txs > txs);
		lan_free(l);
	}
}

static int region_resolve(void *arg, const struct uccl_nic_addr *from, const struct uccl_seg *seg, uint32_t access,
			  struct iovec *iov, void **region)
{
	*region = dst;
	*iov = (struct iovec){.iov_base = dst + seg->addr, .iov_len = seg->len};
	return 1;
}

static void region_event(void *arg, const struct uccl_rma_event *ev)
{
}

/* What fills no packet of a long write goes with its request, if that is little and packets leave one by one. */
TEST(rma__fills_packets)
{
	static const struct uccl_target_ops region = {.resolve = region_resolve, .event = region_event};
	static const struct {
		uint32_t odd, train, packets; /* bytes beside two full packets; of trains */
	} v[] = {{1000, 0, 3}, {4096, 0, 3}, {4104, 0, 4}, {0, 0, 3}, {1001, 0, 3}, {1000, 4 * LAN_MTU, 0}};

	for (size_t i = 0; i < uccl_array_len(v); i++) {
		struct lan *l = lan_new();
		const struct uccl_flow *f;
		uint64_t len, chunks;

		l->node[0].train_bytes = l->node[1].train_bytes = v[i].train;
		lan_open(l, 0);
		lan_open(l, 1);
		lan_talk(l);
		l->node[1].e->msg_ep.target.ops = &region;
		f = &lan_peer(l, 0, 1)->flow;
		assert_true(f->chunk_bytes >= UCCL_PLACEMENT_MIN);
		len = 2 * f->chunk_bytes + v[i].odd;
		lan_fill(src, (uint32_t)len, 9);
		memset(dst, 0, len);
		chunks = lan_stats(l, 0)->chunks_tx;
		rma_post(l, UCCL_OP_WRITE, 0, len);
		lan_run(l, SECOND);
		lan_check(dst, (uint32_t)len, 9);
		if (!v[i].train)
			assert_int_equal(lan_stats(l, 0)->chunks_tx - chunks, v[i].packets);
		lan_free(l);
	}
}

/* What is given to send counts until the next look, whatever kind it is; what is only received does not. */
LAN_TEST(unread__by_bytes, lan_new_open(2))
{
	struct uccl_engine *e = l->node[0].e;
	struct uccl_op *op;

	assert_false(uccl_engine_unread(e));
	lan_recv(l, 0, dst, sizeof(dst), LAN_CTX(1));
	lan_recv(l, 0, dst, sizeof(dst), LAN_CTX(2));
	assert_int_equal(lan_send(l, 0, 1, src, sizeof(src), LAN_CTX(3)), 0);
	assert_false(uccl_engine_unread(e));
	assert_int_equal(lan_send(l, 0, 1, src, sizeof(src) - 1, LAN_CTX(4)), 0);
	assert_false(uccl_engine_unread(e));
	op = lan_op(l, 0, UCCL_OP_READ, 0, dst, 1);
	op->peer = lan_peer(l, 0, 1);
	op->rma.nseg = 1;
	op->rma.seg[0].len = 1;
	assert_int_equal(uccl_engine_rma(e, op, l->now), 0);
	assert_true(uccl_engine_unread(e));
	/* What a poll's callback posts is looked after by the poll. */
	e->poll.polling = true;
	assert_false(uccl_engine_unread(e));
	e->poll.polling = false;
	uccl_engine_poll(e, l->now);
	assert_false(uccl_engine_unread(e));
}

static void copied(struct uccl_copy *c, uint64_t now)
{
	c->err = -1;
}

/* Even what is done at once is told of later. */
LAN_TEST(copy__told_by_a_poll, lan_new_open(2))
{
	struct iovec to = {.iov_base = dst, .iov_len = 10}, from = {.iov_base = src, .iov_len = 20};
	struct uccl_copy c = {.err = 5, .queued = true};

	lan_fill(src, 20, 1);
	memset(dst, 0, 20);
	uccl_engine_copy(l->node[0].e, &c, to, false, from, false, copied);
	assert_int_equal(c.err, 0);
	assert_memory_equal(dst, src, 10);
	assert_int_equal(dst[10], 0);
	assert_true(uccl_engine_expiry(l->node[0].e) <= l->now);
	lan_run(l, MS);
	assert_int_equal(c.err, -1);
}

TESTS_MAIN
