/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Every allocation of every kind of operation fails in turn. Whatever fails, each operation that was posted ends once,
 * at both sides and in bounded time, payload of those that succeed is right, later messages pass or say why not, and
 * nothing leaks.
 */
#include "../tests.h"
#include "lan.h"

#include <stdlib.h>
#include <string.h>

#define SECOND UCCL_NS_PER_S
/* Retransmissions and a handshake need no longer. */
#define PATIENCE (30 * SECOND)

#ifdef HAVE_LANES
#define LANES_MOST LAN_LANES
#else
#define LANES_MOST 0
#endif

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FAILS 1

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);
void __libc_free(void *p);

/* Allocations until the first fails, 0: none does; and how many fail from then on. */
static uint32_t countdown, left;
/* What is allocated and not free. */
static int64_t live;

static bool fails(void)
{
	if (!countdown || lan_allocates || --countdown)
		return false;
	countdown = --left > 0;
	return true;
}

static void *counted(void *p)
{
	live += p != NULL;
	return p;
}

void *malloc(size_t n)
{
	return fails() ? NULL : counted(__libc_malloc(n));
}

void *calloc(size_t n, size_t size)
{
	return fails() ? NULL : counted(__libc_calloc(n, size));
}

void *realloc(void *p, size_t n)
{
	void *q = fails() ? NULL : __libc_realloc(p, n);

	live += !p && q;
	return q;
}

void *aligned_alloc(size_t alignment, size_t n)
{
	return fails() ? NULL : counted(__libc_memalign(alignment, n));
}

void free(void *p)
{
	live -= p != NULL;
	__libc_free(p);
}
#else
#define FAILS 0
static uint32_t countdown, left;
static int64_t live;
#endif

#define MOST 1000000u
#define OPS 24
#define SENT(i) LAN_CTX(100 + (i))
#define RECEIVED(i) LAN_CTX(200 + (i))

enum how { WAITING, LATE, CLAIMED, DISCARDED, MULTI };

struct kind {
	const char *name;
	uint32_t len;
	uint8_t n;	/* so many, at once */
	uint8_t type;
	uint32_t flags;
	enum how how;	/* how messages meet receives */
	bool first;	/* no connection yet */
	bool named;	/* lanes have carried a message before: the next may leave over them at once */
	bool loss;
	bool self;	/* to the own endpoint */
	bool writes;	/* NICs write remote memory */
	bool back;	/* operations of both directions at once */
};

/* Print one line for each: a cause is often seen from several. */
static uint32_t nwrong;
#define wrong(k, nth, text, ...)                                                                       \
	(print_error("%s: allocation %u fails: " text "\n", (k)->name, nth, __VA_ARGS__), nwrong++)

static uint8_t src[OPS * MOST], dst[OPS * MOST];

struct run {
	const struct kind *k;
	struct lan *l;
	bool sent[2][OPS], received[2][OPS];
};

static struct uccl_peer *peer(const struct run *r, int side)
{
	int to = r->k->self ? side : !side;

	return uccl_engine_peer(r->l->node[LAN_PRIMARY(side)].e, uccl_engine_addr(r->l->node[LAN_PRIMARY(to)].e), true);
}

static struct uccl_op *op_of(const struct run *r, int side, uint8_t type, uint32_t flags, const uint8_t *buf,
			     uint32_t len, void *context)
{
	struct uccl_op *op = lan_op(r->l, LAN_PRIMARY(side), type, flags, buf, len);

	if (!op)
		return NULL;
	op->peer = peer(r, side);
	op->context = context;
	op->tag = 5;
	if (op->peer)
		return op;
	uccl_op_put(r->l->node[LAN_PRIMARY(side)].e, op);
	return NULL;
}

