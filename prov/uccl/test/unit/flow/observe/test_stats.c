/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/observe/stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

static void drop_text__each_has_its_own(void **state)
{
	(void)state;
	for (int i = 0; i < UCCL_DROP_COUNT; i++) {
		const char *text = uccl_drop_text(i);

		assert_non_null(text);
		assert_true(strlen(text) > 3);
		for (int j = 0; j < i; j++)
			assert_string_not_equal(text, uccl_drop_text(j));
	}
	assert_string_equal(uccl_drop_text(UCCL_DROP_SHORT), "shorter than the header");
	assert_string_equal(uccl_drop_text(UCCL_DROP_EPOCH), "immediate of another epoch");
}

static void drop_text__out_of_range(void **state)
{
	(void)state;
	assert_string_equal(uccl_drop_text(UCCL_DROP_COUNT), "accepted");
	assert_string_equal(uccl_drop_text((enum uccl_drop) - 1), "accepted");
	assert_string_equal(uccl_drop_text((enum uccl_drop)10000), "accepted");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drop_text__each_has_its_own),
		cmocka_unit_test(drop_text__out_of_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
