/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/ids.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define INDEX_BITS 20
#define GEN_MAX 4095
#define CAP_MIN 64

void uccl_ids_init(struct uccl_ids *t)
{
	memset(t, 0, sizeof(*t));
}

void uccl_ids_fini(struct uccl_ids *t)
{
	free(t->v);
	memset(t, 0, sizeof(*t));
}

static int ids_grow(struct uccl_ids *t)
{
	uint32_t cap = t->cap ? t->cap * 2 : CAP_MIN;
	struct uccl_ids_slot *v;

	if (cap > UCCL_IDS_MAX)
		return -1;
	v = realloc(t->v, cap * sizeof(*v));
	if (!v)
		return -1;
	for (uint32_t i = t->cap; i < cap; i++)
		v[i] = (struct uccl_ids_slot){ .next = i + 1 < cap ? i + 2 : 0, .gen = 1 };
	t->free_head = t->cap + 1;
	t->v = v;
	t->cap = cap;
	return 0;
}

uint32_t uccl_ids_get(struct uccl_ids *t, void *obj)
{
	uint32_t i;

	if (!t->free_head && ids_grow(t))
		return 0;
	i = t->free_head - 1;
	t->free_head = t->v[i].next;
	t->v[i].obj = obj;
	t->used++;
	return (uint32_t)t->v[i].gen << INDEX_BITS | i;
}

void *uccl_ids_find(const struct uccl_ids *t, uint32_t id)
{
	uint32_t i = id & (UCCL_IDS_MAX - 1);

	if (i >= t->cap || t->v[i].gen != id >> INDEX_BITS)
		return NULL;
	return t->v[i].obj;
}

bool uccl_ids_was(const struct uccl_ids *t, uint32_t id)
{
	uint32_t i = id & (UCCL_IDS_MAX - 1), gen = id >> INDEX_BITS, age;

	if (i >= t->cap || !gen)
		return false;
	age = (t->v[i].gen + GEN_MAX - gen) % GEN_MAX;
	return age && age <= GEN_MAX / 2;
}

void uccl_ids_put(struct uccl_ids *t, uint32_t id)
{
	uint32_t i = id & (UCCL_IDS_MAX - 1);

	if (!uccl_ids_find(t, id))
		return;
	t->v[i].obj = NULL;
	t->v[i].gen = (uint16_t)(t->v[i].gen % GEN_MAX + 1);
	t->v[i].next = t->free_head;
	t->free_head = i + 1;
	t->used--;
}
