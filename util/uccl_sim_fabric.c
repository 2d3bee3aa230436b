/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* uccl_sim fabric: scenes on a simulated data-centre network. */
#include "uccl_sim_fabric.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "sim/fabric_play.h"

static void usage(void)
{
	puts("usage: uccl_sim fabric SCENE [NAME=VALUE,...] [--csv | --json] [--quiet]\n"
	     "       uccl_sim fabric --list | --options\n"
	     "  Sizes may end in k or m (powers of two), chances may be written as 1/256. The table goes to standard\n"
	     "  output and is the same on every machine; progress and what it took go to standard error.");
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void progress(const struct uccl_fab_scene *s)
{
	static double last;
	uint64_t got = 0;
	double now = seconds();

	if (!isatty(2) || now - last < 0.5)
		return;
	last = now;
	for (uint32_t i = 0; i < s->nops; i++)
		got += s->ops[i].got;
	fprintf(stderr, "\r%10.1f us  %5.1f %%  %u of %u operations  %.1f M events ", (double)uccl_fab_now(s) / 1e3,
		(double)got * 100 / (double)(s->bytes ? s->bytes : 1), s->done, s->nops, (double)s->net.events / 1e6);
}

/* Say what is wrong with a choice of policies. False: nothing is. */
static bool policies_wrong(const struct uccl_fab_play *p)
{
	char why[512];

	for (int kind = 0; kind < UCCL_POLICY_KINDS; kind++)
		if (uccl_policy_values(kind, p->names[1 + kind], NULL, why, sizeof(why))) {
			fprintf(stderr, "%s: %s\n", p->names[1 + kind], why);
			return true;
		}
	return false;
}

int uccl_sim_fabric(int argc, char **argv)
{
	static const struct option longs[] = {
		{"csv", no_argument, NULL, 'c'},
		{"json", no_argument, NULL, 'j'},
		{"quiet", no_argument, NULL, 'q'},
		{"options", no_argument, NULL, 'o'},
		{"list", no_argument, NULL, 'l'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	static struct uccl_fab_play p;
	bool csv = false, json = false, quiet = false;
	struct rusage use;
	double began;
	int c, rc;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) >= 0) {
		csv |= c == 'c';
		json |= c == 'j';
		quiet |= c == 'q';
		if (c == 'o') {
			uccl_fab_play_options(stdout);
			return 0;
		}
		for (int i = 0; c == 'l' && uccl_fab_plays[i][0]; i++)
			printf("  %-14s %s\n", uccl_fab_plays[i][0], uccl_fab_plays[i][1]);
		if (c == 'l')
			return 0;
		if (c == 'h' || c == '?') {
			usage();
			return c == 'h' ? 0 : 2;
		}
	}
	if (optind == argc || uccl_fab_play_init(&p, argv[optind])) {
		usage();
		return 2;
	}
	while (++optind < argc)
		if (uccl_fab_play_set(&p, argv[optind])) {
			fprintf(stderr, "bad option in %s; --options shows them\n", argv[optind]);
			return 2;
		}
	if (policies_wrong(&p))
		return 2;
	began = seconds();
	rc = uccl_fab_play_run(&p, quiet ? NULL : progress);
	if (rc && !p.scene.net.events) {
		fprintf(stderr, "these options cannot be used together: %s\n", strerror(-rc));
		return 2;
	}
	began = seconds() - began;
	getrusage(RUSAGE_SELF, &use);
	if (!quiet)
		fprintf(stderr, "%s%.1f s, %.1f M events, %.2f M events/s, %ld MB, %u flows of %llu B\n",
			isatty(2) ? "\r" : "", began, (double)p.scene.net.events / 1e6,
			(double)p.scene.net.events / 1e6 / began, use.ru_maxrss / 1024, p.scene.flows,
			(unsigned long long)p.scene.flow_bytes);
	if (csv)
		uccl_fab_play_csv(&p, stdout, true);
	else if (json)
		uccl_fab_play_json(&p, stdout);
	else
		uccl_fab_play_table(&p, stdout);
	uccl_fab_play_close(&p);
	return rc != 0;
}
