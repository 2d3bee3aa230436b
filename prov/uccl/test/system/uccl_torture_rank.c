/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A rank: its endpoint, its completions, its rounds. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "uccl_torture.h"

#define BATCH 8
#define PATIENCE_S 60 /* times slack: so long an operation may be open */
#define FULL_CHECK 16 /* rounds between two looks at whole slices */
#define WAIT_MS 2

static struct torture torture;
static volatile sig_atomic_t dump_wanted;

static void on_signal(int sig)
{
	(void)sig;
	dump_wanted = 1;
}

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
	else if (op->w == w)
		rma_ended(w, op);
	else
		atomic_store(&op->state, OP_DONE);
}

/* Those of this worker's that others have read. */
static void reap(struct worker *w)
{
	for (int i = 0; i < TORTURE_OPS && w->t->workers > 1; i++)
		if (atomic_load(&w->op[i].state) == OP_DONE)
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
	ssize_t n;

	if (timeout)
		n = fi_cq_sreadfrom(cq, raw, BATCH, src, NULL, timeout);
	else
		n = fi_cq_readfrom(cq, raw, BATCH, src);
	if (n == -FI_EAVAIL) {
		n = fi_cq_readerr(cq, &err, 0);
		/* Another thread may have been quicker. */
		must(w, NULL, n == 1 || (n == -FI_EAGAIN && w->t->workers > 1), "fi_cq_readerr: %zd", n);
		if (n == 1)
			ended(w, &err, FI_ADDR_NOTAVAIL);
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

static int drain(struct worker *w, bool wait)
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

static bool is_open(const struct request *op)
{
	uint32_t state = atomic_load(&op->state);

	/* A receive may wait for ever, unless it was canceled. */
	return state == OP_DONE || (state == OP_OPEN && (op->kind != RECV || atomic_load(&op->canceled) || op->wild));
}

static void look_at_clock(struct worker *w)
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

		if (is_open(op) && (double)(now - op->began_ns) > PATIENCE_S * 1e9 * options.slack)
			torture_fail(w, op, "an operation does not end");
	}
}

/* Wait for all workers of all ranks. */
static void barrier(struct worker *w)
{
	struct shared *s = w->t->s;
	uint32_t all = (uint32_t)(s->cfg.ranks * s->cfg.workers), until = ++w->barriers * all;

	atomic_fetch_add(&s->arrived, 1);
	while ((int32_t)(atomic_load(&s->arrived) - until) < 0) {
		if (!w->t->ep) {
			sleep_ms(1);
			continue;
		}
		if (!drain(w, !uccl_rng_below(&w->poll, 4)))
			sched_yield();
		msg_claims(w, &w->poll, true);
		look_at_clock(w);
	}
}

/* ---- a round */

static void call_one(struct worker *w)
{
	struct torture *t = w->t;
	struct uccl_rng r;
	unsigned int what;

	w->calls++;
	uccl_rng_seed(&r,
		      key_mix(key_mix(t->s->cfg.seed, (uint64_t)(t->rank * TORTURE_WORKERS + w->index + 1)), w->calls));
	what = (unsigned int)uccl_rng_below(&r, 100);
	if (what < 27)
		msg_send(w, &r);
	else if (what < 51)
		msg_recv(w, &r);
	else if (what < 62)
		rma_write(w, &r);
	else if (what < 71)
		rma_read(w, &r);
	else if (what < 77)
		rma_atomic(w, &r);
	else if (what < 82)
		cell_atomic(w, &r);
	else if (what < 85)
		msg_cancel(w, &r);
	else if (what < 90)
		msg_peek(w, &r);
	else if (what < 92)
		msg_claims(w, &r, false);
	else if (what < 96)
		region_access(w, &r);
	else if (what < 98)
		region_turn(w, &r);
	else
		drain(w, true);
}

static unsigned int open_ops(const struct worker *w, bool recvs)
{
	unsigned int n = 0;

	for (int i = 0; i < TORTURE_OPS; i++)
		n += atomic_load(&w->op[i].state) != OP_FREE && (recvs || w->op[i].kind != RECV);
	return n;
}

