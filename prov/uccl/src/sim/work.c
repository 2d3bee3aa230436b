/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * See work.h. Every message has a number, which the receiver learns from remote CQ data, tag or the
 * first bytes, and a pattern of its own. Receives are made so that every message finds one whatever the order of
 * arrival: all receives of one kind at one endpoint are alike, and there are as many as messages.
 */
#include "sim/work.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "sim/aborted.h"
#include "sim/buffer.h"
#include "sim/check.h"
#include "sim/life.h"
#include "sim/remote.h"

#define TAG_SHIFT 16
#define UNTOUCHED 0xa5
#define UNTOUCHED_MAX 4096

enum msg_state { MSG_PLANNED, MSG_POSTED, MSG_DONE, MSG_DROPPED };

struct sim_msg {
	struct uccl_sim_event ev;
	struct uccl_sim_world *w;
	uint32_t id;
	uint8_t src, dst, match, pieces;
	uint32_t src_life, dst_life;
	uint32_t flags;
	uint64_t len, tag, data, seed;
	uint8_t state;
	bool received, settled, discarded;
	int err;
	uint64_t order; /* among all messages posted */
	uint64_t done_ns;
	uint64_t recv_order;
	uint8_t *buf;
	struct sim_abort abort;
};

enum recv_state { RECV_PLANNED, RECV_POSTED, RECV_DONE };

struct sim_recv {
	struct uccl_sim_event ev, cancel_ev;
	struct uccl_sim_world *w;
	uint8_t node, match, pieces;
	uint32_t life;
	bool directed, cancelled, dropped;
	uint8_t src;
	uint32_t src_life;
	uint64_t tag, ignore, len, order, cancel_ns;
	uint8_t state;
	uint8_t *buf;
};

static uint64_t now(const struct uccl_sim_world *w)
{
	return w->net.now;
}

static bool both_alive(const struct sim_msg *m)
{
	return uccl_sim_alive(m->w, m->src, m->src_life) && uccl_sim_alive(m->w, m->dst, m->dst_life);
}

int uccl_sim_msg_result(const struct sim_msg *m)
{
	return m->state == MSG_DONE ? m->err : -1;
}

/* An array of n pointers, with room for one more. NULL: out of memory, and it is as it was. */
static void *array_room(void *array, uint32_t n, uint32_t *cap)
{
	uint32_t more = *cap ? *cap * 2 : 64;

	if (n < *cap)
		return array;
	array = realloc(array, more * sizeof(void *));
	if (array)
		*cap = more;
	return array;
}

/* --- sends --- */

/* First bytes of a message: its number, if they fit. */
static void msg_fill(const struct sim_msg *m, uint8_t *buf)
{
	uccl_check_fill(m->seed, 0, buf, m->len);
	if (m->len >= 8)
		uccl_put64(buf, m->id);
}

/* Is this message over, as far as anybody may expect? */
static void msg_settle(struct sim_msg *m)
{
	bool over = m->state == MSG_DROPPED || (m->state == MSG_DONE && (m->received || m->err || !both_alive(m)));

	if (!over || m->settled)
		return;
	m->settled = true;
	m->w->open--;
}

/* It is taken back: the peer has nothing of it. Sent again it is another message to everybody but us. */
static void msg_again(struct sim_msg *m)
{
	struct uccl_sim_world *w = m->w;

	if (m->received)
		uccl_sim_violation(w, "I2: message %u was taken back, and received", m->id);
	m->state = MSG_PLANNED;
	uccl_sim_retry(w, &m->ev);
}

static void msg_done(struct uccl_op *op)
{
	struct sim_msg *m = op->context;
	struct uccl_sim_world *w = m->w;
	struct uccl_sim_life *n = &w->node[m->src];

	n->posted--;
	uccl_sim_inv_done(n, false);
	uccl_sim_trace(&w->net, now(w), (uint64_t)m->id << 16 | (uint64_t)op->err);
	if (m->state != MSG_POSTED) {
		uccl_sim_violation(w, "I2: send of message %u completed in state %u", m->id, m->state);
	} else {
		bool again = m->abort.taken && op->err == FI_ECANCELED && both_alive(m);

		uccl_sim_cancel(&w->net, &m->abort.ev);
		if (m->abort.taken)
			sim_abort_end(&m->abort, n, m->dst, m->dst_life, op->err == FI_ECANCELED);
		w->work.unproven |= again && op->refusal;
		again = again && !op->refusal;
		m->state = MSG_DONE;
		m->err = op->err;
		m->done_ns = now(w);
		if (op->err && both_alive(m) && !(m->abort.taken && op->err == FI_ECANCELED))
			uccl_sim_violation(w, "send of message %u (%u -> %u, %llu bytes) failed with %d (%s)", m->id,
					   m->src, m->dst, (unsigned long long)m->len, op->err, strerror(op->err));
		if (op->err && uccl_sim_alive(w, m->src, m->src_life) && !again)
			w->work.failed++;
		/*
		 * To oneself both complete in one step, the send first. After direct writes all bytes may be in place
		 * while the receive still waits for a fence.
		 */
		if (!op->err && m->flags & UCCL_OPF_DELIVERY && !m->received && m->src != m->dst && w->o.nic <= 0)
			uccl_sim_violation(w, "I5: message %u was not delivered when its sender heard so", m->id);
		if (m->buf)
			sim_buffer_reuse(w, m->buf, m->len);
		m->buf = NULL;
		if (again)
			msg_again(m);
		else
			msg_settle(m);
	}
	uccl_op_put(n->e, op);
}

