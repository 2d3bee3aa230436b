/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* fi_getinfo. */
#ifndef UCCL_API_INFO_H
#define UCCL_API_INFO_H

#include <rdma/fabric.h>

#include "api/param.h"
#include "core/addr.h"

/*
 * One entry per usable interface and address family, best first. -FI_ENODATA: nothing fits, the reason was told at info
 * level (a bad FI_UCCL_* value: as a warning).
 */
int uccl_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
		 struct fi_info **info);

/*
 * The local address that an info names, or else one of the interface that its domain name names. The port is 0 if the
 * provider may choose. -FI_EINVAL: neither is usable.
 */
int uccl_info_source(const struct fi_info *info, const struct uccl_params *params, struct uccl_nic_addr *src);

#endif
