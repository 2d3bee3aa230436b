/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See shm_segment.h. */
#include "progress/shm_segment.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/random.h>
#include <sys/shm.h>
#include <unistd.h>

#define SEGMENT_MAGIC 0x746e6d676573636cull

/* What the file holds. Numbers of segments are used again: the random one stands in the segment, too. */
struct place {
	uint64_t magic, random, bytes;
	int64_t id;
};

/* In front of what the caller has. */
struct head {
	_Alignas(64) uint64_t magic;
	uint64_t random;
};

int uccl_shm_segment_make(int file, size_t bytes, void **at)
{
	struct place p = { .magic = SEGMENT_MAGIC, .bytes = bytes };
	struct head *h;
	int id;

	if (getrandom(&p.random, sizeof(p.random), 0) != (ssize_t)sizeof(p.random))
		return -errno;
	id = shmget(IPC_PRIVATE, sizeof(*h) + bytes, IPC_CREAT | IPC_EXCL | 0600);
	if (id < 0)
		return -errno;
	h = shmat(id, NULL, 0);
	if (h == (void *)-1) {
		int err = errno;

		shmctl(id, IPC_RMID, NULL);
		return -err;
	}
	shmctl(id, IPC_RMID, NULL);
	h->magic = SEGMENT_MAGIC;
	h->random = p.random;
	p.id = id;
	if (ftruncate(file, 0) || pwrite(file, &p, sizeof(p), 0) != (ssize_t)sizeof(p)) {
		int err = errno ? errno : EIO;

		shmdt(h);
		return -err;
	}
	*at = h + 1;
	return 0;
}

int uccl_shm_segment_find(int file, bool read_only, void **at, size_t *bytes)
{
	struct shmid_ds ds;
	struct place p;
	struct head *h;

	if (pread(file, &p, sizeof(p), 0) != (ssize_t)sizeof(p) || p.magic != SEGMENT_MAGIC || p.id != (int)p.id)
		return -EINVAL;
	/* A segment of another user is not even read. */
	if (shmctl((int)p.id, IPC_STAT, &ds) || ds.shm_perm.uid != geteuid() || ds.shm_segsz != sizeof(*h) + p.bytes)
		return -ENOENT;
	h = shmat((int)p.id, NULL, read_only ? SHM_RDONLY : 0);
	if (h == (void *)-1)
		return -ENOENT;
	if (h->magic != SEGMENT_MAGIC || h->random != p.random) {
		shmdt(h);
		return -ENOENT;
	}
	*at = h + 1;
	*bytes = p.bytes;
	return 0;
}

void uccl_shm_segment_drop(void *at)
{
	if (at)
		shmdt((struct head *)at - 1);
}
