/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* One endpoint of a world, while it lives: when it polls, its engine and NIC; and what it says, or others say of it. */
#ifndef UCCL_SIM_LIFE_H
#define UCCL_SIM_LIFE_H

#include "sim/state.h"

/* An invariant is broken. */
void uccl_sim_violation(struct uccl_sim_world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* This happened, if anybody wants to know. */
void uccl_sim_say(struct uccl_sim_world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Open the NIC and the engine. 0 or an error. */
int uccl_sim_life_open(struct uccl_sim_life *n);
/* Close the lanes, before the engine; mailboxes between them are freed after that. */
void uccl_sim_lanes_close(struct uccl_sim_life *n);
void uccl_sim_lanes_free(struct uccl_sim_life *n);
/* 0: its own, and from 1 on those of its lanes; NULL: it has no more, or it is dead. */
struct uccl_engine *uccl_sim_engine(const struct uccl_sim_life *n, uint8_t i);
/* Is it in this life? */
static inline bool uccl_sim_alive(const struct uccl_sim_world *w, uint8_t node, uint32_t life)
{
	return w->node[node].alive && w->node[node].life == life;
}
/* Another endpoint in one of its lives, as this one knows it; held as long as this one lives. NULL: out of memory. */
struct uccl_peer *uccl_sim_peer(struct uccl_sim_life *n, uint8_t node, uint32_t life);
#define UCCL_SIM_RETRY_NS (20 * UCCL_NS_PER_US)
/* A moment later, no more than UCCL_SIM_RETRY_NS, after something was refused for now. */
void uccl_sim_retry(struct uccl_sim_world *w, struct uccl_sim_event *ev);
/* The endpoint polls soon. */
void uccl_sim_wake(struct uccl_sim_life *n);

#endif
