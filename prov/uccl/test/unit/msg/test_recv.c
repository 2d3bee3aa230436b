/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "duo.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "msg/iov.h"

#define SECOND UCCL_NS_PER_S

static uint8_t src[1 << 18], dst[1 << 18];

static const struct duo_comp *expect(struct duo *d, int s, void *context, int err, uint64_t len)
{
	const struct duo_comp *c = duo_next(d, s);

	assert_non_null(c);
	assert_ptr_equal(c->context, context);
	assert_int_equal(c->err, err);
	assert_int_equal(c->len, len);
	return c;
}

static void quiet(struct duo *d)
{
	assert_null(duo_next(d, 0));
	assert_null(duo_next(d, 1));
}

static struct uccl_env eager_env(uint32_t mseq, uint64_t tag, uint64_t len)
{
	return (struct uccl_env){.flags = UCCL_ENV_TAGGED | UCCL_ENV_EAGER, .mseq = mseq, .tag = tag, .len = len};
}

static void copy__in_and_out(void **state)
{
	uint8_t a[4] = {0}, b[4] = {0}, flat[8] = {1, 2, 3, 4, 5, 6, 7, 8}, back[8] = {0};
	struct uccl_op op = {.iov_count = 3, .iov = {{a, 3}, {NULL, 0}, {b, 4}}};

	(void)state;
	msg_copy_in(op.iov, op.iov_count, 0, flat, 7);
	assert_memory_equal(a, ((uint8_t[]){1, 2, 3, 0}), 4);
	assert_memory_equal(b, ((uint8_t[]){4, 5, 6, 7}), 4);
	msg_copy_in(op.iov, op.iov_count, 5, flat, 1);
	assert_memory_equal(b, ((uint8_t[]){4, 5, 1, 7}), 4);
	msg_copy_in(op.iov, op.iov_count, 2, flat + 6, 2);
	assert_int_equal(a[2], 7);
	assert_int_equal(b[0], 8);
	/* What is in its place already stays there. */
	msg_copy_in(op.iov, op.iov_count, 3, b, 4);
	assert_memory_equal(b, ((uint8_t[]){8, 5, 1, 7}), 4);
	msg_copy_out(op.iov, 3, 0, back, 7);
	assert_memory_equal(back, ((uint8_t[]){1, 2, 7, 8, 5, 1, 7, 0}), 8);
	msg_copy_out(op.iov, 3, 4, back, 2);
	assert_memory_equal(back, ((uint8_t[]){5, 1}), 2);
}

/* All six orders of three messages, matched and unexpected alike: received as they were sent. PROTOCOL R32 */
static void env__out_of_order(void **state)
{
	static const int order[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

	(void)state;
	for (int k = 0; k < 6; k++)
		for (int late = 0; late < 2; late++) {
			struct duo *d = duo_open();

			for (int i = 0; i < 3 && !late; i++)
				duo_recv(d, 1, UCCL_OPF_TAGGED, dst + i * 16, 16, 0, UINT64_MAX, DUO_CTX(i));
			for (int i = 0; i < 3; i++) {
				struct uccl_env env =
					eager_env((uint32_t)order[k][i], 40u + (unsigned int)order[k][i], 4);
				uint8_t body[4];

				memset(body, order[k][i] + 1, 4);
				assert_int_equal(duo_envelope(d, 1, &env, body, 4), UCCL_DROP_COUNT);
			}
			for (int i = 0; i < 3 && late; i++)
				duo_recv(d, 1, UCCL_OPF_TAGGED, dst + i * 16, 16, 0, UINT64_MAX, DUO_CTX(i));
			for (int i = 0; i < 3; i++) {
				const struct duo_comp *c = expect(d, 1, DUO_CTX(i), 0, 4);

				assert_int_equal(c->tag, 40 + i);
				assert_int_equal(dst[i * 16], i + 1);
			}
			assert_int_equal(d->side[1].peer.rx_mseq, 3);
			assert_int_equal(d->side[1].peer.flow.owed.msg_limit, 3 + UCCL_MSG_LIMIT);
			duo_free(d);
		}
}

/* PROTOCOL R32 */
static void env__early_does_not_match(void **state)
{
	struct duo *d = duo_open();
	struct uccl_env second = eager_env(1, 7, 0), first = eager_env(0, 7, 0);

	(void)state;
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 16, 7, 0, DUO_CTX(1));
	assert_int_equal(duo_envelope(d, 1, &second, NULL, 0), UCCL_DROP_COUNT);
	quiet(d);
	first.data = 1;
	first.flags |= UCCL_ENV_DATA;
	assert_int_equal(duo_envelope(d, 1, &first, NULL, 0), UCCL_DROP_COUNT);
	assert_int_equal(expect(d, 1, DUO_CTX(1), 0, 0)->data, 1);
	quiet(d);
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 16, 7, 0, DUO_CTX(2));
	expect(d, 1, DUO_CTX(2), 0, 0);
	duo_free(d);
}

static enum duo_verdict hold_all(struct duo *d, const struct duo_pkt *p)
{
	(void)d;
	(void)p;
	return DUO_HOLD;
}

/* A whole burst turned round: chunks before their envelope, envelopes before their turn. PROTOCOL R29 R32 */
static void env__burst_reversed(void **state)
{
	static const uint64_t sizes[] = {5000, 0, 100, 8192, 20000, 1024, 1025};

	(void)state;
	for (int late = 0; late < 2; late++) {
		struct duo *d = duo_open();
		int n = uccl_array_len(sizes);

		duo_fill(src, 20000, 1);
		for (int i = 0; i < n && !late; i++)
			duo_recv(d, 1, 0, dst + i * 20000, 20000, 0, 0, DUO_CTX(i));
		for (int i = 0; i < n; i++)
			assert_int_equal(duo_send(d, 0, 0, src, sizes[i], 0, DUO_CTX(i)), 0);
		d->filter = hold_all;
		duo_round(d);
		d->filter = NULL;
		duo_release(d, true);
		duo_run(d, SECOND);
		for (int i = 0; i < n && late; i++)
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

/* Nothing of a malformed envelope stays. PROTOCOL R28 R29 */
static void env__malformed(void **state)
{
	struct duo *d = duo_open();
	struct uccl_env env, good = eager_env(0, 1, 4);

	(void)state;
	/* Of the past, or too far ahead. */
	d->side[1].peer.rx_mseq = 5;
	env = eager_env(4, 1, 4);
	assert_int_equal(duo_envelope(d, 1, &env, src, 4), UCCL_DROP_RECORD);
	env = eager_env(5 + UCCL_MSG_LIMIT, 1, 4);
	assert_int_equal(duo_envelope(d, 1, &env, src, 4), UCCL_DROP_RECORD);
	env = eager_env(5 + (1u << 31), 1, 4);
	assert_int_equal(duo_envelope(d, 1, &env, src, 4), UCCL_DROP_RECORD);
	d->side[1].peer.rx_mseq = 0;
	env = eager_env(UINT32_MAX, 1, 4);
	assert_int_equal(duo_envelope(d, 1, &env, src, 4), UCCL_DROP_RECORD);
	/* More payload than the message has. */
	env = eager_env(0, 1, 3);
	assert_int_equal(duo_envelope(d, 1, &env, src, 4), UCCL_DROP_RECORD);
	/* Eager, and larger than anybody may make us buffer. */
	env = eager_env(0, 1, UCCL_EAGER_MAX + 1);
	assert_int_equal(duo_envelope(d, 1, &env, src, 4), UCCL_DROP_RECORD);
	env = eager_env(0, 1, (1ull << 56) - 1);
	assert_int_equal(duo_envelope(d, 1, &env, src, 4), UCCL_DROP_RECORD);
	/* Rendezvous or delivery without a handle. */
	env = eager_env(0, 1, 100);
	env.flags = UCCL_ENV_TAGGED;
	assert_int_equal(duo_envelope(d, 1, &env, src, 4), UCCL_DROP_RECORD);
	env.flags = UCCL_ENV_TAGGED | UCCL_ENV_EAGER | UCCL_ENV_DELIVERY;
	env.len = 4;
	assert_int_equal(duo_envelope(d, 1, &env, src, 4), UCCL_DROP_RECORD);
	/* Rendezvous for what is here already. */
	env.flags = UCCL_ENV_TAGGED;
	env.id = 9;
	assert_int_equal(duo_envelope(d, 1, &env, src, 4), UCCL_DROP_RECORD);
	env.len = 0;
	assert_int_equal(duo_envelope(d, 1, &env, src, 0), UCCL_DROP_RECORD);
	assert_int_equal(d->side[1].m.rx_pool.used, 0);
	assert_int_equal(d->side[1].m.unexpected_bytes, 0);
	assert_int_equal(d->side[1].peer.rx_mseq, 0);
	assert_null(d->side[1].peer.by_mseq);
	/* Twice the same early one. */
	env = eager_env(1, 1, 4);
	assert_int_equal(duo_envelope(d, 1, &env, src, 4), UCCL_DROP_COUNT);
	assert_int_equal(duo_envelope(d, 1, &env, src, 4), UCCL_DROP_RECORD);
	/* The exact bounds are good. */
	env = eager_env(UCCL_MSG_LIMIT - 1, 1, UCCL_EAGER_MAX);
	assert_int_equal(duo_envelope(d, 1, &env, src, 4), UCCL_DROP_COUNT);
	assert_int_equal(duo_envelope(d, 1, &good, src, 4), UCCL_DROP_COUNT);
	assert_int_equal(d->side[1].peer.rx_mseq, 2);
	duo_free(d);
}

/* An envelope that contradicts what came before it. PROTOCOL R29 */
static void env__contradicts_its_chunks(void **state)
{
	struct duo *d = duo_open();
	struct uccl_env env = eager_env(0, 1, 100);

	(void)state;
	memset(dst, 0xee, 200);
	assert_int_equal(duo_eager(d, 1, 0, 40, 100, src + 40, 60), UCCL_DROP_COUNT);
	assert_int_equal(d->side[1].m.unexpected_bytes, 100);
	/* Another length; bytes that came already; a message that would be asked for. */
	env.len = 101;
	assert_int_equal(duo_envelope(d, 1, &env, src, 40), UCCL_DROP_RECORD);
	env.len = 100;
	assert_int_equal(duo_envelope(d, 1, &env, src, 41), UCCL_DROP_RECORD);
	env = (struct uccl_env){.flags = UCCL_ENV_TAGGED, .len = 5000, .id = 9, .tag = 1};
	assert_int_equal(duo_envelope(d, 1, &env, src, 100), UCCL_DROP_RECORD);
	assert_int_equal(d->side[1].peer.rx_mseq, 0);
	duo_fill(src, 100, 2);
	assert_int_equal(duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 200, 1, 0, DUO_CTX(1)), 0);
	env = eager_env(0, 1, 100);
	assert_int_equal(duo_envelope(d, 1, &env, src, 40), UCCL_DROP_COUNT);
	expect(d, 1, DUO_CTX(1), 0, 100);
	duo_check(dst, 40, 2);
	assert_int_equal(dst[100], 0xee);
	duo_free(d);
}

/* PROTOCOL R41 */
static void env__out_of_memory(void **state)
{
	struct duo *d = duo_open();
	struct uccl_env env = eager_env(0, 1, 4), later = eager_env(1, 1, 4);

	(void)state;
	d->side[1].m.rx_pool.max = 0;
	assert_int_equal(duo_envelope(d, 1, &env, src, 4), UCCL_DROP_MEMORY);
	assert_int_equal(duo_envelope(d, 1, &later, src, 4), UCCL_DROP_MEMORY);
	assert_int_equal(duo_eager(d, 1, 0, 4, 100, src, 4), UCCL_DROP_MEMORY);
	assert_int_equal(d->side[1].peer.rx_mseq, 0);
	/* A receive that waits needs no memory. */
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 4, 1, 0, DUO_CTX(1));
	assert_int_equal(duo_envelope(d, 1, &env, src, 4), UCCL_DROP_COUNT);
	expect(d, 1, DUO_CTX(1), 0, 4);
	d->side[1].m.rx_pool.max = 10;
	assert_int_equal(duo_envelope(d, 1, &later, src, 4), UCCL_DROP_COUNT);
	duo_free(d);
}

