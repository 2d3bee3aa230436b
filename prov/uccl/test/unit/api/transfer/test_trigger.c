/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Triggered operations and deferred work over the real engine, on loopback. */
#include "../world.h"
#include "../../tests.h"

#include <pthread.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_trigger.h>

static uint64_t mem[16];

struct duo {
	struct world w;
	struct node a, b;
	fi_addr_t to_b;
	struct fid_mr *mr;
	struct fid_cntr *c, *done;
};

static void duo_open(struct duo *d)
{
	struct fi_cntr_attr attr = { .wait_obj = FI_WAIT_UNSPEC };

	world_open(&d->w);
	d->to_b = node_pair(&d->a, &d->b, &d->w);
	memset(mem, 0, sizeof(mem));
	assert_int_equal(fi_mr_reg(d->w.domain, mem, sizeof(mem), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 7, 0, &d->mr,
				   NULL),
			 0);
	assert_int_equal(fi_cntr_open(d->w.domain, &attr, &d->c, NULL), 0);
	assert_int_equal(fi_cntr_open(d->w.domain, &attr, &d->done, NULL), 0);
}

static void duo_close(struct duo *d)
{
	assert_int_equal(fi_close(&d->mr->fid), 0);
	node_close(&d->a);
	node_close(&d->b);
	world_closes(&d->c->fid, &d->done->fid);
	world_close(&d->w);
}

WORLD_FIXTURE(duo)

static void expect(struct duo *d, struct node *n, void *context)
{
	struct fi_cq_tagged_entry e;

	assert_int_equal(node_wait(n, n == &d->a ? &d->b : &d->a, &e, NULL), 1);
	assert_ptr_equal(e.op_context, context);
}

/* Nothing is there yet, however often somebody looks. */
static void nothing(struct duo *d)
{
	struct fi_cq_tagged_entry e;

	for (int i = 0; i < 200; i++) {
		assert_int_equal(fi_cq_read(d->a.cq, &e, 1), -FI_EAGAIN);
		assert_int_equal(fi_cq_read(d->b.cq, &e, 1), -FI_EAGAIN);
	}
}

static struct fi_triggered_context at(struct duo *d, size_t threshold)
{
	struct fi_triggered_context t = { .event_type = FI_TRIGGER_THRESHOLD };

	t.trigger.threshold.cntr = d->c;
	t.trigger.threshold.threshold = threshold;
	return t;
}

WORLD_TEST(trigger__each_kind, duo, d)
{
	struct fi_triggered_context t1, t2, t3, bad = { .event_type = FI_TRIGGER_XPU };
	uint64_t v = 5, in = 0;
	struct iovec iov = { &v, 8 }, riov = { &in, 8 };
	struct fi_ioc ioc = { &v, 1 };
	struct fi_rma_iov rma = { .addr = 8, .len = 8, .key = 7 };
	struct fi_rma_ioc rioc = { .addr = 8, .count = 1, .key = 7 };
	struct fi_msg_rma wm = { .msg_iov = &iov, .iov_count = 1, .rma_iov = &rma, .rma_iov_count = 1, .context = &t1 };
	struct fi_msg_atomic am = { .msg_iov = &ioc, .iov_count = 1, .rma_iov = &rioc, .rma_iov_count = 1,
				    .datatype = FI_UINT64, .op = FI_SUM, .context = &t2 };
	struct fi_msg sm = { .msg_iov = &iov, .iov_count = 1, .context = &t3 };
	struct fi_msg rm = { .msg_iov = &riov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &t3 };

	wm.addr = am.addr = sm.addr = d->to_b;
	t1 = at(d, 1);
	t2 = at(d, 2);
	t3 = at(d, 3);
	assert_int_equal(fi_sendmsg(d->a.ep, &sm, FI_TRIGGER | FI_TRANSMIT_COMPLETE), 0);
	assert_int_equal(fi_recvmsg(d->b.ep, &rm, FI_TRIGGER), 0);
	assert_int_equal(fi_atomicmsg(d->a.ep, &am, FI_TRIGGER), 0);
	assert_int_equal(fi_writemsg(d->a.ep, &wm, FI_TRIGGER), 0);
	/* a counter that somebody waits for stays, and a context must name one */
	assert_int_equal(fi_close(&d->c->fid), -FI_EBUSY);
	wm.context = &bad;
	assert_int_equal(fi_writemsg(d->a.ep, &wm, FI_TRIGGER), -FI_EINVAL);
	nothing(d);
	assert_int_equal(fi_cntr_add(d->c, 1), 0);
	expect(d, &d->a, &t1);
	assert_int_equal(mem[1], 5);
	nothing(d);
	assert_int_equal(fi_cntr_add(d->c, 1), 0);
	expect(d, &d->a, &t2);
	assert_int_equal(mem[1], 10);
	assert_int_equal(fi_cntr_set(d->c, 100), 0);
	expect(d, &d->b, &t3);
	expect(d, &d->a, &t3);
	assert_int_equal(in, 5);
	/* reached already */
	wm.context = &t1;
	assert_int_equal(fi_writemsg(d->a.ep, &wm, FI_TRIGGER), 0);
	expect(d, &d->a, &t1);
}

