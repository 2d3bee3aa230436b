/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a run of a named scene has to say. */
#include <string.h>

#include "base/units.h"
#include "sim/fabric_play.h"

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
		w->over = g == UCCL_FAB_MAIN ? (w->time_us * 1e3 / (double)p->ideal_ns - 1) * 100 : 0;
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
	fprintf(out, "},\n\"bin_ns\": %llu, \"bin_bytes\": [", (unsigned long long)p->cfg.bin_ns);
	for (uint32_t i = 0; i < s->nbins; i++, sep = ", ")
		fprintf(out, "%s%llu", sep, (unsigned long long)s->bins[i]);
	fprintf(out, "]}\n");
}
