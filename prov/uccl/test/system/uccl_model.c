/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Random calls of the API against a model that knows the rules.
 *
 *   uccl_model [CALLS [SEED [THREADS]]]	(20000 1, with one thread and then with four)
 *
 * Some endpoints of one process talk to each other and to themselves over a bad network (FI_UCCL_FAULT, a default if
 * it is not set). After every few hundred calls everything must come to rest, and then
 *
 * - every operation has had one completion, with the flags, length, tag, data and source that it must have, and every
 *   byte that it moved is right, and no other; every message went to one receive that takes it;
 * - of two messages of one sender that a receive takes it got the earlier one, unless that had one posted before;
 * - messages in a multi-receive buffer are in their order, do not overlap, and the buffer was given back once;
 * - remote memory is what the operations make of it in the order in which they were posted, and what came back, too;
 * - what must be refused was, with the right error, and counters have counted.
 *
 * The last line tells what was done; the exit status is 0 if all of it held.
 */
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_uccl.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/prov.h"
#include "base/rng.h"
#include "base/units.h"

#define API FI_VERSION(1, 17)
#define NODES 4
#define OPS 512			/* of a node, open at once */
#define EPOCH 400		/* calls between two rests */
#define MSGS (EPOCH * 2)	/* of a pair in an epoch: calls, and those that a rest adds */
#define INJECT_MAX 4096
#define LARGE_MAX 200000
#define SLICE 8192		/* of a node's memory for each node: operations there are ordered */
#define TAGS 4
#define PATIENCE_S 120
#define ANYBODY (-1)

enum kind { SEND, RECV, WRITE, READ, ATOMIC, PEEK, REFUSED };

struct msg {
	uint64_t id;
	int from, to;
	bool tagged, has_data;
	uint64_t tag;
	size_t len;
	bool gone;		/* somebody got it, */
	bool discarded;		/* or asked that nobody does */
	uint64_t recv_no;	/* which receive, in the order of posting */
	uint64_t recv_tag, recv_ignore;
	int recv_from;
	size_t place;		/* where in a multi-receive buffer */
};

struct op {
	struct fi_context2 context; /* first: the provider hands it back */
	enum kind kind;
	bool open, multi, wild, canceled;
	int node, peer;
	int err;		/* REFUSED: what must come */
	uint64_t no;		/* RECV: in the order of posting */
	bool tagged;
	uint64_t tag, ignore, flags;
	uint8_t *buf, *want;	/* READ, fetching ATOMIC: what must come back */
	size_t len;
	uint64_t v[16], cmp[16]; /* ATOMIC: the operands */
};

struct node {
	pthread_mutex_t lock;	/* of all that is here, and around posting */
	struct fid_ep *ep;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_cntr *cntr;
	struct fid_mr *mr;
	uint8_t name[FI_UCCL_ADDR_LEN];
	fi_addr_t addr[NODES];
	struct op ops[OPS];
	uint64_t recvs;
	uint64_t posted;	/* sends and operations on remote memory that end in a count */
	uint8_t *mem, *shadow;	/* NODES slices, */
	unsigned int anonymous[2]; /* discarded without a look at which */
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct node nodes[NODES];
/* Of each sender and receiver in this epoch, in the order of sending; under the receiver's lock. */
static struct msg msgs[NODES][NODES][MSGS];
static unsigned int nmsgs[NODES][NODES];
static _Atomic uint64_t calls, completions, refusals, messages, remote, discards;
static uint64_t calls_max = 20000, seed = 1;
static int threads = 1;
static pthread_barrier_t barrier;

static void fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "uccl_model: seed %llu, call %llu: ", (unsigned long long)seed, (unsigned long long)calls);
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	abort();
}

#define must(cond, ...)                                                                                                \
	do {                                                                                                           \
		if (!(cond))                                                                                           \
			fail(__VA_ARGS__);                                                                             \
	} while (0)

#define call(rc, want)                                                                                                 \
	do {                                                                                                           \
		long long rc_ = (rc);                                                                                  \
		must(rc_ == (want), "%s: %lld, not %lld", #rc, rc_, (long long)(want));                                \
	} while (0)

static uint64_t seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec;
}

/* Byte k of message `id`: its first eight are the number itself. */
static uint8_t byte_of(uint64_t id, size_t k)
{
	if (k < 8)
		return (uint8_t)(id >> 8 * k);
	return (uint8_t)((id * 0x9e3779b97f4a7c15ull + k) * 0xff51afd7ed558ccdull >> 56);
}

/* ids: sender, receiver, place in the epoch's list, and the epoch, so that none comes twice */
static uint64_t epoch;

static uint64_t id_of(int from, int to, unsigned int i)
{
	return epoch << 32 | (uint64_t)from << 28 | (uint64_t)to << 24 | i;
}

static struct op *op_new(struct node *n, enum kind kind)
{
	for (int i = 0; i < OPS; i++) {
		struct op *op = &n->ops[i];

		if (op->open)
			continue;
		memset(op, 0, sizeof(*op));
		op->open = true;
		op->kind = kind;
		op->node = (int)(n - nodes);
		return op;
	}
	return NULL;
}

