/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "duo.h"
#include "../tests.h"

#include <sys/mman.h>
#include <unistd.h>

static uint8_t src[1 << 17], dst[1 << 17];

static const struct duo_comp *by_context(const struct duo *d, int s, void *context)
{
	const struct duo_comp *found = NULL;

	for (int i = 0; i < d->side[s].ncomp; i++)
		if (d->side[s].comp[i].context == context) {
			/* An operation ends once. */
			assert_null(found);
			found = &d->side[s].comp[i];
		}
	return found;
}

static void expect(const struct duo *d, int s, void *context, int err)
{
	const struct duo_comp *c = by_context(d, s, context);

	assert_non_null(c);
	assert_int_equal(c->err, err);
}

TEST(init__limits)
{
	struct uccl_stats stats = {0};
	struct uccl_msg_ep m;

	uccl_msg_ep_init(&m, NULL, &stats, 1ull << 40, 5, 3);
	assert_int_equal(m.eager_max, UCCL_EAGER_MAX);
	assert_int_equal(m.unexpected.max, 5);
	uccl_msg_ep_fini(&m, 0);
	uccl_msg_ep_init(&m, NULL, &stats, 0, 5, 3);
	assert_int_equal(m.eager_max, 0);
	uccl_msg_ep_fini(&m, 0);
}

DUO_TEST(fini__cancels, duo_open())
{
	duo_recv(d, 0, 0, dst, 10, 0, 0, DUO_CTX(1));
	duo_recv(d, 0, UCCL_OPF_TAGGED, dst, 10, 0, 0, DUO_CTX(2));
	/* Unexpected messages nobody wants go without a word. */
	duo_send(d, 1, UCCL_OPF_TAGGED, src, 10, 1, DUO_CTX(1));
	duo_send(d, 1, UCCL_OPF_TAGGED, src, 50000, 1, DUO_CTX(2));
	duo_run(d, SECOND);
	uccl_peer_fail(&d->side[0].peer, FI_ECANCELED, d->now);
	uccl_msg_ep_fini(&d->side[0].m, d->now);
	assert_int_equal(d->side[0].ncomp, 2);
	expect(d, 0, DUO_CTX(1), FI_ECANCELED);
	expect(d, 0, DUO_CTX(2), FI_ECANCELED);
	assert_null(by_context(d, 0, DUO_CTX(1))->from);
	uccl_msg_ep_init(&d->side[0].m, d->side[1].m.ops, &d->side[0].stats, 0, 0, 1);
}