static void msg_abort(struct uccl_sim_event *ev)
{
	struct sim_msg *m = uccl_container_of(ev, struct sim_msg, abort.ev);

	if (uccl_sim_alive(m->w, m->src, m->src_life) && m->state == MSG_POSTED)
		sim_abort_begin(&m->abort, &m->w->node[m->src], m, m->dst, m->dst_life);
}

static void msg_refused(struct sim_msg *m, int rc)
{
	if (both_alive(m))
		uccl_sim_violation(m->w, "send of message %u was refused with %d (%s)", m->id, rc, strerror(-rc));
	m->state = MSG_DONE;
	m->err = -rc;
	m->done_ns = now(m->w);
	m->w->work.failed++;
	uccl_owner_give(&m->w->owner, uccl_check_base(m->buf), UCCL_OWNER_NONE);
	sim_buffer_free(m->w, m->buf);
	m->buf = NULL;
	msg_settle(m);
}

/* What a program fills of a send or receive, and no more: nothing of it was zeroed. */
static void sim_op_begin(struct uccl_op *op)
{
	memset(op, 0, offsetof(struct uccl_op, err));
}

static void msg_post(struct uccl_sim_event *ev)
{
	struct sim_msg *m = uccl_container_of(ev, struct sim_msg, ev);
	struct uccl_sim_world *w = m->w;
	struct uccl_sim_life *n = &w->node[m->src];
	struct uccl_peer *peer;
	struct uccl_op *op;
	int rc;

	if (now(w) < n->asleep_until) {
		uccl_sim_at(&w->net, &m->ev, n->asleep_until);
		return;
	}
	peer = uccl_sim_peer(n, m->dst, m->dst_life);
	op = peer ? uccl_op_get_send(n->e) : NULL;
	if (!m->buf) {
		m->buf = sim_buffer_new(w, m->len);
		if (m->buf)
			msg_fill(m, m->buf);
	}
	if (!op || !m->buf) {
		if (op)
			uccl_op_put(n->e, op);
		uccl_sim_retry(w, &m->ev);
		return;
	}
	sim_op_begin(op);
	op->type = UCCL_OP_SEND;
	op->flags = m->flags;
	op->peer = peer;
	op->tag = m->tag;
	op->data = m->data;
	op->context = m;
	op->done = msg_done;
	sim_op_pieces(w, op, m->buf, m->len, m->pieces);
	uccl_owner_give(&w->owner, uccl_check_base(m->buf), UCCL_OWNER_READ);
	m->state = MSG_POSTED;
	m->order = ++w->work.order;
	m->abort.taken = false;
	if (w->o.abort > 0 && m->match != UCCL_SIM_PEEK && uccl_rng_chance(&w->rng, w->o.abort))
		uccl_sim_at(&w->net, &m->abort.ev, now(w) + sim_abort_after(w));
	n->posted++;
	rc = uccl_engine_send(n->e, op, now(w));
	if (rc) {
		n->posted--;
		m->state = MSG_PLANNED;
		uccl_op_put(n->e, op);
		if (rc == -FI_EAGAIN)
			uccl_sim_retry(w, &m->ev);
		else
			msg_refused(m, rc);
	} else if (m->flags & UCCL_OPF_INJECT && m->buf) {
		sim_buffer_reuse(w, m->buf, m->len);
		m->buf = NULL;
	}
	uccl_sim_wake(n);
}

/* --- receives --- */

static void recv_post(struct uccl_sim_event *ev);
static void recv_cancel(struct uccl_sim_event *ev);

static struct sim_recv *recv_new(struct uccl_sim_world *w, uint8_t node, uint8_t match)
{
	struct uccl_sim_work *k = &w->work;
	struct sim_recv **array = array_room(k->recvs, k->nrecvs, &k->recvs_cap), *r = NULL;

	if (array) {
		k->recvs = array;
		r = calloc(1, sizeof(*r));
	}
	if (!r)
		return NULL;
	k->recvs[k->nrecvs++] = r;
	r->w = w;
	r->node = node;
	r->life = w->node[node].life;
	r->match = match;
	r->ev.fire = recv_post;
	r->cancel_ev.fire = recv_cancel;
	r->tag = match;
	r->ignore = ~0ull << TAG_SHIFT;
	return r;
}

static struct sim_recv *multi_new(struct uccl_sim_world *w, struct uccl_sim_life *n, uint64_t at)
{
	struct sim_recv *r = recv_new(w, n->node, UCCL_SIM_MULTI);

	if (!r)
		return NULL;
	r->len = uccl_max(4 * n->cap[UCCL_SIM_MULTI], 1024);
	n->multi_posted++;
	uccl_sim_at(&w->net, &r->ev, at);
	return r;
}

