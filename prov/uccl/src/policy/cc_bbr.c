/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * BBR in the manner of its third version (draft-ietf-ccwg-bbr): a model of the network, the rate that it delivers and
 * the least round trip, sets the pace; losses and marks bound what may be in flight. Most of the time it sends at the
 * rate of the model. Now and then it sends faster for a round trip, to see whether there is more, and slower after it.
 *
 * DESIGN NOTES
 * - Round trips are of a few us here, and flows are as short as a few hundred of them. So the times of the draft are
 *   in round trips: it probes every `cruise_rounds`, and looks for the least round trip every `min_rtt_rounds`.
 * - Flows of one receiver must not probe at the same time. The draft draws the time to the next probe at random; here
 *   it comes from the clock at which the flow got there, which is as good, and the same in each run of a seed.
 * - The least round trip is never taken to be longer again. In the draft it is, after a probe whose time is so long
 *   that all flows of a link make it at once and the queue is gone. Here they make it one by one, each would see the
 *   queue of the others, and allow itself a window for that: the queue doubled with every probe. A probe still finds
 *   a shorter one, for those that began in a queue. Paths of a fabric do not get longer by much.
 * - Losses of a lossy link say nothing of its rate: less than `loss_share` in a round trip changes nothing.
 */
#include "policy/policies.h"

#include <assert.h>
#include <math.h>

#include "base/units.h"

#define BBR_CONSTANTS(X)											\
	X(startup_gain, 2.77, 1.1, 10, "",									\
	  "pacing while the rate is being found (draft-ietf-ccwg-bbr: 4 ln 2)")					\
	X(drain_gain, 0.5, 0.05, 1, "",										\
	  "pacing until the queue of the start is gone (the same)")						\
	X(up_gain, 1.25, 1.01, 10, "",										\
	  "pacing while the policy probes for more (the same)")							\
	X(down_gain, 0.9, 0.05, 1, "",										\
	  "pacing after a probe, until its queue is gone (the same)")						\
	X(window_gain, 2, 1, 10, "BDPs",									\
	  "most bytes in flight, in bandwidth-delay products of the model (the same)")				\
	X(window_chunks, 24, 0, 1e4, "chunks",									\
	  "added to window_gain: acknowledgements come for a quarter of a window at a time (ours)")		\
	X(min_chunks, 4, 1, 1e4, "chunks",									\
	  "smallest window (the draft)")									\
	X(pace_share, 0.99, 0.5, 1, "",										\
	  "share of the model's rate that pacing uses, so that queues empty (the draft)")			\
	X(full_gain, 1.25, 1.01, 10, "",									\
	  "a rate that grows by a smaller factor in a round trip counts as not grown (the same)")		\
	X(full_rounds, 3, 1, 1000, "RTTs",									\
	  "after this many round trips without growth the rate is found (the same)")				\
	X(cruise_rounds, 8, 1, 1e6, "RTTs",									\
	  "at least this long between two probes, at most twice as long (ours; 2 to 3 s in the draft)")		\
	X(min_rtt_delays, 100, 10, 1e9, "delays",								\
	  "if the least round-trip time was not seen for this many normal delays, the policy looks for "	\
	  "it (ours; 5 s in the draft)")									\
	X(rtt_window, 0.1, 0.01, 1, "BDPs",									\
	  "bytes in flight while the policy looks for the least round-trip time (ours; 0.5 in the draft)")	\
	X(loss_share, 0.05, 0.0001, 1, "",									\
	  "a larger share lost in a round trip is congestion (ours; 0.02 in the draft, but a chunk is "		\
	  "lost with each of its packets)")									\
	X(mark_share, 0.5, 0.0001, 1, "",									\
	  "a larger share marked in a round trip is congestion (BBRv3)")					\
	X(beta, 0.7, 0.1, 0.99, "",										\
	  "share of the rate and of the bytes in flight that remains after congestion (the draft)")		\
	X(headroom, 0.85, 0.1, 1, "",										\
	  "between probes the flow uses at most this share of the bytes in flight at which losses began "	\
	  "(the same)")												\
	X(link_gbps, 10, 0.001, 1e5, "Gb/s",									\
	  "line rate, if the NIC does not know its own")

/* A share of losses is judged by more chunks than this. */
#define LOSS_SAMPLES 2
/* A round trip that is shorter by less is the same one. */
#define RTT_FALLS 0.05

