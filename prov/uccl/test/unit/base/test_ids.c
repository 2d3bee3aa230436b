/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/ids.h"

#include "../tests.h"

#include "base/rng.h"

TEST(init__empty)
{
	struct uccl_ids t;

	uccl_ids_init(&t);
	assert_null(uccl_ids_find(&t, 0));
	assert_null(uccl_ids_find(&t, 1u << 20));
	assert_null(uccl_ids_find(&t, UINT32_MAX));
	assert_int_equal(t.used, 0);
	uccl_ids_put(&t, 1u << 20);
	assert_int_equal(t.used, 0);
	uccl_ids_fini(&t);
}

TEST(fini__starts_over)
{
	struct uccl_ids t;
	int x;

	uccl_ids_init(&t);
	assert_int_not_equal(uccl_ids_get(&t, &x), 0);
	uccl_ids_fini(&t);
	assert_int_equal(t.used, 0);
	assert_int_not_equal(uccl_ids_get(&t, &x), 0);
	uccl_ids_fini(&t);
}

TEST(was__given_back_only)
{
	struct uccl_ids t;
	uint32_t id;
	int x;

	uccl_ids_init(&t);
	assert_false(uccl_ids_was(&t, 0));
	assert_false(uccl_ids_was(&t, 1u << 20));
	id = uccl_ids_get(&t, &x);
	for (int i = 0; i < 10000; i++) {
		assert_false(uccl_ids_was(&t, id));
		uccl_ids_put(&t, id);
		assert_true(uccl_ids_was(&t, id));
		id = uccl_ids_get(&t, &x);
		uccl_ids_put(&t, id);
		assert_true(uccl_ids_was(&t, id));
		id = uccl_ids_get(&t, &x);
		assert_false(uccl_ids_was(&t, id + (1u << 20)) && id >> 20 < 4095);
		assert_false(uccl_ids_was(&t, id + 100));
	}
	uccl_ids_fini(&t);
}

TEST(get__never_zero_and_all_different)
{
	struct uccl_ids t;
	uint32_t id[1000];
	int obj[1000];

	uccl_ids_init(&t);
	for (int i = 0; i < 1000; i++) {
		id[i] = uccl_ids_get(&t, &obj[i]);
		assert_int_not_equal(id[i], 0);
		for (int k = 0; k < i; k++)
			assert_int_not_equal(id[i], id[k]);
	}
	assert_int_equal(t.used, 1000);
	for (int i = 0; i < 1000; i++)
		assert_ptr_equal(uccl_ids_find(&t, id[i]), &obj[i]);
	uccl_ids_fini(&t);
}

TEST(find__stale_handles)
{
	struct uccl_ids t;
	uint32_t old, new;
	int x, y;

	uccl_ids_init(&t);
	old = uccl_ids_get(&t, &x);
	uccl_ids_put(&t, old);
	assert_null(uccl_ids_find(&t, old));
	new = uccl_ids_get(&t, &y);
	/* The same place, another generation. */
	assert_int_equal(new &(UCCL_IDS_MAX - 1), old & (UCCL_IDS_MAX - 1));
	assert_int_not_equal(new, old);
	assert_null(uccl_ids_find(&t, old));
	assert_ptr_equal(uccl_ids_find(&t, new), &y);
	/* Beyond the table. */
	assert_null(uccl_ids_find(&t, (1u << 20) | 500000));
	uccl_ids_fini(&t);
}

TEST(put__twice_is_once)
{
	struct uccl_ids t;
	uint32_t a, b, c;
	int x, y, z;

	uccl_ids_init(&t);
	a = uccl_ids_get(&t, &x);
	uccl_ids_put(&t, a);
	uccl_ids_put(&t, a);
	assert_int_equal(t.used, 0);
	b = uccl_ids_get(&t, &y);
	c = uccl_ids_get(&t, &z);
	assert_int_not_equal(b, c);
	/* A stale handle frees nothing of its successor. */
	uccl_ids_put(&t, a);
	assert_ptr_equal(uccl_ids_find(&t, b), &y);
	assert_ptr_equal(uccl_ids_find(&t, c), &z);
	uccl_ids_fini(&t);
}

/* Generations go round after 4095 uses of one place and leave out 0. */
TEST(put__generations_wrap)
{
	struct uccl_ids t;
	uint32_t first, id;
	int x;

	uccl_ids_init(&t);
	first = uccl_ids_get(&t, &x);
	id = first;
	for (int i = 0; i < 4095; i++) {
		uccl_ids_put(&t, id);
		id = uccl_ids_get(&t, &x);
		assert_int_not_equal(id >> 20, 0);
		assert_true((id == first) == (i == 4094));
	}
	uccl_ids_fini(&t);
}

TEST(get__all_in_use)
{
	struct uccl_ids t;
	uint32_t id = 0;
	int x;

	uccl_ids_init(&t);
	for (uint32_t i = 0; i < UCCL_IDS_MAX; i++) {
		id = uccl_ids_get(&t, &x);
		assert_int_not_equal(id, 0);
	}
	assert_int_equal(uccl_ids_get(&t, &x), 0);
	assert_int_equal(t.used, UCCL_IDS_MAX);
	uccl_ids_put(&t, id);
	assert_int_not_equal(uccl_ids_get(&t, &x), 0);
	assert_int_equal(uccl_ids_get(&t, &x), 0);
	uccl_ids_fini(&t);
}

/* Against a model: what is out is found, what is back is not. */
TEST(random__against_model)
{
	uint32_t id[300] = {0}, dead[300] = {0};
	struct uccl_ids t;
	struct uccl_rng r;
	uint32_t used = 0;
	int obj[300];

	uccl_ids_init(&t);
	uccl_rng_seed(&r, 1);
	for (int step = 0; step < 100000; step++) {
		uint64_t i = uccl_rng_below(&r, 300);

		if (id[i]) {
			assert_ptr_equal(uccl_ids_find(&t, id[i]), &obj[i]);
			uccl_ids_put(&t, id[i]);
			dead[i] = id[i];
			id[i] = 0;
			used--;
		} else {
			id[i] = uccl_ids_get(&t, &obj[i]);
			used++;
		}
		assert_int_equal(t.used, used);
		i = uccl_rng_below(&r, 300);
		if (id[i])
			assert_ptr_equal(uccl_ids_find(&t, id[i]), &obj[i]);
		if (dead[i] && uccl_ids_find(&t, dead[i])) {
			/* Only by a whole turn of the generations. */
			uint64_t k = 0;

			while (k < 300 && id[k] != dead[i])
				k++;
			assert_in_range(k, 0, 299);
		}
	}
	uccl_ids_fini(&t);
}

TESTS_MAIN
