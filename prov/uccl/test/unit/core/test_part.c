/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Chunks in parts: trains that are chunks, by two flows over a network that loses, doubles and reorders packets. */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "core/internal.h"
#include "policy/policies.h"

#define KIB 1024u
#define MS UCCL_NS_PER_MS
#define PACKET 1000u

static struct pair p;

static struct uccl_flow *tx(void)
{
	return &p.side[0].f;
}

static const struct uccl_stats *stats(int side)
{
	return &p.side[side].stats;
}

/* Trains of so many packets of 1000 bytes of payload. */
static struct pair_cfg trains(uint32_t packets)
{
	struct pair_cfg c = pair_packets();

	c.chunk_bytes = PACKET;
	c.mtu = UCCL_HDR_LEN + PACKET;
	c.train_bytes = packets * PACKET;
	c.parts = true;
	return c;
}

static void start(uint32_t packets)
{
	struct pair_cfg c = trains(packets);

	pair_init(&p, &c);
}

/* A train is one chunk: one number, one entry, one path, packets with numbers in a row. */
static void tx__a_train_is_a_chunk(void **state)
{
	uint32_t n = 0, seq = 0;
	uint16_t path = 0;
	struct uccl_tx t;

	(void)state;
	start(40);
	pair_bulk(&p, 0, 40 * PACKET);
	while (uccl_flow_tx(tx(), &t, p.now)) {
		assert_int_equal(t.hdr[3], UCCL_PKT_PART);
		assert_int_equal(uccl_get32(t.hdr + 16), (uint32_t)tx()->sent.una);
		assert_int_equal(t.hdr[32 + 24], n);
		assert_int_equal(t.hdr[32 + 25], 40);
		assert_int_equal(t.payload_len, PACKET);
		assert_int_equal(t.tail_len, 0);
		assert_false(t.single);
		assert_int_equal(t.burst, n == 0);
		if (n) {
			assert_int_equal(t.path, path);
			assert_int_equal(uccl_get32(t.hdr + 20), seq + 1);
		}
		assert_int_equal(t.hdr[4], n == 39 ? UCCL_FLAG_AR : 0);
		path = t.path;
		seq = uccl_get32(t.hdr + 20);
		n++;
	}
	assert_int_equal(n, 40);
	assert_int_equal(tx()->sent.nxt - tx()->sent.una, 1);
	assert_int_equal(tx()->sent.inflight_bytes, 40 * PACKET);
	assert_int_equal(uccl_sent_packets(&tx()->sent), 40);
	assert_int_equal(tx()->sent.numbers - tx()->sent.una, 40);
	pair_fini(&p);
}

/* Of each number of parts that a peer may take, and none. PROTOCOL R170 */
static void tx__no_more_than_it_takes(void **state)
{
	(void)state;
	for (uint8_t most = 0; most <= UCCL_PART_COUNT; most++) {
		struct uccl_tx t;

		start(40);
		tx()->cfg.parts_tx = most;
		pair_bulk(&p, 0, 100 * PACKET);
		while (uccl_flow_tx(tx(), &t, p.now)) {
			assert_true(most > 1 || t.hdr[3] == UCCL_PKT_CHUNK);
			if (t.hdr[3] == UCCL_PKT_PART)
				assert_in_range(t.hdr[32 + 25], 2, most);
		}
		pair_fini(&p);
	}
}

/* Each part takes a place of the receive queue. PROTOCOL R172 */
static void tx__parts_take_slots(void **state)
{
	(void)state;
	for (uint16_t slots = 1; slots <= 70; slots++) {
		struct pair_cfg c = trains(64);
		struct uccl_tx t;
		uint32_t n = 0;

		c.slots = slots;
		pair_init(&p, &c);
		pair_bulk(&p, 0, 200 * PACKET);
		while (uccl_flow_tx(tx(), &t, p.now)) {
			assert_int_equal(uccl_flow_check(tx()), 0);
			n++;
		}
		assert_int_equal(n, slots);
		assert_int_equal(uccl_sent_packets(&tx()->sent), slots);
		assert_true(pair_finish(&p, UCCL_NS_PER_S));
		assert_int_equal(uccl_sent_packets(&tx()->sent), 0);
		pair_fini(&p);
	}
}

