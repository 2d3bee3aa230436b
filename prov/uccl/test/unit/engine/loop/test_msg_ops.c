/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../lan.h"
#include "../../tests.h"

#define SECOND UCCL_NS_PER_S

static uint8_t src[1 << 18], dst[1 << 18];

static enum lan_verdict lose_write(struct lan *l, const struct lan_event *ev)
{
	return ev->rx.kind == UCCL_RX_WRITE && l->n++ == 3 ? LAN_DROP : LAN_PASS;
}

/* The NIC that writes: registration, fence, their end. PROTOCOL R24 R26 */
LAN_TEST(writes__through_the_engine, lan_new())
{
	l->writes = true;
	lan_open(l, 0);
	lan_open(l, 1);
	lan_fill(src, 200000, 1);
	lan_recv(l, 1, dst, 200000, LAN_CTX(1));
	assert_int_equal(lan_send(l, 0, 1, src, 200000, LAN_CTX(2)), 0);
	lan_run(l, SECOND);
	lan_expect(l, 0, LAN_CTX(2), 0);
	lan_expect(l, 1, LAN_CTX(1), 0);
	lan_check(dst, 200000, 1);
	assert_true(lan_stats(l, 0)->writes_tx > 10);
	assert_int_equal(lan_stats(l, 1)->writes_rx, lan_stats(l, 0)->writes_tx);
	l->filter = lose_write;
	lan_fill(src, 100000, 2);
	lan_recv(l, 1, dst, 100000, LAN_CTX(3));
	assert_int_equal(lan_send(l, 0, 1, src, 100000, LAN_CTX(4)), 0);
	lan_run(l, SECOND);
	lan_expect(l, 0, LAN_CTX(4), 0);
	lan_expect(l, 1, LAN_CTX(3), 0);
	lan_check(dst, 100000, 2);
	assert_int_equal(l->node[1].nic->nfences, 1);
}

static enum lan_verdict lose_replies(struct lan *l, const struct lan_event *ev)
{
	(void)l;
	return ev->from == 1 ? LAN_DROP : LAN_PASS;
}

/* What is read leaves from the region, so packets that wait for the NIC when that ends are lost. PROTOCOL R393 */
TEST(settle__nothing_waits)
{
	for (int full = 0; full < 2; full++) {
		struct lan *l = lan_new();
		struct uccl_op *op;

		for (int i = 0; i < 2; i++) {
			l->node[i].target = &lan_target;
			lan_open(l, i);
		}
		lan_talk(l);
		lan_fill(lan_region, 60000, 3);
		op = lan_op(l, 0, UCCL_OP_READ, 0, dst, 60000);
		op->peer = lan_peer(l, 0, 1);
		op->rma.nseg = 1;
		op->rma.seg[0] = (struct uccl_seg){.len = 60000, .key = 1};
		op->context = LAN_CTX(1);
		l->filter = lose_replies;
		l->node[1].nic->room = full ? 2 : -1;
		assert_int_equal(uccl_engine_rma(l->node[0].e, op, l->now), 0);
		for (int i = 0; i < 10; i++)
			lan_round(l);
		assert_int_equal(lan_conn(l, 1, 0)->peer.reply.in_place, 1);
		assert_int_equal(l->node[1].e->out.n > 0, full);
		uccl_engine_revoke(l->node[1].e, lan_region, NULL, l->now);
		memset(lan_region, 0xbb, 60000);
		assert_int_equal(lan_conn(l, 1, 0)->peer.reply.in_place, 0);
		for (int i = l->node[1].e->out.head; i < l->node[1].e->out.n; i++)
			assert_true((uintptr_t)l->node[1].e->out.v[i].payload - (uintptr_t)lan_region >= 60000);
		l->filter = NULL;
		l->node[1].nic->room = -1;
		lan_run(l, 10 * SECOND);
		lan_expect(l, 0, LAN_CTX(1), 0);
		lan_check(dst, 60000, 3);
		lan_free(l);
	}
}

TESTS_MAIN
