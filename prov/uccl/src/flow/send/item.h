/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What is handed to a flow to be sent. */
#ifndef UCCL_FLOW_SEND_ITEM_H
#define UCCL_FLOW_SEND_ITEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/uio.h>

#include "base/units.h"
#include "flow/wire/wire.h"

/* Payload up to this counts as control: neither the congestion window nor credit holds it back. */
#define UCCL_CONTROL_BYTES 256

/*
 * One record (a single chunk) or, with `bulk`, a byte range that the flow cuts into chunks. Embedded in its owner and
 * the flow's until `acked` was called for it or the flow ended.
 */
struct uccl_item {
	TAILQ_ENTRY(uccl_item) link; /* the queue's */
	uint8_t rtype;		/* msg's record type */
	bool bulk;		/* rec[8..16) is advanced by what was sent */
	bool want_ack;		/* someone waits for the acknowledgement: ask for it with the last chunk */
	bool queued;		/* the queue's (sendq.h): it is in it */
	bool direct;		/* bulk: write straight to rkey/raddr + offset */
	bool part;		/* msg's own: of a payload that comes in parts (struct uccl_pump) */
	bool lead;		/* msg's own: the head of a message, of which more may follow */
	bool ours;		/* payload that is our copy, or of which we make one before anybody else gets it back */
	uint8_t iov_count;
	uint8_t rec[UCCL_REC_LEN];
	const struct iovec *iov; /* payload; stays valid until acked */
	uint64_t skip;		/* bulk: first byte of the iov that belongs to this item */
	uint64_t len;		/* payload bytes in all, from `skip` on */
	uint64_t more;		/* bytes of the same message that are in no item yet */
	uint32_t each;		/* payload of each packet of its message but the last; 0: all that it holds */
	uint32_t queue;		/* of the peer, for memory of a device, that packets go to first; 0: none */
	uint64_t off;		/* the queue's: bytes cut into chunks so far */
	uint32_t pending;	/* the log's (sent.h): chunks sent, and NIC reads of the payload, not over yet */
	uint64_t passed;	/* the queue's: bytes of shorter ones that went before it */
	uint32_t deficit;	/* the queue's: bytes sent in this turn, */
	uint32_t order;		/* and when it was submitted, among others */
	void *mr;		/* payload that only the NIC can read: what its packets say of it (uccl_tx.mr) */
	uint64_t rkey, raddr;	/* direct: the peer's grant */
};

TAILQ_HEAD(uccl_item_list, uccl_item);

/* It was not filled yet, and nobody has it. */
static inline void uccl_item_unused(struct uccl_item *item)
{
	item->queued = false;
	item->pending = 0;
	item->len = 0;
}

/* All of it is to be filled anew. */
static inline void uccl_item_clear(struct uccl_item *item)
{
	uccl_zero(item, sizeof(*item));
}

/* The buffer that holds byte `*pos` of an item's buffers, and where in it; NULL: they end before. */
static inline const struct iovec *uccl_item_buffer(const struct uccl_item *item, uint64_t *pos)
{
	for (uint8_t i = 0; i < item->iov_count; i++) {
		if (*pos < item->iov[i].iov_len)
			return &item->iov[i];
		*pos -= item->iov[i].iov_len;
	}
	return NULL;
}

/* Bytes of its message that have not left. */
static inline uint64_t uccl_item_left(const struct uccl_item *item)
{
	return item->len - item->off + item->more;
}

/*
 * Does this record pass longer ones and bulk? One that announces payload does not: requests of writes far ahead of
 * their payload would take all memory that the receiver has for them, and the slots that the payload needs.
 * PROTOCOL R14 R130
 */
static inline bool uccl_item_is_small(const struct uccl_item *item)
{
	return item->len <= UCCL_CONTROL_BYTES && !item->more;
}

/* Contiguous payload of an item from byte `off` on: at most `want` bytes, cut at the end of an iov. */
static inline uint32_t uccl_item_payload(const struct uccl_item *item, uint64_t off, uint32_t want,
					 const uint8_t **ptr)
{
	uint64_t pos = item->skip + off;
	const struct iovec *iov = uccl_item_buffer(item, &pos);

	*ptr = iov ? (const uint8_t *)iov->iov_base + pos : NULL;
	return iov ? (uint32_t)uccl_min(want, iov->iov_len - pos) : 0;
}

#endif
