/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/units.h"
#include "play.h"

static void run__counts(void **state)
{
	(void)state;
	play("incast", "hosts=16,bytes=64k,senders=5");
	assert_int_equal(p.scene.nops, 5 + 6);
	uccl_fab_play_close(&p);
	play("alltoall", "hosts=16,bytes=60k");
	assert_int_equal(p.scene.nops, 16 * 15);
	uccl_fab_play_close(&p);
	play("ring", "hosts=16,bytes=64k");
	assert_int_equal(p.scene.nops, 16 * 30);
	for (uint32_t i = 16; i < p.scene.nops; i++)
		assert_true(p.scene.ops[i].start_ns > 0);
	uccl_fab_play_close(&p);
}

/* Links between switches at a quarter: no permutation whose flows cross can be through in the time of a host's link. */
static void ideal__counts_uplinks(void **state)
{
	uint64_t full, quarter;

	(void)state;
	play("permutation", "hosts=32,tiers=2,bytes=1m");
	full = p.ideal_ns;
	uccl_fab_play_close(&p);
	play("permutation", "hosts=32,tiers=2,bytes=1m,up_gbps=100");
	quarter = p.ideal_ns;
	uccl_fab_play_close(&p);
	assert_in_range(quarter * 10, 25 * full, 41 * full);
	/* Pods of four hosts with one link each to two switches that join them. */
	play("permutation", "hosts=16,per_tor=2,tors_per_pod=2,spines=2,cores_per_agg=2,bytes=1m");
	full = p.ideal_ns;
	uccl_fab_play_close(&p);
	play("permutation", "hosts=16,per_tor=2,tors_per_pod=2,spines=1,cores_per_agg=1,up_gbps=800,bytes=1m");
	assert_true(p.ideal_ns > full * 5 / 4);
	uccl_fab_play_close(&p);
}

/* By Zipf's law; the one that gets the most says what is ideal. */
static void alltoall__skewed(void **state)
{
	uint64_t in[16] = {0}, out[16] = {0}, most = 0, least = UINT64_MAX, sum = 0;

	(void)state;
	play("alltoall", "hosts=16,bytes=1m,skew=1");
	for (uint32_t i = 0; i < p.scene.nops; i++) {
		in[p.scene.ops[i].dst] += p.scene.ops[i].bytes;
		out[p.scene.ops[i].src] += p.scene.ops[i].bytes;
	}
	for (int i = 0; i < 16; i++) {
		assert_in_range(out[i], (1u << 20) - 16, 1u << 20);
		most = uccl_max(most, in[i]);
		least = uccl_min(least, in[i]);
		sum += in[i];
	}
	assert_true(most > 8 * least && most > 3 * sum / 16);
	assert_true(p.ideal_ns > most * 8 / 400);
	uccl_fab_play_close(&p);
}

static void stagger__least_share(void **state)
{
	double v[UCCL_FAB_FIGURES];

	(void)state;
	play("stagger", "hosts=16,senders=4,bytes=32m,credit=eqds,path=reps");
	assert_int_equal(p.scene.nops, 4);
	for (uint32_t i = 1; i < 4; i++)
		assert_true(p.scene.ops[i].start_ns > p.scene.ops[i - 1].start_ns);
	uccl_fab_play_figures(&p, v);
	assert_true(v[UCCL_FAB_LEAST] > 0.5 && v[UCCL_FAB_LEAST] <= 1);
	uccl_fab_play_close(&p);
}

static void spine__several(void **state)
{
	uint64_t well;

	(void)state;
	play("spine", "hosts=32,tiers=2,bytes=1m,at=0,rate=1,victims=4");
	well = p.scene.last_ns;
	uccl_fab_play_close(&p);
	/* Nothing gets past all of them. */
	play("spine", "hosts=32,tiers=2,bytes=1m,at=0,rate=0.1,victims=4");
	assert_true(p.scene.last_ns > well * 4);
	uccl_fab_play_close(&p);
	assert_int_equal(uccl_fab_play_init(&p, "spine"), 0);
	assert_int_equal(uccl_fab_play_set(&p, "hosts=32,tiers=2,victims=5"), 0);
	assert_int_equal(uccl_fab_play_run(&p, NULL), -22);
	uccl_fab_play_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(run__counts),
		cmocka_unit_test(ideal__counts_uplinks),
		cmocka_unit_test(alltoall__skewed),
		cmocka_unit_test(stagger__least_share),
		cmocka_unit_test(spine__several),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
