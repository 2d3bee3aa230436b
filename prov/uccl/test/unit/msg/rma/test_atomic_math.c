/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../../tests.h"

#include <complex.h>
#include <string.h>

#include "base/units.h"
#include "msg/rma/atomic_math.h"

__extension__ typedef __int128 int128;

TEST(size__all)
{
	static const size_t sizes[UCCL_DATATYPES] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 8, 16, sizeof(long double),
						     2 * sizeof(long double), 16, 16};

	for (unsigned int t = 0; t < UCCL_DATATYPES; t++)
		assert_int_equal(uccl_atomic_size(t), sizes[t]);
	assert_int_equal(uccl_atomic_size(UCCL_DATATYPES), 0);
	assert_int_equal(uccl_atomic_size(~0u), 0);
}

TEST(valid__kinds)
{
	for (unsigned int t = 0; t < UCCL_DATATYPES; t++)
		for (unsigned int op = 0; op < UCCL_ATOMICS; op++) {
			bool any = uccl_atomic_valid(UCCL_OP_FETCH, t, op) || uccl_atomic_valid(UCCL_OP_COMPARE, t, op);

			assert_false(uccl_atomic_valid(UCCL_OP_FETCH, t, op) &&
				     uccl_atomic_valid(UCCL_OP_COMPARE, t, op));
			/* What changes memory can be done without looking at what was there. */
			assert_int_equal(uccl_atomic_valid(UCCL_OP_ATOMIC, t, op),
					 uccl_atomic_valid(UCCL_OP_FETCH, t, op) && op != UCCL_ATOMIC_READ);
			assert_true(any || t >= UCCL_FLOAT);
		}
	assert_true(uccl_atomic_valid(UCCL_OP_FETCH, UCCL_INT32, UCCL_ATOMIC_READ));
	assert_true(uccl_atomic_valid(UCCL_OP_COMPARE, UCCL_UINT128, UCCL_MSWAP));
	assert_true(uccl_atomic_valid(UCCL_OP_COMPARE, UCCL_LONG_DOUBLE_COMPLEX, UCCL_CSWAP_NE));
	assert_false(uccl_atomic_valid(UCCL_OP_COMPARE, UCCL_FLOAT_COMPLEX, UCCL_CSWAP_LE));
	assert_false(uccl_atomic_valid(UCCL_OP_COMPARE, UCCL_DOUBLE, UCCL_MSWAP));
	assert_false(uccl_atomic_valid(UCCL_OP_ATOMIC, UCCL_FLOAT, UCCL_BOR));
	assert_false(uccl_atomic_valid(UCCL_OP_ATOMIC, UCCL_DOUBLE_COMPLEX, UCCL_MAX));
	assert_false(uccl_atomic_valid(UCCL_OP_ATOMIC, UCCL_DATATYPES, UCCL_SUM));
	assert_false(uccl_atomic_valid(UCCL_OP_ATOMIC, UCCL_INT8, UCCL_ATOMICS));
	assert_false(uccl_atomic_valid(UCCL_OP_WRITE, UCCL_INT8, UCCL_SUM));
}

/* dst op src, with cmp, must be `want`; what was there comes back. */
#define check(T, type, op, a, b, c, want)                                                                              \
	do {                                                                                                           \
		uint8_t mem_[sizeof(T) + 1], res_[sizeof(T)];                                                          \
		T a_ = (a), b_ = (b), c_ = (c), want_ = (want), got_;                                                  \
		memcpy(mem_ + 1, &a_, sizeof(T)); /* not aligned */                                                    \
		uccl_atomic_apply(type, op, mem_ + 1, &b_, &c_, res_, 1);                                              \
		memcpy(&got_, mem_ + 1, sizeof(T));                                                                    \
		assert_true(got_ == want_);                                                                            \
		memcpy(&got_, res_, sizeof(T));                                                                        \
		assert_true(got_ == a_);                                                                               \
	} while (0)

