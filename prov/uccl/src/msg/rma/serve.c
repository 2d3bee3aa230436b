/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The target of RMA and atomics. The common case, a whole request in order, is executed where it lies. What comes early
 * or in several packets waits as a message does; those whose turn has come are executed one after the other, so that
 * none overtakes one of UCCL_ORDER_MAX bytes or less. A write that waits for CTS, as a longer one does, gets it in its
 * turn and is placed like a message. Requests behind a short one wait until it is in place if they touch its memory or
 * carry remote CQ data; the others go on.
 */
#include "msg/rma/serve.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/seq.h"
#include "base/units.h"
#include "msg/rma/atomic_math.h"
#include "msg/iov.h"
#include "msg/recv/posted.h"
#include "msg/rma/short_writes.h"
#include "msg/rma/reply.h"
#include "msg/recv/unexpected.h"

/* The first bytes of a write's payload, up to this many, are kept without a buffer for the whole. */
#define FIRST_MAX 4096
/* Flags that a request may have. PROTOCOL R70 */
#define REQ_FLAGS (UCCL_ENV_DATA | UCCL_ENV_DELIVERY | UCCL_ENV_EAGER)
/* Of peers that wait, so many are tried at once without success; the others have their turns later. */
#define SERVE_TRIES 8

/*
 * May a request complete at our side, too? Its remote data needs a place that nobody provided, and none that comes
 * later has it before who waits.
 */
static bool serve_room(const struct uccl_peer *p, bool has_data)
{
	struct uccl_msg_ep *m = p->msg_ep;

	return !has_data ||
	       ((m->serve.retrying || TAILQ_EMPTY(&m->serve.blocked[UCCL_BLOCK_ROOM])) && msg_data_room(m, p));
}

/*
 * Must it wait for a short write before it that was granted? It may touch memory that is still to be filled, or tell
 * the program by remote CQ data that all before it is done. PROTOCOL R407
 */
static bool serve_meets(struct uccl_peer *p, uint8_t flags, const struct uccl_req *req)
{
	struct msg_place at;

	if (!p->serve.nshort_writes)
		return false;
	return flags & UCCL_ENV_DATA ||
	       (msg_target_knows(req) && !msg_target_find(p, req, &at) && msg_short_writes_meets(p, &at));
}

/*
 * Execute a request of which everything is there, unless it must wait. UCCL_BLOCK_COPY: it writes to a device, and has
 * to be kept until its bytes are there.
 */
static enum uccl_block serve_whole(struct uccl_peer *p, const struct uccl_env *env, const struct uccl_req *req,
				   const uint8_t *body)
{
	struct uccl_msg_ep *m = p->msg_ep;
	struct uccl_reply *r;
	struct uccl_feed *f;
	struct msg_place at;
	int refusal = UCCL_REFUSED_ATOMIC;

	if (!serve_room(p, env->flags & UCCL_ENV_DATA))
		return UCCL_BLOCK_ROOM;
	r = msg_reply_get(p, env->id, req, env->mseq);
	if (!r)
		return UCCL_BLOCK_REPLY;
	if (msg_target_knows(req))
		refusal = msg_target_find(p, req, &at);
	if (refusal) {
		msg_reply_answer(r, refusal);
		return UCCL_BLOCK_NOT;
	}
	if (at.device && req->kind != UCCL_RMA_READ) {
		msg_reply_free(r);
		return UCCL_BLOCK_COPY;
	}
	f = r->feed;
	if (req->kind != UCCL_RMA_READ)
		msg_replies_copy(p);
	if (req->kind == UCCL_RMA_WRITE) {
		if (req->len)
			msg_copy_in(at.iov, at.niov, 0, body, req->len);
	} else if (req->kind == UCCL_RMA_READ) {
		if (f)
			msg_reply_read(r, &at);
	} else if (req->len) {
		msg_target_atomic(m, req, &at, body, f ? f->buf : NULL);
		if (f)
			msg_reply_fetched(r);
	}
	if (!f || !f->unreported)
		msg_target_tell(m, p, req, at.regions, at.nregions, env->flags & UCCL_ENV_DATA, env->data);
	if (f)
		m->ops->ready(p);
	else
		msg_reply_answer(r, UCCL_REFUSED_NOT);
	return UCCL_BLOCK_NOT;
}