/* Our own messages that nobody received, listed and claimed, injected and not: one completion each. */
DUO_TEST(fini__own_messages, duo_new(false, 32))
{
	struct uccl_msg_ep *m = &d->side[0].m;
	struct uccl_op *op;

	for (int i = 0; i < 6; i++)
		assert_int_equal(duo_send_self(d, 0, i % 2 ? UCCL_OPF_INJECT : 0, src, 0, DUO_CTX(i)), 0);
	op = duo_op(d, 0, UCCL_OP_RECV, 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(uccl_msg_peek(m, op, true, false, d->now), 0);
	uccl_msg_ep_op_put(m, op);
	uccl_peer_fail(&d->side[0].self, FI_ECANCELED, d->now);
	uccl_msg_ep_fini(m, d->now);
	assert_int_equal(d->side[0].ncomp, 6);
	for (int i = 0; i < 6; i++)
		expect(d, 0, DUO_CTX(i), i % 2 ? 0 : FI_ECANCELED);
	uccl_msg_ep_init(m, d->side[1].m.ops, &d->side[0].stats, 0, 0, 1);
}

DUO_TEST(op_get__bounded, duo_new(false, 3))
{
	struct uccl_op *op[3];

	for (int i = 0; i < 3; i++) {
		op[i] = uccl_msg_ep_op_get(&d->side[0].m);
		assert_non_null(op[i]);
	}
	assert_null(uccl_msg_ep_op_get(&d->side[0].m));
	op[1]->context = d;
	uccl_msg_ep_op_put(&d->side[0].m, op[1]);
	op[1] = uccl_msg_ep_op_get(&d->side[0].m);
	assert_non_null(op[1]);
	assert_null(op[1]->context);
	for (int i = 0; i < 3; i++)
		uccl_msg_ep_op_put(&d->side[0].m, op[i]);
}

/* An op that msg still needs is not free yet. */
DUO_TEST(op_put__busy, duo_new(false, 1))
{
	duo_connect(d);
	assert_int_equal(duo_send(d, 0, UCCL_OPF_INJECT, src, 10, 0, DUO_CTX(1)), 0);
	expect(d, 0, DUO_CTX(1), 0);
	assert_null(uccl_msg_ep_op_get(&d->side[0].m));
	duo_run(d, SECOND);
	assert_int_equal(d->side[0].m.op_pool.used, 0);
}

TEST(peer_init__nothing_known)
{
	struct uccl_addr addr = {.incarnation = 5};
	struct uccl_peer p;
	struct uccl_msg_ep m;

	uccl_peer_init(&p, &m, &addr);
	assert_int_equal(p.user, UINT64_MAX);
	assert_int_equal(p.addr.incarnation, 5);
	assert_ptr_equal(p.msg_ep, &m);
	assert_false(p.open || p.self || p.dead);
	assert_true(TAILQ_EMPTY(&p.tx.pending) && TAILQ_EMPTY(&p.tx.sends) && TAILQ_EMPTY(&p.rx.all));
}

DUO_TEST(peer_opened__sends_what_waits, duo_new(false, 16))
{
	for (int i = 0; i < 3; i++)
		assert_int_equal(duo_send(d, 0, 0, src, 5, 0, DUO_CTX(i)), 0);
	assert_int_equal(d->side[0].connects, 3);
	duo_connect(d);
	assert_true(TAILQ_EMPTY(&d->side[0].peer.tx.pending));
	assert_int_equal(d->side[0].peer.flow.rx.ack_tracker.msg_limit, UCCL_MSG_LIMIT);
	assert_int_equal(d->side[0].peer.flow.rx.write.rtype, UCCL_REC_DATA);
	duo_run(d, SECOND);
	assert_int_equal(d->side[0].ncomp, 3);
}

/* Every operation to the dead ends once, with the error, and names the peer. PROTOCOL R45 */
TEST(peer_fail__sends)
{
	static const uint32_t flags[] = {0, UCCL_OPF_DELIVERY, UCCL_OPF_TAGGED | UCCL_OPF_DATA};
	static const uint64_t sizes[] = {0, 100, 3000, 50000};

	for (int when = 0; when < 4; when++) {
		struct duo *d = duo_new(when == 3, 64);
		int n = 0;

		if (when)
			duo_connect(d);
		if (when == 1)
			d->side[0].peer.flow.limits.msg_limit = 4;
		d->filter = duo_hold_all;
		for (unsigned int f = 0; f < uccl_array_len(flags); f++)
			for (unsigned int i = 0; i < uccl_array_len(sizes); i++)
				assert_int_equal(duo_send(d, 0, flags[f], src, sizes[i], 0, DUO_CTX(++n)), 0);
		for (int i = 0; i < 3 && when; i++)
			duo_round(d);
		uccl_peer_fail(&d->side[0].peer, FI_ECONNABORTED, d->now);
		uccl_peer_fail(&d->side[0].peer, FI_ETIMEDOUT, d->now);
		assert_int_equal(d->side[0].ncomp, n);
		for (int i = 1; i <= n; i++) {
			expect(d, 0, DUO_CTX(i), FI_ECONNABORTED);
			assert_ptr_equal(by_context(d, 0, DUO_CTX(i))->from, &d->side[0].peer);
		}
		assert_int_equal(d->side[0].m.op_pool.used, 0);
		assert_int_equal(d->side[0].peer.dead, FI_ECONNABORTED);
		assert_false(d->side[0].peer.open);
		duo_free(d);
	}
}

/* Half received: the receive fails. Not matched by it: waits for somebody else, unless directed. PROTOCOL R45 R46 */
TEST(peer_fail__receives)
{
	for (int writes = 0; writes < 2; writes++) {
		struct duo *d = duo_new(writes, 64);
		const struct duo_comp *c;

		duo_connect(d);
		duo_recv(d, 1, 0, dst, 60000, 0, 0, DUO_CTX(1));
		duo_recv(d, 1, 0, dst + 65536, 100, 0, 0, DUO_CTX(2));
		duo_recv(d, 1, UCCL_OPF_DIRECTED, dst, 100, 0, 0, DUO_CTX(3));
		duo_recv(d, 1, UCCL_OPF_TAGGED | UCCL_OPF_DIRECTED, dst, 100, 4, 0, DUO_CTX(4));
		duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 100, 4, 0, DUO_CTX(5));
		duo_send(d, 0, 0, src, 60000, 77, NULL);
		duo_round(d);
		duo_round(d);
		assert_int_equal(d->side[1].regs, writes);
		uccl_peer_fail(&d->side[1].peer, FI_ECONNRESET, d->now);
		assert_int_equal(d->side[1].ncomp, 3);
		expect(d, 1, DUO_CTX(1), FI_ECONNRESET);
		expect(d, 1, DUO_CTX(3), FI_ECONNRESET);
		expect(d, 1, DUO_CTX(4), FI_ECONNRESET);
		for (int i = 1; i < 5; i++) {
			c = by_context(d, 1, DUO_CTX(i));
			if (c) {
				assert_ptr_equal(c->from, &d->side[1].peer);
				assert_int_equal(c->len, 0);
			}
		}
		assert_int_equal(d->side[1].deregs, writes);
		/* A directed receive posted to the dead ends at once. */
		duo_recv(d, 1, UCCL_OPF_DIRECTED, dst, 100, 0, 0, DUO_CTX(6));
		expect(d, 1, DUO_CTX(6), FI_ECONNRESET);
		/* The endpoint goes on. */
		assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(2)), 0);
		assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(5)), 0);
		duo_free(d);
	}
}

