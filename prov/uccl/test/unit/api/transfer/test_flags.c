/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Every flag of every call: accepted and kept, or refused and nothing done. */
#include "../world.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_trigger.h>

#include "api/transfer/flags.h"
#include "../../tests.h"

/* Bits that not every version of libfabric's headers names. */
#define AUTH_KEY (1ULL << 57)
#define PRIORITY (1ULL << 22)

/* The table of the manual, "Flags of an operation": s ts r tr rd w a f c, collective; + accepted, - refused. */
static const struct {
	const char *name;
	uint64_t flag;
	const char *calls;
} table[] = {
	{ "FI_COMPLETION", FI_COMPLETION, "++++++++++" },
	{ "FI_MORE", FI_MORE, "++++++++++" },
	{ "FI_TRIGGER", FI_TRIGGER, "+++++++++-" },
	{ "FI_INJECT", FI_INJECT, "++---++++-" },
	{ "FI_FENCE", FI_FENCE, "++--+++++-" },
	{ "FI_REMOTE_CQ_DATA", FI_REMOTE_CQ_DATA, "++---++++-" },
	{ "FI_INJECT_COMPLETE", FI_INJECT_COMPLETE, "++--++++++" },
	{ "FI_TRANSMIT_COMPLETE", FI_TRANSMIT_COMPLETE, "++++++++++" },
	{ "FI_DELIVERY_COMPLETE", FI_DELIVERY_COMPLETE, "+++++++++-" },
	{ "FI_MATCH_COMPLETE", FI_MATCH_COMPLETE, "++--------" },
	{ "FI_COMMIT_COMPLETE", FI_COMMIT_COMPLETE, "----------" },
	{ "FI_MULTI_RECV", FI_MULTI_RECV, "--+-------" },
	{ "FI_PEEK", FI_PEEK, "--++------" },
	{ "FI_CLAIM", FI_CLAIM, "--++------" },
	{ "FI_MULTICAST", FI_MULTICAST, "----------" },
	{ "FI_AUTH_KEY", AUTH_KEY, "----------" },
	{ "FI_TAGGED", FI_TAGGED, "----------" },
	{ "FI_MSG", FI_MSG, "----------" },
	{ "FI_PRIORITY", PRIORITY, "----------" },
	{ "FI_REMOTE_READ", FI_REMOTE_READ, "----------" },
};

static uint64_t named(void)
{
	uint64_t all = FI_DISCARD;

	for (size_t i = 0; i < uccl_array_len(table); i++)
		all |= table[i].flag;
	return all;
}

struct bench {
	struct world w;
	struct node a, b;
	struct fid_mr *mr;
	struct fid_cntr *cntr;
	struct fi_triggered_context trigger;
	fi_addr_t to_b;
	uint64_t out, in[2], result, mem[8];
};

static void bench_open(struct bench *t)
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP };
	struct fi_info *hints = world_hints();

	memset(t, 0, sizeof(*t));
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_COLLECTIVE | FI_TRIGGER | FI_FENCE | FI_MULTI_RECV;
	world_open_with(&t->w, hints);
	t->to_b = node_pair(&t->a, &t->b, &t->w);
	assert_int_equal(fi_mr_reg(t->w.domain, t->mem, sizeof(t->mem), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 7, 0,
				   &t->mr, NULL), 0);
	assert_int_equal(fi_cntr_open(t->w.domain, &attr, &t->cntr, NULL), 0);
	t->trigger.event_type = FI_TRIGGER_THRESHOLD;
	t->trigger.trigger.threshold.cntr = t->cntr;
}

static void bench_close(struct bench *t)
{
	node_close(&t->a);
	node_close(&t->b);
	world_closes(&t->mr->fid, &t->cntr->fid);
	world_close(&t->w);
}

WORLD_FIXTURE(bench)

