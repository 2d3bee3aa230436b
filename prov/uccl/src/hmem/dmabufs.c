/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "hmem/dmabufs.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <unistd.h>

struct uccl_dmabuf {
	LIST_ENTRY(uccl_dmabuf) link;
	uintptr_t start;
	uint64_t len, off;
	int fd;
};

void uccl_dmabufs_init(struct uccl_dmabufs *b)
{
	pthread_mutex_init(&b->lock, NULL);
	LIST_INIT(&b->list);
}

void uccl_dmabufs_fini(struct uccl_dmabufs *b)
{
	pthread_mutex_destroy(&b->lock);
}

static int fd_dup(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	return copy >= 0 ? copy : errno > 0 ? -errno : -FI_EIO;
}

int uccl_dmabufs_give(struct uccl_dmabufs *b, const void *p, uint64_t len, int fd, uint64_t off,
		      struct uccl_dmabuf **out)
{
	struct uccl_dmabuf *d;
	int copy;

	if ((uintptr_t)p + len < len || off + len < len)
		return -FI_EINVAL;
	d = malloc(sizeof(*d));
	if (!d)
		return -FI_ENOMEM;
	copy = fd_dup(fd);
	if (copy < 0) {
		free(d);
		return copy;
	}
	*d = (struct uccl_dmabuf){ .start = (uintptr_t)p, .len = len, .off = off, .fd = copy };
	pthread_mutex_lock(&b->lock);
	LIST_INSERT_HEAD(&b->list, d, link);
	pthread_mutex_unlock(&b->lock);
	*out = d;
	return 0;
}

void uccl_dmabufs_take(struct uccl_dmabufs *b, struct uccl_dmabuf *d)
{
	pthread_mutex_lock(&b->lock);
	LIST_REMOVE(d, link);
	pthread_mutex_unlock(&b->lock);
	close(d->fd);
	free(d);
}

int uccl_dmabufs_find(struct uccl_dmabufs *b, const void *p, uint64_t len, uint64_t *off)
{
	const struct uccl_dmabuf *d;
	int fd = -FI_ENOENT;

	pthread_mutex_lock(&b->lock);
	LIST_FOREACH(d, &b->list, link) {
		uint64_t at = (uintptr_t)p - d->start;

		if ((uintptr_t)p < d->start || at > d->len || len > d->len - at)
			continue;
		*off = d->off + at;
		fd = fd_dup(d->fd);
		break;
	}
	pthread_mutex_unlock(&b->lock);
	return fd;
}
