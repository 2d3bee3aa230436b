/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "msg/abort.h"

#include <rdma/fi_domain.h>

#include "duo.h"

#define LEN 200000u
#define CANARY 0x5a

static uint8_t src[LEN], dst[LEN];

static void fresh(struct duo *d)
{
	for (int s = 0; s < 2; s++)
		d->side[s].peer.aborts = true;
	duo_fill(src, LEN, 7);
	memset(dst, CANARY, LEN);
}

static int abort_it(struct duo *d, uintptr_t context)
{
	struct duo_side *s = &d->side[0];

	if (!s->m.tx.listing) {
		msg_tx_listing(&s->peer);
		msg_tx_listing(&s->self);
	}
	return uccl_msg_abort(&s->m, DUO_CTX(context), d->now);
}

/* What comes later changes nothing. */
static void nothing_lands(struct duo *d)
{
	memset(dst, CANARY, LEN);
	duo_run(d, 10 * SECOND);
	for (uint32_t i = 0; i < LEN; i++)
		assert_int_equal(dst[i], CANARY);
}

/* It has not begun: the peer hears nothing of it. PROTOCOL R360 */
DUO_TEST(abort__not_connected, duo_new(false, 16))
{
	fresh(d);
	assert_int_equal(duo_send(d, 0, 0, src, LEN, 0, DUO_CTX(1)), 0);
	assert_int_equal(abort_it(d, 2), -FI_ENOENT);
	assert_int_equal(abort_it(d, 1), 0);
	duo_expect(d, 0, DUO_CTX(1), FI_ECANCELED, 0);
	assert_int_equal(abort_it(d, 1), -FI_ENOENT);
	duo_connect(d);
	duo_run(d, SECOND);
	duo_quiet(d);
}

/* A peer that does not know how is not asked. */
DUO_TEST(abort__an_older_peer, duo_open())
{
	fresh(d);
	d->side[0].peer.aborts = false;
	assert_int_equal(duo_send(d, 0, 0, src, LEN, 0, DUO_CTX(1)), 0);
	assert_int_equal(abort_it(d, 1), -FI_ENOENT);
	assert_int_equal(duo_recv(d, 1, 0, dst, LEN, 0, 0, DUO_CTX(2)), 0);
	duo_run(d, SECOND);
	duo_passed(d, LEN);
}

/* At each point of its way, with and without a receive, short and long. PROTOCOL R361 R362 */
static void sends(struct duo *(*open)(void))
{
	static const uint64_t lens[] = {0, 10, 3000, DUO_EAGER, 20000, LEN};

	for (int n = 0; n < 6 * 2 * 60; n++) {
		uint64_t len = lens[n % 6];
		bool posted = n / 6 & 1;
		const struct duo_comp *c, *r = NULL;
		struct duo *d = open();
		uint64_t began;
		int rc;

		fresh(d);
		d->auto_fence = true;
		if (posted)
			assert_int_equal(duo_recv(d, 1, 0, dst, LEN, 0, 0, DUO_CTX(2)), 0);
		assert_int_equal(duo_send(d, 0, 0, src, len, 0, DUO_CTX(1)), 0);
		for (int i = 0; i < n / 12; i++)
			duo_round(d);
		rc = abort_it(d, 1);
		assert_int_equal(rc, duo_waiting(d, 0) ? -FI_ENOENT : 0);
		began = d->now;
		while (!duo_waiting(d, 0) && d->now - began < SECOND)
			duo_round(d);
		c = duo_next(d, 0);
		assert_non_null(c);
		assert_true(!c->err || c->err == FI_ECANCELED);
		assert_int_equal(c->refusal, 0);
		/* Two round trips and a millisecond. */
		assert_true(d->now - began <= 4 * DUO_DELAY_NS + MS);
		if (posted && c->err) {
			/* Once taken back it is not there; the receive waits, or has ended. */
			r = duo_next(d, 1);
			if (r) {
				assert_int_equal(r->err, FI_ECANCELED);
				assert_int_equal(r->refusal, UCCL_TAKEN_BACK);
				assert_true(r->len <= len);
			}
			nothing_lands(d);
			duo_quiet(d);
		} else if (c->err) {
			/* It vanished. */
			duo_run(d, SECOND);
			assert_int_equal(d->side[1].m.unexpected.bytes, 0);
			assert_int_equal(d->side[1].m.unexpected.n, 0);
		} else {
			duo_run(d, SECOND);
			if (!posted)
				duo_recv(d, 1, 0, dst, LEN, 0, 0, DUO_CTX(2));
			duo_run(d, SECOND);
			duo_expect(d, 1, DUO_CTX(2), 0, len);
			duo_check(dst, len, 7);
		}
		/* The next one goes on. */
		assert_int_equal(duo_send(d, 0, 0, src, 100, 0, DUO_CTX(3)), 0);
		if (!posted || !c->err || r)
			assert_int_equal(duo_recv(d, 1, 0, dst, LEN, 0, 0, DUO_CTX(2)), 0);
		duo_run(d, SECOND);
		duo_expect(d, 0, DUO_CTX(3), 0, 0);
		duo_expect(d, 1, DUO_CTX(2), 0, 100);
		duo_check(dst, 100, 7);
		for (int s = 0; s < 2; s++) {
			assert_int_equal(d->side[s].stats.dropped[UCCL_DROP_HANDLE], 0);
			assert_int_equal(d->side[s].stats.dropped[UCCL_DROP_RECORD], 0);
			assert_int_equal(d->side[s].broken, 0);
		}
		duo_free(d);
	}
}

