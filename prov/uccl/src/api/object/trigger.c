/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See trigger.h. */
#include "api/object/trigger.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "api/lib/lib.h"
#include "progress/thread.h"

void uccl_triggers_init(struct uccl_triggers *ts)
{
	pthread_mutex_init(&ts->lock, NULL);
	pthread_cond_init(&ts->posted, NULL);
	TAILQ_INIT(&ts->list);
	ts->forks = uccl_forks;
}

void uccl_trigger_free(struct uccl_trigger *t)
{
	if (t->drop)
		t->drop(t);
	atomic_fetch_sub(t->refs, 1);
	free(t);
}

/* What is forgotten; all of it NULL: everything. */
struct which {
	const void *work, *of;
	bool all_work;
};

static bool is_meant(const struct which *w, const struct uccl_trigger *t)
{
	return (!w->work || t->work == w->work) && (!w->of || t->of == w->of || t->via == w->of) &&
	       (!w->all_work || t->work);
}

static int forget(struct uccl_triggers *ts, const struct which *w)
{
	struct uccl_trigger *t, *next;
	int n = 0;

	/* A thread of the parent may have held the lock, and nothing is posted in a child. */
	if (ts->forks != uccl_forks)
		return 0;
	pthread_mutex_lock(&ts->lock);
	for (t = TAILQ_FIRST(&ts->list); t; t = next) {
		next = TAILQ_NEXT(t, link);
		if (!is_meant(w, t))
			continue;
		TAILQ_REMOVE(&ts->list, t, link);
		atomic_fetch_sub(&ts->n, 1);
		uccl_trigger_free(t);
		n++;
	}
	while (ts->posting && is_meant(w, ts->posting)) {
		ts->revoked = true;
		pthread_cond_wait(&ts->posted, &ts->lock);
	}
	pthread_mutex_unlock(&ts->lock);
	return n;
}

int uccl_triggers_cancel(struct uccl_triggers *ts, const void *work)
{
	return forget(ts, &(struct which){ .work = work });
}

int uccl_triggers_leave(struct uccl_triggers *ts, const void *of)
{
	return forget(ts, &(struct which){ .of = of });
}

int uccl_triggers_flush(struct uccl_triggers *ts)
{
	return forget(ts, &(struct which){ .all_work = true });
}

void uccl_triggers_fini(struct uccl_triggers *ts)
{
	forget(ts, &(struct which){ 0 });
	if (ts->forks != uccl_forks)
		return;
	pthread_cond_destroy(&ts->posted);
	pthread_mutex_destroy(&ts->lock);
}

/* The first that is due, off the list. The lock is held. */
static struct uccl_trigger *first_due(struct uccl_triggers *ts)
{
	struct uccl_trigger *t;

	TAILQ_FOREACH(t, &ts->list, link)
		if (atomic_load(t->value) >= t->threshold)
			break;
	if (!t)
		return NULL;
	TAILQ_REMOVE(&ts->list, t, link);
	atomic_fetch_sub(&ts->n, 1);
	return t;
}

/* Post what was taken off the list. The lock is held, but not meanwhile. False: later, it is the first again. */
static bool post(struct uccl_triggers *ts, struct uccl_trigger *t)
{
	bool later;
	ssize_t rc;

	ts->posting = t;
	ts->revoked = false;
	pthread_mutex_unlock(&ts->lock);
	rc = t->post(t);
	if (rc && rc != -FI_EAGAIN) {
		uccl_info(FI_LOG_EP_DATA, "a triggered operation cannot be posted: %s\n", uccl_lib.strerror((int)-rc));
		if (t->fail)
			t->fail(t, (int)-rc);
	}
	pthread_mutex_lock(&ts->lock);
	ts->posting = NULL;
	later = rc == -FI_EAGAIN && !ts->revoked;
	if (later) {
		/* Its place is in front of what was posted after it. */
		TAILQ_INSERT_HEAD(&ts->list, t, link);
		atomic_fetch_add(&ts->n, 1);
	} else {
		uccl_trigger_free(t);
	}
	pthread_cond_broadcast(&ts->posted);
	return !later;
}

void uccl_triggers_run(struct uccl_triggers *ts)
{
	struct uccl_trigger *t = NULL;

	if (ts->forks != uccl_forks || !atomic_exchange(&ts->due, false))
		return;
	pthread_mutex_lock(&ts->lock);
	/* The posting thread checks the list again after each post, under the lock, and finds what is due now. */
	if (!ts->running) {
		ts->running = true;
		while ((t = first_due(ts)) && post(ts, t))
			;
		ts->running = false;
	}
	pthread_mutex_unlock(&ts->lock);
	if (t)
		atomic_store(&ts->due, true);
}

void uccl_triggers_arm(struct uccl_triggers *ts, struct uccl_trigger *t)
{
	pthread_mutex_lock(&ts->lock);
	TAILQ_INSERT_TAIL(&ts->list, t, link);
	atomic_fetch_add(&ts->n, 1);
	pthread_mutex_unlock(&ts->lock);
	/* The threshold may be reached already. */
	atomic_store(&ts->due, true);
	uccl_triggers_run(ts);
}
