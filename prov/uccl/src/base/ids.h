/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Handles that a peer holds for our objects: 20 bits of index, 12 bits of generation. The lookup refuses a stale or
 * forged handle with probability 4095/4096. Otherwise it finds another object of the same kind. So the owner must also
 * check that the object belongs to the peer. Not thread safe.
 */
#ifndef UCCL_BASE_IDS_H
#define UCCL_BASE_IDS_H

#include <stdbool.h>
#include <stdint.h>

#define UCCL_IDS_MAX (1u << 20)

struct uccl_ids {
	struct uccl_ids_slot {
		void *obj;
		uint32_t next;	/* next free slot, index + 1; 0: none */
		uint16_t gen;	/* generation, 1..4095 */
	} *v;
	uint32_t cap, free_head, used;
};

void uccl_ids_init(struct uccl_ids *t);
void uccl_ids_fini(struct uccl_ids *t);
/* A new handle for `obj`. 0: out of memory, or all UCCL_IDS_MAX handles are in use. */
uint32_t uccl_ids_get(struct uccl_ids *t, void *obj);
/* The object of a handle; NULL: the handle is not in use. */
void *uccl_ids_find(const struct uccl_ids *t, uint32_t id);
/* True if this handle was given out and put back. Only the last 2047 generations of a slot are recognized. */
bool uccl_ids_was(const struct uccl_ids *t, uint32_t id);
/* End a handle that is in use. */
void uccl_ids_put(struct uccl_ids *t, uint32_t id);

#endif
