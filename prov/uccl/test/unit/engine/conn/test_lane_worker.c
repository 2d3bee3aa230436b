/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Endpoints with lanes: primaries and lanes are nodes of their own, commands are read whenever a node is polled. */
#include "../lan.h"

#include <stdlib.h>

#include "lanes/primary.h"
#include "lanes/worker.h"
#include "../../tests.h"

#define MS UCCL_NS_PER_MS
#define SECOND UCCL_NS_PER_S

#define LANES LAN_LANES
#define PRIMARY(side) LAN_PRIMARY(side)
#define LANE(side, k) LAN_LANE(side, k)

#define BYTES (5u * UCCL_STRIPE_BYTES + 12345)

static uint8_t src[2][BYTES], dst[2][BYTES];
static bool writes; /* primaries have NICs that write remote memory */

/* Two endpoints, with so many lanes. */
static struct lan *lanes_new(uint8_t a, uint8_t b)
{
	struct lan *l = lan_new();

	lan_side_open(l, 0, a, writes);
	lan_side_open(l, 1, b, writes);
	lan_fill(src[0], BYTES, 1);
	lan_fill(src[1], BYTES, 2);
	memset(dst, 0, sizeof(dst));
	return l;
}

/* The same, and all connections are there. */
static struct lan *lanes_open(uint8_t a, uint8_t b)
{
	struct lan *l = lanes_new(a, b);

	lan_recv(l, PRIMARY(1), dst[1], 100, LAN_CTX(1));
	assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0], 100, LAN_CTX(1)), 0);
	lan_run(l, SECOND);
	lan_expect(l, PRIMARY(0), LAN_CTX(1), 0);
	lan_expect(l, PRIMARY(1), LAN_CTX(1), 0);
	return l;
}

static uint64_t carried(const struct lan *l, int node)
{
	return l->node[node].e ? lan_stats(l, node)->tx_bytes : 0;
}

/* The message of so many bytes that is under way. */
static void arrives(struct lan *l, uint64_t len)
{
	lan_run(l, SECOND);
	lan_expect(l, PRIMARY(0), LAN_CTX(3), 0);
	lan_expect(l, PRIMARY(1), LAN_CTX(2), 0);
	lan_check(dst[1], len, 1);
}

LAN_TEST(send__over_lanes, lanes_open(LANES, LANES))
{
	lan_recv(l, PRIMARY(1), dst[1], BYTES, LAN_CTX(2));
	assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0], BYTES, LAN_CTX(3)), 0);
	arrives(l, BYTES);
	/* The primary has sent the envelope. */
	assert_true(carried(l, PRIMARY(0)) < UCCL_STRIPE_BYTES);
	assert_int_equal(carried(l, LANE(0, 0)) + carried(l, LANE(0, 1)), lan_stats(l, PRIMARY(0))->tx_lane_bytes);
	assert_int_equal(lan_stats(l, PRIMARY(1))->rx_lane_bytes, lan_stats(l, PRIMARY(0))->tx_lane_bytes);
	assert_true(carried(l, LANE(0, 0)) >= 2 * UCCL_STRIPE_BYTES);
	assert_true(carried(l, LANE(0, 1)) >= 2 * UCCL_STRIPE_BYTES);
}

/* Its envelope carries no more than a short stripe, and lanes the rest: each has some if there is enough. */
TEST(send__short)
{
	static const struct {
		uint32_t bytes;
		uint8_t lanes;
	} v[] = {
		{65536, 0}, /* eager */
		{UCCL_STRIPE_LEAST * 3, 2},
		{UCCL_STRIPE_LEAST * 8, 2},
	};

	for (size_t i = 0; i < uccl_array_len(v); i++) {
		struct lan *l = lanes_open(LANES, LANES);
		uint8_t used = 0;

		lan_recv(l, PRIMARY(1), dst[1], v[i].bytes, LAN_CTX(2));
		assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0], v[i].bytes, LAN_CTX(3)), 0);
		arrives(l, v[i].bytes);
		for (int k = 0; k < LANES; k++)
			used += carried(l, LANE(0, k)) > 0;
		assert_int_equal(used, v[i].lanes);
		lan_free(l);
	}
}

/*
 * What would go without an answer goes over lanes while so much of it is under way. Short ones are always the
 * primary's.
 */
TEST(send__while_busy)
{
	enum { MANY = 8 };
	static const uint32_t bytes[] = { UCCL_LANES_FIRST, UCCL_LANES_FIRST - 1, 65536 };

	for (size_t i = 0; i < uccl_array_len(bytes); i++) {
		struct lan *l = lanes_open(LANES, LANES);
		uint32_t n = bytes[i];

		for (int k = 0; k < MANY; k++)
			lan_recv(l, PRIMARY(1), dst[1] + (size_t)k * n, n, LAN_CTX(2));
		for (int k = 0; k < MANY; k++)
			assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0] + (size_t)k * n, n, LAN_CTX(3)), 0);
		lan_run(l, SECOND);
		for (int k = 0; k < MANY; k++) {
			lan_expect(l, PRIMARY(0), LAN_CTX(3), 0);
			lan_expect(l, PRIMARY(1), LAN_CTX(2), 0);
		}
		assert_memory_equal(dst[1], src[0], (size_t)MANY * n);
		assert_int_equal(carried(l, PRIMARY(0)) / n, n < UCCL_LANES_FIRST ? MANY : UCCL_LANES_UNSOLICITED / n);
		for (int k = 0; k < LANES; k++)
			assert_int_equal(carried(l, LANE(0, k)) > 0, n >= UCCL_LANES_FIRST);
		/* That is over: the next one is the primary's again. */
		assert_true(lan_peer(l, PRIMARY(0), PRIMARY(1))->send.unsolicited == 0);
		lan_free(l);
	}
}

/* A lane that takes no commands now is left out, and nothing waits for it. */
LAN_TEST(send__beside_a_full_channel, lanes_open(LANES, LANES))
{
	uint64_t before = carried(l, LANE(0, 0));

	lan_channel[0][0]->unanswered += UCCL_LANE_CHANNEL_CMDS / 2;
	lan_recv(l, PRIMARY(1), dst[1], BYTES, LAN_CTX(2));
	assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0], BYTES, LAN_CTX(3)), 0);
	arrives(l, BYTES);
	assert_int_equal(carried(l, LANE(0, 0)), before);
	lan_channel[0][0]->unanswered -= UCCL_LANE_CHANNEL_CMDS / 2;
}

/* What waits for a full lane does not stop what another lane takes to another peer. */
LAN_TEST(send__beside_one_that_waits, lanes_open(LANES, LANES))
{
	struct uccl_peer *p = lan_peer(l, PRIMARY(0), PRIMARY(1)), other = *p;
	struct uccl_lane_peer closed = *p->lanes.peers[1], *peers[LANES] = {p->lanes.peers[0], &closed};
	struct uccl_op op = {.iov_count = 1, .iov = {{src[0], BYTES}}, .peer = &other, .len = BYTES};

	closed.open = false;
	other.lanes.peers = peers;
	lan_channel[0][0]->stripes += UCCL_LANE_CHANNEL_STRIPES;
	assert_true(primary_send(&op, 0, BYTES, 1, UCCL_CTS_LANES | 3, 1));
	lan_recv(l, PRIMARY(1), dst[1], BYTES, LAN_CTX(2));
	assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0], BYTES, LAN_CTX(3)), 0);
	arrives(l, BYTES);
	assert_true(primary_end(op.tx.striped.rest));
	assert_null(op.tx.striped.rest);
	lan_channel[0][0]->stripes -= UCCL_LANE_CHANNEL_STRIPES;
}

/* A long one is the primary's for a short beginning if it is alone, and else not at all. */
LAN_TEST(send__long_beside_others, lanes_open(LANES, LANES))
{
	enum { MANY = 4, LONG = 4 * UCCL_LANES_FIRST };

	for (int k = 0; k < MANY; k++)
		lan_recv(l, PRIMARY(1), dst[1] + (size_t)k * LONG, LONG, LAN_CTX(2));
	for (int k = 0; k < MANY; k++)
		assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0] + (size_t)k * LONG, LONG, LAN_CTX(3)), 0);
	lan_run(l, SECOND);
	for (int k = 0; k < MANY; k++) {
		lan_expect(l, PRIMARY(0), LAN_CTX(3), 0);
		lan_expect(l, PRIMARY(1), LAN_CTX(2), 0);
	}
	assert_memory_equal(dst[1], src[0], (size_t)MANY * LONG);
	assert_true(carried(l, PRIMARY(0)) > LAN_MTU / 2 && carried(l, PRIMARY(0)) < 2 * LAN_MTU);
}

/*
 * To a peer that knows long stripes only, what is too short to be shared goes over lanes all the same, if the primary
 * has others to take. PROTOCOL R224
 */
LAN_TEST(send__beside_others, lanes_open(LANES, LANES))
{
	enum { MANY = 8, SHORT = UCCL_LANES_BESIDE + 70000 };

	for (int side = 0; side < 2; side++)
		lan_peer(l, PRIMARY(side), PRIMARY(!side))->short_stripes = false;
	for (int n = 1; n <= MANY; n += MANY - 1) {
		for (int i = 0; i < n; i++)
			lan_recv(l, PRIMARY(1), dst[1] + i * SHORT, SHORT, LAN_CTX(2));
		for (int i = 0; i < n; i++)
			assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0] + i * SHORT, SHORT, LAN_CTX(3)), 0);
		lan_run(l, SECOND);
		for (int i = 0; i < n; i++) {
			lan_expect(l, PRIMARY(0), LAN_CTX(3), 0);
			lan_expect(l, PRIMARY(1), LAN_CTX(2), 0);
		}
		assert_memory_equal(dst[1], src[0], (size_t)n * SHORT);
		/* The first is the primary's. */
		assert_int_equal(carried(l, LANE(0, 0)) > 0, n > 1);
		assert_int_equal(carried(l, LANE(0, 1)) > 0, n > 1);
		assert_true(carried(l, PRIMARY(0)) > SHORT - UCCL_LANES_BESIDE);
	}
}

/* One side has fewer, or none. */
TEST(send__fewer_lanes)
{
	static const uint8_t n[][2] = {{1, 2}, {2, 1}, {0, 2}, {2, 0}, {0, 0}};

	for (size_t i = 0; i < uccl_array_len(n); i++) {
		struct lan *l = lanes_open(n[i][0], n[i][1]);

		for (int side = 0; side < 2; side++) {
			lan_recv(l, PRIMARY(!side), dst[!side], BYTES, LAN_CTX(2));
			assert_int_equal(lan_send(l, PRIMARY(side), PRIMARY(!side), src[side], BYTES, LAN_CTX(3)), 0);
			lan_run(l, SECOND);
			lan_expect(l, PRIMARY(side), LAN_CTX(3), 0);
			lan_expect(l, PRIMARY(!side), LAN_CTX(2), 0);
			lan_check(dst[!side], BYTES, (uint32_t)side + 1);
			assert_int_equal(carried(l, LANE(side, 0)) > UCCL_STRIPE_BYTES, n[i][0] && n[i][1]);
			assert_int_equal(carried(l, LANE(side, 1)), 0);
		}
		lan_free(l);
	}
}

