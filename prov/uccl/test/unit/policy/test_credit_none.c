/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "policy/policies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void limit__none(void **state)
{
	uint64_t cs[UCCL_CREDIT_STATE / 8] = {0};

	(void)state;
	assert_int_equal(uccl_credit_none.limit(cs), UINT64_MAX);
}

/* No hook: nothing is announced, and who asks gets a grant without bounds. */
static void grant__none(void **state)
{
	(void)state;
	assert_null(uccl_credit_none.grant);
	assert_null(uccl_credit_none.pull);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limit__none),
		cmocka_unit_test(grant__none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
