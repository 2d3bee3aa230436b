/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nic/verbs/verbs_probe.h"

#ifdef HAVE_VERBS

#include <errno.h>
#include <rdma/fi_errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "nic/verbs/verbs_mw.h"

#define BUFFER 65536
#define LARGE 32768
#define RECEIVES 8
#define TRIES 5
#define WAIT_NS (2 * UCCL_NS_PER_S)	/* most time for a completion that must come */
#define QUIET_NS (200 * UCCL_NS_PER_MS) /* after this time without one, no completion comes */
#define BEFORE 0xa5 /* content of the target memory before writes */

/* Two queue pairs of one port, the first of which writes to the second. */
struct rig {
	const struct uccl_verbs *lib;
	struct ibv_context *ctx;
	const struct uccl_verbs_port *port;
	uint64_t (*clock)(void);
	struct ibv_pd *pd;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp *from, *to;
	struct ibv_mr *source_mr, *target_mr, *window_mr;
	struct ibv_mw *mw;
	uint64_t iova; /* of target_mr and window_mr */
	uint8_t *source, *target;
	const char *what;
};

/* A call failed with errno; the caller has set it if the call returned it. */
static int failed(struct rig *r, const char *what)
{
	r->what = what;
	return uccl_verbs_error();
}

static struct ibv_qp *qp_new(struct rig *r, uint32_t inline_bytes)
{
	struct ibv_qp_init_attr init = {
		.send_cq = r->send_cq, .recv_cq = r->recv_cq, .srq = r->srq, .qp_type = IBV_QPT_UC};

	init.cap.max_send_wr = RECEIVES;
	init.cap.max_send_sge = 1;
	init.cap.max_inline_data = inline_bytes;
	return r->lib->create_qp(r->pd, &init);
}

static void rig_close(struct rig *r)
{
	/* Before the queue pair: on Soft-RoCE it does not end while a window of type 2 is bound through it. */
	if (r->mw)
		r->lib->dealloc_mw(r->mw);
	if (r->from)
		r->lib->destroy_qp(r->from);
	if (r->to)
		r->lib->destroy_qp(r->to);
	if (r->srq)
		r->lib->destroy_srq(r->srq);
	if (r->send_cq)
		r->lib->destroy_cq(r->send_cq);
	if (r->recv_cq)
		r->lib->destroy_cq(r->recv_cq);
	if (r->window_mr)
		r->lib->dereg_mr(r->window_mr);
	if (r->source_mr)
		r->lib->dereg_mr(r->source_mr);
	if (r->target_mr)
		r->lib->dereg_mr(r->target_mr);
	if (r->pd)
		r->lib->dealloc_pd(r->pd);
	free(r->source);
	free(r->target);
	*r = (struct rig){.lib = r->lib, .ctx = r->ctx, .port = r->port, .clock = r->clock, .what = r->what};
}

/* Make everything but receives. `completions`: depth of the receiving queue; 0: as many as there can be. */
static int rig_open(struct rig *r, int completions)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 4 * RECEIVES, .max_sge = 1}};
	int i;

	errno = 0;
	r->source = aligned_alloc(4096, BUFFER);
	r->target = aligned_alloc(4096, BUFFER);
	if (!r->source || !r->target || uccl_verbs_iova(r->target, &r->iova))
		return failed(r, "allocate memory");
	for (i = 0; i < BUFFER; i++)
		r->source[i] = (uint8_t)(i % 251 % BEFORE);
	memset(r->target, BEFORE, BUFFER);
	r->pd = r->lib->alloc_pd(r->ctx);
	if (!r->pd)
		return failed(r, "allocate a protection domain");
	r->source_mr = r->lib->reg_mr(r->pd, r->source, BUFFER, IBV_ACCESS_LOCAL_WRITE);
	if (!r->source_mr)
		return failed(r, "register memory");
	r->target_mr = r->lib->reg_mr_iova(r->pd, r->target, BUFFER, r->iova,
					   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!r->target_mr)
		return failed(r, "register memory under a random number");
	r->send_cq = r->lib->create_cq(r->ctx, 4 * RECEIVES, NULL, NULL, 0);
	r->recv_cq = r->lib->create_cq(r->ctx, completions ? completions : 4 * RECEIVES, NULL, NULL, 0);
	r->srq = r->send_cq && r->recv_cq ? r->lib->create_srq(r->pd, &srq) : NULL;
	if (!r->srq)
		return failed(r, "make queues");
	r->from = qp_new(r, 0);
	r->to = qp_new(r, 0);
	if (!r->from || !r->to)
		return failed(r, "make UC queue pairs");
	errno = uccl_verbs_loop(r->lib, r->port, r->from, r->to->qp_num, 100, 200);
	if (!errno)
		errno = uccl_verbs_loop(r->lib, r->port, r->to, r->from->qp_num, 200, 100);
	return errno ? failed(r, "connect UC queue pairs") : 0;
}

