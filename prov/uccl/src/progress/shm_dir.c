/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See shm_dir.h. */
#include "progress/shm_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int uccl_shm_dir_path(char *buf, size_t size)
{
	int n = snprintf(buf, size, "/dev/shm/uccl-%lu", (unsigned long)geteuid());

	return n > 0 && (size_t)n < size ? 0 : -FI_EINVAL;
}

int uccl_shm_dir_open(const char *path)
{
	struct stat st;
	int fd;

	if (mkdir(path, 0700) && errno != EEXIST)
		return -1;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (!fstat(fd, &st) && st.st_uid == geteuid() && !(st.st_mode & 077))
		return fd;
	close(fd);
	errno = EPERM;
	return -1;
}
