/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Join the shortest queue: of all paths the one on which the chunk would be through first. Ahead of it are our bytes
 * that are in flight there, at an even share of the link, and what others have queued, which is what the path takes
 * longer than it did at best. Ties go to the first after a random one.
 */
#include "base/rng.h"
#include "policy/policies.h"

struct jsq {
	double ns_per_byte;
};

static void jsq_init(void *ps, const struct uccl_policy_cfg *cfg, uint16_t npaths)
{
	((struct jsq *)ps)->ns_per_byte = cfg->link_bps ? 8e9 / (double)cfg->link_bps * npaths : 1;
}

static double jsq_wait(const struct jsq *j, const struct uccl_path *p, uint32_t bytes)
{
	double queued = p->srtt_ns > p->min_rtt_ns ? (double)(p->srtt_ns - p->min_rtt_ns) : 0;

	return (double)(p->inflight + bytes) * j->ns_per_byte + queued;
}

static uint16_t jsq_select(void *ps, const struct uccl_path *paths, const uint16_t *usable, uint16_t n,
			   const struct uccl_chunk_info *chunk, struct uccl_rng *rng, uint64_t now)
{
	uint16_t at = (uint16_t)uccl_rng_below(rng, n), best = usable[at];
	double least = jsq_wait(ps, &paths[best], chunk->bytes);

	(void)now;
	for (uint16_t i = 1; i < n; i++) {
		uint16_t path = usable[(at + i) % n];
		double wait = jsq_wait(ps, &paths[path], chunk->bytes);

		if (wait < least) {
			least = wait;
			best = path;
		}
	}
	return best;
}

const struct uccl_path_ops uccl_path_jsq = {.name = "jsq", .init = jsq_init, .select = jsq_select};
