/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "sim/fabric_scene.h"

#include <stdint.h>
#include <string.h>
#include "../tests.h"
#include <rdma/fi_errno.h>

#include "base/units.h"
#include "sim/fabric_stacks.h"

/* What a test opens and runs; each begins with the same configuration. */
static struct uccl_fab_scene s;
static struct uccl_fab_cfg c;

static int config(void **state)
{
	c = (struct uccl_fab_cfg){
		.topo =
			{
				.tiers = 2,
				.hosts = 8,
				.hosts_per_tor = 4,
				.spines = 4,
				.host_bps = 400000000000ull,
				.up_bps = 400000000000ull,
				.delay_ps = 1000000,
				.queue_bytes = 1u << 20,
			},
		.stack = &uccl_fab_stack_uccl,
		.cc = "swift",
		.path = "pow2",
		.credit = "none",
		.paths = 16,
		.labels = 64,
		.mtu = 4096,
		.chunk = 32768,
		.window = 256,
		.told.rto_min_ns = 100000,
		.post_bytes = 65536,
		.seed = 1,
		.bin_ns = 1000,
		.limit_ns = UCCL_NS_PER_S,
	};
	return 0;
}

static int close_scene(void **state)
{
	uccl_fab_scene_close(&s);
	return 0;
}

/* As c says; what was open before is closed. */
static void open_scene(void)
{
	close_scene(NULL);
	assert_int_equal(uccl_fab_scene_open(&s, &c), 0);
}

static void scene_refused(void)
{
	close_scene(NULL);
	assert_int_not_equal(uccl_fab_scene_open(&s, &c), 0);
}

TEST_IN(open__refuses, config, close_scene)
{
	c.stack = NULL;
	scene_refused();
	config(state);
	c.cc = "nothing";
	scene_refused();
	config(state);
	c.window = 100;
	scene_refused();
	config(state);
	c.topo.hosts = 7;
	scene_refused();
}

/* Chains begin when what they wait for has arrived, others at their time. */
TEST_IN(run__starts, config, close_scene)
{
	uint32_t a, b;
	uint64_t sum = 0;

	open_scene();
	a = uccl_fab_scene_add(&s, 0, 1, 100000, 5000, 0);
	b = uccl_fab_scene_add(&s, 1, 5, 200000, 0, 0);
	uccl_fab_scene_after(&s, b, a);
	assert_int_equal(uccl_fab_scene_run(&s, NULL), 0);
	assert_int_equal(s.ops[a].start_ns, 5000);
	assert_int_equal(s.ops[b].start_ns, s.ops[a].end_ns);
	assert_int_equal(s.first_ns, 5000);
	assert_int_equal(s.last_ns, s.ops[b].end_ns);
	for (uint32_t i = 0; i < s.nbins; i++)
		sum += s.bins[i];
	assert_int_equal(sum, 300000);
}

/* One that waits for two, and two that wait for one. */
TEST_IN(after__several, config, close_scene)
{
	uint32_t op[5];

	open_scene();
	for (uint32_t i = 0; i < 5; i++)
		op[i] = uccl_fab_scene_add(&s, i, i + 1, 100000 * (i + 1), 0, 0);
	uccl_fab_scene_after(&s, op[2], op[0]);
	uccl_fab_scene_after(&s, op[2], op[1]);
	uccl_fab_scene_after(&s, op[3], op[2]);
	uccl_fab_scene_after(&s, op[4], op[2]);
	assert_int_equal(uccl_fab_scene_run(&s, NULL), 0);
	assert_true(s.ops[op[1]].end_ns > s.ops[op[0]].end_ns);
	assert_int_equal(s.ops[op[2]].start_ns, s.ops[op[1]].end_ns);
	assert_int_equal(s.ops[op[3]].start_ns, s.ops[op[2]].end_ns);
	assert_int_equal(s.ops[op[4]].start_ns, s.ops[op[2]].end_ns);
}

TEST_IN(run__sorts, config, close_scene)
{
	open_scene();
	uccl_fab_scene_add(&s, 0, 1, 1000, 9000, 0);
	uccl_fab_scene_add(&s, 2, 3, 1000, 4000, 0);
	assert_int_equal(uccl_fab_scene_run(&s, NULL), 0);
	assert_int_equal(s.ops[0].start_ns, 4000);
	assert_int_equal(s.ops[1].start_ns, 9000);
	assert_true(s.ops[0].end_ns > 4000 && s.ops[0].end_ns < 9000);
}

TEST_IN(arrived__twice_or_never, config, close_scene)
{
	/* In any order, but each byte once: good. */
	open_scene();
	uccl_fab_scene_add(&s, 0, 1, 3000, 0, 0);
	uccl_fab_arrived(&s, 0, 2000, 1000);
	uccl_fab_arrived(&s, 0, 0, 1000);
	uccl_fab_arrived(&s, 0, 1000, 1000);
	assert_int_equal(s.done, 1);
	assert_string_equal(s.broken, "");
	/* The right number of bytes, but not the right ones. */
	uccl_fab_scene_add(&s, 0, 1, 3000, 0, 0);
	uccl_fab_arrived(&s, 1, 0, 1000);
	uccl_fab_arrived(&s, 1, 0, 1000);
	uccl_fab_arrived(&s, 1, 2000, 1000);
	assert_string_not_equal(s.broken, "");
	s.broken[0] = 0;
	uccl_fab_scene_add(&s, 0, 1, 1000, 0, 0);
	uccl_fab_arrived(&s, 2, 0, 1001);
	assert_string_not_equal(s.broken, "");
}

