/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The target of RMA and atomics. The common case, a whole request in order, is executed where it lies. What comes early
 * or in pieces waits as a message does; those whose turn has come are executed one after the other, so that none
 * overtakes one of UCCL_ORDER_MAX bytes or less. A larger write gets CTS in its turn and is placed like a message.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/seq.h"
#include "base/units.h"
#include "msg/atomic.h"
#include "msg/rma.h"

/* What is copied of a large read at once; that and the next ones are on their way together. */
#define PART_BYTES (256u << 10)
/* Peers that wait for a reply and are tried when there is one, at most. */
#define SERVE_TRIES 8

static enum uccl_op_type op_type(uint8_t kind)
{
	return kind == UCCL_RMA_FETCH ? UCCL_OP_FETCH : kind == UCCL_RMA_COMPARE ? UCCL_OP_COMPARE : UCCL_OP_ATOMIC;
}

static uint32_t req_access(const struct uccl_req *req)
{
	switch (req->kind) {
	case UCCL_RMA_READ:
		return UCCL_ACCESS_READ;
	case UCCL_RMA_FETCH:
		return req->atomic == UCCL_ATOMIC_READ ? UCCL_ACCESS_READ : UCCL_ACCESS_READ | UCCL_ACCESS_WRITE;
	case UCCL_RMA_COMPARE:
		return UCCL_ACCESS_READ | UCCL_ACCESS_WRITE;
	default:
		return UCCL_ACCESS_WRITE;
	}
}

/* Local memory of a request. */
struct place {
	struct iovec iov[UCCL_PIECES_MAX];
	void *regions[UCCL_SEG_MAX];
	uint8_t niov, nregions;
	uint16_t device;	/* which of iov are memory of a device */
};

/* Every segment is looked up before any is touched. 0, or enum uccl_refusal. */
static int place_find(struct uccl_mep *m, const struct uccl_req *req, struct place *at)
{
	at->niov = at->nregions = 0;
	at->device = 0;
	for (uint8_t i = 0; i < req->nseg; i++) {
		int n;

		if (!req->seg[i].len)
			continue;
		if (!m->target)
			return UCCL_REFUSED_KEY;
		n = m->target->resolve(m->target_arg, &req->seg[i], req_access(req), at->iov + at->niov,
				       &at->regions[at->nregions]);
		if (n < 0)
			return -n;
		if (m->target->device && m->target->device(m->target_arg, at->regions[at->nregions]))
			at->device |= (uint16_t)(((1u << n) - 1) << at->niov);
		at->niov = (uint8_t)(at->niov + n);
		at->nregions++;
	}
	return UCCL_REFUSED_NOT;
}

static void tell(struct uccl_mep *m, struct uccl_peer *from, const struct uccl_req *req, void *const *regions,
		 uint8_t nregions, bool has_data, uint64_t data)
{
	struct uccl_rma_event ev = {
		.from = from,
		.write = req->kind != UCCL_RMA_READ &&
			 !(req->kind == UCCL_RMA_FETCH && req->atomic == UCCL_ATOMIC_READ),
		.fetch = req->kind == UCCL_RMA_FETCH || req->kind == UCCL_RMA_COMPARE,
		.atomic = req->kind > UCCL_RMA_READ,
		.has_data = has_data,
		.nregions = nregions,
		.data = data,
		.len = req->len,
	};

	if (!m->target)
		return;
	memcpy(ev.regions, regions, nregions * sizeof(*regions));
	ev.recv = has_data ? msg_data_take(m, from, data, req->len) : NULL;
	m->target->event(m->target_arg, &ev);
	if (ev.recv)
		msg_recv_done(ev.recv, from, 0);
}

