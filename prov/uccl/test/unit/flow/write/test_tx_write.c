/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Descriptors and direct writes. */
#include "../sender.h"
#include "../../tests.h"

static int writes_on_wire(int to)
{
	int n = 0;

	for (uint32_t i = 0; i < p.nwire; i++)
		n += p.wire[i]->kind == UCCL_RX_WRITE && p.wire[i]->to == to;
	return n;
}

TEST_IN(tx_desc__then_its_writes, NULL, end)
{
	struct uccl_desc d;

	start(pair_direct());
	pair_bulk(&p, 0, 200 * KIB); /* 50 writes: 32 and 18 */
	pair_record(&p, 0, 10);
	pair_pump_one(&p, 0);
	/* The record is first: no descriptor was out when it came. */
	assert_int_equal(writes_on_wire(1), 50);
	assert_int_equal(on_wire(1, UCCL_PKT_DESC), 2);
	assert_int_equal(uccl_desc_decode(&d, p.wire[pair_find(&p, 1, UCCL_PKT_DESC)]->h.rec), UCCL_DROP_COUNT);
	assert_int_equal(d.count, 32);
	assert_int_equal(d.chunk, 4096);
	assert_int_equal(d.len, 128 * KIB);
	assert_int_equal(d.offset, 0);
	pair_lose(&p, (uint32_t)pair_find(&p, 1, UCCL_PKT_DESC));
	assert_int_equal(uccl_desc_decode(&d, p.wire[pair_find(&p, 1, UCCL_PKT_DESC)]->h.rec), UCCL_DROP_COUNT);
	assert_int_equal(d.count, 18);
	assert_int_equal(d.len, 72 * KIB);
	assert_int_equal(d.offset, 128 * KIB);
	assert_true(pair_finish(&p, 50 * MS));
}

/* No more than there are slots for, and half of all: another descriptor tells of those that are left. PROTOCOL R421 */
TEST_IN(tx_desc__slots, NULL, end)
{
	struct pair_cfg c = pair_direct();
	struct uccl_desc d;

	c.slots = 8;
	start(c);
	pair_bulk(&p, 0, 200 * KIB);
	pair_pump_one(&p, 0);
	assert_int_equal(uccl_desc_decode(&d, p.wire[pair_find(&p, 1, UCCL_PKT_DESC)]->h.rec), UCCL_DROP_COUNT);
	assert_int_equal(d.count, 4);
	assert_int_equal(on_wire(1, UCCL_PKT_DESC), 2);
	assert_int_equal(writes_on_wire(1), 6);
	/* The second one proves that the first one is lost: no timer is waited for. */
	pair_lose(&p, (uint32_t)pair_find(&p, 1, UCCL_PKT_DESC));
	assert_true(pair_finish(&p, 50 * MS));
	assert_int_equal(stats(0)->rtos, 0);
}

/* One slot is for a descriptor, and one for its write. */
TEST_IN(tx_desc__few_slots, NULL, end)
{
	for (uint16_t slots = 1; slots <= 3; slots++) {
		struct pair_cfg c = pair_direct();
		struct uccl_desc d;

		c.slots = slots;
		start(c);
		pair_bulk(&p, 0, 40 * KIB);
		pair_pump_one(&p, 0);
		assert_int_equal(uccl_desc_decode(&d, p.wire[pair_find(&p, 1, UCCL_PKT_DESC)]->h.rec), UCCL_DROP_COUNT);
		assert_int_equal(d.count, 1);
		assert_true(pair_finish(&p, 50 * MS));
		end(NULL);
	}
	start(pair_direct());
}

/* Nor more than the receiver can hold. */
TEST_IN(tx_desc__window, NULL, end)
{
	struct pair_cfg c = pair_direct();
	struct uccl_desc d;

	c.window = 64;
	c.slots = 1000;
	start(c);
	pair_bulk(&p, 0, 400 * KIB);
	pair_pump_one(&p, 0);
	assert_int_equal(writes_on_wire(1), 62);
	pair_lose(&p, (uint32_t)pair_find(&p, 1, UCCL_PKT_DESC));
	assert_int_equal(uccl_desc_decode(&d, p.wire[pair_find(&p, 1, UCCL_PKT_DESC)]->h.rec), UCCL_DROP_COUNT);
	assert_int_equal(d.count, 30); /* after one descriptor of 32, and itself */
	assert_true(pair_finish(&p, 50 * MS));
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_RECORD), 0);
}

/*
 * Nor more whole writes than half of the congestion window has, but two: all but the last write end on 8 bytes.
 * PROTOCOL R216 R421
 */
