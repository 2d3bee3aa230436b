/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Records and bulk: which leaves, and where it is cut. */
#include "../sender.h"
#include "../../tests.h"

/* With a congestion window of so many bytes, and no pacing. */
static void start_window(struct pair_cfg cfg, uint64_t bytes)
{
	cfg.cc = &cc_set;
	cc_bytes = bytes;
	cc_gap_ns = 0;
	start(cfg);
}

static void lose_tenth(struct pair *q, struct pair_pkt *k)
{
	if (k->to == 1 && !uccl_rng_below(&q->rng, 10))
		k->fate = PAIR_DROP;
}

TEST_IN(item_payload__iovs, NULL, end)
{
	start(pair_packets());
	for (int segments = 1; segments <= 8; segments++) {
		struct pair_obj *o = pair_make(&p, 0, 5000 + (uint32_t)segments, true, segments);

		uccl_flow_submit(&p.side[0].f, &o->item);
	}
	assert_true(pair_finish(&p, 10 * MS));
}

/* Chunks are cut at the end of each part; empty parts are stepped over, `skip` begins inside one. */
TEST_IN(item_payload__cuts, NULL, end)
{
	static const uint32_t want[] = {1024, 476, 24, 1024, 976};
	struct pair_obj *o;

	start(pair_packets());
	o = pair_make(&p, 0, 3524, true, 1);
	o->iov[0].iov_len = 1500;
	o->iov[1] = (struct iovec){NULL, 0};
	o->iov[2] = (struct iovec){o->src + 1500, 24};
	o->iov[3] = (struct iovec){o->src + 1524, 2000};
	o->item.iov_count = 4;
	uccl_flow_submit(&p.side[0].f, &o->item);
	pair_pump_one(&p, 0);
	assert_int_equal(p.nwire, uccl_array_len(want));
	for (uint32_t i = 0; i < p.nwire; i++)
		assert_int_equal(p.wire[i]->h.payload_len, want[i]);
	assert_true(pair_finish(&p, 10 * MS));
}

TEST_IN(item_payload__skip, NULL, end)
{
	struct pair_obj *o;
	uint8_t front[700];

	start(pair_packets());
	o = pair_make(&p, 0, 3000, true, 1);
	memset(front, 0, sizeof(front));
	o->iov[1] = o->iov[0];
	o->iov[0] = (struct iovec){front, sizeof(front)};
	o->item.iov_count = 2;
	o->item.skip = sizeof(front);
	uccl_flow_submit(&p.side[0].f, &o->item);
	assert_true(pair_finish(&p, 10 * MS));
}

TEST_IN(tx_record__small_ones_pass_a_full_window, NULL, end)
{
	struct pair_cfg c = pair_packets();

	start_window(c, 2048);
	pair_bulk(&p, 0, 10 * KIB);
	assert_int_equal(pair_pump_one(&p, 0), 2);
	pair_record(&p, 0, 256);
	assert_int_equal(pair_pump_one(&p, 0), 1);
	pair_record(&p, 0, 257);
	assert_int_equal(pair_pump_one(&p, 0), 0);
	assert_false(p.side[0].f.app_limited);
	assert_true(pair_finish(&p, 10 * MS));
}

/* A longer record that the path does not carry waits until the peer has put others together. PROTOCOL R14 R154 */
TEST_IN(tx_record__small_ones_pass_what_is_too_long, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.find_mtu = true;
	c.chunk_bytes = 4096;
	c.mtu = UCCL_HDR_LEN + 4096;
	start(c);
	p.side[0].f.pmtu.bytes = p.side[0].f.pmtu.bad = 1280;
	p.side[0].f.pmtu.raise_at = UCCL_NEVER;
	for (int i = 0; i < UCCL_KEPT_MAX + 1; i++)
		pair_record(&p, 0, 4096);
	pair_pump_one(&p, 0);
	assert_int_equal(p.side[0].f.sent.kept, UCCL_KEPT_MAX);
	pair_record(&p, 0, 3);
	assert_int_equal(pair_pump_one(&p, 0), 1);
	assert_int_equal(p.wire[p.nwire - 1]->h.payload_len, 3);
	assert_true(pair_finish(&p, 10 * MS));
}

