/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The attributes that the provider offers, and whether they satisfy a program's hints. */
#ifndef UCCL_API_ATTR_H
#define UCCL_API_ATTR_H

#include <rdma/fabric.h>

#include "api/lib/oldnames.h"
#include "api/offer/param.h"

/* Most entries of a scatter list. */
#define UCCL_IOV_LIMIT 4
/* Most bytes of a message. */
#define UCCL_MSG_MAX (1ull << 40)
/* Default of fi_tx_attr.size and fi_rx_attr.size: open operations of an endpoint in one direction. */
#define UCCL_OPS_DEFAULT 4096
/* Most bytes of err_data of a completion. */
#define UCCL_ERR_DATA_MAX 256
/* Most bytes of an authorization key. */
#define UCCL_AUTH_KEY_MAX 256
/* Most contexts of a scalable endpoint: each has an engine of its own. */
#define UCCL_CONTEXTS_MAX 16

/*
 * Most contexts of an endpoint of this type with these capabilities. With FI_DIRECTED_RECV it is 1: a directed receive
 * names one port of the peer, but messages of a peer with several contexts come from several ports.
 */
size_t uccl_attr_contexts(enum fi_ep_type type, uint64_t caps);

/* True for the types that the provider has, and for FI_EP_UNSPEC, which means FI_EP_RDM. */
bool uccl_attr_type_ok(enum fi_ep_type type);

/* True if these flags are allowed as default flags (op_flags) of a transmit, or receive, context. Else it is logged. */
bool uccl_attr_tx_flags(uint64_t flags);
bool uccl_attr_rx_flags(uint64_t flags);

/*
 * True if hints (may be NULL, as may every part of them) can be met. Otherwise the reason is logged at info level.
 * hints->nic is not used. Addresses and the names of interfaces are not checked here.
 */
bool uccl_attr_match(const struct fi_info *hints, uint32_t version, const struct uccl_params *p);

/*
 * Fill everything but addresses, domain name and nic of an info made by the library's dupinfo(NULL), for hints that
 * match. -FI_ENOMEM.
 */
int uccl_attr_fill(struct fi_info *info, const struct fi_info *hints, uint32_t version, const struct uccl_params *p);

/* True: in this mode peers use virtual addresses and the provider's keys. False: offsets and the program's keys. */
static inline bool uccl_attr_mr_virtual(int mr_mode)
{
	return mr_mode == FI_MR_BASIC || mr_mode & FI_MR_VIRT_ADDR;
}

#endif
