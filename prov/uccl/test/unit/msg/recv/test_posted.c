/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../duo.h"
#include "../../tests.h"

static uint8_t src[1 << 18], dst[1 << 18];

/* A message of one byte comes, untagged. */
static void comes(struct duo *d, uint32_t mseq, const void *byte)
{
	struct uccl_env env = {.flags = UCCL_ENV_EAGER, .mseq = mseq, .len = 1};

	assert_int_equal(duo_envelope(d, 1, &env, byte, 1), UCCL_DROP_COUNT);
}

static void multi_post(struct duo *d, uint64_t len, uint64_t min, void *context)
{
	struct uccl_op *op = duo_op(d, 1, UCCL_OP_RECV, UCCL_OPF_MULTI);

	duo_buffer(op, dst, len);
	op->recv.min_multi = min;
	op->context = context;
	assert_int_equal(uccl_msg_recv(&d->side[1].m, op, d->now), 0);
}

/* Messages lie one behind the other; the last that fits says that the buffer is free. PROTOCOL R40 */
TEST(multi__fills_and_releases)
{
	for (int unexpected = 0; unexpected < 2; unexpected++) {
		struct duo *d = duo_open();

		if (!unexpected)
			multi_post(d, 100, 30, DUO_CTX(9));
		for (unsigned int i = 0; i < 4; i++) {
			duo_fill(src + i * 100, 25, i);
			duo_send(d, 0, 0, src + i * 100, 25, 0, NULL);
		}
		duo_run(d, SECOND);
		if (unexpected)
			multi_post(d, 100, 30, DUO_CTX(9));
		/* After three, 25 bytes are left: less than 30. */
		for (unsigned int i = 0; i < 3; i++) {
			const struct duo_comp *c = duo_expect(d, 1, DUO_CTX(9), 0, 25);

			assert_true(c->flags & UCCL_OPF_CHILD);
			assert_int_equal(!!(c->flags & UCCL_OPF_MULTI), i == 2);
			assert_ptr_equal(c->buf, dst + i * 25);
			duo_check(c->buf, 25, i);
		}
		assert_null(duo_next(d, 1));
		assert_int_equal(d->side[1].m.op_pool.used, 0);
		duo_recv(d, 1, 0, dst, 100, 0, 0, DUO_CTX(8));
		duo_expect(d, 1, DUO_CTX(8), 0, 25);
		duo_free(d);
	}
}

/* The buffer is free with the last message to be complete, whichever came first. PROTOCOL R40 */
DUO_TEST(multi__released_by_the_last_complete, duo_open())
{
	const struct duo_comp *c;

	multi_post(d, 30100, 1000, DUO_CTX(9));
	duo_fill(src, 30000, 1);
	duo_send(d, 0, 0, src, 30000, 0, NULL);
	duo_send(d, 0, 0, src, 100, 0, NULL);
	duo_round(d);
	/* The large one closed the buffer and is not here yet. */
	duo_run(d, SECOND);
	c = duo_expect(d, 1, DUO_CTX(9), 0, 30000);
	assert_true(c->flags & UCCL_OPF_MULTI);
	duo_check(dst, 30000, 1);
	assert_null(duo_next(d, 1));
	multi_post(d, 200, 101, DUO_CTX(10));
	c = duo_expect(d, 1, DUO_CTX(10), 0, 100);
	assert_true(c->flags & UCCL_OPF_MULTI);
	/* A message that overtakes: large first, small last, small complete first. */
	multi_post(d, 30100, 1, DUO_CTX(11));
	duo_send(d, 0, 0, src, 30000, 0, NULL);
	duo_send(d, 0, 0, src, 100, 0, NULL);
	duo_run(d, SECOND);
	c = duo_expect(d, 1, DUO_CTX(11), 0, 100);
	assert_false(c->flags & UCCL_OPF_MULTI);
	assert_ptr_equal(c->buf, dst + 30000);
	c = duo_expect(d, 1, DUO_CTX(11), 0, 30000);
	assert_true(c->flags & UCCL_OPF_MULTI);
	assert_ptr_equal(c->buf, dst);
	assert_int_equal(d->side[1].m.op_pool.used, 0);
}

