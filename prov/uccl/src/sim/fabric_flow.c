/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The provider's own flows on the fabric: flow and policies as they are in the product, one NIC and one progress loop
 * per host. What is left out: the handshake, receive slots, tag matching and rendezvous of messages, the processor's
 * time (it is part of the links' delay). With cfg.chunk, chunks are RDMA writes over UC: packets of the link's size,
 * one behind the other on one path; if one of them is lost, or overtaken, the NIC drops the write. All else is packets
 * over UD, which may leave in trains.
 */
#include <assert.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/units.h"
#include "flow/events.h"
#include "flow/flow.h"
#include "sim/fabric_stacks.h"

#define RTYPE_DATA 1
#define PORT_FIRST 0xc000

/* Clocks of hosts have nothing to do with each other: they began within so long, and go wrong by so much at most. */
#define CLOCK_NS (3600 * UCCL_NS_PER_S)
#define CLOCK_DRIFT 50e-6

/* Payload is never read: an address is enough. */
#define PAYLOAD ((void *)0x10000000)

struct fhost;

/* One direction-less flow at one host, and its other end. */
struct fflow {
	struct uccl_flow f;
	struct fhost *host;
	struct fflow *peer;
	uint32_t to;
	struct fflow *next; /* of this host, by peer's number */
	uint64_t *seen;	    /* bytes of each path at the look before, then those since; NULL: there was none */
	bool sends;
};

/* One engine of a host, with its progress loop; a host has several where ranks or engines share its NIC. */
struct fhost {
	struct uccl_fab_scene *s;
	uint32_t id;
	TAILQ_HEAD(, uccl_flow) ready;
	struct uccl_heap heap;
	struct uccl_pacer pacer;
	struct uccl_timer pacing;
	struct fflow *flows;
	uint32_t nflows;
	uint64_t armed; /* ns of the timer event that counts; UCCL_NEVER: none */
	uint64_t clock_ns; /* what its clock shows when the scene begins */
	double clock_rate;
	bool pumping;
};

struct wake {
	struct uccl_fab_event ev;
	struct fhost *host;
	uint64_t at; /* ns of its clock */
};

/* What one uccl_tx became: shared by the packets of a write. */
struct unit {
	struct fflow *from, *to;
	uint64_t cookie;
	uint32_t refs, parts, came;
	uint32_t len;
	uint32_t imm;
	uint16_t path, tail_len;
	uint8_t kind; /* enum uccl_tx_kind */
	uint8_t size; /* which pool */
	bool torn;
	uint8_t hdr[];
};

enum { UNIT_WRITE, UNIT_SMALL, UNIT_LARGE, UNIT_KINDS };

static const size_t unit_bytes[UNIT_KINDS] = {
	sizeof(struct unit),
	sizeof(struct unit) + UCCL_HDR_LEN + 192,
	sizeof(struct unit) + UCCL_HDR_LEN + UCCL_TAIL_MAX,
};

struct op_item {
	struct uccl_item item;
	struct op_item *next; /* of the same operation */
	struct iovec iov;
	uint32_t op;
};

struct fstack {
	struct fhost *hosts; /* `loops` of each */
	uint32_t loops;
	uint8_t *turns; /* of every NIC: which of its loops is next */
	struct uccl_pool units[UNIT_KINDS];
	struct uccl_pool wakes;
	const struct uccl_cc_ops *cc;
	const struct uccl_path_ops *pathsel;
	const struct uccl_credit_ops *credit;
	double k[UCCL_POLICY_KINDS][UCCL_CONSTANTS_MAX];
	struct uccl_rng rng; /* of lost credits */
	struct uccl_tx tx;
};

/* What flows of a host take for the rate of its link. */
static uint64_t told_bps(const struct uccl_fab_scene *s, uint32_t host)
{
	return s->cfg.told.link_bps ? s->cfg.told.link_bps : uccl_fab_host_bps(&s->net, host);
}

/* What its clock shows, ns: all that flows know of time. */
static uint64_t host_now(const struct fhost *h)
{
	return h->clock_ns + (uint64_t)((double)uccl_fab_now(h->s) * h->clock_rate);
}

/* When it will have shown that. */
static uint64_t host_at(const struct fhost *h, uint64_t shows)
{
	return (uint64_t)((double)(shows - h->clock_ns) / h->clock_rate) + 1;
}

static struct fflow *fflow_of(struct uccl_flow *f)
{
	return uccl_container_of(f, struct fflow, f);
}

static void stripe_put(struct fstack *st, struct unit *u)
{
	if (!--u->refs)
		uccl_pool_put(&st->units[u->size], u);
}

/* What the flow says */

static enum uccl_drop flow_deliver(struct uccl_flow *f, const struct uccl_chunk_in *in, uint64_t now)
{
	struct fflow *ff = fflow_of(f);
	struct uccl_fab_scene *s = ff->host->s;
	uint32_t op = uccl_get32(in->rec);

	(void)now;
	if (in->rtype != RTYPE_DATA || op >= s->nops || s->ops[op].dst != ff->host->id) {
		uccl_fab_broken(s, "a chunk of nobody's operation");
		return UCCL_DROP_RECORD;
	}
	uccl_fab_arrived(s, op, uccl_get64(in->rec + 8), in->len);
	if (s->ops[op].end_ns && f->rx.write.ndoubts)
		uccl_flow_fence_message(f, op, 1, now);
	return UCCL_DROP_COUNT;
}

static void flow_settled(struct uccl_flow *f, uint32_t id, uint32_t gen, uint64_t now)
{
	(void)f;
	(void)id;
	(void)gen;
	(void)now;
}

/* The time that a NIC takes for it is no matter of the fabric: nobody waits for the buffer here. */
static void flow_fence(struct uccl_flow *f, uint16_t path, uint64_t now)
{
	uccl_flow_fenced(f, path, now);
}

static void flow_acked(struct uccl_flow *f, struct uccl_item *item, uint64_t now)
{
	struct op_item *it = uccl_container_of(item, struct op_item, item);
	struct uccl_fab_scene *s = fflow_of(f)->host->s;

	struct op_item **p = (struct op_item **)&s->ops[it->op].item;

	(void)now;
	while (*p != it)
		p = &(*p)->next;
	*p = it->next;
	s->ops[it->op].acked_ns = uccl_fab_now(s);
	free(it);
}

static const struct uccl_flow_ops flow_ops = {
	.deliver = flow_deliver,
	.settled = flow_settled,
	.fence = flow_fence,
	.acked = flow_acked,
};

/* Timers: one event per host counts; those that were overtaken by an earlier one do nothing. */

static void host_arm(struct fhost *h)
{
	struct fstack *st = h->s->st;
	struct uccl_timer *t = uccl_heap_min(&h->heap);
	struct wake *w;
	uint64_t at;

	if (!t || t->at >= h->armed)
		return;
	at = uccl_max(t->at, host_now(h) + 1);
	if (at >= h->armed)
		return;
	w = uccl_fab_need(uccl_pool_get(&st->wakes));
	w->ev.kind = UCCL_FAB_STACK;
	w->host = h;
	w->at = h->armed = at;
	uccl_fab_queue_put(&h->s->net.q, &w->ev, host_at(h, at) * UCCL_PS_PER_NS);
}

static void flow_ready(struct fflow *ff)
{
	if (ff->f.is_ready)
		return;
	ff->f.is_ready = true;
	TAILQ_INSERT_TAIL(&ff->host->ready, &ff->f, ready);
}

/* Sending */

static struct unit *stripe_new(struct fstack *st, struct fflow *ff, const struct uccl_tx *tx)
{
	int size = tx->kind == UCCL_TX_WRITE ? UNIT_WRITE : tx->tail_len <= 192 ? UNIT_SMALL : UNIT_LARGE;
	struct unit *u = uccl_fab_need(uccl_pool_get(&st->units[size]));

	u->from = ff;
	u->to = ff->peer;
	u->cookie = tx->cookie;
	u->len = tx->payload_len;
	u->imm = tx->imm;
	u->path = tx->path;
	u->tail_len = tx->tail_len;
	u->kind = tx->kind;
	u->size = (uint8_t)size;
	memcpy(u->hdr, tx->hdr, tx->hdr_len);
	memcpy(u->hdr + tx->hdr_len, tx->tail, tx->tail_len);
	return u;
}

static void post(struct fhost *h, struct fflow *ff, const struct uccl_tx *tx)
{
	struct uccl_fab_scene *s = h->s;
	struct unit *u = stripe_new(s->st, ff, tx);
	uint32_t left = tx->payload_len, mtu = s->cfg.mtu;

	u->parts = tx->kind == UCCL_TX_WRITE ? (left + mtu - 1) / mtu : 1;
	u->refs = u->parts;
	for (uint32_t i = 0; i < u->parts; i++) {
		struct uccl_fab_pkt *p = uccl_fab_pkt_new(&s->net);

		p->src = h->id;
		p->dst = ff->to;
		p->unit = u;
		p->part = i;
		p->sport = (uint16_t)(PORT_FIRST + tx->label);
		if (tx->kind == UCCL_TX_WRITE) {
			p->bytes = (uint32_t)uccl_min(left, mtu) + UCCL_FAB_ROCE_BYTES;
			p->bytes += i ? 0 : UCCL_FAB_RETH_BYTES;
			p->bytes += i + 1 == u->parts ? UCCL_FAB_IMM_BYTES : 0;
			p->cls = UCCL_FAB_DATA;
			left -= (uint32_t)uccl_min(left, mtu);
		} else {
			p->bytes = UCCL_FAB_ROCE_BYTES + UCCL_FAB_DETH_BYTES + tx->hdr_len + left + tx->tail_len;
			p->cls = uccl_tx_control_class(tx) && s->cfg.control ? UCCL_FAB_CONTROL : UCCL_FAB_DATA;
		}
		uccl_fab_send(&s->net, p);
	}
}

/*
 * The progress loop's sending half: flows take turns, one chunk each, as long as the NIC has little left to do. A flow
 * that has nothing more to say now sets its timer.
 */
static void host_pump(struct fhost *h)
{
	struct uccl_fab_scene *s = h->s;
	struct fstack *st = s->st;
	uint64_t now = host_now(h);
	struct uccl_pull *pull;
	struct uccl_flow *f;

	if (h->pumping)
		return;
	h->pumping = true;
	while ((pull = uccl_pacer_next(&h->pacer, now))) {
		f = uccl_container_of(pull, struct uccl_flow, credit.pull);
		uccl_credit_due(&f->credit);
		flow_ready(fflow_of(f));
	}
	uccl_heap_set(&h->heap, &h->pacing, uccl_pacer_expiry(&h->pacer, now));
	while (uccl_fab_backlog(&s->net, h->id) < s->cfg.post_bytes && (f = TAILQ_FIRST(&h->ready))) {
		TAILQ_REMOVE(&h->ready, f, ready);
		/* The packets of a train leave together. */
		do {
			f->is_ready = uccl_flow_tx(f, &st->tx, now);
			if (f->is_ready)
				post(h, fflow_of(f), &st->tx);
		} while (f->is_ready && f->sent.out.left);
		if (f->is_ready)
			TAILQ_INSERT_TAIL(&h->ready, f, ready);
		uccl_heap_set(&h->heap, &f->timer, uccl_flow_expiry(f));
	}
	h->pumping = false;
	host_arm(h);
}

/* What the network says */

static bool credit_lost(struct uccl_fab_scene *s, const struct uccl_hdr *h)
{
	struct fstack *st = s->st;

	return s->cfg.credit_loss > 0 && (h->type == UCCL_PKT_CREDIT || h->type == UCCL_PKT_DEMAND) &&
	       uccl_rng_chance(&st->rng, s->cfg.credit_loss);
}

static void stack_deliver(struct uccl_fab *n, struct uccl_fab_pkt *p)
{
	struct uccl_fab_scene *s = n->user;
	struct unit *u = p->unit;
	struct fflow *ff = u->to;
	const struct fstack *st = s->st;
	uint64_t now = host_now(ff->host);
	struct uccl_hdr h;
	bool whole;

	/* What is delivered may begin the next operation: it leaves when this packet is done with. */
	ff->host->pumping = true;
	/* The PSN must be the next one, or the NIC drops the message. */
	u->torn |= p->part != u->came++ || p->trimmed;
	whole = !u->torn && u->came == u->parts;
	if (whole && u->kind == UCCL_TX_WRITE) {
		uccl_flow_rx_write(&ff->f, u->imm, u->len, u->path, now);
	} else if (whole) {
		uint32_t len = UCCL_HDR_LEN + u->len + u->tail_len;

		if (uccl_hdr_decode(&h, u->hdr, len) != UCCL_DROP_COUNT)
			uccl_fab_broken(s, "a packet does not decode");
		h.marked = p->ecn && s->cfg.marks && st->cc->marks;
		if (!s->broken[0] && !credit_lost(s, &h))
			uccl_flow_rx(&ff->f, &h, PAYLOAD, u->hdr + UCCL_HDR_LEN, 0, now);
	}
	ff->host->pumping = false;
	stripe_put(s->st, u);
	uccl_fab_pkt_free(n, p);
	if (!whole)
		return;
	flow_ready(ff);
	host_pump(ff->host);
}

static void stack_lost(struct uccl_fab *n, struct uccl_fab_pkt *p)
{
	struct uccl_fab_scene *s = n->user;

	stripe_put(s->st, p->unit);
	uccl_fab_pkt_free(n, p);
}

static void stack_sent(struct uccl_fab *n, uint32_t host, struct uccl_fab_pkt *p)
{
	struct uccl_fab_scene *s = n->user;
	struct fstack *st = s->st;
	struct unit *u = p->unit;

	if (u && u->kind == UCCL_TX_WRITE && p->part + 1 == u->parts) {
		uccl_flow_sent(&u->from->f, u->cookie, host_now(u->from->host));
		flow_ready(u->from);
	}
	/* As a NIC does with queue pairs: those that have something take turns. */
	for (uint32_t i = 0, at = st->turns[host]; i < st->loops; i++, at = (at + 1) % st->loops) {
		struct fhost *h = &st->hosts[host * st->loops + at];

		if (TAILQ_EMPTY(&h->ready) || uccl_fab_backlog(n, host) >= s->cfg.post_bytes)
			continue;
		host_pump(h);
		st->turns[host] = (uint8_t)((at + 1) % st->loops);
	}
}

static void stack_event(struct uccl_fab *n, struct uccl_fab_event *e)
{
	struct wake *w = uccl_container_of(e, struct wake, ev);
	struct uccl_fab_scene *s = n->user;
	struct fstack *st = s->st;
	struct fhost *h = w->host;
	bool counts = w->at == h->armed;
	uint64_t now = host_now(h);
	struct uccl_timer *t;

	uccl_pool_put(&st->wakes, w);
	if (!counts)
		return;
	h->armed = UCCL_NEVER;
	while ((t = uccl_heap_min(&h->heap)) && t->at <= now) {
		struct uccl_flow *f = uccl_container_of(t, struct uccl_flow, timer);

		uccl_heap_set(&h->heap, t, UCCL_NEVER);
		if (t == &h->pacing)
			continue;
		uccl_flow_expire(f, now);
		flow_ready(fflow_of(f));
	}
	host_pump(h);
}

/* Flows */

static int flow_make(struct uccl_fab_scene *s, struct fhost *h, uint32_t to, struct fflow **out)
{
	const struct uccl_fab_cfg *c = &s->cfg;
	struct fstack *st = s->st;
	struct fflow *ff = calloc(1, sizeof(*ff));
	uint32_t chunk = uccl_words(c->mtu - UCCL_HDR_LEN);
	uint16_t paths = (uint16_t)uccl_max(c->paths / c->engines, 1);
	uint64_t unit = (uint64_t)(h - st->hosts) % st->loops;
	uint32_t train = c->chunk ? 0 : c->train / c->mtu * chunk;
	/* There and back through the empty network, as a handshake before all traffic would have it. */
	uint64_t rtt = 2 * uccl_fab_one_way(&s->net, h->id, to, c->mtu) / UCCL_PS_PER_NS;
	uint64_t seed = c->seed ^ (unit << 48 ^ (uint64_t)h->id << 32 ^ to) * 0x9e3779b97f4a7c15ull;
	const struct uccl_flow_cfg cfg = {
		.policy.cc = st->cc,
		.policy.pathsel = st->pathsel,
		.policy.credit = st->credit,
		.policy.params = {st->k[UCCL_POLICY_CC], st->k[UCCL_POLICY_PATH], st->k[UCCL_POLICY_CREDIT]},
		.pacer = &h->pacer,
		.backlog = &s->net.ports[h->id].bytes[UCCL_FAB_DATA],
		.ops = &flow_ops,
		.stats = &s->stats,
		.wire.token_tx = 1,
		.wire.token_rx = 1,
		.wire.csn_tx = 1000,
		.wire.csn_rx = 1000,
		.wire.delays_tx = true,
		.wire.renews = true,
		.wire.first_label = (uint16_t)(seed >> 40),
		.packet.chunk_bytes = chunk,
		.write.bytes = c->chunk,
		.write.brittle = c->brittle,
		.packet.mtu = c->mtu,
		.packet.mtu_rx = c->mtu,
		.train.bytes = train,
		.train.shorten = !c->told.soft,
		.train.segments_tx = train ? UCCL_SEGMENT_COUNT : 0,
		.train.segments_rx = train != 0,
		.window = c->window,
		.paths_tx = paths,
		.paths_rx = paths,
		.labels = c->labels,
		.slots_tx = (uint16_t)c->window,
		.slots_rx = (uint16_t)c->window,
		.msg_limit_tx = 1,
		.tx_sync = true,
		.link_bps = told_bps(s, h->id) / c->engines,
		.delay_ns = c->told.delay_ns ? c->told.delay_ns : rtt,
		.rto_min_ns = c->told.rto_min_ns,
		.first_rtt_ns = rtt,
		.seed = seed,
	};

	*out = ff;
	if (!ff || uccl_heap_reserve(&h->heap, h->nflows + 2) || uccl_flow_init(&ff->f, &cfg, ff, host_now(h))) {
		free(ff);
		return -FI_ENOMEM;
	}
	ff->f.timer.at = UCCL_NEVER;
	uccl_write_rx_rtype(&ff->f.rx.write, RTYPE_DATA);
	ff->host = h;
	ff->to = to;
	ff->next = h->flows;
	h->flows = ff;
	h->nflows++;
	s->flows++;
	return 0;
}

static struct fflow *flow_find(const struct fhost *h, uint32_t to)
{
	struct fflow *ff = h->flows;

	while (ff && ff->to != to)
		ff = ff->next;
	return ff;
}

/* The flow of an operation by one engine; the connection may be open. NULL: no memory. */
static struct fflow *flow_open(struct uccl_fab_scene *s, const struct uccl_fab_op *op, uint32_t unit)
{
	struct fstack *st = s->st;
	struct fhost *a = &st->hosts[op->src * st->loops + unit], *b = &st->hosts[op->dst * st->loops + unit];
	struct fflow *ff = flow_find(a, op->dst), *back;

	if (ff)
		return ff;
	if (flow_make(s, a, op->dst, &ff) || flow_make(s, b, op->src, &back))
		return NULL;
	ff->peer = back;
	back->peer = ff;
	return ff;
}

/* A CREDIT that tells a turn leaves right behind the handshake, so it came before all traffic. PROTOCOL R347 */
static void turns_tell(struct fhost *h)
{
	uint64_t now = host_now(h), grant, turn;
	struct uccl_pull *pull;

	while ((pull = uccl_pacer_next(&h->pacer, now))) {
		struct uccl_flow *f = uccl_container_of(pull, struct uccl_flow, credit.pull);

		grant = uccl_event_grant(f, &turn, now);
		uccl_event_rx_credit(&fflow_of(f)->peer->f, grant, turn, host_now(fflow_of(f)->peer->host));
	}
}

static int stack_connect(struct uccl_fab_scene *s)
{
	struct fstack *st = s->st;

	for (uint32_t i = 0; i < s->nops; i++)
		for (uint32_t e = 0; e < s->cfg.engines; e++)
			if (!flow_open(s, &s->ops[i], s->ops[i].rank * s->cfg.engines + e))
				return -FI_ENOMEM;
	for (uint32_t i = 0; i < s->cfg.topo.hosts * st->loops; i++)
		turns_tell(&st->hosts[i]);
	return 0;
}

/* Bytes [from, to) of an operation by one engine's flow. */
static int part_send(struct uccl_fab_scene *s, uint32_t i, uint32_t unit, uint64_t from, uint64_t to)
{
	struct uccl_fab_op *op = &s->ops[i];
	struct fflow *ff = flow_open(s, op, unit);
	struct op_item *it = ff ? calloc(1, sizeof(*it)) : NULL;

	if (!it)
		return -FI_ENOMEM;
	ff->sends = true;
	it->next = op->item;
	op->item = it;
	it->op = i;
	it->iov = (struct iovec){.iov_base = PAYLOAD, .iov_len = to - from};
	it->item.rtype = RTYPE_DATA;
	it->item.bulk = true;
	it->item.want_ack = true;
	it->item.direct = s->cfg.chunk != 0;
	it->item.iov = &it->iov;
	it->item.iov_count = 1;
	it->item.len = to - from;
	uccl_rec_set_bulk(it->item.rec, i, 1, from);
	uccl_flow_submit(&ff->f, &it->item);
	flow_ready(ff);
	host_pump(ff->host);
	return 0;
}

static int stack_send(struct uccl_fab_scene *s, uint32_t i)
{
	uint64_t from = 0, bytes = s->ops[i].bytes, piece = uccl_max(s->cfg.chunk, s->cfg.mtu);
	uint32_t n = s->cfg.engines, unit = s->ops[i].rank * n;
	int rc = 0;

	/* Whole chunks, as equal as can be. */
	for (uint32_t e = 0; !rc && e < n && from < bytes; e++) {
		uint64_t to = e + 1 == n ? bytes : uccl_min(bytes, (bytes * (e + 1) / n + piece - 1) / piece * piece);

		if (to > from)
			rc = part_send(s, i, unit + e, from, to);
		from = to;
	}
	return rc;
}

static void flow_look(struct uccl_fab_scene *s, struct fflow *ff, uccl_fab_see see, void *arg)
{
	const struct fstack *st = s->st;
	uint32_t n = ff->f.paths.n;
	uint64_t sum = 0;

	if (!ff->seen)
		ff->seen = uccl_fab_need(calloc(2 * (size_t)n, sizeof(*ff->seen)));
	for (uint32_t i = 0; i < n; i++) {
		ff->seen[n + i] = ff->f.paths.list[i].counters.bytes - ff->seen[i];
		ff->seen[i] = ff->f.paths.list[i].counters.bytes;
		sum += ff->seen[n + i];
	}
	if (!sum && !ff->f.sent.inflight_bytes)
		return;
	see(s,
	    &(struct uccl_fab_sight){
		    .src = ff->host->id,
		    .dst = ff->to,
		    .engine = (uint32_t)(ff->host - st->hosts) % st->loops,
		    .window = uccl_event_window(&ff->f),
		    .inflight = ff->f.sent.inflight_bytes,
		    .srtt_ns = ff->f.loss.times.srtt_ns,
		    .rtt_ns = ff->f.loss.times.last_rtt_ns,
		    .carried = ff->seen + n,
		    .npaths = n,
	    },
	    arg);
}

static void stack_look(struct uccl_fab_scene *s, uccl_fab_see see, void *arg)
{
	const struct fstack *st = s->st;

	for (uint32_t i = 0; i < s->cfg.topo.hosts * st->loops; i++)
		for (struct fflow *ff = st->hosts[i].flows; ff; ff = ff->next)
			if (ff->sends)
				flow_look(s, ff, see, arg);
}

/* Of a host, whatever else is drawn. */
static void host_clock(struct fhost *h)
{
	struct uccl_rng rng;

	uccl_rng_seed(&rng, h->s->cfg.seed ^ 0x636c6f636bull << 24 ^ h->id);
	h->clock_ns = uccl_rng_below(&rng, CLOCK_NS);
	h->clock_rate = 1 + CLOCK_DRIFT * ((double)uccl_rng_below(&rng, 2001) / 1000 - 1);
}

static int stack_open(struct uccl_fab_scene *s)
{
	struct fstack *st = calloc(1, sizeof(*st));
	const struct uccl_fab_cfg *c = &s->cfg;

	if (!st)
		return -FI_ENOMEM;
	s->st = st;
	s->cfg.engines = uccl_max(c->engines, 1);
	s->cfg.ranks = uccl_max(c->ranks, 1);
	st->cc = uccl_cc_find(c->cc);
	st->pathsel = uccl_path_find(c->path);
	st->credit = uccl_credit_find(c->credit);
	if (uccl_policies_values((const char *const[]){c->cc, c->path, c->credit}, st->k) || c->mtu < 512 ||
	    c->labels < c->paths || c->engines > 64 || c->ranks > 64 || c->labels > UINT16_MAX - PORT_FIRST ||
	    c->window < 64 || (c->window & (c->window - 1)) || !c->told.rto_min_ns)
		return -FI_EINVAL;
	st->loops = (uint32_t)c->engines * c->ranks;
	if (st->loops > UINT8_MAX)
		return -FI_EINVAL;
	st->turns = calloc(c->topo.hosts, sizeof(*st->turns));
	st->hosts = calloc((size_t)c->topo.hosts * st->loops, sizeof(*st->hosts));
	if (!st->hosts || !st->turns)
		return -FI_ENOMEM;
	uccl_rng_seed(&st->rng, c->seed);
	for (int i = 0; i < UNIT_KINDS; i++)
		uccl_pool_init(&st->units[i], unit_bytes[i], 16u << 20);
	uccl_pool_init(&st->wakes, sizeof(struct wake), 16u << 20);
	for (uint32_t i = 0; i < c->topo.hosts * st->loops; i++) {
		struct fhost *h = &st->hosts[i];

		h->s = s;
		h->id = i / st->loops;
		host_clock(h);
		h->armed = UCCL_NEVER;
		TAILQ_INIT(&h->ready);
		uccl_heap_init(&h->heap);
		h->pacing.at = UCCL_NEVER;
		uccl_pacer_init(&h->pacer, told_bps(s, h->id) / st->loops);
	}
	s->flow_bytes = sizeof(struct fflow);
	return 0;
}

static void stack_close(struct uccl_fab_scene *s)
{
	struct fstack *st = s->st;

	for (uint32_t i = 0; i < s->nops; i++)
		for (struct op_item *it = s->ops[i].item, *next; it; it = next) {
			next = it->next;
			free(it);
		}
	for (uint32_t i = 0; st->hosts && i < s->cfg.topo.hosts * st->loops; i++) {
		struct fflow *ff = st->hosts[i].flows, *next;

		for (; ff; ff = next) {
			next = ff->next;
			uccl_flow_fini(&ff->f);
			free(ff->seen);
			free(ff);
		}
		uccl_heap_fini(&st->hosts[i].heap);
		uccl_pacer_fini(&st->hosts[i].pacer);
	}
	for (int i = 0; st->hosts && i < UNIT_KINDS; i++)
		uccl_pool_fini(&st->units[i]);
	if (st->hosts)
		uccl_pool_fini(&st->wakes);
	free(st->hosts);
	free(st->turns);
	free(st);
}

const struct uccl_fab_stack uccl_fab_stack_uccl = {
	.name = "uccl",
	.open = stack_open,
	.close = stack_close,
	.connect = stack_connect,
	.send = stack_send,
	.look = stack_look,
	.net =
		{
			.deliver = stack_deliver,
			.lost = stack_lost,
			.sent = stack_sent,
			.event = stack_event,
		},
};
