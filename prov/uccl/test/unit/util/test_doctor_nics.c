/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../api/tree.h"

#include "uccl_doctor_nics.h"
#include "../tests.h"

static void gpu_add(const char *device, const char *class, const char *vendor, const char *node)
{
	char file[300], link[300], target[300];

	snprintf(file, sizeof(file), "devices/%s/class", device);
	tree_file(file, class);
	snprintf(file, sizeof(file), "devices/%s/vendor", device);
	tree_file(file, vendor);
	snprintf(file, sizeof(file), "devices/%s/numa_node", device);
	tree_file(file, node);
	snprintf(link, sizeof(link), "bus/pci/devices/%s", strrchr(device, '/') + 1);
	snprintf(target, sizeof(target), "../../../devices/%s", device);
	tree_link(link, target);
}

TEST_IN(gpus__what_computes, tree_make, tree_remove)
{
	struct doctor_gpu *list;

	assert_int_equal(doctor_gpus(tree, NULL, &list), 0);
	assert_null(list);
	gpu_add("pci0000:80/0000:81:00.0", "0x030200\n", "0x10de\n", "1\n"); /* H200 */
	gpu_add("pci0000:00/0000:01:00.0", "0x030000\n", "0x10de\n", "0\n"); /* a card with a monitor */
	gpu_add("pci0000:00/0000:02:00.0", "0x030000\n", "0x1a03\n", "0\n"); /* the server's console */
	gpu_add("pci0000:00/0000:03:00.0", "0x020000\n", "0x15b3\n", "0\n"); /* a NIC */
	gpu_add("pci0000:40/0000:41:00.0", "0x120000\n", "0x1002\n", "-1\n");
	assert_int_equal(doctor_gpus(tree, NULL, &list), 3);
	assert_non_null(strstr(list[0].device, "0000:01:00.0"));
	assert_non_null(strstr(list[1].device, "0000:41:00.0"));
	assert_non_null(strstr(list[2].device, "0000:81:00.0"));
	assert_true(list[0].nodes == 1 && list[1].nodes == 0 && list[2].nodes == 2);
	free(list);
}

static const char *way(const char *nic, uint64_t nic_nodes, const char *gpu, uint64_t gpu_nodes)
{
	struct doctor_gpu g = {.nodes = gpu_nodes};

	snprintf(g.device, sizeof(g.device), "/sys/devices/%s", gpu);
	return doctor_way_text(doctor_way(nic, nic_nodes, &g));
}

#define SWITCH "pci0000:15/0000:15:01.0/0000:16:00.0"

TEST(way__from_near_to_far)
{
	static const char nic[] = "/sys/devices/" SWITCH "/0000:17:00.0/0000:18:00.0";

	assert_string_equal(way(nic, 1, SWITCH "/0000:17:01.0/0000:19:00.0", 1), "PIX");
	assert_string_equal(way(nic, 1, SWITCH "/0000:17:00.0/0000:18:00.1", 1), "PIX");
	assert_string_equal(way(nic, 1, SWITCH "/0000:17:02.0/0000:1a:00.0/0000:1b:00.0/0000:1c:00.0", 1), "PXB");
	assert_string_equal(way(nic, 1, "pci0000:15/0000:15:03.0/0000:20:00.0", 1), "PHB");
	assert_string_equal(way(nic, 1, "pci0000:30/0000:30:01.0/0000:31:00.0", 1), "NODE");
	assert_string_equal(way(nic, 1, "pci0000:80/0000:80:01.0/0000:81:00.0", 2), "SYS");
	assert_string_equal(way(nic, 0, "pci0000:30/0000:30:01.0/0000:31:00.0", 1), "SYS");
	/* one root begins like the other */
	assert_string_equal(way("/sys/devices/pci0000:1/0000:01:00.0", 1, "pci0000:15/0000:15:01.0", 2), "SYS");
}

