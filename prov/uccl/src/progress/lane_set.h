/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The lanes of a driver's engine (the primary). Each lane is an engine with its own thread, which sleeps while nothing
 * is under way. Lanes wake the thread that drives the primary by a descriptor, as a NIC does.
 */
#ifndef UCCL_PROGRESS_LANE_SET_H
#define UCCL_PROGRESS_LANE_SET_H

#include <sched.h>

#include "engine/engine.h"

/* The lanes of one engine: a part of what uccl_lane_set_open() makes. A build without lanes has none. */
struct uccl_lane_set {
	const struct uccl_lane_set_ops *ops;
	uint8_t n; /* how many they are */
	int fd;    /* readable when a lane has sent a reply since uccl_lane_set_heard() */
};

struct uccl_lane_set_ops {
	void (*bind)(struct uccl_lane_set *s, const cpu_set_t *cpus, size_t bytes);
	void (*keep)(struct uccl_lane_set *s);
	void (*heard)(struct uccl_lane_set *s);
	void (*close)(struct uccl_lane_set *s);
	void (*free)(struct uccl_lane_set *s);
};

/* In place of a number of lanes: uccl_lanes_count() chooses the number. */
#define UCCL_LANES_AUTO UINT64_MAX

/*
 * The number of lanes of an endpoint: `want`, at most UCCL_LANES_MAX. UCCL_LANES_AUTO: half of the `processors` of this
 * process (uccl_ranks_processors()), at most eight; with the `others`, lanes that its other endpoints have by
 * UCCL_LANES_AUTO, at most two for each processor; and none instead of one.
 */
uint8_t uccl_lanes_count(uint64_t want, uint32_t processors, uint32_t others);

/*
 * Paths of each of n lanes, n > 0, of an endpoint that is to have `paths` in total. Each path takes a port and a
 * socket, so the lanes share the total; but each lane has a few at least.
 */
uint16_t uccl_lane_paths(uint16_t paths, uint8_t n);

/*
 * Open lanes for `primary`, which has no peers yet: as many as uccl_lanes_count() makes of `want`. `attr` is what the
 * primary was opened with. nic(arg) opens the NIC of each lane. If some lanes fail, there are fewer. NULL: none could
 * be opened. api has it from uccl_place_lanes().
 */
typedef struct uccl_lane_set *uccl_lane_set_open_fn(struct uccl_engine *primary, const struct uccl_engine_attr *attr,
						    uint64_t want, int (*nic)(void *arg, struct uccl_nic **out),
						    void *arg);
uccl_lane_set_open_fn uccl_lane_set_open;

/* Bind the lanes' threads to these processors. `bytes`: size of *cpus. `s` may be NULL. */
static inline void uccl_lane_set_bind(struct uccl_lane_set *s, const cpu_set_t *cpus, size_t bytes)
{
	if (s)
		s->ops->bind(s, cpus, bytes);
}

/* They are used however late they come. `s` may be NULL. */
static inline void uccl_lane_set_keep(struct uccl_lane_set *s)
{
	if (s)
		s->ops->keep(s);
}

/* End the lanes' threads and engines. Then close the primary, then call uccl_lane_set_free(). `s` may be NULL. */
static inline void uccl_lane_set_close(struct uccl_lane_set *s)
{
	if (s)
		s->ops->close(s);
}

static inline void uccl_lane_set_free(struct uccl_lane_set *s)
{
	if (s)
		s->ops->free(s);
}

/* Called before the primary reads the replies: clears the descriptor. */
static inline void uccl_lane_set_heard(struct uccl_lane_set *s)
{
	s->ops->heard(s);
}

#endif
