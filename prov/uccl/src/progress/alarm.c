/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See alarm.h. */
#include "progress/alarm.h"

#include <time.h>

#include "base/units.h"
#include "progress/thread.h"

void uccl_alarm_init(struct uccl_alarm *a, uint64_t late_ns)
{
	pthread_condattr_t attr;

	*a = (struct uccl_alarm){ .late_ns = late_ns, .forks = uccl_forks, .running = true };
	pthread_mutex_init(&a->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&a->cond, &attr);
	pthread_condattr_destroy(&attr);
	atomic_store(&a->awake, true);
}

void uccl_alarm_fini(struct uccl_alarm *a)
{
	a->running = false;
	pthread_cond_destroy(&a->cond);
	pthread_mutex_destroy(&a->lock);
}

bool uccl_alarm_sleep(struct uccl_alarm *a, uint64_t until)
{
	struct timespec ts = {
		.tv_sec = (time_t)(until / UCCL_NS_PER_S),
		.tv_nsec = (long)(until % UCCL_NS_PER_S),
	};
	bool woken;
	int rc = 0;

	atomic_store(&a->looks, until);
	pthread_mutex_lock(&a->lock);
	while (!rc && !a->woken && !a->stop)
		rc = until == UCCL_NEVER ? pthread_cond_wait(&a->cond, &a->lock) :
					   pthread_cond_timedwait(&a->cond, &a->lock, &ts);
	woken = a->woken || a->stop;
	a->woken = false;
	pthread_mutex_unlock(&a->lock);
	return woken;
}

void uccl_alarm_lie_down(struct uccl_alarm *a)
{
	atomic_store(&a->until, UCCL_NEVER);
	atomic_store(&a->awake, false);
}

bool uccl_alarm_doze(struct uccl_alarm *a, uint64_t until)
{
	bool woken;

	atomic_store(&a->until, until);
	woken = uccl_alarm_sleep(a, until);
	atomic_store(&a->awake, true);
	return woken;
}

bool uccl_alarm_stopped(struct uccl_alarm *a)
{
	bool stop;

	pthread_mutex_lock(&a->lock);
	stop = a->stop;
	pthread_mutex_unlock(&a->lock);
	return stop;
}

void uccl_alarm_wake(struct uccl_alarm *a)
{
	if (a->forks != uccl_forks)
		return;
	pthread_mutex_lock(&a->lock);
	a->woken = true;
	pthread_cond_signal(&a->cond);
	pthread_mutex_unlock(&a->lock);
}

void uccl_alarm_stop(struct uccl_alarm *a)
{
	pthread_mutex_lock(&a->lock);
	a->stop = true;
	pthread_cond_signal(&a->cond);
	pthread_mutex_unlock(&a->lock);
}
