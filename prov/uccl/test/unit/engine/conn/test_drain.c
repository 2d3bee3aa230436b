/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../lan.h"
#include "../../tests.h"

#include <math.h>

#define MS UCCL_NS_PER_MS
#define SECOND UCCL_NS_PER_S

static uint8_t src[1 << 19], dst[1 << 19];

static enum lan_verdict lose_close_acks(struct lan *l, const struct lan_event *ev)
{
	return ev->type == UCCL_PKT_CLOSE_ACK && l->n++ < 3 ? LAN_DROP : LAN_PASS;
}

/* The peer is dead to us and still answers, so that its closer need not linger. PROTOCOL R50 R51 */
LAN_TEST(drain__close_is_answered_again, lan_new_open(2))
{
	lan_talk(l);
	l->filter = lose_close_acks;
	l->node[0].e->cfg.linger_ns = 10 * SECOND;
	uccl_engine_drain(l->node[0].e, l->now);
	uccl_engine_drain(l->node[0].e, l->now);
	assert_false(uccl_engine_drained(l->node[0].e));
	for (int i = 0; i < 40 && !uccl_engine_drained(l->node[0].e); i++)
		lan_pass(l, 5 * MS);
	assert_true(uccl_engine_drained(l->node[0].e));
	assert_int_equal(l->n, 4);
	assert_int_equal(lan_stats(l, 1)->peers_closed, 1);
}

/* Never answered: not longer than the linger time. PROTOCOL R51 */
LAN_TEST(drain__lingers, lan_new_open(2))
{
	lan_talk(l);
	l->node[1].asleep = true;
	uccl_engine_drain(l->node[0].e, l->now);
	lan_pass(l, l->node[0].cfg.linger_ns - 20 * MS);
	assert_false(uccl_engine_drained(l->node[0].e));
	lan_pass(l, 40 * MS);
	assert_true(uccl_engine_drained(l->node[0].e));
	/* The peer finds it when it wakes. */
	lan_kill(l, 0);
	l->node[1].asleep = false;
	lan_run(l, 10 * MS);
	assert_int_equal(lan_stats(l, 1)->peers_closed, 1);
}

static enum lan_verdict lose_acks(struct lan *l, const struct lan_event *ev)
{
	return ev->from == 1 && ev->type == UCCL_PKT_ACK && l->n++ < 4 ? LAN_DROP : LAN_PASS;
}

/* What was accepted is delivered before the end, though the last acknowledgement is lost. PROTOCOL R51 */
LAN_TEST(drain__last_ack_lost, lan_new_open(2))
{
	lan_talk(l);
	l->filter = lose_acks;
	lan_fill(src, 60000, 1);
	lan_recv(l, 1, dst, 60000, LAN_CTX(1));
	assert_int_equal(lan_send(l, 0, 1, src, 60000, LAN_CTX(2)), 0);
	uccl_engine_drain(l->node[0].e, l->now);
	for (int i = 0; i < 400 && !uccl_engine_drained(l->node[0].e); i++)
		lan_pass(l, 5 * MS);
	assert_true(uccl_engine_drained(l->node[0].e));
	lan_expect(l, 0, LAN_CTX(2), 0);
	lan_kill(l, 0);
	lan_run(l, SECOND);
	lan_expect(l, 1, LAN_CTX(1), 0);
	lan_check(dst, 60000, 1);
}

/* The peer never takes the data: closing does not wait for ever. PROTOCOL R51 */
LAN_TEST(drain__stuck_data, lan_new_open(2))
{
	lan_talk(l);
	l->node[1].asleep = true;
	assert_int_equal(lan_send(l, 0, 1, src, 60000, LAN_CTX(2)), 0);
	uccl_engine_drain(l->node[0].e, l->now);
	lan_pass(l, 4 * SECOND);
	assert_false(uccl_engine_drained(l->node[0].e));
	lan_pass(l, 2 * SECOND);
	assert_true(uccl_engine_drained(l->node[0].e));
	lan_kill(l, 0);
	lan_expect(l, 0, LAN_CTX(2), FI_ECANCELED);
}

/* Two of which the first drains with a message to the second, which does not answer yet. */
static struct lan *drain_unanswered(void)
{
	struct lan *l = lan_new_open(2);

	l->node[1].asleep = true;
	assert_int_equal(lan_send(l, 0, 1, src, 100, LAN_CTX(1)), 0);
	uccl_engine_drain(l->node[0].e, l->now);
	return l;
}

/* A message that was complete before there was a connection is delivered all the same. PROTOCOL R51 */
LAN_TEST(drain__not_connected, drain_unanswered())
{
	lan_pass(l, 1 * SECOND);
	assert_false(uccl_engine_drained(l->node[0].e));
	l->node[1].asleep = false;
	assert_int_equal(lan_recv(l, 1, dst, 100, LAN_CTX(2)), 0);
	lan_pass(l, 3 * SECOND);
	lan_expect(l, 1, LAN_CTX(2), 0);
	assert_true(uccl_engine_drained(l->node[0].e));
}

