/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A place in the network, as NICs know it. */
#ifndef UCCL_FLOW_WIRE_NIC_ADDR_H
#define UCCL_FLOW_WIRE_NIC_ADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/*
 * Where a packet comes from or goes to: IPv4-mapped or IPv6 address, host byte order port. On an RDMA NIC pad is not 0,
 * ip is the GID, and scope, port and pad are the back end's, scope beginning with the queue pair's number.
 */
struct uccl_nic_addr {
	uint8_t ip[16];
	uint32_t scope; /* IPv6: scope id; IPv4: address of the second rail, 0: it has none or we do not know it */
	uint16_t port;
	uint16_t pad;
};

static inline bool uccl_nic_addr_v4(const struct uccl_nic_addr *a)
{
	static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(a->ip, v4, sizeof(v4));
}

/* The IPv6 scope id, as the kernel knows it; 0: none. */
static inline uint32_t uccl_nic_addr_scope_id(const struct uccl_nic_addr *a)
{
	return uccl_nic_addr_v4(a) ? 0 : a->scope;
}

/* Both have the same IP address, and IPv6 addresses the same scope. Ports may differ. */
static inline bool uccl_nic_addr_same_ip(const struct uccl_nic_addr *a, const struct uccl_nic_addr *b)
{
	return !memcmp(a->ip, b->ip, sizeof(a->ip)) && uccl_nic_addr_scope_id(a) == uccl_nic_addr_scope_id(b);
}

/* The place of the second rail, that the first one's tells: at the same port. False: it tells none. PROTOCOL R379 */
static inline bool uccl_nic_addr_second(const struct uccl_nic_addr *first, struct uccl_nic_addr *second)
{
	if (first->pad || !first->scope || !uccl_nic_addr_v4(first))
		return false;
	*second = (struct uccl_nic_addr){.port = first->port};
	memcpy(second->ip, first->ip, 12);
	for (int i = 0; i < 4; i++)
		second->ip[12 + i] = (uint8_t)(first->scope >> 8 * i);
	return true;
}

/* The reverse: the first rail's place tells the second one's, if it can. */
static inline void uccl_nic_addr_tell(struct uccl_nic_addr *first, const struct uccl_nic_addr *second)
{
	if (first->pad || second->pad || first->port != second->port || !uccl_nic_addr_v4(first) ||
	    !uccl_nic_addr_v4(second))
		return;
	first->scope = 0;
	for (int i = 0; i < 4; i++)
		first->scope |= (uint32_t)second->ip[12 + i] << 8 * i;
}

#endif
