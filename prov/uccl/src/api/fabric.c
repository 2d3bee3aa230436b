/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See fabric.h. */
#include "api/fabric.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_ext_uccl.h>
#include <stdlib.h>
#include <string.h>

#include "api/domain.h"
#include "api/endpoint/pep.h"
#include "api/event/cntr.h"
#include "api/event/cq.h"
#include "api/event/eq.h"
#include "api/event/waitset.h"
#include "api/lib/nosys.h"

static int fabric_close(struct fid *fid)
{
	struct uccl_fabric *f = uccl_fabric_of(fid);

	if (atomic_load(&f->refs))
		return -FI_EBUSY;
	free(f);
	return 0;
}

/* May the program sleep on the wait objects of all of these? */
static int fabric_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	(void)fabric;
	for (int i = 0; i < count; i++) {
		int rc;

		switch (fids[i]->fclass) {
		case FI_CLASS_CQ:
			rc = uccl_cq_trywait(uccl_cq_of(fids[i]));
			break;
		case FI_CLASS_CNTR:
			rc = uccl_cntr_trywait(uccl_cntr_of(fids[i]));
			break;
		case FI_CLASS_EQ:
			rc = uccl_eq_trywait(uccl_eq_of(fids[i]));
			break;
		case FI_CLASS_WAIT:
			rc = uccl_waitset_trywait(uccl_container_of(fids[i], struct fid_wait, fid));
			break;
		default:
			return -FI_EINVAL;
		}
		if (rc)
			return rc;
	}
	return 0;
}

static int fabric_domain2(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, uint64_t flags,
			  void *context)
{
	return flags ? -FI_EOPNOTSUPP : uccl_domain_open(fabric, info, domain, context);
}

static struct fi_ops fabric_fid_ops = UCCL_FID_OPS(fabric_close, uccl_no_bind, uccl_no_control);

static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(struct fi_ops_fabric),
	.domain = uccl_domain_open,
	.passive_ep = uccl_pep_open,
	.eq_open = uccl_eq_open,
	.wait_open = uccl_waitset_open,
	.trywait = fabric_trywait,
	.domain2 = fabric_domain2,
};

int uccl_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	struct uccl_fabric *f;

	if (attr->name && strcmp(attr->name, FI_UCCL_FABRIC_NAME))
		return -FI_EINVAL;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -FI_ENOMEM;
	f->fid.fid.fclass = FI_CLASS_FABRIC;
	f->fid.fid.context = context;
	f->fid.fid.ops = &fabric_fid_ops;
	f->fid.ops = &fabric_ops;
	f->fid.api_version = attr->api_version;
	*fabric = &f->fid;
	return 0;
}

bool uccl_fabric_is_ours(const struct fid_fabric *fabric)
{
	return fabric->fid.fclass == FI_CLASS_FABRIC && fabric->ops == &fabric_ops;
}
