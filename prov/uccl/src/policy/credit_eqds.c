/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * EQDS (Olteanu et al., NSDI 2022) as UCCL uses it (section 4.2, appendix B): a sender begins at once with a
 * speculative window and tells what it wants; from then on the receiver's pacer (core/pacer.h) says how far it may go,
 * at the rate of the receiver's link over all senders. One block serves both directions of a flow.
 *
 * DESIGN NOTES
 * - Without switches that trim, whatever of the speculative windows does not fit into the receiver's last queue is
 *   lost, and costs a round of retransmission. The paper's window is one bandwidth-delay product; ours is a small part
 *   of it, as a start that is a round trip late costs less than a lost one: fifteen senders fit into a queue of 1 MB.
 *   Homa, which has no trimming either, sends 40,000 bytes unasked.
 */
#include "policy/policies.h"

#include "base/units.h"

/* Link and round trip where the back end does not know: 10 Gb/s, 25 us. */
#define EQDS_LINK_BPS 10000000000ull
#define EQDS_DELAY_NS (25 * UCCL_NS_PER_US)
/* Speculative window: a part of the bandwidth-delay product, but two chunks at least. */
#define EQDS_SPECULATIVE_SHARE 16
#define EQDS_SPECULATIVE_CHUNKS 2
/*
 * What a sender may be ahead, bandwidth-delay products: one is on its way in an empty network, the other is for what
 * waits in its queues (UEC's maxwnd is 1.5).
 */
#define EQDS_WINDOW_BDPS 2
/* And chunks on top: those before the sender's NIC, in the acknowledgement to come, and where chunks collide. */
#define EQDS_WINDOW_CHUNKS 8
/*
 * Bytes of one grant: UCCL's quantum is 16 KiB. Two chunks if that is more: a CREDIT takes 154 bytes on the wire, half
 * a percent of a chunk of 32 KiB.
 */
#define EQDS_QUANTUM_BYTES 16384
#define EQDS_QUANTUM_CHUNKS 2

struct eqds {
	uint64_t initial; /* bytes that need no grant */
	uint64_t granted; /* highest grant that arrived */
};

_Static_assert(sizeof(struct eqds) <= UCCL_CREDIT_STATE, "state too large");

static uint64_t eqds_bdp(const struct uccl_policy_cfg *cfg)
{
	uint64_t bps = cfg->link_bps ? cfg->link_bps : EQDS_LINK_BPS;
	uint64_t delay = cfg->delay_ns ? cfg->delay_ns : EQDS_DELAY_NS;

	return bps / 8000 * delay / 1000000;
}

static uint64_t eqds_initial(const struct uccl_policy_cfg *cfg)
{
	return uccl_max(eqds_bdp(cfg) / EQDS_SPECULATIVE_SHARE, (uint64_t)cfg->chunk_bytes * EQDS_SPECULATIVE_CHUNKS);
}

static void eqds_init(void *cs, const struct uccl_policy_cfg *cfg, uint64_t now)
{
	struct eqds *e = cs;

	(void)now;
	e->initial = eqds_initial(cfg);
	e->granted = 0;
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
	*pull = (struct uccl_pull_cfg){0};
	pull->quantum = (uint32_t)uccl_max(EQDS_QUANTUM_CHUNKS * cfg->chunk_bytes, EQDS_QUANTUM_BYTES);
	pull->idle = eqds_initial(cfg);
	pull->window = pull->idle + EQDS_WINDOW_BDPS * eqds_bdp(cfg) + EQDS_WINDOW_CHUNKS * (uint64_t)cfg->chunk_bytes;
	pull->window = uccl_max(pull->window, pull->idle + 4ull * pull->quantum);
}

const struct uccl_credit_ops uccl_credit_eqds = {
	.name = "eqds",
	.init = eqds_init,
	.limit = eqds_limit,
	.on_credit = eqds_on_credit,
	.pull = eqds_pull,
};
