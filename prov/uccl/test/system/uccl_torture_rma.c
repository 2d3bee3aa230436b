/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Remote memory. A slice of a window is one worker's alone, so a shadow says what must be in it: operations of up to
 * ORDER_MAX bytes are ordered, and longer ones do not overlap unless a fence is between them. At the completion of a
 * write the initiator looks into the memory of the target.
 */
#include <stdlib.h>
#include <string.h>

#include "uccl_torture.h"

#define LOOKS 8			  /* tries to find a place that is free */
#define MARK_DATA (0x3cull << 56) /* remote CQ data that tell of a mark */

size_t slice_offset(const struct torture *t, int initiator, int worker)
{
	return ((size_t)initiator * (size_t)t->workers + (size_t)worker) * t->s->cfg.slice;
}

static uint8_t *slice_mem(struct worker *w, int peer)
{
	return shared_window(w->t->s, peer) + slice_offset(w->t, w->t->rank, w->index);
}

/* ---- places */

static bool overlap(const struct range *a, unsigned int na, const struct range *b, unsigned int nb)
{
	for (unsigned int i = 0; i < na; i++)
		for (unsigned int k = 0; k < nb; k++)
			if (a[i].len && b[k].len && a[i].off < b[k].off + b[k].len && b[k].off < a[i].off + a[i].len)
				return true;
	return false;
}

static bool touches(const struct request *op, const struct request *other)
{
	return overlap(op->range, op->n, other->range, other->n);
}

/* Up to PIECES ranges in a slice that do not overlap each other; short_only: one. Long ones keep out of the small area.
 */
static void ranges_draw(struct worker *w, struct uccl_rng *r, struct request *op, bool short_only)
{
	size_t lo = op->len > ORDER_MAX ? SMALL_AREA : 0, hi = short_only ? SMALL_AREA : w->t->s->cfg.slice, at = 0,
	       off, free_;
	unsigned int n = short_only || uccl_rng_below(r, 3) ? 1 : 1 + (unsigned int)uccl_rng_below(r, PIECES);

	if (!short_only && op->len <= ORDER_MAX && uccl_rng_below(r, 4))
		hi = uccl_rng_below(r, 2) ? ORDER_MAX * 2 : SMALL_AREA; /* where much happens */
	free_ = hi - lo - op->len;
	off = lo;
	op->n = n;
	for (unsigned int i = 0; i < n; i++) {
		size_t len = i + 1 == n ? op->len - at : uccl_rng_below(r, op->len - at + 1);
		size_t gap = uccl_rng_below(r, free_ + 1);

		off += gap;
		free_ -= gap;
		op->range[i] = (struct range){off, len};
		off += len;
		at += len;
	}
	/* In another order than that of addresses. */
	if (n > 1) {
		struct range swap = op->range[0];
		unsigned int k = (unsigned int)uccl_rng_below(r, n);

		op->range[0] = op->range[k];
		op->range[k] = swap;
	}
}

static bool place_free(struct worker *w, const struct request *op, bool fenced)
{
	struct torture *t = w->t;

	for (int i = w->index; i < TORTURE_MARKS; i += t->workers) {
		const struct mark *m = &t->me->mark[i];

		if (atomic_load(&m->state) != MARK_FREE && m->target == op->peer &&
		    overlap(op->range, op->n, m->range, m->n))
			return false;
	}
	for (int i = 0; i < TORTURE_OPS && !fenced; i++) {
		const struct request *o = &w->op[i];

		if (o == op || atomic_load(&o->state) == OP_FREE || o->peer != op->peer || o->cell >= 0 ||
		    (o->kind != WRITE && o->kind != READ && o->kind != ATOMIC))
			continue;
		if ((o->kind == READ && op->kind == READ) || (o->len <= ORDER_MAX && op->len <= ORDER_MAX))
			continue;
		if (touches(op, o))
			return false;
	}
	return true;
}

