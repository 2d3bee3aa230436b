/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What moves between the fake's queue pairs: work requests, packets, completions. */
#include "fake_verbs.h"

#ifdef HAVE_VERBS

#include "fake_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GRH 40

struct fake_qp *fake_qp_find(const struct fake_dev *d, uint32_t qpn)
{
	struct fake_qp *q;

	TAILQ_FOREACH(q, &fake_now->qps, all)
		if ((!d || q->dev == d) && q->qp.qp_num == qpn)
			return q;
	return NULL;
}

/* Completions. */

static void cq_push(struct fake_cq *cq, const struct ibv_wc *wc, uint32_t retires)
{
	struct fake_channel *ch = (struct fake_channel *)cq->cq.channel;
	uint64_t one = 1;
	struct fake_qp *q;

	if (cq->n == cq->cq.cqe) {
		fake_violation("a completion queue of %d overflows", cq->cq.cqe);
		cq->overrun = true;
		TAILQ_FOREACH(q, &fake_now->qps, all)
			if (q->qp.send_cq == &cq->cq || q->qp.recv_cq == &cq->cq)
				q->qp.state = IBV_QPS_ERR;
		return;
	}
	cq->entry[(cq->head + cq->n++) % cq->cq.cqe] = (struct fake_cqe){.wc = *wc, .retires = retires};
	if (cq->armed && ch) {
		cq->armed = false;
		if (ch->n == FAKE_EVENTS)
			fake_violation("too many events that nobody reads");
		else
			ch->told[(ch->first + ch->n++) % FAKE_EVENTS] = cq;
		if (write(cq->cq.channel->fd, &one, sizeof(one)) < 0)
			fake_violation("event lost");
	}
}

int fake_cq_poll(struct fake_cq *cq, int n, struct ibv_wc *wc)
{
	struct fake_qp *q;
	int i;

	for (i = 0; i < n && cq->n && !cq->broken; i++) {
		struct fake_cqe *e = &cq->entry[cq->head];

		wc[i] = e->wc;
		q = fake_qp_find(NULL, e->wc.qp_num);
		if (q)
			q->sq_used -= e->retires < q->sq_used ? e->retires : q->sq_used;
		cq->head = (cq->head + 1) % cq->cq.cqe;
		cq->n--;
	}
	return i;
}

void fake_wr_free(struct fake_wr *w)
{
	if ((w->wr.opcode == IBV_WR_SEND || w->wr.opcode == IBV_WR_SEND_WITH_IMM) && w->wr.wr.ud.ah)
		((struct fake_ah *)w->wr.wr.ud.ah)->users--;
	free(w->inlined);
	free(w);
}

/* The first send of the queue is done. */
static void wr_done(struct fake_qp *q, enum ibv_wc_status status)
{
	struct fake_wr *w = TAILQ_FIRST(&q->sq);
	struct ibv_wc wc = {.wr_id = w->wr.wr_id, .status = status, .qp_num = q->qp.qp_num};
	bool tell = status != IBV_WC_SUCCESS || w->wr.send_flags & IBV_SEND_SIGNALED || q->init.sq_sig_all;

	wc.opcode = w->wr.opcode == IBV_WR_BIND_MW ? IBV_WC_BIND_MW : IBV_WC_RDMA_WRITE;
	if (w->wr.opcode == IBV_WR_SEND || w->wr.opcode == IBV_WR_SEND_WITH_IMM)
		wc.opcode = IBV_WC_SEND;
	TAILQ_REMOVE(&q->sq, w, all);
	fake_wr_free(w);
	q->unsignalled++;
	if (tell) {
		uint32_t retires = q->unsignalled;

		q->unsignalled = 0;
		cq_push((struct fake_cq *)q->qp.send_cq, &wc, retires);
	}
}

static bool rq_pop(struct fake_rq *rq, struct fake_rwr *out)
{
	if (!rq->n)
		return false;
	*out = rq->wr[rq->head];
	rq->head = (rq->head + 1) % rq->max;
	rq->n--;
	return true;
}

