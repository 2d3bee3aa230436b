/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of an entry of the log of what was sent (sent.h). How is a chunk cut into segments, and one of them perhaps into
 * sub-segments? Which of these does the peer have, and which are in flight? No segments: the chunk leaves whole.
 */
#ifndef UCCL_FLOW_SEND_SENT_CUT_H
#define UCCL_FLOW_SEND_SENT_CUT_H

#include <stdbool.h>
#include <stdint.h>

#include "flow/segment_map.h"

struct uccl_sent_cut {
	struct uccl_segment_map segments; /* those that the peer has */
	struct uccl_segment_map subs;	  /* and sub-segments of the one that leaves so; count 0: none does */
	uint64_t fly;	/* those of uccl_sent_cut_map that are in flight, */
	uint64_t run;	/* and those that left in the latest row */
};

/* How packets of the chunk are cut: as the segment that leaves in sub-segments, if there is one, or as the chunk. */
static inline struct uccl_segment_map *uccl_sent_cut_map(struct uccl_sent_cut *c)
{
	return c->subs.count ? &c->subs : &c->segments;
}

/* Bytes of a chunk of `len` bytes that the peer is not known to have. */
static inline uint32_t uccl_sent_cut_missing(const struct uccl_sent_cut *c, uint32_t len)
{
	uint32_t bytes = c->segments.count
				 ? uccl_segment_map_bytes(&c->segments, uccl_segment_map_missing(&c->segments))
				 : len;

	return c->subs.count ? bytes - uccl_segment_map_bytes(&c->subs, c->subs.have) : bytes;
}

/* A chunk of `len` bytes leaves in `count` segments. */
static inline void uccl_sent_cut_segments(struct uccl_sent_cut *c, uint32_t len, uint8_t count)
{
	uccl_segment_map_init(&c->segments, len, count);
}

/* Segment `of` leaves in `subs` sub-segments. The peer has none of them. */
static inline void uccl_sent_cut_divide(struct uccl_sent_cut *c, uint8_t of, uint8_t subs)
{
	uccl_segment_map_init(&c->subs, uccl_segment_map_len(&c->segments, of), subs);
	c->subs.of = of;
}

/* No segment leaves in sub-segments any more. */
static inline void uccl_sent_cut_undivide(struct uccl_sent_cut *c)
{
	c->subs.count = 0;
}

/* These leave in a row. */
static inline void uccl_sent_cut_left(struct uccl_sent_cut *c, uint64_t map)
{
	c->fly = c->run = map;
}

/* These are in flight no more. */
static inline void uccl_sent_cut_landed(struct uccl_sent_cut *c, uint64_t map)
{
	c->fly &= ~map;
}

/* Number of packets of the latest row behind its last missing one. */
static inline uint32_t uccl_sent_cut_behind(const struct uccl_sent_cut *c)
{
	return c->segments.count ? uccl_segment_map_behind(c->run, c->fly) : 0;
}

#endif
