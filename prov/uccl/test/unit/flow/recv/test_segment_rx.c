/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Chunks in segments: trains that are chunks, by two flows over a network that loses, doubles and reorders packets. */
#include "../one_pair.h"

#include "base/units.h"
#include "flow/send/tx_internal.h"
#include "../../tests.h"

#define PACKET 1000u

/* Trains of so many packets of 1000 bytes of payload. */
static struct pair_cfg trains(uint32_t packets)
{
	struct pair_cfg c = pair_packets();

	c.chunk_bytes = PACKET;
	c.mtu = UCCL_HDR_LEN + PACKET;
	c.train_bytes = packets * PACKET;
	c.segments = true;
	return c;
}

static void start_trains(uint32_t packets)
{
	struct pair_cfg c = trains(packets);

	pair_init(&p, &c);
}

/* A train is one chunk: one number, one entry, one path, packets with numbers in a row. */
TEST_IN(tx__a_train_is_a_chunk, NULL, end)
{
	uint32_t n = 0, seq = 0;
	uint16_t path = 0;
	struct uccl_tx t;

	start_trains(40);
	pair_bulk(&p, 0, 40 * PACKET);
	while (uccl_flow_tx(tx(), &t, p.now)) {
		assert_int_equal(t.hdr[3], UCCL_PKT_SEGMENT);
		assert_int_equal(uccl_get32(t.hdr + 16), (uint32_t)tx()->sent.una);
		assert_int_equal(t.hdr[32 + 24], n);
		assert_int_equal(t.hdr[32 + 25], 40);
		assert_int_equal(t.payload_len, PACKET);
		assert_int_equal(t.tail_len, 0);
		assert_false(t.single);
		assert_int_equal(t.burst == UCCL_BURST_FIRST, n == 0);
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
	assert_int_equal(uccl_sent_slots(&tx()->sent), 40);
	assert_int_equal(tx()->sent.numbers - tx()->sent.una, 40);
}

/* The packets of the row v[0] lie in v[0] and behind it then, as a NIC would send them. */
static int row_unroll(struct uccl_tx *v)
{
	int n = v[0].row;

	v[0].row = 0;
	for (int i = 1; i <= n; i++) {
		v[i] = v[0];
		uccl_tx_row_hdr(v[i].hdr, v[0].hdr, (uint32_t)i);
		v[i].payload = uccl_tx_row_payload(&v[0], (uint32_t)i);
		v[i].burst = UCCL_BURST_FOLLOWS;
	}
	return n;
}

/*
 * All that leaves, by uccl_flow_tx alone, with as many as `most` that follow at a time, or as rows (-1). Returns how
 * many packets.
 */
static uint32_t tx_all(struct pair *q, struct uccl_tx *v, uint32_t room, int most)
{
	struct uccl_flow *f = &q->side[0].f;
	uint32_t n = 0;
	int more;

	memset(v, 0, room * sizeof(*v));
	while (n + 65 < room && uccl_flow_tx(f, &v[n], q->now)) {
		if (most < 0) {
			more = uccl_flow_tx_row(f, &v[n]);
			assert_int_equal(row_unroll(&v[n]), more);
		} else {
			more = most ? uccl_flow_tx_follow(f, &v[n], most) : 0;
			assert_in_range(more, 0, most);
		}
		n += 1u + (uint32_t)more;
		assert_int_equal(uccl_flow_check(f), 0);
	}
	return n;
}

/* Whoever makes the packets of a train, they are the same, and so is what is known of them. */
TEST_IN(tx_follow__as_one_by_one, NULL, end)
{
	static struct uccl_tx v[2][400];
	static struct pair q;

	for (int most = -1; most <= 64; most++) {
		struct pair_cfg c = trains(40);
		uint32_t n;

		pair_init(&p, &c);
		pair_init(&q, &c);
		for (int i = 0; i < 3; i++) {
			pair_bulk(&p, 0, 95 * PACKET + 8);
			pair_bulk(&q, 0, 95 * PACKET + 8);
		}
		n = tx_all(&p, v[0], 400, 0);
		assert_int_equal(tx_all(&q, v[1], 400, most), n);
		assert_in_range(n, 100, 300);
		for (uint32_t i = 0; i < n; i++) {
			const struct uccl_tx *a = &v[0][i], *b = &v[1][i];

			assert_memory_equal(a->hdr, b->hdr, UCCL_HDR_LEN);
			assert_int_equal(a->payload_len, b->payload_len);
			assert_memory_equal(a->payload, b->payload, a->payload_len);
			assert_int_equal(a->kind, b->kind);
			assert_int_equal(a->burst == UCCL_BURST_FIRST, b->burst == UCCL_BURST_FIRST);
			assert_int_equal(a->single, b->single);
			assert_int_equal(a->control, b->control);
			assert_int_equal(a->path, b->path);
			assert_int_equal(a->label, b->label);
			assert_int_equal(a->hdr_len, b->hdr_len);
			assert_int_equal(a->tail_len, b->tail_len);
			assert_int_equal(a->cookie, b->cookie);
		}
		assert_int_equal(p.side[0].stats.tx_packets, q.side[0].stats.tx_packets);
		for (uint16_t i = 0; i < c.paths; i++) {
			const struct uccl_path *a = &p.side[0].f.paths.list[i], *b = &q.side[0].f.paths.list[i];

			assert_int_equal(a->next_seq, b->next_seq);
			assert_int_equal(a->counters.bytes, b->counters.bytes);
			assert_int_equal(a->counters.packets, b->counters.packets);
		}
		pair_fini(&q);
		pair_fini(&p);
	}
}

/* What says more than the one before it is made by itself: the last of a row, sub-segments, what is sent again. */
TEST_IN(tx_follow__not_these, NULL, end)
{
	static struct uccl_tx v[70];
	static const struct uccl_nic_addr to;
	struct uccl_trace *trace;
	struct pair_cfg c = trains(1);

	start_trains(40);
	pair_record(&p, 0, 100);
	assert_int_equal(uccl_flow_tx(tx(), v, p.now), 1);
	assert_int_equal(uccl_flow_tx_follow(tx(), v, 64), 0);
	assert_int_equal(uccl_flow_tx_row(tx(), v), 0);
	assert_int_equal(v[0].row, 0);
	pair_bulk(&p, 0, 40 * PACKET);
	assert_int_equal(uccl_flow_tx(tx(), v, p.now), 1);
	trace = tx()->cfg.trace;
	tx()->cfg.trace = (struct uccl_trace *)v;
	assert_int_equal(uccl_flow_tx_follow(tx(), v, 64), 0);
	assert_int_equal(uccl_flow_tx_row(tx(), v), 0);
	assert_int_equal(v[0].row, 0);
	tx()->cfg.trace = trace;
	tx()->close.seen = true;
	assert_int_equal(uccl_flow_tx_follow(tx(), v, 64), 0);
	assert_int_equal(uccl_flow_tx_row(tx(), v), 0);
	assert_int_equal(v[0].row, 0);
	tx()->close.seen = false;
	assert_int_equal(uccl_flow_tx_follow(tx(), v, 0), 0);
	v[0].ect = true;
	v[0].to = &to;
	assert_int_equal(uccl_flow_tx_follow(tx(), v, 64), 38);
	for (int i = 1; i <= 38; i++)
		assert_true(v[i].ect && v[i].to == &to);
	assert_int_equal(uccl_flow_tx_follow(tx(), v, 64), 0);
	assert_int_equal(uccl_flow_tx_row(tx(), v), 0);
	assert_int_equal(v[0].row, 0);
	assert_int_equal(uccl_flow_tx(tx(), v, p.now), 1);
	assert_int_equal(v[0].hdr[4], UCCL_FLAG_AR);
	pair_fini(&p);

	start_trains(40);
	pair_bulk(&p, 0, 40 * PACKET);
	pair_pump(&p);
	for (uint32_t i = 0; i < 20; i++)
		pair_lose(&p, 5);
	pair_arrive_all(&p, 1);
	pair_pump_one(&p, 1);
	pair_arrive_all(&p, 0);
	assert_int_equal(uccl_flow_tx(tx(), v, p.now), 1);
	assert_int_equal(v[0].hdr[4], UCCL_FLAG_RTX);
	assert_int_equal(__builtin_popcountll(tx()->sent.out.left), 19);
	assert_int_equal(uccl_flow_tx_follow(tx(), v, 64), 0);
	assert_int_equal(uccl_flow_tx_row(tx(), v), 0);
	assert_int_equal(v[0].row, 0);
	pair_fini(&p);

	c.chunk_bytes = 8192;
	c.mtu = UCCL_HDR_LEN + 8192;
	c.find_mtu = true;
	pair_init(&p, &c);
	uccl_flow_mtu_reported(tx(), 1472, p.now);
	pair_record(&p, 0, 8000);
	assert_int_equal(uccl_flow_tx(tx(), v, p.now), 1);
	assert_int_equal(v[0].hdr[4], 0);
	assert_int_equal(__builtin_popcountll(tx()->sent.out.left), 5);
	assert_int_equal(uccl_flow_tx_follow(tx(), v, 64), 0);
	assert_int_equal(uccl_flow_tx_row(tx(), v), 0);
	assert_int_equal(v[0].row, 0);
}

/* Of each number of segments that a peer may take, and none. PROTOCOL R170 */
TEST_IN(tx__no_more_than_it_takes, NULL, end)
{
	for (uint8_t most = 0; most <= UCCL_SEGMENT_COUNT; most++) {
		struct uccl_tx t;

		start_trains(40);
		tx()->cfg.train.segments_tx = most;
		pair_bulk(&p, 0, 100 * PACKET);
		while (uccl_flow_tx(tx(), &t, p.now)) {
			assert_true(most > 1 || t.hdr[3] == UCCL_PKT_CHUNK);
			if (t.hdr[3] == UCCL_PKT_SEGMENT)
				assert_in_range(t.hdr[32 + 25], 2, most);
		}
		pair_fini(&p);
	}
}

/* Each segment takes a place of the receive queue. PROTOCOL R172 */
TEST_IN(tx__segments_take_slots, NULL, end)
{
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
		assert_int_equal(uccl_sent_slots(&tx()->sent), slots);
		assert_true(pair_finish(&p, UCCL_NS_PER_S));
		assert_int_equal(uccl_sent_slots(&tx()->sent), 0);
		pair_fini(&p);
	}
}

