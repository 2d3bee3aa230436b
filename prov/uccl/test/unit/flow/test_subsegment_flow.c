/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Chunks in sub-segments: two flows and a network that carries less than both hosts. */
#include "one_pair.h"
#include "../tests.h"

#define ODD (8001 * KIB - 1) /* bytes */

/* Chunks of 8 KiB; the network towards side 1 carries *arg bytes, nothing that is longer arrives. */
static void narrow(struct pair *q, struct pair_pkt *k)
{
	if (k->to == 1 && k->kind == UCCL_RX_PACKET && k->len > *(uint32_t *)q->arg)
		k->fate = PAIR_DROP;
}

static void start_narrow(uint32_t *network)
{
	struct pair_cfg c = pair_packets();

	c.chunk_bytes = 8192;
	c.mtu = UCCL_HDR_LEN + 8192;
	c.find_mtu = true;
	pair_init(&p, &c);
	p.filter = narrow;
	p.arg = network;
}

/* A transfer through it ends, and soon; afterwards packets are as long as the network allows, nearly. */
TEST_IN(rx__black_hole, NULL, end)
{
	static const uint32_t networks[] = {8255, 4000, 1472, 1280, 1200, 600};

	for (int i = 0; i < 6; i++) {
		uint32_t network = networks[i];
		uint64_t began;

		start_narrow(&network);
		began = p.now;
		pair_bulk(&p, 0, 1000 * KIB);
		assert_true(pair_finish(&p, UCCL_NS_PER_S));
		assert_in_range(p.now - began, 0, 300 * MS);
		assert_in_range(tx()->pmtu.bytes, UCCL_PMTU_LEAST, network);
		assert_true(stats(0)->subsegments_tx && stats(1)->subsegments_rx);
		pair_bulk(&p, 0, 20000 * KIB);
		assert_true(pair_finish(&p, UCCL_NS_PER_S));
		assert_in_range(tx()->pmtu.bytes, network - UCCL_PMTU_STEP, network);
		/* From now on nothing is lost for it, and bulk is cut to fit. */
		began = stats(0)->subsegments_tx;
		pair_bulk(&p, 0, 1000 * KIB);
		assert_true(pair_finish(&p, UCCL_NS_PER_S));
		assert_int_equal(stats(0)->subsegments_tx, began);
		pair_fini(&p);
	}
}

/* Where in the range that it is cut from does what this packet delivers end? */
static uint64_t end_of(const struct pair_pkt *k)
{
	uint64_t at = uccl_get64(k->h.rec + 8) + k->h.payload_len;
	struct uccl_segment s;

	if (k->h.type == UCCL_PKT_CHUNK)
		return at;
	uccl_segment_read(&s, k->h.rec);
	return at + s.index * uccl_segment_each(s.total, s.count);
}

/* What is delivered by itself ends on a word, or where its range ends. Sub-segments are delivered when all are there.
 */
static void words(struct pair *q, struct pair_pkt *k)
{
	if (k->kind == UCCL_RX_PACKET &&
	    (k->h.type == UCCL_PKT_CHUNK || (k->h.type == UCCL_PKT_SEGMENT && !uccl_segment_subs(k->h.rec))) &&
	    k->h.rtype == PAIR_BULK) {
		PAIR_CHECK(end_of(k) % UCCL_WORD == 0 || end_of(k) == ODD);
		q->count++;
	}
	narrow(q, k);
}

/* Whatever the network carries, also while that is found out, and in trains. PROTOCOL R216 */
TEST_IN(bulk__whole_words, NULL, end)
{
	static const uint32_t networks[] = {8255, 8254, 4001, 3999, 1475, 1473, 1201, 603};

	for (int i = 0; i < 16; i++) {
		struct pair_cfg c = pair_packets();
		uint32_t network = networks[i / 2];

		c.chunk_bytes = 8192;
		c.mtu = UCCL_HDR_LEN + 8195;
		c.find_mtu = true;
		c.segments = i % 2;
		c.train_bytes = c.segments * 5 * 8192u;
		pair_init(&p, &c);
		p.filter = words;
		p.arg = &network;
		for (int k = 0; k < 3; k++) {
			pair_bulk(&p, 0, ODD);
			assert_true(pair_finish(&p, UCCL_NS_PER_S));
		}
		assert_true(p.count > 0);
		assert_in_range(tx()->pmtu.bytes, network - UCCL_PMTU_STEP - UCCL_WORD, network);
		pair_fini(&p);
	}
}

