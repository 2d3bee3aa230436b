/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Scalable endpoints. Every context, receive contexts first, is an endpoint of one direction with an engine of its own.
 * They have ports and incarnations in a row and one key, so the address of the first stands for all.
 */
#ifndef UCCL_API_SEP_H
#define UCCL_API_SEP_H

#include <rdma/fi_endpoint.h>

int uccl_sep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep, void *context);

#endif
