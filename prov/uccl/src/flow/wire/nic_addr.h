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
	uint32_t scope; /* IPv6: scope id; IPv4: address of the second rail, 0: there is none to begin with */
	uint16_t port;
	uint16_t pad;
};

/* The place of the second rail, that the first one's tells: at the same port. False: it tells none. PROTOCOL R379 */
static inline bool uccl_nic_addr_second(const struct uccl_nic_addr *first, struct uccl_nic_addr *second)
{
	static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};

	if (first->pad || !first->scope || memcmp(first->ip, v4, sizeof(v4)))
		return false;
	*second = (struct uccl_nic_addr){.port = first->port};
	memcpy(second->ip, v4, sizeof(v4));
	for (int i = 0; i < 4; i++)
		second->ip[12 + i] = (uint8_t)(first->scope >> 8 * i);
	return true;
}

/* The reverse: the first rail's place tells the second one's, if it can. */
static inline void uccl_nic_addr_tell(struct uccl_nic_addr *first, const struct uccl_nic_addr *second)
{
	struct uccl_nic_addr told;

	if (first->pad || second->pad || first->port != second->port)
		return;
	for (int i = 0; i < 4; i++)
		first->scope |= (uint32_t)second->ip[12 + i] << 8 * i;
	if (!uccl_nic_addr_second(first, &told) || memcmp(told.ip, second->ip, sizeof(told.ip)))
		first->scope = 0;
}

#endif
