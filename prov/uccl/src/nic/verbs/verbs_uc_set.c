/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sets of connected queue pairs: these are made when a large message comes, together with the peer, and taken back when
 * idle.
 */
#include "nic/verbs/uc_state.h"

#ifdef HAVE_VERBS

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <rdma/fi_errno.h>

#include "base/le.h"
#include "base/log.h"

#define RETRY_NS (100 * UCCL_NS_PER_MS) /* between two queue pairs of one path that we make unsolicited, at least */
#define YIELD_NS (10 * UCCL_NS_PER_MS) /* between two looks for what could be given to another back end */
#define IDLE_NS UCCL_NS_PER_S		/* a set that nobody used for so long may go for another peer's */
/* RC: the NIC asks again after 4.096 us << 17, half a second; the protocol has sent by other ways long before. */
#define SET_SURE 16 /* queue pairs of a set that are not held back for others */
#define RC_TIMEOUT 17
#define RC_RETRIES 7
#define RC_RNR_TIMER 12 /* 0.64 ms */

/* Queue pairs. */

static void events_for(struct uc_peer *peer, uint16_t path)
{
	peer->events[path / 64] |= 1ull << (path % 64);
	if (!peer->has_events)
		TAILQ_INSERT_TAIL(&peer->w->events, peer, events_link);
	peer->has_events = true;
	uccl_uc_kick(peer->w);
}

/* All endpoints that use the path are to be told of it, and whoever is asks what is to be said. */
static void events_add(const struct uc_path *p)
{
	for (int i = 0; i < UC_FLOWS; i++)
		if (p->set->flow[i] && p->set->flow[i]->joined)
			events_for(p->set->flow[i], p->index);
}

/* Both are connected to each other: the leader knows by the answer, the other one is told. PROTOCOL R82 */
static void able_check(struct uc_path *p)
{
	bool able = p->sq.qp && p->joined && (p->set->leads || p->may == p->gen);

	if (able == p->able)
		return;
	p->able = able;
	events_add(p);
}

static int qp_create(struct uc_dev *d, struct ibv_qp **qp)
{
	struct ibv_qp_init_attr init = {
		.send_cq = d->tx_cq, .recv_cq = d->rx_cq, .srq = d->srq, .qp_type = d->type};

	init.cap.max_send_wr = (uint32_t)uccl_min(UCCL_VERBS_SQ_DEPTH, d->port.max_qp_wr);
	init.cap.max_send_sge = 1;
	*qp = d->lib->create_qp(d->pd, &init);
	return *qp ? 0 : uccl_verbs_error();
}

int uccl_uc_probe(struct uc_dev *d)
{
	struct ibv_qp *qp;
	int err = qp_create(d, &qp);

	if (!err)
		d->lib->destroy_qp(qp);
	return err;
}

static struct uc_slot *slot_get(struct uc_dev *d)
{
	uint32_t i;

	for (i = 0; i < d->max_qp; i++) {
		struct uc_slot *s = &d->slot[d->next_slot];

		d->next_slot = (d->next_slot + 1) % d->max_qp;
		if (!s->path)
			return s;
	}
	return NULL;
}

static void path_end(struct uc_dev *d, struct uc_path *p)
{
	if (!p->sq.qp)
		return;
	HASH_DEL(d->by_qpn, p);
	uccl_verbs_sq_end(d->lib, &p->sq, &d->tx);
	d->slot[p->slot].generation = p->sq.generation;
	d->slot[p->slot].path = NULL;
	d->nqps--;
	atomic_fetch_sub(&d->budget->used, 1);
	p->set->nqps--;
	p->joined = false;
	p->pair_due = p->ready_due = false;
	able_check(p);
}

/* One more queue pair, of those that this process may have. */
static bool budget_take(struct uc_dev *d)
{
	if (atomic_fetch_add(&d->budget->used, 1) < d->max_qp)
		return true;
	atomic_fetch_sub(&d->budget->used, 1);
	return false;
}