/* The call with these flags, of 8 bytes; receives are posted by `b`, everything else by `a`. */
static ssize_t call(struct bench *t, enum uccl_call c, uint64_t flags)
{
	void *context = flags & FI_TRIGGER ? (void *)&t->trigger : (void *)t;
	struct iovec iov = { &t->out, 8 }, into = { c == UCCL_CALL_RECVMSG ? &t->in[0] : &t->in[1], 8 };
	struct iovec back = { &t->result, 8 };
	struct fi_ioc ioc = { &t->out, 1 }, result = { &t->result, 1 };
	struct fi_rma_iov rma = { .len = 8, .key = 7 };
	struct fi_rma_ioc rioc = { .count = 1, .key = 7 };
	struct fi_msg s = { .msg_iov = &iov, .iov_count = 1, .addr = t->to_b, .context = context, .data = 3 };
	struct fi_msg_tagged ts = { .msg_iov = &iov, .iov_count = 1, .addr = t->to_b, .tag = 4, .context = context };
	struct fi_msg r = { .msg_iov = &into, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = context };
	struct fi_msg_tagged tr = { .msg_iov = &into, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = 4,
				    .context = context };
	struct fi_msg_rma w = { .msg_iov = c == UCCL_CALL_READMSG ? &back : &iov, .iov_count = 1, .addr = t->to_b,
				.rma_iov = &rma, .rma_iov_count = 1, .context = context, .data = 3 };
	struct fi_msg_atomic a = { .msg_iov = &ioc, .iov_count = 1, .addr = t->to_b, .rma_iov = &rioc,
				   .rma_iov_count = 1, .datatype = FI_UINT64, .context = context,
				   .op = c == UCCL_CALL_COMPAREMSG ? FI_CSWAP : FI_SUM };

	switch (c) {
	case UCCL_CALL_SENDMSG:
		return fi_sendmsg(t->a.ep, &s, flags);
	case UCCL_CALL_TSENDMSG:
		return fi_tsendmsg(t->a.ep, &ts, flags);
	case UCCL_CALL_RECVMSG:
		return fi_recvmsg(t->b.ep, &r, flags);
	case UCCL_CALL_TRECVMSG:
		return fi_trecvmsg(t->b.ep, &tr, flags);
	case UCCL_CALL_READMSG:
		return fi_readmsg(t->a.ep, &w, flags);
	case UCCL_CALL_WRITEMSG:
		return fi_writemsg(t->a.ep, &w, flags);
	case UCCL_CALL_ATOMICMSG:
		return fi_atomicmsg(t->a.ep, &a, flags);
	case UCCL_CALL_FETCHMSG:
		return fi_fetch_atomicmsg(t->a.ep, &a, &result, NULL, 1, flags);
	case UCCL_CALL_COMPAREMSG:
		return fi_compare_atomicmsg(t->a.ep, &a, &ioc, NULL, 1, &result, NULL, 1, flags);
	default:
		/* There is no such group: that is looked at after the flags. */
		return fi_barrier2(t->a.ep, 1234, flags, context);
	}
}

static bool is_recv(enum uccl_call c)
{
	return c == UCCL_CALL_RECVMSG || c == UCCL_CALL_TRECVMSG;
}

static ssize_t call_patiently(struct bench *t, enum uccl_call c, uint64_t flags)
{
	ssize_t rc;

	while ((rc = call(t, c, flags)) == -FI_EAGAIN) {
		(void)fi_cq_read(t->a.cq, NULL, 0);
		(void)fi_cq_read(t->b.cq, NULL, 0);
	}
	return rc;
}

static void ends(struct bench *t, struct node *n, void *context, uint64_t flags)
{
	struct fi_cq_tagged_entry e;

	assert_int_equal(node_wait(n, n == &t->a ? &t->b : &t->a, &e, NULL), 1);
	if (context)
		assert_ptr_equal(e.op_context, context);
	assert_int_equal(e.flags & flags, flags);
}

