/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/path/tuples.h"

#include "../../tests.h"

#include "base/units.h"

#define S UCCL_NS_PER_S
#define FLOWS 64

static struct uccl_tuple_budget budget;
static struct uccl_tuples t[FLOWS];

static void begin(uint32_t most, int flows)
{
	budget = (struct uccl_tuple_budget){.tuples_max = most};
	for (int i = 0; i < flows; i++)
		uccl_tuples_init(&t[i], &budget, 64);
}

static void end(int flows)
{
	for (int i = 0; i < flows; i++)
		uccl_tuples_fini(&t[i]);
	assert_int_equal(budget.flows, 0);
	assert_int_equal(budget.taken, 0);
}

static uint32_t in_use(int flows)
{
	uint32_t sum = 0;

	for (int i = 0; i < flows; i++)
		sum += t[i].width;
	return sum;
}

/* Without a budget all paths are used. */
TEST(init__no_budget)
{
	uccl_tuples_init(&t[0], NULL, 64);
	assert_int_equal(t[0].width, 64);
	assert_false(uccl_tuples_spread(&t[0], S));
	assert_false(uccl_tuples_scan(&t[0], 2 * S));
	assert_int_equal(t[0].width, 64);
	uccl_tuples_fini(&t[0]);
}

/* Few flows have all their paths at once; of many each begins with a quarter of an even share, and two at least. */
TEST(spread__by_shares)
{
	begin(1536, 1);
	assert_int_equal(t[0].width, 8);
	assert_true(uccl_tuples_spread(&t[0], S));
	assert_int_equal(t[0].width, 64);
	assert_false(uccl_tuples_spread(&t[0], S));
	end(1);
	begin(1536, FLOWS);
	for (int i = 0; i < FLOWS; i++) {
		uccl_tuples_spread(&t[i], S);
		assert_int_equal(t[i].width, 3);
	}
	end(FLOWS);
	begin(64, FLOWS);
	assert_true(uccl_tuples_spread(&t[0], S));
	assert_int_equal(t[0].width, 2);
	end(FLOWS);
}

/* All that flows open one after another, and grow to, is within the budget. */
TEST(scan__by_need)
{
	uint32_t opened = 0;

	begin(1536, 0);
	for (int i = 0; i < FLOWS; i++) {
		uccl_tuples_init(&t[i], &budget, 64);
		uccl_tuples_spread(&t[i], S);
		opened += t[i].width;
	}
	assert_in_range(opened, FLOWS, 1536 / 2);
	for (uint64_t now = 2; now < 10; now++)
		for (int i = 0; i < FLOWS; i++) {
			uccl_tuples_spread(&t[i], now * S);
			uccl_tuples_scan(&t[i], now * S + 1);
		}
	assert_in_range(in_use(FLOWS), 1536 * 3 / 4, 1536);
	/* One goes on alone: it takes what the others leave, but not what is even. */
	for (uint64_t now = 10; now < 80; now++) {
		uccl_tuples_spread(&t[5], now * S);
		for (int i = 0; i < FLOWS; i++)
			uccl_tuples_scan(&t[i], now * S + 1);
	}
	assert_int_equal(t[5].width, 64);
	assert_int_equal(t[6].width, 8);
	end(FLOWS);
}

/* A pause of a few seconds changes nothing: the 5-tuples are still known on the way. */
TEST(scan__forgotten)
{
	begin(1536, 1);
	uccl_tuples_spread(&t[0], S);
	assert_false(uccl_tuples_scan(&t[0], 2 * S));
	assert_false(uccl_tuples_scan(&t[0], 30 * S));
	assert_int_equal(t[0].width, 64);
	assert_true(uccl_tuples_scan(&t[0], 31 * S));
	assert_int_equal(t[0].width, 8);
	assert_false(uccl_tuples_scan(&t[0], 90 * S));
	end(1);
}

/* A silence reaches twice as many paths every 200 ms, to the last one; the next one begins anew. */
TEST(silent__reaches_more)
{
	begin(24, 6);
	assert_int_equal(t[5].width, 2);
	for (uint64_t ms = 0; ms < 2000; ms++) {
		uccl_tuples_silent(&t[5], S + ms * S / 1000);
		assert_int_equal(t[5].reach, uccl_min(2ull << ms / 200, 64));
	}
	uccl_tuples_heard(&t[5]);
	uccl_tuples_silent(&t[5], 60 * S);
	assert_int_equal(t[5].reach, 2);
	end(6);
	uccl_tuples_init(&t[0], NULL, 64);
	uccl_tuples_silent(&t[0], S);
	assert_int_equal(t[0].reach, 64);
	uccl_tuples_fini(&t[0]);
}

TESTS_MAIN
