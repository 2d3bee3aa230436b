/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Part of a flow: its receiving side. */
#ifndef UCCL_FLOW_RECV_RX_STATE_H
#define UCCL_FLOW_RECV_RX_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "flow/ack/ack_tracker.h"
#include "flow/ack/reverse_gap.h"
#include "flow/recv/arrived.h"
#include "flow/recv/rx_segments.h"
#include "flow/recv/subsegments.h"
#include "flow/write/write_rx.h"

/* An acknowledgement is owed at once after this many packets of the longest length, at the latest. */
#define UCCL_ACK_EVERY_MAX 128

struct uccl_flow_rx {
	struct uccl_arrived arrived;
	struct uccl_ack_tracker ack_tracker;
	struct uccl_reverse_gap reverse_gap;  /* how long an acknowledgement may wait for payload */
	struct uccl_subsegments subsegments;  /* incomplete segments */
	struct uccl_rx_segments segments;     /* incomplete chunks */
	struct uccl_write_rx write;	      /* direct writes */
	uint64_t heard_ns;		      /* last accepted packet */
	uint64_t chunk_ns;		      /* latest chunk; 0: none came */
	uint32_t ack_slots_max;		      /* an acknowledgement is owed at once for packets of so many slots */
	bool delays;			      /* nobody waits for the acknowledgement of the latest chunk */
};

/*
 * first_csn: of the peer; `longest`: bytes of a record; `slots`: of the longest packet. False: no memory; fini frees
 * what there is.
 */
static inline bool uccl_flow_rx_init(struct uccl_flow_rx *rx, const struct uccl_write_rx_cfg *cfg, uint64_t first_csn,
				     uint32_t longest, uint32_t slots, uint64_t now)
{
	rx->heard_ns = now;
	rx->ack_slots_max = UCCL_ACK_EVERY_MAX * slots;
	uccl_subsegments_init(&rx->subsegments, longest);
	return uccl_arrived_init(&rx->arrived, cfg->window, first_csn) &&
	       uccl_ack_tracker_init(&rx->ack_tracker, cfg->paths, now) &&
	       uccl_rx_segments_init(&rx->segments) && uccl_write_rx_init(&rx->write, cfg);
}

static inline void uccl_flow_rx_fini(struct uccl_flow_rx *rx)
{
	uccl_arrived_fini(&rx->arrived);
	uccl_ack_tracker_fini(&rx->ack_tracker);
	uccl_write_rx_fini(&rx->write);
	uccl_subsegments_fini(&rx->subsegments);
	uccl_rx_segments_fini(&rx->segments);
}

/* A chunk came; `delays`: its sender does not wait for the acknowledgement (UCCL_FLAG_DELAY). */
static inline void uccl_flow_rx_delays(struct uccl_flow_rx *rx, bool delays, uint64_t now)
{
	rx->chunk_ns = uccl_max(now, 1);
	rx->delays = delays;
	if (delays)
		uccl_reverse_gap_owed(&rx->reverse_gap, now);
}

/* Did a chunk come within the last `lately` ns? */
static inline bool uccl_flow_rx_talks(const struct uccl_flow_rx *rx, uint64_t lately, uint64_t now)
{
	return rx->chunk_ns && now - rx->chunk_ns < lately;
}

/* A packet was accepted. */
static inline void uccl_flow_rx_heard(struct uccl_flow_rx *rx, uint64_t now)
{
	rx->heard_ns = now;
}

#endif
