/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See lookup.h. */
#include "api/peers/lookup.h"

#include <stdlib.h>
#include <string.h>

#include "api/peers/av.h"

void uccl_ep_forget(struct uccl_ep *ep)
{
	ep->av_generation = atomic_load(ep->av->generation);
	for (uint64_t i = 0; i < ep->npeers; i++) {
		if (ep->peers[i])
			uccl_peer_set_user(ep->peers[i], UINT64_MAX);
		ep->peers[i] = NULL;
	}
	for (uint64_t i = 0; i < ep->nsources; i++)
		uccl_peer_set_user(ep->sources[i], UINT64_MAX);
	ep->nsources = 0;
}

/* Room for handle `index` in the list of peers. */
static bool peers_reach(struct uccl_ep *ep, uint64_t index)
{
	uint64_t n = ep->npeers ? ep->npeers : 16;
	struct uccl_peer **v;

	if (index < ep->npeers)
		return true;
	while (n <= index)
		n *= 2;
	v = realloc(ep->peers, n * sizeof(*v));
	if (!v)
		return false;
	memset(v + ep->npeers, 0, (n - ep->npeers) * sizeof(*v));
	ep->peers = v;
	ep->npeers = n;
	return true;
}

struct uccl_peer *uccl_ep_peer_lookup(struct uccl_ep *ep, fi_addr_t fi_addr)
{
	uint64_t slot = uccl_ep_slot(ep, fi_addr);
	struct uccl_addr addr;
	struct uccl_peer *peer;

	if (uccl_av_get(ep->av, fi_addr, &addr) || !peers_reach(ep, slot))
		return NULL;
	peer = uccl_engine_peer(ep->driver.engine, &addr, true);
	if (!peer)
		return NULL;
	ep->peers[slot] = peer;
	/* An address may have several handles: the first one in use is the one that completions name. */
	if (uccl_peer_user(peer) == UINT64_MAX)
		uccl_peer_set_user(peer, fi_addr & ~0ull >> ep->ctx_bits);
	return peer;
}

/* In a list it is found again when everything must be forgotten. False: out of memory. */
static bool source_keep(struct uccl_ep *ep, fi_addr_t found, struct uccl_peer *peer)
{
	struct uccl_peer **v;

	if (!ep->ctx_bits) {
		if (!peers_reach(ep, found))
			return false;
		ep->peers[found] = peer;
		return true;
	}
	if (!(ep->nsources & (ep->nsources - 1))) {
		v = realloc(ep->sources, (ep->nsources ? ep->nsources * 2 : 1) * sizeof(*v));
		if (!v)
			return false;
		ep->sources = v;
	}
	ep->sources[ep->nsources++] = peer;
	return true;
}

fi_addr_t uccl_ep_source(struct uccl_ep *ep, struct uccl_peer *peer)
{
	fi_addr_t found;

	if (!peer || !ep->av)
		return FI_ADDR_NOTAVAIL;
	if (ep->av_generation != atomic_load_explicit(ep->av->generation, memory_order_relaxed))
		uccl_ep_forget(ep);
	if (uccl_peer_user(peer) != UINT64_MAX)
		return uccl_peer_user(peer);
	found = uccl_av_find(ep->av, uccl_peer_addr(peer));
	if (found == FI_ADDR_NOTAVAIL)
		return found;
	if (source_keep(ep, found, peer))
		uccl_peer_set_user(peer, found);
	return found;
}
