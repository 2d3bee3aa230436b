/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * See avshare.h. Each process has a shared lock on the file, which names the table (progress/shm_segment.h). A process
 * that gets the exclusive lock is the only user. Writers take turns by a record lock. A reader reads again if a writer
 * was active meanwhile.
 */
#include "api/peers/avshare.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/lib/lib.h"
#include "api/peers/addr_like.h"
#include "progress/shm_dir.h"
#include "progress/shm_segment.h"

#define SHARE_MAGIC 0x75636c6176303031ull
#define SHARE_MIN 65536
#define SHARE_MAX (1u << 28)

struct table {
	uint64_t magic;
	uint32_t cap;
	uint32_t entry_bytes;
	_Atomic uint32_t n;
	_Atomic uint32_t generation;
	_Atomic uint32_t writing;	/* odd: somebody writes */
	_Atomic fi_addr_t map[];	/* cap: its own index, or FI_ADDR_NOTAVAIL. Behind them cap addresses */
};

struct uccl_avshare {
	struct table *t;
	int dir_fd, fd;
	bool read_only;
	char name[256];
};

#define ENTRY_WORDS (sizeof(struct uccl_addr) / 8)
_Static_assert(sizeof(struct uccl_addr) % 8 == 0 && sizeof(fi_addr_t) == 8, "all of the table is words");

/* The words of an entry; each is ordered after what was done before (writers) and before what follows (readers). */
static _Atomic uint64_t *entry(struct table *t, uint64_t i)
{
	return (_Atomic uint64_t *)&t->map[t->cap] + i * ENTRY_WORDS;
}

static void entry_put(struct table *t, uint64_t i, const struct uccl_addr *addr)
{
	uint64_t w[ENTRY_WORDS];

	memcpy(w, addr, sizeof(w));
	for (size_t k = 0; k < ENTRY_WORDS; k++)
		atomic_store_explicit(&entry(t, i)[k], w[k], memory_order_release);
}

static void entry_get(struct table *t, uint64_t i, struct uccl_addr *addr)
{
	uint64_t w[ENTRY_WORDS];

	for (size_t k = 0; k < ENTRY_WORDS; k++)
		w[k] = atomic_load_explicit(&entry(t, i)[k], memory_order_acquire);
	memcpy(addr, w, sizeof(w));
}

static size_t table_bytes(uint64_t cap)
{
	return sizeof(struct table) + cap * (sizeof(fi_addr_t) + sizeof(struct uccl_addr));
}

/* A name that was unlinked meanwhile is not the file that a later comer finds. */
static bool still_there(const struct uccl_avshare *s)
{
	struct stat a, b;

	return !fstat(s->fd, &a) && !fstatat(s->dir_fd, s->name, &b, AT_SYMLINK_NOFOLLOW) && a.st_ino == b.st_ino;
}

/* We are alone: whatever is in the file, nobody uses it. */
static int table_make(struct uccl_avshare *s, size_t count)
{
	uint32_t cap = (uint32_t)uccl_clamp(count, SHARE_MIN, SHARE_MAX);
	int rc;

	rc = uccl_shm_segment_make(s->fd, table_bytes(cap), (void **)&s->t);
	if (rc)
		return rc;
	s->t->cap = cap;
	s->t->entry_bytes = sizeof(struct uccl_addr);
	s->t->magic = SHARE_MAGIC;
	return 0;
}

static int table_open(struct uccl_avshare *s)
{
	void *at = NULL;
	size_t bytes;
	int rc;

	rc = uccl_shm_segment_find(s->fd, s->read_only, &at, &bytes);
	if (rc)
		return rc == -EINVAL ? -FI_EINVAL : -FI_ENOENT;
	s->t = at;
	return bytes >= sizeof(struct table) && s->t->magic == SHARE_MAGIC &&
		       s->t->entry_bytes == sizeof(struct uccl_addr) && s->t->cap <= SHARE_MAX &&
		       table_bytes(s->t->cap) == bytes ? 0 : -FI_EINVAL;
}

