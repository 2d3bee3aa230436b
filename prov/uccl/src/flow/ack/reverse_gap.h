/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a flow: how long an acknowledgement may wait for a packet with payload that goes the same way, to ride on it.
 * A receiver that answers soon with payload of its own needs no packet for the acknowledgement alone. The flow learns
 * how soon that is: from the time between a chunk with UCCL_FLAG_DELAY and the next payload that leaves.
 *
 * The grammar: all zero at first. `owed` when a chunk arrived, `left` when payload leaves; `limit` at any time.
 */
#ifndef UCCL_FLOW_ACK_REVERSE_GAP_H
#define UCCL_FLOW_ACK_REVERSE_GAP_H

#include <stdint.h>

#include "flow/ack/times.h"

struct uccl_reverse_gap {
	uint64_t owed_ns; /* when the first chunk arrived since payload left last; 0: none did */
	uint64_t gap_ns;  /* the longest such time lately; 0: none is known */
};

/* A chunk arrived whose acknowledgement is not urgent. */
static inline void uccl_reverse_gap_owed(struct uccl_reverse_gap *g, uint64_t now)
{
	if (!g->owed_ns)
		g->owed_ns = uccl_max(now, 1);
}

/* Payload leaves: a longer time counts at once, a shorter one by an eighth. One long pause is soon forgotten. */
static inline void uccl_reverse_gap_left(struct uccl_reverse_gap *g, uint64_t now)
{
	uint64_t gap;

	if (!g->owed_ns)
		return;
	gap = uccl_clamp(now > g->owed_ns ? now - g->owed_ns : 0, 1, 2 * UCCL_RIDE_MAX_NS);
	g->gap_ns = uccl_max(gap, g->gap_ns - g->gap_ns / 8);
	g->owed_ns = 0;
}

/* So long, ns, an acknowledgement that nobody waits for may wait: where no payload follows soon, as any other one. */
static inline uint64_t uccl_reverse_gap_limit(const struct uccl_reverse_gap *g)
{
	uint64_t limit = g->gap_ns + g->gap_ns / 4;

	return limit > UCCL_RIDE_MAX_NS ? UCCL_ACK_DELAY_NS : uccl_max(limit, UCCL_ACK_DELAY_NS);
}

#endif
