/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "msg/device/copy.h"

#include "../duo.h"
#include "msg/abort.h"
#include "msg/rma/atomic_math.h"
#include "../../tests.h"

static uint8_t host[2][300000], other[300000];

static void gpu_fill(struct duo_gpu *g, uint64_t at, uint64_t len, uint32_t seed)
{
	duo_fill(g->mem + at, len, seed);
}

/* The next completion of side s is this one; NULL: there is none yet. */
static void expect(struct duo *d, int s, void *context, int err)
{
	const struct duo_comp *c = duo_next(d, s);

	if (!context) {
		assert_null(c);
		return;
	}
	assert_non_null(c);
	assert_ptr_equal(c->context, context);
	assert_int_equal(c->err, err);
}

DUO_TEST(copies__pieces_of_both_kinds, duo_open())
{
	struct duo_gpu *g = duo_gpu(d, 0);
	struct uccl_msg_ep *m = &d->side[0].m;
	struct uccl_copy c = {0}, e = {0};
	struct iovec iov[4] = {
		{DUO_GPU, 10}, {host[0], 20}, {DUO_GPU + 100, 0}, {DUO_GPU + 200, 30},
	};
	struct iovec to[2] = {{host[1], 7}, {DUO_GPU + 1000, 53}};
	uint8_t in[60], out[60];

	duo_fill(in, sizeof(in), 1);
	msg_put(m, &c, iov, 4, 0xd, 0, in, 5);
	msg_put(m, &c, iov, 4, 0xd, 5, in + 5, 55);
	assert_false(msg_copied(m, &c));
	uccl_msg_copies(m, d->now);
	assert_true(msg_copied(m, &c));
	assert_memory_equal(g->mem, in, 10);
	assert_memory_equal(host[0], in + 10, 20);
	assert_memory_equal(g->mem + 200, in + 30, 30);
	msg_get(m, &c, iov, 4, 0xd, 8, out, 50);
	msg_copies_settle(m);
	assert_memory_equal(out, in + 8, 50);
	msg_move(m, &e, to, 2, 2, iov, 4, 0xd, 60);
	msg_copies_settle(m);
	assert_memory_equal(host[1], in, 7);
	assert_memory_equal(g->mem + 1000, in + 7, 53);
	assert_int_equal(c.err + e.err, 0);
}

static int fired[8], nfired;
static struct uccl_copy waiter[3];

static void record(struct uccl_copy *c, uint64_t now)
{
	fired[nfired++] = (int)(c - waiter);
}

DUO_TEST(copies__by_their_numbers, duo_open())
{
	struct duo_gpu *g = duo_gpu(d, 0);
	struct uccl_msg_ep *m = &d->side[0].m;
	struct iovec iov = {DUO_GPU, 100};

	nfired = 0;
	g->stuck = true;
	memset(waiter, 0, sizeof(waiter));
	for (int i = 0; i < 3; i++)
		msg_put(m, &waiter[i], &iov, 1, 1, 0, host[0], 8);
	msg_copy_wait(m, &waiter[2], record);
	msg_copy_wait(m, &waiter[0], record);
	msg_copy_wait(m, &waiter[0], record);
	msg_copy_wait(m, &waiter[1], record);
	assert_int_equal(uccl_msg_copies(m, d->now), 0);
	assert_true(uccl_msg_copying(m));
	g->stuck = false;
	/* Who does not wait any more is not called. Only who stays waits. */
	assert_int_equal(g->waits, 0);
	msg_copy_end(m, &waiter[1]);
	assert_int_equal(g->waits, 1);
	assert_int_equal(nfired, 0);
	assert_int_equal(uccl_msg_copies(m, d->now), 2);
	assert_int_equal(fired[0], 0);
	assert_int_equal(fired[1], 2);
	assert_false(uccl_msg_copying(m));
}

/* A receive is complete when its bytes are there, whichever way the message comes. */
TEST(recv__waits_for_its_copies)
{
	static const uint64_t sizes[] = {1, 700, 8000, 20000, 200000};

	for (unsigned int i = 0; i < 5; i++)
		for (int unexpected = 0; unexpected < 2; unexpected++) {
			struct duo *d = duo_open();
			struct duo_gpu *g = duo_gpu(d, 1);

			duo_fill(host[0], sizes[i], i);
			g->stuck = true;
			duo_pass(d, unexpected, 0, host[0], sizes[i], DUO_GPU, sizes[i]);
			expect(d, 1, NULL, 0);
			g->stuck = false;
			duo_run(d, 20 * MS);
			expect(d, 1, DUO_CTX(2), 0);
			duo_check(g->mem, sizes[i], i);
			duo_free(d);
		}
}

/*
 * A NIC that may write to the device does; what came in packets is copied. The device sees it when the receive is
 * complete, which is after a flush. PROTOCOL R191
 */
TEST(recv__written_by_the_nic)
{
	static const uint64_t sizes[] = {20000, 65536 + 4095, 200001};

	for (unsigned int i = 0; i < 3; i++)
		for (int unexpected = 0; unexpected < 2; unexpected++) {
			struct duo *d = duo_open_writes();
			struct duo_gpu *g = duo_gpu(d, 1);

			g->direct = true;
			g->stuck = true;
			duo_fill(host[0], sizes[i], i);
			duo_pass(d, unexpected, 0, host[0], sizes[i], DUO_GPU, sizes[i]);
			expect(d, 1, NULL, 0);
			assert_true(d->side[0].stats.writes_tx >= (sizes[i] - DUO_CHUNK) / DUO_WRITE);
			assert_int_equal(g->flushes, 0);
			/* Only what came before the memory was known, or is too short to be written. */
			g->stuck = false;
			duo_run(d, 20 * MS);
			expect(d, 1, DUO_CTX(2), 0);
			assert_int_equal(g->flushes, 1);
			assert_int_equal(d->side[1].regs, 1);
			assert_int_equal(d->side[1].deregs, 1);
			duo_check(g->mem, sizes[i], i);
			assert_int_equal(g->mem[sizes[i]], 0);
			duo_free(d);
		}
}

