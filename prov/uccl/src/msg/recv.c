/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The receiving side. Envelopes are matched in message order, whatever order the paths deliver them in; payload is
 * placed as it comes. The common case, a whole message in order for a posted receive, touches nothing but the receive.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/seq.h"
#include "base/units.h"
#include "msg/rma.h"

/* Direct writes are worth a registration from this size on. */
#define DIRECT_MIN 16384
/* Foreseeing the place of a payload pays from this chunk size on. */
#define HINT_MIN 16384

void msg_copy_in(const struct iovec *iov, int n, uint64_t off, const uint8_t *data, uint64_t len)
{
	for (int i = 0; i < n && len; i++) {
		uint64_t part;

		if (off >= iov[i].iov_len) {
			off -= iov[i].iov_len;
			continue;
		}
		part = uccl_min(len, iov[i].iov_len - off);
		/* Payload scattered by prediction may be in place already, or overlap its place. */
		if ((uint8_t *)iov[i].iov_base + off != data)
			memmove((uint8_t *)iov[i].iov_base + off, data, part);
		data += part;
		len -= part;
		off = 0;
	}
}

void msg_copy_out(const struct iovec *iov, int n, uint64_t off, uint8_t *data, uint64_t len)
{
	for (int i = 0; i < n && len; i++) {
		uint64_t part;

		if (off >= iov[i].iov_len) {
			off -= iov[i].iov_len;
			continue;
		}
		part = uccl_min(len, iov[i].iov_len - off);
		memcpy(data, (uint8_t *)iov[i].iov_base + off, part);
		data += part;
		len -= part;
		off = 0;
	}
}

void msg_recv_done(struct uccl_op *op, struct uccl_peer *from, int err)
{
	struct uccl_op *parent = op->parent;

	op->from = from;
	op->err = err;
	if (parent) {
		struct uccl_mep *m = from->mep;

		op->parent = NULL;
		if (!--parent->children && parent->multi_closed) {
			/* The last message in a full buffer gives it back. */
			op->flags |= UCCL_OPF_MULTI;
			uccl_pool_put(&m->op_pool, parent);
		}
	}
	op->done(op);
}

/* May another message go into a multi-receive buffer? */
static bool child_room(const struct uccl_mep *m)
{
	return m->op_pool.used < m->op_pool.max && uccl_mep_room(m);
}

/*
 * The op that takes a message of `len` bytes: the receive itself, off the queue, or a new child of a multi-receive
 * buffer. NULL: no child can be had now.
 */
static struct uccl_op *recv_take(struct uccl_mep *m, struct uccl_op *recv, uint64_t len)
{
	uint64_t room = recv->len - recv->multi_used;
	struct uccl_op *child;

	if (!(recv->flags & UCCL_OPF_MULTI)) {
		uccl_match_unpost(&m->match, recv);
		recv->done_buf = recv->iov_count ? recv->iov[0].iov_base : NULL;
		return recv;
	}
	/* Nothing overtakes what waits. */
	child = m->starved || !child_room(m) ? NULL : uccl_pool_get(&m->op_pool);
	if (!child) {
		m->starved = true;
		return NULL;
	}
	child->type = UCCL_OP_RECV;
	child->flags = (recv->flags & ~UCCL_OPF_MULTI) | UCCL_OPF_CHILD;
	child->context = recv->context;
	child->api = recv->api;
	child->api_more = recv->api_more;
	child->api_flags = recv->api_flags;
	child->done = recv->done;
	child->parent = recv;
	child->iov_count = 1;
	child->iov[0].iov_base = (uint8_t *)recv->iov[0].iov_base + recv->multi_used;
	child->iov[0].iov_len = room;
	child->len = room;
	child->device = recv->device;
	child->done_buf = child->iov[0].iov_base;
	recv->children++;
	recv->multi_used += uccl_min(len, room);
	if (recv->len - recv->multi_used < uccl_max(recv->min_multi, 1)) {
		recv->multi_closed = true;
		uccl_match_unpost(&m->match, recv);
	}
	return child;
}

/* Fill in what a completed receive tells. */
static int recv_result(struct uccl_op *op, uint8_t flags, uint64_t tag, uint64_t data, uint64_t len, uint64_t placed)
{
	op->tag = tag;
	op->flags &= ~UCCL_OPF_DATA;
	if (flags & UCCL_ENV_DATA)
		op->flags |= UCCL_OPF_DATA;
	op->data = data;
	op->done_len = placed;
	op->olen = len - placed;
	return len > placed ? FI_ETRUNC : 0;
}

static struct uccl_op *data_recv(const struct uccl_mep *m, const struct uccl_peer *p)
{
	return uccl_match_posted(&m->match, UCCL_KIND_UNTAGGED, p, 0);
}

bool msg_data_room(const struct uccl_mep *m, const struct uccl_peer *p)
{
	const struct uccl_op *recv;

	if (!m->data_takes)
		return uccl_mep_room(m);
	recv = data_recv(m, p);
	return recv && (recv->flags & UCCL_OPF_MULTI ? !m->starved && child_room(m) : uccl_mep_room(m));
}

struct uccl_op *msg_data_take(struct uccl_mep *m, const struct uccl_peer *p, uint64_t data, uint64_t len)
{
	struct uccl_op *recv = m->data_takes ? data_recv(m, p) : NULL;
	struct uccl_op *op = recv ? recv_take(m, recv, 0) : NULL;

