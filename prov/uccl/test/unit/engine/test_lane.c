/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Endpoints with lanes: homes and lanes are nodes of their own, letters are read whenever a node is polled. */
#include "lan.h"

#include <stdlib.h>

#define MS UCCL_NS_PER_MS
#define SECOND UCCL_NS_PER_S

#define LANES 2
/* Lanes come before their homes: they are closed first. */
#define HOME(side) (6 + (side))
#define LANE(side, k) ((side) * 3 + (k))

#define BYTES (5u * UCCL_UNIT_BYTES + 12345)

static uint8_t src[2][BYTES], dst[2][BYTES];
static struct uccl_line line[2][LANES];

static void side_open(struct lan *l, int side, uint8_t n)
{
	static struct uccl_addr identity[2][LANES];
	struct uccl_engine *lane[LANES];
	struct uccl_line *lines[LANES];

	lan_open(l, HOME(side));
	for (uint8_t k = 0; k < n; k++) {
		struct lan_node *node = &l->node[LANE(side, k)];

		identity[side][k] = *uccl_engine_addr(l->node[HOME(side)].e);
		identity[side][k].incarnation += k + 1u;
		assert_true(uccl_line_init(&line[side][k]));
		lines[k] = &line[side][k];
		node->lane_line = &line[side][k];
		node->lane_number = k;
		node->identity = &identity[side][k];
		lan_open(l, LANE(side, k));
		lane[k] = node->e;
	}
	if (n)
		assert_int_equal(uccl_engine_lanes(l->node[HOME(side)].e, lane, lines, n), 0);
}

/* Two endpoints, with so many lanes. */
static struct lan *lanes_new(uint8_t a, uint8_t b)
{
	struct lan *l = lan_new();

	side_open(l, 0, a);
	side_open(l, 1, b);
	lan_fill(src[0], BYTES, 1);
	lan_fill(src[1], BYTES, 2);
	memset(dst, 0, sizeof(dst));
	return l;
}

/* The same, and all connections are there. */
static struct lan *lanes_open(uint8_t a, uint8_t b)
{
	struct lan *l = lanes_new(a, b);

	lan_recv(l, HOME(1), dst[1], 100, LAN_CTX(1));
	assert_int_equal(lan_send(l, HOME(0), HOME(1), src[0], 100, LAN_CTX(1)), 0);
	lan_run(l, SECOND);
	lan_expect(l, HOME(0), LAN_CTX(1), 0);
	lan_expect(l, HOME(1), LAN_CTX(1), 0);
	return l;
}

static void lanes_free(struct lan *l)
{
	lan_free(l);
	for (int side = 0; side < 2; side++)
		for (int k = 0; k < LANES; k++)
			uccl_line_fini(&line[side][k]);
}

static uint64_t carried(const struct lan *l, int node)
{
	return l->node[node].e ? lan_stats(l, node)->tx_bytes : 0;
}

static void send__over_lanes(void **state)
{
	struct lan *l = lanes_open(LANES, LANES);

	(void)state;
	lan_recv(l, HOME(1), dst[1], BYTES, LAN_CTX(2));
	assert_int_equal(lan_send(l, HOME(0), HOME(1), src[0], BYTES, LAN_CTX(3)), 0);
	lan_run(l, SECOND);
	lan_expect(l, HOME(0), LAN_CTX(3), 0);
	lan_expect(l, HOME(1), LAN_CTX(2), 0);
	lan_check(dst[1], BYTES, 1);
	/* Home has sent the envelope. */
	assert_true(carried(l, HOME(0)) < UCCL_UNIT_BYTES);
	assert_true(carried(l, LANE(0, 0)) >= 2 * UCCL_UNIT_BYTES);
	assert_true(carried(l, LANE(0, 1)) >= 2 * UCCL_UNIT_BYTES);
	lanes_free(l);
}

