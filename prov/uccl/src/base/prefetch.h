/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Memory that is written soon is brought to the cache meanwhile: a store to what is not there waits for all of it. */
#ifndef UCCL_BASE_PREFETCH_H
#define UCCL_BASE_PREFETCH_H

#include <stdint.h>

/* Bytes of a cache line, as common processors have them. */
#define UCCL_CACHE_LINE 64

/*
 * len bytes from `at` on, and up to seven lines more: a round of the loop costs more than some of what it asks for.
 * It may be any address: what cannot be read is not brought.
 */
static inline void uccl_prefetch_write(const uint8_t *at, uint32_t len)
{
	for (uint32_t i = 0; i < len; i += 8 * UCCL_CACHE_LINE) {
		__builtin_prefetch(at + i, 1);
		__builtin_prefetch(at + i + UCCL_CACHE_LINE, 1);
		__builtin_prefetch(at + i + 2 * UCCL_CACHE_LINE, 1);
		__builtin_prefetch(at + i + 3 * UCCL_CACHE_LINE, 1);
		__builtin_prefetch(at + i + 4 * UCCL_CACHE_LINE, 1);
		__builtin_prefetch(at + i + 5 * UCCL_CACHE_LINE, 1);
		__builtin_prefetch(at + i + 6 * UCCL_CACHE_LINE, 1);
		__builtin_prefetch(at + i + 7 * UCCL_CACHE_LINE, 1);
	}
}

#endif
