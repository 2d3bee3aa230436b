/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See schedule.h. In trees members count from the root on, as if it were member 0. */
#include "msg/collective/schedule.h"

#include <string.h>

/* Phases. */
enum { FIRST, SECOND };

static bool reduces(const struct uccl_coll_plan *p)
{
	return p->kind == UCCL_ALLREDUCE || p->kind == UCCL_REDUCE || p->kind == UCCL_REDUCE_SCATTER;
}

static uint32_t root_of(const struct uccl_coll_plan *p)
{
	return p->kind == UCCL_ALLREDUCE || p->kind == UCCL_REDUCE_SCATTER ? 0 : p->root;
}

/* What is reduced: of a reduce-scatter the parts of all. */
static uint64_t total_len(const struct uccl_coll_plan *p)
{
	return p->kind == UCCL_REDUCE_SCATTER ? p->n * p->len : p->len;
}

/* The result of an allreduce, and of a reduction at its root, adds up where it is wanted. */
static bool in_place(const struct uccl_coll_plan *p)
{
	return p->kind == UCCL_ALLREDUCE || (p->kind == UCCL_REDUCE && p->rank == p->root);
}

uint64_t uccl_coll_acc(const struct uccl_coll_plan *p)
{
	return reduces(p) && !in_place(p) ? total_len(p) : 0;
}

uint64_t uccl_coll_tmp(const struct uccl_coll_plan *p)
{
	return reduces(p) ? total_len(p) : 0;
}

uint8_t *uccl_coll_total(const struct uccl_coll_plan *p, uint64_t *len)
{
	*len = total_len(p);
	return in_place(p) ? p->dst : p->acc;
}

/*
 * What a member gives and gets: nothing, one part, or a part for each member; some of it only the root, or all others.
 */
enum amount { NONE, ONE, ALL, ROOT_ONE, ROOT_ALL, OTHERS_ONE };

static const struct {
	enum amount given, got;
} amounts[UCCL_COLLS] = {
	[UCCL_BARRIER] = { NONE, NONE },
	[UCCL_BROADCAST] = { ROOT_ONE, OTHERS_ONE },
	[UCCL_ALLTOALL] = { ALL, ALL },
	[UCCL_ALLREDUCE] = { ONE, ONE },
	[UCCL_ALLGATHER] = { ONE, ALL },
	[UCCL_REDUCE_SCATTER] = { ALL, ONE },
	[UCCL_REDUCE] = { ONE, ROOT_ONE },
	[UCCL_SCATTER] = { ROOT_ALL, ONE },
	[UCCL_GATHER] = { ONE, ROOT_ALL },
};

static uint64_t bytes(const struct uccl_coll_plan *p, enum amount amount)
{
	bool root = p->rank == p->root, parts = amount == ALL || (amount == ROOT_ALL && root);
	bool one = amount == ONE || (amount == ROOT_ONE && root) || (amount == OTHERS_ONE && !root);

	return parts ? p->n * p->len : one ? p->len : 0;
}

uint64_t uccl_coll_given(const struct uccl_coll_plan *p)
{
	return bytes(p, amounts[p->kind].given);
}

uint64_t uccl_coll_got(const struct uccl_coll_plan *p)
{
	return bytes(p, amounts[p->kind].got);
}

/* The buffers may be one and the same. */
static void copy(uint8_t *to, const uint8_t *from, uint64_t len)
{
	if (len && to != from)
		memmove(to, from, len);
}

void uccl_coll_begin(const struct uccl_coll_plan *p)
{
	uint64_t own = p->rank * p->len, len;
	bool root = p->rank == p->root;
	uint8_t *to;

	if (reduces(p)) {
		to = uccl_coll_total(p, &len);
		copy(to, p->src, len);
	} else if (p->kind == UCCL_ALLGATHER || (p->kind == UCCL_GATHER && root)) {
		copy(p->dst + own, p->src, p->len);
	} else if (p->kind == UCCL_ALLTOALL) {
		copy(p->dst + own, p->src + own, p->len);
	} else if (p->kind == UCCL_SCATTER && root) {
		copy(p->dst, p->src + own, p->len);
	}
}

void uccl_coll_end(const struct uccl_coll_plan *p)
{
	if (p->kind == UCCL_REDUCE_SCATTER && !p->rank)
		copy(p->dst, p->acc, p->len);
}

static bool barrier_step(const struct uccl_coll_plan *p, uint32_t i, struct uccl_coll_step *s)
{
	uint64_t far = 1ull << i;

	if (far >= p->n)
		return false;
	s->to = (int64_t)((p->rank + far) % p->n);
	s->from = (int64_t)((p->rank + p->n - far) % p->n);
	s->wait = true;
	return true;
}

