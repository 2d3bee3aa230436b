/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Regions that are closed while peers use them. One that was closed is poisoned: a late write shows in it, and a late
 * read brings poison.
 */
#include <stdlib.h>
#include <string.h>

#include "uccl_torture.h"

static uint8_t *region_mem(struct torture *t, int i)
{
	return shared_window(t->s, t->rank) + t->s->cfg.regions_at + (size_t)i * REGION_BYTES;
}

static uint64_t region_key(const struct torture *t, int rank, int i, uint64_t gen)
{
	return key_mix(t->s->cfg.seed + gen, (uint64_t)(rank * REGIONS + i + 1));
}

static void region_open(struct worker *w, struct uccl_rng *r, int i)
{
	struct torture *t = w->t;
	struct region_info *info = &t->me->region[i];
	uint64_t gen = t->region_gen[i] + 1, want = 1000 + gen * REGIONS + (uint64_t)i;
	bool readable = uccl_rng_below(r, 2);
	uint8_t *mem = region_mem(t, i);

	if (readable)
		content_fill(mem, REGION_BYTES, region_key(t, t->rank, i, gen), 0);
	call(w,
	     fi_mr_reg(t->domain, mem, REGION_BYTES, readable ? FI_REMOTE_READ : FI_REMOTE_WRITE, 0, want, 0,
		       &t->region_mr[i], NULL),
	     0);
	t->region_gen[i] = gen;
	atomic_store(&info->addr, t->virtual_mr ? (uint64_t)(uintptr_t)mem : 0);
	atomic_store(&info->rkey, fi_mr_key(t->region_mr[i]));
	atomic_store(&info->readable, readable);
	atomic_store(&info->gen, gen);
}

static void region_close(struct worker *w, int i)
{
	struct torture *t = w->t;

	/* From now on peers may be refused. */
	atomic_store(&t->me->region[i].gen, ++t->region_gen[i]);
	call(w, fi_close(&t->region_mr[i]->fid), 0);
	t->region_mr[i] = NULL;
	content_fill(region_mem(t, i), REGION_BYTES, region_key(t, t->rank, i, t->region_gen[i]), 0);
}

static void region_look(struct worker *w, int i)
{
	struct torture *t = w->t;
	size_t k;

	if (!t->region_gen[i])
		return;
	k = content_wrong(region_mem(t, i), REGION_BYTES, region_key(t, t->rank, i, t->region_gen[i]), 0);
	must(w, NULL, k == REGION_BYTES, "byte %zu of region %d was written to after the region was closed", k, i);
	count_check(w, REGION_BYTES);
}

/* The first worker has the regions of a rank. */
void region_turn(struct worker *w, struct uccl_rng *r)
{
	int i = (int)uccl_rng_below(r, REGIONS);

	if (w->index)
		return;
	worker_note(w, w->t->region_mr[i] ? "close a region" : "open a region", w->t->rank, REGION_BYTES, (uint64_t)i);
	if (w->t->region_mr[i]) {
		region_close(w, i);
		return;
	}
	region_look(w, i);
	if (uccl_rng_below(r, 3))
		region_open(w, r, i);
}

/* Each worker writes to a part of its own, one write at a time: writes that meet would be nobody's fault. */
static bool writes_there(const struct worker *w, int peer, int i)
{
	for (int k = 0; k < TORTURE_OPS; k++) {
		const struct request *op = &w->op[k];

		if (atomic_load(&op->state) != OP_FREE && op->kind == REGION && !op->what && op->peer == peer &&
		    op->cell == i)
			return true;
	}
	return false;
}

void region_access(struct worker *w, struct uccl_rng *r)
{
	struct torture *t = w->t;
	int peer = (int)uccl_rng_below(r, (uint64_t)t->ranks), i = (int)uccl_rng_below(r, REGIONS);
	struct region_info *info = &t->s->member[peer].region[i];
	uint64_t gen = atomic_load(&info->gen), addr = atomic_load(&info->addr), rkey = atomic_load(&info->rkey);
	bool readable = atomic_load(&info->readable);
	size_t parts = readable ? 1 : (size_t)(t->ranks * t->workers), part = REGION_BYTES / parts;
	size_t begin = readable ? 0 : (size_t)(t->rank * t->workers + w->index) * part, len, off;
	struct request *op;
	ssize_t rc;
	void *mem;

	if (!(gen & 1) || atomic_load(&info->gen) != gen || (!readable && writes_there(w, peer, i)))
		return;
	/* Long ones are often under way when the region is closed. */
	len = uccl_rng_below(r, 3) ? size_draw(r, part) : uccl_rng_below(r, part + 1);
	off = begin + uccl_rng_below(r, part - len + 1);
	op = op_new(w, REGION, peer, len);
	if (!op)
		return;
	op->cell = i;
	op->gen = gen;
	op->what = readable;
	op->range[0] = (struct range){off, len};
	op->n = 1;
	op_buf(op, r, len, 1);
	mem = op->buf->mem + op->shape.part[0].off;
	op_go(op, readable ? "read of a region" : "write to a region");
	if (readable)
		rc = fi_read(t->ep, mem, len, NULL, t->addr[peer], addr + off, rkey, op);
	else
		rc = fi_write(t->ep, mem, len, NULL, t->addr[peer], addr + off, rkey, op);
	if (op_posted(w, op, rc, "access to a region"))
		atomic_fetch_add(&t->counted_ops[readable ? 1 : 2], 1);
}

void region_ended(struct worker *w, struct request *op)
{
	struct torture *t = w->t;
	int err = op->end.err;
	size_t k, off = op->range[0].off;

	must(w, op, !err || err == FI_EKEYREJECTED || err == FI_EACCES || err == FI_ECANCELED,
	     "an access to a region that may be closed failed with %d (%s)", err, fi_strerror(err));
	must(w, op, !err || atomic_load(&t->s->member[op->peer].region[op->cell].gen) != op->gen,
	     "an access to a region that is open failed with %d (%s)", err, fi_strerror(err));
	if (err) {
		atomic_fetch_add(&t->me->refused, 1);
	} else if (op->what) {
		k = content_wrong(op->buf->mem + op->shape.part[0].off, op->len,
				  region_key(t, op->peer, op->cell, op->gen), off);
		must(w, op, k == op->len, "byte %zu of a region is wrong: it was read after the region was closed", k);
		count_check(w, op->len);
	}
	op_end(w, op);
}

void region_check(struct worker *w)
{
	for (int i = 0; i < REGIONS; i++)
		if (!w->t->region_mr[i])
			region_look(w, i);
}

void region_close_all(struct worker *w)
{
	for (int i = 0; i < REGIONS; i++)
		if (w->t->region_mr[i])
			region_close(w, i);
}
