/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#ifndef UCCL_UTIL_SIM_SEEDS_H
#define UCCL_UTIL_SIM_SEEDS_H

#include <stdbool.h>
#include <stdint.h>

#define UCCL_SIM_JOBS_MAX 1024

/* How many seeds at a time, as the user wrote it; "0": as many as there are processors. False: it is no such number. */
bool uccl_sim_jobs_read(const char *text, uint64_t *jobs);

/* A range of seeds, by one process or several. */
struct uccl_sim_range {
	uint64_t from, to;
	uint64_t jobs;	/* processes; 1: the caller runs them all */
	double minutes; /* no seed is begun later; 0: whenever that is */
	uint32_t (*run)(const void *arg, uint64_t seed); /* not 0: it failed, and has said so */
	/* The process that ran it ended. */
	void (*died)(const void *arg, uint64_t seed, const char *why);
	/* All were run; false: what they say together is a failure. */
	bool (*sum)(const void *arg);
	const void *arg;
};

/* Run them in their order; say how many passed and failed, and from which on they were not run. The exit status. */
int uccl_sim_range_run(const struct uccl_sim_range *r);

#endif
