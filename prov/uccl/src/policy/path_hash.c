/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One path per flow, drawn once: what an ECMP network does to a transport that knows of no paths. The baseline that
 * spraying is measured against. Only when the path goes out of service is another one drawn.
 */
#include "policy/policies.h"

#include <assert.h>

#include "base/rng.h"

struct hash {
	bool chosen;
	uint16_t path; /* index of the path */
	uint16_t at;   /* where usable[] had it last time */
};

_Static_assert(sizeof(struct hash) <= UCCL_PATHSEL_STATE, "state too large");

static void hash_init(void *ps, const struct uccl_policy_cfg *cfg, uint16_t npaths)
{
	struct hash *h = ps;

	(void)cfg;
	(void)npaths;
	h->chosen = false;
	h->path = 0;
	h->at = 0;
}

/* Find the chosen path in usable[]; it seldom moves, so look where it was first. */
static bool hash_find(struct hash *h, const uint16_t *usable, uint16_t n)
{
	if (!h->chosen)
		return false;
	if (h->at < n && usable[h->at] == h->path)
		return true;
	for (uint16_t i = 0; i < n; i++) {
		if (usable[i] == h->path) {
			h->at = i;
			return true;
		}
	}
	return false;
}

static uint16_t hash_select(void *ps, const struct uccl_path *paths, const uint16_t *usable, uint16_t n,
			    const struct uccl_chunk_info *chunk, struct uccl_rng *rng, uint64_t now)
{
	struct hash *h = ps;

	(void)paths;
	(void)chunk;
	(void)now;
	assert(n >= 1);
	if (!hash_find(h, usable, n)) {
		h->chosen = true;
		h->at = (uint16_t)uccl_rng_below(rng, n);
		h->path = usable[h->at];
	}
	return h->path;
}

const struct uccl_path_ops uccl_path_hash = {
	.name = "hash",
	.init = hash_init,
	.select = hash_select,
};
