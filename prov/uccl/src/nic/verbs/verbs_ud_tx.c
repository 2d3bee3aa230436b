/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sends on UD queue pairs. A packet is copied into registered memory, so that the caller may reuse its own memory at
 * once. Payload that only the NIC can read is not copied. Packets of one call to one queue pair are one chain and one
 * doorbell. If a queue pair breaks, its packets are lost, and it is replaced.
 */
#include "nic/verbs/ud_state.h"

#ifdef HAVE_VERBS

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "base/log.h"

#define REAP_BATCH 32
#define RETRY_NS (100 * UCCL_NS_PER_MS)
#define TX_MIN 64
#define AH_MAX 4096
#define FLUSH_NS (50 * UCCL_NS_PER_MS) /* most that a close waits for the last packets to leave */

static bool is_control(const struct ud *u, const struct uccl_verbs_sq *q)
{
	return q - u->tx.qp >= UD_QPS;
}

/* Queue pairs. */

static int qp_make(struct ud *u, struct uccl_verbs_sq *q)
{
	struct ibv_qp_init_attr init = {.send_cq = u->tx.cq, .recv_cq = u->rx.cq, .qp_type = IBV_QPT_UD};
	int err;

	init.cap.max_send_wr = (uint32_t)uccl_min(UCCL_VERBS_SQ_DEPTH, u->port.max_qp_wr);
	init.cap.max_send_sge = ud_gathers(u) ? UD_SGES : 1;
	init.cap.max_recv_wr = 1;
	init.cap.max_recv_sge = 1;
	err = uccl_verbs_sq_create(u->lib, u->pd, q, &init, q->generation);
	/* It receives nothing, so any Q_Key will do. */
	if (!err)
		err = uccl_ud_qp_start(u, q->qp, true, ud_qkey(&u->self));
	if (!err)
		return 0;
	if (q->qp)
		uccl_verbs_sq_destroy(u->lib, q);
	u->tx.retry_at[q - u->tx.qp] = u->clock() + RETRY_NS;
	UCCL_LOG(UCCL_LOG_INFO, "%s: cannot make queue pair %d for sending: %s", u->port.name, (int)(q - u->tx.qp),
		 strerror(-err));
	return err;
}

static void qp_renew(struct ud *u, struct uccl_verbs_sq *q)
{
	u->tx.qp_renewed++;
	uccl_verbs_sq_end(u->lib, q, &u->tx.slab);
	qp_make(u, q);
}

bool uccl_ud_qp_broke(struct ud *u, const struct ibv_qp *qp)
{
	int i;

	for (i = 0; i < UD_QPS + UD_CONTROL_QPS; i++) {
		if (u->tx.qp[i].qp != qp)
			continue;
		qp_renew(u, &u->tx.qp[i]);
		return true;
	}
	return false;
}

int uccl_ud_tx_renew(struct ud *u)
{
	int i, err;

	for (i = 0; i < UD_QPS + UD_CONTROL_QPS; i++)
		uccl_verbs_sq_end(u->lib, &u->tx.qp[i], &u->tx.slab);
	err = -u->lib->destroy_cq(u->tx.cq);
	if (!err) {
		u->tx.cq = u->lib->create_cq(u->ctx, (int)u->tx.slab.count, NULL, NULL, 0);
		err = u->tx.cq ? 0 : uccl_verbs_error();
	}
	if (err)
		return err;
	u->tx.cq_renewed++;
	err = qp_make(u, &u->tx.qp[0]);
	return err ? err : qp_make(u, &u->tx.qp[UD_QPS]);
}

/* The queue pair of a label, made if necessary; another one if that fails. NULL: there is none at all. */
static struct uccl_verbs_sq *qp_of(struct ud *u, bool control, uint16_t label)
{
	uint32_t n = control ? UD_CONTROL_QPS : u->qps, i;
	struct uccl_verbs_sq *all = control ? &u->tx.qp[UD_QPS] : u->tx.qp, *q;

