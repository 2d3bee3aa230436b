/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Poll sets (fi_poll(3)): find those of several queues and counters that have something to read. */
#ifndef UCCL_API_POLL_H
#define UCCL_API_POLL_H

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

int uccl_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **pollset);

#endif
