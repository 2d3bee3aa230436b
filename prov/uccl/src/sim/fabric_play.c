/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "sim/fabric_play.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "sim/fabric_stacks.h"

#define MAIN 0
#define BESIDE 1

const char *const uccl_fab_plays[][2] = {
	{"permutation", "every host sends to one other and receives from one"},
	{"incast", "`senders` hosts send to one, beside a permutation of as many others"},
	{"alltoall", "every host sends its share to every other"},
	{"ring", "allreduce by a ring over all hosts, in the order of a shuffle"},
	{"loss", "permutation while the last link of every host loses packets"},
	{"spine", "permutation while a switch of the topmost tier is slow, dead or coming and going"},
	{NULL, NULL},
};

struct option {
	const char *name;
	char type; /* u: number, d: real, g: Gb/s, s: text */
	uint16_t size;
	size_t off;
	const char *text;
};

#define P(field) sizeof(((struct uccl_fab_play *)0)->field), offsetof(struct uccl_fab_play, field)

static const struct option options[] = {
	{"hosts", 'u', P(cfg.topo.hosts), "NICs"},
	{"tiers", 'u', P(cfg.topo.tiers), "2: tor and spine; 3: tor, aggregation, core"},
	{"per_tor", 'u', P(cfg.topo.hosts_per_tor), "hosts of a tor; 0: a full fat tree of so many hosts"},
	{"tors_per_pod", 'u', P(cfg.topo.tors_per_pod), "3 tiers"},
	{"spines", 'u', P(cfg.topo.spines), "2 tiers: spines; 3 tiers: aggregation switches of a pod"},
	{"cores_per_agg", 'u', P(cfg.topo.cores_per_agg), "3 tiers"},
	{"rails", 'u', P(cfg.topo.rails), "NICs of a server, each on a tor of its own; 0: none"},
	{"gbps", 'g', P(cfg.topo.host_bps), "Gb/s of a host's link"},
	{"up_gbps", 'g', P(cfg.topo.up_bps), "Gb/s of a link between switches; less: oversubscribed"},
	{"delay", 'u', P(cfg.topo.delay_ps), "ps of a link and the switch behind it"},
	{"queue", 'u', P(cfg.topo.queue_bytes), "bytes of data queue per port"},
	{"ecn_lo", 'u', P(cfg.topo.ecn_lo), "bytes where marking begins"},
	{"ecn_hi", 'u', P(cfg.topo.ecn_hi), "bytes where it is certain; 0: none"},
	{"trim", 'u', P(cfg.topo.trim), "1: full queues cut payload off instead of dropping"},
	{"stack", 's', P(names[0]), "what carries the data"},
	{"cc", 's', P(names[1]), "congestion control; with constants: name:constant=value:..."},
	{"path", 's', P(names[2]), "choice of paths, likewise"},
	{"credit", 's', P(names[3]), "receiver credits, likewise"},
	{"paths", 'u', P(cfg.paths), "paths of a connection"},
	{"labels", 'u', P(cfg.labels), "source ports to choose from"},
	{"mtu", 'u', P(cfg.mtu), "payload of a packet on the link"},
	{"chunk", 'u', P(cfg.chunk), "bytes of a write; 0: packets only"},
	{"window", 'u', P(cfg.window), "chunks, a power of two"},
	{"post", 'u', P(cfg.post_bytes), "bytes posted ahead of the NIC"},
	{"engines", 'u', P(cfg.engines), "of a rank, over which each of its connections is split"},
	{"ranks", 'u', P(cfg.ranks), "that share a NIC; permutation, loss, spine: and what it sends"},
	{"background", 'd', P(cfg.background), "share of every host's link that one-path flows of others take"},
	{"strangers", 'u', P(cfg.strangers), "such flows that begin at a host; 0: 4"},
	{"credit_loss", 'd', P(cfg.credit_loss), "chance of a credit, or of the demand for one, to be lost"},
	{"qps", 'u', P(cfg.qps), "baselines: queue pairs of a connection"},
	{"seed", 'u', P(cfg.seed), "of everything that is drawn"},
	{"bin", 'u', P(cfg.bin_ns), "ns of the steps of the series of goodput; 0: none"},
	{"limit", 'u', P(cfg.limit_ns), "virtual ns after which a run is given up"},
	{"bytes", 'u', P(bytes), "that a host sends; ring: that it reduces"},
	{"senders", 'u', P(senders), "incast: to the one receiver"},
	{"at", 'u', P(at_ns), "spine: ns when it falls ill"},
	{"flap", 'u', P(flap_ns), "spine: ns that it is ill and well in turn; 0: it stays ill"},
	{"reroute", 'u', P(reroute_ns), "spine: ns after which routing leaves it; 0: never"},
	{"rate", 'd', P(rate), "spine: share of its rate that is left; 0: it swallows everything"},
	{"loss", 'd', P(loss), "loss: chance of a packet to be lost by itself"},
	{"burst", 'd', P(burst), "loss: chance of a burst to begin with a packet"},
	{"mean", 'd', P(mean), "loss: packets of a burst on average"},
};

