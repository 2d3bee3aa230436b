/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* RMA and atomics as the initiator sees them; the other side is the real target. */
#include "../duo.h"

#include "msg/rma/atomic_math.h"
#include "../../tests.h"

static uint8_t src[1 << 21], dst[1 << 21], mem[1 << 21];

static void expect(struct duo *d, void *context, int err)
{
	const struct duo_comp *c = duo_next(d, 0);

	assert_non_null(c);
	assert_ptr_equal(c->context, context);
	assert_int_equal(c->err, err);
	assert_ptr_equal(c->from, &d->side[0].peer);
}

static void idle(struct duo *d)
{
	for (int s = 0; s < 2; s++) {
		assert_null(duo_next(d, s));
		assert_int_equal(d->side[s].m.op_pool.used, 0);
		assert_int_equal(d->side[s].m.rx_pool.used, 0);
		assert_int_equal(d->side[s].m.reply.pool.used, 0);
		assert_int_equal(d->side[s].m.serve.pool.used, 0);
		assert_int_equal(d->side[s].m.reply.staged_bytes, 0);
		assert_int_equal(d->side[s].m.tx.copied_bytes, 0);
	}
	duo_free(d);
}

/* In a stream a write is cut into packets of one length, which share trains. PROTOCOL R260 */
TEST(rma__even)
{
	static const struct { uint64_t len; uint32_t first, first_each, each; } sent[] = {
		{DUO_CHUNK - 24, DUO_CHUNK, 0, 0}, {4000, 1008, 1008, 1008}, {16000, 24, 0, 1000},
		{UCCL_ORDER_MAX + 1, 24, 0, 0},
	};

	for (size_t i = 0; i < uccl_array_len(sent); i++) {
		struct duo *d = duo_open();
		struct uccl_flow *f = &d->side[0].peer.flow;
		uint64_t flying = f->sent.inflight_bytes, key = duo_region(d, 1, 2, mem, sizeof(mem), BOTH);
		const struct uccl_item *env, *rest;

		f->cfg.train.pads_tx = true;
		f->train_bytes = UCCL_ORDER_MAX + DUO_CHUNK;
		f->sent.inflight_bytes = 1 << 17;
		duo_fill(src, sent[i].len, 1);
		assert_int_equal(duo_rma(d, 0, UCCL_OP_WRITE, 0, src, sent[i].len, 0, key, DUO_CTX(1)), 0);
		f->sent.inflight_bytes = flying;
		f->cfg.train.pads_tx = false;
		f->train_bytes = 0;
		env = TAILQ_FIRST(&f->sendq.records);
		if (!env)
			env = TAILQ_FIRST(&f->sendq.small);
		rest = TAILQ_FIRST(&f->sendq.bulk);
		assert_int_equal(env->len, sent[i].first);
		assert_int_equal(env->each, sent[i].first_each);
		assert_int_equal(rest ? rest->each : 0, sent[i].each);
		duo_run(d, SECOND);
		expect(d, DUO_CTX(1), 0);
		duo_check(mem, sent[i].len, 1);
		idle(d);
	}
}

static const uint64_t sizes[] = {0,    1,     64,    103,	104,	105,	1000,	4096,	4097,
				 8192, 65535, 65536, 65537, 262144, 262145, 1048576, 1500000};

