/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* fi_info.nic: what a program may learn about the network interface behind an entry. */
#ifndef UCCL_API_NICATTR_H
#define UCCL_API_NICATTR_H

#include <stdbool.h>

#include <rdma/fabric.h>

#include "nic/ifaddr.h"

/*
 * Describe an interface, as sysfs in folder `sys` does (sysfs.h). `pci`: with its PCI address, or that of what it is
 * behind or above (virtio, bonds, VLANs). NULL: out of memory. The caller's; goes with fi_close or with fi_freeinfo of
 * its owner.
 */
struct fid_nic *uccl_nicattr_new(const char *sys, const struct uccl_ifaddr *ifa, bool pci);

/* Is this program told of PCI addresses? `choice`: uccl_params.pci. */
bool uccl_nicattr_pci(const char *choice);

#endif