#define integer(T, type, low, high)                                                                                    \
	do {                                                                                                           \
		check(T, type, UCCL_MIN, 5, 3, 0, 3);                                                                  \
		check(T, type, UCCL_MIN, low, high, 0, low);                                                           \
		check(T, type, UCCL_MAX, low, high, 0, high);                                                          \
		check(T, type, UCCL_SUM, 5, 3, 0, 8);                                                                  \
		check(T, type, UCCL_SUM, high, 1, 0, low);                                                             \
		check(T, type, UCCL_PROD, 5, 3, 0, 15);                                                                \
		check(T, type, UCCL_PROD, high, high, 0, 1);                                                           \
		check(T, type, UCCL_LOR, 0, 4, 0, 1);                                                                  \
		check(T, type, UCCL_LAND, 2, 4, 0, 1);                                                                 \
		check(T, type, UCCL_LAND, 2, 0, 0, 0);                                                                 \
		check(T, type, UCCL_LXOR, 2, 4, 0, 0);                                                                 \
		check(T, type, UCCL_LXOR, 0, 4, 0, 1);                                                                 \
		check(T, type, UCCL_BOR, 9, 5, 0, 13);                                                                 \
		check(T, type, UCCL_BAND, 9, 5, 0, 1);                                                                 \
		check(T, type, UCCL_BXOR, 9, 5, 0, 12);                                                                \
		check(T, type, UCCL_ATOMIC_READ, 9, 5, 0, 9);                                                          \
		check(T, type, UCCL_ATOMIC_WRITE, 9, 5, 0, 5);                                                         \
		check(T, type, UCCL_CSWAP, 9, 5, 9, 5);                                                                \
		check(T, type, UCCL_CSWAP, 9, 5, 8, 9);                                                                \
		check(T, type, UCCL_CSWAP_NE, 9, 5, 9, 9);                                                             \
		check(T, type, UCCL_CSWAP_NE, 9, 5, 8, 5);                                                             \
		check(T, type, UCCL_CSWAP_LE, 9, 5, 9, 5);                                                             \
		check(T, type, UCCL_CSWAP_LE, 9, 5, 10, 9);                                                            \
		check(T, type, UCCL_CSWAP_LT, 9, 5, 9, 9);                                                             \
		check(T, type, UCCL_CSWAP_LT, 9, 5, 8, 5);                                                             \
		check(T, type, UCCL_CSWAP_GE, 9, 5, 9, 5);                                                             \
		check(T, type, UCCL_CSWAP_GE, 9, 5, 8, 9);                                                             \
		check(T, type, UCCL_CSWAP_GT, 9, 5, 9, 9);                                                             \
		check(T, type, UCCL_CSWAP_GT, 9, 5, 10, 5);                                                            \
		check(T, type, UCCL_MSWAP, 0x5a, 0x0f, 0x33, 0x4b);                                                    \
	} while (0)

#define UINT128_HIGH (~(uint128)0)
__extension__ typedef unsigned __int128 uint128;

TEST(apply__integers)
{
	int128 high = (int128)(UINT128_HIGH >> 1);

	integer(uint8_t, UCCL_UINT8, 0, UINT8_MAX);
	integer(uint16_t, UCCL_UINT16, 0, UINT16_MAX);
	integer(uint32_t, UCCL_UINT32, 0, UINT32_MAX);
	integer(uint64_t, UCCL_UINT64, 0, UINT64_MAX);
	integer(uint128, UCCL_UINT128, 0, UINT128_HIGH);
	integer(int8_t, UCCL_INT8, INT8_MIN, INT8_MAX);
	integer(int16_t, UCCL_INT16, INT16_MIN, INT16_MAX);
	integer(int32_t, UCCL_INT32, INT32_MIN, INT32_MAX);
	integer(int64_t, UCCL_INT64, INT64_MIN, INT64_MAX);
	integer(int128, UCCL_INT128, -high - 1, high);
	/* The sign counts. */
	check(int8_t, UCCL_INT8, UCCL_MIN, 1, -1, 0, -1);
	check(int64_t, UCCL_INT64, UCCL_MAX, -5, -7, 0, -5);
	check(int128, UCCL_INT128, UCCL_PROD, -3, 7, 0, -21);
}

