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

/* Steepness of the cubic, chunks per second cubed (4.1). */
#define CUBIC_C 0.4
/* What is left of the window after congestion (4.6). */
#define CUBIC_BETA 0.7
/* Increase of the Reno-friendly estimate, chunks per RTT, until it reaches the window before the reduction (4.3). */
#define CUBIC_ALPHA (3 * (1 - CUBIC_BETA) / (1 + CUBIC_BETA))
/* One RTT's growth is at most to this multiple of the window (4.2). */
#define CUBIC_GROWTH 1.5
/* Least window after congestion, chunks (4.6); after a time-out it is one chunk (4.8). */
#define CUBIC_MIN_CHUNKS 2.0
/* First window, chunks (RFC 6928). */
#define CUBIC_INITIAL_CHUNKS 10
/* The longest time between two acknowledgements that counts as time of the epoch, RTTs; the rest was idle. */
#define CUBIC_GAP_RTTS 2

/* Windows are in chunks here; only window() speaks of bytes. */
struct cubic {
	double window;
	double window_max;
	double ssthresh;
	double chunk;	     /* bytes */
	double w_max;	     /* where the plateau is */
	double w_est;	     /* what Reno would have */
	double w_prior;	     /* window before the last reduction */
	double k;	     /* seconds from the start of the epoch to w_max */
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
	c->chunk = cfg->chunk_bytes;
	c->window_max = (double)cfg->window_max / c->chunk;
	c->window = fmin(c->window_max, CUBIC_INITIAL_CHUNKS);
	c->ssthresh = INFINITY;
	c->w_max = 0;
	c->w_est = 0;
	c->w_prior = 0;
	c->k = 0;
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
		c->k = cbrt((c->w_max - c->window) / CUBIC_C);
		return;
	}
	/* After the slow start that follows a time-out the plateau is here (4.8). */
	c->w_max = c->window;
	c->k = 0;
}

/* W_cubic(t), equation 1. */
static double cubic_curve(const struct cubic *c, uint64_t t_ns)
{
	double t = (double)t_ns / (double)UCCL_NS_PER_S - c->k;

	return CUBIC_C * t * t * t + c->w_max;
}

static void cubic_avoid(struct cubic *c, double acked, uint64_t srtt_ns)
{
	double target = cubic_curve(c, c->epoch_ns + srtt_ns);
	double alpha = c->w_est >= c->w_prior ? 1 : CUBIC_ALPHA;

	c->w_est += alpha * acked / c->window;
	if (cubic_curve(c, c->epoch_ns) < c->w_est) {
		/* Reno-friendly region (4.3). */
		c->window = fmax(c->window, c->w_est);
	} else {
		target = fmax(c->window, fmin(target, CUBIC_GROWTH * c->window));
		c->window += (target - c->window) / c->window * acked;
	}
	c->window = fmin(c->window, c->window_max);
}

/* Remember the window before a reduction and derive the threshold from it, once per RTT. False: too early. */
static bool cubic_threshold(struct cubic *c, uint64_t srtt_ns, uint64_t now)
{
	if (c->reduced_ns != UCCL_NEVER && now - c->reduced_ns < srtt_ns)
		return false;
	c->reduced_ns = now;
	c->w_prior = c->window;
	c->ssthresh = fmax(c->window * CUBIC_BETA, CUBIC_MIN_CHUNKS);
	return true;
}

/* Congestion: plateau, threshold and window (4.6, 4.7). */
static void cubic_reduce(struct cubic *c, uint64_t srtt_ns, uint64_t now)
{
	if (!cubic_threshold(c, srtt_ns, now))
		return;
	/* Fast convergence: who did not get back to the old plateau leaves room for newcomers. */
	c->w_max = c->window < c->w_max ? c->window * (1 + CUBIC_BETA) / 2 : c->window;
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
	if (ack->ecn) {
		cubic_reduce(c, ack->srtt_ns, now);
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
		c->epoch_ns += uccl_min(gap, CUBIC_GAP_RTTS * ack->srtt_ns);
	cubic_avoid(c, acked, ack->srtt_ns);
}

static void cubic_on_loss(void *cc, const struct uccl_loss_info *loss, uint64_t now)
{
	struct cubic *c = cc;

	if (loss->kind != UCCL_LOSS_RTO) {
		cubic_reduce(c, loss->srtt_ns, now);
		return;
	}
	/* The threshold remembers the window before the first time-out of a row (RFC 5681 section 3.1). */
	if (!c->timed_out)
		cubic_threshold(c, loss->srtt_ns, now);
	c->timed_out = true;
	c->window = 1;
	c->in_epoch = false;
	c->reduced = false;
}

const struct uccl_cc_ops uccl_cc_cubic = {
	.name = "cubic",
	.init = cubic_init,
	.window = cubic_window,
	.on_ack = cubic_on_ack,
	.on_loss = cubic_on_loss,
};