/* What the call does, with its flags: `a` sends and `b` receives, or `a` reaches into b's memory. */
static void works(struct bench *t, enum uccl_call c, uint64_t flags)
{
	static const enum uccl_call other[] = {
		[UCCL_CALL_SENDMSG] = UCCL_CALL_RECVMSG, [UCCL_CALL_TSENDMSG] = UCCL_CALL_TRECVMSG,
		[UCCL_CALL_RECVMSG] = UCCL_CALL_SENDMSG, [UCCL_CALL_TRECVMSG] = UCCL_CALL_TSENDMSG,
	};
	bool message = c <= UCCL_CALL_TRECVMSG, data = flags & FI_REMOTE_CQ_DATA;
	struct node *from = is_recv(c) ? &t->b : &t->a;
	void *context = flags & FI_TRIGGER ? (void *)&t->trigger : (void *)t;
	struct fi_cq_tagged_entry e;

	t->out++;
	t->trigger.trigger.threshold.threshold = fi_cntr_read(t->cntr) + 1;
	assert_int_equal(call_patiently(t, c, flags), 0);
	if (flags & FI_INJECT)
		t->out ^= 0xff00;
	if (flags & FI_TRIGGER) {
		for (int i = 0; i < 50; i++) {
			assert_int_equal(fi_cq_read(t->a.cq, &e, 1), -FI_EAGAIN);
			assert_int_equal(fi_cq_read(t->b.cq, &e, 1), -FI_EAGAIN);
		}
		assert_int_equal(fi_cntr_add(t->cntr, 1), 0);
	}
	if (message)
		assert_int_equal(call_patiently(t, other[c], 0), 0);
	if (flags & FI_INJECT)
		t->out ^= 0xff00;
	if (!message) {
		ends(t, from, context, 0);
		if (data)
			ends(t, &t->b, NULL, FI_REMOTE_CQ_DATA);
		if (c == UCCL_CALL_WRITEMSG)
			assert_int_equal(t->mem[0], t->out);
		if (c == UCCL_CALL_READMSG)
			assert_int_equal(t->mem[0], t->result);
		return;
	}
	ends(t, from, context, 0);
	ends(t, from == &t->a ? &t->b : &t->a, t, data ? FI_REMOTE_CQ_DATA : 0);
	assert_int_equal(t->in[c == UCCL_CALL_TSENDMSG || c == UCCL_CALL_TRECVMSG], t->out);
}

static void nothing_happened(struct bench *t)
{
	struct fi_cq_tagged_entry e;

	for (int i = 0; i < 5; i++) {
		assert_int_equal(fi_cq_read(t->a.cq, &e, 1), -FI_EAGAIN);
		assert_int_equal(fi_cq_read(t->b.cq, &e, 1), -FI_EAGAIN);
	}
	assert_int_equal(t->a.ep->ops->tx_size_left(t->a.ep), 4096);
	assert_int_equal(t->b.ep->ops->rx_size_left(t->b.ep), 4096);
}

/* Each cell of the table, over real endpoints. */
WORLD_TEST(flags__each_cell, bench, t)
{
	for (size_t i = 0; i < uccl_array_len(table); i++)
		for (enum uccl_call c = 0; c <= UCCL_CALL_COLLECTIVE; c++) {
			bool can = table[i].calls[c] == '+';

			assert_int_equal(strlen(table[i].calls), UCCL_CALL_COLLECTIVE + 1);
			assert_int_equal(!(table[i].flag & ~uccl_flags_of[c]), can);
			if (!can) {
				assert_int_equal(call(t, c, table[i].flag), -FI_EBADFLAGS);
				assert_int_equal(call(t, c, table[i].flag | FI_COMPLETION), -FI_EBADFLAGS);
				nothing_happened(t);
			} else if (c == UCCL_CALL_COLLECTIVE) {
				assert_int_equal(call(t, c, table[i].flag), -FI_EINVAL);
			} else if (!(table[i].flag & (FI_PEEK | FI_CLAIM))) {
				works(t, c, table[i].flag);
			}
		}
}

/* No call knows a bit that the table does not have. */
WORLD_TEST(flags__unknown_bits, bench, t)
{
	for (int bit = 0; bit < 64; bit++)
		for (enum uccl_call c = 0; c <= UCCL_CALL_COLLECTIVE; c++) {
			if (1ULL << bit & named())
				continue;
			assert_int_equal(call(t, c, 1ULL << bit), -FI_EBADFLAGS);
			assert_int_equal(uccl_flags_check(UCCL_CALL_JOIN, FI_COLLECTIVE | 1ULL << bit),
					 1ULL << bit == FI_COLLECTIVE ? 0 : -FI_EBADFLAGS);
		}
	nothing_happened(t);
}