/* Where trains are in doubt, or do not pass, each packet is a chunk. PROTOCOL R161 */
static void tx__no_trains(void **state)
{
	struct uccl_tx t;

	(void)state;
	start(40);
	tx()->train.state = UCCL_TRAINS_OFF;
	tx()->train.at = UCCL_NEVER;
	pair_bulk(&p, 0, 100 * PACKET);
	while (uccl_flow_tx(tx(), &t, p.now)) {
		assert_int_equal(t.hdr[3], UCCL_PKT_CHUNK);
		assert_true(t.single);
	}
	pair_fini(&p);
}

static uint64_t some_credit(const void *cs)
{
	(void)cs;
	return 2500;
}

/* A credit of any size lets one packet go, not a train. PROTOCOL R172 */
static void tx__no_more_than_credit(void **state)
{
	static const struct uccl_credit_ops ops = {.name = "some", .limit = some_credit};
	struct pair_cfg c = trains(40);
	struct uccl_tx t;
	uint32_t sum = 0;

	(void)state;
	c.credit = &ops;
	pair_init(&p, &c);
	pair_bulk(&p, 0, 100 * PACKET);
	while (uccl_flow_tx(tx(), &t, p.now) && t.hdr[3] != UCCL_PKT_DEMAND)
		sum += t.payload_len;
	assert_int_equal(sum, 3 * PACKET);
	pair_fini(&p);
}

/* Acknowledged, or forged to be, while it leaves: nothing more of it is read. PROTOCOL R16 */
static void tx__acknowledged_while_it_leaves(void **state)
{
	struct uccl_hdr h = {.type = UCCL_PKT_ACK};
	struct pair_obj *o;
	struct uccl_ack a;
	struct uccl_tx t;

	(void)state;
	start(8);
	o = pair_bulk(&p, 0, 8 * PACKET);
	for (int i = 0; i < 3; i++)
		assert_int_equal(uccl_flow_tx(tx(), &t, p.now), 1);
	a = pair_ack(&p, 0, tx()->sent.nxt);
	pair_feed(&p, 0, &h, NULL, &a);
	assert_true(o->acked);
	assert_int_equal(uccl_flow_tx(tx(), &t, p.now), 0);
	pair_fini(&p);
}

/* Packets get shorter while a train leaves: what did not leave comes later. PROTOCOL R153 */
static void tx__shorter_while_it_leaves(void **state)
{
	struct pair_cfg c = trains(8);
	struct uccl_tx t;

	(void)state;
	c.chunk_bytes = 4900;
	c.mtu = UCCL_HDR_LEN + 4900;
	c.train_bytes = 8 * 4900;
	c.find_mtu = true;
	pair_init(&p, &c);
	pair_bulk(&p, 0, 8 * 4900);
	for (int i = 0; i < 3; i++)
		assert_int_equal(uccl_flow_tx(tx(), &t, p.now), 1);
	uccl_flow_mtu_told(tx(), 2000, p.now);
	assert_int_equal(tx()->sent.inflight_bytes, 3 * 4900);
	assert_int_equal(tx()->paths.list[t.path].inflight, 3 * 4900);
	assert_int_equal(uccl_sent_packets(&tx()->sent), 3);
	assert_true(pair_finish(&p, UCCL_NS_PER_S));
	assert_true(stats(0)->pieces_tx > 0);
	pair_fini(&p);
}

