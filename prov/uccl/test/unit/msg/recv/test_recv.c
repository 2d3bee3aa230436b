/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../duo.h"
#include "../../tests.h"

static uint8_t src[1 << 18], dst[1 << 18];

/* All six orders of three messages, matched and unexpected alike: received as they were sent. PROTOCOL R32 */
TEST(env__out_of_order)
{
	static const int order[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

	for (int k = 0; k < 6; k++)
		for (int unexpected = 0; unexpected < 2; unexpected++) {
			struct duo *d = duo_open();

			for (int i = 0; i < 3 && !unexpected; i++)
				duo_recv(d, 1, UCCL_OPF_TAGGED, dst + i * 16, 16, 0, UINT64_MAX, DUO_CTX(i));
			for (int i = 0; i < 3; i++) {
				struct uccl_env env =
					duo_eager_env((uint32_t)order[k][i], 40u + (unsigned int)order[k][i], 4);
				uint8_t body[4];

				memset(body, order[k][i] + 1, 4);
				assert_int_equal(duo_envelope(d, 1, &env, body, 4), UCCL_DROP_COUNT);
			}
			for (int i = 0; i < 3 && unexpected; i++)
				duo_recv(d, 1, UCCL_OPF_TAGGED, dst + i * 16, 16, 0, UINT64_MAX, DUO_CTX(i));
			for (int i = 0; i < 3; i++) {
				const struct duo_comp *c = duo_expect(d, 1, DUO_CTX(i), 0, 4);

				assert_int_equal(c->tag, 40 + i);
				assert_int_equal(dst[i * 16], i + 1);
			}
			assert_int_equal(d->side[1].peer.rx.mseq, 3);
			assert_int_equal(d->side[1].peer.flow.rx.ack_tracker.msg_limit, 3 + UCCL_MSG_LIMIT);
			duo_free(d);
		}
}

/* PROTOCOL R32 */
DUO_TEST(env__early_does_not_match, duo_open())
{
	struct uccl_env second = duo_eager_env(1, 7, 0), first = duo_eager_env(0, 7, 0);

	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 16, 7, 0, DUO_CTX(1));
	assert_int_equal(duo_envelope(d, 1, &second, NULL, 0), UCCL_DROP_COUNT);
	duo_quiet(d);
	first.data = 1;
	first.flags |= UCCL_ENV_DATA;
	assert_int_equal(duo_envelope(d, 1, &first, NULL, 0), UCCL_DROP_COUNT);
	assert_int_equal(duo_expect(d, 1, DUO_CTX(1), 0, 0)->data, 1);
	duo_quiet(d);
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 16, 7, 0, DUO_CTX(2));
	duo_expect(d, 1, DUO_CTX(2), 0, 0);
}

/* A whole burst turned round: chunks before their envelope, envelopes before their turn. PROTOCOL R29 R32 */
TEST(env__burst_reversed)
{
	static const uint64_t sizes[] = {5000, 0, 100, 8192, 20000, 1024, 1025};

	for (int unexpected = 0; unexpected < 2; unexpected++) {
		struct duo *d = duo_open();
		int n = uccl_array_len(sizes);

		duo_fill(src, 20000, 1);
		for (int i = 0; i < n && !unexpected; i++)
			duo_recv(d, 1, 0, dst + i * 20000, 20000, 0, 0, DUO_CTX(i));
		for (int i = 0; i < n; i++)
			assert_int_equal(duo_send(d, 0, 0, src, sizes[i], 0, DUO_CTX(i)), 0);
		d->filter = duo_hold_all;
		duo_round(d);
		duo_release(d, true);
		duo_run(d, SECOND);
		for (int i = 0; i < n && unexpected; i++)
			duo_recv(d, 1, 0, dst + i * 20000, 20000, 0, 0, DUO_CTX(i));
		duo_run(d, SECOND);
		assert_int_equal(duo_waiting(d, 1), n);
		for (const struct duo_comp *c = duo_next(d, 1); c; c = duo_next(d, 1)) {
			assert_int_equal(c->err, 0);
			assert_int_equal(c->len, sizes[(uintptr_t)c->context]);
			duo_check(c->buf, c->len, 1);
		}
		assert_int_equal(duo_waiting(d, 0), n);
		duo_free(d);
	}
}

