/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Small packets stay on one path for a burst of bytes: a choice is made for each burst, not for each packet.
 *
 * The grammar: all zero at first. `over` before something leaves; if so, `begin` with a path that was chosen for `size`
 * bytes; then `take` for what leaves.
 */
#ifndef UCCL_FLOW_PATH_BURST_H
#define UCCL_FLOW_PATH_BURST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

/* A shorter packet counts as this many bytes. */
#define UCCL_BURST_LEAST 1024

struct uccl_burst {
	uint16_t path;		/* of the burst under way */
	uint32_t left;		/* bytes left in it */
	uint32_t bytes;		/* of the next burst; 0: as usual */
	bool fresh;		/* the next packet begins one */
};

/* The next packet begins a new one. */
static inline void uccl_burst_end(struct uccl_burst *b)
{
	b->left = 0;
}

/*
 * The next ones are of so many bytes; 0: as usual. The one under way goes on only if it holds `need`, and for no more
 * than such a burst.
 */
static inline void uccl_burst_align(struct uccl_burst *b, uint32_t bytes, uint64_t need)
{
	b->bytes = bytes;
	if (b->left < need)
		b->left = 0;
	b->left = (uint32_t)uccl_min(b->left, bytes);
}

static inline bool uccl_burst_over(const struct uccl_burst *b, uint32_t bytes)
{
	return b->left < bytes || !b->left;
}

/* Bytes of the next one: as planned, but what is usual may have become less. */
static inline uint32_t uccl_burst_size(const struct uccl_burst *b, uint32_t usual)
{
	return b->bytes ? (uint32_t)uccl_min(b->bytes, usual) : usual;
}

/* `fresh`: the NIC is told where it begins. */
static inline void uccl_burst_begin(struct uccl_burst *b, uint16_t path, uint32_t size, bool fresh)
{
	b->path = path;
	b->left = size;
	b->fresh = fresh;
}

/* So many bytes leave; returns their path. */
static inline uint16_t uccl_burst_take(struct uccl_burst *b, uint32_t bytes)
{
	b->left -= (uint32_t)uccl_min(b->left, uccl_max(bytes, UCCL_BURST_LEAST));
	return b->path;
}

/* Take it: does this packet begin a burst? */
static inline bool uccl_burst_take_fresh(struct uccl_burst *b)
{
	bool fresh = b->fresh;

	b->fresh = false;
	return fresh;
}

#endif