	if (!op)
		return NULL;
	recv_result(op, UCCL_ENV_DATA, 0, data, len, len);
	op->done_buf = NULL;
	return op;
}

static void rx_unlink(struct uccl_msg_rx *rx)
{
	struct uccl_peer *p = rx->peer;

	if (rx->hashed) {
		HASH_DEL(p->by_mseq, rx);
		rx->hashed = false;
	}
}

static void rx_buf_free(struct uccl_msg_rx *rx)
{
	struct uccl_mep *m = rx->peer->mep;

	if (!rx->buf)
		return;
	free(rx->buf);
	rx->buf = NULL;
	m->unexpected_bytes -= rx->buf_len;
	rx->peer->unexpected_bytes -= rx->buf_len;
	if (rx->peer->left)
		m->left_bytes -= rx->buf_len;
	rx->buf_len = 0;
}

static void rx_unhold(struct uccl_msg_rx *rx)
{
	struct uccl_peer *p = rx->peer;
	struct uccl_mep *m = p->mep;

	if (!rx->held)
		return;
	rx->held = false;
	p->held--;
	m->held--;
	if (p->left)
		m->left_held--;
	if (p->open)
		msg_peer_limits(p);
}

void msg_rx_free(struct uccl_msg_rx *rx)
{
	struct uccl_peer *p = rx->peer;
	struct uccl_mep *m = p->mep;

	if (rx->copy.ticket)
		msg_copy_end(m, &rx->copy);
	rx_unlink(rx);
	rx_buf_free(rx);
	rx_unhold(rx);
	if (rx->serve) {
		if (rx->serve->queued) {
			TAILQ_REMOVE(&p->requests, rx, link);
			p->nrequests--;
		}
		uccl_pool_put(&m->serve_pool, rx->serve);
	}
	if (rx->id)
		uccl_ids_put(&m->rx_ids, rx->id);
	if (m->stream == rx)
		m->stream = TAILQ_NEXT(rx, plink);
	TAILQ_REMOVE(&p->rxs, rx, plink);
	uccl_pool_put(&m->rx_pool, rx);
}

/* Free the message unless one of its records is still under way. */
void msg_rx_release(struct uccl_msg_rx *rx)
{
	rx->finished = true;
	if (rx->copy.ticket)
		msg_copy_end(rx->peer->mep, &rx->copy);
	if (!rx->cts.queued && !rx->cts.pending && !rx->fin.queued && !rx->fin.pending)
		msg_rx_free(rx);
}

void msg_rx_fin(struct uccl_msg_rx *rx, uint32_t refusal)
{
	struct uccl_peer *p = rx->peer;
	struct uccl_resp resp = { .id = rx->send_id, .err = refusal };

	if (!(rx->flags & UCCL_ENV_DELIVERY) || !rx->send_id || p->dead)
		return;
	rx->fin.rtype = UCCL_REC_FIN;
	uccl_resp_encode(rx->fin.rec, &resp);
	uccl_flow_submit(&p->flow, &rx->fin);
	p->mep->ops->ready(p);
}

static void rx_complete(struct uccl_msg_rx *rx, uint64_t now);

static void rx_copied(struct uccl_copy *c, uint64_t now)
{
	rx_complete(uccl_container_of(c, struct uccl_msg_rx, copy), now);
}

/* Everything that has a place is in its place. */
static void rx_complete(struct uccl_msg_rx *rx, uint64_t now)
{
	struct uccl_peer *p = rx->peer;
	struct uccl_op *op = rx->op;

	if (rx->device) {
		if (!msg_copied(p->mep, &rx->copy)) {
			msg_copy_wait(p->mep, &rx->copy, rx_copied);
			return;
		}
		msg_copy_end(p->mep, &rx->copy);
	}
	if (rx->doubts && p->mep->dereg_fences) {
		/* What still comes finds no place. A message without a place was promised no write. PROTOCOL R26 */
		if (rx->mr)
			p->mep->ops->dereg(p, rx->mr);
		rx->mr = NULL;
		rx->doubts = 0;
		uccl_flow_forgive(&p->flow, rx->id, (uint32_t)rx->mseq);
	}
	if (rx->doubts) {
		/* A direct write may still come: the buffer stays ours until every path that it may be on is fenced. */
		if (!rx->fencing) {
			rx->fencing = true;
			uccl_flow_fence_message(&p->flow, rx->id, (uint32_t)rx->mseq, now);
		}
		return;
	}
	if (rx->mr) {
		p->mep->ops->dereg(p, rx->mr);
		rx->mr = NULL;
	}
	if (rx->serve) {
		msg_serve_placed(rx, now);
		return;
	}
	msg_rx_fin(rx, 0);
	rx->op = NULL;
	rx->iov = NULL;
	if (rx->read) {
		rx->read->fail = rx->copy.err;
		msg_rma_read_done(rx->read);
	} else if (op) {
		int err = recv_result(op, rx->flags, rx->tag, rx->data, rx->len, rx->limit);

		err = rx->copy.err ? rx->copy.err : err;
		/* The message first: done() may post and match again. */
		msg_rx_release(rx);
		msg_recv_done(op, p, err);
	} else {
		msg_rx_release(rx);
	}
}

static void rx_check(struct uccl_msg_rx *rx, uint64_t now)
{
	uint64_t need = rx->flags & UCCL_ENV_EAGER ? rx->eager : uccl_max(rx->limit, rx->eager);

	if (rx->got >= need)
		rx_complete(rx, now);
}

