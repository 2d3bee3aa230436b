/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../one_pair.h"
#include "../../tests.h"

static struct pair_cfg direct_fifo(void)
{
	struct pair_cfg c = pair_direct();

	c.fifo = true;
	return c;
}

/* Side 1 as a receiver of made-up things; what arrives is PAIR_RAW. */
static struct uccl_flow *raw(struct pair_cfg cfg)
{
	start(cfg);
	uccl_write_rx_rtype(&p.side[1].f.rx.write, PAIR_RAW);
	return &p.side[1].f;
}

static void feed_desc(uint64_t csn, uint32_t id, uint32_t count, uint32_t chunk, uint64_t len)
{
	const struct uccl_desc d = {.id = id, .gen = PAIR_GEN, .count = count, .chunk = chunk, .len = len};
	uint8_t rec[UCCL_REC_LEN];
	struct uccl_hdr h = {.type = UCCL_PKT_DESC, .csn = (uint32_t)csn, .rec = rec};

	uccl_desc_encode(rec, &d);
	pair_feed(&p, 1, &h, NULL, NULL);
}

static void feed_write(uint64_t csn, uint32_t len, uint16_t path)
{
	uccl_flow_rx_write(&p.side[1].f, uccl_imm(csn, p.side[1].f.cfg.wire.epoch_rx), len, path, p.now);
	assert_null(uccl_flow_check(&p.side[1].f));
}

/* A segment of a write that is sent again. */
struct rewrite {
	uint64_t csn;
	uint32_t id, gen;
	uint64_t off; /* in the message */
	uint8_t index, count;
	uint16_t path; /* of the write that it replaces */
	uint32_t len;
	uint32_t total; /* 0: all are as long as this one */
};

static void feed_rewrite(const struct rewrite *v)
{
	const struct uccl_segment s = {.index = v->index,
				       .count = v->count,
				       .total = v->total ? v->total : v->count * v->len};
	static const uint8_t bytes[8192];
	uint8_t whole[UCCL_REC_LEN] = {0}, rec[UCCL_REC_LEN];
	struct uccl_hdr h = {
		.type = UCCL_PKT_SEGMENT,
		.flags = UCCL_FLAG_RTX,
		.rtype = PAIR_RAW,
		.csn = (uint32_t)v->csn,
		.payload_len = (uint16_t)v->len,
		.rec = rec,
	};

	uccl_rec_set_bulk(whole, v->id, v->gen,
			  v->off - v->index * uccl_segment_each(s.total, v->count ? v->count : 1));
	uccl_put16(whole + UCCL_SEGMENT_PATH, v->path);
	uccl_segment_encode(rec, whole, &s);
	pair_feed(&p, 1, &h, bytes, NULL);
}

/* The n-th write is lost (count starts at 1). */
static void lose_nth_write(struct pair *q, struct pair_pkt *k)
{
	if (k->kind == UCCL_RX_WRITE && ++q->count == *(uint32_t *)q->arg)
		k->fate = PAIR_DROP;
}

/* The n-th write comes 5 ms late. */
static void delay_nth_write(struct pair *q, struct pair_pkt *k)
{
	if (k->kind == UCCL_RX_WRITE && ++q->count == *(uint32_t *)q->arg)
		k->due += 5 * MS;
}

/* The n-th write is doubled; the 16th comes late, so that the buffer still waits when the copy lands. */
static void double_nth_write(struct pair *q, struct pair_pkt *k)
{
	if (k->kind != UCCL_RX_WRITE)
		return;
	if (++q->count == *(uint32_t *)q->arg)
		k->fate = PAIR_DOUBLE;
	if (q->count == 16)
		k->due += 30 * US;
}

static void delay_descriptors(struct pair *q, struct pair_pkt *k)
{
	if (k->kind == UCCL_RX_PACKET && k->h.type == UCCL_PKT_DESC)
		k->due += 30 * US;
	q->count++;
}

/* The n-th descriptor is held up for so long that the ones after it, and their writes, pass it. */
static void delay_nth_descriptor(struct pair *q, struct pair_pkt *k)
{
	if (k->kind == UCCL_RX_PACKET && k->h.type == UCCL_PKT_DESC && ++q->count == *(uint32_t *)q->arg)
		k->due += 60 * US;
}

/* The n-th packet of a transfer meets this fate; it counts from 1. */
static void start_nth(struct pair_cfg c, void (*filter)(struct pair *q, struct pair_pkt *k), uint32_t n, uint64_t bytes)
{
	static uint32_t nth;

	nth = n;
	start(c);
	p.filter = filter;
	p.arg = &nth;
	pair_bulk(&p, 0, bytes);
}

PAIR_TEST(rx_write__in_order, pair_direct())
{
	pair_bulk(&p, 0, 64 * KIB + 100);
	assert_true(pair_finish(&p, MS));
	assert_int_equal(p.side[0].stats.writes_tx, 17);
	assert_int_equal(p.side[1].stats.writes_rx, 17);
	assert_int_equal(p.side[0].stats.rtx_packets, 0);
	assert_int_equal(p.side[1].stats.doubtful, 0);
	assert_int_equal(p.side[1].f.rx.write.ndescs, 0);
	assert_int_equal(p.side[1].stats.rx_bytes, 64 * KIB + 100);
}

/* Large ones are not left unacknowledged until sixteen are there, nor until the run of their descriptor ends. */
TEST_IN(rx_write__tells_by_bytes, NULL, end)
{
	struct pair_cfg c = pair_direct();
	struct uccl_flow *f;

	c.write_bytes = 32 * KIB;
	f = raw(c);
	feed_desc(base(), 0, 16, 32 * KIB, 16 * 32 * KIB);
	feed_write(base() + 1, 32 * KIB, 0);
	feed_write(base() + 2, 32 * KIB, 1);
	assert_false(f->rx.ack_tracker.now);
	feed_write(base() + 3, 32 * KIB, 2);
	feed_write(base() + 4, 32 * KIB, 3);
	assert_true(f->rx.ack_tracker.now);
}

/* Short writes may each come on another path, and a block has few lines for paths. */
TEST_IN(rx_write__tells_by_writes, NULL, end)
{
	struct uccl_flow *f;

	f = raw(pair_direct());
	feed_desc(base(), 0, 16, 4096, 16 * 4096);
	/* The descriptor is the first of eight chunks. */
	for (uint64_t i = 1; i < 7; i++)
		feed_write(base() + i, 4096, (uint16_t)(i % 4));
	assert_false(f->rx.ack_tracker.now);
	feed_write(base() + 7, 4096, 0);
	assert_true(f->rx.ack_tracker.now);
}

