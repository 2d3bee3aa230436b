/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/defaults.h"

#include <stdint.h>
#include <string.h>
#include "../tests.h"

#include "base/units.h"
#include "flow/policy.h"

TEST(find__by_kind)
{
	assert_null(uccl_defaults_find("nothing"));
	assert_null(uccl_defaults_find(""));
	assert_string_equal(uccl_defaults_find("udp")->name, "udp");
	assert_string_equal(uccl_defaults_find("verbs")->name, "verbs");
	/* Only RDMA NICs write. */
	assert_int_equal(uccl_defaults_find("udp")->write_bytes, 0);
	assert_true(uccl_defaults_find("verbs")->write_bytes > 0);
}

/* What a flow is made of must suit it. */
TEST(all__make_sense)
{
	static const char *const kinds[] = {"udp", "verbs"};

	for (size_t i = 0; i < uccl_array_len(kinds); i++) {
		const struct uccl_defaults *s = uccl_defaults_find(kinds[i]);

		assert_non_null(uccl_cc_find(s->cc));
		assert_non_null(uccl_path_find(s->path));
		assert_non_null(uccl_credit_find(s->credit));
		assert_in_range(s->paths, 1, UCCL_PATHS_MAX);
		assert_in_range(s->labels, s->paths, UINT16_MAX);
		assert_in_range(s->window, 64, 16384);
		assert_int_equal(s->window & (s->window - 1), 0);
		assert_true(s->delay_ns > 0 && s->rto_min_ns > s->delay_ns);
		assert_false(s->trains && s->write_bytes);
	}
}

TEST(texts__of_numbers)
{
	assert_string_equal(UCCL_TEXT(UCCL_WINDOW), "2048");
}

TESTS_MAIN
