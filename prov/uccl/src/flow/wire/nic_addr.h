/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A place in the network, as NICs know it. */
#ifndef UCCL_FLOW_WIRE_NIC_ADDR_H
#define UCCL_FLOW_WIRE_NIC_ADDR_H

#include <stdint.h>

/*
 * Where a packet comes from or goes to: IPv4-mapped or IPv6 address, host byte order port. On an RDMA NIC pad is not 0,
 * ip is the GID, and scope, port and pad are the back end's, scope beginning with the queue pair's number.
 */
struct uccl_nic_addr {
	uint8_t ip[16];
	uint32_t scope; /* IPv6 scope id, 0 otherwise */
	uint16_t port;
	uint16_t pad;
};

#endif