/* Records are of the length that the owner knows, and leave in sub-segments. */
TEST_IN(rx__records, NULL, end)
{
	uint32_t network = 1472;
	uint64_t lost;

	start_narrow(&network);
	for (int i = 0; i < 300; i++)
		pair_record(&p, i % 5 == 0, (uint32_t)i * 27 % 8192);
	assert_true(pair_finish(&p, UCCL_NS_PER_S));
	assert_true(stats(1)->subsegments_rx > 0);
	lost = stats(0)->lost_proof + stats(0)->lost_rack + stats(0)->lost_rto;
	for (int i = 0; i < 300; i++)
		pair_record(&p, 0, 8192 - (uint32_t)i);
	assert_true(pair_finish(&p, UCCL_NS_PER_S));
	assert_int_equal(stats(0)->lost_proof + stats(0)->lost_rack + stats(0)->lost_rto, lost);
}

/* With every fault of a network at once, both ways. PROTOCOL R153 */
TEST_IN(rx__bad_network, NULL, end)
{
	uint32_t network = 1472;

	for (uint64_t seed = 1; seed <= 30; seed++) {
		start_narrow(&network);
		uccl_rng_seed(&p.rng, seed);
		p.faults.loss = 0.05;
		p.faults.dup = 0.1;
		p.faults.reorder = 0.1;
		p.faults.reorder_ns = 100 * UCCL_NS_PER_US;
		for (int i = 0; i < 60; i++) {
			pair_record(&p, i % 2, (uint32_t)uccl_rng_below(&p.rng, 8193));
			if (i % 20 == 0)
				pair_bulk(&p, i % 40 == 0, 200 * KIB);
		}
		assert_true(pair_finish(&p, 30 * UCCL_NS_PER_S));
		pair_fini(&p);
	}
}

/* The payload of a NIC that reads later is not given back before it has read all sub-segments. */
TEST_IN(tx__nic_reads_later, NULL, end)
{
	struct pair_cfg c = pair_packets();
	uint32_t network = 1472;

	c.chunk_bytes = 8192;
	c.mtu = UCCL_HDR_LEN + 8192;
	c.find_mtu = true;
	c.tx_async = true;
	pair_init(&p, &c);
	p.filter = narrow;
	p.arg = &network;
	p.sent_delay = 5 * MS;
	for (int i = 0; i < 100; i++)
		pair_record(&p, 0, 8000);
	assert_true(pair_finish(&p, UCCL_NS_PER_S));
}

/* Packets get shorter while a chunk leaves in sub-segments: it is cut anew. */
TEST_IN(tx__shorter_in_mid_row, NULL, end)
{
	uint32_t network = UINT32_MAX;
	struct uccl_tx t;

	start_narrow(&network);
	uccl_flow_mtu_reported(tx(), 4000, p.now);
	pair_record(&p, 0, 8000);
	assert_int_equal(uccl_flow_tx(tx(), &t, p.now), 1);
	assert_int_equal(t.hdr[3], UCCL_PKT_SEGMENT);
	assert_int_equal(t.hdr[32 + 25], 1);
	assert_int_equal(t.hdr[32 + 27], 3);
	uccl_flow_mtu_reported(tx(), 2000, p.now);
	/* That one may still come, then the others are missing. */
	assert_int_equal(tx()->sent.inflight_bytes, t.payload_len);
	assert_int_equal(uccl_flow_tx(tx(), &t, p.now), 0);
	assert_true(pair_finish(&p, UCCL_NS_PER_S));
	pair_fini(&p);
	/* None of them comes: it is cut anew. */
	start_narrow(&network);
	uccl_flow_mtu_reported(tx(), 4000, p.now);
	pair_record(&p, 0, 8000);
	pair_pump_one(&p, 0);
	while (p.nwire)
		pair_lose(&p, 0);
	uccl_flow_mtu_reported(tx(), 2000, p.now);
	while (pair_find(&p, 1, UCCL_PKT_SEGMENT) < 0)
		assert_true(pair_step(&p));
	assert_int_equal(p.wire[pair_find(&p, 1, UCCL_PKT_SEGMENT)]->h.rec[27], 5);
	assert_true(pair_finish(&p, UCCL_NS_PER_S));
}

