/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The fabric object: parent of domains and event queues. */
#ifndef UCCL_API_OBJECT_FABRIC_H
#define UCCL_API_OBJECT_FABRIC_H

#include <rdma/fabric.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/units.h"

struct uccl_fabric {
	struct fid_fabric fid; /* api_version is set by the library after the open */
	_Atomic int refs;      /* open children */
};

static inline struct uccl_fabric *uccl_fabric_of(struct fid *fid)
{
	return uccl_container_of(fid, struct uccl_fabric, fid.fid);
}

/* True if the program was compiled for this version of libfabric's interface or a later one, so with its fields. */
static inline bool uccl_fabric_api(const struct uccl_fabric *f, int major, int minor)
{
	return FI_VERSION_GE(f->fid.api_version, (uint32_t)FI_VERSION(major, minor));
}

#endif