/* Where trains are in doubt, or do not pass, each packet is a chunk. PROTOCOL R161 */
TEST_IN(tx__no_trains, NULL, end)
{
	struct uccl_tx t;

	start_trains(40);
	tx()->train.state = UCCL_TRAINS_OFF;
	tx()->train.at = UCCL_NEVER;
	pair_bulk(&p, 0, 100 * PACKET);
	while (uccl_flow_tx(tx(), &t, p.now)) {
		assert_int_equal(t.hdr[3], UCCL_PKT_CHUNK);
		assert_true(t.single);
	}
}

static uint64_t some_credit(const void *cs)
{
	return 2500;
}

/* A credit of any size lets one packet go, not a train. PROTOCOL R172 */
TEST_IN(tx__no_more_than_credit, NULL, end)
{
	static const struct uccl_credit_ops ops = {.name = "some", .limit = some_credit};
	struct pair_cfg c = trains(40);
	struct uccl_tx t;
	uint32_t sum = 0;

	c.credit = &ops;
	pair_init(&p, &c);
	pair_bulk(&p, 0, 100 * PACKET);
	while (uccl_flow_tx(tx(), &t, p.now) && t.hdr[3] != UCCL_PKT_DEMAND)
		sum += t.payload_len;
	assert_int_equal(sum, 3 * PACKET);
}

static uint64_t some_window;

static void init_of_test(void *cc, const struct uccl_policy_cfg *cfg, uint64_t now)
{
}

static uint64_t window_of_test(const void *cc)
{
	return some_window;
}

/* One packet may leave at any window. A train fits the window even with nothing in flight. PROTOCOL R172 */
TEST_IN(tx__no_longer_than_the_window, NULL, end)
{
	static const struct uccl_cc_ops ops = {
		.name = "some", .init = init_of_test, .window = window_of_test
	};

	for (uint32_t n = 0; n < 50; n++) {
		struct pair_cfg c = trains(40);
		struct uccl_tx t;
		uint32_t sum = 0;

		some_window = n * PACKET + 1;
		c.cc = &ops;
		pair_init(&p, &c);
		pair_bulk(&p, 0, 100 * PACKET);
		while (uccl_flow_tx(tx(), &t, p.now))
			sum += t.payload_len;
		assert_in_range(sum, PACKET, uccl_max(n, 1) * PACKET);
		assert_true(2 * sum > n * PACKET);
		pair_fini(&p);
	}
}

/* Acknowledged, or forged to be, while it leaves: nothing more of it is read. PROTOCOL R16 */
TEST_IN(tx__acknowledged_while_it_leaves, NULL, end)
{
	struct uccl_hdr h = {.type = UCCL_PKT_ACK};
	struct pair_obj *o;
	struct uccl_ack a;
	struct uccl_tx t;

	start_trains(8);
	o = pair_bulk(&p, 0, 8 * PACKET);
	for (int i = 0; i < 3; i++)
		assert_int_equal(uccl_flow_tx(tx(), &t, p.now), 1);
	a = pair_ack(&p, 0, tx()->sent.nxt);
	pair_feed(&p, 0, &h, NULL, &a);
	assert_true(o->acked);
	assert_int_equal(uccl_flow_tx(tx(), &t, p.now), 0);
}

