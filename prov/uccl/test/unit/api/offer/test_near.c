/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../machine.h"

#include "api/offer/hwloc.h"
#include "api/offer/near.h"
#include "../../tests.h"

static struct uccl_near near;

/* The machine, seen from these processors. */
static struct uccl_near *from(int n, const int *cpus)
{
	cpu_set_t set[2];

	CPU_ZERO_S(sizeof(set), set);
	for (int i = 0; i < n; i++)
		CPU_SET_S((size_t)cpus[i], sizeof(set), set);
	uccl_near_from(tree, set, sizeof(set), &near);
	return &near;
}

#define FROM(...) from(sizeof((int[]){__VA_ARGS__}) / sizeof(int), (int[]){__VA_ARGS__})

/* Four nodes with two processors each, two nodes in a package, and one of memory alone. */
static void machine_make(void)
{
	tree_file("devices/system/node/online", "0-4\n");
	tree_file("devices/system/node/has_cpu", "0-3\n");
	tree_file("devices/system/node/node0/cpulist", "0,4\n");
	tree_file("devices/system/node/node1/cpulist", "1,5\n");
	tree_file("devices/system/node/node2/cpulist", "2,6\n");
	tree_file("devices/system/node/node3/cpulist", "3,1500-1502\n");
	tree_file("devices/system/node/node4/cpulist", "\n");
	tree_file("devices/system/node/node0/distance", "10 12 32 32 14\n");
	tree_file("devices/system/node/node1/distance", "12 10 32 32 14\n");
	tree_file("devices/system/node/node2/distance", "32 32 10 12 40\n");
	tree_file("devices/system/node/node3/distance", "32 32 12 10 40\n");
}

TEST_IN(from__one_node, tree_make, tree_remove)
{
	machine_make();
	FROM(4);
	assert_int_equal(near.nodes, 0xf);
	assert_int_equal(near.here, 1);
	assert_true(uccl_near_bound(&near));
	assert_int_equal(near.farthest, 32);
	assert_int_equal(uccl_near_distance(&near, 1 << 0), 10);
	assert_int_equal(uccl_near_distance(&near, 1 << 1), 12);
	assert_int_equal(uccl_near_distance(&near, 1 << 2), 32);
	assert_int_equal(uccl_near_distance(&near, 1 << 4), 14);
	/* near a package is near its nearest node */
	assert_int_equal(uccl_near_distance(&near, 3 << 0), 10);
	assert_int_equal(uccl_near_distance(&near, 3 << 2), 32);
	/* nowhere, everywhere, not of this machine */
	assert_int_equal(uccl_near_distance(&near, 0), 32);
	assert_int_equal(uccl_near_distance(&near, 0xf), 32);
	assert_int_equal(uccl_near_distance(&near, 1ull << 60), 32);
	FROM(1501);
	assert_int_equal(near.here, 8);
	assert_int_equal(near.farthest, 40);
}

TEST_IN(from__several_nodes, tree_make, tree_remove)
{
	machine_make();
	FROM(0, 6);
	assert_int_equal(near.here, 5);
	assert_true(uccl_near_bound(&near));
	assert_int_equal(uccl_near_distance(&near, 1 << 0), 10);
	assert_int_equal(uccl_near_distance(&near, 1 << 1), 12);
	assert_int_equal(uccl_near_distance(&near, 1 << 2), 10);
	assert_int_equal(uccl_near_distance(&near, 1 << 3), 12);
	assert_int_equal(near.farthest, 14);
}

/* Who may run anywhere is as near to one as to the other. */
TEST_IN(from__everywhere, tree_make, tree_remove)
{
	machine_make();
	FROM(0, 1, 2, 3);
	assert_false(uccl_near_bound(&near));
	for (int i = 0; i < 4; i++)
		assert_int_equal(uccl_near_distance(&near, 1ull << i), 10);
}

