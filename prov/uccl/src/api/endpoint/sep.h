/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Scalable endpoints. Each context is an endpoint of one direction with its own engine. The contexts, receive contexts
 * first, have consecutive ports and incarnations and one key, so the address of the first one determines the others.
 */
#ifndef UCCL_API_SEP_H
#define UCCL_API_SEP_H

#include <rdma/fi_endpoint.h>

int uccl_sep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep, void *context);

#endif
