/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The judge of trains alone: a model of a network says what becomes of each chunk. */
#include "flow/send/train.h"

#include "../../tests.h"

#include <stdio.h>
#include <string.h>

#include "base/units.h"

#define SECOND UCCL_NS_PER_S
#define MINUTE (60 * SECOND)
#define WINDOW 64

/* A sender with WINDOW chunks in flight: each is told lost when so many later ones have left. */
struct model {
	struct uccl_train t;
	struct uccl_stats stats;
	struct uccl_rng rng, net;
	uint64_t nxt, now, step_ns;
	bool lost[WINDOW], single[WINDOW];
	int run; /* chunks of the train under way */
	uint64_t singles;
};

static struct model m;

static void model_new(uint64_t seed)
{
	memset(&m, 0, sizeof(m));
	uccl_rng_seed(&m.rng, seed);
	uccl_rng_seed(&m.net, seed + 1000000);
	m.nxt = 1000;
	m.now = SECOND;
	m.step_ns = 10000;
}

/* One chunk more leaves; `lose` says what becomes of it. */
static void step(bool (*lose)(bool single, const void *arg), const void *arg)
{
	uint64_t old = m.nxt - WINDOW, una = m.nxt - WINDOW;
	struct uccl_train_chunk c = {.csn = m.nxt, .una = una, .path = 3, .more = m.nxt % 64 < 32};
	uint64_t at = m.nxt % WINDOW;

	/* 64 chunks leave in one instant. */
	if (m.nxt % 64 == 0)
		m.now += 64 * m.step_ns;
	if (m.nxt >= 1000 + WINDOW && m.lost[at])
		uccl_train_lost(&m.t, old, m.single[at], una, m.nxt, &m.stats, m.now);
	m.single[at] = m.t.state != UCCL_TRAINS_ON &&
		       uccl_train_single(&m.t, &c, &m.rng, &m.stats, m.now);
	m.singles += m.single[at];
	m.lost[at] = lose(m.single[at], arg);
	m.nxt++;
}

static bool lose_never(bool single, const void *arg)
{
	return false;
}

/* Every chunk, alike. */
static bool lose_chance(bool single, const void *arg)
{
	return uccl_rng_chance(&m.net, *(const double *)arg);
}

struct broken {
	double trains, singles;
};

static bool lose_trains(bool single, const void *arg)
{
	const struct broken *b = arg;

	return uccl_rng_chance(&m.net, single ? b->singles : b->trains);
}

/* Chunks that leave until trains are off; UINT64_MAX: never. */
static uint64_t chunks_until_off(const struct broken *b, uint64_t most)
{
	uint64_t first = m.nxt;

	while (m.t.state < UCCL_TRAINS_OFF && m.nxt - first < most)
		step(lose_trains, b);
	return m.t.state < UCCL_TRAINS_OFF ? UINT64_MAX : m.nxt - first;
}

/* Whatever part of a train is lost, and whatever the network loses besides, 1000 chunks show it: 1.5 MB. */
TEST(single__broken_trains)
{
	static const struct broken kinds[] = {{1, 0}, {0.97, 0.01}, {0.85, 0}, {0.6, 0}, {1, 0.05}, {0.5, 0.03}};

	for (uint64_t seed = 0; seed < 100; seed++)
		for (size_t k = 0; k < uccl_array_len(kinds); k++) {
			uint64_t n;

			model_new(seed);
			n = chunks_until_off(&kinds[k], 5000);
			if (n > 1000)
				fail_msg("seed %d kind %d: %lld", (int)seed, (int)k, (long long)n);
			assert_int_equal(m.stats.trains_off, 1);
			assert_int_equal(m.stats.train_tests, 1);
			assert_true(m.t.changed);
			/* A comparison takes but a part of them by itself. */
			assert_true(m.singles < n / 2);
		}
}

/* After good times, too. */
TEST(single__breaks_later)
{
	struct broken b = {.trains = 0.9};

	model_new(1);
	for (int i = 0; i < 100000; i++)
		step(lose_never, NULL);
	assert_true(chunks_until_off(&b, 2000) < 1000);
}

/* Few losses do not even make it look; more make it look once a second, which costs little. */
TEST(lost__ordinary)
{
	static const double p[] = {0.001, 0.01, 0.05, 0.1};

	for (uint64_t seed = 0; seed < 30; seed++)
		for (size_t k = 0; k < uccl_array_len(p); k++) {
			model_new(seed);
			/* A second. */
			for (int i = 0; i < 100000; i++)
				step(lose_chance, &p[k]);
			if (p[k] < 0.02)
				assert_int_equal(m.stats.train_tests, 0);
			else
				assert_in_range(m.stats.train_tests, 1, 2);
			assert_int_equal(m.stats.trains_off, 0);
			assert_true(m.singles < 1500);
		}
}

