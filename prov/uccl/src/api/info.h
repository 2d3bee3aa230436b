/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* fi_getinfo. */
#ifndef UCCL_API_INFO_H
#define UCCL_API_INFO_H

#include <rdma/fabric.h>

/*
 * fi_getinfo(3): one entry for each usable interface and address family, the best first. -FI_ENODATA: nothing fits. The
 * reason is logged at info level, and as a warning if an FI_UCCL_* variable has a bad value.
 */
int uccl_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
		 struct fi_info **info);

#endif
