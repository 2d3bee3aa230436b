/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "policy/policies.h"

#include "../tests.h"

#include "base/rng.h"
#include "base/units.h"

#define N 40 /* in service */
#define ALL 80
#define US UCCL_NS_PER_US
#define MS UCCL_NS_PER_MS

static uint64_t ps[UCCL_PATHSEL_STATE / 8];
static struct uccl_path paths[ALL];
static uint16_t usable[N];
static uint16_t nusable;
static struct uccl_rng rng;
static uint64_t now;

static uint16_t pick(void)
{
	return uccl_path_reps.select(ps, paths, usable, nusable, &(struct uccl_chunk_info){.bytes = 4096}, &rng, now);
}

/* What is recycled; 31, which has nothing to do with that, if nothing is and one is drawn. */
static uint16_t pick_recycled(void)
{
	uint16_t path, first = usable[0];

	usable[0] = 31;
	nusable = 1;
	path = pick();
	nusable = N;
	usable[0] = first;
	return path;
}

/* A choice of this path, which is only to be had where the ring is not asked. */
static void use(uint16_t path)
{
	struct uccl_chunk_info chunk = {.bytes = 4096};

	assert_int_equal(uccl_path_reps.select(ps, paths, &path, 1, &chunk, &rng, now), path);
}

static void landed(uint16_t path, uint32_t bytes)
{
	paths[path].inflight -= bytes;
	uccl_path_reps.on_land(ps, paths, path, now);
}

static void answer(uint16_t path, uint64_t rtt_ns)
{
	paths[path].inflight = 4096;
	uccl_path_reps.on_ack(ps, paths, path, rtt_ns, 0, now);
	landed(path, 4096);
}

/* Past the paths that are drawn first. */
static int setup(void **state)
{
	const struct uccl_policy_cfg cfg = {.chunk_bytes = 4096, .window_max = 1 << 20};

	now = 1000 * US;
	nusable = N;
	for (uint16_t i = 0; i < ALL; i++)
		uccl_path_init(&paths[i], i);
	for (uint16_t i = 0; i < N; i++)
		usable[i] = i;
	uccl_rng_seed(&rng, 7);
	uccl_path_reps.init(ps, &cfg, N);
	return 0;
}

/* Past the paths that are drawn first; these first of them, the rest anywhere. */
static void explored(uint16_t n, const uint16_t *first)
{
	for (uint16_t i = 0; i < n; i++)
		use(first[i]);
	for (int i = n; i < 16; i++)
		pick();
}

#define EXPLORED(...) explored(sizeof((uint16_t[]){__VA_ARGS__}) / sizeof(uint16_t), (uint16_t[]){__VA_ARGS__})

TEST_IN(select__explores_first, setup, NULL)
{
	uint64_t seen = 0;

	use(3);
	answer(3, 10 * US);
	for (int i = 0; i < 15; i++)
		seen |= 1ull << pick();
	/* Fifteen draws of 40: fewer than seven different ones come once in a million. */
	assert_true(__builtin_popcountll(seen) >= 7);
	assert_int_equal(pick(), 3);
}

TEST_IN(select__recycles_in_order, setup, NULL)
{
	EXPLORED(5, 9);
	answer(5, 10 * US);
	answer(9, 12 * US);
	assert_int_equal(pick(), 5);
	answer(5, 11 * US);
	assert_int_equal(pick(), 9);
	assert_int_equal(pick(), 5);
}

/* Several chunks of one choice are reported: it is recycled once, or they would stay together. */
TEST_IN(on_ack__once, setup, NULL)
{
	EXPLORED(5, 6);
	answer(5, 10 * US);
	answer(5, 10 * US);
	answer(6, 10 * US);
	assert_int_equal(pick(), 5);
	assert_int_equal(pick(), 6);
}

/* Two choices are in flight: the first chunk of each brings one back. */
TEST_IN(on_ack__once_a_choice, setup, NULL)
{
	const uint16_t seven = 7;

	for (int i = 0; i < 2; i++) {
		uccl_path_reps.select(ps, paths, &seven, 1, &(struct uccl_chunk_info){.bytes = 3 * 4096}, &rng, now);
		paths[7].inflight += 3 * 4096;
	}
	for (int i = 2; i < 15; i++)
		pick();
	uccl_path_reps.select(ps, paths, &(uint16_t){8}, 1, &(struct uccl_chunk_info){.bytes = 3 * 4096}, &rng, now);
	while (paths[7].inflight) {
		uccl_path_reps.on_ack(ps, paths, 7, 10 * US, 0, now);
		landed(7, 4096);
	}
	assert_int_equal(pick(), 7);
	assert_int_equal(pick(), 7);
	nusable = 1; /* nothing else was recycled: it is drawn */
	assert_int_equal(pick(), 0);
}

