/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What becomes of requests, over endpoints on loopback. */
#include "../world.h"

#include <rdma/fi_rma.h>

#include "api/event/cq.h"

/* Completions of `a` that are unread. They are waited for, not read. */
static void unread(struct node *a, struct node *b, uint32_t n)
{
	struct uccl_cq *cq = uccl_cq_of(&a->cq->fid);
	uint64_t end = uccl_clock() + PATIENCE_NS;

	while (atomic_load(&cq->tail) - atomic_load(&cq->head) < n && uccl_clock() < end) {
		(void)fi_cq_read(a->cq, NULL, 0);
		if (b->cq)
			(void)fi_cq_read(b->cq, NULL, 0);
	}
	assert_int_equal(atomic_load(&cq->tail) - atomic_load(&cq->head), n);
}

static void next_error(struct node *n, void *context, int err)
{
	struct fi_cq_err_entry out = { 0 };
	struct fi_cq_tagged_entry e;

	assert_int_equal(fi_cq_read(n->cq, &e, 1), -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(n->cq, &out, 0), 1);
	assert_ptr_equal(out.op_context, context);
	assert_int_equal(out.err, err);
}

static void next_success(struct node *n, void *context)
{
	struct fi_cq_tagged_entry e;

	assert_int_equal(fi_cq_read(n->cq, &e, 1), 1);
	assert_ptr_equal(e.op_context, context);
}

struct pair {
	struct world w;
	struct node a, b;
	struct fid_cntr *rx;
	fi_addr_t to_b;
	char in[4][8], out[8];
};

/* `a` counts what it receives; both have met. */
static void pair_open(struct pair *p, enum fi_progress progress)
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP };
	struct fi_info *hints = world_hints();

	memset(p, 0, sizeof(*p));
	hints->domain_attr->data_progress = progress;
	world_open_with(&p->w, hints);
	node_open(&p->a, &p->w);
	node_open(&p->b, &p->w);
	assert_int_equal(fi_cntr_open(p->w.domain, &attr, &p->rx, NULL), 0);
	assert_int_equal(fi_ep_bind(p->a.ep, &p->rx->fid, FI_RECV), 0);
	p->to_b = node_insert(&p->a, &p->b);
	assert_int_equal(fi_trecv(p->b.ep, p->in[0], 8, NULL, FI_ADDR_UNSPEC, 1, 0, p), 0);
	world_post(fi_tsend(p->a.ep, p->out, 8, NULL, p->to_b, 1, p), &p->a, &p->b);
	unread(&p->a, &p->b, 1);
	unread(&p->b, &p->a, 1);
}

static void pair_close(struct pair *p)
{
	node_close(&p->a);
	if (p->b.cq)
		node_close(&p->b);
	assert_int_equal(fi_close(&p->rx->fid), 0);
	world_close(&p->w);
}

/* The error of a receive lies unread: the receive can still be cancelled, once, by its own endpoint. */
static void request_cancel__unread_error(void **state)
{
	static const enum fi_progress how[] = { FI_PROGRESS_MANUAL, FI_PROGRESS_AUTO };
	struct fid_ep *other;
	struct pair p;

	(void)state;
	for (size_t i = 0; i < uccl_array_len(how); i++) {
		pair_open(&p, how[i]);
		/* another endpoint with the same queue knows nothing of it */
		assert_int_equal(fi_endpoint(p.w.domain, p.w.info, &other, NULL), 0);
		assert_int_equal(fi_ep_bind(other, &p.a.av->fid, 0), 0);
		assert_int_equal(fi_ep_bind(other, &p.a.cq->fid, FI_TRANSMIT | FI_RECV), 0);
		assert_int_equal(fi_enable(other), 0);
		for (int k = 0; k < 4; k++)
			assert_int_equal(fi_trecv(p.a.ep, p.in[k], 8, NULL, p.to_b, 1, 0, p.in[k]), 0);
		node_close(&p.b);
		p.b.cq = NULL;
		unread(&p.a, &p.b, 5);
		assert_int_equal(fi_cntr_readerr(p.rx), 4);
		assert_int_equal(fi_cancel(&other->fid, p.in[1]), -FI_ENOENT);
		assert_int_equal(fi_cancel(&p.a.ep->fid, p.in[3]), 0);
		assert_int_equal(fi_cancel(&p.a.ep->fid, p.in[1]), 0);
		assert_int_equal(fi_cancel(&p.a.ep->fid, p.in[1]), -FI_ENOENT);
		/* nobody waits for the success */
		assert_int_equal(fi_cancel(&p.a.ep->fid, &p), -FI_ENOENT);
		assert_int_equal(fi_cntr_readerr(p.rx), 4);
		next_success(&p.a, &p);
		next_error(&p.a, p.in[0], FI_ECONNABORTED);
		/* it was told */
		assert_int_equal(fi_cancel(&p.a.ep->fid, p.in[0]), -FI_ENOENT);
		next_error(&p.a, p.in[1], FI_ECANCELED);
		next_error(&p.a, p.in[2], FI_ECONNABORTED);
		next_error(&p.a, p.in[3], FI_ECANCELED);
		assert_int_equal(fi_cancel(&p.a.ep->fid, p.in[3]), -FI_ENOENT);
		assert_int_equal(fi_close(&other->fid), 0);
		pair_close(&p);
	}
}

/* Likewise of what goes out; but a receive that was too short has consumed its message. */
static void request_cancel__kinds(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, FI_PROGRESS_MANUAL);
	next_success(&p.a, &p);
	world_post(fi_write(p.a.ep, p.out, 8, NULL, p.to_b, 0, 0x1234, p.out), &p.a, &p.b);
	unread(&p.a, &p.b, 1);
	assert_int_equal(fi_cancel(&p.a.ep->fid, p.out), 0);
	next_error(&p.a, p.out, FI_ECANCELED);

	assert_int_equal(fi_trecv(p.b.ep, p.in[0], 4, NULL, FI_ADDR_UNSPEC, 2, 0, p.in[0]), 0);
	world_post(fi_tsend(p.a.ep, p.out, 8, NULL, p.to_b, 2, p.out), &p.a, &p.b);
	unread(&p.b, &p.a, 2);
	assert_int_equal(fi_cancel(&p.b.ep->fid, p.in[0]), -FI_ENOENT);
	next_success(&p.b, &p);
	next_error(&p.b, p.in[0], FI_ETRUNC);
	pair_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(request_cancel__unread_error),
		cmocka_unit_test(request_cancel__kinds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
