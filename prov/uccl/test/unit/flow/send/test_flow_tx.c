/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What leaves next, when payload is given back, and all of it at once. */
#include "flow/observe/stall.h"
#include "../sender.h"
#include "../../tests.h"

static void lose_all_data(struct pair *q, struct pair_pkt *k)
{
	if (k->to == 1 && k->kind == UCCL_RX_PACKET && k->h.type >= UCCL_PKT_CHUNK && q->count) {
		q->count--;
		k->fate = PAIR_DROP;
	}
}

/* Closing, then what was lost, probes, records, bulk, credit, acknowledgement. */
TEST_IN(flow_tx__order, NULL, end)
{
	static const uint8_t want[] = {UCCL_PKT_CLOSE_ACK, UCCL_PKT_CLOSE};
	struct uccl_hdr h = {.type = UCCL_PKT_CLOSE};

	start(pair_packets());
	pair_record(&p, 0, 10);
	uccl_flow_close(&p.side[0].f, p.now);
	pair_feed(&p, 0, &h, NULL, NULL);
	assert_int_equal(pair_pump_one(&p, 0), 2);
	for (int i = 0; i < 2; i++)
		assert_int_equal(p.wire[i]->h.type, want[i]);
	pair_fini(&p);

	start(pair_packets());
	pair_bulk(&p, 0, 10);
	pair_record(&p, 0, 10);
	uccl_flow_keepalive(&p.side[0].f, p.now);
	h = (struct uccl_hdr){.type = UCCL_PKT_PROBE};
	pair_feed(&p, 0, &h, NULL, NULL);
	assert_int_equal(pair_pump_one(&p, 0), 3);
	assert_int_equal(p.wire[0]->h.type, UCCL_PKT_PROBE);
	assert_true(p.wire[0]->h.flags & UCCL_FLAG_AR);
	assert_true(p.wire[0]->h.tail_len > 0); /* carries the acknowledgement that was asked for */
	assert_int_equal(p.wire[1]->h.rtype, PAIR_RECORD);
	assert_int_equal(p.wire[2]->h.rtype, PAIR_BULK);
}

/* Behind full packets there is no room for a block: one may pass it. PROTOCOL R398 */
TEST_IN(flow_tx__full_packets_pass_a_block_once, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.mtu = UCCL_HDR_LEN + c.chunk_bytes;
	start(c);
	pair_bulk(&p, 0, 8 * p.side[0].f.chunk_bytes);
	p.side[0].f.rx.ack_tracker.now = true;
	assert_int_equal(pair_pump_one(&p, 0), 9);
	for (int i = 0; i < 9; i++)
		assert_int_equal(p.wire[i]->h.type, i == 1 ? UCCL_PKT_ACK : UCCL_PKT_CHUNK);
	pair_fini(&p);
	/* Of what has room each carries it. */
	start(pair_packets());
	for (int i = 0; i < 3; i++)
		pair_record(&p, 0, 10);
	p.side[0].f.rx.ack_tracker.now = true;
	assert_int_equal(pair_pump_one(&p, 0), 3);
	assert_true(p.wire[0]->h.tail_len > 0);
}

/* The peer has closed: it does not listen any more. */
TEST_IN(flow_tx__silent_after_close, NULL, end)
{
	struct uccl_hdr h = {.type = UCCL_PKT_CLOSE};

	start(pair_packets());
	pair_feed(&p, 0, &h, NULL, NULL);
	pair_record(&p, 0, 10);
	p.side[0].f.rx.ack_tracker.now = true;
	assert_int_equal(pair_pump_one(&p, 0), 1);
	assert_int_equal(p.wire[0]->h.type, UCCL_PKT_CLOSE_ACK);
}

/* Control packets take the paths in turn. */
TEST_IN(flow_tx__control_rotates, NULL, end)
{
	uint16_t last = UINT16_MAX;

	start(pair_packets());
	for (int i = 0; i < 8; i++) {
		p.side[0].f.rx.ack_tracker.now = true;
		assert_int_equal(pair_pump_one(&p, 0), 1);
		assert_int_not_equal(p.wire[0]->path, last);
		last = p.wire[0]->path;
		lose_all();
	}
}

