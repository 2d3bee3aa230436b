/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See domain.h. */
#include "api/domain.h"

#include <rdma/fi_ext_uccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/address.h"
#include "api/atomic.h"
#include "api/av.h"
#include "api/cntr.h"
#include "api/coll.h"
#include "api/cq.h"
#include "api/device.h"
#include "api/ep.h"
#include "api/info.h"
#include "api/lib.h"
#include "api/mr.h"
#include "api/nosys.h"
#include "api/oldnames.h"
#include "api/poll.h"
#include "api/sep.h"
#include "api/shared.h"

/* Other endpoints are looked at in every so many idle reads even if they want nothing. */
#define IDLE_ROUND 16

void uccl_domain_idle(struct uccl_domain *d)
{
	if (atomic_load_explicit(&d->eps.n, memory_order_relaxed) > 1)
		uccl_ep_list_poll_due(&d->eps, !(atomic_fetch_add(&d->idle, 1) % IDLE_ROUND));
}

int uccl_domain_join(struct uccl_domain *d, struct uccl_ep *ep)
{
	int rc = uccl_ep_list_add(&d->all, ep);

	pthread_mutex_lock(&d->all.lock);
	uccl_cntr_join(d->mr_cntrs, ep);
	pthread_mutex_unlock(&d->all.lock);
	if (!rc && d->shared)
		rc = uccl_ep_list_add(&d->eps, ep);
	return rc;
}

void uccl_domain_leave(struct uccl_domain *d, struct uccl_ep *ep)
{
	uccl_ep_list_remove(&d->eps, ep);
	uccl_ep_list_remove(&d->all, ep);
	uccl_triggers_forget(d, ep);
}

static int domain_close(struct fid *fid)
{
	struct uccl_domain *d = uccl_container_of(fid, struct uccl_domain, fid.fid);

	if (atomic_load(&d->refs))
		return -FI_EBUSY;
	uccl_rescue_stop(&d->rescue);
	uccl_triggers_fini(&d->triggers);
	atomic_fetch_sub(&d->fabric->refs, 1);
	uccl_ep_list_fini(&d->eps);
	uccl_ep_list_fini(&d->all);
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
	return uccl_trigger_control(uccl_container_of(fid, struct uccl_domain, fid.fid), command, arg);
}

static struct fi_ops domain_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = domain_close,
	.bind = domain_bind,
	.control = domain_control,
	.ops_open = uccl_no_ops_open,
	.tostr = uccl_no_tostr,
	.ops_set = uccl_no_ops_set,
};

static struct fi_ops_domain domain_ops = {
	.size = sizeof(struct fi_ops_domain),
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
};

struct uccl_domain *uccl_domain_of(struct fid_domain *domain)
{
	if (domain->fid.fclass != FI_CLASS_DOMAIN || domain->ops != &domain_ops)
		return NULL;
	return uccl_container_of(domain, struct uccl_domain, fid);
}

void uccl_domain_group(uint8_t group[UCCL_KEY_LEN], const uint8_t *auth_key, size_t size)
{
	static const uint8_t label[UCCL_KEY_LEN] = "uccl group of 1";

	memset(group, 0, UCCL_KEY_LEN);
	if (auth_key && size)
		uccl_mac(group, auth_key, size, label);
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
	snprintf(d->name, sizeof(d->name), "%s", a->name);
	d->addr_format = info->addr_format ? info->addr_format : FI_ADDR_UCCL;
	rc = -FI_EINVAL;
	if (!uccl_address_format_ok(d->addr_format) || uccl_params_read(&d->params, why, sizeof(why)))
		goto fail;
	rc = uccl_info_source(info, &d->params, &d->addr);
	if (rc) {
		uccl_warn(FI_LOG_DOMAIN, "interface %s has no usable address\n", d->name);
		goto fail;
	}
	d->fabric = uccl_container_of(fabric, struct uccl_fabric, fid);
	d->mr_mode = a->mr_mode;
	d->hmem = info->caps & FI_HMEM ? uccl_device_find(&d->params) : NULL;
	uccl_domain_group(d->group, a->auth_key, a->auth_key_size);
	d->auto_progress = a->data_progress == FI_PROGRESS_AUTO;
	rescue_ns = d->auto_progress ? 0 : d->params.rescue_ns;
	/*
	 * With these two models the program promises one thread at a time; ours would break the promise, and who reads
	 * the event queue of connections promised nothing.
	 */
	d->locking = d->auto_progress || rescue_ns || (info->ep_attr && info->ep_attr->type == FI_EP_MSG) ||
		     (a->threading != FI_THREAD_DOMAIN && a->threading != FI_THREAD_COMPLETION);
	/* Under FI_THREAD_COMPLETION another thread may be in another endpoint, and there are no locks. */
	d->shared = a->threading != FI_THREAD_COMPLETION || d->locking;
	uccl_ep_list_init(&d->eps, d->locking);
	rc = uccl_rescue_start(&d->rescue, &d->eps, rescue_ns);
	if (rc) {
		uccl_warn(FI_LOG_DOMAIN, "cannot start the thread of FI_UCCL_RESCUE: %s\n", uccl_lib.strerror(-rc));
		uccl_ep_list_fini(&d->eps);
		goto fail;
	}
	uccl_ep_list_init(&d->all, d->locking);
	uccl_triggers_init(&d->triggers);
	d->forks = uccl_forks;
	pthread_mutex_init(&d->mr_lock, NULL);
	pthread_mutex_init(&d->atomic_lock, NULL);
	d->fid.fid.fclass = FI_CLASS_DOMAIN;
	d->fid.fid.context = context;
	d->fid.fid.ops = &domain_fid_ops;
	d->fid.ops = &domain_ops;
	d->fid.mr = &uccl_mr_ops;
	atomic_fetch_add(&d->fabric->refs, 1);
	*domain = &d->fid;
	return 0;
fail:
	free(d);
	return rc;
}