/* From the root, the distances to whom it is passed on halve. */
static bool broadcast_step(const struct uccl_coll_plan *p, uint32_t i, uint8_t *buf, struct uccl_coll_step *s)
{
	uint32_t root = root_of(p), at = (p->rank + p->n - root) % p->n;
	uint64_t far = 1;

	if (at)
		far = at & -at;
	else
		while (far < p->n)
			far *= 2;
	s->send = s->recv = buf;
	s->len = p->len;
	if (at && !i) {
		s->from = (int64_t)((at - far + root) % p->n);
		return true;
	}
	far >>= at ? i : i + 1;
	if (!far)
		return false;
	/* What comes must be there before it is passed on. */
	s->wait = at && i == 1;
	if (at + far < p->n)
		s->to = (int64_t)((at + far + root) % p->n);
	return true;
}

/* The reverse: what the members below sent is added, then all of it goes to the member above. */
static bool reduce_step(const struct uccl_coll_plan *p, uint32_t i, struct uccl_coll_step *s)
{
	uint32_t root = root_of(p), at = (p->rank + p->n - root) % p->n;
	uint64_t far = 1ull << i;

	if (far >= p->n || at & (far - 1))
		return false;
	s->wait = true;
	if (at & far) {
		s->send = uccl_coll_total(p, &s->len);
		s->to = (int64_t)((at - far + root) % p->n);
	} else if (at + far < p->n) {
		s->recv = p->tmp;
		s->len = total_len(p);
		s->from = (int64_t)((at + far + root) % p->n);
		s->combine = true;
	}
	return true;
}

static uint32_t reduce_steps(const struct uccl_coll_plan *p)
{
	struct uccl_coll_step s;
	uint32_t i = 0;

	while (reduce_step(p, i, &s))
		i++;
	return i;
}

/* Parts of `all` from the root to everybody else. */
static bool scatter_step(const struct uccl_coll_plan *p, uint32_t i, const uint8_t *all, struct uccl_coll_step *s)
{
	uint32_t root = root_of(p);

	s->len = p->len;
	if (p->rank != root) {
		s->recv = p->dst;
		s->from = root;
		return !i;
	}
	s->to = (root + 1 + (int64_t)i) % p->n;
	s->send = all ? all + (uint64_t)s->to * p->len : NULL;
	return i + 1 < p->n;
}

static bool gather_step(const struct uccl_coll_plan *p, uint32_t i, struct uccl_coll_step *s)
{
	s->len = p->len;
	if (p->rank != p->root) {
		s->send = p->src;
		s->to = p->root;
		return !i;
	}
	s->from = (p->root + 1 + (int64_t)i) % p->n;
	s->recv = p->dst ? p->dst + (uint64_t)s->from * p->len : NULL;
	return i + 1 < p->n;
}

/* Each part goes round: what came in one step is passed on in the next. */
static bool allgather_step(const struct uccl_coll_plan *p, uint32_t i, struct uccl_coll_step *s)
{
	uint64_t out, in;

	if (i + 1 >= p->n)
		return false;
	out = (p->rank + p->n - i) % p->n;
	in = (p->rank + p->n - i - 1) % p->n;
	s->to = (p->rank + 1) % p->n;
	s->from = (p->rank + p->n - 1) % p->n;
	s->send = p->dst + out * p->len;
	s->recv = p->dst + in * p->len;
	s->len = p->len;
	s->wait = true;
	return true;
}

static bool alltoall_step(const struct uccl_coll_plan *p, uint32_t i, struct uccl_coll_step *s)
{
	if (i + 1 >= p->n)
		return false;
	s->to = (p->rank + (int64_t)i + 1) % p->n;
	s->from = (p->rank + p->n - (int64_t)i - 1) % p->n;
	s->send = p->src + (uint64_t)s->to * p->len;
	s->recv = p->dst + (uint64_t)s->from * p->len;
	s->len = p->len;
	return true;
}

/* The second half of a collective that begins with a reduction. */
static bool second_step(const struct uccl_coll_plan *p, uint32_t i, struct uccl_coll_step *s)
{
	bool more = p->kind == UCCL_ALLREDUCE ? broadcast_step(p, i, p->dst, s) : scatter_step(p, i, p->acc, s);

	s->phase = SECOND;
	s->wait |= !i;
	return more;
}

bool uccl_coll_step(const struct uccl_coll_plan *p, uint32_t i, struct uccl_coll_step *s)
{
	uint32_t first;

	*s = (struct uccl_coll_step){ .to = -1, .from = -1, .phase = FIRST };
	switch (p->kind) {
	case UCCL_BARRIER:
		return barrier_step(p, i, s);
	case UCCL_BROADCAST:
		return broadcast_step(p, i, p->dst, s);
	case UCCL_ALLTOALL:
		return alltoall_step(p, i, s);
	case UCCL_ALLGATHER:
		return allgather_step(p, i, s);
	case UCCL_SCATTER:
		return scatter_step(p, i, p->src, s);
	case UCCL_GATHER:
		return gather_step(p, i, s);
	case UCCL_REDUCE:
		return reduce_step(p, i, s);
	case UCCL_ALLREDUCE:
	case UCCL_REDUCE_SCATTER:
		first = reduce_steps(p);
		return i < first ? reduce_step(p, i, s) : second_step(p, i - first, s);
	default:
		return false;
	}
}
