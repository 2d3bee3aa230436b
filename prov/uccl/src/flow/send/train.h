/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Do trains reach a peer? Packets that the NIC was given together leave as one and are cut into packets below us (UDP
 * GSO). There are kernels and NICs that cut them wrong: the packets of a train are lost, single ones pass.
 *
 * Losses alone do not show it: a full queue loses as much. So when many packets are lost, a quarter of the next ones,
 * chosen at random, leave by themselves. A network that treats all alike loses of both the same share, however its
 * losses come: the choice knows nothing of them. If the others are lost far more often, there are no more trains to
 * this peer, but for a short one now and then to see whether they pass again. PROTOCOL R160 R161
 *
 * CSNs are those of a flow: the number of every chunk sent for the first time.
 */
#ifndef UCCL_FLOW_SEND_TRAIN_H
#define UCCL_FLOW_SEND_TRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "flow/observe/stats.h"
#include "flow/send/train_wait.h"

/* This many losses among this many chunks in a row make a comparison begin. */
#define UCCL_TRAIN_LOSSES 32
#define UCCL_TRAIN_WATCH 1024
/* Chunks of a comparison at most, and one in how many of them leaves by itself. */
#define UCCL_TRAIN_TEST 4096
#define UCCL_TRAIN_SHARE 4
/* Chunks of a trial, and how many must have left together to tell anything. */
#define UCCL_TRAIN_TRIAL 8
#define UCCL_TRAIN_TRIAL_MIN 4
/* After a comparison that found nothing, or a trial that did not come about. */
#define UCCL_TRAIN_PAUSE_NS 1000000000ull
/* From the end of trains to the first trial, doubled by each that fails, up to the other. */
#define UCCL_TRAIN_OFF_NS (60 * 1000000000ull)
#define UCCL_TRAIN_OFF_MAX_NS (3600 * 1000000000ull)

enum uccl_train_state {
	UCCL_TRAINS_ON,
	UCCL_TRAINS_COMPARED, /* a part leaves by itself */
	UCCL_TRAINS_OFF,
	UCCL_TRAINS_TRIED, /* a short train is under way, everything else leaves by itself */
};

/* Trains are short until so many bytes are acknowledged: two or three windows at 400 Gb/s. PROTOCOL R288 */
#define UCCL_TRAIN_BEGIN_BYTES (2u << 20)

/* What is known of the network, for the length of trains: bytes. */
struct uccl_train_sight {
	uint64_t link;		/* that the NIC's link carries in some time */
	uint64_t delivered;	/* that the network delivers in that time */
	uint64_t queued;	/* that wait in its queues */
	uint64_t acked;		/* of the flow, since it began */
};

/* What the NIC and the peer do with trains. */
struct uccl_train_cfg {
	uint32_t bytes;		/* payload that the NIC likes to send as one; 0: indifferent */
	bool shorten;		/* shorter trains where queues stand: link_bps is the rate of a link. PROTOCOL R288 */
	uint8_t segments_tx;	/* most segments of a chunk (a train) that the peer takes. Needs tx_sync */
	bool segments_rx;	/* we take segments. Not with direct writes */
	bool pads_tx;		/* the peer takes padded packets. Needs segments_tx and bytes */
};

/* train.c writes it. All zero at first, and then uccl_train_init. */
struct uccl_train {
	uint8_t state;
	uint8_t strikes;	/* trials that failed, or comparisons soon after one that did not */
	bool changed;		/* trains ended or began again: for the owner, who takes it back */
	bool closed;		/* TRIED: all of it has left */
	bool brief;		/* trains are short: queues stand, or the flow begins */
	bool seen;		/* the flow has begun */
	uint16_t path;		/* TRIED */
	uint32_t sent[2];	/* COMPARED: in trains, by themselves */
	uint32_t lost[2];	/* likewise; ON and TRIED: [0] alone */
	uint64_t first, end;	/* CSNs of what is looked at, [first, end) */
	uint64_t sent_ns;	/* TRIED: when it left */
	uint64_t at;		/* OFF: no trial before; ON: no comparison before */
	uint64_t on_ns;		/* when a trial succeeded last; 0: never */
	struct uccl_train_wait wait;
};

/* `brief`: trains are short while the flow begins. */
static inline void uccl_train_init(struct uccl_train *t, bool brief)
{
	t->brief = brief;
}

/* A chunk leaves for the first time. */
struct uccl_train_chunk {
	uint64_t csn;
	uint64_t una;		/* all before this are acknowledged */
	uint16_t path;
	bool more;		/* UCCL_TRAIN_TRIAL chunks and more may leave now, this one included */
};

/* Must the chunk leave by itself? Call it only if the state is not ON. */
bool uccl_train_single(struct uccl_train *t, const struct uccl_train_chunk *c, struct uccl_rng *rng,
		       struct uccl_stats *stats, uint64_t now);
/*
 * A chunk that left once is lost; `single`: what uccl_train_single said of it. `una`: as above; `nxt`: the CSN that
 * will be given next.
 */
void uccl_train_lost(struct uccl_train *t, uint64_t csn, bool single, uint64_t una, uint64_t nxt,
		     struct uccl_stats *stats, uint64_t now);

/* `s` is how the network looks now; `most` is the payload of the longest train. PROTOCOL R288 */
void uccl_train_see(struct uccl_train *t, uint32_t most, const struct uccl_train_sight *s);
/* Payload of the next train, in packets of `each`. */
uint32_t uccl_train_bytes(const struct uccl_train *t, uint32_t most, uint32_t each);

#endif
