/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Opening, enabling and closing of endpoint objects. The engine opens when the program enables the endpoint, or asks
 * for its name.
 */
#include "api/endpoint/ep.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_ext_uccl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "api/endpoint/bind.h"
#include "api/endpoint/cm.h"
#include "api/endpoint/fid.h"
#include "api/endpoint/openops.h"
#include "api/endpoint/option.h"
#include "api/endpoint/start.h"
#include "api/event/cntr.h"
#include "api/event/cq.h"
#include "api/lib/nosys.h"
#include "api/memory/device.h"
#include "api/memory/mr.h"
#include "api/object/domain.h"
#include "api/offer/address.h"
#include "api/offer/attr.h"
#include "api/offer/source.h"
#include "api/peers/av.h"
#include "api/peers/lookup.h"
#include "api/transfer/atomic.h"
#include "api/transfer/coll.h"
#include "api/transfer/msg.h"
#include "api/transfer/request.h"
#include "api/transfer/rma.h"
#include "api/transfer/srx.h"
#include "api/transfer/tagged.h"
#include "api/watch/live.h"
#include "api/watch/stats.h"
#include "api/watch/tracefile.h"
#include "progress/automatic.h"
#include "progress/drivers.h"
#include "progress/thread.h"

/* What only some endpoints have to do in each round. Not inline: the others save no registers for it. */
static __attribute__((noinline)) int ep_serve(struct uccl_ep *ep, int n, uint64_t now)
{
	if (ep->colls)
		uccl_coll_run(ep, n, now);
	if (ep->bound.srx && (n > 0 || ep->srx_poll))
		n += uccl_srx_serve(ep, now);
	if (ep->cm)
		uccl_cm_run(ep, now);
	if (ep->run.live)
		uccl_live_refresh(ep->run.live, ep, now);
	uccl_tracefile_flush(ep->run.trace);
	return n;
}

static int ep_ran(struct uccl_driver *d, int n, uint64_t now)
{
	struct uccl_ep *ep = uccl_ep_of_driver(d);

	return ep->colls || ep->bound.srx || ep->cm || ep->run.live || ep->run.trace ? ep_serve(ep, n, now) : n;
}

static void ep_after(struct uccl_driver *d)
{
	struct uccl_domain *domain = uccl_ep_of_driver(d)->domain;

	if (uccl_triggers_due(&domain->triggers))
		uccl_triggers_run(&domain->triggers);
}

static uint64_t ep_expiry(struct uccl_driver *d)
{
	struct uccl_ep *ep = uccl_ep_of_driver(d);

	return ep->cm ? uccl_cm_expiry(ep) : UCCL_NEVER;
}

static const struct uccl_driver_ops ep_driver_ops = {
	.ran = ep_ran,
	.after = ep_after,
	.expiry = ep_expiry,
};

/* All contexts of a scalable endpoint start together. No lock is held. */
static int ep_start(struct uccl_ep *ep)
{
	int rc;

	if (ep->whole)
		return ep->whole_ops->start(ep->whole);
	uccl_driver_lock(&ep->driver);
	rc = uccl_ep_start(ep, NULL);
	uccl_driver_unlock(&ep->driver);
	return rc;
}

/* True if a queue or a counter reports what completes. */
static bool tx_reported(const struct uccl_ep *ep)
{
	bool sends = ep->bound.tx_cq || ep->bound.cntr[UCCL_CNTR_SEND];

	return (!ep->attr.can_send || sends) &&
	       (!ep->attr.can_rma || sends || ep->bound.cntr[UCCL_CNTR_READ] || ep->bound.cntr[UCCL_CNTR_WRITE]);
}

static bool rx_reported(const struct uccl_ep *ep)
{
	return !ep->attr.can_recv || ep->bound.rx_cq || ep->bound.cntr[UCCL_CNTR_RECV];
}

static int ep_ready(const struct uccl_ep *ep)
{
	if (ep->enabled)
		return -FI_EOPBADSTATE;
	if (!ep->bound.av && !ep->cm)
		return -FI_ENOAV;
	if ((ep->attr.dirs & UCCL_TX && !tx_reported(ep)) || (ep->attr.dirs & UCCL_RX && !rx_reported(ep)))
		return -FI_ENOCQ;
	return ep->attr.dirs & UCCL_RX && ep->attr.rx_shared && !ep->bound.srx ? -FI_EOPBADSTATE : 0;
}

static int ep_enable(struct uccl_ep *ep)
{
	int rc = ep->domain->auto_progress ? uccl_automatic_start(&ep->driver) : 0;

	if (!rc)
		rc = uccl_driver_watch(&ep->driver);
	if (!rc)
		ep->enabled = ep->attr.dirs;
	return rc;
}

int uccl_ep_activate(struct uccl_ep *ep)
{
	int rc = ep_start(ep);

	if (rc)
		return rc;
	uccl_driver_lock(&ep->driver);
	rc = ep_enable(ep);
	uccl_driver_unlock(&ep->driver);
	return rc ? rc : uccl_domain_join(ep->domain, &ep->driver);
}

