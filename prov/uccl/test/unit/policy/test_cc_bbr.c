/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* BBR over a link with a queue: one, or several that share it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "link.h"

#define SEVERAL 4

static uint64_t limit;	     /* a longer queue loses what comes */
static unsigned int loss_of; /* one of so many is lost; 0: none */
static uint64_t count;

static bool loses(uint64_t queue)
{
	return queue > limit || (loss_of && ++count % loss_of == 0);
}

/* On NICs whose links carry ten times what is in the way. */
static int start(void **state)
{
	(void)state;
	count = loss_of = 0;
	limit = UCCL_NEVER;
	link_start(&uccl_cc_bbr, 10, loses);
	return 0;
}

/* Share of the link that the first `n` had, from now on for so long. */
static double used(int n, uint64_t ns)
{
	uint64_t before = 0, after = 0;

	for (int i = 0; i < n; i++)
		before += s.flow[i].got;
	s.queue_max = 0;
	run(0, n, ns);
	for (int i = 0; i < n; i++)
		after += s.flow[i].got;
	return (double)(after - before) / (RATE * (double)ns);
}

/* The link is filled, and its queue is a part of a round trip. */
static void one__fills_the_link(void **state)
{
	(void)state;
	run(0, 1, 1000 * US);
	assert_true(used(1, 10000 * US) > 0.95);
	assert_in_range(s.queue_max, 0, 10 * US);
}

/* What NICs and cables lose is sent again, and slows nobody down. */
static void one__loss_is_no_congestion(void **state)
{
	int small = 0;

	(void)state;
	loss_of = 100;
	run(0, 1, 1000 * US);
	assert_true(used(1, 10000 * US) > 0.93);
	/* The window shrinks only while the least round trip is looked for. */
	for (int i = 0; i < 1000; i++) {
		run(0, 1, 10 * US);
		small += uccl_cc_bbr.window(s.flow[0].cc) < (uint64_t)(2 * RATE * DELAY);
	}
	assert_in_range(small, 0, 100);
}

/* Hardly a queue: what probes lose there is little, and the link stays full. */
static void one__short_queue(void **state)
{
	(void)state;
	limit = 2 * US;
	run(0, 1, 1000 * US);
	s.lost = 0;
	assert_true(used(1, 10000 * US) > 0.8);
	assert_in_range(s.lost, 1, 10000 * US * RATE / CHUNK / 50);
}

/* Marks do what losses do, and nothing is lost. */
static void one__marks(void **state)
{
	uint64_t free_queue;

	(void)state;
	run(0, 1, 500 * US);
	used(1, 5000 * US);
	free_queue = s.queue_max;
	start(NULL);
	s.mark_ns = 0;
	run(0, 1, 500 * US);
	assert_true(used(1, 5000 * US) > 0.7);
	assert_in_range(s.queue_max, 0, free_queue);
}

/*
 * Those that came later get their share, and the link stays full. They begin with ten times what it carries, each
 * behind the others, and see a round trip that is not there.
 */
static void several__fair(void **state)
{
	uint64_t before[SEVERAL];

	(void)state;
	run(0, 1, 2000 * US);
	run(0, SEVERAL, 40000 * US);
	for (int i = 0; i < SEVERAL; i++)
		before[i] = s.flow[i].got;
	assert_true(used(SEVERAL, 20000 * US) > 0.95);
	for (int i = 0; i < SEVERAL; i++)
		assert_true((double)(s.flow[i].got - before[i]) > 0.6 * RATE * 20000 * (double)US / SEVERAL);
	assert_in_range(s.queue_max, 0, 10 * DELAY);
}

/* The others end: who is left finds the rest of the link. */
static void several__one_is_left(void **state)
{
	(void)state;
	run(0, SEVERAL, 5000 * US);
	run(0, 1, 3000 * US);
	assert_true(used(1, 5000 * US) > 0.9);
}

/* Little to send says nothing of the rate. */
static void one__limited(void **state)
{
	struct uccl_ack_info info = {.bytes = CHUNK, .rtt_ns = DELAY, .delivered = 1u << 30, .rate.limited = true};
	uint64_t window;

	(void)state;
	run(0, 1, 1000 * US);
	window = uccl_cc_bbr.window(s.flow[0].cc);
	for (int i = 0; i < 100; i++) {
		s.now += DELAY;
		info.rate.prior = info.delivered;
		info.delivered += CHUNK;
		info.rate.bytes = CHUNK;
		info.rate.ns = DELAY;
		uccl_cc_bbr.on_ack(s.flow[0].cc, &info, s.now);
	}
	assert_in_range(uccl_cc_bbr.window(s.flow[0].cc), window / 2, window * 2);
}

/*
 * A network that lost nearly everything took the rate; packets are then so far apart that each is due to look for the
 * least round trip. That ends, too.
 */
static void one__after_bad_times(void **state)
{
	const struct uccl_loss_info loss = {.kind = UCCL_LOSS_PROOF, .bytes = 10 * CHUNK};
	struct flow *f = &s.flow[0];

	(void)state;
	run(0, 1, 1000 * US);
	for (int i = 0; i < 25; i++) {
		/* Once a round trip was shorter than any other. */
		struct uccl_ack_info info = {.bytes = CHUNK, .rtt_ns = i ? DELAY : DELAY - US, .rate.bytes = CHUNK};

		s.now += 10000 * US;
		uccl_cc_bbr.on_loss(f->cc, &loss, s.now);
		info.rate.prior = f->rate.delivered;
		info.rate.ns = 10000 * US;
		f->rate.delivered += CHUNK;
		info.delivered = f->rate.delivered;
		uccl_cc_bbr.on_ack(f->cc, &info, s.now);
	}
	run(0, 1, 50000 * US);
	assert_true(used(1, 10000 * US) > 0.9);
}

/* Nothing delivered yet: the link, and the delay of the fabric. */
static void init__window(void **state)
{
	(void)state;
	assert_int_equal(uccl_cc_bbr.window(s.flow[0].cc), 50 * DELAY);
	assert_int_equal(uccl_cc_bbr.pace(s.flow[0].cc, CHUNK, 0, s.now), s.now);
}

/* After a time-out the window is the smallest while it cruises, and it recovers. */
static void loss__timeout(void **state)
{
	const struct uccl_loss_info loss = {.kind = UCCL_LOSS_RTO, .bytes = CHUNK};
	uint64_t least = UCCL_NEVER;

	(void)state;
	run(0, 1, 1000 * US);
	uccl_cc_bbr.on_loss(s.flow[0].cc, &loss, s.now);
	for (int i = 0; i < 100; i++) {
		run(0, 1, 10 * US);
		least = uccl_min(least, uccl_cc_bbr.window(s.flow[0].cc));
	}
	assert_int_equal(least, 4 * CHUNK);
	assert_true(used(1, 5000 * US) > 0.9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(init__window, start),
		cmocka_unit_test_setup(one__fills_the_link, start),
		cmocka_unit_test_setup(one__loss_is_no_congestion, start),
		cmocka_unit_test_setup(one__short_queue, start),
		cmocka_unit_test_setup(one__marks, start),
		cmocka_unit_test_setup(several__fair, start),
		cmocka_unit_test_setup(several__one_is_left, start),
		cmocka_unit_test_setup(one__limited, start),
		cmocka_unit_test_setup(one__after_bad_times, start),
		cmocka_unit_test_setup(loss__timeout, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
