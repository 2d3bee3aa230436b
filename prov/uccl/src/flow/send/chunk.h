/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How large the chunks of direct writes are. A chunk of several packets is lost with any of them, and sent again whole;
 * one of a few packets costs more of the processor. So they are as large as the peer takes, and smaller while many are
 * lost or the window holds few of them (UCCL section 3.3, which gives no numbers), or while many wait in queues, which
 * are the shorter the less comes at once. A flow that begins does not know its queues yet. PROTOCOL R277
 *
 * A peer whose queue pair does not survive the loss of a part of a write gets one packet each until long nothing was
 * lost: then twice as much, and again. The first loss ends that, and the next try takes longer. PROTOCOL R255
 */
#ifndef UCCL_FLOW_SEND_CHUNK_H
#define UCCL_FLOW_SEND_CHUNK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

/*
 * Chunks that grew take no longer than this at the rate of the flow, so that choices among slow paths stay fine: as
 * long as segments that Linux hands to a NIC (tcp_tso_autosize(), sk_pacing_shift).
 */
#define UCCL_CHUNK_NS UCCL_NS_PER_MS

/* Chunks are short until this many were acknowledged or lost: one or two windows at 400 Gb/s. PROTOCOL R277 */
#define UCCL_CHUNK_BEGIN 128

struct uccl_chunk {
	uint32_t bytes;		/* as losses have it */
	uint32_t most, least;	/* bytes; most is least times a power of two, and least of whole words if most is */
	uint32_t sent, lost;	/* whose fate is known, since bytes changed or was confirmed; brittle: sent packets */
	uint32_t begins;	/* chunks until the flow has begun */
	uint32_t clean;		/* brittle: packets without a loss, after which chunks grow; 0: it is not */
};

/*
 * Begins with the largest; if the peer is `brittle`, with the smallest. `most` > 0: bytes of the largest chunk;
 * `packet` > 0: payload of one packet, or less.
 */
void uccl_chunk_init(struct uccl_chunk *c, uint32_t most, uint32_t packet, bool brittle);

/* A chunk was acknowledged or lost. */
void uccl_chunk_fate(struct uccl_chunk *c, bool lost);

/*
 * The size for those that are described next. `window`: bytes that may be in flight, UINT64_MAX: no limit; `inflight`:
 * bytes that are; `slots`: chunks that may be; `quick`: bytes that the network delivers in UCCL_CHUNK_NS;
 * `queued`: bytes of the flow that wait in queues of the network.
 */
uint32_t uccl_chunk_bytes(const struct uccl_chunk *c, uint64_t window, uint64_t inflight, uint32_t slots,
			  uint64_t quick, uint64_t queued);

#endif