/* Post the same again. */
static void recv_again(struct sim_recv *r)
{
	struct uccl_sim_world *w = r->w;
	struct sim_recv *c = recv_new(w, r->node, r->match);

	if (!c)
		return;
	c->directed = r->directed;
	c->src = r->src;
	c->src_life = r->src_life;
	c->tag = r->tag;
	c->ignore = r->ignore;
	c->len = r->len;
	c->pieces = r->pieces;
	uccl_sim_retry(w, &c->ev);
}

/* The number of the message that this completion is about; UINT64_MAX: it does not tell. */
static uint64_t recv_message(const struct uccl_op *op)
{
	uint8_t head[8];
	uint64_t at = 0;
	uint8_t i;

	if (op->flags & UCCL_OPF_DATA)
		return op->data & 0xffffffff;
	if (op->flags & UCCL_OPF_TAGGED)
		return op->tag >> TAG_SHIFT;
	if (op->done_len < 8)
		return UINT64_MAX;
	for (i = 0; i < op->iov_count && at < 8; i++) {
		uint64_t n = uccl_min(op->iov[i].iov_len, 8 - at);

		memcpy(head + at, op->iov[i].iov_base, n);
		at += n;
	}
	return uccl_get64(head);
}

/* Bytes are those of the message, and nothing behind them was touched. */
static void recv_bytes(struct sim_recv *r, const struct uccl_op *op, const struct sim_msg *m, const uint8_t *buf)
{
	uint64_t i, n = op->done_len, bad;
	uint8_t head[8];

	uccl_put64(head, m->id);
	for (i = 0; m->len >= 8 && i < uccl_min(n, 8); i++) {
		if (buf[i] != head[i])
			break;
	}
	if (m->len >= 8 && i < uccl_min(n, 8))
		bad = i;
	else if (m->len >= 8)
		bad = n <= 8 ? n : 8 + uccl_check_match(m->seed, 8, buf + 8, n - 8);
	else
		bad = uccl_check_match(m->seed, 0, buf, n);
	if (bad != n)
		uccl_sim_violation(r->w, "I3: message %u (%u -> %u) of %llu bytes is wrong from byte %llu on", m->id,
				   m->src, m->dst, (unsigned long long)m->len, (unsigned long long)bad);
	if (r->match == UCCL_SIM_MULTI)
		return;
	for (i = n; i < uccl_min(r->len, n + UNTOUCHED_MAX); i++) {
		if (buf[i] != UNTOUCHED) {
			uccl_sim_violation(r->w, "I1: byte %llu behind message %u of %llu bytes was touched",
					   (unsigned long long)i, m->id, (unsigned long long)n);
			break;
		}
	}
}

static void recv_success(struct sim_recv *r, struct uccl_op *op)
{
	struct uccl_sim_world *w = r->w;
	struct uccl_sim_life *n = &w->node[r->node];
	uint64_t id = recv_message(op), room = op->len;
	const uint8_t *buf = op->recv.done_buf;
	const struct uccl_addr *from;
	struct sim_msg *m;

	if (id >= w->work.nmsgs) {
		uccl_sim_violation(w, "I3: a receive completed with a message that nobody sent");
		return;
	}
	m = w->work.msgs[id];
	if (w->o.corrupt_pass > 0)
		goto known;
	if (m->dst != r->node || m->dst_life != r->life)
		uccl_sim_violation(w, "I14: message %u came to endpoint %u life %u, not %u life %u", m->id, r->node,
				   r->life, m->dst, m->dst_life);
	if (m->received)
		uccl_sim_violation(w, "I2: message %u was received twice", m->id);
	if (m->state == MSG_PLANNED || m->state == MSG_DROPPED)
		uccl_sim_violation(w, "I3: message %u was received before it was sent", m->id);
	if (m->match != r->match || (r->match == UCCL_SIM_EXACT && op->tag != r->tag))
		uccl_sim_violation(w, "I4: message %u of kind %u took a receive of kind %u", m->id, m->match, r->match);
	if (!(op->flags & UCCL_OPF_DATA) != !(m->flags & UCCL_OPF_DATA) ||
	    (m->flags & UCCL_OPF_DATA && op->data != m->data))
		uccl_sim_violation(w, "I3: data of message %u is wrong", m->id);
	if (m->flags & UCCL_OPF_TAGGED && op->tag != m->tag)
		uccl_sim_violation(w, "I3: tag of message %u is wrong", m->id);
	from = op->from ? uccl_peer_addr(op->from) : NULL;
	if (!from || !uccl_nic_addr_equal(&from->nic, &w->addr[m->src][m->src_life].nic) ||
	    (!w->o.keyless && from->incarnation != w->addr[m->src][m->src_life].incarnation))
		uccl_sim_violation(w, "I3: source of message %u is wrong", m->id);
	if (op->done_len != uccl_min(m->len, room) || op->recv.olen != m->len - op->done_len ||
	    op->err != (m->len > room ? FI_ETRUNC : 0))
		uccl_sim_violation(w, "I3: message %u of %llu bytes: %llu placed, %llu did not fit, error %d", m->id,
				   (unsigned long long)m->len, (unsigned long long)op->done_len,
				   (unsigned long long)op->recv.olen, op->err);
	else if (buf)
		recv_bytes(r, op, m, buf);
	else if (op->done_len)
		uccl_sim_violation(w, "message %u has no buffer", m->id);
	if (op->err)
		w->work.truncated++;
known:
	if (m->received)
		return;
	if (m->match == UCCL_SIM_MULTI && n->multis)
		n->multis--;
	m->received = true;
	m->recv_order = r->order << 32;
	if (r->match == UCCL_SIM_MULTI)
		m->recv_order += (uint64_t)(buf - r->buf);
	w->work.received++;
	msg_settle(m);
}