TEST(abort__sends)
{
	sends(duo_open);
}

TEST(abort__sends_by_writes)
{
	sends(duo_open_writes);
}

TEST(abort__sends_ahead_of_cts)
{
	sends(duo_open_unsolicited);
}

/* Writes and reads, at each point of their way. PROTOCOL R361 R363 */
static void rma(struct duo *(*open)(void), uint8_t type)
{
	static const uint64_t lens[] = {8, 3000, 20000, LEN};

	for (int n = 0; n < 4 * 60; n++) {
		uint64_t len = lens[n % 4], key;
		bool read = type == UCCL_OP_READ;
		const struct duo_comp *c;
		struct duo *d = open();
		uint32_t deregs;
		uint64_t began;

		fresh(d);
		d->auto_fence = true;
		key = duo_region(d, 1, 0, read ? src : dst, LEN, BOTH);
		assert_int_equal(duo_rma(d, 0, type, 0, read ? dst : src, len, 0, key, DUO_CTX(1)), 0);
		for (int i = 0; i < n / 4; i++)
			duo_round(d);
		deregs = d->side[0].deregs;
		assert_int_equal(abort_it(d, 1), duo_waiting(d, 0) ? -FI_ENOENT : 0);
		/* What the target has written by now has a place still. */
		assert_int_equal(d->side[0].deregs, deregs);
		began = d->now;
		for (int i = 0; i < 100000 && !duo_waiting(d, 0); i++)
			duo_round(d);
		c = duo_next(d, 0);
		assert_non_null(c);
		assert_true(!c->err || c->err == FI_ECANCELED);
		assert_true(d->now - began <= 4 * DUO_DELAY_NS + MS);
		if (!c->err)
			duo_check(dst, len, 7);
		/* An event tells of a write that was executed, and of no other. */
		if (!read)
			assert_int_equal(d->side[1].region[0].writes, !c->err);
		nothing_lands(d);
		duo_quiet(d);
		assert_int_equal(duo_rma(d, 0, type, 0, read ? dst : src, 100, 0, key, DUO_CTX(3)), 0);
		duo_run(d, SECOND);
		duo_expect(d, 0, DUO_CTX(3), 0, type == UCCL_OP_READ ? 100 : 0);
		duo_check(dst, 100, 7);
		for (int s = 0; s < 2; s++)
			assert_int_equal(d->side[s].broken, 0);
		duo_revoke(d, 1, 0);
		duo_free(d);
	}
}

TEST(abort__writes)
{
	rma(duo_open, UCCL_OP_WRITE);
}

TEST(abort__writes_by_writes)
{
	rma(duo_open_writes, UCCL_OP_WRITE);
}

TEST(abort__reads)
{
	rma(duo_open, UCCL_OP_READ);
}

TEST(abort__reads_by_writes)
{
	rma(duo_open_writes, UCCL_OP_READ);
}

