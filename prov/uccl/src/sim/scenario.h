/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Named runs: what the swarm of seeds would seldom hit, and what once failed. */
#ifndef UCCL_SIM_SCENARIO_H
#define UCCL_SIM_SCENARIO_H

#include "sim/world.h"

struct uccl_sim_scenario {
	const char *name;
	const char *text;
	const char *options; /* over the defaults */
	const char *needs;   /* options without which there is no such scene: nothing overrides these; NULL: none */
	uint32_t seeds;	     /* number of seeds in a row; 0: 1 */
	/* Opens, runs and closes worlds as it likes; returns the violations. NULL: random work. */
	uint32_t (*run)(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed, const void *arg);
	const void *arg;
};

/* Ends with a NULL name. */
extern const struct uccl_sim_scenario uccl_sim_scenarios[];

const struct uccl_sim_scenario *uccl_sim_scenario_find(const char *name);
/*
 * Violations. `forced` overrides options, but for what the scenario needs; may be NULL. w->print and w->verbose are
 * the caller's; counters and text of the last world stay readable in *w, which is closed.
 */
uint32_t uccl_sim_scenario_run(const struct uccl_sim_scenario *s, struct uccl_sim_world *w, uint64_t seed,
			       const char *forced);

#endif