/* What nobody can say that the device sees was not received. */
DUO_TEST(recv__flush_fails, duo_open_writes())
{
	struct duo_gpu *g = duo_gpu(d, 1);

	g->direct = g->flush_fails = true;
	duo_pass(d, false, 0, host[0], 50000, DUO_GPU, 50000);
	expect(d, 1, DUO_CTX(2), FI_EIO);
	assert_int_equal(d->side[1].deregs, 1);
}

static enum duo_verdict every_third_lost(struct duo *d, const struct duo_pkt *p)
{
	return d->n++ % 3 ? DUO_PASS : DUO_DROP;
}

/*
 * A NIC that may read the device does, for writes and for packets, also for those that are lost and leave again; nobody
 * copies. PROTOCOL R221
 */
TEST(send__read_by_the_nic)
{
	static const uint64_t sizes[] = {65537, 65536 + 4095, 200001};

	for (unsigned int i = 0; i < 3; i++)
		for (int how = 0; how < 8; how++) {
			struct duo *d = how & 1 ? duo_open_writes() : duo_open();
			struct duo_gpu *g = duo_gpu(d, 0);

			g->reads = true;
			g->stuck = true;
			d->filter = how & 2 ? every_third_lost : NULL;
			duo_fill(g->mem, sizes[i], i);
			duo_pass(d, false, how & 4 ? UCCL_OPF_DELIVERY : 0, DUO_GPU, sizes[i], host[1], sizes[i]);
			expect(d, 1, DUO_CTX(2), 0);
			expect(d, 0, DUO_CTX(1), 0);
			assert_true(g->read >= sizes[i]);
			assert_int_equal(g->queued, 0);
			assert_int_equal(g->sources, 0);
			duo_check(host[1], sizes[i], i);
			duo_free(d);
		}
}

/* One that may not leaves it to copies, and what is read ends with its peer. */
DUO_TEST(send__not_read_by_the_nic, duo_open_writes())
{
	struct duo_gpu *g = duo_gpu(d, 0);

	duo_fill(g->mem, 100000, 3);
	duo_pass(d, false, 0, DUO_GPU, 100000, host[1], 100000);
	expect(d, 1, DUO_CTX(2), 0);
	expect(d, 0, DUO_CTX(1), 0);
	assert_true(g->queued > 0);
	assert_int_equal(g->read, 0);
	duo_check(host[1], 100000, 3);

	g->reads = true;
	duo_recv(d, 1, 0, host[1], 250000, 0, 0, DUO_CTX(1));
	duo_send(d, 0, 0, DUO_GPU, 250000, 0, DUO_CTX(2));
	while (!g->sources)
		duo_round(d);
	uccl_peer_fail(&d->side[0].peer, FI_ECONNRESET, d->now);
	assert_int_equal(g->sources, 0);
	expect(d, 0, DUO_CTX(2), FI_ECONNRESET);
}

/* Nothing was written, nothing needs a flush: the NIC does not reach the device, or all came in packets. */
TEST(recv__no_flush_for_copies)
{
	for (int direct = 0; direct < 2; direct++) {
		struct duo *d = duo_open_writes();
		struct duo_gpu *g = duo_gpu(d, 1);
		uint64_t n = direct ? 3000 : 50000;

		g->direct = direct;
		g->flush_fails = true;
		duo_fill(host[0], n, 3);
		duo_pass(d, false, 0, host[0], n, DUO_GPU, n);
		expect(d, 1, DUO_CTX(2), 0);
		assert_int_equal(g->flushes, 0);
		assert_int_equal(d->side[0].stats.writes_tx, 0);
		duo_check(g->mem, n, 3);
		duo_free(d);
	}
}

static enum duo_verdict lose_fifth_write(struct duo *d, const struct duo_pkt *p)
{
	return p->kind == UCCL_TX_WRITE && ++d->n == 5 ? DUO_DROP : DUO_PASS;
}

static enum duo_verdict lost_and_doubled(struct duo *d, const struct duo_pkt *p)
{
	return ++d->n % 7 == 0 ? DUO_DROP : d->n % 5 == 0 ? DUO_DOUBLE : DUO_PASS;
}

/*
 * What is asked for comes to the device by itself, and is moved to its place; what comes before that, or again, is
 * copied there. PROTOCOL R291
 */
TEST(recv__gathered)
{
	static const uint64_t sizes[] = {20000, 65536 + 4095, 200001};

	for (unsigned int i = 0; i < 3; i++)
		for (int how = 0; how < 8; how++) {
			struct duo *d = duo_open();
			struct duo_gpu *g = duo_gpu(d, 1);

			g->gathers = g->stuck = true;
			d->filter = how & 2 ? lost_and_doubled : NULL;
			duo_fill(host[0], sizes[i], i);
			duo_pass(d, how & 1, how & 4 ? UCCL_OPF_DELIVERY : 0, host[0], sizes[i], DUO_GPU,
				 sizes[i]);
			expect(d, 1, NULL, 0);
			if (how & 4)
				expect(d, 0, NULL, 0);
			g->stuck = false;
			duo_run(d, 2000 * MS);
			expect(d, 1, DUO_CTX(2), 0);
			expect(d, 0, DUO_CTX(1), 0);
			assert_true(g->moves >= (sizes[i] - DUO_CHUNK) / DUO_CHUNK * (how & 2 ? 2 : 4) / 4);
			if (!(how & 2))
				assert_int_equal(g->puts, 1);
			duo_check(g->mem, sizes[i], i);
			assert_int_equal(g->mem[sizes[i]], 0);
			duo_free(d);
		}
}

