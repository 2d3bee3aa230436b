/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/load_table.h"

#include <string.h>

#include "base/units.h"

/* More bytes than any link carries meanwhile, and few enough to be multiplied. */
#define BYTES_MAX (1ull << 40)

void uccl_load_table_init(struct uccl_load_table *b, uint8_t lanes)
{
	memset(b, 0, sizeof(*b));
	b->n = (uint8_t)(lanes + 1);
	for (uint8_t k = 0; k < b->n; k++)
		for (int dir = 0; dir < UCCL_LOAD_DIRS; dir++)
			b->entry[k].busy[dir] = k ? lanes : 1;
}

/*
 * What still counts. Clocks of threads may differ a little, and an entry may be read while it is written: numbers that
 * are somewhat wrong for a moment do no harm.
 */
static uint64_t entry_bytes(const struct uccl_load_entry *s, int dir, uint64_t now)
{
	uint64_t at = atomic_load_explicit(&s->at_ns, memory_order_relaxed);
	uint64_t bytes = atomic_load_explicit(&s->bytes[dir], memory_order_relaxed), age = now > at ? now - at : 0;

	return age < UCCL_LOAD_NS ? bytes * (UCCL_LOAD_NS - age) / UCCL_LOAD_NS : 0;
}

void uccl_load_table_update(struct uccl_load_table *b, uint8_t entry, const uint64_t moved[UCCL_LOAD_DIRS],
			    uint32_t busy[UCCL_LOAD_DIRS], uint64_t now)
{
	struct uccl_load_entry *mine = &b->entry[entry];

	for (int dir = 0; dir < UCCL_LOAD_DIRS; dir++)
		atomic_store_explicit(&mine->bytes[dir],
				      uccl_min(entry_bytes(mine, dir, now) + uccl_min(moved[dir], BYTES_MAX),
					       BYTES_MAX),
				      memory_order_relaxed);
	atomic_store_explicit(&mine->at_ns, now, memory_order_relaxed);
	for (int dir = 0; dir < UCCL_LOAD_DIRS; dir++) {
		uint64_t sum = 0, most = 0;

		for (uint8_t k = 0; k < b->n; k++) {
			uint64_t bytes = entry_bytes(&b->entry[k], dir, now);

			sum += bytes;
			most = uccl_max(most, bytes);
		}
		if (most)
			mine->busy[dir] = (uint32_t)((sum + most / 2) / most);
		busy[dir] = mine->busy[dir];
	}
}
