/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a flow: segments that are too long for the path come in sub-segments, and are put together here. There is
 * room for few segments. Those of a sender that exceeds its limit are dropped. PROTOCOL R153 R154
 *
 * The grammar: init. `take` for each sub-segment. If the segment that it completed cannot be accepted now, `untake`;
 * else `segment_end` for each complete segment. `end` for each complete chunk, also if it came in other packets.
 */
#ifndef UCCL_FLOW_RECV_SUBSEGMENTS_H
#define UCCL_FLOW_RECV_SUBSEGMENTS_H

#include <stdint.h>

#include "flow/segment_map.h"

/* A sender cuts segments of at most this many chunks at a time into sub-segments. */
#define UCCL_KEPT_MAX 16

/* A segment of which sub-segments came. */
struct uccl_partial_segment {
	uint64_t csn;
	struct uccl_segment_map segments; /* those that are here */
	uint32_t total;		 /* bytes of the chunk, */
	uint8_t index, count;	 /* which segment this is of, */
	uint8_t rtype;		 /* and its record */
	uint8_t rec[UCCL_REC_LEN];
	uint8_t data[];
};

struct uccl_subsegments {
	struct uccl_partial_segment *list[UCCL_KEPT_MAX]; /* NULL: a free place */
	uint32_t most;				 /* bytes of a segment */
	uint8_t n;				 /* segments */
};

/* `most`: bytes of the longest segment that the peer may send. */
void uccl_subsegments_init(struct uccl_subsegments *p, uint32_t most);
void uccl_subsegments_fini(struct uccl_subsegments *p);
/*
 * Sub-segment `s` of chunk csn came, which fits its own numbers: its header (with rec and payload_len), and its bytes.
 * UCCL_DROP_COUNT: it was taken; *whole: the segment, if that was its last one, until it ends, else NULL.
 * UCCL_DROP_MEMORY: there is no room for it now. UCCL_DROP_DUPLICATE: it is here, or the segment was cut anew since.
 * UCCL_DROP_RECORD: it is none.
 */
enum uccl_drop uccl_subsegments_take(struct uccl_subsegments *p, const struct uccl_segment *s, const struct uccl_hdr *h,
				     uint64_t csn, const uint8_t *payload, const struct uccl_partial_segment **whole);
/* Forget sub-segment `s`, which completed its segment: it must come again. */
void uccl_subsegments_untake(struct uccl_subsegments *p, uint64_t csn, const struct uccl_segment *s);
/* What came of this segment is not needed any more. */
void uccl_subsegments_segment_end(struct uccl_subsegments *p, uint64_t csn, uint8_t index);
/* What came of the segments of chunk csn is not needed any more. */
void uccl_subsegments_drop(struct uccl_subsegments *p, uint64_t csn);
/* Write up to `most` lines about sub-segments of chunk csn to `a`. Returns how many; *seen grows by its segments. */
uint8_t uccl_subsegments_tell(const struct uccl_subsegments *p, uint64_t csn, struct uccl_ack_segments *a, uint8_t most,
			      uint32_t *seen);

/* uccl_subsegments_drop, for the common case that there is nothing to drop. */
static inline void uccl_subsegments_end(struct uccl_subsegments *p, uint64_t csn)
{
	if (p->n)
		uccl_subsegments_drop(p, csn);
}

#endif
