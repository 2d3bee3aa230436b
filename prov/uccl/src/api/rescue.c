/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See rescue.h. Order of locks: its own is taken alone. */
#include "api/rescue.h"

#include <rdma/fi_errno.h>
#include <time.h>

#include "api/ep.h"
#include "api/lib.h"
#include "api/thread.h"

/* It stays awake for so many rounds after the last thing in flight: a wake-up costs the program a system call. */
#define LINGER_ROUNDS 64
/* Something is due soon in so many rounds in a row: it is in flight, and no look at a peer now and then. */
#define BUSY_ROUNDS 3

/* One round over the endpoints. Returns when the next is due; UCCL_NEVER: nothing is expected. */
static uint64_t rescue_round(struct uccl_rescue *r)
{
	uint64_t now = uccl_clock(), next = UCCL_NEVER;

	pthread_mutex_lock(&r->eps->lock);
	for (unsigned int i = 0; i < r->eps->n; i++) {
		struct uccl_ep *ep = r->eps->v[i];
		uint64_t called = atomic_load_explicit(&ep->called_ns, memory_order_relaxed), at = uccl_ep_expiry(ep);
		bool recent = called + r->after_ns > now;

		/* Answers that found packets set off more: waiting for a timer between them would take seconds. */
		if (!recent && (at <= now || (ep->rescue_more && at != UCCL_NEVER))) {
			ep->rescue_more = uccl_ep_drive(ep) > 0;
			at = ep->rescue_more ? now : uccl_ep_expiry(ep);
		}
		/* A program that waits for this time itself is left to do so. */
		if (at != UCCL_NEVER)
			next = uccl_min(next, uccl_max(at, recent ? called : now) + r->after_ns);
	}
	pthread_mutex_unlock(&r->eps->lock);
	return next;
}

/* Sleep until then (UCCL_NEVER: without end), or until somebody wakes us: true. */
static bool rescue_sleep(struct uccl_rescue *r, uint64_t until)
{
	struct timespec ts = {
		.tv_sec = (time_t)(until / UCCL_NS_PER_S),
		.tv_nsec = (long)(until % UCCL_NS_PER_S),
	};
	bool woken;
	int rc = 0;

	pthread_mutex_lock(&r->lock);
	while (!rc && !r->woken && !r->stop)
		rc = until == UCCL_NEVER ? pthread_cond_wait(&r->cond, &r->lock) :
					   pthread_cond_timedwait(&r->cond, &r->lock, &ts);
	woken = r->woken || r->stop;
	r->woken = false;
	pthread_mutex_unlock(&r->lock);
	return woken;
}

static bool rescue_stopped(struct uccl_rescue *r)
{
	bool stop;

	pthread_mutex_lock(&r->lock);
	stop = r->stop;
	pthread_mutex_unlock(&r->lock);
	return stop;
}

/*
 * Sleep until something is due, or is posted. Whoever posts from now on sees it and wakes us; who did before is seen by
 * another look. True: woken.
 */
static bool rescue_park(struct uccl_rescue *r)
{
	uint64_t next;
	bool woken;

	atomic_store(&r->until, UCCL_NEVER);
	atomic_store(&r->awake, false);
	next = rescue_round(r);
	atomic_store(&r->until, next);
	woken = rescue_sleep(r, next);
	atomic_store(&r->awake, true);
	return woken;
}

static void *rescue_main(void *arg)
{
	struct uccl_rescue *r = arg;
	unsigned int quiet = 0, busy = 0;

	while (!rescue_stopped(r)) {
		uint64_t next = rescue_round(r);

		busy = next != UCCL_NEVER && next <= uccl_clock() + 2 * r->after_ns ? busy + 1 : 0;
		if (busy >= BUSY_ROUNDS)
			quiet = 0;
		if (quiet < LINGER_ROUNDS) {
			quiet++;
			rescue_sleep(r, uccl_clock() + r->after_ns);
		} else if (rescue_park(r)) {
			quiet = busy = 0;
		}
	}
	return NULL;
}

int uccl_rescue_start(struct uccl_rescue *r, struct uccl_ep_list *eps, uint64_t after_ns)
{
	pthread_condattr_t attr;
	int rc;

	*r = (struct uccl_rescue){ .eps = eps, .after_ns = after_ns, .forks = uccl_forks };
	if (!after_ns)
		return 0;
	pthread_mutex_init(&r->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&r->cond, &attr);
	pthread_condattr_destroy(&attr);
	atomic_store(&r->awake, true);
	r->running = true; /* before there is one: it shares a word with what the thread reads */
	rc = uccl_thread_start(&r->thread, rescue_main, r);
	if (rc) {
		pthread_cond_destroy(&r->cond);
		pthread_mutex_destroy(&r->lock);
		r->running = false;
		return -FI_EAGAIN;
	}
	return 0;
}

void uccl_rescue_stop(struct uccl_rescue *r)
{
	/* In a child the thread is not there, and its lock may be held for ever. */
	if (!r->running || r->forks != uccl_forks)
		return;
	pthread_mutex_lock(&r->lock);
	r->stop = true;
	pthread_cond_signal(&r->cond);
	pthread_mutex_unlock(&r->lock);
	pthread_join(r->thread, NULL);
	r->running = false;
	pthread_cond_destroy(&r->cond);
	pthread_mutex_destroy(&r->lock);
}

void uccl_rescue_wake(struct uccl_rescue *r)
{
	if (r->forks != uccl_forks)
		return;
	pthread_mutex_lock(&r->lock);
	r->woken = true;
	pthread_cond_signal(&r->cond);
	pthread_mutex_unlock(&r->lock);
}
