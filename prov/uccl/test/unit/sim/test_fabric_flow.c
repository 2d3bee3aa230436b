/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The provider's flows on the fabric: what the stack must do with what a NIC does. */
#include "sim/fabric_stacks.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../tests.h"

#include "base/units.h"
#include "play.h"

/* Alone in the network a transfer of some round trips is nearly ideal, and nothing is sent twice. */
TEST(send__alone)
{
	double over;

	play("incast", "hosts=16,senders=1,bytes=16m");
	over = (double)(p.scene.ops[0].end_ns - p.scene.ops[0].start_ns) / (double)p.ideal_ns;
	/* The slow start of Swift takes 18 us of the 349. */
	assert_true(over >= 1 && over < 1.06);
	assert_int_equal(p.scene.stats.rtx_bytes, 0);
	assert_int_equal(p.scene.net.lost + p.scene.net.dropped, 0);
}

/* A write of which a packet is lost does not arrive, and comes again as packets: more than was lost, all in place. */
TEST(deliver__torn_writes)
{
	play("loss", "hosts=16,bytes=4m,loss=1/128");
	assert_true(p.scene.net.lost > 50);
	assert_true(p.scene.stats.rtx_bytes > p.scene.net.lost * 4096);
	/* Chunks of 8 packets: no more than 8 packets again for each that was lost, and half as much for tails. */
	assert_true(p.scene.stats.rtx_bytes < p.scene.net.lost * 32768 * 3 / 2);
}

TEST(deliver__packets)
{
	play("loss", "hosts=16,bytes=4m,loss=1/128,chunk=0,window=2048");
	assert_true(p.scene.net.lost > 50);
	/* One packet again for each, and half as much for what was asked for and not lost. */
	assert_true(p.scene.stats.rtx_bytes < p.scene.net.lost * 4096 * 3 / 2);
	assert_int_equal(p.scene.stats.writes_tx, 0);
}

/* Over the ideal, in per cent, of the main group. */
static double over(void)
{
	struct uccl_fab_result r;

	uccl_fab_result(&p.scene, 0, &r);
	return (r.max_ns / (double)p.ideal_ns - 1) * 100;
}

/* Fifteen to one: the speculative windows fit into the queue, the rest comes as fast as the link goes, in equal parts.
 */
TEST(credit__incast)
{
	struct uccl_fab_result r;

	play("incast", "hosts=54,senders=15,bytes=2m,credit=eqds,cc=none");
	assert_true(over() < 3);
	assert_int_equal(p.scene.net.dropped, 0);
	uccl_fab_result(&p.scene, 0, &r);
	assert_true(r.max_ns / r.p50_ns < 1.05);
}

/* How many times as long as alone, of those that are no longer than that; the nth of so many percent. */
static double slowdown(uint64_t most, double percent)
{
	static double v[256];
	uint32_t n = 0, at;

	for (uint32_t i = 0; i < p.scene.nops; i++) {
		const struct uccl_fab_op *op = &p.scene.ops[i];
		uint32_t k = n;
		double x;

		if (op->bytes > most)
			continue;
		assert_true(op->end_ns && n < 256);
		x = (double)(op->end_ns - op->start_ns) / (double)uccl_fab_ideal(&p.scene, op->src, op->dst, op->bytes);
		for (n++; k && v[k - 1] > x; k--)
			v[k] = v[k - 1];
		v[k] = x;
	}
	assert_true(n > 0);
	at = (uint32_t)(percent / 100 * n);
	return v[at < n ? at : n - 1];
}

/* Eight hosts send 16 MiB each to one, and they or others forty short messages to it, one after the other. */
static void short_and_long(const char *credit, bool own)
{
	struct uccl_fab_cfg *c = &p.cfg;

	play_init("incast", "hosts=54,bytes=16m,cc=nscc,path=reps");
	assert_int_equal(uccl_fab_play_set(&p, credit), 0);
	c->topo.hosts_per_tor = c->topo.spines = c->topo.tors_per_pod = c->topo.cores_per_agg = 3;
	c->topo.up_bps = c->topo.host_bps;
	c->stack = &uccl_fab_stack_uccl;
	c->cc = p.names[1];
	c->path = p.names[2];
	c->credit = p.names[3];
	assert_int_equal(uccl_fab_scene_open(&p.scene, c), 0);
	for (uint32_t i = 0; i < 8; i++)
		uccl_fab_scene_add(&p.scene, 1 + i, 0, 16u << 20, 0, 0);
	for (uint32_t i = 0; i < 40; i++)
		uccl_fab_scene_add(&p.scene, own ? 1 + i % 8 : 10 + i, 0, 256u << 10, (100 + 40 * i) * UCCL_NS_PER_US,
				   1);
	assert_int_equal(uccl_fab_scene_run(&p.scene, NULL), 0);
}

