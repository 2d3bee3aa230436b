/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "sim/fabric_load.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "../tests.h"
#include <rdma/fi_errno.h>

#include "base/units.h"

TEST(sizes__find)
{
	assert_null(uccl_fab_sizes_find("nothing"));
	for (const struct uccl_fab_sizes *d = uccl_fab_sizes; d->name; d++) {
		int i = 1;

		assert_ptr_equal(uccl_fab_sizes_find(d->name), d);
		/* A distribution: neither goes back, and it comes to an end. */
		assert_true(d->points[0].percent == 0);
		for (; d->points[i - 1].percent < 100; i++) {
			assert_true(i < (int)uccl_array_len(d->points));
			assert_true(d->points[i].percent > d->points[i - 1].percent);
			assert_true(d->points[i].bytes >= d->points[i - 1].bytes);
		}
		assert_true(d->points[i - 1].percent == 100);
	}
}

/* The means that papers give, within what their curves can be read to. */
TEST(sizes__mean)
{
	assert_in_range((uint64_t)uccl_fab_sizes_mean(uccl_fab_sizes_find("websearch")), 1600000, 1800000);
	assert_in_range((uint64_t)uccl_fab_sizes_mean(uccl_fab_sizes_find("datamining")), 7400000, 7500000);
	assert_in_range((uint64_t)uccl_fab_sizes_mean(uccl_fab_sizes_find("storage")), 30000, 50000);
}

/* What is drawn has the shares of the points, and the mean. */
TEST(sizes__draw)
{
	enum { DRAWS = 400000 };
	struct uccl_rng rng;

	uccl_rng_seed(&rng, 7);
	for (const struct uccl_fab_sizes *d = uccl_fab_sizes; d->name; d++) {
		double sum = 0, mean = uccl_fab_sizes_mean(d);
		uint32_t most[16] = {0};

		for (int k = 0; k < DRAWS; k++) {
			double bytes = (double)uccl_fab_sizes_draw(d, &rng);

			assert_true(bytes >= 1);
			sum += bytes;
			for (int i = 1; i < 16 && d->points[i - 1].percent < 100; i++)
				most[i] += bytes <= d->points[i].bytes;
		}
		for (int i = 1; i < 16 && d->points[i - 1].percent < 100; i++) {
			double percent = most[i] * 100.0 / DRAWS;

			assert_true(percent > d->points[i].percent - 0.5 && percent < d->points[i].percent + 0.5);
		}
		/* Data mining has its mean from one of a hundred. */
		assert_true(sum / DRAWS > mean * 0.95 && sum / DRAWS < mean * 1.05);
	}
}

TEST(exponential__mean)
{
	double sum = 0, squares = 0, v;
	struct uccl_rng rng;

	uccl_rng_seed(&rng, 3);
	for (int i = 0; i < 100000; i++) {
		v = uccl_fab_exponential(&rng, 50);
		assert_true(v >= 0);
		sum += v;
		squares += v * v;
	}
	assert_true(sum / 1e5 > 49 && sum / 1e5 < 51);
	/* Of such times the mean square is twice the square of the mean. */
	assert_true(squares / 1e5 > 1.9 * 2500 && squares / 1e5 < 2.1 * 2500);
}

/* 0 or what uccl_fab_list_read says of this text. */
static int read_text(const char *text, struct uccl_fab_transfer **list, uint32_t *n, char why[128])
{
	FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
	int rc;

	assert_non_null(f);
	why[0] = 0;
	rc = uccl_fab_list_read(f, "a.txt", 8, list, n, why, 128);
	fclose(f);
	return rc;
}

TEST(list__lines)
{
	struct uccl_fab_transfer *list;
	char why[128];
	uint32_t n;

	assert_int_equal(read_text("# what it is\n\n0 1 2 3000\r\n1.5 7 0 1e6 # late\n \t2 0 1 1", &list, &n, why), 0);
	assert_int_equal(n, 3);
	assert_int_equal(list[0].src, 1);
	assert_int_equal(list[0].dst, 2);
	assert_int_equal(list[0].bytes, 3000);
	assert_int_equal(list[1].start_ns, 1500);
	assert_int_equal(list[1].bytes, 1000000);
	assert_int_equal(list[2].start_ns, 2000);
	free(list);
}

TEST(list__many)
{
	enum { LINES = 5000 };
	char *text = malloc(LINES * 16), why[128], *at = text;
	struct uccl_fab_transfer *list;
	uint32_t n;

	for (int i = 0; i < LINES; i++)
		at += sprintf(at, "%d 0 1 9\n", i);
	assert_int_equal(read_text(text, &list, &n, why), 0);
	assert_int_equal(n, LINES);
	assert_int_equal(list[LINES - 1].start_ns, (LINES - 1) * 1000);
	free(list);
	free(text);
}

/* Each by the line that it is in. */
TEST(list__refuses)
{
	static const char *const bad[][2] = {
		{"x 1 2 3\n", "a.txt:1: the start"},
		{"-1 1 2 3\n", "a.txt:1: the start"},
		{"nan 1 2 3\n", "a.txt:1: the start"},
		{"0 1 2 3\n\n0 8 2 3\n", "a.txt:3: the sender"},
		{"0 1.5 2 3\n", "a.txt:1: the sender"},
		{"0 1 9 3\n", "a.txt:1: the receiver"},
		{"0 1\n", "a.txt:1: the receiver"},
		{"0 1 1 3\n", "a.txt:1: a host sends to itself"},
		{"0 1 2\n", "a.txt:1: the size"},
		{"0 1 2 0\n", "a.txt:1: the size"},
		{"0 1 2 3k\n", "a.txt:1: the size"},
		{"0 1 2 1e300\n", "a.txt:1: the size"},
		{"0 1 2 3 4\n", "a.txt:1: more than"},
		{"# nothing\n", "a.txt:1: no transfer"},
	};
	struct uccl_fab_transfer *list;
	char why[128], line[400];
	uint32_t n;

	for (size_t i = 0; i < uccl_array_len(bad); i++) {
		assert_int_equal(read_text(bad[i][0], &list, &n, why), -FI_EINVAL);
		assert_null(list);
		assert_int_equal(strncmp(why, bad[i][1], strlen(bad[i][1])), 0);
	}
	memset(line, ' ', sizeof(line));
	strcpy(line + sizeof(line) - 9, "0 1 2 3\n");
	assert_int_equal(read_text(line, &list, &n, why), -FI_EINVAL);
	assert_non_null(strstr(why, "a.txt:1: a line of more"));
}

TESTS_MAIN