/* Its envelope carries no more than a short unit, and lanes the rest: each has some if there is enough. */
static void send__short(void **state)
{
	static const struct {
		uint32_t bytes;
		uint8_t lanes;
	} v[] = {
		{65536, 0},	/* eager */
		{UCCL_UNIT_LEAST * 3, 2},
		{UCCL_UNIT_LEAST * 8, 2},
	};

	(void)state;
	for (size_t i = 0; i < uccl_array_len(v); i++) {
		struct lan *l = lanes_open(LANES, LANES);
		uint8_t used = 0;

		lan_recv(l, HOME(1), dst[1], v[i].bytes, LAN_CTX(2));
		assert_int_equal(lan_send(l, HOME(0), HOME(1), src[0], v[i].bytes, LAN_CTX(3)), 0);
		lan_run(l, SECOND);
		lan_expect(l, HOME(0), LAN_CTX(3), 0);
		lan_expect(l, HOME(1), LAN_CTX(2), 0);
		lan_check(dst[1], v[i].bytes, 1);
		for (int k = 0; k < LANES; k++)
			used += carried(l, LANE(0, k)) > 0;
		assert_int_equal(used, v[i].lanes);
		lanes_free(l);
	}
}

/* What would go without an answer goes over lanes while so much of it is under way. Short ones are always home's. */
static void send__while_busy(void **state)
{
	enum { MANY = 8 };
	static const uint32_t bytes[] = { UCCL_LANES_FIRST, UCCL_LANES_FIRST - 1, 65536 };

	(void)state;
	for (size_t i = 0; i < uccl_array_len(bytes); i++) {
		struct lan *l = lanes_open(LANES, LANES);
		uint32_t n = bytes[i];

		for (int k = 0; k < MANY; k++)
			lan_recv(l, HOME(1), dst[1] + (size_t)k * n, n, LAN_CTX(2));
		for (int k = 0; k < MANY; k++)
			assert_int_equal(lan_send(l, HOME(0), HOME(1), src[0] + (size_t)k * n, n, LAN_CTX(3)), 0);
		lan_run(l, SECOND);
		for (int k = 0; k < MANY; k++) {
			lan_expect(l, HOME(0), LAN_CTX(3), 0);
			lan_expect(l, HOME(1), LAN_CTX(2), 0);
		}
		assert_memory_equal(dst[1], src[0], (size_t)MANY * n);
		assert_int_equal(carried(l, HOME(0)) / n, n < UCCL_LANES_FIRST ? MANY : UCCL_LANES_UNASKED / n);
		for (int k = 0; k < LANES; k++)
			assert_int_equal(carried(l, LANE(0, k)) > 0, n >= UCCL_LANES_FIRST);
		/* That is over: the next one is home's again. */
		assert_true(lan_peer(l, HOME(0), HOME(1))->unasked == 0);
		lanes_free(l);
	}
}

/* A long one is home's for a short beginning if it is alone, and else not at all. */
static void send__long_beside_others(void **state)
{
	enum { MANY = 4, LONG = 4 * UCCL_LANES_FIRST };
	struct lan *l = lanes_open(LANES, LANES);

	(void)state;
	for (int k = 0; k < MANY; k++)
		lan_recv(l, HOME(1), dst[1] + (size_t)k * LONG, LONG, LAN_CTX(2));
	for (int k = 0; k < MANY; k++)
		assert_int_equal(lan_send(l, HOME(0), HOME(1), src[0] + (size_t)k * LONG, LONG, LAN_CTX(3)), 0);
	lan_run(l, SECOND);
	for (int k = 0; k < MANY; k++) {
		lan_expect(l, HOME(0), LAN_CTX(3), 0);
		lan_expect(l, HOME(1), LAN_CTX(2), 0);
	}
	assert_memory_equal(dst[1], src[0], (size_t)MANY * LONG);
	assert_true(carried(l, HOME(0)) > LAN_MTU / 2 && carried(l, HOME(0)) < 2 * LAN_MTU);
	lanes_free(l);
}

/*
 * To a peer that knows long units only, what is too short to be shared goes over lanes all the same, if home has others
 * to take. PROTOCOL R224
 */