/* Of fewer choices than a quarter of the paths none is where another is: the first to come back is drawn anew. */
TEST_IN(on_ack__no_more_than_its_share, setup, NULL)
{
	const uint16_t seven = 7;

	for (uint16_t i = 20; i < 34; i++) {
		use(i);
		answer(i, 10 * US);
	}
	for (int i = 0; i < 2; i++) {
		uccl_path_reps.select(ps, paths, &seven, 1, &(struct uccl_chunk_info){.bytes = 4096}, &rng, now);
		paths[7].inflight += 4096;
	}
	for (uint16_t i = 20; i < 34; i++)
		assert_int_equal(pick(), i);
	for (uint16_t i = 20; i < 34; i++)
		answer(i, 10 * US);
	while (paths[7].inflight) {
		uccl_path_reps.on_ack(ps, paths, 7, 10 * US, 0, now);
		landed(7, 4096);
	}
	for (uint16_t i = 20; i < 34; i++)
		assert_int_equal(pick(), i);
	assert_int_equal(pick(), 7);
	nusable = 1;
	assert_int_equal(pick(), 0);
}

/* One that is left has lost its place, also when more of the same choice is reported. */
TEST_IN(on_ack__left_for_good, setup, NULL)
{
	EXPLORED(1, 2, 3, 4);
	/* The mean is 1 us, so two samples of 100 us make more than a whole excess. */
	answer(1, US);
	answer(2, 100 * US);
	assert_int_equal(pick(), 1);
	assert_int_equal(pick(), 2);
	for (int i = 0; i < 4; i++)
		answer(3, 100 * US);
	answer(4, US);
	assert_int_equal(pick(), 4);
}

/* What carried no payload is no token, and its RTT nobody's. */
TEST_IN(on_ack__control, setup, NULL)
{
	EXPLORED(5, 6, 7);
	answer(5, 100 * US);
	for (int i = 0; i < 1000; i++)
		uccl_path_reps.on_ack(ps, paths, 7, 10 * US, 0, now);
	answer(6, 100 * US);
	assert_int_equal(pick(), 5);
	assert_int_equal(pick(), 6);
}

/*
 * A path that is slower than others is left as soon marked as where nothing is marked; where the network marks, and not
 * this one, half as soon. One that is not slower stays, marked or not.
 */
TEST_IN(on_ack__marked, setup, NULL)
{
	int kept[3] = { 0 };

	for (int kind = 0; kind < 3; kind++) {
		bool others = kind > 0, marked = kind == 1;

		setup(state);
		EXPLORED(4, 5);
		for (bool stays = true; stays; kept[kind]++) {
			for (int i = 0; i < 3; i++) {
				paths[5].inflight = 4096;
				uccl_path_reps.on_ack(ps, paths, 5, 10 * US, others ? 1024 : 0, now);
				assert_int_equal(pick(), 5);
			}
			paths[4].inflight = 4096;
			uccl_path_reps.on_ack(ps, paths, 4, 20 * US, marked ? 1024 : 0, now);
			stays = pick_recycled() == 4;
		}
	}
	assert_int_equal(kept[0], kept[1]);
	assert_in_range(kept[2], 2 * kept[0] - 1, 2 * kept[0] + 1);
}

/* A mark of long ago says nothing of the network. */
TEST_IN(on_ack__marks_end, setup, NULL)
{
	uint64_t later = now;
	int kept[2] = { 0 };

	for (int k = 0; k < 2; k++) {
		setup(state);
		EXPLORED(4, 5);
		paths[5].inflight = 4096;
		uccl_path_reps.on_ack(ps, paths, 5, 10 * US, 1024, later);
		assert_int_equal(pick(), 5);
		later += (uint64_t)k * 320 * US;
		for (bool stays = true; stays; kept[k]++) {
			paths[4].inflight = 4096;
			uccl_path_reps.on_ack(ps, paths, 4, 20 * US, 0, later);
			stays = pick_recycled() == 4;
		}
	}
	assert_in_range(kept[0], kept[1] + 1, 3 * kept[1]);
}

/* Its acknowledgement was overtaken by one that tells of more: no sample is left, the place is. */
TEST_IN(on_land__without_a_sample, setup, NULL)
{
	EXPLORED(5, 6);
	paths[5].inflight = paths[6].inflight = 4096;
	landed(6, 4096);
	landed(5, 4096);
	assert_int_equal(pick(), 6);
	assert_int_equal(pick(), 5);
}