/* What cannot be taken now comes again by itself. PROTOCOL R41 */
static void env__out_of_memory_for_a_while(void **state)
{
	struct duo *d = duo_open();

	(void)state;
	duo_fill(src, 3000, 3);
	d->side[1].m.rx_pool.max = 0;
	assert_int_equal(duo_send(d, 0, 0, src, 3000, 0, DUO_CTX(1)), 0);
	duo_run(d, 50 * UCCL_NS_PER_MS);
	assert_null(duo_next(d, 0));
	assert_true(d->side[1].stats.dropped[UCCL_DROP_MEMORY] > 1);
	d->side[1].m.rx_pool.max = 10;
	duo_run(d, SECOND);
	expect(d, 0, DUO_CTX(1), 0, 0);
	duo_recv(d, 1, 0, dst, 3000, 0, 0, DUO_CTX(2));
	expect(d, 1, DUO_CTX(2), 0, 3000);
	duo_check(dst, 3000, 3);
	duo_free(d);
}

/* PROTOCOL R29 */
static void eager__malformed(void **state)
{
	struct duo *d = duo_open();
	struct uccl_env env = eager_env(0, 1, 100);

	(void)state;
	d->side[1].peer.rx_mseq = 3;
	assert_int_equal(duo_eager(d, 1, 2, 0, 100, src, 10), UCCL_DROP_HANDLE);
	assert_int_equal(duo_eager(d, 1, 3 + UCCL_MSG_LIMIT, 0, 100, src, 10), UCCL_DROP_RECORD);
	d->side[1].peer.rx_mseq = 0;
	assert_int_equal(duo_eager(d, 1, 0, 0, UCCL_EAGER_MAX + 1, src, 10), UCCL_DROP_RECORD);
	assert_int_equal(duo_eager(d, 1, 0, 0, 0, src, 0), UCCL_DROP_RECORD);
	assert_int_equal(d->side[1].m.rx_pool.used, 0);
	assert_int_equal(duo_envelope(d, 1, &env, src, 40), UCCL_DROP_COUNT);
	/* Another length, outside of it, or more than is missing. */
	assert_int_equal(duo_eager(d, 1, 0, 40, 101, src, 10), UCCL_DROP_RANGE);
	assert_int_equal(duo_eager(d, 1, 0, 101, 100, src, 0), UCCL_DROP_RANGE);
	assert_int_equal(duo_eager(d, 1, 0, UINT64_MAX, 100, src, 2), UCCL_DROP_RANGE);
	assert_int_equal(duo_eager(d, 1, 0, 95, 100, src, 6), UCCL_DROP_RANGE);
	assert_int_equal(duo_eager(d, 1, 0, 0, 100, src, 61), UCCL_DROP_RANGE);
	assert_int_equal(d->side[1].peer.rxs.tqh_first->got, 40);
	assert_int_equal(duo_eager(d, 1, 0, 40, 100, src + 40, 60), UCCL_DROP_COUNT);
	/* Complete: nothing of it is expected any more. */
	assert_int_equal(duo_eager(d, 1, 0, 40, 100, src, 1), UCCL_DROP_HANDLE);
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 100, 1, 0, DUO_CTX(1));
	expect(d, 1, DUO_CTX(1), 0, 100);
	duo_free(d);
}

/* A receive posted between the chunks gets what came and what comes. PROTOCOL R29 */
static void eager__matched_half_way(void **state)
{
	(void)state;
	for (int gap = 0; gap < 2; gap++)
		for (uint64_t room = 0; room <= 120; room += 30) {
			struct duo *d = duo_open();
			struct uccl_env env = eager_env(0, 1, 100);

			duo_fill(src, 100, 4);
			memset(dst, 0xee, 200);
			assert_int_equal(duo_envelope(d, 1, &env, src, 40), UCCL_DROP_COUNT);
			if (gap)
				assert_int_equal(duo_eager(d, 1, 0, 70, 100, src + 70, 30), UCCL_DROP_COUNT);
			duo_recv(d, 1, UCCL_OPF_TAGGED, dst, room, 1, 0, DUO_CTX(1));
			quiet(d);
			assert_int_equal(d->side[1].m.unexpected_bytes, 0);
			if (!gap)
				assert_int_equal(duo_eager(d, 1, 0, 70, 100, src + 70, 30), UCCL_DROP_COUNT);
			assert_int_equal(duo_eager(d, 1, 0, 40, 100, src + 40, 30), UCCL_DROP_COUNT);
			room = uccl_min(room, 100);
			assert_int_equal(expect(d, 1, DUO_CTX(1), room < 100 ? FI_ETRUNC : 0, room)->olen, 100 - room);
			duo_check(dst, room, 4);
			assert_int_equal(dst[room], 0xee);
			assert_int_equal(d->side[1].m.rx_pool.used, 0);
			duo_free(d);
			if (room == 100)
				break;
		}
}

/* PROTOCOL R31 */
static void data__malformed(void **state)
{
	struct duo *d = duo_open();
	struct uccl_env env = {.flags = UCCL_ENV_TAGGED, .len = 10000, .id = 77, .tag = 1};
	struct uccl_msg_rx *rx;
	uint8_t rec[UCCL_REC_LEN] = {0};

	(void)state;
	d->filter = hold_all;
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 10), UCCL_DROP_HANDLE);
	assert_int_equal(duo_envelope(d, 1, &env, src, 1000), UCCL_DROP_COUNT);
	rx = TAILQ_FIRST(&d->side[1].peer.rxs);
	/* Not matched, so nothing of it was asked for. */
	uccl_rec_set_bulk(rec, rx->id, 0, 1000);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 10), UCCL_DROP_HANDLE);
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 9000, 1, 0, DUO_CTX(1));
	assert_int_equal(rx->limit, 9000);
	/* Another generation, another message, another peer. */
	uccl_rec_set_bulk(rec, rx->id + (1u << 20), 0, 1000);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 10), UCCL_DROP_HANDLE);
	uccl_rec_set_bulk(rec, rx->id, 1, 1000);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 10), UCCL_DROP_HANDLE);
	uccl_rec_set_bulk(rec, rx->id, 0, 1000);
	rx->peer = &d->side[1].self;
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 10), UCCL_DROP_HANDLE);
	rx->peer = &d->side[1].peer;
	/* What the envelope brought, beyond the grant, around the end of all numbers. */
	memset(dst, 0xee, 10000);
	uccl_rec_set_bulk(rec, rx->id, 0, 999);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 10), UCCL_DROP_RANGE);
	uccl_rec_set_bulk(rec, rx->id, 0, 9001);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 0), UCCL_DROP_RANGE);
	uccl_rec_set_bulk(rec, rx->id, 0, 8999);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 2), UCCL_DROP_RANGE);
	uccl_rec_set_bulk(rec, rx->id, 0, UINT64_MAX - 1);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 10), UCCL_DROP_RANGE);
	for (int i = 0; i < 10000; i++)
		assert_int_equal(dst[i], 0xee);
	assert_int_equal(rx->got, 1000);
	/* More than is missing. */
	uccl_rec_set_bulk(rec, rx->id, 0, 1000);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 7999), UCCL_DROP_COUNT);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 2), UCCL_DROP_RANGE);
	uccl_rec_set_bulk(rec, rx->id, 0, 8999);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 1), UCCL_DROP_COUNT);
	expect(d, 1, DUO_CTX(1), FI_ETRUNC, 9000);
	/* Finished, its CTS still under way: its buffer is the application's. */
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 1), UCCL_DROP_HANDLE);
	duo_free(d);
}

