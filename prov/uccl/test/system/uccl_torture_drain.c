/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Completions, and operations that do not end. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "uccl_torture.h"

#define BATCH 8
#define WAIT_MS 2

static volatile sig_atomic_t dump_wanted;

/* ---- completions */

/* Of an operation of this rank, which is open. */
static struct request *op_of(struct worker *w, void *context)
{
	struct request *op = context;
	bool ours = false;

	for (int i = 0; i < w->t->workers; i++)
		ours |= op >= w->t->worker[i].op && op < w->t->worker[i].op + TORTURE_OPS;
	must(w, NULL, ours, "a completion with the context %p, which is nobody's", context);
	must(w, op, atomic_load(&op->state) == OP_OPEN,
	     "a completion of an operation that is not open: it completed twice");
	return op;
}

static void ended(struct worker *w, const struct fi_cq_err_entry *e, fi_addr_t src)
{
	static const uint64_t flags[KINDS] = {[WRITE] = FI_WRITE, [READ] = FI_READ, [ATOMIC] = FI_ATOMIC};
	struct request *op = op_of(w, e->op_context);

	if (op->kind == SEND || op->kind == RECV || op->kind == PEEK) {
		msg_ended(w, op, e, src);
		return;
	}
	must(w, op, w->t->format < FI_CQ_FORMAT_MSG || e->err || (e->flags & flags[op->kind]) == flags[op->kind],
	     "flags %llx", (unsigned long long)e->flags);
	op->end = *e;
	if (op->kind == REGION)
		region_ended(w, op);
	else if (op->kind == VICTIM && op->w == w)
		victim_ended(w, op);
	else if (op->w == w)
		rma_ended(w, op);
	else
		atomic_store(&op->state, OP_DONE);
}

/* Those of this worker's that others have read. */
static void reap(struct worker *w)
{
	for (int i = 0; i < TORTURE_OPS && w->t->workers > 1; i++)
		if (atomic_load(&w->op[i].state) == OP_DONE && w->op[i].kind == VICTIM)
			victim_ended(w, &w->op[i]);
		else if (atomic_load(&w->op[i].state) == OP_DONE)
			rma_ended(w, &w->op[i]);
}

static void one(struct worker *w, const struct fi_cq_tagged_entry *t, fi_addr_t src)
{
	struct fi_cq_err_entry e = {.op_context = t->op_context,
				    .flags = t->flags,
				    .len = t->len,
				    .buf = t->buf,
				    .data = t->data,
				    .tag = t->tag};

	if (!t->op_context && w->t->me->tells && t->flags & FI_REMOTE_WRITE) {
		must(w, NULL, t->flags & FI_REMOTE_CQ_DATA, "flags %llx", (unsigned long long)t->flags);
		mark_told(w, t->data);
		return;
	}
	ended(w, &e, src);
}

static int read_some(struct worker *w, struct fid_cq *cq, int timeout)
{
	static const size_t sizes[] = {
		[FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
		[FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
		[FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
		[FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
	};
	struct fi_cq_tagged_entry raw[BATCH];
	struct fi_cq_err_entry err = {0};
	fi_addr_t src[BATCH];
	uint8_t why[256];
	ssize_t n;

	if (timeout)
		n = fi_cq_sreadfrom(cq, raw, BATCH, src, NULL, timeout);
	else
		n = fi_cq_readfrom(cq, raw, BATCH, src);
	if (n == -FI_EAVAIL) {
		/* What the queue lends lasts until another thread reads the next failure. */
		err.err_data = why;
		err.err_data_size = sizeof(why);
		n = fi_cq_readerr(cq, &err, 0);
		/* Another thread may have been quicker. */
		must(w, NULL, n == 1 || (n == -FI_EAGAIN && w->t->workers > 1), "fi_cq_readerr: %zd", n);
		if (n == 1) {
			fi_cq_strerror(cq, err.prov_errno, err.err_data, w->error, sizeof(w->error));
			ended(w, &err, FI_ADDR_NOTAVAIL);
		}
		return 1;
	}
	must(w, NULL, n > 0 || n == -FI_EAGAIN, "fi_cq_read: %zd (%s)", n, fi_strerror((int)-n));
	for (ssize_t i = 0; i < n; i++) {
		struct fi_cq_tagged_entry e = {0};
		size_t size = sizes[w->t->format];

		memcpy(&e, (uint8_t *)raw + (size_t)i * size, size);
		one(w, &e, src[i]);
	}
	return n > 0 ? (int)n : 0;
}

/* Sleep until the descriptor says that there is something, if the queue lets us. */
static void wait_fd(struct worker *w, struct fid_cq *cq)
{
	struct fid *fids[] = {&cq->fid};
	struct pollfd p = {.events = POLLIN};
	int rc;

	call(w, fi_control(&cq->fid, FI_GETWAIT, &p.fd), 0);
	rc = fi_trywait(w->t->fabric, fids, 1);
	must(w, NULL, !rc || rc == -FI_EAGAIN, "fi_trywait: %d", rc);
	if (!rc)
		poll(&p, 1, WAIT_MS);
}

int drain(struct worker *w, bool wait)
{
	struct torture *t = w->t;
	int got = 0, n = t->two_cqs ? 2 : 1, timeout;

	for (int i = 0; i < n; i++) {
		if (wait && t->wait == FI_WAIT_FD)
			wait_fd(w, t->cq[i]);
		timeout = wait && t->wait == FI_WAIT_UNSPEC ? WAIT_MS : 0;
		if (t->serial)
			pthread_mutex_lock(&t->cq_lock);
		got += read_some(w, t->cq[i], timeout);
		if (t->serial)
			pthread_mutex_unlock(&t->cq_lock);
	}
	reap(w);
	return got;
}

/* ---- limits of time */

/* A receive may wait for ever, unless it was canceled or a message for it is known to be there. */
static bool must_end(const struct request *op)
{
	uint32_t state = atomic_load(&op->state);

	return state == OP_DONE || (state == OP_OPEN && (!op_waits(op) || atomic_load(&op->canceled) || op->wild));
}

void look_at_clock(struct worker *w)
{
	uint64_t now = clock_ns();

	if (dump_wanted && !w->index) {
		dump_wanted = 0;
		for (int i = 0; i < w->t->workers; i++)
			worker_dump(&w->t->worker[i], true);
	}
	if (now < w->next_look_ns)
		return;
	w->next_look_ns = now + 1000000000;
	for (int i = 0; i < TORTURE_OPS; i++) {
		struct request *op = &w->op[i];

		if (must_end(op) && (double)(now - op->began_ns) > TORTURE_PATIENCE_S * 1e9 * options.slack)
			torture_fail(w, op, "an operation does not end");
	}
}

static void on_signal(int sig)
{
	(void)sig;
	dump_wanted = 1;
}

void dump_on_signal(void)
{
	signal(SIGUSR1, on_signal);
}
