/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The verbs-uc and verbs-rc back ends: packets as verbs-ud sends them, and writes straight into the peer's memory. The
 * NIC reads a write from the caller's own memory, registered as a whole and kept so (mrcache.h), or from a copy where
 * that cannot be; either way UCCL_RX_SENT says when.
 *
 * Writes take receives without a buffer off one shared queue. There are as many as peers were granted, and as many
 * again for what comes late or is refused.
 */
#include "nic/verbs_uc.h"

#include <rdma/fi_errno.h>

#include "nic/nic.h"

#ifdef HAVE_VERBS

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <time.h>

#include "base/log.h"

#define SRQ_MIN 128
#define TX_MIN 64
/* Registrations of the caller's memory that are kept while nothing is sent from it. */
#define SOURCES 1024
#define SOURCE_BYTES (1ull << 30)
/* Shorter buffers are copied: to register one costs more. */
#define SOURCE_MIN 32768
#define COPY_NS (100 * UCCL_NS_PER_MS) /* after the NIC refused, without asking again */
/* A write of several packets, where the NIC stands losing one of them. */
#define WRITE_MAX 32768

/* Memory that peers write. */

/*
 * The peer names memory by a number of which the bits above the page are random: knowing a key is not enough.
 */
static int uc_reg(struct uccl_nic *nic, void *buf, uint64_t len, void **out, uint64_t *rkey, uint64_t *raddr)
{
	struct uc *w = uc_of(nic);
	struct ibv_mr *mr;
	uint64_t iova;

	if (getrandom(&iova, sizeof(iova), 0) != sizeof(iova))
		return -FI_EIO;
	/* The highest bit is clear, so that no end of it wraps. */
	iova = (iova >> 1 & ~4095ull) | ((uintptr_t)buf & 4095);
	mr = w->lib->reg_mr_iova(w->ud->pd, buf, len, iova, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!mr)
		return errno > 0 ? -errno : -FI_EIO;
	*out = mr;
	/* 0 is no key. */
	*rkey = mr->rkey | 1ull << 32;
	*raddr = iova;
	return 0;
}

static void uc_dereg(struct uccl_nic *nic, void *mr)
{
	struct uc *w = uc_of(nic);

	if (w->lib->dereg_mr(mr))
		UCCL_LOG(UCCL_LOG_WARN, "%s: memory cannot be deregistered: error %d", w->ud->port.name, errno);
}

/* Memory that we write from. */

static int source_reg(void *arg, uintptr_t start, uint64_t len, void **mr)
{
	struct uc *w = arg;

	*mr = w->lib->reg_mr(w->ud->pd, (void *)start, len, 0);
	return *mr ? 0 : errno > 0 ? -errno : -FI_EIO;
}

static void source_dereg(void *arg, void *mr)
{
	struct uc *w = arg;

	uc_dereg(&w->nic, mr);
}

static const struct uccl_mrcache_ops source_ops = {.reg = source_reg, .dereg = source_dereg};

/* NULL: it has to be copied. */
static const struct uccl_mrcache_entry *source_get(struct uc *w, const struct uccl_tx *t)
{
	const struct uccl_mrcache_entry *e;
	int err;

	if (!t->buffer || t->buffer->iov_len < SOURCE_MIN || (w->copy_until && w->ud->clock() < w->copy_until))
		return NULL;
	err = uccl_mrcache_get_kept(w->sources, t->buffer->iov_base, t->buffer->iov_len, &e);
	w->copy_until = 0;
	if (!err)
		return e;
	if (err != -FI_ENOSYS) {
		UCCL_LOG(UCCL_LOG_INFO, "%s: a buffer to send from cannot be registered: error %d", w->ud->port.name,
			 -err);
		w->copy_until = w->ud->clock() + COPY_NS;
	}
	return NULL;
}

static void write_told(struct uc *w, uint64_t cookie, uint64_t id)
{
	w->told[w->told_head++ % w->told_size] = (struct uc_told){.cookie = cookie, .id = id};
}

static void write_freed(void *arg, const struct uccl_verbs_sent *sent)
{
	struct uc *w = arg;

	if (sent->source)
		uccl_mrcache_put(w->sources, sent->source);
	write_told(w, sent->cookie, sent->id);
}

/* Sending. */

static bool writes_under_way(const struct uc *w)
{
	return w->tx.nunused < w->tx.count;
}

