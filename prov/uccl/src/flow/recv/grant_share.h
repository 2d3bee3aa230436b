/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a grant (slots.h): what one peer's slots cost, and how many it should have. Costs and parts are fractions of
 * the receive queue, see slots.c.
 */
#ifndef UCCL_FLOW_RECV_GRANT_SHARE_H
#define UCCL_FLOW_RECV_GRANT_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "flow/wire/wire.h"

struct uccl_grant_share {
	uint64_t cost;		/* of a slot: of one of the peer's longest packets, or of a unit of bytes, */
	uint64_t first_cost;	/* and of its first slot: of such packets as come */
	uint32_t max_slots;	/* slots that the peer can use */
	uint32_t token;		/* slots of its token, */
	uint32_t fair;		/* and slots that it should have while it is busy, */
	uint32_t change;	/* as of this uccl_slots.change */
	bool too_small;		/* likewise: its part is less than one slot, so senders take turns */
};

/* What `slots` slots cost. `overbooked`: the first one costs nothing. */
static inline uint64_t uccl_grant_share_cost(const struct uccl_grant_share *s, uint32_t slots, bool overbooked)
{
	return slots ? (overbooked ? 0 : s->first_cost) + (slots - 1) * s->cost : 0;
}

/* So many slots more, beside `had`, fit into what is left of the queue. */
static inline uint32_t uccl_grant_share_fits(const struct uccl_grant_share *s, uint32_t had, uint64_t left)
{
	if (!had && left < s->first_cost)
		return 0;
	return (uint32_t)uccl_min(had ? left / s->cost : 1 + (left - s->first_cost) / s->cost, UCCL_SLOTS_MAX);
}

/* The costs change. PROTOCOL R247 R376 */
static inline void uccl_grant_share_price(struct uccl_grant_share *s, uint64_t cost, uint64_t first_cost)
{
	s->cost = cost;
	s->first_cost = first_cost;
}

/* So many slots are worth as much. Where the first one costs more than others, it counts in full. */
static inline uint32_t uccl_grant_share_of(const struct uccl_grant_share *s, uint64_t worth)
{
	uint64_t first = uccl_max(s->first_cost, s->cost);

	return (uint32_t)uccl_min(worth > first ? 1 + (worth - first) / s->cost : 1, s->max_slots);
}

/*
 * A token is worth `token` from now on, and the part of a busy peer `part`. Numbers of slots of a token are powers of
 * two, so they seldom change while peers come and go.
 */
static inline void uccl_grant_share_set(struct uccl_grant_share *s, uint64_t token, uint64_t part, uint32_t change)
{
	s->change = change;
	s->token = 1u << (31 - __builtin_clz(uccl_grant_share_of(s, token)));
	s->too_small = part < s->first_cost;
	s->fair = uccl_max(uccl_grant_share_of(s, part), s->token);
}

#endif
