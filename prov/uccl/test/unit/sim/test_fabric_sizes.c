/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "sim/fabric_sizes.h"

#include "../tests.h"

#include <stdio.h>
#include <string.h>

#include "play.h"

static char said[16384];

/* What is said of this wish; NULL: nothing, as its tree exists. */
static const char *refused(const char *set)
{
	FILE *f = fmemopen(said, sizeof(said), "w");
	bool unfit;

	memset(said, 0, sizeof(said));
	play_init("permutation", set);
	unfit = uccl_fab_play_unfit(&p, f);
	fclose(f);
	assert_int_equal(unfit, *said != '\0');
	return unfit ? said : NULL;
}

/* How many trees a text names. Each is one that really runs. */
static int trees(const char *text, bool run)
{
	char line[256];
	int n = 0;

	for (const char *s = text; (s = strstr(s, "\n  hosts=")); s++) {
		snprintf(line, sizeof(line), "%.*s,bytes=1000", (int)strcspn(s + 3, "\n"), s + 3);
		n++;
		if (!run)
			continue;
		play_init("permutation", line);
		assert_false(uccl_fab_play_unfit(&p, stdout));
		assert_int_equal(uccl_fab_play_run(&p, NULL), 0);
	}
	return n;
}

TEST(half__full_trees)
{
	assert_int_equal(uccl_fab_sizes_half(3, 16), 2);
	assert_int_equal(uccl_fab_sizes_half(3, 128), 4);
	assert_int_equal(uccl_fab_sizes_half(3, 1024), 8);
	assert_int_equal(uccl_fab_sizes_half(2, 32), 4);
	assert_int_equal(uccl_fab_sizes_half(2, 128), 8);
	assert_int_equal(uccl_fab_sizes_half(3, 32), 0);
	assert_int_equal(uccl_fab_sizes_half(2, 0), 0);
	assert_int_equal(uccl_fab_sizes_half(3, 4294967295u), 0);
}

TEST(refuse__not_what_exists)
{
	static const char *const good[] = {
		"hosts=128",
		"hosts=16",
		"hosts=32,tiers=2",
		"hosts=32,tiers=2,per_tor=16,spines=3",
		"hosts=24,per_tor=4,spines=1,tors_per_pod=3,cores_per_agg=2",
		"hosts=32,tiers=2,rails=8,per_tor=4,spines=4",
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_null(refused(good[i]));
}

/* Every tree that is named exists, and none of those with full links is left out. */
TEST(refuse__names_trees_that_run)
{
	static const struct {
		const char *set, *has, *lacks;
		int trees;
	} t[] = {
		/* Two tiers: 2, 4, 8, 16 hosts of a tor; three: pods of 2, 4, 8 of 16 tors, 2, 4 of 8, 2 of 4. */
		{"hosts=32", "\n  hosts=32,tiers=2,per_tor=8,spines=8\n", "per_tor=32", 4 + 3 + 2 + 1 + 4},
		{"hosts=32", "\n  hosts=54,tiers=3\n", NULL, 14},
		{"hosts=32,tiers=3", "\n  hosts=32,tiers=3,per_tor=4,spines=4,tors_per_pod=2,cores_per_agg=2\n",
		 "tiers=2", 8},
		{"hosts=20,tiers=2", "\n  hosts=20,tiers=2,per_tor=5,spines=5\n", "tiers=3", 4 + 2},
		/* What was asked for stays. */
		{"hosts=32,per_tor=8", "per_tor=8,spines=8,tors_per_pod=2,cores_per_agg=2\n", "per_tor=4", 2},
		{"hosts=32,per_tor=8,spines=3", "tiers=2,per_tor=8,spines=3\n", "spines=8", 2},
		/* A prime number has neighbours. */
		{"hosts=31,tiers=2", "hosts=30,tiers=2,per_tor=5,spines=5\n", "hosts=31,tiers=2", 6 + 4 + 2},
		{"hosts=31,tiers=2,per_tor=8", "\n  hosts=32,tiers=2,per_tor=8,spines=8\n", "per_tor=4", 2},
		{"hosts=36,tiers=2,rails=8,per_tor=4", "\n  hosts=32,tiers=2,per_tor=4,spines=4\n", NULL, 2},
		{"hosts=0", "\n  hosts=2,tiers=2\n", NULL, 1 + 4},
		{"hosts=32,tiers=7", "\n  hosts=32,tiers=2,per_tor=8,spines=8\n", "tiers=7,", 14},
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		char *text = strdup(refused(t[i].set));

		if (!strstr(text, t[i].has) || (t[i].lacks && strstr(text, t[i].lacks)) ||
		    trees(text, !strstr(t[i].set, "rails")) != t[i].trees)
			fail_msg("%s: %s", t[i].set, text);
		free(text);
	}
}

/* Numbers with thousands of trees, or with more hosts than can be searched. */
TEST(refuse__is_short)
{
	assert_non_null(strstr(refused("hosts=5040"), " more of 5040 hosts\n"));
	assert_true(trees(said, false) <= 64 + 4);
	assert_non_null(refused("hosts=4000000000"));
	assert_int_equal(trees(said, false), 4);
}

TESTS_MAIN
