/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Address vector sets (fi_av_set(3)): ordered lists of the members of collectives. Local to this process. */
#ifndef UCCL_API_AVSET_H
#define UCCL_API_AVSET_H

#include <pthread.h>
#include <rdma/fi_collective.h>

#include "base/units.h"

struct uccl_av;

struct uccl_avset {
	struct fid_av_set fid;
	struct uccl_av *av;
	pthread_mutex_t lock;	/* of what follows */
	fi_addr_t *v;
	size_t n, cap;
};

/* The set behind a handle; accepts also a const handle. */
static inline struct uccl_avset *uccl_avset_of(const struct fid *fid)
{
	return uccl_container_of((uintptr_t)fid, struct uccl_avset, fid.fid);
}

/*
 * fi_av_set(3). -FI_EINVAL: a range without stride, or a communication key, which is for fabrics that manage groups
 * themselves.
 */
int uccl_avset_open(struct fid_av *av, struct fi_av_set_attr *attr, struct fid_av_set **set, void *context);
/* A copy of the *n members, which the caller frees. NULL: out of memory. */
fi_addr_t *uccl_avset_members(struct uccl_avset *set, size_t *n);

#endif