/* A grant behind large records that the window holds back: the other direction waits for it. */
TEST_IN(tx_record__small_ones_pass_held_records, NULL, end)
{
	struct pair_cfg c = pair_packets();

	start_window(c, 2048);
	for (int i = 0; i < 4; i++)
		pair_record(&p, 0, KIB);
	pair_record(&p, 0, 3);
	pair_record(&p, 0, KIB);
	pair_record(&p, 0, 4);
	assert_int_equal(pair_pump_one(&p, 0), 4);
	assert_int_equal(p.wire[0]->h.payload_len, KIB);
	assert_int_equal(p.wire[1]->h.payload_len, KIB);
	assert_int_equal(p.wire[2]->h.payload_len, 3);
	assert_int_equal(p.wire[3]->h.payload_len, 4);
	assert_false(p.side[0].f.app_limited);
	assert_true(pair_finish(&p, 10 * MS));
}

/*
 * Records that announce payload stay in line, however short, and take turns with it: no more is announced than it has
 * left. One that is cut off leaves the others in line. PROTOCOL R14 R130
 */
TEST_IN(tx_record__announces, NULL, end)
{
	struct pair_cfg c = pair_packets();
	struct pair_obj *o[30];
	int records = 0, bulk = 0;

	c.window = c.slots = 16384;
	start(c);
	for (int i = 0; i < 30; i++) {
		o[i] = pair_make(&p, 0, i % 3 ? 24 : 0, false, 1);
		o[i]->item.more = 64 * KIB;
		uccl_flow_submit(&p.side[0].f, &o[i]->item);
		if (i < 20)
			pair_bulk(&p, 0, 64 * KIB);
	}
	assert_true(uccl_flow_cut(&p.side[0].f, &o[29]->item));
	pair_record(&p, 0, KIB);
	pair_pump_one(&p, 0);
	for (uint32_t i = 0; i < p.nwire; i++) {
		bulk += p.wire[i]->h.rtype == PAIR_BULK ? (int)p.wire[i]->h.payload_len : 0;
		records += p.wire[i]->h.rtype != PAIR_BULK;
		assert_true(records * 64 * KIB <= bulk + 256 * KIB + 64 * KIB || bulk == 20 * 64 * KIB);
	}
	assert_int_equal(records, 30);
	assert_int_equal(bulk, 20 * 64 * KIB);
}

/* Where nothing is held back, nobody is overtaken. */
TEST_IN(tx_record__in_order, NULL, end)
{
	static const uint16_t len[] = {KIB, 3, 500, 0, 256, 257};

	start(pair_packets());
	for (int i = 0; i < 6; i++)
		pair_record(&p, 0, len[i]);
	assert_int_equal(pair_pump_one(&p, 0), 6);
	for (int i = 0; i < 6; i++)
		assert_int_equal(p.wire[i]->h.payload_len, len[i]);
}

/* Records that go on and on and a long transfer share by bytes, whatever the records' size. PROTOCOL R130 */
TEST_IN(tx_new__records_and_bulk_take_turns, NULL, end)
{
	static const struct {
		uint32_t len;
		int n;
	} records[] = {{0, 8000}, {200, 3000}, {KIB, 1000}};

	for (size_t k = 0; k < uccl_array_len(records); k++) {
		struct pair_cfg c = pair_packets();
		int64_t ahead = 0, bulk = 0;

		c.window = c.slots = 16384;
		start(c);
		pair_bulk(&p, 0, 1024 * KIB);
		for (int i = 0; i < records[k].n; i++)
			pair_record(&p, 0, records[k].len);
		pair_pump_one(&p, 0);
		for (uint32_t i = 0; i < p.nwire && bulk < 100 * KIB; i++) {
			const struct uccl_hdr *h = &p.wire[i]->h;

			bulk += h->rtype == PAIR_BULK ? h->payload_len : 0;
			ahead += h->rtype == PAIR_BULK ? -(int64_t)h->payload_len : UCCL_HDR_LEN + h->payload_len;
			assert_true(ahead <= 256 * KIB + UCCL_HDR_LEN + KIB);
			assert_true(!bulk || ahead >= (256 - 32 - 1) * KIB);
		}
		assert_true(bulk >= 100 * KIB);
		pair_fini(&p);
	}
}