/* Each byte once: as many bytes as a message has are not the message. PROTOCOL R119 */
static void overlap__eager(void **state)
{
	static const uint64_t again[] = {40, 41, 35, 11};

	(void)state;
	for (int early = 0; early < 2; early++)
		for (unsigned int i = 0; i < uccl_array_len(again); i++) {
			struct uccl_env env = eager_env(0, 1, 100);
			struct duo *d = duo_open();

			duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 100, 1, 0, DUO_CTX(1));
			if (!early)
				assert_int_equal(duo_envelope(d, 1, &env, src, 40), UCCL_DROP_COUNT);
			assert_int_equal(duo_eager(d, 1, 0, 40, 100, src, 30), UCCL_DROP_COUNT);
			assert_int_equal(duo_eager(d, 1, 0, again[i], 100, src, 30), UCCL_DROP_OVERLAP);
			if (early && again[i] < 40)
				assert_int_equal(duo_envelope(d, 1, &env, src, 41), UCCL_DROP_OVERLAP);
			quiet(d);
			/* What was refused left nothing. */
			if (early)
				assert_int_equal(duo_envelope(d, 1, &env, src, 40), UCCL_DROP_COUNT);
			assert_int_equal(duo_eager(d, 1, 0, 70, 100, src, 30), UCCL_DROP_COUNT);
			expect(d, 1, DUO_CTX(1), 0, 100);
			duo_free(d);
		}
}

/* So many pieces that they are not kept one by one; the last of them tells. PROTOCOL R119 */
static void overlap__seen_at_the_end(void **state)
{
	(void)state;
	for (int lie = 0; lie < 2; lie++) {
		struct uccl_env env = eager_env(0, 1, 1000);
		struct duo *d = duo_open();
		enum uccl_drop last;

		duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 1000, 1, 0, DUO_CTX(1));
		assert_int_equal(duo_envelope(d, 1, &env, src, 10), UCCL_DROP_COUNT);
		/* Every second piece, and then those between them, but one again that is long forgotten. */
		for (uint64_t off = 20; off < 1000; off += 20)
			assert_int_equal(duo_eager(d, 1, 0, off, 1000, src, 10), UCCL_DROP_COUNT);
		for (uint64_t off = 10; off < 990; off += 20)
			assert_int_equal(duo_eager(d, 1, 0, lie && off == 510 ? 100 : off, 1000, src, 10),
					 UCCL_DROP_COUNT);
		last = duo_eager(d, 1, 0, 990, 1000, src, 10);
		if (lie) {
			assert_int_equal(last, UCCL_DROP_OVERLAP);
			assert_int_equal(duo_eager(d, 1, 0, 510, 1000, src, 10), UCCL_DROP_OVERLAP);
			quiet(d);
			uccl_peer_fail(&d->side[1].peer, FI_ECONNABORTED, d->now);
			expect(d, 1, DUO_CTX(1), FI_ECONNABORTED, 0);
		} else {
			assert_int_equal(last, UCCL_DROP_COUNT);
			expect(d, 1, DUO_CTX(1), 0, 1000);
		}
		duo_free(d);
	}
}

/* A receive that met a message of which pieces are missing shows nothing of our memory. PROTOCOL R119 */
static void overlap__gaps_are_empty(void **state)
{
	struct uccl_env env = eager_env(0, 1, 4000);
	struct duo *d = duo_open();
	uint8_t *old[20];

	(void)state;
	/* What the heap gives out again held something. */
	for (int i = 0; i < 20; i++) {
		old[i] = malloc(4000);
		assert_non_null(old[i]);
		memset(old[i], 0x5a, 4000);
	}
	for (int i = 0; i < 20; i++)
		free(old[i]);
	assert_int_equal(duo_envelope(d, 1, &env, src, 10), UCCL_DROP_COUNT);
	memset(dst, 0x5a, 4000);
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 4000, 1, 0, DUO_CTX(1));
	for (int i = 10; i < 4000; i++)
		assert_int_equal(dst[i], 0);
	uccl_peer_fail(&d->side[1].peer, FI_ECONNABORTED, d->now);
	expect(d, 1, DUO_CTX(1), FI_ECONNABORTED, 0);
	duo_free(d);
}

/* What follows CTS, too, by packets and by direct writes. PROTOCOL R119 */
static void overlap__granted(void **state)
{
	struct uccl_env env = {.flags = UCCL_ENV_TAGGED, .len = 4000, .id = 77, .tag = 1};
	struct duo *d = duo_open();
	uint8_t rec[UCCL_REC_LEN] = {0};
	struct uccl_chunk_in written = {.rtype = UCCL_REC_DATA, .rec = rec, .len = 1000, .placed = true};
	uint32_t id;

	(void)state;
	d->filter = hold_all;
	assert_int_equal(duo_envelope(d, 1, &env, src, 1000), UCCL_DROP_COUNT);
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 4000, 1, 0, DUO_CTX(1));
	id = TAILQ_FIRST(&d->side[1].peer.rxs)->id;
	uccl_rec_set_bulk(rec, id, 0, 3000);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 1000), UCCL_DROP_COUNT);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 1000), UCCL_DROP_OVERLAP);
	assert_int_equal(uccl_msg_flow_ops.deliver(&d->side[1].peer.flow, &written, d->now), UCCL_DROP_OVERLAP);
	uccl_rec_set_bulk(rec, id, 0, 1500);
	assert_int_equal(uccl_msg_flow_ops.deliver(&d->side[1].peer.flow, &written, d->now), UCCL_DROP_COUNT);
	uccl_rec_set_bulk(rec, id, 0, 1001);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 500), UCCL_DROP_OVERLAP);
	quiet(d);
	uccl_rec_set_bulk(rec, id, 0, 1000);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 500), UCCL_DROP_COUNT);
	uccl_rec_set_bulk(rec, id, 0, 2500);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 500), UCCL_DROP_COUNT);
	expect(d, 1, DUO_CTX(1), 0, 4000);
	duo_free(d);
}

static void deliver__unknown_records(void **state)
{
	struct duo *d = duo_open();
	uint8_t rec[UCCL_REC_LEN] = {0};

	(void)state;
	for (int t = 0; t < 256; t++)
		if (t < UCCL_REC_MSG || t > UCCL_REC_REPLY)
			assert_int_equal(duo_deliver(d, 1, (uint8_t)t, rec, src, 4), UCCL_DROP_RECORD);
	assert_int_equal(d->side[1].m.rx_pool.used, 0);
	duo_free(d);
}

/* A million messages under way: the next is cut to what came with its envelope. */
static void cts__no_handle(void **state)
{
	struct duo *d = duo_open();
	struct uccl_ids *ids = &d->side[1].m.rx_ids;

	(void)state;
	while (uccl_ids_get(ids, d))
		;
	duo_recv(d, 1, 0, dst, 20000, 0, 0, DUO_CTX(2));
	assert_int_equal(duo_send(d, 0, 0, src, 20000, 0, DUO_CTX(1)), 0);
	duo_run(d, SECOND);
	expect(d, 0, DUO_CTX(1), 0, 0);
	assert_int_equal(expect(d, 1, DUO_CTX(2), FI_ETRUNC, DUO_CHUNK)->olen, 20000 - DUO_CHUNK);
	uccl_ids_fini(ids);
	uccl_ids_init(ids);
	duo_free(d);
}

/* PROTOCOL R38 */
static void recv__directed(void **state)
{
	struct duo *d = duo_open();
	struct uccl_op *op = duo_op(d, 1, UCCL_OP_RECV, UCCL_OPF_DIRECTED);

	(void)state;
	/* Directed to ourselves: not for the other side's message. */
	op->peer = &d->side[1].self;
	op->context = DUO_CTX(1);
	assert_int_equal(uccl_msg_recv(&d->side[1].m, op, d->now), 0);
	assert_int_equal(duo_send(d, 0, 0, src, 4, 0, DUO_CTX(2)), 0);
	duo_run(d, SECOND);
	assert_null(duo_next(d, 1));
	duo_recv(d, 1, UCCL_OPF_DIRECTED, dst, 4, 0, 0, DUO_CTX(3));
	expect(d, 1, DUO_CTX(3), 0, 4);
	duo_free(d);
}

/* Tagged and untagged messages have one order between them only as far as receives can see it. PROTOCOL R35 */
static void recv__tagged_and_untagged(void **state)
{
	struct duo *d = duo_open();

	(void)state;
	assert_int_equal(duo_send(d, 0, UCCL_OPF_TAGGED, "t", 1, 9, NULL), 0);
	assert_int_equal(duo_send(d, 0, 0, "u", 1, 9, NULL), 0);
	duo_run(d, SECOND);
	duo_recv(d, 1, 0, dst, 1, 0, 0, DUO_CTX(1));
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst + 1, 1, 9, 0, DUO_CTX(2));
	expect(d, 1, DUO_CTX(1), 0, 1);
	expect(d, 1, DUO_CTX(2), 0, 1);
	assert_memory_equal(dst, "ut", 2);
	duo_free(d);
}

/* Small and large, asked for before and after they come, to others and to ourselves. PROTOCOL R35 */
static void recv__collective(void **state)
{
	static const uint64_t lens[] = {0, 8, 100000};
	struct duo *d = duo_open();

	(void)state;
	duo_fill(src, 100000, 4);
	for (int late = 0; late < 2; late++)
		for (int i = 0; i < 3; i++) {
			duo_recv(d, 1, UCCL_OPF_TAGGED, dst + 200000, 1, 0, UINT64_MAX, DUO_CTX(8));
			duo_recv(d, 1, 0, dst + 200000, 1, 0, 0, DUO_CTX(9));
			if (!late)
				duo_recv(d, 1, UCCL_OPF_COLL | UCCL_OPF_DIRECTED, dst, lens[i], 5, 0, DUO_CTX(1));
			assert_int_equal(duo_send(d, 0, UCCL_OPF_COLL, src, lens[i], 5, NULL), 0);
			duo_run(d, SECOND);
			if (late)
				duo_recv(d, 1, UCCL_OPF_COLL | UCCL_OPF_DIRECTED, dst, lens[i], 5, 0, DUO_CTX(1));
			duo_run(d, SECOND);
			expect(d, 1, DUO_CTX(1), 0, lens[i]);
			assert_null(duo_next(d, 1));
			duo_check(dst, lens[i], 4);
			assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(8)), 0);
			assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(9)), 0);
			expect(d, 1, DUO_CTX(8), FI_ECANCELED, 0);
			expect(d, 1, DUO_CTX(9), FI_ECANCELED, 0);
		}
	duo_free(d);
}

