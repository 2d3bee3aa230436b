/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Messages: sent, received in all ways, looked at, claimed, thrown away, canceled. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "uccl_torture.h"

#define MAGIC 0x7a5ull
#define RECVS_MAX 64 /* open receives of a worker, those of the end of a round apart */
#define REST_RECVS 32
#define MULTI_MAX (256u << 10)
#define CLAIM_ROOM 65536

/* ids: a mark, round, sender, receiver, place in the list. The tag is the id without the mark, and a class. */
static uint64_t id_of(struct torture *t, int from, int to, unsigned int i)
{
	return MAGIC << 52 | (uint64_t)(atomic_load(&t->s->round) & 0xffff) << 24 | (uint64_t)from << 20 |
	       (uint64_t)to << 16 | i;
}

static uint64_t tag_of(uint64_t id, uint64_t class)
{
	return (id & 0xffffffffffull) << 4 | class;
}

static struct msg *msg_find(struct torture *t, uint64_t id)
{
	unsigned int from = id >> 20 & 15, to = id >> 16 & 15, i = id & 0xffff;

	if (id >> 52 != MAGIC || (int)from >= t->ranks || (int)to != t->rank || i >= TORTURE_MSGS ||
	    i >= atomic_load(&t->s->nmsgs[from][to]))
		return NULL;
	return t->s->msg[from][to][i].id == id ? &t->s->msg[from][to][i] : NULL;
}

/* ---- sending */

/* Under the lock of messages to that rank. */
static struct msg *msg_new(struct worker *w, struct uccl_rng *r, int to, size_t len)
{
	struct torture *t = w->t;
	unsigned int i = atomic_load(&t->s->nmsgs[t->rank][to]);
	struct msg *m;

	if (i == TORTURE_MSGS)
		return NULL;
	m = &t->s->msg[t->rank][to][i];
	m->id = id_of(t, t->rank, to, i);
	m->tagged = uccl_rng_below(r, 2);
	/* Who has neither a tag nor content is known by its data. */
	m->has_data = uccl_rng_below(r, 2) || (!m->tagged && len < 8);
	m->tag = m->tagged ? tag_of(m->id, uccl_rng_below(r, TAGS)) : 0;
	m->len = len;
	m->mark = 0;
	m->recv_from = ANYBODY;
	m->claimed = false;
	return m;
}

static ssize_t send_inject(struct torture *t, struct request *op, const struct msg *m)
{
	const void *buf = op->buf->mem + op->shape.part[0].off;
	fi_addr_t to = t->addr[op->peer];

	if (m->tagged)
		return m->has_data ? fi_tinjectdata(t->ep, buf, m->len, m->id, to, m->tag)
				   : fi_tinject(t->ep, buf, m->len, to, m->tag);
	return m->has_data ? fi_injectdata(t->ep, buf, m->len, m->id, to) : fi_inject(t->ep, buf, m->len, to);
}

static ssize_t send_msg(struct torture *t, struct request *op, const struct msg *m)
{
	struct iovec iov[PIECES];
	size_t count = shape_iov(&op->shape, op->buf, iov);
	fi_addr_t to = t->addr[op->peer];
	struct fi_msg_tagged g = {
		.msg_iov = iov, .iov_count = count, .addr = to, .tag = m->tag, .context = op, .data = m->id};
	struct fi_msg u = {.msg_iov = iov, .iov_count = count, .addr = to, .context = op, .data = m->id};

	return m->tagged ? fi_tsendmsg(t->ep, &g, op->flags) : fi_sendmsg(t->ep, &u, op->flags);
}

static ssize_t send_plain(struct torture *t, struct request *op, const struct msg *m)
{
	void *buf = op->buf->mem + op->shape.part[0].off;
	fi_addr_t to = t->addr[op->peer];

	if (m->tagged)
		return m->has_data ? fi_tsenddata(t->ep, buf, m->len, NULL, m->id, to, m->tag, op)
				   : fi_tsend(t->ep, buf, m->len, NULL, to, m->tag, op);
	return m->has_data ? fi_senddata(t->ep, buf, m->len, NULL, m->id, to, op)
			   : fi_send(t->ep, buf, m->len, NULL, to, op);
}