/* A write and a read back of every interesting size, as packets and by direct writes. PROTOCOL R70 R71 R75 */
TEST(rma__sizes)
{
	for (int writes = 0; writes < 2; writes++)
		for (unsigned int i = 0; i < uccl_array_len(sizes); i++) {
			struct duo *d = writes ? duo_open_writes() : duo_open();
			uint64_t n = sizes[i], key = duo_region(d, 1, 2, mem, n + 10, BOTH);

			duo_fill(src, n, i);
			memset(mem, 0xee, n + 10);
			memset(dst, 0xdd, n + 1);
			assert_int_equal(duo_rma(d, 0, UCCL_OP_WRITE, 0, src, n, 7, key, DUO_CTX(1)), 0);
			duo_run(d, SECOND);
			expect(d, DUO_CTX(1), 0);
			duo_check(mem + 7, n, i);
			assert_int_equal(mem[6], 0xee);
			assert_int_equal(mem[7 + n], 0xee);
			assert_int_equal(duo_rma(d, 0, UCCL_OP_READ, 0, dst, n, 7, key, DUO_CTX(2)), 0);
			duo_run(d, SECOND);
			expect(d, DUO_CTX(2), 0);
			duo_check(dst, n, i);
			assert_int_equal(dst[n], 0xdd);
			assert_int_equal(d->side[1].events, 2);
			assert_int_equal(d->side[1].region[2].writes, n ? 1 : 0);
			assert_int_equal(d->side[1].region[2].reads, n ? 1 : 0);
			assert_true(!writes || n <= 65536 || d->side[1].stats.writes_rx > 0);
			idle(d);
		}
}

static enum duo_verdict drop_some(struct duo *d, const struct duo_pkt *p)
{
	return ++d->n % 5 == 0 ? DUO_DROP : d->n % 7 == 0 ? DUO_DOUBLE : DUO_PASS;
}

/* The same under loss and doubling. PROTOCOL R70 R73 */
TEST(rma__loss)
{
	for (unsigned int i = 0; i < uccl_array_len(sizes); i++) {
		struct duo *d = duo_open();
		uint64_t n = sizes[i], key = duo_region(d, 1, 0, mem, n, BOTH);

		d->filter = drop_some;
		d->n = (int)i;
		duo_fill(src, n, i);
		memset(dst, 0, n);
		for (int k = 0; k < 3; k++) {
			assert_int_equal(duo_rma(d, 0, UCCL_OP_WRITE, 0, src, n, 0, key, DUO_CTX(1)), 0);
			duo_run(d, 20 * SECOND);
			expect(d, DUO_CTX(1), 0);
			assert_int_equal(duo_rma(d, 0, UCCL_OP_READ, 0, dst, n, 0, key, DUO_CTX(2)), 0);
			duo_run(d, 20 * SECOND);
			expect(d, DUO_CTX(2), 0);
		}
		duo_check(dst, n, i);
		assert_int_equal(d->side[1].events, 6);
		d->filter = NULL;
		duo_run(d, SECOND);
		idle(d);
	}
}

