/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "sim/fabric_play.h"

#include <errno.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/defaults.h"
#include "base/units.h"
#include "nic/gso.h"
#include "sim/fabric_script.h"
#include "sim/fabric_sizes.h"
#include "sim/fabric_stacks.h"

const char *const uccl_fab_plays[][2] = {
	{"permutation", "every host sends to one other and receives from one"},
	{"incast", "`senders` hosts send to one, beside a permutation of as many others"},
	{"stagger", "`senders` hosts send to one, each begins `stagger` ns after the one before it"},
	{"alltoall", "every host sends its share to every other, or more to some (`skew`)"},
	{"ring", "allreduce by a ring over all hosts, in the order of a shuffle"},
	{"turns", "one host sends to another, which then sends as much back, `messages` in all"},
	{"tree", "allreduce by a binary tree of all hosts, up and down in `pieces`, in the order of a shuffle"},
	{"arrivals", "transfers between any two, by chance, at a `load` for a `span`, of `sizes` as published"},
	{"list", "transfers that are listed in a `file`, in lines of: start in us, sender, receiver, bytes"},
	{"loss", "permutation while the last link of every host loses packets"},
	{"spine", "permutation while switches of the topmost tier are slow, dead or coming and going"},
	{NULL, NULL},
};

struct option {
	const char *name;
	char type; /* u: number, d: real, g: Gb/s, l: list of Gb/s, s: text */
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
	{"per_tor", 'u', P(cfg.topo.hosts_per_tor), "hosts of a ToR; 0: a full fat tree of `hosts`", NULL, 0},
	{"tors_per_pod", 'u', P(cfg.topo.tors_per_pod), "3 tiers", NULL, 0},
	{"spines", 'u', P(cfg.topo.spines), "2 tiers: spines; 3 tiers: aggregation switches of a pod", NULL, 0},
	{"cores_per_agg", 'u', P(cfg.topo.cores_per_agg), "3 tiers", NULL, 0},
	{"rails", 'u', P(cfg.topo.rails), "NICs of a server, each on a tor of its own; 0: none", NULL, 0},
	{"gbps", 'g', P(cfg.topo.host_bps), "Gb/s of a host's link", NULL, 0},
	{"up_gbps", 'g', P(cfg.topo.up_bps), "Gb/s of a link between switches; less: oversubscribed", NULL, 0},
	{"spine_gbps", 'l', P(cfg.topo.spine_bps),
	 "2 tiers: Gb/s of the links of each spine, as 100/250/250/400, instead of up_gbps; a shorter list repeats",
	 NULL, 0},
	{"slow_hosts", 'u', P(cfg.topo.slow_hosts),
	 "number of hosts with links of another rate, spread evenly", NULL, 0},
	{"slow_gbps", 'g', P(cfg.topo.slow_bps), "Gb/s of the links of slow_hosts; 0: a tenth of gbps", NULL, 0},
	{"ecmp", 'u', P(cfg.topo.ecmp),
	 "how switches choose routes: 0: each has its own hash, 1: one hash for all, 2: exclusive or for all", NULL, 0},
	{"delay", 'u', P(cfg.topo.delay_ps), "delay of a link and the switch behind it, in ps", NULL, 0},
	{"queue", 'u', P(cfg.topo.queue_bytes), "bytes of data queue per port", NULL, 0},
	{"ecn_lo", 'u', P(cfg.topo.ecn_lo), "queue length where ECN marking begins, in bytes", NULL, 0},
	{"ecn_hi", 'u', P(cfg.topo.ecn_hi),
	 "queue length where each packet is marked, in bytes; 0: no marking", NULL, 0},
	{"trim", 'u', P(cfg.topo.trim), "1: full queues cut payload off instead of dropping", NULL, 0},
	{"shared", 'u', P(cfg.topo.shared_bytes),
	 "buffer that the data queues of a switch share, in bytes, instead of `queue`; 0: none", NULL, 0},
	{"alpha", 'd', P(cfg.topo.alpha),
	 "shared: a queue (with pfc: a link) may hold this multiple of the free buffer", NULL, 0},
	{"pfc", 'u', P(cfg.topo.pfc), "1: switches drop no data; they pause senders (PFC)", NULL, 0},
	{"xoff", 'u', P(cfg.topo.xoff_bytes), "pfc: a link is paused when this many of its bytes wait", NULL,
	 0},
	{"headroom", 'u', P(cfg.topo.headroom_bytes),
	 "pfc: buffer of each link for what arrives after a pause, in bytes; 0: computed", NULL, 0},
	{"flow_gbps", 'g', P(cfg.topo.limit.bps), "limit of every 5-tuple, in Gb/s; 0: none", NULL, 0},
	{"flow_burst", 'u', P(cfg.topo.limit.burst_bytes),
	 "flow_gbps: bytes that pass at once after a pause", NULL, 0},
	{"flow_queue", 'u', P(cfg.topo.limit.queue_bytes),
	 "flow_gbps: bytes that wait for a 5-tuple; 0: what exceeds the limit is dropped", NULL, 0},
	{"stack", 's', P(names[0]), "transport", NULL, 0},
	{"profile", 's', P(profile),
	 "udp, verbs: the defaults for such NICs; lab: 256 paths, exact delays", NULL, 'u'},
	{"cc", 's', P(names[1]), "congestion control; with constants: name:constant=value:...", NULL, 'u'},
	{"path", 's', P(names[2]), "path choice, with constants as for cc", NULL, 'u'},
	{"credit", 's', P(names[3]), "receiver credits, with constants as for cc", NULL, 'u'},
	{"paths", 'u', P(cfg.paths), "paths of a connection", NULL, 'u'},
	{"labels", 'u', P(cfg.labels), "source ports to choose from", NULL, 'u'},
	{"mtu", 'u', P(cfg.mtu), "payload of a packet on the link", NULL, 0},
	{"chunk", 'u', P(cfg.chunk), "bytes of a write; 0: packets only", NULL, 'u'},
	{"brittle", 'u', P(cfg.brittle), "1: writes are one packet until nothing was lost for long", NULL, 'u'},
	{"window", 'u', P(cfg.window), "chunks, a power of two", NULL, 'u'},
	{"train", 'u', P(cfg.train), "chunk=0: bytes of a packet train; 0: no trains", NULL, 'u'},
	{"delay_ns", 'u', P(cfg.told.delay_ns),
	 "base delay that flows assume, in ns; 0: the true one of each pair of hosts",
	 NULL, 'u'},
	{"told_gbps", 'g', P(cfg.told.link_bps), "link rate that flows assume, in Gb/s; 0: the true one", NULL, 'u'},
	{"told_soft", 'u', P(cfg.told.soft), "1: software reports the link rate, so trains stay long (R288)", NULL,
	 'u'},
	{"rto_ns", 'u', P(cfg.told.rto_min_ns), "shortest time-out, in ns", NULL, 'u'},
	{"marks", 'u', P(cfg.marks), "1: flows read ECN marks (ecn_lo, ecn_hi)", NULL, 'u'},
	{"control", 'u', P(cfg.control), "1: acknowledgements and credits go before data; 0: as data", NULL, 'u'},
	{"post", 'u', P(cfg.post_bytes), "bytes that a host posts to the NIC ahead", NULL, 0},
	{"engines", 'u', P(cfg.engines), "engines of a rank; each connection is split over them", NULL, 'u'},
	{"ranks", 'u', P(cfg.ranks),
	 "ranks that share a NIC; permutation, loss, spine: they share the bytes, too", NULL, 'u'},
	{"background", 'd', P(cfg.others.share),
	 "background traffic of one-path flows, as a share of each host's link", NULL,
	 0},
	{"background_flows", 'u', P(cfg.others.flows), "background flows that begin at a host; 0: 4", NULL, 0},
	{"credit_loss", 'd', P(cfg.credit_loss), "probability that a CREDIT or a DEMAND packet is lost", NULL, 'u'},
	{"jitter", 'u', P(cfg.jitter.ns), "mean pause of a host, in ns; what arrives meanwhile waits", NULL, 0},
	{"jitter_every", 'u', P(cfg.jitter.every_ns), "mean time between two pauses of a host, in ns", NULL, 0},
	{"qps", 'u', P(cfg.qps), "baselines: queue pairs of a connection", NULL, 'b'},
	{"seed", 'u', P(cfg.seed), "seed of all random choices", NULL, 0},
	{"bin", 'u', P(cfg.bin_ns), "step of the goodput series, in ns; 0: no series", NULL, 0},
	{"trace", 's', P(look.file), "file that gets samples of each flow: window, round trips, paths", NULL,
	 'u'},
	{"trace_every", 'u', P(look.every_ns), "ns between two samples", NULL, 'u'},
	{"trace_hosts", 'u', P(look.hosts), "sample only flows of hosts below this number; 0: all flows", NULL, 'u'},
	{"limit", 'u', P(cfg.limit_ns), "the run stops after this virtual time, in ns", NULL, 0},
	{"bytes", 'u', P(bytes), "bytes that each host sends; ring, tree: bytes to reduce; turns: bytes of a message",
	 " permutation incast stagger alltoall ring turns tree loss spine ", 0},
	{"senders", 'u', P(senders), "incast: number of senders to the one receiver", " incast stagger ", 0},
	{"alone", 'u', P(alone), "incast: 1: run only the permutation, without the incast", " incast ", 0},
	{"skew", 'd', P(skew), "alltoall: exponent of Zipf's law for the shares of hosts; 0: equal shares",
	 " alltoall ", 0},
	{"pieces", 'u', P(pieces), "tree: number of pieces of the bytes", " tree ", 0},
	{"load", 'd', P(arrivals.load), "arrivals: load as a share of each host's link, with headers", " arrivals ", 0},
	{"span", 'u', P(arrivals.span_ns), "arrivals: transfers begin within this time, in ns", " arrivals ", 0},
	{"sizes", 's', P(arrivals.sizes), "arrivals: websearch, datamining, storage, ai", " arrivals ", 0},
	{"file", 's', P(file), "list, spine: file with a list of transfers; spine: none is a permutation",
	 " list spine ", 0},
	{"messages", 'u', P(messages), "turns: number of messages", " turns ", 0},
	{"stagger", 'u', P(stagger_ns), "stagger: ns between the starts of two senders", " stagger ", 0},
	{"victims", 'u', P(spine.victims), "spine: number of switches that fail together", " spine ", 0},
	{"at", 'u', P(spine.at_ns), "spine: time of the failure, in ns", " spine ", 0},
	{"flap", 'u', P(spine.flap_ns),
	 "spine: failed and sound in turn, for this time each, in ns; 0: failed to the end", " spine ", 0},
	{"reroute", 'u', P(spine.reroute_ns),
	 "spine: routing avoids the switch after this time, in ns; 0: never", " spine ", 0},
	{"rate", 'd', P(spine.rate),
	 "spine: rate of a failed switch as a share of its normal rate; 0: it drops everything", " spine ", 0},
	{"loss", 'd', P(loss.chance), "loss: probability that a single packet is lost", " loss ", 0},
	{"burst", 'd', P(loss.burst), "loss: probability that a burst begins with a packet", " loss ", 0},
	{"mean", 'd', P(loss.mean), "loss: mean length of a burst, in packets", " loss ", 0},
};