static void completion_take(struct uc *w, const struct ibv_wc *wc)
{
	uint16_t which = uccl_verbs_sq_which(wc->wr_id);
	struct uc_path *p = which < w->max_qp ? w->slot[which].path : NULL;

	if (!p || !uccl_verbs_sq_known(&p->sq, wc))
		return;
	if (wc->status == IBV_WC_SUCCESS) {
		uccl_verbs_sq_done(&p->sq, &w->tx, wc);
		return;
	}
	w->stats.tx_errors++;
	if (!(w->stats.tx_errors & (w->stats.tx_errors - 1)))
		UCCL_LOG(UCCL_LOG_INFO, "%s: a write failed: status %d, vendor's %u, %llu times so far",
			 w->ud->port.name, wc->status, wc->vendor_err, (unsigned long long)w->stats.tx_errors);
	uccl_uc_path_broke(w, p);
}

static void writes_reap(struct uc *w)
{
	struct ibv_wc wc[UC_CHAIN];
	int i, n;

	do {
		n = w->lib->poll_cq(w->tx_cq, UC_CHAIN, wc);
		for (i = 0; i < n; i++)
			completion_take(w, &wc[i]);
	} while (n == UC_CHAIN);
}

/* Make request i of this call. 1: made; 0: there is no room now; -1: the write is lost. */
static int write_add(struct uc *w, const struct uccl_tx *t, int i)
{
	struct uc_peer *peer = (struct uc_peer *)t->peer;
	struct ibv_send_wr *wr = &w->wr[i];
	struct uccl_verbs_sent sent = {.cookie = t->cookie};
	struct uc_path *p;

	/* Each will be told of. */
	if (w->told_head - w->told_tail + w->tx.count - w->tx.nunused == w->told_size)
		return 0;
	if (!peer || t->path >= peer->n || !t->payload_len || t->payload_len > w->tx.stride)
		return -1;
	p = &peer->path[t->path];
	if (!p->able || w->ud->link != UCCL_LINK_UP)
		return -1;
	if (!w->tx.nunused || !uccl_verbs_sq_room(&p->sq, w->ud->port.max_qp_wr))
		return 0;
	sent.piece = w->tx.unused[--w->tx.nunused];
	sent.id = peer->id;
	sent.source = source_get(w, t);
	if (sent.source) {
		w->sge[i].addr = (uintptr_t)t->payload;
		w->sge[i].lkey = ((struct ibv_mr *)sent.source->mr)->lkey;
		w->stats.tx_direct++;
	} else {
		w->sge[i].addr = (uintptr_t)uccl_verbs_piece(&w->tx, sent.piece);
		w->sge[i].lkey = w->tx.mr->lkey;
		memcpy(uccl_verbs_piece(&w->tx, sent.piece), t->payload, t->payload_len);
	}
	w->sge[i].length = t->payload_len;
	wr->wr_id = uccl_verbs_sq_name(&p->sq, p->slot);
	wr->sg_list = &w->sge[i];
	wr->num_sge = 1;
	wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr->imm_data = htonl(t->imm);
	wr->wr.rdma.remote_addr = t->raddr;
	wr->wr.rdma.rkey = (uint32_t)t->rkey;
	if (uccl_verbs_sq_add(&p->sq, wr, sent, false))
		w->chain[w->nchains++] = p;
	return 1;
}

static void chains_post(struct uc *w)
{
	int i, err;

	for (i = 0; i < w->nchains; i++) {
		struct uc_path *p = w->chain[i];

		uccl_verbs_sq_signal(&p->sq);
		err = uccl_verbs_sq_post(w->lib, &p->sq, &w->tx, &w->stats.tx_lost);
		w->stats.doorbells++;
		p->peer->used_ns = w->ud->clock();
		if (!err)
			continue;
		UCCL_LOG(UCCL_LOG_INFO, "%s: writes refused: error %d", w->ud->port.name, err);
		if (err != ENOMEM)
			uccl_uc_path_broke(w, p);
	}
	w->nchains = 0;
}

static int writes_tx(struct uc *w, struct uccl_tx *v, int n)
{
	int i, did = 1;

	if (w->ud->link != UCCL_LINK_GONE)
		writes_reap(w);
	for (i = 0; i < n && i < UC_CHAIN && did; i += did != 0) {
		did = write_add(w, &v[i], i);
		if (did >= 0)
			continue;
		w->stats.tx_lost++;
		if (v[i].peer)
			write_told(w, v[i].cookie, ((struct uc_peer *)v[i].peer)->id);
	}
	chains_post(w);
	return i;
}

