/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Reports of users of other transports, as scenes: what they complain of must not happen here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "holds.h"

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOLDS_PACKET("nccl-2044"),
		HOLDS_PACKET("nccl-2157"),
		HOLDS_PACKET("nccl-2323"),
		HOLDS_PACKET("mooncake-2960"),
		HOLDS_PACKET("mooncake-3523"),
		HOLDS_PACKET("mooncake-3596"),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