static uint64_t send_flags(struct uccl_rng *r, const struct msg *m)
{
	static const uint64_t levels[] = {0, FI_DELIVERY_COMPLETE, FI_TRANSMIT_COMPLETE, FI_INJECT_COMPLETE};

	return levels[uccl_rng_below(r, 4)] | (m->has_data ? FI_REMOTE_CQ_DATA : 0) |
	       (uccl_rng_below(r, 20) ? 0 : FI_FENCE) | (m->len <= INJECT_MAX && !uccl_rng_below(r, 8) ? FI_INJECT : 0);
}

/* The message exists before its call: its receiver may be quicker than we. */
static void msg_post(struct worker *w, struct uccl_rng *r, struct request *op, struct msg *m, int how)
{
	struct torture *t = w->t;
	_Atomic uint32_t *n = &t->s->nmsgs[t->rank][op->peer];
	ssize_t rc;

	op->key = m->id;
	op->tagged = m->tagged;
	op->tag = m->tag;
	op_buf(op, r, op->len, how == 1 ? PIECES : 1);
	shape_fill(&op->shape, op->buf, m->id);
	atomic_store(&m->state, MSG_SENT);
	atomic_fetch_add(n, 1);
	if (!op->flags)
		op->flags = how == 1 ? send_flags(r, m) : 0;
	op_go(op, how == 2 ? "inject" : how == 1 ? "sendmsg" : "send");
	rc = how == 2 ? send_inject(t, op, m) : how == 1 ? send_msg(t, op, m) : send_plain(t, op, m);
	if (rc)
		atomic_store(&m->state, MSG_VOID);
	if (!op_posted(w, op, rc, "send"))
		return;
	atomic_fetch_add(&t->counted_ops[0], 1);
	if (how == 2)
		op_injected(w, op);
}

void msg_send(struct worker *w, struct uccl_rng *r)
{
	struct torture *t = w->t;
	int to = (int)uccl_rng_below(r, (uint64_t)t->ranks);
	size_t len = size_draw(r, t->s->cfg.size_max);
	int how = len <= INJECT_MAX && !uccl_rng_below(r, 4) ? 2 : (int)uccl_rng_below(r, 2);
	struct request *op = op_new(w, SEND, to, len);
	struct msg *m;

	if (!op)
		return;
	pthread_mutex_lock(&t->tx_lock[to]);
	m = msg_new(w, r, to, len);
	if (m)
		msg_post(w, r, op, m, how);
	pthread_mutex_unlock(&t->tx_lock[to]);
}

void msg_send_fenced(struct worker *w, struct uccl_rng *r, int to, struct mark *mark)
{
	struct torture *t = w->t;
	struct request *op = op_new(w, SEND, to, 8 + uccl_rng_below(r, 64));
	struct msg *m = NULL;

	pthread_mutex_lock(&t->tx_lock[to]);
	if (op)
		m = msg_new(w, r, to, op->len);
	if (m) {
		m->mark = (uint32_t)(mark - t->me->mark) + 1;
		op->flags = FI_FENCE | (m->has_data ? FI_REMOTE_CQ_DATA : 0);
		msg_post(w, r, op, m, 1);
	}
	if (!m || atomic_load(&m->state) == MSG_VOID)
		atomic_store(&mark->state, MARK_FREE);
	pthread_mutex_unlock(&t->tx_lock[to]);
}

/* ---- receiving */

/* A message that waits for this rank, perhaps. */
static const struct msg *msg_some(struct torture *t, struct uccl_rng *r, bool tagged, int *from)
{
	int f = (int)uccl_rng_below(r, (uint64_t)t->ranks);
	unsigned int n = atomic_load(&t->s->nmsgs[f][t->rank]);

	for (unsigned int k = 0; k < 4 && n; k++) {
		const struct msg *m = &t->s->msg[f][t->rank][n - 1 - uccl_rng_below(r, n < 40 ? n : 40)];

		*from = f;
		if (atomic_load(&m->state) == MSG_SENT && m->tagged == tagged)
			return m;
	}
	return NULL;
}