/* The last one announced asks, also if it came first. PROTOCOL R273 */
TEST_IN(rx_write__last_one_is_told_at_once, NULL, end)
{
	struct uccl_flow *f;

	f = raw(pair_direct());
	feed_desc(base(), 0, 3, 4096, 3 * 4096);
	feed_write(base() + 1, 4096, 0);
	feed_write(base() + 2, 4096, 1);
	assert_false(f->rx.ack_tracker.now);
	feed_write(base() + 3, 4096, 2);
	assert_true(f->rx.ack_tracker.now);
	pair_pump_one(&p, 1);
	feed_write(base() + 5, 4096, 3);
	assert_false(f->rx.ack_tracker.now);
	feed_desc(base() + 4, 3 * 4096, 1, 4096, 4096);
	assert_true(f->rx.ack_tracker.now);
}

PAIR_TEST(rx_write__before_its_descriptor, pair_direct())
{
	p.filter = delay_descriptors;
	pair_bulk(&p, 0, 64 * KIB);
	pair_run(&p, p.now + 25 * US);
	assert_int_equal(p.side[1].stats.writes_rx, 16);
	assert_int_equal(p.side[1].stats.rx_bytes, 0);
	assert_true(pair_finish(&p, 10 * MS));
	assert_int_equal(p.side[1].stats.rx_bytes, 64 * KIB);
	assert_int_equal(p.side[0].stats.rtx_packets, 0);
	assert_int_equal(p.side[1].stats.dup_writes, 0);
}

/*
 * One lost write is one doubt, which a fence settles, also if the doubtful chunk is the last to come, and if the fence
 * is over at once. With FIFO paths a later write that was seen before settles it, while no fence is answered.
 */
TEST_IN(rx_write__lost, NULL, end)
{
	static const struct {
		uint32_t n, kib;
		bool fifo, fence_sync;
		bool proof; /* a later packet of its path proves the loss */
	} t[] = {
		{5, 128, false, false, true},
		{16, 64, false, false, false},
		{1, 4, false, true, false},
		{5, 64, true, false, true},
	};

	for (size_t i = 0; i < uccl_array_len(t); i++) {
		struct pair_cfg c = t[i].fifo ? direct_fifo() : pair_direct();

		c.fence_sync = t[i].fence_sync;
		c.fence_never = t[i].fifo;
		start_nth(c, lose_nth_write, t[i].n, t[i].kib * KIB);
		assert_true(pair_finish(&p, 20 * MS));
		/* It comes again once, in segments. */
		assert_int_equal(p.side[0].stats.rtx_packets, 4);
		assert_int_equal(p.side[0].stats.rtx_bytes, 4 * KIB);
		assert_int_equal(p.side[0].stats.lost_proof, t[i].proof);
		assert_int_equal(p.side[1].stats.rx_bytes, t[i].kib * KIB);
		assert_int_equal(p.side[1].stats.doubtful, 1);
		assert_int_equal(p.side[1].stats.fences, 1);
		assert_int_equal(p.side[1].fences, 1);
		assert_int_equal(p.side[1].settled, 1);
		assert_int_equal(p.side[1].f.rx.write.ndoubts, 0);
		assert_false(p.side[1].f.rx.write.off);
		pair_fini(&p);
	}
}

/* Completion is held until the late write is in; then neither a fence nor a further write is needed. */
TEST_IN(rx_write__late_original_settles, NULL, end)
{
	struct pair_cfg c = pair_direct();

	c.fence_never = true;
	start_nth(c, delay_nth_write, 5, 64 * KIB);
	pair_run(&p, p.now + 4 * MS);
	assert_int_equal(p.side[0].acked, 1);
	assert_int_equal(p.side[1].doubtful, 1);
	assert_int_equal(p.side[1].complete, 0);
	assert_int_equal(p.side[1].f.rx.write.ndoubts, 1);
	assert_true(pair_finish(&p, 2 * MS));
	assert_int_equal(p.side[1].settled, 1);
	/* It was expected, so it is no sign of a network that doubles. */
	assert_false(p.side[1].f.rx.write.off);
	assert_int_equal(p.side[1].stats.dup_writes, 0);
	assert_int_equal(p.side[1].f.rx.ack_tracker.dups, 0);
}

/* Without any of the three nothing completes. */
TEST_IN(rx_write__doubt_holds_completion, NULL, end)
{
	struct pair_cfg c = pair_direct();

	c.fence_never = true;
	start_nth(c, lose_nth_write, 5, 64 * KIB);
	pair_run(&p, p.now + 200 * MS);
	/* More writes on all paths: worth nothing while paths are not declared FIFO. */
	pair_bulk(&p, 0, 64 * KIB);
	pair_run(&p, p.now + 200 * MS);
	assert_int_equal(p.side[0].acked, 2);
	assert_int_equal(p.side[1].complete, 1);
	assert_int_equal(p.side[1].f.rx.write.ndoubts, 1);
}

TEST_IN(rx_write__fifo_later_write_settles, NULL, end)
{
	struct pair_cfg c = direct_fifo();

	c.fence_never = true;
	start_nth(c, lose_nth_write, 16, 64 * KIB);
	pair_run(&p, p.now + 100 * MS);
	assert_int_equal(p.side[1].complete, 0);
	assert_int_equal(p.side[1].f.rx.write.ndoubts, 1);
	pair_bulk(&p, 0, 128 * KIB);
	assert_true(pair_finish(&p, 20 * MS));
	assert_int_equal(p.side[1].settled, 1);
	assert_true(p.side[1].f.rx.write.fifo);
}

/* A later write on another path proves nothing. */
TEST_IN(rx_write__fifo_other_path, NULL, end)
{
	struct uccl_flow *f = raw(direct_fifo());

	feed_desc(base(), 1000, 4, 4096, 4 * 4096);
	feed_rewrite(&(struct rewrite){base() + 1, 1000, PAIR_GEN, 0, 0, 1, 2, 4096, 0});
	assert_int_equal(f->rx.write.ndoubts, 1);
	feed_write(base() + 2, 4096, 3);
	assert_int_equal(f->rx.write.ndoubts, 1);
	feed_write(base() + 3, 4096, 2);
	assert_int_equal(f->rx.write.ndoubts, 0);
	assert_int_equal(p.side[1].settled, 1);
}