/* Not what is short, or in several buffers, or for memory of the host; and what is cut ends where it is cut. */
DUO_TEST(recv__gathered_or_not, duo_open())
{
	struct duo_gpu *g = duo_gpu(d, 1);
	struct uccl_op *op = duo_op(d, 1, UCCL_OP_RECV, 0);

	g->gathers = true;
	duo_fill(host[0], 50000, 3);
	duo_pass(d, false, 0, host[0], 50000, DUO_GPU, 16383);
	expect(d, 1, DUO_CTX(2), FI_ETRUNC);
	expect(d, 0, DUO_CTX(1), 0);
	op->iov[0] = (struct iovec){DUO_GPU + 100000, 20000};
	op->iov[1] = (struct iovec){DUO_GPU + 200000, 30000};
	op->iov_count = 2;
	op->device = 3;
	op->len = 50000;
	op->context = DUO_CTX(3);
	assert_int_equal(uccl_msg_recv(&d->side[1].m, op, d->now), 0);
	duo_send(d, 0, 0, host[0], 50000, 0, DUO_CTX(4));
	duo_run(d, 20 * MS);
	expect(d, 1, DUO_CTX(3), 0);
	expect(d, 0, DUO_CTX(4), 0);
	duo_check(g->mem + 100000, 20000, 3);
	assert_memory_equal(g->mem + 200000, host[0] + 20000, 30000);
	duo_pass(d, false, 0, host[0], 50000, host[1], 50000);
	expect(d, 1, DUO_CTX(2), 0);
	expect(d, 0, DUO_CTX(1), 0);
	assert_int_equal(g->moves, 0);
	duo_pass(d, false, 0, host[0], 50000, DUO_GPU + 300000, 33333);
	expect(d, 1, DUO_CTX(2), FI_ETRUNC);
	assert_true(g->moves > 30);
	assert_memory_equal(g->mem + 300000, host[0], 33333);
	assert_int_equal(g->mem[333333], 0);
}

/* The sender lies: all that it sends it sends to the queue that it once heard of. */
static enum duo_verdict to_the_queue(struct duo *d, const struct duo_pkt *p)
{
	if (p->to == 1 && p->rtype == UCCL_REC_DATA)
		((struct duo_pkt *)(uintptr_t)p)->queue = DUO_QUEUE;
	return DUO_PASS;
}

/* Then nothing of the payload is read, and the message is not there. PROTOCOL R292 */
TEST(recv__gathered_unsolicited)
{
	for (int device = 0; device < 2; device++) {
		struct duo *d = duo_open();
		struct duo_gpu *g = duo_gpu(d, 1);

		g->gathers = !device;
		d->filter = to_the_queue;
		duo_pass(d, false, 0, host[0], 50000, device ? DUO_GPU : host[1], 50000);
		expect(d, 1, NULL, 0);
		assert_true(d->side[1].stats.dropped[UCCL_DROP_STATE] > 40);
		assert_int_equal(g->moves, 0);
		duo_free(d);
	}
}

/* A copy within the device fails, and no place for payload of the host is none of its business. */
DUO_TEST(recv__gathered_copy_fails, duo_open())
{
	struct duo_gpu *g = duo_gpu(d, 1);

	g->gathers = true;
	g->passing = 20;
	g->failing = 1;
	duo_recv(d, 1, 0, DUO_GPU, 50000, 0, 0, DUO_CTX(1));
	duo_send(d, 0, 0, host[0], 50000, 0, DUO_CTX(2));
	for (int i = 0; i < 2; i++)
		duo_round(d);
	g->full = true;
	duo_run(d, 100 * MS);
	expect(d, 1, DUO_CTX(1), FI_EIO);
	expect(d, 0, DUO_CTX(2), 0);
	assert_int_equal(d->side[1].stats.dropped[UCCL_DROP_MEMORY], 0);
}

/* Side 0 writes to the start of the device of side 1. */
static void write_there(struct duo *d, struct duo_gpu *g, uint64_t key)
{
	duo_fill(host[0], 100000, 4);
	assert_int_equal(duo_rma(d, 0, UCCL_OP_WRITE, 0, host[0], 100000, 0, key, DUO_CTX(1)), 0);
	duo_run(d, 20 * MS);
	expect(d, 0, DUO_CTX(1), 0);
	duo_check(g->mem, 100000, 4);
}

/* Side 1 reads from the host of side 0 to its device. */
static void read_there(struct duo *d, struct duo_gpu *g)
{
	uint64_t key = duo_region(d, 0, 0, host[0], 100000, UCCL_ACCESS_READ);

	duo_fill(host[0], 100000, 5);
	assert_int_equal(duo_rma(d, 1, UCCL_OP_READ, 0, DUO_GPU + 300000, 100000, 0, key, DUO_CTX(2)), 0);
	duo_run(d, 20 * MS);
	expect(d, 1, DUO_CTX(2), 0);
	duo_check(g->mem + 300000, 100000, 5);
}

/* What is written to a region, and what comes back for reads. */
DUO_TEST(rma__gathered, duo_open())
{
	struct duo_gpu *g = duo_gpu(d, 1);
	uint64_t key = duo_region(d, 1, 0, DUO_GPU, 200000, BOTH);

	g->gathers = true;
	write_there(d, g, key);
	assert_true(g->moves > 90);
	g->moves = 0;
	read_there(d, g);
	assert_true(g->moves > 90);
}

/* Unsolicited data are copied: while its device has a queue, a receiver wants none. PROTOCOL R264 */
TEST(recv__gathered_none_unsolicited)
{
	for (int gathers = 0; gathers < 2; gathers++) {
		struct duo *d = duo_open_unsolicited();
		struct duo_gpu *g = duo_gpu(d, 1);

		g->gathers = gathers;
		for (unsigned int i = 0; i < 3; i++) {
			g->moves = 0;
			duo_fill(host[0], 100000, i);
			duo_pass(d, false, 0, host[0], 100000, DUO_GPU, 100000);
			expect(d, 1, DUO_CTX(2), 0);
			expect(d, 0, DUO_CTX(1), 0);
			duo_check(g->mem, 100000, i);
			assert_int_equal(g->moves > 90, gathers && i);
		}
		assert_int_equal(d->side[0].peer.tx.met_streak > 0, !gathers);
		duo_free(d);
	}
}

/* A write that was lost comes in packets, which are copied. It is in doubt: then the flush comes last. */
DUO_TEST(recv__written_and_copied, duo_open_writes())
{
	struct duo_gpu *g = duo_gpu(d, 1);

	g->direct = true;
	d->auto_fence = false;
	d->filter = lose_fifth_write;
	duo_fill(host[0], 100000, 4);
	duo_pass(d, false, 0, host[0], 100000, DUO_GPU, 100000);
	expect(d, 1, NULL, 0);
	assert_int_equal(g->flushes, 0);
	assert_int_equal(d->side[1].deregs, 0);
	assert_int_equal(d->side[1].fences, 1);
	uccl_flow_fenced(&d->side[1].peer.flow, d->side[1].fence_path[0], d->now);
	expect(d, 1, DUO_CTX(2), 0);
	assert_int_equal(g->flushes, 1);
	duo_check(g->mem, 100000, 4);
}

