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

/* Log, once in a domain, that the user asked for ECN (FI_UCCL_ECN) and the NIC does not support it. */
void uccl_ep_marks_say(struct uccl_domain *d, const struct uccl_nic_caps *caps);

#endif
