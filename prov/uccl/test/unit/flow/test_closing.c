/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The end of a flow alone: no packet, no flow. */
#include "flow/closing.h"

#include "../unit.h"

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

static void init__open_and_silent(void **state)
{
	assert_int_equal(c.state, UCCL_FLOW_OPEN);
	assert_int_equal(c.at, UCCL_NEVER);
	assert_int_equal(uccl_closing_next(&c), 0);
}

static void begin__once(void **state)
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
static void close_reason__both_ways(void **state)
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

static void heard__the_first_reason(void **state)
{
	uccl_closing_heard(&c, UCCL_CLOSE_MEMORY);
	uccl_closing_heard(&c, UCCL_CLOSE_ENDPOINT);
	assert_int_equal(c.reason, UCCL_CLOSE_MEMORY);
}

static void heard__each_time_answered(void **state)
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
static void heard__while_closing(void **state)
{
	uccl_closing_begin(&c, MS, 0);
	uccl_closing_heard(&c, UCCL_CLOSE_ENDPOINT);
	assert_int_equal(uccl_closing_next(&c), UCCL_PKT_CLOSE_ACK);
	assert_int_equal(uccl_closing_next(&c), UCCL_PKT_CLOSE);
	assert_int_equal(uccl_closing_next(&c), 0);
}

static void answered__ends_it(void **state)
{
	uccl_closing_begin(&c, MS, 0);
	uccl_closing_answered(&c);
	assert_int_equal(c.state, UCCL_FLOW_CLOSED);
	assert_int_equal(c.at, UCCL_NEVER);
	assert_int_equal(uccl_closing_next(&c), 0);
}

/* An answer that nobody asked for closes nothing. */
static void answered__unsolicited(void **state)
{
	uccl_closing_answered(&c);
	assert_int_equal(c.state, UCCL_FLOW_OPEN);
}

static void expire__says_it_again(void **state)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(init__open_and_silent, setup),
		cmocka_unit_test_setup(begin__once, setup),
		cmocka_unit_test_setup(close_reason__both_ways, setup),
		cmocka_unit_test_setup(heard__the_first_reason, setup),
		cmocka_unit_test_setup(heard__each_time_answered, setup),
		cmocka_unit_test_setup(heard__while_closing, setup),
		cmocka_unit_test_setup(answered__ends_it, setup),
		cmocka_unit_test_setup(answered__unsolicited, setup),
		cmocka_unit_test_setup(expire__says_it_again, setup),
	};

	return cmocka_run_group_tests_name("closing", tests, NULL, NULL);
}
