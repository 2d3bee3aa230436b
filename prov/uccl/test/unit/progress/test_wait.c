/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../api/world.h"
#include "../tests.h"

#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "progress/wait.h"

#define LONG_NS (20 * UCCL_NS_PER_S) /* a sleep that ends by itself has failed */

static bool readable(const struct uccl_wait *w)
{
	struct pollfd p = { .fd = w->epfd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static int next_fd(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

/* Sleeps like a reader of a queue that finds nothing; how long it took. */
static uint64_t sleep_until(struct uccl_wait *w, uint64_t until)
{
	uint64_t began = uccl_clock();

	uccl_wait_enter(w);
	uccl_wait_sleep(w, until);
	uccl_wait_leave(w);
	return uccl_clock() - began;
}

static struct uccl_wait w;

static int wait_open(void **state)
{
	return uccl_wait_open(&w);
}

static int wait_close(void **state)
{
	uccl_wait_close(&w);
	return 0;
}

/* One that is closed does nothing. */
TEST(init__closed)
{
	int fd = next_fd();
	struct uccl_wait w;

	uccl_wait_init(&w);
	assert_false(uccl_wait_opened(&w));
	assert_int_equal(uccl_wait_add(&w, 0), 0);
	uccl_wait_remove(&w, 0);
	uccl_wait_force(&w);
	uccl_wait_close(&w);
	assert_int_equal(next_fd(), fd);
}

/* Whichever of its descriptors cannot be had, the others are given back. */
TEST(open__no_descriptors)
{
	struct rlimit keep, few;
	struct uccl_wait w;
	int fd = next_fd();

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &keep), 0);
	for (int n = 0; n < 3; n++) {
		few = keep;
		few.rlim_cur = (rlim_t)(fd + n);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		assert_int_equal(uccl_wait_open(&w), -FI_EMFILE);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &keep), 0);
		assert_false(uccl_wait_opened(&w));
		assert_int_equal(next_fd(), fd);
	}
}

TEST_IN(add__and_remove, wait_open, wait_close)
{
	int p[2];

	assert_int_equal(pipe(p), 0);
	assert_int_equal(uccl_wait_add(&w, -1), 0);
	assert_int_equal(uccl_wait_add(&w, p[0]), 0);
	assert_int_equal(uccl_wait_add(&w, p[0]), 0);
	assert_false(readable(&w));
	assert_int_equal(write(p[1], "x", 1), 1);
	assert_true(readable(&w));
	assert_true(sleep_until(&w, uccl_clock() + LONG_NS) < LONG_NS / 2);
	uccl_wait_remove(&w, p[0]);
	assert_false(readable(&w));
	assert_int_equal(uccl_wait_add(&w, 12345), -FI_EBADF);
	close(p[0]);
	close(p[1]);
}

/* A sleeper that stays inside hears each signal once, and asks the kernel for none when all have been read. */
TEST_IN(again__each_signal_once, wait_open, wait_close)
{
	uccl_wait_enter(&w);
	for (int i = 0; i < 3; i++) {
		assert_false(uccl_wait_again(&w, UCCL_NEVER));
		for (int k = 0; k <= i; k++)
			uccl_wait_force(&w);
		assert_true(readable(&w));
		assert_true(uccl_wait_again(&w, UCCL_NEVER));
		assert_false(readable(&w));
		assert_int_equal(w.writes, w.taken);
	}
	/* Begun, and not done yet: the kernel knows that. */
	w.writes++;
	assert_false(uccl_wait_again(&w, UCCL_NEVER));
	uccl_wait_leave(&w);
}

TEST_IN(signal__only_sleepers, wait_open, wait_close)
{
	/* Nobody is there: nothing is left behind. */
	uccl_wait_signal(&w);
	uccl_wait_kick(&w, 1);
	assert_false(readable(&w));
	/* Somebody is about to sleep. */
	uccl_wait_enter(&w);
	uccl_wait_signal(&w);
	uccl_wait_sleep(&w, UCCL_NEVER);
	uccl_wait_leave(&w);
	assert_false(readable(&w));
	/* Whoever sleeps or not. */
	uccl_wait_force(&w);
	assert_true(readable(&w));
	uccl_wait_enter(&w);
	uccl_wait_leave(&w);
	assert_false(readable(&w));
}

