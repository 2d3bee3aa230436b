/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Objects of the fake verbs: making, ending, errors. What moves is in fake_wire.c. */
#include "fake_verbs.h"

#ifdef HAVE_VERBS

#include "fake_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define FIRST_QPN 0x11

struct fake *fake_now;

void fake_violation(const char *fmt, ...)
{
	va_list ap;

	fake_now->pub.violations++;
	va_start(ap, fmt);
	vsnprintf(fake_now->pub.violation, sizeof(fake_now->pub.violation), fmt, ap);
	va_end(ap);
}

static struct fake_call *call_find(struct fake *f, const char *name)
{
	int i;

	/* Mostly the same literal; comparing texts takes most of the time of long tests with sanitizers. */
	for (i = 0; i < f->ncalls; i++)
		if (f->call[i].name == name)
			return &f->call[i];
	for (i = 0; i < f->ncalls && strcmp(f->call[i].name, name);)
		i++;
	f->ncalls += i == f->ncalls;
	f->call[i].name = name;
	return &f->call[i];
}

/* Count a call; an errno value that it shall fail with, or 0. */
static int call_begin(const char *name)
{
	struct fake_call *c = call_find(fake_now, name);

	c->count++;
	if (!c->err || (c->left && --c->left))
		return 0;
	errno = c->err;
	if (c->once)
		c->err = 0;
	return errno;
}

/* What returns an errno value does not leave it in errno as well. */
#define BEGIN(name)                                                                                                    \
	do {                                                                                                           \
		int begin_err = call_begin(name);                                                                      \
		if (begin_err) {                                                                                       \
			errno = 0;                                                                                     \
			return begin_err;                                                                              \
		}                                                                                                      \
	} while (0)

#define BEGIN_NULL(name)                                                                                               \
	do {                                                                                                           \
		if (call_begin(name))                                                                                  \
			return NULL;                                                                                   \
	} while (0)

/* Devices. */

static struct ibv_device **fake_get_device_list(int *n)
{
	struct ibv_device **list;
	int i;

	BEGIN_NULL("get_device_list");
	list = calloc((size_t)fake_now->ndevs + 1, sizeof(*list));
	for (i = 0; i < fake_now->ndevs; i++)
		list[i] = &fake_now->dev[i]->dev;
	if (n)
		*n = i;
	fake_now->lists++;
	return list;
}

static void fake_free_device_list(struct ibv_device **list)
{
	call_begin("free_device_list");
	fake_now->lists--;
	free(list);
}

static struct ibv_context *fake_open_device(struct ibv_device *dev)
{
	struct fake_context *c;

	BEGIN_NULL("open_device");
	c = calloc(1, sizeof(*c));
	c->dev = (struct fake_dev *)dev;
	c->ctx.device = dev;
	c->ctx.async_fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	TAILQ_INSERT_TAIL(&fake_now->contexts, c, all);
	fake_now->pub.contexts++;
	return &c->ctx;
}

static int fake_close_device(struct ibv_context *ctx)
{
	struct fake_context *c = (struct fake_context *)ctx;

	BEGIN("close_device");
	if (c->users)
		fake_violation("close_device: %d objects are left", c->users);
	TAILQ_REMOVE(&fake_now->contexts, c, all);
	close(ctx->async_fd);
	fake_now->pub.contexts--;
	free(c);
	return 0;
}

static int fake_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	BEGIN("query_device");
	*attr = ((struct fake_context *)ctx)->dev->attr;
	return 0;
}

static int fake_query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr)
{
	struct fake_dev *d = ((struct fake_context *)ctx)->dev;
	const struct fake_port *p;

	BEGIN("query_port");
	if (!port || port > d->attr.phys_port_cnt)
		return EINVAL;
	p = &d->port[port - 1];
	memset(attr, 0, sizeof(*attr));
	attr->state = p->state;
	attr->max_mtu = IBV_MTU_4096;
	attr->active_mtu = p->mtu;
	attr->gid_tbl_len = FAKE_GIDS;
	attr->pkey_tbl_len = 1;
	attr->lid = p->lid;
	attr->active_width = p->width;
	attr->active_speed = p->speed;
	attr->link_layer = p->link_layer;
	return 0;
}