/* Drops the parts of the first transmission that are set in *arg. */
static void drop_some(struct pair *q, struct pair_pkt *k)
{
	uint64_t map = *(uint64_t *)q->arg;

	if (k->to == 1 && k->kind == UCCL_RX_PACKET && k->h.type == UCCL_PKT_PART && !(k->h.flags & UCCL_FLAG_RTX) &&
	    map >> k->h.rec[24] & 1)
		k->fate = PAIR_DROP;
	if (k->to == 1 && k->kind == UCCL_RX_PACKET && k->h.type == UCCL_PKT_PART && k->h.flags & UCCL_FLAG_RTX)
		q->count++;
}

/* Whatever parts of a train are lost: these are sent again, once each, by themselves, and no others. PROTOCOL R171 */
static void rtx__missing_parts_only(void **state)
{
	(void)state;
	for (uint64_t map = 0; map < 1 << 8; map++) {
		uint64_t began;

		start(8);
		p.filter = drop_some;
		p.arg = &map;
		began = p.now;
		pair_bulk(&p, 0, 7 * PACKET + 500);
		assert_true(pair_finish(&p, UCCL_NS_PER_S));
		assert_int_equal(p.count, __builtin_popcountll(map));
		assert_int_equal(stats(0)->rtx_packets, p.count);
		assert_int_equal(p.side[1].f.owed.dups, 0);
		/* As long as the last one came, no timer is needed. */
		if (!(map >> 7))
			assert_in_range(p.now - began, 0, 10 * p.cfg.delay_ns);
		pair_fini(&p);
	}
}

/* The same of 64 parts, by chance. */
static void rtx__of_many(void **state)
{
	struct uccl_rng rng;

	(void)state;
	uccl_rng_seed(&rng, 1);
	for (int i = 0; i < 100; i++) {
		uint64_t map = uccl_rng_next(&rng) & uccl_rng_next(&rng);

		start(64);
		p.filter = drop_some;
		p.arg = &map;
		pair_bulk(&p, 0, 64 * PACKET);
		assert_true(pair_finish(&p, UCCL_NS_PER_S));
		assert_int_equal(p.count, __builtin_popcountll(map));
		pair_fini(&p);
	}
}

/* What is sent again is lost again, once: a part that a block has named since stays where it is. PROTOCOL R171 */
static void drop_twice(struct pair *q, struct pair_pkt *k)
{
	static const uint64_t first = 1 << 2 | 1 << 5;

	if (k->to != 1 || k->kind != UCCL_RX_PACKET || k->h.type != UCCL_PKT_PART)
		return;
	if (!(k->h.flags & UCCL_FLAG_RTX)) {
		k->fate = first >> k->h.rec[24] & 1 ? PAIR_DROP : PAIR_PASS;
		return;
	}
	PAIR_CHECK(k->h.rec[24] == 2 || k->h.rec[24] == 5);
	PAIR_CHECK(k->h.rec[24] == 2 || q->count < 2);
	k->fate = q->count++ == 0 ? PAIR_DROP : PAIR_PASS;
}

static void rtx__named_before(void **state)
{
	(void)state;
	start(8);
	p.filter = drop_twice;
	pair_bulk(&p, 0, 8 * PACKET);
	assert_true(pair_finish(&p, UCCL_NS_PER_S));
	assert_int_equal(p.count, 3);
	assert_int_equal(p.side[1].f.owed.dups, 0);
	pair_fini(&p);
}

/* What is lost, and sent again, are the parts, not the chunk. PROTOCOL R172 */
static void rtx__counts_what_is_lost(void **state)
{
	uint64_t map = 1 << 1 | 1 << 3 | 1 << 7;

	(void)state;
	start(8);
	p.filter = drop_some;
	p.arg = &map;
	pair_bulk(&p, 0, 7 * PACKET + 500);
	pair_bulk(&p, 0, 7 * PACKET);
	assert_true(pair_finish(&p, UCCL_NS_PER_S));
	assert_int_equal(tx()->credit.lost, 938 + 938 + 934 + 2 * PACKET);
	assert_int_equal(stats(0)->rtx_bytes, tx()->credit.lost);
	assert_int_equal(stats(0)->tx_bytes, 14 * PACKET + 500);
	assert_int_equal(stats(1)->rx_bytes, 14 * PACKET + 500);
	pair_fini(&p);
}

