/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "sim/fabric_script.h"

#include <math.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "sim/fabric_load.h"

/* A random order of [0, n). */
static uint32_t *shuffle(struct uccl_rng *r, uint32_t n)
{
	uint32_t *v = uccl_fab_need(malloc(n * sizeof(*v)));

	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = (uint32_t)uccl_rng_below(r, i + 1);

		v[i] = v[k];
		v[k] = i;
	}
	return v;
}

static void permute(struct uccl_fab_play *p, const uint32_t *hosts, uint32_t n, uint8_t group)
{
	/* One cycle through all of them in a random order: nobody sends to itself. */
	for (uint32_t i = 0; i < n; i++)
		for (uint8_t r = 0; r < p->cfg.ranks; r++) {
			uint32_t op = uccl_fab_scene_add(&p->scene, hosts[i], hosts[(i + 1) % n],
							 uccl_max(p->bytes / p->cfg.ranks, 1), 0, group);

			p->scene.ops[op].rank = r;
		}
}

static void play_ring(struct uccl_fab_play *p, const uint32_t *hosts, uint32_t n)
{
	uint32_t steps = 2 * (n - 1);
	uint64_t part = uccl_max(p->bytes / n, 1);

	/* Step k of host i waits for step k - 1 of the host before it. */
	for (uint32_t k = 0; k < steps; k++)
		for (uint32_t i = 0; i < n; i++) {
			uint32_t op = uccl_fab_scene_add(&p->scene, hosts[i], hosts[(i + 1) % n], part, 0,
							 UCCL_FAB_MAIN);

			if (k)
				uccl_fab_scene_after(&p->scene, op, (k - 1) * n + (i + n - 1) % n);
		}
}

static void play_turns(struct uccl_fab_play *p, const uint32_t *hosts)
{
	for (uint32_t k = 0; k < p->messages; k++) {
		uint32_t op = uccl_fab_scene_add(&p->scene, hosts[k % 2], hosts[(k + 1) % 2], p->bytes, 0,
						 UCCL_FAB_MAIN);

		if (k)
			uccl_fab_scene_after(&p->scene, op, op - 1);
	}
}

/* Piece by piece: a host passes on what it has of both hosts below it, then the sum comes back the same way. */
static void play_tree(struct uccl_fab_play *p, const uint32_t *hosts, uint32_t n)
{
	struct uccl_fab_scene *s = &p->scene;
	/* Number 2 * i goes up from host i, 2 * i + 1 down to it; those that others wait for come first. */
	uint32_t *op = uccl_fab_need(calloc(2 * (size_t)n, sizeof(*op)));

	for (uint64_t k = 0; k < p->pieces; k++) {
		uint64_t part = uccl_max(p->bytes * (k + 1) / p->pieces - p->bytes * k / p->pieces, 1);

		for (uint32_t i = n - 1; i; i--) {
			op[2 * i] = uccl_fab_scene_add(s, hosts[i], hosts[(i - 1) / 2], part, 0, UCCL_FAB_MAIN);
			for (uint32_t c = 2 * i + 1; c <= 2 * i + 2 && c < n; c++)
				uccl_fab_scene_after(s, op[2 * i], op[2 * c]);
		}
		for (uint32_t i = 1; i < n; i++) {
			uint32_t up = (i - 1) / 2;

			op[2 * i + 1] = uccl_fab_scene_add(s, hosts[up], hosts[i], part, 0, UCCL_FAB_MAIN);
			if (up)
				uccl_fab_scene_after(s, op[2 * i + 1], op[2 * up + 1]);
			for (uint32_t c = 1; !up && c <= 2 && c < n; c++)
				uccl_fab_scene_after(s, op[2 * i + 1], op[2 * c]);
		}
	}
	free(op);
}

