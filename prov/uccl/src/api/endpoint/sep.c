/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See sep.h. */
#include "api/endpoint/sep.h"

#include <rdma/fi_cm.h>
#include <stdlib.h>
#include <string.h>

#include "api/endpoint/bind.h"
#include "api/endpoint/ep.h"
#include "api/endpoint/fid.h"
#include "api/endpoint/option.h"
#include "api/endpoint/start.h"
#include "api/lib/lib.h"
#include "api/lib/nosys.h"
#include "api/object/domain.h"
#include "api/offer/address.h"
#include "api/offer/attr.h"
#include "api/peers/av.h"
#include "progress/thread.h"

/* Another process may have one of the ports after the first, so more first ports are tried. */
#define START_TRIES 32

struct uccl_sep {
	struct uccl_ep_fid self;
	struct uccl_domain *domain;
	uint32_t addr_format;
	struct uccl_nic_addr src;
	unsigned int nrx, n;		/* receive contexts; all */
	struct uccl_ep *ctx[2 * UCCL_CONTEXTS_MAX]; /* NULL: closed */
	uint32_t open;			/* bits: the program has its handle */
	bool bound;			/* an address vector */
	pthread_mutex_t lock;		/* of what follows; taken before an endpoint's */
	bool started;
	struct uccl_addr addr;
	struct uccl_nic_addr at[2 * UCCL_CONTEXTS_MAX]; /* addresses of the contexts */
};

static struct uccl_sep *sep_of(struct fid *fid)
{
	return uccl_container_of(fid, struct uccl_sep, self.fid.fid);
}

/* The provider chose the first port, and this one is after the range. */
static bool outside(const struct uccl_ports *range, const struct uccl_ep *ep)
{
	return uccl_ports_limited(range) && ep->run.src_port_range && ep->run.src.port > range->last;
}

/* `last`: no other ports are tried, so an endpoint that must go without liveness is better than none. */
static int start_one(struct uccl_sep *sep, unsigned int i, bool last)
{
	struct uccl_nic_addr src = sep->src;
	struct uccl_addr id = sep->addr;
	struct uccl_ep *ep = sep->ctx[i];
	int rc;

	if (i && !uccl_av_context(&id, (int)i))
		return -FI_EADDRINUSE;
	/* On RDMA NICs no ports are consecutive: the first context knows the addresses of the others. */
	if (i)
		src.port = id.nic.pad ? 0 : id.nic.port;
	uccl_ep_set_src(ep, &src, !sep->src.port, !sep->src.port && !last);
	if (i && outside(&sep->domain->params.nic.ports, ep))
		return -FI_EADDRINUSE;
	uccl_driver_lock(&ep->driver);
	rc = uccl_ep_start(ep, i ? &id : NULL);
	if (!rc && !i)
		sep->addr = *uccl_engine_addr(ep->driver.engine);
	if (!rc)
		sep->at[i] = uccl_engine_addr(ep->driver.engine)->nic;
	uccl_driver_unlock(&ep->driver);
	return rc;
}

/* Give the addresses of all contexts to the first one. No peer has the first one's address yet. */
static void addresses_publish(struct uccl_sep *sep)
{
	struct uccl_ep *ep = sep->ctx[0];

	if (!sep->addr.nic.pad)
		return;
	uccl_driver_lock(&ep->driver);
	uccl_engine_run(ep->driver.engine, sep->addr.incarnation, sep->at, sep->n);
	uccl_driver_unlock(&ep->driver);
}

static void stop_all(struct uccl_sep *sep)
{
	for (unsigned int i = 0; i < sep->n; i++) {
		uccl_driver_lock(&sep->ctx[i]->driver);
		uccl_ep_stop(sep->ctx[i]);
		uccl_driver_unlock(&sep->ctx[i]->driver);
	}
}

