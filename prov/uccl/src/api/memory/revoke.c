/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See revoke.h. What was revoked stays so until the region is closed: a new registration has a new key. */
#include "api/memory/revoke.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/units.h"

/* A peer that has no rights, by its place. */
struct denied {
	UT_hash_handle hh;
	struct uccl_nic_addr from;
};

/* Bytes [from, to) that no peer may touch. They are in order, and none touches the next. */
struct range {
	uint64_t from, to;
};

struct uccl_mr_revoked {
	struct denied *peers;
	struct range *v;
	size_t n, room;
};

void uccl_mr_revoked_free(struct uccl_mr_revoked *r)
{
	struct denied *p, *next;

	if (!r)
		return;
	HASH_ITER(hh, r->peers, p, next) {
		HASH_DEL(r->peers, p);
		free(p);
	}
	free(r->v);
	free(r);
}

/* The first range that ends at or behind this byte; r->n: there is none. */
static size_t range_find(const struct uccl_mr_revoked *r, uint64_t at)
{
	size_t lo = 0, hi = r->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (r->v[mid].to < at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Equal places are equal bytes: see uccl_nic_addr_equal(). */
static struct uccl_nic_addr place_of(const struct uccl_nic_addr *a)
{
	struct uccl_nic_addr at = *a;

	at.pad = a->pad != 0;
	at.scope = a->pad ? a->scope : 0;
	return at;
}

static struct denied *denied_find(const struct uccl_mr_revoked *r, const struct uccl_nic_addr *from)
{
	struct uccl_nic_addr at = place_of(from);
	struct denied *p = NULL;

	HASH_FIND(hh, r->peers, &at, sizeof(at), p);
	return p;
}

bool uccl_mr_is_revoked(const struct uccl_mr_revoked *r, const struct uccl_nic_addr *from, uint64_t off, uint64_t len)
{
	size_t i = range_find(r, off + 1);

	return (i < r->n && r->v[i].from < off + len) || denied_find(r, from);
}

/* 0, or -FI_ENOMEM. */
static int range_add(struct uccl_mr_revoked *r, uint64_t from, uint64_t to)
{
	size_t i = range_find(r, from), end = i;

	while (end < r->n && r->v[end].from <= to)
		end++;
	if (end > i) {
		from = uccl_min(from, r->v[i].from);
		to = uccl_max(to, r->v[end - 1].to);
	} else if (r->n == r->room) {
		size_t room = r->room ? 2 * r->room : 8;
		struct range *v = realloc(r->v, room * sizeof(*v));

		if (!v)
			return -FI_ENOMEM;
		r->v = v;
		r->room = room;
	}
	memmove(r->v + i + 1, r->v + end, (r->n - end) * sizeof(*r->v));
	r->n = r->n - (end - i) + 1;
	r->v[i] = (struct range){from, to};
	return 0;
}

static int denied_add(struct uccl_mr_revoked *r, const struct uccl_nic_addr *from)
{
	struct denied *p = denied_find(r, from) ? NULL : calloc(1, sizeof(*p));

	if (!p)
		return denied_find(r, from) ? 0 : -FI_ENOMEM;
	p->from = place_of(from);
	HASH_ADD(hh, r->peers, from, sizeof(p->from), p);
	if (p->hh.tbl)
		return 0;
	free(p);
	return -FI_ENOMEM;
}

int uccl_mr_revoked_add(struct uccl_mr_revoked **r, const struct uccl_nic_addr *from, uint64_t off, uint64_t len)
{
	if (!*r)
		*r = calloc(1, sizeof(**r));
	if (!*r)
		return -FI_ENOMEM;
	return from ? denied_add(*r, from) : range_add(*r, off, off + len);
}
