/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What sysfs says about a NIC. `sys` is its folder: UCCL_SYSFS, or one that a test has made. `nic` is a network
 * interface, or else an RDMA device, whose name may end in :port; of several that are joined ("mlx5_0+mlx5_1") it is
 * the first.
 */
#ifndef UCCL_API_SYSFS_H
#define UCCL_API_SYSFS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UCCL_SYSFS "/sys"

/* The last part of what a link in the NIC's folder points to, such as the driver's name. False: there is none. */
bool uccl_sysfs_link(const char *sys, const char *nic, const char *what, char *out, size_t size);

/* One line of a file in the NIC's folder, such as a PCI identity; the caller's to free(). NULL: none. */
char *uccl_sysfs_line(const char *sys, const char *nic, const char *what);

/* False: the kernel says that the interface has no carrier, whatever addresses it has. */
bool uccl_sysfs_running(const char *sys, const char *nic);

struct uccl_pci {
	uint16_t domain;
	uint8_t bus, device, function;
};

/*
 * The folder of the device that carries a NIC's packets, without links in its path. What has no PCI device of its own
 * (a bond, a VLAN, a bridge, a macvlan) is where the interface below it is; an RDMA device without one (Soft-RoCE) is
 * where the interface of its first GID is. Of several interfaces below it that is the active one, if the kernel says
 * which (bonds), or else the first by name that has carrier, or else the first by name. False: there is no device.
 */
bool uccl_sysfs_device(const char *sys, const char *nic, char device[PATH_MAX]);

/* The PCI device that a folder of uccl_sysfs_device() is, or is below (virtio, USB). False: none. */
bool uccl_sysfs_pci(const char *device, struct uccl_pci *pci);

/* The NUMA node of a folder of uccl_sysfs_device(): of the first device on the way up that has one. -1: none has. */
int uccl_sysfs_node(const char *device);

#endif
