/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../pair.h"

#include "../../tests.h"

#include <stdlib.h>

#include "flow/observe/trace.h"

#define MS UCCL_NS_PER_MS

static struct pair p;

static struct uccl_trace *ring(uint64_t records)
{
	struct uccl_trace *t = calloc(1, uccl_trace_bytes(records));

	assert_non_null(t);
	uccl_trace_init(t, records);
	return t;
}

TEST(trace_put__overwrites_the_oldest)
{
	struct uccl_trace *t = ring(8);

	for (uint32_t i = 0; i < 21; i++)
		uccl_trace_put(t, &(struct uccl_trace_rec){.arg = i});
	assert_int_equal(t->next, 21);
	for (uint32_t i = 13; i < 21; i++)
		assert_int_equal(t->rec[i & t->mask].arg, i);
	free(t);
}

TEST(trace_kind_text__all)
{
	for (uint8_t i = 0; i < UCCL_TRACE_COUNT; i++)
		assert_non_null(uccl_trace_kind_text(i));
	assert_null(uccl_trace_kind_text(UCCL_TRACE_COUNT));
	assert_null(uccl_trace_kind_text(255));
}

static void lose_third_chunk(struct pair *q, struct pair_pkt *k)
{
	if (k->to == 1 && k->kind == UCCL_RX_PACKET && k->h.type == UCCL_PKT_CHUNK && q->count++ == 2)
		k->fate = PAIR_DROP;
}

static uint32_t count(const struct uccl_trace *t, uint8_t kind)
{
	uint32_t n = 0;

	for (uint64_t i = 0; i < t->next; i++)
		n += t->rec[i].kind == kind;
	return n;
}

static const struct uccl_trace_rec *first(const struct uccl_trace *t, uint8_t kind)
{
	for (uint64_t i = 0; i < t->next; i++)
		if (t->rec[i].kind == kind)
			return &t->rec[i];
	return NULL;
}

/* What the counters count is in the trace, one record each; one lost chunk can be followed through it. */
TEST(flow_trace__follows_a_loss)
{
	struct pair_cfg c = pair_packets();
	struct uccl_trace *t = ring(4096), *far = ring(4096);
	const struct uccl_trace_rec *lost, *again;

	pair_init(&p, &c);
	p.side[0].f.cfg.trace = t;
	p.side[0].f.cfg.trace_peer = 7;
	p.side[1].f.cfg.trace = far;
	p.filter = lose_third_chunk;
	pair_bulk(&p, 0, 100 * 1024);
	assert_true(pair_finish(&p, 100 * MS));
	assert_true(t->next < 4096);
	assert_int_equal(count(t, UCCL_TRACE_TX) + count(t, UCCL_TRACE_TX_AGAIN), p.side[0].stats.tx_packets);
	assert_int_equal(count(t, UCCL_TRACE_TX_AGAIN), p.side[0].stats.rtx_packets);
	assert_int_equal(count(t, UCCL_TRACE_RX), p.side[0].stats.rx_packets);
	assert_int_equal(count(far, UCCL_TRACE_RX), p.side[1].stats.rx_packets);
	assert_int_equal(count(t, UCCL_TRACE_LOST), 1);
	assert_true(count(t, UCCL_TRACE_RTT) > 0);
	assert_true(count(t, UCCL_TRACE_ACK) > 0);
	lost = first(t, UCCL_TRACE_LOST);
	again = first(t, UCCL_TRACE_TX_AGAIN);
	assert_int_equal((uint32_t)lost->seq, (uint32_t)(c.csn[0] + 2));
	assert_int_equal((uint32_t)again->seq, (uint32_t)lost->seq);
	assert_int_equal(again->len, lost->len);
	assert_true(again->ns >= lost->ns);
	assert_int_equal(lost->peer, 7);
	pair_fini(&p);
	free(t);
	free(far);
}

/* A refused packet: its reason and path. */
TEST(flow_trace__refused)
{
	struct pair_cfg c = pair_packets();
	struct uccl_hdr h = {.type = UCCL_PKT_HELLO, .path = 2};
	struct uccl_trace *t = ring(64);

	pair_init(&p, &c);
	p.side[1].f.cfg.trace = t;
	pair_feed(&p, 1, &h, NULL, NULL);
	assert_int_equal(count(t, UCCL_TRACE_DROP), 1);
	assert_int_equal(first(t, UCCL_TRACE_DROP)->what, UCCL_DROP_STATE);
	assert_int_equal(first(t, UCCL_TRACE_DROP)->path, 2);
	pair_fini(&p);
	free(t);
}

static void lose_path1(struct pair *q, struct pair_pkt *k)
{
	if (k->to == 1 && k->path == 1)
		k->fate = PAIR_DROP;
}

/* A path that goes dead: time-outs or losses, then its changes of state in order. */
TEST(flow_trace__path_states)
{
	struct pair_cfg c = pair_packets();
	struct uccl_trace *t = ring(1 << 16);
	uint8_t expect[] = {UCCL_PATH_SUSPECT, UCCL_PATH_QUARANTINE, UCCL_PATH_PROBATION};
	unsigned int got = 0;

	pair_init(&p, &c);
	p.side[0].f.cfg.trace = t;
	p.filter = lose_path1;
	for (int i = 0; i < 40; i++) {
		pair_bulk(&p, 0, 64 * 1024);
		assert_true(pair_finish(&p, 1000 * MS));
		pair_run(&p, p.now + 5 * MS);
	}
	assert_true(t->next <= 1 << 16);
	for (uint64_t i = 0; i < t->next && got < 3; i++)
		if (t->rec[i].kind == UCCL_TRACE_PATH) {
			assert_int_equal(t->rec[i].path, 1);
			assert_int_equal(t->rec[i].what, expect[got]);
			got++;
		}
	assert_int_equal(got, 3);
	pair_fini(&p);
	free(t);
}

TESTS_MAIN