/* Bulk's turn, but the window is full: longer records wait for it, small ones for nothing. */
TEST_IN(tx_new__bulk_turn_held_back, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.window = c.slots = 4096;
	start_window(c, 250 * KIB);
	pair_bulk(&p, 0, 64 * KIB);
	for (int i = 0; i < 270; i++)
		pair_record(&p, 0, KIB);
	/* 241 records of 1088 bytes are far enough ahead; the rest of the window is bulk's. */
	assert_int_equal(pair_pump_one(&p, 0), 250);
	assert_int_equal(p.wire[240]->h.rtype, PAIR_RECORD);
	assert_int_equal(p.wire[241]->h.rtype, PAIR_BULK);
	assert_int_equal(p.wire[249]->h.rtype, PAIR_BULK);
	pair_record(&p, 0, 5);
	assert_int_equal(pair_pump_one(&p, 0), 1);
	/* Nobody is forgotten. */
	assert_true(pair_finish(&p, 100 * MS));
	assert_false(p.side[0].f.sendq.bulk_turn);
}

/* Bulk's turn, and it waits for room for a whole train: records that would fit do not take that away. */
TEST_IN(tx_new__bulk_turn_waits_for_its_train, NULL, end)
{
	struct pair_cfg c = pair_packets();
	int n;

	c.window = c.slots = 4096;
	c.train_bytes = 32 * KIB;
	start_window(c, 250 * KIB);
	pair_bulk(&p, 0, 64 * KIB);
	for (int i = 0; i < 270; i++)
		pair_record(&p, 0, KIB);
	n = pair_pump_one(&p, 0);
	/* The end of the train under way has room. */
	assert_in_range(n, 241, 249);
	for (int i = 241; i < n; i++)
		assert_int_equal(p.wire[i]->h.rtype, PAIR_BULK);
	assert_true(p.side[0].f.sendq.bulk_turn);
	assert_true(pair_finish(&p, 100 * MS));
}

TEST_IN(tx_record__before_bulk, NULL, end)
{
	start(pair_packets());
	pair_bulk(&p, 0, 4 * KIB);
	pair_record(&p, 0, 7);
	pair_record(&p, 0, 8);
	pair_pump_one(&p, 0);
	assert_int_equal(p.wire[0]->h.payload_len, 7);
	assert_int_equal(p.wire[1]->h.payload_len, 8);
	assert_int_equal(p.wire[2]->h.payload_len, 1024);
}

TEST_IN(tx_bulk__round_robin, NULL, end)
{
	struct pair_cfg c = pair_packets();
	uint32_t turns = 0, last = UINT32_MAX, run = 0;

	c.window = 4096;
	c.slots = 4096;
	c.chunk_bytes = 16 * KIB;
	c.mtu = 20 * KIB;
	start(c);
	pair_bulk(&p, 0, 16384 * KIB);
	pair_bulk(&p, 0, 16384 * KIB);
	pair_bulk(&p, 0, 16384 * KIB);
	pair_pump_one(&p, 0);
	assert_int_equal(p.nwire, 3072);
	for (uint32_t i = 0; i < p.nwire; i++) {
		uint32_t id = uccl_get32(p.wire[i]->data + 32);

		run = id == last ? run + 1 : 1;
		turns += id != last;
		last = id;
		assert_true(run <= 256); /* 4 MiB a turn */
	}
	assert_int_equal(turns, 12);
}

/* A path policy that writes down what it is told of each chunk. */
static struct uccl_chunk_info chosen[64];
static int nchosen;

static uint16_t note_select(void *ps, const struct uccl_path *paths, const uint16_t *usable, uint16_t n,
			    const struct uccl_chunk_info *chunk, struct uccl_rng *rng, uint64_t now)
{
	chosen[nchosen++ % 64] = *chunk;
	return usable[0];
}

static const struct uccl_path_ops path_note = {.select = note_select};

/* Path choice knows how much of a message has not left: of records, of ranges, and of what is in no item yet. */
TEST_IN(tx_new__left_of_a_message, NULL, end)
{
	struct pair_cfg c = pair_packets();
	struct pair_obj *o;

	c.pathsel = &path_note;
	start(c);
	o = pair_make(&p, 0, 600, false, 1);
	o->item.more = 5000;
	nchosen = 0;
	uccl_flow_submit(&p.side[0].f, &o->item);
	pair_pump_one(&p, 0);
	assert_int_equal(nchosen, 1);
	assert_int_equal(chosen[0].left, 5600);
	assert_true(pair_finish(&p, 20 * MS));
	o = pair_make(&p, 0, 64 * KIB, true, 1);
	o->item.more = 5000;
	nchosen = 0;
	uccl_burst_end(&p.side[0].f.paths.burst);
	uccl_flow_submit(&p.side[0].f, &o->item);
	pair_pump_one(&p, 0);
	assert_true(nchosen >= 2);
	assert_int_equal(chosen[0].left, 64 * KIB + 5000);
	for (int i = 1; i < nchosen; i++)
		assert_int_equal(chosen[i - 1].left - chosen[i].left, chosen[i - 1].bytes);
	assert_true(pair_finish(&p, 100 * MS));
}