UCCL_CONSTANTS(bbr, BBR_CONSTANTS);

enum bbr_state { BBR_STARTUP, BBR_DRAIN, BBR_DOWN, BBR_CRUISE, BBR_UP, BBR_RTT };

/* A round trip. Losses and marks are counted for longer if few chunks were sent in it. */
struct bbr_round {
	uint64_t begun, end; /* delivered: where these began to be counted, and where this round trip ends */
	double lost, marked; /* since then, bytes */
	double bw;	     /* most that was delivered in it */
};

struct bbr {
	const struct bbr_k *k;
	double link;		   /* bytes per ns, as are all rates: the most that it can have */
	double chunk, window_max;  /* bytes */
	double of;		   /* flows that share what one would have */
	double bw[2];		   /* most that was delivered: since the latest probe, and from the one before to it */
	double bw_lo;		   /* after losses; INFINITY: none */
	double hi, lo;		   /* bytes in flight: where a probe met losses, and after losses; INFINITY: none */
	double full_bw;		   /* latest rate that was growth */
	uint64_t rtt_ns, rtt_at;   /* least round trip, and when it was seen; 0: none yet */
	uint64_t rtt_was;	   /* before it was looked for, */
	uint64_t rtt_every;	   /* which is done so often, ns */
	struct bbr_round round;
	uint64_t inflight;
	uint32_t rounds;	   /* in this state */
	uint32_t cruise;	   /* how many there are to be between two probes */
	uint32_t flat;		   /* round trips without growth; UINT32_MAX: congestion ended the growth */
	uint8_t state;
	bool spoilt;		   /* this probe met congestion */
};

_Static_assert(sizeof(struct bbr) <= UCCL_CC_STATE, "state too large");

static double bbr_bw(const struct bbr *b)
{
	return fmax(b->bw[0], b->bw[1]);
}

static double bbr_bdp(const struct bbr *b)
{
	return bbr_bw(b) * (double)b->rtt_ns;
}

static void bbr_enter(struct bbr *b, enum bbr_state state)
{
	b->state = (uint8_t)state;
	b->rounds = 0;
}

static void bbr_init(void *cc, const struct uccl_policy_cfg *cfg, uint64_t now)
{
	struct bbr *b = cc;
	const struct bbr_k *k = UCCL_K(bbr, cfg);
	double bps = cfg->link_bps ? (double)cfg->link_bps : k->link_gbps * 1e9;
	double delay = (double)uccl_max(cfg->delay_ns, UCCL_NS_PER_US);

	(void)now;
	assert(cfg->chunk_bytes > 0);
	*b = (struct bbr){
		.k = k,
		.link = bps / 8 / (double)UCCL_NS_PER_S,
		.chunk = cfg->chunk_bytes,
		.of = 1,
		.window_max = (double)cfg->window_max,
		.bw_lo = INFINITY,
		.hi = INFINITY,
		.lo = INFINITY,
	};
	/* Until something was delivered: the link, and the delay that such a fabric has. */
	b->inflight = (uint64_t)(b->link * delay);
	b->rtt_every = (uint64_t)(k->min_rtt_delays * delay);
}

static uint64_t bbr_window(const void *cc)
{
	const struct bbr *b = cc;
	const struct bbr_k *k = b->k;
	double least = k->min_chunks * b->chunk, window;

	if (bbr_bw(b) <= 0 || !b->rtt_ns)
		window = (double)b->inflight;
	else if (b->state == BBR_RTT)
		window = k->rtt_window * bbr_bdp(b);
	else
		window = k->window_gain * bbr_bdp(b) + k->window_chunks * b->chunk / b->of;
	if (b->state == BBR_DOWN || b->state == BBR_CRUISE)
		window = fmin(window, fmin(b->lo, k->headroom * b->hi));
	else
		window = fmin(window, b->hi);
	return (uint64_t)fmin(b->window_max, fmax(least, window));
}

static double bbr_gain(const struct bbr *b)
{
	switch ((enum bbr_state)b->state) {
	case BBR_STARTUP:
		return b->k->startup_gain;
	case BBR_DRAIN:
		return b->k->drain_gain;
	case BBR_DOWN:
		return b->k->down_gain;
	case BBR_UP:
		return b->k->up_gain;
	case BBR_CRUISE:
	case BBR_RTT:
		break;
	}
	return 1;
}