/* An atomic is executed or not, never twice, and the initiator is told which. PROTOCOL R363 */
TEST(abort__atomics)
{
	for (int n = 0; n < 24; n++) {
		bool fetch = n & 1;
		uint64_t value = 5, add = 3, was = 0, key;
		const struct duo_comp *c;
		struct duo *d = duo_open();

		fresh(d);
		key = duo_region(d, 1, 0, &value, sizeof(value), BOTH);
		assert_int_equal(duo_atomic(d, 0, fetch ? UCCL_OP_FETCH : UCCL_OP_ATOMIC, FI_UINT64, FI_SUM, &add,
					    NULL, fetch ? &was : NULL, 1, 0, key, DUO_CTX(1)),
				 0);
		for (int i = 0; i < n / 2; i++)
			duo_round(d);
		assert_int_equal(abort_it(d, 1), duo_waiting(d, 0) ? -FI_ENOENT : 0);
		duo_run(d, SECOND);
		c = duo_next(d, 0);
		assert_non_null(c);
		assert_true(!c->err || c->err == FI_ECANCELED);
		assert_int_equal(value, c->err ? 5 : 8);
		assert_int_equal(was, c->err || !fetch ? 0 : 5);
		duo_quiet(d);
		duo_free(d);
	}
}

static enum duo_verdict drop_reply(struct duo *d, const struct duo_pkt *p)
{
	return p->rtype == UCCL_REC_REPLY ? DUO_DROP : DUO_PASS;
}

/* The target says in time that it was executed, but not what was there: nothing waits for that later. */
DUO_TEST(abort__atomic_without_reply, duo_open())
{
	uint64_t value = 5, add = 3, was = 0, key = duo_region(d, 1, 0, &value, sizeof(value), BOTH);
	struct duo_side *s = &d->side[0];

	fresh(d);
	d->filter = drop_reply;
	assert_int_equal(duo_atomic(d, 0, UCCL_OP_FETCH, FI_UINT64, FI_SUM, &add, NULL, &was, 1, 0, key, DUO_CTX(1)),
			 0);
	while (value == 5)
		duo_round(d);
	assert_int_equal(abort_it(d, 1), 0);
	duo_run(d, UCCL_ABORT_NS - MS);
	assert_false(duo_waiting(d, 0));
	d->now = uccl_msg_aborts_due(&s->m);
	/* The NIC's queue is full: writes to this peer end, which makes room, and the operation ends a little later. */
	uccl_msg_aborts_expire(&s->m, false, d->now);
	assert_int_equal(s->stops, 1);
	assert_false(duo_waiting(d, 0));
	d->now = uccl_msg_aborts_due(&s->m);
	uccl_msg_aborts_expire(&s->m, true, d->now);
	assert_int_equal(duo_expect(d, 0, DUO_CTX(1), FI_ECANCELED, 0)->refusal, UCCL_UNPROVEN);
	d->filter = NULL;
	duo_run(d, 60 * SECOND);
	assert_int_equal(was, 0);
	assert_int_equal(s->m.op_pool.used, 0);
	assert_true(TAILQ_EMPTY(&s->peer.tx.sends));
}

static enum duo_verdict drop_all(struct duo *d, const struct duo_pkt *p)
{
	return DUO_DROP;
}

