/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See drivers.h. */
#include "progress/drivers.h"

#include <poll.h>
#include <rdma/fi_errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "base/units.h"
#include "progress/driver.h"
#include "progress/lane_set.h"

/* Most descriptors that a nap polls. */
#define NAP_FDS 16

void uccl_drivers_init(struct uccl_drivers *l, bool locking)
{
	*l = (struct uccl_drivers){ .locking = locking };
	uccl_silence_init(&l->silence);
}

void uccl_drivers_fini(struct uccl_drivers *l)
{
	uccl_silence_fini(&l->silence);
	free(l->v);
}

int uccl_drivers_add(struct uccl_drivers *l, struct uccl_driver *d)
{
	struct uccl_driver **v;
	int rc = 0;

	uccl_lock_take(&l->lock);
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
	rc = uccl_silence_reserve(&l->silence, l->cap);
	if (rc)
		goto out;
	l->v[l->n++] = d;
out:
	uccl_lock_give(&l->lock);
	return rc;
}

void uccl_drivers_remove(struct uccl_drivers *l, struct uccl_driver *d)
{
	uccl_lock_take(&l->lock);
	for (unsigned int i = 0; i < l->n; i++) {
		if (l->v[i] == d) {
			uccl_silence_clear(&l->silence);
			l->v[i] = l->v[--l->n];
			break;
		}
	}
	uccl_lock_give(&l->lock);
}

/* One round at `asked`. Did it bring anything? */
static bool drivers_round(struct uccl_drivers *l, uint64_t asked)
{
	unsigned int n = l->n;
	bool silence = !uccl_silence_off(&l->silence, n), brought = false;
	uint64_t now = asked;

	atomic_store_explicit(&l->began_ns, asked, memory_order_relaxed);
	if (silence)
		uccl_silence_poll(&l->silence, l->v, n, asked);
	for (unsigned int i = 0; i < n; i++) {
		struct uccl_driver *d = l->v[i];
		bool came, empty;

		if (silence && uccl_silence_lasts(&l->silence, i, d, now))
			continue;
		/* Its timers that fall due only now wait for another round, which sees what arrived. PROTOCOL R131 */
		empty = silence && uccl_silence_empty(&l->silence, i);
		came = uccl_driver_poll(d, empty, l->polled_ns, empty ? asked : now);
		if (silence)
			uccl_silence_driven(&l->silence, i, d, came, n, now);
		brought |= came;
		/* The time of the next one is when it is polled. */
		if (i + 1 < n)
			now = uccl_clock();
	}
	if (silence)
		uccl_silence_round(&l->silence, brought);
	l->polled_ns = now;
	return brought;
}

/* The descriptors that become readable when they have something. Their number; -1: too many, or some have none. */
static int drivers_fds(struct uccl_drivers *l, struct pollfd *pfd, unsigned int max)
{
	unsigned int n = 0;

	if (l->silence.n)
		pfd[n++] = (struct pollfd){ .fd = l->silence.epfd, .events = POLLIN };
	for (unsigned int i = 0; i < l->n; i++) {
		struct uccl_driver *d = l->v[i];

		if (d->automatic || uccl_is_silent(&l->silence, i))
			continue;
		if (n == max)
			return -1;
		pfd[n] = (struct pollfd){ .fd = uccl_driver_nap_fd(d), .events = POLLIN };
		if (pfd[n++].fd < 0 || (d->lanes && n == max))
			return -1;
		if (d->lanes)
			pfd[n++] = (struct pollfd){ .fd = d->lanes->fd, .events = POLLIN };
	}
	return (int)n;
}

/* Sleep until a packet comes, for a moment; or for that moment if the packets are for other threads. */
static void drivers_nap(struct uccl_drivers *l)
{
	const struct timespec moment = { .tv_nsec = UCCL_NAP_NS };
	struct pollfd pfd[NAP_FDS];
	int n = drivers_fds(l, pfd, NAP_FDS);
	uint64_t now;

	if (n < 0)
		sched_yield();
	else
		ppoll(pfd, (nfds_t)n, &moment, NULL);
	/* They were polled all the time. */
	now = uccl_clock();
	for (unsigned int i = 0; i < l->n; i++)
		uccl_driver_seen(l->v[i], now);
}

static void drivers_idle(struct uccl_drivers *l)
{
	switch (uccl_idle_next(&l->idle)) {
	case UCCL_IDLE_YIELD:
		uccl_idle_yield(&l->idle);
		break;
	case UCCL_IDLE_NAP:
		drivers_nap(l);
		break;
	default:
		break;
	}
}

void uccl_drivers_poll(struct uccl_drivers *l)
{
	if (!l->n || (l->locking && !uccl_lock_try(&l->lock)))
		return;
	if (drivers_round(l, uccl_clock()))
		uccl_idle_reset(&l->idle);
	else
		drivers_idle(l);
	if (l->locking)
		uccl_lock_give(&l->lock);
}

bool uccl_drivers_fresh(struct uccl_drivers *l)
{
	bool fresh;

	if (!l->n || (l->locking && !uccl_lock_try(&l->lock)))
		return false;
	fresh = uccl_clock() < atomic_load_explicit(&l->began_ns, memory_order_relaxed) + UCCL_FRESH_NS;
	for (unsigned int i = 0; i < l->n && fresh; i++)
		fresh = !atomic_load_explicit(&l->v[i]->waits_ns, memory_order_relaxed);
	if (l->locking)
		uccl_lock_give(&l->lock);
	return fresh;
}

void uccl_drivers_attend(struct uccl_drivers *l, const struct uccl_drivers *polled)
{
	uint64_t since = UCCL_NEVER, now, at, next;

	if (atomic_load_explicit(&l->n, memory_order_relaxed) < 2)
		return;
	now = uccl_clock();
	at = atomic_load_explicit(&l->attend_ns, memory_order_relaxed);
	if (now < at || (l->locking && !uccl_lock_try(&l->lock)))
		return;
	if (atomic_load_explicit(&polled->n, memory_order_relaxed))
		since = atomic_load_explicit(&polled->began_ns, memory_order_relaxed);
	next = now + UCCL_LEFT_NS;
	atomic_store_explicit(&l->attend_ns, next, memory_order_relaxed);
	for (unsigned int i = 0; i < l->n; i++)
		next = uccl_min(next, uccl_driver_attend(l->v[i], since, now));
	atomic_store_explicit(&l->attend_ns, next, memory_order_relaxed);
	if (l->locking)
		uccl_lock_give(&l->lock);
}

uint64_t uccl_drivers_expiry(struct uccl_drivers *l)
{
	uint64_t at = UCCL_NEVER;

	uccl_lock_take(&l->lock);
	for (unsigned int i = 0; i < l->n; i++)
		if (!l->v[i]->automatic)
			at = uccl_min(at, uccl_driver_expiry(l->v[i]));
	uccl_lock_give(&l->lock);
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
	if (uccl_wait_again(s->wait, s->until))
		return true;
	/* Whoever made a timer earlier in between did not know that we sleep. */
	uccl_wait_plan(s->wait, sleep_wake(s));
	uccl_wait_sleep(s->wait, sleep_wake(s));
	uccl_wait_up(s->wait);
	return true;
}

void uccl_sleep_end(struct uccl_sleep *s)
{
	uccl_wait_leave(s->wait);
}
