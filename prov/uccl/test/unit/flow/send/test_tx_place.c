/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Room, bursts, and trains. */
#include "../sender.h"
#include "../../tests.h"

TEST_IN(tx_room__grows_to_the_window, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.window = 2048;
	c.slots = 4096;
	start(c);
	for (int i = 0; i < 3000; i++)
		pair_record(&p, 0, (uint32_t)i % 100);
	assert_int_equal(p.side[0].f.sent.cap, 64);
	pair_pump_one(&p, 0);
	assert_int_equal(p.side[0].f.sent.cap, 2048);
	assert_int_equal(p.side[0].f.sent.nxt - p.side[0].f.sent.una, 2048);
	assert_true(pair_finish(&p, 10 * MS));
}

/* It grows while some chunks wait to be sent again. */
TEST_IN(tx_room__keeps_what_is_lost, NULL, end)
{
	struct pair_cfg c = pair_packets();
	struct uccl_ack a;
	struct uccl_hdr h = {.type = UCCL_PKT_ACK};

	c.window = 256;
	c.slots = 60;
	c.paths = 1;
	start(c);
	for (int i = 0; i < 100; i++)
		pair_record(&p, 0, 10);
	pair_pump_one(&p, 0);
	assert_int_equal(p.nwire, 60);
	pair_arrive(&p, 59);
	lose_all();
	p.side[1].f.rx.ack_tracker.at = UCCL_NEVER;
	/* The 60th arrived, 59 before it did not, and no slot is left. */
	a = pair_ack(&p, 0, c.csn[0]);
	a.nwords = 1;
	a.sack[0] = 1ull << 58;
	a.slots = 1;
	a.npaths = 1;
	a.paths[0] = (struct uccl_ack_path){.seq = 60, .echo = uccl_ts(p.now), .delay = UINT32_MAX};
	pair_feed(&p, 0, &h, NULL, &a);
	assert_int_equal(p.side[0].stats.lost_proof, 59);
	a.slots = 256;
	a.npaths = 0;
	h = (struct uccl_hdr){.type = UCCL_PKT_ACK};
	pair_feed(&p, 0, &h, NULL, &a);
	assert_true(pair_finish(&p, 100 * MS));
	assert_int_equal(p.side[0].stats.rtx_packets, 59);
	assert_int_equal(p.side[0].f.sent.cap, 128);
}

TEST_IN(tx_room__window_edge, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.window = 64;
	c.slots = 1000;
	start(c);
	for (int i = 0; i < 70; i++)
		pair_record(&p, 0, 10);
	assert_int_equal(pair_pump_one(&p, 0), 64);
	assert_int_equal(p.side[0].f.sent.nxt - p.side[0].f.sent.una, 64);
	/* All but the first: the window does not move. */
	for (int i = 0; i < 63; i++)
		pair_arrive(&p, 1);
	p.side[1].f.rx.ack_tracker.now = true;
	pair_pump_one(&p, 1);
	pair_arrive(&p, 1);
	assert_int_equal(p.side[0].f.sent.una, c.csn[0]);
	assert_int_equal(pair_pump_one(&p, 0), 1);
	assert_int_equal(p.wire[1]->h.csn, (uint32_t)c.csn[0]);
	/* The first: all of the rest may go. */
	pair_arrive(&p, 0);
	pair_lose(&p, 0);
	p.side[1].f.rx.ack_tracker.now = true;
	pair_pump_one(&p, 1);
	pair_arrive(&p, 0);
	assert_int_equal(pair_pump_one(&p, 0), 6);
	assert_true(pair_finish(&p, 10 * MS));
}