void uccl_fab_play_options(FILE *out)
{
	struct uccl_fab_play p;

	uccl_fab_play_init(&p, uccl_fab_plays[0][0]);
	for (size_t i = 0; i < uccl_array_len(options); i++)
		fprintf(out, "  %-14s %s\n", options[i].name, options[i].text);
}

int uccl_fab_play_init(struct uccl_fab_play *p, const char *name)
{
	memset(p, 0, sizeof(*p));
	for (int i = 0; uccl_fab_plays[i][0]; i++)
		if (!strcmp(uccl_fab_plays[i][0], name))
			p->name = uccl_fab_plays[i][0];
	if (!p->name)
		return -FI_ENOENT;
	p->cfg = (struct uccl_fab_cfg){
		.topo =
			{
				.tiers = 3,
				.hosts = 128,
				.host_bps = 400000000000ull,
				/* 12 us there and back over three tiers, as in the paper's simulations. */
				.delay_ps = 1000 * UCCL_PS_PER_NS,
				.queue_bytes = 1u << 20,
				.trim_bytes = 64 + UCCL_FAB_ROCE_BYTES,
			},
		.paths = 256,
		.labels = 4096,
		.mtu = 4096,
		.chunk = 32768,
		.window = 256,
		.post_bytes = 65536,
		.engines = 1,
		.ranks = 1,
		.qps = 1,
		.seed = 1,
		.limit_ns = 10 * UCCL_NS_PER_S,
	};
	strcpy(p->names[0], "uccl");
	strcpy(p->names[1], "swift");
	strcpy(p->names[2], "pow2");
	strcpy(p->names[3], "none");
	p->bytes = 4u << 20;
	p->senders = 15;
	p->mean = 8;
	p->at_ns = 50 * UCCL_NS_PER_US;
	if (!strcmp(name, "loss"))
		p->loss = 1.0 / 256;
	if (!strcmp(name, "spine"))
		p->cfg.bin_ns = 10 * UCCL_NS_PER_US;
	return 0;
}

static int set_one(struct uccl_fab_play *p, const char *name, const char *value)
{
	for (size_t i = 0; i < uccl_array_len(options); i++) {
		const struct option *o = &options[i];
		char *at = (char *)p + o->off, *end = NULL;
		double real;
		uint64_t v;

		if (strcmp(o->name, name))
			continue;
		if (o->type == 's') {
			if (strlen(value) >= o->size)
				return -FI_EINVAL;
			strcpy(at, value);
			return 0;
		}
		real = strtod(value, &end);
		if (*end == '/' && end > value)
			real /= strtod(end + 1, &end);
		v = o->type == 'g' ? (uint64_t)(real * 1e9 + 0.5) : (uint64_t)real;
		/* Powers of two, as of bytes. */
		if (*end == 'k' || *end == 'm') {
			v <<= *end == 'k' ? 10 : 20;
			end++;
		}
		if (end == value || *end || !(real >= 0) || (o->size < 8 && v >> (8 * o->size)))
			return -FI_EINVAL;
		if (o->type == 'd')
			memcpy(at, &real, sizeof(real));
		else
			memcpy(at, &v, o->size); /* little endian, as the rest of the tree takes for granted */
		return 0;
	}
	return -FI_EINVAL;
}

int uccl_fab_play_set(struct uccl_fab_play *p, const char *text)
{
	char copy[1024], *save = NULL, *word, *value;

	if (strlen(text) >= sizeof(copy))
		return -FI_EINVAL;
	strcpy(copy, text);
	for (word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		value = strchr(word, '=');
		if (!value)
			return -FI_EINVAL;
		*value++ = 0;
		if (set_one(p, word, value))
			return -FI_EINVAL;
	}
	return 0;
}

/* A full fat tree for so many hosts, if nothing else was asked for. */
static int tree_default(struct uccl_fab_topo *t)
{
	uint32_t half = 1;

	if (!t->up_bps)
		t->up_bps = t->host_bps;
	if (t->hosts_per_tor)
		return 0;
	while ((t->tiers == 3 ? 2 * half * half * half : 2 * half * half) < t->hosts)
		half++;
	if ((t->tiers == 3 ? 2 * half * half * half : 2 * half * half) != t->hosts)
		return -FI_EINVAL;
	t->hosts_per_tor = half;
	if (!t->spines)
		t->spines = half;
	if (!t->tors_per_pod)
		t->tors_per_pod = half;
	if (!t->cores_per_agg)
		t->cores_per_agg = half;
	return 0;
}

