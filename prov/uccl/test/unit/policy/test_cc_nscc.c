/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "policy/policies.h"

#include <math.h>
#include <stdint.h>
#include <string.h>
#include "../tests.h"

#include "base/units.h"

#define CHUNK 32768
#define US UCCL_NS_PER_US
#define MSS 4096.0
/* 400 Gb/s and 12 us: 600,000 bytes, four times the reference. */
#define BDP 600000.0
/* The first window, 1.5 of that and 8 chunks; and the largest, with 20. */
#define WINDOW (1.5 * BDP + 8.0 * CHUNK)
#define WINDOW_MAX (1.5 * BDP + 20.0 * CHUNK)
/* A base round trip, and 8 chunks at 400 Gb/s: ns. */
#define TARGET (12000 + 8 * CHUNK / 50.0)

static const struct uccl_policy_cfg cfg = {
	.chunk_bytes = CHUNK,
	.window_max = 1u << 30,
	.link_bps = 400000000000ull,
	.delay_ns = 12 * US,
};

static uint64_t cc[UCCL_CC_STATE / 8];
static uint64_t now;

static void near(double want)
{
	double got = (double)uccl_cc_nscc.window(cc);

	if (fabs(got - want) > 1e-5 * want + 2)
		fail_msg("%.1f instead of %.1f", got, want);
}

static void ack(uint64_t bytes, uint64_t delay_ns)
{
	const struct uccl_ack_info info = {.bytes = bytes, .rtt_ns = 12 * US + delay_ns};

	uccl_cc_nscc.on_ack(cc, &info, now);
}

static void lose(enum uccl_loss_kind kind)
{
	const struct uccl_loss_info loss = {.kind = kind, .bytes = CHUNK};

	uccl_cc_nscc.on_loss(cc, &loss, now);
}

static int setup(void **state)
{
	now = 1000 * US;
	uccl_cc_nscc.init(cc, &cfg, now);
	return 0;
}

TEST_IN(init__window, setup, NULL)
{
	struct uccl_policy_cfg small = cfg;

	near(WINDOW);
	small.window_max = 100000;
	uccl_cc_nscc.init(cc, &small, now);
	near(100000);
	/* A chunk larger than the network. */
	small = cfg;
	small.link_bps = 1000000000ull;
	uccl_cc_nscc.init(cc, &small, now);
	near(1.5 * 1500 + 8 * CHUNK);
	small.delay_ns = small.link_bps = 0;
	uccl_cc_nscc.init(cc, &small, now);
	near(1.5 * 15000 + 8 * CHUNK);
}

/* Room is counted in what leaves at once on one path: of packets of 4 KiB a train. */
TEST_IN(init__bursts, setup, NULL)
{
	struct uccl_policy_cfg packets = cfg;

	packets.chunk_bytes = 4096;
	uccl_cc_nscc.init(cc, &packets, now);
	near(1.5 * BDP + 8 * 4096);
	packets.burst_bytes = CHUNK;
	uccl_cc_nscc.init(cc, &packets, now);
	near(WINDOW);
	/* A packet at a time can be held all the same. */
	for (int i = 0; i < 30; i++)
		lose(UCCL_LOSS_RTO);
	near(MSS);
	assert_int_equal(uccl_cc_nscc.pace(cc, 4096, 20 * US, now), now);
}

/* alpha (target - delay) per byte: 4 mss a b / target, with a 4, and b target / 12 us. */
TEST_IN(on_ack__proportional, setup, NULL)
{
	double w = WINDOW / 2, alpha = 4 * MSS * 4 / 12000;

	lose(UCCL_LOSS_RTO);
	near(w);
	now += US;
	ack(CHUNK, 6000);
	w += CHUNK * alpha * (TARGET - 6000) / w;
	near(w);
	/* A smaller one waits until eight packets are together. */
	ack(CHUNK / 2, 3000);
	near(w);
	ack(CHUNK / 2, 9000);
	w += (CHUNK / 2 * alpha * (TARGET - 3000) + CHUNK / 2 * alpha * (TARGET - 9000)) / w;
	near(w);
}

