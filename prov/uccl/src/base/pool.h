/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A bounded pool of objects of one size: a free list over slabs. A slab is allocated when the list is empty, and freed
 * by fini only. Objects are zeroed when taken. Not thread safe.
 */
#ifndef UCCL_BASE_POOL_H
#define UCCL_BASE_POOL_H

#include <stddef.h>
#include <stdint.h>

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
/* NULL: `max` objects are out, or memory ran out. */
void *uccl_pool_get(struct uccl_pool *p);
void uccl_pool_put(struct uccl_pool *p, void *obj);

#endif