static void op_end(struct op *op)
{
	free(op->buf);
	free(op->want);
	op->buf = op->want = NULL;
	op->open = false;
}

/* ---- completions */

static struct msg *msg_of(uint64_t id, int to)
{
	int from = (int)(id >> 28 & 15);
	unsigned int i = (unsigned int)(id & 0xffffff);

	must(id >> 32 == epoch && (int)(id >> 24 & 15) == to && from < NODES && i < nmsgs[from][to],
	     "node %d got message %llx, which nobody sent", to, (unsigned long long)id);
	return &msgs[from][to][i];
}

static void check_source(const struct node *n, int from, fi_addr_t src)
{
	must(src == n->addr[from], "source %llu, not %llu", (unsigned long long)src,
	     (unsigned long long)n->addr[from]);
}

static void msg_came(struct node *n, struct op *op, const struct fi_cq_err_entry *e, fi_addr_t src)
{
	size_t room = op->len;
	const uint8_t *at = op->multi ? e->buf : op->buf;
	uint64_t id = 0;
	struct msg *m;

	if (e->flags & FI_REMOTE_CQ_DATA)
		id = e->data;
	else
		for (int k = 0; k < 8; k++)
			id |= (uint64_t)at[k] << 8 * k;
	m = msg_of(id, op->node);
	must(!m->gone, "message %llx came twice", (unsigned long long)id);
	must(m->tagged == op->tagged, "message %llx met a receive of the other kind", (unsigned long long)id);
	must(!op->tagged || !((m->tag ^ op->tag) & ~op->ignore), "tag %llx for %llx but %llx",
	     (unsigned long long)m->tag, (unsigned long long)op->tag, (unsigned long long)op->ignore);
	must(!op->tagged || e->err || e->tag == m->tag, "tag %llx told of %llx", (unsigned long long)e->tag,
	     (unsigned long long)m->tag);
	must(op->peer == ANYBODY || op->peer == m->from, "a message of %d for a receive from %d", m->from, op->peer);
	must(m->has_data == !!(e->flags & FI_REMOTE_CQ_DATA), "message %llx: flags %llx", (unsigned long long)id,
	     (unsigned long long)e->flags);
	if (!e->err)
		check_source(n, m->from, src);
	if (op->multi) {
		m->place = (size_t)(at - op->buf);
		/* Completions of one buffer may come in any order; places are checked when all is at rest. */
		must(at >= op->buf && m->place <= op->len, "a message outside of its buffer");
		room = op->len - m->place;
	}
	must(e->len == (m->len < room ? m->len : room), "message of %zu in %zu: %zu bytes", m->len, room, e->len);
	must(e->err == (m->len > room ? FI_ETRUNC : 0) && (!e->err || e->olen == m->len - room),
	     "message of %zu in %zu: error %d, %zu over", m->len, room, e->err, e->olen);
	for (size_t k = 0; k < e->len; k++)
		must(at[k] == byte_of(id, k), "message %llx: byte %zu is wrong", (unsigned long long)id, k);
	m->gone = true;
	m->recv_no = op->no;
	m->recv_tag = op->tag;
	m->recv_ignore = op->ignore;
	m->recv_from = op->peer;
	messages++;
}

static void recv_ended(struct node *n, struct op *op, const struct fi_cq_err_entry *e, fi_addr_t src)
{
	if (e->err == FI_ECANCELED) {
		must(op->canceled, "canceled by nobody");
		must(!op->multi || e->flags & FI_MULTI_RECV, "a canceled buffer is not given back");
		op_end(op);
		return;
	}
	msg_came(n, op, e, src);
	if (!op->multi || e->flags & FI_MULTI_RECV)
		op_end(op);
}

/* A look at the messages that nobody has received yet. */
static void peek_ended(struct node *n, struct op *op, const struct fi_cq_err_entry *e)
{
	if (e->err == FI_ENOMSG) {
		op_end(op);
		return;
	}
	must(!e->err, "a look failed: %d", e->err);
	if (e->flags & FI_REMOTE_CQ_DATA) {
		struct msg *m = msg_of(e->data, op->node);

		must(!m->gone && m->len == e->len && m->tagged == op->tagged, "a look found %llx",
		     (unsigned long long)e->data);
		m->gone = m->discarded = op->flags & FI_DISCARD;
	} else if (op->flags & FI_DISCARD) {
		n->anonymous[op->tagged]++;
	}
	if (op->flags & FI_DISCARD)
		discards++;
	op_end(op);
}

static void ended(struct node *n, const struct fi_cq_err_entry *e, fi_addr_t src)
{
	struct op *op = e->op_context;

	/* fi_inject and its like have none */
	must(op, "a completion without context: error %d", e->err);
	must(op->open && op->node == (int)(n - nodes), "a completion of what is not open");
	completions++;
	switch (op->kind) {
	case RECV:
		recv_ended(n, op, e, src);
		break;
	case PEEK:
		peek_ended(n, op, e);
		break;
	case REFUSED:
		must(e->err == op->err, "error %d, not %d", e->err, op->err);
		refusals++;
		op_end(op);
		break;
	case READ:
	case ATOMIC:
		must(!e->err && (!op->want || !memcmp(op->buf, op->want, op->len)),
		     "error %d, or what came back is not what was there", e->err);
		op_end(op);
		break;
	default:
		must(!e->err, "%s failed: %d", op->kind == SEND ? "a send" : "a write", e->err);
		must(e->flags & (op->kind == SEND ? FI_SEND : FI_WRITE), "flags %llx", (unsigned long long)e->flags);
		op_end(op);
	}
}

