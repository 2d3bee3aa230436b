/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../lan.h"
#include "../../tests.h"
#include "base/slot_unit.h"

#define MS UCCL_NS_PER_MS
#define SECOND UCCL_NS_PER_S

static uint8_t src[1 << 18], dst[1 << 18];

static struct uccl_grant *grant_of(struct lan *l, int i)
{
	return &lan_conn(l, 1, i)->slots.grant;
}

/* Node 1 never promises more than its queue holds, and no peer uses more than node 1 counts. PROTOCOL R20 R142 */
static void slots_check(struct lan *l)
{
	uint32_t sum = 0;

	for (int i = 0; i < LAN_NODES; i++)
		if (i != 1 && l->node[i].e && lan_conn(l, 1, i) && lan_conn(l, 1, i)->peer.open) {
			sum += grant_of(l, i)->believed;
			if (lan_conn(l, i, 1)->peer.open)
				assert_true(lan_conn(l, i, 1)->peer.flow.limits.slots <= grant_of(l, i)->believed);
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
TEST(slots__by_need)
{
	struct lan *l = lan_new_open(4);
	uint32_t alone;

	lan_talk(l);
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
	assert_int_equal(lan_conn(l, 0, 1)->peer.flow.limits.slots, grant_of(l, 0)->slots);
	assert_in_range(grant_of(l, 2)->believed, 2, 62);
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
LAN_TEST(slots__given_back, lan_new_open(4))
{
	uint32_t kept;

	for (int i = 0; i < 4; i++)
		if (i != 1)
			assert_int_equal(lan_send(l, i, 1, src, 10, LAN_CTX(1)), 0);
	lan_run(l, SECOND);
	slots_stream(l, 1, 20);
	kept = grant_of(l, 0)->believed;
	assert_true(kept > 400);
	lan_pass(l, SECOND);
	assert_int_equal(grant_of(l, 0)->believed, kept);
	/* It computes: nothing can be taken from it. */
	l->node[0].asleep = true;
	slots_stream(l, 4, 40);
	assert_int_equal(grant_of(l, 0)->believed, kept);
	assert_true(l->node[1].e->slots.queue.asked > 0);
	assert_true(grant_of(l, 2)->believed < 300);
	l->node[0].asleep = false;
	slots_stream(l, 4, 40);
	assert_true(grant_of(l, 0)->believed < 100);
	assert_true(grant_of(l, 2)->believed > 400);
}

/* Other endpoints of the process take a part of the queue. PROTOCOL R20 */
LAN_TEST(slots__smaller_queue, lan_new_open(3))
{
	lan_talk(l);
	slots_stream(l, 1, 20);
	assert_true(grant_of(l, 0)->believed > 600);
	l->node[1].e->nic->caps.rx_slots = 250;
	assert_int_equal(lan_send(l, 2, 1, src, 10, LAN_CTX(1)), 0);
	lan_run(l, 100 * MS);
	for (int k = 0; k < 3; k++) {
		lan_recv_from(l, 1, lan_peer(l, 1, 0), dst, 100, LAN_CTX(1));
		assert_int_equal(lan_send(l, 0, 1, src, 100, LAN_CTX(2)), 0);
		lan_run(l, 100 * MS);
	}
	assert_true(grant_of(l, 0)->believed + grant_of(l, 2)->believed <= 250);
	/* One of its packets takes as much of the queue as one of who came later. */
	assert_int_equal(grant_of(l, 0)->share.cost, grant_of(l, 2)->share.cost);
}

/* Fewer slots than peers: everything arrives, and no more is promised than there is. PROTOCOL R177 R179 */
TEST(slots__more_peers_than_slots)
{
	static const uint32_t holds[] = {4, 2, 1};

	for (int i = 0; i < 3; i++) {
		struct lan *l = lan_new_open(3);

		l->node[1].e->nic->caps.rx_slots = holds[i];
		lan_talk(l);
		slots_stream(l, 1 | 4, 2);
		assert_in_range(grant_of(l, 0)->believed + grant_of(l, 2)->believed, 1, holds[i]);
		assert_true(holds[i] > 1 || l->node[1].e->slots.queue.returned > 0);
		lan_free(l);
	}
}

static enum lan_verdict lose_probes(struct lan *l, const struct lan_event *ev)
{
	return (ev->type == UCCL_PKT_PROBE || ev->type == UCCL_PKT_ACK) && uccl_rng_chance(&l->rng, 0.5) ? LAN_DROP :
													   LAN_PASS;
}

/* Questions and answers are lost, one in two. PROTOCOL R179 */
TEST(slots__questions_lost)
{
	for (int seed = 0; seed < 5; seed++) {
		struct lan *l = lan_new_open(4);

		uccl_rng_seed(&l->rng, (uint64_t)seed);
		l->node[1].e->nic->caps.rx_slots = 1 + (uint32_t)seed % 2;
		for (int i = 0; i < 4; i++)
			if (i != 1) {
				lan_recv_from(l, 1, lan_peer(l, 1, i), dst, sizeof(dst), LAN_CTX(2));
				assert_int_equal(lan_send(l, i, 1, src, sizeof(src) / 8, LAN_CTX(1)), 0);
			}
		l->filter = lose_probes;
		for (uint64_t end = l->now + 100 * SECOND; l->node[1].ncomp < 3 && l->now < end;)
			if (!lan_round(l))
				l->now += 1000;
		assert_int_equal(l->node[1].ncomp, 3);
		lan_free(l);
	}
}

/* Who knows of no grant of 0 has one from the handshake on, whoever begins. PROTOCOL R180 */
TEST(slots__an_older_peer)
{
	for (int i = 0; i < 4; i++) {
		struct lan *l = lan_new_open(3);
		int from = i & 1, old = i & 2;

		l->node[1].e->nic->caps.rx_slots = 1;
		assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
		lan_recv(l, 1, dst, sizeof(dst), LAN_CTX(1));
		lan_run(l, SECOND);
		assert_int_equal(grant_of(l, 0)->believed, 1);
		/* Node 1 gets to know node 2 by a message from it, or to it. */
		lan_recv(l, 1, dst, sizeof(dst), LAN_CTX(2));
		lan_recv(l, 2, dst, sizeof(dst), LAN_CTX(2));
		assert_int_equal(lan_send(l, from ? 1 : 2, from ? 2 : 1, src, 10, LAN_CTX(3)), 0);
		lan_conn(l, 2, 1)->hs.mine.waits = !old;
		lan_run(l, 10 * MS);
		assert_int_equal(grant_of(l, 2)->need.never_zero, !!old);
		if (old) {
			assert_int_equal(grant_of(l, 2)->believed, 1);
			assert_int_equal(lan_conn(l, 1, 2)->hs.mine.slots, 1);
		}
		assert_true(l->node[2].ncomp > 0);
		lan_free(l);
	}
}

static uint32_t by_length(struct uccl_nic *nic, uint32_t bytes)
{
	return nic->caps.mtu * 5 / bytes;
}

/* One slot counts as what comes of a peer: after some short packets less, with the first long one in full. R247 */
TEST(slots__by_what_comes)
{
	struct lan *l = lan_new_open(3);
	struct uccl_nic *nic = l->node[1].e->nic;
	struct uccl_nic_ops ops = *nic->ops;
	uint32_t mtu = nic->caps.mtu;
	struct conn *c;

	ops.slots = by_length;
	nic->ops = &ops;
	lan_talk(l);
	c = lan_conn(l, 1, 0);
	c->slots.typical_len = mtu;
	c->slots.came = c->slots.longest = 0;
	c->slots.own_len = true;
	for (int i = 0; i < 16; i++) {
		assert_int_equal(c->slots.typical_len, mtu);
		assert_true(c->slots.grant.share.first_cost == c->slots.grant.share.cost);
		conn_slots_came(c, i % 2 ? 300 : 100);
	}
	assert_int_equal(c->slots.typical_len, 512);
	assert_true(c->slots.grant.share.first_cost < c->slots.grant.share.cost);
	assert_in_range(((uint64_t)1 << 32) / c->slots.grant.share.first_cost, mtu * 4 / 512 - 1, mtu * 4 / 512 + 1);
	/* Packets that came say so by themselves. */
	for (int i = 0; i < 2; i++) {
		lan_recv(l, 1, dst, sizeof(dst), LAN_CTX(2));
		assert_int_equal(lan_send(l, 0, 1, src, mtu - 200, LAN_CTX(1)), 0);
		lan_run(l, SECOND);
		assert_true(c->slots.typical_len > 16384);
		assert_in_range(c->slots.grant.share.cost, 1, c->slots.grant.share.first_cost);
	}
	lan_free(l);
}

/* Nodes whose queues are of bytes, as many of the longest packets as others have. */
static struct lan *bytes_open(int n)
{
	struct lan *l = lan_new_open(n);

	for (int i = 0; i < n; i++) {
		struct uccl_nic_caps *caps = &l->node[i].e->nic->caps;

		caps->queue.unit = 10;
		caps->queue.units = caps->rx_slots * uccl_slot_count(10, caps->mtu);
	}
	return l;
}

/* What node 1 counts for the others, in units of bytes, and they use no more. */
static void bytes_check(struct lan *l, int n)
{
	uint32_t sum = 0;

	for (int i = 0; i < n; i++) {
		if (i == 1 || !lan_conn(l, 1, i) || !lan_conn(l, 1, i)->peer.open)
			continue;
		assert_true(lan_conn(l, 1, i)->slots.units);
		sum += grant_of(l, i)->believed;
		assert_true(lan_conn(l, i, 1)->peer.flow.limits.slots <= grant_of(l, i)->believed);
	}
	assert_in_range(sum, 1, l->node[1].e->nic->caps.queue.units);
}

/* Where the queue is of bytes, slots are, too: a peer that sends has its part of them. PROTOCOL R20 R376 */
TEST(slots__bytes)
{
	struct lan *l = bytes_open(4);
	uint32_t units = l->node[1].e->nic->caps.queue.units, each = uccl_slot_count(10, LAN_MTU);

	lan_talk(l);
	/* The first grant is of the longest packets, and counts so. */
	assert_int_equal(conn_slots_granted(lan_conn(l, 0, 1)), lan_conn(l, 0, 1)->hs.theirs.slots * each);
	bytes_check(l, 4);
	for (int i = 0; i < 60; i++) {
		lan_recv(l, 1, dst, sizeof(dst), LAN_CTX(2));
		assert_int_equal(lan_send(l, 0, 1, src, sizeof(src), LAN_CTX(1)), 0);
	}
	for (int i = 0; i < 100; i++) {
		lan_pass(l, MS / 10);
		bytes_check(l, 4);
	}
	assert_in_range(grant_of(l, 0)->slots, units / 2, units * 3 / 4);
	assert_int_equal(lan_stats(l, 0)->rtx_packets, 0);
	lan_free(l);
}

/* So small a queue that the longest packet is a part of it: short ones of many peers fit all the same. */
TEST(slots__bytes_short_packets)
{
	struct lan *l = bytes_open(4);
	struct uccl_nic_caps *caps = &l->node[1].e->nic->caps;
	uint32_t packets;

	caps->rx_slots = 6;
	caps->queue.units = 6 * uccl_slot_count(10, LAN_MTU);
	lan_talk(l);
	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < 4; i++)
			if (i != 1) {
				lan_recv(l, 1, dst, 100, LAN_CTX(2));
				assert_int_equal(lan_send(l, i, 1, src, 100, LAN_CTX(1)), 0);
			}
		lan_pass(l, MS / 10);
	}
	bytes_check(l, 4);
	packets = lan_conn(l, 0, 1)->peer.flow.limits.slots / uccl_slot_count(10, 1024);
	assert_in_range(packets, 3, 100);
	lan_free(l);
}

/* The first slot of a peer that sent little counts as what others send, until it has sent enough. PROTOCOL R417 */
TEST(slots__as_others_send)
{
	struct lan *l = bytes_open(4);
	struct conn *busy, *fresh;
	uint64_t cost;

	lan_talk(l);
	lan_recv(l, 1, dst, 100, LAN_CTX(2));
	assert_int_equal(lan_send(l, 2, 1, src, 100, LAN_CTX(1)), 0);
	lan_pass(l, 10 * MS);
	busy = lan_conn(l, 1, 0);
	fresh = lan_conn(l, 1, 2);
	conn_slots_came(busy, 3000);
	assert_false(fresh->slots.own_len);
	cost = fresh->slots.grant.share.first_cost;
	for (int i = 0; i < 40; i++)
		conn_slots_came(busy, 100);
	assert_int_equal(fresh->slots.typical_len, 256);
	assert_true(fresh->slots.grant.share.first_cost < cost);
	/* A longer packet counts at once, shorter ones when there were some. */
	conn_slots_came(busy, 2000);
	assert_int_equal(fresh->slots.typical_len, 2048);
	for (int i = 0; i < 15; i++)
		conn_slots_came(busy, 100);
	assert_int_equal(fresh->slots.typical_len, 2048);
	/* What others send meanwhile does not begin its count anew, nor make its longest packet short. */
	for (int i = 0; i < 14; i++)
		conn_slots_came(fresh, i ? 200 : 1000);
	conn_slots_came(busy, 3000);
	for (int i = 0; i < 40; i++)
		conn_slots_came(busy, 100);
	assert_false(fresh->slots.own_len);
	assert_int_equal(fresh->slots.typical_len, 1024);
	conn_slots_came(fresh, 200);
	assert_true(fresh->slots.own_len);
	assert_int_equal(fresh->slots.typical_len, 1024);
	for (int i = 0; i < 16; i++)
		conn_slots_came(fresh, 200);
	assert_int_equal(fresh->slots.typical_len, 256);
	conn_slots_came(busy, 3000);
	assert_int_equal(fresh->slots.typical_len, 256);
	bytes_check(l, 4);
	lan_free(l);
}

/* A peer that does not know of units counts packets, and is granted so many. */
TEST(slots__bytes_older_peer)
{
	struct lan *l = bytes_open(3);

	lan_recv(l, 1, dst, sizeof(dst), LAN_CTX(1));
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	lan_conn(l, 0, 1)->hs.mine.units = false;
	lan_run(l, 10 * MS);
	assert_false(lan_conn(l, 1, 0)->slots.units);
	assert_int_equal(lan_conn(l, 1, 0)->peer.flow.cfg.wire.unit_rx, 0);
	assert_in_range(grant_of(l, 0)->believed, 1, l->node[1].e->nic->caps.rx_slots);
	lan_free(l);
}

TESTS_MAIN
