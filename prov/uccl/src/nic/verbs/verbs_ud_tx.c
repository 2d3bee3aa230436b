/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sending on UD queue pairs. A packet is copied into registered memory, payload included, so that the caller has it
 * back at once, unless only the NIC can read it; what goes to one queue pair in a call is one chain and one doorbell. A
 * queue pair that breaks takes along what it had, and is made anew.
 */
#include "nic/verbs/ud_state.h"

#ifdef HAVE_VERBS

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "base/log.h"

#define REAP_BATCH 32
#define RETRY_NS (100 * UCCL_NS_PER_MS)

static bool is_control(const struct ud *u, const struct uccl_verbs_sq *q)
{
	return q - u->qp >= UD_QPS;
}

/* Queue pairs. */

int uccl_ud_qp_make(struct ud *u, struct uccl_verbs_sq *q)
{
	struct ibv_qp_init_attr init = {.send_cq = u->tx_cq, .recv_cq = u->rx_cq, .qp_type = IBV_QPT_UD};
	int err = -FI_ENOMEM;

	if (uccl_verbs_sq_init(q))
		goto fail;
	init.cap.max_send_wr = (uint32_t)uccl_min(UCCL_VERBS_SQ_DEPTH, u->port.max_qp_wr);
	init.cap.max_send_sge = ud_gathers(u) ? UD_PARTS : 1;
	init.cap.max_recv_wr = 1;
	init.cap.max_recv_sge = 1;
	q->qp = u->lib->create_qp(u->pd, &init);
	err = q->qp ? 0 : uccl_verbs_error();
	if (err)
		goto fail;
	/* Nobody needs to send to it, and nothing is posted. */
	err = uccl_ud_qp_start(u, q->qp, true, ud_qkey(&u->self));
	if (!err)
		return 0;
	u->lib->destroy_qp(q->qp);
	q->qp = NULL;
fail:
	q->retry_at = u->clock() + RETRY_NS;
	UCCL_LOG(UCCL_LOG_INFO, "%s: cannot make queue pair %d for sending: %s", u->port.name, (int)(q - u->qp),
		 strerror(-err));
	return err;
}

static void qp_renew(struct ud *u, struct uccl_verbs_sq *q)
{
	u->stats.qp_renewed++;
	uccl_verbs_sq_end(u->lib, q, &u->tx);
	uccl_ud_qp_make(u, q);
}

bool uccl_ud_qp_broke(struct ud *u, const struct ibv_qp *qp)
{
	int i;

	for (i = 0; i < UD_QPS + UD_CONTROL_QPS; i++) {
		if (u->qp[i].qp != qp)
			continue;
		qp_renew(u, &u->qp[i]);
		return true;
	}
	return false;
}

int uccl_ud_tx_renew(struct ud *u)
{
	int i, err;

	for (i = 0; i < UD_QPS + UD_CONTROL_QPS; i++)
		uccl_verbs_sq_end(u->lib, &u->qp[i], &u->tx);
	err = -u->lib->destroy_cq(u->tx_cq);
	if (!err) {
		u->tx_cq = u->lib->create_cq(u->ctx, (int)u->tx.count, NULL, NULL, 0);
		err = u->tx_cq ? 0 : uccl_verbs_error();
	}
	if (err)
		return err;
	u->stats.cq_renewed++;
	err = uccl_ud_qp_make(u, &u->qp[0]);
	return err ? err : uccl_ud_qp_make(u, &u->qp[UD_QPS]);
}

/* The queue pair of a label, made if need be; another if it cannot be. NULL: there is none at all now. */
static struct uccl_verbs_sq *qp_of(struct ud *u, bool control, uint16_t label)
{
	uint32_t n = control ? UD_CONTROL_QPS : u->qps, i;
	struct uccl_verbs_sq *all = control ? &u->qp[UD_QPS] : u->qp, *q;

	for (i = 0; i < n; i++) {
		q = &all[(label + i) % n];
		if (q->qp || (u->clock() >= q->retry_at && !uccl_ud_qp_make(u, q)))
			return q;
	}
	return NULL;
}

/* Memory of devices. */