/* What came whole can still be received; what did not fails the receive that meets it, in order. PROTOCOL R46 */
DUO_TEST(peer_fail__unexpected, duo_open())
{
	struct uccl_op *op;

	duo_fill(src, 50000, 1);
	duo_send(d, 0, UCCL_OPF_TAGGED, src, 5000, 1, NULL);
	duo_send(d, 0, UCCL_OPF_TAGGED, src, 50000, 2, NULL);
	duo_send(d, 0, UCCL_OPF_TAGGED | UCCL_OPF_DELIVERY, src, 100, 3, NULL);
	duo_send(d, 0, UCCL_OPF_TAGGED, src, 40000, 4, NULL);
	duo_send(d, 0, UCCL_OPF_TAGGED, src, 100, 5, NULL);
	duo_send(d, 0, UCCL_OPF_TAGGED, src, 40000, 6, NULL);
	duo_run(d, SECOND);
	op = duo_op(d, 1, UCCL_OP_RECV, UCCL_OPF_TAGGED);
	for (op->tag = 4; op->tag < 6; op->tag++) {
		op->context = DUO_CTX(op->tag);
		assert_int_equal(uccl_msg_peek(&d->side[1].m, op, true, false, d->now), 0);
	}
	uccl_peer_fail(&d->side[1].peer, FI_ECONNABORTED, d->now);
	assert_int_equal(d->side[1].ncomp, 0);
	for (uint64_t tag = 1; tag < 4; tag++)
		duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 60000, 0, UINT64_MAX, DUO_CTX(tag));
	expect(d, 1, DUO_CTX(1), 0);
	assert_int_equal(by_context(d, 1, DUO_CTX(1))->len, 5000);
	duo_check(dst + 100, 0, 1);
	expect(d, 1, DUO_CTX(2), FI_ECONNABORTED);
	assert_int_equal(by_context(d, 1, DUO_CTX(2))->len, 0);
	assert_int_equal(by_context(d, 1, DUO_CTX(2))->tag, 2);
	expect(d, 1, DUO_CTX(3), 0);
	duo_check(dst, 100, 1);
	/* Claimed ones likewise. */
	op->context = DUO_CTX(4);
	assert_int_equal(uccl_msg_recv_claimed(&d->side[1].m, op, false, d->now), 0);
	expect(d, 1, DUO_CTX(4), FI_ECONNABORTED);
	op = duo_op(d, 1, UCCL_OP_RECV, UCCL_OPF_TAGGED);
	op->context = DUO_CTX(5);
	duo_buffer(op, dst, 200);
	assert_int_equal(uccl_msg_recv_claimed(&d->side[1].m, op, false, d->now), 0);
	expect(d, 1, DUO_CTX(5), 0);
	assert_int_equal(by_context(d, 1, DUO_CTX(5))->len, 100);
	/* One that is thrown away. */
	op = duo_op(d, 1, UCCL_OP_RECV, UCCL_OPF_TAGGED);
	op->tag = 6;
	assert_int_equal(uccl_msg_peek(&d->side[1].m, op, false, true, d->now), 0);
	uccl_msg_ep_op_put(&d->side[1].m, op);
	assert_int_equal(d->side[1].m.rx_pool.used, 0);
	assert_int_equal(d->side[1].m.op_pool.used, 0);
}

