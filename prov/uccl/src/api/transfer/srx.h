/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shared receive contexts: a list of receives for several endpoints. A message that arrives at one of them waits there
 * as an unexpected message. Then the endpoint takes the first matching receive of the context.
 */
#ifndef UCCL_API_SRX_H
#define UCCL_API_SRX_H

#include <sys/queue.h>

#include "api/transfer/op.h"
#include "base/pool.h"
#include "base/units.h"
#include "progress/drivers.h"

/* A posted receive, or a multi-receive buffer. */
struct uccl_srx_recv {
	TAILQ_ENTRY(uccl_srx_recv) link;
	struct uccl_xfer x;
	struct iovec iov[UCCL_IOV_MAX];
	bool posted;			/* in the list */
	uint32_t children;		/* multi-receive: messages that are being received into it */
};

TAILQ_HEAD(uccl_srx_list, uccl_srx_recv);

struct uccl_srx {
	struct uccl_ep_fid self;
	struct uccl_domain *domain;
	_Atomic int refs;		/* bound endpoints */
	struct uccl_drivers drivers;
	_Atomic uint32_t nwaiting;	/* endpoints whose srx_waits is set */
	size_t min_multi;		/* FI_OPT_MIN_MULTI_RECV, bytes */
	uint32_t size;			/* most receives */
	pthread_mutex_t lock;		/* protects the fields below; taken after an endpoint's lock */
	struct uccl_srx_list posted[2];	/* 0: untagged, 1: tagged */
	struct uccl_pool pool;
};

static inline struct uccl_srx *uccl_srx_of(struct fid *fid)
{
	return uccl_container_of(fid, struct uccl_srx, self.fid.fid);
}

/* As the functions of xfer.h. No lock is held. */
ssize_t uccl_srx_recv(struct uccl_srx *srx, const struct uccl_xfer *x);
ssize_t uccl_srx_peek(struct uccl_srx *srx, const struct uccl_xfer *x);
/* As fi_cancel(3). */
ssize_t uccl_srx_cancel(struct uccl_srx *srx, void *context);
/* The number of receives that can still be posted. */
ssize_t uccl_srx_size_left(struct uccl_srx *srx);
/* The endpoint is closed, and gives up its reference. */
void uccl_srx_leave(struct uccl_ep *ep);
/* Match this endpoint's waiting messages with receives; returns how many matched. The endpoint's lock is held. */
int uccl_srx_serve(struct uccl_ep *ep, uint64_t now);

#endif