static void send__beside_others(void **state)
{
	enum { MANY = 8, SHORT = UCCL_LANES_BESIDE + 70000 };
	struct lan *l = lanes_open(LANES, LANES);

	(void)state;
	for (int side = 0; side < 2; side++)
		lan_peer(l, HOME(side), HOME(!side))->units = false;
	for (int n = 1; n <= MANY; n += MANY - 1) {
		for (int i = 0; i < n; i++)
			lan_recv(l, HOME(1), dst[1] + i * SHORT, SHORT, LAN_CTX(2));
		for (int i = 0; i < n; i++)
			assert_int_equal(lan_send(l, HOME(0), HOME(1), src[0] + i * SHORT, SHORT, LAN_CTX(3)), 0);
		lan_run(l, SECOND);
		for (int i = 0; i < n; i++) {
			lan_expect(l, HOME(0), LAN_CTX(3), 0);
			lan_expect(l, HOME(1), LAN_CTX(2), 0);
		}
		assert_memory_equal(dst[1], src[0], (size_t)n * SHORT);
		/* The first is home's. */
		assert_int_equal(carried(l, LANE(0, 0)) > 0, n > 1);
		assert_int_equal(carried(l, LANE(0, 1)) > 0, n > 1);
		assert_true(carried(l, HOME(0)) > SHORT - UCCL_LANES_BESIDE);
	}
	lanes_free(l);
}

/* One side has fewer, or none. */
static void send__fewer_lanes(void **state)
{
	static const uint8_t n[][2] = {{1, 2}, {2, 1}, {0, 2}, {2, 0}, {0, 0}};

	(void)state;
	for (size_t i = 0; i < uccl_array_len(n); i++) {
		struct lan *l = lanes_open(n[i][0], n[i][1]);

		for (int side = 0; side < 2; side++) {
			lan_recv(l, HOME(!side), dst[!side], BYTES, LAN_CTX(2));
			assert_int_equal(lan_send(l, HOME(side), HOME(!side), src[side], BYTES, LAN_CTX(3)), 0);
			lan_run(l, SECOND);
			lan_expect(l, HOME(side), LAN_CTX(3), 0);
			lan_expect(l, HOME(!side), LAN_CTX(2), 0);
			lan_check(dst[!side], BYTES, (uint32_t)side + 1);
			assert_int_equal(carried(l, LANE(side, 0)) > UCCL_UNIT_BYTES, n[i][0] && n[i][1]);
			assert_int_equal(carried(l, LANE(side, 1)), 0);
		}
		lanes_free(l);
	}
}


/* A packet nobody but a lane takes, and it only for what home lets it. PROTOCOL R181 */
static void data__refused(void **state)
{
	struct lan *l = lanes_open(LANES, LANES);
	uint8_t rec[UCCL_REC_LEN] = {0};
	struct uccl_chunk_in in = {.rtype = UCCL_REC_DATA, .rec = rec, .data = src[0], .len = 100};
	struct uccl_engine *lane = l->node[LANE(1, 0)].e;
	struct uccl_peer *from = uccl_engine_peer(lane, uccl_engine_addr(l->node[LANE(0, 0)].e), false);
	struct uccl_peer *other = uccl_engine_peer(lane, uccl_engine_addr(l->node[HOME(0)].e), true);
	struct uccl_msg_rx *rx;

	(void)state;
	assert_non_null(from);
	lan_recv(l, HOME(1), dst[1], BYTES, LAN_CTX(2));
	/* The first side waits for CTS. */
	assert_int_equal(lan_send(l, HOME(0), HOME(1), src[0], BYTES, LAN_CTX(3)), 0);
	lan_round(l);
	l->node[LANE(1, 0)].asleep = l->node[HOME(0)].asleep = true;
	lan_round(l);
	rx = TAILQ_FIRST(&lan_conn(l, HOME(1), HOME(0))->peer.rxs);
	assert_non_null(rx);
	assert_non_null(rx->berth);
	assert_int_equal(rx->berth->told, 3);
	uccl_rec_set_bulk(rec, rx->id, (uint32_t)rx->mseq, rx->eager);
	/* The lane has not read that it may: it finds it. PROTOCOL R184 */
	other->flow.user = other;
	assert_int_equal(uccl_lane_flow_ops.deliver(&other->flow, &in, 0), UCCL_DROP_HANDLE);
	in.rtype = UCCL_REC_MSG;
	assert_int_equal(uccl_lane_flow_ops.deliver(&from->flow, &in, 0), UCCL_DROP_STATE);
	in.rtype = UCCL_REC_DATA;
	uccl_rec_set_bulk(rec, rx->id + 1, (uint32_t)rx->mseq, rx->eager);
	assert_int_equal(uccl_lane_flow_ops.deliver(&from->flow, &in, 0), UCCL_DROP_HANDLE);
	uccl_rec_set_bulk(rec, rx->id, (uint32_t)rx->mseq + 1, rx->eager);
	assert_int_equal(uccl_lane_flow_ops.deliver(&from->flow, &in, 0), UCCL_DROP_HANDLE);
	uccl_rec_set_bulk(rec, rx->id, (uint32_t)rx->mseq, BYTES);
	assert_int_equal(uccl_lane_flow_ops.deliver(&from->flow, &in, 0), UCCL_DROP_RANGE);
	uccl_rec_set_bulk(rec, rx->id, (uint32_t)rx->mseq, rx->eager);
	assert_int_equal(uccl_lane_flow_ops.deliver(&from->flow, &in, 0), UCCL_DROP_COUNT);
	assert_memory_equal(dst[1] + rx->eager, src[0], 100);
	/* Home was late. PROTOCOL R182 */
	uccl_rec_set_bulk(rec, rx->id, (uint32_t)rx->mseq, rx->eager + 2 * UCCL_UNIT_BYTES);
	assert_int_equal(uccl_msg_flow_ops.deliver(&lan_conn(l, HOME(1), HOME(0))->peer.flow, &in, 0),
			 UCCL_DROP_OVERLAP);
	lanes_free(l);
}

