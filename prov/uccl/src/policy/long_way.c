/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "policy/long_way.h"

#include <math.h>

#include "base/units.h"

/* Delay to aim at: a quarter of the round trip, but not more than the first, or than two bursts take. */
#define TARGET_SHARE 0.25
#define TARGET_NS (2.0 * (double)UCCL_NS_PER_MS)
#define TARGET_BURSTS 2
/* Of a queue that overflows the target takes so much, but no delay below the least is a queue's. */
#define TARGET_OF_FULL 0.4
#define FULL_LEAST_NS ((double)UCCL_NS_PER_MS)
/*
 * The pace is that of a window in a round trip without queues. A faster one, after a pause, would make a queue of a
 * part of what follows, at 1.25 a fifth of a window. A window that doubles is sent faster.
 */
#define START_PACE_GAIN 1.25
/* So much may leave at once: as many bursts, or what the pace carries in this time. A host may not run for so long. */
#define PACE_BURSTS 2
#define PACE_NS (2.0 * (double)UCCL_NS_PER_MS)
/*
 * It begins with so many packets at least (RFC 6928): that little is in flight when the first acknowledgement comes may
 * only say that the program had no more.
 */
#define BEGIN_CHUNKS 10
/* Share of losses that is no chance, beyond so many packets. */
#define LOST_SHARE 0.03
#define LOST_PACKETS 8
/* What remains of the window at least when a queue overflows, and for how many round trips it grows little then. */
#define LOST_LEAST 0.7
#define LOST_ROUNDS 8
/* Of the difference of bytes between delay and target so much is made up in a round trip. */
#define GAIN 0.25
#define FALL_MOST 0.3
/* Growth of a round trip, in bursts, so that windows become equal. */
#define FAIR_BURSTS 0.25
/*
 * After so many round trips without a queue the window grows by this factor, or by the other one if it will still hold
 * less than what the link was seen to carry. The answer takes a round trip.
 */
#define EMPTY_ROUNDS 2
#define EMPTY_GAIN 1.06
#define EMPTY_LINK_GAIN 1.25
/* While the window is less than this share of what the link carries, slow start is twice as fast. */
#define START_SHARE 0.125
/* Slow start ends when so many samples of a round trip have at least this delay, between both bounds (RFC 9406). */
#define START_SAMPLES 8
#define START_DELAY_SHARE 0.125
#define START_DELAY_LEAST_NS (4.0 * (double)UCCL_NS_PER_MS)
#define START_DELAY_MOST_NS (16.0 * (double)UCCL_NS_PER_MS)
/* So many round trips with the same delay, while the window shrank to this share, are a longer route. */
#define ROUTE_ROUNDS 4
#define ROUTE_SHARE 0.75
/* Every so many round trips the queue is emptied, by so much more than it seems to hold, at most by a share. */
#define DRAIN_ROUNDS 16
#define DRAIN_GAIN 1.5
#define DRAIN_MOST 0.25
/* Weight of a sample in the rate of the link. */
#define LINK_SMOOTH 0.25

static void round_begin(struct uccl_long_way_round *r, uint64_t delivered)
{
	*r = (struct uccl_long_way_round){.end = delivered, .least = INFINITY};
}

void uccl_long_way_init(struct uccl_long_way *w, const struct uccl_long_way_cfg *cfg)
{
	*w = (struct uccl_long_way){.cfg = *cfg};
}

static double target(const struct uccl_long_way *w)
{
	double bursts = w->link > 0 ? TARGET_BURSTS * w->cfg.burst / w->link : 0;

	return fmin(fmin(TARGET_SHARE * w->base_ns, fmax(TARGET_NS, bursts)), TARGET_OF_FULL * w->full_ns);
}

static void set(struct uccl_long_way *w, double window)
{
	w->window = fmax(fmin(window, w->cfg.most * w->cfg.share), w->cfg.chunk);
}

