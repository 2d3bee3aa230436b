/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../one_pair.h"
#include "../../tests.h"

/* A raw chunk of `len` bytes arrives at side 1. */
static void feed(uint64_t csn, uint16_t len, uint8_t flags)
{
	static const uint8_t bytes[65536];
	struct uccl_hdr h = {
		.type = UCCL_PKT_CHUNK,
		.rtype = PAIR_RAW,
		.flags = flags,
		.csn = (uint32_t)csn,
		.payload_len = len,
	};

	pair_feed(&p, 1, &h, bytes, NULL);
}

static void feed_type(uint8_t type, uint64_t value)
{
	uint8_t rec[UCCL_REC_LEN] = {0};
	struct uccl_hdr h = {.type = type, .rec = rec};

	uccl_put64(rec, value);
	pair_feed(&p, 1, &h, NULL, NULL);
}

PAIR_TEST(received__moves_the_window, pair_packets())
{
	feed(base() + 1, 0, 0);
	feed(base() + 2, 0, 0);
	feed(base() + 4, 0, 0);
	assert_int_equal(rx()->rx.arrived.nxt, base());
	assert_int_equal(rx()->rx.arrived.high, base() + 5);
	feed(base(), 0, 0);
	assert_int_equal(rx()->rx.arrived.nxt, base() + 3);
	feed(base() + 3, 0, 0);
	assert_int_equal(rx()->rx.arrived.nxt, base() + 5);
	assert_int_equal(rx()->rx.arrived.high, base() + 5);
	assert_int_equal(p.side[1].raw, 5);
}

/* More than 1024 chunks wait for the first one. */
TEST_IN(received__long_way_out_of_order, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.window = 2048;
	start(c);
	for (uint32_t i = 2047; i > 0; i--)
		feed(base() + i, 0, 0);
	assert_int_equal(p.side[1].raw, 2047);
	assert_int_equal(rx()->rx.arrived.nxt, base());
	feed(base(), 0, 0);
	assert_int_equal(rx()->rx.arrived.nxt, base() + 2048);
	for (uint32_t i = 0; i < 2048 / 64; i++)
		assert_true(rx()->rx.arrived.map[i] == 0);
}

static void lose_first_for_a_while(struct pair *q, struct pair_pkt *k)
{
	if (k->to == 1 && k->h.type == UCCL_PKT_CHUNK && k->h.csn == (uint32_t)q->cfg.csn[0] && q->count++ < 4)
		k->fate = PAIR_DROP;
}

/* The same between two flows: all others arrive while the first one is lost four times. */
TEST_IN(received__long_way_between_flows, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.window = 2048;
	c.slots = 4096;
	c.paths = 64;
	c.labels = 64;
	start(c);
	p.filter = lose_first_for_a_while;
	for (int i = 0; i < 1500; i++)
		pair_record(&p, 0, 700);
	while (p.count < 4)
		assert_true(pair_step(&p));
	assert_int_equal(p.side[1].complete, 1499);
	assert_int_equal(p.side[0].f.sent.una, base());
	assert_true(pair_finish(&p, 20 * MS));
	assert_int_equal(p.side[0].stats.rtx_packets, 4);
}

PAIR_TEST(owe_ack__one_small_chunk, pair_packets())
{
	feed(base(), 100, 0);
	assert_false(rx()->rx.ack_tracker.now);
	assert_int_equal(rx()->rx.ack_tracker.at, p.now + UCCL_ACK_DELAY_NS);
	assert_int_equal(uccl_flow_expiry(rx()), p.now + UCCL_ACK_DELAY_NS);
	/* The second does not push it back. */
	p.now += 50 * US;
	feed(base() + 1, 100, 0);
	assert_int_equal(rx()->rx.ack_tracker.at, p.now + 50 * US);
	p.now += 50 * US;
	uccl_flow_expire(rx(), p.now);
	assert_int_equal(pair_pump_one(&p, 1), 1);
	assert_int_equal(p.wire[0]->h.type, UCCL_PKT_ACK);
	assert_int_equal(pair_pump_one(&p, 1), 0);
}