bool msg_rx_covers(struct uccl_msg_rx *rx, uint64_t off, uint64_t len, uint64_t need)
{
	const uint8_t *key = rx->peer->mep->cover_key;

	return uccl_cover_add(&rx->cover, off, off + len, key) &&
	       (rx->got + len != need || uccl_cover_whole(&rx->cover, need, key));
}

/*
 * Would the peer hold more than it leaves to others, of so much in all, with `more` bytes? So many that hold as much as
 * they may leave as much again, whatever they do: n of them have n / (n + 1) of it. (Choudhury and Hahne, Dynamic Queue
 * Length Thresholds, 1998.)
 */
static bool peer_over(const struct uccl_peer *p, uint64_t all, uint64_t least, uint64_t more)
{
	const struct uccl_mep *m = p->mep;
	uint64_t used = m->unexpected_bytes + (uint64_t)m->held * UCCL_HELD_COST;
	uint64_t own = p->unexpected_bytes + (uint64_t)p->held * UCCL_HELD_COST;

	return own + more > uccl_max(all > used ? all - used : 0, least);
}

static uint64_t held_max(const struct uccl_mep *m)
{
	return 2 * m->unexpected_max + UCCL_HELD_MORE;
}

int msg_rx_hold(struct uccl_msg_rx *rx, uint64_t len)
{
	struct uccl_peer *p = rx->peer;

	if (rx->held)
		return 0;
	if (peer_over(p, held_max(p->mep), UCCL_HELD_LEAST, len + UCCL_HELD_COST))
		return -1;
	rx->held = true;
	p->held++;
	p->mep->held++;
	return 0;
}

/*
 * A place for payload that comes before it is matched, `now` of which is here. 0, or -1: no memory, or more of this
 * peer's than its part (PROTOCOL R42).
 */
int msg_rx_buffer(struct uccl_msg_rx *rx, uint64_t len, uint64_t now)
{
	struct uccl_mep *m = rx->peer->mep;

	if (msg_rx_hold(rx, len))
		return -1;
	if (rx->buf || !len)
		return 0;
	/* It may go to a receive with its gaps, and what fills them may never come: they must not tell anything. */
	rx->buf = now < len ? calloc(1, len) : malloc(len);
	if (!rx->buf)
		return -1;
	rx->buf_len = len;
	m->unexpected_bytes += len;
	rx->peer->unexpected_bytes += len;
	m->stats->unexpected_bytes_max = uccl_max(m->stats->unexpected_bytes_max, m->unexpected_bytes);
	return 0;
}

/* To where it was matched to. */
static inline void rx_in(struct uccl_msg_rx *rx, uint64_t off, const uint8_t *data, uint64_t len)
{
	if (rx->device)
		msg_put(rx->peer->mep, &rx->copy, rx->iov, rx->niov, rx->device, off, data, len);
	else
		msg_copy_in(rx->iov, rx->niov, off, data, len);
}

void msg_rx_move(struct uccl_msg_rx *rx, uint64_t len)
{
	rx_in(rx, 0, rx->buf, len);
}

/* Payload of a message, at its offset. */
void msg_rx_place(struct uccl_msg_rx *rx, uint64_t off, const uint8_t *data, uint64_t len)
{
	rx->got += len;
	if (rx->iov) {
		if (off < rx->limit)
			rx_in(rx, off, data, uccl_min(len, rx->limit - off));
		rx->hi = uccl_max(rx->hi, off + len);
	} else if (rx->buf) {
		memcpy(rx->buf + off, data, len);
	}
}

/* Ask for the rest of a message. */
void msg_rx_cts(struct uccl_msg_rx *rx)
{
	struct uccl_peer *p = rx->peer;
	struct uccl_cts cts = { .id = rx->send_id, .limit = rx->limit };

	if (!rx->id)
		rx->id = uccl_ids_get(&p->mep->rx_ids, rx);
	if (!rx->id) {
		/* A million messages under way: this one is cut to what is here. */
		rx->limit = uccl_min(rx->limit, rx->eager);
		cts.limit = rx->limit;
	}
	cts.rx = rx->id;
	if (rx->niov == 1 && !rx->device && p->flow.cfg.write_bytes && !p->flow.direct_off &&
	    rx->limit >= rx->eager + DIRECT_MIN &&
	    p->mep->ops->reg(p, rx->iov[0].iov_base, rx->limit, &rx->mr, &cts.rkey, &cts.raddr))
		rx->mr = NULL;
	if (!rx->mr)
		cts.rkey = 0;
	if (!p->mep->stream)
		p->mep->stream = rx;
	rx->cts.rtype = UCCL_REC_CTS;
	uccl_cts_encode(rx->cts.rec, &cts);
	uccl_flow_submit(&p->flow, &rx->cts);
	p->mep->ops->ready(p);
}

static void rx_to(struct uccl_msg_rx *rx, struct uccl_op *op)
{
	rx_unhold(rx);
	rx->op = op;
	rx->iov = op->iov;
	rx->niov = op->iov_count;
	rx->device = op->device;
	rx->limit = uccl_min(rx->len, op->len);
}

