/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flow/observe/stall.h"
#include "policy/policies.h"

#define GEN PAIR_GEN

static const uint8_t range_key[UCCL_KEY_LEN] = {7};
#define POISON 0xee
#define TX_MAX 200000 /* things that one pump may send: more is a loop without end */

void pair_fail(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: %s\n", file, line, what);
	fflush(NULL);
	abort();
}

struct pair_cfg pair_packets(void)
{
	return (struct pair_cfg){
		.window = 256,
		.chunk_bytes = 1024,
		.mtu = UCCL_HDR_LEN + 1024 + UCCL_TAIL_MAX,
		.paths = 4,
		.labels = 16,
		.slots = 256,
		.csn = {1000, 5000},
		.delay_ns = 10 * UCCL_NS_PER_US,
		.rto_min_ns = UCCL_NS_PER_MS,
		.cc = &uccl_cc_none,
		.pathsel = &uccl_path_rr,
		.credit = &uccl_credit_none,
		.seed = 1,
	};
}

struct pair_cfg pair_direct(void)
{
	struct pair_cfg c = pair_packets();

	c.write_bytes = 4096;
	c.tx_async = true;
	return c;
}

/* The messenger */

static struct pair_side *side_of(struct uccl_flow *f)
{
	return f->user;
}

static void obj_check(struct pair_side *s, struct pair_obj *o, uint64_t now)
{
	if (o->complete || o->got < o->len)
		return;
	PAIR_CHECK(o->got == o->len);
	if (o->doubts) {
		if (!o->fencing) {
			o->fencing = true;
			uccl_flow_fence_message(&s->f, o->id, GEN, now);
		}
		return;
	}
	PAIR_CHECK(!memcmp(o->dst, o->ref, o->len));
	o->complete = true;
	s->complete++;
	memset(o->dst, POISON, o->len);
}

static enum uccl_drop side_deliver(struct uccl_flow *f, const struct uccl_chunk_in *in, uint64_t now)
{
	struct pair_side *s = side_of(f), *peer = &s->pair->side[!s->id];
	uint32_t id = uccl_get32(in->rec);
	uint64_t off = uccl_get64(in->rec + 8);
	uint32_t each = in->segments > 1 ? in->each : in->len;
	struct pair_obj *o;

	PAIR_CHECK(now == s->pair->now);
	s->doubtful += in->doubtful;
	if (s->pair->refuse) {
		enum uccl_drop reason = s->pair->refuse(s->pair, s, in);

		if (reason != UCCL_DROP_COUNT)
			return reason;
	}
	if (in->rtype == PAIR_RAW) {
		s->raw++;
		s->raw_bytes += in->len;
		return UCCL_DROP_COUNT;
	}
	if (id >= peer->nobjs || uccl_get32(in->rec + 4) != GEN)
		return UCCL_DROP_HANDLE;
	o = peer->objs[id];
	if (in->rtype == PAIR_RECORD) {
		PAIR_CHECK(!o->item.bulk && o->times == 0 && in->len == o->len && !in->placed && !in->doubtful);
		PAIR_CHECK(!in->len || !memcmp(in->data, o->ref, in->len));
		o->times++;
		o->complete = true;
		s->complete++;
		return UCCL_DROP_COUNT;
	}
	PAIR_CHECK(in->rtype == PAIR_BULK && o->item.bulk && !o->complete);
	PAIR_CHECK(off <= o->len && in->len <= o->len - off && in->len <= o->len - o->got);
	if (in->doubtful)
		o->doubts++;
	for (uint32_t at = 0, n = 0; !in->placed && at < in->len; at += each, n++)
		memcpy(o->dst + off + at, in->data + at + n * UCCL_HDR_LEN, uccl_min(each, in->len - at));
	o->got += in->len;
	PAIR_CHECK(uccl_range_set_add(&o->cover, off, off + in->len, range_key));
	PAIR_CHECK(o->got < o->len || uccl_range_set_whole(&o->cover, o->len, range_key));
	obj_check(s, o, now);
	return UCCL_DROP_COUNT;
}