/* Read what is there; how many. */
static int drain(struct node *n, int timeout)
{
	struct fi_cq_tagged_entry e[8];
	struct fi_cq_err_entry err;
	fi_addr_t src[8];
	int got = 0;
	ssize_t rc;

	/* Completions are read under the lock: their order is that in which the model hears of them. */
	pthread_mutex_lock(&n->lock);
	if (timeout)
		rc = fi_cq_sreadfrom(n->cq, e, 8, src, NULL, timeout);
	else
		rc = fi_cq_readfrom(n->cq, e, 8, src);
	if (rc == -FI_EAVAIL) {
		memset(&err, 0, sizeof(err));
		call(fi_cq_readerr(n->cq, &err, 0), 1);
		ended(n, &err, FI_ADDR_NOTAVAIL);
		got = 1;
	} else {
		must(rc > 0 || rc == -FI_EAGAIN, "fi_cq_read: %zd", rc);
	}
	for (ssize_t i = 0; i < rc; i++, got++) {
		err = (struct fi_cq_err_entry){
			.op_context = e[i].op_context, .flags = e[i].flags, .len = e[i].len, .buf = e[i].buf,
			.data = e[i].data, .tag = e[i].tag,
		};
		/* remote CQ data of a write: no operation of ours */
		if (e[i].flags & FI_REMOTE_WRITE)
			must(e[i].flags == (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA) && !e[i].op_context,
			     "flags %llx", (unsigned long long)e[i].flags);
		else
			ended(n, &err, src[i]);
	}
	pthread_mutex_unlock(&n->lock);
	return got;
}

static void drain_all(void)
{
	for (int i = 0; i < NODES; i++)
		while (drain(&nodes[i], 0))
			;
}

/* ---- calls */

static size_t some_len(struct uccl_rng *r, size_t least)
{
	static const size_t most[] = { 8, 64, 512, 4096, 4096, 9000, 30000, 70000, LARGE_MAX };
	size_t top = most[uccl_rng_below(r, sizeof(most) / sizeof(most[0]))];

	return top < least ? least : least + uccl_rng_below(r, top - least + 1);
}

/* The same bytes in up to four pieces. */
static size_t cut(struct uccl_rng *r, uint8_t *buf, size_t len, struct iovec iov[4])
{
	size_t n = 1 + uccl_rng_below(r, 4), at = 0;

	for (size_t i = 0; i < n; i++) {
		size_t part = i + 1 == n ? len - at : uccl_rng_below(r, len - at + 1);

		iov[i] = (struct iovec){ .iov_base = buf + at, .iov_len = part };
		at += part;
	}
	return n;
}

/* Lock two nodes, always in the same order. */
static void lock_two(struct node *a, struct node *b)
{
	pthread_mutex_lock(a < b ? &a->lock : &b->lock);
	if (a != b)
		pthread_mutex_lock(a < b ? &b->lock : &a->lock);
}

static void unlock_two(struct node *a, struct node *b)
{
	pthread_mutex_unlock(&a->lock);
	if (a != b)
		pthread_mutex_unlock(&b->lock);
}

static ssize_t post_send(struct uccl_rng *r, struct node *n, struct msg *m, struct op *op, struct op **ends)
{
	struct iovec iov[4] = { { .iov_base = op->buf, .iov_len = m->len } };
	fi_addr_t to = n->addr[m->to];
	uint64_t level = (uint64_t[]){ 0, FI_DELIVERY_COMPLETE, FI_TRANSMIT_COMPLETE, FI_INJECT_COMPLETE }
			 [uccl_rng_below(r, 4)];

	*ends = op;
	if (m->len <= INJECT_MAX && !uccl_rng_below(r, 3)) {
		*ends = NULL; /* the buffer is free at once, and no completion comes */
		if (m->tagged)
			return m->has_data ? fi_tinjectdata(n->ep, op->buf, m->len, m->id, to, m->tag)
					   : fi_tinject(n->ep, op->buf, m->len, to, m->tag);
		return m->has_data ? fi_injectdata(n->ep, op->buf, m->len, m->id, to)
				   : fi_inject(n->ep, op->buf, m->len, to);
	}
	if (uccl_rng_below(r, 2)) {
		size_t count = cut(r, op->buf, m->len, iov);
		struct fi_msg_tagged t = { .msg_iov = iov, .iov_count = count, .addr = to, .tag = m->tag,
					   .context = op, .data = m->id };
		struct fi_msg u = { .msg_iov = iov, .iov_count = count, .addr = to, .context = op, .data = m->id };
		uint64_t flags = level | (m->has_data ? FI_REMOTE_CQ_DATA : 0) |
				 (!uccl_rng_below(r, 20) ? FI_FENCE : 0);

		return m->tagged ? fi_tsendmsg(n->ep, &t, flags) : fi_sendmsg(n->ep, &u, flags);
	}
	if (m->tagged)
		return m->has_data ? fi_tsenddata(n->ep, op->buf, m->len, NULL, m->id, to, m->tag, op)
				   : fi_tsend(n->ep, op->buf, m->len, NULL, to, m->tag, op);
	return m->has_data ? fi_senddata(n->ep, op->buf, m->len, NULL, m->id, to, op)
			   : fi_send(n->ep, op->buf, m->len, NULL, to, op);
}

