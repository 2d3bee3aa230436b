/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sends writes. The NIC reads the payload from the caller's memory, whose registration is kept (mrcache.h), or from a
 * copy if that memory cannot be registered. UCCL_RX_SENT reports when it was read.
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
/* Registrations of the caller's memory that are kept while nothing is sent from it. */
#define SOURCES 1024
#define SOURCE_BYTES (1ull << 30)
#define TX_MIN 64
#define COPY_NS (100 * UCCL_NS_PER_MS) /* after the NIC refused, without asking again */

/* Opening and closing. */

static int source_reg(void *arg, uintptr_t start, uint64_t len, const struct uccl_nic_device *device, void **mr)
{
	struct uc_dev *d = arg;

	(void)device;
	*mr = d->lib->reg_mr(d->pd, (void *)start, len, 0);
	return *mr ? 0 : uccl_verbs_error();
}

static void source_dereg(void *arg, void *mr)
{
	struct uc_dev *d = arg;

	uccl_verbs_dereg(d->lib, mr, d->port.name);
}

static const struct uccl_mrcache_ops source_ops = {.reg = source_reg, .dereg = source_dereg};

/* The NIC no longer reads a write's payload. */
static void write_freed(const struct uccl_verbs_sent *sent)
{
	struct uc_peer *peer = sent->owner;

	uccl_uc_done(peer->w, sent->cookie, peer->id);
	uccl_uc_kick(peer->w);
}

int uccl_uc_tx_open(struct uc_dev *d, uint32_t write_max, uint64_t nodes)
{
	struct uccl_verbs_slab_attr slab = {
		.stride = write_max,
		.count = (uint32_t)uccl_min(UC_TX_SLOTS, d->port.max_cqe / 2),
		.least = TX_MIN,
		.nodes = nodes,
		.sends = true,
		.freed = write_freed,
	};
	int err = uccl_verbs_slab_open(d->lib, d->pd, d->port.name, &d->tx.slab, &slab);

	if (!err)
		err = uccl_mrcache_open(&source_ops, d, false, SOURCES, SOURCE_BYTES, &d->tx.sources);
	if (!err)
		err = uccl_verbs_gpu_keep_open(&d->tx.gpu_sources, &d->gpus, d->lib, d->pd, d->port.name);
	return err;
}

void uccl_uc_tx_close(struct uc_dev *d)
{
	uccl_mrcache_close(d->tx.sources);
	uccl_verbs_gpu_keep_close(&d->tx.gpu_sources);
	uccl_verbs_slab_close(d->lib, &d->tx.slab);
}

/* Writes. */

/* The registration of a write's payload. NULL: the payload must be copied. */
static const struct uccl_mrcache_entry *source_get(struct uc_dev *d, const struct uccl_tx *t)
{
	const struct uccl_mrcache_entry *e;
	int err;

	if (!t->buffer || t->buffer->iov_len < SOURCE_MIN || (d->tx.copy_until && d->clock() < d->tx.copy_until))
		return NULL;
	err = uccl_mrcache_get(d->tx.sources, t->buffer->iov_base, t->buffer->iov_len, NULL, &e);
	d->tx.copy_until = 0;
	if (!err)
		return e;
	if (err != -FI_ENOSYS) {
		UCCL_LOG(UCCL_LOG_INFO, "%s: cannot register a buffer to send from, so it is copied: %s", d->port.name,
			 strerror(-err));
		d->tx.copy_until = d->clock() + COPY_NS;
	}
	return NULL;
}

static void completion_take(struct uc_dev *d, const struct ibv_wc *wc)
{
	uint16_t which = uccl_verbs_sq_which(wc->wr_id);
	struct uc_path *p = which < d->sets.max_qp ? d->sets.slot[which].path : NULL;

	if (!p || !uccl_verbs_sq_known(&p->sq, wc))
		return;
	if (wc->status == IBV_WC_SUCCESS) {
		uccl_verbs_sq_done(&p->sq, &d->tx.slab, wc);
		return;
	}
	d->tx.errors++;
	if (!(d->tx.errors & (d->tx.errors - 1)))
		UCCL_LOG(UCCL_LOG_INFO, "%s: a direct write failed: status %d, vendor error %u (%llu times so far)",
			 d->port.name, wc->status, wc->vendor_err, (unsigned long long)d->tx.errors);
	/* On RC the NIC has sent it many times by this route. */
	uccl_uc_path_reroute(d, p);
}

