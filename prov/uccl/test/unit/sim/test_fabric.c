/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "sim/fabric.h"

#include <stdint.h>
#include <string.h>
#include "../tests.h"

#include "base/units.h"
#include "net.h"

TEST_IN(init__refuses, two_tiers, close_tree)
{
	t.hosts = 33;
	tree_refused();
	t = tree(3);
	t.tors_per_pod = 4;
	tree_refused();
	t = tree(2);
	t.rails = 3;
	tree_refused();
	t = tree(2);
	t.delay_ps = 0;
	tree_refused();
}

/* Every pair, alone, on several ports: the packet takes exactly as long as its way is. */
static void all_pairs(void)
{
	open_tree(7);
	for (uint32_t a = 0; a < t.hosts; a++)
		for (uint32_t b = 0; b < t.hosts; b++)
			for (uint16_t port = 0; a != b && port < 3; port++) {
				uint64_t began = n.q.now;

				send(a, b, 4000, port, UCCL_FAB_DATA, 0);
				run();
				assert_int_equal(got.at[b] - began, uccl_fab_one_way(&n, a, b, 4000));
			}
	assert_int_equal(got.delivered, 3 * t.hosts * (t.hosts - 1));
	assert_int_equal(got.sent, got.delivered);
}

TEST_IN(route__every_pair, two_tiers, close_tree)
{
	t = tree(3);
	all_pairs();
	t = tree(2);
	all_pairs();
	t.rails = 4;
	all_pairs();
	t = tree(3);
	t.rails = 2;
	all_pairs();
}

/* As many as were asked for, and what goes through their links takes as long as one_way says. */
TEST_IN(host_bps__some_slow, two_tiers, close_tree)
{
	uint32_t slow = 0;

	t.slow_hosts = 5;
	t.slow_bps = 10000000000ull;
	all_pairs();
	open_tree(1);
	for (uint32_t i = 0; i < t.hosts; i++) {
		assert_true(uccl_fab_host_bps(&n, i) == t.host_bps || uccl_fab_host_bps(&n, i) == t.slow_bps);
		slow += uccl_fab_host_bps(&n, i) == t.slow_bps;
	}
	assert_int_equal(slow, 5);
	t.slow_hosts = 33;
	tree_refused();
	t.slow_hosts = 1;
	t.slow_bps = 0;
	tree_refused();
}

/* Spines of unequal rates: each of their links, up and down, and the list begins again where it ends. */
TEST_IN(spine_bps__unequal, two_tiers, close_tree)
{
	const uint64_t fast = 800000000000ull, slow = 100000000000ull;
	uint64_t began;

	t.spine_bps[0] = slow;
	t.spine_bps[1] = fast;
	open_tree(1);
	assert_int_equal(uccl_fab_tor_bps(&t), 2 * (slow + fast));
	assert_int_equal(uccl_fab_up_bps_max(&t), fast);
	for (uint32_t i = 0; i < t.spines; i++) {
		const struct uccl_fab_node *spine = &n.nodes[uccl_fab_switch(&n, 2, i)];

		for (uint32_t k = 0; k < n.tors; k++) {
			const struct uccl_fab_node *tor = &n.nodes[uccl_fab_switch(&n, 1, k)];

			assert_int_equal(n.ports[tor->up + i].ps_per_byte, i % 2 ? 10 : 80);
			assert_int_equal(n.ports[spine->down + k].ps_per_byte, i % 2 ? 10 : 80);
			assert_int_equal(n.ports[spine->down + k].to, uccl_fab_switch(&n, 1, k));
		}
	}
	/* All ways but that through the last spine, which is fast, are closed: a packet takes the least time. */
	for (uint32_t i = 0; i < 3; i++)
		uccl_fab_route(&n, uccl_fab_switch(&n, 2, i), false);
	began = n.q.now;
	send(0, 31, 4000, 1, UCCL_FAB_DATA, 0);
	run();
	assert_int_equal(got.at[31] - began, uccl_fab_one_way(&n, 0, 31, 4000));
	assert_int_equal(got.at[31] - began, 4 * 500000 + 4000 * (2 * 20 + 2 * 10));
	/* More rates than spines, or one that is too low. */
	t.spines = 1;
	tree_refused();
	t.spines = 4;
	t.spine_bps[2] = 1;
	tree_refused();
}

TEST_IN(one_way__counted_by_hand, two_tiers, close_tree)
{
	t = tree(3);
	open_tree(1);
	/* 20 ps a byte on a host's link, 40 between switches. */
	assert_int_equal(uccl_fab_one_way(&n, 0, 1, 1000), 2 * 500000 + 2 * 20000);
	assert_int_equal(uccl_fab_one_way(&n, 0, 3, 1000), 4 * 500000 + 2 * 20000 + 2 * 40000);
	assert_int_equal(uccl_fab_one_way(&n, 0, 53, 1000), 6 * 500000 + 2 * 20000 + 4 * 40000);
}

