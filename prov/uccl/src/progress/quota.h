/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The processor time that control groups leave to a process: fewer processors than it may run on, as in containers. */
#ifndef UCCL_PROGRESS_QUOTA_H
#define UCCL_PROGRESS_QUOTA_H

#include <stdint.h>

/* Where hierarchies of control groups are mounted. */
#define UCCL_QUOTA_MOUNT "/sys/fs/cgroup"

/*
 * Processors whose whole time the groups of a process may use, the least of all groups that it is in, rounded down, and
 * at least 1; UINT32_MAX: there is no limit, or none is known. `groups`: its /proc/PID/cgroup. `mount`:
 * UCCL_QUOTA_MOUNT, or a folder made by a test.
 */
uint32_t uccl_quota_processors(const char *groups, const char *mount);

#endif
