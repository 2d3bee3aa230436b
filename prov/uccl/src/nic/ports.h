/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The range of ports that sockets may use (FI_UCCL_PORTS), for a firewall that opens only these ports. */
#ifndef UCCL_NIC_PORTS_H
#define UCCL_NIC_PORTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* Ports `first` to `last`, both included. All zero: no range, so the system chooses ports. */
struct uccl_ports {
	uint16_t first, last;
};

/* The state of a search for a free port, which visits each port of the range once. Zero at first, except `start`. */
struct uccl_ports_walk {
	uint32_t start; /* any number: where the search begins; it should differ between processes of a host */
	uint32_t tried; /* ports visited so far */
};

static inline bool uccl_ports_limited(const struct uccl_ports *p)
{
	return p->last;
}

static inline uint32_t uccl_ports_count(const struct uccl_ports *p)
{
	return uccl_ports_limited(p) ? (uint32_t)p->last - p->first + 1 : 0;
}

/* Read "first-last", 1 <= first < last <= 65535, or "" for no range. -FI_EINVAL: invalid, and *out is unchanged. */
int uccl_ports_parse(const char *text, struct uccl_ports *out);

/* A walk that begins at a random port. */
struct uccl_ports_walk uccl_ports_walk(void);

/* The next port of the search; 0: all were visited, or there is no range. */
uint16_t uccl_ports_next(const struct uccl_ports *ports, struct uccl_ports_walk *walk);

/*
 * Bind `fd` to the address `at`. A port in `at` that is not 0 is the program's choice, and is used. Else the socket
 * gets the next free port of the range, or without a range one of the system's choice. -FI_EADDRINUSE: no port is free;
 * or another error of bind(2). A caller that cannot use the port calls again, with a new socket and the same walk.
 */
int uccl_ports_bind(int fd, const struct sockaddr_storage *at, socklen_t len, const struct uccl_ports *ports,
		    struct uccl_ports_walk *walk);

/*
 * True if at least a quarter of the host's ephemeral ports are free of UDP sockets of this family, or if nothing is
 * known. The last quarter is left to others, and finding a port in it takes the system milliseconds.
 */
bool uccl_ports_spare(int family);

#endif