int uccl_ud_source(struct uccl_nic *nic, const void *buf, uint64_t len, const struct uccl_nic_device *device,
		   void **out)
{
	struct ud *u = ud_of(nic);
	struct uccl_verbs_source *s;
	int rc;

	if (!ud_gathers(u))
		return -FI_EOPNOTSUPP;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -FI_ENOMEM;
	rc = uccl_devcache_get(u->gpu_sources.cache, buf, len, device, &s->packets);
	if (rc)
		free(s);
	else
		*out = s;
	return rc;
}

void uccl_ud_source_put(struct uccl_nic *nic, void *source)
{
	struct uccl_verbs_source *s = source;

	uccl_devcache_put(ud_of(nic)->gpu_sources.cache, s->packets);
	free(s);
}

/* Completions. */

static void error_take(struct ud *u, struct uccl_verbs_sq *q, const struct ibv_wc *wc)
{
	const struct uccl_verbs_sent *sent = uccl_verbs_sq_sent(q, wc);

	u->stats.tx_errors++;
	if (!(u->stats.tx_errors & (u->stats.tx_errors - 1)))
		UCCL_LOG(UCCL_LOG_INFO, "%s: a send failed: status %d, vendor error %u (%llu times so far)",
			 u->port.name, wc->status, wc->vendor_err, (unsigned long long)u->stats.tx_errors);
	/* The one that broke it: its place may be to blame, and must not break the next queue pair at once. */
	if (wc->status != IBV_WC_WR_FLUSH_ERR && sent)
		uccl_verbs_ah_suspect(u->ahs, sent->ah);
	qp_renew(u, q);
}

static void completion_take(struct ud *u, const struct ibv_wc *wc)
{
	uint16_t which = uccl_verbs_sq_which(wc->wr_id);
	struct uccl_verbs_sq *q;

	if (which >= UD_QPS + UD_CONTROL_QPS)
		return;
	q = &u->qp[which];
	if (!uccl_verbs_sq_known(q, wc))
		return;
	if (wc->status != IBV_WC_SUCCESS)
		error_take(u, q, wc);
	else
		uccl_verbs_sq_done(q, &u->tx, wc);
}

void uccl_ud_reap(struct ud *u)
{
	struct ibv_wc wc[REAP_BATCH];
	int i, n;

	do {
		n = u->lib->poll_cq(u->tx_cq, REAP_BATCH, wc);
		for (i = 0; i < n; i++)
			completion_take(u, &wc[i]);
	} while (n == REAP_BATCH);
}

/* Packets. */

static bool place_valid(const struct ud *u, const struct uccl_nic_addr *to)
{
	return to->pad && (to->pad >= UD_ROCE_PAD) != u->port.infiniband && (to->scope & UD_QPN_MASK) > 1;
}

static uint32_t packet_copy(uint8_t *at, const struct uccl_tx *t)
{
	uint8_t *p = at;

	memcpy(p, t->hdr, t->hdr_len);
	p += t->hdr_len;
	if (t->payload_len)
		memcpy(p, t->payload, t->payload_len);
	p += t->payload_len;
	memcpy(p, t->tail, t->tail_len);
	return (uint32_t)(p - at) + t->tail_len;
}

/* Payload that only the NIC can read stays where it is; it is held until the NIC has. */
static void packet_gather(struct ibv_send_wr *wr, struct ibv_sge *sge, uint8_t *at, const struct uccl_tx *t,
			  struct uccl_verbs_sent *sent)
{
	uint32_t lkey = sge->lkey;

	sent->gpu = ((const struct uccl_verbs_source *)t->mr)->packets;
	uccl_devcache_hold(sent->gpu);
	memcpy(at, t->hdr, t->hdr_len);
	memcpy(at + t->hdr_len, t->tail, t->tail_len);
	sge[0].length = t->hdr_len;
	sge[1] = (struct ibv_sge){.addr = (uintptr_t)t->payload, .length = t->payload_len,
				  .lkey = uccl_verbs_source_key(sent->gpu)};
	sge[2] = (struct ibv_sge){.addr = (uintptr_t)at + t->hdr_len, .length = t->tail_len, .lkey = lkey};
	wr->num_sge = t->tail_len ? UD_PARTS : UD_PARTS - 1;
}

/* A number of its own for each label, of which the NIC makes a UDP source port of its own. */
static uint32_t flow_of(const struct ud *u, uint16_t label)
{
	/* An odd step visits all 2^14 ports before the first again; 0 would leave the choice to the NIC. */
	uint32_t flow = (u->flow_base + label % u->flows * 2533u) & 0x3fff;

	return flow ? flow : 0x4000 | 0x1;
}