static int fake_query_gid(struct ibv_context *ctx, uint32_t port, uint32_t index, struct ibv_gid_entry *entry)
{
	struct fake_dev *d = ((struct fake_context *)ctx)->dev;
	int i;

	BEGIN("query_gid");
	if (!port || port > d->attr.phys_port_cnt)
		return EINVAL;
	for (i = 0; i < d->port[port - 1].ngids; i++) {
		if (d->port[port - 1].gid[i].gid_index != index)
			continue;
		*entry = d->port[port - 1].gid[i];
		entry->port_num = port;
		return 0;
	}
	return ENODATA;
}

static int fake_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event)
{
	struct fake_context *c = (struct fake_context *)ctx;
	struct fake_event *e;
	uint64_t one;

	call_begin("get_async_event");
	if (!(fcntl(ctx->async_fd, F_GETFL) & O_NONBLOCK)) {
		fake_violation("get_async_event on a descriptor that blocks");
		errno = EAGAIN;
		return -1;
	}
	if (c->detached) {
		errno = EIO;
		return -1;
	}
	TAILQ_FOREACH(e, &fake_now->events, all)
		if (e->ctx == c)
			break;
	if (!e || read(ctx->async_fd, &one, sizeof(one)) < 0) {
		errno = EAGAIN;
		return -1;
	}
	*event = e->event;
	TAILQ_REMOVE(&fake_now->events, e, all);
	free(e);
	fake_now->unacked++;
	return 0;
}

static void fake_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
	call_begin("ack_async_event");
	fake_now->unacked--;
}

/* Memory. */

/* An object ends. False: others still use it. */
static bool object_end(const char *call, int users, int *parent_users, int *count)
{
	if (users) {
		fake_violation("%s: %d objects are left", call, users);
		return false;
	}
	--*parent_users;
	--*count;
	return true;
}

static struct ibv_pd *fake_alloc_pd(struct ibv_context *ctx)
{
	struct fake_pd *pd;

	BEGIN_NULL("alloc_pd");
	pd = calloc(1, sizeof(*pd));
	pd->pd.context = ctx;
	((struct fake_context *)ctx)->users++;
	fake_now->pub.pds++;
	return &pd->pd;
}

static int fake_dealloc_pd(struct ibv_pd *ibpd)
{
	struct fake_pd *pd = (struct fake_pd *)ibpd;

	BEGIN("dealloc_pd");
	if (!object_end("dealloc_pd", pd->users, &((struct fake_context *)ibpd->context)->users, &fake_now->pub.pds))
		return EBUSY;
	free(pd);
	return 0;
}

/* False: the kernel does not say. */
static bool policy_read(void *addr, int *policy, unsigned long *nodes)
{
	unsigned long of_address = 2;

	*nodes = 0;
	return !syscall(SYS_get_mempolicy, policy, nodes, 8 * sizeof(*nodes), addr, addr ? of_address : 0);
}

bool fake_verbs_numa(void)
{
	unsigned long nodes;
	int policy;

	return policy_read(NULL, &policy, &nodes);
}

/* MPOL_DEFAULT; MPOL_PREFERRED, or of many. */
static void policy_count(void *addr)
{
	unsigned long nodes;
	int policy;

	if (!policy_read(addr, &policy, &nodes))
		return;
	fake_now->pub.anywhere += !policy;
	fake_now->pub.near += (policy == 1 || policy == 5) && nodes == 1;
}

static struct ibv_mr *mr_make(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, int access)
{
	struct fake_mr *m;

	m = calloc(1, sizeof(*m));
	m->access = access;
	m->mr.context = pd->context;
	m->mr.pd = pd;
	m->iova = iova;
	m->mr.addr = addr;
	m->mr.length = len;
	m->mr.lkey = m->mr.rkey = fake_now->next_key += 0x100;
	((struct fake_pd *)pd)->users++;
	TAILQ_INSERT_TAIL(&fake_now->mrs, m, all);
	fake_now->pub.mrs++;
	policy_count(addr);
	return &m->mr;
}

static struct ibv_mr *fake_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	BEGIN_NULL("reg_mr");
	return mr_make(pd, addr, len, (uintptr_t)addr, access);
}