void fake_qp_error(struct fake_qp *q)
{
	struct fake_rwr r;

	q->qp.state = IBV_QPS_ERR;
	while (!TAILQ_EMPTY(&q->sq))
		wr_done(q, IBV_WC_WR_FLUSH_ERR);
	while (rq_pop(&q->rq, &r)) {
		struct ibv_wc wc = {.wr_id = r.wr_id, .status = IBV_WC_WR_FLUSH_ERR, .qp_num = q->qp.qp_num};

		cq_push((struct fake_cq *)q->qp.recv_cq, &wc, 0);
	}
}

/* Memory. */

static struct fake_mr *mr_find(const struct ibv_pd *pd, uint32_t key, uint64_t addr, uint64_t len, int access)
{
	struct fake_mr *m;

	TAILQ_FOREACH(m, &fake_now->mrs, all)
		if (m->mr.lkey == key)
			break;
	if (!m || m->mr.pd != pd || (m->access & access) != access || addr < m->iova || len > m->mr.length ||
	    addr - m->iova > m->mr.length - len)
		return NULL;
	return m;
}

/* Where a write goes: to a region, or through a window; NULL: nowhere. */
static uint8_t *remote_find(const struct fake_qp *q, const struct fake_message *m)
{
	uint64_t len = m->view.len;
	struct fake_mr *mr = mr_find(q->qp.pd, m->rkey, m->raddr, len, IBV_ACCESS_REMOTE_WRITE);
	struct fake_mw *w;

	TAILQ_FOREACH(w, &fake_now->mws, all) {
		if (w->rkey != m->rkey || w->mw.pd != q->qp.pd || !w->mr)
			continue;
		if (w->mw.type == IBV_MW_TYPE_2 && w->qpn != q->qp.qp_num)
			continue;
		if (q->dev->loose_windows ||
		    (m->raddr >= w->addr && len <= w->len && m->raddr - w->addr <= w->len - len))
			mr = mr_find(q->qp.pd, w->mr->mr.lkey, m->raddr, len, IBV_ACCESS_MW_BIND);
	}
	return mr ? (uint8_t *)mr->mr.addr + (m->raddr - mr->iova) : NULL;
}

static bool gather(const struct fake_qp *q, const struct fake_wr *w, uint8_t *out)
{
	uint64_t at = 0;
	int i;

	for (i = 0; i < w->wr.num_sge; i++) {
		const struct ibv_sge *s = &w->sge[i];
		const struct fake_mr *m = w->inlined ? NULL : mr_find(q->qp.pd, s->lkey, s->addr, s->length, 0);

		if (!w->inlined && !m) {
			fake_violation("a send of %u bytes is outside of its region", s->length);
			return false;
		}
		/* The region may know memory that the processor cannot touch at this address. */
		memcpy(out + at, m ? (const uint8_t *)m->mr.addr + (s->addr - m->iova) : w->inlined + at, s->length);
		at += s->length;
	}
	return true;
}

/* The first `skip` bytes of the memory stay what they are. */
static bool scatter(const struct fake_qp *q, const struct fake_rwr *r, const uint8_t *data, uint32_t len, uint32_t skip,
		    enum ibv_wc_status *status)
{
	int i;

	for (i = 0; i < r->nsge && len; i++) {
		uint32_t k = r->sge[i].length < len ? r->sge[i].length : len;
		const struct fake_mr *m =
			mr_find(q->qp.pd, r->sge[i].lkey, r->sge[i].addr, r->sge[i].length, IBV_ACCESS_LOCAL_WRITE);

		if (!m) {
			fake_violation("a receive is outside of its region");
			*status = IBV_WC_LOC_PROT_ERR;
			return false;
		}
		/* As of sends, the region may know memory that the processor cannot touch at this address. */
		if (k > skip)
			memcpy((uint8_t *)m->mr.addr + (r->sge[i].addr - m->iova) + skip, data + skip, k - skip);
		skip -= k < skip ? k : skip;
		data += k;
		len -= k;
	}
	*status = len ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
	return !len;
}

/* The wire. */

static bool port_has(const struct fake_port *p, const struct fake_message *m)
{
	int i;

	if (p->state != IBV_PORT_ACTIVE)
		return false;
	if (p->link_layer == IBV_LINK_LAYER_INFINIBAND)
		return m->dlid == p->lid;
	for (i = 0; i < p->ngids; i++)
		if (!memcmp(p->gid[i].gid.raw, m->dgid.raw, 16))
			return true;
	return false;
}

static struct fake_qp *target_find(const struct fake_message *m)
{
	struct fake_qp *q;
	int i, k;