TEST_IN(owe_ack__asked_for, NULL, end)
{
	start(pair_packets());
	/* At once, whatever its size. */
	feed(base(), 10, UCCL_FLAG_AR);
	assert_true(rx()->rx.ack_tracker.now);
	pair_fini(&p);
	start(pair_packets());
	feed(base(), 60000, 0);
	assert_false(rx()->rx.ack_tracker.now);
}

TEST_IN(owe_ack__every_so_many, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.slots = 1024;
	start(c);
	for (uint32_t i = 0; i < 128; i++) {
		assert_false(rx()->rx.ack_tracker.now);
		feed(base() + i, 10, 0);
	}
	assert_true(rx()->rx.ack_tracker.now);
	pair_fini(&p);
	/* With few slots earlier, or the sender would stand still. */
	c.slots = 8;
	start(c);
	feed(base(), 10, 0);
	assert_false(rx()->rx.ack_tracker.now);
	feed(base() + 1, 10, 0);
	assert_true(rx()->rx.ack_tracker.now);
	pair_fini(&p);
	c.slots = 1;
	start(c);
	feed(base(), 10, 0);
	assert_true(rx()->rx.ack_tracker.now);
}

PAIR_TEST(owe_ack__out_of_order, pair_packets())
{
	feed(base() + 1, 10, 0);
	assert_false(rx()->rx.ack_tracker.now);
	assert_int_equal(rx()->rx.ack_tracker.at, p.now + 20 * US);
}

/* Request and answer: every acknowledgement travels with data. */
PAIR_TEST(owe_ack__carried_by_the_answer, pair_packets())
{
	for (int i = 0; i < 10; i++) {
		pair_record(&p, 0, 100);
		while (p.side[1].complete <= (uint32_t)i)
			assert_true(pair_step(&p));
		pair_record(&p, 1, 100);
		while (p.side[0].complete <= (uint32_t)i)
			assert_true(pair_step(&p));
	}
	/* Every answer but the last needed no packet of its own. */
	assert_int_equal(p.side[0].stats.tx_packets, 10);
	assert_int_equal(p.side[1].stats.tx_packets, 10);
	assert_int_equal(p.side[0].acked, 10);
	assert_true(pair_finish(&p, MS));
}

PAIR_TEST(rx_dup__always_answered, pair_packets())
{
	feed(base(), 10, 0);
	rx()->rx.ack_tracker.now = true;
	pair_pump_one(&p, 1);
	assert_true(rx()->rx.ack_tracker.at == UCCL_NEVER);
	feed(base(), 10, UCCL_FLAG_RTX);
	assert_int_equal(rx()->rx.ack_tracker.at, p.now + 1);
	assert_int_equal(rx()->rx.ack_tracker.slots, 1);
	assert_int_equal(rx()->rx.ack_tracker.dups, 1);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_DUPLICATE), 1);
	assert_int_equal(p.side[1].raw, 1);
}

/* In the window and behind it. */
PAIR_TEST(rx_dup__counted, pair_packets())
{
	feed(base() + 5, 10, 0);
	feed(base() + 5, 10, UCCL_FLAG_RTX);
	assert_int_equal(rx()->rx.ack_tracker.dups, 1);
	feed(base(), 10, 0);
	feed(base(), 10, 0);
	assert_int_equal(rx()->rx.ack_tracker.dups, 2);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_DUPLICATE), 2);
	assert_int_equal(p.side[1].raw, 2);
	assert_int_equal(rx()->credit.received, 20);
}

PAIR_TEST(rx_path__newest_only, pair_packets())
{
	struct uccl_hdr h;

	h = (struct uccl_hdr){.type = UCCL_PKT_PROBE, .path = 2, .pseq = 10, .ts = 111};
	pair_feed(&p, 1, &h, NULL, NULL);
	h = (struct uccl_hdr){.type = UCCL_PKT_PROBE, .path = 2, .pseq = 9, .ts = 222};
	pair_feed(&p, 1, &h, NULL, NULL);
	assert_int_equal(rx()->rx.ack_tracker.paths[2].high_seq, 10);
	assert_int_equal(rx()->rx.ack_tracker.paths[2].echo, 111);
	assert_int_equal(rx()->rx.ack_tracker.ndirty, 1);
}