static struct ibv_mr *fake_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, int access)
{
	BEGIN_NULL("reg_mr_iova");
	if ((iova ^ (uintptr_t)addr) & 4095)
		fake_violation("reg_mr_iova: another place in the page");
	if (fake_now->pub.peer_memory) {
		addr = fake_now->pub.peer_memory(addr);
		if (!addr) {
			errno = EFAULT;
			return NULL;
		}
	}
	return mr_make(pd, addr, len, iova, access);
}

/* As the kernel: the same place in the page. A dmabuf of the tests is a file that begins at its position. */
static struct ibv_mr *fake_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t len, uint64_t iova, int fd,
					 int access)
{
	uint64_t in_page = offset & 4095;
	struct fake_mr *m;
	uint8_t *map;
	off_t base;

	BEGIN_NULL("reg_dmabuf_mr");
	if ((iova ^ offset) & 4095)
		fake_violation("reg_dmabuf_mr: another place in the page");
	base = lseek(fd, 0, SEEK_CUR);
	map = base < 0 ? MAP_FAILED : mmap(NULL, len + in_page, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
					   base + (off_t)(offset - in_page));
	if (map == MAP_FAILED) {
		errno = EINVAL;
		return NULL;
	}
	m = (struct fake_mr *)mr_make(pd, map + in_page, len, iova, access);
	m->map = map;
	m->map_len = len + in_page;
	fake_now->pub.dmabufs++;
	return &m->mr;
}

static int fake_dereg_mr(struct ibv_mr *mr)
{
	struct fake_mr *m = (struct fake_mr *)mr;

	BEGIN("dereg_mr");
	if (!object_end("dereg_mr", m->windows, &((struct fake_pd *)mr->pd)->users, &fake_now->pub.mrs))
		return EBUSY;
	TAILQ_REMOVE(&fake_now->mrs, m, all);
	if (m->map)
		munmap(m->map, m->map_len);
	free(m);
	return 0;
}

static struct ibv_mw *fake_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct fake_dev *d = ((struct fake_context *)pd->context)->dev;
	struct fake_mw *w;

	BEGIN_NULL("alloc_mw");
	if (fake_now->pub.mws >= d->attr.max_mw) {
		errno = ENOMEM;
		return NULL;
	}
	w = calloc(1, sizeof(*w));
	w->mw.context = pd->context;
	w->mw.pd = pd;
	w->mw.type = type;
	w->mw.rkey = w->rkey = fake_now->next_key += 0x100;
	((struct fake_pd *)pd)->users++;
	TAILQ_INSERT_TAIL(&fake_now->mws, w, all);
	fake_now->pub.mws++;
	return &w->mw;
}

void fake_mw_unbind(struct fake_mw *w)
{
	if (w->mr)
		w->mr->windows--;
	w->mr = NULL;
}

/* One that is bound goes as well, and keeps out what comes later. */
static int fake_dealloc_mw(struct ibv_mw *mw)
{
	struct fake_mw *w = (struct fake_mw *)mw;
	const struct fake_wr *wr;
	const struct fake_qp *q;

	BEGIN("dealloc_mw");
	TAILQ_FOREACH(q, &fake_now->qps, all)
		TAILQ_FOREACH(wr, &q->sq, all)
			if (wr->wr.opcode == IBV_WR_BIND_MW && wr->wr.bind_mw.mw == mw)
				fake_violation("dealloc_mw: a request for it is under way");
	fake_mw_unbind(w);
	TAILQ_REMOVE(&fake_now->mws, w, all);
	((struct fake_pd *)mw->pd)->users--;
	fake_now->pub.mws--;
	free(w);
	return 0;
}

/* Completion queues. */

static struct ibv_comp_channel *fake_create_comp_channel(struct ibv_context *ctx)
{
	struct fake_channel *ch;

	BEGIN_NULL("create_comp_channel");
	ch = calloc(1, sizeof(*ch));
	ch->channel.context = ctx;
	ch->channel.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	((struct fake_context *)ctx)->users++;
	fake_now->pub.channels++;
	return &ch->channel;
}

static int fake_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct fake_channel *ch = (struct fake_channel *)channel;

	BEGIN("destroy_comp_channel");
	if (!object_end("destroy_comp_channel", ch->users, &((struct fake_context *)channel->context)->users,
			&fake_now->pub.channels))
		return EBUSY;
	close(channel->fd);
	free(ch);
	return 0;
}

