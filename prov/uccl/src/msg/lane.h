/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A message endpoint that is a lane of another one, home: it sends what home hands it and puts what comes where home
 * lets it. Nothing else is said to it, and nothing else is taken.
 */
#ifndef UCCL_MSG_LANE_H
#define UCCL_MSG_LANE_H

#include "msg/line.h"
#include "msg/mep.h"
#include "msg/park.h"

/* What a lane needs of its engine. */
struct uccl_lane_ops {
	/* The peer at this way's address; begin to connect if it says so. NULL: no memory, or another way has it. */
	struct uccl_peer *(*meet)(struct uccl_mep *m, const struct uccl_way *w, uint64_t now);
	/* End it, if it lives, and forget it. */
	void (*part)(struct uccl_peer *p, uint64_t now);
};

/* Places of a lane's table: messages that are under way at once are not many more. */
#define UCCL_LANE_TABLE 256

struct uccl_lane {
	const struct uccl_lane_ops *ops;
	struct uccl_line *line;
	uint8_t number;
	LIST_HEAD(, uccl_berth_lane) berths[UCCL_LANE_TABLE]; /* by their keys */
	TAILQ_HEAD(, uccl_berth_lane) whole; /* what home does not know yet */
	TAILQ_HEAD(, uccl_way) news;
};

/* It is lane `number` from now on; `l` is made by the caller, and stays. */
void uccl_lane_init(struct uccl_mep *m, struct uccl_lane *l, const struct uccl_lane_ops *ops, struct uccl_line *line,
		    uint8_t number);
/* Letters of home: at the beginning of each turn. How many there were. */
int uccl_lane_poll(struct uccl_mep *m, uint64_t now);
/* What home does not know yet: at the end of each turn. */
void uccl_lane_tell(struct uccl_mep *m);

/* Is there something that home does not know, after that? */
static inline bool uccl_lane_waits(const struct uccl_mep *m)
{
	return !TAILQ_EMPTY(&m->lane->news) || !TAILQ_EMPTY(&m->lane->whole);
}

/* The connection to a peer is open; it ended. */
void msg_lane_opened(struct uccl_peer *p);
void msg_lane_ended(struct uccl_peer *p, int err);
/* Payload of a message of home's. PROTOCOL R181 */
enum uccl_drop msg_lane_data(struct uccl_peer *p, const struct uccl_chunk_in *in);
/* The same ahead of CTS; home may not have said where it belongs. PROTOCOL R267 */
enum uccl_drop msg_lane_ahead(struct uccl_peer *p, const struct uccl_chunk_in *in);

/* Of a lane's flows, instead of uccl_msg_flow_ops. */
extern const struct uccl_flow_ops uccl_lane_flow_ops;

#endif
