/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "snapshot_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/units.h"
#include "flow/path/path.h"

#define COPY_TRIES 100
#define SNAPSHOT_MAX (64 << 20)	/* a longer file is no snapshot */

static bool text_good(const char *s, size_t size)
{
	size_t n = strnlen(s, size);

	for (size_t i = 0; i < n; i++)
		if (s[i] < ' ' || s[i] > '~')
			return false;
	return n < size;
}

static bool peer_good(const struct uccl_snapshot_peer *p)
{
	const struct uccl_snapshot_path *path = uccl_snapshot_paths(p);

	if (p->state > UCCL_SNAPSHOT_ENDED || p->stall >= UCCL_STALL_COUNT)
		return false;
	for (uint16_t i = 0; i < p->npaths; i++)
		if (path[i].state > UCCL_PATH_PROBATION)
			return false;
	return true;
}

const char *snapshot_check(const struct uccl_snapshot *v, size_t size)
{
	const struct uccl_snapshot_peer *p;
	uint32_t n = 0;
	size_t end;

	if (size < offsetof(struct uccl_snapshot, seq) || v->magic != UCCL_SNAPSHOT_MAGIC)
		return "is no snapshot of an endpoint";
	if (v->version != UCCL_SNAPSHOT_VERSION || v->stats_bytes != sizeof(v->stats))
		return "written by another version of the provider";
	if (size < sizeof(*v) || v->bytes % 8 || v->bytes < sizeof(*v) || v->bytes > size)
		return "cut off";
	if (!text_good(v->host, sizeof(v->host)) || !text_good(v->interface, sizeof(v->interface)) ||
	    !text_good(v->place, sizeof(v->place)) ||
	    !text_good(v->backend, sizeof(v->backend)) || !text_good(v->cc, sizeof(v->cc)) ||
	    !text_good(v->path, sizeof(v->path)) || !text_good(v->credit, sizeof(v->credit)))
		return "damaged: a text";
	end = sizeof(*v);
	for (p = uccl_snapshot_first(v); p && n < v->npeers; p = uccl_snapshot_next(v, p), n++) {
		if (!peer_good(p))
			return "damaged: a peer";
		end = (size_t)((const uint8_t *)(uccl_snapshot_paths(p) + p->npaths) - (const uint8_t *)v);
	}
	return n == v->npeers && end == v->bytes ? NULL : "damaged: the peers";
}

/* The number and the length of the snapshot in this file; false: there is not even a head. */
static bool head_read(int fd, uint32_t *seq, uint32_t *bytes)
{
	struct uccl_snapshot head;

	if (pread(fd, &head, offsetof(struct uccl_snapshot, at_ns), 0) !=
	    (ssize_t)offsetof(struct uccl_snapshot, at_ns))
		return false;
	*seq = head.seq;
	*bytes = head.bytes;
	return true;
}

/* Up to `size` bytes of the file, not checked yet; NULL: it was being written, or no memory. */
static struct uccl_snapshot *copy_read(int fd, size_t size)
{
	uint32_t seq, after, bytes, unused;
	struct uccl_snapshot *v;

	if (!head_read(fd, &seq, &bytes) || seq % 2)
		return NULL;
	size = uccl_min(size, uccl_max(bytes, sizeof(*v)));
	v = calloc(1, uccl_max(size, sizeof(*v)));
	if (v && pread(fd, v, size, 0) == (ssize_t)size && head_read(fd, &after, &unused) && after == seq)
		return v;
	free(v);
	return NULL;
}

struct uccl_snapshot *snapshot_file_read(int dir, const char *name, const char **why)
{
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct uccl_snapshot *v = NULL;
	struct stat st;

	*why = "cannot be read";
	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && st.st_uid == geteuid() && S_ISREG(st.st_mode)) {
		size_t size = (size_t)uccl_min(st.st_size, SNAPSHOT_MAX);

		*why = "cut off, or always being written";
		for (int i = 0; i < COPY_TRIES && !(v = copy_read(fd, size)); i++)
			usleep(100);
		if (v)
			*why = snapshot_check(v, size);
	}
	close(fd);
	if (*why) {
		free(v);
		v = NULL;
	}
	return v;
}
