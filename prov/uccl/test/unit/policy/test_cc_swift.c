/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "policy/policies.h"

#include "../tests.h"

#include <math.h>

#include "base/rng.h"
#include "base/units.h"

#define CHUNK 32768
#define CHUNKS(n) ((uint64_t)((n)*CHUNK))
#define US UCCL_NS_PER_US

static const struct uccl_policy_cfg cfg = {
	.chunk_bytes = CHUNK,
	.window_max = 1000 * CHUNK,
	.link_bps = 100000000000ull,
	.delay_ns = 10 * US,
};

/* What cfg comes to: 25 us and a chunk at 100 Gb/s; flow scaling is 5 times that between 100 and 0.1 chunks. */
static const double base_ns = 25000 + 2621.44;

static uint64_t cc[UCCL_CC_STATE / 8];

static double target_ns(double chunks)
{
	return base_ns + fmax(0, 5 * base_ns * (1 / sqrt(chunks) - 0.1) / (1 / sqrt(0.1) - 0.1));
}

static uint64_t window(void)
{
	return uccl_cc_swift.window(cc);
}

static void ack(uint64_t bytes, uint64_t rtt_ns, uint64_t now)
{
	const struct uccl_ack_info info = {
		.bytes = bytes,
		.rtt_ns = rtt_ns,
		.srtt_ns = 20 * US,
		.min_rtt_ns = 10 * US,
	};

	uccl_cc_swift.on_ack(cc, &info, now);
}

static void lose(enum uccl_loss_kind kind, uint64_t bytes, uint64_t last_rtt_ns, uint64_t now)
{
	const struct uccl_loss_info info = {
		.kind = kind,
		.bytes = bytes,
		.srtt_ns = 20 * US,
		.last_rtt_ns = last_rtt_ns,
	};

	uccl_cc_swift.on_loss(cc, &info, now);
}

/* Start, and slow start up to this many chunks. */
static void start(uint64_t chunks)
{
	uccl_cc_swift.init(cc, &cfg, 0);
	ack(CHUNKS(chunks) - window(), 10 * US, 1);
	assert_int_equal(window(), CHUNKS(chunks));
}

/* End slow start without a change of the window: the delay is a hair above the target. */
static void end_slow_start(uint64_t now)
{
	uint64_t before = window();

	ack(0, (uint64_t)target_ns((double)before / CHUNK) + 1, now);
	assert_true(before - window() <= before / 10000);
}

TEST(init__window)
{
	struct uccl_policy_cfg small = cfg;

	uccl_cc_swift.init(cc, &cfg, 0);
	assert_int_equal(window(), CHUNKS(16));
	small.window_max = CHUNKS(3);
	uccl_cc_swift.init(cc, &small, 0);
	assert_int_equal(window(), CHUNKS(3));
}

/* The base follows the configuration: its delay when that is more than 25 us, and an unknown link is one of 10 Gb/s. */
TEST(init__base)
{
	struct uccl_policy_cfg slow = cfg;
	uint64_t target = 80000 + 26214;

	slow.delay_ns = 80 * US;
	slow.link_bps = 0;
	uccl_cc_swift.init(cc, &slow, 0);
	ack(CHUNKS(184), 10 * US, 1);
	ack(CHUNK, target - 1, 2);
	assert_int_equal(window(), CHUNKS(201));
	ack(CHUNK, 2 * target, 100 * US);
	assert_in_range(window(), CHUNKS(201) * 6 / 10 - 10, CHUNKS(201) * 6 / 10 + 10);
}

TEST(pace__only_below_a_chunk)
{
	uint64_t now = 1000 * US;

	start(17);
	assert_int_equal(uccl_cc_swift.pace(cc, CHUNK, 20 * US, now), now);
	/* Cut until half a chunk and less is left. */
	for (; window() >= CHUNK; now += 100 * US)
		ack(CHUNK, 10000 * US, now);
	assert_true(window() < CHUNK);
	assert_in_range(uccl_cc_swift.pace(cc, CHUNK, 20 * US, now) - now, 20 * US * CHUNK / window() - 10,
			20 * US * CHUNK / window() + 10);
	/* Half as many bytes, half as long; no sample yet: the base. */
	assert_in_range(uccl_cc_swift.pace(cc, CHUNK / 2, 20 * US, now) - now, 10 * US * CHUNK / window() - 10,
			10 * US * CHUNK / window() + 10);
	assert_in_range(uccl_cc_swift.pace(cc, CHUNK, 0, now) - now, 25 * US * CHUNK / window() - 10,
			25 * US * CHUNK / window() + 10);
}

