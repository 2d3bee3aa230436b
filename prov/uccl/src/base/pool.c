/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Free objects are chained through their own first word. Slabs double in size, so that a pool which needs few objects
 * stays small and one that needs many allocates seldom. Under AddressSanitizer a free object is poisoned: use after put
 * is found as surely as use after free.
 */
#include "base/pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

#ifndef __SANITIZE_ADDRESS__
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

/* Objects in the first slab. */
#define POOL_SLAB_FIRST 16
/* Most bytes of objects in one slab, unless a single object is larger. */
#define POOL_SLAB_BYTES (1u << 20)

struct pool_slab {
	struct pool_slab *next;
	_Alignas(max_align_t) uint8_t objects[];
};

struct pool_free {
	struct pool_free *next;
};

/* Bytes from one object to the next: room for the chain, and every object aligned for any type. */
static size_t pool_stride(const struct uccl_pool *p)
{
	size_t align = _Alignof(max_align_t);
	size_t size = uccl_max(p->size, sizeof(struct pool_free));

	return (size + align - 1) / align * align;
}

static void pool_chain(struct uccl_pool *p, void *obj)
{
	struct pool_free *f = obj;

	f->next = p->free_list;
	p->free_list = f;
	ASAN_POISON_MEMORY_REGION(obj, pool_stride(p));
}

static void pool_grow(struct uccl_pool *p)
{
	size_t stride = pool_stride(p);
	uint64_t most = uccl_max(POOL_SLAB_BYTES / stride, 1);
	uint64_t n = uccl_min(uccl_max(p->total, POOL_SLAB_FIRST), uccl_min(most, p->max - p->total));
	struct pool_slab *slab;

	if (!n)
		return;
	slab = malloc(sizeof(*slab) + n * stride);
	if (!slab)
		return;
	slab->next = p->slabs;
	p->slabs = slab;
	/* Backwards, so that objects are first handed out in the order of their addresses. */
	for (uint64_t i = n; i-- > 0;)
		pool_chain(p, slab->objects + i * stride);
	p->total += (uint32_t)n;
}

void uccl_pool_init(struct uccl_pool *p, size_t size, uint32_t max)
{
	memset(p, 0, sizeof(*p));
	p->size = size;
	p->max = max;
}

void uccl_pool_fini(struct uccl_pool *p)
{
	struct pool_slab *slab = p->slabs;

	while (slab) {
		struct pool_slab *next = slab->next;

		free(slab);
		slab = next;
	}
	uccl_pool_init(p, p->size, p->max);
}

void *uccl_pool_more(struct uccl_pool *p)
{
	pool_grow(p);
	return p->free_list ? uccl_pool_take(p) : NULL;
}

void *uccl_pool_get(struct uccl_pool *p)
{
	void *obj = uccl_pool_take(p);

	if (obj)
		memset(obj, 0, uccl_max(p->size, sizeof(struct pool_free)));
	return obj;
}

void uccl_pool_put(struct uccl_pool *p, void *obj)
{
	assert(obj);
	assert(p->used > 0);
	p->used--;
	pool_chain(p, obj);
}