/* The receive for this message is known. */
static void rx_attach(struct uccl_msg_rx *rx, struct uccl_op *op, uint64_t now)
{
	rx_to(rx, op);
	rx->hi = rx->got;
	op->rx = rx;
	if (rx->buf) {
		/* A gap in it is filled by payload still to come. */
		rx_in(rx, 0, rx->buf, uccl_min(rx->buf_len, rx->limit));
		rx_buf_free(rx);
	}
	if (rx->failed) {
		msg_rx_failed(rx, rx->peer->dead, now);
		return;
	}
	if (!(rx->flags & UCCL_ENV_EAGER))
		msg_rx_cts(rx);
	rx_check(rx, now);
}

static void rx_self_copied(struct uccl_copy *c, uint64_t now)
{
	struct uccl_msg_rx *rx = uccl_container_of(c, struct uccl_msg_rx, copy);
	struct uccl_op *send = rx->self, *op = rx->op;
	int err = recv_result(op, rx->flags, rx->tag, rx->data, rx->len, uccl_min(rx->len, op->len));
	struct uccl_peer *p = rx->peer;
	int failed = c->err;

	(void)now;
	msg_rx_free(rx);
	msg_self_done(send, failed);
	msg_recv_done(op, p, failed ? failed : err);
}

/* Memory to memory. */
static void rx_self(struct uccl_msg_rx *rx, struct uccl_op *op, uint64_t now)
{
	struct uccl_op *send = rx->self;
	struct uccl_mep *m = rx->peer->mep;

	rx->op = op;
	msg_move(m, &rx->copy, op->iov, op->iov_count, op->device, send->iov, send->iov_count, send->device,
		 uccl_min(rx->len, op->len));
	if (msg_copied(m, &rx->copy))
		rx_self_copied(&rx->copy, now);
	else
		msg_copy_wait(m, &rx->copy, rx_self_copied);
}

static void rx_give(struct uccl_msg_rx *rx, struct uccl_op *op, uint64_t now)
{
	if (rx->self)
		rx_self(rx, op, now);
	else
		rx_attach(rx, op, now);
}

void msg_rx_match(struct uccl_mep *m, struct uccl_msg_rx *rx, struct uccl_op *recv, uint64_t now)
{
	struct uccl_op *op = recv_take(m, recv, rx->len);

	if (!op)
		return;
	uccl_match_unlist(&m->match, rx);
	rx_give(rx, op, now);
}

/* The rest of a message that nobody wants is not asked for; what still comes is dropped. */
static void rx_discard(struct uccl_msg_rx *rx, uint64_t now)
{
	struct uccl_op *self = rx->self;

	if (self) {
		msg_rx_free(rx);
		msg_self_done(self, 0);
		return;
	}
	rx->discarded = true;
	rx->limit = 0;
	rx_buf_free(rx);
	if (rx->failed) {
		msg_rx_free(rx);
		return;
	}
	if (!(rx->flags & UCCL_ENV_EAGER)) {
		rx->limit = rx->eager;
		msg_rx_cts(rx);
	}
	rx_check(rx, now);
}

static void retry_messages(struct uccl_mep *m, uint64_t now)
{
	if (!child_room(m))
		return;
	m->starved = false;
	for (int t = 0; t < UCCL_KINDS; t++) {
		struct uccl_msg_rx *rx, *next;

		for (rx = TAILQ_FIRST(&m->match.unexpected[t]); rx; rx = next) {
			struct uccl_op *recv = uccl_match_posted(&m->match, t, rx->peer, rx->tag);

			next = TAILQ_NEXT(rx, link);
			if (recv)
				msg_rx_match(m, rx, recv, now);
		}
	}
}

void uccl_msg_retry(struct uccl_mep *m, uint64_t now)
{
	m->messages_next = !m->messages_next;
	if (m->messages_next)
		msg_serve_retry(m, now);
	if (m->starved)
		retry_messages(m, now);
	if (!m->messages_next)
		msg_serve_retry(m, now);
}

void msg_peer_limits(struct uccl_peer *p)
{
	/* What is held is not done with. PROTOCOL R120 */
	uint32_t limit = (uint32_t)p->rx_mseq + UCCL_MSG_LIMIT - p->held;
	struct uccl_flow *f = &p->flow;

	f->rcv_short = peer_over(p, p->mep->unexpected_max, uccl_min(p->mep->unexpected_max, UCCL_HELD_LEAST), 0);
	if ((int32_t)(limit - f->rcv_msg_limit) <= 0)
		return;
	/* It has used up what it knew of, so nothing will come that could be answered with this. */
	if ((uint32_t)p->rx_mseq == f->rcv_msg_limit && p->open) {
		f->ack_now = true;
		p->mep->ops->ready(p);
	}
	f->rcv_msg_limit = limit;
}

/*
 * Messages of peers that have ended can still be received, and nobody knows whether somebody will. Together they have a
 * quarter of the room; beyond that the oldest go, until half of that is free. PROTOCOL R46
 */
void msg_peer_left(struct uccl_peer *p)
{
	struct uccl_mep *m = p->mep;
	uint64_t most = held_max(m) / 4;
	struct uccl_msg_rx *rx, *next;

	p->left = true;
	m->left_bytes += p->unexpected_bytes;
	m->left_held += p->held;
	if (m->left_bytes + (uint64_t)m->left_held * UCCL_HELD_COST <= most)
		return;
	for (int t = 0; t < UCCL_KINDS; t++)
		for (rx = TAILQ_FIRST(&m->match.unexpected[t]); rx; rx = next) {
			if (m->left_bytes + (uint64_t)m->left_held * UCCL_HELD_COST <= most / 2)
				return;
			next = TAILQ_NEXT(rx, link);
			if (!rx->peer->left)
				continue;
			m->stats->dropped[UCCL_DROP_MEMORY]++;
			uccl_match_unlist(&m->match, rx);
			msg_rx_free(rx);
		}
}

