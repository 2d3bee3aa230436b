/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../lan.h"
#include "../../tests.h"

#include <math.h>

/* The n-th of many others, each at a place of its own. */
static struct uccl_addr stranger(uint32_t n)
{
	struct uccl_addr a = { .nic.port = (uint16_t)(1000 + n % 50000), .incarnation = 1000000 + n };

	a.nic.ip[10] = a.nic.ip[11] = 0xff;
	a.nic.ip[12] = 127;
	a.nic.ip[13] = (uint8_t)(n >> 16);
	a.nic.ip[14] = (uint8_t)(n >> 8);
	a.nic.ip[15] = (uint8_t)n;
	return a;
}

static uint32_t count_at(struct uccl_engine *e, const struct uccl_nic_addr *at)
{
	uint32_t n = 0;

	for (struct conn *c = conns_at(e, at); c; c = TAILQ_NEXT(c, entry.place_link))
		n++;
	return n;
}

/* All that live at a place, and nobody else. */
LAN_TEST(at__the_living, lan_new_open(2))
{
	struct uccl_engine *e = l->node[0].e;
	struct uccl_addr a = stranger(1), b = stranger(2);
	struct conn *first, *second, *other;

	assert_null(conns_at(e, &a.nic));
	first = conn_new(e, &a, true);
	other = conn_new(e, &b, true);
	a.incarnation++;
	second = conn_new(e, &a, true);
	assert_ptr_equal(conns_at(e, &a.nic), first);
	assert_ptr_equal(TAILQ_NEXT(first, entry.place_link), second);
	assert_int_equal(count_at(e, &a.nic), 2);
	assert_ptr_equal(conns_at(e, &b.nic), other);
	conn_fail(first, FI_ECONNRESET, l->now);
	assert_ptr_equal(conns_at(e, &a.nic), second);
	assert_int_equal(count_at(e, &a.nic), 1);
	/* It is known still that it has been. */
	assert_ptr_equal(conn_find(e, &a.nic, a.incarnation - 1), first);
	conn_free(second, &e->conns.live);
	assert_null(conns_at(e, &a.nic));
	conn_free(other, &e->conns.live);
	assert_null(conns_at(e, &b.nic));
}

/* Told to be at one place, and found at another. PROTOCOL R118 */
LAN_TEST(move__to_another_place, lan_new_open(2))
{
	struct uccl_engine *e = l->node[0].e;
	struct uccl_addr a = stranger(1), b = stranger(2);
	struct conn *c;

	c = conn_new(e, &a, true);
	c->peer.addr.nic = b.nic;
	assert_int_equal(conns_move(c), 0);
	assert_null(conns_at(e, &a.nic));
	assert_ptr_equal(conns_at(e, &b.nic), c);
	assert_ptr_equal(conn_find(e, &a.nic, a.incarnation), c);
	assert_null(conn_find(e, &b.nic, a.incarnation));
}

/* Looks for who is at a place, and reports about it: the best time of several for 1000. */
static double find_cost(struct lan *l)
{
	struct uccl_addr a = stranger(70000);
	double best = 1e9;

	a.incarnation = 0;
	for (int k = 0; k < 5; k++) {
		double from = lan_cpu_s();

		for (int i = 0; i < 1000; i++) {
			assert_null(uccl_engine_peer(l->node[0].e, &a, false));
			conn_gone(l->node[0].e, &a.nic, l->now);
		}
		best = fmin(best, lan_cpu_s() - from);
	}
	return best;
}

/* However many connections there are: to find those at one place, nobody looks at all of them. */
LAN_TEST(at__cost, lan_new_open(1))
{
	double few = 0, many;

	for (uint32_t n = 0; n < 10000; n++) {
		struct uccl_addr a = stranger(n);

		assert_non_null(conn_new(l->node[0].e, &a, true));
		if (n == 100)
			few = find_cost(l);
	}
	many = find_cost(l);
	print_message("%.3f us with 100, %.3f us with 10,000\n", few * 1e3, many * 1e3);
	assert_true(many < 20 * few);
}

