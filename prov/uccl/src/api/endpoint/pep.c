/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See pep.h. The lock of the endpoint inside covers the requests. */
#include "api/endpoint/pep.h"

#include <rdma/fi_cm.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "api/endpoint/bind.h"
#include "api/endpoint/cm.h"
#include "api/endpoint/option.h"
#include "api/endpoint/start.h"
#include "api/event/eq.h"
#include "api/lib/lib.h"
#include "api/lib/nosys.h"
#include "api/object/domain.h"
#include "api/offer/address.h"
#include "progress/thread.h"

/* Default of FI_BACKLOG: most requests that wait for the program's answer. */
#define BACKLOG 1024

struct request {
	struct fid fid;		/* the program's handle */
	LIST_ENTRY(request) link;
	struct pep *pep;
	struct uccl_peer *from;
	struct uccl_addr addr;	/* with its key */
	uint64_t number;
};

struct pep {
	struct fid_pep fid;
	struct fid_domain *domain;
	struct uccl_ep *ep;
	struct fi_info *info;
	LIST_HEAD(, request) requests;
	unsigned int n, backlog;
	bool listening, given;
};

static struct pep *pep_of(struct fid *fid)
{
	return uccl_container_of(fid, struct pep, fid.fid);
}

struct uccl_ep *uccl_pep_ep(struct fid_pep *pep)
{
	return pep_of(&pep->fid)->ep;
}

static struct fid *inner(const struct pep *p)
{
	return &p->ep->self.fid.fid;
}

/* The fi_info to open an endpoint with that answers this request. NULL: out of memory. */
static struct fi_info *request_info(struct pep *p, struct request *r)
{
	struct uccl_addr src = { .nic = p->ep->run.src };
	struct fi_info *info = uccl_lib.dupinfo(p->info);

	if (!info)
		return NULL;
	src.nic.port = 0;
	info->handle = &r->fid;
	info->addr_format = p->ep->attr.addr_format;
	free(info->src_addr);
	free(info->dest_addr);
	info->dest_addr = NULL;
	if (!uccl_address_new(info->addr_format, &src, &info->src_addr, &info->src_addrlen) &&
	    !uccl_address_new(info->addr_format, &r->addr, &info->dest_addr, &info->dest_addrlen))
		return info;
	uccl_lib.freeinfo(info);
	return NULL;
}

static void request_free(struct request *r)
{
	LIST_REMOVE(r, link);
	r->pep->n--;
	uccl_peer_release(r->from);
	free(r);
}

/* The address must be the sender's own, or a sender could make us connect to others. PROTOCOL R112 */
static bool request_valid(const struct uccl_cm_msg *m, struct uccl_addr *addr)
{
	const struct uccl_addr *from = uccl_peer_addr(m->from);

	return m->type == UCCL_CM_REQ && m->number && m->len >= UCCL_ADDR_LEN && !uccl_addr_decode(addr, m->data) &&
	       uccl_nic_addr_equal(&addr->nic, &from->nic) && addr->incarnation == from->incarnation;
}

static void pep_receive(void *arg, const struct uccl_cm_msg *m)
{
	struct pep *p = arg;
	struct uccl_addr addr;
	struct fi_info *info;
	struct request *r;

	if (!request_valid(m, &addr)) {
		uccl_engine_refuse(p->ep->driver.engine, UCCL_DROP_RECORD, 1);
		return;
	}
	r = p->n < p->backlog ? calloc(1, sizeof(*r)) : NULL;
	if (!r)
		goto reject;
	r->fid.fclass = FI_CLASS_CONNREQ;
	r->pep = p;
	r->from = m->from;
	uccl_peer_hold(r->from);
	r->addr = addr;
	r->number = m->number;
	LIST_INSERT_HEAD(&p->requests, r, link);
	p->n++;
	info = request_info(p, r);
	if (info && !uccl_eq_push_cm(p->ep->bound.eq, FI_CONNREQ, &p->fid.fid, info, m->data + UCCL_ADDR_LEN,
				     m->len - UCCL_ADDR_LEN))
		return;
	request_free(r);
reject:
	(void)uccl_cm_send(p->ep, m->from, UCCL_CM_REJECT, m->number, NULL, 0);
}