/* The operation itself; an element may lie across two pieces of a region. */
static void atomic_run(struct uccl_mep *m, const struct uccl_req *req, const struct place *at, const uint8_t *body,
		       uint8_t *result)
{
	size_t size = uccl_atomic_size(req->datatype);
	const uint8_t *src = req->atomic == UCCL_ATOMIC_READ ? NULL : body;
	const uint8_t *cmp = req->kind == UCCL_RMA_COMPARE ? body + req->len : NULL;
	uint8_t one[32];

	if (!m->target)
		return;
	m->target->lock(m->target_arg);
	if (at->niov == 1) {
		uccl_atomic_apply(req->datatype, req->atomic, at->iov[0].iov_base, src, cmp, result, req->len / size);
	} else {
		for (uint64_t off = 0; off < req->len; off += size) {
			msg_copy_out(at->iov, at->niov, off, one, size);
			uccl_atomic_apply(req->datatype, req->atomic, one, src ? src + off : NULL,
					  cmp ? cmp + off : NULL, result ? result + off : NULL, 1);
			if (req->atomic != UCCL_ATOMIC_READ)
				msg_copy_in(at->iov, at->niov, off, one, size);
		}
	}
	m->target->unlock(m->target_arg);
}

static bool atomic_known(const struct uccl_req *req)
{
	return req->kind <= UCCL_RMA_READ || uccl_atomic_valid(op_type(req->kind), req->datatype, req->atomic);
}

/* Bytes that must come with it; UINT64_MAX: it makes no sense. */
static uint64_t payload_of(const struct uccl_req *req)
{
	size_t size;

	switch (req->kind) {
	case UCCL_RMA_WRITE:
		return req->rx ? UINT64_MAX : req->len;
	case UCCL_RMA_READ:
		return !req->rx == !req->len ? 0 : UINT64_MAX;
	default:
		break;
	}
	if (req->kind == UCCL_RMA_ATOMIC ? req->rx : !req->rx != !req->len)
		return UINT64_MAX;
	/* What another version of us may know is refused in words, but its length is right. */
	size = uccl_atomic_size(req->datatype);
	if (req->len > UCCL_ORDER_MAX || (size && req->len % size))
		return UINT64_MAX;
	if (req->kind == UCCL_RMA_FETCH && req->atomic == UCCL_ATOMIC_READ)
		return 0;
	return req->kind == UCCL_RMA_COMPARE ? 2 * req->len : req->len;
}

/* replies */

static void reply_free(struct uccl_reply *r)
{
	struct uccl_peer *p = r->peer;
	struct uccl_mep *m = p->mep;

	if (r->feed) {
		for (uint8_t i = 0; i < r->feed->nparts; i++)
			msg_copy_end(m, &r->feed->part[i].copy);
		m->staged_bytes -= r->feed->bytes;
		p->staged_bytes -= r->feed->bytes;
		free(r->feed);
	}
	p->nreplies--;
	TAILQ_REMOVE(&p->replies, r, link);
	uccl_pool_put(&m->reply_pool, r);
}

/* May the peer have so much more? Not beyond what it leaves to others: who never acknowledges stops nobody else. */
static bool share_has(uint64_t own, uint64_t more, uint64_t used, uint64_t all)
{
	return used < all && own + more <= all - used;
}

/* A reply with room for copies of `bytes`, or of a first part of them; NULL: none can be had now. PROTOCOL R121 */
static struct uccl_reply *reply_get(struct uccl_peer *p, uint32_t id, uint64_t bytes)
{
	struct uccl_mep *m = p->mep;
	bool staged = share_has(p->staged_bytes, bytes, m->staged_bytes, UCCL_STAGED_MAX);
	struct uccl_reply *r;

	if (p->nreplies && (!share_has(p->nreplies, 1, m->reply_pool.used, m->reply_pool.max) || (bytes && !staged)))
		return NULL;
	if (!staged)
		bytes = uccl_min(bytes, UCCL_EAGER_MAX);
	r = uccl_pool_get(&m->reply_pool);
	if (!r)
		return NULL;
	r->peer = p;
	r->id = id;
	p->nreplies++;
	TAILQ_INSERT_TAIL(&p->replies, r, link);
	if (!bytes)
		return r;
	r->feed = malloc(sizeof(*r->feed) + bytes);
	if (!r->feed) {
		reply_free(r);
		return NULL;
	}
	memset(r->feed, 0, sizeof(*r->feed));
	r->feed->reply = r;
	r->feed->bytes = bytes;
	m->staged_bytes += bytes;
	p->staged_bytes += bytes;
	return r;
}

