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
	_Atomic uint64_t good, bad; /* value and error value */
	_Atomic uint64_t good_read, bad_read; /* values that the program read last */
	uint64_t seen;		/* value that a poll set reported last */
	_Atomic bool of_mr;	/* it is bound to a region, so any endpoint of the domain may change it */
	struct uccl_sleeper sleeper; /* if of_mr: its place in the domain's list */
	struct uccl_waitobj wait;
	struct uccl_drivers drivers;
};

static inline struct uccl_cntr *uccl_cntr_of(struct fid *fid)
{
	return uccl_container_of(fid, struct uccl_cntr, fid.fid);
}

int uccl_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr, void *context);

/* The counter is bound to a region: from now on reading it drives all endpoints of the domain. */
void uccl_cntr_of_mr(struct uccl_cntr *cntr);
/* Count one operation, which succeeded (`good`) or failed. Any thread may call. */
void uccl_cntr_count(struct uccl_cntr *cntr, bool good);

/*
 * fi_trywait(3). 0: the program may sleep. -FI_EAGAIN: the counter changed since the last read or fi_trywait.
 * -FI_EINVAL: it has no wait object.
 */
int uccl_cntr_trywait(struct uccl_cntr *cntr);

#endif
