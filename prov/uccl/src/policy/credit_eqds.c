/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * EQDS (Olteanu et al., NSDI 2022) as UCCL uses it (section 4.2, appendix B): a sender begins at once with a
 * speculative window and tells what it wants; from then on the receiver's pacer (flow/send/pacer.h) says how far it may
 * go, at the rate of the receiver's link over all senders. One block serves both directions of a flow.
 *
 * DESIGN NOTES
 * - Without switches that trim, whatever of the speculative windows does not fit into the receiver's last queue is
 *   lost, and costs a round of retransmission. The paper's window is one bandwidth-delay product; ours is a small part
 *   of it, as a start that is a round trip late costs less than a lost one: fifteen senders fit into a queue of 1 MB.
 *   Homa, which has no trimming either, sends 40,000 bytes unsolicited.
 * - What does not fit into the speculative window has to wait for credit in any case, so it begins with a part of it
 *   only: the round trip is the same, and many that begin at once leave room for those beside them. What does fit goes
 *   whole, as a round trip more would be most of its time. The receiver need not know which it is.
 */
#include "policy/credit_eqds.h"

#include <math.h>

#include "base/units.h"
#include "policy/policies.h"

UCCL_CONSTANTS(eqds, EQDS_CONSTANTS);

struct eqds {
	uint64_t initial; /* bytes that need no grant */
	uint64_t granted; /* highest grant that arrived */
	uint64_t whole;	  /* bytes beyond that for what ends within them */
};

_Static_assert(sizeof(struct eqds) <= UCCL_CREDIT_STATE, "state too large");

static double eqds_bdp(const struct uccl_policy_cfg *cfg)
{
	const struct eqds_k *k = UCCL_K(eqds, cfg);
	double bps = cfg->link_bps ? (double)cfg->link_bps : k->link_gbps * 1e9;
	double delay = cfg->delay_ns ? (double)cfg->delay_ns : k->delay_us * (double)UCCL_NS_PER_US;

	return bps / 8 * delay / (double)UCCL_NS_PER_S;
}

static uint64_t eqds_initial(const struct uccl_policy_cfg *cfg)
{
	const struct eqds_k *k = UCCL_K(eqds, cfg);

	double share = fmin(eqds_bdp(cfg) / k->speculative_share, k->speculative_bytes);

	return (uint64_t)fmax(share, cfg->chunk_bytes * k->speculative_chunks);
}

/* What leaves unsolicited of something that does not fit into that. */
static uint64_t eqds_idle(const struct uccl_policy_cfg *cfg)
{
	const struct eqds_k *k = UCCL_K(eqds, cfg);

	return uccl_max((uint64_t)((double)eqds_initial(cfg) / k->long_share), cfg->chunk_bytes);
}

uint64_t uccl_eqds_whole(const struct uccl_policy_cfg *cfg)
{
	return eqds_initial(cfg) - eqds_idle(cfg);
}

static void eqds_init(void *cs, const struct uccl_policy_cfg *cfg, uint64_t now)
{
	struct eqds *e = cs;

	(void)now;
	e->initial = eqds_idle(cfg);
	e->whole = uccl_eqds_whole(cfg);
	e->granted = 0;
}

static uint64_t eqds_ops_whole(const void *cs)
{
	return ((const struct eqds *)cs)->whole;
}

static uint64_t eqds_limit(const void *cs)
{
	const struct eqds *e = cs;

	return uccl_max(e->initial, e->granted);
}

static void eqds_on_credit(void *cs, uint64_t granted, uint64_t turn, uint64_t now)
{
	struct eqds *e = cs;

	(void)turn;
	(void)now;
	/* Credits overtake each other on different paths. */
	e->granted = uccl_max(e->granted, granted);
}

static void eqds_pull(const struct uccl_policy_cfg *cfg, struct uccl_pull_cfg *pull)
{
	const struct eqds_k *k = UCCL_K(eqds, cfg);

	*pull = (struct uccl_pull_cfg){
		.quantum = (uint32_t)fmax(k->quantum_chunks * cfg->chunk_bytes, k->quantum_bytes),
		.idle = eqds_idle(cfg),
	};
	pull->window = pull->idle + (uint64_t)(k->window_bdps * eqds_bdp(cfg) + k->window_chunks * cfg->chunk_bytes);
	pull->window = uccl_max(pull->window, pull->idle + 4ull * pull->quantum);
}

const struct uccl_credit_ops uccl_credit_eqds = {
	.name = "eqds",
	.constants = eqds_constants,
	.init = eqds_init,
	.limit = eqds_limit,
	.whole = eqds_ops_whole,
	.on_credit = eqds_on_credit,
	.pull = eqds_pull,
};