/* One step backwards on any path, and FIFO is over for good. */
TEST_IN(rx_write__fifo_ends, NULL, end)
{
	struct uccl_flow *f = raw(direct_fifo());

	feed_desc(base(), 1000, 8, 4096, 8 * 4096);
	feed_rewrite(&(struct rewrite){base() + 1, 1000, PAIR_GEN, 0, 0, 1, 2, 4096, 0});
	feed_write(base() + 3, 4096, 1);
	assert_true(f->rx.write.fifo);
	feed_write(base() + 2, 4096, 1);
	assert_false(f->rx.write.fifo);
	assert_int_equal(p.side[1].stats.fifo_broken, 1);
	feed_write(base() + 4, 4096, 2);
	feed_write(base() + 5, 4096, 2);
	assert_int_equal(f->rx.write.ndoubts, 1);
	assert_false(f->rx.write.fifo);
	/* A new doubt with a later write already seen: the same. */
	feed_rewrite(&(struct rewrite){base() + 6, 1000, PAIR_GEN, 5 * 4096, 0, 1, 2, 4096, 0});
	assert_int_equal(f->rx.write.ndoubts, 2);
}

TEST_IN(rx_write__doubled, NULL, end)
{
	start_nth(pair_direct(), double_nth_write, 3, 64 * KIB);
	assert_true(pair_finish(&p, 20 * MS));
	assert_true(p.side[1].f.rx.write.off);
	assert_int_equal(p.side[1].stats.dup_writes, 1);
	assert_int_equal(p.side[1].f.rx.ack_tracker.dups, 1);
}

TEST_IN(rx_write__doubled_before_its_descriptor, NULL, end)
{
	struct uccl_flow *f = raw(pair_direct());

	feed_write(base() + 1, 4096, 0);
	assert_false(f->rx.write.off);
	feed_write(base() + 1, 4096, 0);
	assert_true(f->rx.write.off);
	assert_int_equal(p.side[1].stats.dup_writes, 1);
	feed_desc(base(), 1000, 1, 4096, 4096);
	assert_int_equal(p.side[1].raw, 1);
	assert_int_equal(f->rx.arrived.nxt, base() + 2);
}

/* The second copy of a write whose doubt was settled by the first. */
TEST_IN(rx_write__doubled_after_a_doubt, NULL, end)
{
	struct uccl_flow *f = raw(pair_direct());

	feed_desc(base(), 1000, 1, 4096, 4096);
	feed_rewrite(&(struct rewrite){base() + 1, 1000, PAIR_GEN, 0, 0, 1, 0, 4096, 0});
	feed_write(base() + 1, 4096, 0);
	assert_false(f->rx.write.off);
	assert_int_equal(p.side[1].settled, 1);
	feed_write(base() + 1, 4096, 0);
	assert_true(f->rx.write.off);
}

TEST_IN(rx_write__refused, NULL, end)
{
	struct uccl_flow *f = raw(pair_direct());
	uint8_t epoch = f->cfg.wire.epoch_rx;

	feed_desc(base(), 1000, 1, 4096, 4096);
	uccl_flow_rx_write(f, uccl_imm(base() + 1, (uint8_t)(epoch + 1)), 4096, 0, p.now);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_EPOCH), 1);
	uccl_flow_rx_write(f, uccl_imm(base() + 1, epoch), 4096, p.cfg.paths, p.now);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_PATH), 1);
	/* The window now begins at base + 1. */
	uccl_flow_rx_write(f, uccl_imm(base() + 1 + p.cfg.window, epoch), 4096, 0, p.now);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_WINDOW), 1);
	/* Before the flow's first chunk there is nothing. */
	uccl_flow_rx_write(f, uccl_imm(base() - 1, epoch), 4096, 0, p.now);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_WINDOW), 2);
	assert_int_equal(p.side[1].raw, 0);
	assert_int_equal(p.side[1].stats.writes_rx, 0);
	assert_false(f->rx.write.off);
	/* The last of the window is held. */
	feed_write(base() + p.cfg.window, 100, 0);
	assert_true(f->rx.write.early[(base() + p.cfg.window) & (p.cfg.window - 1)].held);
	feed_write(base() + 1, 4096, 0);
	assert_int_equal(p.side[1].raw, 1);
}

/* The number before the first chunk of a flow that starts at 0 is not a number far ahead that settles doubts. */
TEST_IN(rx_write__below_zero, NULL, end)
{
	struct pair_cfg c = direct_fifo();
	struct uccl_flow *f;

	c.csn[0] = 0;
	f = raw(c);
	feed_desc(0, 1000, 2, 4096, 8192);
	feed_rewrite(&(struct rewrite){1, 1000, PAIR_GEN, 0, 0, 1, 0, 4096, 0});
	assert_int_equal(f->rx.write.ndoubts, 1);
	feed_write((1u << 28) - 1, 4096, 0);
	assert_int_equal(f->rx.write.ndoubts, 1);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_WINDOW), 1);
	assert_false(f->rx.write.off);
}

PAIR_TEST(rx_write__no_direct_flow, pair_packets())
{
	uccl_flow_rx_write(&p.side[1].f, uccl_imm(base(), p.side[1].f.cfg.wire.epoch_rx), 100, 0, p.now);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_PATH), 1);
	assert_int_equal(p.side[1].stats.writes_rx, 0);
}

/* Not the length that was announced: the chunk counts as lost, and comes as packets. */
TEST_IN(rx_write__wrong_length, NULL, end)
{
	struct uccl_flow *f = raw(pair_direct());

	feed_desc(base(), 1000, 1, 4096, 4000);
	feed_write(base() + 1, 4096, 0);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_RANGE), 1);
	assert_int_equal(p.side[1].raw, 0);
	assert_int_equal(f->rx.arrived.nxt, base() + 1);
	feed_rewrite(&(struct rewrite){base() + 1, 1000, PAIR_GEN, 0, 0, 1, 0, 4000, 0});
	assert_int_equal(f->rx.arrived.nxt, base() + 2);
}

static const uint8_t parts_key[UCCL_KEY_LEN];

/* Notes which bytes were delivered: none twice. */
static enum uccl_drop note_segments(struct pair *q, struct pair_side *s, const struct uccl_chunk_in *in)
{
	uint64_t off = uccl_get64(in->rec + 8);

	assert_true(uccl_range_set_add(q->arg, off, off + in->len, parts_key));
	return UCCL_DROP_COUNT;
}