/* One try; -FI_EAGAIN: the file went away. */
static int share_try(struct uccl_avshare *s, size_t count)
{
	int rc;

	s->fd = openat(s->dir_fd, s->name, (s->read_only ? O_RDONLY : O_RDWR | O_CREAT) | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (s->fd < 0)
		return -errno;
	if (!flock(s->fd, LOCK_EX | LOCK_NB)) {
		if (!still_there(s))
			return -FI_EAGAIN;
		rc = s->read_only ? -FI_ENOENT : table_make(s, count);
		return rc ? rc : flock(s->fd, LOCK_SH) ? -errno : 0;
	}
	if (flock(s->fd, LOCK_SH))
		return -errno;
	return still_there(s) ? table_open(s) : -FI_EAGAIN;
}

static void share_undo(struct uccl_avshare *s)
{
	uccl_shm_segment_drop(s->t);
	if (s->fd >= 0)
		close(s->fd);
	s->t = NULL;
	s->fd = -1;
}

int uccl_avshare_open(const char *domain, const char *name, bool read_only, size_t count, struct uccl_avshare **out)
{
	struct uccl_avshare *s = calloc(1, sizeof(*s));
	char dir[64];
	int n, rc;

	if (!s)
		return -FI_ENOMEM;
	s->read_only = read_only;
	s->fd = s->dir_fd = -1;
	n = snprintf(s->name, sizeof(s->name), "av.%s.%s", domain, name);
	rc = n < 0 || (size_t)n >= sizeof(s->name) ? -FI_EINVAL : uccl_shm_dir_path(dir, sizeof(dir));
	for (char *p = s->name; *p; p++)
		if (*p == '/')
			*p = '_';
	if (!rc) {
		s->dir_fd = uccl_shm_dir_open(dir);
		rc = s->dir_fd < 0 ? -errno : -FI_EAGAIN;
	}
	while (rc == -FI_EAGAIN) {
		share_undo(s);
		rc = share_try(s, count);
	}
	if (rc) {
		share_undo(s);
		if (s->dir_fd >= 0)
			close(s->dir_fd);
		free(s);
		return rc;
	}
	*out = s;
	return 0;
}

void uccl_avshare_close(struct uccl_avshare *s)
{
	if (!flock(s->fd, LOCK_EX | LOCK_NB) && still_there(s))
		unlinkat(s->dir_fd, s->name, 0);
	share_undo(s);
	close(s->dir_fd);
	free(s);
}

/* Writers by all openings of the file; the threads of one are kept apart by its owner. */
static bool writer_enter(struct uccl_avshare *s, short type)
{
	struct flock l = { .l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };
	int rc;

	do
		rc = fcntl(s->fd, F_OFD_SETLKW, &l);
	while (rc && errno == EINTR);
	return !rc;
}

static int write_begin(struct uccl_avshare *s)
{
	if (s->read_only)
		return -FI_EACCES;
	if (!writer_enter(s, F_WRLCK))
		return -errno;
	/* Odd already: a writer died there. */
	atomic_fetch_or(&s->t->writing, 1);
	return 0;
}

static void write_end(struct uccl_avshare *s)
{
	atomic_fetch_add(&s->t->writing, 1);
	writer_enter(s, F_UNLCK);
}

int uccl_avshare_insert(struct uccl_avshare *s, const struct uccl_addr *addr, fi_addr_t *index)
{
	struct table *t = s->t;
	int rc = write_begin(s);
	uint32_t i;

	if (rc)
		return rc;
	/* What other processes may have written there is checked: none of it leads beyond the table. */
	for (i = 0; i < uccl_min(t->n, t->cap) && t->map[i] != FI_ADDR_NOTAVAIL; i++)
		;
	rc = i < t->cap ? 0 : -FI_ENOMEM;
	if (!rc) {
		entry_put(t, i, addr);
		t->map[i] = *index = i;
		if (i == t->n)
			t->n = i + 1;
	}
	write_end(s);
	return rc;
}

int uccl_avshare_remove(struct uccl_avshare *s, fi_addr_t index)
{
	int rc = write_begin(s);

	if (rc)
		return rc;
	if (index < uccl_min(s->t->n, s->t->cap) && s->t->map[index] != FI_ADDR_NOTAVAIL)
		s->t->map[index] = FI_ADDR_NOTAVAIL;
	else
		rc = -FI_EINVAL;
	atomic_fetch_add(&s->t->generation, 1);
	write_end(s);
	return rc;
}

/* An even number before which nothing is half written. */
static uint32_t read_begin(const struct table *t)
{
	uint32_t seen;

	/* A writer that died there leaves it odd until the next one: what it wrote last may be half, no more. */
	for (int i = 0; (seen = atomic_load(&t->writing)) & 1 && i < 1000000; i++)
		;
	return seen;
}

static bool read_again(const struct table *t, uint32_t seen)
{
	return atomic_load(&t->writing) != seen;
}

int uccl_avshare_get(struct uccl_avshare *s, fi_addr_t index, struct uccl_addr *addr)
{
	struct table *t = s->t;
	uint32_t seen;
	int rc;

	do {
		seen = read_begin(t);
		rc = index < uccl_min(t->n, t->cap) && t->map[index] == index ? 0 : -FI_EINVAL;
		if (!rc)
			entry_get(t, index, addr);
	} while (read_again(t, seen));
	return rc;
}

fi_addr_t uccl_avshare_find(struct uccl_avshare *s, const struct uccl_addr *addr)
{
	fi_addr_t loose = FI_ADDR_NOTAVAIL;
	struct uccl_addr a;

	for (uint32_t i = 0; i < uccl_min(s->t->n, s->t->cap); i++) {
		int like = uccl_avshare_get(s, i, &a) ? 0 : uccl_av_like(&a, addr);

		if (like > 1)
			return i;
		if (like && loose == FI_ADDR_NOTAVAIL)
			loose = i;
	}
	return loose;
}

_Atomic uint32_t *uccl_avshare_generation(struct uccl_avshare *s)
{
	return &s->t->generation;
}

void *uccl_avshare_map(struct uccl_avshare *s)
{
	return s->t->map;
}
