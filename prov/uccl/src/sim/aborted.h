/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How long it takes until operations that were taken back have ended (invariant I21): never longer than a second. How
 * many took longer than 2 RTT + 1 ms is counted; uccl_sim judges the sum of all runs.
 */
#ifndef UCCL_SIM_ABORTED_H
#define UCCL_SIM_ABORTED_H

#include "sim/state.h"

/* An operation that is being taken back, or will be. */
struct sim_abort {
	struct uccl_sim_event ev; /* when */
	uint64_t began, rtt_ns; /* rtt_ns 0: not known */
	bool taken;		/* back, or it is being taken back */
};

/* When to take one back that is posted now: soon or late, up to some milliseconds. */
uint64_t sim_abort_after(struct uccl_sim_world *w);
/* Take back now what `n` posted with this context to this endpoint in this life. */
void sim_abort_begin(struct sim_abort *a, struct uccl_sim_life *n, const void *context, uint8_t to, uint32_t to_life);
/* It has ended. */
void sim_abort_end(const struct sim_abort *a, struct uccl_sim_life *n, uint8_t to, uint32_t to_life, bool cancelled);

#endif