/* A Poisson process over all hosts, the same whatever carries it. */
static int play_arrivals(struct uccl_fab_play *p, struct uccl_rng *rng, uint32_t n)
{
	const struct uccl_fab_sizes *d = uccl_fab_sizes_find(p->arrivals.sizes);
	double wire, gap, at;

	if (!d || n < 2 || !(p->arrivals.load > 0)) {
		snprintf(p->why, sizeof(p->why),
			 d ? "a load above 0 and two hosts are needed" : "there are no sizes of this name: %s",
			 p->arrivals.sizes);
		return -FI_EINVAL;
	}
	wire = uccl_fab_sizes_mean(d) * (p->cfg.mtu + UCCL_FAB_ROCE_BYTES) / p->cfg.mtu;
	gap = wire * 8e9 / (p->arrivals.load * (double)p->cfg.topo.host_bps * n);
	for (at = uccl_fab_exponential(rng, gap); at < (double)p->arrivals.span_ns;
	     at += uccl_fab_exponential(rng, gap)) {
		uint32_t src = (uint32_t)uccl_rng_below(rng, n), dst = (uint32_t)uccl_rng_below(rng, n - 1);

		uccl_fab_scene_add(&p->scene, src, dst + (dst >= src), uccl_fab_sizes_draw(d, rng), (uint64_t)at,
				   UCCL_FAB_MAIN);
	}
	if (!p->scene.nops) {
		snprintf(p->why, sizeof(p->why), "nothing begins in %llu ns", (unsigned long long)p->arrivals.span_ns);
		return -FI_EINVAL;
	}
	return 0;
}

static int play_list(struct uccl_fab_play *p, uint32_t n)
{
	struct uccl_fab_transfer *list;
	FILE *f = fopen(p->file, "r");
	uint32_t count;
	int rc;

	if (!f) {
		snprintf(p->why, sizeof(p->why), "%s: it cannot be opened", p->file[0] ? p->file : "file=");
		return -FI_EINVAL;
	}
	rc = uccl_fab_list_read(f, p->file, n, &list, &count, p->why, sizeof(p->why));
	fclose(f);
	for (uint32_t i = 0; !rc && i < count; i++)
		uccl_fab_scene_add(&p->scene, list[i].src, list[i].dst, list[i].bytes, list[i].start_ns,
				   UCCL_FAB_MAIN);
	free(list);
	return rc;
}

static void sicken(struct uccl_fab_scene *s, uint64_t arg)
{
	struct uccl_fab_play *p = uccl_container_of(s, struct uccl_fab_play, scene);

	p->spine.sick = arg ? !p->spine.sick : true;
	for (uint32_t i = 0; i < p->spine.victims; i++)
		uccl_fab_fault_switch(&s->net, p->spine.first + i, p->spine.sick && p->spine.rate <= 0,
				      p->spine.sick && p->spine.rate > 0 ? p->spine.rate : 1);
	if (p->spine.flap_ns)
		uccl_fab_scene_turn(s, &p->turns[0], uccl_fab_now(s) + p->spine.flap_ns);
}

static void leave(struct uccl_fab_scene *s, uint64_t arg)
{
	struct uccl_fab_play *p = uccl_container_of(s, struct uccl_fab_play, scene);

	(void)arg;
	for (uint32_t i = 0; i < p->spine.victims; i++)
		uccl_fab_route(&s->net, p->spine.first + i, false);
}

/*
 * Who is the how manieth in favour is drawn; the k-th gets 1 / k^skew of what the first gets. So a few are sent more to
 * than they can take, as the experts of a mixture that most tokens are for.
 */
static void play_alltoall(struct uccl_fab_play *p, const uint32_t *order, uint32_t n)
{
	double sum = 0;

	for (uint32_t k = 1; k <= n; k++)
		sum += pow(k, -p->skew);
	for (uint32_t d = 1; d < n; d++)
		for (uint32_t i = 0; i < n; i++) {
			uint32_t to = (i + d) % n;
			/* What is for itself stays at home. */
			double rest = sum - pow(i + 1, -p->skew), share = pow(to + 1, -p->skew) / rest;
			uint64_t bytes = p->skew > 0 ? (uint64_t)((double)p->bytes * share) : p->bytes / (n - 1);

			uccl_fab_scene_add(&p->scene, order[i], order[to], uccl_max(bytes, 1), 0, UCCL_FAB_MAIN);
		}
}

