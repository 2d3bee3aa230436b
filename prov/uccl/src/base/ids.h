/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Handles that a peer holds for our objects: 20 bits of index, 12 bits of generation. A stale or made-up handle finds
 * nothing, or at worst, once in 4096, an object of the same kind whose owner then checks the peer.
 */
#ifndef UCCL_BASE_IDS_H
#define UCCL_BASE_IDS_H

#include <stdbool.h>
#include <stdint.h>

#define UCCL_IDS_MAX (1u << 20)

struct uccl_ids {
	struct uccl_ids_slot {
		void *obj;
		uint32_t next;	/* free list, index + 1 */
		uint16_t gen;	/* 1..4095 */
	} *v;
	uint32_t cap, free_head, used;
};

void uccl_ids_init(struct uccl_ids *t);
void uccl_ids_fini(struct uccl_ids *t);
/* A new handle, never 0; 0: no memory or all in use. */
uint32_t uccl_ids_get(struct uccl_ids *t, void *obj);
/* NULL: no such handle. */
void *uccl_ids_find(const struct uccl_ids *t, uint32_t id);
/* Was this handle given out, and put back since? As far as generations tell: of 4095 the last 2047 count. */
bool uccl_ids_was(const struct uccl_ids *t, uint32_t id);
void uccl_ids_put(struct uccl_ids *t, uint32_t id);

#endif
