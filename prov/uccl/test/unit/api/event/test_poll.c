/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../world.h"

#include "api/event/cntr.h"
#include "api/event/cq.h"
#include "../../tests.h"

/* libfabric 2 calls these functions deprecated; programs written for 1.x use them. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static struct fid_cntr *cntr_open(struct world *w, enum fi_wait_obj wait)
{
	struct fi_cntr_attr attr = { .wait_obj = wait };
	struct fid_cntr *cntr;

	assert_int_equal(fi_cntr_open(w->domain, &attr, &cntr, NULL), 0);
	return cntr;
}

WORLD_TEST(open__flags, world, w)
{
	struct fi_poll_attr odd = { .flags = 1 };
	struct fid_poll *set;

	assert_int_equal(fi_poll_open(w->domain, &odd, &set), -FI_EINVAL);
	assert_int_equal(fi_poll_open(w->domain, NULL, &set), 0);
	assert_int_equal(fi_close(&w->domain->fid), -FI_EBUSY);
	assert_int_equal(fi_poll(set, NULL, 0), 0);
	assert_int_equal(fi_close(&set->fid), 0);
}

WORLD_TEST(poll__counters, world, w)
{
	struct fi_poll_attr attr = { .flags = 0 };
	struct fid_poll *set;
	struct fid_cntr *a, *b;
	void *ctx[2];
	int ca, cb;

	a = cntr_open(w, FI_WAIT_NONE);
	b = cntr_open(w, FI_WAIT_NONE);
	a->fid.context = &ca;
	b->fid.context = &cb;
	assert_int_equal(fi_poll_open(w->domain, &attr, &set), 0);
	assert_int_equal(fi_poll_add(set, &a->fid, 0), 0);
	assert_int_equal(fi_poll_add(set, &b->fid, 0), 0);
	assert_int_equal(fi_poll_add(set, &w->domain->fid, 0), -FI_EINVAL);
	assert_int_equal(fi_close(&a->fid), -FI_EBUSY);
	assert_int_equal(fi_poll(set, ctx, 2), 0);
	fi_cntr_add(b, 1);
	assert_int_equal(fi_poll(set, ctx, 2), 1);
	assert_ptr_equal(ctx[0], &cb);
	assert_int_equal(fi_poll(set, ctx, 2), 0);
	assert_int_equal(fi_poll_del(set, &b->fid, 0), 0);
	assert_int_equal(fi_poll_del(set, &b->fid, 0), -FI_EINVAL);
	fi_cntr_add(b, 1);
	fi_cntr_adderr(a, 1);
	assert_int_equal(fi_poll(set, ctx, 2), 1);
	assert_ptr_equal(ctx[0], &ca);
	world_closes(&b->fid, &set->fid, &a->fid);
}

/* A queue is told of as long as there is something to read; looking moves data. */
WORLD_TEST(poll__queues, world, w)
{
	uint64_t end = uccl_clock() + PATIENCE_NS;
	char out[8] = "x", in[8], mark_a, mark_b;
	struct fid_poll *set;
	struct node a, b;
	void *ctx[2];
	fi_addr_t to_b;
	int n;

	to_b = node_pair(&a, &b, w);
	a.cq->fid.context = &mark_a;
	b.cq->fid.context = &mark_b;
	assert_int_equal(fi_poll_open(w->domain, NULL, &set), 0);
	assert_int_equal(fi_poll_add(set, &a.cq->fid, 0), 0);
	assert_int_equal(fi_poll_add(set, &b.cq->fid, 0), 0);
	assert_int_equal(fi_poll_add(set, &b.cq->fid, 1), -FI_EINVAL);
	assert_int_equal(fi_recv(b.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in), 0);
	world_post(fi_send(a.ep, out, sizeof(out), NULL, to_b, out), &a, &b);
	do
		n = fi_poll(set, ctx, 2);
	while (n < 2 && uccl_clock() < end);
	assert_int_equal(n, 2);
	assert_ptr_equal(ctx[0], &mark_a);
	assert_ptr_equal(ctx[1], &mark_b);
	/* No more than there is room for. */
	assert_int_equal(fi_poll(set, ctx, 1), 1);
	node_expect(&a, &b, out, FI_SEND | FI_MSG);
	assert_int_equal(fi_poll(set, ctx, 2), 1);
	assert_ptr_equal(ctx[0], &mark_b);
	node_expect(&b, &a, in, FI_RECV | FI_MSG);
	assert_int_equal(fi_poll(set, ctx, 2), 0);
	/* What is in a set that closes is free again. */
	assert_int_equal(fi_close(&set->fid), 0);
	node_close(&a);
	node_close(&b);
}

TESTS_MAIN
