/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * NSCC, the congestion control of Ultra Ethernet's senders, in a form that knows the delay alone: NICs do not tell
 * software of ECN marks. Of its four cases (marked or not, delay above or below the target) two are left, and the
 * decrease, which is for marked packets above the target, takes the place of the increase for unmarked ones whenever
 * the average delay, too, is above the target. What is said of NSCC elsewhere does not hold for this variant.
 *
 * Formulas and constants of the reference: UEC's published simulator (uec.cpp), for 100 Gb/s and 12 us.
 */
#include "policy/policies.h"

#include <assert.h>
#include <math.h>

#include "base/units.h"

/* What the reference is tuned for: round trip, ns, and its bandwidth-delay product at 100 Gb/s, bytes. */
#define NSCC_REF_RTT_NS 12000.0
#define NSCC_REF_BDP 150000.0
/* Bytes of the packet that its gains are counted in. */
#define NSCC_MSS 4096.0
/* Target of the queueing delay in base RTTs (reference, without trimming). */
#define NSCC_TARGET_RTTS 1.0
/* Largest window, bandwidth-delay products (reference). */
#define NSCC_MAX_BDPS 1.5
/*
 * Chunks on top of that, for the largest window and for the target: the reference sprays packets, and what we send at
 * once on one path is eight times as long. So many wait before the NIC, for the acknowledgement that tells of several,
 * and in queues where chunks of many senders meet. Found with 32 KiB on 128 hosts of three tiers; with no more than
 * 16 and 8 their NICs stood still for 1 % of the time, with twice as much nothing was better.
 */
#define NSCC_MAX_CHUNKS 24
#define NSCC_TARGET_CHUNKS 8
/*
 * And for the first window, which in the reference is the largest: where links between switches carry half, senders
 * that begin with 24 lose for several time-outs (455 us instead of 107 for 2 MB); a permutation is 0.2 % later with 8.
 */
#define NSCC_FIRST_CHUNKS 8
/* Gains: proportional, fair and steady increase in packets (reference). */
#define NSCC_ALPHA 4.0
#define NSCC_FAIR 5.0
#define NSCC_ETA 0.15
/* Decrease: factor of the relative excess, and least that is left (reference). */
#define NSCC_GAMMA 0.8
#define NSCC_MD_FLOOR 0.5
/* Weight of one packet's delay in the average (reference). */
#define NSCC_EWMA 0.0125
/* Fast increase: share of what was acknowledged, once a whole window had less delay than this, ns (reference). */
#define NSCC_FAST 0.25
#define NSCC_FAST_NS 1000.0
/* Quick adapt: within a round trip less than this share of the largest window arrived, at so many targets of delay. */
#define NSCC_QUICK_SHARE 8.0
#define NSCC_QUICK_TARGETS 4.0
/* The gains are applied after so many packets, or a round trip (reference). */
#define NSCC_ADJUST_BYTES (8 * NSCC_MSS)
/* Where the back end does not know. */
#define NSCC_LINK_BPS 10000000000ull

struct nscc {
	double window, window_max;    /* bytes */
	double chunk;		      /* bytes */
	double base_ns, target_ns;    /* round trip; queueing delay to aim at */
	double a;		      /* our bandwidth-delay product in that of the reference */
	double alpha, fair, eta;      /* gains, bytes (alpha: per ns) */
	double avg_ns;		      /* average queueing delay */
	double inc;		      /* increase to be applied, byte^2 */
	double acked;		      /* bytes since it was applied */
	double fast;		      /* bytes acknowledged without delay, in a row */
	double achieved;	      /* bytes acknowledged in this round trip */
	uint64_t adjust_at, round_at; /* ends of the present round trips */
	uint64_t decreased_ns;	      /* UCCL_NEVER: not yet */
	bool lost;		      /* something was lost in this round trip */
};

_Static_assert(sizeof(struct nscc) <= UCCL_CC_STATE, "state too large");

static void nscc_init(void *cc, const struct uccl_policy_cfg *cfg, uint64_t now)
{
	struct nscc *n = cc;
	double bps = (double)(cfg->link_bps ? cfg->link_bps : NSCC_LINK_BPS), bdp;

	assert(cfg->chunk_bytes > 0);
	n->chunk = cfg->chunk_bytes;
	n->base_ns = cfg->delay_ns ? (double)cfg->delay_ns : NSCC_REF_RTT_NS;
	bdp = bps / 8 * n->base_ns / (double)UCCL_NS_PER_S;
	n->target_ns = NSCC_TARGET_RTTS * n->base_ns + NSCC_TARGET_CHUNKS * n->chunk * 8 * (double)UCCL_NS_PER_S / bps;
	n->window_max = fmin((double)cfg->window_max, NSCC_MAX_BDPS * bdp + NSCC_MAX_CHUNKS * n->chunk);
	n->window = fmin(n->window_max, NSCC_MAX_BDPS * bdp + NSCC_FIRST_CHUNKS * n->chunk);
	n->a = bdp / NSCC_REF_BDP;
	n->alpha = NSCC_ALPHA * NSCC_MSS * n->a * (n->target_ns / NSCC_REF_RTT_NS) / n->target_ns;
	n->fair = NSCC_FAIR * NSCC_MSS * n->a;
	n->eta = NSCC_ETA * NSCC_MSS * n->a;
	n->avg_ns = n->inc = n->acked = n->fast = n->achieved = 0;
	n->adjust_at = n->round_at = now + (uint64_t)n->base_ns;
	n->decreased_ns = UCCL_NEVER;
	n->lost = false;
}

