/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What is owed, alone: what came is made up, and blocks are read. */
#include "flow/ack/ack_tracker.h"

#include "../../tests.h"

#include <stdlib.h>

#define PATHS 20
#define US UCCL_NS_PER_US

static struct uccl_ack_tracker o;
static struct uccl_ack a;

static int setup(void **state)
{
	return uccl_ack_tracker_init(&o, PATHS, 5) ? 0 : -1;
}

static int teardown(void **state)
{
	uccl_ack_tracker_fini(&o);
	return 0;
}

TEST_IN(packet__the_latest_of_a_path, setup, teardown)
{
	uccl_ack_tracker_packet(&o, 2, 10, 111, 1000);
	uccl_ack_tracker_packet(&o, 2, 9, 222, 2000);
	assert_int_equal(o.ndirty, 1);
	assert_int_equal(uccl_ack_tracker_entries(&o), 1);
	uccl_ack_tracker_tell(&o, &a, 12, true, 1000 + (640 << UCCL_TS_SHIFT));
	assert_int_equal(a.npaths, 1);
	assert_int_equal(a.paths[0].path, 2);
	assert_int_equal(a.paths[0].seq, 10);
	assert_int_equal(a.paths[0].echo, 111);
	assert_int_equal(a.paths[0].delay, 640);
	assert_int_equal(uccl_ack_tracker_entries(&o), 0);
}

/* Numbers of packets wrap. */
TEST_IN(packet__wraps, setup, teardown)
{
	o.paths[1].high_seq = UINT32_MAX - 1;
	uccl_ack_tracker_packet(&o, 1, 3, 0, 1);
	assert_int_equal(o.paths[1].high_seq, 3);
	uccl_ack_tracker_packet(&o, 1, UINT32_MAX, 0, 2);
	assert_int_equal(o.paths[1].high_seq, 3);
}

TEST_IN(write__a_channel_of_its_own, setup, teardown)
{
	uccl_ack_tracker_packet(&o, 3, 1, 0, 1000);
	uccl_ack_tracker_write(&o, 3, 70, 2000);
	uccl_ack_tracker_write(&o, 3, 69, 3000);
	assert_int_equal(o.ndirty, 1);
	assert_int_equal(uccl_ack_tracker_entries(&o), 2);
	uccl_ack_tracker_tell(&o, &a, 12, true, 2000 + (5 << UCCL_TS_SHIFT));
	assert_int_equal(a.npaths, 2);
	assert_false(a.paths[0].write);
	assert_true(a.paths[1].write);
	assert_int_equal(a.paths[1].seq, 70);
	assert_int_equal(a.paths[1].delay, 5);
}

TEST_IN(seen__steps_back, setup, teardown)
{
	assert_false(uccl_ack_tracker_seen(&o, 0, 10, false));
	assert_false(uccl_ack_tracker_seen(&o, 0, 12, false));
	assert_true(uccl_ack_tracker_seen(&o, 0, 11, false));
	/* The same again is no step back, nor is what comes on another path. */
	assert_false(uccl_ack_tracker_seen(&o, 0, 12, false));
	assert_false(uccl_ack_tracker_seen(&o, 1, 11, false));
	/* What is late moves nothing. */
	assert_false(uccl_ack_tracker_seen(&o, 1, 20, true));
	assert_false(uccl_ack_tracker_seen(&o, 1, 19, false));
}

TEST_IN(chunk__when_a_block_is_due, setup, teardown)
{
	uccl_ack_tracker_chunk(&o, 1, 3, 900);
	uccl_ack_tracker_chunk(&o, 1, 3, 800);
	assert_int_equal(o.at, 800);
	assert_false(o.now);
	uccl_ack_tracker_chunk(&o, 1, 3, 850);
	assert_int_equal(o.at, 800);
	assert_true(o.now);
	uccl_ack_tracker_tell(&o, &a, 12, true, 810);
	assert_false(o.now);
	assert_int_equal(o.at, UCCL_NEVER);
	assert_int_equal(o.slots, 0);
	assert_int_equal(o.sent_ns, 810);
}

TEST_IN(expire__at_once, setup, teardown)
{
	uccl_ack_tracker_until(&o, 7);
	uccl_ack_tracker_expire(&o);
	assert_true(o.now);
	assert_int_equal(o.at, UCCL_NEVER);
}

/* PROTOCOL R22 */
TEST_IN(dup__owes_and_counts, setup, teardown)
{
	uccl_ack_tracker_dup(&o, true, 50);
	assert_int_equal(o.dups, 0);
	assert_int_equal(o.at, 51);
	uccl_ack_tracker_dup(&o, false, 60);
	assert_int_equal(o.dups, 1);
	assert_int_equal(o.slots, 2);
	uccl_ack_tracker_tell(&o, &a, 12, true, 70);
	assert_int_equal(a.dups, 1);
}

/* The path that asked is told first. PROTOCOL R57 */
TEST_IN(answer__its_line_first, setup, teardown)
{
	for (uint16_t i = 0; i < 4; i++)
		uccl_ack_tracker_packet(&o, i, 1, 0, 1000);
	assert_false(uccl_ack_tracker_answer(&o, 2, 100, 0, 2000));
	assert_true(o.now);
	uccl_ack_tracker_tell(&o, &a, 12, true, 2000);
	assert_int_equal(a.npaths, 4);
	assert_int_equal(a.paths[0].path, 2);
	assert_int_equal(a.paths[1].path, 0);
	assert_int_equal(a.paths[3].path, 3);
}