PAIR_TEST(rx_path__number_wraps, pair_packets())
{
	struct uccl_hdr h;

	rx()->rx.ack_tracker.paths[1].high_seq = UINT32_MAX - 1;
	h = (struct uccl_hdr){.type = UCCL_PKT_PROBE, .path = 1, .pseq = 3, .ts = 5};
	pair_feed(&p, 1, &h, NULL, NULL);
	assert_int_equal(rx()->rx.ack_tracker.paths[1].high_seq, 3);
	h = (struct uccl_hdr){.type = UCCL_PKT_PROBE, .path = 1, .pseq = UINT32_MAX, .ts = 6};
	pair_feed(&p, 1, &h, NULL, NULL);
	assert_int_equal(rx()->rx.ack_tracker.paths[1].high_seq, 3);
}

/* The packet waited in the host before we looked: that is turnaround, not network. */
PAIR_TEST(rx_path__age, pair_packets())
{
	struct uccl_hdr h = {.type = UCCL_PKT_PROBE, .pseq = 1, .ts = 9};

	uccl_flow_rx(rx(), &h, NULL, NULL, 700, p.now);
	assert_int_equal(rx()->rx.ack_tracker.paths[0].arrived_ns, p.now - 700);
	h.pseq = 2;
	uccl_flow_rx(rx(), &h, NULL, NULL, p.now + 1, p.now);
	assert_int_equal(rx()->rx.ack_tracker.paths[0].arrived_ns, p.now);
}

TEST_IN(rx_chunk__window_edge, NULL, end)
{
	struct pair_cfg c = pair_packets();
	uint64_t first[] = {1000, 0, (1ull << 32) - 100, (1ull << 32) - 256, 1ull << 32};

	for (unsigned int i = 0; i < uccl_array_len(first); i++) {
		c.csn[0] = first[i];
		start(c);
		feed(base() + c.window, 0, 0);
		assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_WINDOW), 1);
		feed(base() + c.window + 1, 0, 0);
		assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_WINDOW), 2);
		assert_int_equal(p.side[1].raw, 0);
		assert_int_equal(rx()->rx.arrived.high, base());
		feed(base() + c.window - 1, 0, 0);
		assert_int_equal(p.side[1].raw, 1);
		/* It has the place of what is a window behind, and is not taken for it. */
		feed(base() + c.window - 1, 0, 0);
		assert_int_equal(p.side[1].raw, 1);
		for (uint32_t n = 0; n < c.window - 1; n++)
			feed(base() + n, 0, 0);
		assert_int_equal(rx()->rx.arrived.nxt, base() + c.window);
		feed(base() + c.window, 0, 0);
		assert_int_equal(rx()->rx.arrived.nxt, base() + c.window + 1);
		assert_int_equal(p.side[1].raw, c.window + 1);
		pair_fini(&p);
	}
}

/* What was never sent because the flow began later. */
TEST_IN(rx_chunk__before_the_first, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.csn[0] = 0;
	start(c);
	feed(UINT32_MAX, 0, 0);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_WINDOW), 1);
	assert_int_equal(p.side[1].raw, 0);
}

static enum uccl_drop refuse_as_told(struct pair *q, struct pair_side *s, const struct uccl_chunk_in *in)
{
	return *(enum uccl_drop *)q->arg;
}

PAIR_TEST(rx_chunk__no_memory, pair_packets())
{
	enum uccl_drop why = UCCL_DROP_MEMORY;

	p.refuse = refuse_as_told;
	p.arg = &why;
	feed(base(), 10, 0);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_MEMORY), 1);
	assert_int_equal(rx()->rx.arrived.nxt, base());
	assert_int_equal(rx()->credit.received, 0);
	why = UCCL_DROP_COUNT;
	feed(base(), 10, 0);
	assert_int_equal(rx()->rx.arrived.nxt, base() + 1);
}