/* Packets get shorter while a train leaves: what did not leave comes later. PROTOCOL R153 */
TEST_IN(tx__shorter_while_it_leaves, NULL, end)
{
	struct pair_cfg c = trains(8);
	struct uccl_tx t;

	c.chunk_bytes = 4896;
	c.mtu = UCCL_HDR_LEN + 4896;
	c.train_bytes = 8 * 4896;
	c.find_mtu = true;
	pair_init(&p, &c);
	pair_bulk(&p, 0, 8 * 4896);
	for (int i = 0; i < 3; i++)
		assert_int_equal(uccl_flow_tx(tx(), &t, p.now), 1);
	uccl_flow_mtu_reported(tx(), 2000, p.now);
	assert_int_equal(tx()->sent.inflight_bytes, 3 * 4896);
	assert_int_equal(tx()->paths.list[t.path].inflight, 3 * 4896);
	assert_int_equal(uccl_sent_slots(&tx()->sent), 3);
	assert_true(pair_finish(&p, UCCL_NS_PER_S));
	assert_true(stats(0)->subsegments_tx > 0);
}

/*
 * Of a message of any length all packets but the last are full, so the kernel gets one train: the record with its
 * beginning, segments, and the rest as a chunk, which asks for the acknowledgement. PROTOCOL R167
 */
TEST_IN(tx__shares_a_train, NULL, end)
{
	struct uccl_tx t;

	for (uint32_t len = 1; len <= 7 * PACKET; len += 250) {
		uint32_t n = 0, segments = 0, full = len / PACKET;
		uint16_t path = 0;

		start_trains(40);
		pair_record(&p, 0, PACKET);
		pair_bulk(&p, 0, len);
		for (uint32_t left = PACKET + len; uccl_flow_tx(tx(), &t, p.now); n++) {
			assert_int_equal(t.payload_len, uccl_min(left, PACKET));
			left -= t.payload_len;
			segments += t.hdr[3] == UCCL_PKT_SEGMENT;
			path = n ? path : t.path;
			assert_int_equal(t.path, path);
			assert_false(t.single);
		}
		assert_int_equal(n, 1 + (len + PACKET - 1) / PACKET);
		assert_int_equal(segments, full > 1 ? full : 0);
		assert_true(t.hdr[4] & UCCL_FLAG_AR);
		pair_fini(&p);
	}
}

/* Drops the segments of the first transmission that are set in *arg. */
static void drop_some(struct pair *q, struct pair_pkt *k)
{
	uint64_t map = *(uint64_t *)q->arg;

	if (k->to == 1 && k->kind == UCCL_RX_PACKET && k->h.type == UCCL_PKT_SEGMENT && !(k->h.flags & UCCL_FLAG_RTX) &&
	    map >> k->h.rec[24] & 1)
		k->fate = PAIR_DROP;
	if (k->to == 1 && k->kind == UCCL_RX_PACKET && k->h.type == UCCL_PKT_SEGMENT && k->h.flags & UCCL_FLAG_RTX)
		q->count++;
}

/* Of 64 segments some are lost, by chance: these are sent again, and no others. PROTOCOL R171 */
TEST_IN(rtx__of_many, NULL, end)
{
	struct uccl_rng rng;

	uccl_rng_seed(&rng, 1);
	for (int i = 0; i < 100; i++) {
		uint64_t map = uccl_rng_next(&rng) & uccl_rng_next(&rng);

		start_trains(64);
		p.filter = drop_some;
		p.arg = &map;
		pair_bulk(&p, 0, 64 * PACKET);
		assert_true(pair_finish(&p, UCCL_NS_PER_S));
		assert_int_equal(p.count, __builtin_popcountll(map));
		pair_fini(&p);
	}
}

/* What is sent again is lost again, once: a segment that a block has named since stays where it is. PROTOCOL R171 */
static void drop_twice(struct pair *q, struct pair_pkt *k)
{
	static const uint64_t first = 1 << 2 | 1 << 5;

	if (k->to != 1 || k->kind != UCCL_RX_PACKET || k->h.type != UCCL_PKT_SEGMENT)
		return;
	if (!(k->h.flags & UCCL_FLAG_RTX)) {
		k->fate = first >> k->h.rec[24] & 1 ? PAIR_DROP : PAIR_PASS;
		return;
	}
	PAIR_CHECK(k->h.rec[24] == 2 || k->h.rec[24] == 5);
	PAIR_CHECK(k->h.rec[24] == 2 || q->count < 2);
	k->fate = q->count++ == 0 ? PAIR_DROP : PAIR_PASS;
}

TEST_IN(rtx__named_before, NULL, end)
{
	start_trains(8);
	p.filter = drop_twice;
	pair_bulk(&p, 0, 8 * PACKET);
	assert_true(pair_finish(&p, UCCL_NS_PER_S));
	assert_int_equal(p.count, 3);
	assert_int_equal(p.side[1].f.rx.ack_tracker.dups, 0);
}

/* What is lost, and sent again, are the segments, not the chunk. PROTOCOL R172 */
TEST_IN(rtx__counts_what_is_lost, NULL, end)
{
	uint64_t map = 1 << 1 | 1 << 3 | 1 << 7;

	start_trains(8);
	p.filter = drop_some;
	p.arg = &map;
	pair_bulk(&p, 0, 8 * PACKET);
	pair_bulk(&p, 0, 7 * PACKET);
	assert_true(pair_finish(&p, UCCL_NS_PER_S));
	assert_int_equal(tx()->credit.lost, 3 * PACKET + 2 * PACKET);
	assert_int_equal(stats(0)->rtx_bytes, tx()->credit.lost);
	assert_int_equal(stats(0)->tx_bytes, 15 * PACKET);
	assert_int_equal(stats(1)->rx_bytes, 15 * PACKET);
}

static uint64_t paced_limit;

static uint64_t paced_credit(const void *cs)
{
	return paced_limit;
}

static void paced_pull(const struct uccl_policy_cfg *cfg, struct uccl_pull_cfg *pull)
{
	*pull = (struct uccl_pull_cfg){.quantum = KIB};
}

/* Of many that are lost as many leave as there is paced credit for, and one in any case. PROTOCOL R63 R172 */
TEST_IN(rtx__few_credits, NULL, end)
{
	static const struct uccl_credit_ops ops = {.name = "paced", .limit = paced_credit, .pull = paced_pull};
	struct pair_cfg c = trains(40);

	c.credit = &ops;
	c.paths = 1;
	for (uint32_t more = 0; more < 45 * PACKET; more += 700) {
		struct uccl_hdr h = {.type = UCCL_PKT_ACK};
		uint32_t n = 0;
		struct uccl_ack a;
		struct uccl_tx t;

		paced_limit = 40 * PACKET;
		pair_init(&p, &c);
		pair_bulk(&p, 0, 40 * PACKET);
		assert_int_equal(pair_pump_one(&p, 0), 40);
		a = pair_ack(&p, 0, tx()->sent.una);
		a.nsegments = 1;
		a.segments[0] = (struct uccl_ack_segments){.have = 1ull << 39};
		a.npaths = 1;
		a.paths[0] = (struct uccl_ack_path){.seq = tx()->paths.list[0].next_seq - 1, .echo = uccl_ts(p.now)};
		pair_feed(&p, 0, &h, NULL, &a);
		paced_limit += more;
		while (uccl_flow_tx(tx(), &t, p.now))
			n += t.hdr[3] == UCCL_PKT_SEGMENT;
		assert_int_equal(n, uccl_min(more / PACKET + 1, 39));
		pair_fini(&p);
	}
}

