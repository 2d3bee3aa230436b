/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "policy/policies.h"

#include "../tests.h"

TEST(limit__none)
{
	uint64_t cs[UCCL_CREDIT_STATE / 8] = {0};

	assert_int_equal(uccl_credit_none.limit(cs), UINT64_MAX);
}

/* No hook: nothing is announced, and who asks gets a grant without bounds. */
TEST(grant__none)
{
	assert_null(uccl_credit_none.grant);
	assert_null(uccl_credit_none.pull);
}

TESTS_MAIN
