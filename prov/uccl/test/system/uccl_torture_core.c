/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Operations of a worker, what is drawn for them, and what is told when one goes wrong. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "uccl_torture.h"

#define LARGE_FROM 12  /* sizes below 2^12 are drawn in 15 of 16 cases, */
#define LARGE_NEXT 0.6 /* and each power of two above so much more seldom than the one before */

const char *const kind_names[KINDS] = {"sends",	  "receives", "writes",	 "reads",
				       "atomics", "peeks",    "regions", "victims"};

uint64_t key_mix(uint64_t a, uint64_t b)
{
	struct uccl_rng r;

	uccl_rng_seed(&r, a ^ b * 0x9e3779b97f4a7c15ull);
	return uccl_rng_next(&r);
}

/* ---- what ranks share */

size_t shared_bytes(const struct config *c)
{
	/* One window more than ranks: the victim's. */
	return (sizeof(struct shared) + 4095) / 4096 * 4096 + (size_t)(c->ranks + 1) * c->window;
}

uint8_t *shared_window(struct shared *s, int rank)
{
	return (uint8_t *)s + (sizeof(*s) + 4095) / 4096 * 4096 + (size_t)rank * s->cfg.window;
}

struct shared *shared_map(int fd, size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		rank_fail("cannot map %zu bytes", bytes);
	return p;
}

/* ---- failure */

void op_text(const struct request *op, char *out, size_t size)
{
	static const char *const states[] = {"free", "open", "claimed", "done"};

	snprintf(out, size,
		 "%s %llu %s: peer %d, %zu bytes, %u parts, flags %llx, key %llx%s%s%s%s, tag %llx/%llx, %.1f s",
		 kind_names[op->kind], (unsigned long long)op->no, states[atomic_load(&op->state)], op->peer, op->len,
		 op->shape.n, (unsigned long long)op->flags, (unsigned long long)op->key, op->tagged ? ", tagged" : "",
		 op->multi ? ", multi-receive" : "", op->wild ? ", takes all" : "",
		 atomic_load(&op->canceled) ? ", canceled" : "", (unsigned long long)op->tag,
		 (unsigned long long)op->ignore, (double)(clock_ns() - op->began_ns) / 1e9);
}

void worker_dump(struct worker *w, bool all)
{
	char text[320];

	fprintf(stderr, "rank %d worker %d, round %u, call %llu; last calls:\n", w->t->rank, w->index,
		atomic_load(&w->t->s->round), (unsigned long long)w->calls);
	for (uint64_t i = 0; i < HISTORY; i++) {
		const struct history *h = &w->history[(w->calls + i + 1) % HISTORY];

		if (h->what)
			fprintf(stderr, "  %llu %s: peer %d, %zu bytes, %llx\n", (unsigned long long)h->no, h->what,
				h->peer, h->len, (unsigned long long)h->arg);
	}
	fprintf(stderr, "open operations:\n");
	for (int i = 0; i < TORTURE_OPS; i++) {
		const struct request *op = &w->op[i];

		if (atomic_load(&op->state) == OP_FREE || (!all && op->kind == RECV && !atomic_load(&op->canceled)))
			continue;
		op_text(op, text, sizeof(text));
		fprintf(stderr, "  %s\n", text);
	}
}

void torture_fail(struct worker *w, const struct request *op, const char *fmt, ...)
{
	char why[400], text[320] = "";
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	if (op)
		op_text(op, text, sizeof(text));
	fprintf(stderr, "seed %llu: %s\n  operation: %s\n  last error: %s\n", (unsigned long long)w->t->s->cfg.seed,
		why, text, w->error);
	worker_dump(w, true);
	rank_fail("seed %llu, worker %d, call %llu: %s", (unsigned long long)w->t->s->cfg.seed, w->index,
		  (unsigned long long)w->calls, why);
}

void worker_note(struct worker *w, const char *what, int peer, size_t len, uint64_t arg)
{
	w->history[w->calls % HISTORY] = (struct history){w->calls, what, peer, len, arg};
}

/* ---- operations */

size_t size_draw(struct uccl_rng *r, size_t max)
{
	unsigned int e = (unsigned int)uccl_rng_below(r, LARGE_FROM + 1);
	size_t len;

	if (!uccl_rng_below(r, 16))
		for (e = LARGE_FROM + 1; e < 23 && uccl_rng_chance(r, LARGE_NEXT); e++)
			;
	switch (uccl_rng_below(r, 8)) {
	case 0: /* at the edge */
		len = ((size_t)1 << e) + uccl_rng_below(r, 3) - 1;
		break;
	default:
		len = uccl_rng_below(r, ((size_t)1 << e) + 1);
	}
	return len > max ? max : len;
}

struct request *op_new(struct worker *w, enum kind kind, int peer, size_t len)
{
	for (int i = 0; i < TORTURE_OPS; i++) {
		struct request *op = &w->op[w->next_op++ % TORTURE_OPS];

		if (atomic_load(&op->state) != OP_FREE)
			continue;
		memset(op, 0, sizeof(*op));
		op->kind = kind;
		op->w = w;
		op->peer = peer;
		op->len = len;
		op->no = w->posted++;
		return op;
	}
	return NULL;
}

void op_buf(struct request *op, struct uccl_rng *r, size_t len, unsigned int max_parts)
{
	shape_draw(&op->shape, r, len, max_parts);
	op->buf = buf_new(op->shape.total, uccl_rng_next(r));
}

void op_go(struct request *op, const char *what)
{
	op->began_ns = clock_ns();
	worker_note(op->w, what, op->peer, op->len, op->key);
	atomic_store(&op->state, OP_OPEN);
}

bool op_waits(const struct request *op)
{
	return op->kind == RECV || (op->kind == VICTIM && op->what == VICTIM_RECV);
}

bool op_posted(struct worker *w, struct request *op, ssize_t rc, const char *what)
{
	if (!rc) {
		/* The operation may have ended by now, and be another one. */
		return true;
	}
	must(w, op, rc == -FI_EAGAIN, "%s: %zd (%s)", what, rc, fi_strerror((int)-rc));
	free(op->buf);
	free(op->want);
	op->buf = NULL;
	op->want = NULL;
	atomic_store(&op->state, OP_FREE);
	return false;
}

void worker_retire(struct worker *w, struct buf *b)
{
	size_t where;

	if (b && !quarantine_put(&w->quarantine, b, uccl_rng_next(&w->poll), &where))
		torture_fail(w, NULL, "a buffer was written to after its operation had ended, at byte %zu", where);
}

void op_end(struct worker *w, struct request *op)
{
	atomic_fetch_add(&w->t->me->done[op->kind], 1);
	worker_retire(w, op->buf);
	free(op->want);
	op->buf = NULL;
	op->want = NULL;
	atomic_store(&op->state, OP_FREE);
}

void op_injected(struct worker *w, struct request *op)
{
	op_end(w, op);
}

void count_check(struct worker *w, size_t bytes)
{
	atomic_fetch_add(&w->t->me->checks, 1);
	atomic_fetch_add(&w->t->me->bytes, bytes);
}

void meet_provider(struct worker *w)
{
	call(w, fi_cancel(&w->t->ep->fid, w), -FI_ENOENT);
}
