/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Counters of completed and of failed operations. */
#ifndef UCCL_API_CNTR_H
#define UCCL_API_CNTR_H

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>
#include <stdatomic.h>

#include "api/event/waitobj.h"
#include "api/object/domain.h"
#include "base/units.h"
#include "progress/drivers.h"

struct uccl_cntr {
	struct fid_cntr fid;
	struct uccl_domain *domain;
	_Atomic int refs;	/* bound endpoints, poll sets */
	_Atomic uint64_t good, bad;
	_Atomic uint64_t good_read, bad_read; /* what the program has been told of these */
	uint64_t seen;		/* by a poll set */
	_Atomic bool of_mr;	/* bound to a region: any endpoint of the domain may move it */
	struct uccl_sleeper sleeper; /* then */
	struct uccl_waitobj wait;
	struct uccl_drivers drivers;
};

static inline struct uccl_cntr *uccl_cntr_of(struct fid *fid)
{
	return uccl_container_of(fid, struct uccl_cntr, fid.fid);
}

int uccl_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr, void *context);

/* Bound to a region: from now on whoever waits for it drives all endpoints of the domain. */
void uccl_cntr_of_mr(struct uccl_cntr *cntr);
/* Count one operation. */
void uccl_cntr_count(struct uccl_cntr *cntr, bool good);

/* 0: the program may sleep; -FI_EAGAIN: the counter has moved since the program read it, or was told so by this. */
int uccl_cntr_trywait(struct uccl_cntr *cntr);

#endif
