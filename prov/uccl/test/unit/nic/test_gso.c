/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nic/gso.h"

#include "../tests.h"

#include <string.h>

#define N 64

static struct uccl_nic_addr here = {.ip = {1}, .port = 7}, same, there = {.ip = {2}, .port = 7};
static struct uccl_tx v[N];

static int setup(void **state)
{
	memset(v, 0, sizeof(v));
	same = here;
	for (int i = 0; i < N; i++) {
		v[i].kind = UCCL_TX_PACKET;
		v[i].label = 5;
		v[i].hdr_len = 64;
		v[i].payload_len = 1408;
		v[i].to = i % 2 ? &same : &here;
	}
	return 0;
}

TEST_IN(len__alike, setup, NULL)
{
	assert_int_equal(uccl_train_len(v, 20, UCCL_TRAIN_BYTES), 20);
	assert_int_equal(uccl_train_len(v, 1, UCCL_TRAIN_BYTES), 1);
	/* 65000 bytes hold 44 of 1472. */
	assert_int_equal(uccl_train_len(v, N, UCCL_TRAIN_BYTES), 44);
	assert_int_equal(uccl_train_len(v, N, 0), 1);
}

/* Only the last may be shorter, and none longer or empty. */
TEST_IN(len__lengths, setup, NULL)
{
	v[3].payload_len = 100;
	assert_int_equal(uccl_train_len(v, 20, UCCL_TRAIN_BYTES), 4);
	v[2].tail_len = 1;
	assert_int_equal(uccl_train_len(v, 20, UCCL_TRAIN_BYTES), 2);
	v[1].hdr_len = 0;
	v[1].payload_len = 0;
	assert_int_equal(uccl_train_len(v, 20, UCCL_TRAIN_BYTES), 1);
	v[0].payload_len = UCCL_TRAIN_PACKET;
	v[1] = v[0];
	assert_int_equal(uccl_train_len(v, 20, UCCL_TRAIN_BYTES), 1);
}

TEST_IN(len__neighbours, setup, NULL)
{
	v[9].single = true;
	assert_int_equal(uccl_train_len(v, 20, UCCL_TRAIN_BYTES), 9);
	assert_int_equal(uccl_train_len(v + 9, 11, UCCL_TRAIN_BYTES), 1);
	v[7].to = &there;
	assert_int_equal(uccl_train_len(v, 20, UCCL_TRAIN_BYTES), 7);
	v[5].label = 6;
	assert_int_equal(uccl_train_len(v, 20, UCCL_TRAIN_BYTES), 5);
	v[2].kind = UCCL_TX_WRITE;
	assert_int_equal(uccl_train_len(v, 20, UCCL_TRAIN_BYTES), 2);
}

/* A train has one traffic class. */
TEST_IN(len__marks, setup, NULL)
{
	v[2].ect = true;
	assert_int_equal(uccl_train_len(v, 20, UCCL_TRAIN_BYTES), 2);
	v[0].ect = v[1].ect = true;
	assert_int_equal(uccl_train_len(v, 20, UCCL_TRAIN_BYTES), 3);
	v[1].control = true;
	assert_int_equal(uccl_train_len(v, 20, UCCL_TRAIN_BYTES), 1);
	v[0].control = true;
	assert_int_equal(uccl_train_len(v, 20, UCCL_TRAIN_BYTES), 2);
}

