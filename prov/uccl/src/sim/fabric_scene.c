/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "sim/fabric_scene.h"

#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "sim/fabric_load.h"
#include "sim/fabric_memory.h"

/* Events between two looks at the clock of the run. */
#define LOOK_EVENTS (1u << 18)
#define BINS 4096
/* Flows of others that begin at a host. */
#define BACKGROUND_FLOWS 4
#define BACKGROUND_PORT 0x4000

/* A hash of a place: ranges that cover [0, n) once each telescope to g(n) - g(0). */
static uint64_t cover_of(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

void uccl_fab_broken(struct uccl_fab_scene *s, const char *text)
{
	if (!s->broken[0])
		snprintf(s->broken, sizeof(s->broken), "%s", text);
}

static void scene_event(struct uccl_fab *n, struct uccl_fab_event *e);

/* Others. Their packets have no unit. */

static void background_send(struct uccl_fab_scene *s, struct uccl_fab_background *f)
{
	struct uccl_fab_pkt *p = uccl_fab_pkt_new(&s->net);

	p->unit = NULL;
	p->src = f->src;
	p->dst = f->dst;
	p->sport = f->sport;
	p->bytes = s->cfg.mtu + UCCL_FAB_ROCE_BYTES;
	p->cls = UCCL_FAB_DATA;
	uccl_fab_queue_put(&s->net.q, &f->ev, s->net.q.now + f->every);
	uccl_fab_send(&s->net, p);
}

/* Every host sends and receives as much, in cycles through all of them. */
static void background_open(struct uccl_fab_scene *s)
{
	uint32_t n = s->net.topo.hosts, each = s->cfg.others.flows ? s->cfg.others.flows : BACKGROUND_FLOWS;
	uint32_t *order = uccl_fab_need(calloc(n, sizeof(*order)));
	double bits = (double)(s->cfg.mtu + UCCL_FAB_ROCE_BYTES) * 8e12 * each / s->cfg.others.share;
	struct uccl_fab_background *f = uccl_fab_need(calloc((size_t)n * each, sizeof(*f)));
	struct uccl_rng rng;

	uccl_rng_seed(&rng, s->cfg.seed ^ 0x57ull);
	s->background_flows = f;
	for (uint32_t k = 0; k < each && n > 1; k++) {
		for (uint32_t i = 0; i < n; i++) {
			uint32_t j = (uint32_t)uccl_rng_below(&rng, i + 1);

			order[i] = order[j];
			order[j] = i;
		}
		for (uint32_t i = 0; i < n; i++, f++) {
			f->ev.kind = UCCL_FAB_BACKGROUND;
			f->src = order[i];
			f->dst = order[(i + 1) % n];
			f->every = (uint64_t)(bits / (double)uccl_min(uccl_fab_host_bps(&s->net, f->src),
								      uccl_fab_host_bps(&s->net, f->dst)));
			f->sport = (uint16_t)(BACKGROUND_PORT + uccl_rng_below(&rng, 0x4000));
			uccl_fab_queue_put(&s->net.q, &f->ev, uccl_rng_below(&rng, f->every));
		}
	}
	free(order);
}

static void pauses_open(struct uccl_fab_scene *s)
{
	uint32_t n = s->net.topo.hosts;

	s->pauses = uccl_fab_need(calloc(n, sizeof(*s->pauses)));
	for (uint32_t i = 0; i < n; i++)
		uccl_rng_seed(&s->pauses[i].rng, s->cfg.seed ^ (uint64_t)(i + 1) << 20);
}

/* Does what arrives now have to wait? Then it comes again, in its order, when the host is back. */
static bool paused(struct uccl_fab_scene *s, struct uccl_fab_pkt *p)
{
	struct uccl_fab_pause *w = &s->pauses[p->dst];
	uint64_t now = s->net.q.now;

	while (now > w->to) {
		w->from = w->to + (uint64_t)(1e3 * uccl_fab_exponential(&w->rng, (double)s->cfg.jitter.every_ns));
		w->to = w->from + (uint64_t)(1e3 * uccl_fab_exponential(&w->rng, (double)s->cfg.jitter.ns)) + 1;
	}
	if (now < w->from)
		return false;
	p->ev.kind = UCCL_FAB_LATE;
	uccl_fab_queue_put(&s->net.q, &p->ev, w->to);
	return true;
}

/* At its host, which may be busy. */
static void scene_deliver(struct uccl_fab *n, struct uccl_fab_pkt *p)
{
	struct uccl_fab_scene *s = n->user;

	if (p->unit) {
		if (!s->pauses || !paused(s, p))
			s->stack->net.deliver(n, p);
		return;
	}
	s->background += p->trimmed ? 0 : p->bytes;
	uccl_fab_pkt_free(n, p);
}

static void scene_lost(struct uccl_fab *n, struct uccl_fab_pkt *p)
{
	struct uccl_fab_scene *s = n->user;

	if (p->unit)
		s->stack->net.lost(n, p);
	else
		uccl_fab_pkt_free(n, p);
}

int uccl_fab_scene_open(struct uccl_fab_scene *s, const struct uccl_fab_cfg *cfg)
{
	static const struct uccl_fab_ops none;
	int rc;

	memset(s, 0, sizeof(*s));
	s->cfg = *cfg;
	s->stack = cfg->stack;
	if (!s->stack || !cfg->mtu || !cfg->paths || !cfg->labels ||
	    !(cfg->others.share >= 0 && cfg->others.share <= 0.9))
		return -FI_EINVAL;
	rc = uccl_fab_init(&s->net, &cfg->topo, &none, cfg->seed);
	if (rc)
		return rc;
	s->net.ops = &s->stack->net;
	s->net.user = s;
	s->begin.kind = UCCL_FAB_BEGIN;
	s->first_ns = UCCL_NEVER;
	rc = -FI_ENOMEM;
	if (cfg->bin_ns)
		s->bins = calloc(BINS, sizeof(*s->bins));
	if (cfg->others.share > 0)
		background_open(s);
	if (cfg->jitter.ns && cfg->jitter.every_ns)
		pauses_open(s);
	if (!cfg->bin_ns || s->bins)
		rc = s->stack->open(s);
	if (rc)
		uccl_fab_scene_close(s);
	return rc;
}

void uccl_fab_scene_close(struct uccl_fab_scene *s)
{
	if (s->st)
		s->stack->close(s);
	uccl_fab_fini(&s->net);
	free(s->ops);
	free(s->edges.v);
	free(s->bins);
	free(s->background_flows);
	free(s->pauses);
	s->background_flows = NULL;
	s->pauses = NULL;
	s->ops = NULL;
	s->edges.v = NULL;
	s->bins = NULL;
	s->st = NULL;
}

uint32_t uccl_fab_scene_add(struct uccl_fab_scene *s, uint32_t src, uint32_t dst, uint64_t bytes, uint64_t start_ns,
			    uint8_t group)
{
	struct uccl_fab_op *op;

	if (s->nops == s->ops_cap) {
		s->ops_cap = s->ops_cap ? 2 * s->ops_cap : 1024;
		s->ops = uccl_fab_need(realloc(s->ops, s->ops_cap * sizeof(*s->ops)));
	}
	op = &s->ops[s->nops];
	memset(op, 0, sizeof(*op));
	op->src = src;
	op->dst = dst;
	op->bytes = bytes;
	op->start_ns = start_ns;
	op->group = group;
	op->after = UINT32_MAX;
	s->bytes += bytes;
	return s->nops++;
}

void uccl_fab_scene_after(struct uccl_fab_scene *s, uint32_t op, uint32_t before)
{
	if (s->edges.n == s->edges.cap) {
		s->edges.cap = s->edges.cap ? 2 * s->edges.cap : 1024;
		s->edges.v = uccl_fab_need(realloc(s->edges.v, s->edges.cap * sizeof(*s->edges.v)));
	}
	s->edges.v[s->edges.n] = (struct uccl_fab_edge){.op = op, .next = s->ops[before].after};
	s->ops[before].after = s->edges.n++;
	s->ops[op].start_ns = UCCL_NEVER;
	s->ops[op].waits++;
}

void uccl_fab_scene_turn(struct uccl_fab_scene *s, struct uccl_fab_turn *t, uint64_t at_ns)
{
	t->ev.kind = UCCL_FAB_SCENE;
	uccl_fab_queue_put(&s->net.q, &t->ev, at_ns * UCCL_PS_PER_NS);
}

static void op_begin(struct uccl_fab_scene *s, uint32_t i)
{
	struct uccl_fab_op *op = &s->ops[i];

	op->begun = true;
	op->start_ns = uccl_fab_now(s);
	s->first_ns = uccl_min(s->first_ns, op->start_ns);
	if (s->stack->send(s, i))
		uccl_fab_broken(s, "no memory for a flow");
}

/* Those with a time of their own are in order (uccl_fab_scene_run). */
static void begin_some(struct uccl_fab_scene *s)
{
	for (; s->begin_next < s->nops; s->begin_next++) {
		struct uccl_fab_op *op = &s->ops[s->begin_next];

		if (op->start_ns == UCCL_NEVER || op->begun)
			continue;
		if (op->start_ns > uccl_fab_now(s)) {
			uccl_fab_queue_put(&s->net.q, &s->begin, op->start_ns * UCCL_PS_PER_NS);
			return;
		}
		op_begin(s, s->begin_next);
	}
}

/* For stacks: events that are the scene's. */
static void scene_event(struct uccl_fab *n, struct uccl_fab_event *e)
{
	struct uccl_fab_scene *s = n->user;
	struct uccl_fab_turn *t;

	if (e->kind == UCCL_FAB_BEGIN) {
		begin_some(s);
	} else if (e->kind == UCCL_FAB_SCENE) {
		t = uccl_container_of(e, struct uccl_fab_turn, ev);
		t->fn(s, t->arg);
	} else if (e->kind == UCCL_FAB_BACKGROUND) {
		background_send(s, uccl_container_of(e, struct uccl_fab_background, ev));
	} else if (e->kind == UCCL_FAB_LATE) {
		e->kind = UCCL_FAB_ARRIVE;
		s->stack->net.deliver(n, uccl_container_of(e, struct uccl_fab_pkt, ev));
	} else {
		s->stack->net.event(n, e);
	}
}

void uccl_fab_arrived(struct uccl_fab_scene *s, uint32_t i, uint64_t off, uint64_t len)
{
	struct uccl_fab_op *op = &s->ops[i];
	uint64_t now = uccl_fab_now(s);

	op->got += len;
	op->cover += cover_of(off + len) - cover_of(off);
	if (s->bins) {
		uint64_t bin = now / s->cfg.bin_ns;

		if (bin < BINS) {
			s->bins[bin] += len;
			s->nbins = (uint32_t)uccl_max(s->nbins, bin + 1);
		}
	}
	if (op->got > op->bytes)
		uccl_fab_broken(s, "more arrived than was sent");
	if (op->got != op->bytes)
		return;
	if (op->cover != cover_of(op->bytes) - cover_of(0))
		uccl_fab_broken(s, "an operation is complete and a byte of it came twice or never");
	op->end_ns = now;
	s->last_ns = now;
	s->done++;
	for (uint32_t e = op->after; e != UINT32_MAX; e = s->edges.v[e].next)
		if (!--s->ops[s->edges.v[e].op].waits)
			op_begin(s, s->edges.v[e].op);
}

static int by_start(const void *a, const void *b)
{
	const struct uccl_fab_op *x = a, *y = b;

	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static void circle_check(struct uccl_fab_scene *s)
{
	if (s->net.mem && uccl_fab_memory_circle(&s->net))
		uccl_fab_broken(s, "links wait for each other in a circle, and stand still for ever");
}

int uccl_fab_scene_run(struct uccl_fab_scene *s, void (*progress)(const struct uccl_fab_scene *s))
{
	const uint64_t limit = uccl_min(s->cfg.limit_ns, UINT64_MAX / UCCL_PS_PER_NS) * UCCL_PS_PER_NS;
	struct uccl_fab_ops net = s->stack->net;

	/* Those that wait name others by number. */
	if (!s->edges.n)
		qsort(s->ops, s->nops, sizeof(*s->ops), by_start);
	net.event = scene_event;
	if (s->background_flows || s->pauses) {
		net.deliver = scene_deliver;
		net.lost = scene_lost;
	}
	s->net.ops = &net;
	if (s->stack->connect && s->stack->connect(s))
		uccl_fab_broken(s, "no memory for a flow");
	begin_some(s);
	for (uint64_t k = 1; s->done < s->nops && !s->broken[0] && s->net.q.now <= limit; k++) {
		if (!uccl_fab_step(&s->net))
			uccl_fab_broken(s, "nothing is under way and something has not arrived");
		if (k % LOOK_EVENTS)
			continue;
		circle_check(s);
		if (progress)
			progress(s);
	}
	circle_check(s);
	s->net.ops = &s->stack->net;
	if (s->broken[0])
		return -FI_EIO;
	return s->done < s->nops ? -FI_ETIMEDOUT : 0;
}

/* Of the last packet. */
static uint32_t last_bytes(const struct uccl_fab_cfg *c, uint64_t bytes)
{
	return (uint32_t)(bytes - ((bytes + c->mtu - 1) / c->mtu - 1) * c->mtu) + UCCL_FAB_ROCE_BYTES;
}

uint64_t uccl_fab_ideal_cut(const struct uccl_fab_scene *s, uint64_t bytes, double bps, uint64_t way_ps)
{
	const struct uccl_fab_cfg *c = &s->cfg;
	uint64_t chunk = c->chunk ? c->chunk : c->mtu, packets = (bytes + c->mtu - 1) / c->mtu;
	uint64_t wire = bytes + packets * UCCL_FAB_ROCE_BYTES;
	double per_byte = 8e12 / bps / (1 - c->others.share);

	if (c->chunk)
		wire += (bytes + chunk - 1) / chunk * (UCCL_FAB_RETH_BYTES + UCCL_FAB_IMM_BYTES);
	wire = (uint64_t)((double)(wire - last_bytes(c, bytes)) * per_byte);
	return (wire + way_ps) / UCCL_PS_PER_NS;
}

uint64_t uccl_fab_ideal(const struct uccl_fab_scene *s, uint32_t src, uint32_t dst, uint64_t bytes)
{
	uint64_t bps = uccl_min(uccl_fab_host_bps(&s->net, src), uccl_fab_host_bps(&s->net, dst));

	return uccl_fab_ideal_cut(s, bytes, (double)bps,
				  uccl_fab_one_way(&s->net, src, dst, last_bytes(&s->cfg, bytes)));
}

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

double uccl_fab_percentile(const double *v, uint32_t n, double p)
{
	uint32_t i = (uint32_t)(p * n);

	if ((double)i < p * n)
		i++;
	return v[i ? i - 1 : 0];
}

void uccl_fab_result(const struct uccl_fab_scene *s, uint8_t group, struct uccl_fab_result *r)
{
	double *v = uccl_fab_need(malloc((s->nops + 1) * sizeof(*v))), sum = 0, squares = 0;

	memset(r, 0, sizeof(*r));
	for (uint32_t i = 0; i < s->nops; i++) {
		const struct uccl_fab_op *op = &s->ops[i];
		double rate;

		if (op->group != group || !op->end_ns)
			continue;
		v[r->n] = (double)(op->end_ns - op->start_ns);
		rate = (double)op->bytes / v[r->n];
		sum += rate;
		squares += rate * rate;
		r->mean_ns += v[r->n];
		r->bytes += op->bytes;
		r->n++;
	}
	if (r->n) {
		qsort(v, r->n, sizeof(*v), by_size);
		r->mean_ns /= r->n;
		r->p50_ns = uccl_fab_percentile(v, r->n, 0.5);
		r->p99_ns = uccl_fab_percentile(v, r->n, 0.99);
		r->p999_ns = uccl_fab_percentile(v, r->n, 0.999);
		r->max_ns = v[r->n - 1];
		r->jain = sum * sum / (r->n * squares);
	}
	free(v);
}

uint64_t uccl_fab_max_queue(const struct uccl_fab_scene *s)
{
	uint64_t q = 0;

	for (uint32_t i = s->net.topo.hosts; i < s->net.nports; i++)
		q = uccl_max(q, s->net.ports[i].max_queue);
	return q;
}
