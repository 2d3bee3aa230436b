/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which of the NICs that fit a request are offered, and in which order. */
#ifndef UCCL_API_ORDER_H
#define UCCL_API_ORDER_H

#include "nic/ifaddr.h"

/* An interface that fits, with its sort keys, the most significant first; smaller values come first. */
struct uccl_candidate {
	struct uccl_ifaddr ifa;
	unsigned int rank;	/* index in FI_UCCL_NIC */
	/* No sort key: other hosts are likely to have its address, too, and it does not lead to the peer asked for. */
	bool shared;
	bool last;		/* loopback interface, and the peer is on another host */
	/* then the interface's class */
	bool rdma;		/* false: IPv4 comes before IPv6, which is compared before the link's rate */
	unsigned int distance;	/* NUMA distance from the caller; compared among NICs of equal rate */
	int order;		/* index in the host's list */
};

/* What the program asked for that lets it have interfaces which others are not offered. */
struct uccl_asked {
	bool dest;    /* a peer */
	bool sources; /* local addresses, or a name of this host */
	bool named;   /* FI_UCCL_NIC names interfaces */
	bool rdma;
};

/*
 * Keep those of c[0..n) that can be offered together; returns their number. Programs take entries of one list for parts
 * of one network, and give one to each rank. So entries can reach each other: no loopback beside interfaces that lead
 * outside, no IPv6 beside IPv4, and no address that other hosts have, too, beside a better one.
 */
int uccl_order_keep(struct uccl_candidate *c, int n, const struct uccl_asked *asked);

void uccl_order_sort(struct uccl_candidate *c, int n);

#endif
