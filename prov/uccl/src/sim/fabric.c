/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "sim/fabric.h"

#include <assert.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "sim/fabric_memory.h"

/* Packets under way at once: 0.9 GB of memory. */
#define PKTS_MAX (10u << 20)

/* Over the number of hosts: time in which ten events are to be expected where all send at 400 Gb/s. */
#define SLOT_PS 65536
/* So many events ahead of its turn a packet's port is fetched, and its node so many. */
#define FETCH_PORT 4
#define FETCH_NODE 2

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* The tree */

bool uccl_fab_shape_good(const struct uccl_fab_topo *t)
{
	uint32_t tors;

	if ((t->tiers != 2 && t->tiers != 3) || !t->hosts_per_tor || !t->spines || t->hosts % t->hosts_per_tor)
		return false;
	tors = t->hosts / t->hosts_per_tor;
	if (!tors || (t->rails > 1 && tors % t->rails))
		return false;
	if (t->tiers == 3 && (!t->tors_per_pod || tors % t->tors_per_pod || !t->cores_per_agg))
		return false;
	return t->spines <= UINT16_MAX && t->cores_per_agg <= UINT16_MAX && tors <= UINT16_MAX;
}

uint64_t uccl_fab_spine_bps(const struct uccl_fab_topo *t, uint32_t i)
{
	uint32_t n = 0;

	while (n < UCCL_FAB_SPINE_RATES && t->spine_bps[n])
		n++;
	return t->tiers == 2 && n ? t->spine_bps[i % n] : t->up_bps;
}

uint64_t uccl_fab_tor_bps(const struct uccl_fab_topo *t)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < t->spines; i++)
		sum += uccl_fab_spine_bps(t, i);
	return sum;
}

uint64_t uccl_fab_up_bps_max(const struct uccl_fab_topo *t)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < t->spines; i++)
		most = uccl_max(most, uccl_fab_spine_bps(t, i));
	return most;
}

static bool topo_good(const struct uccl_fab_topo *t)
{
	if (!uccl_fab_shape_good(t) || !t->delay_ps || !t->queue_bytes)
		return false;
	if (t->host_bps < 1000000 || t->up_bps < 1000000 || t->ecn_lo > t->ecn_hi)
		return false;
	for (uint32_t i = 0; i < UCCL_FAB_SPINE_RATES; i++)
		if (t->spine_bps[i] && (t->spine_bps[i] < 1000000 || i >= t->spines))
			return false;
	if ((t->shared_bytes && !(t->alpha > 0)) || (t->pfc && !t->shared_bytes && !t->xoff_bytes))
		return false;
	return t->slow_hosts <= t->hosts && (!t->slow_hosts || t->slow_bps >= 1000000) && t->ecmp < UCCL_FAB_ECMPS;
}

static uint32_t ps_per_byte(uint64_t bps)
{
	return (uint32_t)((8000000000000ull + bps / 2) / bps);
}

uint64_t uccl_fab_host_bps(const struct uccl_fab *n, uint32_t host)
{
	uint64_t slow = n->topo.slow_hosts, all = n->topo.hosts;

	return (host + 1) * slow / all != host * slow / all ? n->topo.slow_bps : n->topo.host_bps;
}

uint32_t uccl_fab_switches(const struct uccl_fab *n, uint8_t tier)
{
	if (tier == 1)
		return n->tors;
	if (tier == 2)
		return n->topo.spines * (n->topo.tiers == 3 ? n->pods : 1);
	return tier == 3 && n->topo.tiers == 3 ? n->topo.spines * n->topo.cores_per_agg : 0;
}

uint32_t uccl_fab_switch(const struct uccl_fab *n, uint8_t tier, uint32_t i)
{
	uint32_t node = n->topo.hosts + i;

	for (uint8_t t = 1; t < tier; t++)
		node += uccl_fab_switches(n, t);
	return node;
}