/* What would wait for CTS although it has no more payload: nothing of it is asked of a peer that ended. PROTOCOL R28 */
TEST(peer_fail__nothing_to_ask_for)
{
	for (uint64_t len = 0; len < 20; len += 10)
		for (int claim = 0; claim < 2; claim++) {
			struct uccl_env env = {.flags = UCCL_ENV_TAGGED, .len = len, .id = 77, .tag = 5};
			struct duo *d = duo_open();
			struct uccl_op *op;

			duo_envelope(d, 1, &env, src, (uint32_t)len);
			op = duo_op(d, 1, UCCL_OP_RECV, UCCL_OPF_TAGGED);
			op->tag = 5;
			op->context = DUO_CTX(1);
			if (claim)
				uccl_msg_peek(&d->side[1].m, op, true, false, d->now);
			uccl_peer_fail(&d->side[1].peer, FI_ECONNABORTED, d->now);
			if (!claim || uccl_msg_recv_claimed(&d->side[1].m, op, false, d->now))
				uccl_msg_recv(&d->side[1].m, op, d->now);
			/* It was refused, so the receive waits for another message. */
			assert_int_equal(d->side[1].ncomp, 0);
			assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(1)), 0);
			duo_free(d);
		}
}

/* The unsolicited data may have been all of it: then it can be received, and nothing is asked for. PROTOCOL R46 R263 */
TEST(peer_fail__unsolicited)
{
	for (int whole = 0; whole < 2; whole++)
		for (int claim = 0; claim < 3; claim++) {
			struct uccl_env env = duo_unsolicited_env(0, 5, 400, 400);
			struct duo *d = duo_open_unsolicited();
			struct uccl_op *op = duo_op(d, 1, UCCL_OP_RECV, UCCL_OPF_TAGGED);

			duo_fill(src, 400, 2);
			duo_buffer(op, dst, 400);
			op->tag = 5;
			op->context = DUO_CTX(1);
			assert_int_equal(duo_envelope(d, 1, &env, src, 100), UCCL_DROP_COUNT);
			assert_int_equal(duo_eager(d, 1, 0, 100, 400, src + 100, whole ? 300 : 299), UCCL_DROP_COUNT);
			if (claim == 1)
				assert_int_equal(uccl_msg_peek(&d->side[1].m, op, true, false, d->now), 0);
			uccl_peer_fail(&d->side[1].peer, FI_ECONNABORTED, d->now);
			if (claim == 2) {
				assert_int_equal(uccl_msg_peek(&d->side[1].m, op, false, true, d->now), 0);
				uccl_msg_ep_op_put(&d->side[1].m, op);
			} else if (claim == 1) {
				assert_int_equal(uccl_msg_recv_claimed(&d->side[1].m, op, false, d->now), 0);
			} else {
				assert_int_equal(uccl_msg_recv(&d->side[1].m, op, d->now), 0);
			}
			if (claim < 2)
				expect(d, 1, DUO_CTX(1), whole ? 0 : FI_ECONNABORTED);
			if (claim < 2 && whole)
				duo_check(dst, 400, 2);
			assert_int_equal(d->side[1].m.rx_pool.used, 0);
			assert_int_equal(d->side[1].m.unexpected.bytes, 0);
			duo_free(d);
		}
}

