/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The simulated NIC. Time and randomness are the network's.
 *
 * Peer handles of two NICs that are connected to each other are mates, as two ends of a queue pair or of a liveness
 * connection are: a direct write names the mate as its target, so a write from before a restart finds no one.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/slot_unit.h"
#include "flow/wire/wire.h"
#include "sim/nic_sim.h"

#define LABEL_PORT 20000

enum slot_pool { POOL_DATA, POOL_CONTROL, POOL_WRITE, POOL_COUNT, POOL_NONE = POOL_COUNT };

struct sim_peer {
	LIST_ENTRY(sim_peer) link;
	uint64_t serial;
	uint64_t mate; /* serial of the other end's handle, 0: none */
	bool widowed;  /* it had one: a later life of the other end is none */
	uint64_t id;
	uint8_t node;
	uint16_t paths;
	uint64_t *fence; /* per path: writes sent before this are harmless */
};

struct sim_mr {
	LIST_ENTRY(sim_mr) link;
	uint8_t *buf;
	uint64_t len, rkey, raddr;
};

/* Most bytes that one rx() hands over in trains. */
#define TOGETHER (4 * UCCL_TRAIN_BYTES)

/* One entry of the receive queue. */
struct sim_entry {
	struct uccl_rx rx;
	struct uccl_sim_pkt *pkt;
	uint8_t pool; /* whose slot it holds, */
	uint32_t slots; /* or more than one */
	bool bad;     /* an error completion: takes a slot, tells nothing */
};

/* A send whose payload is not read yet, or not told as sent. */
struct sim_tx {
	struct uccl_sim_event ev;
	LIST_ENTRY(sim_tx) link;
	struct sim_nic *nic;
	struct uccl_sim_pkt *pkt; /* NULL once it left */
	const uint8_t *payload;
	uint32_t payload_len, at;
	uint64_t depart_ns, sent_ns, cookie;
	uint64_t serial; /* of a write that waits for the peer's NIC, else 0 */
	struct sim_peer *peer;
};

/* A write that waits is read again so often, as it may be lost. */
#define ANSWER_EVERY_NS (20 * UCCL_NS_PER_MS)

/* An event of the receive queue that comes later. */
struct sim_later {
	struct uccl_sim_event ev;
	LIST_ENTRY(sim_later) link;
	struct sim_nic *nic;
	struct uccl_rx rx;
	struct uccl_sim_pkt *pkt; /* holds what rx quotes */
	uint64_t peer; /* serial that must still be connected, 0: any */
};

struct sim_nic {
	struct uccl_nic base;
	struct uccl_sim_net *net;
	struct uccl_sim_nic_cfg cfg;
	struct uccl_sim_nic_stats stats;
	struct uccl_rng rng;
	uint8_t node;
	bool dead;
	LIST_HEAD(, sim_peer) peers;
	LIST_HEAD(, sim_mr) mrs;
	LIST_HEAD(, sim_tx) txs;
	LIST_HEAD(, sim_later) laters;
	uint32_t ntx;
	uint64_t tx_bytes; /* payload of them */
	uint64_t depart_ns; /* of the last asynchronous send: sends leave in order */
	struct sim_entry *ring;
	uint32_t head, count, cap;
	struct uccl_sim_pkt *handed; /* packets that the last rx() handed over */
	uint8_t *together;	     /* with train_bytes: TOGETHER bytes, those that it handed over as one */
	uint32_t together_used;
	uint32_t used[POOL_COUNT], limit[POOL_COUNT];
	struct uccl_rx_placement kept; /* leaky: the last one that an earlier rx() was given */
	struct uccl_sim_event room;
};

static const struct uccl_sim_sink nic_sink;

static struct sim_nic *sim_nic(const struct uccl_nic *nic)
{
	return uccl_container_of((struct uccl_nic *)(uintptr_t)nic, struct sim_nic, base);
}

static void nic_wake(struct sim_nic *s)
{
	if (s->cfg.user.wake)
		s->cfg.user.wake(s->cfg.user.wake_arg);
}

static void nic_check(struct sim_nic *s, const void *ptr, uint64_t len, enum uccl_owner_right right)
{
	const char *text = s->cfg.user.owner ? uccl_owner_check(s->cfg.user.owner, ptr, len, right) : NULL;

	if (text && s->cfg.user.violation)
		s->cfg.user.violation(s->cfg.user.arg, text);
}

static struct sim_peer *peer_find(struct sim_nic *s, uint64_t serial)
{
	struct sim_peer *p;

	LIST_FOREACH(p, &s->peers, link) {
		if (p->serial == serial)
			return p;
	}
	return NULL;
}

/* The NIC does not read the payload of this write again. SENT comes at `at`. */
static void tx_answered(struct sim_tx *t, uint64_t at)
{
	t->serial = 0;
	uccl_sim_cancel(t->nic->net, &t->ev);
	uccl_sim_at(t->nic->net, &t->ev, at);
}

