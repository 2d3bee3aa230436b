/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* RMA and atomics at the target: order, exactly once, what is refused, what goes away meanwhile. */
#include "../duo.h"

#include "msg/rma/atomic_math.h"
#include "msg/rma/short_writes.h"
#include "../../tests.h"

static uint8_t src[1 << 21], dst[1 << 21], mem[1 << 21];

/* Writes and reads of one place, delivered backwards, in all kinds of sizes. PROTOCOL R71 */
TEST(order__reversed)
{
	static const uint32_t lens[] = {8, 900, 3000, 40000, 65536};
	uint8_t *back = malloc(5 * 65536);

	assert_non_null(back);
	for (unsigned int i = 0; i < 25; i++) {
		uint32_t one = lens[i / 5], two = lens[i % 5];
		uint64_t least = uccl_min(one, two);
		struct duo *d = duo_open();

		duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
		memset(mem, 0, 70000);
		memset(src, 1, 70000);
		memset(src + 100000, 2, 70000);
		d->filter = duo_hold_all;
		duo_rma(d, 0, UCCL_OP_READ, 0, back, one, 0, 1, NULL);		    /* sees 0 */
		duo_rma(d, 0, UCCL_OP_WRITE, 0, src, one, 0, 1, NULL);		    /* WAR */
		duo_rma(d, 0, UCCL_OP_READ, 0, back + 65536, one, 0, 1, NULL);	    /* RAW: sees 1 */
		duo_rma(d, 0, UCCL_OP_WRITE, 0, src + 100000, two, 0, 1, NULL);	    /* WAW, WAR */
		duo_rma(d, 0, UCCL_OP_READ, 0, back + 2 * 65536, two, 0, 1, NULL);  /* sees 2 */
		duo_round(d);
		duo_release(d, true);
		duo_run(d, SECOND);
		for (uint32_t k = 0; k < one; k++)
			assert_true(back[k] == 0 && back[65536 + k] == 1);
		for (uint32_t k = 0; k < two; k++)
			assert_true(back[2 * 65536 + k] == 2);
		for (uint32_t k = 0; k < one || k < two; k++)
			assert_int_equal(mem[k], k < two ? 2 : 1);
		assert_true(least > 0);
		duo_all_done(d, 5);
	}
	free(back);
}

/*
 * More writes at once than the target may hold: the requests of later ones do not take the places that the payload of
 * earlier ones needs to arrive. PROTOCOL R130
 */
TEST(order__many_writes)
{
	struct duo *d = duo_open();
	int n = 200;

	d->side[1].m.unexpected.max = 400000;
	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	duo_fill(src, 20000, 4);
	for (int i = 0; i < n; i++)
		assert_int_equal(duo_rma(d, 0, UCCL_OP_WRITE, 0, src, 20000, 0, 1, DUO_CTX(i)), 0);
	duo_run(d, 20 * SECOND);
	duo_check(mem, 20000, 4);
	duo_all_done(d, n);
}

static enum duo_verdict hold_eager(struct duo *d, const struct duo_pkt *p)
{
	(void)d;
	if (p->kind != UCCL_TX_PACKET || p->type != UCCL_PKT_CHUNK)
		return DUO_PASS;
	return p->rtype == UCCL_REC_EAGER ? DUO_HOLD : DUO_PASS;
}

/* Requests of writes come before all payload: their bytes count, and none gets a buffer that it may not need. */
TEST(order__requests_first)
{
	for (int reverse = 0; reverse < 2; reverse++) {
		struct duo *d = duo_open();
		const struct uccl_msg_rx *rx;
		int n = 8, waiting = 0;

		duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
		duo_fill(src, 20000, 4);
		memset(mem, 0, 20000);
		d->filter = hold_eager;
		for (int i = 0; i < n; i++)
			assert_int_equal(duo_rma(d, 0, UCCL_OP_WRITE, 0, src, 20000, 0, 1, DUO_CTX(i)), 0);
		duo_round(d);
		TAILQ_FOREACH (rx, &d->side[1].peer.serve.requests, link) {
			assert_null(rx->hold.buf);
			waiting += rx->hold.unplaced_bytes == 20000;
			/* What has its place is not held any more. */
			assert_true(!rx->place.iov || !rx->hold.unplaced_bytes);
		}
		assert_true(waiting > 0);
		duo_release(d, reverse);
		duo_run(d, 20 * SECOND);
		duo_check(mem, 20000, 4);
		assert_int_equal(d->side[1].m.unexpected.bytes, 0);
		duo_all_done(d, n);
	}
}

/* Large writes do not hold up what is behind them, nor do they wait for it. PROTOCOL R71 */
TEST(order__large_apart)
{
	struct duo *d = duo_open();

	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	duo_rma(d, 0, UCCL_OP_WRITE, 0, src, 300000, 0, 1, DUO_CTX(1));
	duo_rma(d, 0, UCCL_OP_WRITE, 0, src, 8, 400000, 1, DUO_CTX(2));
	for (int i = 0; i < 4; i++)
		duo_round(d);
	assert_ptr_equal(duo_next(d, 0)->context, DUO_CTX(2));
	d->side[0].seen = 0;
	duo_run(d, SECOND);
	duo_all_done(d, 2);
}

/* Messages keep their own order among requests. PROTOCOL R32 R70 */
TEST(order__messages_between)
{
	struct duo *d = duo_open();

	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	for (int i = 0; i < 4; i++)
		duo_recv(d, 1, 0, dst + i * 100, 100, 0, 0, DUO_CTX(i));
	d->filter = duo_hold_all;
	for (int i = 0; i < 4; i++) {
		src[i] = (uint8_t)(i + 1);
		duo_send(d, 0, 0, src + i, 1, 0, NULL);
		duo_rma(d, 0, UCCL_OP_WRITE, 0, src, 20000, 0, 1, NULL);
	}
	duo_round(d);
	duo_release(d, true);
	duo_run(d, SECOND);
	for (int i = 0; i < 4; i++) {
		assert_ptr_equal(duo_next(d, 1)->context, DUO_CTX(i));
		assert_int_equal(dst[i * 100], i + 1);
	}
	duo_all_done(d, 8);
}

static enum duo_verdict drop_and_double(struct duo *d, const struct duo_pkt *p)
{
	d->n = (int)((unsigned int)d->n * 1103515245u + 12345u);
	return (d->n >> 16 & 7) == 0 ? DUO_DROP : (d->n >> 16 & 7) == 1 ? DUO_DOUBLE : DUO_PASS;
}

