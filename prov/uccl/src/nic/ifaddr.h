/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Addresses and interfaces of this host, in the provider's own form. */
#ifndef UCCL_NIC_IFADDR_H
#define UCCL_NIC_IFADDR_H

#include <net/if.h>
#include <sys/socket.h>

#include "flow/wire/io.h"
#include "nic/ifclass.h"

#define UCCL_IFADDR_NAME 72 /* those of RDMA devices are longer than IF_NAMESIZE */

/* One address of one interface that is up. */
struct uccl_ifaddr {
	char name[UCCL_IFADDR_NAME]; /* without an alias label ("eth0:1" is eth0) */
	struct uccl_nic_addr addr; /* port 0 */
	uint32_t mtu;		   /* bytes, IP header included */
	uint64_t link_bps;	   /* 0: the kernel does not know */
	bool link_real;		   /* the rate is that of a physical link, not of a virtual interface */
	bool link_nominal;	   /* the rate is no link's: a veth says 10 Gbit/s, and carries what processors can */
	bool loopback;
	enum uccl_ifclass class;   /* of the interface; UCCL_IF_PHYSICAL for RDMA devices */
};

/*
 * All addresses of interfaces that are up: loopback interfaces last, IPv4 before IPv6, then those that other hosts
 * share behind those that they do not, then by the interface's class, else in the kernel's order.
 * Link-local IPv6 addresses are left out: their scope means nothing to a peer. Returns how many, *list is the
 * caller's to free() (NULL when 0), or -FI_ENOMEM or another error of getifaddrs().
 */
int uccl_ifaddr_list(struct uccl_ifaddr **list);

/*
 * Look up the interface that owns an address (link-local ones too; all of 127.0.0.0/8 is the loopback interface's).
 * -FI_EADDRNOTAVAIL: none does.
 */
int uccl_ifaddr_find(const struct uccl_nic_addr *addr, struct uccl_ifaddr *out);

/*
 * True if other hosts are likely to have the same address for themselves, so that a peer that is told of it reaches
 * nobody, or itself: those of lone bridges (172.17.0.1 of docker0), and link-local IPv4 ones (169.254.0.0/16).
 */
bool uccl_ifaddr_shared(const struct uccl_ifaddr *ifa);

/*
 * The source address that the kernel chooses for packets to `to`, with port 0. -FI_EHOSTUNREACH or another negative
 * error: there is no route.
 */
int uccl_ifaddr_towards(const struct uccl_nic_addr *to, struct uccl_nic_addr *out);

/* The rate of an interface, bits per second; of a bond, the sum over its members. 0: the kernel does not know. */
uint64_t uccl_ifaddr_link_bps(const char *name);

/* True: an IPv4 address (or the IPv4 wildcard). */
bool uccl_ifaddr_is_v4(const struct uccl_nic_addr *addr);
/* True: the IPv4 or the IPv6 wildcard. */
bool uccl_ifaddr_is_any(const struct uccl_nic_addr *addr);
/* True: in 127.0.0.0/8, or ::1. */
bool uccl_ifaddr_is_loopback(const struct uccl_nic_addr *addr);
/* True: same IP, port and scope. */
bool uccl_ifaddr_equal(const struct uccl_nic_addr *a, const struct uccl_nic_addr *b);

/*
 * Convert an address for a socket of `family`: AF_INET, AF_INET6 (an IPv4 address becomes a mapped one), or AF_UNSPEC
 * (the address's own family). Returns the length; 0: this family cannot express the address.
 */
socklen_t uccl_ifaddr_to_sock(struct sockaddr_storage *out, const struct uccl_nic_addr *addr, int family);
/* The reverse. The scope is kept for link-local addresses only. -FI_EINVAL: neither IPv4 nor IPv6. */
int uccl_ifaddr_from_sock(struct uccl_nic_addr *out, const struct sockaddr *sa, socklen_t len);

#endif
