/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../tree.h"

#include "api/offer/sysfs.h"
#include "../../tests.h"

TEST_IN(link__last_part, tree_make, tree_remove)
{
	char text[8];

	tree_link("class/net/eth0/device/driver", "../../../bus/pci/drivers/ice");
	assert_true(uccl_sysfs_link(tree, "eth0", "device/driver", text, sizeof(text)));
	assert_string_equal(text, "ice");
	assert_false(uccl_sysfs_link(tree, "eth0", "device/iommu", text, sizeof(text)));
	assert_false(uccl_sysfs_link(tree, "eth1", "device/driver", text, sizeof(text)));
	/* no room for it */
	assert_false(uccl_sysfs_link(tree, "eth0", "device/driver", text, 3));
}

TEST_IN(line__of_both_classes, tree_make, tree_remove)
{
	char *line;

	tree_file("class/net/eth0/device/vendor", "0x8086\nmore\n");
	tree_file("class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
	line = uccl_sysfs_line(tree, "eth0", "device/vendor");
	assert_string_equal(line, "0x8086");
	free(line);
	line = uccl_sysfs_line(tree, "mlx5_0:1", "ports/1/link_layer");
	assert_string_equal(line, "InfiniBand");
	free(line);
	assert_null(uccl_sysfs_line(tree, "eth0", "speed"));
	tree_file("class/net/eth0/empty", "");
	assert_null(uccl_sysfs_line(tree, "eth0", "empty"));
}

/* Many kinds of interfaces do not know. */
TEST_IN(running__unless_down, tree_make, tree_remove)
{
	tree_file("class/net/eth0/operstate", "up\n");
	tree_file("class/net/eth1/operstate", "down\n");
	tree_file("class/net/lo/operstate", "unknown\n");
	assert_true(uccl_sysfs_running(tree, "eth0"));
	assert_false(uccl_sysfs_running(tree, "eth1"));
	assert_true(uccl_sysfs_running(tree, "lo"));
	assert_true(uccl_sysfs_running(tree, "eth9"));
}

/* A NIC whose device is this folder of devices/. */
static void nic_add(const char *class, const char *name, const char *device)
{
	char link[128], target[256];

	snprintf(link, sizeof(link), "class/%s/%s/device", class, name);
	snprintf(target, sizeof(target), "devices/%s", device);
	tree_folder(target);
	snprintf(target, sizeof(target), "/devices/%s", device);
	tree_link(link, target);
}

static void lower_add(const char *upper, const char *lower)
{
	char link[128], target[128];

	snprintf(link, sizeof(link), "class/net/%s/lower_%s", upper, lower);
	snprintf(target, sizeof(target), "../%s", lower);
	tree_link(link, target);
}

static void state_set(const char *name, const char *state)
{
	char file[128];

	snprintf(file, sizeof(file), "class/net/%s/operstate", name);
	tree_file(file, state);
}

/* The PCI address as a text; "device": a device without one; "": no device. */
static const char *pci_of(const char *nic)
{
	static char text[32];
	char device[PATH_MAX];
	struct uccl_pci pci;

	if (!uccl_sysfs_device(tree, nic, device))
		return "";
	if (!uccl_sysfs_pci(device, &pci))
		return "device";
	snprintf(text, sizeof(text), "%04x:%02x:%02x.%x", pci.domain, pci.bus, pci.device, pci.function);
	return text;
}

TEST_IN(device__of_its_own, tree_make, tree_remove)
{
	nic_add("net", "eth0", "pci0000:3a/0000:3a:00.0/0000:3b:00.1");
	nic_add("net", "eth1", "pci0000:00/0000:00:03.0/virtio0");
	nic_add("net", "usb0", "pci0000:00/0000:00:14.0/usb1/1-1/1-1:1.0");
	nic_add("net", "azure0", "LNXSYSTM:00/VMBUS:00/00155d00-aaaa-bbbb-cccc-00155d000001");
	nic_add("net", "vf0", "LNXSYSTM:00/VMBUS:00/b2c0/pcib2c0:00/b2c0:00:02.0");
	nic_add("infiniband", "mlx5_0", "pci0000:d7/0000:d7:00.0/0000:d8:00.0");
	tree_folder("class/net/lo");
	assert_string_equal(pci_of("eth0"), "0000:3b:00.1");
	assert_string_equal(pci_of("eth1"), "0000:00:03.0");
	assert_string_equal(pci_of("usb0"), "0000:00:14.0");
	assert_string_equal(pci_of("azure0"), "device");
	assert_string_equal(pci_of("vf0"), "b2c0:00:02.0");
	assert_string_equal(pci_of("mlx5_0"), "0000:d8:00.0");
	assert_string_equal(pci_of("mlx5_0:1"), "0000:d8:00.0");
	assert_string_equal(pci_of("mlx5_0+mlx5_1"), "0000:d8:00.0");
	assert_string_equal(pci_of("lo"), "");
	assert_string_equal(pci_of("gone"), "");
}

/* Addresses that fi_info cannot hold are those of a bus behind a device that it can. */
TEST_IN(pci__strictly, tree_make, tree_remove)
{
	struct uccl_pci pci;

	assert_true(uccl_sysfs_pci("/sys/devices/pci0000:64/0000:64:05.5/pci10000:e0/10000:e0:02.0", &pci));
	assert_int_equal(pci.bus, 0x64);
	assert_true(uccl_sysfs_pci("0000:ff:1f.7", &pci));
	assert_true(pci.domain == 0 && pci.bus == 0xff && pci.device == 0x1f && pci.function == 7);
	assert_false(uccl_sysfs_pci("", &pci));
	assert_false(uccl_sysfs_pci("/", &pci));
	assert_false(uccl_sysfs_pci("/sys/devices/pci0000:00", &pci));
	assert_false(uccl_sysfs_pci("/sys/1-1:1.0/00:01:02.3/0000:00:00.0x/0000:00:0 .0", &pci));
}

TEST_IN(device__below, tree_make, tree_remove)
{
	nic_add("net", "eth0", "pci0000:00/0000:01:00.0");
	nic_add("net", "eth1", "pci0000:00/0000:02:00.0");
	tree_folder("class/net/veth0");
	/* a VLAN on a bond in a bridge beside a device of no machine */
	lower_add("bond0", "eth1");
	lower_add("bond0", "eth0");
	lower_add("bond0.7", "bond0");
	lower_add("br0", "veth0");
	lower_add("br0", "bond0.7");
	lower_add("macvlan0", "eth1");
	lower_add("br1", "veth0");
	assert_string_equal(pci_of("bond0"), "0000:01:00.0");
	assert_string_equal(pci_of("bond0.7"), "0000:01:00.0");
	assert_string_equal(pci_of("br0"), "0000:01:00.0");
	assert_string_equal(pci_of("macvlan0"), "0000:02:00.0");
	assert_string_equal(pci_of("br1"), "");
	/* what has carrier before what has none, unless none has */
	state_set("eth0", "down\n");
	assert_string_equal(pci_of("br0"), "0000:02:00.0");
	state_set("eth1", "down\n");
	assert_string_equal(pci_of("br0"), "0000:01:00.0");
	state_set("eth0", "up\n");
	state_set("eth1", "up\n");
	/* the bond says which it uses; none, when it uses all */
	tree_file("class/net/bond0/bonding/active_slave", "eth1\n");
	assert_string_equal(pci_of("bond0.7"), "0000:02:00.0");
	tree_file("class/net/bond0/bonding/active_slave", "\n");
	assert_string_equal(pci_of("bond0.7"), "0000:01:00.0");
}

/* The front of Hyper-V has a device of its own, packets go over the virtual function below it. */
TEST_IN(device__below_a_front, tree_make, tree_remove)
{
	nic_add("net", "eth0", "LNXSYSTM:00/VMBUS:00/00155d00");
	nic_add("net", "enP45760s1", "LNXSYSTM:00/VMBUS:00/b2c0/pcib2c0:00/b2c0:00:02.0");
	lower_add("eth0", "enP45760s1");
	assert_string_equal(pci_of("eth0"), "b2c0:00:02.0");
}

/* Soft-RoCE has no device: it is where the interface of its first GID is. */
TEST_IN(device__of_an_interface, tree_make, tree_remove)
{
	nic_add("net", "eth0", "pci0000:00/0000:01:00.0");
	tree_file("class/infiniband/rxe0/ports/1/gid_attrs/ndevs/0", "eth0\n");
	assert_string_equal(pci_of("rxe0"), "0000:01:00.0");
	tree_file("class/infiniband/rxe0/ports/1/gid_attrs/ndevs/0", "../net/eth0\n");
	assert_string_equal(pci_of("rxe0"), "");
}

/* No kernel makes this. */
TEST_IN(device__circle, tree_make, tree_remove)
{
	lower_add("a", "b");
	lower_add("b", "a");
	assert_string_equal(pci_of("a"), "");
}

static int node_of(const char *nic)
{
	char device[PATH_MAX];

	assert_true(uccl_sysfs_device(tree, nic, device));
	return uccl_sysfs_node(device);
}

TEST_IN(node__on_the_way_up, tree_make, tree_remove)
{
	nic_add("net", "eth0", "pci0000:00/0000:00:03.0/virtio0");
	assert_int_equal(node_of("eth0"), -1);
	tree_file("devices/pci0000:00/0000:00:03.0/numa_node", "-1\n");
	assert_int_equal(node_of("eth0"), -1);
	tree_file("devices/pci0000:00/numa_node", "3\n");
	assert_int_equal(node_of("eth0"), 3);
	tree_file("devices/pci0000:00/0000:00:03.0/numa_node", "12\n");
	assert_int_equal(node_of("eth0"), 12);
	tree_file("devices/pci0000:00/0000:00:03.0/virtio0/numa_node", "");
	assert_int_equal(node_of("eth0"), 12);
}

TESTS_MAIN
