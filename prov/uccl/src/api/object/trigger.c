/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See trigger.h. */
#include "api/object/trigger.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "api/lib/lib.h"

void uccl_triggers_init(struct uccl_triggers *ts)
{
	pthread_mutex_init(&ts->lock, NULL);
	TAILQ_INIT(&ts->list);
}

void uccl_triggers_fini(struct uccl_triggers *ts)
{
	uccl_triggers_forget(ts, NULL, NULL);
	pthread_mutex_destroy(&ts->lock);
}

void uccl_trigger_free(struct uccl_trigger *t)
{
	atomic_fetch_sub(t->refs, 1);
	free(t);
}

int uccl_triggers_forget(struct uccl_triggers *ts, const void *work, const void *of)
{
	struct uccl_trigger *t, *next;
	int n = 0;

	pthread_mutex_lock(&ts->lock);
	for (t = TAILQ_FIRST(&ts->list); t; t = next) {
		next = TAILQ_NEXT(t, link);
		if ((work && t->work != work) || (of && t->of != of))
			continue;
		TAILQ_REMOVE(&ts->list, t, link);
		atomic_fetch_sub(&ts->n, 1);
		uccl_trigger_free(t);
		n++;
	}
	pthread_mutex_unlock(&ts->lock);
	return n;
}

static struct uccl_trigger *first_due(struct uccl_triggers *ts)
{
	struct uccl_trigger *t;

	pthread_mutex_lock(&ts->lock);
	TAILQ_FOREACH(t, &ts->list, link)
		if (atomic_load(t->value) >= t->threshold)
			break;
	if (t) {
		TAILQ_REMOVE(&ts->list, t, link);
		atomic_fetch_sub(&ts->n, 1);
	}
	pthread_mutex_unlock(&ts->lock);
	return t;
}

void uccl_triggers_run(struct uccl_triggers *ts)
{
	struct uccl_trigger *t;

	if (!atomic_exchange(&ts->due, false))
		return;
	while ((t = first_due(ts))) {
		ssize_t rc = t->post(t);

		if (rc == -FI_EAGAIN) {
			/* Its place is in front of what was posted after it. */
			pthread_mutex_lock(&ts->lock);
			TAILQ_INSERT_HEAD(&ts->list, t, link);
			atomic_fetch_add(&ts->n, 1);
			pthread_mutex_unlock(&ts->lock);
			atomic_store(&ts->due, true);
			return;
		}
		if (rc)
			uccl_warn(FI_LOG_EP_DATA, "a triggered operation cannot be posted: %s\n",
				  uccl_lib.strerror((int)-rc));
		uccl_trigger_free(t);
	}
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
