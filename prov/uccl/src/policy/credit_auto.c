/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Credits once several senders converge: EQDS (credit_eqds.c), but as long as fewer senders than that are busy, the
 * receiver's pacer lets them send as congestion control says. It tells who begins, when it wants more than the
 * speculative window, that its grants do not count; and that they do again when so many are busy at once, or when it
 * has been quiet and others were busy since.
 *
 * DESIGN NOTES
 * - Senders begin held, with EQDS's speculative window: an incast whose senders all begin with the windows of their
 *   congestion control is lost before the receiver can say a word. The price is that of EQDS, a round trip in which two
 *   chunks are sent, once per burst. Neighbours in a ring, and who is alone with its receiver, pay it once: the latest
 *   quiet ones stay free, too few for an incast.
 * - What was sent freely is in the queue already when senders are held. Nothing is granted before it has come: the
 *   pacer takes its time off the link as it arrives.
 */
#include <math.h>

#include "base/units.h"
#include "policy/credit_eqds.h"
#include "policy/policies.h"

/* eqds_pull takes the first ones for its own. */
#define AUTO_CONSTANTS(X)											\
	EQDS_CONSTANTS(X)											\
	X(senders, 4, 2, 1e6, "",										\
	  "credits begin when this many senders are busy at once: two senders do well under congestion "	\
	  "control, and a receiver whose peers take turns hears two at each change (ours)")			\
	X(quiet_rtts, 4, 0, 1e6, "RTTs",									\
	  "a sender counts as busy for this long after it was heard (ours)")					\
	X(quiet_us, 50, 1, 1e6, "us",										\
	  "but a sender counts as busy for at least this long, the time of a few chunks of 64 senders at "	\
	  "400 Gb/s (ours)")

UCCL_CONSTANTS(auto, AUTO_CONSTANTS);

struct credit_auto {
	uint64_t initial; /* bytes that need no grant */
	uint64_t granted; /* highest grant that arrived */
	uint64_t whole;	  /* bytes beyond that for what ends within them */
	bool free;	  /* no grant is needed */
};

_Static_assert(sizeof(struct credit_auto) <= UCCL_CREDIT_STATE, "state too large");

static void auto_init(void *cs, const struct uccl_policy_cfg *cfg, uint64_t now)
{
	struct credit_auto *a = cs;
	struct uccl_pull_cfg pull;

	(void)now;
	uccl_credit_eqds.pull(cfg, &pull);
	a->initial = pull.idle;
	a->whole = uccl_eqds_whole(cfg);
	a->granted = 0;
	a->free = false;
}

static uint64_t auto_limit(const void *cs)
{
	const struct credit_auto *a = cs;

	return a->free ? UINT64_MAX : uccl_max(a->initial, a->granted);
}

static uint64_t auto_whole(const void *cs)
{
	return ((const struct credit_auto *)cs)->whole;
}

static void auto_on_credit(void *cs, uint64_t granted, uint64_t turn, uint64_t now)
{
	struct credit_auto *a = cs;

	(void)now;
	a->free = turn & 1;
	/* Without bounds for this turn only. */
	if (!a->free)
		a->granted = uccl_max(a->granted, granted);
}

static void auto_pull(const struct uccl_policy_cfg *cfg, struct uccl_pull_cfg *pull)
{
	const struct auto_k *k = UCCL_K(auto, cfg);

	uccl_credit_eqds.pull(cfg, pull);
	pull->senders = (uint32_t)k->senders;
	pull->quiet_ns = (uint64_t)fmax(k->quiet_rtts * (double)cfg->delay_ns, k->quiet_us * (double)UCCL_NS_PER_US);
}

const struct uccl_credit_ops uccl_credit_auto = {
	.name = "auto",
	.constants = auto_constants,
	.init = auto_init,
	.limit = auto_limit,
	.whole = auto_whole,
	.on_credit = auto_on_credit,
	.pull = auto_pull,
};
