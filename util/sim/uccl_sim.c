/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Run the product's engines on the simulated network: one seed, a range of seeds, or a named scenario. A seed is a run,
 * bit for bit; what fails prints the options that were drawn, and how to see it again.
 */
#include <getopt.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../tool/tool.h"
#include "base/log.h"
#include "flow/policy.h"
#include "lanes/lanes.h"
#include "sim/scenario.h"
#include "uccl_sim_fabric.h"
#include "uccl_sim_seeds.h"

static void print_line(const char *text)
{
	printf("%s%s", text, text[0] && text[strlen(text) - 1] == '\n' ? "" : "\n");
}

static void log_line(int level, const char *func, int line, const char *text)
{
	printf("log %d %s:%d: %s\n", level, func, line, text);
}

static void option_line(const char *name, double value, const char *text)
{
	printf("  %-18s %12g  %s\n", name, value, text);
}

static void usage(void)
{
	puts("usage: uccl_sim fabric ...   scenes on a data-centre network; uccl_sim fabric --help\n"
	     "       uccl_sim policies [--man]   the policies and their constants; as the manual has them\n"
	     "       uccl_sim [--seed N | --seeds A-B [--jobs N] [--minutes M] | --scenario NAME | --list |\n"
	     "                 --options]\n"
	     "                [--set NAME=VALUE,...] [--twice] [-v] [-v] [-s] | --help | --version\n"
	     "  --seed N      run one seed and print what it drew\n"
	     "  --seeds A-B   run all of a range; prints the failures and a summary\n"
	     "  --jobs N      by so many processes, 0: one for each processor\n"
	     "  --minutes M   begin none later; the summary says from which seed on they were not run\n"
	     "  --scenario    run a named scenario; --list shows them\n"
	     "  --set         override drawn options, see --options\n"
	     "  --nic packet|write, --nodes N, --loss P: short for --set\n"
	     "  --twice       run each seed twice and compare the traces (invariant I18)\n"
	     "  -v            print disasters and the log; -vv also every packet; -s counters at the end");
}

/* Operations that were taken back in all runs: what the processes that run them share. */
struct aborts {
	_Atomic uint64_t ended, cancelled, prompt, late;
};

/* Fewer say nothing of the slowest hundredth. */
#define ABORTS_JUDGED 2000

struct args {
	struct aborts *aborts;
	const char *scenario;
	char forced[1024];
	uint64_t from, to, jobs;
	double minutes;
	int verbose;
	bool stats, twice, list, options, help;
};

static void force(struct args *a, const char *name, const char *value)
{
	size_t n = strlen(a->forced);

	snprintf(a->forced + n, sizeof(a->forced) - n, "%s%s%s%s", n ? "," : "", name, *name ? "=" : "", value);
}

static int parse(struct args *a, int argc, char **argv)
{
	static const struct option longs[] = {
		{"seed", required_argument, NULL, 'n'},	    {"seeds", required_argument, NULL, 'r'},
		{"scenario", required_argument, NULL, 'c'}, {"list", no_argument, NULL, 'l'},
		{"options", no_argument, NULL, 'o'},	    {"set", required_argument, NULL, 'f'},
		{"nic", required_argument, NULL, 'N'},	    {"nodes", required_argument, NULL, 'D'},
		{"loss", required_argument, NULL, 'L'},	    {"twice", no_argument, NULL, '2'},
		{"jobs", required_argument, NULL, 'J'},	    {"minutes", required_argument, NULL, 'M'},
		{"help", no_argument, NULL, 'h'},	    {NULL, 0, NULL, 0},
	};
	char *end;
	int c;

	while ((c = getopt_long(argc, argv, "vsh", longs, NULL)) >= 0) {
		switch (c) {
		case 'n':
			a->from = a->to = strtoull(optarg, NULL, 0);
			break;
		case 'r':
			a->from = strtoull(optarg, &end, 0);
			a->to = *end == '-' ? strtoull(end + 1, NULL, 0) : a->from;
			break;
		case 'J':
			if (!uccl_sim_jobs_read(optarg, &a->jobs))
				return -1;
			break;
		case 'M':
			a->minutes = strtod(optarg, &end);
			if (end == optarg || *end || !(a->minutes > 0))
				return -1;
			break;
		case 'c':
			a->scenario = optarg;
			break;
		case 'l':
			a->list = true;
			break;
		case 'o':
			a->options = true;
			break;
		case 'f':
			force(a, "", optarg);
			break;
		case 'N':
			force(a, "nic", !strcmp(optarg, "write") ? "1" : "0");
			break;
		case 'D':
			force(a, "nodes", optarg);
			break;
		case 'L':
			force(a, "loss", optarg);
			break;
		case '2':
			a->twice = true;
			break;
		case 'v':
			a->verbose++;
			break;
		case 's':
			a->stats = true;
			break;
		default:
			a->help = true;
			return c == 'h' ? 0 : -1;
		}
	}
	return optind == argc ? 0 : -1;
}