/* A silent peer: the end comes in time, nothing reads the buffer any more, and later all is as it should be. R364 */
static void silence(struct duo *(*open)(void), int points, bool stalled)
{
	static const uint64_t lens[] = {3000, DUO_EAGER, LEN};
	uint32_t stalls = 0;

	for (int n = 0; n < 3 * 2 * points; n++) {
		const struct duo_comp *c, *r;
		struct duo *d = open();
		struct duo_side *s = &d->side[0];
		uint64_t len = lens[n % 3];
		uint32_t slots;

		fresh(d);
		d->auto_fence = true;
		assert_int_equal(duo_recv(d, 1, 0, dst, LEN, 0, 0, DUO_CTX(2)), 0);
		assert_int_equal(duo_send(d, 0, 0, src, len, 0, DUO_CTX(1)), 0);
		for (int i = 0; i < n / 6; i++)
			duo_round(d);
		d->filter = drop_all;
		/* What was announced has no room to leave. */
		slots = s->peer.flow.limits.slots;
		s->peer.flow.limits.slots = stalled ? 1 : slots;
		/* What leaves now does not arrive. */
		for (int i = 0; n / 3 % 2 && i < 3; i++)
			duo_round(d);
		stalls += s->peer.flow.write_tx.item != NULL;
		if (abort_it(d, 1)) {
			duo_free(d);
			continue;
		}
		duo_run(d, UCCL_ABORT_NS - MS);
		if (!duo_waiting(d, 0)) {
			d->now = uccl_msg_aborts_due(&s->m);
			uccl_msg_aborts_expire(&s->m, true, d->now);
		}
		c = duo_next(d, 0);
		assert_non_null(c);
		assert_true(!c->err || c->err == FI_ECANCELED);
		/* The program has its buffer again. */
		memset(src, 0xee, LEN);
		d->filter = NULL;
		s->peer.flow.limits.slots = slots;
		duo_run(d, 60 * SECOND);
		r = duo_next(d, 1);
		assert_true(!r || !r->err || r->err == FI_ECANCELED);
		duo_fill(src, LEN, 7);
		for (uint64_t i = 0; i < len; i++)
			assert_true(dst[i] == CANARY || dst[i] == src[i]);
		assert_true(TAILQ_EMPTY(&s->peer.tx.sends));
		assert_int_equal(s->m.tx.timers.n, 0);
		assert_int_equal(s->m.tx.copied_bytes, 0);
		duo_free(d);
	}
	assert_int_equal(stalls > 0, stalled);
}

TEST(abort__silence)
{
	silence(duo_open, 20, false);
}

TEST(abort__silence_ahead_of_cts)
{
	silence(duo_open_unsolicited, 20, false);
}

TEST(abort__silence_by_writes)
{
	silence(duo_open_writes, 40, false);
}

/* Writes that were announced, and cannot leave: their payload is copied, too. */
TEST(abort__silence_before_writes)
{
	silence(duo_open_writes, 40, true);
}

/*
 * The same of a write: what fills no packet is copied behind its request, and the rest is the program's. PROTOCOL R364
 */
TEST(abort__silence_of_a_write)
{
	enum { PACKET = 16384, WRITE = 2 * PACKET + 1000 };

	for (int n = 0; n < 16; n++) {
		struct duo *d = duo_open();
		struct duo_side *s = &d->side[0];
		struct uccl_flow *f = &s->peer.flow;
		const struct duo_comp *c;
		uint64_t key;

		fresh(d);
		f->cfg.packet.chunk_bytes = f->chunk_bytes = PACKET;
		key = duo_region(d, 1, 0, dst, LEN, BOTH);
		assert_int_equal(duo_rma(d, 0, UCCL_OP_WRITE, 0, src, WRITE, 0, key, DUO_CTX(1)), 0);
		assert_non_null(TAILQ_FIRST(&s->peer.tx.sends)->tx.bounce);
		for (int i = 0; i < n / 2; i++)
			duo_round(d);
		d->filter = drop_all;
		for (int i = 0; n % 2 && i < 3; i++)
			duo_round(d);
		if (abort_it(d, 1)) {
			duo_free(d);
			continue;
		}
		duo_run(d, UCCL_ABORT_NS - MS);
		if (!duo_waiting(d, 0)) {
			d->now = uccl_msg_aborts_due(&s->m);
			uccl_msg_aborts_expire(&s->m, true, d->now);
		}
		c = duo_next(d, 0);
		assert_non_null(c);
		assert_true(!c->err || c->err == FI_ECANCELED);
		for (uint64_t csn = f->sent.una; csn != f->sent.nxt; csn++) {
			const struct uccl_sent *e = uccl_sent_at(&f->sent, csn);

			assert_true(e->state == UCCL_SENT_ACKED || e->payload < src || e->payload >= src + LEN);
		}
		/* The program has its buffer again. */
		memset(src, 0xee, LEN);
		d->filter = NULL;
		duo_run(d, 60 * SECOND);
		duo_fill(src, LEN, 7);
		for (uint64_t i = 0; i < WRITE; i++)
			assert_true(dst[i] == CANARY || dst[i] == src[i]);
		assert_true(TAILQ_EMPTY(&s->peer.tx.sends));
		assert_int_equal(s->m.tx.copied_bytes, 0);
		duo_free(d);
	}
}

