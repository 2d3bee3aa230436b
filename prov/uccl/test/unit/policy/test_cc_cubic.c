/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "policy/policies.h"

#include "../tests.h"

#include <math.h>

#include "base/units.h"

#define CHUNK 1000
#define MS UCCL_NS_PER_MS

static const struct uccl_policy_cfg cfg = {.chunk_bytes = CHUNK, .window_max = 100000 * CHUNK};
static uint64_t cc[UCCL_CC_STATE / 8];
static uint64_t now;

/* In chunks. */
static double window(void)
{
	return (double)uccl_cc_cubic.window(cc) / CHUNK;
}

static void ack(double chunks, uint64_t srtt_ns)
{
	const struct uccl_ack_info info = {
		.bytes = (uint64_t)(chunks * CHUNK),
		.rtt_ns = srtt_ns,
		.srtt_ns = srtt_ns,
	};

	uccl_cc_cubic.on_ack(cc, &info, now);
}

static void lose(enum uccl_loss_kind kind, uint64_t srtt_ns)
{
	const struct uccl_loss_info info = {.kind = kind, .bytes = CHUNK, .srtt_ns = srtt_ns};

	uccl_cc_cubic.on_loss(cc, &info, now);
}

/* One RTT, in which the whole window is acknowledged, chunk by chunk. */
static void round_trip(uint64_t srtt_ns)
{
	uint64_t n = (uint64_t)window(), end = now + srtt_ns;

	for (uint64_t i = 0; i < n; i++) {
		now += srtt_ns / n;
		ack(1, srtt_ns);
	}
	now = end;
}

/* Start, and slow start up to this many chunks. */
static void start(double chunks)
{
	now = 1000 * MS;
	uccl_cc_cubic.init(cc, &cfg, now);
	ack(chunks - window(), 1);
	assert_true(window() == chunks);
}

#define assert_near(got, want, by) assert_true(fabs((double)(got) - (double)(want)) <= (by))

TEST(init__window)
{
	struct uccl_policy_cfg small = cfg;

	uccl_cc_cubic.init(cc, &cfg, 0);
	assert_near(window(), 10, 0);
	small.window_max = 3 * CHUNK;
	uccl_cc_cubic.init(cc, &small, 0);
	assert_near(window(), 3, 0);
}

TEST(on_ack__slow_start)
{
	start(10);
	for (int i = 1; i <= 6; i++) {
		round_trip(MS);
		assert_near(window(), 10 << i, 0);
	}
}

TEST(on_ack__slow_start_ends_at_the_threshold)
{
	start(100);
	now += 10 * MS;
	lose(UCCL_LOSS_RTO, MS);
	now += 10 * MS;
	ack(60, MS);
	ack(60, MS);
	assert_near(window(), 70, 0);
	ack(7, MS);
	assert_true(window() < 71);
}

/* From 700 of 1000, with an RTT of 100 ms: W(t) = 0.4 (t - K)^3 + 1000, K = cbrt(300 / 0.4) = 9.09 s. */
TEST(on_ack__closed_form)
{
	const double k = cbrt(1000 * (1 - 0.7) / 0.4);
	uint64_t epoch;

	start(1000);
	now += 100 * MS;
	lose(UCCL_LOSS_PROOF, 100 * MS);
	assert_near(window(), 700, 0.001);
	epoch = now;
	for (int i = 1; i <= 180; i++) {
		double t;

		round_trip(100 * MS);
		t = (double)(now - epoch) / (double)UCCL_NS_PER_S;
		/* One RTT is the slack: the RFC's window follows the curve by that much. */
		assert_true(window() >= 0.4 * pow(t - 0.1 - k, 3) + 1000 - 1);
		assert_true(window() <= 0.4 * pow(t + 0.1 - k, 3) + 1000 + 1);
	}
	/* Both sides of the plateau were seen. */
	assert_true(window() > 1200);
}

/* Short RTTs: Reno's 3 (1 - 0.7) / (1 + 0.7) chunks per RTT up to the old window, then one. */
TEST(on_ack__reno_friendly)
{
	const double alpha = 3 * 0.3 / 1.7;
	double at;

	start(100);
	now += MS;
	lose(UCCL_LOSS_RACK, MS);
	for (int i = 1; i <= 55; i++) {
		round_trip(MS);
		assert_near(window(), 70 + alpha * i, 1);
	}
	for (int i = 0; i < 20; i++)
		round_trip(MS);
	at = window();
	for (int i = 0; i < 20; i++)
		round_trip(MS);
	assert_near(window() - at, 20, 0.5);
}

TEST(on_ack__growth_bounded)
{
	start(100);
	now += 10000 * MS;
	lose(UCCL_LOSS_PROOF, 10000 * MS);
	/* Ten seconds ahead the curve is far above; a whole window acknowledged at once may add half of itself. */
	ack(1, 10000 * MS);
	now += 10000 * MS;
	for (int i = 0; i < 3; i++) {
		double before = window();

		now += 10000 * MS;
		ack(before, 10000 * MS);
		assert_near(window(), before * 1.5, 1);
	}
}