/* Processors that no node has: sysfs of another machine, or none. */
TEST_IN(from__nowhere, tree_make, tree_remove)
{
	FROM(0);
	assert_false(uccl_near_bound(&near));
	assert_int_equal(uccl_near_distance(&near, 1), uccl_near_distance(&near, 0));
	machine_make();
	FROM(1000);
	assert_false(uccl_near_bound(&near));
	assert_int_equal(uccl_near_distance(&near, 1), uccl_near_distance(&near, 2));
}

/* Files that are there but say nothing, too much, or nonsense. */
TEST_IN(from__odd_files, tree_make, tree_remove)
{
	tree_file("devices/system/node/online", "0-1,70-9000\n");
	tree_file("devices/system/node/has_cpu", "0-1,70\n");
	tree_file("devices/system/node/node0/cpulist", "-5\n");
	tree_file("devices/system/node/node1/cpulist", "1-99999999\n");
	tree_file("devices/system/node/node1/distance", "x");
	FROM(1);
	assert_int_equal(near.nodes, 3);
	assert_int_equal(near.here, 2);
	tree_file("devices/system/node/node1/distance", "");
	FROM(1);
	assert_int_equal(uccl_near_distance(&near, 1), 20);
	assert_int_equal(uccl_near_distance(&near, 2), 10);
}

TEST_IN(nic__of_sysfs, tree_make, tree_remove)
{
	tree_file("devices/pci0000:00/0000:00:03.0/numa_node", "-1\n");
	tree_folder("devices/pci0000:00/0000:00:03.0/virtio0");
	tree_file("devices/pci0000:80/0000:80:01.0/0000:81:00.0/numa_node", "1\n");
	tree_folder("devices/pci0000:80/0000:80:01.0/0000:81:00.0/virtio1");
	tree_link("class/net/eth0/device", "../../../devices/pci0000:00/0000:00:03.0/virtio0");
	tree_link("class/net/eth1/device", "../../../devices/pci0000:80/0000:80:01.0/0000:81:00.0/virtio1");
	tree_link("class/net/bond0/lower_eth1", "../eth1");
	assert_int_equal(uccl_near_nic(tree, NULL, "eth0"), 0);
	assert_int_equal(uccl_near_nic(tree, NULL, "eth1"), 2);
	assert_int_equal(uccl_near_nic(tree, NULL, "bond0"), 2);
	assert_int_equal(uccl_near_nic(tree, NULL, "gone"), 0);
	tree_file("devices/pci0000:80/0000:80:01.0/0000:81:00.0/numa_node", "64\n");
	assert_int_equal(uccl_near_nic(tree, NULL, "eth1"), 0);
}

/* What hwloc knows goes before sysfs; what it does not know, sysfs may. */
TEST_IN(nic__of_hwloc, tree_make, tree_remove)
{
	struct uccl_hwloc *h;
	const char *missing;

	tree_file("devices/pci0000:80/0000:81:00.0/numa_node", "0\n");
	tree_link("class/net/eth0/device", "../../../devices/pci0000:80/0000:81:00.0");
	tree_file("devices/pci0000:80/0000:99:00.0/numa_node", "0\n");
	tree_link("class/net/eth1/device", "../../../devices/pci0000:80/0000:99:00.0");
	machine_xml("machine.xml");
	setenv("HWLOC_XMLFILE", tree_path("machine.xml"), 1);
	if (uccl_hwloc_open(UCCL_HWLOC_FILE, &h, &missing))
		skip();
	assert_int_equal(uccl_near_nic(tree, h, "eth0"), 2);
	assert_int_equal(uccl_near_nic(tree, h, "eth1"), 1);
	uccl_hwloc_close(h);
	unsetenv("HWLOC_XMLFILE");
}

/* Of the processors 0 to n-1 those of nodes; how many, 0: no use. */
static int cpus_near(int n, uint64_t nodes, uint32_t ours, uint32_t least, struct uccl_near_cpus *out)
{
	struct uccl_near_cpus may = {0};

	for (int i = 0; i < n; i++)
		CPU_SET_S((size_t)i, sizeof(may.set), may.set);
	if (!uccl_near_cpus_from(tree, &may, nodes, ours, least, out))
		return 0;
	return CPU_COUNT_S(sizeof(out->set), out->set);
}