/* Make our queue pair of a path, which has none; it is counted already, and is no more if it fails. */
static int path_make(struct uc_dev *d, struct uc_path *p)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = d->port.port, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct uc_slot *s = slot_get(d);
	int err = -FI_ENOMEM;

	p->sq.retry_at = d->clock() + RETRY_NS;
	if (!s || uccl_verbs_sq_init(&p->sq))
		goto fail;
	err = getrandom(&p->psn, sizeof(p->psn), 0) == sizeof(p->psn) ? 0 : -FI_EIO;
	if (err)
		goto fail;
	p->psn &= UC_PSN_MASK;
	err = qp_create(d, &p->sq.qp);
	if (err)
		goto fail;
	err = -d->lib->modify_qp(p->sq.qp, &a,
				 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (err)
		goto destroy;
	p->qpn = p->sq.qp->qp_num;
	HASH_ADD(hh, d->by_qpn, qpn, sizeof(p->qpn), p);
	err = p->hh.tbl ? 0 : -FI_ENOMEM;
	if (err)
		goto destroy;
	s->path = p;
	p->slot = (uint16_t)(s - d->slot);
	p->sq.generation = s->generation;
	p->joined = false;
	p->pair_due = true;
	p->gone_due = false; /* what is said now says so too */
	d->nqps++;
	p->set->nqps++;
	d->stats.made++;
	return 0;
destroy:
	d->lib->destroy_qp(p->sq.qp);
	p->sq.qp = NULL;
fail:
	atomic_fetch_sub(&d->budget->used, 1);
	UCCL_LOG(UCCL_LOG_INFO, "%s: cannot make a queue pair for direct writes: %s", d->port.name, strerror(-err));
	return err;
}

static enum ibv_mtu path_mtu(const struct uc_dev *d, const struct uc_path *p)
{
	return (enum ibv_mtu)uccl_min(p->theirs.mtu, d->port.mtu_code);
}

static int to_rtr(struct uc_dev *d, struct uc_path *p)
{
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR, .dest_qp_num = p->theirs.qpn, .rq_psn = p->theirs.psn};
	const struct uccl_nic_addr *to = &p->set->to;
	struct uccl_verbs_ah_key key = {.mark = d->mark};

	memcpy(key.ip, to->ip, sizeof(key.ip));
	key.lid = to->pad < UD_ROCE_PAD ? to->pad : 0;
	/* A label of its own, so that the network sends it on a way of its own; 0 would leave the choice to the NIC. */
	if (!p->flow)
		p->flow = ((p->psn ^ p->qpn) & 0x3fff) | 0x4000;
	if (d->labels)
		key.flow = p->flow;
	uccl_verbs_route(&d->port, &key, &a.ah_attr);
	a.path_mtu = path_mtu(d, p);
	if (d->type == IBV_QPT_RC) {
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		a.max_dest_rd_atomic = 1;
		a.min_rnr_timer = RC_RNR_TIMER;
	}
	return d->lib->modify_qp(p->sq.qp, &a, mask);
}

static int to_rts(struct uc_dev *d, struct uc_path *p)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS, .sq_psn = p->psn};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (d->type == IBV_QPT_RC) {
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
		a.timeout = RC_TIMEOUT;
		a.retry_cnt = a.rnr_retry = RC_RETRIES;
		a.max_rd_atomic = 1;
	}
	return d->lib->modify_qp(p->sq.qp, &a, mask);
}

/* Connect ours, which is new, to the peer's. */
static int path_join(struct uc_dev *d, struct uc_path *p)
{
	int err = to_rtr(d, p);

	if (!err)
		err = to_rts(d, p);
	if (err) {
		UCCL_LOG(UCCL_LOG_INFO, "%s: cannot connect a queue pair: %s", d->port.name, strerror(err));
		return -err;
	}
	p->joined = true;
	d->stats.joined++;
	able_check(p);
	return 0;
}

struct uc_path *uccl_uc_path_find(struct uc_dev *d, uint32_t qpn)
{
	struct uc_path *p;

	HASH_FIND(hh, d->by_qpn, &qpn, sizeof(qpn), p);
	return p;
}

/* Bounds. */

static bool set_idle(const struct uc_set *s, uint64_t now)
{
	uint16_t i;

	if (!s->nqps || now - s->used_ns < IDLE_NS)
		return false;
	for (i = 0; i < s->n; i++)
		if (s->path[i].sq.qp && s->path[i].sq.head != s->path[i].sq.tail)
			return false;
	return true;
}