static enum uccl_drop refuse_some(struct pair *q, struct pair_side *s, const struct uccl_chunk_in *in)
{
	return uccl_rng_chance(&q->rng, 0.3) ? UCCL_DROP_MEMORY : UCCL_DROP_COUNT;
}

PAIR_TEST(rx_chunk__no_memory_comes_again, pair_packets())
{
	p.refuse = refuse_some;
	for (int i = 0; i < 50; i++)
		pair_record(&p, 0, 100);
	pair_bulk(&p, 0, 50000);
	assert_true(pair_finish(&p, 10 * UCCL_NS_PER_S));
	assert_true(pair_dropped(&p, 1, UCCL_DROP_MEMORY) > 10);
}

/* Nobody will ever want it: acknowledged, so that it does not come for ever. PROTOCOL R315 */
PAIR_TEST(rx_chunk__thrown_away, pair_packets())
{
	enum uccl_drop why = UCCL_DROP_UNWANTED;

	p.refuse = refuse_as_told;
	p.arg = &why;
	feed(base(), 10, 0);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_UNWANTED), 1);
	assert_int_equal(rx()->rx.arrived.nxt, base() + 1);
}

/* What the layer above refuses is counted, and as if it had never come: the chunk of this number is. PROTOCOL R315 */
TEST_IN(rx_chunk__refused, NULL, end)
{
	static const enum uccl_drop reasons[] = { UCCL_DROP_HANDLE, UCCL_DROP_RECORD, UCCL_DROP_RANGE,
						  UCCL_DROP_OVERLAP, UCCL_DROP_STATE };

	for (size_t i = 0; i < uccl_array_len(reasons); i++)
		for (uint32_t ahead = 0; ahead < 3; ahead++) {
			enum uccl_drop why = reasons[i];
			uint64_t bytes;

			start(pair_packets());
			p.refuse = refuse_as_told;
			p.arg = &why;
			feed(base() + ahead, 10, 0);
			assert_int_equal(pair_dropped(&p, 1, why), 1);
			assert_int_equal(rx()->rx.arrived.nxt, base());
			assert_int_equal(rx()->rx.arrived.high, base());
			assert_int_equal(rx()->credit.received, 0);
			p.refuse = NULL;
			bytes = p.side[1].stats.rx_bytes;
			for (int k = 0; k < 5; k++)
				pair_record(&p, 0, 100);
			assert_true(pair_finish(&p, UCCL_NS_PER_S));
			assert_int_equal(p.side[1].stats.rx_bytes - bytes, 500);
			pair_fini(&p);
		}
}

PAIR_TEST(flow_rx__path, pair_packets())
{
	struct uccl_hdr h = {.type = UCCL_PKT_CHUNK, .rtype = PAIR_RAW, .csn = 1000, .path = 4, .pseq = 1};

	pair_feed(&p, 1, &h, NULL, NULL);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_PATH), 1);
	assert_int_equal(p.side[1].raw, 0);
	h.path = 3;
	pair_feed(&p, 1, &h, NULL, NULL);
	assert_int_equal(p.side[1].raw, 1);
}

/* A packet whose acknowledgement lies is not taken for the rest of it either. */
PAIR_TEST(flow_rx__bad_block, pair_packets())
{
	struct uccl_hdr h = {.type = UCCL_PKT_CHUNK, .rtype = PAIR_RAW, .csn = 1000, .pseq = 1};
	uint8_t tail[UCCL_TAIL_MAX] = {0};
	struct uccl_ack a;

	p.now += 5;
	a = pair_ack(&p, 1, p.cfg.csn[1] + 1);
	pair_feed(&p, 1, &h, NULL, &a);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_ACK), 1);
	/* Malformed. */
	h.tail_len = 15;
	uccl_flow_rx(rx(), &h, NULL, tail, 0, p.now);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_LENGTH), 1);
	assert_int_equal(p.side[1].raw, 0);
	assert_int_equal(p.side[1].stats.rx_packets, 0);
	assert_int_equal(rx()->rx.heard_ns, p.now - 5);
	assert_int_equal(rx()->rx.ack_tracker.ndirty, 0);
}