/* A segment came first, then the late original: the message must not count those bytes twice. */
TEST_IN(rx_write__after_some_segments, NULL, end)
{
	struct uccl_flow *f = raw(pair_direct());
	struct uccl_range_set segments = {0};

	p.refuse = note_segments;
	p.arg = &segments;
	feed_desc(base(), 1000, 2, 4096, 8192);
	feed_rewrite(&(struct rewrite){base() + 1, 1000, PAIR_GEN, 0, 0, 4, 0, 1024, 0});
	feed_rewrite(&(struct rewrite){base() + 1, 1000, PAIR_GEN, 2048, 2, 4, 0, 1024, 0});
	assert_int_equal(p.side[1].raw_bytes, 2048);
	feed_write(base() + 1, 4096, 0);
	assert_int_equal(p.side[1].raw_bytes, 4096);
	assert_true(uccl_range_set_whole(&segments, 4096, parts_key));
	assert_int_equal(f->rx.arrived.nxt, base() + 2);
	assert_int_equal(f->rx.write.ndoubts, 0);
	/* The other segments are late now. */
	feed_rewrite(&(struct rewrite){base() + 1, 1000, PAIR_GEN, 1024, 1, 4, 0, 1024, 0});
	assert_int_equal(p.side[1].raw_bytes, 4096);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_DUPLICATE), 1);
	/* Nothing of it is left for the chunk that has the same place in the window. */
	feed_write(base() + 2, 4096, 0);
	assert_int_equal(p.side[1].raw_bytes, 8192);
}

static enum uccl_drop refuse_memory(struct pair *q, struct pair_side *s, const struct uccl_chunk_in *in)
{
	return q->count++ ? UCCL_DROP_COUNT : UCCL_DROP_MEMORY;
}

/* Refused for lack of memory: not received, so it comes again as packets. */
PAIR_TEST(rx_write__no_memory, pair_direct())
{
	p.refuse = refuse_memory;
	pair_bulk(&p, 0, 16 * KIB);
	assert_true(pair_finish(&p, 50 * MS));
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_MEMORY), 1);
	assert_int_equal(p.side[0].stats.rtx_packets, 4);
}

TEST_IN(desc_rx__malformed, NULL, end)
{
	struct uccl_flow *f = raw(pair_direct());

	feed_desc(base(), 1, 0, 4096, 0);
	feed_desc(base(), 1, 0, 4096, 4096);
	feed_desc(base(), 1, 2, 4096, 4096);
	feed_desc(base(), 1, 1, 4097, 4097); /* larger writes than were agreed on */
	feed_desc(base(), 1, p.cfg.window, 4096, (uint64_t)p.cfg.window * 4096);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_RECORD), 5);
	assert_int_equal(f->rx.arrived.nxt, base());
	assert_int_equal(f->rx.write.ndescs, 0);
	feed_desc(base(), 1, p.cfg.window - 1, 4096, (uint64_t)(p.cfg.window - 1) * 4096);
	assert_int_equal(f->rx.arrived.nxt, base() + 1);
	assert_int_equal(f->rx.write.ndescs, 1);
}

PAIR_TEST(desc_rx__no_direct_flow, pair_packets())
{
	feed_desc(base(), 1, 1, 1024, 1024);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_STATE), 1);
	assert_int_equal(p.side[1].f.rx.arrived.nxt, base());
}

/* A descriptor in the range of another: taken, they would pile up beyond their table. */
TEST_IN(desc_rx__overlap, NULL, end)
{
	struct uccl_flow *f = raw(pair_direct());

	for (uint32_t i = 0; i < 3 * p.cfg.window; i++)
		feed_desc(base() + i, 1, 1, 4096, 4096);
	/* Every second one is disjoint, and they end with the window. */
	assert_int_equal(f->rx.write.ndescs, p.cfg.window / 2);
	assert_int_equal(f->rx.arrived.nxt, base() + 1);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_RECORD) + pair_dropped(&p, 1, UCCL_DROP_WINDOW),
			 3 * p.cfg.window - p.cfg.window / 2);
	/* The later one first. */
	pair_fini(&p);
	f = raw(pair_direct());
	feed_desc(base() + 1, 1, 1, 4096, 4096);
	feed_desc(base(), 1, 1, 4096, 4096);
	assert_int_equal(f->rx.write.ndescs, 1);
	assert_int_equal(f->rx.arrived.nxt, base());
	/* And ranges that meet although the descriptors lie outside. */
	feed_desc(base() + 5, 1, 4, 4096, 4 * 4096);
	feed_desc(base() + 4, 1, 2, 4096, 2 * 4096);
	assert_int_equal(f->rx.write.ndescs, 2);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_RECORD), 2);
}

TEST_IN(desc_rx__beyond_the_window, NULL, end)
{
	struct uccl_flow *f = raw(pair_direct());

	feed_desc(base() + 10, 1, p.cfg.window - 10, 4096, (uint64_t)(p.cfg.window - 10) * 4096);
	assert_int_equal(f->rx.write.ndescs, 0);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_RECORD), 1);
	feed_desc(base() + 10, 1, p.cfg.window - 11, 4096, (uint64_t)(p.cfg.window - 11) * 4096);
	assert_int_equal(f->rx.write.ndescs, 1);
}

/* A chunk that was announced as a direct write comes as something else: refused, or it would count twice. */
TEST_IN(desc_rx__chunk_inside, NULL, end)
{
	struct uccl_flow *f = raw(pair_direct());
	struct uccl_hdr h = {.type = UCCL_PKT_CHUNK, .rtype = PAIR_RAW, .csn = (uint32_t)base() + 1};

	feed_desc(base(), 1, 2, 4096, 8192);
	pair_feed(&p, 1, &h, NULL, NULL);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_RECORD), 1);
	assert_int_equal(p.side[1].raw, 0);
	assert_int_equal(f->rx.arrived.nxt, base() + 1);
	/* The other way round: the descriptor is nonsense. */
	h = (struct uccl_hdr){.type = UCCL_PKT_CHUNK, .rtype = PAIR_RAW, .csn = (uint32_t)base() + 6};
	pair_feed(&p, 1, &h, NULL, NULL);
	feed_desc(base() + 5, 1, 2, 4096, 8192);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_RECORD), 2);
	assert_int_equal(f->rx.write.ndescs, 1);
}