TEST_IN(tx_desc__half_the_window, NULL, end)
{
	static const struct {
		uint64_t window;
		uint32_t count;
	} t[] = {{128 * KIB, 16}, {64 * KIB + 4101, 8}, {64 * KIB - 1, 7}, {24 * KIB, 3}, {4 * KIB - 1, 2}, {1, 2}};
	struct pair_cfg c = pair_direct();
	struct uccl_desc d;

	c.cc = &cc_set;
	for (size_t i = 0; i < uccl_array_len(t); i++) {
		cc_bytes = t[i].window;
		start(c);
		pair_bulk(&p, 0, 400 * KIB);
		pair_pump_one(&p, 0);
		assert_int_equal(uccl_desc_decode(&d, p.wire[pair_find(&p, 1, UCCL_PKT_DESC)]->h.rec), UCCL_DROP_COUNT);
		assert_int_equal(d.count, t[i].count);
		assert_int_equal(d.len, (uint64_t)d.count * d.chunk);
		assert_true(pair_finish(&p, 50 * MS));
		end(NULL);
	}
	start(c);
}

/* Wherever descriptors end, only what ends the message is shorter than the others. PROTOCOL R216 */
TEST_IN(tx_desc__whole_writes, NULL, end)
{
	struct pair_cfg c = pair_direct();
	struct uccl_desc d = {0};
	int n = 0, at;

	c.cc = &cc_set;
	cc_bytes = 40 * KIB + 4093;
	start(c);
	pair_bulk(&p, 0, 400 * KIB + 5);
	while (d.offset + d.len < 400 * KIB + 5) {
		pair_pump_one(&p, 0);
		while ((at = pair_find(&p, 1, UCCL_PKT_DESC)) >= 0) {
			assert_int_equal(uccl_desc_decode(&d, p.wire[at]->h.rec), UCCL_DROP_COUNT);
			assert_true(d.len % d.chunk == 0 || d.offset + d.len == 400 * KIB + 5);
			pair_arrive(&p, (uint32_t)at);
			n++;
		}
		pair_arrive_all(&p, 1);
		pair_pump_one(&p, 1);
		pair_arrive_all(&p, 0);
		p.now += 10 * US;
	}
	assert_true(n > 10);
	assert_true(pair_finish(&p, 50 * MS));
}

/* More than 4 GiB in one piece: sums of 32 bits would wrap. */
TEST_IN(tx_desc__huge, NULL, end)
{
	struct uccl_flow *f;
	struct pair_obj *o;
	struct uccl_desc d;
	struct uccl_tx tx;

	start(pair_direct());
	f = &p.side[0].f;
	o = pair_make(&p, 0, 8192, true, 1);
	o->iov[0].iov_len = o->item.len = 5ull << 30;
	uccl_flow_submit(f, &o->item);
	memset(&tx, 0, sizeof(tx));
	assert_int_equal(uccl_flow_tx(f, &tx, p.now), 1);
	assert_int_equal(uccl_desc_decode(&d, tx.hdr + 32), UCCL_DROP_COUNT);
	assert_int_equal(d.count, 32);
	assert_int_equal(uccl_flow_tx(f, &tx, p.now), 1);
	assert_int_equal(tx.kind, UCCL_TX_WRITE);
	assert_int_equal(tx.payload_len, 4096);
}

/* A peer with small packets: a chunk must not need more segments than there may be. */
TEST_IN(tx_desc__small_packets, NULL, end)
{
	struct pair_cfg c = pair_direct();

	c.mtu = 256;
	c.chunk_bytes = 128;
	c.write_bytes = 32 * KIB;
	start(c);
	p.faults.loss = 0.2;
	pair_bulk(&p, 0, 500 * KIB);
	assert_true(pair_finish(&p, 20 * UCCL_NS_PER_S));
	assert_true(p.side[0].stats.rtx_packets > 0);
}

/* Bytes of the first write of a message; everything arrives. */
static uint32_t write_size(void)
{
	uint32_t len;

	pair_bulk(&p, 0, 200 * KIB);
	pair_pump_one(&p, 0);
	len = p.wire[pair_find_write(&p, 1)]->len;
	assert_true(pair_finish(&p, 20 * UCCL_NS_PER_S));
	return len;
}