static void reply_answer(struct uccl_reply *r, int refusal)
{
	struct uccl_resp resp = { .id = r->id, .err = (uint32_t)refusal };

	r->resp.rtype = UCCL_REC_RESP;
	uccl_resp_encode(r->resp.rec, &resp);
	uccl_flow_submit(&r->peer->flow, &r->resp);
	r->peer->mep->ops->ready(r->peer);
}

static void part_send(struct uccl_feed *f, uint8_t i, uint64_t off, uint64_t n)
{
	struct uccl_feed_part *part = &f->part[i];
	struct uccl_peer *p = f->reply->peer;
	struct uccl_item *item = &part->item;

	memset(item, 0, sizeof(*item));
	part->feed = f;
	part->iov = (struct iovec){ .iov_base = f->buf + i * f->part_bytes, .iov_len = n };
	item->rtype = UCCL_REC_REPLY;
	item->bulk = true;
	item->want_ack = true;
	item->iov = &part->iov;
	item->iov_count = 1;
	item->len = n;
	item->direct = f->req.rkey && p->flow.cfg.write_bytes;
	item->rkey = f->req.rkey;
	item->raddr = f->req.raddr;
	uccl_rec_set_bulk(item->rec, f->req.rx, f->gen, off);
	f->busy |= (uint8_t)(1u << i);
	uccl_flow_submit(&p->flow, item);
}

/* A part of what is read was copied from a device. */
static void part_loaded(struct uccl_copy *c, uint64_t now)
{
	struct uccl_feed_part *part = uccl_container_of(c, struct uccl_feed_part, copy);
	struct uccl_feed *f = part->feed;
	struct uccl_peer *p = f->reply->peer;
	uint64_t n = part->iov.iov_len;

	(void)now;
	if (c->err) {
		f->busy &= (uint8_t)~(1u << (part - f->part));
		f->off = f->req.len;
		if (!f->reply->resp.queued && !f->reply->resp.pending)
			reply_answer(f->reply, UCCL_REFUSED_RANGE);
		return;
	}
	if (f->untold && part->off + n == uccl_min(f->req.len, f->bytes)) {
		f->untold = false;
		tell(p->mep, p, &f->req, f->regions, f->nregions, false, 0);
	}
	part_send(f, (uint8_t)(part - f->part), part->off, n);
	p->mep->ops->ready(p);
}

/* Copy the next part of what is read, which lies at `at`, if there is more. */
static void feed_part(struct uccl_feed *f, uint8_t i, const struct place *at)
{
	uint64_t n = uccl_min(f->part_bytes, f->req.len - f->off);

	if (!n)
		return;
	if (at->device) {
		struct uccl_feed_part *part = &f->part[i];
		struct uccl_mep *m = f->reply->peer->mep;

		part->feed = f;
		part->off = f->off;
		part->iov.iov_len = n;
		f->busy |= (uint8_t)(1u << i);
		msg_get(m, &part->copy, at->iov, at->niov, at->device, f->off, f->buf + i * f->part_bytes, n);
		msg_copy_wait(m, &part->copy, part_loaded);
	} else {
		msg_copy_out(at->iov, at->niov, f->off, f->buf + i * f->part_bytes, n);
		part_send(f, i, f->off, n);
	}
	f->off += n;
}

/* Look for the region again, which may have gone meanwhile: then the initiator gets an error for the whole. */
static void feed_next(struct uccl_feed *f, uint8_t i)
{
	struct place at;
	int refusal;

	if (f->off == f->req.len)
		return;
	refusal = place_find(f->reply->peer->mep, &f->req, &at);
	if (!refusal) {
		feed_part(f, i, &at);
		return;
	}
	f->off = f->req.len;
	if (!f->reply->resp.queued && !f->reply->resp.pending)
		reply_answer(f->reply, refusal);
}

