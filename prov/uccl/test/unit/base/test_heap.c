/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/heap.h"

#include "../tests.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/rng.h"
#include "base/units.h"

/* A sanitizer's allocator shall say no as the C library does; it takes its options from these functions. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void);

const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1:max_allocation_size_mb=1024";
}

const char *__tsan_default_options(void)
{
	return "allocator_may_return_null=1:max_allocation_size_mb=1024";
}

/* Every entry knows its place, none is smaller than its parent, and n entries are in. */
static void check_heap(const struct uccl_heap *h, uint32_t n)
{
	assert_int_equal(h->n, n);
	for (uint32_t i = 0; i < h->n; i++) {
		assert_int_equal(h->v[i]->index, i + 1);
		assert_true(h->v[i]->at != UCCL_NEVER);
		assert_true(!i || h->v[(i - 1) / 2]->at <= h->v[i]->at);
	}
}

TEST(init__empty)
{
	struct uccl_heap h;

	uccl_heap_init(&h);
	assert_null(uccl_heap_min(&h));
	check_heap(&h, 0);
	uccl_heap_fini(&h);
}

TEST(fini__starts_over)
{
	struct uccl_timer t = {0};
	struct uccl_heap h;

	uccl_heap_init(&h);
	assert_int_equal(uccl_heap_reserve(&h, 1), 0);
	uccl_heap_set(&h, &t, 5);
	uccl_heap_fini(&h);
	assert_null(uccl_heap_min(&h));
	t.index = 0;
	assert_int_equal(uccl_heap_reserve(&h, 1), 0);
	uccl_heap_set(&h, &t, 6);
	assert_ptr_equal(uccl_heap_min(&h), &t);
	uccl_heap_fini(&h);
}

TEST(reserve__keeps_timers)
{
	struct uccl_timer t[64] = {0};
	struct uccl_heap h;

	uccl_heap_init(&h);
	for (uint32_t i = 0; i < 64; i++) {
		assert_int_equal(uccl_heap_reserve(&h, i + 1), 0);
		uccl_heap_set(&h, &t[i], 1000 - i);
		assert_ptr_equal(uccl_heap_min(&h), &t[i]);
	}
	assert_int_equal(uccl_heap_reserve(&h, 1), 0);
	check_heap(&h, 64);
	uccl_heap_fini(&h);
}

TEST(reserve__no_memory)
{
	struct uccl_timer t = {0};
	struct uccl_heap h;

	uccl_heap_init(&h);
	assert_int_equal(uccl_heap_reserve(&h, 1), 0);
	uccl_heap_set(&h, &t, 7);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	assert_int_equal(uccl_heap_reserve(&h, UINT32_MAX), -FI_ENOMEM);
#else
	struct rlimit before, low;

	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	low = before;
	low.rlim_cur = 1u << 30;
	assert_int_equal(setrlimit(RLIMIT_AS, &low), 0);
	assert_int_equal(uccl_heap_reserve(&h, UINT32_MAX), -FI_ENOMEM);
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
#endif
	/* Nothing changed. */
	assert_int_equal(h.cap, 1);
	assert_ptr_equal(uccl_heap_min(&h), &t);
	uccl_heap_fini(&h);
}

TEST(set__disarm)
{
	struct uccl_timer t[3] = {0};
	struct uccl_heap h;

	uccl_heap_init(&h);
	assert_int_equal(uccl_heap_reserve(&h, 3), 0);
	/* Disarming what is not armed needs no room and changes nothing. */
	uccl_heap_set(&h, &t[0], UCCL_NEVER);
	assert_int_equal(t[0].index, 0);
	assert_int_equal(t[0].at, UCCL_NEVER);
	check_heap(&h, 0);
	for (int i = 0; i < 3; i++)
		uccl_heap_set(&h, &t[i], 10 + (uint64_t)i);
	uccl_heap_set(&h, &t[0], UCCL_NEVER);
	assert_int_equal(t[0].index, 0);
	assert_int_equal(t[0].at, UCCL_NEVER);
	assert_ptr_equal(uccl_heap_min(&h), &t[1]);
	/* The last place, which nothing has to fill. */
	uccl_heap_set(&h, h.v[h.n - 1], UCCL_NEVER);
	check_heap(&h, 1);
	uccl_heap_set(&h, h.v[0], UCCL_NEVER);
	assert_null(uccl_heap_min(&h));
	uccl_heap_fini(&h);
}

