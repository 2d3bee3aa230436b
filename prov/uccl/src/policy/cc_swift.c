/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Swift (Kumar et al., SIGCOMM 2020): the window follows a target of the fabric delay, which is the RTT less the time
 * the receiver took to answer. Windows are bytes in floating point: in integers the increase of one chunk per RTT,
 * spread over that RTT's acknowledgements, is rounded down to nothing as soon as the window is large.
 *
 * DESIGN NOTES
 * - A loss says nothing of congestion by itself: the transport is made for networks that lose packets. Only a loss
 *   while the delay is at its target, or when a large share of all bytes is lost (a shallow buffer, a policer), cuts
 *   the window.
 * - The time of every cut is recorded, and the next one for delay or loss waits an RTT. What shows up within that RTT
 *   was under way before the cut and knows nothing of it.
 * - The configured delay can be far too low (a long or emulated link). Swift would then see congestion always and
 *   starve at its floor, so the flow's smallest RTT bounds the target from below. The price: a flow that begins in a
 *   queue that never drains takes it for distance until it does.
 *
 * - Marks of the network (ECN) are averaged as DCTCP does (RFC 8257), but DCTCP has one path. A queue of 200 KB is
 *   normal on some of 64 paths, and is no congestion of the flow: it is path choice that hears of it, path by path. So
 *   only what is above `mark_bound` counts, where nearly all paths have queues; a round trip takes half of that off the
 *   window, or what the delay takes if that is more. At first nothing is taken for marked, as nothing is known.
 *
 * Constants "of the reference" are those of Swift in Broadcom's csg-htsim, the published simulator.
 */
#include "policy/policies.h"

#include <assert.h>
#include <math.h>

#include "base/units.h"

/* "Reference": see above. */
#define SWIFT_CONSTANTS(X)											\
	X(target_us, 25, 0.1, 1e6, "us",									\
	  "smallest base target of the delay (reference: 20, for timestamps of the NIC; ours "			\
	  "include software, so it is a little more)")								\
	X(min_rtt_room, 0.25, 0, 10, "share",									\
	  "the target is at least the smallest RTT plus this share of it, as room for jitter of the path")	\
	X(link_gbps, 10, 0.001, 1e5, "Gb/s",									\
	  "line rate, if the NIC does not know its own; the time of a chunk on the link is part of "		\
	  "the base target")											\
	X(ai, 1, 0.001, 100, "chunks",										\
	  "additive increase per RTT (reference: 1 packet)")							\
	X(beta, 0.8, 0.01, 1, "",										\
	  "multiplicative decrease: factor of the relative excess of the delay (reference)")			\
	X(max_mdf, 0.5, 0.01, 0.99, "share",									\
	  "one decrease takes at most this share of the window (reference)")					\
	X(fs_range, 5, 0, 100, "targets",									\
	  "flow scaling: added to the target at the smallest window, because many flows with small "		\
	  "windows need a longer queue (reference)")								\
	X(fs_min, 0.1, 0.001, 1, "chunks",									\
	  "flow scaling: the window at which all of fs_range is added; the target grows with "			\
	  "1/sqrt(window) up to there (reference)")								\
	X(fs_max, 100, 2, 1e6, "chunks",									\
	  "flow scaling: from this window on, nothing is added (reference)")					\
	X(min_chunks, 0.1, 0.001, 1, "chunks",									\
	  "smallest window (reference); below one chunk the flow is paced")					\
	X(first_chunks, 16, 1, 1e4, "chunks",									\
	  "first window, enough to measure several paths at once; slow start doubles it in each RTT")		\
	X(loss_share, 0.1, 0, 1, "share",									\
	  "a larger share of lost bytes means congestion at any delay (a short queue, a policer)")		\
	X(loss_horizon, 256, 1, 1e6, "chunks",									\
	  "loss_share is averaged over this many chunks; a random loss of 3.1 % of the chunks (1 packet "	\
	  "of 256, 8 packets a chunk) stays 8 deviations below it")						\
	X(mark_gain, 0.0625, 0.0001, 1, "",									\
	  "weight of one round trip in the share of marked bytes (RFC 8257: 1/16)")				\
	X(mark_bound, 0.8, 0, 0.99, "share",									\
	  "a smaller share of marked bytes concerns some paths only, and path choice reacts to it (ours)")	\
	X(rto_limit, 2, 1, 100, "",										\
	  "after this many time-outs in a row the window is one chunk; each earlier time-out halves "		\
	  "it")													\
	X(pace_targets, 16, 1, 1e4, "targets",									\
	  "pacing uses at most this RTT: a longer RTT comes from a peer that makes no calls, not from "		\
	  "the fabric")

UCCL_CONSTANTS(swift, SWIFT_CONSTANTS);

