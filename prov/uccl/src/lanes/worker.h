/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A message endpoint that is a lane of another one, the primary. It sends what the primary hands to it, and puts
 * arriving payload where the primary says. It refuses everything else.
 */
#ifndef UCCL_LANES_WORKER_H
#define UCCL_LANES_WORKER_H

#include "lanes/lane_channel.h"
#include "lanes/lanes.h"
#include "lanes/unplaced_data.h"

/* Places of a lane's table: messages that are under way at once are not many more. */
#define UCCL_LANE_TABLE 256

struct uccl_lane {
	struct uccl_lane_channel *channel;
	uint8_t number;
	LIST_HEAD(, uccl_reassembly_lane) reassemblies[UCCL_LANE_TABLE]; /* by their keys */
	TAILQ_HEAD(, uccl_reassembly_lane) whole;			 /* what the primary does not know yet */
	TAILQ_HEAD(, uccl_lane_peer) changed;
};

/* The engine of `m` is a lane from now on, and works by the table `ops`. The caller owns `l`, which stays. */
void worker_init(struct uccl_msg_ep *m, const struct uccl_lanes_ops *ops, struct uccl_lane *l,
		 struct uccl_lane_channel *channel, uint8_t number);
/* Commands of the primary: at the beginning of each turn. How many there were. */
int worker_poll(struct uccl_msg_ep *m, uint64_t now);
/* What the primary does not know yet: at the end of each turn. */
void worker_report(struct uccl_msg_ep *m);

/* Is there something that the primary does not know, after that? */
static inline bool worker_waits(const struct uccl_msg_ep *m)
{
	return !TAILQ_EMPTY(&m->lane->changed) || !TAILQ_EMPTY(&m->lane->whole);
}

/* The connection to a peer is open; it ended. */
void worker_peer_opened(struct uccl_peer *p);
void worker_peer_ended(struct uccl_peer *p, int err);
/* A lane's flows have this table instead of uccl_msg_flow_ops. */
extern const struct uccl_flow_ops worker_flow_ops;

#endif