static void few_at_a_time(struct pair *q, struct pair_pkt *k)
{
	if (k->to != 1 || k->kind != UCCL_RX_PACKET || k->h.type != UCCL_PKT_PART)
		return;
	if (!(k->h.flags & UCCL_FLAG_RTX)) {
		k->fate = PAIR_DROP;
		return;
	}
	PAIR_CHECK(uccl_sent_packets(&q->side[0].f.sent) <= 5);
	q->count++;
}

/* Of many that are lost as many leave at a time as there are slots for. PROTOCOL R172 */
static void rtx__few_slots(void **state)
{
	(void)state;
	start(40);
	p.filter = few_at_a_time;
	pair_bulk(&p, 0, 40 * PACKET);
	pair_pump(&p);
	tx()->granted.slots = 5;
	p.side[1].f.cfg.slots_rx = 5;
	assert_true(pair_finish(&p, UCCL_NS_PER_S));
	assert_int_equal(p.count, 40);
	pair_fini(&p);
}

static void only_losses(struct pair *q, struct pair_pkt *k)
{
	if (k->h.type == UCCL_PKT_PART && k->h.flags & UCCL_FLAG_RTX && k->kind == UCCL_RX_PACKET)
		PAIR_CHECK(k->single);
	(void)q;
}

/* With every fault of a network at once, both ways, records between. PROTOCOL R170 */
static void all__bad_network(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct pair_cfg c = trains(2 + (uint32_t)seed % 63);

		c.slots = (uint16_t)(1 + seed * seed % 200);
		c.csn[0] = UINT32_MAX - 5;
		c.paths = (uint16_t)(1 + seed % 8);
		c.cc = seed % 2 ? &uccl_cc_swift : &uccl_cc_cubic;
		c.credit = seed % 3 == 1 ? &uccl_credit_window : seed % 3 ? &uccl_credit_eqds : &uccl_credit_none;
		c.link_bps = 1000000000;
		pair_init(&p, &c);
		uccl_rng_seed(&p.rng, seed);
		p.filter = only_losses;
		p.faults.loss = seed % 5 * 0.02;
		p.faults.dup = 0.05;
		p.faults.reorder = 0.1;
		p.faults.reorder_ns = 100 * UCCL_NS_PER_US;
		for (int i = 0; i < 40; i++) {
			pair_record(&p, i % 2, (uint32_t)uccl_rng_below(&p.rng, PACKET + 1));
			if (i % 10 == 0)
				pair_bulk(&p, i % 20 == 0, (uint32_t)(1 + uccl_rng_below(&p.rng, 200 * KIB)));
		}
		assert_true(pair_finish(&p, 60 * UCCL_NS_PER_S));
		pair_fini(&p);
	}
}

/* Nothing longer than *arg arrives at side 1. */
static void narrow(struct pair *q, struct pair_pkt *k)
{
	if (k->to == 1 && k->kind == UCCL_RX_PACKET && k->len > *(uint32_t *)q->arg)
		k->fate = PAIR_DROP;
}

/* The way gets narrower than the parts under way: they come in pieces. PROTOCOL R153 */
static void rtx__parts_in_pieces(void **state)
{
	static const uint32_t networks[] = {4000, 1472, 1280, 1200, 600};

	(void)state;
	for (int i = 0; i < 5; i++) {
		uint32_t network = networks[i];
		struct pair_cfg c = pair_packets();

		c.chunk_bytes = 4900;
		c.mtu = UCCL_HDR_LEN + 4900;
		c.find_mtu = true;
		c.parts = true;
		c.train_bytes = 12 * 4900;
		pair_init(&p, &c);
		p.filter = narrow;
		p.arg = &network;
		pair_bulk(&p, 0, 1000 * KIB);
		assert_true(pair_finish(&p, 2 * UCCL_NS_PER_S));
		assert_in_range(tx()->pmtu.bytes, UCCL_PMTU_LEAST, network);
		assert_true(stats(0)->pieces_tx && stats(1)->pieces_rx);
		pair_bulk(&p, 0, 10000 * KIB);
		assert_true(pair_finish(&p, UCCL_NS_PER_S));
		assert_in_range(tx()->pmtu.bytes, network - UCCL_PMTU_STEP, network);
		pair_fini(&p);
	}
}

