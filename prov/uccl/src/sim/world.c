/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See world.h. The checks here look inside the engines. */
#include "sim/world.h"

#include <inttypes.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/impl.h"
#include "lanes/worker.h"
#include "sim/buffer.h"
#include "sim/remote.h"

/*
 * A run has ten thousand events, a large one a million; one that loses each chunk for three seconds, and neither
 * questions nor answers, over wires of a microsecond, 400 thousand for each pair of endpoints.
 */
#define EVENTS_MAX 20000000u
#define EVENTS_PAIR 1000000u
#define CLOSE_BOUND_NS (20 * UCCL_NS_PER_S)
/* Longest time between a death and the next life. */
#define RESTART_NS (50 * UCCL_NS_PER_MS)
#define SETTLE_NS (2 * UCCL_NS_PER_S)
#define MS(x) ((uint64_t)((x)*1e6))
#define US(x) ((uint64_t)((x)*1e3))

enum action_kind { ACT_HEAL, ACT_RESTART, ACT_BOOT, ACT_KILL, ACT_SLEEP, ACT_LANE, ACT_BREAK };

/* A disaster at its time. */
struct sim_action {
	struct uccl_sim_event ev;
	struct uccl_sim_world *w;
	uint8_t kind, node;
	uint64_t arg;
};

int uccl_sim_boot(struct uccl_sim_world *w, uint8_t node)
{
	struct uccl_sim_life *n = &w->node[node];
	bool again = n->w != NULL;
	int rc;

	if (n->alive || (again && n->life + 1 == UCCL_SIM_LIVES))
		return -FI_EINVAL;
	n->life += again;
	n->w = w;
	n->node = node;
	n->asleep_until = 0;
	n->spins = 0;
	n->refused = 0;
	uccl_rng_seed(&n->random, uccl_rng_next(&w->rng));
	sim_life_init(n);
	rc = uccl_sim_life_open(n);
	if (rc)
		return rc;
	w->addr[node][n->life] = *uccl_engine_addr(n->e);
	n->alive = true;
	uccl_sim_say(w, "endpoint %u begins life %u", node, n->life);
	uccl_sim_wake(n);
	return 0;
}

static void life_end(struct uccl_sim_world *w, uint8_t node)
{
	struct uccl_sim_life *n = &w->node[node];
	const struct uccl_sim_nic_stats *st = uccl_sim_nic_stats(n->nic);
	const struct uccl_stats *es = uccl_engine_stats(n->e);

	w->total.train_drops += st->train_drops;
	w->total.train_tests += es->train_tests;
	w->total.trains_off += es->trains_off;
	w->total.predictions += es->placements;
	w->total.prediction_hits += es->placement_hits;
	w->total.misplaced += st->misplaced;
	w->total.slot_drops_write += st->slot_drops_write;
	w->total.slot_drops += st->slot_drops;
	w->total.fenced += st->fenced;
	w->total.writes += st->rx_writes;
	w->total.bad_key += st->bad_key;
	uccl_sim_inv_marks_add(w, n);
	n->alive = false;
	uccl_sim_cancel(&w->net, &n->poll);
	uccl_sim_lanes_close(n);
	uccl_engine_close(n->e);
	uccl_sim_lanes_free(n);
	n->nic = NULL;
	sim_work_death(w, node, n->life);
	sim_remote_death(w, node, n->life);
	n->e = NULL;
}

void uccl_sim_kill(struct uccl_sim_world *w, uint8_t node)
{
	struct uccl_sim_life *n = &w->node[node];

	if (!n->alive)
		return;
	uccl_sim_say(w, "endpoint %u dies", node);
	w->deaths = true;
	uccl_sim_nic_kill(n->nic);
	for (uint8_t k = 0; k < (uint8_t)w->o.lanes; k++)
		uccl_sim_nic_kill(n->lane[k].nic);
	life_end(w, node);
}

void uccl_sim_sleep(struct uccl_sim_world *w, uint8_t node, uint64_t until)
{
	struct uccl_sim_life *n = &w->node[node];

	uccl_sim_say(w, "endpoint %u sleeps for %.3f ms", node, (double)(until - w->net.now) / 1e6);
	n->asleep_until = uccl_max(n->asleep_until, until);
}