/* Writes shrink while many are lost, and grow again; and in a window that would hold few of them. */
TEST_IN(tx_write__size, NULL, end)
{
	struct pair_cfg c = pair_direct();

	c.write_bytes = 8 * KIB;
	c.cc = &cc_set;
	cc_bytes = 32 * KIB;
	cc_gap_ns = 0;
	start(c);
	assert_int_equal(write_size(), 8 * KIB);
	p.faults.loss = 0.1;
	for (int i = 0; i < 20; i++)
		write_size();
	p.faults.loss = 0;
	assert_int_equal(write_size(), KIB);
	for (int i = 0; i < 60; i++)
		write_size();
	assert_int_equal(write_size(), 8 * KIB);
	cc_bytes = 20 * KIB;
	assert_int_equal(write_size(), 4 * KIB);
}

/* They are half as long while the network holds back more than six, at the rate at which it delivers. PROTOCOL R277 */
TEST_IN(tx_write__queues, NULL, end)
{
	struct pair_cfg c = pair_direct();
	struct uccl_flow *f = &p.side[0].f;

	c.write_bytes = 8 * KIB;
	start(c);
	assert_int_equal(write_size(), 8 * KIB);
	f->loss.rate.mean_bytes = f->loss.rate.mean_ns = 1 << 20;
	f->loss.ack_delay.min_rtt_ns = 1000;
	f->loss.ack_delay.srtt_ns = 1000 + 16 * KIB;
	assert_int_equal(write_size(), 8 * KIB);
	f->loss.rate.mean_bytes = f->loss.rate.mean_ns = 1 << 20;
	f->loss.ack_delay.min_rtt_ns = 1000;
	f->loss.ack_delay.srtt_ns = 1001 + 16 * KIB;
	assert_int_equal(write_size(), 4 * KIB);
}

/* A flow begins with shorter ones. PROTOCOL R277 */
TEST_IN(tx_write__begins, NULL, end)
{
	struct pair_cfg c = pair_direct();

	c.write_bytes = 8 * KIB;
	c.write_begins = true;
	start(c);
	assert_int_equal(write_size(), 2 * KIB);
	for (int i = 0; i < 8; i++)
		write_size();
	assert_int_equal(write_size(), 8 * KIB);
}

/*
 * Towards a peer whose paths do not survive a loss within a write: one packet, twice as much and again while nothing is
 * lost, and one packet from the first loss on. What a slow network delivers in a moment is the most. PROTOCOL R255
 */
TEST_IN(tx_write__brittle, NULL, end)
{
	struct pair_cfg c = pair_direct();

	c.write_bytes = 8 * KIB;
	c.write_brittle = true;
	start(c);
	assert_int_equal(write_size(), KIB);
	for (int i = 0; i < 8; i++)
		write_size();
	assert_int_equal(write_size(), 8 * KIB);
	p.faults.loss = 0.02;
	while (!p.side[0].stats.lost_proof && !p.side[0].stats.lost_rack)
		write_size();
	p.faults.loss = 0;
	assert_int_equal(write_size(), KIB);
	pair_fini(&p);
	/* A round trip of 10 ms, and 64 KiB are in flight: less than 8 KiB come in a millisecond. */
	c.delay_ns = 5 * UCCL_NS_PER_MS;
	c.cc = &cc_set;
	cc_bytes = 64 * KIB;
	cc_gap_ns = 0;
	start(c);
	for (int i = 0; i < 8; i++)
		write_size();
	assert_int_equal(write_size(), 4 * KIB);
}

TEST_IN(tx_write__fields, NULL, end)
{
	struct pair_obj *o;
	const struct pair_pkt *k;

	start(pair_direct());
	o = pair_bulk(&p, 0, 10000);
	pair_pump_one(&p, 0);
	for (uint32_t i = 0; i < 3; i++) {
		k = p.wire[pair_find_write(&p, 1)];
		assert_int_equal(k->imm, uccl_imm(p.cfg.csn[0] + 1 + i, p.side[0].f.cfg.wire.epoch_tx));
		assert_true(k->raddr == (uintptr_t)o->dst + 4096u * i);
		assert_int_equal(k->len, i < 2 ? 4096 : 1808);
		assert_int_equal(k->path, i / 2); /* a choice per 8 KiB */
		pair_arrive(&p, (uint32_t)pair_find_write(&p, 1));
	}
}

/* A descriptor is not what finds out whether a path works. */
TEST_IN(tx_desc__where_it_answered, NULL, end)
{
	struct pair_cfg c = pair_direct();
	const struct pair_pkt *k;
	int there = 0;

	c.paths = 64;
	c.labels = 256;
	start(c);
	for (int i = 0; i < 8; i++) {
		pair_bulk(&p, 0, 10000);
		pair_pump_one(&p, 0);
		k = p.wire[0];
		assert_int_equal(k->h.type, UCCL_PKT_DESC);
		there += p.side[0].f.paths.list[k->path].control;
		assert_true(pair_finish(&p, 10 * MS));
	}
	/* All but the first, of which nothing is known, and one in eight. */
	assert_true(there >= 6);
}

