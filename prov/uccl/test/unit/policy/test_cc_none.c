/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "policy/policies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void window__constant(void **state)
{
	const struct uccl_policy_cfg cfg = {.chunk_bytes = 4096, .window_max = 1234567};
	uint64_t cc[UCCL_CC_STATE / 8];

	(void)state;
	uccl_cc_none.init(cc, &cfg, 99);
	assert_int_equal(uccl_cc_none.window(cc), 1234567);
	/* Nothing can change it: it hears of nothing. */
	assert_null(uccl_cc_none.on_ack);
	assert_null(uccl_cc_none.on_loss);
	assert_null(uccl_cc_none.pace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(window__constant),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