/* True: it was posted. */
static bool posted(const struct run *r, int side, struct uccl_op *op)
{
	struct uccl_engine *e = r->l->node[LAN_PRIMARY(side)].e;
	int rc;

	if (!op)
		return false;
	if (op->type == UCCL_OP_RECV)
		rc = uccl_engine_recv(e, op, r->l->now);
	else if (op->type == UCCL_OP_SEND)
		rc = uccl_engine_send(e, op, r->l->now);
	else
		rc = uccl_engine_rma(e, op, r->l->now);
	if (rc)
		uccl_op_put(e, op);
	return !rc;
}

static bool post_send(const struct run *r, int side, int i)
{
	const struct kind *k = r->k;
	struct uccl_op *op = op_of(r, side, k->type, k->flags, src + i * MOST, k->len, SENT(i));
	struct iovec operand = { .iov_base = src, .iov_len = k->len };
	struct uccl_atomic_args args = { .operand = &operand, .compare = &operand, .noperand = 1,
					 .ncompare = k->type == UCCL_OP_COMPARE };

	if (op && k->type != UCCL_OP_SEND) {
		op->rma.nseg = 1;
		op->rma.seg[0] = (struct uccl_seg){ .len = k->len, .key = 1 };
		op->rma.datatype = 7; /* FI_UINT64 */
		op->rma.args = &args;
		if (k->type == UCCL_OP_READ || k->type == UCCL_OP_FETCH || k->type == UCCL_OP_COMPARE)
			op->iov[0].iov_base = dst + i * MOST;
		if (k->type == UCCL_OP_ATOMIC)
			op->iov_count = 0;
		if (k->type == UCCL_OP_COMPARE)
			op->rma.atomic = 13; /* FI_CSWAP */
	}
	return posted(r, side, op);
}

static bool post_recv(const struct run *r, int side, int i)
{
	uint32_t flags = UCCL_OPF_DIRECTED | (r->k->flags & UCCL_OPF_TAGGED);
	bool multi = r->k->how == MULTI;
	struct uccl_op *op = op_of(r, side, UCCL_OP_RECV, flags | (multi ? UCCL_OPF_MULTI : 0), dst + i * MOST,
				   multi ? r->k->n * r->k->len : r->k->len, RECEIVED(i));

	if (op)
		op->recv.min_multi = r->k->len;
	return posted(r, side, op);
}

/* Take what is there, or throw it away. True: a receive is posted. */
static bool peek(const struct run *r, int side, int i)
{
	struct uccl_engine *e = r->l->node[LAN_PRIMARY(side)].e;
	bool claim = r->k->how == CLAIMED;
	struct uccl_op *op = op_of(r, side, UCCL_OP_RECV, UCCL_OPF_DIRECTED | (r->k->flags & UCCL_OPF_TAGGED),
				   dst + i * MOST, r->k->len, RECEIVED(i));
	int rc;

	if (!op)
		return false;
	rc = uccl_engine_peek(e, op, claim, !claim, r->l->now);
	if (!rc && claim)
		rc = uccl_engine_recv_claimed(e, op, false, r->l->now);
	else
		rc = -FI_ENOMSG;
	if (rc)
		uccl_op_put(e, op);
	return !rc;
}

static void receives(struct run *r, int side)
{
	const struct kind *k = r->k;
	bool *done = r->received[side];

	for (int i = 0; k->type == UCCL_OP_SEND && i < (k->how == MULTI ? 1 : k->n); i++) {
		done[i] = false;
		if (k->how == CLAIMED || k->how == DISCARDED)
			done[i] = peek(r, side, i);
		else
			/* A program tries again until it has posted its receive. */
			while (!done[i])
				done[i] = post_recv(r, side, i);
	}
}

static void operations(struct run *r)
{
	const struct kind *k = r->k;
	int to = k->self ? 0 : 1;

	for (int lane_peer = 0; lane_peer <= k->back; lane_peer++) {
		if (k->how == WAITING || k->how == MULTI)
			receives(r, to ^ lane_peer);
		for (int i = 0; i < k->n; i++)
			r->sent[lane_peer][i] = post_send(r, lane_peer, i);
	}
	lan_run(r->l, PATIENCE);
	if (k->how == WAITING || k->how == MULTI)
		return;
	for (int lane_peer = 0; lane_peer <= k->back; lane_peer++)
		receives(r, to ^ lane_peer);
	lan_run(r->l, PATIENCE);
}

