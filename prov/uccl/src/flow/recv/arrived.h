/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a flow: which chunks arrived. A window of bits over CSNs; its edge is the first that is missing.
 *
 * The grammar: init, then `take` once for each chunk that arrived, inside [nxt, nxt + window); the rest asks.
 */
#ifndef UCCL_FLOW_RECV_ARRIVED_H
#define UCCL_FLOW_RECV_ARRIVED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "flow/wire/wire.h"

struct uccl_arrived {
	uint64_t nxt;		/* first CSN not received */
	uint64_t high;		/* highest received + 1 */
	uint64_t *map;		/* window bits, indexed by CSN */
	uint32_t window;	/* chunks, a power of two, at least 64 */
};

/* False: no memory. */
bool uccl_arrived_init(struct uccl_arrived *a, uint32_t window, uint64_t first);
void uccl_arrived_fini(struct uccl_arrived *a);
/* Fill a block that has room for `nwords` words. */
void uccl_arrived_tell(const struct uccl_arrived *a, struct uccl_ack *ack, uint8_t nwords);

/* Did this one of the window arrive? */
static inline bool uccl_arrived_has(const struct uccl_arrived *a, uint64_t csn)
{
	uint64_t i = csn & (a->window - 1);

	return a->map[i / 64] >> (i % 64) & 1;
}

/* Chunk `csn` has arrived. */
static inline void uccl_arrived_take(struct uccl_arrived *a, uint64_t csn)
{
	uint64_t mask = a->window - 1;

	/* In order, mostly: its bit would be set and cleared. */
	if (csn == a->nxt && csn >= a->high) {
		a->nxt = a->high = csn + 1;
		return;
	}
	a->map[(csn & mask) / 64] |= 1ull << (csn % 64);
	if (csn >= a->high)
		a->high = csn + 1;
	while (uccl_arrived_has(a, a->nxt)) {
		uint64_t i = a->nxt & mask;

		a->map[i / 64] &= ~(1ull << (i % 64));
		a->nxt++;
	}
}

/* Words that a block needs to tell of all that arrived behind the first that is missing, at most `most`. */
static inline uint8_t uccl_arrived_words(const struct uccl_arrived *a, uint8_t most)
{
	uint64_t span = a->high > a->nxt ? a->high - a->nxt - 1 : 0;

	return (uint8_t)uccl_min((span + 63) / 64, most);
}

#endif
