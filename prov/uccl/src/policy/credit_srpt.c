/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shortest remaining message first, as Homa grants (Montazeri et al., SIGCOMM 2018): of the senders that want more than
 * they have, the one whose message lacks least is granted first. A short message does not wait for the long ones that
 * came before it, and these wait for no longer than it takes. Senders do the same with their own. It begins, and is
 * paced at the rate of the receiver's link, as EQDS is (credit_eqds.c).
 *
 * DESIGN NOTES
 * - Homa gives grants to several senders at once, in case one of them has nothing to send now: its own link may be busy
 *   with another receiver. It has as many as switches have priorities for it; we ask for none, and have as many as it.
 * - Messages that are always longer than others would never end. Homa leaves a twentieth of the link to the oldest.
 */
#include "policy/credit_eqds.h"
#include "policy/policies.h"

/* eqds_pull takes the first ones for its own. */
#define SRPT_CONSTANTS(X)											\
	EQDS_CONSTANTS(X)											\
	X(at_once, 8, 0, 1e6, "",										\
	  "this many senders have grants in flight at once, the shortest message first; 0: all (Homa's "	\
	  "overcommitment)")											\
	X(fair, 20, 0, 1e6, "grants",										\
	  "one in this many grants goes to the sender that has waited longest; 0: none (Homa: a "		\
	  "twentieth)")

UCCL_CONSTANTS(srpt, SRPT_CONSTANTS);

static void srpt_init(void *cs, const struct uccl_policy_cfg *cfg, uint64_t now)
{
	uccl_credit_eqds.init(cs, cfg, now);
}

static uint64_t srpt_limit(const void *cs)
{
	return uccl_credit_eqds.limit(cs);
}

static uint64_t srpt_whole(const void *cs)
{
	return uccl_credit_eqds.whole(cs);
}

static void srpt_on_credit(void *cs, uint64_t granted, uint64_t turn, uint64_t now)
{
	uccl_credit_eqds.on_credit(cs, granted, turn, now);
}

static void srpt_pull(const struct uccl_policy_cfg *cfg, struct uccl_pull_cfg *pull)
{
	const struct srpt_k *k = UCCL_K(srpt, cfg);

	uccl_credit_eqds.pull(cfg, pull);
	pull->at_once = (uint32_t)k->at_once;
	pull->fair = (uint32_t)k->fair;
}

static uint64_t srpt_rank(const struct uccl_sender *s)
{
	return s->left;
}

const struct uccl_credit_ops uccl_credit_srpt = {
	.name = "srpt",
	.constants = srpt_constants,
	.init = srpt_init,
	.limit = srpt_limit,
	.whole = srpt_whole,
	.shortest = true,
	.on_credit = srpt_on_credit,
	.pull = srpt_pull,
	.rank = srpt_rank,
};
