/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "policy/policies.h"

#include <math.h>
#include "../tests.h"

#include "base/units.h"

#define CHUNK 32768
#define US UCCL_NS_PER_US

/* 400 Gb/s are 50 bytes a ns; thresholds 35 and 350 us; increase 0.5, least 0.1 bytes a ns. */
static const struct uccl_policy_cfg cfg = {
	.chunk_bytes = CHUNK,
	.window_max = 1u << 30,
	.link_bps = 400000000000ull,
	.delay_ns = 12 * US,
};

static uint64_t cc[UCCL_CC_STATE / 8];
static uint64_t now;

/* The rate in bytes per ns, as the window shows it. */
static double rate(void)
{
	return (double)uccl_cc_timely.window(cc) / 350000;
}

static void near(double got, double want)
{
	if (fabs(got - want) > 1e-4 * want + 2.0 / 350000)
		fail_msg("%.6f instead of %.6f", got, want);
}

static void ack(uint64_t rtt_ns)
{
	const struct uccl_ack_info info = {.bytes = CHUNK, .rtt_ns = rtt_ns};

	uccl_cc_timely.on_ack(cc, &info, now);
}

static void timeout(void)
{
	const struct uccl_loss_info loss = {.kind = UCCL_LOSS_RTO, .bytes = CHUNK};

	uccl_cc_timely.on_loss(cc, &loss, now);
}

static int setup(void **state)
{
	now = 1000 * US;
	uccl_cc_timely.init(cc, &cfg, now);
	return 0;
}

TEST_IN(init__line_rate, setup, NULL)
{
	near(rate(), 50);
	assert_int_equal(uccl_cc_timely.pace(cc, CHUNK, 0, now), now);
}

/* At 100 Mb/s a chunk of 64 KiB takes 5.2 ms, far more than 350 us, however empty the network: that slows nobody. */
TEST_IN(init__slow_link, setup, NULL)
{
	struct uccl_policy_cfg slow = cfg;

	slow.link_bps = 100000000;
	slow.chunk_bytes = 65536;
	uccl_cc_timely.init(cc, &slow, now);
	for (int i = 0; i < 1000; i++) {
		now += 5300 * US;
		ack(5300 * US);
	}
	assert_int_equal(uccl_cc_timely.pace(cc, 65536, 0, now), now);
}

TEST_IN(pace__gap, setup, NULL)
{
	timeout();
	near(rate(), 25);
	assert_int_equal(uccl_cc_timely.pace(cc, CHUNK, 0, now) - now, (uint64_t)(CHUNK / 25.0));
}

/* One increase per round trip, five times as much from the fifth on that does not rise. */
TEST_IN(on_ack__below_low, setup, NULL)
{
	double want = 25;

	timeout();
	ack(20 * US);
	for (int i = 1; i <= 8; i++) {
		now += 12 * US;
		ack(20 * US);
		want += 0.5 * (i >= 5 ? 5 : 1);
		near(rate(), want);
	}
	/* A quarter of a round trip is a quarter of the step. */
	now += 3 * US;
	ack(20 * US);
	near(rate(), want + 0.25 * 2.5);
	/* No time has gone by. */
	ack(20 * US);
	near(rate(), want + 0.25 * 2.5);
}

TEST_IN(on_ack__above_high, setup, NULL)
{
	ack(700 * US);
	now += 12 * US;
	ack(700 * US);
	near(rate(), 50 * (1 - 0.8 * 0.5));
}

/* With a steady RTT between the thresholds: half the weight, and a fixed point. */
/* However long nothing was heard, one answer is one round trip's worth. */
TEST_IN(on_ack__after_a_pause, setup, NULL)
{
	timeout();
	ack(20 * US);
	now += 1000 * US;
	ack(20 * US);
	near(rate(), 25.5);
}

TEST_IN(on_ack__between, setup, NULL)
{
	double want = 25, point = 0.5 / (0.008 * (70.0 - 35) / 35);

	timeout();
	ack(70 * US);
	for (int i = 0; i < 10; i++) {
		now += 12 * US;
		ack(70 * US);
		want = want * (1 - 0.008 * 0.5 * (70.0 - 35) / 35) + 0.5 * 0.5;
		near(rate(), want);
	}
	/* At 62.5 bytes a ns, beyond the link, for this one; four times the excess brings it down to a quarter. */
	near(point, 62.5);
	for (int i = 0; i < 20000; i++) {
		now += 12 * US;
		ack(175 * US);
	}
	near(rate(), point / 4);
}

/* A gradient of a quarter and more has the whole weight: nothing is added. */
TEST_IN(on_ack__rising, setup, NULL)
{
	double want = 50, diff = 0;

	ack(40 * US);
	for (int i = 1; i <= 5; i++) {
		double weight;

		now += 12 * US;
		ack((uint64_t)(40 + 40 * i) * US);
		diff += 0.125 * (40000 - diff);
		weight = fmin(1, 2 * diff / 12000 + 0.5);
		want = fmin(50, want * (1 - 0.008 * weight * (5 + 40.0 * i) / 35) + 0.5 * (1 - weight));
		near(rate(), want);
	}
	assert_true(want < 49);
}

TEST_IN(on_loss__time_outs_only, setup, NULL)
{
	const struct uccl_loss_info loss = {.kind = UCCL_LOSS_PROOF, .bytes = CHUNK};

	uccl_cc_timely.on_loss(cc, &loss, now);
	near(rate(), 50);
	for (int i = 0; i < 20; i++)
		timeout();
	near(rate(), 0.1);
	assert_true(uccl_cc_timely.window(cc) >= CHUNK);
}

TESTS_MAIN
