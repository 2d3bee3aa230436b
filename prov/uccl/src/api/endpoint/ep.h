/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Life of endpoints (object/ep.h). */
#ifndef UCCL_API_EP_H
#define UCCL_API_EP_H

#include "api/object/ep_object.h"

/* One with these directions only. -FI_ENOMEM; -FI_EINVAL: `info` does not fit. */
int uccl_ep_new(struct uccl_domain *d, const struct fi_info *info, uint8_t ways, size_t fclass, void *context,
		struct uccl_ep **out);
/* Begin to work, with what is bound: what fi_enable does when nothing is missing. No lock is held. */
int uccl_ep_activate(struct uccl_ep *ep);

#endif
