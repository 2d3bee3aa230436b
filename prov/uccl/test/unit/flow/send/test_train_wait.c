/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/send/train_wait.h"

#include "../../tests.h"

#include <string.h>

#define LONGEST 60000
#define EACH 1000
#define SHORT (7 * EACH)
/* Samples that are proof. */
#define PROOF (UCCL_TRAIN_WAITS / UCCL_TRAIN_WAIT_COUNTS)

static struct uccl_train_wait w;
static uint64_t now;

static int begin(void **state)
{
	memset(&w, 0, sizeof(w));
	now = UCCL_NS_PER_S;
	return 0;
}

/* A train leaves in a round of `round` ns, and takes `more` ns longer than others have. */
static bool train(uint64_t round, uint64_t more)
{
	uint64_t sent = now;

	uccl_train_wait_round(&w, now);
	uccl_train_wait_sent(&w, now);
	now += uccl_max(round, UCCL_NS_PER_US);
	uccl_train_wait_round(&w, now);
	now += UCCL_NS_PER_US;
	return uccl_train_wait_came(&w, sent, more, now);
}

static unsigned int times(unsigned int n, uint64_t round, uint64_t more)
{
	unsigned int slow = 0;

	while (n--)
		slow += train(round, more);
	return slow;
}

static uint32_t bytes(void)
{
	return uccl_train_wait_bytes(&w, LONGEST, EACH);
}

static void acked(uint64_t packets)
{
	uccl_train_wait_acked(&w, packets * EACH, now);
}

/* Trains wait for milliseconds, whatever the host does: they become short. */
TEST_IN(came__waits, begin, NULL)
{
	assert_int_equal(times(PROOF - 1, 0, 5 * UCCL_NS_PER_MS), 0);
	assert_int_equal(bytes(), LONGEST);
	assert_int_equal(times(1, 3 * UCCL_NS_PER_MS, 5 * UCCL_NS_PER_MS), 1);
	assert_int_equal(bytes(), SHORT);
	assert_int_equal(times(1000, 0, 5 * UCCL_NS_PER_MS), 0);
	/* Whole packets, and one at least. */
	assert_int_equal(uccl_train_wait_bytes(&w, 4 * EACH, EACH), EACH);
}

/* A host that takes milliseconds from its clock to the network, or for all: its trains may have left that late. */
TEST_IN(came__late_host, begin, NULL)
{
	for (uint64_t ms = 1; ms <= 100; ms++)
		assert_int_equal(times(100, ms * UCCL_NS_PER_MS, ms * UCCL_NS_PER_MS), 0);
	assert_int_equal(w.waits, 0);
	/* Its samples say nothing either way. */
	times(10, 0, 5 * UCCL_NS_PER_MS);
	times(100, 5 * UCCL_NS_PER_MS, 5 * UCCL_NS_PER_MS);
	assert_int_equal(w.waits, 10 * UCCL_TRAIN_WAIT_COUNTS);
}

/* A third that waits is an accident; and so are short queues. */
TEST_IN(came__mostly_not, begin, NULL)
{
	for (int i = 0; i < 1000; i++) {
		assert_false(train(0, 5 * UCCL_NS_PER_MS));
		assert_int_equal(times(UCCL_TRAIN_WAIT_COUNTS, 0, UCCL_TRAIN_WAIT_NS - 1), 0);
	}
	assert_int_equal(bytes(), LONGEST);
	/* Half of them is none: the window is too small to make them all wait. */
	for (int i = 0; i < 2 * PROOF; i++) {
		times(1, 0, UCCL_TRAIN_WAIT_NS - 1);
		times(1, 0, 5 * UCCL_NS_PER_MS);
	}
	assert_int_equal(bytes(), SHORT);
}

/* Of a round that is not known, that long ago or still under way, nothing is known. */
TEST_IN(came__unknown_round, begin, NULL)
{
	uint64_t first = now;

	assert_int_equal(times(UCCL_TRAIN_ROUNDS + 1, 0, 0), 0);
	for (int i = 0; i < 2 * UCCL_TRAIN_WAITS; i++)
		assert_false(uccl_train_wait_came(&w, first, UCCL_NS_PER_S, now));
	uccl_train_wait_sent(&w, now);
	for (int i = 0; i < 2 * UCCL_TRAIN_WAITS; i++)
		assert_false(uccl_train_wait_came(&w, now, UCCL_NS_PER_S, now));
	/* Another train of the round; and one of the next round ends it. */
	uccl_train_wait_sent(&w, now);
	uccl_train_wait_sent(&w, now + UCCL_NS_PER_MS);
	assert_false(uccl_train_wait_came(&w, now, 3 * UCCL_NS_PER_MS, now));
	assert_int_equal(w.waits, UCCL_TRAIN_WAIT_COUNTS);
}