/* Its region goes away. */
static void serve_revoked(struct msg_uses *u, const void *region)
{
	struct uccl_serve *s = uccl_container_of(u, struct uccl_serve, uses);
	struct uccl_msg_rx *rx = s->rx;

	if (s->placed && region)
		msg_target_forget(s->regions, &s->nregions, region);
	if (!rx->place.iov || (s->placed && !region))
		return;
	/* A registration that ends is a fence, too. */
	msg_rx_close(rx);
	if (rx->env.flags & UCCL_ENV_EAGER) {
		/* What comes of it goes nowhere, and then it is answered. */
		s->refusal = UCCL_REFUSED_REVOKED;
		s->refused = true;
		TAILQ_INSERT_TAIL(&rx->peer->msg_ep->serve.refused, s, refused_link);
		return;
	}
	msg_short_writes_end(rx->peer, &s->short_write);
	msg_rx_fin(rx, UCCL_REFUSED_REVOKED);
	msg_rx_release(rx);
}

/* Is it a write that waits for CTS although it is short? PROTOCOL R407 */
static bool serve_short(const struct uccl_msg_rx *rx)
{
	return rx->env.len <= UCCL_ORDER_MAX && !(rx->env.flags & UCCL_ENV_EAGER);
}

/* Let payload go where it belongs, there. 0, or enum uccl_refusal. */
static int serve_attach_at(struct uccl_msg_rx *rx, const struct msg_place *at)
{
	struct uccl_serve *s = rx->serve;

	msg_replies_copy(rx->peer);
	if (serve_short(rx) && !msg_short_writes_add(rx->peer, at, &s->short_write))
		return UCCL_REFUSED_MEMORY;
	memcpy(s->iov, at->iov, at->niov * sizeof(*at->iov));
	memcpy(s->regions, at->regions, at->nregions * sizeof(*at->regions));
	s->nregions = at->nregions;
	s->niov = at->niov;
	msg_rx_to(rx, s->iov, s->niov, at->device, rx->env.len);
	s->rx = rx;
	s->uses.revoked = serve_revoked;
	msg_uses_begin(rx->peer, &s->uses, &s->req, s->regions, s->nregions);
	return UCCL_REFUSED_NOT;
}

static int serve_attach(struct uccl_msg_rx *rx)
{
	struct msg_place at;
	int refusal = msg_target_find(rx->peer, &rx->serve->req, &at);

	return refusal ? refusal : serve_attach_at(rx, &at);
}

static void serve_unqueue(struct uccl_msg_rx *rx)
{
	TAILQ_REMOVE(&rx->peer->serve.requests, rx, link);
	rx->peer->serve.n--;
	rx->serve->queued = false;
}

/* A write that waits for CTS: its turn is when it is asked for. */
static void serve_grant(struct uccl_msg_rx *rx, int refusal, const struct msg_place *at, uint64_t now)
{
	if (!refusal)
		refusal = serve_attach_at(rx, at);
	serve_unqueue(rx);
	if (refusal) {
		msg_rx_fin(rx, (uint32_t)refusal);
		msg_rx_release(rx);
		return;
	}
	if (rx->hold.buf)
		msg_rx_move(rx, rx->arrived.got);
	if (msg_rx_cts(rx, now)) {
		msg_rx_nowhere(rx, rx->place.limit);
		msg_rx_fin(rx, UCCL_REFUSED_MEMORY);
		msg_rx_release(rx);
	}
}

static void serve_tell(struct uccl_msg_rx *rx)
{
	struct uccl_serve *s = rx->serve;

	msg_target_tell(rx->peer->msg_ep, rx->peer, &s->req, s->regions, s->nregions, s->env.flags & UCCL_ENV_DATA,
			s->env.data);
}

static void serve_finish(struct uccl_msg_rx *rx)
{
	serve_tell(rx);
	msg_rx_fin(rx, 0);
	msg_rx_release(rx);
}

static void serve_run(struct uccl_peer *p, uint64_t now);

static void serve_copied(struct uccl_copy *c, uint64_t now)
{
	serve_run(uccl_container_of(c, struct uccl_msg_rx, place.copy)->peer, now);
}

/* Its copies to or from a device are done. False: they are on their way. */
static bool serve_copies_done(struct uccl_msg_rx *rx)
{
	if (!msg_copied(rx->peer->msg_ep, &rx->place.copy)) {
		msg_copy_wait(rx->peer->msg_ep, &rx->place.copy, serve_copied);
		return false;
	}
	if (rx->place.copy.err && !rx->serve->refusal)
		rx->serve->refusal = UCCL_REFUSED_RANGE;
	return true;
}