static void lane_sleep(struct uccl_sim_world *w, uint8_t node, uint8_t k, uint64_t until)
{
	uccl_sim_say(w, "lane %u of endpoint %u stops for %.3f ms", k, node, (double)(until - w->net.now) / 1e6);
	w->node[node].lane[k].asleep_until = until;
}

/* --- disasters --- */

static void action_fire(struct uccl_sim_event *ev)
{
	struct sim_action *a = uccl_container_of(ev, struct sim_action, ev);
	struct uccl_sim_world *w = a->w;
	struct uccl_sim_life *n = &w->node[a->node];

	switch (a->kind) {
	case ACT_HEAL:
		uccl_sim_say(w, "the network is healed");
		w->healed = true;
		uccl_sim_heal(&w->net);
		break;
	case ACT_RESTART:
		if (!n->alive || n->life + 1 == UCCL_SIM_LIVES)
			break;
		uccl_sim_kill(w, a->node);
		a->kind = ACT_BOOT;
		uccl_sim_at(&w->net, &a->ev, w->net.now + a->arg);
		break;
	case ACT_BOOT:
		if (!uccl_sim_boot(w, a->node))
			uccl_sim_plan_random(w, (uint32_t)w->o.messages / 4, w->net.now, MS(w->o.work_ms));
		break;
	case ACT_KILL:
		uccl_sim_kill(w, a->node);
		break;
	case ACT_SLEEP:
		if (n->alive)
			uccl_sim_sleep(w, a->node, w->net.now + a->arg);
		break;
	case ACT_LANE:
		lane_sleep(w, a->node, (uint8_t)(a->arg % (uint64_t)w->o.lanes), w->net.now + a->arg);
		break;
	case ACT_BREAK:
		if (n->alive)
			uccl_sim_nic_break(n->nic, (uint8_t)(a->arg >> 16), (uint16_t)a->arg);
		break;
	}
}

static void plan_action(struct uccl_sim_world *w, enum action_kind kind, uint8_t node, uint64_t at, uint64_t arg)
{
	struct sim_action *a = &w->action[w->nactions++];

	*a = (struct sim_action){.w = w, .kind = (uint8_t)kind, .node = node, .arg = arg, .ev.fire = action_fire};
	uccl_sim_at(&w->net, &a->ev, at);
}

/* Nothing longer than `above` comes through; 0: nothing at all. */
static void plan_hole(struct uccl_sim_world *w, bool all_routes, uint32_t above)
{
	const struct uccl_sim_options *o = &w->o;

	struct uccl_sim_hole h = {.src = -1, .dst = -1, .route = -1, .above = above};

	if (!all_routes)
		h.route = (int)uccl_rng_below(&w->rng, (uint64_t)o->routes);
	if (uccl_rng_chance(&w->rng, 0.7))
		h.src = (int)uccl_rng_below(&w->rng, (uint64_t)o->nodes);
	if (uccl_rng_chance(&w->rng, 0.5))
		h.dst = (int)uccl_rng_below(&w->rng, (uint64_t)o->nodes);
	h.start = w->net.now + uccl_rng_below(&w->rng, MS(o->fault_ms) + 1);
	h.end = h.start + uccl_rng_below(&w->rng, MS(o->hole_ms) + 1);
	uccl_sim_hole_add(&w->net, &h);
}