/* Each is done once, whatever is lost or doubled, and gets what was there before it. PROTOCOL R73 */
TEST(atomic__exactly_once)
{
	uint64_t seen[200] = {0}, was[200], one = 1, total;

	for (int seed = 1; seed <= 10; seed++) {
		struct duo *d = duo_open();

		duo_region(d, 1, 0, mem, 64, BOTH);
		memset(mem, 0, 64);
		memset(seen, 0, sizeof(seen));
		d->n = seed;
		d->filter = drop_and_double;
		for (int i = 0; i < 200; i++)
			assert_int_equal(duo_atomic(d, 0, i % 2 ? UCCL_OP_FETCH : UCCL_OP_ATOMIC, UCCL_UINT64, UCCL_SUM,
						    &one, NULL, i % 2 ? &was[i] : NULL, 1, 8, 1, NULL),
					 0);
		duo_run(d, 60 * SECOND);
		d->filter = NULL;
		duo_run(d, SECOND);
		memcpy(&total, mem + 8, 8);
		assert_int_equal(total, 200);
		/* In the order of posting, so what came back is known. */
		for (int i = 1; i < 200; i += 2)
			assert_int_equal(was[i], i);
		assert_int_equal(d->side[1].events, 200);
		assert_int_equal(d->side[1].locks, 400);
		duo_all_done(d, 200);
	}
}

/* As many elements as there may be, in several chunks; an element across two buffers. PROTOCOL R70 */
TEST(atomic__large)
{
	uint64_t n = UCCL_ORDER_MAX / 8, *a = malloc(UCCL_ORDER_MAX), *b = malloc(UCCL_ORDER_MAX);
	uint64_t *cmp = malloc(UCCL_ORDER_MAX), v;
	struct duo *d = duo_open();

	duo_region(d, 1, 0, mem, UCCL_ORDER_MAX, BOTH);
	d->side[1].region[0].iov[0].iov_len = 1003;
	d->side[1].region[0].iov[1] = (struct iovec){.iov_base = mem + 200000, .iov_len = UCCL_ORDER_MAX - 1003};
	d->side[1].region[0].niov = 2;
	memset(mem, 0, sizeof(mem));
	for (uint64_t i = 0; i < n; i++)
		a[i] = i << 32 | i;
	duo_atomic(d, 0, UCCL_OP_ATOMIC, UCCL_UINT64, UCCL_SUM, a, NULL, NULL, n, 0, 1, NULL);
	duo_atomic(d, 0, UCCL_OP_FETCH, UCCL_UINT64, UCCL_SUM, a, NULL, b, n, 0, 1, NULL);
	duo_run(d, SECOND);
	assert_memory_equal(a, b, UCCL_ORDER_MAX);
	for (uint64_t i = 0; i < n; i++) {
		uint8_t raw[8];

		for (uint64_t k = 0; k < 8; k++)
			raw[k] = i * 8 + k < 1003 ? mem[i * 8 + k] : mem[200000 + i * 8 + k - 1003];
		memcpy(&v, raw, 8);
		assert_true(v == 2 * a[i]);
		cmp[i] = i % 2 ? v : v + 1;
	}
	duo_atomic(d, 0, UCCL_OP_COMPARE, UCCL_UINT64, UCCL_CSWAP, a, cmp, b, n / 2, 0, 1, NULL);
	duo_atomic(d, 0, UCCL_OP_FETCH, UCCL_UINT64, UCCL_ATOMIC_READ, NULL, NULL, cmp, n / 2, 0, 1, NULL);
	duo_run(d, SECOND);
	for (uint64_t i = 0; i < n / 2; i++) {
		assert_true(b[i] == 2 * a[i]);
		assert_true(cmp[i] == (i % 2 ? a[i] : 2 * a[i]));
	}
	assert_true(d->side[1].event.fetch && !d->side[1].event.write && d->side[1].event.atomic);
	duo_all_done(d, 4);
	free(a);
	free(b);
	free(cmp);
}

static enum uccl_drop req(struct duo *d, struct uccl_req *r, struct uccl_env *env, const void *data, uint32_t len)
{
	uint8_t rec[UCCL_REC_LEN], payload[UCCL_REQ_HEAD_MAX + 2000];
	uint32_t head = r->nseg <= UCCL_SEG_MAX ? uccl_req_head_len(r->nseg, r->rx) : 0;

	env->tag = uccl_req_tag(r);
	uccl_env_encode(rec, env);
	if (head)
		uccl_req_encode(payload, r);
	if (len)
		memcpy(payload + head, data, len);
	return duo_deliver(d, 1, UCCL_REC_REQ, rec, payload, head + len);
}

/* PROTOCOL R70 */
DUO_TEST(req__malformed, duo_open())
{
	struct uccl_req good = {.kind = UCCL_RMA_WRITE, .nseg = 1, .seg = {{.len = 100, .key = 1}}}, r;
	struct uccl_env env = {.id = 5, .len = 100, .flags = UCCL_ENV_EAGER}, e;

	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
#define refuse(change, data, len)                                                                                      \
	do {                                                                                                           \
		r = good;                                                                                              \
		e = env;                                                                                               \
		change;                                                                                                \
		assert_int_equal(req(d, &r, &e, data, len), UCCL_DROP_RECORD);                                         \
		assert_int_equal(d->side[1].peer.rx.mseq, 0);                                                          \
	} while (0)
	refuse(e.id = 0, src, 100);
	refuse(e.mseq = UCCL_MSG_LIMIT, src, 100);
	refuse(e.mseq = UINT32_MAX, src, 100);
	refuse(r.kind = 0, src, 100);
	refuse(r.kind = UCCL_RMA_COMPARE + 1, src, 100);
	refuse(r.nseg = UCCL_SEG_MAX + 1, src, 1900);
	refuse(r.seg[0].len = 101, src, 100);
	refuse(r.seg[0].len = 1ull << 56, src, 100);
	refuse(e.len = 101, src, 100);
	refuse(e.len = 99, src, 100);
	refuse(, src, 101);
	refuse(r.rx = 9, src, 100);
	refuse(r.seg[0].len = e.len = UCCL_EAGER_MAX + 1, src, 100);
	/* not eager: a write that wants an answer, nothing else */
	refuse(e.flags = 0, src, 50);
	refuse((r.kind = UCCL_RMA_ATOMIC, r.datatype = UCCL_UINT8, e.flags = UCCL_ENV_DELIVERY), src, 50);
	refuse((e.flags = UCCL_ENV_DELIVERY | UCCL_ENV_UNSOLICITED, e.unsolicited = 80), src, 50);
	refuse(e.flags = UCCL_ENV_EAGER | UCCL_ENV_LANES, src, 100);
	/* of a message, not of a request */
	refuse((e.flags = UCCL_ENV_EAGER | UCCL_ENV_CM, r.kind = UCCL_RMA_READ, r.rx = 9, e.len = 0), NULL, 0);
	for (uint32_t bit = 1; bit < 256; bit <<= 1)
		if (!(bit & (UCCL_ENV_EAGER | UCCL_ENV_DATA | UCCL_ENV_DELIVERY)))
			refuse(e.flags |= (uint8_t)bit, src, 100);
	/* what waits must have something to wait for */
	refuse(e.flags = UCCL_ENV_DELIVERY, src, 100);
	refuse((e.flags = UCCL_ENV_DELIVERY, r.seg[0].len = e.len = 0), NULL, 0);
	/* reads bring nothing and want a handle; atomics have whole elements, and results where there are some */
	refuse((r.kind = UCCL_RMA_READ, e.len = 0), NULL, 0);
	refuse((r.kind = UCCL_RMA_READ, r.rx = 9), src, 100);
	refuse((r.kind = UCCL_RMA_ATOMIC, r.datatype = UCCL_UINT64), src, 100);
	refuse((r.kind = UCCL_RMA_ATOMIC, r.datatype = UCCL_UINT8, r.rx = 9), src, 100);
	refuse((r.kind = UCCL_RMA_FETCH, r.datatype = UCCL_UINT8), src, 100);
	refuse((r.kind = UCCL_RMA_FETCH, r.datatype = UCCL_UINT8, r.atomic = UCCL_ATOMIC_READ, r.rx = 9), src, 100);
	refuse((r.kind = UCCL_RMA_COMPARE, r.datatype = UCCL_UINT8, r.atomic = UCCL_CSWAP, r.rx = 9), src, 100);
	refuse((r.kind = UCCL_RMA_ATOMIC, r.seg[0].len = e.len = UCCL_ORDER_MAX + 1), src, 100);
	/* too short for what it says of itself */
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_REQ, (uint8_t[UCCL_REC_LEN]){UCCL_RMA_READ, 1}, src, 23),
			 UCCL_DROP_RECORD);
	assert_int_equal(d->side[1].events, 0);
	assert_int_equal(req(d, &good, &env, src, 100), UCCL_DROP_COUNT);
	assert_int_equal(d->side[1].events, 1);
	/* what was had */
	assert_int_equal(req(d, &good, &env, src, 100), UCCL_DROP_RECORD);
}

