/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "hmem/dmabufs.h"

#include "../tests.h"

#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct uccl_dmabufs b;

static bool same(int a, int c)
{
	struct stat sa, sc;

	assert_int_equal(fstat(a, &sa), 0);
	assert_int_equal(fstat(c, &sc), 0);
	return sa.st_ino == sc.st_ino && sa.st_dev == sc.st_dev;
}

/* The program closes its descriptor; ours is of the same dmabuf, and is gone when the region is. */
TEST(give__keeps_its_own)
{
	uint8_t *base = (uint8_t *)(uintptr_t)0x70000000;
	int fd = memfd_create("dmabuf", 0), keep = dup(fd), found, before;
	struct uccl_dmabuf *d;
	uint64_t off = 0;

	uccl_dmabufs_init(&b);
	before = dup(fd);
	close(before);
	assert_int_equal(uccl_dmabufs_give(&b, base + 4096, 8192, fd, 4096, &d), 0);
	close(fd);
	found = uccl_dmabufs_find(&b, base + 5000, 8192 - 904, &off);
	assert_true(found >= 0);
	assert_int_equal(off, 5000);
	assert_true(same(found, keep));
	assert_true(fcntl(found, F_GETFD) & FD_CLOEXEC);
	close(found);
	/* That was the finder's own. */
	found = uccl_dmabufs_find(&b, base + 4096, 1, &off);
	assert_true(found >= 0 && same(found, keep));
	close(found);
	/* All of it, and nothing else. */
	assert_int_equal(uccl_dmabufs_find(&b, base + 4095, 10, &off), -FI_ENOENT);
	assert_int_equal(uccl_dmabufs_find(&b, base + 5000, 8192 - 903, &off), -FI_ENOENT);
	assert_int_equal(uccl_dmabufs_find(&b, base + 4096 + 8193, 1, &off), -FI_ENOENT);
	assert_int_equal(uccl_dmabufs_find(&b, base + 5000, UINT64_MAX, &off), -FI_ENOENT);
	uccl_dmabufs_take(&b, d);
	assert_int_equal(uccl_dmabufs_find(&b, base + 4096, 10, &off), -FI_ENOENT);
	/* Nothing was left open. */
	found = dup(keep);
	assert_true(found <= before);
	close(found);
	close(keep);
	uccl_dmabufs_fini(&b);
}

TEST(give__several)
{
	uint8_t *base = (uint8_t *)(uintptr_t)0x70000000;
	struct uccl_dmabuf *d[3];
	int fd[3], found;
	uint64_t off;

	uccl_dmabufs_init(&b);
	for (int i = 0; i < 3; i++) {
		fd[i] = memfd_create("dmabuf", 0);
		assert_int_equal(uccl_dmabufs_give(&b, base + i * 100, 100, fd[i], 0, &d[i]), 0);
	}
	for (int i = 0; i < 3; i++) {
		found = uccl_dmabufs_find(&b, base + i * 100 + 10, 90, &off);
		assert_true(same(found, fd[i]));
		assert_int_equal(off, 10);
		close(found);
	}
	/* None has both. */
	assert_int_equal(uccl_dmabufs_find(&b, base + 50, 100, &off), -FI_ENOENT);
	uccl_dmabufs_take(&b, d[1]);
	assert_int_equal(uccl_dmabufs_find(&b, base + 110, 10, &off), -FI_ENOENT);
	uccl_dmabufs_take(&b, d[0]);
	uccl_dmabufs_take(&b, d[2]);
	for (int i = 0; i < 3; i++)
		close(fd[i]);
	uccl_dmabufs_fini(&b);
}

TEST(give__nonsense)
{
	int fd = memfd_create("dmabuf", 0);
	struct uccl_dmabuf *d;
	uint64_t off;

	uccl_dmabufs_init(&b);
	assert_int_equal(uccl_dmabufs_give(&b, &b, 10, -1, 0, &d), -FI_EBADF);
	assert_int_equal(uccl_dmabufs_give(&b, &b, UINT64_MAX, fd, 0, &d), -FI_EINVAL);
	assert_int_equal(uccl_dmabufs_give(&b, &b, 10, fd, UINT64_MAX - 3, &d), -FI_EINVAL);
	assert_int_equal(uccl_dmabufs_find(&b, &b, 1, &off), -FI_ENOENT);
	uccl_dmabufs_fini(&b);
	close(fd);
}

TESTS_MAIN
