/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See memwatch.h. */
#include "nic/verbs/memwatch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/fi_errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"

#define FEATURES (UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP)

/* In the headers since Linux 5.11; older kernels return EINVAL. */
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

static struct {
	pthread_mutex_t lock; /* protects everything, and what the watchers keep */
	pthread_mutex_t membership; /* serializes joining and leaving; taken before `lock` */
	LIST_HEAD(, uccl_memwatcher) watchers;
	int fd;	  /* of userfaultfd */
	int stop; /* an eventfd */
	pid_t pid;
	pthread_t thread;
} watch = { .lock = PTHREAD_MUTEX_INITIALIZER, .membership = PTHREAD_MUTEX_INITIALIZER, .fd = -1, .stop = -1 };

void uccl_memwatch_lock(void)
{
	pthread_mutex_lock(&watch.lock);
}

void uccl_memwatch_unlock(void)
{
	pthread_mutex_unlock(&watch.lock);
}

static void gone(uint64_t start, uint64_t end)
{
	struct uccl_memwatcher *w;

	LIST_FOREACH(w, &watch.watchers, link)
		w->gone(w, (uintptr_t)start, (uintptr_t)end);
}

/* Read all events. The lock is taken before they are read: see memwatch.h. */
static void take_events(void)
{
	struct uffd_msg m;

	uccl_memwatch_lock();
	while (read(watch.fd, &m, sizeof(m)) == (ssize_t)sizeof(m)) {
		if (m.event == UFFD_EVENT_UNMAP || m.event == UFFD_EVENT_REMOVE)
			gone(m.arg.remove.start, m.arg.remove.end);
		else if (m.event == UFFD_EVENT_REMAP)
			gone(m.arg.remap.from, m.arg.remap.from + m.arg.remap.len);
	}
	uccl_memwatch_unlock();
}

static void *watch_main(void *arg)
{
	struct pollfd p[2] = { { .fd = watch.fd, .events = POLLIN }, { .fd = watch.stop, .events = POLLIN } };

	(void)arg;
	for (;;) {
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return NULL;
		if (p[1].revents)
			return NULL;
		if (p[0].revents)
			take_events();
	}
}

/* A descriptor. It handles no page faults, so the unprivileged kind is enough. */
static int uffd_open(void)
{
	struct uffdio_api api = { .api = UFFD_API, .features = FEATURES };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY), err;

	if (fd < 0)
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (!ioctl(fd, UFFDIO_API, &api) && (api.features & FEATURES) == FEATURES)
		return fd;
	err = errno ? errno : FI_ENOSYS;
	close(fd);
	return -err;
}

static int watch_start(void)
{
	sigset_t all, old;
	int rc;

	watch.fd = uffd_open();
	if (watch.fd < 0)
		return watch.fd;
	watch.stop = eventfd(0, EFD_CLOEXEC);
	rc = watch.stop < 0 ? errno : 0;
	if (!rc) {
		/* Signals of the application are for its own threads. */
		sigfillset(&all);
		pthread_sigmask(SIG_BLOCK, &all, &old);
		rc = pthread_create(&watch.thread, NULL, watch_main, NULL);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	}
	if (!rc) {
		watch.pid = getpid();
		return 0;
	}
	if (watch.stop >= 0)
		close(watch.stop);
	close(watch.fd);
	watch.fd = watch.stop = -1;
	return -rc;
}

int uccl_memwatch_join(struct uccl_memwatcher *w)
{
	int rc = 0;

	pthread_mutex_lock(&watch.membership);
	/* A child does not have the thread, and the descriptor reports what the parent does. */
	if (watch.fd >= 0 && watch.pid != getpid())
		rc = -FI_ENOSYS;
	else if (watch.fd < 0)
		rc = watch_start();
	if (!rc) {
		uccl_memwatch_lock();
		LIST_INSERT_HEAD(&watch.watchers, w, link);
		uccl_memwatch_unlock();
	}
	pthread_mutex_unlock(&watch.membership);
	if (rc)
		UCCL_LOG(UCCL_LOG_INFO, "registrations of memory are not cached: userfaultfd cannot be used: %s",
			 strerror(-rc));
	return rc;
}

void uccl_memwatch_leave(struct uccl_memwatcher *w)
{
	uint64_t one = 1;
	bool last;

	pthread_mutex_lock(&watch.membership);
	uccl_memwatch_lock();
	LIST_REMOVE(w, link);
	last = LIST_EMPTY(&watch.watchers);
	uccl_memwatch_unlock();
	if (last) {
		/* A child does not have the thread, and a write would end that of the parent. */
		if (watch.pid == getpid()) {
			while (write(watch.stop, &one, sizeof(one)) < 0 && errno == EINTR)
				;
			pthread_join(watch.thread, NULL);
		}
		/* This ends all watching, and lets threads go on that wait until an event is read. */
		close(watch.fd);
		close(watch.stop);
		watch.fd = watch.stop = -1;
	}
	pthread_mutex_unlock(&watch.membership);
}

bool uccl_memwatch_add(uintptr_t start, uintptr_t end)
{
	struct uffdio_register r = {
		.range = { .start = start, .len = end - start },
		/* Nothing is ever write-protected: no fault comes, only the events. */
		.mode = UFFDIO_REGISTER_MODE_WP,
	};

	return watch.fd >= 0 && watch.pid == getpid() && !ioctl(watch.fd, UFFDIO_REGISTER, &r);
}

void uccl_memwatch_del(uintptr_t start, uintptr_t end)
{
	struct uffdio_range r = { .start = start, .len = end - start };
	struct uccl_memwatcher *w;

	LIST_FOREACH(w, &watch.watchers, link)
		if (w->keeps(w, start, end))
			return;
	if (watch.fd >= 0 && watch.pid == getpid())
		ioctl(watch.fd, UFFDIO_UNREGISTER, &r);
}