static int region_resolve(void *arg, const struct uccl_seg *seg, uint32_t access, struct iovec *iov, void **region)
{
	(void)arg;
	(void)access;
	*region = dst[1];
	*iov = (struct iovec){.iov_base = dst[1] + seg->addr, .iov_len = seg->len};
	return 1;
}

static void region_event(void *arg, const struct uccl_rma_event *ev)
{
	(void)arg;
	(void)ev;
}

static const struct uccl_target_ops region_ops = {.resolve = region_resolve, .event = region_event};

/* A large write goes over lanes, too. Its region is closed in the middle: nothing more is written. PROTOCOL R183 */
static void revoke__write(void **state)
{
	for (int rounds = 1; rounds < 60; rounds += 3) {
		struct lan *l = lanes_open(LANES, LANES);
		struct uccl_engine *target = l->node[HOME(1)].e;
		static uint8_t was[BYTES];
		const struct lan_comp *c;
		struct uccl_op *op;

		(void)state;
		target->mep.target = &region_ops;
		op = lan_op(l, HOME(0), UCCL_OP_WRITE, 0, src[0], BYTES);
		op->peer = lan_peer(l, HOME(0), HOME(1));
		op->seg[0] = (struct uccl_seg){.len = BYTES, .key = 1};
		op->nseg = 1;
		assert_int_equal(uccl_engine_rma(l->node[HOME(0)].e, op, l->now), 0);
		for (int i = 0; i < rounds; i++)
			lan_round(l);
		if (rounds % 2)
			uccl_engine_revoke(target, dst[1], l->now);
		memcpy(was, dst[1], BYTES);
		lan_run(l, SECOND);
		c = lan_next(l, HOME(0));
		assert_non_null(c);
		if (rounds % 2 && c->err)
			assert_memory_equal(was, dst[1], BYTES);
		else
			lan_check(dst[1], BYTES, 1);
		assert_true(rounds % 2 || !c->err);
		assert_true(c->err || carried(l, LANE(0, 0)) >= 2 * UCCL_UNIT_BYTES);
		assert_int_equal(line[1][0].unanswered, 0);
		lanes_free(l);
	}
}

/* One message over the lane of two endpoints that have one each. */
static void one_message(struct lan *l)
{
	memset(dst[1], 0, BYTES);
	lan_recv(l, HOME(1), dst[1], BYTES, LAN_CTX(2));
	assert_int_equal(lan_send(l, HOME(0), HOME(1), src[0], BYTES, LAN_CTX(3)), 0);
	lan_run(l, SECOND);
	lan_expect(l, HOME(0), LAN_CTX(3), 0);
	lan_expect(l, HOME(1), LAN_CTX(2), 0);
	lan_check(dst[1], BYTES, 1);
}

