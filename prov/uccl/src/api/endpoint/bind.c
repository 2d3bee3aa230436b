/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See bind.h. */
#include "api/endpoint/bind.h"

#include "api/endpoint/shared.h"
#include "api/event/cntr.h"
#include "api/event/cq.h"
#include "api/event/eq.h"
#include "api/object/domain.h"
#include "api/peers/av.h"
#include "api/peers/lookup.h"
#include "api/transfer/srx.h"
#include "progress/drivers.h"

static int bind_cq(struct uccl_ep *ep, struct uccl_cq *cq, uint64_t flags)
{
	int rc;

	if (flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION) || !(flags & (FI_TRANSMIT | FI_RECV)) ||
	    cq->domain != ep->domain)
		return -FI_EINVAL;
	if ((flags & FI_TRANSMIT && ep->bound.tx_cq) || (flags & FI_RECV && ep->bound.rx_cq))
		return -FI_EINVAL;
	rc = uccl_drivers_add(&cq->drivers, &ep->driver);
	if (rc)
		return rc;
	if (flags & FI_TRANSMIT) {
		ep->bound.tx_cq = cq;
		ep->bound.tx_selective = flags & FI_SELECTIVE_COMPLETION;
		atomic_fetch_add(&cq->refs, 1);
	}
	if (flags & FI_RECV) {
		ep->bound.rx_cq = cq;
		ep->bound.rx_selective = flags & FI_SELECTIVE_COMPLETION;
		atomic_fetch_add(&cq->refs, 1);
	}
	uccl_driver_add_wait(&ep->driver, &cq->wait.w);
	return 0;
}

static const uint64_t cntr_flags[UCCL_CNTR_SLOTS] = {
	[UCCL_CNTR_SEND] = FI_SEND,
	[UCCL_CNTR_RECV] = FI_RECV,
	[UCCL_CNTR_READ] = FI_READ,
	[UCCL_CNTR_WRITE] = FI_WRITE,
	[UCCL_CNTR_REMOTE_READ] = FI_REMOTE_READ,
	[UCCL_CNTR_REMOTE_WRITE] = FI_REMOTE_WRITE,
};

static int bind_cntr(struct uccl_ep *ep, struct uccl_cntr *cntr, uint64_t flags)
{
	uint64_t all = 0;
	int rc;

	for (int i = 0; i < UCCL_CNTR_SLOTS; i++) {
		all |= cntr_flags[i];
		if (flags & cntr_flags[i] && ep->bound.cntr[i])
			return -FI_EINVAL;
	}
	if (!flags || flags & ~all || cntr->domain != ep->domain)
		return -FI_EINVAL;
	/* The endpoint is enabled already. Otherwise uccl_driver_watch() does this later. */
	uccl_driver_lock(&ep->driver);
	rc = ep->enabled ? uccl_driver_watch_by(&ep->driver, &cntr->wait.w) : 0;
	uccl_driver_unlock(&ep->driver);
	if (!rc)
		rc = uccl_drivers_add(&cntr->drivers, &ep->driver);
	if (rc)
		return rc;
	uccl_driver_lock(&ep->driver);
	for (int i = 0; i < UCCL_CNTR_SLOTS; i++) {
		if (flags & cntr_flags[i]) {
			ep->bound.cntr[i] = cntr;
			atomic_fetch_add(&cntr->refs, 1);
		}
	}
	uccl_driver_add_wait(&ep->driver, &cntr->wait.w);
	uccl_driver_unlock(&ep->driver);
	return 0;
}

int uccl_ep_bind_av(struct uccl_ep *ep, struct uccl_av *av)
{
	if (ep->bound.av || ep->cm || av->domain != ep->domain)
		return -FI_EINVAL;
	ep->bound.av = av;
	uccl_ep_cache_init(ep, av);
	atomic_fetch_add(&av->refs, 1);
	return 0;
}

static int bind_srx(struct uccl_ep *ep, struct uccl_srx *srx)
{
	int rc;

	if (ep->bound.srx || srx->domain != ep->domain)
		return -FI_EINVAL;
	if (ep->attr.data_takes)
		return -FI_EOPNOTSUPP; /* remote CQ data would need a receive of the endpoint itself */
	rc = uccl_drivers_add(&srx->drivers, &ep->driver);
	if (rc)
		return rc;
	ep->bound.srx = srx;
	atomic_fetch_add(&srx->refs, 1);
	return 0;
}

