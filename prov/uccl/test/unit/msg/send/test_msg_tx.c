/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../duo.h"

#include "msg/send/msg_tx.h"
#include "../../tests.h"

static uint8_t src[1 << 18], dst[1 << 18];

/* PROTOCOL R34 */
DUO_TEST(kick__message_limit, duo_open())
{
	struct uccl_peer *p = &d->side[0].peer;

	p->flow.limits.msg_limit = 2;
	for (int i = 0; i < 5; i++) {
		src[i] = (uint8_t)(i + 1);
		assert_int_equal(duo_send(d, 0, 0, src + i, 1, 0, DUO_CTX(i)), 0);
		assert_int_equal(duo_recv(d, 1, 0, dst + i, 1, 0, 0, DUO_CTX(i)), 0);
	}
	assert_int_equal(p->tx.mseq, 2);
	uccl_msg_kick(p, d->now);
	assert_int_equal(p->tx.mseq, 2);
	p->flow.limits.msg_limit = 4;
	uccl_msg_kick(p, d->now);
	assert_int_equal(p->tx.mseq, 4);
	p->flow.limits.msg_limit = 2;
	/* The acknowledgement of what arrived raises it. */
	duo_run(d, SECOND);
	assert_int_equal(p->flow.limits.msg_limit, 5 + UCCL_MSG_LIMIT);
	assert_memory_equal(src, dst, 5);
	for (int i = 0; i < 5; i++) {
		duo_expect_from(d, 0, DUO_CTX(i), 0, 0);
		duo_expect_from(d, 1, DUO_CTX(i), 0, 1);
	}
}

/* The receiver's grant wraps at 32 bits. PROTOCOL R34 */
DUO_TEST(kick__message_limit_wraps, duo_open())
{
	d->side[0].peer.tx.mseq = d->side[1].peer.rx.mseq = 0xfffffffe;
	d->side[0].peer.flow.limits.msg_limit = (uint32_t)(0xfffffffe + UCCL_MSG_LIMIT);
	for (int i = 0; i < 6; i++) {
		assert_int_equal(duo_send(d, 0, 0, src, i == 3 ? 3000 : 1, (uint64_t)i, DUO_CTX(i)), 0);
		assert_int_equal(duo_recv(d, 1, 0, dst, 4000, 0, 0, DUO_CTX(i)), 0);
	}
	duo_run(d, SECOND);
	for (int i = 0; i < 6; i++) {
		const struct duo_comp *c = duo_next(d, 1);

		assert_int_equal(c->len, c->context == DUO_CTX(3) ? 3000 : 1);
	}
	assert_int_equal(d->side[1].peer.rx.mseq, 0x100000004);
	assert_int_equal(d->side[0].peer.flow.limits.msg_limit, 4 + UCCL_MSG_LIMIT);
}

/*
 * A small message that waited at the limit needs a handle when its turn comes and the peer is short of memory.
 * PROTOCOL R34 R43
 */
DUO_TEST(kick__waited_until_peer_short, duo_open())
{
	struct uccl_peer *p = &d->side[0].peer;

	duo_fill(src, 100, 5);
	p->flow.limits.msg_limit = 0;
	assert_int_equal(duo_send(d, 0, 0, src, 100, 0, DUO_CTX(1)), 0);
	p->flow.limits.msg_limit = UCCL_MSG_LIMIT;
	p->flow.limits.envelopes_only = true;
	uccl_msg_kick(p, d->now);
	duo_run(d, SECOND);
	assert_int_equal(d->side[1].stats.dropped[UCCL_DROP_RECORD], 0);
	assert_int_equal(duo_recv(d, 1, 0, dst, 100, 0, 0, DUO_CTX(2)), 0);
	duo_run(d, SECOND);
	duo_passed(d, 100);
	duo_check(dst, 100, 5);
}

/* Messages keep their order through the wait: none overtakes. PROTOCOL R34 */
DUO_TEST(kick__keeps_order, duo_open())
{
	struct uccl_peer *p = &d->side[0].peer;

	for (int i = 0; i < 20; i++) {
		src[i] = (uint8_t)i;
		p->flow.limits.msg_limit = i < 10 ? 3 : 9;
		assert_int_equal(duo_send(d, 0, 0, src + i, 1, 0, DUO_CTX(i)), 0);
		assert_int_equal(duo_recv(d, 1, 0, dst + i, 1, 0, 0, DUO_CTX(i)), 0);
	}
	duo_run(d, SECOND);
	assert_int_equal(duo_waiting(d, 1), 20);
	assert_memory_equal(src, dst, 20);
}

/* While payload waits, the beginning of a long message leaves with it, or before a short one. PROTOCOL R169 */
DUO_TEST(post__long_ones_wait, duo_open())
{
	static const struct { uint64_t len; bool leaves; } post[] = {
		{DUO_CHUNK, true}, {DUO_EAGER, true}, {DUO_EAGER, false}, {DUO_EAGER + 1, false},
		{DUO_CHUNK + 1, false}, {DUO_CHUNK, true}, {0, true},
	};
	enum { POSTS = sizeof(post) / sizeof(post[0]) };

	for (int i = 0; i < POSTS; i++) {
		d->side[0].readies = 0;
		assert_int_equal(duo_recv(d, 1, 0, dst, post[i].len, 0, 0, DUO_CTX(i)), 0);
		assert_int_equal(duo_send(d, 0, 0, src, post[i].len, 0, DUO_CTX(i)), 0);
		assert_int_equal(d->side[0].readies, post[i].leaves);
	}
	duo_run(d, SECOND);
	assert_int_equal(duo_waiting(d, 0), POSTS);
	assert_int_equal(duo_waiting(d, 1), POSTS);
	/* Nothing waits any more. */
	d->side[0].readies = 0;
	assert_int_equal(duo_send(d, 0, 0, src, DUO_EAGER + 1, 0, DUO_CTX(POSTS)), 0);
	assert_int_equal(d->side[0].readies, 1);
}