/* PROTOCOL R185 */
static void letters__no_room(void **state)
{
	const uint32_t full = UCCL_LINE_LETTERS / 2;
	struct lan *l = lanes_new(1, 1);
	uint64_t before;

	(void)state;
	/* Lanes cannot be told of their peers: they are not used. */
	line[0][0].unanswered = full;
	one_message(l);
	assert_int_equal(carried(l, LANE(0, 0)), 0);
	line[0][0].unanswered = 0;
	one_message(l);
	assert_int_equal(carried(l, LANE(0, 0)), 0);
	lanes_free(l);

	/* A lane cannot be told what to send, or where payload may land. */
	l = lanes_open(1, 1);
	one_message(l);
	before = carried(l, LANE(0, 0));
	assert_true(before > UCCL_UNIT_BYTES);
	line[0][0].unanswered += full;
	lan_recv(l, HOME(1), dst[1], BYTES, LAN_CTX(2));
	assert_int_equal(lan_send(l, HOME(0), HOME(1), src[0], BYTES, LAN_CTX(3)), 0);
	lan_run(l, MS);
	assert_int_equal(lan_waiting(l, HOME(0)), 0);
	assert_true(uccl_engine_expiry(l->node[HOME(0)].e) <= l->now);
	line[0][0].unanswered -= full;
	lan_run(l, SECOND);
	lan_expect(l, HOME(0), LAN_CTX(3), 0);
	lan_expect(l, HOME(1), LAN_CTX(2), 0);
	lan_check(dst[1], BYTES, 1);
	assert_true(carried(l, LANE(0, 0)) > before);

	/* It cannot be told to forget: it is, later, and in between nothing else is said to it. */
	before = carried(l, LANE(0, 0));
	line[1][0].unanswered += full;
	one_message(l);
	assert_true(carried(l, LANE(0, 0)) > before);
	assert_false(TAILQ_EMPTY(&line[1][0].later));
	assert_true(uccl_engine_expiry(l->node[HOME(1)].e) <= l->now);
	before = carried(l, LANE(0, 0));
	one_message(l);
	assert_int_equal(carried(l, LANE(0, 0)), before);
	line[1][0].unanswered -= full;
	lan_run(l, SECOND);
	assert_true(TAILQ_EMPTY(&line[1][0].later));
	assert_int_equal(line[1][0].unanswered, 0);
	one_message(l);
	assert_true(carried(l, LANE(0, 0)) > before);
	lanes_free(l);
}

static int wakes;

static void count_wakes(void *arg, bool home)
{
	assert_ptr_equal(arg, &wakes);
	assert_false(home);
	wakes++;
}

/* What nobody waits for wakes no lane, until there is much of it. PROTOCOL R185 */
static void letters__may_lie(void **state)
{
	static const enum uccl_letter_kind lies[] = {UCCL_LETTER_LAND, UCCL_LETTER_FORGET};
	static const enum uccl_letter_kind wanted[] = {UCCL_LETTER_MEET, UCCL_LETTER_PART, UCCL_LETTER_SEND};

	(void)state;
	for (size_t i = 0; i < uccl_array_len(lies); i++) {
		struct uccl_letter letter = {.kind = lies[i]};
		struct uccl_line l;

		assert_true(uccl_line_init(&l));
		l.wake = count_wakes;
		l.arg = &wakes;
		wakes = 0;
		for (int k = 1; k < UCCL_LINE_LIE; k++)
			assert_true(msg_line_try(&l, &letter, false));
		assert_int_equal(wakes, 0);
		assert_true(msg_line_try(&l, &letter, false));
		assert_int_equal(wakes, 1);
		while (uccl_mailbox_take(&l.down, &letter))
			;
		for (size_t k = 0; k < uccl_array_len(wanted); k++) {
			letter.kind = wanted[k];
			assert_true(msg_line_try(&l, &letter, false));
		}
		assert_int_equal(wakes, 1 + (int)uccl_array_len(wanted));
		uccl_line_fini(&l);
	}
}