	for (i = 0; i < fake_now->ndevs; i++) {
		for (k = 0; k < fake_now->dev[i]->attr.phys_port_cnt; k++) {
			if (!port_has(&fake_now->dev[i]->port[k], m))
				continue;
			q = fake_qp_find(fake_now->dev[i], m->view.dst_qpn);
			if (q && q->qp.qp_type == m->view.type &&
			    (q->qp.state == IBV_QPS_RTR || q->qp.state == IBV_QPS_RTS))
				return q;
		}
	}
	return NULL;
}

static uint16_t ip_sum(const uint8_t *p)
{
	uint32_t sum = 0;
	int i;

	for (i = 0; i < 20; i += 2)
		sum += (uint32_t)p[i] << 8 | p[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static void grh_make(uint8_t grh[GRH], const struct fake_qp *to, const struct fake_message *m)
{
	uint16_t sum;

	memset(grh, 0, GRH);
	if (!m->v4) {
		grh[0] = 0x60;
		memcpy(grh + 8, m->sgid.raw, 16);
		memcpy(grh + 24, m->dgid.raw, 16);
		return;
	}
	if (to->dev->grh_garbage)
		memset(grh, 0x66, 20);
	grh[20] = 0x45;
	grh[29] = 17;
	memcpy(grh + 32, m->sgid.raw + 12, 4);
	memcpy(grh + 36, m->dgid.raw + 12, 4);
	sum = ip_sum(grh + 20);
	grh[30] = (uint8_t)(sum >> 8);
	grh[31] = (uint8_t)sum;
}

static struct fake_rq *rq_of(struct fake_qp *q)
{
	return q->qp.srq ? &((struct fake_srq *)q->qp.srq)->rq : &q->rq;
}

static void recv_done(struct fake_qp *q, const struct fake_message *m, struct ibv_wc *wc)
{
	wc->qp_num = q->qp.qp_num;
	wc->src_qp = m->view.src_qpn;
	wc->slid = m->src_port->lid;
	wc->imm_data = m->imm;
	cq_push((struct fake_cq *)q->qp.recv_cq, wc, 0);
	if (wc->status != IBV_WC_SUCCESS)
		fake_qp_error(q);
}

static void deliver_ud(struct fake_qp *q, const struct fake_message *m)
{
	struct ibv_wc wc = {.opcode = IBV_WC_RECV, .byte_len = GRH + m->view.len};
	uint8_t *whole;
	struct fake_rwr r;

	if (q->attr.qkey != m->qkey) {
		fake_now->pub.stats.bad_qkey++;
		return;
	}
	if (!rq_pop(rq_of(q), &r)) {
		fake_now->pub.stats.no_receive++;
		return;
	}
	whole = calloc(1, GRH + m->view.len);
	if (m->global) {
		grh_make(whole, q, m);
		wc.wc_flags |= IBV_WC_GRH;
	}
	if (m->view.opcode == IBV_WR_SEND_WITH_IMM)
		wc.wc_flags |= IBV_WC_WITH_IMM;
	memcpy(whole + GRH, m->data, m->view.len);
	wc.wr_id = r.wr_id;
	scatter(q, &r, whole, GRH + m->view.len, m->global ? 0 : GRH, &wc.status);
	free(whole);
	fake_now->pub.stats.delivered++;
	recv_done(q, m, &wc);
}

static bool is_write(const struct fake_message *m)
{
	return m->view.opcode == IBV_WR_RDMA_WRITE || m->view.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* UC and RC. What an RC sender hears of it comes back. */
static enum ibv_wc_status deliver_connected(struct fake_qp *q, const struct fake_message *m)
{
	struct ibv_wc wc = {.opcode = is_write(m) ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV, .byte_len = m->view.len};
	bool takes = m->view.opcode != IBV_WR_RDMA_WRITE, short_of = m->whole < m->view.len;
	struct fake_rwr r = {0};
	uint8_t *to;

	if (q->wedged || (q->attr.dest_qp_num != m->view.src_qpn && q->qp.qp_type == IBV_QPT_RC)) {
		fake_now->pub.stats.no_target++;
		return IBV_WC_RETRY_EXC_ERR;
	}
	if (is_write(m)) {
		to = remote_find(q, m);
		if (!to) {
			fake_now->pub.stats.bad_rkey++;
			if (takes && q->qp.srq && rq_pop(rq_of(q), &r)) {
				wc.wr_id = r.wr_id;
				wc.status = IBV_WC_REM_ACCESS_ERR;
				wc.qp_num = q->qp.qp_num;
				cq_push((struct fake_cq *)q->qp.recv_cq, &wc, 0);
			}
			return IBV_WC_REM_ACCESS_ERR;
		}
		/* The NIC writes before anybody can look. */
		memcpy(to, m->data, m->whole);
	}
	if (short_of) {
		q->wedged = q->dev->wedges && m->whole;
		return IBV_WC_RETRY_EXC_ERR;
	}
	if (takes) {
		if (!rq_pop(rq_of(q), &r)) {
			fake_now->pub.stats.no_receive++;
			q->wedged = q->dev->wedges;
			return IBV_WC_RNR_RETRY_EXC_ERR;
		}
		wc.wr_id = r.wr_id;
		if (m->view.opcode != IBV_WR_SEND)
			wc.wc_flags |= IBV_WC_WITH_IMM;
		if (!is_write(m))
			scatter(q, &r, m->data, m->view.len, 0, &wc.status);
		fake_now->pub.stats.delivered++;
		recv_done(q, m, &wc);
	} else {
		fake_now->pub.stats.delivered++;
	}
	return IBV_WC_SUCCESS;
}

static enum ibv_wc_status deliver(const struct fake_message *m)
{
	struct fake_qp *q = target_find(m);

	if (!q) {
		fake_now->pub.stats.no_target++;
		return IBV_WC_RETRY_EXC_ERR;
	}
	if (m->view.type != IBV_QPT_UD)
		return deliver_connected(q, m);
	deliver_ud(q, m);
	return IBV_WC_SUCCESS;
}

/* Ask the hook about each packet, and deliver. Takes the message over. */
static enum ibv_wc_status wire_put(struct fake_message *m, uint32_t mtu)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	int copies = 1;
	bool hold = false;
	uint32_t i;

	fake_now->pub.stats.sent++;
	m->whole = m->view.len;
	m->view.count = m->view.len ? (m->view.len + mtu - 1) / mtu : 1;
	for (i = 0; i < m->view.count && fake_now->pub.hook; i++) {
		m->view.index = i;
		switch (fake_now->pub.hook(fake_now->pub.hook_arg, &m->view)) {
		case FAKE_DROP:
			if (m->view.type != IBV_QPT_RC && m->whole > i * mtu)
				m->whole = i * mtu;
			if (m->view.count == 1 && m->view.type != IBV_QPT_RC)
				copies = 0;
			break;
		case FAKE_DUP:
			copies = m->view.count == 1 && m->view.type != IBV_QPT_RC ? 2 : 1;
			break;
		case FAKE_HOLD:
			hold = m->view.type != IBV_QPT_RC;
			break;
		case FAKE_PASS:
			break;
		}
	}
	if (!copies || (m->view.len && !m->whole)) {
		fake_now->pub.stats.dropped++;
		free(m);
		return IBV_WC_SUCCESS;
	}
	if (hold) {
		TAILQ_INSERT_TAIL(&fake_now->held, m, all);
		return IBV_WC_SUCCESS;
	}
	for (i = 0; i < (uint32_t)copies; i++)
		status = deliver(m);
	if (m->view.type != IBV_QPT_RC)
		status = IBV_WC_SUCCESS; /* the sender only knows that it left */
	free(m);
	return status;
}

void fake_verbs_release(struct fake_verbs *f, bool backwards)
{
	struct fake_message *m;

	(void)f;
	while ((m = backwards ? TAILQ_LAST(&fake_now->held, fake_held) : TAILQ_FIRST(&fake_now->held))) {
		TAILQ_REMOVE(&fake_now->held, m, all);
		deliver(m);
		free(m);
	}
}

/* Sending. */

static void message_route(struct fake_message *m, const struct fake_qp *q, const struct ibv_ah_attr *a)
{
	const struct fake_port *p = &q->dev->port[a->port_num - 1];
	int i;

	m->src_port = &q->dev->port[a->port_num - 1];
	m->global = a->is_global;
	m->dgid = a->grh.dgid;
	m->dlid = a->dlid;
	m->view.flow_label = a->grh.flow_label;
	m->view.traffic_class = a->grh.traffic_class;
	m->view.sl = a->sl;
	for (i = 0; i < p->ngids; i++) {
		if (p->gid[i].gid_index != a->grh.sgid_index)
			continue;
		m->sgid = p->gid[i].gid;
		m->v4 = p->gid[i].gid_type == IBV_GID_TYPE_ROCE_V2 && p->gid[i].gid.raw[10] == 0xff &&
			p->gid[i].gid.raw[11] == 0xff && !p->gid[i].gid.raw[0];
	}
}

static uint32_t wr_len(const struct fake_wr *w)
{
	uint32_t len = 0;
	int i;

	for (i = 0; i < w->wr.num_sge; i++)
		len += w->sge[i].length;
	return len;
}

static bool bind_allowed(const struct fake_qp *q, const struct fake_mw *w, uint32_t key,
			 const struct ibv_mw_bind_info *b)
{
	const struct fake_mr *mr = (struct fake_mr *)b->mr;

	if (q->qp.qp_type == IBV_QPT_UD || w->mw.pd != q->qp.pd)
		return false;
	if (w->mw.type == IBV_MW_TYPE_2 && (w->mr || !b->length))
		return false;
	/* Who was told of a failure has to put the old key back. */
	if (w->mw.type == IBV_MW_TYPE_1 && key != ibv_inc_rkey(w->rkey) && !q->dev->leaky_windows)
		return false;
	return !b->length || (mr->access & IBV_ACCESS_MW_BIND && mr->access & IBV_ACCESS_LOCAL_WRITE &&
			      b->addr >= mr->iova && b->addr - mr->iova <= mr->mr.length &&
			      b->length <= mr->mr.length - (b->addr - mr->iova));
}

/* A window gets another place, and another key; one of length 0 has none. */
static enum ibv_wc_status bind_execute(const struct fake_qp *q, const struct fake_wr *wr)
{
	const struct ibv_mw_bind_info *b = &wr->wr.bind_mw.bind_info;
	struct fake_mw *w = (struct fake_mw *)wr->wr.bind_mw.mw;

	if (!bind_allowed(q, w, wr->wr.bind_mw.rkey, b))
		return IBV_WC_MW_BIND_ERR;
	if (q->dev->leaky_windows && !b->length)
		return IBV_WC_SUCCESS;
	fake_mw_unbind(w);
	w->rkey = (w->rkey & ~0xffu) | (wr->wr.bind_mw.rkey & 0xff);
	w->mr = b->length ? (struct fake_mr *)b->mr : NULL;
	w->addr = b->addr;
	w->len = b->length;
	w->qpn = q->qp.qp_num;
	if (w->mr)
		w->mr->windows++;
	return IBV_WC_SUCCESS;
}

static enum ibv_wc_status message_execute(struct fake_qp *q, struct fake_wr *w)
{
	uint32_t len = wr_len(w), mtu;
	struct fake_message *m = calloc(1, sizeof(*m) + len);
	const struct ibv_ah_attr *ah = &q->attr.ah_attr;
	enum ibv_wc_status status;

	m->view = (struct fake_packet){.type = q->qp.qp_type,
				       .opcode = w->wr.opcode,
				       .src_qpn = q->qp.qp_num,
				       .dst_qpn = q->attr.dest_qp_num,
				       .len = len};
	m->src = q->dev;
	m->imm = w->wr.imm_data;
	if (q->qp.qp_type == IBV_QPT_UD) {
		ah = &((struct fake_ah *)w->wr.wr.ud.ah)->attr;
		m->view.dst_qpn = w->wr.wr.ud.remote_qpn;
		m->qkey = w->wr.wr.ud.remote_qkey;
	} else {
		m->rkey = w->wr.wr.rdma.rkey;
		m->raddr = w->wr.wr.rdma.remote_addr;
	}
	message_route(m, q, ah);
	mtu = 128u << (q->qp.qp_type == IBV_QPT_UD ? m->src_port->mtu : q->attr.path_mtu);
	if (!gather(q, w, m->data)) {
		free(m);
		status = IBV_WC_LOC_PROT_ERR;
	} else if (q->qp.qp_type == IBV_QPT_UD && len > mtu) {
		fake_violation("a datagram of %u bytes", len);
		free(m);
		status = IBV_WC_LOC_LEN_ERR;
	} else {
		status = wire_put(m, mtu);
	}
	return status;
}

static void wr_execute(struct fake_qp *q, struct fake_wr *w)
{
	enum ibv_wc_status status = w->wr.opcode == IBV_WR_BIND_MW ? bind_execute(q, w) : message_execute(q, w);

	wr_done(q, status);
	if (status != IBV_WC_SUCCESS)
		fake_qp_error(q);
}

void fake_verbs_run(struct fake_verbs *f)
{
	struct fake_qp *q;

	(void)f;
	/* A send may end a queue pair's life in ERR, but never removes one. */
	TAILQ_FOREACH(q, &fake_now->qps, all)
		while (q->qp.state == IBV_QPS_RTS && !TAILQ_EMPTY(&q->sq))
			wr_execute(q, TAILQ_FIRST(&q->sq));
}

static struct fake_wr *wr_copy(const struct fake_qp *q, const struct ibv_send_wr *wr)
{
	struct fake_wr *w = calloc(1, sizeof(*w));
	uint32_t at = 0;
	int i;

	w->wr = *wr;
	if (wr->num_sge)
		memcpy(w->sge, wr->sg_list, (size_t)wr->num_sge * sizeof(w->sge[0]));
	w->wr.sg_list = w->sge;
	w->wr.next = NULL;
	if (q->qp.qp_type == IBV_QPT_UD)
		((struct fake_ah *)wr->wr.ud.ah)->users++;
	else if (wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM)
		w->wr.wr.ud.ah = NULL;
	if (wr->send_flags & IBV_SEND_INLINE) {
		w->inlined = malloc(wr_len(w) + 1);
		for (i = 0; i < wr->num_sge; i++) {
			memcpy(w->inlined + at, (const void *)(uintptr_t)w->sge[i].addr, w->sge[i].length);
			at += w->sge[i].length;
		}
	}
	return w;
}

int fake_send(struct fake_qp *q, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_wr *w;
	int taken;

	for (taken = 0; wr; wr = wr->next, taken++) {
		*bad = wr;
		if (fake_now->pub.refuse && taken == fake_now->pub.refuse)
			return ENOMEM;
		if (q->qp.state != IBV_QPS_RTS && q->qp.state != IBV_QPS_ERR) {
			fake_violation("post_send: in state %d", q->qp.state);
			return EINVAL;
		}
		if (q->sq_used >= q->init.cap.max_send_wr) {
			fake_violation("post_send: a queue of %u overflows", q->init.cap.max_send_wr);
			return ENOMEM;
		}
		if (wr->num_sge > (int)q->init.cap.max_send_sge || wr->num_sge > 4 ||
		    (q->qp.qp_type == IBV_QPT_UD && (!wr->wr.ud.ah || wr->wr.ud.ah->pd != q->qp.pd))) {
			fake_violation("post_send: a bad request");
			return EINVAL;
		}
		w = wr_copy(q, wr);
		q->sq_used++;
		TAILQ_INSERT_TAIL(&q->sq, w, all);
		if (q->qp.state == IBV_QPS_ERR)
			fake_qp_error(q);
		else if (!fake_now->pub.stall && !(fake_now->pub.silence && q->qp.qp_type == IBV_QPT_RC))
			wr_execute(q, w);
	}
	return 0;
}

int fake_recv(struct fake_rq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int taken;

	for (taken = 0; wr; wr = wr->next, taken++) {
		struct fake_rwr *r;

		*bad = wr;
		if (fake_now->pub.refuse && taken == fake_now->pub.refuse)
			return ENOMEM;
		if (rq->n == rq->max) {
			fake_violation("post_recv: a queue of %u overflows", rq->max);
			return ENOMEM;
		}
		if (wr->num_sge > 4)
			return EINVAL;
		if (!rq->wr)
			rq->wr = calloc(rq->max, sizeof(*rq->wr));
		r = &rq->wr[(rq->head + rq->n++) % rq->max];
		r->wr_id = wr->wr_id;
		r->nsge = wr->num_sge;
		if (wr->num_sge)
			memcpy(r->sge, wr->sg_list, (size_t)wr->num_sge * sizeof(r->sge[0]));
	}
	return 0;
}

#endif