_Static_assert(uccl_array_len(options) <= UCCL_FAB_OPTIONS, "uccl_fab_play.given has one for each");

/* A list of rates, in Gb/s; it ends at its first 0. */
static void rates_text(const uint64_t *bps, size_t n, char *buf, size_t size)
{
	size_t len = 0;

	*buf = 0;
	for (size_t i = 0; i < n && bps[i] && len < size; i++)
		len += (size_t)snprintf(buf + len, size - len, i ? "/%g" : "%g", (double)bps[i] / 1e9);
}

static int rates_set(uint64_t *bps, size_t n, const char *text)
{
	memset(bps, 0, n * sizeof(*bps));
	for (size_t i = 0; i < n; i++) {
		char *end;
		double gbps = strtod(text, &end);

		if (end == text || !(gbps >= 1e-3) || !(gbps < 1e6))
			return -FI_EINVAL;
		bps[i] = (uint64_t)(gbps * 1e9 + 0.5);
		if (!*end)
			return 0;
		if (*end != '/')
			return -FI_EINVAL;
		text = end + 1;
	}
	return -FI_EINVAL;
}

/* The value of an option, as it can be set. */
static void value_text(const struct uccl_fab_play *p, const struct option *o, char *buf, size_t size)
{
	const char *at = (const char *)p + o->off;
	double real;
	uint64_t v = 0;

	if (o->type == 's') {
		snprintf(buf, size, "%s", at);
		return;
	}
	if (o->type == 'l') {
		rates_text((const uint64_t *)at, o->size / sizeof(uint64_t), buf, size);
		return;
	}
	memcpy(&v, at, o->size); /* little endian, see set_one() */
	memcpy(&real, &v, sizeof(real));
	if (o->type == 'd')
		snprintf(buf, size, "%g", real);
	else if (o->type == 'g')
		snprintf(buf, size, "%g", (double)v / 1e9);
	else
		snprintf(buf, size, "%llu", (unsigned long long)v);
}