static uint64_t bbr_pace(void *cc, uint32_t bytes, uint64_t srtt_ns, uint64_t now)
{
	const struct bbr *b = cc;
	double rate = b->k->pace_share * bbr_gain(b) * fmin(bbr_bw(b), b->bw_lo);

	(void)srtt_ns;
	/* At line rate the NIC paces better. */
	return rate <= 0 || rate >= b->link ? now : now + (uint64_t)(bytes / rate);
}

/* The rate was found. */
static bool bbr_full(const struct bbr *b)
{
	return b->flat >= b->k->full_rounds;
}

/* Does the rate grow no more, or was too much lost? */
static void bbr_look_full(struct bbr *b, bool limited, bool congested)
{
	if (!limited) {
		if (b->round.bw >= b->full_bw * b->k->full_gain) {
			b->full_bw = b->round.bw;
			b->flat = 0;
		} else {
			b->flat++;
		}
	}
	if (congested)
		b->flat = UINT32_MAX;
}

/* Of `all` bytes more was lost than noise loses. With few chunks in flight it takes several round trips to know. */
static bool bbr_lost(const struct bbr *b, double all)
{
	return b->round.lost > fmax(LOSS_SAMPLES * b->chunk, b->k->loss_share * all);
}

/* A round trip is over in which too much was lost or marked. */
static void bbr_congested(struct bbr *b)
{
	double had = fmax(b->round.bw * (double)b->rtt_ns, b->k->min_chunks * b->chunk);

	switch ((enum bbr_state)b->state) {
	case BBR_STARTUP:
		/* Nobody knows yet what fits: what was delivered in a round trip did. */
		b->hi = fmax(had, bbr_bdp(b));
		break;
	case BBR_UP:
		b->hi = fmax((double)b->inflight, b->k->beta * bbr_bdp(b) * b->k->window_gain);
		b->spoilt = true;
		break;
	case BBR_DRAIN:
	case BBR_DOWN:
	case BBR_CRUISE:
	case BBR_RTT:
		b->bw_lo = fmax(b->round.bw, b->k->beta * fmin(b->bw_lo, bbr_bw(b)));
		b->lo = fmax(had, b->k->beta * fmin(b->lo, (double)bbr_window(b)));
		break;
	}
}

static void bbr_cruise(struct bbr *b, uint64_t now)
{
	uint32_t least = (uint32_t)b->k->cruise_rounds;

	bbr_enter(b, BBR_CRUISE);
	b->cruise = least + (uint32_t)((now / 64) % (least + 1u));
}

static void bbr_up(struct bbr *b)
{
	/* Probes see the network as it is. */
	b->bw_lo = b->lo = INFINITY;
	b->spoilt = false;
	bbr_enter(b, BBR_UP);
}

static void bbr_look_rtt(struct bbr *b)
{
	b->rtt_was = b->rtt_ns;
	bbr_enter(b, BBR_RTT);
}

static void bbr_down(struct bbr *b)
{
	/*
	 * A new probe begins what is remembered of rates; the one before counts until the next. One that had little to
	 * send saw nothing.
	 */
	if (b->bw[0] > 0) {
		b->bw[1] = b->bw[0];
		b->bw[0] = 0;
	}
	bbr_enter(b, BBR_DOWN);
}

/* With each acknowledgement; `round`: a round trip is over. */
static void bbr_step(struct bbr *b, bool round, uint64_t now)
{
	double bdp = bbr_bdp(b), inflight = (double)b->inflight;

	b->rounds += round;
	/* What was under way when the window became smaller comes first. */
	if (b->state == BBR_RTT && inflight > (double)bbr_window(b))
		b->rounds = 0;
	switch ((enum bbr_state)b->state) {
	case BBR_STARTUP:
		if (bbr_full(b))
			bbr_enter(b, BBR_DRAIN);
		break;
	case BBR_DRAIN:
		if (inflight <= bdp || b->rounds > b->k->full_rounds)
			bbr_down(b);
		break;
	case BBR_DOWN:
		if (inflight <= fmin(bdp, b->k->headroom * b->hi) || b->rounds > b->k->full_rounds)
			bbr_cruise(b, now);
		break;
	case BBR_CRUISE:
		if (b->rounds >= b->cruise)
			bbr_up(b);
		break;
	case BBR_UP:
		/* What was allowed while nothing was lost is allowed from now on. */
		if (!b->spoilt && round && inflight > b->hi)
			b->hi = inflight;
		if (b->spoilt || b->rounds > 2 || (b->rounds && inflight >= b->k->up_gain * bdp)) {
			if (!b->spoilt && b->hi < INFINITY)
				b->hi *= b->k->up_gain;
			bbr_down(b);
		}
		break;
	case BBR_RTT:
		if (b->rounds < 2)
			break;
		b->rtt_at = now;
		/*
		 * The pipe was nearly empty: what losses said before is over (the draft). And packets that bw_lo keeps
		 * so far apart that this is due with each of them would never see a probe that ends it.
		 */
		b->bw_lo = b->lo = INFINITY;
		/* As long as it finds a shorter one it goes on. */
		if ((double)b->rtt_ns < (1 - RTT_FALLS) * (double)b->rtt_was)
			bbr_look_rtt(b);
		else
			bbr_cruise(b, now);
		break;
	}
}