static int uc_tx(struct uccl_nic *nic, struct uccl_tx *v, int n)
{
	struct uc *w = uc_of(nic);
	int i, end, k;

	for (i = 0; i < n; i += k) {
		for (end = i + 1; end < n && v[end].kind == v[i].kind; end++)
			;
		k = v[i].kind == UCCL_TX_WRITE ? writes_tx(w, v + i, end - i) :
						 w->packets->ops->tx(w->packets, v + i, end - i);
		if (k <= 0)
			return i ? i : k;
	}
	return n;
}

/* Receiving. */

static void receives_post(struct uc *w)
{
	struct ibv_recv_wr wr[UC_CHAIN], *bad;
	uint32_t n, i;
	int err;

	while (w->srq_due) {
		n = (uint32_t)uccl_min(w->srq_due, UC_CHAIN);
		memset(wr, 0, n * sizeof(wr[0]));
		for (i = 0; i + 1 < n; i++)
			wr[i].next = &wr[i + 1];
		bad = wr;
		err = w->lib->post_srq_recv(w->srq, wr, &bad);
		w->srq_due -= err ? (uint32_t)(bad - wr) : n;
		if (!err)
			continue;
		UCCL_LOG(UCCL_LOG_INFO, "%s: receives for writes refused: error %d", w->ud->port.name, err);
		return;
	}
}

static int news_tell(struct uc *w, struct uccl_rx *v, int n)
{
	struct uc_path *p;
	int k;

	for (k = 0; k < n && (p = TAILQ_FIRST(&w->news)); k++) {
		TAILQ_REMOVE(&w->news, p, news);
		p->has_news = false;
		memset(&v[k], 0, sizeof(v[k]));
		v[k].kind = p->able ? UCCL_RX_WRITE_ON : UCCL_RX_WRITE_OFF;
		v[k].path = p->index;
		v[k].peer = (struct uccl_nic_peer *)p->peer;
		v[k].peer_id = p->peer->id;
		v[k].src = p->peer->to;
	}
	return k;
}

static int told_tell(struct uc *w, struct uccl_rx *v, int n)
{
	int k;

	for (k = 0; k < n && w->told_tail != w->told_head; k++) {
		const struct uc_told *t = &w->told[w->told_tail++ % w->told_size];

		memset(&v[k], 0, sizeof(v[k]));
		v[k].kind = UCCL_RX_SENT;
		v[k].cookie = t->cookie;
		v[k].peer_id = t->id;
	}
	return k;
}

/*
 * A write that found no place any more says so by an error. UC goes on after it; on RC, and after any other error, the
 * queue pair does not. An error ends no more than that.
 */
static void receive_failed(struct uc *w, struct uc_path *p, const struct ibv_wc *wc)
{
	w->stats.rx_errors++;
	if (!(w->stats.rx_errors & (w->stats.rx_errors - 1)))
		UCCL_LOG(UCCL_LOG_INFO, "%s: a write failed here: status %d, vendor's %u, %llu times so far",
			 w->ud->port.name, wc->status, wc->vendor_err, (unsigned long long)w->stats.rx_errors);
	if (p && (w->type == IBV_QPT_RC || wc->status != IBV_WC_REM_ACCESS_ERR))
		uccl_uc_path_broke(w, p);
}

static int writes_rx(struct uc *w, struct uccl_rx *v, int n)
{
	struct ibv_wc wc[UC_RX_BATCH];
	int i, got, k = news_tell(w, v, n);
	uint64_t now;

	if (writes_under_way(w))
		writes_reap(w);
	k += told_tell(w, v + k, n - k);
	if (k == n)
		return k;
	got = w->lib->poll_cq(w->rx_cq, n - k < UC_RX_BATCH ? n - k : UC_RX_BATCH, wc);
	now = got > 0 ? w->ud->clock() : 0;
	for (i = 0; i < got; i++) {
		struct uc_path *p = uccl_uc_path_find(w, wc[i].qp_num);

		/* Each took a receive, whatever became of it. */
		w->srq_due++;
		if (wc[i].status != IBV_WC_SUCCESS) {
			receive_failed(w, p, &wc[i]);
			continue;
		}
		if (!p || wc[i].opcode != IBV_WC_RECV_RDMA_WITH_IMM || !(wc[i].wc_flags & IBV_WC_WITH_IMM)) {
			w->stats.rx_bad++;
			continue;
		}
		p->peer->used_ns = now;
		memset(&v[k], 0, sizeof(v[k]));
		v[k].kind = UCCL_RX_WRITE;
		v[k].path = p->index;
		v[k].imm = ntohl(wc[i].imm_data);
		v[k].len = wc[i].byte_len;
		v[k].peer = (struct uccl_nic_peer *)p->peer;
		v[k].peer_id = p->peer->id;
		v[k].src = p->peer->to;
		k++;
	}
	if (w->srq_due >= UC_CHAIN)
		receives_post(w);
	return k;
}