#define EAGER(n, bytes) {.flags = UCCL_ENV_TAGGED | UCCL_ENV_EAGER, .mseq = n, .tag = 1, .len = bytes}
#define SOME(more, bytes, first, ...)                                                                                  \
	{.flags = UCCL_ENV_TAGGED | (more), .tag = 1, .len = bytes, .unsolicited = first, __VA_ARGS__}

/* Nothing of a malformed envelope stays. PROTOCOL R28 R29 */
DUO_TEST(env__malformed, duo_open())
{
	static const struct {
		uint64_t next;
		struct uccl_env env;
		uint32_t here;
		enum uccl_drop drop;
	} bad[] = {
		/* Of the past, or too far ahead. */
		{5, EAGER(4, 4), 4, UCCL_DROP_RECORD},
		{5, EAGER(5 + UCCL_MSG_LIMIT, 4), 4, UCCL_DROP_RECORD},
		{5, EAGER(5 + (1u << 31), 4), 4, UCCL_DROP_RECORD},
		{0, EAGER(UINT32_MAX, 4), 4, UCCL_DROP_RECORD},
		/* More payload than the message has. */
		{0, EAGER(0, 3), 4, UCCL_DROP_RECORD},
		/* Eager, and larger than anybody may make us buffer. */
		{0, EAGER(0, UCCL_EAGER_MAX + 1), 4, UCCL_DROP_RECORD},
		{0, EAGER(0, (1ull << 56) - 1), 4, UCCL_DROP_RECORD},
		/* Rendezvous or delivery without a handle. */
		{0, {.flags = UCCL_ENV_TAGGED, .tag = 1, .len = 100}, 4, UCCL_DROP_RECORD},
		{0, {.flags = UCCL_ENV_TAGGED | UCCL_ENV_EAGER | UCCL_ENV_DELIVERY, .len = 4}, 4, UCCL_DROP_RECORD},
		/* Rendezvous for what is here already. */
		{0, SOME(0, 4, 0, .id = 77), 4, UCCL_DROP_RECORD},
		{0, SOME(0, 0, 0, .id = 77), 0, UCCL_DROP_RECORD},
		/* Unsolicited data that the envelope has, that are eager, none, too many. */
		{0, SOME(UCCL_ENV_UNSOLICITED, 100, 40, .id = 77), 40, UCCL_DROP_RECORD},
		{0, SOME(UCCL_ENV_UNSOLICITED, 100, 40, .id = 77), 41, UCCL_DROP_RECORD},
		{0, SOME(UCCL_ENV_UNSOLICITED | UCCL_ENV_EAGER, 100, 40, .id = 77), 4, UCCL_DROP_RECORD},
		{0, SOME(UCCL_ENV_UNSOLICITED, 100, 0, .id = 77), 0, UCCL_DROP_RECORD},
		{0, SOME(UCCL_ENV_UNSOLICITED, 1 << 20, UCCL_UNSOLICITED_MAX + 8, .id = 77), 4, UCCL_DROP_RECORD},
		/* By lanes, where there are none; by none; by lanes, and not unsolicited. */
		{0, SOME(UCCL_ENV_UNSOLICITED | UCCL_ENV_LANES, 100, 40, .lanes = 1, .id = 77), 4, UCCL_DROP_RECORD},
		{0, SOME(UCCL_ENV_UNSOLICITED | UCCL_ENV_LANES, 100, 40, .id = 77), 4, UCCL_DROP_RECORD},
		{0, SOME(UCCL_ENV_LANES, 100, 40, .id = 77), 4, UCCL_DROP_RECORD},
		/* Of connection management, or of nobody. */
		{0, SOME(UCCL_ENV_UNSOLICITED | UCCL_ENV_CM, 100, 40, .id = 77), 4, UCCL_DROP_UNWANTED},
		{0, SOME(UCCL_ENV_UNSOLICITED, 100, 40), 4, UCCL_DROP_RECORD},
	};
	struct uccl_env env, good = duo_eager_env(0, 1, 4);

	for (unsigned int i = 0; i < uccl_array_len(bad); i++) {
		d->side[1].peer.rx.mseq = bad[i].next;
		assert_int_equal(duo_envelope(d, 1, &bad[i].env, src, bad[i].here), bad[i].drop);
		assert_int_equal(d->side[1].m.rx_pool.used, 0);
		assert_int_equal(d->side[1].m.unexpected.bytes, 0);
		assert_int_equal(d->side[1].peer.rx.mseq, bad[i].next);
		assert_null(d->side[1].peer.rx.by_mseq);
		assert_null(d->side[1].peer.rx.lone);
	}
	/* Twice the same early one. */
	env = duo_eager_env(1, 1, 4);
	assert_int_equal(duo_envelope(d, 1, &env, src, 4), UCCL_DROP_COUNT);
	assert_int_equal(duo_envelope(d, 1, &env, src, 4), UCCL_DROP_RECORD);
	/* The exact bounds are good. */
	env = duo_eager_env(UCCL_MSG_LIMIT - 1, 1, UCCL_EAGER_MAX);
	assert_int_equal(duo_envelope(d, 1, &env, src, 4), UCCL_DROP_COUNT);
	assert_int_equal(duo_envelope(d, 1, &good, src, 4), UCCL_DROP_COUNT);
	assert_int_equal(d->side[1].peer.rx.mseq, 2);
}