WORLD_TEST(flags__combined, bench, t)
{
	for (enum uccl_call c = UCCL_CALL_RECVMSG; c <= UCCL_CALL_TRECVMSG; c++) {
		assert_int_equal(call(t, c, FI_DISCARD), -FI_EINVAL);
		assert_int_equal(call(t, c, FI_PEEK | FI_CLAIM | FI_DISCARD), -FI_EINVAL);
		assert_int_equal(call(t, c, FI_PEEK | FI_TRIGGER), -FI_EINVAL);
		assert_int_equal(call(t, c, FI_CLAIM | FI_TRIGGER), -FI_EINVAL);
	}
	assert_int_equal(call(t, UCCL_CALL_RECVMSG, FI_PEEK | FI_MULTI_RECV), -FI_EINVAL);
	for (enum uccl_call c = UCCL_CALL_SENDMSG; c <= UCCL_CALL_TSENDMSG; c++) {
		assert_int_equal(call(t, c, FI_FENCE | FI_MATCH_COMPLETE), -FI_EOPNOTSUPP);
		assert_int_equal(call(t, c, FI_INJECT | FI_TRIGGER), -FI_EINVAL);
		works(t, c, FI_FENCE | FI_DELIVERY_COMPLETE | FI_INJECT | FI_MORE | FI_COMPLETION);
		works(t, c, FI_MATCH_COMPLETE | FI_INJECT | FI_DELIVERY_COMPLETE | FI_TRANSMIT_COMPLETE);
	}
	for (enum uccl_call c = UCCL_CALL_WRITEMSG; c <= UCCL_CALL_COMPAREMSG; c++)
		assert_int_equal(call(t, c, FI_INJECT | FI_TRIGGER), -FI_EINVAL);
	nothing_happened(t);
}

/* The same rules for work that is queued, when it is queued. */
WORLD_TEST(flags__deferred_work, bench, t)
{
	struct iovec iov = { NULL, 0 };
	struct fi_op_msg m = { .msg = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC } };
	struct fi_op_tagged tm = { .msg = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC } };
	struct fi_op_rma r = { .msg = { .msg_iov = &iov, .iov_count = 1 } };
	struct fi_op_atomic a = { .msg = { .datatype = FI_UINT64 } };
	struct fi_op_fetch_atomic f = { .msg = { .datatype = FI_UINT64 } };
	struct fi_op_compare_atomic cm = { .msg = { .datatype = FI_UINT64 } };
	static const enum fi_op_type types[] = { FI_OP_SEND, FI_OP_RECV, FI_OP_TSEND, FI_OP_TRECV, FI_OP_READ,
						 FI_OP_WRITE, FI_OP_ATOMIC, FI_OP_FETCH_ATOMIC, FI_OP_COMPARE_ATOMIC };

	m.ep = tm.ep = r.ep = a.ep = f.ep = cm.ep = t->a.ep;
	for (size_t i = 0; i < uccl_array_len(types); i++) {
		bool recv = types[i] == FI_OP_RECV || types[i] == FI_OP_TRECV;
		struct fi_deferred_work w = { .threshold = 1000000, .triggering_cntr = t->cntr, .op_type = types[i] };

		switch (types[i]) {
		case FI_OP_SEND:
		case FI_OP_RECV:
			w.op.msg = &m;
			break;
		case FI_OP_TSEND:
		case FI_OP_TRECV:
			w.op.tagged = &tm;
			break;
		case FI_OP_READ:
		case FI_OP_WRITE:
			w.op.rma = &r;
			break;
		case FI_OP_ATOMIC:
			w.op.atomic = &a;
			break;
		case FI_OP_FETCH_ATOMIC:
			w.op.fetch_atomic = &f;
			break;
		default:
			w.op.compare_atomic = &cm;
			break;
		}
		m.flags = tm.flags = r.flags = a.flags = f.flags = cm.flags = FI_COMMIT_COMPLETE;
		assert_int_equal(fi_control(&t->w.domain->fid, FI_QUEUE_WORK, &w), -FI_EBADFLAGS);
		m.flags = tm.flags = r.flags = a.flags = f.flags = cm.flags = recv ? FI_PEEK : FI_COMPLETION;
		assert_int_equal(fi_control(&t->w.domain->fid, FI_QUEUE_WORK, &w), recv ? -FI_EINVAL : 0);
	}
	assert_int_equal(fi_control(&t->w.domain->fid, FI_FLUSH_WORK, NULL), 0);
}

