/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "policy/policies.h"

#include "../tests.h"

TEST(window__constant)
{
	const struct uccl_policy_cfg cfg = {.chunk_bytes = 4096, .window_max = 1234567};
	uint64_t cc[UCCL_CC_STATE / 8];

	uccl_cc_none.init(cc, &cfg, 99);
	assert_int_equal(uccl_cc_none.window(cc), 1234567);
	/* Nothing can change it: it hears of nothing. */
	assert_null(uccl_cc_none.on_ack);
	assert_null(uccl_cc_none.on_loss);
	assert_null(uccl_cc_none.pace);
}

TESTS_MAIN