/* At the target, but not on average: 5 packets, times 4, per window; and a little more each round trip. */
TEST_IN(on_ack__fair, setup, NULL)
{
	double w = WINDOW / 2;

	lose(UCCL_LOSS_RTO);
	now += US;
	ack(220000, 18000);
	w += 220000 * 5 * MSS * 4 / w;
	near(w);
	now += 12 * US;
	ack(CHUNK, 18000);
	w += CHUNK * 5 * MSS * 4 / w + 0.15 * MSS * 4;
	near(w);
}

/*
 * The least round trip that was seen is the base, however long: four times as far, four times the window and gains. Of
 * the target a quarter of it would be no more than is normal.
 */
TEST_IN(on_ack__far, setup, NULL)
{
	const struct uccl_ack_info info = {.bytes = CHUNK, .rtt_ns = 60 * US, .min_rtt_ns = 48 * US};
	double w = WINDOW, alpha = 4 * MSS * 16 / 12000, target = TARGET;

	now += US;
	uccl_cc_nscc.on_ack(cc, &info, now);
	w += CHUNK * alpha * (target - 12000) / w;
	near(w);
	/* Nothing was seen yet: as configured, so all but 12 us is queue. */
	uccl_cc_nscc.init(cc, &cfg, now);
	now += US;
	for (int i = 0; i < 100; i++)
		ack(CHUNK, 48 * US);
	assert_true(uccl_cc_nscc.window(cc) < WINDOW);
}

/* Farther still: a quarter of the round trip, and the chunks. */
TEST_IN(on_ack__farther, setup, NULL)
{
	const struct uccl_ack_info info = {.bytes = CHUNK, .rtt_ns = 112 * US, .min_rtt_ns = 96 * US};
	double w = WINDOW, alpha = 4 * MSS * 32 / 12000;

	now += US;
	uccl_cc_nscc.on_ack(cc, &info, now);
	near(w + CHUNK * alpha * (24000 + 8 * CHUNK / 50.0 - 16000) / w);
}

/* Nearer than is normal: a smaller window at most, but no smaller target than is normal. */
TEST_IN(on_ack__near, setup, NULL)
{
	struct uccl_ack_info info = {.bytes = CHUNK, .rtt_ns = 18 * US, .min_rtt_ns = 3 * US};
	double max = 1.5 * BDP / 4 + 20 * CHUNK;

	assert_true(WINDOW > max);
	now += US;
	for (int i = 0; i < 100; i++)
		uccl_cc_nscc.on_ack(cc, &info, now);
	near(max);
	info.rtt_ns = (uint64_t)(3000 + TARGET + 4000);
	for (int i = 0; i < 100; i++)
		uccl_cc_nscc.on_ack(cc, &info, now);
	assert_true(uccl_cc_nscc.window(cc) < max);
}

TEST_IN(on_ack__app_limited, setup, NULL)
{
	const struct uccl_ack_info info = {.bytes = CHUNK, .rtt_ns = 15 * US, .app_limited = true};

	lose(UCCL_LOSS_RTO);
	now += US;
	uccl_cc_nscc.on_ack(cc, &info, now);
	near(WINDOW / 2);
}

TEST_IN(on_ack__fast, setup, NULL)
{
	double w;

	lose(UCCL_LOSS_RTO);
	lose(UCCL_LOSS_RTO);
	near(WINDOW / 4);
	now += US;
	/* A whole window without delay, then a quarter, times 4, of all that comes. */
	ack((uint64_t)(WINDOW / 4), 999);
	w = (double)uccl_cc_nscc.window(cc);
	assert_true(w < WINDOW / 2);
	ack(100000, 999);
	near(w + 100000);
	/* The first that waited ends it. */
	ack(1000, 1000);
	near(w + 100000);
}

/*
 * Above the target now and on average: by 0.8 of the relative excess, times the square of what the window is of the
 * largest, once per round trip.
 */
