/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Properties of a NIC from sysfs. `sys` is the directory of sysfs: UCCL_SYSFS, or one made by a test. `nic` is a
 * network interface or an RDMA device; the name of the latter may end in ":port". Of joined devices ("mlx5_0+mlx5_1")
 * the first one is meant.
 */
#ifndef UCCL_API_SYSFS_H
#define UCCL_API_SYSFS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UCCL_SYSFS "/sys"

/* The last component of the target of the link `what` in the NIC's directory (as the driver). False: no such link. */
bool uccl_sysfs_link(const char *sys, const char *nic, const char *what, char *out, size_t size);

/* The first line of the file `what` in the NIC's directory, such as a PCI identity. The caller frees it. NULL: none. */
char *uccl_sysfs_line(const char *sys, const char *nic, const char *what);

/* False: the kernel says that the interface has no carrier, whatever addresses it has. */
bool uccl_sysfs_running(const char *sys, const char *nic);

struct uccl_pci {
	uint16_t domain;
	uint8_t bus, device, function;
};

/*
 * The directory of the device that carries a NIC's packets, as a path without links. An interface without a device (a
 * bond, a VLAN, a bridge, a macvlan) has that of the interface below it. An RDMA device without one (Soft-RoCE) has
 * that of its first GID's interface. If several interfaces are below it, the active one counts (bonds), else the first
 * by name with carrier, else the first by name. False: there is no device.
 */
bool uccl_sysfs_device(const char *sys, const char *nic, char device[PATH_MAX]);

/* The PCI address of a directory of uccl_sysfs_device(), or of the device above it (virtio, USB). False: none. */
bool uccl_sysfs_pci(const char *device, struct uccl_pci *pci);

/* The NUMA node of a directory of uccl_sysfs_device(), or of the nearest device above that has one. -1: none has. */
int uccl_sysfs_node(const char *device);

#endif