TEST_IN(tx_bulk__pacing_below_one_chunk, NULL, end)
{
	struct pair_cfg c = pair_packets();
	uint64_t began;

	c.cc = &cc_set;
	cc_bytes = 100;
	cc_gap_ns = 500 * US;
	start(c);
	began = p.now;
	pair_bulk(&p, 0, 10 * KIB);
	assert_int_equal(pair_pump_one(&p, 0), 1);
	/* Acknowledged long before: the next one waits for its time all the same, and then leaves by the flow's own
	 * timer. */
	pair_run(&p, p.now + 499 * US);
	assert_int_equal(p.side[0].f.sent.inflight_chunks, 0);
	assert_int_equal(p.side[0].f.sent.nxt - c.csn[0], 1);
	assert_int_equal(uccl_flow_expiry(&p.side[0].f), began + 500 * US);
	assert_true(pair_finish(&p, 20 * MS));
	assert_true(p.now - began >= 9 * 500 * US);
	assert_true(p.now - began < 10 * 500 * US);
}

#define EACH 808u
#define SHARED 2400u /* two packets of EACH, and one that lacks 24 bytes */

/* Trains of so many bytes of payload, in packets of up to 1000. */
static struct pair_cfg padded(uint32_t train)
{
	struct pair_cfg c = pair_packets();

	c.chunk_bytes = 1000;
	c.mtu = UCCL_HDR_LEN + 1000;
	c.train_bytes = train;
	c.segments = c.pads = true;
	return c;
}

static void shared_submit(uint32_t len, uint32_t each)
{
	struct pair_obj *o = pair_make(&p, 0, len, true, 1);

	o->item.each = each;
	uccl_flow_submit(&p.side[0].f, &o->item);
}

/* Messages that leave together are one train, and the last packet asks for all of them. PROTOCOL R259 R261 */
TEST_IN(tx_bulk__share_a_train, NULL, end)
{
	struct uccl_tx t;
	uint16_t path = 0;

	start(padded(40000));
	for (int i = 0; i < 3; i++)
		shared_submit(SHARED, EACH);
	for (uint32_t n = 0; n < 9; n++) {
		bool last = n % 3 == 2, pad = last && n < 8;

		assert_int_equal(uccl_flow_tx(&p.side[0].f, &t, p.now), 1);
		assert_int_equal(t.payload_len, last ? SHARED - 2 * EACH : EACH);
		assert_int_equal(t.tail_len, pad ? 3 * EACH - SHARED : 0);
		assert_int_equal(t.hdr[4], pad ? UCCL_FLAG_PADDED | UCCL_FLAG_WANT : last ? UCCL_FLAG_AR : 0);
		for (uint32_t i = 0; i < t.tail_len; i++)
			assert_int_equal(t.tail[i], 0);
		assert_false(t.single);
		assert_true(!n || t.path == path);
		path = t.path;
	}
	assert_int_equal(uccl_flow_tx(&p.side[0].f, &t, p.now), 0);
	pair_fini(&p);
	/* And what is padded arrives, though some of it is lost. */
	start(padded(40000));
	for (int i = 0; i < 40; i++)
		shared_submit(SHARED, EACH);
	p.filter = lose_tenth;
	assert_true(pair_finish(&p, 10 * UCCL_NS_PER_S));
}

/* Whose packets have another length, or who does not fit the train or the window, or if trains are in doubt. */
TEST_IN(tx_bulk__shares_not, NULL, end)
{
	for (int k = 0; k < 5; k++) {
		struct uccl_tx t;
		int n = 0;

		start_window(padded(40000), k == 2 ? 2 * SHARED - 8 : 1u << 20);
		shared_submit(SHARED, EACH);
		shared_submit(k == 1 ? 38000 : SHARED, k == 3 ? EACH - 8 : EACH);
		p.side[0].f.train.state = k == 4 ? UCCL_TRAINS_OFF : UCCL_TRAINS_ON;
		for (uint32_t left = SHARED; left; left -= t.payload_len, n++) {
			assert_int_equal(uccl_flow_tx(&p.side[0].f, &t, p.now), 1);
			assert_int_equal(t.tail_len, k ? 0 : n / 2 * (3 * EACH - SHARED));
		}
		assert_int_equal(t.hdr[4] & UCCL_FLAG_AR, k ? UCCL_FLAG_AR : 0);
		pair_fini(&p);
	}
}

