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
	begin(256, 64);
	assert_int_equal(t[63].width, 2);
	for (uint64_t ms = 0; ms < 2000; ms++) {
		uccl_tuples_silent(&t[63], S + ms * S / 1000);
		assert_int_equal(t[63].reach, uccl_min(2ull << ms / 200, 64));
	}
	uccl_tuples_heard(&t[63]);
	uccl_tuples_silent(&t[63], 60 * S);
	assert_int_equal(t[63].reach, 2);
	end(64);
	uccl_tuples_init(&t[0], NULL, 64);
	uccl_tuples_silent(&t[0], S);
	assert_int_equal(t[0].reach, 64);
	uccl_tuples_fini(&t[0]);
}

/* The peer is silent for `ms`, and is asked every 10 ms. */
static void silence(struct uccl_tuples *x, uint64_t from, uint32_t ms)
{
	for (uint32_t at = 0; at <= ms; at += 10) {
		uccl_tuples_silent(x, from + at * UCCL_NS_PER_MS);
		if (x->reach == x->n)
			uccl_tuples_label(x, 512);
	}
}

/*
 * What all silent peers together are tried on is within the budget, but for a few for each. One peer takes no more than
 * it has paths. PROTOCOL R374
 */
TEST(silent__within_the_budget)
{
	uint32_t sum = 0;

	begin(256, FLOWS);
	for (int i = 0; i < FLOWS; i++) {
		silence(&t[i], S, 3000);
		sum += t[i].reach + t[i].labels - t[i].width;
	}
	assert_in_range(sum, 128, 128 + FLOWS);
	/* Silences that follow each other try the same ones again. */
	for (int i = 0; i < FLOWS; i++) {
		uccl_tuples_heard(&t[i]);
		silence(&t[i], 5 * S, 3000);
		sum -= t[i].reach + t[i].labels - t[i].width;
	}
	assert_int_equal(sum, 0);
	/* They are given back when firewalls have forgotten them. */
	uccl_tuples_scan(&t[0], 37 * S);
	assert_int_equal(t[0].tried, 64);
	uccl_tuples_scan(&t[0], 38 * S);
	uccl_tuples_scan(&t[1], 38 * S);
	assert_int_equal(t[0].tried | t[0].labels | budget.taken, 0);
	end(FLOWS);
}

/* A flow of few paths has new labels as the budget allows, and a few beyond it where the silence lasts. */
TEST(label__within_the_budget)
{
	uint32_t n = 0;

	budget = (struct uccl_tuple_budget){.tuples_max = 64};
	uccl_tuples_init(&t[0], &budget, 4);
	for (int i = 0; i < 1000; i++) {
		uccl_tuples_silent(&t[0], S);
		n += uccl_tuples_label(&t[0], 512);
	}
	assert_int_equal(n, 32);
	silence(&t[0], S, 10000);
	assert_int_equal(t[0].labels, 32 + 3);
	end(1);
	uccl_tuples_init(&t[0], NULL, 4);
	uccl_tuples_silent(&t[0], S);
	for (int i = 0; i < 1000; i++)
		assert_true(uccl_tuples_label(&t[0], 512));
	uccl_tuples_heard(&t[0]);
	assert_false(uccl_tuples_scan(&t[0], 60 * S));
	uccl_tuples_fini(&t[0]);
}

TESTS_MAIN