/* Of segments that were lost some came before they were sent again: the peer counts these twice. PROTOCOL R286 */
TEST_IN(unlost__segments, NULL, end)
{
	static const struct uccl_credit_ops paced = {.name = "paced", .limit = paced_credit, .pull = paced_pull};
	struct pair_cfg c = trains(10);
	struct uccl_ack a;

	c.paths = 1;
	c.credit = &paced;
	paced_limit = 20 * PACKET;
	pair_init(&p, &c);
	pair_bulk(&p, 0, 20 * PACKET);
	assert_int_equal(pair_pump_one(&p, 0), 20);
	while (p.nwire)
		pair_lose(&p, 0);
	/* All of the second train came, and half of the first. */
	a = pair_ack(&p, 0, p.cfg.csn[0]);
	a.nwords = 1;
	a.sack[0] = 1;
	a.nsegments = 1;
	a.segments[0].have = 0x3e0;
	a.npaths = 1;
	a.paths[0] = (struct uccl_ack_path){.seq = 20, .echo = uccl_ts(p.now), .delay = UINT32_MAX};
	assert_int_equal(flow_ack_rx(tx(), &a, uccl_ts(p.now), 0, p.now), UCCL_DROP_COUNT);
	assert_int_equal(tx()->credit.lost, 5 * PACKET);
	assert_int_equal(tx()->credit.used, 20 * PACKET);
	a.segments[0].have |= 7;
	assert_int_equal(flow_ack_rx(tx(), &a, uccl_ts(p.now), 0, p.now), UCCL_DROP_COUNT);
	assert_int_equal(tx()->credit.used, 23 * PACKET);
	/* The other two leave again, and a question. */
	paced_limit = 30 * PACKET;
	assert_int_equal(pair_pump_one(&p, 0), 3);
	a = pair_ack(&p, 0, p.cfg.csn[0] + 2);
	assert_int_equal(flow_ack_rx(tx(), &a, uccl_ts(p.now), 0, p.now), UCCL_DROP_COUNT);
	assert_int_equal(tx()->credit.used, 25 * PACKET);
}

static void only_losses(struct pair *q, struct pair_pkt *k)
{
	if (k->h.type == UCCL_PKT_SEGMENT && k->h.flags & UCCL_FLAG_RTX && k->kind == UCCL_RX_PACKET)
		PAIR_CHECK(k->single);
}

