/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * FI_UCCL_MONITOR=1: each endpoint keeps a snapshot of itself (engine/observe/snapshot.h) in the file
 * /dev/shm/uccl-UID/PID.N (progress/shm_dir.h), which uccl_top maps. Without the variable the cost is one NULL pointer.
 */
#ifndef UCCL_API_LIVE_H
#define UCCL_API_LIVE_H

#include <stdint.h>

struct uccl_ep;
struct uccl_live;

/* Make the file of an endpoint; the engine is open. NULL: it failed, and the reason is logged. */
struct uccl_live *uccl_live_open(const struct uccl_ep *ep);
/* Write a new snapshot if the last one is old enough. `now` in ns. The caller holds the endpoint's lock. */
void uccl_live_refresh(struct uccl_live *l, const struct uccl_ep *ep, uint64_t now);
/* Remove the file. NULL is allowed. */
void uccl_live_close(struct uccl_live *l);

#endif