/*
 * How often it ended; of a multi-receive, how many messages came (`children`), and how often the buffer was
 * released.
 */
static int ends(const struct run *r, int side, const void *context, bool children, int *err)
{
	const struct lan_node *node = &r->l->node[LAN_PRIMARY(side)];
	int n = 0;

	for (int i = 0; i < node->ncomp; i++) {
		const struct lan_comp *c = &node->comp[i];
		bool child = c->flags & UCCL_OPF_CHILD;

		if (c->context != context || (children ? !child : child && !(c->flags & UCCL_OPF_MULTI)))
			continue;
		*err = c->err;
		n++;
	}
	return n;
}

static void check_sends(const struct run *r, int side, uint32_t nth)
{
	for (int i = 0; i < r->k->n; i++) {
		int err = 0, n = r->sent[side][i] ? ends(r, side, SENT(i), false, &err) : 0;

		if (n != r->sent[side][i])
			wrong(r->k, nth, "operation %d of side %d ends %d times", i, side, n);
		if (err && err != FI_ENOMEM)
			wrong(r->k, nth, "operation %d of side %d has error %d", i, side, err);
	}
}

/* Messages meet receives in order; one that could not be posted leaves a receive over. */
static void check_receives(const struct run *r, int side, uint32_t nth)
{
	const struct kind *k = r->k;
	int sender = k->self ? side : !side, next = 0, err;

	for (int i = 0; i < k->n; i++) {
		int met = 0;

		while (next < k->n && !r->sent[sender][next])
			next++;
		if (!r->received[side][i])
			continue;
		err = 0;
		met = ends(r, side, RECEIVED(i), k->how == MULTI, &err);
		if (k->how == MULTI) {
			for (int j = 0; j < k->n && !err; j++)
				met -= r->sent[sender][j];
		} else if (next < k->n) {
			met -= 1;
		}
		if (err && err != FI_ENOMEM)
			wrong(k, nth, "receive %d of side %d has error %d", i, side, err);
		if (met < 0)
			wrong(k, nth, "receive %d of side %d waits", i, side);
		if (!err && !met && k->how != MULTI && next < k->n &&
		    memcmp(dst + i * MOST, src + next * MOST, k->len))
			wrong(k, nth, "message %d has wrong bytes", next);
		next++;
		uccl_engine_cancel(r->l->node[LAN_PRIMARY(side)].e, RECEIVED(i), r->l->now);
		met = ends(r, side, RECEIVED(i), false, &err);
		if (met != 1)
			wrong(k, nth, "receive %d of side %d ends %d times", i, side, met);
	}
}

static void check(const struct run *r, uint32_t nth)
{
	for (int side = 0; side < 2; side++) {
		check_sends(r, side, nth);
		check_receives(r, side, nth);
	}
}

/* What comes later arrives, or both sides know why not. */
static void later(const struct run *r, uint32_t nth)
{
	static const struct kind small = { .name = "", .len = 100, .n = 1, .type = UCCL_OP_SEND };
	struct run after = { .k = &small, .l = r->l };
	struct conn *c[2];
	int err = 0;

	if (r->k->self)
		return;
	for (int side = 0; side < 2; side++)
		r->l->node[LAN_PRIMARY(side)].ncomp = r->l->node[LAN_PRIMARY(side)].seen = 0;
	for (int side = 0; side < 2; side++)
		c[side] = lan_conn(r->l, LAN_PRIMARY(side), LAN_PRIMARY(!side));
	if (!c[0]->peer.dead != !c[1]->peer.dead && c[!!c[0]->peer.dead]->peer.open)
		wrong(r->k, nth, "%s does not know of the end", c[0]->peer.dead ? "side 1" : "side 0");
	if (c[0]->peer.dead || c[1]->peer.dead)
		return;
	operations(&after);
	check(&after, nth);
	if (!ends(&after, 1, RECEIVED(0), false, &err) || err)
		wrong(r->k, nth, "a later message does not arrive (%d)", err);
}

