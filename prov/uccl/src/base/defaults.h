/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The defaults of all settings, by kind of NIC. This is the only place that has them: variables, engine, back ends and
 * the simulated fabric read them here.
 */
#ifndef UCCL_BASE_DEFAULTS_H
#define UCCL_BASE_DEFAULTS_H

#include <stdbool.h>
#include <stdint.h>

/* Kernel sockets. */
/* For packets, on any kind of network. */
#define UCCL_UDP_CC "nscc:blind_chunks=16:loss_share=0.05:max_chunks=12:start=3"
#define UCCL_UDP_PATH "reps"
#define UCCL_UDP_CREDIT "auto"
/*
 * 5-tuples of UDP that a host opens; its peers open as many to it. Azure tells VMs with less than 8 cores to stay below
 * 100,000 flows, where each direction of a 5-tuple counts as one.
 */
#define UCCL_HOST_TUPLES 24576
#define UCCL_UDP_PATHS 64	 /* each takes a socket when it is first used */
#define UCCL_HOST_PATHS 4	 /* to a peer on this host: no network has routes, and few sockets stay cached */
#define UCCL_UDP_LABELS 512	 /* ports to send from */
#define UCCL_UDP_DELAY_US 500	 /* a normal delay: the schedulers of two hosts cause it, not queues */
#define UCCL_UDP_RTO_MIN_US 4000

/* RDMA NICs with RoCE v2 in hardware. */
#define UCCL_VERBS_CC "nscc:start=4"
#define UCCL_VERBS_PATH "reps:draws=12"
#define UCCL_VERBS_CREDIT "auto"
#define UCCL_VERBS_PATHS 64	 /* each may take a queue pair */
#define UCCL_VERBS_LABELS 256	 /* flow labels */
#define UCCL_VERBS_WRITE 32768	 /* most bytes of a direct write */
#define UCCL_VERBS_DELAY_US 20
#define UCCL_VERBS_RTO_MIN_US 1000

/* All NICs. */
#define UCCL_CHUNK_MIN 128	 /* least number of bytes, if it is set */
#define UCCL_CHUNK 0		 /* most bytes of a packet; 0: what the path carries */
#define UCCL_WINDOW 2048	 /* chunks */

/* A default as a string literal, for texts of variables. */
#define UCCL_TEXT_OF(value) #value
#define UCCL_TEXT(value) UCCL_TEXT_OF(value)

struct uccl_defaults {
	const char *name;
	const char *cc, *path, *credit;
	uint16_t paths, labels;	/* paths of a peer; entropy labels of an endpoint */
	uint32_t write_bytes;	/* most bytes of a direct write; 0: packets only */
	uint32_t window;	/* chunks */
	uint64_t delay_ns, rto_min_ns; /* normal fabric delay; floor of the retransmission time-out */
	bool trains;		/* packets to one place leave as a packet train */
	bool marks;		/* packets carry ECN marks (RFC 3168) */
	bool control_apart;	/* acknowledgements and credits have their own traffic class */
};

/* The defaults for a kind of NIC, "udp" or "verbs"; static. NULL: no such kind. */
const struct uccl_defaults *uccl_defaults_find(const char *kind);

#endif
