/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "api/endpoint/open.h"

#include "api/endpoint/ep.h"
#include "api/endpoint/pep.h"
#include "api/object/domain.h"
#include "api/offer/attr.h"

int uccl_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **out, void *context)
{
	struct uccl_domain *d = uccl_domain_of(&domain->fid);
	struct uccl_ep *ep;
	int rc;

	if (info->ep_attr && !uccl_attr_type_ok(info->ep_attr->type))
		return -FI_EINVAL;
	if (info->addr_format && info->addr_format != d->addr_format)
		return -FI_EINVAL;
	rc = uccl_ep_new(d, info, UCCL_TX | UCCL_RX, FI_CLASS_EP, context, &ep);
	if (rc)
		return rc;
	if (ep->cm && info->handle)
		rc = uccl_pep_give(info->handle, ep);
	if (rc)
		fi_close(&ep->self.fid.fid);
	else
		*out = &ep->self.fid;
	return rc;
}
