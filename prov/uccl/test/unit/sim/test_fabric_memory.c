/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "sim/fabric_memory.h"

#include <stdint.h>
#include <string.h>
#include "../tests.h"

#include "net.h"

#define PKT 4000
/* What reaches a switch after it said stop, of a link of 400 Gb/s and 500 ns: 2 * 500 ns, and three packets. */
#define HEADROOM (2 * 25000 + 3 * PKT)

static void lossless(void)
{
	t = tree(2);
	t.pfc = true;
	t.xoff_bytes = 20000;
	t.headroom_bytes = HEADROOM;
}

/* `count` packets from each of `senders` hosts, by turns. */
static void burst(const uint32_t *senders, uint32_t k, uint32_t dst, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t j = 0; j < k; j++)
			send(senders[j], dst, PKT, (uint16_t)j, UCCL_FAB_DATA, i);
}

/* All is over: nothing waits, nobody stands still. */
static void at_rest(void)
{
	for (uint32_t i = 0; i < n.nports; i++) {
		assert_int_equal(n.mem->holds[i].bytes, 0);
		assert_int_equal(n.mem->holds[i].over, 0);
		assert_false(n.mem->holds[i].asked);
		assert_false(n.ports[i].stopped);
		assert_int_equal(n.ports[i].bytes[UCCL_FAB_DATA], 0);
	}
	for (uint32_t v = 0; v < n.nnodes; v++)
		assert_int_equal(n.mem->used[v], 0);
	assert_int_equal(n.mem->msgs.used, 0);
	assert_false(uccl_fab_memory_circle(&n));
}

/* Nobody pays for what nobody asked for; and what cannot be is refused. */
TEST_IN(init__only_if_asked, two_tiers, close_tree)
{
	open_tree(1);
	assert_null(n.mem);
	t.shared_bytes = 1000;
	tree_refused();
	t.alpha = 1;
	open_tree(1);
	assert_non_null(n.mem);
	lossless();
	t.xoff_bytes = 0;
	tree_refused();
}

/* The longest of `queues` that are too full at once; everything arrived or was dropped. */
static uint64_t longest(double alpha, uint32_t queues)
{
	uint64_t most = 0;
	uint32_t down;

	t.hosts_per_tor = 16;
	t.shared_bytes = 240000;
	t.alpha = alpha;
	t.queue_bytes = 1; /* of no meaning here */
	open_tree(1);
	for (uint32_t q = 0; q < queues; q++)
		burst((const uint32_t[]){8 + 2 * q, 9 + 2 * q}, 2, q, 200);
	run();
	assert_int_equal(got.delivered + got.lost, 400 * queues);
	assert_true(got.lost > 0);
	assert_int_equal(n.dropped, got.lost);
	assert_true(n.mem->most_used <= t.shared_bytes);
	at_rest();
	down = n.nodes[uccl_fab_switch(&n, 1, 0)].down;
	for (uint32_t q = 0; q < queues; q++)
		most = n.ports[down + q].max_queue > most ? n.ports[down + q].max_queue : most;
	return most;
}

/* Choudhury and Hahne: Q full queues have alpha / (1 + Q alpha) of the memory each. Whole packets fit. */
TEST_IN(admits__dynamic_thresholds, two_tiers, close_tree)
{
	assert_in_range(longest(1, 1), 120000 - PKT, 120000);
	assert_in_range(longest(2, 1), 160000 - PKT, 160000);
	assert_in_range(longest(0.5, 1), 80000 - PKT, 80000);
	assert_in_range(longest(1, 3), 60000 - PKT, 60000 + PKT);
	/* However large alpha is, there is no more than there is (at_rest and most_used look). */
	assert_in_range(longest(100, 1), 230000, 240000);
}

/* Seven hosts send to one, from its tor and others: all arrives, and no link ever takes more than its headroom. */
TEST_IN(take__nothing_is_dropped, two_tiers, close_tree)
{
	const uint32_t senders[] = {1, 2, 4, 5, 8, 12, 28};

	lossless();
	open_tree(1);
	burst(senders, 7, 0, 300);
	run();
	assert_int_equal(got.delivered, 2100);
	assert_int_equal(n.dropped, 0);
	assert_true(n.mem->pauses > 10);
	assert_true(n.mem->stopped > 0 && n.mem->nics > 0 && n.mem->nics <= n.mem->stopped);
	assert_true(n.mem->most_over <= HEADROOM);
	at_rest();
	/* A link really sends on for the time that a stop takes to reach it, and what is on it comes, too. */
	t.headroom_bytes = HEADROOM - 25000;
	open_tree(1);
	burst(senders, 7, 0, 300);
	run();
	assert_true(n.dropped > 0);
	assert_int_equal(got.delivered + got.lost, 2100);
	at_rest();
}

