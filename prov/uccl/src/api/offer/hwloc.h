/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * hwloc, loaded when it is there: near which NUMA nodes a PCI device is. It corrects what some firmware says wrongly,
 * and HWLOC_XMLFILE or HWLOC_PCI_LOCALITY tell it otherwise.
 */
#ifndef UCCL_API_HWLOC_H
#define UCCL_API_HWLOC_H

#include <stdint.h>

#include "api/offer/sysfs.h"

#define UCCL_HWLOC_FILE "libhwloc.so.15"

struct uccl_hwloc;

/*
 * Load the library of this name (what is found there stays loaded) and look at this machine. -FI_ENOSYS: *missing is
 * not there; -FI_EIO: *missing failed; -FI_ENOMEM.
 */
int uccl_hwloc_open(const char *file, struct uccl_hwloc **hwloc, const char **missing);
void uccl_hwloc_close(struct uccl_hwloc *hwloc);

/* NUMA nodes near a device, a bit per number up to 63. 0: not known, or no device of this machine. */
uint64_t uccl_hwloc_nodes(const struct uccl_hwloc *hwloc, const struct uccl_pci *pci);

/*
 * That of the process, which the first call opens; it may take some tens of ms. NULL: it cannot be used, or must not be
 * because the program has other rights than who started it.
 */
const struct uccl_hwloc *uccl_hwloc_find(void);

#endif