/* What the receive takes, and how much. */
static void recv_draw(struct worker *w, struct uccl_rng *r, struct request *op)
{
	static const uint64_t ignores[] = {0, 1, 2, 3};
	struct torture *t = w->t;
	int from;
	const struct msg *m = uccl_rng_below(r, 3) ? msg_some(t, r, op->tagged, &from) : NULL;

	op->tag = op->tagged ? uccl_rng_below(r, TAGS) : 0;
	op->ignore = op->tagged ? ~15ull | ignores[uccl_rng_below(r, 4)] : 0;
	op->len = size_draw(r, t->s->cfg.size_max) + 8;
	if (!uccl_rng_below(r, 2))
		op->peer = (int)uccl_rng_below(r, (uint64_t)t->ranks);
	if (!m)
		return;
	if (op->tagged && uccl_rng_below(r, 2)) {
		op->tag = m->tag;
		op->ignore = 0;
	}
	if (op->peer != ANYBODY)
		op->peer = from;
	op->len = uccl_rng_below(r, 8) ? m->len + uccl_rng_below(r, 8) : m->len - m->len / 4;
	op->len = op->len < 8 ? 8 : op->len;
}

static ssize_t recv_call(struct torture *t, struct request *op, bool msg_form)
{
	fi_addr_t from = op->peer == ANYBODY ? FI_ADDR_UNSPEC : t->addr[op->peer];
	struct iovec iov[PIECES];
	size_t count = shape_iov(&op->shape, op->buf, iov);
	struct fi_msg_tagged g = {
		.msg_iov = iov, .iov_count = count, .addr = from, .tag = op->tag, .ignore = op->ignore, .context = op};
	struct fi_msg u = {.msg_iov = iov, .iov_count = count, .addr = from, .context = op};

	if (msg_form)
		return op->tagged ? fi_trecvmsg(t->ep, &g, op->flags) : fi_recvmsg(t->ep, &u, op->flags);
	if (count > 1)
		return op->tagged ? fi_trecvv(t->ep, iov, NULL, count, from, op->tag, op->ignore, op)
				  : fi_recvv(t->ep, iov, NULL, count, from, op);
	return op->tagged ? fi_trecv(t->ep, iov[0].iov_base, iov[0].iov_len, NULL, from, op->tag, op->ignore, op)
			  : fi_recv(t->ep, iov[0].iov_base, iov[0].iov_len, NULL, from, op);
}

static bool recv_post(struct worker *w, struct uccl_rng *r, struct request *op)
{
	struct torture *t = w->t;
	bool msg_form = op->multi || op->claim || !uccl_rng_below(r, 4);
	bool wild = op->wild;
	ssize_t rc;

	op_buf(op, r, op->len, op->multi || op->wild || uccl_rng_below(r, 2) ? 1 : PIECES);
	op->key = op->buf->key;
	if (op->multi)
		op->flags = FI_MULTI_RECV;
	pthread_mutex_lock(&t->rx_lock);
	op->recv_no = t->recvs++;
	op_go(op, wild ? "receive of all" : op->multi ? "multi-receive" : op->claim ? "claim" : "receive");
	rc = recv_call(t, op, msg_form);
	pthread_mutex_unlock(&t->rx_lock);
	return op_posted(w, op, rc, "receive");
}

static unsigned int recvs_open(const struct worker *w, bool wild)
{
	unsigned int n = 0;

	for (int i = 0; i < TORTURE_OPS; i++)
		n += atomic_load(&w->op[i].state) == OP_OPEN && w->op[i].kind == RECV && (!wild || w->op[i].wild);
	return n;
}

void msg_recv(struct worker *w, struct uccl_rng *r)
{
	struct torture *t = w->t;
	struct request *op = recvs_open(w, false) < RECVS_MAX ? op_new(w, RECV, ANYBODY, 0) : NULL;

	if (!op)
		return;
	op->tagged = uccl_rng_below(r, 2);
	/* Only the two larger formats say where in the buffer a message is; and one thread at a time may look there. */
	op->multi = !op->tagged && t->format >= FI_CQ_FORMAT_DATA && (t->workers == 1 || t->serial) &&
		    !uccl_rng_below(r, 5);
	recv_draw(w, r, op);
	if (op->multi)
		op->len = 8192 + uccl_rng_below(r, MULTI_MAX - 8192);
	recv_post(w, r, op);
}

