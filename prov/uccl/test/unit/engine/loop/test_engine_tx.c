/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../lan.h"
#include "../../tests.h"

#include <stdlib.h>
#include <string.h>

#define MS UCCL_NS_PER_MS
#define SECOND UCCL_NS_PER_S

static uint8_t src[1 << 19], dst[1 << 19];

/* A batch ends where a burst does, so that no train is cut by its end. */
TEST(tx__whole_bursts)
{
	struct lan *l = lan_new();
	uint64_t before;

	l->node[0].cfg.chunk_bytes = l->node[1].cfg.chunk_bytes = 1024;
	l->node[0].train_bytes = 32 * LAN_MTU;
	lan_open(l, 0);
	lan_open(l, 1);
	lan_talk(l);
	lan_fill(src, 60000, 4);
	lan_recv(l, 1, dst, 60000, LAN_CTX(1));
	/* What is left of the burst of the talk before, and the next one: 60 chunks. */
	before = l->node[0].nic->txs;
	assert_int_equal(lan_send(l, 0, 1, src, 60000, LAN_CTX(2)), 0);
	assert_int_equal(l->node[0].nic->txs - before, 2);
	lan_run(l, SECOND);
	lan_expect(l, 0, LAN_CTX(2), 0);
	lan_expect(l, 1, LAN_CTX(1), 0);
	lan_check(dst, 60000, 4);
	lan_free(l);
}

/* The NIC takes nothing for a while: what waits goes later, in order, and nothing is lost. */
TEST(tx__back_pressure)
{
	struct lan *l = lan_new_open(2);

	lan_talk(l);
	lan_fill(src, 300000, 4);
	for (int i = 0; i < 3; i++) {
		lan_recv(l, 1, dst + i * 100000, 100000, LAN_CTX(i));
		l->node[0].nic->room = 0;
		assert_int_equal(lan_send(l, 0, 1, src + i * 100000, 100000, LAN_CTX(i)), 0);
		/* Something waits: poll again at once. */
		assert_true(uccl_engine_expiry(l->node[0].e) <= l->now);
	}
	for (int i = 0; i < 50; i++) {
		assert_int_equal(lan_waiting(l, 1), 0);
		lan_round(l);
	}
	for (int i = 0; i < 400; i++) {
		l->node[0].nic->room = i % 3;
		lan_round(l);
	}
	l->node[0].nic->room = -1;
	lan_run(l, SECOND);
	assert_int_equal(lan_waiting(l, 0), 3);
	assert_int_equal(lan_waiting(l, 1), 3);
	lan_check(dst, 300000, 4);
	lan_free(l);
}

/* Also while it connects. */
TEST(tx__back_pressure_at_the_handshake)
{
	struct lan *l = lan_new_open(2);

	l->node[0].nic->room = l->node[1].nic->room = 0;
	lan_recv(l, 1, dst, 10, LAN_CTX(1));
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(2)), 0);
	for (int i = 0; i < 20; i++)
		lan_round(l);
	for (int i = 0; i < 200; i++) {
		l->node[0].nic->room = l->node[1].nic->room = 1;
		lan_round(l);
	}
	lan_expect(l, 0, LAN_CTX(2), 0);
	lan_expect(l, 1, LAN_CTX(1), 0);
	assert_int_equal(lan_stats(l, 0)->connects, 1);
	lan_free(l);
}

/* An error is a loss. PROTOCOL R15 */
TEST(tx__errors)
{
	struct lan *l = lan_new_open(2);

	lan_talk(l);
	lan_fill(src, 100000, 5);
	lan_recv(l, 1, dst, 100000, LAN_CTX(1));
	l->node[0].nic->tx_error = -FI_EIO;
	assert_int_equal(lan_send(l, 0, 1, src, 100000, LAN_CTX(2)), 0);
	lan_pass(l, 50 * MS);
	assert_int_equal(lan_waiting(l, 0), 0);
	/* Nothing waits for a NIC that fails. */
	assert_int_equal(l->node[0].e->out.n, 0);
	l->node[0].nic->tx_error = 0;
	lan_run(l, 5 * SECOND);
	lan_expect(l, 0, LAN_CTX(2), 0);
	lan_expect(l, 1, LAN_CTX(1), 0);
	lan_check(dst, 100000, 5);
	lan_free(l);
}

/* The message is late, and before its sender is told so its NIC is full. */
static enum lan_verdict hold_message(struct lan *l, const struct lan_event *ev)
{
	if (ev->from == 1)
		l->node[0].nic->room = 0;
	return ev->type == UCCL_PKT_CHUNK ? LAN_HOLD : LAN_PASS;
}

