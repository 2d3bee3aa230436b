/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../pair.h"

#include "../../tests.h"

#include <string.h>

#include "flow/observe/stall.h"
#include "flow/internal.h"
#include "policy/policies.h"

#define KIB 1024u
#define MS UCCL_NS_PER_MS

static uint64_t sum(const uint64_t ns[UCCL_STALL_COUNT])
{
	uint64_t all = 0;

	for (int i = 0; i < UCCL_STALL_COUNT; i++)
		all += ns[i];
	return all;
}

TEST(stall_text__all)
{
	for (uint8_t i = 0; i < UCCL_STALL_COUNT; i++)
		assert_true(strlen(uccl_stall_text(i)) > 2);
	assert_string_equal(uccl_stall_text(UCCL_STALL_COUNT), "?");
}

TEST(stall_change__sums)
{
	uint64_t ns[UCCL_STALL_COUNT];
	struct uccl_stall_clock h;

	uccl_stall_init(&h, 0, 100);
	uccl_stall_set(&h, UCCL_STALL_WINDOW, 0, 110);
	uccl_stall_set(&h, UCCL_STALL_WINDOW, 0, 120);
	assert_int_equal(h.began_ns, 110);
	uccl_stall_set(&h, UCCL_STALL_LOSS, 0, 140);
	uccl_stall_read(&h, ns, 0, 145);
	assert_int_equal(ns[UCCL_STALL_NOT], 10);
	assert_int_equal(ns[UCCL_STALL_WINDOW], 30);
	assert_int_equal(ns[UCCL_STALL_LOSS], 5);
	assert_int_equal(sum(ns), 45);
	/* To read changes nothing. */
	uccl_stall_read(&h, ns, 0, 146);
	assert_int_equal(ns[UCCL_STALL_LOSS], 6);
}

/* A caller whose time is older than ours: nothing is taken back, nothing counted twice. */
TEST(stall_read__earlier)
{
	uint64_t ns[UCCL_STALL_COUNT];
	struct uccl_stall_clock h;

	uccl_stall_init(&h, 0, 100);
	uccl_stall_set(&h, UCCL_STALL_SLOTS, 0, 150);
	uccl_stall_read(&h, ns, 0, 120);
	assert_int_equal(sum(ns), 50);
	uccl_stall_set(&h, UCCL_STALL_NOT, 0, 140);
	uccl_stall_read(&h, ns, 0, 160);
	assert_int_equal(sum(ns), 60);
	assert_int_equal(ns[UCCL_STALL_SLOTS], 0);
}

/* Our own absence is nobody else's fault; without anything that waits it is nobody's. */
TEST(stall_change__away)
{
	uint64_t ns[UCCL_STALL_COUNT];
	struct uccl_stall_clock h;

	uccl_stall_init(&h, 7, 100);
	uccl_stall_set(&h, UCCL_STALL_WINDOW, 17, 120);
	uccl_stall_set(&h, UCCL_STALL_NOT, 37, 150);
	uccl_stall_read(&h, ns, 90, 200);
	assert_int_equal(ns[UCCL_STALL_AWAY], 20);
	assert_int_equal(ns[UCCL_STALL_WINDOW], 10);
	assert_int_equal(ns[UCCL_STALL_NOT], 70);
	/* More than there was time: some of it was before. */
	uccl_stall_set(&h, UCCL_STALL_CREDIT, 90, 200);
	uccl_stall_read(&h, ns, 1000, 205);
	assert_int_equal(ns[UCCL_STALL_AWAY], 25);
	assert_int_equal(sum(ns), 105);
}

TEST(stall_change__any_order)
{
	uint64_t ns[UCCL_STALL_COUNT], now = 5, away = 0;
	struct uccl_stall_clock h;
	struct uccl_rng rng;

	uccl_rng_seed(&rng, 3);
	uccl_stall_init(&h, away, now);
	for (int i = 0; i < 10000; i++) {
		uint64_t step = uccl_rng_below(&rng, 50);

		now += step;
		away += uccl_rng_below(&rng, 60);
		uccl_stall_set(&h, (uint8_t)uccl_rng_below(&rng, UCCL_STALL_COUNT), away, now);
		uccl_stall_read(&h, ns, away, now);
		assert_int_equal(sum(ns), now - 5);
	}
}

/* Flows: policies that the test sets. */
static struct pair p;
static uint64_t cc_bytes, cc_gap_ns, credit_limit;

static uint64_t set_window(const void *cc)
{
	return cc_bytes;
}

static void set_init(void *cc, const struct uccl_policy_cfg *cfg, uint64_t now)
{
}

static uint64_t set_pace(void *cc, uint32_t bytes, uint64_t srtt_ns, uint64_t now)
{
	return now + cc_gap_ns;
}

static uint64_t set_limit(const void *cs)
{
	return credit_limit;
}

