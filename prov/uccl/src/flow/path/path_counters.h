/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Part of a path: free-running counters, for people. */
#ifndef UCCL_FLOW_PATH_PATH_COUNTERS_H
#define UCCL_FLOW_PATH_PATH_COUNTERS_H

#include <stdint.h>

struct uccl_path_counters {
	uint64_t packets;	/* that left, direct writes too */
	uint64_t bytes;		/* of their payload */
	uint32_t lost;
	uint32_t rerolls;	/* new labels */
};

static inline void uccl_path_counters_left(struct uccl_path_counters *c, uint32_t packets, uint64_t bytes)
{
	c->packets += packets;
	c->bytes += bytes;
}

#endif
