/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A peer that is killed again and again, and started again at its port. The first worker of each rank sends to it,
 * receives from it and uses its memory: by an address that names its port, which must reach each process that comes
 * there, and by the name of the endpoint of the day. All that it begins ends, in success or in an error that tells of
 * the death; nothing happens twice, and nothing after it failed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "uccl_torture.h"

#define CLASS 8u /* in tags: no other receive takes these messages */
#define LEN_MAX (128u << 10)
#define TX_MAX 6
#define RX_MAX 4
#define RECOVER_S 5 /* times slack: after that long no error may come any more */
#define LARGE_MAX (1u << 20)

static size_t len_of(uint64_t key)
{
	struct uccl_rng r;

	uccl_rng_seed(&r, key);
	return size_draw(&r, LEN_MAX);
}

/* Message `seq` of a rank; of the victim's messages seq has the incarnation, too. */
static uint64_t key_of(const struct torture *t, int from, int to, uint64_t seq)
{
	return key_mix(t->s->cfg.seed + seq, (uint64_t)from << 8 | (uint64_t)to | 1ull << 40);
}

static uint64_t tag_of(int from, uint64_t seq)
{
	return seq << 8 | (uint64_t)from << 4 | CLASS;
}

static void seen_once(struct worker *w, struct request *op, _Atomic uint64_t *seen, uint64_t number, const char *what)
{
	uint64_t was = atomic_exchange(&seen[number % VICTIM_SEEN], number + 1);

	must(w, op, was != number + 1, "%s %llu came twice", what, (unsigned long long)number);
}

static bool is_death(int err)
{
	return err == FI_ECONNABORTED || err == FI_ECONNRESET || err == FI_EHOSTUNREACH || err == FI_ECONNREFUSED ||
	       err == FI_ETIMEDOUT;
}

static unsigned int open_here(const struct worker *w, bool recvs)
{
	unsigned int n = 0;

	for (int i = 0; i < TORTURE_OPS; i++)
		n += atomic_load(&w->op[i].state) != OP_FREE && w->op[i].kind == VICTIM &&
		     (w->op[i].what == VICTIM_RECV) == recvs;
	return n;
}

/* ---- the memory of the victim: slots of this rank's slice, whose content is known */

static size_t slot_size(const struct torture *t, int i)
{
	size_t large = (t->s->cfg.slice - SMALL_AREA) / 2;

	return i < VICTIM_SMALL ? SMALL_AREA / VICTIM_SMALL : large < LARGE_MAX ? large : LARGE_MAX;
}

static size_t slot_offset(const struct torture *t, int i)
{
	size_t base = slice_offset(t, t->rank, 0);

	return i < VICTIM_SMALL ? base + (size_t)i * slot_size(t, 0)
				: base + SMALL_AREA + (size_t)(i - VICTIM_SMALL) * slot_size(t, i);
}

static uint8_t *slot_mem(const struct torture *t, int i)
{
	return shared_window(t->s, t->ranks) + slot_offset(t, i);
}

static void slot_renew(struct worker *w, int i)
{
	struct torture *t = w->t;

	t->slot_key[i] = uccl_rng_next(&w->poll);
	content_fill(slot_mem(t, i), slot_size(t, i), t->slot_key[i], 0);
	t->slot_busy[i] = false;
}

/* Bytes from `from` on are as they were left. */
static void slot_look(struct worker *w, struct request *op, int i, size_t from)
{
	struct torture *t = w->t;
	size_t size = slot_size(t, i), k = content_wrong(slot_mem(t, i) + from, size - from, t->slot_key[i], from);

	must(w, op, from + k == size, "byte %zu of slot %d at the victim was written to by nobody", from + k, i);
	count_check(w, size - from);
}

/* ---- ranks */

void victim_meet(struct worker *w)
{
	struct torture *t = w->t;
	char port[16];

	if (w->index || !t->s->cfg.port)
		return;
	snprintf(port, sizeof(port), "%d", t->s->cfg.port);
	call(w, fi_av_insertsvc(t->av, "127.0.0.1", port, &t->place, 0, NULL), 1);
	t->keyed = FI_ADDR_NOTAVAIL;
	for (int i = 0; i < VICTIM_SLOTS; i++)
		slot_renew(w, i);
}

