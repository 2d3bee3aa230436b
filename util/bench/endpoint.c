/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "endpoint.h"

#include <string.h>

void check(const char *what, long rc)
{
	if (rc < 0)
		die("%s: %s (%ld)", what, fi_strerror((int)-rc), rc);
}

void endpoint_open(struct endpoint *e, const char *provider, const char *node, enum fi_wait_obj wait_obj)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_av_attr av = {0};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT, .size = 1024, .wait_obj = wait_obj};

	if (!hints)
		die("out of memory");
	hints->caps = FI_MSG | FI_TAGGED;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->fabric_attr->prov_name = strdup(provider);
	check("fi_getinfo", fi_getinfo(FI_VERSION(1, 17), node, NULL, node ? FI_SOURCE : 0, hints, &e->info));
	fi_freeinfo(hints);
	check("fi_fabric", fi_fabric(e->info->fabric_attr, &e->fabric, NULL));
	check("fi_domain", fi_domain(e->fabric, e->info, &e->domain, NULL));
	av.type = e->info->domain_attr->av_type ? e->info->domain_attr->av_type : FI_AV_MAP;
	check("fi_av_open", fi_av_open(e->domain, &av, &e->av, NULL));
	check("fi_cq_open", fi_cq_open(e->domain, &cq, &e->cq, NULL));
	check("fi_endpoint", fi_endpoint(e->domain, e->info, &e->ep, NULL));
	check("bind av", fi_ep_bind(e->ep, &e->av->fid, 0));
	check("bind cq", fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV));
	check("fi_enable", fi_enable(e->ep));
}

void endpoint_close(struct endpoint *e)
{
	check("close ep", fi_close(&e->ep->fid));
	check("close cq", fi_close(&e->cq->fid));
	check("close av", fi_close(&e->av->fid));
	check("close domain", fi_close(&e->domain->fid));
	check("close fabric", fi_close(&e->fabric->fid));
	fi_freeinfo(e->info);
}
