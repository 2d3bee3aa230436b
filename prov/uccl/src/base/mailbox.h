/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Letters from one thread to one other, in the order in which they were put in, without a lock: a ring with room for a
 * fixed number of them. What the sender did before it put a letter in is done for who takes it out. Neither side ever
 * waits; who is to be woken is no matter of the mailbox. But letters are counted in one order with all else that is
 * said in such an order: who says that he sleeps and then looks sees the letter, or who put it in sees that he sleeps.
 */
#ifndef UCCL_BASE_MAILBOX_H
#define UCCL_BASE_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is said; what each field means is agreed on by the two sides. One line of the cache. */
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
	/* Each side keeps what it last saw of the other beside its own number, apart from the other's. */
	_Alignas(UCCL_MAILBOX_LINE) _Atomic uint32_t put; /* letters that were ever put in, modulo 2^32 */
	uint32_t seen_taken;
	_Alignas(UCCL_MAILBOX_LINE) _Atomic uint32_t taken;
	uint32_t seen_put;
};

/* `cap` is a power of two. False: no memory. */
bool uccl_mailbox_init(struct uccl_mailbox *b, uint32_t cap);
/* With nobody at it any more; one that was not made is fine. */
void uccl_mailbox_fini(struct uccl_mailbox *b);

/* The sender's: how many letters there is room for, at least. */
static inline uint32_t uccl_mailbox_room(struct uccl_mailbox *b)
{
	uint32_t put = atomic_load_explicit(&b->put, memory_order_relaxed);

	b->seen_taken = atomic_load_explicit(&b->taken, memory_order_acquire);
	return b->cap - (put - b->seen_taken);
}

/* The sender's. False: it is full, nothing happened. */
static inline bool uccl_mailbox_put(struct uccl_mailbox *b, const struct uccl_lane_cmd *l)
{
	uint32_t put = atomic_load_explicit(&b->put, memory_order_relaxed);

	if (put - b->seen_taken == b->cap && !uccl_mailbox_room(b))
		return false;
	b->ring[put & (b->cap - 1)] = *l;
	atomic_store(&b->put, put + 1);
	return true;
}

/* The receiver's. False: it is empty. */
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

/* The receiver's: the letter behind `i` others, which stays in; NULL: there is none. */
static inline const struct uccl_lane_cmd *uccl_mailbox_peek(struct uccl_mailbox *b, uint32_t i)
{
	uint32_t taken = atomic_load_explicit(&b->taken, memory_order_relaxed);

	b->seen_put = atomic_load(&b->put);
	return i < b->seen_put - taken ? &b->ring[(taken + i) & (b->cap - 1)] : NULL;
}

#endif