/* What leaves of messages longer than a train, in which no packet that is padded is the last one of its burst. */
struct joined {
	uint32_t packets, padded, alone; /* alone: short, and not padded */
	uint32_t least; /* payload of one that was padded */
};

static struct joined joined_tx(void)
{
	struct joined n = { .least = UINT32_MAX };
	uint32_t each = p.side[0].f.chunk_bytes;
	struct uccl_tx t;
	bool padded = false;
	uint16_t path = 0;

	for (; uccl_flow_tx(&p.side[0].f, &t, p.now) == 1; n.packets++) {
		/* The one before had the same length and path, and so was of this train. */
		if (padded) {
			assert_int_equal(t.path, path);
			assert_false(t.burst);
		}
		padded = t.tail_len;
		path = t.path;
		assert_int_equal(t.hdr[4] & UCCL_FLAG_PADDED, padded ? UCCL_FLAG_PADDED : 0);
		n.alone += t.payload_len < each && !padded;
		if (!padded)
			continue;
		assert_int_equal(t.payload_len + t.tail_len, each);
		assert_true(t.tail_len <= UCCL_TAIL_MAX);
		n.least = uccl_min(n.least, t.payload_len);
		n.padded++;
	}
	assert_false(padded);
	return n;
}

/* Long messages of a stream: the end of one and the begin of the next share a train. PROTOCOL R287 */
TEST_IN(tx_bulk__long_ones_join, NULL, end)
{
	static const struct {
		uint32_t tail, least, padded;
	} cases[] = {
		/* Padded as it is; with the packet before it, half of both each. */
		{ 360, 360, 1 }, { 999, 999, 1 }, { 359, 679, 2 }, { 200, 600, 2 }, { 1, 497, 2 },
	};

	for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		struct joined n;

		start(padded(10000));
		for (int i = 0; i < 6; i++)
			shared_submit(25000 + cases[k].tail, 0);
		n = joined_tx();
		assert_int_equal(n.packets, 6 * 26);
		/* Where the end of a message is that of a burst, and at last, nothing follows in the train. */
		assert_int_equal(n.padded + n.alone * cases[k].padded, 6 * cases[k].padded);
		assert_true(n.padded >= 3 * cases[k].padded);
		assert_int_equal(n.least, cases[k].least);
		pair_fini(&p);
		/* And all of it arrives, though some of it is lost. */
		start(padded(10000));
		for (int i = 0; i < 40; i++)
			shared_submit(25000 + cases[k].tail, 0);
		p.filter = lose_tenth;
		assert_true(pair_finish(&p, 10 * UCCL_NS_PER_S));
		pair_fini(&p);
	}
}

/* Not to a peer that takes no padded packets, nor beyond what may be padded, nor if the next one does not follow. */
TEST_IN(tx_bulk__long_ones_join_not, NULL, end)
{
	enum { PADS_NOT, TOO_SHORT, WINDOW, TWO_PIECES, MORE, OTHER_LENGTH, DOUBT, FIT_TRAINS, JOIN };

	for (int k = PADS_NOT; k <= JOIN; k++) {
		struct pair_cfg c = padded(k == TOO_SHORT ? 12000 : 10000);
		uint32_t len = k == FIT_TRAINS ? 9200 : 25200;

		c.pads = k != PADS_NOT;
		if (k == TOO_SHORT) {
			c.chunk_bytes = 4000;
			c.mtu = UCCL_HDR_LEN + 4000;
		}
		start_window(c, k == WINDOW ? len : 1u << 20);
		for (int i = 0; i < 4; i++) {
			struct pair_obj *o = pair_make(&p, 0, len, true, k == TWO_PIECES ? 2 : 1);

			if (k == TWO_PIECES) {
				o->iov[0].iov_len = len - 100;
				o->iov[1] = (struct iovec){ o->src + len - 100, 100 };
			}
			o->item.more = k == MORE ? 1000 : 0;
			o->item.each = k == OTHER_LENGTH && i % 2 ? 904 : 0;
			uccl_flow_submit(&p.side[0].f, &o->item);
		}
		if (k == DOUBT)
			p.side[0].f.train.state = UCCL_TRAINS_OFF;
		assert_int_equal(joined_tx().padded, k == JOIN ? 4 : 0);
		pair_fini(&p);
	}
}

TESTS_MAIN