/* A smoothed RTT of a second, left behind by a peer that was away, must not stop the flow for ten. */
TEST(pace__bounded)
{
	uint64_t now = 1000 * US;

	start(17);
	for (int i = 0; i < 20; i++, now += 100 * US)
		ack(0, 10000 * US, now);
	assert_int_equal(window(), CHUNK / 10);
	assert_true(uccl_cc_swift.pace(cc, CHUNK, UCCL_NS_PER_S, now) - now < 30 * UCCL_NS_PER_MS);
	assert_true(uccl_cc_swift.pace(cc, CHUNK, UCCL_NS_PER_S, now) - now > 20 * UCCL_NS_PER_MS);
}

TEST(on_ack__slow_start)
{
	uint64_t now = 10 * US;

	uccl_cc_swift.init(cc, &cfg, 0);
	for (int rtt = 1; rtt <= 5; rtt++, now += 10 * US) {
		uint64_t before = window();

		for (uint64_t acked = 0; acked < before; acked += CHUNK)
			ack(CHUNK, 10 * US, now);
		assert_int_equal(window(), 2 * before);
	}
	end_slow_start(now);
	ack(CHUNK, 10 * US, now);
	assert_true(window() < CHUNKS(513));
}

TEST(on_ack__additive_increase)
{
	uint64_t before;

	/* Large windows are where integers would round the increase of one acknowledgement to nothing. */
	start(900);
	end_slow_start(100 * US);
	before = window();
	for (int i = 0; i < 900; i++)
		ack(CHUNK, 10 * US, 200 * US);
	assert_in_range(window() - before, CHUNK * 99 / 100, CHUNK * 101 / 100);
}

TEST(on_ack__additive_increase_below_a_chunk)
{
	uint64_t now = 1000 * US, before;

	start(17);
	for (; window() >= CHUNK / 4; now += 100 * US)
		ack(0, 10000 * US, now);
	before = window();
	ack(1000, 10 * US, now);
	assert_int_equal(window(), before + 1000);
}

TEST(on_ack__ceiling)
{
	start(999);
	ack(CHUNKS(500), 10 * US, 100 * US);
	assert_int_equal(window(), cfg.window_max);
	ack(CHUNKS(500), 10 * US, 101 * US);
	assert_int_equal(window(), cfg.window_max);
}

TEST(on_ack__floor)
{
	uint64_t now = 100 * US;

	start(17);
	for (int i = 0; i < 100; i++, now += 20 * US)
		ack(CHUNK, 10000 * US, now);
	assert_int_equal(window(), CHUNK / 10);
}

TEST(on_ack__target)
{
	static const double chunks[] = {16, 17, 25, 50, 99, 100, 400};

	for (size_t i = 0; i < uccl_array_len(chunks); i++) {
		uint64_t n = (uint64_t)chunks[i], target = (uint64_t)target_ns(chunks[i]);

		start(n);
		ack(CHUNK, target - 1, 100 * US);
		assert_int_equal(window(), CHUNKS(n + 1));
		start(n);
		ack(CHUNK, target + 100, 100 * US);
		assert_true(window() < CHUNKS(n));
		assert_true(window() > CHUNKS(n) * 99 / 100);
	}
}

TEST(on_ack__decrease_in_proportion)
{
	uint64_t target = (uint64_t)base_ns;

	/* 1 - 0.8 x (2T - T) / 2T = 0.6; 1 - 0.8 x 0.2 = 0.84. */
	start(400);
	ack(CHUNK, 2 * target, 100 * US);
	assert_in_range(window(), CHUNKS(239.9), CHUNKS(240.1));
	start(400);
	ack(CHUNK, target * 5 / 4, 100 * US);
	assert_in_range(window(), CHUNKS(335.9), CHUNKS(336.1));
	/* At most half. */
	start(400);
	ack(CHUNK, 50 * target, 100 * US);
	assert_int_equal(window(), CHUNKS(200));
}

TEST(on_ack__decrease_once_per_rtt)
{
	start(400);
	for (uint64_t now = 100 * US; now < 120 * US; now += US)
		ack(CHUNK, 1000 * US, now);
	assert_int_equal(window(), CHUNKS(200));
	for (uint64_t now = 120 * US; now < 140 * US; now += US)
		ack(CHUNK, 1000 * US, now);
	assert_int_equal(window(), CHUNKS(100));
}

/* Without a smoothed RTT the sample itself is the measure of "once". */
TEST(on_ack__decrease_before_srtt)
{
	struct uccl_ack_info info = {.bytes = CHUNK, .rtt_ns = 1000 * US};

	start(400);
	uccl_cc_swift.on_ack(cc, &info, 100 * US);
	uccl_cc_swift.on_ack(cc, &info, 1099 * US);
	assert_int_equal(window(), CHUNKS(200));
	uccl_cc_swift.on_ack(cc, &info, 1100 * US);
	assert_int_equal(window(), CHUNKS(100));
}