static struct request *request_find(struct pep *p, const struct fid *handle)
{
	struct request *r;

	LIST_FOREACH(r, &p->requests, link)
		if (&r->fid == handle)
			break;
	return r;
}

static int give_request(struct pep *p, struct fid *handle, struct uccl_ep *ep)
{
	struct request *r;

	uccl_driver_lock(&p->ep->driver);
	r = request_find(p, handle);
	if (r) {
		uccl_cm_asked(ep, r->number, &r->addr, uccl_engine_addr(p->ep->driver.engine));
		request_free(r);
	}
	uccl_driver_unlock(&p->ep->driver);
	return r ? 0 : -FI_EINVAL;
}

static int give_address(struct pep *p, struct uccl_ep *ep)
{
	const struct uccl_nic_addr *src;
	int rc = -FI_EOPBADSTATE;

	uccl_driver_lock(&p->ep->driver);
	if (!p->listening && !p->given) {
		/* A queue pair cannot be opened again. Peers that ask at its port get the address of the next one. */
		src = &p->ep->run.src;
		if (p->ep->driver.engine && !uccl_engine_addr(p->ep->driver.engine)->nic.pad)
			src = &uccl_engine_addr(p->ep->driver.engine)->nic;
		uccl_ep_set_src(ep, src, false, false);
		uccl_ep_stop(p->ep);
		p->given = true;
		rc = 0;
	}
	uccl_driver_unlock(&p->ep->driver);
	return rc;
}

int uccl_pep_give(struct fid *handle, struct uccl_ep *ep)
{
	if (handle->fclass == FI_CLASS_CONNREQ)
		return give_request(uccl_container_of(handle, struct request, fid)->pep, handle, ep);
	return handle->fclass == FI_CLASS_PEP ? give_address(pep_of(handle), ep) : -FI_EINVAL;
}

static int pep_listen(struct fid_pep *fid)
{
	struct pep *p = pep_of(&fid->fid);
	int rc;

	if (p->listening || p->given || p->ep->driver.forks != uccl_forks)
		return -FI_EOPBADSTATE;
	if (!p->ep->bound.eq)
		return -FI_ENOEQ;
	rc = uccl_ep_activate(p->ep);
	if (rc)
		return rc;
	uccl_driver_lock(&p->ep->driver);
	rc = uccl_cm_recv(p->ep);
	p->listening = !rc;
	uccl_driver_unlock(&p->ep->driver);
	return rc;
}

static int pep_reject(struct fid_pep *fid, fid_t handle, const void *param, size_t paramlen)
{
	struct pep *p = pep_of(&fid->fid);
	struct request *r;
	int rc = -FI_EINVAL;

	if (paramlen > UCCL_CM_DATA_MAX)
		return rc;
	uccl_driver_lock(&p->ep->driver);
	r = request_find(p, handle);
	if (r) {
		rc = uccl_cm_send(p->ep, r->from, UCCL_CM_REJECT, r->number, param, paramlen);
		if (rc != -FI_EAGAIN) {
			/* A peer that has ended needs no answer. */
			request_free(r);
			rc = 0;
		}
	}
	uccl_driver_unlock(&p->ep->driver);
	return rc;
}

static int pep_setname(fid_t fid, void *addr, size_t addrlen)
{
	return fi_setname(inner(pep_of(fid)), addr, addrlen);
}

static int pep_getname(fid_t fid, void *addr, size_t *addrlen)
{
	return pep_of(fid)->given ? -FI_EOPBADSTATE : fi_getname(inner(pep_of(fid)), addr, addrlen);
}

