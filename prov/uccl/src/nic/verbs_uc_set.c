/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Sets of connected queue pairs: made when a large message comes, together with the peer, taken back when idle. */
#include "nic/verbs_uc.h"

#ifdef HAVE_VERBS

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <rdma/fi_errno.h>

#include "base/le.h"
#include "base/log.h"

#define RETRY_NS (100 * UCCL_NS_PER_MS) /* between two queue pairs of one path that we make unasked, at least */
#define YIELD_NS (10 * UCCL_NS_PER_MS) /* between two looks for what could be given to another back end */
#define IDLE_NS UCCL_NS_PER_S		/* a set that nobody used for so long may go for another peer's */
/* RC: the NIC asks again after 4.096 us << 17, half a second; the protocol has sent by other ways long before. */
#define RC_TIMEOUT 17
#define RC_RETRIES 7
#define RC_RNR_TIMER 12 /* 0.64 ms */

/* Queue pairs. */

static void news_add(struct uc *w, struct uc_path *p)
{
	if (p->has_news)
		return;
	p->has_news = true;
	TAILQ_INSERT_TAIL(&w->news, p, news);
}

/* Both are connected to each other: the leader knows by the answer, the other one is told. PROTOCOL R82 */
static void able_check(struct uc *w, struct uc_path *p)
{
	bool able = p->sq.qp && p->joined && (p->peer->leads || p->may == p->gen);

	if (able != p->able)
		news_add(w, p);
	p->able = able;
}

static int qp_create(struct uc *w, struct ibv_qp **qp)
{
	struct ibv_qp_init_attr init = {
		.send_cq = w->tx_cq, .recv_cq = w->rx_cq, .srq = w->srq, .qp_type = w->type};

	init.cap.max_send_wr = (uint32_t)uccl_min(UCCL_VERBS_SQ_DEPTH, w->ud->port.max_qp_wr);
	init.cap.max_send_sge = 1;
	*qp = w->lib->create_qp(w->ud->pd, &init);
	return *qp ? 0 : errno > 0 ? -errno : -FI_EIO;
}

int uccl_uc_probe(struct uc *w)
{
	struct ibv_qp *qp;
	int err = qp_create(w, &qp);

	if (!err)
		w->lib->destroy_qp(qp);
	return err;
}

static struct uc_slot *slot_get(struct uc *w)
{
	uint32_t i;

	for (i = 0; i < w->max_qp; i++) {
		struct uc_slot *s = &w->slot[w->next_slot];

		w->next_slot = (w->next_slot + 1) % w->max_qp;
		if (!s->path)
			return s;
	}
	return NULL;
}

static void path_end(struct uc *w, struct uc_path *p)
{
	if (!p->sq.qp)
		return;
	HASH_DEL(w->by_qpn, p);
	uccl_verbs_sq_end(w->lib, &p->sq, &w->tx);
	w->slot[p->slot].life = p->sq.life;
	w->slot[p->slot].path = NULL;
	w->nqps--;
	atomic_fetch_sub(&w->budget->used, 1);
	p->peer->nqps--;
	p->joined = false;
	p->pair_due = p->ready_due = false;
	able_check(w, p);
}

/* One more queue pair, of those that this process may have. */
static bool budget_take(struct uc *w)
{
	if (atomic_fetch_add(&w->budget->used, 1) < w->max_qp)
		return true;
	atomic_fetch_sub(&w->budget->used, 1);
	return false;
}

/* Make our queue pair of a path, which has none; it is counted already, and is no more if it fails. */
static int path_make(struct uc *w, struct uc_path *p)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = w->ud->port.port, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct uc_slot *s = slot_get(w);
	int err = -FI_ENOMEM;

	p->sq.retry_at = w->ud->clock() + RETRY_NS;
	if (!s || uccl_verbs_sq_init(&p->sq))
		goto fail;
	err = getrandom(&p->psn, sizeof(p->psn), 0) == sizeof(p->psn) ? 0 : -FI_EIO;
	if (err)
		goto fail;
	p->psn &= UC_PSN_MASK;
	err = qp_create(w, &p->sq.qp);
	if (err)
		goto fail;
	err = -w->lib->modify_qp(p->sq.qp, &a,
				 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (err)
		goto destroy;
	p->qpn = p->sq.qp->qp_num;
	HASH_ADD(hh, w->by_qpn, qpn, sizeof(p->qpn), p);
	err = p->hh.tbl ? 0 : -FI_ENOMEM;
	if (err)
		goto destroy;
	s->path = p;
	p->slot = (uint16_t)(s - w->slot);
	p->sq.life = s->life;
	p->joined = false;
	p->pair_due = true;
	p->gone_due = false; /* what is said now says so too */
	w->nqps++;
	p->peer->nqps++;
	w->stats.made++;
	return 0;
destroy:
	w->lib->destroy_qp(p->sq.qp);
	p->sq.qp = NULL;
fail:
	atomic_fetch_sub(&w->budget->used, 1);
	UCCL_LOG(UCCL_LOG_INFO, "%s: no queue pair to write with: error %d", w->ud->port.name, -err);
	return err;
}