/* An envelope whose turn it is, its message in memory of ours: match it or list it. */
static void rx_in_order(struct uccl_msg_rx *rx, uint64_t now)
{
	struct uccl_mep *m = rx->peer->mep;
	struct uccl_op *recv, *op;

	rx->in_order = true;
	if (rx->serve) {
		msg_serve_turn(rx, now);
		return;
	}
	recv = uccl_match_posted(&m->match, uccl_env_kind(rx->flags), rx->peer, rx->tag);
	op = recv ? recv_take(m, recv, rx->len) : NULL;
	if (op) {
		rx_attach(rx, op, now);
		return;
	}
	m->stats->unexpected++;
	uccl_match_list(&m->match, rx);
}

struct uccl_msg_rx *msg_rx_find(struct uccl_peer *p, uint64_t mseq)
{
	struct uccl_msg_rx *rx = NULL;

	if (p->by_mseq)
		HASH_FIND(hh, p->by_mseq, &mseq, sizeof(mseq), rx);
	return rx;
}

/*
 * A message of connection management meets its receive when all of it is here: a listener has one receive for
 * everybody, and whoever sends half a message must not keep it. PROTOCOL R110
 */
static bool rx_meets(uint8_t flags, uint64_t here, uint64_t eager)
{
	return !(flags & UCCL_ENV_CM) || here >= eager;
}

/* Envelopes that came early and whose turn it now is. */
void msg_rx_drain(struct uccl_peer *p, uint64_t now)
{
	struct uccl_msg_rx *rx;

	while (p->by_mseq && (rx = msg_rx_find(p, p->rx_mseq)) && rx->have_env &&
	       rx_meets(rx->flags, rx->got, rx->eager)) {
		p->rx_mseq++;
		/* Complete but for the receive: it need not be found by sequence any more. */
		if (rx->got >= rx->eager)
			rx_unlink(rx);
		rx_in_order(rx, now);
	}
	msg_peer_limits(p);
}

struct uccl_msg_rx *msg_rx_new(struct uccl_peer *p, uint64_t mseq)
{
	struct uccl_msg_rx *rx = uccl_pool_get(&p->mep->rx_pool);

	if (!rx)
		return NULL;
	rx->peer = p;
	rx->mseq = mseq;
	TAILQ_INSERT_TAIL(&p->rxs, rx, plink);
	return rx;
}

bool msg_rx_hash(struct uccl_msg_rx *rx)
{
	HASH_ADD(hh, rx->peer->by_mseq, mseq, sizeof(rx->mseq), rx);
	rx->hashed = rx->hh.tbl != NULL;
	return rx->hashed;
}

void msg_rx_set_env(struct uccl_msg_rx *rx, const struct uccl_env *env, uint64_t eager)
{
	rx->have_env = true;
	rx->tag = env->tag;
	rx->data = env->data;
	rx->len = env->len;
	rx->flags = env->flags;
	rx->send_id = env->id;
	rx->eager = eager;
}

/* A whole message in order, and a receive waits for it. */
static void recv_whole(struct uccl_peer *p, const struct uccl_env *env, struct uccl_op *op, const uint8_t *data)
{
	uint64_t n = uccl_min(env->len, op->len);
	int err;

	if (n)
		msg_copy_in(op->iov, op->iov_count, 0, data, n);
	err = recv_result(op, env->flags, env->tag, env->data, env->len, n);
	msg_recv_done(op, p, err);
}

/* A connected endpoint has to do with one peer. PROTOCOL R111 */
static bool rx_stranger(const struct uccl_peer *p)
{
	return p->mep->cm && p != p->mep->sole;
}

/* PROTOCOL R110 */
static enum uccl_drop rx_cm(const struct uccl_peer *p, const struct uccl_env *env)
{
	if (!p->mep->cm)
		return UCCL_DROP_STATE;
	return env->len > UCCL_CM_MAX || !(env->flags & UCCL_ENV_EAGER) ? UCCL_DROP_RECORD : UCCL_DROP_COUNT;
}

static enum uccl_drop rx_msg(struct uccl_peer *p, const struct uccl_chunk_in *in, uint64_t now)
{
	struct uccl_mep *m = p->mep;
	struct uccl_msg_rx *rx;
	struct uccl_env env;
	uint64_t mseq, eager;
	bool turn;