/*
 * Networks that lose a lot, but of both alike: by chance, in bursts of any mean length, and by queues that overflow,
 * which lose all that leaves behind a place of the burst.
 */
struct bad {
	double share, burst;
	bool in;
	bool overflow; /* a queue: of each 64 that leave together, all behind the first so many */
	uint64_t fits;
};

static bool lose_bad(bool single, const void *arg)
{
	struct bad *b = (struct bad *)(uintptr_t)arg;

	if (b->overflow) {
		if (m.nxt % 64 == 0)
			b->fits = uccl_rng_below(&m.net, 65);
		return m.nxt % 64 >= b->fits;
	}
	b->in = b->in ? !uccl_rng_chance(&m.net, 1 / b->burst) :
			uccl_rng_chance(&m.net, b->share / (b->burst * (1 - b->share)));
	return b->in;
}

TEST(lost__no_false_alarm)
{
	static const double share[] = {0.05, 0.1, 0.2, 0.3, 0.5, 0.8}, burst[] = {1, 4, 44, 200};
	uint64_t runs = 0, tests = 0, alarms = 0;

	for (uint64_t seed = 0; seed < 3000; seed++) {
		struct bad b = {.share = share[seed % 6],
				.burst = burst[seed / 6 % 4],
				.overflow = seed % 5 == 4};

		if (b.burst < b.share / (1 - b.share))
			b.burst = 4;
		model_new(seed);
		/* 20 seconds, so that there are many comparisons. */
		m.step_ns = 1000000;
		for (int i = 0; i < 20000; i++)
			step(lose_bad, &b);
		runs++;
		tests += m.stats.train_tests;
		alarms += m.stats.trains_off;
	}
	printf("%llu runs, %llu comparisons, %llu false alarms\n", (unsigned long long)runs, (unsigned long long)tests,
	       (unsigned long long)alarms);
	assert_true(tests > 10 * runs);
	assert_int_equal(alarms, 0);
}

/* A comparison that finds nothing ends, and the next one is not at once: singles stay few. */
TEST(single__innocent)
{
	double p = 0.5;

	model_new(3);
	for (int i = 0; i < 3000; i++)
		step(lose_chance, &p);
	assert_int_equal(m.t.state, UCCL_TRAINS_ON);
	assert_int_equal(m.stats.train_tests, 1);
	assert_in_range(m.singles, 10, 200);
	assert_false(m.t.changed);
	/* A second later it looks again. */
	for (int i = 0; i < 100000; i++)
		step(lose_chance, &p);
	assert_in_range(m.stats.train_tests, 2, 3);
}

/* A few more packets of trains are lost; or many, but only twice as many as of the others. */
TEST(lost__little_worse)
{
	struct broken few = {.trains = 0.015}, little = {.trains = 0.5, .singles = 0.25};

	model_new(5);
	assert_true(chunks_until_off(&few, 20000) == UINT64_MAX);
	assert_int_equal(m.stats.train_tests, 0);
	model_new(5);
	m.step_ns = 1000000;
	assert_true(chunks_until_off(&little, 20000) == UINT64_MAX);
	assert_true(m.stats.train_tests > 3);
}

static void turn_off(void)
{
	struct broken b = {.trains = 1};

	model_new(7);
	assert_true(chunks_until_off(&b, 2000) < 1000);
	m.t.changed = false;
}

/* Run for so long; chunks that did not leave by themselves. */
static uint64_t pass(uint64_t ns, bool (*lose)(bool single, const void *arg), const void *arg)
{
	uint64_t end = m.now + ns, first = m.nxt, singles = m.singles;

	/* Quick enough for an hour. */
	m.step_ns = 100000000;
	while (m.now < end)
		step(lose, arg);
	return m.nxt - first - (m.singles - singles);
}