#define real(T, type)                                                                                                  \
	do {                                                                                                           \
		check(T, type, UCCL_MIN, 1.5f, -2, 0, -2);                                                             \
		check(T, type, UCCL_MAX, 1.5f, -2, 0, 1.5f);                                                           \
		check(T, type, UCCL_SUM, 1.5f, -2, 0, -.5f);                                                           \
		check(T, type, UCCL_PROD, 1.5f, -2, 0, -3);                                                            \
		check(T, type, UCCL_LOR, 0, .5f, 0, 1);                                                                \
		check(T, type, UCCL_LAND, .5f, 0, 0, 0);                                                               \
		check(T, type, UCCL_LXOR, .5f, .5f, 0, 0);                                                             \
		check(T, type, UCCL_ATOMIC_WRITE, 1, 2.5f, 0, 2.5f);                                                   \
		check(T, type, UCCL_ATOMIC_READ, 1, 2.5f, 0, 1);                                                       \
		check(T, type, UCCL_CSWAP, 1, 2.5f, 1, 2.5f);                                                          \
		check(T, type, UCCL_CSWAP_NE, 1, 2.5f, 1, 1);                                                          \
	} while (0)

#define complex_(T, type)                                                                                              \
	do {                                                                                                           \
		check(T, type, UCCL_SUM, 1 + 2 * I, 3 - I, 0, 4 + I);                                                  \
		check(T, type, UCCL_PROD, 1 + 2 * I, 3 - I, 0, 5 + 5 * I);                                             \
		check(T, type, UCCL_LOR, 0, I, 0, 1);                                                                  \
		check(T, type, UCCL_LAND, I, 0, 0, 0);                                                                 \
		check(T, type, UCCL_LXOR, I, 0, 0, 1);                                                                 \
		check(T, type, UCCL_ATOMIC_WRITE, I, 7, 0, 7);                                                         \
		check(T, type, UCCL_ATOMIC_READ, I, 7, 0, I);                                                          \
		check(T, type, UCCL_CSWAP, I, 7, I, 7);                                                                \
		check(T, type, UCCL_CSWAP_NE, I, 7, I, I);                                                             \
	} while (0)

TEST(apply__reals)
{
	real(float, UCCL_FLOAT);
	real(double, UCCL_DOUBLE);
	real(long double, UCCL_LONG_DOUBLE);
	check(double, UCCL_DOUBLE, UCCL_CSWAP_LT, 2, 9, 1, 9);
	check(float, UCCL_FLOAT, UCCL_CSWAP_GE, 2, 9, 1, 2);
}

TEST(apply__complex)
{
	complex_(float complex, UCCL_FLOAT_COMPLEX);
	complex_(double complex, UCCL_DOUBLE_COMPLEX);
	complex_(long double complex, UCCL_LONG_DOUBLE_COMPLEX);
}

/* Nothing beside the elements is touched, and nothing that is not wanted is written. */
TEST(apply__many)
{
	uint32_t dst[5] = {1, 2, 3, 4, 77}, src[4] = {10, 20, 30, 40}, was[4];

	uccl_atomic_apply(UCCL_UINT32, UCCL_SUM, dst, src, NULL, was, 4);
	assert_memory_equal(dst, ((uint32_t[]){11, 22, 33, 44, 77}), sizeof(dst));
	assert_memory_equal(was, ((uint32_t[]){1, 2, 3, 4}), sizeof(was));
	uccl_atomic_apply(UCCL_UINT32, UCCL_ATOMIC_READ, dst, NULL, NULL, was, 2);
	assert_memory_equal(was, ((uint32_t[]){11, 22, 3, 4}), sizeof(was));
	uccl_atomic_apply(UCCL_UINT32, UCCL_PROD, dst, src, NULL, NULL, 0);
	assert_int_equal(dst[0], 11);
}

TESTS_MAIN