TEST(set__move)
{
	struct uccl_timer t[3] = {0};
	struct uccl_heap h;

	uccl_heap_init(&h);
	assert_int_equal(uccl_heap_reserve(&h, 3), 0);
	for (int i = 0; i < 3; i++)
		uccl_heap_set(&h, &t[i], 10 + (uint64_t)i);
	uccl_heap_set(&h, &t[2], 1);
	assert_ptr_equal(uccl_heap_min(&h), &t[2]);
	uccl_heap_set(&h, &t[2], 100);
	assert_ptr_equal(uccl_heap_min(&h), &t[0]);
	uccl_heap_set(&h, &t[0], 10);
	assert_ptr_equal(uccl_heap_min(&h), &t[0]);
	/* The largest time that is not "never". */
	uccl_heap_set(&h, &t[0], UCCL_NEVER - 1);
	assert_ptr_equal(uccl_heap_min(&h), &t[1]);
	check_heap(&h, 3);
	uccl_heap_fini(&h);
}

/* Removal from the middle can need a move towards the root: the last entry may belong to another branch. */
TEST(set__remove_rises)
{
	static const uint64_t at[] = {1, 100, 2, 101, 102, 3, 4};
	struct uccl_timer t[7] = {0};
	struct uccl_heap h;

	uccl_heap_init(&h);
	assert_int_equal(uccl_heap_reserve(&h, 7), 0);
	for (int i = 0; i < 7; i++)
		uccl_heap_set(&h, &t[i], at[i]);
	uccl_heap_set(&h, &t[3], UCCL_NEVER);
	check_heap(&h, 6);
	assert_int_equal(h.v[1]->at, 4);
	uccl_heap_fini(&h);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

TEST(min__sorts)
{
	enum { N = 1000 };
	static struct uccl_timer t[N];
	static uint64_t want[N];
	struct uccl_heap h;
	struct uccl_rng r;

	uccl_rng_seed(&r, 11);
	uccl_heap_init(&h);
	assert_int_equal(uccl_heap_reserve(&h, N), 0);
	for (int i = 0; i < N; i++) {
		/* Few values, so that equal ones occur. */
		want[i] = uccl_rng_below(&r, N / 2);
		uccl_heap_set(&h, &t[i], want[i]);
	}
	qsort(want, N, sizeof(want[0]), compare);
	for (int i = 0; i < N; i++) {
		struct uccl_timer *min = uccl_heap_min(&h);

		assert_int_equal(min->at, want[i]);
		uccl_heap_set(&h, min, UCCL_NEVER);
	}
	assert_null(uccl_heap_min(&h));
	uccl_heap_fini(&h);
}

/* Random arming, moving and disarming against a search through all timers. */
TEST(min__against_search)
{
	enum { N = 37, STEPS = 20000 };
	struct uccl_timer t[N];
	struct uccl_heap h;
	struct uccl_rng r;

	uccl_rng_seed(&r, 12);
	uccl_heap_init(&h);
	assert_int_equal(uccl_heap_reserve(&h, N), 0);
	for (int i = 0; i < N; i++)
		t[i] = (struct uccl_timer){.at = UCCL_NEVER};
	for (int step = 0; step < STEPS; step++) {
		uint64_t at = uccl_rng_chance(&r, 0.3) ? UCCL_NEVER : uccl_rng_below(&r, 100);
		uint64_t least = UCCL_NEVER;
		uint32_t armed = 0;

		uccl_heap_set(&h, &t[uccl_rng_below(&r, N)], at);
		for (int i = 0; i < N; i++) {
			least = uccl_min(least, t[i].at);
			armed += t[i].at != UCCL_NEVER;
			assert_int_equal(t[i].at != UCCL_NEVER, t[i].index != 0);
		}
		check_heap(&h, armed);
		if (armed)
			assert_int_equal(uccl_heap_min(&h)->at, least);
		else
			assert_null(uccl_heap_min(&h));
	}
	uccl_heap_fini(&h);
}

TESTS_MAIN
