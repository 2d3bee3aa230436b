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
#define INTEGER(name, T, U) static void name(ARGS) { ELEMENTS(T, ORDERED ARITHMETIC(T, U) BITS(T)) }
#define REAL(name, T) static void name(ARGS) { ELEMENTS(T, ORDERED ARITHMETIC(T, T)) }
#define COMPLEX(name, T) static void name(ARGS) { ELEMENTS(T, ARITHMETIC(T, T)) }

/* Exact comparison is what the operations mean. */
#pragma GCC diagnostic ignored "-Wfloat-equal"

INTEGER(do_int8, int8_t, uint64_t)
INTEGER(do_uint8, uint8_t, uint64_t)
INTEGER(do_int16, int16_t, uint64_t)
INTEGER(do_uint16, uint16_t, uint64_t)
INTEGER(do_int32, int32_t, uint64_t)
INTEGER(do_uint32, uint32_t, uint64_t)
INTEGER(do_int64, int64_t, uint64_t)
INTEGER(do_uint64, uint64_t, uint64_t)
INTEGER(do_int128, int128, uint128)
INTEGER(do_uint128, uint128, uint128)
REAL(do_float, float)
REAL(do_double, double)
REAL(do_long_double, long double)
COMPLEX(do_float_complex, float complex)
COMPLEX(do_double_complex, double complex)
COMPLEX(do_long_double_complex, long double complex)

/* What exists for a type. */
enum { CLASS_INTEGER, CLASS_REAL, CLASS_COMPLEX };

static const struct {
	void (*apply)(ARGS);
	uint8_t size, class;
} types[UCCL_DATATYPES] = {
	[UCCL_INT8] = { do_int8, 1, CLASS_INTEGER },
	[UCCL_UINT8] = { do_uint8, 1, CLASS_INTEGER },
	[UCCL_INT16] = { do_int16, 2, CLASS_INTEGER },
	[UCCL_UINT16] = { do_uint16, 2, CLASS_INTEGER },
	[UCCL_INT32] = { do_int32, 4, CLASS_INTEGER },
	[UCCL_UINT32] = { do_uint32, 4, CLASS_INTEGER },
	[UCCL_INT64] = { do_int64, 8, CLASS_INTEGER },
	[UCCL_UINT64] = { do_uint64, 8, CLASS_INTEGER },
	[UCCL_FLOAT] = { do_float, sizeof(float), CLASS_REAL },
	[UCCL_DOUBLE] = { do_double, sizeof(double), CLASS_REAL },
	[UCCL_FLOAT_COMPLEX] = { do_float_complex, sizeof(float complex), CLASS_COMPLEX },
	[UCCL_DOUBLE_COMPLEX] = { do_double_complex, sizeof(double complex), CLASS_COMPLEX },
	[UCCL_LONG_DOUBLE] = { do_long_double, sizeof(long double), CLASS_REAL },
	[UCCL_LONG_DOUBLE_COMPLEX] = { do_long_double_complex, sizeof(long double complex), CLASS_COMPLEX },
	[UCCL_INT128] = { do_int128, 16, CLASS_INTEGER },
	[UCCL_UINT128] = { do_uint128, 16, CLASS_INTEGER },
};

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
