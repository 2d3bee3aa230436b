/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How many receive slots a packet takes. Most NICs have a queue of packets: a packet takes one slot. A socket has a
 * queue of bytes, and counts for each packet the memory that it lies in: there a slot is a power of two of bytes.
 * PROTOCOL R376
 */
#ifndef UCCL_BASE_SLOT_UNIT_H
#define UCCL_BASE_SLOT_UNIT_H

#include <stdint.h>

#include "base/units.h"

/* The bytes of a slot as a shift, if a slot is not a packet (0). On the wire less UCCL_SLOT_UNIT_BASE. */
#define UCCL_SLOT_UNIT_BASE 9
#define UCCL_SLOT_UNIT_MAX (UCCL_SLOT_UNIT_BASE + 15)

/* A queue of bytes. */
struct uccl_slot_queue {
	uint8_t unit;	/* a slot is 2^x bytes; 0: the queue is of packets */
	uint32_t units; /* slots that it holds */
};

/*
 * The most memory that a packet of `len` bytes takes in a socket's queue, as Linux counts it (sk_buff.truesize).
 * Drivers of NICs give a packet a page at least. What was sent on this host lies in a block of a power of two up to 16
 * KiB, and in pages beyond that: some 400 bytes are for headers, and 256 for the sk_buff.
 */
static inline uint32_t uccl_slot_bytes(uint32_t len)
{
	return (uint32_t)uccl_max(4096 + 768, uccl_min(2 * (uint64_t)len + 1024, (uint64_t)len + 8832));
}

/* The slots that a packet of `len` bytes takes. `unit`: see uccl_slot_queue. */
static inline uint32_t uccl_slot_count(uint8_t unit, uint32_t len)
{
	return unit ? (uccl_slot_bytes(len) + (1u << unit) - 1) >> unit : 1;
}

#endif
