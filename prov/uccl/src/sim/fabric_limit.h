/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A limit of every 5-tuple, as clouds have it: a token bucket where packets enter the network, behind the link of their
 * host. What exceeds it waits in a queue of the tuple (a shaper), or is dropped at once (a policer). The link of the
 * host is the limit of all tuples together.
 */
#ifndef UCCL_SIM_FABRIC_LIMIT_H
#define UCCL_SIM_FABRIC_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

struct uccl_fab_limit {
	uint64_t bps;	      /* of a 5-tuple, bits per second; 0: no limit */
	uint64_t burst_bytes; /* that pass at once after a pause */
	uint64_t queue_bytes; /* that may wait; 0: a policer */
};

/* The buckets of all tuples that were seen. */
struct uccl_fab_limits {
	struct uccl_fab_limit cfg;
	struct uccl_fab_bucket *buckets; /* an open hash table */
	uint32_t size, used;		 /* a power of two, or 0 */
};

void uccl_fab_limits_init(struct uccl_fab_limits *l, const struct uccl_fab_limit *cfg);
void uccl_fab_limits_fini(struct uccl_fab_limits *l);
/* A packet of this tuple comes at `now`, ps. False: it is dropped. Else it goes on at *at. */
bool uccl_fab_limits_pass(struct uccl_fab_limits *l, uint64_t tuple, uint32_t bytes, uint64_t now, uint64_t *at);

#endif