void uccl_long_way_begin(struct uccl_long_way *w, double bytes, double most, double base_ns)
{
	struct uccl_long_way_cfg cfg = w->cfg;

	uccl_long_way_init(w, &cfg);
	set(w, fmin(fmax(bytes, BEGIN_CHUNKS * cfg.chunk), most));
	w->base_ns = base_ns;
	w->full_ns = INFINITY;
	round_begin(&w->round, 0);
}

void uccl_long_way_share(struct uccl_long_way *w, double more)
{
	w->cfg.share *= more;
	set(w, w->window * more);
}

void uccl_long_way_lost(struct uccl_long_way *w, double bytes, bool silent)
{
	w->round.lost += bytes;
	if (silent)
		set(w, w->window / 2);
}

/* The route is as long as the sample says, if not shorter than it ever was. Returns the delay of queues. */
static double base_see(struct uccl_long_way *w, const struct uccl_ack_info *ack)
{
	double rtt = (double)ack->rtt_ns, least = (double)ack->min_rtt_ns;

	w->detour_ns = fmax(0, fmin(w->detour_ns, rtt - least));
	w->base_ns = least + w->detour_ns;
	return fmax(0, rtt - w->base_ns);
}

/* The slow start ends with what the network delivers in a round trip. */
static void start_end(struct uccl_long_way *w, const struct uccl_ack_info *ack)
{
	double rate = ack->rate.ns ? (double)ack->rate.bytes / (double)ack->rate.ns : 0;
	double carries = rate * (w->base_ns + target(w) / 2);

	w->started = true;
	set(w, fmin(w->window, rate > 0 ? carries : w->window / 2));
}

/* Does a queue grow? A host that waits makes some samples longer, and so does a burst. (HyStart++, RFC 9406 4.2) */
static bool start_queue(const struct uccl_long_way *w)
{
	double queue = fmin(fmax(w->base_ns * START_DELAY_SHARE, START_DELAY_LEAST_NS), START_DELAY_MOST_NS);

	if (w->link > 0)
		queue += w->cfg.burst / w->link;
	return w->round.samples >= START_SAMPLES && w->round.least > queue;
}

static void start(struct uccl_long_way *w, const struct uccl_ack_info *ack)
{
	double bytes = (double)ack->bytes, full = w->link * w->base_ns * w->cfg.share;

	if (ack->spread.ns) {
		double rate = (double)ack->spread.bytes / (double)ack->spread.ns;

		w->link += (w->link > 0 ? LINK_SMOOTH : 1) * (rate - w->link);
	}
	if (start_queue(w)) {
		start_end(w, ack);
		return;
	}
	if (ack->app_limited)
		return;
	if (full > 0 && w->window < START_SHARE * full)
		bytes *= 3;
	if (full > 0 && w->window + bytes >= full) {
		set(w, fmax(w->window, full));
		w->started = true;
		return;
	}
	set(w, w->window + bytes);
}

/* Was so much lost in this round trip that a queue overflowed? */
static bool round_overflowed(const struct uccl_long_way *w)
{
	const struct uccl_long_way_round *r = &w->round;

	return r->lost > LOST_PACKETS * w->cfg.chunk + LOST_SHARE * (r->acked + r->lost);
}

static void overflow(struct uccl_long_way *w, const struct uccl_ack_info *ack)
{
	const struct uccl_long_way_round *r = &w->round;

	if (r->most >= FULL_LEAST_NS)
		w->full_ns = fmin(w->full_ns, r->most);
	if (!w->started)
		start_end(w, ack);
	else
		set(w, fmax(fmin(r->acked, w->window), LOST_LEAST * w->window));
	w->held = LOST_ROUNDS;
	w->empty = 0;
}

/* True: the round trip shows that the route became longer. */
static bool route_longer(struct uccl_long_way *w)
{
	double least = w->round.least, aim = target(w);

	/* A full queue has the same delay, too. */
	if (least <= 2 * aim || w->held) {
		w->steady = 0;
		return false;
	}
	if (!w->steady || fabs(least - w->steady_ns) > aim / 2) {
		w->steady = 1;
		w->steady_ns = least;
		w->steady_window = w->window;
		return false;
	}
	if (++w->steady < ROUTE_ROUNDS || w->window > ROUTE_SHARE * w->steady_window)
		return false;
	/* What was delivered before is delivered again. */
	set(w, w->steady_window * (w->base_ns + least) / w->base_ns);
	w->detour_ns += least;
	w->base_ns += least;
	w->steady = 0;
	return true;
}

