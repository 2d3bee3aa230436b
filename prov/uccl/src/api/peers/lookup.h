/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* From a handle of the program to a peer of the engine, and back. The lock of the endpoint's driver is held. */
#ifndef UCCL_API_LOOKUP_H
#define UCCL_API_LOOKUP_H

#include "api/object/ep_object.h"

/*
 * For a handle that was not looked up yet, or whose peer has ended. A place (an address without incarnation), and an
 * address that never was connected, are connected anew once the error was told: by an operation that ended with it, or
 * by this call for one that is to `send`. -FI_EINVAL: no such handle. -FI_ENOMEM. Other errors: the peer has ended.
 */
int uccl_ep_peer_lookup(struct uccl_ep *ep, fi_addr_t fi_addr, bool send, struct uccl_peer **out);
/* The handle of a peer that has sent something; FI_ADDR_NOTAVAIL: not in the address vector. */
fi_addr_t uccl_ep_source(struct uccl_ep *ep, struct uccl_peer *peer);
/* Forget what was looked up by handles that are removed. */
void uccl_ep_forget(struct uccl_ep *ep);

#endif