/* How many data are unsolicited is decoded as it was encoded. PROTOCOL R263 */
TEST(env__unsolicited)
{
	static const struct { uint64_t len; uint32_t head;
	} says[] = {
		{9, 8},
		{9, 9},
		{100, 100},
		{(1ull << UCCL_ENV_UNSOLICITED_AT) - 1, 8},
		{(1ull << UCCL_ENV_UNSOLICITED_AT) - 1, UCCL_UNSOLICITED_MAX},
		{UCCL_UNSOLICITED_MAX, UCCL_UNSOLICITED_MAX},
		{UCCL_UNSOLICITED_MAX - 1, UCCL_UNSOLICITED_MAX - 1},
	};

	for (unsigned int i = 0; i < sizeof(says) / sizeof(says[0]); i++) {
		struct uccl_env out, env = duo_unsolicited_env(3, 4, says[i].len, says[i].head);
		uint8_t rec[UCCL_REC_LEN];

		uccl_env_encode(rec, &env);
		uccl_env_decode(&out, rec);
		assert_int_equal(out.len, says[i].len);
		assert_int_equal(out.unsolicited, says[i].head);
		assert_int_equal(out.flags, env.flags);
	}
}

/* Unsolicited data that came before their envelope. PROTOCOL R29 R263 */
DUO_TEST(env__unsolicited_contradicts_its_chunks, duo_open_unsolicited())
{
	struct uccl_env env = duo_unsolicited_env(0, 1, 1000, 400);

	duo_fill(src, 400, 3);
	assert_int_equal(duo_eager(d, 1, 0, 100, 400, src + 100, 200), UCCL_DROP_COUNT);
	env.unsolicited = 408;
	assert_int_equal(duo_envelope(d, 1, &env, src, 40), UCCL_DROP_RECORD);
	env.unsolicited = 400;
	assert_int_equal(duo_envelope(d, 1, &env, src, 201), UCCL_DROP_RECORD);
	assert_int_equal(duo_envelope(d, 1, &env, src, 101), UCCL_DROP_OVERLAP);
	assert_int_equal(duo_envelope(d, 1, &env, src, 100), UCCL_DROP_COUNT);
	assert_int_equal(duo_envelope(d, 1, &env, src, 100), UCCL_DROP_RECORD);
	assert_int_equal(duo_eager(d, 1, 0, 300, 400, src + 300, 100), UCCL_DROP_COUNT);
	/* It met none, so all of that is kept. */
	assert_int_equal(d->side[1].m.unexpected.bytes, 400);
	/* The receive is shorter: nothing is asked for. */
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 300, 1, 0, DUO_CTX(1));
	assert_int_equal(duo_expect(d, 1, DUO_CTX(1), FI_ETRUNC, 300)->olen, 700);
	duo_check(dst, 300, 3);
	assert_int_equal(d->side[1].m.unexpected.bytes, 0);
}