/* With every fault of a network at once, both ways, records between. PROTOCOL R170 */
TEST_IN(all__bad_network, NULL, end)
{
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

/* Trains of so many segments, where the network may carry less than a segment. */
static struct pair_cfg long_trains(uint32_t segments, uint32_t bytes)
{
	struct pair_cfg c = pair_packets();

	c.chunk_bytes = bytes;
	c.mtu = UCCL_HDR_LEN + bytes;
	c.find_mtu = true;
	c.segments = true;
	c.train_bytes = segments * bytes;
	return c;
}

/* The way gets narrower than the segments under way: they come in sub-segments. PROTOCOL R153 */
TEST_IN(rtx__segments_in_subsegments, NULL, end)
{
	static const uint32_t networks[] = {4000, 1472, 1280, 1200, 600};

	for (int i = 0; i < 5; i++) {
		uint32_t network = networks[i];
		struct pair_cfg c = long_trains(12, 4896);

		pair_init(&p, &c);
		p.filter = narrow;
		p.arg = &network;
		pair_bulk(&p, 0, 1000 * KIB);
		assert_true(pair_finish(&p, 2 * UCCL_NS_PER_S));
		assert_in_range(tx()->pmtu.bytes, UCCL_PMTU_LEAST, network);
		assert_true(stats(0)->subsegments_tx && stats(1)->subsegments_rx);
		pair_bulk(&p, 0, 10000 * KIB);
		assert_true(pair_finish(&p, UCCL_NS_PER_S));
		assert_in_range(tx()->pmtu.bytes, network - UCCL_PMTU_STEP, network);
		pair_fini(&p);
	}
}

/* The first train is lost; what is new after that is counted. */
static void lose_first_train(struct pair *q, struct pair_pkt *k)
{
	if (k->to != 1 || k->kind != UCCL_RX_PACKET || k->h.type < UCCL_PKT_CHUNK || k->h.flags & UCCL_FLAG_RTX)
		return;
	q->count++;
	if (k->h.csn == (uint32_t)q->cfg.csn[0])
		k->fate = PAIR_DROP;
}

/* Segments that wait for the places of their sub-segments are not overtaken by what needs only one. PROTOCOL R172 */
TEST_IN(rtx__subsegments_have_their_turn, NULL, end)
{
	struct pair_cfg c = long_trains(4, 8192);

	c.slots = 8;
	pair_init(&p, &c);
	p.filter = lose_first_train;
	pair_bulk(&p, 0, 1000 * KIB);
	pair_pump(&p);
	assert_int_equal(p.count, 8);
	uccl_flow_mtu_reported(tx(), 1200, p.now);
	p.count = 0;
	while (!stats(0)->subsegments_tx)
		assert_true(pair_step(&p));
	/* Those that left before the loss was known: no more than there are places. */
	assert_in_range(p.count, 0, 8);
	assert_true(pair_finish(&p, UCCL_NS_PER_S));
}

/* An acknowledgement that names the part of which sub-segments leave ends them: those of the next one begin at the
 * first. */
TEST_IN(rtx__named_while_its_subsegments_leave, NULL, end)
{
	struct pair_cfg c = long_trains(4, 8192);
	struct uccl_hdr h = {.type = UCCL_PKT_ACK};
	struct uccl_ack a;
	struct uccl_tx t;

	c.paths = 1;
	/* A segment is eight sub-segments: more than there are places, or all of them in a row. */
	for (c.slots = 5; c.slots <= 32; c.slots += 27) {
		pair_init(&p, &c);
		pair_bulk(&p, 0, 4 * 8192);
		pair_pump_one(&p, 0);
		pair_record(&p, 0, 10);
		pair_pump_one(&p, 0);
		while (p.nwire)
			pair_lose(&p, 0);
		uccl_flow_mtu_reported(tx(), 1200, p.now);
		a = pair_ack(&p, 0, tx()->sent.una);
		a.slots = c.slots;
		a.nwords = 1;
		a.sack[0] = 1;
		a.npaths = 1;
		a.paths[0] = (struct uccl_ack_path){.seq = 5, .echo = uccl_ts(p.now), .delay = UINT32_MAX};
		pair_feed(&p, 0, &h, NULL, &a);
		for (uint8_t i = 0; i < 3; i++) {
			assert_int_equal(uccl_flow_tx(tx(), &t, p.now), 1);
			assert_int_equal(t.hdr[3], UCCL_PKT_SEGMENT);
			assert_int_equal(t.hdr[32 + 24], 0);
			assert_int_equal(t.hdr[32 + 26], i);
			assert_int_equal(t.hdr[32 + 27], 8);
		}
		a.npaths = 0;
		a.nsegments = 1;
		a.segments[0] = (struct uccl_ack_segments){.have = 1};
		pair_feed(&p, 0, &h, NULL, &a);
		assert_int_equal(uccl_flow_check(tx()), 0);
		assert_int_equal(uccl_flow_tx(tx(), &t, p.now), 1);
		assert_int_equal(t.hdr[3], UCCL_PKT_SEGMENT);
		assert_int_equal(t.hdr[32 + 24], 1);
		assert_int_equal(t.hdr[32 + 26], 0);
		pair_fini(&p);
	}
}

/* A made-up part arrives at side 1. */
static void feed(uint64_t csn, uint8_t index, uint8_t count, uint32_t total, uint32_t len)
{
	static const uint8_t payload[9000];
	const struct uccl_segment s = {.index = index, .count = count, .total = total};
	uint8_t whole[UCCL_REC_LEN] = {0}, rec[UCCL_REC_LEN];
	struct uccl_hdr h = {.type = UCCL_PKT_SEGMENT, .rtype = PAIR_RAW, .csn = (uint32_t)csn, .rec = rec};

	h.payload_len = (uint16_t)len;
	uccl_segment_encode(rec, whole, &s);
	pair_feed(&p, 1, &h, payload, NULL);
}

/* A block may name only segments that were sent. PROTOCOL R18 */
TEST_IN(ack_rx__lies_about_segments, NULL, end)
{
	struct uccl_hdr h = {.type = UCCL_PKT_ACK};
	struct uccl_ack a;
	struct uccl_tx t;
	uint64_t csn;

	start_trains(8);
	csn = tx()->sent.una;
	pair_bulk(&p, 0, 8 * PACKET);
	while (uccl_flow_tx(tx(), &t, p.now))
		;
	pair_record(&p, 0, 10);
	assert_int_equal(uccl_flow_tx(tx(), &t, p.now), 1);
	a = pair_ack(&p, 0, csn);
	a.nsegments = 1;
	for (int i = 0; i < 6; i++) {
		static const struct uccl_ack_segments lies[] = {{2, 0, 0, 1},	       {1, 0, 0, 1}, {0, 0, 0, 1 << 8},
								{UINT16_MAX, 0, 0, 1}, {0, 8, 2, 1}, {0, 7, 2, 4}};

		a.segments[0] = lies[i];
		h.pseq = 0;
		pair_feed(&p, 0, &h, NULL, &a);
		assert_int_equal(pair_dropped(&p, 0, UCCL_DROP_ACK), i + 1);
		assert_int_equal(tx()->sent.inflight_bytes, 8 * PACKET + 10);
	}
	/* Of a segment that was not cut: old, or nonsense that does no harm. */
	a.segments[0] = (struct uccl_ack_segments){0, 7, 2, 3};
	h.pseq = 0;
	pair_feed(&p, 0, &h, NULL, &a);
	assert_int_equal(tx()->sent.inflight_bytes, 8 * PACKET + 10);
	a.segments[0] = (struct uccl_ack_segments){.have = 1 << 7 | 1};
	h.pseq = 0;
	pair_feed(&p, 0, &h, NULL, &a);
	assert_int_equal(tx()->sent.inflight_bytes, 6 * PACKET + 10);
	/* All of them are the chunk. */
	a.segments[0].have = 0xff;
	h.pseq = 0;
	pair_feed(&p, 0, &h, NULL, &a);
	assert_int_equal(tx()->sent.inflight_bytes, 10);
	assert_int_equal(tx()->sent.una, csn + 1);
}

/* Segments that do not fit their own numbers, or those that came before. PROTOCOL R170 */
TEST_IN(segment_rx__malformed, NULL, end)
{
	struct uccl_hdr whole = {.type = UCCL_PKT_CHUNK, .rtype = PAIR_RAW, .payload_len = 100};
	static const uint8_t payload[900], rec[UCCL_REC_LEN];
	uint64_t csn;

	start_trains(8);
	csn = p.side[1].f.rx.arrived.nxt;
	feed(csn, 0, 0, 96, 96);
	feed(csn, 2, 2, 96, 48);
	feed(csn, 0, 65, 6240, 96);
	feed(csn, 0, 2, 96, 47);
	feed(csn, 0, 2, 96, 49);
	feed(csn, 1, 2, 95, 48);
	feed(csn, 1, 2, 96, 0);
	feed(csn, 3, 4, 24, 8); /* nothing is left for the last */
	feed(csn, 0, 2, UINT32_MAX, 96);
	feed(csn, 1, 2, 2 * UINT16_MAX + 1, 1);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_RECORD), 10);
	assert_int_equal(p.side[1].f.rx.segments.n, 0);
	feed(csn, 0, 2, 96, 48);
	assert_int_equal(p.side[1].f.rx.segments.n, 1);
	feed(csn, 1, 4, 96, 24);
	feed(csn, 1, 2, 95, 47);
	whole.csn = (uint32_t)csn;
	whole.rec = rec;
	pair_feed(&p, 1, &whole, payload, NULL);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_RECORD), 13);
	feed(csn, 0, 2, 96, 48);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_DUPLICATE), 1);
	assert_int_equal(p.side[1].raw_bytes, 48);
	feed(csn, 1, 2, 96, 48);
	assert_int_equal(p.side[1].raw_bytes, 96);
	assert_int_equal(p.side[1].f.rx.segments.n, 0);
	assert_int_equal(p.side[1].f.rx.arrived.nxt, csn + 1);
}

/* The maps of the window are made when the first segment comes: a peer that sends whole chunks needs none. */
TEST_IN(segment_rx__no_maps_without_segments, NULL, end)
{
	start_trains(8);
	pair_record(&p, 0, 100);
	pair_record(&p, 0, 0);
	assert_true(pair_finish(&p, 10 * MS));
	assert_int_equal(p.side[1].f.rx.segments.mask, 0);
	pair_bulk(&p, 0, 3 * PACKET);
	assert_true(pair_finish(&p, 10 * MS));
	assert_int_equal(p.side[1].f.rx.segments.mask, p.side[1].f.cfg.window - 1);
}

/* All of the range that waits leaves as one train of equal segments but for the last, as older senders make them. */
static int older_train(struct uccl_tx *t)
{
	struct uccl_item *item = TAILQ_FIRST(&tx()->sendq.bulk);
	uint32_t len = (uint32_t)item->len;
	const uint8_t *payload;
	struct uccl_sent *e;

	assert_int_equal(uccl_item_payload(item, 0, len, &payload), len);
	flow_tx_bulk_left(tx(), item, len);
	e = flow_tx_enter(tx(), item, UCCL_PKT_CHUNK, item->rec, payload, len, flow_tx_path(tx(), len, 0, p.now),
			  p.now);
	flow_tx_timer(tx(), p.now);
	return flow_tx_train(tx(), t, e, PACKET, UCCL_FLAG_AR, p.now);
}