/* Two choices of one path come at once. */
TEST_IN(on_land__two_at_once, setup, NULL)
{
	use(5);
	paths[5].inflight = 4096;
	EXPLORED(5, 6);
	paths[5].inflight = 2 * 4096;
	paths[6].inflight = 4096;
	landed(5, 2 * 4096);
	landed(6, 4096);
	assert_int_equal(pick(), 5);
	assert_int_equal(pick(), 5);
	assert_int_equal(pick(), 6);
}

/* A choice that was left for its sample is not used once more because it landed. */
TEST_IN(on_land__what_was_left, setup, NULL)
{
	EXPLORED(4, 5);
	paths[4].inflight = paths[5].inflight = 4096;
	uccl_path_reps.on_ack(ps, paths, 5, 10 * US, 0, now);
	uccl_path_reps.on_ack(ps, paths, 4, 40 * US, 0, now);
	assert_int_equal(pick(), 5);
	assert_int_equal(pick(), 4);
	uccl_path_reps.on_ack(ps, paths, 5, 10 * US, 0, now);
	uccl_path_reps.on_ack(ps, paths, 4, 40 * US, 0, now);
	landed(4, 4096);
	landed(5, 4096);
	assert_int_equal(pick(), 5);
	nusable = 1; /* nothing else was recycled: it is drawn */
	assert_int_equal(pick(), 0);
}

/*
 * One path of ten is at twice the RTT of the others: above the mean by x parts of its RTT, it is left every 1/x times,
 * and the others never are.
 */
TEST_IN(on_ack__leaves_by_excess, setup, NULL)
{
	double mean = 10 * US, excess = 0;
	uint32_t left = 0, want = 0;

	EXPLORED(1, 2, 3, 4, 5, 6, 7, 8, 9);
	for (int i = 0; i < 2000; i++) {
		uint16_t path = (uint16_t)(i % 10);
		double rtt = path ? 10 * US : 20 * US;

		mean = i ? mean + (rtt - mean) / 32 : rtt;
		excess += rtt > mean ? (rtt - mean) / rtt : 0;
		if (!i)
			use(0);
		answer(path, (uint64_t)rtt);
		if (excess >= 1) {
			excess -= 1;
			want++;
			left += pick_recycled() == 31;
			use(path);
		} else {
			assert_int_equal(pick(), path);
		}
	}
	assert_int_equal(left, want);
	assert_in_range(left, 80, 100);
}

/* Nothing left: drawn, so that in the long run all come. */
TEST_IN(select__draws_all, setup, NULL)
{
	EXPLORED(0);
	for (uint64_t seen = 0, i = 0; seen != (1ull << N) - 1; i++) {
		seen |= 1ull << pick();
		assert_true(i < 1000);
	}
}

/* A mean RTT of 15 us, nothing left to be recycled, and what was measured of the paths `ago`. */
static void measured(uint64_t even_ns, uint64_t ago, uint64_t other_ns)
{
	EXPLORED(0);
	answer(0, 15 * US);
	assert_int_equal(pick(), 0);
	for (uint16_t i = 0; i < N; i++) {
		paths[i].inflight = i % 2 ? 4096 : 0;
		paths[i].last_rtt_ns = i % 4 < 2 ? even_ns : other_ns;
		paths[i].sampled_ns = i % 4 < 2 ? now - ago : now;
	}
}

/* Of 4000 draws: paths that carry something, and of the others those with the second RTT. */
static void draws(uint32_t *busy, uint32_t *other)
{
	*busy = *other = 0;
	for (int i = 0; i < 4000; i++) {
		uint16_t path = pick();

		*busy += paths[path].inflight > 0;
		*other += !paths[path].inflight && path % 4 >= 2;
	}
}

/* Of eight, one that carries nothing; then the quickest, as far as known. */
TEST_IN(select__draws_the_better, setup, NULL)
{
	uint32_t busy, slow;

	measured(10 * US, 0, 20 * US);
	draws(&busy, &slow);
	/* All are busy one time in 256. None is idle and quick one time in ten. */
	assert_in_range(busy, 2, 40);
	assert_in_range(slow, 310, 460);
}

/* What was measured longer ago than a round trip takes says nothing of now. */
TEST_IN(select__draws_by_what_is_new, setup, NULL)
{
	uint32_t busy, other;

	measured(10 * US, 15 * US, 12 * US);
	draws(&busy, &other);
	assert_in_range(other, 310, 460);
	setup(NULL);
	measured(10 * US, 16 * US, 12 * US);
	draws(&busy, &other);
	assert_in_range(busy, 2, 40);
	/* One of the others is there unless all are elsewhere, and not all busy. */
	assert_in_range(other, 3520, 3680);
}