/* False: there are not so many allocations. */
static bool one(const struct kind *k, uint8_t lanes, uint32_t nth, uint32_t times)
{
	static const struct kind talk = { .name = "", .len = 100, .n = 1, .type = UCCL_OP_SEND, .back = true };
	static const struct kind large = { .name = "", .len = MOST, .n = 2, .type = UCCL_OP_SEND };
	struct run r = { .k = &talk, .l = lan_new() };
	bool failed;

	for (int side = 0; side < 2; side++) {
		r.l->node[LAN_PRIMARY(side)].target = &lan_target;
		lan_side_open(r.l, side, lanes, k->writes);
	}
	if (!k->first)
		operations(&r);
	r.k = &large;
	if (k->named)
		operations(&r);
	for (int side = 0; side < 2; side++)
		r.l->node[LAN_PRIMARY(side)].ncomp = r.l->node[LAN_PRIMARY(side)].seen = 0;
	memset(dst, 0, k->n * MOST);
	memset(&r.sent, 0, sizeof(r.sent));
	memset(&r.received, 0, sizeof(r.received));
	r.k = k;
	r.l->filter = k->loss ? lan_lossy : NULL;
	countdown = nth;
	left = times;
	operations(&r);
	failed = left < times;
	countdown = 0;
	r.l->filter = NULL;
	check(&r, nth);
	later(&r, nth);
	lan_free(r.l);
	return failed;
}

static void sweep_of(const struct kind *k, uint8_t lanes, uint32_t times)
{
	uint32_t nth = 1;
	int64_t before;
	bool failed;

	/* What the C library and cmocka keep. */
	one(k, lanes, 0, 0);
	do {
		before = live;
		failed = one(k, lanes, nth, times);
		if (live != before)
			wrong(k, nth, "%lld blocks are not freed", (long long)(live - before));
	} while (failed && nth++);
	assert_int_equal(nwrong, 0);
}

/* Each allocation fails alone, and with those that follow it. One operation alone, too: nothing else wakes it up. */
static void sweep(const struct kind *k, uint8_t lanes)
{
	struct kind alone = *k;

	alone.n = 1;
	for (uint32_t times = 1; times <= 5; times += 4) {
		sweep_of(k, lanes, times);
		sweep_of(&alone, lanes, times);
	}
}

/* PROTOCOL R41 R311 R312 */
TEST(message__at_primary)
{
	static const struct kind kinds[] = {
		{ .name = "first message", .len = 100, .n = 1, .type = UCCL_OP_SEND, .first = true },
		{ .name = "first messages of both", .len = 100, .n = 2, .type = UCCL_OP_SEND, .first = true,
		  .back = true },
		{ .name = "eager", .len = 60000, .n = 3, .type = UCCL_OP_SEND },
		{ .name = "tagged", .len = 30000, .n = 3, .type = UCCL_OP_SEND, .flags = UCCL_OPF_TAGGED },
		{ .name = "injected", .len = 4000, .n = 3, .type = UCCL_OP_SEND, .flags = UCCL_OPF_INJECT },
		{ .name = "early", .len = 16000, .n = 3, .type = UCCL_OP_SEND, .flags = UCCL_OPF_EARLY },
		{ .name = "delivered", .len = 60000, .n = 3, .type = UCCL_OP_SEND, .flags = UCCL_OPF_DELIVERY },
		{ .name = "rendezvous", .len = 300000, .n = 3, .type = UCCL_OP_SEND, .flags = UCCL_OPF_TAGGED },
		{ .name = "written", .len = 300000, .n = 3, .type = UCCL_OP_SEND, .writes = true },
		{ .name = "both ways", .len = 100000, .n = 3, .type = UCCL_OP_SEND, .back = true },
		{ .name = "many", .len = 1000, .n = OPS, .type = UCCL_OP_SEND },
		{ .name = "multi-receive", .len = 3000, .n = 8, .type = UCCL_OP_SEND, .how = MULTI },
		{ .name = "large multi-receive", .len = 100000, .n = 4, .type = UCCL_OP_SEND, .how = MULTI },
		{ .name = "eager with loss", .len = 60000, .n = 8, .type = UCCL_OP_SEND, .loss = true },
		{ .name = "rendezvous with loss", .len = 200000, .n = 4, .type = UCCL_OP_SEND, .loss = true },
		{ .name = "to itself", .len = 5000, .n = 2, .type = UCCL_OP_SEND, .self = true },
	};

	for (size_t i = 0; i < uccl_array_len(kinds); i++)
		sweep(&kinds[i], 0);
}