/* A receive that ended without a message. Was that right, and does the message that it waited for need another? */
static void recv_failure(struct sim_recv *r, const struct uccl_op *op)
{
	struct uccl_sim_world *w = r->w;
	bool source_dead = r->directed && !uccl_sim_alive(w, r->src, r->src_life);

	if (!uccl_sim_alive(w, r->node, r->life))
		return; /* closed */
	if (op->err == FI_ECANCELED && (r->cancelled || op->refusal == UCCL_TAKEN_BACK)) {
		w->work.cancelled++;
		if (!w->work.ending && r->match != UCCL_SIM_MULTI)
			recv_again(r);
		return;
	}
	if (source_dead)
		return;
	/* What may have been a message of the dead can fail; a receive from the living alone cannot. */
	if (!w->deaths || r->directed) {
		uccl_sim_violation(w, "a receive of kind %u at %u failed with %d (%s)", r->match, r->node, op->err,
				   strerror(op->err));
		return;
	}
	/* A message that it had matched lost its sender. Others still want a receive. */
	if (!w->work.ending && r->match != UCCL_SIM_MULTI && r->match != UCCL_SIM_PEEK)
		recv_again(r);
}

/* A claimed message that was dropped. */
static void drop_done(struct uccl_op *op)
{
	struct sim_recv *r = op->context;

	if (r->state != RECV_POSTED)
		uccl_sim_violation(r->w, "I2: a dropped message completed twice");
	r->state = RECV_DONE;
	if (r->buf)
		sim_buffer_reuse(r->w, r->buf, r->len);
	r->buf = NULL;
	uccl_op_put(r->w->node[r->node].e, op);
}

static void recv_done(struct uccl_op *op)
{
	struct sim_recv *r = op->context;
	struct uccl_sim_world *w = r->w;
	struct uccl_sim_life *n = &w->node[r->node];
	bool child = op->flags & UCCL_OPF_CHILD;

	if (!child || op->flags & UCCL_OPF_MULTI)
		n->posted--;
	uccl_sim_inv_done(n, child);
	uccl_sim_trace(&w->net, now(w), (uint64_t)r->node << 32 | (uint64_t)op->err << 16 | op->done_len);
	if (r->dropped) {
		drop_done(op);
		return;
	}
	if (r->state != RECV_POSTED) {
		uccl_sim_violation(w, "I2: a receive at %u completed in state %u", r->node, r->state);
		uccl_op_put(n->e, op);
		return;
	}
	if (op->err && op->err != FI_ETRUNC)
		recv_failure(r, op);
	else
		recv_success(r, op);
	if (child) {
		uccl_owner_part(&w->owner, op->recv.done_buf, op->done_len);
		uccl_check_fill(uccl_rng_next(&w->rng), 0, op->recv.done_buf, op->done_len);
	}
	if (!child || op->flags & UCCL_OPF_MULTI) {
		r->state = RECV_DONE;
		uccl_sim_cancel(&w->net, &r->cancel_ev);
		sim_buffer_reuse(w, r->buf, r->len);
		r->buf = NULL;
		if (r->match == UCCL_SIM_MULTI) {
			n->multi_posted--;
			if (n->multis && n->alive && !w->work.ending)
				multi_new(w, n, now(w) + uccl_rng_below(&w->rng, UCCL_SIM_RETRY_NS));
		}
	}
	uccl_op_put(n->e, op);
}

static void recv_fill_op(struct sim_recv *r, struct uccl_op *op)
{
	op->type = UCCL_OP_RECV;
	op->flags = 0;
	if (r->match <= UCCL_SIM_PEEK)
		op->flags |= UCCL_OPF_TAGGED;
	if (r->match == UCCL_SIM_MULTI) {
		op->flags |= UCCL_OPF_MULTI;
		op->recv.min_multi = uccl_max(r->w->node[r->node].cap[UCCL_SIM_MULTI], 1);
	}
	if (r->directed) {
		op->flags |= UCCL_OPF_DIRECTED;
		op->peer = uccl_sim_peer(&r->w->node[r->node], r->src, r->src_life);
	}
	op->tag = r->tag;
	op->recv.ignore = r->ignore;
	op->context = r;
	op->done = recv_done;
	if (r->buf)
		sim_op_pieces(r->w, op, r->buf, r->len, r->match == UCCL_SIM_MULTI ? 1 : r->pieces);
}