TEST_IN(tx_room__slots, NULL, end)
{
	struct pair_cfg c = pair_packets();
	struct uccl_hdr h = {.type = UCCL_PKT_ACK};
	struct uccl_ack a;

	c.slots = 10;
	start(c);
	for (int i = 0; i < 40; i++)
		pair_record(&p, 0, 10);
	assert_int_equal(pair_pump_one(&p, 0), 10);
	a = pair_ack(&p, 0, c.csn[0]);
	a.slots = 15;
	pair_feed(&p, 0, &h, NULL, &a);
	assert_int_equal(pair_pump_one(&p, 0), 5);
	/* A smaller grant: nothing until enough is acknowledged. */
	a.cum += 8;
	a.slots = 6;
	h = (struct uccl_hdr){.type = UCCL_PKT_ACK};
	pair_feed(&p, 0, &h, NULL, &a);
	assert_int_equal(p.side[0].f.sent.inflight_chunks, 7);
	assert_int_equal(pair_pump_one(&p, 0), 0);
	/* No slots: no chunk, but the question for one. PROTOCOL R177 */
	a.cum += 7;
	a.slots = 0;
	h = (struct uccl_hdr){.type = UCCL_PKT_ACK};
	pair_feed(&p, 0, &h, NULL, &a);
	assert_int_equal(pair_pump_one(&p, 0), 1);
	assert_int_equal(p.side[0].f.sent.inflight_chunks, 0);
}

/* Packets from `i` on that share a path. */
static uint32_t run_from(uint32_t i)
{
	uint32_t n = 1;

	while (i + n < p.nwire && p.wire[i + n]->path == p.wire[i]->path)
		n++;
	return n;
}

TEST_IN(tx_burst__begins_with_the_message, NULL, end)
{
	start(pair_trains());
	/* Two fill a burst; the third finds too little left of it. */
	for (int i = 0; i < 3; i++)
		pair_bulk(&p, 0, 30 * KIB);
	assert_int_equal(pair_pump_one(&p, 0), 90);
	assert_int_equal(run_from(0), 60);
	assert_int_equal(run_from(60), 30);
	assert_int_not_equal(p.wire[60]->path, p.wire[0]->path);
	lose_all();
	/* The record is its beginning: both or neither. */
	pair_record(&p, 0, 1024);
	pair_bulk(&p, 0, 40 * KIB);
	assert_int_equal(pair_pump_one(&p, 0), 41);
	assert_int_equal(run_from(0), 41);
}

/* A burst may go on in another round: also what leaves then waits in the network. PROTOCOL R380 */
TEST_IN(tx_burst__rounds_are_known, NULL, end)
{
	const struct uccl_train_wait *w = &p.side[0].f.train.wait;

	start(pair_trains());
	for (int i = 0; i < 2; i++) {
		p.now += MS;
		pair_bulk(&p, 0, 30 * KIB);
		assert_int_equal(pair_pump_one(&p, 0), 30);
		assert_true(w->open);
		assert_int_equal(w->sent[w->last], uccl_ts(p.now));
	}
	assert_int_equal(run_from(0), 60);
}

TEST_IN(tx_burst__even_shares, NULL, end)
{
	uint32_t n;

	start(pair_trains());
	pair_record(&p, 0, 1024);
	pair_bulk(&p, 0, 79 * KIB);
	assert_int_equal(pair_pump_one(&p, 0), 80);
	n = run_from(0);
	assert_true(n >= 40 && n <= 41);
	assert_int_equal(n + run_from(n), 80);
	pair_fini(&p);
	/* Not where the NIC does not care. */
	start(pair_packets());
	pair_bulk(&p, 0, 40 * KIB);
	assert_int_equal(pair_pump_one(&p, 0), 40);
	assert_int_equal(run_from(0), 8);
}

/* What goes one way is a part of what is in flight, from 8 to 32 KiB. */
TEST_IN(tx_burst__grows, NULL, end)
{
	struct pair_cfg c = pair_packets();
	uint32_t at = 0, want;

	c.window = c.slots = 8192;
	c.cc = &uccl_cc_none;
	start(c);
	pair_bulk(&p, 0, 4000 * KIB);
	assert_int_equal(pair_pump_one(&p, 0), 4000);
	while (at < 3900) {
		want = at < 1024 ? 8 : at / 128;
		assert_in_range(run_from(at), want, want + 1);
		at += run_from(at);
	}
}