/* Four buffers against three places in two regions, one of them in two buffers. PROTOCOL R70 */
TEST(rma__scattered)
{
	static const uint64_t lens[] = {100, 3000, 30000, 200000};

	for (unsigned int i = 0; i < uccl_array_len(lens); i++)
		for (int type = UCCL_OP_WRITE; type <= UCCL_OP_READ; type++) {
			struct duo *d = duo_open();
			uint64_t n = lens[i], cut = n / 7;
			struct uccl_op *op = duo_op(d, 0, (uint8_t)type, 0);

			duo_region(d, 1, 0, mem, n, BOTH);
			duo_region(d, 1, 1, mem + 500000, n, BOTH);
			d->side[1].region[1].iov[0].iov_len = cut / 2;
			d->side[1].region[1].iov[1] =
				(struct iovec){.iov_base = mem + 1000000, .iov_len = n - cut / 2};
			d->side[1].region[1].niov = 2;
			op->rma.seg[0] = (struct uccl_seg){.addr = 5, .len = cut, .key = 1};
			op->rma.seg[1] = (struct uccl_seg){.addr = 0, .len = 2 * cut, .key = 2};
			op->rma.seg[2] = (struct uccl_seg){.addr = 5 + cut, .len = n - 3 * cut, .key = 1};
			op->rma.nseg = 3;
			op->len = n;
			op->iov[0] = (struct iovec){.iov_base = src, .iov_len = 1};
			op->iov[1] = (struct iovec){.iov_base = src + 1, .iov_len = n / 2};
			op->iov[2] = (struct iovec){.iov_base = src + n, .iov_len = 0};
			op->iov[3] = (struct iovec){.iov_base = src + 1 + n / 2, .iov_len = n - 1 - n / 2};
			op->iov_count = 4;
			d->side[1].region[0].len = 5 + cut + n - 3 * cut;
			memset(mem, 0, sizeof(mem));
			memset(src, 0, sizeof(src));
			if (type == UCCL_OP_WRITE) {
				duo_fill(src, n, i);
			} else {
				duo_fill(dst, n, i);
				memcpy(mem + 5, dst, cut);
				memcpy(mem + 500000, dst + cut, cut / 2);
				memcpy(mem + 1000000, dst + cut + cut / 2, 2 * cut - cut / 2);
				memcpy(mem + 5 + cut, dst + 3 * cut, n - 3 * cut);
			}
			assert_int_equal(uccl_msg_rma(&d->side[0].m, op, d->now), 0);
			duo_run(d, SECOND);
			assert_int_equal(duo_next(d, 0)->err, 0);
			if (type == UCCL_OP_WRITE) {
				memcpy(dst, mem + 5, cut);
				memcpy(dst + cut, mem + 500000, cut / 2);
				memcpy(dst + cut + cut / 2, mem + 1000000, 2 * cut - cut / 2);
				memcpy(dst + 3 * cut, mem + 5 + cut, n - 3 * cut);
				duo_check(dst, n, i);
			} else {
				duo_check(src, n, i);
			}
			idle(d);
		}
}

/* The buffer is the caller's when the post returns; the completion comes with the answer all the same. */
TEST(rma__inject)
{
	static const uint64_t lens[] = {8, 104, 500, 4000, 60000, 70000};

	for (unsigned int i = 0; i < uccl_array_len(lens); i++) {
		struct duo *d = duo_open();
		uint64_t n = lens[i], key = duo_region(d, 1, 0, mem, n, BOTH);

		duo_fill(src, n, i);
		assert_int_equal(duo_rma(d, 0, UCCL_OP_WRITE, UCCL_OPF_INJECT, src, n, 0, key, DUO_CTX(1)), 0);
		memset(src, 0, n);
		assert_null(duo_next(d, 0));
		duo_run(d, SECOND);
		expect(d, DUO_CTX(1), 0);
		duo_check(mem, n, i);
		idle(d);
	}
}

/* Every reason to refuse reaches the initiator, at every size, and nothing was touched. PROTOCOL R72 */
TEST(rma__refused)
{
	static const uint64_t lens[] = {8, 1000, 60000, 100000};

	for (unsigned int i = 0; i < uccl_array_len(lens); i++)
		for (int type = UCCL_OP_WRITE; type <= UCCL_OP_READ; type++) {
			struct duo *d = duo_open();
			uint64_t n = lens[i];
			uint8_t t = (uint8_t)type;

			duo_region(d, 1, 0, mem, n, BOTH);
			duo_region(d, 1, 1, mem, n, type == UCCL_OP_WRITE ? UCCL_ACCESS_READ : UCCL_ACCESS_WRITE);
			memset(mem, 0x11, n);
			memset(src, 0x22, n);
			duo_rma(d, 0, t, 0, src, n, 0, 3, DUO_CTX(1));
			duo_rma(d, 0, t, 0, src, n, 0, 2, DUO_CTX(2));
			duo_rma(d, 0, t, 0, src, n, 1, 1, DUO_CTX(3));
			duo_rma(d, 0, t, 0, src, n, UINT64_MAX - 3, 1, DUO_CTX(4));
			duo_run(d, SECOND);
			assert_int_equal(duo_waiting(d, 0), 4);
			for (int k = 1; k <= 4; k++) {
				const struct duo_comp *c = duo_next(d, 0);
				long which = (long)(uintptr_t)c->context;

				assert_int_equal(c->err, which == 1 ? FI_EKEYREJECTED : FI_EACCES);
				assert_int_equal(c->refusal, which == 1	  ? UCCL_REFUSED_KEY :
							     which == 2 ? UCCL_REFUSED_ACCESS :
									  UCCL_REFUSED_RANGE);
			}
			for (uint64_t k = 0; k < n; k++)
				assert_true(mem[k] == 0x11 && src[k] == 0x22);
			assert_int_equal(d->side[1].events, 0);
			idle(d);
		}
}

