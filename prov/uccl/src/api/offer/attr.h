/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the provider offers, and whether a program's hints can be met by it. */
#ifndef UCCL_API_ATTR_H
#define UCCL_API_ATTR_H

#include <rdma/fabric.h>

#include "api/lib/oldnames.h"
#include "api/offer/param.h"

/* Places in a scatter list. */
#define UCCL_IOV_LIMIT 4
/* Longest message. */
#define UCCL_MSG_MAX (1ull << 40)
/* Operations a side of an endpoint is meant to have open (fi_tx_attr.size and fi_rx_attr.size). */
#define UCCL_OPS_DEFAULT 4096
/* Most bytes of err_data of a completion. */
#define UCCL_ERR_DATA_MAX 256
/* Most bytes of an authorization key. */
#define UCCL_AUTH_KEY_MAX 256
/* Most contexts of a scalable endpoint: each has an engine of its own. */
#define UCCL_CONTEXTS_MAX 16

/*
 * The most that there can be, of an endpoint of this type with these capabilities: one context is all that a directed
 * receive knows of a peer.
 */
size_t uccl_attr_contexts(enum fi_ep_type type, uint64_t caps);

/* FI_EP_UNSPEC, which stands for FI_EP_RDM, and the types that there are. */
bool uccl_attr_type_ok(enum fi_ep_type type);

/* Can these be the default flags (op_flags) of what an endpoint transmits, or receives? If not, that is logged. */
bool uccl_attr_tx_flags(uint64_t flags);
bool uccl_attr_rx_flags(uint64_t flags);

/*
 * True if hints (may be NULL, as may every part of them) can be met. Otherwise the reason is told at info level.
 * hints->nic is never looked at. Addresses and the names of interfaces are not judged here.
 */
bool uccl_attr_match(const struct fi_info *hints, uint32_t version, const struct uccl_params *p);

/*
 * Fill everything but addresses, domain name and nic of an info made by the library's dupinfo(NULL), for hints that
 * match. -FI_ENOMEM.
 */
int uccl_attr_fill(struct fi_info *info, const struct fi_info *hints, uint32_t version, const struct uccl_params *p);

/* Does this mode name regions by their own addresses and keys of ours? Otherwise by offsets and the program's keys. */
static inline bool uccl_attr_mr_virtual(int mr_mode)
{
	return mr_mode == FI_MR_BASIC || mr_mode & FI_MR_VIRT_ADDR;
}

#endif