/*
 * What NICs write is the primary's, and however much is under way, nothing waits for CTS that else would leave at once.
 */
TEST(send__written_by_primary)
{
	enum { MANY = 8, SHORT = UCCL_LANES_FIRST + 4096 };
	struct lan *l;

	writes = true;
	l = lanes_open(LANES, LANES);
	writes = false;
	for (int k = 0; k < MANY; k++)
		lan_recv(l, PRIMARY(1), dst[1] + (size_t)k * SHORT, SHORT, LAN_CTX(2));
	for (int k = 0; k < MANY; k++)
		assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0] + (size_t)k * SHORT, SHORT, LAN_CTX(3)), 0);
	lan_run(l, SECOND);
	for (int k = 0; k < MANY; k++) {
		lan_expect(l, PRIMARY(0), LAN_CTX(3), 0);
		lan_expect(l, PRIMARY(1), LAN_CTX(2), 0);
	}
	assert_memory_equal(dst[1], src[0], (size_t)MANY * SHORT);
	assert_int_equal(lan_stats(l, PRIMARY(0))->writes_tx, 0);
	lan_recv(l, PRIMARY(1), dst[1], BYTES, LAN_CTX(2));
	assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0], BYTES, LAN_CTX(3)), 0);
	arrives(l, BYTES);
	assert_true(lan_stats(l, PRIMARY(0))->writes_tx > 0);
	for (int k = 0; k < LANES; k++)
		assert_int_equal(carried(l, LANE(0, k)), 0);
	assert_int_equal(lan_stats(l, PRIMARY(0))->tx_lane_bytes, 0);
	lan_free(l);
}

/* Node j as i knows it. */
static struct uccl_peer *known(struct lan *l, int i, int j, bool create)
{
	return uccl_engine_peer(l->node[i].e, uccl_engine_addr(l->node[j].e), create);
}

/* A packet nobody but a lane takes, and it only for what the primary lets it. PROTOCOL R181 */
LAN_TEST(data__refused, lanes_open(LANES, LANES))
{
	uint8_t rec[UCCL_REC_LEN] = {0};
	struct uccl_chunk_in in = {.rtype = UCCL_REC_DATA, .rec = rec, .data = src[0], .len = 100};
	struct uccl_peer *from = known(l, LANE(1, 0), LANE(0, 0), false);
	struct uccl_peer *other = known(l, LANE(1, 0), PRIMARY(0), true);
	struct uccl_msg_rx *rx;

	assert_non_null(from);
	lan_recv(l, PRIMARY(1), dst[1], BYTES, LAN_CTX(2));
	/* The first side waits for CTS. */
	assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0], BYTES, LAN_CTX(3)), 0);
	lan_round(l);
	l->node[LANE(1, 0)].asleep = l->node[PRIMARY(0)].asleep = true;
	lan_round(l);
	rx = TAILQ_FIRST(&lan_conn(l, PRIMARY(1), PRIMARY(0))->peer.rx.all);
	assert_non_null(rx);
	assert_non_null(rx->lanes.rest);
	assert_int_equal(rx->lanes.rest->known_by, 3);
	uccl_rec_set_bulk(rec, rx->id, (uint32_t)rx->mseq, rx->arrived.eager);
	/* The lane has not read that it may: it finds it. PROTOCOL R184 */
	other->flow.user = other;
	assert_int_equal(worker_flow_ops.deliver(&other->flow, &in, 0), UCCL_DROP_HANDLE);
	in.rtype = UCCL_REC_MSG;
	assert_int_equal(worker_flow_ops.deliver(&from->flow, &in, 0), UCCL_DROP_STATE);
	in.rtype = UCCL_REC_DATA;
	uccl_rec_set_bulk(rec, rx->id + 1, (uint32_t)rx->mseq, rx->arrived.eager);
	assert_int_equal(worker_flow_ops.deliver(&from->flow, &in, 0), UCCL_DROP_HANDLE);
	uccl_rec_set_bulk(rec, rx->id, (uint32_t)rx->mseq + 1, rx->arrived.eager);
	assert_int_equal(worker_flow_ops.deliver(&from->flow, &in, 0), UCCL_DROP_HANDLE);
	uccl_rec_set_bulk(rec, rx->id, (uint32_t)rx->mseq, BYTES);
	assert_int_equal(worker_flow_ops.deliver(&from->flow, &in, 0), UCCL_DROP_RANGE);
	uccl_rec_set_bulk(rec, rx->id, (uint32_t)rx->mseq, rx->arrived.eager);
	assert_int_equal(worker_flow_ops.deliver(&from->flow, &in, 0), UCCL_DROP_COUNT);
	assert_memory_equal(dst[1] + rx->arrived.eager, src[0], 100);
	/* The primary was late. PROTOCOL R182 */
	uccl_rec_set_bulk(rec, rx->id, (uint32_t)rx->mseq, rx->arrived.eager + 2 * UCCL_STRIPE_BYTES);
	assert_int_equal(uccl_msg_flow_ops.deliver(&lan_conn(l, PRIMARY(1), PRIMARY(0))->peer.flow, &in, 0),
			 UCCL_DROP_OVERLAP);
}

static int region_resolve(void *arg, const struct uccl_nic_addr *from, const struct uccl_seg *seg, uint32_t access,
			  struct iovec *iov, void **region)
{
	*region = dst[1];
	*iov = (struct iovec){.iov_base = dst[1] + seg->addr, .iov_len = seg->len};
	return 1;
}

static void region_event(void *arg, const struct uccl_rma_event *ev)
{
}

static const struct uccl_target_ops region_ops = {.resolve = region_resolve, .event = region_event};

/* A large write goes over lanes, too. Its region is closed in the middle: nothing more is written. PROTOCOL R183 */
TEST(revoke__write)
{
	for (int rounds = 1; rounds < 60; rounds += 3) {
		struct lan *l = lanes_open(LANES, LANES);
		struct uccl_engine *target = l->node[PRIMARY(1)].e;
		static uint8_t was[BYTES];
		const struct lan_comp *c;
		struct uccl_op *op;

		target->msg_ep.target.ops = &region_ops;
		op = lan_op(l, PRIMARY(0), UCCL_OP_WRITE, 0, src[0], BYTES);
		op->peer = lan_peer(l, PRIMARY(0), PRIMARY(1));
		op->rma.seg[0] = (struct uccl_seg){.len = BYTES, .key = 1};
		op->rma.nseg = 1;
		assert_int_equal(uccl_engine_rma(l->node[PRIMARY(0)].e, op, l->now), 0);
		for (int i = 0; i < rounds; i++)
			lan_round(l);
		if (rounds % 2)
			uccl_engine_revoke(target, dst[1], NULL, l->now);
		memcpy(was, dst[1], BYTES);
		lan_run(l, SECOND);
		c = lan_next(l, PRIMARY(0));
		assert_non_null(c);
		if (rounds % 2 && c->err)
			assert_memory_equal(was, dst[1], BYTES);
		else
			lan_check(dst[1], BYTES, 1);
		assert_true(rounds % 2 || !c->err);
		assert_true(c->err || carried(l, LANE(0, 0)) >= 2 * UCCL_STRIPE_BYTES);
		assert_int_equal(lan_channel[1][0]->unanswered, 0);
		lan_free(l);
	}
}

enum { SHORT_WRITES = 64, SHORT_WRITE = 16384 };

/* Side 0 writes so many bytes to side 1's memory, or reads them. */
static void rma_post_with(struct lan *l, uint8_t type, uint32_t flags, uint8_t *buf, uint64_t to, uint32_t len)
{
	struct uccl_op *op = lan_op(l, PRIMARY(0), type, flags, buf, len);

	op->peer = lan_peer(l, PRIMARY(0), PRIMARY(1));
	op->context = buf;
	op->rma.seg[0] = (struct uccl_seg){.addr = to, .len = len, .key = 1};
	op->rma.nseg = 1;
	assert_int_equal(uccl_engine_rma(l->node[PRIMARY(0)].e, op, l->now), 0);
}

static void rma_post(struct lan *l, uint8_t type, uint8_t *buf, uint64_t to, uint32_t len)
{
	rma_post_with(l, type, 0, buf, to, len);
}

/* Among many a write goes over a lane whole, if the peer keeps their order. PROTOCOL R407 */
TEST(write__short)
{
	static const struct {
		uint32_t n, len;
		bool older, lossy, by_lanes, data, odd;
	} v[] = {
		{SHORT_WRITES, SHORT_WRITE, .by_lanes = true},
		{SHORT_WRITES, SHORT_WRITE, .by_lanes = true, .lossy = true},
		{18, 65536, .by_lanes = true},
		{18, .odd = true, .by_lanes = true},
		{18, .odd = true, .older = true},
		{SHORT_WRITES, SHORT_WRITE, .older = true},
		{SHORT_WRITES, SHORT_WRITE, .data = true},
		{SHORT_WRITES, UCCL_LANES_WRITE - 1, .older = false},
		{16, SHORT_WRITE, .older = false},
	};

	for (size_t i = 0; i < uccl_array_len(v); i++) {
		struct lan *l = lanes_open(LANES, LANES);
		uint32_t n = v[i].n, len = v[i].len;
		uint64_t copied[2] = {0};

		l->node[PRIMARY(1)].e->msg_ep.target.ops = &region_ops;
		if (v[i].odd)
			len = lan_peer(l, PRIMARY(0), PRIMARY(1))->flow.chunk_bytes + 1000;
		lan_peer(l, PRIMARY(0), PRIMARY(1))->orders_short = !v[i].older;
		l->filter = v[i].lossy ? lan_lossy : NULL;
		for (uint32_t k = 0; k < n; k++) {
			if (k == 16)
				copied[0] = l->node[PRIMARY(0)].e->msg_ep.tx.copied_bytes;
			rma_post_with(l, UCCL_OP_WRITE, v[i].data ? UCCL_OPF_DATA : 0, src[0] + (size_t)k * len,
				      (uint64_t)(n - 1 - k) * len, len);
		}
		/* Nothing is copied of what a lane carries. */
		copied[1] = l->node[PRIMARY(0)].e->msg_ep.tx.copied_bytes;
		assert_true(!v[i].odd || copied[0] > 0);
		assert_int_equal(copied[1] > copied[0], v[i].odd && !v[i].by_lanes);
		lan_run(l, 5 * SECOND);
		for (uint32_t k = 0; k < n; k++) {
			const struct lan_comp *c = lan_next(l, PRIMARY(0));

			assert_non_null(c);
			assert_int_equal(c->err, 0);
			assert_memory_equal(dst[1] + (size_t)(n - 1 - k) * len, src[0] + (size_t)k * len, len);
		}
		assert_int_equal(lan_stats(l, PRIMARY(0))->tx_lane_bytes, v[i].by_lanes ? (n - 16) * len : 0);
		for (int k = 0; k < LANES && v[i].n == SHORT_WRITES; k++) {
			assert_int_equal(carried(l, LANE(0, k)) > 0, v[i].by_lanes);
			assert_int_equal(lan_channel[1][k]->unanswered, 0);
			/* Each write was one lane's. */
			assert_true(v[i].lossy || carried(l, LANE(0, k)) % SHORT_WRITE == 0);
		}
		lan_free(l);
	}
}