void msg_cancel(struct worker *w, struct uccl_rng *r)
{
	int at = (int)uccl_rng_below(r, TORTURE_OPS);

	for (int i = 0; i < TORTURE_OPS; i++) {
		struct request *op = &w->op[(at + i) % TORTURE_OPS];
		ssize_t rc;

		if (atomic_load(&op->state) != OP_OPEN || op->kind != RECV || op->claim || atomic_load(&op->canceled))
			continue;
		worker_note(w, "cancel", op->peer, op->len, op->key);
		atomic_store(&op->canceled, true);
		rc = fi_cancel(&w->t->ep->fid, op);
		must(w, op, !rc || rc == -FI_ENOENT, "fi_cancel: %zd", rc);
		return;
	}
}

/* ---- looks, claims */

static ssize_t peek_call(struct torture *t, struct request *op)
{
	fi_addr_t from = op->peer == ANYBODY ? FI_ADDR_UNSPEC : t->addr[op->peer];
	struct fi_msg_tagged g = {.addr = from, .tag = op->tag, .ignore = op->ignore, .context = op};
	struct fi_msg u = {.addr = from, .context = op};

	return op->tagged ? fi_trecvmsg(t->ep, &g, op->flags) : fi_recvmsg(t->ep, &u, op->flags);
}

void msg_peek(struct worker *w, struct uccl_rng *r)
{
	struct request *op = op_new(w, PEEK, ANYBODY, 0);

	if (!op)
		return;
	op->tagged = uccl_rng_below(r, 2);
	recv_draw(w, r, op);
	op->len = 0;
	op->claim = uccl_rng_below(r, 2);
	op->discard = !op->claim && uccl_rng_below(r, 2);
	op->flags = FI_PEEK | (op->claim ? FI_CLAIM : 0) | (op->discard ? FI_DISCARD : 0);
	op_go(op, op->claim ? "peek to claim" : op->discard ? "peek to discard" : "peek");
	op_posted(w, op, peek_call(w->t, op), "peek");
}

static void claim_use(struct worker *w, struct uccl_rng *r, struct request *op)
{
	size_t len = op->len;
	ssize_t rc;

	if (!uccl_rng_below(r, 3)) {
		op->discard = true;
		op->flags = FI_CLAIM | FI_DISCARD;
		op_go(op, "discard what was claimed");
		rc = peek_call(w->t, op);
		must(w, op, !rc || rc == -FI_EAGAIN, "discard: %zd", rc);
		if (rc)
			atomic_store(&op->state, OP_HELD);
		return;
	}
	op->kind = RECV;
	op->flags = FI_CLAIM;
	op->len = w->t->format >= FI_CQ_FORMAT_MSG ? len : CLAIM_ROOM;
	if (recv_post(w, r, op))
		return;
	/* The claim is still there. */
	op->kind = PEEK;
	op->len = len;
	atomic_store(&op->state, OP_HELD);
}

void msg_claims(struct worker *w, struct uccl_rng *r, bool all)
{
	for (int i = 0; i < TORTURE_OPS; i++) {
		if (atomic_load(&w->op[i].state) != OP_HELD || (!all && uccl_rng_below(r, 4)))
			continue;
		claim_use(w, r, &w->op[i]);
		if (!all)
			return;
	}
}

/* ---- completions */

/* Which message came: by data, tag or content. NULL: nothing tells. */
static struct msg *msg_identify(struct worker *w, const struct request *op, const struct fi_cq_err_entry *e)
{
	struct torture *t = w->t;
	uint64_t first = 0;
	struct msg *m;

	if ((e->err || t->format >= FI_CQ_FORMAT_DATA) && e->flags & FI_REMOTE_CQ_DATA) {
		m = msg_find(t, e->data);
		must(w, op, m, "data %llx are of no message", (unsigned long long)e->data);
		return m;
	}
	if (op->tagged && (e->err || t->format == FI_CQ_FORMAT_TAGGED)) {
		m = msg_find(t, MAGIC << 52 | e->tag >> 4);
		must(w, op, m && m->tag == e->tag, "tag %llx is of no message", (unsigned long long)e->tag);
		return m;
	}
	if (!op->buf)
		return NULL;
	if (op->multi)
		memcpy(&first, e->buf, e->len < 8 ? e->len : 8);
	else
		shape_get(&op->shape, op->buf, 0, &first, 8);
	m = msg_find(t, first);
	must(w, op, m || t->format < (op->tagged ? FI_CQ_FORMAT_TAGGED : FI_CQ_FORMAT_DATA),
	     "the message begins with %llx", (unsigned long long)first);
	return m;
}

