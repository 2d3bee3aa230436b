/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/mailbox.h"

#include "../tests.h"

#include <pthread.h>
#include <sched.h>

#include "base/rundown.h"
#include "base/rng.h"

#define LETTERS 200000
#define GATES 5000

static struct uccl_lane_cmd numbered(uint64_t n)
{
	return (struct uccl_lane_cmd){.kind = (uint8_t)n, .err = -(int32_t)n, .off = n, .len = ~n, .id = (uint32_t)n};
}

TEST(put__until_full)
{
	struct uccl_mailbox b;
	struct uccl_lane_cmd l;

	assert_true(uccl_mailbox_init(&b, 8));
	for (uint64_t round = 0; round < 5; round++) {
		assert_false(uccl_mailbox_take(&b, &l));
		for (uint64_t i = 0; i < 8; i++) {
			assert_int_equal(uccl_mailbox_room(&b), 8 - i);
			l = numbered(round * 100 + i);
			assert_true(uccl_mailbox_put(&b, &l));
		}
		l = numbered(1000);
		assert_int_equal(uccl_mailbox_room(&b), 0);
		assert_false(uccl_mailbox_put(&b, &l));
		for (uint64_t i = 0; i < 8; i++) {
			assert_true(uccl_mailbox_take(&b, &l));
			assert_int_equal(l.off, round * 100 + i);
			assert_int_equal(l.err, -(int)(round * 100 + i));
		}
	}
	uccl_mailbox_fini(&b);
}

/* The counts of letters pass 2^32. */
TEST(put__counts_wrap)
{
	struct uccl_mailbox b;
	struct uccl_lane_cmd l;

	assert_true(uccl_mailbox_init(&b, 4));
	atomic_store(&b.put, UINT32_MAX - 1);
	atomic_store(&b.taken, UINT32_MAX - 1);
	b.seen_taken = b.seen_put = UINT32_MAX - 1;
	for (uint64_t i = 0; i < 4; i++) {
		l = numbered(i);
		assert_true(uccl_mailbox_put(&b, &l));
	}
	assert_false(uccl_mailbox_put(&b, &l));
	for (uint64_t i = 0; i < 4; i++) {
		assert_true(uccl_mailbox_take(&b, &l));
		assert_int_equal(l.off, i);
	}
	assert_false(uccl_mailbox_take(&b, &l));
	uccl_mailbox_fini(&b);
}

/* Any order of both sides, from a seed, beside a count of what must be in it. */
TEST(take__any_order)
{
	uint64_t in = 0, out = 0;
	struct uccl_mailbox b;
	struct uccl_lane_cmd l;
	struct uccl_rng r;

	uccl_rng_seed(&r, 11);
	assert_true(uccl_mailbox_init(&b, 16));
	for (int i = 0; i < 100000; i++) {
		/* Now the one is ahead, now the other. */
		if (uccl_rng_chance(&r, i / 1000 % 2 ? 0.7 : 0.3)) {
			l = numbered(in);
			assert_int_equal(uccl_mailbox_put(&b, &l), in - out < 16);
			in += in - out < 16;
		} else {
			assert_int_equal(uccl_mailbox_take(&b, &l), in > out);
			if (in > out)
				assert_int_equal(l.off, out++);
		}
	}
	assert_true(out > 10000);
	uccl_mailbox_fini(&b);
}

static uint64_t plain[LETTERS];

static void *sender(void *arg)
{
	for (uint64_t i = 0; i < LETTERS; i++) {
		struct uccl_lane_cmd l = numbered(i);

		/* Not atomic: the letter is what makes it known. */
		plain[i] = i + 1;
		l.what = &plain[i];
		while (!uccl_mailbox_put(arg, &l))
			sched_yield();
	}
	return NULL;
}

/* Two threads: each letter once, in order, and what was done before it. */
TEST(take__two_threads)
{
	struct uccl_mailbox b;
	struct uccl_lane_cmd l;
	pthread_t t;

	assert_true(uccl_mailbox_init(&b, 64));
	assert_int_equal(pthread_create(&t, NULL, sender, &b), 0);
	for (uint64_t i = 0; i < LETTERS; i++) {
		while (!uccl_mailbox_take(&b, &l))
			sched_yield();
		assert_int_equal(l.off, i);
		assert_int_equal(l.len, ~i);
		assert_int_equal(*(uint64_t *)l.what, i + 1);
	}
	assert_false(uccl_mailbox_take(&b, &l));
	pthread_join(t, NULL);
	uccl_mailbox_fini(&b);
}

struct guarded {
	struct uccl_rundown gate;
	uint64_t memory; /* not atomic: the gate's */
};

static struct guarded guarded[GATES];
static _Atomic int next_gate, last_in;

/* Writes to memory that is not its own any more when the gate is shut. */
static void *writer(void *arg)
{
	uint64_t *refused = arg;

	for (int i = 0; i < GATES; i = atomic_load(&next_gate)) {
		struct guarded *g = &guarded[i];

		if (uccl_rundown_enter(&g->gate)) {
			g->memory++;
			atomic_store_explicit(&last_in, i + 1, memory_order_relaxed);
			uccl_rundown_leave(&g->gate);
		} else {
			++*refused;
		}
	}
	return NULL;
}

TEST(rundown__nobody_inside)
{
	uint64_t refused = 0;
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, writer, &refused), 0);
	for (int i = 0; i < GATES; i++) {
		while (atomic_load_explicit(&last_in, memory_order_relaxed) != i + 1)
			sched_yield();
		uccl_rundown_close(&guarded[i].gate, NULL);
		assert_true(guarded[i].memory > 0);
		guarded[i].memory = 7;
		atomic_store(&next_gate, i + 1);
	}
	pthread_join(t, NULL);
	for (int i = 0; i < GATES; i++) {
		assert_int_equal(guarded[i].memory, 7);
		assert_false(uccl_rundown_enter(&guarded[i].gate));
	}
}

static struct uccl_rundown slow;
static uint32_t rests;

static void rest(uint32_t times)
{
	assert_int_equal(times, rests);
	if (++rests == 10)
		uccl_rundown_leave(&slow);
}

/* Who is inside and does not come out is not waited for without a rest, by which he may. */
TEST(rundown__rests)
{
	assert_true(uccl_rundown_enter(&slow));
	uccl_rundown_close(&slow, rest);
	assert_int_equal(rests, 10);
	assert_false(uccl_rundown_enter(&slow));
	/* Nobody inside: no rest. */
	uccl_rundown_close(&slow, rest);
	assert_int_equal(rests, 10);
}

TESTS_MAIN