TEST_IN(on_ack__decrease, setup, NULL)
{
	double w = WINDOW, avg = 0, part;

	now += US;
	/* 200 KiB are 50 packets: they weigh 1 - (1 - 0.0125)^50. */
	ack(50 * 4096, 48000);
	avg += (1 - pow(1 - 0.0125, 50)) * (48000 - avg);
	assert_true(avg > TARGET);
	part = w / WINDOW_MAX;
	w *= 1 - 0.8 * part * part * (avg - TARGET) / avg;
	part = w / WINDOW_MAX;
	near(w);
	ack(CHUNK, 48000);
	near(w);
	now += 30 * US;
	for (int i = 0; i < 20; i++)
		ack(50 * 4096, 48000);
	/* Once. */
	assert_true((double)uccl_cc_nscc.window(cc) < w * (1 - 0.8 * part * part * 0.4));
	assert_true((double)uccl_cc_nscc.window(cc) > w * (1 - 0.8 * part * part));
}

/* Round trips of eight chunks with these delays, while the window is full. The window after the last of them. */
static double rounds_of(int n, const uint64_t delay_ns[8])
{
	static uint64_t delivered;

	for (int i = 0; i < n; i++) {
		const uint64_t prior = delivered;

		for (int j = 0; j < 8; j++) {
			delivered += CHUNK;
			now += 10 * US;
			uccl_cc_nscc.on_ack(cc,
					    &(struct uccl_ack_info){
						    .bytes = CHUNK,
						    .rtt_ns = 12 * US + delay_ns[j],
						    .inflight = uccl_cc_nscc.window(cc),
						    .delivered = delivered,
						    .rate = {.prior = prior},
					    },
					    now);
		}
	}
	return (double)uccl_cc_nscc.window(cc);
}

/* With this delay, on one path with another one. */
static double rounds(int n, uint64_t delay_ns, uint64_t one_ns)
{
	uint64_t delays_ns[8];

	for (int j = 0; j < 8; j++)
		delays_ns[j] = j == 3 ? one_ns : delay_ns;
	return rounds_of(n, delays_ns);
}

/* Where all paths are late the window shrinks on and on; where one is not, only until the delay is what it may be. */
TEST_IN(on_ack__decrease_several_queues, setup, NULL)
{
	double one, several;

	one = rounds(200, 40 * US, 40 * US);
	setup(state);
	several = rounds(200, 40 * US, 3 * US);
	assert_true(one < WINDOW_MAX / 3);
	/* The average is 35 us, twice the target: that of seven tenths of the largest window. */
	assert_true(several > 0.6 * WINDOW_MAX && several < 0.8 * WINDOW_MAX);
	/* The target is four times as long at most: an average of 15 targets would let a quarter of the window stay. */
	setup(state);
	assert_true(rounds(200, 300 * US, 3 * US) < 0.22 * WINDOW_MAX);
}

/* A small window grows among several queues that make a large one shrink, so both come to be equal. */
TEST_IN(on_ack__small_grows_several_queues, setup, NULL)
{
	double small, large;

	for (int i = 0; i < 3; i++)
		lose(UCCL_LOSS_RTO);
	small = (double)uccl_cc_nscc.window(cc);
	assert_true(small < WINDOW_MAX / 6);
	small = rounds(400, 40 * US, 3 * US);
	setup(state);
	large = rounds(400, 40 * US, 3 * US);
	assert_true(small > 0.9 * large && small < 1.1 * large);
	/* In a single queue it does not. */
	setup(state);
	for (int i = 0; i < 3; i++)
		lose(UCCL_LOSS_RTO);
	assert_true(rounds(400, 40 * US, 40 * US) < WINDOW_MAX / 5);
}

/*
 * What a small window aims at is late for a large one. That is no reason to take only what arrived: not in the time of
 * a large one, nor before it is several times as late, nor for a few that are lost.
 */