/* Every operation of this worker ends, and the first one of a rank receives what waits for the rank. */
static void come_to_rest(struct worker *w)
{
	size_t longest;

	for (;;) {
		if (!drain(w, !uccl_rng_below(&w->poll, 8)))
			sched_yield();
		msg_claims(w, &w->poll, true);
		rma_read_behind(w, &w->poll);
		if (!w->index)
			msg_recv_rest(w, &w->poll);
		look_at_clock(w);
		if (open_ops(w, false) || (!w->index && (msg_waiting(w->t, false, &longest) ||
							 msg_waiting(w->t, true, &longest) || marks_open(w->t))))
			continue;
		return;
	}
}

/* What was injected may be counted after a read behind it has ended: completions have no order. */
static void check_counters(struct worker *w)
{
	static const char *const names[] = {"sends", "reads", "writes"};
	uint64_t end = clock_ns() + (uint64_t)(PATIENCE_S * 1e9 * options.slack), good, bad, want;
	struct torture *t = w->t;

	for (int i = 0; i < 3 && t->counted; i++) {
		want = atomic_load(&t->counted_ops[i]);
		do {
			good = fi_cntr_read(t->cntr[i]);
			bad = fi_cntr_readerr(t->cntr[i]);
		} while (good + bad < want && clock_ns() < end);
		must(w, NULL, good + bad == want, "%llu %s, but %llu and %llu counted", (unsigned long long)want,
		     names[i], (unsigned long long)good, (unsigned long long)bad);
	}
}

static void check_all(struct worker *w, bool full)
{
	size_t where;

	rma_check(w, full);
	must(w, NULL, quarantine_look(&w->quarantine, &w->poll, full, &where),
	     "a buffer was written to after its operation had ended, at byte %zu", where);
	if (w->index)
		return;
	msg_check(w);
	cell_check(w);
	region_check(w);
	check_counters(w);
}

static bool round_next(struct worker *w)
{
	struct shared *s = w->t->s;
	bool first = !w->index && !w->t->rank;
	uint64_t done = 0;

	if (!w->index) {
		msg_reset(w);
		cell_reset(w);
		rma_reset(w);
	}
	memset(w->guess, 0, sizeof(w->guess));
	for (int i = 0; i < s->cfg.ranks && first; i++)
		for (int k = 0; k < KINDS; k++)
			done += atomic_load(&s->member[i].done[k]);
	if (first) {
		atomic_fetch_add(&s->round, 1);
		if ((s->cfg.ops && done >= s->cfg.ops) || (s->cfg.seconds && clock_ns() >= s->cfg.ends_ns))
			atomic_store(&s->stop, 1);
	}
	barrier(w);
	return !atomic_load(&s->stop);
}

static void *worker_run(void *arg)
{
	struct worker *w = arg;
	uint32_t round = 0;
	size_t where;

	barrier(w);
	do {
		for (int i = 0; i < ROUND_CALLS; i++) {
			call_one(w);
			for (uint64_t k = uccl_rng_below(&w->poll, 4); k > 1; k--)
				drain(w, false);
			if (!uccl_rng_below(&w->poll, 16))
				must(w, NULL, quarantine_look(&w->quarantine, &w->poll, false, &where),
				     "a buffer was written to after its operation had ended, at byte %zu", where);
			look_at_clock(w);
		}
		barrier(w);
		come_to_rest(w);
		barrier(w);
		msg_cancel_all(w);
		while (open_ops(w, true)) {
			drain(w, false);
			look_at_clock(w);
		}
		check_all(w, ++round % FULL_CHECK == 0);
		barrier(w);
	} while (round_next(w));
	check_all(w, true);
	barrier(w);
	return NULL;
}

/* ---- life */

