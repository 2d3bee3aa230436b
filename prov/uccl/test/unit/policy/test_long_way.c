/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A model of a way with one link: what exceeds the link waits in its queue, and the queue drops what exceeds it. Each
 * round trip has a number of acknowledgements of equal size.
 */
#include "policy/long_way.h"

#include <math.h>
#include <stdint.h>
#include <string.h>
#include "../tests.h"

#include "base/units.h"

#define MS ((double)UCCL_NS_PER_MS)
#define CHUNK 1400.0
#define ACKS 16
/* 1 Gb/s in bytes per ns, of which a queue holds a megabyte. */
#define LINK 0.125
#define QUEUE 1e6

static const struct uccl_long_way_cfg cfg = {.chunk = CHUNK, .burst = 63000, .most = 64e6, .share = 1};
static struct uccl_long_way w;
static struct {
	double base_ns, least_ns; /* of the route; the least that was seen */
	double lost;		  /* share lost by chance */
	double others;		  /* bytes of others in the queue */
	bool bursts;		  /* spreads are told */
	double sent, dropped;	  /* in all */
	uint64_t delivered;
} way;

static int setup(void **state)
{
	memset(&way, 0, sizeof(way));
	way.base_ns = way.least_ns = 50 * MS;
	way.bursts = true;
	uccl_long_way_init(&w, &cfg);
	uccl_long_way_begin(&w, 16 * CHUNK, 64 * CHUNK, way.base_ns);
	return 0;
}

/* A round trip. Returns what it delivered, as a share of what the link carries in one without queues. */
static double turn(void)
{
	double window = uccl_long_way_window(&w), queue = window + way.others - LINK * way.base_ns;
	double over = fmax(0, queue - QUEUE), came, rtt;
	uint64_t before = way.delivered;

	queue = fmin(fmax(0, queue), QUEUE);
	rtt = way.base_ns + queue / LINK;
	way.least_ns = fmin(way.least_ns, rtt);
	came = (window - over) * (1 - way.lost);
	way.sent += window;
	way.dropped += over;
	if (window > came)
		uccl_long_way_lost(&w, window - came, false);
	for (int i = 0; i < ACKS; i++) {
		struct uccl_ack_info ack = {
			.bytes = (uint64_t)(came / ACKS),
			.inflight = (uint64_t)(window - came / ACKS),
			.rtt_ns = (uint64_t)rtt,
			.min_rtt_ns = (uint64_t)way.least_ns,
			.rate = {.prior = i == ACKS - 1 ? before : 0, .bytes = (uint64_t)came, .ns = (uint64_t)rtt},
		};

		if (way.bursts && came / ACKS > 8192)
			ack.spread = (struct uccl_spread_sample){.bytes = 125000, .ns = UCCL_NS_PER_MS};
		way.delivered += ack.bytes;
		ack.delivered = way.delivered;
		uccl_long_way_acked(&w, &ack);
	}
	return came / (LINK * rtt);
}

static double turns(int n)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += turn();
	return sum / n;
}

/* Little was in flight as the program had no more: some packets may leave at once, and the rest is not held up. */
TEST_IN(begin__short, setup, NULL)
{
	static const double first[] = {0, 1, 8, 64, CHUNK};

	for (size_t i = 0; i < sizeof(first) / sizeof(*first); i++) {
		struct uccl_ack_info ack = {.bytes = (uint64_t)first[i], .app_limited = true};
		uint64_t now = UCCL_NS_PER_S, at = now;
		double sent = 0;

		setup(NULL);
		uccl_long_way_begin(&w, first[i], 64 * CHUNK, way.base_ns);
		ack.rtt_ns = ack.min_rtt_ns = (uint64_t)way.base_ns;
		uccl_long_way_acked(&w, &ack);
		assert_true(w.window >= 10 * CHUNK);
		while (at == now && sent < 10 * CHUNK) {
			at = uccl_long_way_pace(&w, (uint32_t)CHUNK, at);
			sent += CHUNK;
		}
		assert_true(sent >= 10 * CHUNK);
		assert_in_range(at, now, now + (uint64_t)way.base_ns);
	}
	/* But not more than what may be in flight, and not less than one. */
	uccl_long_way_begin(&w, 0, 4 * CHUNK, way.base_ns);
	assert_int_equal(w.window, 4 * CHUNK);
	uccl_long_way_begin(&w, 0, 0, way.base_ns);
	assert_int_equal(w.window, CHUNK);
	uccl_long_way_share(&w, 0.01);
	assert_int_equal(w.window, CHUNK);
}

/* It doubles while nothing is known of the link, and by four while it is far below that. */
TEST_IN(start__doubles, setup, NULL)
{
	turn();
	assert_int_equal(w.window, 32 * CHUNK);
	turn();
	assert_int_equal(w.window, 64 * CHUNK);
	while (!w.link)
		turn();
	assert_false(w.started);
	assert_true(turns(4) < 1);
	assert_true(w.started);
}

/* Bursts told what the link carries: the start loses nothing, and fills no queue. */
TEST_IN(start__ends_at_the_link, setup, NULL)
{
	while (!w.started)
		turn();
	assert_true(fabs(w.window - LINK * way.base_ns) < 0.01 * w.window);
	assert_int_equal(way.dropped, 0);
	assert_true(turns(40) > 0.97);
	assert_int_equal(way.dropped, 0);
}

/* Nothing told it: a queue ends the start, and what was delivered counts. */
TEST_IN(start__ends_with_a_queue, setup, NULL)
{
	way.bursts = false;
	while (!w.started)
		turn();
	assert_true(w.window < 1.1 * LINK * way.base_ns);
	assert_true(turns(60) > 0.95);
}