/* Each packet takes a place of the receive queue; what fills more than all of it goes by and by. PROTOCOL R172 */
TEST_IN(tx__subsegments_take_slots, NULL, end)
{
	for (uint32_t slots = 1; slots <= 20; slots++) {
		uint32_t network = 1472, n = 0;
		struct pair_cfg c = pair_packets();
		struct uccl_tx t;

		c.chunk_bytes = 8192;
		c.mtu = UCCL_HDR_LEN + 8192;
		c.find_mtu = true;
		c.slots = slots;
		pair_init(&p, &c);
		p.filter = narrow;
		p.arg = &network;
		uccl_flow_mtu_reported(tx(), network, p.now);
		for (int i = 0; i < 10; i++)
			pair_record(&p, 0, 8000);
		while (uccl_flow_tx(tx(), &t, p.now)) {
			assert_int_equal(t.hdr[3], UCCL_PKT_SEGMENT);
			assert_int_equal(t.hdr[32 + 27], 6);
			n++;
		}
		assert_int_equal(n, slots);
		assert_int_equal(uccl_sent_slots(&tx()->sent), n);
		assert_int_equal(uccl_flow_check(tx()), 0);
		assert_true(pair_finish(&p, UCCL_NS_PER_S));
		assert_int_equal(uccl_sent_slots(&tx()->sent), 0);
		pair_fini(&p);
	}
}

static void count_new(struct pair *q, struct pair_pkt *k)
{
	q->count += k->to == 1 && k->kind == UCCL_RX_PACKET && k->h.type == UCCL_PKT_CHUNK;
}

/* What waits for places is not overtaken by chunks that need only one: it would wait as long as there are such. */
TEST_IN(tx__subsegments_have_their_turn, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.chunk_bytes = 8192;
	c.mtu = UCCL_HDR_LEN + 8192;
	c.find_mtu = true;
	c.slots = 8;
	pair_init(&p, &c);
	p.filter = count_new;
	uccl_flow_mtu_reported(tx(), 1472, p.now);
	pair_bulk(&p, 0, 1000 * KIB);
	pair_pump(&p);
	assert_int_equal(uccl_sent_slots(&tx()->sent), 8);
	pair_record(&p, 0, 8000);
	p.count = 0;
	while (!stats(0)->subsegments_tx)
		assert_true(pair_step(&p));
	assert_in_range(p.count, 0, 1);
	assert_true(pair_finish(&p, UCCL_NS_PER_S));
}

/* Some links let a train pass whose packets, each by itself, are too long for them. */
static void narrow_singles(struct pair *q, struct pair_pkt *k)
{
	if (k->to == 1 && k->kind == UCCL_RX_PACKET && k->len > 1472 && (k->single || q->count++ % 20 == 0))
		k->fate = PAIR_DROP;
}

TEST_IN(rx__trains_pass, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.chunk_bytes = 8192;
	c.mtu = UCCL_HDR_LEN + 8192;
	c.find_mtu = true;
	c.train_bytes = 7 * 8192;
	c.slots = 64;
	pair_init(&p, &c);
	p.filter = narrow_singles;
	pair_bulk(&p, 0, 8000 * KIB);
	assert_true(pair_finish(&p, 2 * UCCL_NS_PER_S));
	assert_in_range(tx()->pmtu.bytes, UCCL_PMTU_BASE, 1472);
}

