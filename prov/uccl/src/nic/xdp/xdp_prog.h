/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The XDP program of the xdp back end, one on an interface, shared by all endpoints and processes that use it. It hands
 * to an AF_XDP socket what its rule asks for, and leaves everything else to the kernel.
 *
 * Program, maps and attachment (a link of BPF) live as long as a process has them open, so the last one that ends takes
 * them away, however it ends. No file and no pin is left behind.
 */
#ifndef UCCL_NIC_XDP_XDP_PROG_H
#define UCCL_NIC_XDP_XDP_PROG_H

#include "flow/wire/io.h"
#include "nic/nic.h"

/* So many endpoints and lanes of one process may share a queue. */
#define UCCL_XDP_SOCKETS 32

/* Which packets a rule is for: to a place, by a queue. As the program reads it; port in network order. */
struct uccl_xdp_key {
	uint32_t queue;
	uint8_t port[2], zero[2];
	uint8_t ip[16];
};

/* To which socket they go. */
struct uccl_xdp_rule {
	/* With `guarded` only packets that begin so: nothing of strangers (struct uccl_nic_guard). */
	uint8_t magic[2];
	uint8_t token_top[2];
	uint8_t version;
	uint8_t guarded;
	uint32_t types;
	uint32_t most; /* bytes of a frame; longer ones the kernel gets */
	uint32_t slot; /* in the table of sockets */
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

void uccl_xdp_key_fill(struct uccl_xdp_key *key, const struct uccl_nic_addr *at, uint32_t queue);
/* What is known of packets to a place; `guard` may be NULL. All but the slot. */
void uccl_xdp_rule_fill(struct uccl_xdp_rule *rule, uint32_t most, const struct uccl_nic_guard *guard);

/*
 * Attach the program to the interface with this index, or join those who have. On an error *what is a static text
 * that says what was refused. -FI_EBUSY: another program of somebody else is there.
 */
int uccl_xdp_prog_open(int ifindex, enum uccl_xdp_mode mode, struct uccl_xdp_prog *p, const char **what);
/*
 * From now on, for as long as it is open, this socket, which has a number below UCCL_XDP_SOCKETS among those of its
 * queue, gets what comes by the queue for this place and fits the rule.
 */
int uccl_xdp_prog_steer(const struct uccl_xdp_prog *p, const struct uccl_nic_addr *at, uint32_t queue, uint32_t number,
			int xsk_fd, const struct uccl_xdp_rule *rule);
/* Another rule for the same socket. */
int uccl_xdp_prog_rule(const struct uccl_xdp_prog *p, const struct uccl_nic_addr *at, uint32_t queue, uint32_t number,
		       const struct uccl_xdp_rule *rule);
/* Nobody is there any more. */
void uccl_xdp_prog_forget(const struct uccl_xdp_prog *p, const struct uccl_nic_addr *at, uint32_t queue);
/* The queue has a new owner; whoever had it before may have been killed. */
void uccl_xdp_prog_clear(const struct uccl_xdp_prog *p, uint32_t queue);
void uccl_xdp_prog_close(struct uccl_xdp_prog *p);

#endif