	uccl_env_decode(&env, in->rec);
	mseq = uccl_seq_expand(p->rx_mseq, env.mseq, 32);
	eager = env.flags & UCCL_ENV_EAGER ? env.len : in->len;
	/* All of it, and not eager: nobody could tell whether it still waits for CTS. */
	if (mseq < p->rx_mseq || mseq - p->rx_mseq >= UCCL_MSG_LIMIT || in->len > env.len ||
	    (eager > in->len && eager > UCCL_EAGER_MAX) ||
	    (!(env.flags & UCCL_ENV_EAGER) && (!env.id || in->len == env.len)) ||
	    ((env.flags & UCCL_ENV_DELIVERY) && !env.id))
		return UCCL_DROP_RECORD;
	if (env.flags & UCCL_ENV_CM) {
		enum uccl_drop reason = rx_cm(p, &env);

		if (reason != UCCL_DROP_COUNT)
			return reason;
	} else if (rx_stranger(p)) {
		return UCCL_DROP_STATE;
	}
	if (m->starved)
		uccl_msg_retry(m, now);
	turn = mseq == p->rx_mseq;
	rx = msg_rx_find(p, mseq);
	if (!rx && turn && eager == in->len && (env.flags & UCCL_ENV_EAGER) && !(env.flags & UCCL_ENV_DELIVERY)) {
		struct uccl_op *recv = uccl_match_posted(&m->match, uccl_env_kind(env.flags), p, env.tag);
		struct uccl_op *op = recv && !recv->device ? recv_take(m, recv, env.len) : NULL;

		if (op) {
			p->rx_mseq++;
			recv_whole(p, &env, op, in->data);
			msg_rx_drain(p, now);
			return UCCL_DROP_COUNT;
		}
	}
	/* More of it came before: the envelope must agree with that, and bring what is missing. */
	if (rx && (rx->have_env || rx->eager != eager || !(env.flags & UCCL_ENV_EAGER) || in->len > eager - rx->got))
		return UCCL_DROP_RECORD;
	if (!rx) {
		rx = msg_rx_new(p, mseq);
		if (!rx)
			return UCCL_DROP_MEMORY;
		/* It must be found again if its turn has not come, or more of it comes by message sequence. */
		if (((!turn || eager > in->len) && !msg_rx_hash(rx))) {
			msg_rx_free(rx);
			return UCCL_DROP_MEMORY;
		}
		rx->eager = eager;
	}
	if (!msg_rx_covers(rx, 0, in->len, eager))
		return UCCL_DROP_OVERLAP;
	if (turn && !rx->buf && !rx->got && rx_meets(env.flags, in->len, eager)) {
		/* Straight to the receive if there is one. */
		struct uccl_op *recv = uccl_match_posted(&m->match, uccl_env_kind(env.flags), p, env.tag);
		struct uccl_op *op = recv ? recv_take(m, recv, env.len) : NULL;

		if (op) {
			p->rx_mseq++;
			msg_rx_set_env(rx, &env, eager);
			rx->in_order = true;
			rx_to(rx, op);
			if (in->len)
				msg_rx_place(rx, 0, in->data, in->len);
			rx_attach(rx, op, now);
			msg_rx_drain(p, now);
			return UCCL_DROP_COUNT;
		}
	}
	if (msg_rx_buffer(rx, eager, in->len)) {
		msg_rx_free(rx);
		return UCCL_DROP_MEMORY;
	}
	msg_rx_set_env(rx, &env, eager);
	if (in->len)
		msg_rx_place(rx, 0, in->data, in->len);
	if (turn && !rx->hashed) {
		p->rx_mseq++;
		rx_in_order(rx, now);
	}
	msg_rx_drain(p, now);
	return UCCL_DROP_COUNT;
}

static enum uccl_drop rx_eager(struct uccl_peer *p, const struct uccl_chunk_in *in, uint64_t now)
{
	uint64_t mseq = uccl_seq_expand(p->rx_mseq, uccl_get32(in->rec), 32);
	uint64_t off = uccl_get64(in->rec + 8), total = uccl_get64(in->rec + 16);
	struct uccl_msg_rx *rx = msg_rx_find(p, mseq);

	if (!rx) {
		if (mseq < p->rx_mseq)
			return UCCL_DROP_HANDLE;
		/* It may be of connection management: that tells its envelope. */
		if (rx_stranger(p) && total > UCCL_CM_MAX)
			return UCCL_DROP_STATE;
		if (mseq - p->rx_mseq >= UCCL_MSG_LIMIT || total > UCCL_EAGER_MAX || !in->len)
			return UCCL_DROP_RECORD;
		if (off > total || in->len > total - off)
			return UCCL_DROP_RANGE;
		rx = msg_rx_new(p, mseq);
		if (!rx)
			return UCCL_DROP_MEMORY;
		rx->eager = total;
		if (msg_rx_buffer(rx, total, 0) || !msg_rx_hash(rx)) {
			msg_rx_free(rx);
			return UCCL_DROP_MEMORY;
		}
	}
	if (total != rx->eager || off > rx->eager || in->len > rx->eager - off || in->len > rx->eager - rx->got)
		return UCCL_DROP_RANGE;
	if (!msg_rx_covers(rx, off, in->len, rx->eager))
		return UCCL_DROP_OVERLAP;
	msg_rx_place(rx, off, in->data, in->len);
	if (rx->got == rx->eager && rx->in_order) {
		rx_unlink(rx);
		if (rx->serve)
			msg_serve_run(p, now);
		else if (rx->op || rx->discarded)
			rx_check(rx, now);
	} else if (rx->got == rx->eager) {
		msg_rx_drain(p, now);
	}
	msg_peer_limits(p);
	return UCCL_DROP_COUNT;
}

static struct uccl_msg_rx *rx_by_id(struct uccl_peer *p, uint32_t id, uint32_t gen)
{
	struct uccl_msg_rx *rx = uccl_ids_find(&p->mep->rx_ids, id);

	return rx && rx->peer == p && (uint32_t)rx->mseq == gen && !rx->finished ? rx : NULL;
}

static enum uccl_drop rx_data(struct uccl_peer *p, const struct uccl_chunk_in *in, uint64_t now)
{
	struct uccl_msg_rx *rx = rx_by_id(p, uccl_get32(in->rec), uccl_get32(in->rec + 4));
	uint64_t off = uccl_get64(in->rec + 8);