/*
 * A write, all of which is here, perhaps to a device. Those behind it wait, too: who finds a flag in the host's memory
 * may look at the device's. False: it is on its way.
 */
static bool serve_written(struct uccl_msg_rx *rx)
{
	struct uccl_serve *s = rx->serve;

	if (s->req.kind != UCCL_RMA_WRITE || !s->req.len)
		return true;
	if (!rx->place.iov && !s->refusal) {
		s->refusal = (uint8_t)serve_attach(rx);
		if (!s->refusal)
			msg_rx_move(rx, rx->arrived.eager);
	}
	return serve_copies_done(rx);
}

/*
 * An atomic, all of which is here. On a device it is read, done here, and written back, while no other one is under way
 * there. False: it is on its way, or another one is. PROTOCOL R193
 */
static bool serve_atomic(struct uccl_msg_rx *rx, enum uccl_block *blocked)
{
	struct uccl_msg_ep *m = rx->peer->msg_ep;
	struct uccl_serve *s = rx->serve;
	struct msg_place at;
	uint64_t len = s->req.len;

	if (s->req.kind <= UCCL_RMA_READ || !len || !msg_target_knows(&s->req))
		return true;
	if (!s->found) {
		if (s->refusal || msg_target_find(rx->peer, &s->req, &at) || !at.device)
			return true;
		if (!msg_target_claim(m, rx)) {
			*blocked = UCCL_BLOCK_CLAIM;
			return false;
		}
		s->found = malloc(2 * len);
		s->refusal = s->found ? (uint8_t)serve_attach(rx) : UCCL_REFUSED_MEMORY;
		if (!s->refusal)
			msg_get(m, &rx->place.copy, rx->place.iov, rx->place.niov, rx->place.device, 0, s->found, len);
	}
	for (;;) {
		if (!serve_copies_done(rx))
			return false;
		if (s->stored || s->refusal)
			break;
		s->stored = true;
		msg_target_apply(&s->req, rx->hold.buf, s->found, s->found + len);
		if (s->req.atomic != UCCL_ATOMIC_READ)
			msg_put(m, &rx->place.copy, rx->place.iov, rx->place.niov, rx->place.device, 0, s->found, len);
	}
	msg_target_release(m, rx);
	return true;
}

/* serve_first() of a write that waits for CTS, or waited and is in place. */
static bool serve_first_waiting(struct uccl_msg_rx *rx, enum uccl_block *blocked, uint64_t now)
{
	struct uccl_peer *p = rx->peer;
	struct uccl_serve *s = rx->serve;
	struct msg_place at;
	int refusal;

	if (!serve_room(p, s->env.flags & UCCL_ENV_DATA)) {
		*blocked = UCCL_BLOCK_ROOM;
		return false;
	}
	if (s->placed) {
		serve_unqueue(rx);
		serve_finish(rx);
		return true;
	}
	*blocked = UCCL_BLOCK_SHORT;
	if (serve_short(rx) && !msg_short_writes_room(p))
		return false;
	if (p->serve.nshort_writes && s->env.flags & UCCL_ENV_DATA)
		return false;
	refusal = msg_target_find(p, &s->req, &at);
	if (!refusal && p->serve.nshort_writes && msg_short_writes_meets(p, &at))
		return false;
	*blocked = UCCL_BLOCK_NOT;
	serve_grant(rx, refusal, &at, now);
	return true;
}