static int pep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct pep *p = pep_of(fid);

	if (bfid->fclass != FI_CLASS_EQ || flags)
		return -FI_EINVAL;
	return p->listening ? -FI_EOPBADSTATE :
			      uccl_ep_bind_eq(p->ep, uccl_eq_of(bfid));
}

static int pep_control(struct fid *fid, int command, void *arg)
{
	struct pep *p = pep_of(fid);
	int n;

	if (command != FI_BACKLOG)
		return -FI_ENOSYS;
	memcpy(&n, arg, sizeof(n));
	if (n < 0)
		return -FI_EINVAL;
	uccl_driver_lock(&p->ep->driver);
	p->backlog = (unsigned int)n;
	uccl_driver_unlock(&p->ep->driver);
	return 0;
}

static int pep_getopt(fid_t fid, int level, int name, void *optval, size_t *optlen)
{
	(void)fid;
	if (level != FI_OPT_ENDPOINT || name != FI_OPT_CM_DATA_SIZE)
		return -FI_ENOPROTOOPT;
	return uccl_ep_give_size(optval, optlen, UCCL_CM_DATA_MAX);
}

static int pep_close(struct fid *fid)
{
	struct pep *p = pep_of(fid);
	struct request *r;

	if (p->ep && p->ep->bound.eq)
		uccl_eq_forget(p->ep->bound.eq, fid);
	while ((r = LIST_FIRST(&p->requests))) {
		if (p->ep->driver.forks != uccl_forks)
			break;
		uccl_driver_lock(&p->ep->driver);
		(void)uccl_cm_send(p->ep, r->from, UCCL_CM_REJECT, r->number, NULL, 0);
		request_free(r);
		uccl_driver_unlock(&p->ep->driver);
	}
	if (p->ep)
		fi_close(inner(p));
	if (p->domain)
		fi_close(&p->domain->fid);
	if (p->info)
		uccl_lib.freeinfo(p->info);
	free(p);
	return 0;
}

static struct fi_ops pep_fid_ops = UCCL_FID_OPS(pep_close, pep_bind, pep_control);

static struct uccl_ops_ep pep_ops;
static struct fi_ops_cm pep_cm_ops;

static void pep_ops_make(void)
{
	struct uccl_ops_ep ops = uccl_no_ep_ops;
	struct fi_ops_cm cm = uccl_no_cm_ops;

	ops.known.getopt = pep_getopt;
	cm.setname = pep_setname;
	cm.getname = pep_getname;
	cm.listen = pep_listen;
	cm.reject = pep_reject;
	pep_ops = ops;
	pep_cm_ops = cm;
}

int uccl_pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **out, void *context)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct pep *p;
	int rc;

	if (!info->ep_attr || info->ep_attr->type != FI_EP_MSG)
		return -FI_EINVAL;
	pthread_once(&once, pep_ops_make);
	p = calloc(1, sizeof(*p));
	if (!p)
		return -FI_ENOMEM;
	LIST_INIT(&p->requests);
	p->backlog = BACKLOG;
	p->fid.fid.fclass = FI_CLASS_PEP;
	p->fid.fid.context = context;
	p->fid.fid.ops = &pep_fid_ops;
	p->fid.ops = &pep_ops.known;
	p->fid.cm = &pep_cm_ops;
	p->info = uccl_lib.dupinfo(info);
	rc = p->info ? fi_domain(fabric, info, &p->domain, NULL) : -FI_ENOMEM;
	if (!rc)
		rc = uccl_ep_new(uccl_domain_of(&p->domain->fid), info,
				 UCCL_TX | UCCL_RX, FI_CLASS_PEP, NULL, &p->ep);
	if (rc) {
		pep_close(&p->fid.fid);
		return rc;
	}
	uccl_cm_listen(p->ep, pep_receive, p);
	*out = &p->fid;
	return 0;
}
