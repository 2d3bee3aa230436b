/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Packets, and the acknowledgements that they carry. */
#include "../sender.h"
#include "../../tests.h"

static const struct uccl_ack *ack_of(const struct pair_pkt *k)
{
	static struct uccl_ack a;

	assert_true(k->h.tail_len > 0);
	assert_int_equal(uccl_ack_decode(&a, k->data + UCCL_HDR_LEN + k->h.payload_len, k->h.tail_len),
			 UCCL_DROP_COUNT);
	return &a;
}

TEST_IN(tx_ack__behind_data, NULL, end)
{
	start(pair_packets());
	feed_raw(p.cfg.csn[1], 2, 9, 0);
	feed_raw(p.cfg.csn[1] + 2, 1, 5, 0);
	pair_record(&p, 0, 100);
	assert_int_equal(pair_pump_one(&p, 0), 1);
	{
		const struct uccl_ack *a = ack_of(p.wire[0]);

		assert_int_equal(a->cum, (uint32_t)p.cfg.csn[1] + 1);
		assert_int_equal(a->nwords, 1);
		assert_true(a->sack[0] == 1);
		assert_int_equal(a->slots, p.cfg.slots);
		assert_int_equal(a->msg_limit, 100);
		assert_int_equal(a->npaths, 2);
		assert_int_equal(a->paths[0].path, 2);
		assert_int_equal(a->paths[0].seq, 9);
		assert_int_equal(a->paths[1].path, 1);
		assert_int_equal(a->paths[1].seq, 5);
		assert_false(a->paths[0].write);
	}
	/* Nothing is owed any more. */
	assert_true(p.side[0].f.rx.ack_tracker.at == UCCL_NEVER);
	pair_record(&p, 0, 100);
	assert_int_equal(pair_pump_one(&p, 0), 1);
	assert_int_equal(p.wire[1]->h.tail_len, 0);
}

/* What begins a message of packets of one length has none: it would be longer than those behind it. PROTOCOL R259 */
TEST_IN(tx_ack__not_within_a_train, NULL, end)
{
	start(pair_packets());
	for (uint32_t i = 0; i < 4; i++) {
		struct pair_obj *o = pair_make(&p, 0, 300, false, 1);

		feed_raw(p.cfg.csn[1] + i, 2, 9 + i, 0);
		o->item.each = i & 1 ? 300 : 0;
		o->item.more = i & 2 ? 300 : 0;
		uccl_flow_submit(&p.side[0].f, &o->item);
		assert_int_equal(pair_pump_one(&p, 0), 1);
		assert_int_equal(p.wire[i]->h.tail_len > 0, i < 3);
	}
}

/* How long the packet waited here, so that the sender can take it off. */
TEST_IN(tx_ack__turnaround, NULL, end)
{
	start(pair_packets());
	feed_raw(p.cfg.csn[1], 0, 1, 0);
	p.now += 640;
	pair_record(&p, 0, 1);
	pair_pump_one(&p, 0);
	assert_int_equal(ack_of(p.wire[0])->paths[0].delay, 10);
	assert_int_equal(ack_of(p.wire[0])->paths[0].echo, uccl_ts(p.now - 640));
}

TEST_IN(tx_ack__no_room_behind_data, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.mtu = UCCL_HDR_LEN + c.chunk_bytes;
	start(c);
	feed_raw(c.csn[1], 0, 1, UCCL_FLAG_AR);
	feed_raw(c.csn[1] + 1, 0, 2, UCCL_FLAG_AR);
	pair_record(&p, 0, c.chunk_bytes);
	assert_int_equal(pair_pump_one(&p, 0), 2);
	assert_int_equal(p.wire[0]->h.type, UCCL_PKT_CHUNK);
	assert_int_equal(p.wire[0]->h.tail_len, 0);
	assert_int_equal(p.wire[1]->h.type, UCCL_PKT_ACK);
	assert_int_equal(ack_of(p.wire[1])->cum, (uint32_t)c.csn[1] + 2);
}

/* The whole block does not fit into one packet: as much of it as does, and no packet without end after packet. */
TEST_IN(tx_ack__small_packets, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.mtu = 256;
	c.chunk_bytes = 64;
	c.paths = 32;
	c.labels = 64;
	c.window = 4096;
	start(c);
	for (uint32_t i = 1; i < 3000; i += 2)
		feed_raw(c.csn[1] + i, (uint16_t)(i / 2 % 32), 1 + i, UCCL_FLAG_AR);
	assert_int_equal(pair_pump_one(&p, 0), 1);
	assert_int_equal(p.wire[0]->h.type, UCCL_PKT_ACK);
	assert_true(p.wire[0]->len <= 256);
	assert_int_equal(ack_of(p.wire[0])->cum, (uint32_t)c.csn[1]);
	assert_true(ack_of(p.wire[0])->npaths > 0);
}