/* A source goes back when it is acknowledged and every read of it has ended. */
TEST_IN(flow_sent__holds_the_source, NULL, end)
{
	struct pair_cfg c = pair_packets();
	struct uccl_flow *f;

	c.tx_async = true;
	start(c);
	f = &p.side[0].f;
	p.sent_delay = 10 * MS;
	pair_record(&p, 0, 100);
	pair_record(&p, 0, 0);
	pair_run(&p, p.now + 5 * MS);
	assert_int_equal(p.side[1].complete, 2);
	assert_int_equal(f->sent.inflight_chunks, 0);
	/* The empty one has nothing to read. */
	assert_int_equal(p.side[0].acked, 1);
	assert_int_equal(f->sent.una, c.csn[0]);
	pair_run(&p, p.now + 6 * MS);
	assert_int_equal(p.side[0].acked, 2);
	assert_int_equal(f->sent.una, c.csn[0] + 2);
}

/* A NIC that copies packets but reads writes later: a source of writes goes back when the last is read. */
TEST_IN(flow_sent__writes_only, NULL, end)
{
	struct pair_cfg c = pair_direct();
	struct uccl_flow *f;

	c.tx_async = false;
	c.write_async = true;
	start(c);
	f = &p.side[0].f;
	p.sent_delay = 10 * MS;
	pair_record(&p, 0, 100);
	pair_bulk(&p, 0, 10000);
	pair_run(&p, p.now + 5 * MS);
	assert_int_equal(p.side[1].complete, 2);
	assert_int_equal(p.side[0].acked, 1);
	assert_int_equal(f->sent.nxt - f->sent.una, 3);
	pair_run(&p, p.now + 6 * MS);
	assert_int_equal(p.side[0].acked, 2);
	assert_int_equal(f->sent.una, f->sent.nxt);
	/* What is sent again goes in packets, which nobody tells of. */
	p.faults.loss = 0.3;
	pair_bulk(&p, 0, 256 * KIB);
	assert_true(pair_finish(&p, 20 * UCCL_NS_PER_S));
	assert_true(p.side[0].stats.rtx_packets > 0);
}

TEST_IN(flow_sent__unknown, NULL, end)
{
	struct pair_cfg c = pair_packets();
	struct uccl_flow *f;

	c.tx_async = true;
	start(c);
	f = &p.side[0].f;
	pair_record(&p, 0, 0);
	pair_pump_one(&p, 0);
	uccl_flow_sent(f, c.csn[0] - 1, p.now);
	uccl_flow_sent(f, c.csn[0], p.now); /* empty: no read was announced */
	uccl_flow_sent(f, c.csn[0] + 1, p.now);
	uccl_flow_sent(f, UCCL_NEVER, p.now);
	assert_int_equal(uccl_sent_at(&f->sent, c.csn[0])->item->pending, 1);
	assert_int_equal(p.side[0].acked, 0);
	/* Numbers that have the same place in the log as a chunk that is being read. */
	pair_record(&p, 0, 50);
	pair_pump_one(&p, 0);
	uccl_flow_sent(f, c.csn[0] + 1 - f->sent.cap, p.now);
	uccl_flow_sent(f, c.csn[0] + 1 + f->sent.cap, p.now);
	assert_int_equal(uccl_sent_at(&f->sent, c.csn[0] + 1)->nic_reads, 1);
	assert_true(pair_finish(&p, MS));
}

/* Acknowledged to the last and only a read is out: no time-out asks the peer for anything. */
TEST_IN(flow_sent__no_probe_for_a_read, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.tx_async = true;
	start(c);
	p.sent_delay = 300 * US;
	pair_record(&p, 0, 100);
	pair_run(&p, p.now + UCCL_NS_PER_S);
	assert_int_equal(p.side[0].acked, 1);
	assert_int_equal(p.side[0].stats.probes, 0);
	assert_int_equal(p.side[0].f.loss.pto.backoff, 0);
}

static void soak(struct pair_cfg c, uint64_t seed, double loss, double dup, double reorder)
{
	c.seed = seed;
	start(c);
	p.faults.loss = loss;
	p.faults.dup = dup;
	p.faults.reorder = reorder;
	p.faults.reorder_ns = 100 * US;
	for (int i = 0; i < 20; i++) {
		for (int s = 0; s < 2; s++) {
			struct pair_obj *o = pair_make(&p, s, 1 + (uint32_t)uccl_rng_below(&p.rng, 60 * KIB), true,
						       1 + (int)uccl_rng_below(&p.rng, 8));

			uccl_flow_submit(&p.side[s].f, &o->item);
			pair_record(&p, s, (uint32_t)uccl_rng_below(&p.rng, c.chunk_bytes + 1));
		}
		pair_run(&p, p.now + uccl_rng_below(&p.rng, 200 * US));
	}
	assert_true(pair_finish(&p, 20 * UCCL_NS_PER_S));
	pair_fini(&p);
}