/* The endpoint of the day has another name than that of yesterday. */
static void keyed_renew(struct worker *w)
{
	struct torture *t = w->t;
	struct victim *v = &t->s->victim;
	uint32_t inc = atomic_load(&v->incarnation);
	bool open = false;

	if (t->keyed_of == inc)
		return;
	for (int i = 0; i < TORTURE_OPS; i++) {
		struct request *op = &w->op[i];

		if (atomic_load(&op->state) != OP_OPEN || op->kind != VICTIM || !op->keyed)
			continue;
		open = true;
		/* One that was never connected waits for ever. */
		if (op->what == VICTIM_RECV && !atomic_load(&op->canceled)) {
			atomic_store(&op->canceled, true);
			fi_cancel(&t->ep->fid, op);
		}
	}
	if (open)
		return;
	if (t->keyed != FI_ADDR_NOTAVAIL)
		call(w, fi_av_remove(t->av, &t->keyed, 1, 0), 0);
	call(w, fi_av_insert(t->av, v->name[inc & 1], 1, &t->keyed, 0, NULL), 1);
	t->keyed_of = inc;
}

static ssize_t post(struct worker *w, struct uccl_rng *r, struct request *op)
{
	struct torture *t = w->t;
	fi_addr_t to = op->keyed ? t->keyed : t->place;
	uint64_t at = op->what == VICTIM_TICKET ? t->s->cfg.cells_at : slot_offset(t, op->cell);
	uint64_t rkey = VICTIM_RKEY;
	struct iovec iov[PIECES];
	size_t count;

	op_buf(op, r, op->len, op->what == VICTIM_TICKET ? 1 : PIECES);
	if (op->what == VICTIM_SEND || op->what == VICTIM_WRITE)
		shape_fill(&op->shape, op->buf, op->key);
	count = shape_iov(&op->shape, op->buf, iov);
	op_go(op, "to the victim");
	switch (op->what) {
	case VICTIM_SEND:
		return fi_tsendv(t->ep, iov, NULL, count, to, op->tag, op);
	case VICTIM_WRITE:
		return fi_writev(t->ep, iov, NULL, count, to, at, rkey, op);
	case VICTIM_READ:
		return fi_readv(t->ep, iov, NULL, count, to, at, rkey, op);
	case VICTIM_TICKET:
		op->v[0] = 1;
		return fi_fetch_atomic(t->ep, op->v, 1, NULL, iov[0].iov_base, NULL, to, at, rkey, FI_UINT64, FI_SUM,
				       op);
	default:
		return fi_trecvv(t->ep, iov, NULL, count, op->peer == ANYBODY ? FI_ADDR_UNSPEC : to, CLASS, ~15ull, op);
	}
}

/* What and how much; false: not now. */
static bool draw(struct worker *w, struct uccl_rng *r, struct request *op)
{
	struct torture *t = w->t;

	op->keyed = t->keyed != FI_ADDR_NOTAVAIL && uccl_rng_below(r, 2);
	op->cell = (int)uccl_rng_below(r, VICTIM_SLOTS);
	op->key = uccl_rng_next(r);
	if (op->what == VICTIM_RECV) {
		op->len = LEN_MAX;
		op->tagged = true;
		if (uccl_rng_below(r, 2))
			op->peer = ANYBODY;
		op->keyed = op->keyed && op->peer != ANYBODY;
	} else if (op->what == VICTIM_SEND) {
		op->tag = tag_of(t->rank, t->victim_seq);
		op->key = key_of(t, t->rank, t->ranks, t->victim_seq++);
		op->len = len_of(op->key);
	} else if (op->what == VICTIM_TICKET) {
		op->len = 8;
	} else {
		if (t->slot_busy[op->cell])
			return false;
		slot_look(w, op, op->cell, 0);
		op->len = size_draw(r, slot_size(t, op->cell));
		t->slot_busy[op->cell] = true;
	}
	return true;
}

