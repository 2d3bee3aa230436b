/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* From a handle of the program to a peer of the engine, and back. The lock of the endpoint's driver is held. */
#ifndef UCCL_API_LOOKUP_H
#define UCCL_API_LOOKUP_H

#include "api/object/ep.h"

/* For a handle that was not looked up yet; NULL: no such handle, or out of memory. */
struct uccl_peer *uccl_ep_peer_lookup(struct uccl_ep *ep, fi_addr_t fi_addr);
/* The handle of a peer that has sent something; FI_ADDR_NOTAVAIL: not in the address vector. */
fi_addr_t uccl_ep_source(struct uccl_ep *ep, struct uccl_peer *peer);
/* Forget everything that was looked up. */
void uccl_ep_forget(struct uccl_ep *ep);

#endif
