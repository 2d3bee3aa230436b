/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A sleeper that others can wake. Whether it sleeps is cheap to ask, so whoever has work for it asks first. Order of
 * locks: its own is taken alone.
 */
#ifndef UCCL_PROGRESS_ALARM_H
#define UCCL_PROGRESS_ALARM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct uccl_alarm {
	uint64_t late_ns;	/* it gets up for what is due at a time so much later */
	unsigned int forks;	/* uccl_forks when it was made: a child has no sleeper */
	bool running;		/* there is a sleeper at all */
	bool stop, woken;	/* under the lock */
	_Atomic bool awake;
	_Atomic uint64_t until;	/* not awake: when it will look by itself */
	pthread_mutex_t lock;
	pthread_cond_t cond;	/* of CLOCK_MONOTONIC */
};

/* Awake, and running. */
void uccl_alarm_init(struct uccl_alarm *a, uint64_t late_ns);
/* Nobody sleeps on it any more, nor will wake it. */
void uccl_alarm_fini(struct uccl_alarm *a);

/* The sleeper: until then (CLOCK_MONOTONIC, ns; UCCL_NEVER: without end), or until somebody wakes it: true. */
bool uccl_alarm_sleep(struct uccl_alarm *a, uint64_t until);
/*
 * The sleeper, who wants to be told of what is due earlier: from uccl_alarm_lie_down on he is told of everything, so he
 * looks once more for what is due, and then sleeps until that. True: woken.
 */
void uccl_alarm_lie_down(struct uccl_alarm *a);
bool uccl_alarm_doze(struct uccl_alarm *a, uint64_t until);
bool uccl_alarm_stopped(struct uccl_alarm *a);

/* Others. */
void uccl_alarm_wake(struct uccl_alarm *a);
void uccl_alarm_stop(struct uccl_alarm *a);

/* Does it sleep, so that it must be told of what is due earlier? Cheap. */
static inline bool uccl_alarm_asleep(struct uccl_alarm *a)
{
	return a->running && !atomic_load(&a->awake);
}

/* It sleeps; something is due `at` now. */
static inline void uccl_alarm_arm(struct uccl_alarm *a, uint64_t at)
{
	if (at < atomic_load(&a->until) - a->late_ns)
		uccl_alarm_wake(a);
}

#endif
