/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The XDP program of the xdp back end, one on an interface, shared by all endpoints and processes that use it. It hands
 * to an AF_XDP socket what its rule asks for, and leaves everything else to the kernel.
 *
 * Program, maps and attachment (a link of BPF) live as long as a process has them open, so the last one that ends takes
 * them away, however it ends. No file and no pin is left behind.
 */
#ifndef UCCL_NIC_XDP_PROG_H
#define UCCL_NIC_XDP_PROG_H

#include "core/io.h"
#include "nic/nic.h"

/* What goes to the socket of a queue: datagrams to this place. As the program reads it; ports in network order. */
struct uccl_xdp_rule {
	uint8_t ip[16];
	uint8_t port[2];
	/* With `guarded` only packets that begin so: nothing of strangers (struct uccl_nic_guard). */
	uint8_t magic[2];
	uint8_t token_top[2];
	uint8_t version;
	uint8_t guarded;
	uint32_t types;
	uint32_t most; /* bytes of a frame; longer ones the kernel gets */
};

/*
 * What the program writes in front of a frame, where the driver has room for it: when it came, by CLOCK_MONOTONIC. The
 * mark tells that it did.
 */
struct uccl_xdp_stamp {
	uint64_t mark, at_ns;
};

#define UCCL_XDP_STAMPED 0x4355434cull

struct uccl_xdp_prog {
	int link_fd, xsks_fd, rules_fd;
	uint32_t queues; /* that the interface may have */
	bool native;	 /* the driver runs the program; or the kernel does, later and slower */
	bool joined;	 /* another process brought it */
};

/* A place and what is known of packets to it; `guard` may be NULL. */
void uccl_xdp_rule_fill(struct uccl_xdp_rule *rule, const struct uccl_nic_addr *at, uint32_t most,
			const struct uccl_nic_guard *guard);

/*
 * Attach the program to the interface with this index, or join those who have. On an error *what is a static text
 * that says what was refused. -FI_EBUSY: another program of somebody else is there.
 */
int uccl_xdp_prog_open(int ifindex, enum uccl_xdp_mode mode, struct uccl_xdp_prog *p, const char **what);
/* From now on, for as long as it is open, the socket gets what comes by this queue and fits the rule. */
int uccl_xdp_prog_steer(const struct uccl_xdp_prog *p, uint32_t queue, int xsk_fd, const struct uccl_xdp_rule *rule);
/* Another rule for the same socket. */
int uccl_xdp_prog_rule(const struct uccl_xdp_prog *p, uint32_t queue, const struct uccl_xdp_rule *rule);
void uccl_xdp_prog_close(struct uccl_xdp_prog *p);

#endif
