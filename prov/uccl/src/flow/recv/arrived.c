/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/recv/arrived.h"

#include <stdlib.h>

bool uccl_arrived_init(struct uccl_arrived *a, uint32_t window, uint64_t first)
{
	a->nxt = a->high = first;
	a->window = window;
	a->map = calloc(window / 64, sizeof(*a->map));
	return a->map;
}

void uccl_arrived_fini(struct uccl_arrived *a)
{
	free(a->map);
	a->map = NULL;
}

void uccl_arrived_tell(const struct uccl_arrived *a, struct uccl_ack *ack, uint8_t nwords)
{
	ack->cum = (uint32_t)a->nxt;
	ack->nwords = nwords;
	for (uint8_t w = 0; w < nwords; w++) {
		ack->sack[w] = 0;
		for (unsigned int b = 0; b < 64; b++) {
			uint64_t csn = a->nxt + 1 + 64u * w + b;

			if (csn < a->high && uccl_arrived_has(a, csn))
				ack->sack[w] |= 1ull << b;
		}
	}
}
