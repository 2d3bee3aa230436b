/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The RDMA NICs of this host: their usable ports, and the addresses of these. InfiniBand packets are addressed by LID
 * and need no IP; RoCE packets are addressed by GID. iWARP is not supported.
 */
#ifndef UCCL_NIC_VERBS_VERBS_DEV_H
#define UCCL_NIC_VERBS_VERBS_DEV_H

#include <net/if.h>

#include "flow/wire/io.h"

#define UCCL_VERBS_NAME 72 /* bytes for a device name (63) and ":port" */
#define UCCL_VERBS_DRIVER 24

struct uccl_verbs; /* nic/verbs/verbs_lib.h */
struct ibv_context;

/* A port and its device. */
struct uccl_verbs_port {
	char name[UCCL_VERBS_NAME];	/* name of the device, with ":port" if it has several ports */
	char netdev[IF_NAMESIZE];	/* network interface of the GID; empty: none */
	char driver[UCCL_VERBS_DRIVER]; /* kernel driver, "rxe" for Soft-RoCE; empty: unknown */
	uint32_t vendor_id, part_id;
	uint8_t port;
	bool up;	 /* it is active */
	bool infiniband; /* false: Ethernet, so RoCE */
	bool roce_v2;	 /* RoCE over UDP: routable, with a source port for the network to hash */
	uint32_t gid_index;
	uint16_t lid;		   /* InfiniBand */
	struct uccl_nic_addr addr; /* ip: the GID, for RoCE v2 an IP address of netdev; the rest 0 */
	uint32_t mtu;		   /* most payload bytes of one packet */
	uint8_t mtu_code;	   /* the same as enum ibv_mtu: 128 << mtu_code bytes */
	uint64_t link_bps;	   /* bits per second; 0: unknown */
	/* limits that the device reports */
	uint32_t max_qp, max_qp_wr, max_sge, max_cq, max_cqe, max_mr, max_ah, max_srq, max_srq_wr;
	uint32_t max_mw; /* memory windows; 0: it has none */
};

/*
 * List all usable ports, in the order of devices and ports. `linkless`: also ports without link that have an address.
 * `lib` NULL: the host's libibverbs. Returns their number; the caller frees *list (NULL if 0). 0 also if the host has
 * no libibverbs. -FI_ENOMEM.
 */
int uccl_verbs_list(const struct uccl_verbs *lib, bool linkless, struct uccl_verbs_port **list);

/*
 * Find a usable port and open its device. `name` is a port, a device (its first usable port) or a network interface to
 * which a GID of the port belongs; NULL: the first port. `ip`: the GID to use; all zero: the best one. `linkless` as
 * above. The caller closes *ctx. -FI_ENODEV: no such port. -FI_EADDRNOTAVAIL: the port does not have this GID.
 */
int uccl_verbs_open(const struct uccl_verbs *lib, const char *name, const uint8_t ip[16], bool linkless,
		    struct uccl_verbs_port *port, struct ibv_context **ctx);

/* False: the device of an open port was removed from the host. True also if sysfs does not show devices. */
bool uccl_verbs_present(const struct ibv_context *ctx);
/*
 * The state of an open port. UCCL_LINK_DOWN: it is not active, or has lost the GID or LID of its address. If the GID
 * has moved to another index, p->gid_index is updated.
 */
enum uccl_link uccl_verbs_port_state(const struct uccl_verbs *lib, struct ibv_context *ctx, struct uccl_verbs_port *p);

#endif