static struct uccl_segment sub_of(uint8_t sub, uint8_t subs, uint32_t total)
{
	return (struct uccl_segment){.count = 1, .sub = sub, .subs = subs, .total = total};
}

/* A made-up sub-segment arrives at side 1. */
static void feed(uint64_t csn, struct uccl_segment s, uint32_t len)
{
	static const uint8_t payload[9000], whole[UCCL_REC_LEN];
	uint8_t rec[UCCL_REC_LEN];
	struct uccl_hdr h = {.type = UCCL_PKT_SEGMENT, .rtype = PAIR_RAW, .csn = (uint32_t)csn, .rec = rec};

	h.payload_len = (uint16_t)len;
	uccl_segment_encode(rec, whole, &s);
	pair_feed(&p, 1, &h, payload, NULL);
}

/* What does not fit its own numbers, or is of more than we take. Which cuts there are test_wire knows. PROTOCOL R153 */
TEST_IN(subsegment_rx__malformed, NULL, end)
{
	uint32_t network = UINT32_MAX;
	uint64_t csn;

	start_narrow(&network);
	csn = p.side[1].f.rx.arrived.nxt;
	feed(csn, sub_of(0, 1, 96), 96); /* one is none */
	feed(csn, sub_of(2, 2, 96), 48);
	feed(csn, sub_of(0, 65, 6240), 96);
	feed(csn, sub_of(0, 2, 96), 47);
	feed(csn, sub_of(3, 4, 24), 8); /* nothing is left for the last */
	feed(csn, sub_of(0, 2, 8208), 4104);
	feed(csn, sub_of(0, 64, UINT32_MAX), 0);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_RECORD), 7);
	assert_int_equal(p.side[1].f.rx.subsegments.n, 0);
	feed(csn, sub_of(0, 2, 8192), 4096);
	feed(csn, sub_of(1, 2, 8192), 4096);
	assert_int_equal(p.side[1].raw, 1);
	assert_int_equal(p.side[1].raw_bytes, 8192);
}

/* Doubled ones, those of another cut, and the whole chunk that comes late after all. PROTOCOL R153 R331 */
TEST_IN(subsegment_rx__once, NULL, end)
{
	struct uccl_hdr whole = {.type = UCCL_PKT_CHUNK, .rtype = PAIR_RAW, .payload_len = 960};
	static const uint8_t payload[960], rec[UCCL_REC_LEN];
	uint32_t network = UINT32_MAX;
	uint64_t csn;

	start_narrow(&network);
	csn = p.side[1].f.rx.arrived.nxt;
	feed(csn, sub_of(0, 2, 960), 480);
	feed(csn, sub_of(0, 2, 960), 480);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_DUPLICATE), 1);
	/* Cut in three now: what came of two is nothing, and what still comes of them is old. */
	feed(csn, sub_of(1, 3, 960), 320);
	feed(csn, sub_of(1, 2, 960), 480);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_DUPLICATE), 2);
	feed(csn, sub_of(2, 3, 960), 320);
	assert_int_equal(p.side[1].raw, 0);
	feed(csn, sub_of(0, 3, 960), 320);
	assert_int_equal(p.side[1].raw, 1);
	feed(csn, sub_of(1, 3, 960), 320);
	assert_int_equal(p.side[1].raw, 1);
	/* The next one: some of it, and then all of it as a packet. */
	feed(csn + 1, sub_of(1, 2, 960), 480);
	whole.csn = (uint32_t)(csn + 1);
	whole.rec = rec;
	pair_feed(&p, 1, &whole, payload, NULL);
	assert_int_equal(p.side[1].raw, 2);
	assert_int_equal(p.side[1].f.rx.subsegments.n, 0);
}

