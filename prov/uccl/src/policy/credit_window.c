/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The receiver keeps at most one cap of bytes on their way to it: it grants what it received plus the cap (Homa's rule
 * of window = cap / (N + 1), here for one sender). Grants are cumulative, so a lost one is made good by the next. The
 * sender need not wait for the first: it may send a speculative window at once (EQDS).
 */
#include "policy/policies.h"

#include <math.h>

#include "base/units.h"

#define WINDOW_CONSTANTS(X)											\
	X(cap_bytes, 2097152, 1024, 1e12, "bytes",								\
	  "most bytes that are granted beyond those received (Homa: 400,000, for messages of "			\
	  "packets; this is 40 us of 400 Gb/s)")								\
	X(speculative_share, 4, 1, 1e6, "",									\
	  "the speculative window is this part (1/N) of the flow's window (ours)")				\
	X(speculative_chunks, 4, 1, 1e4, "chunks",								\
	  "least chunks of that window, which hide the way to the receiver and back in a small "		\
	  "window (ours)")

UCCL_CONSTANTS(window, WINDOW_CONSTANTS);

/* One block serves both directions of a flow; the sides share nothing. */
struct window {
	/* sender */
	uint64_t initial; /* bytes that need no grant */
	uint64_t granted; /* highest cumulative grant that arrived */
	/* receiver */
	uint64_t cap;	    /* bytes */
	uint64_t announced; /* highest cumulative grant given */
};

_Static_assert(sizeof(struct window) <= UCCL_CREDIT_STATE, "state too large");

static void window_init(void *cs, const struct uccl_policy_cfg *cfg, uint64_t now)
{
	struct window *w = cs;
	const struct window_k *k = UCCL_K(window, cfg);

	(void)now;
	w->initial = (uint64_t)fmax((double)cfg->window_max / k->speculative_share,
				    cfg->chunk_bytes * k->speculative_chunks);
	w->granted = 0;
	/* Never less than a chunk: a sender with less could not move at all. */
	w->cap = uccl_max(uccl_min(cfg->window_max, (uint64_t)k->cap_bytes), cfg->chunk_bytes);
	w->announced = 0;
}

static uint64_t window_limit(const void *cs)
{
	const struct window *w = cs;

	return uccl_max(w->initial, w->granted);
}

static void window_on_credit(void *cs, uint64_t granted, uint64_t turn, uint64_t now)
{
	struct window *w = cs;

	(void)turn;
	(void)now;
	/* Credits overtake each other on different paths. */
	w->granted = uccl_max(w->granted, granted);
}

static uint64_t window_grant(void *cs, uint64_t received, uint64_t demand, uint64_t now)
{
	struct window *w = cs;

	/* Not bounded by the demand: one sender takes nothing from others, and its next message need not wait. */
	(void)demand;
	(void)now;
	w->announced = uccl_max(w->announced, received + w->cap);
	return w->announced;
}

const struct uccl_credit_ops uccl_credit_window = {
	.name = "window",
	.constants = window_constants,
	.init = window_init,
	.limit = window_limit,
	.on_credit = window_on_credit,
	.grant = window_grant,
};
