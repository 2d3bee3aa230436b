/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See shared.h. */
#include "api/endpoint/shared.h"

#include <stdlib.h>
#include <string.h>

#include "api/endpoint/fid.h"
#include "api/endpoint/option.h"
#include "api/lib/nosys.h"
#include "api/object/domain.h"
#include "api/offer/attr.h"
#include "api/transfer/srx.h"

static ssize_t srx_cancel(struct fid *fid, void *context)
{
	return uccl_srx_cancel(uccl_srx_of(fid), context);
}

static int srx_getopt(fid_t fid, int level, int name, void *optval, size_t *optlen)
{
	if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV)
		return -FI_ENOPROTOOPT;
	return uccl_ep_give_size(optval, optlen, uccl_srx_of(fid)->min_multi);
}

static int srx_setopt(fid_t fid, int level, int name, const void *optval, size_t optlen)
{
	if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV)
		return -FI_ENOPROTOOPT;
	if (optlen != sizeof(size_t))
		return -FI_EINVAL;
	memcpy(&uccl_srx_of(fid)->min_multi, optval, optlen);
	return 0;
}

static ssize_t srx_rx_size_left(struct fid_ep *fid)
{
	return uccl_srx_size_left(uccl_srx_of(&fid->fid));
}

/* Queues and vectors belong to the endpoints. A binding here is accepted and has no effect. */
static int srx_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	(void)fid;
	(void)flags;
	return bfid->fclass == FI_CLASS_CQ || bfid->fclass == FI_CLASS_AV ? 0 : -FI_EINVAL;
}

static int srx_control(struct fid *fid, int command, void *arg)
{
	(void)fid;
	(void)arg;
	return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

static int srx_close(struct fid *fid)
{
	struct uccl_srx *srx = uccl_srx_of(fid);

	if (atomic_load(&srx->refs))
		return -FI_EBUSY;
	uccl_triggers_leave(&srx->domain->triggers, &srx->self);
	atomic_fetch_sub(&srx->domain->refs, 1);
	uccl_pool_fini(&srx->pool);
	uccl_drivers_fini(&srx->drivers);
	pthread_mutex_destroy(&srx->lock);
	free(srx);
	return 0;
}

static struct fi_ops srx_fid_ops = UCCL_FID_OPS(srx_close, srx_bind, srx_control);

static struct uccl_ops_ep srx_ops = {
	.known = {
		.size = sizeof(struct uccl_ops_ep),
		.cancel = srx_cancel,
		.getopt = srx_getopt,
		.setopt = srx_setopt,
		.tx_ctx = uccl_no_tx_ctx,
		.rx_ctx = uccl_no_rx_ctx,
		.rx_size_left = srx_rx_size_left,
		.tx_size_left = uccl_no_size_left,
	},
	UCCL_XPU_ENTRY(export_xpu, uccl_no_xpu_ep),
};

int uccl_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **out, void *context)
{
	struct uccl_domain *d = uccl_domain_of(&domain->fid);
	struct uccl_srx *srx;

	if (attr && attr->size > UCCL_OPS_DEFAULT)
		return -FI_EINVAL;
	if (attr && !uccl_attr_rx_flags(attr->op_flags))
		return -FI_EBADFLAGS;
	srx = calloc(1, sizeof(*srx));
	if (!srx)
		return -FI_ENOMEM;
	srx->domain = d;
	srx->min_multi = UCCL_MIN_MULTI_DEFAULT;
	srx->size = attr && attr->size ? attr->size : UCCL_OPS_DEFAULT;
	uccl_pool_init(&srx->pool, sizeof(struct uccl_srx_recv), srx->size);
	TAILQ_INIT(&srx->posted[0]);
	TAILQ_INIT(&srx->posted[1]);
	uccl_drivers_init(&srx->drivers, true);
	pthread_mutex_init(&srx->lock, NULL);
	/* It has no endpoint, so calls other than receives fail as on an endpoint that is not enabled. */
	srx->self.srx = srx;
	srx->self.rx_flags = attr ? attr->op_flags : 0;
	uccl_ep_fid_init(&srx->self, FI_CLASS_SRX_CTX, context, &srx_fid_ops, &srx_ops.known, &uccl_no_cm_ops);
	atomic_fetch_add(&d->refs, 1);
	*out = &srx->self.fid;
	return 0;
}

static int stx_close(struct fid *fid)
{
	struct uccl_stx *stx = uccl_stx_of(fid);

	atomic_fetch_sub(&stx->domain->refs, 1);
	free(stx);
	return 0;
}

static struct fi_ops stx_fid_ops = UCCL_FID_OPS(stx_close, uccl_no_bind, uccl_no_control);

int uccl_stx_open(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **out, void *context)
{
	struct uccl_domain *d = uccl_domain_of(&domain->fid);
	struct uccl_stx *stx = calloc(1, sizeof(*stx));

	(void)attr;
	if (!stx)
		return -FI_ENOMEM;
	stx->domain = d;
	stx->fid.fid.fclass = FI_CLASS_STX_CTX;
	stx->fid.fid.context = context;
	stx->fid.fid.ops = &stx_fid_ops;
	stx->fid.ops = &uccl_no_ep_ops.known;
	atomic_fetch_add(&d->refs, 1);
	*out = &stx->fid;
	return 0;
}
