/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a flow: chunks, and parts of chunks, that come in pieces, because they are too long for the way. They are put
 * together here, and there is room for few of them: who sends more than it may loses them. PROTOCOL R153 R154
 *
 * The grammar: init. `take` for each piece; `part_end` for each part, and `end` for each chunk that is here, in
 * whatever it came.
 */
#ifndef UCCL_FLOW_RECV_PIECES_H
#define UCCL_FLOW_RECV_PIECES_H

#include <stdint.h>

#include "flow/wire/wire.h"

/* Chunks and parts in pieces that a sender has in flight, and a receiver keeps. */
#define UCCL_PIECED_MAX 16

/* A chunk, or a part of one, of which pieces came. */
struct uccl_pieced {
	uint64_t csn;
	uint64_t have;		/* pieces, a bit each */
	uint32_t total;		/* bytes of it in all */
	uint8_t count, rtype;
	uint8_t part;		/* as in struct uccl_piece */
	uint8_t rec[UCCL_REC_LEN];
	uint8_t data[];
};

struct uccl_pieces {
	struct uccl_pieced *list[UCCL_PIECED_MAX]; /* NULL: a free place */
	uint32_t most;		/* bytes of a chunk */
	uint8_t n;		/* chunks and parts */
};

/* `most`: bytes of the longest chunk that the peer may send. */
void uccl_pieces_init(struct uccl_pieces *p, uint32_t most);
void uccl_pieces_fini(struct uccl_pieces *p);
/*
 * A piece of chunk csn came: its header (with rec and payload_len), and its bytes. UCCL_DROP_COUNT: it was taken;
 * *whole: the chunk, if that was its last piece, until uccl_pieces_end, else NULL. UCCL_DROP_MEMORY: there is no room
 * for it now. UCCL_DROP_RECORD: it is none.
 */
enum uccl_drop uccl_pieces_take(struct uccl_pieces *p, const struct uccl_hdr *h, uint64_t csn, const uint8_t *payload,
				const struct uccl_pieced **whole);
/* What came of this part of it, as in struct uccl_piece, is not needed any more. */
void uccl_pieces_part_end(struct uccl_pieces *p, uint64_t csn, uint8_t part);
/* What came of chunk csn, and of its parts, is not needed any more. */
void uccl_pieces_drop(struct uccl_pieces *p, uint64_t csn);

/* Likewise, most often there is nothing. */
static inline void uccl_pieces_end(struct uccl_pieces *p, uint64_t csn)
{
	if (p->n)
		uccl_pieces_drop(p, csn);
}

#endif
