/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See verbs_mw.h. */
#include "nic/verbs/verbs_mw.h"

#ifdef HAVE_VERBS

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "base/units.h"
#include "nic/verbs/mrcache.h"
#include "nic/verbs/verbs_ah.h"

#define WINDOWS 1024 /* at a time, at most */
#define DEPTH 64     /* most requests of the queue pair without completion */
#define REGIONS 1024 /* most registrations kept without windows */
#define REGION_BYTES (1ull << 30)
#define UNBIND_NS (10 * UCCL_NS_PER_MS) /* the NIC is given this long; it needs a microsecond or two */
#define RETRY_NS (100 * UCCL_NS_PER_MS) /* after something was refused, without asking again */

/* A registration that windows are bound to. */
struct region {
	struct ibv_mr *mr;
	uint64_t iova; /* of its first byte */
};

struct window {
	struct ibv_mw *mw;			 /* NULL: to be made when it is needed */
	const struct uccl_mrcache_entry *region; /* NULL: the window is unused */
	uint32_t request;			 /* number of the request that bound it */
	bool lost;				 /* the queue pair broke before that was done: its key is not known */
};

struct uccl_verbs_mws {
	const struct uccl_verbs *lib;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	const struct uccl_verbs_port *port;
	uint64_t (*clock)(void);
	struct uccl_mrcache *regions;
	struct ibv_cq *cq;
	struct ibv_qp *qp; /* NULL: it broke */
	uint64_t retry_at;
	uint32_t posted, done; /* requests; these only grow */
	struct uccl_verbs_mws_stats stats;
	uint32_t nwindows, nfree;
	uint16_t free[WINDOWS]; /* a stack */
	struct window window[WINDOWS];
};

int uccl_verbs_iova(const void *buf, uint64_t *iova)
{
	if (getrandom(iova, sizeof(*iova), 0) != sizeof(*iova))
		return -FI_EIO;
	*iova = (*iova >> 1 & ~4095ull) | ((uintptr_t)buf & 4095);
	return 0;
}

/* Regions. */

static int region_reg(void *arg, uintptr_t start, uint64_t len, const struct uccl_nic_device *device, void **out)
{
	struct uccl_verbs_mws *m = arg;
	struct region *r = malloc(sizeof(*r));
	int rc = r ? uccl_verbs_iova((void *)start, &r->iova) : -FI_ENOMEM;

	(void)device;
	if (!rc) {
		r->mr = m->lib->reg_mr_iova(m->pd, (void *)start, len, r->iova,
					    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
		rc = r->mr ? 0 : uccl_verbs_error();
	}
	if (rc)
		free(r);
	else
		*out = r;
	return rc;
}

static void region_dereg(void *arg, void *mr)
{
	struct uccl_verbs_mws *m = arg;
	struct region *r = mr;

	uccl_verbs_dereg(m->lib, r->mr, m->port->name);
	free(r);
}

static const struct uccl_mrcache_ops region_ops = {.reg = region_reg, .dereg = region_dereg};

/* The queue pair that windows are bound through. */

int uccl_verbs_loop(const struct uccl_verbs *lib, const struct uccl_verbs_port *port, struct ibv_qp *qp, uint32_t to,
		    uint32_t psn, uint32_t their_psn)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
				.port_num = port->port,
				.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
				.path_mtu = (enum ibv_mtu)port->mtu_code,
				.dest_qp_num = to,
				.rq_psn = their_psn,
				.sq_psn = psn};
	struct uccl_verbs_ah_key self;
	int rc = lib->modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	memset(&self, 0, sizeof(self));
	memcpy(self.ip, port->addr.ip, sizeof(self.ip));
	self.lid = port->lid;
	uccl_verbs_route(port, &self, &a.ah_attr);
	a.qp_state = IBV_QPS_RTR;
	if (!rc)
		rc = lib->modify_qp(qp, &a,
				    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN);
	a.qp_state = IBV_QPS_RTS;
	if (!rc)
		rc = lib->modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
	return rc;
}

static void qp_free(struct uccl_verbs_mws *m)
{
	if (m->qp)
		m->lib->destroy_qp(m->qp);
	if (m->cq)
		m->lib->destroy_cq(m->cq);
	m->qp = NULL;
	m->cq = NULL;
}

