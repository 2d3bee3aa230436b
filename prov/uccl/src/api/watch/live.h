/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What FI_UCCL_MONITOR=1 asks for: each endpoint keeps a picture of itself (engine/observe/snapshot.h) in a file of its
 * own, which util/uccl_top maps. The files are /dev/shm/uccl-UID/PID.N (progress/shm_dir.h). Without it an endpoint has
 * one pointer that is NULL.
 */
#ifndef UCCL_API_LIVE_H
#define UCCL_API_LIVE_H

#include <stdint.h>

struct uccl_ep;
struct uccl_live;

/* Open the file of an endpoint whose engine is there; NULL, and a line in the log, if it cannot be had. */
struct uccl_live *uccl_live_open(const struct uccl_ep *ep);
/* Draw a new picture if the last one is old enough. By the owner of the engine, who holds the endpoint's lock. */
void uccl_live_refresh(struct uccl_live *l, const struct uccl_ep *ep, uint64_t now);
/* Take the file away. NULL is well. */
void uccl_live_close(struct uccl_live *l);

#endif
