/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The calls of fi_av(3). They resolve names to addresses; av.h stores the addresses. */
#ifndef UCCL_API_AVOPS_H
#define UCCL_API_AVOPS_H

#include <rdma/fi_domain.h>

int uccl_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *context);

#endif
