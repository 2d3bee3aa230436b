/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What sysfs says about a NIC. `sys` is its folder: UCCL_SYSFS, or one that a test has made. `nic` is a network
 * interface, or else an RDMA device, whose name may end in :port.
 */
#ifndef UCCL_API_SYSFS_H
#define UCCL_API_SYSFS_H

#include <stdbool.h>
#include <stddef.h>

#define UCCL_SYSFS "/sys"

/* The last part of what a link in the NIC's folder points to, such as the driver's name. False: there is none. */
bool uccl_sysfs_link(const char *sys, const char *nic, const char *what, char *out, size_t size);

/* One line of a file in the NIC's folder, such as a PCI identity; the caller's to free(). NULL: none. */
char *uccl_sysfs_line(const char *sys, const char *nic, const char *what);

/* False: the kernel says that the interface has no carrier, whatever addresses it has. */
bool uccl_sysfs_running(const char *sys, const char *nic);

#endif
