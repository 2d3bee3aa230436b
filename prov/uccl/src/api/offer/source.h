/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The local address of endpoints, from their fi_info. */
#ifndef UCCL_API_SOURCE_H
#define UCCL_API_SOURCE_H

#include <rdma/fabric.h>

#include "api/offer/param.h"
#include "flow/wire/addr.h"

/* True if the address can be expressed in the format that the program asked for. */
bool uccl_source_fits(uint32_t format, const struct uccl_nic_addr *a);

/*
 * The local address that an info names, or else one of the interface that its domain name names. The port is 0 if the
 * provider may choose. -FI_EINVAL: neither is usable.
 */
int uccl_source(const struct fi_info *info, const struct uccl_params *params, struct uccl_nic_addr *src);

#endif
