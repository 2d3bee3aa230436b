/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Triggered operations. They wait until a counter reaches a threshold. Then a thread posts them: one that drives an
 * endpoint of the domain, or changes a counter. The operation embeds a struct uccl_trigger.
 */
#ifndef UCCL_API_OBJECT_TRIGGER_H
#define UCCL_API_OBJECT_TRIGGER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

/* First field of a struct from malloc(). The struct is freed after it was posted, or when it is cancelled. */
struct uccl_trigger {
	TAILQ_ENTRY(uccl_trigger) link;
	const _Atomic uint64_t *value;	/* current value of the counter that it waits for */
	_Atomic int *refs;		/* references to the counter: this has one, given back when it is freed */
	uint64_t threshold;
	const void *of, *via;		/* endpoint, and handle of it: cancelled when either closes. NULL: none */
	const void *work;		/* argument of uccl_triggers_cancel() that cancels it; NULL: none */
	/* Post the operation. No lock is held. -FI_EAGAIN: try again later. */
	ssize_t (*post)(struct uccl_trigger *t);
	/* post() failed: report the positive error `err` to the program. No lock is held. NULL: do not report. */
	void (*fail)(struct uccl_trigger *t, int err);
	/* Release what else it holds, just before it is freed. NULL: nothing. */
	void (*drop)(struct uccl_trigger *t);
};

TAILQ_HEAD(uccl_trigger_list, uccl_trigger);

struct uccl_triggers {
	pthread_mutex_t lock;
	pthread_cond_t posted;		/* `posting` changed */
	struct uccl_trigger_list list;	/* in the order of posting */
	struct uccl_trigger *posting;	/* on no list while its post() runs; NULL: none */
	bool running;			/* a thread posts what is due: one at a time, so in order */
	bool revoked;			/* `posting` was cancelled meanwhile, so -FI_EAGAIN does not keep it */
	unsigned int forks;		/* uccl_forks at init: in a child nothing is posted, and the lock may be held */
	_Atomic unsigned int n;		/* waiting operations */
	_Atomic bool due;		/* a counter changed since the last uccl_triggers_run() */
};

void uccl_triggers_init(struct uccl_triggers *ts);
/* Frees all waiting operations. */
void uccl_triggers_fini(struct uccl_triggers *ts);

/* Keep it, or post it at once if the threshold is reached. No lock of an endpoint is held; not in a forked child. */
void uccl_triggers_arm(struct uccl_triggers *ts, struct uccl_trigger *t);
/* Free an operation that was not armed. */
void uccl_trigger_free(struct uccl_trigger *t);
/* Post what is due. No lock of an endpoint is held. */
void uccl_triggers_run(struct uccl_triggers *ts);
/*
 * Cancel operations: those with this `work`; those of this endpoint or handle; all deferred work. If another thread is
 * posting one of them, the call waits for that, and nothing of it is used afterwards. So the caller must not hold a
 * lock that post() takes. Returns the number of cancelled operations, without those that were posted.
 */
int uccl_triggers_cancel(struct uccl_triggers *ts, const void *work);
int uccl_triggers_leave(struct uccl_triggers *ts, const void *of);
int uccl_triggers_flush(struct uccl_triggers *ts);

/* A counter changed. Any lock may be held. */
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