void victim_call(struct worker *w, struct uccl_rng *r)
{
	static const int counter[] = {[VICTIM_SEND] = 0, [VICTIM_WRITE] = 2, [VICTIM_READ] = 1, [VICTIM_TICKET] = 1};
	struct torture *t = w->t;
	/* Which message came is told by its tag. */
	int what = (int)uccl_rng_below(r, t->me->tags ? VICTIM_RECV + 1 : VICTIM_RECV);
	struct request *op;
	ssize_t rc;

	if (w->index || !t->s->cfg.port || !atomic_load(&t->s->victim.incarnation))
		return;
	keyed_renew(w);
	if (open_here(w, what == VICTIM_RECV) >= (what == VICTIM_RECV ? RX_MAX : TX_MAX))
		return;
	op = op_new(w, VICTIM, t->ranks, 0);
	if (!op)
		return;
	op->what = what;
	if (!draw(w, r, op))
		return;
	op->gen = t->keyed_of;
	rc = post(w, r, op);
	/* The end of a process is told once by a call, or for ever if it was named by its endpoint. */
	if (rc && is_death((int)-rc)) {
		atomic_fetch_add(&t->s->victim.failed, 1);
		rc = -FI_EAGAIN;
	}
	if (!op_posted(w, op, rc, "a call for the victim")) {
		if (what == VICTIM_WRITE || what == VICTIM_READ)
			t->slot_busy[op->cell] = false;
		return;
	}
	if (what != VICTIM_RECV)
		atomic_fetch_add(&t->counted_ops[counter[what]], 1);
}

static void good_end(struct worker *w, struct request *op)
{
	struct torture *t = w->t;
	struct victim *v = &t->s->victim;
	size_t len = op->what == VICTIM_READ || op->what == VICTIM_RECV ? op->len : 0, where;
	uint64_t key = op->what == VICTIM_READ ? t->slot_key[op->cell] : 0, got;

	if (op->what == VICTIM_RECV) {
		uint64_t seq = op->end.tag >> 8;

		must(w, op, op->end.tag == tag_of(t->ranks, seq), "tag %llx", (unsigned long long)op->end.tag);
		key = key_of(t, t->ranks, t->rank, seq);
		len = len_of(key);
		must(w, op, op->end.len == len, "%zu bytes of %zu", op->end.len, len);
		seen_once(w, op, v->sent[t->rank], seq, "a message of the victim");
	} else if (op->what == VICTIM_TICKET) {
		shape_get(&op->shape, op->buf, 0, &got, 8);
		seen_once(w, op, v->tickets, got, "a ticket of the victim");
		return;
	} else if (op->what == VICTIM_WRITE) {
		got = content_wrong(slot_mem(t, op->cell), op->len, op->key, 0);
		must(w, op, got == op->len, "complete, but byte %zu is wrong at the victim", (size_t)got);
		slot_look(w, op, op->cell, op->len);
	}
	if (op->what == VICTIM_READ || op->what == VICTIM_RECV)
		must(w, op, buf_check(op->buf, &op->shape, key, len, &where),
		     "%zu bytes of the victim: byte %zu of the buffer is wrong", len, where);
	count_check(w, len);
}

/* How long the place was not reached after a process had come there. */
static void recovered(struct torture *t, const struct request *op)
{
	struct victim *v = &t->s->victim;
	uint64_t ready = atomic_load(&v->ready_ns), took = clock_ns() - ready, most;

	if (op->keyed || op->what == VICTIM_RECV || t->reached == atomic_load(&v->incarnation) || !ready)
		return;
	t->reached = atomic_load(&v->incarnation);
	/* Who began later than that was not kept waiting. */
	if (op->began_ns > ready + 50000000)
		return;
	for (most = atomic_load(&v->recover_ns); took > most;)
		if (atomic_compare_exchange_weak(&v->recover_ns, &most, took))
			break;
}

/* In the victim itself. */
static void own_ended(struct worker *w, struct request *op)
{
	struct torture *t = w->t;
	int from = op->end.tag >> 4 & 15;
	uint64_t seq = op->end.tag >> 8, key = key_of(t, from, t->rank, seq);
	size_t len = len_of(key), where;

	/* At the end of the run ranks go. */
	must(w, op, !op->end.err || atomic_load(&t->s->stop), "it failed: %d (%s)", op->end.err,
	     fi_strerror(op->end.err));
	if (op->what == VICTIM_RECV && !op->end.err) {
		must(w, op, from < t->ranks && op->end.tag == tag_of(from, seq) && op->end.len == len,
		     "tag %llx, %zu bytes", (unsigned long long)op->end.tag, op->end.len);
		must(w, op, buf_check(op->buf, &op->shape, key, len, &where),
		     "message %llu of rank %d: byte %zu is wrong", (unsigned long long)seq, from, where);
		seen_once(w, op, t->s->victim.received[from], seq, "a message");
		count_check(w, len);
	}
	op_end(w, op);
}