static void nscc_set(struct nscc *n, double bytes)
{
	n->window = fmax(NSCC_MSS, fmin(bytes, n->window_max));
}

static uint64_t nscc_window(const void *cc)
{
	const struct nscc *n = cc;

	return (uint64_t)n->window;
}

/* Below one chunk the window is held by time. */
static uint64_t nscc_pace(void *cc, uint32_t bytes, uint64_t srtt_ns, uint64_t now)
{
	const struct nscc *n = cc;
	double rtt = srtt_ns ? fmin((double)srtt_ns, 16 * n->base_ns) : n->base_ns;

	return n->window >= n->chunk ? now : now + (uint64_t)(rtt * bytes / n->window);
}

/* The end of a round trip: did next to nothing arrive? True: the window is what arrived. */
static bool nscc_quick_adapt(struct nscc *n, double delay, uint64_t now)
{
	bool adapt = n->achieved < n->window_max / NSCC_QUICK_SHARE &&
		     (n->lost || delay > NSCC_QUICK_TARGETS * n->target_ns) && n->achieved < n->window;

	if (adapt) {
		nscc_set(n, n->achieved);
		n->inc = n->acked = 0;
		n->decreased_ns = now;
	}
	n->achieved = 0;
	n->lost = false;
	n->round_at = now + (uint64_t)(n->base_ns + n->target_ns);
	return adapt;
}

static void nscc_adjust(struct nscc *n, uint64_t now)
{
	bool round = now >= n->adjust_at;

	if (n->acked < NSCC_ADJUST_BYTES && !round)
		return;
	nscc_set(n, n->window + n->inc / n->window + (round ? n->eta : 0));
	n->inc = n->acked = 0;
	if (round)
		n->adjust_at = now + (uint64_t)n->base_ns;
}

static void nscc_decrease(struct nscc *n, uint64_t now)
{
	if (n->decreased_ns != UCCL_NEVER && now - n->decreased_ns < (uint64_t)(n->base_ns + n->target_ns))
		return;
	n->decreased_ns = now;
	n->inc = 0;
	nscc_set(n, n->window * fmax(1 - NSCC_GAMMA * (n->avg_ns - n->target_ns) / n->avg_ns, NSCC_MD_FLOOR));
}

static void nscc_on_ack(void *cc, const struct uccl_ack_info *ack, uint64_t now)
{
	struct nscc *n = cc;
	double bytes = (double)ack->bytes, delay;

	n->achieved += bytes;
	n->acked += bytes;
	if (!ack->rtt_ns)
		return;
	delay = fmax(0, (double)ack->rtt_ns - n->base_ns);
	/* One sample stands for all packets of this block. */
	n->avg_ns += (1 - pow(1 - NSCC_EWMA, fmax(1, bytes / NSCC_MSS))) * (delay - n->avg_ns);
	if (now >= n->round_at && nscc_quick_adapt(n, delay, now))
		return;
	n->fast = delay < NSCC_FAST_NS ? n->fast + bytes : 0;
	if (delay >= n->target_ns && n->avg_ns > n->target_ns)
		nscc_decrease(n, now);
	else if (ack->app_limited)
		n->acked = 0;
	else if (n->fast > n->window)
		nscc_set(n, n->window + NSCC_FAST * n->a * bytes);
	else if (delay < n->target_ns)
		n->inc += bytes * n->alpha * (n->target_ns - delay);
	else
		n->inc += bytes * n->fair;
	nscc_adjust(n, now);
}

static void nscc_on_loss(void *cc, const struct uccl_loss_info *loss, uint64_t now)
{
	struct nscc *n = cc;

	(void)now;
	n->lost = true;
	/* Nothing was heard of a whole window. */
	if (loss->kind == UCCL_LOSS_RTO)
		nscc_set(n, n->window * NSCC_MD_FLOOR);
}

const struct uccl_cc_ops uccl_cc_nscc = {
	.name = "nscc",
	.init = nscc_init,
	.window = nscc_window,
	.pace = nscc_pace,
	.on_ack = nscc_on_ack,
	.on_loss = nscc_on_loss,
};
