/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * NSCC, the congestion control of Ultra Ethernet's senders. Its four cases are marked by the network (ECN) or not, with
 * the delay above the target or below: unmarked packets make the window grow, by much or by little; marked ones make it
 * shrink above the target, and leave it as it is below.
 *
 * Many networks mark nothing, and most RDMA NICs do not tell software of marks. Where no mark has come for a while, the
 * delay alone decides: the decrease takes the place of the increase for unmarked packets whenever the average delay,
 * too, is above the target. What is said of NSCC elsewhere does not hold for this variant.
 *
 * The reference is told its round trip without queues. Here it is the least that was seen, or all would be queue to a
 * flow that goes farther than is normal for its NIC; and what is normal for the NIC stays the least target. Whoever
 * begins when queues are full has never seen a round trip without them. Were all of it the target, the queues would
 * stay as they are, so of a longer round trip only a part is.
 *
 * The delay is that of a path, and a flow has many. If the least delay of a round trip is near the average, all paths
 * meet one queue, and the target holds for everybody. Else the paths meet several queues, as behind uplinks that carry
 * less than the hosts. There flows that meet two queues, and flows that yielded once too often, would go on yielding to
 * those with large windows. So the target grows as the window shrinks (Swift's flow scaling does the same): equal flows
 * come to equal windows, and two queues take less from a flow than all it has. Delays of hosts are no queues: they
 * differ from sample to sample, and the least of some samples has next to nothing of them.
 *
 * The reference knows the rate of its links, and queues that are long enough for its target. Behind a NIC there may be
 * a link that is a hundred times slower than the NIC says, with queues that overflow before their delay reaches the
 * target. So a flow begins with little where the NIC says nothing of the network, counts its gains by the rate at which
 * the network delivers, and, if loss_share says so, takes many losses for a queue that overflows. Few losses mean
 * nothing: links have them.
 *
 * Formulas and constants of the reference: UEC's published simulator (uec.cpp), for 100 Gb/s and 12 us.
 */
#include "policy/long_way.h"
#include "policy/policies.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/units.h"

/*
 * Chunks on top of window and target: the reference sprays packets, and what we send at once on one path is eight times
 * as long. So many wait before the NIC, for the acknowledgement that tells of several, and in queues where chunks of
 * many senders meet. Found with 32 KiB on 128 hosts of three tiers; with twice as much nothing was better.
 * Of packets that leave in a row on one path, such a train is meant.
 */
#define NSCC_CONSTANTS(X)											\
	X(ref_rtt_us, 12, 0.1, 1e6, "us",									\
	  "round trip for which the reference is tuned")							\
	X(ref_bdp, 150000, 1000, 1e9, "bytes",									\
	  "bandwidth-delay product of the reference, at 100 Gb/s")						\
	X(mss, 4096, 64, 1e6, "bytes",										\
	  "size of the packets in which the gains are counted")							\
	X(target_rtts, 1, 0.01, 100, "RTTs",									\
	  "target of the queueing delay, in base round trips (reference, without trimming)")			\
	X(max_bdps, 1.5, 0.1, 100, "BDPs",									\
	  "largest window (reference)")										\
	X(max_chunks, 20, 0, 1e4, "chunks, trains",								\
	  "added to the largest window (see cc_nscc.c); a larger value makes longer queues and slows "		\
	  "flows that pass two of them; with 16, NICs stand idle in a permutation of 1024 hosts")		\
	X(start, 20, 0, 1e4, "chunks, trains",								\
	  "max_chunks begins with at most this many; it grows by one in a round trip whose least delay is "	\
	  "below a quarter of the target, and falls by one if that is above half of it (ours)")			\
	X(normal_bytes, 600000, 1000, 1e9, "bytes",								\
	  "of a round trip that is normal for the NIC only as much counts as the link takes to carry these "	\
	  "bytes, unless the base round trip is several times longer: queues are limited in bytes (ours)")	\
	X(far, 0.25, 0, 1, "share",										\
	  "if the base round trip is longer than normal for the NIC, only this share of it counts in "		\
	  "the target; the rest may be a queue that was there when the flow began (ours)")			\
	X(target_chunks, 8, 0, 1e4, "chunks, trains",								\
	  "added to the target (see cc_nscc.c)")								\
	X(first_chunks, 8, 0, 1e4, "chunks, trains",								\
	  "added to the first window; with 24, senders whose links carry half the rate lose chunks for "	\
	  "several time-outs")											\
	X(blind_us, 70, 0.1, 1e6, "us",										\
	  "before the first acknowledgement at most the bytes that the link carries in this time are in "	\
	  "flight, then at most these and those acknowledged; a NIC with a longer normal round trip is "	\
	  "software and tells nothing of the network, so its limit is smaller in proportion (ours)")		\
	X(blind_chunks, 64, 1, 1e6, "chunks",									\
	  "at least this many chunks may be in flight despite blind_us (ours)")					\
	X(alpha, 4, 0.01, 1000, "packets",									\
	  "gain of the proportional increase (reference)")							\
	X(fair, 5, 0.01, 1000, "packets",									\
	  "gain of the fair increase (reference)")								\
	X(eta, 0.15, 0, 1000, "packets",									\
	  "gain of the steady increase (reference)")								\
	X(gamma, 0.8, 0.01, 1, "",										\
	  "decrease: factor of the relative excess of the delay (reference), times the square of the "		\
	  "ratio of the window to the largest window (ours)")						\
	X(md_floor, 0.5, 0.01, 0.99, "share",									\
	  "a decrease leaves at least this share of the window (reference)")					\
	X(ewma, 0.0125, 0.0001, 1, "share",									\
	  "weight of one packet in the average delay (reference)")						\
	X(fast, 0.25, 0, 10, "share",										\
	  "fast increase: the window grows by this share of the acknowledged bytes (reference)")		\
	X(fast_us, 1, 0, 1e6, "us",										\
	  "fast increase begins when a whole window had less delay than this (reference)")			\
	X(quick_share, 8, 1, 1e4, "",										\
	  "quick adapt: less than this part (1/N) of the largest window arrived in a round trip "		\
	  "(reference)")											\
	X(quick_targets, 4, 0.1, 1e4, "targets",								\
	  "quick adapt: and the delay was above this, or much was lost, or anything while all delays were "	\
	  "above the target of such a window (reference, ours)")						\
	X(loss_share, 1, 0, 1, "share",										\
	  "if more than this share is lost in a round trip, the network drops the excess, and the "		\
	  "window becomes what arrived; 1: never, for writes of several packets: one lost packet loses "	\
	  "the write, and credits limit them where many senders meet (ours)")					\
	X(loss_rtts, 32, 0, 60000, "RTTs",									\
	  "after such a loss the window grows by the fair increase only, for this many round trips "		\
	  "(ours)")												\
	X(adjust_pkts, 8, 1, 1e4, "packets",									\
	  "the gains are applied after this many packets, or after a round trip (reference)")			\
	X(mark_rtts, 32, 1, 1e6, "RTTs",									\
	  "after a mark the policy assumes a network that marks, for this many round trips with queues")	\
	X(rate_gain, 2, 1, 1e6, "",										\
	  "a flow may have this many times the rate at which the network delivered lately (ours)")		\
	X(rate_rounds, 8, 1, 1e4, "RTTs",									\
	  "the largest window follows the highest rate at which the network delivered in this many "		\
	  "round trips, or in twice as many (ours)")								\
	X(far_ms, 4, 0, 1e6, "ms",										\
	  "from such a base round trip on, if it is several times longer than normal, the way is long: the "	\
	  "window is paced, and follows the delay slowly (policy/long_way.h, ours)")				\
	X(link_gbps, 10, 0.001, 1e5, "Gb/s",									\
	  "line rate, if the NIC does not know its own")

UCCL_CONSTANTS(nscc, NSCC_CONSTANTS);

/*
 * A flow meets several queues if its least delay is a smaller part of the average than this. The part is 0.83 to 0.93
 * where three senders share the link of their receiver, and mostly 0.1 to 0.83 behind uplinks that have a quarter of
 * the rate of the hosts.
 */
#define NSCC_ONE_QUEUE 0.8
/*
 * And if the average is longer than the least by this part of the target. Less is what hosts add, each time another
 * delay: behind a single queue the least of some samples is about the queue, and the average is longer.
 */
#define NSCC_JITTER 0.25
/* If the least delay is below this part of the target, hosts are late, not queues: to send less is no cure. */
#define NSCC_NO_QUEUE 0.125
/* That least delay is the least of this many samples or more, however few samples a round trip has. */
#define NSCC_LEAST_OF 8
/* The target of a flow that meets several queues is at most this many times as long. */
#define NSCC_TARGET_MOST 4

/* A base round trip that is this many times longer than the link takes for normal_bytes is that of a long way. */
#define NSCC_LONG_WAY 4

/* What the network delivered: rates are bits per second. */
struct nscc_net {
	double now;	 /* highest in this round trip, */
	double best[2];	 /* in those lately, and in those before */
	uint64_t end;	 /* delivered, when the present round trip ends */
	uint16_t rounds; /* of best[0] */
	uint16_t lossy;	 /* round trips to come in which the network may throw away what is too much */
	float lost;	 /* bytes lost in this round trip */
};

/* The increase to be applied. */
struct nscc_inc {
	double sum;   /* byte^2 */
	double acked; /* bytes since it was applied */
	uint64_t at;  /* when it is at the latest */
};

/* Least queueing delay of a round trip, and what follows from it. */
struct nscc_least {
	double now_ns;	  /* of the present one, */
	double before_ns; /* and of the last one */
	uint64_t end;	  /* delivered, when the present one ends */
	double some_ns;	  /* of the samples since many_ns was set, */
	double many_ns;	  /* and of NSCC_LEAST_OF or more before them */
	uint32_t samples; /* number of those in some_ns */
	double room;	  /* chunks in the largest window beyond the bandwidth-delay product */
};

struct nscc {
	const struct nscc_k *k;
	double window, window_max;    /* bytes */
	double blind;		      /* bytes that may be in flight, as what has come says so much of the network */
	double window_cap;	      /* bytes, of window_max: what the flow can have in flight */
	double bps;		      /* of the link */
	double most;		      /* share that it may have of what one flow has */
	struct nscc_net net;
	double normal_ns;	      /* round trip that is normal for this back end */
	double base_ns, target_ns;    /* round trip without queues; queueing delay to aim at */
	double gain;		      /* bandwidth-delay product that it can have, in that of the reference */
	double avg_ns;		      /* average queueing delay */
	struct nscc_least least;
	struct nscc_inc inc;
	double fast;		      /* bytes acknowledged without delay, in a row */
	double achieved;	      /* bytes acknowledged in this round trip */
	double expected;	      /* and in flight when it began: more could not be */
	uint64_t round_at;	      /* end of the present round trip */
	uint64_t decreased_ns;	      /* UCCL_NEVER: not yet */
	uint64_t marked_ns;	      /* when the last mark was heard of; UCCL_NEVER: none yet */
	struct uccl_long_way far;     /* chunk and burst; what replaces all this while the way is long */
};

_Static_assert(sizeof(struct nscc) <= UCCL_CC_STATE, "state too large");

/* Bandwidth-delay product, bytes. */
static double nscc_bdp(const struct nscc *n)
{
	return n->bps / 8 * n->base_ns / (double)UCCL_NS_PER_S;
}

/* Time that the link takes to carry these bytes. */
static double nscc_carry_ns(const struct nscc *n, double bytes)
{
	return bytes * 8 * (double)UCCL_NS_PER_S / n->bps;
}

/*
 * The part of the normal round trip that may be a queue. A longer base round trip than the link and such a queue have
 * is that of a long way, or of a link that is much slower than the NIC says.
 */
static double nscc_normal_ns(const struct nscc *n, double base_ns)
{
	double queue = nscc_carry_ns(n, n->k->normal_bytes);

	return base_ns > NSCC_LONG_WAY * queue ? n->normal_ns : fmin(n->normal_ns, queue);
}

/* The highest lately, 0: not known. */
static double net_best(const struct nscc_net *r)
{
	return fmax(r->best[0], r->best[1]);
}

static void least_init(struct nscc_least *l, double room)
{
	l->now_ns = l->some_ns = l->many_ns = INFINITY;
	l->room = room;
}

static double least_room(const struct nscc_least *l)
{
	return l->room;
}

/* What it can have of the link, as far as is known. */
static double nscc_share(const struct nscc *n)
{
	double rate = net_best(&n->net);

	return rate > 0 ? fmin(n->most, n->k->rate_gain * rate / n->bps) : n->most;
}

/*
 * All that follows from the round trip without queues. The gain is that of a link that carries what the flow can
 * have: with those of the NIC's link a flow over a much slower one fills all queues in a single round trip. The target
 * is that of all flows that share: the queue is theirs together.
 */
static void nscc_base(struct nscc *n, double base_ns)
{
	const struct nscc_k *k = n->k;
	double share = nscc_share(n), normal = nscc_normal_ns(n, base_ns), burst = n->far.cfg.burst, bdp;

	n->base_ns = base_ns;
	bdp = nscc_bdp(n);
	n->target_ns = k->target_rtts * fmax(k->far * base_ns, normal) + nscc_carry_ns(n, k->target_chunks * burst);
	n->window_max = fmin(n->window_cap, k->max_bdps * share * bdp + least_room(&n->least) * burst * n->most);
	/* One is filled while another is on its way. */
	if (n->most < 1)
		n->window_max = fmin(n->window_cap, fmax(n->window_max, UCCL_SHARED_LEAST * burst));
	n->gain = bdp * share / k->ref_bdp;
}

/* Gains, bytes. The proportional one is per ns. */
static double nscc_fair(const struct nscc *n)
{
	return n->k->fair * n->k->mss * n->gain;
}

static double nscc_eta(const struct nscc *n)
{
	return n->k->eta * n->k->mss * n->gain;
}

static double nscc_alpha(const struct nscc *n)
{
	double ref_ns = n->k->ref_rtt_us * (double)UCCL_NS_PER_US;

	return n->k->alpha * n->k->mss * n->gain * (n->target_ns / ref_ns) / n->target_ns;
}

static void nscc_init(void *cc, const struct uccl_policy_cfg *cfg, uint64_t now)
{
	struct nscc *n = cc;
	const struct nscc_k *k = UCCL_K(nscc, cfg);
	double first, blind_ns;

	assert(cfg->chunk_bytes > 0);
	memset(n, 0, sizeof(*n));
	n->k = k;
	uccl_long_way_init(&n->far, &(struct uccl_long_way_cfg){
					    .chunk = cfg->chunk_bytes,
					    .burst = (double)uccl_max(cfg->chunk_bytes, cfg->burst_bytes),
					    .most = (double)uccl_max(cfg->long_max, cfg->window_max),
					    .share = 1,
				    });
	n->bps = cfg->link_bps ? (double)cfg->link_bps : k->link_gbps * 1e9;
	n->window_cap = (double)cfg->window_max;
	n->most = 1;
	least_init(&n->least, fmin(k->start, k->max_chunks));
	n->normal_ns = cfg->delay_ns ? (double)cfg->delay_ns : k->ref_rtt_us * (double)UCCL_NS_PER_US;
	nscc_base(n, nscc_normal_ns(n, 0));
	first = k->max_bdps * nscc_bdp(n) + k->first_chunks * n->far.cfg.burst;
	n->window = fmin(n->window_max, first);
	blind_ns = k->blind_us * (double)UCCL_NS_PER_US;
	n->blind = fmax(k->blind_chunks * n->far.cfg.chunk,
			n->bps / 8 / (double)UCCL_NS_PER_S * blind_ns * blind_ns / n->base_ns);
	n->inc.at = n->round_at = now + (uint64_t)n->base_ns;
	n->decreased_ns = n->marked_ns = UCCL_NEVER;
}

static void nscc_set(struct nscc *n, double bytes)
{
	n->window = fmax(n->k->mss, fmin(bytes, n->window_max));
}

/* The least round trip is known, or is another one. True: the way is long. */
static bool nscc_far(struct nscc *n, const struct uccl_ack_info *ack, uint64_t now)
{
	double ms = (double)UCCL_NS_PER_MS, base = n->base_ns;
	bool far = base >= n->k->far_ms * ms && base > NSCC_LONG_WAY * n->normal_ns;

	if (far && !uccl_long_way_is(&n->far))
		uccl_long_way_begin(&n->far, (double)(ack->inflight + ack->bytes), fmin(n->window, n->blind), base);
	if (!far && uccl_long_way_is(&n->far)) {
		nscc_set(n, n->far.window);
		uccl_long_way_end(&n->far);
		/* What came of the round trips of the long way says nothing of one that is short. */
		n->achieved = n->expected = 0;
		n->round_at = now + (uint64_t)base;
	}
	return far;
}

static uint64_t nscc_window(const void *cc)
{
	const struct nscc *n = cc;

	if (uccl_long_way_is(&n->far))
		return (uint64_t)uccl_long_way_window(&n->far);
	return (uint64_t)fmin(n->window, n->blind);
}

/* Below one chunk the window is held by time. */
static uint64_t nscc_pace(void *cc, uint32_t bytes, uint64_t srtt_ns, uint64_t now)
{
	struct nscc *n = cc;
	double rtt = srtt_ns ? fmin((double)srtt_ns, 16 * n->base_ns) : n->base_ns;

	if (uccl_long_way_is(&n->far))
		return uccl_long_way_pace(&n->far, bytes, now);
	return n->window >= n->far.cfg.chunk ? now : now + (uint64_t)(rtt * bytes / n->window);
}

/* The bytes that a round trip lost; the next one begins. */
static double net_round(struct nscc_net *r)
{
	double lost = r->lost;

	r->lost = 0;
	return lost;
}

/* Will the network throw away what is too much, in the next round trip? `much`: it did so in the last one. */
static bool net_lossy_next(struct nscc_net *r, bool much, double rounds)
{
	if (much)
		r->lossy = (uint16_t)rounds;
	else if (r->lossy)
		r->lossy--;
	return r->lossy;
}

static bool net_lossy(const struct nscc_net *r)
{
	return r->lossy;
}

static void net_lost(struct nscc_net *r, uint64_t bytes)
{
	r->lost += (float)bytes;
}

/* The flow now has this share of the rate that it had. */
static void net_share(struct nscc_net *r, double share)
{
	r->now *= share;
	r->best[0] *= share;
	r->best[1] *= share;
}

/* Of a whole round trip, the latest that there was. */
static double least_delay(const struct nscc_least *l)
{
	return fmin(l->now_ns, l->before_ns);
}

/* Of NSCC_LEAST_OF samples or more, the latest that there were; of all, if there were fewer. */
static double least_of_many(const struct nscc_least *l)
{
	return fmin(l->some_ns, l->many_ns);
}

/* The queueing delay that this flow aims at: longer for a small window that meets several queues. */
static double nscc_aim(const struct nscc *n)
{
	double part = n->window_max / n->window, least = least_of_many(&n->least);

	if (least >= NSCC_ONE_QUEUE * n->avg_ns || n->avg_ns - least <= NSCC_JITTER * n->target_ns)
		return n->target_ns;
	return n->target_ns * fmin(part * part, NSCC_TARGET_MOST);
}

/*
 * Did the network lose what did not arrive? A few losses may be those of one path: while the least delay of the round
 * trip is below what the flow aims at, others have room.
 */
static bool nscc_lost(const struct nscc *n, double aim, double arrived, double lost)
{
	return lost > arrived / 2 || (lost > 0 && least_delay(&n->least) > aim);
}

/*
 * The end of a round trip: did next to nothing arrive of what was under way, or was much of it lost? True: the window
 * is what arrived. Who sent less than that, as it had no more or waited for credit, learns nothing of the network.
 * Loss alone, which may have hit one flow by chance, takes no more than a decrease does.
 */
static bool nscc_quick_adapt(struct nscc *n, const struct uccl_ack_info *ack, double delay, uint64_t now)
{
	double little = n->window_max / n->k->quick_share, arrived = n->achieved;
	double lost = net_round(&n->net), aim = nscc_aim(n);
	/* One chunk of a few is a large share, and may be chance. */
	bool much = lost > n->far.cfg.chunk && lost > n->k->loss_share * (arrived + lost);
	bool few = arrived < little && n->expected >= little &&
		   (delay > n->k->quick_targets * aim || nscc_lost(n, aim, arrived, lost));

	n->achieved = 0;
	n->expected = (double)ack->inflight;
	n->round_at = now + (net_lossy_next(&n->net, much, n->k->loss_rtts) ? ack->rtt_ns
									    : (uint64_t)(n->base_ns + aim));
	if (arrived >= n->window || !(few || much))
		return false;
	nscc_set(n, few ? arrived : fmax(arrived, n->k->md_floor * n->window));
	n->inc.sum = n->inc.acked = 0;
	n->decreased_ns = now;
	return true;
}

static void nscc_adjust(struct nscc *n, uint64_t now)
{
	bool round = now >= n->inc.at;

	if (n->inc.acked < n->k->adjust_pkts * n->k->mss * n->most && !round)
		return;
	nscc_set(n, n->window + n->inc.sum / n->window + (round ? nscc_eta(n) : 0));
	n->inc.sum = n->inc.acked = 0;
	if (round)
		n->inc.at = now + (uint64_t)n->base_ns;
}

static void nscc_decrease(struct nscc *n, double aim, uint64_t now)
{
	double part = n->window / n->window_max, late;

	if (n->decreased_ns != UCCL_NEVER && now - n->decreased_ns < (uint64_t)(n->base_ns + n->target_ns))
		return;
	n->decreased_ns = now;
	n->inc.sum = 0;
	/* Large windows make the queues. A small window yields little, or flows with two queues starve. */
	late = (n->avg_ns - aim) / n->avg_ns;
	nscc_set(n, n->window * fmax(1 - n->k->gamma * part * part * late, n->k->md_floor));
}

/* Would the network have marked what waits too long? */
static bool nscc_marked_lately(const struct nscc *n, uint64_t now)
{
	return n->marked_ns != UCCL_NEVER &&
	       (double)(now - n->marked_ns) < n->k->mark_rtts * (n->base_ns + n->target_ns);
}

/*
 * A sample of what the network delivered. Whose window waits in queues (`queued`), or overflows them, gets what the
 * network can do. What was held back, or sent too little, says only that it can do so much.
 */
static void net_add(struct nscc_net *r, const struct uccl_ack_info *ack, bool queued, double rounds)
{
	double rate = (double)ack->rate.bytes * 8 * (double)UCCL_NS_PER_S / (double)ack->rate.ns;

	r->now = fmax(r->now, rate);
	if (ack->rate.prior < r->end)
		return;
	r->end = ack->delivered;
	queued = queued || r->lossy;
	if (queued || r->best[0] + r->best[1] > 0)
		r->best[0] = fmax(r->best[0], r->now);
	if (queued && ++r->rounds > rounds) {
		r->rounds = 0;
		r->best[1] = r->best[0];
		r->best[0] = r->now;
	}
	r->now = 0;
}

/* What did the network deliver? True: this changes what the flow can have of the link. */
static bool nscc_rate(struct nscc *n, const struct uccl_ack_info *ack)
{
	double was = nscc_share(n);

	if (!ack->rate.ns)
		return false;
	net_add(&n->net, ack, n->avg_ns > n->target_ns, n->k->rate_rounds);
	return nscc_share(n) != was;
}

/* A sample of a round trip's least delay. True: the round trip has ended. */
static bool least_add(struct nscc_least *l, const struct uccl_ack_info *ack, double delay)
{
	l->now_ns = fmin(l->now_ns, delay);
	l->some_ns = fmin(l->some_ns, delay);
	l->samples++;
	if (ack->rate.prior < l->end)
		return false;
	if (l->samples >= NSCC_LEAST_OF) {
		l->many_ns = l->some_ns;
		l->some_ns = INFINITY;
		l->samples = 0;
	}
	l->before_ns = l->now_ns;
	l->now_ns = INFINITY;
	l->end = ack->delivered;
	return true;
}

/* At the end of a round trip: where all paths have queues, more chunks would only make them longer. */
static void least_step(struct nscc_least *l, const struct nscc_k *k, double target_ns, bool app_limited)
{
	if (l->before_ns > target_ns / 2)
		l->room = fmax(fmin(k->start, l->room), l->room - 1);
	else if (l->before_ns < target_ns / 4 && !app_limited)
		l->room = fmin(k->max_chunks, l->room + 1);
}

/* Are packets late, and is less in flight the answer? Where the network marks, only what is marked is late. */
static bool nscc_late(const struct nscc *n, const struct uccl_ack_info *ack, double delay, double aim, uint64_t now)
{
	bool queue = least_delay(&n->least) >= NSCC_NO_QUEUE * n->target_ns;

	return delay >= aim && n->avg_ns > aim && (ack->marked || (queue && !nscc_marked_lately(n, now)));
}

static void nscc_on_ack(void *cc, const struct uccl_ack_info *ack, uint64_t now)
{
	struct nscc *n = cc;
	double bytes = (double)ack->bytes, clean = fmax(0, bytes - (double)ack->marked), delay, aim;

	n->achieved += bytes;
	n->blind = fmin(n->window_cap, n->blind + bytes);
	n->inc.acked += bytes;
	if (ack->marked)
		n->marked_ns = now;
	if (ack->min_rtt_ns && ack->min_rtt_ns != UINT64_MAX && (double)ack->min_rtt_ns != n->base_ns) {
		nscc_base(n, (double)ack->min_rtt_ns);
		nscc_set(n, n->window);
	}
	if (nscc_far(n, ack, now)) {
		uccl_long_way_acked(&n->far, ack);
		return;
	}
	if (nscc_rate(n, ack)) {
		nscc_base(n, n->base_ns);
		nscc_set(n, n->window);
	}
	if (!ack->rtt_ns)
		return;
	delay = fmax(0, (double)ack->rtt_ns - n->base_ns);
	if (least_add(&n->least, ack, delay)) {
		least_step(&n->least, n->k, n->target_ns, ack->app_limited);
		nscc_base(n, n->base_ns);
		nscc_set(n, n->window);
	}
	/* One sample stands for all packets of this block. */
	n->avg_ns += (1 - pow(1 - n->k->ewma, fmax(1, bytes / n->k->mss))) * (delay - n->avg_ns);
	if (now >= n->round_at && nscc_quick_adapt(n, ack, delay, now))
		return;
	n->fast = delay < n->k->fast_us * (double)UCCL_NS_PER_US && !ack->marked ? n->fast + bytes : 0;
	aim = nscc_aim(n);
	if (nscc_late(n, ack, delay, aim, now))
		nscc_decrease(n, aim, now);
	else if (ack->app_limited)
		n->inc.acked = 0;
	else if (net_lossy(&n->net))
		n->inc.sum += clean * nscc_fair(n);
	else if (n->fast > n->window)
		/* What grows by a part of itself makes all together grow by that part. */
		nscc_set(n, n->window + n->k->fast * (n->gain / n->most) * bytes);
	else if (delay < aim)
		/* As much at no delay whatever the target: a small window grows for longer, but not faster. */
		n->inc.sum += clean * nscc_alpha(n) * n->target_ns * (1 - delay / aim);
	else
		n->inc.sum += clean * nscc_fair(n);
	nscc_adjust(n, now);
}

static void nscc_on_loss(void *cc, const struct uccl_loss_info *loss, uint64_t now)
{
	struct nscc *n = cc;

	(void)now;
	if (uccl_long_way_is(&n->far)) {
		uccl_long_way_lost(&n->far, (double)loss->bytes, loss->kind == UCCL_LOSS_RTO);
		return;
	}
	net_lost(&n->net, loss->bytes);
	/* Nothing was heard of a whole window. */
	if (loss->kind == UCCL_LOSS_RTO)
		nscc_set(n, n->window * n->k->md_floor);
}

/* What they have together stays as it is. */
static void nscc_share_by(void *cc, uint32_t of)
{
	struct nscc *n = cc;
	double more = 1 / (n->most * of);

	n->most *= more;
	net_share(&n->net, more);
	n->blind = fmin(n->window_cap, n->blind * more);
	/* What comes in this round trip says nothing of another window. */
	n->expected = 0;
	nscc_base(n, n->base_ns);
	nscc_set(n, n->window * more);
	uccl_long_way_share(&n->far, more);
}

const struct uccl_cc_ops uccl_cc_nscc = {
	.name = "nscc",
	.marks = true,
	.constants = nscc_constants,
	.init = nscc_init,
	.window = nscc_window,
	.pace = nscc_pace,
	.on_ack = nscc_on_ack,
	.on_loss = nscc_on_loss,
	.share = nscc_share_by,
};