/* Its state changes once. */
static void msg_take(struct worker *w, const struct request *op, struct msg *m, uint32_t state)
{
	uint32_t was = atomic_exchange(&m->state, state);
	int from = m->id >> 20 & 15;

	must(w, op, was == MSG_SENT, "message %llx of rank %d came, but its state was %u", (unsigned long long)m->id,
	     from, was);
	must(w, op, m->tagged == op->tagged, "message %llx met one of the other kind", (unsigned long long)m->id);
	must(w, op, !op->tagged || !((m->tag ^ op->tag) & ~op->ignore), "tag %llx does not match",
	     (unsigned long long)m->tag);
	must(w, op, op->peer == ANYBODY || op->peer == from, "message %llx is of rank %d", (unsigned long long)m->id,
	     from);
	if (m->mark)
		mark_look(w, from, m->mark - 1);
}

static void check_entry(struct worker *w, const struct request *op, const struct msg *m,
			const struct fi_cq_err_entry *e, size_t room)
{
	struct torture *t = w->t;
	size_t len = m->len < room ? m->len : room;

	must(w, op, e->err == (m->len > room ? FI_ETRUNC : 0), "message of %zu in %zu: error %d (%s)", m->len, room,
	     e->err, fi_strerror(e->err));
	must(w, op, !e->err || e->olen == m->len - room, "message of %zu in %zu: %zu bytes over", m->len, room,
	     e->olen);
	must(w, op, (!e->err && t->format < FI_CQ_FORMAT_MSG) || e->len == len, "message of %zu in %zu: %zu bytes",
	     m->len, room, e->len);
	must(w, op, (!e->err && t->format < FI_CQ_FORMAT_MSG) || e->flags & FI_RECV, "flags %llx",
	     (unsigned long long)e->flags);
	must(w, op, (!e->err && t->format < FI_CQ_FORMAT_DATA) || m->has_data == !!(e->flags & FI_REMOTE_CQ_DATA),
	     "flags %llx", (unsigned long long)e->flags);
	must(w, op, !op->tagged || (!e->err && t->format < FI_CQ_FORMAT_TAGGED) || e->tag == m->tag, "tag %llx of %llx",
	     (unsigned long long)e->tag, (unsigned long long)m->tag);
}

/* A message in a multi-receive buffer: it lies behind those before it, and what is not filled is untouched. */
static void multi_came(struct worker *w, struct request *op, struct msg *m, const struct fi_cq_err_entry *e)
{
	const uint8_t *base = op->buf->mem + op->shape.part[0].off, *at = e->buf;
	size_t k;

	must(w, op, at >= base && (size_t)(at - base) <= op->len, "a message outside of its buffer");
	m->place = (size_t)(at - base);
	check_entry(w, op, m, e, op->len - m->place);
	k = content_wrong(at, e->len, m->id, 0);
	must(w, op, k == e->len, "message %llx: byte %zu of %zu is wrong", (unsigned long long)m->id, k, e->len);
	if (m->place + e->len > op->multi_end)
		op->multi_end = m->place + e->len;
}

static void msg_came(struct worker *w, struct request *op, const struct fi_cq_err_entry *e, fi_addr_t src)
{
	struct torture *t = w->t;
	struct msg *m = msg_identify(w, op, e);
	size_t where;

	if (!m) {
		atomic_fetch_add(&t->me->anonymous[op->tagged], 1);
		return;
	}
	msg_take(w, op, m, MSG_GONE);
	must(w, op, e->err || src == t->addr[m->id >> 20 & 15], "source %llu", (unsigned long long)src);
	m->recv_no = op->recv_no;
	m->recv_tag = op->tag;
	m->recv_ignore = op->ignore;
	m->recv_from = op->peer;
	m->claimed = op->claim;
	m->place = 0;
	if (op->multi) {
		multi_came(w, op, m, e);
	} else {
		size_t len = m->len < op->len ? m->len : op->len;

		check_entry(w, op, m, e, op->len);
		must(w, op, buf_check(op->buf, &op->shape, m->id, len, &where),
		     "message %llx of %zu bytes: byte %zu of the buffer is wrong", (unsigned long long)m->id, m->len,
		     where);
	}
	count_check(w, m->len);
}