void uccl_uc_reap(struct uc_dev *d)
{
	struct ibv_wc wc[UC_CHAIN];
	int i, n;

	do {
		n = d->lib->poll_cq(d->queues.tx_cq, UC_CHAIN, wc);
		for (i = 0; i < n; i++)
			completion_take(d, &wc[i]);
	} while (n == UC_CHAIN);
}

/* Make request i of this call. 1: made; 0: there is no room now; -1: the write is lost. */
static int write_add(struct uc *w, const struct uccl_tx *t, int i)
{
	struct uc_peer *peer = (struct uc_peer *)t->peer;
	struct uccl_verbs_sent sent = {.cookie = t->cookie, .owner = peer};
	struct ibv_send_wr *wr = &w->tx.wr[i];
	struct ibv_sge *sge = &w->tx.sge[i];
	struct uc_dev *d = w->dev;
	struct uccl_verbs_slab *slab = &d->tx.slab;
	struct uc_path *p;

	/* The ring needs room to report each. */
	if (w->ring.done_head - w->ring.done_tail + slab->count - slab->nunused == UC_DONE)
		return 0;
	if (!peer || !peer->joined || t->path >= peer->n || !t->payload_len || t->payload_len > slab->stride ||
	    t->imm >> UCCL_IMM_BITS)
		return -1;
	p = &peer->set->path[t->path];
	if (!p->able || d->link != UCCL_LINK_UP)
		return -1;
	if (!slab->nunused || !uccl_verbs_sq_room(&p->sq, d->port.max_qp_wr))
		return 0;
	sent.buffer = uccl_verbs_slab_take(slab);
	*sge = (struct ibv_sge){.addr = (uintptr_t)t->payload, .length = t->payload_len};
	if (t->mr) {
		sent.source = ((const struct uccl_verbs_source *)t->mr)->writes;
		uccl_mrcache_hold(sent.source);
	} else {
		sent.source = source_get(d, t);
	}
	if (sent.source) {
		sge->lkey = uccl_verbs_source_key(sent.source);
	} else {
		sge->addr = (uintptr_t)uccl_verbs_buffer(slab, sent.buffer);
		sge->lkey = slab->mr->lkey;
		memcpy(uccl_verbs_buffer(slab, sent.buffer), t->payload, t->payload_len);
	}
	w->tx.direct += sent.source != NULL;
	d->tx.direct += sent.source != NULL;
	wr->wr_id = uccl_verbs_sq_name(&p->sq, p->slot);
	wr->sg_list = sge;
	wr->num_sge = 1;
	wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr->imm_data = htonl(t->imm | (uint32_t)peer->number << UCCL_IMM_BITS);
	wr->wr.rdma.remote_addr = t->raddr;
	wr->wr.rdma.rkey = (uint32_t)t->rkey;
	if (uccl_verbs_sq_add(&p->sq, slab, wr, sent, false))
		w->tx.chain[w->tx.nchains++] = p;
	return 1;
}

static void chains_post(struct uc *w)
{
	struct uc_dev *d = w->dev;
	int i, err;

	for (i = 0; i < w->tx.nchains; i++) {
		struct uc_path *p = w->tx.chain[i];

		uccl_verbs_sq_signal(&p->sq, &d->tx.slab);
		err = uccl_verbs_sq_post(d->lib, &p->sq, &d->tx.slab, &d->tx.lost);
		d->tx.doorbells++;
		uc_set_used(p->set, d->clock());
		if (!err)
			continue;
		UCCL_LOG(UCCL_LOG_INFO, "%s: the NIC refuses direct writes: %s", d->port.name, strerror(err));
		/* It refuses packets, too; they report it. */
		if (err == EACCES || err == EPERM)
			uc_dev_gone(d);
		else if (err != ENOMEM)
			uccl_uc_path_broke(d, p);
	}
	w->tx.nchains = 0;
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
		d->tx.lost++;
		if (v[i].peer)
			uccl_uc_done(w, v[i].cookie, ((struct uc_peer *)v[i].peer)->id);
	}
	chains_post(w);
	uc_unlock(w);
	return i;
}

#endif