/* A signal for one who is awake costs no system call, and he does not sleep over it. */
TEST_IN(signal__awake, wait_open, wait_close)
{
	uint64_t began = uccl_clock();

	uccl_wait_enter(&w);
	uccl_wait_signal(&w);
	assert_false(readable(&w));
	uccl_wait_sleep(&w, began + LONG_NS);
	assert_true(uccl_clock() - began < LONG_NS / 2);
	/* It was that signal, and no more. */
	uccl_wait_sleep(&w, uccl_clock() + 20 * UCCL_NS_PER_MS);
	assert_true(uccl_clock() - began >= 20 * UCCL_NS_PER_MS);
	uccl_wait_leave(&w);
	/* What one did not need does not keep the next one from sleeping. */
	uccl_wait_enter(&w);
	uccl_wait_signal(&w);
	uccl_wait_leave(&w);
	assert_true(sleep_until(&w, uccl_clock() + 20 * UCCL_NS_PER_MS) >= 20 * UCCL_NS_PER_MS);
	/* Two are inside: whoever goes wakes the other, whom the signal may have been for. */
	uccl_wait_enter(&w);
	uccl_wait_enter(&w);
	uccl_wait_signal(&w);
	uccl_wait_leave(&w);
	assert_true(readable(&w));
	uccl_wait_leave(&w);
	assert_false(readable(&w));
	/* From the plan on. */
	uccl_wait_enter(&w);
	uccl_wait_plan(&w, UCCL_NEVER);
	uccl_wait_signal(&w);
	assert_true(readable(&w));
	uccl_wait_leave(&w);
}

/* Only a time before the sleeper's own wakes him. */
TEST_IN(kick__earlier_only, wait_open, wait_close)
{
	uint64_t now;

	uccl_wait_enter(&w);
	now = uccl_clock();
	uccl_wait_sleep(&w, now);
	uccl_wait_kick(&w, now);
	uccl_wait_kick(&w, UCCL_NEVER);
	assert_false(readable(&w));
	uccl_wait_kick(&w, now - 1);
	assert_true(readable(&w));
	uccl_wait_leave(&w);
	assert_false(readable(&w));
	/* Awake he will look by himself; not when he has made up his mind. */
	uccl_wait_enter(&w);
	uccl_wait_kick(&w, 5);
	assert_false(readable(&w));
	uccl_wait_plan(&w, UCCL_NEVER);
	uccl_wait_kick(&w, UCCL_NEVER - 1);
	assert_true(readable(&w));
	uccl_wait_leave(&w);
}

TEST_IN(sleep__time, wait_open, wait_close)
{
	uint64_t until;

	until = uccl_clock() + 20 * UCCL_NS_PER_MS;
	sleep_until(&w, until);
	assert_true(uccl_clock() >= until);
	/* In the past: not at all. */
	assert_true(sleep_until(&w, 0) < LONG_NS / 2);
	assert_true(sleep_until(&w, uccl_clock() - 1) < LONG_NS / 2);
}

static void *second(void *arg)
{
	struct uccl_wait *w = arg;

	uccl_wait_sleep(w, uccl_clock() + LONG_NS);
	uccl_wait_leave(w);
	return NULL;
}

/* One who goes wakes the others, who may have counted on his time; the last one clears up. */
TEST_IN(leave__others_look_again, wait_open, wait_close)
{
	uint64_t began = uccl_clock();
	pthread_t t;

	uccl_wait_enter(&w);
	uccl_wait_enter(&w); /* for the other one */
	assert_int_equal(pthread_create(&t, NULL, second, &w), 0);
	uccl_wait_leave(&w);
	pthread_join(t, NULL);
	assert_true(uccl_clock() - began < LONG_NS / 2);
	assert_int_equal(w.sleepers, 0);
	assert_false(readable(&w));
}

#define ROUNDS 30000