static int start_all(struct uccl_sep *sep)
{
	int rc = 0;

	for (int tries = 0; tries < START_TRIES; tries++) {
		rc = 0;
		for (unsigned int i = 0; i < sep->n && !rc; i++)
			rc = start_one(sep, i, tries == START_TRIES - 1);
		if (!rc) {
			addresses_publish(sep);
			return 0;
		}
		stop_all(sep);
		if (rc != -FI_EADDRINUSE || sep->src.port)
			return rc;
	}
	if (uccl_ports_limited(&sep->domain->params.nic.ports))
		uccl_warn(FI_LOG_EP_CTRL,
			  "FI_UCCL_PORTS=%u-%u: no %u free ports in a row for a scalable endpoint, %d places tried; "
			  "give a larger range\n",
			  sep->domain->params.nic.ports.first, sep->domain->params.nic.ports.last, sep->n, START_TRIES);
	return rc;
}

static int sep_start(struct uccl_sep *sep)
{
	int rc = 0;

	pthread_mutex_lock(&sep->lock);
	if (!sep->started)
		rc = start_all(sep);
	sep->started |= !rc;
	pthread_mutex_unlock(&sep->lock);
	return rc;
}

static void sep_left(struct uccl_sep *sep, const struct uccl_ep *ep)
{
	for (unsigned int i = 0; i < sep->n; i++) {
		if (sep->ctx[i] == ep) {
			sep->ctx[i] = NULL;
			sep->open &= ~(1u << i);
		}
	}
}

static int sep_context(struct uccl_sep *sep, unsigned int i, uint64_t op_flags, size_t size, struct fid_ep **out,
		       void *context)
{
	struct uccl_ep *ep = sep->ctx[i];

	if (!ep || sep->open & 1u << i)
		return -FI_EBUSY;
	if (size > UCCL_OPS_DEFAULT)
		return -FI_EINVAL;
	if (!(i < sep->nrx ? uccl_attr_rx_flags(op_flags) : uccl_attr_tx_flags(op_flags)))
		return -FI_EBADFLAGS;
	if (size)
		uccl_ep_set_size(ep, size);
	if (op_flags && i < sep->nrx)
		ep->self.rx_flags = op_flags;
	else if (op_flags)
		ep->self.tx_flags = op_flags;
	ep->self.fid.fid.context = context;
	sep->open |= 1u << i;
	*out = &ep->self.fid;
	return 0;
}

static int sep_tx_ctx(struct fid_ep *fid, int index, struct fi_tx_attr *attr, struct fid_ep **out, void *context)
{
	struct uccl_sep *sep = sep_of(&fid->fid);

	if (index < 0 || (unsigned int)index >= sep->n - sep->nrx)
		return -FI_EINVAL;
	return sep_context(sep, sep->nrx + (unsigned int)index, attr ? attr->op_flags : 0, attr ? attr->size : 0, out,
			   context);
}

static int sep_rx_ctx(struct fid_ep *fid, int index, struct fi_rx_attr *attr, struct fid_ep **out, void *context)
{
	struct uccl_sep *sep = sep_of(&fid->fid);

	if (index < 0 || (unsigned int)index >= sep->nrx)
		return -FI_EINVAL;
	return sep_context(sep, (unsigned int)index, attr ? attr->op_flags : 0, attr ? attr->size : 0, out, context);
}

static int sep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct uccl_sep *sep = sep_of(fid);
	int rc = 0;

	(void)flags;
	if (bfid->fclass == FI_CLASS_EQ)
		return 0; /* there are no events of connectionless endpoints */
	if (bfid->fclass != FI_CLASS_AV || sep->bound)
		return -FI_EINVAL;
	for (unsigned int i = 0; i < sep->n && !rc; i++)
		if (sep->ctx[i])
			rc = uccl_ep_bind_av(sep->ctx[i], uccl_av_of(bfid));
	sep->bound = !rc;
	return rc;
}

static int sep_control(struct fid *fid, int command, void *arg)
{
	struct uccl_sep *sep = sep_of(fid);

	(void)arg;
	if (command != FI_ENABLE)
		return -FI_ENOSYS;
	return sep->bound ? sep_start(sep) : -FI_ENOAV;
}

static int sep_close(struct fid *fid)
{
	struct uccl_sep *sep = sep_of(fid);

	if (sep->open)
		return -FI_EBUSY;
	/* These were never opened by the program. */
	for (unsigned int i = 0; i < sep->n; i++)
		if (sep->ctx[i])
			fi_close(&sep->ctx[i]->self.fid.fid);
	atomic_fetch_sub(&sep->domain->refs, 1);
	pthread_mutex_destroy(&sep->lock);
	free(sep);
	return 0;
}