TEST(rma__data)
{
	static const uint64_t lens[] = {0, 8, 60000, 100000};

	for (unsigned int i = 0; i < uccl_array_len(lens); i++) {
		struct duo *d = duo_open();

		duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
		duo_rma(d, 0, UCCL_OP_WRITE, UCCL_OPF_DATA, src, lens[i], 0, 1, DUO_CTX(1));
		duo_run(d, SECOND);
		expect(d, DUO_CTX(1), 0);
		assert_int_equal(d->side[1].events, 1);
		assert_true(d->side[1].event.has_data && d->side[1].event.write && !d->side[1].event.atomic);
		assert_true(d->side[1].event.data == 0xfeedfacecafebeef);
		assert_int_equal(d->side[1].event.len, lens[i]);
		assert_ptr_equal(d->side[1].event.from, &d->side[1].peer);
		idle(d);
	}
}

/* What is fenced begins when all before it is complete, and what is behind it waits too. PROTOCOL R76 */
TEST(rma__fence)
{
	struct duo *d = duo_open();

	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	duo_fill(src, 300000, 1);
	memset(src + 500000, 0x55, 100000);
	duo_rma(d, 0, UCCL_OP_WRITE, 0, src, 300000, 0, 1, DUO_CTX(1));
	duo_rma(d, 0, UCCL_OP_READ, UCCL_OPF_FENCE, dst, 300000, 0, 1, DUO_CTX(2));
	duo_rma(d, 0, UCCL_OP_WRITE, UCCL_OPF_FENCE, src + 500000, 100000, 0, 1, DUO_CTX(3));
	duo_rma(d, 0, UCCL_OP_WRITE, 0, src, 8, 0, 1, DUO_CTX(4));
	assert_int_equal(d->side[0].peer.tx.mseq, 1);
	duo_run(d, SECOND);
	for (int k = 1; k <= 2; k++)
		expect(d, DUO_CTX(k), 0);
	assert_int_equal(duo_waiting(d, 0), 2);
	d->side[0].seen += 2;
	duo_check(dst, 300000, 1);
	assert_int_equal(mem[50000], 0x55);
	idle(d);
}

/* A fence ends with what it waits for, when the peer dies. */
TEST(rma__peer_dies)
{
	struct duo *d = duo_open();

	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	duo_rma(d, 0, UCCL_OP_WRITE, 0, src, 300000, 0, 1, DUO_CTX(1));
	duo_rma(d, 0, UCCL_OP_READ, 0, dst, 300000, 0, 1, DUO_CTX(2));
	duo_rma(d, 0, UCCL_OP_READ, UCCL_OPF_FENCE, dst, 10, 0, 1, DUO_CTX(3));
	for (int i = 0; i < 3; i++)
		duo_round(d);
	duo_fail(d, FI_EHOSTDOWN);
	for (int k = 1; k <= 3; k++)
		expect(d, DUO_CTX(k), FI_EHOSTDOWN);
	assert_int_equal(duo_rma(d, 0, UCCL_OP_READ, 0, dst, 10, 0, 1, NULL), -FI_EHOSTDOWN);
	idle(d);
}