/* Losses by chance say nothing: as much is delivered as arrives. */
TEST_IN(lost__by_chance, setup, NULL)
{
	way.lost = 0.01;
	turns(12);
	assert_true(turns(100) > 0.96);
	assert_int_equal(way.dropped, 0);
}

/* A queue that others fill overflows: the window falls once for it, and not below 0.7. */
TEST_IN(lost__overflow, setup, NULL)
{
	double was;

	turns(20);
	way.others = 1.4e6;
	was = w.window;
	turn();
	assert_true(w.window < was && w.window >= 0.7 * was);
	was = w.window;
	turn();
	assert_true(w.window >= 0.7 * was);
	/* Such a queue is shorter than 0.4 of its delay from now on. */
	assert_true(w.full_ns <= QUEUE / LINK);
	way.others = 0;
	assert_true(turns(60) > 0.9);
}

TEST_IN(lost__silence, setup, NULL)
{
	double was;

	turns(20);
	was = w.window;
	uccl_long_way_lost(&w, CHUNK, true);
	assert_true(fabs(w.window - was / 2) < 1);
}

/* Every 16 round trips the queue is empty: another flow that sends the other way sees how long the way is. */
TEST_IN(drain__now_and_then, setup, NULL)
{
	int empty = 0, filled = 0;

	turns(40);
	for (int i = 0; i < 64; i++) {
		bool less = uccl_long_way_window(&w) < w.window;
		double used = turn();

		empty += less && used < 0.995;
		filled += used > 0.999;
	}
	assert_in_range(empty, 3, 5);
	assert_in_range(filled, 50, 61);
}

/* A window that is not used does not grow. */
TEST_IN(follow__unused, setup, NULL)
{
	struct uccl_ack_info ack = {.bytes = 100000, .inflight = 100000, .app_limited = true};
	double was;

	turns(20);
	was = w.window;
	for (int i = 0; i < 40; i++) {
		ack.rtt_ns = ack.min_rtt_ns = (uint64_t)way.base_ns;
		ack.rate.prior = way.delivered;
		ack.rate.bytes = 100000;
		ack.rate.ns = (uint64_t)way.base_ns;
		way.delivered += ack.bytes;
		ack.delivered = way.delivered;
		uccl_long_way_acked(&w, &ack);
	}
	assert_true(w.window <= was);
}

/* The route becomes three times as long: within a dozen round trips the link is full again, and no queue is. */
TEST_IN(route__longer, setup, NULL)
{
	int n;

	way.base_ns = way.least_ns = 20 * MS;
	uccl_long_way_begin(&w, 16 * CHUNK, 64 * CHUNK, way.base_ns);
	turns(40);
	way.base_ns = 60 * MS;
	for (n = 0; n < 12 && turn() < 0.9; n++)
		;
	assert_in_range(n, 1, 11);
	assert_true(turns(40) > 0.95);
	assert_true(fabs(w.base_ns - 60 * MS) < 3 * MS);
	assert_int_equal(way.dropped, 0);
	/* And short again: it is seen when the queue of what was too much is gone. */
	way.base_ns = 20 * MS;
	turns(60);
	assert_true(fabs(w.base_ns - 20 * MS) < MS);
	assert_true(turns(60) > 0.9);
}

/* A queue that shrinks with the window is none. */
TEST_IN(route__own_queue, setup, NULL)
{
	turns(20);
	w.window *= 1.15;
	turns(10);
	assert_int_equal(w.detour_ns, 0);
}

/* What leaves is spread over the round trip, but for a burst. */
TEST_IN(pace__spreads, setup, NULL)
{
	uint64_t now = UCCL_NS_PER_S, at = now;
	double sent = 0;

	turns(20);
	while (at - now < (uint64_t)way.base_ns) {
		at = uccl_max(uccl_long_way_pace(&w, 63000, at), at);
		sent += 63000;
	}
	assert_true(fabs(sent - w.window) < 0.1 * w.window);
	/* After a pause a burst leaves at once, not what a pause would have carried. */
	now = at + UCCL_NS_PER_S;
	for (sent = 0; uccl_long_way_pace(&w, 63000, now) <= now; sent += 63000)
		;
	assert_true(sent <= 5 * 63000);
}

/* Whatever leaves beyond the window: the next packet waits no longer than a round trip. */
TEST_IN(pace__no_long_debt, setup, NULL)
{
	uint64_t now = UCCL_NS_PER_S;

	for (int i = 0; i < 100; i++)
		assert_in_range(uccl_long_way_pace(&w, 63000, now), now, now + (uint64_t)way.base_ns);
	turns(20);
	assert_true(w.window > 1e6);
	now += (uint64_t)way.base_ns;
	assert_int_equal(uccl_long_way_pace(&w, 63000, now), now);
	/* A window that shrank, too. */
	for (int i = 0; i < 100; i++)
		uccl_long_way_pace(&w, 63000, now);
	for (int i = 0; i < 40; i++)
		uccl_long_way_lost(&w, CHUNK, true);
	assert_int_equal(w.window, CHUNK);
	assert_in_range(uccl_long_way_pace(&w, 63000, now), now, now + (uint64_t)way.base_ns);
}

/* The queue is emptied when nothing is heard any more: some of the window remains. */
TEST_IN(drain__silence, setup, NULL)
{
	turns(20);
	w.less = w.window / 4;
	for (int i = 0; i < 4; i++)
		uccl_long_way_lost(&w, CHUNK, true);
	assert_true(uccl_long_way_window(&w) >= CHUNK && uccl_long_way_window(&w) <= w.window);
}

TESTS_MAIN
