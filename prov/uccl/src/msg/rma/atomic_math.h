/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The arithmetic of atomic operations. Numbers of types and operations are libfabric's (api/transfer/atomic.c
 * compares).
 */
#ifndef UCCL_MSG_RMA_ATOMIC_MATH_H
#define UCCL_MSG_RMA_ATOMIC_MATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "msg/op.h"

enum uccl_datatype {
	UCCL_INT8, UCCL_UINT8, UCCL_INT16, UCCL_UINT16, UCCL_INT32, UCCL_UINT32, UCCL_INT64, UCCL_UINT64,
	UCCL_FLOAT, UCCL_DOUBLE, UCCL_FLOAT_COMPLEX, UCCL_DOUBLE_COMPLEX, UCCL_LONG_DOUBLE, UCCL_LONG_DOUBLE_COMPLEX,
	UCCL_INT128, UCCL_UINT128, UCCL_DATATYPES
};

enum uccl_atomic {
	UCCL_MIN, UCCL_MAX, UCCL_SUM, UCCL_PROD, UCCL_LOR, UCCL_LAND, UCCL_BOR, UCCL_BAND, UCCL_LXOR, UCCL_BXOR,
	UCCL_ATOMIC_READ, UCCL_ATOMIC_WRITE, UCCL_CSWAP, UCCL_CSWAP_NE, UCCL_CSWAP_LE, UCCL_CSWAP_LT, UCCL_CSWAP_GE,
	UCCL_CSWAP_GT, UCCL_MSWAP, UCCL_ATOMICS
};

/* Bytes of one element as it lies in memory and on the wire; 0: no such type. */
size_t uccl_atomic_size(unsigned int datatype);
/* Does an operation of this kind (UCCL_OP_ATOMIC, FETCH or COMPARE) exist for the type? */
bool uccl_atomic_valid(enum uccl_op_type kind, unsigned int datatype, unsigned int op);
/*
 * n elements, one after the other: result = dst (NULL: not wanted), dst = dst op src. Nothing need be aligned; result
 * must not overlap anything else. The combination must be valid; cmp is read by the compare operations only.
 */
void uccl_atomic_apply(unsigned int datatype, unsigned int op, void *dst, const void *src, const void *cmp,
		       void *result, size_t n);

#endif
