/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Atomic operations: not offered by fi_getinfo; every call answers -FI_ENOSYS (fi_*valid: -FI_EOPNOTSUPP). */
#ifndef UCCL_API_ATOMIC_H
#define UCCL_API_ATOMIC_H

#include <rdma/fi_atomic.h>

extern struct fi_ops_atomic uccl_atomic_ops;

#endif