static void receives(struct rig *r, int n)
{
	struct ibv_recv_wr wr = {0}, *bad;

	while (n--)
		r->lib->post_srq_recv(r->srq, &wr, &bad);
}

/* The next completion of a queue. False: none comes. */
static bool completion(struct rig *r, struct ibv_cq *cq, uint64_t wait_ns, struct ibv_wc *wc)
{
	uint64_t until = r->clock() + wait_ns;

	do {
		if (r->lib->poll_cq(cq, 1, wc) > 0)
			return true;
		sched_yield();
	} while (r->clock() < until);
	return false;
}

/* Write, and return the status that the sender gets. */
static enum ibv_wc_status write_one(struct rig *r, struct ibv_qp *qp, uint32_t len, uint64_t iova, uint32_t key)
{
	struct ibv_sge sge = {.addr = (uintptr_t)r->source, .length = len, .lkey = r->source_mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = iova, .rkey = key}},
			   *bad;
	struct ibv_wc wc;

	if (r->lib->post_send(qp, &wr, &bad))
		return IBV_WC_GENERAL_ERR;
	return completion(r, r->send_cq, WAIT_NS, &wc) ? wc.status : IBV_WC_GENERAL_ERR;
}

static enum ibv_wc_status write_good(struct rig *r, uint32_t len)
{
	return write_one(r, r->from, len, r->iova, r->target_mr->rkey);
}

/* Completions of receives until there are no more: how many, and how many of them in error. */
static int arrivals(struct rig *r, int most, int *errors)
{
	struct ibv_wc wc;
	int n = 0;

	*errors = 0;
	while (n < most && completion(r, r->recv_cq, QUIET_NS, &wc)) {
		*errors += wc.status != IBV_WC_SUCCESS;
		n++;
	}
	return n - *errors;
}

/* Writes of one packet go through, some of them at least. */
static bool lives(struct rig *r)
{
	int i, errors;

	receives(r, TRIES);
	for (i = 0; i < TRIES; i++)
		write_good(r, r->port->mtu);
	return arrivals(r, TRIES, &errors) > 0;
}

static enum uccl_probe_answer yes(bool is)
{
	return is ? UCCL_PROBE_YES : UCCL_PROBE_NO;
}

/* Bytes of the target that are the source's, from its beginning. */
static uint32_t placed(const struct rig *r)
{
	uint32_t n = 0;

	while (n < BUFFER && r->target[n] == r->source[n])
		n++;
	return n;
}

/* Tests. Each has its own rig, since it may break what it uses. */

static int test_basic(struct rig *r, struct uccl_verbs_probe *p)
{
	int errors;

	receives(r, RECEIVES);
	write_good(r, p->mtu);
	write_good(r, p->large);
	p->uc = yes(arrivals(r, 2, &errors) == 2 && placed(r) == p->large);
	p->iova = UCCL_PROBE_YES; /* without it there is no rig */
	return 0;
}

