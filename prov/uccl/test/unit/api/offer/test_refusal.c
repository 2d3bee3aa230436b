/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../world.h"

#include "api/offer/refusal.h"
#include "../../tests.h"

static const char *report(void)
{
	world_listen(FI_LOG_WARN);
	uccl_refusal_report();
	return world_heard();
}

TEST(refusal__told_at_the_end)
{
	assert_string_equal(report(), "");
	uccl_refusal("capability %d", 1);
	uccl_refusal("endpoint type %d", 2);
	assert_string_equal(report(), "");
	uccl_refusal_asked();
	assert_non_null(strstr(report(), "cannot be met: endpoint type 2\n"));
	/* An attempt got an answer: what was refused before, and is later, was only tried. */
	uccl_refusal_forget();
	uccl_refusal("address format %d", 3);
	assert_string_equal(report(), "");
}

TESTS_MAIN
