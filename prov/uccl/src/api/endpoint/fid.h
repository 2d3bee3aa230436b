/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Handles (struct fid_ep) of endpoints, scalable endpoints and shared receive contexts. */
#ifndef UCCL_API_FID_H
#define UCCL_API_FID_H

#include "api/object/ep_object.h"

/* Fill in a handle, with all calls that transfer data. */
void uccl_ep_fid_init(struct uccl_ep_fid *f, size_t fclass, void *context, struct fi_ops *fid_ops,
		      struct fi_ops_ep *ops, struct fi_ops_cm *cm);

#endif
