/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/board.h"

#include <string.h>

#include "base/units.h"

/* More bytes than any link carries meanwhile, and few enough to be multiplied. */
#define BYTES_MAX (1ull << 40)

void uccl_board_init(struct uccl_board *b, uint8_t lanes)
{
	memset(b, 0, sizeof(*b));
	b->n = (uint8_t)(lanes + 1);
	for (uint8_t k = 0; k < b->n; k++)
		for (int way = 0; way < UCCL_BOARD_WAYS; way++)
			b->seat[k].busy[way] = k ? lanes : 1;
}

/*
 * What still counts. Clocks of threads may differ a little, and a seat may be read while it is written: numbers that
 * are somewhat wrong for a moment do no harm.
 */
static uint64_t seat_bytes(const struct uccl_board_seat *s, int way, uint64_t now)
{
	uint64_t at = atomic_load_explicit(&s->at_ns, memory_order_relaxed);
	uint64_t bytes = atomic_load_explicit(&s->bytes[way], memory_order_relaxed), age = now > at ? now - at : 0;

	return age < UCCL_BOARD_NS ? bytes * (UCCL_BOARD_NS - age) / UCCL_BOARD_NS : 0;
}

void uccl_board_busy(struct uccl_board *b, uint8_t seat, const uint64_t moved[UCCL_BOARD_WAYS],
		     uint32_t busy[UCCL_BOARD_WAYS], uint64_t now)
{
	struct uccl_board_seat *mine = &b->seat[seat];

	for (int way = 0; way < UCCL_BOARD_WAYS; way++)
		atomic_store_explicit(&mine->bytes[way],
				      uccl_min(seat_bytes(mine, way, now) + uccl_min(moved[way], BYTES_MAX), BYTES_MAX),
				      memory_order_relaxed);
	atomic_store_explicit(&mine->at_ns, now, memory_order_relaxed);
	for (int way = 0; way < UCCL_BOARD_WAYS; way++) {
		uint64_t sum = 0, most = 0;

		for (uint8_t k = 0; k < b->n; k++) {
			uint64_t bytes = seat_bytes(&b->seat[k], way, now);

			sum += bytes;
			most = uccl_max(most, bytes);
		}
		if (most)
			mine->busy[way] = (uint32_t)((sum + most / 2) / most);
		busy[way] = mine->busy[way];
	}
}