TEST(rma__not_connected)
{
	struct duo *d = duo_new(false, 16);

	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	duo_fill(src, 5000, 3);
	duo_rma(d, 0, UCCL_OP_WRITE, 0, src, 5000, 0, 1, DUO_CTX(1));
	duo_rma(d, 0, UCCL_OP_READ, 0, dst, 5000, 0, 1, DUO_CTX(2));
	assert_int_equal(d->side[0].connects, 2);
	duo_connect(d);
	duo_run(d, SECOND);
	expect(d, DUO_CTX(1), 0);
	expect(d, DUO_CTX(2), 0);
	duo_check(dst, 5000, 3);
	idle(d);
}

/* To ourselves: at once, with the same checks. */
TEST(rma__self)
{
	struct duo *d = duo_new(false, 16);
	uint64_t add = 5, was = 0, eleven = 11, five = 5;
	int n = 0;

	d->side[0].peer.self = true;
	duo_region(d, 0, 0, mem, 1000, BOTH);
	duo_fill(src, 100, 1);
	duo_rma(d, 0, UCCL_OP_WRITE, 0, src, 100, 10, 1, DUO_CTX(++n));
	duo_check(mem + 10, 100, 1);
	duo_rma(d, 0, UCCL_OP_READ, 0, dst, 100, 10, 1, DUO_CTX(++n));
	duo_check(dst, 100, 1);
	/* places that overlap */
	duo_rma(d, 0, UCCL_OP_WRITE, 0, mem + 10, 100, 13, 1, DUO_CTX(++n));
	duo_check(mem + 13, 100, 1);
	memset(mem, 0, 8);
	duo_atomic(d, 0, UCCL_OP_ATOMIC, UCCL_UINT64, UCCL_SUM, &add, NULL, NULL, 1, 0, 1, DUO_CTX(++n));
	duo_atomic(d, 0, UCCL_OP_COMPARE, UCCL_UINT64, UCCL_CSWAP, &eleven, &five, &was, 1, 0, 1, DUO_CTX(++n));
	assert_int_equal(was, 5);
	assert_int_equal(mem[0], 11);
	for (int k = 1; k <= n; k++)
		expect(d, DUO_CTX(k), 0);
	assert_int_equal(d->side[0].events, n);
	duo_rma(d, 0, UCCL_OP_READ, 0, dst, 100, 901, 1, DUO_CTX(7));
	expect(d, DUO_CTX(7), FI_EACCES);
	duo_atomic(d, 0, UCCL_OP_ATOMIC, UCCL_UINT64, UCCL_SUM, &add, NULL, NULL, 1, 0, 4, DUO_CTX(8));
	expect(d, DUO_CTX(8), FI_EKEYREJECTED);
	idle(d);
}

static bool no_room(void *arg)
{
	return *(bool *)arg;
}

/* Nobody else could hold us back. PROTOCOL R78 */
TEST(rma__self_no_room)
{
	struct duo *d = duo_new(false, 16);
	bool room = false;

	d->side[0].peer.self = true;
	d->side[0].m.posted.room = no_room;
	d->side[0].m.posted.room_arg = &room;
	duo_region(d, 0, 0, mem, 1000, BOTH);
	assert_int_equal(duo_rma(d, 0, UCCL_OP_WRITE, UCCL_OPF_DATA, src, 1000, 0, 1, DUO_CTX(1)), -FI_EAGAIN);
	assert_int_equal(d->side[0].events, 0);
	assert_int_equal(duo_rma(d, 0, UCCL_OP_WRITE, 0, src, 1000, 0, 1, DUO_CTX(2)), 0);
	expect(d, DUO_CTX(2), 0);
	room = true;
	assert_int_equal(duo_rma(d, 0, UCCL_OP_WRITE, UCCL_OPF_DATA, src, 1000, 0, 1, DUO_CTX(3)), 0);
	expect(d, DUO_CTX(3), 0);
	assert_int_equal(d->side[0].events, 2);
	idle(d);
}