/* Asked for before and after it comes, and no other receive takes it. PROTOCOL R110 */
static void cm__apart(void **state)
{
	static const uint64_t lens[] = {0, 1, 56, UCCL_CM_MAX};
	struct duo *d = duo_open();

	(void)state;
	duo_fill(src, UCCL_CM_MAX, 4);
	d->side[1].m.cm = true;
	d->side[1].m.sole = &d->side[1].peer;
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
		assert_int_equal(expect(d, 1, DUO_CTX(1), 0, lens[i % 4])->tag, 5);
		assert_null(duo_next(d, 1));
		duo_check(dst, lens[i % 4], 4);
		for (uintptr_t k = 8; k <= 10; k++) {
			assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(k)), 0);
			expect(d, 1, DUO_CTX(k), FI_ECANCELED, 0);
		}
	}
	duo_free(d);
}

/* Too long, or to an endpoint that has no connections. PROTOCOL R110 */
static void cm__refused(void **state)
{
	struct uccl_env env = {.flags = UCCL_ENV_CM | UCCL_ENV_EAGER, .tag = 1, .len = UCCL_CM_MAX};
	struct duo *d = duo_open();

	(void)state;
	assert_int_equal(duo_envelope(d, 1, &env, src, UCCL_CM_MAX), UCCL_DROP_STATE);
	d->side[1].m.cm = true;
	env.len++;
	assert_int_equal(duo_envelope(d, 1, &env, src, UCCL_CM_MAX + 1), UCCL_DROP_RECORD);
	env.flags = UCCL_ENV_CM;
	env.id = 1;
	assert_int_equal(duo_envelope(d, 1, &env, src, 0), UCCL_DROP_RECORD);
	assert_int_equal(d->side[1].m.rx_pool.used, 0);
	env.len--;
	assert_int_equal(duo_envelope(d, 1, &env, src, 0), UCCL_DROP_RECORD);
	assert_int_equal(d->side[1].m.rx_pool.used, 0);
	duo_free(d);
}

/* One that is not all here holds nobody's receive, in whatever order its parts come. PROTOCOL R110 */
static void cm__half_a_message(void **state)
{
	struct uccl_env env = {.flags = UCCL_ENV_CM | UCCL_ENV_EAGER, .tag = 1, .len = 300};
	struct uccl_env whole = {.flags = UCCL_ENV_CM | UCCL_ENV_EAGER, .tag = 2, .len = 10, .mseq = 1};

	(void)state;
	duo_fill(src, 300, 2);
	for (int how = 0; how < 3; how++) {
		struct duo *d = duo_open();

		d->side[1].m.cm = true;
		duo_recv(d, 1, UCCL_OPF_CM, dst, UCCL_CM_MAX, 0, UINT64_MAX, DUO_CTX(1));
		if (how < 2)
			assert_int_equal(duo_envelope(d, 1, &env, src, 100), UCCL_DROP_COUNT);
		else
			assert_int_equal(duo_eager(d, 1, 0, 100, 300, src + 100, 200), UCCL_DROP_COUNT);
		/* Nor does a later one overtake it. */
		assert_int_equal(duo_envelope(d, 1, &whole, src, 10), UCCL_DROP_COUNT);
		quiet(d);
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
		expect(d, 1, DUO_CTX(1), 0, 300);
		duo_check(dst, 300, 2);
		expect(d, 1, DUO_CTX(2), 0, 10);
		assert_int_equal(d->side[1].m.rx_pool.used, 0);
		duo_free(d);
	}
}

/* It is said whole at once, however little the peer wants and whatever the eager limit is. PROTOCOL R110 */
static void cm__said_whole(void **state)
{
	(void)state;
	for (int queued = 0; queued < 2; queued++) {
		struct duo *d = duo_open();

		d->side[0].m.eager_max = 0;
		d->side[1].m.cm = true;
		duo_fill(src, UCCL_CM_MAX, 6);
		d->side[0].peer.flow.peer_short = !queued;
		assert_int_equal(duo_send(d, 0, UCCL_OPF_CM, src, UCCL_CM_MAX, 5, DUO_CTX(1)), 0);
		if (queued) {
			d->side[0].peer.flow.peer_short = true;
			uccl_msg_hold(&d->side[0].peer);
		}
		duo_recv(d, 1, UCCL_OPF_CM, dst, UCCL_CM_MAX, 0, UINT64_MAX, DUO_CTX(2));
		duo_run(d, SECOND);
		expect(d, 0, DUO_CTX(1), 0, 0);
		expect(d, 1, DUO_CTX(2), 0, UCCL_CM_MAX);
		duo_check(dst, UCCL_CM_MAX, 6);
		assert_int_equal(d->side[1].stats.dropped[UCCL_DROP_RECORD], 0);
		duo_free(d);
	}
}

/* What a connected endpoint is sent by others than its peer; the same from the peer is taken. PROTOCOL R111 */
static void cm__strangers(void **state)
{
	struct uccl_env env = eager_env(0, 1, 100);
	uint8_t rec[UCCL_REC_LEN];
	struct duo *d = duo_open();

	(void)state;
	d->side[1].m.cm = true;
	uccl_env_encode(rec, &env);
	assert_int_equal(duo_envelope(d, 1, &env, src, 100), UCCL_DROP_STATE);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_REQ, rec, src, 100), UCCL_DROP_STATE);
	assert_int_equal(duo_eager(d, 1, 0, 0, UCCL_CM_MAX + 1, src, 10), UCCL_DROP_STATE);
	assert_int_equal(d->side[1].m.rx_pool.used, 0);
	/* It may be of connection management, until the envelope says something else. */
	assert_int_equal(duo_eager(d, 1, 0, 50, 100, src, 50), UCCL_DROP_COUNT);
	assert_int_equal(duo_envelope(d, 1, &env, src, 50), UCCL_DROP_STATE);
	assert_null(duo_next(d, 1));
	d->side[1].m.sole = &d->side[1].peer;
	assert_int_equal(duo_envelope(d, 1, &env, src, 50), UCCL_DROP_COUNT);
	assert_int_equal(duo_eager(d, 1, 1, 0, 4000, src, 10), UCCL_DROP_COUNT);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_REQ, rec, src, 100), UCCL_DROP_RECORD);
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 100, 1, 0, DUO_CTX(1));
	expect(d, 1, DUO_CTX(1), 0, 100);
	duo_free(d);
}

/* PROTOCOL R36 R37 */
static void recv__wildcards_in_order(void **state)
{
	struct duo *d = duo_open();

	(void)state;
	for (unsigned int i = 0; i < 4; i++)
		duo_send(d, 0, UCCL_OPF_TAGGED, src, 0, i, NULL);
	duo_run(d, SECOND);
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 0, 2, 0, DUO_CTX(1));
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 0, 1, ~1ull, DUO_CTX(2));
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 0, 0, UINT64_MAX, DUO_CTX(3));
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 0, 0, UINT64_MAX, DUO_CTX(4));
	assert_int_equal(expect(d, 1, DUO_CTX(1), 0, 0)->tag, 2);
	assert_int_equal(expect(d, 1, DUO_CTX(2), 0, 0)->tag, 1);
	assert_int_equal(expect(d, 1, DUO_CTX(3), 0, 0)->tag, 0);
	assert_int_equal(expect(d, 1, DUO_CTX(4), 0, 0)->tag, 3);
	duo_free(d);
}

static void multi_post(struct duo *d, uint64_t len, uint64_t min, void *context)
{
	struct uccl_op *op = duo_op(d, 1, UCCL_OP_RECV, UCCL_OPF_MULTI);

	op->iov[0] = (struct iovec){.iov_base = dst, .iov_len = len};
	op->iov_count = 1;
	op->len = len;
	op->min_multi = min;
	op->context = context;
	assert_int_equal(uccl_msg_recv(&d->side[1].m, op, d->now), 0);
}

/* Messages lie one behind the other; the last that fits says that the buffer is free. PROTOCOL R40 */
static void multi__fills_and_releases(void **state)
{
	(void)state;
	for (int late = 0; late < 2; late++) {
		struct duo *d = duo_open();

		if (!late)
			multi_post(d, 100, 30, DUO_CTX(9));
		for (unsigned int i = 0; i < 4; i++) {
			duo_fill(src + i * 100, 25, i);
			duo_send(d, 0, 0, src + i * 100, 25, 0, NULL);
		}
		duo_run(d, SECOND);
		if (late)
			multi_post(d, 100, 30, DUO_CTX(9));
		/* After three, 25 bytes are left: less than 30. */
		for (unsigned int i = 0; i < 3; i++) {
			const struct duo_comp *c = expect(d, 1, DUO_CTX(9), 0, 25);

			assert_true(c->flags & UCCL_OPF_CHILD);
			assert_int_equal(!!(c->flags & UCCL_OPF_MULTI), i == 2);
			assert_ptr_equal(c->buf, dst + i * 25);
			duo_check(c->buf, 25, i);
		}
		assert_null(duo_next(d, 1));
		assert_int_equal(d->side[1].m.op_pool.used, 0);
		duo_recv(d, 1, 0, dst, 100, 0, 0, DUO_CTX(8));
		expect(d, 1, DUO_CTX(8), 0, 25);
		duo_free(d);
	}
}

/* The buffer is free with the last message to be complete, whichever came first. PROTOCOL R40 */
static void multi__released_by_the_last_complete(void **state)
{
	struct duo *d = duo_open();
	const struct duo_comp *c;

	(void)state;
	multi_post(d, 30100, 1000, DUO_CTX(9));
	duo_fill(src, 30000, 1);
	duo_send(d, 0, 0, src, 30000, 0, NULL);
	duo_send(d, 0, 0, src, 100, 0, NULL);
	duo_round(d);
	/* The large one closed the buffer and is not here yet. */
	duo_run(d, SECOND);
	c = expect(d, 1, DUO_CTX(9), 0, 30000);
	assert_true(c->flags & UCCL_OPF_MULTI);
	duo_check(dst, 30000, 1);
	assert_null(duo_next(d, 1));
	multi_post(d, 200, 101, DUO_CTX(10));
	c = expect(d, 1, DUO_CTX(10), 0, 100);
	assert_true(c->flags & UCCL_OPF_MULTI);
	/* A message that overtakes: large first, small last, small complete first. */
	multi_post(d, 30100, 1, DUO_CTX(11));
	duo_send(d, 0, 0, src, 30000, 0, NULL);
	duo_send(d, 0, 0, src, 100, 0, NULL);
	duo_run(d, SECOND);
	c = expect(d, 1, DUO_CTX(11), 0, 100);
	assert_false(c->flags & UCCL_OPF_MULTI);
	assert_ptr_equal(c->buf, dst + 30000);
	c = expect(d, 1, DUO_CTX(11), 0, 30000);
	assert_true(c->flags & UCCL_OPF_MULTI);
	assert_ptr_equal(c->buf, dst);
	assert_int_equal(d->side[1].m.op_pool.used, 0);
	duo_free(d);
}