/* The same where memory is shared: what a link may have of it shrinks while it is told to stop. */
TEST_IN(take__shared, two_tiers, close_tree)
{
	const uint32_t senders[] = {1, 2, 4, 5, 8, 12, 28};

	lossless();
	t.shared_bytes = 200000;
	for (t.alpha = 0.125; t.alpha < 10; t.alpha *= 4) {
		open_tree(1);
		burst(senders, 7, 0, 300);
		burst(senders, 7, 3, 300);
		run();
		assert_int_equal(got.delivered, 4200);
		assert_int_equal(n.dropped, 0);
		assert_true(n.mem->pauses > 10);
		assert_true(n.mem->most_over <= HEADROOM);
		assert_true(n.mem->most_used <= t.shared_bytes);
		at_rest();
	}
}

/* When the last packet of 40 from host 1 to host 3, which nobody else wants, is there. */
static uint64_t bystander(bool pfc)
{
	lossless();
	t.pfc = pfc;
	t.queue_bytes = 10000000;
	open_tree(1);
	for (uint32_t i = 0; i < 400; i++) {
		send(1, 0, PKT, 1, UCCL_FAB_DATA, i);
		send(2, 0, PKT, 1, UCCL_FAB_DATA, i);
		if (i % 10 == 0)
			send(1, 3, PKT, 1, UCCL_FAB_DATA, i);
	}
	run();
	assert_int_equal(got.delivered, 840);
	return got.at[3];
}

/* Head-of-line blocking: who stands behind a stopped one on its link waits, whoever it is for. */
TEST_IN(heard__blocks_others, two_tiers, close_tree)
{
	uint64_t alone = bystander(false), behind = bystander(true);

	/* 440 packets of the link instead of 840, at most, of the receiver's. */
	assert_true(behind > alone * 3 / 2);
}

/* Acknowledgements are not of the class that is stopped. */
TEST_IN(heard__control_goes_on, two_tiers, close_tree)
{
	uint32_t early = 0;

	lossless();
	open_tree(1);
	burst((const uint32_t[]){1, 2, 4}, 3, 0, 300);
	while (!n.ports[1].stopped)
		assert_true(uccl_fab_step(&n));
	send(1, 3, 84, 1, UCCL_FAB_CONTROL, 1);
	while (!got.at[3]) {
		early += n.ports[1].stopped;
		assert_true(uccl_fab_step(&n));
	}
	/* It left, and arrived at the tor, while data did not. */
	assert_true(early > 0);
	assert_true(n.ports[1].bytes[UCCL_FAB_DATA] > 0);
	run();
	assert_int_equal(got.delivered, 901);
	at_rest();
}

/* Four ports, from tor to spine to tor and back: what came from each waits for the next. No tree routes like that. */
TEST_IN(circle__found, two_tiers, close_tree)
{
	struct uccl_fab_pkt pkts[4];
	uint32_t port[4], tor[2], spine[2];

	lossless();
	open_tree(1);
	for (uint32_t i = 0; i < 2; i++) {
		tor[i] = uccl_fab_switch(&n, 1, i);
		spine[i] = uccl_fab_switch(&n, 2, i);
	}
	port[0] = n.nodes[tor[0]].up;
	port[1] = n.nodes[spine[0]].down + 1;
	port[2] = n.nodes[tor[1]].up + 1;
	port[3] = n.nodes[spine[1]].down;
	memset(pkts, 0, sizeof(pkts));
	for (uint32_t i = 0; i < 4; i++) {
		n.ports[port[i]].stopped = true;
		assert_false(uccl_fab_memory_circle(&n));
		/* It came over the one before. */
		pkts[i].port = port[(i + 3) % 4];
		if (i)
			n.ports[port[i]].head[UCCL_FAB_DATA] = &pkts[i];
	}
	assert_false(uccl_fab_memory_circle(&n));
	n.ports[port[0]].head[UCCL_FAB_DATA] = &pkts[0];
	assert_true(uccl_fab_memory_circle(&n));
	/* One of them sends, so the others will. */
	n.ports[port[2]].stopped = false;
	assert_false(uccl_fab_memory_circle(&n));
}

TESTS_MAIN_IN(NULL, close_tree)
