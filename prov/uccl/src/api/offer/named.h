/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Finding endpoints of RDMA NICs by host name and port. The NIC chooses the number of a queue pair, so an endpoint
 * cannot choose its address. Instead it has a responder at a UDP port of its choice: a thread that tells its address to
 * those that ask. The thread lives until the endpoint closes, and needs no progress of it. Other endpoints ask for a
 * bounded time (docs/protocol/connection.md, Names).
 */
#ifndef UCCL_API_NAMED_H
#define UCCL_API_NAMED_H

#include "api/offer/param.h"
#include "flow/wire/name.h"

struct uccl_engine;
struct uccl_named;

/* Longest time, ns, to ask for a name: in fi_getinfo, and per name in fi_av_insertsvc and fi_av_insertsym. */
#define UCCL_NAMED_PATIENCE_NS (2 * UCCL_NS_PER_S)

/*
 * True if this process answers such questions and asks them. Any host that reaches the port may ask: false if the
 * user wants peers that know the key by other means (FI_UCCL_SECURITY: keyless=no, control, packets).
 */
bool uccl_named_allowed(const struct uccl_params *p);

/*
 * The addresses at which the responder of an endpoint at `own` (with the chosen port) listens: all addresses of this
 * host except those of other RDMA NICs; `own` is first, if it is an address of the host. Returns their number; the
 * caller frees *list. -FI_ENOMEM.
 */
int uccl_named_places(const struct uccl_params *p, const struct uccl_nic_addr *own, struct uccl_nic_addr **list);

/*
 * Start a responder at at[0..n) that tells `address`. Behind the first, addresses whose port is in use are skipped.
 * -FI_EADDRINUSE, -FI_EADDRNOTAVAIL: at[0] cannot be bound. -FI_EAGAIN: no thread can be made.
 */
int uccl_named_open(const struct uccl_nic_addr *at, int n, const struct uccl_addr *address, struct uccl_named **out);
/* End it. Packets that it refused are added to the counters of `e`, which may be NULL. `nd` may be NULL. */
void uccl_named_close(struct uccl_named *nd, struct uccl_engine *e);

/* Ask at at[0..n), from ports of the range, until one answers. -FI_ENODATA: no answer within `patience_ns`. */
int uccl_named_ask(const struct uccl_nic_addr *at, int n, const struct uccl_ports *ports, uint64_t patience_ns,
		   struct uccl_addr *out);

#endif
