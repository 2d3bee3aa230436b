/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See lookup.h. */
#include "api/peers/lookup.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/peers/av.h"

void uccl_ep_cache_init(struct uccl_ep *ep, const struct uccl_av *av)
{
	ep->cache.ctx_bits = av->ctx_bits;
	ep->cache.av_generation = atomic_load(av->generation);
}

void uccl_ep_cache_fini(struct uccl_ep *ep)
{
	free(ep->cache.peers);
	free(ep->cache.sources);
}

/* Releases the peer of a slot. Completions name it by `handle` no more; FI_ADDR_UNSPEC: by no handle. */
static void slot_forget(struct uccl_ep *ep, uint64_t slot, fi_addr_t handle)
{
	struct uccl_peer *peer = slot < ep->cache.npeers ? ep->cache.peers[slot] : NULL;

	if (!peer)
		return;
	if (handle == FI_ADDR_UNSPEC || uccl_peer_user(peer) == handle)
		uccl_peer_set_user(peer, UINT64_MAX);
	ep->cache.peers[slot] = NULL;
	uccl_peer_release(peer);
}

static void sources_forget(struct uccl_ep *ep)
{
	for (uint64_t i = 0; i < ep->cache.nsources; i++) {
		uccl_peer_set_user(ep->cache.sources[i], UINT64_MAX);
		uccl_peer_release(ep->cache.sources[i]);
	}
	ep->cache.nsources = 0;
}

void uccl_ep_forget(struct uccl_ep *ep)
{
	fi_addr_t gone[UCCL_AV_REMOVED];
	int n = uccl_av_removed(ep->bound.av, &ep->cache.av_generation, gone);

	sources_forget(ep);
	if (n < 0) {
		for (uint64_t i = 0; i < ep->cache.npeers; i++)
			slot_forget(ep, i, FI_ADDR_UNSPEC);
		return;
	}
	for (int i = 0; i < n; i++)
		for (uint64_t k = 0; k < 1ull << ep->cache.ctx_bits; k++)
			slot_forget(ep, (gone[i] << ep->cache.ctx_bits) + k, gone[i]);
}

/* Room for handle `index` in the list of peers. */
static bool peers_reach(struct uccl_ep *ep, uint64_t index)
{
	uint64_t n = ep->cache.npeers ? ep->cache.npeers : 16;
	struct uccl_peer **v;

	if (index < ep->cache.npeers)
		return true;
	while (n <= index)
		n *= 2;
	v = realloc(ep->cache.peers, n * sizeof(*v));
	if (!v)
		return false;
	memset(v + ep->cache.npeers, 0, (n - ep->cache.npeers) * sizeof(*v));
	ep->cache.peers = v;
	ep->cache.npeers = n;
	return true;
}

/* The slot takes over the caller's hold of this peer. */
static void slot_set(struct uccl_ep *ep, uint64_t slot, fi_addr_t handle, struct uccl_peer *peer)
{
	if (ep->cache.peers[slot] == peer)
		uccl_peer_release(peer);
	else
		slot_forget(ep, slot, handle);
	ep->cache.peers[slot] = peer;
	/* An address may have several handles: the first one in use is the one that completions name. */
	if (uccl_peer_user(peer) == UINT64_MAX)
		uccl_peer_set_user(peer, handle);
}

/*
 * The peer of this slot has ended. The slot gets the next peer at the address once the error was reported; an address
 * whose endpoint has ended for good keeps its peer.
 */
static int peer_again(struct uccl_ep *ep, uint64_t slot, fi_addr_t handle, const struct uccl_addr *addr, bool send)
{
	struct uccl_peer *last = ep->cache.peers[slot], *peer;

	if (!uccl_peer_error_reported(last)) {
		/* A receive that names it completes with the error. */
		if (!send)
			return 0;
		uccl_peer_mark_reported(last);
		return -uccl_peer_ended(last);
	}
	if (uccl_peer_user(last) == handle)
		uccl_peer_set_user(last, UINT64_MAX);
	peer = uccl_peer_reconnect(last, addr);
	if (!peer)
		return -FI_ENOMEM;
	ep->cache.peers[slot] = NULL;
	slot_set(ep, slot, handle, peer);
	return send ? -uccl_peer_ended(peer) : 0;
}

int uccl_ep_peer_lookup(struct uccl_ep *ep, fi_addr_t fi_addr, bool send, struct uccl_peer **out)
{
	uint64_t slot = uccl_ep_slot(ep, fi_addr);
	fi_addr_t handle = fi_addr & ~0ull >> ep->cache.ctx_bits;
	struct uccl_addr addr;
	struct uccl_peer *peer;
	int rc = 0;

	if (uccl_av_get(ep->bound.av, fi_addr, &addr))
		return -FI_EINVAL;
	if (!peers_reach(ep, slot))
		return -FI_ENOMEM;
	if (!ep->cache.peers[slot]) {
		peer = uccl_engine_peer(ep->driver.engine, &addr, true);
		if (!peer)
			return -FI_ENOMEM;
		slot_set(ep, slot, handle, peer);
	}
	if (uccl_peer_ended(ep->cache.peers[slot]))
		rc = peer_again(ep, slot, handle, &addr, send);
	*out = ep->cache.peers[slot];
	return rc;
}

/* In a list it is found again when everything must be forgotten. False: out of memory. */
static bool source_keep(struct uccl_ep *ep, fi_addr_t found, struct uccl_peer *peer)
{
	struct uccl_peer **v;

	if (!ep->cache.ctx_bits) {
		if (!peers_reach(ep, found))
			return false;
		uccl_peer_hold(peer);
		slot_set(ep, found, found, peer);
		return true;
	}
	if (!(ep->cache.nsources & (ep->cache.nsources - 1))) {
		v = realloc(ep->cache.sources, (ep->cache.nsources ? ep->cache.nsources * 2 : 1) * sizeof(*v));
		if (!v)
			return false;
		ep->cache.sources = v;
	}
	uccl_peer_hold(peer);
	ep->cache.sources[ep->cache.nsources++] = peer;
	uccl_peer_set_user(peer, found);
	return true;
}

fi_addr_t uccl_ep_source(struct uccl_ep *ep, struct uccl_peer *peer)
{
	fi_addr_t found;

	if (!peer || !ep->bound.av)
		return FI_ADDR_NOTAVAIL;
	if (ep->cache.av_generation != atomic_load_explicit(ep->bound.av->generation, memory_order_relaxed))
		uccl_ep_forget(ep);
	if (uccl_peer_user(peer) != UINT64_MAX)
		return uccl_peer_user(peer);
	found = uccl_av_find(ep->bound.av, uccl_peer_addr(peer));
	/* A message of an ended peer may come late: its handle may stand for the next peer by now. Without memory the
	 * peer is looked up again the next time. */
	if (found != FI_ADDR_NOTAVAIL && !uccl_peer_ended(peer))
		(void)source_keep(ep, found, peer);
	return found;
}
