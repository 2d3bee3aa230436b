/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/path/path.h"

#include "../../tests.h"

#include <string.h>

TEST(path_init__clean)
{
	struct uccl_path p;

	memset(&p, 0xff, sizeof(p));
	uccl_path_init(&p, 12);
	assert_int_equal(p.state, UCCL_PATH_ACTIVE);
	assert_int_equal(p.label, 12);
	assert_int_equal(p.next_seq, 1);
	assert_int_equal(p.acked_seq, 0);
	assert_true(p.min_rtt_ns == UINT64_MAX);
	assert_int_equal(p.srtt_ns, 0);
	assert_int_equal(p.inflight, 0);
	assert_int_equal(p.losses, 0);
	assert_false(p.probe_due);
}

TEST(path_rtt__first_sample)
{
	struct uccl_path p;

	uccl_path_init(&p, 0);
	uccl_path_rtt(&p, 8000, 5);
	assert_int_equal(p.srtt_ns, 8000);
	assert_int_equal(p.rttvar_ns, 4000);
	assert_int_equal(p.min_rtt_ns, 8000);
}

/* RFC 6298: alpha 1/8, beta 1/4, the variation from the old mean. */
TEST(path_rtt__smoothing)
{
	struct uccl_path p;

	uccl_path_init(&p, 0);
	uccl_path_rtt(&p, 8000, 5);
	uccl_path_rtt(&p, 16000, 5);
	assert_in_range(p.srtt_ns, 8700, 9000);
	assert_in_range(p.rttvar_ns, 4400, 5000);
	assert_int_equal(p.min_rtt_ns, 8000);
	for (int i = 0; i < 200; i++)
		uccl_path_rtt(&p, 4000, 6);
	assert_int_equal(p.last_rtt_ns, 4000);
	assert_int_equal(p.sampled_ns, 6);
	assert_in_range(p.srtt_ns, 3990, 4010);
	assert_in_range(p.rttvar_ns, 0, 10);
	assert_int_equal(p.min_rtt_ns, 4000);
}

/* A queue that is gone makes nothing late: the variation hardly grows. */
TEST(path_rtt__sooner)
{
	struct uccl_path p;

	uccl_path_init(&p, 0);
	for (int i = 0; i < 200; i++)
		uccl_path_rtt(&p, 32000, 5);
	assert_in_range(p.rttvar_ns, 0, 10);
	uccl_path_rtt(&p, 16000, 6);
	assert_in_range(p.srtt_ns, 29900, 30100);
	assert_in_range(p.rttvar_ns, 490, 510);
	uccl_path_rtt(&p, 46000, 7);
	assert_in_range(p.rttvar_ns, 4300, 4500);
	/* What is well within it is a sample like any other. */
	uccl_path_rtt(&p, p.srtt_ns, 8);
	assert_in_range(p.rttvar_ns, 3200, 3400);
}

/* 0 means "no sample": smoothing never gets there. */
TEST(path_rtt__never_zero)
{
	struct uccl_path p;

	uccl_path_init(&p, 0);
	for (int i = 0; i < 100; i++) {
		uccl_path_rtt(&p, 1, 5);
		assert_true(p.srtt_ns >= 1);
	}
	uccl_path_init(&p, 0);
	uccl_path_rtt(&p, 7, 5);
	for (int i = 0; i < 100; i++) {
		uccl_path_rtt(&p, 1, 5);
		assert_true(p.srtt_ns >= 1);
	}
}

TEST(path_usable__active_only)
{
	struct uccl_path p;

	uccl_path_init(&p, 0);
	assert_true(uccl_path_usable(&p));
	for (int s = UCCL_PATH_SUSPECT; s <= UCCL_PATH_PROBATION; s++) {
		p.state = (uint8_t)s;
		assert_false(uccl_path_usable(&p));
	}
}

/* Sums are compared, so that a report that was overtaken takes nothing back, whatever they wrap to. PROTOCOL R190 */
TEST(path_marked__news_only)
{
	struct uccl_path p;

	uccl_path_init(&p, 0);
	assert_int_equal(uccl_path_take_marks(&p), 0);
	assert_int_equal(uccl_path_marked(&p, 0), 0);
	assert_int_equal(uccl_path_take_marks(&p), 0);
	assert_int_equal(uccl_path_marked(&p, 7), 7);
	assert_int_equal(uccl_path_marked(&p, 7), 0);
	assert_int_equal(uccl_path_marked(&p, 5), 0);
	assert_int_equal(uccl_path_take_marks(&p), 7);
	assert_int_equal(uccl_path_marked(&p, 32774), 32767);
	assert_int_equal(uccl_path_marked(&p, 65535), 32761);
	assert_int_equal(uccl_path_marked(&p, 2), 3);
	assert_int_equal(uccl_path_marked(&p, 65535), 0);
	assert_int_equal(uccl_path_marked(&p, 100), 98);
	/* More than there is room for. */
	assert_int_equal(uccl_path_take_marks(&p), 65535);
	assert_int_equal(uccl_path_take_marks(&p), 0);
}

/* The first packet that is not reported counts, and a report of that one or a later one ends it. */
TEST(path_asks_reported__first)
{
	struct uccl_path_asks a = {0};

	uccl_path_asks_left(&a, 7, 100);
	uccl_path_asks_left(&a, 9, 200);
	assert_int_equal(a.since_ns, 100);
	uccl_path_asks_reported(&a, 6);
	assert_int_equal(a.since_ns, 100);
	uccl_path_asks_reported(&a, 7);
	assert_int_equal(a.since_ns, 0);
}

/* Of the last eight packets it is known which asked for no answer. PROTOCOL R99 */
TEST(path_asks_quiet__eight)
{
	struct uccl_path_asks a = {0};

	uccl_path_asks_quiet(&a, 20);
	uccl_path_asks_quiet(&a, 22);
	assert_true(uccl_path_asks_was_quiet(&a, 22) && uccl_path_asks_was_quiet(&a, 20));
	assert_false(uccl_path_asks_was_quiet(&a, 21) || uccl_path_asks_was_quiet(&a, 23));
	uccl_path_asks_quiet(&a, 28);
	assert_true(uccl_path_asks_was_quiet(&a, 22));
	assert_false(uccl_path_asks_was_quiet(&a, 20));
	uccl_path_asks_quiet(&a, 60);
	assert_true(uccl_path_asks_was_quiet(&a, 60));
	assert_false(uccl_path_asks_was_quiet(&a, 59));
}

/* Only a write that leaves on trial is the trial; only news counts. PROTOCOL R84 */
TEST(path_writes__trial)
{
	struct uccl_path_writes w = {0};

	uccl_path_writes_left(&w, 4);
	assert_int_equal(w.state, UCCL_WRITE_OFF);
	uccl_path_writes_ready(&w, true, 100, 1000);
	assert_true(uccl_path_writes_may(&w, 1000));
	uccl_path_writes_left(&w, 5);
	uccl_path_writes_left(&w, 6);
	assert_true(w.state == UCCL_WRITE_TRYING && w.trial_csn == 5);
	uccl_path_writes_hasten(&w);
	assert_int_equal(w.trial_csn, 5);
	uccl_path_writes_ready(&w, false, 100, 2000);
	assert_int_equal(w.trial_csn, 5);
	assert_false(uccl_path_writes_may(&w, 3000));
	assert_true(uccl_path_writes_acked(&w, 5));
	assert_false(uccl_path_writes_acked(&w, 5) || uccl_path_writes_acked(&w, 4));
	assert_int_equal(w.acked_csn, 6);
}

TESTS_MAIN