static void ep_free(struct uccl_ep *ep)
{
	uccl_coll_fini(ep);
	uccl_ep_drop_refs(ep);
	uccl_ep_cache_fini(ep);
	free(ep->cm);
	free(ep);
}

static int ep_close(struct fid *fid)
{
	struct uccl_ep *ep = uccl_ep_fid_of(fid)->ep;

	if (&ep->self != uccl_ep_fid_of(fid)) {
		uccl_triggers_leave(&ep->domain->triggers, uccl_ep_fid_of(fid));
		uccl_ep_release(ep);
		free(uccl_ep_fid_of(fid));
		return 0;
	}
	if (atomic_load(&ep->refs))
		return -FI_EBUSY;
	if (ep->whole)
		ep->whole_ops->left(ep->whole, ep);
	/*
	 * In a forked child nothing is sent for the parent's endpoint, and its locks may be held for ever: only the
	 * memory of this object is freed.
	 */
	if (ep->driver.forks != uccl_forks) {
		uccl_ep_close_named(ep);
		ep_free(ep);
		return 0;
	}
	uccl_automatic_stop(&ep->driver);
	uccl_ep_unbind(ep);
	if (ep->cm)
		uccl_cm_leave(ep);
	ep->closing = true;
	if (ep->driver.engine) {
		uccl_ep_close_named(ep);
		uccl_driver_linger(&ep->driver);
		uccl_stats_write(ep);
		uccl_ep_stop(ep);
	}
	ep_free(ep);
	return 0;
}

static struct fi_ops ep_fid_ops;

/* An alias shares everything but the default flags. */
static int ep_alias(struct uccl_ep_fid *f, struct fi_alias *alias)
{
	uint64_t flags = alias->flags & ~(FI_TRANSMIT | FI_RECV);
	struct uccl_ep_fid *a;

	if (!(alias->flags & FI_TRANSMIT) == !(alias->flags & FI_RECV))
		return -FI_EINVAL;
	if (!(alias->flags & FI_TRANSMIT ? uccl_attr_tx_flags(flags) : uccl_attr_rx_flags(flags)))
		return -FI_EBADFLAGS;
	a = malloc(sizeof(*a));
	if (!a)
		return -FI_ENOMEM;
	*a = *f;
	if (alias->flags & FI_TRANSMIT)
		a->tx_flags = flags;
	else
		a->rx_flags = flags;
	uccl_ep_hold(f->ep);
	*alias->fid = &a->fid.fid;
	return 0;
}

/* FI_TRANSMIT or FI_RECV in *flags names the direction. */
static int ep_opsflag(struct uccl_ep_fid *f, uint64_t *flags, bool set)
{
	uint64_t ops = *flags & ~(FI_TRANSMIT | FI_RECV), *own;

	if (!(*flags & FI_TRANSMIT) == !(*flags & FI_RECV))
		return -FI_EINVAL;
	own = *flags & FI_TRANSMIT ? &f->tx_flags : &f->rx_flags;
	if (!set)
		*flags = *own;
	else if (*flags & FI_TRANSMIT ? uccl_attr_tx_flags(ops) : uccl_attr_rx_flags(ops))
		*own = ops;
	else
		return -FI_EBADFLAGS;
	return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	struct uccl_ep_fid *f = uccl_ep_fid_of(fid);
	int rc;

	switch (command) {
	case FI_ENABLE:
		if (f->ep->driver.forks != uccl_forks)
			return -FI_EOPBADSTATE;
		rc = ep_ready(f->ep);
		return rc ? rc : uccl_ep_activate(f->ep);
	case FI_ALIAS:
		return ep_alias(f, arg);
	case FI_GETOPSFLAG:
		return ep_opsflag(f, arg, false);
	case FI_SETOPSFLAG:
		return ep_opsflag(f, arg, true);
	default:
		return -FI_ENOSYS;
	}
}

static ssize_t ep_cancel(struct fid *fid, void *context)
{
	struct uccl_ep *ep = uccl_ep_fid_of(fid)->ep;
	ssize_t rc = -FI_EOPBADSTATE;

	if (ep->driver.forks != uccl_forks)
		return rc;
	uccl_driver_lock(&ep->driver);
	if (ep->driver.engine)
		rc = uccl_request_cancel(ep, context);
	uccl_driver_unlock(&ep->driver);
	return rc;
}

static ssize_t ep_rx_size_left(struct fid_ep *fid)
{
	struct uccl_ep *ep = uccl_ep_fid_of(&fid->fid)->ep;

	return ep->attr.rx_size - uccl_min(ep->rx_open, ep->attr.rx_size);
}

static ssize_t ep_tx_size_left(struct fid_ep *fid)
{
	struct uccl_ep *ep = uccl_ep_fid_of(&fid->fid)->ep;

	return ep->attr.tx_size - uccl_min(ep->tx_open, ep->attr.tx_size);
}