/* The first of the requests whose turn has come. True: it is done with, and no more in the list. */
static bool serve_first(struct uccl_msg_rx *rx, enum uccl_block *blocked, uint64_t now)
{
	struct uccl_peer *p = rx->peer;
	struct uccl_serve *s = rx->serve;
	struct uccl_reply *r;
	bool fetched;

	if (!(rx->env.flags & UCCL_ENV_EAGER))
		return serve_first_waiting(rx, blocked, now);
	/* Its place may be what earlier ones are still to fill. */
	if (!rx->place.iov && !s->refusal && serve_meets(p, s->env.flags, &s->req)) {
		*blocked = UCCL_BLOCK_SHORT;
		return false;
	}
	/* Its payload goes straight to its place, unless some has come already. */
	if (rx->arrived.got < rx->arrived.eager && !rx->hold.buf && !rx->place.iov && !s->refusal) {
		s->refusal = (uint8_t)serve_attach(rx);
		if (!s->refusal)
			msg_rx_move_first(rx);
		msg_rx_placed(rx);
	}
	if (rx->arrived.got < rx->arrived.eager ||
	    (p->msg_ep->device.ops && (!serve_written(rx) || !serve_atomic(rx, blocked))))
		return false;
	if (!rx->place.iov && !s->refusal) {
		*blocked = serve_whole(p, &s->env, &s->req, rx->hold.buf);
		if (*blocked)
			return false;
		msg_rx_free(rx);
		return true;
	}
	if (!serve_room(p, s->env.flags & UCCL_ENV_DATA && !s->refusal)) {
		*blocked = UCCL_BLOCK_ROOM;
		return false;
	}
	fetched = s->found && !s->refusal && s->req.rx;
	r = msg_reply_get(p, rx->env.send_id, fetched ? &s->req : NULL, (uint32_t)rx->mseq);
	if (!r) {
		*blocked = UCCL_BLOCK_REPLY;
		return false;
	}
	if (!s->refusal)
		serve_tell(rx);
	if (fetched) {
		memcpy(r->feed->buf, s->found + s->req.len, s->req.len);
		msg_reply_fetched(r);
		p->msg_ep->ops->ready(p);
	} else {
		msg_reply_answer(r, s->refusal);
	}
	msg_rx_free(rx);
	return true;
}

static void serve_unblock(struct uccl_peer *p)
{
	if (p->serve.blocked)
		TAILQ_REMOVE(&p->msg_ep->serve.blocked[p->serve.blocked], p, serve.blocked_link);
	p->serve.blocked = UCCL_BLOCK_NOT;
}

/* Go on with the requests of this peer, as far as possible. */
static void serve_run(struct uccl_peer *p, uint64_t now)
{
	enum uccl_block blocked = UCCL_BLOCK_NOT;
	struct uccl_msg_rx *rx;

	while ((rx = TAILQ_FIRST(&p->serve.requests)) && serve_first(rx, &blocked, now))
		;
	if (blocked != p->serve.blocked) {
		serve_unblock(p);
		p->serve.blocked = (uint8_t)blocked;
		if (blocked)
			TAILQ_INSERT_TAIL(&p->msg_ep->serve.blocked[blocked], p, serve.blocked_link);
	}
	msg_peer_limits(p);
}

/* Queue a request before this one; NULL: behind all. */
static void serve_queue(struct uccl_msg_rx *rx, struct uccl_msg_rx *before, uint64_t now)
{
	struct uccl_peer *p = rx->peer;

	if (before)
		TAILQ_INSERT_BEFORE(before, rx, link);
	else
		TAILQ_INSERT_TAIL(&p->serve.requests, rx, link);
	p->serve.n++;
	rx->serve->queued = true;
	serve_run(p, now);
}

/* Its turn has come. */
static void serve_turn(struct uccl_msg_rx *rx, uint64_t now)
{
	serve_queue(rx, NULL, now);
}

/* It is in place, and waits for room. A short one is told before those behind it, but for one that has begun. */
static void serve_placed_waits(struct uccl_msg_rx *rx, uint64_t now)
{
	struct uccl_msg_rx *before = serve_short(rx) ? TAILQ_FIRST(&rx->peer->serve.requests) : NULL;

	if (before && before->place.iov)
		before = TAILQ_NEXT(before, link);
	rx->serve->placed = true;
	serve_queue(rx, before, now);
}

/* A write that was asked for is in place. */
static void serve_placed(struct uccl_msg_rx *rx, uint64_t now)
{
	struct uccl_peer *p = rx->peer;

	msg_short_writes_end(p, &rx->serve->short_write);
	if (rx->place.copy.err) {
		msg_rx_fin(rx, UCCL_REFUSED_RANGE);
		msg_rx_release(rx);
	} else if (serve_room(p, rx->serve->env.flags & UCCL_ENV_DATA)) {
		serve_finish(rx);
	} else {
		/* Many may have been granted while there was room for each. */
		serve_placed_waits(rx, now);
	}
	if (p->serve.blocked == UCCL_BLOCK_SHORT)
		serve_run(p, now);
}

