/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "../tests.h"

#include "play.h"

static double over(void)
{
	return ((double)(p.scene.last_ns - p.scene.first_ns) / (double)p.ideal_ns - 1) * 100;
}

/* With the network to itself everyone is nearly ideal, but for a window that is smaller than the network. */
TEST(send__alone)
{
	static const char *const sets[] = {"stack=gbn,hosts=2,tiers=2,per_tor=1,spines=1,senders=1,bytes=16m",
					   "stack=spray,hosts=2,tiers=2,per_tor=1,spines=1,senders=1,bytes=16m"};

	for (int i = 0; i < 2; i++) {
		play("incast", sets[i]);
		assert_true(over() < 1);
		assert_int_equal(p.scene.rtx_bytes, 0);
	}
	/* 128 packets of 4 KiB per round trip, which is 12.3 us and what a packet and its answer take on six links. */
	play("incast", "stack=sr,hosts=54,senders=1,bytes=16m");
	assert_true(over() > 10 && over() < 25);
}

TEST(send__splits)
{
	play("permutation", "stack=gbn,hosts=16,bytes=1m,qps=16");
	assert_int_equal(p.scene.flows, 16 * 16);
	/* Not more of them than packets. */
	play("permutation", "stack=gbn,hosts=16,bytes=10000,qps=16");
	assert_int_equal(p.scene.flows, 16 * 3);
}

/* Go-back-N sends much more again than was lost, the others what was lost. */
TEST(lost__what_comes_again)
{
	uint64_t gbn, lost;

	play("loss", "stack=gbn,hosts=16,bytes=8m,loss=1/512");
	gbn = p.scene.rtx_bytes;
	lost = p.scene.net.lost * 4096;
	assert_true(gbn > 20 * lost);
	play("loss", "stack=sr,hosts=16,bytes=8m,loss=1/512");
	/* Lost acknowledgements (as many again) and tails cost a little more. */
	assert_true(p.scene.rtx_bytes <= p.scene.net.lost * 4096);
	assert_true(p.scene.rtx_bytes > 0);
	play("loss", "stack=spray,hosts=16,bytes=8m,loss=1/512");
	assert_true(p.scene.rtx_bytes <= p.scene.net.lost * 4096);
	assert_true(p.scene.rtx_bytes > 0);
}

/* DCQCN keeps the queue from overflowing where nothing else does: three to one, long enough for its rates to settle. */
TEST(dcqcn__answers_marks)
{
	uint64_t with, without;

	play("incast", "stack=gbn,hosts=16,senders=3,bytes=16m");
	without = p.scene.net.dropped;
	assert_true(without > 0);
	play("incast", "stack=gbn,hosts=16,senders=3,bytes=16m,ecn_lo=100k,ecn_hi=400k");
	with = p.scene.net.dropped;
	assert_true(p.scene.net.marked > 0);
	assert_true(with < without / 2);
}

/* What is cut is asked for at once: nothing is dropped, and as much comes again as was cut, give or take the overdue.
 */
TEST(spray__trimming)
{
	play("incast", "stack=spray,hosts=54,senders=15,bytes=1m,trim=1,ecn_lo=200k,ecn_hi=800k");
	assert_true(p.scene.net.trimmed > 100);
	assert_int_equal(p.scene.net.dropped, 0);
	assert_in_range(p.scene.rtx_bytes, p.scene.net.trimmed * 4096 * 95 / 100,
			p.scene.net.trimmed * 4096 * 105 / 100);
	assert_true(over() < 25);
	/* Windows that together are far beyond the queue must shrink, or cut packets are all that there is. */
	play("incast", "stack=spray,hosts=128,senders=64,bytes=256k,trim=1,ecn_lo=200k,ecn_hi=800k,limit=10000000");
}

/* Packets of one connection take many ways: a permutation does not suffer from collisions as with one path. */
TEST(spray__spreads)
{
	double one;

	play("permutation", "stack=sr,hosts=54,bytes=4m");
	one = over();
	play("permutation", "stack=spray,hosts=54,bytes=4m,ecn_lo=200k,ecn_hi=800k");
	assert_true(over() < 15);
	assert_true(one > 10 * over());
}

TESTS_MAIN_IN(NULL, play_close)