/* Default flags are checked when they are set, whichever way that is. */
WORLD_TEST(flags__defaults, bench, t)
{
	static const uint64_t bad_tx[] = { FI_COMMIT_COMPLETE, FI_MULTI_RECV, FI_FENCE, FI_MULTICAST, 1ULL << 50 };
	static const uint64_t bad_rx[] = { FI_INJECT, FI_DELIVERY_COMPLETE, FI_PEEK, FI_MATCH_COMPLETE, 1ULL << 50 };
	struct fi_tx_attr *tx;
	struct fi_rx_attr *rx, attr = { 0 };
	struct fi_info *h, *got;
	struct fid_ep *ep, *alias;
	struct fi_cq_tagged_entry e;
	uint64_t flags;

	tx = t->w.info->tx_attr;
	rx = t->w.info->rx_attr;
	for (size_t i = 0; i < uccl_array_len(bad_tx); i++) {
		h = world_hints();
		flags = FI_TRANSMIT | bad_tx[i];
		assert_int_equal(fi_control(&t->a.ep->fid, FI_SETOPSFLAG, &flags), -FI_EBADFLAGS);
		assert_int_equal(fi_ep_alias(t->a.ep, &alias, FI_TRANSMIT | bad_tx[i]), -FI_EBADFLAGS);
		flags = FI_RECV | bad_rx[i];
		assert_int_equal(fi_control(&t->a.ep->fid, FI_SETOPSFLAG, &flags), -FI_EBADFLAGS);
		assert_int_equal(fi_ep_alias(t->a.ep, &alias, FI_RECV | bad_rx[i]), -FI_EBADFLAGS);
		tx->op_flags = bad_tx[i];
		assert_int_equal(fi_endpoint(t->w.domain, t->w.info, &ep, NULL), -FI_EBADFLAGS);
		tx->op_flags = 0;
		rx->op_flags = attr.op_flags = bad_rx[i];
		assert_int_equal(fi_endpoint(t->w.domain, t->w.info, &ep, NULL), -FI_EBADFLAGS);
		assert_int_equal(fi_srx_context(t->w.domain, &attr, &ep, NULL), -FI_EBADFLAGS);
		rx->op_flags = 0;
		h->tx_attr->op_flags = bad_tx[i];
		assert_int_equal(fi_prov_ini()->getinfo(API, NULL, NULL, 0, h, &got), -FI_ENODATA);
		fi_freeinfo(h);
	}
	h = world_hints();
	h->tx_attr->op_flags = FI_MATCH_COMPLETE | FI_COMPLETION;
	assert_int_equal(fi_prov_ini()->getinfo(API, NULL, NULL, 0, h, &got), 0);
	assert_int_equal(got->tx_attr->op_flags, h->tx_attr->op_flags);
	fi_freeinfo(got);
	fi_freeinfo(h);
	assert_int_equal(fi_ep_alias(t->a.ep, &alias, FI_TRANSMIT | FI_RECV), -FI_EINVAL);
	assert_int_equal(fi_ep_alias(t->a.ep, &alias, 0), -FI_EINVAL);
	/* A good one is kept by calls without flags, and means nothing to those that it is not for. */
	flags = FI_TRANSMIT | FI_MATCH_COMPLETE;
	assert_int_equal(fi_control(&t->a.ep->fid, FI_SETOPSFLAG, &flags), 0);
	assert_int_equal(fi_write(t->a.ep, &t->out, 8, NULL, t->to_b, 0, 7, &t->mem), 0);
	ends(t, &t->a, &t->mem, FI_WRITE);
	assert_int_equal(fi_tsend(t->a.ep, &t->out, 8, NULL, t->to_b, 4, t), 0);
	for (int i = 0; i < 500; i++) {
		assert_int_equal(fi_cq_read(t->a.cq, &e, 1), -FI_EAGAIN);
		(void)fi_cq_read(t->b.cq, NULL, 0);
	}
	assert_int_equal(call(t, UCCL_CALL_TRECVMSG, 0), 0);
	ends(t, &t->a, t, FI_SEND | FI_TAGGED);
	ends(t, &t->b, t, FI_RECV | FI_TAGGED);
	/* Inject has no completion, whatever the default is. */
	assert_int_equal(fi_tinject(t->a.ep, &t->out, 8, t->to_b, 4), 0);
	assert_int_equal(call(t, UCCL_CALL_TRECVMSG, 0), 0);
	ends(t, &t->b, t, FI_RECV | FI_TAGGED);
	assert_int_equal(fi_cq_read(t->a.cq, &e, 1), -FI_EAGAIN);
}

TESTS_MAIN
