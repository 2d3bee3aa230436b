/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../duo.h"

#include "msg/rma/atomic_math.h"
#include "msg/rma/reply.h"
#include "../../tests.h"

static uint8_t src[1 << 21], dst[1 << 21], mem[1 << 21];

/* More is read at once than there is staging memory: requests wait, in order, and all are served. PROTOCOL R78 */
TEST(serve__staging_limit)
{
	struct duo *d = duo_open();

	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	duo_fill(mem, 100000, 5);
	d->side[1].m.reply.staged_bytes = UCCL_STAGED_MAX - 10;
	for (int i = 0; i < 10; i++)
		duo_rma(d, 0, UCCL_OP_READ, 0, dst + 100000 * i, 100000, 0, 1, NULL);
	memset(src, 9, 8);
	duo_rma(d, 0, UCCL_OP_WRITE, 0, src, 8, 0, 1, NULL);
	duo_round(d);
	duo_round(d);
	assert_int_equal(duo_waiting(d, 0), 0);
	/* One always may, in parts. */
	assert_int_equal(d->side[1].events, 1);
	assert_int_equal(d->side[1].peer.reply.staged_bytes, UCCL_EAGER_MAX);
	assert_int_equal(d->side[1].peer.serve.n, 10);
	/* What waits counts against what the peer may send. */
	assert_int_equal(d->side[1].peer.flow.rx.ack_tracker.msg_limit, (uint32_t)UCCL_MSG_LIMIT + 1);
	d->side[1].m.reply.staged_bytes -= UCCL_STAGED_MAX - 10;
	duo_run(d, SECOND);
	for (int i = 0; i < 10; i++)
		duo_check(dst + 100000 * i, 100000, 5);
	assert_int_equal(mem[0], 9);
	duo_all_done(d, 11);
}

TEST(serve__few_replies)
{
	struct duo *d = duo_open();

	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	duo_fill(src, 70000, 3);
	d->side[1].m.reply.pool.max = 1;
	for (int i = 0; i < 30; i++) {
		duo_rma(d, 0, UCCL_OP_WRITE, 0, src, 2000u * (unsigned int)i, 0, 1, NULL);
		duo_rma(d, 0, UCCL_OP_READ, 0, dst, 2000u * (unsigned int)i, 0, 1, NULL);
	}
	duo_run(d, 10 * SECOND);
	duo_check(dst, 58000, 3);
	duo_all_done(d, 60);
}

static enum duo_verdict hold_replies(struct duo *d, const struct duo_pkt *p)
{
	(void)d;
	return p->to ? DUO_PASS : DUO_HOLD;
}

static enum duo_verdict drop_replies(struct duo *d, const struct duo_pkt *p)
{
	(void)d;
	return p->to ? DUO_PASS : DUO_DROP;
}

/* In a stream a reply is cut into packets of one length, if all of it leaves at once. PROTOCOL R260 */
TEST(reply__even)
{
	static const struct { uint64_t len; uint32_t each; } sent[] = {
		{DUO_CHUNK, 0}, {4000, 1000}, {UCCL_EAGER_MAX, 1024}, {UCCL_EAGER_MAX + 8, 0}, {1 << 20, 0},
	};

	for (size_t i = 0; i < uccl_array_len(sent); i++) {
		struct duo *d = duo_open();
		struct uccl_flow *f = &d->side[1].peer.flow;
		const struct uccl_item *item;
		uint32_t slots;

		duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
		duo_fill(mem, sent[i].len, 5);
		/* Of so much that is in flight, an acknowledgement was asked for. */
		d->filter = hold_replies;
		duo_rma(d, 0, UCCL_OP_READ, 0, src, 150000, 0, 1, NULL);
		for (int round = 0; round < 50 && f->sent.inflight_bytes < 1 << 17; round++)
			duo_round(d);
		assert_true(f->sent.inflight_bytes >= 1 << 17);
		slots = f->limits.slots;
		f->limits.slots = 0;
		f->cfg.train.pads_tx = true;
		f->train_bytes = 1 << 17;
		duo_rma(d, 0, UCCL_OP_READ, 0, dst, sent[i].len, 0, 1, NULL);
		for (int round = 0; round < 5 && TAILQ_EMPTY(&f->sendq.bulk); round++)
			duo_round(d);
		item = TAILQ_FIRST(&f->sendq.bulk);
		assert_non_null(item);
		assert_int_equal(item->each, sent[i].each);
		f->cfg.train.pads_tx = false;
		f->train_bytes = 0;
		f->limits.slots = slots;
		d->filter = NULL;
		duo_run(d, SECOND);
		duo_check(dst, sent[i].len, 5);
		duo_all_done(d, 2);
	}
}

#define BLOCK 16384

enum change { OVERWRITTEN, SWAPPED, CLOSED, CLOSED_IN_PART, BY_A_MESSAGE, CHANGES };

/*
 * What is read leaves from the memory itself until the reader changes it, or the region ends: then what is sent again
 * is what was there. The owner hears of the read when that is over. PROTOCOL R393
 */
