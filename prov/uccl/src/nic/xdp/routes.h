/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How frames get from an interface to other hosts, as the kernel knows it: the route to a place (by a router or not)
 * and the Ethernet address of who is next on it (ARP, neighbour discovery). What the kernel does not know yet it
 * finds out when a packet goes there by a socket; so a place without a way is no error, its packets take a socket.
 */
#ifndef UCCL_NIC_XDP_ROUTES_H
#define UCCL_NIC_XDP_ROUTES_H

#include "nic/xdp/frame.h"

struct uccl_routes;

/* Of the interface with this index and name, for packets from this address. */
int uccl_routes_open(int ifindex, const char *ifname, const struct uccl_nic_addr *from, struct uccl_routes **out);
void uccl_routes_close(struct uccl_routes *w);

/*
 * The way to a place; valid until the next call. NULL: by a socket. That is so for places of this host, behind
 * another interface or unknown; and now and then for one packet to any place, so that the kernel sees that its
 * neighbour is in use, and asks whether it is still there. `now` in ns.
 */
const struct uccl_frame_route *uccl_routes_find(struct uccl_routes *w, const struct uccl_nic_addr *to, uint64_t now);

/* Does what goes there leave by our interface? */
bool uccl_routes_ours(struct uccl_routes *w, const struct uccl_nic_addr *to);

/* Take in what the kernel says of changes. */
void uccl_routes_poll(struct uccl_routes *w);

#endif
