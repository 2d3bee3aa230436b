/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "sim/fabric_play.h"

#include <math.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/shipped.h"
#include "base/units.h"
#include "nic/train.h"
#include "sim/fabric_stacks.h"

#define MAIN 0
#define BESIDE 1

const char *const uccl_fab_plays[][2] = {
	{"permutation", "every host sends to one other and receives from one"},
	{"incast", "`senders` hosts send to one, beside a permutation of as many others"},
	{"stagger", "`senders` hosts send to one, each begins `stagger` ns after the one before it"},
	{"alltoall", "every host sends its share to every other, or more to some (`skew`)"},
	{"ring", "allreduce by a ring over all hosts, in the order of a shuffle"},
	{"loss", "permutation while the last link of every host loses packets"},
	{"spine", "permutation while switches of the topmost tier are slow, dead or coming and going"},
	{NULL, NULL},
};

struct option {
	const char *name;
	char type; /* u: number, d: real, g: Gb/s, s: text */
	uint16_t size;
	size_t off;
	const char *text;
	const char *scenes; /* that it is for, with blanks around each; NULL: all */
	char stack;	    /* u: the provider's own; b: baselines; 0: all */
};

#define P(field) sizeof(((struct uccl_fab_play *)0)->field), offsetof(struct uccl_fab_play, field)

static const struct option options[] = {
	{"hosts", 'u', P(cfg.topo.hosts), "NICs", NULL, 0},
	{"tiers", 'u', P(cfg.topo.tiers), "2: tor and spine; 3: tor, aggregation, core", NULL, 0},
	{"per_tor", 'u', P(cfg.topo.hosts_per_tor), "hosts of a tor; 0: a full fat tree of so many hosts", NULL, 0},
	{"tors_per_pod", 'u', P(cfg.topo.tors_per_pod), "3 tiers", NULL, 0},
	{"spines", 'u', P(cfg.topo.spines), "2 tiers: spines; 3 tiers: aggregation switches of a pod", NULL, 0},
	{"cores_per_agg", 'u', P(cfg.topo.cores_per_agg), "3 tiers", NULL, 0},
	{"rails", 'u', P(cfg.topo.rails), "NICs of a server, each on a tor of its own; 0: none", NULL, 0},
	{"gbps", 'g', P(cfg.topo.host_bps), "Gb/s of a host's link", NULL, 0},
	{"up_gbps", 'g', P(cfg.topo.up_bps), "Gb/s of a link between switches; less: oversubscribed", NULL, 0},
	{"delay", 'u', P(cfg.topo.delay_ps), "ps of a link and the switch behind it", NULL, 0},
	{"queue", 'u', P(cfg.topo.queue_bytes), "bytes of data queue per port", NULL, 0},
	{"ecn_lo", 'u', P(cfg.topo.ecn_lo), "bytes where marking begins", NULL, 0},
	{"ecn_hi", 'u', P(cfg.topo.ecn_hi), "bytes where it is certain; 0: none", NULL, 0},
	{"trim", 'u', P(cfg.topo.trim), "1: full queues cut payload off instead of dropping", NULL, 0},
	{"stack", 's', P(names[0]), "what carries the data", NULL, 0},
	{"profile", 's', P(profile),
	 "udp, verbs: what is shipped for such NICs; lab: 256 paths, exact delays", NULL, 'u'},
	{"cc", 's', P(names[1]), "congestion control; with constants: name:constant=value:...", NULL, 'u'},
	{"path", 's', P(names[2]), "choice of paths, likewise", NULL, 'u'},
	{"credit", 's', P(names[3]), "receiver credits, likewise", NULL, 'u'},
	{"paths", 'u', P(cfg.paths), "paths of a connection", NULL, 'u'},
	{"labels", 'u', P(cfg.labels), "source ports to choose from", NULL, 'u'},
	{"mtu", 'u', P(cfg.mtu), "payload of a packet on the link", NULL, 0},
	{"chunk", 'u', P(cfg.chunk), "bytes of a write; 0: packets only", NULL, 'u'},
	{"window", 'u', P(cfg.window), "chunks, a power of two", NULL, 'u'},
	{"train", 'u', P(cfg.train), "chunk=0: bytes of packets that leave as one; 0: each by itself", NULL, 'u'},
	{"delay_ns", 'u', P(cfg.delay_ns),
	 "ns that flows take for normal; 0: what is true of each pair of hosts", NULL, 'u'},
	{"rto_ns", 'u', P(cfg.rto_min_ns), "ns: floor of time-outs", NULL, 'u'},
	{"marks", 'u', P(cfg.marks), "1: flows hear of marks (ecn_lo, ecn_hi)", NULL, 'u'},
	{"control", 'u', P(cfg.control), "1: acknowledgements and credits go before data; 0: as data", NULL, 'u'},
	{"post", 'u', P(cfg.post_bytes), "bytes posted ahead of the NIC", NULL, 0},
	{"engines", 'u', P(cfg.engines), "of a rank, over which each of its connections is split", NULL, 'u'},
	{"ranks", 'u', P(cfg.ranks), "that share a NIC; permutation, loss, spine: and what it sends", NULL, 'u'},
	{"background", 'd', P(cfg.background),
	 "share of every host's link that one-path flows of others take", NULL, 0},
	{"strangers", 'u', P(cfg.strangers), "such flows that begin at a host; 0: 4", NULL, 0},
	{"credit_loss", 'd', P(cfg.credit_loss), "chance of a credit, or of the demand for one, to be lost", NULL, 'u'},
	{"qps", 'u', P(cfg.qps), "baselines: queue pairs of a connection", NULL, 'b'},
	{"seed", 'u', P(cfg.seed), "of everything that is drawn", NULL, 0},
	{"bin", 'u', P(cfg.bin_ns), "ns of the steps of the series of goodput; 0: none", NULL, 0},
	{"limit", 'u', P(cfg.limit_ns), "virtual ns after which a run is given up", NULL, 0},
	{"bytes", 'u', P(bytes), "that a host sends; ring: that it reduces", NULL, 0},
	{"senders", 'u', P(senders), "incast: to the one receiver", " incast stagger ", 0},
	{"skew", 'd', P(skew), "alltoall: exponent of Zipf's law by which hosts get more or less; 0: all the same",
	 " alltoall ", 0},
	{"stagger", 'u', P(stagger_ns), "stagger: ns between two that begin", " stagger ", 0},
	{"victims", 'u', P(victims), "spine: so many fall ill together", " spine ", 0},
	{"at", 'u', P(at_ns), "spine: ns when it falls ill", " spine ", 0},
	{"flap", 'u', P(flap_ns), "spine: ns that it is ill and well in turn; 0: it stays ill", " spine ", 0},
	{"reroute", 'u', P(reroute_ns), "spine: ns after which routing leaves it; 0: never", " spine ", 0},
	{"rate", 'd', P(rate), "spine: share of its rate that is left; 0: it swallows everything", " spine ", 0},
	{"loss", 'd', P(loss), "loss: chance of a packet to be lost by itself", " loss ", 0},
	{"burst", 'd', P(burst), "loss: chance of a burst to begin with a packet", " loss ", 0},
	{"mean", 'd', P(mean), "loss: packets of a burst on average", " loss ", 0},
};