static void side_settled(struct uccl_flow *f, uint32_t id, uint32_t gen, uint64_t now)
{
	struct pair_side *s = side_of(f);
	struct pair_obj *o;

	s->settled++;
	if (id >= s->pair->side[!s->id].nobjs)
		return; /* of PAIR_RAW */
	PAIR_CHECK(gen == GEN);
	o = s->pair->side[!s->id].objs[id];
	PAIR_CHECK(o->doubts && !o->complete);
	o->doubts--;
	obj_check(s, o, now);
}

static struct pair_pkt *pkt_new(struct pair *p, uint8_t kind, int to, uint32_t len)
{
	struct pair_pkt *k = calloc(1, sizeof(*k) + len);

	PAIR_CHECK(k);
	k->kind = kind;
	k->to = (uint8_t)to;
	k->len = len;
	k->born = p->now;
	k->due = p->now + p->cfg.delay_ns + p->side[k->to].host_ns;
	return k;
}

static void pkt_add(struct pair *p, struct pair_pkt *k)
{
	if (p->nwire == p->wire_cap) {
		p->wire_cap = p->wire_cap ? 2 * p->wire_cap : 64;
		p->wire = realloc(p->wire, p->wire_cap * sizeof(*p->wire));
		PAIR_CHECK(p->wire);
	}
	k->order = p->order++;
	p->wire[p->nwire++] = k;
}

/* No write that was sent before now can land on this path any more. */
static void fence_done(struct pair *p, struct pair_side *s, uint16_t path, uint64_t born)
{
	for (uint32_t i = 0; i < p->nwire;) {
		struct pair_pkt *k = p->wire[i];

		if (k->kind == UCCL_RX_WRITE && k->to == s->id && k->path == path && k->born <= born)
			pair_lose(p, i);
		else
			i++;
	}
	uccl_flow_fenced(&s->f, path, p->now);
}

static void side_fence(struct uccl_flow *f, uint16_t path, uint64_t now)
{
	struct pair_side *s = side_of(f);
	struct pair *p = s->pair;
	struct pair_pkt *k;

	s->fences++;
	if (p->cfg.fence_never)
		return;
	if (p->cfg.fence_sync) {
		fence_done(p, s, path, now);
		return;
	}
	k = pkt_new(p, UCCL_RX_FENCED, s->id, 0);
	k->path = path;
	k->due = now + p->fence_delay;
	pkt_add(p, k);
}

static void side_renew(struct uccl_flow *f, uint16_t path, bool stays, uint64_t now)
{
	(void)path;
	(void)stays;
	(void)now;
	side_of(f)->renews++;
}

static void side_acked(struct uccl_flow *f, struct uccl_item *item, uint64_t now)
{
	struct pair_side *s = side_of(f);
	struct pair_obj *o = uccl_container_of(item, struct pair_obj, item);

	(void)now;
	PAIR_CHECK(!o->acked && o->from == s->id && !item->pending && !item->queued);
	PAIR_CHECK(item->off == item->len);
	o->acked = true;
	s->acked++;
	/* The source is the application's again. */
	memset(o->src, POISON, o->len);
}

static const struct uccl_flow_ops side_ops = {
	.deliver = side_deliver,
	.settled = side_settled,
	.fence = side_fence,
	.renew = side_renew,
	.acked = side_acked,
};

/* Set-up */