/* The NIC now open at a node. */
static struct sim_nic *nic_at(struct uccl_sim_net *net, uint8_t node)
{
	return net->node[node].sink == &nic_sink ? net->node[node].arg : NULL;
}

/* Append to the receive queue. False: no memory, it is lost. */
static bool queue_push(struct sim_nic *s, const struct sim_entry *e)
{
	if (s->count == s->cap) {
		uint32_t cap = s->cap ? s->cap * 2 : 64, i;
		struct sim_entry *ring = malloc(cap * sizeof(*ring));

		if (!ring)
			return false;
		for (i = 0; i < s->count; i++)
			ring[i] = s->ring[(s->head + i) & (s->cap - 1)];
		free(s->ring);
		s->ring = ring;
		s->head = 0;
		s->cap = cap;
	}
	s->ring[(s->head + s->count++) & (s->cap - 1)] = *e;
	if (e->pool != POOL_NONE)
		s->used[e->pool] += e->slots;
	nic_wake(s);
	return true;
}

static void push_event(struct sim_nic *s, const struct uccl_rx *rx, struct uccl_sim_pkt *quoted)
{
	struct sim_entry e = {.rx = *rx, .pkt = quoted, .pool = POOL_NONE};

	if (!queue_push(s, &e) && quoted)
		uccl_sim_pkt_free(quoted);
}

static void later_fire(struct uccl_sim_event *ev)
{
	struct sim_later *l = uccl_container_of(ev, struct sim_later, ev);
	struct sim_nic *s = l->nic;

	LIST_REMOVE(l, link);
	if (!l->peer || peer_find(s, l->peer)) {
		uccl_sim_trace(s->net, s->net->now, (uint64_t)l->rx.kind << 32 | l->rx.path);
		push_event(s, &l->rx, l->pkt);
	}
	free(l);
}

/* `quoted`, if any, is taken over. */
static void push_later(struct sim_nic *s, const struct uccl_rx *rx, struct uccl_sim_pkt *quoted, uint64_t peer,
		       uint64_t at)
{
	struct sim_later *l = calloc(1, sizeof(*l));

	if (!l) {
		if (quoted)
			uccl_sim_pkt_free(quoted);
		return;
	}
	l->pkt = quoted;
	l->ev.fire = later_fire;
	l->nic = s;
	l->rx = *rx;
	l->peer = peer;
	LIST_INSERT_HEAD(&s->laters, l, link);
	uccl_sim_at(s->net, &l->ev, at);
}

static void tell(struct sim_nic *s, enum uccl_rx_kind kind, uint8_t node, uint64_t peer, uint64_t at)
{
	struct uccl_rx rx = {.kind = (uint8_t)kind};

	uccl_sim_addr(node, 0, &rx.src);
	push_later(s, &rx, NULL, peer, at);
}

static uint64_t soon(struct sim_nic *s, uint64_t max_ns)
{
	return s->net->now + uccl_rng_below(&s->rng, max_ns + 1);
}

/* --- arrivals --- */

static void entry_source(struct sim_entry *e, const struct uccl_sim_pkt *p, uint16_t port)
{
	uccl_sim_addr(p->src, port, &e->rx.src);
	e->rx.path = p->path;
	e->rx.len = p->len;
}

static bool slot_free(struct sim_nic *s, enum slot_pool pool)
{
	return s->used[pool] < s->limit[pool];
}

static void packet_arrive(struct sim_nic *s, struct uccl_sim_pkt *p)
{
	struct sim_entry e = {.pkt = p, .pool = p->control && !s->cfg.shared_slots ? POOL_CONTROL : POOL_DATA};

	e.slots = e.pool == POOL_DATA ? uccl_slot_count(s->cfg.slot_unit, p->len) : 1;
	s->stats.rx_packets++;
	if (!slot_free(s, e.pool)) {
		if (p->type >= UCCL_PKT_CHUNK)
			s->stats.slot_drops++;
		else
			s->stats.slot_drops_control++;
		uccl_sim_pkt_free(p);
		return;
	}
	e.rx.kind = UCCL_RX_PACKET;
	e.rx.marked = p->marked;
	e.rx.rail = s->net->cfg.rails ? (uint8_t)(p->label % s->net->cfg.routes) : 0;
	entry_source(&e, p, (uint16_t)(LABEL_PORT + p->label));
	e.rx.data = p->data;
	if (!queue_push(s, &e)) {
		uccl_sim_pkt_free(p);
		return;
	}
	if (e.pool == POOL_DATA && s->used[POOL_DATA] > s->stats.slots_max)
		s->stats.slots_max = s->used[POOL_DATA];
}

static struct sim_mr *mr_find(struct sim_nic *s, const struct uccl_sim_pkt *p)
{
	struct sim_mr *mr;

	LIST_FOREACH(mr, &s->mrs, link) {
		if (mr->rkey == p->remote.rkey)
			break;
	}
	if (!mr || p->remote.raddr < mr->raddr || p->remote.raddr - mr->raddr > mr->len ||
	    p->len > mr->len - (p->remote.raddr - mr->raddr))
		return NULL;
	return mr;
}