/* Nobody ever answers: for a bounded time. */
LAN_TEST(drain__never_connected, drain_unanswered())
{
	lan_pass(l, 6 * SECOND);
	assert_true(uccl_engine_drained(l->node[0].e));
}

/* Both at once. PROTOCOL R50 R51 */
LAN_TEST(drain__both, lan_new_open(2))
{
	lan_talk(l);
	uccl_engine_drain(l->node[0].e, l->now);
	uccl_engine_drain(l->node[1].e, l->now);
	lan_pass(l, 50 * MS);
	assert_true(uccl_engine_drained(l->node[0].e));
	assert_true(uccl_engine_drained(l->node[1].e));
}

/* The answer to CLOSE finds the NIC full: the closer asks again. */
LAN_TEST(drain__answer_finds_nic_full, lan_new_open(2))
{
	lan_talk(l);
	l->node[1].nic->room = 0;
	uccl_engine_drain(l->node[0].e, l->now);
	for (int i = 0; i < 4; i++)
		lan_round(l);
	assert_int_equal(lan_stats(l, 1)->peers_closed, 1);
	assert_false(uccl_engine_drained(l->node[0].e));
	l->node[1].nic->room = -1;
	lan_pass(l, 50 * MS);
	assert_true(uccl_engine_drained(l->node[0].e));
}

/* What is posted to a peer that nobody has connected to, while we drain already, is accepted and delivered. */
LAN_TEST(drain__posted_later, lan_new_open(2))
{
	uccl_engine_drain(l->node[0].e, l->now);
	assert_true(uccl_engine_drained(l->node[0].e));
	lan_recv(l, 1, dst, 100, LAN_CTX(2));
	assert_int_equal(lan_send(l, 0, 1, src, 100, LAN_CTX(1)), 0);
	assert_false(uccl_engine_drained(l->node[0].e));
	lan_pass(l, 100 * MS);
	lan_expect(l, 0, LAN_CTX(1), 0);
	lan_expect(l, 1, LAN_CTX(2), 0);
	assert_int_equal(lan_stats(l, 1)->peers_closed, 1);
	assert_true(uccl_engine_drained(l->node[0].e));
}

LAN_TEST(drain__nobody, lan_new_open(1))
{
	l->now = 0;
	uccl_engine_drain(l->node[0].e, 0);
	assert_true(l->node[0].e->drain.began_ns != 0);
	assert_true(uccl_engine_drained(l->node[0].e));
}

/* A thousand polls of node 0, which drains and cannot end: the best time of several. */
static double drain_cost(struct lan *l)
{
	struct uccl_engine *e = l->node[0].e;
	double best = 1e9;

	for (int k = 0; k < 5; k++) {
		double from = lan_cpu_s();

		for (int i = 0; i < 1000; i++) {
			uccl_engine_poll(e, l->now);
			assert_false(uccl_engine_drained(e));
		}
		best = fmin(best, lan_cpu_s() - from);
	}
	return best;
}

/* However many are connected, who has nothing to get costs a draining endpoint nothing. */
TEST(drain__cost)
{
	double cost[2];

	for (int many = 0; many < 2; many++) {
		struct lan *l = lan_new_open(2);
		struct uccl_addr a = *uccl_engine_addr(l->node[1].e);

		lan_talk(l);
		for (uint32_t n = 0; n < (many ? 10000 : 100); n++) {
			a.incarnation++;
			assert_non_null(conn_new(l->node[0].e, &a, true));
		}
		l->node[1].asleep = true;
		assert_int_equal(lan_send(l, 0, 1, src, 60000, LAN_CTX(2)), 0);
		uccl_engine_drain(l->node[0].e, l->now);
		cost[many] = drain_cost(l);
		lan_free(l);
	}
	print_message("%.3f us with 100, %.3f us with 10,000\n", cost[0] * 1e3, cost[1] * 1e3);
	assert_true(cost[1] < 5 * cost[0]);
}

/* Those that have answered are not waited for, in whatever order; nor is who ends meanwhile. PROTOCOL R51 */
TEST(drain__in_any_order)
{
	struct lan *l = lan_new_open(4);
	struct uccl_engine *e = l->node[0].e;

	e->cfg.linger_ns = 10 * SECOND;
	for (int i = 1; i < 4; i++)
		assert_int_equal(lan_send(l, 0, i, src, 100, LAN_CTX(i)), 0);
	lan_run(l, 100 * MS);
	l->node[1].asleep = true;
	uccl_engine_drain(e, l->now);
	lan_pass(l, 100 * MS);
	assert_int_equal(lan_conn(l, 0, 3)->peer.flow.close.state, UCCL_FLOW_CLOSED);
	assert_false(uccl_engine_drained(e));
	conn_fail(lan_conn(l, 0, 2), FI_ECONNABORTED, l->now);
	conn_fail(lan_conn(l, 0, 1), FI_ECONNABORTED, l->now);
	assert_true(uccl_engine_drained(e));
	lan_pass(l, 100 * MS);
	assert_true(uccl_engine_drained(e));
	lan_free(l);
}

TESTS_MAIN