static void follow(struct uccl_long_way *w)
{
	const struct uccl_long_way_round *r = &w->round;
	double aim = target(w), off = r->least - aim, part = fabs(off) / (w->base_ns + fmax(r->least, aim));

	w->empty = r->least < aim / 4 ? w->empty + 1 : 0;
	if (off > 0) {
		set(w, w->window * (1 - fmin(FALL_MOST, GAIN * part)));
		return;
	}
	/* What was not used is not known to fit. */
	if (r->inflight < w->window / 2)
		return;
	if (w->empty >= EMPTY_ROUNDS && !w->held) {
		double full = w->link * w->base_ns * w->cfg.share;

		w->empty = 0;
		/* Hosts that wait make some samples longer; beyond what is known to fit there must be none. */
		if (w->window < full || r->most < aim / 4) {
			double gain = w->window < full ? EMPTY_LINK_GAIN : EMPTY_GAIN;

			set(w, fmax(fmin(w->window * gain, full), w->window * EMPTY_GAIN));
			return;
		}
	}
	set(w, w->window * (1 + (w->held ? 0 : GAIN * part)) + FAIR_BURSTS * w->cfg.burst * w->cfg.share);
}

/* An empty queue shows how long the way is: to this flow, and to those whose acknowledgements wait in this queue. */
static void drain(struct uccl_long_way *w)
{
	/* What counts as a longer route may be a queue. */
	double part = DRAIN_GAIN * (w->round.least + w->detour_ns) / (w->base_ns + w->round.least);

	if (!w->started || w->round.least >= INFINITY || ++w->filled < DRAIN_ROUNDS)
		return;
	w->filled = 0;
	w->less = w->window * fmin(part, DRAIN_MOST);
}

static void round_end(struct uccl_long_way *w, const struct uccl_ack_info *ack)
{
	/* What left while the queue was emptied is heard of in the next round trip. */
	bool drained = w->filled <= 1;

	w->held -= w->held > 0;
	w->less = 0;
	/* What was sent with the window of before is no news. */
	if (w->held < LOST_ROUNDS - 1 && round_overflowed(w))
		overflow(w, ack);
	else if (w->started && !drained && w->round.least < INFINITY && !route_longer(w))
		follow(w);
	drain(w);
	round_begin(&w->round, ack->delivered);
}

void uccl_long_way_acked(struct uccl_long_way *w, const struct uccl_ack_info *ack)
{
	struct uccl_long_way_round *r = &w->round;

	r->acked += (double)ack->bytes;
	if (!ack->app_limited)
		r->inflight = fmax(r->inflight, (double)(ack->inflight + ack->bytes));
	if (ack->rtt_ns) {
		double delay = base_see(w, ack);

		r->samples++;
		r->least = fmin(r->least, delay);
		r->most = fmax(r->most, delay);
	}
	if (!w->started)
		start(w, ack);
	if (ack->rate.prior >= r->end && ack->rate.ns)
		round_end(w, ack);
}

uint64_t uccl_long_way_pace(struct uccl_long_way *w, uint32_t bytes, uint64_t now)
{
	double rate = (w->started ? 1 : START_PACE_GAIN) * w->window / w->base_ns;
	double depth = fmin(fmax(PACE_BURSTS * w->cfg.burst, PACE_NS * rate), w->window);
	uint64_t most = now + (uint64_t)(w->window / rate);

	/* More than a window is not held back: after a round trip the acknowledgements say what may leave. */
	w->paced_ns = uccl_min(uccl_max(w->paced_ns, now) + (uint64_t)(bytes / rate), most);
	return w->paced_ns > now + (uint64_t)(depth / rate) ? w->paced_ns - (uint64_t)(depth / rate) : now;
}