static void call_send(struct uccl_rng *r, struct node *n)
{
	int from = (int)(n - nodes), to = (int)uccl_rng_below(r, NODES);
	struct op *op, *ends;
	struct msg *m;
	ssize_t rc;

	lock_two(n, &nodes[to]);
	op = nmsgs[from][to] < EPOCH ? op_new(n, SEND) : NULL;
	if (!op)
		goto out;
	m = &msgs[from][to][nmsgs[from][to]];
	*m = (struct msg){ .id = id_of(from, to, nmsgs[from][to]), .from = from, .to = to,
			   .tagged = uccl_rng_below(r, 2), .has_data = uccl_rng_below(r, 2),
			   .tag = uccl_rng_below(r, TAGS) };
	m->len = some_len(r, m->has_data ? 0 : 8);
	op->buf = malloc(m->len + 1);
	for (size_t k = 0; k < m->len; k++)
		op->buf[k] = byte_of(m->id, k);
	nmsgs[from][to]++;
	rc = post_send(r, n, m, op, &ends);
	must(!rc || rc == -FI_EAGAIN, "send: %zd", rc);
	if (rc)
		nmsgs[from][to]--;
	n->posted += !rc;
	if (rc || !ends)
		op_end(op);
out:
	unlock_two(n, &nodes[to]);
}

/* Under the node's lock. wild: takes all of its kind. */
static bool post_recv(struct uccl_rng *r, struct node *n, bool tagged, bool wild)
{
	struct op *op = op_new(n, RECV);
	struct iovec iov[4];
	fi_addr_t from;
	ssize_t rc;

	if (!op)
		return false;
	op->tagged = tagged;
	op->wild = wild;
	op->multi = !tagged && !wild && !uccl_rng_below(r, 6);
	op->peer = wild || uccl_rng_below(r, 2) ? ANYBODY : (int)uccl_rng_below(r, NODES);
	op->tag = uccl_rng_below(r, TAGS);
	op->ignore = wild ? ~0ull : uccl_rng_below(r, 3) ? 0 : uccl_rng_below(r, TAGS);
	op->len = wild ? LARGE_MAX : op->multi ? 20000 + uccl_rng_below(r, 60000) : some_len(r, 8);
	/* A multi-receive buffer must have room for a number: it is given back before less than that is left. */
	op->buf = malloc(op->len + 8);
	memset(op->buf, 0xee, op->len + 8);
	op->no = n->recvs++;
	from = op->peer == ANYBODY ? FI_ADDR_UNSPEC : n->addr[op->peer];
	if (op->multi) {
		struct fi_msg m = { .msg_iov = iov, .iov_count = 1, .addr = from, .context = op };

		iov[0] = (struct iovec){ .iov_base = op->buf, .iov_len = op->len };
		rc = fi_recvmsg(n->ep, &m, FI_MULTI_RECV);
	} else if (uccl_rng_below(r, 3)) {
		rc = tagged ? fi_trecv(n->ep, op->buf, op->len, NULL, from, op->tag, op->ignore, op)
			    : fi_recv(n->ep, op->buf, op->len, NULL, from, op);
	} else {
		size_t count = cut(r, op->buf, op->len, iov);

		rc = tagged ? fi_trecvv(n->ep, iov, NULL, count, from, op->tag, op->ignore, op)
			    : fi_recvv(n->ep, iov, NULL, count, from, op);
	}
	must(!rc || rc == -FI_EAGAIN, "receive: %zd", rc);
	if (rc)
		op_end(op);
	return !rc;
}

static void call_recv(struct uccl_rng *r, struct node *n)
{
	pthread_mutex_lock(&n->lock);
	post_recv(r, n, uccl_rng_below(r, 2), false);
	pthread_mutex_unlock(&n->lock);
}

static void call_cancel(struct uccl_rng *r, struct node *n)
{
	struct op *op;

	pthread_mutex_lock(&n->lock);
	op = &n->ops[uccl_rng_below(r, OPS)];
	if (op->open && op->kind == RECV && !op->canceled) {
		ssize_t rc = fi_cancel(&n->ep->fid, op);

		must(!rc || rc == -FI_ENOENT, "cancel: %zd", rc);
		op->canceled = !rc;
	}
	pthread_mutex_unlock(&n->lock);
}