/* Writes of one place by turns of lanes that are late, and reads between them. PROTOCOL R71 R407 */
TEST(write__short_order)
{
	enum { READS = 8 };
	static uint8_t back[READS][SHORT_WRITE];

	for (int late = 0; late < 4; late++) {
		struct lan *l = lanes_open(LANES, LANES);

		l->node[PRIMARY(1)].e->msg_ep.target.ops = &region_ops;
		l->filter = late & 1 ? lan_lossy : NULL;
		for (int k = 0; k < SHORT_WRITES; k++) {
			memset(src[0] + (size_t)k * SHORT_WRITE, k + 1, SHORT_WRITE);
			rma_post(l, UCCL_OP_WRITE, src[0] + (size_t)k * SHORT_WRITE, (uint64_t)(k % 8) * 4096,
				 SHORT_WRITE);
			if (k % 8 == 7)
				rma_post(l, UCCL_OP_READ, back[k / 8], (uint64_t)(k % 8) * 4096, SHORT_WRITE);
		}
		l->node[LANE(0, 0)].asleep = l->node[LANE(1, 1)].asleep = late & 2;
		lan_run(l, MS);
		l->node[LANE(0, 0)].asleep = l->node[LANE(1, 1)].asleep = false;
		lan_run(l, 5 * SECOND);
		for (int k = 0; k < SHORT_WRITES + READS; k++)
			assert_int_equal(lan_next(l, PRIMARY(0))->err, 0);
		for (int r = 0; r < READS; r++)
			for (int k = 0; k < SHORT_WRITE; k++)
				assert_int_equal(back[r][k], 8 * r + 8);
		for (int k = 0; k < 8 * 4096; k++)
			assert_int_equal(dst[1][k], SHORT_WRITES - 7 + k / 4096);
		assert_true(lan_stats(l, PRIMARY(0))->tx_lane_bytes > 0);
		lan_free(l);
	}
}

static int polls_nothing(struct uccl_msg_ep *m, uint64_t now)
{
	return 0;
}

/*
 * RX_POST comes while a lane reads packets, and the whole payload is among them: the lane tells of that before it has
 * taken the command, so the buffer stays until it has. PROTOCOL R184 R407
 */
LAN_TEST(write__short_before_rx_post, lanes_open(LANES, LANES))
{
	struct uccl_lanes_ops late[LANES];
	const struct uccl_lanes_ops *ops[LANES];
	uint64_t got = lan_stats(l, PRIMARY(1))->rx_lane_bytes;

	l->node[PRIMARY(1)].e->msg_ep.target.ops = &region_ops;
	for (int k = 0; k < LANES; k++)
		l->node[LANE(1, k)].asleep = true;
	for (int k = 0; k < SHORT_WRITES; k++)
		rma_post(l, UCCL_OP_WRITE, src[0] + (size_t)k * SHORT_WRITE, (uint64_t)k * SHORT_WRITE, SHORT_WRITE);
	lan_run(l, MS);
	for (int k = 0; k < LANES; k++) {
		struct uccl_msg_ep *m = &l->node[LANE(1, k)].e->msg_ep;

		ops[k] = m->lanes_ops;
		late[k] = *ops[k];
		late[k].poll = polls_nothing;
		m->lanes_ops = &late[k];
		l->node[LANE(1, k)].asleep = false;
	}
	for (int i = 0; i < 4; i++)
		lan_round(l);
	assert_true(lan_stats(l, PRIMARY(1))->rx_lane_bytes > got);
	for (int k = 0; k < LANES; k++)
		l->node[LANE(1, k)].e->msg_ep.lanes_ops = ops[k];
	lan_run(l, 5 * SECOND);
	for (int k = 0; k < SHORT_WRITES; k++)
		assert_int_equal(lan_next(l, PRIMARY(0))->err, 0);
	assert_memory_equal(dst[1], src[0], SHORT_WRITES * SHORT_WRITE);
	for (int k = 0; k < LANES; k++)
		assert_int_equal(lan_channel[1][k]->unanswered, 0);
}

/* The region is closed, or the peer ends, while lanes bring them: nothing more is written. PROTOCOL R183 R407 */
TEST(write__short_ends)
{
	int ended = 0;

	for (int rounds = 1; rounds < 24; rounds++) {
		struct lan *l = lanes_open(LANES, LANES);
		static uint8_t was[BYTES];
		int err = rounds % 2 ? FI_EKEYREJECTED : FI_ECONNABORTED;

		l->node[PRIMARY(1)].e->msg_ep.target.ops = &region_ops;
		for (int k = 0; k < SHORT_WRITES; k++)
			rma_post(l, UCCL_OP_WRITE, src[0] + (size_t)k * SHORT_WRITE, (uint64_t)k * SHORT_WRITE,
				 SHORT_WRITE);
		for (int i = 0; i < rounds; i++)
			lan_round(l);
		if (rounds % 2) {
			l->node[PRIMARY(1)].e->msg_ep.target.ops = NULL;
			uccl_engine_revoke(l->node[PRIMARY(1)].e, dst[1], NULL, l->now);
		} else {
			conn_fail(lan_conn(l, PRIMARY(1), PRIMARY(0)), FI_ECONNABORTED, l->now);
		}
		memcpy(was, dst[1], BYTES);
		lan_run(l, SECOND);
		assert_memory_equal(was, dst[1], BYTES);
		if (!(rounds % 2))
			conn_fail(lan_conn(l, PRIMARY(0), PRIMARY(1)), FI_ECONNABORTED, l->now);
		lan_run(l, SECOND);
		for (int k = 0; k < SHORT_WRITES; k++) {
			const struct lan_comp *c = lan_next(l, PRIMARY(0));

			assert_non_null(c);
			/* What was in place before is done. */
			assert_true(!c->err || c->err == err);
			if (!c->err)
				assert_memory_equal(dst[1] + ((uint8_t *)c->context - src[0]), c->context, SHORT_WRITE);
			ended += c->err == err;
		}
		lan_free(l);
	}
	assert_true(ended > 0);
}

/* One message over the lane of two endpoints that have one each. */
static void one_message(struct lan *l)
{
	memset(dst[1], 0, BYTES);
	lan_recv(l, PRIMARY(1), dst[1], BYTES, LAN_CTX(2));
	assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0], BYTES, LAN_CTX(3)), 0);
	arrives(l, BYTES);
}

/* Lanes are known by what CTS said, and receives waited. */
static struct lan *lanes_met(uint8_t a, uint8_t b)
{
	struct lan *l = lanes_open(a, b);

	for (int i = 0; i < UCCL_UNSOLICITED_MET; i++)
		one_message(l);
	assert_int_equal(lan_peer(l, PRIMARY(0), PRIMARY(1))->tx.met_streak, UCCL_UNSOLICITED_MET);
	return l;
}

static uint64_t by_lanes(const struct lan *l)
{
	return carried(l, LANE(0, 0)) + carried(l, LANE(0, 1));
}

static uint32_t parked(void)
{
	return lan_channel[1][0]->nunplaced + lan_channel[1][1]->nunplaced;
}

/* Payload leaves with its envelope. Where the receiver looks at nothing it waits for its place. PROTOCOL R265 R267 */
TEST(unsolicited__without_an_answer)
{
	static const uint32_t bytes[] = {3 * UCCL_LANES_FIRST, UCCL_UNSOLICITED_MAX, UCCL_UNSOLICITED_MAX + 1, BYTES};

	for (size_t i = 0; i < uccl_array_len(bytes); i++) {
		uint32_t n = bytes[i], head = n <= UCCL_UNSOLICITED_MAX ? n : UCCL_STRIPE_SHARES * UCCL_STRIPE_FULL;
		struct lan *l = lanes_met(LANES, LANES);
		struct uccl_peer *p = lan_peer(l, PRIMARY(0), PRIMARY(1));
		uint64_t before = by_lanes(l), primary = carried(l, PRIMARY(0));

		memset(dst[1], 0, n);
		l->node[PRIMARY(1)].asleep = true;
		lan_recv(l, PRIMARY(1), dst[1], n, LAN_CTX(2));
		assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0], n, LAN_CTX(3)), 0);
		lan_run(l, MS);
		assert_int_equal(by_lanes(l) - before, head);
		assert_int_equal(carried(l, PRIMARY(0)), primary);
		assert_true(parked() > 0);
		assert_int_equal(p->tx.unsolicited_bytes, head);
		assert_int_equal(lan_waiting(l, PRIMARY(0)), 0);
		l->node[PRIMARY(1)].asleep = false;
		arrives(l, n);
		assert_int_equal(parked(), 0);
		assert_int_equal(p->tx.unsolicited_bytes, 0);
		lan_free(l);
	}
}

/* Its receiver has it after one way through the network instead of three. PROTOCOL R265 */
TEST(unsolicited__one_way)
{
	uint64_t took[2];

	for (int ahead = 0; ahead < 2; ahead++) {
		struct lan *l = lanes_met(LANES, LANES);
		uint64_t began = l->now;

		lan_peer(l, PRIMARY(0), PRIMARY(1))->lanes_unsolicited = ahead;
		lan_recv(l, PRIMARY(1), dst[1], 131072, LAN_CTX(2));
		assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0], 131072, LAN_CTX(3)), 0);
		while (!lan_waiting(l, PRIMARY(1)) && l->now - began < SECOND)
			lan_round(l);
		took[ahead] = l->now - began;
		lan_free(l);
	}
	assert_true(took[0] >= 3 * LAN_DELAY_NS);
	assert_true(took[1] <= took[0] - 2 * LAN_DELAY_NS);
}

#define SLICE (3 * MS) /* of time, for which a lane waits */

/* Bytes that lanes of the first side carry of one message. */
static uint64_t one_by_lanes(struct lan *l)
{
	uint64_t before = by_lanes(l);

	one_message(l);
	return by_lanes(l) - before;
}

/* Messages until lanes carry one again; how many those were. */
static int until_by_lanes(struct lan *l)
{
	for (int n = 1; n < 100; n++)
		if (one_by_lanes(l))
			return n;
	fail();
	return 0;
}

/* The sender's lanes are late: the primary sends what it begins then, and after a pause and trials lanes do. */
LAN_TEST(late__sender, lanes_met(LANES, LANES))
{
	assert_true(one_by_lanes(l) > 0);
	lan_channel[0][1]->late_ns = 2 * SLICE;
	lan_round(l);
	assert_int_equal(one_by_lanes(l), 0);
	assert_int_equal(lan_stats(l, PRIMARY(0))->lanes_left, 1);
	assert_in_range(until_by_lanes(l), 1, UCCL_LATENESS_TRIALS);
	assert_int_equal(lan_stats(l, PRIMARY(0))->lanes_left, 1);
}

/* Lanes are late side by side: all of them by one time slice is no more than one of them. */
LAN_TEST(late__side_by_side, lanes_met(LANES, LANES))
{
	for (int k = 0; k < LANES; k++) {
		lan_channel[0][k]->late_ns = SLICE;
		if (k)
			lan_round(l);
	}
	assert_true(one_by_lanes(l) > 0);
	assert_int_equal(lan_stats(l, PRIMARY(0))->lanes_left, 0);
}

