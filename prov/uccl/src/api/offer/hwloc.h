/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The NUMA nodes near a PCI device, by the library hwloc if the host has it. hwloc corrects errors of some firmware,
 * and the user can correct it by HWLOC_XMLFILE or HWLOC_PCI_LOCALITY.
 */
#ifndef UCCL_API_HWLOC_H
#define UCCL_API_HWLOC_H

#include <stdint.h>

#include "api/offer/sysfs.h"

#define UCCL_HWLOC_FILE "libhwloc.so.15"

struct uccl_hwloc;

/*
 * Load the library `file`, which stays loaded, and read the topology of this machine. -FI_ENOSYS: the library or
 * function *missing does not exist. -FI_EIO: the function *missing failed. -FI_ENOMEM.
 */
int uccl_hwloc_open(const char *file, struct uccl_hwloc **hwloc, const char **missing);
void uccl_hwloc_close(struct uccl_hwloc *hwloc);

/* NUMA nodes near a device: bit i is node i, i < 64. 0: unknown, or no device of this machine. */
uint64_t uccl_hwloc_nodes(const struct uccl_hwloc *hwloc, const struct uccl_pci *pci);

/*
 * The instance of this process. The first call opens it, which may take some tens of ms. NULL: hwloc cannot be used, or
 * must not be used because the program has more rights than the user that started it (setuid).
 */
const struct uccl_hwloc *uccl_hwloc_find(void);

#endif