void uccl_fab_play_options(FILE *out)
{
	static struct uccl_fab_play p;
	char value[sizeof(p.names[0])];

	uccl_fab_play_init(&p, uccl_fab_plays[0][0]);
	for (size_t i = 0; i < uccl_array_len(options); i++) {
		value_text(&p, &options[i], value, sizeof(value));
		fprintf(out, "  %-14s %s%s%s%s\n", options[i].name, options[i].text, *value ? " (" : "", value,
			*value ? ")" : "");
	}
}

/* All that a profile says, but what was set by itself. -FI_EINVAL: there is none of this name. */
static int profile_set(struct uccl_fab_play *p)
{
	static const struct uccl_defaults lab = {
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
	const struct uccl_defaults *s = !strcmp(p->profile, "lab") ? &lab : uccl_defaults_find(p->profile);
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
	p->cfg.told.delay_ns = s->delay_ns;
	p->cfg.told.rto_min_ns = s->rto_min_ns;
	p->cfg.marks = s->marks;
	p->cfg.control = s->control_apart;
	for (size_t i = 0; i < uccl_array_len(options); i++)
		if (p->given[i])
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
				.alpha = 1,
				.xoff_bytes = 1u << 19,
				.limit.burst_bytes = 1u << 16,
			},
		.mtu = 4096,
		.post_bytes = 65536,
		.engines = 1,
		.ranks = 1,
		.qps = 1,
		.seed = 1,
		.jitter.every_ns = UCCL_NS_PER_MS,
		.limit_ns = 10 * UCCL_NS_PER_S,
	};
	strcpy(p->names[0], "uccl");
	strcpy(p->profile, "udp");
	profile_set(p);
	p->bytes = 4u << 20;
	p->senders = 15;
	p->stagger_ns = 100 * UCCL_NS_PER_US;
	p->messages = 8;
	p->spine.victims = 1;
	p->arrivals.load = 0.5;
	p->arrivals.span_ns = UCCL_NS_PER_MS;
	p->pieces = 16;
	p->look.every_ns = 10 * UCCL_NS_PER_US;
	strcpy(p->arrivals.sizes, "websearch");
	p->loss.mean = 8;
	p->spine.at_ns = 50 * UCCL_NS_PER_US;
	if (!strcmp(name, "loss"))
		p->loss.chance = 1.0 / 256;
	if (!strcmp(name, "spine"))
		p->cfg.bin_ns = 10 * UCCL_NS_PER_US;
	return 0;
}