/* A trial ends only when all lanes are up. */
LAN_TEST(late__trial_of_all, lanes_met(LANES, LANES))
{
	lan_channel[0][1]->late_ns = 2 * SLICE;
	lan_round(l);
	l->node[LANE(0, 1)].asleep = true;
	for (int i = 0; i < 3 * UCCL_LATENESS_TRIALS; i++)
		assert_int_equal(one_by_lanes(l), 0);
	l->node[LANE(0, 1)].asleep = false;
	until_by_lanes(l);
}

/*
 * The receiver's lanes are late: it names none, and its peer sends it nothing over lanes that it has not asked for.
 * Later the peer waits for a CTS, which names lanes again. PROTOCOL R418
 */
LAN_TEST(late__receiver, lanes_met(LANES, LANES))
{
	struct uccl_peer *p = lan_peer(l, PRIMARY(0), PRIMARY(1));
	uint64_t before = by_lanes(l);

	lan_channel[1][0]->late_ns = 2 * SLICE;
	/* The peer does not know it yet: what it has sent comes over lanes, and the rest does not. */
	assert_int_equal(one_by_lanes(l), UCCL_STRIPE_SHARES * UCCL_STRIPE_FULL);
	assert_int_equal(lan_stats(l, PRIMARY(1))->lanes_left, 1);
	for (int k = 0; k < LANES; k++)
		assert_false(p->lanes.peers[k]->named);
	assert_int_equal(p->lanes.refused.ns, UCCL_LATENESS_PAUSE);
	before = by_lanes(l);
	while (p->lanes.refused.ns) {
		uint64_t least = p->lanes.refused.ns;

		assert_int_equal(by_lanes(l), before);
		one_message(l);
		assert_true(!p->lanes.refused.ns || p->lanes.refused.ns == least ||
			    p->lanes.refused.ns == uccl_min(2 * least, SECOND));
	}
	/* The rest of that one, and then all of the next. */
	assert_true(by_lanes(l) > before);
	for (int k = 0; k < LANES; k++)
		assert_true(p->lanes.peers[k]->named);
	before = carried(l, PRIMARY(0));
	one_message(l);
	assert_int_equal(carried(l, PRIMARY(0)), before);
}

/* The same where all of a message went ahead of CTS. PROTOCOL R418 */
LAN_TEST(late__receiver_of_unsolicited, lanes_met(LANES, LANES))
{
	struct uccl_peer *p = lan_peer(l, PRIMARY(0), PRIMARY(1));

	lan_channel[1][0]->late_ns = 2 * SLICE;
	lan_recv(l, PRIMARY(1), dst[1], UCCL_UNSOLICITED_MAX, LAN_CTX(2));
	assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0], UCCL_UNSOLICITED_MAX, LAN_CTX(3)), 0);
	arrives(l, UCCL_UNSOLICITED_MAX);
	assert_int_equal(p->lanes.refused.ns, UCCL_LATENESS_PAUSE);
	for (int k = 0; k < LANES; k++)
		assert_false(p->lanes.peers[k]->named);
}

/* Of a message that goes ahead only its envelope comes: the sender's lanes sleep. */
static void envelope_alone(struct lan *l)
{
	for (int k = 0; k < LANES; k++)
		l->node[LANE(0, k)].asleep = true;
	memset(dst[1], 0, UCCL_UNSOLICITED_MAX);
	lan_recv(l, PRIMARY(1), dst[1], UCCL_UNSOLICITED_MAX, LAN_CTX(2));
	assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0], UCCL_UNSOLICITED_MAX, LAN_CTX(3)), 0);
	lan_run(l, MS);
}

/* Its envelope comes first, and finds its receive: nothing waits. PROTOCOL R266 */
LAN_TEST(unsolicited__envelope_first, lanes_met(LANES, LANES))
{
	uint64_t before = by_lanes(l);

	envelope_alone(l);
	assert_int_equal(by_lanes(l), before);
	/* CTS came, which asks for nothing. */
	assert_int_equal(lan_peer(l, PRIMARY(0), PRIMARY(1))->tx.unsolicited_bytes, 0);
	assert_int_equal(lan_waiting(l, PRIMARY(0)) + lan_waiting(l, PRIMARY(1)), 0);
	for (int side = 0; side < 2; side++)
		for (int k = 0; k < LANES; k++)
			l->node[LANE(side, k)].asleep = false;
	arrives(l, UCCL_UNSOLICITED_MAX);
}

/* Not to who knows nothing of it or is short of memory; nor over unknown lanes, nor too much. PROTOCOL R265 */
TEST(unsolicited__not)
{
	enum { OLDER, SHORT, NAMED, MUCH, LONG, CASES };
	uint8_t *large = calloc(1, 1u << UCCL_ENV_LANES_AT);

	assert_non_null(large);
	for (int i = 0; i <= CASES; i++) {
		struct lan *l = lanes_met(LANES, LANES);
		struct uccl_peer *p = lan_peer(l, PRIMARY(0), PRIMARY(1));
		uint64_t before = by_lanes(l), n = i == LONG ? 1u << UCCL_ENV_LANES_AT : UCCL_UNSOLICITED_MAX;

		p->lanes_unsolicited = i != OLDER;
		/* Whatever the latest met. */
		p->tx.met_streak = -UCCL_UNSOLICITED_PAUSE;
		p->flow.limits.envelopes_only = i == SHORT;
		for (int k = 0; k < LANES; k++) {
			assert_true(p->lanes.peers[k]->named);
			p->lanes.peers[k]->named = i != NAMED;
		}
		p->tx.unsolicited_bytes = i == MUCH ? UCCL_UNSOLICITED_PEER_MAX - UCCL_UNSOLICITED_MAX + 1
						 : UCCL_UNSOLICITED_PEER_MAX - UCCL_UNSOLICITED_MAX;
		l->node[PRIMARY(1)].asleep = true;
		assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), large, n, LAN_CTX(3)), 0);
		lan_run(l, MS);
		assert_int_equal(by_lanes(l) - before, i == CASES ? n : 0);
		lan_free(l);
	}
	free(large);
}

/* Also what CTS does not ask for is asked for over lanes, so that all of them become known. PROTOCOL R265 */
LAN_TEST(unsolicited__names_lanes, lanes_met(LANES, LANES))
{
	struct uccl_peer *p = lan_peer(l, PRIMARY(0), PRIMARY(1));

	p->lanes.peers[1]->named = false;
	lan_recv(l, PRIMARY(1), dst[1], UCCL_UNSOLICITED_MAX, LAN_CTX(2));
	assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0], UCCL_UNSOLICITED_MAX, LAN_CTX(3)), 0);
	assert_int_equal(p->tx.unsolicited_bytes, UCCL_UNSOLICITED_MAX);
	assert_int_equal(lan_channel[0][1]->stripes, 0);
	lan_run(l, SECOND);
	lan_expect(l, PRIMARY(0), LAN_CTX(3), 0);
	assert_true(p->lanes.peers[1]->named);
}

/* What lanes hold is held: who leaves much of it there is told to hold back. PROTOCOL R42 R265 */
LAN_TEST(unsolicited__held, lanes_met(LANES, LANES))
{
	struct uccl_peer *p = lan_peer(l, PRIMARY(0), PRIMARY(1));
	struct uccl_msg_ep *m = &l->node[PRIMARY(1)].e->msg_ep;
	uint64_t before;

	m->unexpected.max = 100000;
	assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0], UCCL_UNSOLICITED_MAX, LAN_CTX(3)), 0);
	lan_run(l, SECOND);
	assert_int_equal(m->unexpected.bytes, UCCL_UNSOLICITED_MAX);
	assert_int_equal(m->stats->unexpected_bytes_max, UCCL_UNSOLICITED_MAX);
	assert_true(p->flow.limits.envelopes_only);
	before = by_lanes(l);
	assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0], UCCL_UNSOLICITED_MAX, LAN_CTX(4)), 0);
	lan_run(l, SECOND);
	assert_int_equal(by_lanes(l), before);
	for (int i = 3; i < 5; i++) {
		memset(dst[1], 0, UCCL_UNSOLICITED_MAX);
		lan_recv(l, PRIMARY(1), dst[1], UCCL_UNSOLICITED_MAX, LAN_CTX(2));
		lan_run(l, SECOND);
		lan_expect(l, PRIMARY(0), LAN_CTX(i), 0);
		lan_expect(l, PRIMARY(1), LAN_CTX(2), 0);
		lan_check(dst[1], UCCL_UNSOLICITED_MAX, 1);
		assert_int_equal(m->unexpected.bytes + m->unexpected.n, i == 3 ? 1 : 0);
	}
	/* Nor is anything left of one whose peer ends. */
	m->unexpected.max = 1 << 20;
	assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0], 100, LAN_CTX(5)), 0);
	lan_run(l, SECOND);
	assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0], UCCL_UNSOLICITED_MAX, LAN_CTX(6)), 0);
	lan_run(l, SECOND);
	assert_int_equal(m->unexpected.bytes, UCCL_UNSOLICITED_MAX + 100);
	conn_fail(lan_conn(l, PRIMARY(1), PRIMARY(0)), FI_ECONNABORTED, l->now);
	assert_int_equal(m->unexpected.left_bytes, UCCL_UNSOLICITED_MAX + 100);
	lan_recv(l, PRIMARY(1), dst[1], 100, LAN_CTX(5));
	lan_expect(l, PRIMARY(1), LAN_CTX(5), 0);
	lan_recv(l, PRIMARY(1), dst[1], UCCL_UNSOLICITED_MAX, LAN_CTX(6));
	lan_expect(l, PRIMARY(1), LAN_CTX(6), FI_ECONNABORTED);
	assert_int_equal(m->unexpected.bytes + m->unexpected.left_bytes + m->unexpected.n, 0);
	lan_run(l, SECOND);
	assert_int_equal(parked(), 0);
}

/*
 * Its peer ends while its unsolicited data is on its way: nobody writes there any more, and nothing stays. PROTOCOL
 * R183 R186
 */