/* A write of `len` bytes to this place, of which so many come with the request. */
static void write_req(struct duo *d, uint32_t mseq, uint8_t flags, uint64_t at, uint32_t len, const uint8_t *data,
		      uint32_t first)
{
	struct uccl_req r = {.kind = UCCL_RMA_WRITE, .nseg = 1, .seg = {{.addr = at, .len = len, .key = 1}}};
	struct uccl_env env = {.id = 5, .mseq = mseq, .len = len, .flags = flags, .data = mseq};

	assert_int_equal(req(d, &r, &env, data, first), UCCL_DROP_COUNT);
}

/* It waits for CTS. */
static void granted_req(struct duo *d, uint32_t mseq, uint64_t at, uint32_t len)
{
	write_req(d, mseq, UCCL_ENV_DELIVERY, at, len, NULL, 0);
}

/* It comes whole. */
static void eager_req(struct duo *d, uint32_t mseq, uint64_t at, const uint8_t *data, uint32_t len)
{
	write_req(d, mseq, UCCL_ENV_EAGER, at, len, data, len);
}

/* All of what was granted for this request comes. */
static void granted_data(struct duo *d, uint32_t mseq, const uint8_t *data, uint32_t len)
{
	uint8_t rec[UCCL_REC_LEN] = {0};
	const struct uccl_msg_rx *rx;

	TAILQ_FOREACH (rx, &d->side[1].peer.rx.all, plink)
		if (rx->mseq == mseq)
			break;
	assert_non_null(rx);
	uccl_rec_set_bulk(rec, rx->id, mseq, 0);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, data, len), UCCL_DROP_COUNT);
}

/* Requests go on beside a short write that was granted, but for those that touch its memory. PROTOCOL R407 */
DUO_TEST(granted__order, duo_open())
{
	const struct uccl_peer *p = &d->side[1].peer;

	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	memset(mem, 0, 100000);
	memset(src, 1, 20000);
	memset(src + 20000, 2, 20000);
	granted_req(d, 0, 0, 16000);
	/* Behind and before its memory. */
	eager_req(d, 1, 16000, src + 20000, 1000);
	granted_req(d, 2, 40000, 16000);
	assert_int_equal(d->side[1].events, 1);
	assert_int_equal(mem[16000], 2);
	assert_int_equal(p->serve.nshort_writes, 2);
	assert_int_equal(p->serve.n, 0);
	/* Its last byte; and what is behind that waits, too. */
	eager_req(d, 3, 15999, src + 20000, 10);
	eager_req(d, 4, 60000, src + 20000, 10);
	granted_req(d, 5, 15000, 2000);
	assert_int_equal(p->serve.blocked, UCCL_BLOCK_SHORT);
	assert_int_equal(p->serve.n, 3);
	assert_true(uccl_msg_waits(&d->side[1].m));
	uccl_msg_retry(&d->side[1].m, d->now);
	assert_int_equal(d->side[1].events, 1);
	granted_data(d, 2, src, 16000);
	assert_int_equal(d->side[1].events, 2);
	granted_data(d, 0, src, 16000);
	assert_int_equal(d->side[1].events, 5);
	assert_int_equal(mem[15998], 1);
	assert_int_equal(mem[15999], 2);
	assert_int_equal(mem[60000], 2);
	assert_int_equal(p->serve.n, 0);
	assert_false(uccl_msg_waits(&d->side[1].m));
	granted_data(d, 5, src, 2000);
	assert_int_equal(mem[15999], 1);
	assert_int_equal(d->side[1].events, 6);
	assert_null(p->serve.short_writes);
}

/* Who hears of remote CQ data finds all that was written before, wherever that is. PROTOCOL R407 */
DUO_TEST(granted__before_data, duo_open())
{
	static const struct {
		uint8_t flags;
		uint32_t len, first;
	} v[] = {
		{UCCL_ENV_EAGER, 100, 100}, {UCCL_ENV_EAGER, 0, 0}, {UCCL_ENV_EAGER, 3000, 100},
		{UCCL_ENV_DELIVERY, 1000, 0}, {UCCL_ENV_DELIVERY, 100000, 0},
	};
	const struct duo_side *s = &d->side[1];
	uint32_t mseq = 0;
	int events = 0;

	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	memset(mem, 0, 200000);
	memset(src, 1, 20000);
	for (size_t i = 0; i < uccl_array_len(v); i++, mseq += 4) {
		bool waits = v[i].flags & UCCL_ENV_DELIVERY;

		granted_req(d, mseq, 0, 1000);
		granted_req(d, mseq + 1, 2000, 1000);
		write_req(d, mseq + 2, v[i].flags | UCCL_ENV_DATA, 40000, v[i].len, src, v[i].first);
		eager_req(d, mseq + 3, 5000, src, 10);
		assert_int_equal(s->peer.serve.n, 2);
		if (!waits && v[i].first < v[i].len)
			assert_int_equal(duo_eager(d, 1, mseq + 2, 100, v[i].len, src, v[i].len - 100),
					 UCCL_DROP_COUNT);
		granted_data(d, mseq, src, 1000);
		assert_int_equal(s->events, ++events);
		granted_data(d, mseq + 1, src, 1000);
		assert_int_equal(s->peer.serve.n, 0);
		events += waits ? 2 : 3;
		assert_int_equal(s->events, events);
		if (waits) {
			granted_data(d, mseq + 2, src, v[i].len);
			assert_int_equal(s->events, ++events);
		}
	}
}

