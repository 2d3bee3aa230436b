/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "uccl_doctor_cloud.h"

#include "../tests.h"

#include <string.h>

static struct doctor_report report;
static struct doctor_clouds before, after;

typedef char name[DOCTOR_CLOUD_NAME];

/* As ethtool -S of an instance of EC2 shows them, with others of the driver around. */
static const name ena[] = {"tx_timeout", "bw_in_allowance_exceeded", "bw_out_allowance_exceeded",
			   "pps_allowance_exceeded", "conntrack_allowance_exceeded", "linklocal_allowance_exceeded",
			   "conntrack_allowance_available", "queue_0_tx_cnt"};

static bool take(struct doctor_clouds *c, const char *driver, const name *names, const uint64_t *values, uint32_t n)
{
	bool got = doctor_cloud_take(&c->list[c->n], "eth0", driver, names[0], values, n);

	c->n += got;
	return got;
}

static int forget(void **state)
{
	doctor_free(&report);
	memset(&report, 0, sizeof(report));
	memset(&before, 0, sizeof(before));
	memset(&after, 0, sizeof(after));
	after.us = 1500000;
	return 0;
}

static double number_of(const struct doctor_finding *f, const char *key)
{
	for (int i = 0; i < f->nvalues; i++)
		if (!strcmp(f->value[i].key, key))
			return f->value[i].number;
	return -1;
}

TEST_IN(ena__now_and_earlier, forget, forget)
{
	const uint64_t was[] = {9, 0, 0, 100, 0, 7, 136812, 5}, now[] = {9, 0, 0, 350, 0, 7, 136800, 900};
	const struct doctor_finding *f;

	assert_true(take(&before, "ena", ena, was, 8) && take(&after, "ena", ena, now, 8));
	doctor_clouds_judge(&report, &before, &after);
	assert_int_equal(report.n, 2);
	f = &report.finding[0];
	assert_int_equal(f->level, DOCTOR_WARN);
	assert_string_equal(f->check, "allowance");
	assert_string_equal(f->subject, "eth0");
	assert_non_null(strstr(f->text, "packets per second of both directions"));
	assert_non_null(strstr(f->text, "250 packets in 1.5 s, 350 since"));
	assert_non_null(strstr(f->advice, "longer packets"));
	assert_true(number_of(f, "total") == 350 && number_of(f, "measured") == 250);
	f = &report.finding[1];
	assert_int_equal(f->level, DOCTOR_NOTE);
	assert_non_null(strstr(f->text, "DNS"));
	assert_non_null(strstr(f->text, "7 packets since the driver was reset, none in the last 1.5 s"));
}

TEST_IN(ena__each_counter, forget, forget)
{
	uint64_t was[8] = {0}, now[8] = {0};

	was[6] = now[6] = 100000;
	for (int k = 1; k < 6; k++) {
		forget(NULL);
		now[k] = 1;
		assert_true(take(&before, "ena", ena, was, 8) && take(&after, "ena", ena, now, 8));
		doctor_clouds_judge(&report, &before, &after);
		assert_int_equal(report.n, 1);
		assert_int_equal(report.finding[0].level, DOCTOR_WARN);
		assert_non_null(strstr(report.finding[0].text, ena[k]));
		assert_true(*report.finding[0].advice);
		now[k] = 0;
	}
	forget(NULL);
	take(&before, "ena", ena, was, 8);
	take(&after, "ena", ena, now, 8);
	doctor_clouds_judge(&report, &before, &after);
	assert_int_equal(report.n, 1);
	assert_int_equal(report.finding[0].level, DOCTOR_OK);
	assert_true(number_of(&report.finding[0], "available") == 100000);
}

TEST_IN(ena__few_left_and_reset, forget, forget)
{
	const uint64_t was[] = {0, 0, 0, 100, 0, 0, 500, 0}, now[] = {0, 0, 0, 3, 0, 0, 500, 0};

	take(&before, "ena", ena, was, 8);
	take(&after, "ena", ena, now, 8);
	doctor_clouds_judge(&report, &before, &after);
	assert_int_equal(report.n, 2);
	assert_true(number_of(&report.finding[0], "measured") == 3);
	assert_int_equal(report.finding[1].level, DOCTOR_NOTE);
	assert_non_null(strstr(report.finding[1].text, "only 500 more 5-tuples"));
}

/* The counters of gVNIC's queues are added up. A name that only begins like a known one is another counter. */
TEST_IN(gve__queues, forget, forget)
{
	static const name names[] = {"rx_no_buffers_posted[0]", "rx_no_buffers_posted[1]", "rx_queue_drop_cnt[0]",
				     "rx_queue_drop_cntx[0]", "rx_dropped_pkt[0]"};
	const uint64_t was[] = {1, 2, 0, 50, 50}, now[] = {2, 4, 0, 60, 60};

	assert_true(take(&before, "gve", names, was, 5) && take(&after, "gve", names, now, 5));
	doctor_clouds_judge(&report, &before, &after);
	assert_int_equal(report.n, 1);
	assert_true(number_of(&report.finding[0], "total") == 6 && number_of(&report.finding[0], "measured") == 3);
}

TEST_IN(azure__drops, forget, forget)
{
	static const name mana[] = {"hc_rx_discards_no_wqe"}, netvsc[] = {"vf_tx_dropped", "rx_no_memory"};
	const uint64_t none[] = {0, 0}, some[] = {0, 2};

	assert_true(take(&before, "mana", mana, none, 1) && take(&after, "mana", mana, none, 1));
	doctor_clouds_judge(&report, &before, &after);
	assert_int_equal(report.finding[0].level, DOCTOR_OK);
	assert_non_null(strstr(report.finding[0].text, "no limits of the instance"));
	forget(NULL);
	assert_true(take(&before, "hv_netvsc", netvsc, none, 2) && take(&after, "hv_netvsc", netvsc, some, 2));
	doctor_clouds_judge(&report, &before, &after);
	assert_int_equal(report.n, 1);
	assert_non_null(strstr(report.finding[0].text, "no memory"));
}

/* Other drivers say nothing, whatever their counters are called; nor does one that came between the readings. */
TEST_IN(others__silent, forget, forget)
{
	static const name veth[] = {"peer_ifindex", "rx_queue_0_xdp_packets", "pps_allowance_exceeded"};
	const uint64_t values[] = {4, 5, 6}, now[] = {0, 0, 0, 350, 0, 0, 1, 0};

	assert_false(take(&before, "veth", veth, values, 3));
	assert_false(take(&before, "ena", veth, values, 2));
	assert_false(take(&before, "ena", ena, values, 0));
	assert_true(take(&after, "ena", ena, now, 8));
	doctor_clouds_judge(&report, &before, &after);
	assert_int_equal(report.n, 0);
}

TESTS_MAIN_IN(NULL, forget)
