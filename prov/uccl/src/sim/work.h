/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The applications of a world: they send, receive, and check what comes. */
#ifndef UCCL_SIM_WORK_H
#define UCCL_SIM_WORK_H

#include "sim/state.h"

/* A message, its receive, and when. */
struct uccl_sim_plan {
	uint8_t src, dst;
	uint8_t match;	/* enum uccl_sim_match */
	bool directed;	/* EXACT: the receive names the source */
	bool no_recv;	/* no receive for it */
	uint32_t flags; /* UCCL_OPF_DATA, _INJECT, _EARLY, _DELIVERY */
	uint64_t len;
	uint64_t recv_len;
	uint8_t pieces; /* buffers of send and receive, 1..4; 0: 1 */
	uint64_t send_ns, recv_ns;
	uint64_t cancel_ns; /* cancel the receive at this time, and post it again; 0: no */
};

/* Plan one message; random work as the options say. Times are absolute. */
struct sim_msg *uccl_sim_plan(struct uccl_sim_world *w, const struct uccl_sim_plan *p);
void uccl_sim_plan_random(struct uccl_sim_world *w, uint32_t count, uint64_t from_ns, uint64_t window_ns);

/* What became of a message. -1: its send is not complete; else 0 or a positive FI_Exxx. */
int uccl_sim_msg_result(const struct sim_msg *m);

/* For world.c: an endpoint begins, or has died; the end of a run. */
void sim_life_init(struct uccl_sim_life *n);
void sim_work_death(struct uccl_sim_world *w, uint8_t node, uint32_t life);
void sim_work_cancel_rest(struct uccl_sim_world *w);
void sim_work_check_end(struct uccl_sim_world *w);
void sim_work_fini(struct uccl_sim_world *w);
void sim_work_tell_open(struct uccl_sim_world *w);

#endif
