/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The events of the paper's Appendix A (and two more), one function each. They are the only code that calls
 * a policy; those of the appendix are each called from exactly one place, see the table in CONTRIBUTING.md. For flow
 * only.
 */
#ifndef UCCL_FLOW_EVENTS_H
#define UCCL_FLOW_EVENTS_H

#include "flow/flow.h"

/* No credit is left for new data. */
bool uccl_event_credit_spent(struct uccl_flow *f);
/* onChunkSize: bytes of new data that may leave now, at most `want`; 0: wait. */
uint32_t uccl_event_chunk_size(struct uccl_flow *f, uint32_t want, uint64_t now);
/* Bytes of the direct writes that are described next; of flows that may write. */
uint32_t uccl_event_write_size(const struct uccl_flow *f);
/*
 * With several rails: has this one room for `want` bytes of new data? And which one should they take, of those that
 * have: the one whose window is emptiest. PROTOCOL R387
 */
#define UCCL_RAIL_NONE UINT8_MAX
bool uccl_event_rail_room(const struct uccl_flow *f, uint8_t rail, uint32_t want, uint64_t now);
uint8_t uccl_event_rail(const struct uccl_flow *f, uint32_t want, uint64_t now);
/* onPacingChunk: a chunk of new data leaves on this path; the earliest time for the next one of its rail. */
uint64_t uccl_event_pacing_chunk(struct uccl_flow *f, uint16_t path, uint32_t bytes, uint64_t now);
/* onSelectPath: an index of f->paths. left: bytes of its message, see struct uccl_chunk_info. */
uint16_t uccl_event_select_path(struct uccl_flow *f, uint32_t bytes, uint64_t left, uint64_t now);
/*
 * onTxRtxChunk: may the retransmission of these bytes leave? Gated by receive slots, unless it is a descriptor, and
 * by paced credit, which it then spends; not by the window, nor by other credit. PROTOCOL R13 R14 R63 R166
 */
bool uccl_event_tx_rtx_chunk(struct uccl_flow *f, uint32_t bytes, bool desc, uint64_t now);
/* So many bytes that were declared lost came before they were sent again: paced credit is spent as if they had been. */
void uccl_event_unlost(struct uccl_flow *f, uint32_t bytes);
/* onRxChunk, onRxRtxChunk: payload arrived for the first time. */
void uccl_event_rx_chunk(struct uccl_flow *f, uint32_t bytes, uint64_t now);
void uccl_event_rx_rtx_chunk(struct uccl_flow *f, uint32_t bytes, uint64_t now);
/* onRxACK: one acknowledgement block was taken in, what it says of a rail. The NIC's backlog is filled in here. */
void uccl_event_rx_ack(struct uccl_flow *f, uint8_t rail, struct uccl_ack_info *info, uint64_t now);
/* One path's RTT sample; `marked`: bytes on it that the network is known to have marked since the last one. */
void uccl_event_path_sample(struct uccl_flow *f, uint16_t path, uint64_t rtt_ns, uint64_t marked, uint64_t now);
/* Payload of a path was acknowledged, and counts as in flight no more. */
void uccl_event_path_landed(struct uccl_flow *f, uint16_t path, uint64_t now);
/* onRxCredit. turn: see uccl_credit_ops.on_credit. */
void uccl_event_rx_credit(struct uccl_flow *f, uint64_t granted, uint64_t turn, uint64_t now);
/*
 * The sender tells what it wants to have sent in all, what was lost of it, and where the message ends that leaves next
 * (0: it does not say).
 */
void uccl_event_rx_demand(struct uccl_flow *f, uint64_t demand, uint64_t lost, uint64_t message, uint64_t now);
/* The peer is asked for `bytes` bytes that have not come. */
void uccl_event_asked(struct uccl_flow *f, uint64_t bytes, uint64_t now);
/* The congestion window, bytes, of all rails together; */
uint64_t uccl_event_cc_window(const struct uccl_flow *f);
/* and the same with how much larger it may be because acknowledgements wait on their way back. */
uint64_t uccl_event_window(const struct uccl_flow *f);
/* Nobody holds this flow to any credit now. */
bool uccl_event_credit_free(const struct uccl_flow *f);
/* Of the items that wait for credit, count the bytes of at most this many. */
#define UCCL_DEMAND_ITEMS 64
/* Bytes that wait and would need credit; of a long queue the beginning will do. */
uint64_t uccl_event_credit_backlog(const struct uccl_flow *f);
/* Bytes that may still be sent on the credit that is there. PROTOCOL R290 */
uint64_t uccl_event_credit_left(const struct uccl_flow *f);
/* That credit also covers `bytes` more, behind those that wait. */
bool uccl_event_credit_covers(const struct uccl_flow *f, uint64_t bytes);
/* From now on `of` flows, this one among them, share what one would have. */
void uccl_event_share(struct uccl_flow *f, uint32_t of);
/* Chunks were declared lost. */
void uccl_event_loss(struct uccl_flow *f, const struct uccl_loss_info *loss, uint64_t now);
/* The cumulative credit to announce to the peer, and of which turn; 0: none. */
uint64_t uccl_event_grant(struct uccl_flow *f, uint64_t *turn, uint64_t now);

#endif