/* A held write does not live longer than its number. */
TEST_IN(desc_rx__held_write_is_forgotten, NULL, end)
{
	struct uccl_flow *f = raw(pair_direct());
	uint32_t w = p.cfg.window;
	struct uccl_hdr h;

	feed_write(base() + 1, 4096, 0);
	for (uint32_t i = 0; i < w; i++) {
		h = (struct uccl_hdr){.type = UCCL_PKT_CHUNK, .rtype = PAIR_RAW, .csn = (uint32_t)(base() + i)};
		pair_feed(&p, 1, &h, NULL, NULL);
	}
	assert_int_equal(f->rx.arrived.nxt, base() + w);
	assert_int_equal(p.side[1].raw, w);
	/* The same place in the window, one turn later. */
	feed_desc(base() + w, 1, 1, 4096, 4096);
	assert_int_equal(p.side[1].raw, w);
	assert_int_equal(f->rx.arrived.nxt, base() + w + 1);
}

/* It must be a segment, and of the chunk that was announced. PROTOCOL R23 */
TEST_IN(rewrite_rx__refused, NULL, end)
{
	const uint64_t b = pair_direct().csn[0];
	const struct {
		struct rewrite v;
		enum uccl_drop why;
	} t[] = {
		{{b + 1, 5, PAIR_GEN, 0, 0, 0, 0, 1024, 4096}, UCCL_DROP_RECORD},		     /* none */
		{{b + 1, 5, PAIR_GEN, 0, 0, UCCL_SEGMENT_COUNT + 1, 0, 64, 4096}, UCCL_DROP_RECORD}, /* too many */
		{{b + 1, 5, PAIR_GEN, 4096, 4, 4, 0, 1024, 4096}, UCCL_DROP_RECORD},		     /* index */
		{{b + 1, 5, PAIR_GEN, 0, 0, 4, 0, 1023, 4096}, UCCL_DROP_RECORD},		     /* its length */
		{{b + 1, 5, PAIR_GEN, 0, 0, 4, 4, 1024, 4096}, UCCL_DROP_RECORD},		     /* path */
		{{b + 5, 5, PAIR_GEN, 0, 0, 4, 0, 1024, 4096}, UCCL_DROP_MEMORY},		     /* no descriptor */
		{{b + 1, 6, PAIR_GEN, 0, 0, 4, 0, 1024, 4096}, UCCL_DROP_RANGE}, /* another message */
		{{b + 1, 5, PAIR_GEN + 1, 0, 0, 4, 0, 1024, 4096}, UCCL_DROP_RANGE},
		{{b + 2, 5, PAIR_GEN, 4095, 0, 4, 0, 1024, 4096}, UCCL_DROP_RANGE}, /* before the chunk */
		{{b + 2, 5, PAIR_GEN, 4096, 0, 4, 0, 1032, 4104}, UCCL_DROP_RANGE}, /* longer than it */
		{{b + 2, 5, PAIR_GEN, 8192, 0, 4, 0, 1024, 4096}, UCCL_DROP_RANGE}, /* behind it */
		{{b + 3, 5, PAIR_GEN, 8192, 0, 1, 0, 1001, 1001}, UCCL_DROP_RANGE}, /* the last is shorter */
		{{b + 1, 5, PAIR_GEN, UINT64_MAX, 0, 1, 0, 2, 2}, UCCL_DROP_RANGE}, /* the end wraps */
	};
	struct uccl_flow *f = raw(pair_direct());

	feed_desc(b, 5, 3, 4096, 8192 + 1000);
	for (unsigned int i = 0; i < uccl_array_len(t); i++) {
		uint64_t before = pair_dropped(&p, 1, t[i].why);

		feed_rewrite(&t[i].v);
		assert_int_equal(pair_dropped(&p, 1, t[i].why), before + 1);
		assert_int_equal(p.side[1].raw, 0);
		assert_int_equal(f->rx.arrived.nxt, b + 1);
		assert_int_equal(f->rx.segments.n, 0);
	}
	assert_int_equal(p.side[1].stats.rx_bytes, 0);
	/* The exact ranges pass. */
	feed_rewrite(&(struct rewrite){b + 2, 5, PAIR_GEN, 4096, 0, 1, 0, 4096, 0});
	feed_rewrite(&(struct rewrite){b + 3, 5, PAIR_GEN, 8192, 0, 1, 0, 1000, 0});
	feed_rewrite(&(struct rewrite){b + 1, 5, PAIR_GEN, 0, 0, 1, 0, 4096, 0});
	assert_int_equal(f->rx.arrived.nxt, b + 4);
	assert_int_equal(f->rx.write.ndoubts, 3);
	assert_int_equal(f->rx.write.ndescs, 0);
}

/* What was written is never sent again in sub-segments. */
TEST_IN(rewrite_rx__no_sub_segments, NULL, end)
{
	struct uccl_flow *f = raw(pair_direct());
	const struct uccl_segment s = {.index = 0, .count = 1, .sub = 0, .subs = 2, .total = 1024};
	uint8_t whole[UCCL_REC_LEN] = {0}, rec[UCCL_REC_LEN];
	struct uccl_hdr h = {.type = UCCL_PKT_SEGMENT, .rtype = PAIR_RAW, .csn = (uint32_t)base() + 1, .rec = rec};
	static const uint8_t bytes[512];

	h.payload_len = 512;
	uccl_rec_set_bulk(whole, 5, PAIR_GEN, 0);
	uccl_segment_encode(rec, whole, &s);
	feed_desc(base(), 5, 1, 1024, 1024);
	pair_feed(&p, 1, &h, bytes, NULL);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_RECORD), 1);
	assert_int_equal(f->rx.subsegments.n, 0);
}

PAIR_TEST(rewrite_rx__no_direct_flow, pair_packets())
{
	feed_rewrite(&(struct rewrite){base(), 5, PAIR_GEN, 0, 0, 1, 0, 100, 0});
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_STATE), 1);
	assert_int_equal(p.side[1].raw, 0);
}

TEST_IN(rewrite_rx__each_once, NULL, end)
{
	struct uccl_flow *f = raw(pair_direct());

	feed_desc(base(), 5, 1, 4096, 4096);
	for (uint8_t i = 0; i < 3; i++) {
		feed_rewrite(&(struct rewrite){base() + 1, 5, PAIR_GEN, i * 1024u, i, 4, 0, 1024, 0});
		feed_rewrite(&(struct rewrite){base() + 1, 5, PAIR_GEN, i * 1024u, i, 4, 0, 1024, 0});
	}
	assert_int_equal(p.side[1].raw, 3);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_DUPLICATE), 3);
	assert_int_equal(p.side[1].stats.rx_bytes, 3072);
	assert_int_equal(f->rx.arrived.nxt, base() + 1);
	feed_rewrite(&(struct rewrite){base() + 1, 5, PAIR_GEN, 3072, 3, 4, 0, 1024, 0});
	assert_int_equal(f->rx.arrived.nxt, base() + 2);
	assert_int_equal(p.side[1].doubtful, 1);
}