void uccl_sim_plan_disasters(struct uccl_sim_world *w)
{
	const struct uccl_sim_options *o = &w->o;
	uint32_t restarts = (uint32_t)o->restarts, kills = (uint32_t)o->kills, sleeps = (uint32_t)o->sleeps;
	uint32_t breaks = (uint32_t)o->breaks, i;
	uint32_t stops = o->lanes > 0 ? (uint32_t)(o->nodes * o->lane_sleeps) : 0;
	uint64_t start = w->net.now, span = MS(o->fault_ms), nodes = (uint64_t)o->nodes;

	w->action = calloc(restarts + kills + sleeps + breaks + stops + 1, sizeof(*w->action));
	if (!w->action)
		return;
	for (i = 0; i < (uint32_t)o->holes; i++)
		plan_hole(w, false, 0);
	for (i = 0; i < (uint32_t)o->cuts; i++)
		plan_hole(w, true, 0);
	for (i = 0; i < restarts; i++)
		plan_action(w, ACT_RESTART, (uint8_t)uccl_rng_below(&w->rng, nodes),
			    start + uccl_rng_below(&w->rng, span + 1),
			    uccl_rng_chance(&w->rng, 0.3) ? 0 : uccl_rng_below(&w->rng, RESTART_NS));
	for (i = 0; i < kills; i++)
		plan_action(w, ACT_KILL, (uint8_t)uccl_rng_below(&w->rng, nodes),
			    start + uccl_rng_below(&w->rng, span + 1), 0);
	for (i = 0; i < sleeps; i++)
		plan_action(w, ACT_SLEEP, (uint8_t)uccl_rng_below(&w->rng, nodes),
			    start + uccl_rng_below(&w->rng, span + 1), uccl_rng_below(&w->rng, MS(o->sleep_ms) + 1));
	for (i = 0; i < breaks; i++)
		plan_action(w, ACT_BREAK, (uint8_t)uccl_rng_below(&w->rng, nodes),
			    start + uccl_rng_below(&w->rng, span + 1),
			    uccl_rng_below(&w->rng, nodes) << 16 | uccl_rng_below(&w->rng, (uint64_t)o->paths));
	for (i = 0; i < (uint32_t)o->shrinks; i++)
		plan_hole(w, uccl_rng_chance(&w->rng, 0.5), (uint32_t)o->shrink_to);
	for (i = 0; i < stops; i++)
		plan_action(w, ACT_LANE, (uint8_t)(i % nodes), start + uccl_rng_below(&w->rng, MS(o->work_ms) + 1),
			    uccl_rng_below(&w->rng, MS(o->sleep_ms) + 1));
	plan_action(w, ACT_HEAL, 0, start + span, 0);
}

/* --- the world --- */

static void net_config(const struct uccl_sim_options *o, struct uccl_sim_net_cfg *c)
{
	*c = (struct uccl_sim_net_cfg){
		.nodes = (uint8_t)(o->nodes * (1 + o->lanes)),
		.routes = (uint8_t)o->routes,
		.delay_ns = US(o->delay_us),
		.spread_ns = US(o->spread_us),
		.jitter_ns = US(o->jitter_us),
		.rate_bps = (uint64_t)(o->rate_mbps * 1e6),
		.queue_bytes = (uint64_t)(o->queue_kb * 1024),
		.mark_bytes = (uint64_t)(o->mark_kb * 1024),
		.mark = o->mark,
		.fifo = o->fifo > 0,
		.rails = o->rails > 0,
		.faults =
			{
				.loss = o->loss,
				.burst = o->burst,
				.burst_end = o->burst_end,
				.kind_loss = o->kind_loss,
				.kind_mask = 1ull << (int)o->kind,
				.nth = (uint32_t)o->nth,
				.dup = o->dup,
				.dup_writes = o->dup_writes > 0,
				.torn = o->torn,
				.reorder = o->reorder,
				.reorder_ns = US(o->reorder_us),
				.stall = o->stall,
				.stall_ns = MS(o->stall_ms),
				.corrupt = o->corrupt,
				.corrupt_pass = o->corrupt_pass > 0,
				.truncate = o->truncate,
				.flap_ns = MS(o->flap_ms),
				.old_stay = o->old_stay,
				.pause = o->pause,
				.pause_ns = US(o->pause_us),
			},
	};
}

static void world_show(void *arg, const struct uccl_sim_pkt *p, const char *what, uint64_t now)
{
	struct uccl_sim_world *w = arg;

	(void)now;
	uccl_sim_inv_packet(w, p, what);
	if (w->verbose < 2)
		return;
	uccl_sim_say(w, "%u -> %u type %u route %u path %u csn %u len %u%s%s%s", p->src, p->dst, p->type, p->route,
		     p->path,
		     p->kind == UCCL_TX_WRITE ? p->remote.imm
		     : p->len >= 20	      ? uccl_get32(p->data + 16)
					      : 0,
		     p->len, p->copy ? " (double)" : "", what ? ": " : "", what ? what : "");
}