TEST_IN(all__faults_by_chance, NULL, end)
{
	struct pair_cfg c = pair_packets();

	for (uint64_t seed = 1; seed <= 12; seed++) {
		c.tx_async = seed & 1;
		soak(c, seed, 0.02 * (double)(seed % 5), seed % 3 ? 0.02 : 0, seed % 2 ? 0.1 : 0);
	}
}

TEST_IN(all__numbers_wrap, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.csn[0] = (1ull << 32) - 200;
	c.csn[1] = 0;
	for (uint64_t seed = 1; seed <= 3; seed++)
		soak(c, seed, 0.05, 0.02, 0.1);
	c.window = 64;
	c.csn[0] = (1ull << 32) - 1;
	c.csn[1] = (1ull << 47) - 3;
	soak(c, 4, 0.05, 0.02, 0.1);
}

/* The peer tells side 0 of so many slots, and acknowledges so many chunks. */
static void granted(uint16_t slots, uint32_t acked)
{
	struct uccl_hdr h = {.type = UCCL_PKT_ACK};
	struct uccl_ack a = pair_ack(&p, 0, p.cfg.csn[0] + acked);

	a.slots = slots;
	pair_feed(&p, 0, &h, NULL, &a);
}

/* No slots: nothing leaves but the question for one, at once, and again if no answer comes. PROTOCOL R179 */
TEST_IN(want__asks, NULL, end)
{
	struct uccl_flow *f = &p.side[0].f;

	start(pair_packets());
	granted(0, 0);
	assert_int_equal(pair_pump_one(&p, 0), 0);
	pair_record(&p, 0, 10);
	assert_int_equal(uccl_flow_expiry(f), 0);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(pair_pump_one(&p, 0), 1);
		assert_int_equal(p.wire[0]->h.type, UCCL_PKT_PROBE);
		assert_int_equal(p.wire[0]->h.flags, UCCL_FLAG_AR | UCCL_FLAG_WANT);
		assert_true(p.wire[0]->h.tail_len > 0);
		lose_all();
		assert_int_equal(pair_pump_one(&p, 0), 0);
		assert_int_equal(uccl_flow_stall(f, p.now), UCCL_STALL_SLOTS);
		assert_true(uccl_flow_expiry(f) > p.now);
		/* That there is still none is no reason to ask earlier. */
		granted(0, 0);
		assert_int_equal(pair_pump_one(&p, 0), 0);
		p.now = uccl_flow_expiry(f);
	}
	granted(1, 0);
	pair_record(&p, 0, 10);
	assert_int_equal(pair_pump_one(&p, 0), 1);
	assert_int_equal(p.wire[0]->h.type, UCCL_PKT_CHUNK);
	lose_all();
	/* Taken back with its acknowledgement: the next question leaves at once. */
	granted(0, 1);
	assert_true(pair_pump_one(&p, 0) >= 1);
	assert_int_equal(p.wire[0]->h.type, UCCL_PKT_PROBE);
	assert_true(p.wire[0]->h.flags & UCCL_FLAG_WANT);
}

/* Who grants hears with each packet that asks for an answer whether more comes. PROTOCOL R178 */
TEST_IN(want__says_whether_more_waits, NULL, end)
{
	start(pair_packets());
	granted(1, 0);
	pair_record(&p, 0, 10);
	pair_record(&p, 0, 10);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(pair_pump_one(&p, 0), 1);
		assert_int_equal(p.wire[0]->h.flags, UCCL_FLAG_AR | (i ? 0 : UCCL_FLAG_WANT));
		lose_all();
		granted(1, i + 1);
	}
}

/* Whose records followed each other says so though nothing waits now. PROTOCOL R246 */
TEST_IN(want__expects_more, NULL, end)
{
	start(pair_packets());
	granted(1, 0);
	for (uint32_t i = 0; i < 8; i++) {
		/* A long silence after the fifth. */
		p.now += (i == 5 ? 50 : 2) * UCCL_NS_PER_MS;
		pair_record(&p, 0, 10);
		assert_int_equal(pair_pump_one(&p, 0), 1);
		assert_int_equal(p.wire[0]->h.type, UCCL_PKT_CHUNK);
		assert_int_equal(p.wire[0]->h.flags, UCCL_FLAG_AR | ((i >= 2 && i < 5) || i == 7 ? UCCL_FLAG_WANT : 0));
		lose_all();
		granted(1, i + 1);
	}
}

/*
 * Where slots are bytes, a long queue has room for many short packets. No more are in flight than slots for as many of
 * the longest, or 64, and the last one asks: what the peer waits for is behind them. PROTOCOL R376
 */