TEST_IN(on_ack__small_adapts_late, setup, NULL)
{
	const struct uccl_loss_info few = {.kind = UCCL_LOSS_RACK, .bytes = 4096, .last_rtt_ns = 20 * US};
	double small;

	for (int late = 0; late < 2; late++) {
		setup(state);
		for (int i = 0; i < 3; i++)
			lose(UCCL_LOSS_RTO);
		/* Of 66 us on average, which is 3.8 targets; all are late for a large window. */
		small = rounds(400, 72 * US, 20 * US);
		assert_true(small > 0.48 * WINDOW_MAX && small < 0.56 * WINDOW_MAX);
		/* Four times that are 262 us. */
		for (int i = 0; i < 2; i++) {
			if (!late)
				uccl_cc_nscc.on_loss(cc, &few, now);
			now += 200 * US;
			uccl_cc_nscc.on_ack(cc,
					    &(struct uccl_ack_info){
						    .bytes = CHUNK,
						    .rtt_ns = 12 * US + (late ? 280 : 220) * US,
						    .inflight = (uint64_t)small,
					    },
					    now);
		}
		if (late)
			near(CHUNK);
		else
			assert_true((double)uccl_cc_nscc.window(cc) > small / 2);
	}
}

/* In one queue, whose samples have as much more as a host delays them; of that `mean_ns` on average. */
static double jitter(int n, uint64_t queue_ns, double mean_ns)
{
	/* The middles of the eighths of an exponential distribution. */
	static const double of_mean[] = {0.575, 0.065, 2.77, 0.208, 1.16, 0.375, 1.67, 0.827};
	uint64_t delays_ns[8];

	for (int j = 0; j < 8; j++)
		delays_ns[j] = queue_ns + (uint64_t)(of_mean[j] * mean_ns);
	return rounds_of(n, delays_ns);
}

/* What a host adds to the delay is no queue that a smaller window makes shorter. */
TEST_IN(on_ack__jitter_alone, setup, NULL)
{
	assert_true(rounds(100, 0, 0) > 0.99 * WINDOW_MAX);
	/* The average is 1.15 targets, and the least delay 0.08. */
	assert_true(jitter(200, 0, 1.2 * TARGET) > 0.99 * WINDOW_MAX);
	/* Where the least of them waits, too, there may be a queue. */
	assert_true(jitter(200, (uint64_t)TARGET / 4, 1.2 * TARGET) < 0.9 * WINDOW_MAX);
}

/* Nor does it make several queues of one, where a small window would grow more quickly. */
TEST_IN(on_ack__jitter_one_queue, setup, NULL)
{
	const uint64_t mean = (uint64_t)(0.69 * TARGET);
	double w[2], before;

	for (int jitters = 0; jitters < 2; jitters++) {
		setup(state);
		for (int late = 0; late < 2; late++) {
			for (int i = 0; i < 3; i++)
				lose(UCCL_LOSS_RTO);
			before = (double)uccl_cc_nscc.window(cc);
			w[jitters] = jitters ? jitter(4, (uint64_t)TARGET / 2, 0.2 * TARGET) : rounds(4, mean, mean);
			w[jitters] -= before;
		}
	}
	assert_true(w[1] < 1.2 * w[0]);
}

/* So much is in flight when a round trip begins, of which two pieces arrive; the rest may be lost. */
static void little_arrives(uint64_t inflight, bool lost)
{
	const struct uccl_ack_info begin = {.bytes = CHUNK, .rtt_ns = 17 * US, .inflight = inflight};

	now += 13 * US;
	uccl_cc_nscc.on_ack(cc, &begin, now);
	now += US;
	ack(30000, 5000);
	if (lost)
		lose(UCCL_LOSS_RACK);
	now += (uint64_t)(12000 + TARGET);
	ack(20000, 5000);
}

/* Next to nothing arrived of what was under way, and something was lost: the window is what arrived. */
TEST_IN(on_ack__quick_adapt, setup, NULL)
{
	little_arrives((uint64_t)(WINDOW_MAX / 8), true);
	near(50000);
}