/* The peer ends meanwhile: what became of it is not known. PROTOCOL R364 */
DUO_TEST(abort__peer_ends, duo_open())
{
	fresh(d);
	assert_int_equal(duo_send(d, 0, 0, src, LEN, 0, DUO_CTX(1)), 0);
	assert_int_equal(abort_it(d, 1), 0);
	duo_fail(d, FI_ECONNABORTED);
	assert_int_equal(duo_expect(d, 0, DUO_CTX(1), FI_ECANCELED, 0)->refusal, UCCL_UNPROVEN);
}

/* Its place ends before the program has its buffer again, also while CTS is still to be acknowledged. R362 */
DUO_TEST(abort__ends_the_place, duo_open_writes())
{
	struct duo_side *s = &d->side[1];
	uint8_t rec[UCCL_REC_LEN] = {0};

	fresh(d);
	assert_int_equal(duo_recv(d, 1, 0, dst, LEN, 0, 0, DUO_CTX(2)), 0);
	assert_int_equal(duo_send(d, 0, 0, src, LEN, 0, DUO_CTX(1)), 0);
	while (!s->regs)
		duo_round(d);
	uccl_abort_encode(rec, 1, 0);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_ABORT, rec, NULL, 0), UCCL_DROP_COUNT);
	assert_int_equal(duo_expect(d, 1, DUO_CTX(2), FI_ECANCELED, DUO_CHUNK)->refusal, UCCL_TAKEN_BACK);
	assert_false(TAILQ_EMPTY(&s->peer.rx.all));
	assert_int_equal(s->deregs, s->regs);
}

static enum duo_verdict hold_second_write(struct duo *d, const struct duo_pkt *p)
{
	/* The last ones, too: the message is not complete. */
	return p->kind == UCCL_TX_WRITE && (++d->n == 2 || d->n > 40) ? DUO_HOLD : DUO_PASS;
}

/* A write may still land in the place that ends. The end of its registration keeps it out: nothing waits. R26 R83 */
DUO_TEST(abort__ends_a_place_in_doubt, duo_open_writes())
{
	struct duo_side *s = &d->side[1];
	uint8_t rec[UCCL_REC_LEN] = {0};

	fresh(d);
	d->auto_fence = false;
	s->m.dereg_fences = true;
	d->filter = hold_second_write;
	assert_int_equal(duo_recv(d, 1, 0, dst, LEN, 0, 0, DUO_CTX(2)), 0);
	assert_int_equal(duo_send(d, 0, 0, src, LEN, 0, DUO_CTX(1)), 0);
	for (int i = 0; i < 100000 && !s->peer.flow.rx.write.ndoubts; i++)
		duo_round(d);
	assert_true(s->peer.flow.rx.write.ndoubts);
	assert_int_equal(duo_waiting(d, 1), 0);
	uccl_abort_encode(rec, 1, 0);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_ABORT, rec, NULL, 0), UCCL_DROP_COUNT);
	assert_int_equal(s->deregs, s->regs);
	assert_int_equal(s->peer.flow.rx.write.ndoubts, 0);
}

/* What no peer of ours says. PROTOCOL R362 */
DUO_TEST(abort__hostile, duo_open())
{
	uint8_t rec[UCCL_REC_LEN] = {0}, one = 1;

	fresh(d);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_ABORT, rec, NULL, 0), UCCL_DROP_RECORD);
	uccl_abort_encode(rec, 1, UCCL_MSG_LIMIT);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_ABORT, rec, NULL, 0), UCCL_DROP_RECORD);
	uccl_abort_encode(rec, 1, 0);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_ABORT, rec, &one, 1), UCCL_DROP_RECORD);
	assert_int_equal(duo_deliver(d, 0, UCCL_REC_ABORTED, rec, NULL, 0), UCCL_DROP_HANDLE);
	assert_int_equal(duo_deliver(d, 0, UCCL_REC_ABORTED, rec, &one, 1), UCCL_DROP_RECORD);
}

/* To ourselves: until a receive takes it. */
DUO_TEST(abort__self, duo_open())
{
	fresh(d);
	assert_int_equal(duo_send_self(d, 0, 0, src, 100, DUO_CTX(1)), 0);
	assert_int_equal(abort_it(d, 1), 0);
	duo_expect(d, 0, DUO_CTX(1), FI_ECANCELED, 0);
	assert_int_equal(abort_it(d, 1), -FI_ENOENT);
}

