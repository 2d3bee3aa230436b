/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sets of connected queue pairs. They are made when a large message comes, together with the peer, and taken back when
 * they are idle.
 */
#include "nic/verbs/uc_state.h"

#ifdef HAVE_VERBS

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <rdma/fi_errno.h>

#include "base/le.h"
#include "base/log.h"

#define RETRY_NS (100 * UCCL_NS_PER_MS) /* least time between two queue pairs of a path that we make on our own */
#define YIELD_NS (10 * UCCL_NS_PER_MS) /* between two searches for queue pairs that another back end could have */
#define IDLE_NS UCCL_NS_PER_S		/* a set that was not used for this long may be reclaimed for another peer */
#define SET_SURE 16 /* queue pairs that a set may have even if few are left */
/* RC: the NIC sends again after 4.096 us << 17, half a second; the protocol has sent by other paths long before. */
#define RC_TIMEOUT 17
#define RC_RETRIES 7
#define RC_RNR_TIMER 12 /* 0.64 ms */

/* Queue pairs. */

/* Queue an event for all endpoints that use the path. */
static void events_add(const struct uc_path *p)
{
	for (int i = 0; i < UC_FLOWS; i++)
		if (p->set->flow[i] && p->set->flow[i]->joined)
			uccl_uc_event(p->set->flow[i], p->index, false);
}

/* Both sides are connected: the answer shows it to the leader, READY to the other side. PROTOCOL R82 */
static void able_check(struct uc_path *p)
{
	bool able = p->sq.qp && p->joined && (p->set->leads || p->may == p->gen);

	if (able == p->able)
		return;
	p->able = able;
	events_add(p);
}

static void qp_init(const struct uc_dev *d, struct ibv_qp_init_attr *init)
{
	*init = (struct ibv_qp_init_attr){
		.send_cq = d->queues.tx_cq,
		.recv_cq = d->queues.rx_cq,
		.srq = d->queues.srq,
		.qp_type = (enum ibv_qp_type)d->key.type,
		.cap.max_send_wr = (uint32_t)uccl_min(UCCL_VERBS_SQ_DEPTH, d->port.max_qp_wr),
		.cap.max_send_sge = 1,
	};
}

int uccl_uc_probe(struct uc_dev *d)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp *qp;

	qp_init(d, &init);
	qp = d->lib->create_qp(d->pd, &init);
	if (!qp)
		return uccl_verbs_error();
	d->lib->destroy_qp(qp);
	return 0;
}

static struct uc_slot *slot_get(struct uc_dev *d)
{
	uint32_t i;

	for (i = 0; i < d->sets.max_qp; i++) {
		struct uc_slot *s = &d->sets.slot[d->sets.next_slot];

		d->sets.next_slot = (d->sets.next_slot + 1) % d->sets.max_qp;
		if (!s->path)
			return s;
	}
	return NULL;
}

static void path_end(struct uc_dev *d, struct uc_path *p)
{
	if (!p->sq.qp)
		return;
	HASH_DEL(d->sets.by_qpn, p);
	uccl_verbs_sq_end(d->lib, &p->sq, &d->tx.slab);
	d->sets.slot[p->slot].generation = p->sq.generation;
	d->sets.slot[p->slot].path = NULL;
	d->sets.nqps--;
	atomic_fetch_sub(&d->sets.budget->used, 1);
	p->set->nqps--;
	p->joined = false;
	p->pair_due = p->ready_due = false;
	able_check(p);
}

/* Count one more queue pair of this process. False: it has as many as it may have. */
static bool budget_take(struct uc_dev *d)
{
	if (atomic_fetch_add(&d->sets.budget->used, 1) < d->sets.max_qp)
		return true;
	atomic_fetch_sub(&d->sets.budget->used, 1);
	return false;
}