/* A buffer for the receive, in a state in which it shows what was written. */
static bool recv_buffer(struct sim_recv *r)
{
	if (!r->buf)
		r->buf = sim_buffer_new(r->w, r->len);
	if (!r->buf)
		return false;
	memset(r->buf, UNTOUCHED, r->len);
	uccl_owner_give(&r->w->owner, uccl_check_base(r->buf), UCCL_OWNER_WRITE);
	return true;
}

static void recv_post(struct uccl_sim_event *ev)
{
	struct sim_recv *r = uccl_container_of(ev, struct sim_recv, ev);
	struct uccl_sim_world *w = r->w;
	struct uccl_sim_life *n = &w->node[r->node];
	struct uccl_op *op;
	int rc;

	if (!uccl_sim_alive(w, r->node, r->life) || r->state != RECV_PLANNED)
		return;
	if (now(w) < n->asleep_until) {
		uccl_sim_at(&w->net, &r->ev, n->asleep_until);
		return;
	}
	op = uccl_op_get_recv(n->e);
	if (!op || !recv_buffer(r)) {
		if (op)
			uccl_op_put(n->e, op);
		uccl_sim_retry(w, &r->ev);
		return;
	}
	sim_op_begin(op);
	recv_fill_op(r, op);
	if (r->directed && !op->peer) {
		uccl_op_put(n->e, op);
		uccl_sim_retry(w, &r->ev);
		return;
	}
	r->state = RECV_POSTED;
	r->order = ++n->order;
	if (r->cancel_ns)
		uccl_sim_at(&w->net, &r->cancel_ev, r->cancel_ns);
	n->posted++;
	rc = uccl_engine_recv_waits(n->e, op) ? 0 : uccl_engine_recv(n->e, op, now(w));
	if (rc) {
		n->posted--;
		r->state = RECV_PLANNED;
		uccl_sim_cancel(&w->net, &r->cancel_ev);
		uccl_op_put(n->e, op);
		if (rc == -FI_EAGAIN) {
			uccl_sim_retry(w, &r->ev);
		} else if (!r->directed || uccl_sim_alive(w, r->src, r->src_life)) {
			uccl_sim_violation(w, "a receive at %u was refused with %d (%s)", r->node, rc, strerror(-rc));
		}
	}
	uccl_sim_wake(n);
}

static void recv_cancel(struct uccl_sim_event *ev)
{
	struct sim_recv *r = uccl_container_of(ev, struct sim_recv, cancel_ev);
	struct uccl_sim_life *n = &r->w->node[r->node];
	int rc;

	if (!uccl_sim_alive(r->w, r->node, r->life) || r->state != RECV_POSTED)
		return;
	r->cancelled = true;
	rc = uccl_engine_cancel(n->e, r, now(r->w));
	if (rc == -FI_ENOENT && r->state != RECV_POSTED)
		uccl_sim_violation(r->w, "a cancel found nothing, but the receive completed");
	if (rc == -FI_ENOENT)
		r->cancelled = false;
	else if (rc)
		uccl_sim_violation(r->w, "cancel failed with %d", rc);
	uccl_sim_wake(n);
}

/* --- messages that are looked for --- */

static void peek_found(struct uccl_sim_life *n, const struct uccl_op *op, uint64_t mode)
{
	struct uccl_sim_world *w = n->w;
	uint64_t id = op->tag >> TAG_SHIFT;
	struct sim_msg *m = id < w->work.nmsgs ? w->work.msgs[id] : NULL;
	struct sim_recv *r = op->context;
	struct uccl_op *take;
	int rc;

	if (!m || m->match != UCCL_SIM_PEEK || m->received || op->done_len != m->len || op->tag != m->tag) {
		uccl_sim_violation(w, "I3: looking found a message that is not there");
		return;
	}
	r->tag = m->tag;
	r->ignore = 0;
	if (mode != 2)
		r->len = m->len;
	if (mode == 0) { /* only looked: receive it as usual, before looking again */
		n->peeks--;
		recv_post(&r->ev);
		return;
	}
	if (mode == 3) { /* looked and dropped at once */
		m->discarded = m->received = true;
		w->work.received++;
		n->peeks--;
		msg_settle(m);
		r->state = RECV_DONE;
		return;
	}
	take = uccl_op_get(n->e);
	if (!take || !recv_buffer(r)) {
		uccl_sim_violation(w, "no memory for a claimed message");
		return;
	}
	recv_fill_op(r, take);
	n->peeks--;
	r->state = RECV_POSTED;
	r->order = ++n->order;
	if (mode == 2) { /* claimed, then dropped */
		m->discarded = m->received = true;
		w->work.received++;
		r->dropped = true;
		take->len = 0;
		take->iov_count = 0;
	}
	n->posted++;
	rc = uccl_engine_recv_claimed(n->e, take, mode == 2, now(w));
	if (rc) {
		n->posted--;
		uccl_op_put(n->e, take);
		uccl_sim_violation(w, "a claimed message was gone: %d", rc);
		return;
	}
	msg_settle(m);
}