static void draw(struct torture *t)
{
	static const enum fi_cq_format formats[] = {FI_CQ_FORMAT_TAGGED, FI_CQ_FORMAT_TAGGED, FI_CQ_FORMAT_TAGGED,
						    FI_CQ_FORMAT_DATA,	 FI_CQ_FORMAT_DATA,   FI_CQ_FORMAT_MSG,
						    FI_CQ_FORMAT_CONTEXT};
	static const enum fi_wait_obj waits[] = {FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_FD};
	static const uint64_t levels[] = {0, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE};
	struct uccl_rng r;

	uccl_rng_seed(&r, key_mix(t->s->cfg.seed, (uint64_t)t->rank));
	t->format = formats[uccl_rng_below(&r, sizeof(formats) / sizeof(formats[0]))];
	t->wait = waits[uccl_rng_below(&r, 3)];
	t->op_flags = levels[uccl_rng_below(&r, 4)];
	t->two_cqs = uccl_rng_below(&r, 2);
	t->serial = t->workers > 1 && uccl_rng_below(&r, 2);
	t->counted = uccl_rng_below(&r, 2);
	t->virtual_mr = uccl_rng_below(&r, 2);
	t->min_multi = (size_t)64 << uccl_rng_below(&r, 7);
	t->cq_size = uccl_rng_below(&r, 3) ? 0 : 64;
	t->progress = uccl_rng_below(&r, 4) ? FI_PROGRESS_MANUAL : FI_PROGRESS_AUTO;
	t->threading = t->workers > 1 || uccl_rng_below(&r, 2) ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;
	fprintf(stderr,
		"rank %d: format %d, wait %d, op_flags %llx, %d queues of %zu%s%s, %s keys, min_multi %zu, "
		"threading %d, progress %d\n",
		t->rank, t->format, t->wait, (unsigned long long)t->op_flags, t->two_cqs + 1, t->cq_size,
		t->serial ? ", serial" : "", t->counted ? ", counters" : "", t->virtual_mr ? "provider's" : "own",
		t->min_multi, t->threading, t->progress);
}

static void good(int rc, const char *what)
{
	rank_check(!rc, "%s: %d (%s)", what, rc, fi_strerror(-rc));
}

