/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a flow: which segments came of chunks that are not whole. segment_rx.c writes the maps.
 *
 * The grammar: init. `open` before the first segment of a chunk is taken. `began` and `ended` for each map, `told` when
 * a block has told of some.
 */
#ifndef UCCL_FLOW_RECV_RX_SEGMENTS_H
#define UCCL_FLOW_RECV_RX_SEGMENTS_H

#include <stdlib.h>

#include "flow/segment_map.h"

struct uccl_rx_segments {
	/* One for each chunk of the window. Until the first segment came: one of zeros, as most peers send none. */
	struct uccl_segment_map *maps;
	uint32_t mask;		/* of a CSN: its place there */
	uint32_t n;		/* incomplete chunks */
	uint64_t next;		/* CSN of the next of them that a block tells of, if not all fit */
};

/* False: no memory. */
static inline bool uccl_rx_segments_init(struct uccl_rx_segments *s)
{
	*s = (struct uccl_rx_segments){.maps = calloc(1, sizeof(*s->maps))};
	return s->maps;
}

/* A segment came: from now on each chunk has its own map. False: no memory, and nothing happened. */
static inline bool uccl_rx_segments_open(struct uccl_rx_segments *s, uint32_t window)
{
	struct uccl_segment_map *maps;

	if (s->mask)
		return true;
	maps = calloc(window, sizeof(*maps));
	if (!maps)
		return false;
	free(s->maps);
	s->maps = maps;
	s->mask = window - 1;
	return true;
}

static inline void uccl_rx_segments_fini(struct uccl_rx_segments *s)
{
	free(s->maps);
}

/* The first segment of another chunk came. */
static inline void uccl_rx_segments_began(struct uccl_rx_segments *s)
{
	s->n++;
}

/* The chunk of a map is whole, or came otherwise. */
static inline void uccl_rx_segments_ended(struct uccl_rx_segments *s)
{
	s->n--;
}

/* A block told of those before this CSN. */
static inline void uccl_rx_segments_told(struct uccl_rx_segments *s, uint64_t next)
{
	s->next = next;
}

#endif
