/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* fi_endpoint. */
#ifndef UCCL_API_OPEN_H
#define UCCL_API_OPEN_H

#include "api/object/ep_object.h"

int uccl_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);

#endif
