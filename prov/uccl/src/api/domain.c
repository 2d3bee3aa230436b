/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See domain.h. */
#include "api/domain.h"

#include <rdma/fi_ext_uccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/endpoint/open.h"
#include "api/endpoint/sep.h"
#include "api/endpoint/shared.h"
#include "api/event/cntr.h"
#include "api/event/cq.h"
#include "api/event/poll.h"
#include "api/lib/lib.h"
#include "api/lib/nosys.h"
#include "api/lib/oldnames.h"
#include "api/memory/mr.h"
#include "api/offer/address.h"
#include "api/offer/persona.h"
#include "api/offer/place.h"
#include "api/offer/source.h"
#include "api/peers/avops.h"
#include "api/transfer/atomic.h"
#include "api/transfer/coll.h"
#include "api/transfer/work.h"
#include "progress/thread.h"

static int domain_close(struct fid *fid)
{
	struct uccl_domain *d = uccl_domain_of(fid);

	if (atomic_load(&d->refs))
		return -FI_EBUSY;
	uccl_rescue_stop(&d->rescue);
	uccl_triggers_fini(&d->triggers);
	atomic_fetch_sub(&d->fabric->refs, 1);
	uccl_drivers_fini(&d->drivers);
	uccl_drivers_fini(&d->all);
	uccl_dmabufs_fini(&d->dmabufs);
	pthread_mutex_destroy(&d->mr_lock);
	pthread_mutex_destroy(&d->atomic_lock);
	free(d);
	return 0;
}

/* An event queue is accepted: completed registrations are reported by return, never by event. */
static int domain_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	(void)fid;
	if (bfid->fclass != FI_CLASS_EQ)
		return -FI_EINVAL;
	return flags & FI_REG_MR ? -FI_EOPNOTSUPP : 0;
}

static int domain_endpoint2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, uint64_t flags,
			    void *context)
{
	return flags ? -FI_EOPNOTSUPP : uccl_ep_open(domain, info, ep, context);
}

static int domain_control(struct fid *fid, int command, void *arg)
{
	return uccl_work_control(uccl_domain_of(fid), command, arg);
}

static struct fi_ops domain_fid_ops = UCCL_FID_OPS(domain_close, domain_bind, domain_control);

static struct uccl_ops_domain domain_ops = {
	.known = {
		.size = sizeof(struct uccl_ops_domain),
		.av_open = uccl_av_open,
		.cq_open = uccl_cq_open,
		.endpoint = uccl_ep_open,
		.scalable_ep = uccl_sep_open,
		.cntr_open = uccl_cntr_open,
		.poll_open = uccl_poll_open,
		.stx_ctx = uccl_stx_open,
		.srx_ctx = uccl_srx_open,
		.query_atomic = uccl_query_atomic,
		.query_collective = uccl_coll_query,
		.endpoint2 = domain_endpoint2,
	},
	UCCL_XPU_ENTRY(xpu_ctx, uccl_no_xpu_ctx),
};

struct uccl_domain *uccl_domain_ours(struct fid_domain *domain)
{
	if (domain->fid.fclass != FI_CLASS_DOMAIN || domain->ops != &domain_ops.known)
		return NULL;
	return uccl_domain_of(&domain->fid);
}

int uccl_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context)
{
	const struct fi_domain_attr *a = info->domain_attr;
	struct uccl_domain *d;
	char why[UCCL_PARAM_TEXT];
	uint64_t rescue_ns;
	int rc = -FI_EINVAL;

	d = calloc(1, sizeof(*d));
	if (!d)
		return -FI_ENOMEM;
	if (!a || !a->name || strlen(a->name) >= sizeof(d->name))
		goto fail;
	uccl_persona_interface(a->name, d->name);
	d->addr_format = info->addr_format ? info->addr_format : FI_ADDR_UCCL;
	rc = -FI_EINVAL;
	if (!uccl_address_format_ok(d->addr_format) || uccl_params_read(&d->params, why, sizeof(why)))
		goto fail;
	uccl_place_auto(&d->params, d->name);
	rc = uccl_source(info, &d->params, &d->addr);
	if (rc) {
		uccl_warn(FI_LOG_DOMAIN, "interface %s has no usable address\n", d->name);
		goto fail;
	}
	d->fabric = uccl_fabric_of(&fabric->fid);
	d->mr_mode = a->mr_mode;
	if (info->caps & FI_HMEM)
		uccl_domain_find_devices(d);
	uccl_domain_group(d->group, a->auth_key, a->auth_key_size);
	d->auto_progress = a->data_progress == FI_PROGRESS_AUTO;
	rescue_ns = d->auto_progress ? 0 : d->params.conn.progress_timeout_ns;
	/*
	 * With FI_THREAD_DOMAIN the program promises one thread at a time. Threads of the provider would break this
	 * promise, and it does not cover readers of the event queue of connections. FI_THREAD_COMPLETION covers
	 * endpoints and their queues only: another thread may close a region, which goes through all endpoints.
	 */
	d->locking = d->auto_progress || rescue_ns || (info->ep_attr && info->ep_attr->type == FI_EP_MSG) ||
		     a->threading != FI_THREAD_DOMAIN;
	uccl_drivers_init(&d->drivers, d->locking);
	rc = uccl_rescue_start(&d->rescue, &d->drivers, rescue_ns);
	if (rc) {
		uccl_warn(FI_LOG_DOMAIN, "cannot start the thread of FI_UCCL_PROGRESS_TIMEOUT: %s\n",
			  uccl_lib.strerror(-rc));
		uccl_drivers_fini(&d->drivers);
		goto fail;
	}
	uccl_drivers_init(&d->all, d->locking);
	uccl_triggers_init(&d->triggers);
	uccl_dmabufs_init(&d->dmabufs);
	d->forks = uccl_forks;
	pthread_mutex_init(&d->mr_lock, NULL);
	pthread_mutex_init(&d->atomic_lock, NULL);
	d->fid.fid.fclass = FI_CLASS_DOMAIN;
	d->fid.fid.context = context;
	d->fid.fid.ops = &domain_fid_ops;
	d->fid.ops = &domain_ops.known;
	d->fid.mr = &uccl_mr_ops;
	atomic_fetch_add(&d->fabric->refs, 1);
	*domain = &d->fid;
	return 0;
fail:
	free(d);
	return rc;
}
