/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A rank: its workers and their rounds. And the life of the victim. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "uccl_torture.h"

#define FULL_CHECK 16 /* rounds between two looks at whole slices */

static struct torture torture;

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
	else if (what < 94)
		region_access(w, &r);
	else if (what < 96)
		victim_call(w, &r);
	else if (what < 98)
		region_turn(w, &r);
	else
		drain(w, true);
}

static unsigned int open_ops(const struct worker *w, bool recvs)
{
	unsigned int n = 0;

	for (int i = 0; i < TORTURE_OPS; i++)
		n += atomic_load(&w->op[i].state) != OP_FREE &&
		     (!op_waits(&w->op[i]) || (recvs && w->op[i].kind == RECV));
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
	uint64_t end = clock_ns() + (uint64_t)(TORTURE_PATIENCE_S * 1e9 * options.slack), good, bad, want;
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

	meet_provider(w);
	rma_check(w, full);
	must(w, NULL, quarantine_look(&w->quarantine, &w->poll, full, &where),
	     "a buffer was written to after its operation had ended, at byte %zu", where);
	if (!w->index) {
		msg_check(w);
		cell_check(w);
		region_check(w);
		check_counters(w);
	}
	meet_provider(w);
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
		meet_provider(w);
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

	dump_on_signal();
	torture_attach(t, r);
	endpoint_draw(t);
	endpoint_info(t, NULL);
	endpoint_open(t);
	rank_tell(r, CTL_READY, 0, NULL, 0);
	rank_wait(r, CTL_GO, NULL);
	for (int i = 0; i < t->ranks; i++)
		rank_check(fi_av_insert(t->av, t->s->member[i].name, 1, &t->addr[i], 0, NULL) == 1, "fi_av_insert");
	victim_meet(first);
	for (int i = 1; i < t->workers; i++)
		rank_check(!pthread_create(&thread[i], NULL, worker_run, &t->worker[i]), "no thread");
	worker_run(first);
	for (int i = 1; i < t->workers; i++)
		pthread_join(thread[i], NULL);
	victim_leave(first);
	for (int i = 0; i < TORTURE_OPS; i++)
		while (atomic_load(&first->op[i].state) != OP_FREE)
			drain(first, false);
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

void role_victim(struct rank *r)
{
	struct torture *t = &torture;
	struct worker *w = t->worker;
	char port[16];

	dump_on_signal();
	torture_attach(t, r);
	endpoint_draw(t);
	t->format = FI_CQ_FORMAT_TAGGED;
	t->counted = t->virtual_mr = false;
	snprintf(port, sizeof(port), "%d", t->s->cfg.port);
	endpoint_info(t, port);
	endpoint_open(t);
	rank_tell(r, CTL_READY, 0, NULL, 0);
	rank_wait(r, CTL_GO, NULL);
	for (int i = 0; i < t->ranks; i++)
		rank_check(fi_av_insert(t->av, t->s->member[i].name, 1, &t->addr[i], 0, NULL) == 1, "fi_av_insert");
	victim_ready(w);
	for (;;) {
		drain(w, !uccl_rng_below(&w->poll, 4));
		victim_turn(w);
		look_at_clock(w);
	}
}
