/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../tests.h"

#include "base/units.h"
#include "sim/fabric_load.h"
#include "play.h"

TEST(run__counts)
{
	play("incast", "hosts=16,bytes=64k,senders=5");
	assert_int_equal(p.scene.nops, 5 + 6);
	play("alltoall", "hosts=16,bytes=60k");
	assert_int_equal(p.scene.nops, 16 * 15);
	play("ring", "hosts=16,bytes=64k");
	assert_int_equal(p.scene.nops, 16 * 30);
	for (uint32_t i = 16; i < p.scene.nops; i++)
		assert_true(p.scene.ops[i].start_ns > 0);
}

/* The same pairs as beside an incast, without it. They are no slower then. */
TEST(incast__alone)
{
	struct uccl_fab_op beside[6];
	double with[UCCL_FAB_FIGURES], v[UCCL_FAB_FIGURES];

	play("incast", "hosts=16,bytes=1m,senders=5,profile=verbs");
	uccl_fab_play_figures(&p, with);
	for (int i = 0, k = 0; i < 11; i++)
		if (p.scene.ops[i].group == UCCL_FAB_OTHER)
			beside[k++] = p.scene.ops[i];
	play("incast", "hosts=16,bytes=1m,senders=5,profile=verbs,alone=1");
	assert_int_equal(p.scene.nops, 6);
	for (int i = 0; i < 6; i++) {
		assert_int_equal(p.scene.ops[i].src, beside[i].src);
		assert_int_equal(p.scene.ops[i].dst, beside[i].dst);
		assert_int_equal(p.scene.ops[i].bytes, beside[i].bytes);
		assert_int_equal(p.scene.ops[i].group, UCCL_FAB_OTHER);
	}
	uccl_fab_play_figures(&p, v);
	assert_true(v[UCCL_FAB_BESIDE] > 0 && v[UCCL_FAB_BESIDE] <= 1.02 * with[UCCL_FAB_BESIDE]);
	/* What is ideal is so for them. */
	assert_true(v[UCCL_FAB_OVER] > 0 && v[UCCL_FAB_OVER] < 100);
	assert_true(v[UCCL_FAB_SLOW50] >= 1);
	play_init("incast", "hosts=16,senders=15,alone=1");
	assert_int_equal(uccl_fab_play_run(&p, NULL), -22);
	assert_non_null(strstr(p.why, "nobody is beside it"));
}

/* One after the other, there and back; what flows believe of their link's rate does not change what is ideal. */
TEST(turns__one_at_a_time)
{
	uint64_t ideal, took;

	play("turns", "hosts=2,tiers=2,per_tor=1,spines=1,bytes=1m,messages=4,cc=nscc");
	assert_int_equal(p.scene.nops, 4);
	for (uint32_t i = 1; i < 4; i++) {
		assert_int_equal(p.scene.ops[i].src, p.scene.ops[i - 1].dst);
		assert_true(p.scene.ops[i].start_ns >= p.scene.ops[i - 1].end_ns);
	}
	ideal = p.ideal_ns;
	took = p.scene.last_ns;
	assert_true(took >= ideal && took < 2 * ideal);
	play("turns", "hosts=2,tiers=2,per_tor=1,spines=1,bytes=1m,messages=4,cc=nscc,told_gbps=1");
	assert_int_equal(p.ideal_ns, ideal);
	assert_int_not_equal(p.scene.last_ns, took);
	play_init("turns", "hosts=16,messages=0");
	assert_int_equal(uccl_fab_play_run(&p, NULL), -22);
}

/* Links between switches at a quarter: no permutation whose flows cross can be through in the time of a host's link. */
TEST(ideal__counts_uplinks)
{
	uint64_t full, quarter;

	play("permutation", "hosts=32,tiers=2,bytes=1m");
	full = p.ideal_ns;
	play("permutation", "hosts=32,tiers=2,bytes=1m,up_gbps=100");
	quarter = p.ideal_ns;
	assert_in_range(quarter * 10, 25 * full, 41 * full);
	/* Pods of four hosts with one link each to two switches that join them. */
	play("permutation", "hosts=16,per_tor=2,tors_per_pod=2,spines=2,cores_per_agg=2,bytes=1m");
	full = p.ideal_ns;
	play("permutation", "hosts=16,per_tor=2,tors_per_pod=2,spines=1,cores_per_agg=1,up_gbps=800,bytes=1m");
	assert_true(p.ideal_ns > full * 5 / 4);
}