/* Empty the channel and ask for the next event. */
static void channel_arm(struct uc *w)
{
	struct ibv_cq *cq;
	void *user;

	while (!w->lib->get_cq_event(w->channel, &cq, &user)) {
		w->lib->ack_cq_events(cq, 1);
		w->armed = false;
	}
	if (!w->armed)
		w->armed = !w->lib->req_notify_cq(w->rx_cq, 0) && !w->lib->req_notify_cq(w->tx_cq, 0);
}

static int uc_wait_fd(struct uccl_nic *nic)
{
	struct epoll_event ev = {.events = EPOLLIN};
	struct uc *w = uc_of(nic);
	int fd = w->packets->ops->wait_fd(w->packets);

	if (fd < 0 || w->waiting_fd)
		return fd;
	if (epoll_ctl(fd, EPOLL_CTL_ADD, w->channel->fd, &ev))
		return -errno;
	w->waiting_fd = true;
	return fd;
}

/* Packets first, acknowledgements are among them; but when they are many, writes get their half. */
static int uc_rx(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_hint *hints, int nhints)
{
	struct uc *w = uc_of(nic);
	int first = w->packets_filled ? n - n / 2 : n, k;

	k = w->packets->ops->rx(w->packets, v, first, hints, nhints);
	if (k < 0)
		return k;
	if (w->ud->link == UCCL_LINK_GONE)
		return k;
	w->packets_filled = k == first;
	k += writes_rx(w, v + k, n - k);
	if (k)
		return k;
	/* Nothing to do: time for the rest. */
	receives_post(w);
	uccl_uc_paths_retry(w);
	uccl_uc_yield(w);
	if (w->waiting_fd)
		channel_arm(w);
	return writes_rx(w, v, n);
}

/* Queues. */

static int queues_make(struct uc *w)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = w->srq_depth, .max_sge = 1}};

	/* Neither overflows: there are no more sends than pieces, and what ended queue pairs left is read before. */
	w->tx_cq = w->lib->create_cq(w->ud->ctx, (int)(2 * w->tx.count), NULL, w->channel, 0);
	w->rx_cq = w->tx_cq ? w->lib->create_cq(w->ud->ctx, (int)w->srq_depth, NULL, w->channel, 0) : NULL;
	w->srq = w->rx_cq ? w->lib->create_srq(w->ud->pd, &attr) : NULL;
	if (!w->srq)
		return errno > 0 ? -errno : -FI_EIO;
	w->srq_due = w->srq_depth;
	receives_post(w);
	return w->srq_due ? -FI_EIO : 0;
}

static void queues_end(struct uc *w)
{
	if (w->srq)
		w->lib->destroy_srq(w->srq);
	if (w->rx_cq)
		w->lib->destroy_cq(w->rx_cq);
	if (w->tx_cq)
		w->lib->destroy_cq(w->tx_cq);
	w->srq = NULL;
	w->rx_cq = w->tx_cq = NULL;
	w->armed = false;
}

/*
 * One of them broke, and with it all that stands there: new ones, and the queue pairs are made anew with the peers.
 * Meanwhile packets serve.
 */
static void queues_renew(struct uc *w)
{
	uccl_uc_paths_end(w);
	queues_end(w);
	if (queues_make(w))
		uccl_ud_gone(w->ud, "its queues cannot be made anew");
	else
		w->stats.renewed++;
}

/* Peers. */

static void uc_addr(struct uccl_nic *nic, struct uccl_nic_addr *out)
{
	struct uc *w = uc_of(nic);

	w->packets->ops->addr(w->packets, out);
}

/* An order of all places that both sides agree on. */
static int place_compare(const struct uccl_nic_addr *a, const struct uccl_nic_addr *b)
{
	int c = memcmp(a->ip, b->ip, sizeof(a->ip));

	if (!c)
		c = (a->scope > b->scope) - (a->scope < b->scope);
	return c ? c : (a->port > b->port) - (a->port < b->port);
}

