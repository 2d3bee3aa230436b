/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "sim/fabric_trace.h"

#include "base/units.h"

/* What a path carried since the look before, of all that its flow sent: "path:percent", with ';' between. */
static void shares(FILE *f, const struct uccl_fab_sight *v)
{
	const char *sep = "";
	double sum = 0;

	for (uint32_t i = 0; i < v->npaths; i++)
		sum += (double)v->carried[i];
	for (uint32_t i = 0; i < v->npaths; i++) {
		if (!v->carried[i])
			continue;
		fprintf(f, "%s%u:%.1f", sep, i, (double)v->carried[i] * 100 / sum);
		sep = ";";
	}
	fputc('\n', f);
}

static void line(struct uccl_fab_scene *s, const struct uccl_fab_sight *v, void *arg)
{
	const struct uccl_fab_trace *t = arg;
	uint32_t used = 0;

	if (v->src >= t->hosts)
		return;
	for (uint32_t i = 0; i < v->npaths; i++)
		used += v->carried[i] > 0;
	fprintf(t->file, "%.3f,%u,%u,%u,%llu,%llu,%.3f,%.3f,%u,", (double)uccl_fab_now(s) / 1e3, v->src, v->dst,
		v->engine, (unsigned long long)v->window, (unsigned long long)v->inflight, (double)v->srtt_ns / 1e3,
		(double)v->rtt_ns / 1e3, used);
	shares(t->file, v);
}

static void look(struct uccl_fab_scene *s, uint64_t arg)
{
	struct uccl_fab_trace *t = (struct uccl_fab_trace *)(uintptr_t)arg;

	s->stack->look(s, line, t);
	uccl_fab_scene_turn(s, &t->turn, uccl_fab_now(s) + t->every_ns);
}

void uccl_fab_trace_open(struct uccl_fab_trace *t, struct uccl_fab_scene *s, FILE *file, uint64_t every_ns,
			 uint32_t hosts)
{
	t->file = file;
	t->every_ns = every_ns;
	t->hosts = hosts;
	t->turn.fn = look;
	t->turn.arg = (uintptr_t)t;
	fprintf(file, "time_us,src,dst,engine,window,inflight,srtt_us,rtt_us,paths,shares\n");
	uccl_fab_scene_turn(s, &t->turn, every_ns);
}
