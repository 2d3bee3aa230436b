/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Shadow ownership: regions ordered by address, found by binary search. */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/owner.h"

struct owner_part {
	uintptr_t begin, end;
};

struct uccl_owner_region {
	uintptr_t base, end;   /* watched */
	uintptr_t first, last; /* the buffer in it */
	enum uccl_owner_right right;
	struct owner_part *part; /* given back already */
	uint32_t nparts, part_cap;
};

void uccl_owner_init(struct uccl_owner *o)
{
	memset(o, 0, sizeof(*o));
}

static void region_free(struct uccl_owner_region *r)
{
	free(r->part);
	free(r);
}

void uccl_owner_fini(struct uccl_owner *o)
{
	uint32_t i;

	for (i = 0; i < o->n; i++)
		region_free(o->v[i]);
	free(o->v);
	memset(o, 0, sizeof(*o));
}

/* Index of the first region that ends behind p. */
static uint32_t region_find(const struct uccl_owner *o, uintptr_t p)
{
	uint32_t lo = 0, hi = o->n;

	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;

		if (o->v[mid]->end <= p)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

int uccl_owner_add(struct uccl_owner *o, const void *base, uint64_t total, uint64_t skip, uint64_t len)
{
	struct uccl_owner_region *r, **v;
	uint32_t i;

	if (o->n == o->cap) {
		uint32_t cap = o->cap ? o->cap * 2 : 64;

		v = realloc(o->v, cap * sizeof(*v));
		if (!v)
			return -FI_ENOMEM;
		o->v = v;
		o->cap = cap;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return -FI_ENOMEM;
	r->base = (uintptr_t)base;
	r->end = r->base + total;
	r->first = r->base + skip;
	r->last = r->first + len;
	i = region_find(o, r->base);
	memmove(&o->v[i + 1], &o->v[i], (o->n - i) * sizeof(*o->v));
	o->v[i] = r;
	o->n++;
	return 0;
}

static struct uccl_owner_region *region_at(const struct uccl_owner *o, const void *base)
{
	uint32_t i = region_find(o, (uintptr_t)base);

	return i < o->n && o->v[i]->base <= (uintptr_t)base ? o->v[i] : NULL;
}

void uccl_owner_remove(struct uccl_owner *o, const void *base)
{
	uint32_t i = region_find(o, (uintptr_t)base);

	if (i == o->n || o->v[i]->base != (uintptr_t)base)
		return;
	region_free(o->v[i]);
	o->n--;
	memmove(&o->v[i], &o->v[i + 1], (o->n - i) * sizeof(*o->v));
}

void uccl_owner_give(struct uccl_owner *o, const void *base, enum uccl_owner_right right)
{
	struct uccl_owner_region *r = region_at(o, base);

	if (!r)
		return;
	r->right = right;
	r->nparts = 0;
}

void uccl_owner_part(struct uccl_owner *o, const void *ptr, uint64_t len)
{
	struct uccl_owner_region *r = region_at(o, ptr);
	struct owner_part *part;

	if (!r || !len)
		return;
	if (r->nparts == r->part_cap) {
		uint32_t cap = r->part_cap ? r->part_cap * 2 : 8;

		part = realloc(r->part, cap * sizeof(*part));
		if (!part)
			return;
		r->part = part;
		r->part_cap = cap;
	}
	r->part[r->nparts++] = (struct owner_part){(uintptr_t)ptr, (uintptr_t)ptr + len};
}

const char *uccl_owner_check(const struct uccl_owner *o, const void *ptr, uint64_t len, enum uccl_owner_right right)
{
	uintptr_t p = (uintptr_t)ptr, end = p + len;
	const struct uccl_owner_region *r;
	uint32_t i = region_find(o, p);

	if (!len || i == o->n || o->v[i]->base >= end)
		return NULL;
	r = o->v[i];
	if (p < r->first || end > r->last)
		return "access beyond the ends of a buffer";
	if (r->right == UCCL_OWNER_NONE)
		return "access to a buffer that the application owns";
	if (right == UCCL_OWNER_WRITE && r->right != UCCL_OWNER_WRITE)
		return "write into a buffer that was posted to be sent";
	for (i = 0; i < r->nparts; i++) {
		if (p < r->part[i].end && end > r->part[i].begin)
			return "access to a part of a buffer that the application has back";
	}
	return NULL;
}
