/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * RDMA NICs of this host, found without anything set: which ports carry traffic, and how their packets are addressed.
 * InfiniBand goes by LID and needs no IP on it; RoCE goes by GID. iWARP is not for us.
 */
#ifndef UCCL_NIC_VERBS_VERBS_DEV_H
#define UCCL_NIC_VERBS_VERBS_DEV_H

#include <net/if.h>

#include "flow/wire/io.h"

#define UCCL_VERBS_NAME 72 /* of a device (63), and :port */
#define UCCL_VERBS_DRIVER 24

struct uccl_verbs; /* nic/verbs/verbs_lib.h */
struct ibv_context;

/* A port that is active, unless who asked takes others, too. */
struct uccl_verbs_port {
	char name[UCCL_VERBS_NAME];	/* of the device; with :port if it has several */
	char netdev[IF_NAMESIZE];	/* that the GID belongs to; empty: none */
	char driver[UCCL_VERBS_DRIVER]; /* of the kernel, "rxe" for Soft-RoCE; empty: not known */
	uint32_t vendor_id, part_id;
	uint8_t port;
	bool up;	 /* it is active */
	bool infiniband; /* else Ethernet: RoCE */
	bool roce_v2;	 /* RoCE over UDP: routable, with a source port for the network to hash */
	uint32_t gid_index;
	uint16_t lid;		   /* InfiniBand */
	struct uccl_nic_addr addr; /* ip: the GID, for RoCE v2 an IP address of netdev; the rest 0 */
	uint32_t mtu;		   /* most payload of one packet, */
	uint8_t mtu_code;	   /* and as verbs know it: 128 << n */
	uint64_t link_bps;	   /* 0: not known */
	/* what the device has, as it says */
	uint32_t max_qp, max_qp_wr, max_sge, max_cq, max_cqe, max_mr, max_ah, max_srq, max_srq_wr;
	uint32_t max_mw; /* memory windows; 0: it has none */
};

/*
 * All usable ports, in the order of devices and ports; `linkless`: also those that carry nothing now, but have an
 * address. `lib` NULL: of the host's libibverbs. Returns how many, *list is the caller's to free() (NULL when 0); 0 as
 * well if the host has no such library. -FI_ENOMEM.
 */
int uccl_verbs_list(const struct uccl_verbs *lib, bool linkless, struct uccl_verbs_port **list);

/*
 * Find a usable port and open its device: by its name, by that of its device (the first usable port then), or by that
 * of a network interface that one of its GIDs belongs to; NULL: the first of all. `ip` not all zero: the GID to use,
 * else the best is chosen. `linkless`: as above.
 * *ctx is the caller's to close. -FI_ENODEV: there is none; -FI_EADDRNOTAVAIL: there is, but without that GID.
 */
int uccl_verbs_open(const struct uccl_verbs *lib, const char *name, const uint8_t ip[16], bool linkless,
		    struct uccl_verbs_port *port, struct ibv_context **ctx);

/* Is the device of an open port still on this host? True as well if the host does not show its devices. */
bool uccl_verbs_present(const struct ibv_context *ctx);
/*
 * How an open port is: DOWN if it carries nothing, or the GID or LID that was its address is not its own any more. A
 * GID may have moved to another number, which p->gid_index is set to.
 */
enum uccl_link uccl_verbs_look(const struct uccl_verbs *lib, struct ibv_context *ctx, struct uccl_verbs_port *p);

#endif