/* Zeros behind a chunk that says so are no block; but nothing else is let pass for them. PROTOCOL R259 */
TEST_IN(flow_rx__padded, NULL, end)
{
	static const uint8_t rec[UCCL_REC_LEN];
	uint8_t tail[UCCL_TAIL_MAX] = {0};

	for (uint16_t len = 1; len < UCCL_ACK_FIXED; len++)
		for (int k = 0; k < 5; k++) {
			struct uccl_hdr h = {
				.type = k == 1 ? UCCL_PKT_PROBE : UCCL_PKT_CHUNK,
				.flags = k == 2 ? 0 : UCCL_FLAG_PADDED,
				.rtype = PAIR_RAW,
				.csn = 1000,
				.pseq = 1,
				.tail_len = len,
				.rec = rec,
			};

			start(pair_packets());
			tail[0] = k == 3;
			tail[len - 1] |= k == 4;
			uccl_flow_rx(rx(), &h, NULL, tail, 0, p.now);
			assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_LENGTH), k > 0);
			assert_int_equal(p.side[1].stats.rx_packets, k == 0);
			assert_int_equal(p.side[1].raw, k == 0);
			tail[0] = tail[len - 1] = 0;
			pair_fini(&p);
		}
}

PAIR_TEST(flow_rx__heard, pair_packets())
{
	p.now += 100;
	feed_type(UCCL_PKT_ACK, 0);
	assert_int_equal(rx()->rx.heard_ns, p.now);
	assert_int_equal(p.side[1].stats.rx_packets, 1);
	assert_false(rx()->rx.ack_tracker.now);
}

PAIR_TEST(flow_rx__probe, pair_packets())
{
	feed_type(UCCL_PKT_PROBE, 0);
	assert_int_equal(pair_pump_one(&p, 1), 1);
	assert_int_equal(p.wire[0]->h.type, UCCL_PKT_ACK);
	assert_true(p.wire[0]->h.tail_len > 0);
}

TEST_IN(flow_rx__credit, NULL, end)
{
	struct pair_cfg c = pair_packets();
	uint64_t before;

	c.credit = &uccl_credit_window;
	start(c);
	before = uccl_credit_window.limit(rx()->policy.credit);
	feed_type(UCCL_PKT_CREDIT, before + 1000);
	assert_int_equal(uccl_credit_window.limit(rx()->policy.credit), before + 1000);
	/* An older one that comes late. */
	feed_type(UCCL_PKT_CREDIT, before + 500);
	assert_int_equal(uccl_credit_window.limit(rx()->policy.credit), before + 1000);
}

TEST_IN(flow_rx__demand, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.credit = &uccl_credit_window;
	start(c);
	feed_type(UCCL_PKT_DEMAND, 5000);
	assert_int_equal(rx()->credit.demand, 5000);
	assert_true(rx()->credit.due);
	assert_int_equal(pair_pump_one(&p, 1), 1);
	assert_int_equal(p.wire[0]->h.type, UCCL_PKT_CREDIT);
	assert_true(uccl_get64(p.wire[0]->h.rec) >= 5000);
	/* Less than before, or less than what came: answered all the same. */
	feed_type(UCCL_PKT_DEMAND, 3000);
	assert_int_equal(rx()->credit.demand, 5000);
	assert_true(rx()->credit.due);
	rx()->credit.due = false;
	rx()->credit.received = 100000;
	feed_type(UCCL_PKT_DEMAND, 6000);
	assert_true(rx()->credit.due);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_CREDIT), 0);
	rx()->credit.due = false;
	feed_type(UCCL_PKT_DEMAND, (1ull << 48) + 100001);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_CREDIT), 1);
	feed_type(UCCL_PKT_DEMAND, UINT64_MAX);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_CREDIT), 2);
	/* Nor may many steps lead to where numbers end. */
	rx()->credit.received = (1ull << 62) - 10;
	feed_type(UCCL_PKT_DEMAND, 1ull << 62);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_CREDIT), 3);
	assert_int_equal(rx()->credit.demand, 6000);
	assert_false(rx()->credit.due);
}