uint32_t uccl_fab_tor(const struct uccl_fab *n, uint32_t host)
{
	uint32_t r = n->topo.rails;

	if (r < 2)
		return host / n->topo.hosts_per_tor;
	return host / r / n->topo.hosts_per_tor * r + host % r;
}

uint32_t uccl_fab_slot(const struct uccl_fab *n, uint32_t host)
{
	return host / (n->topo.rails < 2 ? 1 : n->topo.rails) % n->topo.hosts_per_tor;
}

/* How many links a node of a tier has down and up. */
static void node_shape(const struct uccl_fab *n, uint8_t tier, uint32_t *down, uint32_t *up)
{
	const struct uccl_fab_topo *t = &n->topo;

	*down = tier == 0	? 0
		: tier == 1	? t->hosts_per_tor
		: tier == 3	? n->pods
		: t->tiers == 3 ? t->tors_per_pod
				: n->tors;
	*up = tier == 0 ? 1 : tier == 1 ? t->spines : tier == 2 && t->tiers == 3 ? t->cores_per_agg : 0;
}

/* The node behind link `i` of `v`, and which of that node's links leads back. */
static uint32_t neighbour(const struct uccl_fab *n, const struct uccl_fab_node *v, bool up, uint32_t i)
{
	const struct uccl_fab_topo *t = &n->topo;

	if (v->tier == 0)
		return uccl_fab_switch(n, 1, uccl_fab_tor(n, v->place));
	if (v->tier == 1 && up)
		return uccl_fab_switch(n, 2, t->tiers == 3 ? v->place / t->tors_per_pod * t->spines + i : i);
	if (v->tier == 1) {
		uint32_t r = t->rails < 2 ? 1 : t->rails;

		/* Server, then rail. */
		return (v->place / r * t->hosts_per_tor + i) * r + v->place % r;
	}
	if (v->tier == 2 && up)
		return uccl_fab_switch(n, 3, v->place % t->spines * t->cores_per_agg + i);
	if (v->tier == 2)
		return uccl_fab_switch(n, 1, t->tiers == 3 ? v->place / t->spines * t->tors_per_pod + i : i);
	return uccl_fab_switch(n, 2, i * t->spines + v->place / t->cores_per_agg);
}

/* When it is well. */
static uint64_t port_bps(const struct uccl_fab *n, const struct uccl_fab_port *o)
{
	uint32_t port = (uint32_t)(o - n->ports), spine = uccl_fab_switch(n, 2, 0);

	/* A host's only port has its number. */
	if (port < n->topo.hosts)
		return uccl_fab_host_bps(n, port);
	if (o->to < n->topo.hosts)
		return uccl_fab_host_bps(n, o->to);
	if (n->topo.tiers != 2)
		return n->topo.up_bps;
	/* Up to a spine, or down from one: each has a port for each tor. */
	return uccl_fab_spine_bps(&n->topo, o->to >= spine ? o->to - spine : (port - n->nodes[spine].down) / n->tors);
}

static void node_wire(struct uccl_fab *n, struct uccl_fab_node *v)
{
	for (uint32_t i = 0; i < v->ndown; i++)
		n->ports[v->down + i].to = neighbour(n, v, false, i);
	for (uint16_t i = 0; i < v->nup; i++) {
		n->ports[v->up + i].to = neighbour(n, v, true, i);
		v->live[v->nlive++] = i;
	}
}