static int qp_make(struct uccl_verbs_mws *m)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_UC};
	int err;

	init.cap.max_send_wr = DEPTH;
	init.cap.max_send_sge = 1;
	m->cq = m->lib->create_cq(m->ctx, DEPTH, NULL, NULL, 0);
	init.send_cq = init.recv_cq = m->cq;
	m->qp = m->cq ? m->lib->create_qp(m->pd, &init) : NULL;
	err = m->qp ? -uccl_verbs_loop(m->lib, m->port, m->qp, m->qp->qp_num, 0, 0) : uccl_verbs_error();
	if (err)
		qp_free(m);
	return err;
}

/* It broke, or does not answer: requests without completion will never be done. */
static void qp_end(struct uccl_verbs_mws *m)
{
	qp_free(m);
	m->retry_at = m->clock() + RETRY_NS;
	for (uint32_t i = 0; i < m->nwindows; i++)
		m->window[i].lost |= m->window[i].region && (int32_t)(m->window[i].request - m->done) >= 0;
	m->done = m->posted;
}

static void reap(struct uccl_verbs_mws *m)
{
	struct ibv_wc wc[DEPTH];
	int n = m->qp ? m->lib->poll_cq(m->cq, DEPTH, wc) : 0;

	for (int i = 0; i < n && m->qp; i++) {
		if (wc[i].status == IBV_WC_SUCCESS) {
			m->done = (uint32_t)wc[i].wr_id + 1;
			continue;
		}
		UCCL_LOG(UCCL_LOG_INFO, "%s: binding a memory window failed: status %d, vendor error %u", m->port->name,
			 wc[i].status, wc[i].vendor_err);
		m->stats.failed++;
		qp_end(m);
	}
}

/* Bind the window to `len` bytes of its region; 0: unbind it. */
static int request(struct uccl_verbs_mws *m, struct window *w, uint64_t addr, uint64_t len)
{
	struct region *r = w->region->mr;
	struct ibv_mw_bind bind = {.wr_id = m->posted, .send_flags = IBV_SEND_SIGNALED};
	int err;

	if (m->posted - m->done >= DEPTH)
		reap(m);
	if (!m->qp || m->posted - m->done >= DEPTH)
		return -FI_EAGAIN;
	bind.bind_info.mr = r->mr; /* libraries read it even if the length is 0 */
	bind.bind_info.addr = addr;
	bind.bind_info.length = len;
	bind.bind_info.mw_access_flags = len ? IBV_ACCESS_REMOTE_WRITE : 0;
	err = m->lib->bind_mw(m->qp, w->mw, &bind);
	if (err)
		return -err;
	w->request = m->posted++;
	return 0;
}

/* Wait until all requests before this one are done, or never will be. */
static void await(struct uccl_verbs_mws *m, uint32_t upto)
{
	uint64_t until = m->clock() + UNBIND_NS;

	for (reap(m); m->qp && (int32_t)(m->done - upto) < 0; reap(m)) {
		if (m->clock() < until)
			continue;
		UCCL_LOG(UCCL_LOG_INFO, "%s: the NIC binds no memory windows any more", m->port->name);
		qp_end(m);
	}
}

/* False: it may still be bound. */
static bool unbind(struct uccl_verbs_mws *m, struct window *w)
{
	await(m, m->posted - (DEPTH - 1));
	if (!w->lost && !request(m, w, 0, 0)) {
		await(m, w->request + 1);
		return !w->lost;
	}
	/* It may not be freed while the NIC has a request for it. */
	await(m, w->request + 1);
	return false;
}

/* Windows. */

static void window_free(struct uccl_verbs_mws *m, struct window *w)
{
	w->region = NULL;
	m->free[m->nfree++] = (uint16_t)(w - m->window);
}

/* Free the NIC's window, if there is one. This is a fence, too, so it also ends a window that cannot be unbound. */
static void window_end(struct uccl_verbs_mws *m, struct window *w)
{
	int err = w->mw ? m->lib->dealloc_mw(w->mw) : 0;

	if (err)
		UCCL_LOG(UCCL_LOG_WARN, "%s: cannot free a memory window: %s", m->port->name, strerror(err));
	w->mw = NULL;
	w->lost = false;
}