static void call_peek(struct uccl_rng *r, struct node *n)
{
	struct op *op;
	ssize_t rc;

	pthread_mutex_lock(&n->lock);
	op = op_new(n, PEEK);
	if (op) {
		struct fi_msg_tagged t = { .addr = FI_ADDR_UNSPEC, .context = op };
		struct fi_msg u = { .addr = FI_ADDR_UNSPEC, .context = op };

		op->peer = ANYBODY;
		op->tagged = uccl_rng_below(r, 2);
		t.tag = op->tag = uccl_rng_below(r, TAGS);
		op->flags = FI_PEEK | (uccl_rng_below(r, 2) ? FI_DISCARD : 0);
		rc = op->tagged ? fi_trecvmsg(n->ep, &t, op->flags) : fi_recvmsg(n->ep, &u, op->flags);
		must(!rc || rc == -FI_EAGAIN, "peek: %zd", rc);
		if (rc)
			op_end(op);
	}
	pthread_mutex_unlock(&n->lock);
}

/* ---- remote memory. Slice i of a node is node i's, so what it does there happens in its order. */

static uint64_t slice_of(const struct op *op, size_t at)
{
	return (uint64_t)op->node * SLICE + at;
}

static void fill_random(struct uccl_rng *r, uint8_t *p, size_t len)
{
	for (size_t k = 0; k < len; k++)
		p[k] = (uint8_t)uccl_rng_next(r);
}

static ssize_t post_write(struct uccl_rng *r, struct node *n, struct op *op, struct node *t, size_t at, bool *ends)
{
	uint64_t key = (uint64_t)op->peer, off = slice_of(op, at);
	struct iovec iov[4];
	ssize_t rc;

	fill_random(r, op->buf, op->len);
	*ends = true;
	switch (uccl_rng_below(r, 4)) {
	case 0:
		rc = fi_write(n->ep, op->buf, op->len, NULL, n->addr[op->peer], off, key, op);
		break;
	case 1:
		rc = fi_writedata(n->ep, op->buf, op->len, NULL, 77, n->addr[op->peer], off, key, op);
		break;
	case 2: {
		size_t count = cut(r, op->buf, op->len, iov);

		rc = fi_writev(n->ep, iov, NULL, count, n->addr[op->peer], off, key, op);
		break;
	}
	default:
		*ends = op->len > INJECT_MAX;
		rc = *ends ? fi_write(n->ep, op->buf, op->len, NULL, n->addr[op->peer], off, key, op)
			   : fi_inject_write(n->ep, op->buf, op->len, n->addr[op->peer], off, key);
	}
	if (!rc)
		memcpy(t->shadow + off, op->buf, op->len);
	return rc;
}

static ssize_t post_read(struct uccl_rng *r, struct node *n, struct op *op, struct node *t, size_t at)
{
	uint64_t off = slice_of(op, at);
	struct iovec iov[4];
	size_t count = cut(r, op->buf, op->len, iov);

	op->want = malloc(op->len + 1);
	memcpy(op->want, t->shadow + off, op->len);
	return fi_readv(n->ep, iov, NULL, count, n->addr[op->peer], off, (uint64_t)op->peer, op);
}

/* Sums and exchanges of 64-bit numbers. */
static ssize_t post_atomic(struct uccl_rng *r, struct node *n, struct op *op, struct node *t, size_t at)
{
	uint64_t off = slice_of(op, at & ~(size_t)7), *v = op->v, *cmp = op->cmp, *mem = (uint64_t *)(t->shadow + off);
	size_t count = 1 + uccl_rng_below(r, 16);
	unsigned int what = uccl_rng_below(r, 3);
	fi_addr_t to = n->addr[op->peer];
	uint64_t key = (uint64_t)op->peer;
	ssize_t rc;

	op->len = count * 8;
	fill_random(r, (uint8_t *)v, sizeof(op->v));
	for (size_t i = 0; i < count; i++)
		cmp[i] = uccl_rng_below(r, 2) ? mem[i] : mem[i] + 1;
	if (what) {
		op->want = malloc(op->len);
		memcpy(op->want, mem, op->len);
	}
	if (!what)
		rc = fi_atomic(n->ep, v, count, NULL, to, off, key, FI_UINT64, FI_SUM, op);
	else if (what == 1)
		rc = fi_fetch_atomic(n->ep, v, count, NULL, op->buf, NULL, to, off, key, FI_UINT64, FI_SUM, op);
	else
		rc = fi_compare_atomic(n->ep, v, count, NULL, cmp, NULL, op->buf, NULL, to, off, key, FI_UINT64,
				       FI_CSWAP, op);
	for (size_t i = 0; i < count && !rc; i++)
		mem[i] = what < 2 ? mem[i] + v[i] : mem[i] == cmp[i] ? v[i] : mem[i];
	return rc;
}