/* Writes of RMA to a device, and what comes back for reads. */
DUO_TEST(rma__written_by_the_nic, duo_open_writes())
{
	struct duo_gpu *g = duo_gpu(d, 1);
	uint64_t key = duo_region(d, 1, 0, DUO_GPU, 200000, BOTH);

	g->direct = true;
	write_there(d, g, key);
	assert_int_equal(g->flushes, 1);
	assert_true(d->side[0].stats.writes_tx > 0);
	read_there(d, g);
	assert_int_equal(g->flushes, 2);
}

/* PROTOCOL R33: what the sender hears is that the bytes are in their place, not that they are on the way there. */
TEST(send__delivery_waits_for_copies)
{
	static const uint64_t sizes[] = {100, 8000, 100000};

	for (unsigned int i = 0; i < 3; i++) {
		struct duo *d = duo_open();
		struct duo_gpu *g = duo_gpu(d, 1);

		g->stuck = true;
		duo_pass(d, false, UCCL_OPF_DELIVERY, host[0], sizes[i], DUO_GPU, sizes[i]);
		expect(d, 0, NULL, 0);
		g->stuck = false;
		duo_run(d, 50 * MS);
		expect(d, 0, DUO_CTX(1), 0);
		duo_free(d);
	}
}

DUO_TEST(send__in_order_behind_a_copy, duo_open())
{
	struct duo_gpu *g = duo_gpu(d, 0);

	g->stuck = true;
	gpu_fill(g, 0, 5000, 1);
	duo_fill(host[0], 3000, 2);
	assert_int_equal(duo_send(d, 0, UCCL_OPF_EARLY, DUO_GPU, 5000, 0, DUO_CTX(1)), 0);
	assert_int_equal(duo_send(d, 0, 0, host[0], 3000, 0, DUO_CTX(2)), 0);
	assert_int_equal(duo_recv(d, 1, 0, host[1], 5000, 0, 0, DUO_CTX(3)), 0);
	assert_int_equal(duo_recv(d, 1, 0, other, 5000, 0, 0, DUO_CTX(4)), 0);
	duo_run(d, 20 * MS);
	expect(d, 1, NULL, 0);
	expect(d, 0, NULL, 0);
	g->stuck = false;
	duo_run(d, 20 * MS);
	expect(d, 0, DUO_CTX(1), 0);
	expect(d, 0, DUO_CTX(2), 0);
	expect(d, 1, DUO_CTX(3), 0);
	expect(d, 1, DUO_CTX(4), 0);
	duo_check(host[1], 5000, 1);
	duo_check(other, 3000, 2);
}

/* The caller has its buffer back, so it is read before. */
DUO_TEST(send__injected_at_once, duo_open())
{
	struct duo_gpu *g = duo_gpu(d, 0);

	gpu_fill(g, 0, 600, 1);
	assert_int_equal(duo_send(d, 0, UCCL_OPF_INJECT, DUO_GPU, 600, 0, DUO_CTX(1)), 0);
	gpu_fill(g, 0, 600, 2);
	g->failing = 1;
	assert_int_equal(duo_send(d, 0, UCCL_OPF_INJECT, DUO_GPU, 600, 0, DUO_CTX(2)), -FI_EIO);
	assert_int_equal(duo_recv(d, 1, 0, host[1], 600, 0, 0, DUO_CTX(3)), 0);
	duo_run(d, 20 * MS);
	expect(d, 1, DUO_CTX(3), 0);
	duo_check(host[1], 600, 1);
}

DUO_TEST(send__copy_fails, duo_open())
{
	struct duo_gpu *g = duo_gpu(d, 0);

	g->failing = 1;
	duo_fill(host[0], 100, 3);
	assert_int_equal(duo_send(d, 0, UCCL_OPF_EARLY, DUO_GPU, 5000, 0, DUO_CTX(1)), 0);
	assert_int_equal(duo_send(d, 0, 0, host[0], 100, 0, DUO_CTX(2)), 0);
	assert_int_equal(duo_recv(d, 1, 0, host[1], 5000, 0, 0, DUO_CTX(3)), 0);
	duo_run(d, 20 * MS);
	expect(d, 0, DUO_CTX(1), FI_EIO);
	expect(d, 0, DUO_CTX(2), 0);
	/* Nothing of the first was sent. */
	expect(d, 1, DUO_CTX(3), 0);
	duo_check(host[1], 100, 3);
}

DUO_TEST(recv__copy_fails, duo_open())
{
	struct duo_gpu *g = duo_gpu(d, 1);

	g->failing = 1;
	assert_int_equal(duo_recv(d, 1, 0, DUO_GPU, 5000, 0, 0, DUO_CTX(1)), 0);
	assert_int_equal(duo_recv(d, 1, 0, DUO_GPU, 5000, 0, 0, DUO_CTX(2)), 0);
	assert_int_equal(duo_send(d, 0, 0, host[0], 700, 0, DUO_CTX(3)), 0);
	assert_int_equal(duo_send(d, 0, 0, host[0], 700, 0, DUO_CTX(3)), 0);
	duo_run(d, 20 * MS);
	expect(d, 1, DUO_CTX(1), FI_EIO);
	expect(d, 1, DUO_CTX(2), 0);
}

/* Payload for which there is no room now is not had, and comes again. */
DUO_TEST(recv__no_room, duo_open())
{
	struct duo_gpu *g = duo_gpu(d, 1);

	g->full = true;
	duo_fill(host[0], 50000, 4);
	duo_pass(d, false, 0, host[0], 50000, DUO_GPU, 50000);
	expect(d, 1, NULL, 0);
	assert_int_equal(g->queued, 0);
	assert_true(d->side[1].stats.dropped[UCCL_DROP_MEMORY] > 0);
	g->full = false;
	duo_run(d, 5000 * MS);
	expect(d, 1, DUO_CTX(2), 0);
	duo_check(g->mem, 50000, 4);
}