static void write_place(struct sim_nic *s, struct uccl_sim_pkt *p, struct sim_entry *e)
{
	struct sim_mr *mr = mr_find(s, p);
	uint32_t len = p->len;
	uint8_t *dst;

	if (!mr) {
		s->stats.bad_key++;
		e->bad = true;
		return;
	}
	if (p->torn)
		len = (uint32_t)uccl_rng_below(&s->rng, (uint64_t)len + 1);
	dst = mr->buf + (p->remote.raddr - mr->raddr);
	nic_check(s, dst, len, UCCL_OWNER_WRITE);
	memcpy(dst, p->data, len);
}

/* The NIC that sent it need not read it any more: it hears so as soon as an answer can be there. */
static void write_answer(struct sim_nic *s, const struct uccl_sim_pkt *p)
{
	struct sim_nic *from = p->remote.tx ? nic_at(s->net, p->src) : NULL;
	struct sim_tx *t;

	if (!from)
		return;
	LIST_FOREACH(t, &from->txs, link)
		if (t->serial == p->remote.tx)
			tx_answered(t, s->net->now + s->net->cfg.delay_ns);
}

static void write_arrive(struct sim_nic *s, struct uccl_sim_pkt *p)
{
	struct sim_entry e = {.pool = POOL_WRITE, .slots = 1};
	struct sim_peer *peer = p->remote.to_peer ? peer_find(s, p->remote.to_peer) : NULL;

	s->stats.rx_writes++;
	write_answer(s, p);
	if (!peer || peer->mate != p->remote.from_peer || p->path >= peer->paths) {
		s->stats.no_peer++;
	} else if (p->posted_ns < peer->fence[p->path]) {
		s->stats.fenced++;
	} else if (p->torn) {
		s->stats.torn++;
		write_place(s, p, &e);
	} else if (!slot_free(s, POOL_WRITE)) {
		s->stats.slot_drops_write++;
	} else {
		write_place(s, p, &e);
		e.rx.kind = UCCL_RX_WRITE;
		entry_source(&e, p, 0);
		e.rx.imm = p->remote.imm;
		e.rx.peer = (struct uccl_nic_peer *)peer;
		e.rx.peer_id = peer->id;
		queue_push(s, &e);
		if (s->used[POOL_WRITE] > s->stats.write_slots_max)
			s->stats.write_slots_max = s->used[POOL_WRITE];
	}
	uccl_sim_pkt_free(p);
}

static void sink_packet(void *arg, struct uccl_sim_pkt *p)
{
	struct sim_nic *s = arg;

	if (p->kind == UCCL_TX_WRITE)
		write_arrive(s, p);
	else
		packet_arrive(s, p);
}

static void sink_unreach(void *arg, const struct uccl_sim_pkt *p)
{
	struct sim_nic *s = arg;
	uint32_t len = (uint32_t)uccl_min(p->len, UCCL_HDR_LEN);
	struct uccl_rx rx = {.kind = UCCL_RX_UNREACH, .len = len};
	struct uccl_sim_pkt *quoted = s->cfg.icmp ? uccl_sim_pkt_new(s->net, len) : NULL;

	if (!quoted)
		return;
	memcpy(quoted->data, p->data, len);
	rx.data = quoted->data;
	uccl_sim_addr(p->dst, 0, &rx.src);
	/* An answer of the other host: as late as any packet, but never long after a restart. */
	push_later(s, &rx, quoted, 0, soon(s, uccl_min(s->cfg.late.proof_ns, UCCL_NS_PER_MS)));
}

static const struct uccl_sim_sink nic_sink = {.packet = sink_packet, .unreach = sink_unreach};

/*
 * Whatever comes now may be written there, so all of it must be the provider's, and of one packet at a time: two would
 * destroy each other. PROTOCOL R276
 */
static void placements_check(struct sim_nic *s, const struct uccl_rx_placement *places, int n)
{
	for (int i = 0; i < n; i++) {
		const uint8_t *dst = places[i].dst;

		nic_check(s, dst, places[i].len, UCCL_OWNER_WRITE);
		for (int k = 0; k < i; k++) {
			const uint8_t *other = places[k].dst;

			if (dst < other + places[k].len && other < dst + places[i].len && s->cfg.user.violation)
				s->cfg.user.violation(s->cfg.user.arg, "two predicted places have bytes in common");
		}
	}
}

static void placement_write(struct sim_nic *s, const struct uccl_rx_placement *place, const uint8_t *data, uint32_t len)
{
	nic_check(s, place->dst, len, UCCL_OWNER_WRITE);
	memcpy(place->dst, data, len);
}