/* Without trains for a minute; a trial of 8 chunks; then two, four ... up to an hour. What it costs is little. */
TEST(trial__fails)
{
	struct broken b = {.trains = 1};
	uint64_t off = UCCL_TRAIN_OFF_NS;

	turn_off();
	assert_int_equal(pass(off - 7 * SECOND, lose_trains, &b), 0);
	for (int i = 0; i < 9; i++) {
		assert_int_equal(m.stats.train_trials, i);
		assert_int_equal(pass(14 * SECOND, lose_trains, &b), UCCL_TRAIN_TRIAL);
		assert_int_equal(m.stats.train_trials, i + 1);
		assert_int_equal(m.t.state, UCCL_TRAINS_OFF);
		off = uccl_min(2 * off, UCCL_TRAIN_OFF_MAX_NS);
		assert_in_range(m.t.at - m.now, off - 14 * SECOND, off);
		assert_int_equal(pass(m.t.at - m.now - 7 * SECOND, lose_trains, &b), 0);
		assert_in_range(m.t.at - m.now, SECOND, 14 * SECOND);
	}
	assert_int_equal(off, UCCL_TRAIN_OFF_MAX_NS);
	assert_false(m.t.changed);
	assert_int_equal(m.stats.trains_off, 1);
}

/* All but one of the trial are lost: it failed. One is lost, as any network may: it did not. */
static bool lose_all_but_first(bool single, const void *arg)
{
	return !single && m.t.state == UCCL_TRAINS_TRIED && m.nxt != m.t.first;
}

static bool lose_first(bool single, const void *arg)
{
	return !single && m.t.state == UCCL_TRAINS_TRIED && m.nxt == m.t.first;
}

TEST(trial__partly)
{
	turn_off();
	pass(UCCL_TRAIN_OFF_NS + 14 * SECOND, lose_all_but_first, NULL);
	assert_int_equal(m.t.state, UCCL_TRAINS_OFF);
	assert_int_equal(m.stats.train_trials, 1);
	pass(2 * UCCL_TRAIN_OFF_NS + 14 * SECOND, lose_first, NULL);
	assert_int_equal(m.stats.train_trials, 2);
	assert_int_equal(m.t.state, UCCL_TRAINS_ON);
	assert_true(m.t.changed);
}

/* Mended: trains again, told once. Broken again soon: a longer pause than at first. */
TEST(trial__succeeds)
{
	struct broken b = {.trains = 1};

	turn_off();
	pass(UCCL_TRAIN_OFF_NS + 14 * SECOND, lose_never, NULL);
	assert_int_equal(m.t.state, UCCL_TRAINS_ON);
	assert_true(m.t.changed);
	assert_int_equal(m.stats.train_trials, 1);
	m.t.changed = false;
	m.step_ns = 10000;
	assert_true(chunks_until_off(&b, 2000) < 1000);
	assert_int_equal(m.t.at - m.now, 2 * UCCL_TRAIN_OFF_NS);
	assert_int_equal(m.stats.trains_off, 2);
	/* Mended for longer than the longest pause: then as at first. */
	pass(3 * UCCL_TRAIN_OFF_NS, lose_never, NULL);
	assert_int_equal(m.t.state, UCCL_TRAINS_ON);
	pass(UCCL_TRAIN_OFF_MAX_NS + MINUTE, lose_never, NULL);
	m.step_ns = 10000;
	assert_true(chunks_until_off(&b, 2000) < 1000);
	assert_int_equal(m.t.at - m.now, UCCL_TRAIN_OFF_NS);
}

static bool ask(uint64_t csn, uint64_t una, uint16_t path, bool more)
{
	struct uccl_train_chunk c = {.csn = csn, .una = una, .path = path, .more = more};

	return uccl_train_single(&m.t, &c, &m.rng, &m.stats, m.now);
}

