/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "uccl_doctor_judge.h"

#include "../tests.h"

#include <errno.h>
#include <string.h>

static struct doctor_report report;

/* The level of the only finding; everything that is worse than a note comes with advice. */
static enum doctor_level only(const char *check)
{
	enum doctor_level level = report.finding[0].level;

	assert_int_equal(report.n, 1);
	assert_string_equal(report.finding[0].check, check);
	assert_true(*report.finding[0].text);
	assert_true(level < DOCTOR_WARN || *report.finding[0].advice);
	doctor_free(&report);
	return level;
}

TEST(reach__any_blocked_port_is_bad)
{
	doctor_judge_reach(&report, "h", 0, 16, 0, "", 1);
	assert_int_equal(only("reach"), DOCTOR_OK);
	doctor_judge_reach(&report, "h", 1, 16, 1, " 5", 1);
	assert_string_equal(report.finding[0].subject, "from h");
	assert_int_equal(only("reach"), DOCTOR_BAD);
	doctor_judge_reach(&report, "h", 0, 16, 16, "", 1);
	assert_int_equal(only("reach"), DOCTOR_BAD);
}

TEST(live__error_is_a_warning)
{
	doctor_judge_live(&report, "h", 0, 0);
	assert_int_equal(only("liveness"), DOCTOR_OK);
	doctor_judge_live(&report, "h", 0, ETIMEDOUT);
	assert_int_equal(only("liveness"), DOCTOR_WARN);
}

TEST(times__far_is_a_note)
{
	struct doctor_spread near = { 10, 20, 900 }, far = { 9000, 9100, 9200 }, none = { 0 };

	doctor_judge_times(&report, "h", 100, 100, near);
	assert_int_equal(only("round-trip"), DOCTOR_OK);
	doctor_judge_times(&report, "h", 100, 100, far);
	assert_int_equal(only("round-trip"), DOCTOR_NOTE);
	doctor_judge_times(&report, "h", 100, 0, none);
	assert_int_equal(only("round-trip"), DOCTOR_OK); /* the losses are told elsewhere */
}

TEST(mtu__told_or_not)
{
	doctor_judge_mtu(&report, "h", 0, 1472, 1472, 1500, 28);
	assert_int_equal(only("path-mtu"), DOCTOR_OK);
	doctor_judge_mtu(&report, "h", 0, 1472, 1372, 1400, 28);
	assert_int_equal(only("path-mtu"), DOCTOR_WARN);
	doctor_judge_mtu(&report, "h", 0, 1472, 1372, 1500, 28);
	assert_int_equal(only("path-mtu"), DOCTOR_BAD);
	/* A router told something, but not even that passes. */
	doctor_judge_mtu(&report, "h", 0, 1472, 1200, 1400, 28);
	assert_int_equal(only("path-mtu"), DOCTOR_BAD);
	doctor_judge_mtu(&report, "h", 0, 1472, 0, 0, 28);
	assert_int_equal(only("path-mtu"), DOCTOR_BAD);
}

static enum doctor_level loss_of(uint32_t sent, uint32_t received, uint32_t damaged)
{
	struct doctor_sent s = { .sent = sent, .error = EPERM };
	struct doctor_tally t = { .received = received, .damaged = damaged };
	enum doctor_level level;

	doctor_judge_loss(&report, "h", 0, &s, &t);
	level = report.finding[0].level;
	assert_int_equal(report.n, received ? 2 : 1);
	doctor_free(&report);
	return level;
}

TEST(loss__by_share)
{
	assert_int_equal(loss_of(2000, 2000, 0), DOCTOR_OK);
	assert_int_equal(loss_of(2000, 1999, 0), DOCTOR_OK);
	assert_int_equal(loss_of(2000, 1990, 0), DOCTOR_WARN);
	assert_int_equal(loss_of(2000, 1000, 0), DOCTOR_BAD);
	assert_int_equal(loss_of(2000, 2000, 1), DOCTOR_BAD);
	assert_int_equal(loss_of(0, 0, 0), DOCTOR_BAD);
}

