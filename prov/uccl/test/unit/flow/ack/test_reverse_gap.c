/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* How long acknowledgements may wait for payload, by made-up times. PROTOCOL R340 */
#include "flow/ack/reverse_gap.h"

#include "../../tests.h"

#define US UCCL_NS_PER_US

static void answer(struct uccl_reverse_gap *g, uint64_t at, uint64_t after)
{
	uccl_reverse_gap_owed(g, at);
	uccl_reverse_gap_left(g, at + after);
}

/* Nothing is known: as any other acknowledgement. */
TEST(limit__unknown)
{
	struct uccl_reverse_gap g = {0};

	assert_int_equal(uccl_reverse_gap_limit(&g), UCCL_ACK_DELAY_NS);
	/* Payload that answers nothing says nothing. */
	uccl_reverse_gap_left(&g, 500 * US);
	assert_int_equal(uccl_reverse_gap_limit(&g), UCCL_ACK_DELAY_NS);
}

/* The longest time counts at once, with a quarter on top; shorter ones by an eighth each. */
TEST(limit__follows_the_longest)
{
	struct uccl_reverse_gap g = {0};

	answer(&g, 1, 400 * US);
	assert_int_equal(uccl_reverse_gap_limit(&g), 500 * US);
	answer(&g, 2 * US, 200 * US);
	assert_int_equal(uccl_reverse_gap_limit(&g), 437500);
	for (int i = 0; i < 100; i++)
		answer(&g, 5, 10 * US);
	/* Never sooner than any other. */
	assert_int_equal(uccl_reverse_gap_limit(&g), UCCL_ACK_DELAY_NS);
}

/* It begins with the first chunk that came since payload left. */
TEST(limit__from_the_first_chunk)
{
	struct uccl_reverse_gap g = {0};

	uccl_reverse_gap_owed(&g, 100 * US);
	uccl_reverse_gap_owed(&g, 300 * US);
	uccl_reverse_gap_left(&g, 500 * US);
	assert_int_equal(uccl_reverse_gap_limit(&g), 500 * US);
}

/* Where payload follows late, an acknowledgement does not wait for it; one pause is soon forgotten. */
TEST(limit__late_payload)
{
	struct uccl_reverse_gap g = {0};
	int n = 0;

	answer(&g, 1, 900 * US);
	assert_int_equal(uccl_reverse_gap_limit(&g), UCCL_ACK_DELAY_NS);
	answer(&g, 1, UCCL_NS_PER_S);
	assert_int_equal(uccl_reverse_gap_limit(&g), UCCL_ACK_DELAY_NS);
	for (; uccl_reverse_gap_limit(&g) == UCCL_ACK_DELAY_NS; n++)
		answer(&g, 1, 300 * US);
	assert_in_range(n, 2, 8);
	assert_in_range(uccl_reverse_gap_limit(&g), 300 * US, UCCL_RIDE_MAX_NS);
}
TESTS_MAIN