TEST(on_ack__ceiling)
{
	struct uccl_policy_cfg small = cfg;

	small.window_max = 20 * CHUNK;
	now = 0;
	uccl_cc_cubic.init(cc, &small, now);
	ack(50, MS);
	assert_near(window(), 20, 0);
	now += MS;
	lose(UCCL_LOSS_PROOF, MS);
	assert_near(window(), 14, 0.001);
	for (int i = 0; i < 100; i++)
		round_trip(MS);
	assert_near(window(), 20, 0);
	/* The time at the ceiling left nothing behind that a loss would not cut. */
	lose(UCCL_LOSS_PROOF, MS);
	assert_near(window(), 14, 0.001);
}

TEST(on_ack__app_limited)
{
	const struct uccl_ack_info limited = {.bytes = CHUNK, .srtt_ns = 100 * MS, .app_limited = true};
	double before;

	start(1000);
	uccl_cc_cubic.on_ack(cc, &limited, now);
	assert_near(window(), 1000, 0);
	now += 100 * MS;
	lose(UCCL_LOSS_PROOF, 100 * MS);
	round_trip(100 * MS);
	before = window();
	/* 20 seconds in which the curve would pass the plateau. */
	for (int i = 0; i < 200; i++) {
		now += 100 * MS;
		uccl_cc_cubic.on_ack(cc, &limited, now);
	}
	assert_near(window(), before, 0);
	round_trip(100 * MS);
	assert_true(window() < before + 12);
}

TEST(on_ack__idle)
{
	double before;

	start(1000);
	now += 100 * MS;
	lose(UCCL_LOSS_PROOF, 100 * MS);
	round_trip(100 * MS);
	before = window();
	now += 100000 * MS;
	round_trip(100 * MS);
	/* Three RTTs of the curve, not a hundred seconds. */
	assert_true(window() < before + 40);
}

TEST(on_ack__ecn)
{
	const struct uccl_ack_info marked = {.bytes = CHUNK, .srtt_ns = 10 * MS, .marked = CHUNK};

	start(100);
	now += 10 * MS;
	uccl_cc_cubic.on_ack(cc, &marked, now);
	/* RFC 8511: less than for a loss. */
	assert_near(window(), 85, 0.001);
	uccl_cc_cubic.on_ack(cc, &marked, now + 9 * MS);
	assert_near(window(), 85, 0.001);
	uccl_cc_cubic.on_ack(cc, &marked, now + 10 * MS);
	assert_near(window(), 72.25, 0.001);
}

TEST(on_loss__once_per_rtt)
{
	start(100);
	for (int i = 0; i < 10; i++, now += MS)
		lose(i % 2 ? UCCL_LOSS_PROOF : UCCL_LOSS_RACK, 10 * MS);
	assert_near(window(), 70, 0.001);
	lose(UCCL_LOSS_PROOF, 10 * MS);
	assert_near(window(), 49, 0.001);
}

TEST(on_loss__floor)
{
	start(10);
	for (int i = 0; i < 20; i++, now += 10 * MS)
		lose(UCCL_LOSS_PROOF, 10 * MS);
	assert_near(window(), 2, 0.001);
	/* The window that a time-out left is not raised by a loss. */
	lose(UCCL_LOSS_RTO, 10 * MS);
	now += 10 * MS;
	lose(UCCL_LOSS_PROOF, 10 * MS);
	assert_near(window(), 1, 0);
}

/*
 * Two reductions without getting back between: the plateau is 0.85 of 700, not 700. At 490 of 595,
 * K = cbrt(105 / 0.4) = 6.40 s, and the window is flat about then.
 */
TEST(on_loss__fast_convergence)
{
	start(1000);
	now += 100 * MS;
	lose(UCCL_LOSS_PROOF, 100 * MS);
	now += 100 * MS;
	lose(UCCL_LOSS_PROOF, 100 * MS);
	assert_near(window(), 490, 0.001);
	for (int i = 0; i < 64; i++)
		round_trip(100 * MS);
	assert_near(window(), 595, 2);
}

TEST(on_loss__timeout)
{
	start(100);
	now += 10 * MS;
	lose(UCCL_LOSS_RTO, MS);
	assert_near(window(), 1, 0);
	/* Time-outs that follow do not shrink the threshold. */
	now += 10 * MS;
	lose(UCCL_LOSS_RTO, MS);
	now += 20 * MS;
	lose(UCCL_LOSS_RTO, MS);
	assert_near(window(), 1, 0);
	for (int i = 0; i < 6; i++)
		round_trip(MS);
	assert_near(window(), 64, 0);
	round_trip(MS);
	assert_near(window(), 70, 1);
	/* The plateau is at the threshold: nearly flat until Reno takes over. */
	for (int i = 0; i < 10; i++)
		round_trip(MS);
	assert_near(window(), 70 + 11 * 3 * 0.3 / 1.7, 1);
}

TESTS_MAIN
