/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What lanes answer to the primary: see primary.h. */
#ifndef UCCL_LANES_LANE_REPLIES_H
#define UCCL_LANES_LANE_REPLIES_H

#include "lanes/primary.h"

/* Commands of lanes; how many there were. In each turn of an endpoint that has lanes. */
int primary_poll(struct uccl_msg_ep *m, uint64_t now);
/* Does a command wait for room in a mailbox? */
bool primary_waits(const struct uccl_msg_ep *m);
/* All peers have failed, and the lanes are closed. Commands that lanes have not answered end. */
void primary_fini(struct uccl_msg_ep *m, uint64_t now);

#endif
