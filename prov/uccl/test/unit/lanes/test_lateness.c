/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "lanes/lateness.h"

#include "../tests.h"

#include <string.h>

#define US UCCL_NS_PER_US
#define MS UCCL_NS_PER_MS
#define SLICE (3 * MS)

static struct uccl_lateness l;
static uint64_t now;

static int begin(void **state)
{
	memset(&l, 0, sizeof(l));
	now = UCCL_NS_PER_S;
	return 0;
}

/* A trial after the pause, in which lanes are late by this sum. False: none begins. */
static bool trial(uint64_t late_ns)
{
	lateness_want(&l);
	if (!lateness_try(&l, now))
		return false;
	now += uccl_max(MS / 2, late_ns);
	if (late_ns)
		lateness_late(&l, late_ns, now);
	else
		lateness_tried(&l, now);
	now += MS;
	return true;
}

/* They come back. */
static void taken_back(void)
{
	now = l.pause.until;
	for (int i = 0; i < UCCL_LATENESS_TRIALS; i++) {
		assert_false(lateness_uses(&l));
		assert_true(trial(0));
	}
	assert_true(lateness_uses(&l));
}

/* Late by two time slices: more than what messages of 64 KiB are worth. True: the lanes were left with this. */
static bool late_twice(void)
{
	now += SLICE;
	if (lateness_late(&l, SLICE, now))
		return false;
	now += SLICE;
	return lateness_late(&l, SLICE, now);
}

TEST_IN(late__second_time_slice, begin, NULL)
{
	assert_true(lateness_uses(&l));
	for (int n = 0; n < 2; n++) {
		lateness_carried(&l, 65536);
		now += SLICE;
		assert_int_equal(lateness_late(&l, SLICE, now), n == 1);
	}
	assert_false(lateness_uses(&l));
}

/* Eight lanes that a pause of the host has stopped tell of it in one poll after the other. */
TEST_IN(late__side_by_side, begin, NULL)
{
	for (int k = 0; k < 8; k++) {
		now += US;
		assert_false(lateness_late(&l, SLICE, now));
	}
	now += SLICE;
	assert_true(lateness_late(&l, SLICE, now));
}

/* What they finish after they were left excuses nothing: one late time slice in a trial is too many. */
TEST_IN(late__finish_what_they_have, begin, NULL)
{
	uint64_t pause;

	assert_true(late_twice());
	lateness_carried(&l, 1 << 30);
	pause = l.pause.ns;
	now = l.pause.until;
	assert_true(trial(SLICE));
	assert_int_equal(l.pause.ns, 2 * pause);
}

/* Lanes that save more than they cost are used, late or not; others are left. */
TEST_IN(late__weighed, begin, NULL)
{
	static const struct {
		uint64_t bytes, late_ns;
		bool left;
	} v[] = {
		{1 << 20, 50 * US, false}, {1 << 20, 200 * US, true}, {16 << 20, 1 * MS, false},
		{16 << 20, SLICE, true},   {64 << 20, SLICE, false},  {65536, 5 * US, false},
		{65536, 20 * US, true},
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		begin(NULL);
		for (int n = 0; n < 500; n++, now += 10 * MS) {
			lateness_carried(&l, v[i].bytes);
			lateness_late(&l, v[i].late_ns, now);
		}
		assert_int_equal(l.left, v[i].left);
	}
}

/* One time slice now and then is excused by what lanes carried in time. */
TEST_IN(late__now_and_then, begin, NULL)
{
	for (int n = 0; n < 1000; n++, now += 100 * US) {
		lateness_carried(&l, 1 << 20);
		if (n % 100 == 50)
			assert_false(lateness_late(&l, SLICE - 100 * US, now));
	}
	assert_true(lateness_uses(&l));
}

TEST_IN(trial__taken_back, begin, NULL)
{
	assert_true(late_twice());
	assert_false(trial(0));
	/* Nobody wants them. */
	now = l.pause.until;
	l.wanted = false;
	assert_false(lateness_try(&l, now));
	taken_back();
}

/* From one trial to the next lanes go to sleep; while one is under way there is no other. */
TEST_IN(trial__one_by_one, begin, NULL)
{
	late_twice();
	now = l.pause.until;
	lateness_want(&l);
	assert_true(lateness_try(&l, now));
	lateness_want(&l);
	assert_false(lateness_try(&l, now + UCCL_NS_PER_S));
	lateness_tried(&l, now);
	assert_false(lateness_try(&l, now + UCCL_LATENESS_TRIAL_NS - 1));
	assert_true(lateness_try(&l, now + UCCL_LATENESS_TRIAL_NS));
}

/* What is late without a trial says nothing new: it was handed out before. */
TEST_IN(trial__only_in_time, begin, NULL)
{
	uint64_t until;

	late_twice();
	until = l.pause.until;
	assert_false(lateness_late(&l, SLICE, now + MS));
	lateness_tried(&l, now);
	assert_int_equal(l.pause.until, until);
	assert_int_equal(l.trials, 0);
}

TEST_IN(trial__pause_doubles, begin, NULL)
{
	uint64_t pause = UCCL_LATENESS_PAUSE;

	late_twice();
	for (int i = 0; i < 20; i++) {
		assert_int_equal(l.pause.ns, pause);
		now = l.pause.until;
		/* One trial on time is luck. */
		assert_true(trial(0));
		assert_true(trial(SLICE));
		assert_false(lateness_uses(&l));
		pause = uccl_min(2 * pause, UCCL_LATENESS_PAUSE_MOST);
	}
	assert_int_equal(pause, UCCL_LATENESS_PAUSE_MOST);
	taken_back();
	/* Soon late again: the pause is no shorter. */
	now += MS;
	assert_true(late_twice());
	assert_int_equal(l.pause.ns, UCCL_LATENESS_PAUSE_MOST);
	taken_back();
	/* A long good time. */
	now += 8 * UCCL_LATENESS_PAUSE_MOST;
	assert_true(late_twice());
	assert_int_equal(l.pause.ns, UCCL_LATENESS_PAUSE);
}

/* Lanes that are always late cost little of the time, and none of the first second more than a tenth. */
TEST_IN(always__costs_little, begin, NULL)
{
	uint64_t lost = 0, start = now;

	while (now < start + UCCL_NS_PER_S) {
		if (lateness_uses(&l)) {
			lost += SLICE;
			now += SLICE;
			lateness_late(&l, SLICE, now);
		}
		/* Three trials of four see nothing of it. */
		if (now >= l.trial_at)
			trial(now / MS % 4 ? 0 : SLICE);
		now += 100 * US;
	}
	assert_true(lost < UCCL_NS_PER_S / 10);
}

TESTS_MAIN
