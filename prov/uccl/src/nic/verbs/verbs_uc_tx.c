/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sending of writes. The NIC reads one from the caller's own memory, registered as a whole and kept so (mrcache.h), or
 * from a copy where that cannot be; either way UCCL_RX_SENT says when.
 */
#include "nic/verbs/uc_state.h"

#ifdef HAVE_VERBS

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "base/log.h"

/* Shorter buffers are copied: to register one costs more. */
#define SOURCE_MIN 32768
#define COPY_NS (100 * UCCL_NS_PER_MS) /* after the NIC refused, without asking again */

/* NULL: it has to be copied. */
static const struct uccl_mrcache_entry *source_get(struct uc_dev *d, const struct uccl_tx *t)
{
	const struct uccl_mrcache_entry *e;
	int err;

	if (!t->buffer || t->buffer->iov_len < SOURCE_MIN || (d->copy_until && d->clock() < d->copy_until))
		return NULL;
	err = uccl_mrcache_get_kept(d->sources, t->buffer->iov_base, t->buffer->iov_len, &e);
	d->copy_until = 0;
	if (!err)
		return e;
	if (err != -FI_ENOSYS) {
		UCCL_LOG(UCCL_LOG_INFO, "%s: cannot register a buffer to send from, so it is copied: %s", d->port.name,
			 strerror(-err));
		d->copy_until = d->clock() + COPY_NS;
	}
	return NULL;
}

static void completion_take(struct uc_dev *d, const struct ibv_wc *wc)
{
	uint16_t which = uccl_verbs_sq_which(wc->wr_id);
	struct uc_path *p = which < d->max_qp ? d->slot[which].path : NULL;

	if (!p || !uccl_verbs_sq_known(&p->sq, wc))
		return;
	if (wc->status == IBV_WC_SUCCESS) {
		uccl_verbs_sq_done(&p->sq, &d->tx, wc);
		return;
	}
	d->stats.tx_errors++;
	if (!(d->stats.tx_errors & (d->stats.tx_errors - 1)))
		UCCL_LOG(UCCL_LOG_INFO, "%s: a direct write failed: status %d, vendor error %u (%llu times so far)",
			 d->port.name, wc->status, wc->vendor_err, (unsigned long long)d->stats.tx_errors);
	p->flow = 0; /* the NIC of RC has asked in vain for long enough */
	uccl_uc_path_broke(d, p);
}

/* Take in which writes the NIC has read. */
void uccl_uc_reap(struct uc_dev *d)
{
	struct ibv_wc wc[UC_CHAIN];
	int i, n;

	do {
		n = d->lib->poll_cq(d->tx_cq, UC_CHAIN, wc);
		for (i = 0; i < n; i++)
			completion_take(d, &wc[i]);
	} while (n == UC_CHAIN);
}

/* Make request i of this call. 1: made; 0: there is no room now; -1: the write is lost. */
static int write_add(struct uc *w, const struct uccl_tx *t, int i)
{
	struct uc_peer *peer = (struct uc_peer *)t->peer;
	struct uccl_verbs_sent sent = {.cookie = t->cookie, .owner = peer};
	struct ibv_send_wr *wr = &w->wr[i];
	struct uc_dev *d = w->dev;
	struct uc_path *p;

	/* Each will be told of. */
	if (w->done_head - w->done_tail + d->tx.count - d->tx.nunused == w->done_size)
		return 0;
	if (!peer || !peer->joined || t->path >= peer->n || !t->payload_len || t->payload_len > d->tx.stride ||
	    t->imm >> UCCL_IMM_BITS)
		return -1;
	p = &peer->set->path[t->path];
	if (!p->able || d->link != UCCL_LINK_UP)
		return -1;
	if (!d->tx.nunused || !uccl_verbs_sq_room(&p->sq, d->port.max_qp_wr))
		return 0;
	sent.piece = d->tx.unused[--d->tx.nunused];
	sent.source = t->mr ? NULL : source_get(d, t);
	if (t->mr) {
		sent.gpu = ((const struct uccl_verbs_source *)t->mr)->writes;
		uccl_devcache_hold(sent.gpu);
		w->sge[i].addr = (uintptr_t)t->payload;
		w->sge[i].lkey = uccl_verbs_source_key(sent.gpu);
		w->tx_direct++;
		d->stats.tx_direct++;
	} else if (sent.source) {
		w->sge[i].addr = (uintptr_t)t->payload;
		w->sge[i].lkey = ((struct ibv_mr *)sent.source->mr)->lkey;
		w->tx_direct++;
		d->stats.tx_direct++;
	} else {
		w->sge[i].addr = (uintptr_t)uccl_verbs_piece(&d->tx, sent.piece);
		w->sge[i].lkey = d->tx.mr->lkey;
		memcpy(uccl_verbs_piece(&d->tx, sent.piece), t->payload, t->payload_len);
	}
	w->sge[i].length = t->payload_len;
	wr->wr_id = uccl_verbs_sq_name(&p->sq, p->slot);
	wr->sg_list = &w->sge[i];
	wr->num_sge = 1;
	wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr->imm_data = htonl(t->imm | (uint32_t)peer->number << UCCL_IMM_BITS);
	wr->wr.rdma.remote_addr = t->raddr;
	wr->wr.rdma.rkey = (uint32_t)t->rkey;
	if (uccl_verbs_sq_add(&p->sq, &d->tx, wr, sent, false))
		w->chain[w->nchains++] = p;
	return 1;
}

static void chains_post(struct uc *w)
{
	struct uc_dev *d = w->dev;
	int i, err;

	for (i = 0; i < w->nchains; i++) {
		struct uc_path *p = w->chain[i];

		uccl_verbs_sq_signal(&p->sq, &d->tx);
		err = uccl_verbs_sq_post(d->lib, &p->sq, &d->tx, &d->stats.tx_lost);
		d->stats.doorbells++;
		p->set->used_ns = d->clock();
		if (!err)
			continue;
		UCCL_LOG(UCCL_LOG_INFO, "%s: the NIC refuses direct writes: %s", d->port.name, strerror(err));
		/* Packets will be, too, and say so. */
		if (err == EACCES || err == EPERM)
			d->link = UCCL_LINK_GONE;
		else if (err != ENOMEM)
			uccl_uc_path_broke(d, p);
	}
	w->nchains = 0;
}

int uccl_uc_tx(struct uc *w, struct uccl_tx *v, int n)
{
	struct uc_dev *d = w->dev;
	int i, did = 1;

	uc_lock(w);
	if (d->link != UCCL_LINK_GONE)
		uccl_uc_reap(d);
	for (i = 0; i < n && i < UC_CHAIN && did; i += did != 0) {
		did = write_add(w, &v[i], i);
		if (did >= 0)
			continue;
		d->stats.tx_lost++;
		if (v[i].peer)
			uccl_uc_done(w, v[i].cookie, ((struct uc_peer *)v[i].peer)->id);
	}
	chains_post(w);
	uc_unlock(w);
	return i;
}

#endif