static void multi__truncates_the_last(void **state)
{
	struct duo *d = duo_open();
	const struct duo_comp *c;

	(void)state;
	memset(dst, 0xee, 200);
	multi_post(d, 100, 1, DUO_CTX(9));
	duo_send(d, 0, 0, src, 60, 0, NULL);
	duo_send(d, 0, 0, src, 60, 0, NULL);
	duo_run(d, SECOND);
	expect(d, 1, DUO_CTX(9), 0, 60);
	c = expect(d, 1, DUO_CTX(9), FI_ETRUNC, 40);
	assert_int_equal(c->olen, 20);
	assert_true(c->flags & UCCL_OPF_MULTI);
	assert_int_equal(dst[100], 0xee);
	duo_free(d);
}

static void multi__gone(void **state)
{
	struct duo *d = duo_open();
	const struct duo_comp *c;

	(void)state;
	multi_post(d, 100000, 1, DUO_CTX(2));
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst + 200000, 8, 1, 0, DUO_CTX(3));
	duo_fill(src, 30000, 2);
	duo_send(d, 0, 0, src, 30000, 0, NULL);
	duo_send(d, 0, UCCL_OPF_TAGGED, src, 8, 7, NULL);
	duo_round(d);
	uccl_mep_gone(&d->side[1].m, FI_ECANCELED);
	expect(d, 1, DUO_CTX(3), FI_ECANCELED, 0);
	assert_null(duo_next(d, 1));
	duo_run(d, SECOND);
	c = expect(d, 1, DUO_CTX(2), 0, 30000);
	assert_true(c->flags & UCCL_OPF_MULTI);
	duo_check(dst, 30000, 2);
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 8, 8, 0, DUO_CTX(4));
	expect(d, 1, DUO_CTX(4), FI_ECANCELED, 0);
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 8, 7, 0, DUO_CTX(5));
	expect(d, 1, DUO_CTX(5), 0, 8);
	assert_int_equal(d->side[1].m.op_pool.used, 0);
	duo_free(d);
}

static void multi__cancel(void **state)
{
	struct duo *d = duo_open();
	const struct duo_comp *c;

	(void)state;
	/* Nothing under way: the op itself comes back. */
	multi_post(d, 100, 1, DUO_CTX(1));
	assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(1)), 0);
	c = expect(d, 1, DUO_CTX(1), FI_ECANCELED, 0);
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
	duo_free(d);
}

/* No op for a message in a multi-receive buffer: nothing is lost, nothing overtakes, it goes on when one is free.
 * PROTOCOL R40 */
static void multi__out_of_ops(void **state)
{
	struct duo *d = duo_new(false, 4);
	struct uccl_op *held[3];
	unsigned int got = 0;

	(void)state;
	duo_connect(d);
	multi_post(d, 10000, 1, DUO_CTX(9));
	for (int i = 0; i < 3; i++)
		held[i] = duo_op(d, 1, UCCL_OP_RECV, 0);
	assert_null(duo_op(d, 1, UCCL_OP_RECV, 0));
	for (uint8_t i = 0; i < 4; i++) {
		src[i] = i;
		assert_int_equal(duo_send(d, 0, UCCL_OPF_INJECT, src + i, 1, 0, NULL), 0);
	}
	duo_run(d, 20 * UCCL_NS_PER_MS);
	assert_null(duo_next(d, 1));
	assert_true(d->side[1].m.starved);
	uccl_msg_retry(&d->side[1].m, d->now);
	assert_true(d->side[1].m.starved);
	uccl_mep_op_put(&d->side[1].m, held[0]);
	uccl_msg_retry(&d->side[1].m, d->now);
	assert_false(d->side[1].m.starved);
	while (got < 4) {
		const struct duo_comp *c = expect(d, 1, DUO_CTX(9), 0, 1);

		assert_ptr_equal(c->buf, dst + got);
		assert_int_equal(dst[got], got);
		got++;
	}
	uccl_mep_op_put(&d->side[1].m, held[1]);
	uccl_mep_op_put(&d->side[1].m, held[2]);
	duo_free(d);
}

static bool no_room(void *arg)
{
	return *(bool *)arg;
}

/* The same when nobody has read the completions of earlier ones. PROTOCOL R40 */
static void multi__no_room(void **state)
{
	struct duo *d = duo_new(false, 8);
	bool room = false;

	(void)state;
	duo_connect(d);
	d->side[1].m.room = no_room;
	d->side[1].m.room_arg = &room;
	multi_post(d, 10000, 1, DUO_CTX(9));
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst + 10000, 1, 7, 0, DUO_CTX(7));
	for (uint8_t i = 0; i < 3; i++) {
		src[i] = i;
		assert_int_equal(duo_send(d, 0, UCCL_OPF_INJECT, src + i, 1, 0, NULL), 0);
	}
	assert_int_equal(duo_send(d, 0, UCCL_OPF_INJECT | UCCL_OPF_TAGGED, "x", 1, 7, NULL), 0);
	duo_run(d, 20 * UCCL_NS_PER_MS);
	/* What was posted has its room. */
	expect(d, 1, DUO_CTX(7), 0, 1);
	assert_null(duo_next(d, 1));
	uccl_msg_retry(&d->side[1].m, d->now);
	assert_null(duo_next(d, 1));
	room = true;
	uccl_msg_retry(&d->side[1].m, d->now);
	assert_false(d->side[1].m.starved);
	for (uint8_t i = 0; i < 3; i++) {
		assert_ptr_equal(expect(d, 1, DUO_CTX(9), 0, 1)->buf, dst + i);
		assert_int_equal(dst[i], i);
	}
	duo_free(d);
}

/* Receives for single messages need no further op: what waits for one does not stop them, and is not overtaken.
 * PROTOCOL R40 */
static void multi__out_of_ops_others_go_on(void **state)
{
	struct duo *d = duo_new(false, 3);
	struct uccl_env env;
	struct uccl_op *held;

	(void)state;
	duo_connect(d);
	multi_post(d, 100, 1, DUO_CTX(9));
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst + 200, 1, 7, 0, DUO_CTX(7));
	held = duo_op(d, 1, UCCL_OP_RECV, 0);
	/* "a" is nobody's; "b" waits for an op; "c" has its receive, which frees an op; "d" must not be faster than
	 * "b". */
	for (int i = 3; i >= 0; i--) {
		env = eager_env((uint32_t)i, i == 2 ? 7 : 8, 1);
		if (i % 2)
			env.flags = UCCL_ENV_EAGER;
		assert_int_equal(duo_envelope(d, 1, &env, &"abcd"[i], 1), UCCL_DROP_COUNT);
	}
	expect(d, 1, DUO_CTX(7), 0, 1);
	assert_int_equal(dst[200], 'c');
	assert_null(duo_next(d, 1));
	/* The next that comes finds the op, and "b" gets it. */
	env = eager_env(4, 0, 1);
	env.flags = UCCL_ENV_EAGER;
	assert_int_equal(duo_envelope(d, 1, &env, "e", 1), UCCL_DROP_COUNT);
	for (int i = 0; i < 3; i++)
		expect(d, 1, DUO_CTX(9), 0, 1);
	assert_memory_equal(dst, "bde", 3);
	uccl_mep_op_put(&d->side[1].m, held);
	duo_free(d);
}

/* The same for messages that were unexpected, that came early, and that are our own. PROTOCOL R40 */
static void multi__out_of_ops_unexpected(void **state)
{
	struct duo *d = duo_new(false, 8);
	struct uccl_env first = eager_env(0, 0, 1), second = eager_env(1, 0, 1), third = eager_env(2, 0, 1);
	struct uccl_op *held[8], *self, *plain;
	int n = 0;

	(void)state;
	duo_connect(d);
	first.flags = second.flags = third.flags = UCCL_ENV_EAGER;
	self = duo_op(d, 1, UCCL_OP_SEND, 0);
	plain = duo_op(d, 1, UCCL_OP_RECV, 0);
	assert_int_equal(duo_envelope(d, 1, &first, "a", 1), UCCL_DROP_COUNT);
	assert_int_equal(duo_envelope(d, 1, &third, "c", 1), UCCL_DROP_COUNT);
	held[n] = duo_op(d, 1, UCCL_OP_RECV, UCCL_OPF_MULTI);
	while ((held[n + 1] = duo_op(d, 1, UCCL_OP_RECV, 0)))
		n++;
	held[0]->iov[0] = (struct iovec){.iov_base = dst, .iov_len = 100};
	held[0]->iov_count = 1;
	held[0]->len = 100;
	held[0]->context = DUO_CTX(9);
	/* The first is there already. */
	assert_int_equal(uccl_msg_recv(&d->side[1].m, held[0], d->now), 0);
	assert_true(d->side[1].m.starved);
	/* The second brings the third's turn. */
	assert_int_equal(duo_envelope(d, 1, &second, "b", 1), UCCL_DROP_COUNT);
	/* Our own comes behind them; a receive posted later takes none of those before it. */
	self->peer = &d->side[1].self;
	self->iov[0] = (struct iovec){.iov_base = (void *)(uintptr_t) "d", .iov_len = 1};
	self->iov_count = 1;
	self->len = 1;
	self->context = DUO_CTX(7);
	assert_int_equal(uccl_msg_send(&d->side[1].m, self, d->now), 0);
	plain->iov[0] = (struct iovec){.iov_base = dst + 100, .iov_len = 1};
	plain->iov_count = 1;
	plain->len = 1;
	plain->context = DUO_CTX(8);
	assert_int_equal(uccl_msg_peek(&d->side[1].m, plain, false, false, d->now), -FI_ENOMSG);
	assert_int_equal(uccl_msg_recv(&d->side[1].m, plain, d->now), 0);
	assert_null(duo_next(d, 1));
	uccl_mep_op_put(&d->side[1].m, held[n]);
	uccl_msg_retry(&d->side[1].m, d->now);
	assert_false(d->side[1].m.starved);
	for (int i = 0; i < 3; i++)
		expect(d, 1, DUO_CTX(9), 0, 1);
	expect(d, 1, DUO_CTX(7), 0, 0);
	expect(d, 1, DUO_CTX(9), 0, 1);
	assert_memory_equal(dst, "abcd", 4);
	quiet(d);
	for (int i = 1; i < n; i++)
		uccl_mep_op_put(&d->side[1].m, held[i]);
	duo_free(d);
}

