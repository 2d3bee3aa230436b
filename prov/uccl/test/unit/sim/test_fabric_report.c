/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "../tests.h"

#include "play.h"

static void csv_with_heads(const struct uccl_fab_play *play, FILE *f)
{
	uccl_fab_play_csv(play, f, true);
}

TEST(csv__columns)
{
	char *csv = text("incast", "hosts=16,bytes=64k,senders=5", csv_with_heads), *save, *line;
	uint32_t lines = 0, commas[4] = {0};

	for (line = strtok_r(csv, "\n", &save); line; line = strtok_r(NULL, "\n", &save), lines++)
		for (const char *c = line; *c; c++)
			commas[lines] += *c == ',';
	assert_int_equal(lines, 3);
	assert_int_equal(commas[0], commas[1]);
	assert_int_equal(commas[0], commas[2]);
	free(csv);
}

/* By size; what is alone in the network takes the time that it takes alone, what shares a link longer. */
TEST(slowdown__by_size)
{
	double v[UCCL_FAB_FIGURES];
	char *table;

	play("incast", "hosts=16,bytes=1m,senders=1");
	uccl_fab_play_figures(&p, v);
	assert_true(v[UCCL_FAB_SLOW50] >= 1 && v[UCCL_FAB_SLOW50] < 1.3 && v[UCCL_FAB_SHORT99] == 0);
	play("incast", "hosts=16,bytes=90000,senders=8,profile=verbs");
	uccl_fab_play_figures(&p, v);
	assert_true(v[UCCL_FAB_SLOW99] > 3 && v[UCCL_FAB_SLOW99] < 12);
	assert_true(v[UCCL_FAB_SHORT99] == v[UCCL_FAB_SLOW99]);
	table = text("arrivals", "hosts=16,span=100000,sizes=storage", uccl_fab_play_table);
	assert_non_null(strstr(table, "\nto 10 KB "));
	assert_non_null(strstr(table, "\nto 1 MB "));
	assert_non_null(strstr(table, "load 0.5 of storage, 100 us"));
	free(table);
}

TESTS_MAIN_IN(NULL, play_close)