TEST(message__unexpected)
{
	static const struct kind kinds[] = {
		{ .name = "late", .len = 3000, .n = 8, .type = UCCL_OP_SEND, .how = LATE },
		{ .name = "large, late", .len = 300000, .n = 3, .type = UCCL_OP_SEND, .how = LATE },
		{ .name = "late with loss", .len = 60000, .n = 6, .type = UCCL_OP_SEND, .how = LATE, .loss = true },
		{ .name = "claimed", .len = 50000, .n = 3, .type = UCCL_OP_SEND, .how = CLAIMED },
		{ .name = "large, claimed", .len = 300000, .n = 3, .type = UCCL_OP_SEND, .how = CLAIMED,
		  .flags = UCCL_OPF_TAGGED },
		{ .name = "discarded", .len = 50000, .n = 3, .type = UCCL_OP_SEND, .how = DISCARDED },
		{ .name = "large, discarded", .len = 300000, .n = 3, .type = UCCL_OP_SEND, .how = DISCARDED },
		{ .name = "to itself, late", .len = 5000, .n = 2, .type = UCCL_OP_SEND, .how = LATE, .self = true },
	};

	for (size_t i = 0; i < uccl_array_len(kinds); i++)
		for (uint8_t lanes = 0; lanes <= LANES_MOST; lanes += LAN_LANES)
			sweep(&kinds[i], lanes);
}

#ifdef HAVE_LANES
TEST(message__over_lanes)
{
	static const struct kind kinds[] = {
		{ .name = "first message, lanes", .len = 100, .n = 1, .type = UCCL_OP_SEND, .first = true,
		  .back = true },
		{ .name = "first large messages", .len = 500000, .n = 2, .type = UCCL_OP_SEND, .first = true },
		{ .name = "eager, lanes", .len = 60000, .n = 8, .type = UCCL_OP_SEND },
		{ .name = "behind CTS", .len = MOST, .n = 2, .type = UCCL_OP_SEND },
		{ .name = "ahead of CTS", .len = 200000, .n = 3, .type = UCCL_OP_SEND, .named = true },
		{ .name = "ahead of CTS, more behind", .len = MOST, .n = 3, .type = UCCL_OP_SEND, .named = true },
		{ .name = "ahead of CTS, delivered", .len = 200000, .n = 3, .type = UCCL_OP_SEND, .named = true,
		  .flags = UCCL_OPF_DELIVERY },
		{ .name = "ahead of CTS, both ways", .len = 200000, .n = 3, .type = UCCL_OP_SEND, .named = true,
		  .back = true },
		{ .name = "ahead of CTS, late", .len = 200000, .n = 3, .type = UCCL_OP_SEND, .named = true,
		  .how = LATE },
		{ .name = "ahead of CTS, claimed", .len = 300000, .n = 2, .type = UCCL_OP_SEND, .named = true,
		  .how = CLAIMED },
		{ .name = "ahead of CTS, discarded", .len = 300000, .n = 2, .type = UCCL_OP_SEND, .named = true,
		  .how = DISCARDED },
		{ .name = "ahead of CTS with loss", .len = 200000, .n = 3, .type = UCCL_OP_SEND, .named = true,
		  .loss = true },
		{ .name = "multi-receive, lanes", .len = 200000, .n = 4, .type = UCCL_OP_SEND, .how = MULTI,
		  .named = true },
	};

	for (size_t i = 0; i < uccl_array_len(kinds); i++)
		sweep(&kinds[i], LAN_LANES);
}