/* Ranked by what they lack, short ones do not wait for long ones, and the last long one is no later. PROTOCOL R199 */
TEST(credit__short_messages_first)
{
	double all[2], p99[2], p50[2];

	for (int k = 0; k < 2; k++) {
		short_and_long(k ? "credit=srpt" : "credit=eqds", false);
		p50[k] = slowdown(1u << 20, 50);
		p99[k] = slowdown(1u << 20, 99);
		all[k] = (double)(p.scene.last_ns - p.scene.first_ns);
	}
	/* 5.05 and 5.24 times as long as alone become 2.48 and 2.80. */
	assert_true(p50[1] < 0.55 * p50[0] && p99[1] < 0.6 * p99[0]);
	assert_true(all[1] < 1.01 * all[0]);
}

/* Of two messages to one host the short one that is sent later comes first. PROTOCOL R200 */
TEST(credit__own_short_messages_first)
{
	for (int k = 0; k < 2; k++) {
		short_and_long(k ? "credit=srpt" : "credit=eqds", true);
		/* Without that it waits for turns of 4 MiB: 225 times as long as alone, and 3.2 times with it. */
		assert_true(k ? slowdown(1u << 20, 50) < 5 : slowdown(1u << 20, 50) > 50);
	}
}

/*
 * Forty-five to one: they do not fit, whole windows are lost. What comes again spends credit, too: without that
 * (PROTOCOL R63) it was lost again and again.
 */
TEST(credit__no_loss_spiral)
{
	play("incast", "hosts=54,senders=45,bytes=1m,credit=eqds:long_share=1,cc=none");
	assert_true(p.scene.net.dropped > 100);
	assert_true(over() < 8);
	/* No more than was lost at the start, once. */
	assert_true(p.scene.stats.rtx_bytes <= 45 * 65536 * 5 / 4);
}

/* Credits, demands and data get lost alike, and nothing stalls. */
TEST(credit__lost)
{
	play("loss", "hosts=16,bytes=4m,loss=1/16,credit=eqds,limit=100000000");
	play("loss", "hosts=16,bytes=2m,loss=0,burst=0.002,mean=50,credit=eqds,limit=1000000000");
}

/* Nothing waits for memory that somebody forgot. */
/*
 * Half of all credits and demands are lost: it is late, in the median of 30 seeds by 3 to 4 times, and nothing stands
 * still. Single seeds take a hundred times as long: the last of 45 waits for a chain of chances. PROTOCOL R21
 */
TEST(credit__half_of_them_lost)
{
	static const char *const sets[] = {"credit=eqds", "credit=auto", "credit=auto,cc=nscc,path=reps"};

	for (size_t i = 0; i < uccl_array_len(sets); i++) {
		char set[128];
		double half[3];

		for (int seed = 1; seed <= 3; seed++) {
			double all;

			snprintf(set, sizeof(set), "hosts=54,senders=45,bytes=512k,seed=%d,%s", seed, sets[i]);
			play("incast", set);
			all = over();
			strcat(set, ",credit_loss=1/2");
			play("incast", set);
			half[seed - 1] = over();
			assert_true(all < 10 && half[seed - 1] > all);
		}
		/* The middle one. */
		assert_true(half[0] + half[1] + half[2] - fmax(half[0], fmax(half[1], half[2])) -
				    fmin(half[0], fmin(half[1], half[2])) < 500);
	}
}

/*
 * A demand, a credit or a packet of the first burst is lost, and so is what is sent again for it: the sender asks after
 * a round trip or two, not after the time for which an acknowledgement may be delayed. PROTOCOL R346
 */
TEST(loss__first_burst)
{
	static const char *const profiles[] = { "udp", "verbs" };
	char set[128];

	for (unsigned int i = 0; i < 2; i++) {
		for (unsigned int seed = 71001; seed <= 71010; seed++) {
			snprintf(set, sizeof(set), "profile=%s,hosts=32,tiers=2,bytes=1m,loss=1/256,seed=%u",
				 profiles[i], seed);
			play("loss", set);
			assert_true(over() < 300);
		}
	}
}

/* However many engines a connection is split over, it takes as long: within 2 % for the longest of these 54. */
TEST(engines__no_matter)
{
	uint64_t one = 0, took;

	for (int n = 1; n <= 8; n *= 2) {
		char set[128];

		snprintf(set, sizeof(set), "hosts=54,bytes=32m,cc=nscc,path=reps,queue=2m,engines=%d", n);
		play("permutation", set);
		assert_int_equal(p.scene.flows, 2 * 54 * n);
		took = p.scene.last_ns - p.scene.first_ns;
		one = n == 1 ? took : one;
		assert_true(took * 100 < one * 102 && one * 100 < took * 102);
	}
}