	if (!rx || !rx->iov)
		return UCCL_DROP_HANDLE;
	if (off < rx->eager || off > rx->limit || in->len > rx->limit - off ||
	    in->len > rx->limit - uccl_min(rx->got, rx->limit))
		return UCCL_DROP_RANGE;
	if (!msg_rx_covers(rx, off, in->len, rx->limit))
		return UCCL_DROP_OVERLAP;
	if (in->doubtful)
		rx->doubts++;
	p->mep->stream = rx;
	if (in->placed)
		rx->got += in->len;
	else
		msg_rx_place(rx, off, in->data, in->len);
	rx->hi = uccl_max(rx->hi, off + in->len);
	rx_check(rx, now);
	return UCCL_DROP_COUNT;
}

static enum uccl_drop msg_deliver(struct uccl_flow *f, const struct uccl_chunk_in *in, uint64_t now)
{
	struct uccl_peer *p = f->user;

	/* Where copies to devices do not keep up, payload comes again. */
	if (p->mep->device && in->len && !in->placed && !p->mep->device->room(p->mep->device_arg))
		return UCCL_DROP_MEMORY;
	switch (in->rtype) {
	case UCCL_REC_MSG:
		return rx_msg(p, in, now);
	case UCCL_REC_EAGER:
		return rx_eager(p, in, now);
	case UCCL_REC_DATA:
	case UCCL_REC_REPLY:
		return rx_data(p, in, now);
	case UCCL_REC_CTS:
		return in->len ? UCCL_DROP_RECORD : msg_cts(p, in->rec, now);
	case UCCL_REC_REQ:
		return rx_stranger(p) ? UCCL_DROP_STATE : msg_req(p, in, now);
	case UCCL_REC_FIN:
	case UCCL_REC_RESP:
		return in->len ? UCCL_DROP_RECORD : msg_fin(p, in->rec);
	default:
		return UCCL_DROP_RECORD;
	}
}

static void msg_settled(struct uccl_flow *f, uint32_t id, uint32_t gen, uint64_t now)
{
	struct uccl_peer *p = f->user;
	struct uccl_msg_rx *rx = rx_by_id(p, id, gen);

	if (rx && rx->doubts && !--rx->doubts)
		rx_check(rx, now);
}

static void msg_fence(struct uccl_flow *f, uint16_t path, uint64_t now)
{
	struct uccl_peer *p = f->user;

	p->mep->ops->fence(p, path, now);
}

static void msg_acked(struct uccl_flow *f, struct uccl_item *item, uint64_t now)
{
	struct uccl_peer *p = f->user;
	struct uccl_msg_rx *rx;

	switch (item->rtype) {
	case UCCL_REC_RESP:
	case UCCL_REC_REPLY:
		msg_reply_acked(item, now);
		return;
	case UCCL_REC_CTS:
		rx = uccl_container_of(item, struct uccl_msg_rx, cts);
		break;
	case UCCL_REC_FIN:
		rx = uccl_container_of(item, struct uccl_msg_rx, fin);
		break;
	default:
		msg_send_acked(p, item);
		return;
	}
	if (rx->finished)
		msg_rx_release(rx);
}

const struct uccl_flow_ops uccl_msg_flow_ops = {
	.deliver = msg_deliver,
	.settled = msg_settled,
	.fence = msg_fence,
	.acked = msg_acked,
};

/* The sender is dead, or the endpoint closes. */
void msg_rx_failed(struct uccl_msg_rx *rx, int err, uint64_t now)
{
	struct uccl_peer *p = rx->peer;
	struct uccl_op *op = rx->op;

	(void)now;
	if (rx->mr) {
		p->mep->ops->dereg(p, rx->mr);
		rx->mr = NULL;
	}
	rx->iov = NULL;
	if (rx->serve) {
		msg_rx_free(rx);
		return;
	}
	if (op) {
		rx->op = NULL;
		op->tag = rx->tag;
		op->done_len = 0;
		msg_rx_free(rx);
		msg_recv_done(op, p, err);
		return;
	}
	/* What is whole can still be received; what is not fails the receive that will match it. */
	if (rx->in_order && !rx->discarded && !rx->finished) {
		rx_unlink(rx);
		rx->failed = rx->got < rx->len;
		return;
	}
	msg_rx_free(rx);
}

/* The first unexpected message for this receive. Those that wait for an op belong to receives posted before it. */
static struct uccl_msg_rx *unexpected_for(struct uccl_mep *m, struct uccl_op *op)
{
	enum uccl_match_kind kind = uccl_op_kind(op);
	struct uccl_msg_rx *rx;

	if (!m->starved)
		return uccl_match_unexpected(&m->match, op);
	uccl_match_post(&m->match, op);
	TAILQ_FOREACH(rx, &m->match.unexpected[kind], link)
		if (uccl_match_posted(&m->match, kind, rx->peer, rx->tag) == op)
			break;
	uccl_match_unpost(&m->match, op);
	return rx;
}

