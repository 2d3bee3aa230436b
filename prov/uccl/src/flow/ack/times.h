/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a flow: how long things take. Two estimators that are never mixed: the fabric's round trip, without what the
 * peer's host needs; and what the host needs to answer, beyond what it may. The time-outs follow from the two alone.
 *
 * The grammar: init first; `rtt` and `host` for samples; everything else only asks, at any time.
 */
#ifndef UCCL_FLOW_ACK_TIMES_H
#define UCCL_FLOW_ACK_TIMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "flow/path/path.h"

/* A receiver never delays an acknowledgement longer than this (RFC 9000 calls it max_ack_delay). */
#define UCCL_ACK_DELAY_NS (100 * UCCL_NS_PER_US)
/* No acknowledgement waits longer than this for payload that it can ride on. PROTOCOL R340 */
#define UCCL_RIDE_MAX_NS UCCL_NS_PER_MS
/* Longest time between two probes of a silent peer. */
#define UCCL_RTO_MAX_NS (200 * UCCL_NS_PER_MS)

struct uccl_times {
	uint64_t rto_min_ns;
	uint64_t first_ns;		/* round trip before any sample, with the host's part; 0: not known */
	/* The fabric: smoothed over all paths (0: no sample yet), the shortest (UCCL_NEVER: none), the latest. */
	uint64_t srtt_ns, rttvar_ns, min_rtt_ns, last_rtt_ns;
	/* From a chunk whose acknowledgement may wait, to that: mean (0: none yet) and mean deviation. PROTOCOL R340 */
	uint64_t ride_ns, ridevar_ns;
	/* The peer's host: mean and mean deviation. PROTOCOL R99 */
	uint64_t host_ns, hostvar_ns;
	uint64_t host_heard_ns;		/* when its last sample came */
	/* Answers that took at most UCCL_ACK_DELAY_NS: mean time (0: none yet) and mean deviation. PROTOCOL R346 */
	uint64_t prompt_ns, promptvar_ns;
};

/* first_ns: round trip of the handshake, 0: not known. */
void uccl_times_init(struct uccl_times *t, uint64_t rto_min_ns, uint64_t first_ns);
/* A round trip, turnaround taken off. */
static inline void uccl_times_rtt(struct uccl_times *t, uint64_t rtt_ns)
{
	t->last_rtt_ns = rtt_ns;
	t->min_rtt_ns = uccl_min(t->min_rtt_ns, rtt_ns);
	uccl_rtt_smooth(&t->srtt_ns, &t->rttvar_ns, rtt_ns);
}

/* The peer's host took delay_ns to answer. */
void uccl_times_host(struct uccl_times *t, uint64_t delay_ns, uint64_t now);

/* A chunk whose acknowledgement may ride on payload was acknowledged took_ns after it left. */
static inline void uccl_times_ride(struct uccl_times *t, uint64_t took_ns)
{
	uccl_rtt_smooth(&t->ride_ns, &t->ridevar_ns, uccl_clamp(took_ns, 1, 2 * UCCL_RIDE_MAX_NS));
}

/* The least round trip, or that of the handshake; 0: not known. */
static inline uint64_t uccl_times_least(const struct uccl_times *t)
{
	return t->min_rtt_ns != UCCL_NEVER ? t->min_rtt_ns : t->first_ns;
}

/* What the peer's host may take before silence says anything. PROTOCOL R99 */
static inline uint64_t uccl_times_host_wait(const struct uccl_times *t)
{
	return t->host_ns + 4 * t->hostvar_ns;
}

/* The same of an answer that must not wait: the host takes what it took lately. PROTOCOL R346 */
static inline uint64_t uccl_times_prompt_wait(const struct uccl_times *t)
{
	return t->prompt_ns ? uccl_min(t->prompt_ns + 4 * t->promptvar_ns, UCCL_ACK_DELAY_NS) : UCCL_ACK_DELAY_NS;
}