/* Nothing is posted when something cannot be had. */
TEST(rma__limits)
{
	struct duo *d = duo_open();

	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	assert_int_equal(duo_atomic(d, 0, UCCL_OP_ATOMIC, UCCL_UINT8, UCCL_SUM, src, NULL, NULL, UCCL_ORDER_MAX + 1, 0,
				    1, NULL),
			 -FI_EMSGSIZE);
	assert_int_equal(duo_atomic(d, 0, UCCL_OP_COMPARE, UCCL_UINT8, UCCL_CSWAP, src, src, dst,
				    UCCL_ORDER_MAX / 2 + 1, 0, 1, NULL),
			 -FI_EMSGSIZE);
	d->side[0].m.tx.copied_bytes = UCCL_COPIED_MAX;
	assert_int_equal(duo_rma(d, 0, UCCL_OP_WRITE, UCCL_OPF_INJECT, src, 4000, 0, 1, NULL), -FI_EAGAIN);
	/* What needs no copy goes on. */
	assert_int_equal(duo_rma(d, 0, UCCL_OP_WRITE, 0, src, 5000, 0, 1, DUO_CTX(1)), 0);
	d->side[0].m.tx.copied_bytes = 0;
	d->side[0].m.rx_pool.max = 0;
	assert_int_equal(duo_rma(d, 0, UCCL_OP_READ, 0, dst, 10, 0, 1, NULL), -FI_EAGAIN);
	duo_run(d, SECOND);
	expect(d, DUO_CTX(1), 0);
	idle(d);
}

/* Without memory for it, what fills no packet of a write is not copied, and the write goes all the same. */
DUO_TEST(rma__odd_without_room, duo_open())
{
	enum { PACKET = 16384, LEN = 2 * PACKET + 1000 };
	struct uccl_flow *f = &d->side[0].peer.flow;

	f->cfg.packet.chunk_bytes = f->chunk_bytes = PACKET;
	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	duo_fill(src, LEN, 3);
	d->side[0].m.tx.copied_bytes = UCCL_COPIED_MAX;
	assert_int_equal(duo_rma(d, 0, UCCL_OP_WRITE, 0, src, LEN, 0, 1, DUO_CTX(1)), 0);
	assert_null(TAILQ_FIRST(&d->side[0].peer.tx.sends)->tx.bounce);
	d->side[0].m.tx.copied_bytes = 0;
	duo_run(d, SECOND);
	expect(d, DUO_CTX(1), 0);
	duo_check(mem, LEN, 3);
}

/* Each kind by itself, at the one who began it; what could not be posted is none. */
TEST(rma__counted)
{
	struct duo *d = duo_open();
	struct uccl_stats *s = &d->side[0].stats;
	uint64_t add = 1;

	duo_region(d, 1, 0, mem, 1000, BOTH);
	for (int self = 0; self < 2; self++) {
		if (self) {
			idle(d);
			d = duo_new(false, 16);
			s = &d->side[0].stats;
			d->side[0].peer.self = true;
			duo_region(d, 0, 0, mem, 1000, BOTH);
		}
		duo_rma(d, 0, UCCL_OP_WRITE, 0, src, 100, 0, 1, DUO_CTX(1));
		duo_rma(d, 0, UCCL_OP_READ, 0, dst, 100, 0, 1, DUO_CTX(2));
		duo_atomic(d, 0, UCCL_OP_ATOMIC, UCCL_UINT64, UCCL_SUM, &add, NULL, NULL, 1, 0, 1, DUO_CTX(3));
		duo_atomic(d, 0, UCCL_OP_FETCH, UCCL_UINT64, UCCL_SUM, &add, NULL, dst, 1, 0, 1, DUO_CTX(4));
		duo_atomic(d, 0, UCCL_OP_COMPARE, UCCL_UINT64, UCCL_CSWAP, &add, &add, dst, 1, 0, 1, DUO_CTX(5));
		duo_run(d, SECOND);
		for (int k = 1; k <= 5; k++)
			assert_int_equal(duo_next(d, 0)->err, 0);
		d->side[0].m.tx.copied_bytes = UCCL_COPIED_MAX;
		assert_int_equal(duo_rma(d, 0, UCCL_OP_WRITE, UCCL_OPF_INJECT, src, 900, 0, 1, NULL), -FI_EAGAIN);
		d->side[0].m.tx.copied_bytes = 0;
		assert_int_equal(s->rma_ops, 2);
		assert_int_equal(s->atomic_ops, 3);
		assert_int_equal(d->side[1].stats.rma_ops + d->side[1].stats.atomic_ops, 0);
	}
	idle(d);
}

