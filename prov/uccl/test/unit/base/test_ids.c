/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/ids.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"

static void init__empty(void **state)
{
	struct uccl_ids t;

	(void)state;
	uccl_ids_init(&t);
	assert_null(uccl_ids_find(&t, 0));
	assert_null(uccl_ids_find(&t, 1u << 20));
	assert_null(uccl_ids_find(&t, UINT32_MAX));
	assert_int_equal(t.used, 0);
	uccl_ids_put(&t, 1u << 20);
	assert_int_equal(t.used, 0);
	uccl_ids_fini(&t);
}

static void fini__starts_over(void **state)
{
	struct uccl_ids t;
	int x;

	(void)state;
	uccl_ids_init(&t);
	assert_int_not_equal(uccl_ids_get(&t, &x), 0);
	uccl_ids_fini(&t);
	assert_int_equal(t.used, 0);
	assert_int_not_equal(uccl_ids_get(&t, &x), 0);
	uccl_ids_fini(&t);
}

static void was__given_back_only(void **state)
{
	struct uccl_ids t;
	uint32_t id;
	int x;

	(void)state;
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

static void get__never_zero_and_all_different(void **state)
{
	struct uccl_ids t;
	uint32_t id[1000];
	int obj[1000];

	(void)state;
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

static void find__stale_handles(void **state)
{
	struct uccl_ids t;
	uint32_t old, new;
	int x, y;

	(void)state;
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

static void put__twice_is_once(void **state)
{
	struct uccl_ids t;
	uint32_t a, b, c;
	int x, y, z;

	(void)state;
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
static void put__generations_wrap(void **state)
{
	struct uccl_ids t;
	uint32_t first, id;
	int x;

	(void)state;
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

static void get__all_in_use(void **state)
{
	struct uccl_ids t;
	uint32_t id = 0;
	int x;

	(void)state;
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
static void random__against_model(void **state)
{
	uint32_t id[300] = {0}, dead[300] = {0};
	struct uccl_ids t;
	struct uccl_rng r;
	uint32_t used = 0;
	int obj[300];

	(void)state;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(init__empty),
		cmocka_unit_test(fini__starts_over),
		cmocka_unit_test(was__given_back_only),
		cmocka_unit_test(get__never_zero_and_all_different),
		cmocka_unit_test(get__all_in_use),
		cmocka_unit_test(find__stale_handles),
		cmocka_unit_test(put__twice_is_once),
		cmocka_unit_test(put__generations_wrap),
		cmocka_unit_test(random__against_model),
	};

	return cmocka_run_group_tests_name("ids", tests, NULL, NULL);
}