/* Take back the set that was not used for longest. The peer hears of it, so that it writes there no more. */
static bool set_reclaim(struct uc_dev *d, const struct uc_set *not_this)
{
	uint64_t now = d->clock();
	struct uc_set *s, *best = NULL;
	uint16_t i;

	TAILQ_FOREACH(s, &d->sets, all)
		if (s != not_this && set_idle(s, now) && (!best || s->used_ns < best->used_ns))
			best = s;
	if (!best)
		return false;
	for (i = 0; i < best->n; i++) {
		struct uc_path *p = &best->path[i];

		if (!p->sq.qp)
			continue;
		path_end(d, p);
		p->gone_due = true;
		events_add(p);
	}
	d->stats.reclaimed++;
	return true;
}

/* Room for one more, which counts from now on. */
static bool room_make(struct uc_dev *d, const struct uc_set *s)
{
	if (budget_take(d) || (set_reclaim(d, s) && budget_take(d)))
		return true;
	atomic_store(&d->budget->wanted, true);
	return false;
}

void uccl_uc_yield(struct uc_dev *d)
{
	if (!atomic_load_explicit(&d->budget->wanted, memory_order_relaxed) || d->clock() < d->yield_at)
		return;
	d->yield_at = d->clock() + YIELD_NS;
	if (set_reclaim(d, NULL))
		atomic_store(&d->budget->wanted, false);
}

/* Who has many queue pairs gets more only while half of all are free: peers that come later need some, too. */
static bool room_shared(const struct uc_dev *d, const struct uc_set *s)
{
	return s->nqps < SET_SURE || atomic_load(&d->budget->used) < d->max_qp / 2;
}

/* The leader begins a new pair: a queue pair of its own, which is to be offered. */
static bool pair_begin(struct uc_dev *d, struct uc_path *p)
{
	if (!room_shared(d, p->set) || !room_make(d, p->set) || path_make(d, p))
		return false;
	p->gen++;
	return true;
}

static void wait_add(struct uc_dev *d, struct uc_path *p)
{
	if (p->waits)
		return;
	p->waits = true;
	TAILQ_INSERT_TAIL(&d->waiting, p, wait);
}

/* Only the leader makes it anew, and not too often; the other one asks for it. PROTOCOL R81 */
void uccl_uc_path_broke(struct uc_dev *d, struct uc_path *p)
{
	path_end(d, p);
	events_add(p);
	if (!p->set->leads)
		p->want_due = true;
	else if (d->clock() < p->sq.retry_at || !pair_begin(d, p))
		wait_add(d, p);
}

void uccl_uc_paths_end(struct uc_dev *d)
{
	struct uc_set *s;
	uint16_t i;

	TAILQ_FOREACH(s, &d->sets, all) {
		for (i = 0; i < s->n; i++) {
			struct uc_path *p = &s->path[i];

			if (!p->sq.qp)
				continue;
			path_end(d, p);
			events_add(p);
			if (s->leads)
				wait_add(d, p);
			else
				p->want_due = true;
		}
	}
}

void uccl_uc_paths_retry(struct uc_dev *d)
{
	struct uc_path *p = TAILQ_FIRST(&d->waiting);

	/* In the order of their times, all but a few: those are late by one round. */
	if (!p || d->clock() < p->sq.retry_at)
		return;
	TAILQ_REMOVE(&d->waiting, p, wait);
	p->waits = false;
	events_add(p);
	if (!p->sq.qp && !pair_begin(d, p))
		wait_add(d, p);
}

/* Say again what the other side has not answered, or may not know. */
static void repeat(struct uc_path *p)
{
	if (!p->sq.qp)
		return;
	p->pair_due |= p->set->leads ? !p->joined : !p->able;
	p->ready_due |= p->set->leads && p->joined;
}

/* Sets. */

struct uc_set *uccl_uc_set_new(struct uc_dev *d, const struct uc_peer *peer, bool leads)
{
	struct uc_set *s = calloc(1, sizeof(*s) + peer->n * sizeof(s->path[0]));
	uint16_t i;

	if (!s)
		return NULL;
	s->to = peer->to;
	s->process = peer->process;
	s->leads = leads;
	s->n = peer->n;
	for (i = 0; i < s->n; i++) {
		s->path[i].set = s;
		s->path[i].index = i;
	}
	TAILQ_INSERT_TAIL(&d->sets, s, all);
	return s;
}

int uccl_uc_set_room(const struct uc_set *s)
{
	/* A late write may still carry the number that was used last: PROTOCOL R97 */
	for (int i = 0; i < UC_FLOWS; i++)
		if (!s->flow[(s->next_flow + i) % UC_FLOWS])
			return (s->next_flow + i) % UC_FLOWS;
	return -1;
}