static bool place_draw(struct worker *w, struct uccl_rng *r, struct request *op, bool short_only)
{
	for (int i = 0; i < LOOKS; i++) {
		ranges_draw(w, r, op, short_only);
		if (place_free(w, op, op->flags & FI_FENCE))
			return true;
	}
	return false;
}

/* What was posted before may find this one's bytes when it completes. */
static void overtaken(struct worker *w, const struct request *op)
{
	for (int i = 0; i < TORTURE_OPS; i++) {
		struct request *o = &w->op[i];

		if (o != op && atomic_load(&o->state) != OP_FREE && o->peer == op->peer &&
		    (o->kind == WRITE || o->kind == ATOMIC) && o->cell < 0 && touches(op, o))
			o->no_look = true;
	}
}

static unsigned int rma_iov(const struct request *op, struct fi_rma_iov *iov)
{
	const struct torture *t = op->w->t;
	const struct member *m = &t->s->member[op->peer];
	size_t base = slice_offset(t, t->rank, op->w->index);

	for (unsigned int i = 0; i < op->n; i++)
		iov[i] = (struct fi_rma_iov){.addr = m->addr + base + op->range[i].off,
					     .len = op->range[i].len,
					     .key = m->rkey};
	return op->n;
}

static struct request *rma_new(struct worker *w, struct uccl_rng *r, enum kind kind, size_t max)
{
	struct torture *t = w->t;
	size_t len = size_draw(r, max);
	struct request *op = op_new(w, kind, (int)uccl_rng_below(r, (uint64_t)t->ranks), len);

	if (op) {
		op->cell = -1;
		op->key = uccl_rng_next(r);
		op->flags = uccl_rng_below(r, 16) ? 0 : FI_FENCE;
	}
	return op;
}

static size_t rma_max(const struct torture *t)
{
	size_t room = t->s->cfg.slice - SMALL_AREA;

	return t->s->cfg.size_max < room ? t->s->cfg.size_max : room;
}

/* ---- marks */

/* Each worker has marks of its own. */
static struct mark *mark_new(struct worker *w, const struct request *op, bool fence)
{
	struct mark *m = NULL;

	for (int i = w->index; i < TORTURE_MARKS && !m; i += w->t->workers)
		if (atomic_load(&w->t->me->mark[i].state) == MARK_FREE)
			m = &w->t->me->mark[i];
	if (!m)
		return NULL;
	m->target = op->peer;
	m->worker = w->index;
	m->key = op->key;
	m->gen++;
	m->n = op->n;
	memcpy(m->range, op->range, sizeof(m->range));
	atomic_store(&m->state, fence ? MARK_FENCED : MARK_SET);
	return m;
}

static uint64_t mark_data(const struct worker *w, const struct mark *m)
{
	return MARK_DATA | (uint64_t)w->t->rank << 48 | (uint64_t)(m - w->t->me->mark) << 40 | (m->gen & 0xffffffffff);
}

void mark_look(struct worker *w, int initiator, unsigned int i)
{
	struct torture *t = w->t;
	struct mark *m = &t->s->member[initiator].mark[i];
	const uint8_t *mem = shared_window(t->s, t->rank) + slice_offset(t, initiator, m->worker);
	uint32_t state = atomic_load(&m->state);
	size_t at = 0, k;

	must(w, NULL, state != MARK_FREE && m->target == t->rank, "mark %u of rank %d is not of use", i, initiator);
	for (unsigned int p = 0; p < m->n; p++) {
		k = content_wrong(mem + m->range[p].off, m->range[p].len, m->key, at);
		must(w, NULL, k == m->range[p].len,
		     "%s came from rank %d before byte %zu of its write (part %u, offset %zu)",
		     state == MARK_FENCED ? "a fenced message" : "remote CQ data", initiator, at + k, p,
		     m->range[p].off);
		at += m->range[p].len;
	}
	count_check(w, at);
	meet_provider(w);
	atomic_store(&m->state, MARK_FREE);
}

