/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The order of the NICs that fit a request. */
#ifndef UCCL_API_ORDER_H
#define UCCL_API_ORDER_H

#include "nic/ifaddr.h"

/* An interface that fits, with its sort keys, the most significant first; smaller values come first. */
struct uccl_candidate {
	struct uccl_ifaddr ifa;
	unsigned int rank;	/* index in FI_UCCL_NIC */
	bool last;		/* loopback interface, and the peer is on another host */
	bool rdma;		/* false: IPv4 comes before IPv6, which is compared before the link's rate */
	unsigned int distance;	/* NUMA distance from the caller; compared among NICs of equal rate */
	int order;		/* index in the host's list */
};

void uccl_order_sort(struct uccl_candidate *c, int n);

#endif