LAN_TEST(unsolicited__peer_fails, lanes_met(LANES, LANES))
{
	struct uccl_engine *lane = l->node[LANE(1, 0)].e;
	struct uccl_peer *from = known(l, LANE(1, 0), LANE(0, 0), false);
	struct uccl_peer *primary = lan_peer(l, PRIMARY(1), PRIMARY(0));
	uint32_t mseq = (uint32_t)primary->rx.mseq;
	uint8_t rec[UCCL_REC_LEN] = {0};
	struct uccl_chunk_in in = {.rtype = UCCL_REC_EAGER, .rec = rec, .data = src[0], .len = 100};

	envelope_alone(l);
	uccl_rec_set_bulk(rec, mseq, 0, 0);
	uccl_put64(rec + 16, UCCL_UNSOLICITED_MAX);
	assert_int_equal(worker_flow_ops.deliver(&from->flow, &in, 0), UCCL_DROP_COUNT);
	conn_fail(lan_conn(l, PRIMARY(1), PRIMARY(0)), FI_ECONNABORTED, l->now);
	uccl_rec_set_bulk(rec, mseq, 0, 100);
	assert_int_equal(worker_flow_ops.deliver(&from->flow, &in, 0), UCCL_DROP_UNWANTED);
	lan_check(dst[1], 100, 1);
	for (int k = 100; k < 200; k++)
		assert_int_equal(dst[1][k], 0);
	lan_expect(l, PRIMARY(1), LAN_CTX(2), FI_ECONNABORTED);
	lan_run(l, SECOND);
	for (int i = 0; i < UCCL_LANE_TABLE; i++)
		assert_true(LIST_EMPTY(&lane->msg_ep.lane->reassemblies[i]));
	assert_int_equal(lan_channel[1][0]->unanswered, 0);
	for (int k = 0; k < LANES; k++)
		l->node[LANE(0, k)].asleep = false;
	conn_fail(lan_conn(l, PRIMARY(0), PRIMARY(1)), FI_ECONNABORTED, l->now);
	lan_run(l, SECOND);
	lan_expect(l, PRIMARY(0), LAN_CTX(3), FI_ECONNABORTED);
}

/* It was short of memory then, and is not reached again: what has left stays unsolicited. PROTOCOL R265 */
LAN_TEST(unsolicited__not_taken_back, lanes_met(LANES, LANES))
{
	struct uccl_peer *p = lan_peer(l, PRIMARY(0), PRIMARY(1));
	struct uccl_op *op;

	l->node[PRIMARY(0)].e->poll.polling = true;
	lan_recv(l, PRIMARY(1), dst[1], UCCL_UNSOLICITED_MAX, LAN_CTX(2));
	assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0], UCCL_UNSOLICITED_MAX, LAN_CTX(3)), 0);
	l->node[PRIMARY(0)].e->poll.polling = false;
	op = TAILQ_FIRST(&p->tx.sends);
	assert_true(op->tx.env.queued);
	p->flow.limits.envelopes_only = true;
	uccl_msg_hold(p);
	assert_non_null(op->tx.striped.unsolicited);
	assert_int_equal(op->tx.unsolicited_bytes, UCCL_UNSOLICITED_MAX);
	arrives(l, UCCL_UNSOLICITED_MAX);
}

static uint64_t device_copies;

/* So it shows who has written there. */
#define OF_DEVICE 0x55

static uint64_t device_put(void *arg, void *to, const void *from, uint64_t len, bool keep, int *err)
{
	for (uint64_t i = 0; i < len; i++)
		((uint8_t *)to)[i] = ((const uint8_t *)from)[i] ^ OF_DEVICE;
	return ++device_copies;
}

static uint64_t device_poll(void *arg)
{
	return device_copies;
}

static bool device_room(void *arg)
{
	return true;
}

static const struct uccl_device_ops device_ops = {
	.put = device_put, .poll = device_poll, .wait = device_poll, .room = device_room
};

/* Whatever the receive is, and whenever it comes. PROTOCOL R266 */
TEST(unsolicited__any_place)
{
	enum { PLAIN, PIECES, DEVICE, SHORT, TINY, NOTHING, UNWANTED, PLACES };
	static const uint32_t bytes[] = {UCCL_UNSOLICITED_MAX, BYTES};

	for (int i = 0; i < PLACES * 2 * 2 * 2; i++) {
		int place = i % PLACES, late = i / PLACES & 1, device = i / PLACES / 2 & 1;
		uint32_t n = bytes[i / PLACES / 4];
		uint64_t len = place == SHORT ? n - 100000 : place == TINY ? 1000 : place == NOTHING ? 0 : n;
		const struct lan_comp *c;
		struct uccl_engine *e;
		struct uccl_op *op, *send;
		struct lan *l;

		if (place == UNWANTED && !late)
			continue;
		l = lanes_met(LANES, LANES);
		e = l->node[PRIMARY(1)].e;
		op = lan_op(l, PRIMARY(1), UCCL_OP_RECV, 0, dst[1], len);
		memset(dst[1], 0, BYTES);
		if (device || place == DEVICE) {
			e->msg_ep.device.ops = &device_ops;
			e->msg_ep.device.queued = e->msg_ep.device.done = device_copies;
		}
		op->context = LAN_CTX(2);
		if (place == DEVICE)
			op->device = 1;
		if (place == PIECES) {
			op->iov_count = 3;
			op->iov[0].iov_len = 70001;
			op->iov[1] = (struct iovec){.iov_base = dst[1] + 70001, .iov_len = 3};
			op->iov[2] = (struct iovec){.iov_base = dst[1] + 70004, .iov_len = len - 70004};
		}
		if (!late)
			assert_int_equal(uccl_engine_recv(e, op, l->now), 0);
		send = lan_op(l, PRIMARY(0), UCCL_OP_SEND, i & 1 ? UCCL_OPF_DELIVERY : 0, src[0], n);
		send->peer = lan_peer(l, PRIMARY(0), PRIMARY(1));
		send->context = LAN_CTX(3);
		assert_int_equal(uccl_engine_send(l->node[PRIMARY(0)].e, send, l->now), 0);
		if (late)
			lan_run(l, MS);
		assert_int_equal(late && parked(), late);
		assert_int_equal(e->msg_ep.unexpected.bytes,
				 late ? uccl_min(n, n <= UCCL_UNSOLICITED_MAX ? n : 245760) : 0);
		if (late && place == UNWANTED)
			assert_int_equal(uccl_engine_peek(e, op, false, true, l->now), 0);
		else if (late)
			assert_int_equal(uccl_engine_recv(e, op, l->now), 0);
		lan_run(l, SECOND);
		lan_expect(l, PRIMARY(0), LAN_CTX(3), 0);
		if (place == UNWANTED) {
			uccl_op_put(e, op);
			assert_int_equal(lan_waiting(l, PRIMARY(1)), 0);
			lan_check(dst[1], 0, 1);
		} else {
			c = lan_next(l, PRIMARY(1));
			assert_non_null(c);
			assert_int_equal(c->err, len < n ? FI_ETRUNC : 0);
			for (uint64_t k = 0; k < len && place == DEVICE; k++)
				dst[1][k] ^= OF_DEVICE;
			lan_check(dst[1], len, 1);
		}
		for (uint64_t k = len; k < n && place != UNWANTED; k++)
			assert_int_equal(dst[1][k], 0);
		assert_int_equal(parked(), 0);
		assert_int_equal(e->msg_ep.rx_pool.used, 0);
		assert_int_equal(e->msg_ep.unexpected.bytes, 0);
		assert_int_equal(lan_channel[1][0]->unanswered + lan_channel[1][1]->unanswered, 0);
		lan_free(l);
	}
}

/*
 * A lane takes nothing so but from the lane of a peer, of unsolicited data that can be, once, and not too much.
 * PROTOCOL R268
 */
TEST(unsolicited__refused)
{
	struct lan *l = lanes_met(LANES, LANES);
	uint8_t rec[UCCL_REC_LEN] = {0};
	struct uccl_chunk_in in = {.rtype = UCCL_REC_EAGER, .rec = rec, .data = src[0], .len = 100};
	struct uccl_engine *lane = l->node[LANE(1, 0)].e;
	struct uccl_peer *from = known(l, LANE(1, 0), LANE(0, 0), false);
	struct uccl_peer *other = known(l, LANE(1, 0), PRIMARY(0), true);
	struct uccl_peer *primary = lan_peer(l, PRIMARY(1), PRIMARY(0));
	uint32_t mseq = (uint32_t)primary->rx.mseq, many = 0;
	struct uccl_msg_rx *rx;
#define PUT(m, off, total) (uccl_rec_set_bulk(rec, m, 0, off), uccl_put64(rec + 16, total), \
			    worker_flow_ops.deliver(&from->flow, &in, 0))

	/* Before its envelope. */
	assert_int_equal(PUT(mseq, 0, UCCL_UNSOLICITED_MAX + 1), UCCL_DROP_RANGE);
	assert_int_equal(PUT(mseq, 1000, 1000), UCCL_DROP_RANGE);
	assert_int_equal(PUT(mseq, 901, 1000), UCCL_DROP_RANGE);
	assert_int_equal(PUT(mseq, UINT64_MAX, 1000), UCCL_DROP_RANGE);
	in.len = 0;
	assert_int_equal(PUT(mseq, 0, 1000), UCCL_DROP_RANGE);
	in.len = 100;
	in.placed = true;
	assert_int_equal(PUT(mseq, 0, 1000), UCCL_DROP_STATE);
	in.placed = false;
	other->flow.user = other;
	assert_int_equal(worker_flow_ops.deliver(&other->flow, &in, 0), UCCL_DROP_HANDLE);
	assert_int_equal(lan_channel[1][0]->nunplaced, 0);
	/* What has no message yet is kept, to a bound. */
	while (PUT(mseq + 5, 0, 1000) == UCCL_DROP_COUNT)
		many++;
	assert_int_equal(PUT(mseq + 5, 0, 1000), UCCL_DROP_MEMORY);
	assert_int_equal(many, UCCL_UNPLACED_MAX / (in.len + UCCL_UNPLACED_COST));
	assert_int_equal(lan_channel[1][0]->nunplaced, many);
	unplaced_data_drop(lane->msg_ep.lane->channel, from);
	assert_int_equal(lan_channel[1][0]->nunplaced + from->lane.unplaced_bytes, 0);
	/* Behind it. */
	for (int k = 0; k < LANES; k++)
		l->node[LANE(0, k)].asleep = true;
	lan_recv(l, PRIMARY(1), dst[1], UCCL_UNSOLICITED_MAX, LAN_CTX(2));
	assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0], UCCL_UNSOLICITED_MAX, LAN_CTX(3)), 0);
	lan_run(l, MS);
	rx = TAILQ_FIRST(&primary->rx.all);
	assert_non_null(rx->lanes.unsolicited);
	assert_int_equal(PUT(mseq, 0, UCCL_UNSOLICITED_MAX - 1), UCCL_DROP_RANGE);
	assert_int_equal(PUT(mseq, 0, UCCL_UNSOLICITED_MAX), UCCL_DROP_COUNT);
	assert_int_equal(PUT(mseq, 50, UCCL_UNSOLICITED_MAX), UCCL_DROP_OVERLAP);
	assert_int_equal(lan_channel[1][0]->nunplaced, 0);
	/* Not in a record that is for what was asked for; nor by the primary. */
	in.rtype = UCCL_REC_DATA;
	uccl_rec_set_bulk(rec, 0, mseq, 200);
	assert_int_equal(worker_flow_ops.deliver(&from->flow, &in, 0), UCCL_DROP_HANDLE);
	in.rtype = UCCL_REC_EAGER;
	uccl_rec_set_bulk(rec, mseq, 0, 200);
	assert_int_equal(uccl_msg_flow_ops.deliver(&primary->flow, &in, 0), UCCL_DROP_HANDLE);
	lan_free(l);
#undef PUT
}

