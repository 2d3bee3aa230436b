/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a run of a named scene has to say. */
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "sim/fabric_memory.h"
#include "sim/fabric_play.h"
#include "sim/fabric_script.h"

/* How many times as long as alone: by size, as papers have it. */
static const struct {
	const char *name;
	uint64_t least; /* bytes */
} classes[] = {{"to 10 KB", 1}, {"to 100 KB", 10001}, {"to 1 MB", 100001}, {"to 10 MB", 1000001}, {"more", 10000001}};
#define CLASSES uccl_array_len(classes)
#define SHORT_BYTES 100000

struct row {
	const char *group;
	struct uccl_fab_result r;
	double time_us, over, gbps;
};

static int rows(const struct uccl_fab_play *p, struct row row[2])
{
	const struct uccl_fab_scene *s = &p->scene;
	int n = 0;

	for (uint8_t g = UCCL_FAB_MAIN; g <= UCCL_FAB_OTHER; g++) {
		struct row *w = &row[n];

		uccl_fab_result(s, g, &w->r);
		if (!w->r.n)
			continue;
		w->group = g == UCCL_FAB_MAIN ? p->name : "beside";
		w->time_us = g == UCCL_FAB_MAIN ? (double)(s->last_ns - s->first_ns) / 1e3 : w->r.max_ns / 1e3;
		if (!strcmp(p->name, "incast"))
			w->time_us = w->r.max_ns / 1e3;
		w->over = g == uccl_fab_play_group(p) ? (w->time_us * 1e3 / (double)p->ideal_ns - 1) * 100 : 0;
		w->gbps = (double)w->r.bytes * 8 / (w->time_us * 1e3);
		n++;
	}
	return n;
}

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

struct slow {
	uint32_t n;
	double p50, p99;
};

/* Of those operations of [least, most] bytes that the scene is about and that arrived. */
static struct slow slowdown(const struct uccl_fab_play *p, uint64_t least, uint64_t most)
{
	const struct uccl_fab_scene *s = &p->scene;
	double *v = uccl_fab_need(malloc((s->nops + 1) * sizeof(*v)));
	struct slow r = {0};

	for (uint32_t i = 0; i < s->nops; i++) {
		const struct uccl_fab_op *op = &s->ops[i];

		if (op->group == uccl_fab_play_group(p) && op->end_ns && op->bytes >= least && op->bytes <= most)
			v[r.n++] = (double)(op->end_ns - op->start_ns) /
				   (double)uccl_max(uccl_fab_ideal(s, op->src, op->dst, op->bytes), 1);
	}
	if (r.n) {
		qsort(v, r.n, sizeof(*v), by_value);
		r.p50 = uccl_fab_percentile(v, r.n, 0.5);
		r.p99 = uccl_fab_percentile(v, r.n, 0.99);
	}
	free(v);
	return r;
}

static struct slow slowdown_of(const struct uccl_fab_play *p, size_t class)
{
	return slowdown(p, classes[class].least, class + 1 < CLASSES ? classes[class + 1].least - 1 : UINT64_MAX);
}

/* Are there sizes of many kinds? */
static bool of_sizes(const struct uccl_fab_play *p)
{
	return !strcmp(p->name, "arrivals") || !strcmp(p->name, "list");
}

/* What was sent again, % of all bytes, whatever the stack. */
static double again_percent(const struct uccl_fab_scene *s)
{
	return (double)(s->stats.rtx_bytes + s->rtx_bytes) * 100 / (double)uccl_max(s->bytes, 1);
}

/* What no transport can be below, % over the ideal. */
static double bound_percent(const struct uccl_fab_play *p)
{
	return p->ideal_ns ? ((double)p->bound_ns / (double)p->ideal_ns - 1) * 100 : 0;
}

void uccl_fab_play_figures(const struct uccl_fab_play *p, double v[UCCL_FAB_FIGURES])
{
	const struct uccl_fab_scene *s = &p->scene;
	struct slow all;
	struct row row[2];
	int n = rows(p, row);

	v[UCCL_FAB_OVER] = n ? row[0].over : 0;
	v[UCCL_FAB_BESIDE] = n > 1 || (n && p->alone) ? row[n - 1].time_us : 0;
	v[UCCL_FAB_LEAST] = p->least;
	v[UCCL_FAB_AGAIN] = again_percent(s);
	v[UCCL_FAB_DROPPED] = (double)s->net.dropped;
	all = slowdown(p, 1, UINT64_MAX);
	v[UCCL_FAB_SLOW50] = all.p50;
	v[UCCL_FAB_MEDIAN] = ((of_sizes(p) ? all.p50 : n ? row[0].r.p50_ns / (double)p->ideal_ns : 1) - 1) * 100;
	v[UCCL_FAB_SLOW99] = all.p99;
	v[UCCL_FAB_SHORT99] = slowdown(p, 1, SHORT_BYTES).p99;
	v[UCCL_FAB_BOUND] = bound_percent(p);
}

