/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The XDP program of the xdp back end. An interface has one, which all endpoints and processes on it share. The program
 * passes packets that match a rule to the rule's AF_XDP socket, and all others to the kernel.
 *
 * Program, maps and attachment (a BPF link) exist as long as a process has them open. So they go with the last process,
 * however that ends, and leave no file and no pin behind.
 */
#ifndef UCCL_NIC_XDP_XDP_PROG_H
#define UCCL_NIC_XDP_XDP_PROG_H

#include "flow/wire/io.h"
#include "nic/nic.h"

/* Most endpoints and lanes of one process that share a queue. */
#define UCCL_XDP_SOCKETS 32

/* The key of a rule: packets to this address that arrive by this queue. Read by the program. */
struct uccl_xdp_key {
	uint32_t queue;
	uint8_t port[2], zero[2]; /* port in network byte order */
	uint8_t ip[16];
};

/* The rule: which of these packets go to a socket, and to which one. Read by the program. */
struct uccl_xdp_rule {
	/* If `guarded`: only packets with these header fields (struct uccl_nic_guard). */
	uint8_t magic[2];
	uint8_t token_top[2];
	uint8_t version;
	uint8_t guarded;
	uint32_t types;
	uint32_t most; /* most bytes of a frame; longer ones go to the kernel */
	uint32_t slot; /* the socket's index in the table of sockets */
};

/*
 * The program writes this in front of a frame if the driver leaves room for it. mark UCCL_XDP_STAMPED: the program
 * wrote it. at_ns: arrival by CLOCK_MONOTONIC.
 */
struct uccl_xdp_stamp {
	uint64_t mark, at_ns;
};

#define UCCL_XDP_STAMPED 0x4355434cull

struct uccl_xdp_prog {
	int link_fd, xsks_fd, rules_fd;
	uint32_t queues; /* most queues that the interface can have */
	bool native;	 /* the program runs in the driver; false: in the kernel's generic hook, later and slower */
	bool joined;	 /* another process had attached it */
};

void uccl_xdp_key_fill(struct uccl_xdp_key *key, const struct uccl_nic_addr *at, uint32_t queue);
/* Fill all of a rule except `slot`. `guard` NULL: not guarded. */
void uccl_xdp_rule_fill(struct uccl_xdp_rule *rule, uint32_t most, const struct uccl_nic_guard *guard);

/*
 * Attach the program to the interface `ifindex`, or use the one that another process has attached. After an error *what
 * is a static text: the step that failed. -FI_EBUSY: the interface has a foreign XDP program.
 */
int uccl_xdp_prog_open(int ifindex, enum uccl_xdp_mode mode, struct uccl_xdp_prog *p, const char **what);
/*
 * From now on the socket `xsk_fd`, while it is open, gets packets to `at` that arrive by `queue` and match the rule.
 * `number`, below UCCL_XDP_SOCKETS, tells the sockets of a queue apart. 0 or a negative error.
 */
int uccl_xdp_prog_steer(const struct uccl_xdp_prog *p, const struct uccl_nic_addr *at, uint32_t queue, uint32_t number,
			int xsk_fd, const struct uccl_xdp_rule *rule);
/* Replace the rule of a socket that uccl_xdp_prog_steer() added. 0 or a negative error. */
int uccl_xdp_prog_rule(const struct uccl_xdp_prog *p, const struct uccl_nic_addr *at, uint32_t queue, uint32_t number,
		       const struct uccl_xdp_rule *rule);
/* Remove the rule for `at` on this queue. */
void uccl_xdp_prog_forget(const struct uccl_xdp_prog *p, const struct uccl_nic_addr *at, uint32_t queue);
/* Remove all rules of a queue that has a new owner: the previous owner may have been killed. */
void uccl_xdp_prog_clear(const struct uccl_xdp_prog *p, uint32_t queue);
void uccl_xdp_prog_close(struct uccl_xdp_prog *p);

#endif
