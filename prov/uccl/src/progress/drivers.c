/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See drivers.h. */
#include "progress/drivers.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "base/units.h"
#include "progress/driver.h"

void uccl_drivers_init(struct uccl_drivers *l, bool locking)
{
	*l = (struct uccl_drivers){ .locking = locking };
	pthread_mutex_init(&l->lock, NULL);
}

void uccl_drivers_fini(struct uccl_drivers *l)
{
	pthread_mutex_destroy(&l->lock);
	free(l->v);
}

int uccl_drivers_add(struct uccl_drivers *l, struct uccl_driver *d)
{
	struct uccl_driver **v;
	int rc = 0;

	pthread_mutex_lock(&l->lock);
	for (unsigned int i = 0; i < l->n; i++)
		if (l->v[i] == d)
			goto out;
	if (l->n == l->cap) {
		v = realloc(l->v, (l->cap * 2 + 1) * sizeof(*v));
		if (!v) {
			rc = -FI_ENOMEM;
			goto out;
		}
		l->v = v;
		l->cap = l->cap * 2 + 1;
	}
	l->v[l->n++] = d;
out:
	pthread_mutex_unlock(&l->lock);
	return rc;
}

void uccl_drivers_remove(struct uccl_drivers *l, struct uccl_driver *d)
{
	pthread_mutex_lock(&l->lock);
	for (unsigned int i = 0; i < l->n; i++) {
		if (l->v[i] == d) {
			l->v[i] = l->v[--l->n];
			break;
		}
	}
	pthread_mutex_unlock(&l->lock);
}

void uccl_drivers_poll(struct uccl_drivers *l)
{
	if (l->locking && pthread_mutex_trylock(&l->lock))
		return;
	for (unsigned int i = 0; i < l->n; i++)
		uccl_driver_poll(l->v[i]);
	if (l->locking)
		pthread_mutex_unlock(&l->lock);
}

void uccl_drivers_attend(struct uccl_drivers *l)
{
	uint64_t now, at, next;

	if (atomic_load_explicit(&l->n, memory_order_relaxed) < 2)
		return;
	now = uccl_clock();
	at = atomic_load_explicit(&l->attend_ns, memory_order_relaxed);
	if (now < at || (l->locking && pthread_mutex_trylock(&l->lock)))
		return;
	next = now + UCCL_LEFT_NS;
	atomic_store_explicit(&l->attend_ns, next, memory_order_relaxed);
	for (unsigned int i = 0; i < l->n; i++)
		next = uccl_min(next, uccl_driver_attend(l->v[i], now));
	atomic_store_explicit(&l->attend_ns, next, memory_order_relaxed);
	if (l->locking)
		pthread_mutex_unlock(&l->lock);
}

uint64_t uccl_drivers_expiry(struct uccl_drivers *l)
{
	uint64_t at = UCCL_NEVER;

	pthread_mutex_lock(&l->lock);
	for (unsigned int i = 0; i < l->n; i++)
		if (!l->v[i]->automatic)
			at = uccl_min(at, uccl_driver_expiry(l->v[i]));
	pthread_mutex_unlock(&l->lock);
	return at;
}

void uccl_sleep_begin(struct uccl_sleep *s, struct uccl_wait *w, struct uccl_drivers *drivers,
		      struct uccl_drivers *others, int timeout)
{
	s->wait = w;
	s->drivers = drivers;
	s->others = others;
	s->until = timeout < 0 ? UCCL_NEVER : uccl_clock() + timeout * UCCL_NS_PER_MS;
	uccl_wait_enter(w);
}

static uint64_t sleep_wake(struct uccl_sleep *s)
{
	uint64_t wake = s->until;

	if (s->drivers)
		wake = uccl_min(wake, uccl_drivers_expiry(s->drivers));
	if (s->others)
		wake = uccl_min(wake, uccl_drivers_expiry(s->others));
	return wake;
}

bool uccl_sleep(struct uccl_sleep *s)
{
	if (s->until != UCCL_NEVER && uccl_clock() >= s->until)
		return false;
	/* Whoever made a timer earlier in between did not know that we sleep. */
	uccl_wait_plan(s->wait, sleep_wake(s));
	uccl_wait_sleep(s->wait, sleep_wake(s));
	uccl_wait_leave(s->wait);
	uccl_wait_enter(s->wait);
	return true;
}

void uccl_sleep_end(struct uccl_sleep *s)
{
	uccl_wait_leave(s->wait);
}
