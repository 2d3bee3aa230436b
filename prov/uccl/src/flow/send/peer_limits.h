/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a flow: what the peer grants us: places in its receive queue, message sequence numbers, and whether it takes
 * payload that it does not expect. What we grant is in slots.h.
 *
 * The grammar: init; `heard` for each acknowledgement block that is taken, then `way` and `meet`. `wanted` when a slot
 * was asked for; `again` for each chunk that leaves while the peer is short of memory; `last` for a chunk behind which
 * nothing waits, `more` when something does again. The rest is read.
 */
#ifndef UCCL_FLOW_SEND_PEER_LIMITS_H
#define UCCL_FLOW_SEND_PEER_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "base/units.h"
#include "flow/wire/wire.h"

struct uccl_peer_limits {
	uint32_t slots;		/* places in its receive queue: packets that may be in flight; 0: ask for one */
	uint32_t way;		/* as many more are on a long way, and in no queue; 0 with no slots */
	uint32_t msg_limit;	/* the first message sequence number that may not be used; it wraps */
	bool envelopes_only;	/* it is short of memory: no payload that it does not expect */
	bool again;		/* meanwhile: what left last was sent again */
	uint8_t turn, met;	/* the turn of `slots`, and the latest by which no more was in flight than granted */
	/* The block with these grants: its cumulative number, when it left by the peer's clock, and when it came. */
	uint64_t cum;
	uint32_t ts;
	uint64_t heard_ns;	/* 0: none came yet */
	uint64_t want_at;	/* no slots, and something to send: when to ask */
	uint32_t wants;		/* questions in a row */
	bool answered;		/* a block came since the last one: the peer knows, most likely */
	uint64_t last_ns;	/* when a chunk left behind which nothing waited; 0: something does */
	uint8_t soon;		/* times in a row that more came soon after such a chunk */
};

/* More than any way holds. */
#define UCCL_SLOTS_WAY_MAX (1u << 24)

/* What is said so long after the last grant is news, whatever the peer's clock shows. */
#define UCCL_PEER_LIMITS_OLD_NS (10 * UCCL_NS_PER_S)
/* If more came soon this often in a row, more will come. */
#define UCCL_PEER_LIMITS_SOON 2

/* The first grants, of the handshake; csn: the first that we send. */
void uccl_peer_limits_init(struct uccl_peer_limits *g, uint32_t slots, uint32_t msg_limit, uint64_t csn);
/*
 * Blocks of one cumulative number overtake each other on different paths, so the time at which the packet left decides
 * among those.
 */
static inline bool uccl_peer_limits_stands(const struct uccl_peer_limits *g, uint64_t cum, uint32_t ts, uint64_t now)
{
	if (cum != g->cum)
		return cum > g->cum;
	return !g->heard_ns || (int32_t)(ts - g->ts) >= 0 || now - g->heard_ns >= UCCL_PEER_LIMITS_OLD_NS;
}

/* A block grants no slot. */
void uccl_peer_limits_none(struct uccl_peer_limits *g, uint64_t now);
/*
 * A block that left at `ts`, by the peer's clock, and acknowledges all before `cum`. False: it was overtaken by another
 * one, its grants are no news. PROTOCOL R19
 */
static inline bool uccl_peer_limits_heard(struct uccl_peer_limits *g, const struct uccl_ack *a, uint64_t cum,
					  uint32_t ts, uint64_t now)
{
	if (!uccl_peer_limits_stands(g, cum, ts, now))
		return false;
	g->cum = cum;
	g->ts = ts;
	g->heard_ns = now;
	g->slots = a->slots;
	if (g->slots) {
		g->wants = 0;
		g->want_at = 0;
	} else {
		uccl_peer_limits_none(g, now);
	}
	g->turn = a->turn;
	g->envelopes_only = a->rcv_short;
	/* Numbers that may have been used are not taken back. */
	if ((int32_t)(a->msg_limit - g->msg_limit) > 0)
		g->msg_limit = a->msg_limit;
	return true;
}

/* Packets that take so many slots are on a long way; 0: the way is short. PROTOCOL R391 */
static inline void uccl_peer_limits_way(struct uccl_peer_limits *g, uint64_t slots)
{
	g->way = g->slots ? (uint32_t)uccl_min(slots, UCCL_SLOTS_WAY_MAX) : 0;
}

/* Slots that packets in flight may take. */
static inline uint32_t uccl_peer_limits_most(const struct uccl_peer_limits *g)
{
	return g->slots + g->way;
}

/* A slot was asked for. The next question follows after a random time around the time-out. PROTOCOL R179 */
void uccl_peer_limits_wanted(struct uccl_peer_limits *g, uint64_t rto_ns, struct uccl_rng *rng, uint64_t now);

/* While it is short of memory: something leaves that was sent before, or is new. */
static inline void uccl_peer_limits_again(struct uccl_peer_limits *g, bool again)
{
	g->again = again;
}

/* A chunk left behind which nothing waits; then something does. */
static inline void uccl_peer_limits_last(struct uccl_peer_limits *g, uint64_t now)
{
	g->last_ns = uccl_max(now, 1);
}
void uccl_peer_limits_more(struct uccl_peer_limits *g, uint64_t now);
/* Nothing waits, but something is about to. PROTOCOL R246 */
static inline bool uccl_peer_limits_expects(const struct uccl_peer_limits *g)
{
	return g->soon >= UCCL_PEER_LIMITS_SOON;
}

/*
 * So many places are in use. True: for the first time no more than the grant of this turn allows, and the peer waits to
 * hear that. PROTOCOL R142
 */
static inline bool uccl_peer_limits_meet(struct uccl_peer_limits *g, uint32_t used)
{
	if (g->met == g->turn || used > uccl_peer_limits_most(g))
		return false;
	g->met = g->turn;
	return true;
}

#endif
