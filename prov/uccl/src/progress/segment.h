/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory that processes of one user share, and that is found by a small file. A file that is mapped ends every process
 * that touches what somebody has cut off of it (SIGBUS), and no check before the access helps. So the file is read,
 * never mapped, and holds the number of a System V segment: that cannot be shortened or taken away while anybody has
 * it. It is marked for removal as soon as it is there (Linux lets others attach to it all the same), so it is gone with
 * the last process that has it, however that ends. Whoever removes or cuts off the file keeps later processes out.
 */
#ifndef UCCL_PROGRESS_SEGMENT_H
#define UCCL_PROGRESS_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * A new segment of zeros, and the file says how it is found, instead of what it said before. The caller keeps others
 * out of the file meanwhile. *at is aligned to 64. 0 or a negative error: -ENOSPC, -ENOMEM, -ENOSYS.
 */
int uccl_segment_make(int file, size_t bytes, void **at);
/*
 * What the file says, mapped; *bytes becomes its length. -ENOENT: nobody has it any more, or it is another container's;
 * -EINVAL: the file is cut off, or says no such thing.
 */
int uccl_segment_find(int file, bool read_only, void **at, size_t *bytes);
/* This process lets go of it. NULL is well. */
void uccl_segment_drop(void *at);

#endif