static void call_remote(struct uccl_rng *r, struct node *n)
{
	enum kind kind = (enum kind[]){ WRITE, READ, ATOMIC }[uccl_rng_below(r, 3)];
	int to = (int)uccl_rng_below(r, NODES);
	struct node *t = &nodes[to];
	size_t at = uccl_rng_below(r, SLICE - 256);
	bool ends = true;
	struct op *op;
	ssize_t rc;

	lock_two(n, t);
	op = op_new(n, kind);
	if (!op)
		goto out;
	op->peer = to;
	op->len = uccl_rng_below(r, uccl_rng_below(r, 4) ? 128 : (uint32_t)(SLICE - at) + 1);
	op->buf = calloc(1, op->len + 256);
	if (kind == WRITE)
		rc = post_write(r, n, op, t, at, &ends);
	else
		rc = kind == READ ? post_read(r, n, op, t, at) : post_atomic(r, n, op, t, at);
	must(!rc || rc == -FI_EAGAIN, "remote memory: %zd", rc);
	if (rc || !ends)
		op_end(op);
	remote += !rc;
out:
	unlock_two(n, t);
}

/* What must fail, at once or later, and hurt nobody. */
static void call_wrong(struct uccl_rng *r, struct node *n)
{
	int to = (int)uccl_rng_below(r, NODES);
	fi_addr_t addr = n->addr[to];
	uint8_t few[16] = { 0 };
	struct op *op;
	ssize_t rc = 0;

	pthread_mutex_lock(&n->lock);
	op = op_new(n, REFUSED);
	if (!op)
		goto out;
	op->buf = malloc(INJECT_MAX + 1);
	memset(op->buf, 0, INJECT_MAX + 1);
	switch (uccl_rng_below(r, 8)) {
	case 0:
		op->err = FI_EKEYREJECTED;
		rc = fi_write(n->ep, op->buf, 8, NULL, addr, 0, 999, op);
		break;
	case 1:
		op->err = FI_EACCES;
		rc = fi_read(n->ep, op->buf, 8, NULL, addr, NODES * SLICE - 7, (uint64_t)to, op);
		break;
	case 2:
		op->err = FI_EACCES;
		rc = fi_write(n->ep, op->buf, 8, NULL, addr, ~0ull - 3, (uint64_t)to, op);
		break;
	case 3:
		call(fi_send(n->ep, few, 8, NULL, 1000, op), -FI_EINVAL);
		goto refused;
	case 4:
		call(fi_tinject(n->ep, op->buf, INJECT_MAX + 1, addr, 0), -FI_EMSGSIZE);
		goto refused;
	case 5:
		call(fi_sendv(n->ep, (struct iovec[5]){ { 0 } }, NULL, 5, addr, op), -FI_EINVAL);
		goto refused;
	case 6:
		call(fi_cancel(&n->ep->fid, few), -FI_ENOENT);
		goto refused;
	default:
		call(fi_ep_bind(n->ep, &n->cq->fid, FI_RECV), -FI_EOPBADSTATE);
		goto refused;
	}
	must(!rc || rc == -FI_EAGAIN, "what the target refuses: %zd", rc);
	if (!rc)
		goto out;
	op_end(op);
	goto out;
refused:
	refusals++;
	op_end(op);
out:
	pthread_mutex_unlock(&n->lock);
}

/* Objects that come and go beside the traffic. */
static void call_objects(struct uccl_rng *r, struct node *n)
{
	uint8_t some[64], name[FI_UCCL_ADDR_LEN];
	size_t len = sizeof(name), min = 0, optlen = sizeof(min);
	struct fid_mr *mr;
	fi_addr_t again;

	switch (uccl_rng_below(r, 5)) {
	case 0:
		call(fi_mr_reg(domain, some, sizeof(some), FI_REMOTE_READ, 0, 10000 + (uint64_t)(n - nodes), 0, &mr,
			       NULL), 0);
		call(fi_close(&mr->fid), 0);
		break;
	case 1:
		call(fi_getname(&n->ep->fid, name, &len), 0);
		must(len == sizeof(name) && !memcmp(name, n->name, len), "another name");
		break;
	case 2:
		call(fi_getopt(&n->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, &optlen), 0);
		must(min == 64, "min_multi_recv %zu", min);
		break;
	case 3: /* an address that nobody uses comes and goes: every endpoint looks up its peers again */
		pthread_mutex_lock(&n->lock);
		call(fi_av_insert(n->av, n->name, 1, &again, 0, NULL), 1);
		must(again >= NODES, "handle %llu is in use", (unsigned long long)again);
		call(fi_av_remove(n->av, &again, 1, 0), 0);
		pthread_mutex_unlock(&n->lock);
		break;
	default:
		len = sizeof(name);
		call(fi_av_lookup(n->av, n->addr[0], name, &len), 0);
		must(!memcmp(name, nodes[0].name, len), "another address");
	}
}

static void call_one(struct uccl_rng *r, struct node *n)
{
	unsigned int what = uccl_rng_below(r, 100);

	calls++;
	if (what < 25)
		call_send(r, n);
	else if (what < 47)
		call_recv(r, n);
	else if (what < 64)
		call_remote(r, n);
	else if (what < 66)
		call_cancel(r, n);
	else if (what < 69)
		call_peek(r, n);
	else if (what < 72)
		call_wrong(r, n);
	else if (what < 75)
		call_objects(r, n);
	else if (what < 76)
		drain(n, 1);
	else
		drain(&nodes[uccl_rng_below(r, NODES)], 0);
}

/* ---- rest */