/* Scenes */

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
			uint32_t op = uccl_fab_scene_add(&p->scene, hosts[i], hosts[(i + 1) % n], part,
							 k ? UCCL_NEVER : 0, MAIN);

			if (k)
				p->scene.ops[(k - 1) * n + (i + n - 1) % n].next = op;
		}
}

static void sicken(struct uccl_fab_scene *s, uint64_t arg)
{
	struct uccl_fab_play *p = uccl_container_of(s, struct uccl_fab_play, scene);

	p->sick = arg ? !p->sick : true;
	uccl_fab_fault_switch(&s->net, p->victim, p->sick && p->rate <= 0, p->sick && p->rate > 0 ? p->rate : 1);
	if (p->flap_ns)
		uccl_fab_scene_turn(s, &p->turns[0], uccl_fab_now(s) + p->flap_ns);
}

static void leave(struct uccl_fab_scene *s, uint64_t arg)
{
	struct uccl_fab_play *p = uccl_container_of(s, struct uccl_fab_play, scene);

	(void)arg;
	uccl_fab_route(&s->net, p->victim, false);
}

static int prepare(struct uccl_fab_play *p)
{
	struct uccl_fab_scene *s = &p->scene;
	uint32_t n = p->cfg.topo.hosts, *order, k = (uint32_t)p->senders;
	struct uccl_rng rng;

	uccl_rng_seed(&rng, p->cfg.seed);
	order = shuffle(&rng, n);
	if (!strcmp(p->name, "incast")) {
		uint32_t rest = (uint32_t)uccl_min(n - k - 1, k + 1);

		if (!k || k + 1 > n) {
			free(order);
			return -FI_EINVAL;
		}
		for (uint32_t i = 1; i <= k; i++)
			uccl_fab_scene_add(s, order[i], order[0], p->bytes, 0, MAIN);
		if (rest > 1)
			permute(p, order + k + 1, rest, BESIDE);
	} else if (!strcmp(p->name, "alltoall")) {
		for (uint32_t d = 1; d < n; d++)
			for (uint32_t i = 0; i < n; i++)
				uccl_fab_scene_add(s, order[i], order[(i + d) % n], uccl_max(p->bytes / (n - 1), 1), 0,
						   MAIN);
	} else if (!strcmp(p->name, "ring")) {
		play_ring(p, order, n);
	} else {
		permute(p, order, n, MAIN);
	}
	free(order);
	if (!strcmp(p->name, "loss"))
		uccl_fab_fault_loss(&s->net, p->loss, p->burst, p->mean);
	if (!strcmp(p->name, "spine")) {
		p->victim = uccl_fab_switch(&s->net, p->cfg.topo.tiers, 0);
		p->turns[0].fn = sicken;
		p->turns[0].arg = p->flap_ns;
		uccl_fab_scene_turn(s, &p->turns[0], p->at_ns);
		if (p->reroute_ns) {
			p->turns[1].fn = leave;
			uccl_fab_scene_turn(s, &p->turns[1], p->at_ns + p->reroute_ns);
		}
	}
	return 0;
}

/*
 * What no transport can beat: every host has to send, or to receive, so many bytes with their headers, and the last
 * packet has its way to go, the shortest that there is; a ring does that once per step, along the chains of what waits
 * for what.
 */
static uint64_t ideal(const struct uccl_fab_play *p)
{
	const struct uccl_fab_scene *s = &p->scene;
	uint32_t n = p->cfg.topo.hosts;
	uint64_t sum = 0, best = UCCL_NEVER;

	if (!strcmp(p->name, "incast") || !strcmp(p->name, "alltoall")) {
		bool incast = !strcmp(p->name, "incast");

		for (uint32_t i = 0; i < s->nops; i++)
			if (s->ops[i].group == MAIN && (incast || s->ops[i].src == s->ops[0].src))
				sum += s->ops[i].bytes;
		for (uint32_t i = 0; i < s->nops; i++)
			if (s->ops[i].group == MAIN)
				best = uccl_min(best, uccl_fab_ideal(s, s->ops[i].src, s->ops[i].dst, sum));
		return best;
	}
	if (!strcmp(p->name, "ring")) {
		for (uint32_t i = 0; i < n; i++) {
			uint64_t chain = 0;

			for (uint32_t op = i; op != UINT32_MAX; op = s->ops[op].next)
				chain += uccl_fab_ideal(s, s->ops[op].src, s->ops[op].dst, s->ops[op].bytes);
			sum = uccl_max(sum, chain);
		}
		return sum;
	}
	for (uint32_t i = 0; i < s->nops; i++)
		sum = uccl_max(sum, uccl_fab_ideal(s, s->ops[i].src, s->ops[i].dst, p->bytes));
	return sum;
}