/*
 * Before the first sample the handshake's round trip is taken for one, whose variation is half of it (RFC 6298 section
 * 2.2); it is no sample, as it has the peer's host in it.
 */
static inline uint64_t uccl_times_first(const struct uccl_times *t)
{
	return 3 * t->first_ns;
}

/* Smoothed RTT plus variation, the base of the time-out. */
static inline uint64_t uccl_times_rto(const struct uccl_times *t)
{
	uint64_t rto = 4 * t->rto_min_ns;

	if (t->srtt_ns)
		rto = t->srtt_ns + 4 * t->rttvar_ns + UCCL_ACK_DELAY_NS;
	else if (t->first_ns)
		rto = uccl_times_first(t) + UCCL_ACK_DELAY_NS;
	return uccl_clamp(rto + uccl_times_host_wait(t), t->rto_min_ns, UCCL_RTO_MAX_NS);
}

/*
 * The probe time-out is two RTTs (RFC 8985 section 7.2), or an RTT and four times its variation (RFC 9002 section
 * 6.2.1) where paths differ, and `delay_ns`, by which the answer may be delayed, and what the peer's host may take;
 * never later than the RTO. It has no floor: a needless probe costs one small packet, a late one a stall of the whole
 * tail.
 */
static inline uint64_t uccl_times_pto_delay(const struct uccl_times *t, uint64_t delay_ns)
{
	uint64_t wait = t->srtt_ns ? uccl_max(2 * t->srtt_ns, t->srtt_ns + 4 * t->rttvar_ns) : uccl_times_first(t);

	return wait ? uccl_min(wait + delay_ns + uccl_times_host_wait(t), uccl_times_rto(t)) : uccl_times_rto(t);
}

/* The answer may wait as an acknowledgement does. */
static inline uint64_t uccl_times_pto(const struct uccl_times *t)
{
	return uccl_times_pto_delay(t, UCCL_ACK_DELAY_NS);
}

/* The answer comes at once. The handshake's round trip has the peer's host in it. PROTOCOL R346 */
static inline uint64_t uccl_times_pto_prompt(const struct uccl_times *t)
{
	return uccl_times_pto_delay(t, t->srtt_ns ? uccl_times_prompt_wait(t) : 0);
}

/*
 * What left last and asks for an acknowledgement is asked for after this time, as it may be lost. The least RTT and its
 * quarter, and what the peer's host takes. PROTOCOL R405
 */
static inline uint64_t uccl_times_pto_last(const struct uccl_times *t)
{
	return t->srtt_ns ? t->min_rtt_ns + t->min_rtt_ns / 4 + uccl_times_prompt_wait(t) : uccl_times_pto(t);
}

/*
 * The same for chunks that the peer may acknowledge with its next payload: as late as lately, but at most
 * UCCL_RIDE_MAX_NS later than for other chunks. PROTOCOL R340
 */
static inline uint64_t uccl_times_pto_ride(const struct uccl_times *t)
{
	uint64_t pto = uccl_times_pto(t);

	return uccl_clamp(t->ride_ns + 4 * t->ridevar_ns, pto, pto + UCCL_RIDE_MAX_NS);
}

/*
 * The same when the peer has just answered. The missing chunk left `later_ns` after the chunk that the peer reported,
 * or (0) before it. The host of the peer works, so the answer should come later by this time, give or take the
 * difference between paths. `asked`: its acknowledgement is not delayed. PROTOCOL R243
 */
static inline uint64_t uccl_times_pto_next(const struct uccl_times *t, uint64_t later_ns, bool asked)
{
	uint64_t pto = uccl_max(t->srtt_ns, 2 * t->rttvar_ns) + later_ns;

	return t->srtt_ns ? uccl_min(pto + (asked ? 0 : UCCL_ACK_DELAY_NS), uccl_times_pto(t)) : uccl_times_pto(t);
}

#endif