/* A made-up part arrives at side 1. */
static void feed(uint64_t csn, uint8_t index, uint8_t count, uint32_t total, uint32_t len)
{
	static const uint8_t payload[9000];
	struct uccl_chunk_part part = {.index = index, .count = count, .total = total};
	uint8_t rec[UCCL_REC_LEN] = {0};
	struct uccl_hdr h = {.type = UCCL_PKT_PART, .rtype = PAIR_RAW, .csn = (uint32_t)csn, .rec = rec};

	h.payload_len = (uint16_t)len;
	uccl_part_encode(rec, &part);
	pair_feed(&p, 1, &h, payload, NULL);
}

/* A block may name only parts that were sent. PROTOCOL R18 */
static void ack_rx__lies_about_parts(void **state)
{
	struct uccl_hdr h = {.type = UCCL_PKT_ACK};
	struct uccl_ack a;
	struct uccl_tx t;
	uint64_t csn;

	(void)state;
	start(8);
	csn = tx()->sent.una;
	pair_bulk(&p, 0, 8 * PACKET);
	while (uccl_flow_tx(tx(), &t, p.now))
		;
	pair_record(&p, 0, 10);
	assert_int_equal(uccl_flow_tx(tx(), &t, p.now), 1);
	a = pair_ack(&p, 0, csn);
	a.nparts = 1;
	for (int i = 0; i < 4; i++) {
		static const struct uccl_ack_parts lies[] = {{2, 1}, {1, 1}, {0, 1 << 8}, {UINT16_MAX, 1}};

		a.parts[0] = lies[i];
		h.pseq = 0;
		pair_feed(&p, 0, &h, NULL, &a);
		assert_int_equal(pair_dropped(&p, 0, UCCL_DROP_ACK), i + 1);
		assert_int_equal(tx()->sent.inflight_bytes, 8 * PACKET + 10);
	}
	a.parts[0] = (struct uccl_ack_parts){0, 1 << 7 | 1};
	h.pseq = 0;
	pair_feed(&p, 0, &h, NULL, &a);
	assert_int_equal(tx()->sent.inflight_bytes, 6 * PACKET + 10);
	/* All of them are the chunk. */
	a.parts[0].have = 0xff;
	h.pseq = 0;
	pair_feed(&p, 0, &h, NULL, &a);
	assert_int_equal(tx()->sent.inflight_bytes, 10);
	assert_int_equal(tx()->sent.una, csn + 1);
	pair_fini(&p);
}