static struct uccl_op *limited(struct duo *d, struct uccl_peer *p, uint8_t type, uint32_t flags, uint64_t len,
			       uint64_t ns, uintptr_t context)
{
	struct uccl_op *op = duo_op(d, 0, type, flags);

	duo_buffer(op, src, len);
	op->peer = p;
	op->context = DUO_CTX(context);
	op->limit_ns = ns;
	return op;
}

static int send_limited(struct duo *d, uint32_t flags, uint64_t len, uint64_t ns, uintptr_t context)
{
	struct duo_side *s = &d->side[0];

	return uccl_msg_send(&s->m, limited(d, &s->peer, UCCL_OP_SEND, flags, len, ns, context), d->now);
}

/* As an engine would: at their times, and no earlier. */
static void timers(struct duo *d, uint64_t until)
{
	struct duo_side *s = &d->side[0];

	while (d->now < until) {
		uint64_t due = uccl_msg_aborts_due(&s->m);

		duo_run(d, uccl_min(due, until) - uccl_min(d->now, uccl_min(due, until)));
		d->now = uccl_max(d->now, uccl_min(due, until));
		uccl_msg_aborts_expire(&s->m, true, d->now);
	}
}

/* A message that nobody receives, and one that somebody does: each has its own time. */
DUO_TEST(limit__each_its_own, duo_open())
{
	static const uint64_t ms[] = {30, 10, 20, 0, 40};
	struct duo_side *s = &d->side[0];
	uint64_t began = d->now;

	fresh(d);
	for (uintptr_t i = 0; i < uccl_array_len(ms); i++)
		assert_int_equal(send_limited(d, UCCL_OPF_DELIVERY, i & 1 ? 100 : LEN, ms[i] * MS, 1 + i), 0);
	assert_int_equal(uccl_msg_aborts_due(&s->m), began + 10 * MS);
	timers(d, began + 10 * MS - 1);
	assert_false(duo_waiting(d, 0));
	timers(d, began + 12 * MS);
	assert_int_equal(duo_expect(d, 0, DUO_CTX(2), FI_ETIMEDOUT, 0)->refusal, 0);
	timers(d, began + 32 * MS);
	duo_expect(d, 0, DUO_CTX(3), FI_ETIMEDOUT, 0);
	duo_expect(d, 0, DUO_CTX(1), FI_ETIMEDOUT, 0);
	/* The peer has not failed; two are there, and one of them has a limit. */
	assert_false(s->peer.dead);
	for (uintptr_t i = 0; i < 2; i++)
		assert_int_equal(duo_recv(d, 1, 0, dst, LEN, 0, 0, DUO_CTX(9)), 0);
	timers(d, began + SECOND);
	duo_expect(d, 0, DUO_CTX(4), 0, 0);
	duo_expect(d, 0, DUO_CTX(5), 0, 0);
	assert_int_equal(s->m.tx.timers.n, 0);
	duo_expect(d, 1, DUO_CTX(9), 0, 100);
	duo_expect(d, 1, DUO_CTX(9), 0, LEN);
	duo_check(dst, LEN, 7);
}

/* It has not begun; it goes to ourselves; it is complete for the program at once; nobody answers. */
DUO_TEST(limit__states, duo_new(false, 16))
{
	struct duo_side *s = &d->side[0];

	fresh(d);
	assert_int_equal(send_limited(d, 0, LEN, 10 * MS, 1), 0);
	assert_int_equal(uccl_msg_send(&s->m, limited(d, &s->self, UCCL_OP_SEND, 0, LEN, 10 * MS, 2), d->now), 0);
	assert_int_equal(send_limited(d, UCCL_OPF_EARLY, 10, 10 * MS, 3), 0);
	duo_expect(d, 0, DUO_CTX(3), 0, 0);
	timers(d, d->now + 11 * MS);
	for (uintptr_t i = 1; i < 3; i++)
		duo_expect(d, 0, DUO_CTX(i), FI_ETIMEDOUT, 0);
	assert_int_equal(s->m.tx.timers.n, 0);
	duo_connect(d);
	duo_run(d, SECOND);
	d->filter = drop_all;
	assert_int_equal(send_limited(d, 0, LEN, 10 * MS, 4), 0);
	timers(d, d->now + 10 * MS + UCCL_ABORT_NS - MS);
	assert_false(duo_waiting(d, 0));
	timers(d, d->now + 2 * MS);
	assert_int_equal(duo_expect(d, 0, DUO_CTX(4), FI_ETIMEDOUT, 0)->refusal, UCCL_UNPROVEN);
	assert_false(s->peer.dead);
	d->filter = NULL;
	duo_run(d, SECOND);
}