static int uc_connect(struct uccl_nic *nic, const struct uccl_nic_addr *to, uint64_t id, uint16_t paths,
		      struct uccl_nic_peer **out)
{
	struct uc *w = uc_of(nic);
	struct uc_peer *peer = calloc(1, sizeof(*peer) + paths * sizeof(peer->path[0]));
	struct uccl_nic_addr self;
	uint16_t i;

	if (!peer)
		return -FI_ENOMEM;
	peer->to = *to;
	peer->id = id;
	peer->n = paths;
	uc_addr(nic, &self);
	peer->leads = place_compare(&self, to) < 0;
	for (i = 0; i < paths; i++) {
		peer->path[i].peer = peer;
		peer->path[i].index = i;
	}
	TAILQ_INSERT_TAIL(&w->peers, peer, all);
	*out = (struct uccl_nic_peer *)peer;
	return 0;
}

static void uc_disconnect(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	uccl_uc_peer_free(uc_of(nic), (struct uc_peer *)peer);
}

const struct uccl_verbs_uc_stats *uccl_verbs_uc_stats(struct uccl_nic *nic)
{
	return &uc_of(nic)->stats;
}

static void uc_count(struct uccl_nic *nic, struct uccl_stats *s)
{
	struct uc *w = uc_of(nic);
	struct uccl_mrcache_stats mr = uccl_mrcache_stats(w->sources);

	s->writes_in_place = w->stats.tx_direct;
	s->mr_hits = mr.hits;
	s->mr_misses = mr.misses;
	s->mr_gone = mr.gone;
	s->mr_evicted = mr.evicted;
	s->qp_made = w->stats.made;
	s->qp_reclaimed = w->stats.reclaimed;
	s->qp_now = w->nqps;
}

static void uc_close(struct uccl_nic *nic)
{
	struct uc *w = uc_of(nic);

	while (TAILQ_FIRST(&w->peers))
		uccl_uc_peer_free(w, TAILQ_FIRST(&w->peers));
	queues_end(w);
	if (w->channel)
		w->lib->destroy_comp_channel(w->channel);
	if (w->sources)
		uccl_mrcache_close(w->sources);
	uccl_verbs_slab_close(w->lib, &w->tx);
	free(w->told);
	if (w->packets)
		w->packets->ops->close(w->packets);
	free(w->slot);
	free(w);
}

#define UC_OPS(title)                                                                                                  \
	{                                                                                                              \
		.name = title, .tx = uc_tx, .rx = uc_rx, .connect = uc_connect, .disconnect = uc_disconnect,           \
		.reg = uc_reg, .dereg = uc_dereg, .prepare = uccl_uc_prepare, .offer = uccl_uc_offer,                  \
		.accept = uccl_uc_accept, .renew = uccl_uc_renew, .count = uc_count, .wait_fd = uc_wait_fd,            \
		.addr = uc_addr, .close = uc_close,                                                                    \
	}

static const struct uccl_nic_ops uc_ops = UC_OPS("verbs-uc"), rc_ops = UC_OPS("verbs-rc");

/* Opening. */

/* Of the NIC, and not of what sends and receives packets. */
static void nic_event(void *arg, const struct ibv_async_event *e)
{
	struct uc *w = arg;
	struct uc_path *p;

	switch (e->event_type) {
	case IBV_EVENT_CQ_ERR:
		if (e->element.cq == w->tx_cq || e->element.cq == w->rx_cq)
			queues_renew(w);
		break;
	case IBV_EVENT_SRQ_ERR:
		if (e->element.srq == w->srq)
			queues_renew(w);
		break;
	case IBV_EVENT_GID_CHANGE:
		uccl_uc_paths_end(w);
		break;
	default:
		p = uccl_uc_path_find(w, e->element.qp->qp_num);
		if (p)
			uccl_uc_path_broke(w, p);
	}
}

/*
 * Soft-RoCE's UC is dead for ever after the loss of a packet in the middle of a write, or of its last: there a write is
 * one packet. Of other NICs nothing is known: a path that swallows writes is made anew (PROTOCOL R84).
 */
uint32_t uccl_verbs_write_max(const struct uccl_verbs_port *port, enum ibv_qp_type type)
{
	return type == IBV_QPT_UC && !strcmp(port->driver, "rxe") ? port->mtu : WRITE_MAX;
}

