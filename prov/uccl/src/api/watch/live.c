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
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/lib/lib.h"
#include "api/object/domain.h"
#include "api/object/ep.h"
#include "api/offer/address.h"
#include "base/units.h"
#include "engine/view.h"
#include "progress/folder.h"

/* Room for more than 800 peers of 16 paths, of which so much is taken at first: more when there are more peers. */
#define LIVE_BYTES (1u << 20)
#define LIVE_FIRST (32u << 10)
#define LIVE_EVERY_NS (250 * UCCL_NS_PER_MS)

struct uccl_live {
	struct uccl_view *view;
	uint64_t due_ns;
	size_t room;		/* bytes of the file that have memory; none beyond is touched */
	int folder, file;
	char name[32];
};

/* Memory for the file: without it a later store would end the process, where /dev/shm is full. */
static bool file_room(struct uccl_live *l, size_t bytes)
{
	errno = posix_fallocate(l->file, 0, (off_t)bytes);
	if (errno)
		return false;
	l->room = bytes;
	return true;
}

/* A new file, mapped. */
static struct uccl_view *file_map(struct uccl_live *l)
{
	static _Atomic unsigned int count;
	void *p = MAP_FAILED;

	snprintf(l->name, sizeof(l->name), "%d.%u", (int)getpid(), atomic_fetch_add(&count, 1));
	/* Of a process that had our number and is gone. */
	unlinkat(l->folder, l->name, 0);
	l->file = openat(l->folder, l->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (l->file < 0)
		return NULL;
	if (file_room(l, LIVE_FIRST))
		p = mmap(NULL, LIVE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, l->file, 0);
	if (p != MAP_FAILED)
		return p;
	unlinkat(l->folder, l->name, 0);
	close(l->file);
	return NULL;
}

struct uccl_live *uccl_live_open(const struct uccl_ep *ep)
{
	struct uccl_live *l = calloc(1, sizeof(*l));
	char path[64];

	if (!l || uccl_folder_path(path, sizeof(path)))
		goto fail;
	l->folder = uccl_folder_open(path);
	if (l->folder < 0)
		goto fail;
	l->view = file_map(l);
	if (!l->view) {
		close(l->folder);
		goto fail;
	}
	l->view->pid = getpid();
	snprintf(l->view->interface, sizeof(l->view->interface), "%s", ep->domain->name);
	snprintf(l->view->backend, sizeof(l->view->backend), "%s", ep->domain->params.backend);
	uccl_address_place_text(&uccl_engine_addr(ep->driver.engine)->nic, l->view->place, sizeof(l->view->place));
	uccl_live_refresh(l, ep, uccl_clock());
	return l;
fail:
	uccl_warn(FI_LOG_EP_CTRL, "FI_UCCL_LIVE: uccl_top will not see this endpoint: no file in /dev/shm: %s\n",
		  strerror(errno));
	free(l);
	return NULL;
}

void uccl_live_refresh(struct uccl_live *l, const struct uccl_ep *ep, uint64_t now)
{
	_Atomic uint32_t *seq = (_Atomic uint32_t *)&l->view->seq;

	if (now < l->due_ns)
		return;
	l->due_ns = now + LIVE_EVERY_NS;
	/* A reader that sees an odd number, or another one after its copy, copies again. */
	atomic_fetch_add_explicit(seq, 1, memory_order_acq_rel);
	uccl_engine_view(ep->driver.engine, l->view, l->room, now);
	atomic_fetch_add_explicit(seq, 1, memory_order_acq_rel);
	/* For the next one; if there is none, some peers stay left out. */
	if (l->view->left_out && l->room < LIVE_BYTES)
		file_room(l, uccl_min(2 * l->room, LIVE_BYTES));
}

void uccl_live_close(struct uccl_live *l)
{
	if (!l)
		return;
	munmap(l->view, LIVE_BYTES);
	unlinkat(l->folder, l->name, 0);
	close(l->file);
	close(l->folder);
	free(l);
}