int uccl_fab_init(struct uccl_fab *n, const struct uccl_fab_topo *t, const struct uccl_fab_ops *ops, uint64_t seed)
{
	uint32_t down, up, v = 0, live = 0;

	memset(n, 0, sizeof(*n));
	if (!topo_good(t))
		return -FI_EINVAL;
	n->topo = *t;
	n->ops = ops;
	n->tors = t->hosts / t->hosts_per_tor;
	n->pods = t->tiers == 3 ? n->tors / t->tors_per_pod : 1;
	uccl_rng_seed(&n->rng, seed);
	uccl_pool_init(&n->pkts, sizeof(struct uccl_fab_pkt), PKTS_MAX);
	uccl_fab_limits_init(&n->limits, &t->limit);
	n->nnodes = uccl_fab_switch(n, 3, uccl_fab_switches(n, 3));
	n->nodes = calloc(n->nnodes, sizeof(*n->nodes));
	for (uint8_t tier = 0; tier <= 3; tier++) {
		node_shape(n, tier, &down, &up);
		n->nports += (down + up) * (tier ? uccl_fab_switches(n, tier) : t->hosts);
	}
	n->ports = calloc(n->nports, sizeof(*n->ports));
	n->live = calloc(n->nports, sizeof(*n->live));
	if (!n->nodes || !n->ports || !n->live || uccl_fab_memory_init(n) ||
	    uccl_fab_queue_init(&n->q, SLOT_PS / t->hosts)) {
		uccl_fab_fini(n);
		return -FI_ENOMEM;
	}
	n->nports = 0;
	for (uint8_t tier = 0; tier <= 3; tier++) {
		uint32_t count = tier ? uccl_fab_switches(n, tier) : t->hosts;

		node_shape(n, tier, &down, &up);
		for (uint32_t i = 0; i < count; i++, v++) {
			n->nodes[v] = (struct uccl_fab_node){
				.seed = uccl_rng_next(&n->rng),
				.down = n->nports,
				.up = n->nports + down,
				.ndown = (uint16_t)down,
				.nup = (uint16_t)up,
				.tier = tier,
				.place = i,
				.live = n->live + live,
			};
			n->nports += down + up;
			live += up;
		}
	}
	for (v = 0; v < n->nnodes; v++)
		node_wire(n, &n->nodes[v]);
	for (uint32_t i = 0; i < n->nports; i++) {
		n->ports[i].ev.kind = UCCL_FAB_SERVE;
		n->ports[i].ps_per_byte = ps_per_byte(port_bps(n, &n->ports[i]));
	}
	return 0;
}

void uccl_fab_fini(struct uccl_fab *n)
{
	uccl_pool_fini(&n->pkts);
	if (n->q.slots)
		uccl_fab_queue_fini(&n->q);
	uccl_fab_memory_fini(n);
	uccl_fab_limits_fini(&n->limits);
	free(n->nodes);
	free(n->ports);
	free(n->live);
	memset(n, 0, sizeof(*n));
}

/* Packets on links */

struct uccl_fab_pkt *uccl_fab_pkt_new(struct uccl_fab *n)
{
	struct uccl_fab_pkt *p = uccl_fab_need(uccl_pool_get(&n->pkts));

	p->ev.kind = UCCL_FAB_ARRIVE;
	return p;
}

void uccl_fab_pkt_free(struct uccl_fab *n, struct uccl_fab_pkt *p)
{
	uccl_pool_put(&n->pkts, p);
}

static bool port_loses(struct uccl_fab *n, struct uccl_fab_port *o)
{
	if (o->hole)
		return true;
	if (o->burst > 0 && uccl_rng_chance(&n->rng, o->bad ? o->mend : o->burst))
		o->bad = !o->bad;
	return o->bad || (o->loss > 0 && uccl_rng_chance(&n->rng, o->loss));
}

static void port_arm(struct uccl_fab *n, struct uccl_fab_port *o)
{
	if (o->armed)
		return;
	o->armed = true;
	uccl_fab_queue_put(&n->q, &o->ev, o->free_at);
}

/* The link is free: send. What is lost takes its time all the same. */
static void port_start(struct uccl_fab *n, struct uccl_fab_port *o, struct uccl_fab_pkt *p)
{
	uint64_t done = n->q.now + (uint64_t)p->bytes * o->ps_per_byte;

	o->free_at = done;
	o->packets++;
	o->tx_bytes += p->bytes;
	p->port = (uint32_t)(o - n->ports);
	/* A NIC tells its host of every packet that has left, also of those that then get lost. */
	if (p->port < n->topo.hosts) {
		o->sending = p;
		port_arm(n, o);
	}
	uccl_fab_queue_put(&n->q, &p->ev, done + n->topo.delay_ps);
}

