/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/send/sendq.h"

/* Ranges that a new one passes at most: among more of them its place is of no matter for long. */
#define PASS_ITEMS 64

void uccl_sendq_init(struct uccl_sendq *q, bool shortest)
{
	*q = (struct uccl_sendq){ .shortest = shortest };
	TAILQ_INIT(&q->small);
	TAILQ_INIT(&q->records);
	TAILQ_INIT(&q->bulk);
}

void uccl_sendq_pass(struct uccl_sendq *q, struct uccl_item *item)
{
	struct uccl_item *at = TAILQ_LAST(&q->bulk, uccl_item_list), *before = NULL;
	uint64_t left = uccl_item_left(item);

	for (int i = 0; at && i < PASS_ITEMS; i++, at = TAILQ_PREV(at, uccl_item_list, link)) {
		/* Of one message the parts are in order: none of them has less than half of the one before it. */
		if (uccl_item_left(at) <= 2 * left || at->passed + left > UCCL_SENDQ_PASSED)
			break;
		at->passed += left;
		before = at;
	}
	if (before)
		TAILQ_INSERT_BEFORE(before, item, link);
	else
		TAILQ_INSERT_TAIL(&q->bulk, item, link);
}

/* Adds up the first `most` items. True: there are no more. */
static bool sum_bytes(const struct uccl_sendq *q, uint32_t most, uint64_t *sum)
{
	const struct uccl_item_list *lists[] = { &q->records, &q->bulk };
	const struct uccl_item *item;

	*sum = 0;
	for (int i = 0; i < 2; i++)
		TAILQ_FOREACH(item, lists[i], link) {
			if (!most--)
				return false;
			*sum += item->len - item->off;
		}
	return true;
}

uint64_t uccl_sendq_bytes(const struct uccl_sendq *q, uint32_t most)
{
	uint64_t sum;

	sum_bytes(q, most, &sum);
	return sum;
}

bool uccl_sendq_within(const struct uccl_sendq *q, uint32_t most, uint64_t bytes)
{
	uint64_t sum;

	return sum_bytes(q, most, &sum) && sum <= bytes;
}

uint64_t uccl_sendq_left(const struct uccl_sendq *q, uint32_t most)
{
	const struct uccl_item *item = TAILQ_FIRST(&q->bulk);
	uint64_t sum = 0;

	if (item && (q->bulk_turn || TAILQ_EMPTY(&q->records)))
		return uccl_item_left(item);
	TAILQ_FOREACH(item, &q->records, link) {
		if (!most--)
			break;
		sum += uccl_item_left(item);
	}
	return sum;
}