static int to_rtr(struct uc *w, struct uc_path *p)
{
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR, .dest_qp_num = p->theirs.qpn, .rq_psn = p->theirs.psn};
	const struct uccl_nic_addr *to = &p->peer->to;
	struct uccl_verbs_ah_key key = {.mark = w->ud->mark[0]};

	memcpy(key.ip, to->ip, sizeof(key.ip));
	key.lid = to->pad < UD_ROCE_PAD ? to->pad : 0;
	/* A label of its own, so that the network sends it on a way of its own; 0 would leave the choice to the NIC. */
	if (w->ud->flows > 1)
		key.flow = ((p->psn ^ p->qpn) & 0x3fff) | 0x4000;
	uccl_verbs_route(&w->ud->port, &key, &a.ah_attr);
	a.path_mtu = (enum ibv_mtu)uccl_min(p->theirs.mtu, uccl_uc_mtu(w));
	if (w->type == IBV_QPT_RC) {
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		a.max_dest_rd_atomic = 1;
		a.min_rnr_timer = RC_RNR_TIMER;
	}
	return w->lib->modify_qp(p->sq.qp, &a, mask);
}

static int to_rts(struct uc *w, struct uc_path *p)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS, .sq_psn = p->psn};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (w->type == IBV_QPT_RC) {
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
		a.timeout = RC_TIMEOUT;
		a.retry_cnt = a.rnr_retry = RC_RETRIES;
		a.max_rd_atomic = 1;
	}
	return w->lib->modify_qp(p->sq.qp, &a, mask);
}

/* Connect ours, which is new, to the peer's. */
static int path_join(struct uc *w, struct uc_path *p)
{
	int err = to_rtr(w, p);

	if (!err)
		err = to_rts(w, p);
	if (err) {
		UCCL_LOG(UCCL_LOG_INFO, "%s: a queue pair cannot be connected: error %d", w->ud->port.name, err);
		return -err;
	}
	p->joined = true;
	w->stats.joined++;
	able_check(w, p);
	return 0;
}

struct uc_path *uccl_uc_path_find(struct uc *w, uint32_t qpn)
{
	struct uc_path *p;

	HASH_FIND(hh, w->by_qpn, &qpn, sizeof(qpn), p);
	return p;
}

/* Bounds. */

static bool peer_idle(const struct uc_peer *peer, uint64_t now)
{
	uint16_t i;

	if (!peer->nqps || now - peer->used_ns < IDLE_NS)
		return false;
	for (i = 0; i < peer->n; i++)
		if (peer->path[i].sq.qp && peer->path[i].sq.head != peer->path[i].sq.tail)
			return false;
	return true;
}

/* Take back the set that was not used for longest. The peer hears of it, so that it writes there no more. */
static bool set_reclaim(struct uc *w, const struct uc_peer *not_this)
{
	uint64_t now = w->ud->clock();
	struct uc_peer *peer, *best = NULL;
	uint16_t i;

	TAILQ_FOREACH(peer, &w->peers, all)
		if (peer != not_this && peer_idle(peer, now) && (!best || peer->used_ns < best->used_ns))
			best = peer;
	if (!best)
		return false;
	for (i = 0; i < best->n; i++) {
		struct uc_path *p = &best->path[i];

		if (!p->sq.qp)
			continue;
		path_end(w, p);
		p->gone_due = true;
		news_add(w, p);
	}
	w->stats.reclaimed++;
	return true;
}

/* Room for one more, which counts from now on. */
static bool room_make(struct uc *w, const struct uc_peer *peer)
{
	if (budget_take(w) || (set_reclaim(w, peer) && budget_take(w)))
		return true;
	atomic_store(&w->budget->wanted, true);
	return false;
}

void uccl_uc_yield(struct uc *w)
{
	if (!atomic_load_explicit(&w->budget->wanted, memory_order_relaxed) || w->ud->clock() < w->yield_at)
		return;
	w->yield_at = w->ud->clock() + YIELD_NS;
	if (set_reclaim(w, NULL))
		atomic_store(&w->budget->wanted, false);
}

