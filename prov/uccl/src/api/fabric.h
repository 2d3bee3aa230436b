/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The fabric object: parent of domains and event queues. */
#ifndef UCCL_API_FABRIC_H
#define UCCL_API_FABRIC_H

#include <rdma/fabric.h>
#include <rdma/fi_eq.h>
#include <stdatomic.h>
#include <stdbool.h>

struct uccl_fabric {
	struct fid_fabric fid; /* api_version is set by the library after the open */
	_Atomic int refs;      /* open children */
};

int uccl_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);

/* True if it was opened here. */
bool uccl_fabric_is_ours(const struct fid_fabric *fabric);

/* True if the program was written for this version of the interface or a later one: its structs have the fields. */
bool uccl_fabric_api(const struct uccl_fabric *f, int major, int minor);

#endif
