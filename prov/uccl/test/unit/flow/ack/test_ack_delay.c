/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What blocks wait on their way here, alone: two clocks that have nothing in common, and no flow. */
#include "flow/ack/ack_delay.h"

#include "../../tests.h"

#include "base/units.h"
#include "flow/wire/wire.h"

#define US UCCL_NS_PER_US
#define MS UCCL_NS_PER_MS
/* The shortest way back, and a round trip with it. */
#define BACK (6400ull)
#define RTT (20 * US)

static struct uccl_ack_delay o;
static uint64_t now;
static uint64_t ahead;	/* the peer's clock, of ours */

static int setup(void **state)
{
	uccl_ack_delay_init(&o, 0);
	now = 1000 * MS;
	ahead = 0;
	return 0;
}

/* A block comes now that has waited so long on its way, and a unit, which is nothing by itself. */
static void came(uint64_t waited)
{
	uint64_t unit = waited ? 64 : 0;

	uccl_ack_delay_back(&o, uccl_ts(now + ahead - BACK - waited - unit), now);
}

/* With a sample: what it says of the way there. */
static uint64_t there(uint64_t waited)
{
	came(waited);
	return uccl_ack_delay_rtt(&o, RTT + waited);
}

TEST_IN(back__first_is_no_queue, setup, NULL)
{
	assert_int_equal(o.min_rtt_ns, UCCL_NEVER);
	came(64 * 100);
	assert_int_equal(o.queue_ns, 0);
	came(0);
	assert_int_equal(o.queue_ns, 0);
	came(64 * 100);
	assert_int_equal(o.queue_ns, 64 * 100);
}

/* A burst that fills the queues at once has no sample without them. PROTOCOL R413 */
TEST_IN(init__handshake_bounds_the_least, setup, NULL)
{
	uccl_ack_delay_init(&o, RTT);
	assert_int_equal(uccl_ack_delay_queue(&o), 0);
	came(0);
	assert_int_equal(uccl_ack_delay_rtt(&o, 5 * RTT), 5 * RTT);
	assert_int_equal(o.min_rtt_ns, RTT);
	assert_int_equal(uccl_ack_delay_queue(&o), 4 * RTT);
	/* It has hosts in it, so payload may be faster. */
	uccl_ack_delay_rtt(&o, RTT / 2);
	assert_int_equal(o.min_rtt_ns, RTT / 2);
}

/* Rounding of two clocks makes no queue. */
TEST_IN(back__a_unit_is_nothing, setup, NULL)
{
	for (uint64_t i = 0; i < 1000; i++) {
		now += 12345;
		came(0);
		assert_int_equal(o.queue_ns, 0);
	}
	uccl_ack_delay_back(&o, uccl_ts(now - BACK) - 1, now);
	assert_int_equal(o.queue_ns, 0);
	uccl_ack_delay_back(&o, uccl_ts(now - BACK) - 3, now);
	assert_int_equal(o.queue_ns, 128);
}

/* Whatever the peer's clock shows, also where the low 32 bits of a clock, or of their difference, begin anew. */
TEST_IN(back__any_clock, setup, NULL)
{
	static const uint64_t shows[] = {
		0, 12345678 * US, (1ull << 37) - BACK - 64 * 50, 1ull << 38, (1ull << 37) - 1000 * MS, UINT64_MAX - 5,
	};

	for (size_t i = 0; i < uccl_array_len(shows); i++) {
		setup(state);
		ahead = shows[i] / 64 * 64;
		came(0);
		for (uint64_t w = 0; w < 100; w++) {
			now += 64;
			came(64 * w);
			assert_int_equal(o.queue_ns, 64 * w);
		}
	}
}

/* The way there alone, whatever blocks wait; the least and the latest of it. */
TEST_IN(rtt__without_the_queue, setup, NULL)
{
	assert_int_equal(there(0), RTT);
	assert_int_equal(there(6400), RTT);
	assert_int_equal(there(64000), RTT);
	came(6400);
	assert_int_equal(uccl_ack_delay_rtt(&o, 6400 + RTT + 5 * US), RTT + 5 * US);
	assert_int_equal(o.last_rtt_ns, RTT + 5 * US);
	assert_int_equal(o.min_rtt_ns, RTT);
	/* Every sample of a block has the block's wait. */
	assert_int_equal(uccl_ack_delay_rtt(&o, 6400 + RTT - 1 * US), RTT - 1 * US);
	assert_int_equal(o.min_rtt_ns, RTT - 1 * US);
}