void mark_told(struct worker *w, uint64_t data)
{
	int from = data >> 48 & 15;
	unsigned int i = data >> 40 & 255;

	must(w, NULL, data >> 56 == MARK_DATA >> 56 && from < w->t->ranks && i < TORTURE_MARKS,
	     "remote CQ data %llx are of nobody", (unsigned long long)data);
	must(w, NULL, (w->t->s->member[from].mark[i].gen & 0xffffffffff) == (data & 0xffffffffff),
	     "remote CQ data %llx of rank %d came twice", (unsigned long long)data, from);
	mark_look(w, from, i);
}

unsigned int marks_open(const struct torture *t)
{
	unsigned int n = 0;

	for (int i = 0; i < TORTURE_MARKS; i++)
		n += atomic_load(&t->me->mark[i].state) == MARK_SET;
	return n;
}

/* ---- writes and reads */

static ssize_t write_call(struct worker *w, struct uccl_rng *r, struct request *op, bool data, bool inject)
{
	struct torture *t = w->t;
	struct fi_rma_iov rma[PIECES];
	struct iovec iov[PIECES];
	fi_addr_t to = t->addr[op->peer];
	size_t count = shape_iov(&op->shape, op->buf, iov), places = rma_iov(op, rma);
	uint64_t told = data ? mark_data(w, op->mark) : 0;
	struct fi_msg_rma m = {.msg_iov = iov,
			       .iov_count = count,
			       .addr = to,
			       .rma_iov = rma,
			       .rma_iov_count = places,
			       .context = op,
			       .data = told};

	if (inject && data)
		return fi_inject_writedata(t->ep, iov[0].iov_base, op->len, told, to, rma[0].addr, rma[0].key);
	if (inject)
		return fi_inject_write(t->ep, iov[0].iov_base, op->len, to, rma[0].addr, rma[0].key);
	if (places > 1 || op->flags || uccl_rng_below(r, 2))
		return fi_writemsg(t->ep, &m,
				   op->flags | (data ? FI_REMOTE_CQ_DATA : 0) |
					   (uccl_rng_below(r, 2) ? FI_DELIVERY_COMPLETE : 0));
	if (data)
		return count > 1 ? fi_writemsg(t->ep, &m, FI_REMOTE_CQ_DATA)
				 : fi_writedata(t->ep, iov[0].iov_base, op->len, NULL, told, to, rma[0].addr,
						rma[0].key, op);
	return count > 1 ? fi_writev(t->ep, iov, NULL, count, to, rma[0].addr, rma[0].key, op)
			 : fi_write(t->ep, iov[0].iov_base, op->len, NULL, to, rma[0].addr, rma[0].key, op);
}

static void shadow_write(struct worker *w, const struct request *op)
{
	size_t at = 0;

	for (unsigned int i = 0; i < op->n; i++) {
		content_fill(w->shadow[op->peer] + op->range[i].off, op->range[i].len, op->key, at);
		at += op->range[i].len;
	}
}

/* What a read must bring. */
static uint8_t *shadow_get(const struct worker *w, const struct request *op)
{
	uint8_t *copy = malloc(op->len + 1);
	size_t at = 0;

	if (!copy)
		rank_fail("no memory");
	for (unsigned int i = 0; i < op->n; i++) {
		memcpy(copy + at, w->shadow[op->peer] + op->range[i].off, op->range[i].len);
		at += op->range[i].len;
	}
	return copy;
}

/*
 * A write: plain, or injected (its end is known by a read behind it), with remote CQ data, or before a fenced message
 * that tells of it. What completes is for this worker alone, so the shadow may follow after the call.
 */
