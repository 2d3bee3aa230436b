/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See wait.h. */
#include "progress/wait.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"

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

void uccl_wait_init(struct uccl_wait *w)
{
	w->epfd = w->evfd = w->tmfd = -1;
	w->mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	atomic_init(&w->until, 0);
	atomic_init(&w->signalled, false);
	atomic_init(&w->forced, false);
	atomic_init(&w->writes, 0);
	atomic_init(&w->taken, 0);
	atomic_init(&w->sleepers, 0);
	w->risen = 0;
	w->read = 0;
	w->late = 0;
	atomic_init(&w->outside, false);
}

int uccl_wait_open(struct uccl_wait *w)
{
	int rc;

	uccl_wait_init(w);
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
	if (w->tmfd >= 0)
		close(w->tmfd);
	if (w->evfd >= 0)
		close(w->evfd);
	if (w->epfd >= 0)
		close(w->epfd);
	w->epfd = w->evfd = w->tmfd = -1;
}

int uccl_wait_add(struct uccl_wait *w, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	if (!uccl_wait_opened(w) || fd < 0)
		return 0;
	/* An endpoint is bound to the same queue for both directions: its descriptor comes twice. */
	if (epoll_ctl(w->epfd, EPOLL_CTL_ADD, fd, &ev) && errno != EEXIST)
		return -errno;
	return 0;
}

void uccl_wait_remove(struct uccl_wait *w, int fd)
{
	if (uccl_wait_opened(w) && fd >= 0)
		epoll_ctl(w->epfd, EPOLL_CTL_DEL, fd, NULL);
}

void uccl_wait_force(struct uccl_wait *w)
{
	uint64_t one = 1;
	ssize_t n;

	if (!uccl_wait_opened(w))
		return;
	/*
	 * Fails only when the count is at its end, and then it is readable anyway. Noted after it: a sleeper who leaves
	 * between the two leaves it to the next one, who wakes once in vain. Noted before, it could stay for good.
	 */
	atomic_fetch_add(&w->writes, 1);
	n = write(w->evfd, &one, sizeof(one));
	(void)n;
	atomic_store(&w->forced, true);
}

void uccl_wait_signal_inside(struct uccl_wait *w)
{
	uint64_t until = atomic_load(&w->until);

	if (until == UCCL_WAIT_AWAKE) {
		/* He sees this before he sleeps, or we see that he does. */
		atomic_store(&w->signalled, true);
		until = atomic_load(&w->until);
	}
	if (until > UCCL_WAIT_AWAKE)
		uccl_wait_force(w);
}

void uccl_wait_kick(struct uccl_wait *w, uint64_t expiry)
{
	if (expiry < atomic_load(&w->until))
		uccl_wait_force(w);
}

void uccl_wait_enter(struct uccl_wait *w)
{
	pthread_mutex_lock(&w->mutex);
	atomic_fetch_add(&w->sleepers, 1);
	atomic_store(&w->until, UCCL_WAIT_AWAKE);
	pthread_mutex_unlock(&w->mutex);
}

void uccl_wait_plan(struct uccl_wait *w, uint64_t until)
{
	atomic_store(&w->until, uccl_max(until, UCCL_WAIT_AWAKE + 1));
}

void uccl_wait_sleep(struct uccl_wait *w, uint64_t until)
{
	struct pollfd pfd = { .fd = w->epfd, .events = POLLIN };
	struct timespec ts;
	uint64_t now;

	uccl_wait_plan(w, until);
	if (atomic_exchange(&w->signalled, false)) {
		/* It was for others, too, who sleep. */
		if (atomic_load(&w->sleepers) > 1 || atomic_load(&w->outside))
			uccl_wait_force(w);
		return;
	}
	if (until == UCCL_NEVER) {
		ppoll(&pfd, 1, NULL, NULL);
		return;
	}
	now = uccl_clock();
	ts = to_timespec(until > now ? until - now : 0);
	ppoll(&pfd, 1, &ts, NULL);
}

/* Make the eventfd empty. The mutex is held. */
static void wait_read(struct uccl_wait *w)
{
	uint64_t count;

	w->risen = 0;
	w->late = 0;
	w->read++;
	atomic_store(&w->forced, false);
	/* Empty already is as good. */
	if (read(w->evfd, &count, sizeof(count)) == (ssize_t)sizeof(count))
		atomic_fetch_add(&w->taken, count);
}

/*
 * The kernel knows it: a thread that signals writes the eventfd first, and may lose the processor before its note. But
 * if all writes that were begun have been read, there is nothing to ask.
 */
