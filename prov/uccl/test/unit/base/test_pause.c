/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/pause.h"

#include "../tests.h"

TEST(pause__doubles)
{
	struct uccl_pause p = {.ns = 0};
	uint64_t now = 1000;

	assert_true(uccl_pause_over(&p, 0));
	for (uint64_t ns = 10; ns < 100; ns *= 2) {
		uccl_pause_begin(&p, 10, 100, now);
		assert_int_equal(p.ns, ns);
		assert_false(uccl_pause_over(&p, now + ns - 1));
		assert_true(uccl_pause_over(&p, now + ns));
		now += ns;
	}
	uccl_pause_begin(&p, 10, 100, now);
	assert_int_equal(p.ns, 100);
	uccl_pause_forget(&p);
	assert_true(uccl_pause_over(&p, now));
	uccl_pause_begin(&p, 10, 100, now);
	assert_int_equal(p.ns, 10);
}

TESTS_MAIN
