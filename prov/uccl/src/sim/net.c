/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The simulated network. The queue is a binary heap keyed by (time, sequence): events of one time happen in the order
 * in which they were put in, so nothing depends on addresses of memory or on the heap's inner order.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/net.h"

#define PKT_MIN_SHIFT 8
#define ADDR_PORT 7000

static uint64_t mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ull;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

void uccl_sim_trace(struct uccl_sim_net *net, uint64_t a, uint64_t b)
{
	net->trace = mix(net->trace + 0x9e3779b97f4a7c15ull + a) ^ b * 0xff51afd7ed558ccdull;
}

uint64_t uccl_sim_serial(struct uccl_sim_net *net)
{
	return ++net->nserial;
}

static bool entry_before(const struct queue_entry *a, const struct queue_entry *b)
{
	return a->at != b->at ? a->at < b->at : a->seq < b->seq;
}

static void queue_put(struct uccl_sim_net *net, uint32_t i, struct queue_entry e)
{
	net->queue[i] = e;
	e.ev->place = i + 1;
}

static void queue_up(struct uccl_sim_net *net, uint32_t i, struct queue_entry e)
{
	while (i && entry_before(&e, &net->queue[(i - 1) / 2])) {
		queue_put(net, i, net->queue[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	queue_put(net, i, e);
}

static void queue_down(struct uccl_sim_net *net, uint32_t i, struct queue_entry e)
{
	uint32_t child;

	while ((child = 2 * i + 1) < net->nqueue) {
		if (child + 1 < net->nqueue && entry_before(&net->queue[child + 1], &net->queue[child]))
			child++;
		if (!entry_before(&net->queue[child], &e))
			break;
		queue_put(net, i, net->queue[child]);
		i = child;
	}
	queue_put(net, i, e);
}

void uccl_sim_cancel(struct uccl_sim_net *net, struct uccl_sim_event *ev)
{
	uint32_t i = ev->place - 1;
	struct queue_entry last;

	if (!ev->place)
		return;
	ev->place = 0;
	last = net->queue[--net->nqueue];
	if (i == net->nqueue)
		return;
	if (i && entry_before(&last, &net->queue[(i - 1) / 2]))
		queue_up(net, i, last);
	else
		queue_down(net, i, last);
}

void uccl_sim_at(struct uccl_sim_net *net, struct uccl_sim_event *ev, uint64_t at)
{
	struct queue_entry e;

	uccl_sim_cancel(net, ev);
	if (net->nqueue == net->queue_cap) {
		uint32_t cap = net->queue_cap ? net->queue_cap * 2 : 256;
		struct queue_entry *q = realloc(net->queue, cap * sizeof(*q));

		if (!q)
			return; /* the run then ends early, with operations open: a visible failure */
		net->queue = q;
		net->queue_cap = cap;
	}
	ev->at = uccl_max(at, net->now);
	ev->seq = net->seq++;
	e = (struct queue_entry){.at = ev->at, .seq = ev->seq, .ev = ev};
	queue_up(net, net->nqueue++, e);
}

uint64_t uccl_sim_next(const struct uccl_sim_net *net)
{
	return net->nqueue ? net->queue[0].at : UCCL_NEVER;
}

bool uccl_sim_step(struct uccl_sim_net *net)
{
	struct uccl_sim_event *ev;

	if (!net->nqueue)
		return false;
	ev = net->queue[0].ev;
	uccl_sim_cancel(net, ev);
	net->now = ev->at;
	net->stats.events++;
	ev->fire(ev);
	return true;
}

void uccl_sim_run(struct uccl_sim_net *net, uint64_t until)
{
	while (uccl_sim_next(net) <= until)
		uccl_sim_step(net);
	net->now = uccl_max(net->now, until);
}

struct uccl_sim_pkt *uccl_sim_pkt_new(struct uccl_sim_net *net, uint32_t cap)
{
	struct uccl_sim_pkt *p;
	uint8_t pool = 0;

	while ((1u << (PKT_MIN_SHIFT + pool)) < cap)
		pool++;
	p = net->spare[pool];
	if (p)
		net->spare[pool] = p->next;
	else
		p = malloc(sizeof(*p) + (1u << (PKT_MIN_SHIFT + pool)));
	if (!p)
		return NULL;
	memset(p, 0, sizeof(*p));
	p->net = net;
	p->pool = pool;
	p->cap = 1u << (PKT_MIN_SHIFT + pool);
	return p;
}

void uccl_sim_pkt_free(struct uccl_sim_pkt *p)
{
	struct uccl_sim_net *net = p->net;

	/* Whoever still looks at it shall notice. */
	memset(p->data, 0xdd, uccl_min(p->len, 128));
	p->next = net->spare[p->pool];
	net->spare[p->pool] = p;
}

static struct uccl_sim_route *route_at(struct uccl_sim_net *net, uint8_t src, uint8_t dst, uint16_t route)
{
	return &net->route[((uint32_t)src * net->cfg.nodes + dst) * net->cfg.routes + route];
}

int uccl_sim_net_init(struct uccl_sim_net *net, const struct uccl_sim_net_cfg *cfg, uint64_t seed, uint64_t start)
{
	uint32_t i, n;

	memset(net, 0, sizeof(*net));
	if (!cfg->nodes || cfg->nodes > UCCL_SIM_NODES || !cfg->routes || cfg->routes > UCCL_SIM_ROUTES)
		return -FI_EINVAL;
	net->cfg = *cfg;
	net->now = start;
	net->faulty = true;
	uccl_rng_seed(&net->rng, seed);
	n = (uint32_t)cfg->nodes * cfg->nodes * cfg->routes;
	net->route = calloc(n, sizeof(*net->route));
	if (!net->route)
		return -FI_ENOMEM;
	for (i = 0; i < n; i++)
		net->route[i].delay_ns = cfg->delay_ns + uccl_rng_below(&net->rng, cfg->spread_ns + 1);
	return 0;
}

static void pkt_arrive(struct uccl_sim_event *ev);
static void pkt_deliver(struct uccl_sim_event *ev);

void uccl_sim_net_fini(struct uccl_sim_net *net)
{
	struct uccl_sim_pkt *p;
	uint32_t i;

	for (i = 0; i < net->nqueue; i++) {
		struct uccl_sim_event *ev = net->queue[i].ev;

		if (ev->fire == pkt_arrive || ev->fire == pkt_deliver)
			free(uccl_container_of(ev, struct uccl_sim_pkt, ev));
	}
	for (i = 0; i < uccl_array_len(net->spare); i++) {
		while ((p = net->spare[i])) {
			net->spare[i] = p->next;
			free(p);
		}
	}
	free(net->queue);
	free(net->route);
	memset(net, 0, sizeof(*net));
}

void uccl_sim_attach(struct uccl_sim_net *net, uint8_t node, const struct uccl_sim_sink *sink, void *arg)
{
	net->node[node].sink = sink;
	net->node[node].arg = arg;
}

static uint64_t wire_ns(const struct uccl_sim_net *net, uint64_t bytes)
{
	if (!net->cfg.rate_bps)
		return 0;
	/* 64 bytes for the frame, IP and UDP. */
	return (bytes + 64) * 8 * UCCL_NS_PER_S / net->cfg.rate_bps;
}

uint64_t uccl_sim_egress(struct uccl_sim_net *net, uint8_t node, uint32_t len)
{
	const struct uccl_sim_faults *f = &net->cfg.faults;
	struct uccl_sim_node *n = &net->node[node];
	uint64_t from = uccl_max(n->egress_ns, net->now);

	if (net->cfg.rate_bps && from - net->now > wire_ns(net, net->cfg.queue_bytes))
		return UCCL_NEVER;
	n->egress_ns = from + wire_ns(net, len);
	if (net->faulty && f->pause > 0 && uccl_rng_chance(&net->rng, f->pause)) {
		net->stats.paused++;
		n->egress_ns += uccl_rng_below(&net->rng, f->pause_ns + 1);
	}
	return n->egress_ns;
}

uint64_t uccl_sim_egress_half(const struct uccl_sim_net *net, uint8_t node)
{
	uint64_t half = wire_ns(net, net->cfg.queue_bytes) / 2, free_ns = net->node[node].egress_ns;

	return free_ns > net->now + half ? free_ns - half : net->now;
}

uint16_t uccl_sim_route_of(const struct uccl_sim_net *net, uint8_t src, uint8_t dst, uint16_t label)
{
	if (net->cfg.rails)
		return label % net->cfg.routes;
	return (uint16_t)(mix((uint64_t)src << 40 | (uint64_t)dst << 32 | label) % net->cfg.routes);
}

bool uccl_sim_hole_add(struct uccl_sim_net *net, const struct uccl_sim_hole *hole)
{
	if (net->nholes == UCCL_SIM_HOLES)
		return false;
	net->holes[net->nholes++] = *hole;
	return true;
}

void uccl_sim_heal(struct uccl_sim_net *net)
{
	net->faulty = false;
	net->nholes = 0;
}

static void pkt_show(const struct uccl_sim_pkt *p, const char *what)
{
	struct uccl_sim_net *net = p->net;

	if (net->show)
		net->show(net->show_arg, p, what, net->now);
}

/* The end of a packet that does not arrive. */
static void pkt_lose(struct uccl_sim_pkt *p, uint64_t *counter, const char *why)
{
	++*counter;
	pkt_show(p, why);
	uccl_sim_trace(p->net, p->net->now, (uint64_t)p->src << 16 | (uint64_t)p->dst << 8 | 1);
	uccl_sim_pkt_free(p);
}

static bool in_hole(const struct uccl_sim_net *net, const struct uccl_sim_pkt *p, uint64_t at)
{
	uint32_t i;

	for (i = 0; i < net->nholes; i++) {
		const struct uccl_sim_hole *h = &net->holes[i];

		if ((h->src < 0 || h->src == p->src) && (h->dst < 0 || h->dst == p->dst) &&
		    (h->route < 0 || h->route == p->route) && (!h->above || p->len > h->above) && at >= h->start &&
		    at < h->end)
			return true;
	}
	return false;
}

/* Kind as a bit of uccl_sim_faults.kind_mask. */
static uint64_t type_bit(uint8_t type)
{
	return 1ull << (type == UCCL_SIM_TYPE_WRITE ? 63 : type & 31);
}

/* Random loss of this packet? Draws are made only for faults that are on, so that options are independent. */
static bool random_loss(struct uccl_sim_net *net, const struct uccl_sim_pkt *p, uint64_t at)
{
	const struct uccl_sim_faults *f = &net->cfg.faults;
	struct uccl_sim_route *r = route_at(net, p->src, p->dst, p->route);

	if (f->flap_ns && at % f->flap_ns >= f->flap_ns / 2)
		return true;
	if (f->nth && p->number % f->nth == f->nth - 1)
		return true;
	if (f->burst > 0) {
		r->bad = r->bad ? !uccl_rng_chance(&net->rng, f->burst_end) : uccl_rng_chance(&net->rng, f->burst);
		if (r->bad)
			return true;
	}
	if (f->loss > 0 && uccl_rng_chance(&net->rng, f->loss))
		return true;
	return f->kind_loss > 0 && f->kind_mask & type_bit(p->type) && uccl_rng_chance(&net->rng, f->kind_loss);
}

static struct uccl_sim_pkt *pkt_clone(const struct uccl_sim_pkt *p)
{
	struct uccl_sim_pkt *c = uccl_sim_pkt_new(p->net, p->len);
	uint8_t pool;
	uint32_t cap;

	if (!c)
		return NULL;
	pool = c->pool;
	cap = c->cap;
	memcpy(c, p, sizeof(*c) + p->len);
	c->pool = pool;
	c->cap = cap;
	c->ev.place = 0;
	c->copy = true;
	return c;
}

/* Flip a bit or cut the end, or lose the packet when the NIC would. True: it is gone. */
static bool pkt_damage(struct uccl_sim_pkt *p, uint32_t verdict)
{
	struct uccl_sim_net *net = p->net;

	if (verdict & UCCL_SIM_CORRUPT) {
		net->stats.corrupted++;
		if (p->kind == UCCL_TX_WRITE || !net->cfg.faults.corrupt_pass) {
			pkt_lose(p, &net->stats.lost_corrupt, "checksum");
			return true;
		}
		if (p->len)
			p->data[uccl_rng_below(&net->rng, p->len)] ^= (uint8_t)(1u << uccl_rng_below(&net->rng, 8));
	}
	if (verdict & UCCL_SIM_TRUNCATE) {
		net->stats.truncated++;
		if (p->kind == UCCL_TX_WRITE) {
			pkt_lose(p, &net->stats.lost_corrupt, "truncated");
			return true;
		}
		p->len = p->len ? (uint32_t)uccl_rng_below(&net->rng, p->len) : 0;
	}
	return false;
}

/* Put the packet on its route; extra_ns comes on top of the route's own delay. */
static void pkt_fly(struct uccl_sim_pkt *p, uint64_t at, uint64_t extra_ns)
{
	struct uccl_sim_net *net = p->net;
	struct uccl_sim_route *r = route_at(net, p->src, p->dst, p->route);
	uint64_t arrive = at + r->delay_ns + extra_ns;

	if (net->cfg.jitter_ns)
		arrive += uccl_rng_below(&net->rng, net->cfg.jitter_ns);
	if (net->cfg.fifo)
		arrive = uccl_max(arrive, r->last_ns);
	r->last_ns = uccl_max(r->last_ns, arrive);
	p->ev.fire = pkt_arrive;
	uccl_sim_at(net, &p->ev, arrive);
}

static uint64_t random_delay(struct uccl_sim_net *net)
{
	const struct uccl_sim_faults *f = &net->cfg.faults;
	uint64_t extra = 0;

	if (f->reorder > 0 && uccl_rng_chance(&net->rng, f->reorder))
		extra += uccl_rng_below(&net->rng, f->reorder_ns + 1);
	if (f->stall > 0 && uccl_rng_chance(&net->rng, f->stall))
		extra += uccl_rng_below(&net->rng, f->stall_ns + 1);
	if (extra)
		net->stats.delayed++;
	return extra;
}

void uccl_sim_depart(struct uccl_sim_net *net, struct uccl_sim_pkt *p, uint64_t at)
{
	const struct uccl_sim_faults *f = &net->cfg.faults;
	uint64_t extra = 0, script_ns = 0, stay;
	uint32_t verdict = 0;
	struct uccl_sim_pkt *c;

	p->type = p->kind == UCCL_TX_WRITE ? UCCL_SIM_TYPE_WRITE : p->len > 3 ? p->data[3] : 0;
	p->route = uccl_sim_route_of(net, p->src, p->dst, p->label);
	p->number = net->pair[p->src][p->dst]++;
	p->sent_ns = at;
	net->stats.sent++;
	if (net->script)
		verdict = net->script(net->script_arg, p, &script_ns, at);
	if (verdict & UCCL_SIM_DROP) {
		pkt_lose(p, &net->stats.lost_script, "script");
		return;
	}
	if (in_hole(net, p, at)) {
		net->stats.hole_bytes += p->len;
		pkt_lose(p, &net->stats.lost_hole, "black hole");
		return;
	}
	if (net->faulty) {
		if (random_loss(net, p, at)) {
			p->torn = p->kind == UCCL_TX_WRITE && f->torn > 0 && uccl_rng_chance(&net->rng, f->torn);
			if (!p->torn) {
				pkt_lose(p, &net->stats.lost_random, "lost");
				return;
			}
			net->stats.torn++;
		}
		if (f->dup > 0 && uccl_rng_chance(&net->rng, f->dup) && (p->kind != UCCL_TX_WRITE || f->dup_writes))
			verdict |= UCCL_SIM_DUP;
		if (f->corrupt > 0 && uccl_rng_chance(&net->rng, f->corrupt))
			verdict |= UCCL_SIM_CORRUPT;
		if (f->truncate > 0 && uccl_rng_chance(&net->rng, f->truncate))
			verdict |= UCCL_SIM_TRUNCATE;
		extra = random_delay(net);
	}
	if (verdict & UCCL_SIM_DUP && (c = pkt_clone(p))) {
		net->stats.duplicated++;
		stay = f->old_stay > 0 && uccl_rng_chance(&net->rng, f->old_stay)
			       ? uccl_rng_below(&net->rng, f->stall_ns + 1)
			       : uccl_rng_below(&net->rng, 2 * net->cfg.delay_ns + 1);
		pkt_fly(c, at, extra + stay);
	}
	if (verdict & (UCCL_SIM_CORRUPT | UCCL_SIM_TRUNCATE) && pkt_damage(p, verdict))
		return;
	pkt_fly(p, at, extra + script_ns);
}

/* Is a packet marked that waits so long at its port? Draws only where marks are on, as faults do. */
static bool pkt_marks(struct uccl_sim_net *net, uint64_t wait_ns)
{
	const struct uccl_sim_net_cfg *c = &net->cfg;

	return (c->mark_bytes && c->rate_bps && wait_ns > wire_ns(net, c->mark_bytes)) ||
	       (c->mark > 0 && uccl_rng_chance(&net->rng, c->mark));
}

/* At the port of the destination. */
static void pkt_arrive(struct uccl_sim_event *ev)
{
	struct uccl_sim_pkt *p = uccl_container_of(ev, struct uccl_sim_pkt, ev);
	struct uccl_sim_net *net = p->net;
	struct uccl_sim_node *n = &net->node[p->dst];
	uint64_t from = uccl_max(n->ingress_ns, net->now);

	if (p->ect && pkt_marks(net, from - net->now)) {
		p->marked = true;
		net->stats.marked++;
	}
	if (net->cfg.rate_bps) {
		if (from - net->now > wire_ns(net, net->cfg.queue_bytes)) {
			pkt_lose(p, &net->stats.lost_queue, "queue full");
			return;
		}
		n->ingress_ns = from + wire_ns(net, p->len);
		if (n->ingress_ns > net->now) {
			p->ev.fire = pkt_deliver;
			uccl_sim_at(net, &p->ev, n->ingress_ns);
			return;
		}
	}
	pkt_deliver(ev);
}

static void pkt_deliver(struct uccl_sim_event *ev)
{
	struct uccl_sim_pkt *p = uccl_container_of(ev, struct uccl_sim_pkt, ev);
	struct uccl_sim_net *net = p->net;
	struct uccl_sim_node *n = &net->node[p->dst], *from = &net->node[p->src];
	uint64_t head = 0;

	if (!n->sink) {
		if (from->sink && from->sink->unreach)
			from->sink->unreach(from->arg, p);
		pkt_lose(p, &net->stats.lost_closed, "nobody listens");
		return;
	}
	p->arrived_ns = net->now;
	net->stats.delivered++;
	net->stats.bytes += p->len;
	pkt_show(p, NULL);
	memcpy(&head, p->data, uccl_min(p->len, sizeof(head)));
	uccl_sim_trace(net, net->now, head ^ (uint64_t)p->len << 32 ^ p->remote.imm);
	if (p->len >= 32) {
		uint64_t words[4];

		memcpy(words, p->data, sizeof(words));
		uccl_sim_trace(net, words[1] ^ p->label, words[2] + words[3]);
	}
	n->sink->packet(n->arg, p);
}

void uccl_sim_addr(uint8_t node, uint16_t port, struct uccl_nic_addr *a)
{
	memset(a, 0, sizeof(*a));
	a->ip[10] = a->ip[11] = 0xff;
	a->ip[12] = 10;
	a->ip[15] = (uint8_t)(node + 1);
	a->port = port ? port : (uint16_t)(ADDR_PORT + node);
}

int uccl_sim_node_of(const struct uccl_nic_addr *a)
{
	struct uccl_nic_addr want;

	if (!a->ip[15])
		return -1;
	uccl_sim_addr((uint8_t)(a->ip[15] - 1), a->port, &want);
	if (memcmp(want.ip, a->ip, sizeof(want.ip)) || a->ip[15] > UCCL_SIM_NODES)
		return -1;
	return a->ip[15] - 1;
}
