/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* fi_open_ops: what rdma/fi_ext_uccl.h offers programs to look at. */
#ifndef UCCL_API_OPENOPS_H
#define UCCL_API_OPENOPS_H

#include <rdma/fabric.h>

/* Of an endpoint. -FI_ENOSYS: no such operations. */
int uccl_openops_ep(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);

#endif
