/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Writes, reads and atomics of the applications of a world, some of which are taken back. Each has a place of its own
 * at its target, and a key. What an end says must be so, and stay so.
 */
#ifndef UCCL_SIM_REMOTE_H
#define UCCL_SIM_REMOTE_H

#include "sim/state.h"

/* The memory of an endpoint for its engine; the argument is its struct uccl_sim_life. */
extern const struct uccl_target_ops sim_remote_target;

/* Plan one of a random kind, between two endpoints that live, of this length. */
void sim_remote_plan(struct uccl_sim_world *w, uint8_t src, uint8_t dst, uint64_t len, uint64_t at);
/* An endpoint has died. */
void sim_remote_death(struct uccl_sim_world *w, uint8_t node, uint32_t life);
/* Tell of some that are not over. */
void sim_remote_tell_open(struct uccl_sim_world *w);
void sim_remote_fini(struct uccl_sim_world *w);

#endif