/* What was taken and cannot be placed leaves a message that is never whole: its peer ends. PROTOCOL R268 */
TEST(unsolicited__contradicts)
{
	for (int i = 0; i < 2; i++) {
		struct lan *l = lanes_met(LANES, LANES);
		uint8_t rec[UCCL_REC_LEN] = {0};
		struct uccl_chunk_in in = {.rtype = UCCL_REC_EAGER, .rec = rec, .data = src[0], .len = 100};
		struct uccl_peer *from = known(l, LANE(1, 0), LANE(0, 0), false);
		struct uccl_peer *primary = lan_peer(l, PRIMARY(1), PRIMARY(0));

		/* Of another message; the same bytes twice. */
		uccl_rec_set_bulk(rec, (uint32_t)primary->rx.mseq, 0, 0);
		uccl_put64(rec + 16, i ? UCCL_UNSOLICITED_MAX : 1000);
		for (int k = 0; k <= i; k++)
			assert_int_equal(worker_flow_ops.deliver(&from->flow, &in, 0), UCCL_DROP_COUNT);
		for (int k = 0; k < LANES; k++)
			l->node[LANE(0, k)].asleep = true;
		lan_recv(l, PRIMARY(1), dst[1], UCCL_UNSOLICITED_MAX, LAN_CTX(2));
		assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0], UCCL_UNSOLICITED_MAX, LAN_CTX(3)), 0);
		lan_run(l, SECOND);
		assert_true(primary->dead);
		assert_int_equal(lan_dropped(l, LANE(1, 0), i ? UCCL_DROP_OVERLAP : UCCL_DROP_RANGE), 1);
		assert_int_equal(parked(), 0);
		lan_free(l);
	}
}

/* An envelope that names lanes: of those that are known, and of nothing that came by the primary. PROTOCOL R266 */
TEST(unsolicited__envelopes)
{
	struct lan *l = lanes_met(LANES, LANES);
	struct uccl_peer *p = lan_peer(l, PRIMARY(1), PRIMARY(0));
	uint8_t rec[UCCL_REC_LEN], more[UCCL_REC_LEN] = {0};
	struct uccl_chunk_in in = {.rtype = UCCL_REC_MSG, .rec = rec, .data = src[0], .len = 0};
	struct uccl_chunk_in eager = {.rtype = UCCL_REC_EAGER, .rec = more, .data = src[0], .len = 100};
	struct uccl_env env = {.len = 100000,
			       .unsolicited = 80000,
			       .id = 1,
			       .flags = UCCL_ENV_UNSOLICITED | UCCL_ENV_LANES};
#define ENV(mask, ahead) (env.lanes = mask, env.mseq = (uint32_t)p->rx.mseq + ahead, uccl_env_encode(rec, &env), \
			  uccl_msg_flow_ops.deliver(&p->flow, &in, 0))

	assert_int_equal(ENV(0, 1), UCCL_DROP_RECORD);
	assert_int_equal(ENV(4, 1), UCCL_DROP_RECORD);
	assert_int_equal(ENV(7, 1), UCCL_DROP_RECORD);
	/* The primary has brought some of it. */
	uccl_rec_set_bulk(more, (uint32_t)p->rx.mseq + 2, 0, 100);
	uccl_put64(more + 16, env.unsolicited);
	assert_int_equal(uccl_msg_flow_ops.deliver(&p->flow, &eager, 0), UCCL_DROP_COUNT);
	assert_int_equal(ENV(1, 2), UCCL_DROP_RECORD);
	/* It is early; the primary brings nothing of it. */
	assert_int_equal(ENV(3, 1), UCCL_DROP_COUNT);
	assert_int_equal(ENV(3, 1), UCCL_DROP_RECORD);
	uccl_put32(more, (uint32_t)p->rx.mseq + 1);
	assert_int_equal(uccl_msg_flow_ops.deliver(&p->flow, &eager, 0), UCCL_DROP_OVERLAP);
	lan_free(l);
#undef ENV
}

/* PROTOCOL R185 */
TEST(cmds__no_room)
{
	const uint32_t full = UCCL_LANE_CHANNEL_CMDS / 2;
	struct lan *l = lanes_new(1, 1);
	uint64_t before;

	/* Lanes cannot be told of their peers: they are not used. */
	lan_channel[0][0]->unanswered = full;
	one_message(l);
	assert_int_equal(carried(l, LANE(0, 0)), 0);
	lan_channel[0][0]->unanswered = 0;
	one_message(l);
	assert_int_equal(carried(l, LANE(0, 0)), 0);
	lan_free(l);

	/* A lane cannot be told what to send, or where payload may land. */
	l = lanes_open(1, 1);
	one_message(l);
	before = carried(l, LANE(0, 0));
	assert_true(before > UCCL_STRIPE_BYTES);
	lan_channel[0][0]->unanswered += full;
	lan_recv(l, PRIMARY(1), dst[1], BYTES, LAN_CTX(2));
	assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0], BYTES, LAN_CTX(3)), 0);
	lan_run(l, MS);
	assert_int_equal(lan_waiting(l, PRIMARY(0)), 0);
	assert_true(uccl_engine_expiry(l->node[PRIMARY(0)].e) <= l->now);
	lan_channel[0][0]->unanswered -= full;
	arrives(l, BYTES);
	assert_true(carried(l, LANE(0, 0)) > before);

	/* It cannot be told to forget: it is, later, and in between nothing else is said to it. */
	before = carried(l, LANE(0, 0));
	lan_channel[1][0]->unanswered += full;
	one_message(l);
	assert_true(carried(l, LANE(0, 0)) > before);
	assert_false(TAILQ_EMPTY(&lan_channel[1][0]->later));
	assert_true(uccl_engine_expiry(l->node[PRIMARY(1)].e) <= l->now);
	before = carried(l, LANE(0, 0));
	lan_peer(l, PRIMARY(0), PRIMARY(1))->lanes_unsolicited = false;
	one_message(l);
	assert_int_equal(carried(l, LANE(0, 0)), before);
	lan_peer(l, PRIMARY(0), PRIMARY(1))->lanes_unsolicited = true;
	/* What left ahead of CTS waits for its place. */
	lan_recv(l, PRIMARY(1), dst[1], BYTES, LAN_CTX(2));
	assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0], BYTES, LAN_CTX(3)), 0);
	lan_run(l, MS);
	assert_int_equal(lan_waiting(l, PRIMARY(1)), 0);
	assert_int_equal(lan_channel[1][0]->nunplaced > 0, 1);
	lan_channel[1][0]->unanswered -= full;
	arrives(l, BYTES);
	assert_int_equal(lan_channel[1][0]->nunplaced, 0);
	assert_true(TAILQ_EMPTY(&lan_channel[1][0]->later));
	assert_int_equal(lan_channel[1][0]->unanswered, 0);
	one_message(l);
	assert_true(carried(l, LANE(0, 0)) > before);
	lan_free(l);
}

static int wakes;

static void count_wakes(void *arg, bool primary)
{
	assert_ptr_equal(arg, &wakes);
	assert_false(primary);
	wakes++;
}

/* What nobody waits for wakes no lane, until there is much of it. PROTOCOL R185 */
TEST(cmds__may_stay_unread)
{
	static const enum uccl_lane_cmd_type lies[] = {UCCL_LANE_RX_POST, UCCL_LANE_RX_CANCEL};
	static const enum uccl_lane_cmd_type wanted[] = {UCCL_LANE_PEER_ADD, UCCL_LANE_PEER_DEL, UCCL_LANE_TX_POST};

	for (size_t i = 0; i < uccl_array_len(lies); i++) {
		struct uccl_lane_cmd cmd = {.kind = lies[i]};
		struct uccl_lane_channel l;

		assert_true(uccl_lane_channel_init(&l));
		l.wake = count_wakes;
		l.arg = &wakes;
		wakes = 0;
		for (int k = 2; k < UCCL_LANE_CHANNEL_UNREAD; k++)
			assert_true(lane_channel_try(&l, &cmd, false));
		assert_int_equal(wakes, 0);
		/* The lane has something that waits for a place. PROTOCOL R267 */
		l.nunplaced = 1;
		assert_true(lane_channel_try(&l, &cmd, false));
		assert_int_equal(wakes, 1);
		l.nunplaced = 0;
		wakes = 0;
		assert_true(lane_channel_try(&l, &cmd, false));
		assert_int_equal(wakes, 1);
		while (uccl_mailbox_take(&l.down, &cmd))
			;
		for (size_t k = 0; k < uccl_array_len(wanted); k++) {
			cmd.kind = wanted[k];
			assert_true(lane_channel_try(&l, &cmd, false));
		}
		assert_int_equal(wakes, 1 + (int)uccl_array_len(wanted));
		uccl_lane_channel_fini(&l);
	}
}

/* PROTOCOL R187 */
TEST(meet__bad)
{
	struct lan *l = lanes_open(2, 1);
	struct uccl_peer *p = lan_peer(l, PRIMARY(1), PRIMARY(0));
	uint8_t rec[UCCL_REC_LEN] = {0}, data[8 + UCCL_ADDR_LEN + 1] = {0};
	struct uccl_chunk_in in = {.rtype = UCCL_REC_LANE, .rec = rec, .data = data, .len = 8 + UCCL_ADDR_LEN};
	struct uccl_addr addr = *uccl_engine_addr(l->node[LANE(0, 1)].e);
	struct uccl_lane_peer *lane_peer = p->lanes.peers[0];

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
	p->lanes.peers[0] = NULL;
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
	p->lanes.peers[0] = lane_peer;
	lan_free(l);
	/* Who has none takes none. */
	l = lanes_open(0, 1);
	p = lan_peer(l, PRIMARY(0), PRIMARY(1));
	assert_int_equal(conn_flow_ops.deliver(&p->flow, &in, l->now), UCCL_DROP_STATE);
	lan_free(l);
}

/* A the primary that says of its lane that it is where another lane is. */
static void liar_open(struct lan *l, int i, int at, const struct uccl_addr *identity, struct uccl_lane_channel *of)
{
	struct uccl_engine *lane = l->node[at].e;
	struct uccl_load_table *load = lane->share.load;
	uint8_t entry = lane->share.load_entry;

	l->node[i].identity = identity;
	lan_open(l, i);
	assert_true(uccl_lane_channel_init(of));
	assert_int_equal(uccl_lanes_built()->open(l->node[i].e, &lane, &of, 1), 0);
	/* Only the address is told by the liar: the lane itself stays where it is. */
	lane->share.load = load;
	lane->share.load_entry = entry;
}

/* Its message comes, and the lane peer that it has named leads nowhere. The connection to it. */
static struct conn *liar_refused(struct lan *l, int i)
{
	struct conn *c = lan_conn(l, PRIMARY(0), i);

	lan_recv(l, PRIMARY(0), dst[0], 100, LAN_CTX(5));
	assert_int_equal(lan_send(l, i, PRIMARY(0), src[0], 100, LAN_CTX(5)), 0);
	lan_run(l, SECOND);
	lan_expect(l, PRIMARY(0), LAN_CTX(5), 0);
	assert_non_null(c->peer.lanes.peers[0]);
	assert_null(c->peer.lanes.peers[0]->worker_peer);
	return c;
}