/* Each piece of work counts, and by that triggers the next. */
WORLD_TEST(work__chain, duo, d)
{
	uint64_t one = 11, two = 0;
	struct iovec wiov = { &one, 8 }, riov = { &two, 8 };
	struct fi_rma_iov rma = { .addr = 16, .len = 8, .key = 7 };
	struct fi_op_rma w = { .msg = { .msg_iov = &wiov, .iov_count = 1, .rma_iov = &rma, .rma_iov_count = 1 } };
	struct fi_op_rma r = { .msg = { .msg_iov = &riov, .iov_count = 1, .rma_iov = &rma, .rma_iov_count = 1 } };
	struct fi_op_cntr add = { .value = 40 };
	struct fi_deferred_work write = { .threshold = 1, .op_type = FI_OP_WRITE };
	struct fi_deferred_work read = { .threshold = 1, .op_type = FI_OP_READ };
	struct fi_deferred_work count = { .threshold = 2, .op_type = FI_OP_CNTR_ADD };
	struct fi_deferred_work never = { .threshold = 1000, .op_type = FI_OP_WRITE };
	struct fi_deferred_work odd = { .threshold = 1, .op_type = (enum fi_op_type)99 };

	w.ep = r.ep = d->a.ep;
	w.msg.addr = r.msg.addr = d->to_b;
	write.triggering_cntr = never.triggering_cntr = odd.triggering_cntr = d->c;
	read.triggering_cntr = count.triggering_cntr = d->done;
	write.completion_cntr = read.completion_cntr = d->done;
	write.op.rma = never.op.rma = &w;
	read.op.rma = &r;
	add.cntr = d->c;
	count.op.cntr = &add;
	assert_int_equal(fi_control(&d->w.domain->fid, FI_QUEUE_WORK, &count), 0);
	assert_int_equal(fi_control(&d->w.domain->fid, FI_QUEUE_WORK, &read), 0);
	assert_int_equal(fi_control(&d->w.domain->fid, FI_QUEUE_WORK, &never), 0);
	assert_int_equal(fi_control(&d->w.domain->fid, FI_QUEUE_WORK, &write), 0);
	assert_int_equal(fi_control(&d->w.domain->fid, FI_QUEUE_WORK, &odd), -FI_ENOSYS);
	assert_int_equal(fi_cntr_add(d->c, 1), 0);
	while (fi_cntr_read(d->c) < 41) {
		(void)fi_cq_read(d->a.cq, NULL, 0);
		(void)fi_cq_read(d->b.cq, NULL, 0);
	}
	assert_int_equal(fi_cntr_read(d->done), 2);
	assert_true(mem[2] == 11 && two == 11);
	assert_int_equal(fi_control(&d->w.domain->fid, FI_CANCEL_WORK, &write), -FI_ENOENT);
	assert_int_equal(fi_control(&d->w.domain->fid, FI_CANCEL_WORK, &never), 0);
	assert_int_equal(fi_control(&d->w.domain->fid, FI_QUEUE_WORK, &never), 0);
	assert_int_equal(fi_control(&d->w.domain->fid, FI_FLUSH_WORK, NULL), 0);
	assert_int_equal(fi_control(&d->w.domain->fid, FI_CANCEL_WORK, &never), -FI_ENOENT);
	/* what waits for an endpoint goes with it */
	assert_int_equal(fi_control(&d->w.domain->fid, FI_QUEUE_WORK, &never), 0);
}