/* What its flow made from the packet before it is not looked at, only counted; but what was before it may have left. */
TEST_IN(len__follows, setup, NULL)
{
	for (int i = 0; i < N; i++) {
		v[i].to = &here;
		v[i].cookie = 9;
		v[i].burst = i ? UCCL_BURST_FOLLOWS : UCCL_BURST_FIRST;
	}
	assert_int_equal(uccl_train_len(v, 20, UCCL_TRAIN_BYTES), 20);
	assert_int_equal(uccl_train_len(v + 1, 20, UCCL_TRAIN_BYTES), 20);
	assert_int_equal(uccl_train_len(v, N, UCCL_TRAIN_BYTES), 44);
	assert_int_equal(uccl_train_len(v, N, 44 * 1472), 44);
	assert_int_equal(uccl_train_len(v, N, 44 * 1472 - 1), 43);
	assert_int_equal(uccl_train_len(v, N, 1472), 1);
	assert_int_equal(uccl_train_len(v, N, 100), 1);
	assert_int_equal(uccl_train_len(v, N, 0), 1);
	/* The last of a chunk, which is shorter. */
	v[9].burst = UCCL_BURST_NONE;
	v[9].payload_len = 7;
	assert_int_equal(uccl_train_len(v, 20, UCCL_TRAIN_BYTES), 10);
	assert_int_equal(uccl_train_len(v, N, 9 * 1472 + 71), 10);
	assert_int_equal(uccl_train_len(v, N, 9 * 1472 + 70), 9);
	/* Of another chunk, peer or way than what is before it now. */
	v[7].cookie = 10;
	v[7].label = 6;
	assert_int_equal(uccl_train_len(v, 20, UCCL_TRAIN_BYTES), 7);
	v[5].to = &there;
	assert_int_equal(uccl_train_len(v, 20, UCCL_TRAIN_BYTES), 5);
	v[0].single = true;
	assert_int_equal(uccl_train_len(v, 20, UCCL_TRAIN_BYTES), 1);
}

static void rows_are(int n, uint32_t most, uint32_t bytes, int things, uint32_t packets)
{
	uint32_t got;

	assert_int_equal(uccl_train_rows(v, n, most, bytes, &got), things);
	assert_int_equal(got, packets);
}

/* Rows stay whole, and their packets are counted. Without rows it is as above. */
TEST_IN(rows__whole, setup, NULL)
{
	rows_are(20, 64, UCCL_TRAIN_BYTES, 20, 20);
	rows_are(N, 64, UCCL_TRAIN_BYTES, 44, 44);
	rows_are(N, 30, UCCL_TRAIN_BYTES, 30, 30);
	rows_are(N, 64, 0, 1, 1);
	v[0].row = 42;
	rows_are(20, 64, UCCL_TRAIN_BYTES, 2, 44);
	rows_are(1, 64, UCCL_TRAIN_BYTES, 1, 43);
	rows_are(20, 43, UCCL_TRAIN_BYTES, 1, 43);
	rows_are(20, 1, UCCL_TRAIN_BYTES, 1, 43);
	v[1].row = 1;
	rows_are(20, 64, UCCL_TRAIN_BYTES, 1, 43);
	v[0].row = 20;
	v[1].row = 21;
	v[2].payload_len = 100;
	rows_are(20, 64, UCCL_TRAIN_BYTES, 3, 44);
	v[2].row = 1;
	rows_are(20, 64, UCCL_TRAIN_BYTES, 2, 43);
	v[2].row = 0;
	v[1].label = 6;
	rows_are(20, 64, UCCL_TRAIN_BYTES, 1, 21);
	v[1].label = 5;
	v[1].single = true;
	rows_are(20, 64, UCCL_TRAIN_BYTES, 1, 21);
	v[1].single = false;
	v[1].to = &there;
	rows_are(20, 64, UCCL_TRAIN_BYTES, 1, 21);
	v[0].single = true;
	rows_are(20, 64, UCCL_TRAIN_BYTES, 1, 21);
}

/* Which of 12 are hit: a train of four, a single one, a train of three with a shorter last, a train of four. */
static void hits(enum uccl_train_fault fault, const char *want)
{
	struct uccl_train_walk w = {0};

	setup(NULL);
	v[4].single = true;
	v[7].payload_len = 10;
	for (int i = 0; i < 12; i++) {
		bool hit = uccl_train_hit(&w, v, 12, i, UCCL_TRAIN_BYTES, fault);

		assert_int_equal(hit, want[i] == 'x');
		/* What was asked about may be gone. */
		memset(&v[i], 0xff, sizeof(v[i]));
	}
}

TEST_IN(hit__each_fault, setup, NULL)
{
	hits(UCCL_TRAIN_WHOLE, "............");
	hits(UCCL_TRAIN_DROP, "xxxx.xxxxxxx");
	hits(UCCL_TRAIN_CORRUPT, "xxxx.xxxxxxx");
	hits(UCCL_TRAIN_FIRST, ".xxx..xx.xxx");
	hits(UCCL_TRAIN_LAST, "xxx..xx.xxx.");
	hits(UCCL_TRAIN_EQUAL, "xxxx....xxxx");
}

TESTS_MAIN