static int set_one(struct uccl_fab_play *p, const char *name, const char *value)
{
	for (size_t i = 0; i < uccl_array_len(options); i++) {
		const struct option *o = &options[i];
		char *at = (char *)p + o->off, *end = NULL;
		double real, scale = o->type == 'g' ? 1e9 : 1;
		uint64_t v;

		if (strcmp(o->name, name))
			continue;
		p->given[i] = true;
		if (o->type == 's') {
			if (strlen(value) >= o->size)
				return -FI_EINVAL;
			strcpy(at, value);
			return o->off == offsetof(struct uccl_fab_play, profile) ? profile_set(p) : 0;
		}
		if (o->type == 'l')
			return rates_set((uint64_t *)(void *)at, o->size / sizeof(uint64_t), value);
		real = strtod(value, &end);
		if (*end == '/' && end > value)
			real /= strtod(end + 1, &end);
		/* Powers of two, as of bytes. */
		if (*end == 'k' || *end == 'm')
			scale *= *end++ == 'k' ? 0x1p10 : 0x1p20;
		/* A quotient may be no number, or greater than all integers. */
		if (end == value || *end || !(real >= 0) || !(real * scale < 0x1p63))
			return -FI_EINVAL;
		v = (uint64_t)(real * scale + (o->type == 'g' ? 0.5 : 0));
		if (o->size < 8 && v >> (8 * o->size))
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
	const struct uccl_fab_topo *t = &c->topo;
	const struct uccl_credit_ops *credit = uccl_credit_find(p->names[3]);
	bool unmarked = !t->ecn_hi || (!strcmp(p->names[0], "uccl") && !c->marks);
	const struct {
		const char *name;
		bool idle;
	} beside[] = {
		{"tors_per_pod", t->tiers != 3},
		{"cores_per_agg", t->tiers != 3},
		{"spine_gbps", t->tiers != 2},
		{"up_gbps", t->tiers == 2 && t->spine_bps[0]},
		{"ecn_lo", unmarked},
		{"ecn_hi", unmarked},
		{"queue", t->shared_bytes || t->pfc},
		{"alpha", !t->shared_bytes},
		{"xoff", !t->pfc || t->shared_bytes},
		{"headroom", !t->pfc},
		{"flow_burst", !t->limit.bps},
		{"flow_queue", !t->limit.bps},
		{"trim", t->pfc},
		{"trace_every", !p->look.file[0]},
		{"trace_hosts", !p->look.file[0]},
		{"jitter_every", !c->jitter.ns},
		{"jitter", !c->jitter.every_ns},
		{"slow_gbps", !t->slow_hosts},
		{"marks", !t->ecn_hi},
		{"train", c->chunk},
		{"told_soft", c->chunk},
		{"brittle", !c->chunk},
		{"background_flows", c->others.share <= 0},
		{"credit_loss", !credit || !credit->pull},
		{"mean", p->loss.burst <= 0},
		{"bytes", p->file[0]},
	};

	for (size_t i = 0; i < uccl_array_len(beside); i++)
		if (!strcmp(beside[i].name, name))
			return beside[i].idle;
	return false;
}

const char *uccl_fab_play_useless(const struct uccl_fab_play *p)
{
	bool own = !strcmp(p->names[0], "uccl");
	char scene[32];

	snprintf(scene, sizeof(scene), " %s ", p->name);
	for (size_t i = 0; i < uccl_array_len(options); i++) {
		const struct option *o = &options[i];

		if (!p->given[i])
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
	uint32_t half;

	if (!t->up_bps)
		t->up_bps = t->host_bps;
	if (!t->slow_bps)
		t->slow_bps = t->host_bps / 10;
	if (t->hosts_per_tor)
		return 0;
	half = uccl_fab_sizes_half(t->tiers, t->hosts);
	if (!half)
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

/*
 * What comes after a link was told to stop: what is on it, what is sent until it hears of that, the packet that is
 * being sent then, and the one that was too much.
 */
static void headroom_default(struct uccl_fab_cfg *c)
{
	struct uccl_fab_topo *t = &c->topo;
	double bps = (double)uccl_max(uccl_max(t->host_bps, uccl_fab_up_bps_max(t)), t->slow_hosts ? t->slow_bps : 0);

	if (t->pfc && !t->headroom_bytes)
		t->headroom_bytes = (uint64_t)(2e-12 * (double)t->delay_ps * bps / 8) +
				    3 * (uint64_t)(c->mtu + UCCL_FAB_ROCE_BYTES + UCCL_FAB_RETH_BYTES);
}

bool uccl_fab_play_unfit(const struct uccl_fab_play *p, FILE *out)
{
	bool tiers = false;

	for (size_t i = 0; i < uccl_array_len(options); i++)
		tiers |= p->given[i] && !strcmp(options[i].name, "tiers");
	return uccl_fab_sizes_refuse(&p->cfg.topo, tiers, out);
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

static int trace_open(struct uccl_fab_play *p)
{
	FILE *f;

	if (!p->look.file[0])
		return 0;
	f = p->look.every_ns ? fopen(p->look.file, "w") : NULL;
	if (!f) {
		snprintf(p->why, sizeof(p->why), "trace=%s, trace_every=%llu: %s", p->look.file,
			 (unsigned long long)p->look.every_ns,
			 p->look.every_ns ? strerror(errno) : "some time is needed");
		return -FI_EINVAL;
	}
	uccl_fab_trace_open(&p->look.trace, &p->scene, f, p->look.every_ns,
			    p->look.hosts && p->look.hosts < UINT32_MAX ? (uint32_t)p->look.hosts : UINT32_MAX);
	return 0;
}

int uccl_fab_play_run(struct uccl_fab_play *p, void (*progress)(const struct uccl_fab_scene *s))
{
	p->rc = tree_default(&p->cfg.topo);
	headroom_default(&p->cfg);
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
	p->rc = uccl_fab_script(p);
	if (p->rc)
		return p->rc;
	p->ideal_ns = uccl_fab_script_ideal(p, false);
	p->bound_ns = uccl_fab_script_ideal(p, true);
	p->rc = trace_open(p);
	if (p->rc)
		return p->rc;
	p->rc = uccl_fab_scene_run(&p->scene, progress);
	if (p->look.trace.file && (ferror(p->look.trace.file) || fflush(p->look.trace.file)))
		uccl_fab_broken(&p->scene, "the trace cannot be written");
	if (!p->rc && p->scene.broken[0])
		p->rc = -FI_EIO;
	return p->rc;
}

void uccl_fab_play_close(struct uccl_fab_play *p)
{
	if (p->look.trace.file)
		fclose(p->look.trace.file);
	p->look.trace.file = NULL;
	free(p->seen);
	p->seen = NULL;
	uccl_fab_scene_close(&p->scene);
}