/* Make our queue pair of a path that has none. The budget counts it already; if this fails, no longer. */
static int path_make(struct uc_dev *d, struct uc_path *p)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = d->port.port, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct uc_slot *s = slot_get(d);
	struct ibv_qp_init_attr init;
	int err = -FI_ENOMEM;

	p->retry_at = d->clock() + RETRY_NS;
	if (!s)
		goto fail;
	err = getrandom(&p->psn, sizeof(p->psn), 0) == sizeof(p->psn) ? 0 : -FI_EIO;
	if (err)
		goto fail;
	p->psn &= UC_PSN_MASK;
	qp_init(d, &init);
	err = uccl_verbs_sq_create(d->lib, d->pd, &p->sq, &init, s->generation);
	if (err)
		goto fail;
	err = -d->lib->modify_qp(p->sq.qp, &a,
				 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (err)
		goto destroy;
	p->qpn = p->sq.qp->qp_num;
	HASH_ADD(hh, d->sets.by_qpn, qpn, sizeof(p->qpn), p);
	err = p->hh.tbl ? 0 : -FI_ENOMEM;
	if (err)
		goto destroy;
	s->path = p;
	p->slot = (uint16_t)(s - d->sets.slot);
	p->joined = false;
	p->pair_due = true;
	p->gone_due = false; /* the new pair implies it */
	d->sets.nqps++;
	p->set->nqps++;
	d->sets.made++;
	return 0;
destroy:
	uccl_verbs_sq_destroy(d->lib, &p->sq);
fail:
	atomic_fetch_sub(&d->sets.budget->used, 1);
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
	struct uccl_verbs_ah_key key = {.mark = d->key.mark};

	memcpy(key.ip, to->ip, sizeof(key.ip));
	key.lid = to->pad < UD_ROCE_PAD ? to->pad : 0;
	/* Its own label, so that the network may choose another path for it; 0 would leave the choice to the NIC. */
	if (!p->flow)
		p->flow = ((p->psn ^ p->qpn) & 0x3fff) | 0x4000;
	if (d->labels)
		key.flow = p->flow;
	uccl_verbs_route(&d->port, &key, &a.ah_attr);
	a.path_mtu = path_mtu(d, p);
	if (d->key.type == IBV_QPT_RC) {
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

	if (d->key.type == IBV_QPT_RC) {
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
	d->sets.joined++;
	able_check(p);
	return 0;
}

struct uc_path *uccl_uc_path_find(struct uc_dev *d, uint32_t qpn)
{
	struct uc_path *p;

	HASH_FIND(hh, d->sets.by_qpn, &qpn, sizeof(qpn), p);
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

/* Take back the set that was unused for longest. GONE stops the peer from writing there. */
static bool set_reclaim(struct uc_dev *d, const struct uc_set *not_this)
{
	uint64_t now = d->clock();
	struct uc_set *s, *best = NULL;
	uint16_t i;

	TAILQ_FOREACH(s, &d->sets.all, all)
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
	d->sets.reclaimed++;
	return true;
}

/* Count one more queue pair, in place of an idle one if necessary. */
static bool room_make(struct uc_dev *d, const struct uc_set *s)
{
	if (budget_take(d) || (set_reclaim(d, s) && budget_take(d)))
		return true;
	atomic_store(&d->sets.budget->wanted, true);
	return false;
}

void uccl_uc_yield(struct uc_dev *d)
{
	if (!atomic_load_explicit(&d->sets.budget->wanted, memory_order_relaxed) || d->clock() < d->sets.yield_at)
		return;
	d->sets.yield_at = d->clock() + YIELD_NS;
	if (set_reclaim(d, NULL))
		atomic_store(&d->sets.budget->wanted, false);
}

/* A set with many queue pairs gets more only while half of all are free: peers that come later need some, too. */
static bool room_shared(const struct uc_dev *d, const struct uc_set *s)
{
	return s->nqps < SET_SURE || atomic_load(&d->sets.budget->used) < d->sets.max_qp / 2;
}

/* The leader begins a new pair: it makes its queue pair, and will offer it. */
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
	TAILQ_INSERT_TAIL(&d->sets.waiting, p, wait);
}

/* Only the leader replaces it, and not too often; the other side asks for that. PROTOCOL R81 */
void uccl_uc_path_broke(struct uc_dev *d, struct uc_path *p)
{
	path_end(d, p);
	events_add(p);
	if (!p->set->leads)
		p->want_due = true;
	else if (d->clock() < p->retry_at || !pair_begin(d, p))
		wait_add(d, p);
}

void uccl_uc_path_reroute(struct uc_dev *d, struct uc_path *p)
{
	p->flow = 0;
	uccl_uc_path_broke(d, p);
}

void uccl_uc_paths_end(struct uc_dev *d)
{
	struct uc_set *s;
	uint16_t i;

	TAILQ_FOREACH(s, &d->sets.all, all) {
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
	struct uc_path *p = TAILQ_FIRST(&d->sets.waiting);

	/* Nearly in the order of their times; one that is not is late by one round. */
	if (!p || d->clock() < p->retry_at)
		return;
	TAILQ_REMOVE(&d->sets.waiting, p, wait);
	p->waits = false;
	events_add(p);
	if (!p->sq.qp && !pair_begin(d, p))
		wait_add(d, p);
}

/* Send entries again that the other side has not answered, or may not know. */
static void repeat(struct uc_path *p)
{
	if (!p->sq.qp)
		return;
	p->pair_due |= p->set->leads ? !p->joined : !p->able;
	p->ready_due |= p->set->leads && p->joined;
}

/* Sets. */

int uccl_uc_sets_open(struct uc_dev *d, uint32_t max_qp, struct uccl_qp_budget *budget)
{
	struct uc_sets *s = &d->sets;

	TAILQ_INIT(&s->all);
	TAILQ_INIT(&s->waiting);
	s->max_qp = (uint32_t)uccl_clamp(max_qp ? max_qp : UC_QPS, 1, UC_QPS_MAX);
	s->budget = budget ? budget : &s->own_budget;
	s->slot = calloc(s->max_qp, sizeof(*s->slot));
	return s->slot ? 0 : -FI_ENOMEM;
}

void uccl_uc_sets_close(struct uc_dev *d)
{
	free(d->sets.slot);
}

struct uc_set *uccl_uc_set_new(struct uc_dev *d, const struct uc_peer *peer, bool leads, uint32_t serial,
			       const uint8_t secret[8])
{
	struct uc_set *s = calloc(1, sizeof(*s) + peer->n * sizeof(s->path[0]));
	uint16_t i;

	if (!s)
		return NULL;
	s->to = peer->to;
	s->process = peer->join.process;
	s->serial = leads ? ++d->sets.serials : serial;
	s->used_ns = d->clock();
	memcpy(s->key, secret, 8); /* the rest of the key is 0 */
	s->leads = leads;
	s->n = peer->n;
	for (i = 0; i < s->n; i++) {
		s->path[i].set = s;
		s->path[i].index = i;
	}
	TAILQ_INSERT_TAIL(&d->sets.all, s, all);
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

void uccl_uc_set_joined(struct uc_peer *peer)
{
	peer->joined = peer->set->known = true;
	for (uint16_t i = 0; i < peer->n; i++)
		if (peer->set->path[i].able)
			uccl_uc_event(peer, i, false);
}

/* Is a write of this flow under way in the queue pair? */
static bool path_has_writes(const struct uc_path *p, const struct uc_peer *peer)
{
	for (uint32_t i = p->sq.tail; p->sq.qp && i != p->sq.head; i++)
		if (p->sq.sent[i % UCCL_VERBS_SQ_DEPTH].owner == peer)
			return true;
	return false;
}

void uccl_uc_set_stop(struct uc_dev *d, struct uc_peer *peer)
{
	for (uint16_t i = 0; i < peer->n; i++)
		if (path_has_writes(&peer->set->path[i], peer))
			uccl_uc_path_broke(d, &peer->set->path[i]);
}

static void path_forget(struct uc_dev *d, struct uc_path *p)
{
	path_end(d, p);
	if (p->waits)
		TAILQ_REMOVE(&d->sets.waiting, p, wait);
	uccl_verbs_sq_fini(&p->sq);
}

void uccl_uc_set_leave(struct uc_dev *d, struct uc_peer *peer)
{
	struct uc_set *s = peer->set;
	uint16_t i;

	if (s->nflows == 1) {
		for (i = 0; i < s->n; i++)
			path_forget(d, &s->path[i]);
		TAILQ_REMOVE(&d->sets.all, s, all);
		free(s);
		peer->set = NULL;
		peer->joined = false;
		return;
	}
	peer->joined = false;
	uccl_uc_set_stop(d, peer);
	s->flow[peer->number] = NULL;
	s->nflows--;
	peer->set = NULL;
}

/* Entries. */

static void pair_ask(struct uc_dev *d, struct uc_path *p)
{
	p->retry_at = d->clock() + RETRY_NS;
	p->want_due = true;
}

/*
 * The queue pair is destroyed, not only reset: a reset one keeps its number, so it would still take what is on its way
 * (reliability rules, E9). The peer's writes that are under way there are lost, and come again as packets.
 */
void uccl_uc_set_fence(struct uc_dev *d, struct uc_set *s, uint16_t path)
{
	if (s->path[path].sq.qp)
		uccl_uc_path_broke(d, &s->path[path]);
	for (int i = 0; i < UC_FLOWS; i++)
		if (s->flow[i] && s->flow[i]->joined)
			uccl_uc_event(s->flow[i], path, true);
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
	if (stays && p->able && d->key.type == IBV_QPT_UC && write_max <= 128u << path_mtu(d, p)) {
		uccl_uc_event(peer, path, false);
		return;
	}
	if (stays)
		uccl_uc_path_broke(d, p);
	else
		uccl_uc_path_reroute(d, p);
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
		if (p->able || now < p->retry_at)
			continue;
		if (p->sq.qp) {
			/* Sent long ago; perhaps by a flow whose program no longer calls. */
			p->retry_at = now + RETRY_NS;
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

/* The next entry of a path that is due. */
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

/* The leader's new queue pair: ours must be new, too, since it is connected to one only. PROTOCOL R81 */
static void offer_take(struct uc_dev *d, struct uc_path *p, uint32_t gen, const uint8_t *at)
{
	if (gen == p->gen && p->joined && p->theirs.qpn == uccl_get32(at + 8))
		p->pair_due = true; /* sent again: so is the answer */
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

/* The other side's queue pair is connected to ours. */
static void answer_take(struct uc_dev *d, struct uc_path *p, uint32_t gen, const uint8_t *at)
{
	if (!p->sq.qp || gen != p->gen)
		return;
	if (p->joined) {
		p->ready_due = true; /* READY was lost */
		return;
	}
	theirs_take(p, at);
	if (path_join(d, p))
		uccl_uc_path_broke(d, p);
	else
		p->ready_due = true;
}

/* The other side has no queue pair, or a broken one, of this generation or before. */
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
	/* Before both sides have the set, entries are ignored anyway. */
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