static const struct uccl_cc_ops cc_set = {.init = set_init, .window = set_window, .pace = set_pace};
static const struct uccl_credit_ops credit_set = {.limit = set_limit};

static void start(uint16_t slots)
{
	struct pair_cfg cfg = pair_packets();

	cc_bytes = 1u << 30;
	cc_gap_ns = 0;
	credit_limit = UINT64_MAX;
	cfg.cc = &cc_set;
	cfg.credit = &credit_set;
	cfg.slots = slots;
	pair_init(&p, &cfg);
}

static enum uccl_stall held(void)
{
	return uccl_flow_stall(&p.side[0].f, p.now);
}

static enum uccl_stall held_sending(uint32_t bytes)
{
	pair_bulk(&p, 0, bytes);
	pair_pump_one(&p, 0);
	return held();
}

TEST(flow_stall__nothing)
{
	start(256);
	assert_int_equal(held(), UCCL_STALL_NOT);
	/* All is on its way. */
	assert_int_equal(held_sending(10 * KIB), UCCL_STALL_NOT);
	assert_true(pair_finish(&p, 100 * MS));
	assert_int_equal(held(), UCCL_STALL_NOT);
	pair_fini(&p);
}

/* Each bound of what leaves is found when it alone is reached; of two, the one that would have to give first. */
TEST(flow_stall__bounds)
{
	static const struct {
		uint16_t slots;
		uint64_t window, gap_ns, credit; /* 0: no bound */
		uint32_t bytes;
		enum uccl_stall want;
	} v[] = {
		{256, 4 * KIB, 0, 0, 10 * KIB, UCCL_STALL_WINDOW},
		{256, 0, MS, 0, 10 * KIB, UCCL_STALL_PACE},
		{256, 0, 0, 3 * KIB, 10 * KIB, UCCL_STALL_CREDIT},
		{256, 3 * KIB, 0, 3 * KIB, 10 * KIB, UCCL_STALL_CREDIT},
		{3, 0, 0, 0, 10 * KIB, UCCL_STALL_SLOTS},
		{4000, 0, 0, 0, 1000 * KIB, UCCL_STALL_CHUNKS},
	};

	for (size_t i = 0; i < uccl_array_len(v); i++) {
		start(v[i].slots);
		cc_bytes = v[i].window ? v[i].window : cc_bytes;
		cc_gap_ns = v[i].gap_ns;
		credit_limit = v[i].credit ? v[i].credit : credit_limit;
		assert_int_equal(held_sending(v[i].bytes), v[i].want);
		pair_fini(&p);
	}
}

/* The window opens again. */
TEST(flow_stall__window)
{
	start(256);
	cc_bytes = 4 * KIB;
	assert_int_equal(held_sending(10 * KIB), UCCL_STALL_WINDOW);
	assert_true(pair_finish(&p, 100 * MS));
	assert_int_equal(held(), UCCL_STALL_NOT);
	pair_fini(&p);
}

/* The first packet is lost, the others come: that is repaired, not a full window. */
TEST(flow_stall__loss)
{
	start(256);
	cc_bytes = 16 * KIB;
	assert_int_equal(held_sending(64 * KIB), UCCL_STALL_WINDOW);
	pair_lose(&p, 0);
	while (!p.side[0].f.sent.repairs && pair_step(&p))
		;
	assert_int_equal(p.side[0].f.sent.repairs, 1);
	pair_pump_one(&p, 0);
	assert_int_equal(held(), UCCL_STALL_LOSS);
	assert_true(pair_finish(&p, 100 * MS));
	assert_int_equal(p.side[0].f.sent.repairs, 0);
	assert_int_equal(held(), UCCL_STALL_NOT);
	pair_fini(&p);
}

/* Nothing more to send, but something to repair. */
TEST(flow_stall__loss_at_the_end)
{
	start(256);
	assert_int_equal(held_sending(8 * KIB), UCCL_STALL_NOT);
	pair_lose(&p, 0);
	while (!p.side[0].f.sent.repairs && pair_step(&p))
		;
	pair_pump_one(&p, 0);
	assert_int_equal(held(), UCCL_STALL_LOSS);
	assert_true(pair_finish(&p, 100 * MS));
	pair_fini(&p);
}

TEST(flow_stall__silent)
{
	uint64_t asked;

	start(256);
	cc_bytes = 4 * KIB;
	pair_bulk(&p, 0, 64 * KIB);
	pair_run(&p, p.now + MS / 100);
	p.side[1].stopped = true;
	assert_int_equal(held(), UCCL_STALL_WINDOW);
	pair_run(&p, p.now + 50 * MS);
	assert_int_equal(held(), UCCL_STALL_SILENT);
	asked = p.now;
	p.side[1].stopped = false;
	assert_true(pair_finish(&p, 1000 * MS));
	assert_true(p.now > asked);
	assert_int_equal(held(), UCCL_STALL_NOT);
	pair_fini(&p);
}

TESTS_MAIN