/* Largest distance of the share of one of `ranks` in what its NIC carries from an equal one. */
static double unfair(const char *set, uint32_t ranks)
{
	double most = 0;

	play("permutation", set);
	assert_int_equal(p.scene.nops, 54 * ranks);
	for (uint32_t i = 0; i < p.scene.nops; i += ranks) {
		double sum = 0;

		for (uint32_t r = 0; r < ranks; r++)
			sum += 1 / (double)p.scene.ops[i + r].end_ns;
		for (uint32_t r = 0; r < ranks; r++)
			most = fmax(most, fabs(ranks / (double)p.scene.ops[i + r].end_ns / sum - 1));
	}
	return most;
}

/* Ranks share what their NIC carries: within 5 %, eight without credits within 6. */
TEST(ranks__share)
{
	assert_true(unfair("hosts=54,bytes=16m,cc=nscc,path=reps,ranks=2", 2) < 0.05);
	assert_true(unfair("hosts=54,bytes=16m,cc=nscc,path=reps,ranks=4", 4) < 0.05);
	assert_true(unfair("hosts=54,bytes=16m,cc=nscc,path=reps,ranks=8,queue=2m", 8) < 0.06);
	assert_true(unfair("hosts=54,bytes=16m,cc=none,credit=eqds,path=reps,ranks=8", 8) < 0.05);
}

/*
 * Racks with a quarter of their rate upwards. All begin at once, free, on connections that were opened before. The
 * handshake had no queues, so flows know what is one: little is lost. PROTOCOL R347 R413
 */
TEST_IN(start__oversubscribed, NULL, play_close)
{
	double v[UCCL_FAB_FIGURES];
	char text[256];

	for (int seed = 1; seed <= 3; seed++) {
		snprintf(text, sizeof(text),
			 "profile=udp,hosts=32,tiers=2,per_tor=4,spines=4,up_gbps=100,bytes=4m,seed=%d", seed);
		play("permutation", text);
		uccl_fab_play_figures(&p, v);
		assert_true(v[UCCL_FAB_AGAIN] < 0.5);
	}
}

/* On open connections a transfer that has the network for itself waits for no credit. PROTOCOL R347 */
TEST_IN(start__free, NULL, play_close)
{
	play("incast", "profile=udp,hosts=16,senders=1,bytes=256k");
	assert_true(over() < 15);
	assert_int_equal(p.scene.stats.rtx_bytes, 0);
}

TEST(close__in_the_middle)
{
	play_init("permutation", "hosts=16,bytes=16m,limit=1000");
	assert_int_not_equal(uccl_fab_play_run(&p, NULL), 0);
}

/*
 * One host sends to another, with each of the seeds 1 to 3. `most`: bound of the time beyond the ideal one, per cent;
 * headers take 5.3 of them. `again`: bound of the bytes that are sent again, per cent.
 */
static void one_way(const char *set, int seed, double v[UCCL_FAB_FIGURES])
{
	char text[512];

	snprintf(text, sizeof(text),
		 "profile=udp,messages=1,hosts=2,tiers=2,per_tor=1,mtu=1500,delay=20000000,gbps=10,told_soft=1,"
		 "bytes=32m,seed=%d,%s",
		 seed, set);
	play("turns", text);
	uccl_fab_play_figures(&p, v);
}

static void over_most(const char *set, double most, double again)
{
	double v[UCCL_FAB_FIGURES];

	for (int seed = 1; seed <= 3; seed++) {
		one_way(set, seed, v);
		assert_true(v[UCCL_FAB_OVER] < most);
		assert_true(v[UCCL_FAB_AGAIN] < again);
	}
}

/*
 * Between regions: 1 Gb/s, of which a queue holds 1 MB, both ways at once. The start fills no queue, and no more is
 * sent again than was lost: a tenth more for blocks that were lost. PROTOCOL R391 R394
 */
static void long_way(double rtt_ms, const char *loss, double most)
{
	double v[UCCL_FAB_FIGURES];
	char text[512];

	snprintf(text, sizeof(text),
		 "profile=udp,hosts=2,tiers=2,per_tor=1,spines=1,mtu=1500,told_soft=1,queue=1m,gbps=10,up_gbps=1,"
		 "limit=100000000000,bytes=128m,delay=%.0f,loss=%s",
		 rtt_ms * 1e9 / 8, loss);
	play("loss", text);
	uccl_fab_play_figures(&p, v);
	assert_true(v[UCCL_FAB_OVER] < most);
	assert_int_equal(p.scene.net.dropped, 0);
	assert_true(p.scene.stats.rtx_bytes <= p.scene.net.lost * 1408 * 1.1 + 100000);
}

