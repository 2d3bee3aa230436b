/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* fi_info.nic: the description of an entry's network interface. */
#ifndef UCCL_API_NICATTR_H
#define UCCL_API_NICATTR_H

#include <stdbool.h>

#include <rdma/fabric.h>

#include "nic/ifaddr.h"

/*
 * Describe an interface from sysfs in the directory `sys` (sysfs.h). `pci`: with its PCI address; for virtio, bonds and
 * VLANs that of the device below. NULL: out of memory. The caller frees it with fi_close, or with fi_freeinfo of the
 * fi_info that has it.
 */
struct fid_nic *uccl_nicattr_new(const char *sys, const struct uccl_ifaddr *ifa, bool pci);

/* True if this program gets PCI addresses. `choice`: uccl_params.pci. */
bool uccl_nicattr_pci(const char *choice);

#endif
