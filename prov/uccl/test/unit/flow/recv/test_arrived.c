/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The window of what arrived, alone, beside a list of what was taken. */
#include "flow/recv/arrived.h"

#include "../../tests.h"

#include <stdlib.h>

#include "base/rng.h"

#define WINDOW 128
#define FIRST (UINT64_MAX / 2 - 5)

static struct uccl_arrived a;

static int setup(void **state)
{
	return uccl_arrived_init(&a, WINDOW, FIRST) ? 0 : -1;
}

static int teardown(void **state)
{
	uccl_arrived_fini(&a);
	return 0;
}

TEST_IN(take__in_order, setup, teardown)
{
	for (uint64_t c = FIRST; c < FIRST + 3 * WINDOW; c++) {
		assert_false(uccl_arrived_has(&a, c));
		uccl_arrived_take(&a, c);
		assert_int_equal(a.nxt, c + 1);
		assert_int_equal(a.high, c + 1);
	}
	for (int i = 0; i < WINDOW / 64; i++)
		assert_true(a.map[i] == 0);
}

/* Any order inside the window; the edge stands at the first that is missing. */
TEST_IN(take__any_order, setup, teardown)
{
	static bool had[64 * WINDOW];
	struct uccl_rng rng;
	uint64_t edge = 0;

	uccl_rng_seed(&rng, 7);
	while (edge < 60 * WINDOW) {
		uint64_t i = edge + uccl_rng_below(&rng, WINDOW);

		assert_int_equal(uccl_arrived_has(&a, FIRST + i), had[i]);
		if (had[i])
			continue;
		uccl_arrived_take(&a, FIRST + i);
		had[i] = true;
		while (had[edge])
			edge++;
		assert_int_equal(a.nxt, FIRST + edge);
		assert_true(a.high > FIRST + i);
	}
}

TEST_IN(words__span_of_the_gap, setup, teardown)
{
	assert_int_equal(uccl_arrived_words(&a, 48), 0);
	uccl_arrived_take(&a, FIRST);
	assert_int_equal(uccl_arrived_words(&a, 48), 0);
	uccl_arrived_take(&a, FIRST + 2);
	assert_int_equal(uccl_arrived_words(&a, 48), 1);
	uccl_arrived_take(&a, FIRST + 1 + 64);
	assert_int_equal(uccl_arrived_words(&a, 48), 1);
	uccl_arrived_take(&a, FIRST + 1 + 65);
	assert_int_equal(uccl_arrived_words(&a, 48), 2);
	assert_int_equal(uccl_arrived_words(&a, 1), 1);
}

TEST_IN(tell__bits_behind_the_edge, setup, teardown)
{
	struct uccl_ack ack;

	uccl_arrived_take(&a, FIRST);
	uccl_arrived_take(&a, FIRST + 2);
	uccl_arrived_take(&a, FIRST + 1 + 65);
	uccl_arrived_tell(&a, &ack, 2);
	assert_int_equal(ack.cum, (uint32_t)(FIRST + 1));
	assert_int_equal(ack.nwords, 2);
	assert_true(ack.sack[0] == 1);
	assert_true(ack.sack[1] == 1);
	uccl_arrived_tell(&a, &ack, 0);
	assert_int_equal(ack.nwords, 0);
}

TESTS_MAIN
