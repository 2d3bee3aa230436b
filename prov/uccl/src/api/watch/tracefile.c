/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See tracefile.h. */
#include "api/watch/tracefile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "api/lib/lib.h"
#include "api/offer/param.h"
#include "base/units.h"
#include "core/trace.h"
#include "progress/drivers.h"

struct uccl_tracefile {
	struct uccl_trace *ring;
	size_t bytes;
	bool kept;
	char stem[UCCL_PARAM_TEXT + 32];
};

/* A new file of this user; one of an earlier process with our number gives way. */
static int file_new(const struct uccl_tracefile *t, const char *suffix)
{
	char name[UCCL_PARAM_TEXT + 64];
	int fd;

	snprintf(name, sizeof(name), "%s%s", t->stem, suffix);
	unlink(name);
	fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		uccl_warn(FI_LOG_EP_CTRL, "FI_UCCL_TRACE: cannot write %s: %s\n", name, strerror(errno));
	return fd;
}

struct uccl_tracefile *uccl_tracefile_open(const char *name, uint64_t records)
{
	static _Atomic unsigned int count;
	struct uccl_tracefile *t = calloc(1, sizeof(*t));
	struct timespec wall;
	uint64_t n = 1;
	void *p;
	int fd;

	if (!t)
		return NULL;
	while (n < records)
		n *= 2;
	t->bytes = uccl_trace_bytes(n);
	snprintf(t->stem, sizeof(t->stem), "%s.%d.%u", name, (int)getpid(), atomic_fetch_add(&count, 1));
	fd = file_new(t, ".trace");
	if (fd < 0)
		goto fail;
	/* Room on the disk now: without it a later store would end the process. */
	errno = posix_fallocate(fd, 0, (off_t)t->bytes);
	p = errno ? MAP_FAILED : mmap(NULL, t->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		uccl_warn(FI_LOG_EP_CTRL, "FI_UCCL_TRACE: no room for %zu bytes at %s.trace: %s\n", t->bytes, t->stem,
			  strerror(errno));
	close(fd);
	if (p == MAP_FAILED)
		goto fail;
	t->ring = p;
	uccl_trace_init(t->ring, n);
	t->ring->pid = getpid();
	clock_gettime(CLOCK_REALTIME, &wall);
	t->ring->wall_ns = (uint64_t)wall.tv_sec * UCCL_NS_PER_S + (uint64_t)wall.tv_nsec;
	t->ring->clock_ns = uccl_clock();
	return t;
fail:
	free(t);
	return NULL;
}

struct uccl_trace *uccl_tracefile_ring(struct uccl_tracefile *t)
{
	return t->ring;
}

static bool write_all(int fd, const void *buf, size_t len)
{
	const char *p = buf;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

void uccl_tracefile_error(struct uccl_tracefile *t, int err, uint64_t now)
{
	int fd;

	if (!t)
		return;
	uccl_trace_put(t->ring, &(struct uccl_trace_rec){ .ns = now, .kind = UCCL_TRACE_ERROR, .arg = (uint32_t)err });
	if (t->kept)
		return;
	t->kept = true;
	fd = file_new(t, ".error.trace");
	if (fd < 0)
		return;
	if (!write_all(fd, t->ring, t->bytes))
		uccl_warn(FI_LOG_EP_CTRL, "FI_UCCL_TRACE: writing to %s.error.trace failed\n", t->stem);
	close(fd);
}

void uccl_tracefile_close(struct uccl_tracefile *t)
{
	if (!t)
		return;
	munmap(t->ring, t->bytes);
	free(t);
}