void pair_init(struct pair *p, const struct pair_cfg *cfg)
{
	memset(p, 0, sizeof(*p));
	p->cfg = *cfg;
	p->now = 1000 * UCCL_NS_PER_S;
	p->sent_delay = 2 * UCCL_NS_PER_US;
	p->fence_delay = 50 * UCCL_NS_PER_US;
	uccl_rng_seed(&p->rng, cfg->seed);
	for (int i = 0; i < 2; i++) {
		struct pair_side *s = &p->side[i];
		const struct uccl_flow_cfg c = {
			.policy.cc = cfg->cc,
			.policy.pathsel = cfg->pathsel,
			.policy.credit = cfg->credit,
			.pacer = &s->pacer,
			.ops = &side_ops,
			.stats = &s->stats,
			.wire.token_tx = 0x1000u + !i,
			.wire.token_rx = 0x1000u + (unsigned int)i,
			.wire.csn_tx = cfg->csn[i],
			.wire.csn_rx = cfg->csn[!i],
			.packet.chunk_bytes = cfg->chunk_bytes,
			.write.bytes = cfg->write_bytes,
			.write.brittle = cfg->write_brittle,
			.packet.mtu = cfg->mtu,
			.packet.mtu_rx = cfg->mtu,
			.packet.find_mtu = cfg->find_mtu,
			.train.bytes = cfg->train_bytes,
			.train.shorten = cfg->train_short,
			.train.segments_tx = cfg->segments ? UCCL_SEGMENT_COUNT : 0,
			.train.segments_rx = cfg->segments,
			.train.pads_tx = cfg->pads,
			.wire.delays_tx = cfg->delays,
			.wire.renews = cfg->renews,
			.wire.first_label = (uint16_t)(cfg->seed * 7),
			.window = cfg->window,
			.paths_tx = cfg->paths,
			.paths_rx = cfg->paths,
			.labels = cfg->labels,
			.slots_tx = cfg->slots,
			.slots_rx = cfg->slots,
			.msg_limit_tx = 100,
			.wire.epoch_tx = (uint8_t)(3 + i),
			.wire.epoch_rx = (uint8_t)(3 + !i),
			.tx_sync = !cfg->tx_async,
			.write.async = cfg->write_async,
			.write.fifo = cfg->fifo,
			.link_bps = cfg->link_bps,
			.delay_ns = 2 * cfg->delay_ns,
			.rto_min_ns = cfg->rto_min_ns,
			.seed = cfg->seed + (unsigned int)i,
		};

		s->pair = p;
		s->id = (uint8_t)i;
		uccl_pacer_init(&s->pacer, cfg->link_bps);
		PAIR_CHECK(!uccl_flow_init(&s->f, &c, s, p->now));
		if (!cfg->write_begins)
			s->f.chunk.begins = 0;
		uccl_write_rx_rtype(&s->f.rx.write, PAIR_BULK);
		s->f.rx.ack_tracker.msg_limit = 100;
	}
}

void pair_fini(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		struct pair_side *s = &p->side[i];

		for (uint32_t n = 0; n < s->nobjs; n++) {
			struct pair_obj *o = s->objs[n];

			for (uint32_t b = 0; o->complete && o->item.bulk && b < o->len; b++)
				PAIR_CHECK(o->dst[b] == POISON);
			free(o->src);
			free(o->dst);
			free(o->ref);
			free(o);
		}
		free(s->objs);
		uccl_flow_fini(&s->f);
		uccl_pacer_fini(&s->pacer);
	}
	while (p->nwire)
		free(p->wire[--p->nwire]);
	free(p->wire);
	p->side[0].pair = NULL;
}

struct pair_obj *pair_make(struct pair *p, int from, uint32_t len, bool bulk, int segments)
{
	struct pair_side *s = &p->side[from];
	struct pair_obj *o = calloc(1, sizeof(*o));
	uint32_t done = 0;

	PAIR_CHECK(o && segments >= 1 && segments <= 8);
	s->objs = realloc(s->objs, (s->nobjs + 1) * sizeof(*s->objs));
	PAIR_CHECK(s->objs);
	o->id = s->nobjs;
	s->objs[s->nobjs++] = o;
	o->from = (uint8_t)from;
	o->len = len;
	o->src = malloc(len + 1);
	o->dst = calloc(1, len + 1);
	o->ref = malloc(len + 1);
	PAIR_CHECK(o->src && o->dst && o->ref);
	/* Never 0 (nothing came) and never the poison. */
	for (uint32_t i = 0; i < len; i++)
		o->ref[i] = (uint8_t)(1 + uccl_rng_below(&p->rng, POISON - 1));
	memcpy(o->src, o->ref, len);
	for (int i = 0; i < segments; i++) {
		uint32_t n =
			i == segments - 1 ? len - done : (len - done) / (uint32_t)(segments - i + 1) + (uint32_t)i % 3;

		o->iov[i] = (struct iovec){o->src + done, n};
		done += n;
	}
	o->item.rtype = bulk ? PAIR_BULK : PAIR_RECORD;
	o->item.bulk = bulk;
	o->item.want_ack = true;
	o->item.iov = o->iov;
	o->item.iov_count = (uint8_t)segments;
	o->item.len = len;
	uccl_rec_set_bulk(o->item.rec, o->id, GEN, 0);
	if (bulk && p->cfg.write_bytes) {
		o->item.direct = true;
		o->item.raddr = (uintptr_t)o->dst;
		o->item.rkey = 77;
	}
	return o;
}

