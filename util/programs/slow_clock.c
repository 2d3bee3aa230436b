/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A clock that goes slowly, for programs that count what a protocol does where the host is too busy to be on time: to
 * them the host is as much faster. Loaded by LD_PRELOAD. The monotonic clocks, and what waits for an absolute time of
 * theirs, go at a part (1/SLOW_CLOCK, 1/64) of their rate. Sleeps are not longer. The kernel's time stamps of packets,
 * which are of the other clock, are not to be had.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>

#define NS 1000000000ull

static uint64_t slower(void)
{
	static uint64_t times;
	const char *text;

	if (!times) {
		text = getenv("SLOW_CLOCK");
		times = text && atoi(text) > 0 ? (uint64_t)atoi(text) : 64;
	}
	return times;
}

static uint64_t ns_of(const struct timespec *t)
{
	return (uint64_t)t->tv_sec * NS + (uint64_t)t->tv_nsec;
}

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / NS), .tv_nsec = (long)(ns % NS)};
}

/* The kernel's time at a time of the slow clock; 0 stays, as it means none. */
static struct timespec real_of(const struct timespec *t)
{
	return timespec_of(ns_of(t) * slower());
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
	static int (*real)(clockid_t, struct timespec *);
	int rc;

	if (!real)
		real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	rc = real(clock, t);
	if (!rc && (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_MONOTONIC_RAW))
		*t = timespec_of(ns_of(t) / slower());
	return rc;
}

int timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *was)
{
	static int (*real)(int, int, const struct itimerspec *, struct itimerspec *);
	struct itimerspec then = *at;

	if (!real)
		real = (int (*)(int, int, const struct itimerspec *, struct itimerspec *))dlsym(RTLD_NEXT,
												"timerfd_settime");
	if (flags & TFD_TIMER_ABSTIME)
		then.it_value = real_of(&at->it_value);
	return real(fd, flags, &then, was);
}

/* The provider's conditions are of the slow clock, others of the time of day, which is a large number. */
int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock, const struct timespec *at)
{
	static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
	struct timespec then = *at, day;

	if (!real)
		real = (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))dlvsym(
			RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
	clock_gettime(CLOCK_REALTIME, &day);
	if (at->tv_sec < day.tv_sec / 2)
		then = real_of(at);
	return real(cond, lock, &then);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	static int (*real)(int, int, int, const void *, socklen_t);

	if (!real)
		real = (int (*)(int, int, int, const void *, socklen_t))dlsym(RTLD_NEXT, "setsockopt");
	if (level == SOL_SOCKET && name == SO_TIMESTAMPNS) {
		errno = ENOPROTOOPT;
		return -1;
	}
	return real(fd, level, name, value, len);
}