/* Such a train as one piece of memory; each packet but the last has `each` bytes. */
static uint32_t train_flat(uint8_t *flat, uint32_t *each)
{
	uint32_t len = 0;
	struct uccl_tx t;

	*each = 0;
	for (int more = older_train(&t); more; more = uccl_flow_tx(tx(), &t, p.now)) {
		assert_int_equal(t.hdr[3], UCCL_PKT_SEGMENT);
		*each = *each ? *each : UCCL_HDR_LEN + t.payload_len;
		memcpy(flat + len, t.hdr, UCCL_HDR_LEN);
		memcpy(flat + len + UCCL_HDR_LEN, t.payload, t.payload_len);
		len += UCCL_HDR_LEN + t.payload_len;
	}
	return len;
}

static bool row_marked; /* the network marks all of them */

/* Hand up packets first to last - 1 of it as one. */
static void feed_row(uint8_t *flat, uint32_t len, uint32_t each, uint32_t first, uint32_t last)
{
	uint8_t *data = flat + first * each;
	uint32_t row = (uint32_t)uccl_min(last * each, len) - first * each;
	struct uccl_hdr h;

	assert_int_equal(uccl_hdr_decode(&h, data, (uint32_t)uccl_min(each, row)), UCCL_DROP_COUNT);
	assert_int_equal(uccl_segment_row(&h, data, each, row), row);
	h.marked = row_marked;
	p.steps++;
	uccl_flow_rx_segments(&p.side[1].f, &h, data, row, 0, p.now);
	assert_int_equal(uccl_flow_check(&p.side[1].f), 0);
}

static uint32_t delivered;
static uint32_t none_of;   /* more than so many segments are refused, */
static enum uccl_drop why; /* for this reason */

static enum uccl_drop count_rows(struct pair *q, struct pair_side *s, const struct uccl_chunk_in *in)
{
	if (in->segments > none_of)
		return why;
	delivered++;
	return UCCL_DROP_COUNT;
}

/* A row is taken in one go: one upcall, one decision on the acknowledgement; each packet is counted. PROTOCOL R173 */
TEST_IN(segments_rx__in_one_go, NULL, end)
{
	static uint8_t flat[UCCL_SEGMENT_COUNT * (UCCL_HDR_LEN + PACKET)];

	for (uint32_t less = 0; less < 2; less++) {
		uint32_t each, len;
		struct uccl_flow *f;

		start_trains(40);
		f = &p.side[1].f;
		p.refuse = count_rows;
		delivered = 0;
		none_of = 64;
		pair_bulk(&p, 0, 40 * PACKET - less);
		len = train_flat(flat, &each);
		feed_row(flat, len, each, 0, 30);
		assert_int_equal(delivered, 1);
		assert_int_equal(f->rx.segments.n, 1);
		assert_int_equal(f->rx.ack_tracker.slots, 30);
		assert_false(f->rx.ack_tracker.now);
		assert_int_equal(f->rx.ack_tracker.paths[flat[6]].high_seq, uccl_get32(flat + 20) + 29);
		feed_row(flat, len, each, 30, 40);
		assert_int_equal(delivered, 2);
		assert_int_equal(stats(1)->rx_packets, 40);
		assert_int_equal(stats(1)->rx_bytes, 40 * PACKET - less);
		assert_int_equal(f->rx.segments.n, 0);
		assert_int_equal(p.side[1].complete, 1);
		/* The last one asks. */
		assert_true(f->rx.ack_tracker.now);
		assert_true(pair_finish(&p, UCCL_NS_PER_S));
		pair_fini(&p);
	}
}

/* The last one says whether more waits for a slot. PROTOCOL R178 */
TEST_IN(segments_rx__says_whether_more_waits, NULL, end)
{
	static uint8_t flat[UCCL_SEGMENT_COUNT * (UCCL_HDR_LEN + PACKET)];

	for (int more = 0; more < 2; more++) {
		struct uccl_slots slots;
		struct uccl_grant grant;
		uint32_t each, len;

		start_trains(40);
		uccl_slots_init(&slots);
		uccl_slots_open(&slots, &grant, 256, 256);
		grant.need.has_more = !more;
		p.side[1].f.cfg.grant = &grant;
		pair_bulk(&p, 0, 40 * PACKET);
		len = train_flat(flat, &each);
		if (more)
			flat[39 * each + 4] |= UCCL_FLAG_WANT;
		feed_row(flat, len, each, 0, 40);
		assert_int_equal(p.side[1].complete, 1);
		assert_int_equal(grant.need.has_more, more);
		pair_fini(&p);
	}
}

/* Rows of which some segments came before, or that are refused: as if they came one by one. PROTOCOL R173 */
TEST_IN(segments_rx__as_one_by_one, NULL, end)
{
	static uint8_t flat[UCCL_SEGMENT_COUNT * (UCCL_HDR_LEN + PACKET)];
	struct uccl_rng rng;

	uccl_rng_seed(&rng, 11);
	for (int round = 0; round < 300; round++) {
		uint32_t count = 2 + (uint32_t)uccl_rng_below(&rng, 62), each, len, dups = 0;
		uint64_t came = 0, all = ~0ull >> (64 - count);
		const struct uccl_segment_map *segments;

		start_trains(64);
		p.refuse = count_rows;
		pair_bulk(&p, 0, count * PACKET - (uint32_t)uccl_rng_below(&rng, count / 2));
		len = train_flat(flat, &each);
		for (int k = 0; k < 8; k++) {
			uint32_t first = k == 7 ? 0 : (uint32_t)uccl_rng_below(&rng, count);
			uint32_t last = k == 7 ? count : first + 1 + (uint32_t)uccl_rng_below(&rng, count - first);
			uint64_t row = uccl_segment_map_run((uint8_t)first, (uint8_t)(last - 1));

			/* A row is refused, its segments are not. */
			none_of = uccl_rng_below(&rng, 4) ? 64 : 1;
			why = uccl_rng_below(&rng, 2) ? UCCL_DROP_MEMORY : UCCL_DROP_RANGE;
			feed_row(flat, len, each, first, last);
			segments = p.side[1].f.rx.segments.maps;
			dups += (uint32_t)__builtin_popcountll(row & came);
			came |= row;
			assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_DUPLICATE), dups);
			assert_int_equal(p.side[1].f.rx.ack_tracker.dups, dups);
			if (came != all)
				assert_true(segments[p.side[1].f.rx.arrived.nxt & (p.cfg.window - 1)].have == came);
		}
		assert_int_equal(p.side[1].complete, 1);
		/* Nothing but segments came, each counted. */
		assert_int_equal(stats(1)->rx_bytes, len - count * UCCL_HDR_LEN);
		none_of = 0;
		feed_row(flat, len, each, 0, count);
		assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_DUPLICATE), dups + count);
		p.refuse = NULL;
		assert_true(pair_finish(&p, UCCL_NS_PER_S));
		pair_fini(&p);
	}
}

