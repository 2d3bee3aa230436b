/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The engine of an endpoint, with all that it works on. The lock of its driver is held. */
#ifndef UCCL_API_START_H
#define UCCL_API_START_H

#include "api/object/ep_object.h"

/* Make the engine, if it is not there; undo that. */
int uccl_ep_start(struct uccl_ep *ep, const struct uccl_addr *identity);
void uccl_ep_stop(struct uccl_ep *ep);

/* Once in a domain: marks of the network are asked for (FI_UCCL_ECN), and its NIC cannot tell of any. */
void uccl_ep_marks_say(struct uccl_domain *d, const struct uccl_nic_caps *caps);

#endif