TEST(order__by_share)
{
	struct doctor_sent s = { .sent = 2000 };
	struct doctor_tally t = { .received = 2000, .reordered = 1 };

	doctor_judge_loss(&report, "h", 0, &s, &t);
	assert_string_equal(report.finding[1].check, "order");
	assert_int_equal(report.finding[1].level, DOCTOR_OK);
	doctor_free(&report);
	t.reordered = 20;
	doctor_judge_loss(&report, "h", 0, &s, &t);
	assert_int_equal(report.finding[1].level, DOCTOR_WARN);
	doctor_free(&report);
}

static enum doctor_level trains_of(uint32_t sent, uint32_t refused, uint32_t received, uint32_t damaged, double single)
{
	struct doctor_sent s = { .sent = sent, .refused = refused, .error = refused ? EIO : 0 };
	struct doctor_tally t = { .received = received, .damaged = damaged };

	doctor_judge_trains(&report, "h", 0, 40, &s, &t, single);
	return only("trains");
}

TEST(trains__compared_with_single_packets)
{
	assert_int_equal(trains_of(2000, 0, 2000, 0, 0), DOCTOR_OK);
	assert_int_equal(trains_of(2000, 0, 1000, 0, 0), DOCTOR_BAD);
	assert_int_equal(trains_of(2000, 0, 0, 0, 0), DOCTOR_BAD);
	assert_int_equal(trains_of(2000, 0, 2000, 1, 0), DOCTOR_BAD);
	assert_int_equal(trains_of(0, 2000, 0, 0, 0), DOCTOR_WARN);
	/* Of 50 trains four were lost as wholes where 3 % of single packets are: chance. */
	assert_int_equal(trains_of(2000, 0, 1840, 0, 0.03), DOCTOR_OK);
	assert_int_equal(trains_of(2000, 0, 1000, 0, 0.03), DOCTOR_BAD);
	assert_int_equal(trains_of(2000, 0, 1000, 0, 0.5), DOCTOR_OK);
}

/* What a full receive queue threw away says nothing about the way, or about trains. */
TEST(overflowed__is_not_lost_on_the_way)
{
	struct doctor_sent s = { .sent = 2000 };
	struct doctor_tally t = { .received = 1760, .overflowed = 240 };

	assert_int_equal(doctor_overflowed(&s, &t), 240);
	assert_true(doctor_loss(&s, &t) == 0);
	doctor_judge_trains(&report, "h", 0, 40, &s, &t, 0);
	assert_int_equal(only("trains"), DOCTOR_OK);
	doctor_judge_loss(&report, "h", 0, &s, &t);
	assert_int_equal(report.finding[0].level, DOCTOR_OK);
	assert_non_null(strstr(report.finding[0].text, "0 of 2000 "));
	doctor_free(&report);
	/* The rest counts. */
	t.overflowed = 1000;
	t.received = 900;
	assert_true(doctor_loss(&s, &t) == 0.05);
	doctor_judge_trains(&report, "h", 0, 40, &s, &t, 0);
	assert_int_equal(only("trains"), DOCTOR_BAD);
	/* It is an upper bound. */
	t.received = 1990;
	assert_int_equal(doctor_overflowed(&s, &t), 10);
	t.received = 2001;
	assert_int_equal(doctor_overflowed(&s, &t), 0);
	assert_true(doctor_loss(&s, &t) == 0);
	t.received = 0;
	t.overflowed = 2000;
	assert_true(doctor_loss(&s, &t) == 0);
}

TEST(queue__says_whose)
{
	doctor_judge_queue(&report, "h", 0, 4000, 0);
	assert_int_equal(only("receive-queue"), DOCTOR_OK);
	doctor_judge_queue(&report, "h", 0, 4000, 1);
	assert_int_equal(only("receive-queue"), DOCTOR_NOTE);
	doctor_judge_queue(&report, "h", 0, 4000, 40);
	assert_non_null(strstr(report.finding[0].text, "that host's receive queue overflowed: up to 40 of 4000 "));
	assert_non_null(strstr(report.finding[0].advice, "that host"));
	assert_int_equal(only("receive-queue"), DOCTOR_WARN);
	doctor_judge_queue(&report, "h", 1, 4000, 40);
	assert_non_null(strstr(report.finding[0].text, "this host's receive queue"));
	assert_int_equal(only("receive-queue"), DOCTOR_WARN);
}

static enum doctor_level ecn_of(uint32_t not_ect, uint32_t ect0, uint32_t ce)
{
	struct doctor_tally t = { .received = not_ect + ect0 + ce, .ecn = { not_ect, 0, ect0, ce } };