static void cancel__posted(void **state)
{
	struct duo *d = duo_open();
	const struct duo_comp *c;

	(void)state;
	duo_recv(d, 1, 0, dst, 10, 0, 0, DUO_CTX(1));
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 10, 5, 0, DUO_CTX(2));
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 10, 5, 0, DUO_CTX(2));
	assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(3)), -FI_ENOENT);
	assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(1)), 0);
	c = expect(d, 1, DUO_CTX(1), FI_ECANCELED, 0);
	assert_null(c->from);
	assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(1)), -FI_ENOENT);
	/* One of two with one context. */
	assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(2)), 0);
	expect(d, 1, DUO_CTX(2), FI_ECANCELED, 0);
	quiet(d);
	duo_send(d, 0, UCCL_OPF_TAGGED, src, 3, 5, NULL);
	duo_run(d, SECOND);
	expect(d, 1, DUO_CTX(2), 0, 3);
	assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(2)), -FI_ENOENT);
	duo_free(d);
}

/* Too late: the message has begun to come. */
static void cancel__matched(void **state)
{
	struct duo *d = duo_open();

	(void)state;
	duo_recv(d, 1, 0, dst, 20000, 0, 0, DUO_CTX(1));
	duo_send(d, 0, 0, src, 20000, 0, NULL);
	duo_round(d);
	assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(1)), -FI_ENOENT);
	duo_run(d, SECOND);
	expect(d, 1, DUO_CTX(1), 0, 20000);
	duo_free(d);
}

static struct uccl_op *peek_op(struct duo *d, uint32_t flags, uint64_t tag, uint64_t ignore, void *context)
{
	struct uccl_op *op = duo_op(d, 1, UCCL_OP_RECV, flags);

	op->tag = tag;
	op->ignore = ignore;
	op->context = context;
	return op;
}

static void peek__tells_and_leaves(void **state)
{
	struct duo *d = duo_open();
	struct uccl_op *op = peek_op(d, UCCL_OPF_TAGGED, 0, UINT64_MAX, NULL), *send;

	(void)state;
	assert_int_equal(uccl_msg_peek(&d->side[1].m, op, false, false, d->now), -FI_ENOMSG);
	for (int i = 0; i < 2; i++) {
		send = duo_op(d, 0, UCCL_OP_SEND, UCCL_OPF_TAGGED | (i ? 0 : UCCL_OPF_DATA));
		send->tag = 5u + (unsigned int)i;
		send->data = 66;
		send->iov[0] = (struct iovec){.iov_base = src, .iov_len = 50000};
		send->iov_count = 1;
		send->len = 50000;
		assert_int_equal(uccl_msg_send(&d->side[0].m, send, d->now), 0);
	}
	duo_run(d, SECOND);
	for (int i = 0; i < 2; i++) {
		op->tag = 5;
		op->ignore = 0;
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
	uccl_mep_op_put(&d->side[1].m, op);
	quiet(d);
	duo_free(d);
}

/* PROTOCOL R39 */
static void peek__claim(void **state)
{
	struct duo *d = duo_open();
	struct uccl_op *op = peek_op(d, UCCL_OPF_TAGGED, 5, 0, DUO_CTX(1));

	(void)state;
	duo_fill(src, 20000, 1);
	duo_send(d, 0, UCCL_OPF_TAGGED, src, 20000, 5, NULL);
	duo_send(d, 0, UCCL_OPF_TAGGED, src, 10, 5, NULL);
	duo_run(d, SECOND);
	assert_int_equal(uccl_msg_recv_claimed(&d->side[1].m, op, false, d->now), -FI_ENOMSG);
	assert_int_equal(uccl_msg_peek(&d->side[1].m, op, true, false, d->now), 0);
	/* Claimed: nobody else gets it. */
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst + 65536, 100, 0, UINT64_MAX, DUO_CTX(2));
	expect(d, 1, DUO_CTX(2), 0, 10);
	op->iov[0] = (struct iovec){.iov_base = dst, .iov_len = 20000};
	op->iov_count = 1;
	op->len = 20000;
	assert_int_equal(uccl_msg_recv_claimed(&d->side[1].m, op, false, d->now), 0);
	assert_null(duo_next(d, 1));
	duo_run(d, SECOND);
	assert_ptr_equal(expect(d, 1, DUO_CTX(1), 0, 20000)->buf, dst);
	duo_check(dst, 20000, 1);
	assert_int_equal(duo_waiting(d, 0), 2);
	duo_free(d);
}

/* PROTOCOL R39 */
static void peek__claimed_then_dropped(void **state)
{
	struct duo *d = duo_open();

	(void)state;
	for (uint64_t n = 0; n <= 20000; n += 10000) {
		struct uccl_op *op = peek_op(d, UCCL_OPF_TAGGED, 5, 0, DUO_CTX(1));

		duo_send(d, 0, UCCL_OPF_TAGGED, src, n, 5, DUO_CTX(3));
		duo_run(d, SECOND);
		assert_int_equal(uccl_msg_peek(&d->side[1].m, op, true, false, d->now), 0);
		assert_int_equal(uccl_msg_recv_claimed(&d->side[1].m, op, true, d->now), 0);
		expect(d, 1, DUO_CTX(1), 0, 0);
		duo_run(d, SECOND);
		expect(d, 0, DUO_CTX(3), 0, 0);
		assert_int_equal(d->side[1].m.rx_pool.used, 0);
		assert_int_equal(d->side[1].m.unexpected_bytes, 0);
	}
	duo_free(d);
}

/* What is thrown away is not asked for, and still completes at its sender. */
static void peek__discard(void **state)
{
	struct duo *d = duo_open();
	struct uccl_op *op = peek_op(d, 0, 0, 0, NULL);
	struct uccl_env env = {.flags = UCCL_ENV_EAGER, .len = 100, .mseq = 3};

	(void)state;
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
	assert_int_equal(d->side[1].m.unexpected_bytes, 0);
	assert_int_equal(duo_eager(d, 1, 3, 40, 100, src, 60), UCCL_DROP_COUNT);
	assert_int_equal(d->side[1].m.rx_pool.used, 0);
	uccl_mep_op_put(&d->side[1].m, op);
	quiet(d);
	duo_free(d);
}

static void peek__own_messages(void **state)
{
	struct duo *d = duo_open();
	struct uccl_op *op = peek_op(d, 0, 0, 0, DUO_CTX(5)), *send;

	(void)state;
	for (int i = 0; i < 2; i++) {
		send = duo_op(d, 1, UCCL_OP_SEND, 0);
		send->peer = &d->side[1].self;
		send->context = DUO_CTX(i);
		assert_int_equal(uccl_msg_send(&d->side[1].m, send, d->now), 0);
	}
	assert_int_equal(uccl_msg_peek(&d->side[1].m, op, false, true, d->now), 0);
	expect(d, 1, DUO_CTX(0), 0, 0);
	assert_int_equal(uccl_msg_peek(&d->side[1].m, op, true, false, d->now), 0);
	assert_ptr_equal(op->from, &d->side[1].self);
	assert_int_equal(uccl_msg_recv_claimed(&d->side[1].m, op, false, d->now), 0);
	expect(d, 1, DUO_CTX(1), 0, 0);
	expect(d, 1, DUO_CTX(5), 0, 0);
	duo_free(d);
}

/* PROTOCOL R42 */
static void short__envelopes_only(void **state)
{
	struct duo *d = duo_open();

	(void)state;
	d->side[1].m.unexpected_max = 4000;
	duo_fill(src, 8000, 7);
	duo_send(d, 0, 0, src, 8000, 0, DUO_CTX(0));
	duo_run(d, SECOND);
	assert_true(d->side[1].peer.flow.owed.rcv_short);
	assert_true(d->side[0].peer.flow.peer_short);
	assert_int_equal(d->side[1].m.unexpected_bytes, 8000);
	for (int i = 1; i < 6; i++)
		duo_send(d, 0, i == 5 ? UCCL_OPF_INJECT : 0, src, (uint64_t)i * 1500, 0, DUO_CTX(i));
	duo_send(d, 0, 0, src, 0, 0, DUO_CTX(6));
	duo_run(d, SECOND);
	/* Not a byte more, and what has none is complete. */
	assert_int_equal(d->side[1].m.unexpected_bytes, 8000);
	assert_int_equal(d->side[1].stats.unexpected_bytes_max, 8000);
	assert_int_equal(duo_waiting(d, 0), 3);
	for (int i = 0; i < 7; i++) {
		uint64_t n = i == 0 ? 8000 : i == 6 ? 0 : (uint64_t)i * 1500;

		duo_recv(d, 1, 0, dst, 8000, 0, 0, DUO_CTX(i));
		duo_run(d, SECOND);
		expect(d, 1, DUO_CTX(i), 0, n);
		duo_check(dst, n, 7);
	}
	assert_int_equal(duo_waiting(d, 0), 7);
	/* The next message tells that there is room again. */
	duo_send(d, 0, 0, src, 100, 0, NULL);
	duo_run(d, SECOND);
	assert_false(d->side[0].peer.flow.peer_short);
	duo_free(d);
}

/*
 * What was queued before the receiver ran short follows as envelopes too: no more comes unasked than is in flight, and
 * every message arrives in the end, whole and in order. PROTOCOL R42
 */
