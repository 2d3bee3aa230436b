/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Free-running counters of one engine, and the named reasons why something from the wire was refused. */
#ifndef UCCL_FLOW_OBSERVE_STATS_H
#define UCCL_FLOW_OBSERVE_STATS_H

#include <stdint.h>

/* X(symbol, text): the text is what a person reads. */
#define UCCL_DROP_REASONS(X)                                                                                           \
	X(SHORT, "shorter than the header")                                                                            \
	X(MAGIC, "not ours")                                                                                           \
	X(TYPE, "unknown type")                                                                                        \
	X(LENGTH, "lengths do not agree")                                                                              \
	X(TOKEN, "unknown token")                                                                                      \
	X(SOURCE, "wrong source address")                                                                              \
	X(STATE, "not expected in this state")                                                                         \
	X(PATH, "path index out of range")                                                                             \
	X(WINDOW, "sequence number outside the window")                                                                \
	X(DUPLICATE, "already received")                                                                               \
	X(ACK, "acknowledges what was not sent")                                                                       \
	X(RECORD, "malformed record")                                                                                  \
	X(HANDLE, "unknown message handle")                                                                            \
	X(RANGE, "outside the granted buffer")                                                                         \
	X(COOKIE, "bad or old cookie")                                                                                 \
	X(MAC, "connect key does not match")                                                                           \
	X(KEYLESS, "connect without key refused")                                                                      \
	X(STALE, "from or to a dead incarnation")                                                                      \
	X(CREDIT, "credit or slot count out of range")                                                                 \
	X(MEMORY, "no memory for it")                                                                                  \
	X(EPOCH, "immediate of another epoch")                                                                         \
	X(SECURITY, "asks for another security than ours")                                                             \
	X(SEAL, "its code (MAC) is wrong")                                                                             \
	X(REPLAY, "genuine, but repeated or too old to check")                                                         \
	X(OVERLAP, "brings bytes that came before")                                                                    \
	X(WANT, "asks for a slot again too soon")                                                                      \
	X(REPORT, "ICMP that quotes no packet of ours")                                                                \
	X(KERNEL, "dropped by the kernel: for nobody here, or no room")                                                \
	X(UNWANTED, "for what has ended, or what nobody takes: thrown away")                                           \
	X(VERSION, "of another version of the protocol")

enum uccl_drop {
#define X(sym, text) UCCL_DROP_##sym,
	UCCL_DROP_REASONS(X)
#undef X
	UCCL_DROP_COUNT
};

const char *uccl_drop_text(enum uccl_drop reason);

struct uccl_stats {
	uint64_t tx_packets, tx_bytes;	   /* all that went to the NIC; bytes of payload of first transmissions */
	uint64_t rx_packets, rx_bytes;	   /* accepted packets; bytes of payload delivered once */
	uint64_t tx_lane_bytes, rx_lane_bytes; /* of payload that lanes carried; no other counter has it */
	uint64_t rtx_packets, rtx_bytes;   /* retransmissions */
	uint64_t spurious;		   /* retransmissions that the peer said were not needed */
	uint64_t probes, rtos;
	uint64_t lost_proof, lost_rack, lost_rto;
	uint64_t acks_tx, acks_rx;
	uint64_t quarantined, rerolled;	   /* paths */
	uint64_t connects, connect_fails, peers_dead, peers_closed;
	uint64_t fences, doubtful, writes_rx, writes_tx;
	uint64_t write_renewed;		   /* paths made anew, or tried again, as they swallowed direct writes */
	uint64_t dup_writes, fifo_broken;  /* direct writes doubled, or out of order on a path declared FIFO */
	uint64_t trains_off;		   /* peers to whom trains were found broken, each time */
	uint64_t train_tests, train_trials; /* trains compared with single packets; short ones sent to see */
	uint64_t subsegments_tx, subsegments_rx; /* packets with a sub-segment */
	uint64_t mtu_cuts, mtu_raises;	   /* times that packets to a peer were made shorter, and longer */
	uint64_t slots_asked, slots_returned; /* silent peers asked to give receive slots back; grants that came back */
	uint64_t marked_rx, marked_tx;	   /* bytes of payload that the network marked (ECN): to here, and from here */
	uint64_t link_downs;		   /* how often the NIC's link was lost */
	uint64_t placements, placement_hits; /* payloads scattered by prediction: tried, right */
	uint64_t gathered;		   /* bytes of payload that came in packets to memory of a device by itself */
	uint64_t unexpected, unexpected_bytes_max;
	uint64_t rma_ops, atomic_ops;	   /* of this endpoint on memory of others, and its own, that were begun */
	/* Of the NIC (nic/nic.h, count): direct writes in place, registrations kept for them, queue pairs for them. */
	uint64_t writes_in_place, mr_hits, mr_misses, mr_gone, mr_evicted, mw_bound, mw_failed;
	uint64_t qp_made, qp_reclaimed, qp_now;
	uint64_t dropped[UCCL_DROP_COUNT];
};

#endif