/* An older peer knows nothing of it: the operation goes on. A program's own fi_cancel is no limit. */
DUO_TEST(limit__not, duo_open())
{
	fresh(d);
	d->side[0].peer.aborts = false;
	assert_int_equal(send_limited(d, UCCL_OPF_DELIVERY, 100, 10 * MS, 1), 0);
	timers(d, d->now + SECOND);
	assert_int_equal(duo_recv(d, 1, 0, dst, LEN, 0, 0, DUO_CTX(2)), 0);
	duo_run(d, SECOND);
	duo_passed(d, 100);
	d->side[0].peer.aborts = true;
	assert_int_equal(send_limited(d, UCCL_OPF_DELIVERY, 100, 10 * MS, 3), 0);
	assert_int_equal(abort_it(d, 3), 0);
	timers(d, d->now + SECOND);
	duo_expect(d, 0, DUO_CTX(3), FI_ECANCELED, 0);
}

/* Requests: a write waits for its answer. */
DUO_TEST(limit__requests, duo_open())
{
	static const uint8_t types[] = {UCCL_OP_WRITE, UCCL_OP_READ};
	struct duo_side *s = &d->side[0];
	uint64_t key;

	fresh(d);
	key = duo_region(d, 1, 0, dst, LEN, BOTH);
	for (uintptr_t i = 0; i < 4; i++) {
		struct uccl_op *op = limited(d, &s->peer, types[i & 1], 0, LEN, 10 * MS, 1 + i);

		d->filter = i & 2 ? drop_all : NULL;
		op->rma.seg[0] = (struct uccl_seg){.len = LEN, .key = key};
		op->rma.nseg = 1;
		assert_int_equal(uccl_msg_rma(&s->m, op, d->now), 0);
		timers(d, d->now + 2 * SECOND);
		assert_int_equal(duo_expect(d, 0, DUO_CTX(1 + i), i & 2 ? FI_ETIMEDOUT : 0, i & 1 && !(i & 2) ? LEN : 0)
					 ->refusal, i & 2 ? UCCL_UNPROVEN : 0);
	}
	d->filter = NULL;
	duo_run(d, 60 * SECOND);
	duo_revoke(d, 1, 0);
}

enum { MANY = 3000 };

/* Whatever is there: what is taken back is found at once, in any order, at both ends. */
DUO_TEST(abort__steps_do_not_grow, duo_new(false, 2 * MANY))
{
	static uint8_t bytes[MANY];
	struct uccl_match *a = &d->side[0].m.match, *b = &d->side[1].m.match;
	uint64_t steps_a, steps_b, at_b = 0;

	duo_connect(d);
	fresh(d);
	for (uint32_t i = 0; i < MANY; i++)
		assert_int_equal(duo_send(d, 0, UCCL_OPF_DELIVERY, bytes, 1, 0, DUO_CTX(1 + i)), 0);
	duo_run(d, SECOND);
	assert_int_equal(d->side[1].m.unexpected.n, MANY);
	steps_a = a->steps;
	steps_b = b->steps;
	for (uint32_t i = 0; i < MANY; i++) {
		uint32_t k = (uint32_t)((i * 1663ull + 77) % MANY);

		assert_int_equal(abort_it(d, 1 + k), 0);
		assert_int_equal(abort_it(d, 1 + k), -FI_ENOENT);
		while (!duo_waiting(d, 0))
			duo_round(d);
		duo_expect(d, 0, DUO_CTX(1 + k), FI_ECANCELED, 0);
		at_b = uccl_max(at_b, i ? b->steps - steps_b : 0);
		steps_b = b->steps;
	}
	assert_in_range(a->steps - steps_a, MANY, 2 * MANY);
	/* The first of them finds all, once. */
	assert_in_range(at_b, 1, 4);
	assert_int_equal(d->side[1].m.unexpected.n, 0);
}

TESTS_MAIN