static const struct uccl_fab_stack *stack_find(const char *name)
{
	static const struct uccl_fab_stack *const stacks[] = {&uccl_fab_stack_uccl, &uccl_fab_stack_gbn,
							      &uccl_fab_stack_sr, &uccl_fab_stack_spray};

	for (size_t i = 0; i < uccl_array_len(stacks); i++)
		if (!strcmp(stacks[i]->name, name))
			return stacks[i];
	return NULL;
}

int uccl_fab_play_run(struct uccl_fab_play *p, void (*progress)(const struct uccl_fab_scene *s))
{
	p->rc = tree_default(&p->cfg.topo);
	p->cfg.stack = stack_find(p->names[0]);
	p->cfg.cc = p->names[1];
	p->cfg.path = p->names[2];
	p->cfg.credit = p->names[3];
	if (p->cfg.stack != &uccl_fab_stack_uccl) {
		/* They have their own, and no writes. */
		p->cfg.cc = p->cfg.path = p->cfg.credit = "-";
		p->cfg.chunk = 0;
	}
	if (!p->rc)
		p->rc = uccl_fab_scene_open(&p->scene, &p->cfg);
	if (p->rc)
		return p->rc;
	p->rc = prepare(p);
	if (p->rc)
		return p->rc;
	p->ideal_ns = ideal(p);
	p->rc = uccl_fab_scene_run(&p->scene, progress);
	return p->rc;
}

void uccl_fab_play_close(struct uccl_fab_play *p)
{
	uccl_fab_scene_close(&p->scene);
}

/* Results */

struct row {
	const char *group;
	struct uccl_fab_result r;
	double time_us, over, gbps;
};

static int rows(const struct uccl_fab_play *p, struct row row[2])
{
	const struct uccl_fab_scene *s = &p->scene;
	int n = 0;

	for (uint8_t g = MAIN; g <= BESIDE; g++) {
		struct row *w = &row[n];

		uccl_fab_result(s, g, &w->r);
		if (!w->r.n)
			continue;
		w->group = g == MAIN ? p->name : "beside";
		w->time_us = g == MAIN ? (double)(s->last_ns - s->first_ns) / 1e3 : w->r.max_ns / 1e3;
		if (!strcmp(p->name, "incast"))
			w->time_us = w->r.max_ns / 1e3;
		w->over = g == MAIN ? (w->time_us * 1e3 / (double)p->ideal_ns - 1) * 100 : 0;
		w->gbps = (double)w->r.bytes * 8 / (w->time_us * 1e3);
		n++;
	}
	return n;
}

void uccl_fab_play_table(const struct uccl_fab_play *p, FILE *out)
{
	const struct uccl_fab_scene *s = &p->scene;
	const struct uccl_fab_topo *t = &p->cfg.topo;
	struct row row[2];
	int n = rows(p, row);

	fprintf(out, "%s: %u hosts x %.0f Gb/s, %u tiers (%u per tor, %u spines), %.6g MB, seed %llu\n", p->name,
		t->hosts, (double)t->host_bps / 1e9, t->tiers, t->hosts_per_tor, t->spines, (double)p->bytes / 1e6,
		(unsigned long long)p->cfg.seed);
	if (strcmp(p->cfg.cc, "-") == 0)
		fprintf(out, "%s, %u queue pairs, mtu %u\n", p->names[0], p->cfg.qps, p->cfg.mtu);
	else
		fprintf(out, "%s, cc %s, path %s, credit %s, %u paths, chunk %u, mtu %u\n", p->names[0], p->cfg.cc,
			p->cfg.path, p->cfg.credit, p->cfg.paths, p->cfg.chunk, p->cfg.mtu);
	if (p->rc)
		fprintf(out, "NOT FINISHED: %s (%u of %u operations arrived)\n",
			s->broken[0] ? s->broken : "out of time", s->done, s->nops);
	fprintf(out, "%-12s %6s %10s %8s %9s %9s %9s %9s %6s\n", "group", "ops", "time us", "over %", "Gb/s", "p50 us",
		"p99 us", "p999 us", "Jain");
	for (int i = 0; i < n; i++)
		fprintf(out, "%-12s %6u %10.1f %8.2f %9.1f %9.1f %9.1f %9.1f %6.4f\n", row[i].group, row[i].r.n,
			row[i].time_us, row[i].over, row[i].gbps, row[i].r.p50_ns / 1e3, row[i].r.p99_ns / 1e3,
			row[i].r.p999_ns / 1e3, row[i].r.jain);
	fprintf(out,
		"ideal %.1f us; max queue %llu B; dropped %llu, lost %llu, trimmed %llu, marked %llu; again %llu B "
		"(%.3f %%); spurious %llu\n",
		(double)p->ideal_ns / 1e3, (unsigned long long)uccl_fab_max_queue(s),
		(unsigned long long)s->net.dropped, (unsigned long long)s->net.lost, (unsigned long long)s->net.trimmed,
		(unsigned long long)s->net.marked, (unsigned long long)(s->stats.rtx_bytes + s->rtx_bytes),
		(double)(s->stats.rtx_bytes + s->rtx_bytes) * 100 / (double)(s->bytes ? s->bytes : 1),
		(unsigned long long)s->stats.spurious);
}

