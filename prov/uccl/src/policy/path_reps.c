/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * REPS, recycled entropies (Bonato et al., arXiv 2407.21625): a path that just brought an acknowledgement in good time
 * is used once more; if none is left, one is drawn. The original knows good from bad by ECN marks. Here the RTT
 * tells, and where marks come, too, what is slow and not marked counts half. No evaluation of this variant was
 * published.
 *
 * After a time-out nothing is drawn for a while (freezing): paths that are known to work are used over and over.
 *
 * DESIGN NOTES
 * - What is recycled keeps its place: as many chunks of a flow stay on a route as there were, whatever a draw would do.
 *   In a full network that decides. Queues do not drain there, and each draw adds the variance of a random choice.
 * - So a path is left only for a reason, and by a share only: with a bound on the RTT, either nobody leaves a queue, or
 *   all do at once, and the draws fill another. A path is given up in the long run as often as its RTT exceeds the
 *   mean of the flow, in parts of the RTT. If all who share a queue do that, what is above the mean leaves it within
 *   one round trip. The sum of these parts, not chance, says when: it has less variance.
 * - A mark alone is no reason either: where queues are as long as switches begin to mark, that is a bound like any
 *   other. Leaving each marked path made a permutation slower than it is without marks; so did counting what is slow
 *   and marked twice. What marks do tell is where nothing waits: what is slow without one may be slow at hosts.
 * - What is recycled is a choice, not a sample. A choice may be for several chunks, each of which is reported; were the
 *   path recycled for each, every one would hold many places, leaving one would change nothing, and the places of all
 *   others would be thrown out of the ring. And a choice comes back when what it was for has come, whoever tells of
 *   that: where acknowledgements overtake each other, many a chunk is told of by one that has no sample of its path. If
 *   its place were lost, a third of the choices would be draws.
 * - Where each path is policed (R406), recycling is wrong: a path is quick until it drops, so some paths carry more
 *   than their limit and others nothing. So nothing is used again there, not even while frozen, and of the paths drawn
 *   the one with the least in flight is taken: the shortest RTT would be such a preference once more.
 */
#include "policy/policies.h"

#include <assert.h>
#include <string.h>

#include "base/rng.h"
#include "base/units.h"

/* Entries of the ring: all choices of a window (the reference has 8, of single packets). */
#define REPS_RING 64
/* A path holds so many even shares of the choices at most, and of fewer than there are paths only one. */
#define REPS_SHARES 4
#define REPS_CONSTANTS(X)											\
	X(mean, 0.03125, 0.0001, 1, "share",									\
	  "weight of a sample in the mean RTT; a round trip has some forty chunks of 32 KiB at 400 "		\
	  "Gb/s")												\
	X(draws, 8, 1, 16, "paths",										\
	  "this many paths are drawn; the policy prefers one that carries nothing, then the one with "		\
	  "the shortest recent RTT")										\
	X(unmarked, 0.5, 0, 1, "share",										\
	  "where the network marks, the excess of an RTT above the mean counts by this share if the "		\
	  "packet was not marked (ours)")									\
	X(mark_rtts, 32, 1, 1e6, "RTTs",									\
	  "after a mark the policy assumes a network that marks for this time")					\
	X(freeze_ms, 10, 0, 1e6, "ms",										\
	  "how long freezing lasts (reference)")								\
	X(explore, 16, 0, 1e4, "paths",										\
	  "this many paths are drawn, at first and after freezing, before one is used again (reference)")

UCCL_CONSTANTS(reps, REPS_CONSTANTS);

struct reps {
	const struct reps_k *k;
	double mean_ns;		   /* RTT; 0: none yet */
	double excess;		   /* of RTTs above the mean, in parts of them; at 1 a path is given up */
	uint64_t marking_until;	   /* the network marks; 0: it does not, as far as is known */
	uint64_t frozen_until;	   /* 0: not frozen */
	uint16_t ring[REPS_RING];  /* paths that were good, oldest at `head` */
	uint8_t head, fresh, size; /* entries not used since they were put there; entries that hold anything */
	uint16_t explore;	   /* paths still to be drawn */
	uint16_t replay;	   /* frozen: the next entry to be used again */
	uint32_t burst;		   /* bytes of the latest choice */
	uint16_t n;		   /* paths in service at the latest choice */
	uint16_t all;		   /* choices that were not recycled yet */
	uint8_t out[UCCL_PATHS_MAX]; /* those of a path */
};

_Static_assert(sizeof(struct reps) <= UCCL_PATHSEL_STATE, "state too large");

static void reps_init(void *ps, const struct uccl_policy_cfg *cfg, uint16_t npaths)
{
	struct reps *r = ps;

	memset(r, 0, sizeof(*r));
	r->k = UCCL_K(reps, cfg);
	r->burst = cfg->chunk_bytes;
	/* The first window walks over many. */
	r->explore = (uint16_t)uccl_min(npaths, (uint64_t)r->k->explore);
}

static void reps_thaw(struct reps *r, uint64_t now)
{
	if (!r->frozen_until || now < r->frozen_until)
		return;
	r->frozen_until = 0;
	r->head = r->fresh = r->size = 0;
	r->explore = (uint16_t)r->k->explore;
}