/* By Zipf's law; the one that gets the most says what is ideal. */
TEST(alltoall__skewed)
{
	uint64_t in[16] = {0}, out[16] = {0}, most = 0, least = UINT64_MAX, sum = 0;

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
}

TEST(stagger__least_share)
{
	double v[UCCL_FAB_FIGURES];

	play("stagger", "hosts=16,senders=4,bytes=32m,credit=eqds,path=reps");
	assert_int_equal(p.scene.nops, 4);
	for (uint32_t i = 1; i < 4; i++)
		assert_true(p.scene.ops[i].start_ns > p.scene.ops[i - 1].start_ns);
	uccl_fab_play_figures(&p, v);
	assert_true(v[UCCL_FAB_LEAST] > 0.5 && v[UCCL_FAB_LEAST] <= 1);
}

TEST(spine__several)
{
	uint64_t well;

	play("spine", "hosts=32,tiers=2,bytes=1m,at=0,rate=1,victims=4");
	well = p.scene.last_ns;
	/* Nothing gets past all of them. */
	play("spine", "hosts=32,tiers=2,bytes=1m,at=0,rate=0.1,victims=4");
	assert_true(p.scene.last_ns > well * 4);
	/* What is left of links of unequal rates: the first spine has a tenth of all. */
	play("spine", "hosts=32,tiers=2,spine_gbps=100/300/300/300,bytes=1m,at=0,rate=0,victims=1");
	assert_true(p.bound_ns > p.ideal_ns);
	play_init("spine", "hosts=32,tiers=2,victims=5");
	assert_int_equal(uccl_fab_play_run(&p, NULL), -22);
}

/* One host at a quarter of the rate: what a ring takes longer is what its link takes longer. */
TEST(ideal__counts_slow_hosts)
{
	uint64_t even;

	play("ring", "hosts=16,bytes=4m,profile=verbs");
	even = p.ideal_ns;
	play("ring", "hosts=16,bytes=4m,profile=verbs,slow_hosts=1,slow_gbps=100");
	assert_in_range(p.ideal_ns, even * 3 / 2, even * 4);
	for (int i = 0; i < 4; i++) {
		static const char *const sets[] = {"profile=verbs", "stack=gbn,ecn_lo=200k,ecn_hi=800k", "stack=sr",
						   "stack=spray,ecn_lo=200k,ecn_hi=800k"};

		play_init("permutation", sets[i]);
		assert_int_equal(uccl_fab_play_set(&p, "hosts=16,bytes=4m,slow_hosts=4,slow_gbps=50"), 0);
		assert_int_equal(uccl_fab_play_set(&p, "background=0.2"), 0);
		assert_int_equal(uccl_fab_play_run(&p, NULL), 0);
		assert_true(p.scene.last_ns >= p.ideal_ns * 95 / 100);
		assert_true(p.scene.last_ns < p.ideal_ns * 8);
	}
}

/* Each host but one has one above it; who is there sends nothing on before it has what it waits for. */
TEST(tree__waits)
{
	uint64_t up[16] = {0}, down[16] = {0};
	uint32_t begun = 0;

	play("tree", "hosts=16,bytes=1000003,pieces=3");
	assert_int_equal(p.scene.nops, 2 * 15 * 3);
	for (uint32_t i = 0; i < p.scene.nops; i++) {
		bool is_up = i % 30 < 15;

		if (is_up)
			up[p.scene.ops[i].src] += p.scene.ops[i].bytes;
		else
			down[p.scene.ops[i].dst] += p.scene.ops[i].bytes;
		/* Of 16 hosts the last eight have nobody below them. */
		begun += !p.scene.ops[i].start_ns;
		for (uint32_t e = p.scene.ops[i].after; e != UINT32_MAX; e = p.scene.edges.v[e].next)
			assert_true(p.scene.ops[p.scene.edges.v[e].op].start_ns >= p.scene.ops[i].end_ns);
	}
	assert_int_equal(begun, 8 * 3);
	for (int i = 0; i < 16; i++) {
		assert_true(up[i] == 1000003 || up[i] == 0);
		assert_true(down[i] == up[i]);
	}
	play_init("tree", "hosts=16,pieces=0");
	assert_int_equal(uccl_fab_play_run(&p, NULL), -22);
}