void uccl_fab_play_csv(const struct uccl_fab_play *p, FILE *out, bool heads)
{
	const struct uccl_fab_scene *s = &p->scene;
	struct row row[2];
	int n = rows(p, row);

	if (heads)
		fprintf(out,
			"scene,group,stack,cc,path,credit,hosts,chunk,seed,ops,time_us,ideal_us,gbps,p50_us,p99_us,"
			"p999_us,jain,max_queue,dropped,lost,trimmed,marked,rtx_bytes,spurious,finished\n");
	for (int i = 0; i < n; i++)
		fprintf(out,
			"%s,%s,%s,%s,%s,%s,%u,%u,%llu,%u,%.1f,%.1f,%.1f,%.1f,%.1f,%.1f,%.4f,%llu,%llu,%llu,%llu,"
			"%llu,%llu,%llu,%d\n",
			p->name, row[i].group, p->names[0], p->cfg.cc, p->cfg.path, p->cfg.credit, p->cfg.topo.hosts,
			p->cfg.chunk, (unsigned long long)p->cfg.seed, row[i].r.n, row[i].time_us,
			(double)p->ideal_ns / 1e3, row[i].gbps, row[i].r.p50_ns / 1e3, row[i].r.p99_ns / 1e3,
			row[i].r.p999_ns / 1e3, row[i].r.jain, (unsigned long long)uccl_fab_max_queue(s),
			(unsigned long long)s->net.dropped, (unsigned long long)s->net.lost,
			(unsigned long long)s->net.trimmed, (unsigned long long)s->net.marked,
			(unsigned long long)(s->stats.rtx_bytes + s->rtx_bytes), (unsigned long long)s->stats.spurious,
			!p->rc);
}

void uccl_fab_play_json(const struct uccl_fab_play *p, FILE *out)
{
	const struct uccl_fab_scene *s = &p->scene;
	const char *sep = "";

	fprintf(out,
		"{\"scene\": \"%s\", \"stack\": \"%s\", \"cc\": \"%s\", \"path\": \"%s\", \"credit\": \"%s\", "
		"\"hosts\": %u, \"seed\": %llu, \"finished\": %s, \"ideal_us\": %.3f, \"max_queue\": "
		"%llu,\n\"fct_us\": {",
		p->name, p->names[0], p->cfg.cc, p->cfg.path, p->cfg.credit, p->cfg.topo.hosts,
		(unsigned long long)p->cfg.seed, p->rc ? "false" : "true", (double)p->ideal_ns / 1e3,
		(unsigned long long)uccl_fab_max_queue(s));
	for (uint8_t g = MAIN; g <= BESIDE; g++) {
		const char *comma = "";

		fprintf(out, "%s\"%s\": [", g == MAIN ? "" : ", ", g == MAIN ? p->name : "beside");
		for (uint32_t i = 0; i < s->nops; i++)
			if (s->ops[i].group == g && s->ops[i].end_ns) {
				fprintf(out, "%s%.3f", comma, (double)(s->ops[i].end_ns - s->ops[i].start_ns) / 1e3);
				comma = ", ";
			}
		fprintf(out, "]");
	}
	fprintf(out, "},\n\"bin_ns\": %llu, \"bin_bytes\": [", (unsigned long long)p->cfg.bin_ns);
	for (uint32_t i = 0; i < s->nbins; i++, sep = ", ")
		fprintf(out, "%s%llu", sep, (unsigned long long)s->bins[i]);
	fprintf(out, "]}\n");
}