static int test_inline(struct rig *r, struct uccl_verbs_probe *p)
{
	uint32_t bytes;

	for (bytes = 1024; bytes; bytes /= 2) {
		struct ibv_qp *qp = qp_new(r, bytes);

		if (!qp)
			continue;
		r->lib->destroy_qp(qp);
		break;
	}
	p->inline_bytes = bytes;
	return 0;
}

static int test_rnr(struct rig *r, struct uccl_verbs_probe *p)
{
	int errors;

	p->rnr_told = yes(write_good(r, p->large) != IBV_WC_SUCCESS);
	arrivals(r, 1, &errors);
	p->rnr_bytes = placed(r);
	p->rnr_ends = yes(!lives(r));
	return 0;
}

static int test_foreign_qp(struct rig *r, struct uccl_verbs_probe *p)
{
	struct ibv_qp *other = qp_new(r, 0);
	int rc = 0, errors;

	if (!other)
		return failed(r, "make a third queue pair");
	receives(r, RECEIVES);
	errno = uccl_verbs_loop(r->lib, r->port, other, r->to->qp_num, 0x123456, 0x654321);
	if (errno)
		rc = failed(r, "connect a third queue pair");
	else
		write_one(r, other, p->mtu, r->iova, r->target_mr->rkey);
	p->foreign_qp = yes(arrivals(r, 1, &errors) == 1 && placed(r) == p->mtu);
	r->lib->destroy_qp(other);
	return rc;
}

static int test_key(struct rig *r, struct uccl_verbs_probe *p)
{
	int i, errors;

	receives(r, 2);
	for (i = 0; i < 2; i++)
		write_one(r, r->from, p->mtu, r->iova, r->target_mr->rkey ^ 0xabcd00);
	arrivals(r, 2, &errors);
	p->key_receives = yes(errors == 2);
	p->key_ends = yes(!lives(r));
	return 0;
}

static int test_dereg(struct rig *r, struct uccl_verbs_probe *p)
{
	uint32_t key = r->target_mr->rkey;
	int errors;

	receives(r, RECEIVES);
	errno = r->lib->dereg_mr(r->target_mr);
	if (errno)
		return failed(r, "end a registration");
	r->target_mr = NULL;
	write_one(r, r->from, p->mtu, r->iova, key);
	arrivals(r, 1, &errors);
	p->dereg_fences = yes(!placed(r));
	return 0;
}

static int test_overrun(struct rig *r, struct uccl_verbs_probe *p)
{
	int i, n = r->recv_cq->cqe + 2, errors;

	if (n > 2 * RECEIVES)
		return 0; /* more than is posted: the NIC rounds up a lot */
	receives(r, n);
	for (i = 0; i < n; i++)
		write_good(r, p->mtu);
	arrivals(r, n, &errors);
	p->overrun_ends = yes(!lives(r));
	return 0;
}

