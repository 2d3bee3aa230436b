/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * REPS, recycled entropies (Bonato et al., arXiv 2407.21625): a path that just brought an acknowledgement in good time
 * is used once more; if none is left, one is drawn. The original knows good from bad by ECN marks, which software does
 * not see; here a path is good if its RTT is below twice the smallest seen (the low-delay test of NSCC without
 * trimming: a target of one base RTT). No evaluation of this variant was published.
 *
 * After a time-out nothing is drawn for a while (freezing): paths that are known to work are used over and over.
 */
#include "policy/policies.h"

#include <assert.h>
#include <string.h>

#include "base/rng.h"
#include "base/units.h"

/* Entries of the ring (reference). */
#define REPS_RING 8
/* A path is good below so many times the smallest RTT. */
#define REPS_GOOD_RTTS 2
/* Freezing lasts this long (reference), */
#define REPS_FREEZE_NS (10 * UCCL_NS_PER_MS)
/* and after it so many paths are drawn before one is used again (reference). */
#define REPS_EXPLORE 16

struct reps {
	uint64_t min_rtt_ns;	   /* 0: none yet */
	uint64_t frozen_until;	   /* 0: not frozen */
	uint16_t ring[REPS_RING];  /* paths that were good, oldest at `head` */
	uint8_t head, fresh, size; /* entries not used since they were put there; entries that hold anything */
	uint16_t explore;	   /* paths still to be drawn */
	uint16_t replay;	   /* frozen: the next entry to be used again */
};

_Static_assert(sizeof(struct reps) <= UCCL_PATHSEL_STATE, "state too large");

static void reps_init(void *ps, const struct uccl_policy_cfg *cfg, uint16_t npaths)
{
	struct reps *r = ps;

	(void)cfg;
	memset(r, 0, sizeof(*r));
	/* The first window walks over many. */
	r->explore = (uint16_t)uccl_min(npaths, REPS_EXPLORE);
}

static void reps_thaw(struct reps *r, uint64_t now)
{
	if (!r->frozen_until || now < r->frozen_until)
		return;
	r->frozen_until = 0;
	r->head = r->fresh = r->size = 0;
	r->explore = REPS_EXPLORE;
}

static uint16_t reps_select(void *ps, const struct uccl_path *paths, const uint16_t *usable, uint16_t n, uint32_t bytes,
			    struct uccl_rng *rng, uint64_t now)
{
	struct reps *r = ps;
	uint16_t path;

	(void)bytes;
	assert(n >= 1);
	reps_thaw(r, now);
	while (r->fresh && !r->explore) {
		path = r->ring[r->head];
		r->head = (uint8_t)((r->head + 1) % REPS_RING);
		r->fresh--;
		if (uccl_path_usable(&paths[path]))
			return path;
	}
	for (uint8_t i = 0; r->frozen_until && i < r->size; i++) {
		r->replay = (uint16_t)((r->replay + 1) % r->size);
		if (uccl_path_usable(&paths[r->ring[r->replay]]))
			return r->ring[r->replay];
	}
	if (r->explore)
		r->explore--;
	return usable[uccl_rng_below(rng, n)];
}

static void reps_on_ack(void *ps, uint16_t path, uint64_t rtt_ns, bool ecn, uint64_t now)
{
	struct reps *r = ps;

	reps_thaw(r, now);
	if (!r->min_rtt_ns || rtt_ns < r->min_rtt_ns)
		r->min_rtt_ns = rtt_ns;
	if (ecn || rtt_ns >= REPS_GOOD_RTTS * r->min_rtt_ns)
		return;
	/* The oldest makes room. */
	if (r->fresh == REPS_RING) {
		r->head = (uint8_t)((r->head + 1) % REPS_RING);
		r->fresh--;
	}
	r->ring[(r->head + r->fresh) % REPS_RING] = path;
	r->fresh++;
	r->size = (uint8_t)uccl_min(r->size + 1u, REPS_RING);
}

static void reps_on_loss(void *ps, uint16_t path, enum uccl_loss_kind kind, uint64_t now)
{
	struct reps *r = ps;
	uint8_t kept = 0;
	uint16_t ring[REPS_RING];

	if (kind != UCCL_LOSS_RTO)
		return;
	/* What is left are paths that worked and are not the one that is silent; oldest first, used again or not. */
	for (uint8_t i = 0; i < r->size; i++) {
		uint16_t known = r->ring[(REPS_RING + r->head + r->fresh - r->size + i) % REPS_RING];

		if (known != path)
			ring[kept++] = known;
	}
	memcpy(r->ring, ring, kept * sizeof(*ring));
	r->head = 0;
	r->fresh = r->size = kept;
	r->frozen_until = now + REPS_FREEZE_NS;
	r->explore = 0;
}

const struct uccl_path_ops uccl_path_reps = {
	.name = "reps",
	.init = reps_init,
	.select = reps_select,
	.on_ack = reps_on_ack,
	.on_loss = reps_on_loss,
};