struct pair_obj *pair_record(struct pair *p, int from, uint32_t len)
{
	struct pair_obj *o = pair_make(p, from, len, false, 1);

	uccl_flow_submit(&p->side[from].f, &o->item);
	return o;
}

struct pair_obj *pair_bulk(struct pair *p, int from, uint32_t len)
{
	struct pair_obj *o = pair_make(p, from, len, true, 1);

	uccl_flow_submit(&p->side[from].f, &o->item);
	return o;
}

/* The wire */

static void flow_ok(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		const char *text = uccl_flow_check(&p->side[i].f);

		if (text)
			pair_fail(__FILE__, __LINE__, text);
	}
}

static void wire_put(struct pair *p, int from, const struct uccl_tx *tx)
{
	uint32_t len =
		tx->kind == UCCL_TX_WRITE ? tx->payload_len : (uint32_t)tx->hdr_len + tx->payload_len + tx->tail_len;
	struct pair_pkt *k = pkt_new(p, tx->kind == UCCL_TX_WRITE ? UCCL_RX_WRITE : UCCL_RX_PACKET, !from, len);
	struct pair_pkt *twin;

	k->path = tx->path;
	k->label = tx->label;
	k->single = tx->single;
	k->control = uccl_tx_control_class(tx);
	k->queue = tx->queue;
	if (tx->kind == UCCL_TX_WRITE) {
		memcpy(k->data, tx->payload, len);
		k->imm = tx->imm;
		k->raddr = tx->raddr;
		PAIR_CHECK(tx->rkey == 77);
	} else {
		memcpy(k->data, tx->hdr, tx->hdr_len);
		if (tx->payload_len)
			memcpy(k->data + tx->hdr_len, tx->payload, tx->payload_len);
		memcpy(k->data + tx->hdr_len + tx->payload_len, tx->tail, tx->tail_len);
		PAIR_CHECK(len <= p->cfg.mtu);
		PAIR_CHECK(uccl_hdr_decode(&k->h, k->data, len) == UCCL_DROP_COUNT);
	}
	/* A NIC that copies has nothing to report; its cookies serve the engine only. */
	if (tx->cookie != UCCL_NEVER && (p->cfg.tx_async || (p->cfg.write_async && tx->kind == UCCL_TX_WRITE))) {
		struct pair_pkt *e = pkt_new(p, UCCL_RX_SENT, from, tx->payload_len);

		e->cookie = tx->cookie;
		e->src = tx->payload;
		memcpy(e->data, tx->payload, tx->payload_len);
		e->due = p->now + p->sent_delay;
		pkt_add(p, e);
	}
	if (uccl_rng_chance(&p->rng, p->faults.loss))
		k->fate = PAIR_DROP;
	else if (uccl_rng_chance(&p->rng, p->faults.dup))
		k->fate = PAIR_DOUBLE;
	if (uccl_rng_chance(&p->rng, p->faults.reorder))
		k->due += uccl_rng_below(&p->rng, p->faults.reorder_ns + 1);
	if (p->filter)
		p->filter(p, k);
	if (k->fate == PAIR_DROP) {
		free(k);
		return;
	}
	pkt_add(p, k);
	if (k->fate != PAIR_DOUBLE)
		return;
	k->fate = PAIR_PASS;
	twin = malloc(sizeof(*twin) + len);
	PAIR_CHECK(twin);
	memcpy(twin, k, sizeof(*twin) + len);
	if (twin->kind == UCCL_RX_PACKET)
		uccl_hdr_decode(&twin->h, twin->data, len);
	twin->due += uccl_rng_below(&p->rng, p->cfg.delay_ns + 1);
	pkt_add(p, twin);
}

/* A flow that rests has nothing to send, and nothing holds it back. */
static int pair_tx(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now)
{
	bool rests = uccl_flow_rests(f);
	int n = uccl_flow_tx(f, tx, now);

	PAIR_CHECK(!rests || (!n && f->app_limited && uccl_flow_stall(f, now) == UCCL_STALL_NOT));
	return n;
}