/* When the shares of staggered senders are measured: from 10 round trips per sender after the last began. */
static void look(struct uccl_fab_scene *s, uint64_t arg)
{
	struct uccl_fab_play *p = uccl_container_of(s, struct uccl_fab_play, scene);
	double least = 0, sum = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->nops; i++) {
		struct uccl_fab_op *op = &s->ops[i];
		double got = (double)(op->got - p->seen[i]);

		p->seen[i] = op->got;
		least = n && least < got ? least : got;
		sum += got;
		n++;
	}
	if (arg)
		p->least = sum > 0 ? least * n / sum : 0;
}

static int play_stagger(struct uccl_fab_play *p, const uint32_t *order, uint32_t k)
{
	struct uccl_fab_scene *s = &p->scene;
	uint64_t rtt = 2 * uccl_fab_one_way(&s->net, 0, p->cfg.topo.hosts - 1, p->cfg.mtu) / UCCL_PS_PER_NS;
	uint64_t from = (k - 1) * p->stagger_ns + 10 * rtt * k;

	p->seen = calloc(k, sizeof(*p->seen));
	if (!p->seen)
		return -FI_ENOMEM;
	for (uint32_t i = 0; i < k; i++)
		uccl_fab_scene_add(s, order[i + 1], order[0], p->bytes, i * p->stagger_ns, UCCL_FAB_MAIN);
	for (int i = 0; i < 2; i++) {
		p->turns[i].fn = look;
		p->turns[i].arg = (uint64_t)i;
		uccl_fab_scene_turn(s, &p->turns[i], from + (uint64_t)i * 10 * rtt * k);
	}
	return 0;
}

/* Say which number of the scene cannot be. False: none. */
static bool numbers_wrong(struct uccl_fab_play *p, uint32_t switches)
{
	bool to_one = !strcmp(p->name, "incast") || !strcmp(p->name, "stagger");
	uint32_t hosts = p->cfg.topo.hosts;

	if (to_one && (!p->senders || p->senders >= hosts))
		snprintf(p->why, sizeof(p->why), "senders=%llu: of %u hosts 1 to %u can send to another one",
			 (unsigned long long)p->senders, hosts, hosts - 1);
	else if (p->spine.victims > switches)
		snprintf(p->why, sizeof(p->why), "victims=%llu: the topmost tier has %u switches",
			 (unsigned long long)p->spine.victims, switches);
	else if (!p->pieces || p->pieces > UINT16_MAX)
		snprintf(p->why, sizeof(p->why), "pieces=%llu: 1 to %u", (unsigned long long)p->pieces, UINT16_MAX);
	else if (!p->messages || p->messages > UINT16_MAX)
		snprintf(p->why, sizeof(p->why), "messages=%llu: 1 to %u", (unsigned long long)p->messages, UINT16_MAX);
	else
		return false;
	return true;
}

