/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../tests.h"

#include "progress/idle.h"

#define US UCCL_NS_PER_US

/* Empty rounds; how many of them were of this kind. Each yield takes `took_ns`. */
static int rounds(struct uccl_idle *i, int n, enum uccl_idle_do kind, uint64_t took_ns)
{
	int count = 0;

	while (n--) {
		enum uccl_idle_do what = uccl_idle_next(i);

		count += what == kind;
		if (what == UCCL_IDLE_YIELD)
			uccl_idle_yielded(i, took_ns, true);
	}
	return count;
}

/* Alone on its core: no call at all for a while, then a quick one now and then, and never a nap. */
TEST(idle_next__alone)
{
	struct uccl_idle i = {0};

	assert_int_equal(rounds(&i, 511, UCCL_IDLE_SPIN, US), 511);
	assert_int_equal(rounds(&i, 1, UCCL_IDLE_YIELD, US), 1);
	assert_int_equal(rounds(&i, 1600, UCCL_IDLE_YIELD, US), 100);
	assert_int_equal(rounds(&i, 10000, UCCL_IDLE_NAP, US), 0);
	/* Something came. */
	uccl_idle_reset(&i);
	assert_int_equal(rounds(&i, 511, UCCL_IDLE_SPIN, US), 511);
}

/* Others want the core: naps from now on, early, also after something came; now and then a look whether that is so. */
TEST(idle_next__crowded)
{
	struct uccl_idle i = {0};

	rounds(&i, 512, UCCL_IDLE_YIELD, 1000 * US);
	uccl_idle_reset(&i);
	assert_int_equal(rounds(&i, 15, UCCL_IDLE_SPIN, 0), 15);
	assert_int_equal(rounds(&i, 1, UCCL_IDLE_NAP, 0), 1);
	uccl_idle_reset(&i);
	assert_int_equal(rounds(&i, 16 * 63, UCCL_IDLE_NAP, 0), 63);
	assert_int_equal(rounds(&i, 16, UCCL_IDLE_YIELD, 1000 * US), 1);
	assert_int_equal(rounds(&i, 16 * 64, UCCL_IDLE_NAP, 0), 64);
	/* They are gone. */
	assert_int_equal(rounds(&i, 16, UCCL_IDLE_YIELD, US), 1);
	uccl_idle_reset(&i);
	assert_int_equal(rounds(&i, 511, UCCL_IDLE_SPIN, US), 511);
}

/* A thread of ours: a while, and not where others want the core, which it tries now and then. */
TEST(idle_stay__until_crowded)
{
	struct uccl_idle i = {0};
	int stayed = 0;

	assert_true(uccl_idle_stay(&i, 0));
	uccl_idle_yielded(&i, US, true);
	assert_true(uccl_idle_stay(&i, 199 * US));
	assert_false(uccl_idle_stay(&i, 200 * US));
	uccl_idle_yielded(&i, 1000 * US, true);
	for (int k = 0; k < 64; k++)
		stayed += uccl_idle_stay(&i, 0);
	assert_int_equal(stayed, 0);
	assert_true(uccl_idle_stay(&i, 0));
	uccl_idle_yielded(&i, 1000 * US, true);
	assert_false(uccl_idle_stay(&i, 0));
	/* They are gone. */
	uccl_idle_yielded(&i, US, true);
	assert_true(uccl_idle_stay(&i, 0));
	/* Nobody had the core: it was not ours to give. */
	uccl_idle_yielded(&i, 1000 * US, false);
	assert_true(uccl_idle_stay(&i, 0));
}

/* A yield tells by itself: alone on the core, or not, it is one that was measured. */
TEST(idle_yield__tells)
{
	struct uccl_idle i = {.naps = 7};

	uccl_idle_yield(&i);
	assert_int_equal(i.naps, 0);
}

TESTS_MAIN
