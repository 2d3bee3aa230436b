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

/* X: the counters of a report (FI_UCCL_STATS), in its order. */
#define UCCL_COUNTERS(X)                                                                                               \
	X(tx_packets) X(tx_bytes)	/* all that went to the NIC; bytes of payload of first transmissions */        \
	X(rx_packets) X(rx_bytes)	/* accepted packets; bytes of payload delivered once */                        \
	X(tx_lane_bytes) X(rx_lane_bytes) /* of payload that lanes carried; no other counter has it */                 \
	X(lanes_left)			/* times that lanes were late, and not used for a while */                     \
	X(rtx_packets) X(rtx_bytes)	/* retransmissions */                                                          \
	X(spurious)			/* retransmissions that the peer said were not needed */                       \
	X(probes) X(rtos)                                                                                              \
	X(lost_proof) X(lost_rack) X(lost_rto)                                                                         \
	X(chunks_tx)			/* chunks that left for the first time */                                      \
	X(acks_tx) X(acks_rx) X(acks_alone) /* acknowledgements; packets that carried nothing else */                  \
	X(trains_short)			/* times that trains became short: they wait or are lost in the network */     \
	X(quarantined) X(rerolled)	/* paths */                                                                    \
	X(connects) X(connect_fails) X(peers_dead) X(peers_closed)                                                     \
	X(fences) X(doubtful) X(writes_rx) X(writes_tx)                                                                \
	X(link_downs)			/* how often the NIC's link was lost */                                        \
	X(subsegments_tx) X(subsegments_rx) /* packets with a sub-segment */                                           \
	X(mtu_cuts) X(mtu_raises)	/* times that packets to a peer were made shorter, and longer */               \
	X(trains_off)			/* peers to whom trains were found broken, each time */                        \
	X(train_tests) X(train_trials)	/* trains compared with single packets; short ones sent to see */              \
	X(slots_asked) X(slots_returned) /* silent peers asked to give receive slots back; grants that came back */    \
	X(marked_rx) X(marked_tx)	/* bytes of payload that the network marked (ECN): to here, and from here */   \
	X(placements) X(placement_hits)	/* payloads scattered by prediction: tried, right */                           \
	X(unexpected) X(unexpected_bytes_max)                                                                          \
	X(write_renewed)		/* paths made anew, or tried again, as they swallowed direct writes */         \
	X(dup_writes) X(fifo_broken)	/* direct writes doubled, or out of order on a path declared FIFO */           \
	X(gathered)			/* bytes of payload that came in packets to memory of a device by itself */    \
	X(rma_ops) X(atomic_ops)	/* of this endpoint on memory of others, and its own, that were begun */       \
	X(aborts) X(aborted)		/* operations that were to be taken back; peers' that were, here */            \
	/* Of the NIC (nic/nic.h, count): direct writes in place, registrations and queue pairs for them. */           \
	X(writes_in_place) X(mr_hits) X(mr_misses) X(mr_gone) X(mr_evicted) X(mw_bound) X(mw_failed)                   \
	X(qp_made) X(qp_reclaimed) X(qp_now)

struct uccl_stats {
#define X(name) uint64_t name;
	UCCL_COUNTERS(X)
#undef X
	uint64_t dropped[UCCL_DROP_COUNT];
};

#endif