static int window_bind(struct uccl_verbs_mws *m, struct window *w, uint64_t addr, uint64_t len)
{
	if (!w->mw)
		w->mw = m->lib->alloc_mw(m->pd, IBV_MW_TYPE_1);
	return w->mw ? request(m, w, addr, len) : uccl_verbs_error();
}

int uccl_verbs_mw_get(struct uccl_verbs_mws *m, const void *buf, uint64_t len, void **place, uint32_t *rkey,
		      uint64_t *raddr)
{
	const struct uccl_mrcache_entry *e;
	struct window *w;
	int rc;

	if (!m->nfree || m->clock() < m->retry_at)
		return -FI_EAGAIN;
	rc = m->qp ? 0 : qp_make(m);
	if (!rc)
		rc = uccl_mrcache_get(m->regions, buf, len, NULL, &e);
	if (rc == -FI_ENOSYS)
		return rc; /* the kernel does not watch this memory */
	if (rc) {
		m->retry_at = m->clock() + RETRY_NS;
		m->stats.failed++;
		return rc;
	}
	w = &m->window[m->free[--m->nfree]];
	w->region = e;
	*raddr = ((const struct region *)e->mr)->iova + ((uintptr_t)buf - e->start);
	rc = window_bind(m, w, *raddr, len);
	if (rc) {
		window_free(m, w);
		uccl_mrcache_put(e);
		m->retry_at = m->clock() + RETRY_NS;
		m->stats.failed++;
		return rc;
	}
	m->stats.bound++;
	*place = w;
	*rkey = w->mw->rkey;
	return 0;
}

void uccl_verbs_mw_put(struct uccl_verbs_mws *m, void *place, bool settled)
{
	struct window *w = place;
	const struct uccl_mrcache_entry *e = w->region;

	if (!unbind(m, w)) {
		m->stats.failed++;
		window_end(m, w);
	}
	if (!settled)
		uccl_mrcache_spoil(e);
	uccl_mrcache_put(e);
	window_free(m, w);
}

bool uccl_verbs_mw_is(const struct uccl_verbs_mws *m, const void *place)
{
	return m && place >= (const void *)m->window && place < (const void *)(m->window + m->nwindows);
}

struct uccl_verbs_mws_stats uccl_verbs_mws_stats(const struct uccl_verbs_mws *m)
{
	return m->stats;
}

struct uccl_mrcache_stats uccl_verbs_mws_places(struct uccl_verbs_mws *m)
{
	return uccl_mrcache_stats(m->regions);
}

int uccl_verbs_mws_open(const struct uccl_verbs *lib, struct ibv_context *ctx, struct ibv_pd *pd,
			const struct uccl_verbs_port *port, uint64_t (*clock)(void), struct uccl_verbs_mws **out)
{
	struct uccl_verbs_mws *m = port->max_mw ? calloc(1, sizeof(*m)) : NULL;
	int rc;

	if (!m)
		return port->max_mw ? -FI_ENOMEM : -FI_ENOSYS;
	m->lib = lib;
	m->ctx = ctx;
	m->pd = pd;
	m->port = port;
	m->clock = clock;
	m->nwindows = (uint32_t)uccl_min(WINDOWS, port->max_mw);
	while (m->nfree < m->nwindows) {
		m->free[m->nfree] = (uint16_t)(m->nwindows - 1 - m->nfree);
		m->nfree++;
	}
	rc = uccl_mrcache_open(&region_ops, m, false, REGIONS, REGION_BYTES, &m->regions);
	if (!rc && !uccl_mrcache_keeps(m->regions))
		rc = -FI_ENOSYS;
	if (!rc)
		rc = qp_make(m);
	if (rc)
		uccl_verbs_mws_close(m);
	else
		*out = m;
	return rc;
}

void uccl_verbs_mws_close(struct uccl_verbs_mws *m)
{
	qp_free(m);
	for (uint32_t i = 0; i < m->nwindows; i++) {
		window_end(m, &m->window[i]);
		if (m->window[i].region)
			uccl_mrcache_put(m->window[i].region);
	}
	uccl_mrcache_close(m->regions);
	free(m);
}

#endif