/* An engine that is to be a lane opens, or says that there is no memory and leaves nothing behind. */
TEST(lane__opens)
{
	struct uccl_lane_channel *channel = uccl_lanes_built()->channel_new(NULL, NULL, NULL);
	struct lan *l = lan_new();
	uint32_t nth = 0;
	int64_t before;

	assert_non_null(channel);
	l->node[0].lane_channel = channel;
	do {
		before = live;
		countdown = ++nth;
		left = 1;
		if (!lan_try_open(l, 0))
			break;
		assert_null(l->node[0].e);
		assert_null(l->node[0].nic);
		assert_int_equal(live, before);
	} while (nth < 100);
	countdown = 0;
	/* That of the lane's own part failed, too. */
	assert_true((!FAILS || nth > 2) && nth < 100);
	assert_non_null(l->node[0].e->msg_ep.lane);
	lan_free(l);
	uccl_lanes_built()->channel_free(channel);
}
#endif

TEST(rma__each)
{
	static const struct kind kinds[] = {
		{ .name = "write", .len = 100, .n = 4, .type = UCCL_OP_WRITE },
		{ .name = "injected write", .len = 3000, .n = 4, .type = UCCL_OP_WRITE, .flags = UCCL_OPF_INJECT },
		{ .name = "write in order", .len = 60000, .n = 4, .type = UCCL_OP_WRITE },
		{ .name = "large write", .len = 300000, .n = 3, .type = UCCL_OP_WRITE },
		{ .name = "large direct write", .len = 300000, .n = 3, .type = UCCL_OP_WRITE, .writes = true },
		{ .name = "write with loss", .len = 60000, .n = 6, .type = UCCL_OP_WRITE, .loss = true },
		{ .name = "read", .len = 100, .n = 4, .type = UCCL_OP_READ },
		{ .name = "large read", .len = 300000, .n = 3, .type = UCCL_OP_READ },
		{ .name = "large direct read", .len = 300000, .n = 3, .type = UCCL_OP_READ, .writes = true },
		{ .name = "read with loss", .len = 100000, .n = 4, .type = UCCL_OP_READ, .loss = true },
		{ .name = "atomic", .len = 64, .n = 4, .type = UCCL_OP_ATOMIC },
		{ .name = "fetching atomic", .len = 64, .n = 4, .type = UCCL_OP_FETCH },
		{ .name = "large fetching atomic", .len = 40000, .n = 3, .type = UCCL_OP_FETCH },
		{ .name = "comparing atomic", .len = 800, .n = 3, .type = UCCL_OP_COMPARE },
		{ .name = "large comparing atomic with loss", .len = 24000, .n = 4, .type = UCCL_OP_COMPARE,
		  .loss = true },
		{ .name = "write to itself", .len = 5000, .n = 2, .type = UCCL_OP_WRITE, .self = true },
		{ .name = "fetching atomic of itself", .len = 800, .n = 2, .type = UCCL_OP_FETCH, .self = true },
	};

	for (size_t i = 0; i < uccl_array_len(kinds); i++)
		for (uint8_t lanes = 0; lanes <= LANES_MOST; lanes += LAN_LANES)
			sweep(&kinds[i], kinds[i].writes ? 0 : lanes);
}

TESTS_MAIN
