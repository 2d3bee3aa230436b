/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What waits until a counter reaches a threshold, and is posted then: when somebody drives an endpoint of the domain,
 * or changes a counter. What is posted is its owner's, who embeds one of these.
 */
#ifndef UCCL_API_OBJECT_TRIGGER_H
#define UCCL_API_OBJECT_TRIGGER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

/* The first part of something that malloc() made; freed with it when it was posted, or is forgotten. */
struct uccl_trigger {
	TAILQ_ENTRY(uccl_trigger) link;
	const _Atomic uint64_t *value;	/* of the counter */
	_Atomic int *refs;		/* of the counter: one is given back in the end */
	uint64_t threshold;
	const void *of, *via;		/* endpoint and handle of it: forgotten when either goes; NULL: none */
	const void *work;		/* by which it is cancelled; NULL: by nothing */
	/* No lock is held. -FI_EAGAIN: again, later. */
	ssize_t (*post)(struct uccl_trigger *t);
	/* It cannot be posted, for this positive error: tell who waits for its end. No lock is held. NULL: nobody. */
	void (*fail)(struct uccl_trigger *t, int err);
	/* Give back what else it holds, just before it is freed; NULL: nothing. */
	void (*drop)(struct uccl_trigger *t);
};

TAILQ_HEAD(uccl_trigger_list, uccl_trigger);

struct uccl_triggers {
	pthread_mutex_t lock;
	pthread_cond_t posted;		/* `posting` changed */
	struct uccl_trigger_list list;	/* in the order of posting */
	struct uccl_trigger *posting;	/* on no list while its post() runs; NULL: none */
	bool running;			/* a thread posts what is due: one at a time, so in order */
	bool revoked;			/* `posting` was forgotten meanwhile: it is not kept for later */
	unsigned int forks;		/* uccl_forks at init: in a child nothing is posted, and the lock may be held */
	_Atomic unsigned int n;
	_Atomic bool due;		/* a counter moved since the last look */
};

void uccl_triggers_init(struct uccl_triggers *ts);
/* What never came to pass is forgotten. */
void uccl_triggers_fini(struct uccl_triggers *ts);

/* Keep it, or post it at once if the threshold is reached. No lock of an endpoint is held; not in a forked child. */
void uccl_triggers_arm(struct uccl_triggers *ts, struct uccl_trigger *t);
/* One that was not armed. */
void uccl_trigger_free(struct uccl_trigger *t);
/* Post what is due. No lock of an endpoint is held. */
void uccl_triggers_run(struct uccl_triggers *ts);
/*
 * Forget what this piece of work cancels, what waits for this endpoint or handle, or all pieces of work. What another
 * thread is posting is waited for: afterwards nothing of it is used any more. So no lock that post() takes is held.
 * Returns how many were forgotten, without those that were posted.
 */
int uccl_triggers_cancel(struct uccl_triggers *ts, const void *work);
int uccl_triggers_leave(struct uccl_triggers *ts, const void *of);
int uccl_triggers_flush(struct uccl_triggers *ts);

/* A counter moved. Any lock may be held. */
static inline void uccl_triggers_moved(struct uccl_triggers *ts)
{
	if (atomic_load_explicit(&ts->n, memory_order_relaxed))
		atomic_store(&ts->due, true);
}

static inline bool uccl_triggers_due(struct uccl_triggers *ts)
{
	return atomic_load_explicit(&ts->due, memory_order_relaxed);
}

#endif
