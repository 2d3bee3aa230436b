/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A sleeping thread that other threads can wake. It is cheap to test whether it sleeps, so a thread with work for it
 * tests first. Lock order: no other lock is taken while the alarm's lock is held.
 */
#ifndef UCCL_PROGRESS_ALARM_H
#define UCCL_PROGRESS_ALARM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

struct uccl_alarm {
	uint64_t late_ns;	/* the sleeper handles a deadline this much later than it is due */
	unsigned int forks;	/* uccl_forks when it was made; a forked child has no sleeper */
	bool running;		/* the sleeping thread exists */
	bool stop, woken;	/* under the lock: told to end; told to wake */
	_Atomic bool awake;	/* false: it sleeps in uccl_alarm_doze(), or is about to */
	_Atomic uint64_t until;	/* if not awake: when it wakes by itself, ns */
	_Atomic uint64_t looks;	/* when it looks for work next, ns; 0: soon; UCCL_NEVER: now, or not by itself */
	pthread_mutex_t lock;
	pthread_cond_t cond;	/* uses CLOCK_MONOTONIC */
};

/* A new alarm: awake, and running. */
void uccl_alarm_init(struct uccl_alarm *a, uint64_t late_ns);
/* No thread uses it any more. */
void uccl_alarm_fini(struct uccl_alarm *a);

/* Sleeper only: it begins to look for work. What others report with uccl_alarm_by() from now on ends its next sleep. */
static inline void uccl_alarm_look(struct uccl_alarm *a)
{
	atomic_store(&a->looks, UCCL_NEVER);
}

/* Sleeper only: sleep until `until` (CLOCK_MONOTONIC, ns; UCCL_NEVER: no limit). True: woken or stopped earlier. */
bool uccl_alarm_sleep(struct uccl_alarm *a, uint64_t until);
/*
 * Sleeper only: sleep so that others wake it for an earlier deadline. First uccl_alarm_lie_down(): from then on others
 * report every deadline. Then the sleeper computes its next deadline once more. Then uccl_alarm_doze() sleeps until
 * that; true: woken or stopped earlier.
 */
void uccl_alarm_lie_down(struct uccl_alarm *a);
bool uccl_alarm_doze(struct uccl_alarm *a, uint64_t until);
/* Sleeper only: it was told to end. */
bool uccl_alarm_stopped(struct uccl_alarm *a);

/* Any other thread: wake the sleeper (in a forked child: does nothing); tell it to end. */
void uccl_alarm_wake(struct uccl_alarm *a);
void uccl_alarm_stop(struct uccl_alarm *a);

/* Any thread: true if the sleeper sleeps, so that an earlier deadline must be reported by uccl_alarm_arm(). Cheap. */
static inline bool uccl_alarm_asleep(struct uccl_alarm *a)
{
	return a->running && !atomic_load(&a->awake);
}

/* Any thread, while it sleeps: a deadline changed to `at`, ns. Wakes the sleeper if it would come too late. */
static inline void uccl_alarm_arm(struct uccl_alarm *a, uint64_t at)
{
	if (at < atomic_load(&a->until) - a->late_ns)
		uccl_alarm_wake(a);
}

/* Any thread: there is work at `at`, ns. Wakes the sleeper if it would look later, whether it sleeps in doze or not. */
static inline void uccl_alarm_by(struct uccl_alarm *a, uint64_t at)
{
	if (!a->running || at >= atomic_load(&a->looks))
		return;
	/* Until the thread runs nobody else need wake it. */
	atomic_store(&a->looks, 0);
	uccl_alarm_wake(a);
}

#endif
