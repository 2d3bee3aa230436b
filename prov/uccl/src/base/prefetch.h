/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Prefetching of memory that will be read or written soon: access to a line that is not in the cache stalls. */
#ifndef UCCL_BASE_PREFETCH_H
#define UCCL_BASE_PREFETCH_H

#include <stdint.h>

/* Bytes of a cache line on common processors. */
#define UCCL_CACHE_LINE 64

/*
 * Prefetch at[0..len), and up to seven lines behind it: the loop is unrolled, since a round of it costs more than a
 * prefetch that was not needed. Any address is allowed: a prefetch never faults. `rw`, `near`: see __builtin_prefetch.
 */
#define UCCL_PREFETCH(at, len, rw, near)                                                                               \
	for (uint32_t i = 0; i < (len); i += 8 * UCCL_CACHE_LINE) {                                                    \
		__builtin_prefetch((at) + i, rw, near);                                                                \
		__builtin_prefetch((at) + i + UCCL_CACHE_LINE, rw, near);                                              \
		__builtin_prefetch((at) + i + 2 * UCCL_CACHE_LINE, rw, near);                                          \
		__builtin_prefetch((at) + i + 3 * UCCL_CACHE_LINE, rw, near);                                          \
		__builtin_prefetch((at) + i + 4 * UCCL_CACHE_LINE, rw, near);                                          \
		__builtin_prefetch((at) + i + 5 * UCCL_CACHE_LINE, rw, near);                                          \
		__builtin_prefetch((at) + i + 6 * UCCL_CACHE_LINE, rw, near);                                          \
		__builtin_prefetch((at) + i + 7 * UCCL_CACHE_LINE, rw, near);                                          \
	}

static inline void uccl_prefetch_write(const uint8_t *at, uint32_t len)
{
	UCCL_PREFETCH(at, len, 1, 3)
}

/* The kernel reads it: to the second cache. */
static inline void uccl_prefetch_read(const uint8_t *at, uint32_t len)
{
	UCCL_PREFETCH(at, len, 0, 2)
}

#endif