/* A read sees what was written before it. Payload of a write that must wait is kept. PROTOCOL R71 R407 */
DUO_TEST(granted__before_others, duo_open())
{
	struct uccl_req read = {.kind = UCCL_RMA_READ, .nseg = 1, .rx = 9, .seg = {{.len = 2000, .key = 1}}};
	struct uccl_req write = {.kind = UCCL_RMA_WRITE, .nseg = 1, .seg = {{.len = 3000, .key = 1}}};
	struct uccl_env env = {.id = 5, .mseq = 1, .flags = UCCL_ENV_EAGER};
	struct uccl_env long_env = {.id = 5, .mseq = 2, .len = 3000, .flags = UCCL_ENV_EAGER};

	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	memset(mem, 0, 100000);
	memset(src, 1, 20000);
	memset(src + 20000, 2, 20000);
	granted_req(d, 0, 1000, 10000);
	assert_int_equal(req(d, &read, &env, NULL, 0), UCCL_DROP_COUNT);
	assert_int_equal(d->side[1].region[0].reads, 0);
	/* In several packets; its turn has not come. */
	assert_int_equal(req(d, &write, &long_env, NULL, 0), UCCL_DROP_COUNT);
	assert_int_equal(duo_eager(d, 1, 2, 0, 3000, src + 20000, 3000), UCCL_DROP_COUNT);
	assert_int_equal(mem[1000], 0);
	granted_data(d, 0, src, 10000);
	assert_int_equal(d->side[1].region[0].reads, 1);
	assert_int_equal(d->side[1].region[0].writes, 2);
	assert_int_equal(mem[2999], 2);
	assert_int_equal(mem[3000], 1);
}

/* The first request in order may not take its payload straight either. PROTOCOL R407 */
DUO_TEST(granted__not_straight, duo_open())
{
	struct uccl_req write = {.kind = UCCL_RMA_WRITE, .nseg = 1, .seg = {{.len = 3000, .key = 1}}};
	struct uccl_env env = {.id = 5, .mseq = 1, .len = 3000, .flags = UCCL_ENV_EAGER};

	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	memset(mem, 0, 100000);
	memset(src, 1, 20000);
	memset(src + 20000, 2, 20000);
	granted_req(d, 0, 1000, 10000);
	assert_int_equal(req(d, &write, &env, NULL, 0), UCCL_DROP_COUNT);
	assert_int_equal(duo_eager(d, 1, 1, 0, 3000, src + 20000, 1500), UCCL_DROP_COUNT);
	granted_data(d, 0, src, 10000);
	assert_int_equal(duo_eager(d, 1, 1, 1500, 3000, src + 20000, 1500), UCCL_DROP_COUNT);
	assert_int_equal(mem[0], 2);
	assert_int_equal(mem[2999], 2);
	assert_int_equal(mem[3000], 1);
	assert_int_equal(d->side[1].m.unexpected.bytes, 0);
}

/* No more of one peer than the most; the others wait in their order. PROTOCOL R407 */
DUO_TEST(granted__most, duo_open())
{
	const struct uccl_peer *p = &d->side[1].peer;

	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	memset(src, 1, 20000);
	for (uint32_t i = 0; i <= UCCL_SHORT_WRITES_MAX; i++)
		granted_req(d, i, i * 100, 100);
	assert_int_equal(p->serve.nshort_writes, UCCL_SHORT_WRITES_MAX);
	assert_int_equal(p->serve.n, 1);
	granted_data(d, 7, src, 100);
	assert_int_equal(p->serve.nshort_writes, UCCL_SHORT_WRITES_MAX);
	assert_int_equal(p->serve.n, 0);
	for (uint32_t i = 0; i <= UCCL_SHORT_WRITES_MAX; i++)
		if (i != 7)
			granted_data(d, i, src, 100);
	assert_int_equal(d->side[1].events, UCCL_SHORT_WRITES_MAX + 1);
	assert_null(p->serve.short_writes);
}

/* The region ends, or the initiator does: nothing waits for what was granted there. PROTOCOL R77 R407 */
TEST(granted__ends)
{
	for (int fails = 0; fails < 2; fails++) {
		struct duo *d = duo_open();
		const struct uccl_peer *p = &d->side[1].peer;

		duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
		granted_req(d, 0, 0, 16000);
		eager_req(d, 1, 0, src, 10);
		assert_int_equal(p->serve.n, 1);
		if (fails) {
			duo_fail(d, FI_ECONNABORTED);
		} else {
			duo_revoke(d, 1, 0);
			duo_run(d, SECOND);
			uccl_msg_retry(&d->side[1].m, d->now);
			duo_run(d, SECOND);
		}
		assert_int_equal(p->serve.n, 0);
		assert_null(p->serve.short_writes);
		assert_int_equal(d->side[1].events, 0);
		assert_false(uccl_msg_waits(&d->side[1].m));
		duo_free(d);
	}
}

/* What was granted is taken back: those that waited for it go on, and nothing of it lands. PROTOCOL R361 R407 */
DUO_TEST(granted__taken_back, duo_open())
{
	const struct uccl_peer *p = &d->side[1].peer;
	uint8_t rec[UCCL_REC_LEN] = {0};
	uint32_t id;

	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	memset(mem, 0, 20000);
	memset(src, 1, 20000);
	memset(src + 20000, 2, 20000);
	granted_req(d, 0, 0, 16000);
	id = TAILQ_FIRST(&p->rx.all)->id;
	eager_req(d, 1, 10, src + 20000, 10);
	uccl_rec_set_bulk(rec, id, 0, 0);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 1000), UCCL_DROP_COUNT);
	uccl_abort_encode(rec, 5, 0);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_ABORT, rec, NULL, 0), UCCL_DROP_COUNT);
	assert_int_equal(p->serve.nshort_writes, 0);
	assert_true(uccl_msg_waits(&d->side[1].m));
	uccl_msg_retry(&d->side[1].m, d->now);
	assert_int_equal(d->side[1].events, 1);
	assert_int_equal(p->serve.n, 0);
	uccl_rec_set_bulk(rec, id, 0, 1000);
	uccl_put64(rec + 16, 0);
	duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 15000);
	assert_int_equal(mem[10], 2);
	assert_int_equal(mem[1000], 0);
	assert_int_equal(d->side[1].events, 1);
}

/* A request with the first bytes of its payload: 100 of 3000. */
static void first_req(struct duo *d, uint32_t mseq, uint64_t key)
{
	struct uccl_seg seg = {.addr = 5000 * mseq, .len = 3000, .key = key};
	struct uccl_req r = {.kind = UCCL_RMA_WRITE, .nseg = 1, .seg = {seg}};
	struct uccl_env env = {.id = 5, .mseq = mseq, .len = 3000, .flags = UCCL_ENV_EAGER};

	assert_int_equal(req(d, &r, &env, src, 100), UCCL_DROP_COUNT);
}