static void print_stats(const struct uccl_sim_world *w)
{
	const struct uccl_sim_stats *s = &w->net.stats;

	printf("  %llu events, %llu packets, %llu bytes, %.3f s of virtual time; %u messages: %u received, %u failed, "
	       "%u truncated; %u receives cancelled; %u reads, writes and atomics; %llu operations taken back, %llu "
	       "cancelled; of %llu whose peer makes progress %llu ended later than in 2 RTT + 1 ms\n",
	       (unsigned long long)s->events, (unsigned long long)s->sent, (unsigned long long)s->bytes,
	       (double)(w->net.now - (uint64_t)w->o.start_ns) / 1e9, w->work.nmsgs, w->work.received, w->work.failed,
	       w->work.truncated, w->work.cancelled, w->remotes.n, (unsigned long long)w->aborts.ended,
	       (unsigned long long)w->aborts.cancelled, (unsigned long long)w->aborts.prompt,
	       (unsigned long long)w->aborts.late);
	printf("  lost: %llu random, %llu holes, %llu queues, %llu checksum, %llu script, %llu closed; %llu doubled, "
	       "%llu delayed, %llu torn; %llu writes, %llu fenced, %llu bad keys, %llu slot drops\n",
	       (unsigned long long)s->lost_random, (unsigned long long)s->lost_hole, (unsigned long long)s->lost_queue,
	       (unsigned long long)s->lost_corrupt, (unsigned long long)s->lost_script,
	       (unsigned long long)s->lost_closed, (unsigned long long)s->duplicated, (unsigned long long)s->delayed,
	       (unsigned long long)s->torn, (unsigned long long)w->total.writes, (unsigned long long)w->total.fenced,
	       (unsigned long long)w->total.bad_key,
	       (unsigned long long)(w->total.slot_drops + w->total.slot_drops_write));
	printf("  trains: %llu packets lost in them, compared %llu times, found broken %llu\n",
	       (unsigned long long)w->total.train_drops, (unsigned long long)w->total.train_tests,
	       (unsigned long long)w->total.trains_off);
	if (w->total.predictions)
		printf("  predicted: %llu places of payload, right %llu; misplaced %llu\n",
		       (unsigned long long)w->total.predictions, (unsigned long long)w->total.prediction_hits,
		       (unsigned long long)w->total.misplaced);
	if (w->o.lanes > 0)
		printf("  lanes: %llu bytes sent by them\n", (unsigned long long)w->total.over_lanes);
}

static void failed_print(const struct args *a, uint64_t seed, const char *drawn)
{
	printf("seed %llu FAILED with %s\n  again: uccl_sim --seed %llu%s%s\n", (unsigned long long)seed, drawn,
	       (unsigned long long)seed, *a->forced ? " --set " : "", a->forced);
}

/* Failures of one seed. */
static uint32_t run_seed(const void *arg, uint64_t seed)
{
	const struct args *a = arg;
	bool single = a->from == a->to;
	struct uccl_sim_options o;
	static struct uccl_sim_world w;
	uint32_t bad;
	uint64_t trace;
	char text[4096];
	int runs = a->twice ? 2 : 1, i;

	uccl_sim_options_draw(&o, seed, a->forced);
	uccl_sim_options_print(&o, text, sizeof(text));
	if (single)
		printf("seed %llu: %s\n", (unsigned long long)seed, text);
	for (i = 0, bad = 0, trace = 0; i < runs && !bad; i++) {
		memset(&w, 0, sizeof(w));
		w.print = print_line;
		w.verbose = a->verbose;
		bad = uccl_sim_seed(&w, &o, seed);
		if (i && trace != w.net.trace) {
			printf("I18: two runs of seed %llu differ: %016llx %016llx\n", (unsigned long long)seed,
			       (unsigned long long)trace, (unsigned long long)w.net.trace);
			bad = 1;
		}
		trace = w.net.trace;
		if (a->stats && !i)
			print_stats(&w);
		if (!i) {
			a->aborts->ended += w.aborts.ended;
			a->aborts->cancelled += w.aborts.cancelled;
			a->aborts->prompt += w.aborts.prompt;
			a->aborts->late += w.aborts.late;
		}
		uccl_sim_world_close(&w);
	}
	if (bad && !single)
		failed_print(a, seed, text);
	if (single)
		printf("seed %llu trace %016llx%s\n", (unsigned long long)seed, (unsigned long long)trace,
		       bad ? " FAILED" : "");
	fflush(stdout);
	return bad;
}

