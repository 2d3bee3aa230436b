/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The lanes of a driver's engine: engines of their own, each with a thread that sleeps while nothing is under way. They
 * wake whoever drives the primary by a descriptor, as a NIC does.
 */
#ifndef UCCL_PROGRESS_LANES_H
#define UCCL_PROGRESS_LANES_H

#include <sched.h>

#include "engine/engine.h"

struct uccl_lane_set;

/* How many lanes: at most `want`, or, with UCCL_LANES_AUTO, what is left of our processors: see uccl_lanes_count. */
#define UCCL_LANES_AUTO UINT64_MAX

/*
 * With so many processors for this process (uccl_ranks_processors): the program keeps one, and each lane has one; never
 * more than four by itself.
 */
uint8_t uccl_lanes_count(uint64_t want, uint32_t processors);

/*
 * Paths of each of n lanes (not 0) of an endpoint that is to have so many: it has these in all, since each takes a port
 * and a socket, but a few at least.
 */
uint16_t uccl_lane_paths(uint16_t paths, uint8_t n);

/*
 * Lanes for `the primary`, before it has peers: `attr` as the primary was opened with, each on a NIC that `nic` opens.
 * Fewer if not all can be had. NULL: none.
 */
struct uccl_lane_set *uccl_lane_set_open(struct uccl_engine *primary, const struct uccl_engine_attr *attr, uint8_t n,
					 int (*nic)(void *arg, struct uccl_nic **out), void *arg);
/* Their threads run on these processors alone. NULL is well. */
void uccl_lane_set_bind(struct uccl_lane_set *s, const cpu_set_t *cpus, size_t bytes);
/* Their threads end, and their engines; the primary's comes next, then uccl_lane_set_free. NULL is well. */
void uccl_lane_set_close(struct uccl_lane_set *s);
void uccl_lane_set_free(struct uccl_lane_set *s);

/* Readable when a lane has said something since uccl_lane_set_heard(). */
int uccl_lane_set_fd(const struct uccl_lane_set *s);
/* The primary looks now. */
void uccl_lane_set_heard(struct uccl_lane_set *s);

#endif