/* A host with two nodes, where the thread runs at node 0: a NIC beside a GPU, one at the other node, and loopback. */
static int host_make(struct doctor_nic *nic, struct doctor_gpu *gpu, struct uccl_near *near)
{
	memset(nic, 0, 3 * sizeof(*nic));
	strcpy(nic[0].ifa.name, "mlx5_0");
	strcpy(nic[0].device, "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0");
	nic[0].rdma = true;
	nic[0].place = 1;
	nic[0].ifa.link_bps = 400000000000;
	nic[0].ifa.mtu = 4096;
	nic[0].nodes = 1;
	nic[0].distance = 10;
	nic[1] = nic[0];
	strcpy(nic[1].ifa.name, "mlx5_1");
	strcpy(nic[1].device, "/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0");
	nic[1].place = 2;
	nic[1].nodes = 2;
	nic[1].distance = 32;
	strcpy(nic[2].ifa.name, "lo");
	nic[2].ifa.mtu = 65536;
	nic[2].ifa.class = UCCL_IF_LOOPBACK;
	nic[2].distance = 32;
	memset(gpu, 0, sizeof(*gpu));
	strcpy(gpu->device, "/sys/devices/pci0000:15/0000:15:02.0/0000:17:00.0");
	gpu->nodes = 1;
	memset(near, 0, sizeof(*near));
	near->nodes = 3;
	near->here = 1;
	return 3;
}

/* What is printed, as one text. */
static const char *printed(bool json, bool with_gpu)
{
	static char text[4096];
	struct doctor_nic nic[3];
	struct doctor_gpu gpu;
	struct uccl_near near;
	int n = host_make(nic, &gpu, &near);
	FILE *f = fmemopen(text, sizeof(text), "w");

	assert_non_null(f);
	(json ? doctor_nics_json : doctor_nics_text)(nic, n, &gpu, with_gpu, &near, "sysfs", f);
	fclose(f);
	return text;
}

TEST(text__columns)
{
	assert_string_equal(
		printed(false, true),
		"ORDER  NIC     BACKEND  KIND      SPEED  MTU    PCI           NUMA  DISTANCE  GPU\n"
		"1      mlx5_0  verbs    physical  400G   4096   0000:16:00.0  0     10        0000:17:00.0 PHB\n"
		"2      mlx5_1  verbs    physical  400G   4096   0000:81:00.0  1     32        0000:17:00.0 SYS\n"
		"-      lo      udp      loopback  -      65536  -             -     32        -\n"
		"\nThis process may run on NUMA nodes 0. Where the NICs are says sysfs.\n");
	assert_null(strstr(printed(false, false), "PHB"));
}

TEST(json__members)
{
	assert_string_equal(
		printed(true, true),
		"{\"program\":\"uccl_doctor\",\"version\":1,\"source\":\"sysfs\",\"here\":[0],\"nics\":[\n"
		"{\"order\":1,\"nic\":\"mlx5_0\",\"backend\":\"verbs\",\"kind\":\"physical\","
		"\"link_bps\":400000000000,\"mtu\":4096,"
		"\"pci\":\"0000:16:00.0\",\"numa\":[0],\"distance\":10,\"gpu\":\"0000:17:00.0\","
		"\"gpu_way\":\"PHB\"},\n"
		"{\"order\":2,\"nic\":\"mlx5_1\",\"backend\":\"verbs\",\"kind\":\"physical\","
		"\"link_bps\":400000000000,\"mtu\":4096,"
		"\"pci\":\"0000:81:00.0\",\"numa\":[1],\"distance\":32,\"gpu\":\"0000:17:00.0\","
		"\"gpu_way\":\"SYS\"},\n"
		"{\"order\":0,\"nic\":\"lo\",\"backend\":\"udp\",\"kind\":\"loopback\",\"link_bps\":0,"
		"\"mtu\":65536,\"pci\":\"\","
		"\"numa\":[],\"distance\":32,\"gpu\":\"\",\"gpu_way\":\"\"}\n]}\n");
}

TEST(nearest__first_of_equals)
{
	struct doctor_nic nic[3];
	struct doctor_gpu gpu[3];
	struct uccl_near near;

	host_make(nic, &gpu[2], &near);
	gpu[0] = gpu[1] = gpu[2];
	strcpy(gpu[0].device, "/sys/devices/pci0000:80/0000:80:07.0/0000:82:00.0");
	assert_ptr_equal(doctor_gpu_nearest(&nic[0], gpu, 3), &gpu[1]);
	assert_ptr_equal(doctor_gpu_nearest(&nic[1], gpu, 3), &gpu[0]);
	assert_null(doctor_gpu_nearest(&nic[2], gpu, 3));
	assert_null(doctor_gpu_nearest(&nic[0], gpu, 0));
}

TESTS_MAIN
