/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Failure and bad input over the real provider, see util/chaos.
 *
 *	uccl_chaos [--dir DIR] [--long] [--times N] [--slack FACTOR] [--seed N] [SCENARIO...]
 *
 * A line for each scenario, "ok" or "FAILED" first, figures after; the exit status is the number that failed.
 */
#include "chaos.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct scenario scenarios[] = {
	{"kill", chaos_kill}, {"silence", chaos_silence}, {"restart", chaos_restart},
	{"loss", chaos_loss}, {"corrupt", chaos_corrupt}, {"blackhole", chaos_blackhole},
	{"link", chaos_link}, {"clock", chaos_clock},	  {"fork", chaos_fork},
	{"wire", chaos_wire}, {"misuse", chaos_misuse},	  {"close", chaos_close},
	{"storm", chaos_storm},
};

static const struct role roles[] = {
	{"kill", role_kill},
	{"silence", role_silence},
	{"restart-client", role_restart_client},
	{"restart-server", role_restart_server},
	{"storm-server", role_storm_server},
	{"storm-client", role_storm_client},
	{"host", role_host},
	{"loss", role_loss},
	{"corrupt", role_corrupt},
	{"blackhole", role_blackhole},
	{"wire-rank", role_wire_rank},
	{"wire-attacker", role_wire_attacker},
	{"misuse-env", role_misuse_env},
	{"misuse-hints", role_misuse_hints},
	{"misuse-address", role_misuse_address},
	{"close", role_close},
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static int usage(void)
{
	fprintf(stderr, "usage: uccl_chaos [--dir DIR] [--long] [--times N] [--slack FACTOR] [--seed N] "
			"[SCENARIO...]\nscenarios:");
	for (size_t i = 0; i < COUNT(scenarios); i++)
		fprintf(stderr, " %s", scenarios[i].name);
	fputc('\n', stderr);
	return 2;
}

static int run_named(const char *name)
{
	for (size_t i = 0; i < COUNT(scenarios); i++)
		if (!strcmp(scenarios[i].name, name))
			return scenarios[i].run();
	fprintf(stderr, "uccl_chaos: no scenario %s\n", name);
	return 1;
}

int main(int argc, char **argv)
{
	int failed = 0, times = 1, i;

	if (argc == 7 && !strcmp(argv[1], "--rank"))
		return rank_main(argv + 2, roles, COUNT(roles));
	options.dir = "chaos-logs";
	options.seed = 1;
	for (i = 1; i < argc && argv[i][0] == '-'; i++) {
		if (!strcmp(argv[i], "--long"))
			options.hours = true;
		else if (!strcmp(argv[i], "--times") && i + 1 < argc)
			times = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--dir") && i + 1 < argc)
			options.dir = argv[++i];
		else if (!strcmp(argv[i], "--slack") && i + 1 < argc)
			options.slack = atof(argv[++i]);
		else if (!strcmp(argv[i], "--seed") && i + 1 < argc)
			options.seed = strtoull(argv[++i], NULL, 10);
		else
			return usage();
	}
	if (options.slack < 0.1 || options.slack > 100)
		return usage();
	mkdir(options.dir, 0755);
	signal(SIGPIPE, SIG_IGN);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (; times > 0; times--) {
		if (i == argc)
			for (size_t k = 0; k < COUNT(scenarios); k++)
				failed += scenarios[k].run();
		for (int k = i; k < argc; k++)
			failed += run_named(argv[k]);
	}
	return failed > 100 ? 100 : failed;
}