static void peek_fire(struct uccl_sim_event *ev)
{
	struct uccl_sim_life *n = uccl_container_of(ev, struct uccl_sim_life, peek);
	struct uccl_sim_world *w = n->w;
	uint64_t mode = uccl_rng_below(&w->rng, 4);
	struct sim_recv *r;
	struct uccl_op *op;

	if (!n->alive || !n->peeks || w->work.ending)
		return;
	uccl_sim_at(&w->net, &n->peek,
		    uccl_max(now(w), n->asleep_until) + 1 + uccl_rng_below(&w->rng, 200 * UCCL_NS_PER_US));
	if (now(w) < n->asleep_until)
		return;
	op = uccl_op_get(n->e);
	r = op ? recv_new(w, n->node, UCCL_SIM_PEEK) : NULL;
	if (!r) {
		if (op)
			uccl_op_put(n->e, op);
		return;
	}
	recv_fill_op(r, op);
	if (uccl_engine_peek(n->e, op, mode == 1 || mode == 2, mode == 3, now(w))) {
		w->work.nrecvs--;
		free(r);
	} else {
		peek_found(n, op, mode);
	}
	uccl_op_put(n->e, op);
	uccl_sim_wake(n);
}

/* --- planning --- */

static struct sim_msg *msg_new(struct uccl_sim_world *w, const struct uccl_sim_plan *p)
{
	struct uccl_sim_work *k = &w->work;
	struct sim_msg **array = array_room(k->msgs, k->nmsgs, &k->msgs_cap), *m = NULL;

	if (array) {
		k->msgs = array;
		m = calloc(1, sizeof(*m));
	}
	if (!m)
		return NULL;
	m->w = w;
	m->id = k->nmsgs;
	k->msgs[k->nmsgs++] = m;
	w->open++;
	m->src = p->src;
	m->dst = p->dst;
	m->src_life = w->node[p->src].life;
	m->dst_life = w->node[p->dst].life;
	m->match = p->match;
	m->pieces = p->pieces;
	m->len = p->len;
	m->flags = p->flags;
	m->seed = uccl_rng_next(&w->rng);
	if (p->match <= UCCL_SIM_PEEK) {
		m->flags |= UCCL_OPF_TAGGED;
		m->tag = (uint64_t)m->id << TAG_SHIFT | p->match;
	} else if (p->len < 8) {
		m->flags |= UCCL_OPF_DATA;
	}
	/* The upper half must come through too. */
	m->data = m->flags & UCCL_OPF_DATA ? m->seed << 32 | m->id : 0;
	m->ev.fire = msg_post;
	m->abort.ev.fire = msg_abort;
	uccl_sim_at(&w->net, &m->ev, p->send_ns);
	return m;
}

struct sim_msg *uccl_sim_plan(struct uccl_sim_world *w, const struct uccl_sim_plan *p)
{
	struct uccl_sim_life *n = &w->node[p->dst];
	struct sim_msg *m = msg_new(w, p);
	struct sim_recv *r;

	if (!m || p->no_recv)
		return m;
	if (p->match == UCCL_SIM_PEEK) {
		if (!n->peeks++)
			uccl_sim_at(&w->net, &n->peek, p->recv_ns);
		return m;
	}
	if (p->match == UCCL_SIM_MULTI) {
		n->multis++;
		while (n->multi_posted < 2)
			multi_new(w, n, p->recv_ns);
		return m;
	}
	r = recv_new(w, p->dst, p->match);
	if (!r)
		return m;
	r->len = p->recv_len;
	r->pieces = p->pieces;
	r->cancel_ns = p->cancel_ns;
	if (p->match == UCCL_SIM_EXACT) {
		r->tag = m->tag;
		r->ignore = 0;
	}
	if (p->match == UCCL_SIM_DIRECTED || p->match == UCCL_SIM_UNTAGGED_DIRECTED || p->directed) {
		r->directed = true;
		r->src = p->src;
		r->src_life = m->src_life;
	}
	uccl_sim_at(&w->net, &r->ev, p->recv_ns);
	return m;
}

void sim_life_init(struct uccl_sim_life *n)
{
	struct uccl_sim_world *w = n->w;
	const uint64_t top = (uint64_t)w->o.size_max, large = w->o.lanes > 0 || w->o.predict > 0 ? top : 16384;
	const uint64_t caps[] = {64, 1024, large, top};
	uint32_t i;

	for (i = 0; i < UCCL_SIM_MATCHES; i++)
		n->cap[i] = uccl_min(caps[uccl_rng_below(&w->rng, 4)], top);
	n->cap[UCCL_SIM_EXACT] = n->cap[UCCL_SIM_PEEK] = top;
	n->untagged = UCCL_SIM_UNTAGGED + (uint8_t)uccl_rng_below(&w->rng, 2);
	if (uccl_rng_chance(&w->rng, w->o.multi))
		n->untagged = UCCL_SIM_MULTI;
	n->peeks = n->multis = n->multi_posted = 0;
	n->peek.fire = peek_fire;
	n->order = 0;
	n->posted = n->unread = n->children = 0;
	memset(n->peer, 0, sizeof(n->peer));
}