TEST_IN(tx_ack__small_packets_finish, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.mtu = 256;
	c.chunk_bytes = 128;
	c.paths = 32;
	c.labels = 64;
	c.window = 4096;
	c.slots = 4096;
	start(c);
	p.faults.loss = 0.05;
	p.faults.reorder = 0.2;
	p.faults.reorder_ns = 50 * US;
	pair_bulk(&p, 0, 300 * KIB);
	pair_bulk(&p, 1, 300 * KIB);
	assert_true(pair_finish(&p, 10 * UCCL_NS_PER_S));
}

TEST_IN(tx_ack__more_paths_than_lines, NULL, end)
{
	struct pair_cfg c = pair_packets();
	uint32_t seen = 0;

	c.paths = 30;
	c.labels = 64;
	start(c);
	for (uint16_t i = 0; i < 30; i++)
		feed_raw(c.csn[1] + i, i, 7, 0);
	for (int n = 0; n < 3; n++) {
		const struct uccl_ack *a;

		p.side[0].f.rx.ack_tracker.now = true;
		pair_pump_one(&p, 0);
		a = ack_of(p.wire[0]);
		assert_int_equal(a->npaths, n < 2 ? UCCL_ACK_PATHS_MAX : 6);
		for (int i = 0; i < a->npaths; i++)
			seen |= 1u << a->paths[i].path;
		lose_all();
	}
	assert_int_equal(seen, (1u << 30) - 1);
	assert_int_equal(p.side[0].f.rx.ack_tracker.ndirty, 0);
}

TEST_IN(tx_ack__bitmap, NULL, end)
{
	const struct uccl_ack *a;

	start(pair_packets());
	feed_raw(p.cfg.csn[1] + 1, 0, 1, 0);
	feed_raw(p.cfg.csn[1] + 64, 0, 2, 0);
	feed_raw(p.cfg.csn[1] + 65, 0, 3, 0);
	feed_raw(p.cfg.csn[1] + 255, 0, 4, 0);
	p.side[0].f.rx.ack_tracker.now = true;
	pair_pump_one(&p, 0);
	a = ack_of(p.wire[0]);
	assert_int_equal(a->nwords, 4);
	assert_true(a->sack[0] == ((1ull << 63) | 1));
	assert_true(a->sack[1] == 1);
	assert_true(a->sack[2] == 0);
	assert_true(a->sack[3] == 1ull << 62);
}

TEST_IN(tx_packet__numbers_per_path, NULL, end)
{
	struct uccl_flow *f;

	start(pair_packets());
	f = &p.side[0].f;
	pair_bulk(&p, 0, 128 * KIB);
	pair_pump_one(&p, 0);
	/* 8 KiB a path as long as little is in flight, in order 0 1 2 3, and numbers without gaps. */
	assert_int_equal(p.nwire, 128);
	for (uint32_t i = 0; i < 128; i++) {
		uint32_t path = i / 8 % 4;

		assert_int_equal(p.wire[i]->path, path);
		assert_int_equal(p.wire[i]->h.path, path);
		assert_int_equal(p.wire[i]->label, f->paths.list[path].label);
		assert_int_equal(p.wire[i]->h.pseq, 1 + i / 32 * 8 + i % 8);
		assert_int_equal(p.wire[i]->h.csn, (uint32_t)p.cfg.csn[0] + i);
	}
	assert_int_equal(f->paths.list[1].counters.packets, 32);
	assert_int_equal(f->paths.list[1].counters.bytes, 32 * KIB);
	assert_int_equal(f->paths.list[1].inflight, 32 * KIB);
}

/* A PROBE of a path that may be dead tells what is owed, and owes it still. */
TEST_IN(tx_ack__not_paid_by_a_doubtful_path, NULL, end)
{
	struct uccl_flow *f;

	start(pair_packets());
	f = &p.side[0].f;
	pair_record(&p, 1, 10);
	pair_pump_one(&p, 1);
	pair_arrive(&p, 0);
	for (int i = 0; i < 3; i++)
		uccl_paths_loss(&f->paths, 3, false, uccl_flow_rto(f), p.now);
	f->rx.ack_tracker.now = true;
	assert_int_equal(pair_pump_one(&p, 0), 2);
	assert_int_equal(p.wire[0]->h.type, UCCL_PKT_PROBE);
	assert_int_equal(p.wire[0]->path, 3);
	assert_int_equal(p.wire[1]->h.type, UCCL_PKT_ACK);
	assert_int_equal(p.wire[0]->h.tail_len, p.wire[1]->h.tail_len);
	assert_int_equal(p.wire[1]->h.tail_len, uccl_ack_len(1, 0, 0));
	assert_false(f->rx.ack_tracker.now);
	assert_int_equal(f->rx.ack_tracker.ndirty, 0);
}

TESTS_MAIN