TEST(on_ack__without_sample)
{
	start(100);
	ack(CHUNKS(10), 0, 100 * US);
	assert_int_equal(window(), CHUNKS(100));
}

TEST(on_ack__app_limited)
{
	struct uccl_ack_info info = {.bytes = CHUNKS(10), .rtt_ns = 10 * US, .srtt_ns = 10 * US, .app_limited = true};

	start(100);
	uccl_cc_swift.on_ack(cc, &info, 100 * US);
	assert_int_equal(window(), CHUNKS(100));
	end_slow_start(101 * US);
	info.rtt_ns = 10 * US;
	uccl_cc_swift.on_ack(cc, &info, 200 * US);
	assert_in_range(window(), CHUNKS(99.9), CHUNKS(100));
	/* Delay counts all the same. */
	info.rtt_ns = 1000 * US;
	uccl_cc_swift.on_ack(cc, &info, 300 * US);
	assert_in_range(window(), CHUNKS(49.9), CHUNKS(50));
}

/* A path longer than the configuration thinks: its own smallest RTT raises the target, to a quarter above it. */
TEST(on_ack__long_path)
{
	struct uccl_ack_info info = {.bytes = CHUNK, .rtt_ns = 1240 * US, .srtt_ns = 1000 * US};

	info.min_rtt_ns = 1000 * US;
	start(400);
	uccl_cc_swift.on_ack(cc, &info, 100 * US);
	assert_int_equal(window(), CHUNKS(401));
	info.rtt_ns = 1260 * US;
	uccl_cc_swift.on_ack(cc, &info, 2000 * US);
	assert_true(window() < CHUNKS(401));
	/* "No sample yet" is no RTT at all. */
	info.min_rtt_ns = UINT64_MAX;
	info.rtt_ns = 1000000 * US;
	start(400);
	uccl_cc_swift.on_ack(cc, &info, 100 * US);
	assert_int_equal(window(), CHUNKS(200));
}

TEST(on_loss__corruption)
{
	start(400);
	lose(UCCL_LOSS_PROOF, CHUNK, 10 * US, 100 * US);
	lose(UCCL_LOSS_RACK, CHUNK, 10 * US, 200 * US);
	lose(UCCL_LOSS_PROOF, CHUNK, 0, 300 * US);
	assert_int_equal(window(), CHUNKS(400));
	/* And slow start goes on. */
	ack(CHUNKS(10), 10 * US, 400 * US);
	assert_int_equal(window(), CHUNKS(410));
}

TEST(on_loss__congestion)
{
	static const enum uccl_loss_kind kinds[] = {UCCL_LOSS_PROOF, UCCL_LOSS_RACK};

	for (int i = 0; i < 2; i++) {
		start(400);
		lose(kinds[i], CHUNK, 30 * US, 100 * US);
		assert_int_equal(window(), CHUNKS(200));
		/* Once per RTT, together with what the delay does. */
		lose(kinds[i], CHUNK, 30 * US, 119 * US);
		ack(CHUNK, 1000 * US, 119 * US);
		assert_int_equal(window(), CHUNKS(200));
		lose(kinds[i], CHUNK, 40 * US, 120 * US);
		assert_int_equal(window(), CHUNKS(100));
		/* Slow start is over. */
		ack(CHUNKS(10), 10 * US, 200 * US);
		assert_true(window() < CHUNKS(101));
	}
}

/* Every tenth chunk and more: congestion at any delay, a shallow buffer for one. Below that: corruption. */
TEST(on_loss__large_share)
{
	uint64_t now = 100 * US;

	start(900);
	for (int i = 0; i < 2000; i++, now += US) {
		ack(CHUNKS(24), 10 * US, now);
		lose(UCCL_LOSS_PROOF, CHUNKS(2), 10 * US, now);
	}
	assert_int_equal(window(), cfg.window_max);
	for (int i = 0; i < 100; i++, now += US) {
		ack(CHUNKS(24), 0, now);
		lose(UCCL_LOSS_PROOF, CHUNKS(4), 10 * US, now);
	}
	assert_true(window() < CHUNKS(500));
}