/* Parts that do not fit their own numbers, or those that came before. PROTOCOL R170 */
static void part_rx__malformed(void **state)
{
	struct uccl_hdr whole = {.type = UCCL_PKT_CHUNK, .rtype = PAIR_RAW, .payload_len = 100};
	static const uint8_t payload[900], rec[UCCL_REC_LEN];
	uint64_t csn;

	(void)state;
	start(8);
	csn = p.side[1].f.rcv.nxt;
	feed(csn, 0, 0, 100, 100);
	feed(csn, 0, 1, 100, 100);
	feed(csn, 2, 2, 100, 50);
	feed(csn, 0, 65, 6500, 100);
	feed(csn, 0, 2, 100, 49);
	feed(csn, 0, 2, 100, 51);
	feed(csn, 1, 2, 99, 50);
	feed(csn, 1, 2, 100, 0);
	feed(csn, 3, 4, 5, 1); /* nothing is left for the last */
	feed(csn, 0, 2, UINT32_MAX, 100);
	feed(csn, 1, 2, 2 * UINT16_MAX + 1, 1);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_RECORD), 11);
	assert_int_equal(p.side[1].f.nrx_parts, 0);
	feed(csn, 0, 2, 100, 50);
	assert_int_equal(p.side[1].f.nrx_parts, 1);
	feed(csn, 1, 4, 100, 25);
	feed(csn, 1, 2, 99, 49);
	whole.csn = (uint32_t)csn;
	whole.rec = rec;
	pair_feed(&p, 1, &whole, payload, NULL);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_RECORD), 14);
	feed(csn, 0, 2, 100, 50);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_DUPLICATE), 1);
	assert_int_equal(p.side[1].raw_bytes, 50);
	feed(csn, 1, 2, 100, 50);
	assert_int_equal(p.side[1].raw_bytes, 100);
	assert_int_equal(p.side[1].f.nrx_parts, 0);
	assert_int_equal(p.side[1].f.rcv.nxt, csn + 1);
	pair_fini(&p);
}

/* What could not be taken is not named, and comes again. PROTOCOL R41 */
static void part_rx__no_memory_comes_again(void **state)
{
	(void)state;
	start(8);
	p.refuse = pair_refuse_some;
	p.refusals = 11;
	pair_bulk(&p, 0, 8 * PACKET);
	assert_true(pair_finish(&p, UCCL_NS_PER_S));
	assert_int_equal(p.refusals, 0);
	p.refusals = 1;
	feed(p.side[1].f.rcv.nxt, 1, 2, 100, 50);
	assert_int_equal(p.side[1].f.nrx_parts, 1);
	p.side[1].f.owed.now = true;
	pair_pump(&p);
	assert_int_equal(p.wire[0]->h.tail_len % 16, 0);
	pair_lose(&p, 0);
	pair_fini(&p);
}

/* A part is missing before another: that is told soon. */
static void part_rx__gap(void **state)
{
	(void)state;
	start(8);
	feed(p.side[1].f.rcv.nxt, 0, 8, 800, 100);
	assert_true(p.side[1].f.owed.at == p.now + 100 * UCCL_NS_PER_US);
	feed(p.side[1].f.rcv.nxt, 2, 8, 800, 100);
	assert_true(p.side[1].f.owed.at == p.now + 20 * UCCL_NS_PER_US);
	pair_fini(&p);
}

/* A made-up piece of a part arrives at side 1: half of 100 bytes, which are part `part` - 1 of 2. */
static void feed_piece(uint64_t csn, uint8_t part, uint8_t index)
{
	static const uint8_t payload[50];
	const struct uccl_chunk_part of = {.index = (uint8_t)(part - 1), .count = 2, .total = 200};
	uint8_t whole[UCCL_REC_LEN] = {0}, rec[UCCL_REC_LEN];
	struct uccl_piece piece = {.index = index, .count = 2, .part = part, .total = 100,
				   .half = whole + index * UCCL_PIECE_REC};
	struct uccl_hdr h = {.type = UCCL_PKT_PIECE, .rtype = PAIR_RAW, .csn = (uint32_t)csn, .payload_len = 50};

	if (part)
		uccl_part_encode(whole, &of);
	uccl_piece_encode(rec, &piece);
	h.rec = rec;
	pair_feed(&p, 1, &h, payload, NULL);
}