/* Answers that nobody waits for, or that say too much. PROTOCOL R74 */
DUO_TEST(answer__bad, duo_open())
{
	uint8_t rec[UCCL_REC_LEN] = {0};
	struct uccl_resp resp = {.id = 77};

	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	uccl_resp_encode(rec, &resp);
	assert_int_equal(duo_deliver(d, 0, UCCL_REC_RESP, rec, NULL, 0), UCCL_DROP_HANDLE);
	duo_rma(d, 0, UCCL_OP_READ, 0, dst, 1000, 0, 1, DUO_CTX(1));
	resp.id = TAILQ_FIRST(&d->side[0].peer.tx.sends)->tx.id;
	uccl_resp_encode(rec, &resp);
	/* a read does not succeed by words, */
	assert_int_equal(duo_deliver(d, 0, UCCL_REC_RESP, rec, NULL, 0), UCCL_DROP_RECORD);
	/* nor before it was asked for by more than it wants */
	assert_int_equal(duo_bulk(d, 0, UCCL_REC_REPLY, TAILQ_FIRST(&d->side[0].peer.tx.sends)->rma.rx->id, 0, 0, src,
					  1001), UCCL_DROP_RANGE);
	uccl_rec_set_bulk(rec, TAILQ_FIRST(&d->side[0].peer.tx.sends)->rma.rx->id, 1, 0);
	assert_int_equal(duo_deliver(d, 0, UCCL_REC_REPLY, rec, src, 10), UCCL_DROP_HANDLE);
	duo_run(d, SECOND);
	expect(d, DUO_CTX(1), 0);
	duo_rma(d, 0, UCCL_OP_WRITE, 0, src, 100000, 0, 1, DUO_CTX(2));
	resp.id = TAILQ_FIRST(&d->side[0].peer.tx.sends)->tx.id;
	uccl_resp_encode(rec, &resp);
	assert_int_equal(duo_deliver(d, 0, UCCL_REC_FIN, rec, NULL, 0), UCCL_DROP_RECORD);
	/* a reason that we do not know is one */
	resp.err = 200;
	uccl_resp_encode(rec, &resp);
	assert_int_equal(duo_deliver(d, 0, UCCL_REC_RESP, rec, NULL, 0), UCCL_DROP_COUNT);
	duo_run(d, SECOND);
	expect(d, DUO_CTX(2), FI_EOPNOTSUPP);
	assert_null(duo_next(d, 0));
}

/* A read is not complete by as many bytes as it has. PROTOCOL R119 */
DUO_TEST(answer__same_bytes_twice, duo_open())
{
	uint32_t id;

	duo_fill(src, 1000, 3);
	duo_rma(d, 0, UCCL_OP_READ, 0, dst, 1000, 0, 1, DUO_CTX(1));
	id = TAILQ_FIRST(&d->side[0].peer.tx.sends)->rma.rx->id;
	assert_int_equal(duo_bulk(d, 0, UCCL_REC_REPLY, id, 0, 400, src + 400, 600), UCCL_DROP_COUNT);
	assert_int_equal(duo_bulk(d, 0, UCCL_REC_REPLY, id, 0, 500, src + 100, 400), UCCL_DROP_OVERLAP);
	assert_int_equal(TAILQ_FIRST(&d->side[0].peer.tx.sends)->rma.rx->arrived.got, 600);
	assert_int_equal(duo_bulk(d, 0, UCCL_REC_REPLY, id, 0, 0, src, 400), UCCL_DROP_COUNT);
	assert_null(TAILQ_FIRST(&d->side[0].peer.tx.sends)->rma.rx);
	duo_check(dst, 1000, 3);
	/* The request is still to be acknowledged; its refusal says nothing any more. */
	duo_run(d, SECOND);
	expect(d, DUO_CTX(1), 0);
}

