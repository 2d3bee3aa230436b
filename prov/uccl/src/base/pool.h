/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A bounded pool of objects of one size: a free list over slabs. A slab is allocated when the list is empty, and freed
 * by fini only. Objects are zeroed when taken by `get`. Not thread safe.
 */
#ifndef UCCL_BASE_POOL_H
#define UCCL_BASE_POOL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

struct uccl_pool {
	size_t size;	  /* bytes of one object */
	uint32_t max;	  /* most objects at once */
	uint32_t used;	  /* objects now out */
	uint32_t total;	  /* objects in all slabs */
	void *free_list;
	void *slabs;
};

void uccl_pool_init(struct uccl_pool *p, size_t size, uint32_t max);
/* Frees all slabs, with any object that is still out. */
void uccl_pool_fini(struct uccl_pool *p);
/* An object that is not zeroed, where no free one is left; see uccl_pool_take. */
void *uccl_pool_more(struct uccl_pool *p);
/* NULL: `max` objects are out, or memory ran out. */
void *uccl_pool_get(struct uccl_pool *p);
/* The same, but what the object holds is any: its taker writes all that will be read. */
static inline void *uccl_pool_take(struct uccl_pool *p)
{
	void **obj = p->free_list;

	if (!obj)
		return uccl_pool_more(p);
#ifdef __SANITIZE_ADDRESS__
	ASAN_UNPOISON_MEMORY_REGION(obj, p->size > sizeof(*obj) ? p->size : sizeof(*obj));
#endif
	p->free_list = *obj;
	p->used++;
	return obj;
}
void uccl_pool_put(struct uccl_pool *p, void *obj);

#endif