static int test_numbers(struct rig *r, struct uccl_verbs_probe *p)
{
	struct ibv_qp *qp[3] = {NULL};
	struct ibv_mr *mr[3] = {NULL};
	int64_t qpn[3] = {0}, key[3] = {0};
	int i;

	for (i = 0; i < 3; i++) {
		qp[i] = qp_new(r, 0);
		mr[i] = r->lib->reg_mr(r->pd, r->target, BUFFER, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		qpn[i] = qp[i] ? qp[i]->qp_num : 0;
		/* The low 8 bits are the driver's to choose. */
		key[i] = mr[i] ? mr[i]->rkey >> 8 : 0;
	}
	if (qpn[2] - qpn[1] == qpn[1] - qpn[0])
		p->qpn_step = qpn[2] - qpn[1];
	if (key[2] - key[1] == key[1] - key[0])
		p->key_step = key[2] - key[1];
	for (i = 0; i < 3; i++) {
		if (qp[i])
			r->lib->destroy_qp(qp[i]);
		if (mr[i])
			r->lib->dereg_mr(mr[i]);
	}
	return 0;
}

static int test_cycle(struct rig *r, struct uccl_verbs_probe *p)
{
	uint64_t began = r->clock();
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	int i;

	for (i = 0; i < TRIES; i++) {
		struct ibv_qp *qp = qp_new(r, 0);

		if (!qp)
			return failed(r, "make a queue pair");
		if (!uccl_verbs_loop(r->lib, r->port, qp, r->to->qp_num, 1, 1))
			r->lib->modify_qp(qp, &err, IBV_QP_STATE);
		r->lib->destroy_qp(qp);
	}
	p->cycle_ns = (r->clock() - began) / TRIES;
	return 0;
}

/* Windows. */

#define WINDOW_AT 8192 /* in the target; as long as a packet */

/* Through the queue pair that sends; 0 bytes: to nothing. *key is what a peer has to name. */
static int window_bind(struct rig *r, uint32_t at, uint32_t len, uint32_t *key)
{
	struct ibv_mw_bind_info info = {.mr = r->window_mr, .addr = r->iova + at, .length = len};
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_wc wc;
	int err;

	info.mw_access_flags = len ? IBV_ACCESS_REMOTE_WRITE : 0;
	bind.bind_info = wr.bind_mw.bind_info = info;
	wr.bind_mw.mw = r->mw;
	wr.bind_mw.rkey = ibv_inc_rkey(r->mw->rkey);
	if (r->mw->type == IBV_MW_TYPE_1)
		err = r->lib->bind_mw(r->from, r->mw, &bind);
	else
		err = r->lib->post_send(r->from, &wr, &bad);
	*key = r->mw->type == IBV_MW_TYPE_1 ? r->mw->rkey : wr.bind_mw.rkey;
	if (!err && (!completion(r, r->send_cq, WAIT_NS, &wc) || wc.status != IBV_WC_SUCCESS))
		err = EIO;
	errno = err;
	return err ? failed(r, "bind a memory window") : 0;
}

/* A window of this type, bound to a packet of the target. */
static int window_open(struct rig *r, enum ibv_mw_type type, uint32_t *key)
{
	r->window_mr = r->lib->reg_mr_iova(r->pd, r->target, BUFFER, r->iova,
					   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	if (!r->window_mr)
		return failed(r, "register memory for windows");
	r->mw = r->lib->alloc_mw(r->pd, type);
	return r->mw ? window_bind(r, WINDOW_AT, r->port->mtu, key) : failed(r, "make a memory window");
}

/*
 * True if a write of a packet to this place arrives. It is followed by a write of one byte to memory without window:
 * when that has arrived, there is nothing more to wait for. Completions do not show it: some may be of earlier writes.
 */
static bool window_takes(struct rig *r, uint32_t at, uint32_t key)
{
	struct ibv_wc wc;

	memset(r->target, BEFORE, BUFFER);
	receives(r, 2);
	write_one(r, r->from, r->port->mtu, r->iova + at, key);
	write_one(r, r->from, 1, r->iova, r->target_mr->rkey);
	while (r->target[0] == BEFORE && completion(r, r->recv_cq, QUIET_NS, &wc))
		;
	return !memcmp(r->target + at, r->source, r->port->mtu);
}

static int test_windows(struct rig *r, struct uccl_verbs_probe *p)
{
	uint32_t key;
	int rc = window_open(r, IBV_MW_TYPE_1, &key);

	if (rc)
		return rc;
	p->windows = yes(window_takes(r, WINDOW_AT, key));
	p->window_bounds = yes(!window_takes(r, WINDOW_AT + p->mtu, key));
	return 0;
}

static int test_unbound(struct rig *r, struct uccl_verbs_probe *p)
{
	uint32_t key, none;
	int rc = window_open(r, IBV_MW_TYPE_1, &key);

	if (!rc)
		rc = window_bind(r, 0, 0, &none);
	if (!rc)
		p->window_fences = yes(!window_takes(r, WINDOW_AT, key));
	return rc;
}

static int test_window2(struct rig *r, struct uccl_verbs_probe *p)
{
	uint32_t key;

	/* Not all NICs have them, and nothing depends on it. */
	if (!window_open(r, IBV_MW_TYPE_2, &key))
		p->window2 = yes(window_takes(r, WINDOW_AT, key));
	return 0;
}

static int test_window_times(struct rig *r, struct uccl_verbs_probe *p)
{
	uint64_t began;
	uint32_t key;
	int i, rc = window_open(r, IBV_MW_TYPE_1, &key);

	began = r->clock();
	for (i = 0; i < TRIES && !rc; i++) {
		rc = window_bind(r, 0, p->large, &key);
		if (!rc)
			rc = window_bind(r, 0, 0, &key);
	}
	p->window_ns = (r->clock() - began) / TRIES;
	began = r->clock();
	for (i = 0; i < TRIES && !rc; i++) {
		struct ibv_mr *mr = r->lib->reg_mr_iova(r->pd, r->target, p->large, r->iova,
							IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

		if (!mr)
			return failed(r, "register memory again");
		r->lib->dereg_mr(mr);
	}
	p->registration_ns = (r->clock() - began) / TRIES;
	return rc;
}

static int (*const window_tests[])(struct rig *r, struct uccl_verbs_probe *p) = {
	test_windows, test_unbound, test_window2, test_window_times,
};

/* Run the first tests of windows, if the NIC has windows. */
static int windows_probe(struct rig *r, size_t ntests, struct uccl_verbs_probe *p)
{
	int rc = 0;

	for (size_t i = 0; i < ntests && !rc && r->port->max_mw; i++) {
		rc = rig_open(r, 0);
		if (!rc)
			rc = window_tests[i](r, p);
		rig_close(r);
	}
	return rc;
}

static void begin(struct uccl_verbs_probe *p, const struct uccl_verbs_port *port)
{
	memset(p, 0, sizeof(*p));
	p->mtu = port->mtu;
	p->large = LARGE;
}

int uccl_verbs_probe_windows(const struct uccl_verbs *lib, struct ibv_context *ctx, const struct uccl_verbs_port *port,
			     uint64_t (*clock)(void), struct uccl_verbs_probe *p, const char **what)
{
	struct rig r = {.lib = lib, .ctx = ctx, .port = port, .clock = clock};
	int rc;

	begin(p, port);
	rc = windows_probe(&r, 2, p);
	*what = r.what;
	return rc;
}

bool uccl_verbs_probe_window_use(const struct uccl_verbs_probe *p, bool loose)
{
	return p->windows == UCCL_PROBE_YES && p->window_fences == UCCL_PROBE_YES &&
	       (loose || p->window_bounds == UCCL_PROBE_YES);
}

int uccl_verbs_probe(const struct uccl_verbs *lib, struct ibv_context *ctx, const struct uccl_verbs_port *port,
		     bool overrun, uint64_t (*clock)(void), struct uccl_verbs_probe *p, const char **what)
{
	static int (*const tests[])(struct rig *r, struct uccl_verbs_probe *p) = {
		test_basic, test_inline, test_rnr,     test_foreign_qp, test_key,
		test_dereg, test_cycle,  test_numbers, test_overrun,
	};
	struct rig r = {.lib = lib, .ctx = ctx, .port = port, .clock = clock};
	size_t i;
	int rc = 0;

	begin(p, port);
	for (i = 0; i < uccl_array_len(tests) && !rc; i++) {
		if (tests[i] == test_overrun && !overrun)
			continue;
		rc = rig_open(&r, tests[i] == test_overrun ? 4 : 0);
		if (!rc)
			rc = tests[i](&r, p);
		rig_close(&r);
	}
	*what = r.what;
	if (!rc)
		p->window_error = windows_probe(&r, uccl_array_len(window_tests), p);
	p->window_what = r.what;
	return rc;
}

uint32_t uccl_verbs_probe_write_max(const struct uccl_verbs_probe *p)
{
	if (p->uc != UCCL_PROBE_YES)
		return 0;
	/* What the loss of a packet does needs a network that loses; a write without a receive is cut off likewise. */
	return p->rnr_ends == UCCL_PROBE_NO ? p->large : p->mtu;
}

#endif
