/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A queue of commands from one thread to another: a ring of fixed size, first in first out, without a lock. Memory that
 * the sender wrote before it put a command is visible to the receiver that takes it. Neither side ever waits, and the
 * mailbox wakes nobody.
 *
 * `put` is written and read with memory_order_seq_cst. So a receiver that stores "I sleep" and then reads here sees the
 * command, or the sender that loads this flag after the put sees that the receiver sleeps.
 */
#ifndef UCCL_BASE_MAILBOX_H
#define UCCL_BASE_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One command, of one cache line. The two sides agree on the meaning of each field (lanes/lane_channel.h). */
struct uccl_lane_cmd {
	uint8_t kind;
	int32_t err;
	void *who, *what;
	uint8_t *at;
	uint64_t off, len, more;
	uint32_t id, gen;
};

#define UCCL_MAILBOX_LINE 64

struct uccl_mailbox {
	struct uccl_lane_cmd *ring;
	uint32_t cap;			/* a power of two */
	/* Each side has a cache line: its own counter, and the value of the other's that it saw last. */
	_Alignas(UCCL_MAILBOX_LINE) _Atomic uint32_t put; /* sender: commands put so far, modulo 2^32 */
	uint32_t seen_taken;				  /* sender: last seen value of `taken` */
	_Alignas(UCCL_MAILBOX_LINE) _Atomic uint32_t taken; /* receiver: commands taken so far, modulo 2^32 */
	uint32_t seen_put;				    /* receiver: last seen value of `put` */
};

/* `cap` is a power of two. False: out of memory. */
bool uccl_mailbox_init(struct uccl_mailbox *b, uint32_t cap);
/* Free the ring; no thread uses it any more. A zeroed mailbox is allowed. */
void uccl_mailbox_fini(struct uccl_mailbox *b);

/* Sender only: there is room for at least this many commands. */
static inline uint32_t uccl_mailbox_room(struct uccl_mailbox *b)
{
	uint32_t put = atomic_load_explicit(&b->put, memory_order_relaxed);

	b->seen_taken = atomic_load_explicit(&b->taken, memory_order_acquire);
	return b->cap - (put - b->seen_taken);
}

/* Sender only. False: the ring is full, and nothing changed. */
static inline bool uccl_mailbox_put(struct uccl_mailbox *b, const struct uccl_lane_cmd *l)
{
	uint32_t put = atomic_load_explicit(&b->put, memory_order_relaxed);

	if (put - b->seen_taken == b->cap && !uccl_mailbox_room(b))
		return false;
	b->ring[put & (b->cap - 1)] = *l;
	atomic_store(&b->put, put + 1);
	return true;
}

/* Receiver only. False: the ring is empty. */
static inline bool uccl_mailbox_take(struct uccl_mailbox *b, struct uccl_lane_cmd *l)
{
	uint32_t taken = atomic_load_explicit(&b->taken, memory_order_relaxed);

	if (taken == b->seen_put) {
		b->seen_put = atomic_load(&b->put);
		if (taken == b->seen_put)
			return false;
	}
	*l = b->ring[taken & (b->cap - 1)];
	atomic_store_explicit(&b->taken, taken + 1, memory_order_release);
	return true;
}

/* Receiver only: the command at position `i` (0: the oldest), without taking it. NULL: the ring has at most i. */
static inline const struct uccl_lane_cmd *uccl_mailbox_peek(struct uccl_mailbox *b, uint32_t i)
{
	uint32_t taken = atomic_load_explicit(&b->taken, memory_order_relaxed);

	b->seen_put = atomic_load(&b->put);
	return i < b->seen_put - taken ? &b->ring[(taken + i) & (b->cap - 1)] : NULL;
}

#endif
