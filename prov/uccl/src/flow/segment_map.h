/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A chunk in up to 64 segments of one length, but for the last, and a map of those that are where they belong. The
 * sender's log has one of these for a chunk, and so has the receiver. A segment in sub-segments has one, too.
 *
 * The grammar: all zero (no segments) at first; init, then `took` for what is there. A map is a bit for each segment.
 */
#ifndef UCCL_FLOW_SEGMENT_MAP_H
#define UCCL_FLOW_SEGMENT_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "flow/wire/wire.h"

struct uccl_segment_map {
	uint64_t have;
	uint32_t total;		/* bytes of the chunk */
	uint16_t each;		/* bytes of each segment but the last */
	uint8_t count;		/* 0: the chunk is not in segments */
	uint8_t of;		/* of a segment in sub-segments: its index; else 0 */
};

/* `count` 1 to UCCL_SEGMENT_COUNT, and each of them at least one byte of `total`. */
static inline void uccl_segment_map_init(struct uccl_segment_map *p, uint32_t total, uint8_t count)
{
	*p = (struct uccl_segment_map){
		.total = total,
		.each = (uint16_t)uccl_min(uccl_segment_each(total, count), total),
		.count = count,
	};
}

/* Map of all. */
static inline uint64_t uccl_segment_map_all(const struct uccl_segment_map *p)
{
	return ~0ull >> (64 - p->count);
}

static inline uint64_t uccl_segment_map_missing(const struct uccl_segment_map *p)
{
	return uccl_segment_map_all(p) & ~p->have;
}

/* Where a segment begins, and its length. */
static inline uint32_t uccl_segment_map_at(const struct uccl_segment_map *p, uint8_t index)
{
	return (uint32_t)index * p->each;
}

static inline uint32_t uccl_segment_map_len(const struct uccl_segment_map *p, uint8_t index)
{
	return index + 1u == p->count ? p->total - uccl_segment_map_at(p, index) : p->each;
}

/* Bytes of those in a map. */
static inline uint32_t uccl_segment_map_bytes(const struct uccl_segment_map *p, uint64_t map)
{
	uint8_t last = (uint8_t)(p->count - 1);
	uint32_t n = (uint32_t)__builtin_popcountll(map);

	return map >> last & 1 ? (n - 1) * p->each + uccl_segment_map_len(p, last) : n * p->each;
}

/* The first `n` of a map. */
static inline uint64_t uccl_segment_map_first(uint64_t map, uint32_t n)
{
	uint64_t rest = map;

	while (n-- && rest)
		rest &= rest - 1;
	return map & ~rest;
}

/* How many of a map come behind the last one of another, which is not empty. */
static inline uint32_t uccl_segment_map_behind(uint64_t map, uint64_t other)
{
	unsigned int last = 63u - (unsigned int)__builtin_clzll(other);

	return last == 63 ? 0 : (uint32_t)__builtin_popcountll(map >> (last + 1));
}

/* Can segment `index` of this chunk have `len` bytes? */
static inline bool uccl_segment_map_fits(const struct uccl_segment_map *p, uint8_t index, uint32_t len)
{
	return index < p->count && len == uccl_segment_map_len(p, index);
}

static inline bool uccl_segment_map_has(const struct uccl_segment_map *p, uint8_t index)
{
	return p->have >> index & 1;
}

/* Map of those from `first` to `last`. */
static inline uint64_t uccl_segment_map_run(uint8_t first, uint8_t last)
{
	return ~0ull >> (63 - last) & ~0ull << first;
}

/* The segments in `map` are there. Returns the bytes of those that were not there before. */
static inline uint32_t uccl_segment_map_took(struct uccl_segment_map *p, uint64_t map)
{
	uint32_t bytes = uccl_segment_map_bytes(p, map & ~p->have);

	p->have |= map;
	return bytes;
}

/* Bytes [*from, *to) that are not there: the next gap from segment *i on, which is 0 at first and moves on. False:
 * none. */
static inline bool uccl_segment_map_gap(const struct uccl_segment_map *p, uint8_t *i, uint32_t *from, uint32_t *to)
{
	while (*i < p->count && uccl_segment_map_has(p, *i))
		++*i;
	if (*i == p->count)
		return false;
	*from = uccl_segment_map_at(p, *i);
	while (*i < p->count && !uccl_segment_map_has(p, *i))
		++*i;
	*to = *i == p->count ? p->total : uccl_segment_map_at(p, *i);
	return true;
}

#endif