/* An envelope that contradicts what came before it. PROTOCOL R29 */
DUO_TEST(env__contradicts_its_chunks, duo_open())
{
	struct uccl_env env = duo_eager_env(0, 1, 100);

	memset(dst, 0xee, 200);
	assert_int_equal(duo_eager(d, 1, 0, 40, 100, src + 40, 60), UCCL_DROP_COUNT);
	assert_int_equal(d->side[1].m.unexpected.bytes, 100);
	/* Another length; bytes that came already; a message that would be asked for. */
	env.len = 101;
	assert_int_equal(duo_envelope(d, 1, &env, src, 40), UCCL_DROP_RECORD);
	env.len = 100;
	assert_int_equal(duo_envelope(d, 1, &env, src, 41), UCCL_DROP_RECORD);
	env = (struct uccl_env){.flags = UCCL_ENV_TAGGED, .len = 5000, .id = 9, .tag = 1};
	assert_int_equal(duo_envelope(d, 1, &env, src, 100), UCCL_DROP_RECORD);
	assert_int_equal(d->side[1].peer.rx.mseq, 0);
	duo_fill(src, 100, 2);
	assert_int_equal(duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 200, 1, 0, DUO_CTX(1)), 0);
	env = duo_eager_env(0, 1, 100);
	assert_int_equal(duo_envelope(d, 1, &env, src, 40), UCCL_DROP_COUNT);
	duo_expect(d, 1, DUO_CTX(1), 0, 100);
	duo_check(dst, 40, 2);
	assert_int_equal(dst[100], 0xee);
}

/* PROTOCOL R41 */
DUO_TEST(env__out_of_memory, duo_open())
{
	struct uccl_env env = duo_eager_env(0, 1, 4), later = duo_eager_env(1, 1, 4);

	d->side[1].m.rx_pool.max = 0;
	assert_int_equal(duo_envelope(d, 1, &env, src, 4), UCCL_DROP_MEMORY);
	assert_int_equal(duo_envelope(d, 1, &later, src, 4), UCCL_DROP_MEMORY);
	assert_int_equal(duo_eager(d, 1, 0, 4, 100, src, 4), UCCL_DROP_MEMORY);
	assert_int_equal(d->side[1].peer.rx.mseq, 0);
	/* A receive that waits needs no memory. */
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 4, 1, 0, DUO_CTX(1));
	assert_int_equal(duo_envelope(d, 1, &env, src, 4), UCCL_DROP_COUNT);
	duo_expect(d, 1, DUO_CTX(1), 0, 4);
	d->side[1].m.rx_pool.max = 10;
	assert_int_equal(duo_envelope(d, 1, &later, src, 4), UCCL_DROP_COUNT);
}

/* What cannot be taken now comes again by itself. PROTOCOL R41 */
DUO_TEST(env__out_of_memory_for_a_while, duo_open())
{
	duo_fill(src, 3000, 3);
	d->side[1].m.rx_pool.max = 0;
	assert_int_equal(duo_send(d, 0, 0, src, 3000, 0, DUO_CTX(1)), 0);
	duo_run(d, 50 * MS);
	assert_null(duo_next(d, 0));
	assert_true(d->side[1].stats.dropped[UCCL_DROP_MEMORY] > 1);
	d->side[1].m.rx_pool.max = 10;
	duo_run(d, SECOND);
	duo_expect(d, 0, DUO_CTX(1), 0, 0);
	duo_take(d, dst, 3000, 3000, 3);
}

/* PROTOCOL R38 */
DUO_TEST(recv__directed, duo_open())
{
	struct uccl_op *op = duo_op(d, 1, UCCL_OP_RECV, UCCL_OPF_DIRECTED);

	/* Directed to ourselves: not for the other side's message. */
	op->peer = &d->side[1].self;
	op->context = DUO_CTX(1);
	assert_int_equal(uccl_msg_recv(&d->side[1].m, op, d->now), 0);
	assert_int_equal(duo_send(d, 0, 0, src, 4, 0, DUO_CTX(2)), 0);
	duo_run(d, SECOND);
	assert_null(duo_next(d, 1));
	duo_recv(d, 1, UCCL_OPF_DIRECTED, dst, 4, 0, 0, DUO_CTX(3));
	duo_expect(d, 1, DUO_CTX(3), 0, 4);
}

/* Tagged and untagged messages have one order between them only as far as receives can see it. PROTOCOL R35 */
DUO_TEST(recv__tagged_and_untagged, duo_open())
{
	assert_int_equal(duo_send(d, 0, UCCL_OPF_TAGGED, "t", 1, 9, NULL), 0);
	assert_int_equal(duo_send(d, 0, 0, "u", 1, 9, NULL), 0);
	duo_run(d, SECOND);
	duo_recv(d, 1, 0, dst, 1, 0, 0, DUO_CTX(1));
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst + 1, 1, 9, 0, DUO_CTX(2));
	duo_expect(d, 1, DUO_CTX(1), 0, 1);
	duo_expect(d, 1, DUO_CTX(2), 0, 1);
	assert_memory_equal(dst, "ut", 2);
}