TEST(reply__in_place)
{
	for (int change = 0; change < CHANGES; change++)
		for (int sent = 0; sent < 2; sent++) {
			struct duo *d = duo_open();
			struct uccl_peer *p = &d->side[1].peer;
			struct uccl_revoke part = {.key = 1, .addr = 100, .len = 1};
			uint32_t slots = p->flow.limits.slots;
			const struct uccl_item *item;
			uint64_t events = 0;

			p->reads_in_place = true;
			duo_region(d, 1, 0, mem, 2 * BLOCK, BOTH);
			duo_fill(mem, BLOCK, 5);
			duo_fill(src, BLOCK, 6);
			d->filter = drop_replies;
			p->flow.limits.slots = sent ? slots : 0;
			duo_rma(d, 0, UCCL_OP_READ, 0, dst, BLOCK, 0, 1, NULL);
			for (int round = 0; round < 5; round++)
				duo_round(d);
			assert_int_equal(p->reply.in_place, 1);
			assert_int_equal(p->reply.staged_bytes, BLOCK);
			item = &TAILQ_FIRST(&p->reply.list)->feed->bufs[0].item;
			assert_int_equal(item->queued, !sent);
			assert_ptr_equal(item->iov[0].iov_base, mem);
			assert_int_equal(d->side[1].events, 0);
			if (change == OVERWRITTEN) {
				duo_rma(d, 0, UCCL_OP_WRITE, 0, src, BLOCK, 0, 1, NULL);
				events++;
			} else if (change == SWAPPED) {
				memset(src, 0xff, 8);
				duo_atomic(d, 0, UCCL_OP_ATOMIC, UCCL_UINT64, UCCL_SUM, src, NULL, NULL, 1, 0, 1, NULL);
				events++;
			} else if (change == CLOSED) {
				duo_revoke(d, 1, 0);
			} else if (change == CLOSED_IN_PART) {
				uccl_msg_revoke(&d->side[1].m, &d->side[1].region[0], &part, d->now);
			} else {
				duo_recv(d, 1, 0, src, 10, 0, 0, DUO_CTX(9));
				duo_send(d, 0, 0, src + BLOCK, 10, 0, DUO_CTX(8));
			}
			for (int round = 0; round < 5; round++)
				duo_round(d);
			/* Messages and reads have no order among each other. */
			assert_int_equal(p->reply.in_place, change == BY_A_MESSAGE);
			assert_int_equal(d->side[1].settles, change != BY_A_MESSAGE);
			if (change != BY_A_MESSAGE)
				memset(mem, 0xaa, BLOCK);
			p->flow.limits.slots = slots;
			d->filter = NULL;
			duo_run(d, SECOND);
			duo_check(dst, BLOCK, 5);
			assert_int_equal(d->side[1].events, events + 1);
			/* The region that was closed has no owner any more. */
			assert_int_equal(d->side[1].region[0].reads, change != CLOSED);
			assert_int_equal(p->reply.in_place, 0);
			assert_int_equal(p->reply.n, 0);
			assert_int_equal(d->side[1].m.reply.staged_bytes, 0);
			duo_free(d);
		}
}

/* Only where nothing else is to be done: one piece, long enough, and all of it at once. PROTOCOL R393 */
TEST(reply__in_place_seldom)
{
	static const struct { uint64_t len; bool sparse, in_place; } sent[] = {
		{8191, false, false}, {8192, false, true}, {256 << 10, false, true}, {(256 << 10) + 1, false, false},
		{8192, true, false},
	};

	for (size_t i = 0; i < uccl_array_len(sent); i++) {
		struct duo *d = duo_open();
		struct uccl_peer *p = &d->side[1].peer;

		p->reads_in_place = true;
		duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
		d->side[1].region[0].sparse = sent[i].sparse;
		duo_fill(mem, sent[i].len, 5);
		d->filter = hold_replies;
		duo_rma(d, 0, UCCL_OP_READ, 0, dst, sent[i].len, 0, 1, NULL);
		for (int round = 0; round < 5; round++)
			duo_round(d);
		assert_int_equal(p->reply.in_place, sent[i].in_place);
		/* A peer that ends needs none. */
		if (!i) {
			d->filter = NULL;
			duo_run(d, SECOND);
			duo_check(dst, sent[i].len, 5);
		} else {
			uccl_peer_fail(p, FI_ECONNABORTED, d->now);
			assert_int_equal(p->reply.in_place, 0);
			assert_int_equal(d->side[1].m.reply.staged_bytes, 0);
			/* Nothing refers to the memory: its owner has heard. */
			assert_int_equal(d->side[1].region[0].reads, 1);
		}
		duo_free(d);
	}
}

/* Under AddressSanitizer no memory is kept. */
#ifdef __SANITIZE_ADDRESS__
#define KEEPS false
#else
#define KEEPS true
#endif

/* Blocks that are read, or written, take the memory of the copies before them. */
TEST(reply__keeps_memory)
{
	struct duo *d = duo_open();
	struct uccl_buf_cache *copies[] = { &d->side[0].m.tx.cache, &d->side[1].m.reply.cache };
	size_t kept[2];

	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	for (int round = 0; round < 3; round++) {
		for (unsigned int i = 0; i < 32; i++) {
			duo_rma(d, 0, UCCL_OP_READ, 0, dst + 16384 * i, 16384, 16384 * i, 1, NULL);
			duo_rma(d, 0, UCCL_OP_WRITE, 0, src, 4096, 4096 * i, 1, NULL);
		}
		duo_run(d, SECOND);
		for (int side = 0; side < 2; side++) {
			assert_true(copies[side]->kept > 0 || !KEEPS);
			assert_true(!round || copies[side]->kept == kept[side]);
			kept[side] = copies[side]->kept;
		}
	}
	duo_all_done(d, 192);
}

TESTS_MAIN