/* Asked again after a while, and nothing of ours was reported since: the answer was lost. PROTOCOL R57 */
TEST_IN(answer__was_lost, setup, teardown)
{
	assert_false(uccl_ack_tracker_answer(&o, 0, 100, 0, 1000));
	assert_false(uccl_ack_tracker_answer(&o, 0, 100, 0, 1099));
	assert_true(uccl_ack_tracker_answer(&o, 0, 100, 0, 1100));
	assert_false(uccl_ack_tracker_answer(&o, 0, 100, 1101, 1300));
	assert_true(uccl_ack_tracker_answer(&o, 0, 100, 1300, 1500));
	uccl_ack_tracker_answer_more(&o, 2);
	assert_true(uccl_ack_tracker_take_answer(&o));
	assert_true(uccl_ack_tracker_take_answer(&o));
	assert_false(uccl_ack_tracker_take_answer(&o));
}

TEST_IN(again__what_was_not_heard, setup, teardown)
{
	uccl_ack_tracker_packet(&o, 0, 1, 0, 1000);
	uccl_ack_tracker_packet(&o, 1, 1, 0, 2000);
	uccl_ack_tracker_write(&o, 2, 5, 2000);
	uccl_ack_tracker_tell(&o, &a, 12, true, 2000);
	assert_int_equal(uccl_ack_tracker_entries(&o), 0);
	uccl_ack_tracker_again(&o, 1500);
	uccl_ack_tracker_again(&o, 1500);
	uccl_ack_tracker_tell(&o, &a, 12, true, 2000);
	assert_int_equal(a.npaths, 2);
	assert_int_equal(a.paths[0].path, 1);
	assert_true(a.paths[1].write);
}

/* What has no room goes with the next block. */
TEST_IN(tell__no_room, setup, teardown)
{
	for (uint16_t i = 0; i < PATHS; i++)
		uccl_ack_tracker_packet(&o, i, 1, 0, 1000);
	assert_int_equal(uccl_ack_tracker_entries(&o), UCCL_ACK_PATHS_MAX);
	uccl_ack_tracker_tell(&o, &a, UCCL_ACK_PATHS_MAX, true, 1000);
	assert_int_equal(a.npaths, UCCL_ACK_PATHS_MAX);
	uccl_ack_tracker_tell(&o, &a, UCCL_ACK_PATHS_MAX, true, 1000);
	assert_int_equal(a.npaths, PATHS - UCCL_ACK_PATHS_MAX);
	assert_int_equal(a.paths[0].path, UCCL_ACK_PATHS_MAX);
	assert_int_equal(o.ndirty, 0);
}

TEST_IN(tell__not_sure, setup, teardown)
{
	uccl_ack_tracker_packet(&o, 4, 1, 0, 1000);
	uccl_ack_tracker_chunk(&o, 1, 1, 2000);
	uccl_ack_tracker_tell(&o, &a, 12, false, 1500);
	assert_int_equal(a.npaths, 1);
	assert_int_equal(uccl_ack_tracker_entries(&o), 1);
	assert_int_equal(o.slots, 1);
	assert_true(o.now);
	assert_int_equal(o.sent_ns, 5);
}

TEST_IN(grant__told_with_each_block, setup, teardown)
{
	uccl_ack_tracker_grant(&o, 77);
	uccl_ack_tracker_short(&o, true);
	for (int i = 0; i < 2; i++) {
		uccl_ack_tracker_tell(&o, &a, 12, true, 9);
		assert_int_equal(a.msg_limit, 77);
		assert_true(a.rcv_short);
	}
}

/* Marks are told as a sum, to the next KiB, in every line of the path; it wraps. PROTOCOL R189 */
TEST_IN(marked__all_that_came, setup, teardown)
{
	uccl_ack_tracker_packet(&o, 2, 10, 111, 1000);
	uccl_ack_tracker_marked(&o, 2, 1);
	uccl_ack_tracker_write(&o, 2, 70, 2000);
	uccl_ack_tracker_tell(&o, &a, 12, true, 3000);
	assert_int_equal(a.npaths, 2);
	assert_int_equal(a.paths[0].marked, 1);
	assert_int_equal(a.paths[1].marked, 1);
	uccl_ack_tracker_marked(&o, 2, 1023);
	uccl_ack_tracker_tell(&o, &a, 12, true, 3000);
	assert_int_equal(a.paths[0].marked, 1);
	uccl_ack_tracker_marked(&o, 2, 1);
	uccl_ack_tracker_tell(&o, &a, 12, true, 3000);
	assert_int_equal(a.paths[0].marked, 2);
	uccl_ack_tracker_marked(&o, 2, 65535 * 1024);
	uccl_ack_tracker_tell(&o, &a, 12, true, 3000);
	assert_int_equal(a.paths[0].marked, 1);
}

/* The mark of a packet that was overtaken is told, too: its path gets a line, which says nothing else new. */
TEST_IN(marked__of_an_old_packet, setup, teardown)
{
	uccl_ack_tracker_packet(&o, 2, 10, 111, 1000);
	uccl_ack_tracker_tell(&o, &a, 12, true, 3000);
	uccl_ack_tracker_packet(&o, 2, 9, 222, 4000);
	assert_int_equal(uccl_ack_tracker_entries(&o), 0);
	uccl_ack_tracker_marked(&o, 2, 500);
	assert_int_equal(uccl_ack_tracker_entries(&o), 1);
	uccl_ack_tracker_tell(&o, &a, 12, true, 5000);
	assert_int_equal(a.npaths, 1);
	assert_int_equal(a.paths[0].seq, 10);
	assert_int_equal(a.paths[0].marked, 1);
}

TESTS_MAIN