/* Two endpoints; the second takes those who do not know its key. */
/* Loses the first COOKIE, or the second, or none. */
static enum lan_verdict lose_cookie(struct lan *l, const struct lan_event *ev)
{
	return ev->type == UCCL_PKT_COOKIE && l->n-- == 1 ? LAN_DROP : LAN_PASS;
}

/*
 * One endpoint, asked for by its place and by its whole name before either is answered, is one peer: what was sent by
 * either name comes, in the order in which it was sent. PROTOCOL R134
 */
TEST(join__before_the_handshake)
{
	static uint8_t src[8], dst[8];

	for (int lost = 0; lost < 3; lost++) {
		struct lan *l = lan_new_keyless(2);
		struct uccl_peer *by_place = lan_peer_keyless(l, 0, 1), *by_name = lan_peer(l, 0, 1);

		assert_ptr_not_equal(by_place, by_name);
		assert_false(uccl_peer_same(by_place, by_name));
		uccl_peer_set_user(by_place, 77);
		l->n = lost;
		l->filter = lose_cookie;
		for (int k = 0; k < 8; k++) {
			lan_recv(l, 1, dst + k, 1, LAN_CTX(10 + k));
			src[k] = (uint8_t)(k + 1);
			assert_int_equal(lan_send_to(l, 0, k % 3 ? by_name : by_place, src + k, 1, LAN_CTX(k)), 0);
		}
		lan_run(l, UCCL_NS_PER_S);
		for (int k = 0; k < 8; k++) {
			lan_expect(l, 0, LAN_CTX(k), 0);
			lan_expect(l, 1, LAN_CTX(10 + k), 0);
			assert_int_equal(dst[k], k + 1);
		}
		assert_int_equal(lan_stats(l, 0)->connects, 1);
		assert_int_equal(lan_stats(l, 1)->connects, 1);
		assert_true(uccl_peer_same(by_place, by_name));
		assert_ptr_equal(uccl_peer_addr(by_place), uccl_peer_addr(by_name));
		assert_int_equal(uccl_peer_user(by_name), 77);
		assert_ptr_equal(lan_peer_keyless(l, 0, 1), by_name);
		/* And now by either name at once. */
		lan_recv(l, 1, dst, 1, LAN_CTX(1));
		assert_int_equal(lan_send_to(l, 0, by_place, src, 1, LAN_CTX(2)), 0);
		lan_run(l, UCCL_NS_PER_S);
		lan_expect(l, 0, LAN_CTX(2), 0);
		lan_expect(l, 1, LAN_CTX(1), 0);
		/* One end is the end of both. */
		lan_recv_from(l, 0, by_place, dst, 1, LAN_CTX(3));
		conn_fail(peer_conn(by_name), FI_ECONNABORTED, l->now);
		lan_expect(l, 0, LAN_CTX(3), FI_ECONNABORTED);
		assert_int_equal(lan_send_to(l, 0, by_place, src, 1, NULL), -FI_ECONNABORTED);
		lan_free(l);
	}
}

/* The other one connects to us: receives from either name are receives from it. PROTOCOL R134 */
LAN_TEST(join__who_connects_to_us, lan_new_keyless(2))
{
	struct uccl_peer *by_place = lan_peer_keyless(l, 0, 1), *by_name = lan_peer(l, 0, 1);
	const struct lan_comp *c;
	uint8_t src[2] = {1, 2}, dst[2];

	lan_recv_from(l, 0, by_place, dst, 1, LAN_CTX(1));
	lan_recv_from(l, 0, by_name, dst + 1, 1, LAN_CTX(2));
	uccl_engine_pair(l->node[0].e, by_place);
	assert_int_equal(lan_send(l, 1, 0, src, 1, LAN_CTX(3)), 0);
	assert_int_equal(lan_send(l, 1, 0, src + 1, 1, LAN_CTX(4)), 0);
	lan_run(l, UCCL_NS_PER_S);
	for (int k = 0; k < 2; k++) {
		c = lan_next(l, 0);
		assert_non_null(c);
		assert_ptr_equal(c->context, LAN_CTX(1 + k));
		assert_ptr_equal(c->from, by_name);
		assert_int_equal(dst[k], k + 1);
	}
	assert_ptr_equal(l->node[0].e->msg_ep.sole.peer, by_name);
	uccl_engine_pair(l->node[0].e, by_place);
	assert_ptr_equal(l->node[0].e->msg_ep.sole.peer, by_name);
}

