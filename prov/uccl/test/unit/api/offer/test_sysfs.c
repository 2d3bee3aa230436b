/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../tree.h"

#include "api/offer/sysfs.h"

static void link__last_part(void **state)
{
	char text[8];

	(void)state;
	tree_link("class/net/eth0/device/driver", "../../../bus/pci/drivers/ice");
	assert_true(uccl_sysfs_link(tree, "eth0", "device/driver", text, sizeof(text)));
	assert_string_equal(text, "ice");
	assert_false(uccl_sysfs_link(tree, "eth0", "device/iommu", text, sizeof(text)));
	assert_false(uccl_sysfs_link(tree, "eth1", "device/driver", text, sizeof(text)));
	/* no room for it */
	assert_false(uccl_sysfs_link(tree, "eth0", "device/driver", text, 3));
}

static void line__of_both_classes(void **state)
{
	char *line;

	(void)state;
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
static void running__unless_down(void **state)
{
	(void)state;
	tree_file("class/net/eth0/operstate", "up\n");
	tree_file("class/net/eth1/operstate", "down\n");
	tree_file("class/net/lo/operstate", "unknown\n");
	assert_true(uccl_sysfs_running(tree, "eth0"));
	assert_false(uccl_sysfs_running(tree, "eth1"));
	assert_true(uccl_sysfs_running(tree, "lo"));
	assert_true(uccl_sysfs_running(tree, "eth9"));
}

#define each(name) cmocka_unit_test_setup_teardown(name, tree_make, tree_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		each(link__last_part),
		each(line__of_both_classes),
		each(running__unless_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