/*
 * A reply was freed: go on with the requests that wait for one, of some peers, in turns. Who has to wait for its own
 * replies holds up nobody behind it, and who has none never waits. PROTOCOL R121
 */
static void serve_blocked(struct uccl_mep *m, uint64_t now)
{
	struct uccl_peer_list *l = &m->blocked[UCCL_BLOCK_REPLY];
	struct uccl_peer *p;

	for (int i = 0; i < SERVE_TRIES && (p = TAILQ_FIRST(l)); i++) {
		TAILQ_REMOVE(l, p, blocked_link);
		TAILQ_INSERT_TAIL(l, p, blocked_link);
		msg_serve_run(p, now);
	}
}

static void reply_settle(struct uccl_reply *r, uint64_t now)
{
	struct uccl_peer *p = r->peer;

	if (r->resp.queued || r->resp.pending || (r->feed && r->feed->busy))
		return;
	reply_free(r);
	serve_blocked(p->mep, now);
	if (p->blocked == UCCL_BLOCK_REPLY)
		msg_serve_run(p, now);
}

void msg_reply_acked(struct uccl_item *item, uint64_t now)
{
	struct uccl_feed_part *part;
	struct uccl_feed *f;
	uint8_t i;

	if (item->rtype == UCCL_REC_RESP) {
		reply_settle(uccl_container_of(item, struct uccl_reply, resp), now);
		return;
	}
	part = uccl_container_of(item, struct uccl_feed_part, item);
	f = part->feed;
	i = (uint8_t)(part - f->part);
	f->busy &= (uint8_t)~(1u << i);
	feed_next(f, i);
	if (f->busy)
		f->reply->peer->mep->ops->ready(f->reply->peer);
	reply_settle(f->reply, now);
}

static void serve_unblock(struct uccl_peer *p)
{
	if (p->blocked)
		TAILQ_REMOVE(&p->mep->blocked[p->blocked], p, blocked_link);
	p->blocked = UCCL_BLOCK_NOT;
}

void msg_replies_free(struct uccl_peer *p, uint64_t now)
{
	struct uccl_reply *r;

	while ((r = TAILQ_FIRST(&p->replies)))
		reply_free(r);
	serve_unblock(p);
	serve_blocked(p->mep, now);
}

/* execution */

/* Bytes of copies that the reply needs. */
static uint64_t reply_bytes(const struct uccl_req *req)
{
	return req->rx && atomic_known(req) ? uccl_min(req->len, 4ull * PART_BYTES) : 0;
}

/*
 * May a request complete at our side, too? Its remote data needs a place that nobody provided, and none that comes
 * later has it before who waits.
 */
static bool serve_room(const struct uccl_peer *p, bool has_data)
{
	const struct uccl_mep *m = p->mep;

	return !has_data || ((m->retrying || TAILQ_EMPTY(&m->blocked[UCCL_BLOCK_ROOM])) && msg_data_room(m, p));
}

/*
 * Execute a request of which everything is there, unless it must wait. UCCL_BLOCK_COPY: a write to a device, which has
 * to be kept until its bytes are there.
 */