static void memory_print(const struct uccl_fab_play *p, FILE *out)
{
	const struct uccl_fab_topo *t = &p->cfg.topo;
	const struct uccl_fab_memory *m = p->scene.net.mem;

	if (t->shared_bytes)
		fprintf(out, "of the %llu B that a switch's queues share, %llu B were used\n",
			(unsigned long long)t->shared_bytes, (unsigned long long)m->most_used);
	if (t->pfc)
		fprintf(out,
			"pauses %llu, links stopped for %.1f us in all, those of hosts for %.1f us; headroom %llu of "
			"%llu B\n",
			(unsigned long long)m->pauses, (double)m->stopped / 1e6, (double)m->nics / 1e6,
			(unsigned long long)m->most_over, (unsigned long long)t->headroom_bytes);
}

void uccl_fab_play_table(const struct uccl_fab_play *p, FILE *out)
{
	const struct uccl_fab_scene *s = &p->scene;
	const struct uccl_fab_topo *t = &p->cfg.topo;
	struct row row[2];
	int n = rows(p, row);

	fprintf(out, "%s: %u hosts x %.0f Gb/s, %u tiers (%u per tor, %u spines), ", p->name, t->hosts,
		(double)t->host_bps / 1e9, t->tiers, t->hosts_per_tor, t->spines);
	if (!strcmp(p->name, "arrivals"))
		fprintf(out, "load %.6g of %s, %.6g us", p->arrivals.load, p->arrivals.sizes,
			(double)p->arrivals.span_ns / 1e3);
	else if (!strcmp(p->name, "list"))
		fprintf(out, "%s", p->file);
	else
		fprintf(out, "%.6g MB", (double)p->bytes / 1e6);
	fprintf(out, ", seed %llu\n", (unsigned long long)p->cfg.seed);
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
		again_percent(s),
		(unsigned long long)s->stats.spurious);
	if (p->bound_ns > p->ideal_ns)
		fprintf(out, "with what is left of the network nothing is faster than %.1f us, %.2f %% over\n",
			(double)p->bound_ns / 1e3, bound_percent(p));
	memory_print(p, out);
	if (p->seen)
		fprintf(out, "least share %.3f\n", p->least);
	if (of_sizes(p))
		fprintf(out, "%-12s %6s %9s %9s  times the time alone\n", "bytes", "ops", "p50", "p99");
	for (size_t i = 0; of_sizes(p) && i < CLASSES; i++) {
		struct slow r = slowdown_of(p, i);

		if (r.n)
			fprintf(out, "%-12s %6u %9.2f %9.2f\n", classes[i].name, r.n, r.p50, r.p99);
	}
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
		"%llu, \"again_percent\": %.4f,\n\"fct_us\": {",
		p->name, p->names[0], p->cfg.cc, p->cfg.path, p->cfg.credit, p->cfg.topo.hosts,
		(unsigned long long)p->cfg.seed, p->rc ? "false" : "true", (double)p->ideal_ns / 1e3,
		(unsigned long long)uccl_fab_max_queue(s), again_percent(s));
	for (uint8_t g = UCCL_FAB_MAIN; g <= UCCL_FAB_OTHER; g++) {
		const char *comma = "";

		fprintf(out, "%s\"%s\": [", g == UCCL_FAB_MAIN ? "" : ", ", g == UCCL_FAB_MAIN ? p->name : "beside");
		for (uint32_t i = 0; i < s->nops; i++)
			if (s->ops[i].group == g && s->ops[i].end_ns) {
				fprintf(out, "%s%.3f", comma, (double)(s->ops[i].end_ns - s->ops[i].start_ns) / 1e3);
				comma = ", ";
			}
		fprintf(out, "]");
	}
	fprintf(out, "},\n\"slowdown\": {");
	for (size_t i = 0; i < CLASSES; i++) {
		struct slow r = slowdown_of(p, i);

		fprintf(out, "%s\"%s\": [%u, %.3f, %.3f]", i ? ", " : "", classes[i].name, r.n, r.p50, r.p99);
	}
	if (s->net.mem)
		fprintf(out,
			"},\n\"memory\": {\"most_used\": %llu, \"pauses\": %llu, \"stopped_us\": %.3f, "
			"\"hosts_stopped_us\": %.3f",
			(unsigned long long)s->net.mem->most_used, (unsigned long long)s->net.mem->pauses,
			(double)s->net.mem->stopped / 1e6, (double)s->net.mem->nics / 1e6);
	fprintf(out, "},\n\"bin_ns\": %llu, \"bin_bytes\": [", (unsigned long long)p->cfg.bin_ns);
	for (uint32_t i = 0; i < s->nbins; i++, sep = ", ")
		fprintf(out, "%s%llu", sep, (unsigned long long)s->bins[i]);
	fprintf(out, "]}\n");
}