void rma_write(struct worker *w, struct uccl_rng *r)
{
	struct torture *t = w->t;
	struct request *op = rma_new(w, r, WRITE, rma_max(t));
	bool inject, data, fence;

	if (!op)
		return;
	inject = op->len <= INJECT_MAX && !uccl_rng_below(r, 4);
	data = t->s->member[op->peer].tells && !uccl_rng_below(r, 3);
	fence = !data && !inject && !uccl_rng_below(r, 6);
	op->flags = inject ? 0 : op->flags;
	if (!place_draw(w, r, op, inject) || ((data || fence) && !(op->mark = mark_new(w, op, fence))))
		return;
	op_buf(op, r, op->len, inject ? 1 : PIECES);
	shape_fill(&op->shape, op->buf, op->key);
	op_go(op, inject ? "inject write" : data ? "write with data" : fence ? "write before a fence" : "write");
	if (!op_posted(w, op, write_call(w, r, op, data, inject), "write")) {
		if (op->mark)
			atomic_store(&op->mark->state, MARK_FREE);
		return;
	}
	overtaken(w, op);
	shadow_write(w, op);
	atomic_fetch_add(&t->counted_ops[2], 1);
	if (fence)
		msg_send_fenced(w, r, op->peer, op->mark);
	if (inject) {
		w->read_behind[op->peer] = true;
		op_injected(w, op);
	}
}

static bool read_post(struct worker *w, struct uccl_rng *r, struct request *op)
{
	struct torture *t = w->t;
	struct fi_rma_iov rma[PIECES];
	struct iovec iov[PIECES];
	fi_addr_t to = t->addr[op->peer];
	struct fi_msg_rma m = {.msg_iov = iov, .addr = to, .rma_iov = rma, .context = op};
	ssize_t rc;

	op_buf(op, r, op->len, PIECES);
	op->want = shadow_get(w, op);
	m.iov_count = shape_iov(&op->shape, op->buf, iov);
	m.rma_iov_count = rma_iov(op, rma);
	op_go(op, "read");
	if (m.rma_iov_count > 1 || op->flags || uccl_rng_below(r, 2))
		rc = fi_readmsg(t->ep, &m, op->flags);
	else if (m.iov_count > 1)
		rc = fi_readv(t->ep, iov, NULL, m.iov_count, to, rma[0].addr, rma[0].key, op);
	else
		rc = fi_read(t->ep, iov[0].iov_base, op->len, NULL, to, rma[0].addr, rma[0].key, op);
	if (!op_posted(w, op, rc, "read"))
		return false;
	atomic_fetch_add(&t->counted_ops[1], 1);
	return true;
}

void rma_read(struct worker *w, struct uccl_rng *r)
{
	struct request *op = rma_new(w, r, READ, rma_max(w->t));

	if (op && place_draw(w, r, op, false))
		read_post(w, r, op);
}

void rma_read_behind(struct worker *w, struct uccl_rng *r)
{
	for (int peer = 0; peer < w->t->ranks; peer++) {
		struct request *op = w->read_behind[peer] ? op_new(w, READ, peer, 8) : NULL;

		if (!op)
			continue;
		op->cell = -1;
		op->n = 1;
		op->range[0] = (struct range){0, 8};
		w->read_behind[peer] = !read_post(w, r, op);
	}
}

/* ---- atomics in a slice */

static void shadow_atomic(uint64_t *mem, const struct request *op)
{
	for (size_t i = 0; i < op->len / 8; i++)
		mem[i] = op->what < 2 ? mem[i] + op->v[i] : mem[i] == op->cmp[i] ? op->v[i] : mem[i];
}

