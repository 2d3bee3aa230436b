/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a sender as the pacer sees it (pacer.h): its place among those that want more, if a credit policy ranks them.
 */
#ifndef UCCL_FLOW_SEND_PULL_RANK_H
#define UCCL_FLOW_SEND_PULL_RANK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/units.h"

struct uccl_pull_rank {
	struct uccl_timer place; /* in uccl_pacer.ranked; at UCCL_NEVER while it wants no more */
	uint64_t value;		 /* the lowest one is granted first */
	uint64_t message;	 /* where, in the sender's bytes, the message that it sends next ends; 0: unknown */
	uint64_t turn;		 /* uccl_pacer.grants at its latest turn */
};

static inline void uccl_pull_rank_init(struct uccl_pull_rank *r)
{
	r->place.at = UCCL_NEVER;
}

/* The message that the sender sends next ends there; 0: unknown. */
static inline void uccl_pull_rank_message(struct uccl_pull_rank *r, uint64_t ends)
{
	r->message = ends;
}

/* The sender had the turn with this number. */
static inline void uccl_pull_rank_turn(struct uccl_pull_rank *r, uint64_t turn)
{
	r->turn = turn;
}

/*
 * Bytes of the message that it sends next which have not come. A sender that does not say counts with all that it
 * wants. PROTOCOL R198
 */
static inline uint64_t uccl_pull_rank_left(const struct uccl_pull_rank *r, uint64_t received, uint64_t demand)
{
	uint64_t ends = r->message > received ? uccl_min(r->message, demand) : demand;

	return ends > received ? ends - received : 0;
}

/* The sender's rank is `value` now. `wants`: it is among those that want more. */
static inline void uccl_pull_rank_set(struct uccl_pull_rank *r, struct uccl_heap *ranked, uint64_t value, bool wants)
{
	r->value = uccl_min(value, UCCL_NEVER - 1);
	uccl_heap_set(ranked, &r->place, wants ? r->value : UCCL_NEVER);
}

#endif