int pair_pump_one(struct pair *p, int from)
{
	struct uccl_flow *f = &p->side[from].f;
	struct uccl_tx tx;
	int n = 0;

	while (uccl_pacer_next(&p->side[from].pacer, p->now))
		uccl_credit_due(&f->credit);
	/* HELLO, or a row, was in this place before. */
	memset(&tx, 0, sizeof(tx));
	for (; tx.control = UCCL_TX_HELLO, tx.row = 9, pair_tx(f, &tx, p->now); n++) {
		bool write = tx.kind == UCCL_TX_WRITE;
		/* A descriptor that was lost passes the slots of its writes. PROTOCOL R166 */
		bool again = !write && tx.hdr[3] == UCCL_PKT_DESC && tx.hdr[4] & UCCL_FLAG_RTX;
		bool chunk = write || (tx.hdr[3] >= UCCL_PKT_CHUNK && !again);

		PAIR_CHECK(n < TX_MAX && !tx.row && (write || tx.control != UCCL_TX_HELLO));
		PAIR_CHECK(!chunk || uccl_sent_slots(&f->sent) <= f->limits.slots);
		PAIR_CHECK(f->sent.nxt - f->sent.una <= f->cfg.window);
		wire_put(p, from, &tx);
		flow_ok(p);
	}
	flow_ok(p);
	return n;
}

void pair_pump(struct pair *p)
{
	for (int i = 0; i < 2; i++)
		if (!p->side[i].stopped)
			pair_pump_one(p, i);
}

static struct pair_pkt *wire_take(struct pair *p, uint32_t i)
{
	struct pair_pkt *k = p->wire[i];

	PAIR_CHECK(i < p->nwire);
	p->nwire--;
	memmove(p->wire + i, p->wire + i + 1, (p->nwire - i) * sizeof(*p->wire));
	return k;
}

void pair_lose(struct pair *p, uint32_t i)
{
	free(wire_take(p, i));
}

static void write_arrive(struct pair *p, struct pair_side *s, struct pair_pkt *k)
{
	struct pair_side *peer = &p->side[!s->id];

	/* The NIC writes before software can look. */
	for (uint32_t i = 0; i < peer->nobjs; i++) {
		struct pair_obj *o = peer->objs[i];

		if (k->raddr < (uintptr_t)o->dst || k->raddr >= (uintptr_t)o->dst + o->len)
			continue;
		PAIR_CHECK(k->raddr + k->len <= (uintptr_t)o->dst + o->len);
		PAIR_CHECK(!o->complete); /* no write after completion */
		memcpy(o->dst + (k->raddr - (uintptr_t)o->dst), k->data, k->len);
	}
	uccl_flow_rx_write(&s->f, k->imm, k->len, k->path, p->now);
}

void pair_arrive(struct pair *p, uint32_t i)
{
	struct pair_pkt *k = wire_take(p, i);
	struct pair_side *s = &p->side[k->to];
	struct uccl_hdr h;
	enum uccl_drop reason;

	p->steps++;
	switch (k->kind) {
	case UCCL_RX_PACKET:
		reason = uccl_hdr_decode(&h, k->data, k->len);
		if (reason == UCCL_DROP_COUNT && h.token != s->f.cfg.wire.token_rx)
			reason = UCCL_DROP_TOKEN;
		if (reason != UCCL_DROP_COUNT)
			s->stats.dropped[reason]++;
		else
			uccl_flow_rx(&s->f, &h, k->data + UCCL_HDR_LEN, k->data + UCCL_HDR_LEN + h.payload_len,
				     s->host_ns, p->now);
		break;
	case UCCL_RX_WRITE:
		write_arrive(p, s, k);
		break;
	case UCCL_RX_SENT:
		/* The NIC has read it until now. */
		PAIR_CHECK(!memcmp(k->src, k->data, k->len));
		uccl_flow_sent(&s->f, k->cookie, p->now);
		break;
	default:
		fence_done(p, s, k->path, k->born);
		break;
	}
	free(k);
	flow_ok(p);
}

void pair_arrive_all(struct pair *p, int to)
{
	uint64_t end = p->order;
	bool more = true;

	while (more) {
		more = false;
		for (uint32_t i = 0; i < p->nwire; i++)
			if (p->wire[i]->to == to && p->wire[i]->order < end) {
				pair_arrive(p, i);
				more = true;
				break;
			}
	}
}

int pair_find(const struct pair *p, int to, uint8_t type)
{
	for (uint32_t i = 0; i < p->nwire; i++)
		if (p->wire[i]->kind == UCCL_RX_PACKET && p->wire[i]->to == to && p->wire[i]->h.type == type)
			return (int)i;
	return -1;
}