static enum uccl_block serve_whole(struct uccl_peer *p, const struct uccl_env *env, const struct uccl_req *req,
				   const uint8_t *body)
{
	struct uccl_mep *m = p->mep;
	struct uccl_reply *r;
	struct uccl_feed *f;
	struct place at;
	int refusal = UCCL_REFUSED_ATOMIC;

	if (!serve_room(p, env->flags & UCCL_ENV_DATA))
		return UCCL_BLOCK_ROOM;
	r = reply_get(p, env->id, reply_bytes(req));
	if (!r)
		return UCCL_BLOCK_REPLY;
	if (atomic_known(req))
		refusal = place_find(m, req, &at);
	/* Atomics would have to be done by the device. */
	if (!refusal && at.device && req->kind > UCCL_RMA_READ)
		refusal = UCCL_REFUSED_ATOMIC;
	if (refusal) {
		reply_answer(r, refusal);
		return UCCL_BLOCK_NOT;
	}
	if (at.device && req->kind == UCCL_RMA_WRITE) {
		reply_free(r);
		return UCCL_BLOCK_COPY;
	}
	f = r->feed;
	if (f) {
		f->req = *req;
		f->gen = env->mseq;
		f->nparts = (uint8_t)(f->bytes > PART_BYTES ? 4 : 1);
		f->part_bytes = f->nparts > 1 ? PART_BYTES : f->bytes;
	}
	if (req->kind == UCCL_RMA_WRITE) {
		if (req->len)
			msg_copy_in(at.iov, at.niov, 0, body, req->len);
	} else if (req->kind == UCCL_RMA_READ) {
		for (uint8_t i = 0; f && i < f->nparts; i++)
			feed_part(f, i, &at);
	} else if (req->len) {
		atomic_run(m, req, &at, body, f ? f->buf : NULL);
		if (f) {
			f->off = req->len;
			part_send(f, 0, 0, req->len);
		}
	}
	if (f && at.device) {
		f->untold = true;
		f->nregions = at.nregions;
		memcpy(f->regions, at.regions, sizeof(f->regions));
	} else {
		tell(m, p, req, at.regions, at.nregions, env->flags & UCCL_ENV_DATA, env->data);
	}
	if (f)
		m->ops->ready(p);
	else
		reply_answer(r, UCCL_REFUSED_NOT);
	return UCCL_BLOCK_NOT;
}

static struct uccl_env env_of(const struct uccl_msg_rx *rx)
{
	return (struct uccl_env){
		.data = rx->serve->data,
		.len = rx->len,
		.flags = rx->flags,
		.mseq = (uint32_t)rx->mseq,
		.id = rx->send_id,
	};
}

/* Let payload go where it belongs. 0, or enum uccl_refusal. */
static int serve_attach(struct uccl_msg_rx *rx)
{
	struct uccl_serve *s = rx->serve;
	struct place at;
	int refusal = place_find(rx->peer->mep, &s->req, &at);

	if (refusal)
		return refusal;
	memcpy(s->iov, at.iov, at.niov * sizeof(*at.iov));
	memcpy(s->regions, at.regions, at.nregions * sizeof(*at.regions));
	s->nregions = at.nregions;
	s->niov = at.niov;
	rx->iov = s->iov;
	rx->niov = s->niov;
	rx->device = at.device;
	rx->limit = rx->len;
	rx->hi = rx->got;
	return UCCL_REFUSED_NOT;
}

static void serve_unqueue(struct uccl_msg_rx *rx)
{
	TAILQ_REMOVE(&rx->peer->requests, rx, link);
	rx->peer->nrequests--;
	rx->serve->queued = false;
}

/* A write that is larger than what is kept in order: its turn is when it is asked for. */
static void serve_large(struct uccl_msg_rx *rx)
{
	int refusal = serve_attach(rx);

	serve_unqueue(rx);
	if (refusal) {
		msg_rx_fin(rx, (uint32_t)refusal);
		msg_rx_release(rx);
		return;
	}
	if (rx->buf)
		msg_rx_move(rx, rx->got);
	msg_rx_cts(rx);
	/* No handle could be had, so it would never come. */
	if (!rx->id) {
		rx->iov = NULL;
		msg_rx_fin(rx, UCCL_REFUSED_ATOMIC);
		msg_rx_release(rx);
	}
}

static void serve_finish(struct uccl_msg_rx *rx)
{
	struct uccl_serve *s = rx->serve;

	tell(rx->peer->mep, rx->peer, &s->req, s->regions, s->nregions, s->has_data, s->data);
	msg_rx_fin(rx, 0);
	msg_rx_release(rx);
}

void msg_serve_placed(struct uccl_msg_rx *rx, uint64_t now)
{
	rx->iov = NULL;
	if (rx->copy.err) {
		msg_rx_fin(rx, UCCL_REFUSED_RANGE);
		msg_rx_release(rx);
		return;
	}
	if (serve_room(rx->peer, rx->serve->has_data)) {
		serve_finish(rx);
		return;
	}
	/* Many may have been granted while there was room for each. */
	rx->serve->placed = true;
	msg_serve_turn(rx, now);
}

