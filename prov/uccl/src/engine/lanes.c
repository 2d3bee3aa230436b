/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The lanes of an endpoint. */
#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "engine/impl.h"

int uccl_engine_lanes(struct uccl_engine *e, struct uccl_engine *const *lane, struct uccl_lane_channel *const *channel,
		      uint8_t n)
{
	e->lanes.addr = calloc(n, sizeof(*e->lanes.addr));
	if (!e->lanes.addr)
		return -FI_ENOMEM;
	engine_share_lanes(&e->share, lane, n, &e->lanes.load);
	for (uint8_t k = 0; k < n; k++)
		e->lanes.addr[k] = lane[k]->identity.addr;
	uccl_lanes_init(&e->msg_ep, &e->lanes.all, channel, n);
	return 0;
}

struct uccl_lane_channel *uccl_lane_channel_new(void (*wake)(void *arg, bool primary), void (*rest)(uint32_t times),
						void *arg)
{
	struct uccl_lane_channel *l = aligned_alloc(_Alignof(struct uccl_lane_channel), sizeof(*l));

	if (!l || !uccl_lane_channel_init(l)) {
		free(l);
		return NULL;
	}
	l->wake = wake;
	l->rest = rest;
	l->arg = arg;
	return l;
}

void uccl_lane_channel_free(struct uccl_lane_channel *l)
{
	uccl_lane_channel_fini(l);
	free(l);
}

void engine_lanes_close(struct engine_lanes *l)
{
	free(l->addr);
}
