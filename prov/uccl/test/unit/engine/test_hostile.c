/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* One peer that takes all it can get, or is stopped, beside an honest one: the honest one is served as if alone. */
#include "lan.h"

#include <stdlib.h>
#include <string.h>

#include "msg/msg_ep.h"
#include "../tests.h"

#define SECOND UCCL_NS_PER_S
#define MB (1u << 20)

enum { HONEST, VICTIM, OTHER };

static uint8_t src[2 * MB], dst[2 * MB], region[2 * MB], sink[2 * MB];

static int resolve(void *arg, const struct uccl_nic_addr *from, const struct uccl_seg *seg, uint32_t access,
			  struct iovec *iov, void **which)
{
	if (seg->key != 1)
		return -UCCL_REFUSED_KEY;
	if (seg->addr > sizeof(region) || seg->len > sizeof(region) - seg->addr)
		return -UCCL_REFUSED_RANGE;
	iov[0] = (struct iovec){.iov_base = region + seg->addr, .iov_len = seg->len};
	*which = region;
	return 1;
}

static void lock(void *arg)
{
}

static void event(void *arg, const struct uccl_rma_event *ev)
{
}

static const struct uccl_target_ops target = {.resolve = resolve, .lock = lock, .unlock = lock, .event = event};

/* Three engines; the honest one and the other one have spoken with the victim. */
static struct lan *begin(void)
{
	struct lan *l = lan_new();

	for (int i = 0; i < 3; i++) {
		l->node[i].target = i == VICTIM ? &target : NULL;
		lan_open(l, i);
	}
	for (int i = 0; i < 3; i += 2) {
		assert_int_equal(lan_send(l, i, VICTIM, src, 8, LAN_CTX(1)), 0);
		lan_recv(l, VICTIM, dst, 8, LAN_CTX(1));
		lan_run(l, SECOND);
		lan_expect(l, i, LAN_CTX(1), 0);
		lan_expect(l, VICTIM, LAN_CTX(1), 0);
	}
	return l;
}

static void rma(struct lan *l, int i, uint8_t type, void *buf, uint64_t len, void *context)
{
	struct uccl_op *op = lan_op(l, i, type, 0, buf, len);

	assert_non_null(op);
	op->peer = lan_peer(l, i, VICTIM);
	op->context = context;
	op->rma.nseg = 1;
	op->rma.seg[0] = (struct uccl_seg){.len = len, .key = 1};
	assert_int_equal(uccl_engine_rma(l->node[i].e, op, l->now), 0);
}

/* Reads of a process that is stopped hold their part of what is staged, writes theirs of the replies. PROTOCOL R121 */
TEST(share__a_stopped_reader)
{
	for (int write = 0; write < 2; write++) {
		struct lan *l = begin();
		const struct uccl_msg_ep *m = &l->node[VICTIM].e->msg_ep;

		if (write)
			l->node[VICTIM].e->msg_ep.reply.pool.max = 100;
		lan_fill(region, MB, 3);
		for (int i = 0; i < 200; i++)
			rma(l, OTHER, write ? UCCL_OP_WRITE : UCCL_OP_READ, sink, write ? 0 : MB, NULL);
		/* Its first slots are few: so long until most requests have left. */
		lan_pass(l, 20 * UCCL_NS_PER_US);
		l->node[OTHER].asleep = true;
		lan_pass(l, 100 * UCCL_NS_PER_MS);
		assert_true(lan_conn(l, VICTIM, OTHER)->peer.serve.n > 100);
		assert_in_range(m->reply.staged_bytes, 0, UCCL_STAGED_MAX / 2);
		assert_in_range(m->reply.pool.used, 0, write ? 50 : UCCL_REPLIES_MAX);
		memset(dst, 0, MB);
		for (int i = 0; i < 10; i++) {
			rma(l, HONEST, UCCL_OP_READ, dst, MB, LAN_CTX(i));
			rma(l, HONEST, UCCL_OP_WRITE, src, 0, LAN_CTX(100 + i));
		}
		lan_pass(l, SECOND);
		assert_int_equal(lan_waiting(l, HONEST), 20);
		lan_check(dst, MB, 3);
		/* The other one goes on where it was stopped. */
		l->node[OTHER].asleep = false;
		lan_pass(l, 5 * SECOND);
		assert_int_equal(lan_waiting(l, OTHER), 200);
		assert_int_equal(m->reply.staged_bytes, 0);
		lan_free(l);
	}
}