/* Nobody is told of a write that is not there, and what comes later stays behind it. */
TEST(write__answered_when_copied)
{
	static const uint64_t sizes[] = {8, 3000, 60000, 200000};

	for (unsigned int i = 0; i < 4; i++) {
		struct duo *d = duo_open();
		struct duo_gpu *g = duo_gpu(d, 1);
		uint64_t key = duo_region(d, 1, 0, DUO_GPU, 200000, UCCL_ACCESS_WRITE);
		uint64_t flag = duo_region(d, 1, 1, other, 8, UCCL_ACCESS_WRITE);

		g->stuck = true;
		memset(other, 0, 8);
		memset(host[1], 1, 8);
		duo_fill(host[0], sizes[i], i);
		assert_int_equal(duo_rma(d, 0, UCCL_OP_WRITE, UCCL_OPF_DATA, host[0], sizes[i], 0, key, DUO_CTX(1)), 0);
		assert_int_equal(duo_rma(d, 0, UCCL_OP_WRITE, 0, host[1], 8, 0, flag, DUO_CTX(2)), 0);
		duo_run(d, 20 * MS);
		expect(d, 0, sizes[i] > UCCL_ORDER_MAX ? DUO_CTX(2) : NULL, 0);
		assert_int_equal(d->side[1].region[0].writes, 0);
		/* Beyond what is kept in order nothing waits. */
		assert_int_equal(other[0], sizes[i] > UCCL_ORDER_MAX);
		g->stuck = false;
		duo_run(d, 20 * MS);
		expect(d, 0, DUO_CTX(1), 0);
		assert_int_equal(d->side[1].region[0].writes, 1);
		assert_int_equal(other[0], 1);
		duo_check(g->mem, sizes[i], i);
		duo_free(d);
	}
}

TEST(write__copy_fails)
{
	static const uint64_t sizes[] = {8, 60000, 200000};

	for (unsigned int i = 0; i < 3; i++) {
		struct duo *d = duo_open();
		struct duo_gpu *g = duo_gpu(d, 1);
		uint64_t key = duo_region(d, 1, 0, DUO_GPU, 200000, UCCL_ACCESS_WRITE);

		g->failing = 1;
		assert_int_equal(duo_rma(d, 0, UCCL_OP_WRITE, 0, host[0], sizes[i], 0, key, DUO_CTX(1)), 0);
		duo_run(d, 50 * MS);
		expect(d, 0, DUO_CTX(1), FI_EACCES);
		assert_int_equal(d->side[1].region[0].writes, 0);
		duo_free(d);
	}
}

TEST(rma__between_devices)
{
	static const uint64_t sizes[] = {8, 3000, 60000, 200000, 2000000};

	for (unsigned int i = 0; i < 5; i++) {
		struct duo *d = duo_open();
		struct duo_gpu *g0 = duo_gpu(d, 0), *g1 = duo_gpu(d, 1);
		uint64_t key = duo_region(d, 1, 0, DUO_GPU, 4000000, BOTH);

		gpu_fill(g0, 0, sizes[i], i);
		assert_int_equal(duo_rma(d, 0, UCCL_OP_WRITE, 0, DUO_GPU, sizes[i], 8, key, DUO_CTX(1)), 0);
		duo_run(d, 200 * MS);
		expect(d, 0, DUO_CTX(1), 0);
		duo_check(g1->mem + 8, sizes[i], i);
		assert_int_equal(duo_rma(d, 0, UCCL_OP_READ, 0, DUO_GPU + 4000000, sizes[i], 8, key, DUO_CTX(2)), 0);
		duo_run(d, 200 * MS);
		expect(d, 0, DUO_CTX(2), 0);
		duo_check(g0->mem + 4000000, sizes[i], i);
		assert_int_equal(d->side[1].region[0].reads, 1);
		duo_free(d);
	}
}

DUO_TEST(read__told_when_copied, duo_open())
{
	struct duo_gpu *g = duo_gpu(d, 1);
	uint64_t key = duo_region(d, 1, 0, DUO_GPU, 9000, UCCL_ACCESS_READ);

	g->stuck = true;
	assert_int_equal(duo_rma(d, 0, UCCL_OP_READ, 0, host[0], 9000, 0, key, DUO_CTX(1)), 0);
	duo_run(d, 20 * MS);
	assert_int_equal(d->side[1].region[0].reads, 0);
	g->stuck = false;
	g->failing = 1;
	duo_run(d, 20 * MS);
	expect(d, 0, DUO_CTX(1), FI_EACCES);
	assert_int_equal(d->side[1].region[0].reads, 0);
}

/*
 * A read is taken back while a device loads what is read: nothing of it is sent, no owner hears of it, and the error of
 * such a copy does not answer a second time. PROTOCOL R363
 */
TEST(read__taken_back_while_loading)
{
	for (int failing = 0; failing < 2; failing++) {
		struct duo *d = duo_open();
		struct duo_gpu *g = duo_gpu(d, 1);
		uint64_t key = duo_region(d, 1, 0, DUO_GPU, 300000, UCCL_ACCESS_READ);

		d->side[0].peer.aborts = d->side[1].peer.aborts = true;
		g->stuck = true;
		memset(host[0], 0x5a, sizeof(host[0]));
		duo_fill(other, sizeof(other), 3);
		gpu_fill(g, 0, sizeof(other), 3);
		assert_int_equal(duo_rma(d, 0, UCCL_OP_READ, 0, host[0], 300000, 0, key, DUO_CTX(1)), 0);
		duo_run(d, 20 * MS);
		assert_true(g->queued > 0);
		msg_tx_listing(&d->side[0].peer);
		assert_int_equal(uccl_msg_abort(&d->side[0].m, DUO_CTX(1), d->now), 0);
		duo_run(d, 20 * MS);
		expect(d, 0, DUO_CTX(1), FI_ECANCELED);
		assert_int_equal(d->side[1].m.reply.pool.used, 1);
		g->failing = failing;
		g->stuck = false;
		duo_run(d, 20 * MS);
		for (size_t i = 0; i < sizeof(host[0]); i++)
			assert_int_equal(host[0][i], 0x5a);
		assert_int_equal(d->side[0].stats.dropped[UCCL_DROP_HANDLE], 0);
		assert_int_equal(d->side[1].region[0].reads, 0);
		assert_int_equal(d->side[1].m.reply.pool.used, 0);
		duo_free(d);
	}
}