static int sep_setname(fid_t fid, void *addr, size_t addrlen)
{
	struct uccl_sep *sep = sep_of(fid);

	return sep->started ? -FI_EOPBADSTATE : uccl_ep_src_from_name(&sep->src, sep->addr_format, addr, addrlen);
}

static int sep_name(struct uccl_sep *sep, void *addr, size_t *addrlen)
{
	int rc;

	if (!addr || !*addrlen) {
		*addrlen = uccl_address_len(sep->addr_format, &sep->src);
		return -FI_ETOOSMALL;
	}
	if (sep->domain->forks != uccl_forks)
		return -FI_EOPBADSTATE;
	rc = sep_start(sep);
	return rc ? rc : uccl_address_pack(sep->addr_format, &sep->addr, addr, addrlen);
}

static int sep_getname(fid_t fid, void *addr, size_t *addrlen)
{
	return sep_name(sep_of(fid), addr, addrlen);
}

static struct fi_ops sep_fid_ops = UCCL_FID_OPS(sep_close, sep_bind, sep_control);

static struct uccl_ops_ep sep_ops;
static struct fi_ops_cm sep_cm_ops;

/* The operations of a scalable endpoint, which itself transfers nothing. */
static void sep_ops_make(void)
{
	struct uccl_ops_ep ops = uccl_no_ep_ops;
	struct fi_ops_cm cm = uccl_no_cm_ops;

	ops.known.tx_ctx = sep_tx_ctx;
	ops.known.rx_ctx = sep_rx_ctx;
	cm.setname = sep_setname;
	cm.getname = sep_getname;
	sep_ops = ops;
	sep_cm_ops = cm;
}

static unsigned int asked(size_t n)
{
	return n ? (unsigned int)uccl_min(n, UINT32_MAX) : 1;
}

static const struct uccl_whole_ops whole_ops = {
	.start = sep_start,
	.getname = sep_name,
	.left = sep_left,
};

static int contexts_make(struct uccl_sep *sep, const struct fi_info *info)
{
	int rc = 0;

	for (unsigned int i = 0; i < sep->n && !rc; i++) {
		bool rx = i < sep->nrx;

		rc = uccl_ep_new(sep->domain, info, rx ? UCCL_RX : UCCL_TX, rx ? FI_CLASS_RX_CTX : FI_CLASS_TX_CTX,
				 NULL, &sep->ctx[i]);
		if (!rc) {
			sep->ctx[i]->whole_ops = &whole_ops;
			sep->ctx[i]->whole = sep;
		}
	}
	return rc;
}

int uccl_sep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **out, void *context)
{
	struct uccl_domain *d = uccl_domain_of(&domain->fid);
	const struct fi_ep_attr *a = info->ep_attr;
	unsigned int ntx = a ? asked(a->tx_ctx_cnt) : 1, nrx = a ? asked(a->rx_ctx_cnt) : 1;
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct uccl_sep *sep;
	int rc;

	if (a && a->type != FI_EP_UNSPEC && a->type != FI_EP_RDM)
		return -FI_EINVAL;
	if (uccl_max(ntx, nrx) > uccl_attr_contexts(FI_EP_RDM, info->caps) ||
	    (info->addr_format && info->addr_format != d->addr_format))
		return -FI_EINVAL;
	pthread_once(&once, sep_ops_make);
	sep = calloc(1, sizeof(*sep));
	if (!sep)
		return -FI_ENOMEM;
	sep->domain = d;
	sep->addr_format = info->addr_format ? info->addr_format : d->addr_format;
	sep->nrx = nrx;
	sep->n = nrx + ntx;
	pthread_mutex_init(&sep->lock, NULL);
	atomic_fetch_add(&d->refs, 1);
	rc = contexts_make(sep, info);
	if (rc) {
		sep_close(&sep->self.fid.fid);
		return rc;
	}
	sep->src = sep->ctx[0]->run.src;
	/* It has no endpoint, so calls that transfer data fail as on an endpoint that is not enabled. */
	uccl_ep_fid_init(&sep->self, FI_CLASS_SEP, context, &sep_fid_ops, &sep_ops.known, &sep_cm_ops);
	*out = &sep->self.fid;
	return 0;
}