/* However many chunks somebody begins, few are kept. PROTOCOL R154 */
TEST_IN(subsegment_rx__few_are_kept, NULL, end)
{
	uint32_t network = UINT32_MAX;
	uint64_t csn;

	start_narrow(&network);
	csn = p.side[1].f.rx.arrived.nxt;
	for (uint64_t k = 0; k < 50; k++)
		feed(csn + k, sub_of(0, 2, 8000), 4000);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_MEMORY), 50 - UCCL_KEPT_MAX);
	feed(csn + 20, sub_of(0, 2, 8000), 4000);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_MEMORY), 51 - UCCL_KEPT_MAX);
	feed(csn + 3, sub_of(1, 2, 8000), 4000);
	assert_int_equal(p.side[1].raw, 1);
	feed(csn + 20, sub_of(0, 2, 8000), 4000);
	feed(csn + 20, sub_of(1, 2, 8000), 4000);
	assert_int_equal(p.side[1].raw, 2);
}

/* Nor does a sender begin more, and those that it began go on before the others, however they were lost. PROTOCOL R154
 */
TEST_IN(tx__few_are_kept, NULL, end)
{
	uint32_t network = 1472;

	for (uint32_t seed = 1; seed <= 20; seed++) {
		uint64_t end;

		start_narrow(&network);
		end = p.now + 10 * UCCL_NS_PER_S;
		uccl_rng_seed(&p.rng, seed);
		/* Sixty chunks are under way when it turns out that they are too long. */
		for (int i = 0; i < 60; i++)
			pair_record(&p, 0, 8000);
		pair_pump_one(&p, 0);
		assert_int_equal(uccl_sent_slots(&tx()->sent), 60);
		uccl_flow_mtu_reported(tx(), network, p.now);
		p.faults.loss = 0.2;
		while (!pair_done(&p)) {
			assert_true(pair_step(&p));
			assert_in_range(tx()->sent.kept, 0, UCCL_KEPT_MAX);
			assert_in_range(p.side[1].f.rx.subsegments.n, 0, UCCL_KEPT_MAX);
			assert_true(p.now < end);
		}
		assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_MEMORY), 0);
		assert_int_equal(tx()->sent.kept, 0);
		pair_fini(&p);
	}
}

/* What leaves in eight packets: as a train, because it is too long, or because its direct write was lost. */
enum kind { TRAIN, TOO_LONG, WRITE, KINDS };

/* A chunk of that kind leaves; its write is lost. */
static void start_kind(enum kind kind, uint32_t slots)
{
	struct pair_cfg c = kind == WRITE ? pair_direct() : pair_packets();

	c.chunk_bytes = kind == TOO_LONG ? 8192 : 1000;
	c.mtu = UCCL_HDR_LEN + c.chunk_bytes;
	c.find_mtu = kind == TOO_LONG;
	c.train_bytes = kind == TRAIN ? 8 * 1000 : 0;
	c.segments = kind == TRAIN;
	c.write_bytes = kind == WRITE ? 8000 : 0;
	c.paths = 1;
	c.slots = slots;
	pair_init(&p, &c);
	p.side[1].f.cfg.slots_rx = (uint16_t)slots;
	if (kind == TOO_LONG)
		uccl_flow_mtu_reported(tx(), UCCL_PMTU_BASE, p.now);
}

static void kind_leaves(enum kind kind)
{
	if (kind == TOO_LONG)
		pair_record(&p, 0, 8000);
	else
		pair_bulk(&p, 0, 8000);
	pair_pump_one(&p, 0);
	while (pair_find_write(&p, 1) >= 0)
		pair_lose(&p, (uint32_t)pair_find_write(&p, 1));
}

/* Which packets are lost of the first eight: *arg. */
static void drop_first(struct pair *q, struct pair_pkt *k)
{
	struct uccl_segment s;

	if (k->to != 1 || k->kind != UCCL_RX_PACKET || k->h.type != UCCL_PKT_SEGMENT)
		return;
	uccl_segment_read(&s, k->h.rec);
	if (q->count++ < 8 && *(uint64_t *)q->arg >> (s.subs ? s.sub : s.index) & 1)
		k->fate = PAIR_DROP;
}