/* Messages whose turn never came, and those that are done but for their records, leave nothing. PROTOCOL R46 */
DUO_TEST(peer_fail__early_and_finished, duo_open())
{
	struct uccl_env env = {.flags = UCCL_ENV_EAGER, .mseq = 1, .len = 10};
	struct uccl_env full = {.flags = UCCL_ENV_EAGER | UCCL_ENV_DELIVERY, .mseq = 0, .len = 4, .id = 3};

	d->filter = duo_hold_all;
	assert_int_equal(duo_eager(d, 1, 5, 0, 100, src, 40), UCCL_DROP_COUNT);
	assert_int_equal(duo_envelope(d, 1, &env, src, 10), UCCL_DROP_COUNT);
	duo_recv(d, 1, 0, dst, 10, 0, 0, DUO_CTX(1));
	duo_recv(d, 1, 0, dst, 10, 0, 0, DUO_CTX(2));
	assert_int_equal(duo_envelope(d, 1, &full, src, 4), UCCL_DROP_COUNT);
	expect(d, 1, DUO_CTX(1), 0);
	expect(d, 1, DUO_CTX(2), 0);
	/* FIN waits for its acknowledgement, message 5 for the rest. */
	assert_int_equal(d->side[1].m.rx_pool.used, 2);
	uccl_peer_fail(&d->side[1].peer, FI_ECONNABORTED, d->now);
	assert_int_equal(d->side[1].m.rx_pool.used, 0);
	assert_int_equal(d->side[1].m.unexpected.bytes, 0);
	assert_int_equal(d->side[1].ncomp, 2);
}

/* Messages in a multi-receive buffer end one by one; the buffer stays, or comes back with the last. PROTOCOL R40 R45 */
TEST(peer_fail__multi)
{
	for (int directed = 0; directed < 2; directed++)
		for (int cancel = 0; cancel < 2; cancel++) {
			struct duo *d = duo_open();
			struct uccl_op *op =
				duo_op(d, 1, UCCL_OP_RECV, UCCL_OPF_MULTI | (directed ? UCCL_OPF_DIRECTED : 0));
			int end = cancel ? 2 : directed ? 3 : 2;

			duo_buffer(op, dst, sizeof(dst));
			op->context = DUO_CTX(1);
			assert_int_equal(uccl_msg_recv(&d->side[1].m, op, d->now), 0);
			duo_send(d, 0, 0, src, 40000, 0, NULL);
			duo_send(d, 0, 0, src, 40000, 0, NULL);
			duo_round(d);
			if (cancel)
				assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(1)), 0);
			uccl_peer_fail(&d->side[1].peer, FI_ECONNABORTED, d->now);
			assert_int_equal(d->side[1].ncomp, end);
			for (int i = 0; i < end; i++) {
				const struct duo_comp *c = &d->side[1].comp[i];

				assert_int_equal(c->err, FI_ECONNABORTED);
				assert_int_equal(!!(c->flags & UCCL_OPF_MULTI), i == end - 1 && (cancel || directed));
			}
			assert_int_equal(d->side[1].m.op_pool.used, cancel || directed ? 0 : 1);
			duo_free(d);
		}
}

/* A claimed message that still comes, and one that waits for its fence: the receive fails with the peer. PROTOCOL R26
 * R45 */
static enum duo_verdict lose_write(struct duo *d, const struct duo_pkt *p)
{
	return p->kind == UCCL_TX_WRITE && ++d->n == 5 ? DUO_DROP : DUO_PASS;
}