/* PROTOCOL R187 */
static void meet__bad(void **state)
{
	struct lan *l = lanes_open(2, 1);
	struct uccl_peer *p = lan_peer(l, HOME(1), HOME(0));
	uint8_t rec[UCCL_REC_LEN] = {0}, data[8 + UCCL_ADDR_LEN + 1] = {0};
	struct uccl_chunk_in in = {.rtype = UCCL_REC_LANE, .rec = rec, .data = data, .len = 8 + UCCL_ADDR_LEN};
	struct uccl_addr addr = *uccl_engine_addr(l->node[LANE(0, 1)].e);
	struct uccl_way *way = p->ways[0];

	(void)state;
	data[1] = 1;
	uccl_addr_encode(data + 8, &addr);
	/* Known already. */
	assert_int_equal(conn_flow_ops.deliver(&p->flow, &in, l->now), UCCL_DROP_RECORD);
	/* We have no such lane; it has not so many; it is none. */
	data[0] = 1;
	data[1] = 2;
	assert_int_equal(conn_flow_ops.deliver(&p->flow, &in, l->now), UCCL_DROP_RECORD);
	data[1] = 3;
	assert_int_equal(conn_flow_ops.deliver(&p->flow, &in, l->now), UCCL_DROP_RECORD);
	data[0] = 1;
	data[1] = 1;
	assert_int_equal(conn_flow_ops.deliver(&p->flow, &in, l->now), UCCL_DROP_RECORD);
	p->ways[0] = NULL;
	data[0] = 0;
	in.len--;
	assert_int_equal(conn_flow_ops.deliver(&p->flow, &in, l->now), UCCL_DROP_RECORD);
	in.len += 2;
	assert_int_equal(conn_flow_ops.deliver(&p->flow, &in, l->now), UCCL_DROP_RECORD);
	in.len--;
	data[20] ^= 1;
	assert_int_equal(conn_flow_ops.deliver(&p->flow, &in, l->now), UCCL_DROP_RECORD);
	data[20] ^= 1;
	in.placed = true;
	assert_int_equal(conn_flow_ops.deliver(&p->flow, &in, l->now), UCCL_DROP_RECORD);
	in.placed = false;
	peer_conn(p)->hs.theirs.lanes = 0;
	assert_int_equal(conn_flow_ops.deliver(&p->flow, &in, l->now), UCCL_DROP_RECORD);
	peer_conn(p)->hs.theirs.lanes = 2;
	addr.incarnation = 0;
	uccl_addr_encode(data + 8, &addr);
	assert_int_equal(conn_flow_ops.deliver(&p->flow, &in, l->now), UCCL_DROP_RECORD);
	p->ways[0] = way;
	lanes_free(l);
	/* Who has none takes none. */
	l = lanes_open(0, 1);
	p = lan_peer(l, HOME(0), HOME(1));
	assert_int_equal(conn_flow_ops.deliver(&p->flow, &in, l->now), UCCL_DROP_STATE);
	lanes_free(l);
}

/* Each side's sends and receives; which of them are over; what was in memory then. */
#define MESSAGES 12

struct trial {
	struct lan *l;
	struct uccl_rng rng;
	uint8_t *from[2][MESSAGES], *to[2][MESSAGES], *was[2][MESSAGES];
	uint64_t len[2][MESSAGES];
	bool over[2][2 * MESSAGES];
	int left, failed;
};

static struct trial *trial_now;

static enum lan_verdict trial_filter(struct lan *l, const struct lan_event *ev)
{
	(void)ev;
	return uccl_rng_chance(&trial_now->rng, (double)l->n / 100) ? LAN_DROP :
	       uccl_rng_chance(&trial_now->rng, 0.02) ? LAN_DOUBLE : LAN_PASS;
}

/* What is complete is the application's again: it keeps a copy. */
static void trial_look(struct trial *t)
{
	for (int side = 0; side < 2; side++) {
		const struct lan_comp *c;

		while ((c = lan_next(t->l, HOME(side)))) {
			int i = (int)(uintptr_t)c->context;

			assert_true(i < 2 * MESSAGES && !t->over[side][i]);
			t->over[side][i] = true;
			t->left--;
			t->failed += c->err != 0;
			if (i < MESSAGES) {
				/* Nobody reads it any more. */
				memset(t->from[side][i], 0xee, t->len[side][i]);
				continue;
			}
			i -= MESSAGES;
			if (!c->err)
				lan_check(t->to[side][i], t->len[!side][i], (uint32_t)(!side * MESSAGES + i));
			memcpy(t->was[side][i], t->to[side][i], t->len[!side][i]);
		}
	}
}

