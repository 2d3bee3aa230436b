/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Checks of bytes and of order that need not know the sender: patterns, canaries, the order of messages. Invariants I1,
 * I3 and I4 rest on them.
 */
#ifndef UCCL_SIM_CHECK_H
#define UCCL_SIM_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

/* Untouched bytes around and behind. */
#define UCCL_CHECK_CANARY 64

/* Bytes [off, off + len) of the pattern that `seed` names: every byte depends on its place. */
void uccl_check_fill(uint64_t seed, uint64_t off, void *buf, uint64_t len);
/* Offset of the first byte that is not as uccl_check_fill would make it; `len`: all are. */
uint64_t uccl_check_match(uint64_t seed, uint64_t off, const void *buf, uint64_t len);

/* A buffer with canaries on both sides; NULL: no memory. */
uint8_t *uccl_check_alloc(uint64_t len);
/* True if both canaries are whole. */
bool uccl_check_whole(const uint8_t *buf, uint64_t len);
void uccl_check_free(uint8_t *buf);
/* What uccl_owner_add must watch. */
static inline const uint8_t *uccl_check_base(const uint8_t *buf)
{
	return buf - UCCL_CHECK_CANARY;
}
static inline uint64_t uccl_check_total(uint64_t len)
{
	return len + 2 * UCCL_CHECK_CANARY;
}

/* One message that arrived: of a stream (same pair, same kind of match), the place in sending and in receiving order.
 */
struct uccl_check_pair {
	uint64_t stream;
	uint64_t sent, received;
};

/*
 * Sorts v by stream and time of sending. Returns the index of the first entry that was received before its
 * predecessor; n: all were received in order.
 */
uint32_t uccl_check_order(struct uccl_check_pair *v, uint32_t n);

#endif