static int bind_stx(struct uccl_ep *ep, struct uccl_stx *stx)
{
	if (ep->bound.tx_shared || stx->domain != ep->domain)
		return -FI_EINVAL;
	ep->bound.tx_shared = true;
	return 0;
}

/* Events of connections. A connectionless endpoint has those of joined groups of collectives, and of ends of peers. */
int uccl_ep_bind_eq(struct uccl_ep *ep, struct uccl_eq *eq)
{
	if (ep->bound.eq)
		return -FI_EINVAL;
	if (ep->cm) {
		int rc = uccl_drivers_add(&eq->drivers, &ep->driver);

		if (rc)
			return rc;
		uccl_driver_add_wait(&ep->driver, &eq->wait.w);
	}
	ep->bound.eq = eq;
	atomic_fetch_add(&eq->refs, 1);
	return 0;
}

/*
 * fi_endpoint(3) requires all bindings before fi_enable. libfabric's own providers accept some after it. Sandia
 * OpenSHMEM with one endpoint binds these two after it.
 */
static bool bind_late(size_t fclass)
{
	return fclass == FI_CLASS_CNTR || fclass == FI_CLASS_STX_CTX;
}

int uccl_ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct uccl_ep *ep = uccl_ep_fid_of(fid)->ep;

	if (ep->enabled && !bind_late(bfid->fclass))
		return -FI_EOPBADSTATE;
	switch (bfid->fclass) {
	case FI_CLASS_AV:
		return uccl_ep_bind_av(ep, uccl_av_of(bfid));
	case FI_CLASS_CQ:
		return bind_cq(ep, uccl_cq_of(bfid), flags);
	case FI_CLASS_CNTR:
		return bind_cntr(ep, uccl_cntr_of(bfid), flags);
	case FI_CLASS_SRX_CTX:
		return bind_srx(ep, uccl_srx_of(bfid));
	case FI_CLASS_STX_CTX:
		return bind_stx(ep, uccl_stx_of(bfid));
	case FI_CLASS_EQ:
		return uccl_ep_bind_eq(ep, uccl_eq_of(bfid));
	default:
		return -FI_EINVAL;
	}
}

void uccl_ep_unbind(struct uccl_ep *ep)
{
	/* First: after this no other thread drives the endpoint. */
	uccl_domain_leave(ep->domain, &ep->driver);
	uccl_triggers_leave(&ep->domain->triggers, ep);
	uccl_driver_unwatch(&ep->driver);
	if (ep->bound.tx_cq)
		uccl_drivers_remove(&ep->bound.tx_cq->drivers, &ep->driver);
	if (ep->bound.rx_cq)
		uccl_drivers_remove(&ep->bound.rx_cq->drivers, &ep->driver);
	if (ep->bound.srx)
		uccl_drivers_remove(&ep->bound.srx->drivers, &ep->driver);
	if (ep->cm && ep->bound.eq)
		uccl_drivers_remove(&ep->bound.eq->drivers, &ep->driver);
	for (int i = 0; i < UCCL_CNTR_SLOTS; i++)
		if (ep->bound.cntr[i])
			uccl_drivers_remove(&ep->bound.cntr[i]->drivers, &ep->driver);
}

void uccl_ep_drop_refs(struct uccl_ep *ep)
{
	if (ep->bound.tx_cq)
		atomic_fetch_sub(&ep->bound.tx_cq->refs, 1);
	if (ep->bound.rx_cq)
		atomic_fetch_sub(&ep->bound.rx_cq->refs, 1);
	for (int i = 0; i < UCCL_CNTR_SLOTS; i++)
		if (ep->bound.cntr[i])
			atomic_fetch_sub(&ep->bound.cntr[i]->refs, 1);
	if (ep->bound.av)
		atomic_fetch_sub(&ep->bound.av->refs, 1);
	if (ep->bound.srx)
		uccl_srx_leave(ep);
	if (ep->bound.eq) {
		uccl_eq_forget(ep->bound.eq, &ep->self.fid.fid);
		atomic_fetch_sub(&ep->bound.eq->refs, 1);
	}
	atomic_fetch_sub(&ep->domain->refs, 1);
}