DUO_TEST(multi__truncates_the_last, duo_open())
{
	const struct duo_comp *c;

	memset(dst, 0xee, 200);
	multi_post(d, 100, 1, DUO_CTX(9));
	duo_send(d, 0, 0, src, 60, 0, NULL);
	duo_send(d, 0, 0, src, 60, 0, NULL);
	duo_run(d, SECOND);
	duo_expect(d, 1, DUO_CTX(9), 0, 60);
	c = duo_expect(d, 1, DUO_CTX(9), FI_ETRUNC, 40);
	assert_int_equal(c->olen, 20);
	assert_true(c->flags & UCCL_OPF_MULTI);
	assert_int_equal(dst[100], 0xee);
}

DUO_TEST(multi__gone, duo_open())
{
	const struct duo_comp *c;

	multi_post(d, 100000, 1, DUO_CTX(2));
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst + 200000, 8, 1, 0, DUO_CTX(3));
	duo_fill(src, 30000, 2);
	duo_send(d, 0, 0, src, 30000, 0, NULL);
	duo_send(d, 0, UCCL_OPF_TAGGED, src, 8, 7, NULL);
	duo_round(d);
	uccl_msg_ep_gone(&d->side[1].m, FI_ECANCELED);
	duo_expect(d, 1, DUO_CTX(3), FI_ECANCELED, 0);
	assert_null(duo_next(d, 1));
	duo_run(d, SECOND);
	c = duo_expect(d, 1, DUO_CTX(2), 0, 30000);
	assert_true(c->flags & UCCL_OPF_MULTI);
	duo_check(dst, 30000, 2);
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 8, 8, 0, DUO_CTX(4));
	duo_expect(d, 1, DUO_CTX(4), FI_ECANCELED, 0);
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 8, 7, 0, DUO_CTX(5));
	duo_expect(d, 1, DUO_CTX(5), 0, 8);
	assert_int_equal(d->side[1].m.op_pool.used, 0);
}

DUO_TEST(multi__cancel, duo_open())
{
	const struct duo_comp *c;

	/* Nothing under way: the op itself comes back. */
	multi_post(d, 100, 1, DUO_CTX(1));
	assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(1)), 0);
	c = duo_expect(d, 1, DUO_CTX(1), FI_ECANCELED, 0);
	assert_true(c->flags & UCCL_OPF_MULTI);
	assert_false(c->flags & UCCL_OPF_CHILD);
	/* Two messages are coming in: the last of them gives the buffer back. */
	multi_post(d, 100000, 1, DUO_CTX(2));
	duo_fill(src, 30000, 2);
	duo_send(d, 0, 0, src, 30000, 0, NULL);
	duo_send(d, 0, 0, src, 20000, 0, NULL);
	duo_round(d);
	assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(2)), 0);
	assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(2)), -FI_ENOENT);
	assert_null(duo_next(d, 1));
	duo_send(d, 0, 0, src, 10, 0, NULL);
	duo_run(d, SECOND);
	c = duo_next(d, 1);
	assert_int_equal(c->err, 0);
	assert_false(c->flags & UCCL_OPF_MULTI);
	c = duo_next(d, 1);
	assert_int_equal(c->err, 0);
	assert_true(c->flags & UCCL_OPF_MULTI);
	duo_check(dst, 30000, 2);
	/* Cancelled: it takes no more. */
	assert_null(duo_next(d, 1));
	assert_int_equal(d->side[1].m.op_pool.used, 0);
}

/* No op for a message in a multi-receive buffer: nothing is lost, nothing overtakes, it goes on when one is free.
 * PROTOCOL R40 */
