/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../connected.h"

#include <netinet/in.h>

#include "api/endpoint/cm.h"
#include "api/endpoint/pep.h"
#include "../../tests.h"

TEST(open__states)
{
	size_t size, len = sizeof(size);
	struct fi_info *info;
	struct fid_pep *pep;
	struct pair p;
	struct world w;
	int n = -1;

	pair_open(&p);
	assert_int_equal(fi_getopt(&p.pep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &size, &len), 0);
	assert_int_equal(size, 256);
	assert_int_equal(fi_getopt(&p.pep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &size, &len), -FI_ENOPROTOOPT);
	assert_int_equal(fi_listen(p.pep), -FI_EOPBADSTATE);
	assert_int_equal(fi_pep_bind(p.pep, &p.a.eq->fid, 0), -FI_EOPBADSTATE);
	assert_int_equal(fi_pep_bind(p.pep, &p.w.domain->fid, 0), -FI_EINVAL);
	assert_int_equal(fi_control(&p.pep->fid, FI_BACKLOG, &n), -FI_EINVAL);
	assert_int_equal(fi_control(&p.pep->fid, FI_ENABLE, &n), -FI_ENOSYS);
	assert_int_equal(fi_reject(p.pep, &p.a.ep->fid, NULL, 0), -FI_EINVAL);
	assert_int_equal(fi_close(&p.listen_eq->fid), -FI_EBUSY);
	/* Who listens has no address to give away. */
	info = fi_dupinfo(p.w.info);
	info->handle = &p.pep->fid;
	assert_int_equal(fi_endpoint(p.w.domain, info, &(struct fid_ep *){ NULL }, NULL), -FI_EOPBADSTATE);
	info->handle = &p.w.domain->fid;
	assert_int_equal(fi_endpoint(p.w.domain, info, &(struct fid_ep *){ NULL }, NULL), -FI_EINVAL);
	fi_freeinfo(info);
	assert_int_equal(fi_passive_ep(p.w.fabric, p.w.info, &pep, NULL), 0);
	assert_int_equal(fi_listen(pep), -FI_ENOEQ);
	assert_int_equal(fi_close(&pep->fid), 0);
	pair_close(&p);
	world_open(&w); /* FI_EP_RDM */
	assert_int_equal(fi_passive_ep(w.fabric, w.info, &pep, NULL), -FI_EINVAL);
	world_close(&w);
}

/* What a request tells of who asks is where that one is. */
WORLD_TEST(request__info, pair, p)
{
	uint8_t name[FI_UCCL_ADDR_LEN];
	size_t len = sizeof(name);
	struct fi_info *info;
	struct told t;

	pair_ask(p, NULL, 0, &t);
	info = t.entry.info;
	assert_int_equal(fi_getname(&p->a.ep->fid, name, &len), 0);
	assert_int_equal(info->dest_addrlen, len);
	assert_memory_equal(info->dest_addr, name, len);
	assert_string_equal(info->domain_attr->name, "lo");
	fi_freeinfo(info);
}

/* More than the program wants to have waiting are turned away; when it answers, others may come. */
WORLD_TEST(backlog__full, pair, p)
{
	struct fi_eq_err_entry err;
	struct party c;
	struct told t, u;
	int n = 1;

	assert_int_equal(fi_control(&p->pep->fid, FI_BACKLOG, &n), 0);
	pair_ask(p, NULL, 0, &t);
	c = p->a;
	party_open_with(&p->a, &p->w, p->w.info);
	assert_int_equal(fi_connect(p->a.ep, p->name, NULL, 0), 0);
	assert_int_equal(pair_error(p, p->a.eq, &p->a.ep->fid, &err), FI_ECONNREFUSED);
	assert_int_equal(fi_eq_read(p->listen_eq, &u.event, u.room, sizeof(u.room), 0), -FI_EAGAIN);
	party_close(&p->a);
	party_open_with(&p->a, &p->w, p->w.info);
	assert_int_equal(fi_reject(p->pep, t.entry.info->handle, NULL, 0), 0);
	fi_freeinfo(t.entry.info);
	pair_connect(p);
	party_close(&c);
}

/*
 * Requests that name another address than their sender's, or none, or have no number, and what is no request, are
 * refused and counted. PROTOCOL R112
 */