/*
 * A retransmission waits for the NIC while the acknowledgement of the original arrives: the application has its buffer
 * back, so it must not be read any more. (The buffer is freed in done(); a sanitizer would tell.) PROTOCOL R16
 */
static uint8_t *given_back;

static void free_buffer(struct uccl_op *op)
{
	struct lan_node *n = op->api;

	n->ncomp++;
	free(given_back);
	given_back = NULL;
	uccl_op_put(n->e, op);
}

TEST(tx__acknowledged_while_it_waits)
{
	struct lan *l = lan_new_open(2);
	struct uccl_op *op;
	uint64_t rtx;

	lan_talk(l);
	given_back = malloc(1000);
	assert_non_null(given_back);
	lan_fill(given_back, 1000, 6);
	l->filter = hold_message;
	lan_recv(l, 1, dst, 1000, LAN_CTX(1));
	op = lan_op(l, 0, UCCL_OP_SEND, 0, given_back, 1000);
	op->peer = lan_peer(l, 0, 1);
	op->done = free_buffer;
	assert_int_equal(uccl_engine_send(l->node[0].e, op, l->now), 0);
	lan_round(l);
	rtx = lan_stats(l, 0)->rtx_packets;
	for (int i = 0; i < 100 && lan_stats(l, 0)->rtx_packets == rtx; i++)
		lan_pass(l, MS);
	assert_true(lan_stats(l, 0)->rtx_packets > rtx);
	assert_true(l->node[0].e->out.n > 0);
	assert_non_null(given_back);
	l->filter = NULL;
	lan_release(l, false);
	for (int i = 0; i < 3; i++)
		lan_round(l);
	assert_null(given_back);
	l->node[0].nic->room = -1;
	lan_run(l, SECOND);
	lan_expect(l, 1, LAN_CTX(1), 0);
	lan_check(dst, 1000, 6);
	assert_int_equal(lan_stats(l, 1)->dropped[UCCL_DROP_DUPLICATE], 0);
	lan_free(l);
}

static enum lan_verdict count_to_one(struct lan *l, const struct lan_event *ev)
{
	l->n += ev->to == 1;
	return LAN_PASS;
}

/* A peer that ended: its packets that the NIC has not taken do not leave. */
TEST(tx__forgets_the_dead)
{
	struct lan *l = lan_new_open(3);

	lan_talk(l);
	lan_recv(l, 2, dst + 100, 100, LAN_CTX(5));
	assert_int_equal(lan_send(l, 0, 2, src, 100, LAN_CTX(4)), 0);
	lan_run(l, SECOND);
	lan_expect(l, 0, LAN_CTX(4), 0);
	l->node[0].nic->room = 0;
	given_back = malloc(5000);
	assert_non_null(given_back);
	memset(given_back, 1, 5000);
	assert_int_equal(lan_send(l, 0, 1, given_back, 5000, LAN_CTX(1)), 0);
	lan_recv(l, 2, dst, 100, LAN_CTX(2));
	assert_int_equal(lan_send(l, 0, 2, src, 100, LAN_CTX(3)), 0);
	conn_fail(lan_conn(l, 0, 1), FI_ECONNABORTED, l->now);
	lan_expect(l, 0, LAN_CTX(1), FI_ECONNABORTED);
	free(given_back);
	l->node[0].nic->room = -1;
	l->filter = count_to_one;
	lan_run(l, SECOND);
	assert_int_equal(l->n, 0);
	lan_expect(l, 0, LAN_CTX(3), 0);
	lan_expect(l, 2, LAN_CTX(5), 0);
	lan_expect(l, 2, LAN_CTX(2), 0);
	lan_free(l);
}

static int64_t ahead;	/* bytes that node 1 was sent more than node 2, as turns count them */

static enum lan_verdict count_turns(struct lan *l, const struct lan_event *ev)
{
	int64_t cost = (int64_t)uccl_max(ev->rx.len - UCCL_HDR_LEN, 1024);

	(void)l;
	if (!ev->from)
		ahead += ev->to == 1 ? cost : -cost;
	return LAN_PASS;
}

/* A flow in the midst of a train goes on first. */
static void expect_whole_trains(struct lan *l)
{
	for (int to = 1; to < 3; to++) {
		const struct uccl_flow *f = &lan_conn(l, 0, to)->peer.flow;

		assert_true(!f->sent.out.left || TAILQ_FIRST(&l->node[0].e->out.ready) == f);
		l->n += f->sent.out.left > 0;
	}
}

static void round_of_eight(struct lan *l)
{
	l->node[0].nic->room = 8;
	lan_round(l);
	expect_whole_trains(l);
}