/* With headers the ideal is 5 % over; the start takes eight round trips, and the end one and a half. */
TEST_IN(long_way__no_loss, NULL, play_close)
{
	long_way(20, "0", 20);
	long_way(50, "0", 36);
	long_way(100, "0", 70);
}

TEST_IN(long_way__loss, NULL, play_close)
{
	long_way(20, "0.001", 22);
	long_way(50, "0.0001", 40);
	long_way(50, "0.001", 55);
	long_way(50, "0.01", 50);
	long_way(100, "0.001", 80);
}

/*
 * A message of so many bytes, a pause, and a megabyte: after the short one it takes no longer than as the first one,
 * slow start included. PROTOCOL R391
 */
static void long_way_after(uint64_t bytes)
{
	const uint64_t pause = 500 * UCCL_NS_PER_MS, rtt = 50 * UCCL_NS_PER_MS;
	struct uccl_fab_cfg *c = &p.cfg;

	/* Four links each way. */
	play_init("turns", "profile=udp,hosts=2,tiers=2,per_tor=1,spines=1,mtu=1500,told_soft=1,queue=1m,gbps=10,"
			   "up_gbps=1,limit=100000000000,delay=6250000000");
	c->stack = &uccl_fab_stack_uccl;
	c->cc = p.names[1];
	c->path = p.names[2];
	c->credit = p.names[3];
	assert_int_equal(uccl_fab_scene_open(&p.scene, c), 0);
	for (uint32_t i = 0; i < 3; i++)
		uccl_fab_scene_add(&p.scene, 0, 1, bytes, i * pause, 0);
	uccl_fab_scene_add(&p.scene, 0, 1, 1u << 20, 3 * pause, 1);
	assert_int_equal(uccl_fab_scene_run(&p.scene, NULL), 0);
	for (uint32_t i = 0; i < 3; i++)
		assert_true(p.scene.ops[i].end_ns - p.scene.ops[i].start_ns < rtt);
	assert_true(p.scene.ops[3].end_ns - p.scene.ops[3].start_ns < 7 * rtt);
}

TEST_IN(long_way__short_first, NULL, play_close)
{
	long_way_after(1);
	long_way_after(8);
	long_way_after(64);
	long_way_after(1000);
}

/* Clouds shape or police every 5-tuple: a flow has nearly all that its paths may have together. PROTOCOL R380 R382 */
TEST_IN(limits__shaped, NULL, play_close)
{
	over_most("spines=1,up_gbps=1,queue=512k,flow_gbps=0.1,flow_queue=130000", 8, 1);
	over_most("spines=1,up_gbps=1,queue=512k,flow_gbps=0.125,flow_queue=130000", 8, 1);
	over_most("spines=1,up_gbps=1,queue=512k,flow_gbps=0.05,flow_queue=130000", 12, 1);
	over_most("spines=1,up_gbps=2,queue=512k,flow_gbps=0.2,flow_queue=130000", 8, 1);
}

/* PROTOCOL R381 R406 */
TEST_IN(limits__policed, NULL, play_close)
{
	over_most("spines=1,up_gbps=0.4,queue=256k,flow_gbps=0.05,flow_burst=76k", 8, 0.5);
	over_most("spines=1,up_gbps=1,queue=256k,flow_gbps=0.05,flow_burst=76k", 8, 2.5);
	/* Where the queue of the instance drops nothing. */
	over_most("spines=1,up_gbps=1,queue=1m,flow_gbps=0.05,flow_burst=76k,bytes=64m", 8, 0.5);
}

/* Links that are much slower than the NIC, each taken by many 5-tuples. PROTOCOL R380 */
TEST_IN(limits__slow_links, NULL, play_close)
{
	over_most("spines=4,up_gbps=0.25,queue=312k", 10, 0.5);
	over_most("spines=8,up_gbps=0.125,queue=156k", 20, 1);
}

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/*
 * Links of unequal rates, among which switches choose by a hash: each of nine seeds uses 0.9 of all of them, and the
 * median 0.97. Headers take 5.3 % beyond the ideal. PROTOCOL R380 R403
 */
TEST_IN(limits__unequal_links, NULL, play_close)
{
	double v[UCCL_FAB_FIGURES], used[9];

	for (int seed = 1; seed <= 9; seed++) {
		one_way("spines=4,spine_gbps=0.1/0.25/0.25/0.4,queue=312k,bytes=128m", seed, v);
		used[seed - 1] = 1.053 / (1 + v[UCCL_FAB_OVER] / 100);
		assert_true(v[UCCL_FAB_AGAIN] < 0.5);
	}
	qsort(used, 9, sizeof(*used), by_size);
	assert_true(used[4] >= 0.97);
	assert_true(used[0] >= 0.9);
}

TESTS_MAIN_IN(NULL, play_close)
