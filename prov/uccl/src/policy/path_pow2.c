/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Power of two choices (Mitzenmacher 2001; UCCL section 4.1): of two paths drawn at random the quicker one carries the
 * chunk. Drawing two keeps all senders from rushing to the one best path, which then would not be it any more.
 */
#include "policy/policies.h"

#include <assert.h>

#include "base/rng.h"

/* Whether a is to be preferred to b; if they are equal, b is not preferred to a either. */
static bool pow2_better(const struct uccl_path *a, const struct uccl_path *b)
{
	/*
	 * A path without a sample is the best, so that all are explored; but until the first answer comes it gets no
	 * more than the other has in flight. Otherwise a flow of two paths would put its window on a path that may
	 * well be dead.
	 */
	if (!a->srtt_ns && b->srtt_ns)
		return a->inflight <= b->inflight;
	if (a->srtt_ns && !b->srtt_ns)
		return a->inflight < b->inflight;
	if (a->srtt_ns != b->srtt_ns)
		return a->srtt_ns < b->srtt_ns;
	return a->inflight < b->inflight;
}

static uint16_t pow2_select(void *ps, const struct uccl_path *paths, const uint16_t *usable, uint16_t n,
			    const struct uccl_chunk_info *chunk, struct uccl_rng *rng, uint64_t now)
{
	uint64_t i, j;

	(void)ps;
	(void)chunk;
	(void)now;
	assert(n >= 1);
	if (n == 1)
		return usable[0];
	i = uccl_rng_below(rng, n);
	j = uccl_rng_below(rng, n - 1);
	if (j >= i)
		j++;
	/* Equal paths: i, which is as random as j. */
	return pow2_better(&paths[usable[j]], &paths[usable[i]]) ? usable[j] : usable[i];
}

const struct uccl_path_ops uccl_path_pow2 = {
	.name = "pow2",
	.warm = true,
	.select = pow2_select,
};