/* So many bytes as the load says, spread over the span and over all hosts, the same for every transport. */
TEST(arrivals__load)
{
	uint64_t bytes, ops, in[16] = {0}, late = 0;
	double mean;

	play("arrivals", "hosts=16,load=0.5,sizes=storage,span=200000,seed=4");
	bytes = p.scene.bytes;
	ops = p.scene.nops;
	/* 16 hosts x 50 bytes per ns, half of it, of which 2 % are headers. */
	mean = uccl_fab_sizes_mean(uccl_fab_sizes_find("storage")) * 1.02;
	assert_in_range(ops, (uint64_t)(80e6 * 0.93 / mean), (uint64_t)(80e6 * 1.07 / mean));
	for (uint32_t i = 0; i < ops; i++) {
		assert_int_not_equal(p.scene.ops[i].src, p.scene.ops[i].dst);
		assert_true(p.scene.ops[i].start_ns < 200000);
		late += p.scene.ops[i].start_ns > 100000;
		in[p.scene.ops[i].dst]++;
	}
	assert_in_range(late, ops * 45 / 100, ops * 55 / 100);
	for (int i = 0; i < 16; i++)
		assert_in_range(in[i], ops / 16 * 7 / 10, ops / 16 * 13 / 10);
	play("arrivals", "hosts=16,load=0.5,sizes=storage,span=200000,seed=4,stack=spray,ecn_lo=200k,ecn_hi=800k");
	assert_int_equal(p.scene.bytes, bytes);
	assert_int_equal(p.scene.nops, ops);
	play_init("arrivals", "hosts=16,sizes=nothing");
	assert_int_equal(uccl_fab_play_run(&p, NULL), -22);
	assert_non_null(strstr(p.why, "nothing"));
}

/* These transfers. */
static void play_lines(const char *name, const char *set, const char *lines)
{
	char file[] = "list.XXXXXX";
	int fd = mkstemp(file);
	FILE *f = fdopen(fd, "w");

	assert_non_null(f);
	fputs(lines, f);
	fclose(f);
	play_file = file;
	play(name, set);
	play_file = NULL;
	unlink(file);
}

/* What begins late counts from then. */
TEST(ideal__of_a_list)
{
	play_lines("list", "hosts=16", "100 1 2 4096\n150 3 4 4096\n");
	assert_int_equal(p.scene.nops, 2);
	assert_in_range(p.ideal_ns, 50000 + 2000, 50000 + 7000);
	assert_true(p.scene.last_ns - p.scene.first_ns < p.ideal_ns + 100);
	play_init("list", "hosts=16,file=/nowhere");
	assert_int_equal(uccl_fab_play_run(&p, NULL), -22);
	assert_non_null(strstr(p.why, "/nowhere"));
}

/* How many times the ideal no transport can beat. */
static double bound(const char *net, const char *fault, const char *lines)
{
	char set[128];
	double times;

	snprintf(set, sizeof(set), "profile=verbs,%s,%s", net, fault);
	play_lines("spine", set, lines);
	times = (double)p.bound_ns / (double)p.ideal_ns;
	return times;
}

TEST(bound__counts_ill_switches)
{
	const char *two = "hosts=4,tiers=2,per_tor=2,spines=2", *three = "hosts=16";
	const char *full = "0 0 2 8000000\n0 1 3 8000000\n";
	const char *pod = "0 0 4 8000000\n0 1 5 8000000\n0 2 6 8000000\n0 3 7 8000000\n";

	/* Two hosts of a rack, which has two links up. */
	assert_true(fabs(bound(two, "at=0,rate=0.5", full) - 4.0 / 3) < 0.03);
	/* One and a half are enough for one of them, and none is needed where they stay. */
	assert_true(bound(two, "at=0,rate=0.5", "0 0 2 8000000\n") == 1);
	assert_true(bound(two, "at=0,rate=0.5", "0 0 1 8000000\n0 2 3 8000000\n") == 1);
	/* It was well for half of the time, of 163.2 us; or fell ill before they begin. */
	assert_true(fabs(bound(two, "at=81600,rate=0.5", full) - (0.5 + 0.5 * 4.0 / 3)) < 0.03);
	assert_true(fabs(bound(two, "rate=0.5", "100 0 2 8000000\n100 1 3 8000000\n") - 4.0 / 3) < 0.03);
	/* Dead. */
	assert_true(fabs(bound(two, "at=0,rate=0", full) - 2) < 0.06);
	/* What gets well again is not counted. */
	assert_true(bound(two, "at=0,rate=0.5,flap=1000", full) == 1);
	/* Three tiers: one of the four cores that join pods of four hosts. */
	assert_true(fabs(bound(three, "at=0,rate=0.5", pod) - 8.0 / 7) < 0.03);
	assert_true(bound(three, "at=0,rate=0.5", "0 0 2 8000000\n0 1 3 8000000\n") == 1);
}

TESTS_MAIN_IN(NULL, play_close)