/* What never drains is no queue after two times: then it counts as the way there. */
TEST_IN(back__a_standing_queue, setup, NULL)
{
	came(0);
	for (uint64_t end = now + UCCL_ACK_DELAY_EPOCH_NS; now < end; now += 100 * US) {
		came(6400);
		assert_int_equal(o.queue_ns, 6400);
	}
	/* The least of the last time still counts. */
	for (uint64_t end = now + UCCL_ACK_DELAY_EPOCH_NS; now < end; now += 100 * US) {
		came(6400);
		assert_int_equal(o.queue_ns, 6400);
	}
	came(6400);
	assert_int_equal(o.queue_ns, 0);
}

/* Nothing came for long: what was least then says nothing of clocks now. */
TEST_IN(back__after_a_pause, setup, NULL)
{
	came(0);
	now += UCCL_ACK_DELAY_EPOCH_NS + 1;
	came(640);
	assert_int_equal(o.queue_ns, 640);
	now += 2 * UCCL_ACK_DELAY_EPOCH_NS;
	came(6400);
	assert_int_equal(o.queue_ns, 0);
}

/* Clocks that go apart by 100 ppm, for ten seconds: never more than two times of it. */
TEST_IN(back__drift, setup, NULL)
{
	for (int side = 0; side < 2; side++) {
		setup(state);
		for (int i = 0; i < 10000; i++) {
			now += MS;
			ahead = side ? ahead + MS / 10000 : ahead - MS / 10000;
			came(0);
			assert_true(o.queue_ns <= 2 * UCCL_ACK_DELAY_EPOCH_NS / 10000 + 128);
		}
	}
}

/* The peer's clock is set, or it lies: nothing is taken off, and the next block is the first one. */
TEST_IN(rtt__clock_set, setup, NULL)
{
	assert_int_equal(there(0), RTT);
	ahead -= 3600 * UCCL_NS_PER_S / 64 * 64;
	assert_int_equal(there(0), RTT);
	assert_int_equal(there(0), RTT);
	assert_int_equal(there(6400), RTT);
	/* The other way it is a block that took less than ever, and all that follow are right. */
	ahead += 100 * UCCL_NS_PER_S / 64 * 64;
	assert_int_equal(there(0), RTT);
	assert_int_equal(there(6400), RTT);
	/* As long as the round trip is too long. */
	came(RTT / 64 * 64 + 64);
	assert_int_equal(uccl_ack_delay_rtt(&o, RTT / 64 * 64 + 64), RTT / 64 * 64 + 64);
	came(64);
	assert_int_equal(o.queue_ns, 0);
}

/* A window grows by the part that waiting makes of a round trip; by as much again at most, and by nothing at first. */
TEST_IN(more__as_round_trips, setup, NULL)
{
	assert_int_equal(uccl_ack_delay_more(&o, 1 << 20), 0);
	there(0);
	for (int i = 0; i < 200; i++)
		there(RTT / 4 / 64 * 64);
	came(0);
	assert_in_range(uccl_ack_delay_more(&o, 1 << 20), (1 << 18) - (1 << 14), 1 << 18);
	for (int i = 0; i < 200; i++)
		there(3 * RTT / 64 * 64);
	came(0);
	assert_int_equal(uccl_ack_delay_more(&o, 1 << 20), 1 << 20);
	for (int i = 0; i < 200; i++)
		there(0);
	assert_int_equal(uccl_ack_delay_more(&o, 1 << 20), 0);
}

/* On average, above the least; the way back is no part of it. */
TEST_IN(queue__above_the_least, setup, NULL)
{
	assert_int_equal(uccl_ack_delay_queue(&o), 0);
	uccl_ack_delay_rtt(&o, RTT);
	assert_int_equal(uccl_ack_delay_queue(&o), 0);
	for (int i = 0; i < 200; i++)
		uccl_ack_delay_rtt(&o, RTT + 8000);
	assert_in_range(uccl_ack_delay_queue(&o), 7900, 8000);
}

/* On a long way others that send the other way empty their queue now and then only: the least is kept. PROTOCOL R230 */
TEST_IN(back__long_way, setup, NULL)
{
	uccl_ack_delay_init(&o, 50 * MS);
	uccl_ack_delay_way(&o, true);
	came(0);
	for (int i = 0; i < 50; i++) {
		now += 25 * MS;
		came(64 * 1000);
		assert_int_equal(o.queue_ns, 64 * 1000);
	}
	uccl_ack_delay_init(&o, 5000 * MS);
	uccl_ack_delay_way(&o, true);
	assert_int_equal(o.epoch_ns, UCCL_ACK_DELAY_EPOCH_MAX_NS);
	uccl_ack_delay_way(&o, false);
	assert_int_equal(o.epoch_ns, UCCL_ACK_DELAY_EPOCH_NS);
}

TESTS_MAIN
