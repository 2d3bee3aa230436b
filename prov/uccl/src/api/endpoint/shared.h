/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Opening of shared contexts. transfer/srx.h has the work of a shared receive context. A shared transmit context has no
 * function, since the endpoints of a domain compete for nothing that it could share.
 */
#ifndef UCCL_API_SHARED_H
#define UCCL_API_SHARED_H

#include <rdma/fi_endpoint.h>

#include "base/units.h"

struct uccl_domain;

/* Endpoints keep no reference to it, so it may be closed before them: Sandia OpenSHMEM does so. */
struct uccl_stx {
	struct fid_stx fid;
	struct uccl_domain *domain;
};

static inline struct uccl_stx *uccl_stx_of(struct fid *fid)
{
	return uccl_container_of(fid, struct uccl_stx, fid.fid);
}

int uccl_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **srx, void *context);
int uccl_stx_open(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx, void *context);

#endif