/* Whatever is lost of them, these leave again, once each, and no others; no timer, if another one came behind them. */
TEST_IN(rtx__missing_segments_only, NULL, end)
{
	for (int kind = 0; kind < KINDS; kind++)
		for (uint64_t map = 0; map < 1 << 8; map++) {
			uint64_t lost = (uint64_t)__builtin_popcountll(map), before = kind == WRITE ? 8 : 0, began;

			start_kind(kind, 64);
			p.filter = drop_first;
			p.arg = &map;
			kind_leaves(kind);
			began = p.now;
			assert_true(pair_finish(&p, UCCL_NS_PER_S));
			assert_int_equal(p.count, 8 + lost);
			assert_int_equal(stats(0)->rtx_packets, before + lost);
			assert_int_equal(p.side[1].f.rx.ack_tracker.dups, 0);
			assert_int_equal(stats(1)->rx_bytes, 8000);
			assert_int_equal(tx()->credit.lost, before * 1000 + lost * 1000);
			if (!(map >> 7) && kind != WRITE)
				assert_in_range(p.now - began, 0, 10 * p.cfg.delay_ns);
			pair_fini(&p);
		}
}

/* One of three packets that ask, as the last one of a row does, is lost, and so are all writes. */
static void drop_every_third(struct pair *q, struct pair_pkt *k)
{
	if (k->kind == UCCL_RX_WRITE)
		k->fate = PAIR_DROP;
	if (k->to == 1 && k->kind == UCCL_RX_PACKET && k->h.type == UCCL_PKT_SEGMENT && k->h.flags & UCCL_FLAG_AR &&
	    q->count++ % 3 == 0)
		k->fate = PAIR_DROP;
}

/* They leave as the peer has places for them; a lost one takes no place for ever. PROTOCOL R172 */
TEST_IN(rtx__within_slots, NULL, end)
{
	for (int kind = 0; kind < KINDS; kind++)
		for (uint32_t slots = 1; slots < 12; slots++) {
			uint64_t end;

			start_kind(kind, slots);
			p.filter = drop_every_third;
			end = p.now + 5 * UCCL_NS_PER_S;
			for (int i = 0; i < 4; i++)
				kind_leaves(kind);
			while (!pair_done(&p)) {
				uint32_t there = 0;

				assert_true(pair_step(&p) && p.now < end);
				for (uint32_t i = 0; i < p.nwire; i++)
					there += p.wire[i]->to == 1 && p.wire[i]->kind == UCCL_RX_PACKET &&
						 p.wire[i]->h.type == UCCL_PKT_SEGMENT;
				assert_in_range(there, 0, slots);
				assert_in_range(uccl_sent_slots(&tx()->sent), 0, slots);
			}
			assert_true(p.count > 0 || kind == TRAIN);
			pair_fini(&p);
		}
}

/* A receiver that cannot take a chunk now gets all of it again. */
TEST_IN(rx__no_memory_comes_again, NULL, end)
{
	uint32_t network = 1472;

	start_narrow(&network);
	pair_record(&p, 0, 8000);
	assert_true(pair_finish(&p, UCCL_NS_PER_S));
	p.refuse = pair_refuse_some;
	p.refusals = 5;
	pair_record(&p, 0, 8000);
	assert_true(pair_finish(&p, UCCL_NS_PER_S));
	assert_int_equal(p.refusals, 0);
}

static enum uccl_drop refuse_one(struct pair *q, struct pair_side *s, const struct uccl_chunk_in *in)
{
	return q->refusals && q->refusals-- ? UCCL_DROP_RANGE : UCCL_DROP_COUNT;
}

/* Sub-segments of a chunk that is refused are kept no more: it comes again whole. PROTOCOL R315 */
TEST_IN(rx__refused, NULL, end)
{
	uint32_t network = 1472;

	start_narrow(&network);
	pair_record(&p, 0, 8000);
	assert_true(pair_finish(&p, UCCL_NS_PER_S));
	p.refuse = refuse_one;
	p.refusals = 1;
	pair_record(&p, 0, 8000);
	assert_true(pair_finish(&p, UCCL_NS_PER_S));
	assert_int_equal(p.refusals, 0);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_RANGE), 1);
}

TESTS_MAIN