/* Most networks have none of it, and are not to pay for those that have. */
static inline bool by_memory(const struct uccl_fab *n)
{
	return __builtin_expect(n->mem != NULL, 0);
}

static void port_queue(struct uccl_fab *n, struct uccl_fab_port *o, struct uccl_fab_pkt *p)
{
	p->next = NULL;
	if (o->head[p->cls])
		o->tail[p->cls]->next = p;
	else
		o->head[p->cls] = p;
	o->tail[p->cls] = p;
	o->bytes[p->cls] += p->bytes;
	if (p->cls != UCCL_FAB_DATA)
		return;
	o->max_queue = uccl_max(o->max_queue, o->bytes[UCCL_FAB_DATA]);
	if (by_memory(n) && o >= n->ports + n->topo.hosts)
		uccl_fab_memory_take(n, p);
}

static void pkt_lost(struct uccl_fab *n, struct uccl_fab_pkt *p)
{
	n->ops->lost(n, p);
}

/* Room, marking, trimming. False: the packet is gone. */
static bool port_admits(struct uccl_fab *n, struct uccl_fab_port *o, struct uccl_fab_pkt *p)
{
	const struct uccl_fab_topo *t = &n->topo;
	uint64_t queued = o->bytes[p->cls] + p->bytes;
	bool fits = queued <= t->queue_bytes;

	if (by_memory(n) && p->cls == UCCL_FAB_DATA)
		fits = uccl_fab_memory_admits(n, o, p);
	if (!fits && p->cls == UCCL_FAB_DATA && t->trim) {
		o->trimmed++;
		n->trimmed++;
		p->trimmed = true;
		p->cls = UCCL_FAB_CONTROL;
		p->bytes = t->trim_bytes;
		queued = o->bytes[p->cls] + p->bytes;
		fits = queued <= t->queue_bytes;
	}
	if (!fits) {
		o->dropped++;
		n->dropped++;
		pkt_lost(n, p);
		return false;
	}
	if (p->cls == UCCL_FAB_DATA && t->ecn_hi && queued > t->ecn_lo && !p->ecn &&
	    (queued >= t->ecn_hi ||
	     uccl_rng_chance(&n->rng, (double)(queued - t->ecn_lo) / (double)(t->ecn_hi - t->ecn_lo)))) {
		o->marked++;
		n->marked++;
		p->ecn = true;
	}
	return true;
}

static void port_put(struct uccl_fab *n, uint32_t port, struct uccl_fab_pkt *p)
{
	struct uccl_fab_port *o = &n->ports[port];

	if (port >= n->topo.hosts && !port_admits(n, o, p))
		return;
	if (o->free_at <= n->q.now && !o->armed) {
		if (__builtin_expect(o->stopped && p->cls == UCCL_FAB_DATA, 0))
			port_queue(n, o, p);
		else
			port_start(n, o, p);
		return;
	}
	port_queue(n, o, p);
	port_arm(n, o);
}

static void port_serve(struct uccl_fab *n, struct uccl_fab_port *o)
{
	struct uccl_fab_pkt *p, *left = o->sending;
	int cls;

	o->armed = false;
	o->sending = NULL;
	cls = o->head[UCCL_FAB_CONTROL] ? UCCL_FAB_CONTROL : UCCL_FAB_DATA;
	p = o->head[cls];
	if (__builtin_expect(o->stopped && cls == UCCL_FAB_DATA, 0))
		p = NULL;
	if (p) {
		o->head[cls] = p->next;
		o->bytes[cls] -= p->bytes;
		if (by_memory(n) && cls == UCCL_FAB_DATA && o >= n->ports + n->topo.hosts)
			uccl_fab_memory_give(n, p);
		port_start(n, o, p);
		if (o->head[UCCL_FAB_CONTROL] || o->head[UCCL_FAB_DATA])
			port_arm(n, o);
	}
	if (left)
		n->ops->sent(n, (uint32_t)(o - n->ports), left);
}