/* What comes back for a read that waits comes from the one peer. PROTOCOL R134 */
LAN_TEST(join__reads_that_wait, lan_new_keyless(2))
{
	struct uccl_peer *by_place = lan_peer_keyless(l, 0, 1), *by_name = lan_peer(l, 0, 1);
	const struct lan_comp *c;
	struct uccl_op *op;
	uint8_t dst[10];

	for (int k = 0; k < 3; k++) {
		op = lan_op(l, 0, UCCL_OP_READ, 0, dst, 10);
		op->peer = k % 2 ? by_name : by_place;
		op->context = LAN_CTX(k);
		op->rma.nseg = 1;
		op->rma.seg[0].len = 10;
		assert_int_equal(uccl_engine_rma(l->node[0].e, op, l->now), 0);
	}
	lan_run(l, UCCL_NS_PER_S);
	for (int k = 0; k < 3; k++) {
		c = lan_next(l, 0);
		assert_non_null(c);
		assert_ptr_equal(c->context, LAN_CTX(k));
		assert_int_equal(c->err, FI_EKEYREJECTED); /* it has no memory for us */
		assert_ptr_equal(c->from, by_name);
	}
	assert_true(TAILQ_EMPTY(&by_place->rx.all) && TAILQ_EMPTY(&by_name->rx.all));
	assert_ptr_equal(by_name->rx.all.tqh_last, &by_name->rx.all.tqh_first);
}

/* The whole name is known, and only the place was used. PROTOCOL R134 */
TEST(join__with_an_idle_name)
{
	struct lan *l = lan_new_keyless(2);
	struct uccl_peer *by_place = lan_peer_keyless(l, 0, 1), *by_name = lan_peer(l, 0, 1);
	uint8_t src[1] = {0}, dst[1];

	lan_recv(l, 1, dst, 1, LAN_CTX(1));
	assert_int_equal(lan_send_to(l, 0, by_place, src, 1, LAN_CTX(2)), 0);
	lan_run(l, UCCL_NS_PER_S);
	lan_expect(l, 0, LAN_CTX(2), 0);
	lan_expect(l, 1, LAN_CTX(1), 0);
	assert_true(by_name->open);
	/* What has become a name asks for nothing more. */
	assert_true(peer_conn(by_place)->state.hs_timer.at == UCCL_NEVER);
	lan_free(l);
}

/* Ourselves, by either name. */
LAN_TEST(join__ourselves, lan_new_keyless(2))
{
	struct uccl_peer *self = lan_peer_keyless(l, 0, 0);
	uint8_t src[1] = {7}, dst[1];

	assert_true(self->self);
	assert_ptr_equal(lan_peer(l, 0, 0), self);
	lan_recv_from(l, 0, self, dst, 1, LAN_CTX(1));
	assert_int_equal(lan_send(l, 0, 0, src, 1, LAN_CTX(2)), 0);
	lan_run(l, UCCL_NS_PER_S);
	assert_int_equal(lan_waiting(l, 0), 2);
}

