/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Congestion control of a long way, whose round trip takes milliseconds without any queue: between regions. Gains that
 * are right for a fabric are wrong there. A round trip brings one answer to thousands of packets, the queue of the
 * slowest link holds a small part of them, and losses by chance are usual.
 *
 * - The sender paces, so that a window is not a burst.
 * - The window doubles in a round trip (slow start) until it holds what the slowest link carries, as bursts told
 *   (flow/ack/spread.h), or until a queue grows (HyStart++, RFC 9406), or until much is lost.
 * - Then it follows the least queueing delay of a round trip, toward a target of a few milliseconds: by the bytes that
 *   make up the difference. While there is no queue at all it grows faster.
 * - Every few round trips it empties its queue: then both sides see how long the way is without it.
 * - Less than a share of losses says nothing. More is a queue that overflows: its delay bounds the target from then on.
 * - A route may become longer. A delay that stays the same while the window shrinks is no queue of the sender.
 *
 * The grammar: init; `begin` when the way is long, then `lost` and `acked`, `window` and `pace` at any time, until
 * `end`; `share` if the flow gets another part of what one flow may have.
 */
#ifndef UCCL_POLICY_LONG_WAY_H
#define UCCL_POLICY_LONG_WAY_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "flow/policy.h"

/* Bytes. */
struct uccl_long_way_cfg {
	double chunk, burst; /* a packet; what leaves at once on one path */
	double most;	     /* largest window */
	double share;	     /* of what one flow may have: 1, or less with lanes */
};

/* A round trip. Delays are those of queues, ns; INFINITY and 0: no sample. */
struct uccl_long_way_round {
	uint64_t end;	    /* delivered, when it ends */
	double least, most; /* delay */
	double acked, lost; /* bytes */
	double inflight;    /* most bytes in flight */
	uint32_t samples;   /* of delay */
};

struct uccl_long_way {
	struct uccl_long_way_cfg cfg;
	bool started;	/* the slow start is over */
	uint8_t empty;	/* round trips without a queue, in a row */
	uint8_t filled;	/* round trips since the queue was last emptied */
	uint8_t held;	/* round trips to come in which the window grows little */
	uint8_t steady; /* round trips with the same delay, in a row: since then */
	double steady_ns, steady_window; /* that delay, and the window before them */
	double window;	    /* bytes, */
	double less;	    /* of which so many are not used in this round trip, so that the queue empties */
	double base_ns;	    /* round trip without queues; 0: the way is not long; */
	double detour_ns;   /* of which the route became so much longer */
	double link;	    /* bytes per ns of the slowest link; 0: not known */
	double full_ns;	    /* delay of a queue that overflowed; INFINITY: none did */
	uint64_t paced_ns;  /* the pace is kept if nothing leaves before, less a burst */
	struct uccl_long_way_round round;
};

void uccl_long_way_init(struct uccl_long_way *w, const struct uccl_long_way_cfg *cfg);
/* So many bytes are known to fit, and at most `most` may be in flight; its least round trip is base_ns. */
void uccl_long_way_begin(struct uccl_long_way *w, double bytes, double most, double base_ns);
/* The way is long no more. */
static inline void uccl_long_way_end(struct uccl_long_way *w)
{
	w->base_ns = 0;
}

static inline bool uccl_long_way_is(const struct uccl_long_way *w)
{
	return w->base_ns > 0;
}

/* The flow may have so many times what it may have now. */
void uccl_long_way_share(struct uccl_long_way *w, double more);
/* So many bytes were lost. `silent`: nothing was heard for a whole time-out. */
void uccl_long_way_lost(struct uccl_long_way *w, double bytes, bool silent);
void uccl_long_way_acked(struct uccl_long_way *w, const struct uccl_ack_info *ack);
/* Bytes that may be in flight. */
static inline double uccl_long_way_window(const struct uccl_long_way *w)
{
	return fmax(w->window - w->less, fmin(w->window, w->cfg.chunk));
}

/* So many bytes leave. Returns when the next ones may. */
uint64_t uccl_long_way_pace(struct uccl_long_way *w, uint32_t bytes, uint64_t now);

#endif