static struct ibv_cq *fake_create_cq(struct ibv_context *ctx, int entries, void *user, struct ibv_comp_channel *channel,
				     int vector)
{
	struct fake_cq *cq;

	(void)vector;
	BEGIN_NULL("create_cq");
	if (entries < 1 || entries > ((struct fake_context *)ctx)->dev->attr.max_cqe) {
		errno = EINVAL;
		return NULL;
	}
	cq = calloc(1, sizeof(*cq));
	cq->entry = calloc((size_t)entries, sizeof(*cq->entry));
	cq->cq.context = ctx;
	cq->cq.channel = channel;
	cq->cq.cq_context = user;
	cq->cq.cqe = entries;
	if (channel)
		((struct fake_channel *)channel)->users++;
	((struct fake_context *)ctx)->users++;
	fake_now->pub.cqs++;
	return &cq->cq;
}

static int fake_destroy_cq(struct ibv_cq *ibcq)
{
	struct fake_cq *cq = (struct fake_cq *)ibcq;

	BEGIN("destroy_cq");
	if (!object_end("destroy_cq", cq->users, &((struct fake_context *)ibcq->context)->users, &fake_now->pub.cqs))
		return EBUSY;
	if (cq->unacked)
		fake_violation("destroy_cq: would wait for %u events to be acknowledged", cq->unacked);
	if (ibcq->channel)
		((struct fake_channel *)ibcq->channel)->users--;
	free(cq->entry);
	free(cq);
	return 0;
}

static int fake_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **user)
{
	struct fake_channel *ch = (struct fake_channel *)channel;
	uint64_t one;

	if (call_begin("get_cq_event"))
		return -1;
	if (!(fcntl(channel->fd, F_GETFL) & O_NONBLOCK))
		fake_violation("get_cq_event on a descriptor that blocks");
	else if (ch->n && read(channel->fd, &one, sizeof(one)) == sizeof(one)) {
		struct fake_cq *of = ch->told[ch->first++ % FAKE_EVENTS];

		ch->n--;
		*cq = &of->cq;
		*user = of->cq.cq_context;
		of->unacked++;
		return 0;
	}
	errno = EAGAIN;
	return -1;
}

static void fake_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	call_begin("ack_cq_events");
	if (n > ((struct fake_cq *)cq)->unacked)
		fake_violation("ack_cq_events: %u of %u", n, ((struct fake_cq *)cq)->unacked);
	((struct fake_cq *)cq)->unacked -= n;
}

/* Queues. */

static struct ibv_srq *fake_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct fake_srq *s;

	BEGIN_NULL("create_srq");
	s = calloc(1, sizeof(*s));
	s->srq.context = pd->context;
	s->srq.pd = pd;
	s->rq.max = attr->attr.max_wr;
	((struct fake_pd *)pd)->users++;
	fake_now->pub.srqs++;
	return &s->srq;
}

static int fake_destroy_srq(struct ibv_srq *srq)
{
	struct fake_srq *s = (struct fake_srq *)srq;

	BEGIN("destroy_srq");
	if (!object_end("destroy_srq", s->users, &((struct fake_pd *)srq->pd)->users, &fake_now->pub.srqs))
		return EBUSY;
	free(s->rq.wr);
	free(s);
	return 0;
}

static struct ibv_qp *fake_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct fake_dev *d = ((struct fake_context *)pd->context)->dev;
	struct fake_qp *q;

	BEGIN_NULL("create_qp");
	if (attr->cap.max_send_wr > (uint32_t)d->attr.max_qp_wr ||
	    attr->cap.max_recv_wr > (uint32_t)d->attr.max_qp_wr || attr->cap.max_send_sge > (uint32_t)d->attr.max_sge ||
	    attr->cap.max_recv_sge > (uint32_t)d->attr.max_sge || !attr->send_cq || !attr->recv_cq) {
		errno = EINVAL;
		return NULL;
	}
	if (fake_now->pub.qps >= d->attr.max_qp) {
		errno = ENOMEM;
		return NULL;
	}
	q = calloc(1, sizeof(*q));
	q->dev = d;
	q->init = *attr;
	q->rq.max = attr->cap.max_recv_wr;
	q->qp.context = pd->context;
	q->qp.pd = pd;
	q->qp.send_cq = attr->send_cq;
	q->qp.recv_cq = attr->recv_cq;
	q->qp.srq = attr->srq;
	q->qp.qp_context = attr->qp_context;
	q->qp.qp_type = attr->qp_type;
	q->qp.qp_num = d->next_qpn++;
	q->qp.state = IBV_QPS_RESET;
	TAILQ_INIT(&q->sq);
	((struct fake_cq *)attr->send_cq)->users++;
	((struct fake_cq *)attr->recv_cq)->users++;
	if (attr->srq)
		((struct fake_srq *)attr->srq)->users++;
	((struct fake_pd *)pd)->users++;
	TAILQ_INSERT_TAIL(&fake_now->qps, q, all);
	fake_now->pub.qps++;
	return &q->qp;
}

