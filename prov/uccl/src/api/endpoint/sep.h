/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Scalable endpoints. Every context, receive contexts first, is an endpoint of one direction with an engine of its own.
 * They have ports and incarnations in a row and one key, so the address of the first stands for all.
 */
#ifndef UCCL_API_SEP_H
#define UCCL_API_SEP_H

#include <rdma/fi_endpoint.h>

struct uccl_ep;
struct uccl_sep;

int uccl_sep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep, void *context);

/* Make the engines of all contexts, if they are not there. No lock of an endpoint is held. */
int uccl_sep_start(struct uccl_sep *sep);
/* A context is about to be closed. */
void uccl_sep_left(struct uccl_sep *sep, const struct uccl_ep *ep);
struct fid *uccl_sep_fid(struct uccl_sep *sep);

#endif
