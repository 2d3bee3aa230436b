/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/wire/wire.h"
#include "lanes/lanes.h"
#include "sim/options.h"

#include "../tests.h"

#include <rdma/fi_errno.h>
#include "flow/policy.h"
#include <string.h>

TEST(set__reads_pairs)
{
	struct uccl_sim_options o;

	uccl_sim_options_default(&o);
	assert_int_equal(uccl_sim_options_set(&o, ""), 0);
	assert_int_equal(uccl_sim_options_set(&o, "nodes=5,loss=0.25 mtu=9000, routes=3"), 0);
	assert_true(o.nodes == 5 && o.loss == 0.25 && o.mtu == 9000 && o.routes == 3);
}

/* By name, and by number as seeds were once printed. */
TEST(set__policies)
{
	static const char *const bad[] = {"cc=nosuch", "cc=", "cc=6", "cc=-1", "cc=1.5", "path=swift", "credit=5",
					  "cc=swiftx", "cc=swif"};
	struct uccl_sim_options o, numbers;

	uccl_sim_options_default(&o);
	numbers = o;
	assert_int_equal(uccl_sim_options_set(&o, "cc=nscc,path=reps credit=eqds"), 0);
	assert_true(o.cc == 3 && o.path == 1 && o.credit == 2);
	assert_int_equal(uccl_sim_options_set(&numbers, "cc=3 path=1,credit=2"), 0);
	assert_memory_equal(&o, &numbers, sizeof(o));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(uccl_sim_options_set(&o, bad[i]), -FI_EINVAL);
}

TEST(set__refuses_nonsense)
{
	static const char *const bad[] = {"nodes",  "nodes=", "nodes=x",  "nodes=3x",
					  "node=3", "=3",     "nodess=3", "loss 3"};
	struct uccl_sim_options o;
	size_t i;

	uccl_sim_options_default(&o);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(uccl_sim_options_set(&o, bad[i]), -FI_EINVAL);
}

TEST(draw__is_the_seed)
{
	struct uccl_sim_options a, b;
	uint64_t seed, same = 0;

	for (seed = 0; seed < 50; seed++) {
		uccl_sim_options_draw(&a, seed, NULL);
		uccl_sim_options_draw(&b, seed, NULL);
		assert_memory_equal(&a, &b, sizeof(a));
		uccl_sim_options_draw(&b, seed + 1, NULL);
		same += !memcmp(&a, &b, sizeof(a));
	}
	assert_int_equal(same, 0);
}

TEST(draw__forced_options_win)
{
	struct uccl_sim_options o;
	uint64_t seed;

	for (seed = 0; seed < 50; seed++) {
		uccl_sim_options_draw(&o, seed, "nic=1,nodes=3,loss=0.125");
		assert_true(o.nic == 1 && o.nodes == 3 && o.loss == 0.125);
	}
}

/* With lanes messages are long, but no more than a packet a round trip carries in time, unless they are few. */
TEST(draw__lanes_come_through)
{
	struct uccl_sim_options o;
	int many = 0;

	for (uint64_t seed = 0; seed < 2000; seed++) {
		double rtt_us, packet;

		uccl_sim_options_draw(&o, seed, "lanes=2");
		rtt_us = 2 * (o.delay_us + o.spread_us + o.jitter_us + o.poll_us + o.read_us) + 1;
		packet = o.chunk > 0 && o.chunk < o.mtu ? o.chunk : o.mtu - UCCL_HDR_LEN;
		assert_true(o.size_max >= 3 * UCCL_STRIPE_BYTES);
		if (o.messages <= 4)
			continue;
		many++;
		assert_true(o.messages * o.big * o.size_max / 2 * rtt_us / packet <= o.bound_ms * 1000 / 2);
	}
	assert_true(many > 1000);
}

/* A tenth of all seeds foresees places; the others, and all with predict=0, are what they would be without. */
TEST(draw__foresight)
{
	struct uccl_sim_options o, without;
	int drawn = 0;

	for (uint64_t seed = 0; seed < 500; seed++) {
		uccl_sim_options_draw(&without, seed, "predict=0");
		assert_true(without.placements_most == 0 && without.misplaced == 0);
		uccl_sim_options_draw(&o, seed, NULL);
		drawn += o.predict > 0;
		if (o.predict <= 0)
			assert_memory_equal(&o, &without, sizeof(o));
		uccl_sim_options_draw(&o, seed, "predict=1,mtu=30000");
		assert_true(o.nic == 0 && o.placements > 0 && o.chunk == 0 && o.mtu == 30000 && o.size_max >= 262144);
		assert_true(!o.fifo || o.reorder == 0);
		assert_true(o.loss == without.loss);
	}
	assert_in_range(drawn, 30, 70);
}

