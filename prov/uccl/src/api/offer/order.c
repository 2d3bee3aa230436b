/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "api/offer/order.h"

#include <stdlib.h>

/* How little peers can do with the address: 0, or more for those that other hosts have, too. */
static int shared_rank(const struct uccl_candidate *c)
{
	return c->shared ? 1 + (int)c->ifa.class : 0;
}

/* The least rank among interfaces that lead outside; -1: there are none. */
static int shared_best(const struct uccl_candidate *c, int n)
{
	int best = -1;

	for (int i = 0; i < n; i++)
		if (!c[i].ifa.loopback && (best < 0 || shared_rank(&c[i]) < best))
			best = shared_rank(&c[i]);
	return best;
}

static int keep_reachable(struct uccl_candidate *c, int n, const struct uccl_asked *asked)
{
	int best = shared_best(c, n), kept = 0;

	for (int i = 0; i < n; i++) {
		if (c[i].ifa.loopback && best >= 0 && !asked->dest && !asked->sources && !asked->named)
			continue;
		if (!c[i].ifa.loopback && shared_rank(&c[i]) > best && !asked->named)
			continue;
		c[kept++] = c[i];
	}
	return kept;
}

/* Whether IPv4 is the family of all. That a VPN has it does not count beside a NIC. */
static bool has_v4(const struct uccl_candidate *c, int n, bool named)
{
	bool v4 = false, nic_v4 = false, nic = false;

	for (int i = 0; i < n; i++) {
		bool is_v4 = uccl_ifaddr_is_v4(&c[i].ifa.addr), is_nic = c[i].ifa.class <= UCCL_IF_BRIDGE;

		v4 |= is_v4;
		nic |= is_nic;
		nic_v4 |= is_nic && is_v4;
	}
	return nic && !named ? nic_v4 : v4;
}

int uccl_order_keep(struct uccl_candidate *c, int n, const struct uccl_asked *asked)
{
	bool v4;
	int kept = 0;

	n = keep_reachable(c, n, asked);
	if (asked->sources || asked->rdma)
		return n;
	v4 = has_v4(c, n, asked->named);
	for (int i = 0; i < n; i++)
		if (uccl_ifaddr_is_v4(&c[i].ifa.addr) == v4)
			c[kept++] = c[i];
	return kept;
}

/* The rate by which it is compared. */
static uint64_t rate(const struct uccl_candidate *c)
{
	return c->ifa.link_nominal ? 0 : c->ifa.link_bps;
}

static int candidate_cmp(const void *x, const void *y)
{
	const struct uccl_candidate *a = x, *b = y;
	bool a4 = uccl_ifaddr_is_v4(&a->ifa.addr), b4 = uccl_ifaddr_is_v4(&b->ifa.addr);

	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	if (a->last != b->last)
		return a->last - b->last;
	if (a->ifa.class != b->ifa.class)
		return a->ifa.class < b->ifa.class ? -1 : 1;
	if (a4 != b4 && !a->rdma)
		return b4 - a4;
	if (rate(a) != rate(b))
		return rate(a) > rate(b) ? -1 : 1;
	if (a->distance != b->distance)
		return a->distance < b->distance ? -1 : 1;
	return a->order - b->order;
}

void uccl_order_sort(struct uccl_candidate *c, int n)
{
	qsort(c, (size_t)n, sizeof(*c), candidate_cmp);
}