/* Of each kind: more would only be slow, with a sanitizer above all. */
#define SEEDS 10

/* Nodes stop and go on as the seed says, homes and lanes. */
static void trial_rounds(struct trial *t, int rounds)
{
	for (int r = 0; r < rounds; r++) {
		if (uccl_rng_chance(&t->rng, 0.2)) {
			int i = (int)uccl_rng_below(&t->rng, LAN_NODES);

			t->l->node[i].asleep = !t->l->node[i].asleep;
		}
		lan_round(t->l);
		trial_look(t);
	}
}

static struct trial *trial_new(uint64_t seed)
{
	struct trial *t = calloc(1, sizeof(*t));
	uint8_t a, b;

	assert_non_null(t);
	trial_now = t;
	uccl_rng_seed(&t->rng, seed);
	a = (uint8_t)(1 + uccl_rng_below(&t->rng, LANES));
	b = (uint8_t)(1 + uccl_rng_below(&t->rng, LANES));
	t->l = uccl_rng_chance(&t->rng, 0.5) ? lanes_open(a, b) : lanes_new(a, b);
	t->l->n = uccl_rng_chance(&t->rng, 0.5) ? 0 : 2;
	t->l->filter = trial_filter;
	for (int side = 0; side < 2; side++)
		for (int i = 0; i < MESSAGES; i++) {
			t->len[side][i] = uccl_rng_below(&t->rng, 4 * UCCL_UNIT_BYTES) + UCCL_UNIT_BYTES;
			if (uccl_rng_chance(&t->rng, 0.3))
				t->len[side][i] %= 20000;
			t->from[side][i] = malloc(t->len[side][i] + 1);
			t->to[!side][i] = calloc(1, t->len[side][i] + 1);
			t->was[!side][i] = calloc(1, t->len[side][i] + 1);
			lan_fill(t->from[side][i], t->len[side][i], (uint32_t)(side * MESSAGES + i));
		}
	for (int i = 0; i < MESSAGES; i++)
		for (int side = 0; side < 2; side++) {
			lan_recv(t->l, HOME(side), t->to[side][i], t->len[!side][i], LAN_CTX(MESSAGES + i));
			assert_int_equal(lan_send(t->l, HOME(side), HOME(!side), t->from[side][i], t->len[side][i],
						  LAN_CTX(i)), 0);
			t->left += 2;
			trial_rounds(t, (int)uccl_rng_below(&t->rng, 6));
		}
	return t;
}

static void trial_awake(struct trial *t)
{
	for (int i = 0; i < LAN_NODES; i++)
		t->l->node[i].asleep = false;
}

/* All of it ends; and whatever comes after that, nobody has touched what was the application's. */
static void trial_end(struct trial *t)
{
	trial_awake(t);
	for (int i = 0; i < 100 && t->left; i++) {
		lan_run(t->l, 10 * SECOND);
		trial_look(t);
	}
	assert_int_equal(t->left, 0);
	lan_run(t->l, SECOND);
	for (int side = 0; side < 2; side++) {
		const struct uccl_mep *m = &t->l->node[HOME(side)].e->mep;

		assert_int_equal(m->op_pool.used, 0);
		assert_int_equal(m->rx_pool.used, 0);
		for (int k = 0; k < m->lanes->n; k++) {
			assert_int_equal(line[side][k].slices, 0);
			assert_int_equal(line[side][k].bytes, 0);
			assert_int_equal(line[side][k].unanswered, 0);
		}
	}
	lanes_free(t->l);
	for (int side = 0; side < 2; side++)
		for (int i = 0; i < MESSAGES; i++) {
			assert_memory_equal(t->was[side][i], t->to[side][i], t->len[!side][i]);
			free(t->from[side][i]);
			free(t->to[side][i]);
			free(t->was[side][i]);
		}
	free(t);
}

/* PROTOCOL R182 R184 R185 */
static void any__interleaving(void **state)
{
	uint64_t over_lanes = 0;

	(void)state;
	for (uint64_t seed = 1; seed < 1 + SEEDS; seed++) {
		struct trial *t = trial_new(seed);

		trial_rounds(t, 100);
		trial_awake(t);
		for (int i = 0; i < 100 && t->left; i++) {
			lan_run(t->l, 10 * SECOND);
			trial_look(t);
		}
		assert_int_equal(t->failed, 0);
		over_lanes += carried(t->l, LANE(0, 0)) + carried(t->l, LANE(1, 0));
		trial_end(t);
	}
	assert_true(over_lanes > 100ull * UCCL_UNIT_BYTES);
}

