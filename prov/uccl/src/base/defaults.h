/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What is used where a person chooses nothing, by kind of NIC: the only place that says so. Variables, engine and back
 * ends take their defaults from here, and so does the simulated fabric, so that it runs what is shipped.
 */
#ifndef UCCL_BASE_DEFAULTS_H
#define UCCL_BASE_DEFAULTS_H

#include <stdbool.h>
#include <stdint.h>

/* Kernel sockets. */
#define UCCL_UDP_CC "nscc:blind_chunks=16:loss_share=0.05:max_chunks=12" /* packets, on networks of any kind */
#define UCCL_UDP_PATH "reps"
#define UCCL_UDP_CREDIT "auto"
#define UCCL_UDP_PATHS 64	 /* each takes a socket when it is first used */
#define UCCL_UDP_LABELS 512	 /* ports to send from */
#define UCCL_UDP_DELAY_US 500	 /* schedulers of two hosts, not queues, make this much */
#define UCCL_UDP_RTO_MIN_US 4000

/* RDMA NICs with RoCE v2 in hardware. */
#define UCCL_VERBS_CC "nscc"
#define UCCL_VERBS_PATH "reps:draws=12"
#define UCCL_VERBS_CREDIT "auto"
#define UCCL_VERBS_PATHS 64	 /* each may take a queue pair */
#define UCCL_VERBS_LABELS 256	 /* flow labels */
#define UCCL_VERBS_WRITE 32768	 /* bytes of a direct write at most */
#define UCCL_VERBS_DELAY_US 20
#define UCCL_VERBS_RTO_MIN_US 1000

/* Of all. */
#define UCCL_CHUNK 0		 /* bytes of a packet; 0: what fits */
#define UCCL_WINDOW 2048	 /* chunks */

/* The same as texts. */
#define UCCL_TEXT_OF(value) #value
#define UCCL_TEXT(value) UCCL_TEXT_OF(value)

struct uccl_defaults {
	const char *name;
	const char *cc, *path, *credit;
	uint16_t paths, labels;
	uint32_t write_bytes;	/* 0: packets only */
	uint32_t window;	/* chunks */
	uint64_t delay_ns, rto_min_ns;
	bool trains;		/* neighbouring packets to one place leave as one */
	bool marks;		/* packets tell of marks of the network (ECN) */
	bool control_apart;	/* acknowledgements and credits have a traffic class of their own */
};

/* By kind: "udp", "verbs". NULL: there is none of this name. */
const struct uccl_defaults *uccl_defaults_find(const char *kind);

#endif
