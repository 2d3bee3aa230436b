/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Where endpoints can be, and how a NIC is opened there: the one place in api that knows the back ends. */
#ifndef UCCL_API_PLACE_H
#define UCCL_API_PLACE_H

#include "api/offer/param.h"
#include "nic/ifaddr.h"

/*
 * True: places are queue pairs of RDMA NICs. They have no port numbers, so no host name or socket address finds one.
 * Such NICs may reach memory of devices by themselves.
 */
bool uccl_place_rdma(const struct uccl_params *p);

/*
 * The interfaces, or RDMA NICs by their device names, that the back end can use: how many; *list is the caller's to
 * free(). A negative error otherwise.
 */
int uccl_place_list(const struct uccl_params *p, struct uccl_ifaddr **list);

/* Does this name join several NICs? */
bool uccl_place_joined(const struct uccl_params *p, const char *name);

int uccl_place_open(const struct uccl_params *p, const struct uccl_nic_attr *attr, struct uccl_nic **nic);

#endif