/* What does not leave in one train, or could not be many, is no trial; and it is not tried again at once. */
TEST(trial__together)
{
	turn_off();
	m.now += UCCL_TRAIN_OFF_NS;
	assert_true(ask(5000, 5000, 1, false));
	assert_int_equal(m.t.state, UCCL_TRAINS_OFF);
	/* Three, then the time goes on. */
	for (int i = 0; i < 3; i++)
		assert_false(ask(5001 + (uint64_t)i, 5000, 1, true));
	m.now++;
	assert_true(ask(5004, 5000, 1, true));
	assert_int_equal(m.t.state, UCCL_TRAINS_OFF);
	assert_int_equal(m.stats.train_trials, 0);
	assert_true(ask(5005, 5000, 1, true));
	m.now += UCCL_TRAIN_PAUSE_NS;
	/* Another path is another train. */
	for (int i = 0; i < 2; i++)
		assert_false(ask(5006 + (uint64_t)i, 5000, 1, true));
	assert_true(ask(5008, 5000, 2, true));
	assert_int_equal(m.t.state, UCCL_TRAINS_OFF);
	m.now += UCCL_TRAIN_PAUSE_NS;
	/* Four are enough. They are under way, the others by themselves. */
	for (int i = 0; i < 4; i++)
		assert_false(ask(5009 + (uint64_t)i, 5000, 1, true));
	m.now++;
	assert_true(ask(5013, 5000, 1, true));
	assert_int_equal(m.t.state, UCCL_TRAINS_TRIED);
	assert_int_equal(m.stats.train_trials, 1);
	/* A loss of something else says nothing of them. */
	uccl_train_lost(&m.t, 5008, true, 5000, 5014, &m.stats, m.now);
	uccl_train_lost(&m.t, 5013, true, 5000, 5014, &m.stats, m.now);
	assert_true(ask(5014, 5012, 1, true));
	assert_int_equal(m.t.state, UCCL_TRAINS_TRIED);
	assert_false(ask(5015, 5013, 1, true));
	assert_int_equal(m.t.state, UCCL_TRAINS_ON);
}

/* Packets of the next train of 60 at most, of 1000 bytes, when this is seen, of a link of 1000. */
static uint32_t packets_at(struct uccl_train *t, uint64_t delivered, uint64_t queued, uint64_t acked)
{
	const struct uccl_train_sight s = { .link = 1000, .delivered = delivered, .queued = queued, .acked = acked };

	uccl_train_see(t, 60000, &s);
	return uccl_train_bytes(t, 60000, 1000) / 1000;
}

/* Likewise of a flow that has begun. */
static uint32_t packets(struct uccl_train *t, uint64_t delivered, uint64_t queued)
{
	return packets_at(t, delivered, queued, UCCL_TRAIN_BEGIN_BYTES);
}

/* A quarter, where the network is what bounds the flow, and then until it is not. PROTOCOL R288 */
TEST(bytes__short)
{
	struct uccl_train t = { .seen = true }, brief = { .seen = true, .brief = true };

	assert_int_equal(packets(&t, 900, 360000), 60);
	assert_int_equal(packets(&t, 900, 360001), 15);
	assert_int_equal(packets(&t, 900, 0), 15);
	/* Most of the link, and no more than it has. */
	assert_int_equal(packets(&t, 501, 0), 15);
	assert_int_equal(packets(&t, 500, 400000), 60);
	assert_int_equal(packets(&t, 501, 0), 60);
	assert_int_equal(packets(&t, 1125, 400000), 15);
	assert_int_equal(packets(&t, 1126, 400000), 60);
	/* Whole packets, and one at least. */
	assert_int_equal(uccl_train_bytes(&brief, 60480, 4032), 4 * 4032);
	assert_int_equal(uccl_train_bytes(&brief, 62552, 8936), 2 * 8936);
	assert_int_equal(uccl_train_bytes(&brief, 1000, 1000), 1000);
}

/* An eighth at first. They stay short if a train waits when that is over, and then as others do. PROTOCOL R288 */
TEST(bytes__begin)
{
	const struct uccl_train begins = { .brief = true };
	struct uccl_train t = begins;

	assert_int_equal(uccl_train_bytes(&begins, 60480, 4032), 2 * 4032);
	assert_int_equal(uccl_train_bytes(&begins, 62552, 8936), 8936);
	assert_int_equal(uccl_train_bytes(&begins, 1000, 1000), 1000);
	/* Means begin with too little. */
	assert_int_equal(packets_at(&t, 100, 0, UCCL_TRAIN_BEGIN_BYTES - 1), 8);
	assert_int_equal(packets_at(&t, 900, 60000, UCCL_TRAIN_BEGIN_BYTES), 60);
	assert_int_equal(packets_at(&t, 900, 60001, UCCL_TRAIN_BEGIN_BYTES), 60);
	t = begins;
	assert_int_equal(packets_at(&t, 500, 60001, UCCL_TRAIN_BEGIN_BYTES), 60);
	t = begins;
	assert_int_equal(packets_at(&t, 501, 60001, UCCL_TRAIN_BEGIN_BYTES), 15);
	assert_int_equal(packets_at(&t, 501, 0, UCCL_TRAIN_BEGIN_BYTES), 15);
	/* More than the link has is no link's rate. */
	t = begins;
	assert_int_equal(packets_at(&t, 1126, 0, 0), 60);
	assert_int_equal(packets_at(&t, 900, 60001, 0), 60);
}

TESTS_MAIN
