/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Routes of frames from an interface, as the kernel knows them: the route to an address, direct or by a router, and the
 * Ethernet address of the next hop (ARP, neighbour discovery). If the kernel does not know a next hop, it finds it when
 * a packet is sent there by a socket. So an address without a route is no error: its packets are sent by a socket.
 */
#ifndef UCCL_NIC_XDP_ROUTES_H
#define UCCL_NIC_XDP_ROUTES_H

#include "nic/xdp/frame.h"

struct uccl_routes;

/* Routes of this interface for packets from the address `from`. 0 or a negative error. */
int uccl_routes_open(int ifindex, const char *ifname, const struct uccl_nic_addr *from, struct uccl_routes **out);
void uccl_routes_close(struct uccl_routes *w);

/*
 * The route to an address; valid until the next call. NULL: send this packet by a socket. That is so for addresses of
 * this host, behind another interface, or unknown. Now and then it is so for one packet to any address: then the kernel
 * sees that the neighbour is in use, and checks that it is still reachable. `now` in ns.
 */
const struct uccl_frame_route *uccl_routes_find(struct uccl_routes *w, const struct uccl_nic_addr *to, uint64_t now);

/* True if packets to this address leave by our interface. */
bool uccl_routes_ours(struct uccl_routes *w, const struct uccl_nic_addr *to);

/* Read the kernel's reports of changes. */
void uccl_routes_poll(struct uccl_routes *w);

#endif
