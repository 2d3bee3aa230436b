/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One function per type, made from one macro per class of types. Elements are copied out and in, as neither a program's
 * memory nor a packet need be aligned. Integers wrap: sums and products are taken unsigned, as wide as the type or
 * wider.
 */
#include "msg/rma/atomic_math.h"

#include <complex.h>
#include <string.h>

__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;

#define CASE(op, value)                                                                                                \
	case UCCL_##op:                                                                                                \
		d = (value);                                                                                           \
		break;

#define ELEMENTS(T, ...)                                                                                               \
	for (; n; n--, dst += sizeof(T)) {                                                                             \
		T d, s = 0, c = 0;                                                                                     \
		memcpy(&d, dst, sizeof(T));                                                                            \
		if (src) {                                                                                             \
			memcpy(&s, src, sizeof(T));                                                                    \
			src += sizeof(T);                                                                              \
		}                                                                                                      \
		if (cmp) {                                                                                             \
			memcpy(&c, cmp, sizeof(T));                                                                    \
			cmp += sizeof(T);                                                                              \
		}                                                                                                      \
		if (result) {                                                                                          \
			memcpy(result, dst, sizeof(T));                                                                \
			result += sizeof(T);                                                                           \
		}                                                                                                      \
		switch (op) {                                                                                          \
			__VA_ARGS__                                                                                    \
		CASE(ATOMIC_WRITE, s)                                                                                  \
		CASE(LOR, d != 0 || s != 0)                                                                            \
		CASE(LAND, d != 0 && s != 0)                                                                           \
		CASE(LXOR, (d != 0) != (s != 0))                                                                       \
		CASE(CSWAP, c == d ? s : d)                                                                            \
		CASE(CSWAP_NE, c != d ? s : d)                                                                         \
		default: /* UCCL_ATOMIC_READ */                                                                        \
			continue;                                                                                      \
		}                                                                                                      \
		memcpy(dst, &d, sizeof(T));                                                                            \
	}

#define ORDERED                                                                                                        \
	CASE(MIN, s < d ? s : d)                                                                                       \
	CASE(MAX, s > d ? s : d)                                                                                       \
	CASE(CSWAP_LE, c <= d ? s : d)                                                                                 \
	CASE(CSWAP_LT, c < d ? s : d)                                                                                  \
	CASE(CSWAP_GE, c >= d ? s : d)                                                                                 \
	CASE(CSWAP_GT, c > d ? s : d)

#define ARITHMETIC(T, U)                                                                                               \
	CASE(SUM, (T)((U)d + (U)s))                                                                                    \
	CASE(PROD, (T)((U)d * (U)s))

#define BITS(T)                                                                                                        \
	CASE(BOR, (T)(d | s))                                                                                          \
	CASE(BAND, (T)(d & s))                                                                                         \
	CASE(BXOR, (T)(d ^ s))                                                                                         \
	CASE(MSWAP, (T)((s & c) | (d & ~c)))

#define ARGS unsigned int op, uint8_t *dst, const uint8_t *src, const uint8_t *cmp, uint8_t *result, size_t n
/* Exact comparison is what the operations mean. */
#pragma GCC diagnostic ignored "-Wfloat-equal"

/* All types, each as its class has it. */
#define TYPES(INTEGER, REAL, COMPLEX)                                                                                  \
	INTEGER(INT8, int8_t, uint64_t)                                                                                \
	INTEGER(UINT8, uint8_t, uint64_t)                                                                              \
	INTEGER(INT16, int16_t, uint64_t)                                                                              \
	INTEGER(UINT16, uint16_t, uint64_t)                                                                            \
	INTEGER(INT32, int32_t, uint64_t)                                                                              \
	INTEGER(UINT32, uint32_t, uint64_t)                                                                            \
	INTEGER(INT64, int64_t, uint64_t)                                                                              \
	INTEGER(UINT64, uint64_t, uint64_t)                                                                            \
	INTEGER(INT128, int128, uint128)                                                                               \
	INTEGER(UINT128, uint128, uint128)                                                                             \
	REAL(FLOAT, float)                                                                                             \
	REAL(DOUBLE, double)                                                                                           \
	REAL(LONG_DOUBLE, long double)                                                                                 \
	COMPLEX(FLOAT_COMPLEX, float complex)                                                                          \
	COMPLEX(DOUBLE_COMPLEX, double complex)                                                                        \
	COMPLEX(LONG_DOUBLE_COMPLEX, long double complex)

#define DO_INTEGER(id, T, U) static void do_##id(ARGS) { ELEMENTS(T, ORDERED ARITHMETIC(T, U) BITS(T)) }
#define DO_REAL(id, T) static void do_##id(ARGS) { ELEMENTS(T, ORDERED ARITHMETIC(T, T)) }
#define DO_COMPLEX(id, T) static void do_##id(ARGS) { ELEMENTS(T, ARITHMETIC(T, T)) }
TYPES(DO_INTEGER, DO_REAL, DO_COMPLEX)

/* What exists for a type. */
enum { CLASS_INTEGER, CLASS_REAL, CLASS_COMPLEX };

#define ROW_INTEGER(id, T, U) [UCCL_##id] = { do_##id, sizeof(T), CLASS_INTEGER },
#define ROW_REAL(id, T) [UCCL_##id] = { do_##id, sizeof(T), CLASS_REAL },
#define ROW_COMPLEX(id, T) [UCCL_##id] = { do_##id, sizeof(T), CLASS_COMPLEX },
static const struct {
	void (*apply)(ARGS);
	uint8_t size, class;
} types[UCCL_DATATYPES] = { TYPES(ROW_INTEGER, ROW_REAL, ROW_COMPLEX) };

size_t uccl_atomic_size(unsigned int datatype)
{
	return datatype < UCCL_DATATYPES ? types[datatype].size : 0;
}

bool uccl_atomic_valid(enum uccl_op_type kind, unsigned int datatype, unsigned int op)
{
	unsigned int class;
	bool compare = op >= UCCL_CSWAP;

	if (datatype >= UCCL_DATATYPES || op >= UCCL_ATOMICS || compare != (kind == UCCL_OP_COMPARE) ||
	    (kind != UCCL_OP_ATOMIC && kind != UCCL_OP_FETCH && kind != UCCL_OP_COMPARE))
		return false;
	class = types[datatype].class;
	switch (op) {
	case UCCL_ATOMIC_READ:
		return kind == UCCL_OP_FETCH;
	case UCCL_MIN:
	case UCCL_MAX:
	case UCCL_CSWAP_LE:
	case UCCL_CSWAP_LT:
	case UCCL_CSWAP_GE:
	case UCCL_CSWAP_GT:
		return class != CLASS_COMPLEX;
	case UCCL_BOR:
	case UCCL_BAND:
	case UCCL_BXOR:
	case UCCL_MSWAP:
		return class == CLASS_INTEGER;
	default:
		return true;
	}
}

void uccl_atomic_apply(unsigned int datatype, unsigned int op, void *dst, const void *src, const void *cmp,
		       void *result, size_t n)
{
	types[datatype].apply(op, dst, src, cmp, result, n);
}
