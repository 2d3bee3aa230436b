/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Payload that comes to a lane ahead of CTS may come before home has said where it belongs: it is kept until then, or
 * until its peer ends. What a peer may have there is bounded, and what all lanes of the endpoint have; beyond that it
 * comes again. PROTOCOL R267 R268 R313
 */
#ifndef UCCL_MSG_PARK_H
#define UCCL_MSG_PARK_H

#include "msg/line.h"
#include "msg/mep.h"

/* Most bytes of one peer at one lane: as many as it may send ahead, all by this one, and what they count beside. */
#define UCCL_PARK_MAX (2u * UCCL_HEADS_MAX)
/* What each counts beside its payload. */
#define UCCL_PARK_COST 128

struct uccl_parked {
	TAILQ_ENTRY(uccl_parked) link;
	uint32_t mseq;
	uint32_t len;
	uint64_t off, total;
	uint8_t data[];
};

/* UCCL_DROP_COUNT: it is kept; UCCL_DROP_MEMORY: it has to come again. In the lane's thread, as all of these. */
enum uccl_drop msg_park(struct uccl_line *l, struct uccl_peer *from, const struct uccl_chunk_in *in);
/* One of this message, which is kept no longer: the caller frees it. NULL: there is none. */
struct uccl_parked *msg_park_take(struct uccl_line *l, struct uccl_peer *from, uint32_t mseq);
/* The peer has ended. */
void msg_park_end(struct uccl_line *l, struct uccl_peer *from);

#endif
