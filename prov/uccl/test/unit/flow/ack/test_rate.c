/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/ack/rate.h"

#include "../../tests.h"

static struct uccl_rate r;
static struct uccl_rate_stamp s[100];
static uint64_t sent[100];

static void send_at(int i, bool idle, uint64_t now)
{
	uccl_rate_sent(&r, &s[i], idle, now);
	sent[i] = now;
}

static struct uccl_rate_sample ack_at(int i, uint64_t now)
{
	uccl_rate_acked(&r, &s[i], sent[i], 1000);
	return uccl_rate_sample(&r, 10, now);
}

static int start(void **state)
{
	r = (struct uccl_rate){ 0 };
	return 0;
}

TEST_IN(sample__nothing_acked, start, NULL)
{
	send_at(0, true, 100);
	assert_int_equal(uccl_rate_sample(&r, 10, 200).ns, 0);
	assert_int_equal(r.delivered_ns, 100);
}

/* Ten leave at once, and come one every 50: the network's rate, not the burst's. */
TEST_IN(sample__of_a_burst, start, NULL)
{
	for (int i = 0; i < 10; i++)
		send_at(i, i == 0, 1000);
	for (int i = 0; i < 10; i++) {
		struct uccl_rate_sample got = ack_at(i, 2000 + 50u * (unsigned int)i);

		assert_int_equal(got.prior, 0);
		assert_int_equal(got.bytes, 1000 * (i + 1));
		assert_int_equal(got.ns, 1000 + 50 * i);
		assert_false(got.limited);
	}
}

/* One every 50, for long: the rate is exact. And so it is when acknowledgements come ten at a time. */
TEST_IN(sample__steady, start, NULL)
{
	struct uccl_rate_sample got = { 0 };

	for (int i = 0; i < 100; i++) {
		if (i >= 20)
			got = ack_at(i - 20, 1000 + 50u * (unsigned int)i);
		send_at(i, i == 0, 1000 + 50u * (unsigned int)i);
	}
	assert_int_equal(got.bytes * 50, got.ns * 1000);
	for (int i = 80; i < 90; i++)
		uccl_rate_acked(&r, &s[i], sent[i], 1000);
	got = uccl_rate_sample(&r, 10, 1000 + 50 * 109);
	assert_int_equal(got.bytes * 50, got.ns * 1000);
}

/* Acknowledgements that come together make no rate above that of sending. */
TEST_IN(sample__no_more_than_was_sent, start, NULL)
{
	struct uccl_rate_sample got;

	for (int i = 0; i < 10; i++)
		send_at(i, i == 0, 1000 + 500u * (unsigned int)i);
	ack_at(0, 5600);
	for (int i = 1; i < 10; i++)
		uccl_rate_acked(&r, &s[i], sent[i], 1000);
	got = uccl_rate_sample(&r, 10, 5601);
	assert_int_equal(got.bytes, 10000);
	assert_int_equal(got.ns, 4601);
	/* One that left just before was acknowledged late: its time counts for the next, too. */
	send_at(10, true, 10000);
	ack_at(10, 12000);
	send_at(11, false, 12000);
	got = ack_at(11, 12100);
	assert_int_equal(got.bytes, 1000);
	assert_int_equal(got.ns, 2000);
}

/* The newest of an acknowledgement makes the sample, in whatever order they are told. */
TEST_IN(sample__of_the_newest, start, NULL)
{
	struct uccl_rate_sample got;

	send_at(0, true, 1000);
	send_at(1, false, 1000);
	ack_at(0, 1100);
	send_at(2, false, 1200);
	uccl_rate_acked(&r, &s[2], sent[2], 1000);
	uccl_rate_acked(&r, &s[1], sent[1], 1000);
	got = uccl_rate_sample(&r, 10, 1300);
	assert_int_equal(got.prior, 1000);
	assert_int_equal(got.bytes, 2000);
	assert_int_equal(got.ns, 200);
}

/* In less than a round trip nothing is delivered that was sent then: it was sent before, and lost, it seemed. */
TEST_IN(sample__too_short, start, NULL)
{
	send_at(0, true, 1000);
	uccl_rate_acked(&r, &s[0], sent[0], 1000);
	assert_int_equal(uccl_rate_sample(&r, 51, 1050).ns, 0);
	send_at(0, true, 2000);
	uccl_rate_acked(&r, &s[0], sent[0], 1000);
	assert_int_equal(uccl_rate_sample(&r, 50, 2050).ns, 50);
}

/* Nothing waited: what leaves until all that was in flight is delivered says less than the network can. */
TEST_IN(limited__until_delivered, start, NULL)
{
	send_at(0, true, 1000);
	send_at(1, false, 1000);
	uccl_rate_limited(&r, 2000);
	send_at(2, false, 1010);
	send_at(3, false, 1020);
	assert_false(ack_at(0, 1100).limited);
	send_at(5, false, 1105);
	assert_false(ack_at(1, 1110).limited);
	assert_true(ack_at(2, 1120).limited);
	send_at(4, false, 1130);
	assert_true(ack_at(3, 1140).limited);
	assert_true(ack_at(5, 1200).limited);
	assert_false(ack_at(4, 1240).limited);
}

/* A message now and then: each is limited by itself. */
TEST_IN(limited__idle, start, NULL)
{
	for (int i = 0; i < 50; i++) {
		send_at(i, true, 1000u * (unsigned int)(i + 1));
		assert_int_equal(ack_at(i, 1000u * (unsigned int)(i + 1) + 100).limited, i > 0);
		uccl_rate_limited(&r, 0);
	}
}

/* The mean of what samples say, the latest of which counts most; a short one less than a long one. */
TEST_IN(in__follows, start, NULL)
{
	assert_int_equal(uccl_rate_in(&r, 1000), 0);
	for (int i = 0; i < 10; i++) {
		send_at(i, true, 1000 + 100u * (unsigned int)i);
		ack_at(i, 1050 + 100u * (unsigned int)i);
	}
	assert_in_range(uccl_rate_in(&r, 50), 980, 1000);
	assert_in_range(uccl_rate_in(&r, 5000), 98000, 100000);
	/* Too short for a sample. */
	send_at(10, true, 5000);
	ack_at(10, 5005);
	assert_in_range(uccl_rate_in(&r, 50), 980, 1000);
	/* Half as fast from now on. */
	for (int i = 11; i < 40; i++) {
		send_at(i, true, 10000 + 200u * (unsigned int)i);
		ack_at(i, 10100 + 200u * (unsigned int)i);
	}
	assert_in_range(uccl_rate_in(&r, 50), 500, 520);
}

TESTS_MAIN