static void first_rest(struct duo *d, uint32_t mseq)
{
	assert_int_equal(duo_eager(d, 1, mseq, 100, 3000, src + 100, 2900), UCCL_DROP_COUNT);
}

/* The first bytes of a write are kept, not a buffer for all of it: until its turn, or until payload comes before. */
TEST(first__kept)
{
	for (int i = 0; i < 4; i++) {
		struct duo *d = duo_open();
		const struct uccl_msg_rx *rx;
		int whole = 0;

		duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
		memset(mem, 0, 20000);
		duo_fill(src, 3000, 4);
		/* In order, or not. */
		first_req(d, i & 1, 1);
		first_req(d, !(i & 1), 1);
		TAILQ_FOREACH (rx, &d->side[1].peer.rx.all, plink)
			whole += rx->hold.buf != NULL;
		assert_int_equal(whole, 0);
		first_rest(d, i >> 1);
		first_rest(d, !(i >> 1));
		duo_check(mem, 3000, 4);
		duo_check(mem + 5000, 3000, 4);
		assert_int_equal(mem[3000] | mem[4999] | mem[8000], 0);
		assert_int_equal(d->side[1].events, 2);
		assert_int_equal(d->side[1].m.unexpected.bytes, 0);
		duo_free(d);
	}
}

/* It is refused, or its initiator ends. */
TEST(first__ends)
{
	for (int i = 0; i < 3; i++) {
		struct duo *d = duo_open();

		duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
		memset(mem, 0, 20000);
		duo_fill(src, 3000, 4);
		first_req(d, 0, i ? 1 : 2);
		first_req(d, 1, 1);
		if (i == 0) {
			first_rest(d, 0);
			first_rest(d, 1);
			assert_int_equal(mem[0], 0);
			duo_check(mem + 5000, 3000, 4);
			assert_int_equal(d->side[1].events, 1);
		} else if (i == 1) {
			duo_fail(d, FI_ECONNABORTED);
		} else {
			duo_revoke(d, 1, 0);
			first_rest(d, 0);
			first_rest(d, 1);
			assert_int_equal(d->side[1].events, 0);
		}
		assert_int_equal(d->side[1].m.unexpected.bytes, 0);
		duo_free(d);
	}
}

/* Chunks of a write that come before its request must agree with it. PROTOCOL R29 R70 */
DUO_TEST(req__contradicts_its_chunks, duo_open())
{
	struct uccl_req r = {.kind = UCCL_RMA_WRITE, .nseg = 1, .seg = {{.len = 3000, .key = 1}}};
	struct uccl_env env = {.id = 5, .len = 3000, .flags = UCCL_ENV_EAGER};

	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	duo_fill(src, 3000, 1);
	assert_int_equal(duo_eager(d, 1, 0, 1000, 3000, src + 1000, 1000), UCCL_DROP_COUNT);
	env.len = r.seg[0].len = 2999;
	assert_int_equal(req(d, &r, &env, src, 1000), UCCL_DROP_RECORD);
	env.len = r.seg[0].len = 3000;
	assert_int_equal(req(d, &r, &env, src, 1000), UCCL_DROP_COUNT);
	assert_int_equal(req(d, &r, &env, src, 1000), UCCL_DROP_RECORD);
	assert_int_equal(duo_eager(d, 1, 0, 2000, 3000, src + 2000, 1001), UCCL_DROP_RANGE);
	assert_int_equal(d->side[1].events, 0);
	assert_int_equal(duo_eager(d, 1, 0, 2000, 3000, src + 2000, 1000), UCCL_DROP_COUNT);
	assert_int_equal(d->side[1].events, 1);
	duo_check(mem, 3000, 1);
	assert_int_equal(d->side[1].m.rx_pool.used, 0);
}

/* A write whose packets are as long as it is, and are not it: nothing of ours goes to the region. PROTOCOL R119 */
DUO_TEST(req__pieces_overlap, duo_open())
{
	struct uccl_req r = {.kind = UCCL_RMA_WRITE, .nseg = 1, .seg = {{.len = 3000, .key = 1}}};
	struct uccl_env env = {.id = 5, .len = 3000, .flags = UCCL_ENV_EAGER};

	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	duo_fill(src, 3000, 1);
	assert_int_equal(duo_eager(d, 1, 0, 2000, 3000, src + 2000, 1000), UCCL_DROP_COUNT);
	assert_int_equal(duo_eager(d, 1, 0, 2000, 3000, src + 2000, 1000), UCCL_DROP_OVERLAP);
	assert_int_equal(req(d, &r, &env, src, 2001), UCCL_DROP_RECORD);
	assert_int_equal(duo_eager(d, 1, 0, 500, 3000, src + 500, 600), UCCL_DROP_COUNT);
	assert_int_equal(req(d, &r, &env, src, 1000), UCCL_DROP_OVERLAP);
	assert_int_equal(d->side[1].m.serve.pool.used, 0);
	assert_int_equal(req(d, &r, &env, src, 500), UCCL_DROP_COUNT);
	assert_int_equal(d->side[1].events, 0);
	assert_int_equal(duo_eager(d, 1, 0, 1100, 3000, src + 1100, 900), UCCL_DROP_COUNT);
	assert_int_equal(d->side[1].events, 1);
	duo_check(mem, 3000, 1);
}

static void nothing_touched(uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++)
		assert_int_equal(mem[i], 0x77);
}

/* A region that is closed while a write comes in: what has not come goes nowhere. PROTOCOL R77 */
TEST(revoke__write)
{
	static const uint64_t lens[] = {60000, 300000};

	for (int direct = 0; direct < 2; direct++)
		for (unsigned int i = 0; i < uccl_array_len(lens); i++)
			for (int rounds = 1; rounds < 8; rounds++) {
				struct duo *d = direct ? duo_open_writes() : duo_open();
				const struct duo_comp *c;

				duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
				duo_region(d, 1, 1, dst, sizeof(dst), BOTH);
				memset(src, 0x11, lens[i]);
				d->side[0].peer.flow.limits.slots = 20;
				duo_rma(d, 0, UCCL_OP_WRITE, 0, src, lens[i], 0, 1, DUO_CTX(1));
				/* another region is nobody's business */
				duo_rma(d, 0, UCCL_OP_WRITE, 0, src, lens[i], 0, 2, DUO_CTX(2));
				for (int k = 0; k < rounds; k++)
					duo_round(d);
				duo_revoke(d, 1, 0);
				memset(mem, 0x77, sizeof(mem));
				duo_run(d, SECOND);
				nothing_touched(0, lens[i]);
				assert_int_equal(duo_waiting(d, 0), 2);
				while ((c = duo_next(d, 0))) {
					if (c->context == DUO_CTX(2))
						assert_int_equal(c->err, 0);
					else if (c->err)
						assert_int_equal(c->err, FI_EKEYREJECTED);
				}
				for (uint64_t k = 0; k < lens[i]; k++)
					assert_int_equal(dst[k], 0x11);
				duo_all_done(d, 0);
			}
}