struct swift {
	const struct swift_k *k;
	double window;	   /* bytes */
	double window_min; /* bytes */
	double window_max; /* bytes */
	double window_cap; /* bytes, of window_max: what the flow can have in flight */
	double chunk;	   /* bytes */
	double of;	   /* flows that share what one would have */
	double ai;	   /* additive increase per RTT, chunks */
	double base_ns;	   /* base target from configuration, without serialisation */
	double serial_ns;  /* one chunk at line rate */
	double fs_chunk;   /* flow scaling: a chunk's part in the window of all that share; and ns: */
	double fs_alpha;   /* alpha / sqrt(that window in chunks) + beta */
	double fs_beta;
	double loss_share;     /* 0..1, moving average */
	double mark_share;     /* 0..1, moving average over round trips */
	double acked, marked;  /* bytes in this round trip */
	uint64_t round_ns;     /* when it began */
	uint64_t min_rtt_ns;   /* as the flow reports it; 0: none yet */
	uint64_t decreased_ns; /* time of the last decrease; UCCL_NEVER: none yet */
	uint64_t rto_ns;       /* time of the last time-out; UCCL_NEVER: none yet */
	uint32_t rtos;	       /* time-outs in a row */
	bool slow_start;
};

_Static_assert(sizeof(struct swift) <= UCCL_CC_STATE, "state too large");

static void swift_init(void *cc, const struct uccl_policy_cfg *cfg, uint64_t now)
{
	struct swift *s = cc;
	const struct swift_k *k = UCCL_K(swift, cfg);
	double bps = cfg->link_bps ? (double)cfg->link_bps : k->link_gbps * 1e9;
	double steep = 1 / sqrt(k->fs_min) - 1 / sqrt(k->fs_max);

	assert(cfg->chunk_bytes > 0);
	assert(cfg->window_max >= cfg->chunk_bytes);
	s->k = k;
	s->chunk = cfg->chunk_bytes;
	s->window_min = s->chunk * k->min_chunks;
	s->window_cap = s->window_max = (double)cfg->window_max;
	s->of = 1;
	s->ai = k->ai;
	s->window = fmin(s->window_max, s->chunk * k->first_chunks);
	s->base_ns = fmax(k->target_us * (double)UCCL_NS_PER_US, (double)cfg->delay_ns);
	s->serial_ns = s->chunk * 8 * (double)UCCL_NS_PER_S / bps;
	s->fs_chunk = s->chunk;
	s->fs_alpha = k->fs_range * (s->base_ns + s->serial_ns) / steep;
	s->fs_beta = -s->fs_alpha / sqrt(k->fs_max);
	s->loss_share = 0;
	s->mark_share = 0;
	s->acked = s->marked = 0;
	s->round_ns = now;
	s->min_rtt_ns = 0;
	s->decreased_ns = UCCL_NEVER;
	s->rto_ns = UCCL_NEVER;
	s->rtos = 0;
	s->slow_start = true;
}

/* The fabric delay to aim at with the present window, ns. */
static double swift_target(const struct swift *s)
{
	double base = fmax(s->base_ns, (double)s->min_rtt_ns * (1 + s->k->min_rtt_room)) + s->serial_ns;
	double scaling = s->fs_alpha / sqrt(s->window / s->fs_chunk) + s->fs_beta;

	/* The window is never below the smallest of flow scaling, so its range needs no upper clip. */
	return base + fmax(scaling, 0);
}

static void swift_set_window(struct swift *s, double bytes)
{
	s->window = fmax(s->window_min, fmin(bytes, s->window_max));
}

/* Whether an RTT has gone by since `then`. */
static bool swift_rtt_since(uint64_t then, uint64_t rtt_ns, uint64_t now)
{
	return then == UCCL_NEVER || now - then >= rtt_ns;
}

/* Multiply the window by `factor`, but once per RTT at most. */
static void swift_decrease(struct swift *s, double factor, uint64_t rtt_ns, uint64_t now)
{
	s->slow_start = false;
	if (!swift_rtt_since(s->decreased_ns, rtt_ns, now))
		return;
	s->decreased_ns = now;
	swift_set_window(s, s->window * factor);
}

static void swift_increase(struct swift *s, uint64_t bytes)
{
	double acked = (double)bytes;

	if (s->slow_start)
		swift_set_window(s, s->window + acked);
	else if (s->window >= s->chunk)
		swift_set_window(s, s->window + s->ai * s->chunk * acked / s->window);
	else
		swift_set_window(s, s->window + s->ai * acked);
}

/* Move the lost share towards `what` (1 lost, 0 arrived) by the weight of `bytes`. */
static void swift_count(struct swift *s, uint64_t bytes, double what)
{
	double gain = fmin(1, (double)bytes / (s->chunk * s->k->loss_horizon));

	s->loss_share += gain * (what - s->loss_share);
}