static void short__queued_too(void **state)
{
	static const uint64_t sizes[] = { 1000, 0, 5000, 300, 1024, 8192 };
	const int n = 600;
	struct duo *d = duo_open();
	const struct duo_comp *c;

	(void)state;
	d->side[1].m.unexpected_max = 4000;
	duo_fill(src, 8192, 7);
	for (int i = 0; i < n; i++)
		assert_int_equal(duo_send(d, 0, i % 5 == 4 ? UCCL_OPF_INJECT : 0, src, sizes[i % 6], 0, DUO_CTX(i)), 0);
	duo_run(d, SECOND);
	/* Envelopes go first, so the window holds the beginnings of 256 messages; all would have been 1.5 MB. */
	assert_in_range(d->side[1].stats.unexpected_bytes_max, 4000, 256 * 15516 / 6);
	for (int i = 0; i < n; i++) {
		assert_int_equal(duo_recv(d, 1, 0, dst, 8192, 0, 0, DUO_CTX(i)), 0);
		duo_run(d, SECOND);
		expect(d, 1, DUO_CTX(i), 0, sizes[i % 6]);
		duo_check(dst, sizes[i % 6], 7);
	}
	for (int i = 0; i < n; i++) {
		c = duo_next(d, 0);
		assert_non_null(c);
		assert_int_equal(c->err, 0);
	}
	assert_null(duo_next(d, 0));
	assert_int_equal(d->side[0].m.copied_bytes, 0);
	duo_free(d);
}

/* A peer that goes on all the same fills no more than an honest one may have had in flight. PROTOCOL R42 */
static void short__ignored(void **state)
{
	struct duo *d = duo_open();
	struct uccl_env env = { .len = UCCL_EAGER_MAX, .flags = UCCL_ENV_EAGER };
	uint64_t most = (2 * 4000 + UCCL_HELD_MORE) / 2;
	enum uccl_drop reason;

	(void)state;
	d->side[1].m.unexpected_max = 4000;
	do {
		reason = duo_envelope(d, 1, &env, src, 1);
		env.mseq++;
	} while (reason == UCCL_DROP_COUNT && env.mseq < 1000);
	assert_int_equal(reason, UCCL_DROP_MEMORY);
	assert_in_range(d->side[1].peer.unexpected_bytes, most - 2 * UCCL_EAGER_MAX, most);
	env.mseq += 1;
	assert_int_equal(duo_envelope(d, 1, &env, src, 1), UCCL_DROP_MEMORY);
	assert_int_equal(duo_eager(d, 1, 2000, 0, UCCL_EAGER_MAX, src, 1), UCCL_DROP_MEMORY);
	uccl_peer_fail(&d->side[1].peer, FI_ECONNABORTED, d->now);
	duo_free(d);
}

/* Direct writes: same bytes, fewer copies. PROTOCOL R24 */
static void direct__whole(void **state)
{
	static const uint64_t sizes[] = {20000, 65536, 65536 + 4095, 200001};

	(void)state;
	for (int late = 0; late < 2; late++)
		for (unsigned int i = 0; i < uccl_array_len(sizes); i++) {
			struct duo *d = duo_open_writes();
			uint64_t n = sizes[i];

			duo_fill(src, n, i);
			memset(dst, 0xee, n + 1);
			if (!late)
				duo_recv(d, 1, 0, dst, n, 0, 0, DUO_CTX(2));
			duo_send(d, 0, 0, src, n, 0, DUO_CTX(1));
			duo_run(d, SECOND);
			if (late)
				duo_recv(d, 1, 0, dst, n, 0, 0, DUO_CTX(2));
			duo_run(d, SECOND);
			expect(d, 1, DUO_CTX(2), 0, n);
			expect(d, 0, DUO_CTX(1), 0, 0);
			duo_check(dst, n, i);
			assert_int_equal(dst[n], 0xee);
			assert_true(d->side[0].stats.writes_tx >= (n - DUO_CHUNK) / DUO_WRITE);
			assert_int_equal(d->side[1].regs, 1);
			assert_int_equal(d->side[1].deregs, 1);
			assert_int_equal(d->side[1].stats.fences, 0);
			duo_free(d);
		}
}

/* Truncated to the receive; split receives, small ones and failed registrations go by packets. PROTOCOL R24 */
static void direct__only_where_it_fits(void **state)
{
	struct duo *d = duo_open_writes();
	struct uccl_op *op;

	(void)state;
	duo_fill(src, 60000, 3);
	memset(dst, 0xee, sizeof(dst));
	duo_recv(d, 1, 0, dst, 40000, 0, 0, DUO_CTX(1));
	duo_send(d, 0, 0, src, 60000, 0, NULL);
	duo_run(d, SECOND);
	assert_int_equal(expect(d, 1, DUO_CTX(1), FI_ETRUNC, 40000)->olen, 20000);
	duo_check(dst, 40000, 3);
	assert_int_equal(dst[40000], 0xee);
	assert_int_equal(d->side[1].regs, 1);
	op = duo_op(d, 1, UCCL_OP_RECV, 0);
	op->iov[0] = (struct iovec){.iov_base = dst, .iov_len = 30000};
	op->iov[1] = (struct iovec){.iov_base = dst + 30000, .iov_len = 30000};
	op->iov_count = 2;
	op->len = 60000;
	assert_int_equal(uccl_msg_recv(&d->side[1].m, op, d->now), 0);
	duo_send(d, 0, 0, src, 60000, 0, NULL);
	duo_run(d, SECOND);
	assert_int_equal(duo_next(d, 1)->len, 60000);
	duo_check(dst, 60000, 3);
	duo_recv(d, 1, 0, dst, 12000, 0, 0, NULL);
	duo_send(d, 0, 0, src, 12000, 0, NULL);
	duo_run(d, SECOND);
	assert_int_equal(duo_next(d, 1)->len, 12000);
	assert_int_equal(d->side[1].regs, 1);
	d->side[1].reg_fails = true;
	memset(dst, 0, 60000);
	duo_recv(d, 1, 0, dst, 60000, 0, 0, NULL);
	duo_send(d, 0, 0, src, 60000, 0, NULL);
	duo_run(d, SECOND);
	assert_int_equal(duo_next(d, 1)->len, 60000);
	duo_check(dst, 60000, 3);
	assert_int_equal(d->side[1].regs, 1);
	duo_free(d);
}

static enum duo_verdict lose_write(struct duo *d, const struct duo_pkt *p)
{
	return p->kind == UCCL_TX_WRITE && ++d->n == 5 ? DUO_DROP : DUO_PASS;
}

static enum duo_verdict lose_last_write(struct duo *d, const struct duo_pkt *p)
{
	return p->kind == UCCL_TX_WRITE && ++d->n == 10 ? DUO_DROP : DUO_PASS;
}

/* A write was lost and came again as packets: the buffer is held until the fence. PROTOCOL R25 R26 */
static void direct__held_until_fenced(void **state)
{
	enum duo_verdict (*lose[])(struct duo *, const struct duo_pkt *) = {lose_write, lose_last_write};

	(void)state;
	for (int k = 0; k < 2; k++) {
		struct duo *d = duo_open_writes();

		d->auto_fence = false;
		d->filter = lose[k];
		duo_fill(src, DUO_CHUNK + 10 * DUO_WRITE, 4);
		duo_recv(d, 1, 0, dst, DUO_CHUNK + 10 * DUO_WRITE, 0, 0, DUO_CTX(1));
		duo_send(d, 0, 0, src, DUO_CHUNK + 10 * DUO_WRITE, 0, DUO_CTX(2));
		duo_run(d, SECOND);
		assert_int_equal(d->n, 10);
		expect(d, 0, DUO_CTX(2), 0, 0);
		/* All bytes are here. */
		duo_check(dst, DUO_CHUNK + 10 * DUO_WRITE, 4);
		assert_null(duo_next(d, 1));
		assert_int_equal(d->side[1].fences, 1);
		assert_int_equal(d->side[1].deregs, 0);
		uccl_flow_fenced(&d->side[1].peer.flow, d->side[1].fence_path[0], d->now);
		expect(d, 1, DUO_CTX(1), 0, DUO_CHUNK + 10 * DUO_WRITE);
		assert_int_equal(d->side[1].deregs, 1);
		duo_free(d);
	}
}

static enum duo_verdict delay_write(struct duo *d, const struct duo_pkt *p)
{
	return p->kind == UCCL_TX_WRITE && ++d->n == 5 ? DUO_HOLD : DUO_PASS;
}

/* The late original settles its own doubt. PROTOCOL R25 */
static void direct__held_until_the_late_write(void **state)
{
	struct duo *d = duo_open_writes();

	(void)state;
	d->auto_fence = false;
	d->filter = delay_write;
	duo_fill(src, 50000, 5);
	duo_recv(d, 1, 0, dst, 50000, 0, 0, DUO_CTX(1));
	duo_send(d, 0, 0, src, 50000, 0, DUO_CTX(2));
	duo_run(d, SECOND);
	expect(d, 0, DUO_CTX(2), 0, 0);
	assert_null(duo_next(d, 1));
	duo_release(d, false);
	duo_run(d, SECOND);
	expect(d, 1, DUO_CTX(1), 0, 50000);
	duo_check(dst, 50000, 5);
	assert_int_equal(d->side[1].stats.dup_writes, 0);
	duo_free(d);
}

static enum duo_verdict double_write(struct duo *d, const struct duo_pkt *p)
{
	return p->kind == UCCL_TX_WRITE && ++d->n == 3 ? DUO_DOUBLE : DUO_PASS;
}

/* The network doubles writes: no more are granted, packets do. PROTOCOL R27 */
static void direct__none_after_a_double(void **state)
{
	struct duo *d = duo_open_writes();

	(void)state;
	d->filter = double_write;
	duo_fill(src, 50000, 6);
	for (int i = 0; i < 2; i++) {
		memset(dst, 0, 50000);
		duo_recv(d, 1, 0, dst, 50000, 0, 0, DUO_CTX(i));
		duo_send(d, 0, 0, src, 50000, 0, DUO_CTX(i));
		duo_run(d, SECOND);
		expect(d, 1, DUO_CTX(i), 0, 50000);
		duo_check(dst, 50000, 6);
		assert_int_equal(d->side[1].regs, 1);
		assert_int_equal(d->side[1].stats.dup_writes, 1);
	}
	duo_free(d);
}