/* Was a read of all of mem refused? Else it brought the right bytes. */
static bool read_failed(struct duo *d)
{
	const struct duo_comp *c = duo_next(d, 0);

	assert_non_null(c);
	if (c->err)
		assert_int_equal(c->err, FI_EKEYREJECTED);
	else
		duo_check(dst, sizeof(mem), 1);
	return c->err;
}

/* While it is read: nothing refers to it, the reader gets an error or the right bytes. PROTOCOL R75 R77 */
TEST(revoke__read)
{
	uint64_t n = sizeof(mem);
	int failed = 0;

	for (int rounds = 1; rounds < 400; rounds += 40) {
		uint8_t *own = malloc(n);
		struct duo *d = duo_open();

		duo_fill(own, n, 1);
		duo_region(d, 1, 0, own, n, BOTH);
		duo_rma(d, 0, UCCL_OP_READ, 0, dst, n, 0, 1, DUO_CTX(1));
		for (int k = 0; k < rounds; k++)
			duo_round(d);
		duo_revoke(d, 1, 0);
		free(own);
		duo_run(d, SECOND);
		failed += read_failed(d);
		duo_all_done(d, 0);
	}
	assert_true(failed > 0);
}

/* Who closes a region does not look at what has nothing to do with it. PROTOCOL R77 */
DUO_TEST(revoke__steps_do_not_grow, duo_open())
{
	enum { WAIT = 500, WRITES = 20, LEN = 100000 };
	struct uccl_msg_ep *m = &d->side[1].m;
	uint64_t steps;

	for (int i = 0; i < 3; i++)
		duo_region(d, 1, i, mem, sizeof(mem), BOTH);
	for (int i = 0; i < WAIT; i++)
		assert_int_equal(duo_send(d, 0, UCCL_OPF_INJECT, "x", 1, 0, NULL), 0);
	duo_run(d, SECOND / 100);
	for (int i = 0; i < WRITES; i++)
		assert_int_equal(duo_rma(d, 0, UCCL_OP_WRITE, 0, src, LEN, 0, i % 4 ? 1 : 2, DUO_CTX(1)), 0);
	while (m->target.uses.nodes < WRITES)
		assert_true(duo_round(d));
	d->side[1].region[1].live = d->side[1].region[2].live = false;
	steps = m->match.steps;
	uccl_msg_revoke(m, &d->side[1].region[2], NULL, d->now);
	assert_int_equal(m->match.steps, steps);
	uccl_msg_revoke(m, &d->side[1].region[1], NULL, d->now);
	assert_int_equal(m->match.steps, steps + WRITES / 4);
	duo_run(d, SECOND);
	for (int i = steps = 0; i < WAIT + WRITES; i++)
		steps += duo_next(d, 0)->err == FI_EKEYREJECTED;
	assert_int_equal(steps, WRITES / 4);
	assert_int_equal(m->target.uses.nodes, 0);
	uccl_peer_fail(&d->side[0].peer, FI_EIO, d->now);
}

/* A write comes in one piece, with headers between, when its region has gone: it goes nowhere. */
DUO_TEST(revoke__then_a_gro_batch, duo_open())
{
	enum { EACH = 500 };
	struct uccl_req r = {.kind = UCCL_RMA_WRITE, .nseg = 1, .seg = {{.len = 2 * EACH, .key = 1}}};
	struct uccl_env env = {.id = 5, .len = 2 * EACH, .flags = UCCL_ENV_EAGER};
	static uint8_t batch[2 * EACH + UCCL_HDR_LEN];
	uint8_t rec[UCCL_REC_LEN] = {0};
	struct uccl_chunk_in in = {.rtype = UCCL_REC_EAGER, .rec = rec, .data = batch, .len = 2 * EACH, .segments = 2,
				   .each = EACH};

	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	assert_int_equal(req(d, &r, &env, src, 0), UCCL_DROP_COUNT);
	assert_non_null(TAILQ_FIRST(&d->side[1].peer.rx.all)->place.iov);
	duo_revoke(d, 1, 0);
	memset(mem, 0x5e, sizeof(mem));
	uccl_put64(rec + 16, 2 * EACH);
	assert_int_equal(uccl_msg_flow_ops.deliver(&d->side[1].peer.flow, &in, d->now), UCCL_DROP_COUNT);
	for (size_t i = 0; i < sizeof(mem); i++)
		assert_int_equal(mem[i], 0x5e);
	assert_int_equal(d->side[1].events, 0);
}

/* Another thread takes the region out between two lookups for one request: it is answered all the same. */
TEST(revoke__between_looks)
{
	int failed = 0;

	for (uint32_t looks = 1; looks < 6; looks++) {
		struct duo *d = duo_open();

		duo_fill(mem, sizeof(mem), 1);
		duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
		d->side[1].lookups_left = looks;
		duo_rma(d, 0, UCCL_OP_READ, 0, dst, sizeof(mem), 0, 1, DUO_CTX(1));
		duo_run(d, SECOND);
		failed += read_failed(d);
		duo_all_done(d, 0);
	}
	assert_true(failed > 0);
}

/* The peer dies with requests, replies and payload under way. PROTOCOL R45 */
TEST(serve__peer_dies)
{
	for (int rounds = 0; rounds < 12; rounds++) {
		struct duo *d = duo_open();
		uint64_t one = 1;

		duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
		d->filter = rounds % 2 ? drop_and_double : NULL;
		d->n = rounds;
		for (int i = 0; i < 5; i++) {
			duo_rma(d, 0, UCCL_OP_WRITE, 0, src, 300000, 0, 1, NULL);
			duo_rma(d, 0, UCCL_OP_WRITE, 0, src, 30000, 0, 1, NULL);
			duo_rma(d, 0, UCCL_OP_READ, 0, dst, 300000, 0, 1, NULL);
			duo_atomic(d, 0, UCCL_OP_FETCH, UCCL_UINT64, UCCL_SUM, &one, NULL, dst, 1, 0, 1, NULL);
		}
		for (int i = 0; i < rounds; i++)
			duo_round(d);
		duo_fail(d, FI_EHOSTDOWN);
		assert_int_equal(duo_waiting(d, 0), 20);
		d->side[0].ncomp = d->side[0].seen = 0;
		duo_all_done(d, 0);
	}
}

/* Room for so many completions at side 1 of what nobody posted there, had ones included. */
struct room {
	struct duo *d;
	int all;
};

static bool room_left(void *arg)
{
	const struct room *r = arg;

	return r->d->side[1].events + r->d->side[1].ncomp < r->all;
}

