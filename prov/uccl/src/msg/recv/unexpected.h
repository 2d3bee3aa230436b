/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory for what came and has no place yet: payload that is not matched, and our records of messages and requests.
 * A peer may hold at most as much of it as is left for others. A peer that holds much is told to send envelopes only;
 * if it holds more, its packets are dropped, and it must send them again. PROTOCOL R42, R120
 */
#ifndef UCCL_MSG_RECV_UNEXPECTED_H
#define UCCL_MSG_RECV_UNEXPECTED_H

#include "msg/msg_ep.h"

/* The message, of `len` bytes, has to be kept. -1: the peer has its share of memory, so the message must come again. */
int msg_rx_hold(struct uccl_msg_rx *rx, uint64_t len);
/* The same for `len` bytes that have no buffer: lanes hold them, or they come when there may be a place for them. */
int msg_rx_unplaced(struct uccl_msg_rx *rx, uint64_t len);
/* They have a place now, or will never have one. */
void msg_rx_placed(struct uccl_msg_rx *rx);
/* The message need not be kept any more. */
void msg_rx_unhold(struct uccl_msg_rx *rx);
/*
 * Get memory for `len` bytes of payload that came before their receive; `now` of them are here. Returns 0, or -1: no
 * memory, or the peer holds more than its share.
 */
int msg_rx_buffer(struct uccl_msg_rx *rx, uint64_t len, uint64_t now);
/* Get the memory that msg_rx_unplaced() counted already: payload has come before its place. -1: no memory. */
int msg_rx_buffer_late(struct uccl_msg_rx *rx);
void msg_rx_buffer_free(struct uccl_msg_rx *rx);
/* Keep the first bytes of what has no buffer. -1: no memory. */
int msg_rx_first(struct uccl_msg_rx *rx, const uint8_t *data, uint32_t len);
void msg_rx_first_free(struct uccl_msg_rx *rx);
/* The peer ended. Its messages that are held count, too, among those that ended peers left. */
void msg_unexpected_left(struct uccl_peer *p);
/* Tell the peer what it may send. */
void msg_peer_limits(struct uccl_peer *p);
/* Bytes of all that peers may hold together. */
uint64_t msg_unexpected_limit(const struct uccl_msg_ep *m);

#endif