PAIR_TEST(flow_rx__close, pair_packets())
{
	feed_type(UCCL_PKT_CLOSE, 0);
	assert_true(rx()->close.seen);
	assert_int_equal(pair_pump_one(&p, 1), 1);
	assert_int_equal(p.wire[0]->h.type, UCCL_PKT_CLOSE_ACK);
	/* Its answer was lost: asked again, answered again. */
	feed_type(UCCL_PKT_CLOSE, 0);
	assert_int_equal(pair_pump_one(&p, 1), 1);
	assert_int_equal(p.wire[1]->h.type, UCCL_PKT_CLOSE_ACK);
}

PAIR_TEST(flow_rx__close_ack, pair_packets())
{
	/* Nobody asked. */
	feed_type(UCCL_PKT_CLOSE_ACK, 0);
	assert_int_equal(rx()->close.state, UCCL_FLOW_OPEN);
	uccl_flow_close(rx(), p.now);
	feed_type(UCCL_PKT_CLOSE_ACK, 0);
	assert_int_equal(rx()->close.state, UCCL_FLOW_CLOSED);
	assert_true(rx()->close.at == UCCL_NEVER);
	assert_int_equal(pair_pump_one(&p, 1), 0);
}

PAIR_TEST(flow_rx__handshake_types, pair_packets())
{
	for (uint8_t type = UCCL_PKT_HELLO; type <= UCCL_PKT_ELSEWHERE; type++)
		feed_type(type, 0);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_STATE), 5);
}

/* Answers of side 1 to a PROBE that arrives now: how many; `paths` gets their bits. */
static int answers(struct uccl_ack *report, uint32_t *paths)
{
	struct uccl_hdr h = {.type = UCCL_PKT_PROBE, .path = 1};
	int n;

	pair_feed(&p, 1, &h, NULL, report);
	n = pair_pump_one(&p, 1);
	*paths = 0;
	for (int i = 0; i < n; i++) {
		assert_int_equal(p.wire[i]->h.type, UCCL_PKT_ACK);
		*paths |= 1u << p.wire[i]->path;
	}
	while (p.nwire)
		pair_lose(&p, 0);
	return n;
}

/* Who asks again, later than an RTT and without a word of our answer, did not get it: other paths, and more of them. */
TEST_IN(rx_probe__unheard, NULL, end)
{
	struct pair_cfg c = pair_packets();
	uint32_t paths, all = 0;
	struct uccl_ack a;

	c.paths = 8;
	start(c);
	uccl_paths_alive(&rx()->paths, 5, p.now);
	p.now += MS;
	assert_int_equal(answers(NULL, &paths), 1);
	/* At once again: it cannot have heard yet. */
	assert_int_equal(answers(NULL, &paths), 1);
	p.now += 3 * MS;
	assert_int_equal(answers(NULL, &paths), 2);
	assert_int_equal(__builtin_popcount(paths), 2);
	p.now += 3 * MS;
	assert_int_equal(answers(NULL, &paths), 2);
	assert_int_equal(__builtin_popcount(paths), 2);
	assert_int_equal(rx()->paths.control.n, 0);
	assert_int_equal(p.side[1].stats.rerolled, 0);
	for (int i = 0; i < 8; i++) {
		/* Asked sooner than the time before: one answer, and no new label. PROTOCOL R321 */
		if (i > 2) {
			uint64_t rolled = p.side[1].stats.rerolled;

			for (int k = 0; k < 20; k++) {
				p.now += (rx()->cfg.rto_min_ns / 2 << (i - 2)) / 40;
				assert_int_equal(answers(NULL, &paths), 1);
			}
			assert_true(p.side[1].stats.rerolled <= rolled + 4);
		}
		p.now += (uint64_t)3 * MS << (i > 2 ? i - 2 : 0);
		assert_int_equal(answers(NULL, &paths), 4);
		assert_int_equal(__builtin_popcount(paths), 4);
		all |= paths;
	}
	assert_int_equal(all, 255);
	/* Every path was tried: now other labels. */
	assert_true(p.side[1].stats.rerolled > 0);
	/* It knows of one of them. */
	p.now += 3000 * MS;
	a = pair_ack(&p, 1, p.cfg.csn[1]);
	a.npaths = 1;
	a.paths[0] = (struct uccl_ack_path){.path = 3, .seq = rx()->paths.list[3].next_seq - 1, .echo = uccl_ts(p.now)};
	rx()->paths.list[3].fresh_seq = 1;
	assert_int_equal(answers(&a, &paths), 1);
	assert_int_equal(rx()->paths.unheard, 0);
	assert_int_equal(rx()->paths.control.n, 1);
	assert_int_equal(rx()->paths.control.list[0], 3);
}