DUO_TEST(multi__out_of_ops, duo_open())
{
	struct uccl_op *held[3];
	unsigned int got = 0;

	d->side[1].m.op_pool.max = 4;
	multi_post(d, 10000, 1, DUO_CTX(9));
	for (int i = 0; i < 3; i++)
		held[i] = duo_op(d, 1, UCCL_OP_RECV, 0);
	assert_null(duo_op(d, 1, UCCL_OP_RECV, 0));
	for (uint8_t i = 0; i < 4; i++) {
		src[i] = i;
		assert_int_equal(duo_send(d, 0, UCCL_OPF_INJECT, src + i, 1, 0, NULL), 0);
	}
	duo_run(d, 20 * MS);
	assert_null(duo_next(d, 1));
	assert_true(d->side[1].m.posted.starved);
	uccl_msg_retry(&d->side[1].m, d->now);
	assert_true(d->side[1].m.posted.starved);
	uccl_msg_ep_op_put(&d->side[1].m, held[0]);
	uccl_msg_retry(&d->side[1].m, d->now);
	assert_false(d->side[1].m.posted.starved);
	while (got < 4) {
		const struct duo_comp *c = duo_expect(d, 1, DUO_CTX(9), 0, 1);

		assert_ptr_equal(c->buf, dst + got);
		assert_int_equal(dst[got], got);
		got++;
	}
	uccl_msg_ep_op_put(&d->side[1].m, held[1]);
	uccl_msg_ep_op_put(&d->side[1].m, held[2]);
}

static bool no_room(void *arg)
{
	return *(bool *)arg;
}

/* The same when nobody has read the completions of earlier ones. PROTOCOL R40 */
DUO_TEST(multi__no_room, duo_open())
{
	bool room = false;

	d->side[1].m.op_pool.max = 8;
	d->side[1].m.posted.room = no_room;
	d->side[1].m.posted.room_arg = &room;
	multi_post(d, 10000, 1, DUO_CTX(9));
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst + 10000, 1, 7, 0, DUO_CTX(7));
	for (uint8_t i = 0; i < 3; i++) {
		src[i] = i;
		assert_int_equal(duo_send(d, 0, UCCL_OPF_INJECT, src + i, 1, 0, NULL), 0);
	}
	assert_int_equal(duo_send(d, 0, UCCL_OPF_INJECT | UCCL_OPF_TAGGED, "x", 1, 7, NULL), 0);
	duo_run(d, 20 * MS);
	/* What was posted has its room. */
	duo_expect(d, 1, DUO_CTX(7), 0, 1);
	assert_null(duo_next(d, 1));
	uccl_msg_retry(&d->side[1].m, d->now);
	assert_null(duo_next(d, 1));
	room = true;
	uccl_msg_retry(&d->side[1].m, d->now);
	assert_false(d->side[1].m.posted.starved);
	for (uint8_t i = 0; i < 3; i++) {
		assert_ptr_equal(duo_expect(d, 1, DUO_CTX(9), 0, 1)->buf, dst + i);
		assert_int_equal(dst[i], i);
	}
	d->side[1].m.posted.room = NULL;
}

static int rooms;

static bool some_room(void *arg)
{
	return rooms > 0;
}

static void takes_room(struct duo_side *s, struct uccl_op *op)
{
	rooms -= op->type == UCCL_OP_RECV;
}

/*
 * A flood waits for room, which comes for one message at a time, beside messages that nobody has asked for. What a
 * message costs does not depend on how many wait, also when its buffer is full and the next one takes what waited.
 */
DUO_TEST(multi__steps_do_not_grow, duo_open())
{
	enum { OTHERS = 500, FLOOD = 1000, EACH = 100 };
	struct uccl_msg_ep *m = &d->side[1].m;
	struct uccl_env env;

	m->op_pool.max = 4096;
	m->posted.room = some_room;
	rooms = 0;
	d->side[1].hook = takes_room;
	for (uint32_t i = 0; i < OTHERS; i++) {
		env = duo_eager_env(i, 7, 1);
		assert_int_equal(duo_envelope(d, 1, &env, "x", 1), UCCL_DROP_COUNT);
	}
	for (uint64_t i = 0; i < FLOOD / EACH; i++)
		multi_post(d, EACH, 1, DUO_CTX(100 + i));
	for (uint32_t i = 0; i < FLOOD; i++) {
		src[i] = (uint8_t)i;
		comes(d, OTHERS + i, src + i);
	}
	for (uint64_t i = 0; i < FLOOD; i++) {
		uint64_t steps = m->match.steps;

		assert_true(m->posted.starved);
		rooms = 1;
		uccl_msg_retry(m, d->now);
		assert_int_equal(rooms, 0);
		/* Now and then a table is made. */
		if (i)
			assert_in_range(m->match.steps - steps, 1, 40);
		assert_int_equal(*(uint8_t *)duo_expect(d, 1, DUO_CTX(100 + i / EACH), 0, 1)->buf, (uint8_t)i);
	}
	duo_quiet(d);
	assert_int_equal(uccl_msg_cancel(m, DUO_CTX(100)), -FI_ENOENT);
	d->side[1].hook = NULL;
}

