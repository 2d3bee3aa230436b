/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory that processes of one user share, found by a small file. If somebody truncates a mapped file, a process that
 * touches the lost part dies by SIGBUS, and no check before the access prevents it. So the file is never mapped: it
 * only holds the number of a System V segment, which cannot shrink while a process has it attached. The segment is
 * marked for removal at once; on Linux others can still attach. So the kernel frees it with the last process, however
 * that ends. If the file is removed or truncated, later processes cannot attach, and present ones go on.
 */
#ifndef UCCL_PROGRESS_SHM_SEGMENT_H
#define UCCL_PROGRESS_SHM_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Make a segment of `bytes` zeros, attach it at *at (aligned to 64), and write its number to `file`, replacing what was
 * there. The caller holds a lock that keeps others out of the file. 0, or a negative errno: -ENOSPC, -ENOMEM, -ENOSYS.
 */
int uccl_shm_segment_make(int file, size_t bytes, void **at);
/*
 * Attach the segment that the file names: *at is its address, *bytes its length. -ENOENT: the segment is gone, or
 * belongs to another container. -EINVAL: the file is truncated, or has no valid number.
 */
int uccl_shm_segment_find(int file, bool read_only, void **at, size_t *bytes);
/* Detach from a segment. NULL is allowed. */
void uccl_shm_segment_drop(void *at);

#endif
