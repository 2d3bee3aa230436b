/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* One endpoint of a world, while it lives: when it polls, its engine and NIC; and what it says, or others say of it. */
#ifndef UCCL_SIM_LIFE_H
#define UCCL_SIM_LIFE_H

#include "sim/state.h"

/* An invariant is broken. */
void uccl_sim_violation(struct uccl_sim_world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* This happened, if anybody wants to know. */
void uccl_sim_say(struct uccl_sim_world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Its NIC and its engine. 0 or an error. */
int uccl_sim_life_open(struct uccl_sim_life *n);
/* It polls soon. */
void uccl_sim_wake(struct uccl_sim_life *n);

#endif