TEST_IN(on_ack__no_quick_adapt, setup, NULL)
{
	double w = WINDOW;

	/* Nothing lost, little delay. */
	little_arrives((uint64_t)(WINDOW_MAX / 8), false);
	assert_true((double)uccl_cc_nscc.window(cc) >= w - 1);
	/* Lost, but more than an eighth arrived. */
	ack(220000, 5000);
	little_arrives((uint64_t)(WINDOW_MAX / 8), false);
	ack(220000, 5000);
	lose(UCCL_LOSS_RACK);
	now += 30 * US;
	ack(20000, 5000);
	assert_true((double)uccl_cc_nscc.window(cc) >= w - 1);
	/* Lost, and little arrived, but there had been little to send: a wait for credit, say. */
	setup(state);
	little_arrives((uint64_t)(WINDOW_MAX / 8) - 1, true);
	assert_true((double)uccl_cc_nscc.window(cc) >= w - 1);
	/* Nor is anything known of what was under way before the first round trip. */
	setup(state);
	lose(UCCL_LOSS_RACK);
	now += 13 * US;
	ack(20000, 5000);
	assert_true((double)uccl_cc_nscc.window(cc) >= w - 1);
}

/* A few are lost on one path, and others have no queue. */
TEST_IN(on_ack__quick_adapt_one_path, setup, NULL)
{
	const struct uccl_loss_info few = {.kind = UCCL_LOSS_RACK, .bytes = 4096, .last_rtt_ns = 20 * US};
	const struct uccl_ack_info begin = {.bytes = CHUNK, .rtt_ns = 17 * US,
					    .inflight = (uint64_t)(WINDOW_MAX / 8)};
	double w = WINDOW;

	for (int all = 0; all < 2; all++) {
		setup(state);
		now += 13 * US;
		uccl_cc_nscc.on_ack(cc, &begin, now);
		now += US;
		/* `all`: every path has a queue. */
		ack(30000, all ? (uint64_t)(2 * TARGET) : 5000);
		uccl_cc_nscc.on_loss(cc, &few, now);
		now += (uint64_t)(12000 + TARGET);
		ack(20000, all ? (uint64_t)(2 * TARGET) : 5000);
		if (all)
			assert_true((double)uccl_cc_nscc.window(cc) < w / 2);
		else
			assert_true((double)uccl_cc_nscc.window(cc) >= w - 1);
	}
}

TEST_IN(window__bounds, setup, NULL)
{
	for (int i = 0; i < 30; i++)
		lose(UCCL_LOSS_RTO);
	near(MSS);
	assert_int_equal(uccl_cc_nscc.pace(cc, CHUNK, 20 * US, now) - now, 20 * US * CHUNK / 4096);
	for (int i = 0; i < 100000; i++) {
		now += US;
		ack(50000, 0);
	}
	near(WINDOW_MAX);
	assert_int_equal(uccl_cc_nscc.pace(cc, CHUNK, 20 * US, now), now);
}

static void ack_marked(uint64_t bytes, uint64_t marked, uint64_t delay_ns)
{
	const struct uccl_ack_info info = {.bytes = bytes, .marked = marked, .rtt_ns = 12 * US + delay_ns};

	uccl_cc_nscc.on_ack(cc, &info, now);
}

/*
 * The four cases: marks below the target leave the window as it is; above it unmarked bytes make it grow, marked ones
 * shrink, once the average is above it, too.
 */
TEST_IN(on_ack__marks, setup, NULL)
{
	double before;

	now += US;
	ack_marked(50 * 4096, 50 * 4096, 1000);
	near(WINDOW);
	/* Half of it is marked: the other half counts. */
	ack(8 * 4096, 1000);
	before = (double)uccl_cc_nscc.window(cc) - WINDOW;
	assert_true(before > 100);
	setup(state);
	now += US;
	ack_marked(8 * 4096, 4 * 4096, 1000);
	near(WINDOW + before / 2);
	/* Far above the target without a mark: it grows, as the network would have marked what is too much. */
	before = (double)uccl_cc_nscc.window(cc);
	for (int i = 0; i < 4; i++)
		ack(50 * 4096, 48000);
	assert_true((double)uccl_cc_nscc.window(cc) > before);
	before = (double)uccl_cc_nscc.window(cc);
	ack_marked(50 * 4096, 1, 48000);
	assert_true((double)uccl_cc_nscc.window(cc) < before);
}

