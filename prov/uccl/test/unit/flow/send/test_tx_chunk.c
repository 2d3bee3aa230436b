/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What asks for its acknowledgement, and what leaves by itself. */
#include "../sender.h"
#include "../../tests.h"

TEST_IN(tx_ar__when, NULL, end)
{
	start(pair_packets());
	pair_record(&p, 0, 10)->item.want_ack = false;
	pair_record(&p, 0, 10)->item.want_ack = true;
	pair_pump_one(&p, 0);
	assert_false(p.wire[0]->h.flags & UCCL_FLAG_AR);
	assert_int_equal(p.wire[1]->h.flags, UCCL_FLAG_AR);
	/* The tail probe hears of it. PROTOCOL R243 */
	assert_true(p.side[0].f.loss.pto.ar);
	lose_all();
	/* Of a bulk item with want_ack the last chunk, and one every 128 KiB. */
	pair_bulk(&p, 0, 200 * KIB);
	pair_pump_one(&p, 0);
	for (uint32_t i = 0; i < 200; i++)
		assert_int_equal(p.wire[i]->h.flags & UCCL_FLAG_AR, i == 127 || i == 199 ? UCCL_FLAG_AR : 0);
	lose_all();
	pair_record(&p, 0, 10)->item.want_ack = false;
	pair_pump_one(&p, 0);
	assert_false(p.side[0].f.loss.pto.ar);
}

/* Who is answered each time has nothing to ask for: an acknowledgement would only leave before the answer. */
TEST_IN(tx_ar__of_what_is_in_flight, NULL, end)
{
	struct pair_cfg c = pair_packets();

	start(c);
	for (int round = 0; round < 3; round++) {
		pair_bulk(&p, 0, 100 * KIB)->item.want_ack = false;
		assert_int_equal(pair_pump_one(&p, 0), 100);
		for (uint32_t i = 0; i < 100; i++)
			assert_int_equal(p.wire[i]->h.flags & UCCL_FLAG_AR, 0);
		pair_run(&p, p.now + MS);
		assert_int_equal(p.side[0].f.sent.inflight_bytes, 0);
	}
}

TEST_IN(tx_ar__last_slot, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.slots = 4;
	start(c);
	for (int i = 0; i < 6; i++)
		pair_record(&p, 0, 10)->item.want_ack = false;
	assert_int_equal(pair_pump_one(&p, 0), 4);
	assert_false(p.wire[0]->h.flags & UCCL_FLAG_AR);
	assert_true(p.wire[3]->h.flags & UCCL_FLAG_AR);
}

/* Nothing else would ask for it: the window is smaller than the distance between two questions. */
TEST_IN(tx_ar__full_window, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.cc = &cc_set;
	cc_bytes = 8 * KIB;
	cc_gap_ns = 0;
	start(c);
	pair_bulk(&p, 0, 20 * KIB)->item.want_ack = false;
	assert_int_equal(pair_pump_one(&p, 0), 8);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(p.wire[i]->h.flags & UCCL_FLAG_AR, i == 7 ? UCCL_FLAG_AR : 0);
	/* Answered without delay. */
	pair_run(&p, p.now + 2 * c.delay_ns + US);
	assert_int_equal(p.side[0].f.sent.nxt - c.csn[0], 16);
	pair_fini(&p);
	/* Not if nothing waits for it. */
	start(c);
	pair_bulk(&p, 0, 8 * KIB)->item.want_ack = false;
	assert_int_equal(pair_pump_one(&p, 0), 8);
	assert_int_equal(p.wire[7]->h.flags, 0);
}

static void lose_some(struct pair *q, struct pair_pkt *k)
{
	bool again = k->h.flags & UCCL_FLAG_RTX;

	if (k->kind != UCCL_RX_PACKET || k->h.type != UCCL_PKT_CHUNK)
		return;
	assert_int_equal(k->single, again);
	q->count += again;
	if (!again && k->h.csn % 2)
		k->fate = PAIR_DROP;
}

/* What is lost goes again by itself: the train may have been the reason. New packets form trains, as before. */
TEST_IN(tx_single__again, NULL, end)
{
	start(pair_trains());
	p.filter = lose_some;
	pair_bulk(&p, 0, 20 * KIB);
	assert_true(pair_finish(&p, 100 * MS));
	assert_in_range(p.count, 10, 12);
}

/* Whether this packet of a side asks for no answer. */
static bool was_quiet(int side, int i)
{
	const struct uccl_path *path = &p.side[side].f.paths.list[p.wire[i]->h.path];

	return uccl_path_asks_was_quiet(&path->asks, p.wire[i]->h.pseq);
}

