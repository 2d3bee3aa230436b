/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Endpoints of a user that hand out credit for one NIC's line rate, in whatever process they are: they see how many of
 * them are busy, and each hands out its part. Kept in /dev/shm/uccl-UID/.link-NIC (progress/shm_dir.h), which is
 * the user's alone: users do not trust each other, and each takes the whole rate.
 */
#ifndef UCCL_PROGRESS_LINKSHARE_H
#define UCCL_PROGRESS_LINKSHARE_H

#include "engine/engine.h"

/* An endpoint that handed out nothing for so long does not count. */
#define UCCL_LINKSHARE_NS 20000000ull

struct uccl_linkshare;

/*
 * Who hands out credit by the rate of a link shares it with the others on it: sets attr->sharers. NULL: it does not, or
 * cannot, and takes the whole link for its own.
 */
struct uccl_linkshare *uccl_linkshare_join(const char *dir_fd, struct uccl_engine_attr *attr);
/* Of the NIC `name`, with the files in `folder`; NULL, errno set: it cannot be had, and everybody is alone. */
struct uccl_linkshare *uccl_linkshare_open(const char *dir_fd, const char *name);
/*
 * This endpoint hands out credit at `now` (CLOCK_MONOTONIC, ns). Returns how many do, it included. By who owns its
 * engine, or a lane of it: they count as one.
 */
uint32_t uccl_linkshare_busy(struct uccl_linkshare *s, uint64_t now);
/* NULL is well. The file goes with the last one. */
void uccl_linkshare_close(struct uccl_linkshare *s);

#endif