/* If nobody answers many of them the host there is asked whether anybody listens (verbs_ud_event.c). */
static void hello_note(struct ud *u, const struct uccl_tx *t)
{
	struct ud_hello *h = &u->hello[u->nhellos];

	if (!u->live || u->nhellos == UD_ASKS)
		return;
	h->to = *t->to;
	memcpy(h->hdr, t->hdr, sizeof(h->hdr));
	u->nhellos++;
}

/* Make request i of this call. 1: made; 0: there is no room now; -1: the packet is lost. */
static int packet_add(struct ud *u, const struct uccl_tx *t, int i)
{
	uint32_t len = (uint32_t)t->hdr_len + t->payload_len + t->tail_len;
	struct uccl_verbs_sent sent = {.piece = 0};
	struct ibv_send_wr *wr = &u->wr[i];
	struct ibv_sge *sge = u->sge[i];
	struct uccl_verbs_sq *q;
	uint8_t *at;
	int err;

	if (t->kind != UCCL_TX_PACKET || len > u->nic.caps.mtu || !place_valid(u, t->to) ||
	    (t->queue && (t->queue < UD_QPN_LEAST || t->queue > UD_QPN_MASK)))
		return -1;
	q = qp_of(u, t->control, t->label);
	if (!q)
		return -1;
	if (!u->tx.nunused || !uccl_verbs_sq_room(q, u->port.max_qp_wr))
		return 0;
	err = uccl_verbs_ah_get(u->ahs, t->to, &u->mark[t->control], u->flows > 1 ? flow_of(u, t->label) : 0, &sent.ah);
	if (err)
		return err == -FI_EAGAIN ? 0 : -1;
	sent.piece = u->tx.unused[--u->tx.nunused];
	at = uccl_verbs_piece(&u->tx, sent.piece);
	sge->addr = (uintptr_t)at;
	sge->lkey = u->tx.mr->lkey;
	wr->wr_id = uccl_verbs_sq_name(q, (uint16_t)(q - u->qp));
	wr->sg_list = sge;
	wr->num_sge = 1;
	if (t->mr && t->payload_len)
		packet_gather(wr, sge, at, t, &sent);
	else
		sge->length = packet_copy(at, t);
	wr->opcode = IBV_WR_SEND;
	wr->wr.ud.ah = sent.ah->ah;
	wr->wr.ud.remote_qpn = t->queue ? t->queue : t->to->scope & UD_QPN_MASK;
	wr->wr.ud.remote_qkey = ud_qkey(t->to);
	if (uccl_verbs_sq_add(q, &u->tx, wr, sent, q->unsignalled + 1 >= u->signal_every || is_control(u, q)))
		u->chain[u->nchains++] = q;
	if (t->hello)
		hello_note(u, t);
	return 1;
}

static void chains_post(struct ud *u)
{
	int i, err;

	for (i = 0; i < u->nchains; i++) {
		struct uccl_verbs_sq *q = u->chain[i];

		err = uccl_verbs_sq_post(u->lib, q, &u->tx, &u->stats.tx_lost);
		u->stats.doorbells++;
		if (!err)
			continue;
		UCCL_LOG(UCCL_LOG_INFO, "%s: the NIC refuses to send: %s", u->port.name, strerror(err));
		/* The kernel binds an open device to who opened it: a process that is somebody else now has none. */
		if (err == EACCES || err == EPERM)
			uccl_ud_gone(u, "the kernel refuses access, because this process changed its user or rights");
		else if (err != ENOMEM)
			qp_renew(u, q);
	}
	u->nchains = 0;
}

int uccl_ud_tx(struct uccl_nic *nic, struct uccl_tx *v, int n)
{
	struct ud *u = ud_of(nic);
	int i, did = 1;

	/* A send would break its queue pair. */
	if (u->link != UCCL_LINK_UP) {
		u->stats.tx_lost += (uint64_t)n;
		return n;
	}
	uccl_ud_reap(u);
	for (i = 0; i < n && i < UD_CHAIN && did; i += did != 0) {
		did = packet_add(u, &v[i], i);
		u->stats.tx_lost += did < 0;
	}
	chains_post(u);
	return i;
}

#endif
