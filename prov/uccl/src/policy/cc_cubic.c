/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * CUBIC (RFC 9438). Its segment is our chunk, its window here is bytes in floating point. Numbers in brackets are
 * sections of the RFC.
 *
 * The time since the epoch began is not taken from the clock but summed up from acknowledgements, so that it stands
 * still while the application is what limits the flow or while it is idle (5.8): the window must not grow in a silence
 * that tested nothing.
 */
#include "policy/policies.h"

#include <assert.h>
#include <math.h>

#include "base/units.h"

#define CUBIC_CONSTANTS(X)											\
	X(c, 0.4, 0.001, 1e6, "chunks/s^3",									\
	  "steepness of the cubic function (RFC 9438, 4.1)")							\
	X(beta, 0.7, 0.1, 0.99, "share",									\
	  "share of the window that is left after congestion (4.6)")						\
	X(beta_ecn, 0.85, 0.1, 0.99, "share",									\
	  "the same after marks of the network, whose queues are short (RFC 8511, 3.1)")			\
	X(growth, 1.5, 1.01, 10, "windows",									\
	  "the window may grow by this factor in one RTT (4.2)")						\
	X(min_chunks, 2, 1, 1e4, "chunks",									\
	  "smallest window after congestion (4.6); after a time-out the window is one chunk (4.8)")		\
	X(first_chunks, 10, 1, 1e4, "chunks",									\
	  "first window (RFC 6928)")										\
	X(gap_rtts, 2, 1, 1e6, "RTTs",										\
	  "a longer time between two acknowledgements is idle time; at most this much counts for the "		\
	  "epoch")

UCCL_CONSTANTS(cubic, CUBIC_CONSTANTS);

/* Windows are in chunks here; only window() speaks of bytes. */
struct cubic {
	const struct cubic_k *k;
	double window;
	double window_max;
	double window_cap; /* window_max of a flow that shares with none */
	double of;	   /* flows that share what one would have */
	double steep;	   /* steepness of the cubic function */
	double ssthresh;
	double chunk;	     /* bytes */
	double w_max;	     /* where the plateau is */
	double w_est;	     /* what Reno would have */
	double w_prior;	     /* window before the last reduction */
	double k_s;	     /* seconds from the start of the epoch to w_max */
	uint64_t epoch_ns;   /* time spent in this epoch */
	uint64_t acked_ns;   /* time of the last acknowledgement */
	uint64_t reduced_ns; /* time of the last reduction; UCCL_NEVER: none yet */
	bool in_epoch;
	bool timed_out; /* nothing was acknowledged since the last time-out */
	bool reduced;	/* the next epoch follows a reduction, not a slow start */
};

_Static_assert(sizeof(struct cubic) <= UCCL_CC_STATE, "state too large");

static void cubic_init(void *cc, const struct uccl_policy_cfg *cfg, uint64_t now)
{
	struct cubic *c = cc;

	assert(cfg->chunk_bytes > 0);
	assert(cfg->window_max >= cfg->chunk_bytes);
	c->k = UCCL_K(cubic, cfg);
	c->chunk = cfg->chunk_bytes;
	c->window_cap = c->window_max = (double)cfg->window_max / c->chunk;
	c->of = 1;
	c->steep = c->k->c;
	c->window = fmin(c->window_max, c->k->first_chunks);
	c->ssthresh = INFINITY;
	c->w_max = 0;
	c->w_est = 0;
	c->w_prior = 0;
	c->k_s = 0;
	c->epoch_ns = 0;
	c->acked_ns = now;
	c->reduced_ns = UCCL_NEVER;
	c->in_epoch = false;
	c->timed_out = false;
	c->reduced = false;
}

static uint64_t cubic_window(const void *cc)
{
	const struct cubic *c = cc;

	return (uint64_t)(c->window * c->chunk);
}

/* First acknowledgement of congestion avoidance (4.2). */
static void cubic_epoch(struct cubic *c)
{
	c->in_epoch = true;
	c->epoch_ns = 0;
	c->w_est = c->window;
	if (c->reduced && c->w_max > c->window) {
		c->k_s = cbrt((c->w_max - c->window) / c->steep);
		return;
	}
	/* After the slow start that follows a time-out the plateau is here (4.8). */
	c->w_max = c->window;
	c->k_s = 0;
}

/* W_cubic(t), equation 1. */
static double cubic_curve(const struct cubic *c, uint64_t t_ns)
{
	double t = (double)t_ns / (double)UCCL_NS_PER_S - c->k_s;

	return c->steep * t * t * t + c->w_max;
}