TEST_IN(tor__rails, two_tiers, close_tree)
{
	t.rails = 4;
	open_tree(1);
	/* Server 0 has NICs 0 to 3, each on a tor of its own; rail 0 of the first four servers shares one. */
	assert_int_equal(uccl_fab_tor(&n, 0), 0);
	assert_int_equal(uccl_fab_tor(&n, 3), 3);
	assert_int_equal(uccl_fab_tor(&n, 12), 0);
	assert_int_equal(uccl_fab_slot(&n, 12), 3);
	assert_int_equal(uccl_fab_tor(&n, 16), 4);
}

/* How many data packets each of the four spines got. */
static void spread(uint64_t seed, uint32_t share[4])
{
	t.queue_bytes = 1u << 30;
	open_tree(seed);
	for (uint16_t port = 0; port < 4096; port++)
		send(0, 31, 1000, port, UCCL_FAB_DATA, 0);
	run();
	assert_int_equal(got.delivered, 4096);
	for (uint32_t i = 0; i < 4; i++)
		share[i] = (uint32_t)n.ports[n.nodes[uccl_fab_switch(&n, 1, 0)].up + i].packets;
}

TEST_IN(route__hash, two_tiers, close_tree)
{
	uint32_t a[4], b[4], c[4];
	double chi = 0;

	spread(1, a);
	spread(1, b);
	spread(2, c);
	assert_memory_equal(a, b, sizeof(a));
	assert_memory_not_equal(a, c, sizeof(a));
	for (int i = 0; i < 4; i++)
		chi += (a[i] - 1024.0) * (a[i] - 1024.0) / 1024;
	/* Three degrees of freedom: beyond 16.3 once in a thousand. */
	assert_true(chi < 16.3);
}

/* Links between aggregation and core that 2048 ports between two hosts use, of nine. */
static uint32_t cores_used(uint8_t ecmp)
{
	uint32_t used = 0;

	t = tree(3);
	t.ecmp = ecmp;
	open_tree(5);
	for (uint16_t port = 0; port < 2048; port++)
		send(0, 53, 1000, port, UCCL_FAB_DATA, port);
	run();
	for (uint32_t i = 0; i < n.nnodes; i++)
		for (uint32_t k = 0; n.nodes[i].tier == 2 && k < n.nodes[i].nup; k++)
			used += n.ports[n.nodes[i].up + k].packets > 0;
	return used;
}

/* Switches that choose alike leave two of three links unused. */
TEST_IN(route__weak_hashes, two_tiers, close_tree)
{
	assert_int_equal(cores_used(UCCL_FAB_ECMP_OWN), 9);
	assert_int_equal(cores_used(UCCL_FAB_ECMP_SAME), 3);
	assert_int_equal(cores_used(UCCL_FAB_ECMP_XOR), 3);
}

/* Two hosts at line rate into one: what does not fit is dropped, and the queue is no longer than it may be. */
TEST_IN(queue__limit, two_tiers, close_tree)
{
	uint32_t port;

	open_tree(1);
	for (uint32_t i = 0; i < 100; i++) {
		send(0, 2, 4000, 1, UCCL_FAB_DATA, i);
		send(1, 2, 4000, 1, UCCL_FAB_DATA, i);
	}
	run();
	port = n.nodes[uccl_fab_switch(&n, 1, 0)].down + 2;
	/* 200 came in the time of 101; 25 fit. */
	assert_int_equal(got.delivered + got.lost, 200);
	assert_int_equal(n.ports[port].max_queue, 100000);
	/* Whether a packet comes before or after one leaves at the same instant is a matter of one. */
	assert_true(got.delivered == 124 || got.delivered == 125);
	assert_int_equal(n.dropped, got.lost);
}

TEST_IN(queue__trims, two_tiers, close_tree)
{
	t.trim = true;
	open_tree(1);
	for (uint32_t i = 0; i < 100; i++) {
		send(0, 2, 4000, 1, UCCL_FAB_DATA, i);
		send(1, 2, 4000, 1, UCCL_FAB_DATA, i);
	}
	run();
	assert_int_equal(got.delivered, 200);
	assert_true(got.trimmed >= 70 && got.trimmed <= 80);
	assert_int_equal(n.trimmed, got.trimmed);
}

