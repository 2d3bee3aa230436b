/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "duo.h"

#include "msg/iov.h"
#include "../tests.h"

TEST(copy__in_and_out)
{
	uint8_t a[4] = {0}, b[4] = {0}, flat[8] = {1, 2, 3, 4, 5, 6, 7, 8}, back[8] = {0};
	struct uccl_op op = {.iov_count = 3, .iov = {{a, 3}, {NULL, 0}, {b, 4}}};

	msg_copy_in(op.iov, op.iov_count, 0, flat, 7);
	assert_memory_equal(a, ((uint8_t[]){1, 2, 3, 0}), 4);
	assert_memory_equal(b, ((uint8_t[]){4, 5, 6, 7}), 4);
	msg_copy_in(op.iov, op.iov_count, 5, flat, 1);
	assert_memory_equal(b, ((uint8_t[]){4, 5, 1, 7}), 4);
	msg_copy_in(op.iov, op.iov_count, 2, flat + 6, 2);
	assert_int_equal(a[2], 7);
	assert_int_equal(b[0], 8);
	/* What is in its place already stays there. */
	msg_copy_in(op.iov, op.iov_count, 3, b, 4);
	assert_memory_equal(b, ((uint8_t[]){8, 5, 1, 7}), 4);
	msg_copy_out(op.iov, 3, 0, back, 7);
	assert_memory_equal(back, ((uint8_t[]){1, 2, 7, 8, 5, 1, 7, 0}), 8);
	msg_copy_out(op.iov, 3, 4, back, 2);
	assert_memory_equal(back, ((uint8_t[]){5, 1}), 2);
}

TESTS_MAIN
