/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/pool.h"

#include "../tests.h"

#include <string.h>

#include "base/units.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

/* A sanitizer's allocator shall say no as the C library does; it takes its options from these functions. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void);

const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}

const char *__tsan_default_options(void)
{
	return "allocator_may_return_null=1";
}

TEST(init__allocates_nothing)
{
	struct uccl_pool p;

	uccl_pool_init(&p, 100, 10);
	assert_int_equal(p.total, 0);
	assert_int_equal(p.used, 0);
	assert_null(p.slabs);
	uccl_pool_fini(&p);
}

TEST(fini__starts_over)
{
	struct uccl_pool p;

	uccl_pool_init(&p, 100, 10);
	assert_non_null(uccl_pool_get(&p));
	/* With an object still out: its memory goes, too. */
	uccl_pool_fini(&p);
	assert_int_equal(p.total, 0);
	assert_int_equal(p.used, 0);
	assert_non_null(uccl_pool_get(&p));
	assert_int_equal(p.used, 1);
	uccl_pool_fini(&p);
}

TEST(get__bound)
{
	enum { MAX = 1000 };
	static void *obj[MAX];
	struct uccl_pool p;

	uccl_pool_init(&p, 24, MAX);
	for (uint32_t i = 0; i < MAX; i++) {
		obj[i] = uccl_pool_get(&p);
		assert_non_null(obj[i]);
		assert_int_equal(p.used, i + 1);
		assert_true(p.total <= MAX);
	}
	assert_int_equal(p.total, MAX);
	assert_null(uccl_pool_get(&p));
	assert_int_equal(p.used, MAX);
	uccl_pool_put(&p, obj[500]);
	assert_ptr_equal(uccl_pool_get(&p), obj[500]);
	assert_null(uccl_pool_get(&p));
	uccl_pool_fini(&p);
}

TEST(get__bound_zero)
{
	struct uccl_pool p;

	uccl_pool_init(&p, 24, 0);
	assert_null(uccl_pool_get(&p));
	assert_null(p.slabs);
	uccl_pool_fini(&p);
}

/* Objects neither overlap nor lose what is written to them, whatever their size. */
TEST(get__distinct_and_aligned)
{
	static const size_t sizes[] = {1, 7, 8, 9, 16, 33, 200, 4096, (1u << 20) + 1};

	for (size_t s = 0; s < uccl_array_len(sizes); s++) {
		uint32_t n = sizes[s] > 4096 ? 3 : 100;
		struct uccl_pool p;
		uint8_t *obj[100];

		uccl_pool_init(&p, sizes[s], n);
		for (uint32_t i = 0; i < n; i++) {
			obj[i] = uccl_pool_get(&p);
			assert_non_null(obj[i]);
			assert_int_equal((uintptr_t)obj[i] % _Alignof(max_align_t), 0);
			memset(obj[i], (int)i + 1, sizes[s]);
		}
		for (uint32_t i = 0; i < n; i++) {
			assert_int_equal(obj[i][0], i + 1);
			assert_int_equal(obj[i][sizes[s] - 1], i + 1);
			uccl_pool_put(&p, obj[i]);
		}
		assert_int_equal(p.used, 0);
		uccl_pool_fini(&p);
	}
}

TEST(get__zeroed)
{
	static const uint8_t zero[200];
	struct uccl_pool p;

	uccl_pool_init(&p, sizeof(zero), 1);
	for (int i = 0; i < 3; i++) {
		void *obj = uccl_pool_get(&p);

		assert_memory_equal(obj, zero, sizeof(zero));
		memset(obj, 0xff, sizeof(zero));
		uccl_pool_put(&p, obj);
	}
	uccl_pool_fini(&p);
}

TEST(get__no_memory)
{
	struct uccl_pool p;

	uccl_pool_init(&p, SIZE_MAX - 4096, 10);
	assert_null(uccl_pool_get(&p));
	assert_int_equal(p.used, 0);
	assert_int_equal(p.total, 0);
	uccl_pool_fini(&p);
}

TEST(put__reused_before_growing)
{
	struct uccl_pool p;
	void *obj[16];

	uccl_pool_init(&p, 64, 1u << 20);
	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < 16; i++)
			obj[i] = uccl_pool_get(&p);
		for (int i = 0; i < 16; i++)
			uccl_pool_put(&p, obj[i]);
	}
	assert_int_equal(p.total, 16);
	assert_int_equal(p.used, 0);
	uccl_pool_fini(&p);
}

TEST(take__as_get_but_not_zeroed)
{
	struct uccl_pool p;
	char *obj[3];

	uccl_pool_init(&p, 100, 2);
	for (int i = 0; i < 2; i++) {
		obj[i] = uccl_pool_take(&p);
		assert_non_null(obj[i]);
		memset(obj[i], 7, 100);
	}
	assert_int_equal(p.used, 2);
	assert_null(uccl_pool_take(&p));
	uccl_pool_put(&p, obj[1]);
	obj[2] = uccl_pool_take(&p);
	assert_ptr_equal(obj[2], obj[1]);
	assert_int_equal(obj[2][99], 7);
	uccl_pool_put(&p, obj[2]);
	obj[2] = uccl_pool_get(&p);
	assert_int_equal(obj[2][99], 0);
	uccl_pool_fini(&p);
}

#ifdef __SANITIZE_ADDRESS__
TEST(put__poisons)
{
	struct uccl_pool p;
	char *obj;

	uccl_pool_init(&p, 48, 4);
	obj = uccl_pool_get(&p);
	assert_null(__asan_region_is_poisoned(obj, 48));
	uccl_pool_put(&p, obj);
	assert_int_equal(__asan_address_is_poisoned(obj), 1);
	assert_int_equal(__asan_address_is_poisoned(obj + 47), 1);
	assert_ptr_equal(uccl_pool_get(&p), obj);
	assert_null(__asan_region_is_poisoned(obj, 48));
	uccl_pool_fini(&p);
}
#endif

TESTS_MAIN