/*
 * The connection of homes ends at one side, at any time: operations end, each once, and the memory is the application's
 * then. PROTOCOL R183 R186
 */
static void any__peer_fails(void **state)
{
	int failed = 0;

	(void)state;
	for (uint64_t seed = 100; seed < 100 + SEEDS; seed++) {
		struct trial *t = trial_new(seed);
		int side = (int)uccl_rng_below(&t->rng, 2);

		trial_rounds(t, (int)uccl_rng_below(&t->rng, 60));
		conn_fail(lan_conn(t->l, HOME(side), HOME(!side)), FI_ECONNABORTED, t->l->now);
		trial_look(t);
		trial_rounds(t, 60);
		/* The other side does not know, but its endpoint closes at last. */
		conn_fail(lan_conn(t->l, HOME(!side), HOME(side)), FI_ECONNABORTED, t->l->now);
		/* Receives that have no message are still there. */
		for (int s = 0; s < 2; s++)
			for (int i = 0; i < MESSAGES; i++)
				uccl_engine_cancel(t->l->node[HOME(s)].e, LAN_CTX(MESSAGES + i), t->l->now);
		failed += t->failed;
		trial_end(t);
	}
	assert_true(failed > 0);
}

/* A lane loses the peer: so does home, and all that was under way ends. PROTOCOL R186 */
static void any__lane_fails(void **state)
{
	(void)state;
	for (uint64_t seed = 200; seed < 200 + SEEDS; seed++) {
		struct trial *t = trial_new(seed);
		int side = (int)uccl_rng_below(&t->rng, 2);
		struct uccl_engine *lane = t->l->node[LANE(side, 0)].e;
		struct conn *c;

		trial_rounds(t, (int)uccl_rng_below(&t->rng, 60));
		c = TAILQ_FIRST(&lane->conns);
		if (c && c->peer.open && c->peer.user != UINT64_MAX) {
			conn_fail(c, FI_ECONNABORTED, t->l->now);
			trial_awake(t);
			lan_run(t->l, 30 * SECOND);
			assert_true(lan_conn(t->l, HOME(side), HOME(!side))->peer.dead);
			trial_look(t);
		}
		for (int s = 0; s < 2; s++) {
			conn_fail(lan_conn(t->l, HOME(s), HOME(!s)), FI_ECONNABORTED, t->l->now);
			for (int i = 0; i < MESSAGES; i++)
				uccl_engine_cancel(t->l->node[HOME(s)].e, LAN_CTX(MESSAGES + i), t->l->now);
		}
		trial_end(t);
	}
}

/* All ends with what is under way as it is. PROTOCOL R183 R186 */
static void any__close(void **state)
{
	(void)state;
	for (uint64_t seed = 300; seed < 300 + SEEDS; seed++) {
		struct trial *t = trial_new(seed);

		trial_rounds(t, (int)uccl_rng_below(&t->rng, 60));
		lanes_free(t->l);
		for (int side = 0; side < 2; side++)
			for (int i = 0; i < MESSAGES; i++) {
				free(t->from[side][i]);
				free(t->to[side][i]);
				free(t->was[side][i]);
			}
		free(t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(send__over_lanes),
		cmocka_unit_test(send__short),
		cmocka_unit_test(send__while_busy),
		cmocka_unit_test(send__long_beside_others),
		cmocka_unit_test(send__beside_others),
		cmocka_unit_test(send__fewer_lanes),
		cmocka_unit_test(data__refused),
		cmocka_unit_test(revoke__write),
		cmocka_unit_test(letters__no_room),
		cmocka_unit_test(letters__may_lie),
		cmocka_unit_test(meet__bad),
		cmocka_unit_test(any__interleaving),
		cmocka_unit_test(any__peer_fails),
		cmocka_unit_test(any__lane_fails),
		cmocka_unit_test(any__close),
	};

	return cmocka_run_group_tests_name("lane", tests, NULL, NULL);
}