/* However little is left, who has nothing staged gets a part at a time, and an atomic operation whole. PROTOCOL R121 */
LAN_TEST(share__nothing_left, begin())
{
	struct uccl_msg_ep *m = &l->node[VICTIM].e->msg_ep;

	lan_fill(region, MB, 4);
	m->reply.staged_bytes = UCCL_STAGED_MAX;
	for (int i = 0; i < 4; i++)
		rma(l, HONEST, UCCL_OP_READ, dst, MB, LAN_CTX(i));
	for (int i = 0; i < 20000 && lan_waiting(l, HONEST) < 4; i++) {
		lan_round(l);
		assert_in_range(m->reply.staged_bytes, UCCL_STAGED_MAX, UCCL_STAGED_MAX + UCCL_EAGER_MAX);
	}
	assert_int_equal(lan_waiting(l, HONEST), 4);
	lan_check(dst, MB, 4);
	lan_pass(l, UCCL_NS_PER_MS);
	m->reply.staged_bytes -= UCCL_STAGED_MAX;
	assert_int_equal(m->reply.staged_bytes, 0);
}

static uint64_t held_bytes(const struct uccl_msg_ep *m)
{
	return m->unexpected.bytes + (uint64_t)m->unexpected.n * UCCL_UNEXPECTED_COST;
}

static void flood(struct lan *l, uint64_t len, int n)
{
	struct uccl_peer *p = lan_peer(l, OTHER, VICTIM);

	for (int i = 0; i < n; i++) {
		struct uccl_op *op = lan_op(l, OTHER, UCCL_OP_SEND, UCCL_OPF_TAGGED, src, len);

		assert_non_null(op);
		op->peer = p;
		op->tag = 7;
		l->node[OTHER].ncomp = l->node[OTHER].seen = 0;
		assert_int_equal(uccl_engine_send(l->node[OTHER].e, op, l->now), 0);
		if (i % 16 == 15)
			lan_round(l);
	}
	for (int i = 0; i < 1000; i++) {
		l->node[OTHER].ncomp = l->node[OTHER].seen = 0;
		lan_round(l);
	}
}

/* What one peer sends that nobody wants is no matter of the others. PROTOCOL R42 */
LAN_TEST(unexpected__of_one_peer, begin())
{
	uint64_t before;

	flood(l, 32768, 3000);
	assert_true(lan_peer(l, OTHER, VICTIM)->flow.limits.envelopes_only);
	assert_in_range(held_bytes(&l->node[VICTIM].e->msg_ep), 32 * MB, 70 * MB);
	lan_pass(l, 10 * UCCL_NS_PER_MS);
	for (int i = 0; i < 3; i++) {
		before = l->packets;
		lan_recv(l, VICTIM, dst, MB, LAN_CTX(2));
		lan_send(l, HONEST, VICTIM, src, 1000, LAN_CTX(3));
		lan_run(l, 100 * UCCL_NS_PER_MS);
		lan_expect(l, HONEST, LAN_CTX(3), 0);
		lan_expect(l, VICTIM, LAN_CTX(2), 0);
		assert_false(lan_peer(l, HONEST, VICTIM)->flow.limits.envelopes_only);
		assert_in_range(l->packets - before, 2, 4);
	}
}

/*
 * Messages without payload are bounded by their number; the rest waits at their sender, and comes when there is room,
 * although nothing of the sender's own would bring that news. PROTOCOL R120
 */
