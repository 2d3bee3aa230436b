/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sharing a NIC's line rate between the endpoints of a user, also those in other processes. Each endpoint that grants
 * credit sees how many of them are busy, and grants its share of the rate. The table is the file
 * /dev/shm/uccl-UID/.link-NIC (progress/shm_dir.h), private to the user. Endpoints of different users do not share:
 * each user's take the whole rate.
 */
#ifndef UCCL_PROGRESS_LINKSHARE_H
#define UCCL_PROGRESS_LINKSHARE_H

#include "engine/engine.h"

/* An endpoint that granted nothing for this time, in ns, is not busy. */
#define UCCL_LINKSHARE_NS 20000000ull

struct uccl_linkshare;

/*
 * Join for an engine that is about to be opened with `attr`, if it grants credit by the rate of its link. Sets
 * attr->sharers. `dir` is the path of the directory. NULL: the engine takes the whole rate, since its policy does
 * not grant by rate, or the table cannot be opened.
 */
struct uccl_linkshare *uccl_linkshare_join(const char *dir, struct uccl_engine_attr *attr);
/* Open the table of the NIC `name` in the directory whose path is `dir`. NULL, errno set: it cannot be opened. */
struct uccl_linkshare *uccl_linkshare_open(const char *dir, const char *name);
/*
 * Note that this endpoint grants credit at `now` (CLOCK_MONOTONIC, ns). Returns the number of busy endpoints, this one
 * included. Called by the owner of the engine or of a lane; both count as the same endpoint.
 */
uint32_t uccl_linkshare_busy(struct uccl_linkshare *s, uint64_t now);
/* Leave; the last one removes the file. NULL is allowed. */
void uccl_linkshare_close(struct uccl_linkshare *s);

#endif
