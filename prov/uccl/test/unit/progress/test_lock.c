/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The lock of what each call takes: one at a time, and nobody sleeps on. */
#include "../tests.h"

#include <pthread.h>
#include <time.h>

#include "progress/lock.h"

#define THREADS 4
#define ROUNDS 20000

static struct counted {
	struct uccl_lock lock;
	uint64_t n; /* not atomic: the lock is what makes it right */
	bool naps;  /* whoever holds the lock loses its processor now and then, so that others sleep */
} shared;

static void *count(void *arg)
{
	struct counted *c = arg;

	for (int i = 0; i < ROUNDS; i++) {
		if (i % 2)
			uccl_lock_take(&c->lock);
		else
			while (!uccl_lock_try(&c->lock))
				nanosleep(&(struct timespec){ .tv_nsec = 1000 }, NULL);
		c->n++;
		if (c->naps && i % 1000 == 1)
			nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
		uccl_lock_give(&c->lock);
	}
	return NULL;
}

static void run(bool naps)
{
	pthread_t thread[THREADS];

	shared = (struct counted){ .naps = naps };
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, count, &shared), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	assert_int_equal(shared.n, THREADS * ROUNDS);
	assert_int_equal(shared.lock.state, UCCL_LOCK_FREE);
}

TEST(lock_take__one_at_a_time)
{
	run(false);
}

TEST(lock_give__wakes_sleepers)
{
	run(true);
}

TEST(lock_try__held)
{
	struct uccl_lock l = {0};

	assert_true(uccl_lock_try(&l));
	assert_false(uccl_lock_try(&l));
	uccl_lock_give(&l);
	uccl_lock_take(&l);
	assert_false(uccl_lock_try(&l));
	uccl_lock_give(&l);
	assert_true(uccl_lock_try(&l));
}

/* Returns its state while it is held here. */
static void *take(void *arg)
{
	struct uccl_lock *l = arg;
	uint32_t state;

	uccl_lock_take(l);
	state = l->state;
	uccl_lock_give(l);
	return (void *)(uintptr_t)state;
}

/* One sleeps on it, and is named in its state: whoever gives it back wakes that one, and others need no call. */
TEST(lock_wait__is_seen)
{
	struct uccl_lock l = { 0 };
	pthread_t thread;
	void *held;

	uccl_lock_take(&l);
	assert_int_equal(l.state, UCCL_LOCK_HELD);
	assert_int_equal(pthread_create(&thread, NULL, take, &l), 0);
	while (l.state != UCCL_LOCK_WANTED)
		nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
	uccl_lock_give(&l);
	assert_int_equal(pthread_join(thread, &held), 0);
	assert_int_equal((uintptr_t)held, UCCL_LOCK_WANTED);
	assert_int_equal(l.state, UCCL_LOCK_FREE);
}

TESTS_MAIN
