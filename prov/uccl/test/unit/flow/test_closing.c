/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The end of a flow alone: no packet, no flow. */
#include "flow/closing.h"

#include "../tests.h"

#include <rdma/fi_errno.h>

#include "base/units.h"
#include "flow/wire/wire.h"

#define MS UCCL_NS_PER_MS

static struct uccl_closing c;

static int setup(void **state)
{
	uccl_closing_init(&c);
	return 0;
}

TEST_IN(init__open_and_silent, setup, NULL)
{
	assert_int_equal(c.state, UCCL_FLOW_OPEN);
	assert_int_equal(c.at, UCCL_NEVER);
	assert_int_equal(uccl_closing_next(&c), 0);
}

TEST_IN(begin__once, setup, NULL)
{
	uccl_closing_begin(&c, 7 * MS, 100 * MS);
	assert_int_equal(c.state, UCCL_FLOW_CLOSING);
	assert_int_equal(c.at, 107 * MS);
	assert_int_equal(uccl_closing_next(&c), UCCL_PKT_CLOSE);
	assert_int_equal(uccl_closing_next(&c), 0);
	uccl_closing_begin(&c, 7 * MS, 101 * MS);
	assert_int_equal(c.began_ns, 100 * MS);
	assert_int_equal(c.at, 107 * MS);
	assert_int_equal(uccl_closing_next(&c), 0);
}

/* PROTOCOL R310 */
TEST_IN(close_reason__both_ways, setup, NULL)
{
	static const struct {
		int here, there;
	} end[] = {
		{ FI_ENOMEM, FI_ENOMEM },
		{ FI_EFAULT, FI_EREMOTEIO },
		{ FI_ETIMEDOUT, FI_ECONNABORTED },
		{ FI_ENETDOWN, FI_ECONNABORTED },
		{ FI_ECONNABORTED, FI_ECONNABORTED },
		{ FI_EIO, FI_ECONNABORTED },
	};
	uint8_t rec[UCCL_REC_LEN] = { 0 };

	/* An older sender, and one that only closes. */
	assert_int_equal(uccl_close_reason_read(rec), UCCL_CLOSE_ENDPOINT);
	assert_int_equal(uccl_close_error(UCCL_CLOSE_ENDPOINT), FI_ECONNABORTED);
	for (size_t i = 0; i < uccl_array_len(end); i++) {
		rec[0] = (uint8_t)uccl_close_reason_of(end[i].here);
		assert_int_not_equal(rec[0], UCCL_CLOSE_ENDPOINT);
		assert_int_equal(uccl_close_reason_read(rec), rec[0]);
		assert_int_equal(uccl_close_error(rec[0]), end[i].there);
	}
	for (int i = UCCL_CLOSE_COUNT; i < 256; i++) {
		rec[0] = (uint8_t)i;
		assert_int_equal(uccl_close_reason_read(rec), UCCL_CLOSE_OTHER);
	}
}

TEST_IN(heard__the_first_reason, setup, NULL)
{
	uccl_closing_heard(&c, UCCL_CLOSE_MEMORY);
	uccl_closing_heard(&c, UCCL_CLOSE_ENDPOINT);
	assert_int_equal(c.reason, UCCL_CLOSE_MEMORY);
}

TEST_IN(heard__each_time_answered, setup, NULL)
{
	for (int i = 0; i < 3; i++) {
		uccl_closing_heard(&c, UCCL_CLOSE_ENDPOINT);
		assert_int_equal(uccl_closing_next(&c), UCCL_PKT_CLOSE_ACK);
		assert_int_equal(uccl_closing_next(&c), 0);
	}
	assert_true(c.seen);
	assert_int_equal(c.state, UCCL_FLOW_OPEN);
	assert_int_equal(c.tries, 0);
}

/* Both want it: the answer leaves first, then our own CLOSE. */
TEST_IN(heard__while_closing, setup, NULL)
{
	uccl_closing_begin(&c, MS, 0);
	uccl_closing_heard(&c, UCCL_CLOSE_ENDPOINT);
	assert_int_equal(uccl_closing_next(&c), UCCL_PKT_CLOSE_ACK);
	assert_int_equal(uccl_closing_next(&c), UCCL_PKT_CLOSE);
	assert_int_equal(uccl_closing_next(&c), 0);
}

TEST_IN(answered__ends_it, setup, NULL)
{
	uccl_closing_begin(&c, MS, 0);
	uccl_closing_answered(&c);
	assert_int_equal(c.state, UCCL_FLOW_CLOSED);
	assert_int_equal(c.at, UCCL_NEVER);
	assert_int_equal(uccl_closing_next(&c), 0);
}

/* An answer that nobody asked for closes nothing. */
TEST_IN(answered__unsolicited, setup, NULL)
{
	uccl_closing_answered(&c);
	assert_int_equal(c.state, UCCL_FLOW_OPEN);
}

TEST_IN(expire__says_it_again, setup, NULL)
{
	uccl_closing_begin(&c, MS, 0);
	/* Not more often than every 5 ms. */
	assert_int_equal(c.at, 5 * MS);
	for (uint32_t i = 1; i <= 3; i++) {
		assert_int_equal(uccl_closing_next(&c), UCCL_PKT_CLOSE);
		assert_int_equal(c.tries, i);
		uccl_closing_expire(&c, 9 * MS, c.at);
		assert_int_equal(c.at, 5 * MS + i * 9 * MS);
	}
}

TESTS_MAIN