/* Where no mark has come for long the delay alone decides. */
TEST_IN(on_ack__marks_end, setup, NULL)
{
	double before;

	now += US;
	ack_marked(4096, 4096, 0);
	/* 32 round trips, each with queues of the target. */
	now += (uint64_t)(32 * (12000 + TARGET)) - 1;
	ack(50 * 4096, 48000);
	before = (double)uccl_cc_nscc.window(cc);
	ack(50 * 4096, 48000);
	assert_true((double)uccl_cc_nscc.window(cc) >= before);
	now += 2;
	ack(50 * 4096, 48000);
	assert_true((double)uccl_cc_nscc.window(cc) < before);
}

/* A round trip of a flow that gets a hundredth of the link, whose window waits in queues, or not. */
static void ack_round(uint64_t *delivered, uint64_t percent, uint64_t delay_ns)
{
	const uint64_t bytes = 6000 * percent; /* of 600,000 */

	for (int i = 1; i <= 4; i++) {
		const struct uccl_ack_info info = {
			.bytes = bytes / 4,
			.rtt_ns = 12 * US + delay_ns,
			.delivered = *delivered + (uint64_t)i * bytes / 4,
			.rate = {.prior = *delivered, .bytes = (uint64_t)i * bytes / 4, .ns = 12 * US},
		};

		now += 3 * US;
		uccl_cc_nscc.on_ack(cc, &info, now);
	}
	*delivered += bytes;
}

/* The link is not the flow's: the network delivers less, and the window follows. */
TEST_IN(on_ack__rate, setup, NULL)
{
	const double least = 20.0 * CHUNK;
	uint64_t delivered = 0;

	/* Without queues it says only that the flow has little to send. */
	for (int i = 0; i < 100; i++)
		ack_round(&delivered, 1, 0);
	assert_true((double)uccl_cc_nscc.window(cc) >= WINDOW);
	for (int i = 0; i < 8; i++)
		ack_round(&delivered, 1, 100 * US);
	assert_in_range(uccl_cc_nscc.window(cc), 1, (uint64_t)(least + 1.5 * BDP / 50 + 1));
	/* More comes through: twice that may be had, until it was not seen for sixteen round trips with queues. */
	ack_round(&delivered, 10, 0);
	ack_round(&delivered, 10, 0);
	for (int i = 0; i < 20000; i++)
		ack_round(&delivered, 1, 0);
	near(least + 1.5 * BDP / 5);
	for (int i = 0; i < 17; i++)
		ack_round(&delivered, 1, 100 * US);
	for (int i = 0; i < 20000; i++)
		ack_round(&delivered, 1, 0);
	near(least + 1.5 * BDP / 50);
}

/* A round trip in which so many chunks arrive and so many are lost, without queues. */
static void lossy_round(uint64_t *delivered, int chunks, int lost)
{
	const struct uccl_ack_info info = {
		.bytes = (uint64_t)chunks * CHUNK,
		.rtt_ns = 12 * US,
		.inflight = (uint64_t)WINDOW_MAX,
		.delivered = *delivered + (uint64_t)chunks * CHUNK,
		.rate = {.prior = *delivered, .bytes = (uint64_t)chunks * CHUNK, .ns = 12 * US},
	};

	for (int i = 0; i < lost; i++)
		lose(UCCL_LOSS_RACK);
	now += (uint64_t)(12000 + TARGET);
	uccl_cc_nscc.on_ack(cc, &info, now);
	*delivered += (uint64_t)chunks * CHUNK;
}

