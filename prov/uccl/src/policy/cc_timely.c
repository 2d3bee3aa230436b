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

#define TIMELY_CONSTANTS(X)											\
	X(low_us, 35, 0.1, 1e6, "us",										\
	  "below this RTT the rate only grows (UCCL)")								\
	X(low_delays, 1.5, 1, 100, "",										\
	  "low_us is raised to at least this many times the delay of the fabric and of a chunk on the "		\
	  "link, so that half of this delay remains as room")							\
	X(high, 10, 1.1, 1e4, "",										\
	  "above this many times low_us the rate only falls (UCCL: 350 us)")					\
	X(ewma, 0.125, 0.001, 1, "share",									\
	  "weight of a new difference of RTTs (UCCL; paper: 0.02 of a segment of 64 KiB)")			\
	X(beta, 0.008, 0.0001, 1, "",										\
	  "multiplicative decrease (UCCL; paper: 0.8 in its own form of the gradient)")				\
	X(beta_high, 0.8, 0.0001, 1, "",									\
	  "multiplicative decrease above the upper threshold (paper)")						\
	X(add_share, 0.01, 1e-6, 1, "links",									\
	  "additive increase (UCCL: 4 Gb/s of 400)")								\
	X(min_share, 0.002, 1e-6, 1, "links",									\
	  "smallest rate (UCCL: 0.8 Gb/s of 400)")								\
	X(hai_after, 5, 1, 1e6, "",										\
	  "after this many falling RTTs in a row the increase is larger (paper)")				\
	X(hai_factor, 5, 1, 1000, "",										\
	  "how many times larger it is (paper)")								\
	X(link_gbps, 10, 0.001, 1e5, "Gb/s",									\
	  "line rate, if the NIC does not know its own")

UCCL_CONSTANTS(timely, TIMELY_CONSTANTS);

struct timely {
	const struct timely_k *k;
	double rate, rate_min, rate_max; /* bytes per ns */
	double link;			 /* likewise: rate_max of a flow that shares with none */
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
	const struct timely_k *k = UCCL_K(timely, cfg);
	double bps = cfg->link_bps ? (double)cfg->link_bps : k->link_gbps * 1e9, serial_ns;

	assert(cfg->chunk_bytes > 0);
	t->k = k;
	t->link = t->rate_max = bps / 8 / (double)UCCL_NS_PER_S;
	t->rate = t->rate_max;
	t->rate_min = t->rate_max * k->min_share;
	t->add = t->rate_max * k->add_share;
	t->chunk = cfg->chunk_bytes;
	t->window_max = (double)cfg->window_max;
	t->delay_ns = (double)uccl_max(cfg->delay_ns, UCCL_NS_PER_US);
	/* On a slow link a chunk's own time is most of its RTT. */
	serial_ns = t->chunk / t->rate_max;
	t->low_ns = fmax(k->low_us * (double)UCCL_NS_PER_US, k->low_delays * (t->delay_ns + serial_ns));
	t->high_ns = k->high * t->low_ns;
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
	t->diff_ns += t->k->ewma * (rtt - t->prev_ns - t->diff_ns);
	t->prev_ns = rtt;
	scale = fmin(1, (double)(now - t->last) / t->delay_ns);
	t->last = now;
	gradient = t->diff_ns / t->delay_ns;
	t->falling = gradient <= 0 ? t->falling + 1 : 0;
	if (rtt < t->low_ns) {
		timely_set(t, t->rate + scale * t->add * (t->falling >= t->k->hai_after ? t->k->hai_factor : 1));
		return;
	}
	if (rtt > t->high_ns) {
		timely_set(t, t->rate * (1 - scale * t->k->beta_high * (1 - t->high_ns / rtt)));
		return;
	}
	weight = fmax(0, fmin(1, 2 * gradient + 0.5));
	timely_set(t, t->rate * (1 - scale * t->k->beta * weight * (rtt - t->low_ns) / t->low_ns) +
			      scale * t->add * (1 - weight));
}

static void timely_on_loss(void *cc, const struct uccl_loss_info *loss, uint64_t now)
{
	struct timely *t = cc;

	(void)now;
	if (loss->kind == UCCL_LOSS_RTO)
		timely_set(t, t->rate / 2);
}

/* What they have together stays as it is, and grows as one would. */
static void timely_share(void *cc, uint32_t of)
{
	struct timely *t = cc;
	double more = t->link / of / t->rate_max;

	t->rate_max = t->link / of;
	t->rate_min *= more;
	t->add *= more;
	timely_set(t, t->rate * more);
}

const struct uccl_cc_ops uccl_cc_timely = {
	.name = "timely",
	.constants = timely_constants,
	.init = timely_init,
	.window = timely_window,
	.pace = timely_pace,
	.on_ack = timely_on_ack,
	.on_loss = timely_on_loss,
	.share = timely_share,
};