WORLD_TEST(work__atomics, duo, d)
{
	uint64_t five = 5, was[2] = { 0 }, ten = 10;
	struct fi_ioc in = { &five, 1 }, cmp = { &ten, 1 }, out[2] = { { &was[0], 1 }, { &was[1], 1 } };
	struct fi_rma_ioc rma = { .addr = 0, .count = 1, .key = 7 };
	struct fi_msg_atomic msg = { .msg_iov = &in, .iov_count = 1, .rma_iov = &rma, .rma_iov_count = 1,
				     .datatype = FI_UINT64, .op = FI_SUM };
	struct fi_op_atomic a = { .msg = msg };
	struct fi_op_fetch_atomic f = { .msg = msg, .fetch = { .msg_iov = &out[0], .iov_count = 1 } };
	struct fi_op_compare_atomic c = { .msg = msg, .fetch = { .msg_iov = &out[1], .iov_count = 1 },
					  .compare = { .msg_iov = &cmp, .iov_count = 1 } };
	struct fi_deferred_work w[3] = { { .threshold = 1, .op_type = FI_OP_ATOMIC },
					 { .threshold = 1, .op_type = FI_OP_FETCH_ATOMIC },
					 { .threshold = 2, .op_type = FI_OP_COMPARE_ATOMIC } };

	c.msg.op = FI_CSWAP;
	a.ep = f.ep = c.ep = d->a.ep;
	a.msg.addr = f.msg.addr = c.msg.addr = d->to_b;
	w[0].op.atomic = &a;
	w[1].op.fetch_atomic = &f;
	w[2].op.compare_atomic = &c;
	w[0].triggering_cntr = d->c;
	w[1].triggering_cntr = w[2].triggering_cntr = d->done;
	for (int i = 0; i < 3; i++) {
		w[i].completion_cntr = d->done;
		assert_int_equal(fi_control(&d->w.domain->fid, FI_QUEUE_WORK, &w[i]), 0);
	}
	assert_int_equal(fi_cntr_add(d->c, 1), 0);
	while (fi_cntr_read(d->done) < 3) {
		(void)fi_cq_read(d->a.cq, NULL, 0);
		(void)fi_cq_read(d->b.cq, NULL, 0);
	}
	assert_true(was[0] == 5 && was[1] == 10 && mem[0] == 5);
}

/* What deferred work names stays open until it is done with, and is of the domain that it was queued at. */
TEST(work__names)
{
	uint64_t v = 1;
	struct iovec iov = { &v, 8 };
	struct fi_op_msg m = { .msg = { .msg_iov = &iov, .iov_count = 1 } };
	struct fi_op_cntr add = { .value = 1 };
	struct fi_deferred_work send = { .threshold = 10, .op_type = FI_OP_SEND, .op.msg = &m };
	struct fi_deferred_work count = { .threshold = 10, .op_type = FI_OP_CNTR_ADD, .op.cntr = &add };
	struct fi_cntr_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fid_cntr *target, *foreign;
	struct fid_ep *srx;
	struct duo d, other;

	duo_open(&d);
	duo_open(&other);
	assert_int_equal(fi_cntr_open(d.w.domain, &attr, &target, NULL), 0);
	assert_int_equal(fi_cntr_open(other.w.domain, &attr, &foreign, NULL), 0);
	m.msg.addr = d.to_b;
	/* a counter that is to be added to, and one that is to count */
	send.triggering_cntr = count.triggering_cntr = d.c;
	add.cntr = target;
	assert_int_equal(fi_control(&d.w.domain->fid, FI_QUEUE_WORK, &count), 0);
	assert_int_equal(fi_close(&target->fid), -FI_EBUSY);
	assert_int_equal(fi_control(&d.w.domain->fid, FI_CANCEL_WORK, &count), 0);
	m.ep = d.a.ep;
	send.completion_cntr = target;
	assert_int_equal(fi_control(&d.w.domain->fid, FI_QUEUE_WORK, &send), 0);
	assert_int_equal(fi_close(&target->fid), -FI_EBUSY);
	assert_int_equal(fi_control(&d.w.domain->fid, FI_FLUSH_WORK, NULL), 0);
	/* of another domain */
	m.ep = other.a.ep;
	assert_int_equal(fi_control(&d.w.domain->fid, FI_QUEUE_WORK, &send), -FI_EINVAL);
	m.ep = d.a.ep;
	send.completion_cntr = foreign;
	assert_int_equal(fi_control(&d.w.domain->fid, FI_QUEUE_WORK, &send), -FI_EINVAL);
	send.completion_cntr = NULL;
	send.triggering_cntr = foreign;
	assert_int_equal(fi_control(&d.w.domain->fid, FI_QUEUE_WORK, &send), -FI_EINVAL);
	send.triggering_cntr = d.c;
	add.cntr = foreign;
	assert_int_equal(fi_control(&d.w.domain->fid, FI_QUEUE_WORK, &count), -FI_EINVAL);
	/* no endpoint; a shared receive context, which work does not keep open */
	m.ep = (struct fid_ep *)d.a.av;
	assert_int_equal(fi_control(&d.w.domain->fid, FI_QUEUE_WORK, &send), -FI_EINVAL);
	assert_int_equal(fi_srx_context(d.w.domain, NULL, &srx, NULL), 0);
	m.ep = srx;
	send.op_type = FI_OP_RECV;
	assert_int_equal(fi_control(&d.w.domain->fid, FI_QUEUE_WORK, &send), 0);
	assert_int_equal(fi_close(&srx->fid), 0);
	assert_int_equal(fi_control(&d.w.domain->fid, FI_CANCEL_WORK, &send), -FI_ENOENT);
	world_closes(&target->fid, &foreign->fid);
	duo_close(&other);
	duo_close(&d);
}