void uccl_uc_set_add(struct uc_set *s, struct uc_peer *peer, uint8_t number)
{
	s->flow[number] = peer;
	s->next_flow = (uint8_t)((number + 1) % UC_FLOWS);
	s->nflows++;
	peer->set = s;
	peer->number = number;
}

void uccl_uc_set_event(struct uc_peer *peer)
{
	for (uint16_t i = 0; i < peer->n; i++)
		if (peer->set->path[i].able)
			events_for(peer, i);
}

/* Is a write of this flow under way in the queue pair? */
static bool path_busy(const struct uc_path *p, const struct uc_peer *peer)
{
	for (uint32_t i = p->sq.tail; p->sq.qp && i != p->sq.head; i++)
		if (p->sq.sent[i % UCCL_VERBS_SQ_DEPTH].owner == peer)
			return true;
	return false;
}

static void path_forget(struct uc_dev *d, struct uc_path *p)
{
	path_end(d, p);
	if (p->waits)
		TAILQ_REMOVE(&d->waiting, p, wait);
	uccl_verbs_sq_fini(&p->sq);
}

void uccl_uc_set_leave(struct uc_dev *d, struct uc_peer *peer)
{
	struct uc_set *s = peer->set;
	uint16_t i;

	if (s->nflows == 1) {
		for (i = 0; i < s->n; i++)
			path_forget(d, &s->path[i]);
		TAILQ_REMOVE(&d->sets, s, all);
		free(s);
		peer->set = NULL;
		peer->joined = false;
		return;
	}
	peer->joined = false;
	for (i = 0; i < s->n; i++)
		if (path_busy(&s->path[i], peer))
			uccl_uc_path_broke(d, &s->path[i]);
	s->flow[peer->number] = NULL;
	s->nflows--;
	peer->set = NULL;
}

/* What the two sides say. */

static void pair_ask(struct uc_dev *d, struct uc_path *p)
{
	p->sq.retry_at = d->clock() + RETRY_NS;
	p->want_due = true;
}

/*
 * Destroyed, and not only reset: a queue pair that comes back with its number takes what is still on its way
 * (reliability rules, E9). What the peer has under way there is lost, and comes again as packets.
 */
void uccl_uc_set_fence(struct uc_dev *d, struct uc_set *s, uint16_t path)
{
	if (s->path[path].sq.qp)
		uccl_uc_path_broke(d, &s->path[path]);
	for (int i = 0; i < UC_FLOWS; i++) {
		if (!s->flow[i] || !s->flow[i]->joined)
			continue;
		s->flow[i]->fenced[path / 64] |= 1ull << (path % 64);
		events_for(s->flow[i], path);
	}
}

/*
 * A queue pair that gets writes of one packet each is not broken by the loss of one (uccl_verbs_write_brittle), and the
 * port of Soft-RoCE follows from its number: it stays, too. PROTOCOL R250
 */
void uccl_uc_set_renew(struct uc_dev *d, struct uc_peer *peer, uint16_t path, bool stays, uint32_t write_max)
{
	struct uc_path *p = &peer->set->path[path];

	if (!p->sq.qp)
		return;
	if (stays && p->able && d->type == IBV_QPT_UC && write_max <= 128u << path_mtu(d, p)) {
		events_for(peer, path);
		return;
	}
	if (!stays)
		p->flow = 0;
	uccl_uc_path_broke(d, p);
}