static bool wait_readable(struct uccl_wait *w)
{
	struct pollfd pfd = { .fd = w->evfd, .events = POLLIN };

	return atomic_load(&w->writes) != atomic_load(&w->taken) && poll(&pfd, 1, 0) == 1;
}

/* No thread is inside any more, and none enters: the mutex is held. */
static void wait_rest(struct uccl_wait *w)
{
	atomic_store(&w->until, 0);
	atomic_store(&w->signalled, false);
	if (atomic_load(&w->forced))
		wait_read(w);
}

/*
 * The other threads inside are awake after so long, or have no processor. A thread that waited in vain checks for its
 * event, and waits longer the next time, up to sixteen times that.
 */
#define RISE_NS UCCL_NS_PER_MS
#define RISE_DOUBLINGS 4
#define RISE_STEP_NS (20 * UCCL_NS_PER_US)

/*
 * The eventfd stays readable until all have woken. A thread that slept again before that would wake at once, and two
 * threads that leave and enter would keep each other awake for ever. So the first ones wait for the last, which reads
 * it. All check for their events after that, so whatever was signalled in between is seen.
 */
bool uccl_wait_again(struct uccl_wait *w, uint64_t until)
{
	const struct timespec step = to_timespec(RISE_STEP_NS);
	uint64_t end;
	uint32_t read;

	if (!wait_readable(w))
		return false;
	pthread_mutex_lock(&w->mutex);
	read = w->read;
	w->risen++;
	/* The program may take its time until it polls its descriptor, and packets do not wait for that. */
	end = uccl_clock() + ((uint64_t)RISE_NS << (atomic_load(&w->outside) ? 0 : uccl_min(w->late, RISE_DOUBLINGS)));
	end = uccl_min(end, until);
	for (;;) {
		if (w->read == read && w->risen >= atomic_load(&w->sleepers) && !atomic_load(&w->outside))
			wait_read(w);
		if (w->read != read || uccl_clock() >= end)
			break;
		pthread_mutex_unlock(&w->mutex);
		nanosleep(&step, NULL);
		pthread_mutex_lock(&w->mutex);
	}
	if (w->read == read) {
		w->risen--;
		w->late++;
	}
	pthread_mutex_unlock(&w->mutex);
	return true;
}

void uccl_wait_up(struct uccl_wait *w)
{
	pthread_mutex_lock(&w->mutex);
	atomic_store(&w->until, UCCL_WAIT_AWAKE);
	pthread_mutex_unlock(&w->mutex);
}

void uccl_wait_leave(struct uccl_wait *w)
{
	pthread_mutex_lock(&w->mutex);
	if (atomic_fetch_sub(&w->sleepers, 1) > 1 || atomic_load(&w->outside))
		uccl_wait_force(w); /* the others may have relied on our time: they check again */
	else
		wait_rest(w);
	pthread_mutex_unlock(&w->mutex);
}

static void set_timer(struct uccl_wait *w, uint64_t at)
{
	struct itimerspec its = { .it_value = to_timespec(at) };

	if (uccl_wait_opened(w))
		timerfd_settime(w->tmfd, TFD_TIMER_ABSTIME, &its, NULL);
}

void uccl_wait_serve(struct uccl_wait *w, const _Atomic bool *stop, const struct uccl_wait_work *work)
{
	while (!atomic_load(stop)) {
		uccl_wait_enter(w);
		if (work->poll(work->arg) <= 0 && !atomic_load(stop) && !(work->stay && work->stay(work->arg))) {
			uccl_wait_plan(w, work->expiry(work->arg));
			uccl_wait_sleep(w, work->expiry(work->arg));
		}
		uccl_wait_leave(w);
	}
}

void uccl_wait_enter_outside(struct uccl_wait *w)
{
	pthread_mutex_lock(&w->mutex);
	atomic_store(&w->outside, true);
	atomic_store(&w->until, UCCL_NEVER);
	pthread_mutex_unlock(&w->mutex);
}

void uccl_wait_until_outside(struct uccl_wait *w, uint64_t until)
{
	uccl_wait_plan(w, until);
	set_timer(w, until == UCCL_NEVER ? 0 : uccl_max(until, 1));
}

void uccl_wait_leave_outside(struct uccl_wait *w)
{
	bool was;

	pthread_mutex_lock(&w->mutex);
	was = atomic_exchange(&w->outside, false);
	if (was)
		set_timer(w, 0);
	/* A thread may have woken us after we had left: no thread needs that signal. */
	if ((was || atomic_load(&w->forced)) && !atomic_load(&w->sleepers))
		wait_rest(w);
	pthread_mutex_unlock(&w->mutex);
}