/* A transition and exactly the attributes that it takes. */
static const struct {
	enum ibv_qp_state from, to;
	int ud, uc, rc;
} moves[] = {
	{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
	 IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
	{IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
	 IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		 IBV_QP_MIN_RNR_TIMER},
	{IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_SQ_PSN,
	 IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC},
};

static bool move_allowed(const struct fake_qp *q, enum ibv_qp_state to, int mask)
{
	size_t i;

	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
		return mask == IBV_QP_STATE;
	for (i = 0; i < sizeof(moves) / sizeof(moves[0]); i++)
		if (moves[i].from == q->qp.state && moves[i].to == to)
			return mask == (IBV_QP_STATE | (q->qp.qp_type == IBV_QPT_UD   ? moves[i].ud
							: q->qp.qp_type == IBV_QPT_UC ? moves[i].uc
										      : moves[i].rc));
	return false;
}

static void queues_drop(struct fake_qp *q)
{
	struct fake_wr *w;

	while ((w = TAILQ_FIRST(&q->sq))) {
		TAILQ_REMOVE(&q->sq, w, all);
		fake_wr_free(w);
	}
	q->rq.n = 0;
	q->sq_used = q->unsignalled = 0;
}

static int fake_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct fake_qp *q = (struct fake_qp *)qp;

	BEGIN("modify_qp");
	if (!(mask & IBV_QP_STATE) || !move_allowed(q, attr->qp_state, mask)) {
		fake_violation("modify_qp: from %d to %d with mask %x", qp->state, attr->qp_state, mask);
		return EINVAL;
	}
	if (mask & IBV_QP_PORT)
		q->attr.port_num = attr->port_num;
	if (mask & IBV_QP_QKEY)
		q->attr.qkey = attr->qkey;
	if (mask & IBV_QP_ACCESS_FLAGS)
		q->attr.qp_access_flags = attr->qp_access_flags;
	if (mask & IBV_QP_AV)
		q->attr.ah_attr = attr->ah_attr;
	if (mask & IBV_QP_PATH_MTU)
		q->attr.path_mtu = attr->path_mtu;
	if (mask & IBV_QP_DEST_QPN)
		q->attr.dest_qp_num = attr->dest_qp_num;
	if (attr->qp_state == IBV_QPS_ERR) {
		fake_qp_error(q);
		return 0;
	}
	if (attr->qp_state == IBV_QPS_RESET) {
		queues_drop(q);
		q->wedged = false;
	}
	qp->state = attr->qp_state;
	return 0;
}

static void qp_end(struct fake_qp *q)
{
	queues_drop(q);
	TAILQ_REMOVE(&fake_now->qps, q, all);
	((struct fake_cq *)q->qp.send_cq)->users--;
	((struct fake_cq *)q->qp.recv_cq)->users--;
	if (q->qp.srq)
		((struct fake_srq *)q->qp.srq)->users--;
	((struct fake_pd *)q->qp.pd)->users--;
	fake_now->pub.qps--;
	free(q->rq.wr);
	free(q);
}

static int fake_destroy_qp(struct ibv_qp *qp)
{
	struct fake_mw *w;

	BEGIN("destroy_qp");
	/* Soft-RoCE waits for that. */
	TAILQ_FOREACH(w, &fake_now->mws, all)
		if (w->mr && w->mw.type == IBV_MW_TYPE_2 && w->qpn == qp->qp_num)
			fake_violation("destroy_qp: a window is bound through it");
	qp_end((struct fake_qp *)qp);
	return 0;
}