/* Small and large, asked for before and after they come, to others and to ourselves. PROTOCOL R35 */
DUO_TEST(recv__collective, duo_open())
{
	static const uint64_t lens[] = {0, 8, 100000};

	duo_fill(src, 100000, 4);
	for (int unexpected = 0; unexpected < 2; unexpected++)
		for (int i = 0; i < 3; i++) {
			duo_recv(d, 1, UCCL_OPF_TAGGED, dst + 200000, 1, 0, UINT64_MAX, DUO_CTX(8));
			duo_recv(d, 1, 0, dst + 200000, 1, 0, 0, DUO_CTX(9));
			if (!unexpected)
				duo_recv(d, 1, UCCL_OPF_COLL | UCCL_OPF_DIRECTED, dst, lens[i], 5, 0, DUO_CTX(1));
			assert_int_equal(duo_send(d, 0, UCCL_OPF_COLL, src, lens[i], 5, NULL), 0);
			duo_run(d, SECOND);
			if (unexpected)
				duo_recv(d, 1, UCCL_OPF_COLL | UCCL_OPF_DIRECTED, dst, lens[i], 5, 0, DUO_CTX(1));
			duo_run(d, SECOND);
			duo_expect(d, 1, DUO_CTX(1), 0, lens[i]);
			assert_null(duo_next(d, 1));
			duo_check(dst, lens[i], 4);
			assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(8)), 0);
			assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(9)), 0);
			duo_expect(d, 1, DUO_CTX(8), FI_ECANCELED, 0);
			duo_expect(d, 1, DUO_CTX(9), FI_ECANCELED, 0);
		}
}

/* Asked for before and after it comes, and no other receive takes it. PROTOCOL R110 */
DUO_TEST(cm__apart, duo_open())
{
	static const uint64_t lens[] = {0, 1, 56, UCCL_CM_MAX};

	duo_fill(src, UCCL_CM_MAX, 4);
	d->side[1].m.sole.only = true;
	d->side[1].m.sole.peer = &d->side[1].peer;
	for (int i = 0; i < 8; i++) {
		duo_recv(d, 1, UCCL_OPF_TAGGED, dst + 200000, 1, 0, UINT64_MAX, DUO_CTX(8));
		duo_recv(d, 1, 0, dst + 200000, 1, 0, 0, DUO_CTX(9));
		duo_recv(d, 1, UCCL_OPF_COLL, dst + 200000, 1, 0, UINT64_MAX, DUO_CTX(10));
		if (i < 4)
			duo_recv(d, 1, UCCL_OPF_CM, dst, UCCL_CM_MAX, 0, UINT64_MAX, DUO_CTX(1));
		assert_int_equal(duo_send(d, 0, UCCL_OPF_CM, src, lens[i % 4], 5, NULL), 0);
		duo_run(d, SECOND);
		if (i >= 4)
			duo_recv(d, 1, UCCL_OPF_CM, dst, UCCL_CM_MAX, 0, UINT64_MAX, DUO_CTX(1));
		assert_int_equal(duo_expect(d, 1, DUO_CTX(1), 0, lens[i % 4])->tag, 5);
		assert_null(duo_next(d, 1));
		duo_check(dst, lens[i % 4], 4);
		for (uintptr_t k = 8; k <= 10; k++) {
			assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(k)), 0);
			duo_expect(d, 1, DUO_CTX(k), FI_ECANCELED, 0);
		}
	}
}

/* Too long, or to an endpoint that has no connections. PROTOCOL R110 */
DUO_TEST(cm__refused, duo_open())
{
	struct uccl_env env = {.flags = UCCL_ENV_CM | UCCL_ENV_EAGER, .tag = 1, .len = UCCL_CM_MAX};

	assert_int_equal(duo_envelope(d, 1, &env, src, UCCL_CM_MAX), UCCL_DROP_UNWANTED);
	d->side[1].m.sole.only = true;
	env.len++;
	assert_int_equal(duo_envelope(d, 1, &env, src, UCCL_CM_MAX + 1), UCCL_DROP_RECORD);
	env.flags = UCCL_ENV_CM;
	env.id = 1;
	assert_int_equal(duo_envelope(d, 1, &env, src, 0), UCCL_DROP_RECORD);
	assert_int_equal(d->side[1].m.rx_pool.used, 0);
	env.len--;
	assert_int_equal(duo_envelope(d, 1, &env, src, 0), UCCL_DROP_RECORD);
	assert_int_equal(d->side[1].m.rx_pool.used, 0);
}

