/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The interfaces of the chosen back end, and opening a NIC on one. Only this file of api knows the back ends. */
#ifndef UCCL_API_PLACE_H
#define UCCL_API_PLACE_H

#include "api/offer/param.h"
#include "nic/ifaddr.h"
#include "progress/lane_set.h"

/*
 * True if the back end uses RDMA NICs. An endpoint's address is then a queue pair without a port number, so no host
 * name and no socket address names it. Such a NIC may access device memory itself.
 */
bool uccl_place_rdma(const struct uccl_params *p);

/*
 * List the interfaces, or RDMA NICs by their device names, that the back end can use. Returns their number or a
 * negative error; the caller frees *list.
 */
int uccl_place_list(const struct uccl_params *p, struct uccl_ifaddr **list);

/*
 * FI_UCCL_NIC=auto becomes the name that joins the best interfaces, or, of an open domain, its name `opened`; or none,
 * if there are no two interfaces to join or the back end does not join any.
 */
void uccl_place_auto(struct uccl_params *p, const char *opened);

/* True if this name joins several NICs ("mlx5_0+mlx5_1"). */
bool uccl_place_joined(const struct uccl_params *p, const char *name);

/* Open a NIC of the chosen back end. 0, or an error of the back end. */
int uccl_place_open(const struct uccl_params *p, const struct uccl_nic_attr *attr, struct uccl_nic **nic);

/* How an endpoint's lanes are opened. NULL: this build has none (configure --disable-lanes). */
uccl_lane_set_open_fn *uccl_place_lanes(void);

#endif
