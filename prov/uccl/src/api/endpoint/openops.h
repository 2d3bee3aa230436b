/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* fi_open_ops: the statistics of rdma/fi_ext_uccl.h. */
#ifndef UCCL_API_OPENOPS_H
#define UCCL_API_OPENOPS_H

#include <rdma/fabric.h>

/* fi_open_ops(3) of an endpoint. -FI_ENOSYS: no operations of this name. */
int uccl_openops_ep(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);

#endif
