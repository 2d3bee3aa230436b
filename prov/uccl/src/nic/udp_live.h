/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Liveness for the udp back end: TCP connections that the kernels hold while the processes compute. Each endpoint
 * listens on TCP at the address of its UDP socket and connects to the listener of each peer. The accepting side
 * speaks first and once, 16 bytes: "UCCLlive" and a random number of this endpoint; the connecting side says nothing.
 *
 * A peer has ended when its listener, which once told its number, now refuses us or tells another number. A broken
 * connection alone proves nothing: a path may have died, a middle box may have restarted, or the peer may be short of
 * descriptors. It only makes us connect again. Only the owner of the port can give a proof, so no third party can fake
 * an end, and the accepting side need not know which peer connects.
 *
 * If a peer is known to listen (uccl_udp_live_ask), its number need not have been heard: the first refusal is a proof.
 */
#ifndef UCCL_NIC_UDP_LIVE_H
#define UCCL_NIC_UDP_LIVE_H

#include "flow/wire/io.h"
#include "nic/ports.h"

struct uccl_udp_live;
struct uccl_udp_live_peer;

/*
 * Listen at `self` (port not 0; all zero IP: both wildcards). `id` is this endpoint's random number. Connections to
 * peers leave from ports of the range `ports`. Several connections share a port, but never one where a socket listens.
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
/* As uccl_udp_live_connect(), for a peer that certainly has a listener while it lives: a first refusal is its end. */
int uccl_udp_live_ask(struct uccl_udp_live *live, const struct uccl_nic_addr *to, void *user, uint64_t now,
		      struct uccl_udp_live_peer **peer);
/* Stop watching; nothing about this peer is reported any more. */
void uccl_udp_live_disconnect(struct uccl_udp_live *live, struct uccl_udp_live_peer *peer);

/* True if a connection with the peer's process is established now. */
bool uccl_udp_live_up(const struct uccl_udp_live_peer *peer);
/* True if the peer's kernel accepted a connection, and the process has not spoken yet. */
bool uccl_udp_live_held(const struct uccl_udp_live_peer *peer);

/*
 * Accept, connect and read; never blocks. Fills gone[0..max) with the `user` of each peer whose end is proven, and
 * returns their number. Each end is reported once. `now` in ns, monotonic.
 */
int uccl_udp_live_poll(struct uccl_udp_live *live, uint64_t now, void **gone, int max);

/* When uccl_udp_live_poll() must run although the descriptor is not readable, ns; UCCL_NEVER: no need. */
uint64_t uccl_udp_live_expiry(const struct uccl_udp_live *live);
/* A descriptor that is readable when uccl_udp_live_poll() has something to do. Belongs to `live`. */
int uccl_udp_live_fd(const struct uccl_udp_live *live);

#endif