static uint8_t req_flags;

static enum duo_verdict see_request(struct duo *d, const struct duo_pkt *p)
{
	struct uccl_hdr h;

	if (p->kind == UCCL_TX_PACKET && p->type == UCCL_PKT_CHUNK && p->rtype == UCCL_REC_REQ) {
		assert_int_equal(uccl_hdr_decode(&h, p->data, p->len), UCCL_DROP_COUNT);
		req_flags = h.flags;
	}
	return DUO_PASS;
}

/* The acknowledgement of a read may wait for the reply only if that has room for it. PROTOCOL R340 */
TEST(read__reply_without_room)
{
	static const uint64_t short_reads[] = {8, DUO_CHUNK - UCCL_ACK_FIXED}, long_reads[] = {
		DUO_CHUNK - UCCL_ACK_FIXED + 1, DUO_CHUNK, 2 * DUO_CHUNK, 65536};
	struct duo *d = duo_open();
	uint64_t key = duo_region(d, 1, 2, mem, 65536, BOTH);

	d->side[0].peer.flow.cfg.wire.delays_tx = true;
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(duo_rma(d, 0, UCCL_OP_READ, 0, dst, 8, 0, key, DUO_CTX(1)), 0);
		duo_run(d, SECOND);
		expect(d, DUO_CTX(1), 0);
	}
	d->filter = see_request;
	for (unsigned int i = 0; i < uccl_array_len(short_reads); i++) {
		assert_int_equal(duo_rma(d, 0, UCCL_OP_READ, 0, dst, short_reads[i], 0, key, DUO_CTX(2)), 0);
		duo_run(d, SECOND);
		expect(d, DUO_CTX(2), 0);
		assert_true(req_flags & UCCL_FLAG_DELAY);
	}
	for (unsigned int i = 0; i < uccl_array_len(long_reads); i++) {
		assert_int_equal(duo_rma(d, 0, UCCL_OP_READ, 0, dst, long_reads[i], 0, key, DUO_CTX(3)), 0);
		duo_run(d, SECOND);
		expect(d, DUO_CTX(3), 0);
		assert_int_equal(req_flags & (UCCL_FLAG_DELAY | UCCL_FLAG_AR), UCCL_FLAG_AR);
	}
	idle(d);
}

/* Places that reads have in common are predicted once. PROTOCOL R44 */
DUO_TEST(placement__apart, duo_open())
{
	struct uccl_rx_placement hints[16];
	int n;

	d->side[0].peer.flow.cfg.packet.chunk_bytes = 16384;
	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	for (int i = 0; i < 3; i++)
		duo_rma(d, 0, UCCL_OP_READ, 0, dst + i * 1000, 50000, 0, 1, DUO_CTX(i));
	n = uccl_msg_predict(&d->side[0].m, hints, 16);
	assert_true(n >= 4);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < i; k++)
			assert_true((uint8_t *)hints[i].dst >= (uint8_t *)hints[k].dst + hints[k].len ||
				    (uint8_t *)hints[k].dst >= (uint8_t *)hints[i].dst + hints[i].len);
	d->side[0].peer.flow.cfg.packet.chunk_bytes = DUO_CHUNK;
	duo_run(d, SECOND);
	assert_int_equal(duo_waiting(d, 0), 3);
}

TESTS_MAIN
