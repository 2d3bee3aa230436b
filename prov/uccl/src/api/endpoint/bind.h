/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Binding of endpoints to address vectors, queues and counters. */
#ifndef UCCL_API_BIND_H
#define UCCL_API_BIND_H

#include "api/object/ep_object.h"

/* fi_ep_bind. */
int uccl_ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int uccl_ep_bind_av(struct uccl_ep *ep, struct uccl_av *av);
int uccl_ep_bind_eq(struct uccl_ep *ep, struct uccl_eq *eq);

/* The endpoint closes: remove its driver from all lists, so that only the caller drives it or waits for it. */
void uccl_ep_unbind(struct uccl_ep *ep);
/* Give back the endpoint's references to all objects that it was bound to, and to its domain. */
void uccl_ep_drop_refs(struct uccl_ep *ep);

#endif