/* Of several names of one place, the place alone means the one that we are connected to, and no other's place. */
LAN_TEST(peer__who_is_there, lan_new_keyless(2))
{
	struct uccl_engine *e = l->node[0].e;
	struct uccl_addr old = *uccl_engine_addr(l->node[1].e), row = old;
	struct uccl_peer *stale, *elsewhere, *now;
	uint8_t src[1] = {0}, dst[1];

	row.indirect = true;
	row.incarnation += 3;
	elsewhere = uccl_engine_peer(e, &row, true);
	now = lan_peer_keyless(l, 0, 1);
	assert_ptr_not_equal(now, elsewhere);
	old.incarnation++;
	stale = uccl_engine_peer(e, &old, true);
	lan_recv(l, 1, dst, 1, LAN_CTX(1));
	now = lan_peer(l, 0, 1);
	assert_int_equal(lan_send_to(l, 0, now, src, 1, LAN_CTX(2)), 0);
	lan_run(l, UCCL_NS_PER_S);
	assert_ptr_not_equal(now, stale);
	assert_ptr_equal(lan_peer_keyless(l, 0, 1), now);
}

/* Somebody else lives there than the whole name says: the place is another peer, and the one of that name is dead. */
LAN_TEST(join__not_another, lan_new_keyless(2))
{
	struct uccl_addr old = *uccl_engine_addr(l->node[1].e);
	struct uccl_peer *by_place = lan_peer_keyless(l, 0, 1), *by_name;
	uint8_t src[1] = {0}, dst[1];

	lan_kill(l, 1);
	lan_open(l, 1);
	by_name = uccl_engine_peer(l->node[0].e, &old, true);
	lan_recv(l, 1, dst, 1, LAN_CTX(3));
	assert_int_equal(lan_send_to(l, 0, by_name, src, 1, LAN_CTX(1)), 0);
	assert_int_equal(lan_send_to(l, 0, by_place, src, 1, LAN_CTX(2)), 0);
	lan_run(l, UCCL_NS_PER_S);
	lan_expect(l, 0, LAN_CTX(1), FI_ECONNRESET);
	lan_expect(l, 0, LAN_CTX(2), 0);
	lan_expect(l, 1, LAN_CTX(3), 0);
	assert_false(uccl_peer_same(by_place, by_name));
}

/*
 * It was connected to us, and that has ended; its process lives. By its place it is reached again, by its whole name it
 * has ended for good as long as nobody does that. PROTOCOL R295
 */
LAN_TEST(join__with_the_dead, lan_new_keyless(2))
{
	struct uccl_peer *by_place, *by_name;
	uint8_t src[1] = {0}, dst[2];

	lan_talk(l);
	by_name = lan_peer(l, 0, 1);
	conn_fail(peer_conn(by_name), FI_ECONNABORTED, l->now);
	assert_ptr_equal(lan_peer(l, 0, 1), by_name);
	assert_int_equal(lan_send_to(l, 0, by_name, src, 1, LAN_CTX(1)), -FI_ECONNABORTED);
	by_place = lan_peer_keyless(l, 0, 1);
	assert_ptr_not_equal(by_place, by_name);
	lan_recv(l, 1, dst, 1, LAN_CTX(2));
	assert_int_equal(lan_send_to(l, 0, by_place, src, 1, LAN_CTX(3)), 0);
	lan_run(l, UCCL_NS_PER_S);
	lan_expect(l, 0, LAN_CTX(3), 0);
	lan_expect(l, 1, LAN_CTX(2), 0);
	assert_ptr_equal(lan_peer(l, 0, 1), by_place);
}

static bool from(struct lan *l, uint32_t n)
{
	struct uccl_addr a = stranger(n);

	return lan_attacker(l, 1, &a, true);
}

/* `n` strangers connect, from `first` on; how many were taken. */
static uint32_t strangers(struct lan *l, uint32_t first, uint32_t n)
{
	uint32_t taken = 0;

	for (uint32_t i = 0; i < n; i++)
		taken += from(l, first + i);
	return taken;
}

