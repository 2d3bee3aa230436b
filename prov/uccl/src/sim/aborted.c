/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See aborted.h. */
#include "sim/aborted.h"

#include <rdma/fi_errno.h>

#include "engine/impl.h"
#include "sim/life.h"

/* The target has 0.9 s to answer (PROTOCOL R364). The rest is until the next look at what still reads the payload. */
#define SILENT_NS UCCL_NS_PER_S

/* Drawn to be judged (aborts), is each peer that lives in reach all the time, and its engine run often? */
static bool calm(const struct uccl_sim_options *o)
{
	return o->aborts > 0 && o->loss <= 0.05 && o->poll_us <= 20 && o->cmd_us <= 50 && o->read_us <= 20 &&
	       o->fence_us <= 100 &&
	       !(o->burst > 0 || o->kind_loss > 0 || o->nth > 0 || o->stall > 0 || o->corrupt > 0 || o->truncate > 0 ||
		 o->torn > 0 || o->reorder > 0 || o->dup > 0 || o->flap_ms > 0 || o->holes > 0 || o->cuts > 0 ||
		 o->shrinks > 0 || o->pause > 0 || o->breaks > 0 || o->sleeps > 0 || o->lane_sleeps > 0 ||
		 o->train_fault > 0 || o->misplaced > 0 || o->corrupt_pass > 0);
}

uint64_t sim_abort_after(struct uccl_sim_world *w)
{
	uint64_t within = w->o.aborts > 0 ? 1ull << (10 + uccl_rng_below(&w->rng, 13)) : 2 * UCCL_NS_PER_MS;

	return 1 + uccl_rng_below(&w->rng, within);
}

static uint64_t rtt_of(struct uccl_sim_life *n, uint8_t to, uint32_t to_life)
{
	const struct uccl_peer *p = n->peer[to][to_life];

	return p && p->open ? p->flow.loss.times.srtt_ns : 0;
}

void sim_abort_begin(struct sim_abort *a, struct uccl_sim_life *n, const void *context, uint8_t to, uint32_t to_life)
{
	int rc;

	a->began = n->w->net.now;
	a->rtt_ns = rtt_of(n, to, to_life);
	a->taken = true;
	rc = uccl_engine_abort(n->e, context, n->w->net.now);
	if (rc)
		a->taken = false;
	if (rc && rc != -FI_ENOENT && rc != -FI_EAGAIN)
		uccl_sim_violation(n->w, "endpoint %u could not take an operation back: %d", n->node, rc);
	uccl_sim_wake(n);
}

/* Did this endpoint, or a lane of it, not poll for a while since then? */
static bool slept(const struct uccl_sim_life *n, uint64_t since)
{
	bool is = n->asleep_until > since;

	for (uint8_t k = 0; k < (uint8_t)n->w->o.lanes; k++)
		is |= n->lane[k].asleep_until > since;
	return is;
}

void sim_abort_end(const struct sim_abort *a, struct uccl_sim_life *n, uint8_t to, uint32_t to_life, bool cancelled)
{
	struct uccl_sim_world *w = n->w;
	uint64_t took = w->net.now - a->began, rtt = uccl_max(a->rtt_ns, rtt_of(n, to, to_life));

	w->aborts.ended++;
	w->aborts.cancelled += cancelled;
	if (took > SILENT_NS && !slept(n, a->began) && w->o.corrupt_pass <= 0)
		uccl_sim_violation(w, "I21: endpoint %u took an operation back, which ended after %.3f ms", n->node,
				   (double)took / 1e6);
	if (!calm(&w->o) || !rtt || !uccl_sim_alive(w, to, to_life) || !n->alive)
		return;
	w->aborts.prompt++;
	if (took <= 2 * rtt + UCCL_NS_PER_MS)
		return;
	w->aborts.late++;
	uccl_sim_say(w, "endpoint %u took an operation back, which ended after %.3f ms, RTT %.3f ms", n->node,
		     (double)took / 1e6, (double)rtt / 1e6);
}
