/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Atomics on numbers that all ranks share: tickets (each is given once), sums, and chains of exchanges (each link
 * replaces the one before it).
 */
#include <string.h>

#include "uccl_torture.h"

enum { TICKET, SUM, CHAIN, CELL_KINDS };

static uint64_t *cell_mem(struct torture *t, int rank, int what, int i)
{
	return (uint64_t *)(shared_window(t->s, rank) + t->s->cfg.cells_at) + what * CELLS + i;
}

static bool cell_prepare(struct worker *w, struct request *op)
{
	struct cell *c = &w->t->s->member[op->peer].cell[op->cell];

	if (op->what == TICKET) {
		op->v[0] = 1;
		return atomic_load(&c->tickets) < CELL_MAX - TORTURE_RANKS * TORTURE_WORKERS;
	}
	if (op->what == SUM) {
		op->v[0] = op->key;
		return true;
	}
	op->cmp[0] = w->guess[op->peer][op->cell];
	op->v[0] = atomic_fetch_add(&c->ids, 1) + 1;
	return op->v[0] < CELL_MAX;
}

void cell_atomic(struct worker *w, struct uccl_rng *r)
{
	struct torture *t = w->t;
	struct request *op = op_new(w, ATOMIC, (int)uccl_rng_below(r, (uint64_t)t->ranks), 8);
	uint64_t at, rkey;
	struct cell *c;
	fi_addr_t to;
	void *got;
	ssize_t rc;

	if (!op)
		return;
	op->what = (int)uccl_rng_below(r, CELL_KINDS);
	op->cell = (int)uccl_rng_below(r, CELLS);
	op->key = uccl_rng_next(r);
	if (!cell_prepare(w, op))
		return;
	c = &t->s->member[op->peer].cell[op->cell];
	at = t->s->member[op->peer].addr + t->s->cfg.cells_at + (uint64_t)(op->what * CELLS + op->cell) * 8;
	rkey = t->s->member[op->peer].rkey;
	to = t->addr[op->peer];
	op_buf(op, r, 8, 1);
	got = op->buf->mem + op->shape.part[0].off;
	op_go(op, op->what == TICKET ? "ticket" : op->what == SUM ? "sum" : "chain");
	if (op->what == TICKET)
		rc = fi_fetch_atomic(t->ep, op->v, 1, NULL, got, NULL, to, at, rkey, FI_UINT64, FI_SUM, op);
	else if (op->what == SUM)
		rc = fi_atomic(t->ep, op->v, 1, NULL, to, at, rkey, FI_UINT64, FI_SUM, op);
	else
		rc = fi_compare_atomic(t->ep, op->v, 1, NULL, op->cmp, NULL, got, NULL, to, at, rkey, FI_UINT64,
				       FI_CSWAP, op);
	if (!op_posted(w, op, rc, "atomic"))
		return;
	if (op->what == TICKET)
		atomic_fetch_add(&c->tickets, 1);
	if (op->what == SUM)
		atomic_fetch_add(&c->sum, op->v[0]);
	atomic_fetch_add(&t->counted_ops[op->what == SUM ? 2 : 1], 1);
}

void cell_ended(struct worker *w, struct request *op)
{
	struct cell *c = &w->t->s->member[op->peer].cell[op->cell];
	uint64_t got = 0;

	must(w, op, !op->end.err, "it failed: %d (%s)", op->end.err, fi_strerror(op->end.err));
	if (op->what != SUM)
		shape_get(&op->shape, op->buf, 0, &got, 8);
	must(w, op, got < CELL_MAX, "cell %d of rank %d gave %llx", op->cell, op->peer, (unsigned long long)got);
	if (op->what == TICKET)
		must(w, op, !atomic_exchange(&c->seen[got], 1), "ticket %llu of cell %d of rank %d was given twice",
		     (unsigned long long)got, op->cell, op->peer);
	if (op->what == CHAIN) {
		w->guess[op->peer][op->cell] = (uint32_t)got;
		if (got == op->cmp[0]) {
			must(w, op, !atomic_exchange(&c->next[got], (uint32_t)op->v[0]),
			     "link %llu of chain %d of rank %d was replaced twice", (unsigned long long)got, op->cell,
			     op->peer);
			atomic_fetch_add(&c->linked, 1);
			w->guess[op->peer][op->cell] = (uint32_t)op->v[0];
		}
	}
	memset(op->v, 0x5a, sizeof(op->v));
	count_check(w, 8);
	op_end(w, op);
}

static void chain_check(struct worker *w, struct cell *c, int i)
{
	uint32_t at = 0, hops = 0;

	while (hops < CELL_MAX && atomic_load(&c->next[at])) {
		at = atomic_load(&c->next[at]);
		hops++;
	}
	must(w, NULL, hops == atomic_load(&c->linked), "chain %d has %u links, %u exchanges succeeded", i, hops,
	     atomic_load(&c->linked));
	must(w, NULL, *cell_mem(w->t, w->t->rank, CHAIN, i) == at, "chain %d ends with %u, but %llu is in memory", i,
	     at, (unsigned long long)*cell_mem(w->t, w->t->rank, CHAIN, i));
}

/* Of this rank's cells: all tickets were given, and nothing else. */
void cell_check(struct worker *w)
{
	struct torture *t = w->t;

	for (int i = 0; i < CELLS; i++) {
		struct cell *c = &t->me->cell[i];
		uint32_t n = atomic_load(&c->tickets);

		must(w, NULL, *cell_mem(t, t->rank, TICKET, i) == n, "cell %d gave %llu tickets, %u were taken", i,
		     (unsigned long long)*cell_mem(t, t->rank, TICKET, i), n);
		for (uint32_t k = 0; k < n; k++)
			must(w, NULL, atomic_load(&c->seen[k]), "ticket %u of cell %d was given to nobody", k, i);
		must(w, NULL, *cell_mem(t, t->rank, SUM, i) == atomic_load(&c->sum), "sum %d is %llu, not %llu", i,
		     (unsigned long long)*cell_mem(t, t->rank, SUM, i), (unsigned long long)atomic_load(&c->sum));
		chain_check(w, c, i);
		count_check(w, 0);
	}
}

void cell_reset(struct worker *w)
{
	memset(cell_mem(w->t, w->t->rank, 0, 0), 0, sizeof(uint64_t) * CELL_KINDS * CELLS);
	memset(w->t->me->cell, 0, sizeof(w->t->me->cell));
}