int uccl_sim_world_open(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed)
{
	void (*print)(const char *text) = w->print;
	struct uccl_sim_net_cfg cfg;
	int verbose = w->verbose, rc;
	uint8_t i;

	memset(w, 0, sizeof(*w));
	w->print = print;
	w->verbose = verbose;
	w->o = *o;
	w->seed = seed;
	w->target = &sim_remote_target;
	uccl_rng_seed(&w->rng, seed);
	uccl_owner_init(&w->owner);
	net_config(o, &cfg);
	rc = uccl_sim_net_init(&w->net, &cfg, uccl_rng_next(&w->rng), (uint64_t)o->start_ns);
	if (rc)
		return rc;
	w->net.show = world_show;
	w->net.show_arg = w;
	for (i = 0; i < (uint8_t)o->nodes; i++) {
		rc = uccl_sim_boot(w, i);
		if (rc)
			return rc;
	}
	return 0;
}

void uccl_sim_world_close(struct uccl_sim_world *w)
{
	uint8_t i;

	for (i = 0; i < UCCL_SIM_WORLD_NODES; i++) {
		if (w->node[i].alive)
			life_end(w, i);
	}
	sim_work_fini(w);
	sim_remote_fini(w);
	sim_buffers_fini(w);
	free(w->action);
	uccl_sim_net_fini(&w->net);
	uccl_sim_inv_fini(&w->inv);
	uccl_owner_fini(&w->owner);
}

/* Is there something that only time or the peer can move? What the NIC alone still holds comes back as UCCL_RX_SENT. */
static bool flow_waits(const struct uccl_flow *f)
{
	if (uccl_sendq_waits(&f->sendq))
		return true;
	return uccl_sent_unacked(&f->sent) > 0;
}

/* Invariants I6 (flows) and I10 (whoever waits for a live peer has a timer); others are in invariant.c. */
static void life_check(struct uccl_sim_life *n, const struct uccl_engine *e)
{
	struct uccl_sim_world *w = n->w;
	bool waits = false;
	struct conn *c;

	TAILQ_FOREACH(c, &e->conns.live, state.all) {
		const char *text = c->peer.open ? uccl_flow_check(&c->peer.flow) : NULL;

		if (text)
			uccl_sim_violation(w, "I6: endpoint %u, flow to port %u: %s", n->node, c->peer.addr.nic.port,
					   text);
		waits |= !c->peer.dead && !c->peer.self &&
			 (!TAILQ_EMPTY(&c->peer.tx.pending) || (c->peer.open && flow_waits(&c->peer.flow)));
	}
	if (waits && uccl_engine_expiry(e) == UCCL_NEVER && w->o.keepalive_ms > 0)
		uccl_sim_violation(w, "I10: endpoint %u waits for a peer and has no timer", n->node);
}

void uccl_sim_check(struct uccl_sim_world *w)
{
	struct uccl_engine *e;
	uint8_t i, k;

	w->checks++;
	for (i = 0; i < (uint8_t)w->o.nodes; i++)
		for (k = 0; (e = uccl_sim_engine(&w->node[i], k)); k++) {
			life_check(&w->node[i], e);
			uccl_sim_inv_look(&w->node[i], e);
		}
}

bool uccl_sim_go(struct uccl_sim_world *w, uint64_t until, bool done)
{
	uint64_t every = (uint64_t)w->o.check_every, nodes = (uint64_t)w->o.nodes;
	uint64_t most = uccl_max(EVENTS_MAX, EVENTS_PAIR * nodes * (nodes - 1));

	while (!w->violations && !(done && !w->open) && uccl_sim_next(&w->net) <= until) {
		uccl_sim_step(&w->net);
		if (every && w->net.stats.events % every == 0)
			uccl_sim_check(w);
		if (w->net.stats.events > most)
			uccl_sim_violation(w, "I10: a storm: more than %" PRIu64 " events", most);
	}
	if (!done && !w->violations)
		w->net.now = uccl_max(w->net.now, until);
	return !w->open;
}

static void report_all(struct uccl_sim_world *w)
{
	static char text[16384];
	uint8_t i;
	FILE *f;

	if (!w->print)
		return;
	for (i = 0; i < (uint8_t)w->o.nodes; i++) {
		if (!w->node[i].alive)
			continue;
		snprintf(text, sizeof(text), "--- endpoint %u", i);
		w->print(text);
		f = fmemopen(text, sizeof(text), "w");
		if (!f)
			return;
		uccl_engine_report(w->node[i].e, f, true, w->net.now);
		fclose(f);
		w->print(text);
	}
}