/* As much of short packets goes one way as of the longest. */
TEST_IN(tx_burst__a_packet_at_least, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.chunk_bytes = 40 * KIB;
	c.mtu = 41 * KIB;
	start(c);
	for (int i = 0; i < 30; i++)
		pair_record(&p, 0, 4 * KIB);
	assert_int_equal(pair_pump_one(&p, 0), 30);
	for (uint32_t i = 0; i < 30; i += 10)
		assert_int_equal(run_from(i), 10);
}

/*
 * With two trains in flight, or another one behind it, a long message goes on in the burst that the one before began;
 * no other is cut.
 */
TEST_IN(tx_burst__goes_on_in_a_stream, NULL, end)
{
	struct pair_cfg c = pair_trains();

	start(c);
	pair_bulk(&p, 0, 128 * KIB);
	assert_int_equal(pair_pump_one(&p, 0), 128);
	lose_all();
	/* 40 of 64, then the next fills the first burst, and the second. */
	pair_bulk(&p, 0, 40 * KIB);
	pair_bulk(&p, 0, 65 * KIB);
	assert_int_equal(pair_pump_one(&p, 0), 105);
	assert_int_equal(run_from(0), 64);
	assert_int_equal(run_from(64), 41);
	lose_all();
	/* 23 are left of the burst. */
	pair_bulk(&p, 0, 20 * KIB);
	pair_bulk(&p, 0, 64 * KIB);
	assert_int_equal(pair_pump_one(&p, 0), 84);
	assert_int_equal(run_from(0), 20);
	assert_int_equal(run_from(20), 64);
	pair_fini(&p);
	/* Likewise with nothing in flight while another one waits. */
	start(c);
	for (int i = 0; i < 3; i++)
		pair_bulk(&p, 0, 100 * KIB);
	assert_int_equal(pair_pump_one(&p, 0), 300);
	assert_int_equal(run_from(0), 64);
	assert_int_equal(run_from(64), 64);
	assert_int_equal(run_from(128), 64);
	pair_fini(&p);
	/* One train is not enough for that. */
	start(c);
	pair_bulk(&p, 0, 64 * KIB);
	assert_int_equal(pair_pump_one(&p, 0), 64);
	lose_all();
	pair_bulk(&p, 0, 40 * KIB);
	pair_bulk(&p, 0, 40 * KIB);
	assert_int_equal(pair_pump_one(&p, 0), 80);
	assert_int_equal(run_from(0), 40);
}

/* Acknowledgement of all before `n` chunks of the first message arrives; what leaves now. */
static int acked_then_sent(uint64_t n)
{
	struct uccl_ack a = pair_ack(&p, 0, p.cfg.csn[0] + n);

	lose_all();
	pair_feed(&p, 0, &(struct uccl_hdr){.type = UCCL_PKT_ACK}, NULL, &a);
	return pair_pump_one(&p, 0);
}

TEST_IN(tx_want__whole_trains, NULL, end)
{
	struct pair_cfg c = pair_trains();

	c.cc = &cc_set;
	cc_bytes = 512 * KIB;
	cc_gap_ns = 0;
	start(c);
	pair_bulk(&p, 0, 700 * KIB);
	assert_int_equal(pair_pump_one(&p, 0), 512);
	/* Much is in flight: room for 63 is not enough for a train, for 64 it is. */
	assert_int_equal(acked_then_sent(63), 0);
	assert_false(p.side[0].f.app_limited);
	assert_int_equal(acked_then_sent(64), 64);
	/* A short rest of the message waits for no more than itself. */
	assert_int_equal(acked_then_sent(64 + 64), 64);
	assert_int_equal(acked_then_sent(64 + 64 + 59), 0);
	assert_int_equal(acked_then_sent(64 + 64 + 60), 60);
	pair_fini(&p);
	/* Little is in flight: every chunk that there is room for. */
	cc_bytes = 192 * KIB;
	start(c);
	pair_bulk(&p, 0, 700 * KIB);
	assert_int_equal(pair_pump_one(&p, 0), 192);
	assert_int_equal(acked_then_sent(1), 1);
}