/* Many sizes are near something: nothing, a chunk, the eager limit. */
static uint64_t random_size(struct uccl_sim_world *w)
{
	const struct uccl_sim_options *o = &w->o;
	uint64_t chunk = (uint64_t)(o->chunk > 0 ? o->chunk : o->mtu - UCCL_HDR_LEN);
	uint64_t eager = (uint64_t)o->eager, top = (uint64_t)o->size_max, v;

	if (uccl_rng_chance(&w->rng, o->big) && top > eager)
		return eager + 1 + uccl_rng_below(&w->rng, top - eager);
	switch (uccl_rng_below(&w->rng, 8)) {
	case 0:
		v = uccl_rng_below(&w->rng, 10);
		break;
	case 1:
		v = chunk - 1 + uccl_rng_below(&w->rng, 3);
		break;
	case 2:
		v = eager - 1 + uccl_rng_below(&w->rng, 3);
		break;
	case 3:
		v = chunk * (1 + uccl_rng_below(&w->rng, 4));
		break;
	default:
		v = uccl_rng_below(&w->rng, (1ull << uccl_rng_below(&w->rng, 17)) + 1);
		break;
	}
	return uccl_min(v, top);
}

static void random_match(struct uccl_sim_world *w, struct uccl_sim_plan *p)
{
	const struct uccl_sim_options *o = &w->o;

	if (uccl_rng_chance(&w->rng, o->untagged))
		p->match = w->node[p->dst].untagged;
	else if (uccl_rng_chance(&w->rng, o->peek))
		p->match = UCCL_SIM_PEEK;
	else if (uccl_rng_chance(&w->rng, o->exact))
		p->match = UCCL_SIM_EXACT;
	else
		p->match = uccl_rng_chance(&w->rng, o->directed) ? UCCL_SIM_DIRECTED : UCCL_SIM_ANY;
	p->directed = p->match == UCCL_SIM_EXACT && uccl_rng_chance(&w->rng, 0.5);
}

static void random_flags(struct uccl_sim_world *w, struct uccl_sim_plan *p)
{
	const struct uccl_sim_options *o = &w->o;

	if (uccl_rng_chance(&w->rng, o->with_data))
		p->flags |= UCCL_OPF_DATA;
	if ((double)p->len <= o->inject && uccl_rng_chance(&w->rng, o->inject_share))
		p->flags |= UCCL_OPF_INJECT;
	else if (uccl_rng_chance(&w->rng, o->early))
		p->flags |= UCCL_OPF_EARLY;
	else if (uccl_rng_chance(&w->rng, o->delivery))
		p->flags |= UCCL_OPF_DELIVERY;
}

static void plan_one(struct uccl_sim_world *w, uint64_t from_ns, uint64_t window_ns)
{
	const struct uccl_sim_options *o = &w->o;
	uint64_t nodes = (uint64_t)o->nodes;
	struct uccl_sim_plan p = {0};
	uint64_t cap;

	p.src = (uint8_t)uccl_rng_below(&w->rng, nodes);
	p.dst = (uint8_t)uccl_rng_below(&w->rng, nodes);
	if (nodes > 1 && p.src == p.dst && !uccl_rng_chance(&w->rng, o->self * (double)nodes))
		p.dst = (uint8_t)((p.src + 1 + uccl_rng_below(&w->rng, nodes - 1)) % nodes);
	if (!w->node[p.src].alive || !w->node[p.dst].alive)
		return;
	if (uccl_rng_chance(&w->rng, o->rma)) {
		sim_remote_plan(w, p.src, p.dst, random_size(w), from_ns + uccl_rng_below(&w->rng, window_ns + 1));
		return;
	}
	random_match(w, &p);
	cap = w->node[p.dst].cap[p.match];
	p.len = uccl_min(random_size(w), cap);
	random_flags(w, &p);
	p.pieces = uccl_rng_chance(&w->rng, o->vector) ? (uint8_t)(1 + uccl_rng_below(&w->rng, UCCL_IOV_MAX)) : 1;
	p.recv_len = p.match == UCCL_SIM_EXACT ? p.len + (uccl_rng_chance(&w->rng, 0.2) ? 100 : 0) : cap;
	if (p.match <= UCCL_SIM_DIRECTED && uccl_rng_chance(&w->rng, o->truncate_recv))
		p.recv_len = uccl_rng_below(&w->rng, p.recv_len + 1);
	p.send_ns = from_ns + uccl_rng_below(&w->rng, window_ns + 1);
	p.recv_ns = uccl_rng_chance(&w->rng, o->late) ? p.send_ns + uccl_rng_below(&w->rng, window_ns + 1)
						      : from_ns + uccl_rng_below(&w->rng, p.send_ns - from_ns + 1);
	if (uccl_rng_chance(&w->rng, o->cancel))
		p.cancel_ns = p.recv_ns + uccl_rng_below(&w->rng, window_ns + 1);
	uccl_sim_plan(w, &p);
}

void uccl_sim_plan_random(struct uccl_sim_world *w, uint32_t count, uint64_t from_ns, uint64_t window_ns)
{
	while (count--)
		plan_one(w, from_ns, window_ns);
}

/* --- deaths and endings --- */

