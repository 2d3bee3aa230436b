/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Making and enabling endpoints (object/ep_object.h). */
#ifndef UCCL_API_EP_H
#define UCCL_API_EP_H

#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>

#include "api/object/ep_object.h"

/* A new endpoint. `dirs`: its directions, UCCL_TX, UCCL_RX or both. -FI_ENOMEM; -FI_EINVAL: `info` does not fit. */
int uccl_ep_new(struct uccl_domain *d, const struct fi_info *info, uint8_t dirs, size_t fclass, void *context,
		struct uccl_ep **out);
/* Start the endpoint with all that is bound: the last step of fi_enable(3). 0 or a negative error. No lock is held. */
int uccl_ep_activate(struct uccl_ep *ep);

#endif