static void endpoint_info(struct torture *t)
{
	struct fi_info *h = fab_hints();

	h->caps |= FI_RMA | FI_ATOMIC;
	h->tx_attr->msg_order = h->rx_attr->msg_order = 0;
	h->tx_attr->op_flags = t->op_flags;
	h->domain_attr->threading = t->threading;
	h->domain_attr->control_progress = h->domain_attr->data_progress = t->progress;
	h->domain_attr->mr_mode = t->virtual_mr ? FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY : 0;
	good(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", NULL, FI_SOURCE, h, &t->info), "fi_getinfo");
	fi_freeinfo(h);
	rank_check(!strcmp(t->info->fabric_attr->prov_name, "uccl"), "the provider is %s",
		   t->info->fabric_attr->prov_name);
	rank_check(!!(t->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) == t->virtual_mr, "mr_mode is %x",
		   t->info->domain_attr->mr_mode);
	rank_check(t->info->ep_attr->max_order_raw_size >= ORDER_MAX &&
			   t->info->ep_attr->max_order_war_size >= ORDER_MAX &&
			   t->info->ep_attr->max_order_waw_size >= ORDER_MAX &&
			   t->info->tx_attr->inject_size >= INJECT_MAX,
		   "less order or shorter injects than these tests need");
}

static void endpoint_open(struct torture *t)
{
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq = {.format = t->format, .size = t->cq_size, .wait_obj = t->wait};
	struct fi_cntr_attr cntr = {.events = FI_CNTR_EVENTS_COMP};
	static const uint64_t counted[] = {FI_SEND, FI_READ, FI_WRITE};
	size_t len = sizeof(t->me->name);

	good(fi_fabric(t->info->fabric_attr, &t->fabric, NULL), "fi_fabric");
	good(fi_domain(t->fabric, t->info, &t->domain, NULL), "fi_domain");
	good(fi_av_open(t->domain, &av, &t->av, NULL), "fi_av_open");
	good(fi_endpoint(t->domain, t->info, &t->ep, NULL), "fi_endpoint");
	good(fi_ep_bind(t->ep, &t->av->fid, 0), "fi_ep_bind av");
	for (int i = 0; i <= t->two_cqs; i++) {
		uint64_t flags = !t->two_cqs ? FI_TRANSMIT | FI_RECV : i ? FI_RECV : FI_TRANSMIT;

		good(fi_cq_open(t->domain, &cq, &t->cq[i], NULL), "fi_cq_open");
		good(fi_ep_bind(t->ep, &t->cq[i]->fid, flags), "fi_ep_bind cq");
	}
	for (int i = 0; i < 3 && t->counted; i++) {
		good(fi_cntr_open(t->domain, &cntr, &t->cntr[i], NULL), "fi_cntr_open");
		good(fi_ep_bind(t->ep, &t->cntr[i]->fid, counted[i]), "fi_ep_bind counter");
	}
	good(fi_setopt(&t->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &t->min_multi, sizeof(t->min_multi)),
	     "fi_setopt");
	good(fi_enable(t->ep), "fi_enable");
	good(fi_getname(&t->ep->fid, t->me->name, &len), "fi_getname");
	good(fi_mr_reg(t->domain, shared_window(t->s, t->rank), t->s->cfg.regions_at, FI_REMOTE_READ | FI_REMOTE_WRITE,
		       0, 7, 0, &t->mr, NULL),
	     "fi_mr_reg");
	t->me->addr = t->virtual_mr ? (uint64_t)(uintptr_t)shared_window(t->s, t->rank) : 0;
	t->me->rkey = fi_mr_key(t->mr);
	t->me->tells = t->format >= FI_CQ_FORMAT_DATA;
}

static void endpoint_close(struct torture *t)
{
	good(fi_close(&t->mr->fid), "fi_close region");
	good(fi_close(&t->ep->fid), "fi_close endpoint");
	for (int i = 0; i <= t->two_cqs; i++)
		good(fi_close(&t->cq[i]->fid), "fi_close queue");
	for (int i = 0; i < 3 && t->counted; i++)
		good(fi_close(&t->cntr[i]->fid), "fi_close counter");
	good(fi_close(&t->av->fid), "fi_close av");
	good(fi_close(&t->domain->fid), "fi_close domain");
	good(fi_close(&t->fabric->fid), "fi_close fabric");
	fi_freeinfo(t->info);
}

static void torture_attach(struct torture *t, struct rank *r)
{
	int fd = atoi(getenv("TORTURE_FD"));
	struct stat st;

	rank_check(!fstat(fd, &st), "no memory to share");
	t->s = shared_map(fd, (size_t)st.st_size);
	t->r = r;
	t->rank = r->index;
	t->ranks = t->s->cfg.ranks;
	t->workers = t->s->cfg.workers;
	t->me = &t->s->member[t->rank];
	pthread_mutex_init(&t->rx_lock, NULL);
	pthread_mutex_init(&t->cq_lock, NULL);
	for (int i = 0; i < t->ranks; i++)
		pthread_mutex_init(&t->tx_lock[i], NULL);
	for (int i = 0; i < t->workers; i++) {
		struct worker *w = &t->worker[i];

		w->t = t;
		w->index = i;
		uccl_rng_seed(&w->poll, key_mix(t->s->cfg.seed + 1, (uint64_t)(t->rank * TORTURE_WORKERS + i)));
		for (int k = 0; k < t->ranks; k++)
			w->shadow[k] = calloc(1, t->s->cfg.slice);
	}
}

void role_torture(struct rank *r)
{
	struct torture *t = &torture;
	pthread_t thread[TORTURE_WORKERS];
	struct worker *first = t->worker;

	signal(SIGUSR1, on_signal);
	torture_attach(t, r);
	draw(t);
	endpoint_info(t);
	endpoint_open(t);
	rank_tell(r, CTL_READY, 0, NULL, 0);
	rank_wait(r, CTL_GO, NULL);
	for (int i = 0; i < t->ranks; i++)
		rank_check(fi_av_insert(t->av, t->s->member[i].name, 1, &t->addr[i], 0, NULL) == 1, "fi_av_insert");
	for (int i = 1; i < t->workers; i++)
		rank_check(!pthread_create(&thread[i], NULL, worker_run, &t->worker[i]), "no thread");
	worker_run(first);
	for (int i = 1; i < t->workers; i++)
		pthread_join(thread[i], NULL);
	region_close_all(first);
	endpoint_close(t);
	for (int i = 0; i < t->workers; i++) {
		size_t where;

		must(first, NULL, quarantine_look(&t->worker[i].quarantine, &first->poll, true, &where),
		     "a buffer was written to after its operation had ended, at byte %zu", where);
		quarantine_free(&t->worker[i].quarantine);
		for (int k = 0; k < t->ranks; k++)
			free(t->worker[i].shadow[k]);
	}
	region_check(first);
	rank_tell(r, CTL_DONE, 0, NULL, 0);
}