static int queues_open(struct uc *w)
{
	const struct uccl_verbs_port *port = &w->ud->port;
	uint32_t most = (uint32_t)uccl_min(port->max_srq_wr, port->max_cqe);
	int err;

	w->srq_depth = (uint32_t)uccl_min(2 * w->nic.caps.rx_slots, most);
	if (w->srq_depth < SRQ_MIN)
		return -FI_ENOSPC;
	w->nic.caps.rx_slots = (uint32_t)uccl_min(w->nic.caps.rx_slots, w->srq_depth / 2);
	err = uccl_verbs_slab_open(w->lib, w->ud->pd, port->name, &w->tx, w->nic.caps.write_max,
				   (uint32_t)uccl_min(UC_TX_SLOTS, port->max_cqe / 2), TX_MIN, 0, true);
	if (!err)
		err = uccl_mrcache_open(&source_ops, w, SOURCES, SOURCE_BYTES, &w->sources);
	if (err)
		return err;
	w->tx.freed = write_freed;
	w->tx.freed_arg = w;
	w->told_size = UC_TOLD;
	w->told = calloc(w->told_size, sizeof(*w->told));
	if (!w->told)
		return -FI_ENOMEM;
	w->channel = w->lib->create_comp_channel(w->ud->ctx);
	if (!w->channel || fcntl(w->channel->fd, F_SETFL, fcntl(w->channel->fd, F_GETFL) | O_NONBLOCK))
		return errno > 0 ? -errno : -FI_EIO;
	return queues_make(w);
}

int uccl_verbs_uc_open(const struct uccl_verbs *lib, uint64_t (*clock)(void), enum ibv_qp_type type,
		       const struct uccl_nic_attr *attr, struct uccl_nic **nic)
{
	struct uc *w = calloc(1, sizeof(*w));
	int err;

	if (!w)
		return -FI_ENOMEM;
	w->lib = lib;
	w->type = type;
	TAILQ_INIT(&w->peers);
	TAILQ_INIT(&w->news);
	TAILQ_INIT(&w->waiting);
	err = uccl_verbs_ud_open(lib, clock, attr, &w->packets);
	if (err) {
		free(w);
		return err;
	}
	w->ud = ud_of(w->packets);
	w->ud->event = nic_event;
	w->ud->event_arg = w;
	w->nic.ops = type == IBV_QPT_RC ? &rc_ops : &uc_ops;
	w->nic.caps = w->packets->caps;
	w->nic.caps.write_max = uccl_verbs_write_max(&w->ud->port, type);
	w->nic.caps.reliable = type == IBV_QPT_RC;
	w->nic.caps.write_async = true;
	w->nic.caps.dereg_fences = true;
	w->max_qp = (uint32_t)uccl_clamp(attr->max_qp ? attr->max_qp : UC_QPS, 1, UC_QPS_MAX);
	w->budget = attr->budget ? attr->budget : &w->own_budget;
	w->slot = calloc(w->max_qp, sizeof(*w->slot));
	err = w->slot ? queues_open(w) : -FI_ENOMEM;
	if (!err && uccl_uc_probe(w))
		err = -FI_ENOSYS;
	if (err) {
		uc_close(&w->nic);
		return err;
	}
	*nic = &w->nic;
	return 0;
}

static int open_here(enum ibv_qp_type type, const struct uccl_nic_attr *attr, struct uccl_nic **nic)
{
	const struct uccl_verbs *lib = uccl_verbs_lib();

	return lib ? uccl_verbs_uc_open(lib, uccl_ud_clock, type, attr, nic) : -FI_ENODEV;
}

int uccl_nic_verbs_uc_open(const struct uccl_nic_attr *attr, struct uccl_nic **nic)
{
	return open_here(IBV_QPT_UC, attr, nic);
}

int uccl_nic_verbs_rc_open(const struct uccl_nic_attr *attr, struct uccl_nic **nic)
{
	return open_here(IBV_QPT_RC, attr, nic);
}

#else

int uccl_nic_verbs_uc_open(const struct uccl_nic_attr *attr, struct uccl_nic **nic)
{
	(void)attr;
	(void)nic;
	return -FI_ENODEV;
}

int uccl_nic_verbs_rc_open(const struct uccl_nic_attr *attr, struct uccl_nic **nic)
{
	(void)attr;
	(void)nic;
	return -FI_ENODEV;
}

#endif
