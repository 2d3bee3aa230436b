/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unsolicited data may come to a lane before the primary has said where it belongs. The lane keeps it until then, or
 * until the peer ends. There is a bound for a peer and for all lanes of the endpoint; data beyond it is dropped, and
 * comes again. PROTOCOL R267 R268 R313
 */
#ifndef UCCL_LANES_UNPLACED_DATA_H
#define UCCL_LANES_UNPLACED_DATA_H

#include "lanes/lane_channel.h"
#include "msg/msg_ep.h"

/* Most bytes of one peer at one lane: all unsolicited data that it may send, through this lane, and their records. */
#define UCCL_UNPLACED_MAX (2u * UCCL_UNSOLICITED_PEER_MAX)
/* What each counts beside its payload. */
#define UCCL_UNPLACED_COST 128

struct uccl_unplaced_chunk {
	TAILQ_ENTRY(uccl_unplaced_chunk) link;
	uint32_t mseq;
	uint32_t len;
	uint64_t off, total;
	uint8_t data[];
};

/* UCCL_DROP_COUNT: it is kept; UCCL_DROP_MEMORY: it has to come again. In the lane's thread, as all of these. */
enum uccl_drop unplaced_data_keep(struct uccl_lane_channel *l, struct uccl_peer *from, const struct uccl_chunk_in *in);
/* Take out one chunk of this message: the caller frees it. NULL: there is none. */
struct uccl_unplaced_chunk *unplaced_data_take(struct uccl_lane_channel *l, struct uccl_peer *from, uint32_t mseq);
/* The peer has ended. */
void unplaced_data_drop(struct uccl_lane_channel *l, struct uccl_peer *from);

#endif
