/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A message endpoint that is a lane of another one, the primary: it sends what the primary hands it and puts what comes
 * where the primary lets it. Nothing else is said to it, and nothing else is taken.
 */
#ifndef UCCL_LANES_WORKER_H
#define UCCL_LANES_WORKER_H

#include "lanes/lane_channel.h"
#include "msg/msg_ep.h"
#include "lanes/unplaced_data.h"

/* What a lane needs of its engine. */
struct uccl_lane_ops {
	/* The peer at this way's address; begin to connect if it says so. NULL: no memory, or another way has it. */
	struct uccl_peer *(*peer_add)(struct uccl_msg_ep *m, const struct uccl_lane_peer *w, uint64_t now);
	/* End it, if it lives, and forget it. */
	void (*peer_del)(struct uccl_peer *p, uint64_t now);
};

/* Places of a lane's table: messages that are under way at once are not many more. */
#define UCCL_LANE_TABLE 256

struct uccl_lane {
	const struct uccl_lane_ops *ops;
	struct uccl_lane_channel *channel;
	uint8_t number;
	LIST_HEAD(, uccl_reassembly_lane) reassemblies[UCCL_LANE_TABLE]; /* by their keys */
	TAILQ_HEAD(, uccl_reassembly_lane) whole;			 /* what the primary does not know yet */
	TAILQ_HEAD(, uccl_lane_peer) changed;
};

/* It is lane `number` from now on; `l` is made by the caller, and stays. */
void uccl_lane_init(struct uccl_msg_ep *m, struct uccl_lane *l, const struct uccl_lane_ops *ops,
		    struct uccl_lane_channel *channel, uint8_t number);
/* Commands of the primary: at the beginning of each turn. How many there were. */
int uccl_lane_poll(struct uccl_msg_ep *m, uint64_t now);
/* What the primary does not know yet: at the end of each turn. */
void uccl_lane_tell(struct uccl_msg_ep *m);

/* Is there something that the primary does not know, after that? */
static inline bool uccl_lane_waits(const struct uccl_msg_ep *m)
{
	return !TAILQ_EMPTY(&m->lane->changed) || !TAILQ_EMPTY(&m->lane->whole);
}

/* The connection to a peer is open; it ended. */
void lane_opened(struct uccl_peer *p);
void lane_ended(struct uccl_peer *p, int err);
/* Payload of a message of the primary's. PROTOCOL R181 */
enum uccl_drop lane_rx_data(struct uccl_peer *p, const struct uccl_chunk_in *in);
/* The same ahead of CTS; the primary may not have said where it belongs. PROTOCOL R267 */
enum uccl_drop lane_rx_unsolicited(struct uccl_peer *p, const struct uccl_chunk_in *in);

/* Of a lane's flows, instead of uccl_msg_flow_ops. */
extern const struct uccl_flow_ops uccl_lane_flow_ops;

#endif