_Static_assert(uccl_array_len(options) <= 64, "uccl_fab_play.given has a bit for each");

void uccl_fab_play_options(FILE *out)
{
	struct uccl_fab_play p;

	uccl_fab_play_init(&p, uccl_fab_plays[0][0]);
	for (size_t i = 0; i < uccl_array_len(options); i++)
		fprintf(out, "  %-14s %s\n", options[i].name, options[i].text);
}

/* All that a profile says, but what was set by itself. -FI_EINVAL: there is none of this name. */
static int profile_set(struct uccl_fab_play *p)
{
	static const struct uccl_shipped lab = {
		.cc = "swift",
		.path = "pow2",
		.credit = "none",
		.paths = 256,
		.labels = 4096,
		.write_bytes = 32768,
		.window = 256,
		.rto_min_ns = 100 * UCCL_NS_PER_US,
		.control_apart = true,
	};
	const struct uccl_shipped *s = !strcmp(p->profile, "lab") ? &lab : uccl_shipped_find(p->profile);
	struct uccl_fab_play was = *p;

	if (!s)
		return -FI_EINVAL;
	strcpy(p->names[1], s->cc);
	strcpy(p->names[2], s->path);
	strcpy(p->names[3], s->credit);
	p->cfg.paths = s->paths;
	p->cfg.labels = s->labels;
	p->cfg.chunk = s->write_bytes;
	p->cfg.window = s->window;
	p->cfg.train = s->trains ? UCCL_TRAIN_BYTES : 0;
	p->cfg.delay_ns = s->delay_ns;
	p->cfg.rto_min_ns = s->rto_min_ns;
	p->cfg.marks = s->marks;
	p->cfg.control = s->control_apart;
	for (size_t i = 0; i < uccl_array_len(options); i++)
		if (p->given >> i & 1)
			memcpy((char *)p + options[i].off, (char *)&was + options[i].off, options[i].size);
	return 0;
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
		.mtu = 4096,
		.post_bytes = 65536,
		.engines = 1,
		.ranks = 1,
		.qps = 1,
		.seed = 1,
		.limit_ns = 10 * UCCL_NS_PER_S,
	};
	strcpy(p->names[0], "uccl");
	strcpy(p->profile, "lab");
	profile_set(p);
	p->bytes = 4u << 20;
	p->senders = 15;
	p->stagger_ns = 100 * UCCL_NS_PER_US;
	p->victims = 1;
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
		p->given |= 1ull << i;
		if (o->type == 's') {
			if (strlen(value) >= o->size)
				return -FI_EINVAL;
			strcpy(at, value);
			return o->off == offsetof(struct uccl_fab_play, profile) ? profile_set(p) : 0;
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

/* Of those that depend on the value of another one: does it change nothing? */
static bool idle_beside(const struct uccl_fab_play *p, const char *name)
{
	const struct uccl_fab_cfg *c = &p->cfg;
	const struct uccl_credit_ops *credit = uccl_credit_find(p->names[3]);
	bool own = !strcmp(p->names[0], "uccl");

	if (!strcmp(name, "tors_per_pod") || !strcmp(name, "cores_per_agg"))
		return c->topo.tiers != 3;
	if (!strcmp(name, "ecn_lo") || !strcmp(name, "ecn_hi"))
		return !c->topo.ecn_hi || (own && !c->marks);
	if (!strcmp(name, "marks"))
		return !c->topo.ecn_hi;
	if (!strcmp(name, "train"))
		return c->chunk;
	if (!strcmp(name, "strangers"))
		return c->background <= 0;
	if (!strcmp(name, "credit_loss"))
		return !credit || !credit->pull;
	if (!strcmp(name, "mean"))
		return p->burst <= 0;
	return false;
}

const char *uccl_fab_play_useless(const struct uccl_fab_play *p)
{
	bool own = !strcmp(p->names[0], "uccl");
	char scene[32];

	snprintf(scene, sizeof(scene), " %s ", p->name);
	for (size_t i = 0; i < uccl_array_len(options); i++) {
		const struct option *o = &options[i];

		if (!(p->given >> i & 1))
			continue;
		if ((o->scenes && !strstr(o->scenes, scene)) || (o->stack && (o->stack == 'u') != own) ||
		    idle_beside(p, o->name))
			return o->name;
	}
	return NULL;
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
	for (uint32_t i = 0; i < p->victims; i++)
		uccl_fab_fault_switch(&s->net, p->victim + i, p->sick && p->rate <= 0,
				      p->sick && p->rate > 0 ? p->rate : 1);
	if (p->flap_ns)
		uccl_fab_scene_turn(s, &p->turns[0], uccl_fab_now(s) + p->flap_ns);
}

static void leave(struct uccl_fab_scene *s, uint64_t arg)
{
	struct uccl_fab_play *p = uccl_container_of(s, struct uccl_fab_play, scene);

	(void)arg;
	for (uint32_t i = 0; i < p->victims; i++)
		uccl_fab_route(&s->net, p->victim + i, false);
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

			uccl_fab_scene_add(&p->scene, order[i], order[to], uccl_max(bytes, 1), 0, MAIN);
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
		uccl_fab_scene_add(s, order[i + 1], order[0], p->bytes, i * p->stagger_ns, MAIN);
	for (int i = 0; i < 2; i++) {
		p->turns[i].fn = look;
		p->turns[i].arg = (uint64_t)i;
		uccl_fab_scene_turn(s, &p->turns[i], from + (uint64_t)i * 10 * rtt * k);
	}
	return 0;
}

static int prepare(struct uccl_fab_play *p)
{
	struct uccl_fab_scene *s = &p->scene;
	uint32_t n = p->cfg.topo.hosts, *order, k = (uint32_t)p->senders;
	struct uccl_rng rng;
	int rc = 0;

	uccl_rng_seed(&rng, p->cfg.seed);
	order = shuffle(&rng, n);
	if (((!strcmp(p->name, "incast") || !strcmp(p->name, "stagger")) && (!k || k + 1 > n)) ||
	    p->victims > uccl_fab_switches(&s->net, p->cfg.topo.tiers)) {
		free(order);
		return -FI_EINVAL;
	}
	if (!strcmp(p->name, "incast")) {
		uint32_t rest = (uint32_t)uccl_min(n - k - 1, k + 1);

		for (uint32_t i = 1; i <= k; i++)
			uccl_fab_scene_add(s, order[i], order[0], p->bytes, 0, MAIN);
		if (rest > 1)
			permute(p, order + k + 1, rest, BESIDE);
	} else if (!strcmp(p->name, "stagger")) {
		rc = play_stagger(p, order, k);
	} else if (!strcmp(p->name, "alltoall")) {
		play_alltoall(p, order, n);
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
	return rc;
}

/* Bytes on the way through one place in one direction: a host's link, or all uplinks of a tor or of a pod. */
struct cut {
	uint64_t bytes;
	uint64_t way; /* the shortest, ps */
};

static void cut_add(struct cut *c, const struct uccl_fab_play *p, const struct uccl_fab_op *op)
{
	uint32_t last = (uint32_t)((op->bytes - 1) % p->cfg.mtu) + 1 + UCCL_FAB_ROCE_BYTES;
	uint64_t way = uccl_fab_one_way(&p->scene.net, op->src, op->dst, last);

	c->way = c->bytes ? uccl_min(c->way, way) : way;
	c->bytes += op->bytes;
}

static uint64_t cut_ns(const struct uccl_fab_play *p, const struct cut *c, double bps)
{
	return c->bytes ? uccl_fab_ideal_cut(&p->scene, c->bytes, bps, c->way) : 0;
}

/*
 * What no transport can beat: so many bytes with their headers have to leave a host, a tor or a pod, or to enter it,
 * and the last packet has its way to go, the shortest that there is; a ring does that once per step, along the chains
 * of what waits for what. Faults are not counted.
 */
static uint64_t ideal(const struct uccl_fab_play *p)
{
	const struct uccl_fab_scene *s = &p->scene;
	const struct uccl_fab_topo *t = &p->cfg.topo;
	uint32_t n = t->hosts, tors = s->net.tors, pods = s->net.pods, per_pod = t->tiers == 3 ? t->tors_per_pod : tors;
	double tor_bps = (double)t->up_bps * t->spines, pod_bps = tor_bps * t->cores_per_agg;
	uint64_t most = 0;
	struct cut *cut;

	if (!strcmp(p->name, "ring")) {
		for (uint32_t i = 0; i < n; i++) {
			uint64_t chain = 0;

			for (uint32_t op = i; op != UINT32_MAX; op = s->ops[op].next)
				chain += uccl_fab_ideal(s, s->ops[op].src, s->ops[op].dst, s->ops[op].bytes);
			most = uccl_max(most, chain);
		}
		return most;
	}
	cut = uccl_fab_need(calloc(2 * ((size_t)n + tors + pods), sizeof(*cut)));
	for (uint32_t i = 0; i < s->nops; i++) {
		const struct uccl_fab_op *op = &s->ops[i];
		uint32_t a = uccl_fab_tor(&s->net, op->src), b = uccl_fab_tor(&s->net, op->dst);

		if (op->group != MAIN)
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
	for (uint32_t i = 0; i < 2 * (n + tors + pods); i++)
		most = uccl_max(most, cut_ns(p, &cut[i],
					     i < 2 * n		? (double)t->host_bps
					     : i < 2 * (n + tors) ? tor_bps
								  : pod_bps));
	free(cut);
	return most;
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
	free(p->seen);
	p->seen = NULL;
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

void uccl_fab_play_figures(const struct uccl_fab_play *p, double v[UCCL_FAB_FIGURES])
{
	const struct uccl_fab_scene *s = &p->scene;
	struct row row[2];
	int n = rows(p, row);

	v[UCCL_FAB_OVER] = n ? row[0].over : 0;
	v[UCCL_FAB_MEDIAN] = n ? (row[0].r.p50_ns / (double)p->ideal_ns - 1) * 100 : 0;
	v[UCCL_FAB_BESIDE] = n > 1 ? row[1].time_us : 0;
	v[UCCL_FAB_LEAST] = p->least;
	v[UCCL_FAB_AGAIN] = (double)(s->stats.rtx_bytes + s->rtx_bytes) * 100 / (double)uccl_max(s->bytes, 1);
	v[UCCL_FAB_DROPPED] = (double)s->net.dropped;
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
		fprintf(out, "%s as %s, cc %s, path %s, credit %s, %u paths, chunk %u, mtu %u\n", p->names[0],
			p->profile, p->cfg.cc, p->cfg.path, p->cfg.credit, p->cfg.paths, p->cfg.chunk, p->cfg.mtu);
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
	if (p->seen)
		fprintf(out, "least share %.3f\n", p->least);
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