/* As much of what came as fits goes where a row was predicted. It stays there if it is packets of that length. */
static void rx_run(struct sim_nic *s, struct uccl_rx *rx, const struct uccl_rx_placement *place)
{
	uint32_t len = (uint32_t)uccl_min(place->len, rx->len);

	placement_write(s, place, rx->data, len);
	if (rx->each != place->each)
		return;
	memset(s->together + (rx->data - s->together), 0xdd, len); /* it is nowhere else */
	uccl_rx_run_at(rx, place->dst, len);
	s->stats.runs++;
}

/* Payload of a packet: what fits goes to the hinted place. */
static void rx_split(struct sim_nic *s, struct uccl_rx *rx, struct uccl_sim_pkt *p,
		     const struct uccl_rx_placement *place)
{
	s->stats.placements++;
	if (place->each) {
		rx_run(s, rx, place);
		return;
	}
	if (rx->len <= UCCL_HDR_LEN)
		return;
	rx->body_len = (uint32_t)uccl_min(place->len, rx->len - UCCL_HDR_LEN);
	placement_write(s, place, rx->data + UCCL_HDR_LEN, rx->body_len);
	/* Packets that go up as one are put together again. */
	if (rx->each)
		return;
	rx->split = true;
	rx->body = place->dst;
	rx->rest = p->data + UCCL_HDR_LEN + rx->body_len;
	rx->rest_len = rx->len - UCCL_HDR_LEN - rx->body_len;
	memset(p->data + UCCL_HDR_LEN, 0xdd, rx->body_len); /* it is nowhere else */
	s->stats.split++;
}

/* A packet of somebody unauthenticated, say: the NIC refuses it, but where its payload went nothing is as it was. */
static bool rx_misplaced(struct sim_nic *s, struct uccl_rx *rx, const struct uccl_rx_placement *place)
{
	if (!place || !uccl_rng_chance(&s->rng, s->cfg.misplaced))
		return false;
	memset(place->dst, 0xee, 1 + uccl_rng_below(&s->rng, place->len));
	*rx = (struct uccl_rx){.kind = UCCL_RX_REFUSED};
	s->stats.misplaced++;
	return true;
}

static void free_handed(struct sim_nic *s)
{
	struct uccl_sim_pkt *p;

	while ((p = s->handed)) {
		s->handed = p->next;
		uccl_sim_pkt_free(p);
	}
}

static struct sim_entry *rx_take(struct sim_nic *s)
{
	struct sim_entry *e = &s->ring[s->head];

	s->head = (s->head + 1) & (s->cap - 1);
	s->count--;
	if (e->pool != POOL_NONE)
		s->used[e->pool] -= e->slots;
	if (e->pkt && !e->bad) {
		e->pkt->next = s->handed;
		s->handed = e->pkt;
	}
	return e;
}

/* As a kernel does (GRO): what comes from one place, is no longer and of the same class goes up with the first. */
static void rx_together(struct sim_nic *s, struct uccl_rx *rx)
{
	uint32_t each = rx->len;
	uint8_t *to = s->together + s->together_used;

	if (!each || s->together_used + each > TOGETHER)
		return;
	memcpy(to, rx->data, each);
	for (uint32_t last = each; s->count && last == each;) {
		const struct sim_entry *e = &s->ring[s->head];

		last = e->rx.len;
		if (e->rx.kind != UCCL_RX_PACKET || e->bad || !last || last > each || e->rx.marked != rx->marked ||
		    memcmp(&e->rx.src, &rx->src, sizeof(rx->src)) || rx->len + last > UCCL_TRAIN_BYTES ||
		    s->together_used + rx->len + last > TOGETHER)
			break;
		memcpy(to + rx->len, e->rx.data, last);
		rx->len += last;
		rx->each = each;
		rx_take(s);
	}
	if (!rx->each)
		return;
	rx->data = to;
	s->together_used += rx->len;
}

static int nic_rx(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_placement *places, int nplaces)
{
	struct sim_nic *s = sim_nic(nic);
	bool came = s->count && !s->dead;
	int got = 0;

	free_handed(s);
	s->together_used = 0;
	if (!s->cfg.placements)
		nplaces = 0;
	else if (s->cfg.placements_most)
		nplaces = (int)uccl_min((uint32_t)nplaces, s->cfg.placements_most);
	placements_check(s, places, nplaces);
	while (got < n && came) {
		const struct uccl_rx_placement *place = got < nplaces && places[got].len ? &places[got] : NULL;
		struct uccl_rx *rx = &v[got];
		struct sim_entry *e;

		/* Also behind the last packet, for a while. */
		if (s->cfg.misplaced > 0 && rx_misplaced(s, rx, place)) {
			got++;
			continue;
		}
		if (!s->count)
			break;
		e = rx_take(s);
		if (e->bad)
			continue;
		*rx = e->rx;
		got++;
		if (!e->pkt || rx->kind != UCCL_RX_PACKET)
			continue;
		if (s->cfg.ages)
			rx->age_ns = s->net->now - e->pkt->arrived_ns;
		if (s->cfg.leaky && s->kept.len && rx->len > UCCL_HDR_LEN)
			placement_write(s, &s->kept, rx->data + UCCL_HDR_LEN,
					(uint32_t)uccl_min(s->kept.len, rx->len - UCCL_HDR_LEN));
		if (s->together)
			rx_together(s, rx);
		if (place)
			rx_split(s, rx, e->pkt, place);
	}
	if (s->cfg.leaky && nplaces)
		s->kept = places[nplaces - 1];
	return got;
}