/* The leader begins a new pair: a queue pair of its own, which is to be offered. */
static bool pair_begin(struct uc *w, struct uc_path *p)
{
	if (!room_make(w, p->peer) || path_make(w, p))
		return false;
	p->gen++;
	return true;
}

static void wait_add(struct uc *w, struct uc_path *p)
{
	if (p->waits)
		return;
	p->waits = true;
	TAILQ_INSERT_TAIL(&w->waiting, p, wait);
}

/* Only the leader makes it anew, and not too often; the other one asks for it. PROTOCOL R81 */
void uccl_uc_path_broke(struct uc *w, struct uc_path *p)
{
	path_end(w, p);
	news_add(w, p);
	if (!p->peer->leads)
		p->want_due = true;
	else if (w->ud->clock() < p->sq.retry_at || !pair_begin(w, p))
		wait_add(w, p);
}

void uccl_uc_paths_end(struct uc *w)
{
	struct uc_peer *peer;
	uint16_t i;

	TAILQ_FOREACH(peer, &w->peers, all) {
		for (i = 0; i < peer->n; i++) {
			struct uc_path *p = &peer->path[i];

			if (!p->sq.qp)
				continue;
			path_end(w, p);
			news_add(w, p);
			if (peer->leads)
				wait_add(w, p);
			else
				p->want_due = true;
		}
	}
}

void uccl_uc_paths_retry(struct uc *w)
{
	struct uc_path *p = TAILQ_FIRST(&w->waiting);

	/* In the order of their times, all but a few: those are late by one round. */
	if (!p || w->ud->clock() < p->sq.retry_at)
		return;
	TAILQ_REMOVE(&w->waiting, p, wait);
	p->waits = false;
	news_add(w, p);
	if (!p->sq.qp && !pair_begin(w, p))
		wait_add(w, p);
}

static void path_forget(struct uc *w, struct uc_path *p)
{
	path_end(w, p);
	if (p->has_news)
		TAILQ_REMOVE(&w->news, p, news);
	if (p->waits)
		TAILQ_REMOVE(&w->waiting, p, wait);
	uccl_verbs_sq_fini(&p->sq);
}

void uccl_uc_peer_free(struct uc *w, struct uc_peer *peer)
{
	uint16_t i;

	for (i = 0; i < peer->n; i++)
		path_forget(w, &peer->path[i]);
	TAILQ_REMOVE(&w->peers, peer, all);
	free(peer);
}

/* What the two sides say. */

static void pair_ask(struct uc *w, struct uc_path *p)
{
	p->sq.retry_at = w->ud->clock() + RETRY_NS;
	p->want_due = true;
}

int uccl_uc_prepare(struct uccl_nic *nic, struct uccl_nic_peer *np)
{
	struct uc_peer *peer = (struct uc_peer *)np;
	struct uc *w = uc_of(nic);
	uint64_t now = w->ud->clock();
	bool ready = false;
	uint16_t i;

	peer->used_ns = now;
	for (i = 0; i < peer->n; i++) {
		struct uc_path *p = &peer->path[i];

		if (!p->sq.qp && now >= p->sq.retry_at && peer->leads)
			pair_begin(w, p);
		else if (!p->sq.qp && now >= p->sq.retry_at)
			pair_ask(w, p);
		ready |= p->joined;
	}
	return ready ? 0 : -FI_EAGAIN;
}

void uccl_uc_renew(struct uccl_nic *nic, struct uccl_nic_peer *np, uint16_t path)
{
	struct uc_peer *peer = (struct uc_peer *)np;

	if (path < peer->n && peer->path[path].sq.qp)
		uccl_uc_path_broke(uc_of(nic), &peer->path[path]);
}

static void entry_put(uint8_t *at, const struct uc_path *p, enum uc_kind kind, uint8_t mtu, uint32_t qpn, uint32_t psn)
{
	at[0] = (uint8_t)kind;
	at[1] = mtu;
	uccl_put16(at + 2, p->index);
	uccl_put32(at + 4, p->gen);
	uccl_put32(at + 8, qpn);
	uccl_put32(at + 12, psn);
}

/* The next thing that is due of a path. */
static bool entry_next(struct uc *w, struct uc_path *p, uint8_t *at)
{
	if (p->gone_due) {
		p->gone_due = false;
		entry_put(at, p, UC_GONE, 0, 0, 0);
	} else if (p->want_due) {
		p->want_due = false;
		entry_put(at, p, UC_WANT, 0, 0, 0);
	} else if (p->pair_due) {
		p->pair_due = false;
		entry_put(at, p, p->peer->leads ? UC_OFFER : UC_ANSWER, uccl_uc_mtu(w), p->qpn, p->psn);
	} else if (p->ready_due) {
		p->ready_due = false;
		entry_put(at, p, UC_READY, 0, 0, 0);
	} else {
		return false;
	}
	return true;
}

