/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* fi_atomic(3): atomic operations in all forms, and the query for supported ones. */
#ifndef UCCL_API_ATOMIC_H
#define UCCL_API_ATOMIC_H

#include <rdma/fi_atomic.h>
#include <rdma/fi_trigger.h>

extern struct fi_ops_atomic uccl_atomic_ops;

int uccl_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
		      struct fi_atomic_attr *attr, uint64_t flags);

/* Post deferred work that is an atomic, a fetching atomic or a compare atomic. 0 or a negative error. */
ssize_t uccl_atomic_work(const struct fi_deferred_work *w);

#endif
