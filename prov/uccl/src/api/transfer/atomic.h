/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Atomic operations in all forms, and what of them exists. */
#ifndef UCCL_API_ATOMIC_H
#define UCCL_API_ATOMIC_H

#include <rdma/fi_atomic.h>
#include <rdma/fi_trigger.h>

extern struct fi_ops_atomic uccl_atomic_ops;

int uccl_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
		      struct fi_atomic_attr *attr, uint64_t flags);

/* Post deferred work, one of the three kinds of atomics, for `ep`. */
ssize_t uccl_atomic_work(const struct fi_deferred_work *w);

#endif