static struct ibv_ah *fake_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct fake_ah *a;

	BEGIN_NULL("create_ah");
	if (!attr->is_global && !attr->dlid) {
		errno = EINVAL;
		return NULL;
	}
	a = calloc(1, sizeof(*a));
	a->attr = *attr;
	a->ah.context = pd->context;
	a->ah.pd = pd;
	((struct fake_pd *)pd)->users++;
	fake_now->pub.ahs++;
	return &a->ah;
}

static int fake_destroy_ah(struct ibv_ah *ah)
{
	struct fake_ah *a = (struct fake_ah *)ah;

	BEGIN("destroy_ah");
	if (a->users)
		fake_violation("destroy_ah: %d sends use it", a->users);
	((struct fake_pd *)ah->pd)->users--;
	fake_now->pub.ahs--;
	free(a);
	return 0;
}

static int fake_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	if (call_begin("poll_cq"))
		return -1;
	return fake_cq_poll((struct fake_cq *)cq, n, wc);
}

static int fake_req_notify_cq(struct ibv_cq *cq, int solicited)
{
	BEGIN("req_notify_cq");
	(void)solicited;
	((struct fake_cq *)cq)->armed = true;
	return 0;
}

static int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int err = call_begin("post_send");

	*bad = wr;
	return err ? err : fake_send((struct fake_qp *)qp, wr, bad);
}

/* As libraries do it: a request like others, whose key is told before the NIC has seen it. */
static int fake_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr wr = {.wr_id = bind->wr_id,
				 .opcode = IBV_WR_BIND_MW,
				 .send_flags = bind->send_flags,
				 .bind_mw = {.mw = mw, .rkey = ibv_inc_rkey(mw->rkey), .bind_info = bind->bind_info}},
			   *bad;
	int err;

	BEGIN("bind_mw");
	if (mw->type != IBV_MW_TYPE_1 || !bind->bind_info.mr)
		return EINVAL;
	err = fake_send((struct fake_qp *)qp, &wr, &bad);
	if (!err)
		mw->rkey = wr.bind_mw.rkey;
	return err;
}

static int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_qp *q = (struct fake_qp *)qp;
	int err = call_begin("post_recv");

	*bad = wr;
	if (err)
		return err;
	if (qp->srq || qp->state == IBV_QPS_RESET) {
		fake_violation("post_recv: in state %d", qp->state);
		return EINVAL;
	}
	err = fake_recv(&q->rq, wr, bad);
	if (!err && qp->state == IBV_QPS_ERR)
		fake_qp_error(q);
	return err;
}

static int fake_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int err = call_begin("post_srq_recv");

	*bad = wr;
	return err ? err : fake_recv(&((struct fake_srq *)srq)->rq, wr, bad);
}

static const struct uccl_verbs table = {
	.get_device_list = fake_get_device_list,
	.free_device_list = fake_free_device_list,
	.open_device = fake_open_device,
	.close_device = fake_close_device,
	.query_device = fake_query_device,
	.query_port = fake_query_port,
	.query_gid = fake_query_gid,
	.get_async_event = fake_get_async_event,
	.ack_async_event = fake_ack_async_event,
	.alloc_pd = fake_alloc_pd,
	.dealloc_pd = fake_dealloc_pd,
	.reg_mr = fake_reg_mr,
	.reg_mr_iova = fake_reg_mr_iova,
	.reg_dmabuf_mr = fake_reg_dmabuf_mr,
	.dereg_mr = fake_dereg_mr,
	.alloc_mw = fake_alloc_mw,
	.dealloc_mw = fake_dealloc_mw,
	.bind_mw = fake_bind_mw,
	.create_comp_channel = fake_create_comp_channel,
	.destroy_comp_channel = fake_destroy_comp_channel,
	.create_cq = fake_create_cq,
	.destroy_cq = fake_destroy_cq,
	.get_cq_event = fake_get_cq_event,
	.ack_cq_events = fake_ack_cq_events,
	.create_srq = fake_create_srq,
	.destroy_srq = fake_destroy_srq,
	.create_qp = fake_create_qp,
	.modify_qp = fake_modify_qp,
	.destroy_qp = fake_destroy_qp,
	.create_ah = fake_create_ah,
	.destroy_ah = fake_destroy_ah,
	.poll_cq = fake_poll_cq,
	.req_notify_cq = fake_req_notify_cq,
	.post_send = fake_post_send,
	.post_recv = fake_post_recv,
	.post_srq_recv = fake_post_srq_recv,
};

