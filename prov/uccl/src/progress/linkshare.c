/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See linkshare.h. */
#include "progress/linkshare.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "progress/shm_dir.h"
#include "progress/shm_segment.h"

#define ENTRIES 1024

/* One endpoint. Whatever stands here is a number to be compared: nothing that another process writes can do harm. */
struct entry {
	_Atomic uint64_t owner; /* process; 0: free */
	_Atomic uint64_t busy_ns;
};

struct uccl_linkshare {
	struct entry *entries;
	struct entry *mine; /* NULL: there was none left */
	int dir_fd, file;
	char name[96];
};

/* A child that was forked meanwhile has the same lock, and would keep it for as long as it lives. */
static void file_close(int fd)
{
	flock(fd, LOCK_UN);
	close(fd);
}

/* The file, locked, which is still the one of that name. -1, errno set. */
static int file_lock(struct uccl_linkshare *s)
{
	struct stat a, b;
	int fd;

	for (;;) {
		fd = openat(s->dir_fd, s->name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0)
			return -1;
		if (flock(fd, LOCK_EX) || fstat(fd, &a)) {
			int err = errno;

			file_close(fd);
			errno = err;
			return -1;
		}
		/* The last one may have taken it away while we waited. */
		if (!fstatat(s->dir_fd, s->name, &b, AT_SYMLINK_NOFOLLOW) && a.st_ino == b.st_ino)
			return fd;
		file_close(fd);
	}
}

/* An entry of a process that has ended is free. */
static bool entry_free(const struct entry *entry)
{
	uint64_t owner = atomic_load(&entry->owner);

	return !owner || (kill((pid_t)owner, 0) && errno == ESRCH);
}

static struct entry *entry_take(struct entry *entries)
{
	for (int i = 0; i < ENTRIES; i++)
		if (entry_free(&entries[i])) {
			atomic_store(&entries[i].busy_ns, 0);
			atomic_store(&entries[i].owner, (uint64_t)getpid());
			return &entries[i];
		}
	return NULL;
}

/* Those of the processes that are there, or new ones: the file is locked. */
static int entries_map(struct uccl_linkshare *s)
{
	const size_t want = ENTRIES * sizeof(*s->entries);
	void *at = NULL;
	size_t bytes;

	if (!uccl_shm_segment_find(s->file, false, &at, &bytes) && bytes != want) {
		uccl_shm_segment_drop(at);
		at = NULL;
	}
	if (!at) {
		int rc = uccl_shm_segment_make(s->file, want, &at);

		if (rc)
			return rc;
	}
	s->entries = at;
	return 0;
}

struct uccl_linkshare *uccl_linkshare_open(const char *dir, const char *name)
{
	struct uccl_linkshare *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return NULL;
	s->file = -1;
	s->dir_fd = uccl_shm_dir_open(dir);
	if (s->dir_fd < 0)
		goto fail;
	snprintf(s->name, sizeof(s->name), ".link-%s", name);
	for (char *c = s->name; *c; c++)
		if (*c == '/')
			*c = '_';
	s->file = file_lock(s);
	if (s->file < 0)
		goto fail;
	rc = entries_map(s);
	if (rc) {
		errno = -rc;
		goto fail;
	}
	s->mine = entry_take(s->entries);
	flock(s->file, LOCK_UN);
	return s;
fail:
	rc = errno;
	if (s->file >= 0)
		file_close(s->file);
	if (s->dir_fd >= 0)
		close(s->dir_fd);
	free(s);
	errno = rc;
	return NULL;
}

uint32_t uccl_linkshare_busy(struct uccl_linkshare *s, uint64_t now)
{
	uint32_t n = 0;

	if (s->mine)
		atomic_store_explicit(&s->mine->busy_ns, now, memory_order_relaxed);
	for (int i = 0; i < ENTRIES; i++) {
		uint64_t at = atomic_load_explicit(&s->entries[i].busy_ns, memory_order_relaxed);

		n += at && (at > now ? at - now : now - at) < UCCL_LINKSHARE_NS;
	}
	return n + !s->mine;
}

static uint32_t link_sharers(void *arg, uint64_t now)
{
	return uccl_linkshare_busy(arg, now);
}

struct uccl_linkshare *uccl_linkshare_join(const char *dir, struct uccl_engine_attr *attr)
{
	struct uccl_linkshare *s;

	if (!attr->interface || !attr->nic->caps.link_bps || !uccl_config_pulls(attr->config))
		return NULL;
	s = uccl_linkshare_open(dir, attr->interface);
	if (!s) {
		UCCL_LOG(UCCL_LOG_WARN,
			 "endpoints on %s do not share its line rate: no memory in common: %s; is /dev/shm mounted, "
			 "and may this user write to it?",
			 attr->interface, strerror(errno));
		return NULL;
	}
	attr->sharers = link_sharers;
	attr->sharers_arg = s;
	return s;
}

void uccl_linkshare_close(struct uccl_linkshare *s)
{
	bool last = true;

	if (!s)
		return;
	if (!flock(s->file, LOCK_EX)) {
		if (s->mine) {
			atomic_store(&s->mine->busy_ns, 0);
			atomic_store(&s->mine->owner, 0);
		}
		for (int i = 0; i < ENTRIES && last; i++)
			last = entry_free(&s->entries[i]);
		if (last)
			unlinkat(s->dir_fd, s->name, 0);
	}
	uccl_shm_segment_drop(s->entries);
	file_close(s->file);
	close(s->dir_fd);
	free(s);
}