static void room_set(struct room *r, struct duo *d, int all)
{
	*r = (struct room){.d = d, .all = all};
	d->side[1].m.posted.room = room_left;
	d->side[1].m.posted.room_arg = r;
}

/* One more, and no more, happens. */
static void room_one(struct room *r)
{
	r->all++;
	assert_true(uccl_msg_waits(&r->d->side[1].m));
	uccl_msg_retry(&r->d->side[1].m, r->d->now);
	duo_run(r->d, SECOND);
	assert_int_equal(r->d->side[1].events + r->d->side[1].ncomp, r->all);
}

/* Requests with remote data wait for room, whatever their size, way and order of coming. PROTOCOL R78 */
TEST(room__held_back)
{
	static const uint64_t lens[] = {8, 8, 40000, 300000, 8, 65536, 300000, 40000, 0, 8};
	enum { N = sizeof(lens) / sizeof(*lens) };

	for (int how = 0; how < 4; how++) {
		struct duo *d = how & 1 ? duo_open_writes() : duo_open();
		struct room r;

		duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
		room_set(&r, d, 3);
		d->filter = how & 2 ? duo_hold_all : NULL;
		for (int i = 0; i < N; i++)
			duo_rma(d, 0, UCCL_OP_WRITE, UCCL_OPF_DATA, src, lens[i], 0, 1, NULL);
		duo_round(d);
		duo_release(d, true);
		duo_run(d, SECOND);
		assert_int_equal(d->side[1].events, 3);
		assert_int_equal(duo_waiting(d, 0), 3);
		while (r.all < N)
			room_one(&r);
		assert_false(uccl_msg_waits(&d->side[1].m));
		assert_true(d->side[1].event.has_data);
		assert_int_equal(d->side[1].event.data, 0xfeedfacecafebeef);
		duo_all_done(d, N);
	}
}

/* Without remote data nothing waits but for its turn. PROTOCOL R71 R78 */
TEST(room__none_needed)
{
	struct duo *d = duo_open();
	struct room r;

	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	room_set(&r, d, 0);
	duo_rma(d, 0, UCCL_OP_WRITE, 0, src, 8, 0, 1, DUO_CTX(1));
	duo_rma(d, 0, UCCL_OP_WRITE, UCCL_OPF_DATA, src, 8, 0, 1, DUO_CTX(2));
	duo_rma(d, 0, UCCL_OP_WRITE, 0, src, 8, 0, 1, DUO_CTX(3));
	duo_run(d, SECOND);
	assert_ptr_equal(duo_next(d, 0)->context, DUO_CTX(1));
	assert_null(duo_next(d, 0));
	assert_int_equal(d->side[1].peer.serve.n, 2);
	r.all = 2;
	uccl_msg_retry(&d->side[1].m, d->now);
	duo_run(d, SECOND);
	assert_ptr_equal(duo_next(d, 0)->context, DUO_CTX(2));
	assert_ptr_equal(duo_next(d, 0)->context, DUO_CTX(3));
	duo_all_done(d, 0);
}

/* Large writes that were granted while there was room: only one finds it when all are in place. PROTOCOL R77 R78 */
TEST(room__granted_before)
{
	for (int direct = 0; direct < 2; direct++) {
		struct duo *d = direct ? duo_open_writes() : duo_open();
		struct room r;

		duo_region(d, 1, 0, mem, 1 << 20, BOTH);
		duo_region(d, 1, 1, mem + (1 << 20), 1 << 20, BOTH);
		duo_fill(src, 300000, 1);
		room_set(&r, d, 1);
		for (uint64_t i = 0; i < 3; i++)
			duo_rma(d, 0, UCCL_OP_WRITE, UCCL_OPF_DATA, src, 300000, i * 300000, 1, NULL);
		duo_rma(d, 0, UCCL_OP_WRITE, UCCL_OPF_DATA, src, 300000, 0, 2, NULL);
		duo_run(d, SECOND);
		assert_int_equal(d->side[1].events, 1);
		assert_int_equal(d->side[1].region[0].writes, 1);
		for (uint64_t i = 0; i < 3; i++)
			duo_check(mem + i * 300000, 300000, 1);
		/* Who closes a region is not told of it any more, but the initiator is. */
		duo_revoke(d, 1, 0);
		while (r.all < 4)
			room_one(&r);
		assert_int_equal(d->side[1].region[0].writes, 1);
		assert_int_equal(d->side[1].region[1].writes, 1);
		duo_all_done(d, 4);
	}
}

/*
 * A short write that was granted while there was room, and finds none when it is in place: it has the next before those
 * behind it. PROTOCOL R78 R407
 */
DUO_TEST(room__short_granted_before, duo_open())
{
	const struct duo_side *s = &d->side[1];
	struct room r;

	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	room_set(&r, d, 1);
	write_req(d, 0, UCCL_ENV_DELIVERY | UCCL_ENV_DATA, 0, 1000, NULL, 0);
	write_req(d, 1, UCCL_ENV_EAGER | UCCL_ENV_DATA, 40000, 100, src, 100);
	write_req(d, 2, UCCL_ENV_EAGER | UCCL_ENV_DATA, 40000, 100, src, 100);
	assert_int_equal(s->peer.serve.n, 2);
	r.all = 0;
	granted_data(d, 0, src, 1000);
	assert_int_equal(s->events, 0);
	for (uint64_t i = 0; i < 3; i++) {
		room_one(&r);
		assert_int_equal(s->event.data, i);
	}
	assert_int_equal(s->peer.serve.n, 0);
}

/* Messages into a multi-receive buffer and requests have the room by turns. PROTOCOL R40 R78 */
DUO_TEST(room__by_turns, duo_open())
{
	struct room r;

	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	room_set(&r, d, 0);
	assert_int_equal(duo_recv(d, 1, UCCL_OPF_MULTI, dst, 1000, 0, 0, NULL), 0);
	for (int i = 0; i < 6; i++) {
		duo_rma(d, 0, UCCL_OP_WRITE, UCCL_OPF_DATA, src, 8, 0, 1, NULL);
		duo_send(d, 0, UCCL_OPF_INJECT, src, 8, 0, NULL);
	}
	duo_run(d, SECOND);
	for (int i = 1; i <= 6; i++) {
		room_one(&r);
		room_one(&r);
		assert_int_equal(d->side[1].events, i);
		assert_int_equal(d->side[1].ncomp, i);
	}
}

/* The next completion of side 1 is that of a receive which remote data took. */
static void expect_taken(struct duo *d, void *context, uint64_t len, uint32_t flags)
{
	const struct duo_comp *c = duo_next(d, 1);

	assert_non_null(c);
	assert_ptr_equal(c->context, context);
	assert_int_equal(c->err, 0);
	assert_int_equal(c->len, len);
	assert_int_equal(c->flags & (UCCL_OPF_DATA | UCCL_OPF_MULTI), UCCL_OPF_DATA | flags);
	assert_true(c->data == 0xfeedfacecafebeef);
	assert_ptr_equal(c->from, &d->side[1].peer);
	assert_null(c->buf);
}