static void cubic_avoid(struct cubic *c, double acked, uint64_t srtt_ns)
{
	double target = cubic_curve(c, c->epoch_ns + srtt_ns);
	double alpha = c->w_est >= c->w_prior ? 1 : 3 * (1 - c->k->beta) / (1 + c->k->beta); /* 4.3 */

	if (c->of > 1)
		alpha /= c->of * c->of;
	c->w_est += alpha * acked / c->window;
	if (cubic_curve(c, c->epoch_ns) < c->w_est) {
		/* Reno-friendly region (4.3). */
		c->window = fmax(c->window, c->w_est);
	} else {
		target = fmax(c->window, fmin(target, c->k->growth * c->window));
		c->window += (target - c->window) / c->window * acked;
	}
	c->window = fmin(c->window, c->window_max);
}

/* Remember the window before a reduction and derive the threshold from it, once per RTT. False: too early. */
static bool cubic_threshold(struct cubic *c, double beta, uint64_t srtt_ns, uint64_t now)
{
	if (c->reduced_ns != UCCL_NEVER && now - c->reduced_ns < srtt_ns)
		return false;
	c->reduced_ns = now;
	c->w_prior = c->window;
	c->ssthresh = fmax(c->window * beta, c->k->min_chunks);
	return true;
}

/* Congestion: plateau, threshold and window (4.6, 4.7). */
static void cubic_reduce(struct cubic *c, double beta, uint64_t srtt_ns, uint64_t now)
{
	if (!cubic_threshold(c, beta, srtt_ns, now))
		return;
	/* Fast convergence: who did not get back to the old plateau leaves room for newcomers. */
	c->w_max = c->window < c->w_max ? c->window * (1 + beta) / 2 : c->window;
	c->window = fmin(fmin(c->ssthresh, c->window_max), c->window);
	c->in_epoch = false;
	c->reduced = true;
}

static void cubic_on_ack(void *cc, const struct uccl_ack_info *ack, uint64_t now)
{
	struct cubic *c = cc;
	double acked = (double)ack->bytes / c->chunk;
	uint64_t gap = now - c->acked_ns;

	c->acked_ns = now;
	c->timed_out = false;
	if (ack->marked) {
		cubic_reduce(c, c->k->beta_ecn, ack->srtt_ns, now);
		return;
	}
	if (ack->app_limited)
		return;
	if (c->window < c->ssthresh) {
		c->window = fmin(c->window + acked, fmin(c->ssthresh, c->window_max));
		return;
	}
	if (!c->in_epoch)
		cubic_epoch(c);
	else
		c->epoch_ns += (uint64_t)fmin((double)gap, c->k->gap_rtts * (double)ack->srtt_ns);
	cubic_avoid(c, acked, ack->srtt_ns);
}

static void cubic_on_loss(void *cc, const struct uccl_loss_info *loss, uint64_t now)
{
	struct cubic *c = cc;

	if (loss->kind != UCCL_LOSS_RTO) {
		cubic_reduce(c, c->k->beta, loss->srtt_ns, now);
		return;
	}
	/* The threshold remembers the window before the first time-out of a row (RFC 5681 section 3.1). */
	if (!c->timed_out)
		cubic_threshold(c, c->k->beta, loss->srtt_ns, now);
	c->timed_out = true;
	c->window = 1;
	c->in_epoch = false;
	c->reduced = false;
}

/*
 * What they have together stays as it is. A loss takes from one of them only what it would take from all, so each may
 * grow by less than its part: in the time of Reno by 1/n^2, as RFC 6356 has it for equal ones, and the window of the
 * cubic function goes with c^(1/4).
 */
static void cubic_share(void *cc, uint32_t of)
{
	struct cubic *c = cc;
	double more = c->of / of;

	c->of = of;
	c->steep = c->k->c / pow(c->of, 4);
	c->window_max = fmin(c->window_cap, fmax(c->window_cap / of, c->k->min_chunks));
	c->window = fmin(c->window_max, c->window * more);
	c->ssthresh *= more;
	c->w_max *= more;
	c->w_prior *= more;
	/* From here on. */
	c->in_epoch = false;
}

const struct uccl_cc_ops uccl_cc_cubic = {
	.name = "cubic",
	.marks = true,
	.constants = cubic_constants,
	.init = cubic_init,
	.window = cubic_window,
	.on_ack = cubic_on_ack,
	.on_loss = cubic_on_loss,
	.share = cubic_share,
};