static int asked(void)
{
	int n = 0;

	for (uint32_t i = 0; i < p.nwire; i++)
		n += (p.wire[i]->h.flags & UCCL_FLAG_AR) != 0;
	return n;
}

/* A quarter each, at first an eighth, also of a message under way, and every fourth asks. PROTOCOL R288 */
TEST_IN(tx_burst__short, NULL, end)
{
	struct pair_cfg c = pair_trains();

	for (int brief = 0; brief < 3; brief++) {
		static const int eaches[] = { 64, 16, 8 }, asks[] = { 4, 8, 16 };
		uint32_t each = (uint32_t)eaches[brief];

		start(pair_trains());
		p.side[0].f.train.brief = brief;
		p.side[0].f.train.seen = brief < 2;
		pair_bulk(&p, 0, 512 * KIB);
		assert_int_equal(pair_pump_one(&p, 0), 512);
		for (uint32_t i = 0; i < 512; i += each)
			assert_int_equal(run_from(i), each);
		assert_int_equal(asked(), asks[brief]);
		pair_fini(&p);
	}

	c.cc = &cc_set;
	cc_bytes = 128 * KIB;
	cc_gap_ns = 0;
	start(c);
	pair_bulk(&p, 0, 512 * KIB);
	assert_int_equal(pair_pump_one(&p, 0), 128);
	p.side[0].f.train.brief = p.side[0].f.train.seen = true;
	assert_int_equal(acked_then_sent(64), 64);
	assert_int_equal(run_from(0), 16);
}

/* They begin short where the link's rate is known and real, and stay so while the network bounds them. PROTOCOL R288 */
TEST_IN(tx_burst__begins, NULL, end)
{
	for (int i = 0; i < 4; i++) {
		struct pair_cfg c = pair_trains();
		struct uccl_flow *f = &p.side[0].f;

		c.link_bps = i & 1 ? 8 * UCCL_NS_PER_S : 0;
		c.train_short = i & 2;
		start(c);
		assert_int_equal(f->train.brief, i == 3);
		pair_fini(&p);
	}
}

/* The place to fill held something else before: nothing of it may show. */
TEST_IN(tx_burst__told_of_everything, NULL, end)
{
	struct uccl_tx tx;
	int writes = 0, began = 0;

	start(pair_direct());
	pair_bulk(&p, 0, 20 * KIB);
	for (;;) {
		memset(&tx, 0xff, sizeof(tx));
		tx.burst = true;
		if (!uccl_flow_tx(&p.side[0].f, &tx, p.now))
			break;
		writes += tx.kind == UCCL_TX_WRITE;
		began += tx.burst;
	}
	/* Neither the descriptor nor writes begin one, nor does what follows them. */
	assert_int_equal(writes, 5);
	assert_int_equal(began, 0);
	pair_record(&p, 0, 100);
	assert_int_equal(uccl_flow_tx(&p.side[0].f, &tx, p.now), 1);
	assert_false(tx.burst);
}

TEST_IN(tx_want__slots, NULL, end)
{
	struct pair_cfg c = pair_trains();

	c.slots = 512;
	start(c);
	pair_bulk(&p, 0, 700 * KIB);
	assert_int_equal(pair_pump_one(&p, 0), 512);
	assert_int_equal(acked_then_sent(63), 0);
	assert_int_equal(acked_then_sent(64), 64);
}

TESTS_MAIN
