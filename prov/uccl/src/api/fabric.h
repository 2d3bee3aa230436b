/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Opening a fabric (object/fabric.h). */
#ifndef UCCL_API_FABRIC_H
#define UCCL_API_FABRIC_H

#include <rdma/fabric.h>
#include <stdbool.h>

int uccl_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);

/* True if this provider opened it. */
bool uccl_fabric_is_ours(const struct fid_fabric *fabric);

#endif