TEST_IN(on_ack__ring_keeps_the_latest, setup, NULL)
{
	EXPLORED(0);
	for (uint16_t i = 0; i < 70; i++)
		use(i);
	for (uint16_t i = 0; i < 70; i++)
		answer(i, 10 * US);
	for (uint16_t i = 6; i < 70; i++)
		assert_int_equal(pick(), i);
}

TEST_IN(select__not_what_left_service, setup, NULL)
{
	EXPLORED(1, 2);
	answer(1, 10 * US);
	answer(2, 10 * US);
	paths[1].state = UCCL_PATH_QUARANTINE;
	assert_int_equal(pick(), 2);
	for (nusable = 0; nusable < 3; nusable++)
		usable[nusable] = (uint16_t)(20 + nusable);
	for (int i = 0; i < 50; i++)
		assert_in_range(pick(), 20, 22);
}

/* What this path carries has come. */
static void came(uint16_t path, uint64_t rtt_ns)
{
	paths[path].last_rtt_ns = rtt_ns;
	paths[path].sampled_ns = now;
	uccl_path_reps.on_ack(ps, paths, path, rtt_ns, 0, now);
	landed(path, 4096);
}

/* Quick paths are not preferred where each has a limit: all get as much. PROTOCOL R406 */
TEST_IN(policed__evenly, setup, NULL)
{
	const struct uccl_chunk_info chunk = {.bytes = 4096, .policed = true};
	uint32_t count[N] = {0}, quick = 0;
	uint16_t sent[20]; /* path by the time in units of 2 us, of the latest; some seven are in flight */

	EXPLORED(1, 2, 3, 4);
	for (int i = 0; i < 100 * N; i++) {
		uint16_t path = uccl_path_reps.select(ps, paths, usable, N, &chunk, &rng, now);

		count[path]++;
		quick += path < N / 2;
		paths[path].inflight += 4096;
		sent[i % 20] = path;
		now += 2 * US;
		if (i >= 4 && sent[(i - 4) % 20] < N / 2)
			came(sent[(i - 4) % 20], 10 * US);
		if (i >= 9 && sent[(i - 9) % 20] >= N / 2)
			came(sent[(i - 9) % 20], 20 * US);
	}
	for (int i = 0; i < N; i++)
		assert_in_range(count[i], 50, 150);
	assert_in_range(quick, 45 * N, 55 * N);
}

/* Nor are those used again that worked before a time-out. PROTOCOL R406 */
TEST_IN(policed__not_frozen, setup, NULL)
{
	const struct uccl_chunk_info chunk = {.bytes = 4096, .policed = true};
	uint64_t seen = 0;

	EXPLORED(1, 2, 3, 4);
	for (uint16_t i = 1; i <= 4; i++)
		answer(i, 10 * US);
	uccl_path_reps.on_loss(ps, 3, UCCL_LOSS_RTO, now);
	for (int i = 0; i < 10 * N; i++)
		seen |= 1ull << uccl_path_reps.select(ps, paths, usable, N, &chunk, &rng, now);
	assert_in_range(__builtin_popcountll(seen), N / 2, N);
}

/* After a time-out those that worked go round, also those that had been used up, but not the silent one. */
TEST_IN(on_loss__freezes, setup, NULL)
{
	static const uint16_t want[] = {1, 2, 4};
	uint32_t count[N] = {0};

	EXPLORED(1, 2, 3, 4);
	for (uint16_t i = 1; i <= 4; i++)
		answer(i, 10 * US);
	pick();
	pick();
	uccl_path_reps.on_loss(ps, 3, UCCL_LOSS_RACK, now);
	assert_int_equal(pick(), 3);
	uccl_path_reps.on_loss(ps, 3, UCCL_LOSS_RTO, now);
	for (int i = 0; i < 30; i++)
		count[pick()]++;
	for (int i = 0; i < 3; i++)
		assert_int_equal(count[want[i]], 10);
	/* What left service meanwhile is not used again. */
	paths[2].state = UCCL_PATH_QUARANTINE;
	for (int i = 0; i < 30; i++)
		assert_int_not_equal(pick(), 2);
	paths[2].state = UCCL_PATH_ACTIVE;
	/* 10 ms later it begins anew. */
	now += 10 * MS;
	for (uint64_t seen = 0, i = 0; __builtin_popcountll(seen) < 8; i++) {
		seen |= 1ull << pick();
		assert_true(i < 16);
	}
}

TEST_IN(on_loss__nothing_known, setup, NULL)
{
	EXPLORED(0);
	uccl_path_reps.on_loss(ps, 3, UCCL_LOSS_RTO, now);
	for (int i = 0; i < 100; i++)
		assert_true(pick() < N);
}

TESTS_MAIN
