/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The range of ports that sockets may use (FI_UCCL_PORTS), for hosts behind a firewall that opens only those. */
#ifndef UCCL_NIC_PORTS_H
#define UCCL_NIC_PORTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* Both ends belong to it. All zero: no range, the system chooses. */
struct uccl_ports {
	uint16_t first, last;
};

/* One look for a free port: each port of the range once, from any one on. Zero at first, but for `start`. */
struct uccl_ports_walk {
	uint32_t start; /* any number; processes of a host should have different ones */
	uint32_t tried; /* ports so far */
};

static inline bool uccl_ports_limited(const struct uccl_ports *p)
{
	return p->last;
}

static inline uint32_t uccl_ports_count(const struct uccl_ports *p)
{
	return uccl_ports_limited(p) ? (uint32_t)p->last - p->first + 1 : 0;
}

/* "first-last", 1 <= first < last <= 65535, or "" for no range. -FI_EINVAL: neither, nothing is written. */
int uccl_ports_parse(const char *text, struct uccl_ports *out);

/* A walk that begins at a random port. */
struct uccl_ports_walk uccl_ports_walk(void);

/* The next port of the walk; 0: each was had, or there is no range. */
uint16_t uccl_ports_next(const struct uccl_ports *ports, struct uccl_ports_walk *walk);

/*
 * Bind `fd` to the address `at`. Its port is kept if it is not 0: the application's choice goes first. Else it gets
 * the next free port of the walk through the range, or without a range one of the system's choice. -FI_EADDRINUSE:
 * none was free; or another error of bind(). Whoever cannot use what it got calls again, with the same walk and a new
 * socket.
 */
int uccl_ports_bind(int fd, const struct sockaddr_storage *at, socklen_t len, const struct uccl_ports *ports,
		    struct uccl_ports_walk *walk);

/*
 * Has the host ports to spare, of those that the system chooses among: do UDP sockets of this family leave a quarter of
 * them? The last ones are for others, and to find one of them takes the system milliseconds. True if nothing is known.
 */
bool uccl_ports_spare(int family);

#endif