TEST_IN(cpus__of_the_node, tree_make, tree_remove)
{
	struct uccl_near_cpus out;

	machine_make();
	assert_int_equal(cpus_near(8, 1 << 1, 8, 2, &out), 2);
	assert_true(CPU_ISSET_S(1, sizeof(out.set), out.set) && CPU_ISSET_S(5, sizeof(out.set), out.set));
	/* of a package */
	assert_int_equal(cpus_near(8, 3 << 1, 8, 4, &out), 4);
	/* high numbers */
	assert_int_equal(cpus_near(2000, 1 << 3, 2000, 4, &out), 4);
	assert_true(CPU_ISSET_S(1502, sizeof(out.set), out.set));
	/* those alone that the process may use */
	assert_int_equal(cpus_near(5, 1 << 1, 5, 1, &out), 1);
	assert_false(CPU_ISSET_S(5, sizeof(out.set), out.set));
}

/* Where they are too few, or it makes no difference, everything stays as it is. */
TEST_IN(cpus__or_none, tree_make, tree_remove)
{
	struct uccl_near_cpus out;

	assert_int_equal(cpus_near(8, 1, 8, 1, &out), 0);
	machine_make();
	assert_int_equal(cpus_near(8, 1 << 1, 8, 3, &out), 0);
	assert_int_equal(cpus_near(5, 1 << 1, 5, 2, &out), 0);
	assert_int_equal(cpus_near(1, 1 << 1, 1, 1, &out), 0);
	assert_int_equal(cpus_near(1, 1 << 0, 1, 1, &out), 0);
	assert_int_equal(cpus_near(7, 0xf, 7, 1, &out), 0);
	assert_int_equal(cpus_near(8, 0, 8, 1, &out), 0);
	assert_int_equal(cpus_near(8, 1 << 4, 8, 1, &out), 0);
	/* a process that has half of all, as its launcher says, has half of the node */
	assert_int_equal(cpus_near(8, 3, 4, 2, &out), 4);
	assert_int_equal(cpus_near(8, 3, 4, 3, &out), 0);
}

/* Of this machine no processor that the process may not use. */
TEST_IN(cpus__this_machine, tree_make, tree_remove)
{
	struct uccl_near_cpus out;
	cpu_set_t may;

	machine_make();
	if (sched_getaffinity(0, sizeof(may), &may))
		skip();
	for (int i = 0; i < 4; i++) {
		if (!uccl_near_cpus(tree, 1ull << i, (uint32_t)CPU_COUNT(&may), 1, &out))
			continue;
		for (size_t k = 0; k < CPU_SETSIZE; k++)
			assert_true(!CPU_ISSET_S(k, sizeof(out.set), out.set) || CPU_ISSET(k, &may));
	}
}

TEST_IN(text__of_a_set, tree_make, tree_remove)
{
	char text[16], small[4];

	uccl_near_text(0, text, sizeof(text));
	assert_string_equal(text, "unknown");
	uccl_near_text(1ull << 63 | 5, text, sizeof(text));
	assert_string_equal(text, "0,2,63");
	uccl_near_text(~0ull, small, sizeof(small));
	assert_string_equal(small, "0,1");
}

/* This machine, whatever it is: some node is here, and none is nearer. */
TEST_IN(here__this_machine, tree_make, tree_remove)
{
	uccl_near_here(UCCL_SYSFS, &near);
	assert_int_equal(near.here & ~near.nodes, 0);
	for (int i = 0; i < UCCL_NEAR_NODES; i++)
		if (near.here & 1ull << i)
			assert_int_equal(near.distance[i], 10);
	assert_true(near.farthest >= 10);
}

TESTS_MAIN