/* With one constant of another value. */
static void init_with(const char *name, double value)
{
	const struct uccl_constant *c = uccl_policy_constants(UCCL_POLICY_CC, "nscc");
	struct uccl_policy_cfg with = cfg;
	static double k[UCCL_CONSTANTS_MAX];

	for (int i = 0; c[i].name; i++)
		k[i] = strcmp(c[i].name, name) ? c[i].def : value;
	with.params = k;
	uccl_cc_nscc.init(cc, &with, now);
}

/* A queue that overflows before it delays: the window is what arrives, though no less than half, and grows slowly. */
TEST_IN(on_ack__overflow, setup, NULL)
{
	uint64_t delivered = 0;
	double w;

	init_with("loss_share", 0.15);
	for (int i = 0; i < 20; i++)
		lossy_round(&delivered, 100, 0);
	near(WINDOW_MAX);
	/* One of many, or one of a few, says nothing. */
	lossy_round(&delivered, 100, 2);
	near(WINDOW_MAX);
	lossy_round(&delivered, 10, 1);
	near(WINDOW_MAX);
	lossy_round(&delivered, 20, 4);
	near(WINDOW_MAX / 2);
	lossy_round(&delivered, 20, 4);
	near(20 * CHUNK);
	/* Five packets a window, times 4, and a little each round trip, for 32 of them; then without queues by much. */
	w = 20 * CHUNK;
	for (int i = 0; i < 31; i++) {
		lossy_round(&delivered, 2, 0);
		w += 2 * CHUNK * 5 * MSS * 4 / w + 0.15 * MSS * 4;
		/* As long as it is remembered that the network carries more. */
		if (i < 8)
			near(w);
		assert_true((double)uccl_cc_nscc.window(cc) < w + 2);
	}
	for (int i = 0; i < 20; i++)
		lossy_round(&delivered, 20, 0);
	near(WINDOW_MAX);
}

/* Room for chunks that wait grows while a path has no queue, and falls again where all have one. */
TEST_IN(on_ack__room, setup, NULL)
{
	uint64_t delivered = 0;

	init_with("start", 4);
	near(1.5 * BDP + 4 * CHUNK);
	for (int i = 1; i <= 20; i++) {
		lossy_round(&delivered, 100, 0);
		near(1.5 * BDP + fmin(4 + i, 20) * CHUNK);
	}
	/* All paths have a queue longer than half of the target. */
	for (int i = 0; i < 30; i++)
		ack_round(&delivered, 100, (uint64_t)(0.55 * TARGET));
	near(1.5 * BDP + 4 * CHUNK);
	/* Longer than a quarter: it stays as it is. */
	for (int i = 0; i < 30; i++)
		ack_round(&delivered, 100, (uint64_t)(0.3 * TARGET));
	near(1.5 * BDP + 4 * CHUNK);
}

/* Of a NIC whose normal round trip is 500 us: is the target of the queueing delay shorter than this delay? */
static bool target_below(uint64_t min_rtt_ns, uint64_t delay_ns)
{
	struct uccl_policy_cfg host = cfg;
	struct uccl_ack_info info = {.bytes = 4096, .rtt_ns = min_rtt_ns, .min_rtt_ns = min_rtt_ns};
	uint64_t before;

	host.delay_ns = 500 * US;
	uccl_cc_nscc.init(cc, &host, now);
	uccl_cc_nscc.on_ack(cc, &info, now);
	info.rtt_ns += delay_ns;
	for (int i = 0; i < 1000; i++) {
		info.delivered += 4096;
		info.rate.prior = info.delivered;
		before = uccl_cc_nscc.window(cc);
		now += US;
		uccl_cc_nscc.on_ack(cc, &info, now);
		if (uccl_cc_nscc.window(cc) < before)
			return true;
	}
	return false;
}

/* The normal round trip counts as far as 600,000 bytes take on the link; on long ways all of it does. */
TEST_IN(target__normal_bytes, setup, NULL)
{
	/* 12 us of bytes and 8 chunks: 17 us. */
	assert_true(target_below(12 * US, 20 * US));
	assert_false(target_below(12 * US, 16 * US));
	/* 500 us and 8 chunks. */
	assert_false(target_below(60 * US, 400 * US));
	assert_true(target_below(60 * US, 520 * US));
}