/*
 * Node 0 has plenty for node 2, in long messages, and for node 1 in messages of such a length. Its NIC takes 8 packets
 * in a round, so it is always full. Neither gets more than the other, but for a turn and a train (`train`: of the
 * longest). PROTOCOL R163
 */
static void send_to_two(struct lan *l, uint64_t len, int64_t train, int rounds)
{
	lan_talk(l);
	lan_recv(l, 2, dst, 100, LAN_CTX(1));
	assert_int_equal(lan_send(l, 0, 2, src, 100, LAN_CTX(2)), 0);
	lan_run(l, SECOND);
	l->node[0].nic->room = 0;
	for (int i = 0; i < 1000; i++) {
		lan_recv(l, 1, dst, len, LAN_CTX(1));
		assert_int_equal(lan_send(l, 0, 1, src, len, LAN_CTX(2)), 0);
	}
	for (int i = 0; i < 4; i++) {
		lan_recv(l, 2, dst, sizeof(src), LAN_CTX(1));
		assert_int_equal(lan_send(l, 0, 2, src, sizeof(src), LAN_CTX(2)), 0);
	}
	l->filter = count_turns;
	/* What waits for the NIC leaves: all of it is for the first. And the second gets its CTS. */
	for (int i = 0; i < TX_BATCH / 8 || TAILQ_EMPTY(&lan_conn(l, 0, 2)->peer.flow.sendq.bulk); i++) {
		assert_in_range(i, 0, TX_BATCH / 2);
		round_of_eight(l);
	}
	ahead = 0;
	for (int i = 0; i < rounds; i++) {
		round_of_eight(l);
		assert_in_range(ahead + 65536 + train, 0, 2 * (65536 + train));
	}
	l->filter = NULL;
	l->node[0].nic->room = -1;
	lan_run(l, SECOND);
	assert_int_equal(lan_waiting(l, 2), 5);
	lan_free(l);
}

TEST(tx__turns_by_bytes)
{
	send_to_two(lan_new_open(3), 2000, LAN_MTU, 100);
}

/* Short packets count for more than they are: each is a call, or work in the kernel. */
TEST(tx__turns_of_short_packets)
{
	send_to_two(lan_new_open(3), 100, LAN_MTU, 60);
}

TEST(tx__turns_end_with_a_train)
{
	struct lan *l = lan_new();

	l->node[0].train_bytes = 65536;
	for (int i = 0; i < 3; i++) {
		l->node[i].cfg.chunk_bytes = 1500;
		lan_open(l, i);
	}
	/* A lan is freed in there. */
	send_to_two(l, 900, 65536, 100);
}

/* Rounds until a small message has arrived behind so many long ones. Its NIC takes 4 packets in a round. */
static int small_behind(int longs, uint32_t train_bytes)
{
	struct lan *l = lan_new();
	const struct lan_comp *got = NULL;
	int rounds = 0;

	l->node[0].train_bytes = train_bytes;
	for (int i = 0; i < 2; i++) {
		l->node[i].cfg.chunk_bytes = 1400;
		lan_open(l, i);
	}
	lan_talk(l);
	for (int i = 0; i < longs; i++) {
		lan_recv(l, 1, dst, sizeof(src), LAN_CTX(1));
		assert_int_equal(lan_send(l, 0, 1, src, sizeof(src), LAN_CTX(2)), 0);
	}
	for (int i = 0; i < 30; i++) {
		l->node[0].nic->room = 4;
		lan_round(l);
	}
	lan_recv(l, 1, dst, 64, LAN_CTX(1));
	assert_int_equal(lan_send(l, 0, 1, src, 64, LAN_CTX(2)), 0);
	for (; !got; rounds++) {
		l->node[0].nic->room = 4;
		lan_round(l);
		got = lan_waiting(l, 1) ? lan_next(l, 1) : NULL;
	}
	/* It was the first to arrive. */
	assert_int_equal(got->len, 64);
	l->node[0].nic->room = -1;
	lan_run(l, SECOND);
	lan_free(l);
	return rounds;
}

/* It waits for no more than what the NIC was to get already. PROTOCOL R130 */
TEST(tx__small_ones_pass_long_ones)
{
	for (uint32_t train = 0; train <= 65536; train += 65536) {
		int alone = small_behind(0, train);

		assert_int_equal(alone, 2);
		assert_in_range(small_behind(1, train), alone, alone + TX_BATCH / 4);
		assert_in_range(small_behind(4, train), alone, alone + TX_BATCH / 4);
	}
}

TESTS_MAIN