TEST_IN(slots__short_packets, NULL, end)
{
	static const struct {
		uint16_t slots, leave;
	} cases[] = {{100, 20}, {600, 64}, {5000, 73}};
	struct pair_cfg c = pair_packets();

	c.chunk_bytes = 60000;
	for (int i = 0; i < 3; i++) {
		start(c);
		uccl_sent_unit(&p.side[0].f.sent, 10, UCCL_HDR_LEN + c.chunk_bytes);
		granted(cases[i].slots, 0);
		for (int k = 0; k < 100; k++)
			pair_record(&p, 0, 10);
		assert_int_equal(pair_pump_one(&p, 0), cases[i].leave);
		assert_true(p.wire[cases[i].leave - 1]->h.flags & UCCL_FLAG_AR);
		assert_int_equal(uccl_flow_stall(&p.side[0].f, p.now), UCCL_STALL_SLOTS);
		end(state);
	}
	start(c);
}

TEST_IN(all__few_slots, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.slots = 3;
	soak(c, 1, 0.05, 0.02, 0.1);
	c.slots = 1;
	c.window = 64;
	soak(c, 2, 0.05, 0.02, 0.1);
}

TEST_IN(all__policies, NULL, end)
{
	for (const char *const *cc = uccl_cc_names(); *cc; cc++)
		for (const char *const *ps = uccl_path_names(); *ps; ps++)
			for (const char *const *cr = uccl_credit_names(); *cr; cr++) {
				struct pair_cfg c = pair_packets();

				c.cc = uccl_cc_find(*cc);
				c.pathsel = uccl_path_find(*ps);
				c.credit = uccl_credit_find(*cr);
				soak(c, 1, 0.03, 0.01, 0.05);
			}
}

/* Chunks 2 .. 9 are lost at first. */
TEST_IN(all__first_window_lost, NULL, end)
{
	start(pair_packets());
	p.filter = lose_all_data;
	p.count = 100;
	pair_bulk(&p, 0, 100 * KIB);
	assert_true(pair_finish(&p, UCCL_NS_PER_S));
}

/* Control goes where answers came from, and now and then elsewhere. */
TEST_IN(tx_control_path__answering_ones, NULL, end)
{
	struct pair_cfg c = pair_packets();
	uint32_t on[8] = {0};
	struct uccl_flow *f;

	c.paths = 8;
	start(c);
	f = &p.side[0].f;
	uccl_paths_alive(&f->paths, 2, p.now);
	uccl_paths_alive(&f->paths, 6, p.now);
	for (int i = 0; i < 160; i++) {
		f->close.ack_due = true;
		assert_int_equal(pair_pump_one(&p, 0), 1);
		on[p.wire[0]->path]++;
		lose_all();
	}
	assert_in_range(on[2], 60, 80);
	assert_in_range(on[6], 60, 80);
	for (int i = 0; i < 8; i++)
		assert_true(on[i] > 0);
}

/*
 * A peer that is short of memory refuses what is sent again, whatever it waits for: with few slots that must not keep
 * the rest from leaving. PROTOCOL R383
 */
TEST_IN(flow_tx__short_of_memory, NULL, end)
{
	for (int is_short = 0; is_short < 2; is_short++) {
		struct pair_cfg c = pair_packets();
		struct uccl_ack a;
		struct uccl_hdr h = {.type = UCCL_PKT_ACK};
		uint32_t small = 0, bulk = 0;

		c.paths = 1;
		start(c);
		pair_bulk(&p, 0, 20 * KIB);
		pair_pump_one(&p, 0);
		pair_record(&p, 0, 5);
		pair_bulk(&p, 0, 4 * KIB);
		lose_all();
		a = pair_ack(&p, 0, c.csn[0]);
		a.nwords = 1;
		a.sack[0] = 1ull << 18;
		a.slots = 4;
		a.rcv_short = is_short;
		a.npaths = 1;
		a.paths[0] = (struct uccl_ack_path){.seq = 20, .echo = uccl_ts(p.now), .delay = UINT32_MAX};
		pair_feed(&p, 0, &h, NULL, &a);
		assert_int_equal(pair_pump_one(&p, 0), 4);
		for (uint32_t i = 0; i < p.nwire; i++) {
			small += p.wire[i]->h.rtype == PAIR_RECORD;
			bulk += p.wire[i]->h.rtype == PAIR_BULK && !(p.wire[i]->h.flags & UCCL_FLAG_RTX);
		}
		assert_int_equal(small, is_short);
		assert_int_equal(bulk, is_short);
		pair_fini(&p);
	}
}

TESTS_MAIN
