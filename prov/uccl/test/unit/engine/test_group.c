/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Groups of engines, in virtual time: what an operation of all with all costs in packets, and on how many labels. Every
 * packet counts, also those of acknowledgements, credit and probes.
 */
#include "lan.h"
#include "../tests.h"

#define GROUP 8
#define US UCCL_NS_PER_US
#define BYTES_MAX 16384

static uint8_t out[GROUP][BYTES_MAX], in[GROUP][GROUP][BYTES_MAX];

/* A group with the policies that are shipped for kernel sockets. */
static struct lan *group(void)
{
	struct lan *l = lan_new();

	for (int i = 0; i < GROUP; i++) {
		l->node[i].cfg.path = "reps";
		l->node[i].cfg.credit = "auto";
		l->node[i].cfg.cc = "swift";
		l->node[i].link_bps = 10000000000;
		lan_open(l, i);
		lan_fill(out[i], BYTES_MAX, (uint32_t)i);
	}
	return l;
}

static bool all_received(const struct lan *l)
{
	for (int i = 0; i < GROUP; i++)
		if (lan_waiting(l, i) < 2 * (GROUP - 1))
			return false;
	return true;
}

/* A message that is complete when it is copied, as MPI sends short ones. */
static void send_early(struct lan *l, int i, int j, uint32_t bytes)
{
	struct uccl_op *op = lan_op(l, i, UCCL_OP_SEND, UCCL_OPF_EARLY, out[i], bytes);

	assert_non_null(op);
	op->peer = lan_peer(l, i, j);
	op->context = LAN_CTX(2);
	assert_int_equal(uccl_engine_send(l->node[i].e, op, l->now), 0);
}

/* Each sends to each other one: as MPI_Alltoall() does, with `compute` ns behind it. */
static void alltoall(struct lan *l, uint32_t bytes, uint64_t compute)
{
	uint64_t limit = l->now + UCCL_NS_PER_S;

	for (int i = 0; i < GROUP; i++)
		for (int j = 0; j < GROUP; j++)
			if (i != j)
				lan_recv_from(l, i, lan_peer(l, i, j), in[i][j], bytes, LAN_CTX(1));
	for (int i = 0; i < GROUP; i++)
		for (int j = 1; j < GROUP; j++)
			send_early(l, i, (i + j) % GROUP, bytes);
	while (!all_received(l) && l->now < limit)
		lan_round(l);
	assert_true(all_received(l));
	for (int i = 0; i < GROUP; i++) {
		l->node[i].seen = l->node[i].ncomp = 0;
		for (int j = 0; j < GROUP; j++)
			if (i != j)
				lan_check(in[i][j], bytes, (uint32_t)j);
	}
	lan_pass(l, compute);
}

/* So many thousandths of a packet go for a message, in all. */
static uint64_t packets_per_1000(struct lan *l, uint32_t bytes, uint64_t compute)
{
	uint64_t before;

	for (int i = 0; i < 40; i++)
		alltoall(l, bytes, compute);
	before = l->packets;
	for (int i = 0; i < 100; i++)
		alltoall(l, bytes, compute);
	return (l->packets - before) * 1000 / (100 * GROUP * (GROUP - 1));
}

LAN_TEST(alltoall__one_packet_a_message, group())
{
	static const struct { uint32_t bytes, most; } cases[] = {
		{ 8, 1010 }, { 1024, 1010 }, { 4096, 1010 }, { 16384, 1010 } };

	for (size_t i = 0; i < uccl_array_len(cases); i++)
		assert_in_range(packets_per_1000(l, cases[i].bytes, 20 * US), 1000, cases[i].most);
	for (int i = 0; i < GROUP; i++)
		assert_int_equal(lan_stats(l, i)->rtx_packets, 0);
}

/* They compute for a while between two operations: an acknowledgement alone may leave then, and no more. */
LAN_TEST(alltoall__with_pauses, group())
{
	assert_in_range(packets_per_1000(l, 1024, 10000 * US), 1000, 2100);
}

/* Little payload of all peers leaves by the same few labels; engines differ. */
LAN_TEST(alltoall__few_labels, group())
{
	uint32_t all = 0;

	packets_per_1000(l, 1024, 20 * US);
	for (int i = 0; i < GROUP; i++)
		l->node[i].nic->labels = 0;
	packets_per_1000(l, 1024, 20 * US);
	for (int i = 0; i < GROUP; i++) {
		assert_in_range(__builtin_popcount(l->node[i].nic->labels), 1, 4);
		all |= l->node[i].nic->labels;
	}
	assert_true(__builtin_popcount(all) > 4);
}

/* Messages go round in one direction, no payload the other way: merged acknowledgements leave alone, by few labels. */
LAN_TEST(ring__one_way, group())
{
	uint64_t before = 0;

	alltoall(l, 8, 20 * US);
	for (int round = 0; round < 400; round++) {
		if (round == 100) {
			before = l->packets;
			for (int i = 0; i < GROUP; i++)
				l->node[i].nic->labels = 0;
		}
		for (int i = 0; i < GROUP; i++) {
			lan_recv_from(l, i, lan_peer(l, i, (i + GROUP - 1) % GROUP), in[i][0], 8, LAN_CTX(1));
			send_early(l, i, (i + 1) % GROUP, 8);
		}
		lan_pass(l, 20 * US);
		for (int i = 0; i < GROUP; i++) {
			assert_int_equal(lan_waiting(l, i), 2);
			l->node[i].seen = l->node[i].ncomp = 0;
		}
	}
	assert_in_range((l->packets - before) * 1000 / (300 * GROUP), 1000, 1300);
	for (int i = 0; i < GROUP; i++)
		assert_in_range(__builtin_popcount(l->node[i].nic->labels), 1, 4);
}

TESTS_MAIN