int uccl_msg_recv(struct uccl_mep *m, struct uccl_op *op, uint64_t now)
{
	struct uccl_msg_rx *rx;

	op->multi_used = 0;
	if (m->starved)
		uccl_msg_retry(m, now);
	while ((rx = unexpected_for(m, op))) {
		bool multi = op->flags & UCCL_OPF_MULTI;
		struct uccl_op *taken;

		/* recv_take takes it off the queue again, so that there is one way to do so. */
		uccl_match_post(&m->match, op);
		taken = recv_take(m, op, rx->len);
		if (!taken)
			return 0;
		if (multi && !op->multi_closed)
			uccl_match_unpost(&m->match, op);
		uccl_match_unlist(&m->match, rx);
		multi = multi && !op->multi_closed;
		rx_give(rx, taken, now);
		if (!multi)
			return 0;
	}
	if ((op->flags & UCCL_OPF_DIRECTED) && op->peer->dead) {
		op->done_len = 0;
		msg_recv_done(op, op->peer, op->peer->dead);
		return 0;
	}
	if (m->gone) {
		op->done_len = 0;
		msg_recv_done(op, NULL, m->gone);
		return 0;
	}
	uccl_match_post(&m->match, op);
	return 0;
}

int uccl_msg_cancel(struct uccl_mep *m, const void *context)
{
	for (int t = 0; t < UCCL_KINDS; t++) {
		struct uccl_op *op;

		TAILQ_FOREACH(op, &m->match.posted[t], link) {
			if (op->context != context)
				continue;
			uccl_match_unpost(&m->match, op);
			if (op->children) {
				/* Messages are still coming into it: the last of them gives it back. */
				op->multi_closed = true;
				return 0;
			}
			op->done_len = 0;
			op->err = FI_ECANCELED;
			op->from = NULL;
			op->done(op);
			return 0;
		}
	}
	return -FI_ENOENT;
}

int uccl_msg_peek(struct uccl_mep *m, struct uccl_op *op, bool claim, bool discard, uint64_t now)
{
	struct uccl_msg_rx *rx = unexpected_for(m, op);

	if (!rx)
		return -FI_ENOMSG;
	op->tag = rx->tag;
	op->data = rx->data;
	op->flags &= ~UCCL_OPF_DATA;
	if (rx->flags & UCCL_ENV_DATA)
		op->flags |= UCCL_OPF_DATA;
	op->done_len = rx->len;
	op->from = rx->peer;
	if (discard) {
		uccl_match_unlist(&m->match, rx);
		rx_discard(rx, now);
	} else if (claim) {
		uccl_match_claim(&m->match, rx, op->context);
	}
	return 0;
}

int uccl_msg_recv_claimed(struct uccl_mep *m, struct uccl_op *op, bool discard, uint64_t now)
{
	struct uccl_msg_rx *rx = uccl_match_claimed(&m->match, op->context);

	if (!rx)
		return -FI_ENOMSG;
	if (discard) {
		struct uccl_peer *from = rx->peer;

		op->tag = rx->tag;
		op->done_len = 0;
		rx_discard(rx, now);
		msg_recv_done(op, from, 0);
		return 0;
	}
	op->done_buf = op->iov_count ? op->iov[0].iov_base : NULL;
	rx_give(rx, op, now);
	return 0;
}

/* A matched message whose rest is on its way. */
static bool rx_streams(const struct uccl_msg_rx *rx)
{
	return rx->iov && rx->niov == 1 && !rx->device && !rx->mr && rx->id && rx->hi < rx->limit;
}

/*
 * Two payloads at one place would destroy each other before either can be moved away. Receives have no memory in
 * common, but reads and writes may.
 */
static bool hint_apart(const struct uccl_rx_hint *hints, int n, const uint8_t *dst, uint64_t len)
{
	for (int i = 0; i < n; i++) {
		const uint8_t *other = hints[i].dst;

		if (dst < other + hints[i].len && other < dst + len)
			return false;
	}
	return true;
}

int uccl_msg_hints(struct uccl_mep *m, struct uccl_rx_hint *hints, int n)
{
	const struct uccl_msg_rx *rx = m->stream;
	uint64_t off, chunk;
	int i = 0;

	/* The kernel merges small packets; copying them costs less than undoing a wrong guess. */
	if (!rx || rx->peer->flow.cfg.chunk_bytes < HINT_MIN)
		return 0;
	chunk = rx->peer->flow.cfg.chunk_bytes;
	/* When this message is through, the peer goes on with the one that was granted next. */
	for (; rx && i < n; rx = TAILQ_NEXT(rx, plink)) {
		if (!rx_streams(rx))
			continue;
		for (off = rx->hi; i < n && off < rx->limit; off += chunk) {
			uint8_t *dst = (uint8_t *)rx->iov[0].iov_base + off;
			uint64_t len = uccl_min(chunk, rx->limit - off);

			if (!hint_apart(hints, i, dst, len))
				break;
			hints[i].dst = dst;
			hints[i++].len = (uint32_t)len;
		}
	}
	return i;
}

uint8_t *uccl_msg_place(struct uccl_peer *p, const struct uccl_hdr *h)
{
	struct uccl_msg_rx *rx;
	uint64_t off;

	if (h->type != UCCL_PKT_CHUNK || (h->rtype != UCCL_REC_DATA && h->rtype != UCCL_REC_REPLY))
		return NULL;
	rx = rx_by_id(p, uccl_get32(h->rec), uccl_get32(h->rec + 4));
	off = uccl_get64(h->rec + 8);
	if (!rx || !rx->iov || rx->niov != 1 || rx->device || off > rx->limit || h->payload_len > rx->limit - off)
		return NULL;
	return (uint8_t *)rx->iov[0].iov_base + off;
}