	for (i = 0; i < n; i++) {
		q = &all[(label + i) % n];
		if (q->qp || (u->clock() >= u->tx.retry_at[q - u->tx.qp] && !qp_make(u, q)))
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
	rc = uccl_mrcache_get(u->tx.gpu_sources.cache, buf, len, device, &s->packets);
	if (rc)
		free(s);
	else
		*out = s;
	return rc;
}

void uccl_ud_source_put(struct uccl_nic *nic, void *source)
{
	struct uccl_verbs_source *s = source;

	(void)nic;
	uccl_mrcache_put(s->packets);
	free(s);
}

/* Completions. */

static void error_take(struct ud *u, struct uccl_verbs_sq *q, const struct ibv_wc *wc)
{
	const struct uccl_verbs_sent *sent = uccl_verbs_sq_sent(q, wc);

	u->tx.errors++;
	if (!(u->tx.errors & (u->tx.errors - 1)))
		UCCL_LOG(UCCL_LOG_INFO, "%s: a send failed: status %d, vendor error %u (%llu times so far)",
			 u->port.name, wc->status, wc->vendor_err, (unsigned long long)u->tx.errors);
	/* The address may be to blame for the error: it must not break the next queue pair at once. */
	if (wc->status != IBV_WC_WR_FLUSH_ERR && sent)
		uccl_verbs_ah_suspect(u->tx.ahs, sent->ah);
	qp_renew(u, q);
}

static void completion_take(struct ud *u, const struct ibv_wc *wc)
{
	uint16_t which = uccl_verbs_sq_which(wc->wr_id);
	struct uccl_verbs_sq *q;

	if (which >= UD_QPS + UD_CONTROL_QPS)
		return;
	q = &u->tx.qp[which];
	if (!uccl_verbs_sq_known(q, wc))
		return;
	if (wc->status != IBV_WC_SUCCESS)
		error_take(u, q, wc);
	else
		uccl_verbs_sq_done(q, &u->tx.slab, wc);
}

void uccl_ud_reap(struct ud *u)
{
	struct ibv_wc wc[REAP_BATCH];
	int i, n;

	do {
		n = u->lib->poll_cq(u->tx.cq, REAP_BATCH, wc);
		for (i = 0; i < n; i++)
			completion_take(u, &wc[i]);
	} while (n == REAP_BATCH);
}

/*
 * Few requests ask for a completion, and one behind which nothing leaves may never be known to be done. A queue pair
 * that is destroyed reads nothing. PROTOCOL R364
 */
void uccl_ud_source_stop(struct uccl_nic *nic, void *source)
{
	const struct uccl_verbs_source *s = source;
	struct ud *u = ud_of(nic);

	uccl_ud_reap(u);
	for (int i = 0; i < UD_QPS + UD_CONTROL_QPS; i++)
		if (uccl_verbs_sq_reads(&u->tx.qp[i], s->packets))
			qp_renew(u, &u->tx.qp[i]);
}

/* Opening and closing. */

int uccl_ud_tx_open(struct ud *u)
{
	uint32_t handles = u->port.max_ah ? (uint32_t)uccl_min(u->port.max_ah, AH_MAX) : AH_MAX;
	struct ud_tx *t = &u->tx;
	struct uccl_verbs_slab_attr slab = {
		/* A little more than a power of two apart: else all headers would share one set of the cache. */
		.stride = ((u->nic.caps.mtu + 63) & ~63u) + 64,
		.count = (uint32_t)uccl_min(UD_TX_SLOTS, u->port.max_cqe),
		.least = TX_MIN,
		.nodes = u->nodes,
		.sends = true,
	};
	int err = uccl_verbs_slab_open(u->lib, u->pd, u->port.name, &t->slab, &slab);

	if (!err)
		err = uccl_verbs_gpu_keep_open(&t->gpu_sources, &u->gpus, u->lib, u->pd, u->port.name);
	if (err)
		return err;
	/* It does not overflow: there are never more sends than buffers. */
	t->cq = u->lib->create_cq(u->ctx, (int)t->slab.count, NULL, NULL, 0);
	if (!t->cq)
		return uccl_verbs_error();
	/*
	 * A send without a completion of its own keeps its buffer until a later one of its queue pair completes: such
	 * sends must never use up the buffers or the address handles.
	 */
	t->signal_every = (uint32_t)uccl_clamp(uccl_min(t->slab.count, handles) / 2 / UD_QPS, 1,
					       UCCL_VERBS_SQ_DEPTH / 4);
	err = uccl_verbs_ahs_open(u->lib, u->pd, &u->port, handles, u->clock, &t->ahs);
	/* One of each kind exists from the start, as the fallback for the others. */
	if (!err)
		err = qp_make(u, &t->qp[0]);
	return err ? err : qp_make(u, &t->qp[UD_QPS]);
}

/* The latest packets may be answers that peers wait for: let the NIC take them before its queues end. */
static void sends_flush(struct ud *u)
{
	uint64_t until = u->clock() + FLUSH_NS;
	bool left;
	int i;

	do {
		left = false;
		uccl_ud_reap(u);
		for (i = 0; i < UD_QPS + UD_CONTROL_QPS; i++)
			left |= uccl_verbs_sq_awaits(&u->tx.qp[i]);
		if (left)
			sched_yield();
	} while (left && u->clock() < until);
}

void uccl_ud_tx_close(struct ud *u)
{
	struct ud_tx *t = &u->tx;
	int i;

	if (t->cq && u->link.state == UCCL_LINK_UP)
		sends_flush(u);
	for (i = 0; i < UD_QPS + UD_CONTROL_QPS; i++) {
		uccl_verbs_sq_end(u->lib, &t->qp[i], &t->slab);
		uccl_verbs_sq_fini(&t->qp[i]);
	}
	if (t->ahs)
		uccl_verbs_ahs_close(t->ahs);
	if (t->cq)
		u->lib->destroy_cq(t->cq);
	uccl_verbs_gpu_keep_close(&t->gpu_sources);
	uccl_verbs_slab_close(u->lib, &t->slab);
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

/* Payload that only the NIC can read stays where it is; its registration is kept until the NIC has read it. */
static void packet_gather(struct ibv_send_wr *wr, struct ibv_sge *sge, uint8_t *at, const struct uccl_tx *t,
			  struct uccl_verbs_sent *sent)
{
	uint32_t lkey = sge->lkey;

	sent->source = ((const struct uccl_verbs_source *)t->mr)->packets;
	uccl_mrcache_hold(sent->source);
	memcpy(at, t->hdr, t->hdr_len);
	memcpy(at + t->hdr_len, t->tail, t->tail_len);
	sge[0].length = t->hdr_len;
	sge[1] = (struct ibv_sge){.addr = (uintptr_t)t->payload, .length = t->payload_len,
				  .lkey = uccl_verbs_source_key(sent->source)};
	sge[2] = (struct ibv_sge){.addr = (uintptr_t)at + t->hdr_len, .length = t->tail_len, .lkey = lkey};
	wr->num_sge = t->tail_len ? UD_SGES : UD_SGES - 1;
}

/* The flow label of an entropy label. The NIC makes a UDP source port of it. */
static uint32_t flow_of(const struct ud *u, uint16_t label)
{
	/* An odd step visits all 2^14 ports before one repeats; 0 would leave the choice to the NIC. */
	uint32_t flow = (u->flow_base + label % u->flows * 2533u) & 0x3fff;

	return flow ? flow : 0x4000 | 0x1;
}

/* Make request i of this call. 1: made; 0: there is no room now; -1: the packet is lost. */
static int packet_add(struct ud *u, const struct uccl_tx *t, int i)
{
	uint32_t len = (uint32_t)t->hdr_len + t->payload_len + t->tail_len;
	struct uccl_verbs_sent sent = {.buffer = 0};
	struct ibv_send_wr *wr = &u->tx.wr[i];
	struct ibv_sge *sge = u->tx.sge[i];
	bool control = uccl_tx_control_class(t);
	struct uccl_verbs_sq *q;
	uint8_t *at;
	int err;

	if (t->kind != UCCL_TX_PACKET || len > u->nic.caps.mtu || !place_valid(u, t->to) ||
	    (t->queue && (t->queue < UD_QPN_LEAST || t->queue > UD_QPN_MASK)))
		return -1;
	q = qp_of(u, control, t->label);
	if (!q)
		return -1;
	if (!u->tx.slab.nunused || !uccl_verbs_sq_room(q, u->port.max_qp_wr))
		return 0;
	err = uccl_verbs_ah_get(u->tx.ahs, t->to, &u->mark[control], u->flows > 1 ? flow_of(u, t->label) : 0,
				&sent.ah);
	if (err)
		return err == -FI_EAGAIN ? 0 : -1;
	sent.buffer = uccl_verbs_slab_take(&u->tx.slab);
	at = uccl_verbs_buffer(&u->tx.slab, sent.buffer);
	sge->addr = (uintptr_t)at;
	sge->lkey = u->tx.slab.mr->lkey;
	wr->wr_id = uccl_verbs_sq_name(q, (uint16_t)(q - u->tx.qp));
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
	if (uccl_verbs_sq_add(q, &u->tx.slab, wr, sent, q->unsignalled + 1 >= u->tx.signal_every || is_control(u, q)))
		u->tx.chain[u->tx.nchains++] = q;
	if (t->control == UCCL_TX_HELLO)
		uccl_ud_hello(u, t);
	return 1;
}

static void chains_post(struct ud *u)
{
	int i, err;

	for (i = 0; i < u->tx.nchains; i++) {
		struct uccl_verbs_sq *q = u->tx.chain[i];

		err = uccl_verbs_sq_post(u->lib, q, &u->tx.slab, &u->tx.lost);
		u->tx.doorbells++;
		if (!err)
			continue;
		UCCL_LOG(UCCL_LOG_INFO, "%s: the NIC refuses to send: %s", u->port.name, strerror(err));
		/* An open device works only as long as the process keeps the user and rights that it had then. */
		if (err == EACCES || err == EPERM)
			uccl_ud_link_set(u, UCCL_LINK_GONE,
					 "the kernel refuses access, because this process changed its user or rights");
		else if (err != ENOMEM)
			qp_renew(u, q);
	}
	u->tx.nchains = 0;
}

int uccl_ud_tx(struct uccl_nic *nic, struct uccl_tx *v, int n)
{
	struct ud *u = ud_of(nic);
	int i, did = 1;

	/* Without link a send would break its queue pair. */
	if (u->link.state != UCCL_LINK_UP) {
		u->tx.lost += (uint64_t)n;
		return n;
	}
	uccl_ud_reap(u);
	for (i = 0; i < n && i < UD_CHAIN && did; i += did != 0) {
		did = packet_add(u, &v[i], i);
		u->tx.lost += did < 0;
	}
	chains_post(u);
	return i;
}

#endif