static void serve_copied(struct uccl_copy *c, uint64_t now)
{
	msg_serve_run(uccl_container_of(c, struct uccl_msg_rx, copy)->peer, now);
}

/*
 * A write, all of which is here, perhaps to a device. Those behind it wait, too: who finds a flag in the host's memory
 * may look at the device's. False: it is on its way.
 */
static bool serve_written(struct uccl_msg_rx *rx)
{
	struct uccl_mep *m = rx->peer->mep;
	struct uccl_serve *s = rx->serve;

	if (s->req.kind != UCCL_RMA_WRITE || !s->req.len)
		return true;
	if (!rx->iov && !s->refusal) {
		s->refusal = (uint8_t)serve_attach(rx);
		if (!s->refusal)
			msg_rx_move(rx, rx->eager);
	}
	if (!msg_copied(m, &rx->copy)) {
		msg_copy_wait(m, &rx->copy, serve_copied);
		return false;
	}
	if (rx->copy.err && !s->refusal)
		s->refusal = UCCL_REFUSED_RANGE;
	return true;
}

/* The first of the requests whose turn has come. True: it is done with, and no more in the list. */
static bool serve_first(struct uccl_msg_rx *rx, enum uccl_block *blocked)
{
	struct uccl_peer *p = rx->peer;
	struct uccl_serve *s = rx->serve;
	struct uccl_env env = env_of(rx);
	struct uccl_reply *r;

	if (!(rx->flags & UCCL_ENV_EAGER)) {
		if (!serve_room(p, s->has_data)) {
			*blocked = UCCL_BLOCK_ROOM;
			return false;
		}
		if (s->placed) {
			serve_unqueue(rx);
			serve_finish(rx);
		} else {
			serve_large(rx);
		}
		return true;
	}
	/* Its payload goes straight to its place, unless some has come already. */
	if (rx->got < rx->eager && !rx->buf && !rx->iov && !s->refusal)
		s->refusal = (uint8_t)serve_attach(rx);
	if (rx->got < rx->eager || (p->mep->device && !serve_written(rx)))
		return false;
	if (!rx->iov && !s->refusal) {
		*blocked = serve_whole(p, &env, &s->req, rx->buf);
		if (*blocked)
			return false;
		msg_rx_free(rx);
		return true;
	}
	if (!serve_room(p, s->has_data && !s->refusal)) {
		*blocked = UCCL_BLOCK_ROOM;
		return false;
	}
	r = reply_get(p, rx->send_id, 0);
	if (!r) {
		*blocked = UCCL_BLOCK_REPLY;
		return false;
	}
	if (!s->refusal)
		tell(p->mep, p, &s->req, s->regions, s->nregions, s->has_data, s->data);
	reply_answer(r, s->refusal);
	msg_rx_free(rx);
	return true;
}

void msg_serve_run(struct uccl_peer *p, uint64_t now)
{
	enum uccl_block blocked = UCCL_BLOCK_NOT;
	struct uccl_msg_rx *rx;

	(void)now;
	while ((rx = TAILQ_FIRST(&p->requests)) && serve_first(rx, &blocked))
		;
	if (blocked != p->blocked) {
		serve_unblock(p);
		p->blocked = (uint8_t)blocked;
		if (blocked)
			TAILQ_INSERT_TAIL(&p->mep->blocked[blocked], p, blocked_link);
	}
	msg_peer_limits(p);
}

void msg_serve_retry(struct uccl_mep *m, uint64_t now)
{
	struct uccl_peer_list *l = &m->blocked[UCCL_BLOCK_ROOM];
	const struct uccl_peer *last = TAILQ_LAST(l, uccl_peer_list);
	struct uccl_peer *p;

	m->retrying = true;
	while ((p = TAILQ_FIRST(l)) && uccl_mep_room(m)) {
		/* The next room is for the next one. */
		serve_unblock(p);
		msg_serve_run(p, now);
		/* There may be room and no receive for any of them. */
		if (p == last)
			break;
	}
	m->retrying = false;
}

