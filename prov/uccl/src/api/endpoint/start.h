/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Opening of an endpoint's engine, with its NIC and lanes. The caller holds the lock of the endpoint's driver. */
#ifndef UCCL_API_START_H
#define UCCL_API_START_H

#include "api/object/ep_object.h"

/*
 * Open the engine, unless it is open: 0 or a negative error. It gets incarnation and key of `identity`; NULL: random
 * ones. uccl_ep_stop() closes it.
 */
int uccl_ep_start(struct uccl_ep *ep, const struct uccl_addr *identity);
void uccl_ep_stop(struct uccl_ep *ep);

/*
 * Set the address to bind, before the engine opens. `range`: the provider chose its port, one of consecutive ports.
 * `again`: the caller tries another port if this one is taken for data or for liveness, so no line for people says so.
 */
void uccl_ep_set_src(struct uccl_ep *ep, const struct uccl_nic_addr *src, bool range, bool again);
/* fi_setname(3): change *src to `addr`. A wildcard changes only the port. -FI_EINVAL: no address of this format. */
int uccl_ep_src_from_name(struct uccl_nic_addr *src, uint32_t addr_format, const void *addr, size_t addrlen);
/* From now on the endpoint's address cannot be asked for (run.named). */
void uccl_ep_close_named(struct uccl_ep *ep);

/* Log, once in a domain, that the user asked for ECN (FI_UCCL_ECN) and the NIC does not support it. */
void uccl_ep_marks_say(struct uccl_domain *d, const struct uccl_nic_caps *caps);

#endif
