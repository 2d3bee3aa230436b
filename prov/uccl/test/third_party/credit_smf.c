/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Shortest message first: of the senders that want more, the one whose message lacks least has the receiver's link. */
#include "base/units.h"
#include "policy/policies.h"

/* May be sent unsolicited; and how far beyond that a sender may be ahead, in what its link carries in a round trip. */
#define UNSOLICITED_CHUNKS 2
#define PRODUCTS 2

struct smf {
	uint64_t limit;
};

static void smf_init(void *cs, const struct uccl_policy_cfg *cfg, uint64_t now)
{
	(void)now;
	((struct smf *)cs)->limit = UNSOLICITED_CHUNKS * (uint64_t)cfg->chunk_bytes;
}

static uint64_t smf_limit(const void *cs)
{
	return ((const struct smf *)cs)->limit;
}

static void smf_on_credit(void *cs, uint64_t granted, uint64_t turn, uint64_t now)
{
	struct smf *s = cs;

	(void)turn;
	(void)now;
	s->limit = uccl_max(s->limit, granted);
}

static void smf_pull(const struct uccl_policy_cfg *cfg, struct uccl_pull_cfg *pull)
{
	uint64_t product = cfg->link_bps / 8000 * cfg->delay_ns / 1000000;

	pull->quantum = cfg->chunk_bytes;
	pull->idle = UNSOLICITED_CHUNKS * (uint64_t)cfg->chunk_bytes;
	pull->window = pull->idle + PRODUCTS * product + 4ull * pull->quantum;
	pull->fair = 20;
}

static uint64_t smf_rank(const struct uccl_sender *s)
{
	return s->left;
}

const struct uccl_credit_ops uccl_credit_smf = {.name = "smf", .init = smf_init, .limit = smf_limit,
						.on_credit = smf_on_credit, .pull = smf_pull, .rank = smf_rank};