TEST_IN(queue__marks, two_tiers, close_tree)
{
	t.queue_bytes = 1000000;
	t.ecn_lo = 100000;
	t.ecn_hi = 300000;
	open_tree(1);
	/* The queue grows by a packet for every two, from 0 to 400,000 bytes. */
	for (uint32_t i = 0; i < 100; i++) {
		send(0, 2, 4000, 1, UCCL_FAB_DATA, i);
		send(1, 2, 4000, 1, UCCL_FAB_DATA, i);
	}
	run();
	assert_int_equal(got.lost, 0);
	/* A quarter surely not, a quarter surely, half of the rest by chance: 100, give or take five deviations. */
	assert_true(got.marked > 75 && got.marked < 125);
	assert_int_equal(n.marked, got.marked);
}

TEST_IN(queue__control_first, two_tiers, close_tree)
{
	open_tree(1);
	for (uint32_t i = 0; i < 10; i++)
		send(0, 5, 4000, 1, UCCL_FAB_DATA, i);
	send(0, 5, 100, 1, UCCL_FAB_CONTROL, 99);
	run();
	/* The first was on its way already. */
	assert_int_equal(got.order[0], 0);
	assert_int_equal(got.order[1], 99);
	for (uint32_t i = 1; i < 10; i++)
		assert_int_equal(got.order[i + 1], i);
}

TEST_IN(fault_switch__hole_and_rate, two_tiers, close_tree)
{
	uint64_t took;

	t.spines = 1;
	open_tree(1);
	uccl_fab_fault_switch(&n, uccl_fab_switch(&n, 2, 0), true, 1);
	send(0, 31, 4000, 1, UCCL_FAB_DATA, 0);
	send(0, 1, 4000, 1, UCCL_FAB_DATA, 0);
	run();
	assert_int_equal(got.delivered, 1);
	assert_int_equal(n.lost, 1);
	uccl_fab_fault_switch(&n, uccl_fab_switch(&n, 2, 0), false, 0.1);
	took = n.q.now;
	send(0, 31, 4000, 1, UCCL_FAB_DATA, 0);
	run();
	took = got.at[31] - took;
	assert_int_equal(took, 4 * 500000 + 4000 * (2 * 20 + 2 * 400));
	uccl_fab_fault_switch(&n, uccl_fab_switch(&n, 2, 0), false, 1);
	took = n.q.now;
	send(0, 31, 4000, 1, UCCL_FAB_DATA, 0);
	run();
	assert_int_equal(got.at[31] - took, uccl_fab_one_way(&n, 0, 31, 4000));
}

TEST_IN(route__leaves_and_returns, two_tiers, close_tree)
{
	uint32_t dead;

	t.queue_bytes = 1u << 30;
	open_tree(1);
	dead = uccl_fab_switch(&n, 2, 2);
	uccl_fab_fault_switch(&n, dead, true, 1);
	uccl_fab_route(&n, dead, false);
	for (uint16_t port = 0; port < 500; port++)
		send(0, 31, 1000, port, UCCL_FAB_DATA, 0);
	run();
	assert_int_equal(got.delivered, 500);
	uccl_fab_route(&n, dead, true);
	for (uint16_t port = 0; port < 500; port++)
		send(0, 31, 1000, port, UCCL_FAB_DATA, 0);
	run();
	assert_true(got.lost > 80 && got.lost < 170);
	for (uint32_t i = 0; i < 4; i++)
		uccl_fab_route(&n, uccl_fab_switch(&n, 2, i), false);
	got.lost = 0;
	send(0, 31, 1000, 1, UCCL_FAB_DATA, 0);
	run();
	assert_int_equal(got.lost, 1);
}

TEST_IN(fault_loss__rates, two_tiers, close_tree)
{
	t.queue_bytes = 1u << 30;
	open_tree(1);
	uccl_fab_fault_loss(&n, 0.01, 0, 0);
	for (uint32_t i = 0; i < 100000; i++)
		send(0, 1, 100, (uint16_t)i, UCCL_FAB_DATA, i);
	run();
	/* Five standard deviations: 157. */
	assert_true(got.lost > 1000 - 157 && got.lost < 1000 + 157);
	memset(&got, 0, sizeof(got));
	uccl_fab_fault_loss(&n, 0, 0.001, 10);
	for (uint32_t i = 0; i < 100000; i++)
		send(0, 1, 100, (uint16_t)i, UCCL_FAB_DATA, i);
	run();
	/* Bad for 10 packets in 1010: 990 of them, in 99 bursts; each may vary by as much as its mean. */
	assert_true(got.lost > 400 && got.lost < 1600);
	assert_true(got.runs > 50 && got.runs < 150);
}

TESTS_MAIN_IN(NULL, close_tree)
