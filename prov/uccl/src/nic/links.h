/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The host's interfaces with what ifclass.h judges by, from rtnetlink and sysfs. */
#ifndef UCCL_NIC_LINKS_H
#define UCCL_NIC_LINKS_H

#include "nic/ifclass.h"

/*
 * List all interfaces of the calling thread's network namespace. Returns how many, or a negative error; *list is the
 * caller's to free() (NULL when 0, or after an error).
 */
int uccl_links_read(struct uccl_netif **list);

/* True if sysfs knows a device of the interface `name`: it is not made of software alone. */
bool uccl_links_device(const char *name);

#endif
