/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/send/peer_limits.h"

#include "base/units.h"

/* The longest time between two questions, and what chance adds: one of so many parts at most. */
#define WANT_MAX_NS UCCL_NS_PER_S
#define WANT_SPREAD 4
#define WANT_DOUBLINGS 10
/*
 * Who was answered is in the line, and hears when it is its turn. To ask again is for the case that this was lost, or
 * the question when an older block came after it.
 */
#define ANSWERED_NS (100 * UCCL_NS_PER_MS)
/* As long as the peer leaves a slot to who does not use it. */
#define SOON_NS (10 * UCCL_NS_PER_MS)

void uccl_peer_limits_init(struct uccl_peer_limits *g, uint32_t slots, uint32_t msg_limit, uint64_t csn)
{
	*g = (struct uccl_peer_limits){.slots = slots, .msg_limit = msg_limit, .cum = csn};
}

void uccl_peer_limits_none(struct uccl_peer_limits *g, uint64_t now)
{
	g->way = 0;
	if (!g->wants || g->answered)
		return;
	g->answered = true;
	g->want_at = uccl_max(g->want_at, now + ANSWERED_NS);
}

void uccl_peer_limits_wanted(struct uccl_peer_limits *g, uint64_t rto_ns, struct uccl_rng *rng, uint64_t now)
{
	uint64_t ns = uccl_min(rto_ns << uccl_min(g->wants, WANT_DOUBLINGS), WANT_MAX_NS);

	g->wants++;
	g->answered = false;
	g->want_at = now + ns + uccl_rng_below(rng, ns / WANT_SPREAD + 1);
}

void uccl_peer_limits_more(struct uccl_peer_limits *g, uint64_t now)
{
	g->soon = now - g->last_ns < SOON_NS ? (uint8_t)uccl_min(g->soon + 1, UCCL_PEER_LIMITS_SOON) : 0;
	g->last_ns = 0;
}
