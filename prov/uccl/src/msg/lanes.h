/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What lanes answer to home: see home.h. */
#ifndef UCCL_MSG_LANES_H
#define UCCL_MSG_LANES_H

#include "msg/home.h"

/* Letters of lanes; how many there were. In each turn of an endpoint that has lanes. */
int uccl_lanes_poll(struct uccl_mep *m, uint64_t now);
/* Does a letter wait for room in a mailbox? */
bool uccl_lanes_waits(const struct uccl_mep *m);
/* All peers have failed, and the lanes are closed: what they did not answer ends. */
void uccl_lanes_fini(struct uccl_mep *m, uint64_t now);

#endif