/* The buffer that starved is used up when room comes: what still waits is for those behind it. */
DUO_TEST(multi__used_up_for_those_behind, duo_new(false, 16))
{
	struct uccl_msg_ep *m = &d->side[1].m;

	duo_connect(d);
	m->posted.room = some_room;
	rooms = 0;
	multi_post(d, 2, 1, DUO_CTX(9));
	duo_recv(d, 1, 0, dst + 200, 1, 0, 0, DUO_CTX(1));
	for (uint32_t i = 0; i < 4; i++) {
		if (i == 3) {
			rooms = 16;
			uccl_msg_retry(m, d->now);
			assert_false(m->posted.starved);
		}
		comes(d, i, &"abcd"[i]);
	}
	duo_recv(d, 1, 0, dst + 201, 1, 0, 0, DUO_CTX(2));
	duo_expect(d, 1, DUO_CTX(9), 0, 1);
	duo_expect(d, 1, DUO_CTX(9), 0, 1);
	duo_expect(d, 1, DUO_CTX(1), 0, 1);
	duo_expect(d, 1, DUO_CTX(2), 0, 1);
	assert_memory_equal(dst + 200, "cd", 2);
}

/* The buffer that starved is posted no more: what waited goes to the receives behind it, which need no room. */
DUO_TEST(multi__cancelled_for_those_behind, duo_new(false, 16))
{
	struct uccl_msg_ep *m = &d->side[1].m;

	duo_connect(d);
	m->posted.room = some_room;
	rooms = 0;
	multi_post(d, 100, 1, DUO_CTX(9));
	for (uint32_t i = 0; i < 3; i++) {
		comes(d, i, &"abc"[i]);
	}
	duo_recv(d, 1, 0, dst + 200, 1, 0, 0, DUO_CTX(1));
	duo_recv(d, 1, 0, dst + 201, 1, 0, 0, DUO_CTX(2));
	assert_null(duo_next(d, 1));
	assert_int_equal(uccl_msg_cancel(m, DUO_CTX(9)), 0);
	duo_expect(d, 1, DUO_CTX(9), FI_ECANCELED, 0);
	uccl_msg_retry(m, d->now);
	duo_expect(d, 1, DUO_CTX(1), 0, 1);
	duo_expect(d, 1, DUO_CTX(2), 0, 1);
	assert_memory_equal(dst + 200, "ab", 2);
	rooms = 1;
	uccl_msg_retry(m, d->now);
	assert_false(m->posted.starved);
	duo_recv(d, 1, 0, dst + 202, 1, 0, 0, DUO_CTX(3));
	duo_expect(d, 1, DUO_CTX(3), 0, 1);
	assert_int_equal(dst[202], 'c');
}

/* Receives for single messages need no further op: what waits for one does not stop them, and is not overtaken.
 * PROTOCOL R40 */
DUO_TEST(multi__out_of_ops_others_go_on, duo_open())
{
	struct uccl_env env;
	struct uccl_op *held;

	d->side[1].m.op_pool.max = 3;
	multi_post(d, 100, 1, DUO_CTX(9));
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst + 200, 1, 7, 0, DUO_CTX(7));
	held = duo_op(d, 1, UCCL_OP_RECV, 0);
	/* "a" is nobody's; "b" waits for an op; "c" has its receive, which frees an op; "d" must not be faster than
	 * "b". */
	for (int i = 3; i >= 0; i--) {
		env = duo_eager_env((uint32_t)i, i == 2 ? 7 : 8, 1);
		if (i % 2)
			env.flags = UCCL_ENV_EAGER;
		assert_int_equal(duo_envelope(d, 1, &env, &"abcd"[i], 1), UCCL_DROP_COUNT);
	}
	duo_expect(d, 1, DUO_CTX(7), 0, 1);
	assert_int_equal(dst[200], 'c');
	assert_null(duo_next(d, 1));
	/* The next that comes finds the op, and "b" gets it. */
	comes(d, 4, "e");
	for (int i = 0; i < 3; i++)
		duo_expect(d, 1, DUO_CTX(9), 0, 1);
	assert_memory_equal(dst, "bde", 3);
	uccl_msg_ep_op_put(&d->side[1].m, held);
}