TEST_IN(run__gives_up, config, close_scene)
{
	c.limit_ns = 10 * UCCL_NS_PER_MS;
	open_scene();
	uccl_fab_scene_add(&s, 0, 5, 1000000, 0, 0);
	for (uint32_t i = 0; i < 4; i++)
		uccl_fab_fault_switch(&s.net, uccl_fab_switch(&s.net, 2, i), true, 1);
	assert_int_not_equal(uccl_fab_scene_run(&s, NULL), 0);
	assert_int_equal(s.done, 0);
	/* Also where little happens: it would take 26 us. */
	c.limit_ns = 20 * UCCL_NS_PER_US;
	open_scene();
	uccl_fab_scene_add(&s, 0, 5, 1000000, 0, 0);
	assert_int_equal(uccl_fab_scene_run(&s, NULL), -FI_ETIMEDOUT);
}

/* By hand: 10,000 bytes are three packets of 4 KiB and less. */
TEST_IN(ideal__by_hand, config, close_scene)
{
	uint64_t last = 10000 - 8192 + UCCL_FAB_ROCE_BYTES;

	assert_int_equal(UCCL_FAB_ROCE_BYTES, 82);
	open_scene();
	assert_int_equal(uccl_fab_ideal(&s, 0, 1, 10000),
			 ((2 * (4096 + 82) + 20) * 20 + 2 * 1000000 + last * 40) / 1000);
}

/* What others send arrives at their rate, and all that is sent beside it; the ideal knows how much is left. */
TEST_IN(background__takes_its_share, config, close_scene)
{
	static const struct uccl_fab_stack *const stacks[] = {&uccl_fab_stack_uccl, &uccl_fab_stack_gbn,
							      &uccl_fab_stack_sr, &uccl_fab_stack_spray};
	double ns, rate;

	for (size_t i = 0; i < uccl_array_len(stacks); i++) {
		c.stack = stacks[i];
		c.others.share = 0;
		open_scene();
		ns = (double)uccl_fab_ideal(&s, 0, 5, 8u << 20);
		c.others.share = 0.3;
		open_scene();
		assert_in_range(uccl_fab_ideal(&s, 0, 5, 8u << 20), (uint64_t)(ns / 0.72), (uint64_t)(ns / 0.7));
		uccl_fab_scene_add(&s, 0, 5, 8u << 20, 0, 0);
		assert_int_equal(uccl_fab_scene_run(&s, NULL), 0);
		/* What others have in queues at the end is not in its way. */
		assert_true((double)s.last_ns > 0.97 * (double)uccl_fab_ideal(&s, 0, 5, 8u << 20));
		assert_true(s.last_ns > (uint64_t)(1.3 * ns));
		/* 8 hosts x 15 bytes per ns. */
		rate = (double)s.background / (double)s.last_ns / 120;
		assert_true(rate > 0.95 && rate < 1.01);
	}
	c.others.share = 1;
	scene_refused();
}

/* 200 small ones, each alone: their time together. */
static uint64_t took(void)
{
	uint64_t sum = 0;

	open_scene();
	for (uint32_t k = 0; k < 200; k++)
		uccl_fab_scene_add(&s, 0, 5, 100, k * 10000, 0);
	assert_int_equal(uccl_fab_scene_run(&s, NULL), 0);
	for (uint32_t k = 0; k < 200; k++)
		sum += s.ops[k].end_ns - s.ops[k].start_ns;
	return sum;
}

/* What arrives while its host does something else waits, in its order, and so takes longer by as much. */
TEST_IN(jitter__waits, config, close_scene)
{
	static const struct uccl_fab_stack *const stacks[] = {&uccl_fab_stack_uccl, &uccl_fab_stack_gbn};
	uint64_t calm;

	for (size_t i = 0; i < uccl_array_len(stacks); i++) {
		c.stack = stacks[i];
		c.jitter.ns = 0;
		calm = took();
		/* Half of the time, 3 us: who comes in a pause waits as long as a pause is on average. */
		c.jitter.ns = c.jitter.every_ns = 3000;
		assert_in_range(took() - calm, 200 * 3000 / 2 * 3 / 4, 200 * 3000 / 2 * 5 / 4);
		assert_int_equal(s.rtx_bytes, 0);
	}
}

TEST_IN(result__closed_form, config, close_scene)
{
	struct uccl_fab_result r;

	open_scene();
	for (uint32_t i = 0; i < 1000; i++) {
		uint32_t op = uccl_fab_scene_add(&s, 0, 1, 1000 * (uint64_t)(i + 1), 100, 2);

		s.ops[op].end_ns = 100 + 1000 * (uint64_t)(i + 1);
	}
	uccl_fab_result(&s, 2, &r);
	assert_int_equal(r.n, 1000);
	assert_true(r.p50_ns == 500000 && r.p99_ns == 990000 && r.p999_ns == 999000 && r.max_ns == 1000000);
	assert_true(r.mean_ns == 500500);
	assert_true(r.jain > 0.999999 && r.jain < 1.000001);
	/* One has all, one has nearly nothing: a half. */
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t op = uccl_fab_scene_add(&s, 0, 1, 1000000, 0, 3);

		s.ops[op].end_ns = i ? 1 : 1000000000;
	}
	uccl_fab_result(&s, 3, &r);
	assert_true(r.jain > 0.4999 && r.jain < 0.5001);
	uccl_fab_result(&s, 1, &r);
	assert_int_equal(r.n, 0);
}

TESTS_MAIN
