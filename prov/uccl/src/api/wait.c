/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See wait.h. */
#include "api/wait.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "api/lib.h"

uint64_t uccl_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * UCCL_NS_PER_S + ts.tv_nsec;
}

static struct timespec to_timespec(uint64_t ns)
{
	return (struct timespec){ .tv_sec = ns / UCCL_NS_PER_S, .tv_nsec = ns % UCCL_NS_PER_S };
}

static bool kind_known(enum fi_wait_obj obj)
{
	return obj == FI_WAIT_UNSPEC || obj == FI_WAIT_FD || obj == FI_WAIT_MUTEX_COND || obj == FI_WAIT_YIELD ||
	       obj == FI_WAIT_POLLFD;
}

int uccl_wait_open(struct uccl_wait *w, enum fi_wait_obj obj)
{
	int rc;

	w->obj = FI_WAIT_NONE;
	w->epfd = w->evfd = w->tmfd = -1;
	w->set = NULL;
	atomic_init(&w->until, 0);
	atomic_init(&w->sleepers, 0);
	atomic_init(&w->outside, false);
	if (obj == FI_WAIT_NONE)
		return 0;
	if (!kind_known(obj))
		return -FI_ENOSYS;
	w->obj = obj;
	w->epfd = epoll_create1(EPOLL_CLOEXEC);
	w->evfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	w->tmfd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (w->epfd < 0 || w->evfd < 0 || w->tmfd < 0) {
		rc = -errno;
		uccl_wait_close(w);
		return rc;
	}
	rc = uccl_wait_add(w, w->evfd);
	if (!rc)
		rc = uccl_wait_add(w, w->tmfd);
	if (rc)
		uccl_wait_close(w);
	return rc;
}

void uccl_wait_close(struct uccl_wait *w)
{
	if (w->obj == FI_WAIT_NONE)
		return;
	if (w->tmfd >= 0)
		close(w->tmfd);
	if (w->evfd >= 0)
		close(w->evfd);
	if (w->epfd >= 0)
		close(w->epfd);
	w->obj = FI_WAIT_NONE;
}

int uccl_wait_add(struct uccl_wait *w, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	if (w->obj == FI_WAIT_NONE || fd < 0)
		return 0;
	/* An endpoint is bound to the same queue for both directions: its descriptor comes twice. */
	if (epoll_ctl(w->epfd, EPOLL_CTL_ADD, fd, &ev) && errno != EEXIST)
		return -errno;
	return 0;
}

void uccl_wait_remove(struct uccl_wait *w, int fd)
{
	if (w->obj != FI_WAIT_NONE && fd >= 0)
		epoll_ctl(w->epfd, EPOLL_CTL_DEL, fd, NULL);
}

void uccl_wait_force(struct uccl_wait *w)
{
	uint64_t one = 1;

	/* Fails only when the count is at its end, and then it is readable anyway. */
	if (w->obj != FI_WAIT_NONE && write(w->evfd, &one, sizeof(one)) < 0)
		return;
}

void uccl_wait_signal(struct uccl_wait *w)
{
	if (atomic_load(&w->until))
		uccl_wait_force(w);
}

void uccl_wait_kick(struct uccl_wait *w, uint64_t expiry)
{
	uint64_t until = atomic_load(&w->until);

	if (until && expiry < until)
		uccl_wait_force(w);
}

void uccl_wait_enter(struct uccl_wait *w)
{
	atomic_fetch_add(&w->sleepers, 1);
	/* Until the sleeper knows better, any expiry is earlier than his. */
	atomic_store(&w->until, UCCL_NEVER);
}

void uccl_wait_sleep(struct uccl_wait *w, uint64_t until)
{
	struct pollfd pfd = { .fd = w->epfd, .events = POLLIN };
	struct timespec ts;
	uint64_t now;

	atomic_store(&w->until, uccl_max(until, 1));
	if (until == UCCL_NEVER) {
		ppoll(&pfd, 1, NULL, NULL);
		return;
	}
	now = uccl_clock();
	ts = to_timespec(until > now ? until - now : 0);
	ppoll(&pfd, 1, &ts, NULL);
}

/* Nobody is inside any more. */
static void wait_rest(struct uccl_wait *w)
{
	uint64_t count;

	atomic_store(&w->until, 0);
	/* Empty already is as good. */
	if (w->obj != FI_WAIT_NONE && read(w->evfd, &count, sizeof(count)) < 0)
		return;
}

void uccl_wait_leave(struct uccl_wait *w)
{
	if (atomic_fetch_sub(&w->sleepers, 1) > 1 || atomic_load(&w->outside))
		uccl_wait_force(w); /* the others may have counted on our time: they look again */
	else
		wait_rest(w);
}

static void set_timer(struct uccl_wait *w, uint64_t at)
{
	struct itimerspec its = { .it_value = to_timespec(at) };

	if (w->obj != FI_WAIT_NONE)
		timerfd_settime(w->tmfd, TFD_TIMER_ABSTIME, &its, NULL);
}

void uccl_wait_enter_outside(struct uccl_wait *w)
{
	atomic_store(&w->outside, true);
	atomic_store(&w->until, UCCL_NEVER);
}

void uccl_wait_until_outside(struct uccl_wait *w, uint64_t until)
{
	atomic_store(&w->until, uccl_max(until, 1));
	set_timer(w, until == UCCL_NEVER ? 0 : uccl_max(until, 1));
}

void uccl_wait_leave_outside(struct uccl_wait *w)
{
	if (!atomic_exchange(&w->outside, false))
		return;
	set_timer(w, 0);
	if (!atomic_load(&w->sleepers))
		wait_rest(w);
}

int uccl_wait_control(struct uccl_wait *w, int command, void *arg)
{
	struct fi_wait_pollfd *pfd = arg;

	if (command == FI_GETWAITOBJ) {
		*(enum fi_wait_obj *)arg = w->obj;
		return 0;
	}
	if (command != FI_GETWAIT)
		return -FI_ENOSYS;
	switch (w->obj) {
	case FI_WAIT_FD:
	case FI_WAIT_UNSPEC:
		*(int *)arg = w->epfd;
		return 0;
	case FI_WAIT_POLLFD:
		if (pfd->nfds < 1) {
			pfd->nfds = 1;
			return -FI_ETOOSMALL;
		}
		pfd->change_index = 1;
		pfd->nfds = 1;
		pfd->fd[0] = (struct pollfd){ .fd = w->epfd, .events = POLLIN };
		return 0;
	default:
		return -FI_ENODATA;
	}
}