static enum uccl_drop cts(struct duo *d, uint8_t *rec, uint32_t id, uint64_t limit, uint32_t len)
{
	uccl_cts_encode(rec, &(struct uccl_cts){.id = id, .rx = 1, .limit = limit});
	return duo_deliver(d, 0, UCCL_REC_CTS, rec, src, len);
}

/* PROTOCOL R31 */
DUO_TEST(cts__bad, duo_open())
{
	const struct uccl_op *op;
	uint8_t rec[UCCL_REC_LEN];

	assert_int_equal(duo_send(d, 0, 0, src, 20000, 0, DUO_CTX(1)), 0);
	assert_int_equal(duo_send(d, 0, UCCL_OPF_DELIVERY, src, 10, 0, DUO_CTX(2)), 0);
	duo_run(d, SECOND);
	/* No such handle; a handle of an op that waits for no CTS; one of another generation. */
	op = TAILQ_FIRST(&d->side[0].peer.tx.sends);
	assert_int_equal(cts(d, rec, 0, 20000, 0), UCCL_DROP_HANDLE);
	assert_int_equal(cts(d, rec, TAILQ_NEXT(op, link)->tx.id, 20000, 0), UCCL_DROP_HANDLE);
	assert_int_equal(cts(d, rec, op->tx.id + (1u << 20), 20000, 0), UCCL_DROP_HANDLE);
	/* More than the message; with payload. */
	assert_int_equal(cts(d, rec, op->tx.id, 20001, 0), UCCL_DROP_RANGE);
	assert_int_equal(cts(d, rec, op->tx.id, UINT64_MAX, 0), UCCL_DROP_RANGE);
	assert_int_equal(cts(d, rec, op->tx.id, 20000, 1), UCCL_DROP_RECORD);
	assert_true(uccl_flow_idle(&d->side[0].peer.flow));
	assert_null(duo_next(d, 0));
	/* Another peer's handle. */
	assert_int_equal(msg_tx_cts(&d->side[0].self, rec), UCCL_DROP_HANDLE);
	/* All of this changed nothing: the real one is still good, once. */
	duo_fill(src, 20000, 8);
	assert_int_equal(duo_recv(d, 1, 0, dst, 20000, 0, 0, DUO_CTX(3)), 0);
	duo_run(d, SECOND);
	duo_expect_from(d, 0, DUO_CTX(1), 0, 0);
	duo_expect_from(d, 1, DUO_CTX(3), 0, 20000);
	assert_int_equal(duo_deliver(d, 0, UCCL_REC_CTS, rec, NULL, 0), UCCL_DROP_UNWANTED);
}

/* The receiver may cut the message to what it has a place for, or to what it has already. PROTOCOL R31 */
TEST(cts__truncates)
{
	static const uint64_t room[] = {0, 1, 1023, 1024, 1025, 5000, 49999};

	for (int unexpected = 0; unexpected < 2; unexpected++)
		for (unsigned int i = 0; i < uccl_array_len(room); i++) {
			struct duo *d = duo_open();

			duo_fill(src, 50000, i);
			memset(dst, 0xee, 60000);
			duo_pass(d, unexpected, 0, src, 50000, dst, room[i]);
			duo_expect_from(d, 0, DUO_CTX(1), 0, 0);
			assert_int_equal(d->side[1].comp[0].olen, 50000 - room[i]);
			duo_expect_from(d, 1, DUO_CTX(2), FI_ETRUNC, room[i]);
			duo_check(dst, room[i], i);
			for (uint64_t k = room[i]; k < 60000; k++)
				assert_int_equal(dst[k], 0xee);
			duo_free(d);
		}
}

/* PROTOCOL R33 */
DUO_TEST(fin__bad, duo_open())
{
	uint8_t rec[UCCL_REC_LEN] = {0};

	assert_int_equal(duo_send(d, 0, UCCL_OPF_DELIVERY, src, 10, 0, DUO_CTX(1)), 0);
	assert_int_equal(duo_send(d, 0, 0, src, 20000, 0, DUO_CTX(2)), 0);
	duo_run(d, SECOND);
	assert_int_equal(duo_deliver(d, 0, UCCL_REC_FIN, rec, NULL, 0), UCCL_DROP_HANDLE);
	uccl_put32(rec, TAILQ_LAST(&d->side[0].peer.tx.sends, uccl_op_list)->tx.id);
	assert_int_equal(duo_deliver(d, 0, UCCL_REC_FIN, rec, NULL, 0), UCCL_DROP_HANDLE);
	uccl_put32(rec, TAILQ_FIRST(&d->side[0].peer.tx.sends)->tx.id);
	assert_int_equal(duo_deliver(d, 0, UCCL_REC_FIN, rec, src, 1), UCCL_DROP_RECORD);
	assert_int_equal(msg_tx_fin(&d->side[0].self, rec), UCCL_DROP_HANDLE);
	assert_null(duo_next(d, 0));
	assert_int_equal(duo_recv(d, 1, 0, dst, 10, 0, 0, DUO_CTX(3)), 0);
	duo_run(d, SECOND);
	duo_expect_from(d, 0, DUO_CTX(1), 0, 0);
	assert_int_equal(duo_deliver(d, 0, UCCL_REC_FIN, rec, NULL, 0), UCCL_DROP_UNWANTED);
}

TESTS_MAIN