static void recv_ended(struct worker *w, struct request *op, const struct fi_cq_err_entry *e, fi_addr_t src)
{
	bool last = !op->multi || e->flags & FI_MULTI_RECV;
	size_t from, k;

	if (e->err == FI_ECANCELED) {
		must(w, op, atomic_load(&op->canceled), "canceled by nobody");
		must(w, op, last, "a canceled buffer is not given back");
		atomic_fetch_add(&w->t->me->canceled, 1);
	} else {
		msg_came(w, op, e, src);
	}
	if (!last)
		return;
	if (op->multi) {
		from = op->shape.part[0].off + op->multi_end;
		k = content_wrong(op->buf->mem + from, op->buf->total - from, op->buf->key, from);
		must(w, op, from + k == op->buf->total, "byte %zu of a buffer that was filled up to %zu is wrong",
		     from + k, from);
		must(w, op, e->err || atomic_load(&op->canceled) || op->len - op->multi_end < w->t->min_multi,
		     "a buffer of %zu came back, though %zu are free and less than %zu must be", op->len,
		     op->len - op->multi_end, w->t->min_multi);
	}
	op_end(w, op);
}

static void peek_ended(struct worker *w, struct request *op, const struct fi_cq_err_entry *e)
{
	struct torture *t = w->t;
	struct msg *m;

	if (e->err == FI_ENOMSG) {
		must(w, op, op->flags & FI_PEEK, "what was claimed is not there");
		op_end(w, op);
		return;
	}
	must(w, op, !e->err, "a look failed: %d (%s)", e->err, fi_strerror(e->err));
	m = op->flags & FI_PEEK || t->format >= FI_CQ_FORMAT_DATA ? msg_identify(w, op, e) : NULL;
	if (m && op->flags & FI_PEEK)
		must(w, op, t->format < FI_CQ_FORMAT_MSG || e->len == m->len, "a look says %zu bytes, not %zu", e->len,
		     m->len);
	if (op->discard && m)
		msg_take(w, op, m, MSG_DISCARDED);
	else if (op->discard)
		atomic_fetch_add(&t->me->anonymous[op->tagged], 1);
	count_check(w, 0);
	if (op->claim && !op->discard) {
		op->len = e->len;
		atomic_store(&op->state, OP_HELD);
		return;
	}
	op_end(w, op);
}

void msg_ended(struct worker *w, struct request *op, const struct fi_cq_err_entry *e, fi_addr_t src)
{
	if (op->kind == RECV) {
		recv_ended(w, op, e, src);
	} else if (op->kind == PEEK) {
		peek_ended(w, op, e);
	} else {
		must(w, op, !e->err, "a send failed: %d (%s)", e->err, fi_strerror(e->err));
		must(w, op, w->t->format < FI_CQ_FORMAT_MSG || e->flags & FI_SEND, "flags %llx of a send",
		     (unsigned long long)e->flags);
		op_end(w, op);
	}
}

/* ---- the end of a round */

unsigned int msg_waiting(struct torture *t, bool tagged, size_t *longest)
{
	unsigned int k = 0, thrown = atomic_load(&t->me->anonymous[tagged]);

	*longest = 0;
	for (int from = 0; from < t->ranks; from++) {
		unsigned int n = atomic_load(&t->s->nmsgs[from][t->rank]);

		for (unsigned int i = 0; i < n; i++) {
			struct msg *m = &t->s->msg[from][t->rank][i];

			if (m->tagged != tagged || atomic_load(&m->state) != MSG_SENT)
				continue;
			k++;
			*longest = m->len > *longest ? m->len : *longest;
		}
	}
	/* Which they were is not known, so they may be counted. */
	return k > thrown ? k - thrown : 0;
}