void victim_ended(struct worker *w, struct request *op)
{
	struct torture *t = w->t;
	struct victim *v = &t->s->victim;
	uint64_t ready = atomic_load(&v->ready_ns);
	int err = op->end.err;

	if (t->rank == t->ranks) {
		own_ended(w, op);
		return;
	}
	if (err == FI_ECANCELED) {
		must(w, op, atomic_load(&op->canceled), "canceled by nobody");
	} else if (err) {
		must(w, op, is_death(err), "it failed: %d (%s)", err, fi_strerror(err));
		must(w, op,
		     op->gen != atomic_load(&v->incarnation) || !ready ||
			     op->began_ns < ready + (uint64_t)(RECOVER_S * 1e9 * options.slack),
		     "it failed, but the victim lives since long: %d (%s)", err, fi_strerror(err));
		atomic_fetch_add(&v->failed, 1);
	} else {
		good_end(w, op);
		recovered(t, op);
	}
	if (op->what == VICTIM_WRITE)
		slot_renew(w, op->cell);
	if (op->what == VICTIM_READ)
		t->slot_busy[op->cell] = false;
	op_end(w, op);
}

void victim_leave(struct worker *w)
{
	struct torture *t = w->t;

	if (!t->s->cfg.port || w->index)
		return;
	for (int i = 0; i < TORTURE_OPS; i++) {
		if (atomic_load(&w->op[i].state) != OP_OPEN || w->op[i].kind != VICTIM)
			continue;
		atomic_store(&w->op[i].canceled, true);
		fi_cancel(&t->ep->fid, &w->op[i]);
	}
	for (int i = 0; i < VICTIM_SLOTS; i++)
		slot_look(w, NULL, i, 0);
}

/* ---- the victim */

static void own_recv(struct worker *w, struct uccl_rng *r)
{
	struct request *op = op_new(w, VICTIM, ANYBODY, LEN_MAX);
	struct iovec iov[PIECES];
	size_t count;

	if (!op)
		return;
	op->what = VICTIM_RECV;
	op_buf(op, r, op->len, PIECES);
	count = shape_iov(&op->shape, op->buf, iov);
	op_go(op, "receive");
	op_posted(w, op, fi_trecvv(w->t->ep, iov, NULL, count, FI_ADDR_UNSPEC, CLASS, ~15ull, op), "receive");
}

static void own_send(struct worker *w, struct uccl_rng *r)
{
	struct torture *t = w->t;
	int to = (int)uccl_rng_below(r, (uint64_t)t->ranks);
	struct request *op = t->s->member[to].tags ? op_new(w, VICTIM, to, 0) : NULL;
	uint64_t seq = (uint64_t)atomic_load(&t->s->victim.incarnation) << 20 | t->victim_seq;
	struct iovec iov[PIECES];
	size_t count;

	if (!op)
		return;
	op->what = VICTIM_SEND;
	op->tag = tag_of(t->rank, seq);
	op->key = key_of(t, t->rank, to, seq);
	op->len = len_of(op->key);
	op_buf(op, r, op->len, PIECES);
	shape_fill(&op->shape, op->buf, op->key);
	count = shape_iov(&op->shape, op->buf, iov);
	op_go(op, "send");
	if (op_posted(w, op, fi_tsendv(t->ep, iov, NULL, count, t->addr[to], op->tag, op), "send"))
		t->victim_seq++;
}

void victim_ready(struct worker *w)
{
	struct torture *t = w->t;
	struct victim *v = &t->s->victim;
	uint32_t inc = atomic_load(&v->incarnation) + 1;

	memcpy(v->name[inc & 1], t->me->name, sizeof(v->name[0]));
	atomic_store(&v->incarnation, inc);
	atomic_store(&v->ready_ns, clock_ns());
}

void victim_turn(struct worker *w)
{
	if (atomic_load(&w->t->s->stop))
		return;
	if (open_here(w, true) < 8)
		own_recv(w, &w->poll);
	if (open_here(w, false) < 4)
		own_send(w, &w->poll);
}