/* For tests. */

struct fake_verbs *fake_verbs_new(void)
{
	struct fake *f = calloc(1, sizeof(*f));

	TAILQ_INIT(&f->contexts);
	TAILQ_INIT(&f->mrs);
	TAILQ_INIT(&f->mws);
	TAILQ_INIT(&f->qps);
	TAILQ_INIT(&f->held);
	TAILQ_INIT(&f->events);
	f->next_key = 0x1000;
	fake_now = f;
	return &f->pub;
}

const struct uccl_verbs *fake_verbs_lib(void)
{
	return &table;
}

int fake_verbs_live(const struct fake_verbs *p)
{
	const struct fake *f = (const struct fake *)p;

	return p->contexts + p->pds + p->mrs + p->mws + p->channels + p->cqs + p->srqs + p->qps + p->ahs + f->lists +
	       f->unacked;
}

void fake_verbs_free(struct fake_verbs *p)
{
	struct fake *f = (struct fake *)p;
	struct fake_message *m;
	struct fake_event *e;
	int i;

	while ((m = TAILQ_FIRST(&f->held))) {
		TAILQ_REMOVE(&f->held, m, all);
		free(m);
	}
	while ((e = TAILQ_FIRST(&f->events))) {
		TAILQ_REMOVE(&f->events, e, all);
		free(e);
	}
	for (i = 0; i < f->ndevs; i++)
		free(f->dev[i]);
	free(f);
	fake_now = NULL;
}

int fake_verbs_end(struct fake_verbs *f)
{
	bool clean = !fake_verbs_live(f) && !f->violations;

	if (!clean)
		fprintf(stderr, "%d objects left, %d violations: %s\n", fake_verbs_live(f), (int)f->violations,
			f->violation);
	fake_verbs_free(f);
	return clean ? 0 : -1;
}

static void gid_set(struct fake_port *p, uint32_t type, const uint8_t raw[16])
{
	struct ibv_gid_entry *g = &p->gid[p->ngids];

	memcpy(g->gid.raw, raw, 16);
	g->gid_index = (uint32_t)p->ngids++;
	g->gid_type = type;
	g->ndev_ifindex = 1;
}

struct fake_dev *fake_verbs_add(struct fake_verbs *p, const char *name, uint8_t host, const char *sysfs)
{
	struct fake *f = (struct fake *)p;
	uint8_t local[16] = {0xfe, 0x80, [11] = 0xff, [12] = 0xfe, [15] = host};
	uint8_t v4[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = host};
	struct fake_dev *d = calloc(1, sizeof(*d));

	d->dev.node_type = IBV_NODE_CA;
	d->dev.transport_type = IBV_TRANSPORT_IB;
	snprintf(d->dev.name, sizeof(d->dev.name), "%s", name);
	snprintf(d->dev.ibdev_path, sizeof(d->dev.ibdev_path), "%s", sysfs ? sysfs : "/nonexistent");
	d->attr.vendor_id = 0x2c9;
	d->attr.vendor_part_id = 4129;
	d->attr.max_qp = 1000;
	d->attr.max_qp_wr = 4096;
	d->attr.max_sge = 30;
	d->attr.max_cq = 1000;
	d->attr.max_cqe = 65536;
	d->attr.max_mr = 1000;
	d->attr.max_srq = 100;
	d->attr.max_srq_wr = 4096;
	d->attr.phys_port_cnt = 1;
	d->next_qpn = FIRST_QPN + ((uint32_t)f->ndevs << 16); /* unique, so that tests need no device */
	d->port[0].state = IBV_PORT_ACTIVE;
	d->port[0].link_layer = IBV_LINK_LAYER_ETHERNET;
	d->port[0].mtu = IBV_MTU_4096;
	d->port[0].speed = 32;
	d->port[0].width = 2;
	gid_set(&d->port[0], IBV_GID_TYPE_ROCE_V1, local);
	gid_set(&d->port[0], IBV_GID_TYPE_ROCE_V2, local);
	gid_set(&d->port[0], IBV_GID_TYPE_ROCE_V1, v4);
	gid_set(&d->port[0], IBV_GID_TYPE_ROCE_V2, v4);
	f->dev[f->ndevs++] = d;
	return d;
}