WORLD_TEST(request__bad, pair, p)
{
	uint8_t own[FI_UCCL_ADDR_LEN + 300], other[FI_UCCL_ADDR_LEN];
	size_t len = FI_UCCL_ADDR_LEN;
	struct uccl_addr listener;
	struct told t;

	assert_int_equal(fi_enable(p->a.ep), 0);
	assert_int_equal(fi_getname(&p->a.ep->fid, own, &len), 0);
	memcpy(other, p->name, sizeof(other));
	assert_int_equal(uccl_addr_decode(&listener, p->name), 0);
	party_say(&p->a, &listener, UCCL_CM_REQ, 1, other, sizeof(other));
	party_say(&p->a, &listener, UCCL_CM_REQ, 0, own, FI_UCCL_ADDR_LEN);
	party_say(&p->a, &listener, UCCL_CM_REQ, 2, own, FI_UCCL_ADDR_LEN - 1);
	party_say(&p->a, &listener, UCCL_CM_ACCEPT, 3, own, FI_UCCL_ADDR_LEN);
	own[20] ^= 1;
	party_say(&p->a, &listener, UCCL_CM_REQ, 4, own, FI_UCCL_ADDR_LEN);
	own[20] ^= 1;
	/* the good one comes last */
	party_say(&p->a, &listener, UCCL_CM_REQ, 5, own, FI_UCCL_ADDR_LEN);
	pair_expect(p, p->listen_eq, FI_CONNREQ, &p->pep->fid, &t);
	assert_int_equal(ep_dropped(uccl_pep_ep(p->pep), UCCL_DROP_RECORD), 5);
	fi_freeinfo(t.entry.info);
	assert_int_equal(fi_eq_read(p->listen_eq, &t.event, t.room, sizeof(t.room), 0), -FI_EAGAIN);
}

/* A passive endpoint with a port: who takes its address has it, before and after it is gone. */
TEST(give__address)
{
	struct fi_info *h = connected_hints(), *info;
	struct sockaddr_in name, got;
	size_t len = sizeof(name);
	struct fid_pep *pep;
	struct world w;
	struct party x;

	h->addr_format = FI_SOCKADDR_IN;
	world_open_with(&w, h);
	assert_int_equal(fi_passive_ep(w.fabric, w.info, &pep, NULL), 0);
	assert_int_equal(fi_getname(&pep->fid, &name, &len), 0);
	assert_int_not_equal(name.sin_port, 0);
	info = fi_dupinfo(w.info);
	info->handle = &pep->fid;
	party_open_with(&x, &w, info);
	fi_freeinfo(info);
	assert_int_equal(fi_listen(pep), -FI_EOPBADSTATE);
	assert_int_equal(fi_getname(&pep->fid, &got, &len), -FI_EOPBADSTATE);
	assert_int_equal(fi_close(&pep->fid), 0);
	assert_int_equal(fi_getname(&x.ep->fid, &got, &len), 0);
	assert_memory_equal(&got, &name, sizeof(name));
	party_close(&x);
	world_close(&w);
}

/* By host and port, which name no key. */
TEST(connect__by_port)
{
	struct fi_info *h = connected_hints();
	struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_FD };
	struct sockaddr_in name;
	size_t len = sizeof(name);
	struct pair p;

	memset(&p, 0, sizeof(p));
	h->addr_format = FI_SOCKADDR_IN;
	world_open_with(&p.w, h);
	assert_int_equal(fi_eq_open(p.w.fabric, &eq_attr, &p.listen_eq, NULL), 0);
	assert_int_equal(fi_passive_ep(p.w.fabric, p.w.info, &p.pep, NULL), 0);
	assert_int_equal(fi_pep_bind(p.pep, &p.listen_eq->fid, 0), 0);
	assert_int_equal(fi_listen(p.pep), 0);
	assert_int_equal(fi_getname(&p.pep->fid, &name, &len), 0);
	memcpy(p.name, &name, sizeof(name));
	party_open_with(&p.a, &p.w, p.w.info);
	pair_connect(&p);
	len = sizeof(name);
	assert_int_equal(fi_getname(&p.b.ep->fid, &name, &len), 0);
	assert_memory_equal(&name, p.name, sizeof(name));
	pair_close(&p);
}

TESTS_MAIN