void msg_serve_turn(struct uccl_msg_rx *rx, uint64_t now)
{
	struct uccl_peer *p = rx->peer;

	TAILQ_INSERT_TAIL(&p->requests, rx, link);
	p->nrequests++;
	rx->serve->queued = true;
	msg_serve_run(p, now);
}

/* Keep what cannot be executed yet. */
static enum uccl_drop req_keep(struct uccl_peer *p, struct uccl_msg_rx *rx, uint64_t mseq, bool turn,
			       const struct uccl_env *env, const struct uccl_req *req, const uint8_t *data,
			       uint32_t len, uint64_t now)
{
	uint64_t eager = env->flags & UCCL_ENV_EAGER ? env->len : len;
	struct uccl_mep *m = p->mep;
	struct uccl_serve *s = uccl_pool_get(&m->serve_pool);
	bool fresh = !rx, straight;

	if (!s)
		return UCCL_DROP_MEMORY;
	if (!rx)
		rx = msg_rx_new(p, mseq);
	/* It must be found again if its turn has not come, or more of it comes by message sequence. */
	if (!rx || (fresh && (!turn || eager > len) && !msg_rx_hash(rx)))
		goto memory;
	/* With nothing before it, a write needs no other place than its own. */
	straight = turn && TAILQ_EMPTY(&p->requests) && req->kind == UCCL_RMA_WRITE && !rx->buf && !len;
	if (straight ? msg_rx_hold(rx, eager) : msg_rx_buffer(rx, eager, len))
		goto memory;
	if (!msg_rx_covers(rx, 0, len, eager)) {
		uccl_pool_put(&m->serve_pool, s);
		return UCCL_DROP_OVERLAP;
	}
	s->req = *req;
	s->data = env->data;
	s->has_data = env->flags & UCCL_ENV_DATA;
	rx->serve = s;
	msg_rx_set_env(rx, env, eager);
	if (len)
		msg_rx_place(rx, 0, data, len);
	if (turn && !rx->hashed) {
		rx->in_order = true;
		p->rx_mseq++;
		msg_serve_turn(rx, now);
	}
	msg_rx_drain(p, now);
	return UCCL_DROP_COUNT;
memory:
	uccl_pool_put(&m->serve_pool, s);
	if (rx && fresh)
		msg_rx_free(rx);
	return UCCL_DROP_MEMORY;
}

enum uccl_drop msg_req(struct uccl_peer *p, const struct uccl_chunk_in *in, uint64_t now)
{
	struct uccl_msg_rx *rx;
	struct uccl_env env;
	struct uccl_req req;
	const uint8_t *data;
	uint64_t mseq;
	uint32_t len;
	bool turn;
	int head;

	uccl_env_decode(&env, in->rec);
	mseq = uccl_seq_expand(p->rx_mseq, env.mseq, 32);
	head = uccl_req_decode(&req, env.tag, in->data, in->len);
	if (head < 0 || mseq < p->rx_mseq || mseq - p->rx_mseq >= UCCL_MSG_LIMIT || !env.id)
		return UCCL_DROP_RECORD;
	data = in->data + head;
	len = in->len - (uint32_t)head;
	if (payload_of(&req) != env.len || len > env.len)
		return UCCL_DROP_RECORD;
	if (env.flags & UCCL_ENV_EAGER ? env.len > len && env.len > UCCL_EAGER_MAX :
					 req.kind != UCCL_RMA_WRITE || !(env.flags & UCCL_ENV_DELIVERY))
		return UCCL_DROP_RECORD;
	turn = mseq == p->rx_mseq;
	rx = msg_rx_find(p, mseq);
	if (!rx && turn && len == env.len && env.flags & UCCL_ENV_EAGER && TAILQ_EMPTY(&p->requests) &&
	    !serve_whole(p, &env, &req, data)) {
		p->rx_mseq++;
		msg_rx_drain(p, now);
		return UCCL_DROP_COUNT;
	}
	/* More of it came before: the request must agree with that, and bring what is missing. */
	if (rx && (rx->have_env || rx->eager != env.len || !(env.flags & UCCL_ENV_EAGER) || len > rx->eager - rx->got))
		return UCCL_DROP_RECORD;
	return req_keep(p, rx, mseq, turn, &env, &req, data, len, now);
}