static enum lan_verdict count_lanes(struct lan *l, const struct lan_event *ev)
{
	if (ev->from == PRIMARY(1) && ev->type == UCCL_PKT_CHUNK && ev->rtype == UCCL_REC_LANE)
		l->n++;
	return LAN_PASS;
}

/* Who connects without our key hears of lanes when it has a use for them; who has it, at once. PROTOCOL R314 */
TEST(meet__keyless)
{
	for (int keyless = 0; keyless < 2; keyless++)
		for (int back = 0; back < 2; back++) {
			struct lan *l = lan_new();
			struct uccl_peer *p;

			l->node[PRIMARY(1)].cfg.keyless = true;
			lan_side_open(l, 0, LANES, false);
			lan_side_open(l, 1, LANES, false);
			l->filter = count_lanes;
			p = keyless ? lan_peer_keyless(l, PRIMARY(0), PRIMARY(1)) : lan_peer(l, PRIMARY(0), PRIMARY(1));
			lan_recv(l, PRIMARY(1), dst[1], BYTES, LAN_CTX(1));
			assert_int_equal(lan_send_to(l, PRIMARY(0), p, src[0], 60000, LAN_CTX(2)), 0);
			lan_run(l, SECOND);
			lan_expect(l, PRIMARY(1), LAN_CTX(1), 0);
			assert_int_equal(l->n, keyless ? 0 : LANES);
			/* Its message, or one to it. */
			lan_recv(l, PRIMARY(back ? 0 : 1), dst[1], BYTES, LAN_CTX(1));
			if (back)
				assert_int_equal(lan_send(l, PRIMARY(1), PRIMARY(0), src[1], BYTES, LAN_CTX(2)), 0);
			else
				assert_int_equal(lan_send_to(l, PRIMARY(0), p, src[0], BYTES, LAN_CTX(2)), 0);
			lan_run(l, SECOND);
			assert_int_equal(l->n, LANES);
			lan_check(dst[1], BYTES, back + 1u);
			lan_free(l);
		}
}

/* Two endpoints cannot have one lane. Who came first has it, whatever becomes of the other one. PROTOCOL R187 */
TEST(meet__of_another)
{
	struct lan *l = lanes_open(1, 1);
	struct uccl_lane_channel of;
	struct conn *c;

	liar_open(l, 5, LANE(1, 0), NULL, &of);
	c = liar_refused(l, 5);
	lan_kill(l, 5);
	conn_fail(c, FI_ECONNABORTED, l->now);
	lan_run(l, SECOND);
	assert_int_equal(lan_channel[0][0]->unanswered, 0);
	one_message(l);
	assert_true(carried(l, LANE(0, 0)) >= 4 * UCCL_STRIPE_BYTES);
	lan_free(l);
	uccl_lane_channel_fini(&of);
}

/* Nor is a lane of ours that of a peer, whose key may be ours, too. PROTOCOL R187 */
TEST(meet__ourselves)
{
	struct lan *l = lanes_open(1, 1);
	struct uccl_addr identity = *uccl_engine_addr(l->node[PRIMARY(0)].e);
	struct uccl_lane_channel of;
	struct conn *c;

	identity.incarnation += 100;
	liar_open(l, 5, LANE(0, 0), &identity, &of);
	c = liar_refused(l, 5);
	assert_int_equal(l->node[LANE(0, 0)].e->conns.n, 1);
	conn_fail(c, FI_ECONNABORTED, l->now);
	lan_run(l, SECOND);
	one_message(l);
	lan_free(l);
	uccl_lane_channel_fini(&of);
}

/* A connection that ended is forgotten also if the primary, which looked at nothing for minutes, says so late. */
LAN_TEST(segment__late, lanes_open(1, 1))
{
	const uint64_t forget = UCCL_COOKIE_LIFE_NS + 30 * SECOND;
	struct uccl_engine *lane = l->node[LANE(0, 0)].e;
	struct conn *c;

	l->node[PRIMARY(0)].asleep = true;
	c = lan_conn(l, LANE(0, 0), LANE(1, 0));
	conn_fail(c, FI_ECONNABORTED, l->now);
	uccl_peer_release(&c->peer);
	lan_pass(l, forget);
	l->node[PRIMARY(0)].asleep = false;
	lan_run(l, SECOND);
	assert_int_equal(lan_channel[0][0]->unanswered, 0);
	assert_int_equal(lane->conns.n, 1);
	lan_pass(l, forget);
	assert_int_equal(lane->conns.n, 0);
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
	uint64_t ahead;
};

static struct trial *trial_now;

static enum lan_verdict trial_filter(struct lan *l, const struct lan_event *ev)
{
	trial_now->ahead += ev->rtype == UCCL_REC_EAGER && l->node[ev->to].lane_channel;
	return uccl_rng_chance(&trial_now->rng, (double)l->n / 100) ? LAN_DROP :
	       uccl_rng_chance(&trial_now->rng, 0.02) ? LAN_DOUBLE : LAN_PASS;
}

/* What is complete is the application's again: it keeps a copy. */
static void trial_look(struct trial *t)
{
	for (int side = 0; side < 2; side++) {
		const struct lan_comp *c;

		while ((c = lan_next(t->l, PRIMARY(side)))) {
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

/* Nodes stop and go on as the seed says, primaries and lanes. */
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
			t->len[side][i] = uccl_rng_below(&t->rng, 4 * UCCL_STRIPE_BYTES) + UCCL_STRIPE_BYTES;
			if (uccl_rng_chance(&t->rng, 0.3))
				t->len[side][i] %= 20000;
			t->from[side][i] = malloc(t->len[side][i] + 1);
			t->to[!side][i] = calloc(1, t->len[side][i] + 1);
			t->was[!side][i] = calloc(1, t->len[side][i] + 1);
			lan_fill(t->from[side][i], t->len[side][i], (uint32_t)(side * MESSAGES + i));
		}
	for (int i = 0; i < MESSAGES; i++)
		for (int side = 0; side < 2; side++) {
			lan_recv(t->l, PRIMARY(side), t->to[side][i], t->len[!side][i], LAN_CTX(MESSAGES + i));
			assert_int_equal(lan_send(t->l, PRIMARY(side), PRIMARY(!side), t->from[side][i],
						  t->len[side][i], LAN_CTX(i)),
					 0);
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
		const struct uccl_msg_ep *m = &t->l->node[PRIMARY(side)].e->msg_ep;

		assert_int_equal(m->op_pool.used, 0);
		assert_int_equal(m->rx_pool.used, 0);
		for (int k = 0; k < m->lanes->n; k++) {
			assert_int_equal(lan_channel[side][k]->stripes, 0);
			assert_int_equal(lan_channel[side][k]->bytes, 0);
			assert_int_equal(lan_channel[side][k]->unanswered, 0);
			assert_int_equal(lan_channel[side][k]->nunplaced, 0);
		}
	}
	lan_free(t->l);
	for (int side = 0; side < 2; side++)
		for (int i = 0; i < MESSAGES; i++) {
			assert_memory_equal(t->was[side][i], t->to[side][i], t->len[!side][i]);
			free(t->from[side][i]);
			free(t->to[side][i]);
			free(t->was[side][i]);
		}
	free(t);
}

/* So many messages, one after the other, take so long. */
static uint64_t transfers(struct lan *l, int n)
{
	uint64_t began = l->now;

	for (int i = 0; i < n; i++) {
		int have[2] = {l->node[PRIMARY(0)].ncomp, l->node[PRIMARY(1)].ncomp};

		lan_recv(l, PRIMARY(1), dst[1], BYTES, LAN_CTX(2));
		assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0], BYTES, LAN_CTX(3)), 0);
		while (l->node[PRIMARY(0)].ncomp == have[0] || l->node[PRIMARY(1)].ncomp == have[1])
			lan_round(l);
	}
	return l->now - began;
}

/* Connected, with such policies and a link of so much, which so many endpoints share at the receiver. */
static struct lan *share_open(uint8_t a, uint8_t b, const char *cc, const char *credit, uint64_t bps,
			      uint32_t sharers)
{
	struct lan *l = lan_new();

	for (int i = 0; i < LAN_NODES; i++) {
		l->node[i].cfg.cc = cc;
		l->node[i].cfg.credit = credit;
		l->node[i].link_bps = bps;
	}
	l->node[PRIMARY(1)].sharers = sharers;
	lan_side_open(l, 0, a, writes);
	lan_side_open(l, 1, b, writes);
	lan_recv(l, PRIMARY(1), dst[1], 100, LAN_CTX(1));
	assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0], 100, LAN_CTX(1)), 0);
	lan_run(l, SECOND);
	return l;
}

/*
 * Lanes hand out credit for one link, however many are busy, and one that is alone for all of it. If others share the
 * link, an endpoint with lanes is one of them.
 */
static enum lan_verdict silence(struct lan *l, const struct lan_event *ev)
{
	return LAN_DROP;
}

/* Points at which a send is taken back: rounds, and who of the nodes was not polled meanwhile. */
#define ABORT_POINTS (12 * 6)

/* A send of so many bytes is on its way, and taken back at point n. False: it is complete by then. */
static bool abort_after(struct lan *l, uint32_t bytes, int n, bool silent)
{
	static const int asleep[] = {-1, LANE(0, 0), LANE(1, 0), LANE(1, 1), PRIMARY(0), PRIMARY(1)};
	int who = asleep[n % 6];

	lan_recv(l, PRIMARY(1), dst[1], BYTES, LAN_CTX(2));
	assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0], bytes, LAN_CTX(3)), 0);
	if (who >= 0)
		l->node[who].asleep = true;
	for (int i = 0; i < n / 6; i++)
		lan_round(l);
	if (who >= 0)
		l->node[who].asleep = false;
	l->filter = silent ? silence : NULL;
	/* What leaves now does not arrive. */
	for (int i = 0; silent && i < 3; i++)
		lan_round(l);
	if (lan_waiting(l, PRIMARY(0)))
		return false;
	assert_int_equal(uccl_engine_abort(l->node[PRIMARY(0)].e, LAN_CTX(3), l->now), 0);
	return true;
}

/* No lane knows anything of it any more. */
static void lanes_idle(const struct lan *l)
{
	for (int k = 0; k < LANES; k++) {
		assert_int_equal(lan_channel[0][k]->stripes, 0);
		assert_int_equal(lan_channel[0][k]->bytes, 0);
		for (int side = 0; side < 2; side++)
			assert_int_equal(lan_channel[side][k]->unanswered, 0);
		assert_int_equal(l->node[LANE(0, k)].e->msg_ep.tx.timers.n, 0);
		assert_int_equal(l->node[LANE(0, k)].e->msg_ep.tx.copied_bytes, 0);
	}
	assert_true(TAILQ_EMPTY(&lan_peer((struct lan *)l, PRIMARY(0), PRIMARY(1))->tx.sends));
	assert_int_equal(parked(), 0);
}

