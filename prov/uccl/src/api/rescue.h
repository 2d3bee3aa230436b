/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A thread that stands in for a program which does not call. Under manual progress the program's calls drive the
 * engines; but a program may leave the library with messages in flight (a send that completed early) and wait for
 * something else, which may depend on just these messages. If one of them is lost, nobody would send it again. So while
 * something is in flight and the program stays away, this thread runs the timers that are due. It does not take in
 * messages for a program that has nothing in flight, and it sleeps until the next look at peers as long as nothing is.
 */
#ifndef UCCL_API_RESCUE_H
#define UCCL_API_RESCUE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct uccl_ep_list;

struct uccl_rescue {
	struct uccl_ep_list *eps;
	uint64_t after_ns;	/* how long a program must have stayed away; 0: there is no such thread */
	unsigned int forks;	/* uccl_forks when it was started: a child has no thread */
	bool running;
	bool stop, woken;	/* under the lock */
	_Atomic bool awake;
	_Atomic uint64_t until;	/* not awake: when it will look by itself */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t cond;	/* of CLOCK_MONOTONIC */
};

/* -FI_EAGAIN: no thread can be had. The lists' locks must be real ones. */
int uccl_rescue_start(struct uccl_rescue *r, struct uccl_ep_list *eps, uint64_t after_ns);
void uccl_rescue_stop(struct uccl_rescue *r);
void uccl_rescue_wake(struct uccl_rescue *r);

/* Does it sleep, so that it must be told of what is due earlier? Cheap. */
static inline bool uccl_rescue_asleep(struct uccl_rescue *r)
{
	return r->running && !atomic_load_explicit(&r->awake, memory_order_relaxed);
}

/* It sleeps; an engine's expiry is `at` now. */
static inline void uccl_rescue_arm(struct uccl_rescue *r, uint64_t at)
{
	if (at < atomic_load(&r->until) - r->after_ns)
		uccl_rescue_wake(r);
}

#endif
