/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The options of one simulated run. A run draws them from its seed ("swarm": each fault and each feature is present in
 * some runs and absent in others); a person may force any of them by name.
 */
#ifndef UCCL_SIM_OPTIONS_H
#define UCCL_SIM_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"

/* X(name, default, meaning); numbers, probabilities are 0..1. */
#define UCCL_SIM_OPTIONS(X)                                                                                            \
	X(nodes, 2, "endpoints, 1..8")                                                                                 \
	X(nic, 0, "0: packet NIC, 1: direct-write NIC")                                                                \
	X(mtu, 4096, "largest packet, bytes")                                                                          \
	X(write_max, 32768, "largest direct write, bytes")                                                             \
	X(brittle, 0, "direct-write NIC: says that a path ends with the loss of a part of a write")                    \
	X(tx_sync, 1, "packet NIC: payload is free when tx() returns")                                                 \
	X(labels, 64, "entropy labels of a NIC")                                                                       \
	X(placements, 0, "share of NICs that scatter payload to predicted places")                                     \
	X(placements_most, 0, "most of them at once, 0: no limit")                                       \
	X(misplaced, 0, "share of predicted places where something comes that nobody takes")                           \
	X(ages, 1, "NIC tells how long ago a packet arrived")                                                          \
	X(shared, 0, "control packets take the slots of data")                                                         \
	X(liveness, 1, "NIC tells of closed peers (GONE)")                                                             \
	X(icmp, 1, "NIC tells of closed ports (UNREACH)")                                                              \
	X(slots, 256, "receive slots of a NIC's queue")                                                                \
	X(slot_unit, 0, "x: a slot of the queue is 2^x bytes, as of a socket; 0: a packet takes one slot") \
	X(tx_depth, 256, "sends a NIC may have under way")                                                             \
	X(read_us, 5, "a NIC reads and reports sends up to this late")                                                 \
	X(fence_us, 100, "a fence takes up to this long")                                                              \
	X(proof_us, 1000, "proof of death takes up to this long")                                                      \
	X(trains, 0, "packet NIC with tx_sync: neighbours leave as trains")                                            \
	X(train_fault, 0, "of trains are lost 1: all, 2: but the first, 3: but the last, 4: of equal packets")         \
	X(answer_ms, 0, "direct-write NIC: writes are read until the peer's NIC has them, at most so long")            \
	X(leaky, 0, "NIC is broken: nothing stops a write, places are not forgotten")                                  \
	X(rate_mbps, 10000, "rate of every port, 0: infinite")                                                         \
	X(queue_kb, 1024, "queue of every port")                                                                       \
	X(mark_kb, 0, "queue of a port from which on packets are marked (ECN), 0: none are")                           \
	X(mark, 0, "packets marked at random")                                                                         \
	X(delay_us, 5, "delay of the fastest route")                                                                   \
	X(spread_us, 5, "slower routes have up to this more")                                                          \
	X(jitter_us, 1, "random delay of a packet")                                                                    \
	X(routes, 8, "routes between two nodes")                                                                       \
	X(rails, 0, "routes are rails of the NICs: labels take turns")                                                 \
	X(fifo, 0, "routes never reorder, and the engine is told so")                                                  \
	X(cc, 0, "congestion control: its name, or its place among them")                                              \
	X(path, 0, "path choice: its name, or its place among them")                                                   \
	X(credit, 0, "credit policy: its name, or its place among them")                                               \
	X(paths, 8, "paths per peer")                                                                                  \
	X(chunk, 0, "chunk bytes, 0: what fits")                                                                       \
	X(eager, 16384, "messages up to this go without rendezvous")                                                   \
	X(inject, 4096, "largest injected message")                                                                    \
	X(window, 256, "chunks in flight")                                                                             \
	X(unexpected_kb, 65536, "unexpected payload an endpoint buffers")                                              \
	X(peer_timeout_ms, 600000, "a silent peer fails after this")                                                   \
	X(connect_timeout_ms, 300000, "a peer that never answered fails after this")                                   \
	X(keepalive_ms, 1000, "a quiet peer is probed this often, 0: never")                                           \
	X(keyless, 0, "addresses are places only")                                                                     \
	X(start_ns, 1000000000, "the clock begins here")                                                               \
	X(poll_us, 2, "an endpoint polls up to this late")                                                             \
	X(messages, 60, "messages in all")                                                                             \
	X(size_max, 65536, "largest message")                                                                          \
	X(big, 0.1, "share of messages above the eager limit")                                                         \
	X(work_ms, 5, "messages are posted during this time")                                                          \
	X(late, 0.5, "share of receives posted after the message may have come")                                       \
	X(truncate_recv, 0.05, "share of receives that are too short")                                                 \
	X(inject_share, 0.2, "share of small sends that are injected")                                                 \
	X(early, 0.1, "share of sends that complete early")                                                            \
	X(delivery, 0.2, "share of sends that complete at delivery")                                                   \
	X(with_data, 0.5, "share of sends with remote CQ data")                                                        \
	X(vector, 0.2, "share of operations with several buffers")                                                     \
	X(self, 0.05, "share of messages to oneself")                                                                  \
	X(untagged, 0.3, "share of untagged messages")                                                                 \
	X(exact, 0.3, "share of tagged messages with a receive of their own")                                          \
	X(directed, 0.3, "share of the others whose receives name the source")                                         \
	X(peek, 0.05, "share of tagged messages that are looked for")                                                  \
	X(multi, 0.3, "chance that a node takes untagged messages in multi-receive buffers")                           \
	X(cancel, 0.05, "share of receives that are cancelled, and posted again")                                      \
	X(rma, 0, "share of messages in whose place is a write, a read or an atomic")                                  \
	X(abort, 0, "share of operations that are taken back; sends are sent again")                                   \
	X(loss, 0, "packets lost at random")                                                                           \
	X(burst, 0, "chance that a route enters a bad time")                                                           \
	X(burst_end, 0.1, "chance that it leaves it, per packet")                                                      \
	X(kind_loss, 0, "loss of one kind of packet")                                                                  \
	X(kind, 8, "that kind: type byte, 63: direct writes")                                                          \
	X(nth, 0, "every nth packet of a pair is lost")                                                                \
	X(dup, 0, "packets doubled")                                                                                   \
	X(old_stay, 0, "share of the doubles that come up to stall_ms late")                                           \
	X(reorder, 0, "packets delayed by up to reorder_us")                                                           \
	X(reorder_us, 50, "see reorder")                                                                               \
	X(stall, 0, "packets delayed by up to stall_ms")                                                               \
	X(stall_ms, 10000, "see stall")                                                                                \
	X(corrupt, 0, "packets with a flipped bit, found by the checksum")                                             \
	X(corrupt_pass, 0, "flipped bits are not found: only memory safety is checked")                                \
	X(truncate, 0, "packets cut short")                                                                            \
	X(torn, 0, "lost writes that place a part")                                                                    \
	X(dup_writes, 0, "direct writes are doubled too")                                                              \
	X(flap_ms, 0, "all routes die for half of each such period")                                                   \
	X(holes, 0, "black holes of one route")                                                                        \
	X(cuts, 0, "black holes of all routes of a direction")                                                         \
	X(hole_ms, 20, "longest black hole")                                                                           \
	X(shrinks, 0, "times that the MTU shrinks, on one route or on all of a direction")                             \
	X(shrink_to, 1500, "longer packets are lost then")                                                             \
	X(pause, 0, "packets after which PFC stops their node's port; nothing is lost")                                \
	X(pause_us, 100, "for up to this long")                                                                        \
	X(breaks, 0, "paths that the NIC reports broken")                                                              \
	X(fault_ms, 30, "faults end after this")                                                                       \
	X(restarts, 0, "endpoints that die and come back")                                                             \
	X(kills, 0, "endpoints that die for good")                                                                     \
	X(sleeps, 0, "times that an endpoint does not poll")                                                           \
	X(sleep_ms, 100, "longest of them")                                                                            \
	X(predict, 0, "drawn are long packets and messages, whose places NICs predict")                                \
	X(aborts, 0, "drawn is a calm network, on which most operations are taken back")                               \
	X(lanes, 0, "lanes of each endpoint, 2 at most; on a packet NIC")                                              \
	X(lane_sleeps, 0, "times that a lane does not poll, of each endpoint")                                         \
	X(cmd_us, 0, "a sleeping lane or primary sees a command of the other up to this late")                         \
	X(cq, 65536, "unread completions at which an application takes no more into multi-receive buffers")            \
	X(check_every, 64, "events between checks of inner state")                                                     \
	X(bound_ms, 60000, "after the faults everything must be done within this")

struct uccl_sim_options {
#define X(name, value, text) double name;
	UCCL_SIM_OPTIONS(X)
#undef X
};

/* Names of policies: the options cc, path and credit may be a place in these lists. Each ends with NULL. */
extern const char *const uccl_sim_cc[], *const uccl_sim_path[], *const uccl_sim_credit[];

/* No faults, everything ordinary. */
void uccl_sim_options_default(struct uccl_sim_options *o);
/* What a seed says. `forced` is a text of name=value, separated by commas or spaces, that overrides; may be NULL. */
void uccl_sim_options_draw(struct uccl_sim_options *o, uint64_t seed, const char *forced);
/* Apply name=value pairs. -FI_EINVAL: no such name, no number, or no policy. */
int uccl_sim_options_set(struct uccl_sim_options *o, const char *text);
/*
 * Text of the policies, by name, and of all that is not as by default, as uccl_sim_options_set reads it. Returns its
 * length, as snprintf does.
 */
size_t uccl_sim_options_print(const struct uccl_sim_options *o, char *buf, size_t size);
/* Help: name, default, meaning of each; calls `line` for each. */
void uccl_sim_options_help(void (*channel)(const char *name, double value, const char *text));

#endif
