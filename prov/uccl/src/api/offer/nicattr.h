/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* fi_info.nic: what a program may learn about the network interface behind an entry. */
#ifndef UCCL_API_NICATTR_H
#define UCCL_API_NICATTR_H

#include <rdma/fabric.h>

#include "nic/ifaddr.h"

/* Describe an interface. NULL: out of memory. The caller's; goes with fi_close or with fi_freeinfo of its owner. */
struct fid_nic *uccl_nicattr_new(const struct uccl_ifaddr *ifa);

/* False: the kernel says that the interface has no carrier, whatever addresses it has. */
bool uccl_nicattr_running(const char *ifname);

#endif
