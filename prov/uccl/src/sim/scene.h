/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Steps that named scenes share: scenario.c, stories.c. */
#ifndef UCCL_SIM_SCENE_H
#define UCCL_SIM_SCENE_H

#include "sim/world.h"

#define MS UCCL_NS_PER_MS
#define SEC UCCL_NS_PER_S

static inline bool scene_begin(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed)
{
	if (!uccl_sim_world_open(w, o, seed))
		return true;
	uccl_sim_violation(w, "the world cannot be opened");
	return false;
}

static inline uint32_t scene_end(struct uccl_sim_world *w)
{
	uint32_t bad = w->violations;

	uccl_sim_world_close(w);
	return bad;
}

/* n messages of len bytes from src to dst, `gap_ns` apart, all receives posted at once. */
static inline void scene_stream(struct uccl_sim_world *w, uint8_t src, uint8_t dst, uint32_t n, uint64_t len,
				uint64_t gap_ns, struct sim_msg **out)
{
	struct uccl_sim_plan p = {.src = src,
				  .dst = dst,
				  .match = UCCL_SIM_DIRECTED,
				  .len = len,
				  .recv_len = len,
				  .recv_ns = w->net.now,
				  .send_ns = w->net.now};
	uint32_t i;

	for (i = 0; i < n; i++, p.send_ns += gap_ns) {
		struct sim_msg *m = uccl_sim_plan(w, &p);

		if (out)
			out[i] = m;
	}
}

/* Routes with a rate and a queue each, as the ports of hosts: every node has one on each route. */
#define RAIL_PORTS 8
#define RAIL_QUEUE_NS (10 * MS)

struct rail_ports {
	uint64_t mbps[RAIL_PORTS];
	uint64_t free_ns[UCCL_SIM_NODES][RAIL_PORTS];
};

/* A packet gets in line at its port. False: it does not fit. */
static inline bool rail_ports_take(struct rail_ports *r, const struct uccl_sim_pkt *p, uint64_t *delay_ns, uint64_t now)
{
	uint64_t *free_ns = &r->free_ns[p->src][p->route], from = uccl_max(*free_ns, now);

	if (from - now > RAIL_QUEUE_NS)
		return false;
	*free_ns = from + p->len * 8000 / r->mbps[p->route];
	*delay_ns = *free_ns - now;
	return true;
}

/* A scene whose routes are these ports: an option may ask for more routes than have a rate. */
static inline bool scene_begin_ports(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed,
				     const struct rail_ports *r)
{
	int n = 0;

	while (n < RAIL_PORTS && r->mbps[n])
		n++;
	if (!scene_begin(w, o, seed))
		return false;
	if (o->routes <= n)
		return true;
	uccl_sim_violation(w, "this scenario has %d routes at most", n);
	return false;
}

#endif