/* Who connects and says nothing costs little, and takes little from those who talk. PROTOCOL R135 */
TEST(half__takes_little)
{
	struct lan *l = lan_new_keyless(2);
	struct uccl_engine *e;
	struct uccl_addr a = stranger(1);
	struct conn *c;
	uint32_t slots;

	lan_talk(l);
	e = l->node[1].e;
	slots = lan_conn(l, 1, 0)->peer.flow.cfg.slots_rx;
	assert_int_equal(strangers(l, 1, 500), 500);
	assert_int_equal(e->conns.nopen, 1);
	assert_int_equal(e->table.nhalf, 500);
	assert_int_equal(lan_stats(l, 1)->connects, 1);
	c = conn_find(e, &a.nic, a.incarnation);
	/* What handshakes grant is less and less. */
	assert_true(TAILQ_LAST(&e->table.half, conn_list)->hs.mine.slots <= 2);
	assert_null(c->peer.flow.paths.list);
	assert_ptr_equal(TAILQ_FIRST(&e->conns.live), lan_conn(l, 1, 0));
	assert_null(TAILQ_NEXT(lan_conn(l, 1, 0), state.all));
	/* Nobody looks after them. */
	lan_pass(l, UCCL_NS_PER_S);
	assert_int_equal(e->table.nhalf, 500);
	assert_true(lan_conn(l, 1, 0)->peer.flow.cfg.slots_rx >= slots / 2);
	/* Who is asked for here is a peer like others. */
	assert_ptr_equal(uccl_engine_peer(e, &a, true), &c->peer);
	assert_true(c->peer.open);
	assert_int_equal(e->table.nhalf, 499);
	assert_int_equal(e->conns.nopen, 2);
	assert_true(lan_conn(l, 1, 0)->peer.flow.cfg.slots_rx >= slots / 4);
	lan_talk(l);
	lan_free(l);
}

/* Where the queue is so short that strangers took all of it, they keep it from nobody who talks. PROTOCOL R135 */
TEST(half__starves_nobody)
{
	struct lan *l = lan_new_keyless(3);

	l->node[1].e->nic->caps.rx_slots = 1;
	assert_int_equal(strangers(l, 1, 3), 3);
	for (int i = 0; i < 20; i++) {
		uint8_t src[1] = {0}, dst[2];

		for (int n = 0; n < 3; n += 2) {
			lan_recv_from(l, 1, lan_peer(l, 1, n), dst, 1, LAN_CTX(2));
			assert_int_equal(lan_send(l, n, 1, src, 1, LAN_CTX(1)), 0);
		}
		lan_run(l, 5 * UCCL_NS_PER_S);
		lan_expect(l, 0, LAN_CTX(1), 0);
		lan_expect(l, 2, LAN_CTX(1), 0);
		lan_expect(l, 1, LAN_CTX(2), 0);
		lan_expect(l, 1, LAN_CTX(2), 0);
	}
	assert_int_equal(l->node[1].e->table.nhalf, 3);
	lan_free(l);
}

/* A stranger that knocks again, and one that restarts at its place. */
LAN_TEST(half__once, lan_new_keyless(2))
{
	struct uccl_engine *e = l->node[1].e;
	struct uccl_addr a = stranger(1);
	struct conn *c, *next;

	c = lan_attacker(l, 1, &a, true);
	assert_non_null(c);
	assert_ptr_equal(lan_attacker(l, 1, &a, true), c);
	assert_int_equal(e->table.nhalf, 1);
	l->now += UCCL_NS_PER_MS;
	a.incarnation++;
	next = lan_attacker(l, 1, &a, true);
	assert_non_null(next);
	/* Who only knocks ends nobody: its first word does. PROTOCOL R10 */
	assert_int_equal(c->peer.dead, 0);
	assert_int_equal(e->table.nhalf, 2);
	conn_validated(next, l->now);
	assert_int_equal(c->peer.dead, FI_ECONNRESET);
	assert_int_equal(e->table.nhalf, 0);
}

/*
 * Their number is bounded, in all and from one address. The oldest gives way, but not before it had time to speak:
 * until then the latest has to ask again. PROTOCOL R135
 */
