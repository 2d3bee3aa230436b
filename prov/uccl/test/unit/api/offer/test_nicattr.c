/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../tree.h"

#include <rdma/fi_errno.h>

#include "api/offer/nicattr.h"
#include "../../tests.h"

/* The text of what is known about it, which is what fi_info -v shows. */
static const char *shown(const char *name, bool pci)
{
	static char text[2048];
	struct uccl_ifaddr ifa = {.addr.ip = {[10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2, [15] = 7}, .mtu = 1500};
	struct fid_nic *nic, *dup;

	snprintf(ifa.name, sizeof(ifa.name), "%s", name);
	nic = uccl_nicattr_new(tree, &ifa, pci);
	assert_non_null(nic);
	assert_int_equal(nic->fid.ops->control(&nic->fid, FI_DUP, &dup), 0);
	assert_int_equal(nic->fid.ops->close(&nic->fid), 0);
	*text = '\0';
	assert_int_equal(dup->fid.ops->tostr(&dup->fid, text, sizeof(text)), 0);
	assert_int_equal(dup->fid.ops->close(&dup->fid), 0);
	return text;
}

#define shows(name, part) assert_non_null(strstr(shown(name, true), part))
#define hides(name) assert_non_null(strstr(shown(name, false), "pci: unknown\n"))

TEST_IN(new__pci, tree_make, tree_remove)
{
	tree_folder("devices/pci0000:00/0000:00:02.0/0000:3b:00.1");
	tree_link("class/net/eth0/device", "../../../devices/pci0000:00/0000:00:02.0/0000:3b:00.1");
	tree_link("devices/pci0000:00/0000:00:02.0/0000:3b:00.1/driver", "../../../../bus/pci/drivers/ice");
	tree_file("devices/pci0000:00/0000:00:02.0/0000:3b:00.1/vendor", "0x8086\n");
	shows("eth0", "pci: 0000:3b:00.1\n");
	hides("eth0");
	shows("eth0", "driver: ice\n");
	shows("eth0", "vendor_id: 0x8086\n");
	shows("eth0", "address: 192.0.2.7\n");
}

/* Its device is one of the virtio bus; the PCI device is above it. */
TEST_IN(new__virtio, tree_make, tree_remove)
{
	tree_folder("devices/pci0000:00/0000:00:03.0/virtio0");
	tree_link("class/net/eth0/device", "../../../devices/pci0000:00/0000:00:03.0/virtio0");
	tree_link("devices/pci0000:00/0000:00:03.0/virtio0/driver", "../../../../bus/virtio/drivers/virtio_net");
	shows("eth0", "pci: 0000:00:03.0\n");
	hides("eth0");
	shows("eth0", "driver: virtio_net\n");
}

/* The driver of a bond is its own: it has none. */
TEST_IN(new__bond, tree_make, tree_remove)
{
	tree_folder("devices/pci0000:00/0000:01:00.0");
	tree_link("class/net/eth0/device", "../../../devices/pci0000:00/0000:01:00.0");
	tree_link("class/net/bond0/lower_eth0", "../eth0");
	shows("bond0", "pci: 0000:01:00.0\n");
	hides("bond0");
	shows("bond0", "driver: (none)\n");
}

TEST_IN(new__without_device, tree_make, tree_remove)
{
	tree_folder("class/net/lo");
	shows("lo", "pci: unknown\n");
	shows("lo", "driver: (none)\n");
	shows("gone", "pci: unknown\n");
}

/* No MPICH is in this process. */
TEST(pci__choices)
{
	assert_true(uccl_nicattr_pci("auto"));
	assert_true(uccl_nicattr_pci("all"));
	assert_false(uccl_nicattr_pci("none"));
}

TESTS_MAIN