/* --- sending --- */

static void room_fire(struct uccl_sim_event *ev)
{
	nic_wake(uccl_container_of(ev, struct sim_nic, room));
}

static struct uccl_sim_pkt *tx_packet(struct sim_nic *s, const struct uccl_tx *tx, int dst)
{
	bool write = tx->kind == UCCL_TX_WRITE;
	uint32_t head = write ? 0 : tx->hdr_len, tail = write ? 0 : tx->tail_len;
	struct uccl_sim_pkt *p = uccl_sim_pkt_new(s->net, head + tx->payload_len + tail);
	struct sim_peer *peer = (struct sim_peer *)tx->peer;

	if (!p)
		return NULL;
	p->src = s->node;
	p->dst = (uint8_t)dst;
	p->kind = tx->kind;
	p->control = tx->control;
	p->path = tx->path;
	p->label = tx->label;
	p->ect = tx->ect && !write;
	p->len = head + tx->payload_len + tail;
	p->posted_ns = s->net->now;
	p->remote.imm = tx->imm;
	p->remote.rkey = tx->rkey;
	p->remote.raddr = tx->raddr;
	if (peer) {
		p->remote.from_peer = peer->serial;
		p->remote.to_peer = peer->mate;
	}
	memcpy(p->data, tx->hdr, head);
	memcpy(p->data + head + tx->payload_len, tx->tail, tail);
	return p;
}

static void tx_read(struct sim_tx *t)
{
	if (!t->payload_len)
		return;
	nic_check(t->nic, t->payload, t->payload_len, UCCL_OWNER_READ);
	memcpy(t->pkt->data + t->at, t->payload, t->payload_len);
}

/* First the payload is read and the packet leaves, then the owner hears of it. */
static void tx_fire(struct uccl_sim_event *ev)
{
	struct sim_tx *t = uccl_container_of(ev, struct sim_tx, ev);
	struct sim_nic *s = t->nic;
	struct uccl_rx rx = {.kind = UCCL_RX_SENT};

	if (t->pkt) {
		tx_read(t);
		uccl_sim_depart(s->net, t->pkt, t->depart_ns);
		t->pkt = NULL;
		uccl_sim_at(s->net, &t->ev, t->serial ? t->depart_ns + ANSWER_EVERY_NS : t->sent_ns);
		return;
	}
	if (t->serial && s->net->now < t->sent_ns) {
		nic_check(s, t->payload, t->payload_len, UCCL_OWNER_READ);
		uccl_sim_at(s->net, &t->ev, s->net->now + ANSWER_EVERY_NS);
		return;
	}
	rx.cookie = t->cookie;
	rx.peer = (struct uccl_nic_peer *)t->peer;
	rx.peer_id = t->peer ? t->peer->id : 0;
	LIST_REMOVE(t, link);
	s->ntx--;
	s->tx_bytes -= t->payload_len;
	if (t->cookie == UCCL_NEVER)
		nic_wake(s);
	else
		push_event(s, &rx, NULL);
	free(t);
}

static bool tx_async(struct sim_nic *s, const struct uccl_tx *tx, struct uccl_sim_pkt *p, uint64_t depart_ns)
{
	struct sim_tx *t = calloc(1, sizeof(*t));

	if (!t)
		return false;
	s->depart_ns = uccl_max(s->depart_ns, uccl_max(depart_ns, soon(s, s->cfg.late.read_ns)));
	t->ev.fire = tx_fire;
	t->nic = s;
	t->pkt = p;
	t->payload = tx->payload;
	t->payload_len = tx->payload_len;
	t->at = tx->kind == UCCL_TX_WRITE ? 0 : tx->hdr_len;
	t->cookie = tx->cookie;
	t->peer = (struct sim_peer *)tx->peer;
	t->depart_ns = s->depart_ns;
	t->sent_ns = t->depart_ns + uccl_rng_below(&s->rng, s->cfg.late.read_ns + 1);
	if (s->cfg.late.answer_ns && tx->kind == UCCL_TX_WRITE) {
		t->serial = p->remote.tx = uccl_sim_serial(s->net);
		t->sent_ns = t->depart_ns + s->cfg.late.answer_ns;
	}
	LIST_INSERT_HEAD(&s->txs, t, link);
	s->ntx++;
	s->tx_bytes += t->payload_len;
	/* The time of the read is anywhere before the packet leaves. */
	uccl_sim_at(s->net, &t->ev, s->net->now + uccl_rng_below(&s->rng, t->depart_ns - s->net->now + 1));
	return true;
}