static uint64_t *gpu_words(struct duo_gpu *g, uint64_t at)
{
	return (uint64_t *)(void *)(g->mem + at);
}

/* On a device at the target, with operands and results of either kind, alone and together. PROTOCOL R193 */
TEST(atomic__on_devices)
{
	for (int bits = 0; bits < 16; bits++) {
		struct duo *d = duo_open();
		struct duo_gpu *near = duo_gpu(d, 0), *far = duo_gpu(d, 1);
		uint64_t at[100], operand[100], compare[100], result[100], copies;
		uint64_t *place = bits & 1 ? gpu_words(far, 64) : at, *old = bits & 8 ? gpu_words(near, 8192) : result;
		uint64_t key = duo_region(d, 1, 0, bits & 1 ? DUO_GPU + 64 : (uint8_t *)at, sizeof(at),
					  BOTH);

		for (int i = 0; i < 100; i++) {
			place[i] = (uint64_t)i;
			operand[i] = 1000 + (uint64_t)i;
			compare[i] = i % 2 ? (uint64_t)i : 7777;
			old[i] = 0xabcd;
		}
		memcpy(near->mem, operand, sizeof(operand));
		memcpy(near->mem + 4096, compare, sizeof(compare));
		far->stuck = near->stuck = true;
		duo_atomic(d, 0, UCCL_OP_ATOMIC, UCCL_UINT64, UCCL_SUM, bits & 2 ? DUO_GPU : (uint8_t *)operand, NULL,
			   NULL, 100, 0, key, DUO_CTX(1));
		duo_run(d, 20 * MS);
		if (bits & 3)
			expect(d, 0, NULL, 0);
		far->stuck = near->stuck = false;
		duo_run(d, 20 * MS);
		expect(d, 0, DUO_CTX(1), 0);
		for (int i = 0; i < 100; i++)
			assert_int_equal(place[i], 1000 + 2 * i);
		duo_atomic(d, 0, UCCL_OP_FETCH, UCCL_UINT64, UCCL_MIN, bits & 2 ? DUO_GPU : (uint8_t *)operand, NULL,
			   bits & 8 ? DUO_GPU + 8192 : (uint8_t *)result, 100, 0, key, DUO_CTX(2));
		duo_run(d, 20 * MS);
		expect(d, 0, DUO_CTX(2), 0);
		for (int i = 0; i < 100; i++) {
			assert_int_equal(old[i], 1000 + 2 * i);
			assert_int_equal(place[i], 1000 + i);
			place[i] = (uint64_t)i;
		}
		duo_atomic(d, 0, UCCL_OP_COMPARE, UCCL_UINT64, UCCL_CSWAP, bits & 2 ? DUO_GPU : (uint8_t *)operand,
			   bits & 4 ? DUO_GPU + 4096 : (uint8_t *)compare,
			   bits & 8 ? DUO_GPU + 8192 : (uint8_t *)result, 100, 0, key, DUO_CTX(3));
		duo_run(d, 20 * MS);
		expect(d, 0, DUO_CTX(3), 0);
		for (int i = 0; i < 100; i++) {
			assert_int_equal(old[i], i);
			assert_int_equal(place[i], i % 2 ? 1000 + i : i);
		}
		/* Nothing is written by who only reads. */
		copies = far->queued;
		duo_atomic(d, 0, UCCL_OP_FETCH, UCCL_UINT64, UCCL_ATOMIC_READ, NULL, NULL,
			   bits & 8 ? DUO_GPU + 8192 : (uint8_t *)result, 100, 0, key, DUO_CTX(4));
		duo_run(d, 20 * MS);
		expect(d, 0, DUO_CTX(4), 0);
		for (int i = 0; i < 100; i++)
			assert_int_equal(old[i], i % 2 ? 1000 + i : i);
		assert_int_equal(far->queued - copies, bits & 1);
		assert_int_equal(d->side[1].claims, bits & 1 ? 4 : 0);
		assert_int_equal(d->side[1].events, 4);
		assert_false(d->side[1].claimed);
		duo_free(d);
	}
}

/* Post one: it is as good as `rc`. */
static void fetch_add(struct duo *d, struct uccl_peer *to, const void *add, void *was, uint64_t addr, uint64_t key,
		      void *context, int rc)
{
	assert_int_equal(duo_atomic_to(d, to, 0, UCCL_OP_FETCH, UCCL_UINT64, UCCL_SUM, add, NULL, was, 1, addr, key,
				       context), rc);
}

/* What is behind it waits; it waits for one that is under way at another endpoint. */
DUO_TEST(atomic__one_at_a_time, duo_open())
{
	struct duo_gpu *g = duo_gpu(d, 1);
	uint64_t key = duo_region(d, 1, 0, DUO_GPU, 64, BOTH), one = 1, old[20];

	d->side[1].claimed_elsewhere = true;
	for (int i = 0; i < 20; i++)
		fetch_add(d, &d->side[0].peer, &one, &old[i], 8, key, DUO_CTX(i + 1), 0);
	duo_run(d, 20 * MS);
	expect(d, 0, NULL, 0);
	assert_int_equal(d->side[1].claims, 0);
	assert_true(uccl_msg_waits(&d->side[1].m) && uccl_msg_copying(&d->side[1].m));
	d->side[1].claimed_elsewhere = false;
	uccl_msg_retry(&d->side[1].m, d->now);
	duo_run(d, 20 * MS);
	for (int i = 0; i < 20; i++) {
		expect(d, 0, DUO_CTX(i + 1), 0);
		assert_int_equal(old[i], i);
	}
	assert_int_equal(*gpu_words(g, 8), 20);
	assert_int_equal(d->side[1].claims, 20);
	assert_false(uccl_msg_copying(&d->side[1].m));
}