/* Hand up n packets as one: segments from `first` on of `count`, of `each` bytes, the last of `last`. */
static void feed_raw(uint16_t path, uint64_t csn, const struct uccl_segment *first, uint32_t n, uint16_t each,
		     uint16_t last)
{
	static const uint8_t whole[UCCL_REC_LEN];
	static uint8_t flat[65536], rec[UCCL_REC_LEN];
	struct uccl_hdr h = {.type = UCCL_PKT_SEGMENT,
			     .rtype = PAIR_RAW,
			     .path = path,
			     .token = p.side[1].f.cfg.wire.token_rx,
			     .csn = (uint32_t)csn,
			     .pseq = 1000,
			     .payload_len = each,
			     .rec = rec};
	uint32_t step = UCCL_HDR_LEN + each;

	uccl_segment_encode(rec, whole, first);
	for (uint32_t i = 0; i < n; i++, h.pseq++) {
		h.payload_len = i + 1 < n ? each : last;
		uccl_hdr_encode(flat + i * step, &h);
		uccl_put64(rec + 24, uccl_get64(rec + 24) + 1);
	}
	feed_row(flat, (n - 1) * step + UCCL_HDR_LEN + last, step, 0, n);
}

/* A row that does not fit its chunk, the window or a path: as if its packets came one by one. PROTOCOL R173 */
TEST_IN(segments_rx__malformed, NULL, end)
{
	struct uccl_segment at = {.index = 0, .count = 3, .total = 2500};
	const struct uccl_flow *f = &p.side[1].f;
	uint64_t csn;

	start_trains(40);
	csn = f->rx.arrived.nxt;
	/* Segments of 840, 840 and 820 bytes. */
	feed_raw(f->cfg.paths_rx, csn, &at, 3, 840, 820);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_PATH), 3);
	feed_raw(0, csn + p.cfg.window, &at, 3, 840, 820);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_WINDOW), 3);
	feed_raw(0, csn, &at, 2, 840, 819);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_RECORD), 1);
	assert_int_equal(p.side[1].raw_bytes, 840);
	at.index = 1;
	feed_raw(0, csn, &at, 2, 900, 820);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_RECORD), 2);
	assert_int_equal(p.side[1].raw_bytes, 840 + 820);
	/* Behind the last there are none, nor do they begin anew, however many come. */
	at.index = 255;
	feed_raw(0, csn, &at, 2, 840, 840);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_RECORD), 4);
	at.index = 1;
	feed_raw(0, csn, &at, 72, 840, 840);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_RECORD) + pair_dropped(&p, 1, UCCL_DROP_DUPLICATE), 4 + 71);
	assert_int_equal(p.side[1].raw_bytes, 2500);
	/* Of a chunk that is whole, behind one that is not. */
	at.index = 0;
	feed_raw(0, csn + 2, &at, 3, 840, 820);
	assert_int_equal(p.side[1].raw_bytes, 5000);
	feed_raw(0, csn + 2, &at, 3, 840, 820);
	assert_int_equal(p.side[1].raw_bytes, 5000);
}

/* What could not be taken is not named, and comes again. PROTOCOL R41 */
TEST_IN(segment_rx__no_memory_comes_again, NULL, end)
{
	start_trains(8);
	p.refuse = pair_refuse_some;
	p.refusals = 11;
	pair_bulk(&p, 0, 8 * PACKET);
	assert_true(pair_finish(&p, UCCL_NS_PER_S));
	assert_int_equal(p.refusals, 0);
	p.refusals = 1;
	feed(p.side[1].f.rx.arrived.nxt, 1, 2, 96, 48);
	assert_int_equal(p.side[1].f.rx.segments.n, 0);
	p.side[1].f.rx.ack_tracker.now = true;
	pair_pump(&p);
	assert_int_equal(p.wire[0]->h.tail_len % 16, 0);
	pair_lose(&p, 0);
}

/* A segment is missing before another: that is told soon. */
TEST_IN(segment_rx__gap, NULL, end)
{
	start_trains(8);
	feed(p.side[1].f.rx.arrived.nxt, 0, 8, 832, 104);
	assert_true(p.side[1].f.rx.ack_tracker.at == p.now + 100 * UCCL_NS_PER_US);
	feed(p.side[1].f.rx.arrived.nxt, 2, 8, 832, 104);
	assert_true(p.side[1].f.rx.ack_tracker.at == p.now + 20 * UCCL_NS_PER_US);
}

/* A made-up sub-segment arrives at side 1: half of 96 bytes, which are segment `of` - 1 of 2, or a chunk. */
static void feed_sub(uint64_t csn, uint8_t of, uint8_t sub)
{
	static const uint8_t payload[48], whole[UCCL_REC_LEN];
	const struct uccl_segment s = {.index = of ? (uint8_t)(of - 1) : 0,
				       .count = of ? 2 : 1,
				       .sub = sub,
				       .subs = 2,
				       .total = of ? 192 : 96};
	uint8_t rec[UCCL_REC_LEN];
	struct uccl_hdr h = {.type = UCCL_PKT_SEGMENT, .rtype = PAIR_RAW, .csn = (uint32_t)csn, .payload_len = 48};

	uccl_segment_encode(rec, whole, &s);
	h.rec = rec;
	pair_feed(&p, 1, &h, payload, NULL);
}

/* Sub-segments of several segments of a chunk, of one that came, and of a chunk that comes in segments. PROTOCOL R153
 */
TEST_IN(segment_rx__subsegments, NULL, end)
{
	struct pair_side *rx = &p.side[1];
	uint64_t csn;

	start_trains(8);
	csn = rx->f.rx.arrived.nxt;
	feed_sub(csn, 2, 0);
	feed_sub(csn, 1, 1);
	assert_int_equal(rx->f.rx.subsegments.n, 2);
	feed_sub(csn, 2, 1);
	assert_int_equal(rx->raw_bytes, 96);
	assert_int_equal(rx->f.rx.subsegments.n, 1);
	feed_sub(csn, 2, 0);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_DUPLICATE), 1);
	assert_int_equal(rx->f.rx.subsegments.n, 1);
	feed_sub(csn, 0, 0);
	feed_sub(csn, 0, 1);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_RECORD), 2);
	assert_int_equal(rx->f.rx.subsegments.n, 1);
	feed_sub(csn, 1, 0);
	assert_int_equal(rx->raw_bytes, 192);
	assert_int_equal(rx->f.rx.arrived.nxt, csn + 1);
	assert_int_equal(rx->f.rx.subsegments.n, 0);
	/* The segment itself comes after all: its place is free for another. */
	csn++;
	feed_sub(csn, 1, 1);
	feed(csn, 0, 2, 192, 96);
	assert_int_equal(rx->f.rx.subsegments.n, 0);
	assert_int_equal(rx->raw_bytes, 288);
	feed_sub(csn, 1, 0);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_DUPLICATE), 2);
	/* A chunk of which a segment came is not one segment. */
	feed(csn + 1, 1, 2, 192, 96);
	feed_sub(csn + 1, 0, 0);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_RECORD), 3);
	assert_int_equal(rx->f.rx.subsegments.n, 0);
}