/* One that is not all here holds nobody's receive, in whatever order its parts come. PROTOCOL R110 */
TEST(cm__half_a_message)
{
	struct uccl_env env = {.flags = UCCL_ENV_CM | UCCL_ENV_EAGER, .tag = 1, .len = 300};
	struct uccl_env whole = {.flags = UCCL_ENV_CM | UCCL_ENV_EAGER, .tag = 2, .len = 10, .mseq = 1};

	duo_fill(src, 300, 2);
	for (int how = 0; how < 3; how++) {
		struct duo *d = duo_open();

		d->side[1].m.sole.only = true;
		duo_recv(d, 1, UCCL_OPF_CM, dst, UCCL_CM_MAX, 0, UINT64_MAX, DUO_CTX(1));
		if (how < 2)
			assert_int_equal(duo_envelope(d, 1, &env, src, 100), UCCL_DROP_COUNT);
		else
			assert_int_equal(duo_eager(d, 1, 0, 100, 300, src + 100, 200), UCCL_DROP_COUNT);
		/* Nor does a later one overtake it. */
		assert_int_equal(duo_envelope(d, 1, &whole, src, 10), UCCL_DROP_COUNT);
		duo_quiet(d);
		if (how == 0) {
			/* Its sender goes: the receive is there for the next one. */
			uccl_peer_fail(&d->side[1].peer, FI_ECONNABORTED, d->now);
			assert_int_equal(d->side[1].m.rx_pool.used, 0);
			assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(1)), 0);
			duo_free(d);
			continue;
		}
		duo_recv(d, 1, UCCL_OPF_CM, dst + 1000, UCCL_CM_MAX, 0, UINT64_MAX, DUO_CTX(2));
		if (how == 1)
			assert_int_equal(duo_eager(d, 1, 0, 100, 300, src + 100, 200), UCCL_DROP_COUNT);
		else
			assert_int_equal(duo_envelope(d, 1, &env, src, 100), UCCL_DROP_COUNT);
		duo_expect(d, 1, DUO_CTX(1), 0, 300);
		duo_check(dst, 300, 2);
		duo_expect(d, 1, DUO_CTX(2), 0, 10);
		assert_int_equal(d->side[1].m.rx_pool.used, 0);
		duo_free(d);
	}
}

/* It is said whole at once, however little the peer wants and whatever the eager limit is. PROTOCOL R110 */
TEST(cm__said_whole)
{
	for (int queued = 0; queued < 2; queued++) {
		struct duo *d = duo_open();

		d->side[0].m.eager_max = 0;
		d->side[1].m.sole.only = true;
		duo_fill(src, UCCL_CM_MAX, 6);
		d->side[0].peer.flow.limits.envelopes_only = !queued;
		assert_int_equal(duo_send(d, 0, UCCL_OPF_CM, src, UCCL_CM_MAX, 5, DUO_CTX(1)), 0);
		if (queued) {
			d->side[0].peer.flow.limits.envelopes_only = true;
			uccl_msg_hold(&d->side[0].peer);
		}
		duo_recv(d, 1, UCCL_OPF_CM, dst, UCCL_CM_MAX, 0, UINT64_MAX, DUO_CTX(2));
		duo_run(d, SECOND);
		duo_passed(d, UCCL_CM_MAX);
		duo_check(dst, UCCL_CM_MAX, 6);
		assert_int_equal(d->side[1].stats.dropped[UCCL_DROP_RECORD], 0);
		duo_free(d);
	}
}

/* What a connected endpoint is sent by others than its peer; the same from the peer is taken. PROTOCOL R111 */
DUO_TEST(cm__strangers, duo_open())
{
	struct uccl_env env = duo_eager_env(0, 1, 100);
	uint8_t rec[UCCL_REC_LEN];

	d->side[1].m.sole.only = true;
	uccl_env_encode(rec, &env);
	assert_int_equal(duo_envelope(d, 1, &env, src, 100), UCCL_DROP_UNWANTED);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_REQ, rec, src, 100), UCCL_DROP_UNWANTED);
	assert_int_equal(duo_eager(d, 1, 0, 0, UCCL_CM_MAX + 1, src, 10), UCCL_DROP_UNWANTED);
	assert_int_equal(d->side[1].m.rx_pool.used, 0);
	/* It may be of connection management, until the envelope says something else. */
	assert_int_equal(duo_eager(d, 1, 0, 50, 100, src, 50), UCCL_DROP_COUNT);
	assert_int_equal(duo_envelope(d, 1, &env, src, 50), UCCL_DROP_UNWANTED);
	assert_null(duo_next(d, 1));
	d->side[1].m.sole.peer = &d->side[1].peer;
	assert_int_equal(duo_envelope(d, 1, &env, src, 50), UCCL_DROP_COUNT);
	assert_int_equal(duo_eager(d, 1, 1, 0, 4000, src, 10), UCCL_DROP_COUNT);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_REQ, rec, src, 100), UCCL_DROP_RECORD);
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 100, 1, 0, DUO_CTX(1));
	duo_expect(d, 1, DUO_CTX(1), 0, 100);
}

