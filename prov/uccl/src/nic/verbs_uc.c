/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The verbs-uc and verbs-rc back ends: packets as verbs-ud sends them, and writes straight into the peer's memory. The
 * NIC reads a write from the caller's own memory, registered as a whole and kept so (mrcache.h), or from a copy where
 * that cannot be; either way UCCL_RX_SENT says when.
 *
 * What came is read from the shared completion queues by whichever endpoint asks, and waits in its own endpoint's ring.
 */
#include "nic/verbs_uc.h"

#include <rdma/fi_errno.h>

#include "nic/nic.h"

#ifdef HAVE_VERBS

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/log.h"

#define EVENTS_EVERY 1024 /* calls of rx(): even the busy look at what the NIC says of itself */
/* Shorter buffers are copied: to register one costs more. */
#define SOURCE_MIN 32768
#define COPY_NS (100 * UCCL_NS_PER_MS) /* after the NIC refused, without asking again */
/* A write of several packets, where the NIC stands losing one of them. */
#define WRITE_MAX 32768
#define WRITE_PACKETS 32 /* what is sent again has room for 64 pieces, which are a little smaller */

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
	mr = w->dev->lib->reg_mr_iova(w->dev->pd, buf, len, iova, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
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

	if (w->dev->lib->dereg_mr(mr))
		UCCL_LOG(UCCL_LOG_WARN, "%s: cannot deregister memory: %s", w->ud->port.name, strerror(errno));
}

/* Memory that we write from. */

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

/* Sending. */

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
	uccl_uc_path_broke(d, p);
}

/* Take in which writes the NIC has read. */
static void writes_reap(struct uc_dev *d)
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
	if (w->told_head - w->told_tail + d->tx.count - d->tx.nunused == w->told_size)
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
	sent.source = source_get(d, t);
	if (sent.source) {
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
	if (uccl_verbs_sq_add(&p->sq, wr, sent, false))
		w->chain[w->nchains++] = p;
	return 1;
}