/* The same for messages that were unexpected, that came early, and that are our own. PROTOCOL R40 */
DUO_TEST(multi__out_of_ops_unexpected, duo_open())
{
	struct uccl_op *held[8], *self, *plain;
	int n = 0;

	d->side[1].m.op_pool.max = 8;
	self = duo_op(d, 1, UCCL_OP_SEND, 0);
	plain = duo_op(d, 1, UCCL_OP_RECV, 0);
	comes(d, 0, "a");
	comes(d, 2, "c");
	held[n] = duo_op(d, 1, UCCL_OP_RECV, UCCL_OPF_MULTI);
	while ((held[n + 1] = duo_op(d, 1, UCCL_OP_RECV, 0)))
		n++;
	duo_buffer(held[0], dst, 100);
	held[0]->context = DUO_CTX(9);
	/* The first is there already. */
	assert_int_equal(uccl_msg_recv(&d->side[1].m, held[0], d->now), 0);
	assert_true(d->side[1].m.posted.starved);
	/* The second brings the third's turn. */
	comes(d, 1, "b");
	/* Our own comes behind them; a receive posted later takes none of those before it. */
	uccl_msg_ep_op_put(&d->side[1].m, self);
	assert_int_equal(duo_send_self(d, 1, 0, "d", 1, DUO_CTX(7)), 0);
	duo_buffer(plain, dst + 100, 1);
	plain->context = DUO_CTX(8);
	assert_int_equal(uccl_msg_peek(&d->side[1].m, plain, false, false, d->now), -FI_ENOMSG);
	assert_int_equal(uccl_msg_recv(&d->side[1].m, plain, d->now), 0);
	assert_null(duo_next(d, 1));
	uccl_msg_ep_op_put(&d->side[1].m, held[n]);
	uccl_msg_retry(&d->side[1].m, d->now);
	assert_false(d->side[1].m.posted.starved);
	for (int i = 0; i < 3; i++)
		duo_expect(d, 1, DUO_CTX(9), 0, 1);
	duo_expect(d, 1, DUO_CTX(7), 0, 0);
	duo_expect(d, 1, DUO_CTX(9), 0, 1);
	assert_memory_equal(dst, "abcd", 4);
	duo_quiet(d);
	for (int i = 1; i < n; i++)
		uccl_msg_ep_op_put(&d->side[1].m, held[i]);
}

DUO_TEST(cancel__posted, duo_open())
{
	const struct duo_comp *c;

	duo_recv(d, 1, 0, dst, 10, 0, 0, DUO_CTX(1));
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 10, 5, 0, DUO_CTX(2));
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 10, 5, 0, DUO_CTX(2));
	assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(3)), -FI_ENOENT);
	assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(1)), 0);
	c = duo_expect(d, 1, DUO_CTX(1), FI_ECANCELED, 0);
	assert_null(c->from);
	assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(1)), -FI_ENOENT);
	/* One of two with one context. */
	assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(2)), 0);
	duo_expect(d, 1, DUO_CTX(2), FI_ECANCELED, 0);
	duo_quiet(d);
	duo_send(d, 0, UCCL_OPF_TAGGED, src, 3, 5, NULL);
	duo_run(d, SECOND);
	duo_expect(d, 1, DUO_CTX(2), 0, 3);
	assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(2)), -FI_ENOENT);
}

/* Too late: the message has begun to come. */
DUO_TEST(cancel__matched, duo_open())
{
	duo_recv(d, 1, 0, dst, 20000, 0, 0, DUO_CTX(1));
	duo_send(d, 0, 0, src, 20000, 0, NULL);
	duo_round(d);
	assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(1)), -FI_ENOENT);
	duo_run(d, SECOND);
	duo_expect(d, 1, DUO_CTX(1), 0, 20000);
}

TESTS_MAIN
