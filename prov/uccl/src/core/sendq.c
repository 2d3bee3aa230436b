/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "core/sendq.h"

void uccl_sendq_init(struct uccl_sendq *q)
{
	*q = (struct uccl_sendq){ .order = 0 };
	TAILQ_INIT(&q->small);
	TAILQ_INIT(&q->records);
	TAILQ_INIT(&q->bulk);
}

uint64_t uccl_sendq_bytes(const struct uccl_sendq *q, uint32_t most)
{
	const struct uccl_item_list *lists[] = { &q->records, &q->bulk };
	const struct uccl_item *item;
	uint64_t sum = 0;

	for (int i = 0; i < 2; i++)
		TAILQ_FOREACH(item, lists[i], link) {
			if (!most--)
				return sum;
			sum += item->len - item->off;
		}
	return sum;
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