int pair_find_write(const struct pair *p, int to)
{
	for (uint32_t i = 0; i < p->nwire; i++)
		if (p->wire[i]->kind == UCCL_RX_WRITE && p->wire[i]->to == to)
			return (int)i;
	return -1;
}

/* The next arrival at a host that runs; -1: none. */
static int wire_next(const struct pair *p)
{
	int best = -1;

	for (uint32_t i = 0; i < p->nwire; i++) {
		const struct pair_pkt *k = p->wire[i], *b = best < 0 ? NULL : p->wire[best];

		if (p->side[k->to].stopped)
			continue;
		if (!b || k->due < b->due || (k->due == b->due && k->order < b->order))
			best = (int)i;
	}
	return best;
}

static uint64_t next_timer(const struct pair *p)
{
	uint64_t at = UCCL_NEVER;

	for (int i = 0; i < 2; i++)
		if (!p->side[i].stopped)
			at = uccl_min(at, uccl_min(uccl_flow_expiry(&p->side[i].f),
						   uccl_pacer_expiry(&p->side[i].pacer, p->now)));
	return at;
}

/* One event not later than `until`. */
static bool step_until(struct pair *p, uint64_t until)
{
	uint64_t timer;
	int i;

	pair_pump(p);
	i = wire_next(p);
	timer = next_timer(p);
	if (i >= 0 && p->wire[i]->due <= timer) {
		if (p->wire[i]->due > until)
			return false;
		p->now = uccl_max(p->now, p->wire[i]->due);
		pair_arrive(p, (uint32_t)i);
		return true;
	}
	if (timer == UCCL_NEVER || timer > until)
		return false;
	p->now = uccl_max(p->now, timer);
	p->steps++;
	for (i = 0; i < 2; i++)
		if (!p->side[i].stopped && p->now >= uccl_flow_expiry(&p->side[i].f))
			uccl_flow_expire(&p->side[i].f, p->now);
	flow_ok(p);
	return true;
}

bool pair_step(struct pair *p)
{
	return step_until(p, UCCL_NEVER - 1);
}

void pair_run(struct pair *p, uint64_t until)
{
	while (step_until(p, until))
		;
	p->now = uccl_max(p->now, until);
}

bool pair_done(const struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		const struct pair_side *s = &p->side[i];

		if (s->acked != s->nobjs || p->side[!i].complete != s->nobjs || !uccl_flow_idle(&s->f))
			return false;
	}
	return true;
}

bool pair_finish(struct pair *p, uint64_t ns)
{
	uint64_t until = p->now + ns;

	while (!pair_done(p))
		if (!step_until(p, until))
			return false;
	return true;
}

/* By hand */

void pair_feed(struct pair *p, int to, struct uccl_hdr *h, const void *payload, const struct uccl_ack *ack)
{
	static const uint8_t rec[UCCL_REC_LEN];
	struct uccl_flow *f = &p->side[to].f;
	uint8_t tail[UCCL_TAIL_MAX];

	if (!h->rec)
		h->rec = rec;
	if (!h->pseq && h->path < f->cfg.paths_rx)
		h->pseq = f->rx.ack_tracker.paths[h->path].high_seq + 1;
	h->token = f->cfg.wire.token_rx;
	h->ts = h->ts ? h->ts : uccl_ts(p->now);
	h->tail_len = ack ? (uint16_t)uccl_ack_encode(tail, ack) : 0;
	p->steps++;
	uccl_flow_rx(f, h, payload, tail, 0, p->now);
	flow_ok(p);
}

struct uccl_ack pair_ack(const struct pair *p, int to, uint64_t cum)
{
	return (struct uccl_ack){
		.cum = (uint32_t)cum,
		.slots = p->cfg.slots,
		.msg_limit = 100,
		.dups = p->side[to].f.loss.rack.dups,
	};
}

enum uccl_drop pair_refuse_some(struct pair *p, struct pair_side *s, const struct uccl_chunk_in *in)
{
	(void)s;
	(void)in;
	return p->refusals && p->refusals-- ? UCCL_DROP_MEMORY : UCCL_DROP_COUNT;
}

uint64_t pair_dropped(const struct pair *p, int side, enum uccl_drop reason)
{
	return p->side[side].stats.dropped[reason];
}