static int ep_setname(fid_t fid, void *addr, size_t addrlen)
{
	struct uccl_ep *ep = uccl_ep_fid_of(fid)->ep;
	struct uccl_nic_addr src = ep->run.src;
	int rc;

	if (ep->driver.engine || ep->whole)
		return -FI_EOPBADSTATE;
	rc = uccl_ep_src_from_name(&src, ep->attr.addr_format, addr, addrlen);
	if (!rc)
		uccl_ep_set_src(ep, &src, false, false);
	return rc;
}

static int ep_getname(fid_t fid, void *addr, size_t *addrlen)
{
	struct uccl_ep *ep = uccl_ep_fid_of(fid)->ep;
	struct uccl_addr a;
	int rc;

	/* The program asks for the length only: this needs no engine. */
	if (!addr || !*addrlen) {
		*addrlen = uccl_address_len(ep->attr.addr_format, &ep->run.src);
		return -FI_ETOOSMALL;
	}
	if (ep->driver.forks != uccl_forks)
		return -FI_EOPBADSTATE;
	if (ep->whole)
		return ep->whole_ops->getname(ep->whole, addr, addrlen);
	rc = ep_start(ep);
	if (rc)
		return rc;
	if (!ep->cm || !uccl_cm_name(ep, &a))
		a = *uccl_engine_addr(ep->driver.engine);
	/* The bound address is one of the interface, never the wildcard, so peers can reach it. */
	return uccl_address_pack(ep->attr.addr_format, &a, addr, addrlen);
}

static struct fi_ops ep_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = ep_close,
	.bind = uccl_ep_bind,
	.control = ep_control,
	.ops_open = uccl_openops_ep,
	.tostr = uccl_no_tostr,
	.ops_set = uccl_no_ops_set,
};

static struct uccl_ops_ep ep_ops = {
	.known = {
		.size = sizeof(struct uccl_ops_ep),
		.cancel = ep_cancel,
		.getopt = uccl_ep_getopt,
		.setopt = uccl_ep_setopt,
		.tx_ctx = uccl_no_tx_ctx,
		.rx_ctx = uccl_no_rx_ctx,
		.rx_size_left = ep_rx_size_left,
		.tx_size_left = ep_tx_size_left,
	},
	UCCL_XPU_ENTRY(export_xpu, uccl_no_xpu_ep),
};

static struct fi_ops_cm ep_cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.setname = ep_setname,
	.getname = ep_getname,
	.getpeer = uccl_no_getpeer,
	.connect = uccl_no_connect,
	.listen = uccl_no_listen,
	.accept = uccl_no_accept,
	.reject = uccl_no_reject,
	.shutdown = uccl_no_shutdown,
	.join = uccl_coll_join,
};

static struct fi_ops_cm ep_connected_ops = {
	.size = sizeof(struct fi_ops_cm),
	.setname = ep_setname,
	.getname = ep_getname,
	.getpeer = uccl_cm_getpeer,
	.connect = uccl_cm_connect,
	.listen = uccl_no_listen,
	.accept = uccl_cm_accept,
	.reject = uccl_no_reject,
	.shutdown = uccl_cm_shutdown,
	.join = uccl_coll_join,
};

int uccl_ep_new(struct uccl_domain *d, const struct fi_info *info, uint8_t dirs, size_t fclass, void *context,
		struct uccl_ep **out)
{
	struct uccl_nic_addr src;
	struct uccl_ep *ep;

	if ((info->tx_attr && !uccl_attr_tx_flags(info->tx_attr->op_flags)) ||
	    (info->rx_attr && !uccl_attr_rx_flags(info->rx_attr->op_flags)))
		return -FI_EBADFLAGS;
	ep = calloc(1, sizeof(*ep));
	if (!ep)
		return -FI_ENOMEM;
	ep->domain = d;
	if (info->ep_attr && info->ep_attr->type == FI_EP_MSG) {
		ep->cm = uccl_cm_new();
		if (!ep->cm) {
			free(ep);
			return -FI_ENOMEM;
		}
	}
	if (uccl_source(info, &d->params, &src)) {
		free(ep->cm);
		free(ep);
		return -FI_EINVAL;
	}
	uccl_ep_configure(ep, info, dirs);
	uccl_ep_set_src(ep, &src, false, false);
	ep->self.tx_flags = info->tx_attr ? info->tx_attr->op_flags : 0;
	ep->self.rx_flags = info->rx_attr ? info->rx_attr->op_flags : 0;
	uccl_driver_init(&ep->driver, &ep_driver_ops, d->locking, &d->rescue.alarm);
	ep->self.ep = ep;
	uccl_ep_fid_init(&ep->self, fclass, context, &ep_fid_ops, &ep_ops.known,
			 ep->cm ? &ep_connected_ops : &ep_cm_ops);
	atomic_fetch_add(&d->refs, 1);
	*out = ep;
	return 0;
}
