/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See silence.h. */
#include "progress/silence.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/units.h"
#include "progress/driver.h"
#include "progress/thread.h"

/* Most events of one epoll_wait(); the next call returns the rest. */
#define EVENTS 32

void uccl_silence_init(struct uccl_silence *s)
{
	*s = (struct uccl_silence){ .epfd = -1, .expiry = UCCL_NEVER };
}

void uccl_silence_fini(struct uccl_silence *s)
{
	if (s->epfd >= 0)
		close(s->epfd);
	free(s->of);
	uccl_silence_init(s);
}

int uccl_silence_reserve(struct uccl_silence *s, unsigned int n)
{
	struct uccl_silent *of;

	if (n <= s->cap)
		return 0;
	of = realloc(s->of, n * sizeof(*of));
	if (!of)
		return -FI_ENOMEM;
	for (unsigned int i = s->cap; i < n; i++)
		of[i] = (struct uccl_silent){ .fd = -1 };
	s->of = of;
	s->cap = n;
	return 0;
}

/* From now on epoll watches it. */
static void silence_begin(struct uccl_silence *s, unsigned int i, struct uccl_driver *d)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = i };
	struct uccl_silent *q = &s->of[i];
	int fd;

	if (s->epfd < 0) {
		s->epfd = epoll_create1(EPOLL_CLOEXEC);
		s->forks = uccl_forks;
	}
	fd = uccl_driver_poll_fd(d);
	/* No descriptors left: it is polled as before. */
	if (fd < 0 || s->epfd < 0 || epoll_ctl(s->epfd, EPOLL_CTL_ADD, fd, &ev))
		return;
	q->named = q->due = false;
	q->fd = fd;
	s->n++;
}

static void silence_end(struct uccl_silence *s, unsigned int i)
{
	epoll_ctl(s->epfd, EPOLL_CTL_DEL, s->of[i].fd, NULL);
	s->of[i].fd = -1;
	s->n--;
}

bool uccl_silence_lasts(struct uccl_silence *s, unsigned int i, struct uccl_driver *d, uint64_t now)
{
	const struct uccl_silent *q = &s->of[i];

	if (!s->n || !uccl_is_silent(s, i) || q->named || q->due ||
	    q->stirs != atomic_load_explicit(&d->stirs, memory_order_relaxed))
		return false;
	uccl_driver_seen(d, now);
	return true;
}

void uccl_silence_driven(struct uccl_silence *s, unsigned int i, struct uccl_driver *d, bool brought, unsigned int n,
			 uint64_t now)
{
	struct uccl_silent *q = &s->of[i];
	bool often = s->rounds - q->rounds < (n < UCCL_SILENCE_MANY ? UCCL_SILENCE_ROUNDS : UCCL_SILENCE_ROUNDS_MANY);

	if (brought)
		q->rounds = s->rounds;
	/* In this order: a later stir is seen in the next round, an earlier one made the timer earlier. */
	q->stirs = atomic_load_explicit(&d->stirs, memory_order_relaxed);
	if (!uccl_is_silent(s, i)) {
		if (brought || n < UCCL_SILENCE_MIN ||
		    !uccl_driver_silent(d, often ? now - uccl_min(now, UCCL_SILENCE_NS) : UCCL_NEVER))
			return;
		silence_begin(s, i, d);
	} else if (brought && often) {
		silence_end(s, i);
	}
	if (!uccl_is_silent(s, i))
		return;
	q->named = q->due = false;
	s->expiry = uccl_min(s->expiry, uccl_driver_expiry(d));
}

/* The time of one of them has come, perhaps. */
static void silence_expire(struct uccl_silence *s, struct uccl_driver *const *v, unsigned int n, uint64_t now)
{
	uint64_t at, expiry = UCCL_NEVER;

	for (unsigned int i = 0; i < n; i++) {
		if (!uccl_is_silent(s, i))
			continue;
		at = uccl_driver_expiry(v[i]);
		s->of[i].due = at <= now;
		if (at > now)
			expiry = uccl_min(expiry, at);
	}
	s->expiry = expiry;
}

void uccl_silence_poll(struct uccl_silence *s, struct uccl_driver *const *v, unsigned int n, uint64_t now)
{
	struct epoll_event ev[EVENTS];
	int came;

	if (!s->n)
		return;
	if (s->forks != uccl_forks) {
		/* Events of the parent's descriptor are the parent's. */
		for (unsigned int i = 0; i < s->cap; i++)
			s->of[i].fd = -1;
		s->n = 0;
		return;
	}
	came = epoll_wait(s->epfd, ev, EVENTS, 0);
	for (int i = 0; i < came; i++)
		s->of[ev[i].data.u32].named = true;
	if (now >= s->expiry)
		silence_expire(s, v, n, now);
}

void uccl_silence_clear(struct uccl_silence *s)
{
	for (unsigned int i = 0; i < s->cap; i++)
		if (uccl_is_silent(s, i))
			silence_end(s, i);
	s->expiry = UCCL_NEVER;
}