/* Sums and exchanges of numbers: blind, or with what was there before. */
void rma_atomic(struct worker *w, struct uccl_rng *r)
{
	struct torture *t = w->t;
	struct request *op = rma_new(w, r, ATOMIC, 0);
	size_t count = 1 + uccl_rng_below(r, ATOMIC_MAX), off = uccl_rng_below(r, ORDER_MAX) & ~(size_t)7;
	struct fi_rma_iov at;
	uint64_t *mem;
	fi_addr_t to;
	void *got;
	ssize_t rc;

	if (!op)
		return;
	op->len = count * 8;
	op->n = 1;
	op->range[0] = (struct range){off, op->len};
	op->flags = 0;
	op->what = (int)uccl_rng_below(r, 3);
	if (!place_free(w, op, false))
		return;
	mem = (uint64_t *)(w->shadow[op->peer] + off);
	for (size_t i = 0; i < count; i++) {
		op->v[i] = uccl_rng_next(r);
		op->cmp[i] = mem[i] + uccl_rng_below(r, 2);
	}
	op_buf(op, r, op->len, 1);
	if (op->what)
		op->want = shadow_get(w, op);
	rma_iov(op, &at);
	to = t->addr[op->peer];
	got = op->buf->mem + op->shape.part[0].off;
	op_go(op, op->what ? op->what == 1 ? "fetch and add" : "compare and swap" : "add");
	if (!op->what)
		rc = fi_atomic(t->ep, op->v, count, NULL, to, at.addr, at.key, FI_UINT64, FI_SUM, op);
	else if (op->what == 1)
		rc = fi_fetch_atomic(t->ep, op->v, count, NULL, got, NULL, to, at.addr, at.key, FI_UINT64, FI_SUM, op);
	else
		rc = fi_compare_atomic(t->ep, op->v, count, NULL, op->cmp, NULL, got, NULL, to, at.addr, at.key,
				       FI_UINT64, FI_CSWAP, op);
	if (!op_posted(w, op, rc, "atomic"))
		return;
	overtaken(w, op);
	shadow_atomic(mem, op);
	atomic_fetch_add(&t->counted_ops[op->what ? 1 : 2], 1);
}

/* ---- completions, always in the worker that posted */

/* What came back; the rest of the buffer is untouched. */
static void check_want(struct worker *w, struct request *op)
{
	size_t at = 0, where;

	for (unsigned int i = 0; i < op->shape.n; i++) {
		uint8_t *p = op->buf->mem + op->shape.part[i].off;
		size_t len = op->shape.part[i].len;

		if (memcmp(p, op->want + at, len))
			for (size_t k = 0; k < len; k++)
				must(w, op, p[k] == op->want[at + k],
				     "byte %zu of %zu that came back is %02x, not %02x", at + k, op->len, p[k],
				     op->want[at + k]);
		content_fill(p, len, op->buf->key, op->shape.part[i].off);
		at += len;
	}
	must(w, op, buf_check(op->buf, &op->shape, 0, 0, &where), "byte %zu beside what came back was written to",
	     where);
	count_check(w, op->len);
}

/* A look into the memory of the target. */
static void check_there(struct worker *w, struct request *op)
{
	const uint8_t *mem = slice_mem(w, op->peer), *shadow = w->shadow[op->peer];

	for (unsigned int i = 0; i < op->n; i++) {
		size_t off = op->range[i].off;

		if (!memcmp(mem + off, shadow + off, op->range[i].len))
			continue;
		for (size_t k = 0; k < op->range[i].len; k++)
			must(w, op, mem[off + k] == shadow[off + k],
			     "complete, but byte %zu of part %u (offset %zu) is %02x at the target, not %02x", k, i,
			     off, mem[off + k], shadow[off + k]);
	}
	count_check(w, op->len);
}

void rma_ended(struct worker *w, struct request *op)
{
	if (op->cell >= 0) {
		cell_ended(w, op);
		return;
	}
	must(w, op, !op->end.err, "it failed: %d (%s)", op->end.err, fi_strerror(op->end.err));
	if (op->want)
		check_want(w, op);
	if (op->kind != READ && !op->no_look)
		check_there(w, op);
	memset(op->v, 0x5a, sizeof(op->v));
	op_end(w, op);
}

/* ---- the end of a round */

void rma_check(struct worker *w, bool full)
{
	for (int peer = 0; peer < w->t->ranks; peer++) {
		const uint8_t *mem = slice_mem(w, peer), *shadow = w->shadow[peer];
		size_t len = full ? w->t->s->cfg.slice : SMALL_AREA;

		if (!memcmp(mem, shadow, len))
			continue;
		for (size_t k = 0; k < len; k++)
			must(w, NULL, mem[k] == shadow[k],
			     "at rest, byte %zu of the slice at rank %d is %02x, not %02x", k, peer, mem[k], shadow[k]);
	}
}

void rma_reset(struct worker *w)
{
	for (int i = 0; i < TORTURE_MARKS; i++)
		atomic_store(&w->t->me->mark[i].state, MARK_FREE);
}