static void self_tell(struct uccl_mep *m, struct uccl_op *op, const struct uccl_req *req, const struct place *at)
{
	tell(m, op->peer, req, at->regions, at->nregions, op->flags & UCCL_OPF_DATA, op->data);
}

void msg_serve_self_tell(struct uccl_mep *m, struct uccl_op *op, const struct uccl_req *req)
{
	struct place at;

	/* Its region may have been closed as it was copied. */
	if (!place_find(m, req, &at))
		self_tell(m, op, req, &at);
}

int msg_serve_self(struct uccl_mep *m, struct uccl_op *op, const struct uccl_req *req)
{
	uint8_t *result = NULL;
	struct place at;
	int refusal;

	if (!atomic_known(req))
		return UCCL_REFUSED_ATOMIC;
	refusal = place_find(m, req, &at);
	if (refusal)
		return refusal;
	if (req->kind == UCCL_RMA_WRITE) {
		msg_move(m, &op->copy, at.iov, at.niov, at.device, op->iov, op->iov_count, op->device, req->len);
	} else if (req->kind == UCCL_RMA_READ) {
		msg_move(m, &op->copy, op->iov, op->iov_count, op->device, at.iov, at.niov, at.device, req->len);
	} else if (at.device) {
		return UCCL_REFUSED_ATOMIC;
	} else if (req->len) {
		if (req->kind != UCCL_RMA_ATOMIC && !(result = malloc(req->len)))
			return UCCL_REFUSED_ATOMIC;
		atomic_run(m, req, &at, op->body.iov_base, result);
		if (result)
			msg_copy_in(op->iov, op->iov_count, 0, result, req->len);
		free(result);
	}
	if (msg_copied(m, &op->copy))
		self_tell(m, op, req, &at);
	return UCCL_REFUSED_NOT;
}

static bool uses(const struct uccl_serve *s, const void *region)
{
	for (uint8_t i = 0; i < s->nregions; i++)
		if (s->regions[i] == region)
			return true;
	return false;
}

/* Nobody will be told of what was done there. */
static void forget(void **regions, uint8_t *count, const void *region)
{
	uint8_t n = 0;

	for (uint8_t i = 0; i < *count; i++)
		if (regions[i] != region)
			regions[n++] = regions[i];
	*count = n;
}

void uccl_msg_revoke(struct uccl_peer *p, const void *region, uint64_t now)
{
	struct uccl_msg_rx *rx, *next;
	struct uccl_reply *r;

	msg_copies_settle(p->mep);
	TAILQ_FOREACH(r, &p->replies, link)
		if (r->feed)
			forget(r->feed->regions, &r->feed->nregions, region);
	for (rx = TAILQ_FIRST(&p->rxs); rx; rx = next) {
		next = TAILQ_NEXT(rx, plink);
		if (rx->serve && rx->serve->placed)
			forget(rx->serve->regions, &rx->serve->nregions, region);
		if (!rx->serve || !rx->iov || !uses(rx->serve, region))
			continue;
		/* A registration that ends is a fence, too. */
		if (rx->mr)
			p->mep->ops->dereg(p, rx->mr);
		rx->mr = NULL;
		rx->iov = NULL;
		if (rx->flags & UCCL_ENV_EAGER) {
			/* What comes of it goes nowhere, and then it is answered. */
			rx->serve->refusal = UCCL_REFUSED_REVOKED;
			continue;
		}
		msg_rx_fin(rx, UCCL_REFUSED_REVOKED);
		msg_rx_release(rx);
	}
	msg_serve_run(p, now);
}