void fake_verbs_local(struct fake_dev *d, uint8_t host)
{
	for (int g = 0; g < d->port[0].ngids; g++) {
		uint8_t *raw = d->port[0].gid[g].gid.raw;

		if (raw[10] == 0xff && raw[11] == 0xff)
			memcpy(raw + 12, (const uint8_t[]){127, 0, 0, host}, 4);
	}
}

void fake_verbs_windows(struct fake_dev *d)
{
	d->attr.device_cap_flags |= IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	d->attr.max_mw = 1000;
}

void fake_verbs_infiniband(struct fake_dev *d, uint16_t lid)
{
	uint8_t raw[16] = {0xfe, 0x80, [8] = 0x02, [14] = (uint8_t)(lid >> 8), [15] = (uint8_t)lid};
	struct fake_port *p = &d->port[0];

	p->link_layer = IBV_LINK_LAYER_INFINIBAND;
	p->lid = lid;
	p->ngids = 0;
	gid_set(p, IBV_GID_TYPE_IB, raw);
	p->gid[0].ndev_ifindex = 0;
}

void fake_verbs_fail(struct fake_verbs *p, const char *call, unsigned int n, int err)
{
	struct fake_call *c = call_find((struct fake *)p, call);

	c->left = n;
	c->err = err;
	c->once = n;
}

int fake_no_dmabuf(void *arg, const void *p, uint64_t len, uint64_t *off)
{
	(void)arg;
	(void)p;
	(void)len;
	(void)off;
	return -FI_ENOSYS;
}

unsigned int fake_verbs_calls(struct fake_verbs *p, const char *call)
{
	return call_find((struct fake *)p, call)->count;
}

bool fake_verbs_exists(struct fake_verbs *p, uint32_t qpn)
{
	(void)p;
	return fake_qp_find(NULL, qpn);
}

bool fake_verbs_break(struct fake_verbs *p, uint32_t qpn)
{
	struct fake_qp *q = fake_qp_find(NULL, qpn);

	(void)p;
	if (q)
		fake_qp_error(q);
	return q;
}

static void event_add(struct fake_context *c, const struct ibv_async_event *event)
{
	struct fake_event *e = calloc(1, sizeof(*e));
	uint64_t one = 1;

	e->ctx = c;
	e->event = *event;
	TAILQ_INSERT_TAIL(&fake_now->events, e, all);
	if (write(c->ctx.async_fd, &one, sizeof(one)) < 0)
		fake_violation("event lost");
}

void fake_verbs_event(struct fake_verbs *p, enum ibv_event_type type, uint32_t qpn)
{
	struct fake *f = (struct fake *)p;
	struct fake_qp *q = fake_qp_find(NULL, qpn);
	struct ibv_async_event event = {.event_type = type};
	struct fake_context *c;

	if (q)
		event.element.qp = &q->qp;
	TAILQ_FOREACH(c, &f->contexts, all)
		if (!q || q->qp.context == &c->ctx)
			event_add(c, &event);
}

void fake_verbs_queue_event(struct fake_verbs *p, enum ibv_event_type type, void *queue)
{
	struct ibv_async_event event = {.event_type = type};
	struct ibv_context *ctx;

	(void)p;
	if (type == IBV_EVENT_CQ_ERR) {
		event.element.cq = queue;
		ctx = event.element.cq->context;
		((struct fake_cq *)queue)->broken = true;
	} else {
		event.element.srq = queue;
		ctx = event.element.srq->context;
	}
	event_add((struct fake_context *)ctx, &event);
}

void fake_verbs_detach(struct fake_verbs *p)
{
	struct fake *f = (struct fake *)p;
	struct fake_context *c;
	uint64_t one = 1;

	TAILQ_FOREACH(c, &f->contexts, all) {
		c->detached = true;
		if (write(c->ctx.async_fd, &one, sizeof(one)) < 0)
			fake_violation("event lost");
	}
}

#endif