bool uccl_uc_set_prepare(struct uc_dev *d, struct uc_set *s)
{
	uint64_t now = d->clock();
	bool ready = false;
	uint16_t i;

	s->used_ns = now;
	for (i = 0; i < s->n; i++) {
		struct uc_path *p = &s->path[i];

		ready |= p->joined;
		if (p->able || now < p->sq.retry_at)
			continue;
		if (p->sq.qp) {
			/* Said long ago; perhaps by a flow whose program does something else now. */
			p->sq.retry_at = now + RETRY_NS;
			repeat(p);
		} else if (s->leads) {
			pair_begin(d, p);
		} else {
			pair_ask(d, p);
		}
	}
	return ready;
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
static bool entry_next(struct uc_dev *d, struct uc_path *p, uint8_t *at)
{
	if (p->gone_due) {
		p->gone_due = false;
		entry_put(at, p, UC_GONE, 0, 0, 0);
	} else if (p->want_due) {
		p->want_due = false;
		entry_put(at, p, UC_WANT, 0, 0, 0);
	} else if (p->pair_due) {
		p->pair_due = false;
		entry_put(at, p, p->set->leads ? UC_OFFER : UC_ANSWER, d->port.mtu_code, p->qpn, p->psn);
	} else if (p->ready_due) {
		p->ready_due = false;
		entry_put(at, p, UC_READY, 0, 0, 0);
	} else {
		return false;
	}
	return true;
}

bool uccl_uc_set_say(struct uc_dev *d, struct uc_set *s, uint8_t *at)
{
	for (uint16_t i = 0; i < s->n; i++)
		if (entry_next(d, &s->path[i], at))
			return true;
	return false;
}

static void theirs_take(struct uc_path *p, const uint8_t *at)
{
	p->theirs.mtu = at[1];
	p->theirs.qpn = uccl_get32(at + 8);
	p->theirs.psn = uccl_get32(at + 12);
}

/* The leader's new queue pair: ours is to be new too, it is connected to one only. PROTOCOL R81 */
static void offer_take(struct uc_dev *d, struct uc_path *p, uint32_t gen, const uint8_t *at)
{
	if (gen == p->gen && p->joined && p->theirs.qpn == uccl_get32(at + 8))
		p->pair_due = true; /* said again: so is the answer */
	if ((int32_t)(gen - p->gen) <= 0)
		return;
	theirs_take(p, at);
	path_end(d, p);
	p->gen = gen;
	p->want_due = false;
	if (room_make(d, p->set) && !path_make(d, p) && !path_join(d, p))
		return;
	path_end(d, p);
	p->gone_due = true;
}

/* The other's, which is connected to ours. */
static void answer_take(struct uc_dev *d, struct uc_path *p, uint32_t gen, const uint8_t *at)
{
	if (!p->sq.qp || gen != p->gen)
		return;
	if (p->joined) {
		p->ready_due = true; /* that was not heard */
		return;
	}
	theirs_take(p, at);
	if (path_join(d, p))
		uccl_uc_path_broke(d, p);
	else
		p->ready_due = true;
}

/* The other one has none, or no good one, of this generation or before. */
static void want_take(struct uc_dev *d, struct uc_path *p, uint32_t gen)
{
	if (p->waits || (p->sq.qp && gen != p->gen))
		return;
	uccl_uc_path_broke(d, p);
}

static void gone_take(struct uc_dev *d, struct uc_path *p, uint32_t gen)
{
	if (gen != p->gen || !p->sq.qp)
		return;
	path_end(d, p);
	events_add(p);
}

bool uccl_uc_set_valid(const struct uc_peer *peer, const uint8_t *at)
{
	uint32_t gen = uccl_get32(at + 4), qpn = uccl_get32(at + 8), psn = uccl_get32(at + 12);
	bool by_leader = at[0] == UC_OFFER || at[0] == UC_READY;

	if (uccl_get16(at + 2) >= peer->n || (!gen && at[0] != UC_WANT))
		return false;
	/* Before that is known, nothing is taken anyway. */
	if (peer->joined && at[0] != UC_GONE && peer->set->leads == by_leader)
		return false;
	switch (at[0]) {
	case UC_OFFER:
	case UC_ANSWER:
		return at[1] >= IBV_MTU_256 && at[1] <= IBV_MTU_4096 && qpn > 1 && qpn <= UD_QPN_MASK &&
		       psn <= UC_PSN_MASK;
	case UC_READY:
	case UC_WANT:
	case UC_GONE:
		return !at[1] && !qpn && !psn;
	default:
		return false;
	}
}

void uccl_uc_set_take(struct uc_dev *d, struct uc_set *s, const uint8_t *at)
{
	struct uc_path *p = &s->path[uccl_get16(at + 2)];
	uint32_t gen = uccl_get32(at + 4);

	s->used_ns = d->clock();
	switch (at[0]) {
	case UC_OFFER:
		offer_take(d, p, gen, at);
		break;
	case UC_ANSWER:
		answer_take(d, p, gen, at);
		break;
	case UC_READY:
		if ((int32_t)(gen - p->may) > 0)
			p->may = gen;
		able_check(p);
		break;
	case UC_WANT:
		want_take(d, p, gen);
		break;
	default:
		gone_take(d, p, gen);
	}
}

#endif