int uccl_fab_script(struct uccl_fab_play *p)
{
	struct uccl_fab_scene *s = &p->scene;
	uint32_t n = p->cfg.topo.hosts, *order, k = (uint32_t)p->senders;
	struct uccl_rng rng;
	int rc = 0;

	uccl_rng_seed(&rng, p->cfg.seed);
	order = shuffle(&rng, n);
	if (numbers_wrong(p, uccl_fab_switches(&s->net, p->cfg.topo.tiers))) {
		free(order);
		return -FI_EINVAL;
	}
	if (!strcmp(p->name, "incast")) {
		uint32_t rest = (uint32_t)uccl_min(n - k - 1, k + 1);

		for (uint32_t i = 1; i <= k && !p->alone; i++)
			uccl_fab_scene_add(s, order[i], order[0], p->bytes, 0, UCCL_FAB_MAIN);
		if (rest > 1)
			permute(p, order + k + 1, rest, UCCL_FAB_OTHER);
		if (!s->nops) {
			snprintf(p->why, sizeof(p->why), "nobody is beside it: fewer senders, or more hosts");
			rc = -FI_EINVAL;
		}
	} else if (!strcmp(p->name, "stagger")) {
		rc = play_stagger(p, order, k);
	} else if (!strcmp(p->name, "alltoall")) {
		play_alltoall(p, order, n);
	} else if (!strcmp(p->name, "ring")) {
		play_ring(p, order, n);
	} else if (!strcmp(p->name, "turns")) {
		play_turns(p, order);
	} else if (!strcmp(p->name, "tree")) {
		play_tree(p, order, n);
	} else if (!strcmp(p->name, "arrivals")) {
		rc = play_arrivals(p, &rng, n);
	} else if (!strcmp(p->name, "list") || p->file[0]) {
		rc = play_list(p, n);
	} else {
		permute(p, order, n, UCCL_FAB_MAIN);
	}
	free(order);
	if (!strcmp(p->name, "loss"))
		uccl_fab_fault_loss(&s->net, p->loss.chance, p->loss.burst, p->loss.mean);
	if (!strcmp(p->name, "spine")) {
		p->spine.first = uccl_fab_switch(&s->net, p->cfg.topo.tiers, 0);
		p->turns[0].fn = sicken;
		p->turns[0].arg = p->spine.flap_ns;
		uccl_fab_scene_turn(s, &p->turns[0], p->spine.at_ns);
		if (p->spine.reroute_ns) {
			p->turns[1].fn = leave;
			uccl_fab_scene_turn(s, &p->turns[1], p->spine.at_ns + p->spine.reroute_ns);
		}
	}
	return rc;
}

/* Bytes on the way through one place in one direction: a host's link, or all uplinks of a tor or of a pod. */
struct cut {
	uint64_t bytes;
	uint64_t route;	   /* the shortest, ps */
	uint64_t start_ns; /* the earliest */
};

static void cut_add(struct cut *c, const struct uccl_fab_play *p, const struct uccl_fab_op *op)
{
	uint32_t last = (uint32_t)((op->bytes - 1) % p->cfg.mtu) + 1 + UCCL_FAB_ROCE_BYTES;
	uint64_t route = uccl_fab_one_way(&p->scene.net, op->src, op->dst, last);
	uint64_t start = op->waits ? 0 : op->start_ns;

	c->route = c->bytes ? uccl_min(c->route, route) : route;
	c->start_ns = c->bytes ? uccl_min(c->start_ns, start) : start;
	c->bytes += op->bytes;
}

/* From p->spine.at_ns on only this share of its rate is left. */
static uint64_t cut_ns(const struct uccl_fab_play *p, const struct cut *c, double bps, double left)
{
	uint64_t from = uccl_max(c->start_ns, p->spine.at_ns), more = 0, sent;

	if (!c->bytes)
		return 0;
	sent = c->start_ns + uccl_fab_ideal_cut(&p->scene, c->bytes, bps, 0);
	if (left < 1 && sent > from)
		more = (uint64_t)((double)(sent - from) * (1 / left - 1));
	return c->start_ns + uccl_fab_ideal_cut(&p->scene, c->bytes, bps, c->route) + more;
}

/* What ill switches of the top tier leave of all links to it. Those that get well again are not counted. */
static double left_by_faults(const struct uccl_fab_play *p)
{
	const struct uccl_fab_topo *t = &p->cfg.topo;
	uint32_t n = uccl_fab_switches(&p->scene.net, t->tiers);
	double all = 0, ill = 0;

	if (strcmp(p->name, "spine") != 0 || p->spine.flap_ns || p->spine.rate > 1 ||
	    (p->spine.rate <= 0 && p->spine.victims >= n))
		return 1;
	for (uint32_t i = 0; i < n; i++) {
		double bps = (double)uccl_fab_spine_bps(t, i);

		all += bps;
		ill += i < p->spine.victims ? bps : 0;
	}
	return 1 - ill / all * (1 - p->spine.rate);
}

