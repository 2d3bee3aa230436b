/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How frames get from an interface to other hosts, as the kernel knows it: the route to a place (by a router or not)
 * and the Ethernet address of who is next on it (ARP, neighbour discovery). What the kernel does not know yet it
 * finds out when a packet goes there by a socket; so a place without a way is no error, its packets take a socket.
 */
#ifndef UCCL_NIC_WAYS_H
#define UCCL_NIC_WAYS_H

#include "nic/frame.h"

struct uccl_ways;

/* Of the interface with this index and name, for packets from this address. */
int uccl_ways_open(int ifindex, const char *ifname, const struct uccl_nic_addr *from, struct uccl_ways **out);
void uccl_ways_close(struct uccl_ways *w);

/*
 * The way to a place; valid until the next call. NULL: by a socket. That is so for places of this host, behind
 * another interface or unknown; and now and then for one packet to any place, so that the kernel sees that its
 * neighbour is in use, and asks whether it is still there. `now` in ns.
 */
const struct uccl_frame_way *uccl_ways_find(struct uccl_ways *w, const struct uccl_nic_addr *to, uint64_t now);

/* Does what goes there leave by our interface? */
bool uccl_ways_ours(struct uccl_ways *w, const struct uccl_nic_addr *to);

/* Take in what the kernel says of changes. */
void uccl_ways_poll(struct uccl_ways *w);

#endif