/* A tenth of those whose NIC carries packets has lanes. The others, and all with lanes=0, are as they were. */
TEST(draw__lanes)
{
	struct uccl_sim_options o, without;
	int drawn[3] = {0}, packets = 0;

	for (uint64_t seed = 0; seed < 2000; seed++) {
		uccl_sim_options_draw(&without, seed, "lanes=0");
		assert_true(without.lanes == 0 && without.cmd_us == 0 && without.lane_sleeps == 0);
		packets += without.nic == 0 && !without.keyless;
		uccl_sim_options_draw(&o, seed, NULL);
		assert_in_range((int)o.lanes, 0, 2);
		drawn[(int)o.lanes]++;
		if (o.lanes <= 0)
			assert_memory_equal(&o, &without, sizeof(o));
		else
			assert_true(o.nic == 0 && without.nic == 0 && !without.keyless && o.loss == without.loss);
		/* what is forced is not for lanes to change */
		uccl_sim_options_draw(&o, seed, "nic=1");
		assert_true(o.nic == 1 && o.lanes == 0);
		uccl_sim_options_draw(&o, seed, "keyless=1");
		assert_true(o.keyless == 1 && o.lanes == 0);
		uccl_sim_options_draw(&o, seed, "lanes=2");
		assert_true(o.lanes == 2 && o.nic == 0);
	}
	/* A build without lanes draws none. */
	for (int n = 1; n <= 2; n++)
		assert_in_range(drawn[n], uccl_lanes_built() ? packets / 30 : 0, uccl_lanes_built() ? packets / 15 : 0);
}

/* What is printed on a failure makes the same run when it is read again. */
TEST(print__round_trip)
{
	struct uccl_sim_options a, b;
	char text[8192];
	uint64_t seed;

	for (seed = 0; seed < 200; seed++) {
		uccl_sim_options_draw(&a, seed, NULL);
		assert_true(uccl_sim_options_print(&a, text, sizeof(text)) < sizeof(text));
		uccl_sim_options_default(&b);
		assert_int_equal(uccl_sim_options_set(&b, text), 0);
		assert_memory_equal(&a, &b, sizeof(a));
	}
	uccl_sim_options_default(&a);
	uccl_sim_options_print(&a, text, sizeof(text));
	assert_string_equal(text, "cc=swift path=pow2 credit=none");
	a.nodes = 4;
	a.cc = 5;
	assert_int_equal(uccl_sim_options_print(&a, NULL, 0), strlen("nodes=4 cc=bbr path=pow2 credit=none"));
	uccl_sim_options_print(&a, text, sizeof(text));
	assert_non_null(strstr(text, "nodes=4"));
	assert_non_null(strstr(text, "cc=bbr path=pow2 credit=none"));
}

/* A seed names its policies, whatever others there are; and none is forgotten. */
TEST(names__fixed)
{
	const char *const *const fixed[] = {uccl_sim_cc, uccl_sim_path, uccl_sim_credit};
	const char *const *const all[] = {uccl_cc_names(), uccl_path_names(), uccl_credit_names()};
	struct uccl_sim_options o;
	int later = 0, newest = 0;

	for (int kind = 0; kind < UCCL_POLICY_KINDS; kind++)
		for (const char *const *n = all[kind]; *n; n++) {
			const char *const *f = fixed[kind];

			while (*f && strcmp(*f, *n))
				f++;
			assert_non_null(*f);
		}
	for (uint64_t seed = 0; seed < 200; seed++) {
		uccl_sim_options_draw(&o, seed, NULL);
		assert_true(o.cc < 6 && o.path < 4 && o.credit < 5);
		later += o.cc >= 5;
		newest += o.credit >= 4;
	}
	assert_in_range(later, 10, 30);
	assert_in_range(newest, 10, 30);
	uccl_sim_options_draw(&o, 9, NULL);
	assert_string_equal(uccl_sim_cc[(int)o.cc], "cubic");
	assert_string_equal(uccl_sim_path[(int)o.path], "hash");
	assert_string_equal(uccl_sim_credit[(int)o.credit], "eqds");
}

static uint32_t lines;

static void help_line(const char *name, double value, const char *text)
{
	assert_true(*name && *text);
	lines++;
}

TEST(help__shows_each)
{
	uccl_sim_options_help(help_line);
	assert_int_equal(lines, sizeof(struct uccl_sim_options) / sizeof(double));
}

TESTS_MAIN
