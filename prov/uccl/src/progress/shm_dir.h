/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The folder for what processes of one user share, /dev/shm/uccl-UID: pictures of endpoints, who uses a link, address
 * vectors. Folder and files are for their user alone, and a folder that another user could have prepared is not used.
 */
#ifndef UCCL_PROGRESS_SHM_DIR_H
#define UCCL_PROGRESS_SHM_DIR_H

#include <stddef.h>

/* Where it is for the calling user; 0, or -FI_EINVAL if the buffer is too small. */
int uccl_shm_dir_path(char *buf, size_t size);

/*
 * A descriptor of the folder `path`, made if it is not there. -1, errno set: it is not the calling user's alone, or
 * cannot be had.
 */
int uccl_shm_dir_open(const char *path);

#endif
