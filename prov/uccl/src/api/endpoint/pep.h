/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Passive endpoints: they listen for requests to connect (cm.h), and hand each to the program. One has a domain and an
 * endpoint of its own inside.
 */
#ifndef UCCL_API_PEP_H
#define UCCL_API_PEP_H

#include <rdma/fi_endpoint.h>

struct uccl_ep;

/* The endpoint inside. */
struct uccl_ep *uccl_pep_ep(struct fid_pep *pep);

int uccl_pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep, void *context);

/*
 * A new endpoint was opened with this in fi_info.handle: a request, which it is to answer, or a passive endpoint that
 * does not listen, whose address it takes. -FI_EINVAL: neither.
 */
int uccl_pep_give(struct fid *handle, struct uccl_ep *ep);

#endif