/* It has to stop, or may go on. */
static void port_heard(struct uccl_fab *n, struct uccl_fab_event *e)
{
	struct uccl_fab_port *o = uccl_fab_memory_heard(n, e);

	if (o->stopped || o->armed || !o->head[UCCL_FAB_DATA])
		return;
	o->armed = true;
	uccl_fab_queue_put(&n->q, &o->ev, uccl_max(n->q.now, o->free_at));
}

/* Where a switch sends it. */
static uint32_t route(const struct uccl_fab *n, const struct uccl_fab_node *v, const struct uccl_fab_pkt *p)
{
	const struct uccl_fab_topo *t = &n->topo;
	uint32_t tor = uccl_fab_tor(n, p->dst), pod = t->tiers == 3 ? tor / t->tors_per_pod : 0;
	uint64_t h;

	if (v->tier == 1 && v->place == tor)
		return v->down + uccl_fab_slot(n, p->dst);
	if (v->tier == 2 && t->tiers == 2)
		return v->down + tor;
	if (v->tier == 2 && v->place / t->spines == pod)
		return v->down + tor % t->tors_per_pod;
	if (v->tier == 3)
		return v->down + pod;
	if (!v->nlive)
		return UINT32_MAX;
	if (t->ecmp == UCCL_FAB_ECMP_XOR)
		return v->up + v->live[(p->src ^ p->dst ^ p->sport) % v->nlive];
	h = t->ecmp == UCCL_FAB_ECMP_SAME ? n->nodes[t->hosts].seed : v->seed;
	h = mix(h ^ mix((uint64_t)p->src << 40 ^ (uint64_t)p->dst << 16 ^ p->sport));
	return v->up + v->live[(h >> 32) * v->nlive >> 32];
}

/* The switch at the end of the link of p->port sends it on. */
static void forward(struct uccl_fab *n, struct uccl_fab_pkt *p)
{
	uint32_t port = route(n, &n->nodes[n->ports[p->port].to], p);

	if (port == UINT32_MAX) {
		n->lost++;
		pkt_lost(n, p);
		return;
	}
	port_put(n, port, p);
}

/* It enters the network: what its 5-tuple may have decides when it goes on. */
static void limit(struct uccl_fab *n, struct uccl_fab_pkt *p)
{
	uint64_t tuple = (uint64_t)p->src << 40 ^ (uint64_t)p->dst << 16 ^ p->sport, at;

	if (!uccl_fab_limits_pass(&n->limits, tuple, p->bytes, n->q.now, &at)) {
		n->dropped++;
		pkt_lost(n, p);
	} else if (at > n->q.now) {
		p->ev.kind = UCCL_FAB_LIMITED;
		uccl_fab_queue_put(&n->q, &p->ev, at);
	} else {
		forward(n, p);
	}
}

static void limited(struct uccl_fab *n, struct uccl_fab_pkt *p)
{
	p->ev.kind = UCCL_FAB_ARRIVE;
	forward(n, p);
}

static void arrive(struct uccl_fab *n, struct uccl_fab_pkt *p)
{
	struct uccl_fab_port *o = &n->ports[p->port];

	if ((o->hole || o->burst > 0 || o->loss > 0) && port_loses(n, o)) {
		o->lost++;
		n->lost++;
		pkt_lost(n, p);
		return;
	}
	if (o->to < n->topo.hosts) {
		assert(o->to == p->dst);
		n->ops->deliver(n, p);
		return;
	}
	if (__builtin_expect(n->topo.limit.bps != 0, 0) && p->port < n->topo.hosts)
		limit(n, p);
	else
		forward(n, p);
}

void uccl_fab_send(struct uccl_fab *n, struct uccl_fab_pkt *p)
{
	assert(p->src < n->topo.hosts && p->dst < n->topo.hosts && p->src != p->dst && p->bytes);
	port_put(n, p->src, p);
}

uint64_t uccl_fab_backlog(const struct uccl_fab *n, uint32_t host)
{
	return n->ports[host].bytes[UCCL_FAB_DATA];
}