/* What it told of last may be older than our answer by nothing: the answer was not heard of all the same. */
PAIR_TEST(rx_probe__unheard_since_the_same_instant, pair_packets())
{
	uint32_t paths;

	p.now += MS;
	uccl_paths_alive(&rx()->paths, 3, p.now);
	assert_int_equal(answers(NULL, &paths), 1);
	p.now += 3 * MS;
	assert_int_equal(answers(NULL, &paths), 2);
}

/* An only path has no other. */
TEST_IN(rx_probe__unheard_on_one_path, NULL, end)
{
	struct pair_cfg c = pair_packets();
	uint32_t paths;

	c.paths = 2;
	start(c);
	rx()->cfg.paths_tx = rx()->paths.n = 1;
	rx()->paths.nusable = 1;
	for (int i = 0; i < 6; i++) {
		assert_int_equal(answers(NULL, &paths), 1);
		p.now += 3 * MS;
	}
}

/* The path that asks is told of first, however many wait to be told. */
TEST_IN(rx_probe__line_first, NULL, end)
{
	struct pair_cfg c = pair_packets();
	struct uccl_hdr h;
	struct uccl_ack a;
	const struct pair_pkt *k;

	c.paths = c.labels = 40;
	start(c);
	for (uint16_t i = 0; i < 30; i++) {
		h = (struct uccl_hdr){.type = UCCL_PKT_ACK, .path = i};
		pair_feed(&p, 1, &h, NULL, NULL);
	}
	for (uint16_t i = 25; i < 27; i++) {
		h = (struct uccl_hdr){.type = UCCL_PKT_PROBE, .path = i};
		pair_feed(&p, 1, &h, NULL, NULL);
	}
	assert_int_equal(pair_pump_one(&p, 1), 1);
	k = p.wire[0];
	assert_int_equal(uccl_ack_decode(&a, k->data + k->len - k->h.tail_len, k->h.tail_len), UCCL_DROP_COUNT);
	assert_int_equal(a.npaths, UCCL_ACK_PATHS_MAX);
	assert_int_equal(a.paths[0].path, 26);
	assert_int_equal(a.paths[1].path, 25);
	assert_int_equal(a.paths[2].path, 0);
}

/* Marks of all packets with payload count, in order or not, also of what came before. PROTOCOL R189 */
PAIR_TEST(rx_path__marks, pair_packets())
{
	static const uint8_t payload[600];
	struct uccl_hdr h;

	h = (struct uccl_hdr){.type = UCCL_PKT_PROBE, .path = 2, .pseq = 10, .marked = true};
	pair_feed(&p, 1, &h, NULL, NULL);
	assert_int_equal(rx()->rx.ack_tracker.paths[2].marked, 0);
	for (int i = 0; i < 2; i++) {
		h = (struct uccl_hdr){.type = UCCL_PKT_CHUNK,
				      .path = 2,
				      .pseq = 9,
				      .csn = (uint32_t)p.cfg.csn[0],
				      .payload_len = sizeof(payload),
				      .marked = true};
		pair_feed(&p, 1, &h, payload, NULL);
	}
	h.marked = false;
	pair_feed(&p, 1, &h, payload, NULL);
	assert_int_equal(rx()->rx.ack_tracker.paths[2].marked, 1200);
	assert_int_equal(rx()->cfg.stats->marked_rx, 1200);
}

TESTS_MAIN