/* Losses: many of those that leave. What a link or a queue loses now and then counts nothing. */
TEST_IN(lost__share, begin, NULL)
{
	for (int i = 0; i < 1000; i++) {
		assert_false(uccl_train_wait_lost(&w, 0, EACH, EACH, now));
		acked(UCCL_TRAIN_LOST);
	}
	assert_int_equal(bytes(), LONGEST);
	for (int i = 1; i < UCCL_TRAIN_LOST_MOST; i++)
		assert_false(uccl_train_wait_lost(&w, 0, EACH, EACH, now));
	assert_false(w.dropped);
	assert_true(uccl_train_wait_lost(&w, 0, EACH, EACH, now));
	assert_int_equal(bytes(), SHORT);
	assert_true(w.dropped);
	now = w.until;
	acked(1);
	assert_false(w.dropped);
	/* Also if they were short already, as they waited. */
	times(PROOF, 0, 5 * UCCL_NS_PER_MS);
	assert_false(w.dropped);
	for (int i = 0; i < UCCL_TRAIN_LOST_MOST; i++)
		assert_false(uccl_train_wait_lost(&w, 0, EACH, EACH, now));
	assert_true(w.dropped);
}

/* So many paths lose something, and their next samples are of so many ns. */
static void judged(uint16_t from, uint16_t n, uint64_t rtt_ns)
{
	for (uint16_t i = from; i < from + n; i++)
		uccl_train_wait_lost(&w, i, EACH, EACH, now);
	for (uint16_t i = from; i < from + n; i++)
		uccl_train_wait_sample(&w, i, rtt_ns);
}

/* Behind a policer a path that lost something is as quick as others. */
TEST_IN(policed__quick_paths, begin, NULL)
{
	uccl_train_wait_sample(&w, 0, UCCL_NS_PER_MS);
	judged(0, UCCL_TRAIN_LOST_MOST, UCCL_NS_PER_MS);
	assert_true(w.dropped);
	assert_true(uccl_train_wait_policed(&w));
	now = w.until;
	acked(1);
	assert_false(uccl_train_wait_policed(&w));
}

/* Behind the full queue of a slow link it is slower than others. */
TEST_IN(policed__full_queue, begin, NULL)
{
	uccl_train_wait_sample(&w, 0, UCCL_NS_PER_MS);
	judged(0, UCCL_TRAIN_LOST_MOST, 5 * UCCL_NS_PER_MS);
	assert_true(w.dropped);
	assert_false(uccl_train_wait_policed(&w));
	/* What is heard of paths that lost nothing does not count, however many they are. */
	for (uint16_t i = 0; i < UCCL_TRAIN_PATHS; i++)
		uccl_train_wait_sample(&w, i, UCCL_NS_PER_MS);
	assert_false(uccl_train_wait_policed(&w));
	/* Each path counts once for what it lost. */
	for (int i = 0; i < 100; i++)
		uccl_train_wait_sample(&w, 1, UCCL_NS_PER_MS);
	assert_false(uccl_train_wait_policed(&w));
	judged(64, 2 * UCCL_TRAIN_LOST_MOST, UCCL_NS_PER_MS);
	assert_true(uccl_train_wait_policed(&w));
}

/* It counts from when long trains were tried again: a policer that is gone does not outweigh a full queue. */
TEST_IN(policed__counts_anew, begin, NULL)
{
	uccl_train_wait_sample(&w, 0, UCCL_NS_PER_MS);
	for (int i = 0; i < 4; i++)
		judged(0, UCCL_TRAIN_LOST_MOST, UCCL_NS_PER_MS);
	assert_true(uccl_train_wait_policed(&w));
	uccl_train_wait_lost(&w, 100, EACH, EACH, now);
	now = w.until;
	acked(1);
	assert_int_equal(w.quick, 0);
	uccl_train_wait_sample(&w, 100, UCCL_NS_PER_MS);
	assert_int_equal(w.quick, 0);
	judged(0, UCCL_TRAIN_LOST_MOST, 5 * UCCL_NS_PER_MS);
	assert_true(w.dropped);
	assert_false(uccl_train_wait_policed(&w));
}

/* Short packets: few of them are lost, however little each acknowledgement tells of. */
TEST_IN(lost__short_packets, begin, NULL)
{
	for (int i = 0; i < 1000; i++) {
		assert_false(uccl_train_wait_lost(&w, 0, EACH / 10, EACH, now));
		for (int k = 0; k < 2 * UCCL_TRAIN_LOST; k++)
			uccl_train_wait_acked(&w, EACH / 10, now);
	}
	assert_int_equal(w.lost, 0);
}

/* Long trains are tried again, and ever more seldom while they wait again. */
TEST_IN(slow__ends, begin, NULL)
{
	uint64_t hold = UCCL_TRAIN_WAIT_HOLD_NS;

	for (int i = 0; i < 6; i++) {
		assert_int_equal(times(PROOF, 0, 5 * UCCL_NS_PER_MS), 1);
		now = w.until - 1;
		assert_int_equal(w.hold_ns, hold);
		acked(1);
		assert_int_equal(bytes(), SHORT);
		now = w.until;
		acked(1);
		assert_int_equal(bytes(), LONGEST);
		hold = uccl_min(2 * hold, UCCL_TRAIN_WAIT_HOLD_MAX_NS);
	}
	assert_int_equal(hold, UCCL_TRAIN_WAIT_HOLD_MAX_NS);
	/* It was good for long. */
	now += 2 * UCCL_TRAIN_WAIT_HOLD_MAX_NS;
	assert_int_equal(times(PROOF, 0, 5 * UCCL_NS_PER_MS), 1);
	assert_int_equal(w.hold_ns, UCCL_TRAIN_WAIT_HOLD_NS);
}

TESTS_MAIN