static void serve_came(struct uccl_msg_rx *rx, uint64_t now)
{
	serve_run(rx->peer, now);
}

static void refused_end(struct uccl_msg_ep *m, struct uccl_serve *s)
{
	if (s->refused)
		TAILQ_REMOVE(&m->serve.refused, s, refused_link);
	s->refused = false;
}

static void serve_freed(struct uccl_msg_rx *rx)
{
	if (rx->serve->queued)
		serve_unqueue(rx);
	refused_end(rx->peer->msg_ep, rx->serve);
	msg_short_writes_end(rx->peer, &rx->serve->short_write);
	msg_uses_end(rx->peer->msg_ep, &rx->serve->uses);
	msg_target_release(rx->peer->msg_ep, rx);
	free(rx->serve->found);
	uccl_pool_put(&rx->peer->msg_ep->serve.pool, rx->serve);
}

static const struct msg_rx_ops serve_rx_ops = {
	.turn = serve_turn,
	.whole = serve_came,
	.placed = serve_placed,
	.freed = serve_freed,
};

/* Keep what cannot be executed yet. */
static enum uccl_drop req_keep(struct uccl_peer *p, struct uccl_msg_rx *rx, uint64_t mseq, bool turn,
			       const struct uccl_env *env, const struct uccl_req *req, const uint8_t *data,
			       uint32_t len, uint64_t now)
{
	uint64_t eager = env->flags & UCCL_ENV_EAGER ? env->len : len;
	struct uccl_msg_ep *m = p->msg_ep;
	struct uccl_serve *s = uccl_pool_get(&m->serve.pool);
	bool fresh = !rx, bare, straight, late;
	int rc;

	if (!s)
		return UCCL_DROP_MEMORY;
	/* It must be found again if its turn has not come, or more of it comes by message sequence. */
	if (!rx)
		rx = msg_rx_new(p, mseq, eager, !turn || eager > len);
	if (!rx)
		goto memory;
	/* With nothing before it, a write needs no other place than its own. */
	bare = req->kind == UCCL_RMA_WRITE && !rx->hold.buf && len <= FIRST_MAX && (!len || len < eager);
	straight = turn && TAILQ_EMPTY(&p->serve.requests) && bare && (!eager || !serve_meets(p, env->flags, req));
	/* If those before it end before its payload comes, it needs none, too. */
	late = bare && !rx->hold.counted;
	if (straight)
		rc = msg_rx_hold(rx, eager);
	else
		rc = late ? msg_rx_unplaced(rx, eager) : msg_rx_buffer(rx, eager, len);
	if (!rc && len && !rx->hold.buf)
		rc = msg_rx_first(rx, data, len);
	if (rc)
		goto memory;
	if (!msg_rx_range_new(rx, 0, len, eager)) {
		uccl_pool_put(&m->serve.pool, s);
		return UCCL_DROP_OVERLAP;
	}
	s->req = *req;
	s->env = *env;
	rx->serve = s;
	msg_rx_set_env(rx, &serve_rx_ops, env, eager);
	if (len)
		msg_rx_place(rx, 0, data, len);
	if (turn && !rx->hashed) {
		msg_rx_turn(rx);
		serve_turn(rx, now);
	}
	msg_rx_drain(p, now);
	return UCCL_DROP_COUNT;
memory:
	uccl_pool_put(&m->serve.pool, s);
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
	mseq = uccl_seq_expand(p->rx.mseq, env.mseq, 32);
	head = uccl_req_decode(&req, env.tag, in->data, in->len);
	if (head < 0 || mseq < p->rx.mseq || mseq - p->rx.mseq >= UCCL_MSG_LIMIT || !env.id ||
	    env.flags & ~REQ_FLAGS)
		return UCCL_DROP_RECORD;
	data = in->data + head;
	len = in->len - (uint32_t)head;
	if (msg_target_payload(&req) != env.len || len > env.len)
		return UCCL_DROP_RECORD;
	/* What brings all of its payload has nothing to wait for. PROTOCOL R28 */
	if (env.flags & UCCL_ENV_EAGER ? env.len > len && env.len > UCCL_EAGER_MAX :
					 req.kind != UCCL_RMA_WRITE || !(env.flags & UCCL_ENV_DELIVERY) ||
						 len == env.len)
		return UCCL_DROP_RECORD;
	turn = mseq == p->rx.mseq;
	rx = msg_rx_find(p, mseq);
	if (!rx && turn && len == env.len && env.flags & UCCL_ENV_EAGER && TAILQ_EMPTY(&p->serve.requests) &&
	    !serve_meets(p, env.flags, &req) && !serve_whole(p, &env, &req, data)) {
		msg_rx_next(p);
		msg_rx_drain(p, now);
		return UCCL_DROP_COUNT;
	}
	/* More of it came before: the request must agree with that, and bring what is missing. */
	if (rx && (rx->env.have || rx->arrived.eager != env.len || !(env.flags & UCCL_ENV_EAGER) ||
		   len > rx->arrived.eager - rx->arrived.got))
		return UCCL_DROP_RECORD;
	return req_keep(p, rx, mseq, turn, &env, &req, data, len, now);
}