static enum uccl_drop refuse_one(struct pair *q, struct pair_side *s, const struct uccl_chunk_in *in)
{
	return q->refusals && q->refusals-- ? UCCL_DROP_HANDLE : UCCL_DROP_COUNT;
}

/*
 * A segment that the layer above refuses does not say how its chunk is cut, nor that it comes in segments: the true one
 * does, and the flow goes on. The same of one that does not fit its own numbers. PROTOCOL R315
 */
TEST_IN(segment_rx__refused, NULL, end)
{
	for (uint64_t ahead = 0; ahead < 3; ahead++)
		for (int fits = 0; fits < 2; fits++) {
			start_trains(8);
			p.refuse = refuse_one;
			p.refusals = (uint32_t)fits;
			feed(p.side[1].f.rx.arrived.nxt + ahead, 0, 2, 96, fits ? 48 : 47);
			assert_int_equal(pair_dropped(&p, 1, fits ? UCCL_DROP_HANDLE : UCCL_DROP_RECORD), 1);
			assert_int_equal(p.side[1].f.rx.segments.n, 0);
			assert_int_equal(p.side[1]
						 .f.rx.segments
						 .maps[(p.side[1].f.rx.arrived.nxt + ahead) & (p.cfg.window - 1)]
						 .count,
					 0);
			for (int k = 0; k < 4; k++)
				pair_bulk(&p, 0, 40000);
			assert_true(pair_finish(&p, UCCL_NS_PER_S));
			assert_int_equal(p.side[1].raw, 0);
			pair_fini(&p);
		}
}

/* Who did not say that it takes segments takes none. */
TEST_IN(segment_rx__not_expected, NULL, end)
{
	struct pair_cfg c = pair_packets();

	pair_init(&p, &c);
	feed(p.side[1].f.rx.arrived.nxt, 0, 2, 96, 48);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_STATE), 1);
}

/* The block that leaves next. */
static struct uccl_ack block_of(void)
{
	struct uccl_ack a;
	int i;

	p.side[1].f.rx.ack_tracker.now = true;
	pair_pump(&p);
	i = pair_find(&p, 0, UCCL_PKT_ACK);
	assert_true(i >= 0);
	assert_int_equal(uccl_ack_decode(&a, p.wire[i]->data + UCCL_HDR_LEN, p.wire[i]->h.tail_len), UCCL_DROP_COUNT);
	pair_lose(&p, (uint32_t)i);
	return a;
}

/* There is room for sixteen chunks in a block: if there are more, each has its turn. PROTOCOL R171 */
TEST_IN(tell__in_turn, NULL, end)
{
	struct uccl_ack a;
	uint64_t csn;

	start_trains(8);
	csn = p.side[1].f.rx.arrived.nxt;
	for (uint8_t k = 20; k--;)
		feed(csn + 3u * k, (uint8_t)(k % 2), 2, 96, 48);
	feed(csn + 6, 1, 2, 96, 48);
	/* The third of twenty is whole: nineteen. */
	for (uint32_t n = 0; n < 10 * UCCL_ACK_SEGMENTS_MAX; n += UCCL_ACK_SEGMENTS_MAX) {
		a = block_of();
		assert_int_equal(a.cum, (uint32_t)csn);
		assert_int_equal(a.nwords, 1);
		assert_int_equal(a.sack[0], 1 << 5);
		assert_int_equal(a.nsegments, UCCL_ACK_SEGMENTS_MAX);
		for (uint32_t k = 0; k < UCCL_ACK_SEGMENTS_MAX; k++) {
			uint32_t at = (n + k) % 19 < 2 ? (n + k) % 19 : (n + k) % 19 + 1;

			assert_int_equal(a.segments[k].ahead, 3 * at);
			assert_int_equal(a.segments[k].have, 1 << at % 2);
		}
	}
	/* All of them fit: from the first on. */
	for (uint8_t k = 16; k < 20; k++)
		feed(csn + 3u * k, (uint8_t)((k + 1) % 2), 2, 96, 48);
	a = block_of();
	assert_int_equal(a.nsegments, 15);
	assert_int_equal(a.segments[0].ahead, 0);
}

/* What came of a chunk and of its sub-segments is told together, or all of it in the next block. PROTOCOL R330 */
TEST_IN(tell__sub_segments, NULL, end)
{
	uint16_t next = 0;
	uint64_t csn;

	start_trains(8);
	csn = p.side[1].f.rx.arrived.nxt;
	/* One line about the first, two about each of the others: nineteen. */
	for (uint64_t k = 0; k < 10; k++) {
		feed(csn + k, 1, 2, 192, 96);
		if (k)
			feed_sub(csn + k, 1, (uint8_t)(k % 2));
	}
	for (int n = 0; n < 20; n++) {
		struct uccl_ack a = block_of();

		assert_in_range(a.nsegments, UCCL_ACK_SEGMENTS_MAX - 1, UCCL_ACK_SEGMENTS_MAX);
		for (int i = 0; i < a.nsegments; next = (uint16_t)((next + 1) % 10)) {
			assert_int_equal(a.segments[i].ahead, next);
			assert_int_equal(a.segments[i].subs, 0);
			assert_int_equal(a.segments[i++].have, 2);
			if (!next)
				continue;
			assert_in_range(i, 1, a.nsegments - 1);
			assert_int_equal(a.segments[i].ahead, next);
			assert_int_equal(a.segments[i].of, 0);
			assert_int_equal(a.segments[i].subs, 2);
			assert_int_equal(a.segments[i++].have, 1 << next % 2);
		}
	}
}

/* A row is marked as a whole, and each byte counts once, whether it is taken in one go or not. PROTOCOL R189 */
TEST_IN(segments_rx__marks, NULL, end)
{
	static uint8_t flat[UCCL_SEGMENT_COUNT * (UCCL_HDR_LEN + PACKET)];
	uint32_t each, len;
	uint16_t path;

	start_trains(40);
	p.refuse = count_rows;
	none_of = 64;
	pair_bulk(&p, 0, 40 * PACKET);
	len = train_flat(flat, &each);
	path = flat[6];
	row_marked = true;
	feed_row(flat, len, each, 0, 10);
	assert_true(p.side[1].f.rx.ack_tracker.paths[path].marked == 10 * PACKET);
	/* Some of it came before. */
	feed_row(flat, len, each, 5, 15);
	assert_true(p.side[1].f.rx.ack_tracker.paths[path].marked == 20 * PACKET);
	row_marked = false;
	feed_row(flat, len, each, 15, 40);
	assert_true(p.side[1].f.rx.ack_tracker.paths[path].marked == 20 * PACKET);
	assert_true(pair_finish(&p, UCCL_NS_PER_S));
	assert_true(stats(1)->marked_rx == 20 * PACKET);
	assert_true(stats(0)->marked_tx == 20 * PACKET + UCCL_MARK_BYTES - 20 * PACKET % UCCL_MARK_BYTES);
}

TESTS_MAIN