/* 1: taken, 0: no room now, negative: refused. `broken`: it takes its time on the wire, and nobody knows it there. */
static int tx_one(struct sim_nic *s, const struct uccl_tx *tx, bool broken)
{
	uint32_t len = (tx->kind == UCCL_TX_WRITE ? 0u : (uint32_t)tx->hdr_len + tx->tail_len) + tx->payload_len;
	int dst = tx->to ? uccl_sim_node_of(tx->to) : -1;
	struct uccl_sim_pkt *p;
	uint64_t depart;

	if (len > (tx->kind == UCCL_TX_WRITE ? s->cfg.write_max : s->cfg.mtu) || tx->label >= s->cfg.labels)
		return -FI_EINVAL;
	if (tx->kind == UCCL_TX_WRITE && (!tx->peer || dst < 0))
		return -FI_EINVAL;
	if (dst < 0 || dst >= s->net->cfg.nodes)
		return 1; /* an address that leads nowhere */
	if (!s->cfg.tx_sync && s->ntx >= s->cfg.tx_depth)
		return 0;
	depart = uccl_sim_egress(s->net, s->node, len);
	if (depart == UCCL_NEVER) {
		s->room.fire = room_fire;
		uccl_sim_at(s->net, &s->room, uccl_sim_egress_half(s->net, s->node));
		return 0;
	}
	p = tx_packet(s, tx, dst);
	if (!p)
		return 1; /* taken and lost */
	s->stats.tx_packets += tx->kind != UCCL_TX_WRITE;
	if (broken) {
		s->stats.train_drops++;
		uccl_sim_pkt_free(p);
		return 1;
	}
	if (!s->cfg.tx_sync) {
		if (!tx_async(s, tx, p, depart))
			uccl_sim_pkt_free(p);
		return 1;
	}
	if (tx->payload_len) {
		nic_check(s, tx->payload, tx->payload_len, UCCL_OWNER_READ);
		memcpy(p->data + tx->hdr_len, tx->payload, tx->payload_len);
	}
	uccl_sim_depart(s->net, p, depart);
	return 1;
}

static int nic_tx(struct uccl_nic *nic, struct uccl_tx *v, int n)
{
	struct sim_nic *s = sim_nic(nic);
	struct uccl_train_walk walk = {0};
	bool broken;
	int i, ret;

	for (i = 0; i < n && !s->dead; i++) {
		broken = uccl_train_hit(&walk, v, n, i, s->cfg.train_bytes, s->cfg.train_fault);
		ret = tx_one(s, &v[i], broken);
		if (ret > 0)
			continue;
		s->stats.tx_refused++;
		return i || !ret ? i : ret;
	}
	return n;
}

/* --- peers --- */

static int nic_connect(struct uccl_nic *nic, const struct uccl_nic_addr *to, uint64_t id, uint16_t paths,
		       struct uccl_nic_peer **out)
{
	struct sim_nic *s = sim_nic(nic), *other;
	int node = uccl_sim_node_of(to);
	struct sim_peer *p, *q;

	*out = NULL;
	if (node < 0 || node >= s->net->cfg.nodes || !paths)
		return -FI_EINVAL;
	p = calloc(1, sizeof(*p) + paths * sizeof(*p->fence));
	if (!p)
		return -FI_ENOMEM;
	p->fence = (uint64_t *)(p + 1);
	p->serial = uccl_sim_serial(s->net);
	p->id = id;
	p->node = (uint8_t)node;
	p->paths = paths;
	other = s->dead ? NULL : nic_at(s->net, p->node);
	if (node == s->node) {
		p->mate = p->serial;
	} else if (other) {
		LIST_FOREACH(q, &other->peers, link) {
			if (q->node == s->node && !q->mate && !q->widowed) {
				q->mate = p->serial;
				p->mate = q->serial;
				break;
			}
		}
	}
	LIST_INSERT_HEAD(&s->peers, p, link);
	s->stats.peers++;
	*out = (struct uccl_nic_peer *)p;
	return 0;
}

/* The handle goes: its mate is alone, and hears of it when there is a liveness connection. */
static void peer_part(struct sim_nic *s, struct sim_peer *p)
{
	struct sim_nic *other = nic_at(s->net, p->node);
	struct sim_peer *q;

	if (!other || other == s || !p->mate || !(q = peer_find(other, p->mate)))
		return;
	p->mate = 0;
	q->mate = 0;
	q->widowed = true;
	if (s->cfg.liveness && other->cfg.liveness)
		tell(other, UCCL_RX_GONE, s->node, q->serial, soon(s, s->cfg.late.proof_ns));
}

/* It leaves no more. */
static void tx_drop(struct sim_tx *t)
{
	struct sim_nic *s = t->nic;

	uccl_sim_cancel(s->net, &t->ev);
	if (t->pkt)
		uccl_sim_pkt_free(t->pkt);
	LIST_REMOVE(t, link);
	s->ntx--;
	s->tx_bytes -= t->payload_len;
	free(t);
}