/* On the way there or back: told, and nobody else has to wait for ever. */
TEST(atomic__copy_fails)
{
	for (int k = 0; k < 2; k++) {
		struct duo *d = duo_open();
		struct duo_gpu *g = duo_gpu(d, 1);
		uint64_t key = duo_region(d, 1, 0, DUO_GPU, 64, BOTH), one = 1, old = 7;
		const struct duo_comp *c;

		g->failing = 1;
		g->passing = k;
		fetch_add(d, &d->side[0].peer, &one, &old, 0, key, DUO_CTX(1), 0);
		duo_run(d, 20 * MS);
		c = duo_next(d, 0);
		assert_non_null(c);
		assert_int_equal(c->refusal, UCCL_REFUSED_RANGE);
		assert_int_equal(old, 7);
		assert_int_equal(*gpu_words(g, 0), 0);
		assert_false(d->side[1].claimed);
		fetch_add(d, &d->side[0].peer, &one, &old, 0, key, DUO_CTX(2), 0);
		duo_run(d, 20 * MS);
		expect(d, 0, DUO_CTX(2), 0);
		assert_int_equal(old, 0);
		assert_int_equal(*gpu_words(g, 0), 1);
		duo_free(d);
	}
}

/* An operand that cannot be read is not sent. */
DUO_TEST(atomic__operand_fails, duo_open())
{
	struct duo_gpu *g = duo_gpu(d, 0);
	uint64_t at = 5, key = duo_region(d, 1, 0, &at, 8, BOTH);

	g->failing = 1;
	assert_int_equal(duo_atomic(d, 0, UCCL_OP_ATOMIC, UCCL_UINT64, UCCL_SUM, DUO_GPU, NULL, NULL, 1, 0, key,
				    DUO_CTX(1)), 0);
	duo_run(d, 20 * MS);
	expect(d, 0, DUO_CTX(1), FI_EIO);
	assert_int_equal(at, 5);
}

/* The region ends, or the peer, while one is on its way: it is refused or forgotten, and the claim is given back. */
TEST(atomic__ends_on_the_way)
{
	for (int k = 0; k < 2; k++) {
		struct duo *d = duo_open();
		struct duo_gpu *g = duo_gpu(d, 1);
		uint64_t key = duo_region(d, 1, 0, DUO_GPU, 64, BOTH), one = 1;
		const struct duo_comp *c;

		g->stuck = true;
		assert_int_equal(duo_atomic(d, 0, UCCL_OP_ATOMIC, UCCL_UINT64, UCCL_SUM, &one, NULL, NULL, 1, 0, key,
					    DUO_CTX(1)), 0);
		duo_run(d, 20 * MS);
		assert_true(d->side[1].claimed);
		g->stuck = false;
		if (k) {
			uccl_peer_fail(&d->side[1].peer, FI_ECONNRESET, d->now);
			assert_false(d->side[1].claimed);
			uccl_peer_fail(&d->side[0].peer, FI_ECONNRESET, d->now);
			expect(d, 0, DUO_CTX(1), FI_ECONNRESET);
			assert_int_equal(*gpu_words(g, 0), 0);
		} else {
			duo_revoke(d, 1, 0);
			duo_run(d, 20 * MS);
			c = duo_next(d, 0);
			assert_non_null(c);
			assert_int_equal(c->refusal, UCCL_REFUSED_REVOKED);
			assert_int_equal(*gpu_words(g, 0), 0);
			assert_false(d->side[1].claimed);
		}
		duo_free(d);
	}
}

/* On our own memory. */
DUO_TEST(atomic__self, duo_open())
{
	struct duo_gpu *g = duo_gpu(d, 0);
	uint64_t key = duo_region(d, 0, 0, DUO_GPU, 64, BOTH), one = 1, old = 9;
	struct uccl_peer *to = &d->side[0].self;

	*gpu_words(g, 0) = 41;
	*gpu_words(g, 4096) = 1;
	fetch_add(d, to, &one, &old, 0, key, DUO_CTX(1), 0);
	duo_run(d, MS);
	expect(d, 0, DUO_CTX(1), 0);
	assert_int_equal(old, 41);
	assert_int_equal(*gpu_words(g, 0), 42);
	fetch_add(d, to, DUO_GPU + 4096, DUO_GPU + 8192, 0, key, DUO_CTX(2), 0);
	duo_run(d, MS);
	expect(d, 0, DUO_CTX(2), 0);
	assert_int_equal(*gpu_words(g, 8192), 42);
	assert_int_equal(*gpu_words(g, 0), 43);
	/* An operand on the device, the rest on the host. */
	key = duo_region(d, 0, 1, &old, 8, UCCL_ACCESS_WRITE);
	assert_int_equal(duo_atomic_to(d, to, 0, UCCL_OP_ATOMIC, UCCL_UINT64, UCCL_SUM, DUO_GPU + 4096, NULL, NULL, 1,
				       0, key, DUO_CTX(5)), 0);
	key = 1;
	duo_run(d, MS);
	expect(d, 0, DUO_CTX(5), 0);
	assert_int_equal(old, 42);
	d->side[0].claimed_elsewhere = true;
	fetch_add(d, to, &one, &old, 0, key, DUO_CTX(3), -FI_EAGAIN);
	assert_int_equal(*gpu_words(g, 0), 43);
	d->side[0].claimed_elsewhere = false;
	g->failing = 1;
	fetch_add(d, to, &one, &old, 0, key, DUO_CTX(4), 0);
	duo_run(d, MS);
	assert_int_equal(duo_next(d, 0)->refusal, UCCL_REFUSED_RANGE);
	assert_false(d->side[0].claimed);
}

