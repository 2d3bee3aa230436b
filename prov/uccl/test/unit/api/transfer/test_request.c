/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What becomes of requests, over endpoints on loopback. */
#include "../world.h"

#include <rdma/fi_ext_uccl.h>
#include <rdma/fi_rma.h>

#include "api/event/cq.h"
#include "../../tests.h"

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
TEST(request_cancel__unread_error)
{
	static const enum fi_progress how[] = { FI_PROGRESS_MANUAL, FI_PROGRESS_AUTO };
	struct fid_ep *other;
	struct pair p;

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
TEST(request_cancel__kinds)
{
	struct pair p;

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

static ssize_t match_send(struct pair *p, fi_addr_t to, bool tagged, void *buf, size_t len, uint64_t flags)
{
	struct iovec iov = { .iov_base = buf, .iov_len = len };
	struct fi_msg_tagged t = { .msg_iov = &iov, .iov_count = 1, .addr = to, .tag = 9, .context = buf };
	struct fi_msg u = { .msg_iov = &iov, .iov_count = 1, .addr = to, .context = buf };
	ssize_t rc;

	do {
		(void)fi_cq_read(p->a.cq, NULL, 0);
		(void)fi_cq_read(p->b.cq, NULL, 0);
		rc = tagged ? fi_tsendmsg(p->a.ep, &t, flags) : fi_sendmsg(p->a.ep, &u, flags);
	} while (rc == -FI_EAGAIN);
	return rc;
}

/* All has arrived that would arrive, and `a` hears of nothing. */
static void match_waits(struct pair *p)
{
	uint64_t end = uccl_clock() + 20 * UCCL_NS_PER_MS;
	struct fi_cq_tagged_entry e;

	do {
		(void)fi_cq_read(p->b.cq, NULL, 0);
		assert_int_equal(fi_cq_read(p->a.cq, &e, 1), -FI_EAGAIN);
	} while (uccl_clock() < end);
}

static void match_ends(struct node *n, struct node *other, void *context)
{
	struct fi_cq_tagged_entry e;

	assert_int_equal(node_wait(n, other, &e, NULL), 1);
	assert_ptr_equal(e.op_context, context);
}

static void match_open(struct pair *p)
{
	pair_open(p, FI_PROGRESS_MANUAL);
	next_success(&p->a, p);
	next_success(&p->b, p);
}

/* What a limit ends. Returns how the error is told. */
static const char *limit_ends(struct pair *p, void *context)
{
	static char text[256];
	struct fi_cq_err_entry out = {.err_data = text, .err_data_size = sizeof(text) - 1};
	struct fi_cq_tagged_entry e;

	assert_int_equal(node_wait(&p->a, &p->b, &e, NULL), -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(p->a.cq, &out, 0), 1);
	assert_ptr_equal(out.op_context, context);
	assert_int_equal(out.err, FI_ETIMEDOUT);
	text[out.err_data_size] = 0;
	return text;
}

/* A time limit for each operation that is posted while it is set: the peer has not failed by it. */
TEST(request_limit__by_option_and_variable)
{
	uint64_t ns = 20 * UCCL_NS_PER_MS, was = 0;
	size_t len = sizeof(was);
	struct fid *fid;
	struct pair p;

	setenv("FI_UCCL_OP_TIMEOUT", "30", 1);
	pair_open(&p, FI_PROGRESS_MANUAL);
	unsetenv("FI_UCCL_OP_TIMEOUT");
	next_success(&p.a, &p);
	next_success(&p.b, &p);
	fid = &p.a.ep->fid;
	assert_int_equal(fi_getopt(fid, FI_OPT_ENDPOINT, FI_OPT_UCCL_OP_TIMEOUT, &was, &len), 0);
	assert_int_equal(was, 30 * UCCL_NS_PER_MS);
	assert_int_equal(fi_setopt(fid, FI_OPT_ENDPOINT, FI_OPT_UCCL_OP_TIMEOUT, &ns, 4), -FI_EINVAL);
	was = UINT64_MAX;
	assert_int_equal(fi_setopt(fid, FI_OPT_ENDPOINT, FI_OPT_UCCL_OP_TIMEOUT, &was, sizeof(was)), -FI_EINVAL);
	/* The variable's, and the option's. */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(match_send(&p, p.to_b, true, p.out, 8, FI_COMPLETION | FI_DELIVERY_COMPLETE), 0);
		assert_non_null(strstr(limit_ends(&p, p.out), "its time limit is over"));
		assert_int_equal(fi_setopt(fid, FI_OPT_ENDPOINT, FI_OPT_UCCL_OP_TIMEOUT, &ns, sizeof(ns)), 0);
	}
	/* Without one it waits. */
	ns = 0;
	assert_int_equal(fi_setopt(fid, FI_OPT_ENDPOINT, FI_OPT_UCCL_OP_TIMEOUT, &ns, sizeof(ns)), 0);
	assert_int_equal(match_send(&p, p.to_b, true, p.out, 8, FI_COMPLETION | FI_DELIVERY_COMPLETE), 0);
	match_waits(&p);
	match_waits(&p);
	assert_int_equal(fi_trecv(p.b.ep, p.in[0], 8, NULL, FI_ADDR_UNSPEC, 9, 0, p.in[0]), 0);
	match_ends(&p.a, &p.b, p.out);
	match_ends(&p.b, &p.a, p.in[0]);
	pair_close(&p);
}

/* PROTOCOL R300: a send with FI_MATCH_COMPLETE completes when a receive has met it, whatever its size and kind. */
TEST(request_match__waits)
{
	static const size_t sizes[] = { 0, 8, 1000, 16384, 100000, 1u << 20 };
	static const char *const lanes[] = { "0", "2" };
	uint8_t *out = malloc(1u << 20), *in = malloc(1u << 20);
	struct fi_msg multi = { .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = in };
	struct iovec iov = { .iov_base = in, .iov_len = 1u << 20 };
	struct pair p;

	assert_non_null(out);
	assert_non_null(in);
	multi.msg_iov = &iov;
	for (unsigned int l = 0; l < 2; l++) {
		setenv("FI_UCCL_LANES", lanes[l], 1);
		match_open(&p);
		for (unsigned int i = 0; i < 3 * uccl_array_len(sizes); i++) {
			size_t len = sizes[i / 3];
			bool tagged = i % 3 == 0, inject = len <= p.w.info->tx_attr->inject_size && i & 1;

			memset(out, (int)i + 1, 1u << 20);
			memset(in, 0, 1u << 20);
			assert_int_equal(match_send(&p, p.to_b, tagged, out, len,
						    FI_MATCH_COMPLETE | FI_COMPLETION | (inject ? FI_INJECT : 0)), 0);
			if (inject)
				memset(out, 0, len);
			match_waits(&p);
			/* of another kind: it takes nothing */
			if (tagged) {
				assert_int_equal(fi_trecv(p.b.ep, p.in[1], 8, NULL, FI_ADDR_UNSPEC, 8, 0, p.in[1]), 0);
				match_waits(&p);
				assert_int_equal(fi_cancel(&p.b.ep->fid, p.in[1]), 0);
				next_error(&p.b, p.in[1], FI_ECANCELED);
				assert_int_equal(fi_trecv(p.b.ep, in, len, NULL, FI_ADDR_UNSPEC, 9, 0, in), 0);
			} else if (i % 3 == 1) {
				assert_int_equal(fi_recv(p.b.ep, in, len, NULL, FI_ADDR_UNSPEC, in), 0);
			} else {
				assert_int_equal(fi_recvmsg(p.b.ep, &multi, FI_MULTI_RECV), 0);
			}
			match_ends(&p.a, &p.b, out);
			match_ends(&p.b, &p.a, in);
			for (size_t k = 0; k < len; k++)
				assert_int_equal(in[k], (int)i + 1);
			if (i % 3 == 2 && len < 1u << 20)
				assert_int_equal(fi_cancel(&p.b.ep->fid, in), 0);
			if (i % 3 == 2 && len < 1u << 20)
				next_error(&p.b, in, FI_ECANCELED);
		}
		pair_close(&p);
	}
	unsetenv("FI_UCCL_LANES");
	free(out);
	free(in);
}

static void match_peek(struct pair *p, uint64_t flags)
{
	struct iovec iov = { .iov_base = p->in[2], .iov_len = 8 };
	struct fi_msg_tagged m = {
		.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = 9, .context = p->in[2],
	};

	assert_int_equal(fi_trecvmsg(p->b.ep, &m, flags), 0);
	match_ends(&p->b, &p->a, p->in[2]);
}

/* PROTOCOL R300: discarded counts as matched; looked at, or claimed, does not; the end of the receiver is an error. */
TEST(request_match__discarded)
{
	static const size_t sizes[] = { 8, 100000 };
	static uint8_t out[100000];
	struct pair p;

	match_open(&p);
	for (unsigned int i = 0; i < 3 * uccl_array_len(sizes); i++) {
		assert_int_equal(match_send(&p, p.to_b, true, out, sizes[i / 3], FI_MATCH_COMPLETE), 0);
		match_waits(&p);
		match_peek(&p, FI_PEEK);
		match_waits(&p);
		if (i % 3) {
			match_peek(&p, FI_PEEK | FI_CLAIM);
			match_waits(&p);
			match_peek(&p, FI_CLAIM | (i % 3 == 1 || sizes[i / 3] > 8 ? FI_DISCARD : 0));
		} else {
			match_peek(&p, FI_PEEK | FI_DISCARD);
		}
		match_ends(&p.a, &p.b, out);
	}
	assert_int_equal(match_send(&p, p.to_b, true, out, 8, FI_MATCH_COMPLETE), 0);
	match_waits(&p);
	node_close(&p.b);
	p.b.cq = NULL;
	unread(&p.a, &p.b, 1);
	next_error(&p.a, out, FI_ECONNABORTED);
	pair_close(&p);
}

/* PROTOCOL R300: likewise of a message to ourselves. */
TEST(request_match__to_itself)
{
	char out[8] = "x", in[8];
	struct pair p;
	fi_addr_t me;

	match_open(&p);
	me = node_insert(&p.a, &p.a);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(match_send(&p, me, true, out, 8, FI_MATCH_COMPLETE | (i ? FI_INJECT : 0)), 0);
		match_waits(&p);
		assert_int_equal(fi_trecv(p.a.ep, in, 8, NULL, FI_ADDR_UNSPEC, 9, 0, out), 0);
		match_ends(&p.a, NULL, out);
		match_ends(&p.a, NULL, out);
	}
	pair_close(&p);
}

TESTS_MAIN