/*
 * What a chunk may expect of a path: its latest RTT, as a smoothed one would tell of queues that are gone. When the
 * mean RTT has passed since then, that one does, too, and the path is one like all.
 */
static double draw_rtt(const struct reps *r, const struct uccl_path *p, uint64_t now)
{
	return p->last_rtt_ns && (double)(now - p->sampled_ns) <= r->mean_ns ? (double)p->last_rtt_ns : r->mean_ns;
}

static bool draw_better(const struct reps *r, const struct uccl_path *a, const struct uccl_path *b, bool policed,
			uint64_t now)
{
	/* PROTOCOL R406 */
	if (policed)
		return a->inflight < b->inflight;
	if (!a->inflight != !b->inflight)
		return !a->inflight;
	return draw_rtt(r, a, now) < draw_rtt(r, b, now);
}

static uint16_t reps_draw(const struct reps *r, const struct uccl_path *paths, const uint16_t *usable, uint16_t n,
			  bool policed, struct uccl_rng *rng, uint64_t now)
{
	uint16_t best = usable[uccl_rng_below(rng, n)];

	for (int i = 1; i < (int)r->k->draws; i++) {
		uint16_t other = usable[uccl_rng_below(rng, n)];

		if (draw_better(r, &paths[other], &paths[best], policed, now))
			best = other;
	}
	return best;
}

static uint16_t reps_choose(struct reps *r, const struct uccl_path *paths, const uint16_t *usable, uint16_t n,
			    bool policed, struct uccl_rng *rng, uint64_t now)
{
	uint16_t path;

	reps_thaw(r, now);
	while (r->fresh && !r->explore && !policed) {
		path = r->ring[r->head];
		r->head = (uint8_t)((r->head + 1) % REPS_RING);
		r->fresh--;
		if (uccl_path_usable(&paths[path]))
			return path;
	}
	for (uint8_t i = 0; r->frozen_until && !policed && i < r->size; i++) {
		r->replay = (uint16_t)((r->replay + 1) % r->size);
		if (uccl_path_usable(&paths[r->ring[r->replay]]))
			return r->ring[r->replay];
	}
	if (r->explore)
		r->explore--;
	return reps_draw(r, paths, usable, n, policed, rng, now);
}

static uint16_t reps_select(void *ps, const struct uccl_path *paths, const uint16_t *usable, uint16_t n,
			    const struct uccl_chunk_info *chunk, struct uccl_rng *rng, uint64_t now)
{
	struct reps *r = ps;
	uint16_t path;

	assert(n >= 1 && chunk->bytes);
	path = reps_choose(r, paths, usable, n, chunk->policed, rng, now);
	r->burst = chunk->bytes;
	r->n = n;
	/* Of choices before, nothing will be reported any more: it was lost. */
	if (!paths[path].inflight) {
		r->all -= r->out[path];
		r->out[path] = 0;
	}
	if (r->out[path] < UINT8_MAX) {
		r->out[path]++;
		r->all++;
	}
	return path;
}

/* Whether a path that brought this RTT is to be left. */
static bool reps_leaves(struct reps *r, double rtt_ns, bool marked, uint64_t now)
{
	r->mean_ns += r->mean_ns > 0 ? r->k->mean * (rtt_ns - r->mean_ns) : rtt_ns;
	if (marked)
		r->marking_until = now + (uint64_t)(r->k->mark_rtts * r->mean_ns);
	if (rtt_ns <= r->mean_ns)
		return false;
	r->excess += (marked || now >= r->marking_until ? 1 : r->k->unmarked) * (rtt_ns - r->mean_ns) / rtt_ns;
	if (r->excess < 1)
		return false;
	r->excess -= 1;
	return true;
}

/* A choice came back: its path is left, or used once more. */
static void reps_back(struct reps *r, uint16_t path, bool leaves)
{
	r->out[path]--;
	r->all--;
	if (leaves || r->out[path] > REPS_SHARES * r->all / r->n)
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

static void reps_on_ack(void *ps, const struct uccl_path *paths, uint16_t path, uint64_t rtt_ns, uint64_t marked,
			uint64_t now)
{
	struct reps *r = ps;

	reps_thaw(r, now);
	/*
	 * What carries no payload waits in no queue, and says nothing of what would. Of choices as large as the latest
	 * there are still so many in flight, without what is just reported.
	 */
	if (paths[path].inflight && r->out[path] > (paths[path].inflight - 1) / r->burst)
		reps_back(r, path, reps_leaves(r, (double)rtt_ns, marked > 0, now));
}

static void reps_on_land(void *ps, const struct uccl_path *paths, uint16_t path, uint64_t now)
{
	struct reps *r = ps;

	/* Mostly its sample has told. */
	if (!r->out[path])
		return;
	reps_thaw(r, now);
	/* What is back without a sample is no worse than the mean. */
	while (r->out[path] > (paths[path].inflight + r->burst - 1) / r->burst)
		reps_back(r, path, false);
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
	r->frozen_until = now + (uint64_t)(r->k->freeze_ms * (double)UCCL_NS_PER_MS);
	r->explore = 0;
}

const struct uccl_path_ops uccl_path_reps = {
	.name = "reps",
	.warm = true,
	.constants = reps_constants,
	.init = reps_init,
	.select = reps_select,
	.on_ack = reps_on_ack,
	.on_land = reps_on_land,
	.on_loss = reps_on_loss,
};
