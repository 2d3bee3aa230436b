/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See ownfd.h. One list for the process, as a fork copies all of it; a fork waits while the list changes. */
#include "nic/ownfd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

static struct {
	pthread_mutex_t lock;
	uint64_t *map; /* a bit for each descriptor */
	int words;
} own = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void fork_begin(void)
{
	pthread_mutex_lock(&own.lock);
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&own.lock);
}

/* Only what a signal handler may do. What the child opens at these numbers later is its own: the list ends here. */
static void fork_child(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int w = 0; w < own.words; w++) {
		for (; own.map[w]; own.map[w] &= own.map[w] - 1) {
			int fd = 64 * w + __builtin_ctzll(own.map[w]);

			if (null < 0 || dup3(null, fd, O_CLOEXEC) < 0)
				close(fd);
		}
	}
	if (null >= 0)
		close(null);
	pthread_mutex_unlock(&own.lock);
}

static void watch_forks(void)
{
	pthread_atfork(fork_begin, fork_parent, fork_child);
}

/* With the lock. Without memory a child keeps this one. */
static void own_add(int fd)
{
	int words = fd / 64 + 1;
	uint64_t *map;

	if (words > own.words) {
		map = realloc(own.map, (size_t)words * sizeof(*map));
		if (!map) {
			UCCL_LOG(UCCL_LOG_INFO, "forked children will keep a socket: no memory");
			return;
		}
		memset(map + own.words, 0, (size_t)(words - own.words) * sizeof(*map));
		own.map = map;
		own.words = words;
	}
	own.map[fd / 64] |= 1ull << (fd % 64);
}

static void own_begin(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&own.lock);
}

static int own_end(int fd)
{
	int err = errno;

	if (fd >= 0)
		own_add(fd);
	pthread_mutex_unlock(&own.lock);
	errno = err;
	return fd;
}

int uccl_own_socket(int family, int type)
{
	own_begin();
	return own_end(socket(family, type | SOCK_CLOEXEC, 0));
}

int uccl_own_accept(int listener, int flags)
{
	own_begin();
	return own_end(accept4(listener, NULL, NULL, flags | SOCK_CLOEXEC));
}

void uccl_own_take(int fd)
{
	own_begin();
	own_end(fd);
}

void uccl_own_close(int fd)
{
	own_begin();
	if (fd / 64 < own.words)
		own.map[fd / 64] &= ~(1ull << (fd % 64));
	close(fd);
	pthread_mutex_unlock(&own.lock);
}