/* The longest chain of what waits for what, each as fast as if it were alone. Who waits has the higher number. */
static uint64_t longest_chain(const struct uccl_fab_play *p, uint64_t *first)
{
	const struct uccl_fab_scene *s = &p->scene;
	uint64_t *from = uccl_fab_need(calloc(s->nops + 1, sizeof(*from))), most = 0;

	for (uint32_t i = 0; i < s->nops; i++) {
		const struct uccl_fab_op *op = &s->ops[i];
		uint64_t end;

		if (op->group != uccl_fab_play_group(p))
			continue;
		if (!op->waits) {
			from[i] = op->start_ns;
			*first = uccl_min(*first, op->start_ns);
		}
		end = from[i] + uccl_fab_ideal(s, op->src, op->dst, op->bytes);
		most = uccl_max(most, end);
		for (uint32_t e = op->after; e != UINT32_MAX; e = s->edges.v[e].next)
			from[s->edges.v[e].op] = uccl_max(from[s->edges.v[e].op], end);
	}
	free(from);
	return most;
}

/*
 * What no transport can beat: so many bytes with their headers have to leave a host, a tor or a pod, or to enter it,
 * and the last packet has its way to go, the shortest that there is. And nothing is there before its start, or what it
 * waits for, and the time that it takes alone.
 */
uint64_t uccl_fab_script_ideal(const struct uccl_fab_play *p, bool faults)
{
	const struct uccl_fab_scene *s = &p->scene;
	const struct uccl_fab_topo *t = &p->cfg.topo;
	uint32_t n = t->hosts, tors = s->net.tors, pods = s->net.pods, per_pod = t->tiers == 3 ? t->tors_per_pod : tors;
	double tor_bps = (double)uccl_fab_tor_bps(t), pod_bps = tor_bps * t->cores_per_agg;
	double left = faults ? left_by_faults(p) : 1;
	uint64_t first = UCCL_NEVER, most = longest_chain(p, &first);
	struct cut *cut;

	cut = uccl_fab_need(calloc(2 * ((size_t)n + tors + pods), sizeof(*cut)));
	for (uint32_t i = 0; i < s->nops; i++) {
		const struct uccl_fab_op *op = &s->ops[i];
		uint32_t a = uccl_fab_tor(&s->net, op->src), b = uccl_fab_tor(&s->net, op->dst);

		if (op->group != uccl_fab_play_group(p))
			continue;
		cut_add(&cut[2 * op->src], p, op);
		cut_add(&cut[2 * op->dst + 1], p, op);
		if (a == b)
			continue;
		cut_add(&cut[2 * (n + a)], p, op);
		cut_add(&cut[2 * (n + b) + 1], p, op);
		if (a / per_pod == b / per_pod)
			continue;
		cut_add(&cut[2 * (n + tors + a / per_pod)], p, op);
		cut_add(&cut[2 * (n + tors + b / per_pod) + 1], p, op);
	}
	for (uint32_t i = 0; i < 2 * n; i++)
		most = uccl_max(most, cut_ns(p, &cut[i], (double)uccl_fab_host_bps(&s->net, i / 2), 1));
	for (uint32_t i = 2 * n; i < 2 * (n + tors); i++)
		most = uccl_max(most, cut_ns(p, &cut[i], tor_bps, t->tiers == 2 ? left : 1));
	for (uint32_t i = 2 * (n + tors); i < 2 * (n + tors + pods); i++)
		most = uccl_max(most, cut_ns(p, &cut[i], pod_bps, left));
	free(cut);
	return most > first ? most - first : 0;
}