DUO_TEST(peer_fail__while_fencing, duo_open_writes())
{
	d->auto_fence = false;
	d->filter = lose_write;
	duo_recv(d, 1, 0, dst, 50000, 0, 0, DUO_CTX(1));
	duo_send(d, 0, 0, src, 50000, 0, NULL);
	duo_run(d, SECOND);
	assert_int_equal(d->side[1].fences, 1);
	assert_int_equal(d->side[1].ncomp, 0);
	uccl_peer_fail(&d->side[1].peer, FI_ECONNABORTED, d->now);
	expect(d, 1, DUO_CTX(1), FI_ECONNABORTED);
	assert_int_equal(d->side[1].deregs, 1);
	assert_int_equal(d->side[1].unsettled, 1);
}

/* The others are not touched. PROTOCOL R45 */
DUO_TEST(peer_fail__hurts_nobody_else, duo_open())
{
	struct uccl_op *op;

	assert_int_equal(duo_send_self(d, 0, 0, src, 0, DUO_CTX(1)), 0);
	assert_int_equal(duo_recv(d, 0, 0, dst, 1, 0, 0, DUO_CTX(2)), 0);
	expect(d, 0, DUO_CTX(1), 0);
	expect(d, 0, DUO_CTX(2), 0);
	/* A receive from ourselves, and a message to ourselves. */
	op = duo_op(d, 0, UCCL_OP_RECV, UCCL_OPF_DIRECTED | UCCL_OPF_TAGGED);
	op->peer = &d->side[0].self;
	op->context = DUO_CTX(3);
	assert_int_equal(uccl_msg_recv(&d->side[0].m, op, d->now), 0);
	assert_int_equal(duo_send_self(d, 0, 0, src, 0, DUO_CTX(4)), 0);
	uccl_peer_fail(&d->side[0].peer, FI_ECONNABORTED, d->now);
	assert_int_equal(d->side[0].ncomp, 2);
	duo_recv(d, 0, 0, dst, 1, 0, 0, DUO_CTX(5));
	expect(d, 0, DUO_CTX(4), 0);
	expect(d, 0, DUO_CTX(5), 0);
	assert_null(by_context(d, 0, DUO_CTX(3)));
}

/* However many receives are posted: the end of a peer looks at none that does not name it. */
DUO_TEST(peer_fail__looks_at_its_own, duo_open())
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), len = (1000 * sizeof(struct uccl_op) + page - 1) & ~(page - 1);
	struct uccl_op *others = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uccl_match *m = &d->side[1].m.match;

	assert_ptr_not_equal(others, MAP_FAILED);
	duo_recv(d, 1, UCCL_OPF_DIRECTED, dst, 100, 0, 0, DUO_CTX(1));
	duo_recv(d, 1, 0, dst, 100, 0, 0, DUO_CTX(2));
	for (int i = 0; i < 1000; i++) {
		others[i].type = UCCL_OP_RECV;
		/* Not of a kind in which the peer has some: who is in one bucket with it may be looked at. */
		others[i].flags = i & 1 ? UCCL_OPF_TAGGED | UCCL_OPF_DIRECTED : 0;
		others[i].peer = &d->side[1].self;
		uccl_match_post(m, &others[i]);
	}
	duo_recv(d, 1, 0, dst, 100, 0, 0, DUO_CTX(3));
	duo_recv(d, 1, UCCL_OPF_DIRECTED, dst, 100, 0, 0, DUO_CTX(4));
	assert_int_equal(mprotect(others, len, PROT_NONE), 0);
	uccl_peer_fail(&d->side[1].peer, FI_ECONNABORTED, d->now);
	assert_int_equal(mprotect(others, len, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(d->side[1].ncomp, 2);
	expect(d, 1, DUO_CTX(1), FI_ECONNABORTED);
	expect(d, 1, DUO_CTX(4), FI_ECONNABORTED);
	for (int i = 0; i < 1000; i++)
		uccl_match_unpost(m, &others[i]);
	munmap(others, len);
	assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(2)), 0);
	assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(3)), 0);
}

TESTS_MAIN
