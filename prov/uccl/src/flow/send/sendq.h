/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a flow: the queues of what is to be sent, and whose turn it is. Records leave in their order, but a small one
 * may pass longer ones. Records leave before byte ranges (bulk): they are what others wait for. But a stream of them
 * must not starve a long transfer: once it is far behind, it takes turns with them by bytes. Byte ranges share by
 * deficit round robin (Shreedhar and Varghese 1995), or those whose messages have much less left go first.
 * PROTOCOL R14 R130 R200
 *
 * The grammar: init. `add` for each item. When something new may leave, `turn` first; then look at what is first of
 * each kind, and `record` for the one that leaves, or `bulk` for what leaves of the first range, and `share` if that
 * may end its turn. `remove` for an item that shall not leave.
 */
#ifndef UCCL_FLOW_SEND_SENDQ_H
#define UCCL_FLOW_SEND_SENDQ_H

#include "flow/send/item.h"

/*
 * Bytes by which records may be ahead of bulk that waits; then they take turns. With less, the last bytes of an eager
 * message would go between the first of the next ones, and the receiver would not predict where they belong.
 */
#define UCCL_SENDQ_AHEAD (256 * 1024)
/* A range's turn among others: long enough that a receiver can predict where the next payload belongs. */
#define UCCL_SENDQ_TURN (4u << 20)
/* A range lets this many bytes of shorter ranges pass, then no more: four turns. */
#define UCCL_SENDQ_PASSED (16u << 20)

struct uccl_sendq {
	struct uccl_item_list small, records, bulk; /* records of control size, longer ones, byte ranges */
	uint32_t order;		/* of the next item */
	int32_t records_ahead;	/* bytes that records have sent more than bulk, while bulk waited */
	bool bulk_turn;		/* until bulk has caught up by a burst */
	bool shortest;		/* ranges of short messages pass others */
};

/* `shortest`: ranges take no turns, the shortest go first. */
void uccl_sendq_init(struct uccl_sendq *q, bool shortest);
/* Put a range before those whose messages have more than twice as much left. */
void uccl_sendq_pass(struct uccl_sendq *q, struct uccl_item *item);
/*
 * Bytes that are left of the message that leaves next, among those that window, pacing or credit may hold back. The
 * first `most` of the longer records that wait count as one message.
 */
uint64_t uccl_sendq_left(const struct uccl_sendq *q, uint32_t most);
/* Bytes of the longer records and of bulk, in the first `most` items of the queue. */
uint64_t uccl_sendq_bytes(const struct uccl_sendq *q, uint32_t most);
/* Are these all that wait, at most `most` items of `bytes` bytes together? */
bool uccl_sendq_within(const struct uccl_sendq *q, uint32_t most, uint64_t bytes);

static inline struct uccl_item_list *uccl_sendq_list(struct uccl_sendq *q, const struct uccl_item *item)
{
	if (item->bulk)
		return &q->bulk;
	return uccl_item_is_small(item) ? &q->small : &q->records;
}

/* Nothing has been sent of it, or all of it is to be sent anew. It is the queue's until all has left, or `remove`. */
static inline void uccl_sendq_add(struct uccl_sendq *q, struct uccl_item *item)
{
	item->queued = true;
	item->off = 0;
	item->deficit = 0;
	item->passed = 0;
	item->order = q->order++;
	if (item->bulk && q->shortest)
		uccl_sendq_pass(q, item);
	else
		TAILQ_INSERT_TAIL(uccl_sendq_list(q, item), item, link);
}

static inline void uccl_sendq_remove(struct uccl_sendq *q, struct uccl_item *item)
{
	TAILQ_REMOVE(uccl_sendq_list(q, item), item, link);
	item->queued = false;
}

/* Does a record wait? */
static inline bool uccl_sendq_has_records(const struct uccl_sendq *q)
{
	return !TAILQ_EMPTY(&q->small) || !TAILQ_EMPTY(&q->records);
}

/* Does something wait that window, pacing or credit may hold back? */
static inline bool uccl_sendq_waits(const struct uccl_sendq *q)
{
	return !TAILQ_EMPTY(&q->bulk) || !TAILQ_EMPTY(&q->records);
}

static inline bool uccl_sendq_empty(const struct uccl_sendq *q)
{
	return TAILQ_EMPTY(&q->small) && !uccl_sendq_waits(q);
}

/* Does the first range wait for a record that announces payload, perhaps its own? */
static inline bool uccl_sendq_announced(const struct uccl_sendq *q)
{
	const struct uccl_item *record = TAILQ_FIRST(&q->records), *range = TAILQ_FIRST(&q->bulk);

	return record && record->more && !range->off && (int32_t)(record->order - range->order) < 0;
}

/*
 * Whose turn is it? True: bulk's. Records of control size do not wait for it. Payload before its record would have to
 * be kept, and copied.
 */
static inline bool uccl_sendq_turn(struct uccl_sendq *q)
{
	if (TAILQ_EMPTY(&q->bulk)) {
		q->records_ahead = 0;
		q->bulk_turn = false;
	} else if (uccl_sendq_announced(q)) {
		q->bulk_turn = false;
	} else if (q->records_ahead >= UCCL_SENDQ_AHEAD) {
		q->bulk_turn = true;
	}
	return q->bulk_turn;
}

/* The oldest longer record, if no small record is older; else NULL. */
static inline struct uccl_item *uccl_sendq_long_first(const struct uccl_sendq *q)
{
	const struct uccl_item *small = TAILQ_FIRST(&q->small);
	struct uccl_item *item = TAILQ_FIRST(&q->records);

	return item && small && (int32_t)(small->order - item->order) < 0 ? NULL : item;
}

/* This record leaves: `bytes` bytes, with its header. What it announces is ahead of bulk, too. */
static inline void uccl_sendq_record(struct uccl_sendq *q, struct uccl_item *item, uint32_t bytes)
{
	item->off = item->len;
	uccl_sendq_remove(q, item);
	if (!TAILQ_EMPTY(&q->bulk))
		q->records_ahead += (int32_t)(bytes + uccl_min(item->more, UCCL_SENDQ_AHEAD));
}

/* The next `len` bytes of this range leave. Records have their turn when bulk has caught up by a burst. */
static inline void uccl_sendq_bulk(struct uccl_sendq *q, struct uccl_item *item, uint32_t len, uint32_t burst)
{
	item->off += len;
	if (item->off == item->len)
		uccl_sendq_remove(q, item);
	if (q->records_ahead > 0)
		q->records_ahead -= (int32_t)len;
	if (q->records_ahead <= UCCL_SENDQ_AHEAD - (int32_t)burst)
		q->bulk_turn = false;
}

/* `len` bytes count for the item's turn among ranges, which may end with them. */
static inline void uccl_sendq_share(struct uccl_sendq *q, struct uccl_item *item, uint32_t len)
{
	if (!item->queued || q->shortest)
		return;
	item->deficit += len;
	if (item->deficit < UCCL_SENDQ_TURN)
		return;
	item->deficit = 0;
	TAILQ_REMOVE(&q->bulk, item, link);
	TAILQ_INSERT_TAIL(&q->bulk, item, link);
}

#endif