static void half_bounded(bool older)
{
	struct lan *l = lan_new_keyless(2);
	struct uccl_engine *e = l->node[1].e;
	struct uccl_addr a = stranger(0), one = a;
	uint32_t taken = 0;

	l->older = older;
	/* From one address. */
	for (uint16_t k = 0; k < 3000; k++) {
		one.nic.port = (uint16_t)(2000 + k);
		one.incarnation = 5000000 + k;
		taken += lan_attacker(l, 1, &one, true) != NULL;
	}
	assert_int_equal(taken, 1024);
	assert_int_equal(lan_stats(l, 1)->dropped[UCCL_DROP_MEMORY], 3000 - 1024);
	/* Others, who are as many. */
	assert_int_equal(strangers(l, 1, 10000), 3072);
	assert_int_equal(e->table.nhalf, 4096);
	lan_pass(l, 1900 * UCCL_NS_PER_MS);
	assert_int_equal(strangers(l, 20000, 10), 0);
	lan_pass(l, 200 * UCCL_NS_PER_MS);
	one.nic.port = 2000;
	assert_non_null(conn_find(e, &one.nic, 5000000));
	assert_int_equal(strangers(l, 20000, 10), 10);
	assert_null(conn_find(e, &one.nic, 5000000));
	assert_int_equal(e->table.nhalf, 4096);
	/* That address has had its share, and its own oldest goes. */
	for (uint16_t k = 0; k < 20; k++) {
		one.nic.port = (uint16_t)(10000 + k);
		one.incarnation = 6000000 + k;
		assert_non_null(lan_attacker(l, 1, &one, true));
	}
	a = stranger(1);
	assert_non_null(conn_find(e, &a.nic, a.incarnation));
	assert_int_equal(e->table.nhalf, 4096);
	assert_int_equal(e->conns.n, 4096);
	/* Who talks is none of them. */
	lan_talk(l);
	lan_free(l);
}

/* Those who take no grant of 0 cannot keep others from theirs. PROTOCOL R180 */
TEST(half__bounded)
{
	half_bounded(false);
	half_bounded(true);
}

/*
 * Those that have said something are bounded, too: from one address, and in all, so that there is room for whom this
 * side asks for. PROTOCOL R135
 */
LAN_TEST(half__not_all_of_the_table, lan_new_keyless(2))
{
	struct uccl_engine *e = l->node[1].e;
	struct uccl_addr one = stranger(0), mine = stranger(1 << 20);
	struct conn *c;
	uint32_t n;

	one.nic.port = 1;
	c = lan_attacker(l, 1, &one, true);
	assert_non_null(c);
	conn_wake(c, l->now);
	assert_true(c->peer.open);
	assert_int_equal(c->entry.source->n, 1);
	c->entry.source->n = CONNS_MAX / 8;
	one.nic.port++;
	one.incarnation++;
	assert_null(lan_attacker(l, 1, &one, true));
	assert_true(from(l, 1));
	/* What has ended does not count. */
	c->entry.source->n = 1;
	conn_fail(c, FI_ECONNABORTED, l->now);
	assert_null(c->entry.source);
	assert_non_null(lan_attacker(l, 1, &one, true));
	n = e->conns.n;
	e->conns.n = CONNS_MAX / 8 * 7;
	assert_false(from(l, 2));
	assert_non_null(uccl_engine_peer(e, &mine, true));
	e->conns.n = n + 1;
	assert_true(from(l, 2));
}

static enum lan_verdict mute(struct lan *l, const struct lan_event *ev)
{
	return ev->from == 0 && (ev->type == UCCL_PKT_PROBE || ev->type >= UCCL_PKT_CHUNK) ? LAN_DROP : LAN_PASS;
}

/* Node 0 has connected to node 1, and what it says is lost. */
static struct lan *muted(void)
{
	static uint8_t src[1];
	struct lan *l = lan_new_keyless(2);

	l->filter = mute;
	assert_int_equal(lan_send(l, 0, 1, src, 1, LAN_CTX(1)), 0);
	lan_run(l, UCCL_NS_PER_MS);
	assert_int_equal(l->node[1].e->table.nhalf, 1);
	return l;
}