	doctor_judge_ecn(&report, "h", 0, &t);
	return only("ecn");
}

/* The rate is that of the slower side; nothing is said of what did not arrive. */
TEST(rate__of_the_slower_side)
{
	struct doctor_sent sent = { .sent = 1000, .span_us = 1000 };
	struct doctor_tally t = { .received = 1000, .span_us = 10 };
	struct doctor_report r = { 0 };

	doctor_judge_rate(&r, "h", 0, 1000, &sent, &t);
	assert_int_equal(r.n, 1);
	assert_int_equal(r.finding[0].level, DOCTOR_OK);
	assert_true(r.finding[0].value[0].number == 8e9);
	t.span_us = 2000;
	doctor_judge_rate(&r, "h", 1, 1000, &sent, &t);
	assert_true(r.finding[1].value[0].number == 4e9);
	assert_string_equal(r.finding[1].text, "one sender's burst of 1.0 MB arrives at 4.000 Gbit/s");
	t.received = 0;
	doctor_judge_rate(&r, "h", 1, 1000, &sent, &t);
	t.received = 1;
	t.span_us = sent.span_us = 0;
	doctor_judge_rate(&r, "h", 1, 1000, &sent, &t);
	assert_int_equal(r.n, 2);
	doctor_free(&r);
}

TEST(ecn__cleared_or_marked)
{
	struct doctor_tally none = { 0 };

	assert_int_equal(ecn_of(0, 64, 0), DOCTOR_OK);
	assert_int_equal(ecn_of(0, 60, 4), DOCTOR_NOTE);
	assert_int_equal(ecn_of(64, 0, 0), DOCTOR_WARN);
	assert_int_equal(ecn_of(32, 32, 0), DOCTOR_WARN);
	doctor_judge_ecn(&report, "h", 0, &none);
	assert_int_equal(report.n, 0);
}

static struct doctor_paths paths_of(int next_hops, int n, int first, int second, bool arrived)
{
	struct doctor_paths p = { .next_hops = (uint16_t)next_hops, .n = (uint16_t)n };

	for (int i = 0; i < n; i++) {
		p.trail[i].n = 2;
		p.trail[i].hop[0] = first ? 1 + (uint64_t)(i % first) : 0;
		p.trail[i].hop[1] = second ? 100 + (uint64_t)(i % second) : 0;
		p.trail[i].arrived = arrived;
	}
	return p;
}

TEST(paths__one_of_several_next_hops)
{
	struct doctor_paths p = paths_of(4, 16, 1, 1, true);

	doctor_judge_paths(&report, "h", 0, &p, 0);
	assert_non_null(strstr(report.finding[0].advice, "fib_multipath_hash_policy=1"));
	assert_int_equal(only("paths"), DOCTOR_WARN);
	p = paths_of(4, 16, 4, 1, true);
	doctor_judge_paths(&report, "h", 0, &p, 0);
	assert_int_equal(only("paths"), DOCTOR_OK);
	/* Two source ports may well meet. */
	p = paths_of(4, 2, 1, 1, true);
	doctor_judge_paths(&report, "h", 0, &p, 0);
	assert_int_equal(only("paths"), DOCTOR_OK);
}

TEST(paths__fewer_than_expected)
{
	struct doctor_paths p = paths_of(1, 16, 1, 2, true);

	doctor_judge_paths(&report, "h", 0, &p, 2);
	assert_int_equal(only("paths"), DOCTOR_OK);
	doctor_judge_paths(&report, "h", 0, &p, 3);
	assert_int_equal(only("paths"), DOCTOR_WARN);
}

TEST(paths__not_known_is_not_guessed)
{
	struct doctor_paths p = paths_of(0, 16, 0, 0, false);

	doctor_judge_paths(&report, "h", 0, &p, 4);
	assert_non_null(strstr(report.finding[0].text, "not known"));
	assert_int_equal(only("paths"), DOCTOR_NOTE);
	p = paths_of(1, 16, 1, 0, false);
	doctor_judge_paths(&report, "h", 0, &p, 4);
	assert_non_null(strstr(report.finding[0].text, "at least 1 "));
	assert_int_equal(only("paths"), DOCTOR_NOTE);
}

TESTS_MAIN