/* A settled doubt of a message that is gone. */
static void settled__unknown(void **state)
{
	struct duo *d = duo_open();

	(void)state;
	uccl_msg_flow_ops.settled(&d->side[1].peer.flow, 4711, 1, d->now);
	quiet(d);
	duo_free(d);
}

#define HINT 16384u

/* The hints follow the stream; place() agrees with them. PROTOCOL R44 */
static void hints__follow_the_stream(void **state)
{
	struct duo *d = duo_open();
	struct uccl_rx_hint h[16];
	struct uccl_msg_rx *rx;
	uint8_t rec[UCCL_REC_LEN] = {0};
	struct uccl_hdr hdr = {.type = UCCL_PKT_CHUNK, .rtype = UCCL_REC_DATA, .rec = rec, .payload_len = HINT};
	struct uccl_env env = {.len = 6 * HINT + 10, .id = 9};

	(void)state;
	d->filter = hold_all;
	assert_int_equal(uccl_msg_hints(&d->side[1].m, h, 16), 0);
	d->side[1].peer.flow.cfg.chunk_bytes = HINT;
	duo_recv(d, 1, 0, dst, env.len, 0, 0, DUO_CTX(1));
	assert_int_equal(duo_envelope(d, 1, &env, src, HINT), UCCL_DROP_COUNT);
	/* Granted: what its envelope did not carry comes next. */
	assert_int_equal(uccl_msg_hints(&d->side[1].m, h, 16), 6);
	assert_ptr_equal(h[0].dst, dst + HINT);
	rx = TAILQ_FIRST(&d->side[1].peer.rxs);
	uccl_rec_set_bulk(rec, rx->id, 0, HINT);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, HINT), UCCL_DROP_COUNT);
	assert_int_equal(uccl_msg_hints(&d->side[1].m, h, 16), 5);
	for (int i = 0; i < 5; i++) {
		assert_ptr_equal(h[i].dst, dst + (2 + i) * HINT);
		assert_int_equal(h[i].len, i == 4 ? 10 : HINT);
		uccl_rec_set_bulk(rec, rx->id, 0, (uint64_t)(2 + i) * HINT);
		hdr.payload_len = (uint16_t)h[i].len;
		assert_ptr_equal(uccl_msg_place(&d->side[1].peer, &hdr), h[i].dst);
	}
	assert_int_equal(uccl_msg_hints(&d->side[1].m, h, 2), 2);
	/* Small chunks are not worth a guess. */
	d->side[1].peer.flow.cfg.chunk_bytes = DUO_CHUNK;
	assert_int_equal(uccl_msg_hints(&d->side[1].m, h, 16), 0);
	d->side[1].peer.flow.cfg.chunk_bytes = HINT;
	/* A gap: what lies before the furthest byte is not hinted. */
	uccl_rec_set_bulk(rec, rx->id, 0, 3 * HINT);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, HINT), UCCL_DROP_COUNT);
	assert_int_equal(uccl_msg_hints(&d->side[1].m, h, 16), 3);
	assert_ptr_equal(h[0].dst, dst + 4 * HINT);
	/* Whatever is not the rest of this message has no place. */
	hdr.payload_len = HINT;
	assert_ptr_equal(uccl_msg_place(&d->side[1].peer, &hdr), dst + 3 * HINT);
	assert_null(uccl_msg_place(&d->side[1].self, &hdr));
	hdr.rtype = UCCL_REC_EAGER;
	assert_null(uccl_msg_place(&d->side[1].peer, &hdr));
	hdr.rtype = UCCL_REC_DATA;
	hdr.type = UCCL_PKT_FRAG;
	assert_null(uccl_msg_place(&d->side[1].peer, &hdr));
	hdr.type = UCCL_PKT_CHUNK;
	uccl_rec_set_bulk(rec, rx->id, 0, env.len - HINT + 1);
	assert_null(uccl_msg_place(&d->side[1].peer, &hdr));
	uccl_rec_set_bulk(rec, rx->id, 0, env.len + 1);
	assert_null(uccl_msg_place(&d->side[1].peer, &hdr));
	uccl_rec_set_bulk(rec, rx->id, 1, HINT);
	assert_null(uccl_msg_place(&d->side[1].peer, &hdr));
	/* Complete: no hints. */
	uccl_rec_set_bulk(rec, rx->id, 0, 2 * HINT);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, HINT), UCCL_DROP_COUNT);
	uccl_rec_set_bulk(rec, rx->id, 0, 4 * HINT);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 2 * HINT + 10), UCCL_DROP_COUNT);
	expect(d, 1, DUO_CTX(1), 0, env.len);
	assert_int_equal(uccl_msg_hints(&d->side[1].m, h, 16), 0);
	duo_free(d);
}

static enum duo_verdict lose_data(struct duo *d, const struct duo_pkt *p)
{
	return p->type == UCCL_PKT_CHUNK && p->rtype == UCCL_REC_DATA && ++d->n == 5 ? DUO_DROP : DUO_PASS;
}

/* No single place: no hints. */
static void hints__split_receive(void **state)
{
	struct duo *d = duo_open();
	struct uccl_op *op = duo_op(d, 1, UCCL_OP_RECV, 0);
	struct uccl_rx_hint h[4];

	(void)state;
	op->iov[0] = (struct iovec){.iov_base = dst, .iov_len = 10000};
	op->iov[1] = (struct iovec){.iov_base = dst + 20000, .iov_len = 20000};
	op->iov_count = 2;
	op->len = 30000;
	assert_int_equal(uccl_msg_recv(&d->side[1].m, op, d->now), 0);
	duo_send(d, 0, 0, src, 30000, 0, NULL);
	d->filter = lose_data;
	for (int i = 0; i < 3; i++)
		duo_round(d);
	assert_non_null(d->side[1].m.stream);
	d->side[1].peer.flow.cfg.chunk_bytes = HINT;
	assert_int_equal(uccl_msg_hints(&d->side[1].m, h, 4), 0);
	d->side[1].peer.flow.cfg.chunk_bytes = DUO_CHUNK;
	duo_run(d, SECOND);
	assert_int_equal(duo_next(d, 1)->len, 30000);
	duo_free(d);
}

/*
 * Where the end of a registration keeps writes out, a doubt costs nothing: the message is complete, and what still
 * comes finds no place. PROTOCOL R83
 */
static void direct__closed_in_doubt(void **state)
{
	struct duo *d = duo_open_writes();

	(void)state;
	d->auto_fence = false;
	d->side[1].peer.mep->dereg_fences = true;
	d->filter = delay_write;
	duo_fill(src, 50000, 5);
	duo_recv(d, 1, 0, dst, 50000, 0, 0, DUO_CTX(1));
	duo_send(d, 0, 0, src, 50000, 0, DUO_CTX(2));
	duo_run(d, SECOND);
	expect(d, 0, DUO_CTX(2), 0, 0);
	expect(d, 1, DUO_CTX(1), 0, 50000);
	duo_check(dst, 50000, 5);
	assert_int_equal(d->side[1].fences, 0);
	assert_int_equal(d->side[1].deregs, 1);
	assert_int_equal(d->side[1].peer.flow.ndoubts, 0);
	memset(dst, 0xa5, 50000);
	duo_release(d, false);
	duo_run(d, SECOND);
	for (int i = 0; i < 50000; i++)
		assert_int_equal(dst[i], 0xa5);
	assert_int_equal(d->side[1].stats.dup_writes, 0);
	duo_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copy__in_and_out),
		cmocka_unit_test(multi__fills_and_releases),
		cmocka_unit_test(multi__released_by_the_last_complete),
		cmocka_unit_test(multi__truncates_the_last),
		cmocka_unit_test(multi__gone),
		cmocka_unit_test(multi__cancel),
		cmocka_unit_test(multi__out_of_ops),
		cmocka_unit_test(multi__no_room),
		cmocka_unit_test(multi__out_of_ops_others_go_on),
		cmocka_unit_test(multi__out_of_ops_unexpected),
		cmocka_unit_test(cts__no_handle),
		cmocka_unit_test(short__envelopes_only),
		cmocka_unit_test(short__queued_too),
		cmocka_unit_test(short__ignored),
		cmocka_unit_test(env__out_of_order),
		cmocka_unit_test(env__early_does_not_match),
		cmocka_unit_test(env__burst_reversed),
		cmocka_unit_test(env__malformed),
		cmocka_unit_test(env__contradicts_its_chunks),
		cmocka_unit_test(env__out_of_memory),
		cmocka_unit_test(env__out_of_memory_for_a_while),
		cmocka_unit_test(eager__malformed),
		cmocka_unit_test(eager__matched_half_way),
		cmocka_unit_test(data__malformed),
		cmocka_unit_test(overlap__eager),
		cmocka_unit_test(overlap__seen_at_the_end),
		cmocka_unit_test(overlap__gaps_are_empty),
		cmocka_unit_test(overlap__granted),
		cmocka_unit_test(deliver__unknown_records),
		cmocka_unit_test(settled__unknown),
		cmocka_unit_test(direct__whole),
		cmocka_unit_test(direct__only_where_it_fits),
		cmocka_unit_test(direct__held_until_fenced),
		cmocka_unit_test(direct__held_until_the_late_write),
		cmocka_unit_test(direct__none_after_a_double),
		cmocka_unit_test(recv__directed),
		cmocka_unit_test(recv__tagged_and_untagged),
		cmocka_unit_test(recv__collective),
		cmocka_unit_test(cm__apart),
		cmocka_unit_test(cm__refused),
		cmocka_unit_test(cm__half_a_message),
		cmocka_unit_test(cm__said_whole),
		cmocka_unit_test(cm__strangers),
		cmocka_unit_test(recv__wildcards_in_order),
		cmocka_unit_test(cancel__posted),
		cmocka_unit_test(cancel__matched),
		cmocka_unit_test(peek__tells_and_leaves),
		cmocka_unit_test(peek__claim),
		cmocka_unit_test(peek__claimed_then_dropped),
		cmocka_unit_test(peek__discard),
		cmocka_unit_test(peek__own_messages),
		cmocka_unit_test(hints__follow_the_stream),
		cmocka_unit_test(hints__split_receive),
		cmocka_unit_test(direct__closed_in_doubt),
	};

	return cmocka_run_group_tests_name("recv", tests, NULL, NULL);
}
