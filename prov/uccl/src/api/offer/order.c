/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "api/offer/order.h"

#include <stdlib.h>

static int candidate_cmp(const void *x, const void *y)
{
	const struct uccl_candidate *a = x, *b = y;
	bool a4 = uccl_ifaddr_is_v4(&a->ifa.addr), b4 = uccl_ifaddr_is_v4(&b->ifa.addr);

	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	if (a->last != b->last)
		return a->last - b->last;
	if (a4 != b4 && !a->rdma)
		return b4 - a4;
	if (a->ifa.link_bps != b->ifa.link_bps)
		return a->ifa.link_bps > b->ifa.link_bps ? -1 : 1;
	if (a->distance != b->distance)
		return a->distance < b->distance ? -1 : 1;
	return a->order - b->order;
}

void uccl_order_sort(struct uccl_candidate *c, int n)
{
	qsort(c, (size_t)n, sizeof(*c), candidate_cmp);
}