/* Pieces of several parts of a chunk, of one that came, and of a chunk that comes in parts. PROTOCOL R153 R170 */
static void part_rx__pieces(void **state)
{
	uint64_t csn;

	(void)state;
	start(8);
	csn = p.side[1].f.rcv.nxt;
	feed_piece(csn, 2, 0);
	feed_piece(csn, 1, 1);
	feed_piece(csn, 2, 1);
	assert_int_equal(p.side[1].raw_bytes, 100);
	assert_int_equal(p.side[1].f.pieces.n, 1);
	feed_piece(csn, 2, 0);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_DUPLICATE), 1);
	assert_int_equal(p.side[1].f.owed.dups, 0);
	assert_int_equal(p.side[1].f.pieces.n, 1);
	feed_piece(csn, 0, 0);
	feed_piece(csn, 0, 1);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_RECORD), 1);
	assert_int_equal(p.side[1].f.pieces.n, 1);
	feed_piece(csn, 1, 0);
	assert_int_equal(p.side[1].raw_bytes, 200);
	assert_int_equal(p.side[1].f.rcv.nxt, csn + 1);
	assert_int_equal(p.side[1].f.pieces.n, 0);
	pair_fini(&p);
}

/* Who did not say that it takes parts takes none. */
static void part_rx__not_expected(void **state)
{
	struct pair_cfg c = pair_packets();

	(void)state;
	pair_init(&p, &c);
	feed(p.side[1].f.rcv.nxt, 0, 2, 100, 50);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_STATE), 1);
	pair_fini(&p);
}

/* There is room for sixteen chunks in a block: the earliest. PROTOCOL R171 */
static void tell__the_earliest(void **state)
{
	struct uccl_ack a;
	uint64_t csn;
	int i;

	(void)state;
	start(8);
	csn = p.side[1].f.rcv.nxt;
	for (uint8_t k = 20; k--;)
		feed(csn + 3u * k, (uint8_t)(k % 2), 2, 100, 50);
	feed(csn + 6, 1, 2, 100, 50);
	p.side[1].f.owed.now = true;
	pair_pump(&p);
	i = pair_find(&p, 0, UCCL_PKT_ACK);
	assert_true(i >= 0);
	assert_int_equal(uccl_ack_decode(&a, p.wire[i]->data + UCCL_HDR_LEN, p.wire[i]->h.tail_len), UCCL_DROP_COUNT);
	assert_int_equal(a.cum, (uint32_t)csn);
	assert_int_equal(a.nwords, 1);
	assert_int_equal(a.sack[0], 1 << 5);
	assert_int_equal(a.nparts, UCCL_ACK_PARTS_MAX);
	for (int k = 0; k < UCCL_ACK_PARTS_MAX; k++) {
		int at = k < 2 ? k : k + 1; /* the third is whole */

		assert_int_equal(a.parts[k].ahead, 3 * at);
		assert_int_equal(a.parts[k].have, 1 << at % 2);
	}
	pair_lose(&p, (uint32_t)i);
	pair_fini(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tx__a_train_is_a_chunk),
		cmocka_unit_test(tx__no_more_than_it_takes),
		cmocka_unit_test(tx__parts_take_slots),
		cmocka_unit_test(tx__no_trains),
		cmocka_unit_test(tx__no_more_than_credit),
		cmocka_unit_test(tx__acknowledged_while_it_leaves),
		cmocka_unit_test(tx__shorter_while_it_leaves),
		cmocka_unit_test(rtx__missing_parts_only),
		cmocka_unit_test(rtx__of_many),
		cmocka_unit_test(rtx__named_before),
		cmocka_unit_test(rtx__counts_what_is_lost),
		cmocka_unit_test(rtx__few_slots),
		cmocka_unit_test(all__bad_network),
		cmocka_unit_test(rtx__parts_in_pieces),
		cmocka_unit_test(ack_rx__lies_about_parts),
		cmocka_unit_test(part_rx__malformed),
		cmocka_unit_test(part_rx__no_memory_comes_again),
		cmocka_unit_test(part_rx__gap),
		cmocka_unit_test(part_rx__pieces),
		cmocka_unit_test(part_rx__not_expected),
		cmocka_unit_test(tell__the_earliest),
	};

	return cmocka_run_group_tests_name("part", tests, NULL, NULL);
}