static bool any_operation(const struct uccl_sim_world *w)
{
	uint8_t i;

	for (i = 0; i < (uint8_t)w->o.nodes; i++) {
		if (w->node[i].alive && w->node[i].e->msg_ep.op_pool.used)
			return true;
	}
	return false;
}

/* Lanes have nothing that the primary has not, and nothing is unanswered. */
static void check_lanes(struct uccl_sim_world *w, const struct uccl_sim_life *n)
{
	for (uint8_t k = 0; k < (uint8_t)w->o.lanes; k++) {
		const struct uccl_sim_lane *l = &n->lane[k];
		uint32_t nreassemblies = 0;

		for (int i = 0; i < UCCL_LANE_TABLE; i++)
			nreassemblies += !LIST_EMPTY(&l->e->msg_ep.lane->reassemblies[i]);
		if (l->e->msg_ep.op_pool.used || nreassemblies || l->channel->nunplaced || l->channel->unanswered ||
		    l->channel->stripes || l->channel->bytes || !TAILQ_EMPTY(&l->channel->later) ||
		    uccl_mailbox_peek(&l->channel->up, 0))
			uccl_sim_violation(w,
					   "I16: lane %u of endpoint %u still has %u stripes, places of %u messages, "
					   "%u unplaced; %u commands unanswered, of them stripes %u (%llu bytes)",
					   k, n->node, l->e->msg_ep.op_pool.used, nreassemblies, l->channel->nunplaced,
					   l->channel->unanswered, l->channel->stripes,
					   (unsigned long long)l->channel->bytes);
		if (n->e->msg_ep.unplaced.bytes)
			uccl_sim_violation(w, "I16: lanes of endpoint %u count %llu bytes that they do not keep",
					   n->node, (unsigned long long)n->e->msg_ep.unplaced.bytes);
		if (uccl_sim_nic_stats(l->nic)->mrs)
			uccl_sim_violation(w, "I16: lane %u of endpoint %u still has %u registrations", k, n->node,
					   uccl_sim_nic_stats(l->nic)->mrs);
	}
}

/* All operations are over: nothing of them may be left in the engines (I16). */
static void check_leaks(struct uccl_sim_world *w)
{
	uint8_t i;

	for (i = 0; i < (uint8_t)w->o.nodes; i++) {
		struct uccl_sim_life *n = &w->node[i];

		if (!n->alive)
			continue;
		check_lanes(w, n);
		if (n->e->msg_ep.op_pool.used)
			uccl_sim_violation(w, "I16: endpoint %u still holds %u operations", i,
					   n->e->msg_ep.op_pool.used);
		if (n->e->msg_ep.rx_pool.used && !w->deaths && w->o.corrupt_pass <= 0)
			uccl_sim_violation(w, "I16: endpoint %u still holds %u messages", i, n->e->msg_ep.rx_pool.used);
		if (n->e->msg_ep.unexpected.bytes && !w->deaths && w->o.corrupt_pass <= 0)
			uccl_sim_violation(w, "I16: endpoint %u still buffers %llu bytes", i,
					   (unsigned long long)n->e->msg_ep.unexpected.bytes);
		if (uccl_sim_nic_stats(n->nic)->mrs && !w->deaths)
			uccl_sim_violation(w, "I16: endpoint %u still has %u registrations", i,
					   uccl_sim_nic_stats(n->nic)->mrs);
	}
}

