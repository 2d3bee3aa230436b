/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The directory /dev/shm/uccl-UID, for files that processes of one user share: snapshots of endpoints, shares of links,
 * address vectors. Directory and files are private to the user. A directory that another user may have made is refused.
 */
#ifndef UCCL_PROGRESS_SHM_DIR_H
#define UCCL_PROGRESS_SHM_DIR_H

#include <stddef.h>

/* Write the path of the calling user's directory to `buf`. 0, or -FI_EINVAL: the buffer is too small. */
int uccl_shm_dir_path(char *buf, size_t size);

/*
 * Open the directory `path`; make it if needed. Returns a descriptor, which the caller closes. -1, errno set:
 * it cannot be opened, or is not private to the calling user.
 */
int uccl_shm_dir_open(const char *path);

#endif
