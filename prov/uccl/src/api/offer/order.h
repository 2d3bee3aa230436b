/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which of the NICs that fit a request comes first. */
#ifndef UCCL_API_ORDER_H
#define UCCL_API_ORDER_H

#include "nic/ifaddr.h"

/* An interface that fits, and what puts it before others: a smaller key, in this order. */
struct uccl_candidate {
	struct uccl_ifaddr ifa;
	unsigned int rank;	/* place in FI_UCCL_NIC */
	bool last;		/* loopback, when the peer is elsewhere */
	bool rdma;		/* else IPv4 comes before IPv6, and before the rate of the link */
	unsigned int distance;	/* from where the caller may run; matters among NICs of one rate */
	int order;		/* place in the list of the host */
};

void uccl_order_sort(struct uccl_candidate *c, int n);

#endif