static void peer_forget(struct sim_nic *s, struct sim_peer *p)
{
	struct sim_tx *t, *next;
	uint32_t i;

	for (t = LIST_FIRST(&s->txs); t; t = next) {
		next = LIST_NEXT(t, link);
		if (t->peer == p)
			tx_drop(t);
	}
	for (i = 0; i < s->count; i++) {
		struct sim_entry *e = &s->ring[(s->head + i) & (s->cap - 1)];

		if (e->rx.peer == (struct uccl_nic_peer *)p)
			e->bad = true;
	}
	LIST_REMOVE(p, link);
	s->stats.peers--;
	free(p);
}

static void nic_disconnect(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	struct sim_nic *s = sim_nic(nic);

	peer_part(s, (struct sim_peer *)peer);
	peer_forget(s, (struct sim_peer *)peer);
}

static int nic_fence(struct uccl_nic *nic, struct uccl_nic_peer *peer, uint16_t path)
{
	struct sim_nic *s = sim_nic(nic);
	struct sim_peer *p = (struct sim_peer *)peer;
	struct uccl_rx rx = {.kind = UCCL_RX_FENCED, .path = path, .peer = peer, .peer_id = p ? p->id : 0};
	uint64_t at = soon(s, s->cfg.late.fence_ns);

	if (!p || path >= p->paths)
		return -FI_EINVAL;
	uccl_sim_addr(p->node, 0, &rx.src);
	/*
	 * Until the fence is complete earlier writes may still land; afterwards none does that was posted before, also
	 * if it has not left the sender yet: it is meant for the path as it was.
	 */
	if (!s->cfg.leaky)
		p->fence[path] = uccl_max(p->fence[path], at);
	if (!s->dead)
		push_later(s, &rx, NULL, p->serial, at);
	return 0;
}

/* As if its queue pairs ended: what is under way is read no more, and nothing of it leaves. */
static void nic_stop_writes(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	struct sim_nic *s = sim_nic(nic);
	struct sim_tx *t;

	LIST_FOREACH(t, &s->txs, link) {
		if (t->peer != (struct sim_peer *)peer || !t->serial || s->cfg.leaky)
			continue;
		if (t->pkt)
			uccl_sim_pkt_free(t->pkt);
		t->pkt = NULL;
		s->stats.stopped++;
		tx_answered(t, s->net->now);
	}
}

static int nic_reg(struct uccl_nic *nic, void *buf, uint64_t len, void **mr, uint64_t *rkey, uint64_t *raddr)
{
	struct sim_nic *s = sim_nic(nic);
	struct sim_mr *m;

	if (!s->cfg.write_max)
		return -FI_ENOSYS;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -FI_ENOMEM;
	m->buf = buf;
	m->len = len;
	m->rkey = uccl_sim_serial(s->net) << 32 | uccl_rng_next(&s->rng) >> 32;
	/* Not the address here: whoever confuses the two shall miss. */
	m->raddr = uccl_rng_next(&s->rng) >> 8 & ~4095ull;
	LIST_INSERT_HEAD(&s->mrs, m, link);
	s->stats.mrs++;
	*mr = m;
	*rkey = m->rkey;
	*raddr = m->raddr;
	return 0;
}

static void mr_free(struct sim_mr *m)
{
	LIST_REMOVE(m, link);
	free(m);
}

static void nic_dereg(struct uccl_nic *nic, void *mr, bool settled)
{
	struct sim_nic *s = sim_nic(nic);

	(void)settled;
	s->stats.mrs--;
	if (!s->cfg.leaky)
		mr_free(mr);
}

static int nic_wait_fd(struct uccl_nic *nic)
{
	(void)nic;
	return -FI_ENOSYS;
}

static void nic_addr(struct uccl_nic *nic, struct uccl_nic_addr *out)
{
	uccl_sim_addr(sim_nic(nic)->node, 0, out);
}

/* All that is on its way in this NIC ends; nothing of it touches memory any more. */
static void nic_stop(struct sim_nic *s)
{
	struct sim_later *l;
	struct sim_peer *p;
	struct sim_tx *t;

	if (nic_at(s->net, s->node) == s)
		uccl_sim_attach(s->net, s->node, NULL, NULL);
	LIST_FOREACH(p, &s->peers, link)
		peer_part(s, p);
	while ((t = LIST_FIRST(&s->txs)))
		tx_drop(t);
	while ((l = LIST_FIRST(&s->laters))) {
		uccl_sim_cancel(s->net, &l->ev);
		if (l->pkt)
			uccl_sim_pkt_free(l->pkt);
		LIST_REMOVE(l, link);
		free(l);
	}
	uccl_sim_cancel(s->net, &s->room);
}

