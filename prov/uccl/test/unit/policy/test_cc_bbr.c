/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* BBR over a link with a queue: one, or several that share it. */
#include "../tests.h"

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
TEST_IN(one__fills_the_link, start, NULL)
{
	run(0, 1, 1000 * US);
	assert_true(used(1, 10000 * US) > 0.95);
	assert_in_range(s.queue_max, 0, 10 * US);
}

/* What NICs and cables lose is sent again, and slows nobody down. */
TEST_IN(one__loss_is_no_congestion, start, NULL)
{
	int small = 0;

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
TEST_IN(one__short_queue, start, NULL)
{
	limit = 2 * US;
	run(0, 1, 1000 * US);
	s.lost = 0;
	assert_true(used(1, 10000 * US) > 0.8);
	assert_in_range(s.lost, 1, 10000 * US * RATE / CHUNK / 50);
}

/* Marks do what losses do, and nothing is lost. */
TEST_IN(one__marks, start, NULL)
{
	uint64_t free_queue;

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
TEST_IN(several__fair, start, NULL)
{
	uint64_t before[SEVERAL];

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
TEST_IN(several__one_is_left, start, NULL)
{
	run(0, SEVERAL, 5000 * US);
	run(0, 1, 3000 * US);
	assert_true(used(1, 5000 * US) > 0.9);
}

/* Little to send says nothing of the rate. */
TEST_IN(one__limited, start, NULL)
{
	struct uccl_ack_info info = {.bytes = CHUNK, .rtt_ns = DELAY, .delivered = 1u << 30, .rate.limited = true};
	uint64_t window;

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
TEST_IN(one__after_bad_times, start, NULL)
{
	const struct uccl_loss_info loss = {.kind = UCCL_LOSS_PROOF, .bytes = 10 * CHUNK};
	struct flow *f = &s.flow[0];

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
TEST_IN(init__window, start, NULL)
{
	assert_int_equal(uccl_cc_bbr.window(s.flow[0].cc), 50 * DELAY);
	assert_int_equal(uccl_cc_bbr.pace(s.flow[0].cc, CHUNK, 0, s.now), s.now);
}

/* After a time-out the window is the smallest while it cruises, and it recovers. */
TEST_IN(loss__timeout, start, NULL)
{
	const struct uccl_loss_info loss = {.kind = UCCL_LOSS_RTO, .bytes = CHUNK};
	uint64_t least = UCCL_NEVER;

	run(0, 1, 1000 * US);
	uccl_cc_bbr.on_loss(s.flow[0].cc, &loss, s.now);
	for (int i = 0; i < 100; i++) {
		run(0, 1, 10 * US);
		least = uccl_min(least, uccl_cc_bbr.window(s.flow[0].cc));
	}
	assert_int_equal(least, 4 * CHUNK);
	assert_true(used(1, 5000 * US) > 0.9);
}

TESTS_MAIN