/* A NIC that takes all, on a network that carries little: nothing is known before something has come. */
TEST_IN(window__blind, setup, NULL)
{
	const struct uccl_policy_cfg far = {
		.chunk_bytes = 4096,
		.window_max = 1u << 30,
		.link_bps = 10000000000ull,
		.delay_ns = 50 * UCCL_NS_PER_MS,
	};
	struct uccl_policy_cfg fast = far;

	uccl_cc_nscc.init(cc, &far, now);
	assert_int_equal(uccl_cc_nscc.window(cc), 64 * 4096);
	/* What has come makes room for itself and as much again. */
	for (int i = 1; i <= 4; i++) {
		ack(65536, 0);
		assert_int_equal(uccl_cc_nscc.window(cc), 64 * 4096 + i * 65536);
	}
	/* However long what leaves at once is. */
	fast.burst_bytes = 65536;
	uccl_cc_nscc.init(cc, &fast, now);
	assert_int_equal(uccl_cc_nscc.window(cc), 64 * 4096);
	/* The link carries more than so many chunks in 61.25 us: 70 us, less by as much as 80 us are longer. */
	fast.link_bps = 60000000000ull;
	fast.delay_ns = 500 * US;
	uccl_cc_nscc.init(cc, &fast, now);
	near(60e9 / 8 * 61.25e-6);
}

/* Of many flows that share, each may have two chunks: one is filled while another is on its way. */
TEST_IN(share__two_bursts, setup, NULL)
{
	struct uccl_policy_cfg slow = cfg;

	slow.link_bps = 1000000000ull;
	uccl_cc_nscc.init(cc, &slow, now);
	uccl_cc_nscc.share(cc, 64);
	for (int i = 0; i < 1000; i++, now += 12 * US)
		ack(CHUNK, 0);
	near(2.0 * CHUNK);
}

/* The first message on a long way is short: the next one may fill some packets at once, and nothing waits for long. */
TEST_IN(far__short_first, setup, NULL)
{
	static const struct uccl_policy_cfg soft = {
		.chunk_bytes = 1408,
		.burst_bytes = 63360,
		.window_max = 1u << 30,
		.link_bps = 10000000000ull,
		.delay_ns = 100 * US,
	};
	static const uint64_t first[] = {0, 1, 8, 64, 1408};
	const uint64_t rtt = 50 * UCCL_NS_PER_MS;

	for (size_t i = 0; i < sizeof(first) / sizeof(*first); i++) {
		struct uccl_ack_info info = {.bytes = first[i], .rtt_ns = rtt, .min_rtt_ns = rtt,
					     .app_limited = true};

		uccl_cc_nscc.init(cc, &soft, now);
		uccl_cc_nscc.on_ack(cc, &info, now);
		assert_true(uccl_cc_nscc.window(cc) >= 10ull * 1408);
		for (int k = 0; k < 64; k++)
			assert_in_range(uccl_cc_nscc.pace(cc, 1408, rtt, now), now, now + rtt);
	}
}

/* The way becomes short again: nothing that was in flight long ago is missed. */
TEST_IN(far__ends, setup, NULL)
{
	struct uccl_ack_info info = {.bytes = CHUNK, .rtt_ns = 12 * US, .min_rtt_ns = 12 * US, .inflight = 1u << 20};
	uint64_t window;

	now += 100 * US;
	uccl_cc_nscc.on_ack(cc, &info, now);
	info.rtt_ns = info.min_rtt_ns = 50 * UCCL_NS_PER_MS;
	now += info.rtt_ns;
	uccl_cc_nscc.on_ack(cc, &info, now);
	window = uccl_cc_nscc.window(cc);
	info.min_rtt_ns = 12 * US;
	now += info.rtt_ns;
	uccl_cc_nscc.on_ack(cc, &info, now);
	assert_true(uccl_cc_nscc.window(cc) >= window / 2);
}

TESTS_MAIN