/* What was written before it came is not reported: on a slow path it would hold up the reports of all quick ones. */
TEST_IN(tx_desc__on_the_quickest, NULL, end)
{
	struct pair_cfg c = pair_direct();
	struct uccl_paths *s;

	c.paths = 8;
	start(c);
	pair_bulk(&p, 0, 400000);
	assert_true(pair_finish(&p, 10 * MS));
	s = &p.side[0].f.paths;
	assert_true(s->control.n >= 3);
	for (uint16_t i = 0; i < s->n; i++)
		s->list[i].packet_rtt_ns = 300 * MS;
	s->list[s->control.list[1]].packet_rtt_ns = 10 * MS;
	pair_bulk(&p, 0, 400000);
	pair_pump_one(&p, 0);
	for (uint32_t i = 0; i < p.nwire; i++)
		if (p.wire[i]->h.type == UCCL_PKT_DESC)
			assert_int_equal(p.wire[i]->path, s->control.list[1]);
}

/* Large writes have a choice each, however many make 32 KiB. */
TEST_IN(tx_write__choice_each, NULL, end)
{
	struct pair_cfg c = pair_direct();
	uint16_t last = (uint16_t)(c.paths - 1);

	c.write_bytes = 16 * KIB;
	start(c);
	pair_bulk(&p, 0, 64 * KIB);
	pair_pump_one(&p, 0);
	for (uint32_t i = 0; i < 4; i++) {
		const struct pair_pkt *k = p.wire[pair_find_write(&p, 1)];

		assert_int_equal(k->path, (last + 1) % c.paths);
		last = k->path;
		pair_arrive(&p, (uint32_t)pair_find_write(&p, 1));
	}
}

/* The peer acknowledges the last one announced at once, as if it had been asked. PROTOCOL R273 */
TEST_IN(tx_write__last_one_asks, NULL, end)
{
	struct pair_cfg c = pair_direct();

	c.cc = &cc_set;
	cc_bytes = 40 * KIB;
	start(c);
	pair_bulk(&p, 0, 64 * KIB);
	pair_pump_one(&p, 0);
	assert_int_equal(writes_on_wire(1), 10);
	assert_false(p.side[0].f.loss.pto.ar);
	cc_bytes = 60 * KIB;
	pair_pump_one(&p, 0);
	assert_false(p.side[0].f.loss.pto.ar);
	cc_bytes = 64 * KIB;
	pair_pump_one(&p, 0);
	assert_int_equal(writes_on_wire(1), 16);
	assert_true(p.side[0].f.loss.pto.ar);
}

/* Writes that wait for the window must not keep acknowledgements and credits back: both sides would wait for each
 * other. */
TEST_IN(tx_write__held_back_lets_others_pass, NULL, end)
{
	struct pair_cfg c = pair_direct();

	c.cc = &cc_set;
	cc_bytes = 4096;
	cc_gap_ns = 0;
	start(c);
	pair_bulk(&p, 0, 64 * KIB);
	pair_pump_one(&p, 0);
	assert_int_equal(writes_on_wire(1), 4); /* of 1 KiB */
	assert_non_null(p.side[0].f.write_tx.item);
	lose_all();
	feed_raw(c.csn[1], 0, 1, UCCL_FLAG_AR);
	feed_raw(c.csn[1] + 1, 0, 2, UCCL_FLAG_AR);
	assert_true(p.side[0].f.rx.ack_tracker.now);
	assert_int_equal(pair_pump_one(&p, 0), 1);
	assert_int_equal(on_wire(1, UCCL_PKT_ACK), 1);
	assert_false(p.side[0].f.app_limited);
}

TEST_IN(tx_write__both_ways_at_full_window, NULL, end)
{
	struct pair_cfg c = pair_direct();

	c.cc = &cc_set;
	cc_bytes = 8192;
	cc_gap_ns = 0;
	start(c);
	pair_bulk(&p, 0, 256 * KIB);
	pair_bulk(&p, 1, 256 * KIB);
	/* 32 round trips of 20 us and some; no timer of a millisecond has a part in it. */
	assert_true(pair_finish(&p, 5 * MS));
	assert_int_equal(p.side[0].stats.probes + p.side[1].stats.probes, 0);
}

TESTS_MAIN