static uint64_t swift_window(const void *cc)
{
	const struct swift *s = cc;

	return (uint64_t)s->window;
}

static uint64_t swift_pace(void *cc, uint32_t bytes, uint64_t srtt_ns, uint64_t now)
{
	struct swift *s = cc;
	double rtt;

	if (s->window >= s->chunk)
		return now;
	rtt = srtt_ns ? fmin((double)srtt_ns, s->k->pace_targets * swift_target(s)) : s->base_ns;
	return now + (uint64_t)(rtt * bytes / s->window);
}

/* Count marks; the average moves once in a round trip (RFC 8257 section 3.3). */
static void swift_marks(struct swift *s, const struct uccl_ack_info *ack, uint64_t now)
{
	s->acked += (double)ack->bytes;
	s->marked += (double)ack->marked;
	if (!s->acked || !swift_rtt_since(s->round_ns, ack->srtt_ns, now))
		return;
	s->mark_share += s->k->mark_gain * (fmin(1, s->marked / s->acked) - s->mark_share);
	s->acked = s->marked = 0;
	s->round_ns = now;
}

/* What of the marked share is congestion of the flow: 1 if all is marked, 0 up to the bound. */
static double swift_marked(const struct swift *s)
{
	return fmax(0, s->mark_share - s->k->mark_bound) / (1 - s->k->mark_bound);
}

static void swift_on_ack(void *cc, const struct uccl_ack_info *ack, uint64_t now)
{
	struct swift *s = cc;
	double delay = (double)ack->rtt_ns, target, factor = 1;
	bool late = false, marked;

	s->rtos = 0;
	swift_count(s, ack->bytes, 0);
	swift_marks(s, ack, now);
	marked = ack->marked && swift_marked(s) > 0;
	/* Down to a chunk in a round trip: a switch that marks everything must not stop us (RFC 8257 section 3.4). */
	if (marked)
		factor = fmax(1 - swift_marked(s) / 2, fmin(1, s->chunk / s->window));
	if (ack->rtt_ns) {
		if (ack->min_rtt_ns && ack->min_rtt_ns != UINT64_MAX)
			s->min_rtt_ns = ack->min_rtt_ns;
		target = swift_target(s);
		late = delay >= target;
		if (late)
			factor = fmin(factor, fmax(1 - s->k->beta * (delay - target) / delay, 1 - s->k->max_mdf));
	}
	if (late || marked)
		swift_decrease(s, factor, ack->srtt_ns ? ack->srtt_ns : ack->rtt_ns, now);
	else if (ack->rtt_ns && !ack->app_limited)
		swift_increase(s, ack->bytes);
}

/*
 * Silence, too, is no proof of congestion: a peer that computes does not answer. The first time-out halves; when the
 * second comes with nothing heard between, one chunk at a time will find out. The way back is a slow start.
 */
static void swift_timeout(struct swift *s, const struct uccl_loss_info *loss, uint64_t now)
{
	/* Several paths may report the same silence one after the other. */
	if (s->rto_ns != UCCL_NEVER && now - s->rto_ns <= loss->srtt_ns)
		return;
	s->rto_ns = now;
	s->decreased_ns = now;
	s->slow_start = false;
	if (++s->rtos < s->k->rto_limit) {
		swift_set_window(s, s->window * (1 - s->k->max_mdf));
		return;
	}
	swift_set_window(s, fmin(s->window, s->chunk));
	s->slow_start = true;
}

static void swift_on_loss(void *cc, const struct uccl_loss_info *loss, uint64_t now)
{
	struct swift *s = cc;

	swift_count(s, loss->bytes, 1);
	if (loss->kind == UCCL_LOSS_RTO)
		swift_timeout(s, loss, now);
	else if ((double)loss->last_rtt_ns >= swift_target(s) || s->loss_share > s->k->loss_share)
		swift_decrease(s, 1 - s->k->max_mdf, loss->srtt_ns, now);
}

/*
 * What they have together stays as it is, and grows as one would: each sees the delay that all make, and slows down for
 * it.
 */
static void swift_share(void *cc, uint32_t of)
{
	struct swift *s = cc;
	double more = s->of / of;

	s->of = of;
	s->ai = s->k->ai / of;
	s->fs_chunk = s->chunk / of;
	s->window_max = fmin(s->window_cap, fmax(s->window_cap / of, UCCL_SHARED_LEAST * s->chunk));
	swift_set_window(s, s->window * more);
}

const struct uccl_cc_ops uccl_cc_swift = {
	.name = "swift",
	.marks = true,
	.constants = swift_constants,
	.init = swift_init,
	.window = swift_window,
	.pace = swift_pace,
	.on_ack = swift_on_ack,
	.on_loss = swift_on_loss,
	.share = swift_share,
};
