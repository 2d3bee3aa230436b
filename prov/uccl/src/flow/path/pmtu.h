/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How long may packets to a peer be? A link on the way, or the peer's own, may carry less than ours. Nobody needs to
 * say so: long packets are lost, short ones arrive. So (RFC 8899) when long ones were lost round trip after round trip
 * and none came through, packets get so short that every network carries them; then longer ones are tried, one at a
 * time, each with bytes that are to be sent anyway. After a minute, and then more and more seldom, it is tried again:
 * routes change.
 *
 * Routers that do say so (ICMP) are believed if what they say is plausible, and until it proves wrong. PROTOCOL R152
 *
 * Lengths are those of packets as the NIC gets them, without seal: header, payload and tail.
 */
#ifndef UCCL_FLOW_PATH_PMTU_H
#define UCCL_FLOW_PATH_PMTU_H

#include <stdbool.h>
#include <stdint.h>

/* Any network for IPv6 carries packets of this length, with room for tunnels (RFC 9000 14). So do those for IPv4. */
#define UCCL_PMTU_BASE 1200
#define UCCL_PMTU_LEAST 500
/* Round trips in a row in which long packets were lost. */
#define UCCL_PMTU_ROUNDS 3
/* A length that was lost this many times seems not to pass. */
#define UCCL_PMTU_TRIES 3
/* The search ends when it knows the length so well. */
#define UCCL_PMTU_STEP 32
/* From the end of a search to the next, doubled by each that finds nothing, up to the other. */
#define UCCL_PMTU_RAISE_NS (60 * 1000000000ull)
#define UCCL_PMTU_RAISE_MAX_NS (600 * 1000000000ull)

/* How long packets of a flow may be. */
struct uccl_packet_cfg {
	uint32_t chunk_bytes;	/* payload of the largest packet */
	uint32_t mtu;		/* largest packet */
	uint32_t mtu_rx;	/* largest packet that the peer may send */
	uint32_t mtu_known;	/* what the host knows of the way: the first packets are no longer; 0: nothing */
	bool find_mtu;		/* the way may carry less than `mtu`: find it out. Not with direct writes */
};

struct uccl_pmtu {
	uint32_t bytes;		/* of the longest packet that may leave, but for a trial */
	uint32_t most;		/* that both hosts take */
	uint32_t least; /* UCCL_PMTU_LEAST, or more, so that chunks of the longest packets fit into sub-segments */
	uint32_t bad;		/* packets of this length seem not to pass; above `most`: no such length is known */
	uint32_t failed;	/* the longest trial of those that `tries` counts */
	uint8_t tries;		/* trials lost since one came through, or since bad was set */
	uint8_t rounds;		/* in a row, in which long packets were lost and none came through */
	uint8_t strikes;	/* searches in a row that found nothing: the back-off */
	bool from_network;	/* bytes is what the network said */
	bool changed;		/* bytes did: for the owner, who takes it back by uccl_pmtu_take_changed */
	uint64_t round_ns;	/* end of the latest of those rounds: what left before says nothing new */
	uint64_t raise_at;	/* when bad is forgotten */
	uint64_t deaf_until;	/* the network said what was not true: it is not listened to before */
	uint64_t trial;		/* CSN + 1 of the trial under way; 0: none */
	uint32_t trial_bytes;
};

void uccl_pmtu_init(struct uccl_pmtu *p, uint32_t most);
/* A packet that is no trial was lost, which had left at sent_ns. True: `bytes` shrank. */
bool uccl_pmtu_lost(struct uccl_pmtu *p, uint32_t bytes, uint64_t sent_ns, uint64_t now);
/* A packet of `bytes` bytes arrived. */
void uccl_pmtu_arrived(struct uccl_pmtu *p, uint32_t bytes);
/* The network says that it carries no more. True: `bytes` shrank. */
bool uccl_pmtu_reported(struct uccl_pmtu *p, uint32_t bytes, uint64_t now);
/* Which length is to be tried next; 0: none now. */
uint32_t uccl_pmtu_next(struct uccl_pmtu *p, uint64_t now);
/* May the next packet have this length, which is more than `bytes`, as a trial? */
bool uccl_pmtu_may(struct uccl_pmtu *p, uint32_t bytes, uint64_t now);
/* This chunk is a trial. */
void uccl_pmtu_try(struct uccl_pmtu *p, uint64_t csn, uint32_t bytes);
/* The trial arrived, or was lost. True: `bytes` grew. */
bool uccl_pmtu_tried(struct uccl_pmtu *p, bool arrived, uint64_t now);

/* Did `bytes` change since this was asked last? */
static inline bool uccl_pmtu_take_changed(struct uccl_pmtu *p)
{
	bool changed = p->changed;

	p->changed = false;
	return changed;
}

#endif