/* What cannot be posted when its time has come ends with an error, as the call that accepted it returned long ago. */
WORLD_TEST(trigger__fails, duo, d)
{
	struct fi_triggered_context t;
	uint64_t v = 5;
	struct iovec iov = { &v, 8 };
	struct fi_rma_iov rma = { .addr = 8, .len = 8, .key = 7 };
	struct fi_ioc ioc = { &v, 1 };
	struct fi_rma_ioc rioc = { .addr = 8, .count = 1, .key = 7 };
	struct fi_op_msg sm = { .msg = { .msg_iov = &iov, .iov_count = 1, .addr = 99, .context = &iov } };
	struct fi_op_rma wm = { .msg = { .msg_iov = &iov, .iov_count = 1, .addr = 99, .rma_iov = &rma,
					 .rma_iov_count = 1, .context = &rma } };
	struct fi_op_atomic am = { .msg = { .msg_iov = &ioc, .iov_count = 1, .addr = 99, .rma_iov = &rioc,
					    .rma_iov_count = 1, .datatype = FI_UINT64, .op = FI_SUM,
					    .context = &ioc } };
	struct fi_deferred_work w[3] = {
		{ .threshold = 1, .op_type = FI_OP_SEND, .op.msg = &sm },
		{ .threshold = 1, .op_type = FI_OP_WRITE, .op.rma = &wm },
		{ .threshold = 1, .op_type = FI_OP_ATOMIC, .op.atomic = &am },
	};
	const uint64_t flags[] = { FI_SEND | FI_MSG, FI_RMA | FI_WRITE, FI_ATOMIC | FI_WRITE, FI_SEND | FI_MSG };
	void *const context[] = { &iov, &rma, &ioc, &t };
	struct fi_cq_tagged_entry e;

	t = at(d, 1);
	sm.ep = wm.ep = am.ep = d->a.ep;
	for (int i = 0; i < 3; i++) {
		w[i].triggering_cntr = d->c;
		w[i].completion_cntr = d->done;
		assert_int_equal(fi_control(&d->w.domain->fid, FI_QUEUE_WORK, &w[i]), 0);
	}
	sm.msg.context = &t;
	assert_int_equal(fi_sendmsg(d->a.ep, &sm.msg, FI_TRIGGER), 0);
	assert_int_equal(fi_cntr_add(d->c, 1), 0);
	for (int i = 0; i < 4; i++) {
		struct fi_cq_err_entry err = { 0 };

		assert_int_equal(node_wait(&d->a, &d->b, &e, NULL), -FI_EAVAIL);
		assert_int_equal(fi_cq_readerr(d->a.cq, &err, 0), 1);
		assert_ptr_equal(err.op_context, context[i]);
		assert_int_equal(err.flags, flags[i]);
		assert_int_equal(err.err, FI_EINVAL);
	}
	assert_int_equal(fi_cntr_readerr(d->done), 3);
}

/* An alias that is closed takes with it what was posted through it. */
WORLD_TEST(trigger__alias, duo, d)
{
	struct fi_triggered_context t;
	uint64_t v = 5;
	struct iovec iov = { &v, 8 };
	struct fi_msg m = { .msg_iov = &iov, .iov_count = 1, .context = &t };
	struct fid_ep *alias = NULL;

	m.addr = d->to_b;
	t = at(d, 1);
	assert_int_equal(fi_ep_alias(d->a.ep, &alias, FI_TRANSMIT), 0);
	assert_int_equal(fi_sendmsg(alias, &m, FI_TRIGGER), 0);
	assert_int_equal(fi_close(&alias->fid), 0);
	assert_int_equal(fi_cntr_add(d->c, 1), 0);
	nothing(d);
}

static _Atomic bool closed;

static void *adder(void *arg)
{
	struct duo *d = arg;

	while (!closed)
		fi_cntr_add(d->c, 1);
	return NULL;
}

/* One thread moves the counter while another closes endpoints that operations wait for. */
WORLD_TEST(trigger__closed_meanwhile, duo, d)
{
	struct fi_triggered_context t[4];
	uint64_t v = 5;
	struct iovec iov = { &v, 8 };
	struct fi_msg m = { .msg_iov = &iov, .iov_count = 1 };
	pthread_t thread;
	struct node n;

	closed = false;
	assert_int_equal(pthread_create(&thread, NULL, adder, d), 0);
	for (int i = 0; i < 60; i++) {
		node_open(&n, &d->w);
		m.addr = node_insert(&n, &d->b);
		for (int k = 0; k < 4; k++) {
			t[k] = at(d, fi_cntr_read(d->c) + 20);
			m.context = &t[k];
			assert_int_equal(fi_sendmsg(n.ep, &m, FI_TRIGGER), 0);
		}
		node_close(&n);
	}
	closed = true;
	assert_int_equal(pthread_join(thread, NULL), 0);
}

TESTS_MAIN