/*
 * FI_RX_CQ_DATA: data wait for a receive, in their order, and what has none does not wait;
 * receives that are tagged, or for another peer, are not taken. PROTOCOL R78
 */
DUO_TEST(data__takes_a_receive, duo_open())
{
	static const uint64_t lens[] = {0, 8, 60000, 300000};
	struct uccl_op *op;

	d->side[1].m.posted.data_takes = true;
	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 1, 0, ~0ull, DUO_CTX(90));
	op = duo_op(d, 1, UCCL_OP_RECV, UCCL_OPF_DIRECTED);
	op->peer = &d->side[1].self;
	op->context = DUO_CTX(91);
	assert_int_equal(uccl_msg_recv(&d->side[1].m, op, d->now), 0);
	for (unsigned int i = 0; i < uccl_array_len(lens); i++)
		duo_rma(d, 0, UCCL_OP_WRITE, UCCL_OPF_DATA, src, lens[i], 0, 1, DUO_CTX(i));
	duo_run(d, SECOND);
	assert_int_equal(d->side[1].events, 0);
	uccl_msg_retry(&d->side[1].m, d->now);
	assert_int_equal(d->side[1].events, 0);
	for (unsigned int i = 0; i < uccl_array_len(lens); i++) {
		duo_recv(d, 1, 0, dst, 1, 0, 0, DUO_CTX(10 + i));
		uccl_msg_retry(&d->side[1].m, d->now);
		duo_run(d, SECOND);
		assert_int_equal(d->side[1].events, (int)i + 1);
		expect_taken(d, DUO_CTX(10 + i), lens[i], 0);
		assert_null(duo_next(d, 1));
		assert_int_equal(duo_next(d, 0)->err, 0);
	}
	/* no data, no receive */
	duo_rma(d, 0, UCCL_OP_WRITE, 0, src, 8, 0, 1, DUO_CTX(5));
	duo_run(d, SECOND);
	assert_int_equal(duo_next(d, 0)->err, 0);
	assert_false(uccl_msg_waits(&d->side[1].m));
}

/* In a multi-receive buffer they take no bytes, and it goes on; what is refused takes nothing. PROTOCOL R78 */
DUO_TEST(data__takes_of_a_buffer, duo_open())
{
	struct uccl_op *op;

	d->side[1].m.posted.data_takes = true;
	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	op = duo_op(d, 1, UCCL_OP_RECV, UCCL_OPF_MULTI);
	duo_buffer(op, dst, 16);
	op->recv.min_multi = 8;
	op->context = DUO_CTX(20);
	assert_int_equal(uccl_msg_recv(&d->side[1].m, op, d->now), 0);
	duo_rma(d, 0, UCCL_OP_WRITE, UCCL_OPF_DATA, src, 100, 0, 9, DUO_CTX(1));
	duo_run(d, SECOND);
	assert_int_equal(duo_next(d, 0)->err, FI_EKEYREJECTED);
	for (unsigned int i = 0; i < 3; i++) {
		duo_rma(d, 0, UCCL_OP_WRITE, UCCL_OPF_DATA, src, 100, 0, 1, DUO_CTX(2));
		duo_run(d, SECOND);
		assert_int_equal(duo_next(d, 0)->err, 0);
		expect_taken(d, DUO_CTX(20), 100, 0);
	}
	/* the first message fills half of it, the second gives it back */
	for (unsigned int i = 0; i < 2; i++)
		duo_send(d, 0, UCCL_OPF_INJECT, src, 8, 0, NULL);
	duo_run(d, SECOND);
	assert_ptr_equal(duo_next(d, 1)->buf, dst);
	assert_int_equal(duo_next(d, 1)->flags & UCCL_OPF_MULTI, UCCL_OPF_MULTI);
	assert_null(duo_next(d, 1));
}

/* The peer dies while its requests wait for room. PROTOCOL R45 */
TEST(room__peer_dies)
{
	struct duo *d = duo_open();
	struct room r;

	duo_region(d, 1, 0, mem, sizeof(mem), BOTH);
	room_set(&r, d, 1);
	for (int i = 0; i < 4; i++)
		duo_rma(d, 0, UCCL_OP_WRITE, UCCL_OPF_DATA, src, i % 2 ? 300000 : 8, 0, 1, NULL);
	duo_run(d, SECOND);
	assert_true(uccl_msg_waits(&d->side[1].m));
	duo_fail(d, FI_EHOSTDOWN);
	assert_false(uccl_msg_waits(&d->side[1].m));
	r.all = 9;
	uccl_msg_retry(&d->side[1].m, d->now);
	assert_int_equal(d->side[1].events, 1);
	assert_int_equal(duo_waiting(d, 0), 4);
	d->side[0].ncomp = d->side[0].seen = 0;
	duo_all_done(d, 0);
}

#define CROWD 100

/* Requests of many peers wait for a receive that takes their data: each turn looks at a few, and in time at all. */
DUO_TEST(retry__steps_do_not_grow, duo_open())
{
	static const struct uccl_addr addr;
	static struct uccl_peer crowd[CROWD];
	struct uccl_msg_ep *m = &d->side[1].m;
	struct uccl_req req = {.kind = UCCL_RMA_WRITE};
	struct uccl_env env = {.tag = uccl_req_tag(&req), .flags = UCCL_ENV_EAGER | UCCL_ENV_DATA, .id = 9};
	struct uccl_peer_list *blocked = &m->serve.blocked[UCCL_BLOCK_ROOM];
	bool first[CROWD] = {false};
	uint8_t rec[UCCL_REC_LEN];

	m->posted.data_takes = true;
	uccl_env_encode(rec, &env);
	for (int i = 0; i < CROWD; i++) {
		struct uccl_chunk_in in = {.rtype = UCCL_REC_REQ, .rec = rec, .data = rec};

		uccl_peer_init(&crowd[i], m, &addr);
		crowd[i].flow.user = &crowd[i];
		assert_int_equal(uccl_msg_flow_ops.deliver(&crowd[i].flow, &in, d->now), UCCL_DROP_COUNT);
		assert_int_equal(crowd[i].serve.blocked, UCCL_BLOCK_ROOM);
	}
	for (int i = 0; i < CROWD; i++) {
		uint64_t steps = m->match.steps;

		first[TAILQ_FIRST(blocked) - crowd] = true;
		uccl_msg_retry(m, d->now);
		assert_in_range(m->match.steps - steps, 1, 16);
	}
	/* Eight at a time, by turns. */
	for (int i = 0; i < CROWD; i++)
		assert_int_equal(first[i], i % 4 == 0);
	for (int i = 0; i < CROWD; i++)
		uccl_peer_fail(&crowd[i], FI_EIO, d->now);
	assert_true(TAILQ_EMPTY(blocked));
}

TESTS_MAIN
