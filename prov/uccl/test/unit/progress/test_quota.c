/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../api/tree.h"

#include "progress/quota.h"
#include "../tests.h"

static uint32_t quota_of(const char *groups)
{
	char path[sizeof(tree) + 16];

	tree_file("groups", groups);
	snprintf(path, sizeof(path), "%s/groups", tree);
	return uccl_quota_processors(path, tree);
}

TEST_IN(unified__least_upwards, tree_make, tree_remove)
{
	assert_int_equal(quota_of("0::/a/b\n"), UINT32_MAX);
	tree_file("a/b/cpu.max", "max 100000\n");
	assert_int_equal(quota_of("0::/a/b\n"), UINT32_MAX);
	tree_file("a/cpu.max", "450000 100000\n");
	assert_int_equal(quota_of("0::/a/b\n"), 4);
	tree_file("a/b/cpu.max", "20000 10000\n");
	assert_int_equal(quota_of("0::/a/b\n"), 2);
	/* Less than one processor is one, which is slow. */
	tree_file("cpu.max", "5000 100000\n");
	assert_int_equal(quota_of("0::/a/b\n"), 1);
	assert_int_equal(quota_of("0::/\n"), 1);
}

TEST_IN(first__least_upwards, tree_make, tree_remove)
{
	static const char groups[] = "12:pids:/job\n4:cpu,cpuacct:/job/step\n2:cpuset:/\n";

	tree_file("cpu,cpuacct/job/step/cpu.cfs_quota_us", "-1\n");
	tree_file("cpu,cpuacct/job/step/cpu.cfs_period_us", "100000\n");
	assert_int_equal(quota_of(groups), UINT32_MAX);
	tree_file("cpu,cpuacct/job/cpu.cfs_quota_us", "350000\n");
	tree_file("cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
	assert_int_equal(quota_of(groups), 3);
	/* In a container the path is the host's, and the group is mounted at the root. */
	tree_file("cpu/cpu.cfs_quota_us", "200000\n");
	tree_file("cpu/cpu.cfs_period_us", "100000\n");
	assert_int_equal(quota_of(groups), 2);
	/* Another controller's. */
	assert_int_equal(quota_of("2:cpuset:/job/step\n"), UINT32_MAX);
}

TEST_IN(first__beside_unified, tree_make, tree_remove)
{
	tree_file("unified/job/cpu.max", "300000 100000\n");
	assert_int_equal(quota_of("1:name=systemd:/job\n0::/job\n"), 3);
}

TEST_IN(groups__nonsense, tree_make, tree_remove)
{
	static const char *const max[] = {"", "\n", "x", "100000", "0 100000", "-5 100000", "100000 0", "max"};

	for (size_t i = 0; i < sizeof(max) / sizeof(max[0]); i++) {
		tree_file("a/cpu.max", max[i]);
		assert_int_equal(quota_of("0::/a\n"), UINT32_MAX);
	}
	tree_file("a/cpu.max", "200000 100000\n");
	assert_int_equal(quota_of("0:/a\nno group\n\n::\n"), UINT32_MAX);
	assert_int_equal(uccl_quota_processors("/nowhere", tree), UINT32_MAX);
}

TESTS_MAIN
