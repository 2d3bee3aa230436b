/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Receives writes. An endpoint that calls rx() reads the shared completion queues for all endpoints. */
#include "nic/verbs/uc_state.h"

#ifdef HAVE_VERBS

#include <arpa/inet.h>

#include "base/log.h"

#define EVENTS_EVERY 1024 /* calls of rx() between two reads of the NIC's events, on a busy endpoint */

/*
 * A write to a place that is closed completes in error. A UC queue pair still works after that; a RC one, or any queue
 * pair after another error, does not. An error ends no more than the queue pair.
 */
static void receive_failed(struct uc_dev *d, struct uc_path *p, const struct ibv_wc *wc)
{
	d->rx.errors++;
	if (!(d->rx.errors & (d->rx.errors - 1)))
		UCCL_LOG(UCCL_LOG_INFO,
			 "%s: receiving a direct write failed: status %d, vendor error %u (%llu times so far)",
			 d->port.name, wc->status, wc->vendor_err, (unsigned long long)d->rx.errors);
	if (p && (d->key.type == IBV_QPT_RC || wc->status != IBV_WC_REM_ACCESS_ERR))
		uccl_uc_path_broke(d, p);
}

/* One completion of a receive. False: no endpoint gets it. */
static bool arrive(struct uc_dev *d, const struct ibv_wc *wc, uint64_t now)
{
	struct uc_path *p = uccl_uc_path_find(d, wc->qp_num);
	struct uc_peer *peer;
	uint32_t imm;

	if (wc->status != IBV_WC_SUCCESS) {
		receive_failed(d, p, wc);
		return false;
	}
	imm = ntohl(wc->imm_data);
	peer = p ? p->set->flow[imm >> UCCL_IMM_BITS] : NULL;
	if (!peer || wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM || !(wc->wc_flags & IBV_WC_WITH_IMM)) {
		d->rx.bad++;
		return false;
	}
	uc_set_used(p->set, now);
	uccl_uc_arrived(peer, imm & ((1u << UCCL_IMM_BITS) - 1), wc->byte_len, p->index);
	return true;
}

static void writes_poll(struct uc_dev *d)
{
	struct ibv_wc wc[UC_RX_BATCH];
	int i, got = d->lib->poll_cq(d->queues.rx_cq, UC_RX_BATCH, wc);
	uint64_t now = got > 0 ? d->clock() : 0;

	/* Each took a receive, also those that failed. */
	for (i = 0; i < got; i++)
		uc_queues_return(d, !arrive(d, &wc[i], now));
}

static int writes_rx(struct uc *w, struct uccl_rx *v, int n)
{
	struct uc_dev *d = w->dev;
	int k;

	if (d->tx.slab.nunused < d->tx.slab.count)
		uccl_uc_reap(d);
	/* For all endpoints: one that takes nothing does not stop the writes of others. */
	if (d->sets.nqps)
		writes_poll(d);
	k = uccl_uc_ring_report(w, v, n);
	if (d->queues.srq_due >= UC_CHAIN || d->queues.srq_due >= d->queues.srq_depth / 2)
		uccl_uc_queues_post(d);
	return k;
}

/* Nothing was found: time for rare work, and another poll. */
static int idle_rx(struct uc *w, struct uccl_rx *v, int n)
{
	struct uc_dev *d = w->dev;
	bool waits = w->ring.waiting_fd;

	/* Each read is a system call: an endpoint that never sleeps makes it seldom. */
	if (waits && w->ud->rx.ready & UD_READY_UC_ASYNC)
		uccl_uc_dev_events(d);
	if (d->link == UCCL_LINK_GONE)
		return 0;
	uccl_uc_queues_post(d);
	uccl_uc_paths_retry(d);
	uccl_uc_yield(d);
	if (w->ud->rx.ready & UD_READY_UC_KICK)
		uccl_uc_kick_read(w);
	if (waits)
		uccl_uc_queues_arm(d, w->ud->rx.ready & UD_READY_UC_CHANNEL);
	return writes_rx(w, v, n);
}

/* Packets first, since acknowledgements are among them; if there are many packets, writes get half of the room. */
int uccl_uc_rx(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_placement *places, int nplaces)
{
	struct uc *w = uc_of(nic);
	int first = w->packets_filled ? n - n / 2 : n, k, more;
	struct uc_dev *d = w->dev;

	k = w->packets->ops->rx(w->packets, v, first, places, nplaces);
	if (k < 0 || w->ud->link.state == UCCL_LINK_GONE)
		return k;
	w->packets_filled = k == first;
	uc_lock(w);
	if (++d->rx.calls % EVENTS_EVERY == 0)
		uccl_uc_dev_events(d);
	more = d->link == UCCL_LINK_GONE ? 0 : writes_rx(w, v + k, n - k);
	if (!(k + more))
		more = idle_rx(w, v, n);
	uc_unlock(w);
	return k + more;
}

int uccl_uc_wait_fd(struct uccl_nic *nic)
{
	struct uc *w = uc_of(nic);
	int fd = w->packets->ops->wait_fd(w->packets), kick_fd, err;

	if (fd < 0 || w->ring.waiting_fd)
		return fd;
	kick_fd = uccl_uc_ring_fd(w);
	if (kick_fd < 0)
		return kick_fd;
	err = uccl_ud_wait_add(fd, kick_fd, UD_READY_UC_KICK);
	if (!err)
		err = uccl_ud_wait_add(fd, w->dev->ctx->async_fd, UD_READY_UC_ASYNC);
	if (!err)
		err = uccl_ud_wait_add(fd, w->dev->queues.channel->fd, UD_READY_UC_CHANNEL);
	if (err)
		return -err;
	uc_lock(w);
	uccl_uc_ring_wait(w);
	uc_unlock(w);
	return fd;
}

#endif
