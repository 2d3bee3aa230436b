/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "sim/fabric_sizes.h"

/* Trees of one number of hosts that are printed; a number with many divisors has thousands. */
#define PRINTED_MAX 64
/* More hosts than anybody simulates: only full trees are named. */
#define SEARCHED_MAX (1u << 20)

/* A search for trees. */
struct search {
	const struct uccl_fab_topo *asked;
	bool tiers_asked;
	FILE *out; /* NULL: they are only counted */
	uint32_t found;
};

static uint64_t full_hosts(uint8_t tiers, uint64_t half)
{
	return tiers == 3 ? 2 * half * half * half : 2 * half * half;
}

uint32_t uccl_fab_sizes_half(uint8_t tiers, uint32_t hosts)
{
	uint32_t half = 1;

	while (full_hosts(tiers, half) < hosts)
		half++;
	return full_hosts(tiers, half) == hosts ? half : 0;
}

static void tree_print(FILE *out, const struct uccl_fab_topo *t)
{
	fprintf(out, "  hosts=%u,tiers=%u,per_tor=%u,spines=%u", t->hosts, (unsigned int)t->tiers, t->hosts_per_tor,
		t->spines);
	if (t->tiers == 3)
		fprintf(out, ",tors_per_pod=%u,cores_per_agg=%u", t->tors_per_pod, t->cores_per_agg);
	fputc('\n', out);
}

static void tree_try(struct search *s, const struct uccl_fab_topo *t)
{
	if (!uccl_fab_shape_good(t))
		return;
	s->found++;
	if (s->out && s->found <= PRINTED_MAX)
		tree_print(s->out, t);
}

static uint32_t or_else(uint32_t asked, uint32_t other)
{
	return asked ? asked : other;
}

/* True if a level of the tree may have parts of `part`, `all` in sum: what was asked for, or two or more equal ones. */
static bool part_fits(uint32_t asked, uint32_t part, uint32_t all)
{
	return all % part == 0 && (asked ? part == asked : part >= 2 && part <= all / 2);
}

static void pods_try(struct search *s, struct uccl_fab_topo *t)
{
	uint32_t tors = t->hosts / t->hosts_per_tor;

	for (uint32_t pod = 1; pod <= tors; pod++) {
		if (!part_fits(s->asked->tors_per_pod, pod, tors))
			continue;
		t->tors_per_pod = pod;
		t->cores_per_agg = or_else(s->asked->cores_per_agg, pod);
		tree_try(s, t);
	}
}

static void trees_search(struct search *s, uint32_t hosts)
{
	struct uccl_fab_topo t = *s->asked;

	t.hosts = hosts;
	if (hosts > SEARCHED_MAX)
		return;
	for (t.tiers = 2; t.tiers <= 3; t.tiers++) {
		if (s->tiers_asked && t.tiers != s->asked->tiers)
			continue;
		for (t.hosts_per_tor = 1; t.hosts_per_tor <= hosts; t.hosts_per_tor++) {
			if (!part_fits(s->asked->hosts_per_tor, t.hosts_per_tor, hosts))
				continue;
			t.spines = or_else(s->asked->spines, t.hosts_per_tor);
			if (t.tiers == 3)
				pods_try(s, &t);
			else
				tree_try(s, &t);
		}
	}
}

static uint32_t trees_count(const struct search *s, uint32_t hosts)
{
	struct search counted = *s;

	counted.out = NULL;
	counted.found = 0;
	trees_search(&counted, hosts);
	return counted.found;
}

static void trees_print(struct search *s, uint32_t hosts)
{
	s->found = 0;
	trees_search(s, hosts);
	if (s->found > PRINTED_MAX)
		fprintf(s->out, "  and %u more of %u hosts\n", s->found - PRINTED_MAX, hosts);
}

/* The nearest smaller and larger numbers of hosts that have trees: a prime number has none, its neighbours do. */
static void nearest_print(struct search *s)
{
	const struct uccl_fab_topo *t = s->asked;
	uint32_t hosts = t->hosts;
	uint32_t far = or_else(t->hosts_per_tor, 2) * or_else(t->tors_per_pod, 2) * or_else(t->rails, 2);
	bool below = false, above = false;

	for (uint32_t k = 1; k <= far && !(below && above); k++) {
		if (!below && hosts > k && trees_count(s, hosts - k)) {
			below = true;
			trees_print(s, hosts - k);
		}
		if (!above && trees_count(s, hosts + k)) {
			above = true;
			trees_print(s, hosts + k);
		}
	}
}

/* Full fat trees are asked for by their number of hosts alone. */
static void full_print(const struct search *s)
{
	for (uint8_t tiers = 2; tiers <= 3; tiers++) {
		uint64_t half = 1, hosts = s->asked->hosts;

		if (s->tiers_asked && tiers != s->asked->tiers)
			continue;
		while (full_hosts(tiers, half + 1) <= hosts)
			half++;
		for (int i = 0; i < 2; i++)
			fprintf(s->out, "  hosts=%llu,tiers=%u\n",
				(unsigned long long)full_hosts(tiers, half + (uint64_t)i), (unsigned int)tiers);
	}
}

static bool exists(const struct uccl_fab_topo *t)
{
	if (t->tiers != 2 && t->tiers != 3)
		return false;
	return t->hosts_per_tor ? uccl_fab_shape_good(t) : uccl_fab_sizes_half(t->tiers, t->hosts) != 0;
}

bool uccl_fab_sizes_refuse(const struct uccl_fab_topo *asked, bool tiers_asked, FILE *out)
{
	struct search s = {.asked = asked,
			   .tiers_asked = tiers_asked && (asked->tiers == 2 || asked->tiers == 3),
			   .out = out};

	if (exists(asked))
		return false;
	if (asked->hosts_per_tor)
		fprintf(out, "no tree of %u tiers has %u hosts with per_tor=%u and the options beside it", asked->tiers,
			asked->hosts, asked->hosts_per_tor);
	else
		fprintf(out, "no full fat tree of %u tiers has %u hosts", asked->tiers, asked->hosts);
	fputs(". These trees fit (spines and cores_per_agg may be less, for an oversubscribed one):\n", out);
	trees_print(&s, asked->hosts);
	if (!s.found)
		nearest_print(&s);
	if (!asked->hosts_per_tor && !asked->spines && !asked->rails) {
		fputs("Full fat trees near that size:\n", out);
		full_print(&s);
	}
	return true;
}
