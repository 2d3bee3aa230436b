/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The queues for direct writes that all endpoints of a process share on one NIC. Writes take receives without a buffer
 * off one shared queue. There are as many as peers were granted, and as many again for writes that come late, are
 * refused, or were granted before another endpoint took its share.
 */
#include "nic/verbs/uc_state.h"

#ifdef HAVE_VERBS

#include <string.h>

#include <rdma/fi_errno.h>

#include "base/log.h"

void uccl_uc_queues_post(struct uc_dev *d)
{
	struct ibv_recv_wr wr[UC_CHAIN], *bad;
	struct uc_queues *q = &d->queues;
	uint32_t n, i;
	int err;

	while (q->srq_due) {
		n = (uint32_t)uccl_min(q->srq_due, UC_CHAIN);
		memset(wr, 0, n * sizeof(wr[0]));
		for (i = 0; i + 1 < n; i++)
			wr[i].next = &wr[i + 1];
		bad = wr;
		err = d->lib->post_srq_recv(q->srq, wr, &bad);
		q->srq_due -= err ? (uint32_t)(bad - wr) : n;
		if (!err)
			continue;
		UCCL_LOG(UCCL_LOG_INFO, "%s: the NIC refuses receives for direct writes: %s", d->port.name,
			 strerror(err));
		return;
	}
}

static int queues_make(struct uc_dev *d)
{
	struct uc_queues *q = &d->queues;
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = q->srq_depth, .max_sge = 1}};

	/* Neither overflows: there are no more sends than buffers, and what ended queue pairs left is read first. */
	q->tx_cq = d->lib->create_cq(d->ctx, (int)(2 * d->tx.slab.count), NULL, q->channel, 0);
	q->rx_cq = q->tx_cq ? d->lib->create_cq(d->ctx, (int)q->srq_depth, NULL, q->channel, 0) : NULL;
	q->srq = q->rx_cq ? d->lib->create_srq(d->pd, &attr) : NULL;
	if (!q->srq)
		return uccl_verbs_error();
	q->srq_due = q->srq_depth;
	uccl_uc_queues_post(d);
	return q->srq_due ? -FI_EIO : 0;
}

static void queues_end(struct uc_dev *d)
{
	struct uc_queues *q = &d->queues;

	if (q->srq)
		d->lib->destroy_srq(q->srq);
	if (q->rx_cq)
		d->lib->destroy_cq(q->rx_cq);
	if (q->tx_cq)
		d->lib->destroy_cq(q->tx_cq);
	q->srq = NULL;
	q->rx_cq = q->tx_cq = NULL;
	q->rx_armed = q->tx_armed = false;
}

int uccl_uc_queues_open(struct uc_dev *d, uint32_t depth)
{
	int err = uccl_verbs_channel_open(d->lib, d->ctx, &d->queues.channel);

	d->queues.srq_depth = depth;
	return err ? err : queues_make(d);
}

void uccl_uc_queues_close(struct uc_dev *d)
{
	queues_end(d);
	if (d->queues.channel)
		d->lib->destroy_comp_channel(d->queues.channel);
}

/* Their queue pairs end with them, and are made again together with the peers. Packets serve until then. */
bool uccl_uc_queues_renew(struct uc_dev *d)
{
	struct uc *w;

	uccl_uc_paths_end(d);
	queues_end(d);
	/* The receives went with the queue. */
	TAILQ_FOREACH(w, &d->endpoints, all)
		uccl_uc_ring_renew(w);
	if (queues_make(d))
		return false;
	d->queues.renewed++;
	return true;
}

void uccl_uc_queues_arm(struct uc_dev *d, bool ready)
{
	struct uc_queues *q = &d->queues;
	struct ibv_cq *cq;
	void *user;

	/* Each request of a queue yields one event. */
	for (int i = 0; i < 2 && ready && !d->lib->get_cq_event(q->channel, &cq, &user); i++) {
		d->lib->ack_cq_events(cq, 1);
		*(cq == q->rx_cq ? &q->rx_armed : &q->tx_armed) = false;
	}
	if (!q->rx_armed)
		q->rx_armed = !d->lib->req_notify_cq(q->rx_cq, 0);
	if (!q->tx_armed)
		q->tx_armed = !d->lib->req_notify_cq(q->tx_cq, 0);
}

#endif