static void chains_post(struct uc *w)
{
	struct uc_dev *d = w->dev;
	int i, err;

	for (i = 0; i < w->nchains; i++) {
		struct uc_path *p = w->chain[i];

		uccl_verbs_sq_signal(&p->sq);
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

static int writes_tx(struct uc *w, struct uccl_tx *v, int n)
{
	struct uc_dev *d = w->dev;
	int i, did = 1;

	uc_lock(w);
	if (d->link != UCCL_LINK_GONE)
		writes_reap(d);
	for (i = 0; i < n && i < UC_CHAIN && did; i += did != 0) {
		did = write_add(w, &v[i], i);
		if (did >= 0)
			continue;
		d->stats.tx_lost++;
		if (v[i].peer)
			uccl_uc_told(w, v[i].cookie, ((struct uc_peer *)v[i].peer)->id);
	}
	chains_post(w);
	uc_unlock(w);
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

/*
 * A write that found no place any more says so by an error. UC goes on after it; on RC, and after any other error, the
 * queue pair does not. An error ends no more than that.
 */
static void receive_failed(struct uc_dev *d, struct uc_path *p, const struct ibv_wc *wc)
{
	d->stats.rx_errors++;
	if (!(d->stats.rx_errors & (d->stats.rx_errors - 1)))
		UCCL_LOG(UCCL_LOG_INFO,
			 "%s: receiving a direct write failed: status %d, vendor error %u (%llu times so far)",
			 d->port.name, wc->status, wc->vendor_err, (unsigned long long)d->stats.rx_errors);
	if (p && (d->type == IBV_QPT_RC || wc->status != IBV_WC_REM_ACCESS_ERR))
		uccl_uc_path_broke(d, p);
}

/* One completion of a receive. False: it is nobody's. */
static bool arrive(struct uc_dev *d, const struct ibv_wc *wc, uint64_t now)
{
	struct uc_path *p = uccl_uc_path_find(d, wc->qp_num);
	struct uc_peer *peer;
	uint32_t imm;
	struct uc *w;

	if (wc->status != IBV_WC_SUCCESS) {
		receive_failed(d, p, wc);
		return false;
	}
	imm = ntohl(wc->imm_data);
	peer = p ? p->set->flow[imm >> UCCL_IMM_BITS] : NULL;
	if (!peer || wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM || !(wc->wc_flags & IBV_WC_WITH_IMM)) {
		d->stats.rx_bad++;
		return false;
	}
	p->set->used_ns = now;
	w = peer->w;
	w->arrived[w->arrived_head++ % w->arrived_size] = (struct uc_arrived){
		.peer = peer, .imm = imm & ((1u << UCCL_IMM_BITS) - 1), .len = wc->byte_len, .path = p->index};
	uccl_uc_kick(w);
	return true;
}

static void writes_poll(struct uc_dev *d)
{
	struct ibv_wc wc[UC_RX_BATCH];
	int i, got = d->lib->poll_cq(d->rx_cq, UC_RX_BATCH, wc);
	uint64_t now = got > 0 ? d->clock() : 0;

	/* Each took a receive, whatever became of it. */
	for (i = 0; i < got; i++)
		d->srq_due += !arrive(d, &wc[i], now);
}

static void event_fill(struct uccl_rx *v, enum uccl_rx_kind kind, struct uc_peer *peer, uint16_t path)
{
	memset(v, 0, sizeof(*v));
	v->kind = kind;
	v->path = path;
	v->peer = (struct uccl_nic_peer *)peer;
	v->peer_id = peer->id;
	v->src = peer->to;
}

static int news_tell(struct uc *w, struct uccl_rx *v, int n)
{
	struct uc_peer *peer;
	uint16_t path;
	int k = 0;

	while (k < n && (peer = TAILQ_FIRST(&w->news))) {
		for (path = 0; path < peer->n && k < n; path++) {
			uint64_t bit = 1ull << (path % 64);

			if (!(peer->news[path / 64] & bit))
				continue;
			if (peer->fenced[path / 64] & bit) {
				peer->fenced[path / 64] &= ~bit;
				event_fill(&v[k++], UCCL_RX_FENCED, peer, path);
				if (k == n)
					break;
			}
			peer->news[path / 64] &= ~bit;
			event_fill(&v[k++],
				   peer->set->path[path].able ? UCCL_RX_WRITE_ON : UCCL_RX_WRITE_OFF, peer, path);
		}
		if (path < peer->n)
			break;
		TAILQ_REMOVE(&w->news, peer, news_link);
		peer->has_news = false;
	}
	return k;
}

void uccl_uc_told(struct uc *w, uint64_t cookie, uint64_t id)
{
	w->told[w->told_head++ % w->told_size] = (struct uc_told){.cookie = cookie, .id = id};
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

static int arrived_tell(struct uc *w, struct uccl_rx *v, int n)
{
	int k = 0;

	while (k < n && w->arrived_tail != w->arrived_head) {
		const struct uc_arrived *a = &w->arrived[w->arrived_tail++ % w->arrived_size];

		w->dev->srq_due++;
		if (!a->peer)
			continue;
		event_fill(&v[k], UCCL_RX_WRITE, a->peer, a->path);
		v[k].imm = a->imm;
		v[k++].len = a->len;
	}
	return k;
}

static int writes_rx(struct uc *w, struct uccl_rx *v, int n)
{
	struct uc_dev *d = w->dev;
	int k;

	if (d->tx.nunused < d->tx.count)
		writes_reap(d);
	/* What one endpoint does not take in holds up nobody else's writes. */
	if (d->nqps)
		writes_poll(d);
	k = news_tell(w, v, n);
	k += told_tell(w, v + k, n - k);
	k += arrived_tell(w, v + k, n - k);
	if (d->srq_due >= UC_CHAIN || d->srq_due >= d->srq_depth / 2)
		uccl_uc_dev_post(d);
	return k;
}

static int uc_wait_fd(struct uccl_nic *nic)
{
	struct epoll_event ev = {.events = EPOLLIN};
	struct uc *w = uc_of(nic);
	int fd = w->packets->ops->wait_fd(w->packets);

	if (fd < 0 || w->waiting_fd)
		return fd;
	if (w->kick_fd < 0)
		w->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->kick_fd < 0 || (epoll_ctl(fd, EPOLL_CTL_ADD, w->kick_fd, &ev) && errno != EEXIST) ||
	    (epoll_ctl(fd, EPOLL_CTL_ADD, w->dev->ctx->async_fd, &ev) && errno != EEXIST) ||
	    epoll_ctl(fd, EPOLL_CTL_ADD, w->dev->channel->fd, &ev))
		return -errno;
	uc_lock(w);
	w->waiting_fd = true;
	uc_unlock(w);
	return fd;
}

/* Nothing was found: time for the rest, and another look. */
static int idle_rx(struct uc *w, struct uccl_rx *v, int n)
{
	struct uc_dev *d = w->dev;
	uint64_t count;

	/* Each look is a system call: those who spin look seldom. */
	if (w->waiting_fd)
		uccl_uc_dev_events(d);
	if (d->link == UCCL_LINK_GONE)
		return 0;
	uccl_uc_dev_post(d);
	uccl_uc_paths_retry(d);
	uccl_uc_yield(d);
	if (w->kicked && (read(w->kick_fd, &count, sizeof(count)) > 0 || errno == EAGAIN))
		w->kicked = false;
	if (w->waiting_fd)
		uccl_uc_dev_arm(d);
	return writes_rx(w, v, n);
}

/* Packets first, acknowledgements are among them; but when they are many, writes get their half. */
static int uc_rx(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_hint *hints, int nhints)
{
	struct uc *w = uc_of(nic);
	int first = w->packets_filled ? n - n / 2 : n, k, more;
	struct uc_dev *d = w->dev;

	k = w->packets->ops->rx(w->packets, v, first, hints, nhints);
	if (k < 0 || w->ud->link == UCCL_LINK_GONE)
		return k;
	w->packets_filled = k == first;
	uc_lock(w);
	if (++d->calls % EVENTS_EVERY == 0)
		uccl_uc_dev_events(d);
	more = d->link == UCCL_LINK_GONE ? 0 : writes_rx(w, v + k, n - k);
	if (!(k + more))
		more = idle_rx(w, v, n);
	uc_unlock(w);
	return k + more;
}

/* Peers. */

static void uc_addr(struct uccl_nic *nic, struct uccl_nic_addr *out)
{
	struct uc *w = uc_of(nic);

	w->packets->ops->addr(w->packets, out);
}

static int uc_connect(struct uccl_nic *nic, const struct uccl_nic_addr *to, uint64_t id, uint16_t paths,
		      struct uccl_nic_peer **out)
{
	struct uc *w = uc_of(nic);
	struct uc_peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return -FI_ENOMEM;
	peer->w = w;
	peer->to = *to;
	peer->id = id;
	peer->n = paths;
	peer->watch = uccl_ud_watch(w->ud, to);
	TAILQ_INSERT_TAIL(&w->peers, peer, all);
	*out = (struct uccl_nic_peer *)peer;
	return 0;
}

static void peer_finish(struct uc_peer *peer, uint32_t granted)
{
	peer->w->writers -= peer->granted && peer->granted == granted;
	peer->granted -= granted;
}

static void peer_free(struct uc *w, struct uc_peer *peer)
{
	uint32_t i;

	uc_lock(w);
	if (peer->set && w->dev->link != UCCL_LINK_GONE)
		writes_reap(w->dev);
	if (peer->set)
		uccl_uc_set_leave(w->dev, peer);
	for (i = w->arrived_tail; i != w->arrived_head; i++)
		if (w->arrived[i % w->arrived_size].peer == peer)
			w->arrived[i % w->arrived_size].peer = NULL;
	if (peer->has_news)
		TAILQ_REMOVE(&w->news, peer, news_link);
	peer_finish(peer, peer->granted);
	TAILQ_REMOVE(&w->peers, peer, all);
	uc_unlock(w);
	uccl_ud_unwatch(w->ud, peer->watch);
	free(peer);
}

static void uc_disconnect(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	peer_free(uc_of(nic), (struct uc_peer *)peer);
}

/* The endpoint's share of the receives, half of which are for what nobody counts on. */
static uint32_t write_slots(const struct uc *w)
{
	return w->dev->srq_depth / 2 / w->dev->nendpoints;
}

static uint32_t uc_slots(struct uccl_nic *nic, uint32_t bytes)
{
	struct uc *w = uc_of(nic);
	uint32_t n;

	(void)bytes;
	uc_lock(w);
	n = write_slots(w);
	uc_unlock(w);
	return (uint32_t)uccl_min(n, nic->caps.rx_slots);
}

/*
 * With very many peers each has two slots, the least there is. So only half as many peers as there are receives may
 * write at a time, others send packets. PROTOCOL R95
 */
static int uc_prepare(struct uccl_nic *nic, struct uccl_nic_peer *np)
{
	struct uc_peer *peer = (struct uc_peer *)np;
	struct uc *w = uc_of(nic);
	bool ready = false;

	uc_lock(w);
	if (!peer->joined)
		uccl_uc_join_begin(w->dev, peer);
	else
		ready = uccl_uc_set_prepare(w->dev, peer->set) &&
			(peer->granted || w->writers < uccl_max(1, write_slots(w) / 2));
	if (ready)
		w->writers += !peer->granted++;
	uc_unlock(w);
	return ready ? 0 : -FI_EAGAIN;
}

static void uc_finish(struct uccl_nic *nic, struct uccl_nic_peer *np)
{
	struct uc_peer *peer = (struct uc_peer *)np;
	struct uc *w = uc_of(nic);

	uc_lock(w);
	if (peer->granted)
		peer_finish(peer, 1);
	uc_unlock(w);
}

static int uc_fence(struct uccl_nic *nic, struct uccl_nic_peer *np, uint16_t path)
{
	struct uc_peer *peer = (struct uc_peer *)np;
	struct uc *w = uc_of(nic);

	if (path >= peer->n)
		return -FI_EINVAL;
	uc_lock(w);
	if (peer->joined)
		uccl_uc_set_fence(w->dev, peer->set, path);
	uc_unlock(w);
	return 0;
}

static void uc_renew(struct uccl_nic *nic, struct uccl_nic_peer *np, uint16_t path)
{
	struct uc_peer *peer = (struct uc_peer *)np;
	struct uc *w = uc_of(nic);

	uc_lock(w);
	if (peer->joined && path < peer->n && peer->set->path[path].sq.qp)
		uccl_uc_path_broke(w->dev, &peer->set->path[path]);
	uc_unlock(w);
}

/* What the two sides say. */

static bool entry_next(struct uc_dev *d, struct uc_peer *peer, uint8_t *at)
{
	return uccl_uc_join_say(d, peer, at) || (peer->joined && uccl_uc_set_say(d, peer->set, at));
}

static uint32_t uc_offer(struct uccl_nic *nic, struct uccl_nic_peer *np, uint8_t *buf, uint32_t n)
{
	struct uc *w = uc_of(nic);
	uint32_t len = 0;

	uc_lock(w);
	while (len + UC_ENTRY <= n && entry_next(w->dev, (struct uc_peer *)np, buf + len))
		len += UC_ENTRY;
	uc_unlock(w);
	return len;
}

static bool entry_valid(const struct uc_peer *peer, const uint8_t *at)
{
	return at[0] < UC_PROCESS ? uccl_uc_set_valid(peer, at) : uccl_uc_join_valid(peer, at);
}

static void entry_take(struct uc_dev *d, struct uc_peer *peer, const uint8_t *at)
{
	if (at[0] >= UC_PROCESS)
		uccl_uc_join_take(d, peer, at);
	else if (peer->joined)
		uccl_uc_set_take(d, peer->set, at);
}

static int uc_accept(struct uccl_nic *nic, struct uccl_nic_peer *np, const uint8_t *buf, uint32_t len)
{
	struct uc_peer *peer = (struct uc_peer *)np;
	struct uc *w = uc_of(nic);
	uint32_t at = 0;

	if (!len || len % UC_ENTRY)
		return -FI_EINVAL;
	uc_lock(w);
	while (at < len && entry_valid(peer, buf + at))
		at += UC_ENTRY;
	len = at == len ? len : 0;
	for (at = 0; at < len; at += UC_ENTRY)
		entry_take(w->dev, peer, buf + at);
	uc_unlock(w);
	return len ? 0 : -FI_EINVAL;
}

const struct uccl_verbs_uc_stats *uccl_verbs_uc_stats(struct uccl_nic *nic)
{
	return &uc_of(nic)->dev->stats;
}

static void uc_count(struct uccl_nic *nic, struct uccl_stats *s)
{
	struct uc *w = uc_of(nic);
	struct uccl_mrcache_stats mr;

	uc_lock(w);
	mr = uccl_mrcache_stats(w->dev->sources);
	s->writes_in_place = w->tx_direct;
	s->mr_hits = mr.hits;
	s->mr_misses = mr.misses;
	s->mr_gone = mr.gone;
	s->mr_evicted = mr.evicted;
	s->qp_made = w->dev->stats.made;
	s->qp_reclaimed = w->dev->stats.reclaimed;
	s->qp_now = w->dev->nqps;
	uc_unlock(w);
}

static void uc_close(struct uccl_nic *nic)
{
	struct uc *w = uc_of(nic);

	while (TAILQ_FIRST(&w->peers))
		peer_free(w, TAILQ_FIRST(&w->peers));
	if (w->dev)
		uccl_uc_dev_put(w);
	if (w->kick_fd >= 0)
		close(w->kick_fd);
	free(w->told);
	free(w->arrived);
	if (w->packets)
		w->packets->ops->close(w->packets);
	free(w);
}

#define UC_OPS(title)                                                                                                  \
	{                                                                                                              \
		.name = title, .tx = uc_tx, .rx = uc_rx, .slots = uc_slots, .connect = uc_connect,                     \
		.disconnect = uc_disconnect, .fence = uc_fence, .reg = uc_reg, .dereg = uc_dereg,                      \
		.prepare = uc_prepare, .finish = uc_finish, .offer = uc_offer, .accept = uc_accept,                    \
		.renew = uc_renew, .count = uc_count, .wait_fd = uc_wait_fd, .addr = uc_addr, .close = uc_close,       \
	}

static const struct uccl_nic_ops uc_ops = UC_OPS("verbs-uc"), rc_ops = UC_OPS("verbs-rc");

/* Opening. */

/*
 * Soft-RoCE's UC is dead for ever after the loss of a packet in the middle of a write, or of its last: there a write is
 * one packet, unless a person wants it otherwise. Of other NICs nothing is known: a path that swallows writes is made
 * anew (PROTOCOL R84).
 */
uint32_t uccl_verbs_write_max(const struct uccl_verbs_port *port, enum ibv_qp_type type, uint32_t wish)
{
	if (wish)
		return (uint32_t)uccl_clamp(wish, port->mtu, WRITE_PACKETS * port->mtu);
	return type == IBV_QPT_UC && !strcmp(port->driver, "rxe") ? port->mtu : WRITE_MAX;
}

static int rings_open(struct uc *w)
{
	w->told_size = UC_TOLD;
	w->told = calloc(w->told_size, sizeof(*w->told));
	for (w->arrived_size = 1; w->arrived_size < w->dev->srq_depth; w->arrived_size *= 2)
		;
	w->arrived = calloc(w->arrived_size, sizeof(*w->arrived));
	return w->told && w->arrived ? 0 : -FI_ENOMEM;
}

int uccl_verbs_uc_open(const struct uccl_verbs *lib, uint64_t (*clock)(void), enum ibv_qp_type type,
		       const struct uccl_nic_attr *attr, struct uccl_nic **nic)
{
	struct uc *w = calloc(1, sizeof(*w));
	int err;

	if (!w)
		return -FI_ENOMEM;
	w->kick_fd = -1;
	TAILQ_INIT(&w->peers);
	TAILQ_INIT(&w->news);
	err = uccl_verbs_ud_open(lib, clock, attr, &w->packets);
	if (err) {
		free(w);
		return err;
	}
	w->ud = ud_of(w->packets);
	w->nic.ops = type == IBV_QPT_RC ? &rc_ops : &uc_ops;
	w->nic.caps = w->packets->caps;
	w->nic.caps.write_max = uccl_verbs_write_max(&w->ud->port, type, attr->write_bytes);
	w->nic.caps.reliable = type == IBV_QPT_RC;
	w->nic.caps.write_async = true;
	w->nic.caps.dereg_fences = true;
	err = uccl_uc_dev_get(lib, clock, type, attr, w);
	if (!err)
		err = rings_open(w);
	if (err) {
		uc_close(&w->nic);
		return err;
	}
	w->nic.caps.rx_slots = (uint32_t)uccl_min(w->nic.caps.rx_slots, w->dev->srq_depth / 2);
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
