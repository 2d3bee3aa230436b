/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "endpoint.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void die(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	fflush(stdout);
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* In one piece: the other side may die at the same moment, on the same terminal. */
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, text);
	exit(1);
}

void check(const char *what, long rc)
{
	if (rc < 0)
		die("%s: %s (%ld)", what, fi_strerror((int)-rc), rc);
}

struct fi_info *endpoint_hints(const char *provider, const char *domain, uint64_t caps)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		die("out of memory");
	hints->caps = caps;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->fabric_attr->prov_name = strdup(provider);
	hints->domain_attr->name = domain ? strdup(domain) : NULL;
	return hints;
}

int endpoint_find(struct endpoint *e, struct fi_info *hints, const char *node, const char *service)
{
	uint64_t flags = node || service ? FI_SOURCE : 0;
	int rc = fi_getinfo(FI_VERSION(1, 17), node, service, flags, hints, &e->info);

	fi_freeinfo(hints);
	return rc;
}

void endpoint_open(struct endpoint *e, const struct fi_cq_attr *cq)
{
	struct fi_cq_attr cq_attr = *cq;
	struct fi_av_attr av = {0};

	if (!e->domain) {
		check("fi_fabric", fi_fabric(e->info->fabric_attr, &e->fabric, NULL));
		check("fi_domain", fi_domain(e->fabric, e->info, &e->domain, NULL));
	}
	av.type = e->info->domain_attr->av_type ? e->info->domain_attr->av_type : FI_AV_MAP;
	check("fi_av_open", fi_av_open(e->domain, &av, &e->av, NULL));
	if (!e->cq)
		check("fi_cq_open", fi_cq_open(e->domain, &cq_attr, &e->cq, NULL));
	check("fi_endpoint", fi_endpoint(e->domain, e->info, &e->ep, NULL));
	check("bind av", fi_ep_bind(e->ep, &e->av->fid, 0));
	check("bind cq", fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV));
	check("fi_enable", fi_enable(e->ep));
}

void endpoint_failed(struct endpoint *e)
{
	struct fi_cq_err_entry err = {0};
	char text[256] = "";
	ssize_t n = fi_cq_readerr(e->cq, &err, 0);

	check("fi_cq_readerr", n);
	die("operation failed: %s; %s", fi_strerror(err.err),
	    fi_cq_strerror(e->cq, err.prov_errno, err.err_data, text, sizeof(text)));
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
