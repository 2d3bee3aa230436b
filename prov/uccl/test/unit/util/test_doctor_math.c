/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "uccl_doctor_math.h"

#include "../tests.h"

#include <string.h>

TEST(tally__counts_each_once)
{
	struct doctor_tally t = { 0 };

	doctor_tally_add(&t, 0, 0, 0, true);
	doctor_tally_add(&t, 0, 1, 2, true);
	doctor_tally_add(&t, 1, 2, 3, false);
	doctor_tally_add(&t, 0, 1, 2, true); /* again */
	assert_int_equal(t.received, 3);
	assert_int_equal(t.duplicates, 1);
	assert_int_equal(t.damaged, 1);
	assert_int_equal(t.reordered, 0);
	assert_int_equal(t.by_label[0], 2);
	assert_int_equal(t.by_label[1], 1);
	assert_int_equal(t.ecn[0], 1);
	assert_int_equal(t.ecn[2], 1);
	assert_int_equal(t.ecn[3], 1);
}

TEST(tally__order_is_of_each_source_port)
{
	struct doctor_tally t = { 0 };

	doctor_tally_add(&t, 0, 10, 0, true);
	doctor_tally_add(&t, 1, 5, 0, true); /* another port may be later */
	assert_int_equal(t.reordered, 0);
	doctor_tally_add(&t, 0, 9, 0, true);
	doctor_tally_add(&t, 0, 8, 0, true);
	doctor_tally_add(&t, 0, 11, 0, true);
	assert_int_equal(t.reordered, 2);
}

TEST(tally__numbers_out_of_range_are_left_out)
{
	struct doctor_tally t = { 0 }, zero = { 0 };

	doctor_tally_add(&t, DOCTOR_LABELS, 0, 0, true);
	doctor_tally_add(&t, 65535, 0, 0, true);
	doctor_tally_add(&t, 0, DOCTOR_TALLY_MAX, 0, true);
	doctor_tally_add(&t, 0, UINT32_MAX, 0, true);
	assert_memory_equal(&t, &zero, sizeof(t));
	doctor_tally_add(&t, DOCTOR_LABELS - 1, DOCTOR_TALLY_MAX - 1, 255, true);
	assert_int_equal(t.received, 1);
	assert_int_equal(t.ecn[3], 1);
}

TEST(spread__small_numbers)
{
	double one[] = { 7 }, two[] = { 9, 1 }, many[200];
	struct doctor_spread s = doctor_spread(NULL, 0);

	assert_true(s.least == 0 && s.median == 0 && s.p99 == 0);
	s = doctor_spread(one, 1);
	assert_true(s.least == 7 && s.median == 7 && s.p99 == 7);
	s = doctor_spread(two, 2);
	assert_true(s.least == 1 && s.median == 5 && s.p99 == 9);
	for (int i = 0; i < 200; i++)
		many[i] = 200 - i;
	s = doctor_spread(many, 200);
	assert_true(s.least == 1 && s.median == 100.5 && s.p99 == 198);
}

static struct doctor_trail trail(bool arrived, int n, uint64_t a, uint64_t b, uint64_t c)
{
	return (struct doctor_trail){ .hop = { a, b, c }, .n = (uint8_t)n, .arrived = arrived };
}

TEST(variety__known_ways)
{
	struct doctor_trail t[] = { trail(true, 2, 1, 2, 0), trail(true, 2, 1, 3, 0), trail(true, 2, 1, 2, 0),
				    trail(true, 3, 1, 2, 4) };
	struct doctor_variety v = doctor_variety(t, 4);

	assert_int_equal(v.distinct, 3); /* the last is longer than those like it */
	assert_true(v.complete);
	assert_false(v.nothing);
}

TEST(variety__neighbours_have_one)
{
	struct doctor_trail t[] = { trail(true, 0, 0, 0, 0), trail(true, 0, 0, 0, 0) };
	struct doctor_variety v = doctor_variety(t, 2);

	assert_int_equal(v.distinct, 1);
	assert_true(v.complete);
}

TEST(variety__what_is_not_known_is_not_counted)
{
	struct doctor_trail t[] = { trail(true, 2, 1, 0, 0), trail(true, 2, 1, 3, 0), trail(true, 2, 1, 2, 0) };
	struct doctor_variety v = doctor_variety(t, 3);

	/* The first may be any of the others: never more than what is proven. */
	assert_true(v.distinct >= 1 && v.distinct <= 2);
	assert_false(v.complete);
	assert_false(v.nothing);
}

TEST(variety__nothing_known)
{
	struct doctor_trail t[] = { trail(false, 3, 0, 0, 0), trail(false, 3, 0, 0, 0) };
	struct doctor_variety v = doctor_variety(t, 2);

	assert_true(v.nothing);
	assert_false(v.complete);
	v = doctor_variety(t, 0);
	assert_true(v.nothing);
	assert_int_equal(v.distinct, 0);
}

TEST(halve__finds_the_edge)
{
	for (uint32_t edge = 512; edge < 1472; edge += 13) {
		uint32_t lo = 512, hi = 1472, next;
		int steps = 0;

		while ((next = doctor_halve(lo, hi, 1)) && steps++ < 20) {
			if (next <= edge)
				lo = next;
			else
				hi = next;
		}
		assert_int_equal(lo, edge);
		assert_true(steps <= 10);
	}
	assert_int_equal(doctor_halve(10, 14, 4), 0);
}

TESTS_MAIN