static void bbr_rtt(struct bbr *b, uint64_t rtt_ns, uint64_t now)
{
	bool old = b->rtt_ns && now - b->rtt_at > b->rtt_every;

	if (!rtt_ns)
		return;
	if (!b->rtt_ns || rtt_ns <= b->rtt_ns) {
		b->rtt_ns = rtt_ns;
		b->rtt_at = now;
	} else if (old && bbr_full(b) && b->state != BBR_RTT) {
		bbr_look_rtt(b);
	}
}

static void bbr_on_ack(void *cc, const struct uccl_ack_info *ack, uint64_t now)
{
	struct bbr *b = cc;
	bool round = false, congested;

	b->round.marked += (double)ack->marked;
	bbr_rtt(b, ack->rtt_ns, now);
	if (!b->rtt_ns)
		return;
	if (ack->rate.ns) {
		double bw = fmin((double)ack->rate.bytes / (double)ack->rate.ns, b->link);

		/* Where there was little to send, only more than is known counts. */
		if (!ack->rate.limited || bw >= bbr_bw(b)) {
			b->bw[0] = fmax(b->bw[0], bw);
			b->round.bw = fmax(b->round.bw, bw);
		}
		round = ack->rate.prior >= b->round.end;
	}
	if (bbr_bw(b) <= 0)
		return;
	b->inflight = ack->inflight;
	if (round) {
		double all = (double)(ack->delivered - b->round.begun) + b->round.lost;

		congested = b->round.marked > b->k->mark_share * all || bbr_lost(b, all);
		if (congested)
			bbr_congested(b);
		if (!bbr_full(b))
			bbr_look_full(b, ack->rate.limited, congested);
		b->round.end = ack->delivered;
		if (congested || all >= LOSS_SAMPLES / b->k->loss_share * b->chunk) {
			b->round.begun = ack->delivered;
			b->round.lost = b->round.marked = 0;
		}
	}
	bbr_step(b, round, now);
	if (round)
		b->round.bw = 0;
}

static void bbr_on_loss(void *cc, const struct uccl_loss_info *loss, uint64_t now)
{
	struct bbr *b = cc;

	(void)now;
	b->round.lost += (double)loss->bytes;
	/* The network may be another one: what is in flight begins small, the rate is kept. */
	if (loss->kind == UCCL_LOSS_RTO)
		b->lo = b->k->min_chunks * b->chunk;
}

/*
 * What they have together stays as it is, and no rate is more than a part of the link. But each looks for more by
 * itself: on a slower link they get more than one would.
 */
static void bbr_share(void *cc, uint32_t of)
{
	struct bbr *b = cc;
	double more = b->of / of;

	b->of = of;
	b->link *= more;
	b->bw[0] *= more;
	b->bw[1] *= more;
	b->bw_lo *= more;
	b->full_bw *= more;
	b->round.bw *= more;
	b->hi *= more;
	b->lo *= more;
	if (bbr_bw(b) <= 0)
		b->inflight = (uint64_t)((double)b->inflight * more);
}

const struct uccl_cc_ops uccl_cc_bbr = {
	.name = "bbr",
	.marks = true,
	.constants = bbr_constants,
	.init = bbr_init,
	.window = bbr_window,
	.pace = bbr_pace,
	.on_ack = bbr_on_ack,
	.on_loss = bbr_on_loss,
	.share = bbr_share,
};
