/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Liveness for the udp back end: TCP connections that the kernels hold while the processes compute. Each endpoint
 * listens on TCP at the address of its UDP socket and connects to the listener of each peer. The accepting side
 * speaks first and once, 16 bytes: "UCCLlive" and a random number of this endpoint; the connecting side says nothing.
 *
 * A peer is gone when a listener that we once heard its number from now refuses us, or gives another number. A broken
 * connection alone proves nothing (a path may have died, a middle box restarted, the peer been short of
 * descriptors): it only makes us ask again. Only what the owner of the port can say is believed, so no third
 * party's connection can fake an end, and the accepting side need not know who connects.
 * Who is known to listen may be asked before anything was heard of it: then one refusal is the end.
 */
#ifndef UCCL_NIC_UDP_LIVE_H
#define UCCL_NIC_UDP_LIVE_H

#include "flow/wire/io.h"
#include "nic/ports.h"

struct uccl_udp_live;
struct uccl_udp_live_peer;

/*
 * Listen at `self` (port not 0; all zero IP: both wildcards). `id` is this endpoint's random number. Connections to
 * peers are made from ports of the range, which several share; a port where somebody listens is none of those.
 * -FI_EADDRINUSE: the TCP port is taken; or another error of the system.
 */
int uccl_udp_live_open(const struct uccl_nic_addr *self, uint64_t id, const struct uccl_ports *ports,
		       struct uccl_udp_live **live);
void uccl_udp_live_close(struct uccl_udp_live *live);

/*
 * Watch a peer. `user` comes back from uccl_udp_live_poll. A shortage of descriptors or ports is no error: the peer is
 * then not watched. -FI_ENOMEM.
 */
int uccl_udp_live_connect(struct uccl_udp_live *live, const struct uccl_nic_addr *to, void *user, uint64_t now,
			  struct uccl_udp_live_peer **peer);
/* The same of one that has a listener for certain, if it lives: a first refusal is told as its end, too. */
int uccl_udp_live_ask(struct uccl_udp_live *live, const struct uccl_nic_addr *to, void *user, uint64_t now,
		      struct uccl_udp_live_peer **peer);
/* Stop to watch; nothing about this peer is reported any more. */
void uccl_udp_live_disconnect(struct uccl_udp_live *live, struct uccl_udp_live_peer *peer);

/* Is the peer's kernel known to hold a connection of its process with us now? */
bool uccl_udp_live_up(const struct uccl_udp_live_peer *peer);

/*
 * Work, never blocking. Fills gone[0..max) with the users of peers whose end is proven and returns how many; each
 * is reported once. `now` in ns, monotonic.
 */
int uccl_udp_live_poll(struct uccl_udp_live *live, uint64_t now, void **gone, int max);

/* When poll should run although the descriptor is silent; UCCL_NEVER: no need. */
uint64_t uccl_udp_live_expiry(const struct uccl_udp_live *live);
/* Readable when poll has something to do. Belongs to live. */
int uccl_udp_live_fd(const struct uccl_udp_live *live);

#endif
