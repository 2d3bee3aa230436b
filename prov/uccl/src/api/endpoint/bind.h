/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What an endpoint is bound to. */
#ifndef UCCL_API_BIND_H
#define UCCL_API_BIND_H

#include "api/object/ep_object.h"

/* fi_ep_bind. */
int uccl_ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int uccl_ep_bind_av(struct uccl_ep *ep, struct uccl_av *av);
int uccl_ep_bind_eq(struct uccl_ep *ep, struct uccl_eq *eq);

/* Nobody drives it any more, or waits for it, but the caller. */
void uccl_ep_unbind(struct uccl_ep *ep);
/* It needs nothing of this any more, its domain included. */
void uccl_ep_drop_refs(struct uccl_ep *ep);

#endif
