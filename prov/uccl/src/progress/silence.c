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

/* Told of at a time; more are told of the next time. */
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
		of[i].fd = -1;
	s->of = of;
	s->cap = n;
	return 0;
}

void uccl_silence_begin(struct uccl_silence *s, unsigned int i, struct uccl_driver *d, uint64_t now)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = i };
	struct uccl_silent *q = &s->of[i];
	int fd;

	if (!uccl_driver_silent(d, now - uccl_min(now, UCCL_SILENCE_NS)))
		return;
	if (s->epfd < 0) {
		s->epfd = epoll_create1(EPOLL_CLOEXEC);
		s->forks = uccl_forks;
	}
	q->stirs = atomic_load_explicit(&d->stirs, memory_order_relaxed);
	fd = uccl_driver_look_fd(d);
	/* No descriptors left: it is looked at as before. */
	if (fd < 0 || s->epfd < 0 || epoll_ctl(s->epfd, EPOLL_CTL_ADD, fd, &ev))
		return;
	q->fd = fd;
	s->n++;
	s->expiry = uccl_min(s->expiry, uccl_driver_expiry(d));
}

static void silence_end(struct uccl_silence *s, unsigned int i)
{
	epoll_ctl(s->epfd, EPOLL_CTL_DEL, s->of[i].fd, NULL);
	s->of[i].fd = -1;
	s->n--;
}

bool uccl_silence_lasts(struct uccl_silence *s, unsigned int i, struct uccl_driver *d, uint64_t now)
{
	if (!s->n || !uccl_is_silent(s, i))
		return false;
	if (s->of[i].stirs != atomic_load_explicit(&d->stirs, memory_order_relaxed)) {
		silence_end(s, i);
		return false;
	}
	uccl_driver_seen(d, now);
	return true;
}

/* The time of one of them has come, perhaps. */
static void silence_expire(struct uccl_silence *s, struct uccl_driver *const *v, unsigned int n, uint64_t now)
{
	uint64_t at, expiry = UCCL_NEVER;

	for (unsigned int i = 0; i < n; i++) {
		if (!uccl_is_silent(s, i))
			continue;
		at = uccl_driver_expiry(v[i]);
		if (at <= now)
			silence_end(s, i);
		else
			expiry = uccl_min(expiry, at);
	}
	s->expiry = expiry;
}

void uccl_silence_look(struct uccl_silence *s, struct uccl_driver *const *v, unsigned int n, uint64_t now)
{
	struct epoll_event ev[EVENTS];
	int came;

	if (!s->n)
		return;
	if (s->forks != uccl_forks) {
		/* What is told to the parent's descriptor is the parent's. */
		for (unsigned int i = 0; i < s->cap; i++)
			s->of[i].fd = -1;
		s->n = 0;
		return;
	}
	came = epoll_wait(s->epfd, ev, EVENTS, 0);
	for (int i = 0; i < came; i++)
		silence_end(s, ev[i].data.u32);
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