/*
 * The write was late, and its segments, which are all under way then, find the chunk complete: the first of them tells
 * that they left too early. PROTOCOL R257
 */
TEST_IN(rewrite_rx__again_is_no_haste, NULL, end)
{
	struct uccl_flow *f = raw(pair_direct());

	feed_desc(base(), 5, 1, 4096, 4096);
	feed_write(base() + 1, 4096, 0);
	for (uint8_t i = 0; i < 4; i++)
		feed_rewrite(&(struct rewrite){base() + 1, 5, PAIR_GEN, i * 1024u, i, 4, 0, 1024, 0});
	assert_int_equal(f->rx.arrived.nxt, base() + 2);
	assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_DUPLICATE), 4);
	assert_int_equal(f->rx.ack_tracker.dups, 1);
}

/* Credit follows what arrived: all segments, not the last alone. */
TEST_IN(rewrite_rx__counts_for_credit, NULL, end)
{
	struct uccl_flow *f = raw(pair_direct());

	feed_desc(base(), 5, 2, 4096, 8192);
	for (uint8_t i = 0; i < 4; i++)
		feed_rewrite(&(struct rewrite){base() + 1, 5, PAIR_GEN, i * 1024u, i, 4, 0, 1024, 0});
	assert_int_equal(f->credit.received, 4096);
	/* Half in segments, then the write. */
	feed_rewrite(&(struct rewrite){base() + 2, 5, PAIR_GEN, 4096, 0, 4, 0, 1024, 0});
	feed_write(base() + 2, 4096, 0);
	assert_int_equal(f->credit.received, 8192);
	assert_int_equal(p.side[1].stats.rx_bytes, 8192);
}

static enum uccl_drop refuse_last(struct pair *q, struct pair_side *s, const struct uccl_chunk_in *in)
{
	if (!in->doubtful)
		return UCCL_DROP_COUNT;
	return *(enum uccl_drop *)q->arg;
}

TEST_IN(rewrite_rx__no_doubt_about_what_is_refused, NULL, end)
{
	struct uccl_flow *f = raw(pair_direct());
	enum uccl_drop why = UCCL_DROP_MEMORY;

	p.refuse = refuse_last;
	p.arg = &why;
	feed_desc(base(), 5, 1, 4096, 4096);
	feed_rewrite(&(struct rewrite){base() + 1, 5, PAIR_GEN, 0, 0, 1, 0, 4096, 0});
	assert_int_equal(f->rx.write.ndoubts, 0);
	assert_int_equal(f->rx.arrived.nxt, base() + 1);
	/* Refused: as if it had not come. */
	why = UCCL_DROP_HANDLE;
	feed_rewrite(&(struct rewrite){base() + 1, 5, PAIR_GEN, 0, 0, 1, 0, 4096, 0});
	assert_int_equal(f->rx.write.ndoubts, 0);
	assert_int_equal(f->rx.arrived.nxt, base() + 1);
	/* Thrown away for good: received, but nobody's buffer is in doubt. */
	why = UCCL_DROP_UNWANTED;
	feed_rewrite(&(struct rewrite){base() + 1, 5, PAIR_GEN, 0, 0, 1, 0, 4096, 0});
	assert_int_equal(f->rx.write.ndoubts, 0);
	assert_int_equal(f->rx.arrived.nxt, base() + 2);
	assert_int_equal(p.side[1].settled, 0);
	assert_int_equal(p.side[1].stats.doubtful, 0);
}

TEST_IN(fenced__that_path_only, NULL, end)
{
	struct uccl_flow *f = raw(pair_direct());

	feed_desc(base(), 5, 6, 4096, 6 * 4096);
	for (uint16_t i = 0; i < 6; i++)
		feed_rewrite(&(struct rewrite){base() + 1 + i, 5, PAIR_GEN, i * 4096u, 0, 1, i % 3, 4096, 0});
	assert_int_equal(f->rx.write.ndoubts, 6);
	uccl_flow_fenced(f, 1, p.now);
	assert_int_equal(f->rx.write.ndoubts, 4);
	for (uint32_t i = 0; i < f->rx.write.ndoubts; i++)
		assert_int_not_equal(f->rx.write.in_doubt[i].path, 1);
	uccl_flow_fenced(f, 3, p.now);
	assert_int_equal(f->rx.write.ndoubts, 4);
	uccl_flow_fenced(f, 0, p.now);
	uccl_flow_fenced(f, 2, p.now);
	assert_int_equal(f->rx.write.ndoubts, 0);
	assert_int_equal(p.side[1].settled, 6);
}

/*
 * More doubts in one message than there is room for, which only its end would settle: they end path by path, and the
 * message goes on. PROTOCOL R101
 */
TEST_IN(rewrite_rx__more_doubts_than_room, NULL, end)
{
	struct pair_cfg c = pair_direct();
	struct uccl_flow *f;
	uint64_t csn, off = 0;

	c.fence_never = true;
	f = raw(c);
	csn = base();
	for (uint32_t n = 0; n < f->cfg.window; n += 8) {
		feed_desc(csn, 5, 8, 4096, 8 * 4096);
		for (uint16_t i = 0; i < 8; i++)
			feed_rewrite(&(struct rewrite){csn + 1 + i, 5, PAIR_GEN, i * 4096u, 0, 1, i % 4, 4096, 0});
		csn += 9;
	}
	assert_int_equal(f->rx.write.ndoubts, f->cfg.window);
	assert_int_equal(p.side[1].fences, 0);
	feed_desc(csn, 5, 1, 4096, 4096);
	for (int i = 0; i < 3; i++)
		feed_rewrite(&(struct rewrite){csn + 1, 5, PAIR_GEN, off, 0, 1, 1, 4096, 0});
	assert_int_equal(p.side[1].fences, 1);
	assert_int_equal(f->rx.arrived.nxt, csn + 1);
	uccl_flow_fenced(f, f->rx.write.in_doubt[0].path, p.now);
	assert_int_equal(f->rx.write.ndoubts, f->cfg.window * 3 / 4);
	feed_rewrite(&(struct rewrite){csn + 1, 5, PAIR_GEN, off, 0, 1, 1, 4096, 0});
	assert_int_equal(f->rx.arrived.nxt, csn + 2);
	assert_int_equal(p.side[1].fences, 1);
}

