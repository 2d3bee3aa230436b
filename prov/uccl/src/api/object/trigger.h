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
	const void *of;			/* whose it is: forgotten when that goes; NULL: nobody's */
	const void *work;		/* by which it is cancelled; NULL: by nothing */
	/* -FI_EAGAIN: again, later. */
	ssize_t (*post)(struct uccl_trigger *t);
};

TAILQ_HEAD(uccl_trigger_list, uccl_trigger);

struct uccl_triggers {
	pthread_mutex_t lock;
	struct uccl_trigger_list list;	/* in the order of posting */
	_Atomic unsigned int n;
	_Atomic bool due;		/* a counter moved since the last look */
};

void uccl_triggers_init(struct uccl_triggers *ts);
/* What never came to pass is forgotten. */
void uccl_triggers_fini(struct uccl_triggers *ts);

/* Keep it, or post it at once if the threshold is reached. No lock of an endpoint is held. */
void uccl_triggers_arm(struct uccl_triggers *ts, struct uccl_trigger *t);
/* One that was not armed. */
void uccl_trigger_free(struct uccl_trigger *t);
/* Post what is due. No lock of an endpoint is held. */
void uccl_triggers_run(struct uccl_triggers *ts);
/* Forget all that `work` (NULL: any) cancels and `of` (NULL: any) owns. Returns how many. */
int uccl_triggers_forget(struct uccl_triggers *ts, const void *work, const void *of);

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