/* An atomic on a device may have been done since, here or at another endpoint. */
static bool claim_free(const struct uccl_msg_ep *m)
{
	return !m->target.claimer;
}

/* Peers that wait for this go on, one after the other, while there is some. NULL: each is tried. */
static void serve_turns(struct uccl_msg_ep *m, enum uccl_block what, bool (*some)(const struct uccl_msg_ep *m),
			uint64_t now)
{
	struct uccl_peer_list *l = &m->serve.blocked[what];
	const struct uccl_peer *last = TAILQ_LAST(l, uccl_peer_list);
	struct uccl_peer *p;
	int tries = 0;

	/* There may be room and no receive for any of them: the others are tried in the next turns. */
	while (tries < SERVE_TRIES && (p = TAILQ_FIRST(l)) && (!some || some(m))) {
		uccl_match_step(&m->match);
		/* The next room is for the next one. */
		serve_unblock(p);
		serve_run(p, now);
		tries += p->serve.blocked == what;
		if (p == last)
			break;
	}
}

void msg_serve_retry(struct uccl_msg_ep *m, uint64_t now)
{
	/* What they wait for may have ended without its payload: it was revoked, or taken back. */
	serve_turns(m, UCCL_BLOCK_SHORT, NULL, now);
	serve_turns(m, UCCL_BLOCK_CLAIM, claim_free, now);
	m->serve.retrying = true;
	serve_turns(m, UCCL_BLOCK_ROOM, uccl_msg_ep_room, now);
	m->serve.retrying = false;
}

void msg_serve_blocked(struct uccl_msg_ep *m, uint64_t now)
{
	struct uccl_peer_list *l = &m->serve.blocked[UCCL_BLOCK_REPLY];
	struct uccl_peer *p;

	for (int i = 0; i < SERVE_TRIES && (p = TAILQ_FIRST(l)); i++) {
		TAILQ_REMOVE(l, p, serve.blocked_link);
		TAILQ_INSERT_TAIL(l, p, serve.blocked_link);
		serve_run(p, now);
	}
}

void msg_serve_acked(struct uccl_item *item, uint64_t now)
{
	struct uccl_peer *p = msg_reply_acked(item);

	if (!p)
		return;
	msg_serve_blocked(p->msg_ep, now);
	if (p->serve.blocked == UCCL_BLOCK_REPLY)
		serve_run(p, now);
}

bool msg_serve_abort(struct uccl_msg_rx *rx, uint64_t now)
{
	struct uccl_peer *p = rx->peer;
	struct uccl_serve *s = rx->serve;

	if (s->placed || s->found || rx->place.copy.ticket ||
	    (rx->place.iov && rx->arrived.got >= msg_rx_need(rx)))
		return false;
	if (s->queued) {
		msg_rx_free(rx);
		serve_run(p, now);
		return true;
	}
	msg_uses_end(p->msg_ep, &s->uses);
	msg_short_writes_end(p, &s->short_write);
	msg_rx_stop(rx);
	return true;
}

void msg_serve_ended(struct uccl_peer *p, uint64_t now)
{
	msg_replies_free(p);
	serve_unblock(p);
	msg_serve_blocked(p->msg_ep, now);
}

void uccl_msg_revoke(struct uccl_msg_ep *m, const void *region, const struct uccl_revoke *part, uint64_t now)
{
	struct uccl_serve *s;

	msg_copies_settle(m);
	msg_uses_revoke(m, region, part);
	while ((s = TAILQ_FIRST(&m->serve.refused))) {
		refused_end(m, s);
		serve_run(s->rx->peer, now);
	}
}