static unsigned int open_ops(const struct node *n, bool recvs, bool wild_only, bool tagged)
{
	unsigned int k = 0;

	for (int i = 0; i < OPS; i++) {
		const struct op *op = &n->ops[i];

		if (op->open && (op->kind == RECV) == recvs &&
		    (!recvs || !wild_only || (op->wild && op->tagged == tagged)))
			k++;
	}
	return k;
}

static unsigned int waiting(int to, bool tagged)
{
	unsigned int k = 0;

	for (int from = 0; from < NODES; from++)
		for (unsigned int i = 0; i < nmsgs[from][to]; i++)
			k += msgs[from][to][i].tagged == tagged && !msgs[from][to][i].gone;
	must(k >= nodes[to].anonymous[tagged], "more messages were thrown away than there are");
	return k - nodes[to].anonymous[tagged];
}

static bool at_rest(void)
{
	for (int i = 0; i < NODES; i++)
		if (waiting(i, false) || waiting(i, true) || open_ops(&nodes[i], false, false, false))
			return false;
	return true;
}

/* An injected write tells nobody of its end; a read that comes behind it does. */
static void read_behind(struct uccl_rng *r, struct node *n, int to)
{
	uint64_t end = seconds() + PATIENCE_S;
	struct op *op;
	ssize_t rc;

	for (; seconds() < end; drain_all()) {
		op = op_new(n, READ);
		if (!op)
			continue;
		op->peer = to;
		op->len = 8;
		op->buf = calloc(1, op->len);
		rc = post_read(r, n, op, &nodes[to], 0);
		if (!rc)
			return;
		must(rc == -FI_EAGAIN, "remote memory: %zd", rc);
		op_end(op);
	}
	fail("no room for a read");
}

/* Every message gets a receive, every operation its end. */
static void come_to_rest(struct uccl_rng *r)
{
	uint64_t end = seconds() + PATIENCE_S;

	for (int i = 0; i < NODES; i++)
		for (int to = 0; to < NODES; to++)
			read_behind(r, &nodes[i], to);
	while (!at_rest()) {
		drain_all();
		for (int i = 0; i < NODES; i++)
			for (int tagged = 0; tagged < 2; tagged++)
				while (open_ops(&nodes[i], true, true, tagged) < waiting(i, tagged) &&
				       open_ops(&nodes[i], true, true, tagged) < 16 &&
				       post_recv(r, &nodes[i], tagged, true))
					;
		if (seconds() < end)
			continue;
		for (int i = 0; i < NODES; i++)
			fprintf(stderr, "node %d: %u and %u messages wait, %u operations\n", i, waiting(i, false),
				waiting(i, true), open_ops(&nodes[i], false, false, false));
		fail("no rest");
	}
	for (int i = 0; i < NODES; i++) {
		for (int k = 0; k < OPS; k++) {
			struct op *op = &nodes[i].ops[k];

			if (op->open && op->kind == RECV && !op->canceled) {
				call(fi_cancel(&nodes[i].ep->fid, op), 0);
				op->canceled = true;
			}
		}
	}
	while (seconds() < end) {
		unsigned int left = 0;

		drain_all();
		for (int i = 0; i < NODES; i++)
			left += open_ops(&nodes[i], true, false, false);
		if (!left)
			return;
	}
	fail("canceled receives have no end");
}

static bool takes(const struct msg *by, const struct msg *m)
{
	return by->tagged == m->tagged && (by->recv_from == ANYBODY || by->recv_from == m->from) &&
	       (!m->tagged || !((m->tag ^ by->recv_tag) & ~by->recv_ignore));
}

/* first was sent before second, by the same node. */
static void check_pair(const struct msg *first, const struct msg *second)
{
	if (first->discarded || second->discarded || !first->gone || !second->gone || !takes(second, first))
		return;
	must(first->recv_no <= second->recv_no, "message %llx overtook %llx: receives %llu and %llu",
	     (unsigned long long)second->id, (unsigned long long)first->id, (unsigned long long)second->recv_no,
	     (unsigned long long)first->recv_no);
	must(first->recv_no != second->recv_no || first->place + first->len <= second->place,
	     "messages %llx and %llx overlap", (unsigned long long)first->id, (unsigned long long)second->id);
}

static void check_all(void)
{
	for (int to = 0; to < NODES; to++) {
		for (int from = 0; from < NODES; from++)
			for (unsigned int i = 0; i < nmsgs[from][to]; i++)
				for (unsigned int k = 0; k < i; k++)
					check_pair(&msgs[from][to][k], &msgs[from][to][i]);
		must(!memcmp(nodes[to].mem, nodes[to].shadow, NODES * SLICE), "the memory of node %d is wrong", to);
		must(fi_cntr_read(nodes[to].cntr) == nodes[to].posted, "node %d counted %llu sends, not %llu", to,
		     (unsigned long long)fi_cntr_read(nodes[to].cntr), (unsigned long long)nodes[to].posted);
		call(fi_cntr_readerr(nodes[to].cntr), 0);
		nodes[to].anonymous[0] = nodes[to].anonymous[1] = 0;
	}
	memset(nmsgs, 0, sizeof(nmsgs));
	epoch++;
}

