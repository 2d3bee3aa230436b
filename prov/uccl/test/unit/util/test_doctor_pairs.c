/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "uccl_doctor_pairs.h"

#include <string.h>

#include "base/units.h"
#include "../tests.h"

static char text[16384];

static void hosts(struct doctor_hosts *h, int n)
{
	assert_int_equal(doctor_hosts_init(h, n), 0);
	for (int i = 0; i < n; i++)
		snprintf(h->name[i], sizeof(h->name[i]), "n%d", i);
}

/* Each pair once, no host twice at the same time; of n hosts n / 2 measure at once. */
TEST(next__a_tournament)
{
	for (int n = 2; n <= 33; n++) {
		const struct doctor_pair good = {.us = 1};
		int waves = 0, all = 0;
		struct doctor_hosts h;

		hosts(&h, n);
		for (; !doctor_pairs_done(&h); waves++) {
			int a[64], b[64], runs = 0;

			while (doctor_pair_next(&h, &a[runs], &b[runs])) {
				assert_true(a[runs] < b[runs] && b[runs] < n);
				for (int k = 0; k < runs; k++)
					assert_true(a[k] != a[runs] && a[k] != b[runs] && b[k] != a[runs] &&
						    b[k] != b[runs]);
				runs++;
			}
			assert_int_equal(runs, n / 2);
			assert_int_equal(h.runs, runs);
			for (int k = 0; k < runs; k++)
				doctor_pair_end(&h, a[k], b[k], &good);
			all += runs;
		}
		assert_int_equal(all, n * (n - 1) / 2);
		assert_int_equal(waves, n + n % 2 - 1);
		assert_int_equal(doctor_pairs_status(&h), 0);
		doctor_hosts_free(&h);
	}
}

/* In whatever order they end, every pair is begun. */
TEST(next__ends_in_any_order)
{
	const struct doctor_pair good = {.us = 1};
	int a[8], b[8], runs = 0, all = 0;
	struct doctor_hosts h;

	hosts(&h, 9);
	while (!doctor_pairs_done(&h)) {
		int k;

		while (runs < 3 && doctor_pair_next(&h, &a[runs], &b[runs]))
			runs++;
		assert_true(runs > 0);
		k = all % runs;
		doctor_pair_end(&h, a[k], b[k], &good);
		runs--;
		a[k] = a[runs];
		b[k] = b[runs];
		all++;
	}
	assert_int_equal(all, 36);
	doctor_hosts_free(&h);
}

TEST(down__its_pairs_end)
{
	const struct doctor_pair good = {.us = 1};
	struct doctor_hosts h;
	int i, k;

	hosts(&h, 4);
	assert_true(doctor_pair_next(&h, &i, &k));
	doctor_host_down(&h, k, "is off");
	assert_int_equal(h.runs, 0);
	assert_int_equal(doctor_pair(&h, i, k)->level, DOCTOR_BAD);
	assert_non_null(strstr(doctor_pair(&h, i, k)->text, ": is off"));
	/* An answer that comes later changes nothing. */
	doctor_pair_end(&h, i, k, &good);
	assert_int_equal(doctor_pair(&h, i, k)->level, DOCTOR_BAD);
	for (int n = 0; n < 3; n++) {
		assert_true(doctor_pair_next(&h, &i, &k));
		doctor_pair_end(&h, i, k, &good);
	}
	assert_false(doctor_pair_next(&h, &i, &k));
	assert_true(doctor_pairs_done(&h));
	assert_int_equal(doctor_pairs_status(&h), 1);
	doctor_hosts_free(&h);
}

