/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Round robin over the paths in service: spraying without measuring. */
#include "policy/policies.h"

#include <assert.h>

struct rr {
	uint16_t next; /* position in usable[] of the next chunk's path, if the list is still that long */
};

_Static_assert(sizeof(struct rr) <= UCCL_PATHSEL_STATE, "state too large");

static void rr_init(void *ps, const struct uccl_policy_cfg *cfg, uint16_t npaths)
{
	struct rr *r = ps;

	(void)cfg;
	(void)npaths;
	r->next = 0;
}

static uint16_t rr_select(void *ps, const struct uccl_path *paths, const uint16_t *usable, uint16_t n,
			  const struct uccl_chunk_info *chunk, struct uccl_rng *rng, uint64_t now)
{
	struct rr *r = ps;
	uint16_t i;

	(void)paths;
	(void)chunk;
	(void)rng;
	(void)now;
	assert(n >= 1);
	i = r->next < n ? r->next : 0;
	r->next = i + 1;
	return usable[i];
}

const struct uccl_path_ops uccl_path_rr = {
	.name = "rr",
	.init = rr_init,
	.select = rr_select,
};
