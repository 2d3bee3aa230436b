/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a flow: segments that come in sub-segments, because they are too long for the path. They are put together
 * here, and there is room for few of them: who sends more than it may loses them. PROTOCOL R153 R154
 *
 * The grammar: init. `take` for each sub-segment, and `untake` if the segment that it completed is not taken in now;
 * else `part_end` for each segment, and `end` for each chunk that is here, in whatever it came.
 */
#ifndef UCCL_FLOW_RECV_PIECES_H
#define UCCL_FLOW_RECV_PIECES_H

#include <stdint.h>

#include "flow/recv/parts.h"

/* Chunks of which a sender lets the peer put a segment together at a time. */
#define UCCL_KEPT_MAX 16

/* A segment of which sub-segments came. */
struct uccl_pieced {
	uint64_t csn;
	struct uccl_parts parts; /* those that are here */
	uint32_t total;		 /* bytes of the chunk, */
	uint8_t index, count;	 /* which segment this is of, */
	uint8_t rtype;		 /* and its record */
	uint8_t rec[UCCL_REC_LEN];
	uint8_t data[];
};

struct uccl_pieces {
	struct uccl_pieced *list[UCCL_KEPT_MAX]; /* NULL: a free place */
	uint32_t most;				 /* bytes of a segment */
	uint8_t n;				 /* segments */
};

/* `most`: bytes of the longest segment that the peer may send. */
void uccl_pieces_init(struct uccl_pieces *p, uint32_t most);
void uccl_pieces_fini(struct uccl_pieces *p);
/*
 * Sub-segment `s` of chunk csn came, which fits its own numbers: its header (with rec and payload_len), and its bytes.
 * UCCL_DROP_COUNT: it was taken; *whole: the segment, if that was its last one, until it ends, else NULL.
 * UCCL_DROP_MEMORY: there is no room for it now. UCCL_DROP_DUPLICATE: it is here, or the segment was cut anew since.
 * UCCL_DROP_RECORD: it is none.
 */
enum uccl_drop uccl_pieces_take(struct uccl_pieces *p, const struct uccl_segment *s, const struct uccl_hdr *h,
				uint64_t csn, const uint8_t *payload, const struct uccl_pieced **whole);
/* That one, which completed its segment, is as if it had not come. */
void uccl_pieces_untake(struct uccl_pieces *p, uint64_t csn, const struct uccl_segment *s);
/* What came of this segment is not needed any more. */
void uccl_pieces_part_end(struct uccl_pieces *p, uint64_t csn, uint8_t index);
/* What came of the segments of chunk csn is not needed any more. */
void uccl_pieces_drop(struct uccl_pieces *p, uint64_t csn);
/* Lines about those of chunk csn, at `a`, no more than `most`. Returns how many; *seen grows by its segments. */
uint8_t uccl_pieces_tell(const struct uccl_pieces *p, uint64_t csn, struct uccl_ack_parts *a, uint8_t most,
			 uint32_t *seen);

/* Likewise, most often there is nothing. */
static inline void uccl_pieces_end(struct uccl_pieces *p, uint64_t csn)
{
	if (p->n)
		uccl_pieces_drop(p, csn);
}

#endif
