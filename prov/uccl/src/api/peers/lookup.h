/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Conversion of a handle of the program to a peer, and back. The caller holds the lock of the endpoint's driver. */
#ifndef UCCL_API_LOOKUP_H
#define UCCL_API_LOOKUP_H

#include "api/object/ep_object.h"

/*
 * Look up a handle that is not in the cache, or whose peer has ended. If the ended peer is a place (an address without
 * incarnation), or was never connected, its error is reported once: by an operation that failed with it, or else by
 * this call if the caller is going to `send`. After that the call connects anew. -FI_EINVAL: no such handle.
 * -FI_ENOMEM. Other errors: the peer has ended.
 */
int uccl_ep_peer_lookup(struct uccl_ep *ep, fi_addr_t fi_addr, bool send, struct uccl_peer **out);
/* The handle of a peer from which something arrived; FI_ADDR_NOTAVAIL: it is not in the address vector. */
fi_addr_t uccl_ep_source(struct uccl_ep *ep, struct uccl_peer *peer);
/* Drop removed handles from the cache. */
void uccl_ep_forget(struct uccl_ep *ep);

/* The cache of an endpoint that was bound to this vector. _fini() frees it; the engine is closed, or never was open. */
void uccl_ep_cache_init(struct uccl_ep *ep, const struct uccl_av *av);
void uccl_ep_cache_fini(struct uccl_ep *ep);

#endif