static void *comes_and_goes(void *arg)
{
	for (int n = 0; n < ROUNDS; n++) {
		uccl_wait_enter(arg);
		uccl_wait_leave(arg);
	}
	return NULL;
}

/* He who clears up after the last one must not take the wake-up of one who came meanwhile. */
TEST_IN(leave__takes_nothing_from_who_comes, wait_open, wait_close)
{
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, comes_and_goes, &w), 0);
	for (int n = 0; n < ROUNDS; n++) {
		uccl_wait_enter(&w);
		uccl_wait_signal(&w);
		assert_true(atomic_load(&w.until) == UCCL_WAIT_AWAKE);
		uccl_wait_leave(&w);
	}
	pthread_join(t, NULL);
	assert_int_equal(w.sleepers, 0);
	assert_false(readable(&w));
}

/* The application sleeps on the descriptor itself. */
TEST_IN(outside__timer_and_signal, wait_open, wait_close)
{
	struct pollfd p;

	p = (struct pollfd){ .fd = w.epfd, .events = POLLIN };
	uccl_wait_enter_outside(&w);
	uccl_wait_until_outside(&w, uccl_clock() + 5 * UCCL_NS_PER_MS);
	assert_int_equal(poll(&p, 1, 20000), 1);
	uccl_wait_leave_outside(&w);
	assert_false(readable(&w));
	/* Without end; a signal is kept. */
	uccl_wait_enter_outside(&w);
	uccl_wait_until_outside(&w, UCCL_NEVER);
	assert_false(readable(&w));
	uccl_wait_signal(&w);
	assert_true(readable(&w));
	/* A thread of ours that comes and goes must not take it away. */
	uccl_wait_enter(&w);
	uccl_wait_leave(&w);
	assert_true(readable(&w));
	uccl_wait_awake(&w);
	assert_false(readable(&w));
	uccl_wait_leave_outside(&w);
	/* Somebody was about to wake us when we left: it is not for the next sleep. */
	uccl_wait_force(&w);
	assert_true(readable(&w));
	uccl_wait_leave_outside(&w);
	assert_false(readable(&w));
	/* A time in the past is now. */
	uccl_wait_enter_outside(&w);
	uccl_wait_until_outside(&w, 0);
	assert_int_equal(poll(&p, 1, 20000), 1);
	uccl_wait_leave_outside(&w);
}

struct work {
	_Atomic bool stop;
	int polls, asked;
};

/* Twice there is something, then nothing, and at the end it is told to stop. */
static int work_poll(void *arg)
{
	struct work *k = arg;

	k->polls++;
	if (k->polls == 5)
		atomic_store(&k->stop, true);
	return k->polls <= 2;
}

/* Before a sleep, and again when kicks count. */
static uint64_t work_expiry(void *arg)
{
	struct work *k = arg;

	k->asked++;
	return uccl_clock() + UCCL_NS_PER_MS;
}

TEST_IN(serve__until_stopped, wait_open, wait_close)
{
	struct work k = { .polls = 0 };
	const struct uccl_wait_work work = { .poll = work_poll, .expiry = work_expiry, .arg = &k };

	uccl_wait_init(&w);
	uccl_wait_serve(&w, &k.stop, &work);
	assert_int_equal(k.polls, 5);
	assert_int_equal(k.asked, 2 * 2);
	/* It has left. */
	assert_int_equal(w.sleepers, 0);
	uccl_wait_serve(&w, &k.stop, &work);
	assert_int_equal(k.polls, 5);
}

/* Looks again so often, each time. */
static bool work_stay(void *arg)
{
	return ((struct work *)arg)->polls % 2;
}

TEST_IN(serve__stays_awake, wait_open, wait_close)
{
	struct work k = { .polls = 0 };
	const struct uccl_wait_work work = {
		.poll = work_poll, .stay = work_stay, .expiry = work_expiry, .arg = &k
	};

	uccl_wait_init(&w);
	uccl_wait_serve(&w, &k.stop, &work);
	assert_int_equal(k.polls, 5);
	/* After the fourth alone. */
	assert_int_equal(k.asked, 2);
}

TESTS_MAIN
