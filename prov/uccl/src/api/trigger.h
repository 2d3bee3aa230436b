/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Operations that wait until a counter reaches a threshold: those that are posted with FI_TRIGGER, and the deferred
 * work of fi_control(FI_QUEUE_WORK). They are posted when somebody drives an endpoint of the domain, or changes a
 * counter.
 */
#ifndef UCCL_API_TRIGGER_H
#define UCCL_API_TRIGGER_H

#include <pthread.h>
#include <rdma/fi_trigger.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "api/xfer.h"

struct uccl_trigger;
TAILQ_HEAD(uccl_trigger_list, uccl_trigger);

struct uccl_triggers {
	pthread_mutex_t lock;
	struct uccl_trigger_list list;	/* in the order of posting */
	_Atomic unsigned int n;
	_Atomic bool due;		/* a counter moved since the last look */
};

void uccl_triggers_init(struct uccl_triggers *t);
/* What never came to pass is forgotten. */
void uccl_triggers_fini(struct uccl_triggers *t);

/* A call with FI_TRIGGER: kept, or posted at once if the threshold is reached. Its context names the counter. */
ssize_t uccl_trigger_xfer(struct uccl_ep_fid *f, const struct uccl_xfer *x, bool recv);
ssize_t uccl_trigger_rma(struct uccl_ep_fid *f, const struct uccl_rma *x);
/* FI_QUEUE_WORK, FI_CANCEL_WORK and FI_FLUSH_WORK of fi_control. */
int uccl_trigger_control(struct uccl_domain *d, int command, void *arg);

/* Post what is due. No lock of an endpoint is held. */
void uccl_triggers_run(struct uccl_domain *d);
/* The endpoint goes: what waits for it is forgotten. */
void uccl_triggers_forget(struct uccl_domain *d, const struct uccl_ep *ep);

/* A counter moved. Any lock may be held. */
static inline void uccl_triggers_moved(struct uccl_triggers *t)
{
	if (atomic_load_explicit(&t->n, memory_order_relaxed))
		atomic_store(&t->due, true);
}

static inline bool uccl_triggers_due(struct uccl_triggers *t)
{
	return atomic_load_explicit(&t->due, memory_order_relaxed);
}

#endif
