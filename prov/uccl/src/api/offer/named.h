/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Endpoints of RDMA NICs, found by host name and port. The NIC chooses the number of a queue pair, so what an endpoint
 * has at a port of its choice is somebody who tells its address: a thread with UDP sockets, that lives while the
 * endpoint does and needs no progress of it. Others ask for a bounded time (docs/protocol/connection.md, Names).
 */
#ifndef UCCL_API_NAMED_H
#define UCCL_API_NAMED_H

#include "api/offer/param.h"
#include "flow/wire/name.h"

struct uccl_engine;
struct uccl_named;

/* How long it is asked for a name at most, by fi_getinfo and per name by fi_av_insertsvc and fi_av_insertsym. */
#define UCCL_NAMED_PATIENCE_NS (2 * UCCL_NS_PER_S)

/*
 * Whether this process tells names and asks for them: who may ask is whoever reaches the port, so not if it wants
 * peers that know its key by other ways (FI_UCCL_SECURITY: keyless=no, control, packets).
 */
bool uccl_named_allowed(const struct uccl_params *p);

/*
 * Where an endpoint at `own`, with the port that was chosen, is asked for: all addresses of this host that are no other
 * RDMA NIC's, `own` first if it is one of them. How many; *list is the caller's to free. -FI_ENOMEM.
 */
int uccl_named_places(const struct uccl_params *p, const struct uccl_nic_addr *own, struct uccl_nic_addr **list);

/*
 * Tell who asks at at[0..n) that the endpoint there has this address; places behind the first are left out if somebody
 * has them already. -FI_EADDRINUSE, -FI_EADDRNOTAVAIL: the first cannot be had; -FI_EAGAIN: no thread.
 */
int uccl_named_open(const struct uccl_nic_addr *at, int n, const struct uccl_addr *address, struct uccl_named **out);
/* What was refused goes to the counters of `e`, unless that is NULL. NULL is well. */
void uccl_named_close(struct uccl_named *nd, struct uccl_engine *e);

/* Ask at at[0..n), from ports of the range, until one answers; -FI_ENODATA: nobody did in so many ns. */
int uccl_named_ask(const struct uccl_nic_addr *at, int n, const struct uccl_ports *ports, uint64_t patience_ns,
		   struct uccl_addr *out);

#endif
