/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/observe/stats.h"

#include "../../tests.h"

#include <string.h>

TEST(drop_text__each_has_its_own)
{
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

TEST(drop_text__out_of_range)
{
	assert_string_equal(uccl_drop_text(UCCL_DROP_COUNT), "accepted");
	assert_string_equal(uccl_drop_text((enum uccl_drop) - 1), "accepted");
	assert_string_equal(uccl_drop_text((enum uccl_drop)10000), "accepted");
}

TESTS_MAIN