/* I21: 99 of 100 end in time. */
static bool aborts_sum(const void *arg)
{
	const struct aborts *t = ((const struct args *)arg)->aborts;
	bool late = t->prompt >= ABORTS_JUDGED && t->late * 100 > t->prompt;

	if (t->ended)
		printf("%llu operations were taken back, %llu were cancelled; of %llu whose peer makes progress %llu "
		       "ended later than in 2 RTT + 1 ms (%.2f %%)%s\n",
		       (unsigned long long)t->ended, (unsigned long long)t->cancelled, (unsigned long long)t->prompt,
		       (unsigned long long)t->late, t->prompt ? 100.0 * (double)t->late / (double)t->prompt : 0,
		       late ? ": I21: FAILED" : "");
	return !late;
}

static void seed_died(const void *arg, uint64_t seed, const char *why)
{
	struct uccl_sim_options o;
	const struct args *a = arg;
	char text[4096];

	uccl_sim_options_draw(&o, seed, a->forced);
	uccl_sim_options_print(&o, text, sizeof(text));
	printf("seed %llu ended its process: %s\n", (unsigned long long)seed, why);
	failed_print(a, seed, text);
	fflush(stdout);
}

static int run_scenario(const struct args *a)
{
	const struct uccl_sim_scenario *s = uccl_sim_scenario_find(a->scenario);
	static struct uccl_sim_world w;
	uint32_t bad;

	if (!s) {
		printf("no scenario is called %s; --list shows them\n", a->scenario);
		return 2;
	}
	if (s->needs)
		printf("%s needs %s\n", s->name, s->needs);
	w.print = print_line;
	w.verbose = a->verbose;
	bad = uccl_sim_scenario_run(s, &w, a->from, a->forced);
	printf("%d passed, %d failed\n", !bad, !!bad);
	return !!bad;
}

/* Every policy with its table of constants. */
static int print_policies(bool man)
{
	static const char *const variables[] = {"FI_UCCL_CC", "FI_UCCL_PATH", "FI_UCCL_CREDIT"};
	const char *const *const names[] = {uccl_cc_names(), uccl_path_names(), uccl_credit_names()};

	for (int kind = 0; kind < UCCL_POLICY_KINDS; kind++)
		for (const char *const *n = names[kind]; *n; n++) {
			const struct uccl_constant *c = uccl_policy_constants(kind, *n);

			printf("%s%s=%s\n", man ? ".SS " : "", variables[kind], *n);
			if (!c)
				printf(man ? "No constants.\n" : "  no constants\n");
			for (; c && c->name; c++)
				printf(man ? ".TP\n.BR %s \" %g%s%s (%g to %g)\"\n%s.\n" :
					     "  %-18s %g%s%s (%g to %g): %s\n",
				       c->name, c->def, *c->unit ? " " : "", c->unit, c->lo, c->hi, c->source);
		}
	return 0;
}

int main(int argc, char **argv)
{
	struct args a = {.from = 1, .to = 100, .jobs = 1};
	struct uccl_sim_options o;
	uint32_t i;

	tool_begin("uccl_sim", argc, argv);
	if (argc > 1 && !strcmp(argv[1], "fabric"))
		return uccl_sim_fabric(argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "policies"))
		return print_policies(argc > 2 && !strcmp(argv[2], "--man"));
	if (parse(&a, argc, argv) || a.help) {
		usage();
		return a.help ? 0 : 2;
	}
	uccl_sim_options_default(&o);
	if (uccl_sim_options_set(&o, a.forced)) {
		printf("bad option in %s; --options shows them\n", a.forced);
		return 2;
	}
	if (o.lanes > 0 && !uccl_lanes_built()) {
		printf("lanes=%g: this build has no lanes (configure --disable-lanes)\n", o.lanes);
		return 2;
	}
	if (a.options) {
		uccl_sim_options_help(option_line);
		return 0;
	}
	for (i = 0; a.list && uccl_sim_scenarios[i].name; i++)
		printf("  %-24s %s\n", uccl_sim_scenarios[i].name, uccl_sim_scenarios[i].text);
	if (a.list)
		return 0;
	if (a.verbose)
		uccl_log_set(log_line, UCCL_LOG_DEBUG);
	if (a.scenario)
		return run_scenario(&a);
	a.aborts = mmap(NULL, sizeof(*a.aborts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (a.aborts == MAP_FAILED) {
		perror("--seeds");
		return 1;
	}
	return uccl_sim_range_run(&(struct uccl_sim_range){.from = a.from,
							   .to = a.to,
							   .jobs = a.jobs,
							   .minutes = a.minutes,
							   .run = run_seed,
							   .died = seed_died,
							   .sum = aborts_sum,
							   .arg = &a});
}