/* Lanes carry what is taken back: they send no more of it, and nothing of it lands later. PROTOCOL R361 R362 */
static uint32_t abort_living(struct lan *(*open)(uint8_t, uint8_t), uint32_t bytes)
{
	uint32_t back = 0;

	for (int n = 0; n < ABORT_POINTS; n++) {
		struct lan *l = open(LANES, LANES);
		const struct lan_comp *c;
		uint64_t began;

		if (!abort_after(l, bytes, n, false)) {
			lan_run(l, SECOND);
			lan_free(l);
			continue;
		}
		began = l->now;
		while (!lan_waiting(l, PRIMARY(0)) && l->now - began < SECOND)
			lan_round(l);
		assert_true(l->now - began <= 4 * LAN_DELAY_NS + MS);
		c = lan_next(l, PRIMARY(0));
		assert_non_null(c);
		lan_run(l, SECOND);
		if (c->err) {
			back++;
			assert_int_equal(c->err, FI_ECANCELED);
			assert_true(!lan_waiting(l, PRIMARY(1)) || lan_next(l, PRIMARY(1))->err == FI_ECANCELED);
		} else {
			lan_expect(l, PRIMARY(1), LAN_CTX(2), 0);
			lan_check(dst[1], bytes, 1);
		}
		memset(dst[1], 0x5e, BYTES);
		lan_pass(l, 10 * SECOND);
		for (uint32_t i = 0; i < BYTES; i++)
			assert_int_equal(dst[1][i], 0x5e);
		lanes_idle(l);
		lan_free(l);
	}
	return back;
}

TEST(abort__behind_cts)
{
	assert_true(abort_living(lanes_open, BYTES) > 10);
}

TEST(abort__ahead_of_cts)
{
	assert_true(abort_living(lanes_met, UCCL_UNSOLICITED_MAX) > 2);
}

/* Lanes have brought all of it, and its envelope has not left: the peer's lanes must not keep it for ever. */
LAN_TEST(abort__envelope_is_last, lanes_met(LANES, LANES))
{
	struct uccl_engine *e = l->node[PRIMARY(0)].e;
	struct uccl_op *op;

	e->poll.polling = true;
	assert_int_equal(lan_send(l, PRIMARY(0), PRIMARY(1), src[0], UCCL_UNSOLICITED_MAX, LAN_CTX(3)), 0);
	e->poll.polling = false;
	l->node[PRIMARY(0)].asleep = true;
	lan_run(l, SECOND);
	e->msg_ep.lanes_ops->poll(&e->msg_ep, l->now);
	op = TAILQ_FIRST(&lan_peer(l, PRIMARY(0), PRIMARY(1))->tx.sends);
	assert_null(op->tx.striped.unsolicited);
	assert_true(op->tx.env.queued);
	assert_true(parked() > 0);
	assert_int_equal(uccl_engine_abort(e, LAN_CTX(3), l->now), 0);
	l->node[PRIMARY(0)].asleep = false;
	lan_run(l, SECOND);
	lan_expect(l, PRIMARY(0), LAN_CTX(3), FI_ECANCELED);
	lanes_idle(l);
}

/*
 * The peer falls silent: lanes let go of the buffer in time. When the peer answers again it gets what it was sent.
 * PROTOCOL R364
 */
static void abort_silent(struct lan *(*open)(uint8_t, uint8_t), uint32_t bytes)
{
	static uint8_t sent[BYTES];

	for (int n = 0; n < 2 * ABORT_POINTS; n++) {
		struct lan *l = open(LANES, LANES);

		memcpy(sent, src[0], BYTES);
		memset(dst[1], 0, BYTES);
		if (abort_after(l, bytes, n / 2, true)) {
			/* A lane that has no processor now may read the buffer until it has one. */
			l->node[LANE(0, 0)].asleep = n & 1;
			for (int ms = 0; ms < 1000 && !lan_waiting(l, PRIMARY(0)); ms++)
				lan_pass(l, MS);
			if (lan_waiting(l, PRIMARY(0)))
				memset(src[0], 0xee, BYTES);
			l->node[LANE(0, 0)].asleep = false;
			lan_pass(l, 20 * MS);
			lan_expect(l, PRIMARY(0), LAN_CTX(3), FI_ECANCELED);
			/* The program has its buffer again. */
			memset(src[0], 0xee, BYTES);
			l->filter = NULL;
			lan_pass(l, 60 * SECOND);
			for (uint32_t i = 0; i < bytes; i++)
				assert_true(!dst[1][i] || dst[1][i] == sent[i]);
			lanes_idle(l);
		}
		lan_free(l);
	}
}

TEST(abort__silent_behind_cts)
{
	abort_silent(lanes_open, BYTES);
}

TEST(abort__silent_ahead_of_cts)
{
	abort_silent(lanes_met, UCCL_UNSOLICITED_MAX);
}

/* The peer ends while lanes have it, before and after they let go of it. PROTOCOL R364 */
TEST(abort__peer_fails)
{
	for (int n = 0; n < 2 * ABORT_POINTS; n++) {
		struct lan *l = lanes_open(LANES, LANES);

		if (abort_after(l, BYTES, n / 2, true)) {
			if (n & 1)
				lan_pass(l, SECOND);
			conn_fail(lan_conn(l, PRIMARY(0), PRIMARY(1)), FI_ECONNABORTED, l->now);
			lan_run(l, SECOND);
			lan_expect(l, PRIMARY(0), LAN_CTX(3), FI_ECANCELED);
			lanes_idle(l);
		}
		lan_free(l);
	}
}

/* The endpoint closes meanwhile. */
TEST(abort__close)
{
	for (int n = 0; n < 2 * ABORT_POINTS; n++) {
		struct lan *l = lanes_open(LANES, LANES);

		if (abort_after(l, BYTES, n / 2, true) && n & 1)
			lan_pass(l, SECOND);
		lan_free(l);
	}
}

TEST(share__credit)
{
	static const struct {
		uint8_t from, to; /* lanes; a second one that meets nobody has nothing to do */
		uint32_t sharers;
		double least;	  /* time of the bytes on the link of which it may be done */
	} v[] = {{1, 1, 0, 1}, {LANES, LANES, 0, 1}, {1, LANES, 0, 1}, {LANES, LANES, 3, 0.88}};

	for (size_t i = 0; i < uccl_array_len(v); i++) {
		struct lan *l = share_open(v[i].from, v[i].to, "none", "eqds", 1000000000, v[i].sharers);
		double link = 10.0 * BYTES * 8 * (v[i].sharers ? v[i].sharers : 1), took;

		took = (double)transfers(l, 10);
		/*
		 * Each message begins with the speculative windows of both lanes, which acknowledgements renewed. The
		 * pacer does not pace them. It makes up for that in the delays of the rest, but not where it has a
		 * third of the link only.
		 */
		assert_true(took > v[i].least * link && took < 1.1 * link);
		lan_free(l);
	}
}

/* Of all lanes together, bytes. */
static double windows(struct lan *l, int n)
{
	double sum = 0;

	for (int k = 0; k < n; k++) {
		const struct uccl_flow *f = &lan_conn(l, LANE(0, k), LANE(1, k))->peer.flow;

		sum += (double)f->cfg.policy.cc->window(f->policy.cc);
	}
	return sum;
}

/* What lanes may have in flight together is what one may that is alone, from the beginning on. */
TEST(share__windows)
{
	/* One lane; two; and one beside which the other has nothing to do. */
	static const uint8_t lanes[][2] = {{1, 1}, {LANES, LANES}, {LANES, 1}};
	double begins[3], grown[3];

	for (int v = 0; v < 3; v++) {
		struct lan *l = share_open(lanes[v][0], lanes[v][1], "nscc", "none", 100000000000, 0);

		transfers(l, 1);
		begins[v] = windows(l, lanes[v][1]);
		transfers(l, 200);
		grown[v] = windows(l, lanes[v][1]);
		lan_free(l);
	}
	assert_true(begins[1] < 1.05 * begins[0]);
	assert_true(grown[1] < 1.05 * grown[0]);
	assert_true(grown[2] > 0.95 * grown[0]);
}

/* PROTOCOL R182 R184 R185 */
TEST(any__interleaving)
{
	uint64_t over_lanes = 0, ahead = 0;

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
		ahead += t->ahead;
		trial_end(t);
	}
	assert_true(over_lanes > 100ull * UCCL_STRIPE_BYTES);
	assert_true(ahead > 100);
}

/*
 * The connection of primaries ends at one side, at any time: operations end, each once, and the memory is the
 * application's then. PROTOCOL R183 R186
 */
TEST(any__peer_fails)
{
	int failed = 0;

	for (uint64_t seed = 100; seed < 100 + SEEDS; seed++) {
		struct trial *t = trial_new(seed);
		int side = (int)uccl_rng_below(&t->rng, 2);

		trial_rounds(t, (int)uccl_rng_below(&t->rng, 60));
		conn_fail(lan_conn(t->l, PRIMARY(side), PRIMARY(!side)), FI_ECONNABORTED, t->l->now);
		trial_look(t);
		trial_rounds(t, 60);
		/* The other side does not know, but its endpoint closes at last. */
		conn_fail(lan_conn(t->l, PRIMARY(!side), PRIMARY(side)), FI_ECONNABORTED, t->l->now);
		/* Receives that have no message are still there. */
		for (int s = 0; s < 2; s++)
			for (int i = 0; i < MESSAGES; i++)
				uccl_engine_cancel(t->l->node[PRIMARY(s)].e, LAN_CTX(MESSAGES + i), t->l->now);
		failed += t->failed;
		trial_end(t);
	}
	assert_true(failed > 0);
}

/* A lane loses the peer: so does the primary, and all that was under way ends. PROTOCOL R186 */
TEST(any__lane_fails)
{
	for (uint64_t seed = 200; seed < 200 + SEEDS; seed++) {
		struct trial *t = trial_new(seed);
		int side = (int)uccl_rng_below(&t->rng, 2);
		struct uccl_engine *lane = t->l->node[LANE(side, 0)].e;
		struct conn *c;

		trial_rounds(t, (int)uccl_rng_below(&t->rng, 60));
		c = TAILQ_FIRST(&lane->conns.live);
		if (c && c->peer.open && c->peer.user != UINT64_MAX) {
			conn_fail(c, FI_ECONNABORTED, t->l->now);
			trial_awake(t);
			lan_run(t->l, 30 * SECOND);
			assert_true(lan_conn(t->l, PRIMARY(side), PRIMARY(!side))->peer.dead);
			trial_look(t);
		}
		for (int s = 0; s < 2; s++) {
			conn_fail(lan_conn(t->l, PRIMARY(s), PRIMARY(!s)), FI_ECONNABORTED, t->l->now);
			for (int i = 0; i < MESSAGES; i++)
				uccl_engine_cancel(t->l->node[PRIMARY(s)].e, LAN_CTX(MESSAGES + i), t->l->now);
		}
		trial_end(t);
	}
}

/* All ends with what is under way as it is. PROTOCOL R183 R186 */
TEST(any__close)
{
	for (uint64_t seed = 300; seed < 300 + SEEDS; seed++) {
		struct trial *t = trial_new(seed);

		trial_rounds(t, (int)uccl_rng_below(&t->rng, 60));
		lan_free(t->l);
		for (int side = 0; side < 2; side++)
			for (int i = 0; i < MESSAGES; i++) {
				free(t->from[side][i]);
				free(t->to[side][i]);
				free(t->was[side][i]);
			}
		free(t);
	}
}

TESTS_MAIN