/* One that was alive, and late, hears that it has to give way. PROTOCOL R135 */
TEST(half__told)
{
	struct lan *l = muted();

	l->node[0].asleep = true;
	lan_pass(l, 3 * UCCL_NS_PER_S);
	l->node[1].nic->room = 0; /* the answer to the first of them waits */
	assert_int_equal(strangers(l, 1, 4095), 4095);
	l->now += 3 * UCCL_NS_PER_S;
	assert_int_equal(strangers(l, 5000, 10), 10);
	l->node[1].nic->room = -1;
	lan_run(l, UCCL_NS_PER_MS);
	lan_free(l);
	l = muted();
	l->node[0].asleep = true;
	lan_pass(l, 3 * UCCL_NS_PER_S);
	assert_int_equal(strangers(l, 1, 4100), 4095 + 1);
	l->node[0].asleep = false;
	lan_run(l, UCCL_NS_PER_S);
	lan_expect(l, 0, LAN_CTX(1), FI_ECONNABORTED);
	lan_free(l);
}

/* The first word may be lost and said again, or be the last. */
LAN_TEST(half__first_word, muted())
{
	uint8_t dst[1];

	lan_recv(l, 1, dst, 1, LAN_CTX(2));
	lan_pass(l, 100 * UCCL_NS_PER_MS);
	l->filter = NULL;
	lan_run(l, UCCL_NS_PER_S);
	lan_expect(l, 0, LAN_CTX(1), 0);
	lan_expect(l, 1, LAN_CTX(2), 0);
	assert_int_equal(l->node[1].e->table.nhalf, 0);
}

/* It closes before its first word, or we do: the other hears of it. */
TEST(half__closed)
{
	struct lan *l = muted();

	uccl_flow_close(&lan_conn(l, 0, 1)->peer.flow, l->now);
	engine_ready(lan_conn(l, 0, 1));
	lan_run(l, 100 * UCCL_NS_PER_MS);
	assert_int_equal(lan_conn(l, 0, 1)->peer.flow.close.state, UCCL_FLOW_CLOSED);
	assert_int_equal(l->node[1].e->table.nhalf, 0);
	assert_int_equal(lan_stats(l, 1)->peers_closed, 1);
	assert_int_equal(lan_stats(l, 1)->connects, 0);
	lan_free(l);
	l = muted();
	uccl_engine_drain(l->node[1].e, l->now);
	assert_int_equal(l->node[1].e->table.nhalf, 0);
	assert_true(uccl_engine_drained(l->node[1].e));
	lan_run(l, 100 * UCCL_NS_PER_MS);
	lan_expect(l, 0, LAN_CTX(1), FI_ECONNABORTED);
	lan_free(l);
}

/* The NIC is gone, and the endpoint closes: they go too. */
TEST(half__ends)
{
	struct lan *l = lan_new_keyless(2);

	assert_int_equal(strangers(l, 1, 10), 10);
	conn_link(l->node[1].e, UCCL_LINK_GONE, l->now);
	assert_int_equal(l->node[1].e->table.nhalf, 0);
	lan_free(l);
	l = lan_new_keyless(2);
	assert_int_equal(strangers(l, 1, 10), 10);
	lan_free(l);
}

/* Handshakes of 100 strangers, the best time of several. */
static double accept_cost(struct lan *l, uint32_t *at)
{
	double best = 1e9;

	for (int k = 0; k < 5; k++) {
		double begin = lan_cpu_s();

		assert_int_equal(strangers(l, *at, 100), 100);
		best = fmin(best, lan_cpu_s() - begin);
		*at += 100;
	}
	return best;
}

/* However many connections there are, one more costs the same. PROTOCOL R135 */
LAN_TEST(half__cost, lan_new_keyless(2))
{
	uint32_t at = 1;
	double few = accept_cost(l, &at), many;

	while (at < 10000) {
		struct uccl_addr a = stranger(at++);

		assert_non_null(conn_new(l->node[1].e, &a, true));
	}
	many = accept_cost(l, &at);
	print_message("%.2f us for a handshake with few, %.2f us with 10,000\n", few * 1e4, many * 1e4);
	assert_true(many < 20 * few);
}

TESTS_MAIN
