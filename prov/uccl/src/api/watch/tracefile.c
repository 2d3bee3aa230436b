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
#include <time.h>
#include <unistd.h>

#include "api/lib/lib.h"
#include "api/offer/param.h"
#include "base/units.h"
#include "flow/observe/trace.h"
#include "progress/drivers.h"

struct uccl_tracefile {
	struct uccl_trace *ring;
	size_t bytes;
	uint64_t flushed;	/* records that were written to the file */
	int file;
	bool kept;
	char stem[UCCL_PARAM_TEXT + 32];
};

/* A new file of this user. It replaces that of an earlier process with this process number. */
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

/* What cannot be written now may be later: nothing waits for it. */
static bool file_put(const struct uccl_tracefile *t, size_t from, size_t bytes)
{
	return pwrite(t->file, (uint8_t *)t->ring + from, bytes, (off_t)from) == (ssize_t)bytes;
}

/* Records from..to of the ring, which do not cross its end. */
static bool records_put(const struct uccl_tracefile *t, uint64_t from, uint64_t to)
{
	return from == to || file_put(t, uccl_trace_bytes(from), (to - from) * sizeof(t->ring->rec[0]));
}

void uccl_tracefile_flush(struct uccl_tracefile *t)
{
	uint64_t next, records, from, n;

	if (!t || t->flushed == t->ring->next)
		return;
	next = t->ring->next;
	records = t->ring->mask + 1;
	n = uccl_min(next - t->flushed, records);
	from = (next - n) & t->ring->mask;
	if (records_put(t, from, uccl_min(from + n, records)) &&
	    records_put(t, 0, from + n - uccl_min(from + n, records)) &&
	    file_put(t, offsetof(struct uccl_trace, next), sizeof(t->ring->next)))
		t->flushed = next;
}

struct uccl_tracefile *uccl_tracefile_open(const char *name, uint64_t records)
{
	static _Atomic unsigned int count;
	struct uccl_tracefile *t = calloc(1, sizeof(*t));
	struct timespec wall;
	uint64_t n = 1;

	if (!t)
		return NULL;
	while (n < records)
		n *= 2;
	t->bytes = uccl_trace_bytes(n);
	snprintf(t->stem, sizeof(t->stem), "%s.%d.%u", name, (int)getpid(), atomic_fetch_add(&count, 1));
	t->file = file_new(t, ".trace");
	if (t->file < 0)
		goto fail;
	/* Room on the disk now: where there is none it is said at once. */
	errno = posix_fallocate(t->file, 0, (off_t)t->bytes);
	t->ring = errno ? NULL : calloc(1, t->bytes);
	if (!t->ring) {
		uccl_warn(FI_LOG_EP_CTRL, "FI_UCCL_TRACE: no room for %zu bytes at %s.trace: %s\n", t->bytes, t->stem,
			  strerror(errno));
		close(t->file);
		goto fail;
	}
	uccl_trace_init(t->ring, n);
	t->ring->pid = getpid();
	clock_gettime(CLOCK_REALTIME, &wall);
	t->ring->wall_ns = (uint64_t)wall.tv_sec * UCCL_NS_PER_S + (uint64_t)wall.tv_nsec;
	t->ring->clock_ns = uccl_clock();
	file_put(t, 0, sizeof(*t->ring));
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
	uccl_tracefile_flush(t);
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
	uccl_tracefile_flush(t);
	close(t->file);
	free(t->ring);
	free(t);
}