static void nic_close(struct uccl_nic *nic)
{
	struct sim_nic *s = sim_nic(nic);
	uint32_t i;

	nic_stop(s);
	while (LIST_FIRST(&s->peers))
		peer_forget(s, LIST_FIRST(&s->peers));
	while (LIST_FIRST(&s->mrs))
		mr_free(LIST_FIRST(&s->mrs));
	for (i = 0; i < s->count; i++) {
		struct sim_entry *e = &s->ring[(s->head + i) & (s->cap - 1)];

		if (e->pkt)
			uccl_sim_pkt_free(e->pkt);
	}
	free_handed(s);
	free(s->ring);
	free(s->together);
	free(s);
}

void uccl_sim_nic_kill(struct uccl_nic *nic)
{
	struct sim_nic *s = sim_nic(nic);

	nic_stop(s);
	s->dead = true;
}

static uint64_t nic_backlog(struct uccl_nic *nic)
{
	return sim_nic(nic)->tx_bytes;
}

#define PACKET_OPS                                                                                                     \
	.name = "sim", .tx = nic_tx, .rx = nic_rx, .connect = nic_connect, .disconnect = nic_disconnect,               \
	.backlog = nic_backlog, .wait_fd = nic_wait_fd, .addr = nic_addr, .close = nic_close

static const struct uccl_nic_ops packet_ops = {PACKET_OPS};
#define WRITE_OPS PACKET_OPS, .fence = nic_fence, .reg = nic_reg, .dereg = nic_dereg
static const struct uccl_nic_ops write_ops = {WRITE_OPS};
static const struct uccl_nic_ops answer_ops = {WRITE_OPS, .stop_writes = nic_stop_writes};

int uccl_sim_nic_open(struct uccl_sim_net *net, uint8_t node, const struct uccl_sim_nic_cfg *cfg, struct uccl_nic **nic)
{
	struct sim_nic *s;

	if (node >= net->cfg.nodes || cfg->mtu < UCCL_HDR_LEN || !cfg->labels || !cfg->rx_slots ||
	    (!cfg->tx_sync && !cfg->tx_depth) || (cfg->write_max && cfg->tx_sync) ||
	    (cfg->train_bytes && !cfg->tx_sync))
		return -FI_EINVAL;
	if (net->node[node].sink)
		return -FI_EADDRINUSE;
	s = calloc(1, sizeof(*s));
	if (s && cfg->train_bytes)
		s->together = malloc(TOGETHER);
	if (!s || (cfg->train_bytes && !s->together)) {
		free(s);
		return -FI_ENOMEM;
	}
	s->base.ops = !cfg->write_max ? &packet_ops : cfg->late.answer_ns ? &answer_ops : &write_ops;
	s->base.caps = (struct uccl_nic_caps){
		.mtu = cfg->mtu,
		.write_max = cfg->write_max,
		.write_brittle = cfg->write_brittle,
		.labels = cfg->labels,
		.rails = net->cfg.rails ? net->cfg.routes : 0,
		.tx_sync = cfg->tx_sync,
		.train_bytes = cfg->train_bytes,
		.marks = cfg->marks,
		.find_mtu = !cfg->write_max,
		.placements = cfg->placements,
		.rx_slots = cfg->rx_slots,
		.queue = { cfg->slot_unit, cfg->rx_slots * uccl_slot_count(cfg->slot_unit, cfg->mtu) },
		.link_bps = cfg->link_bps,
		.link_real = true,
		.delay_ns = cfg->delay_ns,
		.rto_min_ns = cfg->rto_min_ns,
	};
	s->net = net;
	s->node = node;
	s->cfg = *cfg;
	uccl_rng_seed(&s->rng, uccl_rng_next(&net->rng));
	LIST_INIT(&s->peers);
	LIST_INIT(&s->mrs);
	LIST_INIT(&s->txs);
	LIST_INIT(&s->laters);
	s->limit[POOL_DATA] = s->base.caps.queue.units;
	s->limit[POOL_WRITE] = cfg->rx_slots;
	s->limit[POOL_CONTROL] = cfg->control_slots ? cfg->control_slots : 4096;
	uccl_sim_attach(net, node, &nic_sink, s);
	*nic = &s->base;
	return 0;
}

const struct uccl_sim_nic_stats *uccl_sim_nic_stats(const struct uccl_nic *nic)
{
	return &sim_nic(nic)->stats;
}

uint32_t uccl_sim_nic_queued(const struct uccl_nic *nic)
{
	return sim_nic(nic)->count;
}

void uccl_sim_nic_break(struct uccl_nic *nic, uint8_t node, uint16_t path)
{
	struct sim_nic *s = sim_nic(nic);
	struct sim_peer *p;

	LIST_FOREACH(p, &s->peers, link) {
		struct uccl_rx rx = {
			.kind = UCCL_RX_PATH_ERR,
			.path = path,
			.peer = (struct uccl_nic_peer *)p,
			.peer_id = p->id,
		};

		if (p->node != node || path >= p->paths)
			continue;
		uccl_sim_addr(node, 0, &rx.src);
		p->fence[path] = uccl_max(p->fence[path], s->net->now);
		push_later(s, &rx, NULL, p->serial, s->net->now);
	}
}