void msg_recv_rest(struct worker *w, struct uccl_rng *r)
{
	size_t longest;

	for (int tagged = 0; tagged < 2; tagged++) {
		unsigned int waiting = msg_waiting(w->t, tagged, &longest), open = 0;

		for (int i = 0; i < TORTURE_OPS; i++)
			open += atomic_load(&w->op[i].state) == OP_OPEN && w->op[i].wild && w->op[i].tagged == tagged;
		for (; open < waiting && open < REST_RECVS; open++) {
			struct request *op = op_new(w, RECV, ANYBODY, longest + 8);

			if (!op)
				return;
			op->tagged = tagged;
			op->wild = true;
			/* Not those of the victim. */
			op->ignore = tagged ? ~8ull : 0;
			if (!recv_post(w, r, op))
				return;
		}
	}
}

void msg_cancel_all(struct worker *w)
{
	for (int i = 0; i < TORTURE_OPS; i++) {
		struct request *op = &w->op[i];
		ssize_t rc;

		if (atomic_load(&op->state) != OP_OPEN || op->kind != RECV || atomic_load(&op->canceled))
			continue;
		atomic_store(&op->canceled, true);
		op->began_ns = clock_ns();
		rc = fi_cancel(&w->t->ep->fid, op);
		must(w, op, !rc || rc == -FI_ENOENT, "fi_cancel: %zd", rc);
	}
}

static bool takes(const struct msg *by, const struct msg *m)
{
	int from = m->id >> 20 & 15;

	return by->tagged == m->tagged && (by->recv_from == ANYBODY || by->recv_from == from) &&
	       (!m->tagged || !((m->tag ^ by->recv_tag) & ~by->recv_ignore));
}

/* first was sent before second, by the same rank. */
static void check_pair(struct worker *w, struct msg *first, struct msg *second)
{
	if (!takes(second, first))
		return;
	must(w, NULL, first->recv_no <= second->recv_no,
	     "message %llx (tag %llx) overtook %llx (tag %llx): receives %llu (tag %llx/%llx, of %d) and %llu",
	     (unsigned long long)second->id, (unsigned long long)second->tag, (unsigned long long)first->id,
	     (unsigned long long)first->tag, (unsigned long long)second->recv_no, (unsigned long long)second->recv_tag,
	     (unsigned long long)second->recv_ignore, second->recv_from, (unsigned long long)first->recv_no);
	must(w, NULL, first->recv_no != second->recv_no || first->place + first->len <= second->place,
	     "messages %llx and %llx overlap", (unsigned long long)first->id, (unsigned long long)second->id);
}

static bool has_place(struct msg *m)
{
	return atomic_load(&m->state) == MSG_GONE && !m->claimed;
}

void msg_check(struct worker *w)
{
	struct torture *t = w->t;

	for (int from = 0; from < t->ranks; from++) {
		unsigned int n = atomic_load(&t->s->nmsgs[from][t->rank]);
		struct msg *m = t->s->msg[from][t->rank];

		for (unsigned int i = 0; i < n; i++)
			for (unsigned int k = 0; k < i && has_place(&m[i]); k++)
				if (has_place(&m[k]))
					check_pair(w, &m[k], &m[i]);
	}
	for (int tagged = 0; tagged < 2; tagged++) {
		unsigned int left = 0, thrown = atomic_load(&t->me->anonymous[tagged]);

		for (int from = 0; from < t->ranks; from++)
			for (unsigned int i = 0; i < atomic_load(&t->s->nmsgs[from][t->rank]); i++)
				left += t->s->msg[from][t->rank][i].tagged == tagged &&
					atomic_load(&t->s->msg[from][t->rank][i].state) == MSG_SENT;
		must(w, NULL, left == thrown, "%u %s messages are missing, %u were taken unseen", left,
		     tagged ? "tagged" : "untagged", thrown);
		atomic_store(&t->me->anonymous[tagged], 0);
	}
}

void msg_reset(struct worker *w)
{
	struct torture *t = w->t;

	for (int to = 0; to < t->ranks; to++)
		atomic_store(&t->s->nmsgs[t->rank][to], 0);
}
