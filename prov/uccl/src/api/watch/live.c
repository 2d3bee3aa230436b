/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See live.h. */
#include "api/watch/live.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/lib/lib.h"
#include "api/object/domain.h"
#include "api/object/ep_object.h"
#include "api/offer/address.h"
#include "api/watch/process.h"
#include "base/units.h"
#include "engine/observe/snapshot.h"
#include "progress/shm_dir.h"

/* Room for more than 800 peers of 16 paths; what a snapshot does not use is never touched. */
#define LIVE_BYTES (1u << 20)
#define LIVE_EVERY_NS (250 * UCCL_NS_PER_MS)

struct uccl_live {
	struct uccl_snapshot *snapshot; /* the file is not mapped: whoever cuts it off would end this process */
	uint64_t due_ns;
	int dir_fd, file;
	char name[32];
};

/* A new file. */
static int file_new(struct uccl_live *l)
{
	static _Atomic unsigned int count;

	snprintf(l->name, sizeof(l->name), "%d.%u", (int)getpid(), atomic_fetch_add(&count, 1));
	/* An ended process that had this process number left it. */
	unlinkat(l->dir_fd, l->name, 0);
	return openat(l->dir_fd, l->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static bool file_put(const struct uccl_live *l, size_t from, size_t bytes)
{
	return pwrite(l->file, (uint8_t *)l->snapshot + from, bytes, (off_t)from) == (ssize_t)bytes;
}

/*
 * A reader that sees an odd number, or another one after its copy, copies again. Where there is no room for a
 * snapshot its number stays odd until there is.
 */
static bool live_put(struct uccl_live *l, size_t bytes)
{
	const size_t at = offsetof(struct uccl_snapshot, seq);

	l->snapshot->seq |= 1;
	if (!file_put(l, at, sizeof(l->snapshot->seq)) || !file_put(l, 0, bytes))
		return false;
	l->snapshot->seq++;
	return file_put(l, at, sizeof(l->snapshot->seq));
}

static bool live_write(struct uccl_live *l, const struct uccl_ep *ep, uint64_t now)
{
	l->due_ns = now + LIVE_EVERY_NS;
	return live_put(l, uccl_engine_snapshot(ep->driver.engine, l->snapshot, LIVE_BYTES, now));
}

struct uccl_live *uccl_live_open(const struct uccl_ep *ep)
{
	struct uccl_live *l = calloc(1, sizeof(*l));
	struct uccl_snapshot *v = NULL;
	struct uccl_process me;
	char path[64];

	if (l) {
		l->dir_fd = l->file = -1;
		l->snapshot = v = calloc(1, LIVE_BYTES);
	}
	if (v && !uccl_shm_dir_path(path, sizeof(path))) {
		l->dir_fd = uccl_shm_dir_open(path);
		l->file = l->dir_fd < 0 ? -1 : file_new(l);
		uccl_process_read(&me);
		v->pid = me.pid;
		v->rank = me.rank;
		snprintf(v->host, sizeof(v->host), "%s", me.host);
		snprintf(v->interface, sizeof(v->interface), "%s", ep->domain->name);
		snprintf(v->backend, sizeof(v->backend), "%s", ep->domain->params.nic.backend);
		uccl_address_place_text(&uccl_engine_addr(ep->driver.engine)->nic, v->place, sizeof(v->place));
		if (l->file >= 0 && live_write(l, ep, uccl_clock()))
			return l;
	}
	uccl_warn(FI_LOG_EP_CTRL, "FI_UCCL_MONITOR: uccl_top will not see this endpoint: no file in /dev/shm: %s\n",
		  strerror(errno));
	uccl_live_close(l);
	return NULL;
}

void uccl_live_refresh(struct uccl_live *l, const struct uccl_ep *ep, uint64_t now)
{
	if (now >= l->due_ns)
		(void)live_write(l, ep, now);
}

void uccl_live_close(struct uccl_live *l)
{
	if (!l)
		return;
	if (l->file >= 0) {
		unlinkat(l->dir_fd, l->name, 0);
		close(l->file);
	}
	if (l->dir_fd >= 0)
		close(l->dir_fd);
	free(l->snapshot);
	free(l);
}