uint32_t uccl_uc_offer(struct uccl_nic *nic, struct uccl_nic_peer *np, uint8_t *buf, uint32_t n)
{
	struct uc_peer *peer = (struct uc_peer *)np;
	struct uc *w = uc_of(nic);
	uint32_t len = 0;
	uint16_t i;

	for (i = 0; i < peer->n; i++)
		while (len + UC_ENTRY <= n && entry_next(w, &peer->path[i], buf + len))
			len += UC_ENTRY;
	return len;
}

static void theirs_take(struct uc_path *p, const uint8_t *at)
{
	p->theirs.mtu = at[1];
	p->theirs.qpn = uccl_get32(at + 8);
	p->theirs.psn = uccl_get32(at + 12);
}

/* The leader's new queue pair: ours is to be new too, it is connected to one only. PROTOCOL R81 */
static void offer_take(struct uc *w, struct uc_path *p, uint32_t gen, const uint8_t *at)
{
	if ((int32_t)(gen - p->gen) <= 0)
		return;
	theirs_take(p, at);
	path_end(w, p);
	p->gen = gen;
	p->want_due = false;
	if (room_make(w, p->peer) && !path_make(w, p) && !path_join(w, p))
		return;
	path_end(w, p);
	p->gone_due = true;
}

/* The other's, which is connected to ours. */
static void answer_take(struct uc *w, struct uc_path *p, uint32_t gen, const uint8_t *at)
{
	if (!p->sq.qp || gen != p->gen || p->joined)
		return;
	theirs_take(p, at);
	if (path_join(w, p))
		uccl_uc_path_broke(w, p);
	else
		p->ready_due = true;
}

/* The other one has none, or no good one, of this generation or before. */
static void want_take(struct uc *w, struct uc_path *p, uint32_t gen)
{
	if (p->waits || (p->sq.qp && gen != p->gen))
		return;
	uccl_uc_path_broke(w, p);
}

static void gone_take(struct uc *w, struct uc_path *p, uint32_t gen)
{
	if (gen != p->gen || !p->sq.qp)
		return;
	path_end(w, p);
	news_add(w, p);
}

static bool entry_valid(const struct uc_peer *peer, const uint8_t *at)
{
	uint32_t gen = uccl_get32(at + 4), qpn = uccl_get32(at + 8), psn = uccl_get32(at + 12);

	if (uccl_get16(at + 2) >= peer->n || (!gen && at[0] != UC_WANT))
		return false;
	switch (at[0]) {
	case UC_OFFER:
	case UC_ANSWER:
		return peer->leads == (at[0] == UC_ANSWER) && at[1] >= IBV_MTU_256 && at[1] <= IBV_MTU_4096 &&
		       qpn > 1 && qpn <= UD_QPN_MASK && psn <= UC_PSN_MASK;
	case UC_READY:
	case UC_WANT:
		return peer->leads == (at[0] == UC_WANT) && !at[1] && !qpn && !psn;
	case UC_GONE:
		return !at[1] && !qpn && !psn;
	default:
		return false;
	}
}

static void entry_take(struct uc *w, struct uc_path *p, const uint8_t *at)
{
	uint32_t gen = uccl_get32(at + 4);

	switch (at[0]) {
	case UC_OFFER:
		offer_take(w, p, gen, at);
		break;
	case UC_ANSWER:
		answer_take(w, p, gen, at);
		break;
	case UC_READY:
		if ((int32_t)(gen - p->may) > 0)
			p->may = gen;
		able_check(w, p);
		break;
	case UC_WANT:
		want_take(w, p, gen);
		break;
	default:
		gone_take(w, p, gen);
	}
}

int uccl_uc_accept(struct uccl_nic *nic, struct uccl_nic_peer *np, const uint8_t *buf, uint32_t len)
{
	struct uc_peer *peer = (struct uc_peer *)np;
	struct uc *w = uc_of(nic);
	uint32_t at;

	if (!len || len % UC_ENTRY)
		return -FI_EINVAL;
	for (at = 0; at < len; at += UC_ENTRY)
		if (!entry_valid(peer, buf + at))
			return -FI_EINVAL;
	peer->used_ns = w->ud->clock();
	for (at = 0; at < len; at += UC_ENTRY)
		entry_take(w, &peer->path[uccl_get16(buf + at + 2)], buf + at);
	return 0;
}

#endif