TEST(judge__worst_finding)
{
	struct doctor_report r = {0};
	struct doctor_finding *f;
	struct doctor_pair p;

	f = doctor_add(&r, DOCTOR_OK, "network", "round-trip", "b", "x");
	doctor_number(f, "median_us", 12.5);
	f = doctor_add(&r, DOCTOR_OK, "network", "bandwidth", "to b", "x");
	doctor_number(f, "bits_per_s", 1e9);
	f = doctor_add(&r, DOCTOR_OK, "network", "bandwidth", "from b", "x");
	doctor_number(f, "bits_per_s", 2e9);
	f = doctor_add(&r, DOCTOR_WARN, "network", "loss", "from b", "few lost");
	doctor_number(f, "sent", 2000);
	doctor_number(f, "lost", 20);
	doctor_pair_judge(&r, &p);
	assert_int_equal(p.level, DOCTOR_WARN);
	assert_string_equal(p.text, "loss from b: few lost");
	assert_true(p.us == 12.5 && p.bps[0] == 1e9 && p.bps[1] == 2e9 && p.loss[0] == 0 && p.loss[1] == 0.01);
	doctor_add(&r, DOCTOR_BAD, "network", "reach", "to b", "nothing arrives");
	doctor_add(&r, DOCTOR_BAD, "network", "reach", "from b", "later");
	doctor_pair_judge(&r, &p);
	assert_int_equal(p.level, DOCTOR_BAD);
	assert_string_equal(p.text, "reach to b: nothing arrives");
	doctor_free(&r);
}

TEST(line__there_and_back)
{
	struct doctor_pair p = {.us = 12.5, .bps = {1e9, 2e9}, .loss = {0, 0.01}, .level = DOCTOR_WARN,
				.text = "loss from b: few"}, got;
	static const char *const bad[] = {"", "pair", "pair 1 2 3 4 5", "pair 4 1 1 1 0 0 x", "pair -1 1 1 1 0 0 x",
					  "pair 0 -1 1 1 0 0 x", "pair 0 nan 1 1 0 0 x", "pair 0 1 inf 1 0 0 x",
					  "pair 0 1 1 1 0 1.1 x", "pair 0 1 1 1 0 0", "xpair 0 1 1 1 0 0 x"};
	char line[512];

	doctor_pair_put(&p, line, sizeof(line));
	assert_true(doctor_pair_get(line, &got));
	assert_memory_equal(&got, &p, sizeof(p));
	p = (struct doctor_pair){0};
	doctor_pair_put(&p, line, sizeof(line));
	assert_true(doctor_pair_get(line, &got));
	assert_string_equal(got.text, "");
	for (size_t i = 0; i < uccl_array_len(bad); i++)
		assert_false(doctor_pair_get(bad[i], &got));
	assert_true(doctor_pair_get("pair 3 0 0 0 0 0 a\033[2Jb", &got));
	assert_string_equal(got.text, "a?[2Jb");
}

TEST(text__worst_first)
{
	struct doctor_pair good = {.us = 20, .bps = {1e9, 2e9}};
	struct doctor_hosts h;
	int i, k;
	FILE *f;

	hosts(&h, 4);
	doctor_host_down(&h, 2, "is off");
	while (doctor_pair_next(&h, &i, &k)) {
		good.us += 10;
		doctor_pair_end(&h, i, k, &good);
	}
	f = fmemopen(text, sizeof(text), "w");
	doctor_pairs_text(&h, f);
	fclose(f);
	assert_non_null(strstr(text, "\nn0               n2                       -         -         -       -  "
				     "bad: n2: is off\n"));
	assert_true(strstr(text, "bad: ") < strstr(text, "  ok\n"));
	assert_non_null(strstr(text, "\nround trip 30.0 to 50.0 us, median 40.0\n"));
	assert_non_null(strstr(text, "\nbandwidth 1.000 to 2.000 Gb/s, median "));
	assert_non_null(strstr(text, "\nall pairs of n2 are bad\n4 hosts, 6 pairs: 3 bad, 0 warn, 3 ok\n"));
	f = fmemopen(text, sizeof(text), "w");
	doctor_pairs_json(&h, f);
	fclose(f);
	assert_non_null(strstr(text, "\"status\": 1, \"hosts\": 4,"));
	assert_non_null(strstr(text, "{\"host\": \"n0\", \"peer\": \"n2\", \"level\": \"bad\", \"us\": 0.0, "));
	doctor_hosts_free(&h);
}

TESTS_MAIN