/* So many chunks later, one of which comes by itself. */
static void chunks_pass(struct uccl_flow *f, uint64_t n)
{
	struct uccl_hdr h = {.type = UCCL_PKT_CHUNK, .rtype = PAIR_RAW};
	static const uint8_t rec[UCCL_REC_LEN];

	f->rx.arrived.nxt += n - 1;
	f->rx.arrived.high = f->rx.arrived.nxt;
	h.csn = (uint32_t)f->rx.arrived.nxt;
	h.rec = rec;
	pair_feed(&p, 1, &h, NULL, NULL);
}

/* A write that may still come is cut off before its number is that of another chunk. PROTOCOL R146 */
TEST_IN(received__old_doubts_end, NULL, end)
{
	struct pair_cfg c = pair_direct();
	struct uccl_flow *f;

	c.fence_never = true;
	c.csn[0] = 65536 - 4;
	f = raw(c);
	feed_desc(base(), 5, 2, 4096, 8192);
	for (uint16_t i = 0; i < 2; i++)
		feed_rewrite(&(struct rewrite){base() + 1 + i, 5, PAIR_GEN, i * 4096u, 0, 1, i, 4096, 0});
	chunks_pass(f, 2);
	assert_int_equal(f->rx.arrived.nxt, 65536 + 1);
	/* A new one on another path. */
	chunks_pass(f, (1 << 22) - 10);
	feed_desc(f->rx.arrived.nxt, 6, 1, 4096, 4096);
	feed_rewrite(&(struct rewrite){f->rx.arrived.nxt, 6, PAIR_GEN, 0, 0, 1, 2, 4096, 0});
	assert_int_equal(f->rx.write.ndoubts, 3);
	assert_int_equal(p.side[1].fences, 0);
	chunks_pass(f, 8);
	assert_int_equal(f->rx.arrived.nxt, 65536 + (1 << 22) + 1);
	assert_int_equal(p.side[1].fences, 2);
	uccl_flow_fenced(f, 0, p.now);
	assert_int_equal(f->rx.write.ndoubts, 2);
	/* A fence takes its time, and is not asked for with each chunk. */
	for (int i = 0; i < 100; i++)
		chunks_pass(f, 2);
	assert_int_equal(p.side[1].fences, 2);
}

/* A write that comes a whole wrap late cannot be told from another; one that comes earlier, or later, is refused. */
TEST_IN(rx_write__a_wrap_ago, NULL, end)
{
	struct uccl_flow *f = raw(pair_direct());
	uint64_t wrap = 1 << UCCL_IMM_CSN_BITS, window = f->cfg.window;
	const uint64_t ages[] = {wrap / 2 + 1, wrap * 3 / 4, wrap - window - 1, wrap - window, wrap * 2 - window};

	chunks_pass(f, 2 * wrap);
	for (size_t i = 0; i < sizeof(ages) / sizeof(ages[0]); i++) {
		feed_write(f->rx.arrived.nxt - ages[i], 4096, 0);
		assert_int_equal(pair_dropped(&p, 1, UCCL_DROP_WINDOW), i + 1);
	}
	assert_int_equal(p.side[1].stats.writes_rx, 0);
	assert_false(f->rx.write.off);
	feed_write(f->rx.arrived.nxt - (wrap - window + 1), 4096, 0);
	assert_int_equal(p.side[1].stats.writes_rx, 1);
	/* Up to half a wrap it is what the network doubled. */
	feed_write(f->rx.arrived.nxt - wrap / 2, 4096, 0);
	assert_true(f->rx.write.off);
}

TEST_IN(fence_message__each_path_once, NULL, end)
{
	struct pair_cfg c = pair_direct();
	struct uccl_flow *f;

	c.fence_never = true;
	f = raw(c);
	feed_desc(base(), 5, 4, 4096, 4 * 4096);
	feed_desc(base() + 5, 6, 1, 4096, 4096);
	for (uint16_t i = 0; i < 4; i++)
		feed_rewrite(&(struct rewrite){base() + 1 + i, 5, PAIR_GEN, i * 4096u, 0, 1, i % 2, 4096, 0});
	feed_rewrite(&(struct rewrite){base() + 6, 6, PAIR_GEN, 0, 0, 1, 3, 4096, 0});
	uccl_flow_fence_message(f, 5, PAIR_GEN, p.now);
	assert_int_equal(p.side[1].fences, 2);
	uccl_flow_fence_message(f, 5, PAIR_GEN + 1, p.now);
	uccl_flow_fence_message(f, 7, PAIR_GEN, p.now);
	assert_int_equal(p.side[1].fences, 2);
	uccl_flow_fence_message(f, 6, PAIR_GEN, p.now);
	assert_int_equal(p.side[1].fences, 3);
}

/* A NIC that is done when the call returns takes doubts out of the list under our feet. */
TEST_IN(fence_message__done_at_once, NULL, end)
{
	struct pair_cfg c = pair_direct();
	struct uccl_flow *f;

	c.fence_sync = true;
	f = raw(c);
	feed_desc(base(), 5, 4, 4096, 4 * 4096);
	for (uint16_t i = 0; i < 4; i++)
		feed_rewrite(&(struct rewrite){base() + 1 + i, 5, PAIR_GEN, i * 4096u, 0, 1, i, 4096, 0});
	uccl_flow_fence_message(f, 5, PAIR_GEN, p.now);
	assert_int_equal(p.side[1].fences, 4);
	assert_int_equal(f->rx.write.ndoubts, 0);
}

static void soak(struct pair_cfg c, uint64_t seed, double loss, double reorder)
{
	c.seed = seed;
	start(c);
	p.faults.loss = loss;
	p.faults.reorder = reorder;
	p.faults.reorder_ns = 100 * US;
	p.fence_delay = 30 * US;
	for (int i = 0; i < 12; i++) {
		for (int s = 0; s < 2; s++) {
			struct pair_obj *o;

			pair_record(&p, s, (uint32_t)uccl_rng_below(&p.rng, 1024));
			o = pair_make(&p, s, 1 + (uint32_t)uccl_rng_below(&p.rng, 200 * KIB), true,
				      1 + (int)uccl_rng_below(&p.rng, 4));
			o->item.direct = uccl_rng_below(&p.rng, 4);
			uccl_flow_submit(&p.side[s].f, &o->item);
		}
		pair_run(&p, p.now + uccl_rng_below(&p.rng, 300 * US));
	}
	assert_true(pair_finish(&p, 20 * UCCL_NS_PER_S));
	for (int s = 0; s < 2; s++) {
		assert_int_equal(p.side[s].f.rx.write.ndoubts, 0);
		assert_int_equal(p.side[s].f.rx.write.ndescs, 0);
	}
	pair_fini(&p);
}