/* When this returns nothing touches it any more, and nobody is told of it. */
TEST(revoke__on_the_way)
{
	static const uint64_t sizes[] = {3000, 200000, 200000};

	for (int i = 0; i < 3; i++) {
		struct duo *d = duo_open();
		struct duo_gpu *g = duo_gpu(d, 1);
		uint64_t key = duo_region(d, 1, 0, DUO_GPU, 200000, BOTH);

		g->gathers = i == 2;
		g->stuck = true;
		assert_int_equal(duo_rma(d, 0, UCCL_OP_READ, 0, host[1], 100, 0, key, DUO_CTX(2)), 0);
		assert_int_equal(duo_rma(d, 0, UCCL_OP_WRITE, 0, host[0], sizes[i], 0, key, DUO_CTX(1)), 0);
		duo_run(d, 20 * MS);
		g->stuck = false;
		duo_revoke(d, 1, 0);
		assert_int_equal(g->done, g->queued);
		duo_run(d, 20 * MS);
		assert_int_equal(d->side[1].events, 1);
		assert_int_equal(d->side[1].event.nregions, 0);
		assert_int_equal(duo_waiting(d, 0), 2);
		duo_free(d);
	}
}

/* Operations end with the peer, but not before what reads or writes their buffers. */
TEST(peer_fail__on_the_way)
{
	for (int how = 0; how < 4; how++) {
		struct duo *d = duo_open();
		struct duo_gpu *g[2] = {duo_gpu(d, 0), duo_gpu(d, 1)};
		int side = how & 1;
		uint64_t key = duo_region(d, 1, 0, DUO_GPU, 400000, BOTH);

		g[0]->gathers = g[1]->gathers = how & 2;
		assert_int_equal(duo_recv(d, 1, 0, DUO_GPU, 200000, 0, 0, DUO_CTX(1)), 0);
		assert_int_equal(duo_send(d, 0, 0, DUO_GPU, 200000, 0, DUO_CTX(2)), 0);
		assert_int_equal(duo_send(d, 0, 0, DUO_GPU, 2000, 0, DUO_CTX(3)), 0);
		assert_int_equal(duo_rma(d, 0, UCCL_OP_READ, 0, DUO_GPU, 300000, 0, key, DUO_CTX(4)), 0);
		assert_int_equal(duo_rma(d, 0, UCCL_OP_WRITE, 0, DUO_GPU, 300000, 0, key, DUO_CTX(5)), 0);
		for (int i = 0; i < 30; i++) {
			duo_round(d);
			g[side]->stuck = i > 10;
		}
		g[side]->stuck = false;
		uccl_peer_fail(&d->side[side].peer, FI_ECONNRESET, d->now);
		assert_int_equal(g[side]->done, g[side]->queued);
		duo_free(d);
	}
}

DUO_TEST(peer_fail__read_on_the_way, duo_open())
{
	struct duo_gpu *g = duo_gpu(d, 1);
	uint64_t key = duo_region(d, 1, 0, DUO_GPU, 5000, UCCL_ACCESS_READ);

	g->stuck = true;
	assert_int_equal(duo_rma(d, 0, UCCL_OP_READ, 0, host[0], 5000, 0, key, DUO_CTX(1)), 0);
	duo_run(d, 20 * MS);
	assert_int_equal(d->side[1].m.reply.staged_bytes, 5000);
	assert_int_equal(g->queued, 1);
	g->stuck = false;
	uccl_peer_fail(&d->side[1].peer, FI_ECONNRESET, d->now);
	assert_int_equal(g->done, 1);
	assert_true(TAILQ_EMPTY(&d->side[1].m.device.copies));
}

DUO_TEST(self__between_devices, duo_open())
{
	struct duo_gpu *g = duo_gpu(d, 0);
	struct uccl_op *op = duo_op(d, 0, UCCL_OP_SEND, 0);
	uint64_t key = duo_region(d, 0, 0, DUO_GPU + 100000, 100000, UCCL_ACCESS_WRITE);

	g->stuck = true;
	gpu_fill(g, 0, 50000, 1);
	assert_int_equal(duo_recv(d, 0, 0, DUO_GPU + 100000, 40000, 0, 0, DUO_CTX(1)), 0);
	op->peer = &d->side[0].self;
	duo_buffer(op, DUO_GPU, 50000);
	op->context = DUO_CTX(2);
	assert_int_equal(uccl_msg_send(&d->side[0].m, op, d->now), 0);
	expect(d, 0, NULL, 0);
	g->stuck = false;
	duo_round(d);
	expect(d, 0, DUO_CTX(2), 0);
	expect(d, 0, DUO_CTX(1), FI_ETRUNC);
	duo_check(g->mem + 100000, 40000, 1);

	op = duo_op(d, 0, UCCL_OP_WRITE, 0);
	op->peer = &d->side[0].self;
	duo_buffer(op, DUO_GPU, 50000);
	op->rma.seg[0] = (struct uccl_seg){.addr = 1000, .len = 50000, .key = key};
	op->rma.nseg = 1;
	op->context = DUO_CTX(3);
	assert_int_equal(uccl_msg_rma(&d->side[0].m, op, d->now), 0);
	expect(d, 0, NULL, 0);
	assert_int_equal(d->side[0].region[0].writes, 0);
	duo_round(d);
	expect(d, 0, DUO_CTX(3), 0);
	assert_int_equal(d->side[0].region[0].writes, 1);
	duo_check(g->mem + 101000, 50000, 1);
}

/* What the NIC could scatter or write by itself, the processor must copy. */
DUO_TEST(place__not_on_a_device, duo_open_writes())
{
	struct duo_gpu *g = duo_gpu(d, 1);
	struct uccl_rx_placement hints[4];

	duo_fill(host[0], 200000, 5);
	assert_int_equal(duo_recv(d, 1, 0, DUO_GPU, 200000, 0, 0, DUO_CTX(1)), 0);
	assert_int_equal(duo_send(d, 0, 0, host[0], 200000, 0, DUO_CTX(2)), 0);
	for (int i = 0; i < 6; i++) {
		uint32_t *chunk = &d->side[1].peer.flow.cfg.packet.chunk_bytes, was = *chunk;

		duo_round(d);
		/* Large enough for a prediction to pay. */
		*chunk = 16384;
		assert_int_equal(uccl_msg_predict(&d->side[1].m, hints, 4), 0);
		*chunk = was;
	}
	duo_run(d, 100 * MS);
	assert_int_equal(d->side[1].regs, 0);
	expect(d, 1, DUO_CTX(1), 0);
	duo_check(g->mem, 200000, 5);
}

TESTS_MAIN