LAN_TEST(unexpected__by_count, begin())
{
	const int n = UCCL_MSG_LIMIT + 2000;
	struct uccl_msg_ep *m = &l->node[VICTIM].e->msg_ep;

	flood(l, 0, n);
	lan_pass(l, 100 * UCCL_NS_PER_MS);
	assert_int_equal(m->unexpected.n, UCCL_MSG_LIMIT);
	for (int i = 0; i < n; i++) {
		struct uccl_op *op = lan_op(l, VICTIM, UCCL_OP_RECV, UCCL_OPF_TAGGED, dst, 8);

		assert_non_null(op);
		op->tag = 7;
		l->node[VICTIM].ncomp = l->node[VICTIM].seen = 0;
		l->node[OTHER].ncomp = l->node[OTHER].seen = 0;
		assert_int_equal(uccl_engine_recv(l->node[VICTIM].e, op, l->now), 0);
		/* One by one, with whatever comes next. */
		for (int k = 0; k < 100 && !l->node[VICTIM].ncomp; k++)
			lan_round(l);
		assert_int_equal(l->node[VICTIM].ncomp, 1);
		assert_int_equal(l->node[VICTIM].comp[0].err, 0);
	}
	assert_int_equal(m->unexpected.n, 0);
}

static enum lan_verdict drop_of_victim(struct lan *l, const struct lan_event *ev)
{
	return ev->from == VICTIM ? LAN_DROP : LAN_PASS;
}

/* That news is lost, and nothing is under way that would show it: whose messages wait asks. PROTOCOL R120 */
LAN_TEST(unexpected__news_are_lost, begin())
{
	struct uccl_msg_ep *m = &l->node[VICTIM].e->msg_ep;

	flood(l, 0, UCCL_MSG_LIMIT + 200);
	lan_pass(l, 100 * UCCL_NS_PER_MS);
	assert_int_equal(m->unexpected.n, UCCL_MSG_LIMIT);
	l->filter = drop_of_victim;
	for (int i = 0; i < UCCL_MSG_LIMIT; i++) {
		struct uccl_op *op = lan_op(l, VICTIM, UCCL_OP_RECV, UCCL_OPF_TAGGED, dst, 8);

		assert_non_null(op);
		op->tag = 7;
		l->node[VICTIM].ncomp = l->node[VICTIM].seen = 0;
		assert_int_equal(uccl_engine_recv(l->node[VICTIM].e, op, l->now), 0);
	}
	lan_round(l);
	l->filter = NULL;
	assert_int_equal(m->unexpected.n, 0);
	lan_pass(l, 5 * SECOND);
	assert_int_equal(m->unexpected.n, 200);
}

/* Who ends leaves what it sent, but not again and again: the oldest go. PROTOCOL R46 */
LAN_TEST(unexpected__of_many_lives, begin())
{
	struct uccl_msg_ep *m = &l->node[VICTIM].e->msg_ep;
	uint64_t most = 0;

	for (int i = 0; i < 8; i++) {
		flood(l, 16384, 1500);
		most = uccl_max(most, held_bytes(m));
		lan_kill(l, OTHER);
		lan_open(l, OTHER);
		lan_recv(l, VICTIM, dst, 8, LAN_CTX(1));
		lan_send(l, OTHER, VICTIM, src, 8, LAN_CTX(1));
		lan_run(l, 3 * SECOND);
		lan_expect(l, VICTIM, LAN_CTX(1), 0);
		assert_in_range((uint64_t)m->unexpected.left_bytes +
					(uint64_t)m->unexpected.left_n * UCCL_UNEXPECTED_COST,
				0, (2 * m->unexpected.max + UCCL_UNEXPECTED_MORE) / 4);
	}
	assert_in_range(most, MB, 2 * m->unexpected.max);
	/* What it sent last is there. */
	lan_recv(l, VICTIM, dst, MB, LAN_CTX(5));
	lan_send(l, HONEST, VICTIM, src, 1000, LAN_CTX(6));
	lan_run(l, SECOND);
	lan_expect(l, VICTIM, LAN_CTX(5), 0);
}

TESTS_MAIN