TEST_IN(all__faults_by_chance, NULL, end)
{
	for (uint64_t seed = 1; seed <= 12; seed++)
		soak(pair_direct(), seed, 0.01 * (double)(seed % 6), seed % 3 ? 0.1 : 0);
}

TEST_IN(all__fifo_declared, NULL, end)
{
	for (uint64_t seed = 1; seed <= 6; seed++)
		soak(direct_fifo(), seed, 0.05, 0);
}

TEST_IN(all__small_window_and_slots, NULL, end)
{
	struct pair_cfg c = pair_direct();

	c.window = 64;
	c.slots = 5;
	for (uint64_t seed = 1; seed <= 4; seed++)
		soak(c, seed, 0.03, 0.1);
	c.slots = 1;
	soak(c, 9, 0.03, 0.1);
}

/* The immediate has 28 bits of the number. */
TEST_IN(all__immediate_wraps, NULL, end)
{
	struct pair_cfg c = pair_direct();

	c.csn[0] = (1ull << 28) - 20;
	c.csn[1] = (1ull << 32) - 20;
	for (uint64_t seed = 1; seed <= 4; seed++)
		soak(c, seed, 0.03, 0.1);
	c.csn[0] = 0;
	c.csn[1] = 3;
	soak(c, 5, 0.03, 0.1);
}

/*
 * A write that waits for its descriptor is not told of: of several on one path the first would count as lost, as the
 * line speaks of a later one and the bitmap of none. PROTOCOL R85
 */
TEST_IN(rx_write__early_is_not_told, NULL, end)
{
	struct uccl_flow *f = raw(pair_direct());

	feed_write(base() + 1, 4096, 2);
	feed_write(base() + 2, 4096, 2);
	assert_false(f->rx.ack_tracker.paths[2].write_dirty);
	assert_int_equal(f->rx.ack_tracker.ndirty, 0);
	feed_desc(base(), 1, 2, 4096, 8192);
	assert_true(f->rx.ack_tracker.paths[2].write_dirty);
	assert_true(f->rx.ack_tracker.paths[2].high_csn == base() + 3);
}

/* What a write waited for its descriptor is no part of its path's RTT: time-outs would grow with every loss. */
TEST_IN(rx_write__early_is_no_slow_path, NULL, end)
{
	struct uccl_flow *f = raw(pair_direct());

	p.now += 10 * US;
	feed_write(base() + 1, 4096, 2);
	p.now += 10 * US;
	feed_write(base() + 2, 4096, 2);
	p.now += 300 * US;
	feed_desc(base(), 1, 2, 4096, 8192);
	assert_int_equal(f->rx.ack_tracker.paths[2].write_ns, p.now - 300 * US);
}

static void lose_nth_descriptor(struct pair *q, struct pair_pkt *k)
{
	if (k->kind == UCCL_RX_PACKET && k->h.type == UCCL_PKT_DESC && ++q->count == *(uint32_t *)q->arg)
		k->fate = PAIR_DROP;
}

TEST_IN(rx_write__early_leaves_the_rtt, NULL, end)
{
	struct pair_cfg c = pair_direct();
	uint32_t nth = 3;

	start(c);
	p.arg = &nth;
	p.filter = lose_nth_descriptor;
	pair_bulk(&p, 0, 1024 * KIB);
	assert_true(pair_finish(&p, 20 * MS));
	assert_true(p.count > 3);
	assert_true(p.side[0].stats.rtx_packets >= 1);
	/* The descriptor came again after 100 us and more. */
	assert_true(p.side[0].f.loss.times.srtt_ns < 21 * US);
}

TEST_IN(rx_write__early_proves_nothing, NULL, end)
{
	struct pair_cfg c = pair_direct();

	c.paths = 1;
	start(c);
	p.filter = delay_descriptors;
	pair_bulk(&p, 0, 64 * KIB);
	pair_record(&p, 1, 10);
	/* Blocks leave while the writes wait. */
	for (int i = 0; i < 10; i++) {
		pair_run(&p, p.now + 2 * US);
		p.side[1].f.rx.ack_tracker.now = true;
		pair_pump_one(&p, 1);
	}
	assert_true(pair_finish(&p, 10 * MS));
	assert_int_equal(p.side[0].stats.lost_proof, 0);
	assert_int_equal(p.side[0].stats.rtx_packets, 0);
}

/* A place that was closed ends its doubts; the write that comes all the same was expected, once. PROTOCOL R83 */
TEST_IN(forgive__late_write_expected_once, NULL, end)
{
	struct uccl_flow *f = raw(pair_direct());
	struct rewrite v = {.csn = base() + 1, .id = 1, .gen = PAIR_GEN, .count = 1, .path = 1, .len = 4096};

	feed_desc(base(), 1, 2, 4096, 8192);
	feed_rewrite(&v);
	assert_int_equal(f->rx.write.ndoubts, 1);
	uccl_flow_forgive(f, 1, PAIR_GEN + 1);
	uccl_flow_forgive(f, 2, PAIR_GEN);
	assert_int_equal(f->rx.write.ndoubts, 1);
	uccl_flow_forgive(f, 1, PAIR_GEN);
	assert_int_equal(f->rx.write.ndoubts, 0);
	assert_int_equal(p.side[1].settled, 0);
	feed_write(base() + 1, 4096, 1);
	assert_int_equal(p.side[1].stats.dup_writes, 0);
	assert_false(f->rx.write.off);
	feed_write(base() + 1, 4096, 1);
	assert_int_equal(p.side[1].stats.dup_writes, 1);
	assert_true(f->rx.write.off);
}

/* Writes that wait for their descriptor are not lost because later ones on their paths did not have to. PROTOCOL R52 */
PAIR_TEST(rx_write__late_descriptor_proves_nothing, pair_direct())
{
	uint32_t nth = 2;

	p.arg = &nth;
	p.filter = delay_nth_descriptor;
	pair_bulk(&p, 0, 1024 * KIB);
	assert_true(pair_finish(&p, 20 * MS));
	assert_int_equal(p.side[0].stats.writes_tx, 256);
	/* The descriptor alone, which others of its own path passed. */
	assert_int_equal(p.side[0].stats.lost_proof, 1);
	assert_int_equal(p.side[0].stats.rtx_bytes, 0);
	assert_int_equal(p.side[1].stats.dropped[UCCL_DROP_MEMORY], 0);
}

TESTS_MAIN
