/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Timely (Mittal et al., SIGCOMM 2015) in its patched form (Zhu et al., CoNEXT 2016: a weight instead of a sign, so
 * that it has a fixed point), as eRPC and UCCL have it. A rate follows the gradient of the RTT; packets are paced at
 * it.
 *
 * DESIGN NOTES
 * - Updates are scaled by the time since the last one, in round trips and at most one, as in eRPC: an acknowledgement
 *   may stand for one chunk or for many.
 * - Losses say nothing here, except a time-out, which halves the rate.
 */
#include "policy/policies.h"

#include <assert.h>
#include <math.h>

#include "base/units.h"

/* Below this RTT the rate only grows, ns (UCCL); but half of the fabric's own delay must be left on top of it. */
#define TIMELY_LOW_NS (35 * UCCL_NS_PER_US)
#define TIMELY_LOW_DELAYS 1.5
/* Above so many times that it only falls (UCCL: 350 us). */
#define TIMELY_HIGH_FACTOR 10.0
/* Weight of a new difference of RTTs (UCCL; the paper says 0.02 of a segment of 64 KiB). */
#define TIMELY_EWMA 0.125
/* Multiplicative decrease (UCCL: 0.008; the paper: 0.8 of its own gradient form). */
#define TIMELY_BETA 0.008
/* ... and above the upper threshold (paper). */
#define TIMELY_BETA_HIGH 0.8
/* Additive increase and least rate as shares of the link: UCCL's 4 and 0.8 Gb/s of 400. */
#define TIMELY_ADD_SHARE 0.01
#define TIMELY_MIN_SHARE 0.002
/* Falling RTTs in a row from which on the increase is so many times larger (paper: 5 and 5). */
#define TIMELY_HAI_AFTER 5
#define TIMELY_HAI_FACTOR 5.0
/* Link where the NIC does not know, bits per second. */
#define TIMELY_LINK_BPS 10000000000ull

struct timely {
	double rate, rate_min, rate_max; /* bytes per ns */
	double add;			 /* bytes per ns */
	double chunk;			 /* bytes */
	double window_max;		 /* bytes */
	double low_ns, high_ns, delay_ns;
	double diff_ns;	  /* smoothed difference between RTTs */
	double prev_ns;	  /* RTT before; 0: none yet */
	uint64_t last;	  /* latest update */
	uint32_t falling; /* RTTs in a row that did not rise */
};

_Static_assert(sizeof(struct timely) <= UCCL_CC_STATE, "state too large");

static void timely_init(void *cc, const struct uccl_policy_cfg *cfg, uint64_t now)
{
	struct timely *t = cc;
	uint64_t bps = cfg->link_bps ? cfg->link_bps : TIMELY_LINK_BPS;

	assert(cfg->chunk_bytes > 0);
	t->rate_max = (double)bps / 8 / (double)UCCL_NS_PER_S;
	t->rate = t->rate_max;
	t->rate_min = t->rate_max * TIMELY_MIN_SHARE;
	t->add = t->rate_max * TIMELY_ADD_SHARE;
	t->chunk = cfg->chunk_bytes;
	t->window_max = (double)cfg->window_max;
	t->delay_ns = (double)uccl_max(cfg->delay_ns, UCCL_NS_PER_US);
	t->low_ns = fmax(TIMELY_LOW_NS, TIMELY_LOW_DELAYS * t->delay_ns);
	t->high_ns = TIMELY_HIGH_FACTOR * t->low_ns;
	t->diff_ns = 0;
	t->prev_ns = 0;
	t->last = now;
	t->falling = 0;
}

/* What the rate may have on its way when the RTT is at its upper threshold: beyond it is only loss of control. */
static uint64_t timely_window(const void *cc)
{
	const struct timely *t = cc;

	return (uint64_t)fmin(t->window_max, fmax(t->chunk, t->rate * t->high_ns));
}

static uint64_t timely_pace(void *cc, uint32_t bytes, uint64_t srtt_ns, uint64_t now)
{
	const struct timely *t = cc;

	(void)srtt_ns;
	/* At line rate the NIC paces better. */
	return t->rate >= t->rate_max ? now : now + (uint64_t)(bytes / t->rate);
}

static void timely_set(struct timely *t, double rate)
{
	t->rate = fmax(t->rate_min, fmin(rate, t->rate_max));
}

static void timely_on_ack(void *cc, const struct uccl_ack_info *ack, uint64_t now)
{
	struct timely *t = cc;
	double rtt = (double)ack->rtt_ns, gradient, weight, scale;

	if (!ack->rtt_ns)
		return;
	if (!(t->prev_ns > 0)) {
		t->prev_ns = rtt;
		t->last = now;
		return;
	}
	t->diff_ns += TIMELY_EWMA * (rtt - t->prev_ns - t->diff_ns);
	t->prev_ns = rtt;
	scale = fmin(1, (double)(now - t->last) / t->delay_ns);
	t->last = now;
	gradient = t->diff_ns / t->delay_ns;
	t->falling = gradient <= 0 ? t->falling + 1 : 0;
	if (rtt < t->low_ns) {
		timely_set(t, t->rate + scale * t->add * (t->falling >= TIMELY_HAI_AFTER ? TIMELY_HAI_FACTOR : 1));
		return;
	}
	if (rtt > t->high_ns) {
		timely_set(t, t->rate * (1 - scale * TIMELY_BETA_HIGH * (1 - t->high_ns / rtt)));
		return;
	}
	weight = fmax(0, fmin(1, 2 * gradient + 0.5));
	timely_set(t, t->rate * (1 - scale * TIMELY_BETA * weight * (rtt - t->low_ns) / t->low_ns) +
			      scale * t->add * (1 - weight));
}

static void timely_on_loss(void *cc, const struct uccl_loss_info *loss, uint64_t now)
{
	struct timely *t = cc;

	(void)now;
	if (loss->kind == UCCL_LOSS_RTO)
		timely_set(t, t->rate / 2);
}

const struct uccl_cc_ops uccl_cc_timely = {
	.name = "timely",
	.init = timely_init,
	.window = timely_window,
	.pace = timely_pace,
	.on_ack = timely_on_ack,
	.on_loss = timely_on_loss,
};
