/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "api/offer/nicnames.h"

#include "../../tests.h"

#include <string.h>

/* What a list does with an interface: its rank among the names, or -1 if the list does not allow it. */
static int rank(const char *list, const char *name)
{
	unsigned int rank;

	return uccl_nicnames_allow(list, name, &rank) ? (int)rank : -1;
}

TEST(allow__table)
{
	static const struct {
		const char *list, *name;
		int rank;
	} t[] = {
		{"", "eth0", 0},
		{"eth1,eth10,lo", "lo", 2},
		{"eth1,eth10,lo", "eth1", 0},
		{"eth1,eth10,lo", "eth", -1},
		{"eth1,eth10,lo", "eth100", -1},
		{"mlx5_0+mlx5_1,mlx5_2:2", "mlx5_0+mlx5_1", 0},
		{"mlx5_0+mlx5_1,mlx5_2:2", "mlx5_2:2", 1},
		{"mlx5_0+mlx5_1,mlx5_2:2", "mlx5_0", -1},
		/* patterns */
		{"ib*,eth[01]", "ib0", 0},
		{"ib*,eth[01]", "eth1", 1},
		{"ib*,eth[01]", "eth2", -1},
		/* excluding alone leaves all others */
		{"^docker0,^virbr*", "docker0", -1},
		{"^docker0,^virbr*", "virbr1", -1},
		{"^docker0,^virbr*", "eth0", 0},
		/* ^ stands for the whole list where it is first */
		{"^docker0,lo", "lo", -1},
		{"^docker0,lo", "eth0", 0},
		/* names, less what is excluded, in either order */
		{"eth*,^eth3", "eth0", 0},
		{"eth*,^eth3", "eth3", -1},
		{"eth*,^eth3", "ib0", -1},
		{"eth3,^eth3", "eth3", -1},
		{"ib0,^eth3,eth*", "eth1", 2},
		{"^*", "eth0", -1},
		{"^", "eth0", 0},
		{",eth0", "eth0", 1},
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		if (rank(t[i].list, t[i].name) != t[i].rank)
			fail_msg("%s: %s is %d", t[i].list, t[i].name, rank(t[i].list, t[i].name));
}

TEST(next__entries)
{
	struct uccl_nicname one;
	const char *list = "a*,^b,", *at = list;
	char text[200];

	assert_true(uccl_nicnames_next(list, &at, &one));
	assert_string_equal(one.text, "a*");
	assert_false(one.excludes);
	assert_true(uccl_nicnames_next(list, &at, &one));
	assert_string_equal(one.text, "b");
	assert_true(one.excludes);
	assert_false(uccl_nicnames_next(list, &at, &one));
	/* An entry that is too long is none of the interfaces with a shorter name. */
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(rank(text, "xxxx"), -1);
	at = text;
	assert_true(uccl_nicnames_next(text, &at, &one));
	assert_string_equal(one.text, "");
}

TEST(name__and_exclude)
{
	assert_false(uccl_nicnames_name(""));
	assert_false(uccl_nicnames_name("^docker0,lo"));
	assert_true(uccl_nicnames_name("eth*,^eth3"));
	assert_false(uccl_nicnames_exclude(""));
	assert_false(uccl_nicnames_exclude("eth0,lo"));
	assert_true(uccl_nicnames_exclude("eth*,^eth3"));
	assert_true(uccl_nicnames_exclude("^docker0"));
}

TESTS_MAIN