TEST(on_loss__timeout)
{
	start(400);
	lose(UCCL_LOSS_RTO, CHUNKS(400), 10 * US, 1000 * US);
	assert_int_equal(window(), CHUNKS(200));
	/* Other paths report the same silence. */
	lose(UCCL_LOSS_RTO, CHUNK, 10 * US, 1000 * US);
	lose(UCCL_LOSS_RTO, CHUNK, 10 * US, 1020 * US);
	assert_int_equal(window(), CHUNKS(200));
	/* Heard of, then silent again: the first in a row once more. */
	ack(CHUNK, 0, 1500 * US);
	lose(UCCL_LOSS_RTO, CHUNK, 10 * US, 2000 * US);
	assert_int_equal(window(), CHUNKS(100));
	/* The second. */
	lose(UCCL_LOSS_RTO, CHUNK, 10 * US, 4000 * US);
	assert_int_equal(window(), CHUNK);
	lose(UCCL_LOSS_RTO, CHUNK, 10 * US, 8000 * US);
	assert_int_equal(window(), CHUNK);
	/* The way back doubles. */
	ack(CHUNK, 10 * US, 9000 * US);
	assert_int_equal(window(), CHUNKS(2));
	ack(CHUNKS(2), 10 * US, 9010 * US);
	assert_int_equal(window(), CHUNKS(4));
}

/* A window below a chunk is not raised to one. */
TEST(on_loss__timeout_below_a_chunk)
{
	uint64_t now = 100 * US;

	start(17);
	for (int i = 0; i < 20; i++, now += 20 * US)
		ack(0, 10000 * US, now);
	lose(UCCL_LOSS_RTO, CHUNK, 10 * US, now + 1000 * US);
	lose(UCCL_LOSS_RTO, CHUNK, 10 * US, now + 2000 * US);
	assert_int_equal(window(), CHUNK / 10);
}

/*
 * One flow alone on a link of 100 Gb/s, 20 us away, that loses each chunk with this probability. Each step, one chunk
 * leaves the queue. Returns goodput as a share of the link; *rtt_ns: mean over the second half.
 */
static double alone(double loss, double *rtt_ns)
{
	const double chunk_ns = CHUNK * 8 / 100.0, delay_ns = 20000;
	const int steps = 40000;
	double now = 0, began = 0, sum = 0;
	struct uccl_rng rng;
	uint64_t good = 0;

	uccl_rng_seed(&rng, 71);
	uccl_cc_swift.init(cc, &cfg, 0);
	for (int i = 0; i < steps; i++) {
		double chunks = (double)window() / CHUNK;
		double rtt = fmax(delay_ns, chunks * chunk_ns);
		struct uccl_ack_info a = {.bytes = CHUNK,
					  .rtt_ns = (uint64_t)rtt,
					  .srtt_ns = (uint64_t)rtt,
					  .min_rtt_ns = 20 * US};
		struct uccl_loss_info l = {.kind = UCCL_LOSS_PROOF,
					   .bytes = CHUNK,
					   .srtt_ns = (uint64_t)rtt,
					   .last_rtt_ns = (uint64_t)rtt};

		now += rtt / chunks;
		if (i == steps / 2)
			began = now;
		if (uccl_rng_chance(&rng, loss)) {
			uccl_cc_swift.on_loss(cc, &l, (uint64_t)now);
			continue;
		}
		uccl_cc_swift.on_ack(cc, &a, (uint64_t)now);
		if (i >= steps / 2) {
			good++;
			sum += rtt;
		}
	}
	*rtt_ns = sum / (double)good;
	return (double)good * chunk_ns / (now - began);
}

TEST(loop__fills_the_link)
{
	double rtt;

	assert_true(alone(0, &rtt) > 0.98);
	/* The queue stays at the target: that of about 12 chunks. */
	assert_true(rtt < 1.1 * target_ns(12));
}

/* 1 packet in 256 lost, 8 packets a chunk: 3.1 % of chunks. All but what is lost comes through. */
TEST(loop__random_loss)
{
	double rtt, without = alone(0, &rtt), with = alone(1 - pow(255.0 / 256, 8), &rtt);

	assert_true(with > 0.94 * without);
}

