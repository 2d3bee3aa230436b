/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a flow: one of several NICs (rails) by which it sends. Each has its own congestion window and path choice: a
 * window for all would be that of the slowest, and its paths would say nothing of the others. PROTOCOL R387
 *
 * All is zero but `min_rtt_ns` at first. internal.h writes `inflight`, events.c `pace` and `losses`, ack.c the rest.
 */
#ifndef UCCL_FLOW_RAIL_H
#define UCCL_FLOW_RAIL_H

#include <stdint.h>

#include "flow/ack/rate.h"
#include "flow/policy.h"
#include "flow/send/pace.h"

/* After so many losses in a row a rail has one packet at a time, until the peer reports one of them. PROTOCOL R387 */
#define UCCL_RAIL_LOSSES 3

struct uccl_rail {
	uint64_t inflight;	/* bytes */
	uint64_t srtt_ns, rttvar_ns; /* of its paths; 0: no sample yet */
	uint64_t min_rtt_ns;	/* UCCL_NEVER: no sample yet */
	uint32_t losses;	/* since the peer last reported a packet of it */
	struct uccl_rate rate;	/* at which the network delivers */
	struct uccl_pace pace;	/* when new payload may leave */
	struct uccl_ack_info news; /* of the acknowledgement that is taken in */
	uint64_t cc[UCCL_CC_STATE / 8];
	uint64_t path[UCCL_PATHSEL_STATE / 8];
};

/* An acknowledgement has a sample of this path. */
static inline void uccl_ack_info_sample(struct uccl_ack_info *info, uint64_t rtt_ns, uint16_t path)
{
	if (info->rtt_ns && rtt_ns >= info->rtt_ns)
		return;
	info->rtt_ns = rtt_ns;
	info->path = path;
}

static inline void uccl_rail_sample(struct uccl_rail *r, uint64_t rtt_ns, uint16_t path)
{
	uccl_rtt_smooth(&r->srtt_ns, &r->rttvar_ns, rtt_ns);
	r->min_rtt_ns = uccl_min(r->min_rtt_ns, rtt_ns);
	uccl_ack_info_sample(&r->news, rtt_ns, path);
}

/* May the window be filled? Else one packet at a time leaves: the rail seems to be dead. */
static inline bool uccl_rail_works(const struct uccl_rail *r)
{
	return r->losses < UCCL_RAIL_LOSSES;
}

#endif
