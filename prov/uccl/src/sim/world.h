/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A world of endpoints: the product's engines on simulated NICs, driven by the virtual clock alone, with applications
 * that send and receive (work.c), disasters drawn from the options, and checkers that never sleep.
 *
 * A run has phases: faults and work; healing, after which everything must end within a bound; closing; and a last look
 * at every buffer long after it went back to the application.
 */
#ifndef UCCL_SIM_WORLD_H
#define UCCL_SIM_WORLD_H

#include "sim/life.h"
#include "sim/work.h"

/* 0 or -FI_ENOMEM. All nodes are booted. */
int uccl_sim_world_open(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed);
/* Frees everything; engines still open are closed. */
void uccl_sim_world_close(struct uccl_sim_world *w);

/* A new life of a node that is dead. */
int uccl_sim_boot(struct uccl_sim_world *w, uint8_t node);
/* The process of a node ends at once, without a word to anybody. */
void uccl_sim_kill(struct uccl_sim_world *w, uint8_t node);
/* A node does not poll before `until`. */
void uccl_sim_sleep(struct uccl_sim_world *w, uint8_t node, uint64_t until);

/* Plan the disasters of the options. */
void uccl_sim_plan_disasters(struct uccl_sim_world *w);

/* Let things happen until `until`, or (done) until no message is open; true: none is. Stops at a violation. */
bool uccl_sim_go(struct uccl_sim_world *w, uint64_t until, bool done);
/*
 * The whole run from here on: until all planned times are over, healing, the bound, closing, the last look. Returns the
 * count of violations.
 */
uint32_t uccl_sim_finish(struct uccl_sim_world *w);
/* A seed from beginning to end. */
uint32_t uccl_sim_seed(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed);

/* Checks of inner state of every engine, now. */
void uccl_sim_check(struct uccl_sim_world *w);

#endif