/* ---- life */

static void node_open(struct node *n)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC };
	struct fi_cntr_attr cntr_attr = { .events = FI_CNTR_EVENTS_COMP };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	size_t len = sizeof(n->name);

	memset(n, 0, sizeof(*n));
	pthread_mutex_init(&n->lock, NULL);
	n->mem = calloc(NODES, SLICE);
	n->shadow = calloc(NODES, SLICE);
	call(fi_endpoint(domain, info, &n->ep, NULL), 0);
	call(fi_av_open(domain, &av_attr, &n->av, NULL), 0);
	call(fi_cq_open(domain, &cq_attr, &n->cq, NULL), 0);
	call(fi_cntr_open(domain, &cntr_attr, &n->cntr, NULL), 0);
	call(fi_ep_bind(n->ep, &n->av->fid, 0), 0);
	call(fi_ep_bind(n->ep, &n->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	call(fi_ep_bind(n->ep, &n->cntr->fid, FI_SEND), 0);
	call(fi_enable(n->ep), 0);
	call(fi_getname(&n->ep->fid, n->name, &len), 0);
	call(fi_mr_reg(domain, n->mem, NODES * SLICE, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, (uint64_t)(n - nodes), 0,
		       &n->mr, NULL), 0);
}

static void node_close(struct node *n)
{
	call(fi_close(&n->mr->fid), 0);
	call(fi_close(&n->ep->fid), 0);
	call(fi_close(&n->cntr->fid), 0);
	call(fi_close(&n->cq->fid), 0);
	call(fi_close(&n->av->fid), 0);
	pthread_mutex_destroy(&n->lock);
	free(n->mem);
	free(n->shadow);
}

static void all_open(void)
{
	struct fi_provider *prov = fi_prov_ini();
	struct fi_info *h = fi_allocinfo();

	h->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV | FI_SOURCE;
	h->ep_attr->type = FI_EP_RDM;
	h->domain_attr->name = strdup("lo");
	h->domain_attr->threading = threads > 1 ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;
	call(prov->getinfo(API, NULL, NULL, 0, h, &info), 0);
	fi_freeinfo(h);
	info->fabric_attr->api_version = API;
	call(prov->fabric(info->fabric_attr, &fabric, NULL), 0);
	fabric->api_version = API; /* the library does this after the provider's part */
	call(fi_domain(fabric, info, &domain, NULL), 0);
	for (int i = 0; i < NODES; i++)
		node_open(&nodes[i]);
	for (int i = 0; i < NODES; i++)
		for (int k = 0; k < NODES; k++)
			call(fi_av_insert(nodes[i].av, nodes[k].name, 1, &nodes[i].addr[k], 0, NULL), 1);
}

static void all_close(void)
{
	for (int i = 0; i < NODES; i++)
		node_close(&nodes[i]);
	call(fi_close(&domain->fid), 0);
	call(fi_close(&fabric->fid), 0);
	fi_freeinfo(info);
}

static void *run(void *arg)
{
	int me = (int)(intptr_t)arg;
	struct uccl_rng r;

	uccl_rng_seed(&r, seed * 1000 + (uint64_t)me);
	for (uint64_t done = 0; done < calls_max / (uint64_t)threads; done += EPOCH / (uint64_t)threads) {
		for (int i = 0; i < EPOCH / threads; i++)
			call_one(&r, &nodes[uccl_rng_below(&r, NODES)]);
		pthread_barrier_wait(&barrier);
		if (!me) {
			come_to_rest(&r);
			check_all();
		}
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

static void play(void)
{
	pthread_t t[16];

	calls = completions = refusals = messages = remote = discards = 0;
	pthread_barrier_init(&barrier, NULL, (unsigned int)threads);
	all_open();
	for (int i = 1; i < threads; i++)
		call(pthread_create(&t[i], NULL, run, (void *)(intptr_t)i), 0);
	run(NULL);
	for (int i = 1; i < threads; i++)
		pthread_join(t[i], NULL);
	all_close();
	pthread_barrier_destroy(&barrier);
	printf("seed %llu, %d threads: %llu calls, %llu completions; %llu messages received, %llu thrown away, %llu "
	       "operations on remote memory, %llu refusals: as the model says\n",
	       (unsigned long long)seed, threads, (unsigned long long)calls, (unsigned long long)completions,
	       (unsigned long long)messages, (unsigned long long)discards, (unsigned long long)remote,
	       (unsigned long long)refusals);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		calls_max = strtoull(argv[1], NULL, 0);
	if (argc > 2)
		seed = strtoull(argv[2], NULL, 0);
	if (argc > 3)
		threads = atoi(argv[3]);
	if (threads < 1 || threads > 16 || !calls_max) {
		fprintf(stderr, "usage: uccl_model [CALLS [SEED [THREADS]]]\n");
		return 2;
	}
	setenv("FI_UCCL_FAULT", "drop=0.02,reorder=0.05,dup=0.01,seed=1", 0);
	play();
	if (argc < 4) {
		threads = 4;
		play();
	}
	return 0;
}
