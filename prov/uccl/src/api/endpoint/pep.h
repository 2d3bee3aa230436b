/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Passive endpoints. They listen for connection requests (cm.h) and report each to the program's event queue. A passive
 * endpoint contains a domain and an endpoint of its own.
 */
#ifndef UCCL_API_PEP_H
#define UCCL_API_PEP_H

#include <rdma/fi_endpoint.h>

struct uccl_ep;

/* The endpoint inside. */
struct uccl_ep *uccl_pep_ep(struct fid_pep *pep);

int uccl_pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep, void *context);

/*
 * `ep` was opened with `handle` in fi_info.handle. If that is a connection request, `ep` is to answer it. If it is a
 * passive endpoint that does not listen, `ep` takes its address. -FI_EINVAL: neither.
 */
int uccl_pep_give(struct fid *handle, struct uccl_ep *ep);

#endif
