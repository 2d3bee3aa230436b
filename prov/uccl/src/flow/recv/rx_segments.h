/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a flow: which segments came of chunks that are not whole. segment_rx.c writes the maps.
 *
 * The grammar: init. `began` and `ended` for each map, `told` when a block has told of some.
 */
#ifndef UCCL_FLOW_RECV_RX_SEGMENTS_H
#define UCCL_FLOW_RECV_RX_SEGMENTS_H

#include <stdlib.h>

#include "flow/segment_map.h"

struct uccl_rx_segments {
	struct uccl_segment_map *maps; /* one for each chunk of the window */
	uint32_t n;		/* incomplete chunks */
	uint64_t next;		/* CSN of the next of them that a block tells of, if not all fit */
};

/* False: no memory. */
static inline bool uccl_rx_segments_init(struct uccl_rx_segments *s, uint32_t window)
{
	*s = (struct uccl_rx_segments){.maps = calloc(window, sizeof(*s->maps))};
	return s->maps;
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
