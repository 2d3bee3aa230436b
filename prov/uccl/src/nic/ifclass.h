/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What an interface is good for, from facts that the kernel knows. The kernel's speeds do not tell: a bridge of
 * containers says 10 Gbit/s, and many NICs of virtual machines say nothing. Pure.
 */
#ifndef UCCL_NIC_IFCLASS_H
#define UCCL_NIC_IFCLASS_H

#include <net/if.h>
#include <stdbool.h>

/* The better one first. */
enum uccl_ifclass {
	UCCL_IF_PHYSICAL,    /* a NIC of its own, or the interface of the host's default route */
	UCCL_IF_STACKED,     /* bond, team, VLAN, macvlan, ipvlan, over a physical one */
	UCCL_IF_BRIDGE,	     /* a bridge with a physical or stacked port */
	UCCL_IF_LONE_BRIDGE, /* a bridge without one: it leads to virtual machines and containers of this host */
	UCCL_IF_VIRTUAL,     /* veth, tun, tap, wireguard, dummy and the like */
	UCCL_IF_CONTAINER,   /* a lone bridge that has the name of a container engine's or libvirt's */
	UCCL_IF_LOOPBACK,
};

/* An interface, as the kernel describes it. */
struct uccl_netif {
	int index;
	int lower;  /* index of the interface below it (VLANs and the like); 0: none, or in another namespace */
	int master; /* index of the bridge or bond that it is a port of; 0: none */
	char name[IF_NAMESIZE];
	char kind[16]; /* rtnetlink's IFLA_INFO_KIND ("bridge"); empty: the kernel did not say */
	bool device;   /* it belongs to a device (PCI, USB, virtio) */
	bool loopback;
	bool route; /* a default route leads through it */
};

/* The class that an interface has by what it is made of, whatever routes say. Arguments and result as below. */
enum uccl_ifclass uccl_ifclass_made(const struct uccl_netif *list, int n, const char *name);

/* The class of the interface `name`, one of the host's interfaces list[0..n). UCCL_IF_PHYSICAL if it is not there. */
enum uccl_ifclass uccl_ifclass_of(const struct uccl_netif *list, int n, const char *name);

/* True if hosts usually give the same address to interfaces of this class, such as 172.17.0.1 to docker0. */
bool uccl_ifclass_shared(enum uccl_ifclass class);

/* A word for people, such as "physical" or "lone bridge". */
const char *uccl_ifclass_text(enum uccl_ifclass class);

#endif
