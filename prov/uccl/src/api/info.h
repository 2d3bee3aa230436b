/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* fi_getinfo. */
#ifndef UCCL_API_INFO_H
#define UCCL_API_INFO_H

#include <rdma/fabric.h>

/*
 * One entry per usable interface and address family, best first. -FI_ENODATA: nothing fits, the reason was told at info
 * level (a bad FI_UCCL_* value: as a warning).
 */
int uccl_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
		 struct fi_info **info);

#endif