/* PROTOCOL R36 R37 */
DUO_TEST(recv__wildcards_in_order, duo_open())
{
	for (unsigned int i = 0; i < 4; i++)
		duo_send(d, 0, UCCL_OPF_TAGGED, src, 0, i, NULL);
	duo_run(d, SECOND);
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 0, 2, 0, DUO_CTX(1));
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 0, 1, ~1ull, DUO_CTX(2));
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 0, 0, UINT64_MAX, DUO_CTX(3));
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 0, 0, UINT64_MAX, DUO_CTX(4));
	assert_int_equal(duo_expect(d, 1, DUO_CTX(1), 0, 0)->tag, 2);
	assert_int_equal(duo_expect(d, 1, DUO_CTX(2), 0, 0)->tag, 1);
	assert_int_equal(duo_expect(d, 1, DUO_CTX(3), 0, 0)->tag, 0);
	assert_int_equal(duo_expect(d, 1, DUO_CTX(4), 0, 0)->tag, 3);
}

static struct uccl_op *peek_op(struct duo *d, uint32_t flags, uint64_t tag, uint64_t ignore, void *context)
{
	struct uccl_op *op = duo_op(d, 1, UCCL_OP_RECV, flags);

	op->tag = tag;
	op->recv.ignore = ignore;
	op->context = context;
	return op;
}

DUO_TEST(peek__tells_and_leaves, duo_open())
{
	struct uccl_op *op = peek_op(d, UCCL_OPF_TAGGED, 0, UINT64_MAX, NULL), *send;

	assert_int_equal(uccl_msg_peek(&d->side[1].m, op, false, false, d->now), -FI_ENOMSG);
	for (int i = 0; i < 2; i++) {
		send = duo_op(d, 0, UCCL_OP_SEND, UCCL_OPF_TAGGED | (i ? 0 : UCCL_OPF_DATA));
		send->tag = 5u + (unsigned int)i;
		send->data = 66;
		duo_buffer(send, src, 50000);
		assert_int_equal(uccl_msg_send(&d->side[0].m, send, d->now), 0);
	}
	duo_run(d, SECOND);
	for (int i = 0; i < 2; i++) {
		op->tag = 5;
		op->recv.ignore = 0;
		assert_int_equal(uccl_msg_peek(&d->side[1].m, op, false, false, d->now), 0);
		assert_int_equal(op->done_len, 50000);
		assert_int_equal(op->data, 66);
		assert_true(op->flags & UCCL_OPF_DATA);
		assert_ptr_equal(op->from, &d->side[1].peer);
	}
	op->tag = 6;
	assert_int_equal(uccl_msg_peek(&d->side[1].m, op, false, false, d->now), 0);
	assert_false(op->flags & UCCL_OPF_DATA);
	op->tag = 7;
	assert_int_equal(uccl_msg_peek(&d->side[1].m, op, false, false, d->now), -FI_ENOMSG);
	uccl_msg_ep_op_put(&d->side[1].m, op);
	duo_quiet(d);
}

