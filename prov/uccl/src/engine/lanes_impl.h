/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* lanes.c: an endpoint that has lanes, or is one. */
#ifndef UCCL_ENGINE_LANES_IMPL_H
#define UCCL_ENGINE_LANES_IMPL_H

#include "base/load_table.h"
#include "lanes/worker.h"
#include "lanes/lane_replies.h"

/* Of an engine. */
struct engine_lanes {
	struct uccl_lanes all;		/* msg_ep.lanes, if it has some, */
	struct uccl_addr *addr;		/* and where they are */
	struct uccl_lane lane;		/* msg_ep.lane, if it is one */
	struct uccl_load_table load;	/* of it and its lanes */
};

void engine_lanes_close(struct engine_lanes *l);

#endif