/* 64 senders on that link, where less than eight chunks fill it: all come to rest below one, and alike. */
TEST(loop__incast)
{
	enum { N = 64 };
	static uint64_t flow[N][UCCL_CC_STATE / 8];
	const double chunk_ns = CHUNK * 8 / 100.0, delay_ns = 20000;
	double now = 0, sum = 0, squares = 0, rtt = 0;

	for (int i = 0; i < N; i++) {
		uccl_cc_swift.init(flow[i], &cfg, 0);
		/* Unequal: every other one gets a head start. */
		if (i % 2)
			uccl_cc_swift.on_ack(flow[i], &(struct uccl_ack_info){.bytes = CHUNKS(64), .rtt_ns = 1}, 0);
	}
	for (int round = 0; round < 400; round++) {
		double chunks = 0;

		for (int i = 0; i < N; i++)
			chunks += (double)uccl_cc_swift.window(flow[i]) / CHUNK;
		rtt = fmax(delay_ns, chunks * chunk_ns);
		now += rtt;
		for (int i = 0; i < N; i++) {
			const struct uccl_ack_info a = {
				.bytes = uccl_cc_swift.window(flow[i]),
				.rtt_ns = (uint64_t)rtt,
				.srtt_ns = (uint64_t)rtt,
				.min_rtt_ns = 20 * US,
			};

			uccl_cc_swift.on_ack(flow[i], &a, (uint64_t)now);
		}
	}
	for (int i = 0; i < N; i++) {
		double w = (double)uccl_cc_swift.window(flow[i]) / CHUNK;

		assert_true(w < 1);
		assert_true(uccl_cc_swift.pace(flow[i], CHUNK, (uint64_t)rtt, 0) > (uint64_t)rtt);
		sum += w;
		squares += w * w;
	}
	/* Full, the queue at its target, and fair by Jain's index. */
	assert_true(sum * chunk_ns >= 0.95 * delay_ns);
	assert_true(rtt < 1.3 * target_ns(sum / N));
	assert_true(sum * sum / (N * squares) > 0.95);
}

static void ack_marked(uint64_t bytes, uint64_t marked, uint64_t rtt_ns, uint64_t now)
{
	const struct uccl_ack_info info = {
		.bytes = bytes, .marked = marked, .rtt_ns = rtt_ns, .srtt_ns = 20 * US, .min_rtt_ns = 10 * US};

	uccl_cc_swift.on_ack(cc, &info, now);
}

/*
 * RFC 8257 sections 3.3 and 3.4: the share of marked bytes moves by 1/16 in a round trip; once in a round trip with
 * marks half of what is above 0.8, in parts of the rest, is taken off, down to a chunk. Only the delay takes more.
 */
TEST(on_ack__marks)
{
	uint64_t now = 0;
	double share = 0, w, was;

	uccl_cc_swift.init(cc, &cfg, now);
	for (int i = 1; i < 100; i++) {
		now += 20 * US;
		share += (1 - share) / 16;
		was = (double)window();
		ack_marked(CHUNK, CHUNK, 10 * US, now);
		if (share <= 0.8) {
			assert_true(window() > was);
			continue;
		}
		w = fmax(CHUNK, was * (1 - (share - 0.8) / 0.2 / 2));
		assert_in_range(window(), (uint64_t)w - 1, (uint64_t)w + 1);
		/* The same round trip: no second time, no growth either; what is counted belongs to the next one. */
		ack_marked(CHUNK, CHUNK, 10 * US, now + US);
		assert_in_range(window(), (uint64_t)w - 1, (uint64_t)w + 1);
	}
	assert_int_equal(window(), CHUNK);
}

/* Marks of three paths in four say nothing of the flow. */
TEST(on_ack__marks_of_some_paths)
{
	uint64_t now = 0, w;

	uccl_cc_swift.init(cc, &cfg, now);
	for (int i = 0; i < 200; i++) {
		w = window();
		ack_marked(CHUNK, CHUNK / 4 * 3, 10 * US, now += 20 * US);
		assert_true(window() >= w);
	}
}

/* What was marked cannot be more than what arrived, whatever a peer says. */
TEST(on_ack__marks_too_many)
{
	uint64_t now = 0, w;

	uccl_cc_swift.init(cc, &cfg, now);
	for (int i = 0; i < 100; i++) {
		now += 20 * US;
		w = window();
		ack_marked(100, UINT32_MAX, 10 * US, now);
		assert_true(window() + 1 >= w / 2);
	}
	assert_in_range(window(), CHUNK - 1, CHUNK);
	ack_marked(100, 100, 10000 * US, now + 20 * US);
	assert_in_range(window(), CHUNK / 2 - 1, CHUNK / 2);
}

/* Far above the target the delay takes as much as it would without marks. */
TEST(on_ack__marks_and_delay)
{
	uint64_t now = 20 * US;

	for (int marked = 0; marked < 2; marked++) {
		uint64_t w;

		uccl_cc_swift.init(cc, &cfg, now);
		/* Nothing is taken for marked. */
		for (int i = 0; i < 200; i++, now += 20 * US)
			ack(CHUNK, 10 * US, now);
		w = window();
		ack_marked(CHUNK, (uint64_t)marked, 10000 * US, now += 20 * US);
		assert_in_range(window(), w / 2 - 1, w / 2 + 1);
	}
}

TESTS_MAIN