/* A PROBE leaves. Returns its place on the wire. */
static int probe_leaves(void)
{
	int i;

	start(pair_trains());
	uccl_flow_keepalive(&p.side[0].f, p.now);
	assert_true(pair_pump_one(&p, 0) >= 1);
	i = pair_find(&p, 1, UCCL_PKT_PROBE);
	assert_true(i >= 0);
	return i;
}

/* It arrives, and is answered. Returns the answer's place on the wire. */
static int answer_leaves(void)
{
	int i;

	pair_arrive_all(&p, 1);
	assert_true(pair_pump_one(&p, 1) >= 1);
	i = pair_find(&p, 0, UCCL_PKT_ACK);
	assert_true(i >= 0);
	return i;
}

TEST_IN(tx_single__probe, NULL, end)
{
	int i = probe_leaves();

	assert_true(p.wire[i]->single);
	assert_false(was_quiet(0, i));
	/* Its answer need not, and asks for none. */
	i = answer_leaves();
	assert_false(p.wire[i]->single);
	assert_true(was_quiet(1, i));
}

/* A PROBE keeps the order of payload on its path, or its answer proves nothing. Other control packets need no order. */
TEST_IN(tx_control__probe_with_payload, NULL, end)
{
	int i = probe_leaves();

	assert_false(p.wire[i]->control);
	i = answer_leaves();
	assert_true(p.wire[i]->control);
}

#define QUEUE 77

/* Of side 0 all is seen; some is lost. */
static void queue_seen(struct pair *q, struct pair_pkt *k)
{
	const struct uccl_hdr *h = &k->h;
	bool fresh = (h->type == UCCL_PKT_CHUNK || h->type == UCCL_PKT_SEGMENT) && h->rtype == PAIR_BULK &&
		     !(h->flags & UCCL_FLAG_RTX);

	if (k->kind != UCCL_RX_PACKET || k->to != 1)
		return;
	assert_int_equal(k->queue, fresh ? QUEUE : 0);
	if (!k->queue)
		return;
	/* Nothing but header and payload: no block, though one is owed. */
	assert_int_equal(h->tail_len, 0);
	q->count++;
	if (h->csn % 5 == 0)
		k->fate = PAIR_DROP;
}

static void queue_bulk(uint32_t len)
{
	struct pair_obj *o = pair_make(&p, 0, len, true, 1);

	o->item.queue = QUEUE;
	uccl_flow_submit(&p.side[0].f, &o->item);
}

/* What an item names the queue for goes there, when it leaves first; everything else goes where it always did. */
TEST_IN(tx_chunk__queue, NULL, end)
{
	for (int way = 0; way < 4; way++) {
		struct pair_cfg c = way & 1 ? pair_trains() : pair_packets();

		/* Room for a block behind every packet. */
		c.mtu = UCCL_HDR_LEN + c.chunk_bytes + UCCL_TAIL_MAX;
		c.segments = way & 1;
		c.pads = way == 3;
		/* So both sides send all the time, and blocks are owed. */
		c.cc = &cc_set;
		cc_bytes = 8 * KIB;
		cc_gap_ns = 0;
		start(c);
		p.filter = queue_seen;
		for (int i = 0; i < 5; i++) {
			queue_bulk(100 * KIB - (uint32_t)(way & 2) * 333);
			pair_record(&p, 0, 10);
			pair_bulk(&p, 1, 30 * KIB);
			assert_true(pair_finish(&p, 1000 * MS));
		}
		assert_true(p.count >= 5 * 98);
		assert_true(p.side[0].stats.rtx_packets > 0);
		pair_fini(&p);
	}
}

static void subsegment_seen(struct pair *q, struct pair_pkt *k)
{
	if (k->to != 1 || k->kind != UCCL_RX_PACKET)
		return;
	if (k->h.type == UCCL_PKT_SEGMENT && uccl_segment_subs(k->h.rec)) {
		assert_int_equal(k->queue, 0);
		q->count++;
	}
	if (k->len > 1472)
		k->fate = PAIR_DROP;
}

/* Sub-segments must be put together, which only the processor does. */
TEST_IN(tx_chunk__queue_takes_no_subsegments, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.chunk_bytes = 8192;
	c.mtu = UCCL_HDR_LEN + 8192;
	c.find_mtu = true;
	start(c);
	p.filter = subsegment_seen;
	queue_bulk(1000 * KIB);
	assert_true(pair_finish(&p, 100000 * MS));
	assert_true(p.count > 60);
}

TESTS_MAIN