/* What those that come next will read. */
static void fetch_ahead(const struct uccl_fab *n)
{
	const struct uccl_fab_event *e = uccl_fab_queue_peek(&n->q, FETCH_PORT);

	if (e && e->kind == UCCL_FAB_ARRIVE)
		__builtin_prefetch(&n->ports[uccl_container_of(e, struct uccl_fab_pkt, ev)->port].to);
	e = uccl_fab_queue_peek(&n->q, FETCH_NODE);
	if (e && e->kind == UCCL_FAB_ARRIVE)
		__builtin_prefetch(&n->nodes[n->ports[uccl_container_of(e, struct uccl_fab_pkt, ev)->port].to]);
}

bool uccl_fab_step(struct uccl_fab *n)
{
	struct uccl_fab_event *e = uccl_fab_queue_get(&n->q);

	if (!e)
		return false;
	fetch_ahead(n);
	n->events++;
	if (e->kind == UCCL_FAB_ARRIVE)
		arrive(n, uccl_container_of(e, struct uccl_fab_pkt, ev));
	else if (e->kind == UCCL_FAB_LIMITED)
		limited(n, uccl_container_of(e, struct uccl_fab_pkt, ev));
	else if (e->kind == UCCL_FAB_SERVE)
		port_serve(n, uccl_container_of(e, struct uccl_fab_port, ev));
	else if (e->kind == UCCL_FAB_PAUSE)
		port_heard(n, e);
	else
		n->ops->event(n, e);
	return true;
}

uint64_t uccl_fab_one_way(const struct uccl_fab *n, uint32_t src, uint32_t dst, uint32_t bytes)
{
	const struct uccl_fab_topo *t = &n->topo;
	uint32_t a = uccl_fab_tor(n, src), b = uccl_fab_tor(n, dst), up = 0;

	if (a != b)
		up = t->tiers == 3 && a / t->tors_per_pod != b / t->tors_per_pod ? 4 : 2;
	return (2 + up) * t->delay_ps +
	       (uint64_t)bytes * (ps_per_byte(uccl_fab_host_bps(n, src)) + ps_per_byte(uccl_fab_host_bps(n, dst)) +
				  up * ps_per_byte(uccl_fab_up_bps_max(t)));
}

/* Faults */

static void port_fault(struct uccl_fab *n, struct uccl_fab_port *o, bool hole, double rate)
{
	o->hole = hole;
	o->ps_per_byte = ps_per_byte((uint64_t)((double)port_bps(n, o) * rate));
}

void uccl_fab_fault_switch(struct uccl_fab *n, uint32_t node, bool hole, double rate)
{
	for (uint32_t i = 0; i < n->nports; i++)
		if (n->ports[i].to == node)
			port_fault(n, &n->ports[i], hole, rate);
	for (uint32_t i = 0; i < (uint32_t)n->nodes[node].ndown + n->nodes[node].nup; i++)
		port_fault(n, &n->ports[n->nodes[node].down + i], hole, rate);
}

void uccl_fab_route(struct uccl_fab *n, uint32_t node, bool use)
{
	for (uint32_t v = 0; v < n->nnodes; v++) {
		struct uccl_fab_node *s = &n->nodes[v];
		uint16_t live = 0;

		for (uint16_t i = 0; i < s->nup; i++) {
			if (n->ports[s->up + i].to == node)
				n->ports[s->up + i].unrouted = !use;
			if (!n->ports[s->up + i].unrouted)
				s->live[live++] = i;
		}
		s->nlive = live;
	}
}

void uccl_fab_fault_loss(struct uccl_fab *n, double loss, double burst, double mean)
{
	for (uint32_t i = n->topo.hosts; i < n->nports; i++) {
		struct uccl_fab_port *o = &n->ports[i];

		if (o->to >= n->topo.hosts)
			continue;
		o->loss = (float)loss;
		o->burst = (float)burst;
		o->mend = (float)(mean > 1 ? 1 / mean : 1);
	}
}
