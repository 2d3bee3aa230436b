/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See xfer.h. Checks the handle, and selects what handles the call. */
#include "api/transfer/xfer.h"

#include "api/transfer/request.h"
#include "api/transfer/srx.h"
#include "api/transfer/trigger.h"
#include "progress/thread.h"

static inline bool usable(const struct uccl_ep *ep, uint8_t way)
{
	return ep && ep->enabled & way && ep->driver.forks == uccl_forks;
}

ssize_t uccl_xfer_send(struct uccl_ep_fid *f, const struct uccl_xfer *x)
{
	struct uccl_ep *ep = f->ep;
	ssize_t rc;

	if (!usable(ep, UCCL_TX))
		return -FI_EOPBADSTATE;
	if (x->flags & FI_TRIGGER)
		return uccl_trigger_xfer(f, x, FI_SEND, uccl_xfer_send);
	uccl_driver_lock(&ep->driver);
	rc = uccl_request_send(ep, x);
	uccl_driver_unlock(&ep->driver);
	return rc;
}

ssize_t uccl_xfer_rma(struct uccl_ep_fid *f, const struct uccl_rma *x)
{
	struct uccl_ep *ep = f->ep;
	ssize_t rc;

	if (!usable(ep, UCCL_TX))
		return -FI_EOPBADSTATE;
	if (x->flags & FI_TRIGGER)
		return uccl_trigger_rma(f, x, uccl_xfer_rma);
	uccl_driver_lock(&ep->driver);
	rc = uccl_request_rma(ep, x);
	uccl_driver_unlock(&ep->driver);
	return rc;
}

ssize_t uccl_xfer_recv(struct uccl_ep_fid *f, const struct uccl_xfer *x)
{
	struct uccl_ep *ep = f->ep;
	ssize_t rc;

	if (f->srx)
		return uccl_srx_recv(f->srx, x);
	if (!usable(ep, UCCL_RX) || ep->bound.srx)
		return -FI_EOPBADSTATE;
	if (x->flags & FI_TRIGGER)
		return uccl_trigger_xfer(f, x, FI_RECV, uccl_xfer_recv);
	uccl_driver_lock(&ep->driver);
	rc = uccl_request_recv(ep, x);
	uccl_driver_unlock(&ep->driver);
	return rc;
}

ssize_t uccl_xfer_peek(struct uccl_ep_fid *f, const struct uccl_xfer *x)
{
	ssize_t rc;

	if (!(x->flags & (FI_PEEK | FI_CLAIM)))
		return -FI_EINVAL;
	if (f->srx)
		return uccl_srx_peek(f->srx, x);
	if (!usable(f->ep, UCCL_RX))
		return -FI_EOPBADSTATE;
	uccl_driver_lock(&f->ep->driver);
	rc = uccl_request_peek(f->ep, x, false);
	uccl_driver_unlock(&f->ep->driver);
	return rc;
}
