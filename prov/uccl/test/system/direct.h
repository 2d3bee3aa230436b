/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * For programs that are linked with the provider and call it without the library: a domain on the interface that
 * FI_UCCL_NIC names (lo), with a queue and a vector for all endpoints. Each program has what is here to itself.
 */
#ifndef UCCL_TEST_DIRECT_H
#define UCCL_TEST_DIRECT_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_uccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/prov.h"

#define API FI_VERSION(1, 17)

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_cq *cq;
static struct fid_av *av;
static enum fi_progress progress; /* that is asked for */

/* A call failed, and the program ends: the program's. */
static void call_failed(void);

#define call(rc, want)                                                                                                 \
	do {                                                                                                           \
		long long rc_ = (rc);                                                                                  \
		if (rc_ != (want)) {                                                                                   \
			fprintf(stderr, "%s: %s: %lld (%s)\n", __FILE__, #rc, rc_, fi_strerror((int)-rc_));            \
			call_failed();                                                                                 \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

static void domain_open(uint64_t caps)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_FD };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_provider *prov = fi_prov_ini();
	struct fi_info *h = fi_allocinfo();
	const char *nic = getenv("FI_UCCL_NIC");

	h->caps = caps;
	h->ep_attr->type = FI_EP_RDM;
	h->domain_attr->name = strdup(nic ? nic : "lo");
	h->domain_attr->threading = FI_THREAD_DOMAIN;
	h->domain_attr->data_progress = progress;
	call(prov->getinfo(API, NULL, NULL, 0, h, &info), 0);
	fi_freeinfo(h);
	info->fabric_attr->api_version = API;
	call(prov->fabric(info->fabric_attr, &fabric, NULL), 0);
	fabric->api_version = API; /* the library does this after the provider's part */
	call(fi_domain(fabric, info, &domain, NULL), 0);
	call(fi_cq_open(domain, &cq_attr, &cq, NULL), 0);
	call(fi_av_open(domain, &av_attr, &av, NULL), 0);
}

/* With a queue of its own. */
static inline struct fid_ep *ep_open_on(struct fid_cq *queue, uint8_t *name)
{
	size_t len = FI_UCCL_ADDR_LEN;
	struct fid_ep *ep;

	call(fi_endpoint(domain, info, &ep, NULL), 0);
	call(fi_ep_bind(ep, &av->fid, 0), 0);
	call(fi_ep_bind(ep, &queue->fid, FI_TRANSMIT | FI_RECV), 0);
	call(fi_enable(ep), 0);
	call(fi_getname(&ep->fid, name, &len), 0);
	return ep;
}

static inline struct fid_ep *ep_open(uint8_t *name)
{
	return ep_open_on(cq, name);
}

static void domain_close(void)
{
	call(fi_close(&cq->fid), 0);
	call(fi_close(&av->fid), 0);
	call(fi_close(&domain->fid), 0);
	call(fi_close(&fabric->fid), 0);
	fi_freeinfo(info);
}

#endif