/* Everybody closes, a little apart; then the engines go. */
static void close_all(struct uccl_sim_world *w)
{
	uint64_t bound = w->net.now + CLOSE_BOUND_NS;
	bool drained = false;
	uint8_t i;

	for (i = 0; i < (uint8_t)w->o.nodes && !w->violations; i++) {
		if (!w->node[i].alive)
			continue;
		uccl_sim_say(w, "endpoint %u closes", i);
		uccl_engine_drain(w->node[i].e, w->net.now);
		uccl_sim_wake(&w->node[i]);
		uccl_sim_go(w, w->net.now + uccl_rng_below(&w->rng, 5 * UCCL_NS_PER_MS), false);
	}
	while (!drained && w->net.now < bound && !w->violations) {
		uccl_sim_go(w, w->net.now + UCCL_NS_PER_MS, false);
		for (i = 0, drained = true; i < (uint8_t)w->o.nodes; i++)
			drained = drained && (!w->node[i].alive || uccl_engine_drained(w->node[i].e));
	}
	if (!drained && !w->violations)
		uccl_sim_violation(w, "closing took longer than %.0f s", (double)CLOSE_BOUND_NS / 1e9);
	for (i = 0; i < (uint8_t)w->o.nodes; i++) {
		if (w->node[i].alive)
			life_end(w, i);
	}
}

/* Until when it, or a lane of it, does not poll. */
static uint64_t life_asleep(const struct uccl_sim_life *n)
{
	uint64_t until = n->asleep_until;

	for (uint8_t k = 0; k < (uint8_t)n->w->o.lanes; k++)
		until = uccl_max(until, n->lane[k].asleep_until);
	return until;
}

uint32_t uccl_sim_finish(struct uccl_sim_world *w)
{
	const struct uccl_sim_options *o = &w->o;
	uint64_t faults = (uint64_t)o->start_ns + MS(uccl_max((uint64_t)o->fault_ms, (uint64_t)o->work_ms)), bound,
		 settled;
	uint8_t i;

	/* The last of the dead may come back a little later. */
	uccl_sim_go(w, faults + (o->restarts > 0 ? RESTART_NS : 0), false);
	if (!w->healed) {
		w->healed = true;
		uccl_sim_heal(&w->net);
	}
	bound = w->net.now + MS(o->bound_ms) + MS(o->sleeps > 0 || o->lane_sleeps > 0 ? o->sleep_ms : 0);
	if (w->deaths)
		bound += MS(o->peer_timeout_ms + o->connect_timeout_ms);
	/* An endpoint that dies and comes back has new messages; so `open` may rise again, but not after the faults. */
	if (!uccl_sim_go(w, bound, true) && !w->violations && o->corrupt_pass <= 0) {
		if (uccl_sim_next(&w->net) == UCCL_NEVER)
			uccl_sim_violation(w, "I10: nothing will ever happen again, and messages are open");
		sim_work_tell_open(w);
		sim_remote_tell_open(w);
		report_all(w);
	}
	if (!w->violations) {
		sim_work_cancel_rest(w);
		for (i = 0, settled = w->net.now; i < (uint8_t)o->nodes; i++)
			settled = uccl_max(settled, life_asleep(&w->node[i]));
		uccl_sim_go(w, settled + SETTLE_NS, false);
	}
	/*
	 * Injected messages to the dead are held until the death is noticed; what was taken back while its target was
	 * silent, until the target knows.
	 */
	while (!w->violations && (w->deaths || w->aborts.ended) && any_operation(w) && w->net.now < bound)
		uccl_sim_go(w, w->net.now + UCCL_NS_PER_S, false);
	if (!w->violations)
		check_leaks(w);
	if (!w->violations)
		uccl_sim_inv_marks(w);
	if (!w->violations)
		close_all(w);
	if (!w->violations)
		sim_work_check_end(w);
	/* The last look at buffers: writes that are still on their way would land now. */
	while (!w->violations && w->buffers.reuses && uccl_sim_step(&w->net))
		;
	if (w->total.slot_drops_write && o->stall <= 0 && o->reorder <= 0 && o->dup_writes <= 0)
		uccl_sim_violation(w, "I8: %llu direct writes found no receive slot",
				   (unsigned long long)w->total.slot_drops_write);
	if (w->total.trains_off && o->train_fault <= 0)
		uccl_sim_violation(w, "I19: a bad network was taken for one that breaks trains");
	return w->violations;
}

uint32_t uccl_sim_seed(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed)
{
	int rc = uccl_sim_world_open(w, o, seed);

	if (rc) {
		uccl_sim_violation(w, "the world cannot be opened: %d", rc);
		return w->violations;
	}
	uccl_sim_plan_disasters(w);
	uccl_sim_plan_random(w, (uint32_t)o->messages, w->net.now, MS(o->work_ms));
	return uccl_sim_finish(w);
}