void sim_work_death(struct uccl_sim_world *w, uint8_t node, uint32_t life)
{
	struct uccl_sim_work *k = &w->work;
	uint32_t i;

	for (i = 0; i < k->nmsgs; i++) {
		struct sim_msg *m = k->msgs[i];

		if (m->src == node && m->src_life == life && m->state == MSG_PLANNED) {
			uccl_sim_cancel(&w->net, &m->ev);
			uccl_sim_cancel(&w->net, &m->abort.ev);
			m->state = MSG_DROPPED;
			if (m->buf)
				sim_buffer_free(w, m->buf);
			m->buf = NULL;
		}
		if (m->src == node && m->src_life == life && m->state == MSG_POSTED)
			uccl_sim_violation(w, "I2: send of message %u did not complete when its endpoint closed", i);
		msg_settle(m);
	}
	for (i = 0; i < k->nrecvs; i++) {
		struct sim_recv *r = k->recvs[i];

		if (r->node != node || r->life != life)
			continue;
		if (r->state == RECV_POSTED)
			uccl_sim_violation(w, "I2: a receive of kind %u did not complete when its endpoint closed",
					   r->match);
		uccl_sim_cancel(&w->net, &r->ev);
		uccl_sim_cancel(&w->net, &r->cancel_ev);
		r->state = RECV_DONE;
	}
	uccl_sim_cancel(&w->net, &w->node[node].peek);
}

void sim_work_cancel_rest(struct uccl_sim_world *w)
{
	struct uccl_sim_work *k = &w->work;
	uint32_t i, n = k->nrecvs;

	k->ending = true;
	for (i = 0; i < n; i++) {
		struct sim_recv *r = k->recvs[i];

		if (r->state == RECV_DONE)
			continue;
		if (r->match != UCCL_SIM_MULTI && !w->deaths && !k->unproven && w->o.corrupt_pass <= 0)
			uccl_sim_violation(w, "a receive of kind %u at %u is left over (state %u)", r->match, r->node,
					   r->state);
		if (r->state == RECV_POSTED) {
			recv_cancel(&r->cancel_ev);
		} else {
			uccl_sim_cancel(&w->net, &r->ev);
			r->state = RECV_DONE;
		}
	}
}

void sim_work_check_end(struct uccl_sim_world *w)
{
	struct uccl_sim_work *k = &w->work;
	struct uccl_check_pair *v = calloc(k->nmsgs + 1, sizeof(*v));
	uint32_t i, n = 0, bad;

	for (i = 0; i < k->nrecvs; i++) {
		if (k->recvs[i]->state == RECV_POSTED)
			uccl_sim_violation(w, "I2: a receive of kind %u at %u never completed", k->recvs[i]->match,
					   k->recvs[i]->node);
	}
	for (i = 0; v && i < k->nmsgs; i++) {
		struct sim_msg *m = k->msgs[i];

		if (!m->received || m->match == UCCL_SIM_EXACT || m->match == UCCL_SIM_PEEK)
			continue;
		v[n].stream = ((uint64_t)m->src << 8 | m->dst) << 32 | m->src_life << 16 | m->dst_life << 8 | m->match;
		v[n].sent = m->order;
		v[n++].received = m->recv_order;
	}
	bad = v ? uccl_check_order(v, n) : 0;
	if (bad < n && w->o.corrupt_pass <= 0)
		uccl_sim_violation(w, "I4: messages of stream %llx came out of order",
				   (unsigned long long)v[bad].stream);
	free(v);
}

void sim_work_tell_open(struct uccl_sim_world *w)
{
	static const char *const states[] = {"planned", "posted", "complete", "dropped"};
	struct uccl_sim_work *k = &w->work;
	uint32_t i, told = 0;

	for (i = 0; i < k->nmsgs && told < 8; i++) {
		struct sim_msg *m = k->msgs[i];

		if (m->settled)
			continue;
		told++;
		uccl_sim_violation(
			w, "I17: message %u (%u life %u -> %u life %u, kind %u, %llu bytes, flags %x) is %s, %s", m->id,
			m->src, m->src_life, m->dst, m->dst_life, m->match, (unsigned long long)m->len, m->flags,
			states[m->state], m->received ? "received" : "not received");
	}
}

void sim_work_fini(struct uccl_sim_world *w)
{
	struct uccl_sim_work *k = &w->work;
	uint32_t i;

	for (i = 0; i < k->nmsgs; i++) {
		uccl_sim_cancel(&w->net, &k->msgs[i]->ev);
		uccl_sim_cancel(&w->net, &k->msgs[i]->abort.ev);
		if (k->msgs[i]->buf)
			sim_buffer_free(w, k->msgs[i]->buf);
		free(k->msgs[i]);
	}
	for (i = 0; i < k->nrecvs; i++) {
		uccl_sim_cancel(&w->net, &k->recvs[i]->ev);
		uccl_sim_cancel(&w->net, &k->recvs[i]->cancel_ev);
		if (k->recvs[i]->buf)
			sim_buffer_free(w, k->recvs[i]->buf);
		free(k->recvs[i]);
	}
	free(k->msgs);
	free(k->recvs);
}
