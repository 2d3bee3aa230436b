/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "sim/fabric_limit.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "sim/fabric_queue.h"

#define SIZE_FIRST 64

struct uccl_fab_bucket {
	uint64_t tuple;
	uint64_t full_at; /* ps: the bucket is full of tokens again; 0: the entry is free */
};

void uccl_fab_limits_init(struct uccl_fab_limits *l, const struct uccl_fab_limit *cfg)
{
	*l = (struct uccl_fab_limits){.cfg = *cfg};
}

void uccl_fab_limits_fini(struct uccl_fab_limits *l)
{
	free(l->buckets);
	memset(l, 0, sizeof(*l));
}

/* The entry of this tuple, or the free one where it belongs. */
static struct uccl_fab_bucket *bucket_at(const struct uccl_fab_limits *l, uint64_t tuple)
{
	uint32_t i = (uint32_t)(tuple * 0x9e3779b97f4a7c15ull >> 32) & (l->size - 1);

	while (l->buckets[i].full_at && l->buckets[i].tuple != tuple)
		i = (i + 1) & (l->size - 1);
	return &l->buckets[i];
}

static void limits_grow(struct uccl_fab_limits *l)
{
	struct uccl_fab_limits old = *l;

	l->size = old.size ? 2 * old.size : SIZE_FIRST;
	l->buckets = uccl_fab_need(calloc(l->size, sizeof(*l->buckets)));
	for (uint32_t i = 0; i < old.size; i++)
		if (old.buckets[i].full_at)
			*bucket_at(l, old.buckets[i].tuple) = old.buckets[i];
	free(old.buckets);
}

bool uccl_fab_limits_pass(struct uccl_fab_limits *l, uint64_t tuple, uint32_t bytes, uint64_t now, uint64_t *at)
{
	double ps = 8e12 / (double)l->cfg.bps;
	uint64_t burst = (uint64_t)(ps * (double)l->cfg.burst_bytes), full;
	struct uccl_fab_bucket *b;

	if (2 * l->used >= l->size)
		limits_grow(l);
	b = bucket_at(l, tuple);
	full = uccl_max(b->full_at, now) + (uint64_t)(ps * bytes);
	*at = uccl_max(full, now + burst) - burst;
	if (*at > now && (double)(*at - now) > ps * (double)l->cfg.queue_bytes)
		return false;
	l->used += !b->full_at;
	*b = (struct uccl_fab_bucket){.tuple = tuple, .full_at = full};
	return true;
}