/* PROTOCOL R39 */
DUO_TEST(peek__claim, duo_open())
{
	struct uccl_op *op = peek_op(d, UCCL_OPF_TAGGED, 5, 0, DUO_CTX(1));

	duo_fill(src, 20000, 1);
	duo_send(d, 0, UCCL_OPF_TAGGED, src, 20000, 5, NULL);
	duo_send(d, 0, UCCL_OPF_TAGGED, src, 10, 5, NULL);
	duo_run(d, SECOND);
	assert_int_equal(uccl_msg_recv_claimed(&d->side[1].m, op, false, d->now), -FI_ENOMSG);
	assert_int_equal(uccl_msg_peek(&d->side[1].m, op, true, false, d->now), 0);
	/* Claimed: nobody else gets it. */
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst + 65536, 100, 0, UINT64_MAX, DUO_CTX(2));
	duo_expect(d, 1, DUO_CTX(2), 0, 10);
	duo_buffer(op, dst, 20000);
	assert_int_equal(uccl_msg_recv_claimed(&d->side[1].m, op, false, d->now), 0);
	assert_null(duo_next(d, 1));
	duo_run(d, SECOND);
	assert_ptr_equal(duo_expect(d, 1, DUO_CTX(1), 0, 20000)->buf, dst);
	duo_check(dst, 20000, 1);
	assert_int_equal(duo_waiting(d, 0), 2);
}

/* PROTOCOL R39 */
DUO_TEST(peek__claimed_then_dropped, duo_open())
{
	for (uint64_t n = 0; n <= 20000; n += 10000) {
		struct uccl_op *op = peek_op(d, UCCL_OPF_TAGGED, 5, 0, DUO_CTX(1));

		duo_send(d, 0, UCCL_OPF_TAGGED, src, n, 5, DUO_CTX(3));
		duo_run(d, SECOND);
		assert_int_equal(uccl_msg_peek(&d->side[1].m, op, true, false, d->now), 0);
		assert_int_equal(uccl_msg_recv_claimed(&d->side[1].m, op, true, d->now), 0);
		duo_expect(d, 1, DUO_CTX(1), 0, 0);
		duo_run(d, SECOND);
		duo_expect(d, 0, DUO_CTX(3), 0, 0);
		assert_int_equal(d->side[1].m.rx_pool.used, 0);
		assert_int_equal(d->side[1].m.unexpected.bytes, 0);
	}
}

/* What is thrown away is not asked for, and still completes at its sender. */
DUO_TEST(peek__discard, duo_open())
{
	struct uccl_op *op = peek_op(d, 0, 0, 0, NULL);
	struct uccl_env env = {.flags = UCCL_ENV_EAGER, .len = 100, .mseq = 3};

	duo_send(d, 0, 0, src, 200000, 0, DUO_CTX(1));
	duo_send(d, 0, UCCL_OPF_DELIVERY, src, 500, 0, DUO_CTX(2));
	duo_send(d, 0, 0, src, 0, 0, DUO_CTX(3));
	duo_run(d, SECOND);
	for (int i = 0; i < 3; i++)
		assert_int_equal(uccl_msg_peek(&d->side[1].m, op, false, true, d->now), 0);
	assert_int_equal(uccl_msg_peek(&d->side[1].m, op, false, true, d->now), -FI_ENOMSG);
	duo_run(d, SECOND);
	assert_int_equal(duo_waiting(d, 0), 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(duo_next(d, 0)->err, 0);
	assert_true(d->side[0].stats.tx_bytes < 2000);
	/* Half of it is here. */
	assert_int_equal(duo_envelope(d, 1, &env, src, 40), UCCL_DROP_COUNT);
	assert_int_equal(uccl_msg_peek(&d->side[1].m, op, false, true, d->now), 0);
	assert_int_equal(d->side[1].m.unexpected.bytes, 0);
	assert_int_equal(duo_eager(d, 1, 3, 40, 100, src, 60), UCCL_DROP_COUNT);
	assert_int_equal(d->side[1].m.rx_pool.used, 0);
	uccl_msg_ep_op_put(&d->side[1].m, op);
	duo_quiet(d);
}

DUO_TEST(peek__own_messages, duo_open())
{
	struct uccl_op *op = peek_op(d, 0, 0, 0, DUO_CTX(5));

	for (int i = 0; i < 2; i++)
		assert_int_equal(duo_send_self(d, 1, 0, src, 0, DUO_CTX(i)), 0);
	assert_int_equal(uccl_msg_peek(&d->side[1].m, op, false, true, d->now), 0);
	duo_expect(d, 1, DUO_CTX(0), 0, 0);
	assert_int_equal(uccl_msg_peek(&d->side[1].m, op, true, false, d->now), 0);
	assert_ptr_equal(op->from, &d->side[1].self);
	assert_int_equal(uccl_msg_recv_claimed(&d->side[1].m, op, false, d->now), 0);
	duo_expect(d, 1, DUO_CTX(1), 0, 0);
	duo_expect(d, 1, DUO_CTX(5), 0, 0);
}

TESTS_MAIN
